#!/bin/sh
# shellcheck disable=SC3045 # systems without ulimit -c do not need it
# flags.sh FILE - writes the flags that the compiler takes to FILE, as variables of the Makefile. The compiler is
# started twice if it takes all of them, and not at all if FILE is about the same CC, CFLAGS, LDFLAGS and PACK,
# which are in the environment, and newer than this script.
set -u
file=$1
asked="# CC=${CC:-cc} CFLAGS=${CFLAGS-} LDFLAGS=${LDFLAGS-} PACK=${PACK-}"
[ ! -f "$file" ] || [ "$(head -n 1 "$file")" != "$asked" ] || [ -n "$(find "$0" -newer "$file")" ] || exit 0
# Beside FILE, because programs in the folder for temporary files may not be allowed to run.
T=$file.$$
mkdir -p "$T" || exit 1
trap 'rm -rf "$T"' EXIT
printf '#include <stdio.h>\nint main(void) { return 0; }\n' > "$T/x.c"

# takes FLAG...: whether it makes a program of them. Words of flags are separated.
takes() {
    # shellcheck disable=SC2086,SC2048
    ${CC:-cc} -Werror ${CFLAGS-} $* ${LDFLAGS-} -o "$T/x" "$T/x.c" 2> /dev/null
}
# each FLAG...: those that it takes. It is asked about all of them first.
each() {
    if takes "$@"; then printf '%s' "$*"; return; fi
    for flag; do if takes "$flag"; then printf '%s ' "$flag"; fi; done
}

# Hardening: stack canaries, control-flow protection, position-independent programs, read-only relocations, and
# checked calls of libc, which need an optimising build without sanitizers. Level 3 of these also checks sizes that
# are known only at run time (gcc 12 or clang 9, with glibc 2.34).
harden='-fstack-protector-strong -fstack-clash-protection -fcf-protection=full -fPIE'
harden_ld='-pie -Wl,-z,relro,-z,now'
fortify='-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3'
# Small programs that start quickly: a tool gets only the functions that it can reach, and neither libm if it needs
# nothing from it, nor tables for C++ exceptions (debuggers use those of -g). Sanitizers and coverage keep all.
lean='-ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -fno-unwind-tables'
lean_ld='-Wl,--gc-sections -Wl,--as-needed'
# Passes of gcc that take a third of the time, and make code that decides what others compute no faster and 3% smaller.
spared='-fno-gcse -fno-tree-pre -fno-tree-vrp -fno-thread-jumps -fno-tree-dominator-opts -fno-schedule-insns2
    -fno-tree-pta -fno-expensive-optimizations -fno-ivopts -fno-tree-loop-optimize -fira-algorithm=priority
    -fno-code-hoisting -fno-tree-copy-prop -fno-ree -fno-compare-elim -fno-cprop-registers -fno-if-conversion
    -fno-if-conversion2'
vector='-ftree-vectorize -fvect-cost-model=dynamic'
case " ${CFLAGS-} " in *-fsanitize* | *-fprofile*) lean='' lean_ld='-Wl,--as-needed' ;; esac
case " ${CFLAGS-} " in *-fsanitize*) fortify='' ;; *' -O1 '* | *' -O2 '* | *' -O3 '* | *' -Os '*) ;; *) fortify='' ;; esac
case " ${LDFLAGS-} " in *' -static '*) harden_ld='-Wl,-z,relro,-z,now' ;; esac
pack=${PACK-}

# Packed relocations save 30 KB per program. Libraries before glibc 2.36 do not know them although their linker may,
# so that a program must prove it by running.
all="$harden $fortify $harden_ld $lean $lean_ld $spared $vector"
if ! { takes "$all" "$pack" && { [ -z "$pack" ] || (ulimit -c 0; "$T/x") 2> /dev/null; }; }; then
    pack=''
    if ! takes "$all"; then
        # shellcheck disable=SC2086
        harden=$(each $harden) harden_ld=$(each $harden_ld) lean=$(each $lean) lean_ld=$(each $lean_ld) \
            vector=$(each $vector)
        takes "$spared" || spared='' # flags of gcc
        [ -z "$fortify" ] || takes "$fortify" || fortify='-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2'
        if [ -n "${PACK-}" ] && takes "$harden $harden_ld" "${PACK-}" && (ulimit -c 0; "$T/x") 2> /dev/null; then pack=$PACK; fi
    fi
fi
level1=''
case $(${CC:-cc} -dumpmachine) in x86_64*) level1=1 ;; esac
# shellcheck disable=SC2086
spared=$(echo $spared)
cat > "$file.tmp" << END && mv "$file.tmp" "$file"
$asked
ASKED = yes
HARDEN = $harden $fortify
HARDEN_LD = $harden_ld
LEAN = $lean
LEAN_LD = $lean_ld $pack
SPARED = $spared
VECTOR = $vector
L1 = $level1
END
