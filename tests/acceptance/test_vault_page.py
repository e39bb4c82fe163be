"""Acceptance of the vault page: what a host with a vault promises its user. No network, no model download; the embedded encoder only.

The gate's tests run where `ramabana.pii` can be imported; what holds without it stands in test_hosts.py.
"""
import re, threading
from importlib.util import find_spec

import pytest

from ramabana.vault import VaultHost, WorkspaceHost, LazyIndex, safe_shelf
from ramabana.tools import tools_for, watch_tools, NullHost, LocalHost
from ramabana.testing import no_model, fake_chat

needs_gate = pytest.mark.skipif(find_spec('ramabana.pii') is None, reason='the gate comes with ramabana.pii')

EIGHT = {'memory_search', 'memory_read', 'remember', 'memory_forget', 'ask_memory', 'watch', 'list_watches', 'cancel_watch'}
SECRET_NOTE = ('Invoice 4471 for Marit Holm, marit.holm@example.com, phone +44 20 7946 0018, card 4111 1111 1111 1111. '
               'Total 240.00 GBP, due 2026-09-01.')
def names(host): return {t.__name__ for t in tools_for(host)}

@pytest.fixture
def host(tmp_path):
    (tmp_path/'root').mkdir()
    with VaultHost(roots=[tmp_path/'root'], vault=tmp_path/'vault.db', index=False, web=False, graph_chat=no_model()) as h:
        h.open_vault(wait=True); yield h

# -- shelves and start
@pytest.mark.parametrize('raw', [None, '', 'Papers', 'my notes', '9lives', 'a;drop table docs--', 'naïve "x"', '数据', 'select', '__', 'x' * 300])
def test_safe_shelf_is_always_an_identifier(raw):
    s = safe_shelf(raw); assert re.fullmatch(r'[a-z_][a-z0-9_]*', s) and s == safe_shelf(raw) and len(s) <= 64
def test_safe_shelf_default(): assert safe_shelf() == 'store' and safe_shelf('', 'main') == 'main'
def test_tool_list_does_not_open_the_vault(tmp_path):
    h = VaultHost(roots=[tmp_path], vault=tmp_path/'v.db', index=False, web=False, warm=False)
    assert EIGHT <= names(h) and not (tmp_path/'v.db').exists()
def test_eight_tools_more_than_a_local_host(host, tmp_path):
    local = LocalHost([tmp_path/'root'], index=False, web=False)
    assert names(host) - names(local) == EIGHT and not EIGHT & names(NullHost())
    assert not {'memory', 'ask', 'watch'} & set(host.without) and {'memory', 'ask', 'watch'} <= set(local.without)
def test_two_threads_open_one_vault(tmp_path):
    h = VaultHost(roots=[tmp_path], vault=tmp_path/'v.db', index=False, web=False); got = []
    ts = [threading.Thread(target=lambda: got.append(h.vault)) for _ in range(8)]; [t.start() for t in ts]; [t.join() for t in ts]
    assert len({id(v) for v in got}) == 1
def test_worker_vault_is_another_connection(host):
    host.vault.add('A report about polonium.', title='report'); w = host._worker_vault()
    assert w is not host.vault and w.db is not host.vault.db and w.doc('report'); w.db.conn.close()

# -- memory
def test_notes_are_found_by_other_words(host):
    host.remember('The weekly Coles order is milk, sourdough, eggs, baby spinach and olive oil.', title='weekly Coles order', tags=['groceries'])
    host.remember('Ceres Fair Food delivers a mixed seasonal fruit box on Thursdays.', title='Ceres fruit box', tags=['groceries'])
    r = host.memory_search('what do I need from the supermarket', limit=2)
    assert r['query'] and r['encoder'] and r['results'] and {'node_id', 'doc_id', 'title', 'breadcrumb', 'text', 'age', 'stale'} <= set(r['results'][0])
    assert r['results'][0]['age'] >= 0 and r['results'][0]['stale'] is False
    assert len(host.memory_tree()) == 2 and len(host.memory_tree('CERES')) == 1
    t = host.memory_read(r['results'][0]['node_id'])['text']; assert 'olive oil' in t or 'fruit box' in t
def test_key_is_an_upsert(host):
    a = host.remember('first text', key='k'); b = host.remember('second text', key='k')
    assert a['doc_id'] == b['doc_id'] and b['replaced'] and len(host.memory_tree()) == 1
@pytest.mark.parametrize('text', ['.', 'README.md', '/etc/passwd', 'nbs', 'a' * 300, 'line\nline', '🦊', 'x\x00y', 'lone \ud800 surrogate'])
def test_text_is_text_whatever_it_looks_like(host, text):
    d = host.remember(text); assert d['doc_id'] and len(host.memory_tree()) == 1
@pytest.mark.parametrize('text', ['', '   \n', None])
def test_nothing_is_refused(host, text):
    with pytest.raises((ValueError, TypeError)): host.remember(text)
    assert host.memory_tree() == []
def test_forget(host):
    d = host.remember('the zebra ran', title='z'); assert host.memory_forget(d['doc_id']) is True
    assert host.memory_tree() == [] and host.memory_search('zebra')['results'] == [] and host.memory_forget(d['doc_id']) is False
def test_unknown_node_says_so(host):
    with pytest.raises(Exception) as e: host.memory_read('nope#1')
    assert 'nope' in str(e.value)
@pytest.mark.parametrize('q', ['', ' ', '"', '""', 'AND', 'NEAR(', '*', 'a:b', 'POL-358', "don't", 'x\x00y', '(', ')', '^', 'word ' * 5000])
def test_no_query_raises(host, q):
    host.remember('plain text'); host.memory_search(q); host.search(q)

# -- gate
@needs_gate
@pytest.mark.parametrize('policy', ['off', 'redact', 'refuse'])
def test_gate_on_every_read(tmp_path, policy):
    (tmp_path/'root').mkdir()
    h = VaultHost(roots=[tmp_path/'root'], vault=tmp_path/'v.db', index=False, web=False, pii=policy)
    h.remember(SECRET_NOTE, title='invoice 4471 marit.holm@example.com'); r = h.memory_search('invoice 4471')
    node = r['results'][0]['node_id']
    said = repr([r, h.memory_tree(), h.memory_read(node), [tuple(x) if isinstance(x, tuple) else vars(x) if hasattr(x, '__dict__') else x for x in h.search('invoice 4471')]])
    shown = [v for v in ('marit.holm@example.com', '7946 0018', '4111 1111 1111 1111') if v in said]
    assert len(shown) == (3 if policy == 'off' else 0), shown
    if policy == 'redact': assert '240.00 GBP' in said
    if policy == 'refuse': assert '240.00 GBP' not in said and 'email' in said
@needs_gate
def test_policy_may_be_a_function_asked_each_time(tmp_path):
    mode = ['off']; h = VaultHost(roots=[tmp_path], vault=tmp_path/'v.db', index=False, web=False, pii=lambda: mode[0])
    h.remember(SECRET_NOTE); assert 'marit.holm' in repr(h.memory_search('invoice')); mode[0] = 'redact'; assert 'marit.holm' not in repr(h.memory_search('invoice'))
@needs_gate
def test_failing_policy_is_off_and_noted_or_closed(tmp_path):
    def bad(): raise RuntimeError('panel gone')
    h = VaultHost(roots=[tmp_path], vault=tmp_path/'v.db', index=False, web=False, pii=bad); h.remember(SECRET_NOTE)
    assert 'marit.holm' in repr(h.memory_search('invoice')) and any('panel gone' in str(n) for n in h.notes)
    h = VaultHost(roots=[tmp_path], vault=tmp_path/'v.db', index=False, web=False, pii=bad, pii_fail='refuse')
    assert 'marit.holm' not in repr(h.memory_search('invoice'))

# -- federated search
def test_prose_and_files_in_one_list(host, tmp_path):
    host.remember('Ceres Fair Food delivers a mixed seasonal fruit box on Thursdays.', title='Ceres fruit box')
    (tmp_path/'root'/'shop.py').write_text('def order_fruit_box():\n    "seasonal"\n    return "fruit box"\n')
    hits = host.search('seasonal fruit box', limit=5); prose = [h for h in hits if h.symbol.count('#') == 1]
    assert prose and host.memory_read(prose[0].symbol)['text'].startswith('Ceres') and any('shop.py' in h.path for h in hits)
    assert 'prose=' in host.search_note and 'grep=' in host.search_note
def test_not_federated_is_the_local_search(tmp_path):
    h = VaultHost(roots=[tmp_path], vault=tmp_path/'v.db', index=False, web=False, federate=False, warm=False)
    assert VaultHost.__mro__[1] is LocalHost and h.search_note == LocalHost.search_note.fget(h)
def test_a_broken_vault_leaves_search_working(tmp_path):
    (tmp_path/'v.db').write_bytes(b'not a database at all' * 100); (tmp_path/'a.txt').write_text('needle here\n')
    h = VaultHost(roots=[tmp_path], vault=tmp_path/'v.db', index=False, web=False)
    assert any('a.txt' in x.path for x in h.search('needle'))
    with pytest.raises(Exception) as e: h.memory_search('x')
    assert 'v.db' in str(e.value)

# -- watches
def test_reminder_lives_fires_and_is_found(host):
    w = host.watch('Add the weekly groceries to the Coles trolley, and a Ceres fruit box.', action='remind', every='1w', note='weekly shop')
    assert [(x['id'], x['action'], int(x['every'])) for x in host.watches()] == [(w['id'], 'remind', 604800)]
    assert host.vault.poll(at=w['next_run'] - 1, connect=False)['ran'] == 0
    f = host.vault.poll(at=w['next_run'] + 1, connect=False); assert f['ran'] == 1 and f['results'][0]['status'] == 'ok'
    assert any('weekly shop' in s['title'] or 'Coles' in s['text'] for s in host.memory_search('what am I supposed to be doing about groceries', limit=3)['results'])
def test_one_failure_stops_no_other(host):
    def down(target, **kw): raise ConnectionError('name not resolved')
    host.vault.url = down
    dead = host.watch('https://example.invalid/x', action='url', every='1d'); live = host.watch('check the box', action='remind', every='1d')
    out = host.vault.poll(at=max(dead['next_run'], live['next_run']) + 1, connect=False)
    st = {r['status'] for r in out['results']}; assert len(out['results']) == 2 and 'ok' in st and len(st) == 2
    row = next(w for w in host.watches() if w['id'] == dead['id']); assert 'name not resolved' in row['last_error'] and row['enabled']
    host.unwatch(dead['id']); host.unwatch(live['id']); assert host.watches() == []
@pytest.mark.parametrize('every', ['0s', '-5m', '1d junk', 'soon', '', '10 days ago'])
def test_bad_interval_leaves_nothing(host, every):
    with pytest.raises(ValueError): host.watch('x', every=every)
    assert host.watches() == []
def test_watch_tool_and_poll(host):
    tool = next(t for t in watch_tools(host) if t.__name__ == 'watch')
    assert re.fullmatch(r'watching remind renew the domain as \w+, every 1w', tool('renew the domain', kind='remind', every='1w').strip())
    r = host.poll(); assert {'checked', 'ran', 'results', 'reclaimed', 'dead', 'next_due', 'housekeeping'} <= set(r) and r['ran'] == 1
    assert {'job_id', 'kind', 'status', 'took', 'error', 'result'} <= set(r['results'][0])
def test_poll_has_its_own_connection(host):
    host.watch('scheduled report', action='remind', every='1d'); seen, original = [], host._worker_vault
    def worker(): seen.append(original()); return seen[-1]
    host._worker_vault = worker; host.poll()
    assert seen and seen[0] is not host.vault and seen[0].db is not host.vault.db

# -- graph: the questions' chat never sees it
@pytest.mark.parametrize('kw', ['mk_chat', 'graph_chat'])
def test_connect_gets_only_the_graph_chat(tmp_path, kw):
    quiet = no_model(); arg = dict(mk_chat=lambda model=None, **k: None) if kw == 'mk_chat' else dict(graph_chat=quiet)
    h = VaultHost(roots=[tmp_path], vault=tmp_path/'v.db', index=False, web=False, **arg); h.vault.add('A report about polonium.', title='report'); got, original = [], h._worker_vault
    def worker():
        v = original(); v.connect = lambda *a, **k: got.append(k.get('chat')); return v
    h._worker_vault = worker; h.connect(wait=True); assert got == [None if kw == 'mk_chat' else quiet]

# -- ask: nothing private to a model elsewhere
def test_remote_chat_is_refused_and_gets_nothing(host):
    host.remember(SECRET_NOTE, title='invoice 4471'); chat = fake_chat('remote', ['THIS MUST NEVER BE SENT']); host.mk_chat = lambda model=None, **k: chat
    r = host.ask('what is on invoice 4471?'); assert chat.prompts == [] and r.refused is True and r.answer and 'MUST NEVER' not in r.answer
@pytest.mark.parametrize('runtime', ['llama', 'litert', 'mlx'])
def test_local_chat_answers_in_two_steps(host, runtime):
    host.remember(SECRET_NOTE, title='invoice 4471'); chat = fake_chat(runtime, ['One invoice, 240.00 GBP. Holding back the email. [1]', 'Total 240.00 GBP, due 2026-09-01. [1]']); host.mk_chat = lambda model=None, **k: chat
    ask_memory = next(t for t in tools_for(host) if t.__name__ == 'ask_memory')
    assert '240.00' in ask_memory('what is on invoice 4471?')
    assert '2026-09-01' in ask_memory('what is on invoice 4471?', instruction='Give me the total and the due date only.')
    assert 'Instruction from the questioner: Give me the total and the due date only.' in str(chat.prompts[-1]) and 'Instruction' not in str(chat.prompts[0])
def test_a_leaking_answer_is_masked(host):
    host.remember(SECRET_NOTE, title='invoice 4471'); chat = fake_chat('llama', ['It is for marit.holm@example.com [1].']); host.mk_chat = lambda model=None, **k: chat
    r = host.ask('whose is invoice 4471?'); assert 'marit.holm@example.com' not in r.answer and 'email' in r.leaked
def test_the_gate_is_no_argument(host):
    host.remember(SECRET_NOTE, title='invoice 4471'); chat = fake_chat('remote', ['x']); host.mk_chat = lambda model=None, **k: chat
    host.ask('what is on invoice 4471?', pii='off'); assert chat.prompts == []

# -- workspace
def test_workspace_off_is_local(tmp_path):
    h = WorkspaceHost([tmp_path], index=False, web=False).open_index()
    assert (h.index_ready, list(h.indexed)) == (True, list(h.roots)) and h._indexes[0]._k is None
    assert not any(hasattr(h, k) for k in ('mk_chat', 'pii', 'pii_ner')) and not EIGHT & names(h)
def test_workspace_with_vault(tmp_path):
    h = WorkspaceHost([tmp_path], vault=tmp_path/'v.db', index=False, web=False); assert EIGHT <= names(h); h.remember('x y z'); assert len(h.memory_tree()) == 1
def test_lazy_index_opens_nothing(tmp_path): assert LazyIndex(tmp_path)._k is None
