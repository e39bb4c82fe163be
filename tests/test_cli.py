"""The real command in its own process."""
import io
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

COMMAND = [sys.executable, '-m', 'ramabana.cli']

def ramabana(*words, db=None, stdin=None, **env):
    return subprocess.run([*COMMAND, *words, *(['--db', str(db)] if db else [])], input=stdin, capture_output=True, text=True, env=os.environ | env, timeout=120)

@pytest.fixture
def db(tmp_path): return tmp_path/'vault.db'

@pytest.fixture
def here(db, monkeypatch, capsys):
    "The command on the vault `db` within this process: quicker where the process itself is not what is tested."
    from ramabana.cli import run
    def call(*words, stdin=''):
        monkeypatch.setattr(sys, 'stdin', io.TextIOWrapper(io.BytesIO(stdin.encode())))
        status = run([*words, '--db', str(db)])
        return subprocess.CompletedProcess(words, status, *capsys.readouterr())
    return call

@pytest.fixture
def vault(db):
    "An empty vault at `db`."
    from ramabana import Vault
    Vault(db).close()

@pytest.fixture
def docs(tmp_path):
    "A folder of documents that say where the tram goes."
    (tmp_path/'docs').mkdir()
    for n in range(40): (tmp_path/'docs'/f'line {n}.md').write_text(f'# Line {n}\n\n## Stops\n' + f'The tram of line {n} stops at the river.\n' * 3, encoding='utf-8')
    return tmp_path/'docs'

def test_keep_find_read_forget(db, tmp_path):
    (tmp_path/'docs').mkdir()
    (tmp_path/'docs'/'über.md').write_text('# Über uns\n\n## Anfahrt\nMit der Straßenbahn 4.\n', encoding='utf-8')
    said = ramabana('add', str(tmp_path/'docs'), db=db)
    assert said.returncode == 0 and '1 added' in said.stdout, said.stderr
    assert '1 unchanged' in ramabana('add', str(tmp_path/'docs'), db=db).stdout
    hit = json.loads(ramabana('search', 'strassenbahn Straßenbahn', '--json', db=db).stdout)[0]
    assert hit['breadcrumb'] == 'Über uns › Anfahrt'
    assert 'Mit der Straßenbahn 4.' in ramabana('read', hit['node_id'], db=db).stdout
    assert 'Über uns' in ramabana('tree', db=db).stdout
    assert ramabana('forget', 'Über uns', db=db).returncode == 0 and ramabana('forget', 'Über uns', db=db).returncode == 1

def test_standard_input_and_the_default_vault(tmp_path):
    said = ramabana('add', '-', '--title', 'from a pipe', stdin='some words\n', RAMABANA_VAULT=str(tmp_path/'default.db'))
    assert said.returncode == 0 and str(tmp_path/'default.db') in said.stderr and 'from a pipe' in said.stdout

@pytest.mark.parametrize('words, status', [(['search', 'nothing', '--mode', 'text'], 1), (['search'], 2), (['nonsense'], 2), (['read', 'nope#1'], 1), (['note', '  '], 2), (['note'], 2),
    (['add'], 2), (['add', '/no/such/file'], 1), (['add', '.', '--title', 'x'], 2), (['add', __file__, '--prune'], 2), (['search', 'x', '--limit', 'many'], 2), (['search', 'x', '--limit', '-1'], 2),
    (['search', 'x', '--mode', 'magic'], 2), (['serch', 'x'], 2), (['search', '-x'], 2), (['search', '--', '-x'], 1), (['search', '""'], 1), (['forget', 'nope'], 1), (['tree'], 1),
    (['backup', '/proc/copy.db'], 1), (['info'], 0), (['doctor'], 0), (['--help'], 0), (['search', '--help'], 0), (['--version'], 0)])
def test_exit_status_and_one_line(db, words, status, vault, monkeypatch, capsys):
    from ramabana.cli import run
    monkeypatch.setenv('RAMABANA_VAULT', str(db))
    assert run(words) == status
    told = [line for line in capsys.readouterr().err.splitlines() if not line.startswith('vault: ')]
    assert len(told) == (1 if status else 0), told

@pytest.mark.parametrize('words, status', [(['search'], 2), (['search', 'nothing'], 1), (['--help'], 0)])
def test_the_exit_status_reaches_the_shell(db, words, status, vault):
    said = ramabana(*words, RAMABANA_VAULT=str(db))
    assert said.returncode == status and 'Traceback' not in said.stderr

def test_a_mistyped_path_makes_no_vault(tmp_path):
    for words in (['search', 'x'], ['read', 'x'], ['tree'], ['forget', 'x'], ['info'], ['doctor'], ['backup', str(tmp_path/'copy.db')]):
        said = ramabana(*words, db=tmp_path/'folder'/'typo.db')
        assert said.returncode == 1 and 'typo.db' in said.stderr and not said.stdout
    assert not list(tmp_path.iterdir())

def test_another_programs_file_is_left_alone(tmp_path):
    (tmp_path/'x.db').write_bytes(b'not a vault' * 50)
    said = ramabana('note', 'text', db=tmp_path/'x.db')
    assert said.returncode == 1 and 'x.db' in said.stderr and (tmp_path/'x.db').read_bytes() == b'not a vault' * 50

def test_doctor_and_backup(here, tmp_path):
    here('note', 'a note about rivers')
    assert here('doctor').stdout.strip() == 'all is well'
    assert json.loads(here('doctor', '--fix', '--json').stdout)['ok'] is True
    assert here('backup', str(tmp_path/'copy.db')).returncode == 0
    assert here('backup', str(tmp_path/'copy.db')).returncode == 1
    assert 'rivers' in ramabana('search', 'river', db=tmp_path/'copy.db').stdout

def test_what_a_folder_cannot_give_is_told(here, docs):
    (docs/'empty.md').write_text('')
    (docs/'gone.md').symlink_to(docs/'nowhere')
    (docs/'日本語 ü.md').write_text('# 電車\n\n川に止まる。\n', encoding='utf-8')
    try: (docs/os.fsdecode(b'odd\xff.md')).write_text('# Odd name\n\nStill read.\n')
    except OSError: pass   # a file system whose names are text
    said = here('add', str(docs))
    assert said.returncode == 0 and '2 skipped' in said.stdout and 'empty.md' in said.stdout and 'gone.md' in said.stdout, said
    assert '電車' in here('search', '電車', '--limit', '1').stdout
    (docs/'line 0.md').unlink()
    assert '--prune' in here('add', str(docs)).stdout
    assert '1 forgotten' in here('add', str(docs), '--prune').stdout

def test_several_files_and_one_that_is_not_there(here, docs):
    said = here('add', str(docs/'line 1.md'), str(docs/'line 2.md'), str(docs/'no.md'))
    assert said.returncode == 1 and '2 added' in said.stdout and 'no.md' in said.stdout + said.stderr
    assert '2 unchanged' in here('add', str(docs/'line 1.md'), str(docs/'line 2.md')).stdout

def test_a_title_source_and_kind_of_ones_own(here, docs):
    assert 'Tramway' in here('add', str(docs/'line 1.md'), '--title', 'Tramway').stdout
    assert str(docs/'line 1.md') in here('tree', 'tramway').stdout
    assert 'timetable' in here('add', str(docs/'line 2.md'), '--source', 'timetable', '--json').stdout
    assert here('add', '-', '--source', 'mail:1', '--kind', 'markdown', stdin='# Post\n\n## Stamps\nBlue.\n').returncode == 0
    assert json.loads(here('search', 'stamps', '--json', '--limit', '1').stdout)[0]['breadcrumb'] == 'Post › Stamps'

def test_search_shows_where_the_words_are(here):
    here('add', '-', '--title', 'long', stdin='Nothing here.\n' * 3 + 'The ferries cross at noon.\n' + 'Nothing there.\n' * 3)
    shown = here('search', 'when does the FERRY cross', '--mode', 'text', '--limit', '1').stdout
    assert '| The ferries cross at noon.' in shown and re.search(r'[0-9a-f]{12}#0 .* ago', shown)
    assert 'rank 1' in here('search', 'ferry', '--why').stdout

def test_read_names_the_neighbours(here, docs):
    here('add', str(docs/'line 1.md'))
    node = json.loads(here('search', 'stops', '--json', '--limit', '1').stdout)[0]['node_id']
    assert f'parent: {node.split("#")[0]}#0' in here('read', node).stdout

def test_json_alone_is_on_standard_output(here, docs):
    for words in (['add', str(docs)], ['note', 'x'], ['search', 'tram'], ['tree'], ['info'], ['doctor', '--fix'], ['forget', 'x']):
        json.loads(here(*words, '--json').stdout)

def test_a_reader_that_leaves_early(db, docs):
    ramabana('add', str(docs), db=db)
    for words in ('tree', 'search tram --limit 40 --json'):
        job = subprocess.Popen([*COMMAND, *words.split(), '--db', str(db)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        job.stdout.close()
        assert (job.stderr.read(), job.wait(60)) == (b'', 0)
        job.stderr.close()

def test_ctrl_c_ends_quietly(db):
    job = subprocess.Popen([*COMMAND, 'add', '-', '--db', str(db)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while not db.exists() and time.monotonic() < until: time.sleep(0.05)   # it waits for its standard input now
    job.send_signal(signal.SIGINT)
    assert (*job.communicate(timeout=60), job.returncode) == (b'', b'', 130)

def test_two_at_once(db, docs):
    jobs = [subprocess.Popen([*COMMAND, *words, '--db', str(db)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for words in (['add', str(docs)], ['add', str(docs)], ['note', 'at the same time'])]
    for job in jobs: assert (job.communicate(timeout=120)[1], job.returncode) == ('', 0)
    assert json.loads(ramabana('info', '--json', db=db).stdout)['docs'] == 41
    assert ramabana('doctor', db=db).returncode == 0

def on_terminal(*words, **env):
    "What the command writes when its standard output is a terminal."
    pty = pytest.importorskip('pty')
    ours, theirs = pty.openpty()
    job = subprocess.Popen([*COMMAND, *words], stdout=theirs, stderr=theirs, env=os.environ | {'TERM': 'xterm'} | env)
    os.close(theirs)
    said = b''
    try:
        while piece := os.read(ours, 65536): said += piece
    except OSError: pass   # Linux's way to say that the other end is closed
    os.close(ours)
    assert job.wait(60) == 0, said
    return said.decode()

def test_a_terminal_has_colour_a_pipe_has_not(db):
    ramabana('add', '-', '--title', 'odd', db=db, stdin='otters \x1b]0;gotcha\x07\n')
    assert '\x1b' in ramabana('search', 'otters', db=db).stdout.replace('\x1b[', ''), 'a pipe gets the text as it is'
    shown = on_terminal('search', 'otters', '--db', str(db))
    assert '\x1b[' in shown and '\x1b]' not in shown
    assert '\x1b' not in on_terminal('search', 'otters', '--db', str(db), NO_COLOR='1')

def test_a_terminal_has_a_progress_bar(db, docs):
    assert '100' in on_terminal('add', str(docs), '--db', str(db))
    assert '%' not in ramabana('add', str(docs), db=db).stderr

def test_shell_completion_is_installed(tmp_path):
    said = ramabana('--install-completion', HOME=str(tmp_path), SHELL='/bin/bash')
    assert said.returncode == 0 and [p for p in tmp_path.rglob('*') if p.is_file()], said

def test_a_given_title_outlives_changes_of_the_file(db, tmp_path):
    (tmp_path/'d').mkdir()
    (tmp_path/'d'/'boxes.md').write_text('# Boxes\nfruit\n')
    assert ramabana('add', str(tmp_path/'d'/'boxes.md'), '--title', 'Crates', db=db).returncode == 0
    for text in ('# Boxes\nfruit\n', '# Boxes\nfruit and tea\n'):
        (tmp_path/'d'/'boxes.md').write_text(text)
        assert ramabana('add', str(tmp_path/'d'), db=db).returncode == 0
        assert ramabana('tree', 'Crates', db=db).returncode == 0
    assert json.loads(ramabana('search', 'tea', '--mode', 'text', '--json', db=db).stdout)[0]['title'] == 'Crates'
    ramabana('add', str(tmp_path/'d'/'boxes.md'), '--title', 'Baskets', db=db)
    assert ramabana('tree', 'Baskets', db=db).returncode == 0 and ramabana('tree', 'Crates', db=db).returncode == 1

def test_a_hit_names_its_file(here, docs, monkeypatch):
    monkeypatch.setenv('HOME', str(docs.parent))
    here('add', str(docs/'line 1.md'))
    here('note', 'the tram is late')
    shown = here('search', 'tram').stdout
    assert ', ~/docs/line 1.md\n' in shown and 'note:' not in shown

def test_what_the_rules_leave_out_is_counted(here, docs):
    (docs/'photo.png').write_bytes(b'PNG')
    (docs/'.hidden.md').write_text('hidden')
    assert '1 binary by name, 1 hidden' in here('add', str(docs)).stdout
    assert json.loads(here('add', str(docs), '--json').stdout)[0]['left_out'] == dict(binary=1, hidden=1)

def test_errors_speak_the_language_of_the_shell(here, docs, tmp_path, capsys, monkeypatch):
    here('add', str(docs))
    copy = str(tmp_path/'copy.db')
    here('backup', copy)
    told = [here(*words).stderr for words in (['read', 'nope'], ['backup', copy], ['read'], ['forget'], ['add', '/no/such/file'])]
    for said, word in zip(told, ('`ramabana tree`', '--replace', ' ID ', ' REF ', 'no such file')): assert word in said, said
    from ramabana import pii_names, pii_words
    from ramabana.cli import run
    pii_names.model.cache_clear()
    monkeypatch.setattr(pii_words.resources, 'files', lambda package: tmp_path/'without a model')
    assert (run(['pii', '/no/such/file']), run(['pii', str(docs), '--names'])) == (1, 1)
    told += capsys.readouterr().err.splitlines()
    assert told[-2] == 'not looked at: /no/such/file: no such file' and '--names' in told[-1]
    assert not re.search('memory_|pii_ner|=True|--id|--ref|gone|Errno', ''.join(told)), told

def test_a_kind_that_is_not_there_is_told(here, docs):
    here('add', str(docs))
    said = here('search', 'tram', '--kind', 'md')
    assert said.returncode == 1 and "no document is of kind 'md': there are markdown" in said.stderr
    assert here('search', 'tram', '--limit', '0').returncode == 2
    assert 'markdown' in here('add', '-', '--kind', 'markdwn', stdin='# Post\n').stderr

def test_ctrl_c_in_a_folder_says_what_became_of_it(db, tmp_path):
    (tmp_path/'many').mkdir()
    for n in range(4000): (tmp_path/'many'/f'{n}.md').write_text(f'# Line {n}\n\n' + f'The tram {n} stops at the river, then at bridge {n}.\n' * 20)
    job = subprocess.Popen([*COMMAND, 'add', str(tmp_path/'many'), '--db', str(db)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    def held():
        said = ramabana('info', '--json', db=db) if db.exists() else None
        return json.loads(said.stdout)['docs'] if said and said.stdout else 0
    until = time.monotonic() + 60
    while not held() and time.monotonic() < until: time.sleep(0.05)
    job.send_signal(signal.SIGINT)
    said = job.communicate(timeout=60)[1]
    assert job.returncode == 130 and said.startswith('stopped: ') and said.count('\n') == 1
    assert 0 < held() < 4000 and ramabana('doctor', db=db).returncode == 0

@pytest.mark.parametrize('data, kind, words', [('Café crème brûlée, à la carte'.encode('latin-1'), '', 'Café crème'), (b'<title>Box</title><main><h1>Fruit</h1><p>Thursdays</main>', 'html', 'Thursdays'),
    (b'hello\x00needle', '', 'helloneedle'), ('# Über\n\n## Anfahrt\nMit der Bahn.\n'.encode('utf-16'), 'markdown', 'Mit der Bahn')])
def test_standard_input_is_read_as_a_file_is(here, monkeypatch, capsys, db, data, kind, words):
    from ramabana.cli import run
    monkeypatch.setattr(sys, 'stdin', io.TextIOWrapper(io.BytesIO(data)))
    assert run(['add', '-', '--db', str(db), *(['--kind', kind] if kind else [])]) == 0
    capsys.readouterr()
    text = here('read', json.loads(here('search', words, '--json', '--limit', '1').stdout)[0]['node_id']).stdout
    assert words in text and '<' not in text and '\ufffd' not in text

@pytest.mark.parametrize('words', [['add', '-'], ['note', '-'], ['add', '-', '--kind', 'pdf']])
def test_standard_input_that_is_no_text_is_refused(db, monkeypatch, capsys, words):
    from ramabana.cli import run
    monkeypatch.setattr(sys, 'stdin', io.TextIOWrapper(io.BytesIO(bytes(range(256)) * 8)))
    assert run([*words, '--db', str(db)]) == 1
    said = capsys.readouterr()
    assert 'standard input' in said.err and not said.out
