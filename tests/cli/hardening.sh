#!/bin/sh
# shellcheck disable=SC1091
# hardening.sh - the tools are position-independent, resolve their symbols before they start,
# and check the libc calls that write into arrays, as the Makefile asks the compiler to. Hosts
# that are not supported are refused when the suite is compiled.
. "$(dirname "$0")/lib.sh"

# refused TEXT FLAG...: src/base/host.c does not compile with these flags, with that message.
refused() {
    text=$1
    shift
    echo 'int x;' > "$T/x.c"
    compile "$@" -fsyntax-only "$T/x.c" > "$T/out" 2>&1 || return 0
    check_exit 1 "compile for a host that is not supported: $*" compile "$@" -fsyntax-only src/base/host.c
    if grep -q "error:.*needs a $text host" "$T/err"; then ok; else bad "no message about a $text host"; fi
}
refused little-endian -std=c11 -U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__
refused 64-bit -std=c11 -ffreestanding -m32

[ -z "${SANITIZED:-}" ] || finish
have readelf "hardening of the programs" binutils || finish
have nm "hardening of the programs" binutils || finish
for t in "$BIN"/organ-*; do
    readelf -d "$t" > "$T/dynamic" 2> "$T/err"
    grep -q 'There is no dynamic section' "$T/dynamic" && continue # a static build
    check "$(basename "$t") is position-independent" grep -q 'FLAGS_1.*PIE' "$T/dynamic"
    check "$(basename "$t") binds at the start" grep -q 'FLAGS_1.*NOW' "$T/dynamic"
    check "$(basename "$t") has read-only relocations" sh -c "readelf -l '$t' | grep -q GNU_RELRO"
    check "$(basename "$t") guards its stack" sh -c "nm '$t' | grep -q __stack_chk_fail"
done
# musl, which static builds may use, has no checked calls.
readelf -d "$BIN/organ-measure" 2> "$T/err" | grep -q 'no dynamic section' ||
    check "libc calls are checked" sh -c "nm '$BIN/organ-measure' | grep -q '_chk@\|_chk$'"
finish
