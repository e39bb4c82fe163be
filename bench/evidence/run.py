"""How long the search tool of an agent takes, without the model: two vaults of 5,000 chunks each.

    python bench/evidence/run.py [chunks] [runs]

Prints p50 and p95 in milliseconds of `run_search` (gate off, and with `redact`); exits 1 when p95 is over 50 ms with the gate off."""
import asyncio
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from ramabana.memory import Vault
from ramabana.rag import rag
from ramabana.rag_base import begin_run

LIMIT = 50.0  # milliseconds

def make(path: Path, chunks: int, seed: int) -> None:
    "A vault of `chunks` sections of some forty words out of a vocabulary of 4,000 with a natural skew."
    rng = random.Random(seed)
    words = [''.join(rng.choices('abcdefghijklmnoprstuvw', k=rng.randint(3, 9))) for _ in range(4000)]
    weights = [1/(i + 8) for i in range(4000)]
    with Vault(path) as vault:
        for n in range(0, chunks, 50):
            body = '\n\n'.join(f'## Part {n + i}\n\n' + ' '.join(rng.choices(words, weights, k=40)) for i in range(min(50, chunks - n)))
            vault.add(body, title=f'Document {seed}-{n}', source=f'bench:{seed}:{n}', kind='markdown')

class Context:
    "As much of a RunContext as a search reads."
    deps, model, messages = None, None, ()
    def __init__(self, step: int): self.run_step = step

async def timed(capability, queries: list[str]) -> list[float]:
    from dataclasses import replace
    cap = replace(capability, _run=begin_run(capability, Context(0)))
    cap._run.state.evidence.begin_question(0)
    took = []
    for step, query in enumerate(queries):
        start = time.perf_counter()
        await cap.run_search(Context(step), query)
        took.append((time.perf_counter() - start)*1000)
    cap._run.own.close()
    return took[5:]   # the first ones open the files and load the encoder

def main(chunks: int = 5000, runs: int = 200) -> int:
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder)/f'{name}.db' for name in ('papers', 'wiki')}
        for seed, path in enumerate(files.values()): make(path, chunks, seed)
        with Vault(files['papers'], readonly=True) as v: print('chunks per vault:', v.stats()['chunks'])
        rng, texts = random.Random(3), []
        with Vault(files['papers'], readonly=True) as v: texts = [s.text.split() for s in v.search('part', limit=200)]
        queries = [' '.join(rng.sample(rng.choice(texts)[2:], 4)) for _ in range(runs + 5)]
        over = False
        for policy in ('off', 'redact'):
            took = sorted(asyncio.run(timed(rag(config=files, max_searches=None, pii=policy), queries)))
            p95 = took[int(.95*len(took))]
            print(f'gate {policy:6}  p50 {statistics.median(took):5.1f} ms  p95 {p95:5.1f} ms  n {len(took)}')
            over |= policy == 'off' and p95 >= LIMIT
    return int(over)

if __name__ == '__main__': sys.exit(main(*map(int, sys.argv[1:])))
