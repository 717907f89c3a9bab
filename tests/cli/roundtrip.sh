#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC2016,SC2013,SC2181,SC2002,SC2231
# roundtrip.sh - extract and assemble give every model back byte for byte: by name,
# through pipes, with experts split, over an organ stream; the selection options;
# the list as TSV and JSON; the same bytes for any number of threads.
. "$(dirname "$0")/lib.sh"
VERSE=$LAB/lab-verse-q4_k_m.gguf

there_and_back() {
    rm -rf "$T/d" "$T/m.gguf"
    check "$1: extract" organ-extract "$1" --output "$T/d"
    check "$1: assemble" organ-assemble "$T/d" --output "$T/m.gguf"
    check_same "$1" "$T/m.gguf" "$1: rebuilt"
}

through_pipes() {
    rm -rf "$T/d" "$T/m2.gguf"
    (cd "$T" && cat "$OLDPWD/$1" | organ-extract --model - --output d && organ-assemble --dir d --output m2.gguf) \
        2> "$T/err"
    if [ $? = 0 ] && cmp -s "$1" "$T/m2.gguf"; then ok; else bad "$1: through pipes: $(head -n 1 "$T/err")"; fi
}

for f in $D/gguf/*.gguf $LAB/*.gguf; do
    case $f in
    */big-endian-v3.gguf | */v1-by-hand.gguf)
        check_error 3 "$f" "$f is refused" organ-extract "$f" --list
        continue ;;
    */x-0000*) ;; # a split set: in shards.sh; one shard on a pipe is a plain file
    *) there_and_back "$f" ;;
    esac
    through_pipes "$f"
done

# The list has a header line, one line per tensor, and the same rows in JSON.
check "list" organ-extract $VERSE --list
check_text "$(head -n 1 "$T/out")" \
    "name${TAB}class${TAB}block${TAB}role${TAB}dtype${TAB}dims${TAB}elements${TAB}bytes${TAB}offset${TAB}part" \
    "header line"
cp "$T/out" "$T/list.tsv"
tensors=$(($(wc -l < "$T/list.tsv") - 1))
for f in last-tensor-unpadded trailing-bytes header-only-trailing v3-basic; do
    rm -rf "$T/sized"
    organ-extract -q - --output "$T/sized" < $D/gguf/$f.gguf
    check_text "$(sed -n 's/^    "bytes": \([0-9]*\),/\1/p' "$T/sized/manifest.json")" "$(($(wc -c < $D/gguf/$f.gguf \
       )))" "$f on a pipe: its size"
done
check "list of a pipe" sh -c "cat $VERSE | organ-extract - --list"
check_same "$T/out" "$T/list.tsv" "list by name and on a pipe"
check "json list" organ-extract $VERSE --list --json
cp "$T/out" "$T/list.json"
check_text "$(($(wc -l < "$T/list.json")))" "$tensors" "rows of the json list"
if have jq "JSON read by jq"; then
    jq -r '[.name, .class, (.block // "-"), .role, .dtype, (.dims | map(tostring) | join("x")),
        .elements, .bytes, .offset, .part] | @tsv' < "$T/list.json" > "$T/back.tsv"
    sed 1d "$T/list.tsv" > "$T/rows.tsv"
    check_same "$T/back.tsv" "$T/rows.tsv" "json and TSV say the same"
fi
for f in kv-only names-odd names-not-utf8 dims-0; do
    check "$f: json list" organ-extract $D/gguf/$f.gguf --list --json
    if have jq "JSON read by jq"; then check "$f: json is json" jq -e . "$T/out"; fi
    organ-extract -q $D/gguf/$f.gguf --list > "$T/out"
    check_text "$(awk -F '\t' 'NF != 10' "$T/out" | wc -l | tr -d ' ')" 0 "$f: ten columns in each row"
done

# Organ directories do not depend on the number of threads or on the way in.
organ-extract -j 1 $VERSE --output "$T/j1" 2> "$T/err"
organ-extract -j 4 $VERSE --output "$T/j4" 2> "$T/err"
check_same_dir "$T/j1" "$T/j4" "the same folder for -j 1 and -j 4"
organ-extract - --output "$T/jp" < $VERSE 2> "$T/err"
check "the pipe's folder differs in its source only" sh \
    -c "diff -r $T/j1 $T/jp | grep '^[<>]' | grep -v '\"source\":' | grep . && exit 1 || exit 0"
# Tensors that are read, hashed and written at the same time, whole and cut short.
mkmodel "$T/large.gguf" blk.0.attn_q.weight:F16:1024x512 blk.0.ffn_up.weight:F32:1024x1024 \
    blk.0.ffn_down.weight:F32:997x1001 output_norm.weight:F32:64
organ-extract -q "$T/large.gguf" --output "$T/large"
for j in 1 2 3; do
    check "large tensors on a pipe, -j $j" sh -c "cat $T/large.gguf | organ-extract -j $j - --output $T/large$j"
    grep -v '"source":' "$T/large/manifest.json" > "$T/a"
    grep -v '"source":' "$T/large$j/manifest.json" > "$T/b"
    check_same "$T/a" "$T/b" "the hashes of large tensors on a pipe, -j $j"
    check_same_dir "$T/large/organs" "$T/large$j/organs" "large tensors on a pipe, -j $j"
    check_error 3 blk.0.ffn_up.weight "a large tensor cut short, -j $j" sh \
        -c "head -c 4000000 $T/large.gguf | organ-extract -j $j - --output $T/largecut"
    check_absent "$T/largecut" "after a large tensor cut short, -j $j"
done
organ-assemble -j 1 "$T/j1" --output "$T/j1.gguf"
organ-assemble -j 4 "$T/j1" --output "$T/j4.gguf"
check_same "$T/j1.gguf" "$T/j4.gguf" "assembled with -j 1 and -j 4"
check_same "$T/j1.gguf" $VERSE "assembled is the model"
# A directory is a model like any other: a copy of it is the same directory.
check "a directory as the model" organ-extract "$T/j1" --output "$T/copy"
check "assemble the copy" organ-assemble "$T/copy" --output "$T/copy.gguf"
check_same "$T/copy.gguf" $VERSE "the copy of a directory"

# Organ streams: the concatenation of the records, and back.
organ-extract $VERSE --output - > "$T/stream" 2> "$T/err"
for t in $(sed -n 's/.*"file": "\([a-z]*\/[^"]*\.bin\)".*/\1/p' "$T/j1/manifest.json"); do cat "$T/j1/$t"; done \
    > "$T/cat"
check_same "$T/stream" "$T/cat" "an organ stream is its records, one after another"
check "a stream into a directory" sh -c "cat $T/stream | organ-extract - --output $T/ds"
check_same_dir "$T/j1/organs" "$T/ds/organs" "records that went through a stream"
check_same_dir "$T/j1/skeleton" "$T/ds/skeleton" "records that went through a stream"
check "a stream through a stream" sh -c "organ-extract - --output - < $T/stream > $T/stream2"
check_same "$T/stream" "$T/stream2" "a stream through a stream"
check "a stream listed" organ-extract - --list < "$T/stream"
without offset,part "$T/out" > "$T/a"
without offset,part "$T/list.tsv" > "$T/b"
check_same "$T/a" "$T/b" "the list of a stream"
cp "$T/stream" "$T/stream.bin"
check "a file of records listed" organ-extract "$T/stream.bin" --list
head -c 1000000 "$T/stream" > "$T/cut.bin"
check_exit 3 "a stream cut short" organ-extract - --list < "$T/cut.bin"
if one_line "$T/err"; then ok; else bad "a stream cut short: one line"; fi
check_error 3 "is incomplete" "a file of records cut short" organ-extract "$T/cut.bin" --list
check_exit 3 "a stream cut short into a directory" organ-extract - --output "$T/cutdir" < "$T/cut.bin"
check_absent "$T/cutdir" "after a cut stream"

# Selection.
names() { organ-extract "$@" --list 2> "$T/err" | cells name | sed 1d; }
want() { awk -F '\t' "$BY_NAME NR > 1 && ($1) { print col(\"name\") }" "$T/list.tsv"; }
select_is() { # WHAT AWK-CONDITION OPTIONS...
    what=$1 cond=$2
    shift 2
    names $VERSE "$@" > "$T/a"
    want "$cond" > "$T/b"
    check_same "$T/a" "$T/b" "selection $what"
    check_text "$(test -s "$T/b" && echo some)" some "selection $what selects something"
}
select_is "--type organ" 'col("class") == "organ"' --type organ
select_is "--type organs,embed" 'col("class") == "organ" || col("class") == "embed"' --type organs,embed
select_is "--type=norm" 'col("class") == "norm"' --type=norm
select_is "--layers 1-2" 'col("block") == "1" || col("block") == "2"' --layers 1-2
select_is "--layers 0,3" 'col("block") == "0" || col("block") == "3"' --layers 0,3
select_is "--type and --layers" 'col("class") == "skeleton" && col("block") == "2"' --type skeleton --layers 2
select_is "--tensors" 'col("name") ~ /ffn_up|^output/' --tensors '*ffn_up*,output*'
select_is "--tensors [..]" 'col("name") ~ /^blk\.[13]\.attn_q\./' --tensors 'blk.[13].attn_q.*'
want 'col("block") == "1"' > "$T/names"
select_is "--names-from FILE" 'col("block") == "1"' --names-from "$T/names"
cp "$T/list.tsv" "$T/whole"
awk -F '\t' "$BY_NAME"'NR == 1 || col("class") == "embed"' "$T/list.tsv" > "$T/table"
select_is "--names-from a table" 'col("class") == "embed"' --names-from "$T/table"
organ-extract $VERSE --list --names-from - < "$T/table" 2> "$T/err" > "$T/out"
check_text "$(sed 1d "$T/out" | wc -l | tr -d ' ')" "$(sed 1d "$T/table" | wc -l | tr -d ' ')" "--names-from -"
organ-extract -q $D/gguf/names-odd.gguf --list > "$T/odd"
check "names with escapes come back" organ-extract $D/gguf/names-odd.gguf --list --names-from "$T/odd"
check_text "$(awk -F '\t' "$BY_NAME"'col("name") != ""' "$T/out" |
    wc -l)" "$(awk -F '\t' "$BY_NAME"'col("name") != ""' "$T/odd" | wc -l)" \
    "all odd names are found again"
check_error 1 "block 900 is not in the model" "nothing selected, stream" organ-extract $VERSE --layers 900 --output -
check_exit 1 "nothing selected, list" organ-extract $VERSE --layers 900 --list
check_exit 1 "nothing selected, directory" organ-extract $VERSE --layers 900 --output "$T/none"
check_absent "$T/none" "after an empty selection"
for o in "--type brain" "--layers 5-" "--layers 7-5" "--layers x" "--tensors ,a" "--experts -1" "--type ,"; do
    # shellcheck disable=SC2086
    check_error 2 "organ-extract: " "$o" organ-extract $VERSE --list $o
done
check_error 4 "nowhere" "--names-from a missing file" organ-extract $VERSE --list --names-from "$T/nowhere"

# Experts: a record each, and back on their stacks.
mkmodel "$T/moe.gguf" token_embd.weight:F32:64x10 blk.0.ffn_gate_inp.weight:F32:64x6 \
    blk.0.ffn_gate_exps.weight:Q8_0:64x8x6 blk.0.ffn_up_exps.weight:Q4_0:64x8x6 blk.0.ffn_down_exps.weight:F16:8x64x6 \
    blk.0.ffn_down_exps.bias:F32:64x6 blk.0.ffn_norm_exps.weight:F32:64x6 blk.1.ffn_up_exps.weight:F32:8x4x1 \
    blk.2.ffn_up.0.weight:F32:8x4 blk.2.ffn_up.1.weight:F32:8x4 output.weight:F32:64x10
there_and_back "$T/moe.gguf"
check "split experts" organ-extract "$T/moe.gguf" --split-experts --output "$T/x"
check "assemble split experts" organ-assemble "$T/x" --output "$T/x.gguf"
check_same "$T/moe.gguf" "$T/x.gguf" "split experts put together"
check_text "$(organ-extract "$T/moe.gguf" --split-experts --list | grep -c 'ffn_[a-z]*\.[0-9]')" 27 \
    "experts in the list"
organ-extract - --split-experts --output "$T/xp" < "$T/moe.gguf"
check_same_dir "$T/x/organs" "$T/xp/organs" "split experts of a pipe"
organ-extract "$T/x" --output "$T/xx"
check "a copy of split experts" organ-assemble "$T/xx" --output "$T/xx.gguf"
check_same "$T/moe.gguf" "$T/xx.gguf" "a copy of split experts put together"
organ-extract "$T/moe.gguf" --experts 1,4-5 --list | cells name | sed 1d > "$T/a"
check_text "$(grep -c . "$T/a") $(grep -c 'ffn_[a-z]*\.[145]\.' "$T/a")" "13 13" \
    "--experts selects those and nothing else"
organ-extract "$T/moe.gguf" --experts 2 --tensors '*ffn_gate*' --output - > "$T/e2" 2> "$T/err"
# the record of expert 2 of the gate stack: header, then a sixth of the stack's data
organ-extract "$T/moe.gguf" --tensors 'blk.0.ffn_gate_exps*' --output - > "$T/stack"
bytes=$((64 * 8 * 34 / 32))
tail -c $bytes "$T/e2" > "$T/a"
tail -c $((bytes * 4)) "$T/stack" | head -c $bytes > "$T/b"
check_same "$T/a" "$T/b" "the bytes of one expert"
# Without expert 1 of 4 in both blocks: one less everywhere, the routers cut to match.
mkmodel "$T/m4.gguf" -k llama.expert_count=4 -k llama.expert_used_count=2 \
    blk.0.ffn_gate_inp.weight:F32:64x4 blk.0.ffn_up_exps.weight:Q8_0:64x8x4 \
    blk.1.ffn_gate_inp.weight:F32:64x4 blk.1.ffn_up_exps.weight:Q8_0:64x8x4
organ-extract "$T/m4.gguf" --split-experts --output "$T/x4"
grep -v '"blk\.[01]\.ffn_up\.1\.weight"' "$T/x4/manifest.json" > "$T/mf"
cp "$T/mf" "$T/x4/manifest.json"
check "an expert taken out" organ-assemble "$T/x4" --output "$T/m3.gguf"
check_text "$(organ-extract "$T/m3.gguf" --list | cells dims | tr '\n' ' ')" "dims 64x3 64x8x3 64x3 64x8x3 " \
    "dims without an expert"
data() { organ-extract "$1" --tensors "$2" --output - | tail -c "$3"; } # the data of one tensor
for i in 0 1; do
    data "$T/m4.gguf" "blk.$i.ffn_up_exps*" $((bytes * 4)) > "$T/whole"
    { head -c $bytes "$T/whole"; tail -c $((bytes * 2)) "$T/whole"; } > "$T/a"
    data "$T/m3.gguf" "blk.$i.ffn_up_exps*" $((bytes * 3)) > "$T/b"
    check_same "$T/a" "$T/b" "experts that stay in block $i"
    data "$T/m4.gguf" "blk.$i.ffn_gate_inp*" 1024 > "$T/whole"
    { head -c 256 "$T/whole"; tail -c 512 "$T/whole"; } > "$T/a"
    data "$T/m3.gguf" "blk.$i.ffn_gate_inp*" 768 > "$T/b"
    check_same "$T/a" "$T/b" "the router of block $i"
done
organ-extract "$T/m3.gguf" --output "$T/x3"
check_text "$(sed -n 's/.*"llama.expert_count", .*"value": \([0-9]*\).*/\1/p' "$T/x3/manifest.json")" 3 \
    "the number of experts"

# A stack of experts with a name that no engine knows yet.
mkmodel "$T/new.gguf" blk.0.ffn_new_exps.weight:F16:32x4x3 blk.1.ffn_exps.weight:F16:32x4x3
check "a stack with a new name" organ-extract "$T/new.gguf" --split-experts --output "$T/new"
check "a stack with a new name, put together" organ-assemble "$T/new" --output "$T/new2.gguf"
check_same "$T/new2.gguf" "$T/new.gguf" "a stack with a new name"
check_text "$(find "$T/new/organs" -type f | wc -l | tr -d ' ')" 4 "its experts are records"

# A part of a model is a model.
check "a part" organ-extract $VERSE --type norm,embed --output "$T/part"
check "a part assembled" organ-assemble "$T/part" --output "$T/part.gguf"
names "$T/part.gguf" > "$T/a"
want 'col("class") == "norm" || col("class") == "embed"' > "$T/b"
check_same "$T/a" "$T/b" "the tensors of a part"
finish
