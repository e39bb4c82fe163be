"""The store's figures, beside litesearch's in the same run.

    python bench/store/mkcorpus.py 20000 corpus                # once: real Markdown documents from this machine's manual pages and packages
    python bench/store/run.py corpus [--docs 20000] [--out /some/folder] [--peer] [--grow]

Times are CPU seconds of one process (`process_time`), medians and 95th percentiles; both sides get the same texts, questions and vectors, one thread.
`--peer` measures litesearch, too (slow: it writes about 24 documents a second, so give it fewer with `--peer-docs`); `--grow` adds synthetic
vectors up to a million chunks and times the exact scan.
"""
import argparse
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

for name in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'RAYON_NUM_THREADS'): os.environ.setdefault(name, '1')

def texts_of(corpus, n):
    files = sorted(Path(corpus).rglob('*.md'))[:n]
    return [(str(f.relative_to(corpus)), f.read_text(encoding='utf-8')) for f in files]

def questions(texts, n=200):
    "What people type: a heading, or the first words of a sentence, out of documents chosen by a fixed seed."
    rng, asked = random.Random(11), []
    while len(asked) < n:
        lines = [line.strip('# ').split() for line in rng.choice(texts)[1].splitlines() if len(line.split()) > 3]
        if lines: asked.append(' '.join(rng.choice(lines)[:rng.randint(3, 9)]))
    return asked

def cpu(call, *args):
    at = time.process_time()
    value = call(*args)
    return time.process_time() - at, value

def spread(call, inputs):
    "Median and 95th percentile of the CPU milliseconds of `call` over `inputs`."
    times = sorted(1000 * cpu(call, x)[0] for x in inputs)
    return times[len(times) // 2], times[int(len(times) * .95)]

def rss(): return int(Path('/proc/self/statm').read_text().split()[1]) * 4096 / 1e6

def said(name, value): print(f'{name:<58} {value}', flush=True)

def pair(times): return '{:.2f} / {:.2f} ms'.format(*times)

def ours(texts, path):
    from ramabana.memory import Vault
    from ramabana.store import draft, merge_segments, write
    from ramabana.upkeep import encode_pending
    vault = Vault(path)
    store, asked = vault.store, questions(texts)
    def put(batch, vectors): return write(store, [draft(store, text, source=source, kind='markdown') for source, text in batch], vectors)
    batches = [texts[i:i + 64] for i in range(0, len(texts), 64)]
    spent, _ = cpu(lambda: [put(batch, {}) for batch in batches])
    merged, _ = cpu(merge_segments, store)      # as adding a folder does
    said('ingest without encoding, full-text merge included', f'{len(texts)/(spent + merged):.0f} documents/CPU-s')
    said('re-add 500 unchanged', f'{cpu(put, texts[:500], {})[0]:.3f} CPU-s')
    said('add one note', pair(spread(lambda i: write(store, [draft(store, f'note {i} about a zebra crossing', kind='note')], {}), range(200))))
    said('update one document', pair(spread(lambda i: put([(texts[i][0], texts[i][1] + f'\n\none more line {i}')], {}), range(200))))
    said('delete one document', pair(spread(lambda i: vault.forget(texts[i][0]), range(200))))
    put(texts[:200], {})
    spent, _ = cpu(encode_pending, store)
    stats = vault.stats()
    said('encoding, afterwards', f'{stats["chunks"]/spent:.0f} chunks/CPU-s')
    merge_segments(store)
    store.engine.rows('pragma wal_checkpoint(truncate)')
    said('file, documents, chunks', f'{os.path.getsize(path)/1e6:.0f} MB, {stats["docs"]}, {stats["chunks"]}')
    vault.search('warm the cache')
    for q in asked: vault.search(q)
    for mode in ('hybrid', 'text', 'vector'): said(f'search, {mode}, p50 / p95', pair(spread(lambda q, mode=mode: vault.search(q, mode=mode), asked)))
    said('memory after searching', f'{rss():.0f} MB')
    vault.close()

COLD = '''
import sys, time
from ramabana.encode import load_encoder
encoder = load_encoder(); encoder.query('warm')
at, cpu = time.perf_counter(), time.process_time()
from ramabana.memory import Vault
hits = Vault(sys.argv[1], encoder=encoder).search('configure the network interface')
print(f'{time.process_time() - cpu:.2f} CPU-s, {time.perf_counter() - at:.2f} s wall')
'''

def peer(texts, path):
    import numpy as np
    from litesearch import Index
    from ramabana.encode import load_encoder
    encoder = load_encoder()
    class Same:
        "Our encoder behind the call that litesearch makes."
        def encode(self, texts, **kw): return encoder.encode(list(texts)).astype(np.float16)
    index, asked = Index(str(path), encoder=Same()), questions(texts)
    spent, _ = cpu(lambda: [index.add({source: text}) for source, text in texts])
    said('litesearch: ingest one by one, encoding included', f'{len(texts)/spent:.0f} documents/CPU-s')
    said('litesearch: re-add 50 unchanged', f'{cpu(lambda: [index.add({s: t}) for s, t in texts[:50]])[0]:.3f} CPU-s')
    said('litesearch: add one note', pair(spread(lambda i: index.add({f'note {i}': f'note {i} about a zebra crossing'}), range(20))))
    said('litesearch: delete one document', pair(spread(lambda i: index.remove(texts[i][0]), range(20))))
    said('litesearch: files', f'{sum(f.stat().st_size for f in Path(path).parent.iterdir() if f.name.startswith(Path(path).name))/1e6:.0f} MB, {len(index)} chunks')
    for q in asked: index.search(q, limit=10)
    said('litesearch: search, hybrid, p50 / p95', pair(spread(lambda q: index.search(q, limit=10), asked)))
    said('litesearch: memory after searching', f'{rss():.0f} MB')

def grow():
    "The exact scan over synthetic unit vectors."
    import numpy as np
    from ramabana.vectors import Codes
    rng, held = np.random.default_rng(0), Codes(256)
    for n in range(10):
        rows = rng.standard_normal((100_000, 256), dtype=np.float32) * np.linspace(2, .5, 256, dtype=np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        held.append(np.arange(n * 100_000 + 1, (n + 1) * 100_000 + 1), rows)
        if n in (0, 1, 4, 9):
            near = [held.near(rows[i], 100)[0] for i in range(3)]
            said(f'scan of {held.count:,} vectors, p50 / p95', f'{pair(spread(lambda q: held.near(q, 100), rows[:50]))}, {statistics.median(map(len, near)):.0f} candidates, {rss():.0f} MB')

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('corpus')
    p.add_argument('--docs', type=int, default=20_000)
    p.add_argument('--peer', action='store_true')
    p.add_argument('--peer-docs', type=int, default=1000)
    p.add_argument('--grow', action='store_true')
    p.add_argument('--out', default='.bench')
    p.add_argument('--part', help=argparse.SUPPRESS)
    a = p.parse_args()
    out = Path(a.out)
    out.mkdir(exist_ok=True)
    if a.part:
        texts = texts_of(a.corpus, a.peer_docs if a.part == 'peer' else a.docs)
        for old in out.glob(f'{a.part}.db*'): old.unlink()
        return ours(texts, out/'ours.db') if a.part == 'ours' else peer(texts, out/'peer.db') if a.part == 'peer' else grow()
    print(f'{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}')
    for part in ['ours', *(['peer'] if a.peer else []), *(['grow'] if a.grow else [])]:
        subprocess.run([sys.executable, __file__, a.corpus, '--docs', str(a.docs), '--peer-docs', str(a.peer_docs), '--out', a.out, '--part', part], check=True)
        if part == 'ours': said('open and first search, cold, encoder loaded', subprocess.run([sys.executable, '-c', COLD, str(out/'ours.db')], check=True, capture_output=True, text=True).stdout.strip())

if __name__ == '__main__': main()
