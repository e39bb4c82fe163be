"""Helpers for the tests of the review queue: a git that no setting of the test reaches, and a way to put a candidate on `pending/<id>`.

Nothing here imports the library under test."""
import os
import subprocess
import tempfile
import time
from pathlib import Path

PFX = 'pending/'
IDS = [f'20261019-{i:06d}-{i:06x}' for i in range(10101, 10101 + 2000)]
QUIET = [part for setting in ('core.hooksPath=/dev/null', 'core.attributesFile=/dev/null', 'core.excludesFile=/dev/null', 'core.autocrlf=false', 'core.fsmonitor=false',
    'commit.gpgsign=false', 'color.ui=false', 'color.diff=false', 'log.showSignature=false', 'gc.auto=0', 'core.quotePath=true', 'core.safecrlf=false', 'i18n.logOutputEncoding=UTF-8',
    'diff.noprefix=false', 'diff.external=', 'user.useConfigOnly=false', 'core.sparseCheckout=false', 'core.abbrev=auto') for part in ('-c', setting)]

def clean_env():
    "This process's environment without anything that steers git."
    return {k: v for k, v in os.environ.items() if not k.startswith('GIT_')} | dict(GIT_CONFIG_NOSYSTEM='1', GIT_CONFIG_GLOBAL=os.devnull, HOME=os.devnull, XDG_CONFIG_HOME=os.devnull)

def git(d, *a, check=True, env=None, binary=False, inp=None):
    "Run git in `d`, whatever the test set; text out, stripped."
    r = subprocess.run(['git', *QUIET, '-C', str(d), *map(str, a)], capture_output=True, input=inp, env=clean_env() | (env or {}))
    if check and r.returncode: raise AssertionError(f'git {a}: {r.stderr.decode(errors="replace")}')
    return r.stdout if binary else r.stdout.decode(errors='surrogateescape').strip()

T = ('-c', 'user.name=t', '-c', 'user.email=t@example.invalid')

def mkrepo(parent, name='learned', files=None, init=('-q',)):
    "A learned folder: its own repository with one commit by a person."
    f = Path(parent)/name
    f.mkdir(parents=True)
    for rel, body in (files or {'AGENTS.md': 'A rule a person wrote.\n'}).items(): put(f, rel, body)
    git(f, 'init', *init)
    git(f, 'add', '-A')
    git(f, *T, 'commit', '-qm', 'first')
    return f

def put(root, rel, body):
    "Write a file, its folders made."
    p = Path(root)/rel
    p.parent.mkdir(parents=True, exist_ok=True)
    p.write_bytes(body if isinstance(body, bytes) else body.encode())
    return p

def by_hand(f, files, msg='by hand'):
    "A commit by a person in the folder itself."
    for rel, body in files.items(): put(f, rel, body)
    git(f, 'add', '-A')
    git(f, *T, 'commit', '-qm', msg)
    return head(f)

def propose(folder, files=None, id=IDS[0], delete=(), edit=None, msg=None, at=None, base='HEAD', author='Dhrona', more=()):
    "A candidate: one commit on `pending/<id>` off `base`, `folder`'s own files untouched. `edit(wt)` may change the worktree by hand; `more` are options of commit."
    top = tempfile.mkdtemp()
    wt = Path(top)/'wt'
    dates = {f'GIT_{role}_DATE': f'{at} +0000' for role in ('AUTHOR', 'COMMITTER')} if at else {}
    git(folder, 'worktree', 'add', '-q', '-b', PFX + id, wt, base)
    for rel, body in (files or {}).items(): put(wt, rel, body)
    for rel in delete: (wt/rel).unlink()
    if edit: edit(wt)
    git(wt, 'add', '-A')
    git(wt, '-c', f'user.name={author}', '-c', 'user.email=d@example.invalid', *more, 'commit', '-q', '--allow-empty', '-m', msg or f'Lesson from a replay: {id}', env=dates)
    git(folder, 'worktree', 'remove', '--force', wt)
    os.rmdir(top)
    return id

def head(f): return git(f, 'rev-parse', 'HEAD')
def refs(f): return git(f, 'for-each-ref', '--format=%(refname) %(objectname)')
def status(f): return git(f, 'status', '--porcelain')
def worktrees(f): return len(git(f, 'worktree', 'list', '--porcelain').split('worktree ')) - 1
def blob(f, rev, rel): return git(f, 'cat-file', 'blob', f'{rev}:{rel}', binary=True)
def tree(f):
    "Every file of the folder outside .git, as bytes (links by target)."
    return {str(p.relative_to(f)): (os.readlink(p) if p.is_symlink() else p.read_bytes())
            for p in sorted(Path(f).rglob('*')) if '.git' not in p.relative_to(f).parts and (p.is_file() or p.is_symlink())}
def snap(f): return head(f), refs(f), tree(f), status(f)

def fast_candidates(folder, n, path='skills/s{i}/SKILL.md', start=0, files=1):
    "`n` candidates with one `git fast-import`: each adds `files` files off HEAD."
    h, now, out = head(folder), int(time.time()) - n, []
    for i in range(start, start + n):
        m = f'Lesson from a replay: {i}'.encode()
        out += [b'commit refs/heads/%s%s\n' % (PFX.encode(), IDS[i].encode()), b'author Dhrona <d@x> %d +0000\n' % (now + i), b'committer Dhrona <d@x> %d +0000\n' % (now + i),
                b'data %d\n%s\n' % (len(m), m), b'from %s\n' % h.encode()]
        for k in range(files):
            body = f'---\nname: s{i}\ndescription: x\n---\nuse {i} {k}\n'.encode()
            out += [b'M 100644 inline %s\n' % path.format(i=i, k=k).encode(), b'data %d\n%s\n' % (len(body), body)]
    git(folder, 'fast-import', '--quiet', inp=b''.join(out))
    return IDS[start:start + n]
