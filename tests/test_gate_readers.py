"""A canary in every place of a document that can hold words; no reader of the vault or the host may show it while the gate is on."""
import inspect

import pytest
from ramabana.memory import Vault
from ramabana.pii import find_pii
from ramabana.vault import VaultHost

CANARY = 'marit.holm@example.com'
TEXT = f'# Letter\n\n## one\nrivers and boats\n\n## write to {CANARY}\nabout lakes and {CANARY}\n\n## third\nmore lakes\n'

READERS = {
    'doc': lambda v, d, **kw: v.doc(d, **kw), 'document': lambda v, d, **kw: v.document(d, **kw), 'read': lambda v, d, **kw: [v.read(f'{d}#{n}', **kw) for n in range(4)] + [v.read(d, **kw)],
    'toc': lambda v, d, **kw: v.toc(**kw), 'sources': lambda v, d, **kw: v.sources(**kw), 'versions': lambda v, d, **kw: v.versions(d, **kw),
    'search': lambda v, d, **kw: v.search('lakes', **kw), 'sections': lambda v, d, **kw: v.sections('lakes', **kw), 'context': lambda v, d, **kw: v.context('rivers boats', sections=2, **kw),
    'related': lambda v, d, **kw: v.related(f'{d}#1', **kw), 'federate': lambda v, d, **kw: v.federate('lakes', **kw)}
HOST = {'memory_search': lambda h, d: h.memory_search('rivers boats', limit=2), 'memory_tree': lambda h, d: h.memory_tree(), 'memory_read': lambda h, d: [h.memory_read(f'{d}#{n}') for n in range(4)],
    'search': lambda h, d: h.search('lakes')}

@pytest.fixture
def kept(tmp_path):
    with Vault(tmp_path/'v.db') as vault:
        for word in ('one', 'first'):       # the second time makes the first a version
            told = vault.add(TEXT.replace('one', word), title=f'letter of {CANARY}', source=f'/mail/{CANARY}.md', kind='markdown', meta={'from': CANARY, 'tags': [CANARY]})
        vault.note('another note about lakes', title='other', key=CANARY)
        yield vault, told['doc_id']

def test_every_reader_with_a_gate_is_walked():
    gated = {name for name, call in inspect.getmembers(Vault, inspect.isfunction) if not name.startswith('_') and 'pii' in inspect.signature(call).parameters}
    assert gated == set(READERS)

@pytest.mark.parametrize('policy', ['redact', 'refuse'])
@pytest.mark.parametrize('reader', READERS)
def test_no_reader_of_the_vault_shows_it(kept, reader, policy):
    vault, uid = kept
    if reader != 'federate': assert CANARY in repr(READERS[reader](vault, uid))
    assert CANARY not in repr(READERS[reader](vault, uid, pii=policy))

@pytest.mark.parametrize('policy', ['redact', 'refuse'])
@pytest.mark.parametrize('reader', HOST)
def test_no_reader_of_the_host_shows_it(kept, tmp_path, reader, policy):
    vault, uid = kept
    host = VaultHost([tmp_path], vault=vault, index=False, web=False, pii=policy)
    assert CANARY not in repr(HOST[reader](host, uid))

@pytest.mark.parametrize('ending', ['.md', '.txt', '.json', '.tar.gz', '.html'])
def test_an_address_in_a_file_name_is_one(ending):
    text = f'/mail/{CANARY}{ending}'
    assert [text[f.start:f.end] for f in find_pii(text)] == [CANARY]

@pytest.mark.parametrize('name', ['logo@2x.png', 'icon@3x.min.js', 'react@18.2.0.tar.gz', 'types@node.d.ts', 'vue@next.esm.js', 'photo@night.jpg'])
def test_a_file_name_with_an_at_is_no_address(name): assert find_pii(name) == []
