#!/bin/sh
# measure.sh - organ-measure: its columns against their definitions, the same bytes for
# every source and any number of threads, summaries, wells, experts, the manifest's z,
# pictures, and what it says when it cannot.
. "$(dirname "$0")/lib.sh"
VERSE=$LAB/lab-verse-q4_k_m.gguf
COLUMNS="name class block dtype elements sampled nonfinite mean std min max entropy kurtosis cv theta"
COLUMNS="$COLUMNS signal dimension null_theta calibrated row_theta part edge importance"

# ---- the table ----
check "table" organ-measure -j 1 "$VERSE"
cp "$T/out" "$T/verse.tsv"
check_text "$(head -n 1 "$T/verse.tsv" | tr '\t' ' ')" "$COLUMNS" "columns"
check "list" organ-extract --list "$VERSE"
check_text "$(cells name "$T/verse.tsv")" "$(cells name "$T/out")" "one row per tensor, in order"
check_text "$(awk -F '\t' "$BY_NAME"'NF != 23 || NR > 1 && (col("edge") != "-" ||
    col("importance") != "-")' "$T/verse.tsv")" "" "23 cells in each row"
check_text "$(awk -F '\t' "$BY_NAME"'NR > 1 && (col("theta") < 0 || col("theta") > 90 || col("calibrated") < 0 ||
    col("calibrated") > 90 || col("row_theta") < 0 || col("row_theta") > 90)' \
    "$T/verse.tsv")" "" "angles"

same() {
    if [ "$(tail -n +2 "$T/out")" = "$(tail -n +2 "$T/verse.tsv")" ]; then ok; else \
        bad "$1: other rows than of the file"; fi
}
check "two threads" organ-measure -j 2 "$VERSE"; same "two threads"
check "five threads" organ-measure -j 5 "$VERSE"; same "five threads"
check "stdin, a file" sh -c "organ-measure - < $VERSE"; same "stdin, a file"
check "stdin, a pipe" sh -c "cat $VERSE | organ-measure -j 2 -"; same "stdin, a pipe"
check "stdin, a pipe, one thread" sh -c "cat $VERSE | organ-measure -j 1 -"; same "a pipe, one thread"
check "organ stream" sh -c "organ-extract $VERSE --output - | organ-measure -"; same "organ stream"
check "extract" organ-extract "$VERSE" --output "$T/d"
check "directory" organ-measure "$T/d"; same "directory"
check "--dir" organ-measure --dir "$T/d"; same "--dir"
check ".bin files" sh -c "organ-measure $T/d/*/*.bin | sort"
cp "$T/out" "$T/bins"
sort "$T/verse.tsv" > "$T/sorted"
check_same "$T/bins" "$T/sorted" ".bin files"
GG_ISA=0 organ-measure "$VERSE" > "$T/plain" 2>&1
check_same "$T/plain" "$T/verse.tsv" "plain C and the machine's own instructions"
check "shards" organ-measure "$D/gguf/x-00002-of-00003.gguf"
check "all values" organ-measure --sample 0 -j 1 "$VERSE"
cp "$T/out" "$T/all.tsv"
check_text "$(awk -F '\t' "$BY_NAME"'NR > 1 &&
    col("elements") != col("sampled")' "$T/all.tsv")" "" "--sample 0 reads every value"
GG_ISA=0 organ-measure --sample 0 "$VERSE" > "$T/plain" 2>&1
check_same "$T/plain" "$T/all.tsv" "--sample 0 in plain C"
check "all values, pipe" sh -c "cat $VERSE | organ-measure --sample 0 -j 2 -"
check_same "$T/out" "$T/all.tsv" "--sample 0 from a pipe"
check "few values" organ-measure --sample 1000 "$VERSE"
cp "$T/out" "$T/few.tsv"
check_text "$(awk -F '\t' "$BY_NAME"'NR > 1 &&
    col("sampled") != (col("elements") < 1000 ? col("elements") : 1000)' "$T/few.tsv")" \
    "" "--sample 1000 looks at 1000"
check "few values, pipe" sh -c "organ-measure --sample 1000 - < $VERSE"
check_same "$T/out" "$T/few.tsv" "--sample 1000 from a pipe"

# More values than one thread takes alone: 5 Mi halves.
printf '\1\0\0\0x\1\0\0\0\0\0\120\0\0\0\0\0\1\0\0\0' > "$T/big.bin"
cat "$VERSE" "$VERSE" "$VERSE" "$VERSE" "$VERSE" "$VERSE" | head -c 10485760 >> "$T/big.bin"
check "a big tensor" organ-measure --sample 0 -j 1 "$T/big.bin"
cp "$T/out" "$T/big.tsv"
check_text "$(cells sampled "$T/big.tsv" | tail -n 1)" 5242880 "all of its values"
check "a big tensor, three threads" organ-measure --sample 0 -j 3 "$T/big.bin"
check_same "$T/out" "$T/big.tsv" "a big tensor, three threads"
check "a big tensor, pipe" sh -c "cat $T/big.bin | organ-measure --sample 0 -j 2 -"
check_same "$T/out" "$T/big.tsv" "a big tensor, pipe"

# Tensors that are a small part of a model have a thread each if their codes are only counted.
mkmodel "$T/many.gguf" -n 20 blk.%.ffn_up.weight:F16:256x1024 -n 1 token_embd.weight:BF16:256x8192 || bad "mkmodel"
check "many big tensors" organ-measure --sample 0 -j 1 "$T/many.gguf"
cp "$T/out" "$T/many.tsv"
check_text "$(cells sampled "$T/many.tsv" | sed 1d | sort | uniq -c | awk '{ printf "%s:%s ", $1, $2 }')" \
    "1:2097152 20:262144 " "all of their values"
check "many big tensors, three threads" organ-measure --sample 0 -j 3 "$T/many.gguf"
check_same "$T/out" "$T/many.tsv" "many big tensors, three threads"
check "many big tensors, their bins" organ-measure --histogram - --sample 0 -j 1 "$T/many.gguf"
cp "$T/out" "$T/many.tsv"
check "many big tensors, their bins, three threads" organ-measure --histogram - --sample 0 -j 3 "$T/many.gguf"
check_same "$T/out" "$T/many.tsv" "many big tensors, their bins, three threads"
rm "$T/many.gguf"

# ---- histograms ----
# -1 -0.5 -0.5 0 -0 0.25 NaN and infinity: a bin has the edge that is nearer to 0.
{
    printf '\1\0\0\0x\1\0\0\0\10\0\0\0\0\0\0\0\0\0\0\0\0\0\200\277\0\0\0\277\0\0\0\277'
    printf '\0\0\0\0\0\0\0\200\0\0\200\076\0\0\300\177\0\0\200\177'
} > "$T/eight.bin"
check "a histogram" organ-measure --histogram - "$T/eight.bin"
check_text "$(awk "$BY_NAME"'col("values")' "$T/out" | tr '\t\n' ' ;')" \
    "class low high values;other -1.03125 -1 1;other -0.53125 -0.5 2;other 0 0.03125 2;other 0.25 0.28125 1;" \
    "bins of eight values"
check_text "$(($(wc -l < "$T/out")))" 43 "bins without values are listed too"
sums() { awk -F '\t' "$BY_NAME"'NR > 1 { n[col("class")] += col("values"); k[col("class")]++ } END {
    for (c in n) print c, n[c] + 0, (k[c] <= 66) }' "$1" \
    | sort; }
check "a file besides the table" organ-measure --histogram "$T/h.tsv" -j 1 --sample 1000 "$VERSE"
check_same "$T/out" "$T/few.tsv" "the table with a histogram"
check_text "$(awk -F '\t' "$BY_NAME"'NR > 1 { n += col("values") } END { print (n > 2885888 * 0.9999 &&
    n < 2885888 * 1.0001) }' \
    "$T/h.tsv")" 1 "samples count for all values"
check "three threads, a pipe" sh -c "organ-measure --histogram $T/h2.tsv -j 3 --sample 1000 - < $VERSE"
check_same "$T/h2.tsv" "$T/h.tsv" "a histogram by three threads"
organ-measure --histogram - --sample 0 "$VERSE" > "$T/h0.tsv"
check_text "$(sums "$T/h0.tsv" | tr '\n' ';')" "embed 524288 1;norm 2304 1;organ 1572864 1;skeleton 786432 1;" \
    "all values are counted"
check_text "$(awk -F '\t' "$BY_NAME"'{ n += col("values") } (col("low") == "-" || col("high") == "-") &&
    col("values") > 0.001 * (/^norm/ ? 2304 : /^embed/ ? 524288 : /^organ/ ? 1572864 : 786432) {
        print }' "$T/h0.tsv")" \
    "" "small tails"
organ-measure --histogram - --json --sample 0 "$T/big.bin" -j 3 > "$T/h1"
organ-measure --histogram - --sample 0 "$T/big.bin" -j 1 |
    awk -F '\t' "$BY_NAME"'NR > 1 { n += col("values") } END { print n }' > "$T/h2"
check_text "$(sed 's/.*"values": //; s/}//' "$T/h1" | awk '{ n += $1 } END { print n }') $(cat "$T/h2")" "$(awk \
    -F '\t' "$BY_NAME"'NR == 2 {
        print col("sampled") - col("nonfinite"), col("sampled") - col("nonfinite") }' "$T/big.tsv")" "a big tensor"
check_error 2 "h.tsv" "an existing histogram" organ-measure --histogram "$T/h.tsv" "$VERSE"
check_error 2 "leave out --where" "a histogram of some rows" organ-measure --histogram "$T/no.tsv" --where 'theta<40' \
    "$VERSE"
check_error 2 "name a file" "two things on stdout" organ-measure --histogram - --summary "$VERSE"
check_error 2 "does not replace a model" "a model as the histogram" organ-measure "$VERSE" \
    --histogram "$LAB/lab-code-q4_k_m.gguf" --force

# ---- the edge ----
check "runs of values" organ-measure --blocks --sample 1000 -j 1 "$VERSE"
cp "$T/out" "$T/blocks.tsv"
check_text "$(awk -F '\t' "$BY_NAME"'NR > 1 && col("sampled") != 1024 &&
    col("sampled") != col("elements")' "$T/blocks.tsv" | head -n 3)" "" "four runs of 256 values"
check "runs of values, a pipe" sh -c "cat $VERSE | organ-measure --blocks --sample 1000 -j 3 -"
check_text "$(tail -n +2 "$T/out")" "$(tail -n +2 "$T/blocks.tsv")" "runs of values from a pipe"
check "fewer values than a run" organ-measure --blocks --sample 7 --tensors a.weight tests/data/gguf/align-8.gguf
check_text "$(cells elements,sampled "$T/out" | tail -n 1)" "$(printf '24\t7')" "seven of 24 values"
check_error 2 "leave out --blocks" "runs of all values" organ-measure --blocks --sample 0 "$VERSE"

check "edges" organ-measure --spectral -j 1 "$VERSE"
cp "$T/out" "$T/edges.tsv"
check_text "$(without edge,importance "$T/edges.tsv")" \
    "$(without edge,importance "$T/verse.tsv")" "the other columns stay with --spectral"
check_text "$(awk -F '\t' "$BY_NAME"'NR > 1 && (col("edge") == "-") != (col("class") == "norm")' "$T/edges.tsv")" "" \
    "matrices have an edge, vectors have none"
check_text "$(awk -F '\t' \
    "$BY_NAME"'col("block") ~ /^[0-9]/ && col("class") != "norm" { s += col("edge"); n++ } END { print (s / n > 4.6 &&
        s / n < 5.3) }' "$T/edges.tsv")" 1 \
    "trained matrices are far above noise"
check "edges, three threads" organ-measure --spectral -j 3 "$VERSE"
check_same "$T/out" "$T/edges.tsv" "edges with three threads"
check "edges, a pipe" sh -c "cat $VERSE | organ-measure --spectral -j 2 -"
check_same "$T/out" "$T/edges.tsv" "edges of a pipe"
GG_ISA=0 organ-measure --spectral "$VERSE" > "$T/plain" 2>&1
check_same "$T/plain" "$T/edges.tsv" "edges with plain C"
check "edges, all values" organ-measure --spectral --sample 0 --tensors "blk.0.*" "$VERSE"
check_text "$(cells edge "$T/out" | tail -n +2)" \
    "$(grep -e '^name' -e '^blk.0' "$T/edges.tsv" | cells edge | tail -n +2)" \
    "edges do not depend on --sample"
check "edges, summary" organ-measure --spectral --summary "$VERSE"
check_text "$(awk -F '\t' "$BY_NAME"'col("name") == "norm" { print col("edge") } col("name") == "attn_q" {
    printf "%.6f\n", col("edge") }' "$T/out")" \
    "-
$(awk -F '\t' "$BY_NAME"'col("name") ~ /attn_q/ { s += col("edge"); n++ } END {
    printf "%.6f", s / n }' "$T/edges.tsv")" "means of the edges"
check "edges, JSON" organ-measure --spectral --json --tensors "blk.0.*_norm.weight" "$VERSE"
check_text "$(grep -c '"edge": null, "importance": null}$' "$T/out")" 2 "no edge in JSON"
check "edges, picture" organ-measure --spectral --svg - --color edge "$VERSE"
if grep -q edge "$T/out"; then ok; else bad "the picture does not name the edge"; fi
if grep -q nan "$T/out"; then bad "a picture of the edges shows nan"; else ok; fi
check "edges, heat" organ-measure --spectral --heat --color edge "$VERSE"
if grep -q nan "$T/out"; then bad "a map of the edges shows nan"; else ok; fi
cp "$T/out" "$T/heat"
check "--color edge alone" organ-measure --heat --color edge "$VERSE"
check_same "$T/out" "$T/heat" "--color edge implies --spectral"

# ---- the numbers ----
# A one-dimensional F32 tensor with nothing but od and awk.
organ-extract "$VERSE" --tensors output_norm.weight --output - > "$T/norm.bin"
size=$(wc -c < "$T/norm.bin")
tail -c $((size - 18 - 4 - 4 - 8 - 4)) "$T/norm.bin" | od -An -v -t f4 | mathawk '
    function log2(x) { return log(x) / log(2) }
    function bits(bins, i, c, n, h) {
        for (i = 0; i < N; i++) { n = int((x[i] - lo) / (hi - lo) * bins); if (n >= bins) n = bins - 1; c[n]++ }
        for (n in c) h += c[n] / N * log2(N / c[n])
        return h
    }
    { for (i = 1; i <= NF; i++) x[N++] = $i }
    END {
        lo = hi = x[0]
        for (i = 0; i < N; i++) { sum += x[i]; if (x[i] < lo) lo = x[i]; if (x[i] > hi) hi = x[i] }
        mean = sum / N
        for (i = 0; i < N; i++) { m2 += (x[i] - mean) ^ 2 / N; m4 += (x[i] - mean) ^ 4 / N }
        H = bits(256) / 8; K = m4 / m2 ^ 2 - 3
        for (i = 0; i < N - 1; i++) { a += x[i] / (N - 1); b += x[i + 1] / (N - 1) }
        for (i = 0; i < N - 1; i++) { ab += (x[i] - a) * (x[i + 1] - b); aa += (x[i] - a) ^ 2;
            bb += (x[i + 1] - b) ^ 2 }
        r = ab / sqrt(aa * bb); if (r < 0) r = -r
        row = atan2(sqrt(1 - r * r), r) * 45 / atan2(1, 1)
        for (i = 1; i < N; i++) { v = x[i]; for (j = i; j > 0 && x[j - 1] > v; j--) x[j] = x[j - 1]; x[j] = v }
        g = (hi - lo) / (N - 1)
        for (i = 1; i < N; i++) s += (x[i] - x[i - 1] - g) ^ 2 / (N - 1)
        C = sqrt(s) / g
        e = H > 0.7 ? (0.95 - H) / 0.25 : H < 0.3 ? H / 0.3 : 1; if (e < 0) e = 0
        k = K < 0 ? -K / 3 : K / 3; if (k > 1) k = 1
        c = (C - 0.5) / 0.5; if (c < 0) c = 0; if (c > 1) c = 1
        for (p = 4; p <= 10; p++) { y = bits(2 ^ p); sx += p; sy += y; sxx += p * p; sxy += p * y }
        printf "%d %.9g %.9g %.9g %.9g %.9g %.9g\n", N, H, K, C, 30 * (e + k + c),
            (7 * sxy - sx * sy) / (7 * sxx - sx * sx), row
    }' > "$T/want"
awk -F '\t' "$BY_NAME"'col("name") == "output_norm.weight" {
    print col("elements"), col("entropy"), col("kurtosis"), col("cv"), col("theta"), col("dimension"),
        col("row_theta") }' "$T/verse.tsv" > "$T/got"
# od prints 8 digits of a float, so gaps are good to some 1e-5
if paste -d ' ' "$T/want" "$T/got" |
    awk '{ for (i = 1; i <= 7; i++) { d = $i - $(i + 7); if (d < 0) d = -d; m = $i < 0 ? -$i : $i;
    if (d > 2e-5 * m + 1e-12) bad = 1 } }
    END { exit bad || NR != 1 || $1 < 2 }'; then ok
    else bad "awk finds other measures: $(cat "$T/want") against $(cat "$T/got")"; fi

if have python3 "what Python checks"; then
    reference() {
        python3 tests/cli/measure_reference.py "$@"
    }
    check "make a model" reference make "$T/made.gguf"
    for n in 1000 $(more 0 100000); do
        organ-measure --sample $n "$T/made.gguf" > "$T/made.tsv"
        check "measures from their definitions, $n samples" reference check "$T/made.gguf" "$T/made.tsv" $n
        # shellcheck disable=SC2002
        cat "$T/made.gguf" | organ-measure --sample $n - | cmp -s - "$T/made.tsv"
        check_text $? 0 "the same from a pipe, $n samples"
    done
    check "measures of a lab model" reference check "$VERSE" "$T/verse.tsv" 100000

    # Experts, whole and one by one.
    check_text "$(organ-measure "$T/made.gguf" | grep -c exps)" 1 "a stack is one row"
    check "experts" organ-measure --split-experts "$T/made.gguf"
    check_text "$(cells name "$T/out" | grep ffn_gate | tr '\n' ' ')" \
        "blk.0.ffn_gate.0.weight blk.0.ffn_gate.1.weight blk.0.ffn_gate.2.weight " "--split-experts"
    cp "$T/out" "$T/experts"
    organ-extract --split-experts "$T/made.gguf" --output - | organ-measure - > "$T/out"
    check_same "$T/out" "$T/experts" "experts split by organ-extract and by organ-measure"
    # shellcheck disable=SC2002
    cat "$T/made.gguf" | organ-measure --split-experts - > "$T/out"
    check_same "$T/out" "$T/experts" "experts from a pipe"
    check_text "$(organ-measure --experts 1 "$T/made.gguf" | cells name | tail -n +2)" "blk.0.ffn_gate.1.weight" \
        "--experts"
    check_text "$(organ-measure --split-experts --summary "$T/made.gguf" | awk -F '\t' \
        "$BY_NAME"'col("name") == "ffn_gate" { print col("group"), col("tensors") }')" "role 3" "experts are one role"
fi

# ---- types no codec knows ----
check "all types" organ-measure "$D/gguf/types-all.gguf"
check "a fork's type" sh -c "printf '\\1\\0\\0\\0x\\1\\0\\0\\0\\0\\1\\0\\0\\0\\0\\0\\0\\213\\0\\0\\0' \
    > $T/fork.bin && head -c 144 /dev/zero >> $T/fork.bin && organ-measure $T/fork.bin $T/d/norm/output_norm.bin"
check_text "$(awk -F '\t' "$BY_NAME"'col("name") == "x" {
    print col("dtype"), col("elements"), col("sampled"), col("theta"), col("row_theta") }' "$T/out")" \
    "IQ4_K 256 - - -" \
    "a type without codec has a row"
check_text "$(grep -c 'IQ4_K' "$T/err")" 1 "and a note"
check_text "$(grep -c '^output_norm' "$T/out")" 1 "and the run goes on"
check_text "$(organ-measure -q --json "$T/fork.bin" 2>&1 | grep -c '"theta": null.*"error": ')" 1 \
    "in JSON it is an error of the row"

# ---- summary, wells ----
check "summary" organ-measure --summary "$VERSE"
cp "$T/out" "$T/summary"
awk -F '\t' "$BY_NAME"'NR > 1 { n++; t = col("theta"); s += t; g += col("signal")
    if (n == 1 || t < lo) lo = t; if (n == 1 || t > hi) hi = t }
    END { printf "%d %.9f %.9f %.9f %.9f\n", n, s / n, lo, hi, g / n }' "$T/verse.tsv" > "$T/want"
awk -F '\t' "$BY_NAME"'col("group") == "model" {
    printf "%d %.9f %.9f %.9f %.9f\n", col("tensors"), col("theta"), col("theta_min"), col("theta_max"),
        col("signal") }' "$T/summary" > "$T/got"
check_same "$T/got" "$T/want" "the model's row is the mean of the tensors"
check_text "$(awk -F '\t' "$BY_NAME"'col("group") == "class" { n += col("tensors") } END {
    print n }' "$T/summary")" "$(awk '{ print $1 }' \
    "$T/want")" "classes add up"
check_text "$(awk -F '\t' "$BY_NAME"'col("group") == "role" { n += col("tensors") } END {
    print n }' "$T/summary")" "$(awk '{ print $1 }' "$T/want")" \
    "roles add up"
check_text "$(awk -F '\t' "$BY_NAME"'col("group") == "model" {
    print col("rating") }' "$T/summary")" "*" "one star below theta 80"
check "wells" organ-measure --wells 5 "$VERSE"
cells theta "$T/out" | tail -n +2 > "$T/got"
cells theta "$T/verse.tsv" | tail -n +2 | sort -g | head -n 5 > "$T/want"
check_same "$T/got" "$T/want" "the five deepest wells"
check_text "$(organ-measure --wells 0 "$VERSE" | wc -l | tr -d ' ')" 1 "no wells"

# ---- selection ----
check_text "$(organ-measure --type norm --layers 1 "$VERSE" | cells name | tail -n +2 | tr '\n' ' ')" \
    "blk.1.attn_norm.weight blk.1.ffn_norm.weight " "--type --layers"
organ-measure "$VERSE" | awk "$BY_NAME"'NR == 1 || col("theta") < 42' | cut -f 1 | sed 1d | sort > "$T/want"
organ-measure "$T/d" --where 'theta<42' | organ-measure --names-from - "$VERSE" | cells name | tail -n +2 | sort \
    > "$T/got"
check_same "$T/got" "$T/want" "--names-from takes what organ-measure prints"
check_error 1 "no tensor matches 'nothing'" "nothing selected" organ-measure --tensors nothing "$VERSE"

# ---- manifest ----
cp "$T/d/manifest.json" "$T/before.json"
check "update" organ-measure --update --type norm "$T/d"
check_text "$(diff "$T/before.json" "$T/d/manifest.json" |
    grep -c '^>')" "$(awk -F '\t' "$BY_NAME"'col("class") == "norm"' \
    "$T/verse.tsv" | wc -l | tr -d ' ')" "only the selected lines change"
sed 's/, "z": {[^}]*}//' "$T/d/manifest.json" > "$T/out"
check_same "$T/out" "$T/before.json" "and only by their z"
if have jq "JSON read by jq"; then
    check_text "$(jq -r \
        '.tensors[] | select(.name == "output_norm.weight") | .z | [.elements, .sampled, .theta, .row_theta] | @tsv' \
        "$T/d/manifest.json" 2>&1 | wc -w | tr -d ' ')" 4 "z in the manifest"
    check_text "$(jq -c '.tensors[] | select(.name == "output_norm.weight") | .z | keys_unsorted' \
        "$T/d/manifest.json" | tr -d '[]"' | tr , ' ')" \
        "$(echo "${COLUMNS#name class block dtype }" | sed 's/ part edge importance$//')" \
        "the keys of z are the columns"
    check "json" organ-measure --json "$VERSE"
    jq -r '[.name, .block // "-", .theta] | @tsv' "$T/out" | awk -F '\t' '{ printf "%s %s %.9f\n", $1, $2, $3 }' \
        > "$T/got"
    cells name,block,theta "$T/verse.tsv" | awk -F '\t' 'NR > 1 { printf "%s %s %.9f\n", $1, $2, $3 }' > "$T/want"
    check_same "$T/got" "$T/want" "JSON says what TSV says"
fi
# What a user wrote into it stays, to the byte.
cp -R "$T/d" "$T/edited"
sed 's/, "z": {[^}]*}//; s/"format": "organ-manifest"/&, "mine": [1.50, {"k": "},\\"\\\\"}]/;
    s/"name": "output_norm.weight"/&, "note": "keep"/
    s/"sha256": "[0-9a-f]*"/&, "said": "\\"x, y}\\", z", "history": [{"op": "x", "by": 1e0}]/' \
        "$T/before.json" > "$T/edited.json"
cp "$T/edited.json" "$T/edited/manifest.json"
check "update of an edited manifest" organ-measure --update --type norm,organ "$T/edited"
check_text "$(grep -c '"z": {' "$T/edited/manifest.json")" "$(awk -F '\t' "$BY_NAME"'col("class") == "norm" ||
    col("class") == "organ"' \
    "$T/verse.tsv" | wc -l | tr -d ' ')" "z beside what a user wrote"
sed 's/, "z": {[^}]*}//' "$T/edited/manifest.json" > "$T/out"
check_same "$T/out" "$T/edited.json" "what a user wrote stays"
cp "$T/edited/manifest.json" "$T/edited.json"
check "update again" organ-measure --update "$T/edited" --tensors output_norm.weight
check_same "$T/edited/manifest.json" "$T/edited.json" "updating again changes nothing"
if have jq "JSON read by jq"; then
    jq . "$T/d/manifest.json" > "$T/edited/manifest.json"
    check "update of what jq laid out" organ-measure --update "$T/edited"
    check_text "$(jq -c 'del(.tensors[].z)' "$T/edited/manifest.json")" "$(jq -c 'del(.tensors[].z)' \
        "$T/d/manifest.json")" "jq's manifest keeps its rest"
    check_text "$(jq '[.tensors[] | select(.z.theta)] | length' "$T/edited/manifest.json")" "$(($(wc \
        -l < "$T/verse.tsv") - 1))" "and has all measures"
fi
check "still whole" organ-assemble "$T/d" --output "$T/again.gguf"
check_same "$T/again.gguf" "$VERSE" "an updated directory makes the same model"
check_error 2 "organ directory" "update of a file" organ-measure --update "$VERSE"

# Runs of one sample, or more runs than a small tensor has places for: as without runs.
mkmodel "$T/runs.gguf" blk.0.ffn_up.weight:Q4_K:256x10 blk.0.ffn_down.weight:F32:100000x2
for few in "9 1" "9 8" "1000 1000"; do
    check "--runs and --sample: $few" organ-measure -q --runs "${few% *}" --sample "${few#* }" "$T/runs.gguf"
    check_text "$(cat "$T/out")" "$(organ-measure -q --sample "${few#* }" "$T/runs.gguf")" \
        "--runs and --sample: $few: its rows"
done

# ---- when it cannot ----
check_error 4 "$T/none.gguf" "no such model" organ-measure "$T/none.gguf"
check_error 2 "theta" "unknown colour" organ-measure --heat --color blue "$VERSE"
check_error 2 "no model" "no model" organ-measure
head -c 1000000 "$VERSE" > "$T/cut.gguf"
check_exit 3 "a cut pipe" sh -c "cat $T/cut.gguf | organ-measure -"
check_exit 3 "a cut file" organ-measure "$T/cut.gguf"
if [ -w /dev/full ]; then check_exit 4 "a full disk" sh -c "organ-measure $VERSE > /dev/full"; fi
check "help" organ-measure --help
if [ "$(wc -l < "$T/out")" -le 40 ] && [ "$(awk 'length > 80' "$T/out" | grep -vc organ-measure)" = 0 ]; then ok; \
    else bad "--help is longer than a screen"; fi

# Names of models and files are escaped on the terminal, once.
printf '\033' > "$T/esc"
cp $LAB/lab-lora-code.gguf "$T/a$(cat "$T/esc")[31m.gguf"
organ-extract -q "$T/a$(cat "$T/esc")[31m.gguf" --tensors 'blk.0.attn_q*' --output - > "$T/b$(cat "$T/esc")[31m.bin"
check "a file's name over the heat map" sh -c "organ-measure '$T/b$(cat \
    "$T/esc")[31m.bin' --heat | head -n 3 | grep -F 'b\\x1b[31m.bin'"
finish
