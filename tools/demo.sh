#!/usr/bin/env bash
# Installs ramabana into .venv, fills a vault from the project's own documentation, and searches it. Takes questions of your own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/python.sh
venv
echo 'Installing into .venv (about a minute the first time) ...'
"$PY" -m pip install -q --disable-pip-version-check -e . </dev/null
db=.demo/vault.db
mkdir -p .demo
.venv/bin/ramabana add nbs README.md CONTRIBUTING.md CHANGELOG.md --db "$db"
(($#)) || set -- 'what is done when the disk is full' 'how are two ranked lists combined'
for question; do
    printf '\n> %s\n\n' "$question"
    .venv/bin/ramabana search --limit 3 --why --db "$db" -- "$question" || (($? == 1))   # 1: nothing found, which was said
done
printf '\nThe vault is %s. Ask it more: .venv/bin/ramabana search "..." --db %s\n' "$db" "$db"
