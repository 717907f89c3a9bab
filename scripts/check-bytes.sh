#!/bin/sh
# check-bytes.sh [BUILD] - checks the bytes of the stripped programs in BUILD/bin: of organ-keys, which computes no values,
# and of the largest. What a tool must not need is often linked by one call too many (scripts/check-links.sh shows who
# calls whom), and libm takes a tenth of the time that a tool needs to start. The limits are for gcc 12 on x86-64 and the
# flags of a plain `make`; other builds are not checked.
set -u
build=${1:-build}
keys=570 largest=1060 # KB, 3 % above what they were
made=$(head -n 1 "$build/flags.mk")
cc=${made#'# CC='} cc=${cc%% CFLAGS=*}
case $made in *' CFLAGS=-O2 LDFLAGS= PACK=-Wl'*) ;; *) cc=false ;; esac
# shellcheck disable=SC2086 # a wrapper and its compiler
case $($cc -dumpmachine) in x86_64-*) version=$($cc -dumpversion) ;; *) version= ;; esac
if [ "$version" != 12 ]; then echo "bytes: not checked, another compiler or other flags"; exit 0; fi

T=$(mktemp -d) || exit 2
trap 'rm -rf "$T"' EXIT
for path in "$build"/bin/organ-*; do
    strip -o "$T/stripped" "$path" || exit 2
    libm=$(readelf -d "$path" | grep -c 'NEEDED.*\[libm\.')
    echo "$(($(wc -c < "$T/stripped") / 1000)) ${path##*/} $libm"
done > "$T/sizes"
awk -v keys=$keys -v largest=$largest '
    { most = $2 == "organ-keys" ? keys : largest; total += $1 }
    $2 == "organ-keys" { found = 1 }
    $3 && $2 != "organ-measure" { print "bytes: " $2 " needs libm, for a call such as floor (nm -uD); see src/numeric/ownmath.h"; bad = 1 }
    $1 > most { print "bytes: " $2 " has " $1 " KB; " most " are the most"; bad = 1 }
    END { if (!found) bad = 1; if (!bad) print "bytes: no program is too large; all have " total " KB"; exit bad }' "$T/sizes"
