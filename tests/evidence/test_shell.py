"`ramabana ask --agentic` prints an answer with its footnotes."
import json

import pytest
from scripts import S, Script, T, first

from ramabana.memory import Vault
from ramabana.show_answers import show_agent_answer


@pytest.mark.parametrize('as_json', [False, True])
def test_r74_the_shell_shows_an_agent_s_answer(files, capsys, as_json):
    with Vault(files['wiki'], readonly=True) as vault: code = show_agent_answer(vault, 'what was the dam built of?', as_json, Script(S('dam stone'), first(), T('Of stone [1].')).model)
    out = capsys.readouterr().out
    assert code == 0 and 'Of stone' in out and 'Dam' in out
    if as_json: assert json.loads(out)['status'] == 'grounded'

def test_r74_agentic_takes_no_settings_of_the_one_shot_ask(capsys):
    from ramabana.cli import ask
    with pytest.raises(ValueError, match='--agentic goes with'): ask('q', agentic=True, ref='x')
