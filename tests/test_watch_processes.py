"""Watches in many processes, which are killed: each occurrence is done once, or not yet."""
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from ramabana.config import set_setting
from ramabana.memory import Vault
from ramabana.testing import Site

def child(code, *args, **kw):
    "A process that runs `code`."
    return subprocess.Popen([sys.executable, '-c', textwrap.dedent(code), *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)

def ended(process, timeout=120):
    "Its exit status and what it said; a child that is still there is ended."
    try: said, wrong = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        said, wrong = process.communicate()
    return process.returncode, said, wrong

KILLED = '''
    import os, signal, sys
    from ramabana import filing, jobs, watches
    from ramabana.memory import Vault
    path, step, at = sys.argv[1], sys.argv[2], float(sys.argv[3])
    def die(*args, **kw): os.kill(os.getpid(), signal.SIGKILL)
    def after(call):
        def wrapped(*args, **kw):
            call(*args, **kw)
            die()
        return wrapped
    vault = Vault(path)
    if step == 'before queueing': watches.queue_due = die
    if step == 'after queueing': watches.queue_due = after(watches.queue_due)
    if step == 'after claiming': watches.claim = after(watches.claim)
    if step == 'in the action': watches.act = after(watches.act)
    if step == 'after encoding': filing.encode_chunks = after(filing.encode_chunks)
    if step == 'after acknowledging': watches.finish = after(watches.finish)
    if step == 'after writing': filing.write = after(filing.write)
    if step == 'after the journal': watches.note_run = after(watches.note_run)
    if step == 'before the commit': watches._acknowledge = after(watches._acknowledge)
    if step == 'after the commit': watches.file = after(watches.file)
    vault.poll(at=at, connect=False)
    print('not killed')
'''
STEPS = ('before queueing', 'after queueing', 'after claiming', 'in the action', 'after encoding', 'after acknowledging', 'after writing', 'after the journal', 'before the commit', 'after the commit')

@pytest.fixture
def site():
    set_setting('web.allow', ['127.0.0.1'])
    set_setting('web.delay', 0)
    with Site({'/page': (200, {'Content-Type': 'text/plain'}, b'High water at noon.')}) as site: yield site

@pytest.mark.parametrize('action, step', [*(('url', step) for step in STEPS), *(('remind', step) for step in STEPS[2::2]), *(('folder', step) for step in STEPS[3::3])])
def test_kill_9_at_any_step_loses_nothing_and_repeats_nothing(tmp_path, site, action, step):
    path = tmp_path/'v.db'
    (tmp_path/'files').mkdir()
    target = dict(remind='Drink the tea.', url=site.url('/page'), folder=str(tmp_path/'files'))[action]
    with Vault(path) as vault:
        watch = vault.watch(target, action, every='1d', tz='UTC')
        at = watch['next_run']
        if action == 'folder':                  # its first look only remembers
            vault.poll(at=at, connect=False)
            at += 86400
            (tmp_path/'files'/'new.txt').write_text('new')
    status, said, wrong = ended(child(KILLED, path, step, at))
    assert status == -signal.SIGKILL, (status, said, wrong)
    with Vault(path) as vault:
        for second in (1, 2, 700): vault.poll(at=at + second, connect=False)
        done = [run for run in vault.runs() if run['due'] == at]
        assert [run['status'] for run in done] == ['ok']
        assert vault.jobs() == [] and vault.watches()[0]['last_status'] == 'ok'
        document = done[0]['result']['doc_id']
        assert vault.doc(document) and vault.versions(document) == []
        assert vault.check()['ok']

POLLER = '''
    import sys, time
    from ramabana.memory import Vault
    path, at, until = sys.argv[1], float(sys.argv[2]), time.time() + float(sys.argv[3])
    ran = 0
    with Vault(path) as vault:
        while time.time() < until:
            told = vault.poll(at=at, connect=False)
            assert 'error' not in told, told
            ran += sum(row['status'] == 'ok' for row in told['results'])
            if not vault.jobs() and not vault.watches(due_only=True, at=at): break
            time.sleep(0.01)
    print(ran)
'''

def test_eight_processes_on_one_file_do_each_once(tmp_path):
    path, count = tmp_path/'v.db', 60
    with Vault(path) as vault: at = max(vault.watch(f'reminder {n}', every='1d', tz='UTC')['next_run'] for n in range(count))
    pollers = [child(POLLER, path, at, 60) for _ in range(8)]
    told = [ended(poller) for poller in pollers]
    assert all(status == 0 for status, *_ in told), told
    assert sum(int(said) for _, said, _ in told) == count
    with Vault(path) as vault:
        assert vault.stats()['by_kind'] == {'note': count}
        assert len([run for run in vault.runs(limit=1000) if run['status'] == 'ok']) == count
        assert vault.jobs() == [] and not any(vault.versions(f'note:reminder:{row["id"]}') for row in vault.watches())

@pytest.mark.slow
def test_random_kills_among_eight_processes(tmp_path):
    path, count = tmp_path/'v.db', 100
    with Vault(path) as vault: at = max(vault.watch(f'reminder {n}', every='1d', tz='UTC')['next_run'] for n in range(count))
    pollers, kills = [child(POLLER, path, at, 60) for _ in range(8)], 0
    while kills < 6 and any(p.poll() is None for p in pollers):
        time.sleep(0.25)
        victim = next((i for i, p in enumerate(pollers) if p.poll() is None), None)
        if victim is None: break
        pollers[victim].send_signal(signal.SIGKILL)
        ended(pollers[victim])
        pollers[victim] = child(POLLER, path, at, 60)
        kills += 1
    for poller in pollers: ended(poller)
    with Vault(path) as vault:
        vault.poll(at=at + 1, connect=False)
        runs = [run['due'] for run in vault.runs(limit=10_000) if run['status'] == 'ok']
        assert kills and len(runs) == count and vault.stats()['docs'] == count and vault.jobs() == [] and vault.check()['ok']

def test_a_run_longer_than_the_pause_between_polls_runs_once(tmp_path, site):
    site.routes['/page'] = lambda request: time.sleep(1.5) or (200, {'Content-Type': 'text/plain'}, b'slow')
    with Vault(tmp_path/'v.db') as vault: at = vault.watch(site.url('/page'), 'url', every='10s', tz='UTC')['next_run']
    pollers = [child(POLLER, tmp_path/'v.db', at, 20) for _ in range(4)]
    assert sum(int(ended(poller)[1]) for poller in pollers) == 1
    assert [path for path, _ in site.asked].count('/page') == 1

def test_the_command_in_a_loop_is_ended_by_a_signal(tmp_path):
    with Vault(tmp_path/'v.db') as vault: vault.watch('Drink the tea.', every='1w')
    loop = subprocess.Popen([sys.executable, '-m', 'ramabana.cli', 'poll', '--loop', '1', '--db', str(tmp_path/'v.db')], stdout=subprocess.PIPE, text=True)
    assert loop.stdout.readline() == 'remind: Drink the tea.\n'
    loop.send_signal(signal.SIGINT)
    assert loop.wait(30) == 130
