#!/bin/sh
# shellcheck disable=SC1091,SC2086
# makefile.sh - objects are compiled again if a flag has changed, and only then; `make clean all` gives the
# compiler the flags that `make` does.
. "$(dirname "$0")/lib.sh"
MAKE=${MAKE:-make}
unset MAKEFLAGS MFLAGS MAKELEVEL CFLAGS CPPFLAGS LDFLAGS HARDEN HARDEN_LD
cat > "$T/cc" << END
#!/bin/sh
echo "\$*" >> "$T/started"
exec ${CC:-cc} "\$@"
END
chmod +x "$T/cc"

# compiled HOW-OFTEN OBJECT ARGUMENT...: make with these arguments starts the compiler so often for an object.
compiled() {
    often=$1 object=$T/b/obj/$2
    shift 2
    : > "$T/started"
    check "make $*" $MAKE CC="$T/cc" B="$T/b" "$@" "$object"
    check_text "$(grep -c -e "-c -o $object " "$T/started")" "$often" "how often make $* compiles ${object##*/}"
}
compiled 1 src/base/status.o
compiled 0 src/base/status.o
check_text "$(wc -l < "$T/started" | tr -d ' ')" 0 "starts of the compiler by a second make"
set --
for flags in "CFLAGS=-O2 -g" "CPPFLAGS=-DX=\"'a b'\"" LDFLAGS=-Wl,-O1 HARDEN=; do
    set -- "$@" "$flags"
    compiled 1 src/base/status.o "$@"
    compiled 0 src/base/status.o "$@"
done
# Flags that only some sources have are not taken for a change.
compiled 1 src/base/io.o "$@"
compiled 1 src/numeric/kernel/k_mix_l0.o "$@"
compiled 0 src/base/status.o "$@"
check "make -s" $MAKE -s CC="$T/cc" B="$T/b" "$@" "$T/b/obj/src/base/buf.o"
check_text "$(cat "$T/out" "$T/err")" "" "what make -s prints"

# Without an answer of the compiler nothing is built, which would lack the flags.
mkdir -p "$T/c/flags.mk.tmp"
check_exit 2 "make, where no answer can be kept" $MAKE B="$T/c" "$T/c/obj/src/base/buf.o"
check_text "$(grep -c 'could not be asked' "$T/err")" 1 "the reason"

# Every command, although `clean` comes first.
check "make -n all" $MAKE -n V=1 B="$T/b" all
grep -v '^make' "$T/out" > "$T/all"
check "make -n clean all" $MAKE -n V=1 B="$T/b" clean all
grep -v -e '^make' -e "^rm -rf $T/b\$" "$T/out" > "$T/clean"
check_same "$T/clean" "$T/all" "the commands of make clean all"
harden=$(sed -n 's/^HARDEN = \([^ ]*\).*/\1/p' "$T/b/flags.mk")
check "the programs are hardened" grep -q -e " $harden .*-o $T/b/obj/tools/info/organ-info.o" "$T/clean"
finish
