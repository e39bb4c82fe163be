"""How well search finds, as nDCG@10 on collections with known answers.

    python bench/ir/run.py data/ir [--quality] [--half dev|held] [--collections locomo cosqa] [--cache /some/folder]

A collection is a folder with `corpus.jsonl` (`_id, title, text` and perhaps `group`), `queries.jsonl` (`_id, text`, perhaps `group`) and `qrels.tsv`.
Every row of a corpus becomes a document of a store in memory, through the same `draft` and `write` that a vault uses; with groups there is a
store for each. Questions go through `recall.search`; a document's rank is that of its best section. Queries are halved by a hash of their id: rules were chosen on
`dev`, so `held` is what counts. `--quality` adds a row with the slower encoder, whose vectors are kept in `--cache`.
"""
import argparse
import hashlib
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ramabana.encode import Encoder, load_encoder
from ramabana.engine import Engine
from ramabana.fuse import rrf
from ramabana.recall import search, text_leg, vector_leg
from ramabana.store import Store, draft, write
from ramabana.terms import parse_query

FIVE = ('locomo', 'cosqa', 'stdlibcode', 'cranfield', 'cisi')
LANGUAGES = ('xquad-de', 'xquad-es', 'xquad-hi', 'xquad-zh')
KINDS = dict(cosqa='code', stdlibcode='code', locomo='note')
DEPTH = 30   # sections asked for, more than ten because a document may have several

@dataclass
class Collection:
    "Documents, questions and what answers them."
    name: str
    corpus: dict[str, list[dict]]        # group -> rows
    queries: list[dict]
    relevant: dict[str, dict[str, int]]  # query id -> document id -> grade

def rows_of(file: Path) -> list[dict]:
    "The objects in `file`, one a line."
    return [json.loads(line) for line in file.read_text(encoding='utf-8').splitlines()]

def load(folder: Path) -> Collection:
    "The collection in `folder`."
    corpus, relevant = defaultdict(list), defaultdict(dict)
    for row in rows_of(folder/'corpus.jsonl'): corpus[row.get('group', '')].append(row)
    for line in (folder/'qrels.tsv').read_text(encoding='utf-8').splitlines()[1:]:
        query, document, grade = line.split('\t')
        if int(grade) > 0: relevant[query][document] = int(grade)
    return Collection(folder.name, corpus, [q for q in rows_of(folder/'queries.jsonl') if q['_id'] in relevant], relevant)

def half(query_id: str) -> str:
    "Which half a query belongs to, for good."
    return 'dev' if hashlib.blake2b(query_id.encode(), digest_size=1).digest()[0] % 2 else 'held'

def ndcg(ranked: list[str], grades: dict[str, int], depth: int = 10) -> float:
    "Normalised discounted cumulative gain of a ranked list of different documents."
    gain = sum(grades.get(d, 0)/math.log2(i + 2) for i, d in enumerate(ranked[:depth]))
    return gain / sum(g/math.log2(i + 2) for i, g in enumerate(sorted(grades.values(), reverse=True)[:depth]))

class Kept:
    "An encoder whose vectors are kept in a file, for one that is slow."
    def __init__(self, encoder: Encoder, file: Path):
        self.encoder, self.file, self.id, self.kind, self.dims = encoder, file, encoder.id, encoder.kind, encoder.dims
        self.known = dict(zip(*(np.load(file)[name] for name in ('keys', 'rows')))) if file.is_file() else {}
        self.new = 0

    def encode(self, texts: list[str]) -> np.ndarray:
        "Vectors of `texts`, from the file where it has them."
        keys = [hashlib.blake2b(t.encode(), digest_size=12).hexdigest() for t in texts]
        todo = {k: t for k, t in zip(keys, texts) if k not in self.known}
        self.known.update(zip(todo, self.encoder.encode(list(todo.values()))))
        self.new += len(todo)
        return np.array([self.known[k] for k in keys])

    def keep(self) -> None:
        "Write what is new."
        if self.new: np.savez(self.file, keys=np.array(list(self.known)), rows=np.array(list(self.known.values())))
        self.new = 0

def shelve(rows: list[dict], kind: str, encoder: Encoder) -> Store:
    "A store in memory with a document for each row, named by the row's id."
    store = Store(Engine(), encoder=encoder)
    texts = [(row, row['text'] if row['text'].strip() else row['title']) for row in rows]
    for at in range(0, len(texts), 500):
        write(store, [draft(store, text, title=row['title'] or None, source=row['_id'], kind=kind) for row, text in texts[at:at + 500] if text.strip()])
    return store

def documents(store: Store, chunks: Iterable[int]) -> list[str]:
    "The documents of ranked `chunks`, each once."
    source = dict(store.engine.rows('select c.id, d.source from chunks c join docs d on d.id = c.doc where c.id in (select value from json_each(?))', (str(chunks := list(chunks)),)))
    return list(dict.fromkeys(source[c] for c in chunks))

def by_search(mode: str) -> Callable[[Store, str], list[str]]:
    "A ranker: `recall.search` in `mode`."
    return lambda store, q: list(dict.fromkeys(s.source for s in search(store, q, DEPTH, mode=mode)))

def by_litesearch(store: Store, q: str) -> list[str]:
    "BM25 over the same table with the full-text expression that litesearch makes of `q`."
    import apsw
    from litesearch.data import pre
    if not (match := pre(q)): return []
    try: return documents(store, [i for i, in store.engine.db.execute(f'select rowid from {store.fts} where {store.fts} match ? order by rank limit 100', (match,))])
    except apsw.SQLError: return []   # it lets some signs through that are operators to FTS5

def by_rank(store: Store, q: str) -> list[str]:
    "The two legs merged by reciprocal rank with equal weights."
    return documents(store, [c for c, _ in rrf([list(text_leg(store, parse_query(q))), list(vector_leg(store, q)[0])])])

SHIPPED = {'BM25, our query builder': by_search('text'), 'BM25, query as litesearch builds it': by_litesearch, 'shipped encoder alone': by_search('vector'),
    'both by equal RRF, k=60': by_rank, 'ours, the default': by_search('hybrid')}
QUALITY = {'quality encoder alone': by_search('vector'), 'ours with [quality]': by_search('hybrid')}

def measure(collection: Collection, encoder: Encoder, rankers: dict[str, Callable]) -> dict[str, dict[str, float]]:
    "Ranker -> query id -> nDCG@10."
    found, groups = {name: {} for name in rankers}, defaultdict(list)
    for q in collection.queries: groups[q.get('group', '')].append(q)
    for group, queries in groups.items():
        store = shelve(collection.corpus[group], KINDS.get(collection.name, 'text'), encoder)
        owner = dict(store.engine.rows('select d.source, coalesce(o.source, d.source) from docs d left join docs o on o.id = d.same_as'))   # of equal documents one is shown
        for q in queries:
            grades = {owner.get(d, d): g for d, g in collection.relevant[q['_id']].items()}
            for name, rank in rankers.items(): found[name][q['_id']] = ndcg(rank(store, q['text']), grades)
    return found

def table(results: dict[str, dict[str, dict[str, float]]], names: list[str], which: str) -> str:
    "Collection -> ranker -> query -> nDCG, as a Markdown table of percent."
    rows = [f'| {which} | ' + ' | '.join(names) + ' | mean of five |', '|---' * (len(names) + 2) + '|']
    for ranker in results[names[0]]:
        mean = {n: 100 * float(np.mean([v for q, v in results[n][ranker].items() if which in ('all', half(q))])) for n in names}
        five = f'{np.mean([mean[n] for n in FIVE]):.1f}' if set(FIVE) <= set(names) else ''
        rows.append(f'| {ranker} | ' + ' | '.join(f'{mean[n]:.1f}' for n in names) + f' | {five} |')
    return '\n'.join(rows)

def main() -> None:
    "Read the arguments, measure, print."
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('data', type=Path)
    parser.add_argument('--quality', action='store_true', help='also with the quality encoder')
    parser.add_argument('--half', choices=('dev', 'held'), help='only this half of the queries; without it both tables')
    parser.add_argument('--collections', nargs='*', default=[*FIVE, *LANGUAGES])
    parser.add_argument('--cache', type=Path, default=Path('.'), help='folder for vectors of the quality encoder')
    args = parser.parse_args()
    results, spent = {}, time.process_time()
    slow = Kept(load_encoder('quality'), args.cache/'quality.npz') if args.quality else None
    for name in args.collections:
        collection = load(args.data/name)
        results[name] = measure(collection, load_encoder(), SHIPPED)
        if slow:
            results[name] |= measure(collection, load_encoder(slow), QUALITY)
            slow.keep()
    for which in [args.half] if args.half else ['dev', 'held', 'all']: print(table(results, args.collections, which), end='\n\n')
    print(f'{time.process_time() - spent:.0f} CPU seconds')

if __name__ == '__main__': main()
