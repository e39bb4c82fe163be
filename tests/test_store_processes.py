"""Several processes on one vault file, and processes that are killed."""
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from ramabana import engine as engine_module
from ramabana.engine import Engine, connect, migrate
from ramabana.memory import Vault
from ramabana.store import Store

START = '''
import sys, hashlib
from ramabana.memory import Vault
class Letters:
    "A small encoder that loads at once: 16 numbers out of a hash of each word."
    id, spec, kind, dims = 'letters', '', 'callable', 16
    def encode(self, texts):
        import numpy as np
        rows = [sum((np.frombuffer(hashlib.md5(w.encode()).digest(), np.uint8).astype(float) for w in t.split()), np.ones(16)) for t in texts]
        return np.stack(rows) - 128
path, me, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
'''
WORK = START + '''
vault = Vault(path, encoder=Letters())
for i in range(times):
    vault.note(f'process {me} number {i} knows w{me}x{i}', title=f'{me} {i}')
    found = vault.search(f'w{me}x{i}', limit=3)
    assert not found.note and f'w{me}x{i}' in found[0].text, (i, found, found.note)
'''
OPEN = START + '''
Vault(path, encoder=Letters()).note(f'hello from {me}')
'''
INGEST = START + '''
from ramabana.store import draft, write
vault = Vault(path, encoder=Letters())
for i in range(times):
    batch = [f'{me}-{i}-{n}' for n in range(5)]
    write(vault.store, [draft(vault.store, f'# {name}\\n' + f'## part\\nthe words of {name}\\n\\n' * 4, source=name, kind='markdown') for name in batch])
    print(*batch, flush=True)
'''

def start(code, path, me, times=1): return subprocess.Popen([sys.executable, '-c', code, str(path), str(me), str(times)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

def failures(processes):
    said = [p.communicate(timeout=300)[1] for p in processes]
    return [err[-600:] for p, err in zip(processes, said) if p.returncode]

@pytest.mark.slow
def test_eight_processes_add_and_search(tmp_path):
    assert failures([start(WORK, tmp_path/'v.db', me, 50) for me in range(8)]) == []
    with Vault(tmp_path/'v.db') as vault:
        stats = vault.stats()
        assert (stats['docs'], stats['chunks'], stats['pending']) == (400, 400, 0)
        assert vault.check() == dict(ok=True, problems=[])

@pytest.mark.slow
def test_first_opening_raced_twenty_times(tmp_path):
    for n in range(20):
        assert failures([start(OPEN, tmp_path/f'{n}.db', me) for me in range(4)]) == []
        with Vault(tmp_path/f'{n}.db') as vault: assert vault.stats()['docs'] == 4 and vault.check()['ok']

@pytest.mark.slow
def test_fifty_kills_in_the_middle_of_adding(tmp_path):
    rng, acknowledged = random.Random(7), set()
    for n in range(50):
        p = start(INGEST, tmp_path/'v.db', n, 10_000)
        said = [p.stdout.readline() for _ in range(rng.randint(1, 6))]
        time.sleep(rng.uniform(0, 0.02))
        os.kill(p.pid, signal.SIGKILL)
        rest, errors = p.communicate()
        assert p.returncode == -signal.SIGKILL, errors
        acknowledged |= {name for line in [*said, *rest.splitlines(keepends=True)] if line.endswith('\n') for name in line.split()}
        with Vault(tmp_path/'v.db') as vault:
            assert vault.check() == dict(ok=True, problems=[])
            assert acknowledged <= {source for source in vault.sources()}
    store = Store(Engine(tmp_path/'v.db'))
    (docs,), = store.engine.rows('select count(*) from docs')
    assert docs % 5 == 0 and store.engine.rows('select count(*) from chunks') == [(docs * 4,)] == store.engine.rows(f'select count(*) from {store.vecs}')

def test_same_folder_of_documents_from_two_processes(tmp_path):
    """https://github.com/tobi/qmd/issues/825: two runs over the same input race; every chunk must have exactly one vector."""
    code = INGEST.replace("f'{me}-{i}-{n}'", "f'same-{i}-{n}'")
    assert failures([start(code, tmp_path/'v.db', me, 30) for me in range(2)]) == []
    with Vault(tmp_path/'v.db') as vault: assert (vault.stats()['docs'], vault.stats()['pending'], vault.check()['ok']) == (150, 0, True)

@pytest.mark.parametrize('library', ['fastlite', 'apswutils'])
def test_opening_waits_for_a_writer_whatever_else_is_imported(tmp_path, library):
    "Importing these makes apsw run statements on each new connection, before it is told to wait."
    Vault(tmp_path/'v.db').close()
    hold = f"""
import apsw, time
c = apsw.Connection({str(tmp_path/'v.db')!r})
c.execute("begin immediate")
c.execute("insert into meta values('x', 1)")
print('held', flush=True)
time.sleep(1)
c.execute('commit')
"""
    holder = subprocess.Popen([sys.executable, '-c', hold], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == 'held\n'
    done = subprocess.run([sys.executable, '-c', f"import sys, {library}\nfrom ramabana.memory import Vault\nVault(sys.argv[1]).note('kept')", str(tmp_path/'v.db')], capture_output=True, text=True)
    holder.communicate()
    assert done.returncode == 0, done.stderr
    with Vault(tmp_path/'v.db') as vault: assert vault.search('kept')

def test_a_vault_that_is_made_while_it_is_looked_at_is_ours(tmp_path, monkeypatch):
    "Between two questions to a new file, another process may create its tables; both answers must be of one state."
    import apsw
    path = str(tmp_path/'v.db')
    maker, _ = connect(path)
    class Interrupted(apsw.Connection):
        "Lets the maker finish after the first answer."
        def execute(self, sql, *args):
            answer = super().execute(sql, *args).fetchall()
            if maker.pragma('user_version') == 0 and not sql.lower().startswith(('begin', 'savepoint')): migrate(maker, path)
            class Rows:
                def fetchone(self): return answer[0] if answer else None
                def fetchall(self): return answer
            return Rows()
        def pragma(self, name, *args):
            answer = super().pragma(name, *args)
            if name == 'application_id' and maker.pragma('user_version') == 0: migrate(maker, path)
            return answer
    monkeypatch.setattr(apsw, 'Connection', Interrupted)
    assert engine_module._ours_inside(tmp_path/'v.db')
    maker.close()
