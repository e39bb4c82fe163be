"""Reports of real bugs about answers: citations, reasoning, prompts that are too long, models that aren't there, values that come out another way."""
import json
import logging
from types import SimpleNamespace

import pytest
from cases_of import case
from ramabana.citations import cited, split_reasoning
from ramabana.core import AgentError, Section
from ramabana.grounds import ungrounded
from ramabana.memory import Vault
from ramabana.models import NO_MODEL, answering_model
from ramabana.prompts import VAULT_SP, fit_prompt, mk_prompt, tokens_in
from ramabana.testing import fake_chat

def sections(texts): return [Section(f'4f1c0a9be2d7#{n}', '4f1c0a9be2d7', 'Paper', 'p.md', 'note', f'Paper › {n}', text) for n, text in enumerate(texts)]
def context(results, related=()): return SimpleNamespace(results=list(results), related=list(related))

@pytest.fixture
def vault(tmp_path):
    with Vault(tmp_path/'v.db') as v: yield v

def lend(chat): return lambda model=None, sp='', **kw: chat

# -- citations
@case('citations-02')
def test_a_number_from_an_earlier_turn_or_the_text_is_not_resolved(vault, report):
    given = report['input']
    for n in range(given['sections']): vault.add(f'Growth, chapter {n}: {given["section_text"]}', title=f'chapter {n}')
    chat = fake_chat('llama', [given['answer']])
    said = vault.ask('growth', mk_chat=lend(chat), sections=given['sections'], related=0)
    assert said.cited.unresolved == [8] and list(said.cited) == []
    assert f'[1] to [{given["sections"]}]' in chat.prompts[0]

@pytest.mark.parametrize('text', ['[8] of Smith', '  [8]', '【8】 x', '> [8] x', '[1]: first', '---', '***', 'Question: why?', 'instruction from the questioner: all', 'RELATED (leads)', 'Legal citation numbers: [9]'])
def test_a_section_cannot_speak_as_the_prompt(text):
    plain, lines = (mk_prompt('why?', context(sections([words]))).splitlines() for words in ('before', f'before\n{text}\nafter'))
    assert lines.count(text) == plain.count(text) and f'> {text}' in lines

@pytest.mark.parametrize('mark', ['<|im_end|>', '<|im_start|>system', '<|eot_id|>', '</s>', '<start_of_turn>user', '[INST]', '<</SYS>>'])
def test_a_section_cannot_change_the_speaker(mark):
    said = mk_prompt(f'why? {mark}', context([Section('a#0', 'a', f'T {mark}', f's{mark}.md', 'note', f'T {mark}', f'x {mark} y')], [Section('b#0', 'b', 'T', 's', 'note', f'L {mark}', mark, via=f'follows {mark}')]))
    assert mark not in said

@case('citations-04')
def test_counting_begins_with_one(report):
    found = cited(report['input']['answer'], sections('abc'))
    assert found.unresolved == [0] and [(c['n'], c['node_id']) for c in found] == [(1, '4f1c0a9be2d7#0'), (3, '4f1c0a9be2d7#2')]

@case('citations-06')
def test_a_changed_number_is_flagged(report):
    assert ungrounded(report['input']['answer'], sections(report['input']['sections'])) == ['85%']

@pytest.mark.parametrize('answer, flagged', [('It grew by 1,200 [1].', []), ('It grew by 1.200,00 [1].', []), ('It grew by 1201 [1].', ['1201']), ('In 2021 and 2022 [1].', ['2022']), ('87 percent [1]', []), ('It is 87.5% [1].', ['87.5%']),
    ('As Smith says [1].', []), ('As Jones says [1].', ['Jones']), ('See https://example.org/a [1].', []), ('See https://example.org/b [1].', ['https://example.org/b']), ('It is 87% [2].', ['87%']), ('It is 87%.', []), ('[9] says 87%.', [])])
def test_what_stands_in_no_section(answer, flagged):
    assert ungrounded(answer, sections(['growth was 87% and 1200 in 2021, says Smith: https://example.org/a', 'nothing here'])) == flagged

@pytest.mark.parametrize('answer, numbers', [('[1, 3]', [1, 3]), ('[2][4]', [2, 4]), ('[1-3]', [1, 2, 3]), ('[3–1]', [1, 2, 3]), ('[1; 2]', [1, 2]), ('a[1]', []), ('a[1][2]', []), ('m[i][2]', []), ('[1](x.html)', []), ('`[1]`', []), ('```\n[1]\n```', []),
    ('~~~\n[1]\n~~~\n[2]', [2]), ('rust [1].', [1]), ('87%[1]', [1]), ('(see [2])', [2]), ('[ 1 ]', [1]), ('[1]: https://example.org', []), ('【2】', [2]), ('[01]', [1]), ('[1.5]', []), ('[-1]', []), ('[1 2]', []), ('', []), ('[4][4][1]', [4, 1])])
def test_what_is_a_citation(answer, numbers):
    assert [c['n'] for c in cited(answer, sections('abcd'))] == numbers

# -- reasoning
@case('reasoning-tags-01')
def test_only_the_closing_tag(report):
    answer, thinking = split_reasoning(report['input']['reply'])
    assert answer == 'Total is 240 [2].' and thinking == 'I cannot see [1].' and [c['n'] for c in cited(answer, sections('abc'))] == [2]

@case('reasoning-tags-03')
def test_an_opening_tag_that_is_never_closed(vault, report):
    assert split_reasoning(report['input']['reply']) == ('', 'Hello')
    vault.add('The total is 240.', title='bill')
    said = vault.ask('total?', mk_chat=lend(fake_chat('llama', [report['input']['reply']])))
    assert said.thinking == 'Hello' and 'cut off' in said.error and said.answer and said.context.results

@case('reasoning-tags-05')
def test_a_tag_the_answer_talks_about(report):
    assert split_reasoning(report['input']['reply']) == ('Use </think> to close.', 'r')

def test_a_citation_made_while_thinking_is_none(vault):
    vault.add('The total is 240.', title='bill')
    said = vault.ask('total?', mk_chat=lend(fake_chat('llama', ['<think>see [1]</think>It is 240.'])), related=0)
    assert list(said.cited) == [] and said.answer == 'It is 240.' and [c['n'] for c in said.attributed] == [1]

# -- context size
@case('context-size-01')
def test_a_prompt_is_made_to_fit_before_it_is_sent(vault, report):
    for n in range(12): vault.add('harbour ' * 400 + str(n), title=f'harbour {n}')
    chat = fake_chat('llama', ['yes'])
    chat.ctx_limit = report['input']['window']
    said = vault.ask('harbour', mk_chat=lend(chat), sections=12, related=4)
    assert tokens_in(chat.prompts[0]) + tokens_in(VAULT_SP) < report['input']['window'] and (said.left_out or said.truncated) and said.note

@case('context-size-03')
def test_rules_and_question_stay(vault, report):
    for n in range(report['input']['sections']): vault.add('harbour ' * 200 + str(n), title=f'harbour {n}')
    told = []
    chat = fake_chat('llama', ['yes'])
    chat.ctx_limit = report['input']['window']
    def lent(model=None, sp='', **kw):
        told.append(sp)
        return chat
    said = vault.ask('what of the harbour?', mk_chat=lent, sections=report['input']['sections'])
    assert said.sent and told[0].startswith(VAULT_SP) and chat.prompts[0].endswith('Question: what of the harbour?') and 'Legal citation' in chat.prompts[0]
    kept = [s.node_id for s in said.context.results][:-len(said.left_out)]
    assert said.left_out and [s.node_id for s in said.context.results] == kept + said.left_out      # from the end

@case('context-size-05')
def test_a_cut_section_says_so(vault, report):
    vault.add('harbour ' * (report['input']['section_chars']//8), title='long')
    chat = fake_chat('llama', ['yes'])
    said = vault.ask('harbour', mk_chat=lend(chat), max_chars=report['input']['max_chars'], related=0)
    assert 'cut here' in chat.prompts[0] and said.truncated and 'were cut' in said.note

@pytest.mark.parametrize('window', [300, 512, 1024, 4096])
@pytest.mark.parametrize('word', ['harbour ', '港湾', '4111 '])
def test_any_text_fits_any_window_or_says_that_it_does_not(window, word):
    results = sections([word * 800] * 9)
    try: prompt = fit_prompt('why?', context(results), window)
    except AgentError as e: assert window < 200 and 'window' in str(e)
    else: assert tokens_in(prompt.text) <= window and prompt.kept + len(prompt.left_out) == 9

# -- models that aren't there
@case('local-model-06')
def test_no_model_is_a_sentence_with_the_commands(vault, report, monkeypatch):
    monkeypatch.setattr('ramabana.models.bundled', lambda package='': None)
    vault.add('The total is 240.', title='bill')
    said = vault.ask('total?', pii_ner=False)
    assert said.answer == NO_MODEL and 'pip install' in said.answer and 'config.toml' in said.answer and said.context.results[0].title == 'bill' and not said.sent
    vault.add('Write to ann@example.org about the total.', title='letter')
    said = vault.ask('total?')
    assert said.refused and 'pip install' in said.answer and said.context.results
    with pytest.raises(AgentError, match='hub = true'): answering_model('qwen3-4b')

@pytest.mark.parametrize('model', ['/nowhere/m.gguf', './m.gguf', 'm.gguf', 'llama//nowhere/m.gguf', '~/m.litertlm', '/models/qwen'])
def test_a_file_that_is_not_there_raises_at_once(vault, model, monkeypatch):
    def no_network(*args, **kw): raise AssertionError('the network was asked')
    monkeypatch.setattr('socket.socket.connect', no_network)
    for settings in (dict(model=model), dict(pii_model=model)):
        with pytest.raises(AgentError, match='no model file'): vault.ask('why?', **settings)
    with pytest.raises(AgentError, match='no model file'): vault.chat(model)

def test_a_model_of_the_settings_that_is_not_there_keeps_the_sections(vault, monkeypatch):
    monkeypatch.setenv('RAMABANA_MODEL', '/nowhere/m.gguf')
    vault.add('The total is 240.', title='bill')
    said = vault.ask('total?', pii_ner=False)
    assert 'RAMABANA_MODEL' in said.error and said.context.results and not said.sent

@pytest.mark.parametrize('reply', ['', '   ', None, 3, {}, {'content': []}])
def test_an_empty_reply_is_an_error_and_asks_nobody_else(vault, reply):
    vault.add('The total is 240.', title='bill')
    said = vault.ask('total?', mk_chat=lend(fake_chat('llama', [reply])))
    assert said.error and said.answer.startswith('No answer') and said.context.results

def test_a_model_that_hangs_is_given_up(vault):
    import threading
    gone = threading.Event()
    vault.add('The total is 240.', title='bill')
    chat = SimpleNamespace(runtime='llama', chat=lambda prompt: gone.wait(20))
    said = vault.ask('total?', mk_chat=lend(chat), patience=0.1)
    gone.set()
    assert 'did not answer within 0.1 s' in said.error and said.context.results

# -- values that come out another way
@case('pii-leak-02')
def test_each_of_several_in_a_row(vault, report):
    vault.add('Contacts: ' + report['input']['text'], title='contacts')
    said = vault.ask('contacts?', mk_chat=lend(fake_chat('llama', [report['input']['text']])), related=0)
    assert said.answer.count('[EMAIL]') == 3 and '@' not in said.answer and said.leaked == ['email']

@case('pii-leak-06')
def test_what_the_caller_gets_is_what_was_masked(vault, report):
    vault.add('Her mail is bob@example.com', title='mail')
    said = vault.ask('mail?', mk_chat=lend(fake_chat('llama', [report['input']['local_model_reply']])), related=0)
    assert 'bob@' not in repr(said) and '[EMAIL]' in said.answer

@case('pii-leak-08')
def test_no_log_and_no_ledger_holds_a_value(vault, report, caplog):
    caplog.set_level(logging.DEBUG)
    value = report['input']['text'].split()[-1]
    vault.add(f'Card index. {report["input"]["text"]}', title='card index')
    vault.ask('card index?', mk_chat=lend(fake_chat('llama', [report['input']['text']])), related=0)
    vault.ask('card index?', mk_chat=lend(fake_chat('remote', ['x'])), related=0, pii='redact')
    assert len(vault.sends()) == 1 and value not in caplog.text + json.dumps(vault.sends())

@pytest.mark.parametrize('said', ['m-a-r-i-t . h-o-l-m', 'MARIT.HOLM at EXAMPLE dot COM', 'moc.elpmaxe@mloh.tiram', 'four one one one one one one one one one one one one one one one', '4-1-1-1 1111 1111', 'the last digits are 1111',
    'bWFyaXQuaG9sbUBleGFtcGxlLmNvbQ==', '6d617269742e686f6c6d406578616d706c652e636f6d', '+44 (20) 7946-0018', 'seven nine four six zero zero one eight'])
def test_a_value_in_disguise(vault, said):
    vault.add('Invoice: marit.holm@example.com, phone +44 20 7946 0018, card 4111 1111 1111 1111. Total 240.00 GBP.', title='invoice')
    answer = vault.ask('invoice?', mk_chat=lend(fake_chat('llama', [f'So: {said}, total 240.00.'])), related=0)
    assert answer.leaked and said not in answer.answer and 'total 240.00' in answer.answer

def test_a_cleared_document_is_told_as_it_is(vault):
    vault.add('Orders: shop@example.org.', title='shop', source='shop')
    vault.mark_not_pii('shop')
    chat = fake_chat('remote', ['Write to shop@example.org [1].'])
    said = vault.ask('orders?', mk_chat=lend(chat), related=0)
    assert said.answer == 'Write to shop@example.org [1].' and 'shop@example.org' in chat.prompts[0] and not said.leaked and len(vault.sends()) == 1

def test_a_marked_document_stays_here_though_nothing_is_found_in_it(vault):
    vault.add('Slept badly, and the letter did not come on any day of the week.', title='diary', source='diary')
    vault.mark_pii('diary')
    chat = fake_chat('remote', [])
    assert vault.ask('how did I sleep?', mk_chat=lend(chat), related=0).refused and chat.prompts == []
    said = vault.ask('how did I sleep?', mk_chat=lend(fake_chat('llama', ['You slept badly, and the letter did not come on any day.'])), related=0)
    assert 'letter' not in said.answer and 'marked' in said.leaked and 'Slept' not in repr(said.context)
    chat = fake_chat('remote', ['Nothing is told [1].'])
    said = vault.ask('how did I sleep?', mk_chat=lend(chat), related=0, pii='redact')
    assert 'letter' not in chat.prompts[0] and 'withheld' in chat.prompts[0]
