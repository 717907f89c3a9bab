#!/bin/sh
# results-vocabulary.sh - the table of docs/vocabulary.md: token ids of real tokenizers in the engine.
# results.sh runs it.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=tests/engine/part.sh disable=SC1091
. tests/engine/part.sh
BIN=$(dirname "$(command -v organ-assemble)") sh tests/engine/tokenizers.sh > "$M/tokenizers" || : > "$M/changed"
put tokenizers < "$M/tokenizers"
[ ! -f "$M/changed" ]
