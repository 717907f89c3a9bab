#!/bin/sh
# shellcheck disable=SC1091,SC2086
# leaks.sh - the tools free what they allocate, when they succeed and when they refuse. The
# tools are linked once more with LeakSanitizer, which needs no other compilation; where the
# compiler has none, or the kernel does not allow it, nothing is checked, and that is said.
. "$(dirname "$0")/lib.sh"
if [ -n "${SANITIZED:-}" ]; then
    echo "leaks.sh: left out, the sanitized build looks for leaks in every test"
    finish
fi
if ! exhaustive; then
    echo "left out: leaks (EXHAUSTIVE=1 or make check)"
    finish
fi
LSAN_OPTIONS=exitcode=99
export LSAN_OPTIONS

cat > "$T/leak.c" << 'END'
#include <stdlib.h>
int main(int argc, char **argv)
{
    void *volatile p = malloc(7);
    (void)argv;
    if (argc > 1) free(p);
    p = 0;
    return 0;
}
END
works() {
    compile -O0 -fsanitize=leak -o "$T/leak" "$T/leak.c" 2> /dev/null || return 1
    "$T/leak" 2> /dev/null
    [ $? = 99 ] && "$T/leak" x 2> /dev/null
}
if ! works; then # gcc without liblsan, a kernel without ptrace
    echo "leaks.sh: left out, no LeakSanitizer here"
    finish
fi

mkdir "$T/bin"
for c in tools/*/organ-*.c; do
    case $c in */organ-api.c | */organ-probe.c) continue ;; esac
    tool=$(basename "$c" .c)
    main=$B/obj/${c%.c}.o
    compile -fsanitize=leak -pthread -o "$T/bin/$tool" "$main" "$B/lib/rooms.a" \
        "$B/lib/libgguf.a" -lm 2> "$T/err" || bad "link $tool: $(head -n 1 "$T/err")"
done
# The unit programs need not be linked again where LeakSanitizer can be preloaded.
preload=$(compile -print-file-name=liblsan.so)
compile -O0 -o "$T/leak" "$T/leak.c"
LD_PRELOAD=$preload "$T/leak" 2> "$T/err"
[ $? = 99 ] && LD_PRELOAD=$preload "$T/leak" x 2> "$T/err" || preload=
for unit in t_gguf t_gguf_bad t_meta t_source t_manifest t_transplant t_compute t_select; do
    if [ -n "$preload" ]; then LD_PRELOAD=$preload "$B/test/$unit" > "$T/out" 2> "$T/err"
    else
        compile -std=c11 -D_DEFAULT_SOURCE -Iinclude -Isrc -Itools -Itests/unit -fsanitize=leak -pthread \
            -o "$T/bin/$unit" tests/unit/*/"$unit.c" "$B/lib/rooms.a" "$B/lib/libgguf.a" -lm 2> "$T/err" ||
             bad "build $unit: $(head -n 1 "$T/err")"
        "$T/bin/$unit" > "$T/out" 2> "$T/err"
    fi
    [ $? != 99 ] && ok || { bad "$unit leaks"; grep -A6 'leak of' "$T/err" | head -n 12; }
    grep -q passed "$T/out" && ok || bad "$unit has no result"
done
PATH=$T/bin:$PATH

# clean STATUS COMMAND...: that exit status, and no leak.
clean() {
    want=$1
    shift
    "$@" > "$T/out" 2> "$T/err"
    got=$?
    if [ $got = 99 ]; then
        bad "a leak: $*"
        grep -A6 'leak of' "$T/err" | head -n 12
    elif [ $got != "$want" ]; then
        bad "exit $got, $want wanted: $*"
        head -n 2 "$T/err"
    else
        ok
    fi
}

V=$LAB/lab-verse-q4_k_m.gguf C=$LAB/lab-code-q4_k_m.gguf S=$LAB/lab-stranger-q4_k_m.gguf
clean 0 organ-extract $V --list
clean 0 organ-extract $V --output "$T/verse"
clean 0 organ-extract $C --split-experts --output "$T/code"
clean 0 sh -c 'cat "$1" | organ-extract - --output "$2"' x $V "$T/piped"
clean 2 organ-extract $V --output "$T/verse"
clean 3 organ-extract README.md --list
clean 4 organ-extract "$T/absent" --list
clean 0 organ-measure $V --summary
clean 0 organ-measure $V --sample 0 --svg "$T/verse.svg"
clean 0 organ-measure "$T/verse" --update
clean 1 organ-compare $V $C
clean 0 organ-compare $V $V --summary
clean 0 organ-compare $V $C --lineage
clean 1 organ-compare $V $S --lineage
clean 0 organ-graft --source "$T/code" --target "$T/verse" --type organ --layers 1-2 --output "$T/both"
clean 0 organ-graft --source "$T/code" --target "$T/verse" --type organ --check
clean 0 organ-graft --target "$T/verse" --adapter "$LAB/lab-lora-code.gguf" --output "$T/lora"
clean 0 organ-assemble "$T/both" --output "$T/both.gguf"
clean 0 organ-assemble "$T/both" --output "$T/q8.gguf" --dtype '*=q8_0'
clean 0 organ-assemble "$T/verse" --output "$T/split.gguf" --shards 3
clean 0 organ-transplant --base $V --donor $C --type organ --output "$T/direct.gguf"
clean 0 organ-transplant --base $V --donor $C --blend slerp:0.5 --output "$T/half.gguf"
clean 0 organ-transplant --base $V --donor $C --blend task:0.5 --ancestor "$LAB/lab-base-q4_k_m.gguf" \
    --output "$T/task.gguf"
clean 0 organ-transplant --base "$T/half.gguf" --donor $C --type organ --in-place --undo "$T/undo"
clean 0 organ-transplant --base "$T/half.gguf" --donor "$T/undo" --in-place
clean 1 organ-transplant --base $V --donor $C --layers 90 --output "$T/none.gguf"
clean 0 organ-purify "$T/verse" --method haar --output "$T/pure"
clean 0 organ-purify $V --method fft --dry-run
unpack "$D/malformed.tsv" "$D/malformed.pack" "$T/malformed" > "$T/out" 2>&1 || bad "the malformed models"
set -- "$T"/malformed/*.gguf
[ $# -ge 50 ] && ok || bad "only $# malformed models"
clean 3 organ-check "$@"
finish
