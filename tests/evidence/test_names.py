"""Vaults that have names in the settings."""
import os
import subprocess
import sys
from pathlib import Path

from ramabana.config import set_setting
from ramabana.memory import Vault

ROOT = Path(__file__).parent.parent.parent
def shell(*words): return subprocess.run([sys.executable, '-m', 'ramabana.cli', *map(str, words)], capture_output=True, text=True, env=os.environ | dict(PYTHONPATH=str(ROOT)))

def test_r23_a_name_or_a_file_and_never_silently_the_default_one(tmp_path):
    "search and ask do not cover the configured set yet: they refuse like every other command."
    files = {name: str(tmp_path/f'{name}.db') for name in ('wiki', 'notes')}
    for name, file in files.items():
        with Vault(file) as vault: vault.note(f'This is {name}.')
    set_setting('databases', dict(wiki=files['wiki']))
    assert 'This is wiki' in shell('search', 'this').stdout
    set_setting('databases', files)
    refused = shell('info')
    assert refused.returncode == 2 and 'wiki' in refused.stderr and 'notes' in refused.stderr and '--database' in refused.stderr and '--db' in refused.stderr and str(tmp_path) not in refused.stderr
    assert shell('info', '--database', 'wiki').returncode == 0 and 'This is notes' in shell('search', 'this', '--database=notes').stdout
    assert shell('info', '--db', files['wiki']).returncode == 0
    assert shell('info', '--db', files['wiki'], '--database', 'wiki').returncode == 2 and shell('info', '--database', 'none').returncode == 2
    assert shell('--help').returncode == 0 and shell('models').returncode in (0, 1)
