#!/bin/sh
# shellcheck disable=SC1091
# hardening.sh - the tools are position-independent, resolve their symbols before they start,
# and check the libc calls that write into arrays, as the Makefile asks the compiler to.
. "$(dirname "$0")/lib.sh"
if ! have readelf || ! have nm || [ -n "${SANITIZED:-}" ]; then
    echo "hardening.sh: left out, no readelf, or a sanitized build"
    finish
fi
for t in "$BIN"/organ-*; do
    readelf -d "$t" > "$T/dynamic" 2> "$T/err"
    grep -q 'There is no dynamic section' "$T/dynamic" && continue # a static build
    check "$(basename "$t") is position-independent" grep -q 'FLAGS_1.*PIE' "$T/dynamic"
    check "$(basename "$t") binds at the start" grep -q 'FLAGS_1.*NOW' "$T/dynamic"
    check "$(basename "$t") has read-only relocations" sh -c "readelf -l '$t' | grep -q GNU_RELRO"
    check "$(basename "$t") guards its stack" sh -c "nm '$t' | grep -q __stack_chk_fail"
done
check "libc calls are checked" sh -c "nm '$BIN/organ-measure' | grep -q '_chk@\|_chk$'"
finish
