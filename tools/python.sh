# Sourced by the other scripts. `find_python` sets PY to a Python that will do ($PYTHON, when that is set and does), or says what is missing; `venv` makes .venv with it and
# sets PY to the one inside.

will_do() {   # it runs (a pyenv shim may be there and fail), is new enough, and can make a virtual environment
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' </dev/null >/dev/null 2>&1
}

find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} ${VIRTUAL_ENV:+"$VIRTUAL_ENV/bin/python"} python3.13 python3.12 python3 python "${HOME:-}"/.pyenv/versions/3.1[2-9]*/bin/python; do
        if will_do "$candidate"; then PY=$candidate; return; fi
    done
    if candidate=$(uv python find '>=3.12' 2>/dev/null) && will_do "$candidate"; then PY=$candidate; return; fi
    echo 'ramabana needs Python 3.12 or newer with its venv module, and found none: not in the active environment, as python3.13, python3.12 or python3, in ~/.pyenv/versions, or by uv.' >&2
    echo 'Get one by `pyenv install 3.12`, `uv python install 3.12` or your package manager (on Debian and Ubuntu: apt install python3 python3-venv), then run this again.' >&2
    exit 2
}

venv() {   # in the current folder; one that is broken, too old, without pip, or was moved here from elsewhere is made anew
    if ! will_do .venv/bin/python || ! grep -qsF "$(pwd -P)/.venv/" .venv/bin/pip; then
        find_python
        rm -rf .venv
        "$PY" -m venv .venv || { echo "$PY cannot make a virtual environment in $PWD/.venv: see above" >&2; exit 2; }
    fi
    PY=$PWD/.venv/bin/python
    unset PYTHONPATH PYTHONHOME
}
