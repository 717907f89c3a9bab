#!/bin/sh
# surroundings.sh - build, and run the demo and some tests, where much is not as a developer has it: the source
# tree is read-only and its path has spaces, the objects are elsewhere, TMPDIR has spaces, umask is 077, the
# language is Turkish, whose i has no other case in ASCII, and then German, whose numbers have commas, 64 files may
# be open, and then 256, there is no terminal, standard input is closed, and neither HOME nor TERM is set. The sources
# are of 1980, and one is of 2099; tests/cli/clock.sh has a clock in 1980.
#
# As root, it becomes nobody. Needs git and setsid, and localedef for the languages (Debian: locales). The last
# commit is tested. ONLY='TEXT...' selects other tests, of which some cannot stand a space in the path of the tree.
set -u
cd "$(dirname "$0")/.." || exit 1
ONLY=${ONLY:-cli/roundtrip cli/info cli/vocab cli/prune cli/makefile}
for program in git setsid localedef; do
    command -v $program > /dev/null 2>&1 || { echo "surroundings.sh: $program is not installed" >&2; exit 1; }
done
T=$(mktemp -d "${TMPDIR:-/tmp}/surroundings.XXXXXX") || exit 1
trap 'chmod -R u+w "$T"; rm -rf "$T"' EXIT
trap 'exit 130' INT TERM HUP
chmod 755 "$T"
tree="$T/the source  tree"
mkdir "$tree" "$T/build" "$T/a folder for files" "$T/locale" || exit 1
git -c safe.directory="$PWD" archive HEAD | tar -x -f - -C "$tree" || exit 1
# Files stay writable for their owner, as on a file system that is mounted read-only.
chmod -R a+rX "$tree"
find "$tree" -exec touch -t 198001020000 '{}' +
touch -t 209901020000 "$tree/tools/info/organ-info.c"
find "$tree" -type d -exec chmod a-w '{}' +
for language in tr_TR de_DE; do
    localedef -i $language -f UTF-8 "$T/locale/$language.UTF-8" || exit 1
done
become=''
if [ "$(id -u)" = 0 ]; then
    chown 65534:65534 "$T/build" "$T/a folder for files"
    become='setpriv --reuid 65534 --regid 65534 --clear-groups'
fi

# there LANGUAGE COMMAND...
there() {
    language=$1
    shift
    # shellcheck disable=SC3045 # any sh that is in use has -n
    (
        cd "$tree" && umask 077 && ulimit -n "$files" &&
            exec env -i PATH="$PATH" ONLY="${ONLY-}" TMPDIR="$T/a folder for files" LOCPATH="$T/locale" \
                LANG="$language" $become setsid --wait "$@" <&-
    )
}
files=64
jobs=$(getconf _NPROCESSORS_ONLN 2> /dev/null || echo 2)
[ "$(there tr_TR.UTF-8 locale charmap)" = UTF-8 ] || { echo "surroundings.sh: no Turkish" >&2; exit 1; }
failed=0
there tr_TR.UTF-8 make -s -j"$jobs" B="$T/build" demo || failed=1
there tr_TR.UTF-8 make -s -j"$jobs" B="$T/build" test || failed=1
files=256
there de_DE.UTF-8 make -s -j"$jobs" B="$T/build" demo || failed=1
there de_DE.UTF-8 make -s -j"$jobs" B="$T/build" test || failed=1
left=$(find "$T/a folder for files" -mindepth 1)
[ -z "$left" ] || { echo "surroundings.sh: left in TMPDIR: $left"; failed=1; }
exit $failed
