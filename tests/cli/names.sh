#!/bin/sh
# shellcheck disable=SC1091,SC2034,SC2086,SC2154
# names.sh - names of tensors of every length, in every kind of source, with every tool. A tool works with
# names of up to 255 bytes or refuses them in one line; it refuses longer ones when it opens the source.
. "$(dirname "$0")/lib.sh"
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}exitcode=99
export ASAN_OPTIONS
LIMIT=255
b=$LAB/lab-verse-q4_k_m.gguf
o=$T/out-model
mkdir "$T/api" "$T/spool"
echo 0123456789abcdef > "$T/token"

# num BYTES NUMBER: a little-endian number.
num() {
    text='' left=$2 k=0
    while [ $k -lt "$1" ]; do
        text=$text$(printf '\\0%03o' $((left % 256)))
        left=$((left / 256)) k=$((k + 1))
    done
    printf '%b' "$text"
}

# name BYTES HEAD TAIL: HEAD, as many letters as it takes, TAIL.
name() {
    awk -v n="$1" -v head="$2" -v tail="$3" 'BEGIN {
        for (s = "abcdefgh"; length(s) < n; ) s = s s
        printf "%s%s%s", head, substr(s, 1, n - length(head) - length(tail)), tail }'
}

# The tensors of a source: head and tail of a name, and the dims, from the row on.
TENSORS="- - 32
blk.0. .weight 32 4
blk.0.ffn_ .weight 32 32
blk.0.ffn_gate_ _exps.weight 32 4 2
blk.0.ffn_ .lora_a 32 2
blk.0.ffn_ .lora_b 2 32"

# each BYTES COMMAND: runs COMMAND NAME-FILE DIM... for each tensor.
each() {
    echo "$TENSORS" > "$T/tensors"
    while read -r head tail dims; do
        [ "$head" != - ] || head='' tail=''
        name "$1" "$head" "$tail" > "$T/name"
        $2 "$T/name" $dims
    done < "$T/tensors"
}

size_of() { # DIM...: the bytes of its values
    size=4
    for d in "$@"; do size=$((size * d)); done
}

safetensors_entry() {
    printf '%s"%s":{"dtype":"F32","shape":[' "$sep" "$(cat "$1")"
    shift
    size_of "$@"
    shape=$1
    shift
    for d in "$@"; do shape=$d,$shape; done
    printf '%s],"data_offsets":[%d,%d]}' "$shape" $at $((at + size))
    at=$((at + size)) sep=,
}
KEYS='[{\"key\": \"general.architecture\", \"type\": \"str\", \"value\": \"llama\"},
    {\"key\": \"llama.block_count\", \"type\": \"u32\", \"value\": 1},
    {\"key\": \"llama.expert_count\", \"type\": \"u32\", \"value\": 2},
    {\"key\": \"tokenizer.ggml.tokens\", \"type\": \"arr\", \"items\": \"str\", \"value\": [\"a\"]},
    {\"key\": \"llama.attention.head_count\", \"type\": \"u32\", \"value\": 1}]'
KEYS=$(printf '%s' "$KEYS" | tr '\n' ' ')
make_safetensors() { # BYTES [ENTRY]
    at=0 sep=''
    s=$T/$1.safetensors
    { printf '{%s' "${2:-}" && each "$1" safetensors_entry && printf '}'; } > "$T/header"
    { num 8 $(wc -c < "$T/header") && cat "$T/header" && head -c 20000 /dev/zero | head -c $at; } > "$s"
}

# As the tools write it, with the keys of a model.
make_own_safetensors() {
    make_safetensors "$1" "\"__metadata__\":{\"gguf.keys\":\"$KEYS\",\"gguf.names\":\"gguf\"},"
}

# Each command, in a line: $s is the source, $b a model, $o an output.
COMMANDS='organ-api GET info $s
organ-assemble $s -o $o
organ-assemble $s -o $o.safetensors
organ-assemble $s --dtype q8_0 -o $o
organ-assemble $s --shards 2 -o $o
organ-prune $s --experts 1 -o $o
organ-check $s
organ-check $s --data
organ-check $s --hash
organ-check $s --target $b
organ-compare $s $s
organ-compare $b $s
organ-compare $s $b --summary
organ-compare $s $s --lineage
organ-compare $s $b --align
organ-compare $s $s --svg $o.svg
organ-compare $b $s --patch $o
organ-extract $s --list
organ-extract $s --list --split-experts --json
organ-extract $s -o $o
organ-extract $s --split-experts -o $o
organ-extract $s -o -
organ-extract $s --safetensors -o $o.safetensors
organ-graft $s $s -o $o
organ-graft $b $s --add -o $o
organ-graft $s $s --experts 0 --match convert -o $o
organ-imatrix show $s
organ-imatrix combine $s $s -o $o
organ-info $s
organ-info $s --json
organ-keys $s
organ-keys $s --set x.y=u32:1 -o $o
organ-lora $s $s --rank 2 -o $o
organ-lora --base $b --from $s -o $o
organ-measure $s
organ-measure $s --summary
organ-measure $s --split-experts --svg $o.svg
organ-measure $b --imatrix $s
organ-merge $s $s --method linear -o $o
organ-merge --method task --base $b --model $s -o $o
organ-purify $s -o $o
organ-stack $s 0,0 -o $o
organ-stack --experts-from $s,$s --base $s -o $o
organ-transplant $s $s -o $o
organ-transplant $b $s --add -o $o
organ-transplant $b --adapter $s -o $o
organ-transplant $s $s --experts 0=1 -o $o'

# One line for each failure: how it ended, and what it said.
run() { # BYTES COMMAND
    case $2 in
    organ-api*)
        cp "$s" "$T/api/"
        PATH_INFO=/v1/info/${s##*/} REQUEST_METHOD=GET ORGAN_API_DATA=$T/api ORGAN_API_SPOOL=$T/spool \
            ORGAN_API_TOKEN_FILE=$T/token ORGAN_API_BIN=$BIN organ-api > "$T/out" 2> "$T/err" < /dev/null
        got=$?
        grep -q '^Status: ' "$T/out" || got=5
        ! grep -q '^Status: 5' "$T/out" || got=6
        rm -rf "$T/api/${s##*/}"
        ;;
    *)
        eval "$2" > "$T/out" 2> "$T/err" < /dev/null
        got=$?
        ;;
    esac
    rm -rf "$o" "$o".* "$o"-0*
    if grep -Eq 'runtime error|Sanitizer' "$T/err"; then bad "$what: $(grep -E 'runtime error|Sanitizer' "$T/err")"
    elif [ $got -gt 4 ]; then bad "$what: exit $got"
    elif [ "$1" -le $LIMIT ] || [ "${2%% *}" = organ-api ]; then ok
    elif [ $got != 3 ]; then bad "$what: exit $got, 3 wanted: $(head -n 1 "$T/err" | cut -c 1-200)"
    elif ! grep -Eq "$1 bytes|an entry has no name" "$T/err"; then bad "$what: $(head -n 1 "$T/err" | cut -c 1-200)"
    else ok
    fi
}

echo "$COMMANDS" > "$T/commands"
for tool in "$BIN"/organ-*; do
    tool=${tool##*/}
    [ "$tool" = organ-probe ] || grep -q "^$tool " "$T/commands" || bad "no command of $tool is tried"
done
for kind in safetensors own_safetensors; do
    for n in 63 64 127 255 256 1000 100000; do
        make_$kind $n
        while read -r command; do
            what="$kind, $n bytes: $command"
            run $n "$command"
        done < "$T/commands"
        rm -rf "$s"
    done
done
finish
