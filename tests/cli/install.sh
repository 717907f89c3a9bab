#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC2015
# install.sh - make install puts every tool, header, library and manual page where it
# was told to; make uninstall leaves nothing.
. "$(dirname "$0")/lib.sh"
MAKE=${MAKE:-make}
grep -q '^install:' Makefile || { echo "$NAME: the Makefile has no target install"; bad "no target install"; finish; }

# not -j and not the flags of a make that runs us
unset MAKEFLAGS MFLAGS MAKELEVEL
VERSION=$(organ-extract --version | sed 's/^organ-extract //')

# A program outside the tree, with the installed headers and library alone: what it needs
# of the compiler and of the linker comes from pkg-config.
outside() { # PREFIX
    cat > "$T/x.c" << 'END'
#include <organ/organ.h>
#include <stdio.h>
#include <string.h>
int main()
{
    gg_source *m;
    gg_error e = GG_ERROR_INIT;
    if (strcmp(gg_version(), GG_VERSION_STRING) != 0) return 2;
    puts(gg_version());
    return gg_source_open("tests/data/gguf/v3-basic.gguf", &m, &e) != GG_OK || gg_source_count(m) != 3;
}
END
    cp "$T/x.c" "$T/x.cc"
    if have pkg-config; then
        flags=$(PKG_CONFIG_PATH=$1/lib/pkgconfig pkg-config --cflags --libs libgguf) || bad "pkg-config does not find libgguf"
        check_text "$(PKG_CONFIG_PATH=$1/lib/pkgconfig pkg-config --modversion libgguf)" "$VERSION" "the version of libgguf.pc"
    else
        flags="-I$1/include -L$1/lib -lgguf -lm -pthread"
    fi
    check "compile against it" eval "${CC:-cc} -std=c11 -Wall -Werror -o '$T/x' '$T/x.c' $flags"
    check "run it" "$T/x"
    check_text "$(cat "$T/out")" "$VERSION" "gg_version() and --version agree"
    if have "${CXX:-c++}"; then
        check "compile C++ against it" eval "${CXX:-c++} -std=c++17 -Wall -Werror -o '$T/x' '$T/x.cc' $flags"
        check "run the C++ program" "$T/x"
    fi
}

# --help and manual pages name only installed files: no path of the source tree is left, and
# every path below PREFIX exists.
named_files() { # ROOT PREFIX
    for t in "$1$2"/bin/organ-*; do
        "$t" --help > "$T/help.$(basename "$t")" || bad "$t --help"
    done
    cat "$T"/help.organ-* "$1$2"/share/man/man[15]/*.[15] > "$T/texts"
    check_text "$(grep -n -E '(^|[^a-zA-Z_./-])(docs|tests|scripts|build|tools|src|include)/' "$T/texts" | head -n 5)" "" \
        "texts that name files of the source tree"
    # The texts name the place without DESTDIR, and --help that where the tool lies.
    tr ' "`'"'"'<>()=,;' '\n' < "$T/texts" | grep -E "^($1)?$2/[a-zA-Z]" | sed 's/[.:]*$//' | sort -u > "$T/paths"
    if [ "$(wc -l < "$T/paths")" -ge 8 ]; then ok; else bad "few paths in the texts: $(wc -l < "$T/paths")"; fi
    while IFS= read -r p; do
        case $p in "$1$2"*) ;; *) p=$1$p ;; esac
        if [ -e "$p" ]; then ok; else bad "a text names $p, which is not installed"; fi
    done < "$T/paths"
}

try() { # DESTDIR PREFIX
    check "install PREFIX=$2" $MAKE B="$B" DESTDIR="$1" PREFIX="$2" install
    (cd "$1$2" && find . -type f | sort) > "$T/files"
    if [ -s "$T/files.first" ]; then check_same "$T/files" "$T/files.first" "PREFIX=$2: the same files"
    else
        cp "$T/files" "$T/files.first"
        every_file "$1$2"
    fi
    for t in scripts/organ-*; do
        check "the installed $(basename "$t")" "$1$2/bin/$(basename "$t")" --version
    done
    check "the installed tool" "$1$2/bin/organ-extract" --version
    case $1$2 in *[[:space:]]*) ;; *)
        named_files "$1" "$2"
        if [ -z "${SANITIZED:-}" ] && [ -z "$1" ]; then # whose library wants the sanitizer's own
            outside "$2"
        fi
        ;;
    esac
    check "uninstall PREFIX=$2" $MAKE B="$B" DESTDIR="$1" PREFIX="$2" uninstall
    check_text "$(find "$1$2" ! -type d 2> /dev/null)" "" "uninstall leaves no file"
    check_absent "$1$2/share" "uninstall leaves no folder"
}

every_file() { # DESTDIR+PREFIX
    for h in include/organ/*.h; do
        if cmp -s "$h" "$1/$h"; then ok; else bad "$h is not installed"; fi
        case $h in */organ.h) continue ;; esac
        if grep -q "^#include \"$(basename "$h")\"" include/organ/organ.h || [ "$h" = include/organ/organ.h ]; then ok; else bad "organ.h leaves $h out"; fi
    done
    for t in "$BIN"/organ-* scripts/organ-*; do
        t=$(basename "$t")
        case $t in *.*) continue ;; esac
        if [ -x "$1/bin/$t" ]; then ok; else bad "$t is not installed"; fi
        if [ -s "$1/share/man/man1/$t.1" ]; then ok; else bad "$t has no page"; fi
        if cmp -s scripts/completion/organ "$1/share/bash-completion/completions/$t"; then ok; else bad "$t has no completion"; fi
        if grep -q "^complete -c $t " "$1/share/fish/vendor_completions.d/$t.fish"; then ok; else bad "$t has no completion for fish"; fi
        if grep -q "^$t) _arguments" "$1/share/zsh/site-functions/_organ"; then ok; else bad "$t has no completion for zsh"; fi
    done
    for f in scripts/chimera.mk scripts/recipes/*.mk scripts/lib/* scripts/web/*; do
        if cmp -s "$f" "$1/share/organ-suite/$f"; then ok; else bad "$f is not installed"; fi
    done
    for f in README.md LICENSE docs/*.md docs/openapi.yaml; do
        if cmp -s "$f" "$1/share/doc/organ-suite/$f"; then ok; else bad "$f is not installed"; fi
    done
    if cmp -s docs/NEWS.md "$1/share/doc/organ-suite/NEWS.md"; then ok; else bad "NEWS.md is not installed"; fi
    check_text "$(find "$1/share/organ-suite/scripts" -type f -perm -100 | head -n 3)" "" "files that are sourced or included are not executable"
    if [ -s "$1/lib/libgguf.a" ]; then ok; else bad "libgguf.a is not installed"; fi
}

# A make that throws objects away builds the tools again at the next, under the feet of
# the tests that run them.
$MAKE -n B=no-such-folder all > "$T/out" 2>&1
check_text "$(grep -c '^rm .*tools/[a-z_-]*\.o' "$T/out")" 0 "make keeps the tools' objects"
if grep -q 'organ-extract' "$T/out"; then ok; else bad "make -n all says nothing"; fi
try "$T/root" /usr/local
try "" "$T/opt/suite"

# A header of ggml with the name that ours once had is another project's.
mkdir -p "$T/ggml/include" "$T/ggml/lib"
echo '/* the header of ggml */' > "$T/ggml/include/gguf.h"
cp "$T/ggml/include/gguf.h" "$T/gguf.h"
check "install beside ggml" $MAKE B="$B" prefix="$T/ggml" install
check_same "$T/ggml/include/gguf.h" "$T/gguf.h" "ggml's gguf.h after install"
check "uninstall beside ggml" $MAKE B="$B" prefix="$T/ggml" uninstall
check_same "$T/ggml/include/gguf.h" "$T/gguf.h" "ggml's gguf.h after uninstall"
check_text "$(find "$T/ggml" -type f)" "$T/ggml/include/gguf.h" "nothing else is left beside ggml"

# The variables of the GNU standards, each for itself.
V=$T/vars
check "install with every folder set" $MAKE B="$B" prefix="$V/p" exec_prefix="$V/e" bindir="$V/b" libdir="$V/e/lib64" \
    includedir="$V/i" datarootdir="$V/dr" datadir="$V/da" mandir="$V/m" docdir="$V/do" install
for f in b/organ-extract e/lib64/libgguf.a e/lib64/pkgconfig/libgguf.pc i/organ/organ.h m/man1/organ-extract.1 do/LICENSE \
    da/organ-suite/scripts/chimera.mk dr/bash-completion/completions/organ-extract; do
    if [ -s "$V/$f" ]; then ok; else bad "$f is not where its variable says"; fi
done
check_text "$(sed -n 's/^libdir=//p; s/^includedir=//p' "$V/e/lib64/pkgconfig/libgguf.pc" | tr '\n' ' ')" "$V/e/lib64 $V/i " "libgguf.pc has these folders"
check "uninstall with every folder set" $MAKE B="$B" prefix="$V/p" exec_prefix="$V/e" bindir="$V/b" libdir="$V/e/lib64" \
    includedir="$V/i" datarootdir="$V/dr" datadir="$V/da" mandir="$V/m" docdir="$V/do" uninstall
check_text "$(find "$V" -type f 2> /dev/null)" "" "that is uninstalled too"
# An installation can be moved: libgguf.pc names its folders by its prefix.
check "install to be moved" $MAKE B="$B" prefix=/opt/suite DESTDIR="$T/moved" install
if have pkg-config; then
    check_text "$(PKG_CONFIG_PATH=$T/moved/opt/suite/lib/pkgconfig pkg-config --define-variable=prefix=/elsewhere --cflags libgguf | sed 's/ *$//')" \
        "-I/elsewhere/include" "libgguf.pc with another prefix"
fi
check_text "$(sed -n 's/^  version: //p' docs/openapi.yaml)" "$VERSION" "docs/openapi.yaml has the version"
try "$T/it's a root" "/opt/a b"
try "" "$T/opt/a  \"b\" suite"
finish
