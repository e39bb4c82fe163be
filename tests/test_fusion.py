"""Reports about merging ranked lists: what must reach the top does, and no score outlives the model that made it."""
import pytest

from cases_of import case
from ramabana.core import Hit, VaultError
from ramabana.encode import Encoder
from ramabana.engine import Engine
from ramabana.federate import federate
from ramabana.fuse import fuse
from ramabana.recall import search, vector_leg
from ramabana.store import Store, draft, write

NOTES = {
    'tone': 'Ask plainly and politely, say what is wanted first and leave out small talk; bullet points are welcome.',
    'box': 'How you request a fruit box: phone before Tuesday.',
    'passphrase': 'You should change the pass phrase each spring. The phrase is in the safe.',
    'api': 'Requests to the billing service should carry a token. Retry failed requests twice.',
    'phrase book': 'A phrase book for Lisbon; learn each phrase aloud.',
    'leave': 'Leave requests: you should send requests two weeks ahead.',
    'milk': 'The weekly order is milk, sourdough and eggs.',
    'bike': 'The bike needs new brake pads before autumn.',
    'plants': 'Water the ferns on Sunday, the cactus never.',
    'piano': 'Piano lesson moved to half past four.'}

@case('fusion-01')
def test_first_of_one_list_reaches_the_top(report):
    text, vector = (report['input']['legs'][leg] for leg in ('text', 'vector'))
    for falling in (0.0, 0.001, 0.01):   # neighbours as near as they can be, and spread out
        ranked = fuse(dict.fromkeys(text, 7.5), {name: 0.9 - falling * i for i, name in enumerate(vector)}, tuple(report['input']['weights']))
        assert 'exact' in [f.key for f in ranked[:3]]

@case('fusion-01')
def test_first_of_one_index_reaches_the_top(report):
    def leg(names): return lambda query, limit: [Hit(source='x', path=name, line=1, title=name, symbol=name) for name in names]
    legs = {name: leg(names) for name, names in report['input']['legs'].items()}
    found = federate(legs, 'exact', limit=12, weights=dict(zip(legs, report['input']['weights'])))
    assert 'exact' in [hit.title for hit in found.hits[:3]]

@pytest.mark.parametrize('weights', [(0.1, 0.9), (0.2, 0.8), (0.5, 0.5), (0.9, 0.1)])
@pytest.mark.parametrize('size', [1, 3, 30, 100])
def test_first_by_words_reaches_the_top_at_any_size(weights, size):
    ranked = fuse(dict(exact=7.5, other=1.0), {f'n{i}': 0.9 for i in range(size)}, weights)
    names, scores = [f.key for f in ranked], [f.score for f in ranked]
    assert names.index('exact') < 3
    assert scores == sorted(scores, reverse=True) and len(set(names)) == size + 2

def vault(encoder=None):
    store = Store(Engine(), encoder=encoder)
    write(store, [draft(store, text, title=title, kind='note') for title, text in NOTES.items()])
    return store

@case('fusion-03')
def test_best_by_meaning_beats_chance_words_in_a_small_vault(report):
    meant = 'tone'
    def encode(texts):   # one that knows: the question and the labelled note lie together
        return [[1.0, 0.1, 0.0] if 'politely' in t or t == report['input']['query'] else [0.2, 1.0, len(t) / 500] for t in texts]
    found = search(vault(Encoder(encode, 'knows', 'callable')), report['input']['query'])
    assert len(NOTES) == report['input']['n'] and meant in [s.title for s in found[:3]]

@case('fusion-03')
def test_shipped_encoder_in_a_small_vault(report):
    found = search(vault(), report['input']['query'], mode='vector')
    best = found[0].title
    assert best in [s.title for s in search(vault(), report['input']['query'])[:3]]

@case('fusion-05')
def test_no_score_outlives_its_model(report):
    assert report['input']['change'] == 'reranker name'
    engine = Engine()
    old = Store(engine, encoder=Encoder(lambda texts: [[1.0, 0.0]] * len(texts), 'model-a', 'callable'))
    write(old, [draft(old, 'a note on ferns', kind='note')])
    assert search(old, 'ferns', mode='vector')
    new = Store(engine, encoder=Encoder(lambda texts: [[0.0, 1.0]] * len(texts), 'model-b', 'callable'))
    with pytest.raises(VaultError, match='model-a'): vector_leg(new, 'ferns')
    assert 'model-a' in search(new, 'ferns').note
