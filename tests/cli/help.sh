#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC2015,SC2016,SC2034
# help.sh - every tool: --help fits a screen and is complete; --version; mistakes are told on
# stderr with exit 2. That the examples work is tested by install.sh.
. "$(dirname "$0")/lib.sh"

for f in "$BIN"/organ-*; do
    t=$(basename "$f")
    case $t in *.* | organ-api) continue ;; esac # organ-api is for a web server
    check "$t --help" "$t" --help
    cp "$T/out" "$T/help"
    check_text "$(cat "$T/err")" "" "$t --help: nothing on stderr"
    lines=$(wc -l < "$T/help")
    if [ "$lines" -ge 10 ] && [ "$lines" -le 42 ]; then ok; else bad "$t --help has $lines lines"; fi
    check_text "$(awk 'length($0) > 80' "$T/help" | wc -l | tr -d ' ')" 0 "$t --help: no line over 80 columns"
    check_text "$(grep -c "$TAB" "$T/help")" 0 "$t --help: no tabs"
    check_text "$(head -n 1 "$T/help" | cut -d ' ' -f 1-2)" "usage: $t" "$t --help begins with its usage"
    for word in "examples:" "exit: 0"; do
        if grep -q "^$word" "$T/help"; then ok; else bad "$t --help: no $word"; fi
    done
    "$t" -h > "$T/out" 2>&1
    check_same "$T/out" "$T/help" "$t -h"
    check "$t --version" "$t" --version
    if grep -qx "$t [0-9]*\.[0-9]*\.[0-9]*.*" "$T/out"; then ok; else bad "$t --version: $(cat "$T/out")"; fi
    check_error 2 "nonsense" "$t --nonsense" "$t" --nonsense
    check_error 2 "z" "$t -z" "$t" -z
    check_error 2 "-j 0: " "$t -j 0" "$t" -j 0
    check_error 2 "whole number" "$t -j x" "$t" -j x
    check_error 2 "--help" "$t --output without a value" "$t" --output
    for path in $(sed -n '/^examples:/,/^exit:/p' "$T/help" | tr -s ' ' '\n' | grep '^tests/' || echo none); do
        if [ -e "$path" ]; then ok; else bad "$t --help: its example names $path"; fi
    done
done

# Every option of the tables is in the help and in the manual page of its tool.
sh scripts/options.sh "$BIN" |
    awk -F '\t' "$BY_NAME"'NR > 1 && col("option") != "-" {
    print col("tool"), col("option"), col("letter") }' > "$T/table"
if [ "$(wc -l < "$T/table")" -ge 300 ]; then ok; else bad "only $(wc -l < "$T/table") options"; fi
while read -r t option letter; do
    case $t in organ-api) continue ;; esac
    [ -s "$T/$t.help" ] || { if [ -x "$BIN/$t" ]; then "$t" --help; else sh "scripts/$t" --help; fi > "$T/$t.help"; }
    [ "$letter" = - ] && letter=-$option
    if grep -qE -e "(--$option|(^|[ [])-$letter)([^a-z-]|\$)" "$T/$t.help"; then ok; else \
        bad "$t --help has no --$option"; fi
    case $option in help | version) continue ;; esac
    if grep -qE -e "^\.(It|Op|Fl|Pq).* (-${option}|[a-z]?${letter}[a-z]?)([ ,.]|\$)" "docs/man/$t.1"; then ok; else \
        bad "$t(1) has no --$option"; fi
done < "$T/table"

# What a shell user may get wrong.
V=$LAB/lab-verse-q4_k_m.gguf
check_error 2 "no model given" "no model" organ-extract --list
check_error 2 "more than one" "two models" organ-extract $V $V --list
check_error 2 "--output or --list" "no output" organ-extract $V
check_error 2 "--output or --list" "both" organ-extract $V --list --output "$T/x"
check_error 2 "takes no value" "a value for a flag" organ-extract $V --list=yes
check_error 2 "takes no value" "a value for a common flag" organ-extract $V --list --json=yes
organ-extract $V --output "$T/d"
check_error 4 "; create the folder first" "a file in no folder" organ-assemble "$T/d" --output "$T/none/x.gguf"
if [ -w /dev/full ]; then
    # Rows may be written by any thread, and errno is each thread's own.
    for i in 1 2 3 4 5 6; do organ-measure $V > /dev/full; done 2> "$T/err"
    check_text "$(grep -c "cannot write to stdout.*; free some space" "$T/err"), $(grep -c ioctl "$T/err")" "6, 0" \
        "a full stdout: the reason"
fi
check_error 2 "give --output" "assemble without output" organ-assemble "$T"
check_error 4 "none.gguf" "a missing model" organ-extract "$T/none.gguf" --list
check_error 3 "" "a file that is not a model" organ-extract README.md --list
check_error 2 "did you mean '--summary'?" "a misspelt option" organ-measure $V --sumary
check_error 2 "did you mean '--skip-mismatched'?" "a misspelt option" organ-graft --skip_mismatched
check_error 2 "did you mean '--tensors'?" "a misspelt option of the selection" organ-extract $V --tensor x
check_error 2 "did you mean 'Q4_K_M'?" "a misspelt preset" organ-assemble $V --dtype q4_km --output "$T/x"
check_error 2 "did you mean 'convert'?" "a misspelt mode" organ-graft --source $V --target $V --output "$T/x" \
    --match convrt
check_error 2 "unknown option '--frobnicate'; see" "an option that resembles none" organ-stack --frobnicate
check_error 2 "unknown option '--tensors'; see" "options of other tools are not suggested" organ-stack --tensors
check_error 2 "both read stdin" "names and model on stdin" organ-extract - --list --names-from - < /dev/null

# Stdin can be read once, and nothing of it is before that is said.
twice() {
    why=$1
    shift
    printf x > "$T/stdin"
    check_error 2 "$why" "stdin twice: $*" sh -c '"$@" && exit; x=$?; [ "$(cat)" = x ] && exit $x' sh "$@" < "$T/stdin"
}
twice "both read stdin" organ-measure - --names-from -
twice "both read stdin" organ-purify - --method haar --dry-run --names-from -
twice "both read stdin" organ-purify --dir - --method haar --dry-run --names-from -
twice "both read stdin" organ-compare - $V --names-from -
twice "both read stdin" organ-graft --source - --target $V --check --names-from -
twice "both read stdin" organ-graft --adapter - --target $V --output "$T/x" --names-from -
twice "both read stdin" organ-transplant --base $V --donor - --check --names-from -
twice "given twice" organ-measure $V --names-from - --names-from=-
twice "one model" organ-measure - -
twice "one model" organ-compare - -
twice "one model" organ-graft --source - --target - --check
twice "one model" organ-graft --adapter - --target - --output "$T/x"
twice "one model" organ-graft --source $V --target - --blend task:1 --ancestor - --output "$T/x"
twice "one model" organ-transplant --base - --donor - --output "$T/x"
twice "one model" organ-transplant --base $V --donor - --blend task:1 --ancestor - --output "$T/x"
check_error 2 "in place" "a pipe in place" organ-transplant --base - --donor $V --in-place < /dev/null

# What would be ignored is a mistake.
check_error 2 "--json needs --list" "a directory has no table" organ-extract $V --json --output "$T/x"
check_error 2 "--json needs --check" "nor has a graft" organ-graft --source $V --target $V --json --output "$T/x"
check_error 2 "--json needs --check" "nor a transplant" organ-transplant --base $V --donor $V --json --output "$T/x"
check_error 2 "leave out --json" "nor a stream" organ-purify $V --method haar --json --output -
check_error 2 "leave out --json" "nor a picture" organ-measure $V --svg - --json
check_error 2 "leave out --json" "nor one on the terminal" organ-measure $V --heat --json
check_error 2 "--color needs" "a colour without a picture" organ-measure $V --color theta
for with in "--match retype" "--match=exact"; do
    check_error 2 "leave --match out" "a blend $with" organ-graft --source $V --target $V --blend linear:1 $with \
        --output "$T/x"
    check_error 2 "leave --match out" "a blend $with, transplant" organ-transplant --base $V --donor $V \
        --blend linear:1 $with --output "$T/x"
    check "convert is what a blend does" organ-transplant --base $V --donor $V --blend linear:1 --match convert \
        --output "$T/convert.gguf" --force
done
for with in --add --skip-mismatched "--match exact" "--blend linear:1" "--map 0=0" "--experts 0" \
    "--experts 0 --router" "--type norm" --check; do
    check_error 2 "--adapter takes only" "an adapter $with" organ-graft --adapter $V --target $V $with --output "$T/x"
done
for with in "--match exact" "--blend linear:1" "--map 0=0" "--type norm"; do
    check_error 2 "--mtp" "MTP blocks $with" organ-transplant --base $V --donor $V --mtp $with --output "$T/x"
done
check_error 2 "--scale needs" "a scale of 1 without an adapter" organ-graft --source $V --target $V --scale 1 \
    --output "$T/x"
check_absent "$T/x" "what would be ignored"

# One of a thing, in words.
mkmodel "$T/one.gguf" odd:F32:4
check "one of a kind" organ-extract -v "$T/one.gguf" --output "$T/one"
if grep -q '1 tensor,' "$T/err" && grep -q 'class other.*: 1$' "$T/err"; then ok; else bad "one of a kind: $(cat \
    "$T/err")"; fi
check_exit 0 "one identical tensor" organ-compare -v "$T/one.gguf" "$T/one.gguf" --lineage
if grep -q 'the only tensor' "$T/err"; then ok; else bad "one identical tensor: $(cat "$T/err")"; fi
check_error 2 "cannot have 65535 shards, because it has only 1 tensors" "more shards than tensors" organ-assemble \
    "$T/one" --output "$T/x.gguf" --shards 65535
check_error 2 "GG_ISA is 'avx'" "an unknown instruction-set level" env GG_ISA=avx organ-extract "$T/one.gguf" --list
check_error 2 "GG_ISA is '3'" "a level that does not exist" env GG_ISA=3 organ-extract "$T/one.gguf" --list
for tool in "$BIN"/organ-*; do
    case ${tool##*/} in
    organ-api | organ-probe) continue ;; # started by a web server, and optional
    organ-assemble | organ-prune | organ-purify | organ-stack) set -- --output "$T/x.gguf" ;;
    organ-extract) set -- --list ;;
    organ-lora) set -- --tuned "$V" --rank 1 --output "$T/x.gguf" ;;
    organ-transplant) set -- --donor "$V" --check ;;
    *) set -- ;;
    esac
    check_error 2 "GG_ISA is 'avx'" "${tool##*/}: an unknown level" env GG_ISA=avx "$tool" "$V" "$@"
done
check "a level that this machine may lack" env GG_ISA=2 organ-extract "$T/one.gguf" --list
check "options after the model" organ-extract $V --list -q
check "-- ends the options" organ-extract --list -- $V
check "long options with =" organ-extract --model=$V --list --type=norm
finish
