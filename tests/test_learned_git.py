"""The review queue under other people's git: settings, variables, attributes, states of a repository, odd names."""
import json, os, shutil, subprocess, sys, time
from pathlib import Path

import pytest

import ramabana.learned as L
from ramabana.gitio import git_version
from lq import IDS, PFX, T, blob, by_hand, git, head, mkrepo, propose, put, refs, snap, status, tree, worktrees

A, B, C, D = IDS[:4]
RULE = 'A rule a person wrote.\n'

@pytest.fixture
def f(tmp_path): return mkrepo(tmp_path)

def two(f, **kw):
    "Two candidates: a changed AGENTS.md and a new skill."
    propose(f, {'AGENTS.md': RULE + '\nRead sizes with ls -l.\n'}, A, **kw)
    propose(f, {'skills/rg/SKILL.md': 'use rg\n'}, B, **kw)

def works(f):
    "Everything that a person does with two candidates, byte for byte."
    assert [p['stale'] for p in L.pending(f)] == [None, None]
    assert '+Read sizes' in L.diff(f, A)['diff'] and '\x1b' not in L.diff(f, A)['diff']
    before = head(f)
    done = L.accept(f, A)
    assert done['ok'] and (done['moved'], done['stale']) == ([B], []), done
    assert (f/'AGENTS.md').read_bytes() == (RULE + '\nRead sizes with ls -l.\n').encode() == blob(f, 'HEAD', 'AGENTS.md')
    assert git(f, 'rev-parse', 'HEAD^') == before and git(f, 'rev-parse', f'{PFX}{B}^') == head(f)
    assert git(f, '-c', 'log.showSignature=false', 'log', '-1', '--format=%an|%ae|%s', '--no-color') == f'Dhrona|d@example.invalid|Lesson from a replay: {A}'
    assert 'gpgsig' not in git(f, 'cat-file', 'commit', 'HEAD')
    back = L.undo(f)
    assert back['ok'] and back['id'] == A and (f/'AGENTS.md').read_text() == RULE, back
    assert L.reject(f, A)['ok'] and L.accept(f, B)['ok']
    assert (f/'skills/rg/SKILL.md').read_bytes() == b'use rg\n' and L.pending(f) == []

# -- settings of the user
CONFIGS = {
    'hooks': ('core.hooksPath', '{bad}'), 'signing': ('commit.gpgsign', 'true'), 'gpg program': ('gpg.program', '{bad}/gpg'), 'ssh signing': ('gpg.format', 'ssh'),
    'external diff': ('diff.external', 'false'), 'fsmonitor': ('core.fsmonitor', '{bad}/post-commit'), 'autocrlf': ('core.autocrlf', 'true'), 'autocrlf input': ('core.autocrlf', 'input'),
    'safecrlf': ('core.safecrlf', 'true'), 'eol': ('core.eol', 'crlf'), 'attributes': ('core.attributesFile', '{bad}/attributes'), 'excludes': ('core.excludesFile', '{bad}/excludes'),
    'template': ('init.templateDir', '{bad}'), 'only configured users': ('user.useConfigOnly', 'true'), 'quoting': ('core.quotePath', 'false'), 'commit encoding': ('i18n.commitEncoding', 'ISO-8859-1'),
    'log encoding': ('i18n.logOutputEncoding', 'UTF-16'), 'signatures': ('log.showSignature', 'true'), 'pager': ('core.pager', 'false'), 'colour': ('color.ui', 'always'),
    'colour of diffs': ('color.diff', 'always'), 'conflict style': ('merge.conflictStyle', 'zdiff3'), 'no prefix': ('diff.noprefix', 'true'), 'mnemonic': ('diff.mnemonicPrefix', 'true'),
    'editor': ('core.editor', 'false'), 'alias': ('alias.cat-file', '!false'), 'bare': ('core.bare', 'true'), 'ignore case': ('core.ignoreCase', 'true'), 'no reflog': ('core.logAllRefUpdates', 'false'),
    'split index': ('core.splitIndex', 'true'), 'untracked cache': ('core.untrackedCache', 'true'), 'sparse': ('core.sparseCheckout', 'true'), 'worktree': ('core.worktree', '/nowhere'),
    'default remote': ('push.default', 'nothing'), 'ff only': ('merge.ff', 'only'), 'rebase': ('pull.rebase', 'true'), 'abbrev': ('core.abbrev', '40'), 'dates': ('log.date', 'relative'),
    'renames': ('diff.renames', 'copies'), 'submodules': ('submodule.recurse', 'true'), 'gc': ('gc.auto', '1'), 'status': ('status.showUntrackedFiles', 'all'), 'comment sign': ('core.commentChar', 'L'),
    'file modes': ('core.fileMode', 'false'), 'whitespace': ('core.whitespace', 'tab-in-indent'), 'cleanup': ('commit.cleanup', 'scissors'), 'compression': ('core.compression', '9'),
    'symlinks': ('core.symlinks', 'false'), 'pack limit': ('pack.packSizeLimit', '1'), 'unpack': ('transfer.unpackLimit', '1'), 'fsck': ('transfer.fsckObjects', 'true'), 'index version': ('index.version', '4'),
    'context': ('diff.context', '0'), 'ignore submodules': ('diff.ignoreSubmodules', 'all'), 'order': ('diff.orderFile', '/nowhere'), 'mail map': ('mailmap.file', '{bad}/mailmap'), 'trailer': ('trailer.ifexists', 'replace'),
    'blame': ('blame.ignoreRevsFile', '/nowhere'), 'preload': ('core.preloadIndex', 'false'), 'replace refs': ('core.useReplaceRefs', 'true'), 'auto stash': ('rebase.autoStash', 'true')}
LOCAL_TOO = set(CONFIGS) - {'bare', 'worktree', 'template', 'sparse'}

@pytest.fixture
def bad(tmp_path):
    "A folder of things that fail, hang or destroy."
    folder = tmp_path/'bad'
    folder.mkdir()
    for name in ('pre-commit', 'post-commit', 'commit-msg', 'reference-transaction', 'post-checkout', 'pre-rebase', 'post-rewrite', 'post-index-change', 'gpg', 'prepare-commit-msg', 'post-merge'):
        (folder/name).write_text('#!/bin/sh\necho leaked >> "$HOME/leaked"\nexit 1\n')
        (folder/name).chmod(0o755)
    (folder/'attributes').write_text('* filter=shout merge=union diff=secret text eol=crlf working-tree-encoding=UTF-16\n')
    (folder/'excludes').write_text('*\n')
    (folder/'mailmap').write_text('Nobody <nobody@example.invalid> <d@example.invalid>\n')
    return folder

DRIVERS = """[filter "shout"]
	clean = tr a-z A-Z
	smudge = tr a-z A-Z
	required = true
[diff "secret"]
	textconv = echo hidden
	command = false
[merge "worse"]
	driver = false
"""

@pytest.mark.parametrize('scope', ['--global', '--local'])
@pytest.mark.parametrize('name', CONFIGS)
def test_settings_change_nothing(f, hermetic, bad, name, scope):
    if scope == '--local' and name not in LOCAL_TOO: pytest.skip('says what this repository is')
    if scope == '--local' and name == 'ssh signing' and git_version() < (2, 34): pytest.skip("the test's own git stops at this value")
    two(f)
    key, value = CONFIGS[name]
    file = hermetic/'.gitconfig' if scope == '--global' else f/'.git/config'
    git(f, 'config', '--file', file, key, value.format(bad=bad))
    if name == 'ssh signing': git(f, 'config', '--file', file, 'commit.gpgsign', 'true')
    with open(file, 'a') as more: more.write(DRIVERS)
    works(f)
    assert not (hermetic/'leaked').exists()

def test_all_settings_at_once(f, hermetic, bad):
    two(f)
    for key, value in CONFIGS.values(): git(f, 'config', '--file', hermetic/'.gitconfig', key, value.format(bad=bad))
    for name in LOCAL_TOO - ({'ssh signing'} if git_version() < (2, 34) else set()): git(f, 'config', CONFIGS[name][0], CONFIGS[name][1].format(bad=bad))
    works(f)
    assert not (hermetic/'leaked').exists()

@pytest.mark.parametrize('text', ['[', '[include]\n\tpath = /nowhere\n[includeIf "gitdir:/**"]\n\tpath = ~/more\n'])
def test_a_broken_or_included_global_file(f, hermetic, bad, text):
    two(f)
    (hermetic/'more').write_text(f'[core]\n\thooksPath = {bad}\n[commit]\n\tgpgsign = true\n')
    (hermetic/'.gitconfig').write_text(text)
    works(f)
    assert not (hermetic/'leaked').exists()

def test_settings_that_the_repository_includes(f, hermetic, bad):
    two(f)
    (hermetic/'more').write_text(f'[core]\n\thooksPath = {bad}\n\tautocrlf = true\n[commit]\n\tgpgsign = true\n' + DRIVERS)
    git(f, 'config', 'include.path', hermetic/'more')
    works(f)
    assert not (hermetic/'leaked').exists()

@pytest.mark.parametrize('where', ['.git/info/attributes', 'global', 'xdg', 'committed'])
def test_attributes_and_drivers(f, hermetic, bad, where, monkeypatch):
    with open(f/'.git/config', 'a') as more: more.write(DRIVERS)
    text = '* filter=shout merge=worse diff=secret\n*.md text eol=crlf\n'
    if where == '.git/info/attributes': put(f, where, text)
    elif where == 'global': (hermetic/'.gitconfig').write_text(f'[core]\n\tattributesFile = {put(hermetic, "attributes", text)}\n')
    elif where == 'xdg': put(hermetic, '.config/git/attributes', text)
    else:
        put(f, '.gitattributes', '* merge=worse diff=secret -text\n')
        git(f, 'add', '-A')
        git(f, *T, 'commit', '-qm', 'attributes')
    propose(f, {'AGENTS.md': RULE + '\nRead sizes with ls -l.\n'}, A, edit=None) if where == 'committed' else two_raw(f)
    if where == 'committed': propose(f, {'skills/rg/SKILL.md': 'use rg\n'}, B)
    works(f)

def two_raw(f):
    "Two candidates made from blobs, so that no filter of the test's own git changes them."
    from lq import fast_candidates
    h = head(f)
    for id, path, body in ((A, 'AGENTS.md', RULE + '\nRead sizes with ls -l.\n'), (B, 'skills/rg/SKILL.md', 'use rg\n')):
        say = f'Lesson from a replay: {id}'
        git(f, 'fast-import', '--quiet', inp=f'commit refs/heads/{PFX}{id}\nauthor Dhrona <d@example.invalid> 1760000000 +0000\ncommitter Dhrona <d@x> 1760000000 +0000\ndata {len(say)}\n{say}\nfrom {h}\nM 100644 inline {path}\ndata {len(body)}\n{body}\n'.encode())

def test_a_driver_that_hides_a_merge(f):
    """Two changes of one file that merge; the driver of the folder would take one side or fail."""
    by_hand(f, {'AGENTS.md': ''.join(f'{n}\n' for n in range(20)), '.gitattributes': '*.md merge=worse\n'})
    with open(f/'.git/config', 'a') as more: more.write(DRIVERS)
    lines = [f'{n}\n' for n in range(20)]
    propose(f, {'AGENTS.md': ''.join(['first\n', *lines[1:]])}, A)
    propose(f, {'AGENTS.md': ''.join([*lines[:-1], 'last\n'])}, B)
    assert L.accept(f, A)['moved'] == [B] and L.accept(f, B)['ok']
    assert (f/'AGENTS.md').read_text() == ''.join(['first\n', *lines[1:-1], 'last\n']) and status(f) == ''

def test_a_file_marked_binary_is_shown(f):
    by_hand(f, {'.gitattributes': '* -diff\n'})
    propose(f, {'skills/x/SKILL.md': 'what it says\n'}, A)
    assert '+what it says' in L.diff(f, A)['diff']

# -- variables
VARIABLES = {'GIT_DIR': '/nowhere', 'GIT_WORK_TREE': '/', 'GIT_INDEX_FILE': '/nowhere/index', 'GIT_OBJECT_DIRECTORY': '/nowhere', 'GIT_ALTERNATE_OBJECT_DIRECTORIES': '/nowhere',
    'GIT_COMMON_DIR': '/nowhere', 'GIT_NAMESPACE': 'other', 'GIT_CEILING_DIRECTORIES': '/', 'GIT_DISCOVERY_ACROSS_FILESYSTEM': '0', 'GIT_CONFIG': '/nowhere', 'GIT_CONFIG_GLOBAL': '/nowhere',
    'GIT_CONFIG_SYSTEM': '/nowhere', 'GIT_CONFIG_COUNT': 'x', 'GIT_CONFIG_PARAMETERS': "'core.bare=true'", 'GIT_AUTHOR_NAME': 'Eve', 'GIT_AUTHOR_EMAIL': 'eve@example.invalid', 'GIT_AUTHOR_DATE': '1 +0000',
    'GIT_COMMITTER_NAME': 'Eve', 'GIT_COMMITTER_EMAIL': '', 'GIT_COMMITTER_DATE': 'nonsense', 'GIT_EDITOR': 'false', 'GIT_SEQUENCE_EDITOR': 'false', 'GIT_PAGER': 'false', 'GIT_EXTERNAL_DIFF': 'false',
    'GIT_DIFF_OPTS': '-u0', 'GIT_MERGE_VERBOSITY': '5', 'GIT_LITERAL_PATHSPECS': '0', 'GIT_GLOB_PATHSPECS': '1', 'GIT_NOGLOB_PATHSPECS': '1', 'GIT_ICASE_PATHSPECS': '1', 'GIT_REFLOG_ACTION': 'x',
    'GIT_TRACE': '1', 'GIT_TRACE2': '1', 'GIT_TRACE_SETUP': '2', 'GIT_TRACE_PACKET': '1', 'GIT_EXEC_PATH': '/nowhere', 'GIT_TEMPLATE_DIR': '/nowhere', 'GIT_DEFAULT_HASH': 'sha256', 'GIT_OPTIONAL_LOCKS': '1',
    'GIT_REPLACE_REF_BASE': 'refs/x', 'GIT_NO_REPLACE_OBJECTS': '0', 'GIT_SHALLOW_FILE': '/nowhere', 'GIT_GRAFT_FILE': '/nowhere', 'GIT_ATTR_SOURCE': 'nothing', 'GIT_ATTR_NOSYSTEM': '0', 'GIT_REF_PARANOIA': '1',
    'GIT_QUARANTINE_PATH': '/nowhere', 'GIT_PREFIX': 'x/', 'GIT_INTERNAL_SUPER_PREFIX': 'x/', 'GIT_INDEX_VERSION': '4', 'GIT_IMPLICIT_WORK_TREE': '0', 'GIT_PROTOCOL': 'x', 'GIT_SSH': 'false', 'GIT_ASKPASS': 'false',
    'GIT_DEFAULT_REF_FORMAT': 'reftable', 'GIT_TEST_SPLIT_INDEX': '1', 'GIT_TEST_DEFAULT_HASH': 'sha256', 'GIT_ADVICE': '1', 'GIT_FLUSH': '0', 'EDITOR': 'false', 'VISUAL': 'false', 'PAGER': 'false', 'LC_ALL': 'de_DE.UTF-8', 'LANGUAGE': 'de',
    'XDG_CONFIG_HOME': '/nowhere', 'HOME': '/nowhere', 'TMPDIR': '/tmp', 'EMAIL': 'eve@example.invalid', 'TZ': 'Pacific/Kiritimati', 'POSIXLY_CORRECT': '1', 'LESS': '-X'}

@pytest.mark.parametrize('name', VARIABLES)
def test_variables_change_nothing(f, monkeypatch, name):
    two(f)
    monkeypatch.setenv(name, VARIABLES[name])
    works(f)

def test_all_variables_at_once(f, monkeypatch):
    two(f)
    for name, value in VARIABLES.items(): monkeypatch.setenv(name, value)
    works(f)

def test_an_unset_home(f, monkeypatch):
    two(f)
    monkeypatch.delenv('HOME')
    works(f)

# -- states of a repository
def refused(f, words, id=A, call=None):
    "Nothing changed, and the answer says why."
    before = snap(f) if (f/'.git').exists() else tree(f)
    done = (call or L.accept)(f, id)
    assert done['ok'] is False and done['id'] == id and words in done['error'], done
    assert (snap(f) if (f/'.git').exists() else tree(f)) == before
    return done

def test_no_repository(tmp_path):
    (tmp_path/'learned').mkdir()
    assert L.pending(tmp_path/'learned') == []
    for call in (L.accept, L.reject, L.diff, L.compact): refused(tmp_path/'learned', 'no git repository', call=call)
    assert not list((tmp_path/'learned').iterdir())

def test_a_repository_above_is_never_touched(tmp_path):
    outer = mkrepo(tmp_path, 'outer', {'learned/AGENTS.md': RULE})
    propose(outer, {'learned/AGENTS.md': 'x\n'}, A)
    before = snap(outer)
    assert L.pending(outer/'learned') == [] and 'no git repository' in L.accept(outer/'learned', A)['error']
    assert snap(outer) == before

def test_a_bare_repository(tmp_path):
    git(tmp_path, 'init', '-q', '--bare', 'learned')
    assert L.pending(tmp_path/'learned') == [] and 'bare' in L.accept(tmp_path/'learned', A)['error']

def test_detached(f):
    two(f)
    git(f, 'checkout', '-q', '--detach')
    refused(f, 'detached')
    assert len(L.pending(f)) == 2 and L.diff(f, A)['ok'] and L.reject(f, B)['ok']
    git(f, 'switch', '-q', '-')
    assert L.accept(f, A)['ok']

def test_a_first_commit_is_missing(tmp_path):
    f = tmp_path/'learned'
    git(tmp_path, 'init', '-q', 'learned')
    assert L.pending(f) == []
    done = L.accept(f, A)
    assert done['ok'] is False and 'nothing is pending' in done['error']
    other = mkrepo(tmp_path, 'other')
    git(f, 'fetch', '-q', other, f'HEAD:refs/heads/{PFX}{A}')
    assert [row['id'] for row in L.pending(f)] == [A] and 'no commit yet' in L.pending(f)[0]['stale']
    assert 'no commit yet' in L.accept(f, A)['error'] and L.reject(f, A)['ok']

@pytest.mark.parametrize('state', ['merge', 'rebase', 'cherry-pick', 'revert', 'am'])
def test_something_is_under_way(f, state):
    two(f)
    main = git(f, 'branch', '--show-current')
    git(f, 'switch', '-qc', 'side')
    by_hand(f, {'other.md': 'side\n'})
    git(f, 'switch', '-q', main)
    by_hand(f, {'other.md': 'main\n'})
    if state == 'merge': git(f, *T, 'merge', 'side', check=False)
    if state == 'rebase': git(f, *T, 'rebase', 'side', check=False)
    if state == 'cherry-pick': git(f, *T, 'cherry-pick', 'side', check=False)
    if state == 'revert':
        by_hand(f, {'other.md': 'again\n'})
        git(f, *T, 'revert', 'HEAD~1', check=False)
    if state == 'am': git(f, *T, 'am', check=False, inp=git(f, 'format-patch', '--stdout', '-1', 'side', binary=True))
    assert status(f) or state == 'am'
    refused(f, 'is under way')
    assert len(L.pending(f)) == 2

def test_unrelated_dirt_stays(f):
    by_hand(f, {'notes.md': 'a\n', 'more.md': 'b\n'})
    two(f)
    (f/'notes.md').write_text('edited\n')
    put(f, 'more.md', 'staged\n')
    git(f, 'add', 'more.md')
    put(f, 'untracked.md', 'new\n')
    before = status(f)
    assert L.accept(f, A)['ok'] and L.accept(f, B)['ok']
    assert status(f) == before and (f/'notes.md').read_text() == 'edited\n'

@pytest.mark.parametrize('dirt', ['edited', 'staged', 'staged and put back', 'deleted', 'removed from the index', 'mode', 'assumed unchanged', 'a link', 'a folder'])
def test_dirt_in_a_touched_file(f, dirt):
    two(f)
    place = f/'AGENTS.md'
    if dirt == 'edited': place.write_text('mine\n')
    if dirt in ('staged', 'staged and put back'):
        place.write_text('mine\n')
        git(f, 'add', 'AGENTS.md')
        if dirt == 'staged and put back': place.write_text(RULE)
    if dirt == 'deleted': place.unlink()
    if dirt == 'removed from the index': git(f, 'rm', '-q', '--cached', 'AGENTS.md')
    if dirt == 'mode': place.chmod(0o755)
    if dirt == 'assumed unchanged':
        git(f, 'update-index', '--assume-unchanged', 'AGENTS.md')
        place.write_text('mine\n')
    if dirt == 'a link':
        place.unlink()
        place.symlink_to('elsewhere')
    if dirt == 'a folder':
        place.unlink()
        put(f, 'AGENTS.md/mine', 'x\n')
    done = refused(f, 'uncommitted')
    assert 'AGENTS.md' in done['error']
    assert L.accept(f, B)['ok']

@pytest.mark.parametrize('body', ['other\n', 'use rg\n'])
@pytest.mark.parametrize('ignored', [False, True])
def test_an_untracked_file_in_the_way(f, body, ignored):
    if ignored: by_hand(f, {'.gitignore': 'skills\n'})
    two_raw(f)
    put(f, 'skills/rg/SKILL.md', body)
    if body == 'use rg\n': assert L.accept(f, B)['ok'] and (f/'skills/rg/SKILL.md').read_text() == body
    else: refused(f, 'uncommitted', B)

def test_an_untracked_file_where_a_folder_is_wanted(f):
    two(f)
    put(f, 'skills', 'mine\n')
    assert 'skills' in refused(f, 'uncommitted', B)['error']

def test_line_ends_that_git_wrote(f):
    """With core.autocrlf a person's git writes CRLF into files; that is no change of theirs."""
    two(f)
    (f/'AGENTS.md').write_bytes(RULE.replace('\n', '\r\n').encode())
    works(f)

def test_a_locked_index(f):
    two(f)
    (f/'.git/index.lock').touch()
    refused(f, 'index.lock')
    (f/'.git/index.lock').unlink()
    works(f)

@pytest.mark.parametrize('lock', ['packed-refs.lock', 'HEAD.lock', f'refs/heads/{PFX}{A}.lock', 'main'])
def test_a_locked_branch(f, lock):
    two(f)
    git(f, 'pack-refs', '--all')
    lock = f/'.git'/(f'refs/heads/{git(f, "branch", "--show-current")}.lock' if lock == 'main' else lock)
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    before = snap(f)
    done = L.accept(f, A)
    assert (done['ok'] is False and done['error'] and 'no longer applies' not in done['error'] and snap(f) == before) or lock.name == 'HEAD.lock', done
    lock.unlink()
    if not done['ok']: works(f)

def test_packed_branches(f):
    two(f)
    git(f, 'pack-refs', '--all')
    works(f)

def test_a_shallow_clone(f, tmp_path):
    by_hand(f, {'AGENTS.md': RULE})  if False else by_hand(f, {'x': '1\n'})
    shallow = tmp_path/'shallow'
    git(tmp_path, 'clone', '-q', '--depth', '1', f'file://{f}', shallow)
    two(shallow)
    works(shallow)

def test_a_linked_worktree(f, tmp_path):
    git(f, 'worktree', 'add', '-q', '-b', 'lessons', tmp_path/'linked')
    two(tmp_path/'linked')
    before = tree(f), status(f)
    works(tmp_path/'linked')
    assert (tree(f), status(f)) == before and worktrees(f) == 2

def test_a_submodule(tmp_path):
    inner, outer = mkrepo(tmp_path, 'inner'), mkrepo(tmp_path, 'outer')
    git(outer, '-c', 'protocol.file.allow=always', 'submodule', 'add', '-q', inner, 'learned')
    git(outer, *T, 'commit', '-qm', 'sub')
    two(outer/'learned')
    works(outer/'learned')

def test_a_folder_with_a_submodule(f, tmp_path):
    inner = mkrepo(tmp_path, 'inner')
    git(f, '-c', 'protocol.file.allow=always', 'submodule', 'add', '-q', inner, 'sub')
    git(f, *T, 'commit', '-qm', 'sub')
    two(f)
    works(f)

@pytest.mark.parametrize('link', ['folder', 'git', 'parent'])
def test_links(f, tmp_path, link):
    two(f)
    if link == 'folder':
        (tmp_path/'link').symlink_to(f)
        f = tmp_path/'link'
    if link == 'git':
        (f/'.git').rename(tmp_path/'elsewhere')
        (f/'.git').symlink_to(tmp_path/'elsewhere')
    if link == 'parent':
        (tmp_path/'up').symlink_to(tmp_path)
        f = tmp_path/'up'/'learned'
    works(f)

def test_a_separate_git_folder(tmp_path):
    f = mkrepo(tmp_path, init=('-q', f'--separate-git-dir={tmp_path}/elsewhere'))
    two(f)
    works(f)

@pytest.mark.parametrize('name', ['with space', "quo'te", 'quo"te', 'new\nline', 'semi;colon', 'co:lon', 'back\\slash', '-dash', 'ünïcode', '$HOME', '%s', '*', '[a]'])
def test_names_of_the_folder(tmp_path, name):
    f = mkrepo(tmp_path, name)
    two(f)
    works(f)
    by_hand(f, {'AGENTS.md': ''.join(f'{n}\n' for n in range(20))})
    lines = [f'{n}\n' for n in range(20)]
    propose(f, {'AGENTS.md': ''.join(['first\n', *lines[1:]])}, C)
    propose(f, {'AGENTS.md': ''.join([*lines[:-1], 'last\n'])}, D)
    assert L.accept(f, C)['moved'] == [D]

def test_sha256(tmp_path):
    f = mkrepo(tmp_path, init=('-q', '--object-format=sha256'))
    two(f)
    works(f)
    by_hand(f, {'AGENTS.md': ''.join(f'{n}\n' for n in range(20))})
    lines = [f'{n}\n' for n in range(20)]
    propose(f, {'AGENTS.md': ''.join(['first\n', *lines[1:]])}, C)
    propose(f, {'AGENTS.md': ''.join([*lines[:-1], 'last\n'])}, D)
    assert L.accept(f, C)['moved'] == [D]

def test_reftable(tmp_path):
    if subprocess.run(['git', 'init', '-q', '--ref-format=reftable', tmp_path/'probe'], capture_output=True).returncode: pytest.skip('this git has no reftable')
    f = mkrepo(tmp_path, init=('-q', '--ref-format=reftable'))
    two(f)
    works(f)

def test_another_owner(f):
    if os.geteuid(): pytest.skip('only root can give files away')
    two(f)
    for place in [f, *f.rglob('*')]: os.chown(place, 12345, 12345, follow_symlinks=False)
    assert [row['stale'] for row in L.pending(f)] == [None, None] and L.diff(f, A)['ok'] and L.accept(f, A)['ok'] and L.reject(f, B)['ok']

def test_no_git(f, monkeypatch, tmp_path):
    two(f)
    before = snap(f)
    with monkeypatch.context() as m:
        m.setenv('PATH', str(tmp_path))
        assert 'not on the PATH' in L.accept(f, A)['error'] and 'not on the PATH' in L.learned_command(f)
        assert L.pending(tmp_path/'none') == []
    assert snap(f) == before

def test_a_git_that_fails_is_not_called_stale(f, monkeypatch, tmp_path):
    two(f)
    before, real = snap(f), shutil.which('git')
    (tmp_path/'bin').mkdir()
    for broken in ('diff-tree', 'update-ref', 'unpack-objects', 'ls-tree', 'cat-file', 'update-index', 'rev-list'):
        (tmp_path/'bin/git').write_text(f'#!/bin/sh\nfor a in "$@"; do [ "$a" = {broken} ] && {{ echo "disk on fire" >&2; exit 128; }}; done\nexec {real} "$@"\n')
        (tmp_path/'bin/git').chmod(0o755)
        with monkeypatch.context() as m:
            m.setenv('PATH', f'{tmp_path}/bin:{os.environ["PATH"]}')
            done = L.accept(f, A)
            assert done['ok'] is False and 'no longer applies' not in done['error'], (broken, done)
        assert snap(f) == before, broken
    assert L.accept(f, A)['ok']

def test_a_git_that_hangs_ends(f, monkeypatch, tmp_path):
    import ramabana.gitio as gitio
    two(f)
    (tmp_path/'bin').mkdir()
    (tmp_path/'bin/git').write_text('#!/bin/sh\nsleep 60 &\nsleep 60\n')
    (tmp_path/'bin/git').chmod(0o755)
    monkeypatch.setattr(gitio, 'LIMIT', 0.5)
    monkeypatch.setenv('PATH', f'{tmp_path}/bin:{os.environ["PATH"]}')
    at = time.monotonic()
    assert 'did not end' in L.accept(f, A)['error'] and time.monotonic() - at < 10

@pytest.mark.parametrize('lost', ['commit', 'tree', 'blob', 'corrupt'])
@pytest.mark.parametrize('packed', [False, True])
def test_a_damaged_candidate_does_not_hide_the_others(f, lost, packed):
    two(f)
    name = {'commit': PFX + A, 'tree': f'{PFX}{A}^{{tree}}', 'blob': f'{PFX}{A}:AGENTS.md', 'corrupt': f'{PFX}{A}:AGENTS.md'}[lost]
    oid = git(f, 'rev-parse', name)
    if packed: git(f, 'pack-refs', '--all')
    place = f/'.git/objects'/oid[:2]/oid[2:]
    place.chmod(0o644)
    if lost == 'corrupt': place.write_bytes(b'rubbish')
    else: place.unlink()
    rows = L.pending(f)
    assert [row['id'] for row in rows] == [A, B] and rows[1]['stale'] is None
    done = L.accept(f, A)
    assert done['ok'] is False and 'no longer applies' not in done['error']
    assert L.accept(f, B)['ok'] and (f/'skills/rg/SKILL.md').exists() and L.reject(f, A)['ok'] and L.pending(f) == []

def test_names_that_look_alike(f):
    two(f)
    git(f, 'tag', PFX + A)
    git(f, 'tag', f'heads/{PFX}{B}')
    git(f, 'tag', 'HEAD')
    git(f, 'tag', git(f, 'rev-parse', 'HEAD'))
    git(f, 'branch', f'refs/heads/{PFX}{A}')
    git(f, 'update-ref', f'refs/remotes/origin/{PFX}{C}', 'HEAD')
    git(f, 'update-ref', f'refs/{PFX}{C}', 'HEAD')
    for name in ('pending/other', f'pending/x/{C}', f'{PFX}{C}x', f'pending2/{C}', f'old/{PFX}{C}', PFX + C.upper().replace('-00', '-AB')): git(f, 'branch', name)
    def others(): return [line for line in refs(f).splitlines() if not line.startswith((f'refs/heads/{PFX}{A} ', f'refs/heads/{PFX}{B} ', 'refs/heads/ma'))]
    kept = others()
    works(f)
    assert others() == kept

def test_a_candidate_that_is_another_name(f):
    """A symbolic reference: removing the candidate must not remove what it points to."""
    main = git(f, 'symbolic-ref', 'HEAD')
    git(f, 'symbolic-ref', f'refs/heads/{PFX}{A}', main)
    before = head(f)
    assert L.accept(f, A)['commit'] is None and head(f) == before and L.pending(f) == []
    git(f, 'symbolic-ref', f'refs/heads/{PFX}{B}', main)
    assert L.reject(f, B)['ok'] and head(f) == before and L.pending(f) == []

def test_a_candidate_that_is_checked_out_in_the_folder(f):
    two(f)
    git(f, 'switch', '-q', PFX + A)
    assert len(L.pending(f)) == 2
    for id in (A, B): refused(f, 'git switch', id)
    refused(f, 'git switch', A, L.reject)

@pytest.mark.parametrize('call', [L.accept, L.reject])
@pytest.mark.parametrize('gone', [True, False])
def test_a_candidate_that_is_checked_out_elsewhere(f, tmp_path, call, gone):
    two(f)
    git(f, 'worktree', 'add', '-q', tmp_path/'wt\nx', PFX + A)
    git(f, 'worktree', 'add', '-q', tmp_path/'mine', '-b', 'mine')
    if gone: shutil.rmtree(tmp_path/'wt\nx')
    shutil.rmtree(tmp_path/'mine')
    assert call(f, A)['ok']
    assert (f'worktree {tmp_path}/mine' in git(f, 'worktree', 'list', '--porcelain')) and worktrees(f) == (2 if gone else 3)
    if not gone: assert git(tmp_path/'wt\nx', 'log', '-1', '--format=%s').startswith('Lesson') and git(tmp_path/'wt\nx', 'status', '--porcelain') == ''

def test_a_candidate_that_is_checked_out_in_the_main_worktree(f, tmp_path):
    git(f, 'worktree', 'add', '-q', '-b', 'lessons', tmp_path/'linked')
    two(tmp_path/'linked')
    git(f, 'switch', '-q', PFX + A)
    at = head(f)
    assert L.accept(tmp_path/'linked', A)['ok'] and head(f) == at and status(f) == ''

def test_replaced_objects_and_grafts(f):
    two(f)
    first = by_hand(f, {'x': '1\n'})
    git(f, 'replace', first, git(f, 'commit-tree', '-m', 'other', 'HEAD^{tree}', env=dict(GIT_AUTHOR_NAME='x', GIT_AUTHOR_EMAIL='x', GIT_COMMITTER_NAME='x', GIT_COMMITTER_EMAIL='x')))
    assert [row['stale'] for row in L.pending(f)] == [None, None] and L.accept(f, A)['ok'] and L.accept(f, B)['ok']

def test_a_commit_graph_and_packs(f):
    two(f)
    git(f, 'gc', '-q')
    git(f, 'commit-graph', 'write', '--reachable')
    works(f)
    assert 'error' not in git(f, 'fsck', '--strict', check=False)
