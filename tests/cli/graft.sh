#!/bin/sh
# graft.sh - organ-graft: what moves and what does not, in every matching mode; equal
# to a transplant of the same; base directories never shared unless asked; --check and
# the lineage it ends with; single experts and routers.
. "$(dirname "$0")/lib.sh"
unrecorded organ-transplant organ-graft
have mkmodel || { bad "mkmodel is not built"; finish; }
VERSE=$LAB/lab-verse-q4_k_m.gguf
CODE=$LAB/lab-code-q4_k_m.gguf
STRANGER=$LAB/lab-stranger-q4_k_m.gguf
{ organ-extract "$VERSE" --output "$T/verse" && organ-extract "$CODE" --output "$T/code"; } || bad "extract"
cp -R "$T/verse" "$T/verse.was"

graft() { # ARGUMENT...: into $T/g, which is removed first
    rm -rf "$T/g"
    organ-graft --output "$T/g" "$@"
}
# The names of tensors whose history in $T/g has a graft, in one line.
grafted() {
    sed -n 's/^ *{"name": "\([^"]*\)".*"op": "graft".*/\1/p' "$T/g/manifest.json" | tr '\n' ' '
}
# The names of files that differ from the base's, in one line.
changed() {
    (cd "$T/g" && for f in */*.bin; do cmp -s "$f" "$T/verse/$f" || echo "$f"; done) | tr '\n' ' '
}
dtype() { # MODEL TENSOR
    organ-extract "$1" --tensors "$2" --list | awk "$BY_NAME"'NR == 2 { print col("dtype") }'
}
key() { # DIR KEY: its line's value
    sed -n "s/^ *{\"key\": \"$2\", .*\"value\": \(.*\)},*\$/\1/p" "$1/manifest.json"
}

# ---- selection ---------------------------------------------------------------------
selects() { # WHAT "NAME ..." ARGUMENT...
    name=$1 names=$2
    shift 2
    check "$name" graft --source "$T/code" --target "$T/verse" "$@"
    check_text "$(grafted)" "$names" "$name: history"
    files=$(for n in $names; do
        grep "\"name\": \"$n\"" "$T/g/manifest.json" | sed 's/.*"file": "\([^"]*\)".*/\1/'
    done | LC_ALL=C sort | tr '\n' ' ')
    check_text "$(changed)" "$files" "$name: files that changed"
}
FFN1="blk.1.ffn_gate.weight blk.1.ffn_up.weight blk.1.ffn_down.weight "
selects "--type with --layers" "$FFN1" --type organ --layers 1
selects "--tensors" "blk.0.ffn_up.weight blk.2.attn_q.weight " --tensors 'blk.0.ffn_u*,blk.2.attn_q.weight'
selects "--layers of a list" "blk.0.attn_v.weight blk.3.attn_v.weight " --layers 0,3 --tensors '*attn_v*'
printf 'blk.3.ffn_gate.weight\tx\n' > "$T/names"
check_exit 0 "--names-from FILE" graft --source "$T/code" --target "$T/verse" --names-from "$T/names"
check_text "$(grafted)" "blk.3.ffn_gate.weight " "--names-from FILE"
check "everything" graft --source "$T/code" --target "$T/verse"
check_text "$(grafted | wc -w | tr -d ' ')" 39 "without a selection all move"
organ-measure "$T/verse" > "$T/measures" || bad "measure"
awk -F '\t' "$BY_NAME"'NR > 1 && col("theta") != "-" && col("theta") < 40 { print col("name") }' "$T/measures" |
    tr '\n' ' ' > "$T/low"
[ -s "$T/low" ] || bad "no tensor below 40 degrees: the chain tests nothing"
check "a chain of tools" sh -c "organ-measure '$T/verse' --where 'theta<40' | organ-graft \
    --source '$T/code' --target '$T/verse' --output '$T/chain' --names-from -"
rm -rf "$T/g"
mv "$T/chain" "$T/g"
check_text "$(grafted)" "$(cat "$T/low")" "a chain of tools: what measures below 40"
check_error 1 "block 77 is not in the model" "nothing selected" graft --source "$T/code" --target "$T/verse" \
    --layers 77
check_absent "$T/g" "nothing selected"

# ---- equal to a transplant ------------------------------------------------------------
like_transplant() { # WHAT ARGUMENT...
    name=$1
    shift
    rm -f "$T/a.gguf" "$T/b.gguf"
    check "$name: graft" graft --source "$CODE" --target "$VERSE" "$@"
    check "$name: assemble" organ-assemble "$T/g" --output "$T/a.gguf"
    check "$name: transplant" organ-transplant --base "$VERSE" --donor "$CODE" --output "$T/b.gguf" "$@"
    check_same "$T/a.gguf" "$T/b.gguf" "$name"
}
like_transplant "FFN of 1-2" --type organ --layers 1-2
like_transplant "a map" --map 0-1=2-3 --type organ
like_transplant "a blend" --blend slerp:0.25..0.75 --type organ,skeleton
data "$T/a.gguf" blk.0.ffn_up.weight > "$T/x"
data "$VERSE" blk.0.ffn_up.weight > "$T/y"
if cmp -s "$T/x" "$T/y"; then bad "the blend changed nothing"; else ok; fi
check "--map" graft --source "$T/code" --target "$T/verse" --map 0=3 --tensors '*ffn_up*'
data "$T/g" blk.0.ffn_up.weight > "$T/x"
data "$CODE" blk.3.ffn_up.weight > "$T/y"
check_same "$T/x" "$T/y" "--map 0=3: block 0 has the donor's block 3"
check_text "$(sed -n 's/^ *{"name": "blk.0.ffn_up.weight".*"history": \(.*\)},*$/\1/p' "$T/g/manifest.json")" \
    "[{\"op\": \"graft\", \"from\": \"$T/code\", \"tensor\": \"blk.3.ffn_up.weight\", \"how\": \"replace\"}]" \
    "history says where from"
check "twice" sh -c \
    "rm -rf '$T/g2'; organ-graft --source '$T/verse' --target '$T/g' --layers 0 --tensors '*ffn_up*' --output '$T/g2'"
check_text "$(grep -o '"op": "graft"' "$T/g2/manifest.json" | wc -l | tr -d ' ')" 2 "history grows"
check "the word graft" organ-graft graft --source "$T/code" --target "$T/verse" --type organ --layers 1 \
    --output "$T/g" --force
check_text "$(grafted)" "$FFN1" "the word graft"
check_error 2 "--force" "an output that is there" organ-graft --source "$T/code" --target "$T/verse" --output "$T/g"

# ---- stdin ------------------------------------------------------------------------------
check "for comparison" graft --source "$CODE" --target "$VERSE" --type organ --layers 1
sed 's/"from": "[^"]*"/"from": "-"/' "$T/g/manifest.json" > "$T/want"
check "donor on stdin" sh -c "organ-graft --source - --target $VERSE --type organ --layers 1 --output '$T/p' < $CODE"
check_same "$T/p/manifest.json" "$T/want" "donor on stdin"
check "donor of records on stdin" sh -c \
    "cat '$T'/code/organs/blk_1_*.bin | organ-graft --source - --target $VERSE --output '$T/p2'"
check_same "$T/p2/organs/blk_1_ffn_up.bin" "$T/g/organs/blk_1_ffn_up.bin" "donor of records on stdin"
check "base on stdin" sh -c \
    "cat $VERSE | organ-graft --source $CODE --target - --type organ --layers 1 --output '$T/p3'"
check_text "$(grep -Ec '/dev/fd|/tmp' "$T/p3/manifest.json")" 0 "no name of a temporary file in the manifest"
check "base on stdin: assemble" organ-assemble "$T/p3" --output "$T/a.gguf" --force
organ-transplant --base "$VERSE" --donor "$CODE" --type organ --layers 1 --output "$T/b.gguf" --force
check_same "$T/a.gguf" "$T/b.gguf" "base on stdin"
check_error 2 "stdin" "both on stdin" organ-graft --source - --target - --output "$T/q"

# ---- files of the base ---------------------------------------------------------------------
links() {
    # shellcheck disable=SC2012 # a count from ls
    ls -l "$1" | awk '{ print $2 }'
}
inode() {
    # shellcheck disable=SC2012 # the first column of ls -i
    ls -i "$1" | awk '{ print $1 }'
}
kept=organs/blk_0_ffn_up.bin
check "a graft" graft --source "$T/code" --target "$T/verse" --type organ --layers 1
check_text "$(links "$T/g/$kept")" 1 "an unchanged file is copied, not linked"
if [ "$(inode "$T/g/$kept")" != "$(inode "$T/verse/$kept")" ]; then ok; else \
    bad "an unchanged file is the base's own"; fi
printf x | dd of="$T/g/$kept" bs=1 seek=100 conv=notrunc 2> /dev/null
check_same_dir "$T/verse" "$T/verse.was" "editing the graft leaves the base"
check "--link" graft --source "$T/code" --target "$T/verse" --type organ --layers 1 --link
check_text "$(inode "$T/g/$kept")" "$(inode "$T/verse/$kept")" "--link: the base's own file"
check_text "$(links "$T/g/organs/blk_1_ffn_up.bin") $(links "$T/g/manifest.json")" "1 1" "--link: what changed is new"
check_same_dir "$T/verse" "$T/verse.was" "--link leaves the base"
chmod u+w "$T/g" && rm -rf "$T/g"
check_same_dir "$T/verse" "$T/verse.was" "removing the graft leaves the base"

# ---- matching: a donor of other types --------------------------------------------------------
{ organ-assemble "$T/code" --dtype '*ffn*=f16,*=q8_0' --output "$T/code8.gguf" && organ-extract "$T/code8.gguf" \
    --output "$T/code8"; } || bad "re-encode"
organ-assemble "$T/verse" --dtype '*ffn*=f16,*=q8_0' --output "$T/verse8.gguf" || bad "re-encode"
check_error 1 "dtypes differ: base Q4_K, donor F16" "exact" graft --source "$T/code8" --target "$T/verse" --layers 1 \
    --type organ --match exact
check_absent "$T/g" "a mismatch: nothing written"
check "retype" graft --source "$T/code8" --target "$T/verse" --type organ --match retype
check_text "$(dtype "$T/g" blk.1.ffn_up.weight) $(dtype "$T/g" blk.1.attn_q.weight)" "F16 Q4_K" \
    "retype keeps the donor's dtype"
data "$T/g" blk.1.ffn_down.weight > "$T/x"
data "$T/code8.gguf" blk.1.ffn_down.weight > "$T/y"
check_same "$T/x" "$T/y" "retype: the donor's bytes"
check_text "$(key "$T/g" general.file_type) $(key "$T/g" general.quantization_version)" "15 2" \
    "file_type follows the majority"
check "retype: assemble" organ-assemble "$T/g" --output "$T/a.gguf" --force
check "retype all" graft --source "$T/code8" --target "$T/verse" --match retype
check_text "$(key "$T/g" general.file_type)" 7 "file_type: most are Q8_0 now"
check "retype by transplant" organ-transplant --base "$VERSE" --donor "$T/code8.gguf" --match retype \
    --output "$T/b.gguf" --force
organ-assemble "$T/g" --output "$T/a.gguf" --force
check_same "$T/a.gguf" "$T/b.gguf" "retype: graft and transplant"
convert() { # WHAT BASE DONOR TENSOR DTYPE
    check "$1" graft --source "$3" --target "$2" --type organ,skeleton --match convert
    check_text "$(dtype "$T/g" "$4")" "$5" "$1: in the base's dtype"
    check "$1: assemble" organ-assemble "$T/g" --output "$T/a.gguf" --force
    check "$1: transplant" organ-transplant --base "$2" --donor "$3" --type organ,skeleton --match convert \
        --output "$T/b.gguf" --force
    check_same "$T/a.gguf" "$T/b.gguf" "$1: graft and transplant"
    organ-compare "$T/b.gguf" "$3" --tensors "$4" > "$T/out" 2> "$T/err"
    if awk -F '\t' \
        'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i } NR == 2 { seen = $c["cosine"] } END { exit !(seen > 0.99) }' \
        "$T/out"; then ok; else bad "$1: not the donor's values: $(tail -n 1 "$T/out")"; fi
}
convert "Q4_K from F16" "$VERSE" "$T/code8.gguf" blk.1.ffn_up.weight Q4_K
convert "F16 from Q4_K" "$T/verse8.gguf" "$CODE" blk.1.ffn_up.weight F16
convert "Q8_0 from Q6_K" "$T/verse8.gguf" "$CODE" blk.2.attn_v.weight Q8_0
check "convert on one and on many threads" graft --source "$T/code8" --target "$T/verse" --match convert -j 1
mv "$T/g" "$T/g1"
check_error 0 "of another type in the donor: converted to the base's type" "convert is the default, on many threads" \
    graft --source "$T/code8" --target "$T/verse" -j 5
check_same_dir "$T/g" "$T/g1" "the same on any number of threads"
check "--skip-mismatched" graft --source "$T/code8" --target "$T/verse" --layers 1 --match exact --skip-mismatched
check_text "$(grafted)" "blk.1.attn_norm.weight blk.1.ffn_norm.weight " "--skip-mismatched: the norms match"
check_exit 2 "an unknown mode" graft --source "$T/code" --target "$T/verse" --match some

# ---- a model instead of a directory --------------------------------------------------------------
check "a model" organ-graft "$VERSE" "$CODE" --type ffn --layers 1 -o "$T/direct.gguf"
organ-transplant -q "$VERSE" "$CODE" --type ffn --layers 1 -o "$T/by-transplant.gguf"
check_same "$T/direct.gguf" "$T/by-transplant.gguf" "as organ-transplant writes it"
check "an adapter" organ-graft "$VERSE" --adapter "$LAB/lab-lora-code.gguf" -o "$T/direct.gguf" --force
organ-transplant -q "$VERSE" --adapter "$LAB/lab-lora-code.gguf" -o "$T/by-transplant.gguf" --force
check_same "$T/direct.gguf" "$T/by-transplant.gguf" "an adapter, as organ-transplant writes it"
for with in --link "--svg $T/x.svg"; do
    check_error 2 "needs an organ directory" "a model $with" organ-graft "$VERSE" "$CODE" --type ffn $with \
        -o "$T/none.gguf"
    check_absent "$T/none.gguf" "a model $with"
done

# ---- --check ------------------------------------------------------------------------------------
check "same lineage" organ-graft --source "$CODE" --target "$VERSE" --type organ --check
check_text "$(awk -F "$TAB" "$BY_NAME"'col("action") == "replace"' "$T/out" | wc -l |
    tr -d ' ')" 12 "one row per tensor"
check_text "$(head -n 1 "$T/out")" \
    "name${TAB}action${TAB}donor${TAB}base_dtype${TAB}donor_dtype${TAB}bytes${TAB}reason" "header"
if grep -q "lineage: same lineage" "$T/err"; then ok; else bad "no 'same lineage': $(cat "$T/err")"; fi
if grep -q "12 would move, 0 do not match, 0 keys differ" "$T/err"; then ok; else bad "no counts: $(cat "$T/err")"; fi
check_exit 1 "strangers" organ-graft --source "$STRANGER" --target "$VERSE" --type organ --check
if grep -q "lineage: strangers" "$T/err"; then ok; else bad "no 'strangers': $(cat "$T/err")"; fi
check_exit 1 "mismatches" organ-graft --source "$T/code8" --target "$T/verse" --layers 1 --match exact --check --json
check_text "$(grep -c '"action": "mismatch"' "$T/out")" 7 "mismatches in JSON"
check_exit 1 "strangers, transplant" organ-transplant --donor "$STRANGER" --base "$VERSE" --type organ --check
differs() { # TEXT SED: the donor's manifest edited
    rm -rf "$T/odd"
    cp -R "$T/code" "$T/odd"
    sed "$2" "$T/code/manifest.json" > "$T/odd/manifest.json"
    check_exit 1 "$1" organ-graft --source "$T/odd" --target "$T/verse" --type organ --check
    if grep -q "$1" "$T/out" "$T/err"; then ok; else bad "no '$1': $(cat "$T/err")"; fi
}
differs "head_count differs: base 4, donor 8" '/llama.attention.head_count"/s/"value": 4/"value": 8/'
differs "embedding_length differs: base 256, donor 512" '/llama.embedding_length"/s/256/512/'
differs "architecture differs: base llama, donor mistral" \
    '/"general.architecture"/s/"llama"/"mistral"/;s/"architecture": "llama"/"architecture": "mistral"/'
differs "vocabulary differs" '/"tokenizer.ggml.tokens"/s/"<s>"/"<S>"/'
differs "the donor has no blk.3.ffn_up.weight" '/"blk.3.ffn_up.weight"/d'
differs "the donor has no block 3 (no blk.3.ffn_up.weight)" '/"blk.3\./d'
check_exit 1 "--check of a whole command line" organ-graft --source "$T/verse" --target "$T/odd" --type organ \
    --output "$T/unmade" --check
check_absent "$T/unmade" "--check writes nothing"
check_exit 1 "the base lacks a block" organ-graft --source "$T/verse" --target "$T/odd" --type organ --check
check_text "$(grep -c 'the base has no block 3 (use --add to include it)' "$T/out")" 3 "the base lacks a block: which"
differs "norm_rms_epsilon differs" '/layer_norm_rms_epsilon"/s/"value": [^}]*/"value": 0.5/'
check_exit 2 "a blend that cannot be, --check" organ-graft --source "$CODE" --target "$VERSE" --blend linear:7 --check
check_exit 2 "task without its ancestor, --check" organ-graft --source "$CODE" --target "$VERSE" --blend task:1 --check

# ---- data that contradict their manifest ------------------------------------------------------------
rm -rf "$T/odd"
cp -R "$T/code" "$T/odd"
printf zzzz | dd of="$T/odd/organs/blk_1_ffn_up.bin" bs=1 seek=5000 conv=notrunc 2> /dev/null
for how in "--match exact" "--match convert" "--blend linear:0.5"; do
    # shellcheck disable=SC2086
    check_error 3 "blk.1.ffn_up.weight" "a tampered donor, $how" graft --source "$T/odd" --target "$T/verse" \
        --type organ $how
    check_absent "$T/g" "a tampered donor, $how"
    rm -f "$T/c.gguf"
    # shellcheck disable=SC2086
    check_error 3 "sha256" "a tampered donor, transplant $how" organ-transplant --donor "$T/odd" --base "$VERSE" \
        --type organ $how --output "$T/c.gguf"
    check_absent "$T/c.gguf" "a tampered donor, transplant $how"
done
check "another block of it" graft --source "$T/odd" --target "$T/verse" --type organ --layers 2
check_error 3 "sha256" "a tampered base, transplant" organ-transplant --base "$T/odd" --donor "$VERSE" --layers 3 \
    --output "$T/c.gguf"
check "a tampered base" graft --source "$VERSE" --target "$T/odd" --layers 3
check_error 3 "sha256" "a tampered base: its manifest still tells" organ-assemble "$T/g" --output "$T/c.gguf"
cp "$VERSE" "$T/m.gguf"
check_error 3 "sha256" "a tampered donor, in place" organ-transplant --base "$T/m.gguf" --donor "$T/odd" --type organ \
    --in-place --undo "$T/undo"
check_absent "$T/undo" "a tampered donor, in place: nothing to undo"
check_same "$T/m.gguf" "$VERSE" "a tampered donor, in place: undone"

# ---- tensors that only the donor has; keys --------------------------------------------------------
mkmodel "$T/two.gguf" blk.0.ffn_up.weight:F32:64x32 blk.0.ffn_up.bias:F32:32 blk.0.extra.weight:F16:64x2
mkmodel "$T/one.gguf" -s 3 -k llama.context_length=77 blk.0.ffn_up.weight:F32:64x32
check_error 1 "the base does not have this tensor" "without --add" graft --source "$T/two.gguf" --target "$T/one.gguf"
check "--add" graft --source "$T/two.gguf" --target "$T/one.gguf" --add
check_text "$(organ-extract "$T/g" --list | awk "$BY_NAME"'NR > 1 { print col("name") }' | tr '\n' ' ')" \
    "blk.0.ffn_up.weight blk.0.ffn_up.bias blk.0.extra.weight " "--add: at the end"
check "--add: assemble" organ-assemble "$T/g" --output "$T/a.gguf" --force
check "keys" organ-transplant --base "$T/two.gguf" --donor "$T/one.gguf" --tensors '*up.weight' --copy-kv 'llama.*' \
    --set-kv 'my.list=u16[]:1,2' --set-kv general.name= --output "$T/b.gguf" --force
organ-extract "$T/b.gguf" --output "$T/keys" 2> /dev/null
check_text "$(key "$T/keys" llama.context_length) $(key "$T/keys" my.list) $(key "$T/keys" general.name)" \
    "77 [1, 2] " "keys copied, set and deleted"
check_exit 2 "a value that is not of its type" organ-transplant --base "$T/two.gguf" --donor "$T/one.gguf" \
    --tensors '*up.weight' --set-kv 'my.list=u32:abc' --output "$T/c.gguf"
check_absent "$T/c.gguf" "a value that is not of its type"

# ---- a tensor that scales another moves with it -------------------------------------------------------
mkmodel "$T/sa.gguf" -s 1 blk.0.ffn_up.weight:NVFP4:64x32 blk.0.ffn_up.scale:F32:1 blk.0.ffn_down.weight:F16:64x32
mkmodel "$T/sb.gguf" -s 2 blk.0.ffn_up.weight:NVFP4:64x32 blk.0.ffn_up.scale:F32:1 blk.0.ffn_down.weight:F16:64x32
mkmodel "$T/plain.gguf" -s 3 blk.0.ffn_up.weight:F16:64x32 blk.0.ffn_down.weight:F16:64x32
check "both move" graft --source "$T/sb.gguf" --target "$T/sa.gguf" --tensors '*ffn_up*'
check_text "$(grafted)" "blk.0.ffn_up.weight blk.0.ffn_up.scale " "both move"
check_error 1 "blk.0.ffn_up.scale must move with it" "the weight alone" graft --source "$T/sb.gguf" \
    --target "$T/sa.gguf" --tensors '*ffn_up.weight'
check_error 1 "blk.0.ffn_up.scale would scale them" "a base that scales" graft --source "$T/plain.gguf" \
    --target "$T/sa.gguf" --tensors '*.weight' --match convert
check_error 1 "needs the donor's blk.0.ffn_up.scale" "a donor that scales" graft --source "$T/sa.gguf" \
    --target "$T/plain.gguf" --tensors '*.weight' --match convert
check_error 1 "blended" "scaled values blended" graft --source "$T/sb.gguf" --target "$T/sa.gguf" --blend linear:0.5
check "the others are skipped no more" graft --source "$T/sa.gguf" --target "$T/plain.gguf" --match retype \
    --skip-mismatched
check_text "$(grafted)" "blk.0.ffn_down.weight " "a donor that scales, skipped"
check "--add takes it along" graft --source "$T/sa.gguf" --target "$T/plain.gguf" --match retype --add
check_text "$(grafted)" "blk.0.ffn_up.weight blk.0.ffn_down.weight blk.0.ffn_up.scale " "--add takes it along"
cp "$T/sa.gguf" "$T/i.gguf"
rm -f "$T/undo"
check "in place" organ-transplant --base "$T/i.gguf" --donor "$T/sb.gguf" --tensors '*ffn_up*' \
    --in-place --undo "$T/undo"
check "and back" organ-transplant --base "$T/i.gguf" --donor "$T/undo" --in-place
check_same "$T/i.gguf" "$T/sa.gguf" "in place and back"

# ---- experts ----------------------------------------------------------------------------------------
moe() { # OUT SEED
    mkmodel "$1" -s "$2" -k llama.expert_count=4 -k llama.expert_used_count=2 blk.0.ffn_gate_inp.weight:F32:64x4 \
        blk.0.ffn_gate_inp.bias:F32:4 blk.0.exp_probs_b.bias:F32:4 \
        blk.0.ffn_gate_exps.weight:Q8_0:64x32x4 blk.0.ffn_up_exps.weight:Q4_0:64x32x4 \
        blk.0.ffn_down_exps.weight:F16:32x64x4 blk.0.attn_q.weight:F16:64x64
}
moe "$T/m1.gguf" 1
moe "$T/m2.gguf" 2
slices() { # WHAT FILE TENSOR BYTES: experts 1 and 3 of it are m2's, 0 and 2 m1's
    for e in 0 1 2 3; do
        from=$T/m1.gguf
        case $e in 1 | 3) from=$T/m2.gguf ;; esac
        data "$from" "$3" | tail -c +$((e * $4 + 1)) | head -c "$4"
    done > "$T/want"
    data "$2" "$3" > "$T/got"
    check_same "$T/got" "$T/want" "$1: $3"
}
check "--experts" graft --source "$T/m2.gguf" --target "$T/m1.gguf" --experts 1,3
slices "experts" "$T/g" blk.0.ffn_gate_exps.weight 2176
slices "experts" "$T/g" blk.0.ffn_up_exps.weight 1152
slices "experts" "$T/g" blk.0.ffn_down_exps.weight 4096
data "$T/g" blk.0.ffn_gate_inp.weight > "$T/x"
data "$T/m1.gguf" blk.0.ffn_gate_inp.weight > "$T/y"
check_same "$T/x" "$T/y" "without --router the router stays"
check_text "$(grep -c '"how": "experts", "experts": \[1, 3\]}' "$T/g/manifest.json")" 3 "history says which experts"
check "--experts --router" graft --source "$T/m2.gguf" --target "$T/m1.gguf" --experts 1,3 --router
slices "router" "$T/g" blk.0.ffn_gate_exps.weight 2176
slices "router" "$T/g" blk.0.ffn_gate_inp.weight 256
slices "router" "$T/g" blk.0.ffn_gate_inp.bias 4
slices "router" "$T/g" blk.0.exp_probs_b.bias 4
check "experts: assemble" organ-assemble "$T/g" --output "$T/stacked.gguf" --force
{ organ-extract "$T/m1.gguf" --split-experts --output "$T/s1" && organ-extract "$T/m2.gguf" \
    --split-experts --output "$T/s2"; } || bad "split"
check "split into split" graft --source "$T/s2" --target "$T/s1" --experts 1,3 --router
check_text "$(grep -c '"op": "graft"' "$T/g/manifest.json")" 9 \
    "six experts and the router, its bias and its corrections"
check "split: assemble" organ-assemble "$T/g" --output "$T/a.gguf" --force
check_same "$T/a.gguf" "$T/stacked.gguf" "split directories give the same model"
check_error 1 "in the stack blk.0.ffn_gate_exps.weight: split its experts (organ-extract --split-experts)" \
    "stacks into experts" graft --source "$T/m2.gguf" --target "$T/s1" --experts 1
check_error 1 "the donor has single experts, but the base has stacks" "experts into stacks" graft --source "$T/s2" \
    --target "$T/m1.gguf" --type organ
# Experts of another dtype and of a taller stack, and blends of experts: as the whole
# stack converted or blended would have them, and the others stay.
mkmodel "$T/m3.gguf" -s 3 blk.0.ffn_gate_inp.weight:F16:64x4 blk.0.ffn_gate_inp.bias:F32:4 \
    blk.0.exp_probs_b.bias:F32:4 \
    blk.0.ffn_gate_exps.weight:F16:64x32x4 blk.0.ffn_up_exps.weight:Q8_0:64x32x4 \
    blk.0.ffn_down_exps.weight:F32:32x64x4 blk.0.attn_q.weight:F16:64x64
cp "$T/m2.gguf" "$T/m2.was"
as_whole() { # WHAT ARGUMENT...: experts 1 and 3 of this are those of all of it
    name=$1
    shift
    organ-transplant --base "$T/m1.gguf" --donor "$T/m3.gguf" --type organ --output "$T/m2.gguf" --force "$@" \
        || bad "$name: whole"
    check "$name" graft --source "$T/m3.gguf" --target "$T/m1.gguf" --experts 1,3 --router "$@"
    slices "$name" "$T/g" blk.0.ffn_gate_exps.weight 2176
    slices "$name" "$T/g" blk.0.ffn_up_exps.weight 1152
    slices "$name" "$T/g" blk.0.ffn_down_exps.weight 4096
    slices "$name" "$T/g" blk.0.ffn_gate_inp.weight 256
    slices "$name" "$T/g" blk.0.ffn_gate_inp.bias 4
    check "$name: transplant" organ-transplant --base "$T/m1.gguf" --donor "$T/m3.gguf" --experts 1,3 \
        --output "$T/b.gguf" --force "$@"
    slices "$name, transplant" "$T/b.gguf" blk.0.ffn_gate_exps.weight 2176
    cp "$T/m1.gguf" "$T/i.gguf"
    rm -f "$T/undo"
    check "$name: in place" organ-transplant --base "$T/i.gguf" --donor "$T/m3.gguf" --experts 1,3 \
        --in-place --undo "$T/undo" "$@"
    check_same "$T/i.gguf" "$T/b.gguf" "$name: in place"
}
as_whole "experts converted" --match convert
as_whole "experts blended" --blend linear:0.25
as_whole "experts by task" --blend task:0.5 --ancestor "$T/m2.was"
check "experts, slerp" graft --source "$T/m3.gguf" --target "$T/m1.gguf" --experts 1,3 --blend slerp:0.5 -j 1
rm -rf "$T/g1"
mv "$T/g" "$T/g1"
check "experts, slerp, threads" graft --source "$T/m3.gguf" --target "$T/m1.gguf" --experts 1,3 --blend slerp:0.5 -j 5
check_same_dir "$T/g" "$T/g1" "experts, slerp, threads"
mv "$T/m2.was" "$T/m2.gguf"
for how in exact retype; do
    check_error 1 "dtypes differ: base Q8_0, donor F16 (--match convert)" "experts of another dtype, $how" graft \
        --source "$T/m3.gguf" --target "$T/m1.gguf" --experts 1,3 --match $how
done
rm -f "$T/c.gguf"
# If only a part of a tensor moves, its hash is still verified as a whole.
{ organ-extract "$T/m2.gguf" --output "$T/e2" && organ-extract "$T/m1.gguf" --output "$T/e1"; } || bad "extract"
for odd in e1 e2; do
    rm -rf "$T/odd"
    cp -R "$T/$odd" "$T/odd"
    printf zzzz | dd of="$T/odd/organs/blk_0_ffn_gate_exps.bin" bs=1 seek=3000 conv=notrunc 2> /dev/null
    from=$T/e2 to=$T/e1
    if [ $odd = e1 ]; then to=$T/odd; else from=$T/odd; fi
    for how in "--match exact" "--blend linear:0.5"; do
        # shellcheck disable=SC2086
        check_error 3 "blk.0.ffn_gate_exps.weight" "experts of a tampered directory: $odd, $how" graft \
            --source "$from" --target "$to" --experts 1 $how
        check_absent "$T/g" "experts of a tampered directory"
        # shellcheck disable=SC2086
        check_error 3 "sha256" "experts of a tampered directory, transplant: $odd, $how" organ-transplant \
            --donor "$from" --base "$to" --experts 1 --output "$T/c.gguf" $how
    done
done
check "experts of sound directories" graft --source "$T/e2" --target "$T/e1" --experts 1
check "experts of sound directories: assemble" organ-assemble "$T/g" --output "$T/a.gguf" --force
check "experts of models" organ-transplant --donor "$T/m2.gguf" --base "$T/m1.gguf" --experts 1 --output "$T/b.gguf" \
    --force
check_same "$T/a.gguf" "$T/b.gguf" "experts of directories and of models"
for side in "--base $T/s1 --donor $T/m2.gguf" "--base $T/m1.gguf --donor $T/s2 --add"; do
    # shellcheck disable=SC2086
    check_error 2 "assemble it first" "a transplant of experts taken apart: $side" organ-transplant $side \
        --output "$T/c.gguf"
    check_absent "$T/c.gguf" "a transplant of experts taken apart"
done
check_error 1 "expert 9 is not in the model" "an expert that is not there" graft --source "$T/m2.gguf" \
    --target "$T/m1.gguf" --experts 9
check_exit 2 "--router without --experts" graft --source "$T/m2.gguf" --target "$T/m1.gguf" --router

# A donor's path and tensor are kept as they are, UTF-8 or not.
odd="$T/caf$(printf '\351').gguf"
cp $LAB/lab-code-q4_k_m.gguf "$odd"
check "a donor whose path is not UTF-8" organ-graft --source "$odd" --target $LAB/lab-verse-q4_k_m.gguf \
    --tensors blk.0.ffn_up.weight --output "$T/latin"
check "its history" grep -q '"op": "graft", "from": {"base64": "[A-Za-z0-9+/=]*"}, "tensor": "blk.0.ffn_up.weight"' \
    "$T/latin/manifest.json"
check "and it assembles" organ-assemble "$T/latin" --output "$T/latin.gguf"
check "an adapter, too" sh -c "cp $LAB/lab-lora-code.gguf '$odd' && organ-graft --adapter '$odd' \
    --target $LAB/lab-base-q4_k_m.gguf --output '$T/latin2'"
finish
