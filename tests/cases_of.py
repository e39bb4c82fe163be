"""Reports of real bugs in tools of this kind, as inputs with the right answer (cases/reports.jsonl)."""
import json
from pathlib import Path

import pytest

CASES = [json.loads(line) for line in (Path(__file__).parent/'cases'/'reports.jsonl').read_text(encoding='utf-8').splitlines()]

def case(id: str):
    "The report `id` as the one parameter of a test, named by its link."
    row = next(row for row in CASES if row['id'] == id)
    return pytest.mark.parametrize('report', [row], ids=[f'{id} {row["link"]}'])
