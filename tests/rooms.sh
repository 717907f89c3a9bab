#!/bin/sh
# rooms.sh - is each room of tools/ a room? For each of merge, stack, prune, imatrix, lora, purify and api (or ROOMS)
# it copies the tree without that folder and without the tests that use the tool, builds it, and runs the tests
# that are left (or those that ONLY names). Objects of an existing build are copied, so that little is compiled.
#
#   ROOMS="merge stack" ONLY="t_ cli/help" sh tests/rooms.sh
set -u
cd "$(dirname "$0")/.." || exit 1
T=$(mktemp -d "${TMPDIR:-/tmp}/rooms.XXXXXX") || exit 1
trap 'rm -rf "$T"' EXIT
trap 'exit 130' INT TERM HUP
jobs=$(getconf _NPROCESSORS_ONLN 2> /dev/null || echo 2)
status=0
for room in ${ROOMS:-merge stack prune imatrix lora purify api}; do
    rm -rf "$T/tree"
    mkdir "$T/tree" || exit 1
    cp -Rp Makefile README.md LICENSE docs include scripts src tests tools "$T/tree" || exit 1
    [ ! -d build ] || { mkdir "$T/tree/build" && cp -Rp build/obj build/flags.mk "$T/tree/build"; } || exit 1
    (
        cd "$T/tree" || exit 1
        rm -r "tools/$room" "build/obj/tools/$room" 2> /dev/null
        # The tests of the tool, and of the scripts that start it.
        for f in $(grep -lE "\"$room/|tools/$room/" tests/unit/*.[ch] tests/unit/*/*.c tests/fuzz/*.[ch] \
            tests/bench/*.c); do
            case $f in *.h) grep -lF "\"${f##*/}\"" tests/*/*.c tests/unit/*/*.c | xargs rm -f ;; esac
            rm -f "$f"
        done
        for tool in $(cd "$OLDPWD/tools/$room" && ls organ-*.c); do
            tool=${tool%.c}
            scripts=$(grep -lE "$tool( |\"|\$)" scripts/organ-* scripts/recipes/*.mk scripts/chimera.mk)
            # organ-assemble starts organ-prune for some of its options.
            [ "$tool" != organ-prune ] || tool="organ-prune --keep-experts --keep-units"
            for t in $tool $(echo "$scripts" | sed 's/.*\///; s/\.mk$//'); do
                grep -lF -e "$t" tests/cli/*.sh
            done | xargs rm -f
        done
        git init -q . 2> /dev/null
        make -s -j"$jobs" all units > "$T/log" 2>&1 ||
            { tail -n 5 "$T/log"; echo "$room: the tree does not build without it"; exit 1; }
        ONLY="${ONLY:-}" sh tests/run.sh > "$T/log" 2>&1 ||
            { tail -n 20 "$T/log"; echo "$room: a test fails without it"; exit 1; }
        echo "rooms: without $room: $(tail -n 1 "$T/log")"
    ) || status=1
done
exit $status
