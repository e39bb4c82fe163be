"""How long a client of the MCP server waits: `python bench/mcp/run.py [--runs 9]`. Prints a table for RESULTS.md."""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HELLO = dict(id=1, method='initialize', params=dict(protocolVersion='2025-06-18', capabilities={}, clientInfo=dict(name='bench', version='1')))
CALLS = {'initialize': HELLO, 'tools/list': dict(id=2, method='tools/list', params={}), 'first memory_search (opens the vault)': dict(id=3, method='tools/call', params=dict(name='memory_search', arguments=dict(query='milk'))),
    'second memory_search': dict(id=4, method='tools/call', params=dict(name='memory_search', arguments=dict(query='eggs')))}

def one_run(db):
    "Seconds of each call, in a process of its own."
    took, start = {}, time.perf_counter()
    server = subprocess.Popen([sys.executable, '-m', 'ramabana.cli', 'mcp', '--db', db], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for name, call in CALLS.items():
        server.stdin.write(json.dumps(dict(jsonrpc='2.0') | call).encode() + b'\n')
        if name == 'initialize': server.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        server.stdin.flush()
        assert json.loads(server.stdout.readline())['id'] == call['id']
        took[name], start = time.perf_counter() - start, time.perf_counter()
    server.stdin.close()
    server.wait()
    return took | {'end, after the client left': time.perf_counter() - start}

def main():
    take = argparse.ArgumentParser(description=__doc__)
    take.add_argument('--runs', type=int, default=9)
    with tempfile.TemporaryDirectory() as folder:
        from ramabana.memory import Vault
        db = str(Path(folder)/'v.db')
        with Vault(db) as vault: vault.note('The weekly order is milk, sourdough and eggs.')
        runs = [one_run(db) for _ in range(take.parse_args().runs)]
    print('| cold process, wall s | median | slowest |\n| --- | --- | --- |')
    for name in runs[0]: print(f'| {name} | {statistics.median(r[name] for r in runs):.2f} | {max(r[name] for r in runs):.2f} |')

if __name__ == '__main__': main()
