"""How well and how fast names are found: `python bench/search/run.py REPOS [--vault FILE]`, REPOS as fetch.sh makes it. Prints tables for RESULTS.md."""
import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent

def quantile(values, share): return sorted(values)[min(len(values) - 1, int(len(values)*share))]
def cpu(call, *args, **kw):
    start = time.process_time()
    return call(*args, **kw), time.process_time() - start

def placed(hits, question):
    "The rank of the definition that the question means, and whether the first hit has its name at all."
    def same(hit): return f'.{hit.title}'.endswith('.' + question['name'])
    rank = next((n for n, hit in enumerate(hits, start=1) if same(hit) and hit.path == question['path']), None)
    return rank, bool(hits) and same(hits[0])

def syncs(repos, names):
    from ramabana.code import CodeIndex
    print('| repository | files | symbols | full sync CPU-s | no-op CPU-s | index MB | left out |\n| --- | --- | --- | --- | --- | --- | --- |')
    indexes = {}
    for name in names:
        index = indexes[name] = CodeIndex(repos/name)
        done, full = cpu(index.sync)
        noop = min(cpu(index.sync)[1] for _ in range(3))
        index._file.rows('pragma wal_checkpoint(truncate)')
        print(f'| {name} | {done.files} | {done.symbols} | {full:.2f} | {noop:.2f} | {os.path.getsize(index.path)/1e6:.1f} | {len(done.skipped)} |')
    return indexes

def names_asked(indexes, questions):
    print('\n| questions | n | meant definition first | in first 3 | exact name first | CPU ms p50 / p95 |\n| --- | --- | --- | --- | --- | --- |')
    rows, missed = [], []
    for question in questions:
        index = indexes[question['repo']]
        took = min(cpu(index.search, question['query'], 10)[1] for _ in range(3))
        rank, named = placed(index.search(question['query'], 10), question)
        rows.append((question['repo'], rank, named, took*1e3))
        if rank != 1: missed.append(f"{question['repo']}: {question['query']!r}: {rank or 'not in the first 10'}")
    for name in [*indexes, 'all']:
        mine = [row for row in rows if name in (row[0], 'all')]
        times = [row[3] for row in mine]
        if mine: print(f'| {name} | {len(mine)} | {sum(r[1] == 1 for r in mine)} | {sum(bool(r[1]) and r[1] <= 3 for r in mine)} | {sum(r[2] for r in mine)} | {statistics.median(times):.2f} / {quantile(times, .95):.2f} |')
    print('\nNot first: ' + '; '.join(missed))

def federated(repo, vault, questions, deadline):
    "Through the call that users make: VaultHost.search over the repository and the vault."
    from ramabana.vault import VaultHost
    with VaultHost([repo], vault=vault, web=False, warm=False) as host:
        host.open_vault(wait=True)
        host.sync_index(wait=True)
        host.search('warm up the caches of everything', 12)
        walls, cpus, first, late = [], [], 0, 0
        for question in questions:
            start, spent = time.perf_counter(), time.process_time()
            hits = host.search(question['query'], 12)
            walls.append((time.perf_counter() - start)*1e3)
            cpus.append((time.process_time() - spent)*1e3)
            first += placed(hits, question)[0] == 1
            late += 'no answer within' in host.search_note or 'stopped' in host.search_note
        print(f'\nFederated over {repo.name} and {host.vault.stats()["docs"]} documents, {len(questions)} questions: wall ms p50 {statistics.median(walls):.0f}, p95 {quantile(walls, .95):.0f}, longest {max(walls):.0f}; '
            f'CPU ms p50 {statistics.median(cpus):.0f}; meant definition first {first}; answers that a leg was late for {late}.')

def main():
    take = argparse.ArgumentParser(description=__doc__)
    take.add_argument('repos', type=Path, help='folder with the repositories')
    take.add_argument('--vault', help='a vault with documents, for the federated search')
    take.add_argument('--questions', type=Path, default=HERE/'questions.jsonl')
    args = take.parse_args()
    os.environ['XDG_CACHE_HOME'] = tempfile.mkdtemp()   # a full sync, and nobody's indexes touched
    questions = [json.loads(line) for line in args.questions.read_text().splitlines()]
    names = [name for name in dict.fromkeys(q['repo'] for q in questions) if (args.repos/name).is_dir()]
    if not names: sys.exit(f'no repository of the questions in {args.repos}: bench/search/fetch.sh {args.repos} gets them')
    indexes = syncs(args.repos.resolve(), names)
    names_asked(indexes, [q for q in questions if q['repo'] in names])
    if args.vault: federated(args.repos.resolve()/names[0], args.vault, [q for q in questions if q['repo'] == names[0]], 2.0)

if __name__ == '__main__': main()
