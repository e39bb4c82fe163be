"""Which test holds which requirement on evidence.

    python tools/requirements.py            # tests/evidence/*.py -> tests/evidence/REQUIREMENTS.md
    python tools/requirements.py --check    # only compare; exit 1 when the page is stale

A test says its requirements in its name: `test_r17_…`, `test_r30_r31_…`. The first line of its docstring says how we differ. Standard library only."""
import ast
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent/'tests'/'evidence'
PAGE, LAST = FOLDER/'REQUIREMENTS.md', 75

def found(folder: Path = FOLDER) -> dict[int, list[tuple[str, str, str]]]:
    "Requirement -> (file, test, how we differ), in order of file and line."
    out: dict[int, list[tuple[str, str, str]]] = {}
    for path in sorted(folder.glob('test_*.py')):
        for node in ast.parse(path.read_text(encoding='utf-8')).body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith('test_r'): continue
            said = ' '.join((ast.get_docstring(node) or '').split('\n\n')[0].split())
            for number in re.findall(r'(?:^test|(?<=\d))_r(\d+)(?=_)', node.name): out.setdefault(int(number), []).append((path.name, node.name, said))
    return out

def page(tests: dict[int, list[tuple[str, str, str]]]) -> str:
    "The page as text."
    lines = ['# Requirements on evidence and their tests', '', 'Made by `python tools/requirements.py` from the names of the tests; do not edit.', '', '| requirement | tests | how we differ |', '|---|---|---|']
    for number, rows in sorted(tests.items()):
        names = '<br>'.join(f'`{file}::{name}`' for file, name, _ in rows)
        lines.append(f'| R{number} | {names} | {" ".join(filter(None, (said for *_, said in rows))).replace("|", "/")} |')
    open_ones = [f'R{n}' for n in range(1, LAST + 1) if n not in tests]
    return '\n'.join([*lines, '', f'Without a test: {", ".join(open_ones) or "none"}.', ''])

def main(argv: list[str]) -> int:
    text = page(found())
    if '--check' not in argv: PAGE.write_text(text, encoding='utf-8')
    return int(PAGE.read_text(encoding='utf-8') != text)

if __name__ == '__main__': sys.exit(main(sys.argv[1:]))
