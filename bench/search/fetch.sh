#!/usr/bin/env bash
# Fetches the three repositories of the questions into a folder: source packages from PyPI and npm by their ordinary clients.
set -euo pipefail
target=${1:?name a folder}
mkdir -p "$target"
cd "$target"
python -m pip download -q --no-deps --no-binary :all: 'Django==5.2.8' 'pydantic-ai-slim==2.68.0'
npm pack --silent rxjs@7.8.2 >/dev/null
for archive in django-*.tar.gz; do mkdir -p django && tar xzf "$archive" --strip-components=1 -C django; done
for archive in pydantic_ai_slim-*.tar.gz; do mkdir -p pydantic-ai && tar xzf "$archive" --strip-components=1 -C pydantic-ai; done
for archive in rxjs-*.tgz; do mkdir -p rxjs && tar xzf "$archive" --strip-components=1 -C rxjs; done
ls -d django pydantic-ai rxjs
