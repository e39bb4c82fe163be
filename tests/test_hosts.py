"""Hosts on the cases that people reported elsewhere, and what a start may cost. The link of a case is the id of its test."""
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ramabana.config import set_setting, setting
from ramabana.core import AgentError, Hit
from ramabana.federate import federate, grep_leg
from ramabana.host import LocalHost
from ramabana.memory import Vault
from ramabana.testing import block_network
from ramabana.tools import tools_for
from ramabana.vault import VaultHost, WorkspaceHost

ROOT = Path(__file__).resolve().parent.parent
CANARY = 'the password of the safe is quokka-1312'

def case(link): return pytest.mark.parametrize('case', [pytest.param(None, id=link)])
def tool(host, name): return next(t for t in tools_for(host) if t.__name__ == name)

@pytest.fixture
def folder(tmp_path):
    (tmp_path/'root').mkdir()
    return tmp_path

@pytest.fixture
def open_host(folder):
    made = []
    def make(cls=VaultHost, **kw):
        made.append(cls([folder/'root'], vault=kw.pop('vault', folder/'v.db'), index=False, web=False, **kw))
        return made[-1]
    yield make
    for host in made: host.close()

# -- isolation: every reader goes through the gate and stays on its shelf

READERS = dict(
    memory_search=lambda host, node: host.memory_search('password of the safe'),
    memory_tree=lambda host, node: host.memory_tree(),
    memory_read=lambda host, node: host.memory_read(node),
    search=lambda host, node: (host.search('password of the safe'), host.search_note),
    ask=lambda host, node: host.ask('what is the password of the safe?'),
    research=lambda host, node: host.research('password of the safe'),
    tool_search=lambda host, node: tool(host, 'search')('password of the safe'),
    tool_memory_search=lambda host, node: tool(host, 'memory_search')('password of the safe'),
    tool_memory_read=lambda host, node: tool(host, 'memory_read')(node))

def shown(read, host, node):
    "What a reader gives away, its error included."
    try: return repr(read(host, node))
    except AgentError as e: return str(e)

@case('https://github.com/rohitg00/agentmemory/issues/817')
@pytest.mark.parametrize('reader', READERS)
@pytest.mark.parametrize('policy', ['redact', 'refuse'])
def test_no_reader_passes_the_gate_by(open_host, monkeypatch, reader, policy, case):
    monkeypatch.setitem(sys.modules, 'ramabana.pii', None)   # a gate that cannot act shuts every reader
    node = open_host().remember(CANARY, title=CANARY)['doc_id'] + '#0'
    said = shown(READERS[reader], open_host(pii=policy), node)
    assert 'quokka' not in said and ('nothing is shown' in said or 'not available' in said)

@pytest.mark.parametrize('reader', READERS)
def test_no_reader_passes_a_failing_gate_by(open_host, monkeypatch, reader):
    pii = type(sys)('ramabana.pii')
    def gate(*args, **kw): raise RuntimeError(CANARY)   # its own words may quote what it looked at
    pii.gate = gate
    monkeypatch.setitem(sys.modules, 'ramabana.pii', pii)
    node = open_host().remember(CANARY, title=CANARY)['doc_id'] + '#0'
    assert 'quokka' not in shown(READERS[reader], open_host(pii='redact'), node)

@case('https://github.com/rohitg00/agentmemory/issues/817')
@pytest.mark.parametrize('reader', READERS)
def test_no_reader_leaves_its_shelf(open_host, reader, case):
    node = open_host(shelf='private').remember(CANARY, title=CANARY)['doc_id'] + '#0'
    assert 'quokka' not in shown(READERS[reader], open_host(shelf='public'), node)

def test_off_shows_what_is_stored(open_host):
    host = open_host(pii='off')
    host.remember(CANARY)
    assert 'quokka' in repr(host.memory_search('safe')) and 'quokka' in repr(host.search('safe'))

# -- several at once

@case('https://github.com/colbymchenry/codegraph/issues/238')
def test_sixteen_calls_of_one_turn_all_answer(open_host, case):
    host = open_host()
    host.remember('The lock is on the shed.', title='shed')
    search = tool(host, 'memory_search')
    with ThreadPoolExecutor(16) as pool: said = list(pool.map(search, ['shed']*16))
    assert all('The lock is on the shed.' in s for s in said)

def test_readers_and_writers_of_one_host(open_host):
    host = open_host()
    def write(i): return host.remember(f'note number {i} on otters', key=f'k{i}')['changed']
    def read(i): return host.memory_search('otters')['query'], host.search('otters')
    with ThreadPoolExecutor(16) as pool:
        wrote, got = list(pool.map(write, range(30))), list(pool.map(read, range(30)))
    assert all(wrote) and len(got) == 30 and len(host.memory_tree()) == 30

def test_a_job_and_a_turn_have_their_own_connections(open_host):
    host, seen = open_host(), []
    host.remember('a turn is on', title='turn')
    original = host._worker_vault
    class Job:
        def __init__(self, vault): self.vault = vault
        def connect(self, chat=None): seen.append((self.vault.db, self.vault.doc('turn')['title'], chat))
        def close(self): self.vault.close()
    host._worker_vault = lambda: Job(original())
    host.connect(wait=True)
    assert seen[0][0] is not host.vault.db and seen[0][1:] == ('turn', None) and not host.notes
    host.remember('the turn goes on')

def test_connecting_that_fails_is_noted(open_host):
    host = open_host()
    def broken(): raise OSError('no space left')
    host._worker_vault = broken
    host.connect(wait=True)
    assert any('no space left' in note for note in host.notes)

def test_a_vault_in_memory_gives_itself(folder):
    with Vault(':memory:') as vault, VaultHost([folder/'root'], vault=vault, index=False) as host:
        assert host._worker_vault() is vault
        host.remember('kept')
    with pytest.raises(AgentError, match='is closed'): host.remember('late')

# -- one thing, one document

@case('https://github.com/basicmachines-co/basic-memory/issues/1077')
@pytest.mark.parametrize('title', ['Site Roadmap', 'site roadmap', 'site-roadmap', 'site_roadmap', 'SITE ROADMAP'])
def test_a_note_titled_like_a_file_is_refused(open_host, title, case):
    host = open_host()
    host.vault.add('# Site Roadmap\n\nSpring: search.\n', title='Site Roadmap', source='site-roadmap.md', kind='markdown')
    assert 'is the title of document' in tool(host, 'remember')('Summer: answers.', title=title)
    assert len(host.memory_tree()) == 1

@case('https://github.com/netclaw-dev/netclaw/issues/379')
def test_a_fact_said_five_times_is_one_note(open_host, case):
    host = open_host()
    said = [tool(host, 'remember')('Reddit scanner lives in pb-marketing') for _ in range(5)]
    assert len(host.memory_tree()) == 1 and all(s.startswith('already knew') and 'already known' in s for s in said[1:])

@case('https://github.com/basicmachines-co/basic-memory/pull/1152')
def test_equal_bytes_at_two_places_are_two_documents(open_host, case):
    host = open_host()
    for source in 'b.md', 'a.md': host.vault.add('The same bytes.', source=source)
    assert {row['source'] for row in host.memory_tree()} == {'a.md', 'b.md'}

@case('https://github.com/langgenius/dify/issues/9354')
def test_a_replaced_text_no_longer_answers(open_host, case):
    host = open_host()
    host.remember('The launch is called marmalade.', key='launch')
    host.remember('The launch is called treacle.', key='launch')
    assert 'marmalade' not in repr(host.memory_search('marmalade')['results']) and 'marmalade' not in repr(host.search('marmalade'))

@case('https://github.com/chatchat-space/Langchain-Chatchat/issues/623')
def test_a_forgotten_document_is_not_quoted(open_host, case):
    host = open_host()
    doc = host.remember('The answer is forty-two.', title='A')['doc_id']
    assert tool(host, 'memory_forget')(doc) == f'forgot {doc}'
    assert tool(host, 'memory_search')('the answer') == "memory holds nothing on 'the answer'"
    assert 'no section' in tool(host, 'memory_read')(f'{doc}#0')

# -- a vault that does not open

@pytest.mark.parametrize('content', [b'not a database', b'SQLite format 3\x00' + b'\x01'*200])
def test_a_broken_vault_takes_memory_and_nothing_else(open_host, folder, content):
    (folder/'v.db').write_bytes(content*50)
    (folder/'root'/'a.txt').write_text('needle\n')
    host = open_host()
    assert [h.path for h in host.search('needle')] == ['a.txt'] and 'v.db did not open' in host.search_note
    for call in (lambda: host.memory_search('x'), lambda: host.remember('x'), lambda: host.memory_tree(), lambda: host.memory_forget('x')):
        with pytest.raises(AgentError, match='v.db did not open'): call()
    (folder/'v.db').unlink()
    host.open_vault(wait=True)
    assert host.remember('open again')['doc_id']

def test_search_does_not_wait_for_a_vault_that_hangs(open_host, folder, monkeypatch):
    (folder/'root'/'a.txt').write_text('needle\n')
    host, go_on = open_host(warm=False), threading.Event()
    monkeypatch.setattr(type(host._opening), '_open', lambda self: go_on.wait(30))
    start = time.monotonic()
    assert [h.path for h in host.search('needle')] == ['a.txt'] and time.monotonic() - start < 3
    assert 'prose failed' in host.search_note
    go_on.set()

def test_a_vault_that_was_handed_in_stays_open(folder):
    with Vault(folder/'mine.db') as vault:
        with VaultHost([folder/'root'], vault=vault, index=False) as host: host.remember('kept', title='kept')
        assert vault.doc('kept')

def test_closing_at_once_leaves_no_thread(folder):
    for _ in range(5):
        with VaultHost([folder/'root'], vault=folder/'v.db', index=False): pass
    assert not [t for t in threading.enumerate() if t.name == 'open vault']

def test_unknown_keywords_are_errors(folder):
    for cls in VaultHost, WorkspaceHost, LocalHost:
        with pytest.raises(TypeError): cls([folder/'root'], idnex=False)

# -- federated search

def hanging(query, limit): time.sleep(5)

@pytest.mark.parametrize('deadline', [0.1, 0.5])
def test_no_query_takes_longer_than_its_deadline(deadline):
    took = []
    for _ in range(3):
        start = time.monotonic()
        found = federate(dict(quick=lambda q, n: [Hit('a')], hanging=hanging, second=hanging), 'x', deadline=deadline)
        took.append(time.monotonic() - start)
    assert min(took) < deadline + 0.05 and len(found.hits) == 1 and 'TimeoutError' in found.legs['hanging']

def test_a_program_ends_while_a_leg_hangs():
    code = 'import time\nfrom ramabana.federate import federate\nfederate(dict(a=lambda q, n: time.sleep(60)), "x", deadline=0.1)'
    start = time.monotonic()
    subprocess.run([sys.executable, '-c', code], cwd=ROOT, check=True, timeout=20)
    assert time.monotonic() - start < 10

def test_the_literal_leg_stays_inside(tmp_path):
    (tmp_path/'root'/'core'/'deps').mkdir(parents=True)
    (tmp_path/'root'/'core'/'lib'/'deps').mkdir(parents=True)
    (tmp_path/'root'/'core'/'.gitignore').write_text('/deps/\n')
    for path in 'core/deps/x.py', 'core/lib/deps/y.py', '.hidden.py', 'core/.hidden.py': (tmp_path/'root'/path).write_text('needle\n')
    (tmp_path/'outside.txt').write_text('needle\n')
    (tmp_path/'root'/'link.txt').symlink_to(tmp_path/'outside.txt')
    (tmp_path/'root'/'up').symlink_to(tmp_path)
    assert [h.path for h in federate(dict(grep=grep_leg([tmp_path/'root'])), 'needle').hits] == ['core/lib/deps/y.py']

def test_a_search_without_network(open_host):
    with block_network(loopback=False) as tried:
        host = open_host()
        host.remember('Offline works.')
        assert host.memory_search('offline')['results'] and host.search('offline')
    assert tried == []

# -- nothing outside the roots

def test_a_folder_exchanged_for_a_link_shows_nothing_outside(tmp_path):
    for name in 'root/sub', 'outside': (tmp_path/name).mkdir(parents=True)
    (tmp_path/'root'/'sub'/'f').write_text('inside')
    (tmp_path/'outside'/'f').write_text('outside')
    host, stop, said, sub = LocalHost([tmp_path/'root'], index=False), threading.Event(), set(), tmp_path/'root'/'sub'
    def away():
        "Whatever stands there, a folder that the host made meanwhile included."
        sub.unlink() if sub.is_symlink() else shutil.rmtree(sub, ignore_errors=True)
    def exchange():
        sub.rename(tmp_path/'root'/'kept')
        while not stop.is_set():
            for put in (lambda: sub.symlink_to(tmp_path/'outside'), lambda: shutil.copytree(tmp_path/'root'/'kept', sub)):
                try: put()
                except OSError: pass   # the host was faster
                away()
    other = threading.Thread(target=exchange)
    other.start()
    try:
        for i in range(1500):
            try:
                said.add(host.read('sub/f'))
                host.write('sub/new', str(i))
                host.delete('sub/new')
            except AgentError: pass
    finally:
        stop.set()
        other.join()
    assert 'outside' not in said and os.listdir(tmp_path/'outside') == ['f']

@pytest.mark.parametrize('call', ['read_file', 'write_file', 'edit_file', 'delete_file', 'list_files', 'grep', 'run_cmd'])
@pytest.mark.parametrize('path', ['../outside.txt', 'link.txt', 'up/outside.txt', 'sub/../../outside.txt', '/etc/passwd', 'a\x00b', 'dangling', '~/x', '/proc/self/environ'])
def test_no_tool_leaves_the_roots(tmp_path, call, path):
    (tmp_path/'root'/'sub').mkdir(parents=True)
    (tmp_path/'outside.txt').write_text('needle outside')
    (tmp_path/'root'/'link.txt').symlink_to(tmp_path/'outside.txt')
    (tmp_path/'root'/'up').symlink_to(tmp_path)
    (tmp_path/'root'/'dangling').symlink_to(tmp_path/'made.txt')
    args = dict(write_file=dict(text='x'), edit_file=dict(old='needle', new='x'), grep=dict(pattern='needle'), run_cmd=dict(command='cat *')).get(call, {})
    said = tool(LocalHost([tmp_path/'root'], index=False), call)(**({'cwd': path} if call == 'run_cmd' else {'path': path}), **args)
    assert said.startswith('AgentError: ') and str(tmp_path/'root') in said and 'needle' not in said
    assert (tmp_path/'outside.txt').read_text() == 'needle outside' and not (tmp_path/'made.txt').exists()

# -- settings of two processes

def test_two_processes_keep_each_others_settings(tmp_path):
    file = tmp_path/'config.toml'
    file.write_text('# mine\n')
    code = 'import sys\nfrom ramabana.config import set_setting\nfor i in range(20): set_setting(f"{sys.argv[1]}{i}", i, sys.argv[2])'
    both = [subprocess.Popen([sys.executable, '-c', code, name, str(file)], cwd=ROOT) for name in 'ab']
    assert [p.wait(60) for p in both] == [0, 0]
    assert file.read_text().startswith('# mine\n') and all(setting(f'{n}{i}', path=file) == i for n in 'ab' for i in range(20))

@pytest.mark.parametrize('text', ['', '# only a comment', 'a = 1', '[t]\n', '# top\n\n[t]\nx = 1\n', '# about t\n[t]\nx = [\n  1,\n  [2],\n]\n\n# about u\n[u]\n', 't.x = 1\n',
    't = {x = 1}\n', '[[list]]\nx = 1\n', 's = """\n[t]\n"""\n', "a = 'x'  # c\r\n[t]\r\n"])
@pytest.mark.parametrize('name', ['new', 't.new'])
def test_every_line_stays_when_a_setting_is_added(tmp_path, text, name):
    file = tmp_path/'config.toml'
    file.write_bytes(text.encode())
    set_setting(name, 'v', file)
    now = file.read_bytes().decode()
    assert setting(name, path=file) == 'v'
    kept = now.splitlines()
    for line in text.splitlines():
        if '{' not in line or name == 'new': kept = kept[kept.index(line) + 1:]   # in their order; an inline table is written anew
    set_setting(name, None, file)
    assert setting(name, path=file) is None

# -- what a start costs, in CPU seconds of a new process

def cpu_of(code, setup='pass'):
    "CPU seconds that `code` takes after `setup`, the best of three new processes."
    text = f'import time\n{setup}\nt = time.process_time()\n{code}\nprint(time.process_time() - t)'
    env = {k: v for k, v in os.environ.items() if not k.startswith(('RAMABANA_', 'VISHALAKSHI_'))}
    return min(float(subprocess.run([sys.executable, '-c', text], cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout) for _ in range(3))

@pytest.mark.parametrize('code, limit', [('import ramabana', 0.15), ('from ramabana.vault import VaultHost', 0.3)])
def test_import_is_light(code, limit): assert cpu_of(code) <= limit

@pytest.mark.parametrize('warm', [False, True])
def test_a_host_and_its_tools_are_made_at_once(folder, warm):
    made = f'VaultHost([{str(folder/"root")!r}], vault={str(folder/"v.db")!r}, warm={warm})'
    assert cpu_of(f'tools_for({made})', 'from ramabana.vault import VaultHost\nfrom ramabana.tools import tools_for') <= 0.01

def test_the_vault_is_ready_within_a_second(folder):
    made = f'host = VaultHost([{str(folder/"root")!r}], vault={str(folder/"v.db")!r})\nhost.open_vault(wait=True)'
    assert cpu_of(made, 'from ramabana.vault import VaultHost') <= 1.0

def test_importing_loads_nothing_heavy():
    code = 'import sys, ramabana.vault, ramabana.tools\nprint(*sorted({m.split(".")[0] for m in sys.modules}))'
    loaded = subprocess.run([sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert not set(loaded) & {'fastcore', 'fastlite', 'apsw', 'numpy', 'numkong', 'rgapi', 'model2vec', 'litesearch', 'tomlkit', 'pydantic_ai', 'asyncio', 'sqlite3'}

def test_a_warm_start_that_still_sleeps_does_not_keep_a_vault_shut(tmp_path):
    from ramabana.opening import Opening, open_again, start_opening
    (tmp_path/'v.db').write_bytes(b'not a database' * 50)
    opening = Opening(tmp_path/'v.db', None, print)
    start_opening(opening, pause=30)
    opening._open()   # somebody else heard of the failure first
    assert opening.error and opening._thread.is_alive()
    (tmp_path/'v.db').unlink()
    open_again(opening, wait=True)
    assert not opening.error and opening.vault is not None
    opening.vault.close()

# -- a workspace: git, worktrees, commands in the background, services
def repository(path):
    env = dict(os.environ, GIT_CONFIG_GLOBAL='/dev/null', GIT_CONFIG_NOSYSTEM='1')
    path.mkdir(parents=True)
    (path/'a.txt').write_text('one\n')
    for line in ('git init -q -b main', 'git add .', 'git -c user.name=Ann -c user.email=a@example.org commit -qm First'): subprocess.run(line.split(), cwd=path, check=True, env=env)
    return path

def workspace(*roots, **kw): return WorkspaceHost(roots, index=False, web=False, **kw)

def test_a_worktree_beside_its_repository(tmp_path):
    repo = repository(tmp_path/'my repo')
    with workspace(repo) as host:
        made = host.add_worktree(repo, 'feature/x y'.replace(' ', '-'))
        assert made == (tmp_path/'my repo-feature-x-y').resolve() and made in host.roots and host.read(str(made/'a.txt')) == 'one\n'
        named = host.add_worktree(repo, 'other', tmp_path/'elsewhere')
        assert named.name == 'elsewhere' and 'other' in host.git('status', str(named))
        (tmp_path/'full').mkdir()
        (tmp_path/'full'/'x').write_text('x')
        for branch, path in (('other', tmp_path/'again'), ('new', tmp_path/'full'), ('--force', tmp_path/'f'), ('a..b', tmp_path/'f'), ('', tmp_path/'f')):
            with pytest.raises(AgentError): host.add_worktree(repo, branch, path)
        assert not (tmp_path/'again').exists() and not (tmp_path/'f').exists() and (tmp_path/'full'/'x').exists()
        with pytest.raises(AgentError, match='no git repository'): host.add_worktree(tmp_path, 'main')

def test_a_hook_and_a_filter_of_the_repository_do_not_run(tmp_path):
    repo = repository(tmp_path/'repo')
    for name in ('post-checkout', 'pre-commit', 'post-index-change'):
        (repo/'.git/hooks'/name).write_text(f'#!/bin/sh\ntouch {tmp_path}/ran\n')
        (repo/'.git/hooks'/name).chmod(0o755)
    subprocess.run(['git', 'config', 'filter.evil.smudge', f'touch {tmp_path}/ran'], cwd=repo, check=True)
    (repo/'.gitattributes').write_text('*.txt filter=evil\n')
    with workspace(repo) as host:
        host.add_worktree(repo, 'b')
        for what in ('status', 'diff', 'log'): host.git(what)
    assert not (tmp_path/'ran').exists()

def test_background_commands_end_with_their_host(tmp_path):
    with workspace(tmp_path) as host:
        name = host.run_cmd_bg('sleep 300 & echo $! > child; echo begun; cat; sleep 300')
        for _ in range(200):
            if 'begun' in host.cmd_log(name) and (tmp_path/'child').exists(): break
            time.sleep(0.02)
        assert host.cmd_status(name)['running'] and 'begun' in host.cmd_log(name, tail=1)
        child = int((tmp_path/'child').read_text())
        log = host._commands._folder
        assert os.stat(f'{log}/{name}.log').st_mode & 0o77 == 0
        with pytest.raises(AgentError): host.run_cmd_bg('true', str(tmp_path.parent))
        for call in (host.cmd_status, host.cmd_log, host.cmd_stop):
            with pytest.raises(AgentError, match='no command'): call('cmd99')
    for _ in range(100):
        try: os.kill(child, 0)
        except ProcessLookupError: break
        if Path(f'/proc/{child}/stat').exists() and Path(f'/proc/{child}/stat').read_text().split()[2] == 'Z': break
        time.sleep(0.02)
    else: pytest.fail('what the command started lives on')
    assert not os.path.exists(log)

def test_services_are_off_unless_asked_for(tmp_path):
    off, on = workspace(tmp_path), workspace(tmp_path, spec=True)
    names = lambda host: {t.__name__ for t in tools_for(host)}
    assert names(on) - names(off) == {'api_load', 'api_ops', 'api_call'}
    with pytest.raises(NotImplementedError): off.api_ops()
    assert on.api_count() == {}
    off.close()
    on.close()
