"""The review queue in words: `/learned`, the command `ramabana-learned`, the interactive review, the switch. And reported bugs of tools of this kind."""
import json, os, pty, re, shutil, subprocess, sys, time
from pathlib import Path

import pytest

import ramabana.learned as L
from cases_of import case
from lq import IDS, PFX, T, by_hand, git, head, mkrepo, propose, put, refs, snap, status, tree, worktrees

A, B, C, D = IDS[:4]
RULE = 'A rule a person wrote.\n'
ROOT = Path(__file__).resolve().parent.parent

@pytest.fixture
def f(tmp_path): return mkrepo(tmp_path)

def cli(*words, given=None, **env):
    "The command as its console script runs it."
    code = 'import sys; from ramabana.learned import learned_cli; sys.exit(learned_cli())'
    return subprocess.run([sys.executable, '-c', code, *map(str, words)], capture_output=True, text=True, input=given, env=os.environ | env, cwd=ROOT)

# -- text
def test_words(f):
    propose(f, {'x': '1\n'}, A)
    assert L.learned_command(f, '  LIST ') == L.learned_command(f) and A in L.learned_command(f)
    for words in ('accept', 'reject', 'diff', f'accept {A} {B}', 'list all', 'on now', '--help', f'accept{A}'): assert 'say /learned' in L.learned_command(f, words)
    assert 'no id' in L.learned_command(f, 'accept --force') and 'nothing is pending' in L.learned_command(f, f'accept {B}') and len(L.pending(f)) == 1

def test_accept_in_words(f):
    propose(f, {'AGENTS.md': 'a\n'}, A)
    propose(f, {'AGENTS.md': 'b\n'}, B)
    propose(f, {'x': '1\n'}, C)
    said = L.learned_command(f, f'accept {A}')
    assert said == f'accepted {A} as {git(f, "rev-parse", "--short", "HEAD")}; moved {C}; {B} no longer apply: reject them'
    assert L.learned_command(f, f'accept {B}') == L.STALE and L.learned_command(f, 'restack') == f'{B} no longer apply: reject them'
    assert L.learned_command(f, 'undo').startswith(f'took back {A}')

def test_text_that_would_steer_a_terminal(f):
    propose(f, {'AGENTS.md': RULE + 'x\x1b[2Jy\u202ez\x07\r\n'}, A, msg='Sub\x1b]0;title\x07ject')
    for words in ('', f'diff {A}'): assert not re.search('[\x00-\x08\x0b-\x1f\u202e]', L.learned_command(f, words))
    assert '\\x1b[2J' in L.learned_command(f, f'diff {A}') and '\\u202e' in L.learned_command(f, f'diff {A}')

# -- the command
def test_exit_status_and_streams(f):
    propose(f, {'x': '1\n'}, A)
    cfg = ('--cfg', f.parent)
    assert (cli(*cfg).returncode, cli('list', *cfg).returncode, cli('diff', A, *cfg).returncode, cli('status').returncode) == (0, 0, 0, 0)
    for words in (('accept', B), ('accept', '--force'), ('frobnicate',), ('accept',), ('list', 'x'), ('--nonsense',)):
        done = cli(*words, *cfg)
        assert done.returncode == 1 and done.stderr.strip() and not done.stdout, (words, done)
        assert 'Traceback' not in done.stderr
    assert cli('accept', A, *cfg).returncode == 0 and L.pending(f) == []
    assert cli(*cfg).stdout == 'nothing is pending\n'

def test_json(f):
    propose(f, {'é': '1\n'}, A, msg='Größe')
    propose(f, edit=lambda wt: open(os.path.join(os.fsencode(wt), b'caf\xe9'), 'wb').close(), id=B)
    cfg = ('--cfg', f.parent, '--json')
    rows = json.loads(cli('list', *cfg).stdout)
    assert [row['id'] for row in rows] == [A, B] and rows[0]['files'] == ['é'] and os.fsencode(rows[1]['files'][0]) == b'caf\xe9'
    assert json.loads(cli('diff', A, *cfg).stdout)['ok'] is True
    failed = cli('accept', C, *cfg)
    assert failed.returncode == 1 and json.loads(failed.stdout)['ok'] is False
    assert json.loads(cli('accept', A, *cfg).stdout)['moved'] == [B] and json.loads(cli('status', *cfg).stdout) == {'learning': True}

def test_help_and_version():
    from ramabana import __version__
    done = cli('--help')
    assert done.returncode == 0 and 'reject' in done.stdout and '--cfg' in done.stdout and '--json' in done.stdout and '--install-completion' in done.stdout
    assert cli('--version').stdout.strip() == __version__

def test_a_narrow_encoding_and_a_closed_pipe(f):
    propose(f, {'é数': '1\n'}, A, msg='Größe 数')
    done = cli('--cfg', f.parent, PYTHONIOENCODING='ascii')
    assert done.returncode == 0 and 'Gr\\xf6\\xdfe' in done.stdout
    shut = subprocess.run(f'{sys.executable} -c "import sys; from ramabana.learned import learned_cli; sys.exit(learned_cli())" --cfg {f.parent} | true', shell=True, capture_output=True, text=True, cwd=ROOT)
    assert shut.stderr == ''

def on_terminal(*words, **env):
    "What the command writes to a terminal."
    code = 'import sys; from ramabana.learned import learned_cli; sys.exit(learned_cli())'
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, '-c', code, *map(str, words)], stdout=theirs, stdin=theirs, stderr=theirs, env=os.environ | {'TERM': 'xterm'} | env, cwd=ROOT)
    os.close(theirs)
    out = b''
    while True:
        try: got = os.read(ours, 4096)
        except OSError: break
        if not got: break
        out += got
    process.wait()
    os.close(ours)
    return out.decode()

def test_colours_on_a_terminal_only(f):
    propose(f, {'AGENTS.md': 'new\n'}, A)
    assert '\x1b[32m+new' in on_terminal('diff', A, '--cfg', f.parent) and '\x1b' not in cli('diff', A, '--cfg', f.parent).stdout
    assert '\x1b' not in on_terminal('diff', A, '--cfg', f.parent, NO_COLOR='1')

def test_starting_is_light():
    code = 'import sys, ramabana.learned; print(*sorted({"pydantic_ai", "git", "cyclopts", "tomlkit", "numpy", "apsw", "litesearch"} & set(sys.modules)))'
    assert subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, cwd=ROOT).stdout.strip() == ''

# -- review
def typed(*words):
    left = list(words)
    def ask(prompt):
        if not left: raise EOFError
        return left.pop(0)
    return ask

def test_review(f, monkeypatch, tmp_path):
    for id, name in zip(IDS, 'abcd'): propose(f, {name: f'{name}\n'}, id)
    editor = tmp_path/'editor'
    editor.write_text('#!/bin/sh\nfor f in "$@"; do echo mended >> "$f"; done\n')
    editor.chmod(0o755)
    monkeypatch.setenv('VISUAL', str(editor))
    said = []
    assert L.review(f, ask=typed('a', 'r', 'e', 'a', 's'), say=said.append)
    assert (f/'a').read_text() == 'a\n' and not (f/'b').exists() and (f/'c').read_text() == 'c\nmended\n' and [row['id'] for row in L.pending(f)] == [D]
    assert git(f, 'log', '-1', '--format=%an') == 'Dhrona' and any('mended' in text for text in said)
    assert L.review(f, ask=typed(), say=said.append) and L.review(f, ask=typed('q'), say=said.append) and len(L.pending(f)) == 1
    editor.write_text('#!/bin/sh\nexit 3\n')
    assert L.review(f, ask=typed('e', 's'), say=said.append) is False and 'status 3' in ' '.join(said)

def test_review_in_a_pipe(f):
    propose(f, {'x': '1\n'}, A)
    done = cli('review', '--cfg', f.parent, given='a\n')
    assert done.returncode == 0 and f'accepted {A}' in done.stdout and '\x1b' not in done.stdout
    assert 'nothing is pending' in cli('review', '--cfg', f.parent, given='').stdout

# -- the switch
@pytest.mark.parametrize('said, on', [('{"learning": "off"}', False), ('{"learning": "on"}', True), ('{"learning": false}', False), ('{"learning": true}', True), ('\ufeff{"learning": "off"}', False)])
def test_an_older_setting(tmp_path, hermetic, said, on):
    (tmp_path/'settings.json').write_text(said, encoding='utf-8')
    assert L.enabled(tmp_path) is on and f'learning = {str(on).lower()}' in (hermetic/'config.toml').read_text()
    assert (tmp_path/'settings.json').read_text(encoding='utf-8') == said
    (tmp_path/'settings.json').write_text('{"learning": "%s"}' % ('off' if on else 'on'))
    assert L.enabled(tmp_path) is on

@pytest.mark.parametrize('said', ['', '{', '[]', '{"learning": 3}', '{"other": 1}', 'null', '\x00'])
def test_an_older_setting_that_says_nothing(tmp_path, hermetic, said):
    (tmp_path/'settings.json').write_text(said)
    assert L.enabled(tmp_path) is True and not (hermetic/'config.toml').exists()

@pytest.mark.parametrize('text', ['# mine\nlearning = true # now\n\n[a]\nlearning = "x"\n', '\r\nother = 1\r\nlearning = true\r\n', '[a]\nb = 1\n', 'other = [\n 1, # one\n]\n', '', '# only this', "learning = 'on'\n"])
def test_only_the_setting_changes(tmp_path, hermetic, text):
    (hermetic/'config.toml').write_bytes(text.encode())
    assert L.set_enabled(tmp_path, False) is False and L.enabled(tmp_path) is False
    now = (hermetic/'config.toml').read_bytes().decode()
    assert [line for line in now.splitlines() if not line.startswith('learning') and line.strip()] == [line for line in text.splitlines() if not line.startswith('learning') and line.strip()] or not text
    assert ('\r\n' in text) == ('\r\n' in now)

def test_a_value_that_is_neither(tmp_path, hermetic):
    (hermetic/'config.toml').write_text('learning = 3\n')
    with pytest.raises(ValueError, match='neither true nor false'): L.enabled(tmp_path)
    assert 'neither true nor false' in L.learned_command(tmp_path/'learned', 'status')
    assert L.set_enabled(tmp_path, True) and L.enabled(tmp_path)

def test_no_named_model_is_never_replaced(f, hermetic, monkeypatch):
    propose(f, {'AGENTS.md': RULE + '\n' + 'Read sizes. ' * 40 + '\n'}, A)
    L.accept(f, A)
    monkeypatch.setitem(sys.modules, 'dhrona', None)
    error = L.compact(f)['error']
    assert error.startswith('compacting needs dhrona') and 'config.toml' in error and 'RAMABANA_MODEL' in error
    assert 'no id' in L.compact(f, 'x')['error'] and 'nothing is pending' in L.compact(f, B)['error']

# -- reports
@case('git-review-02')
def test_a_signer_that_blocks(f, hermetic, report, tmp_path):
    agent = tmp_path/'agent'
    agent.write_text('#!/bin/sh\nsleep 100\n')
    agent.chmod(0o755)
    for key, value in {**report['input']['gitconfig'], 'gpg.ssh.program': agent, 'user.signingkey': 'x'}.items(): git(f, 'config', '--file', hermetic/'.gitconfig', key, value)
    propose(f, {'x': '1\n'}, A)
    at = time.monotonic()
    assert L.accept(f, A)['ok'] and time.monotonic() - at < 20

@case('git-review-04')
@pytest.mark.parametrize('call', [L.accept, L.reject])
def test_a_worktree_that_vanished(f, tmp_path, call, report):
    propose(f, {'x': '1\n'}, A)
    git(f, 'worktree', 'add', '-q', tmp_path/'wt', PFX + A)
    shutil.rmtree(tmp_path/'wt')
    assert call(f, A)['ok'] and worktrees(f) == 1

@case('git-review-06')
def test_head_is_detached(f, report):
    propose(f, {'x': '1\n'}, A)
    git(f, 'checkout', '-q', '--detach')
    before = snap(f)
    assert 'git switch' in L.accept(f, A)['error'] and snap(f) == before

@case('git-review-08')
def test_an_enclosing_repository(tmp_path, report):
    outer = mkrepo(tmp_path, 'outer', {'learned/AGENTS.md': RULE})
    propose(outer, {'x': '1\n'}, A)
    before = snap(outer)
    assert L.pending(outer/'learned') == [] and L.accept(outer/'learned', A)['ok'] is False and snap(outer) == before

@case('git-review-10')
def test_cleaning_up_fails(f, report, monkeypatch, tmp_path):
    for id, name in ((A, 'a'), (B, 'b')): propose(f, {name: '1\n'}, id)
    real = shutil.which('git')
    (tmp_path/'bin').mkdir()
    (tmp_path/'bin/git').write_text(f'#!/bin/sh\ncase "$*" in *"worktree remove"*|*"worktree prune"*|*"branch -D"*) exit 1;; esac\nexec {real} "$@"\n')
    (tmp_path/'bin/git').chmod(0o755)
    with monkeypatch.context() as m:
        m.setenv('PATH', f'{tmp_path}/bin:{os.environ["PATH"]}')
        L.accept(f, A)
    assert worktrees(f) == 1 and L.accept(f, B)['ok'] and status(f) == ''

@case('git-review-14')
def test_rejected_twice(f, report):
    for id in (A, B):
        propose(f, {'x': '1\n'}, id)
        rows = L.pending(f)
        assert L.reject(f, id)['ok']
    assert rows[0]['rejected_before'] == 1 and len((f.parent/'learned.rejected.jsonl').read_text().splitlines()) == 2
