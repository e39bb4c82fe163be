import os

import pytest

@pytest.fixture(autouse=True)
def hermetic(tmp_path_factory, monkeypatch):
    "A home, a config and a git of our own: nothing of this machine's is read or written."
    home = tmp_path_factory.mktemp('home')
    for name in list(os.environ):
        if name.startswith(('GIT_', 'RAMABANA_', 'VISHALAKSHI_', 'HF_', 'XDG_')) or name.endswith('_API_KEY'): monkeypatch.delenv(name)
    monkeypatch.setenv('HF_HUB_OFFLINE', '1')
    monkeypatch.setenv('HOME', str(home))
    monkeypatch.setenv('GIT_CONFIG_NOSYSTEM', '1')
    (home/'.gitconfig').write_text('')
    monkeypatch.setenv('GIT_CONFIG_GLOBAL', str(home/'.gitconfig'))
    monkeypatch.setenv('RAMABANA_CONFIG', str(home/'config.toml'))
    return home
