"""What watches cost, and whether they are done once when their workers are killed.

    python bench/watches/run.py [--jobs 2000] [--workers 8] [--kills 40]

Times are CPU seconds of this process, the median of the runs with the 95th percentile beside it. The last table is no time: it counts what was lost, done twice or left over.
"""
import argparse
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ramabana.jobs import claim, enqueue, new_worker
from ramabana.memory import Vault

WORKER = '''
import sys
from ramabana.memory import Vault
path, at = sys.argv[1], float(sys.argv[2])
with Vault(path) as vault:
    while True:
        told = vault.poll(at=at, connect=False, limit=20)
        if told.get('error'): print(told['error'], file=sys.stderr)
        if told['ran'] == 0 and told['reclaimed'] == 0: break
'''

def spread(times, unit=1.0):
    "'median / 95th percentile' of `times`."
    times = sorted(t * unit for t in times)
    return f'{statistics.median(times):.3g} / {times[int(len(times) * 0.95)]:.3g}'

def timed(call, runs):
    "CPU seconds of each of `runs` calls."
    found = []
    for _ in range(runs):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return found

def with_watches(path, count, at=None):
    "A vault with `count` reminders, and the moment when all of them are due."
    vault = Vault(path)
    with vault.store.engine.write(): due = max(vault.watch(f'reminder {n} about the tide', every='1d', tz='UTC')['next_run'] for n in range(count))
    return vault, due

def queue(folder, count):
    "Enqueue and claim on one connection: jobs a CPU second."
    rates = dict(enqueue=[], claim=[], one=[])
    for run in range(5):
        vault, _ = with_watches(folder/f'queue{run}.db', 100)
        engine, ids = vault.store.engine, [row['id'] for row in vault.watches()]
        occurrences = [(id, float(n)) for n in range(count // 100) for id in ids]
        rates['enqueue'].append(count / timed(lambda engine=engine, found=occurrences: enqueue(engine, found), 1)[0])
        me = new_worker('bench')
        start, taken = time.process_time(), 0
        while batch := claim(engine, 1e9, me, limit=100): taken += len(batch)
        rates['claim'].append(taken / (time.process_time() - start))
        with engine.write(): engine.rows("update jobs set state = 'ready'")
        rates['one'].append(500 / timed(lambda engine=engine, me=me: [claim(engine, 1e9, me) for _ in range(500)], 1)[0])
        vault.close()
    return {name: statistics.median(found) for name, found in rates.items()}

def polls(folder):
    "An empty poll at 10,000 watches, and one of 100 due reminders."
    vault, due = with_watches(folder/'many.db', 10_000)
    with vault.store.engine.write(): vault.store.engine.rows('update watches set next_run = next_run + 1e6')
    vault.poll()
    empty = timed(lambda: [vault.poll(connect=False) for _ in range(200)], 50)
    vault.close()
    vault, due = with_watches(folder/'hundred.db', 100)
    _ = vault.encoder   # loaded before the clock runs
    vault.poll(at=due, connect=False)       # the first time also writes the notes
    again = [timed(lambda day=day: vault.poll(at=due + day * 86400, connect=False), 1)[0] for day in range(1, 8)]
    vault.close()
    first = []
    for run in range(5):
        vault, due = with_watches(folder/f'first{run}.db', 100)
        _ = vault.encoder   # loaded before the clock runs
        first += timed(lambda vault=vault, due=due: vault.poll(at=due, connect=False), 1)
        vault.close()
    return [t / 200 for t in empty], first, again

def killed(folder, jobs, workers, kills, seed):
    "Lost, twice, wedged after random kills of workers that share a file; and how many were killed."
    path, rng = folder/f'killed{seed}.db', random.Random(seed)
    vault, due = with_watches(path, jobs)
    vault.close()
    def start(): return subprocess.Popen([sys.executable, '-c', WORKER, str(path), str(due)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    crew, done, errors = [start() for _ in range(workers)], 0, b''
    while done < kills:
        time.sleep(rng.uniform(0.05, 0.6))
        alive = [i for i, worker in enumerate(crew) if worker.poll() is None]
        if not alive: break
        victim = rng.choice(alive)
        crew[victim].send_signal(signal.SIGKILL)
        crew[victim].communicate()
        done += 1
        crew[victim] = start()
    for worker in crew: errors += worker.communicate()[1]
    with Vault(path) as vault:
        vault.poll(at=due + 1, connect=False)
        engine = vault.store.engine
        (ok,), = engine.rows("select count(distinct watch) from runs where status = 'ok'")
        (all_ok,), = engine.rows("select count(*) from runs where status = 'ok'")
        (left,), = engine.rows('select count(*) from jobs')
        for job in vault.jobs(): print(job, [run for run in vault.runs(job['watch_id'])], file=sys.stderr)
        notes, (versions,) = vault.stats()['docs'], engine.rows('select count(*) from versions')[0]
        return dict(kills=done, lost=jobs - min(ok, notes), twice=all_ok - ok + versions, wedged=left, errors=len(errors), whole=vault.check()['ok'])

def main():
    "Measure and print tables."
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument('--jobs', type=int, default=2000)
    args.add_argument('--workers', type=int, default=8)
    args.add_argument('--kills', type=int, default=40)
    args.add_argument('--runs', type=int, default=1, help='of the kills')
    given = args.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rates = queue(folder, 20_000)
        empty, first, again = polls(folder)
        print('| | ours | goal |\n| --- | --- | --- |')
        print(f'| enqueue | {rates["enqueue"]:,.0f} jobs/CPU-s | 10,000 |')
        print(f'| claim, 100 at a time | {rates["claim"]:,.0f} jobs/CPU-s | 20,000 |')
        print(f'| claim, one at a time | {rates["one"]:,.0f} jobs/CPU-s | |')
        print(f'| empty poll, 10,000 watches | {spread(empty, 1e6)} µs | 30 |')
        print(f'| 100 due reminders, first time | {spread(first)} CPU-s | 0.5 |')
        print(f'| 100 due reminders, again | {spread(again)} CPU-s | 0.5 |')
        print(f'\n| {given.jobs} jobs, {given.workers} workers | kills | lost | done twice | left over | errors | file whole |\n| --- | --- | --- | --- | --- | --- | --- |')
        for seed in range(given.runs):
            told = killed(folder, given.jobs, given.workers, given.kills, seed)
            print(f'| run {seed + 1} | {told["kills"]} | {told["lost"]} | {told["twice"]} | {told["wedged"]} | {told["errors"]} | {told["whole"]} |', flush=True)

if __name__ == '__main__': main()
