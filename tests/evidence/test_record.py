"A5 and A6: questions, epochs, status, citing."
import json

import pytest
from pydantic_ai import Agent
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from scripts import C, Deps, S, Script, T, first, ids_of, returns, run, state_of, status_of

from ramabana.evidence import CapabilityEvidenceRecord, Citation, EvidenceRef, RAGState, citation_status, repair_id, verify_citations
from ramabana.rag import evidence_sources, rag


def test_r32_the_record_holds_ids_only(files):
    _, _, deps = run([S('pump'), first(), T()], [rag(files['papers'])])
    assert 'two metres' not in json.dumps(deps.state['rag']['evidence'])

def test_r33_identity_of_first_second_and_merged_questions(files):
    cap, deps = rag(files['papers']), Deps()
    one, _, _ = run([S('pump'), first(), T()], [cap], deps)
    assert state_of(deps).evidence.question == 0 and len(one.all_messages()) == 6
    run([S('pump'), first(), T()], [cap], deps, message_history=one.all_messages())
    assert state_of(deps).evidence.question == 6
    deps = Deps()
    two = [ModelRequest.user_text_prompt('a'), ModelRequest.user_text_prompt('b'), ModelResponse(parts=[TextPart('x')])]
    run([S('pump'), T()], [cap], deps, message_history=two)
    evidence = state_of(deps).evidence
    assert evidence.question < evidence.latest_evidence_epoch

def test_r33_two_capabilities_agree(files):
    from dataclasses import dataclass
    from typing import ClassVar

    from ramabana.rag import RAGCapability
    @dataclass
    class Other(RAGCapability): namespace: ClassVar[str] = 'other'
    caps = [rag(files['papers']), Other(id='other', scope=rag(files['wiki']).scope)]
    deps = Deps()
    run([S('pump'), first(), S('dam', name='other'), T()], caps, deps)
    records = [state_of(deps, k).evidence for k in ('rag', 'other')]
    assert records[0].question == records[1].question == 0 and citation_status(records, 0) == 'missing'   # cited, then the other one searched
    deps = Deps()
    run([S('dam', name='other'), S('pump'), first(), T()], caps, deps)
    assert citation_status([state_of(deps, k).evidence for k in ('rag', 'other')], 0) == 'grounded'

def test_r34_a_pending_search_is_resumed(files):
    """The peer remembers the count from the last model request and raises here: its second search counts as behind the first. We read the count inside the call."""
    cap, deps = rag(files['papers']), Deps()
    with pytest.raises(ZeroDivisionError): run([S('pump'), lambda m, i: 1/0], [cap], deps)
    whole, _, _ = run([S('pump'), S('valve'), T()], [cap], Deps())
    history = whole.all_messages()[:4]                    # ends with a search that nobody has run
    assert isinstance(history[-1].parts[0], ToolCallPart)
    result, _, _ = run([first(), T('resumed')], [cap], deps, None, message_history=history)
    evidence = state_of(deps).evidence
    assert result.output == 'resumed' and evidence.question == 0 and evidence.latest_evidence_epoch == 4 and status_of(deps) == 'grounded'

@pytest.mark.parametrize('late', [lambda r: r.begin_question(3), lambda r: r.note_evidence(3), lambda r: r.declare([], 3)])
def test_r35_only_forwards(late):
    record = CapabilityEvidenceRecord()
    record.begin_question(0)
    record.note_evidence(2)
    record.declare([], 4)
    before = record.model_dump()
    with pytest.raises(ValueError, match='must only grow'): late(record)
    assert record.model_dump() == before
    record.declare([], 4)
    record.note_evidence(4)
    record.begin_question(4)

def test_r35_a_declaration_before_any_question():
    with pytest.raises(ValueError, match='before any question'): CapabilityEvidenceRecord().declare([], 0)

def test_r36_a_new_question_clears_declaration_and_epoch():
    record = CapabilityEvidenceRecord()
    record.begin_question(0)
    record.note_evidence(2, ['a'])
    record.declare([EvidenceRef(capability='rag', chunk_id='a')], 4)
    record.begin_question(6)
    assert record.declaration is None and record.latest_evidence_epoch == 0 and list(record.occurrences) == ['a'] and citation_status([record], 6) == 'missing'

def test_r37_a_resumption_without_its_state_is_refused(files):
    cap = rag(files['papers'])
    whole, _, _ = run([S('pump'), C('zzzz'), first(), T()], [cap], Deps())
    history = whole.all_messages()
    for cut in (2, 5): # a search that was not run; a citation that was sent back
        with pytest.raises(RuntimeError, match='carried'): run([T()], [cap], Deps(), None, message_history=history[:cut])
    assert run([T()], [cap], Deps(), None, message_history=history[:3])[0].output == 'done'   # ordinary returns: a new question
    seeded = Deps(dict(rag=dict(sources=['papers'])))
    with pytest.raises(RuntimeError): run([T()], [cap], seeded, None, message_history=history[:2])

def test_r38_only_an_answer_closes_a_question(files):
    from pydantic import BaseModel
    from pydantic_ai import DeferredToolRequests, Tool
    class Said(BaseModel): text: str
    def drop(id: str) -> str:
        "Drop it."
        return 'gone'
    _, _, deps = run([S('pump'), [ToolCallPart('final_result', dict(text='x'))]], [rag(files['papers'])], output_type=Said)
    assert not state_of(deps).evidence.in_progress
    result, _, deps = run([S('pump'), [ToolCallPart('drop', dict(id='x'))]], [rag(files['papers'])], tools=[Tool(drop, requires_approval=True)], output_type=[str, DeferredToolRequests])
    assert isinstance(result.output, DeferredToolRequests) and state_of(deps).evidence.in_progress

def test_r39_declarations_widen(files):
    cap = rag(config=files)
    _, _, deps = run([S('pump'), first(0), first(1), C(), T()], [cap])
    assert len(state_of(deps).evidence.declaration.refs) == 2 and status_of(deps) == 'grounded'
    _, _, deps = run([S('pump'), first(0), S('dam'), first(1), T()], [cap])
    assert len(state_of(deps).evidence.declaration.refs) == 1
    _, _, deps = run([S('pump'), C(), first(0), T()], [cap])
    assert status_of(deps) == 'grounded'

def test_r40_the_same_response_is_too_early(files):
    cap = rag(files['papers'])
    one, _, deps = run([S('pump'), first(), T()], [cap])
    cited = state_of(deps).citations[0]
    run([S('valve') + C(cited), T()], [cap], deps, message_history=one.all_messages())
    assert status_of(deps) == 'missing'
    deps = Deps()
    one, _, _ = run([S('pump'), first(), T()], [cap], deps)
    run([C(cited), T()], [cap], deps, message_history=one.all_messages())   # from evidence it kept
    assert status_of(deps) == 'grounded' and state_of(deps).evidence.occurrences[cited].cited_in_questions == [0, 6]

def test_r41_others_read_the_run_s_own_copies(files):
    from dataclasses import dataclass
    from typing import Any

    from pydantic_ai.capabilities import AbstractCapability
    seen = []
    @dataclass
    class Reader(AbstractCapability[Any]):
        async def after_run(self, ctx, *, result):
            seen.extend((name, len(s.citation_index), s.evidence_tool_names, s.cite_available, s.state_carried) for name, s in evidence_sources(ctx).items())
            return result
    run([S('pump'), first(), T()], [Reader(id='reader'), rag(files['papers'])])
    assert seen == [('rag', 1, ('rag_search',), True, False)]

def test_r42_what_resolves_is_cited_and_the_rest_is_told(files):
    """After two refused citations of a run the third fails plainly: the peer's fourth ends the run."""
    good = lambda m, i: C('[' + ids_of(returns(m)[0].content)[0] + ']', 'f00df00df00d')
    result, _, deps = run([S('pump'), good, T()], [rag(files['papers'])])
    told = returns(result.all_messages(), 'rag_cite')[0].content
    assert 'Ignored, since never shown: f00df00df00d' in told and 'No further call' in told and len(state_of(deps).citations) == 1
    result, _, deps = run([S('pump')] + [C('nope')]*6 + [T()], [rag(files['papers'])])
    assert result.output == 'done' and [p.outcome for p in returns(result.all_messages(), 'rag_cite')][-4:] == ['failed']*4

def test_r43_citations_keep_number_and_last_rendering(files):
    _, _, deps = run([S('pump'), first(1), first(0), first(1), T()], [rag(files['papers'])])
    index = state_of(deps).citation_index
    assert sorted(c.index for c in index.values()) == [1, 2] and [index[i].index for i in state_of(deps).citations] == [1, 2]
    one = next(iter(index.values()))
    assert one.vault == 'papers' and one.title and one.content and one.node_id.startswith(one.document_id)

def test_r44_damaged_ids_are_repaired_and_others_are_not(files):
    import random
    rng, alphabet = random.Random(7), '0123456789abcdef'
    pool = [''.join(rng.choices(alphabet, k=12)) for _ in range(60)]
    def damaged(x, how):
        i = rng.randrange(11)
        return {'drop': x[:i] + x[i+1:], 'double': x[:i] + x[i] + x[i:], 'other': x[:i] + rng.choice(alphabet) + x[i+1:], 'swap': x[:i] + x[i+1] + x[i] + x[i+2:], 'three': x[:i] + x[i+3:]}[how]
    right = wrong = 0
    for how in ('drop', 'double', 'other', 'swap', 'three'):
        for _ in range(60):
            x = rng.choice(pool)
            got = repair_id(damaged(x, how), pool)
            right, wrong = right + (got == x), wrong + (got not in (x, None))
    assert wrong == 0 and right >= 297
    assert sum(repair_id(''.join(rng.choices(alphabet, k=12)), pool) is not None for _ in range(300)) <= 1
    _, _, deps = run([S('pump'), lambda m, i: C(ids_of(returns(m)[0].content)[0][:-1]), T()], [rag(files['papers'])])
    assert status_of(deps) == 'grounded'

def test_r45_ids_are_short_and_outlive_reindexing(files, tmp_path):
    from ramabana.memory import Vault
    with Vault(tmp_path/'a.db') as v:
        v.add('# One\n\nThe pump.\n\n# Two\n\nThe dam.', title='T', source='s')
        before = v.search('dam')[0].cid
        v.add('# One\n\nThe pump, changed.\n\n# Two\n\nThe dam.', title='T', source='s')
        assert v.search('dam')[0].cid == before and len(before) == 12

def test_r46_ids_inside_thinking_are_no_citation(files):
    from ramabana.citations import split_reasoning
    for reply, answer in (('I cannot see [1].</think>Total is 240 [2].', 'Total is 240 [2].'), ('<think>Hello', ''), ('<think>r</think>Use </think> to close.', 'Use </think> to close.')):
        assert split_reasoning(reply)[0].strip() == answer

def test_r49_quotes_are_checked_without_a_model():
    cited = [Citation(index=1, chunk_id='a'*12, content='The fee is  due on the FIRST of May.'), Citation(index=2, chunk_id='b'*12, content='Other.')]
    said = '"the fee is due on the first" [1], "the fee is due on the first" [2], “words that nobody ever wrote down”, "too short".'
    assert [q.verdict for q in verify_citations(said, cited)] == ['supported', 'misattributed', 'not found']
