"""Out and in again: what an export holds, what an import makes of it, and what is left of either when it is killed."""
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cases_of import case
from ramabana.cli import run
from ramabana.core import AgentError, VaultError
from ramabana.export import kept_tables, rows_of
from ramabana.ledger import record_send
from ramabana.memory import Vault

ROOT = Path(__file__).parent.parent
WORDS = 'harbour mooring crane valve rust invoice tea bread deed window garden Łódź 東京 naïve café straße quarter'.split()

def tables(vault, *more):
    engine = vault.store.engine
    return {name: list(rows_of(engine, name)) for name in ('meta', 'shelves', 'docs', 'texts', 'nodes', *kept_tables(engine), *more)}

def lived_in(vault, docs=40):
    "A vault with something in every table."
    chance = random.Random(7)
    for n in range(docs): vault.add(f'# Paper {n}\n\n' + ' '.join(chance.choices(WORDS, k=80)) + '\r\n\n## Part\n\n' + ' '.join(chance.choices(WORDS, k=30)), title=f'Paper/{n}: "x" \\ {chance.choice(WORDS)}', source=f'paper-{n}', kind='markdown')
    vault.note('Twice under two names.', title='same', key='a')
    vault.add('Twice under two names.', title='same', source='b', kind='note')
    vault.note('Likes jazz.', title='Taste', tags=['home', 'ann'], key='taste')
    vault.note('Likes jazz and tea.', title='Taste', tags=['home', 'ann'], key='taste')
    vault.mark_not_pii('paper-1', 'public')
    vault.mark_pii('paper-2', 'private')
    vault.watch('Renew the mooring', 'remind', '1y', 'mooring')
    vault.poll(at=time.time() + 400*86400)
    vault.shelf('other').note('On another shelf: a deed.', title='deed')
    record_send(vault.store, 'gpt', 'remote', 'https://api.example.com', 'local', ['a#1'], {}, 12)
    return vault

@pytest.fixture
def vault(tmp_path):
    with Vault(tmp_path/'v.db') as v: yield lived_in(v)

def test_everything_comes_back(vault, tmp_path):
    said = vault.export(tmp_path/'out')
    assert {row['what'] for row in said['left_out']} == {'nodes', 'chunks', 'vlog', 'hosts', 'topics', 'places'}
    with Vault(tmp_path/'new.db') as new:
        assert new.import_(tmp_path/'out')['fresh'] and new.check()['ok']
        assert tables(new) == tables(vault)
        assert sorted(p.suffix for p in (tmp_path/'out').rglob('*') if p.is_file()).count('.md') == 45 + 1    # and the folder's README
        chance, same = random.Random(3), 0
        for _ in range(200):
            q = ' '.join(chance.sample(WORDS, chance.randint(1, 3)))
            same += [(h.node_id, round(h.score, 6)) for h in vault.search(q)] == [(h.node_id, round(h.score, 6)) for h in new.search(q)]
        assert same == 200
        assert [h.text for h in new.shelf('other').search('deed')]

def test_again_changes_nothing(vault, tmp_path):
    vault.export(tmp_path/'out')
    with Vault(tmp_path/'new.db') as new:
        new.import_(tmp_path/'out')
        before = tables(new, 'chunks')
        said = new.import_(tmp_path/'out')
        assert (said['added'], said['updated'], said['fresh']) == (0, 0, False) and tables(new, 'chunks') == before
    before = tables(vault)
    assert vault.import_(tmp_path/'out')['added'] == 0 and tables(vault) == before     # and into the vault it came from

@case('export-02')
def test_versions_and_shelves_survive(report, tmp_path):
    with Vault(tmp_path/'v.db') as old, Vault(tmp_path/'new.db') as new:
        for text in ('one', 'one, later'): old.note(text, key='a')
        for text in ('two', 'two, later'): old.note(text, key='b')
        old.shelf('space').note('three')
        old.export(tmp_path/'out')
        new.import_(tmp_path/'out')
        assert [v['text'] for key in 'ab' for v in new.store.engine.db.q('select text from versions where doc = (select id from docs where source = ?)', (f'note:{key}',))] == ['one', 'two']
        assert {d['title'] for d in new.toc()} == {'one, later', 'two, later'} and new.shelf('space').toc()[0]['title'] == 'three'

@case('export-04')
def test_a_record_without_a_date_is_taken(report, tmp_path):
    rows = [dict(id=n, memory=f'fact {n}', created_at=row['t']) for n, row in enumerate(report['input']['records'])]
    (tmp_path/'mem0.json').write_text(json.dumps(rows))
    with Vault(tmp_path/'v.db') as vault: assert vault.import_(tmp_path/'mem0.json')['added'] == 3

def test_two_vaults_become_one(vault, tmp_path):
    with Vault(tmp_path/'mine.db') as mine:
        mine.note('Mine alone.', key='mine')
        mine.note('Likes silence.', title='Taste', key='taste')     # later than theirs
        said = mine.import_(tmp_path/'v.db')
        assert said['kind'] == 'vault' and len(said['kept']) == 1 and mine.check()['ok']
        assert mine.document('note:taste')['text'] == 'Likes silence.' and mine.search('Mine alone') and mine.shelf('other').search('deed')
        assert [m['value'] for m in mine.marks()] and len(mine.sends()) == 1
        assert mine.import_(tmp_path/'v.db')['added'] == 0 and len(mine.sends()) == 1

@pytest.mark.parametrize('title', ['../../etc/passwd', 'CON', 'a'*300, '🎈'*100, '.hidden', 'x\x7fy', '  ', 'Łódź/東京', 'nul.', '-rf'])
def test_a_file_name_is_harmless(tmp_path, title):
    with Vault(tmp_path/'v.db') as vault, Vault(tmp_path/'new.db') as new:
        vault.add('text', title=title, source=title or 's')
        vault.export(tmp_path/'out')
        file, = (tmp_path/'out'/'store').iterdir()
        assert len(file.name.encode()) <= 140 and file.name[0] not in '.-' and not set(file.name) & set('/\\:*?"<>|\x7f')
        new.import_(tmp_path/'out')
        assert tables(new) == tables(vault)

@pytest.mark.parametrize('text', ['---\ntitle: mine\n---\nbody\n', 'no end', '\n\n---\n', 'a\r\nb\rc\n', '\ufeffbom', '---\n---\n', 'x'*3_000_000])
def test_a_text_comes_back_to_the_byte(tmp_path, text):
    with Vault(tmp_path/'v.db') as vault, Vault(tmp_path/'new.db') as new:
        vault.add(text, title='t', source='s', kind='markdown')
        vault.export(tmp_path/'out')
        assert new.import_(tmp_path/'out')['added'] == 1 and new.document('s')['text'] == vault.document('s')['text'] and tables(new) == tables(vault)

def test_an_export_never_goes_over_something(vault, tmp_path):
    (tmp_path/'there').mkdir()
    (tmp_path/'link').symlink_to(tmp_path/'nowhere')
    for place in tmp_path/'there', tmp_path/'link', tmp_path/'v.db', tmp_path/'v.db'/'x':
        with pytest.raises((VaultError, AgentError)): vault.export(place)
    assert [p.name for p in tmp_path.iterdir() if 'part' in p.name] == [] and vault.check()['ok']

CHILD = 'import sys; from ramabana.memory import Vault\nwith Vault(sys.argv[1]) as vault: print(vault.{call}, flush=True)'
def child(db, call): return subprocess.Popen([sys.executable, '-c', CHILD.format(call=call), str(db)], stdout=subprocess.PIPE, env=os.environ | dict(PYTHONPATH=str(ROOT)))

def killed(db, call, chance, within=1.2):
    job = child(db, call)
    time.sleep(0.3 + chance.random()*within)
    job.send_signal(signal.SIGKILL)
    job.wait()

def test_killed_in_an_import_all_or_nothing(tmp_path):
    with Vault(tmp_path/'v.db') as old: lived_in(old, 400).export(tmp_path/'out')
    chance, seen = random.Random(11), set()
    for n in range(8):
        killed(tmp_path/f'new{n}.db', f'import_({str(tmp_path/"out")!r})', chance)
        with Vault(tmp_path/f'new{n}.db') as new:
            seen.add(docs := new.stats()['docs'])
            assert docs in (0, 404) and new.check()['ok']
            new.import_(tmp_path/'out')
            assert new.stats()['pending'] == 0 and new.stats()['docs'] == 404 and new.check()['ok']

def test_killed_in_an_export_nothing_is_there(tmp_path):
    with Vault(tmp_path/'v.db') as old: lived_in(old, 400)
    chance = random.Random(12)
    for n in range(5):
        killed(tmp_path/'v.db', f'export({str(tmp_path/f"out{n}")!r})', chance, 0.5)
        assert not (tmp_path/f'out{n}').exists() or (tmp_path/f'out{n}'/'vault.json').stat().st_size

def test_killed_in_a_change_of_encoder_the_old_or_the_new(tmp_path):
    (tmp_path/'encoders.py').write_text('import numpy as np, time\nclass Slow:\n    id, kind, spec, dims = "slow", "callable", "", 8\n    def encode(self, texts):\n        time.sleep(.05)\n        return np.array([[t.count(c) + .1 for c in "abcdefgh"] for t in texts], dtype=np.float32)\n')
    with Vault(tmp_path/'v.db') as vault:
        lived_in(vault, 600)
        first = vault.stats()['encoder_id']
    chance, ids = random.Random(13), set()
    sys.path.insert(0, str(tmp_path))
    from encoders import Slow
    for _ in range(6):
        call = f'reencode(__import__("sys").path.insert(0, {str(tmp_path)!r}) or __import__("encoders").Slow())'
        killed(tmp_path/'v.db', call, chance, 1.0)
        with Vault(tmp_path/'v.db') as vault:
            held = vault.store.record()['encoder']
            ids.add(held)
            assert held in (first, 'slow') and vault.check()['ok'] and vault.stats()['pending'] == 0 and vault.search('harbour', mode='text')
    with Vault(tmp_path/'v.db') as vault:
        vault.reencode(Slow())
        assert vault.store.record() == dict(encoder='slow', spec='', dims=8) and vault.check()['ok'] and vault.search('harbour', mode='vector')
    sys.path.remove(str(tmp_path))

def test_what_is_added_during_a_change_of_encoder_is_encoded(tmp_path):
    with Vault(tmp_path/'v.db') as vault:
        lived_in(vault, 20)
        def counts(texts):
            import numpy as np
            if not done:
                done.append(1)
                with Vault(tmp_path/'v.db') as other:
                    other.note('Came in between: a lantern.', title='late')
                    other.forget('paper-3')
            return np.array([[t.count(c) + .1 for c in 'abcdefgh'] for t in texts], dtype=np.float32)
        done = []
        vault.reencode(counts)
        assert vault.check()['ok'] and vault.stats()['pending'] == 0 and any(h.title == 'late' for h in vault.search('lantern'))

def papers(path, docs):
    "A vault of documents alone, all of it in its file."
    chance = random.Random(5)
    with Vault(path) as vault:
        for n in range(docs): vault.add(' '.join(chance.choices(WORDS, k=400)), title=f'Paper {n}', source=f'paper-{n}')
        vault.store.engine.rows('pragma wal_checkpoint(truncate)')
    return path.read_bytes()

@pytest.mark.parametrize('keep', [0.3, 0.5, 0.8, 0.95])
def test_the_doctor_saves_what_can_be_read(tmp_path, keep, capsys):
    whole, cut, saved = papers(tmp_path/'v.db', 200), tmp_path/'cut.db', tmp_path/'cut.saved.db'
    cut.write_bytes(part := whole[:int(len(whole)*keep)])
    assert run(['doctor', '--db', str(cut)]) == 1
    capsys.readouterr()
    assert run(['doctor', '--fix', '--json', '--db', str(cut)]) == 1
    said = json.loads(capsys.readouterr().out)
    assert not said['ok'] and said['saved']['path'] == str(saved) and said['saved']['lost']
    with Vault(saved) as new, Vault(tmp_path/'v.db') as old:
        assert new.check()['ok'] and 0 < (docs := new.stats()['docs']) < 200 and docs == said['saved']['docs']
        texts = {old.document(row['doc_id'])['text'] for row in old.toc()}
        assert all(new.document(row['doc_id'])['text'] in texts for row in new.toc() if row['doc_id'] not in said['saved']['altered'])
    assert cut.read_bytes() == part

def test_a_file_without_its_table_of_contents_is_left_alone(tmp_path):
    whole, cut = papers(tmp_path/'v.db', 20), tmp_path/'cut.db'
    for size in 0, 100, 4096, 9000:
        cut.write_bytes(whole[:size])
        assert run(['doctor', '--fix', '--db', str(cut)]) in (0, 1) and (not size or cut.read_bytes() == whole[:size]) and not (tmp_path/'cut.saved.db').exists()

@pytest.mark.parametrize('seed', range(4))
def test_the_doctor_and_pages_of_rubbish(tmp_path, seed):
    data, chance, bad = bytearray(papers(tmp_path/'v.db', 200)), random.Random(seed), tmp_path/'bad.db'
    for _ in range(3):
        page = chance.randrange(60, len(data)//4096)
        data[page*4096:(page + 1)*4096] = chance.randbytes(4096)
    bad.write_bytes(data)
    if run(['doctor', '--fix', '--db', str(bad)]):
        with Vault(tmp_path/'bad.saved.db') as new: assert new.check()['ok'] and new.stats()['docs'] > 100
    else:
        with Vault(bad) as vault: assert vault.check()['ok']

def test_the_shell(vault, tmp_path):
    vault.close()
    db = str(tmp_path/'v.db')
    assert run(['export', str(tmp_path/'out'), '--db', db]) == 0 and run(['export', str(tmp_path/'out'), '--db', db]) == 1
    assert run(['import', str(tmp_path/'out'), '--db', str(tmp_path/'n.db')]) == 0 and run(['import', str(tmp_path/'none'), '--db', db]) == 1
    assert run(['import', str(tmp_path/'out'), '--kind', 'xml', '--db', db]) == 2
    assert run(['reencode', '--db', db]) == 0 and run(['reencode', '--encoder', './none', '--db', db]) == 1

WOUNDS = {
    'a full-text row is missing': "delete from fts_1 where rowid = (select min(id) from chunks)", 'a full-text row of no chunk': "insert into fts_1(rowid, head, body) values(999999, 'x', 'x')",
    'a vector is missing': 'delete from vecs_1 where id = (select min(id) from chunks)', 'a vector of another length': "update vecs_1 set v = x'0000' where id = (select min(id) from chunks)",
    'sections are missing': 'delete from nodes where doc = 2', 'chunks are missing': 'delete from chunks where doc = 2', 'orphaned sections': 'insert into nodes values(9999, 0, null, 0, \'\', 0, 0, 1)', 'orphaned chunks': "insert into chunks(doc, node, ord, start, \"end\", cid) values(9999, 0, 0, 0, 1, x'000000000000')"}
@pytest.mark.parametrize('wound', WOUNDS)
def test_the_doctor_finds_and_mends(tmp_path, wound):
    db = str(tmp_path/'v.db')
    with Vault(db) as vault:
        lived_in(vault, 10)
        before = tables(vault)
        vault.store.engine.rows('pragma foreign_keys = off')
        vault.store.engine.rows(WOUNDS[wound])
        seen = not vault.check()['ok'] or vault.stats()['pending'] > 0 or wound == 'chunks are missing'
    assert seen, 'it is found'
    assert run(['doctor', '--fix', '--db', db]) == 0
    with Vault(db) as vault:
        assert vault.check()['ok'] and vault.stats()['pending'] == 0 and tables(vault) == before
        assert [h.title for h in vault.search('jazz tea', limit=1)] == ['Taste']

def test_a_text_of_no_document_becomes_one(tmp_path):
    db = str(tmp_path/'v.db')
    with Vault(db) as vault:
        vault.note('kept')
        vault.store.engine.rows('pragma foreign_keys = off')
        vault.store.engine.rows("insert into texts values(77, 'A text that lost its row: quokka.')")
        assert not vault.check()['ok']
    assert run(['doctor', '--fix', '--db', db]) == 0
    with Vault(db) as vault: assert vault.check()['ok'] and vault.search('quokka')[0].source == 'recovered:77'

def test_a_lock_that_a_crash_left_and_a_foreign_file(tmp_path):
    db = tmp_path/'v.db'
    with Vault(db) as vault: vault.note('kept')
    for end in ('-journal', '-shm'): Path(f'{db}{end}').write_bytes(b'')
    assert run(['doctor', '--fix', '--db', str(db)]) == 0
    import apsw
    foreign = apsw.Connection(str(tmp_path/'other.db'))
    foreign.execute('create table notes(id integer primary key, content text, created_at text); insert into notes values(1, \'From elsewhere.\', \'2024-05-01\'), (2, \'\', null)')
    foreign.close()
    before = (tmp_path/'other.db').read_bytes()
    assert run(['doctor', '--fix', '--db', str(tmp_path/'other.db')]) == 1 and (tmp_path/'other.db').read_bytes() == before
    assert run(['import', str(tmp_path/'other.db'), '--db', str(db)]) == 0
    with Vault(db) as vault: assert vault.search('elsewhere')[0].text == 'From elsewhere.' and vault.search('elsewhere')[0].age > 10**7
