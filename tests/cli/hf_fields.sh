#!/bin/sh
# The tables of fields in docs/safetensors.md are those that the programs use.
. "$(dirname "$0")/lib.sh"

made=$(for t in config adapter quantization index; do find src -name "$t.txt"; done)
# shellcheck disable=SC2086 # paths
awk -f scripts/fields.awk $made > "$T/made"
sed -n '/^<!-- fields -->$/,/^<!-- end of fields -->$/p' docs/safetensors.md | sed '1d;$d' > "$T/page"
check_same "$T/made" "$T/page" "tables of fields (scripts/fields.awk makes them)"
for word in used harmless noted refused; do
    grep -q "| $word |" "$T/made" || bad "no field is $word"
done
finish
