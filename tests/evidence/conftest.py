"Scripted models and small real vaults for the tests of evidence."
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from pydantic_ai import models

from ramabana.memory import Vault

models.ALLOW_MODEL_REQUESTS = False

TEXTS = {'Pump': 'The pump starts when the level falls under two metres.', 'Valve': 'The valve closes when the pump stops at night.', 'Turbine': 'The turbine turns at ninety rounds while the pump rests.',
    'Dam': 'The dam was built of stone, and a pump house stands beside it.', 'Canal': 'The canal carries water to the fields, without a pump.', 'Staff': 'Ask the pump keeper at ann.smith@example.org or 020 7946 0018.'}

@pytest.fixture(scope='session')
def _files(tmp_path_factory):
    home = tmp_path_factory.mktemp('vaults')
    for name, titles in (('papers', ['Pump', 'Valve', 'Turbine']), ('wiki', ['Dam', 'Canal', 'Staff'])):
        with Vault(home/f'{name}.db') as v:
            for title in titles: v.note(TEXTS[title], title=title)
    return home

@pytest.fixture
def files(_files): return {'papers': _files/'papers.db', 'wiki': _files/'wiki.db'}
