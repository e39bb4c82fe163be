"A1: what a question may cost."
import asyncio

import pytest
from pydantic_ai import Agent
from scripts import C, Deps, S, Script, T, first, instructions_of, returns, run, state_of, status_of

from ramabana.budget import SearchBudget
from ramabana.rag import rag


def spent(*rounds, limit=5):
    budget = SearchBudget(limit)
    served = [budget.charge(i) for i, n in enumerate(rounds) for _ in range(n)]
    return budget.spent, sum(served)

@pytest.mark.parametrize('rounds, units, served', [((1, 1, 1), 3, 3), ((3,), 1, 3), ((4,), 2, 4), ((7,), 3, 7), ((3,)*5, 5, 15), ((3,)*6, 5, 15)])
def test_r1_one_unit_per_burst(rounds, units, served): assert spent(*rounds) == (units, served)

def test_r1_limit_zero_refuses_all_and_says_so_at_once(files):
    _, script, _ = run([S('pump'), T()], [rag(files['papers'], max_searches=0)])
    assert 'is spent' in instructions_of(script.infos[0])
    assert returns(script.sent[1])[0].outcome == 'failed'

def test_r2_a_refused_round_stays_refused(files):
    """The peer's counter overshoots by one per refused round; ours never passes the limit."""
    budget = SearchBudget(5, spent=4)
    assert [budget.charge(9) for _ in range(5)] == [True]*3 + [False]*2 and budget.spent == 5 and not budget.charge(10)
    result, _, _ = run([S('pump')]*4 + [S('p', 'q', 'r', 's', 't'), T()], [rag(files['papers'])])
    assert [p.outcome for p in returns(result.all_messages())] == ['success']*7 + ['failed']*2

def test_r3_a_refusal_is_a_failed_result_and_no_evidence(files):
    result, _, deps = run([S('pump'), S('valve'), S('dam'), T()], [rag(files['papers'], max_searches=1)])
    assert result.output == 'done' and [p.outcome for p in returns(result.all_messages())] == ['success', 'failed', 'failed']
    assert state_of(deps).evidence.latest_evidence_epoch == 2

def test_r4_budgets_start_anew_in_every_run(files):
    cap, deps = rag(files['papers'], max_searches=1), Deps()
    one, _, _ = run([S('pump'), S('valve'), T()], [cap], deps)
    two, _, _ = run([S('pump'), T()], [cap], deps, message_history=one.all_messages())
    assert [p.outcome for p in returns(two.all_messages())] == ['success', 'failed', 'success'] and cap._run is None

def test_r4_runs_at_once_do_not_see_each_other(files):
    cap = rag(files['papers'], max_searches=1)
    async def one(): return await Agent(Script(S('pump'), S('valve'), T()).model, capabilities=[cap], deps_type=object).run('q', deps=Deps())
    async def many(): return await asyncio.gather(*(one() for _ in range(20)))
    assert all([p.outcome for p in returns(r.all_messages())] == ['success', 'failed'] for r in asyncio.run(many()))

def test_r5_siblings_run_in_order_and_never_overlap(files):
    from dataclasses import dataclass

    from ramabana.rag import RAGCapability
    log = []
    @dataclass
    class Slow(RAGCapability):
        async def fetch(self, query, sources, limit):
            log.append(f'+{query}')
            await asyncio.sleep(.01)
            log.append(f'-{query}')
            return []
    run([S('a', 'b', 'c'), T()], [Slow(id='rag', scope=rag(files['papers']).scope)])
    assert log == ['+a', '-a', '+b', '-b', '+c', '-c']

def test_r6_siblings_do_not_repeat_text(files):
    result, _, deps = run([S('pump start level', 'pump level'), S('pump level'), T()], [rag(files['papers'])])
    one, two, three = [p.content for p in returns(result.all_messages())]
    assert 'under two metres' in one and 'under two metres' not in two and 'also matched, shown above: [' in two
    assert 'under two metres' in three
    assert {len(v) for v in state_of(deps).searches.values()} == {3}

def test_r7_spent_tools_stay_declared(files):
    _, script, _ = run([S('pump'), S('pump'), T()], [rag(files['papers'], max_searches=1)])
    assert all('rag_search' in {t.name for t in info.function_tools} for info in script.infos)

def test_r8_the_notice_comes_with_every_request_after_the_budget_is_spent(files):
    """We also say how many are left when it is two or fewer."""
    _, script, _ = run([S('a'), S('b'), S('c'), T()], [rag(files['papers'], max_searches=3)])
    texts = [instructions_of(i) for i in script.infos]
    assert 'is spent' not in ' '.join(texts[:3]) and '2 of 3 calls' in texts[1] and '1 of 3 calls' in texts[2]
    assert 'The budget of rag_search is spent' in texts[3] and 'rag_cite' in texts[3]

def test_r8_the_notice_points_at_what_is_left():
    from ramabana.rag_text import notice
    limits = dict(analysis_search=5, analysis_execute_code=15)
    assert 'still use analysis_execute_code' in notice(dict(analysis_search=0, analysis_execute_code=15), limits, 'analysis_cite')
    both = notice(dict(analysis_search=0, analysis_execute_code=0), limits, 'analysis_cite')
    assert 'analysis_cite' in both and 'still use' not in both

def searching(messages, info):
    return S('pump') if 'rag_search' in {t.name for t in info.function_tools} else C() if 'rag_cite' in {t.name for t in info.function_tools} else T()

def test_r10_at_the_request_limit_citing_stays_for_two_requests(files):
    result, script, _ = run([searching]*6, [rag(files['papers'], request_limit=2)])
    names = [{t.name for t in i.function_tools} for i in script.infos]
    assert names == [{'rag_search', 'rag_cite'}]*2 + [{'rag_cite'}]*2 + [set()] and result.output == 'done'
    assert 'only rag_cite remains' in instructions_of(script.infos[2]) and 'no tool is left' in instructions_of(script.infos[4])

def test_r10_tools_of_others_are_never_withdrawn(files):
    def weather() -> str:
        "The weather."
        return 'rain'
    def step(messages, info):
        from pydantic_ai.messages import ToolCallPart
        return [ToolCallPart('weather', {})]
    _, script, _ = run([S('pump')] + [step]*5 + [first(), T()], [rag(files['papers'], request_limit=1)], tools=[weather])
    assert all('weather' in {t.name for t in i.function_tools} for i in script.infos)
    assert 'rag_cite' in {t.name for t in script.infos[-2].function_tools}   # foreign requests used up no grace

def test_r40_status_through_a_whole_run(files):
    """Search and citation of one response are missing: it cannot have read what it cites."""
    cap = rag(files['papers'])
    for steps, status in (([S('pump'), first(), T()], 'grounded'), ([S('pump'), first(), S('dam'), T()], 'missing'), ([S('pump'), C(), T()], 'ungrounded'), ([S('pump'), first(), C(), T()], 'grounded')):
        assert status_of(run(steps, [cap])[2]) == status

def test_r9_a_budget_of_another_tool_joins_the_notice(files):
    from dataclasses import dataclass

    from ramabana.rag import RAGCapability
    @dataclass
    class Coding(RAGCapability):
        @property
        def budgets(self): return super().budgets | dict(rag_execute_code=(15, 15))
    _, script, _ = run([S('pump'), T()], [Coding(id='rag', scope=rag(files['papers']).scope, max_searches=1)])
    assert 'You can still use rag_execute_code' in instructions_of(script.infos[1])
