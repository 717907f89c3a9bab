#!/bin/sh
# compare.sh - organ-compare: statuses, measures against a recomputation, selection,
# block maps, experts, every kind of source alike, summaries and the lineage verdict.
. "$(dirname "$0")/lib.sh"
BASE=$LAB/lab-base-q4_k_m.gguf VERSE=$LAB/lab-verse-q4_k_m.gguf
STRANGER=$LAB/lab-stranger-q4_k_m.gguf

# column NAME: that column of $T/out, without the header.
column() {
    awk -F '\t' -v want="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == want) k = i; next } { print $k }' "$T/out"
}

counts() {
    column "$1" | sort | uniq -c | awk '{ printf "%s%s %s", sep, $2, $1; sep = ", " }'
}

# near A B: within 1e-6.
near() {
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; if (a == "" || b == "" || d > 1e-6 || d < -1e-6) exit 1 }'
}

# ---- rows
check "a model and itself" organ-compare $BASE $BASE
check_text "$(counts status)" "identical 39" "all identical"
check_text "$(head -n 1 "$T/out")" \
    "$(echo name class block status dtype_a dtype_b elements cosine rel_l2 max_abs dims_a dims_b name_b part damage |
        tr ' ' '\t')" "columns"
check_text "$(awk -F '\t' 'NF != 15' "$T/out")" "" "15 columns in each row"
check_text "$(column cosine | sort -u) $(column rel_l2 | sort -u) $(column max_abs | sort -u)" "1 0 0" \
    "measures of identical tensors"
check_exit 1 "two models" organ-compare $BASE $VERSE
check_text "$(counts status)" "differs 40" "all differ, and keys"
check_text "$(cells name,class,block,status,dtype_a,dtype_b,elements "$T/out" | tail -n 1)" \
    "(keys)${TAB}keys${TAB}-${TAB}differs${TAB}-${TAB}-${TAB}1" \
    "a row for the keys"
column name | grep -v "^(keys)" > "$T/names"
organ-extract -q $BASE --list | cells name | sed 1d > "$T/list"
check_same "$T/names" "$T/list" "A's order"

# One byte of one tensor.
offset=$(organ-extract -q $BASE --list |
    awk -F '\t' "$BY_NAME"'col("name") == "blk.1.attn_k.weight" { print col("offset") }')
start=$(organ-extract -q $BASE --list |
    awk -F '\t' "$BY_NAME"'NR > 1 { e = col("bytes") + col("offset") } END { print int((e + 31) / 32) * 32 }')
at=$(($(wc -c < $BASE) - start + offset + 1000))
cp $BASE "$T/one.gguf"
byte=$(od -An -tu1 -j $at -N 1 $BASE)
# shellcheck disable=SC2059
printf "\\$(printf %o $(((byte + 1) % 256)))" | dd of="$T/one.gguf" bs=1 seek=$at conv=notrunc 2> "$T/err"
check_exit 1 "one byte" organ-compare $BASE "$T/one.gguf"
check_text "$(awk -F '\t' "$BY_NAME"'col("status") != "identical" { print col("name") col("status") }' "$T/out" |
    sed 1d)" "blk.1.attn_k.weightdiffers" \
    "the tensor that one byte changed"
check_exit 1 "one byte, seen by a sample too" organ-compare $BASE "$T/one.gguf" --sample 1
check_text "$(counts status)" "differs 1, identical 38" "a sample's identical means every byte"
cp "$T/out" "$T/sampled"
check_exit 1 "and on a pipe" sh -c "organ-compare - '$T/one.gguf' --sample 1 < $BASE"
check_same "$T/out" "$T/sampled" "a sample of a pipe"
check "one byte is still one lineage" organ-compare $BASE "$T/one.gguf" --lineage

# ---- measures, computed again
if have python3 "what Python checks"; then
    for t in blk.2.ffn_norm.weight output_norm.weight blk.0.attn_norm.weight; do
        organ-extract -q $BASE --tensors $t --output - > "$T/a.bin"
        organ-extract -q $VERSE --tensors $t --output - > "$T/b.bin"
        python3 - "$T/a.bin" "$T/b.bin" > "$T/want" << 'PY'
import math, struct, sys
def record(path):
    b = open(path, 'rb').read()
    n, = struct.unpack_from('<I', b, 0)
    d, = struct.unpack_from('<I', b, 4 + n)
    dims = struct.unpack_from('<%dQ' % d, b, 8 + n)
    at = 8 + n + 8 * d
    dtype, = struct.unpack_from('<I', b, at)
    assert dtype == 0
    return struct.unpack_from('<%df' % math.prod(dims), b, at + 4)
a, b = map(record, sys.argv[1:])
na, nb = math.sqrt(math.fsum(x * x for x in a)), math.sqrt(math.fsum(x * x for x in b))
print(math.fsum(x * y for x, y in zip(a, b)) / na / nb)
print(math.sqrt(math.fsum((x - y) ** 2 for x, y in zip(a, b))) / na)
print(max(abs(x - y) for x, y in zip(a, b)))
PY
        organ-compare $BASE $VERSE --tensors $t > "$T/out"
        n=0
        for c in cosine rel_l2 max_abs; do
            n=$((n + 1))
            if near "$(column $c)" "$(sed -n ${n}p "$T/want")"; then ok; else bad "$t: $c is $(column $c), $(sed \
                -n ${n}p "$T/want") wanted"; fi
        done
    done
fi

# Rows too long for one chunk, sampled: rows 0 and 2 of 5.
if have python3 "what Python checks"; then
    python3 - "$T" << 'PY' > "$T/want"
import array, math, random, struct, sys
random.seed(7)
row, rows = 70001, 5
a = array.array('f', (random.gauss(0, 1) for _ in range(row * rows)))
b = array.array('f', (x + random.gauss(0, 0.5) for x in a))
for name, v in ('a', a), ('b', b):
    with open('%s/long-%s.bin' % (sys.argv[1], name), 'wb') as f:
        f.write(struct.pack('<I1sIQQI', 1, b'l', 2, row, rows, 0) + v.tobytes())
for picked in (0, 2), range(rows):
    x = [v for r in picked for v in a[r * row:(r + 1) * row]]
    y = [v for r in picked for v in b[r * row:(r + 1) * row]]
    squares = math.fsum(p * p for p in x) * math.fsum(q * q for q in y)
    print(math.fsum(p * q for p, q in zip(x, y)) / math.sqrt(squares))
PY
    for s in 2 0; do
        for how in "organ-compare $T/long-a.bin" "organ-compare - < $T/long-a.bin"; do
            check_exit 1 "$how --sample $s" sh -c "$how $T/long-b.bin --sample $s"
            want=$(sed -n "$([ $s = 2 ] && echo 1 || echo 2)p" "$T/want")
            if near "$(column cosine)" "$want"; then ok; else bad "$how --sample $s: $(column cosine), $want wanted"; \
                fi
        done
    done
fi

# ---- sources, threads, instruction sets: the same rows
organ-extract -q $VERSE --output "$T/verse" 2> "$T/err"
for o in "" "--sample 7" "--lineage" "--summary" "--json"; do
    # shellcheck disable=SC2086
    organ-compare $BASE $VERSE $o -j 1 > "$T/want"
    status=$?
    for how in "organ-compare $BASE $VERSE -j 7" "GG_ISA=0 organ-compare $BASE $VERSE" \
        "GG_ISA=1 organ-compare $BASE $VERSE" "organ-compare $BASE $T/verse" \
        "organ-compare - $VERSE < $BASE" "organ-compare $BASE - < $VERSE" "organ-compare -j 7 $BASE - < $VERSE" \
        "organ-extract -q $T/verse --output - | organ-compare $BASE -" \
        "organ-extract -q $BASE --output - | organ-compare - $T/verse"; do
        check_exit $status "$how $o" sh -c "$how $o"
        case $how in
        organ-extract*) grep -v -e '^(*keys' -e '"(keys)"' "$T/want" > "$T/want.this" ;; # records have no keys
        *) cp "$T/want" "$T/want.this" ;;
        esac
        check_same "$T/out" "$T/want.this" "$how $o"
    done
done
check "identical, from a pipe" sh -c "organ-compare - $T/verse < $VERSE"
check_text "$(counts status)" "identical 39" "a pipe's rows"

# ---- selection, only in one, map
check_exit 1 "types" organ-compare $BASE $VERSE --type norm
check_text "$(counts class)" "norm 9" "one class"
organ-extract -q $VERSE --output - --layers 0-1 --type organ > "$T/some.bin"
check_exit 1 "only in A" organ-compare $VERSE "$T/some.bin"
check_text "$(counts status)" "identical 6, only-a 33" "only in A"
check_exit 1 "only in B" organ-compare "$T/some.bin" $VERSE
check_text "$(counts status)" "identical 6, only-b 33" "only in B"
check_text "$(column status | uniq | tr '\n' ' ')" "identical only-b " "only in B comes last"
check_exit 1 "only in B, A on a pipe" sh -c "organ-compare - $VERSE < $T/some.bin"
check_text "$(counts status)" "identical 6, only-b 33" "only in B, A on a pipe"
check_exit 1 "only in A, B on a pipe" sh -c "organ-compare $VERSE - < $T/some.bin"
check_text "$(counts status)" "identical 6, only-a 33" "only in A, B on a pipe"
check "what both have" organ-compare $VERSE "$T/some.bin" --layers 0-1 --type organ
check "a map onto itself" organ-compare $VERSE $VERSE --map 0-3=0-3
check_text "$(counts status)" "identical 36" "a map leaves out what has no block"
check_exit 1 "a map" organ-compare $BASE $VERSE --map 0-2=1-3 --type organ
check_text "$(awk -F '\t' "$BY_NAME"'NR == 2 {
    print col("name"), col("name_b") }' "$T/out")" "blk.0.ffn_gate.weight blk.1.ffn_gate.weight" \
    "a map's pair"
check_text "$(counts status)" "differs 9" "a map's rows"
check_exit 1 "a map, A on a pipe" sh -c "organ-compare - $VERSE --map 0-2=1-3 --type organ < $BASE"
check_text "$(counts status)" "differs 9" "a map's rows from a pipe"
check_exit 1 "only in B under a map" organ-compare "$T/some.bin" $VERSE --map 0=0
check_text "$(counts status)" "identical 3, only-b 6" "only in B under a map"
check_error 1 "no tensor matches 'nothing*'" "nothing selected" organ-compare $BASE $VERSE --tensors 'nothing*'
check_error 1 "no tensor is selected" "a map of no block" organ-compare $BASE $VERSE --map 90=91

# ---- shape and dtype: two records by hand, [name_len][name][n_dims][dims][dtype][data]
record() { # NAME DIMS-IN-OCTAL-BYTES(16) DTYPE DATA
    # shellcheck disable=SC2059
    printf "\\001\\000\\000\\000$1\\002\\000\\000\\000$2\\00$3\\000\\000\\000$4"
}
D22='\002\000\000\000\000\000\000\000\002\000\000\000\000\000\000\000'
D41='\004\000\000\000\000\000\000\000\001\000\000\000\000\000\000\000'
F32='\000\000\200\077\000\000\000\100\000\000\000\000\000\000\200\277' # 1 2 0 -1
F16='\000\074\000\100\000\000\000\274'                                 # the same
F16B='\000\074\000\074\000\000\000\274'                                # 1 1 0 -1
{ record s "$D22" 0 "$F32"; record e "$D22" 0 "$F32"; record d "$D22" 0 "$F32"; } > "$T/a.bin"
{ record s "$D41" 0 "$F32"; record e "$D22" 1 "$F16"; record d "$D22" 1 "$F16B"; } > "$T/b.bin"
check_exit 1 "shape and dtype" organ-compare "$T/a.bin" "$T/b.bin"
check_text "$(column status | tr '\n' ' ')" "shape dtype dtype " "status of shape and dtype"
check_text "$(column cosine | sed -n 1,2p | tr '\n' ' ')$(column max_abs | tr '\n' ' ')" "- 1 - 0 1 " \
    "values are compared across dtypes"
if near "$(column cosine | sed -n 3p)" 0.94280904158206336; then ok; else bad "cosine of (1 2 0 -1) and (1 1 0 -1)"; fi
if near "$(column rel_l2 | sed -n 3p)" 0.40824829046386302; then ok; else \
    bad "relative L2 of (1 2 0 -1) and (1 1 0 -1)"; fi
check_exit 1 "json" organ-compare "$T/a.bin" "$T/b.bin" --json
check_text "$(grep -c '"cosine": null' "$T/out")" 1 "null in JSON"

# Values that are not finite say nothing, and least of all that two models are alike.
NAN4='\000\000\300\177\000\000\300\177\000\000\300\177\000\000\300\177'
{ record s "$D22" 0 "$F32"; record e "$D22" 0 "$NAN4"; } > "$T/a.bin"
{ record s "$D22" 0 "$NAN4"; record e "$D22" 0 "$NAN4"; } > "$T/b.bin"
matrix() { # BYTE: 64 x 64 halves of it
    printf '\023\000\000\000blk.0.attn_q.weight\002\000\000\000'
    printf '\100\000\000\000\000\000\000\000\100\000\000\000\000\000\000\000\001\000\000\000'
    head -c 8192 /dev/zero | tr '\000' "\\$1"
}
matrix 063 > "$T/sound.bin"
matrix 177 > "$T/broken.bin"
for pipe in "organ-compare $T/a.bin" "cat $T/a.bin | organ-compare -"; do
    check_exit 1 "$pipe: nothing finite" sh -c "$pipe $T/b.bin"
    check_text "$(column status | tr '\n' ' ')$(column cosine | tr '\n' ' ')$(column max_abs | tr '\n' ' ')" \
        "differs identical - 1 - 0 " "$pipe: nothing finite: measures"
done
for pipe in "organ-compare $T/sound.bin" "cat $T/sound.bin | organ-compare -"; do
    check_exit 1 "$pipe: lineage of values that are not finite" sh -c "$pipe $T/broken.bin --lineage"
    check_text "$(column verdict) $(column matrices)" "undecidable 0" "$pipe: verdict on values that are not finite"
done

# A type that is carried but not decoded (IQ2_K, 76 bytes per row of 256): bytes only.
raw() { # TYPE LAST-BYTE
    printf '\001\000\000\000r\001\000\000\000\000\001\000\000\000\000\000\000'
    # shellcheck disable=SC2059
    printf "\\$1\\000\\000\\000%075d\\$2" 0
}
raw 211 000 > "$T/a.bin"
raw 211 001 > "$T/b.bin"
for pipe in "organ-compare $T/a.bin" "cat $T/a.bin | organ-compare -"; do
    check "$pipe: the same bytes" sh -c "$pipe $T/a.bin --sample 1"
    check_text "$(column status) $(column cosine)" "identical -" "$pipe: the same bytes without measures"
    check_exit 1 "$pipe: other bytes" sh -c "$pipe $T/b.bin --sample 1"
    check_text "$(column status) $(column cosine)" "differs -" "$pipe: other bytes without measures"
done
check_exit 1 "nothing but bytes" organ-compare "$T/a.bin" "$T/b.bin" --lineage
check_text "$(column verdict)" "undecidable" "bytes alone tell no lineage"

# ---- keys
organ-keys $VERSE --set general.name=str:other --set llama.block_count=i32:4 --delete general.description \
    --set new.key=bool:true --set tokenizer.ggml.token_type=i32[]:2,3,4 --output "$T/k.gguf"
check_exit 1 "keys" organ-compare $VERSE "$T/k.gguf" --keys
cat > "$T/want" << 'END'
key	status	value_a	value_b	type_a	type_b	index
general.name	differs	lab-verse	other	str	str	-
general.description	only-a	2.9M-parameter llama trained from scratch for testing	-	str	-	-
llama.block_count	type	4	4	u32	i32	-
tokenizer.ggml.token_type	differs	[2] 3 of 1024	[2] 4 of 3	i32[]	i32[]	2
new.key	only-b	-	true	-	bool	-
END
check_same "$T/out" "$T/want" "the table of keys"
check_exit 1 "keys in json" organ-compare $VERSE "$T/k.gguf" --keys --json
if have jq "JSON read by jq"; then
    check_text "$(jq -c 'select(.index) | [.value_a, .value_b]' "$T/out")" "[3,4]" "an element in json"
    check_text "$(jq -c 'select(.status == "only-a") | .value_b' "$T/out")" null "no value in json"
fi
check_exit 1 "keys alone are a difference" organ-compare $VERSE "$T/k.gguf"
check_text "$(grep -c identical "$T/out") $(cells name,status,elements "$T/out" | tail -n 1)" \
    "39 (keys)${TAB}differs${TAB}5" \
    "their one row"
check_exit 1 "in the summary" organ-compare $VERSE "$T/k.gguf" --summary
check_text "$(cells class,tensors,identical,differs,dtype,shape,only_a,only_b "$T/out" | grep '^keys' |
    cut -f 2- | tr '\t' ' ')" "25 20 2 1 0 1 1" "their row of the summary"
check "a selection is about tensors" organ-compare $VERSE "$T/k.gguf" --type organ
check "so is a map" organ-compare $VERSE "$T/k.gguf" --map 0=0
check "lineage is too" organ-compare $VERSE "$T/k.gguf" --lineage
check "keys of a file and a directory" organ-compare $VERSE "$T/verse" --keys
check_text "$(($(wc -l < "$T/out")))" 1 "none differs"
check "keys of a pipe" sh -c "organ-compare $VERSE - --keys < $VERSE"
organ-keys $VERSE --set tokenizer.ggml.token_type=i32[]:2,3 --output "$T/k2.gguf"
check_exit 1 "one array begins the other" organ-compare "$T/k2.gguf" "$T/k.gguf" --keys
check_text "$(grep token_type "$T/out" | cut -f 3,4,7 | tr '\t' ';')" "[2] none of 2;[2] 4 of 3;2" \
    "where the shorter ends"
S=$D/gguf/x-00001-of-00003.gguf
organ-extract -q $S --output "$T/xs"
organ-assemble "$T/xs" --output "$T/x.gguf"
check "shards and one file" organ-compare $S "$T/x.gguf"
check "numbers of shards are no difference" organ-compare $S "$T/x.gguf" --keys
check_error 2 "have no keys" "keys of records" organ-compare $VERSE "$T/verse/norm/output_norm.bin" --keys
check_error 2 "not both" "keys and summary" organ-compare $VERSE $VERSE --keys --summary
check_error 2 "compares keys only" "keys and a selection" organ-compare $VERSE $VERSE --keys --type norm
for f in kv-odd-keys kv-strings-binary kv-all-scalars kv-arrays-all-types kv-empty-arrays-and-strings kv-many; do
    check "$f and itself" organ-compare $D/gguf/$f.gguf $D/gguf/$f.gguf --keys
    check_exit 1 "$f and nothing" organ-compare $D/gguf/$f.gguf $D/gguf/header-only.gguf --keys
    check_text "$(cells status "$T/out" | sort | uniq -c | awk '{ print $1 $2 }' | tr '\n' ' ')" "$(organ-keys \
        $D/gguf/$f.gguf | tail -n +2 | wc -l | tr -d ' ')only-a 1status " "$f: all keys"
done

# ---- summary and lineage
check_exit 1 "summary" organ-compare $BASE $VERSE --summary
check_text "$(column class | tr '\n' ' ')" "skeleton organ embed norm keys model " "classes"
check_text "$(awk -F '\t' "$BY_NAME"'col("class") == "model" {
    print col("tensors"), col("differs"), col("lineage") }' "$T/out")" "39 39 same lineage" "the model's row"
for pair in base-verse base-code verse-code; do
    a=$LAB/lab-${pair%-*}-q4_k_m.gguf b=$LAB/lab-${pair#*-}-q4_k_m.gguf
    for s in "" "--sample 0" "--type organ"; do
        # shellcheck disable=SC2086
        check "$pair $s: one lineage" organ-compare "$a" "$b" --lineage $s
        check_text "$(column verdict)" "same lineage" "$pair $s: verdict"
        if awk -v m="$(column cosine_min)" 'BEGIN { exit !(m > 0.9) }'; then ok; else \
            bad "$pair $s: cosines above 0.9"; fi
    done
    check_exit 1 "$pair: the second and a stranger" organ-compare "$b" $STRANGER --lineage
    check_text "$(column verdict)" "strangers" "$pair: the second and a stranger: verdict"
    if awk -v m="$(column cosine_max)" 'BEGIN { exit !(m < 0.05) }'; then ok; else \
        bad "$pair: the second and a stranger: cosines under 0.05"; fi
done
check "itself" organ-compare $BASE $BASE --lineage
check_text "$(column verdict)" "identical" "itself: verdict"
check_exit 1 "nothing to judge by" organ-compare $BASE $VERSE --lineage --type norm
check_text "$(column verdict)" "undecidable" "norms say nothing"

# ---- mistakes
check_error 2 "give two models" "one model" organ-compare $BASE
check_error 2 "only one" "two pipes" organ-compare - -
check_error 2 "not both" "summary and lineage" organ-compare $BASE $VERSE --summary --lineage
check_error 2 "--map" "a bad map" organ-compare $BASE $VERSE --map 0-3=1
check_error 2 "only the first model can be a pipe" "a map and a pipe as B" sh \
    -c "organ-compare $BASE - --map 0=1 < $VERSE"
check_error 4 "no-such-file" "a missing file" organ-compare $BASE no-such-file
head -c 500000 $VERSE > "$T/cut"
check_error 3 "" "a pipe that is cut" sh -c "organ-compare $BASE - --lineage < $T/cut"
if [ -w /dev/full ]; then
    check_exit 4 "a full disk" sh -c "organ-compare $BASE $VERSE > /dev/full"
    # a stream without an end: whoever cannot write on must stop to read on
    (while cat "$T/some.bin"; do :; done) 2> "$T/err.cat" | organ-compare - $VERSE > /dev/full 2> "$T/err" &
    pid=$! k=0
    while kill -0 $pid 2> "$T/err.kill" && [ $k -lt 1200 ]; do
        sleep 0.1
        k=$((k + 1))
    done
    if [ $k -lt 1200 ]; then wait $pid; check_text $? 4 "an endless stream onto a full disk"
    else kill $pid; bad "an endless stream onto a full disk: it goes on and on"
    fi
fi
finish
