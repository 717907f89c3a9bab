#!/bin/sh
# shellcheck disable=SC1091
# readme.sh - the commands of README.md work when they are pasted, in their order, from
# the top of the tree: all but those that need an engine, a server or a whole build. If not every case is tested,
# the long ones get models of one block.
# And it names every tool, and links to files that are there.
. "$(dirname "$0")/lib.sh"
unset MAKEFLAGS MFLAGS MAKELEVEL LAB
ORGAN_BIN=$BIN
export ORGAN_BIN

# Joined lines, a folder of ours for /tmp, the tools under test for build/bin: by names
# without spaces, as the reader's are.
TOP=$PWD
cd "$T" || exit 1
ln -s "$TOP"/[!.]* . && ln -s "$BIN" built || exit 1
sed -n '/^```/,/^```/d; s/^    //p' README.md | sed -e ':a' -e '/\\$/N; s/\\\n *//; ta' |
    sed -e "s|/tmp/|./|g" -e "s|[$]PWD/build/bin|built|g" -e "s|build/bin/|built/|g" > "$T/commands"
make --version 2> /dev/null | grep -q GNU && gnu=1 || gnu=
ran=0
if ! exhaustive; then
    mkdir one && cp "$TOP/$D/lab/lab-verse.imatrix.gguf" one
    for m in base verse code; do
        organ-stack -q --drop 1-3 "$TOP/$D/lab/lab-$m-q4_k_m.gguf" -o "one/lab-$m-q4_k_m.gguf" || bad "small models"
    done
fi
while IFS= read -r command <&3; do
    case $command in
    "make -f"*) [ -n "$gnu" ] || continue ;;
    make | "make "* | *organ-validate* | *engine/install.sh* | *organ-serve* | *curl*) continue ;;
    *" --size "* | *"--method iso"* | "organ-fleet pipeline"*)
        exhaustive || command=$(echo "$command" | sed 's|\$L/|one/|g') ;;
    esac
    # In this shell: what it sets is for the next.
    if eval "$command" > "$T/out" 2> "$T/err" < /dev/null; then ok; else bad "exit $? of: $command"; head -n 3 \
        "$T/err"; fi
    ran=$((ran + 1))
done 3< "$T/commands"
if [ $ran -ge 25 ]; then ok; else bad "only $ran commands were run"; fi
for m in chimera direct half ${gnu:+v2 quick mine} merged small; do
    check "$m.gguf of the tour" organ-extract --list "$T/tour/$m.gguf"
done

# The first commands, in this order, and the lines that organ-info prints.
sed -n '/^```/,/^```/d; /^## First commands/,/^## [^F]/s/^    \([^ ]* *[^ ]*\).*/\1/p' README.md > "$T/first"
check_text "$(tr '\n' ';' < "$T/first")" \
    "make;build/bin/organ-info tests/data/lab/lab-verse-q4_k_m.gguf;make demo;make test;" "the first commands"
awk '/^```/ { if (on) exit; on = 1; next } on' README.md > "$T/wanted"
check "the second command" built/organ-info tests/data/lab/lab-verse-q4_k_m.gguf
check_same "$T/out" "$T/wanted" "the lines of organ-info in README.md"
if [ "$(wc -l < "$T/wanted")" -ge 11 ]; then ok; else bad "README.md does not show them"; fi

# The picture is drawn from the models.
check "the picture of README.md" sh tests/engine/related.sh
check_same "$T/out" docs/related.svg "docs/related.svg"

# A transcript shows what its commands print: errors and notes, and then the result.
transcript() { # PAGE
    sed -e "s|/tmp/|./|g" -e "s|[$]PWD/build/bin|built|g" "$1" > "$T/page"
    while IFS= read -r line <&3; do
        case $line in
        '    $ '*)
            eval "${line#    \$ }" > "$T/out" 2> "$T/err" < /dev/null
            cat "$T/err" "$T/out" | sed 's/^/    /'
            ;;
        '    '*) continue ;;
        esac > "$T/printed"
        case $line in '    '*) printf '%s\n' "$line" ;; esac
        cat "$T/printed"
    done 3< "$T/page" > "$T/shown"
    grep '^    ' "$T/page" > "$T/wanted"
    check_same "$T/shown" "$T/wanted" "$1"
    diff "$T/wanted" "$T/shown" | head -n 20
    if [ "$(grep -c '^    [$]' "$T/shown")" -ge 20 ]; then ok; else bad "$1 has few commands"; fi
}
transcript docs/first-steps.md
if exhaustive; then transcript docs/walks.md; fi

if [ -z "${SANITIZED:-}" ]; then # whose library wants the sanitizer's own
    # The headers in C++: every name is found by the linker as C has it.
    if have "${CXX:-c++}" "the library in C++" g++; then
        for f in include/organ/*.h; do echo "#include \"organ/$(basename "$f")\""; done > "$T/use.cc"
        cat >> "$T/use.cc" <<'EOF'
int main()
{
    gg_error err = GG_ERROR_INIT;
    gg_progress progress = { { 0 }, { 0 } };
    gg_run run = {};
    run.progress = &progress;
    progress.done += 5;
    gg_cancel();
    return run.progress->done == 5 && gg_cancelled(&err) == GG_ECANCELLED && gg_dtype_get(GG_F32) ? 0 : 1;
}
EOF
        check "the headers in C++" "${CXX:-c++}" -std=c++17 -Wall -Werror -Iinclude "$T/use.cc" "$B/lib/libgguf.a" \
            -lm -pthread -o "$T/use"
        check "a program in C++" "$T/use"
    fi
fi

for f in tools/*/organ-*.c scripts/organ scripts/organ-* scripts/chimera.mk; do
    t=$(basename "$f" .c)
    if grep -q "^|.*$t" README.md; then ok; else bad "README.md has no row of $t"; fi
done
# docs/architecture.md names the folders that there are, and no others.
for d in src/*/ tools/*/ scripts/*/; do
    d=${d%/}
    sed -n '/^    /p' docs/architecture.md | grep -qw -e "${d##*/}" && ok || bad "docs/architecture.md leaves $d out"
done
grep -oE '(src|tools|scripts|include|tests)/[A-Za-z0-9_./-]*[a-z]' docs/architecture.md | sort -u > "$T/paths"
while IFS= read -r path; do
    case $path in tools/NAME*) continue ;; esac
    if [ -e "$path" ]; then ok; else bad "docs/architecture.md names $path, which is not there"; fi
done < "$T/paths"
awk '/^    src\// { on = 1; next } /^    tools\// { exit } on { print $1; if ($2 ~ /^numeric$/) print $2 }' \
    docs/architecture.md | while read -r d; do [ -d "src/$d" ] || echo "$d"; done > "$T/gone"
check_text "$(cat "$T/gone")" "" "folders of src in docs/architecture.md"
for page in README.md docs/*.md; do
    grep -o '](\([^)#:]*\))' "$page" | sed 's/^](//; s/)$//' > "$T/links"
    while IFS= read -r link; do
        if [ -e "$(dirname "$page")/$link" ]; then ok; else bad "$page: $link is not there"; fi
    done < "$T/links"
done
# The figures of the pages are those of the last `make results`.
check "the tables and figures of the pages" sh tests/engine/tables.sh check
for f in docs/*.md docs/*.json docs/*.yaml; do
    f=$(basename "$f")
    if grep -q "($f)" docs/README.md || [ "$f" = README.md ]; then ok; else bad "docs/README.md does not have $f"; fi
done
for f in docs/man/*; do
    f=$(basename "$f" | sed 's/\.\([0-9]\)$/(\1)/')
    if grep -qF "$f" docs/README.md; then ok; else bad "docs/README.md does not have $f"; fi
done
finish
