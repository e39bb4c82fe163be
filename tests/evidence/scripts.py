"Scripted models: each step is a list of parts, or a function of (messages, info) that makes one."
import asyncio

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

from ramabana.evidence import EvidenceState, citation_status


class Deps:
    "A host's dependencies."
    def __init__(self, state=None): self.state = {} if state is None else state

class Script:
    "A model that says its steps one after another; `sent` holds the messages and `infos` the parameters of each request."
    def __init__(self, *steps):
        self.steps, self.sent, self.infos = list(steps), [], []
        self.model = FunctionModel(self)
    def __call__(self, messages, info):
        self.sent.append(messages)
        self.infos.append(info)
        step = self.steps.pop(0)
        return ModelResponse(parts=step(messages, info) if callable(step) else step)

def S(*queries, name='rag', **more): return [ToolCallPart(f'{name}_search', dict(query=q, **more)) for q in queries]
def C(*ids, name='rag'): return [ToolCallPart(f'{name}_cite', dict(ids=list(ids)))]
def T(text='done'): return [TextPart(text)]
def first(n=0, name='rag', search=-1):
    "A step that cites the n-th id that the newest search showed."
    def step(messages, info): return C(ids_of(returns(messages, f'{name}_search')[search].content)[n], name=name)
    return step

def returns(messages, tool=''): return [p for m in messages for p in m.parts if isinstance(p, ToolReturnPart) and (not tool or p.tool_name == tool)]

def ids_of(text):
    import re
    return re.findall(r'^\[((?:[\w.-]+/)?[0-9a-f]{12})\]', text, re.M)

def run(steps, capabilities, deps=None, prompt='when does the pump start?', **kw):
    "(result, script, deps) of one run."
    script, deps = steps if isinstance(steps, Script) else Script(*steps), deps or Deps()
    agent_kw = {k: kw.pop(k) for k in ('output_type', 'tools') if k in kw}
    agent = Agent(script.model, capabilities=capabilities, deps_type=object, **agent_kw)
    return asyncio.run(agent.run(prompt, deps=deps, **kw)), script, deps

def state_of(deps, key='rag'): return EvidenceState.model_validate(deps.state[key])

def status_of(deps, key='rag'):
    record = state_of(deps, key).evidence
    return citation_status([record], record.question)

def instructions_of(info): return '\n'.join(p.content for p in info.model_request_parameters.instruction_parts or []) if hasattr(info, 'model_request_parameters') else info.instructions or ''
