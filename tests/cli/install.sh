#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC2015
# install.sh - make install puts every tool, header, library and manual page where it
# was told to; make uninstall leaves nothing.
. "$(dirname "$0")/lib.sh"
MAKE=${MAKE:-make}
grep -q '^install:' Makefile || { echo "$NAME: the Makefile has no target install"; bad "no target install"; finish; }

# not -j and not the flags of a make that runs us
unset MAKEFLAGS MFLAGS MAKELEVEL
# The built files are installed, whatever flags they were made with.
b=${B#"$PWD"/}
MAKE="$MAKE -o $b/flags.mk -o $b/obj/flags"
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
    if have pkg-config "libgguf.pc"; then
        flags=$(PKG_CONFIG_PATH=$1/lib/pkgconfig pkg-config --cflags --libs libgguf) \
            || bad "pkg-config does not find libgguf"
        check_text "$(PKG_CONFIG_PATH=$1/lib/pkgconfig pkg-config --modversion libgguf)" "$VERSION" \
            "the version of libgguf.pc"
    else
        flags="-I$1/include -L$1/lib -lgguf -lm -pthread"
    fi
    check "compile against it" eval "compile -std=c11 -Wall -Werror -o '$T/x' '$T/x.c' $flags"
    check "run it" "$T/x"
    check_text "$(cat "$T/out")" "$VERSION" "gg_version() and --version agree"
    if have "${CXX:-c++}" "the library in C++" g++; then
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
    check_text "$(grep -n -E '(^|[^a-zA-Z_./-])(docs|tests|scripts|build|tools|src|include)/' "$T/texts" | head \
        -n 5)" "" \
        "texts that name files of the source tree"
    # The texts name the place without DESTDIR, and --help that where the tool lies.
    tr ' "`'"'"'<>()=,;' '\n' < "$T/texts" | grep -E "^($1)?$2/[a-zA-Z]" | sed 's/[.:]*$//' | sort -u > "$T/paths"
    if [ "$(wc -l < "$T/paths")" -ge 8 ]; then ok; else bad "few paths in the texts: $(wc -l < "$T/paths")"; fi
    while IFS= read -r p; do
        case $p in "$1$2"*) ;; *) p=$1$p ;; esac
        if [ -e "$p" ]; then ok; else bad "a text names $p, which is not installed"; fi
    done < "$T/paths"
}

# ---- the examples of the manual pages and of --help, as they are pasted -------------------------

# What is left out, as patterns of commands, each with the reason. Of the examples of --help, which are mostly those
# of the pages, each fourth is run, or each if EXHAUSTIVE is set.
left_out() {
    have jq || echo "^jq "
    cat << 'END'
https://|ORGAN_URL|(^|&& )organ-serve	a network or a web server: see stream.sh and api.sh
--sshlogin|--slurm	other hosts: see fleet.sh
^llama-cli |^organ-(probe|search|sensitivity|validate) |losses.tsv|^make -f best.mk	an engine: see search.sh and others
END
}

# The commands of the section EXAMPLES, each with a line "%" after it. A command goes on after a
# line that ends in a backslash, a pipe or an operator.
commands() { # PAGE
    case $1 in
    *.1) awk \
        '/^\.S[Hh] EXAMPLES/ { on = 1; next } /^\.S[Hh]/ { on = 0 } /^\.Bd/ { block = 1; next } /^\.Ed/ { block = 0 }
        on && (block || sub(/^\.Dl /, "")) { gsub(/\\e/, "\\"); gsub(/\\&/, ""); print }' "$1" ;;
    *) awk '/^examples:/ { on = 1; next } /^[^ ]/ { on = 0 } on { sub(/^  /, ""); print }' "$1" ;;
    esac | awk '{ print } !/(\\|[|]|&&)$/ { print "%" }'
}

# The models that a page names, in the folder where its examples run.
page_models() { # PAGE
    case $1 in
    organ-assemble.1) set -- model.organs model-f16.gguf moe.gguf model.gguf ;;
    organ-extract.1) set -- deep/model.gguf ;;
    organ-validate.1) set -- m.organs ;;
    organ-compare.1) set -- base.gguf donor.gguf tuned.gguf model.gguf ;;
    organ-graft.1) set -- code.organs chat.organs good.gguf code.gguf chat.gguf base.gguf ;;
    organ-imatrix.1) set -- model.gguf model.imatrix.gguf prose.imatrix.gguf code.imatrix.gguf ;;
    organ-lora.1) set -- base.gguf tuned.gguf other.gguf ;;
    organ-measure.1) set -- model.gguf d donor.gguf ;;
    organ-merge.1) set -- a.gguf b.gguf base.gguf config.yml ;;
    organ-keys.1) set -- m.gguf model.gguf ;;
    organ-prune.1) set -- moe.gguf model.gguf model.imatrix.gguf ;;
    organ-stack.1) set -- deep/m.gguf deep/a.gguf deep/b.gguf ;;
    organ-transplant.1) set -- b.gguf d.gguf ;;
    organ-vocab.1) set -- model.gguf draft.gguf large.gguf counts.tsv ;;
    organ-fleet.1 | organ-report.1) set -- models/one.gguf model.gguf ;;
    *.1) set -- model.gguf ;;
    *) return ;;
    esac
    from=$T/small
    [ "$1" != b.gguf ] || from=$T/lab # whose example names layers
    [ "${2:-}" != model.imatrix.gguf ] && [ "${3:-}" != model.imatrix.gguf ] || from=$T/lab
    [ "${4:-}" != counts.tsv ] || from=$T/lab
    for name; do
        case $name in
        counts.tsv) printf '300\t1\n' > $name ;;
        *.imatrix.gguf) cp "$T/lab/verse.imatrix.gguf" "$name" ;;
        deep/*) cp "$T/deep.gguf" "${name#deep/}" ;;
        moe.gguf) mkmodel moe.gguf blk.0.ffn_gate_exps.weight:F16:64x96x4 blk.0.ffn_gate_inp.weight:F32:64x4 ;;
        model-f16.gguf) organ-assemble -q "$from/verse.gguf" --dtype f16 --output $name ;;
        m.gguf) organ-keys "$from/verse.gguf" --set tokenizer.chat_template=str:x --output $name ;;
        config.yml) # JSON is YAML
            echo '{"merge_method": "linear", "models": [{"model": "a.gguf"}, {"model": "b.gguf"}],
                "parameters": {"weight": 0.5}}' > $name ;;
        *.organs | d) organ-extract -q "$from/verse.gguf" --output "$name" ;;
        models/*) mkdir models && cp "$from/verse.gguf" "$name" ;;
        base*) cp "$from/base.gguf" "$name" ;;
        code* | b* | d* | tuned*) cp "$from/code.gguf" "$name" ;;
        *) cp "$from/verse.gguf" "$name" ;;
        esac
    done
}

# Every page in a folder of its own, which is also its /tmp and its home; URL is a file, and the
# programs that are not the suite's are stand-ins.
examples() { # PREFIX
    mkdir "$T/stubs"
    # shellcheck disable=SC2016 # for the stand-ins
    {
        printf '#!/bin/sh\nshift; exec sh -c "$*"\n' > "$T/stubs/ssh"
        printf '#!/bin/sh\n: edited\n' > "$T/stubs/vi"
        printf '#!/bin/sh\nexec cat "$3"\n' > "$T/stubs/yq" # JSON is YAML
        printf '#!/bin/sh\nfor url; do :; done\nexec cat "$url"\n' > "$T/stubs/curl"
    }
    chmod +x "$T/stubs"/*
    have jq "JSON read by jq"
    # shellcheck disable=SC2046 # words
    made "$T/deep.gguf" '{"key": "llama.block_count", "type": "u32", "value": 32},' \
        $(i=0; while [ $i -lt 32 ]; do echo "blk.$i.attn_q.weight:F32:8x8 blk.$i.ffn_up.weight:F32:8x8"; \
        i=$((i + 1)); done)
    mkdir "$T/lab" "$T/small"
    cp "$LAB/lab-verse.imatrix.gguf" "$T/lab/verse.imatrix.gguf"
    for name in base code verse; do
        cp "$LAB/lab-$name-q4_k_m.gguf" "$T/lab/$name.gguf"
        organ-stack -q --drop 1-3 "$T/lab/$name.gguf" --output "$T/small/$name.gguf" || bad "a small model"
    done
    n=0
    for page in "$1"/share/man/man1/*.1 "$T"/help.organ-*; do
        n=$((n + 1))
        case $page in *help.organ-*) exhaustive || [ $((n % 4)) = 0 ] || continue ;; esac
        case $page in *help.organ-fleet | *help.organ-report) find "$1/share/organ-suite/examples" -name 'lab-*' \
            ! -name 'lab-verse*' -exec mv {} "$T/lab" \; ;; esac
        commands "$page" > "$T/commands"
        if [ -s "$T/commands" ]; then ok; else bad "$page has no examples"; fi
        left_out | cut -f 1 | awk '
            NR == FNR { left[++n] = $0; next }
            $0 != "%" { text = text $0 "\n"; next }
            {
                for (i = 1; i <= n; i++) if (text ~ left[i]) text = ""
                most = text ~ /^organ-(check|compare) / # the answer may be no
                if (text != "") printf "%sx=$?; [ $x -le %d ] || exit $x\n", text, most
                text = ""
            }' - "$T/commands" | sed "s|$1|PREFIX|g; s|/tmp/|./|g; s|~/|./|g; s|URL|model.gguf|g; s|PREFIX|$1|g" \
                > "$T/commands.sh"
        name=$(basename "$page")
        mkdir "$T/page"
        (cd "$T/page" && page_models "$name" && PATH=$T/stubs:$1/bin:$PATH exec sh -x "$T/commands.sh") > "$T/out" \
            2> "$T/err" < /dev/null
        status=$?
        if [ $status = 0 ]; then ok; else bad "the examples of $name: exit $status: $(tail -n 4 "$T/err")"; fi
        rm -rf "$T/page"
        mv "$T"/lab/lab-* "$1/share/organ-suite/examples/" 2> /dev/null # all of them would take a second
    done
}

private() { (umask 077 && "$@"); }
try() { # DESTDIR PREFIX
    check "install PREFIX=$2" private $MAKE B="$B" DESTDIR="$1" PREFIX="$2" install
    check_text "$(find "$1$2" ! -perm -444 | head -n 3)" "" "what others cannot read"
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
    # An installation can be moved: libgguf.pc names its folders by its prefix.
    if have pkg-config && [ -n "$1" ]; then
        check_text "$(PKG_CONFIG_PATH=$1$2/lib/pkgconfig pkg-config --define-variable=prefix=/elsewhere \
            --cflags libgguf | sed 's/ *$//')" \
            "-I/elsewhere/include" "libgguf.pc with another prefix"
    fi
    case $1$2 in *[[:space:]]*) ;; *)
        named_files "$1" "$2"
        if [ -z "$1" ]; then
            examples "$2"
            [ -n "${SANITIZED:-}" ] || outside "$2" # whose library wants the sanitizer's own
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
        if grep -q "^#include \"$(basename "$h")\"" include/organ/organ.h || [ "$h" = include/organ/organ.h ]; \
            then ok; else bad "organ.h leaves $h out"; fi
    done
    for t in "$BIN"/organ-* scripts/organ-*; do
        t=$(basename "$t")
        case $t in *.*) continue ;; esac
        if [ -x "$1/bin/$t" ]; then ok; else bad "$t is not installed"; fi
        if [ -s "$1/share/man/man1/$t.1" ]; then ok; else bad "$t has no page"; fi
        if cmp -s "$BIN/../completion/organ" "$1/share/bash-completion/completions/$t"; then ok; else \
            bad "$t has no completion"; fi
        if grep -q "^complete -c $t " "$1/share/fish/vendor_completions.d/$t.fish"; then ok; else \
            bad "$t has no completion for fish"; fi
        if grep -q "^$t) _arguments" "$1/share/zsh/site-functions/_organ"; then ok; else \
            bad "$t has no completion for zsh"; fi
    done
    for f in scripts/chimera.mk scripts/*/*; do
        case $f in scripts/completion/* | scripts/packaging/*) continue ;; esac
        if cmp -s "$f" "$1/share/organ-suite/$f"; then ok; else bad "$f is not installed"; fi
    done
    for f in README.md LICENSE docs/*.md docs/openapi.yaml; do
        if cmp -s "$f" "$1/share/doc/organ-suite/$f"; then ok; else bad "$f is not installed"; fi
    done
    if cmp -s docs/NEWS.md "$1/share/doc/organ-suite/NEWS.md"; then ok; else bad "NEWS.md is not installed"; fi
    check_text "$(find "$1/share/organ-suite/scripts" -type f -perm -100 | head -n 3)" "" \
        "files that are sourced or included are not executable"
    if [ -s "$1/lib/libgguf.a" ]; then ok; else bad "libgguf.a is not installed"; fi
}

# A make that throws objects away builds the tools again at the next, under the feet of
# the tests that run them.
$MAKE -n B="$T/no-such-folder" all > "$T/out" 2>&1
check_text "$(grep -c '^rm .*tools/[a-z_/-]*\.o' "$T/out")" 0 "make keeps the tools' objects"
if grep -q 'organ-extract' "$T/out"; then ok; else bad "make -n all says nothing"; fi
if exhaustive; then try "$T/root" /usr/local; fi
try "" "$T/opt/suite"

# The variables of the GNU standards, each for itself.
# Beside them lies a header of ggml, with the name that ours once had.
V=$T/vars
mkdir -p "$V/i" "$V/i/organ"
echo '/* the header of ggml */' | tee "$V/i/gguf.h" > "$T/gguf.h"
check "install with every folder set" $MAKE B="$B" prefix="$V/p" exec_prefix="$V/e" bindir="$V/b" libdir="$V/e/lib64" \
    includedir="$V/i" datarootdir="$V/dr" datadir="$V/da" mandir="$V/m" docdir="$V/do" install
for f in b/organ-extract e/lib64/libgguf.a e/lib64/pkgconfig/libgguf.pc i/organ/organ.h m/man1/organ-extract.1 \
    do/LICENSE \
    da/organ-suite/scripts/chimera.mk dr/bash-completion/completions/organ-extract; do
    if [ -s "$V/$f" ]; then ok; else bad "$f is not where its variable says"; fi
done
check_text "$(sed -n 's/^libdir=//p; s/^includedir=//p' "$V/e/lib64/pkgconfig/libgguf.pc" | tr '\n' ' ')" \
    "$V/e/lib64 $V/i " "libgguf.pc has these folders"
check "uninstall with every folder set" $MAKE B="$B" prefix="$V/p" exec_prefix="$V/e" bindir="$V/b" \
    libdir="$V/e/lib64" \
    includedir="$V/i" datarootdir="$V/dr" datadir="$V/da" mandir="$V/m" docdir="$V/do" uninstall
check_text "$(find "$V" -type f 2> /dev/null)" "$V/i/gguf.h" "that is uninstalled too"
check_same "$V/i/gguf.h" "$T/gguf.h" "ggml's gguf.h after install and uninstall"
check_text "$(sed -n 's/^  version: //p' docs/openapi.yaml)" "$VERSION" "docs/openapi.yaml has the version"
try "$T/it's a root" '/opt/a  "b" suite'
finish
