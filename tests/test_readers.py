"""Reading files and walking folders, on real files. A case from a bug report has the report's address as its id."""
import codecs
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from ramabana.core import AgentError
from ramabana.files import ReadError, binary_kind, name_key, read_bytes
from ramabana.ignore import Rules, ignored
from ramabana.markup import read_html
from ramabana.readers import read_file
from ramabana.walk import walk_folder

def report(link, *values): return pytest.param(*values, id=link)

def grow(root, tree):
    "Files, links (`-> target`) and folders (None) under `root`."
    for name, content in tree.items():
        path = root/name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None: path.mkdir()
        elif isinstance(content, bytes): path.write_bytes(content)
        elif content.startswith('-> '): path.symlink_to(content[3:])
        else: path.write_text(content)
    return root

def paths(walk): return [file.path for file in walk.files]

def why(path, **kwargs):
    with pytest.raises(ReadError) as e: read_file(path, **kwargs)
    return e.value.reason

# ---- the border of a folder -------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('tree', [
    report('https://github.com/aovestdipaperino/tokensave/pull/328', {'dosdevices/z:': '-> /'}),
    report('https://github.com/tobi/qmd/blob/main/CHANGELOG.md', {'notes/evil.md': '-> /etc/passwd'}),
    {'up.md': '-> ../outside.md'}, {'up': '-> ../'}, {'a/b/far': '-> ../../..'}, {'twice': '-> hop', 'hop': '-> ../outside.md'}, {'odd\nname': '-> /etc'}, {'etc.py': '-> /etc/'}])
def test_nothing_outside_the_root_is_read(tmp_path, tree):
    (tmp_path/'outside.md').write_text('secret')
    root = grow(tmp_path/'root', {'in.md': 'inside', **tree})
    walk = walk_folder(root)
    assert paths(walk) == ['in.md']
    assert sorted(path for path, _ in walk.skipped) == sorted(map(name_key, tree))
    assert all(reason.startswith('outside the root') for _, reason in walk.skipped)
    for name in tree: assert why(root/name, root=root) in ('outside the root', 'not a file')

@pytest.mark.parametrize('pattern', [report('https://github.com/tobi/qmd/blob/main/CHANGELOG.md', '../**/*.md'), '..', 'a/../../b.md', '!../x', '/../x', 'a/..'])
def test_a_pattern_that_leaves_the_root_is_refused(tmp_path, pattern):
    with pytest.raises(ValueError, match='leaves the folder'): walk_folder(tmp_path, [pattern])

@pytest.mark.parametrize('tree', [{'loop': '-> .'}, {'a/loop': '-> ..'}, {'self': '-> self'}, {'x': '-> y', 'y': '-> x'}, {'a/b': '-> ../c', 'c/d': '-> ../a'}])
def test_links_in_a_circle_end(tmp_path, tree):
    root = grow(tmp_path/'root', {'in.md': 'inside', **tree})
    walk = walk_folder(root)
    assert paths(walk) == ['in.md']
    assert walk.left_out['link'] + len(walk.skipped) == len(tree)

def test_a_link_inside_is_counted_and_its_target_read_once(tmp_path):
    root = grow(tmp_path/'root', {'in.md': 'inside', 'again.md': '-> in.md', 'folder': '-> sub', 'sub/x.md': 'x'})
    walk = walk_folder(root)
    assert paths(walk) == ['in.md', 'sub/x.md'] and walk.left_out == {'link': 2} and not walk.skipped

def test_a_broken_link_is_told(tmp_path):
    walk = walk_folder(grow(tmp_path, {'broken.md': '-> nowhere.md'}))
    assert walk.skipped[0].path == 'broken.md' and 'broken link' in walk.skipped[0].reason

def test_the_root_may_be_a_link(tmp_path):
    grow(tmp_path, {'real/a.md': 'a', 'link': '-> real'})
    assert paths(walk_folder(tmp_path/'link')) == ['a.md']

def test_a_folder_that_became_a_link_is_not_entered(tmp_path, monkeypatch):
    root = grow(tmp_path/'root', {'sub/a.md': 'a'})
    (tmp_path/'outside').mkdir()
    (tmp_path/'outside'/'secret.md').write_text('secret')
    scandir = os.scandir
    def swap(path):
        found = scandir(path)
        entries = list(found)
        if not (root/'sub').is_symlink() and any(entry.name == 'sub' for entry in entries):
            for entry in entries: entry.is_dir(follow_symlinks=False)
            shutil.move(root/'sub', tmp_path/'moved')
            (root/'sub').symlink_to(tmp_path/'outside')
        class Found(list):
            def __enter__(self): return self
            def __exit__(self, *_): found.close()
        return Found(entries)
    monkeypatch.setattr(os, 'scandir', swap)
    walk = walk_folder(root)
    assert paths(walk) == [] and walk.skipped[0].path == 'sub'

def test_a_file_that_became_a_link_is_not_read(tmp_path):
    root = grow(tmp_path/'root', {'a.md': 'a'})
    file, = walk_folder(root).files
    (tmp_path/'secret').write_text('secret')
    (root/'a.md').unlink()
    (root/'a.md').symlink_to(tmp_path/'secret')
    assert why(file.absolute, root=root) == 'outside the root'

# ---- rules ------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('tree, found', [
    report('https://github.com/jgravelle/jcodemunch-mcp/issues/73', {'core/.gitignore': '/deps/', 'core/deps/x.py': '', 'core/lib/deps/y.py': ''}, ['core/lib/deps/y.py']),
    ({'.gitignore': '*.md\n!keep.md', 'a.md': '', 'keep.md': '', 'd/keep.md': ''}, ['d/keep.md', 'keep.md']),
    ({'.gitignore': 'out/\n!out/keep.md', 'out/keep.md': '', 'out.md': ''}, ['out.md']),
    ({'.gitignore': 'out/*\n!out/keep.md', 'out/keep.md': '', 'out/x.md': ''}, ['out/keep.md']),
    ({'.gitignore': '**/logs/**', 'logs/a': '', 'x/logs/b/c': '', 'x/log': ''}, ['x/log']),
    ({'.gitignore': 'a/**/z.md', 'a/z.md': '', 'a/b/c/z.md': '', 'b/z.md': ''}, ['b/z.md']),
    ({'.gitignore': 'docs/*.md', 'docs/a.md': '', 'docs/x/a.md': '', 'x/docs/a.md': ''}, ['docs/x/a.md', 'x/docs/a.md']),
    ({'.gitignore': '*.md', 'sub/.gitignore': '!*.md', 'a.md': '', 'sub/a.md': ''}, ['sub/a.md']),
    ({'.gitignore': '*\n!*/\n!*.md', 'a.txt': '', 'b.md': '', 'c/d.md': '', 'c/e.txt': ''}, ['b.md', 'c/d.md']),
    ({'.gitignore': b'\xef\xbb\xbfa.md\r\nb.md \r\n', 'a.md': '', 'b.md': '', 'c.md': ''}, ['c.md']),
    ({'.gitignore': b'caf\xe9.md\n', 'c.md': ''}, ['c.md']),
    ({'.gitignore': '[\n\\\n\x00\nb.md', 'b.md': '', 'c.md': ''}, ['c.md']),
    ({'.git/info/exclude': 'secret.md', '.git/HEAD': '', 'secret.md': '', 'a.md': '', 'sub/secret.md': ''}, ['a.md']),
    ({'.git/info/exclude': '*.md', '.git/HEAD': '', '.gitignore': '!a.md', 'a.md': '', 'b.md': ''}, ['a.md']),
    ({'nested/.git/info/exclude': 'x.md', 'nested/x.md': '', 'x.md': ''}, ['x.md']),
    ({'Build/a.md': '', 'build': 'a file', 'dist/b.md': '', 'env/pyvenv.cfg': '', 'env/c.md': ''}, ['Build/a.md', 'build'])], ids=str)
def test_rules_are_read_as_git_reads_them(tmp_path, tree, found):
    assert paths(walk_folder(grow(tmp_path, tree))) == found

def test_rules_above_the_root_hold_but_not_for_the_root_itself(tmp_path):
    grow(tmp_path, {'.git/HEAD': '', '.gitignore': 'notes/\n*.log\n/notes/sub/x.md\n', 'notes/a.md': '', 'notes/b.log': '', 'notes/sub/x.md': '', 'notes/x.md': ''})
    assert paths(walk_folder(tmp_path)) == []
    assert paths(walk_folder(tmp_path/'notes')) == ['a.md', 'x.md']
    assert paths(walk_folder(tmp_path/'notes'/'sub')) == []

def test_rules_above_a_root_outside_of_a_repository_do_not_hold(tmp_path):
    grow(tmp_path, {'.gitignore': '*.md', 'notes/a.md': ''})
    assert paths(walk_folder(tmp_path/'notes')) == ['a.md']

def test_a_rule_file_that_is_a_pipe_or_a_link_does_no_harm(tmp_path):
    (tmp_path/'outside').write_text('*.md')
    root = grow(tmp_path/'root', {'a.md': '', 'sub/.gitignore': f'-> {tmp_path}/outside', 'sub/b.md': ''})
    os.mkfifo(root/'.gitignore')
    walk = walk_folder(root)
    assert paths(walk) == ['a.md', 'sub/b.md'] and walk.skipped[0].path == '.gitignore'

NAMES = ['a', 'b', 'foo', 'bar.md', 'x.txt', 'foo.md', 'build2', 'a b', '[x]', '!z', '#h']
PATTERNS = r'''a a/ /a *.md !*.md foo/ !foo/ /foo/bar.md **/foo foo/** a/**/b * !*/ !a b* ? [ab] [!ab] foo/* !foo/bar.md */b /* !/a ** **/ a/b/ \!z \#h #c a\ b foo\  [ [x] \[x\]
    [[:alpha:]] *.m? **/a/** a**b a** /**/b */ foo/**/ \ x.txt\ [a- build2/ !build2/x.txt /foo/*/a [^a] []-]x a/* ***/b *o*o*'''.split()

def random_tree(folder, rng, depth=0):
    for name in rng.sample(NAMES, rng.randint(2, 5)):
        if depth < 3 and rng.random() < .55 and '.' not in name:
            (folder/name).mkdir()
            random_tree(folder/name, rng, depth + 1)
        else: (folder/name).write_text('')
    if not depth or rng.random() < .25: (folder/'.gitignore').write_text('\n'.join(rng.choices(PATTERNS, k=rng.randint(1, 4))) + '\n')

@pytest.mark.skipif(not shutil.which('git'), reason='compares with git')
@pytest.mark.parametrize('seed', range(20))
def test_random_trees_are_read_as_by_git(tmp_path, seed):
    rng = random.Random(seed)
    random_tree(tmp_path, rng)
    (tmp_path/'x.md').write_text('')
    subprocess.run(['git', 'init', '-q', tmp_path], check=True)
    (tmp_path/'.git'/'info'/'exclude').write_text(rng.choice(PATTERNS) + '\n')
    listed = subprocess.run(['git', '-C', tmp_path, 'ls-files', '-zo', '--exclude-per-directory=.gitignore', '--exclude-from=.git/info/exclude'], capture_output=True, check=True).stdout
    expected = sorted(name for name in listed.decode().split('\0') if name and not name.endswith('.gitignore'))
    assert sorted(paths(walk_folder(tmp_path))) == expected

def test_a_hostile_pattern_is_quick():
    rules = Rules(['*a' * 60 + 'b', '**/' * 20 + 'x', '*' * 500 + 'y', '[' * 500])
    began = time.process_time()
    for path in ('a' * 250, '/'.join('a' * 40)): assert not ignored(path, False, [rules])
    assert time.process_time() - began < 5

# ---- names ------------------------------------------------------------------------------------------------------------------

def case_sensitive(folder):
    (folder/'Case').touch()
    return not (folder/'case').exists()

@pytest.mark.parametrize('names', [report('https://github.com/tobi/qmd/issues/801', ['README.md', 'readme.md']), ['a/X.md', 'A/x.md'], ['STRASSE.md', 'straße.md', 'Straße.md']], ids=str)
def test_names_that_differ_in_case_stay_apart(tmp_path, names):
    if not case_sensitive(tmp_path): pytest.skip('the disk folds case')
    (tmp_path/'Case').unlink()
    walk = walk_folder(grow(tmp_path, dict.fromkeys(names, 'text')))
    files, doubles = walk.by_key()
    assert sorted(paths(walk)) == sorted(names) and len(files) == len(names) and not doubles

@pytest.mark.parametrize('names, lookup', [
    report('https://github.com/oflisback/obsidian-bridge.nvim/pull/43', ['u\u0308ber.md', '\u00fcber.md'], '\u00fcber.md'),
    (['e\u0301/a.md', '\u00e9/a.md'], '\u00e9/a.md'), (['\u1112\u1161\u11ab.md', '\ud55c.md'], '\ud55c.md'), (['A\u030a.md', '\u00c5.md', '\u212b.md'], '\u00c5.md')], ids=ascii)
def test_one_key_for_names_that_differ_in_normal_form(tmp_path, names, lookup):
    walk = walk_folder(grow(tmp_path, {name: str(i) for i, name in enumerate(names)}))
    if len(walk.files) < len(names): pytest.skip('the disk normalises names')
    root = walk.root
    assert {name_key(os.path.join(root, name)) for name in names} == {os.path.join(root, lookup)}
    files, doubles = walk.by_key()
    assert list(files) == [os.path.join(root, lookup)] and len(doubles) == len(names) - 1
    for file in walk.files: assert read_file(file.absolute, root=root).text in '012'

@pytest.mark.skipif(sys.platform != 'linux', reason='other systems forbid such names')
@pytest.mark.parametrize('name', [b'two\nlines.md', b'caf\xe9.md', b'\xff\xfe.md', b'tab\there.md', b'esc\x1b[31m.md', b' space .md', b'-rf.md', b'*.md', b'a' * 252 + b'.md', '数据.md'.encode(), b'\\x0a.md'])
def test_odd_names_are_walked_read_and_can_be_printed(tmp_path, name):
    (Path(os.fsdecode(os.fsencode(tmp_path) + b'/' + name))).write_text('text')
    file, = walk_folder(tmp_path).files
    assert os.fsencode(file.path) == name
    assert file.key.isprintable() and file.key.encode('utf-8')
    reading = read_file(file.absolute, root=tmp_path)
    assert reading.text == 'text' and reading.title.isprintable()

def test_order_is_the_same_every_time(tmp_path):
    names = ['b.md', 'a.md', 'a/z.md', 'a-b.md', 'Z.md', 'é.md', 'a/b/c.md']
    grow(tmp_path, dict.fromkeys(names, ''))
    assert paths(walk_folder(tmp_path)) == sorted(names, key=os.fsencode)

# ---- what cannot be read ----------------------------------------------------------------------------------------------------

@pytest.fixture
def locked():
    "A folder that is walked by somebody who may not read all of it."
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    user = os.geteuid() == 0
    yield folder, lambda: os.seteuid(65534) if user else None
    if user: os.seteuid(0)
    for path in folder.rglob('*'):
        if not path.is_symlink(): path.chmod(0o755)
    shutil.rmtree(folder)

@pytest.mark.skipif(not hasattr(os, 'seteuid'), reason='needs modes of files')
@pytest.mark.parametrize('shut', [report('https://github.com/tobi/qmd/issues/460', 'shut.md'), 'shut', 'a/shut.txt', 'a/shut'])
def test_what_is_shut_is_told_and_not_taken_for_gone(locked, shut):
    root, become_other = locked
    inner = shut if '.' in shut else f'{shut}/inner.md'
    grow(root, {'open.md': 'open', inner: 'text'})
    known = [file.key for file in walk_folder(root).files]
    (root/shut).chmod(0)
    become_other()
    walk = walk_folder(root)
    assert paths(walk) == ['open.md']
    assert walk.skipped == [(shut, 'unreadable: Permission denied')]
    assert walk.gone(known) == {}
    assert why(root/inner) == 'unreadable'

@pytest.mark.parametrize('make, what', [(os.mkfifo, 'pipe'), (lambda path: socket.socket(socket.AF_UNIX).bind(str(path)), 'socket')])
def test_what_is_no_file_is_never_opened(tmp_path, make, what, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make('x.md')
    walk = walk_folder('.')
    assert walk.files == [] and walk.skipped == [('x.md', f'not a file: it is a {what}')]
    assert why('x.md') == 'not a file'
    assert why('/dev/zero') == 'not a file'

def test_a_file_may_vanish_or_grow(tmp_path):
    root = grow(tmp_path, {'a.md': 'a', 'b.md': 'b' * 100})
    walk = walk_folder(root)
    (root/'a.md').unlink()
    assert why(walk.files[0].absolute, root=root) == 'gone'
    with pytest.raises(ReadError, match='too big'): read_bytes(root/'b.md', limit=99)

def test_files_that_change_during_a_walk(tmp_path):
    root = grow(tmp_path/'root', {f'{i}.md': 'x' for i in range(300)})
    stop = threading.Event()
    def churn():
        n = 0
        while not stop.is_set():
            n = (n + 1) % 300
            (root/f'{n}.md').unlink(missing_ok=True)
            (root/f'{n}.md').write_text('y')
    worker = threading.Thread(target=churn)
    worker.start()
    try:
        for _ in range(4):
            for file in walk_folder(root).files:
                try: assert read_file(file.absolute, root=root).text in 'xy'
                except ReadError as e: assert e.reason in ('gone', 'empty')
    finally:
        stop.set()
        worker.join()

@pytest.mark.parametrize('change', [report('https://github.com/basicmachines-co/basic-memory/issues/1256', 'a note is filed'), 'a file is written', 'a file is replaced'])
def test_what_is_added_while_a_scan_runs_survives_it(tmp_path, change):
    root = grow(tmp_path/'root', {'old.md': 'old', 'deleted.md': 'x'})
    known = [file.key for file in walk_folder(root).files]
    (root/'deleted.md').unlink()
    walk = walk_folder(root)
    if change == 'a note is filed': known.append('note:ceres')
    elif change == 'a file is written': known.append(grow(root, {'new.md': 'new'}) and str(Path(walk.root)/'new.md'))
    else: walk.files.clear()   # an editor renamed its copy over old.md while the folder was listed
    assert walk.gone(known) == {str(Path(walk.root)/'deleted.md'): 'removed'}

def test_gone_knows_why(tmp_path):
    root = grow(tmp_path/'root', {'a.md': 'a', 'b.md': 'b', 'c.md': 'c'})
    known = [file.key for file in walk_folder(root).files] + [str(tmp_path.resolve()/'rooted.md'), '/etc/passwd', 'https://example.org/']
    (root/'a.md').unlink()
    (root/'.gitignore').write_text('b.md')
    walk = walk_folder(root)
    later = type(walk)(walk.root, walk.started + 60, walk.files)
    assert {Path(key).name: reason for key, reason in later.gone(known).items()} == {'a.md': 'removed', 'b.md': 'left out'}

def test_a_root_that_is_gone_is_an_error_and_not_an_empty_folder(tmp_path):
    for root in (tmp_path/'none', tmp_path/'none'/'below', 'nul\0'):
        with pytest.raises(AgentError, match='no folder'): walk_folder(root)

def test_many_files_are_walked_quickly(tmp_path):
    for d in range(50):
        (tmp_path/f'd{d}').mkdir()
        for i in range(40): (tmp_path/f'd{d}'/f'{i}.md').touch()
    (tmp_path/'.gitignore').write_text('\n'.join(f'*.x{i}' for i in range(100)))
    began = time.process_time()
    assert len(walk_folder(tmp_path).files) == 2000
    assert time.process_time() - began < 1   # 20,000 take about 0.35 s

def test_a_deep_folder_is_no_danger(tmp_path):
    path = tmp_path
    for _ in range(400):
        path = path/'d'
        path.mkdir()
    (path/'deep.md').write_text('x')
    assert len(walk_folder(tmp_path).files) == 1

# ---- bytes and text ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('data, text', [
    report('https://github.com/dnotitia/akb/issues/527', b'hello\x00needle', 'helloneedle'),
    (b'\x00needle', 'needle'), (b'needle\x00', 'needle'), (b'a\x00b', 'ab'), (b'line\n' * 50 + b'\x00' * 4096, 'line\n' * 50), (b'\x00' * 100 + b'text', 'text'),
    ('Grüße\x00'.encode(), 'Grüße'), (b'log\n' + b'\x00' * 300 + b'more\n' * 200, 'log\n' + 'more\n' * 200)], ids=lambda v: repr(v)[:20])
def test_a_nul_in_a_text_is_dropped_and_told(tmp_path, data, text):
    (tmp_path/'x.txt').write_bytes(data)
    reading = read_file(tmp_path/'x.txt')
    assert reading.text == text and any('NUL dropped' in note for note in reading.notes)

@pytest.mark.parametrize('text', ['a\r\nb\r\n', 'a\rb\r', 'a\nb\n', 'a\r\nb\n'])
@pytest.mark.parametrize('name', [report('https://github.com/NousResearch/hermes-agent/pull/59124', 'x.md'), 'x.txt', 'x.py', 'x.csv', 'x.rst'])
def test_line_ends_are_one_text(text, name):
    assert read_file(name, text.encode()).text == 'a\nb\n'
    assert read_file(name, text.encode('utf-16')).text == 'a\nb\n'

@pytest.mark.parametrize('name, data', [
    report('https://github.com/dgtlmoon/changedetection.io/issues/4293', 'x.json', b'{"a":"\\ud800"}'),
    ('x.ipynb', json.dumps({'cells': [{'cell_type': 'markdown', 'source': 'a \ud800'}]}).encode()), ('x.md', b'a \xed\xa0\x80'), ('x.html', b'<p>a &#xd800;'), ('x.md', b'---\ntitle: "\\ud800"\n---\nx')], ids=repr)
def test_half_a_surrogate_pair_does_no_harm(name, data):
    reading = read_file(name, data)
    for part in (reading.text, reading.title, json.dumps(reading.meta, ensure_ascii=False)): part.encode('utf-8')

LETTERS = {'windows-1252': 'Grüße aus Köln, “schön” und naïve – ça va?', 'cp1250': 'Příliš žluťoučký kůň úpěl ďábelské ódy', 'cp1251': 'Это обычный русский текст про погоду и урожай.', 'koi8-r': 'Это обычный русский текст про погоду. ' * 3,
    'shift_jis': 'これは日本語の文章です。データベースを検索する。', 'euc-jp': 'これは日本語の文章です。', 'gb18030': '数据库检索系统的设计与实现', 'big5': '資料庫檢索系統的設計與實現', 'euc-kr': '데이터베이스 검색 시스템의 설계와 구현', 'cp1253': 'Καλημέρα κόσμε, τι κάνετε σήμερα'}

@pytest.mark.parametrize('codec', LETTERS)
def test_an_encoding_is_guessed_and_told(codec):
    reading = read_file('x.txt', LETTERS[codec].encode(codec))
    assert reading.text == LETTERS[codec]
    assert 'guessed' in reading.notes[0]

@pytest.mark.parametrize('mark, codec', [(codecs.BOM_UTF8, 'utf-8'), (codecs.BOM_UTF16_LE, 'utf-16-le'), (codecs.BOM_UTF16_BE, 'utf-16-be'), (codecs.BOM_UTF32_LE, 'utf-32-le'), (codecs.BOM_UTF32_BE, 'utf-32-be')])
def test_a_byte_order_mark_decides(mark, codec):
    for name in ('x.md', 'x.txt', 'x.csv'): assert read_file(name, mark + 'Grüße, 数据 🎁'.encode(codec)).text == 'Grüße, 数据 🎁'

def test_odd_bytes_late_in_a_file_are_seen():
    text = 'plain words\n' * 10_000
    reading = read_file('x.txt', (text + 'Grüße\n').encode('cp1252'))
    assert reading.text == text + 'Grüße\n'
    reading = read_file('x.txt', ('Grüße, ' * 10_000).encode() + b'\xff')
    assert reading.text.endswith(', \ufffd') and reading.notes == ('1 undecodable byte replaced',)

def test_no_bytes_raise_anything_but_read_errors():
    rng = random.Random(1)
    names = ['x.md', 'x.txt', 'x.py', 'x.html', 'x.ipynb', 'x.json', 'x.pdf', 'x.rst', 'x']
    starts = [b'', b'%PDF-1.4\n', b'<html>', b'{"cells":[', b'---\n', b'\xff\xfe', b'\xfe\xff', b'\xff\xfe\0\0', b'#!/', b'\xef\xbb\xbf']
    for _ in range(400):
        data = rng.choice(starts) + (rng.randbytes(rng.randint(0, 80)) if rng.random() < .5 else bytes(rng.choices(b'ab \n\xe9\xfc\x00<>-:[]{}"', k=40)))
        try: reading = read_file(rng.choice(names), data)
        except ReadError as e: assert e.reason in ('binary', 'broken', 'empty', 'no text', 'encrypted')
        else: assert reading.text.strip() and '\0' not in reading.text and reading.text.encode('utf-8')

@pytest.mark.parametrize('start', [b'\x89PNG\r\n', b'PK\x03\x04', b'\x7fELF', b'\x1f\x8b\x08', b'SQLite format 3\x00', b'\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1', random.Random(2).randbytes(5000), b'#!/bin/sh\n' * 9000 + random.Random(3).randbytes(90_000), bytes(5000)], ids=lambda v: repr(v)[:20])
def test_binary_is_refused_whatever_it_is_called(start):
    for name in ('x.md', 'x.txt', 'x', 'x.py', 'x.html'):
        with pytest.raises(ReadError) as e: read_file(name, start)
        assert e.value.reason == 'binary'

@pytest.mark.parametrize('text', ['MZ is a name', 'ID3 tags', 'BZh is no word', '\x1b[31mred\x1b[0m', 'page\x0cbreak', 'a' * 100_000, '\x7f', 'é' * 40_000])
def test_odd_text_is_not_binary(text): assert not binary_kind(text.encode())

def test_empty_and_too_big(tmp_path, monkeypatch):
    for data in (b'', b' \n\t', '\ufeff'.encode(), '\ufeff \n'.encode('utf-16-le')): assert why('x.md', data=data) == 'empty'
    monkeypatch.setattr('ramabana.readers.MAX_BYTES', 10)
    (tmp_path/'x.md').write_text('x' * 11)
    assert why(tmp_path/'x.md') == why('x.md', data=b'x' * 11) == 'too big'

# ---- formats ----------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('text, title', [('# Head\n', 'Head'), ('---\ntitle: Site Roadmap\n---\n# Other', 'Site Roadmap'), ('---\ntitle: "A: b"\n---\n', 'A: b'), ('---\ntitle: A: b\n---\nx', 'A: b'), ("---\ntitle: 'it''s'\n---\nx", "it's"),
    ('---\ntags: [a]\n---\n# Head', 'Head'), ('---\ntitle:\n---\n# Head', 'Head'), ('text\n\nHead\n====\n', 'Head'), ('```\n# no\n```\n', 'site-roadmap'), ('text', 'site-roadmap'), ('---\r\ntitle: CR\r\n---\r\n', 'CR'),
    ('\ufeff---\ntitle: BOM\n---\n', 'BOM'), ('---\n---\n# Head', 'Head'), ('---\ntitle: [a, b]\n---\n', 'a b')])
def test_title_of_markdown(text, title): assert read_file('/notes/site-roadmap.md', text.encode()).title == title

@pytest.mark.parametrize('name, data, title, kind', [('a.rst', b'====\nHead\n====\n', 'Head', 'rst'), ('b.txt', b'words', 'b', 'text'), ('LICENSE', b'words', 'LICENSE', 'text'), ('c.html', b'<title>T</title><p>x', 'T', 'html'),
    ('c.htm', b'<p>x', 'c', 'html'), ('d/e.py', b'x = 1', 'e.py', 'code'), ('f.csv', b'a,b', 'f.csv', 'data'), ('g.toml', b'a = 1', 'g.toml', 'data'), ('.md', b'x', '.md', 'markdown'), ('h.yaml', b'a: 1', 'h.yaml', 'data'), ('Makefile', b'all:', 'Makefile', 'code')])
def test_titles_and_kinds(name, data, title, kind):
    reading = read_file(name, data)
    assert (reading.title, reading.kind) == (title, kind)

@pytest.mark.parametrize('name', ['cv.docx', 'a.odt', 'b.EPUB', 'c.xlsx', 'd.rtf'])
def test_word_processors_are_refused_in_clear_words(name):
    with pytest.raises(ReadError, match='unsupported: save it as PDF, HTML, Markdown or text'): read_file(name, b'PK\x03\x04')

def make_pdf(pages):
    "A PDF with some lines a page."
    count = len(pages)
    objects = ['<< /Type /Catalog /Pages 2 0 R >>', f'<< /Type /Pages /Kids [{" ".join(f"{4 + 2 * i} 0 R" for i in range(count))}] /Count {count} >>', '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>']
    for i, lines in enumerate(pages):
        stream = 'BT /F1 12 Tf 72 720 Td 16 TL ' + ' '.join(f'({line}) Tj T*' for line in lines) + ' ET'
        objects += [f'<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * i} 0 R /Resources << /Font << /F1 3 0 R >> >> >>', f'<< /Length {len(stream)} >>\nstream\n{stream}\nendstream']
    return ('%PDF-1.4\n' + ''.join(f'{i} 0 obj\n{text}\nendobj\n' for i, text in enumerate(objects, 1)) + f'trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n0\n%%EOF\n').encode()

def test_pages_of_a_pdf(tmp_path):
    lines = [['Annual report', 'Growth was 87% in 2021, a docu-', 'mented fact about *.patch files.'], [], ['Costs fell.']]
    (tmp_path/'report.pdf').write_bytes(make_pdf(lines))
    reading = read_file(tmp_path/'report.pdf')
    assert [number for number, _ in reading.pages] == [1, 2, 3]
    starts = [start for _, start in reading.pages] + [len(reading.text)]
    assert [reading.text[a:b].split('\n')[0] for a, b in pairwise(starts)] == ['Annual report', '', 'Costs fell.']
    assert 'documented fact about *.patch' in reading.text and reading.notes == ('pages without text: 2',)
    assert read_file('mail', (tmp_path/'report.pdf').read_bytes()).kind == 'pdf'

@pytest.mark.parametrize('reason, data', [('no text', make_pdf([[], []])), ('broken', b'%PDF-1.4\n'), ('broken', b'not one'), ('broken', make_pdf([['a']])[:150]), ('broken', b'%PDF-1.7\n' + random.Random(4).randbytes(3000)), ('empty', b'')], ids=lambda v: str(v)[:12])
def test_a_pdf_without_text_says_why(reason, data, capfd):
    assert why('x.pdf', data=data) == reason
    assert capfd.readouterr() == ('', '')

def test_an_encrypted_pdf_says_so(capfd):
    from pdf_oxide import PdfDocument
    plain = PdfDocument.from_bytes(make_pdf([['needle']]))
    assert why('x.pdf', data=bytes(plain.to_bytes_encrypted('user' + 'word', 'owner'))) == 'encrypted'
    assert read_file('x.pdf', bytes(plain.to_bytes_encrypted('', 'owner'))).text == 'needle'
    assert capfd.readouterr() == ('', '')

def test_a_notebook_keeps_text_and_code_and_leaves_pictures():
    cells = [dict(cell_type='markdown', source=['# Prices\n', 'a']), dict(cell_type='code', source='x = 1\nx', outputs=[{'output_type': 'execute_result', 'data': {'text/plain': '1', 'image/png': 'iVBOR' * 999}}, {'output_type': 'stream', 'text': ['line\n'] * 999},
        {'output_type': 'error', 'traceback': ['t']}, {'output_type': 'display_data', 'data': {'text/plain': '<Figure size>'}}]), dict(cell_type='raw', source='raw'), dict(cell_type='code', source='```'), {}, 5]
    reading = read_file('n.ipynb', json.dumps(dict(cells=cells, metadata=dict(language_info=dict(name='julia')))).encode())
    assert reading.text == '# Prices\na\n\n```julia\nx = 1\nx\n```\n\n```\n1\n```\n\nraw\n\n````julia\n```\n````'
    assert (reading.title, reading.kind, reading.meta) == ('Prices', 'notebook', {'language': 'julia'})

@pytest.mark.parametrize('html, has, lacks', [
    report('https://github.com/readable-app/readable/issues/12', f'<div id=cookie-consent>{"long " * 20}</div><main><p>Real text.</p></main>', 'Real text.', 'long'),
    (f'<div class="gdpr banner">{"long " * 20}</div><p>Real text.', 'Real text.', 'long'), ('<header><h1>Head</h1></header><p>x', '# Head', 'zz'), ('<script>var x</script><style>p{}</style>Real text.', 'Real text.', 'var'),
    ('<main></main><p>Real text.', 'Real text.', 'zz'), ('<article>One.</article><article>Two.</article>', 'Two.', 'zz'), ('<form><p>Real text.</p><button>Send</button></form>', 'Real text.', 'Send'), ('<p>a<b>b</b>c &lt;tag&gt;', 'abc <tag>', 'zz')], ids=repr)
def test_the_text_of_a_page(html, has, lacks):
    text = read_html(html).text
    assert has in text and lacks not in text

@pytest.mark.parametrize('whole', [report('https://github.com/jina-ai/reader/issues/19', True), False])
def test_a_page_can_be_had_whole(whole):
    text = read_html('<nav>Menu</nav><section><h2>One</h2>a</section><section><h2>Two</h2>b</section><footer>Foot</footer>', whole=whole).text
    assert '## One\n\na\n\n## Two\n\nb' in text and ('Menu' in text) == ('Foot' in text) == whole

@pytest.mark.parametrize('data', [report('https://github.com/dgtlmoon/changedetection.io/pull/3954', b'<meta charset=windows-1252><p>Gr\xfc\xdfe'), b'<p>Gr\xfc\xdfe', b'<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-1"><p>Gr\xfc\xdfe', '<meta charset=iso-8859-1><p>Grüße'.encode()], ids=repr)
def test_the_encoding_of_a_page(data): assert read_file('x.html', data).text == 'Grüße'

def test_a_hostile_page_is_no_danger():
    for html in ('<div>' * 20_000 + 'x', '<ul><li>' * 3_000 + 'x', '<table><tr><td>' * 2_000 + 'x', '<' * 50_000, '<b>' * 3_000 + 'x', '<p id=cookie>' * 3_000 + 'x', '&' * 50_000):
        began = time.process_time()
        read_html(html)
        assert time.process_time() - began < 5, html[:12]
