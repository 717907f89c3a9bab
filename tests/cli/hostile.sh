#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC2046
# hostile.sh - files and folders made to do harm: counts that wrap, links and devices in
# odd places, outputs that are inputs, and lists made to take quadratic time.
. "$(dirname "$0")/lib.sh"
unrecorded organ-transplant organ-graft
VERSE=$LAB/lab-verse-q4_k_m.gguf
CODE=$LAB/lab-code-q4_k_m.gguf
organ-extract -q $VERSE --output "$T/d" || exit 1
N=$(organ-extract -q "$T/d" --list | tail -n +2 | wc -l | tr -d ' ')

# layout TEXT: a copy of $T/d as $T/h, its manifest with a layout of that text
layout() {
    rm -rf "$T/h"
    cp -R "$T/d" "$T/h"
    awk -v text="$1" '/^  "layout"/ { skip = 1 } skip { if (/^  },/) skip = 0; next }
        /^  "tensors": \[/ { print "  \"layout\": " text "," } { print }' "$T/d/manifest.json" > "$T/h/manifest.json"
}

# ---- counts of a layout ---------------------------------------------------------------
two_files() { layout "{\"files\": [{\"file\": \"a\", \"tensors\": $1}, {\"file\": \"b\", \"tensors\": $2}]}"; }
two_files $((N + 5000)) 18446744073709546616
check "tensor counts whose sum wraps" organ-assemble "$T/h" --output "$T/w.gguf" --shards 2
check_text "$(find "$T" -name 'w-0000*' | wc -l | tr -d ' ')" 2 "tensor counts whose sum wraps: two shards of its own"
two_files $((N + 1)) 18446744073709551615
check "a count of all ones" organ-assemble "$T/h" --output "$T/w.gguf" --shards 2 --force

# ---- what --force must not replace ----------------------------------------------------
mkdir "$T/folder" "$T/folder/d.gguf"
check_error 2 "a folder" "--force: a folder for a file" organ-assemble "$T/d" --output "$T/folder" --force
if mknod "$T/null" c 1 3 2> /dev/null; then
    check_error 2 "not a regular file" "--force: a device" organ-assemble "$T/d" --output "$T/null" --force
    ln -s null "$T/link"
    check_error 2 "not a regular file" "--force: a link to a device" organ-assemble "$T/d" --output "$T/link" --force
    if [ -c "$T/null" ] && [ -L "$T/link" ]; then ok; else bad "--force replaced a device or a link to it"; fi
fi
mkdir "$T/web"
echo '{"name": "an app", "short_name": "app"}' > "$T/web/manifest.json"
echo precious > "$T/web/index.html"
check_error 2 "not an organ directory" "--force: a web application has a manifest.json too" organ-extract $VERSE \
    --output "$T/web" --force
check_text "$(cat "$T/web/index.html")" precious "--force: the web application is untouched"
cp -R "$T/d" "$T/mixed"
cp $CODE "$T/mixed/model.gguf"
check_error 2 "other files" "--force: the model is in the folder to be replaced" organ-extract "$T/mixed/model.gguf" \
    --output "$T/mixed" --force
check_same "$T/mixed/model.gguf" $CODE "--force: the model is still there"
mv "$T/mixed/model.gguf" "$T/mixed/organs"
check_error 2 "other files" "--force: the model is deeper in the folder" organ-extract "$T/mixed/organs/model.gguf" \
    --output "$T/mixed" --force
rm "$T/mixed/organs/model.gguf"
echo left > "$T/mixed/.manifest.json.123-0.tmp"
check "--force: ignores what a killed tool left" organ-extract $CODE --output "$T/mixed" --force

# ---- an undo stream under the name of what is read or changed ----------------------------
cp $VERSE "$T/base.gguf"
cp $CODE "$T/donor.gguf"
organ-extract $CODE --type organ --output - > "$T/donor.bin"
cp "$T/donor.bin" "$T/donor.copy"
ln "$T/base.gguf" "$T/base.link"
for undo in base.gguf base.link donor.gguf; do
    check_error 2 "also an input" "--undo $undo" organ-transplant --base "$T/base.gguf" \
        --donor "$T/donor.gguf" --type organ --in-place --undo "$T/$undo" --force
done
check_error 2 "also an input" "--undo is the donor's records" organ-transplant \
    --base "$T/base.gguf" --donor "$T/donor.bin" --in-place --undo "$T/donor.bin" --force
check_same "$T/base.gguf" $VERSE "--undo refused: the base is as it was"
check_same "$T/donor.gguf" $CODE "--undo refused: the donor is as it was"
check_same "$T/donor.bin" "$T/donor.copy" "--undo refused: the records are as they were"
echo precious > "$T/undo"
check_error 2 "exists" "--undo exists" organ-transplant --base "$T/base.gguf" --donor "$T/donor.gguf" \
    --type organ --in-place --undo "$T/undo"
check_same "$T/base.gguf" $VERSE "--undo exists: the base is as it was"

# ---- bytes after a model: of another size, a pipe, a link ---------------------------------
quick() { # WHAT SECONDS COMMAND...: done in that much CPU time, whatever the command reports
    what=$1 most=$2
    shift 2
    limited "$most" "$@" > "$T/out" 2> "$T/err"
    got=$?
    if [ $got -gt 123 ]; then bad "$what: not done in $most s of CPU time"; else ok; fi
}
SLOW=${SANITIZED:+10} SLOW=${SLOW:-1} # sanitizers take their time
trailing() {
    layout "{\"files\": [{\"file\": \"a\", \"tensors\": $N, \"trailing\": {\"file\": \"t.raw\", \"bytes\": $1}}]}"
}
trailing 274877906944
echo abc > "$T/h/t.raw"
check_error 3 "t.raw" "trailing bytes that are not there" organ-assemble "$T/h" --output "$T/t.gguf"
trailing 18446744073709551615
echo abc > "$T/h/t.raw"
check_error 3 "t.raw" "trailing bytes beyond counting" organ-assemble "$T/h" --output "$T/t.gguf"
trailing 4
check_error 3 "t.raw" "no trailing bytes" organ-assemble "$T/h" --output "$T/t.gguf"
ln -s "$T/base.link" "$T/h/t.raw"
check_error 3 "t.raw" "trailing bytes through a link" organ-assemble "$T/h" --output "$T/t.gguf"
rm "$T/h/t.raw"
mkdir "$T/elsewhere"
echo key > "$T/elsewhere/t.raw"
layout "{\"files\": [{\"file\": \"a\", \"tensors\": $N, \"trailing\": {\"file\": \"l/t.raw\", \"bytes\": 4}}]}"
ln -s "$T/elsewhere" "$T/h/l"
check_error 3 "l/t.raw" "trailing bytes through a linked folder" organ-assemble "$T/h" --output "$T/t.gguf"
check_absent "$T/t.gguf" "trailing bytes through a linked folder"
trailing 4
mkfifo "$T/h/t.raw"
quick "trailing bytes from a named pipe" $((5 * SLOW)) organ-assemble "$T/h" --output "$T/t.gguf"
quick "trailing bytes from a named pipe, grafted" $((5 * SLOW)) organ-graft --source "$T/d" \
    --target "$T/h" --type organ --output "$T/t.d"
trailing 4
echo abc > "$T/h/t.raw"
check "trailing bytes" organ-assemble "$T/h" --output "$T/t.gguf"
check_text "$(tail -c 4 "$T/t.gguf")" abc "trailing bytes"
check_absent "$T/t.d" "trailing bytes"

# ---- an alignment that makes gigabytes of zeros ----------------------------------------------
quick "alignment of 2^30" $((5 * SLOW)) organ-assemble "$T/d" --output "$T/a.gguf" \
    --set-kv general.alignment=u32:1073741824
check_error 3 "alignment" "alignment of 2^30" organ-assemble "$T/d" --output "$T/a.gguf" \
    --set-kv general.alignment=u32:1073741824
check_error 3 "alignment" "alignment of 2^30, transplant" organ-transplant --base $VERSE \
    --donor $CODE --type norm --output "$T/a.gguf" --set-kv general.alignment=u32:1073741824
check_absent "$T/a.gguf" "alignment of 2^30"

# ---- long strings are printed and written in pieces ------------------------------------------
# shellcheck disable=SC3045
in_88m() { ([ -n "${SANITIZED:-}" ] || ulimit -v 90112 2> /dev/null; exec "$@"); }
head -c 16777216 /dev/zero | tr '\000' '\001' > "$T/ones"
organ-keys -q $VERSE --set-file long=$T/ones --output "$T/long.gguf"
check_text "$(in_88m organ-keys "$T/long.gguf" long | wc -c | tr -d ' ')" 67108897 "organ-keys"
if exhaustive; then
    check_text "$(in_88m organ-keys "$T/long.gguf" --json long | wc -c | tr -d ' ')" 100663352 "organ-keys --json"
fi
check "extract a long string" in_88m organ-extract -q -j 1 "$T/long.gguf" --type norm --output "$T/long"
check_text "$(sed -n '/"key": "long"/p' "$T/long/manifest.json" | wc -c | tr -d ' ')" 100663344 \
    "all of it is in the manifest"
# A header, or a manifest, is in memory at most twice: as it was read, and as it is written.
in_twice() { # KEY: of a string of 16 MiB
    head -c 16777216 /dev/zero | tr '\000' a > "$T/ones"
    organ-keys -q $VERSE --set-file "$1=$T/ones" --set z.z=str:a -o "$T/long.gguf" --force
    rm -rf "$T/l.d" && organ-extract -q "$T/long.gguf" --type norm -o "$T/l.d"
    copies=1
    [ "$1" = long ] || copies=3 # in the manifest
    while read -r line; do
        exhaustive || case $line in assemble\ -q\ $T/long* | *in-place | extract*l.d*) ;; *) continue ;; esac
        rm -rf "$T/copy" && cp "$T/long.gguf" "$T/u.gguf"
        bound=$((2 * 16384 + 10240))
        case $line in *l.d*) bound=$((2 * copies * 16384 + 10240)) ;; esac
        peak=$(cost organ-$line 2> "$T/err" | tail -n 1 | cut -d ' ' -f 3)
        [ "${peak:-999999}" -le $bound ] && [ ! -s "$T/err" ] && ok ||
            bad "16 MiB in $1, organ-$line: $peak KiB at the peak, $bound allowed: $(head -n 1 "$T/err")"
    done << END
assemble -q $T/long.gguf -o $T/copy
keys -q $T/long.gguf --set a.b=u32:1 -o $T/copy
keys -q $T/u.gguf --set z.z=str:b --in-place
transplant -q $T/long.gguf $CODE --type norm -o $T/copy
transplant -q $T/u.gguf $CODE --type norm --in-place --no-undo
merge -q $T/long.gguf $CODE --method linear -o $T/copy --no-hash --card $T/copy.md --force
stack -q $T/long.gguf 1,0 -o $T/copy
purify -q $T/long.gguf -o $T/copy --tensors blk.0.attn_q.weight
extract -q $T/long.gguf --type norm -o $T/copy
extract -q $T/l.d -o $T/copy
assemble -q $T/l.d -o $T/copy
END
}
if [ -z "${SANITIZED:-}" ]; then
    if exhaustive; then in_twice general.name; fi
    in_twice long
fi
organ-keys -q "$T/long.gguf" --set a.b=u32:1 -o "$T/copy.gguf" --force
organ-keys -q "$T/copy.gguf" --delete a.b -o "$T/copy2.gguf"
organ-assemble -q "$T/long.gguf" -o - > "$T/copy.gguf"
check_same "$T/copy.gguf" "$T/long.gguf" "a long string to a pipe"
check_same "$T/copy2.gguf" "$T/long.gguf" "a long string to a file"
rm -rf "$T/long" "$T/long.gguf" "$T/ones" "$T/copy.gguf" "$T/copy2.gguf"

# ---- headers without end, and of models larger than memory -----------------------------------
# shellcheck disable=SC3045
in_1g() { ([ -n "${SANITIZED:-}" ] || ulimit -v 1048576 2> /dev/null; exec "$@"); } # sanitizers need more
ONE='\001\0\0\0\0\0\0\0' TWO='\002\0\0\0\0\0\0\0' MANY='\0\0\0\001\0\0\0\0' # 2^24
head_of() { # TENSORS KEYS BYTES: a header with those counts, one key, and what follows
    printf "GGUF\\003\\0\\0\\0$1$2\\024\\0\\0\\0\\0\\0\\0\\0general.architecture"
    printf "\\010\\0\\0\\0\\005\\0\\0\\0\\0\\0\\0\\0llama$3"
}
# Arrays without their length.
U8S='\001\0\0\0\0\0\0\0a\011\0\0\0\0\0\0\0' U32S='\001\0\0\0\0\0\0\0a\011\0\0\0\004\0\0\0'
TENSOR='\001\0\0\0\0\0\0\0t\002\0\0\0\0\0\001\0\0\0\0\0\0\0\001\0\0\0\0\0\030\0\0\0\0\0\0\0\0\0\0\0' # I8, 65536x65536
head_of $ONE $ONE "$TENSOR" > "$T/4g.gguf"
head_of $ONE $TWO "$U32S\\0\\0\\0\\100\\0\\0\\0\\0" > "$T/wide.gguf"
head_of $MANY $ONE '' > "$T/hole.gguf"
cp "$T/wide.gguf" "$T/cut.gguf"
if dd if=/dev/null of="$T/4g.gguf" bs=1048576 seek=4097 2> /dev/null; then
    dd if=/dev/null of="$T/wide.gguf" bs=1048576 seek=4097 2> /dev/null
    dd if=/dev/null of="$T/hole.gguf" bs=1048576 seek=4097 2> /dev/null
    check "a model of 4 GiB in less" in_1g organ-extract "$T/4g.gguf" --list
    check_error 3 "the header exceeds" "a header of 4 GiB" in_1g organ-extract "$T/wide.gguf" --list
    check_error 3 "the maximum is 2^22" "tensors that are a hole" in_1g organ-extract "$T/hole.gguf" --list
fi
check_error 3 "4294967296 bytes needed, 0 left" "a claim of 4 GiB" organ-extract "$T/cut.gguf" --list
head -c 20000 "$LAB/lab-verse-q4_k_m.gguf" > "$T/part.gguf"
check_error 3 "it has 20000 of at least 22254 bytes" "a download cut within the header" organ-extract \
    "$T/part.gguf" --list
check_error 3 "it has 20000 of at least 22254 bytes" "a pipe cut within the header" \
    sh -c 'organ-extract - --list < "$1"' sh "$T/part.gguf"
i=0
while [ $i -lt 2000 ]; do
    printf '\006\0\0\0\0\0\0\0%06d\004\0\0\0\007\0\0\0' $i
    i=$((i + 1))
done > "$T/keys"
endless() { # HEADER COMMAND...: the command, fed keys of u32 without end
    head=$1
    shift
    { cat "$head"; while cat "$T/keys" 2> /dev/null; do :; done; } | in_1g "$@"
}
head_of $ONE '\0\0\0\0\0\001\0\0' '' > "$T/keys.head"
check_error 3 "the maximum is 2^22" "keys without end, measured" endless "$T/keys.head" organ-measure -
check_error 3 "the maximum is 2^22" "keys without end, listed" endless "$T/keys.head" organ-extract - --list
check_error 3 "the header exceeds" "an array without end" endless "$T/cut.gguf" organ-measure -

# The header is in memory once. 64 MiB of it are an array of u8.
if [ -z "${SANITIZED:-}" ]; then
    { head_of $ONE $TWO "$U8S\\0\\0\\0\\004\\0\\0\\0\\0"; head -c 67108864 /dev/zero
        printf '\0\0\0\0\0\0\0\0\0\0\0\0\030\0\0\0\0\0\0\0\0\0\0\0'; head -c 64 /dev/zero; } > "$T/64m.gguf"
    for way in "$T/64m.gguf" -; do
        peak=$(cost organ-extract -q --list $way < "$T/64m.gguf" | cut -d ' ' -f 3)
        if [ "${peak:-0}" -gt 65536 ] && [ "$peak" -le 81920 ]; then ok
        else bad "a header of 64 MiB, $way: $peak KiB at the peak, 81920 allowed"; fi
    done
fi

# ---- a map of as many blocks as tensors -------------------------------------------------------
mkmodel "$T/deep.gguf" -n 100000 blk.%.w:I8:1
quick "a map of 100000 blocks" $((3 * SLOW)) organ-compare "$T/deep.gguf" "$T/deep.gguf" \
    --map 0-99999=0-99999 --summary

# ---- names that come twice ---------------------------------------------------------------------
UP=$T/d/organs/blk_0_ffn_up.bin
cat "$UP" "$UP" > "$T/twice.bin"
check_error 3 "blk.0.ffn_up.weight" "a stream with a tensor twice" \
    sh -c "cat '$T/twice.bin' | organ-extract - --output '$T/twice'"
check_error 3 "blk.0.ffn_up.weight" "records with a tensor twice" organ-extract "$T/twice.bin" --output "$T/twice"
mkmodel "$T/moe.gguf" blk.0.ffn_up_exps.weight:F32:4x4x2 blk.0.ffn_up.1.weight:F32:4x4
check_error 3 "blk.0.ffn_up.1.weight" "an expert and a tensor of its name" organ-extract "$T/moe.gguf" \
    --split-experts --output "$T/twice"
check_absent "$T/twice" "names that come twice"

# ---- lists made to take quadratic time -----------------------------------------------------------
LOTS=$((12 * SLOW)) # the quadratic ways took 20 s and more on an idle machine
if exhaustive; then
    mkmodel "$T/pads.gguf" -p 85 -n 100000 t%:I8:4
    quick "padding of 100000 tensors" $LOTS organ-transplant --base "$T/pads.gguf" \
        --donor "$T/pads.gguf" --tensors 't99*' --output "$T/p.gguf"
    check_same "$T/p.gguf" "$T/pads.gguf" "padding of 100000 tensors"
fi
if exhaustive; then
    mkmodel "$T/blk.gguf" -n 100000 blk.77.x%.weight:I8:4
    quick "100000 tensors of a block that no map names" $LOTS organ-transplant --base "$T/blk.gguf" \
        --donor "$T/blk.gguf" --map 0=1 --check
    quick "a table and a picture of 100000 roles" $LOTS organ-measure --summary --svg "$T/roles.svg" "$T/blk.gguf"
fi
cp -R "$T/d" "$T/keys.d"
awk '{ print } /^  "metadata": \[/ {
    for (i = 0; i < 100000; i++) printf "    {\"key\": \"zz.%06d\", \"type\": \"u32\", \"value\": %d},\n", i, i }' \
    "$T/d/manifest.json" > "$T/keys.d/manifest.json"
quick "100000 keys" $LOTS organ-assemble "$T/keys.d" --output "$T/keys.gguf"
if exhaustive; then
    quick "100000 keys copied" $LOTS organ-transplant --base $VERSE --donor "$T/keys.d" \
        --type norm --copy-kv 'zz.*' --output "$T/keys2.gguf"
    quick "100000 keys replaced" $LOTS organ-transplant --base "$T/keys.gguf" --donor "$T/keys.gguf" \
        --type norm --copy-kv '*' --output "$T/keys3.gguf"
    check_same "$T/keys3.gguf" "$T/keys.gguf" "100000 keys replaced"
fi
mkmodel "$T/moe.gguf" -k llama.expert_count=8 -n 2 blk.%.ffn_up_exps.weight:F32:4x4x8 blk.%.ffn_gate_inp.weight:F32:4x8
organ-extract -q "$T/moe.gguf" --split-experts --output "$T/moe.d"
awk '/^    "stacked": \[/ { print
        for (i = 9; i < 100009; i++)
            printf "      {\"name\": \"blk.%d.ffn_up_exps.weight\", \"dims\": [4, 4, 8], \"dtype\": \"F32\"},\n", i
        next } { print }' "$T/moe.d/manifest.json" > "$T/moe.json"
cp "$T/moe.json" "$T/moe.d/manifest.json"
quick "100000 stacks without experts" $LOTS organ-assemble "$T/moe.d" --output "$T/moe2.gguf"
check_same "$T/moe2.gguf" "$T/moe.gguf" "100000 stacks without experts"
if exhaustive; then
    grep -v 'ffn_up\.3\.weight"' "$T/moe.json" > "$T/moe.d/manifest.json"
    quick "100000 stacks, one expert less" $LOTS organ-assemble "$T/moe.d" --output "$T/moe3.gguf"
    check_text "$(organ-extract -q "$T/moe3.gguf" --list | grep -c 4x4x7)" 2 "100000 stacks, one expert less"
fi

# ---- a few bytes that claim a multitude of experts
mkmodel "$T/empty.gguf" -n 20 'blk.%.ffn_up_exps.weight:F32:0x65536'
check "experts without bytes" sh -c "organ-extract '$T/empty.gguf' --split-experts --list | \
    awk 'END { exit NR != 21 }'"
mkmodel "$T/many.gguf" -n 100 'blk.%.ffn_up_exps.weight:I8:1x65536'
check "one expert of each of many stacks" sh -c "cost organ-transplant --base '$T/many.gguf' \
    --donor '$T/many.gguf' --experts 7 \
    --output '$T/many2.gguf' | awk '{ print; exit \$3 > 65536 }'" # KiB; a part an expert took 260 MB
check_same "$T/many.gguf" "$T/many2.gguf" "one expert of each of many stacks"

LONG=$(printf '%0231d' 0) # with 10001 experts the last ones' names are longer than a record's
{
    printf "\\377\\0\\0\\0blk.0.ffn_up${LONG}_exps.weight\\002\\0\\0\\0"
    printf '\001\0\0\0\0\0\0\0\021\047\0\0\0\0\0\0\030\0\0\0'
    head -c 10001 /dev/zero
} > "$T/long.bin"
check "a stack of which not all experts can have a name" \
    sh -c "organ-extract '$T/long.bin' --split-experts --list | awk 'END { print NR; exit NR != 2 }'"
organ-extract -q "$T/long.bin" --split-experts --output - > "$T/long2.bin"
check_same "$T/long2.bin" "$T/long.bin" "the same, as a stream"

# ---- control bytes in notes
mkmodel "$T/esc0.gguf" a.weight:F32:4
organ-transplant --base "$T/esc0.gguf" --donor "$T/esc0.gguf" \
    --set-kv "general.architecture=str:x$(printf '\033')[31m" \
    --set-kv "x$(printf '\033')[31m.embedding_length=u32:4" --output "$T/esc1.gguf"
organ-transplant --base "$T/esc1.gguf" --donor "$T/esc1.gguf" --set-kv "x$(printf '\033')[31m.embedding_length=u32:5" \
    --output "$T/esc2.gguf"
check "keys that differ" sh -c "organ-transplant --base '$T/esc1.gguf' --donor '$T/esc2.gguf' \
    --check 2>&1 > '$T/table' |
    grep -qF 'x\x1b[31m.embedding_length'"

# ---- experts that share a block, organs that are links -----------------------------------------------
mkmodel "$T/r1.gguf" blk.0.ffn_up_exps.weight:F32:4x4x32 blk.0.exp_probs_b.bias:Q8_0:32
mkmodel "$T/r2.gguf" -s 5 blk.0.ffn_up_exps.weight:F32:4x4x32 blk.0.exp_probs_b.bias:Q8_0:32
check_error 1 "share blocks" "a router's bias of which experts share a block" organ-graft \
    --source "$T/r2.gguf" --target "$T/r1.gguf" --experts 3 --router --output "$T/r.d"
cp -R "$T/d" "$T/links"
mv "$T/links/norm" "$T/norms"
mkdir "$T/links/norm"
for f in "$T/norms"/*; do ln -s "../../norms/${f##*/}" "$T/links/norm/${f##*/}"; done
check "organs that are links" organ-graft --source $CODE --target "$T/links" --type organ --link --output "$T/linked"
check_text "$(find "$T/linked" -type l | wc -l | tr -d ' ')" 0 "organs that are links: files again"
check "organs that are links: whole" organ-assemble "$T/linked" --output "$T/linked.gguf"

# ---- more shards than a process may have open, and none ------------------------------------------------
mkmodel "$T/many.gguf" -n 400 t%:I8:4
organ-extract -q "$T/many.gguf" --output "$T/many.d"
# shellcheck disable=SC3045
few() { (ulimit -S -n 128 && exec "$@"); } # any sh that is in use has -S
check "400 shards written" few organ-assemble "$T/many.d" --output "$T/s.gguf" --shards 400
check "400 shards read" few organ-extract "$T/s-00001-of-00400.gguf" --output "$T/s.d"
organ-assemble "$T/s.d" --output "$T/s.gguf"
check_same "$T/s.gguf" "$T/many.gguf" "400 shards and back"
mkmodel "$T/none.gguf"
organ-extract -q "$T/none.gguf" --output "$T/none.d"
check "a model without tensors in shards" organ-assemble "$T/none.d" --output "$T/none.gguf" --shard-size 1G
if [ -e "$T/none-00001-of-00001.gguf" ]; then ok; else bad "a model without tensors: no shard"; fi

# ---- an empty folder as output ------------------------------------------------------------------------
mkdir "$T/empty"
check_error 3 "ends" "a cut model into an empty folder" \
    sh -c "head -c 500000 $VERSE | organ-extract - --output '$T/empty'"
check "the empty folder is still there" test -d "$T/empty"
check "a model into an empty folder" organ-extract $VERSE --output "$T/empty"
check "the folder is filled" test -s "$T/empty/manifest.json"

# ---- stdin that is stored first ------------------------------------------------------------------------
for bytes in "" G GGUF; do
    check_error 3 "<stdin>" "'$bytes' for a donor" \
        sh -c "printf '$bytes' | organ-transplant --base $VERSE --donor - --output '$T/never.gguf'"
    check_error 3 "<stdin>" "'$bytes' for a model" sh -c "printf '$bytes' | organ-extract - --output '$T/never'"
done
printf '\001\000\000\000a\000\000\000\000\030\000\000\000x' > "$T/endless"
i=0
while [ $i -lt 18 ]; do
    cat "$T/endless" "$T/endless" > "$T/endless2" && mv "$T/endless2" "$T/endless"
    i=$((i + 1))
done
check_error 3 "probably not an organ stream" "an endless organ stream, listed" \
    sh -c "organ-extract - --list < '$T/endless' > /dev/null"
if exhaustive; then
    check_error 3 "probably not an organ stream" "an endless organ stream, measured" \
        sh -c "organ-measure - < '$T/endless' > /dev/null"
fi

# ---- lists without end, in place of a file that an option names ---------------------------------------
for option in --dtype=@/dev/zero --keep-experts=/dev/zero '--size=1M --sensitivity=/dev/zero'; do
    check_error 2 "line 1 has more than 1 MiB" "${option%=*}: zeros" organ-assemble $VERSE \
        --output "$T/never.gguf" $option
done
check_error 2 "line 1 has more than 1 MiB" "names: zeros" organ-extract $VERSE --list --names-from /dev/zero
check_error 2 "line 1 has more than 1 MiB" "hashes: zeros" organ-check $VERSE --verify /dev/zero
printf 'token_embd.weight\nblk.0\0\n' > "$T/nul"
check_error 2 "line 2 contains a NUL" "names: a NUL" organ-extract $VERSE --list --names-from "$T/nul"
long=$(printf '#%01000d' 0)
check_error 2 "has more than 64 MiB" "rules without end" \
    sh -c "yes '$long' | organ-assemble $VERSE --output '$T/never.gguf' --dtype @/dev/stdin"
check_absent "$T/never.gguf" "lists without end"

# ---- zeros: a download that did not finish --------------------------------------------------------------
head -c 100000 /dev/zero > "$T/zeros.gguf"
cp "$T/zeros.gguf" "$T/zeros.bin"
cp "$T/zeros.gguf" "$T/zeros"
for f in zeros.gguf zeros.bin zeros; do
    check_error 3 "all zeros: the download did not finish" "$f, listed" organ-extract "$T/$f" --list
    check_error 3 "all zeros: the download did not finish" "$f, measured" organ-measure "$T/$f"
    check_error 3 "all zeros: the download did not finish" "$f as donor" \
        organ-transplant --base $VERSE --donor "$T/$f" --output "$T/never.gguf"
    check_error 3 "all zeros: the download did not finish" "$f on a pipe" \
        sh -c "cat '$T/$f' | organ-measure - > /dev/null"
done
check_error 3 "all zeros: the download did not finish" "zeros on a pipe, checked" \
    sh -c "head -c 4096 /dev/zero | organ-check - > /dev/null"
check_error 3 "all zeros: the download did not finish" "zeros without end" \
    limited 3 organ-merge --method linear - $VERSE -o "$T/never.gguf" < /dev/zero
{ printf '\000\000\000\000\000\000\000\000\030\000\000\000x'; head -c 1000 "$T/endless"; } > "$T/unnamed.bin"
check_error 3 "empty name" "a record without a name" organ-measure "$T/unnamed.bin"
check_error 3 "empty name" "a record without a name, on a pipe" \
    sh -c "organ-extract - --list < '$T/unnamed.bin' > /dev/null"
head -c 140 "$T/endless" > "$T/records.gguf"
check_error 3 "GGUF" "records under the name of a model" organ-extract "$T/records.gguf" --list
mv "$T/records.gguf" "$T/records"
check "the same records under another name" organ-extract "$T/records" --list
rm -f "$T/endless"
check_error 3 "empty name" "a stream of a tensor without a name" organ-extract $D/gguf/names-odd.gguf --output -
check_error 4 "TMPDIR" "no folder to store stdin in" \
    sh -c "TMPDIR='$T/nowhere' organ-transplant --base $VERSE --donor - --output '$T/never.gguf' < $CODE"
check_absent "$T/never.gguf" "stdin without a model"

# ---- outputs that are inputs ------------------------------------------------------------------------------
organ-transplant --base $VERSE --donor $CODE --type organ --output "$T/chimera.gguf"
cp $VERSE "$T/self.gguf"
check "a donor that is the base" organ-transplant --base "$T/self.gguf" --donor "$T/self.gguf" --output "$T/self2.gguf"
check_same "$T/self2.gguf" "$T/self.gguf" "a donor that is the base"
ln "$T/self.gguf" "$T/self.hard"
check_error 2 "same file" "base and donor one file by two names" organ-transplant \
    --base "$T/self.gguf" --donor "$T/self.hard" --in-place --no-undo --all

# An output within an organ directory that is read could take its manifest's name (promises.sh tests all tools).
cp -R "$T/d" "$T/within.d"
cp -R "$T/d" "$T/within.copy"
ln -s within.d "$T/within.link"
inside() { check_error 2 "inside the organ directory" "an output within: $*" "$@" --force; }
(cd "$T/within.d" && "$BIN/organ-assemble" . --output manifest.json --force) 2> "$T/err"
check_text $? 2 "an output within the working folder"
inside organ-measure "$T/within.d" --svg "$T/within.d/manifest.json"
cp $CODE "$T/within.gguf"
inside organ-transplant --base "$T/within.gguf" --donor "$T/within.d" --type organ \
    --in-place --undo "$T/within.d/manifest.json"
check_same_dir "$T/within.d" "$T/within.copy" "outputs within: the directory is as it was"
check "beside the manifest" organ-assemble "$T/within.d" --output "$T/within.link/new.gguf"
check_same "$T/within.d/new.gguf" $VERSE "beside the manifest"
check "a folder there" organ-extract "$T/within.d" --output "$T/within.d/new"
check "a picture there" organ-measure -q "$T/within.d" --svg "$T/within.d/new.svg"
check_same "$T/within.gguf" $CODE "an undo stream within: the base is as it was"
check "beside a directory of a longer name" organ-assemble "$T/within.d" --output "$T/within.d.gguf"

# Empty tensors have a place too: a file or a pipe that ends before it is cut short.
mkmodel "$T/z.gguf" a:F32:1 z:F32:0
size=$(wc -c < "$T/z.gguf")
for cut in $((size - 28)) $((size - 1)) $((size - 33)); do
    head -c $cut "$T/z.gguf" > "$T/zc.gguf"
    check_error 3 "is incomplete" "an empty tensor beyond the end, $cut of $size" organ-extract "$T/zc.gguf" \
        --output "$T/zc"
    check_error 3 "is incomplete" "an empty tensor beyond the end, on a pipe, $cut of $size" \
        sh -c "organ-extract - --output $T/zc < $T/zc.gguf"
done
finish
