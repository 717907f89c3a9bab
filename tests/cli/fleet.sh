#!/bin/sh
# organ-fleet: steps that are done, kept or fail, with workers of every kind.
# shellcheck disable=SC2016,SC2086 # awk and inner shells expand their own; two words
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"
scripts=$PWD/scripts data=$PWD/$D ORGAN_BIN=$BIN
export ORGAN_BIN

equal() { [ "$1" = "$2" ] || { echo >&2 "have '$1', want '$2'"; false; }; }
status_of() { awk -F '\t' -v m="$1" "$BY_NAME"'col("model") == m { print col("status") }' "$T/table"; }
few='--sample 2000' # values of each tensor, which are quick to measure
fleet() { "$scripts/organ-fleet" "$@" >"$T/table" 2>"$T/fleet.err"; }

# Lab models of two blocks and of one are enough here.
mkdir "$T/small"
for name in verse code stranger; do
    [ $name = verse ] && drop=2-3 || drop=1-3
    organ-stack -q --drop $drop "$data/lab/lab-$name-q4_k_m.gguf" --output "$T/small/lab-$name-q4_k_m.gguf" \
        || bad "no small models"
done
LAB=$T/small
# Three models, one of them split and in a folder with a space, and a broken one.
models=$T/models
mkdir -p "$models/in a folder"
cp "$LAB/lab-verse-q4_k_m.gguf" "$LAB/lab-code-q4_k_m.gguf" "$models/"
for i in 1 2 3; do cp "$data/gguf/x-0000$i-of-00003.gguf" "$models/in a folder/"; done
cp "$data/gguf/names-odd.gguf" "$models/it's \$odd \"&\" <b>.gguf"
printf 'not a model' >"$models/broken.gguf"

# ---- measure
out="$T/out one"
fleet measure $few -j 2 --output "$out" "$models"
check "a failing model makes exit 1" equal $? 1
check "the rest is done" equal "$(status_of lab-verse-q4_k_m) $(status_of lab-code-q4_k_m) $(status_of x)" \
    "done done done"
check "a name with quotes is done" equal "$(status_of "it's \$odd \"&\" <b>")" "done"
check "the failing one is reported" equal "$(status_of broken)" failed
check "and why, on stderr" grep -q 'broken: organ-measure: .*GGUF' "$T/fleet.err"
check "shards are one model" equal "$(tail -n +2 "$T/table" | wc -l | tr -d ' ')" 5
bytes=$(($(wc -c < "$LAB/lab-verse-q4_k_m.gguf")))
check "a line has size, seconds and a rate" awk -F '\t' -v bytes=$bytes \
    "$BY_NAME"'col("model") == "lab-verse-q4_k_m" { good = col("bytes") == bytes &&
        col("seconds") ~ /^[0-9.]+$/ } END { exit !good }' "$T/table"
"$BIN/organ-measure" $few "$models/lab-verse-q4_k_m.gguf" >"$T/direct.tsv"
check "the table is organ-measure's own" cmp "$T/direct.tsv" "$out/models/lab-verse-q4_k_m/measures.tsv"
"$BIN/organ-measure" $few "$models/it's \$odd \"&\" <b>.gguf" >"$T/direct.tsv"
check "odd tensor names as well" cmp "$T/direct.tsv" "$out/models/it's \$odd \"&\" <b>/measures.tsv"
"$BIN/organ-measure" $few --json "$models/in a folder/x-00001-of-00003.gguf" >"$T/direct.jsonl"
check "and the rows of shards" cmp "$T/direct.jsonl" "$out/models/x/measures.jsonl"
check "ranked by edge" "$scripts/organ-fleet" measure --by edge -q --output "$T/edges" "$LAB/lab-verse-q4_k_m.gguf" \
    "$LAB/lab-stranger-q4_k_m.gguf"
check_text "$(awk -F '\t' "$BY_NAME"'NR > 1 {
    printf "%s %.0f ", col("model"), col("edge") }' "$T/edges/ranking.tsv")" \
    "lab-stranger-q4_k_m 12 lab-verse-q4_k_m 9 " "the ranking by edge"
check "the ranking by edge as JSON" grep -q '"rank": 1, "model": "lab-stranger-q4_k_m", "edge": 11.8' \
    "$T/edges/z_report_complete.json"
check "measured again without it" "$scripts/organ-fleet" measure -q --output "$T/edges" "$LAB/lab-verse-q4_k_m.gguf" \
    "$LAB/lab-stranger-q4_k_m.gguf"
check_text "$(awk -F '\t' "$BY_NAME"'NR > 1 { print col("edge") }' "$T/edges/ranking.tsv" |
    sort -u)" "-" "no edges without --by edge"
check "ranking is in order of theta among models of one type" awk -F '\t' \
    "$BY_NAME"'NR > 1 && col("type") != type && col("rank") != 1 { exit 1 }
    NR > 1 && col("type") == type && (col("theta") > last || col("rank") != rank + 1) { exit 1 }
    NR > 1 { last = col("theta"); type = col("type"); rank = col("rank") } END { exit NR != 5 }' "$out/ranking.tsv"
check "nothing is left over" equal "$(find "$out" -name '*.tmp*' -o -name '.run*')" ""

# ---- resume
fleet measure $few -j 2 --output "$out" "$models"
check "a second run keeps finished steps" equal "$(status_of lab-verse-q4_k_m) $(status_of x) $(status_of broken)" \
    "kept kept failed"
sleep 1
touch "$models/in a folder/x-00003-of-00003.gguf"
cp "$data/gguf/types-all.gguf" "$models/lab-code-q4_k_m.gguf"
rm "$out/models/it's \$odd \"&\" <b>/measures.tsv"
fleet measure $few --output "$out" "$models"
check "a newer shard is measured again" equal "$(status_of x)" "done"
check "another file of that name as well" equal "$(status_of lab-code-q4_k_m)" "done"
check "a missing result as well" equal "$(status_of "it's \$odd \"&\" <b>")" "done"
check "what did not change is kept" equal "$(status_of lab-verse-q4_k_m)" "kept"
fleet measure --sample 500 --output "$out" "$models/lab-verse-q4_k_m.gguf"
check "another --sample measures again" equal "$(status_of lab-verse-q4_k_m)" "done"
fleet measure --sample 500 --force --output "$out" "$models/lab-verse-q4_k_m.gguf"
check "--force measures again" equal "$(status_of lab-verse-q4_k_m)" "done"

# A run killed in the midst: temporary files stay, the marks of completion do not come.
kill_dir=$T/killed
fleet measure $few --output "$kill_dir" "$models/lab-verse-q4_k_m.gguf"
rm "$kill_dir/models/lab-verse-q4_k_m/measure.done"
echo half >"$kill_dir/models/lab-verse-q4_k_m/measures.tmp"
mkdir "$kill_dir/models/lab-verse-q4_k_m/organs.1-1.tmp"
fleet measure $few --output "$kill_dir" "$models/lab-verse-q4_k_m.gguf"
check "a killed run is done again" equal "$(status_of lab-verse-q4_k_m)" "done"
check "its leavings are gone" equal "$(find "$kill_dir" -name '*.tmp')" ""
printf '%s\n' '#!/bin/sh' 'case $* in *lab-code*--json* | *--json*lab-code*) kill -KILL $PPID ;; esac' \
    "exec \"$BIN/organ-measure\" \"\$@\"" > "$T/organ-measure"
chmod +x "$T/organ-measure"
ln -s "$BIN/organ-extract" "$T/organ-extract"
cp "$LAB/lab-code-q4_k_m.gguf" "$models/lab-code-q4_k_m.gguf"
set -- "$models/lab-verse-q4_k_m.gguf" "$models/lab-code-q4_k_m.gguf"
ORGAN_BIN=$T "$scripts/organ-fleet" measure $few --output "$T/cut" "$@" >"$T/table" 2>"$T/fleet.err"
fleet measure $few --output "$T/cut" "$@"
check "a worker killed with -9: the rest was done and is kept" equal "$(status_of lab-verse-q4_k_m)" "kept"
check "and its model is done in the next run" equal "$(status_of lab-code-q4_k_m)" "done"

# Stopped in the midst: the signal goes to the whole group, as a terminal does it.
if have setsid "runs that a signal stops" util-linux; then
    cat > "$T/organ-measure" << EOF
#!/bin/sh
case \$* in *lab-code*) : > "$T/reached"; sleep 600 ;; esac
exec "$BIN/organ-measure" "\$@"
EOF
    rm -rf "$T/cut" "$T/reached"
    ORGAN_BIN=$T setsid "$scripts/organ-fleet" measure $few --output "$T/cut" "$models/lab-verse-q4_k_m.gguf" \
        "$models/lab-code-q4_k_m.gguf" > "$T/table" 2> "$T/fleet.err" &
    pid=$!
    n=0
    while [ ! -f "$T/reached" ] && [ $n -lt 500 ]; do sleep 0.2; n=$((n + 1)); done
    kill -TERM "-$pid"
    wait "$pid" 2> "$T/wait.err"
    check "stopped, it ends as such" equal $? 143
    check "and leaves no scratch folder" equal "$(find "$T/cut" -name '.run-*')" ""
    fleet measure $few --output "$T/cut" "$models/lab-verse-q4_k_m.gguf" "$models/lab-code-q4_k_m.gguf"
    check "what was done before is kept, the rest done" equal "$(status_of lab-verse-q4_k_m) $(status_of \
        lab-code-q4_k_m)" "kept done"
fi

# Only the fleet's own process is stopped, or killed: its workers go on for a while.
cat > "$T/organ-measure" << EOF
#!/bin/sh
case \$* in *lab-code* | *"in a folder"*) : > "$T/reached"; exec tail -f "$T/seconds" ;; esac
exec "$BIN/organ-measure" "\$@"
EOF
sed 's/exec tail -f\(.*seconds"\)/read -r s <\1; sleep $s/' "$T/organ-measure" > "$T/slow" && mkdir "$T/slow.d" && mv \
    "$T/slow" "$T/slow.d/organ-measure"
chmod +x "$T/slow.d/organ-measure"
ln -s "$BIN/organ-extract" "$T/slow.d/organ-extract"
begun() { # SECONDS FOLDER OPTION...: a run that lasts; its process is $pid
    echo "$1" > "$T/seconds"
    run_out=$T/$2 tools=$3
    shift 3
    rm -f "$T/reached"
    ORGAN_BIN=$tools "$scripts/organ-fleet" "$@" --output "$run_out" "$models" > "$T/table1" 2> "$T/fleet1.err" &
    pid=$!
    n=0
    while [ ! -f "$T/reached" ] && [ $n -lt 1000 ]; do sleep 0.1; n=$((n + 1)); done
}
"$BIN/organ-measure" $few "$models/lab-code-q4_k_m.gguf" > "$T/code.tsv"
for how in "" "-j 2"; do
    if [ -z "$how" ] && ! exhaustive; then continue; fi
    rm -rf "$T/stopped" "$T/killed-alone"
    fleet measure $few --output "$T/stopped" "$models/lab-verse-q4_k_m.gguf"
    # shellcheck disable=SC2086
    begun forever stopped "$T" measure $few $how
    kill -TERM "$pid"
    wait "$pid" 2> "$T/wait.err"
    check "stopped alone $how, it ends as such" equal $? 143
    check "and leaves no scratch folder $how" equal "$(find "$T/stopped" -name '.run-*')" ""
    # The tool never ends by itself; on a machine that is busy it takes a moment to be gone.
    n=0
    while processes | grep -q "[t]ail -f $T" && [ $n -lt 300 ]; do sleep 0.2; n=$((n + 1)); done
    check "its tools stop $how" equal "$(processes | grep "[t]ail -f $T")" ""
    check "what was done before is done still" grep -q 'done\|kept' "$T/stopped/models/lab-verse-q4_k_m/status"
    # shellcheck disable=SC2086
    begun 2 killed-alone "$T/slow.d" measure $few $how
    kill -KILL "$pid"
    wait "$pid" 2> "$T/wait.err"
    echo 3 > "$T/seconds"
    ORGAN_BIN=$T/slow.d "$scripts/organ-fleet" measure $few -j 3 --output "$T/killed-alone" "$models" > "$T/table" \
        2> "$T/fleet.err"
    check "killed alone $how, and run again at once: all but one" equal "$(awk -F '\t' "$BY_NAME"'NR > 1 &&
        col("status") != "failed"' \
        "$T/table" | wc -l | tr -d ' ')" 4
    check "which is the broken one" grep -q '^organ-fleet: models that failed: 1 of 5' "$T/fleet.err"
    check "the workers of before say nothing" equal "$(grep -v ': broken: ' "$T/fleet1.err")" ""
    check "and spoil nothing" cmp "$T/direct.jsonl" "$T/killed-alone/models/x/measures.jsonl"
    check "no table is cut" cmp "$T/code.tsv" "$T/killed-alone/models/lab-code-q4_k_m/measures.tsv"
    check "nothing stays" equal "$(find "$T/killed-alone" -name '.run-*' -o -name '*.tmp*')" ""
done

# A worker that ends long after its run was killed, and after the next run has removed its folders.
mkdir "$T/late.d"
printf '%s\n' '#!/bin/sh' "'$BIN/organ-measure' \"\$@\" || exit" \
    "case \$* in *lab-code*) : > '$T/reached'; read -r go < '$T/gate' ;; esac" > "$T/late.d/organ-measure"
chmod +x "$T/late.d/organ-measure"
ln -s "$BIN/organ-extract" "$BIN/organ-info" "$T/late.d"
mkfifo "$T/gate"
begun - late "$T/late.d" measure $few -j 2
kill -KILL "$pid"
wait "$pid" 2> "$T/wait.err"
fleet measure $few --output "$T/late" "$models"
check_text "$(status_of lab-code-q4_k_m) $(status_of x)" "done kept" "a run beside a late worker"
echo > "$T/gate"
n=0
while processes | grep -q "[-]-job $T/late" && [ $n -lt 3000 ]; do sleep 0.1; n=$((n + 1)); done
check_text "$(processes | grep "[-]-job $T/late")" "" "the late worker ends"
check "the late worker says nothing" equal "$(grep -v ': broken: ' "$T/fleet1.err")" ""
check "the late worker spoils nothing" cmp "$T/code.tsv" "$T/late/models/lab-code-q4_k_m/measures.tsv"

# ---- pipeline
pipe=$T/pipe
fleet pipeline $few -j 2 --output "$pipe" "$models"
check "pipeline reports its failure" equal $? 1
check "organs are there" test -f "$pipe/models/lab-verse-q4_k_m/organs/manifest.json"
check "with z in the manifest" grep -q '"z": {' "$pipe/models/lab-verse-q4_k_m/organs/manifest.json"
check "they assemble to the model" "$BIN/organ-assemble" "$pipe/models/lab-verse-q4_k_m/organs" \
    --output "$T/again.gguf"
check "byte for byte" cmp "$T/again.gguf" "$models/lab-verse-q4_k_m.gguf"
check "organs measure as the model does" cmp "$pipe/models/x/measures.jsonl" "$T/direct.jsonl"
check "the report is there" grep -q 'lab-verse-q4_k_m' "$pipe/report/Z_MEASURE_REPORT.md"
check "with the failing one" grep -q 'broken' "$pipe/report/Z_MEASURE_REPORT.html"
fleet pipeline $few --output "$pipe" "$models"
check "pipeline keeps finished steps" equal "$(status_of lab-verse-q4_k_m) $(status_of x)" "kept kept"
rm -r "$pipe/models/x/organs"
fleet pipeline $few --output "$pipe" "$models/in a folder"
check "and repeats the missing one" equal "$(status_of x)" "done"
fleet dissect --output "$T/dissected" "$models/lab-verse-q4_k_m.gguf"
check "dissect measures nothing" equal "$(find "$T/dissected" -name 'measures.*')" ""
fleet measure $few --output "$T/of-organs" "$T/dissected"
check "a folder of organs is a folder of models" equal "$(status_of lab-verse-q4_k_m)" "done"

# ---- lists, JSON, two of one name
mkdir "$T/other"
cp "$data/gguf/names-odd.gguf" "$T/other/lab-verse-q4_k_m.gguf"
printf '%s\n' "$models/lab-verse-q4_k_m.gguf" "" "$T/other/lab-verse-q4_k_m.gguf" "$models/lab-verse-q4_k_m.gguf" |
    "$scripts/organ-fleet" measure $few --json --output "$T/list" - >"$T/table" 2>"$T/fleet.err"
check "a list on stdin" equal "$(wc -l <"$T/table" | tr -d ' ')" 2
check "two of one name have a folder each" equal "$(find "$T/list/models" -name measures.tsv | wc -l | tr -d ' ')" 2
check "rows as JSON" grep -q \
    '^{"model": "lab-verse-q4_k_m", "status": "done", "bytes": '$bytes', "seconds": [0-9.]*, ' "$T/table"
rm "$models/in a folder/x-00001-of-00003.gguf"
fleet measure $few --output "$T/no-first" "$models/in a folder"
check "shards without their first: one failure" equal "$(cells status "$T/table" | tail -n +2)" failed

if have python3 "what Python checks"; then
    valid='import json, sys
for f in sys.argv[1:]: json.load(open(f, encoding="utf-8"))'
    check "the reports are JSON" python3 -c "$valid" "$out/z_report_complete.json" "$pipe/dissection_report.json" \
        "$pipe/z_report_complete.json" "$T/no-first/z_report_complete.json"
    check "and say what they should" python3 - "$pipe" <<'EOF'
import json, math, sys
d = json.load(open(sys.argv[1] + "/dissection_report.json"))
z = json.load(open(sys.argv[1] + "/z_report_complete.json"))
assert d["totals"]["models"] == 5 and d["totals"]["failed"] == 1, d["totals"]
verse = [m for m in d["models"] if m["model"] == "lab-verse-q4_k_m"][0]
assert verse["architecture"] == "llama" and verse["tensors"] == 21, verse
assert sum(c["parameters"] for c in verse["classes"]) == verse["parameters"] == 1705216
assert len(z["models"]) == 4 and z["failed"][0]["model"] == "broken"
verse = [m for m in z["models"] if m["model"] == "lab-verse-q4_k_m"][0]
rows = [json.loads(l) for l in open(sys.argv[1] + "/models/lab-verse-q4_k_m/measures.jsonl")]
mean = sum(r["theta"] for r in rows) / len(rows)
assert math.isclose(verse["mean_theta"], mean, rel_tol=1e-7), (verse["mean_theta"], mean)
assert sum(c["count"] for c in verse["classes"]) == sum(r["count"] for r in verse["roles"]) == 21
q = [r["theta"] for r in rows if r["name"].endswith("attn_q.weight")]
role = [r for r in verse["roles"] if r["role"] == "attn_q"][0]
assert role["count"] == 2 and math.isclose(role["min_theta"], min(q),
    rel_tol=1e-7) and math.isclose(role["mean_theta"], sum(q) / 2, rel_tol=1e-7)
by = [r["theta"] for r in z["ranking"]["models"]]
assert by == sorted(by, reverse=True) and len(by) == 4
EOF
    fleet measure $few --json --output "$T/list" "$models/lab-verse-q4_k_m.gguf" "$models/it's \$odd \"&\" <b>.gguf"
    check "the lines are JSON" python3 -c 'import json, sys
for l in open(sys.argv[1], encoding="utf-8"): json.loads(l)' "$T/table"
fi

# ---- links: to the folder, to a model in it, as download caches have them
mkdir "$T/blobs" "$T/cache"
cp "$data/gguf/names-odd.gguf" "$T/blobs/4f2a"
ln -s ../blobs/4f2a "$T/cache/linked.gguf"
ln -s ../gone "$T/cache/dangling.gguf"
ln -s "$T/blobs" "$T/cache/folder.gguf"
ln -s cache "$T/models-link"
fleet measure $few --output "$T/of-links" "$T/models-link"
check "a folder that is a link, with links to models" equal "$? $(status_of linked) $(status_of dangling) $(status_of \
    folder)" "1 done failed "
sleep 1
touch "$T/blobs/4f2a"
fleet measure $few --output "$T/of-links" "$T/models-link"
check "what a link leads to is newer" equal "$(status_of linked)" "done"
fleet measure $few --output "$T/of-links" "$T/models-link"
check "and then it is kept" equal "$(status_of linked)" "kept"

# ---- whatever awk there is: the same reports, also of nothing at all
for awk in "awk" "busybox awk" gawk mawk original-awk; do
    wanted_awk "$awk" || continue
    rm -rf "$T/awk.d"
    mkdir "$T/awk.d"
    printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v "${awk%% *}")${awk#"${awk%% *}"}" > "$T/awk.d/awk"
    chmod +x "$T/awk.d/awk"
    for one in broken "it's \$odd \"&\" <b>"; do
        [ "$one" != broken ] || exhaustive || continue
        rm -rf "$T/by-awk"
        PATH=$T/awk.d:$PATH "$scripts/organ-fleet" pipeline $few \
            --output "$T/by-awk" "$models/$one.gguf" > "$T/table" \
            2> "$T/fleet.err"
        check "$awk: $one" equal "$? $(cells status "$T/table" | tail -n +2)" "$([ "$one" = broken ] && echo 1 failed \
            || echo 0 "done")"
        for f in z_report_complete.json dissection_report.json ranking.tsv; do
            sed '/"created"/d; s/"seconds": [0-9.]*\(, "mb_per_s": [0-9.nul]*\)*//' "$T/by-awk/$f" > "$T/have.$f"
            [ "$awk" = awk ] && cp "$T/have.$f" "$T/want.$f $one"
            check_same "$T/have.$f" "$T/want.$f $one" "$f by $awk of $one"
        done
    done
done

# ---- workers of GNU parallel, and over "hosts" that need no sshd
if have parallel && parallel --version 2>/dev/null | grep -q '^GNU parallel'; then
    fleet measure $few --parallel -j 2 --output "$T/par" \
        "$models/lab-verse-q4_k_m.gguf" "$models/it's \$odd \"&\" <b>.gguf"
    check "GNU parallel does the same" equal "$? $(status_of lab-verse-q4_k_m)" "0 done"
    check "to the bit" cmp "$T/par/models/lab-verse-q4_k_m/measures.jsonl" \
        "$pipe/models/lab-verse-q4_k_m/measures.jsonl"
    cat >"$T/ssh" <<'EOF'
#!/bin/sh
# stands for ssh: options, a host, maybe --, and the command, which runs here
while [ "${1#-}" != "$1" ]; do shift; done
echo "$1" >>"$SSH_LOG"
shift
[ "$1" = -- ] && shift
SHELL=/bin/sh # as sshd sets it: parallel runs what it sent with $SHELL
export SHELL
exec sh -c "$*"
EOF
    mkdir "$T/hosts" && mv "$T/ssh" "$T/hosts/ssh" && chmod +x "$T/hosts/ssh"
    # by its name: PARALLEL_SSH is a command, and $T may have a space
    SSH_LOG=$T/ssh.log PARALLEL_SSH=ssh PATH=$T/hosts:$PATH "$scripts/organ-fleet" \
        measure $few -j 1 --sshlogin one,two \
        --output "$T/far" "$models" >"$T/table" 2>"$T/fleet.err"
    check "over hosts: the same failure" equal "$? $(status_of broken)" "1 failed"
    check "and the same work" equal "$(status_of lab-verse-q4_k_m)" "done"
    check "both hosts worked" equal "$(sort -u "$T/ssh.log" | tr '\n' ' ')" "one two "
    PARALLEL_SSH=false "$scripts/organ-fleet" measure --sshlogin one --output "$T/gone" \
        "$models/lab-verse-q4_k_m.gguf" >"$T/table" 2>"$T/fleet.err"
    check "a host that is not there is a failure" equal $? 1
    check "and says for which model" grep -q "lab-verse-q4_k_m: the worker of this model ended early" "$T/fleet.err"
else
    echo "left out: workers of GNU parallel (parallel)"
fi

# ---- a cluster: its tasks are processes of their own, which no signal of the fleet reaches
mkdir "$T/slurm"
cat > "$T/slurm/sbatch" << 'END'
#!/bin/sh
# stands for sbatch: prints the number of the job and runs its tasks
for last; do case $last in --array=1-*) n=${last##*-}; n=${n%%[%]*} ;; esac; done
printf '%s\n' "$@" > "$SLURM_LOG"
echo "42;cluster"
detach=$(command -v setsid)
while [ "$n" -ge 1 ]; do SLURM_ARRAY_TASK_ID=$n $detach sh "$last" > /dev/null 2>&1 & n=$((n - 1)); done
wait
END
printf '#!/bin/sh\necho "$1" > "$SLURM_LOG.cancelled"\n' > "$T/slurm/scancel"
chmod +x "$T/slurm/sbatch" "$T/slurm/scancel"
SLURM_LOG=$T/slurm.log
export SLURM_LOG
PATH=$T/slurm:$PATH "$scripts/organ-fleet" measure $few -j 2 --slurm='--partition=a b --mem=2G' \
    --output "$T/it's slurm" \
    "$models/broken.gguf" "$models/lab-verse-q4_k_m.gguf" "$models/it's \$odd \"&\" <b>.gguf" >"$T/table" \
    2>"$T/fleet.err"
check_text "$? $(status_of broken) $(status_of lab-verse-q4_k_m) $(status_of "it's \$odd \"&\" <b>")" \
    "1 failed done done" "Slurm: the same work"
check "Slurm: why a model failed" grep -q 'broken: organ-measure: .*GGUF' "$T/fleet.err"
check_text "$(grep -x -e '--array.*' -e '--partition.*' -e '--mem.*' -e '--wait' "$T/slurm.log" | tr '\n' ' ')" \
    "--wait --array=1-3%2 --partition=a --mem=2G " "Slurm: what sbatch is given"
check "Slurm: to the bit" cmp "$T/it's slurm/models/lab-verse-q4_k_m/measures.jsonl" \
    "$pipe/models/lab-verse-q4_k_m/measures.jsonl"
check_text "$(find "$T/it's slurm" -name '.run-*')" "" "Slurm: nothing stays"
rm "$T/it's slurm/models/lab-verse-q4_k_m/measures.tsv"
ORGAN_SLURM_TASKS=2 PATH=$T/slurm:$PATH "$scripts/organ-fleet" measure $few -j 2 --slurm --output "$T/it's slurm" \
    "$models/broken.gguf" "$models/lab-verse-q4_k_m.gguf" "$models/it's \$odd \"&\" <b>.gguf" >"$T/table" \
    2>"$T/fleet.err"
check_text "$(status_of broken) $(status_of lab-verse-q4_k_m) $(status_of "it's \$odd \"&\" <b>")" "failed done kept" \
    "Slurm: resumed, with several models per task"
check_text "$(grep -e '--array' "$T/slurm.log")" "--array=1-2%2" "Slurm: fewer tasks"
command -v sbatch >/dev/null 2>&1 || # where it is missing
    check_error 2 "sbatch of Slurm is not installed" "no Slurm" "$scripts/organ-fleet" measure --slurm \
        --output "$T/u" "$models"
PATH=$T/slurm:$PATH check_error 2 "cannot be combined" "Slurm and GNU parallel" "$scripts/organ-fleet" measure \
    --slurm --parallel --output "$T/u" "$models"

# stopped WHAT OPTION...: a fleet on other hosts, with a tool that does not end, is stopped
stopped() {
    stopped_what=$1
    shift
    begun forever far-stopped "$T" measure "$@"
    kill -TERM "$pid"
    wait "$pid" 2> "$T/wait.err"
    check_text "$?" 143 "$stopped_what stopped"
    check "$stopped_what: how to go on" grep \
        -q '^organ-fleet: stopped: [0-9]* of [0-9]* models are finished; run the same command' "$T/fleet1.err"
    n=0
    while processes | grep -q "[t]ail -f $T" && [ $n -lt 300 ]; do sleep 0.2; n=$((n + 1)); done
    check_text "$(processes | grep "[t]ail -f $T")$(find "$T/far-stopped" -maxdepth 1 -name '.run-*')" "" \
        "$stopped_what: its tools stop"
    rm -rf "$T/far-stopped"
}
if have setsid "runs that a signal stops" util-linux; then
    OLD_PATH=$PATH PATH=$T/slurm:$PATH
    stopped Slurm --slurm -j 9
    check_text "$(cat "$T/slurm.log.cancelled")" 42 "Slurm: the job is cancelled"
    if [ -x "$T/hosts/ssh" ]; then
        sed 's/^exec sh/exec setsid sh/' "$T/hosts/ssh" > "$T/ssh.setsid"
        cat "$T/ssh.setsid" > "$T/hosts/ssh"
        PATH=$T/hosts:$PATH
        SSH_LOG=$T/ssh.log PARALLEL_SSH=ssh
        export SSH_LOG PARALLEL_SSH
        stopped hosts --sshlogin one -j 9
    fi
    PATH=$OLD_PATH
fi

# ---- equal names, the output among the models, adapters and the like, failures, lost files
mkdir -p "$T/tree/sub/deep" "$T/tree/other/deep"
for d in . sub sub/deep other/deep; do cp "$LAB/lab-code-q4_k_m.gguf" "$T/tree/$d/lab.gguf"; done
cp "$data/lab/lab-base.imatrix.gguf" "$data/lab/lab-lora-code.gguf" "$T/tree"
mkmodel "$T/tree/none.gguf"
echo GGUF > "$T/tree/sub/bad.gguf"
ln -s tree "$T/link"
fleet measure --lineage --sample 500 --output "$T/tree/out" "$T/link"
check_text "$(cells model "$T/table" | sort | tr '\n' ' ')" \
    "bad deep/lab lab lab-base.imatrix lab-lora-code model none sub/deep/lab sub/lab " "names of models in folders"
check_text "$(cells model "$T/tree/out/ranking.tsv" | sort | tr '\n' ' ')" "deep/lab lab model sub/deep/lab sub/lab " \
    "the ranking has models only"
check_text "$(cells model_a,model_b "$T/tree/out/lineage.tsv" | grep -Ec 'imatrix|lora')" 0 "and so has the lineage"
check_text "$(grep -c '"rank"' "$T/tree/out/z_report_complete.json") $(grep -c '"rank".*"sub/lab"' \
    "$T/tree/out/z_report_complete.json")" "4 1" "as data"
check "which model failed" grep -q 'models that failed: 1 of 8: bad$' "$T/fleet.err"
fleet measure --sample 500 --output "$T/link/out" "$T/link"
check_text "$(cells model,status "$T/table" | grep -c kept) $(($(wc -l < "$T/table")))" "7 9" \
    "its own output is not taken for models"
(cd "$T/tree" && "$scripts/organ-fleet" measure --sample 500 --output sub sub) > "$T/table" 2> "$T/fleet.err"
(cd "$T/tree" && "$scripts/organ-fleet" measure --sample 500 --output sub sub) > "$T/table" 2> "$T/fleet.err"
check_text "$(cells model "$T/table" | sort | tr '\n' ' ')" "bad lab model sub/lab " \
    "not even if it is the folder itself"
rm "$T/tree/lab.gguf"
check "a report on a lost file" "$scripts/organ-report" -q --format md --output "$T/gone" "$T/tree/out"
check_text "$(sed -n 3p "$T/gone/Z_MEASURE_REPORT.md" | cut -d , -f 1-4)" \
    "8 files: 5 fine, 2 broken, 1 gone, 3 exact copies (2.29 MB)" "a file that is gone is counted"
check "and marked" grep -q '^| `lab` (its file is gone) |' "$T/gone/Z_MEASURE_REPORT.md"

# ---- names that are numbers; a model that is gone keeps its verdicts
for name in 01 1 1e0 2; do cp "$models/lab-code-q4_k_m.gguf" "$T/$name.gguf"; done
verdicts() { cells model_a,model_b,verdict "$T/numbers/lineage.tsv" | tail -n +2 | tr '\t\n' ' ;'; }
check "names that are equal as numbers" "$scripts/organ-fleet" measure -q --lineage --output "$T/numbers" \
    "$T/01.gguf" "$T/1.gguf" "$T/1e0.gguf"
check_text "$(verdicts)" "01 1 identical;01 1e0 identical;1 1e0 identical;" "pairs of 01, 1 and 1e0"
rm "$T/01.gguf"
printf '01\t1e0\tkept\n' > "$T/numbers/pairs/01/1e0"
printf '1\t1e0\tkept\n' > "$T/numbers/pairs/1/1e0"
check "a model is gone" "$scripts/organ-fleet" measure --lineage --output "$T/numbers" "$T/1.gguf" "$T/1e0.gguf" \
    "$T/2.gguf"
cp "$T/err" "$T/gone.err"
check "a note that it is gone" grep -q 'models that are gone: 1;' "$T/gone.err"
check_text "$(verdicts)" "01 1 identical;01 1e0 kept;1 1e0 kept;1 2 identical;1e0 2 identical;" \
    "its verdicts are kept, and those of models that did not change"
touch -t 200001010000 "$T/numbers/pairs/1/1e0"
check "two models changed" "$scripts/organ-fleet" measure -q --lineage --output "$T/numbers" "$T/1.gguf" "$T/1e0.gguf"
check_text "$(verdicts)" "01 1 identical;01 1e0 kept;1 1e0 identical;1 2 identical;1e0 2 identical;" \
    "their pair is compared again"
# shellcheck disable=SC2034 # common.sh uses it
check_text "$(tool=t lib=$scripts/lib aligned=1 && export aligned && . "$lib/common.sh" &&
    printf '1.00001-x\t2.123456\t3.14159.gguf\n' | columns -12 8 1)" \
    "1.00001-x        2.123  3.14159.gguf" "names that begin like numbers in columns"

# ---- on a terminal: the progress, and reports before the end
if have script && script -qec true /dev/null < /dev/null > /dev/null 2>&1; then
    echo forever > "$T/seconds"
    {
        n=0
        until { grep -q '1 of 2 models done, 1 running' "$T/terminal" && grep -q verse "$T/shown/ranking.tsv"; } \
            2> /dev/null || [ $n -gt 1500 ]; do sleep 0.2; n=$((n + 1)); done
        echo $n > "$T/polls"
        kill -TERM "$(cat "$T/shown.pid")"
    } &
    command="exec '$scripts/organ-fleet' measure -j 2 --output '$T/shown' \
        '$LAB/lab-verse-q4_k_m.gguf' '$models/lab-code-q4_k_m.gguf'"
    ORGAN_BIN=$T script -qec "echo \$\$ > '$T/shown.pid'; $command" \
        /dev/null < /dev/null > "$T/terminal" 2>&1
    check_text "$?" 143 "stopped on a terminal"
    if [ "$(cat "$T/polls")" -le 1500 ]; then ok; else \
        bad "no progress on a terminal, or no reports before the end: $(cat "$T/terminal")"; fi
    check "the time left" grep -q '1 running, [0-9]*:[0-9][0-9] left' "$T/terminal"
    check "columns on a terminal" grep -q "^.*lab-verse-q4_k_m  done  *$bytes  " "$T/terminal"
    check "stopped on a terminal: how to go on" grep \
        -q 'organ-fleet: stopped: 1 of 2 models are finished; run the same command' "$T/terminal"
    n=0
    while processes | grep -q "[t]ail -f $T" && [ $n -lt 300 ]; do sleep 0.2; n=$((n + 1)); done
    check_text "$(processes | grep "[t]ail -f $T")" "" "stopped on a terminal: its tools"
else
    echo "left out: output on a terminal (bsdutils)"
fi

# ---- usage
check "--help is for stdout" sh -c '"$1/organ-fleet" --help | grep -q "^usage: organ-fleet"' - "$scripts"
check "--version" sh -c '"$1/organ-fleet" --version | grep -q "^organ-fleet [0-9]"' - "$scripts"
check_error 2 "did you mean '--port'?" "organ-serve --prot" env ORGAN_BIN="$BIN" sh "$scripts/organ-serve" --prot 1
check_exit 2 "no verb" "$scripts/organ-fleet" --output "$T/u" "$models"
check_error 2 "pipeline (did you mean 'measure'?)" "a misspelt verb" "$scripts/organ-fleet" mesure --output "$T/u" \
    "$models"
check_error 2 "or pipeline; see" "a model instead of a verb" "$scripts/organ-fleet" m.gguf --output "$T/u"
check_exit 2 "no output" "$scripts/organ-fleet" measure "$models"
check_exit 2 "unknown option" "$scripts/organ-fleet" measure --what --output "$T/u" "$models"
check_exit 2 "a value missing" "$scripts/organ-fleet" measure "$models" --output
check_exit 2 "not a number" "$scripts/organ-fleet" measure $few -j many --output "$T/u" "$models"
mkdir "$T/empty"
check_exit 1 "nothing there" "$scripts/organ-fleet" measure --output "$T/u" "$T/empty"

# A name that a table cannot hold is left out, and the exit status tells.
mkdir "$T/odd"
cp "$LAB/lab-verse-q4_k_m.gguf" "$T/odd/good.gguf"
cp "$LAB/lab-verse-q4_k_m.gguf" "$T/odd/a${TAB}b.gguf"
fleet dissect --output "$T/odd.out" "$T/odd"
check_text "$? $(status_of good) $(grep -c 'skipping a file' "$T/fleet.err")" "1 done 1" \
    "a name with a tab is left out"

# Every tool refuses a folder without a manifest with the same exit status.
mkdir "$T/plain"
ln -s "$scripts/organ-validate" "$T/organ-validate"
for command in "organ-extract --list" organ-measure "organ-keys" "organ-purify --method haar --output $T/x" \
    "organ-assemble --output $T/x" \
    "organ-transplant --output $T/x --donor $LAB/lab-verse-q4_k_m.gguf --base" \
    "organ-graft --output $T/x --source $LAB/lab-verse-q4_k_m.gguf --target" \
    "organ-compare $LAB/lab-verse-q4_k_m.gguf" "$T/organ-validate"; do
    # shellcheck disable=SC2086
    check_error 3 "$T/plain" "a folder without a manifest: ${command%% *}" $command "$T/plain"
done
finish
