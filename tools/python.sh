# Sourced by the other scripts: sets PY to a Python 3.12 or newer that really runs, or says what is missing. `venv` makes .venv with it.
new_enough() { "$@" -c 'import sys; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; }

find_python() {
    local candidate
    for candidate in ${VIRTUAL_ENV:+"$VIRTUAL_ENV/bin/python"} python3.13 python3.12 python3 python "$HOME"/.pyenv/versions/3.1[2-9]*/bin/python; do
        if command -v "$candidate" >/dev/null 2>&1 && new_enough "$candidate"; then PY=$candidate; return; fi
    done
    if command -v uv >/dev/null 2>&1 && candidate=$(uv python find '>=3.12' 2>/dev/null) && new_enough "$candidate"; then PY=$candidate; return; fi
    echo 'ramabana needs Python 3.12 or newer, and none was found (looked at: the active environment, python3.13, python3.12, python3, ~/.pyenv/versions, uv).' >&2
    echo 'Get one with your package manager, `pyenv install 3.12`, or `uv python install 3.12`, then run this again.' >&2
    exit 2
}

venv() {   # a working .venv in the current folder; a broken or too old one is made anew
    new_enough .venv/bin/python || { find_python; rm -rf .venv; "$PY" -m venv .venv || { echo "$PY cannot make a virtual environment: on Debian, apt install python3-venv" >&2; exit 2; }; }
    PY=.venv/bin/python
}
