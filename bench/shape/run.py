"""Topics, export, import and a change of encoder over a vault: `python bench/shape/run.py VAULT.db` (a file that bench/store made). The file is copied first. Prints a table for RESULTS.md."""
import argparse
import random
import shutil
import tempfile
import time
from pathlib import Path

def cpu(call, *args, **kw):
    start = time.process_time()
    return call(*args, **kw), time.process_time() - start

def main():
    take = argparse.ArgumentParser(description=__doc__)
    take.add_argument('vault', type=Path)
    take.add_argument('--queries', type=int, default=200)
    args = take.parse_args()
    from ramabana.memory import Vault
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(args.vault, f'{folder}/v.db')
        with Vault(f'{folder}/v.db') as vault, Vault(f'{folder}/new.db') as new:
            rows = [('documents, chunks', '{docs}, {chunks}'.format(**vault.stats()))]
            said, took = cpu(vault.connect)
            rows.append((f'connect, without a model: {said["topics"]} topics', f'{took:.1f} CPU-s'))
            vault.note('One note more, about sailing.')
            rows += [('connect again, one document more', f'{cpu(vault.connect)[1]:.2f} CPU-s'), ('connect again, nothing more', f'{cpu(vault.connect)[1]:.2f} CPU-s')]
            rows.append(('export', f'{cpu(vault.export, f"{folder}/out")[1]:.1f} CPU-s'))
            said, took = cpu(new.import_, f'{folder}/out')
            rows.append((f'import into an empty vault, encoding included: {said["added"]} documents', f'{took:.1f} CPU-s'))
            rows.append(('import again', f'{cpu(new.import_, f"{folder}/out")[1]:.1f} CPU-s'))
            chance, titles = random.Random(1), [row['title'] for row in vault.toc()]
            asked = [' '.join(chance.sample(chance.choice(titles).split() + chance.choice(titles).split(), 2)) for _ in range(args.queries)]
            same = sum([(h.node_id, round(h.score, 6)) for h in vault.search(q)] == [(h.node_id, round(h.score, 6)) for h in new.search(q)] for q in asked)
            rows.append((f'equal results of {args.queries} queries in both', f'{same}'))
    print('| | |\n| --- | --- |')
    for name, value in rows: print(f'| {name} | {value} |')

if __name__ == '__main__': main()
