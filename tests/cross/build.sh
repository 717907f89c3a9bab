#!/bin/sh
# build.sh [TARGET...] - builds the library and the tools for other systems with
# `zig cc`, in build/cross/TARGET. A warning is an error. JOBS=N compiles N sources at once, and
# GOALS="all units" builds the unit programs too. OBJECTS is another folder than build/cross.
set -u
cd "$(dirname "$0")/../.." || exit 2
[ $# -gt 0 ] || set -- x86_64-linux-gnu x86_64-linux-musl aarch64-linux-gnu aarch64-linux-musl \
    aarch64-macos x86_64-macos x86_64-freebsd
sh tests/cross/install.sh build/zig || exit 1
ZIG_GLOBAL_CACHE_DIR=$PWD/build/zig/cache
ZIG_LOCAL_CACHE_DIR=$ZIG_GLOBAL_CACHE_DIR
export ZIG_GLOBAL_CACHE_DIR ZIG_LOCAL_CACHE_DIR
# organ-api and the completions need the table of options, which the tools of this machine print.
# Variables of `make cross CFLAGS=-O1` are not for these.
[ -n "${OPTIONS:-}" ] || env -u MAKEFLAGS make -s -j"${JOBS:-2}" all > /dev/null || exit 1
objects=${OBJECTS:-build/cross}
status=0
for target; do
    log=$objects/$target.log
    mkdir -p "$objects/$target"
    case $target in *-musl) static='-static -s' ;; *) static=-s ;; esac
    if make -j"${JOBS:-2}" B="$objects/$target" CC="$PWD/build/zig/zig cc -target $target" \
        AR="$PWD/build/zig/zig ar" CPPFLAGS=-Werror LDFLAGS="$static" PACK= OPTIONS="${OPTIONS:-build/options.tsv}" \
        ${GOALS:-all} > "$log" 2>&1; then
        echo "$target: built"
    else
        echo "$target: failed, see $log"
        grep -m 5 -E 'error:|Error' "$log"
        status=1
    fi
done
exit $status
