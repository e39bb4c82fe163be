"""Bugs that people met in tools of this kind, asked of the vault: queries, files, encoders, identity."""
import json
import threading

import pytest
from ramabana import engine as engine_module
from ramabana.core import AgentError, EncoderMissing, VaultError
from ramabana.engine import Engine, owner, set_journal
from ramabana.memory import Vault
from ramabana.upkeep import is_derived_damage
from cases_of import case

@pytest.fixture
def vault(tmp_path):
    with Vault(tmp_path/'vault.db') as v: yield v

def keep(vault, texts): return [vault.add(text, title=f'doc {i}')['doc_id'] for i, text in enumerate(texts)]
def found(vault, q, **kw): return [s.doc_id for s in vault.search(q, **kw)]

# -- queries
@pytest.mark.parametrize('id', ['fts-query-01', 'fts-query-03', 'fts-query-05', 'fts-query-07', 'fts-query-09', 'fts-cjk-04'])
def test_first_document_is_first(vault, id):
    from cases_of import CASES
    given = next(row for row in CASES if row['id'] == id)['input']
    ids = keep(vault, given['docs'])
    for mode in ('text', 'hybrid'):
        hits = vault.search(given['query'], mode=mode)
        assert hits[0].doc_id == ids[0] and not hits.note
        assert 'text' in hits[0].why
    assert vault.search(given['query'], mode='text').note == ''

@case('fts-query-11')
def test_the_end_of_a_long_note_is_found(vault, report):
    given = report['input']
    text = 'plain words of a long note. ' * (given['doc_len'] // 28) + given['needle']
    vault.add(text, title='long')
    hit = vault.search(given['query'])[0]
    assert given['query'] in hit.text and len(hit.text) < 5000

@case('fts-query-13')
def test_every_script_has_its_text_leg(vault, report):
    ids = keep(vault, report['input']['docs'])
    for i, q in enumerate(report['input']['queries']): assert found(vault, q, mode='text') == [ids[i]]

@case('fts-cjk-02')
def test_latin_words_inside_chinese(vault, report):
    ids = keep(vault, report['input']['docs'] + ['unrelated'])
    for q in report['input']['queries']: assert found(vault, q, mode='text') == ids[:1]

@pytest.mark.parametrize('q', ['', ' ', '"', '""', 'AND', 'NEAR(', '*', 'a:b', '(', '^', 'x\x00y', '\ud800', 'word ' * 5000, "'; drop table docs; --"])
@pytest.mark.parametrize('mode', ['text', 'vector', 'hybrid'])
def test_no_query_raises(vault, q, mode):
    vault.note('plain text')
    vault.search(q, mode=mode)
    vault.context(q)

# -- concurrency
@case('store-concurrency-01')
def test_writers_and_readers_wait_for_each_other(tmp_path, report):
    given, errors = report['input'], []
    def run(call):
        try:
            with Vault(tmp_path/'v.db') as v:
                for i in range(given['writes_each']): call(v, i)
        except Exception as e: errors.append(e)
    writers = [threading.Thread(target=run, args=(lambda v, i, w=w: v.note(f'writer {w} wrote {i}'),)) for w in range(given['writers'])]
    readers = [threading.Thread(target=run, args=(lambda v, i: v.search('wrote'),)) for _ in range(given['readers'])]
    for t in writers + readers: t.start()
    for t in writers + readers: t.join()
    with Vault(tmp_path/'v.db') as v:
        assert errors == [] and v.stats()['docs'] == given['writers'] * given['writes_each']
        assert v.stats()['journal'] == 'wal' and v.check()['ok']

@case('store-concurrency-03')
def test_parallel_calls_on_one_vault(vault, report):
    vault.note('a note about rivers')
    got = []
    calls = [threading.Thread(target=lambda: got.append(vault.context('rivers').results[0].text)) for _ in range(report['input']['parallel_calls'])]
    for t in calls: t.start()
    for t in calls: t.join()
    assert got == ['a note about rivers'] * report['input']['parallel_calls']

# -- file systems
@case('store-filesystem-01')
@pytest.mark.parametrize('kind', ['smb3', 'cifs', 'nfs4', 'fuse.sshfs'])
def test_a_network_drive_is_refused_before_any_write(tmp_path, monkeypatch, report, kind):
    monkeypatch.setattr(engine_module, 'file_system', lambda path: kind)
    with pytest.raises(VaultError) as e: Vault(tmp_path/'v.db')
    assert kind in str(e.value) and 'local disk' in str(e.value) and not (tmp_path/'v.db').exists()

class NoLog:
    "A connection to a file system that answers `pragma journal_mode` in its own way."
    def __init__(self, conn, answers): self.__dict__.update(conn=conn, answers=list(answers))
    def __getattr__(self, name): return getattr(self.conn, name)
    def pragma(self, name, value=None):
        if name != 'journal_mode' or value is None: return self.conn.pragma(name, value) if value is not None else self.conn.pragma(name)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception): raise answer
        return self.conn.pragma('journal_mode', 'delete') if answer == 'delete' else answer

@case('store-filesystem-03')
def test_without_write_ahead_logging_it_says_so(tmp_path, monkeypatch, report):
    monkeypatch.setattr(engine_module, 'set_journal', lambda conn: set_journal(NoLog(conn, ['delete', 'delete'])))
    with Vault(tmp_path/'v.db') as v:
        v.note('kept all the same')
        assert v.store.engine.conn.pragma('synchronous') == 2
        assert v.stats()['journal'] == 'delete' and 'rollback journal' in v.stats()['note'] and v.search('kept')

@case('store-filesystem-05')
def test_the_switch_back_is_tried_twice(tmp_path, report):
    import apsw
    conn = apsw.Connection(str(tmp_path/'v.db'))
    assert set_journal(NoLog(conn, [apsw.IOError(), apsw.IOError(), 'delete'])) == 'delete'

def test_a_read_only_file_is_said_to_be_one(tmp_path):
    with Vault(tmp_path/'v.db') as v: v.note('kept')
    with Vault(tmp_path/'v.db', readonly=True) as v:
        assert v.search('kept') and v.stats()['docs'] == 1
        with pytest.raises(VaultError, match='read-only'): v.note('more')

@pytest.mark.parametrize('content', [b'not a database at all' * 100, b'SQLite format 3\x00' + b'\x00' * 50, b'x'])
def test_another_kind_of_file_is_left_alone(tmp_path, content):
    (tmp_path/'v.db').write_bytes(content)
    with pytest.raises(VaultError, match='v.db'): Vault(tmp_path/'v.db')
    assert (tmp_path/'v.db').read_bytes() == content and list(tmp_path.iterdir()) == [tmp_path/'v.db']

# -- recovery
@case('store-recovery-02')
def test_repair_goes_from_the_documents_to_the_index(vault, report):
    vault.note('a note about rivers')
    with vault.store.engine.write():
        vault.store.engine.rows(f'delete from {vault.store.fts}')
        vault.store.engine.rows(f"insert into {vault.store.fts}(rowid, head, body) values(1, 'x', 'a forged text about lakes')")
    assert vault.search('lakes', mode='text') and not vault.search('rivers', mode='text')
    vault.rebuild()
    assert vault.search('rivers', mode='text') and not vault.search('lakes', mode='text') and vault.check()['ok']

@case('store-recovery-04')
def test_damage_of_the_index_asks_for_a_rebuild(report):
    assert all(is_derived_damage(message) for message in report['input']['messages'])
    assert not is_derived_damage('database disk image is malformed')

def test_a_torn_index_is_found_and_mended(vault):
    keep(vault, [f'note {i} about rivers' for i in range(30)])
    with vault.store.engine.write(): vault.store.engine.rows(f"update {vault.store.fts[1:-1]}_data set block = zeroblob(20) where id > 10")
    assert not vault.check()['ok']
    hits = vault.search('rivers')
    assert hits and 'text search did not run' in hits.note and 'doctor' in hits.note
    vault.rebuild()
    assert vault.check()['ok'] and len(vault.search('rivers', mode='text', limit=50)) == 30

@case('store-recovery-06')
def test_no_limit_of_bound_values_is_met(vault, report):
    n = report['input']['rows']
    text = '\n'.join(f'## part {i}\nw{i}' for i in range(n // 10))
    for _ in range(3): vault.store.engine.rows('select value from json_each(?)', (json.dumps(list(range(n))),))
    vault.add(text, title='many parts', kind='markdown')
    assert vault.stats()['chunks'] == n // 10
    vault.rebuild()
    assert vault.forget('many parts') and vault.stats()['chunks'] == 0 and vault.check()['ok']

# -- encoders
class Model:
    "An encoder of a given width whose vectors depend on its name."
    def __init__(self, id, dims): self.id, self.dims, self.kind, self.asked = id, dims, 'callable', []
    def encode(self, texts):
        import numpy as np
        self.asked += texts
        return np.stack([np.random.default_rng(abs(hash((self.id, t))) % 2**32).standard_normal(self.dims) for t in texts])

@case('embedding-change-02')
def test_a_model_of_another_width_is_refused(tmp_path, report):
    first, second = (Model(f'm{d}', d) for d in report['input']['dims'])
    with Vault(tmp_path/'v.db', encoder=first) as v: v.note('kept with the first model')
    with Vault(tmp_path/'v.db', encoder=second) as v:
        with pytest.raises(VaultError, match='reencode'): v.note('must not go in')
        hits = v.search('kept')
        assert hits[0].text == 'kept with the first model' and 'vector search did not run' in hits.note
        assert v.stats()['docs'] == 1 and v.stats()['pending'] == 0

@case('embedding-change-04')
def test_what_lost_its_vector_gets_it_again(vault, report):
    vault.note('a note about rivers')
    with vault.store.engine.write(): vault.store.engine.rows(f'delete from {vault.store.vecs}')
    assert vault.stats()['pending'] == 1 and vault.search('rivers', mode='text')
    assert vault.encode_pending() == 0 and vault.stats()['pending'] == 0 and vault.search('water flowing', mode='vector')

@case('embedding-change-06')
def test_the_model_of_the_store_reads_the_query(tmp_path, report):
    first, second = Model('A', 256), Model('B', 768)
    with Vault(tmp_path/'v.db', encoder=first) as v:
        v.note('kept')
        first.asked.clear()
        assert v.search('which one', mode='vector') and first.asked == ['which one']
    with Vault(tmp_path/'v.db') as v: v.shelf('other').note('on a shelf of its own, with the shipped encoder')
    with Vault(tmp_path/'v.db', encoder=second) as v:
        with pytest.raises(VaultError): v.search('which one', mode='vector')
        assert second.asked == []
        assert v.shelf('other').search('a shelf', mode='vector')[0].text.startswith('on a shelf')

def test_without_an_encoder_notes_are_kept_and_found(tmp_path):
    with Vault(tmp_path/'v.db', encoder='/no/such/model') as v:
        v.note('kept without a vector')
        assert v.search('kept')[0].text and v.stats()['encoder'] == 'none' and v.stats()['pending'] == 1
    with Vault(tmp_path/'v.db') as v: assert v.encode_pending() == 0 and v.search('storing without embedding', mode='vector')

# -- identity
@case('files-identity-03')
def test_the_same_fact_is_kept_once(vault, report):
    told = [vault.note(text) for text in report['input']['remember']]
    assert vault.stats()['docs'] == 1 and [t['changed'] for t in told] == [True, False, False, False, False] and 'already known' in told[1]['note']

@case('files-identity-07')
def test_a_replaced_text_is_not_found(vault, report):
    vault.add('the old plan mentions quaggas', source='plan')
    vault.add('the new plan mentions zebras', source='plan')
    assert vault.search('quaggas', mode='text') == [] and [v['text'] for v in vault.versions('plan')] == ['the old plan mentions quaggas']
    assert all('quaggas' not in s.text for s in vault.search('quaggas'))

@case('files-identity-09')
def test_a_forgotten_document_is_gone(vault, report):
    vault.add('the door code is 4711', title='A')
    vault.forget('A')
    assert vault.search('door code') == [] and vault.context('door code').results == [] and vault.check()['ok']

@case('unicode-eol-01')
def test_both_forms_of_a_name_find_it(vault, report):
    nfd, nfc = 'u\u0308ber.md', '\u00fcber.md'
    first, second = vault.add('text', source=nfd), vault.add('text', source=nfc)
    assert first['doc_id'] == second['doc_id'] and vault.doc(nfd)['doc_id'] == vault.doc(nfc)['doc_id']

@case('unicode-eol-03')
def test_a_lone_surrogate_is_kept_as_a_replacement(vault, report):
    told = vault.note(json.loads(report['input']['json'])['a'] + ' in a note')
    assert '\ufffd' in vault.document(told['doc_id'])['text'] and 'surrogate' in told['note']

@case('unicode-eol-05')
def test_line_ends_are_no_change(vault, report):
    told = [vault.add(text, source='f') for text in report['input']['contents']]
    assert [t['changed'] for t in told] == [True, False]
