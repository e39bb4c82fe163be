"The page that says which test holds which requirement is up to date."
import runpy
from pathlib import Path

TOOL = runpy.run_path(str(Path(__file__).parents[2]/'tools'/'requirements.py'))

def test_the_page_is_up_to_date():
    assert (Path(__file__).parent/'REQUIREMENTS.md').read_text() == TOOL['page'](TOOL['found']()), 'run python tools/requirements.py'

def test_names_are_read(tmp_path):
    (tmp_path/'test_x.py').write_text('def test_r30_r31_both():\n    "We say | more."\n\ndef test_other(): pass\n')
    tests = TOOL['found'](tmp_path)
    assert sorted(tests) == [30, 31] and '| R31 | `test_x.py::test_r30_r31_both` | We say / more. |' in TOOL['page'](tests) and 'Without a test: R1,' in TOOL['page'](tests)
