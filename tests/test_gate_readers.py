"""A canary in every place of a document that can hold words; no reader of the vault or the host may show it while the gate is on."""
import inspect
import json
import re
import tempfile
from pathlib import Path


import pytest
from ramabana.config import set_setting
from ramabana.core import AgentError
from ramabana.memory import Vault
from ramabana.pii import find_pii
from ramabana.testing import FakeChat
from ramabana.tools import tools_for
from ramabana.vault import VaultHost

CANARY = 'marit.holm@example.com'
TEXT = f'# Letter\n\n## one\nrivers and boats\n\n## write to {CANARY}\nabout lakes and {CANARY}\n\n## third\nmore lakes\n'

WORDS = dict(canary=f'ring {CANARY} about the lakes', diary='quokka lakes')
WATCHES = ('watches', 'watch', 'pause', 'resume', 'run_watch', 'poll', 'runs', 'jobs', 'dead')   # of documents of their own
ACTING = ('remind', 'url', 'web', 'folder', 'reread', 'arxiv')

def watching(vault):
    "What is watched: the words of a document that a person marked, when there is one."
    return dict(target=WORDS['diary' if vault.doc('quokka diary') else 'canary'], every='1w', tz='UTC')

def watched(vault):
    "A reminder with the words; when a person marked a document, the reminder's own note is marked, too."
    row = vault.watch(**watching(vault))
    if vault.doc('quokka diary'):
        vault.run_watch(row)
        vault.mark_pii(f'note:reminder:{row["id"]}')
    return row

def queued(vault, state='ready'):
    row = watched(vault)
    with vault.store.engine.write(): vault.store.engine.rows('insert or ignore into jobs(watch, due, run_at, state) values(?, 1, 1, ?)', (row['id'], state))
    return True

def acting(name):
    "What an action tells when a person calls it. It is shown what was read."
    def call(vault, uid, **kw):
        from ramabana.filing import Filing
        set_setting('search.provider', 'off')
        marked, words = vault.doc('quokka diary'), watching(vault)['target']
        vault._do = lambda made, watch, pii, names: type(vault)._do(vault, Filing(result=dict(doc_id=marked['doc_id'] if marked else '', title=words, diff=words)), watch, pii, names)
        try: return getattr(vault, name)(words, **kw)
        except (AgentError, ValueError): return type(vault)._do(vault, Filing(result=dict(doc_id=marked['doc_id'] if marked else '', diff=words)), None, kw.get('pii', 'off'), False)
    return call

READERS = {
    'doc': lambda v, d, **kw: v.doc(d, **kw), 'document': lambda v, d, **kw: v.document(d, **kw), 'read': lambda v, d, **kw: [v.read(f'{d}#{n}', **kw) for n in range(4)] + [v.read(d, **kw)],
    'toc': lambda v, d, **kw: v.toc(**kw), 'sources': lambda v, d, **kw: v.sources(**kw), 'versions': lambda v, d, **kw: v.versions(d, **kw),
    'search': lambda v, d, **kw: v.search('lakes', **kw), 'sections': lambda v, d, **kw: v.sections('lakes', **kw), 'context': lambda v, d, **kw: v.context('rivers boats', sections=2, **kw),
    'related': lambda v, d, **kw: v.related(f'{d}#1', **kw), 'federate': lambda v, d, **kw: v.federate('lakes', **kw), 'marks': lambda v, d, **kw: v.marks(**kw),
    'confirm': lambda v, d, **kw: v.confirm(d, **kw), 'stale': lambda v, d, **kw: v.stale(older=-1, **kw), 'supersede': lambda v, d, **kw: v.supersede(d, v.note('newer lakes', key='newer')['doc_id'], **kw),
    'watches': lambda v, d, **kw: watched(v) and v.watches(**kw), 'watch': lambda v, d, **kw: watched(v) and v.watch(**watching(v), **kw), 'pause': lambda v, d, **kw: v.pause(watched(v)['id'], **kw),
    'resume': lambda v, d, **kw: v.resume(watched(v)['id'], **kw), 'run_watch': lambda v, d, **kw: v.run_watch(watched(v)['id'], **kw),
    'poll': lambda v, d, **kw: v.poll(at=watched(v)['next_run'] + 9, connect=False, **kw), 'runs': lambda v, d, **kw: v.run_watch(watched(v)) and v.runs(**kw),
    'jobs': lambda v, d, **kw: queued(v) and v.jobs(**kw), 'dead': lambda v, d, **kw: queued(v, 'dead') and v.dead(**kw), **{name: acting(name) for name in ACTING}}
def exported(vault, **kw):
    "All that an export writes."
    with tempfile.TemporaryDirectory() as folder:
        said = vault.export(f'{folder}/out', **kw)
        return [said['left_out'], [(p.name, p.read_text(encoding='utf-8')) for p in sorted(Path(folder).rglob('*.md'))]]   # the records of a whole export hold them once more
def connected(vault):
    "Topics, and a graph whose names are those of every document."
    vault.connect(chat=FakeChat('llama', otherwise=json.dumps(dict(entities=[[CANARY if vault.doc(f'/mail/{CANARY}.md') else 'quokka', 'x']], edges=[]))))
    return True
READERS |= {'map': lambda v, d, **kw: connected(v) and v.map(**kw), 'topic_tree': lambda v, d, **kw: connected(v) and v.topic_tree(**kw), 'entities': lambda v, d, **kw: connected(v) and [row for row in v.entities(**kw) if d in row['docs']]}
READERS['export'] = lambda v, d, **kw: exported(v, **kw)
ASKED = {'ask': lambda v, d, **kw: v.ask('what about lakes?', **kw), 'explain': lambda v, d, **kw: v.explain(f'{d}#2', **kw)}   # what gives an answer
OTHERS = set('add note add_file add_files add_dir forget mark_pii mark_not_pii close path db encoder stats shelves shelf encode_pending check rebuild backup unwatch retry_job chat sends import_ reencode connect mark_noisy picture'.split())   # what gives no stored text
HOST = {'memory_search': lambda h, d: h.memory_search('rivers boats', limit=2), 'memory_tree': lambda h, d: h.memory_tree(), 'memory_read': lambda h, d: [h.memory_read(f'{d}#{n}') for n in range(4)],
    'watches': lambda h, d: watched(h.vault) and h.watches(), 'watch': lambda h, d: watched(h.vault) and h.watch(**watching(h.vault)), 'poll': lambda h, d: h.poll(at=watched(h.vault)['next_run'] + 9),
    'tool list_watches': lambda h, d: watched(h.vault) and tool(h, 'list_watches')(),
    'search': lambda h, d: h.search('lakes'), 'tool search': lambda h, d: tool(h, 'search')('lakes'), 'tool memory_search': lambda h, d: tool(h, 'memory_search')('lakes'),
    'tool memory_read': lambda h, d: tool(h, 'memory_read')(f'{d}#2')}

def tool(host, name): return next(t for t in tools_for(host) if t.__name__ == name)

@pytest.fixture
def kept(tmp_path):
    with Vault(tmp_path/'v.db') as vault:
        for word in ('one', 'first'):       # the second time makes the first a version
            told = vault.add(TEXT.replace('one', word), title=f'letter of {CANARY}', source=f'/mail/{CANARY}.md', kind='markdown', meta={'from': CANARY, 'tags': [CANARY]})
        vault.note('another note about lakes', title='other', key=CANARY)
        vault.mark_pii('other', CANARY)
        yield vault, told['doc_id']

def diary(vault):
    "A document in which arithmetic finds nothing."
    return vault.add('# Rain\n\nNo letter today: quokka.\n\n## lakes\nquokka again\n\n## third\nquokka\n\n## fourth\nquokka\n', title='quokka diary', source='/d/quokka.md', kind='markdown')['doc_id']

def test_every_reader_is_walked():
    public = {name for name, _ in inspect.getmembers(Vault) if not name.startswith('_')}
    assert public == set(READERS) | set(ASKED) | OTHERS, 'a new method either gives stored text, then it takes pii and is walked here, or it gives none'
    assert {name for name in public - {'path', 'db', 'encoder'} if 'pii' in inspect.signature(getattr(Vault, name)).parameters} == set(READERS) | {'ask', 'picture'}

@pytest.mark.parametrize('policy', ['redact', 'refuse'])
@pytest.mark.parametrize('reader', READERS)
def test_no_reader_of_the_vault_shows_it(kept, reader, policy):
    vault, uid = kept
    if reader != 'federate': assert CANARY in repr(READERS[reader](vault, uid))
    assert CANARY not in repr(READERS[reader](vault, uid, pii=policy))

@pytest.mark.parametrize('policy', ['redact', 'refuse'])
def test_no_label_of_a_topic_shows_it(kept, policy):
    vault, _ = kept
    connected(vault)
    vault.store.engine.rows('update topics set label = ?, terms = ? where parent is not null', (CANARY, CANARY))
    for call in vault.map, vault.topic_tree, vault.picture: assert CANARY in repr(call()) and CANARY not in repr(call(pii=policy))

@pytest.mark.parametrize('policy', ['redact', 'refuse'])
def test_what_is_marked_later_names_no_topic(tmp_path, policy):
    with Vault(tmp_path/'v.db') as vault:
        for n in range(4): vault.note(f'quokka {n} is a secret', title=f'quokka {n}')
        connected(vault)
        for row in vault.toc(): vault.mark_pii(row['doc_id'])
        for _ in range(2):
            for call in vault.map, vault.topic_tree, vault.entities, vault.picture: assert 'quokka' not in repr(call(pii=policy))
            vault.connect()

@pytest.mark.parametrize('policy', ['redact', 'refuse'])
@pytest.mark.parametrize('reader', HOST)
def test_no_reader_of_the_host_shows_it(kept, tmp_path, reader, policy):
    vault, uid = kept
    host = VaultHost([tmp_path], vault=vault, index=False, web=False, pii=policy)
    assert CANARY not in repr(HOST[reader](host, uid))

@pytest.mark.parametrize('policy', ['local', 'redact', 'refuse'])
@pytest.mark.parametrize('runtime', ['llama', 'remote'])
@pytest.mark.parametrize('call', ASKED)
def test_no_answer_shows_it(kept, call, runtime, policy):
    "The chat repeats all that it reads."
    vault, uid = kept
    class Parrot:
        prompts: list = []
        def chat(self, prompt, **kw):
            self.prompts.append(prompt)
            return f'<think>{prompt}</think>{prompt}'
    chat = Parrot()
    chat.runtime, chat.prompts = runtime, []
    said = ASKED[call](vault, uid, pii=policy, mk_chat=lambda model=None, **kw: chat)
    assert CANARY not in repr(said) + repr(vault.sends())
    assert len(chat.prompts) == {'local': int(runtime == 'llama'), 'redact': 1, 'refuse': 0}[policy]
    assert runtime == 'llama' or CANARY not in repr(chat.prompts)

@pytest.mark.parametrize('policy', ['redact', 'refuse'])
@pytest.mark.parametrize('reader', [*READERS, *HOST])
def test_a_document_that_a_person_marked_is_withheld(tmp_path, reader, policy):
    with Vault(tmp_path/'v.db') as vault:
        uid = diary(vault)
        vault.mark_pii('/d/quokka.md', 'the quokka is private')
        if reader in READERS: shown = READERS[reader](vault, uid, pii=policy)
        else: shown = HOST[reader](VaultHost([tmp_path], vault=vault, index=False, web=False, pii=policy), uid)
        assert 'quokka' not in repr(shown)

@pytest.mark.parametrize('policy', ['redact', 'refuse'])
@pytest.mark.parametrize('reader', [*(r for r in READERS if r not in ('marks', *ACTING, *WATCHES)), *HOST])
def test_a_document_that_a_person_cleared_is_shown(kept, tmp_path, reader, policy):
    vault, uid = kept
    vault.mark_not_pii(uid, CANARY)
    if reader in (*WATCHES, 'tool list_watches'): pytest.skip('a watch has a document of its own')
    if reader in READERS: calls = READERS[reader](vault, uid), READERS[reader](vault, uid, pii=policy)
    else: calls = [HOST[reader](VaultHost([tmp_path], vault=vault, index=False, web=False, pii=p), uid) for p in ('off', policy)]
    plain, shown = [[piece for piece in re.split(r'[\s,]+', repr(call)) if CANARY in piece and 'note:' not in piece] for call in calls]
    assert plain == shown

@pytest.mark.parametrize('ending', ['.md', '.txt', '.json', '.tar.gz', '.html'])
def test_an_address_in_a_file_name_is_one(ending):
    text = f'/mail/{CANARY}{ending}'
    assert [text[f.start:f.end] for f in find_pii(text)] == [CANARY]

@pytest.mark.parametrize('name', ['logo@2x.png', 'icon@3x.min.js', 'react@18.2.0.tar.gz', 'types@node.d.ts', 'vue@next.esm.js', 'photo@night.jpg'])
def test_a_file_name_with_an_at_is_no_address(name): assert find_pii(name) == []
