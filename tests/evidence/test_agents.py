"A12: locality, the gate, latency, start-up, asking, approvals; and a whole run over our own documentation."
import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from scripts import C, Deps, S, Script, T, first, ids_of, returns, run, state_of

from ramabana import agents
from ramabana.core import AgentError
from ramabana.memory import Vault
from ramabana.rag import rag, remote_reason
from ramabana.scope import UnknownVaultError
from ramabana.testing import fake_chat
from ramabana.vault import VaultHost

ROOT = Path(__file__).parents[2]

@pytest.fixture
def host(files, tmp_path):
    import shutil
    shutil.copy(files['wiki'], tmp_path/'wiki.db')
    with VaultHost([tmp_path], vault=tmp_path/'wiki.db', warm=False, index=False) as host: yield host

def test_r11_traffic_counts_our_tools_only():
    def answer(tool, content, outcome='success'): return ModelRequest(parts=[ToolReturnPart(tool_name=tool, content=content, tool_call_id='x', outcome=outcome)])
    history = [ModelRequest.user_text_prompt('q'), ModelResponse(parts=S('a')), answer('rag_search', 'x'), ModelResponse(parts=S('b')), answer('rag_search', 'The search budget of 1 is spent', 'failed'),
        ModelResponse(parts=C('z')), answer('rag_cite', 'None of these', 'retried'), ModelResponse(parts=[ToolCallPart('weather', {})]), answer('weather', 'no', 'failed'), ModelResponse(parts=T())]
    got = agents.tool_traffic(history)
    assert (got.searches, got.refused, got.failed, got.requests) == (2, 1, 2, 5)

def test_r11_a_real_run_is_counted(host):
    got = agents.ask(host, 'pump?', model=Script(S('pump'), S('dam'), C('zzzz'), first(search=0), T()).model, max_searches=1, require_citations=False)
    assert (got.traffic.searches, got.traffic.refused, got.traffic.failed, got.traffic.requests) == (2, 1, 2, 5)

class Remote:
    model_name, base_url = 'big', 'https://models.example.com/v1'

class Local: model_name, base_url = 'small', 'http://127.0.0.1:8080/v1'

def test_r70_a_model_elsewhere_is_refused_before_anything_is_sent(host, files, monkeypatch):
    from pydantic_ai.models import Model
    assert remote_reason(Remote()) and not remote_reason(Local()) and not remote_reason(Script().model)
    sent = []
    class Far(Model):
        model_name, system, base_url = 'big', 'far', 'https://models.example.com/v1'
        async def request(self, messages, settings, params):
            sent.append(messages)
            return ModelResponse(parts=T())
    with pytest.raises(AgentError, match='allow_remote'): agents.ask(host, 'pump?', model=Far())
    with pytest.raises(AgentError, match='allow_remote'):
        asyncio.run(Agent(Far(), capabilities=[rag(files['papers'])]).run('q'))
    assert sent == []
    assert agents.ask(host, 'pump?', model=Far(), allow_remote=True).answer == 'done' and sent
    assert host.vault.sends() == []      # nothing of the vault was in it
    steps = [S('pump'), T(), C(), T()]
    class Asking(Far):
        async def request(self, messages, settings, params): return ModelResponse(parts=steps.pop(0))
    agents.ask(host, 'pump?', model=Asking(), allow_remote=True)
    rows = host.vault.sends()
    assert len(rows) == 3 and rows[0]['server'] == 'https://models.example.com' and rows[0]['sections'] and rows[0]['model'] == 'big'
    steps = [S('pump'), T()]
    run_remote = Agent(Asking(), capabilities=[rag(files['papers'], allow_remote=True)])
    asyncio.run(run_remote.run('q'))     # a vault of its own, open for reading only
    with Vault(files['papers'], readonly=True) as v: assert len(v.sends()) == 1

@pytest.mark.parametrize('policy', ['redact', 'refuse'])
def test_r71_personal_data_reaches_neither_history_nor_state(host, policy):
    host.pii = policy
    script = Script(S('pump keeper ann smith'), lambda m, i: C(*ids_of(returns(m)[0].content)), T())
    got = agents.ask(host, 'who keeps the pump?', model=script.model)
    everything = json.dumps(got.deps.state) + str(got.messages) + str(script.sent) + str(got)
    assert 'ann.smith' not in everything and '7946' not in everything
    assert ('[EMAIL]' if policy == 'redact' else 'withheld') in returns(got.messages)[0].content
    staff = next(c for c in got.citations if policy == 'refuse' and 'withheld' in c.content or '[EMAIL]' in c.content)
    host.pii = 'off'
    assert 'ann.smith' in host.vault.read(staff.chunk_id)['text']    # the id still leads to the original, here

def test_r71_vaults_opened_by_the_capability_are_gated_too(files):
    result, _, deps = run([S('pump keeper'), first(), T()], [rag(files['wiki'], pii='redact')])
    assert 'ann.smith' not in result.all_messages_json().decode() + json.dumps(deps.state)

def test_r71_a_gate_that_fails_shows_nothing(host, monkeypatch):
    host.pii = 'redact'
    def broken(*a, **k): raise RuntimeError('ann.smith@example.org')
    monkeypatch.setattr('ramabana.marks._one', broken)
    got = agents.ask(host, 'who?', model=Script(S('pump keeper'), T()).model, require_citations=False)
    assert returns(got.messages)[0].outcome == 'failed' and 'ann.smith' not in str(got)

def test_r73_nothing_loads_pydantic_ai_unasked():
    code = "import sys, ramabana, ramabana.vault, ramabana.learned, ramabana.cli, ramabana.agents, ramabana.scope, ramabana.evidence; assert 'pydantic_ai' not in sys.modules, 'loaded'"
    subprocess.run([sys.executable, '-c', code], check=True, cwd=ROOT)

def test_r74_ask_gives_the_record_of_the_one_shot_ask(host):
    got = agents.ask(host, 'what was the dam built of?', model=Script(S('dam stone'), first(), T('It was "built of stone, and a pump house" [1].')).model)
    plain = host.vault.ask('dam stone', mk_chat=lambda **kw: fake_chat('llama', ['Of stone [1].']))
    assert got.status == 'grounded' and got.cited[0]['title'] == 'Dam' and got.citations[0].index == 1 and got.quotes[0].verdict == 'supported'
    assert set(plain) <= set(got)

def test_r74_unknown_sources_are_refused_before_a_model_is_loaded(host, monkeypatch):
    monkeypatch.setattr(agents, 'model_for', lambda *a: pytest.fail('a model was loaded'))
    with pytest.raises(UnknownVaultError, match='wiki'): agents.ask(host, 'q', sources=['nope'])

def test_r74_a_filter_narrows_to_documents(host):
    got = agents.ask(host, 'pump?', filter=['Canal'], model=Script(S('pump'), C(), T()).model)
    assert {c.title for c in got.context.results} == {'Canal'}

def test_r74_a_conversation_goes_on(host):
    one = agents.ask(host, 'dam?', model=Script(S('dam'), first(), T()).model)
    two = agents.ask(host, 'sure?', model=Script(C(one.citations[0].chunk_id), T('yes')).model, deps=one.deps, messages=one.messages)
    assert two.status == 'grounded' and two.citations[0].index == 1

def test_r74_the_stream_ends_with_the_answer(host):
    from pydantic_ai.models.function import DeltaToolCall, FunctionModel
    async def steps(messages, info):
        done = returns(messages)
        if not done: yield {0: DeltaToolCall('rag_search', json.dumps(dict(query='dam')))}
        elif len(done) == 1: yield {0: DeltaToolCall('rag_cite', json.dumps(dict(ids=ids_of(done[0].content)[:1])))}
        else: yield 'of stone'
    async def collect(): return [e async for e in agents.stream(host, 'dam?', model=FunctionModel(stream_function=steps))]
    events = asyncio.run(collect())
    assert events[-1].answer == 'of stone' and events[-1].status == 'grounded' and any(type(e).__name__ == 'FunctionToolCallEvent' for e in events)

def test_r74_ask_works_inside_a_running_loop(host):
    async def inside(): return agents.ask(host, 'dam?', model=Script(S('dam'), first(), T()).model)
    assert asyncio.run(inside()).status == 'grounded'

def remembering(): return Script([ToolCallPart('remember', dict(text='The weir is open.', title='Weir'), tool_call_id='c1')], T('kept'))

def test_r75_changes_wait_for_an_approval(host):
    script, deps = remembering(), agents.State()
    agent = agents.agent_for(host, script.model, changes=True)
    assert {'remember', 'memory_forget'} <= {t.name for t in agents.change_tools(host)}
    paused = asyncio.run(agent.run('remember it', deps=deps))
    assert isinstance(paused.output, DeferredToolRequests) and host.vault.doc('Weir') is None
    denied = asyncio.run(agents.agent_for(host, Script(T('not kept')).model, changes=True).run(message_history=paused.all_messages(), deps=agents.State(json.loads(json.dumps(deps.state))), deferred_tool_results=DeferredToolResults(approvals={'c1': ToolDenied('no')})))
    assert denied.output == 'not kept' and host.vault.doc('Weir') is None
    asyncio.run(agent.run(message_history=paused.all_messages(), deps=deps, deferred_tool_results=DeferredToolResults(approvals={'c1': True})))
    assert host.vault.doc('Weir')

def test_r75_reading_needs_none_and_a_host_may_opt_out(host):
    script = Script(T())
    agents.ask(host, 'q', model=script.model)
    assert 'remember' not in {t.name for t in script.infos[0].function_tools}
    asyncio.run(agents.agent_for(host, remembering().model, changes=True, approval=False).run('remember it', deps=agents.State()))
    assert host.vault.doc('Weir')

def test_end_to_end_over_our_own_documentation(tmp_path):
    with VaultHost([tmp_path], vault=tmp_path/'docs.db', warm=False, index=False) as host:
        for page in ('README.md', 'CONTRIBUTING.md'): host.vault.add((ROOT/page).read_text(), title=page, source=page, kind='markdown')
        def quoting(messages, info):
            text = returns(messages, 'rag_search')[0].content.split('\n', 1)[1]
            words = next(line for line in text.split('\n') if len(line.split()) >= 8 and '"' not in line).split()[:7]
            return T(f'It says "{" ".join(words)}" [1].')
        got = agents.ask(host, 'How do I edit a notebook?', model=Script(S('edit a notebook', 'notebook text apply'), first(search=0), quoting).model)
    assert got.status == 'grounded' and got.quotes[0].verdict == 'supported' and got.cited[0]['title'] in ('README.md', 'CONTRIBUTING.md')

def test_r72_the_search_tool_is_measured(tmp_path):
    """The figures over 2 x 5,000 chunks come from bench/evidence/run.py; here it runs small, so that it keeps working."""
    got = subprocess.run([sys.executable, ROOT/'bench'/'evidence'/'run.py', '60', '10'], capture_output=True, text=True, cwd=ROOT, env={**__import__('os').environ, 'PYTHONPATH': str(ROOT)})
    assert got.stdout.count(' p95 ') == 2 and not got.stderr
