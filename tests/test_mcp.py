"""The server as clients meet it: the SDK's own client, in another process, over standard input and output and over HTTP."""
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cases_of import case
from ramabana.host import NullHost
from ramabana.mcp import VERSIONS, Lazy, build, called, hello
from ramabana.memory import Vault
from ramabana.tool_schemas import tool_schema
from ramabana.tools import tools_for
from ramabana.vault import VaultHost

pytest.importorskip('mcp', reason='needs ramabana[mcp]')
ROOT = Path(__file__).parent.parent
STARTED = [sys.executable, '-m', 'ramabana.cli', 'mcp']
HELLO = dict(jsonrpc='2.0', id=1, method='initialize', params=dict(protocolVersion='2025-06-18', capabilities={}, clientInfo=dict(name='test', version='1')))

def environment(): return os.environ | dict(PYTHONPATH=str(ROOT))
def started(*options, **kw):
    return subprocess.Popen([*STARTED, *map(str, options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), **kw)
def say(server, **message):
    server.stdin.write(json.dumps(dict(jsonrpc='2.0') | message).encode() + b'\n')
    server.stdin.flush()
def answer(server): return json.loads(server.stdout.readline())
def greeted(server):
    say(server, **HELLO)
    told = answer(server)
    say(server, method='notifications/initialized')
    return told

@asynccontextmanager
async def client(*options):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    async with stdio_client(StdioServerParameters(command=STARTED[0], args=[*STARTED[1:], *map(str, options)], env=environment())) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session

def test_a_client_keeps_finds_and_forgets(tmp_path):
    async def talk():
        async with client('--db', tmp_path/'v.db', '--root', tmp_path) as session:
            tools = {tool.name: tool for tool in (await session.list_tools()).tools}
            assert {'memory_search', 'remember', 'memory_forget', 'ask_memory', 'watch', 'search'} <= set(tools) and 'run_cmd' not in tools
            assert tools['memory_search'].annotations.read_only_hint and tools['memory_forget'].annotations.destructive_hint
            kept = await session.call_tool('remember', dict(text='Café Łódź opens at 8 — 東京 too', title='opening'))
            found = await session.call_tool('memory_search', dict(query='when does the café open'))
            assert not kept.is_error and 'Łódź opens at 8 — 東京' in found.content[0].text
            doc, = (await session.list_resources()).resources
            assert doc.name == 'opening' and '東京' in (await session.read_resource(doc.uri)).contents[0].text
            assert 'opening' in (await session.get_prompt('briefing')).messages[0].content.text
            gone = await session.call_tool('memory_forget', dict(doc_id=str(doc.uri).rpartition('/')[2]))
            assert 'forgot' in gone.content[0].text
    asyncio.run(talk())
    with Vault(tmp_path/'v.db') as vault: assert vault.check()['ok'] and not vault.search('café')

def test_a_wrong_call_is_a_result_with_a_mark(tmp_path):
    async def talk():
        from mcp.shared.exceptions import MCPError
        async with client('--db', tmp_path/'v.db') as session:
            for name, arguments in (('memory_read', dict(node_id='nothing#1')), ('remember', {}), ('remember', dict(text='')), ('memory_search', dict(query='x', limit='many')), ('no_such_tool', {})):
                said = await session.call_tool(name, arguments)
                assert said.is_error and said.content[0].text, name
            for uri in 'vault://doc/nothing', 'file:///etc/passwd':
                with pytest.raises(MCPError): await session.read_resource(uri)
            assert not (await session.call_tool('memory_search', dict(query='still here'))).is_error
    asyncio.run(talk())

def test_hello_opens_no_vault_and_loads_no_model(tmp_path):
    server = started('--db', tmp_path/'v.db')
    start = time.monotonic()
    told = greeted(server)
    assert time.monotonic() - start < 10 and told['result']['serverInfo']['name'] == 'ramabana'   # how fast stands in bench/RESULTS.md
    say(server, id=2, method='tools/list', params={})
    assert len(answer(server)['result']['tools']) > 10 and not (tmp_path/'v.db').exists()
    server.stdin.close()
    assert server.wait(10) == 0 and server.stderr.read() == b''

@pytest.mark.parametrize('groups', [('memory', 'ask'), ('search',)])
@pytest.mark.parametrize('version', VERSIONS)
def test_the_quick_hello_is_the_sdks(version, groups):
    import anyio
    asked = HELLO | dict(params=HELLO['params'] | dict(protocolVersion=version))
    async def slow():
        from mcp.shared.message import SessionMessage
        from mcp.types import jsonrpc_message_adapter
        server = build(Lazy(NullHost, groups), groups)
        to_server, from_client = anyio.create_memory_object_stream(9)
        to_client, from_server = anyio.create_memory_object_stream(9)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run, from_client, to_client, server.create_initialization_options())
            await to_server.send(SessionMessage(jsonrpc_message_adapter.validate_python(asked, by_name=False)))
            got = await from_server.receive()
            tasks.cancel_scope.cancel()
        return got.message.model_dump(by_alias=True, exclude_unset=True, mode='json')
    assert hello(json.dumps(asked).encode(), groups) == asyncio.run(slow())

@pytest.mark.parametrize('first', [HELLO | dict(params=HELLO['params'] | dict(protocolVersion='1999-01-01')), HELLO | dict(id='a'), dict(jsonrpc='2.0', id=7, method='ping')])
def test_what_the_quick_hello_does_not_know_the_sdk_answers(tmp_path, first):
    server = started('--db', tmp_path/'v.db')
    say(server, **first)
    assert answer(server)['id'] == first['id']
    server.kill()

def noise(tmp_path):
    "A server whose packages print when they are loaded, and after it."
    (tmp_path/'sitecustomize.py').write_text('''
import builtins, os, sys
real = builtins.__import__
def noisy(name, *args, **kw):
    if name.split('.')[0] in ('anyio', 'mcp', 'numpy', 'model2vec', 'apsw') and name not in sys.modules:
        print('version 1.2.3 of something'); os.write(1, b'from C\\n'); sys.__stdout__.write('deep down\\n'); sys.__stdout__.flush()
    return real(name, *args, **kw)
builtins.__import__ = noisy
''')
    server = subprocess.Popen([*STARTED, '--db', str(tmp_path/'v.db')], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment() | dict(PYTHONPATH=f'{tmp_path}:{ROOT}'))
    greeted(server)
    say(server, id=2, method='tools/call', params=dict(name='remember', arguments=dict(text='quiet')))
    assert answer(server)['id'] == 2
    rest, noise = server.communicate(timeout=20)
    assert rest == b'' and b'version 1.2.3' in noise and b'from C' in noise

@case('mcp-stdio-02')
def test_a_module_that_prints(report, tmp_path): noise(tmp_path)

@case('mcp-stdio-06')
def test_a_version_line(report, tmp_path): noise(tmp_path)

@case('mcp-stdio-04')
def test_it_ends_with_its_client(report, tmp_path):
    server = started('--db', tmp_path/'v.db', '--tools', 'memory,shell')
    greeted(server)
    say(server, id=2, method='tools/call', params=dict(name='remember', arguments=dict(text='kept')))
    answer(server)
    say(server, id=3, method='tools/call', params=dict(name='run_cmd', arguments=dict(command='sleep 50')))
    time.sleep(0.5)
    start = time.monotonic()
    server.stdin.close()
    assert server.wait(20) == 0 and time.monotonic() - start < 8    # two seconds and a busy machine
    with Vault(tmp_path/'v.db') as vault: assert vault.check()['ok'] and vault.search('kept')
    assert not (tmp_path/'v.db-wal').exists() or not (tmp_path/'v.db-wal').stat().st_size

def test_rubbish_in_between_is_survived(tmp_path):
    server = started('--db', tmp_path/'v.db')
    greeted(server)
    server.stdin.write(b'not json\n\xff\xfe\n{"jsonrpc": "2.0", "id": 5, "method": "no/such"}\n')
    server.stdin.flush()
    say(server, id=6, method='ping')
    seen = set()
    while 6 not in seen: seen.add(answer(server).get('id'))
    assert 5 in seen
    server.kill()

def test_several_clients_write_into_one_vault(tmp_path):
    async def one(n):
        async with client('--db', tmp_path/'v.db') as session:
            for i in range(5): assert not (await session.call_tool('remember', dict(text=f'note {n} {i}'))).is_error
    async def all_of_them(): await asyncio.gather(*map(one, range(3)))
    asyncio.run(all_of_them())
    with Vault(tmp_path/'v.db') as vault: assert vault.stats()['docs'] == 15 and vault.check()['ok']

def test_personal_data_is_masked_unless_the_user_says_otherwise(tmp_path):
    with Vault(tmp_path/'v.db') as vault: uid = vault.note('Marit: marit.holm@example.com', title='who marit.holm@example.com is')['doc_id']
    async def talk(*options):
        async with client('--db', tmp_path/'v.db', *options) as session:
            said = [await session.call_tool('memory_search', dict(query='marit')), await session.call_tool('memory_read', dict(node_id=uid)), await session.list_resources(),
                await session.read_resource(f'vault://doc/{uid}'), await session.get_prompt('briefing'), await session.get_prompt('recall', dict(question='marit'))]
            return ''.join(map(repr, said))
    assert 'marit.holm' not in asyncio.run(talk()) and 'marit.holm' not in asyncio.run(talk('--pii', 'refuse'))
    assert 'marit.holm' in asyncio.run(talk('--pii', 'off'))

def test_read_only_changes_nothing(tmp_path):
    with Vault(tmp_path/'v.db') as vault: vault.note('stays', key='a')
    async def talk():
        async with client('--db', tmp_path/'v.db', '--read-only', '--tools', 'all', '--root', tmp_path) as session:
            tools = (await session.list_tools()).tools
            assert all(tool.annotations.read_only_hint for tool in tools) and 'memory_search' in {tool.name for tool in tools}
            assert (await session.call_tool('memory_forget', dict(doc_id='a'))).is_error
    asyncio.run(talk())

def test_http_wants_its_token(tmp_path):
    import httpx2
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client
    server = subprocess.Popen([*STARTED, '--db', str(tmp_path/'v.db'), '--http', '0'], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment() | dict(RAMABANA_MCP_TOKEN='correct'))
    try:
        lines = iter(server.stderr.readline, '')
        url = next(found[0] for line in lines if (found := re.search(r'http://127\.0\.0\.1:\d+/mcp', line)))
        async def talk(token, **headers):
            async with httpx2.AsyncClient(headers=dict(Authorization=f'Bearer {token}') | headers) as web:
                assert (await web.post(url, json=HELLO, headers=dict(Authorization='Bearer wrong'))).status_code == 401
                assert (await web.post(url, json=HELLO, headers=dict(Host='evil.example'))).status_code in (403, 421)
                assert (await web.post(url, json=HELLO, headers=dict(Origin='https://evil.example'))).status_code in (400, 403)
                async with streamable_http_client(url, http_client=web) as streams, ClientSession(streams[0], streams[1]) as session:
                    await session.initialize()
                    await session.call_tool('remember', dict(text='over http'))
                    return (await session.call_tool('memory_search', dict(query='http'))).content[0].text
        for _ in range(50):
            try: said = asyncio.run(talk('correct'))
            except httpx2.ConnectError: time.sleep(0.1)
            else: break
        assert 'over http' in said
    finally:
        server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=20)
    assert 'correct' not in out + err

# -- schemas
def every_tool(tmp_path): return tools_for(VaultHost([tmp_path], vault=':memory:', warm=False))

@case('tool-schema-02')
def test_required_is_a_list(report, tmp_path):
    for tool in every_tool(tmp_path):
        schema = tool_schema(tool)
        assert schema['type'] == 'object' and isinstance(schema['required'], list) and 'null' not in json.dumps(schema), tool.__name__

@case('tool-schema-04')
def test_null_as_text_is_nothing(report, tmp_path):
    arguments = report['input']['args']
    with VaultHost([tmp_path], vault=Vault(':memory:'), warm=False, index=False) as host:
        lazy = Lazy(lambda: host)
        assert called(lazy, 'remember', dict(text='no tag', tags=arguments['tags'], title='null', key='null'))[1] is False
        assert host.vault.doc('no tag') and 'null' not in repr(host.vault.doc('no tag'))
        assert called(lazy, 'memory_search', dict(query='tag', limit=arguments['limit']))[1] is False
        assert 'reminder' not in called(lazy, 'watch', dict(target='tea', kind=arguments['kind'], note='null'))[0]

@case('tool-schema-06')
def test_an_ambiguous_title_names_both(report, tmp_path):
    with VaultHost([tmp_path], vault=Vault(':memory:'), warm=False, index=False) as host:
        ids = [host.vault.add('one', title='Plan', source=f'{where}/Plan')['doc_id'] for where in 'ab']
        said, failed = called(Lazy(lambda: host), 'memory_read', dict(node_id='Plan'))
        assert failed and all(uid in said for uid in ids)

def test_the_shell_enters_it_for_a_client(tmp_path):
    ran = lambda *words: subprocess.run([*STARTED, *words], capture_output=True, text=True, env=environment() | dict(HOME=str(tmp_path)))
    made = ran('install', '--client', 'cursor', '--db', str(tmp_path/'v.db'), '--read-only')
    assert made.returncode == 0, made.stderr
    entry = json.loads((tmp_path/'.cursor/mcp.json').read_text())['mcpServers']['ramabana']
    server = subprocess.Popen([entry['command'], *entry['args']], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())
    assert greeted(server)['result']['serverInfo']['name'] == 'ramabana'
    server.kill()
    assert ran('uninstall', '--client', 'cursor').returncode == 0 and 'ramabana' not in (tmp_path/'.cursor/mcp.json').read_text()
    assert ran('install', '--client', 'emacs').returncode == 2 and ran('dance').returncode == 2
