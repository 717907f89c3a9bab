#!/bin/sh
# stream.sh - organ-stream: shards from paths and over HTTP give the rows of the whole,
# a cut run resumes, and every partial report is true.
# shellcheck disable=SC2016 # awk and inner shells expand their own
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"
scripts=$PWD/scripts ORGAN_BIN=$BIN
export ORGAN_BIN
server=
trap '[ -n "$server" ] && kill "$server" 2> /dev/null; rm -rf "$T"' EXIT

stream() { "$scripts/organ-stream" "$@" > "$T/table" 2> "$T/stream.err"; }
column() { awk -F '\t' -v c="$1" 'NR > 1 { out = out (out ? " " : "") $c } END { print out }' "$T/table"; }
report_says() { # KEY: what follows it in the report, up to the line's end
    sed -n "s/^  \"$1\": \(.*\)\$/\1/p" "$report" | sed 's/,$//'
}

# A model in three shards, by the suite itself.
mkdir "$T/www"
organ-extract -q "$LAB/lab-verse-q4_k_m.gguf" --output "$T/organs"
organ-assemble -q "$T/organs" --shards 3 --output "$T/www/verse.gguf"
first=$T/www/verse-00001-of-00003.gguf
organ-measure "$first" > "$T/whole.tsv"
organ-measure --json "$first" > "$T/whole.jsonl"

# ---- paths
stream --output "$T/paths" "$first"
check_text $? 0 "three shards from paths"
check_text "$(column 2)" "done done done" "a line a shard"
check_text "$(column 4)" "13 26 39" "which counts the tensors so far"
check_text "$(column 5)" "39 39 39" "of all of them"
check_same "$T/paths/measures.tsv" "$T/whole.tsv" "shards one at a time give the rows of the whole"
check_same "$T/paths/measures.jsonl" "$T/whole.jsonl" "as JSON too"
report=$T/paths/z_report_verse.json
check_text "$(report_says complete)" true "the report is complete"
check_text "$(report_says tensors)" '{"done": 39, "total": 39}' "and counts"
stream --output "$T/paths" "$first"
check_text "$(column 2)" "kept kept kept" "a second run keeps them"
if exhaustive; then
    stream --output "$T/any" "$T/www/verse-00002-of-00003.gguf"
    check_same "$T/any/measures.tsv" "$T/whole.tsv" "any shard's name stands for the set"
    stream --output "$T/twelve" "$T/none-00001-of-00012.gguf"
    check_text "$(grep -c '^[0-9]*.failed' "$T/table")" 12 "12 shards: a leading zero is not octal"
fi
stream --output "$T/whole" --name "a whole one" "$LAB/lab-verse-q4_k_m.gguf"
check_same "$T/whole/measures.tsv" "$T/whole.tsv" "a model that is not split"
check "its report has the name given" test -f "$T/whole/z_report_a whole one.json"

# ---- partial
stream --output "$T/part" --only 1,3 "$first"
check_text "$(column 1)" "1 3" "--only"
report=$T/part/z_report_verse.json
check_text "$(report_says complete)" false "a partial report says so"
check_text "$(report_says shards)" '{"done": 2, "total": 3}' "how many shards"
check_text "$(report_says tensors)" '{"done": 26, "total": 39}' "how many tensors, of all of them"
check_text "$(report_says progress)" '"26 of 39 tensors"' "in words"
stream --output "$T/part" "$first"
check_text "$(column 2)" "kept done kept" "the next run does the missing shard"
check_same "$T/part/measures.tsv" "$T/whole.tsv" "and the rows are in order"
sleep 1
touch "$T/www/verse-00002-of-00003.gguf"
rm "$T/part/shards/00001.values"
stream --output "$T/part" "$first"
check_text "$(column 2)" "kept done kept" "a shard newer than its rows is measured again"
check_absent "$T/part/histogram.jsonl" "a shard of an older version has no histogram"
check "which is noted" grep -q "no histogram is written" "$T/stream.err"
stream --output "$T/part" --sample 100 "$first"
check_text "$(column 2)" "done done done" "another sample as well"
check "with all histograms" test -s "$T/part/histogram.jsonl"
if exhaustive; then
    stream --output "$T/part" --sample 100 --force "$first"
    check_text "$(column 2)" "done done done" "--force as well"
fi

# ---- failures
cp -r "$T/www" "$T/bad"
head -c 300000 "$T/www/verse-00002-of-00003.gguf" > "$T/bad/verse-00002-of-00003.gguf"
stream --output "$T/cut" "$T/bad/verse-00001-of-00003.gguf"
check_text $? 3 "a shard cut short: exit 3"
check_text "$(column 2)" "done failed done" "the others are measured"
check "and it is reported" grep -q '^organ-stream: shard 00002: ' "$T/stream.err"
check_text "$(cat "$T/cut/shards/"*.from | wc -l | tr -d ' ')" 2 "it leaves no rows"
cp "$T/www/verse-00002-of-00003.gguf" "$T/bad/"
stream --output "$T/cut" "$T/bad/verse-00001-of-00003.gguf"
check_text "$(column 2)" "kept done kept" "mended, it is measured"
check_same "$T/cut/measures.tsv" "$T/whole.tsv" "and the whole is right"
stream --output "$T/none" "$T/none-00001-of-00002.gguf"
check_text $? 4 "no such shards: exit 4"
# A worker killed in the midst of shard 2.
cat > "$T/organ-measure" << END
#!/bin/sh
[ -f "$T/paths/measures.tsv" ] && [ -f "$T/killed/shards/00001.from" ] && [ ! -f "$T/once" ] &&
    : > "$T/once" && kill -KILL \$PPID
exec "$BIN/organ-measure" "\$@"
END
chmod +x "$T/organ-measure"
ln -s "$BIN/organ-extract" "$T/organ-extract"
ORGAN_BIN=$T "$scripts/organ-stream" --output "$T/killed" "$first" > "$T/table" 2> "$T/killed.err"
stream --output "$T/killed" "$first"
check_text "$? $(column 2) $(cat "$T/stream.err")" "0 kept done done " \
    "after kill -9, what was done is kept and the rest is measured"
check_same "$T/killed/measures.tsv" "$T/whole.tsv" "and the whole is right"
check_text "$(find "$T/killed" -name '*.tmp*' -o -name '.run-*' | grep -c tmp)" 0 "without leavings of its own"

# ---- odd names; a list; JSON lines
mkdir "$T/o d'd \$x"
cp "$D/gguf/names-odd.gguf" "$T/o d'd \$x/\"m\" & <b>.gguf"
printf '%s\n' "$T/o d'd \$x/\"m\" & <b>.gguf" "$D/gguf/names-not-utf8.gguf" | "$scripts/organ-stream" \
    --json --rows --output "$T/odd out" - > "$T/table" 2> "$T/stream.err"
check_text $? 0 "odd names, on stdin"
{ organ-measure "$D/gguf/names-odd.gguf"; organ-measure "$D/gguf/names-not-utf8.gguf" | tail -n +2; } > "$T/odd.tsv"
check_same "$T/odd out/measures.tsv" "$T/odd.tsv" "their rows"
if have python3 "what Python checks"; then
    check "the reports are JSON, and true" python3 - "$T/paths/z_report_verse.json" \
        "$T/odd out" "$T/table" "$T/whole.jsonl" << 'EOF'
import glob, json, math, sys
z = json.load(open(sys.argv[1]))
rows = [json.loads(l) for l in open(sys.argv[4])]
assert z["format"] == "organ-z-report" and z["model"] == "verse", z
assert math.isclose(z["mean_theta"], sum(r["theta"] for r in rows) / 39, rel_tol=1e-7)
for c in z["classes"]:
    t = [r["theta"] for r in rows if r["class"] == c["class"]]
    assert c["count"] == len(t) and math.isclose(c["mean_theta"], sum(t) / len(t), rel_tol=1e-7), c
    assert math.isclose(c["min_theta"], min(t), rel_tol=1e-7) and math.isclose(c["max_theta"], max(t), rel_tol=1e-7), c
assert [s["tensors"] for s in z["sources"]] == [13, 13, 13]
odd = json.load(open(glob.glob(sys.argv[2] + "/z_report_*.json")[0], encoding="utf-8"))
assert len(odd["rows"]) == 21 and odd["rows"][19]["name"] == {"base64": "//6A"}, odd["rows"][19]
assert odd["model"] == '"m" & <b>', odd["model"]
for l in open(sys.argv[3], encoding="utf-8"): json.loads(l)
EOF
fi

# ---- HTTP
if have curl "models behind URLs" && have python3 "models behind URLs"; then
    # Serves $T/www with ranges; a name with "flaky" is cut once; each request is logged.
    # While port.stop exists, shard 1 stops after 70000 bytes. Then port.sent appears, and the
    # connection ends when that is removed.
    cat > "$T/serve.py" << 'EOF'
import http.server, os, re, sys, time
root, log = sys.argv[1], open(sys.argv[2], "a")
cut = set()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.split("?")[0]
        flaky = path.startswith("/flaky/")
        name = os.path.join(root, os.path.basename(path))
        rng = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")) if "/plain/" not in path else None
        log.write("%s %s\n" % (self.path, self.headers.get("Range", "-"))); log.flush()
        if not os.path.isfile(name):
            self.send_error(404)
            return
        data = open(name, "rb").read()
        a, b = (int(rng[1]), int(rng[2] or len(data) - 1)) if rng else (0, len(data) - 1)
        if a >= len(data):
            self.send_error(416)
            return
        part = data[a:b + 1]
        self.send_response(206 if rng else 200)
        self.send_header("Content-Length", str(len(part)))
        if rng: self.send_header("Content-Range", "bytes %d-%d/%d" % (a, min(b, len(data) - 1), len(data)))
        self.end_headers()
        if flaky and len(part) > 100000 and path not in cut:
            cut.add(path)
            part = part[:100000]
            self.close_connection = True
        if "00001-of" in path and len(part) > 70000 and os.path.exists(sys.argv[3] + ".stop"):
            try:
                self.wfile.write(part[:70000]); self.wfile.flush()
                open(sys.argv[3] + ".sent", "w").close()
                while os.path.exists(sys.argv[3] + ".sent"): time.sleep(0.05)
            except OSError: pass
            return
        try: self.wfile.write(part)
        except OSError: pass
    def log_message(self, *a): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[3] + ".tmp", "w") as f: f.write(str(server.server_port))
os.rename(sys.argv[3] + ".tmp", sys.argv[3])
server.serve_forever()
EOF
    python3 "$T/serve.py" "$T/www" "$T/requests" "$T/port" &
    server=$!
    n=0
    while [ ! -f "$T/port" ] && [ $n -lt 500 ]; do sleep 0.2; n=$((n + 1)); done
    url=http://127.0.0.1:$(cat "$T/port")
    no_proxy=127.0.0.1
    export no_proxy
    stream --output "$T/http" "$url/verse-00001-of-00003.gguf?download=true"
    check_text "$? $(column 2)" "0 done done done" "three shards over HTTP"
    check_text "$(column 5)" "39 39 39" "with the number of tensors known from the start"
    check_same "$T/http/measures.tsv" "$T/whole.tsv" "give the rows of the whole"
    check_text "$(find "$T/http" -name '*.gguf*')" "" "and store no shard"
    : > "$T/requests"
    stream --output "$T/http" "$url/verse-00001-of-00003.gguf?download=true"
    check_text "$(column 2)" "kept kept kept" "a second run keeps them"
    check_text "$(grep -c -v 0-65535 "$T/requests")" 0 "and loads none of them"
    stream --output "$T/flaky" "$url/flaky/verse-00001-of-00003.gguf"
    check_text "$? $(column 2)" "0 done done done" "connections that break are tried again"
    check_same "$T/flaky/measures.tsv" "$T/whole.tsv" "with no row twice"
    if exhaustive; then
        stream --output "$T/gone" --retries 0 "$url/gone-00001-of-00002.gguf"
        check_text "$? $(column 2)" "4 failed failed" "404 is exit 4"
        check "and told as such" grep -q 404 "$T/stream.err"
    fi
    stream --output "$T/gone2" "$url/gone-00001-of-00002.gguf"
    check_text "$? $(column 2)" "4 failed failed" "404 with retries"
    check "a missing file is not requested again" sh -c '! grep -q "retrying" "$1"' - "$T/stream.err"
    if exhaustive; then
        stream --output "$T/nohost" "http://no-such-host.invalid/x-00001-of-00009.gguf"
        check_text "$? $(column 2)" "4 failed failed failed failed failed failed failed failed failed" \
            "a host without address"
        check "is looked up once" sh -c '! grep -q "retrying" "$1" && grep -c "resolve host" "$1" | grep -qx 9' \
            - "$T/stream.err"
    fi
    stream --output "$T/stored" --store "$T/a store" "$url/verse-00001-of-00003.gguf"
    check_same "$T/stored/measures.tsv" "$T/whole.tsv" "--store: the same rows"
    check_same "$T/a store/verse-00002-of-00003.gguf" "$T/www/verse-00002-of-00003.gguf" "and the shards are stored"
    head -c 123456 "$first" > "$T/half.part"
    mkdir "$T/resumed"
    mv "$T/half.part" "$T/resumed/verse-00001-of-00003.gguf.part"
    : > "$T/requests"
    stream --output "$T/cut-off" --store "$T/resumed" --keep-none "$url/verse-00001-of-00003.gguf"
    check_same "$T/cut-off/measures.tsv" "$T/whole.tsv" "a download that was cut off"
    check "goes on where it stopped" grep -q 'bytes=123456-$' "$T/requests"
    check_text "$(ls "$T/resumed")" "" "--keep-none leaves no shard"
    # a server without ranges; a part that has all
    for kind in "plain 123456" "ranges 0"; do
        [ "$kind" != "ranges 0" ] || exhaustive || continue
        size=${kind#* }
        [ "$size" != 0 ] || size=$(($(wc -c < "$first")))
        mkdir "$T/all"
        head -c "$size" "$first" > "$T/all/verse-00001-of-00003.gguf.part"
        rm -rf "$T/cut-off"
        stream --output "$T/cut-off" --retries 0 --store "$T/all" \
            --keep-none "$url/${kind% *}/verse-00001-of-00003.gguf"
        check_text "$? $(column 2)" "0 done done done" "$kind: going on starts anew"
        check_same "$T/cut-off/measures.tsv" "$T/whole.tsv" "$kind: the same rows"
        check_text "$(ls "$T/all")" "" "$kind: nothing stays"
        rmdir "$T/all"
    done
    if exhaustive; then
        stream --output "$T/none-kept" --keep-none "$url/verse-00001-of-00003.gguf"
        check_same "$T/none-kept/measures.tsv" "$T/whole.tsv" "--keep-none alone"
        check_text "$(find "$T/none-kept" -name '*.gguf*' -o -name store)" "" "keeps none"
    fi
    # stopped, then killed in the midst of a shard: each time only the script itself
    for how in "" "--store $T/slow-store"; do
        [ -n "$how" ] || exhaustive || continue
        rm -rf "$T/slow" "$T/slow-store"
        for signal in TERM KILL; do
            : > "$T/port.stop"
            # shellcheck disable=SC2086
            "$scripts/organ-stream" --output "$T/slow" $how "$url/slow/verse-00001-of-00003.gguf" > "$T/table1" \
                2> "$T/stream.err1" &
            pid=$!
            n=0
            while [ $n -lt 1000 ] && [ ! -e "$T/port.sent" ]; do sleep 0.1; n=$((n + 1)); done
            kill -$signal "$pid"
            wait "$pid" 2> "$T/wait.err"
            got=$?
            [ $signal = KILL ] || check_text "$got $(processes | grep -o "[c]url.*:${url##*:}/slow/")" "143 " \
                "stopped alone, it ends with curl $how"
            [ $signal = KILL ] || rm -f "$T/port.sent"
        done
        rm "$T/port.stop"
        # shellcheck disable=SC2086
        stream --output "$T/slow" $how "$url/slow/verse-00001-of-00003.gguf"
        check_text "$? $(column 2)" "0 done done done" "killed alone, the next run does all $how"
        check_same "$T/slow/measures.tsv" "$T/whole.tsv" "with the same rows $how"
        check_text "$(ls -A "$T/slow" | tr '\n' ' ')" \
            "histogram.jsonl measures.jsonl measures.tsv shards z_report_verse.json " "and nothing else $how"
        rm -f "$T/port.sent" # ends the curl of the run that was killed
        n=0
        while [ $n -lt 1000 ] && processes | grep -q "[c]url.*:${url##*:}/slow/"; do sleep 0.1; n=$((n + 1)); done
    done
    for i in 1 2 3; do check_same "$T/slow-store/verse-0000$i-of-00003.gguf" "$T/www/verse-0000$i-of-00003.gguf" \
        "stored as it is"; done
    printf 'header = "X-Token: 7"\n' > "$T/curlrc"
    stream --output "$T/with-rc" --curl "$T/curlrc" "$url/verse-00001-of-00003.gguf"
    check_same "$T/with-rc/measures.tsv" "$T/whole.tsv" "--curl FILE"
    kill "$server"
    server=
fi

# ---- whatever awk there is
for awk in "awk" "busybox awk" gawk mawk original-awk; do
    wanted_awk "$awk" || continue
    rm -rf "$T/awk.d" "$T/by-awk"
    mkdir "$T/awk.d"
    printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v "${awk%% *}")${awk#"${awk%% *}"}" > "$T/awk.d/awk"
    chmod +x "$T/awk.d/awk"
    PATH=$T/awk.d:$PATH "$scripts/organ-stream" --output "$T/by-awk" "$T/none-00001-of-00002.gguf" > "$T/table" \
        2> "$T/stream.err"
    check_text "$? $(cells status,tensors "$T/table" | tr '\t\n' '  ')" "4 status tensors failed 0 failed 0 " \
        "$awk: shards that are not there"
    PATH=$T/awk.d:$PATH "$scripts/organ-stream" --output "$T/by-awk" --rows --name x "$D/gguf/names-odd.gguf" \
        > "$T/table" 2> "$T/stream.err"
    sed '/"created"/d' "$T/by-awk/z_report_x.json" > "$T/have.z"
    [ "$awk" = awk ] && cp "$T/have.z" "$T/want.z" && cp "$T/by-awk/measures.tsv" "$T/want.m"
    check_same "$T/have.z" "$T/want.z" "the report by $awk"
    check_same "$T/by-awk/measures.tsv" "$T/want.m" "the table by $awk"
done

# ---- usage
check "--help" "$scripts/organ-stream" --help
check_error 2 "--output" "no output" "$scripts/organ-stream" "$first"
check_error 2 "--what" "unknown option" "$scripts/organ-stream" --what --output "$T/u" "$first"
check_error 2 "whole number" "not a number" "$scripts/organ-stream" --sample x --output "$T/u" "$first"
check_error 2 "--only" "not a range" "$scripts/organ-stream" --only first --output "$T/u" "$first"
finish
