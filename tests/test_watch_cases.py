"""Reported cases of other tools about schedules, pages, jobs, the network and the age of facts, on a real server and a clock that is told the time."""
import gzip
import threading
import time
from datetime import datetime
from zoneinfo import ZoneInfo

import brotli
import pytest
from cases_of import case
from ramabana.addresses import FetchError, look_up
from ramabana.config import set_setting
from ramabana.core import AgentError
from ramabana.fetch import fetch
from ramabana.markup import read_html
from ramabana.memory import Vault
from ramabana.pages import main_text
from ramabana.schedules import following, parse_schedule
from ramabana.testing import Site
from ramabana.tools import tools_for
from ramabana.vault import VaultHost

DAY = 86400

@pytest.fixture
def vault(tmp_path):
    with Vault(tmp_path/'v.db') as vault: yield vault

@pytest.fixture
def site():
    for name, value in {'web.allow': ['127.0.0.1'], 'web.delay': 0, 'web.timeout': 3.0}.items(): set_setting(name, value)
    with Site({}) as site: yield site

def once(vault, watch, days=0):
    "What a poll tells of one watch."
    told = [row for row in vault.poll(at=watch['next_run'] + days * DAY, connect=False)['results'] if row['watch_id'] == watch['id']]
    assert len(told) == 1
    return told[0]

# -- intervals

@case('watch-interval-02')
def test_two_months_are_months(report):
    schedule = parse_schedule(report['input']['every'], 'UTC')
    assert (schedule.months, schedule.seconds) == (2, 0)

@pytest.mark.parametrize('said, months, days, seconds', [('2 months', 2, 0, 0), ('1M', 1, 0, 0), ('1m', 0, 0, 60), ('1 mo', 1, 0, 0), ('3mins', 0, 0, 180), ('P1M', 1, 0, 0), ('PT1M', 0, 0, 60), ('2 YEARS', 24, 0, 0), ('1w', 0, 7, 0),
    ('1.5h', 0, 0, 5400), ('1.5d', 0, 1, 43200), ('1y6M', 18, 0, 0), ('90', 0, 0, 90), ('1 day, 12 hours', 0, 1, 43200)])
def test_units_are_what_they_say(said, months, days, seconds):
    schedule = parse_schedule(said, 'UTC')
    assert (schedule.months, schedule.days, schedule.seconds) == (months, days, seconds)

@case('watch-interval-04')
def test_an_interval_is_shown_as_it_was_said(vault, report):
    shown = [vault.watch(f'x {every}', every=every, tz='UTC')['said'] for every in report['input']['every']]
    assert shown == ['2w', '1 month']
    end = datetime(2026, 1, 31, 9, tzinfo=ZoneInfo('UTC')).timestamp()
    days, at, month = [], end, parse_schedule('1 month', 'UTC')
    for _ in range(4):
        at = following(month, end, at, at)[0]
        days.append(datetime.fromtimestamp(at, ZoneInfo('UTC')).day)
    assert days == [28, 31, 30, 31]

@case('watch-interval-06')
def test_a_lone_unit_counts_one_whichever_it_is(report):
    assert [parse_schedule(unit, 'UTC').every for unit in report['input']['every']] == [60, 7 * DAY, DAY, 3600]

@pytest.mark.parametrize('bad', ['', ' ', '0', '0d', '-1d', '1', '9s', '1d junk', 'junk 1d', '10 days ago', 'in 2 days', '1d1d', '1 d 2', 'PT', 'P', 'P1DT', '1e9', '1_0d', '١d', 'd1', '* * * *', '60 * * * *', '0 0 30 2 *', '0 9 * * FOO',
    '@daily', '1d\n2h junk', '999999999999y', 'NaN', 'inf'])
def test_nonsense_is_refused_with_examples(vault, bad):
    with pytest.raises(ValueError, match="write|examples|'30m'"): vault.watch('x', every=bad)
    assert vault.watches() == [] and vault.jobs() == []

# -- time

@case('watch-time-01')
def test_a_weekly_job_keeps_its_hour_over_a_clock_change(report):
    tz = ZoneInfo(report['input']['tz'])
    start = datetime.fromisoformat(report['input']['start']).replace(tzinfo=tz).timestamp()
    def runs(every): return datetime.fromtimestamp(following(parse_schedule(every, tz.key), start, start, start)[0], tz).strftime('%Y-%m-%d %H:%M')
    assert runs('1w') == '2019-04-02 16:00' and runs('168h') == '2019-04-02 17:00'

@case('watch-time-03')
@pytest.mark.parametrize('every', ['1d', '30 2 * * *'])
def test_a_skipped_hour_runs_once_and_a_doubled_hour_once(report, every):
    tz = ZoneInfo(report['input']['tz'])
    for date in report['input']['dates']:
        day = datetime.fromisoformat(f'{date} 02:30')
        start = at = day.replace(day=day.day - 1, tzinfo=tz).timestamp()
        runs = []
        for _ in range(3):
            at = following(parse_schedule(every, tz.key), start, at, at)[0]
            runs.append(datetime.fromtimestamp(at, tz).strftime('%Y-%m-%d %H:%M'))
        assert [run[:10] for run in runs] == [day.replace(day=day.day + n).strftime('%Y-%m-%d') for n in range(3)]
        assert runs[0][11:] == ('03:00' if date == '2026-03-29' else '02:30') and runs[1][11:] == runs[2][11:] == '02:30'

@case('watch-time-05')
def test_due_is_at_the_minute_not_after_it(vault, report):
    due = vault.watch('x', every='1d', tz='UTC')['next_run']
    shift = due - report['input']['next_run']
    assert [vault.poll(at=at + shift, connect=False)['ran'] for at in report['input']['poll_at']] == [0, 1, 0]

@pytest.mark.parametrize('back', [1, 3600, DAY, 400 * DAY])
def test_a_clock_that_is_set_back_runs_nothing_again(vault, back):
    watch = vault.watch('x', every='1h', tz='UTC')
    at = watch['next_run'] + 5 * 3600
    assert vault.poll(at=at, connect=False)['ran'] == 1
    assert [vault.poll(at=at - back + step, connect=False)['ran'] for step in (0, 1, back - 1)] == [0, 0, 0]
    assert vault.poll(at=at + 3600, connect=False)['ran'] == 1 and vault.watches()[0]['missed'] == 5

def test_a_clock_that_stood_far_ahead_is_told(vault):
    watch = vault.watch('x', every='1h', tz='UTC')
    vault.poll(at=watch['next_run'] + 4000 * DAY, connect=False)
    assert 'the clock stood wrong' in vault.watches()[0]['remark']
    vault.pause(watch['id'])
    assert vault.resume(watch['id'])['next_run'] - time.time() < 3601

@pytest.mark.parametrize('every, missed', [('1h', 7 * 24), ('1d', 7), ('0 9 * * *', 7), ('10s', 7 * 8640)])
def test_a_week_asleep_runs_once_and_counts_what_was_missed(vault, every, missed):
    watch = vault.watch('x', every=every, tz='UTC')
    assert vault.poll(at=watch['next_run'] + 7 * DAY + 1, connect=False)['ran'] == 1
    row, = vault.watches()
    assert abs(row['missed'] - missed) <= 1 and row['next_run'] > watch['next_run'] + 7 * DAY
    assert vault.poll(at=watch['next_run'] + 7 * DAY + 2, connect=False)['ran'] == 0

# -- pages

PLAIN = {'Content-Type': 'text/plain'}

@case('watch-http-01')
def test_304_with_a_gzip_header_is_unchanged(vault, site, report):
    given = report['input']
    site.routes['/'] = lambda r: (given['status'], given['headers'], given['body'].encode()) if 'if-none-match' in r.headers else (200, PLAIN | {'ETag': '"a"'}, b'text')
    watch = vault.watch(site.url('/'), 'url', every='1d', tz='UTC')
    assert once(vault, watch)['result']['changed'] is True
    second = once(vault, watch, 1)
    assert (second['status'], second['result']['changed']) == ('ok', False) and vault.versions(site.url('/')) == []

@case('watch-http-03')
def test_a_charset_is_read_from_header_or_page(vault, site, report):
    body = report['input']['body_bytes'].encode().decode('unicode_escape').encode('latin-1')
    for n, kind in enumerate(report['input']['headers']):
        meta = b'' if 'charset' in kind else report['input']['meta'].encode()
        site.routes[f'/{n}'] = (200, {'Content-Type': kind}, b'<html><head>' + meta + b'</head><body><p>' + body + b'</p></body></html>')
        told = vault.url(site.url(f'/{n}'))
        assert vault.document(told['doc_id'])['text'].strip() == 'Grüße'

@pytest.mark.parametrize('header, body', [('text/html; charset=utf-8', '<p>Grüße</p>'.encode('latin-1')), ('text/html; charset=nonsense', '<p>Grüße</p>'.encode()), ('text/html', '<p>Grüße</p>'.encode('utf-16')),
    ('text/html; charset="UTF-8"', '<p>Grüße</p>'.encode()), ('text/html;charset=latin1', '<meta charset=utf-8><p>Grüße</p>'.encode()), ('application/xhtml+xml', '<?xml version="1.0" encoding="iso-8859-1"?><html><body><p>Grüße</p></body></html>'.encode('latin-1'))])
def test_a_wrong_charset_is_found_out(vault, site, header, body):
    site.routes['/'] = (200, {'Content-Type': header}, body)
    assert vault.document(vault.url(site.url('/'))['doc_id'])['text'].strip() == 'Grüße'

@case('watch-http-05')
def test_what_is_called_json_and_is_none_is_text(vault, site, report):
    site.routes['/'] = (200, {'Content-Type': report['input']['ctype']}, report['input']['body'].encode())
    told = once(vault, vault.watch(site.url('/'), 'url', every='1d', tz='UTC'))
    assert told['status'] == 'ok' and vault.document(told['result']['doc_id'])['text'] == report['input']['body']

@case('watch-http-07')
def test_another_etag_with_the_same_text_is_no_change(vault, site, report):
    watch = vault.watch(site.url('/'), 'url', every='1d', tz='UTC')
    changed = []
    for day, etag in enumerate(report['input']['etags']):
        site.routes['/'] = (200, PLAIN | {'ETag': etag}, report['input']['body'].encode())
        changed.append(once(vault, watch, day)['result']['changed'])
    assert changed == [True, False] and vault.versions(site.url('/')) == []

@case('watch-http-09')
def test_an_error_page_is_an_error_and_the_document_stays(vault, site, report):
    site.routes['/'] = (200, PLAIN, b'High water at noon.')
    watch = vault.watch(site.url('/'), 'url', every='1d', tz='UTC')
    document = once(vault, watch)['result']['doc_id']
    site.routes['/'] = (report['input']['status'], {}, report['input']['body'].encode())
    told = once(vault, watch, 1)
    assert told['status'] == 'retry' and '502' in told['error'] and '502' in vault.watches()[0]['last_error']
    assert vault.document(document)['text'] == 'High water at noon.' and vault.versions(document) == []
    site.routes['/'] = (200, PLAIN, b'High water at one.')
    assert once(vault, watch, 3)['result']['changed'] and vault.watches()[0]['failures'] == 0

@pytest.mark.parametrize('status, outcome', [(400, 'error'), (401, 'error'), (403, 'error'), (404, 'error'), (410, 'error'), (451, 'error'), (408, 'retry'), (425, 'retry'), (429, 'retry'), (500, 'retry'), (503, 'retry'), (599, 'retry'), (204, 'retry'), (206, 'ok')])
def test_each_status_has_its_outcome(vault, site, status, outcome):
    site.routes['/'] = (status, PLAIN, b'' if status == 204 else b'text')
    assert once(vault, vault.watch(site.url('/'), 'url', every='1d', tz='UTC'))['status'] == outcome

def test_retry_after_is_kept(vault, site):
    site.routes['/'] = (429, {'Retry-After': '7200'}, b'')
    watch = vault.watch(site.url('/'), 'url', every='1d', tz='UTC')
    once(vault, watch)
    assert vault.poll(at=watch['next_run'] + 7000, connect=False)['ran'] == 0
    assert vault.poll(at=watch['next_run'] + 7300, connect=False)['ran'] == 1

def slowly(request):
    request.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 60\r\n\r\n')
    for _ in range(60):
        request.wfile.write(b'.')
        time.sleep(0.2)

def endless(request):
    request.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n')
    for _ in range(100_000): request.wfile.write(b'x' * 65536)

BAD = {'/slow': (slowly, 'timed out'), '/endless': (endless, 'too big'), '/huge': (lambda r: r.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n'), 'too big'),
    '/gzip-bomb': ((200, {'Content-Encoding': 'gzip'}, gzip.compress(bytes(30 << 20))), 'too big'), '/br-bomb': ((200, {'Content-Encoding': 'br'}, brotli.compress(bytes(30 << 20), quality=1)), 'too big'),
    '/bomb-in-bomb': ((200, {'Content-Encoding': 'gzip, gzip'}, gzip.compress(gzip.compress(bytes(30 << 20)))), 'too big'), '/unknown-packing': ((200, {'Content-Encoding': 'zstd'}, b'x'), 'broken'),
    '/cut': (lambda r: r.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf'), 'cut off'), '/cut-chunk': (lambda r: r.wfile.write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhalf'), 'cut off'),
    '/cut-gzip': ((200, {'Content-Encoding': 'gzip'}, gzip.compress(b'the text of the page')[:-6]), 'cut off'), '/silent': (lambda r: None, 'cut off'),
    '/loop': ((301, {'Location': '/loop'}, b''), 'redirects'), '/no-place': ((302, {'Location': 'javascript:alert(1)'}, b''), 'redirects'), '/inside': ((307, {'Location': 'http://10.0.0.5/'}, b''), 'refused'),
    '/metadata': ((301, {'Location': 'http://169.254.169.254/latest/meta-data'}, b''), 'refused'), '/other-port': ((301, {'Location': 'http://localhost:22/'}, b''), 'refused'),
    '/login': ((200, {'Content-Type': 'text/html'}, b'<form><input type=password></form>Please log in'), 'login'), '/report': ((302, {'Location': '/account/login?next=1'}, b''), 'login'),
    '/picture': ((200, {'Content-Type': 'text/html'}, b'\x89PNG\r\n\x1a\n' + bytes(50)), 'broken'), '/empty': ((200, {}, b''), 'broken'), '/many-headers': (lambda r: r.wfile.write(b'HTTP/1.1 200 OK\r\n' + b'X: y\r\n' * 300 + b'\r\n'), 'cut off'),
    '/long-header': (lambda r: r.wfile.write(b'HTTP/1.1 200 OK\r\nX: ' + b'y' * 100_000 + b'\r\n\r\n'), 'cut off')}

@pytest.mark.parametrize('path', BAD)
def test_a_server_that_misbehaves_is_named_and_stops_nobody(vault, site, path):
    site.routes |= {name: route for name, (route, _) in BAD.items()} | {'/account/login': (200, {'Content-Type': 'text/html'}, b'<p>' + b'word ' * 200 + b'<form><input type=password></form>'), '/good': (200, PLAIN, b'good')}
    with pytest.raises(FetchError) as told: vault.url(site.url(path))
    assert told.value.reason == BAD[path][1], str(told.value)
    assert vault.stats()['docs'] == 0
    bad, good = (vault.watch(site.url(where), 'url', every='1d', tz='UTC') for where in (path, '/good'))
    statuses = {row['watch_id']: row['status'] for row in vault.poll(at=good['next_run'], connect=False)['results']}
    assert statuses[good['id']] == 'ok' and statuses[bad['id']] in ('retry', 'error')

# -- jobs

@case('watch-jobs-01')
def test_what_is_overdue_shows_and_a_poll_catches_up_without_a_thread(vault, report):
    watch = vault.watch('look outside', every='1h', tz='UTC')
    late = watch['next_run'] + 23 * DAY
    row, = vault.watches(at=late)
    assert row['overdue'] == 23 * DAY and 'overdue by 23 days' in row['remark'] or 'overdue by 3 weeks' in row['remark']
    threads = threading.active_count()
    assert vault.poll(at=late, connect=False)['ran'] == 1 and threading.active_count() == threads

def test_the_tool_shows_what_is_overdue(tmp_path, vault):
    with vault.store.engine.write(): vault.watch('look outside', every='1h', tz='UTC') and vault.store.engine.rows('update watches set next_run = next_run - 864000')
    host = VaultHost([tmp_path], vault=vault, index=False, web=False)
    assert 'overdue by 1 week: nobody polls' in next(t for t in tools_for(host) if t.__name__ == 'list_watches')()

def test_nothing_found_for_many_runs_shows(vault, site):
    site.routes['/'] = (200, PLAIN, b'same')
    watch = vault.watch(site.url('/'), 'url', every='1d', tz='UTC')
    for day in range(7): once(vault, watch, day)
    assert 'nothing found for 6 runs' in vault.watches(at=watch['next_run'] + 6 * DAY)[0]['remark']

@case('watch-jobs-03')
def test_a_paused_watch_is_not_run(vault, report):
    watch = vault.watch('x', every='1h', tz='UTC')
    vault.pause(watch['id'])
    assert vault.poll(at=watch['next_run'] + 10 * DAY, connect=False)['ran'] == 0

def test_a_watch_paused_while_its_job_waits_is_not_run(vault):
    from ramabana.jobs import Job, claim, new_worker
    from ramabana.watches import queue_due, run_job
    watch = vault.watch('x', every='1h', tz='UTC')
    queue_due(vault.store.engine, watch['next_run'])
    job, = claim(vault.store.engine, watch['next_run'], new_worker())
    vault.pause(watch['id'])
    assert run_job(vault, job, watch['next_run'])['status'] == 'skipped' and vault.stats()['docs'] == 0 and vault.jobs() == []

@case('watch-jobs-05')
def test_a_long_run_is_not_begun_again(tmp_path, vault, report):
    begun, enough = [], threading.Event()
    def slow(target, **kw):
        begun.append(target)
        enough.wait(60)
        return dict(changed=False)
    vault.url = slow
    watch = vault.watch('http://example.org/', 'url', every='10s', tz='UTC')
    worker = threading.Thread(target=lambda: vault.poll(at=watch['next_run'], connect=False))
    worker.start()
    with Vault(tmp_path/'v.db') as other:
        other.url = slow
        while not begun: time.sleep(0.01)
        for n in range(20): assert other.poll(at=watch['next_run'] + 20 * n, connect=False)['ran'] == 0
    enough.set()
    worker.join()
    assert len(begun) == 1

@case('watch-jobs-07')
def test_two_connections_deliver_a_reminder_once(tmp_path, vault, report):
    watch = vault.watch('Drink the tea.', every='1d', tz='UTC')
    barrier, ran = threading.Barrier(report['input']['pollers']), []
    def poll():
        with Vault(tmp_path/'v.db') as mine:
            barrier.wait()
            ran.append(mine.poll(at=watch['next_run'], connect=False)['ran'])
    threads = [threading.Thread(target=poll) for _ in range(report['input']['pollers'])]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert sum(ran) == 1 and vault.stats()['docs'] == 1 and len(vault.runs()) == 1

@case('watch-jobs-09')
def test_an_occurrence_cannot_be_noted_twice(vault, report):
    from ramabana.core import VaultError
    from ramabana.jobs import Job, note_run
    watch = vault.watch('x', every='1d', tz='UTC')
    assert vault.poll(at=watch['next_run'], connect=False)['ran'] == 1
    with pytest.raises(VaultError): note_run(vault.store.engine, Job(1, watch['id'], watch['next_run'], 1, 'me'), watch, 0.0, 0.0, 'ok')     # test_watch_processes kills at each step

def test_a_job_that_never_works_is_set_aside_and_the_watch_stays(vault):
    def down(target, **kw): raise ConnectionError('name not resolved')
    vault.url = down
    watch = vault.watch('http://example.org/', 'url', every='30d', tz='UTC')
    at, statuses, waits = watch['next_run'], [], []
    for _ in range(5):
        told = vault.poll(at=at, connect=False)
        statuses.append(told['results'][0]['status'])
        following_ = told['next_due']
        waits.append(following_ - at)
        at = following_
    assert statuses == ['retry'] * 4 + ['dead'] and waits[:4] == sorted(waits[:4])
    assert [job['target'] for job in vault.dead()] == ['http://example.org/'] and vault.watches()[0]['enabled']
    del vault.url
    vault.url = lambda target, **kw: dict(changed=True)
    assert vault.retry_job(vault.dead()[0]['job_id']) and vault.poll(at=time.time() + 9, connect=False)['results'][0]['status'] == 'ok'

def test_a_vault_that_will_not_open_is_told_by_poll(tmp_path):
    (tmp_path/'v.db').write_bytes(b'no database' * 100)
    told = VaultHost([tmp_path], vault=tmp_path/'v.db', index=False, web=False, warm=False).poll()
    assert (told['checked'], told['ran'], told['results']) == (0, 0, []) and 'v.db' in told['error']

# -- what is read of a page

@case('html-extract-02')
def test_the_cookie_banner_is_not_the_page(vault, site, report):
    site.routes['/'] = (200, {'Content-Type': 'text/html'}, report['input']['html'].encode())
    text = vault.document(vault.url(site.url('/'))['doc_id'])['text']
    assert 'Real text.' in text and 'long long' not in text

@pytest.mark.parametrize('banner', ['<div class="cookie-banner">{}</div>', '<div role=dialog>{}</div>', '<aside>{}</aside>', '<div id=gdpr-consent>{}</div>', '<nav>{}</nav>', '<div style="display:none">{}</div>'])
def test_no_banner_is_the_page(banner):
    assert 'Real text' in main_text('<body>' + banner.format('We value your privacy and our partners do as well. ' * 20) + '<div><h1>Tides</h1><p>Real text about the tides.</p></div></body>')

@case('html-extract-04')
def test_a_switch_gives_the_whole_page(vault, site, tmp_path, report):
    words = 'The tide turns twice a day and the harbour master writes it down. ' * 6
    html = f'<html><body><nav>Menu</nav><section><h2>First</h2><p>{words}</p></section><section><h2>Second</h2><p>{words}</p></section><footer>Imprint</footer></body></html>'
    site.routes['/'] = (200, {'Content-Type': 'text/html'}, html.encode())
    host = VaultHost([tmp_path], vault=vault, index=False)
    tool = next(t for t in tools_for(host) if t.__name__ == 'read_url')
    whole = tool(site.url('/'), whole=True)
    assert all(word in whole for word in ('Menu', 'First', 'Second', 'Imprint'))
    assert 'Menu' not in tool(site.url('/')) and read_html(html, whole=True).text in whole

# -- the network

@case('net-safety-02')
def test_a_redirect_inside_stops_at_its_hop(site, report):
    site.routes['/'] = (302, {'Location': report['input']['chain'][1]}, b'')
    with pytest.raises(FetchError) as told: fetch(site.url('/'))
    assert told.value.reason == 'refused' and [path for path, _ in site.asked] == ['/']

def test_a_name_that_leads_inside_is_refused_and_asked_once(monkeypatch):
    import socket
    answers = iter(['93.184.215.14', '127.0.0.1'])      # rebinding: another answer the second time
    asked = []
    def look(host, port, *args, **kw):
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, '', (next(answers), port))]
    monkeypatch.setattr(socket, 'getaddrinfo', look)
    assert look_up('http://rebind.example/') == ['93.184.215.14'] and asked == ['rebind.example']
    with pytest.raises(FetchError, match='not public'): look_up('http://rebind.example/')

def test_the_connection_goes_to_the_address_that_was_checked(site, monkeypatch):
    import ramabana.fetch as fetching
    real, places = fetching.socket.create_connection, []
    monkeypatch.setattr(fetching.socket, 'create_connection', lambda address, **kw: places.append(address) or real(address, **kw))
    site.routes['/'] = (200, PLAIN, b'x')
    set_setting('web.allow', ['localhost'])
    fetch(site.url('/').replace('127.0.0.1', 'localhost'))
    assert all(place[0] in ('127.0.0.1', '::1') for place in places) and places

@case('net-safety-04')
def test_other_schemes_are_refused_everywhere(tmp_path, vault, report):
    host = VaultHost([tmp_path], vault=vault, index=False)
    for url in report['input']['urls']:
        for call, *rest in ((vault.watch, 'url'), (host.watch, 'url'), (host.read_url,), (vault.url,)):
            with pytest.raises(ValueError): call(url, *rest)
    assert vault.watches() == [] and vault.stats()['docs'] == 0

@pytest.mark.parametrize('host', ['127.0.0.1', '2130706433', '0x7f000001', '0177.0.0.1', '127.1', '[::1]', '[::ffff:127.0.0.1]', 'localhost', '0.0.0.0', '[::]', '10.0.0.5', '192.168.0.1', '172.16.0.1', '169.254.169.254', '100.64.0.1'])
def test_private_addresses_are_refused_in_every_spelling(vault, host):
    told = once(vault, vault.watch(f'http://{host}/', 'url', every='1d', tz='UTC'))
    assert told['status'] in ('error', 'retry') and ('not public' in told['error'] or 'looked up' in told['error'])

def test_a_tool_cannot_allow_a_private_address(tmp_path, vault, site):
    set_setting('web.allow', [])
    host = VaultHost([tmp_path], vault=vault, index=False)
    assert 'not public' in next(t for t in tools_for(host) if t.__name__ == 'read_url')(site.url('/'))
    assert site.asked == []

# -- the age of facts

@case('time-and-truth-02')
def test_a_superseded_document_is_not_found(vault, report):
    old, new = (vault.note(f'The release is on {day}.', title=f'release {day}')['doc_id'] for day in ('Thursday', 'Friday'))
    vault.supersede(old, new)
    for mode in ('hybrid', 'text', 'vector'): assert [s.doc_id for s in vault.search('when is the release, Thursday or Friday', mode=mode)] == [new]
    assert 'Thursday' not in repr(vault.context('release').results) + repr(vault.context('release').related)
    assert vault.document(old)['text'] == 'The release is on Thursday.' and vault.doc(old)['stale'] == f'superseded by {new}'

@case('time-and-truth-04')
def test_age_is_counted_from_the_last_look(vault, report):
    for name in ('seen', 'unseen'): vault.note(f'The {name} fact about tides.', key=name)
    with vault.store.engine.write(): vault.store.engine.rows('update docs set updated = updated - 8640000, checked = checked - 8640000, added = added - 8640000')
    before = vault.doc('note:seen')['checked']
    assert vault.confirm('note:seen')['checked'] > before
    ages = {s.source: s.age for s in vault.search('fact about tides')}
    assert ages['note:seen'] < 60 and ages['note:unseen'] > 8_000_000
    assert [row['source'] for row in vault.stale(older=30 * DAY)] == ['note:unseen']
