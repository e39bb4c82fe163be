"""One definition, every surface: the same call gives the same text through Python, the MCP server and an agent; and the shell's JSON holds what Python gives."""
import asyncio
import json
from contextlib import redirect_stdout
from io import StringIO

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from ramabana.agent import Agent
from ramabana.cli import run
from ramabana.mcp import Lazy, build, offered
from ramabana.memory import Vault
from ramabana.tools import tools_for
from ramabana.vault import WorkspaceHost

CALLS = {
    'memory_search': dict(query='mooring', limit=2), 'memory_read': dict(node_id='{uid}#0'), 'memory_read whole': dict(node_id='{uid}'), 'memory_read wrong': dict(node_id='nothing#1'), 'remember': dict(text='Tea is out.', title='tea', tags=['home']),
    'remember empty': dict(text=''), 'list_watches': {}, 'search': dict(query='mooring'), 'search_code': dict(query='Basket'), 'grep': dict(pattern='mooring'), 'read_file': dict(path='a.md'), 'read_file wrong': dict(path='../x'), 'list_files': {}, 'ls': {},
    'view_file': dict(path='a.md'), 'symbols': dict(what='b.py'), 'outline': dict(path='b.py'), 'write_file': dict(path='new.txt', text='x'), 'edit_file': dict(path='a.md', old='blue', new='red'), 'run_cmd': dict(command='echo out; exit 3'),
    'memory_forget': dict(doc_id='{uid}'), 'cancel_watch': dict(watch_id='none'), 'git_status': {}, 'api_ops': dict(query='x')}

@pytest.fixture
def make(tmp_path):
    "A new host over equal folders and an equal vault, as often as it is called."
    made = []
    def host():
        root = tmp_path/f'root{len(made)}'/'work'
        root.mkdir(parents=True)
        (root/'a.md').write_text('# Boats\n\nThe mooring of the blue boat.\n')
        (root/'b.py').write_text('class Basket:\n    def add(self, x): return x\n')
        vault = Vault(root.parent/'v.db')
        vault.store.engine.uuid = 'f'*32
        uid = vault.note('The mooring is paid until May.', title='mooring', key='m')['doc_id']
        made.append((WorkspaceHost([root], vault=vault, spec=True, warm=False, web=False), vault))
        return made[-1][0], uid
    yield host
    for one, vault in made:
        one.close()
        vault.close()

def plain(text, host): return text.replace(str(host.roots[0].parent), '~')

def through_python(make, name, arguments):
    host, uid = make()
    return plain(next(t for t in tools_for(host) if t.__name__ == name)(**arguments(uid)), host)

def through_mcp(make, name, arguments):
    import anyio
    from mcp import ClientSession
    host, uid = make()
    groups = ('memory', 'watch', 'search', 'files', 'shell', 'api')
    assert name in offered(host, groups)
    async def talk():
        server = build(Lazy(lambda: host, groups), groups)
        to_server, from_client = anyio.create_memory_object_stream(9)
        to_client, from_server = anyio.create_memory_object_stream(9)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run, from_client, to_client, server.create_initialization_options())
            async with ClientSession(from_server, to_server) as client:
                await client.initialize()
                said = await client.call_tool(name, arguments(uid))
            tasks.cancel_scope.cancel()
        return said.content[0].text
    return plain(asyncio.run(talk()), host)

def through_agent(make, name, arguments):
    host, uid = make()
    replies = [ToolCallPart(name, arguments(uid)), TextPart('done')]
    agent = Agent(host, FunctionModel(lambda messages, info: ModelResponse(parts=[replies.pop(0)])), approve='auto', cfg=host.roots[0].parent/'cfg')
    agent.ask('go')
    said, = [p.content for m in agent.history for p in m.parts if p.part_kind == 'tool-return']
    return plain(said, host)

@pytest.mark.parametrize('call', CALLS)
def test_the_same_call_gives_the_same_text(make, call):
    def arguments(uid): return {k: v.replace('{uid}', uid) if isinstance(v, str) else v for k, v in CALLS[call].items()}
    name = call.split()[0]
    said = through_python(make, name, arguments)
    assert said and said == through_mcp(make, name, arguments) == through_agent(make, name, arguments)

def test_every_tool_is_offered_everywhere(make):
    host, _ = make()
    names = {t.__name__ for t in tools_for(host)}
    assert names == set(offered(host, ('files', 'search', 'shell', 'web', 'memory', 'ask', 'watch', 'api'))) == {t.__name__ for t in Agent(host).tools()}

def test_the_shells_json_is_what_python_gives(make):
    host, uid = make()
    db = host.vault.path
    def shell(*words):
        with redirect_stdout(StringIO()) as out: assert run([*words, '--db', db, '--json']) == (words[0] == 'watches')      # nothing is watched
        return json.loads(out.getvalue())
    plain_ = lambda value: json.loads(json.dumps(value, default=lambda v: dict(v)))
    ageless = lambda rows: [{k: v for k, v in row.items() if k not in ('age', 'score', 'why')} for row in rows]
    assert ageless(shell('search', 'mooring')) == ageless(plain_([dict(h) for h in host.vault.search('mooring', limit=5)]))
    assert shell('tree') == plain_(host.vault.toc()) and shell('sends') == [] and shell('watches') == plain_(host.vault.watches())
    assert ageless([shell('read', f'{uid}#0')]) == ageless([plain_(host.vault.read(f'{uid}#0'))])
