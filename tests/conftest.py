"""What every test gets: a home and settings of its own, and no network but this machine's."""
import os
import signal
import socket

import pytest

OURS = ('GIT_', 'RAMABANA_', 'VISHALAKSHI_', 'HF_', 'XDG_')
HERE = ('127.0.0.1', '::1', 'localhost', '', None, b'localhost')

def pytest_configure():
    "A shell starts what runs in the background with Ctrl-C ignored, and children inherit that: the tests of Ctrl-C would wait for ever."
    signal.signal(signal.SIGINT, signal.default_int_handler)

@pytest.fixture(autouse=True)
def hermetic(tmp_path_factory, monkeypatch):
    "A home, a configuration and a git of our own: nothing of this machine's is read or written."
    home = tmp_path_factory.mktemp('home')
    for name in [name for name in os.environ if name.startswith(OURS) or name.endswith('_API_KEY')]: monkeypatch.delenv(name)
    for name, value in (('HF_HUB_OFFLINE', '1'), ('HOME', str(home)), ('GIT_CONFIG_NOSYSTEM', '1'), ('GIT_CONFIG_GLOBAL', str(home/'.gitconfig')),
            ('RAMABANA_CONFIG', str(home/'config.toml'))): monkeypatch.setenv(name, value)
    (home/'.gitconfig').write_text('')
    return home

def checked(address):
    "Raises RuntimeError for an address that is not on this machine."
    host = address[0] if isinstance(address, tuple) else address
    if host not in HERE and not str(host).startswith('127.'): raise RuntimeError(f'a test tried to reach the network: {host}')

@pytest.fixture(autouse=True)
def loopback_only(monkeypatch):
    "Sockets and look-ups of names reach this machine only."
    connect, connect_ex, sendto, look_up = socket.socket.connect, socket.socket.connect_ex, socket.socket.sendto, socket.getaddrinfo
    def guard(call):
        def guarded(self, address):
            if self.family in (socket.AF_INET, socket.AF_INET6): checked(address)
            return call(self, address)
        return guarded
    def guarded_sendto(self, data, *rest):
        if self.family in (socket.AF_INET, socket.AF_INET6): checked(rest[-1])
        return sendto(self, data, *rest)
    def guarded_look_up(host, *rest, **options):
        checked(host)
        return look_up(host, *rest, **options)
    for name, call in (('connect', guard(connect)), ('connect_ex', guard(connect_ex)), ('sendto', guarded_sendto)): monkeypatch.setattr(socket.socket, name, call)
    monkeypatch.setattr(socket, 'getaddrinfo', guarded_look_up)
