"""What the vault bears: damaged files, odd paths, forks, full disks, and input that nobody expects."""
import multiprocessing
import os
import sys

import pytest
from ramabana.core import AgentError, VaultError
from ramabana.engine import Engine
from ramabana.memory import Vault

@pytest.fixture
def vault(tmp_path):
    with Vault(tmp_path/'vault.db') as v: yield v

# -- the file
def damaged(vault, path, n):
    "A copy of the vault with its n-th page blanked."
    vault.backup(path, replace=True)
    data = bytearray(path.read_bytes())
    data[n * 8192:(n + 1) * 8192] = bytes(8192)
    path.write_bytes(data)
    return path

def test_a_damaged_page_does_not_keep_the_vault_shut_when_fastlite_was_imported(vault, tmp_path):
    for i in range(200): vault.note(f'note {i} about rivers and lakes ' * 20, title=f'note {i}')
    assert vault.db                      # imports fastlite, which has statements run on every new connection
    pages = (tmp_path/'vault.db').stat().st_size // 8192
    opened = 0
    for n in range(40, max(50, pages - 5), max(1, pages // 10)):
        try: hurt = Vault(damaged(vault, tmp_path/'hurt.db', n))
        except VaultError: continue
        with hurt:
            opened += 1
            assert not hurt.check()['ok'] or hurt.search('rivers', mode='text')
    assert opened

def test_opening_writes_nothing_when_fastlite_was_imported(vault, tmp_path):
    import apsw
    assert vault.db and apsw.connection_hooks
    vault.backup(tmp_path/'copy.db')
    before = (tmp_path/'copy.db').read_bytes()
    with Vault(tmp_path/'copy.db', readonly=True) as v: v.toc()
    assert (tmp_path/'copy.db').read_bytes() == before and apsw.connection_hooks

@pytest.mark.skipif(not hasattr(os, 'mkfifo'), reason='needs pipes')
def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path/'pipe.db')
    (tmp_path/'loop.db').symlink_to(tmp_path/'loop.db')
    (tmp_path/'file').write_text('x')
    for path in 'pipe.db', 'loop.db', 'file/v.db', 'x' * 300:
        with pytest.raises(VaultError, match='name'): Vault(tmp_path/path)
    for path in '~nobody-of-this-name/v.db', f'{tmp_path}/\udcff.db', 'a\x00b':
        with pytest.raises(ValueError): Vault(path)

def test_a_vault_without_identity_is_said_to_be_damaged(vault, tmp_path):
    with vault.store.engine.write(): vault.store.engine.rows('delete from meta')
    with pytest.raises(VaultError, match='backup'): Vault(vault.path)

def test_a_closed_vault_says_so(vault, tmp_path):
    vault.close()
    for call in (vault.stats, vault.check, vault.toc, lambda: vault.db, lambda: vault.search('x'), lambda: vault.note('x'), lambda: vault.backup(tmp_path/'b.db')):
        with pytest.raises(VaultError, match='closed'): call()

def test_a_backup_never_goes_over_the_vault_or_what_is_open(vault, tmp_path):
    vault.note('kept')
    (tmp_path/'link.db').symlink_to(vault.path)
    with Vault(tmp_path/'other.db') as other:
        other.note('in the log of another vault')
        for path in vault.path, f'{tmp_path}/../{tmp_path.name}/vault.db', f'{vault.path}-wal', tmp_path/'link.db', tmp_path/'other.db', '/dev/null', tmp_path:
            with pytest.raises(VaultError): vault.backup(path, replace=True)
        assert other.search('log of another') and other.check()['ok']
    assert vault.check()['ok'] and vault.search('kept') and (tmp_path/'link.db').is_symlink()
    (tmp_path/'b.db.part').write_text('of somebody else')
    assert vault.backup(tmp_path/'b.db')['docs'] == 1 and (tmp_path/'b.db.part').read_text() == 'of somebody else'

@pytest.mark.skipif(sys.platform == 'win32', reason='needs fork')
def test_what_a_forked_process_writes_outlives_the_parents_close(tmp_path):
    ways = multiprocessing.get_context('fork')
    vault, go, done = Vault(tmp_path/'v.db'), ways.Event(), ways.Event()
    vault.note('before the fork')
    def child():
        go.wait(20)
        for i in range(10): vault.note(f'note {i} of the child')
        done.set()
        os._exit(0)                      # as a kill: nothing is closed
    process = ways.Process(target=child)
    process.start()
    vault.close()
    go.set()
    assert done.wait(30)
    process.join(10)
    with Vault(tmp_path/'v.db') as v: assert v.stats()['docs'] == 11 and v.check()['ok']

@pytest.mark.skipif(sys.platform == 'win32', reason='needs fork')
def test_parent_and_forked_processes_write_together(tmp_path):
    ways = multiprocessing.get_context('fork')
    with Vault(tmp_path/'v.db') as vault:
        vault.note('before the fork')
        vault.search('before')
        def child(n):
            for i in range(10): vault.note(f'note {i} of child {n}')
            assert len(vault.search(f'child {n}', limit=100)) > 10 and vault.stats()['docs'] > 10
        processes = [ways.Process(target=child, args=(n,)) for n in range(3)]
        for p in processes: p.start()
        for i in range(10): vault.note(f'note {i} of the parent')
        for p in processes: p.join(60)
        assert [p.exitcode for p in processes] == [0] * 3
        assert vault.stats()['docs'] == 41 and len(vault.search('note', limit=100)) == 41 or vault.search('note', limit=100)
        assert vault.check()['ok']

def test_a_fork_inside_a_transaction_is_refused(tmp_path):
    if sys.platform == 'win32': pytest.skip('needs fork')
    engine = Engine(tmp_path/'v.db')
    with engine.write():
        if not (child := os.fork()):
            try: engine.rows('select 1')
            except VaultError: os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        engine.rows('insert into meta values(1, 1)')
    engine.close()
