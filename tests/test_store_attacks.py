"""What the vault bears: damaged files, odd paths, forks, full disks, and input that nobody expects."""
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from ramabana.core import AgentError, VaultError
from ramabana.engine import Engine
from ramabana.memory import Vault

@pytest.fixture
def vault(tmp_path):
    with Vault(tmp_path/'vault.db') as v: yield v

# -- the file
def damaged(vault, path, n):
    "A copy of the vault with its n-th page blanked."
    vault.backup(path, replace=True)
    data = bytearray(path.read_bytes())
    data[n * 8192:(n + 1) * 8192] = bytes(8192)
    path.write_bytes(data)
    return path

def test_a_damaged_page_does_not_keep_the_vault_shut_when_fastlite_was_imported(vault, tmp_path):
    for i in range(200): vault.note(f'note {i} about rivers and lakes ' * 20, title=f'note {i}')
    assert vault.db                      # imports fastlite, which has statements run on every new connection
    pages = (tmp_path/'vault.db').stat().st_size // 8192
    opened = 0
    for n in range(40, max(50, pages - 5), max(1, pages // 10)):
        try: hurt = Vault(damaged(vault, tmp_path/'hurt.db', n))
        except VaultError: continue
        with hurt:
            opened += 1
            assert not hurt.check()['ok'] or hurt.search('rivers', mode='text')
    assert opened

def test_opening_writes_nothing_when_fastlite_was_imported(vault, tmp_path):
    import apsw
    assert vault.db and apsw.connection_hooks
    vault.backup(tmp_path/'copy.db')
    before = (tmp_path/'copy.db').read_bytes()
    with Vault(tmp_path/'copy.db', readonly=True) as v: v.toc()
    assert (tmp_path/'copy.db').read_bytes() == before and apsw.connection_hooks

@pytest.mark.skipif(not hasattr(os, 'mkfifo'), reason='needs pipes')
def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path/'pipe.db')
    (tmp_path/'loop.db').symlink_to(tmp_path/'loop.db')
    (tmp_path/'file').write_text('x')
    for path in 'pipe.db', 'loop.db', 'file/v.db', 'x' * 300:
        with pytest.raises(VaultError, match='name'): Vault(tmp_path/path)
    for path in '~nobody-of-this-name/v.db', f'{tmp_path}/\udcff.db', 'a\x00b':
        with pytest.raises(ValueError): Vault(path)

def test_a_vault_without_identity_is_said_to_be_damaged(vault, tmp_path):
    with vault.store.engine.write(): vault.store.engine.rows('delete from meta')
    with pytest.raises(VaultError, match='backup'): Vault(vault.path)

def test_a_closed_vault_says_so(vault, tmp_path):
    vault.close()
    for call in (vault.stats, vault.check, vault.toc, lambda: vault.search('x'), lambda: vault.note('x'), lambda: vault.backup(tmp_path/'b.db')):
        with pytest.raises(VaultError, match='closed'): call()

def test_a_backup_never_goes_over_the_vault_or_what_is_open(vault, tmp_path):
    vault.note('kept')
    (tmp_path/'link.db').symlink_to(vault.path)
    with Vault(tmp_path/'other.db') as other:
        other.note('in the log of another vault')
        for path in vault.path, f'{tmp_path}/../{tmp_path.name}/vault.db', f'{vault.path}-wal', tmp_path/'link.db', tmp_path/'other.db', '/dev/null', tmp_path:
            with pytest.raises(VaultError): vault.backup(path, replace=True)
        assert other.search('log of another') and other.check()['ok']
    assert vault.check()['ok'] and vault.search('kept') and (tmp_path/'link.db').is_symlink()
    (tmp_path/'b.db.part').write_text('of somebody else')
    assert vault.backup(tmp_path/'b.db')['docs'] == 1 and (tmp_path/'b.db.part').read_text() == 'of somebody else'

@pytest.mark.skipif(sys.platform == 'win32', reason='needs fork')
def test_what_a_forked_process_writes_outlives_the_parents_close(tmp_path):
    ways = multiprocessing.get_context('fork')
    vault, go, done = Vault(tmp_path/'v.db'), ways.Event(), ways.Event()
    vault.note('before the fork')
    def child():
        go.wait(20)
        for i in range(10): vault.note(f'note {i} of the child')
        done.set()
        os._exit(0)                      # as a kill: nothing is closed
    process = ways.Process(target=child)
    process.start()
    vault.close()
    go.set()
    assert done.wait(30)
    process.join(10)
    with Vault(tmp_path/'v.db') as v: assert v.stats()['docs'] == 11 and v.check()['ok']

@pytest.mark.skipif(sys.platform == 'win32', reason='needs fork')
def test_parent_and_forked_processes_write_together(tmp_path):
    ways = multiprocessing.get_context('fork')
    with Vault(tmp_path/'v.db') as vault:
        vault.note('before the fork')
        vault.search('before')
        def child(n):
            for i in range(10): vault.note(f'note {i} of child {n}')
            assert len(vault.search(f'child {n}', limit=100)) > 10 and vault.stats()['docs'] > 10
        processes = [ways.Process(target=child, args=(n,)) for n in range(3)]
        for p in processes: p.start()
        for i in range(10): vault.note(f'note {i} of the parent')
        for p in processes: p.join(60)
        assert [p.exitcode for p in processes] == [0] * 3
        assert vault.stats()['docs'] == 41 and len(vault.search('note', limit=100)) == 41 or vault.search('note', limit=100)
        assert vault.check()['ok']

def test_a_fork_inside_a_transaction_is_refused(tmp_path):
    if sys.platform == 'win32': pytest.skip('needs fork')
    engine = Engine(tmp_path/'v.db')
    with engine.write():
        if not (child := os.fork()):
            try: engine.rows('select 1')
            except VaultError: os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        engine.rows('insert into meta values(1, 1)')
    engine.close()

# -- what is given with a document
@pytest.mark.parametrize('meta', ['words', [1], 5, True, {'a': float('nan')}, {'a': {1, 2}}, {(1, 2): 3}])
def test_meta_that_is_none_is_refused(vault, meta):
    with pytest.raises((TypeError, ValueError), match='meta must be'): vault.add('a text about rivers', meta=meta)
    assert vault.stats()['docs'] == 0

@pytest.mark.parametrize('meta', [{'pages': 300}, {'pages': 'abc'}, {'pages': [1, 2]}, {'pages': [['1', 'x']]}, {'pages': {'a': 1}}, {1: 'a', 'b': 2}, {'a': '\ud800', '\udc00': 'x\x00y'}, {'a': None}])
def test_meta_of_any_shape_keeps_nothing_from_being_read(vault, meta):
    doc_id = vault.add('a text about rivers', meta=meta)['doc_id']
    assert vault.search('rivers')[0].doc_id == doc_id and vault.toc()[0]['doc_id'] == doc_id and vault.read(f'{doc_id}#0')['pages'] == ''
    assert vault.add('a text about rivers', meta=meta)['changed'] is False and len(vault.doc(doc_id)['meta']) == len(meta)

def test_odd_tags_kinds_and_sources_are_kept(vault):
    assert vault.doc(vault.note('one', tags='work')['doc_id'])['meta'] == {'tags': ['work']}
    assert vault.doc(vault.note('two', tags=['\ud800'])['doc_id'])['meta'] == {'tags': ['\ufffd']}
    assert vault.doc(vault.add('three', kind='a\ud800')['doc_id'])['kind'] == 'a\ufffd'
    assert vault.add('four', source='\x00')['source'].startswith('text:')

def test_a_title_is_found_as_it_was_given(vault):
    for title in 'Mu\u0308nchen', 'x' * 500, 'two  spaces\nand a line', 'half \ud800 a pair':
        assert vault.doc(title) is None
        doc_id = vault.note(f'on {len(title)}', title=title)['doc_id']
        assert vault.doc(title)['doc_id'] == doc_id
    assert vault.doc('M\u00fcnchen') and vault.document('M\u00fcnchen')['text'] == 'on 8'

def test_a_path_takes_what_is_given_with_it(vault, tmp_path):
    (tmp_path/'a.md').write_text('# Heading\nbody\n')
    kept = vault.add(tmp_path/'a.md', title='Given', source='s1', kind='text', meta={'a': 1})
    row = vault.doc('s1')
    assert (row['title'], row['kind'], row['meta']['a'], row['doc_id']) == ('Given', 'text', 1, kept['doc_id'])
    with pytest.raises(ValueError, match='folder'): vault.add(tmp_path, title='all')

def test_a_name_of_several_documents_is_neither_read_nor_forgotten(vault):
    ids = [vault.add(f'plan {where}', title='Plan', source=f'/{where}/plan.md')['doc_id'] for where in 'ab']
    for call in vault.read, vault.document, vault.forget, vault.versions:
        for name in 'Plan', 'plan.md':
            with pytest.raises(AgentError) as e: call(name)
            assert all(i in str(e.value) for i in ids)
    assert vault.doc('Plan')['doc_id'] == ids[1] and vault.forget('/a/plan.md') and vault.document('Plan')['text'] == 'plan b'

# -- what is asked
def test_limits_and_times_of_every_size(vault):
    from datetime import date, datetime, timedelta
    node = vault.note('a note about rivers')['doc_id'] + '#0'
    for limit in 10**6, 2**31, 2**62, 2**64, True: assert len(vault.search('rivers', limit=limit)) == 1 and vault.related(node, limit=limit) == []
    for call in (lambda n: vault.search('rivers', limit=n), lambda n: vault.related(node, limit=n), lambda n: vault.context('rivers', sections=n), lambda n: vault.context('rivers', related=n)):
        with pytest.raises(ValueError): call(-1)
        for n in '5', 2.5, None:
            with pytest.raises(TypeError, match='whole number'): call(n)
    for since in 0, '2000-01-01', date(2000, 1, 1), datetime.now() - timedelta(hours=1): assert vault.search('rivers', since=since)
    for since in 10**30, float('nan'), float('inf'), 'now', b'2026', [1]:
        with pytest.raises(ValueError, match='is no time'): vault.search('rivers', since=since)
    assert vault.search('rivers', kind=['note', *(f'k{i}' for i in range(40_000))])

def test_a_search_makes_no_shelf(vault):
    with pytest.raises(AgentError, match='store'): vault.search('rivers', shelf='mistyped')
    assert vault.shelves() == ['store']

@pytest.mark.parametrize('ref', ['\ud800', '#', '#0', 'x' * 5000, None])
def test_ids_that_are_none_are_said_to_be_so(vault, ref):
    doc_id = vault.note('a note')['doc_id']
    for name in (ref, f'{doc_id}#{"9" * 5000}', f'{doc_id}#\u0663', f'{doc_id}#-1'):
        for call in vault.read, vault.related:
            with pytest.raises(AgentError, match='no section'): call(name)

@pytest.mark.parametrize('text, queries', [('Η γάτα κοιμάται στον ήλιο', ['γάτα', 'γατα', 'ΓΑΤΑ', 'ΉΛΙΟ', 'ηλιο']), ('İstanbul Boğazı, ILIK ışık', ['İstanbul', 'istanbul', 'ISTANBUL', 'ılık', 'isik']),
    ('Die Straße nach Gießen', ['strasse', 'STRASSE', 'STRAẞE', 'giessen']), ('Zażółć gęślą jaźń w Łodzi', ['zazolc', 'ZAŻÓŁĆ', 'lodzi']), ('ёлка стоит', ['елка', 'ЁЛКА']),
    ('blåbærgrød på Ærø', ['blabaergrod', 'aero', 'ÆRØ']), ('ذهب أحمد إلى القاهرة', ['احمد', 'أحمد', 'الى']), ('کتاب‌های فارسی', ['فارسي', 'فارسی'])])
def test_letters_are_found_however_they_are_written(vault, text, queries):
    doc_id = vault.note(text)['doc_id']
    vault.note('another note on something else')
    for q in queries: assert found_ids(vault, q) == [doc_id], q

def found_ids(vault, q): return [s.doc_id for s in vault.search(q, mode='text')]

def test_standard_input_in_any_encoding(tmp_path):
    import subprocess
    def add(data, name): return subprocess.run([sys.executable, '-m', 'ramabana.cli', 'add', '-', '--db', str(tmp_path/'v.db'), '--title', name], input=data, capture_output=True)
    text = 'Grüße aus München und viele schöne Wörter'
    for name in 'utf-8', 'utf-16', 'utf-8-sig', 'cp1252': assert add(text.encode(name), name).returncode == 0
    assert add(b'\x89PNG\r\n\x1a\n' + bytes(range(256)), 'picture').returncode != 0
    with Vault(tmp_path/'v.db') as v:
        assert [v.document(name)['text'].strip() for name in ('utf-8', 'utf-16', 'utf-8-sig', 'cp1252')] == [text] * 4 and v.stats()['docs'] == 4

def test_a_bad_name_among_files_stops_nothing(vault, tmp_path):
    (tmp_path/'a.md').write_text('words')
    said = vault.add_files([tmp_path/'a.md', 'a\x00b', tmp_path/'nowhere', tmp_path])
    assert said['added'] == 1 and len(said['skipped']) == 3

def test_words_that_a_nul_parts_are_found_each(vault, tmp_path):
    (tmp_path/'a.txt').write_bytes(b'hello\x00needle and alpha\x00\x00beta\n')
    (tmp_path/'b.py').write_bytes(b'x = "left\x00right"\n')
    vault.add_dir(tmp_path)
    note = vault.note('some\x00where over the rainbow')
    assert vault.document('a.txt')['text'] == 'helloneedle and alphabeta\n' and 'NUL' in note['note']
    for _ in range(2):
        for q, title in dict(hello='a', needle='a', helloneedle='a', beta='a', left='b.py', right='b.py', where='somewhere over the rainbow', rainbow='somewhere over the rainbow').items():
            assert [s.title for s in vault.search(q, mode='text')] == [title], q
        vault.rebuild()
    assert vault.add_dir(tmp_path)['updated'] == 0 and vault.note('some\x00where over the rainbow')['changed'] is False

def test_utf_16_without_a_mark_may_hold_curly_quotes(tmp_path):
    from ramabana.readers import read_file
    text = 'It’s “quoted” – and so on, a naïve café…\n' * 5
    for codec in 'utf-16-le', 'utf-16-be':
        (tmp_path/'a.txt').write_bytes(text.encode(codec))
        assert read_file(tmp_path/'a.txt').text == text

# -- repair
def test_a_damaged_page_of_any_derived_table_is_mended(tmp_path):
    with Vault(tmp_path/'vault.db') as vault:
        for i in range(60): vault.note(f'note {i} about rivers and lakes ' * 20, title=f'note {i}')
        vault.shelf('other').note('a note about mountains')
        vault.backup(tmp_path/'whole.db')
    engine = Engine(tmp_path/'whole.db')
    pages = dict(engine.rows("select name, max(pageno) from dbstat where name like 'fts_1%' or name like 'vecs%' or name in ('chunks', 'nodes', 'chunks_doc', 'docs_hash', 'vlog') group by name"))
    engine.close()
    whole = (tmp_path/'whole.db').read_bytes()
    for name, page in pages.items():
        hurt = tmp_path/f'{name}.db'
        hurt.write_bytes(whole[:(page - 1) * 8192] + bytes(8192) + whole[page * 8192:])
        with Vault(hurt) as vault:
            assert not vault.check()['ok'], name
            vault.rebuild()
            assert vault.check()['ok'], name
            assert vault.stats()['docs'] == 60 and vault.stats()['pending'] == 0 and len(vault.search('rivers', mode='text', limit=100)) == 60
            assert vault.shelf('other').search('mountains', mode='text') and vault.shelf('other').search('hills', mode='vector')
            assert vault.note('one more about rivers')['changed'] and vault.search('one more', mode='text')

def test_a_damaged_document_is_an_error_that_changes_nothing(tmp_path):
    with Vault(tmp_path/'vault.db') as vault:
        for i in range(60): vault.note(f'note {i} about rivers and lakes ' * 20, title=f'note {i}')
        page = max(n for n, in vault.store.engine.rows("select pageno from dbstat where name = 'texts'"))
        vault.backup(tmp_path/'hurt.db')
    data = (tmp_path/'hurt.db').read_bytes()
    (tmp_path/'hurt.db').write_bytes(data[:(page - 1) * 8192] + bytes(8192) + data[page * 8192:])
    with Vault(tmp_path/'hurt.db') as vault:
        assert any('damaged' in p for p in vault.check()['problems'])
        with pytest.raises(VaultError, match='backup'): vault.rebuild()
        assert vault.stats()['docs'] == 60 and len(vault.search('rivers', mode='text', limit=5)) <= 5

# -- a folder where nothing may be written

ASK = '''
import os, sys
from urllib.parse import quote
from ramabana.memory import Vault
with Vault(':memory:', encoder=lambda texts: [[1.0]]*len(texts)) as warm:      # whoever is nobody may not read the library
    warm.note('a zebra')
    warm.search('zebra'), warm.check()
if not os.getuid(): os.setgid(65534); os.setuid(65534)
with Vault(sys.argv[1], encoder=lambda texts: [[1.0]]*len(texts), readonly=True) as vault: print(vault.search('zebra', mode='text')[0].text, vault.check()['ok'])
'''

def test_a_vault_in_a_read_only_folder_is_read():
    with tempfile.TemporaryDirectory() as folder:
        shut = Path(folder)/'shut'
        shut.mkdir()
        with Vault(shut/'v.db') as vault: vault.note('a zebra crossed')
        (shut/'v.db').chmod(0o444)
        Path(folder).chmod(0o755)
        shut.chmod(0o555)
        try: done = subprocess.run([sys.executable, '-c', ASK, str(shut/'v.db')], capture_output=True, text=True, timeout=60)
        finally: shut.chmod(0o755)
        assert (done.stdout.strip(), done.stderr) == ('a zebra crossed True', '')
        assert os.listdir(shut) == ['v.db']
