"""The gate on what others reported: a value that was missed, one that was no value, one that leaked. Each report stands for its kind, so each brings relatives."""
import dataclasses
import json
import logging
import random

import pytest
from cases_of import case
from ramabana import Vault
from ramabana.cli import run
from ramabana.core import Hit, Section
from ramabana.pii import Finding, find_pii, gate, pii_report, redact, redact_obj
from ramabana.pii_labels import find_labels

def kinds(text, **options): return [f.kind for f in find_pii(text, **options)]
def values(text, **options): return [text[f.start:f.end] for f in find_pii(text, **options)]
def joined(*parts): return ''.join(parts)
def texts_of(report): return report['input'].get('texts') or [report['input']['text']]

def all_found(texts, kind):
    for text in texts:
        assert kinds(text) == [kind], text
        for value in values(text): assert value not in redact(text)

# ---- what was missed

@case('pii-miss-01')
def test_an_invisible_character_hides_nothing(report):
    all_found([*texts_of(report), 'bob\u00ad@exam\u2060ple.org', 'x\ufeff@example.com', 'ann@exam\u200dple\u200c.org'], 'email')
    all_found(['SSN 536\u200b-22-1234'], 'national_id')
    all_found(['call +44 20\u200c 7946 0958'], 'phone')
    assert values(report['input']['text']) == ['alice@\u200bexample.com']

@case('pii-miss-03')
def test_a_digit_is_a_digit_in_any_script(report):
    all_found([*texts_of(report), '４１１１１１１１１１１１１１１１'], 'card')
    all_found(['tel ＋４４ ２０ ７９４６ ０９５８', 'phone: ٠٣٠ ١٢٣٤٥٦٧', 'phone: ०३० १२३४५६७'], 'phone')
    all_found(['SSN ５３６－２２－１２３４'], 'national_id')
    all_found(['ｊａｎｅ＠ｅｘａｍｐｌｅ．ｃｏｍ'], 'email')
    assert redact('card ４１１１　１１１１　１１１１　１１１１　ｏｋ') == 'card [CARD]　ｏｋ'

@case('pii-miss-05')
def test_a_card_from_a_spreadsheet_or_wrapped_by_a_mail_is_one(report):
    all_found([*texts_of(report), '4111\n1111\n1111\n1111', '4111 1111\n1111 1111', '4111-1111-1111-1111', '4111\xa01111\xa01111\xa01111', '3782 822463 10005'], 'card')
    assert redact(report['input']['text']) == '[CARD] (555) next cell'

@case('pii-miss-07')
def test_phones_of_all_continents(report):
    all_found([*texts_of(report), '+91 98765 43210', '+55 11 91234-5678', '+61 2 9374 4000', '+27 11 978 5313', '+52 55 1234 5678', '0044 20 7946 0958'], 'phone')

@case('pii-miss-09')
def test_the_bracket_belongs_to_the_phone(report):
    assert values(report['input']['text']) == ['(415) 555-0182']
    assert values('call 415-555-0182 now') == ['415-555-0182']
    assert values('ring (020) 7946 0958 today') == ['(020) 7946 0958']
    assert values('Tel.: +49 (0)89 1234567.') == ['+49 (0)89 1234567']

@case('pii-miss-11')
def test_a_spelled_or_escaped_address_is_one(report):
    all_found([*texts_of(report), 'jane&#x40;example.com', 'x?to=jane%40example.com', 'jane.doe at example dot com', 'jane {at} example {dot} com', 'jane&commat;example&period;com'], 'email')

# ---- what was found and is nobody's

def nothing_in(texts):
    for text in texts: assert kinds(text) == [], text

@case('pii-false-alarm-02')
def test_a_moment_is_no_phone(report):
    nothing_in([*texts_of(report), 'epoch 1700000000000', 'ts=1747731000 ok', '2024-12-31T23:59:59+00:00', '20231201123456', '202309141230', 'at 1747731000123456789 ns', '[1747731000] start'])

@case('pii-false-alarm-04')
def test_a_hash_is_no_number(report):
    nothing_in([*texts_of(report), 'sha256:9434765919943476591994347659199434765919943476591994347659190000', 'blob 4111111111111111a', 'U0001073f', '\\U0001073f', 'e4155550182'])

@case('pii-false-alarm-06')
def test_a_piece_of_an_identifier_is_no_number(report):
    nothing_in([*texts_of(report), 'order no. 4111111111111112', 'invoice 021 555 0182', 'ticket 415-555-0182'])

@case('pii-false-alarm-08')
def test_a_version_or_part_number_is_no_number(report):
    nothing_in([*texts_of(report), 'v1.2.3-4567', '127.0.0.1:8080', '255.255.255.0', 'clause 252.227-7013', 'Boston, MA 02110-1301 and'[8:], '0307 0300 ; [.0000.0025.'])

@case('pii-false-alarm-10')
def test_code_is_no_person(report):
    nothing_in([*texts_of(report), '@pytest.mark.skip', 'icon@2x.png', "national_number_pattern='[14689][1-9]'", '#define IPAddressChoice_addressesOrRanges 1', 'Copyright: 1991-2013, Thomas G. Lane'])

@pytest.mark.parametrize('text', ['ISBN 978-0-306-40615-7', 'ISO 8601-1:2019', 'RFC 2119 and RFC 8174', 'DOI 10.1000/182', 'CVE-2021-44228', 'IEEE 802.11-2020', 'total 1,234,567.89 EUR', 'pages 100-120', 'port 8080', '3.14159265358979', 'from 2019-2021',
    'the phone is on the table in room 12', 'I lost my passport', 'SSN is a label', 'Spring 2007', 'sin embargo 1234567890', 'chapter 12 page 345', '0x7fffdeadbeef', '1.2.840.113549.1.1.11', '4213\n4226\n4227\n4229\n4957\n4960\n5906\n5909\n5938'])
def test_what_is_nobodys_stays(text): nothing_in([text])

# ---- what leaked

@case('pii-leak-02')
def test_every_address_in_a_row_is_masked(report):
    assert redact(report['input']['text']) == '[EMAIL] [EMAIL] [EMAIL]'
    assert '@' not in redact('a@example.com,b@example.com;c@example.com|d@example.com<e@example.com>')

@case('pii-leak-04')
def test_overlapping_findings_make_one_mask(report):
    assert redact(report['input']['text']) == report['input']['text']      # no name is looked for unless asked
    text = 'SSN passport 536-22-1234 and IBAN GB82 WEST 1234 5698 7654 32 tel'
    found = find_pii(text)
    assert all(a.end <= b.start for a, b in zip(found, found[1:], strict=False))
    assert redact(text) == 'SSN passport [PASSPORT] and IBAN [IBAN] tel'

@case('pii-leak-06')
def test_the_caller_gets_the_masked_copy(report):
    reply = report['input']['local_model_reply']
    assert gate({'text': reply}, 'redact')['text'] == 'Her mail is [EMAIL]'
    assert redact_obj({'reply': [reply]}) == {'reply': ['Her mail is [EMAIL]']}

@case('pii-leak-08')
def test_no_log_and_no_record_holds_a_value(report, caplog):
    caplog.set_level(logging.DEBUG)
    text = f'{report["input"]["text"]}, ann@example.org, card 4111 1111 1111 1111, dni 54362315K'
    found = find_pii(text)
    told = caplog.text + repr(found) + repr(pii_report(text)) + ' '.join(f.why for f in found)
    for value in ('536-22-1234', 'ann@example.org', '4111 1111', '54362315'): assert value not in told
    assert set(Finding._fields) == {'start', 'end', 'kind', 'score', 'why'}

@case('secrets-01')
def test_a_token_of_the_command_line_is_in_no_log(report, caplog, tmp_path):
    caplog.set_level(logging.DEBUG)
    argv = report['input']['argv']
    run([*argv, '--db', str(tmp_path/'v.db')])
    run(['search', *argv, '--db', str(tmp_path/'v.db')])
    assert argv[-1] not in caplog.text

@case('secrets-03')
def test_a_level_is_kept(report, caplog):
    level = getattr(logging, report['input']['log_level'].upper())
    with caplog.at_level(level):
        find_pii('Authorization: Bear' + 'er abcDEF123456ghiJKL789, ric 360426199101010071')
    assert not caplog.records

@case('secrets-05')
def test_memory_returns_no_password(report, tmp_path):
    note, value = joined(*report['input']['note_parts']), joined('hunter', '2')
    with Vault(tmp_path/'v.db') as vault:
        told = vault.note(note, title='connection')
        assert value in repr(vault.read(told['doc_id']))
        for policy in ('redact', 'refuse'):
            assert value not in repr((vault.read(told['doc_id'], pii=policy), vault.search('postgres', pii=policy), vault.context('postgres', pii=policy)))
    for text in (joined('https', '://ann:s3cr', 'et!x@example.com/path'), joined('mongodb+srv', '://u:p4ss', 'word@c.example.net/?w=1'), joined('redis', '://:s3cr', 'et!x@10.0.0.1:6379/0')):
        assert kinds(text)[:1] == ['secret'] and not any(v in redact(text) for v in (joined('s3cr', 'et!x'), joined('p4ss', 'word')))

# ---- secrets

SECRETS = {
    'published prefix': (joined('use gh', 'p_', 'a8Kd02LmXz'*4, ' here'), joined('gh', 'p_', 'a8Kd02LmXz'*4)),
    'cloud key': (joined('AKI', 'A', 'QWADE5R42RDZ4JEM'), joined('AKI', 'A', 'QWADE5R42RDZ4JEM')),
    'address of a hook': (joined('https://hooks.sla', 'ck.com/services/T0DCUJB1Q/B0DD08H5G/', 'bJtrpFi1fO1JMCcwLx8uZyAg'), 'bJtrpFi1fO1JMCcwLx8uZyAg'),
    'bearer': (joined('Authorization: Bear', 'er ', 'abcDEF123456ghiJKL789'), 'abcDEF123456ghiJKL789'),
    'json web token': (joined('jwt: ey', 'JhbGciOiJIUzI1NiJ9', '.ey', 'JzdWIiOiIxMjM0NTY3ODkwIn0', '.abcDEF123456ghi'), 'abcDEF123456ghi'),
    'assignment': (joined('db_pass', 'word = "cack', 'le!9"'), joined('cack', 'le!9')),
    'short word': (joined('pw', 'd: Ihq', 'Sb1Gg'), joined('Ihq', 'Sb1Gg')),
    'comparison': (joined('if pass', 'word !== "PaS5w0', 'rD2#" {'), joined('PaS5w0', 'rD2#')),
    'key behind a key word': (joined('api_', 'key: "9f8Ea7bC6d5Xe4f3A2b1"'), '9f8Ea7bC6d5Xe4f3A2b1'),
    'armour': (joined('-----BEGIN RSA PRIV', 'ATE KEY-----\nMIIBOgIBAAJBAJtF\n-----END RSA PRIV', 'ATE KEY-----'), 'MIIBOgIBAAJBAJtF'),
    'prose': (joined('her login pass', 'word is Start@', '2025.'), joined('Start@', '2025')),
    'another language': (joined('Passwort: Som', 'mer#2024'), joined('Som', 'mer#2024')),
    'identified by': (joined('IDENTIFIED', " BY 'u2O3E1d", "LcH#e'"), joined('u2O3E1d', 'LcH#e')),
}

@pytest.mark.parametrize('text, value', SECRETS.values(), ids=SECRETS)
def test_a_secret_is_masked(text, value):
    assert value in text
    assert 'secret' in kinds(text)
    assert value not in redact(text)

@pytest.mark.parametrize('text', ['password=os.environ["PW"]', 'PASSWORD=${PASSWORD}', 'password: str', 'token: <token>', 'secret = None', 'password = "changeme"', 'api_key = your_api_key_here', 'tokenizer = AutoTokenizer', 'https://user:${PASS}@example.com', 'PWD=/home/ann/x1',
    'a passage of 12 lines', 'bypass=1', joined('AKI', 'A', 'IOSFODNN7EXAMPLE'), joined('gh', 'p_', 'x'*36), 'next_token: 527c5358-2a1a-4b9e-b1b9-7293b0ddff42', 'public_key = "9Cnzj4p4WGeKLs1Pt8QuKUpRKfFLfRYC9AIKjbJTWit"', 'auth_algorithm = "AWS4-HMAC-SHA256"', 'webhook_path=MATRIX_V1_WEBHOOK_PATH',
    joined('START = b"-----BEGIN OPENSSH PRIV', 'ATE KEY-----"'), 'password = ', '<password name="password">'])
def test_a_placeholder_is_no_secret(text): assert 'secret' not in kinds(text)

# ---- labels, columns, addresses

@pytest.mark.parametrize('text, kind', [('Passport no. X1234567', 'passport'), ('date of birth: 2 May 1980', 'dob'), ('geboren am 02.05.1980', 'dob'), ('née le 2 mai 1980', 'dob'), ('fecha de nacimiento: 02/05/1980', 'dob'), ('urodzony dnia 15.07.1990', 'dob'), ('дата рождения: 02.05.1980', 'dob'),
    ('"dateOfBirth": "1980-05-02"', 'dob'), ('MRN: MRN-1009636', 'medical'), ('Kontonummer: 1234567890', 'account'), ('codice fiscale RSSMRA85T10A562S', 'national_id'), ('my hetu is 131052-308T', 'national_id'), ('<ssn>536221234</ssn>', 'national_id'), ('eGK-Nummer M123456785', 'national_id'),
    ("Driver's license: D1234567", 'licence'), ('And your date of birth?\nA: 1940-05-09.', 'dob'), ('IMEI 490154203237518', 'device'), ('Phone:\n358 0594', 'phone'), ('NIF (Spanish tax number): 54362315K', 'national_id'), ('ssn|dob\n536221234|1980-05-02', 'national_id'), ('NINO: PR 123612C', 'national_id'),
    ('Číslo pasu: 12345678', 'passport'), ('Führerausweis 123456789', 'licence'), ('Τηλέφωνο: 2101234567', 'phone'), ('手机号: 13812345678', 'phone'), ('Telefonszám: 06 1 234 5678', 'phone')])
def test_a_value_behind_its_label_is_found(text, kind): assert kind in kinds(text)

@pytest.mark.parametrize('text, kind', [('131052-308T', 'national_id'), ('756.9217.0769.85', 'national_id'), ('85073003328', 'national_id'), ('1EG4-TE5-MK73', 'national_id'), ('AB 12 34 56 C', 'national_id'), ('MORGA607054SM9IJ', 'licence'), ('S2740116C', 'national_id'), ('536-22-1234', 'national_id')])
def test_a_strict_number_needs_no_label(text, kind):
    assert kinds(text) == kinds(f'and {text}, then') == [kind]

def test_a_label_takes_one_value():
    assert kinds('order 12, then 131052-308T') == ['national_id']
    assert kinds('order 131052-308T') == []

def test_the_label_is_not_masked():
    assert redact('Passport no. X1234567') == 'Passport no. [PASSPORT]'
    assert redact('SSN: 536-22-1234') == 'SSN: [NATIONAL_ID]'

def test_a_column_is_named_by_its_header():
    text = 'name,passport,dob\nAnn,X1234567,1980-02-01\nBob,X7654321,1981-05-04\n\nno,table,here\n1,2,3'
    assert kinds(text) == ['passport', 'dob', 'passport', 'dob']

@pytest.mark.parametrize('text', ['12 Elm Street, Springfield, IL 62704', 'Hauptstraße 5, 10115 Berlin', '12 rue de Rivoli, 75001 Paris', 'Via Roma 12, 00184 Roma', 'Calle Mayor 5, 28013 Madrid', 'ul. Kwiatowa 15/2, 30-001 Kraków', 'Keizersgracht 123, 1015 CJ Amsterdam', 'Storgatan 5, 111 22 Stockholm', 'P.O. Box 149', 'zip code is 98547'])
def test_an_address_is_found(text): assert 'address' in kinds(text)

def test_labels_read_code_names():
    assert [label.kind for label in find_labels('dateOfBirth date_of_birth DATE-OF-BIRTH')] == ['dob'] * 3

# ---- records

SECTION = Section('4f1c0a9be2d7#0', '4f1c0a9be2d7', 'Ann (ann@example.org)', 'note:ann', 'note', 'Ann › (415) 555-0182', 'SSN 536-22-1234', why={'terms': ['536-22-1234']})

def test_every_text_field_is_gated():
    masked, refused = gate(SECTION, 'redact'), gate(SECTION, 'refuse')
    for out in (masked, refused):
        told = repr(out)
        for value in ('ann@example.org', '555-0182', '536-22-1234'): assert value not in told
        assert (out.node_id, out.doc_id, out.source, out.kind) == (SECTION.node_id, SECTION.doc_id, SECTION.source, SECTION.kind)
    line = '[withheld: personal information (email, phone, national_id)]'
    assert (refused.title, refused.breadcrumb, refused.text) == (line, line, line)

def test_a_heading_is_the_label_of_its_text():
    assert gate(Section('a#1', 'a', 'Bob', 'note:b', 'note', 'Bob › Passport no.', 'X1234567'), 'redact').text == '[PASSPORT]'

def test_hits_and_dicts_pass_the_same_gate():
    hit = Hit('Ann › ann@example.org', symbol='a#0', text='tel +44 20 7946 0958', title='ann@example.org', ref='a', why={'terms': ['ann@example.org']})
    assert '@' not in repr(gate(hit, 'redact')) and '7946' not in repr(gate(hit, 'refuse'))
    row = {'node_id': 'a#0', 'text': 'x', 'children': [{'title': 'ann@example.org', 'node_id': 'b#0'}], 'tree': [{'title': 'ann@example.org', 'node_id': 'b#0'}]}
    assert '@' not in repr(gate(row, 'redact')) and '@' not in repr(gate(row, 'refuse'))
    assert gate(row, 'redact')['tree'][0]['node_id'] == 'b#0'

@pytest.mark.parametrize('policy', ['on', '', 'REDACT', 1])
def test_an_unknown_policy_is_refused(policy):
    with pytest.raises(ValueError, match='unknown pii policy'): gate(SECTION, policy)

def test_nested_values_and_keys_are_masked():
    out = redact_obj({'ann@example.org': [{'ssn': 536221234, 'n': 3}, ('x', 'tel +44 20 7946 0958')]})
    assert out == {'[EMAIL]': [{'ssn': '[NATIONAL_ID]', 'n': 3}, ('x', 'tel [PHONE]')]}
    assert 'ann@' not in json.dumps(redact_obj(dataclasses.asdict(SECTION)))

def test_numbered_masks_tell_people_apart():
    assert redact('a@example.org b@example.org A@example.org', style='numbered') == '[EMAIL_1] [EMAIL_2] [EMAIL_1]'

def test_kinds_can_be_chosen():
    text = 'ann@example.org, +44 20 7946 0958'
    assert kinds(text, kinds=['phone']) == ['phone'] == kinds(text, kinds='phone')

SPOKEN = {   # a label and a value as people of that language write them
    'phone': ['tél. 06 47 93 18 52', 'tel. 604 817 392', 'मोबाइल: 98471 20563', 'mob no 9847120563', '联系电话：13867420195', '携帯電話 080-4729-1836', '연락처 010-4729-1836', 'моб. 8 (916) 472-91-83'],
    'dob': ['née le 4 juillet 1990', 'né le 12 juin 1981', 'born on July 4, 1990', '出生日期：1990年7月4日', '生年月日：1990年 7月 4日', '생년월일: 1990년 7월 4일', 'जन्म तिथि: 04/07/1990'],
    'card': ['CVV: 739', 'cvc=4829'],
    'secret': ['the card PIN is 4829', 'PIN code 4829', 'Your verification code is 483920', 'पासवर्ड: Delhi@1947']}
@pytest.mark.parametrize('kind, text', [(kind, text) for kind, texts in SPOKEN.items() for text in texts])
def test_a_label_in_its_language(kind, text):
    found = find_pii(text)
    assert [f.kind for f in found] == [kind], found
    assert redact(redact(text)) == redact(text) and not any(text[f.start:f.end] in redact(text) for f in found)

def random_from(alphabet, n): return ''.join(random.Random(i*n).choice(alphabet) for i in range(n))
HEX, WORD = '0123456789abcdef', 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789'
OPENING = ['pat' + random_from(WORD, 14) + '.' + random_from(HEX, 64), random_from(WORD, 14) + '.atlas' + 'v1.' + random_from(WORD, 64), 'dap' + 'i' + random_from(HEX, 32), 'AI' + 'za' + random_from(WORD, 35),
    'FlyV1 fm' + '2_' + random_from(WORD, 90), 'mysql -u root -p' + 'Zx9!kLm2 shop', "sshpass -p '" + "Zx9!kLm2' ssh host", 'redis-cli -h db -a ' + 'Zx9!kLm2', 'Cookie: theme=dark; sessionid=' + random_from(HEX, 32),
    'https://bucket.example.com/k?X-Amz-Signature=' + random_from(HEX, 64), 'bob:$apr' + '1$x8Kq2LmN$' + random_from(WORD, 22), 'root:$6$rounds=5000$abcdefgh$' + random_from(WORD, 86) + ':19000:0', '$2b$' + '12$' + random_from(WORD, 53),
    'mnemonic = "ritual velvet onion marble scout tumble harbor fluid jelly crater oven zebra"']
@pytest.mark.parametrize('text', OPENING, ids=range(len(OPENING)))
def test_what_opens_something_is_a_secret(text): assert [f.kind for f in find_pii(text)] == ['secret']

@pytest.mark.parametrize('text', ['PIN: 12', 'connect pin 4821 of the header', 'cvv: [0-9]{3}', 'the PIN code must have 4 digits', 'mysql -h db -P 3306 -p shop', 'unzip -p a.zip readme.txt', 'Cookie: theme=dark-and-quite-long-name; lang=en',
    'session id 4711', 'sig=abc', 'error code 48291', 'recovery phrase: see the manual for how to write down the twelve words that open a wallet', '$6$ is a price', 'born in July', 'code: 483920'])
def test_what_only_looks_like_an_opener_stays(text): assert find_pii(text) == []
