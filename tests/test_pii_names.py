"""People's names behind the gate: found, masked once and for all, never silently left out, in linear time."""
import lzma
import shutil
import string
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import ramabana
from ramabana import pii_names, pii_words
from ramabana.core import AgentError, Section
from ramabana.memory import Vault
from ramabana.pii import find_pii, gate, pii_report, redact, redact_obj

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(ramabana.__file__).parent/'data'/'pii'

def named(text): return [text[f.start:f.end] for f in find_pii(text, names=True) if f.kind == 'person']

# ---- what is found

@pytest.mark.parametrize('text, name', [
    ('The contract was signed by Maria Torres in the morning.', 'Maria Torres'),
    ('Patient: Johann Weber\nAge: 52', 'Johann Weber'),
    ('Name: Agnieszka Nowak', 'Agnieszka Nowak'),
    ('Please call Mrs. Robinson after lunch.', 'Robinson'),
    ('Der Vertrag wurde von Herrn Klaus Fischer unterschrieben.', 'Klaus Fischer'),
    ('Le dossier de Mme Claire Dubois est complet.', 'Claire Dubois'),
    ('Umowa z Panią Katarzyną Zielińską została podpisana.', 'Katarzyną Zielińską'),
    ('O contrato foi assinado por João da Silva ontem.', 'João da Silva'),
    ('"It will rain," said Peter Johnson.', 'Peter Johnson')])
def test_names_are_found_with_their_places(text, name):
    assert any(name in found for found in named(text)), named(text)
    assert name not in redact(text, names=True)

def test_names_only_when_asked():
    text = 'Maria Torres wrote to ann@example.org.'
    assert [f.kind for f in find_pii(text)] == ['email']
    assert pii_report(text)['scanned_names'] is False
    assert pii_report(text, names=True)['identifying'] == {'email': 1, 'person': 1}

def test_parts_of_a_full_name_are_the_same_person():
    text = 'Maria Torres joined in May. The invoice goes to Torres, and Maria signs it. A bull is a torre.'
    assert named(text) == ['Maria Torres', 'Torres', 'Maria']
    assert redact(text, names=True).count('[PERSON]') == 3

def test_the_same_person_has_one_number():
    assert redact('Peter Johnson met Maria Torres. Peter Johnson left.', names=True, style='numbered') == '[PERSON_1] met [PERSON_2]. [PERSON_1] left.'

@pytest.mark.parametrize('text', ['def lineEnd(MyDemoRepo): return isValid', '@property\ndef name(self): ...', '@Override public void run()', 'npm i @types/node @babel/core',
    'Fixed a crash\nAdded tests\nRemoved Python 3.8', 'see RFC 2822, ISO 8601 and IEEE 754', 'commit 9fceb02d0ae598e95dc970b74767f19372d61af8', 'Monday, 3 March: deploy to Frankfurt and Paris',
    'CYRILLIC CAPITAL LETTER A', '[PERSON], [EMAIL] and [NATIONAL_ID]', '[PERSON_1] wrote', 'import React from "react"', 'git push origin main', 'the patient was discharged'])
def test_what_is_no_name_stays(text): assert named(text) == []

# ---- masking

TEXTS = ['Dr. Maria Torres <maria@example.org> called. Torres will send the report to Hans Meyer, born 2 May 1980.',
    'Name: Anna Kowalska\nPhone: +48 600 123 456\nAnna Kowalska, Jan Kowalski and @ann_smith', 'Meeting with Peter, Paul and Mary Johnson; cc: Johnson, P.', 'maria torres wrote to john smith',
    'Sehr geehrter Herr Müller, Frau Dr. Schäfer und Jürgen Groß warten.', 'Ко\u0301т Аnna Smith И\u0306', 'Ma\u00adria Tor\u200bres met John&nbsp;Smith']

@pytest.mark.parametrize('text', TEXTS)
def test_a_masked_text_is_masked_no_further(text):
    once = redact(text, names=True)
    assert redact(once, names=True) == once
    assert find_pii(once, names=True) == []

WORDS = ['Maria', 'Torres', 'John', 'Smith', 'Dr.', 'Mr', 'Patient:', 'said', 'the', 'and', 'of', 'van', 'Paris', 'Monday', ',', '.', '\n', '-', '@ann_smith', 'ann@example.org', '[PERSON]', 'ŁUKASZ', 'O\'Neill', 'J.',
    'Wrote', 'report', '+44 20 7946 0958', 'PiotrZalewski', 'Herr', 'Name:', '"', '(', ')', 'Anna', 'Nowak', 'wrote', 'to', 'xyzzy', 'Xyzzy', '2024-05-02']

@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(WORDS), max_size=24), st.sampled_from([' ', '  ', '']))
def test_laws_of_masking(words, gap):
    text = (gap or ' ').join(words)
    found = find_pii(text, names=True)
    assert all(0 <= a.start < a.end <= b.start for a, b in zip(found, found[1:]))
    once = redact(text, names=True)
    assert redact(once, names=True) == once
    counted = pii_report(text, names=True)
    assert counted['has_pii'] == bool(found) == (once != text)

@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=st.one_of(st.sampled_from(string.ascii_letters + ' .,@-_\n[]#'), st.characters()), max_size=200))
def test_any_text_is_read(text):
    for f in find_pii(text, names=True): assert 0 <= f.start < f.end <= len(text)

@pytest.mark.parametrize('text', ['', ' ', '\n', '\x00', '\ud800', '.', '@', '@@@', '[]', 'A', 'é', '東京', '👩‍👧 Anna', '@' + 'a' * 500, "'" * 50, '-' * 50])
def test_odd_texts_are_read(text): assert isinstance(redact(text, names=True), str)

def test_nested_values_and_records_are_masked():
    assert redact_obj({'who': ['Maria Torres'], 'n': 3}, names=True) == {'who': ['[PERSON]'], 'n': 3}
    section = Section('4f1c0a9be2d7#0', '4f1c0a9be2d7', 'Letter', 'note:x', 'note', 'Letter', 'Maria Torres called.')
    assert gate(section, 'redact', names=True).text == '[PERSON] called.'
    assert gate(section, 'refuse', names=True).pii == {'person': 1}
    assert gate(section, 'redact').text == 'Maria Torres called.'

def test_the_vault_masks_names_when_asked(tmp_path):
    with Vault(tmp_path/'v.db') as vault:
        told = vault.note('Maria Torres keeps the boats on the river.', title='boats')
        assert 'Maria' in repr(vault.search('boats', pii='redact'))
        assert 'Maria' not in repr(vault.search('boats', pii='redact', pii_ner=True))
        assert '[PERSON] keeps' in vault.read(told['doc_id'] + '#0', pii='redact', pii_ner=True)['text']

# ---- time

def steps_of(text):
    "Calls of Python functions while the names of `text` are found: the same on a busy machine."
    pii_names.forget_words()
    count = 0
    def tick(frame, event, arg):
        nonlocal count
        count += event in ('call', 'c_call')
    sys.setprofile(tick)
    try: list(pii_names.names_in(text))
    finally: sys.setprofile(None)
    return count

HOSTILE = {'caps': 'Ab ', 'initials': 'J. ', 'hyphens': 'A-', 'humps': 'AbCd', 'handles': '@a_b ', 'ats': 'a@', 'digits': '1 Ab ', 'names': 'Maria Torres ', 'lines': '\n', 'quotes': "O'", 'masks': '[PERSON] Maria ', 'of': 'Anna de la ',
    'base64': 'QWxhZGRpbjpvcGVuIHNlc2FtZQ'}

@pytest.mark.parametrize('kind', HOSTILE)
def test_time_is_linear_in_the_text(kind):
    piece = HOSTILE[kind]
    small, large = (piece * (size // len(piece)) for size in (6_000, 24_000))
    steps_of(small)
    assert steps_of(large) < 5.5 * steps_of(small) + 2_000

def test_a_text_of_a_million_characters_is_read_to_its_end():
    text = 'the river runs along the lake. ' * 32_000 + 'Please call Mrs. Maria Torres.'
    assert named(text)[-1].endswith('Maria Torres')

# ---- what closes the gate

@pytest.fixture
def shipped(tmp_path, monkeypatch):
    "The data of the model in a folder of its own, to be broken."
    folder = tmp_path/'data'/'pii'
    shutil.copytree(DATA, folder)
    monkeypatch.setattr(pii_words.resources, 'files', lambda package: tmp_path)
    def fresh():
        for cached in (pii_names.model, pii_words.lists): cached.cache_clear()
        pii_names.forget_words()
    fresh()
    yield folder
    monkeypatch.undo()
    fresh()

def spoil(path, how):
    raw = path.read_bytes()
    if how == 'missing': path.unlink()
    elif how == 'empty': path.write_bytes(b'')
    elif how == 'cut': path.write_bytes(raw[:len(raw) // 2])
    elif how == 'flipped': path.write_bytes(raw[:-40] + bytes([raw[-40] ^ 255]) + raw[-39:])
    elif how == 'not packed': path.write_bytes(lzma.decompress(raw))
    elif how == 'other content': path.write_bytes(lzma.compress(lzma.decompress(raw)[:-3] + b'abc'))

@pytest.mark.parametrize('how', ['missing', 'empty', 'cut', 'flipped', 'not packed', 'other content'])
@pytest.mark.parametrize('name', [pii_names.MODEL, pii_words.LISTS])
def test_a_model_that_cannot_be_read_closes_the_gate(shipped, name, how):
    assert named('Please call Mrs. Maria Torres.')
    spoil(shipped/name, how)
    for cached in (pii_names.model, pii_words.lists): cached.cache_clear()
    for call in (find_pii, pii_report, redact, redact_obj):
        for text in ('Please call Mrs. Maria Torres.', '', 'nothing'):
            with pytest.raises(AgentError, match='install ramabana again') as told: call(text, names=True)
            assert 'Torres' not in str(told.value)
    with pytest.raises(AgentError): gate({'text': 'Maria Torres'}, 'redact', names=True)
    assert redact('ann@example.org') == '[EMAIL]'      # without names nothing of it is read

# ---- what is shipped

def test_the_model_is_small():
    files = {p.name: p.stat().st_size for p in DATA.iterdir()}
    assert {pii_names.MODEL, pii_words.LISTS, 'NOTICE'} <= set(files)
    assert sum(files.values()) <= 600_000

def test_a_text_without_names_asked_reads_no_model():
    code = 'from ramabana import pii, pii_names, pii_words; pii.redact("ann@example.org"); print(pii_names.model.cache_info().currsize, pii_words.lists.cache_info().currsize)'
    assert subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout.split() == ['0', '0']
