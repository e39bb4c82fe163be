"""The figures of the gate on personal data.

    python bench/pii/run.py FOLDER [--sets NAME...] [--no-names]

FOLDER holds the scorer (`score.py`, `kinds.json`, `corpora.json`) and the sets (`dev/*.jsonl`, `*.jsonl.xz`). Neither is part of the repository: the texts are
other people's. Each figure is printed beside its goal.
"""
import argparse
import importlib.util
import json
import lzma
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
RECORDS = 'presidio_synth2 presidio_large anon_adversarial anon_legal anon_technology anon_clinical plpii plpii_robust nano_en'.split()
POOLED = [*RECORDS, *'stdnum_doctest phone_examples phone_matcher presidio_tests cyberpii credsweeper gitleaks detect_secrets'.split()]
SECRETS = 'credsweeper gitleaks detect_secrets'.split()
NAMES = {'news': 'wikigold conll03_testb re3d', 'noisy': 'btc wnut17_test', 'de fr pt pl': 'germeval14_de wikiann_fr lener_br_pt plpii_inflect', 'records': ' '.join(RECORDS)}
RECALL = {'email': (.98, 0), 'phone': (.92, .96), 'card': (.95, 0), 'iban': (.85, 0), 'dob': (.85, 0), 'medical': (.95, 0), 'national_id': (.70, .95), 'address': (.50, .95)}
LABELLED = [(label, value) for label, value in (
    ('SSN: ', '536-22-1234'), ('Passport no. ', 'X1234567'), ('PESEL ', '44051401359'), ('Telefon: ', '030 1234567'), ('Geburtsdatum: ', '02.05.1980'), ('né le ', '2 mai 1980'), ('DNI ', '54362315K'), ('MRN ', 'AB-123456'),
    ('Kontonummer: ', '1234567890'), ('fecha de nacimiento: ', '02/05/1980'), ('codice fiscale ', 'RSSMRA85T10A562S'), ('CPF: ', '390.533.447-05'), ('BSN ', '111222333'), ('personnummer: ', '880320-0016'), ('IBAN: ', 'GB82 WEST 1234 5698 7654 32'),
    ('card number ', '4111 1111 1111 1111'), ('driver license: ', 'D1234567'), ('tel. ', '+33 1 23 45 67 89'), ('password: ', 'hunter' + '2!x'), ('Rijksregisternummer ', '85.07.30-033.28'), ('numer paszportu: ', 'HX6 088035'), ('NIP: ', '521-346-78-94'))]

def load(path, name):
    file = next(Path(path, 'dev').glob(f'{name}.jsonl*'), None)
    if file is None: return []
    return [json.loads(line) for line in (lzma.open(file, 'rt') if file.suffix == '.xz' else open(file))]

def scorer(folder):
    spec = importlib.util.spec_from_file_location('pii_score', Path(folder, 'score.py'))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

def measured(score, meta, rows, name, names):
    "The scorer's result for one set, with milliseconds per KB."
    from ramabana.pii import find_pii
    before = time.process_time()
    found = [[tuple(f)[:4] for f in find_pii(row['text'], names)] for row in rows]
    spent = time.process_time() - before
    kb = sum(len(row['text'].encode('utf8', 'replace')) for row in rows) / 1024
    out = score.fp100(rows, found) if name.startswith('neg_') else score.score(rows, found, meta[name]['scope'], meta[name]['complete'])
    return out | dict(ms=1000 * spent, size=kb, n=len(rows))

def f1(tp, fp, fn):
    p, r = tp / max(tp + fp, 1), tp / max(tp + fn, 1)
    return p, r, 2 * p * r / max(p + r, 1e-9)

def gate(results, sets, mode, negatives=()):
    tp, fp, fn = (sum(results[s][mode][k] for s in sets if s in results) for k in ('tp', 'fp', 'fn'))
    return f1(tp, fp + sum(round((results[s]['flagged_docs'] or 0) * results[s]['n']) for s in negatives), fn)

def by_kind(results, sets):
    out = {}
    for s in sets:
        for kind, v in results.get(s, {}).get('kinds', {}).items():
            row = out.setdefault(kind, Counter())
            row.update(n=v['n'], any=(v['any'] or 0) * v['n'], typed=(v['typed'] or 0) * v['n'], tp=v['tp'], fp=v['fp'])
    return out

def leak(results, mode):
    shares = [results[s]['leak'][mode]['chars'] or 0 for s in RECORDS if s in results]
    return sum(shares) / max(len(shares), 1)

def hostile(names):
    "Milliseconds per KB of the worst of twelve hostile texts."
    from ramabana.pii import find_pii
    size, worst = 20_000, (0, '')
    pem = '-----BEGIN RSA ' + 'PRIVATE KEY-----'
    for text in ('1', '1 ', 'a.', 'Ab ', '1 Ab ', 'QWxhZGRpbjpvcGVuIHNlc2FtZQ', 'a@', '+1 ', 'AA11 ', '\n', pem, 'pass='):
        long = (text * (size // len(text) + 1))[:size]
        before = time.process_time()
        find_pii(long, names)
        worst = max(worst, (1000 * (time.process_time() - before) / (size / 1024), text[:10]))
    return worst

def cold(names):
    "CPU seconds of import and first call, MB added, in a process of its own."
    code = ('import time\ndef held(): return int(open("/proc/self/statm").read().split()[1]) * 4\na = held(); t = time.process_time()\nfrom ramabana.pii import find_pii\n'
            f'find_pii("call +44 20 7946 0958 or ann@example.org, card 4111 1111 1111 1111, dni 54362315K, Ann Smith", names={names})\n'
            'print(time.process_time() - t, (held() - a) / 1024)')
    out = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()
    return float(out[0]), float(out[1])

def doctests(folder):
    from ramabana.pii import find_pii
    rows = load(folder, 'stdnum_doctest')
    core = set(json.loads(Path(folder, 'kinds.json').read_text())['core'])
    hit = lambda row: any(f.kind in core for f in find_pii(row['text']))
    labelled = [hit(r) for r in rows if r['variant'] == 'labelled' and r['gate']]
    bare = [hit(r) for r in rows if r['variant'] == 'bare' and not r['gate']]
    return sum(labelled), len(labelled), sum(bare), len(bare)

def knows_names():
    "Whether this version recognises names of people."
    from ramabana.core import AgentError
    from ramabana.pii import find_pii
    try: find_pii('warm up, Ann Smith', names=True)
    except AgentError: return False
    return True

def precise(row): return f"P {row['tp'] / (row['tp'] + row['fp']):.3f}, " if row['tp'] + row['fp'] else ''

def line(what, goal, value): print(f'| {what} | {goal} | {value} |', flush=True)

def report_identifiers(folder, results, negatives):
    p, r, f = gate(results, RECORDS, 'gate_core', negatives)
    line('gate F1, identifiers, records + negatives (P, R)', '≥ .93 (.985, .88)', f'{f:.3f} ({p:.3f}, {r:.3f})')
    line('leak after masking, identifiers', '≤ .25', f"{leak(results, 'core'):.3f}")
    n = sum(results[s]['n'] for s in negatives)
    line('negative documents flagged', '≤ .01', f"{sum(round((results[s]['flagged_docs'] or 0) * results[s]['n']) for s in negatives) / max(n, 1):.3f} of {n}")
    size = sum(results[s]['size'] for s in negatives)
    line('false positives per 100 KB of negative text, identifiers: mean / worst set', '≤ 0.8 / ≤ 3', f"{sum(results[s]['core'] * results[s]['size'] for s in negatives) / max(size, 1e-9):.2f} / {max(results[s]['core'] for s in negatives):.2f}")
    kinds = by_kind(results, POOLED)
    for kind, (recall, precision) in RECALL.items():
        row = kinds.get(kind)
        if row and row['n']: line(f'recall: {kind}', f'{recall}' + (f' (P ≥ {precision})' if precision else ''), f"{row['any'] / row['n']:.3f} ({precise(row)}n {row['n']})")
    good, valid, bad, bare = doctests(folder)
    line('stdnum doctests: labelled valid found; bare invalid flagged', '≥ 49/52; ≤ 3/78', f'{good}/{valid}; {bad}/{bare}')
    p, r, f = gate(results, SECRETS, 'gate_core')
    line('secrets, pooled gate F1', '≥ .72', f'{f:.3f} ({p:.3f}, {r:.3f})')
    line('ms per KB: identifiers', '≤ 1.5', f"{sum(v['ms'] for v in results.values()) / sum(v['size'] for v in results.values()):.2f}")

def report_names(results, negatives):
    p, r, f = gate(results, RECORDS, 'gate_all')
    line('gate F1, identifiers and names, records', '≥ .965', f'{f:.3f} ({p:.3f}, {r:.3f})')
    line('leak after masking, with names', '≤ .17', f"{leak(results, 'all'):.3f}")
    size = sum(results[s]['size'] for s in negatives)
    line('false positives per 100 KB of negative text, names', '≤ 10', f"{sum(results[s]['person'] * results[s]['size'] for s in negatives) / max(size, 1e-9):.2f}")
    for (group, sets), goal in zip(NAMES.items(), (.79, .55, .87, .96), strict=True):
        row = by_kind(results, sets.split()).get('person', Counter())
        p, r = row['tp'] / max(row['tp'] + row['fp'], 1), row['typed'] / max(row['n'], 1)
        line(f'names F1: {group}', f'{goal}', f'{2 * p * r / max(p + r, 1e-9):.3f} ({p:.3f}, {r:.3f})')
    line('ms per KB: with names', '≤ 4', f"{sum(v['ms'] for v in results.values()) / sum(v['size'] for v in results.values()):.2f}")

def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('folder')
    ap.add_argument('--sets', nargs='*')
    ap.add_argument('--no-names', action='store_true')
    a = ap.parse_args()
    from ramabana.pii import redact
    names = not a.no_names and knows_names()
    score, meta = scorer(a.folder), json.loads(Path(a.folder, 'corpora.json').read_text())
    sets = a.sets or sorted(p.name.split('.')[0] for p in Path(a.folder, 'dev').glob('*.jsonl*'))
    negatives = [s for s in sets if s.startswith('neg_')]
    rows = {s: load(a.folder, s) for s in sets}
    print('| measure | goal | here |\n|---|---|---|')
    report_identifiers(a.folder, {s: measured(score, meta, rows[s], s, False) for s in sets}, negatives)
    if names: report_names({s: measured(score, meta, rows[s], s, True) for s in sets}, negatives)
    ms, which = hostile(names)
    line('ms per KB: worst hostile text', '≤ 5', f'{ms:.1f} ({which!r})')
    seconds, mb = cold(names)
    line('import and first call, CPU; memory added', '≤ 0.25 s; ≤ 45 MB', f'{seconds:.2f} s; {mb:.0f} MB')
    shown = [label for label, value in LABELLED if value in redact(f'{label}{value} and more')]
    line('a value visible behind its label after `redact`', '0', f'{len(shown)} of {len(LABELLED)} {shown or ""}')

if __name__ == '__main__': main()
