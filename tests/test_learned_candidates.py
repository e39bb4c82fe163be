"""What a candidate may be: kinds of changes, names, encodings, sizes, messages; and what it must never do."""
import json, os, re, subprocess, sys, time
from pathlib import Path

import pytest

import ramabana.learned as L
from lq import IDS, PFX, T, blob, by_hand, fast_candidates, git, head, mkrepo, propose, put, refs, snap, status, tree, worktrees

A, B, C, D, E = IDS[:5]
RULE = 'A rule a person wrote.\n'
LINES = [f'line {n}\n' for n in range(20)]

@pytest.fixture
def f(tmp_path): return mkrepo(tmp_path)

def raw(f, id, *changes, parent='HEAD', message=b'Lesson', author=b'Dhrona <d@x> 1760000000 +0000', headers=b''):
    "A candidate from lines of fast-import, for what no worktree can hold."
    at = git(f, 'rev-parse', parent) if parent else ''
    data = b'commit refs/heads/%s%s\nauthor %s\ncommitter %s\n%sdata %d\n%s\n' % (PFX.encode(), id.encode(), author, author, headers, len(message), message)
    if at: data += b'from %s\n' % at.encode()
    git(f, 'fast-import', '--quiet', '--force', inp=data + b''.join(changes))
    return id

def file(path, body, mode=b'100644'): return b'M %s inline %s\ndata %d\n%s\n' % (mode, path, len(body), body)

def by_tree(f, id, entries):
    "A candidate whose tree has these raw entries besides HEAD's: (mode, kind, oid, name)."
    listed = git(f, 'ls-tree', '-z', 'HEAD', binary=True)
    made = subprocess.run(['git', '-C', str(f), 'mktree', '-z', '--missing'], input=listed + b''.join(b'%s %s %s\t%s\0' % one for one in entries), capture_output=True)
    if made.returncode: pytest.skip('this git does not make such a tree')
    commit = git(f, *T, 'commit-tree', '-p', 'HEAD', '-m', 'Lesson', made.stdout.decode().strip())
    git(f, 'update-ref', f'refs/heads/{PFX}{id}', commit)

def entry_of(f, name, content):
    "A tree with one entry, written by hand: names that git's own commands refuse."
    import hashlib
    oid = git(f, 'hash-object', '-w', '--stdin', inp=content)
    data = b'100644 ' + name + b'\0' + bytes.fromhex(oid)
    return subprocess.run(['git', '-C', str(f), 'hash-object', '-t', 'tree', '-w', '--stdin', '--literally'], input=data, capture_output=True, check=True).stdout.decode().strip()

def held_back(f, id, words):
    "Listed as stale with the reason, never accepted, nothing changed, and it can be rejected."
    row, = [row for row in L.pending(f) if row['id'] == id]
    assert row['stale'] and words in row['stale'], row
    before = snap(f)
    done = L.accept(f, id)
    assert done['ok'] is False and words in done['error'] and snap(f) == before, done
    assert words in L.learned_command(f)
    assert L.reject(f, id)['ok'] and not [row for row in L.pending(f) if row['id'] == id]

# -- kinds of changes
def test_binary_mode_link_and_deletion(f):
    by_hand(f, {'old/a.bin': bytes(range(256)), 'tool.sh': '#!/bin/sh\n', 'gone/deep/x': 'x\n', 'kept': 'k\n'})
    def edit(wt):
        (wt/'tool.sh').chmod(0o755)
        (wt/'link').symlink_to('kept')
        put(wt, 'new.bin', b'\x00\xff' * 5000)
        (wt/'gone/deep/x').unlink()
        (wt/'old/a.bin').rename(wt/'moved.bin')
    propose(f, edit=edit)
    assert L.pending(f)[0]['files'] == sorted(['tool.sh', 'link', 'new.bin', 'gone/deep/x', 'old/a.bin', 'moved.bin'])
    assert 'Binary' in L.diff(f, A)['diff'] and 'rename from old/a.bin' in L.diff(f, A)['diff'] and L.accept(f, A)['ok']
    assert os.access(f/'tool.sh', os.X_OK) and os.readlink(f/'link') == 'kept' and (f/'new.bin').read_bytes() == b'\x00\xff' * 5000
    assert not (f/'gone').exists() and not (f/'old').exists() and (f/'moved.bin').read_bytes() == bytes(range(256)) and status(f) == ''
    assert L.undo(f)['ok'] and (f/'gone/deep/x').exists() and not (f/'link').is_symlink() and not os.access(f/'tool.sh', os.X_OK) and status(f) == ''

def test_a_file_becomes_a_folder_and_back(f):
    by_hand(f, {'a': 'file\n', 'b/x': '1\n', 'b/y': '2\n'})
    def edit(wt):
        (wt/'a').unlink()
        put(wt, 'a/inside', 'x\n')
        for name in 'xy': (wt/'b'/name).unlink()
        (wt/'b').rmdir()
        put(wt, 'b', 'now a file\n')
    propose(f, edit=edit)
    propose(f, {'other': 'x\n'}, B)
    assert L.accept(f, A)['ok'] and (f/'a/inside').read_text() == 'x\n' and (f/'b').read_text() == 'now a file\n' and status(f) == ''
    assert L.undo(f)['ok'] and (f/'a').read_text() == 'file\n' and (f/'b/y').read_text() == '2\n' and status(f) == ''

@pytest.mark.parametrize('first, second', [({'a': 'x\n'}, {'a/b': 'x\n'}), ({'a/b': 'x\n'}, {'a': 'x\n'}), ({'a': 'x\n'}, {'a': 'y\n'})])
def test_a_file_where_the_other_wants_a_folder(f, first, second):
    propose(f, first, A)
    propose(f, second, B)
    assert L.accept(f, A)['stale'] == [B] and L.accept(f, B)['error'] == L.STALE and status(f) == ''

def test_deleted_here_changed_there(f):
    by_hand(f, {'skills/a.md': ''.join(LINES)})
    propose(f, id=A, delete=['skills/a.md'])
    propose(f, {'skills/a.md': ''.join(LINES) + 'more\n'}, B)
    assert L.accept(f, A)['stale'] == [B] and not (f/'skills').exists()

def test_changes_that_merge(f):
    by_hand(f, {'skills/a.md': ''.join(LINES)})
    propose(f, {'skills/a.md': ''.join(['first\n', *LINES[1:]])}, A)
    propose(f, {'skills/a.md': ''.join([*LINES[:-1], 'last\n'])}, B)
    propose(f, {'skills/a.md': ''.join(['other\n', *LINES[1:]])}, C)
    propose(f, id=D, edit=lambda wt: (wt/'skills/a.md').chmod(0o755))
    done = L.accept(f, A)
    assert (done['moved'], done['stale']) == ([B, D], [C])
    assert L.accept(f, B)['moved'] == [D] and L.accept(f, D)['ok']
    assert (f/'skills/a.md').read_text() == ''.join(['first\n', *LINES[1:-1], 'last\n']) and os.access(f/'skills/a.md', os.X_OK) and status(f) == ''

def test_an_empty_candidate(f):
    propose(f)
    before = head(f)
    assert L.pending(f)[0]['files'] == [] and L.diff(f, A) == dict(ok=True, id=A, diff='')
    assert L.accept(f, A)['commit'] is None and head(f) == before and L.pending(f) == []

def test_half_of_it_is_there_already(f):
    propose(f, {'a': '1\n', 'b': '2\n'}, A)
    by_hand(f, {'a': '1\n'})
    assert L.accept(f, A)['ok'] and git(f, 'diff', '--name-only', 'HEAD^', 'HEAD') == 'b'

def test_it_was_accepted_by_hand(f):
    propose(f, {'a': '1\n'}, A)
    propose(f, {'b': '1\n'}, B)
    git(f, *T, 'merge', '-q', '--no-edit', PFX + A)
    before = head(f)
    assert [row['stale'] for row in L.pending(f)] == [None, None]
    done = L.accept(f, A)
    assert done['ok'] and done['commit'] is None and head(f) == before and done['moved'] == [B]

def test_what_head_holds_stays_in_place(f):
    propose(f, {'a': '1\n'}, A)
    propose(f, {'a': '1\n'}, B)
    propose(f, {'c': '1\n'}, C)
    done = L.accept(f, A)
    assert (done['moved'], done['stale']) == ([C], []) and [row['id'] for row in L.pending(f)] == [B, C] and L.restack(f) == ([], [])

# -- several commits
def several(f, id, n=3, base='HEAD'):
    def edit(wt):
        for k in range(n - 1):
            put(wt, f'part{k}', f'{k}\n')
            git(wt, 'add', '-A')
            git(wt, '-c', 'user.name=Dhrona', '-c', 'user.email=d@x', 'commit', '-qm', f'part {k}')
        put(wt, f'part{n - 1}', 'x\n')
    return propose(f, id=id, edit=edit, base=base)

def test_several_commits_are_taken_whole(f):
    several(f, A)
    propose(f, {'other': 'x\n'}, B)
    assert L.pending(f)[0]['files'] == ['part0', 'part1', 'part2']
    assert L.accept(f, B)['moved'] == [A] and L.accept(f, A)['ok']
    assert all((f/f'part{k}').exists() for k in range(3)) and status(f) == '' and git(f, 'log', '-1', '--format=%an') == 'Dhrona'
    assert L.undo(f)['id'] == A and not list(f.glob('part*')) and L.accept(f, A)['ok'] and len(list(f.glob('part*'))) == 3

def test_several_commits_that_conflict_in_one(f):
    several(f, A)
    by_hand(f, {'part1': 'mine\n'})
    assert L.accept(f, A)['error'] == L.STALE and not (f/'part0').exists()

def test_many_commits_of_which_the_first_is_undone(f):
    def edit(wt):
        put(wt, 'AGENTS.md', 'wild\n')
        git(wt, 'add', '-A')
        git(wt, *T, 'commit', '-qm', 'wild')
        put(wt, 'AGENTS.md', RULE)
        put(wt, 'x', 'x\n')
    propose(f, edit=edit)
    assert L.pending(f)[0]['files'] == ['x'] and L.accept(f, A)['ok'] and (f/'AGENTS.md').read_text() == RULE

def test_a_merge_of_head(f):
    old = head(f)
    by_hand(f, {'hand': '1\n'})
    main = head(f)
    def edit(wt):
        put(wt, 'mine', '1\n')
        git(wt, 'add', '-A')
        git(wt, *T, 'commit', '-qm', 'mine')
        git(wt, *T, 'merge', '-q', '--no-edit', main)
    propose(f, edit=edit, base=old)
    assert L.pending(f)[0]['files'] == ['mine'] and L.accept(f, A)['ok'] and (f/'mine').exists() and (f/'hand').exists() and status(f) == ''

def test_a_merge_of_two_sides(f):
    def edit(wt):
        for side in 'ab':
            git(wt, 'checkout', '-q', '-B', f'side-{side}', head(f))
            put(wt, side, '1\n')
            git(wt, 'add', '-A')
            git(wt, *T, 'commit', '-qm', side)
        git(wt, 'checkout', '-q', PFX + A)
        git(wt, *T, 'merge', '-q', '--no-ff', '--no-edit', 'side-a', 'side-b')
    propose(f, edit=edit)
    assert L.pending(f)[0]['files'] == ['a', 'b'] and L.accept(f, A)['ok'] and (f/'a').exists() and (f/'b').exists() and len(git(f, 'log', '-1', '--format=%P').split()) == 1

def test_a_root_commit(f):
    raw(f, A, file(b'AGENTS.md', b'all new\n'), parent=None)
    held_back(f, A, 'shares no history')

def test_criss_cross(f):
    base = head(f)
    by_hand(f, {'m1': '1\n'})
    m1 = head(f)
    git(f, 'checkout', '-q', '-b', 'p', base)
    p1 = by_hand(f, {'p1': '1\n'})
    git(f, 'checkout', '-q', '-')
    git(f, *T, 'merge', '-q', '--no-edit', p1)
    git(f, 'checkout', '-q', 'p')
    git(f, *T, 'merge', '-q', '--no-edit', m1)
    by_hand(f, {'p2': '1\n'})
    git(f, 'checkout', '-q', '-')
    git(f, 'branch', '-q', '-m', 'p', PFX + A)
    assert L.pending(f)[0]['files'] == ['p2'] or L.pending(f)[0]['stale']
    L.accept(f, A)
    assert status(f) == ''

# -- names and encodings
NAMES = ['new\nline', 'quo"te', "it's", 'tab\there', '-dash', '--force', ' lead', 'trail ', 'ünï', 'e\u0301 (NFD)', '\u00e9 (NFC)', '数据', '🙂', 'back\\slash', 'star*', '[a]', ':(top)x', '!x', '#x', '~', '$HOME', '%s',
    'a' * 200, 'skills/' * 20 + 'x', '\x01\x1b[31m', '.hidden', 'CON', 'x.lock', '@', '@{u}', 'HEAD', 'refs', '{a,b}', "'", 'a;b', '&', 'a|b', '..x', 'x..', '...']

@pytest.mark.parametrize('name', NAMES)
def test_names_of_files(f, name):
    propose(f, {name: 'one\n'}, A)
    propose(f, {'plain': 'one\n'}, B)
    assert L.pending(f)[0]['files'] == [name] and L.pending(f)[0]['stale'] is None
    text = L.learned_command(f)
    assert len(text.splitlines()) == 2 and not re.search(r'[\x00-\x08\x0b-\x1f]', text)
    assert L.accept(f, B)['moved'] == [A] and L.accept(f, A)['ok'] and (f/name).read_text() == 'one\n' and status(f) == ''
    by_hand(f, {name: ''.join(LINES)})
    propose(f, {name: ''.join(['first\n', *LINES[1:]])}, C)
    propose(f, {name: ''.join([*LINES[:-1], 'last\n'])}, D)
    put(f, name, 'mine\n')
    assert 'uncommitted' in L.accept(f, C)['error']
    put(f, name, ''.join(LINES))
    assert L.accept(f, C)['moved'] == [D] and L.accept(f, D)['ok'] and (f/name).read_text() == ''.join(['first\n', *LINES[1:-1], 'last\n'])
    assert L.undo(f)['ok'] and L.reject(f, D)['ok'] and status(f) == ''

def test_a_name_that_is_not_utf8(f):
    name = b'caf\xe9.md'
    propose(f, edit=lambda wt: open(os.path.join(os.fsencode(wt), name), 'wb').write(b'one\n'))
    row, = L.pending(f)
    assert os.fsencode(row['files'][0]) == name and json.loads(json.dumps(row)) == row
    L.learned_command(f).encode()
    L.diff(f, A)['diff'].encode()
    assert L.accept(f, A)['ok'] and open(os.path.join(os.fsencode(f), name), 'rb').read() == b'one\n' and status(f) == ''

def test_names_that_differ_in_form_or_case_only(f):
    propose(f, {'caf\u00e9': 'NFC\n', 'cafe\u0301': 'NFD\n', 'Read': '1\n', 'READ': '2\n', 'read/x': '3\n'})
    assert L.accept(f, A)['ok'] and {'caf\u00e9': 'NFC\n', 'cafe\u0301': 'NFD\n', 'Read': '1\n', 'READ': '2\n'}.items() <= {k: v.decode() for k, v in tree(f).items()}.items() and status(f) == ''
    propose(f, id=B, edit=lambda wt: git(wt, 'mv', 'Read', 'rEAD'))
    assert L.accept(f, B)['ok'] and not (f/'Read').exists() and (f/'rEAD').exists()

@pytest.mark.parametrize('body', [b'', b'no end', b'\xff\xfe\x00', b'a\r\nb\r\n', b'a\rb', b'\xef\xbb\xbfbom\n', b'\x00' * 10, b'x' * 3_000_000, '\u2028 \u202e'.encode()], ids=lambda b: repr(b[:8]))
def test_contents_arrive_byte_for_byte(f, body):
    raw(f, A, file(b'skills/x', body))
    assert L.diff(f, A)['ok'] and L.accept(f, A)['ok'] and (f/'skills/x').read_bytes() == body and status(f) == ''

@pytest.mark.parametrize('message', ['Überschrift\n\nmehr', 'x' * 5000, '', '\n\n  late subject\n', 'two\nlines\n\nbody', '#comment\n', 'A\x1b[31mred', 'tab\there', '-----BEGIN', 'Subject\n\nLearned-Includes: ' + IDS[1] + '\nLearned-Compaction: AGENTS.md\n'])
def test_messages(f, message):
    raw(f, A, file(b'x', b'1\n'), message=message.encode())
    raw(f, B, file(b'y', b'1\n'))
    row = L.pending(f)[0]
    assert '\n' not in row['subject'] and row['includes'] == []
    assert L.accept(f, B)['moved'] == [A] and L.pending(f)[0]['subject'] == row['subject'] and L.accept(f, A)['ok']
    assert git(f, 'cat-file', 'commit', 'HEAD', binary=True).partition(b'\n\n')[2] == message.encode()

def test_other_encodings(f):
    who = 'Jürgen <j@x> 1760000000 +0130'.encode('latin-1')
    raw(f, A, file(b'x', b'1\n'), author=who, message='Größe'.encode('latin-1'), headers=b'encoding ISO-8859-1\n')
    raw(f, B, file(b'y', b'1\n'), message='nur Bytes \xff'.encode('latin-1'))
    raw(f, C, file(b'z', b'1\n'), message=b'x', headers=b'encoding klingon\n')
    rows = L.pending(f)
    assert rows[0]['subject'] == 'Größe' and rows[0]['at'] == 1760000000 and '\ufffd' in rows[1]['subject'] and rows[2]['subject'] == 'x'
    assert L.accept(f, C)['ok'] and L.accept(f, A)['ok']
    content = git(f, 'cat-file', 'commit', 'HEAD', binary=True)
    assert b'author ' + who in content and b'encoding ISO-8859-1' in content and content.endswith('Größe'.encode('latin-1'))

def test_odd_authors(f):
    for id, who in zip(IDS, ('<d@x> 1760000000 +0000', 'D <> 1760000000 +0000', 'A B C <d@x> 0 +0000', 'Dhrona <d@x> 4102444800 -1200')): raw(f, id, file(id.encode(), b'1\n'), author=who.encode())
    assert [row['at'] for row in L.pending(f)] == [1760000000, 1760000000, 0, 4102444800]
    for id in IDS[:4]: assert L.accept(f, id)['ok']

def test_a_signed_candidate(f):
    raw(f, A, file(b'x', b'1\n'))
    content = git(f, 'cat-file', 'commit', PFX + A, binary=True).decode()
    signed = content.replace('\n\n', '\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n author x\n -----END PGP SIGNATURE-----\n\n', 1)
    git(f, 'update-ref', f'refs/heads/{PFX}{A}', git(f, 'hash-object', '-t', 'commit', '-w', '--stdin', inp=signed.encode()))
    assert L.accept(f, A)['ok'] and 'gpgsig' not in git(f, 'cat-file', 'commit', 'HEAD') and git(f, 'log', '-1', '--format=%an') == 'Dhrona'

@pytest.mark.parametrize('id', ['--force', '../x', '', ' ', 'HEAD', 'main', A + '\n', A + ' ', ' ' + A, '20261019-010101-00ABCD', A[:-1], A + '0', f'{PFX}{A}', f'refs/heads/{PFX}{A}', A.replace('2', '２'), A + '^', A + '~1', A + ':x', A + '@{0}',
    '-d', '--', '\x00', 'a' * 10000, None, 1, b'x', ['x'], A.encode()], ids=lambda x: repr(x)[:30])
def test_what_is_no_id(f, id):
    propose(f, {'x': '1\n'}, A)
    before = snap(f)
    for call in (L.accept, L.reject, L.diff):
        done = call(f, id)
        assert done['ok'] is False and done['id'] == id and 'no id' in done['error']
    if id: assert 'no id' in L.compact(f, id, chat=lambda prompt: 'x')['error']
    assert snap(f) == before

# -- staying inside
@pytest.mark.parametrize('target, words', [('/etc/passwd', 'outside'), ('../x', 'outside'), ('a/../../x', 'outside'), ('.git/config', 'outside'), ('./.git', 'outside'), ('..', 'outside'), ('.GIT/hooks', 'outside')])
def test_links_that_leave(f, target, words):
    propose(f, edit=lambda wt: (wt/'link').symlink_to(target))
    held_back(f, A, words)

@pytest.mark.parametrize('target', ['AGENTS.md', './AGENTS.md', 'nothing/there', 'skills/../AGENTS.md', '.'])
def test_links_that_stay(f, target):
    propose(f, edit=lambda wt: (wt/'link').symlink_to(target))
    assert L.accept(f, A)['ok'] and os.readlink(f/'link') == target and status(f) == ''

def test_a_chain_of_links_that_leaves(f):
    def edit(wt):
        (wt/'p/q').mkdir(parents=True)
        (wt/'p/q/d').symlink_to('../..')
        (wt/'p/q/e').symlink_to('d/../x')
    propose(f, edit=edit)
    held_back(f, A, 'outside')

def test_a_link_through_one_that_was_there(f):
    (f/'up').symlink_to('..')
    git(f, 'add', '-A')
    git(f, *T, 'commit', '-qm', 'a person may')
    propose(f, edit=lambda wt: (wt/'mine').symlink_to('up/x'))
    held_back(f, A, 'outside')
    propose(f, {'other': 'x\n'}, B)
    assert L.accept(f, B)['ok']

def test_a_folder_that_is_a_link_on_disk(f, tmp_path):
    (tmp_path/'out').mkdir()
    propose(f, {'skills/x': '1\n'}, A)
    (f/'skills').symlink_to(tmp_path/'out')
    held_back(f, A, 'through a link')
    assert not list((tmp_path/'out').iterdir())

@pytest.mark.parametrize('name', [b'.git', b'.GIT', b'.Git', b'..', b'.', b'git~1', b'.git ', b'.git.', '.g\u200cit'.encode(), b'.git::$INDEX_ALLOCATION', b'a/b', b'..\\x', b'.git\\config'])
def test_paths_under_git_and_outside(f, name):
    inner = entry_of(f, b'config', b'[core]\n\thooksPath = /tmp\n')
    listed = subprocess.run(['git', '-C', str(f), 'cat-file', 'tree', 'HEAD^{tree}'], capture_output=True).stdout
    data = listed + b'40000 ' + name + b'\0' + bytes.fromhex(inner)
    made = subprocess.run(['git', '-C', str(f), 'hash-object', '-t', 'tree', '-w', '--stdin', '--literally'], input=data, capture_output=True)
    commit = git(f, *T, 'commit-tree', '-p', 'HEAD', '-m', 'Lesson', made.stdout.decode().strip())
    git(f, 'update-ref', f'refs/heads/{PFX}{A}', commit)
    before = tree(f), (f/'.git/config').read_bytes(), sorted(os.listdir(f.parent))
    row, = L.pending(f)
    done = L.accept(f, A)
    assert row['stale'] and done['ok'] is False or name == b'a/b', (row, done)
    if name != b'a/b':   # that one is a file in a folder, spelled oddly
        assert (tree(f), (f/'.git/config').read_bytes(), sorted(set(os.listdir(f.parent)) - {'.learned.lock'})) == (before[0], before[1], sorted(set(before[2]) - {'.learned.lock'}))
        assert L.reject(f, A)['ok']

def test_a_submodule_as_candidate(f):
    by_tree(f, A, [(b'160000', b'commit', head(f).encode(), b'sub')])
    held_back(f, A, 'submodule')

# -- size
def test_characters_not_bytes(f):
    propose(f, {'AGENTS.md': RULE + 'é' * (2000 - len(RULE))}, A)
    propose(f, {'AGENTS.md': RULE + '🙂' * (2001 - len(RULE))}, B)
    assert L.accept(f, B)['length'] == 2001 and L.accept(f, A)['ok']

def test_past_the_limit_by_way_of_a_link(f):
    by_hand(f, {'rules.md': RULE})
    def edit(wt):
        (wt/'AGENTS.md').unlink()
        (wt/'AGENTS.md').symlink_to('rules.md')
        put(wt, 'rules.md', 'x' * 5000)
    propose(f, edit=edit)
    assert L.accept(f, A)['length'] == 5000

def test_past_the_limit_by_a_merge(f):
    by_hand(f, {'AGENTS.md': ''.join(LINES)})
    propose(f, {'AGENTS.md': 'a' * 1500 + '\n' + ''.join(LINES)}, A)
    propose(f, {'AGENTS.md': ''.join(LINES) + 'b' * 1500 + '\n'}, B)
    assert L.accept(f, A)['moved'] == [B] and L.accept(f, B)['length'] > 3000

def test_a_long_file_by_a_person(f):
    by_hand(f, {'AGENTS.md': 'x' * 3000 + '\n'})
    propose(f, {'skills/a': 'x\n'}, A)
    propose(f, {'AGENTS.md': 'x' * 2500 + '\n'}, B)
    propose(f, {'AGENTS.md': 'x' * 3001 + '\n'}, C)
    assert L.accept(f, A)['ok'] and L.accept(f, C)['length'] == 3002 and L.accept(f, B)['ok']

# -- rejected before
def test_rejected_before(f):
    propose(f, {'AGENTS.md': RULE + 'Use rg.\n'}, A)
    propose(f, {'AGENTS.md': RULE + 'Use ls.\n'}, B)
    propose(f, {'x.bin': b'\0one'}, C)
    for id in (A, C): assert L.reject(f, id) == dict(ok=True, id=id)
    kept = [json.loads(line) for line in (f.parent/'learned.rejected.jsonl').read_text().splitlines()]
    assert [row['id'] for row in kept] == [A, C] and {'id', 'subject', 'patch_id'} <= set(kept[0])
    propose(f, {'AGENTS.md': 'A new first line.\n\n' + RULE}, E)
    L.accept(f, E)
    propose(f, {'AGENTS.md': 'A new first line.\n\n' + RULE + 'Use  rg.\n'}, D)
    propose(f, {'x.bin': b'\0two'}, IDS[5])
    times = {row['id']: row.get('rejected_before') for row in L.pending(f)}
    assert times == {B: None, D: 1, IDS[5]: None} and 'rejected before: 1' in L.learned_command(f)
    L.reject(f, D)
    propose(f, {'AGENTS.md': 'A new first line.\n\n' + RULE + 'Use rg.\n'}, IDS[6])
    assert {row['id']: row.get('rejected_before') for row in L.pending(f)}[IDS[6]] == 2

def test_a_half_written_rejection(f):
    (f.parent/'learned.rejected.jsonl').write_text('{"id": "2026')
    propose(f, {'x': '1\n'}, A)
    assert L.pending(f)[0].get('rejected_before') is None and L.reject(f, A)['ok']
    propose(f, {'x': '1\n'}, B)
    assert L.pending(f)[0]['rejected_before'] == 1

# -- undo
def test_undo_after_work_by_hand(f):
    by_hand(f, {'AGENTS.md': ''.join(LINES)})
    propose(f, {'AGENTS.md': ''.join(['first\n', *LINES[1:]])}, A)
    L.accept(f, A)
    by_hand(f, {'AGENTS.md': ''.join(['first\n', *LINES[1:-1], 'by hand\n'])})
    done = L.undo(f)
    assert done['ok'] and (f/'AGENTS.md').read_text() == ''.join([*LINES[:-1], 'by hand\n']) and [row['id'] for row in L.pending(f)] == [A]
    assert git(f, 'log', '-1', '--format=%s') == f'Revert "Lesson from a replay: {A}"'
    assert L.accept(f, A)['ok'] and (f/'AGENTS.md').read_text() == ''.join(['first\n', *LINES[1:-1], 'by hand\n'])

def test_undo_what_was_changed_since(f):
    propose(f, {'AGENTS.md': RULE + 'Use rg.\n'}, A)
    L.accept(f, A)
    by_hand(f, {'AGENTS.md': RULE + 'Use rg, always.\n'})
    before = snap(f)
    assert 'changed after it' in L.undo(f)['error'] and snap(f) == before

def test_undo_twice_and_with_nothing_to_undo(f):
    assert 'no accept to undo' in L.undo(f)['error']
    for id, name in ((A, 'a'), (B, 'b')): propose(f, {name: '1\n'}, id)
    L.accept(f, A)
    L.accept(f, B)
    assert (L.undo(f)['id'], L.undo(f)['id']) == (B, A) and 'no accept to undo' in L.undo(f)['error']
    assert [row['id'] for row in L.pending(f)] == [A, B] and [row['stale'] for row in L.pending(f)] == [None, None] and not (f/'a').exists()

def test_undo_refuses_dirt_and_a_batch(f):
    propose(f, {'a': '1\n'}, A)
    L.accept(f, A)
    put(f, 'a', 'mine\n')
    before = snap(f)
    assert 'uncommitted' in L.undo(f)['error']
    with L._locked(f): assert 'batch is running' in L.undo(f)['error']
    assert snap(f) == before

def test_restack_on_a_held_lock(f):
    from ramabana.core import AgentError
    with L._locked(f), pytest.raises(AgentError, match='batch'): L.restack(f)

# -- compaction
TALK = RULE + '\n' + 'Read sizes with ls -l. ' * 40 + '\n'

def test_a_persons_words_never_reach_the_model(f):
    propose(f, {'AGENTS.md': TALK}, A)
    L.accept(f, A)
    asked = []
    L.compact(f, chat=lambda prompt: asked.append(prompt) or '[kept 1]\n\nShort.')
    assert len(asked) == 1 and '[kept 1]' in asked[0] and RULE.strip() not in asked[0] and 'Read sizes' in asked[0]

def test_one_retry(f):
    propose(f, {'AGENTS.md': TALK}, A)
    L.accept(f, A)
    asked = []
    done = L.compact(f, chat=lambda prompt: asked.append(prompt) or ('nothing kept' if len(asked) == 1 else '[kept 1]\n\nShort.'))
    assert done['ok'] and len(asked) == 2 and 'could not be used' in asked[1]
    L.reject(f, done['id'])
    asked.clear()
    assert not L.compact(f, chat=lambda prompt: asked.append(prompt) or 'bad')['ok'] and len(asked) == 2

def test_a_model_that_fails(f):
    propose(f, {'AGENTS.md': TALK}, A)
    L.accept(f, A)
    before = snap(f)
    def fails(prompt): raise ConnectionError('token=abc')
    done = L.compact(f, chat=fails)
    assert done['ok'] is False and 'ConnectionError' in done['error'] and 'abc' not in done['error'] and snap(f) == before

def test_a_mixed_paragraph_is_a_persons(f):
    propose(f, {'AGENTS.md': TALK}, A)
    L.accept(f, A)
    by_hand(f, {'AGENTS.md': TALK + 'A person adds a line.\n'})
    assert 'no paragraph that a proposer wrote' in L.compact(f, chat=lambda prompt: 'x')['error']

def test_a_mail_map_does_not_change_who_wrote(f):
    propose(f, {'AGENTS.md': TALK}, A)
    L.accept(f, A)
    by_hand(f, {'.mailmap': 'Dhrona <d@x> t <t@example.invalid>\n', '.gitattributes': '* diff=x\n'})
    assert L.compact(f, chat=lambda prompt: 'All mine now.')['ok'] is False

def test_moved_and_indented_lines_stay_a_persons(f):
    by_hand(f, {'AGENTS.md': 'First rule of a person, with some length.\n\nSecond rule of a person, as long.\n'})
    propose(f, {'AGENTS.md': 'Second rule of a person, as long.\n\n  First rule of a person, with some length.\n\n' + 'Read sizes with ls -l. ' * 40 + '\n'}, A)
    L.accept(f, A)
    asked = []
    assert L.compact(f, chat=lambda prompt: asked.append(prompt) or '[kept 1]\n\n[kept 2]\n\nShort.')['ok'] and 'of a person' not in asked[0]

def test_bytes_of_a_person_stay(f):
    mine = b'caf\xe9 \t \r\nsecond  \r\n\r\n\r\n```\r\ncode\r\n\r\nmore\r\n```\r\n\r\n'
    by_hand(f, {'AGENTS.md': mine})
    propose(f, {'AGENTS.md': mine + b'Read sizes with ls -l. ' * 40 + b'\r\n'}, A)
    L.accept(f, A)
    done = L.compact(f, chat=lambda prompt: '[kept 1]\n\n[kept 2]\n\nShort.\nYes.')
    assert done['ok'] and L.accept(f, done['id'])['ok'] and (f/'AGENTS.md').read_bytes() == mine + b'Short.\r\nYes.\r\n', done

def test_rejecting_what_a_compaction_includes(f):
    propose(f, {'AGENTS.md': TALK}, A)
    L.accept(f, A)
    propose(f, {'AGENTS.md': TALK + '\n' + 'More and more. ' * 10 + '\n', 'skills/x': 'y\n'}, B)
    done = L.compact(f, B, chat=lambda prompt: '[kept 1]\n\nShort.')
    assert done['ok'] and L.pending(f)[-1]['includes'] == [B] and f'(includes {B})' in L.learned_command(f) and L.pending(f)[-1]['files'] == ['AGENTS.md', 'skills/x']
    L.reject(f, B)
    assert 'no longer pending' in L.pending(f)[0]['stale'] and 'no longer pending' in L.accept(f, done['id'])['error']
    assert 'already pending' in L.compact(f, chat=lambda prompt: 'x')['error'] and L.reject(f, done['id'])['ok'] and L.compact(f, chat=lambda prompt: '[kept 1]\n\nShort.')['ok']

def test_undo_of_a_compaction_brings_both_back(f):
    propose(f, {'AGENTS.md': TALK}, A)
    L.accept(f, A)
    propose(f, {'AGENTS.md': TALK + '\n' + 'More and more. ' * 10 + '\n'}, B)
    made = L.compact(f, B, chat=lambda prompt: '[kept 1]\n\nShort.')['id']
    assert L.accept(f, made)['ok'] and L.pending(f) == []
    assert L.undo(f)['id'] == made and sorted(row['id'] for row in L.pending(f)) == sorted([made, B]) and [row['stale'] for row in L.pending(f)] == [None, None]
    assert (f/'AGENTS.md').read_text() == TALK

def test_a_rejected_compaction_leaves_what_it_included(f):
    propose(f, {'AGENTS.md': TALK}, A)
    L.accept(f, A)
    propose(f, {'AGENTS.md': TALK + '\n' + 'More and more. ' * 10 + '\n'}, B)
    made = L.compact(f, B, chat=lambda prompt: '[kept 1]\n\nShort.')['id']
    assert L.reject(f, made)['ok'] and [row['id'] for row in L.pending(f)] == [B]

# -- what a person does to history
def test_a_person_goes_back_behind_an_accept(f):
    for id, name in zip(IDS, 'abc'): propose(f, {name: f'{name}\n'}, id)
    first = head(f)
    assert L.accept(f, A)['moved'] == [B, C]
    git(f, 'reset', '-q', '--hard', first)
    assert [row['files'] for row in L.pending(f)] == [['b'], ['c']]
    assert L.accept(f, B)['ok'] and not (f/'a').exists() and (f/'b').exists() and git(f, 'rev-parse', 'HEAD^') == first and L.restack(f) == ([], [])

def test_a_person_amends_an_accept(f):
    for id, name in zip(IDS, 'ab'): propose(f, {name: f'{name}\n'}, id)
    L.accept(f, A)
    put(f, 'a', 'amended\n')
    git(f, *T, 'commit', '-qa', '--amend', '-m', 'mine')
    assert L.pending(f)[0]['files'] == ['b'] and L.restack(f) == ([B], []) and L.accept(f, B)['ok'] and (f/'a').read_text() == 'amended\n'

def test_a_candidate_that_was_merged_and_taken_back_by_hand(f):
    several(f, A)
    first = head(f)
    git(f, 'merge', '-q', '--ff-only', PFX + A)
    git(f, 'reset', '-q', '--hard', first)
    assert L.accept(f, A)['commit'] and len(list(f.glob('part*'))) == 3

def test_another_branch_of_the_person(f):
    propose(f, {'a': '1\n'}, A)
    git(f, 'switch', '-qc', 'mine')
    by_hand(f, {'m': '1\n'})
    assert L.restack(f) == ([A], []) and L.accept(f, A)['ok']
    git(f, 'switch', '-q', '-')
    assert not (f/'a').exists() and git(f, 'rev-parse', 'mine^') != head(f)

# -- what no file system takes
@pytest.mark.parametrize('path', [b'x' * 300, b'a/' * 1500 + b'x', b'a/' * 250 + b'x', b'/'.join([b'y' * 200] * 30)])
def test_paths_that_are_too_long(f, path):
    raw(f, A, file(path, b'1\n'))
    held_back(f, A, 'too long')

@pytest.mark.parametrize('target', [b'', b'a\0b', b'x' * 5000])
def test_links_that_cannot_be_made(f, target):
    raw(f, A, file(b'link', target, b'120000'))
    held_back(f, A, 'no file system')

def test_modes_of_old_tools(f):
    commit = git(f, 'commit-tree', '-p', 'HEAD', '-m', 'old', subprocess.run(['git', '-C', str(f), 'hash-object', '-t', 'tree', '-w', '--stdin', '--literally'], capture_output=True, check=True,
        input=b'100664 AGENTS.md\0' + bytes.fromhex(git(f, 'rev-parse', 'HEAD:AGENTS.md'))).stdout.decode().strip(), env={f'GIT_{r}_{w}': 'x' for r in ('AUTHOR', 'COMMITTER') for w in ('NAME', 'EMAIL')})
    git(f, 'reset', '-q', '--hard', commit)
    propose(f, {'AGENTS.md': 'new\n'}, A)
    assert L.accept(f, A)['ok'] and (f/'AGENTS.md').read_text() == 'new\n' and status(f) == ''

def test_many_files(f):
    propose(f, {f'skills/{n % 40}/{n}.md': f'{n}\n' for n in range(1500)}, A)
    assert L.accept(f, A)['ok'] and len(list((f/'skills').rglob('*.md'))) == 1500 and status(f) == ''
    assert L.undo(f)['ok'] and not (f/'skills').exists()
