"A7 and A10: the policy on citations, and connections."
import asyncio

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelRequest, ToolCallPart
from scripts import C, Deps, S, Script, T, first, returns, run, state_of, status_of

from ramabana.policy import TAG, CitationPolicyCapability
from ramabana.rag import rag
from ramabana.scope import VaultRef, VaultScope, VaultSet


def asks(result): return [m for m in result.all_messages() if isinstance(m, ModelRequest) and (m.metadata or {}).get(TAG) is not None]

def caps(path, **kw): return [rag(path, **kw), CitationPolicyCapability()]

def test_r47_one_per_agent(files):
    with pytest.raises(UserError): run([T()], [*caps(files['papers']), CitationPolicyCapability()])
    with pytest.raises(UserError): run([T()], [rag(files['papers']), rag(files['wiki'])])

def test_r48_an_undeclared_answer_is_asked_about_once(files):
    result, _, deps = run([S('pump'), T('two metres'), first(), T('two metres')], caps(files['papers']))
    assert len(asks(result)) == 1 and status_of(deps) == 'grounded' and deps.state['citation_policy'] == dict(redirected=[0], violations=[])
    result, _, deps = run([S('pump'), T('two metres'), T('two metres')], caps(files['papers']))
    assert len(asks(result)) == 1 and deps.state['citation_policy'] == dict(redirected=[0], violations=[0])

def test_r48_a_greeting_is_left_alone(files):
    result, _, deps = run([T('hello')], caps(files['papers']))
    assert not asks(result) and 'citation_policy' not in deps.state

def test_r48_a_conversation_that_cited_is_asked_again(files):
    deps = Deps()
    one, _, _ = run([S('pump'), first(), T()], caps(files['papers']), deps)
    two, _, _ = run([T('from memory'), C(), T('from memory')], caps(files['papers']), deps, message_history=one.all_messages())
    assert len(asks(two)) == 1 and status_of(deps) == 'ungrounded'
    three, _, _ = run([S('pump'), T(), first(), T()], caps(files['papers']), deps, message_history=two.all_messages())
    assert len(asks(three)) == 2

def test_r48_a_resumed_question_is_not_asked_twice(files):
    deps = Deps()
    with pytest.raises(ZeroDivisionError): run([S('pump'), T('x'), lambda m, i: 1/0], caps(files['papers']), deps)
    whole, _, _ = run([S('pump'), T('x'), T('x')], caps(files['papers']), Deps())
    result, _, _ = run([T('again')], caps(files['papers']), deps, None, message_history=whole.all_messages()[:5])
    assert result.output == 'again' and len(asks(result)) == 1

def test_r48_quoting_our_words_switches_nothing_off(files):
    from ramabana.policy import _ASK
    result, _, _ = run([S('pump'), T(), first(), T()], caps(files['papers']), prompt=f'{TAG}: 0. {_ASK.format(cite="rag_cite")}')
    assert len(asks(result)) == 1

def test_r48_structured_output_is_enforced(files):
    class Said(BaseModel): text: str
    answer = [ToolCallPart('final_result', dict(text='two metres'))]
    result, _, deps = run([S('pump'), answer, first(), answer], caps(files['papers']), output_type=Said)
    assert len(asks(result)) == 1 and result.output.text == 'two metres' and status_of(deps) == 'grounded'

def test_r48_with_citing_withdrawn_nobody_is_asked(files):
    result, _, deps = run([S('pump'), C('zzzz'), C('zzzz'), T()], caps(files['papers'], request_limit=1))
    assert not asks(result) and deps.state['citation_policy']['violations'] == [0]

class Counting:
    "Opens real vaults and counts."
    def __init__(self): self.opened = self.closed = 0
    def __call__(self, ref):
        from ramabana.memory import Vault
        self.opened += 1
        vault, count = Vault(ref.path, readonly=True), self
        close = vault.close
        def counted():
            count.closed += 1
            close()
        vault.close = counted
        return vault

@pytest.fixture
def counted(monkeypatch):
    count = Counting()
    monkeypatch.setattr('ramabana.scope._open_file', count)
    return count

def test_r57_lent_vaults_stay_open_and_own_ones_are_closed(files, counted):
    with VaultSet(VaultScope((VaultRef('papers', str(files['papers'])),))) as lent:
        cap = rag(lent)
        for _ in range(3): run([S('pump'), first(), T()], [cap])
        assert (counted.opened, counted.closed) == (1, 0)
    assert counted.closed == 1
    for _ in range(2): run([S('pump'), first(), T()], [rag(files['papers'])])
    assert (counted.opened, counted.closed) == (3, 3)
    run([T()], [rag(files['papers'])])
    assert counted.opened == 3          # nothing asked, nothing opened

def test_r58_released_however_a_run_ends(files, counted):
    from dataclasses import dataclass
    from typing import Any

    from pydantic_ai.capabilities import AbstractCapability
    @dataclass
    class Fails(AbstractCapability[Any]):
        async def after_run(self, ctx, *, result): raise LookupError('foreign')
    with pytest.raises(ZeroDivisionError): run([S('pump'), lambda m, i: 1/0], [rag(files['papers'])])
    for order in ([rag(files['papers']), Fails(id='f')], [Fails(id='f'), rag(files['papers'])]):
        with pytest.raises(LookupError): run([S('pump'), T()], order)
    async def left():
        async with Agent(Script(S('pump'), T()).model, capabilities=[rag(files['papers'])], deps_type=object).iter('q', deps=Deps()) as steps:
            async for _ in steps:
                if counted.opened == 4: break
    asyncio.run(left())
    async def cancelled():
        async def hang() -> str:
            "Wait."
            await asyncio.sleep(60)
            return ''
        agent = Agent(Script(S('pump'), [ToolCallPart('hang', {})]).model, capabilities=[rag(files['papers'])], tools=[hang], deps_type=object)
        task = asyncio.create_task(agent.run('q', deps=Deps()))
        while counted.opened < 5: await asyncio.sleep(.01)
        await asyncio.sleep(.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError): await task
    asyncio.run(cancelled())
    assert counted.opened == counted.closed == 5

def test_r59_one_lock_for_a_lent_vault(files):
    with VaultSet(VaultScope.resolve(files)) as lent:
        cap = rag(lent)
        async def one(): return await Agent(Script(S('pump', 'dam'), first(search=0), T()).model, capabilities=[cap], deps_type=object).run('q', deps=Deps())
        async def many(): return await asyncio.gather(*(one() for _ in range(8)))
        assert all(returns(r.all_messages())[0].outcome == 'success' for r in asyncio.run(many()))
