"""What every test gets: a home and settings of its own, and no network but this machine's."""
import os
import socket

import pytest

@pytest.fixture(autouse=True)
def hermetic(tmp_path_factory, monkeypatch):
    "A home, a configuration and a git of our own: nothing of this machine's is read or written."
    home = tmp_path_factory.mktemp('home')
    for name in [k for k in os.environ if k.startswith(('GIT_', 'RAMABANA_', 'VISHALAKSHI_', 'HF_', 'XDG_')) or k.endswith('_API_KEY')]: monkeypatch.delenv(name)
    for name, value in (('HF_HUB_OFFLINE', '1'), ('HOME', str(home)), ('GIT_CONFIG_NOSYSTEM', '1'), ('GIT_CONFIG_GLOBAL', str(home/'.gitconfig')),
            ('RAMABANA_CONFIG', str(home/'config.toml'))): monkeypatch.setenv(name, value)
    (home/'.gitconfig').write_text('')
    return home

@pytest.fixture(autouse=True)
def loopback_only(monkeypatch):
    "Sockets reach this machine only."
    connect = socket.socket.connect
    def checked(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and str(address[0]) not in ('127.0.0.1', '::1', 'localhost'):
            raise RuntimeError(f'a test tried to reach the network: {address[0]}')
        return connect(self, address)
    monkeypatch.setattr(socket.socket, 'connect', checked)
