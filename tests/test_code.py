"""The identifier index when files change, syncs meet and processes die, and on the cases that people reported elsewhere."""
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from ramabana.code import CodeIndex, LazyIndex
from ramabana.core import AgentError
from ramabana.federate import federate
from ramabana.host import LocalHost
from ramabana.indexes import repo_leg
from ramabana.memory import Vault
from ramabana.tools import tools_for
from ramabana.vault import VaultHost, WorkspaceHost

@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch): monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path/'cache'))

@pytest.fixture
def repo(tmp_path):
    (tmp_path/'repo').mkdir()
    return tmp_path/'repo'

@pytest.fixture
def index(repo):
    made = CodeIndex(repo)
    yield made
    made.close()

def put(root, **files):
    for name, text in files.items():
        path = root/name.replace('__', '/')
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f'.part{threading.get_ident()}')
        part.write_text(text)
        os.replace(part, path.with_suffix('.py'))      # as editors do: a sync in between would see an empty file

def titles(index, query): return [h.title for h in index.search(query)]

def whole(index):
    "Raises AssertionError unless all tables of the index agree."
    rows = index._file.rows
    assert rows('pragma integrity_check') == [('ok',)]
    assert rows('select count(*) from syms where file not in (select id from files)') == [(0,)]
    assert rows('select count(*) from calls where sym not in (select id from syms) or name not in (select id from names)') == [(0,)]
    assert rows('select count(*) from names n where uses != (select count(*) from calls c where c.name = n.id)') == [(0,)]
    assert rows('select count(*) from files f where note = "" and not exists (select 1 from syms s where s.file = f.id)'.replace('""', "''")) == [(0,)]
    for (name,) in rows("select key from syms where kind = 'function' limit 50"):
        assert rows('select count(*) from symfts where symfts match ?', (f'"{name}"',)) != [(0,)] or '_' in name

# -- files that change

def test_renamed_deleted_and_moved_files_disappear(repo, index):
    put(repo, a='def one(): two()\n', b='def two(): ...\n', c__d='def three(): ...\n')
    index.sync()
    (repo/'a.py').rename(repo/'e.py')
    (repo/'b.py').unlink()
    (repo/'c').rename(repo/'f')
    done = index.sync()
    assert (done.files, done.changed, done.removed) == (2, 2, 3)
    assert titles(index, 'one') == ['e.one'] and titles(index, 'three') == ['f.d.three'] and 'b.two' not in titles(index, 'two')
    whole(index)

def test_a_change_that_keeps_size_and_time_is_seen_while_the_file_is_fresh(repo, index):
    put(repo, a='def one(): ...\n')
    index.sync()
    before = os.stat(repo/'a.py')
    put(repo, a='def two(): ...\n')
    os.utime(repo/'a.py', ns=(before.st_atime_ns, before.st_mtime_ns))
    index.sync()
    assert titles(index, 'two') == ['a.two']

def test_a_touched_file_is_not_read_again_and_force_reads_all(repo, index):
    put(repo, a='def one(): ...\n')
    index.sync()
    os.utime(repo/'a.py', (1, 1))
    assert index.sync().changed == 0 and index.sync(force=True).changed == 1

def test_a_syntax_error_keeps_what_parses(repo, index):
    put(repo, a='def good(): ...\n\ndef bad(:\n\nclass Fine:\n    def also(self): ...\n')
    done = index.sync()
    assert titles(index, 'also') == ['a.Fine.also'] and 'does not parse' in dict(done.skipped)['a.py']

def test_a_huge_generated_file_is_skipped_and_said_so(repo, index):
    with open(repo/'huge.js', 'wb') as f: f.truncate(50 << 20)
    (repo/'packed.js').write_text('function a(){};' * 10_000)
    done = index.sync()
    assert 'too big: 52,428,800 bytes' in dict(done.skipped)['huge.js'] and 'generated' in dict(done.skipped)['packed.js']

def test_a_search_never_shows_a_line_of_a_file_as_it_was(repo, index):
    put(repo, a='def one(): ...\n')
    index.sync()
    put(repo, a='\n\n\ndef one(): ...\n')
    assert [h.line for h in index.search('one')][:1] == [4]
    (repo/'a.py').unlink()
    assert index.search('one') == []

# -- several at once, and sudden ends

def test_searching_while_files_change_and_syncs_run(repo):
    put(repo, **{f'm{n}': f'def anchor_{n}(): helper_{n}()\n' for n in range(60)})
    index, errors, stop = CodeIndex(repo), [], threading.Event()
    index.sync()
    def change():
        for n in range(40): put(repo, **{f'm{n}': '\n'*n + f'def anchor_{n}(): changed_{n}()\n'})
    def ask():
        mine = CodeIndex(repo)
        try:
            while not stop.is_set():
                for n in 3, 50, 59: assert titles(mine, f'anchor_{n}')[:1] == [f'm{n}.anchor_{n}']
        except BaseException as e: errors.append(e)
        finally: mine.close()
    def sync():
        mine = CodeIndex(repo)
        try:
            for _ in range(5): mine.sync()
        except BaseException as e: errors.append(e)
        finally: mine.close()
    asking = threading.Thread(target=ask)
    others = [threading.Thread(target=t) for t in (change, sync, sync)]
    for t in (asking, *others): t.start()
    for t in others: t.join()
    stop.set()
    asking.join()
    assert not errors, errors
    index.sync()
    assert index.search('anchor_39')[0].line == 40
    whole(index)
    index.close()

SYNC = textwrap.dedent('''
    import sys
    from ramabana.code import CodeIndex
    index = CodeIndex(sys.argv[1])
    print("ready", flush=True)
    done = index.sync()
    print(done.files, done.symbols, done.changed, flush=True)''')

def process(repo): return subprocess.Popen([sys.executable, '-c', SYNC, str(repo)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

def many(repo, n=1500):
    for k in range(n): (repo/f'm{k}.py').write_text(f'class C{k}:\n' + ''.join(f'    def f{k}_{j}(self): return g{j}({k})\n' for j in range(15)))

def test_two_syncs_at_once_do_the_work_once(repo):
    many(repo, 300)
    both = [process(repo), process(repo)]
    said = [p.communicate(timeout=120) for p in both]
    assert [p.returncode for p in both] == [0, 0], said
    counts = [tuple(map(int, out.split()[1:])) for out, _ in said]
    assert {c[:2] for c in counts} == {(300, 300*17)} and sorted(c[2] for c in counts) == [0, 300]
    index = CodeIndex(repo)
    whole(index)
    index.close()

@pytest.mark.parametrize('after', [0.05, 0.3, 0.8])
def test_a_killed_sync_leaves_whole_files_and_no_lock(repo, after):
    many(repo)
    sync = process(repo)
    sync.stdout.readline()
    time.sleep(after)
    sync.send_signal(signal.SIGKILL)
    sync.communicate()
    index = CodeIndex(repo)
    whole(index)
    (part,) = index._file.rows('select count(*) from files')[0]
    done = index.sync()
    assert (done.files, done.symbols, done.changed) == (1500, 1500*17, 1500 - part)
    whole(index)
    index.close()

def test_a_damaged_index_is_made_anew(repo, index):
    put(repo, a='def one(): ...\n')
    index.sync()
    index.close()
    Path(index.path).write_bytes(b'SQLite format 3\x00' + b'\x01'*5000)
    again = CodeIndex(repo)
    again.sync()
    assert titles(again, 'one') == ['a.one']
    again.close()

# -- what people reported elsewhere about walking files

def case(link): return pytest.mark.parametrize('case', [pytest.param(None, id=link)])

@case('https://github.com/aovestdipaperino/tokensave/pull/328')
def test_a_link_out_of_the_root_is_not_followed(repo, index, tmp_path, case):
    (tmp_path/'secret.py').write_text('def needle(): ...\n')
    (repo/'dosdevices').mkdir()
    (repo/'dosdevices'/'z:').symlink_to('/')
    (repo/'evil.py').symlink_to(tmp_path/'secret.py')
    done = index.sync()
    assert done.files == 0 and index.search('needle') == []
    assert {path for path, why in done.skipped if 'outside the root' in why} == {'dosdevices/z:', 'evil.py'}

@case('https://github.com/tobi/qmd/blob/main/CHANGELOG.md')
def test_a_file_that_becomes_a_link_out_of_the_root_is_not_read(repo, index, tmp_path, case):
    put(repo, a='def inside(): ...\n')
    index.sync()
    (tmp_path/'secret.py').write_text('def inside(): ...\ndef needle(): ...\n')
    (repo/'a.py').unlink()
    (repo/'a.py').symlink_to(tmp_path/'secret.py')
    assert index.search('inside') == [] and index.search('needle') == []

@case('https://github.com/jgravelle/jcodemunch-mcp/issues/73')
def test_anchored_patterns_of_a_nested_ignore_file(repo, index, case):
    put(repo, core__deps__x='def needle(): ...\n', core__lib__deps__y='def needle(): ...\n')
    (repo/'core'/'.gitignore').write_text('/deps/\n')
    index.sync()
    assert [h.path for h in index.search('needle')] == ['core/lib/deps/y.py']

@case('https://github.com/dnotitia/akb/issues/527')
def test_a_nul_in_an_ordinary_file(repo, index, case):
    (repo/'a.py').write_bytes(b'def hello(): ...\n# \x00\ndef needle(): ...\n')
    index.sync()
    assert titles(index, 'needle') == ['a.needle']

@case('https://github.com/tobi/qmd/issues/460')
@pytest.mark.skipif(os.geteuid() == 0, reason='root reads everything')
def test_an_unreadable_file_is_told(repo, index, case):
    put(repo, a='def needle(): ...\n')
    (repo/'a.py').chmod(0)
    assert 'unreadable' in dict(index.sync().skipped)['a.py']

@case('https://github.com/tobi/qmd/issues/801')
def test_names_that_differ_in_case_are_two(repo, index, case):
    (repo/'README.md').write_text('# Needle one\n')
    (repo/'readme.md').write_text('# Needle two\n')
    index.sync()
    assert {h.path for h in index.search('needle')} == {'README.md', 'readme.md'}

# -- hosts, legs and tools

def test_open_index_opens_nothing_until_it_is_asked(repo):
    host = WorkspaceHost([repo]).open_index()
    assert host.index_ready and host.indexed == host.roots and [i._k for i in host._indexes] == [None]
    put(repo, a='def one(): ...\n')
    host.sync_index()
    assert host.wait_index(60) and host.indexed == host.roots and host._indexes[0]._k is None
    assert host.search('one')[0].title == 'a.one' and host._indexes[0]._k is not None
    host.close()

def test_one_search_over_vault_names_and_text(repo, tmp_path):
    put(repo, shop__basket='class Basket:\n    def order_fruit(self): ...\n')
    (repo/'notes.txt').write_text('order_fruit is called on Thursdays\n')
    with VaultHost([repo], vault=tmp_path/'v.db', web=False) as host:
        host.remember('We call order_fruit once a week.', title='Fruit')
        host.sync_index(wait=True)
        hits = host.search('order_fruit')
        assert hits[0].title == 'shop.basket.Basket.order_fruit' and set(hits[0].why) >= {'repo', 'grep'}
        assert {'prose', 'grep'} <= {leg for hit in hits for leg in hit.why} and all('failed' not in n for n in host.search_note.split(';'))
        assert host.symbols(hits[0].symbol)[0].title == 'shop.basket.Basket'
        with Vault(tmp_path/'v.db') as vault: assert {'prose', 'repo', 'grep'} <= set(vault.federate('order_fruit', dir=repo).legs)

def test_a_leg_of_two_roots_goes_on_without_the_one_that_was_never_synced(repo, tmp_path):
    (tmp_path/'other').mkdir()
    put(repo, a='def one(): ...\n')
    index = CodeIndex(repo)
    index.sync()
    index.close()
    both = [LazyIndex(repo.resolve()), LazyIndex(tmp_path/'other')]
    found = federate(dict(repo=repo_leg(both)), 'one')
    assert found.legs == dict(repo=1) and 'there is no identifier index' in found.note and found.hits[0].path == str(repo.resolve()/'a.py')
    with pytest.raises(AgentError, match='there is no identifier index'): repo_leg(both[1:])('one', 5)

def tool(host, name): return next(t for t in tools_for(host) if t.__name__ == name)

def test_edit_tools_change_all_or_nothing_and_show_a_diff(repo):
    host = LocalHost([repo], web=False)
    data = 'x = 1\r\ny = 1\r\n'
    (repo/'a.py').write_bytes(data.encode())
    for wrong in (dict(old='x = 1', new='x = 2', count=2), dict(old='1', new='2'), dict(old='1', new='2', count=3), dict(old='gone', new='x'), dict(old='', new='x'), dict(old='1', new='2', count=0)):
        assert 'Error' in tool(host, 'replace_text')('a.py', **wrong) and (repo/'a.py').read_bytes() == data.encode()
    said = tool(host, 'replace_text')('a.py', '1', '2', 2)
    assert (repo/'a.py').read_bytes() == b'x = 2\r\ny = 2\r\n' and '-x = 1' in said and '+x = 2' in said
    assert 'there already' in tool(host, 'create_file')('a.py', 'z') and 'x = 2' in (repo/'a.py').read_text()
    (repo/'latin.py').write_bytes(b'# \xfcber\nx = 1\n')
    assert 'not UTF-8' in tool(host, 'replace_text')('latin.py', 'x = 1', 'x = 2')

def test_notebook_tools_keep_everything_else(repo):
    host = LocalHost([repo], web=False)
    notebook = dict(cells=[dict(cell_type='code', execution_count=3, id='a1', metadata=dict(tags=['x']), outputs=[dict(output_type='stream', name='stdout', text='3')], source='1+2')],
        metadata=dict(kernelspec=dict(name='python3')), nbformat=4, nbformat_minor=5)
    (repo/'n.ipynb').write_text(json.dumps(notebook, indent=2))
    assert '-1+2' in tool(host, 'edit_cell')('n.ipynb', 1, '1+3') and 'added markdown cell 1 of 2' in tool(host, 'add_cell')('n.ipynb', '# Sum', 'markdown', 0)
    text = (repo/'n.ipynb').read_text()
    changed = json.loads(text)
    assert text.startswith('{\n  "cells"') and changed['metadata'] == notebook['metadata'] and changed['cells'][1]['metadata'] == dict(tags=['x']) and changed['cells'][1]['id'] == 'a1'
    for wrong in (('edit_cell', (9, 'x')), ('edit_cell', (0, 'x')), ('add_cell', ('x', 'code', 7))): assert 'Error' in tool(host, wrong[0])('n.ipynb', *wrong[1])
    assert (repo/'n.ipynb').read_text() == text

def test_a_read_only_host_offers_no_edit_tools(repo):
    names = {t.__name__ for t in tools_for(LocalHost([repo], web=False, readonly=True))}
    assert not names & {'replace_text', 'create_file', 'edit_cell', 'add_cell', 'write_file', 'edit_file', 'delete_file'} and {'view_file', 'ls', 'notebook_cells', 'view_cell', 'search_code'} <= names

def test_the_shell_syncs_and_searches_code(repo):
    put(repo, a='def needle(): ...\n')
    def ramabana(*words): return subprocess.run([sys.executable, '-m', 'ramabana.cli', *words], capture_output=True, text=True, timeout=60)
    done = ramabana('sync', str(repo), '--json')
    assert done.returncode == 0 and json.loads(done.stdout)[0]['symbols'] == 2
    found = ramabana('search', '--code', '--root', str(repo), 'needle')
    assert found.returncode == 0 and found.stdout.startswith('a.py:1 a.needle')
    assert ramabana('search', '--code', '--root', str(repo), 'zebra_crossing').returncode == 1 and ramabana('sync', str(repo/'none')).returncode == 1
