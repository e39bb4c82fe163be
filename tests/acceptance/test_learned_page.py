"""Acceptance suite for `ramabana.learned`: every behaviour its documentation page states. Plain git only; no model, no network."""
import json, os, subprocess, sys, time
from pathlib import Path
import pytest
from lq import IDS, T, git, head, mkrepo, propose, refs, snap, status, tree, worktrees
import ramabana.learned as L

A, B, C, D = IDS[:4]
RULE = 'A rule a person wrote.\n'
SKILL = lambda n, body='use ls': f'---\nname: {n}\ndescription: x\n---\n{body}\n'
LESSONS = RULE + '\n' + 'Read sizes with ls -l. ' * 40 + '\n'

@pytest.fixture
def f(tmp_path): return mkrepo(tmp_path)

# -- names the page uses
@pytest.mark.parametrize('n', 'pending diff accept reject restack compact learned_command learned_folder enabled set_enabled learned_cli PENDING LEARNED_MAX STALE SETTINGS _locked'.split())
def test_names(n): assert hasattr(L, n)

def test_constants(): assert (L.PENDING, L.LEARNED_MAX, L.SETTINGS) == ('pending/', 2000, 'settings.json')

# -- pending
def test_pending_lists_oldest_first(f):
    propose(f, {'AGENTS.md': 'x\n'}, B, at=1760000200); propose(f, {'skills/sizes/SKILL.md': SKILL('sizes')}, A, at=1760000100); propose(f, {'AGENTS.md': 'y\n'}, C, at=1760000300)
    rows = L.pending(f)
    assert [(p['id'], p['files']) for p in rows] == [(A, ['skills/sizes/SKILL.md']), (B, ['AGENTS.md']), (C, ['AGENTS.md'])]
    assert [p['at'] for p in rows] == [1760000100, 1760000200, 1760000300]
    assert rows[0]['subject'] == f'Lesson from a replay: {A}' and all(p['stale'] is None for p in rows)
    assert {'id', 'at', 'subject', 'files', 'stale'} <= set(rows[0])

def test_pending_has_no_effect_on_files(f):
    before = tree(f); propose(f, {'AGENTS.md': 'other\n', 'skills/a/SKILL.md': SKILL('a')}, A); L.pending(f); L.diff(f, A)
    assert tree(f) == before and status(f) == ''

def test_pending_of_a_missing_folder(tmp_path): assert L.pending(tmp_path/'none') == []
def test_pending_of_no_candidates(f): assert L.pending(f) == []
def test_accepts_str_paths(f): propose(f, {'AGENTS.md': 'x\n'}, A); assert L.pending(str(f))[0]['id'] == A and L.accept(str(f), A)['ok']

# -- diff
def test_diff(f):
    propose(f, {'skills/sizes/SKILL.md': SKILL('sizes')}, A); r = L.diff(f, A)
    assert r['ok'] is True and r['id'] == A and '+use ls' in r['diff']
def test_diff_of_nothing_pending(f):
    r = L.diff(f, A); assert r['ok'] is False and r['id'] == A and r['error']

# -- accept
def test_accept_moves_head_and_files(f):
    propose(f, {'skills/sizes/SKILL.md': SKILL('sizes')}, A); h = head(f); r = L.accept(f, A)
    assert r['ok'] is True and r['id'] == A and (r['moved'], r['stale']) == ([], [])
    assert (f/'skills/sizes/SKILL.md').read_text() == SKILL('sizes') and head(f) != h and head(f).startswith(r['commit'])
    assert git(f, 'rev-parse', 'HEAD^') == h and L.pending(f) == [] and status(f) == ''

def test_accept_keeps_author_and_stamps_commit_time(f):
    propose(f, {'AGENTS.md': 'new\n'}, A, at=1700000000); t = int(time.time()); L.accept(f, A)
    assert git(f, 'log', '-1', '--format=%an') == 'Dhrona' and git(f, 'log', '-1', '--format=%s') == f'Lesson from a replay: {A}'
    assert int(git(f, 'log', '-1', '--format=%ct')) >= t

def test_accept_stamps_commit_time_after_a_move(f):
    propose(f, {'skills/a/SKILL.md': SKILL('a')}, A, at=1700000000); propose(f, {'skills/b/SKILL.md': SKILL('b')}, B, at=1700000100); L.accept(f, A)
    t = int(time.time()); L.accept(f, B); assert int(git(f, 'log', '-1', '--format=%ct')) >= t and git(f, 'log', '-1', '--format=%an') == 'Dhrona'

def test_accept_moves_the_others(f):
    propose(f, {'skills/a/SKILL.md': SKILL('a')}, A); propose(f, {'AGENTS.md': 'b\n'}, B); propose(f, {'AGENTS.md': 'c\n'}, C)
    r = L.accept(f, A); assert (r['moved'], r['stale']) == ([B, C], [])
    for i in (B, C): assert git(f, 'rev-parse', f'pending/{i}^') == head(f)

def test_moving_changes_neither_order_nor_at(f):
    propose(f, {'skills/a/SKILL.md': SKILL('a')}, A, at=1760000000); propose(f, {'skills/b/SKILL.md': SKILL('b')}, B, at=1760000100); propose(f, {'skills/c/SKILL.md': SKILL('c')}, C, at=1760000200)
    L.accept(f, B); assert [(p['id'], p['at']) for p in L.pending(f)] == [(A, 1760000000), (C, 1760000200)]

def test_conflict_is_stale(f):
    propose(f, {'AGENTS.md': 'b\n'}, B); propose(f, {'AGENTS.md': 'c\n'}, C)
    r = L.accept(f, B); assert r['ok'] and r['stale'] == [C] and r['moved'] == []
    assert [p['stale'] for p in L.pending(f)] == [L.STALE]
    s = snap(f); r = L.accept(f, C)
    assert r['ok'] is False and r['id'] == C and 'no longer applies' in r['error'] and r['error'] == L.STALE
    assert snap(f) == s and b'<<<<' not in (f/'AGENTS.md').read_bytes() and status(f) == '' and worktrees(f) == 1

def test_change_head_already_holds(f):
    propose(f, {'AGENTS.md': 'same\n'}, A); propose(f, {'AGENTS.md': 'same\n'}, B)
    assert L.accept(f, A)['commit']; h = head(f); r = L.accept(f, B)
    assert r['ok'] is True and r['commit'] is None and head(f) == h and L.pending(f) == []

def test_accept_twice(f):
    propose(f, {'AGENTS.md': 'x\n'}, A); assert L.accept(f, A)['ok']; r = L.accept(f, A); assert r['ok'] is False and r['id'] == A and r['error']
def test_option_is_not_an_id(f):
    s = snap(f); r = L.accept(f, '--force'); assert r['ok'] is False and r['error'] and snap(f) == s

def test_uncommitted_edit_refuses(f):
    propose(f, {'AGENTS.md': 'Hand edit pending.\n'}, A); (f/'AGENTS.md').write_text('an uncommitted edit\n'); s = snap(f)
    r = L.accept(f, A); assert r['ok'] is False and 'uncommitted' in r['error'] and snap(f) == s

def test_batch_lock(f):
    propose(f, {'AGENTS.md': 'x\n'}, A); s = snap(f)
    with L._locked(f) as held:
        assert held
        for act in (L.accept, L.reject): r = act(f, A); assert r['ok'] is False and r['id'] == A and 'batch is running' in r['error']
        with L._locked(f) as again: assert not again
    assert snap(f) == s and L.accept(f, A)['ok']

def test_no_worktree_left(f):
    propose(f, {'AGENTS.md': 'b\n'}, B); propose(f, {'AGENTS.md': 'c\n'}, C); L.accept(f, B); L.accept(f, C); assert worktrees(f) == 1

def test_past_the_limit(f):
    propose(f, {'AGENTS.md': RULE + 'x' * L.LEARNED_MAX}, A); s = snap(f); r = L.accept(f, A)
    assert r['ok'] is False and 'past the 2,000' in r['error'] and r['length'] == len(RULE) + 2000 and f'/learned compact {A}' in r['error'] and snap(f) == s
    assert A in L.learned_command(f) and 'past the 2,000' in L.learned_command(f, f'accept {A}')

def test_accepted_rounds_add_up(f):
    propose(f, {'AGENTS.md': RULE + '\n' + 'a' * 1200 + '\n'}, A); L.accept(f, A)
    propose(f, {'AGENTS.md': RULE + '\n' + 'a' * 1200 + '\n\n' + 'b' * 1200 + '\n'}, B); assert L.accept(f, B)['length'] > 2000

# -- reject
def test_reject(f):
    propose(f, {'AGENTS.md': 'x\n'}, A); s = tree(f), head(f); assert L.reject(f, A) == dict(ok=True, id=A)
    assert L.pending(f) == [] and (tree(f), head(f)) == s
    r = L.reject(f, A); assert r['ok'] is False and r['error']

# -- restack
def test_restack(f):
    propose(f, {'skills/a/SKILL.md': SKILL('a')}, A); propose(f, {'AGENTS.md': 'p\n'}, B); (f/'AGENTS.md').write_text('by hand\n'); git(f, *T, 'commit', '-qam', 'by hand')
    moved, stale = L.restack(f); assert (list(moved), list(stale)) == ([A], [B]) and git(f, 'rev-parse', f'pending/{A}^') == head(f)
    moved, stale = L.restack(f); assert (list(moved), list(stale)) == ([], [B])

# -- compact
def test_compact_keeps_a_persons_paragraph(f):
    propose(f, {'AGENTS.md': LESSONS}, A); L.accept(f, A); s = tree(f), head(f)
    r = L.compact(f, chat=lambda prompt: '[kept 1]\n\nRead sizes with ls -l.')
    assert r['ok'] is True and r['before'] == len(LESSONS) and r['after'] == len(RULE + '\nRead sizes with ls -l.\n') and {'ok', 'id', 'before', 'after'} <= set(r)
    assert (tree(f), head(f)) == s and r['id'] in L.learned_command(f)
    assert git(f, 'show', f"{L.PENDING}{r['id']}:AGENTS.md") == RULE.strip() + '\n\nRead sizes with ls -l.'
    assert '-Read sizes' in L.diff(f, r['id'])['diff']
    assert 'already pending' in L.learned_command(f, 'compact') or 'needs dhrona' in L.learned_command(f, 'compact')
    assert 'already pending' in L.compact(f, chat=lambda p: 'x')['error']
    assert L.accept(f, r['id'])['ok'] and (f/'AGENTS.md').read_text() == RULE + '\nRead sizes with ls -l.\n'

def test_compaction_can_be_rejected(f):
    propose(f, {'AGENTS.md': LESSONS}, A); L.accept(f, A); r = L.compact(f, chat=lambda p: '[kept 1]\n\nShort.'); assert L.reject(f, r['id'])['ok'] and L.pending(f) == []

def test_compact_refuses_a_changed_paragraph(f):
    propose(f, {'AGENTS.md': LESSONS}, A); L.accept(f, A); s = snap(f)
    for bad in ('Only mine.', '[kept 1]\n\n[kept 1]\n\nx', '[kept 2]\n\nx', '', None):
        r = L.compact(f, chat=lambda p, bad=bad: bad); assert r['ok'] is False and r['error'], bad
    assert snap(f) == s

def test_compact_without_dhrona_and_without_a_chat(f, monkeypatch):
    propose(f, {'AGENTS.md': LESSONS}, A); L.accept(f, A); monkeypatch.setitem(sys.modules, 'dhrona.improve', None)
    r = L.compact(f); assert r['ok'] is False and 'needs dhrona' in r['error']

def test_compact_folds_in_a_candidate(f):
    propose(f, {'AGENTS.md': LESSONS}, A); L.accept(f, A)
    propose(f, {'AGENTS.md': LESSONS + '\n' + 'Run pytest -q before a commit. ' * 40 + '\n'}, B)
    propose(f, {'skills/rg/SKILL.md': SKILL('rg', 'use rg')}, C); propose(f, {'AGENTS.md': LESSONS.replace('Read sizes', 'Read file sizes', 1)}, D)
    r = L.accept(f, B); assert not r['ok'] and r['length'] > 2000 and f'/learned compact {B}' in r['error']
    r = L.compact(f, B, chat=lambda prompt: '[kept 1]\n\nRead sizes with ls -l.\n\nRun pytest -q before a commit.')
    assert r['ok'] and r['before'] > 2000 >= r['after']
    assert 'nothing is pending' in L.compact(f, '20990101-000000-abcdef', chat=lambda p: 'x')['error']
    r = L.accept(f, r['id']); assert r['ok'] and (f/'AGENTS.md').read_text() == RULE + '\nRead sizes with ls -l.\n\nRun pytest -q before a commit.\n'
    assert (r['moved'], r['stale']) == ([C], [D]) and [(p['id'], p['stale']) for p in L.pending(f)] == [(C, None), (D, L.STALE)]
    txt = L.learned_command(f); assert f'{D}  AGENTS.md' in txt and '(stale: it no longer applies' in txt
    assert git(f, 'rev-parse', f'{L.PENDING}{C}^') == head(f) and L.accept(f, C)['ok'] and L.accept(f, D)['error'] == L.STALE

def test_compact_refuses_while_a_batch_runs(f):
    propose(f, {'AGENTS.md': LESSONS}, A); L.accept(f, A)
    with L._locked(f): r = L.compact(f, chat=lambda p: '[kept 1]\n\nx')
    assert r['ok'] is False and 'batch' in r['error']

# -- the text form
def test_command_list_and_acts(f):
    assert L.learned_command(f) == 'nothing is pending'
    propose(f, {'AGENTS.md': 'x\n'}, A); propose(f, {'skills/a/SKILL.md': SKILL('a')}, B)
    txt = L.learned_command(f); assert A in txt and B in txt and 'skills/a/SKILL.md' in txt and txt == L.learned_command(f, 'list')
    assert '+x' in L.learned_command(f, f'diff {A}')
    assert L.learned_command(f, f'reject {A}') == f'rejected {A}'
    assert L.learned_command(f, f'accept {B}').startswith(f'accepted {B}') and L.learned_command(f) == 'nothing is pending'
    assert 'say /learned' in L.learned_command(f, 'frobnicate')

def test_command_on_off_status(f, hermetic):
    assert L.learned_command(f, 'status') == 'learning is on'
    assert L.learned_command(f, 'off') == 'learning is off' and L.enabled(f.parent) is False and L.learned_command(f, 'status') == 'learning is off'
    assert L.learned_command(f, 'on') == 'learning is on' and L.enabled(f.parent) is True

def test_review_still_works_when_off(f): L.set_enabled(f.parent, False); propose(f, {'AGENTS.md': 'x\n'}, A); assert L.accept(f, A)['ok']

# -- the switch
@pytest.fixture
def toml(hermetic): return hermetic/'config.toml'

def test_on_by_default(tmp_path, toml): assert L.enabled(tmp_path) is True

def test_off_writes_config_toml_only(tmp_path, toml):
    assert L.enabled(tmp_path); L.set_enabled(tmp_path, False)
    assert '\nlearning = false\n' in toml.read_text() and L.enabled(tmp_path) is False and not (tmp_path/L.SETTINGS).exists()
    assert L.set_enabled(tmp_path, True) is True and L.enabled(tmp_path) is True

def test_off_counts_for_every_config_folder(tmp_path, toml): L.set_enabled(tmp_path/'a', False); assert L.enabled(tmp_path/'b') is False and L.enabled() is False

def test_comments_are_kept(tmp_path, toml):
    toml.write_text('# mine\nlearning = true\n\n# about the models\n[jobs]\nturn = "x"  # the big one\n'); L.set_enabled(tmp_path, False)
    assert toml.read_text() == '# mine\nlearning = false\n\n# about the models\n[jobs]\nturn = "x"  # the big one\n'

def test_legacy_settings_move(tmp_path, toml):
    old = json.dumps({'editor': {'tabSize': 2}, 'learning': 'off'}); (tmp_path/'settings.json').write_text(old)
    assert L.enabled(tmp_path) is False and 'learning = false' in toml.read_text() and (tmp_path/'settings.json').read_text() == old

def test_config_beats_legacy(tmp_path, toml):
    toml.write_text('learning = true\n'); (tmp_path/'settings.json').write_text('{"learning": "off"}'); assert L.enabled(tmp_path) is True and toml.read_text() == 'learning = true\n'

def test_invalid_toml_is_never_rewritten(tmp_path, toml):
    toml.write_text('learning = [')
    with pytest.raises(ValueError, match='not valid TOML'): L.set_enabled(tmp_path, True)
    assert 'not valid TOML' in L.learned_command(L.learned_folder(tmp_path), 'on') and toml.read_text() == 'learning = ['

def test_learned_folder(hermetic, tmp_path): assert L.learned_folder(tmp_path) == tmp_path/'learned' and L.learned_folder() == hermetic/'.config/ramabana/learned'

# -- the shell
STUB = 'import sys\nfrom ramabana.learned import learned_cli\nif __name__ == "__main__": sys.exit(learned_cli())\n'   # what an installer writes for a console script
def cli(*a):
    s = Path(os.environ['HOME'])/'ramabana-learned'; s.write_text(STUB)
    return subprocess.run([sys.executable, str(s), *a], capture_output=True, text=True)
def test_shell_off(tmp_path, toml):
    r = cli('off'); assert 'learning is off' in r.stdout and L.enabled(tmp_path) is False, r.stderr
def test_shell_lists_by_default(f): propose(f, {'AGENTS.md': 'x\n'}, A); r = cli('--cfg', str(f.parent)); assert A in r.stdout, r.stderr
def test_shell_accepts(f): propose(f, {'AGENTS.md': 'x\n'}, A); r = cli('accept', A, '--cfg', str(f.parent)); assert f'accepted {A}' in r.stdout and L.pending(f) == [], r.stderr
