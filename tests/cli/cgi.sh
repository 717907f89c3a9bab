#!/bin/sh
# shellcheck disable=SC1091
# cgi.sh - organ-api called as a web server calls it, without a web server: failing
# allocations, names that claim many shards, and the Host header.
. "$(dirname "$0")/lib.sh"
DATA=$T/data
mkdir "$DATA" "$T/spool"
cp "$LAB/lab-verse-q4_k_m.gguf" "$DATA/verse.gguf"
printf '0123456789abcdef' > "$T/token"

# Answers are recorded, to be compared with docs/openapi.yaml.
mkdir "$T/answers"
record=1 answers=0

# cgi METHOD PATH [VARIABLE=VALUE...] < body; the answer is in $T/got
cgi() {
    method=$1 path=$2
    shift 2
    env REQUEST_METHOD="$method" PATH_INFO="$path" ORGAN_API_DATA="$DATA" ORGAN_API_SPOOL="$T/spool" \
        ORGAN_API_TOKEN_FILE="$T/token" ORGAN_API_BIN="$BIN" ORGAN_API_SCRIPTS="$PWD/scripts" \
        HTTP_AUTHORIZATION="Bearer 0123456789abcdef" "$@" "$BIN/organ-api" > "$T/got" 2> "$T/err"
    status=$(head -n 1 "$T/got" | tr -d '\r')
    [ -n "$record" ] || return 0
    answers=$((answers + 1))
    cp "$T/got" "$T/answers/$answers"
    echo "$method $path $T/answers/$answers" >> "$T/lines"
}
# expect "STATUS TEXT" METHOD PATH [VARIABLE=VALUE...]
expect() {
    want=$1
    shift
    cgi "$@" < /dev/null
    check_text "$status" "Status: $want" "$*"
}
post() { # BODY
    printf '%s' "$1" > "$T/body"
    cgi POST /v1/jobs CONTENT_LENGTH=${#1} < "$T/body"
    check_text "$status" "Status: 202 Accepted" "$1"
    job=$(sed -n 's/^{"id": "\([0-9a-f]*\)".*/\1/p' "$T/got")
    n=0
    while [ $n -lt 2000 ] && [ ! -s "$T/spool/jobs/$job/exit" ]; do
        sleep 0.05
        n=$((n + 1))
    done
}

organ-extract "$DATA/verse.gguf" --output "$DATA/verse.organs"
post '{"tool": "organ-extract", "arguments": ["verse.gguf", "--list"]}'

# ---- lists of names -------------------------------------------------------------------------------
for list in assemble:types assemble:presets merge:methods merge:parameters measure:columns check:rules \
    extract:classes extract:parts; do
    expect "200 OK" GET "/v1/lists/${list#*:}"
    tr -d '\r' < "$T/got" | sed '1,/^$/d' > "$T/names"
    "organ-${list%:*}" "--list-${list#*:}" --json > "$T/listed"
    check_same "$T/names" "$T/listed" "names over HTTP: $list"
done
expect "404 Not Found" GET /v1/lists/none
expect "404 Not Found" GET /v1/lists
expect "405 Method Not Allowed" DELETE /v1/lists/methods
expect "500 Internal Server Error" GET /v1/lists/methods ORGAN_API_BIN=/nonexistent

# ---- times, long polling, the latest jobs -----------------------------------------------------------
cgi GET /v1/models < /dev/null
if grep -q '"modified": "20[0-9-]*T[0-9:]*\.[0-9]*Z"' "$T/got"; then ok; else bad "no ISO 8601 time: $(cat \
    "$T/got")"; fi
for q in wait=61 'wait=1&since=done&percent=101' 'wait=1&since=done&percent=x' wait=x wait= wait=-1 \
    'wait=1&since=ended' since= since=QUEUED since=queuedd; do
    expect "400 Bad Request" GET "/v1/jobs/$job" QUERY_STRING="$q"
done
before=$(date +%s)
expect "200 OK" GET "/v1/jobs/$job" QUERY_STRING="wait=60"
expect "200 OK" GET "/v1/jobs/$job" QUERY_STRING="wait=60&since=running"
expect "200 OK" GET "/v1/jobs/$job" QUERY_STRING="wait=1&since=done"
expect "200 OK" GET "/v1/jobs/$job" QUERY_STRING="wait=60&since=done&percent=99"
expect "404 Not Found" GET /v1/jobs/0000000000000000000000 QUERY_STRING="wait=60"
if [ $(($(date +%s) - before)) -lt 60 ]; then ok; else bad "a job that has ended is waited for"; fi
if [ $(($(date +%s) - before)) -ge 1 ]; then ok; else bad "wait=1 does not wait"; fi
cgi GET /v1/jobs QUERY_STRING=last=1 < /dev/null
check_text "$(grep -c '"id"' "$T/got")" 1 "the latest job"
cgi GET /v1/jobs QUERY_STRING=last=0 < /dev/null
check_text "$(grep -c '"id"' "$T/got")" 0 "no jobs"
expect "400 Bad Request" GET /v1/jobs QUERY_STRING=last=all

# A job can be removed as soon as its end is known, although its supervisor may still be there.
for i in 1 2 3 4 5; do
    printf '%s' '{"tool": "organ-keys", "arguments": ["verse.gguf", "general.name"]}' > "$T/body"
    cgi POST /v1/jobs CONTENT_LENGTH=$(($(wc -c < "$T/body"))) < "$T/body"
    id=$(sed -n 's/^{"id": "\([0-9a-f]*\)".*/\1/p' "$T/got")
    n=0
    while [ ! -e "$T/spool/jobs/$id/exit" ] && [ $n -lt 10000000 ]; do n=$((n + 1)); done
    expect "200 OK" DELETE "/v1/jobs/$id" QUERY_STRING=remove=1
done

# ---- the tools that were added last: what they may name, and one run of each ------------------------
cp "$LAB/lab-code-q4_k_m.gguf" "$DATA/code.gguf"
echo 'top secret' > "$T/secret"
ln -s "$T" "$DATA/outside"
refuse() { # STATUS TOOL ARGUMENTS
    body='{"tool": "'$2'", "arguments": '$3'}'
    printf '%s' "$body" > "$T/body"
    cgi POST /v1/jobs CONTENT_LENGTH=${#body} < "$T/body"
    check_text "${status%% [A-Z]*}" "Status: $1" "$body"
    [ ! -d "$T/spool/queue" ] || check_text "$(ls "$T/spool/queue")" "" "nothing was started"
}
mkdir "$DATA/trap"
ln -s "$T" "$DATA/trap/report"
refuse 403 organ-merge '["--method", "linear", "--model", "../secret,weight=1", "--output", "m.gguf"]'
refuse 403 organ-merge '["--method", "linear", "--model", "/etc/passwd,weight=1", "--output", "m.gguf"]'
refuse 403 organ-merge '["--method", "linear", "--model", "outside/secret,weight=1", "--output", "m.gguf"]'
refuse 400 organ-merge '["--method", "linear", "--model", "verse.gguf,x/../../secret", "--output", "m.gguf"]'
refuse 400 organ-merge '["--method", "linear", "--model", "verse.gguf,w\u0007=1", "--output", "m.gguf"]'
refuse 400 organ-merge '["--config", "verse.gguf", "--output", "m.gguf"]'
refuse 400 organ-merge '["--set-kv-file", "a=verse.gguf", "--output", "m.gguf"]'
refuse 400 organ-stack '["verse.gguf", "../secret", "--output", "m.gguf"]'
refuse 403 organ-stack '["verse.gguf", "0-1", "../secret", "0", "--output", "m.gguf"]'
refuse 400 organ-stack '["verse.gguf", "0-1", "--drop=x", "--output", "m.gguf"]'
refuse 400 organ-fleet '["verse.gguf", "pipeline", "--output", "fleet"]'
refuse 400 organ-fleet '["--output", "fleet"]'
refuse 400 organ-fleet '["--job", "--output", "fleet", "verse.gguf"]'
refuse 400 organ-fleet '["pipeline", "--output", "fleet", "--sshlogin", "host", "verse.gguf"]'
refuse 400 organ-fleet '["pipeline", "--output", "fleet", "-j2", "verse.gguf"]'
refuse 400 organ-fleet '["pipeline", "--output", "fleet", "-"]'
refuse 403 organ-fleet '["pipeline", "--output", "fleet", "outside/secret"]'
refuse 403 organ-fleet '["pipeline", "--output", "outside", "verse.gguf"]'
refuse 403 organ-report '["--output", "trap", "verse.gguf"]'
refuse 400 organ-report '["--output", "a/b", "verse.gguf"]'
refuse 403 organ-validate '["verse.gguf", "--text", "../secret"]'
refuse 400 organ-validate '["verse.gguf", "--engine", "sh"]'
refuse 403 organ-keys '["../secret", "general.*"]'

run() { # EXIT TEXT-OF-THE-RESULT TOOL ARGUMENTS
    post '{"tool": "'"$3"'", "arguments": '"$4"'}'
    cgi GET "/v1/jobs/$job" < /dev/null
    check_text "$(sed -n 's/.*"exit": \([0-9]*\).*/\1/p' "$T/got")" "$1" "$3 $4: $(tail -n 1 "$T/got")"
    cgi GET "/v1/jobs/$job/result" < /dev/null
    if grep -qF -e "$2" "$T/got"; then ok; else bad "$3 $4: no '$2' in $(head -c 600 "$T/got")"; fi
}
run 0 '"key": "general.architecture"' organ-keys '["verse.gguf", "general.arch*"]'
run 0 '' organ-stack '["verse.gguf", "0-1", "code.gguf", "2-3", "--output", "stack.gguf"]'
organ-stack -q "$DATA/verse.gguf" 0-1 "$DATA/code.gguf" 2-3 --output "$T/stack.gguf" 2> "$T/err"
check_same "$DATA/stack.gguf" "$T/stack.gguf" "organ-stack over HTTP"
run 0 '"name": "blk.0.attn_q.weight"' organ-merge \
    '{"method": "linear", "model": ["verse.gguf,weight=0.5", "code.gguf,weight:ffn=0.5,weight=1"], "check": true}'
run 0 '' organ-merge '["--method", "passthrough", "--model", "verse.gguf", "--output", "merged.gguf"]'
run 0 '' organ-merge '["--svg", "merged.svg", "merged.gguf"]'
expect "200 OK" GET /v1/files/merged.svg
run 2 '' organ-merge '["--svg", "two.svg", "merged.gguf", "verse.gguf"]'
run 0 '"rank": ' organ-lora '["--base", "verse.gguf", "--tuned", "code.gguf", "--rank",
    "2", "--tensors", "blk.0.attn_q.weight", "--output", "lora.gguf"]'
run 0 '"status": "done"' organ-fleet \
    '["pipeline", "--output", "fleet", "--sample", "500", "--threads", "1", "verse.gguf", "code.gguf"]'
cgi GET "/v1/jobs/$job" < /dev/null
if grep -q '"percent": 100' "$T/got"; then ok; else bad "progress of a fleet: $(cat "$T/got")"; fi
check_text "$(($(wc -l < "$T/spool/jobs/$job/progress")))" 2 "one line of progress per model"
expect "200 OK" GET /v1/files/fleet/report/Z_MEASURE_REPORT.html
if grep -qi '^content-type: application/octet-stream' "$T/got"; then ok; else bad "a report is served as a page"; fi
run 0 '"status": "kept"' organ-fleet \
    '["measure", "--output", "fleet", "--sample", "500", "--threads", "1", "verse.gguf"]'
run 0 '' organ-report '["--output", "report", "--sample", "500", "--format", "md", "verse.gguf"]'
expect "200 OK" GET /v1/files/report/Z_MEASURE_REPORT.md
expect "403 Forbidden" GET /v1/files/outside/secret
expect "403 Forbidden" GET /v1/files/trap/report/secret
expect "404 Not Found" GET /v1/files/fleet/report/Z_MEASURE_REPORT.html/x
expect "404 Not Found" GET /v1/files/fleet
# organ-validate needs an engine, here a script in its place.
mkdir "$T/scripts"
printf '#!/bin/sh\necho "{\\"bin\\": \\"$ORGAN_BIN\\", \\"n\\": $#}"\n' > "$T/scripts/organ-validate"
chmod +x "$T/scripts/organ-validate"
printf '%s' '{"tool": "organ-validate", "arguments": ["verse.gguf", "--context", "64", "-q"]}' > "$T/body"
cgi POST /v1/jobs CONTENT_LENGTH=$(($(wc -c < "$T/body"))) ORGAN_API_SCRIPTS="$T/scripts" < "$T/body"
job=$(sed -n 's/^{"id": "\([0-9a-f]*\)".*/\1/p' "$T/got")
cgi GET "/v1/jobs/$job" QUERY_STRING=wait=60 < /dev/null
cgi GET "/v1/jobs/$job/result" < /dev/null
if grep -qF '{"bin": "'"$BIN"'", "n": 5}' "$T/got"; then ok; else bad "a script's arguments: $(cat "$T/got")"; fi
rm -r "$DATA/trap" "$DATA/outside"

# ---- docs/openapi.yaml describes all of these answers ----------------------------------------------
expect "200 OK" GET /v1/health
expect "401 Unauthorized" GET /v1/health HTTP_AUTHORIZATION=
expect "200 OK" GET /v1/models/verse.gguf
expect "200 OK" GET /v1/models/verse.organs
expect "404 Not Found" GET /v1/models/none.gguf
expect "200 OK" GET /v1/organs
expect "200 OK" GET /v1/organs/verse.organs
expect "206 Partial Content" GET /v1/organs/verse.organs/embed/token_embd.bin HTTP_RANGE=bytes=0-9
expect "416 Range Not Satisfiable" GET /v1/files/verse.gguf HTTP_RANGE=bytes=999999999-
expect "200 OK" GET /v1/jobs
cgi PUT /v1/models/up.gguf CONTENT_LENGTH=$(($(wc -c < "$DATA/code.gguf"))) < "$DATA/code.gguf"
check_text "$status" "Status: 201 Created" "an upload"
expect "411 Length Required" PUT /v1/models/up.gguf
expect "200 OK" DELETE "/v1/jobs/$job"
expect "200 OK" DELETE "/v1/jobs/$job" QUERY_STRING=remove=1
expect "200 OK" GET /v1/info/verse.gguf
expect "404 Not Found" GET /v1/info/none.gguf
expect "500 Internal Server Error" GET /v1/info/verse.gguf ORGAN_API_BIN=/nonexistent
expect "200 OK" POST /v1/models/up.gguf QUERY_STRING=rename=down.gguf
expect "409 Conflict" POST /v1/models/down.gguf QUERY_STRING=rename=verse.gguf
expect "200 OK" DELETE /v1/models/down.gguf
expect "404 Not Found" DELETE /v1/models/down.gguf
echo text > "$T/text"
cgi POST /v1/texts/a.txt CONTENT_LENGTH=5 < "$T/text"
check_text "$status" "Status: 201 Created" "a text"
expect "200 OK" GET /v1/texts
expect "200 OK" GET /v1/texts/a.txt
expect "206 Partial Content" GET /v1/texts/a.txt HTTP_RANGE=bytes=0-1
expect "200 OK" DELETE /v1/texts/a.txt
cp -r "$DATA/verse.organs" "$DATA/b.organs"
expect "200 OK" POST /v1/organs/b.organs QUERY_STRING=rename=c.organs
expect "400 Bad Request" POST /v1/organs/c.organs
expect "200 OK" DELETE /v1/organs/c.organs
record=
rm -f "$DATA/up.gguf"
if have python3 && python3 -c 'import jsonschema, yaml' 2> "$T/err"; then
    python3 -W ignore tests/cli/openapi.py docs/openapi.yaml < "$T/lines" > "$T/differences"
    check_text "$? $(head -n 5 "$T/differences")" "0 " "$answers answers and docs/openapi.yaml"
    # A time in seconds would be noticed.
    sed 's/"modified": "[^"]*"/"modified": 1763800000/' "$T/answers/2" > "$T/answers/bad"
    check_text "$(echo "GET /v1/models $T/answers/bad" | python3 -W ignore tests/cli/openapi.py docs/openapi.yaml \
        | grep -c .)" 1 "the check notices"
else
    echo "left out: answers against docs/openapi.yaml (python3-jsonschema, python3-yaml)"
fi
post '{"tool": "organ-extract", "arguments": ["verse.gguf", "--list"]}'

# ---- each allocation fails in turn: the whole answer or 500, never "not found" or half a list ----
short_of_memory() {
    cgi GET "$1" FAULT_NTH=0 FAULT_OP=alloc FAULT_COUNT="$T/allocs" LD_PRELOAD="$T/inject.so" < /dev/null
    cp "$T/got" "$T/whole"
    check_text "$status" "Status: 200 OK" "$1 without a failure"
    allocs=$(cat "$T/allocs")
    rm -f "$T/allocs"
    i=1
    while [ $i -le "$allocs" ]; do
        cgi GET "$1" FAULT_NTH=$i FAULT_OP=alloc LD_PRELOAD="$T/inject.so" < /dev/null
        case $status in
        "Status: 500 "*) ok ;;
        *) check_same "$T/got" "$T/whole" "$1, allocation $i of $allocs fails: $status" ;;
        esac
        if [ $i -lt 60 ]; then i=$((i + 1)); else i=$((i + 7)); fi # the later ones are alike
    done
}
if [ -z "${SANITIZED:-}" ] && compile -std=gnu11 -shared -fPIC -o "$T/inject.so" tests/faults/inject.c \
    -ldl 2> "$T/err" &&
    LD_PRELOAD=$T/inject.so "$BIN/organ-api" --version > "$T/out" 2> "$T/err" && [ ! -s "$T/err" ]; then
    for p in /v1/health /v1/models /v1/models/verse.gguf /v1/organs /v1/organs/verse.organs /v1/files/verse.gguf \
        /v1/jobs "/v1/jobs/$job" "/v1/jobs/$job/result"; do
        short_of_memory "$p"
    done
else
    echo "cgi.sh: failing allocations are left out here"
fi

# ---- a name may claim 99999 shards, which must not cost a search for all of them ------------------
cp "$DATA/verse.gguf" "$DATA/many-00001-of-99999.gguf"
expect "200 OK" GET /v1/models/many-00001-of-99999.gguf
post '{"tool": "organ-extract", "arguments": ["many-00001-of-99999.gguf", "--list"]}'
if have strace "system calls of organ-api" && strace -o "$T/trace" true 2> "$T/err"; then
    strace -f -o "$T/trace" env REQUEST_METHOD=GET PATH_INFO=/v1/models/many-00001-of-99999.gguf \
        ORGAN_API_DATA="$DATA" \
        ORGAN_API_SPOOL="$T/spool" ORGAN_API_TOKEN_FILE="$T/token" ORGAN_API_BIN="$BIN" \
        HTTP_AUTHORIZATION="Bearer 0123456789abcdef" "$BIN/organ-api" > "$T/got" 2> "$T/err" < /dev/null
    n=$(($(wc -l < "$T/trace")))
    if [ $n -lt 3000 ]; then ok; else bad "shard 1 of 99999 costs $n system calls"; fi
fi
# A shard that is a link out of the data folder is refused, whichever shard is named.
echo 'top secret' > "$T/secret"
ln -s "$T/secret" "$DATA/many-99998-of-99999.gguf"
expect "403 Forbidden" GET /v1/models/many-00001-of-99999.gguf
# Links of another set are no reason to refuse.
mv "$DATA/many-99998-of-99999.gguf" "$DATA/many-00002-of-00003.gguf"
expect "200 OK" GET /v1/models/many-00001-of-99999.gguf

# ---- Host ------------------------------------------------------------------------------------------
for h in attacker.example attacker.example:8765 127.0.0.1.attacker.example localhost.attacker.example localhost: \
    localhost:8765.attacker.example localhost:123456 127.0.0.2 10.0.0.1 user@localhost "" " localhost"; do
    expect "403 Forbidden" GET /v1/health HTTP_HOST="$h"
    expect "403 Forbidden" GET /v1/health HTTP_HOST="$h" ORGAN_API_HOST=models.example
done
for h in 127.0.0.1 127.0.0.1:8765 localhost LOCALHOST:9 '[::1]' '[::1]:8765'; do
    expect "200 OK" GET /v1/health HTTP_HOST="$h"
done
expect "200 OK" GET /v1/health HTTP_HOST=models.example:443 ORGAN_API_HOST=models.example
expect "403 Forbidden" GET /v1/health HTTP_HOST=models.example ORGAN_API_HOST=
# A wrong host is refused whether the token is right or not.
expect "403 Forbidden" GET /v1/health HTTP_HOST=attacker.example HTTP_AUTHORIZATION=

# ---- without the token ---------------------------------------------------------------------------------
# The answer does not wait for the body, and 16 requests at most wait for the rest of theirs.
record=
if mkfifo "$T/body.pipe" 2> /dev/null; then
    exec 5<> "$T/body.pipe"
    i=0 pids=''
    while [ $i -lt 20 ]; do
        i=$((i + 1))
        env REQUEST_METHOD=PUT PATH_INFO=/v1/models/x.gguf CONTENT_LENGTH=1000 ORGAN_API_DATA="$DATA" \
            ORGAN_API_SPOOL="$T/spool" ORGAN_API_TOKEN_FILE="$T/token" ORGAN_API_BIN="$BIN" \
            HTTP_AUTHORIZATION="Bearer wrong" "$BIN/organ-api" > "$T/stranger.$i" 2> "$T/err" <&5 &
        pids="$pids $!"
    done
    n=0
    while [ $n -lt 2000 ] && [ "$(cat "$T"/stranger.* | grep -c '^{.*"the token is wrong"')" -lt 20 ]; do
        sleep 0.05
        n=$((n + 1))
    done
    check_text "$(cat "$T"/stranger.* | grep -c '^Status: 401')" 20 "answers before the bodies"
    n=0
    while # those that do not wait end soon
        alive=0
        for pid in $pids; do kill -0 "$pid" 2> /dev/null && alive=$((alive + 1)); done
        [ $alive -gt 16 ] && [ $n -lt 400 ]
    do
        sleep 0.05
        n=$((n + 1))
    done
    [ $alive -le 16 ] && ok || bad "$alive requests without the token wait for their bodies"
    kill $pids 2> /dev/null
    wait $pids
    exec 5>&-
fi

# ---- finished jobs are forgotten, and a quota --------------------------------------------------------------
keys='{"tool": "organ-keys", "arguments": ["verse.gguf", "general.name"]}'
supervised() { # waits until no job has a supervisor, which may live a little longer than its job
    if have flock; then for f in "$T"/spool/jobs/*/lock; do flock "$f" true; done
    else sleep 0.2
    fi
}
ended() { find "$T/spool/jobs" -name exit | wc -l | tr -d ' '; }
cgi GET /v1/jobs < /dev/null
for i in 1 2 3 4; do post "$keys"; done
[ "$(ended)" -ge 4 ] && ok || bad "four jobs have ended: $(ended)"
printf '%s' "$keys" > "$T/body"
newest=$job
supervised
cgi POST /v1/jobs CONTENT_LENGTH=${#keys} ORGAN_API_KEEP_JOBS=2 < "$T/body"
check_text "$status" "Status: 202 Accepted" "a job that evicts others"
jobs_kept() { find "$T/spool/jobs" ! -name '*[!0-9a-f]*' -prune | grep -c .; }
kept=$(jobs_kept)
[ "$kept" -le 3 ] && [ -d "$T/spool/jobs/$newest" ] && ok || bad "the newest two and the new one stay, not $kept"
n=0
while [ $n -lt 2000 ] && [ "$(ended)" != "$kept" ]; do sleep 0.05; n=$((n + 1)); done
supervised
echo '{"ended": 1000000, "exit": 0, "stopped": false}' > "$T/spool/jobs/$newest/exit"
post "$keys"
check_absent "$T/spool/jobs/$newest" "a job that ended long ago"
if [ "$(jobs_kept)" -ge 2 ]; then ok; else bad "younger jobs stay"; fi
# Of two that are too many, the one stays that ended last, though it was made first.
n=0
while [ $n -lt 2000 ] && [ "$(ended)" != "$(jobs_kept)" ]; do sleep 0.05; n=$((n + 1)); done
supervised
first=$(find "$T/spool/jobs" ! -name '*[!0-9a-f]*' -prune | sort | head -n 1)
echo '{"ended": 99999999999999, "exit": 0, "stopped": false}' > "$first/exit"
cgi POST /v1/jobs CONTENT_LENGTH=${#keys} ORGAN_API_KEEP_JOBS=1 < "$T/body"
[ -d "$first" ] && [ "$(jobs_kept)" -le 2 ] && ok || bad "the job that ended last stays, not $(jobs_kept) jobs"

full=$(($(du -sk "$DATA" | cut -f1) * 1024 + 100000))
cgi PUT /v1/models/new.gguf CONTENT_LENGTH=$(($(wc -c < "$DATA/code.gguf"))) ORGAN_API_QUOTA=$full < "$DATA/code.gguf"
check_text "$status" "Status: 507 Insufficient Storage" "an upload beyond the quota"
check_absent "$DATA/new.gguf" "an upload beyond the quota"
cgi PUT /v1/models/new.gguf CONTENT_LENGTH=$(($(wc -c < "$DATA/code.gguf"))) \
    ORGAN_API_QUOTA=$((full + 4000000)) < "$DATA/code.gguf"
check_text "$status" "Status: 201 Created" "an upload within the quota"
cgi POST /v1/jobs CONTENT_LENGTH=${#keys} ORGAN_API_QUOTA=1000 < "$T/body"
check_text "$status" "Status: 507 Insufficient Storage" "a job in a full folder"
copy='{"tool": "organ-assemble", "arguments": ["verse.gguf", "--output", "copy.gguf"]}'
printf '%s' "$copy" > "$T/body"
full=$(($(du -sk "$DATA" | cut -f1) * 1024 + 100000))
cgi POST /v1/jobs CONTENT_LENGTH=${#copy} ORGAN_API_QUOTA=$full < "$T/body"
job=$(sed -n 's/^{"id": "\([0-9a-f]*\)".*/\1/p' "$T/got")
n=0
while [ $n -lt 1000 ] && [ ! -s "$T/spool/jobs/$job/exit" ]; do sleep 0.05; n=$((n + 1)); done
check_text "$(grep -c '"exit": 4' "$T/spool/jobs/$job/exit")" 1 "a job whose output exceeds the quota"
check_absent "$DATA/copy.gguf" "a job whose output exceeds the quota"
expect "500 Internal Server Error" GET /v1/health ORGAN_API_KEEP_DAYS=x
finish
