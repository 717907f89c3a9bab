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

# The ranking as data; chimeras say what they were made of, parts of streams how far they are.
mkdir "$T/kin"
organ-graft -q --base "$LAB/lab-verse-q4_k_m.gguf" --donor "$LAB/lab-code-q4_k_m.gguf" --type organ --output "$T/kin/graft"
organ-merge -q --method linear --model "$LAB/lab-base-q4_k_m.gguf" --model "$LAB/lab-code-q4_k_m.gguf" --output "$T/kin/merged.gguf"
mkdir "$T/kin/part"
organ-measure --json --layers 0 "$LAB/lab-code-q4_k_m.gguf" > "$T/kin/part/measures.jsonl"
organ-measure --layers 0 "$LAB/lab-code-q4_k_m.gguf" > "$T/kin/part/measures.tsv"
printf '{\n  "complete": false,\n  "progress": "9 of 39 tensors",\n}\n' > "$T/kin/part/z_report_part.json"
report --output "$T/data" "$T/kin" "$T/kin/part" "$LAB/lab-base-q4_k_m.gguf"
data=$T/data/z_measure_report.json
if have jq; then
    check_text "$(jq -r '.format + " " + .ranking.by + " " + (.ranking.models | length | tostring)' "$data")" "organ-measure-report theta 4" "the ranking as data"
    check_text "$(jq -c '.ranking.models[] | select(.model == "graft").made_of' "$data")" "[\"$LAB/lab-code-q4_k_m.gguf\"]" "what a graft was made of"
    check_text "$(jq -c '.ranking.models[] | select(.model == "merged").made_of' "$data")" '["lab-base","lab-code"]' "what a merge was made of"
    check_text "$(jq -c '.ranking.models[] | select(.model == "lab-base-q4_k_m") | [.made_of, .progress]' "$data")" '[[],null]' "a model that is complete and no chimera"
    check_text "$(jq -r '.ranking.models[] | select(.model == "part").progress' "$data")" "9 of 39 tensors, in progress" "a model that is not complete"
    check_text "$(jq '[.ranking.models[].theta] | . == (sort | reverse)' "$data")" true "highest first"
fi
check_text "$(grep -c '<span class="dim">chimera</span>' "$T/data/Z_MEASURE_REPORT.html")" 2 "two chimeras in the page"
check "the part in the page" grep -q '<b>9 of 39 tensors, in progress</b>' "$T/data/Z_MEASURE_REPORT.html"
check_text "$(grep -c 'class="series a"' "$T/data/Z_MEASURE_REPORT.html")" 3 "lines for the three models of several blocks"
check_text "$(grep -c 'id="components"' "$T/data/Z_MEASURE_REPORT.html")" 0 "no components without experts"
sed "s/blk.1.ffn_up.weight/blk.1.ffn_up_exps.weight/; s/blk.2.ffn_up.weight/blk.2.ffn_up_shexp.weight/" "$T/in/table.tsv" > "$T/moe.tsv"
report --output "$T/moe" "$T/moe.tsv"
check_text "$(sed -n '/id="components"/,/<\/section>/s/.*<td class="l n strong">\([a-z A-Z]*\)<.*/\1/p' "$T/moe/Z_MEASURE_REPORT.html" | sort | tr '\n' ',')" \
    "attention,dense FFN,embedding,experts and router,norms,shared expert," "the components of a model with experts"

# The numbers.
organ-measure "$LAB/lab-verse-q4_k_m.gguf" --summary > "$T/summary"
theta=$(awk -F '\t' '$1 == "model" { printf "%.2f | ", $5 }' "$T/summary")
calibrated=$(awk -F '\t' '$1 == "model" { printf "| %.2f | %.3f | %.2f |", $9, $8, $10 }' "$T/summary")
check "mean theta is organ-measure's" grep -q "\`table\` | $theta" "$md"
check "calibrated, signal and row theta too" grep -qF "$calibrated" "$md"
report --output "$T/one" "$T/in/table.tsv"
awk -F '\t' '$1 == "role" { printf "| `%s` | ", $2; printf "%s %.2f %.2f %.2f\n", $3, $5, $6, $7 }' "$T/summary" | sort > "$T/roles.want"
sed -n '/^## Profile/,/^## Wells/p' "$T/one/Z_MEASURE_REPORT.md" | awk -F ' [|] ' '/^[|] `/ { split($6, r, " to "); sub(/^[|] /, "", $1); print "| " $1 " | " $3 " " $5 " " r[1] " " r[2] }' | sort > "$T/roles.have"
check_same "$T/roles.have" "$T/roles.want" "means and ranges of tensor kinds are organ-measure's"
organ-measure "$LAB/lab-verse-q4_k_m.gguf" --wells 10 | awk -F '\t' 'NR > 1 { print $1 }' > "$T/wells.want"
sed -n '/^## Wells/,$p' "$T/one/Z_MEASURE_REPORT.md" | awk -F '`' '/^[|] `/ { print $2 }' > "$T/wells.have"
check_same "$T/wells.have" "$T/wells.want" "the wells are organ-measure's"
check "a map cell has its tensor's theta" grep -q "block 2 attn_k: $(awk -F '\t' '$1 == "blk.2.attn_k.weight" { printf "%.2f", $15 }' "$T/in/table.tsv")" "$T/one/Z_MEASURE_REPORT.html"
check_text "$(sed -n '/^## Ranking/,/^## Scale/p' "$md" | awk -F ' [|] ' '/^[|] [0-9]/ { if (seen++ && $3 > last) bad = 1; last = $3 } END { print bad + 0 }')" 0 "ranked by theta, highest first"
check "the limits of theta are beside its ranking" grep -q 'random numbers can rank first' "$md"
check "in the page too" grep -q 'random numbers can rank first' "$html"
# Noise is 0 in one column, and in no other.
check_text "$(grep -i -c 'above noise\|null theta\|noise scores about' "$md")" 0 "one null value in the Markdown"
check_text "$(grep -i -c 'above noise\|null \|(noise ' "$html")" 0 "one null value in the page"

# With the edge: ranked by it, whatever theta says, and those without one come last.
organ-measure --spectral "$LAB/lab-code-q4_k_m.gguf" > "$T/in/edge.csv"
mkdir "$T/edges"
awk -F '\t' -v OFS='\t' 'NR > 1 { $15 = 80 } { print }' "$T/in/edge.csv" > "$T/edges/shaky.tsv"
awk -F '\t' -v OFS='\t' 'NR > 1 { $15 = 20; if ($22 != "-") $22 *= 2 } { print }' "$T/in/edge.csv" > "$T/edges/steady.tsv"
awk -F '\t' -v OFS='\t' 'NR > 1 { $15 = 85; $22 = "-" } { print }' "$T/in/edge.csv" > "$T/edges/unknown.tsv"
cp "$T/in/table.tsv" "$T/edges/z-old.tsv"
cut -f 1-21 "$T/in/table.tsv" > "$T/edges/shaky2.tsv"
rm "$T/in/edge.csv"
report --output "$T/edges/out" "$T/edges"
edge=$(awk -F '\t' 'NR > 1 && $22 != "-" { s += $22; n++ } END { printf "%.2f %.2f", 2 * s / n, s / n }' "$T/edges/shaky.tsv")
check_text "$(sed -n '/^## Ranking/,/^## Scale/p' "$T/edges/out/Z_MEASURE_REPORT.md" | awk -F ' [|] ' '/^[|] [0-9]/ { print $2, $3 }')" \
    "\`steady\` ${edge% *}
\`shaky\` ${edge#* }
\`shaky2\` -
\`unknown\` -
\`z-old\` -" "ranked by edge"
check "what the edge cannot tell" grep -q 'not a measure of quality' "$T/edges/out/Z_MEASURE_REPORT.md"
check "in the page" grep -q '<b>steady</b> has the highest mean edge' "$T/edges/out/Z_MEASURE_REPORT.html"
roles=$(organ-measure --spectral --summary "$LAB/lab-code-q4_k_m.gguf" | awk -F '\t' '$2 == "attn_q" { printf "%.2f", 1.5 * $13 }')
check_text "$(awk -F ' [|] ' '/^[|] `attn_q`/ { printf "%.2f", $10 }' "$T/edges/out/Z_MEASURE_REPORT.md")" "$roles" "the mean edge of a kind"
check "measured with --spectral" "$scripts/organ-report" -q --spectral --format md --output "$T/edges/made" "$LAB/lab-code-q4_k_m.gguf"
check_text "$(awk -F ' [|] ' '/^[|] 1 / { print $3 }' "$T/edges/made/Z_MEASURE_REPORT.md")" "${edge#* }" "its edge"

check "no trend is drawn through one size" grep -q 'No trend is fitted' "$T/one/Z_MEASURE_REPORT.md"

# Three sizes on a line: theta = 30 + 2 log10(parameters).
for e in 3 5 8; do
    awk -v e=$e 'BEGIN { OFS = "\t"
        print "name\tclass\tblock\tdtype\telements\tsampled\tnonfinite\tmean\tstd\tmin\tmax\tentropy\tkurtosis\tcv\ttheta\tsignal\tdimension\tnull_theta\tcalibrated\trow_theta\tpart"
        n = 1; for (i = 0; i < e; i++) n *= 10
        print "blk.0.ffn_up.weight", "organ", 0, "F16", n, 100, 0, 0, 1, -1, 1, 0.5, 0, 1, 30 + 2 * e, 0.5, 1, 25, 5, 80 }' > "$T/in/e$e.tsv"
done
report --output "$T/trend" "$T/in/e3.tsv" "$T/in/e5.tsv" "$T/in/e8.tsv"
check "a trend over sizes" grep -q 'higher by 2.00 degrees (least squares over 3 models, correlation 1.00)' "$T/trend/Z_MEASURE_REPORT.md"

# Whatever awk there is, the same report: busybox's may have no mathematics.
sed '/ Made 2/d' "$T/trend/Z_MEASURE_REPORT.md" > "$T/awk.want"
for awk in "busybox awk" gawk mawk original-awk; do
    have "${awk%% *}" || continue
    rm -rf "$T/awk.d"
    mkdir "$T/awk.d"
    printf '#!/bin/sh\nexec %s "$@"\n' "$awk" > "$T/awk.d/awk"
    chmod +x "$T/awk.d/awk"
    check "a report by $awk" env PATH="$T/awk.d:$PATH" "$scripts/organ-report" -q --force --output "$T/by-awk" "$T/in/e3.tsv" "$T/in/e5.tsv" "$T/in/e8.tsv"
    sed '/ Made 2/d' "$T/by-awk/Z_MEASURE_REPORT.md" > "$T/awk.have"
    check_same "$T/awk.have" "$T/awk.want" "the report by $awk"
done

# The folders of organ-fleet and organ-stream.
"$scripts/organ-fleet" measure -q --output "$T/fleet" "$LAB/lab-base-q4_k_m.gguf" "$D/malformed.tsv" > "$T/table" 2> "$T/report.err"
"$scripts/organ-stream" -q --output "$T/streamed" "$D/gguf/x-00001-of-00003.gguf" > "$T/table"
report --output "$T/folders" "$T/fleet" "$T/streamed"
check "a fleet's model" grep -q '^| [0-9] | `lab-base-q4_k_m` | .* | 1.89 MB |' "$T/folders/Z_MEASURE_REPORT.md"
check "its failure" grep -q '^- `malformed.tsv`: `organ-measure: ' "$T/folders/Z_MEASURE_REPORT.md"
check "a streamed model by its name" grep -q '^| [0-9] | `x` | ' "$T/folders/Z_MEASURE_REPORT.md"

# A block number without bounds, no tensors, tensors that no codec decodes.
sed 's/blk\.0/blk.4000000000/; s/\t0\t/\t4000000000\t/' "$T/in/e3.tsv" > "$T/huge.tsv"
check "a huge block number" "$scripts/organ-report" -q --output "$T/huge" "$T/huge.tsv"
head -n 1 "$T/in/table.tsv" > "$T/empty.tsv"
check "no tensors at all" "$scripts/organ-report" -q --output "$T/none" "$T/empty.tsv"
awk 'BEGIN { FS = OFS = "\t" } NR > 1 { for (i = 6; i <= 20; i++) $i = "-" } { print }' "$T/in/e3.tsv" > "$T/undecoded.tsv"
check "tensors without measures" "$scripts/organ-report" -q --output "$T/undecoded" "$T/undecoded.tsv"

# Hostile names, of models and tensors.
evil='<script>alert(1)</script> & "q" `b` |x| $(id) \n'
awk -v OFS='\t' 'BEGIN { FS = "\t" } NR == 2 { print "<img src=x onerror=alert(1)>`|`\"&amp;" , "other", "-", $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20 } { print }' \
    "$T/in/table.tsv" > "$T/<script>alert(1)<script> & \"q\" \`b\` |x| \$(id).tsv"
report --title "$evil" --output "$T/evil" "$T/"*script*.tsv
check_text $? 0 "hostile names"
html2=$T/evil/Z_MEASURE_REPORT.html
check_text "$(grep -c '<script>' "$html2")" 1 "no script but our own"
check_text "$(grep -c '<img' "$html2")" 0 "no image"
check "the title is text" grep -qF '<h1>&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;q&quot; `b` |x| $(id) \n</h1>' "$html2"
check "a tensor is text" grep -qF '<code>&lt;img src=x onerror=alert(1)&gt;`|`&quot;&amp;amp;</code>' "$html2"
mkdir "$T/rlo"
cp "$T/in/e3.tsv" "$T/rlo/$(printf 'a\342\200\256b\377').tsv"
report --output "$T/rlo/out" "$T/rlo"
check "text that runs backwards, bytes that are none" grep -qF '>a\xe2\x80\xaeb\xff</h3>' "$T/rlo/out/Z_MEASURE_REPORT.html"
check_text "$(awk '/^[|] .*onerror/ && !/^[|] ``/ { bad = 1 } END { print bad + 0 }' "$T/evil/Z_MEASURE_REPORT.md")" 0 "in Markdown it is code"

# Every column of a row in turn, and the header: no value becomes markup, from TSV or JSON Lines.
markup='"><script>alert(1)</script><img src=x onerror=alert(1)>'
organ-measure --json "$LAB/lab-verse-q4_k_m.gguf" > "$T/rows.jsonl"
columns=$(head -n 1 "$T/in/table.tsv" | awk -F '\t' '{ print NF }')
k=0
while [ $k -le "$columns" ]; do
    rm -rf "$T/mutant" && mkdir "$T/mutant"
    M=$markup awk -F '\t' -v OFS='\t' -v k=$k 'k == 0 && NR == 1 { $5 = $5 ENVIRON["M"] } k > 0 && NR > 1 { $k = NR % 2 ? ENVIRON["M"] : $k ENVIRON["M"] } { print }' \
        "$T/in/table.tsv" > "$T/mutant/a.tsv"
    J=$(printf '%s' "$markup" | sed 's/"/\\\\"/g') awk -v k=$k '{ n = split($0, part, ", \""); line = part[1]
        for (i = 2; i <= n; i++) { if (i == k) sub(/: .*/, ": \"" ENVIRON["J"] "\"", part[i]); line = line ", \"" part[i] }
        print line (k == n ? "}" : "") }' "$T/rows.jsonl" > "$T/mutant/b.jsonl"
    "$scripts/organ-report" -q --output "$T/mutant/out" "$T/mutant" > "$T/mutant/said" 2>&1
    made=$T/mutant/out/Z_MEASURE_REPORT
    if grep -v '^<script>$' "$made.html" | grep -q '<script\|<img'; then bad "column $k becomes markup in the page"; else ok; fi
    if grep -v '^| *`' "$made.md" | grep -q '[^\\]<script\|[^\\]<img'; then bad "column $k becomes markup in the Markdown"; else ok; fi
    k=$((k + 1))
done
if have openssl; then
    check_text "$(sed -n "s/.*script-src 'sha256-\([^']*\)'.*/\1/p" "$html")" \
        "$(awk '/^<\/script>/ { on = 0 } on { print } /^<script>/ { on = 1; print "" }' "$html" | openssl dgst -sha256 -binary | openssl base64)" \
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
if have python3; then
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
b = Balance()
b.feed(open(sys.argv[1], encoding="utf-8").read())
sys.exit("left open: %s" % b.stack if b.stack else 0)
EOF
    check "tags are balanced" python3 "$T/balance.py" "$html"
    check "with hostile names too" python3 "$T/balance.py" "$html2"
    check "and with no tensors" python3 "$T/balance.py" "$T/none/Z_MEASURE_REPORT.html"
else
    echo "skipped: no python3, tags are not balanced"
fi

# What a browser makes of it: the DOM after the script, and a picture.
chromium=
for c in chromium chromium-browser google-chrome chrome; do
    if have $c; then chromium=$c; break; fi
done
if [ -n "$chromium" ]; then
    browse() { # OPTION... URL
        "$chromium" --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
            --disable-component-update --disable-sync --hide-scrollbars --user-data-dir="$T/profile" --window-size=1280,2400 "$@" 2> "$T/chromium.err"
    }
    # A page around ours that presses a heading and looks at what came of it.
    {
        # the copy allows the script that presses; the page itself allows its own only
        sed "s/script-src 'sha256-[^']*'/script-src 'unsafe-inline'/" "$html2"
        cat << 'EOF'
<script>
(function () {
  var t = document.querySelector("#wells table"), col = 5, say = [];
  function order() { return Array.from(t.tBodies[0].rows).map(function (r) { return parseFloat(r.cells[col].dataset.v); }); }
  function sorted(a, s) { return a.every(function (v, i) { return !i || s * a[i - 1] <= s * v; }); }
  t.tHead.rows[0].cells[col].querySelector("button").click();
  say.push(sorted(order(), -1) ? "descending" : "unsorted");
  t.tHead.rows[0].cells[col].querySelector("button").click();
  say.push(sorted(order(), 1) ? "ascending" : "unsorted");
  var before = getComputedStyle(document.body).backgroundColor;
  document.getElementById("theme").click();
  say.push(getComputedStyle(document.body).backgroundColor !== before ? "themed" : "same");
  say.push(document.documentElement.scrollWidth <= innerWidth ? "fits" : "overflows");
  document.title = "checked " + say.join(" ");
})();
</script>
EOF
    } > "$T/pressed.html"
    browse --dump-dom "file://$T/pressed.html" > "$T/dom"
    check_text "$(sed -n 's/.*<title>\(checked [a-z ]*\)<\/title>.*/\1/p' "$T/dom")" "checked descending ascending themed fits" "sorting, the theme, no overflow"
    browse --window-size=500,900 --dump-dom "file://$T/pressed.html" > "$T/dom"
    check_text "$(sed -n 's/.*<title>checked .* \([a-z]*\)<\/title>.*/\1/p' "$T/dom")" "fits" "on a telephone nothing overflows"
    browse --screenshot="$T/light.png" "file://$html?theme=light" > "$T/browse.out"
    browse --screenshot="$T/dark.png" "file://$html?theme=dark" > "$T/browse.out"
    check_text "$(dd if="$T/light.png" bs=1 skip=1 count=3 2> "$T/dd.err")" PNG "a screenshot, light"
    check_text "$(dd if="$T/dark.png" bs=1 skip=1 count=3 2> "$T/dd.err")" PNG "a screenshot, dark"
    check "it shows something" test "$(wc -c < "$T/light.png")" -gt 60000
    check_exit 1 "and the dark one differs" cmp -s "$T/light.png" "$T/dark.png"
    if [ -n "${KEEP_SCREENSHOTS:-}" ]; then cp "$T/light.png" "$T/dark.png" "$KEEP_SCREENSHOTS/"; fi
else
    echo "skipped: no chromium, the page is not rendered"
fi

# A signal to the script alone ends it with what it measures.
mkdir "$T/slow"
printf '#!/bin/sh\nexec tail -f "%s"\n' "$T/in/table.tsv" > "$T/slow/organ-measure"
chmod +x "$T/slow/organ-measure"
ln -s "$BIN/organ-extract" "$T/slow/"
ORGAN_BIN=$T/slow "$scripts/organ-report" --output "$T/stopped" "$LAB/lab-verse-q4_k_m.gguf" 2> "$T/report.err" &
pid=$!
n=0
while [ $n -lt 500 ] && ! processes | grep -q "[t]ail -f $T"; do sleep 0.1; n=$((n + 1)); done
kill -TERM $pid
wait $pid 2> "$T/wait.err"
check_text "$? $(processes | grep -c "[t]ail -f $T")" "143 0" "stopped while it measures"

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
check "a model on stdin" sh -c '"$1" -q --format md --output "$2" - < "$3"' sh "$scripts/organ-report" "$T/model" "$LAB/lab-verse-q4_k_m.gguf"
check "its tensors are in the report" grep -q 'ffn_down' "$T/model/Z_MEASURE_REPORT.md"
check_exit 1 "half a model on stdin" sh -c 'head -c 100000 "$3" | "$1" -q --format md --output "$2" -' sh "$scripts/organ-report" "$T/half" "$LAB/lab-verse-q4_k_m.gguf"
check_absent "$T/half/Z_MEASURE_REPORT.md" "half a model on stdin"
finish
