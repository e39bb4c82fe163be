#!/usr/bin/env bash
# Installs what the tests need into .venv and runs them all. Says what failed, and ends with 0 only when nothing did.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/python.sh
venv
export PATH="$PWD/.venv/bin:$PATH" IN_TEST=1 OMP_NUM_THREADS=1
unset PYTHONPATH
"$PY" -m pip install -q --disable-pip-version-check -e '.[dev,quality]' || { echo 'installing failed: see above'; exit 1; }
failed=()
step() { local name=$1; shift; echo "== $name"; "$@" </dev/null || failed+=("$name"); }
step 'notebooks are clean' "$PY" tools/nb.py check
step 'notebooks as tests' nbdev-test --n-workers 2
step 'ruff' ruff check .
step 'pytest' "$PY" -m pytest -q -n 2
if ((${#failed[@]})); then printf 'failed: %s\n' "${failed[@]}"; exit 1; fi
echo 'all passed'
