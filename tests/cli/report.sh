#!/bin/sh
# report.sh - organ-report: its numbers are organ-measure's, nothing in a name becomes
# markup, the page needs nothing else and renders.
# shellcheck disable=SC2016 # awk and inner shells expand their own
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"
scripts=$PWD/scripts ORGAN_BIN=$BIN
export ORGAN_BIN
report() { "$scripts/organ-report" "$@" > "$T/report.out" 2> "$T/report.err"; }
md=$T/rep/Z_MEASURE_REPORT.md
html=$T/rep/Z_MEASURE_REPORT.html

# Models by themselves, a table, JSON Lines, an organ directory: all that is taken.
mkdir "$T/in"
organ-measure "$LAB/lab-verse-q4_k_m.gguf" > "$T/in/table.tsv"
organ-measure --json "$LAB/lab-code-q4_k_m.gguf" > "$T/in/lines.jsonl"
organ-extract -q "$D/gguf/names-odd.gguf" --output "$T/in/odd names"
cp "$LAB/lab-base-q4_k_m.gguf" "$T/in/"
for i in 1 2 3; do cp "$D/gguf/x-0000$i-of-00003.gguf" "$T/in/"; done
report --output "$T/rep" "$T/in"
check_text $? 0 "a folder of all kinds"
for name in table lines "odd names" lab-base-q4_k_m x; do
    check "$name is in the Markdown" grep -q "^| [0-9]* | \`$name\` |" "$md"
    check "$name is in the page" grep -qF ">$name</h3>" "$html"
done
check_text "$(grep -c '<article class="card model' "$html")" 5 "five models, shards being one"
check_text "$(grep -c subfolders "$T/report.err")" 0 "no note on organ directories"
mkdir "$T/over" "$T/over/sub"
ln -s "$T/in/table.tsv" "$T/over/table.tsv"
ln -s "$PWD/$LAB/lab-base-q4_k_m.gguf" "$T/over/sub/m.gguf"
report --output "$T/rep2" "$T/over"
status=$?
said="over: its subfolders .*; name them to see those: organ-report ... $T/over $T/over/sub\$"
check_text "$status $(grep -c "$said" "$T/report.err")" "0 1" "models in a subfolder"

# The colours of the maps have the limits of the pictures of organ-measure, in reports and on the page of organ-serve.
map_limits='const { limits } = await import(process.cwd() + "/scripts/serve/selection.js");
    const { readFileSync } = await import("node:fs");
    const [head, ...rows] = readFileSync(process.argv[1], "utf8").trim().split("\n").map((l) => l.split("\t"));
    const theta = head.indexOf("theta"), { low, high } = limits(rows.map((r) => parseFloat(r[theta])), true);
    console.log(low + " " + high);'
have node "the limits of colours on the page" && page=y || page=
for m in verse code base; do
    organ-measure "$LAB/lab-$m-q4_k_m.gguf" > "$T/edge.tsv"
    organ-measure --force --svg "$T/edge.svg" "$LAB/lab-$m-q4_k_m.gguf"
    report --force --format html --output "$T/edge" "$T/edge.tsv"
    limits="$(sed -n 's/.* class="right">\([0-9]*\)<.*/\1/p' "$T/edge.svg" | head -n 1) $(sed -n \
        's/.* x="328" .* class="">\([0-9]*\)<.*/\1/p' "$T/edge.svg" | head -n 1)"
    check_text "$(sed -n 's/.* \([0-9]*\)\.0[^ ]* or less<.*/\1/p; s/^<.svg>\([0-9]*\)\.0[^ ]* or more<.*/\1/p' \
        "$T/edge/Z_MEASURE_REPORT.html" | tr '\n' ' ')" "$limits " "limits of colours, $m"
    [ -z "$page" ] || check_text "$(node --input-type=module -e "$map_limits" "$T/edge.tsv" 2>&1)" "$limits" \
        "limits of colours on the page, $m"
done

# The ranking as data; chimeras say what they were made of, parts of streams how far they are.
mkdir "$T/kin"
organ-graft -q --base "$LAB/lab-verse-q4_k_m.gguf" --donor "$LAB/lab-code-q4_k_m.gguf" --type organ \
    --output "$T/kin/graft"
organ-merge -q --method linear --model "$LAB/lab-base-q4_k_m.gguf" --model "$LAB/lab-code-q4_k_m.gguf" \
    --output "$T/kin/merged.gguf"
mkdir "$T/kin/part"
organ-measure --json --layers 0 "$LAB/lab-code-q4_k_m.gguf" > "$T/kin/part/measures.jsonl"
organ-measure --layers 0 "$LAB/lab-code-q4_k_m.gguf" > "$T/kin/part/measures.tsv"
printf '{\n  "complete": false,\n  "progress": "9 of 1039 tensors",\n}\n' > "$T/kin/part/z_report_part.json"
report --output "$T/data" "$T/kin" "$T/kin/part" "$LAB/lab-base-q4_k_m.gguf"
data=$T/data/z_measure_report.json
if have jq "JSON read by jq"; then
    check_text "$(jq -r '.format + " " + .ranking.by + " " + (.ranking.models | length | tostring)' "$data")" \
        "organ-measure-report theta 4" "the ranking as data"
    check_text "$(jq -c '.ranking.models[] | select(.model == "graft").made_of' "$data")" \
        "[\"$LAB/lab-code-q4_k_m.gguf\"]" "what a graft was made of"
    check_text "$(jq -c '.ranking.models[] | select(.model == "merged").made_of' "$data")" '["lab-base","lab-code"]' \
        "what a merge was made of"
    check_text "$(jq -c '.ranking.models[] | select(.model == "lab-base-q4_k_m") | [.made_of, .progress]' "$data")" \
        '[[],null]' "a model that is complete and no chimera"
    check_text "$(jq -r '.ranking.models[] | select(.model == "part").progress' "$data")" \
        "9 of 1039 tensors, in progress" "a model that is not complete"
    check_text "$(jq '[.ranking.models[].theta] | . == (sort | reverse)' "$data")" true "highest first"
fi
check_text "$(grep -c '<span class="dim">chimera</span>' "$T/data/Z_MEASURE_REPORT.html")" 2 "two chimeras in the page"
check "the part in the page" grep -q '<b>9 of 1,039 tensors, in progress</b>' "$T/data/Z_MEASURE_REPORT.html"
check_text "$(grep -c 'class="series a"' "$T/data/Z_MEASURE_REPORT.html")" 3 \
    "lines for the three models of several blocks"
check_text "$(grep -c '<figure class="[a-z]*"><figcaption>' "$T/data/Z_MEASURE_REPORT.html")" 12 \
    "histograms of three models, none of a table"
organ-measure --histogram - "$LAB/lab-base-q4_k_m.gguf" > "$T/values"
check "the bars of a class" grep -qF "$(awk -F '\t' \
    "$BY_NAME"'col("class") == "norm" && col("low") != "-" && col("high") != "-" {
        v[++n] = col("values") + 0; if (v[n] > most) most = v[n] }
    END { for (i = 1; i <= n; i++) printf "V%.1fH%.1f", 66 - 62 * v[i] / most, 2 + i * 156 / n;
        print "V66Z" }' "$T/values")" "$T/data/Z_MEASURE_REPORT.html"
check_text "$(grep -c 'class="origins scroll"' "$T/data/Z_MEASURE_REPORT.html") $(grep \
    -c '<title>blk.*.ffn_[a-z]*: lab-code-q4_k_m.gguf, replace</title>' "$T/data/Z_MEASURE_REPORT.html")" "2 12" \
    "the maps of a graft and a merge"
check_text "$(grep -c '<title>blk.*: merge weight=1 ' "$T/data/Z_MEASURE_REPORT.html")" 36 "how a merge was made"
cp -r "$scripts/lib" "$scripts/report" "$T"
sed 's/20000/20/g' "$scripts/report/report-values.awk" > "$T/report/report-values.awk"
check "a map of too many tensors" env ORGAN_LIB="$T/lib" "$scripts/organ-report" -q --format html --output "$T/many" \
    "$T/kin/graft"
check_text "$(grep -c 'too many tensors' "$T/many/Z_MEASURE_REPORT.html") $(grep -c 'class="origins' \
    "$T/many/Z_MEASURE_REPORT.html")" "1 0" "is left out"
check_text "$(grep -c '<style>' "$T/data/Z_MEASURE_REPORT.html")" 1 "without a style of its own"
check_text "$(grep -c 'id="components"' "$T/data/Z_MEASURE_REPORT.html")" 0 "no components without experts"
sed "s/blk.1.ffn_up.weight/blk.1.ffn_up_exps.weight/; s/blk.2.ffn_up.weight/blk.2.ffn_up_shexp.weight/" \
    "$T/in/table.tsv" > "$T/moe.tsv"
report --output "$T/moe" "$T/moe.tsv"
check_text "$(sed -n '/id="components"/,/<\/section>/s/.*<td class="l n strong">\([a-z A-Z]*\)<.*/\1/p' \
    "$T/moe/Z_MEASURE_REPORT.html" | sort | tr '\n' ',')" \
    "attention,dense FFN,embedding,experts and router,norms,shared expert," "the components of a model with experts"

# The rows of a map are those of the picture, whatever the order of the tensors is.
{ head -n 1 "$T/in/table.tsv"; tail -n +2 "$T/in/table.tsv" | sort; } > "$T/sorted.tsv"
report --format html --output "$T/sorted" "$T/sorted.tsv"
check_text "$(sed -n 's/.*text-anchor="end"><title>\([a-z_]*\)<.*/\1/p' "$T/sorted/Z_MEASURE_REPORT.html" | head -n 9 \
    | tr '\n' ' ')" \
    "attn_k attn_output attn_q attn_v ffn_down ffn_gate ffn_up attn_norm ffn_norm " "rows by class"

# The numbers.
organ-measure "$LAB/lab-verse-q4_k_m.gguf" --summary > "$T/summary"
theta=$(awk -F '\t' "$BY_NAME"'col("group") == "model" { printf "%.2f | ", col("theta") }' "$T/summary")
calibrated=$(awk -F '\t' "$BY_NAME"'col("group") == "model" {
    printf "| %.2f | %.3f | %.2f |", col("calibrated"), col("signal"), col("row_theta") }' "$T/summary")
check "mean theta is organ-measure's" grep -q "\`table\` | $theta" "$md"
check "calibrated, signal and row theta too" grep -qF "$calibrated" "$md"
report --output "$T/one" "$T/in/table.tsv"
awk -F '\t' "$BY_NAME"'col("group") == "role" { printf "| `%s` | ", col("name");
    printf "%s %.2f %.2f %.2f\n", col("tensors"), col("theta"), col("theta_min"), col("theta_max") }' "$T/summary" \
    | sort > "$T/roles.want"
sed -n '/^## Profile/,/^## Wells/p' "$T/one/Z_MEASURE_REPORT.md" | awk -F ' [|] ' \
    '/^[|] `/ { split($7, r, " to "); sub(/^[|] /, "", $1); print "| " $1 " | " $3 " " $5 " " r[1] " " r[2] }' | sort \
    > "$T/roles.have"
check_same "$T/roles.have" "$T/roles.want" "means and ranges of tensor kinds are organ-measure's"
organ-measure "$LAB/lab-verse-q4_k_m.gguf" --wells 10 |
    awk -F '\t' "$BY_NAME"'NR > 1 { print col("name") }' > "$T/wells.want"
sed -n '/^## Wells/,$p' "$T/one/Z_MEASURE_REPORT.md" | awk -F '`' '/^[|] `/ { print $2 }' > "$T/wells.have"
check_same "$T/wells.have" "$T/wells.want" "the wells are organ-measure's"
check "a map cell has its tensor's theta" grep -q "block 2 attn_k: $(awk -F '\t' \
    "$BY_NAME"'col("name") == "blk.2.attn_k.weight" {
        printf "%.2f", col("theta") }' "$T/in/table.tsv")" "$T/one/Z_MEASURE_REPORT.html"
check_text "$(sed -n '/^## Ranking/,/^## Scale/p' "$md" | awk -F ' [|] ' '/^[|] [0-9]/ { if ($NF == type &&
    $3 > last) bad = 1; if (($1 == "| 1") != ($NF != type)) bad = 1; last = $3; type = $NF } END { print bad + 0 }')" \
    0 "ranked by theta within each type, highest first"
check "the limits of theta are beside its ranking" grep -q 'random numbers can rank first' "$md"
check "in the page too" grep -q 'random numbers can rank first' "$html"
# Noise is 0 in one column, and in no other.
check_text "$(grep -E -i -c 'above noise|null theta|noise scores about' "$md")" 0 "one null value in the Markdown"
check_text "$(grep -E -i -c 'above noise|null |\(noise ' "$html")" 0 "one null value in the page"

# What the owner of the models wants to know comes first: broken files, copies, what each model is.
mkdir "$T/own"
cp "$LAB/lab-code-q4_k_m.gguf" "$T/own/a.gguf"
cp "$LAB/lab-code-q4_k_m.gguf" "$T/own/copy.gguf"
cp "$LAB/lab-base-q4_k_m.gguf" "$T/own/other.gguf"
organ-keys -q "$LAB/lab-base-q4_k_m.gguf" --set llama.attention.head_count=u32:3 --output "$T/own/heads.gguf" \
    2> /dev/null || bad "heads"
head -c 100000 "$LAB/lab-base-q4_k_m.gguf" > "$T/own/cut.gguf"
check_exit 1 "a folder with a broken file" "$scripts/organ-report" -q --output "$T/owner" "$T/own"
own=$T/owner/Z_MEASURE_REPORT
check_text "$(grep '^## ' "$own.md" | head -n 4 | tr '\n' ' ')" "## Problems ## Duplicates ## Files ## Measures " \
    "what comes first"
check_text "$(sed -n '/^## Problems/,/^## Dup/p' "$own.md" | grep -c '^- `cut`.*incomplete')" 1 \
    "an incomplete file is a problem"
check_text "$(sed -n '/^## Problems/,/^## Dup/p' "$own.md" | grep \
    -c '^- `heads`.*will not load it.*do not divide 3 heads')" 1 "a model that no engine loads is a problem"
check_text "$(grep -c '^- `' "$own.md")" 2 "the sound models are no problems"
check "a copy" grep -q '^| `copy` | `a` | 1.89 MB |' "$own.md"
check "a model with other keys has the same tensors, but is another file" grep \
    -q '^| `other` | `heads` | 39 of 39 tensors, 1.87 MB |' "$own.md"
check "which is folded" grep -q '^<details><summary>1 other file has tensors of another</summary>' "$own.md"
check_text "$(sed -n 3p "$own.md")" "5 files: 3 fine, 2 broken, 1 exact copy (1.89 MB)." "the report in one line"
check "the page begins with it" grep -q \
    '<p class="short">5 files: 3 fine, 2 broken, 1 exact copy (1.89 MB)</p>' "$own.html"
check_text "$(sed -n 3p "$T/one/Z_MEASURE_REPORT.md")" "1 file: 0 fine, 0 broken, 1 not checked, 0 exact copies." \
    "of a table alone nothing was checked"

# Importance matrices, adapters and projectors are among the files, and nowhere else.
mkdir "$T/mixed"
cp "$LAB/lab-code-q4_k_m.gguf" "$LAB/lab-lora-code.gguf" "$LAB/lab-base.imatrix.gguf" "$T/mixed"
mkmodel "$T/vision" v.blk.0.ffn_up.weight:F32:64,64 v.blk.0.ln1.weight:F32:64 mm.0.weight:F32:64,64
organ-keys -q "$T/vision" --set general.architecture=str:clip --set clip.has_vision_encoder=bool:true \
    --set clip.projector_type=str:mlp --output "$T/mixed/mmproj.gguf" 2> /dev/null || bad "a projector"
report --output "$T/mixed-report" "$T/mixed"
report --format md --output "$T/alone" "$T/mixed/lab-code-q4_k_m.gguf"
mixed=$T/mixed-report/Z_MEASURE_REPORT
check_text "$(sed -n '/^## Files/,/^## Measures/p' "$mixed.md" | awk -F ' [|] ' '/^[|] `/ { print $2 }' | sort \
    | tr '\n' ',')" \
    "adapter,importance matrix,language model,projector," "the kinds of the files"
sed -n '/^## Measures/,$p' "$mixed.md" > "$T/have"
sed -n '/^## Measures/,$p' "$T/alone/Z_MEASURE_REPORT.md" > "$T/want"
check_same "$T/have" "$T/want" "the measures are those of the model alone"
check_text "$(sed -n 's,<div class="card tile"><b>\([^<]*\)</b>.*,\1,p' "$mixed.html" | head -n 3 | tr '\n' ' ')" \
    "1 39 2.89M " "the tiles too"
check_text "$(grep -c 'class="card model' "$mixed.html")" 1 "one card"
# Tables alone have no kind, but the parts of their tensors.
mkdir "$T/tables"
for f in "$T/mixed"/*.gguf; do organ-measure -q "$f" > "$T/tables/$(basename "$f" .gguf).tsv"; done
report --format md --output "$T/tables-report" "$T/tables"
sed -n '/^## Measures/,$p' "$T/tables-report/Z_MEASURE_REPORT.md" | sed 's/| 1.89 MB |/| - |/' > "$T/have"
sed 's/| 1.89 MB |/| - |/' "$T/want" > "$T/want2"
check_same "$T/have" "$T/want2" "of tables too"
check "what the copies cost" grep -q '3.74 MB would be saved' "$own.md"
check "what a model is" grep -q '^| `a` | language model | llama | 2.89M | 512 | Q4.*| 5.18 | 1.89 MB |' "$own.md"
check "the page has them too" grep -q '<summary>1 other file has tensors of another</summary>' "$own.html"
check_text "$(grep -Eo 'id="(problems|duplicates|files|ranking)"' "$own.html" | tr '\n' ' ')" \
    'id="problems" id="duplicates" id="files" id="ranking" ' "their order in the page"
if have jq "JSON read by jq"; then check_text "$(jq -c '[.saved, (.duplicates | length), (.problems | length)]' \
    "$T/owner/z_measure_report.json")" '[3735552,2,2]' "the same as data"; fi

# With many models each is folded, and only the facts about the files are printed.
mkdir "$T/fifty"
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do head -n 5 "$T/in/table.tsv" > "$T/fifty/m$i.tsv"; done
report --output "$T/fifties" "$T/fifty"
check_text "$(grep -c '<details class="fold"' "$T/fifties/Z_MEASURE_REPORT.html")" 13 "thirteen models are folded"
check "for the rules of printing" grep -q '<main class="many">' "$T/fifties/Z_MEASURE_REPORT.html"
check_text "$(grep -Ec 'class="fold"|class="many"' "$own.html")" 0 "a few models are not"

# With the edge: ranked by it, whatever theta says, and those without one come last.
organ-measure --spectral "$LAB/lab-code-q4_k_m.gguf" > "$T/in/edge.csv"
mkdir "$T/edges"
awk -F '\t' -v OFS='\t' "$BY_NAME"'NR > 1 { $columns["theta"] = 80 } { print }' "$T/in/edge.csv" > "$T/edges/shaky.tsv"
awk -F '\t' -v OFS='\t' "$BY_NAME"'NR > 1 { $columns["theta"] = 20
    if (col("edge") != "-") $columns["edge"] *= 2 } { print }' "$T/in/edge.csv" \
    > "$T/edges/steady.tsv"
awk -F '\t' -v OFS='\t' "$BY_NAME"'NR > 1 { $columns["theta"] = 89; $columns["edge"] = "-" }
    { print }' "$T/in/edge.csv" > "$T/edges/unknown.tsv"
cp "$T/in/table.tsv" "$T/edges/z-old.tsv"
without edge,importance "$T/in/table.tsv" > "$T/edges/shaky2.tsv"
rm "$T/in/edge.csv"
report --output "$T/edges/out" "$T/edges"
edge=$(awk -F '\t' "$BY_NAME"'NR > 1 && col("edge") != "-" { s += col("edge"); n++ } END {
    printf "%.2f %.2f", 2 * s / n, s / n }' \
    "$T/edges/shaky.tsv")
check_text "$(sed -n '/^## Ranking/,/^## Scale/p' "$T/edges/out/Z_MEASURE_REPORT.md" | awk -F ' [|] ' \
    '/^[|] [0-9]/ { print $2, $3 }')" \
    "\`steady\` ${edge% *}
\`shaky\` ${edge#* }
\`shaky2\` -
\`unknown\` -
\`z-old\` -" "ranked by edge"
check_text "$(sed -n '/^## Ranking/,/^## Scale/p' "$T/edges/out/Z_MEASURE_REPORT.md" | awk -F ' [|] ' \
    '/^[|] [0-9]/ { print $2, $5 }' | tr '\n' ' ')" \
    '`steady` 1 `shaky` 2 `shaky2` 1 `unknown` 3 `z-old` 1 ' "stars from 80 and 89 degrees"
star=$(printf '\342\230\205')
check_text "$(grep -c "aria-label=\"3 stars\">$star$star$star<" "$T/edges/out/Z_MEASURE_REPORT.html")" 1 \
    "in the page too"
check "what the edge cannot tell" grep -q 'not a measure of quality' "$T/edges/out/Z_MEASURE_REPORT.md"
check "in the page" grep -q 'about 1 for random or shuffled values' "$T/edges/out/Z_MEASURE_REPORT.html"
roles=$(organ-measure --spectral --summary "$LAB/lab-code-q4_k_m.gguf" | awk -F '\t' \
    "$BY_NAME"'col("name") == "attn_q" { printf "%.2f", 1.5 * col("edge") }')
check_text "$(awk -F ' [|] ' '/^[|] `attn_q`/ { printf "%.2f", $11 }' "$T/edges/out/Z_MEASURE_REPORT.md")" "$roles" \
    "the mean edge of a kind"
check "measured with --spectral" "$scripts/organ-report" -q --spectral --format md --output "$T/edges/made" \
    "$LAB/lab-code-q4_k_m.gguf"
check_text "$(awk -F ' [|] ' '/^[|] 1 / { print $3 }' "$T/edges/made/Z_MEASURE_REPORT.md")" "${edge#* }" "its edge"

check "no trend is drawn through one size" grep -q 'No trend is fitted' "$T/one/Z_MEASURE_REPORT.md"

# Three sizes on a line: theta = 30 + 2 log10(parameters).
for e in 3 5 8; do
    awk -v e=$e 'BEGIN { OFS = "\t"
        print "name\tclass\tblock\tdtype\telements\tsampled\tnonfinite\tmean\tstd\tmin\tmax\tentropy\tkurtosis\tcv",
            "theta\tsignal\tdimension\tnull_theta\tcalibrated\trow_theta\tpart"
        n = 1; for (i = 0; i < e; i++) n *= 10
        print "blk.0.ffn_up.weight", "organ", 0, "F16", n, 100, 0, 0, 1, -1, 1, 0.5,
            0, 1, 30 + 2 * e, 0.5, 1, 25, 5, 80 }' > "$T/in/e$e.tsv"
done
report --output "$T/trend" "$T/in/e3.tsv" "$T/in/e5.tsv" "$T/in/e8.tsv"
check "a trend over sizes" grep -q 'higher by 2.00 degrees (least squares over 3 models, correlation 1.00)' \
    "$T/trend/Z_MEASURE_REPORT.md"

# The folders of organ-fleet and organ-stream.
cp "$LAB/lab-stranger-q4_k_m.gguf" "$T/"
for verb in dissect measure; do
    : > "$T/mark"
    # A second later, because busybox find compares whole seconds.
    [ $verb = dissect ] || { sleep 1; touch "$T/lab-stranger-q4_k_m.gguf"; }
    "$scripts/organ-fleet" $verb -q --lineage --output "$T/fleet" "$LAB/lab-base-q4_k_m.gguf" \
        "$T/lab-stranger-q4_k_m.gguf" "$LAB/lab-code-q4_k_m.gguf" "$D/malformed.tsv" > "$T/table" 2> "$T/report.err"
    check_text "$?" 1 "a fleet with a broken model"
done
check_text "$(cd "$T/fleet/pairs" && find . -type f -newer "$T/mark" | sort | tr '\n' ' ')" \
    "./lab-base-q4_k_m/lab-stranger-q4_k_m ./lab-code-q4_k_m/lab-stranger-q4_k_m " \
    "only pairs of a changed model are compared again"
"$scripts/organ-stream" -q --output "$T/streamed" "$D/gguf/x-00001-of-00003.gguf" > "$T/table"
counts='{ gsub(/[{}"]/, ""); split($0, p, ", "); sub(/.*: /, "", p[1]); sub(/.*: /, "", p[4]); n[p[1]] += p[4] }
    END { for (c in n) print c, n[c] }'
organ-measure --sample 0 --json --histogram - "$D/gguf/x-00001-of-00003.gguf" | awk "$counts" | sort > "$T/want"
awk "$counts" "$T/streamed/histogram.jsonl" | sort > "$T/have"
check_same "$T/have" "$T/want" "the values of a stream, added up over its shards"
printf '{"class": "norm", "low": %s, "high": %s, "values": %s}\n' null -1 2 -1 -0.5 3 -0.5 0 4 0.5 1 5 1 null 6 null \
    -2 1 -2 -1 7 0 1 8 1 2 9 > "$T/shards"
check_text "$(awk -f "$scripts/stream/stream-values.awk" "$T/shards" |
    sed 's/.*"low": //; s/"[a-z]*": //g; s/[},]//g' | tr '\n' ';')" \
    "null -2 3;-2 -1 7;-1 0 7;0 1 13;1 2 9;2 null 6;" "bins of two widths"
report --output "$T/folders" "$T/fleet" "$T/streamed" "$T/kin/graft"
both=$T/folders/Z_MEASURE_REPORT
check "a fleet's model" grep -q '^| [0-9] | `lab-base-q4_k_m` | .* | 1.89 MB |' "$both.md"
check "its failure" grep -q '^- `malformed.tsv`: `organ-measure: ' "$both.md"
check "a streamed model by its name" grep -q '^| [0-9] | `x` | ' "$both.md"
organ-compare --lineage "$LAB/lab-base-q4_k_m.gguf" "$LAB/lab-code-q4_k_m.gguf" > "$T/verdict"
check_text "$(awk -F '\t' "$BY_NAME"'col("model_b") == "lab-code-q4_k_m" { sub(/^[^\t]*\t[^\t]*\t/, "");
    print }' "$T/fleet/lineage.tsv")" \
    "$(tail -n 1 "$T/verdict")" "the lineage of a pair is organ-compare's"
check_text "$(cells model_a,model_b,verdict "$T/fleet/lineage.tsv" | tr '\t\n' ' ;')" \
    "$(printf '%s;' 'model_a model_b verdict' 'lab-base-q4_k_m lab-code-q4_k_m same lineage' \
        'lab-base-q4_k_m lab-stranger-q4_k_m strangers' 'lab-code-q4_k_m lab-stranger-q4_k_m strangers')" \
    "every pair once"
cosine=$(awk -F '\t' "$BY_NAME"'NR == 2 {
    printf "%.3f\">%.0f", col("cosine_median"), 100 * col("cosine_median") }' "$T/verdict")
check_text "$(sed -n '/class="pairs"/,/<\/table>/p' "$both.html" | grep \
    -c "<td class=\"pair kin\" title=\"[^\"]*: same lineage, $cosine</td>")" 2 "a pair in two cells"
check_text "$(sed -n '/class="pairs"/,/<\/table>/p' "$both.html" | grep \
    -c '<td class="pair far" title="[^"]*: strangers, ')" 4 "strangers"
check "in Markdown" grep -q '^| `lab-base-q4_k_m` | `lab-code-q4_k_m` | same lineage | 0.98' "$both.md"
if have jq "JSON read by jq"; then
    check_text "$(jq -r '.lineage[] | select(.verdict == "same lineage") | .a + " " + .b' \
    "$T/folders/z_measure_report.json")" "lab-base-q4_k_m lab-code-q4_k_m" "as data"; fi
bytes=$(organ-extract --list "$LAB/lab-code-q4_k_m.gguf" | awk -F '\t' \
    "$BY_NAME"'NR > 1 && col("class") == "organ" { n += col("bytes") } END { printf "%d", n }')
check_text "$(sed -n '/id="dissection"/,/<\/table>/s/.*>lab-code-q4_k_m<.*data-v="39">39<.*/row/p' \
    "$both.html") $(sed -n '/id="dissection"/,/<\/table>/p' "$both.html" | grep -c "lab-code.*")" "row 1" \
    "what was dissected"
check "seconds of the dissection" grep -q "^| .lab-code-q4_k_m. | 39 | 1.87 MB | $(awk '{ printf "%.2f", $1 }' \
    "$T/fleet/models/lab-code-q4_k_m/dissect.seconds") | [0-9-]" "$both.md"
check_text "$(sed -n '/id="dissection"/,/<\/table>/p' "$both.html" | grep -c "<td data-v=\"$bytes\">")" 3 \
    "the size of a class"

# Whatever awk there is, the same report: busybox's may have no mathematics.
report --format html --output "$T/awk.html" "$T/in/e3.tsv" "$T/in/e5.tsv" "$T/in/e8.tsv" "$T/fleet"
report --format md --output "$T/awk.html" "$T/in/e3.tsv" "$T/in/e5.tsv" "$T/in/e8.tsv" "$T/fleet"
made() { cat "$1"/*.html "$1"/*.md | sed '/Made 2/d'; }
made "$T/awk.html" > "$T/awk.want"
for awk in "busybox awk" gawk mawk original-awk; do
    wanted_awk "$awk" || continue
    rm -rf "$T/awk.d"
    mkdir "$T/awk.d"
    printf '#!/bin/sh\nexec %s "$@"\n' "$awk" > "$T/awk.d/awk"
    chmod +x "$T/awk.d/awk"
    check "a report by $awk" env PATH="$T/awk.d:$PATH" "$scripts/organ-report" -q --force --output "$T/by-awk" \
        "$T/in/e3.tsv" "$T/in/e5.tsv" "$T/in/e8.tsv" "$T/fleet"
    made "$T/by-awk" > "$T/awk.have"
    check_same "$T/awk.have" "$T/awk.want" "the report by $awk"
done

# A block number without bounds, no tensors, tensors that no codec decodes.
sed "s/blk\.0/blk.4000000000/; s/${TAB}0$TAB/${TAB}4000000000$TAB/" "$T/in/e3.tsv" > "$T/huge.tsv"
check "a huge block number" "$scripts/organ-report" -q --output "$T/huge" "$T/huge.tsv"
head -n 1 "$T/in/table.tsv" > "$T/empty.tsv"
check "no tensors at all" "$scripts/organ-report" -q --output "$T/none" "$T/empty.tsv"
awk 'BEGIN { FS = OFS = "\t" } NR > 1 { for (i = 6; i <= 20; i++) $i = "-" } { print }' "$T/in/e3.tsv" \
    > "$T/undecoded.tsv"
check "tensors without measures" "$scripts/organ-report" -q --output "$T/undecoded" "$T/undecoded.tsv"

# Hostile names, of models and tensors.
evil='<script>alert(1)</script> & "q" `b` |x| $(id) \n'
awk -v OFS='\t' 'BEGIN { FS = "\t" }
    NR == 2 {
        print "<img src=x onerror=alert(1)>`|`\"&amp;" , "other", "-", $4, $5, $6, $7, $8, $9, $10, $11, $12,
            $13, $14, $15, $16, $17, $18, $19, $20
    }
    { print }' \
    "$T/in/table.tsv" > "$T/<script>alert(1)<script> & \"q\" \`b\` |x| \$(id).tsv"
report --title "$evil" --output "$T/evil" "$T/"*script*.tsv
check_text $? 0 "hostile names"
html2=$T/evil/Z_MEASURE_REPORT.html
check_text "$(grep -c '<script>' "$html2")" 1 "no script but our own"
check_text "$(grep -c '<img' "$html2")" 0 "no image"
check "the title is text" grep -qF \
    '<h1>&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;q&quot; `b` |x| $(id) \n</h1>' "$html2"
check "a tensor is text" grep -qF '<code>&lt;img src=x onerror=alert(1)&gt;`|`&quot;&amp;amp;</code>' "$html2"
mkdir "$T/rlo"
cp "$T/in/e3.tsv" "$T/rlo/$(printf 'a\342\200\256b\377').tsv"
report --output "$T/rlo/out" "$T/rlo"
check "text that runs backwards, bytes that are none" grep -qF '>a\xe2\x80\xaeb\xff</h3>' \
    "$T/rlo/out/Z_MEASURE_REPORT.html"
acting=$(printf '\342\200\256\033[1m\302\233')
awk -v acting="$acting" 'BEGIN { FS = OFS = "\t" }
    NR > 1 { $1 = $1 acting "\\x00"; $4 = $4 acting; $5 = $5 acting }
    { print }' "$T/in/e3.tsv" > "$T/acting.tsv"
report --output "$T/acting" "$T/acting.tsv"
check "a table of another program" grep -qF '\xe2\x80\xae\x1b[1m\xc2\x9b\x00</code>' "$T/acting/Z_MEASURE_REPORT.html"
check_text "$(cat "$T/acting"/* |
    grep -c -F -e "$(printf '\342\200\256')" -e "$(printf '\033')" -e "$(printf '\302\233')")" 0 \
    "cells of which nothing acts on a reader"
check_text "$(awk '/^[|] .*onerror/ && !/^[|] ``/ { bad = 1 } END { print bad + 0 }' "$T/evil/Z_MEASURE_REPORT.md")" \
    0 "in Markdown it is code"

# Every column of a row in turn, and the header: no value becomes markup, from TSV or JSON Lines.
markup='"><script>alert(1)</script><img src=x onerror=alert(1)>'
{ head -n 9 "$T/in/table.tsv" && tail -n 1 "$T/in/table.tsv"; } > "$T/rows.tsv"
organ-measure --json --layers 0 "$LAB/lab-verse-q4_k_m.gguf" > "$T/rows.jsonl"
columns=$(head -n 1 "$T/rows.tsv" | awk -F '\t' '{ print NF }')
mkdir "$T/mutants"
k=0 changed=0 step=6
if exhaustive; then step=1; fi
while [ $k -le "$columns" ]; do
    M=$markup awk -F '\t' -v OFS='\t' -v k=$k \
        'k == 0 && NR == 1 { $5 = $5 ENVIRON["M"] } k > 0 && NR > 1 { $k = NR % 2 ? ENVIRON["M"] : $k ENVIRON["M"] }
        { print }' \
        "$T/rows.tsv" > "$T/mutants/a$k.tsv"
    J=$(printf '%s' "$markup" | sed 's/"/\\"/g') awk -v k=$k '{ n = split($0, part, ", \""); line = part[1]
        for (i = 2; i <= n; i++) {
            if (i == k) sub(/: .*/, ": \"" ENVIRON["J"] "\"", part[i])
            line = line ", \"" part[i]
        }
        print line (k == n ? "}" : "") }' "$T/rows.jsonl" > "$T/mutants/b$k.jsonl"
    k=$((k + step)) changed=$((changed + 2))
done
"$scripts/organ-report" -q --output "$T/mutants/out" "$T/mutants" > "$T/mutants/said" 2>&1
made=$T/mutants/out/Z_MEASURE_REPORT
check_text "$(grep -c '<article' "$made.html")" $changed "a model for each changed column"
check_text "$(grep -v '^<script>$' "$made.html" | grep -E '<script|<img' | head -n 3)" "" \
    "no column becomes markup in the page"
check_text "$(grep -v '^| *[0-9|]* *`' "$made.md" | grep -E '[^\]<script|[^\]<img' | head -n 3)" "" \
    "no column becomes markup in the Markdown"

# Nor do the other files of a fleet, or the names in the map of a chimera.
bad='<img src=x onerror=alert(1)>'
fleet=$T/badfleet
for name in "$bad" b; do
    mkdir -p "$fleet/models/$name"
    echo "done" > "$fleet/models/$name/status"
    cp "$T/in/e3.tsv" "$fleet/models/$name/measures.tsv"
    sed "s/\"values\": 561/\"values\": \"$bad\"/; s/\"low\": -0/\"low\": $bad/; 9s/skeleton/$bad/" \
        "$T/fleet/models/lab-code-q4_k_m/histogram.jsonl" > "$fleet/models/$name/histogram.jsonl"
    sed "2s/\"class\": \"[a-z]*\"/\"class\": \"$bad\"/; 3s/\"bytes\": [0-9]*/\"bytes\": $bad/; 4s/blk/$bad/" \
        "$T/fleet/models/lab-code-q4_k_m/organs.jsonl" > "$fleet/models/$name/organs.jsonl"
    echo "1$bad" > "$fleet/models/$name/dissect.seconds"
done
{ head -n 1 "$T/fleet/lineage.tsv"; printf '%s\tb\tsame lineage %s\t1\t2\t3%s\t4\t5\t6\t7\t8\t%s\n' "$bad" "$bad" \
    "$bad" "$bad"; } > "$fleet/lineage.tsv"
mkmodel "$T/$bad.gguf" "blk.0.$bad.weight:F32:4" "blk.1.ffn_up.weight:F32:4" "$bad\"'&.weight:F32:4"
organ-graft -q --base "$T/$bad.gguf" --donor "$T/$bad.gguf" --layers 0 --output "$T/chimera" 2> "$T/err"
report --title "$bad" --output "$T/hostile" "$fleet" "$T/chimera"
check_text "$?" 0 "a hostile fleet"
html3=$T/hostile/Z_MEASURE_REPORT.html
for part in lineage dissection 'm1' 'm3'; do check "it has $part" grep -q "id=\"$part\"" "$html3"; done
check "the map of a hostile chimera" grep -q '<title>blk.0.&lt;img.*: &lt;img.*.gguf, replace</title>' "$html3"
check_text "$(grep -Ec '<img|<script>a' "$html3")" 0 "no markup from a fleet"
check_text "$(grep '[^\`]<img' "$T/hostile/Z_MEASURE_REPORT.md" | grep -v '`[^`]*<img[^`]*`')" "" \
    "none in the Markdown"
if have openssl "the hash of the report's script"; then
    check_text "$(sed -n "s/.*script-src 'sha256-\([^']*\)'.*/\1/p" "$html")" \
        "$(awk '/^<\/script>/ { on = 0 } on { print } /^<script>/ { on = 1; print "" }' "$html" | openssl dgst \
        -sha256 -binary | openssl base64)" \
        "the policy allows the page's own script alone"
fi

# The page: one file, nothing from elsewhere, whole.
check_text "$(grep -c -i -E '(src|href)="?(https?:)?//|@import|url\(' "$html")" 0 "nothing external"
check "a policy says so" grep -q "default-src 'none'" "$html"
check_text "$(sed -n 's/.* id="\([^"]*\)".*/\1/p' "$html" | sort | uniq -d)" "" "no id twice"
grep -o 'href="#[a-z0-9]*"' "$html" | sed 's/href="#//; s/"//' | sort -u | while read -r id; do
    grep -q "id=\"$id\"" "$html" || echo "$id"
done > "$T/dangling"
check_text "$(cat "$T/dangling")" "" "each link has its target"
if have python3 "what Python checks"; then
    cat > "$T/balance.py" << 'EOF'
import html.parser, sys
class Balance(html.parser.HTMLParser):
    void = {"meta", "br", "img", "link", "wbr"}
    def __init__(self): super().__init__(); self.stack = []
    def handle_starttag(self, tag, attrs):
        if tag not in self.void: self.stack.append(tag)
    def handle_startendtag(self, tag, attrs): pass
    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag: sys.exit("unbalanced </%s> at %s" % (tag, self.getpos()))
for page in sys.argv[1:]:
    b = Balance()
    b.feed(open(page, encoding="utf-8").read())
    if b.stack: sys.exit("left open in %s: %s" % (page, b.stack))
EOF
    check "tags are balanced" python3 "$T/balance.py" "$html" "$html2" "$html3" "$both.html" \
        "$T/none/Z_MEASURE_REPORT.html"
fi

# What a browser makes of it.
chromium=
for c in chromium chromium-browser google-chrome chrome; do
    if have $c; then chromium=$c; break; fi
done
if ! exhaustive; then
    echo "left out: the report in a browser (EXHAUSTIVE=1)"
elif [ -n "$chromium" ] && have node; then
    i=0
    while [ $i -lt 50 ]; do
        for name in lab-code-q4_k_m lab-base-q4_k_m; do
            i=$((i + 1))
            mkdir -p "$T/many/models" && cp -r "$T/fleet/models/$name" "$T/many/models/$name-$i"
        done
    done
    report "$T/many" --output "$T/fifty"
    check_text "$(grep -c '<article class="card model' "$T/fifty/Z_MEASURE_REPORT.html")" 50 "a fleet of fifty models"
    check "the page in a browser" node tests/web/report.mjs "$chromium" "$T/profile" \
        "$T/folders/Z_MEASURE_REPORT.html" "$html3" "$T/fifty/Z_MEASURE_REPORT.html"
    grep FAIL "$T/out"
else
    echo "left out: the report in a browser (chromium, nodejs)"
fi

# A signal to the script alone ends it with what it measures.
mkdir "$T/slow"
printf '#!/bin/sh\necho $$ > "%s/slow.new" && mv "%s/slow.new" "%s/slow.pid"\nexec tail -f "%s"\n' "$T" "$T" "$T" \
    "$T/in/table.tsv" > "$T/slow/organ-measure"
chmod +x "$T/slow/organ-measure"
ln -s "$BIN/organ-extract" "$T/slow/"
ORGAN_BIN=$T/slow "$scripts/organ-report" --output "$T/stopped" "$LAB/lab-verse-q4_k_m.gguf" 2> "$T/report.err" &
pid=$!
n=0
while [ $n -lt 500 ] && [ ! -s "$T/slow.pid" ]; do sleep 0.1; n=$((n + 1)); done
kill -TERM $pid
wait $pid 2> "$T/wait.err"
check_text "$? $(kill -0 "$(cat "$T/slow.pid")" 2> "$T/wait.err" && echo alive)" "143 " "stopped while it measures"

# A fleet that is stopped while it compares has its reports, and says how far it is.
ln -s "$BIN/organ-measure" "$T/slow/measure" && rm "$T/slow/organ-measure" && mv "$T/slow/measure" \
    "$T/slow/organ-measure"
printf '#!/bin/sh\necho $$ > "%s/compare.new" && mv "%s/compare.new" "%s/compare.pid"\nexec tail -f "%s"\n' "$T" "$T" \
    "$T" "$T/in/table.tsv" > "$T/slow/organ-compare"
chmod +x "$T/slow/organ-compare"
ORGAN_BIN=$T/slow "$scripts/organ-fleet" measure --lineage --output "$T/halted" "$LAB/lab-base-q4_k_m.gguf" \
    "$LAB/lab-code-q4_k_m.gguf" > "$T/table" 2> "$T/report.err" &
pid=$!
n=0
while [ $n -lt 500 ] && [ ! -s "$T/compare.pid" ]; do sleep 0.1; n=$((n + 1)); done
kill -TERM $pid
wait $pid 2> "$T/wait.err"
check_text "$? $(kill -0 "$(cat "$T/compare.pid")" 2> "$T/wait.err" && echo alive) $(($(wc \
    -l < "$T/halted/ranking.tsv")))" "143  3" "stopped while it compares"
check "how far it is" grep -q 'stopped: 0 of 1 pairs are compared' "$T/report.err"

# Failures and usage.
printf 'no model' > "$T/in/broken.gguf"
report --output "$T/broken" "$T/in"
check_text $? 1 "a broken model: exit 1"
check "the rest is in the report" grep -q '`table`' "$T/broken/Z_MEASURE_REPORT.md"
check "the broken one is named" grep -q '^- `broken`: `organ-measure: ' "$T/broken/Z_MEASURE_REPORT.md"
check_error 2 "--force" "an existing report" "$scripts/organ-report" --output "$T/rep" "$T/in/table.tsv"
check "--force" "$scripts/organ-report" -q --force --output "$T/rep" "$T/in/table.tsv"
check "one format" "$scripts/organ-report" -q --format md --output "$T/md" "$T/in/table.tsv"
check_absent "$T/md/Z_MEASURE_REPORT.html" "--format md makes no page"
check "--wells" "$scripts/organ-report" -q --wells 3 --output "$T/wells" "$T/in/table.tsv"
check_text "$(sed -n '/^## Wells/,$p' "$T/wells/Z_MEASURE_REPORT.md" | grep -c '^| `')" 3 "lists as many"
check "--help" "$scripts/organ-report" --help
check_error 2 "--output" "no output" "$scripts/organ-report" "$T/in"
check_error 2 "no input" "no input" "$scripts/organ-report" --output "$T/u"
check_error 2 "--format" "another format" "$scripts/organ-report" --format pdf --output "$T/u" "$T/in"
check_error 2 "--what" "unknown option" "$scripts/organ-report" --what --output "$T/u" "$T/in"
check "a model on stdin" sh -c '"$1" -q --format md --output "$2" - < "$3"' sh "$scripts/organ-report" "$T/model" \
    "$LAB/lab-verse-q4_k_m.gguf"
check "its tensors are in the report" grep -q 'ffn_down' "$T/model/Z_MEASURE_REPORT.md"
check_exit 1 "half a model on stdin" sh -c 'head -c 100000 "$3" | "$1" -q --format md --output "$2" -' sh \
    "$scripts/organ-report" "$T/half" "$LAB/lab-verse-q4_k_m.gguf"
check_absent "$T/half/Z_MEASURE_REPORT.md" "half a model on stdin"

# Experts, by an importance matrix: its picture is in the page.
mkmodel "$T/moe.gguf" -k llama.expert_count=4 -n 2 blk.%.ffn_gate_inp.weight:F32:8x4 \
    blk.%.ffn_down_exps.weight:F32:8x8x4
imatrix "$T/moe.im" blk.0.ffn_down_exps.weight:8:1,2,3,4:10,10,10,10 blk.1.ffn_down_exps.weight:8:1,2,99,4:10,10,10,10
check "experts" "$scripts/organ-report" -q --imatrix "$T/moe.im" --output "$T/experts" "$T/moe.gguf"
check "the picture" organ-measure -q "$T/moe.gguf" --imatrix "$T/moe.im" --rank experts --svg "$T/experts.svg"
check "their picture" grep -q "<h4>Importance of its experts</h4>" "$T/experts/Z_MEASURE_REPORT.html"
grep '<rect x' "$T/experts.svg" > "$T/want" || bad "no rectangles"
grep -F -x -f "$T/want" "$T/experts/Z_MEASURE_REPORT.html" > "$T/got"
check_same "$T/got" "$T/want" "the picture of organ-measure"
check "a model without experts" "$scripts/organ-report" --imatrix "$T/moe.im" --format html \
    --output "$T/dense" "$LAB/lab-verse-q4_k_m.gguf"
if grep -q Importance "$T/dense/Z_MEASURE_REPORT.html"; then bad "a picture without experts"; else ok; fi
finish
