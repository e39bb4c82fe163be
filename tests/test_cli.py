"""The real command in its own process."""
import json
import os
import subprocess
import sys

import pytest

def ramabana(*words, db=None, stdin=None, **env):
    return subprocess.run([sys.executable, '-m', 'ramabana.cli', *words, *(['--db', str(db)] if db else [])], input=stdin, capture_output=True, text=True, env=os.environ | env, timeout=120)

@pytest.fixture
def db(tmp_path): return tmp_path/'vault.db'

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

@pytest.mark.parametrize('words, status', [(['search', 'nothing', '--mode', 'text'], 1), (['search'], 2), (['nonsense'], 2), (['read', 'nope#1'], 1), (['note', '  '], 2), (['add', '/no/such/file'], 1), (['--help'], 0)])
def test_exit_status_and_no_traceback(db, words, status):
    said = ramabana(*words, db=None if words == ['--help'] else db)
    assert said.returncode == status, said.stderr
    assert 'Traceback' not in said.stderr

def test_another_programs_file_is_left_alone(tmp_path):
    (tmp_path/'x.db').write_bytes(b'not a vault' * 50)
    said = ramabana('note', 'text', db=tmp_path/'x.db')
    assert said.returncode == 1 and 'x.db' in said.stderr and (tmp_path/'x.db').read_bytes() == b'not a vault' * 50

def test_doctor_and_backup(db, tmp_path):
    ramabana('note', 'a note about rivers', db=db)
    assert ramabana('doctor', db=db).stdout.strip() == 'all is well'
    assert json.loads(ramabana('doctor', '--fix', '--json', db=db).stdout)['ok'] is True
    assert ramabana('backup', str(tmp_path/'copy.db'), db=db).returncode == 0
    assert ramabana('backup', str(tmp_path/'copy.db'), db=db).returncode == 1
    assert 'rivers' in ramabana('search', 'river', db=tmp_path/'copy.db').stdout
