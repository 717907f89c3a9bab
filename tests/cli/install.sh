#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC2015
# install.sh - make install puts every tool, header, library and manual page where it
# was told to; make uninstall leaves nothing.
. "$(dirname "$0")/lib.sh"
MAKE=${MAKE:-make}
grep -q '^install:' Makefile || { echo "$NAME: the Makefile has no target install"; bad "no target install"; finish; }

# not -j and not the flags of a make that runs us
unset MAKEFLAGS MFLAGS MAKELEVEL
# A program outside the tree, with the installed headers and library alone.
outside() {
    cat > "$T/x.c" << 'END'
#include <organ/gg_gguf.h>
int main(void)
{
    gg_model *m;
    gg_error e = GG_ERROR_INIT;
    return gg_model_open("tests/data/gguf/v3-basic.gguf", &m, &e) != GG_OK || m->n_tensors != 3;
}
END
    check "compile against it" "${CC:-cc}" -I"$1/include" -o "$T/x" "$T/x.c" -L"$1/lib" -lgguf -lm -pthread
    check "run it" "$T/x"
}

try() { # DESTDIR PREFIX
    check "install PREFIX=$2" $MAKE B="$B" DESTDIR="$1" PREFIX="$2" install
    for h in include/organ/*.h; do
        if cmp -s "$h" "$1$2/$h"; then ok; else bad "$h is not installed"; fi
    done
    for t in "$BIN"/organ-* scripts/organ-*; do
        t=$(basename "$t")
        case $t in *.*) continue ;; esac
        if [ -x "$1$2/bin/$t" ]; then ok; else bad "$t is not installed"; fi
        if cmp -s "docs/man/$t.1" "$1$2/share/man/man1/$t.1"; then ok; else bad "$t has no page"; fi
        if cmp -s scripts/completion/organ "$1$2/share/bash-completion/completions/$t"; then ok; else bad "$t has no completion"; fi
    done
    for f in scripts/chimera.mk scripts/recipes/*.mk scripts/lib/* docs/*.md; do
        if cmp -s "$f" "$1$2/share/organ-suite/$f"; then ok; else bad "$f is not installed"; fi
    done
    check_text "$(find "$1$2/share/organ-suite/scripts" -type f -perm -100 | head -n 3)" "" "what is sourced or included is no program"
    for t in scripts/organ-*; do
        check "the installed $(basename "$t")" "$1$2/bin/$(basename "$t")" --version
    done
    if [ -s "$1$2/lib/libgguf.a" ]; then ok; else bad "libgguf.a is not installed"; fi
    check "the installed tool" "$1$2/bin/organ-extract" --version
    if [ -z "${SANITIZED:-}" ]; then # whose library wants the sanitizer's own
        outside "$1$2"
    fi
    check "uninstall PREFIX=$2" $MAKE B="$B" DESTDIR="$1" PREFIX="$2" uninstall
    check_text "$(find "$1$2" ! -type d 2> /dev/null)" "" "uninstall leaves no file"
    check_absent "$1$2/share" "uninstall leaves no folder"
}

# A make that throws objects away builds the tools again at the next, under the feet of
# the tests that run them.
$MAKE -n B=no-such-folder all > "$T/out" 2>&1
check_text "$(grep -c '^rm .*tools/[a-z_-]*\.o' "$T/out")" 0 "make keeps the tools' objects"
if grep -q 'organ-extract' "$T/out"; then ok; else bad "make -n all says nothing"; fi
try "$T/root" /usr/local
try "" "$T/opt/suite"
try "$T/it's a root" "/opt/a b"
try "" "$T/opt/a  \"b\" suite"
finish
