"""The review queue and other processes: killed at any moment, several at once, a batch that holds the lock."""
import json, os, random, signal, subprocess, sys, threading, time
from pathlib import Path

import pytest

import ramabana.learned as L
from lq import IDS, PFX, T, by_hand, fast_candidates, git, head, mkrepo, propose, put, refs, snap, status, tree, worktrees

A, B, C, D = IDS[:4]
RULE = 'A rule a person wrote.\n'
CALL = 'import sys, json; import ramabana.learned as L; print("ready", flush=True); sys.stdin.readline(); print(json.dumps(getattr(L, sys.argv[1])(*sys.argv[2:])))'

@pytest.fixture
def f(tmp_path): return mkrepo(tmp_path)

def start(*words):
    "A process that has loaded the library and waits for a line."
    process = subprocess.Popen([sys.executable, '-c', CALL, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == 'ready\n'
    return process

def go(process):
    process.stdin.write('\n')
    process.stdin.flush()

def whole(f, id, before, after_files):
    "HEAD, files, index and queue agree: everything as before, or everything as after."
    rows = {row['id'] for row in L.pending(f)}
    moved = head(f) != before[0]
    assert status(f) == '', (moved, status(f))
    assert (id not in rows) == moved
    assert {name for name in tree(f) if name.startswith('skills')} == (set(after_files) if moved else set())
    for name in rows: assert moved == (git(f, 'rev-parse', f'{PFX}{name}^') == head(f)) or not moved
    left = [str(p.relative_to(f)) for p in (f/'.git').rglob('*.lock')] + [p.name for p in (f/'.git/ramabana').glob('*') if p.name != 'accepted.jsonl']
    assert not left and worktrees(f) == 1
    return moved

def killed(f, wait, id=A, call='accept', group=False):
    "Run one call in a process and kill it after `wait` seconds; how long the whole call would take when `wait` is None."
    process = start(call, f, *([id] if id else []))
    at = time.monotonic()
    go(process)
    if wait is None:
        out, err = process.communicate()
        assert json.loads(out)['ok'], (out, err)
        return time.monotonic() - at
    time.sleep(wait)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return None

def rounds(tmp_path, times, files=300, seed=1):
    "Accept with `files` files, killed at random moments; how often it had been done. Raises AssertionError at the first disagreement."
    rnd, done = random.Random(seed), 0
    f = mkrepo(tmp_path)
    fast_candidates(f, 3, path='skills/s{i}/{k}.md', files=files)
    first = head(f), refs(f)
    names = {f'skills/s0/{k}.md' for k in range(files)}
    took = killed(f, None)
    def reset():
        git(f, 'reset', '-q', '--hard', first[0])
        for line in first[1].splitlines(): git(f, 'update-ref', *line.split(' '))
    reset()
    for _ in range(times):
        killed(f, rnd.uniform(0, took * 1.1))
        done += whole(f, A, first, names)
        reset()
    return done

def test_killed_while_accepting(tmp_path): rounds(tmp_path, 12)

STEPS = ['unpack-objects', 'ls-files', 'update-ref', 'update-index', 'for-each-ref', 'cat-file', 'symbolic-ref']

@pytest.mark.parametrize('step', STEPS)
@pytest.mark.parametrize('when, what', [('before', 'parent'), ('after', 'both'), ('after', 'parent')])
@pytest.mark.parametrize('call', ['accept', 'undo'])
def test_killed_at_a_step(f, tmp_path, monkeypatch, step, when, what, call):
    "A git on the PATH that kills who called it, before or after it does its work, with or without itself."
    import shutil
    fast_candidates(f, 3, path='skills/s{i}/{k}.md', files=20)
    names, first = {f'skills/s0/{k}.md' for k in range(20)}, (head(f),)
    if call == 'undo':
        assert L.accept(f, A)['ok']
        first = (head(f),)
    (tmp_path/'bin').mkdir()
    real = shutil.which('git')
    kill = 'kill -9 $PPID' + ('; sleep 0.2' if what == 'parent' else '; kill -9 $$')
    body = f'{kill}; exec {real} "$@"' if when == 'before' else f'{real} "$@"; {kill}'
    for nth in (1, 2, 4):
        (tmp_path/'count').write_text('')
        (tmp_path/'bin/git').write_text(f'#!/bin/sh\nfor a in "$@"; do if [ "$a" = {step} ]; then echo x >> {tmp_path}/count; if [ "$(wc -l < {tmp_path}/count)" -eq {nth} ]; then {body}; exit; fi; break; fi; done\nexec {real} "$@"\n')
        (tmp_path/'bin/git').chmod(0o755)
        with monkeypatch.context() as m:
            m.setenv('PATH', f'{tmp_path}/bin:{os.environ["PATH"]}')
            process = start(call, f, *([A] if call == 'accept' else []))
            go(process)
            process.wait()
        rows = {row['id'] for row in L.pending(f)}
        assert status(f) == ''
        moved = head(f) != first[0]
        files = {name for name in tree(f) if name.startswith('skills/s0/')}
        if call == 'accept': assert (A not in rows) == moved and files == (names if moved else set())
        else: assert (A in rows) == moved and files == (set() if moved else names)
        assert not list((f/'.git').rglob('*.lock'))
        if moved: break

def test_killed_between_any_two_lines(f, tmp_path):
    "The same by a trace function: the process kills itself at the n-th line of the journal's code."
    fast_candidates(f, 3, path='skills/s{i}/{k}.md', files=5)
    first, names = (head(f),), {f'skills/s0/{k}.md' for k in range(5)}
    start_refs = refs(f)
    code = '''import os, signal, sys
import ramabana.learned as L
n = [0]
def trace(frame, event, arg):
    if 'learned_journal' not in frame.f_code.co_filename: return None
    if event == 'line':
        n[0] += 1
        if n[0] == int(sys.argv[3]): os.kill(os.getpid(), signal.SIGKILL)
    return trace
sys.settrace(trace)
L.accept(sys.argv[1], sys.argv[2])
sys.settrace(None)
print(n[0])'''
    run = lambda n: subprocess.run([sys.executable, '-c', code, str(f), A, str(n)], capture_output=True, text=True)
    lines = int(run(10**9).stdout)
    rnd, states = random.Random(3), set()
    for n in sorted(rnd.sample(range(1, lines), 25)):
        git(f, 'reset', '-q', '--hard', first[0])
        for line in start_refs.splitlines(): git(f, 'update-ref', *line.split(' '))
        assert run(n).returncode == -signal.SIGKILL
        states.add(whole(f, A, first, names))
    assert states == {True, False}

def test_killed_with_an_edit_before_the_next_call(f, tmp_path):
    "HEAD has not moved and a person edits a file that would be written: taken back, the edit stays."
    from dataclasses import asdict
    from ramabana.learned_journal import Plan, _own, _write_atomically, open_repo
    propose(f, {'AGENTS.md': RULE + 'Use rg.\n', 'skills/a': '1\n'}, A)
    before, after = head(f), git(f, 'rev-parse', PFX + A)
    entry = lambda rev, path: ('100644', git(f, 'rev-parse', f'{rev}:{path}'))
    branch = git(f, 'symbolic-ref', 'HEAD')
    plan = Plan('accept', ((branch, before, after), (f'refs/heads/{PFX}{A}', after, '')), branch, (('AGENTS.md', entry(before, 'AGENTS.md'), entry(after, 'AGENTS.md')), ('skills/a', None, entry(after, 'skills/a'))))
    _write_atomically(_own(open_repo(f), 'journal.json'), json.dumps(asdict(plan)))
    put(f, 'skills/a', '1\n')
    put(f, 'AGENTS.md', 'mine\n')
    assert [row['id'] for row in L.pending(f)] == [A] and head(f) == before and (f/'AGENTS.md').read_text() == 'mine\n' and not (f/'skills/a').exists()

# -- several at once
def test_many_accept_at_once(f):
    ids = fast_candidates(f, 8)
    processes = [start('accept', f, id) for id in ids]
    for process in processes: go(process)
    answers = [json.loads(process.communicate()[0]) for process in processes]
    assert any(one['ok'] for one in answers) and all(one['ok'] or 'batch is running' in one['error'] for one in answers)
    for one in answers:
        if not one['ok']: assert L.accept(f, one['id'])['ok']
    assert len(list(f.glob('skills/*'))) == 8 and L.pending(f) == [] and status(f) == '' and int(git(f, 'rev-list', '--count', 'HEAD')) == 9

def test_many_threads_accept_the_same(f):
    fast_candidates(f, 3)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(L.accept(f, A))) for _ in range(6)]
    for one in threads: one.start()
    for one in threads: one.join()
    assert sum(one['ok'] for one in answers) == 1 and all(one['ok'] or 'batch is running' in one['error'] or 'nothing is pending' in one['error'] for one in answers)
    assert status(f) == '' and len(L.pending(f)) == 2

def test_reading_while_somebody_accepts(f):
    ids = fast_candidates(f, 40, path='skills/s{i}/{k}.md', files=5)
    process = subprocess.Popen([sys.executable, '-c', 'import sys, ramabana.learned as L\nfor id in sys.argv[2:]: assert L.accept(sys.argv[1], id)["ok"]', str(f), *ids[:6]])
    while process.poll() is None:
        for row in L.pending(f): assert row['stale'] is None and len(row['files']) == 5, row
    assert process.returncode == 0 and len(L.pending(f)) == 34

def test_a_person_commits_at_the_same_time(f):
    "Neither commit is lost, whoever is first."
    ids = fast_candidates(f, 6)
    code = 'import sys, ramabana.learned as L, time\nfor id in sys.argv[2:]:\n  while not (d := L.accept(sys.argv[1], id))["ok"]: print(d["error"], file=sys.stderr); time.sleep(.05)'
    process, n = subprocess.Popen([sys.executable, '-c', code, str(f), *ids]), 0
    while process.poll() is None:
        put(f, f'hand{n}', 'x\n')
        git(f, 'add', f'hand{n}', check=False)
        git(f, *T, 'commit', '-qm', f'by hand {n}', '--', f'hand{n}', check=False)
        n += 1
        time.sleep(0.1)
    git(f, 'add', '-A')
    git(f, *T, 'commit', '-qm', 'rest', check=False)
    assert status(f) == '' and len(list(f.glob('skills/*'))) == 6 and len(list(f.glob('hand*'))) == n and L.pending(f) == []
    assert set(git(f, 'ls-tree', '-r', '--name-only', 'HEAD').splitlines()) == set(tree(f))

def test_the_lock_of_a_batch_in_another_process(f):
    import fcntl
    propose(f, {'x': '1\n'}, A)
    code = 'import fcntl, os, sys\nfd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\nfcntl.flock(fd, fcntl.LOCK_EX)\nprint("held", flush=True)\nsys.stdin.readline()'
    batch = subprocess.Popen([sys.executable, '-c', code, str(f.parent/'.learned.lock')], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert batch.stdout.readline() == 'held\n'
    before, at = snap(f), time.monotonic()
    for call in (L.accept, L.reject): assert 'batch is running' in call(f, A)['error']
    assert time.monotonic() - at < 5 and snap(f) == before and L.pending(f)[0]['id'] == A and L.diff(f, A)['ok']
    batch.kill()
    batch.wait()
    assert L.accept(f, A)['ok']

def test_nothing_is_left_in_the_temporary_folder(f, tmp_path, monkeypatch):
    import tempfile
    monkeypatch.setattr(tempfile, 'tempdir', None)
    (tmp_path/'tmp').mkdir()
    monkeypatch.setenv('TMPDIR', str(tmp_path/'tmp'))
    (tmp_path/'tmp'/f'ramabana-git-{2**22 - 1}-dead').mkdir()
    propose(f, {'AGENTS.md': 'b\n'}, A)
    L.diff(f, A)
    assert not list((tmp_path/'tmp').glob('ramabana-git-*'))
    tempfile.tempdir = None

def test_a_folder_that_cannot_be_written(f):
    if not os.geteuid(): pytest.skip('root may write everywhere')
    propose(f, {'skills/a': '1\n'}, A)
    f.chmod(0o500)
    try: assert L.accept(f, A)['ok'] is False
    finally: f.chmod(0o700)
    assert status(f) == '' and L.accept(f, A)['ok']

def test_a_write_that_fails_takes_all_back(f, monkeypatch):
    "The disk is full at the third file."
    import ramabana.learned_journal as journal
    fast_candidates(f, 2, path='skills/s{i}/{k}.md', files=5)
    before, real, n = snap(f), journal._put, []
    def full(*args):
        n.append(1)
        if len(n) == 3: raise OSError(28, 'No space left on device', 'skills')
        return real(*args)
    monkeypatch.setattr(journal, '_put', full)
    done = L.accept(f, A)
    assert done['ok'] is False and 'No space left' in done['error'] and snap(f) == before
    assert L.accept(f, A)['ok']

@pytest.mark.parametrize('name', ['journal.json', 'accepted.jsonl'])
def test_a_damaged_file_of_ours_is_named(f, name):
    propose(f, {'x': '1\n'}, A)
    put(f, f'.git/ramabana/{name}', '{"half')
    done = L.accept(f, A)
    assert done['ok'] is False and name in done['error'] and not (f/'x').exists()
    (f/'.git/ramabana'/name).unlink()
    assert L.accept(f, A)['ok']

def test_rubbish_in_the_lock_file(f):
    propose(f, {'x': '1\n'}, A)
    for text in ('99999999999999999999', 'x', '\x00', '0', '-1'):
        (f.parent/'.learned.lock').write_text(text)
        with L._locked(f) as held: assert held
    assert L.accept(f, A)['ok']
