#!/bin/sh
# api.sh - organ-serve and organ-api over HTTP, with curl: the whole pipeline, and
# everything that must not work.
#
# Two folders of tools are served: the real ones, and one where organ-compare and
# organ-purify are scripts that run for as long as a test needs.
# shellcheck disable=SC1010,SC1091,SC2016 # "done" is a state of a job, $( no command
. "$(dirname "$0")/lib.sh"

PATH=$PATH:/usr/sbin:/sbin
has_server() {
    if [ "$1" = busybox ]; then busybox --list 2> /dev/null | grep -qx httpd; else have "$1"; fi
}
have curl "organ-serve and organ-api behind a server" || finish
if ! has_server lighttpd && ! has_server busybox; then
    echo "left out: organ-serve and organ-api behind a server (lighttpd)"
    finish
fi
if [ ! -x "$BIN/organ-api" ]; then
    bad "organ-api is not built"
    finish
fi

DATA=$T/data
SERVER_PID=''
mkdir "$DATA" "$T/tmp" "$T/fake"
cp "$LAB/lab-verse-q4_k_m.gguf" "$DATA/verse.gguf"
VERSE=$DATA/verse.gguf

cleanup() {
    [ -z "$SERVER_PID" ] || { kill "$SERVER_PID" && wait "$SERVER_PID"; } 2> /dev/null
    SERVER_PID=''
}
trap 'cleanup; chmod -R u+w "$T" 2> /dev/null; rm -rf "$T"' EXIT

# ---- helpers -------------------------------------------------------------------------

# serve TOOLS OPTION...: sets ORGAN_URL and ORGAN_TOKEN. A port that is taken is not
# ours to know: the next is tried.
port=$((20000 + $$ % 20000))
serve() {
    tools=$1
    shift
    for try in 1 2 3 4 5; do
        port=$((port + 1))
        rm -f "$T/serve.out" "$T/serve.err" # of the server before
        TMPDIR=$T/tmp ORGAN_BIN=$tools sh scripts/organ-serve --port $port --data "$DATA" "$@" > "$T/serve.out" \
            2> "$T/serve.err" < /dev/null &
        SERVER_PID=$!
        n=0
        while [ $n -lt 1000 ] && kill -0 $SERVER_PID 2> /dev/null; do
            if grep -qs 'stop it with: kill' "$T/serve.err"; then # which it says last
                ORGAN_URL=$(sed -n 's/^ORGAN_URL=//p' "$T/serve.out")
                made=$(sed -n 's/^ORGAN_TOKEN=//p' "$T/serve.out")
                ORGAN_TOKEN=${made:-$ORGAN_TOKEN}
                ok
                return 0
            fi
            sleep 0.1
            n=$((n + 1))
        done
        cleanup
    done
    bad "organ-serve did not start ($try times)"
    cat "$T/serve.err"
    finish
}

# request METHOD PATH [curl option...]: sets $code; the body is in $T/body.
request() {
    method=$1 path=$2
    shift 2
    : > "$T/body"
    code=$(curl -s -m 300 --path-as-is -X "$method" -H "Authorization: Bearer $ORGAN_TOKEN" -H Expect: -D "$T/head" \
        -o "$T/body" -w '%{http_code}' "$@" "$ORGAN_URL$path")
}

# expect CODE METHOD PATH [curl option...]; a refusal must be a JSON error.
expect() {
    want=$1
    shift
    request "$@"
    if [ "$code" != "$want" ]; then bad "$*: $code, $want wanted: $(head -c 300 "$T/body")"
    elif [ "$want" -ge 400 ] && ! grep -q '^{"error": {"status": '"$want"', "code": "[a-z_]*", "message": ".*"}}$' \
        "$T/body"; then
        bad "$*: no JSON error: $(head -c 300 "$T/body")"
    else ok
    fi
}

# has TEXT WHAT: in the body of the last answer
has() {
    if grep -qF -e "$1" "$T/body"; then ok; else bad "$2: no '$1' in: $(head -c 400 "$T/body")"; fi
}

member() { # of the one job in the body
    sed -n 's/.*"'"$1"'": "\{0,1\}\([^",}]*\).*/\1/p' "$T/body" | head -n 1
}

post() { # TOOL ARGUMENTS: sets $job
    expect 202 POST /v1/jobs -d '{"tool": "'"$1"'", "arguments": '"$2"'}'
    job=$(member id)
}

wait_job() { # ID STATE...: until it has one of them
    id=$1 n=0 since=''
    shift
    [ "$1" != running ] || since='&since=queued'
    while [ $n -lt 2000 ]; do
        request GET "/v1/jobs/$id?wait=1$since"
        state=$(member state)
        for want in "$@"; do [ "$state" = "$want" ] && return; done
        sleep 0.05
        n=$((n + 1))
    done
}

run_job() { # STATE EXIT TOOL ARGUMENTS
    want_state=$1 want_exit=$2
    post "$3" "$4"
    wait_job "$job" done failed stopped lost
    check_text "$state $(member exit)" "$want_state $want_exit" "$3 $4"
    [ "$state" = "$want_state" ] || head -c 600 "$T/body"
}

# ---- the pipeline ------------------------------------------------------------------------

pipeline() {
    expect 200 GET /v1/health
    has '"status": "ok"' health
    expect 201 "$1" /v1/models/code.gguf --data-binary "@$LAB/lab-code-q4_k_m.gguf"
    check_same "$DATA/code.gguf" "$LAB/lab-code-q4_k_m.gguf" "an upload"
    # A name that reads like a shard of four thousand million is a name like any other.
    expect 201 "$1" /v1/models/x-00001-of--0003.gguf --data-binary "@$LAB/lab-code-q4_k_m.gguf"
    expect 200 GET /v1/models/x-00001-of--0003.gguf
    rm -f "$DATA/x-00001-of--0003.gguf"
    expect 409 "$1" /v1/models/code.gguf --data-binary "@$LAB/lab-code-q4_k_m.gguf"
    expect 201 "$1" '/v1/models/code.gguf?force=1' --data-binary "@$LAB/lab-code-q4_k_m.gguf"
    expect 200 GET /v1/models
    has '"name": "verse.gguf", "bytes": ' "list of models"
    has '"name": "code.gguf"' "list of models"
    expect 200 GET /v1/models/verse.gguf
    has '"name": "blk.0.attn_q.weight", "class": "skeleton", "block": 0, "role": "attn_q"' anatomy
    run_job done 0 organ-extract '["verse.gguf", "--output", "verse.organs"]'
    run_job done 0 organ-extract '{"model": "code.gguf", "output": "code.organs", "quiet": true, "threads": 2}'
    expect 200 GET /v1/organs
    has '{"name": "verse.organs", "modified": "20' "list of organ directories"
    expect 200 GET /v1/organs/verse.organs
    check_same "$T/body" "$DATA/verse.organs/manifest.json" "a manifest"
    bytes_of_an_organ
    run_job done 0 organ-extract '["verse.gguf", "--list"]'
    expect 200 GET "/v1/jobs/$job/result"
    "$BIN/organ-extract" "$VERSE" --list --json > "$T/list"
    check_same "$T/body" "$T/list" "a result"
    run_job done 0 organ-assemble '["--dir=verse.organs", "--output=again.gguf", "-j2"]'
    has '"percent": 100' "progress of a job that is done"
    expect 200 GET /v1/files/again.gguf
    check_same "$T/body" "$VERSE" "a round trip over HTTP"
    run_job failed 2 organ-assemble '["--dir=verse.organs", "--output=again.gguf"]'
    has again.gguf "stderr of an existing output"
}

bytes_of_an_organ() {
    organ=$DATA/verse.organs/embed/token_embd.bin
    path=/v1/organs/verse.organs/embed/token_embd.bin
    size=$(($(wc -c < "$organ")))
    expect 200 GET "$path"
    check_same "$T/body" "$organ" "bytes of an organ"
    range=Range
    case $ORGAN_URL in */cgi-bin/*) range=X-Range ;; esac
    expect 206 GET "$path" -H "$range: bytes=100-199"
    tail -c +101 "$organ" | head -c 100 > "$T/part"
    check_same "$T/body" "$T/part" "a range"
    if grep -qi "^content-range: bytes 100-199/$size" "$T/head"; then ok; else bad "Content-Range"; fi
    expect 206 GET "$path" -H "$range: bytes=-10"
    tail -c 10 "$organ" > "$T/part"
    check_same "$T/body" "$T/part" "the last bytes"
    expect 206 GET "$path" -H "$range: bytes=$((size - 5))-"
    check_text $(($(wc -c < "$T/body"))) 5 "an open range"
    expect 416 GET "$path" -H "$range: bytes=$size-"
    for r in "bytes=5-2" "bytes=0-1,5-6" "lines=1-2" "bytes=a-b" "bytes=99999999999999999999-"; do
        expect 200 GET "$path" -H "$range: $r"
        check_same "$T/body" "$organ" "Range: $r is not one range"
    done
}

# The other tools.
surgery() {
    run_job done 0 organ-measure '["--dir", "verse.organs", "--summary", "--sample", "1000"]'
    expect 200 GET "/v1/jobs/$job/result"
    has '"theta": ' "organ-measure"
    run_job done 0 organ-measure '["verse.organs/embed/token_embd.bin"]'
    run_job done 0 organ-transplant \
        '{"base": "verse.gguf", "donor": "code.gguf", "output": "chimera.gguf", "type": "organ", "layers": "1-2"}'
    expect 200 GET /v1/models/chimera.gguf
    run_job done 0 organ-graft '["graft", "--source", "code.organs", "--target",
        "verse.organs", "--output", "graft.organs", "--type", "organ"]'
    run_job done 0 organ-assemble '["graft.organs", "--output", "graft.gguf"]'
    run_job done 0 organ-compare '{"args": ["verse.gguf", "again.gguf"], "summary": true}'
    run_job done 1 organ-compare '["verse.gguf", "code.gguf"]'
    run_job done 0 organ-keys '["verse.gguf", "--get", "general.architecture"]'
    expect 200 GET "/v1/jobs/$job/result"
    has '"value": "llama"' "organ-keys --get"
    run_job done 0 organ-keys '{"args": ["verse.gguf"], "set": "general.name=str:Named", "output": "named.gguf"}'
    # Values of keys may have several lines and be long; other texts may not.
    long=$(awk 'BEGIN { for (i = 0; i < 900; i++) printf "line %d\\n\\t", i }')
    run_job done 0 organ-keys '{"args": ["verse.gguf"], "output": "lines.gguf",
        "set": "tokenizer.chat_template=str:'"$long"'"}'
    check_text "$("$BIN/organ-keys" "$DATA/lines.gguf" --get tokenizer.chat_template | od -An -v -tx1 | tr -d ' \n')" \
        "$(awk 'BEGIN { for (i = 0; i < 900; i++) printf "line %d\n\t", i }' | od -An -v -tx1 | tr -d ' \n')" \
        "a value of several lines"
    rm -f "$DATA/lines.gguf"
    job_400 '{"tool": "organ-keys", "arguments": ["verse.gguf", "--set", "a=str:\u001b", "--output", "x.gguf"]}'
    job_400 '{"tool": "organ-keys", "arguments": ["verse.gguf", "--delete", "a\nb", "--output", "x.gguf"]}'
    run_job done 0 organ-check '{"args": ["verse.gguf", "named.gguf"], "data": true, "strict": true}'
    run_job done 0 organ-assemble '{"model": "verse.gguf", "output": "small.gguf", "dtype": "q4_k_m", "strict": true}'
    job_400 '{"tool": "organ-assemble", "arguments": {"model": "verse.gguf", "output": "x.gguf",
        "keep-experts": "../list"}}'
    job_400 \
        '{"tool": "organ-assemble", "arguments": {"model": "verse.gguf", "output": "x.gguf", "keep-experts": "1=2"}}'
    job_400 '{"tool": "organ-assemble", "arguments": {"model": "verse.gguf", "output": "x.gguf",
        "dtype": "*=keep,@../rules"}}'
    job_400 '{"tool": "organ-assemble", "arguments": {"model": "verse.gguf", "output": "x.gguf",
        "dtype": "like:/etc/passwd"}}'
    job_400 '{"tool": "organ-keys", "arguments": ["verse.gguf", "--set-file", "a=code.gguf", "--output", "x.gguf"]}'
    expect 403 POST /v1/jobs -d '{"tool": "organ-check", "arguments": ["verse.gguf", "--verify", "../secret"]}'
    # Actions of organ-vocab and organ-imatrix are words, and all that follows lies in the data folder.
    run_job done 0 organ-vocab '["add", "verse.gguf", "--pad", "1000", "--output", "padded.gguf"]'
    run_job done 0 organ-vocab '["verse.gguf"]'
    run_job done 0 organ-vocab '["transplant", "verse.gguf", "--from", "padded.gguf", "--output", "spoken.gguf"]'
    for a in '["add", "../secret", "--pad", "8", "--output", "x.gguf"]' '["verse.gguf", "../secret"]' \
        '["transplant", "verse.gguf", "--from", "../secret", "--output", "x.gguf"]' \
        '["trim", "verse.gguf", "--keep", "../secret", "--output", "x.gguf"]'; do
        expect 403 POST /v1/jobs -d "{\"tool\": \"organ-vocab\", \"arguments\": $a}"
    done
    if [ -x "$BIN/organ-imatrix" ]; then
        expect 403 POST /v1/jobs -d '{"tool": "organ-imatrix", "arguments": ["show", "../secret"]}'
        expect 403 POST /v1/jobs \
            -d '{"tool": "organ-imatrix", "arguments": ["combine", "verse.gguf", "../secret", "--output", "x.gguf"]}'
    fi
    if [ -x "$BIN/organ-merge" ]; then
        for v in base union padded.gguf; do
            run_job done 0 organ-merge "{\"method\": \"linear\", \"model\": [\"verse.gguf\", \"padded.gguf\"],
                \"vocabulary\": \"$v\", \"output\": \"words-$v\", \"force\": true}"
        done
        check_text "$(organ-vocab "$DATA/words-padded.gguf" | sed -n '2s/[^0-9]//gp')" 2000 "the vocabulary of a model"
        expect 403 POST /v1/jobs -d '{"tool": "organ-merge", "arguments": {"method": "linear",
            "model": ["verse.gguf", "padded.gguf"], "vocabulary": "../secret", "output": "x.gguf"}}'
        for v in 'verse.gguf,activations=../secret' 'verse.gguf,weight=1,activations=/etc/passwd' \
            'verse.gguf,activations=verse.gguf,activations=../secret,weight=1'; do
            expect 403 POST /v1/jobs -d '{"tool": "organ-merge", "arguments": ["--method", "regmean",
                "--model", "'"$v"'", "--model", "code.gguf", "--output", "x.gguf"]}'
        done
        expect 404 POST /v1/jobs -d '{"tool": "organ-merge", "arguments": {"method": "regmean",
            "model": ["verse.gguf,activations=none.gguf", "code.gguf"], "output": "x.gguf"}}'
    fi
    if [ -x "$BIN/organ-purify" ]; then
        run_job done 0 organ-purify '["--dir", "verse.organs", "--output", "pure.organs",
            "--method", "haar", "--strength", "0.1", "--layers", "0"]'
    fi
}

# ---- what must not work ---------------------------------------------------------------------

refuse_tokens() {
    for h in "X-None: 1" "Authorization: Bearer" "Authorization: Bearer wrong" \
        "Authorization: Bearer ${ORGAN_TOKEN}x" \
        "Authorization: Bearer ${ORGAN_TOKEN%?}" "Authorization: Basic $ORGAN_TOKEN" "Authorization: $ORGAN_TOKEN"; do
        for p in /v1/health /v1/models /v1/jobs /v1/organs/verse.organs/embed/token_embd.bin /nothing; do
            got=$(curl -s -m 300 -H "$h" -o "$T/body" -w '%{http_code}' "$ORGAN_URL$p")
            check_text "$got" 401 "$p with $h"
        done
        got=$(curl -s -m 300 -H "$h" -o "$T/body" -w '%{http_code}' -d '{}' "$ORGAN_URL/v1/jobs")
        check_text "$got" 401 "POST with $h"
    done
    has '"code": "unauthorized"' "no token"
}

# The page for people: files without secrets, which need no token; nothing else is served so.
page() {
    below=
    [ "$1" = lighttpd ] || below=cgi-bin/index.cgi/
    for f in "" index.html web/page.js web/page.css web/icon.svg; do
        [ "$1 $f" != "busybox index.html" ] || continue
        code=$(curl -s -m 300 -D "$T/head" -o "$T/body" -w '%{http_code}' "${ORGAN_URL%/cgi-bin/*}/${f:+$below$f}")
        check_text "$code" 200 "the page: /$f"
        sed "s,\"$below""web/,\"web/,g" "$T/body" > "$T/file"
        check_same "$T/file" "scripts/serve/$(basename "${f:-index.html}")" "the page: /$f"
        [ "$1" != lighttpd ] || check_text "$(grep \
            -c "^Content-Security-Policy: default-src 'none';.*frame-ancestors 'none'" "$T/head")" 1 \
            "the policy of /$f"
    done
    check_text "$(grep -c "content=\"default-src 'none'; script-src 'self'; style-src 'self';" \
        scripts/serve/index.html)" 1 "the policy in the page"
    if grep -v 'http://www.w3.org/2000/svg' scripts/serve/*.js scripts/serve/*.css scripts/serve/index.html | grep \
        -qE 'https?://|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\('; \
        then bad "the page loads or parses something"; else ok; fi
}

# A page that makes its own name resolve to 127.0.0.1 sends that name (DNS rebinding).
refuse_hosts() {
    for h in attacker.example "attacker.example:$port" 127.0.0.1.attacker.example localhost.attacker.example \
        "localhost:$port.attacker.example" 127.0.0.2 10.0.0.1 "user@localhost"; do
        request GET /v1/health -H "Host: $h"
        case $code in 400 | 403) ok ;; *) bad "Host: $h: $code" ;; esac # 400 by the web server
        if grep -q version "$T/body"; then bad "Host: $h is served"; fi
    done
    expect 403 GET /v1/health -H "Host: attacker.example:$port"
    page=${ORGAN_URL%/cgi-bin*} # of busybox
    code=$(curl -s -o "$T/body" -w '%{http_code}' -H "Host: attacker.example:$port" "$page/")
    check_text "$code $(grep -c 'Content-Security' "$T/body")" "403 0" "the page for another host"
    for f in web/page.css cgi-bin/index.cgi/web/page.css web/page.js cgi-bin/index.cgi; do
        code=$(curl -s -o "$T/body" -w '%{http_code}' -H "Host: attacker.example:$port" "$page/$f")
        case $code in 403 | 404) ok ;; *) bad "/$f for another host: $code" ;; esac
    done
    for h in "127.0.0.1:$port" LOCALHOST models.example:443; do
        code=$(curl -s -o "$T/body" -w '%{http_code}' -H "Host: $h" "$page/")
        check_text "$code $(grep -c 'Content-Security' "$T/body")" "200 1" "the page for $h"
    done
    for h in "127.0.0.1:$port" 127.0.0.1 "LOCALHOST:$port" localhost:9 "[::1]:$port" "models.example:443"; do
        expect 200 GET /v1/health -H "Host: $h"
    done
}

# No answer may hold what lies outside, whatever its code.
refuse_traversal() {
    for p in /v1/organs/../../secret /v1/organs/verse.organs/../../secret /v1/organs/verse.organs/..%2f..%2fsecret \
        /v1/organs/%2e%2e/secret /v1/models/../../secret /v1/files/..%2fsecret /v1/files/%2e%2e%2fsecret /../secret \
        //secret \
        /v1/files/.organ-spool /v1/organs/.organ-spool/jobs /v1/files/link.gguf /v1/models/link.gguf \
        /v1/organs/out/secret \
        /v1/organs/verse.organs/organs/link.bin /v1/organs/linked /v1/organs/linked/manifest.json /v1/files/loop \
        /v1/files/pipe \
        /v1/files/verse.organs /v1/organs/verse.organs/embed /v1/files/%00 /v1/files/a%00b '/v1/files/a%0d%0aX:%20y' \
        /v1/files/%ff \
        /v1/jobs/../../secret /v1/jobs/..%2f..%2fsecret/result /v1/jobs/0000 /v1/jobs/0000000000000000000000 \
        /v1/jobs/0000000000000000000000/result /v1 /web /web/ /web/../token /web/%2e%2e/token /webs/page.js /token \
        /v2/health /v1/health/x /v1/models/verse.gguf/x/y/z /v1/nothing; do
        request GET "$p"
        case $code in
        400 | 403 | 404) if grep -q 'top secret' "$T/body"; then bad "GET $p tells the secret"; else ok; fi ;;
        *) bad "GET $p: $code" ;;
        esac
    done
    expect 403 GET /v1/files/link.gguf
    expect 403 GET /v1/models/link.gguf
    expect 403 GET /v1/organs/verse.organs/organs/link.bin
    expect 200 GET /v1/files/inside.gguf
}

refuse_methods() {
    expect 405 DELETE /v1/files/verse.gguf
    expect 405 DELETE /v1/models
    expect 405 DELETE /v1/organs
    expect 405 DELETE /v1/organs/verse.organs/manifest.json
    expect 405 DELETE /v1/info/verse.gguf
    expect 405 POST /v1/health -d x
    expect 405 PATCH /v1/jobs
    if grep -qi '^allow: GET, HEAD, POST' "$T/head"; then ok; else bad "no Allow"; fi
    expect 405 PUT /v1/jobs/0000000000000000000000
}

job_400() {
    expect 400 POST /v1/jobs --data-binary "$1"
}

refuse_bodies() {
    : > "$T/empty"
    request POST /v1/jobs --data-binary "@$T/empty" # busybox httpd tells no length of 0
    case $code in 400 | 411) ok ;; *) bad "an empty job: $code" ;; esac
    for b in '{' '[]' '7' '"x"' 'null' '{}' '{"tool": 1}' '{"tool": "sh", "arguments": []}' \
        '{"tool": "organ-api", "arguments": []}' \
        '{"tool": "../organ-extract", "arguments": []}' '{"tool": "organ-extract"}' \
        '{"tool": "organ-extract", "arguments": "x"}' \
        '{"tool": "organ-extract", "arguments": [1]}' '{"tool": "organ-extract", "arguments": [], "env": {}}' \
        '{"tool": "organ-extract", "tool": "organ-extract", "arguments": []}' \
        '{"tool": "organ-extract", "arguments": [],}' \
        '{"tool": "organ-extract", "arguments": {"list": 1}}' '{"tool": "organ-extract", "arguments": {"list": {}}}' \
        '{"tool": "organ-extract", "arguments": {"args": "verse.gguf"}}' \
        '{"tool": "organ-extract", "arguments": {"threads": true}}'; do
        job_400 "$b"
    done
    printf '{"tool": "organ-extract", "arguments": ["\377"]}' > "$T/bad"
    expect 400 POST /v1/jobs --data-binary "@$T/bad"
    head -c 5000 /dev/zero | tr '\0' '[' > "$T/bad"
    expect 400 POST /v1/jobs --data-binary "@$T/bad"
    head -c 5000 /dev/urandom > "$T/bad"
    expect 400 POST /v1/jobs --data-binary "@$T/bad"
    head -c 1100000 /dev/zero | tr '\0' ' ' > "$T/bad"
    expect 413 POST /v1/jobs --data-binary "@$T/bad"
}

refuse_arguments() {
    for a in '["--output", "-", "verse.gguf"]' '["-", "--list"]' '["--names-from", "-", "verse.gguf", "--list"]' \
        '["--names-from=-"]' \
        '["--help"]' '["--version"]' '["-h"]' '["--heat"]' '["-x"]' '["--output"]' '["--list=1"]' '["--", "--list"]' \
        '["verse.gguf", "verse.gguf"]' \
        '["--output", ".hidden", "verse.gguf"]' '["--output", "a/b", "verse.gguf"]' \
        '["--output", "a b", "verse.gguf"]' '["--output", "", "verse.gguf"]' \
        '["--output", "--force", "verse.gguf"]' '["a\u0000b"]' '["$(touch hacked)"]' '["verse.gguf;touch hacked"]' \
        '["--layers", "`id`", "verse.gguf"]' \
        '["--tensors", "a\nb"]' '["-j", "x"]' '["--threads", "-1"]' '["pipe"]' '{"no-such": true}' \
        '{"args": ["--list"]}' '{"output": ["-"]}'; do
        job_400 '{"tool": "organ-extract", "arguments": '"$a"'}'
    done
    for a in '["/etc/passwd", "--list"]' '["../secret", "--list"]' '["verse.organs/../../secret", "--list"]' \
        '["--output", "../x", "verse.gguf"]' \
        '["--output=/tmp/x", "verse.gguf"]' '["link.gguf", "--list"]' '["linked", "--list"]' \
        '["out/secret", "--list"]' '["verse.organs", "--list"]' \
        '["--output", "dangling", "verse.gguf"]' '["--output", "link.gguf", "verse.gguf", "--force"]' \
        '["split-00001-of-00002.gguf", "--list"]' \
        '["--names-from", "link.gguf", "verse.gguf", "--list"]' '["--names-from=../secret", "verse.gguf", "--list"]'; \
        do
        expect 403 POST /v1/jobs -d '{"tool": "organ-extract", "arguments": '"$a"'}'
    done
    # a checkpoint that reads beside itself what lies outside, and an adapter that names such a base
    for a in linked-shard linked-shard/model-00001-of-00002.safetensors linked-config/model.safetensors \
        far-adapter far-adapter/adapter_model.safetensors up-adapter; do
        expect 403 POST /v1/jobs -d '{"tool": "organ-extract", "arguments": ["'$a'", "--list"]}'
    done
    expect 202 POST /v1/jobs -d '{"tool": "organ-extract", "arguments": ["near-adapter", "--list"]}'
    check_text "$(organ-extract -q --list "$DATA/long-adapter" | grep -c 'blk[.]')" 0 "half the name of a base is none"
    expect 404 POST /v1/jobs -d '{"tool": "organ-extract", "arguments": ["absent.gguf", "--list"]}'
    check_absent "$DATA/hacked" "a shell ran"
}

refuse_uploads() {
    for n in x .x.gguf x.bin -x.gguf 'a%20b.gguf' a%0ab.gguf; do
        request "$1" "/v1/models/$n" --data-binary "@$VERSE"
        case $code in 400 | 404) ok ;; *) bad "upload as $n: $code" ;; esac
    done
    # A refusal is heard while the body is still on its way: all of that is read first.
    printf '%s' "$ORGAN_TOKEN" > "$T/t"
    { head -c 100000 "$VERSE"; sleep 0.5; cat "$VERSE"; } | REQUEST_METHOD=PUT PATH_INFO=/v1/models/x \
        CONTENT_LENGTH=$(($(wc -c < "$VERSE") + 100000)) \
        ORGAN_API_DATA=$DATA ORGAN_API_SPOOL=$T ORGAN_API_TOKEN_FILE=$T/t ORGAN_API_BIN=$BIN \
        HTTP_AUTHORIZATION="Bearer $ORGAN_TOKEN" \
        sh -c '"$BIN/organ-api" > "$T/refused"; cat | wc -c > "$T/left"'
    check_text "$(head -n 1 "$T/refused" | tr -d '\r') $(tr -d ' ' < "$T/left")" "Status: 400 Bad Request 0" \
        "a refused body is read"
    expect 400 "$1" /v1/models/no.gguf --data-binary "not a model at all"
    if [ "$1" = PUT ]; then # busybox httpd does not hand the header on
        expect 400 PUT '/v1/models/code.gguf?force=1' --data-binary "@$VERSE" -H 'Content-Range: bytes 0-99/100'
    fi
    head -c 1000000 "$VERSE" > "$T/cut"
    expect 400 "$1" /v1/models/no.gguf --data-binary "@$T/cut"
    head -c 100 "$VERSE" > "$T/cut"
    expect 400 "$1" /v1/models/no.gguf --data-binary "@$T/cut"
    request "$1" /v1/models/no.gguf --data-binary "@$T/empty" # as above
    case $code in 400 | 411) ok ;; *) bad "an empty upload: $code" ;; esac
    head -c 4194305 /dev/zero > "$T/big"
    expect 413 "$1" /v1/models/no.gguf --data-binary "@$T/big"
    expect 403 "$1" '/v1/models/dangling.gguf?force=1' --data-binary "@$VERSE"
    curl -s -m 0.4 --limit-rate 200k -X "$1" -H "Authorization: Bearer $ORGAN_TOKEN" --data-binary "@$VERSE" \
        "$ORGAN_URL/v1/models/no.gguf" > /dev/null
    n=0
    while [ $n -lt 600 ] && ls "$DATA"/.no.gguf.*.tmp > /dev/null 2>&1; do
        sleep 0.1
        n=$((n + 1))
    done
    if ls "$DATA"/.no.gguf.*.tmp > /dev/null 2>&1; then bad "an upload that was cut off leaves a file"; else ok; fi
    check_absent "$DATA/no.gguf" "a refused upload"
}

# Texts, and names that are changed and deleted.
changes() { # PUT or POST
    printf 'a text\nof two lines\n' > "$T/text"
    expect 201 "$1" /v1/texts/my.txt --data-binary "@$T/text"
    check_same "$DATA/my.txt" "$T/text" "a text"
    expect 200 GET /v1/texts/my.txt
    check_same "$T/body" "$T/text" "a text over HTTP"
    expect 409 "$1" /v1/texts/my.txt --data-binary "@$T/text"
    expect 400 "$1" /v1/texts/my.gguf --data-binary "@$T/text"
    expect 400 "$1" /v1/texts/nul.txt --data-binary "@$VERSE"
    check_absent "$DATA/nul.txt" "a text with NUL bytes"
    # Safetensors files are among the models, and keep their ending.
    plain=tests/data/hf/gptneox/model.safetensors
    expect 201 "$1" /v1/models/plain.safetensors --data-binary "@$plain"
    check_same "$DATA/plain.safetensors" "$plain" "an uploaded safetensors file"
    expect 200 GET /v1/models
    has '{"name": "plain.safetensors", "bytes": ' "a safetensors file in the list"
    expect 400 "$1" /v1/models/no.safetensors --data-binary "@$VERSE"
    expect 400 "$1" /v1/models/no.gguf --data-binary "@$plain"
    check_absent "$DATA/no.safetensors" "a model under the wrong name"
    expect 400 POST '/v1/models/plain.safetensors?rename=plain.gguf' -d ''
    expect 400 POST '/v1/models/my.gguf?rename=plain.safetensors' -d ''
    expect 200 POST '/v1/models/plain.safetensors?rename=other.safetensors' -d ''
    expect 200 DELETE /v1/models/other.safetensors
    expect 200 GET /v1/texts
    has '{"name": "my.txt", "bytes": 20, "modified": "20' "list of texts"
    expect 200 POST '/v1/texts/my.txt?rename=your.txt' -d ''
    has '{"name": "your.txt", "state": "renamed"}' "a renamed text"
    check_same "$DATA/your.txt" "$T/text" "a renamed text"
    check_absent "$DATA/my.txt" "the old name"
    cp "$VERSE" "$DATA/old.gguf"
    cp -r "$DATA/code.organs" "$DATA/old.organs"
    for to in verse.gguf link.gguf dangling.gguf; do expect 409 POST "/v1/models/old.gguf?rename=$to" -d ''; done
    for to in ../x.gguf ..%2fx.gguf %2e%2e/x.gguf .x.gguf -x.gguf x '' a/b.gguf /tmp/x.gguf x.txt verse.organs \
        'a%20b.gguf' x-00001-of-00002.gguf 'x.gguf%00'; do
        request POST "/v1/models/old.gguf?rename=$to" -d ''
        case $code in 400 | 411) ok ;; *) bad "rename to '$to': $code" ;; esac
    done
    for to in ../x x.gguf x.txt .x verse.organs/x; do expect 400 POST "/v1/organs/old.organs?rename=$to" -d ''; done
    expect 409 POST '/v1/organs/old.organs?rename=verse.organs' -d ''
    expect 400 POST '/v1/models/split-00001-of-00002.gguf?rename=x.gguf' -d ''
    check_same "$DATA/old.gguf" "$VERSE" "a refused name"
    expect 200 POST '/v1/models/old.gguf?rename=new.gguf' -d ''
    expect 200 POST '/v1/organs/old.organs?rename=new.organs' -d ''
    expect 200 GET /v1/organs/new.organs
    # What must stay, although its name or place looks like something to delete.
    mkdir "$DATA/folder.gguf" "$DATA/plain" && : > "$DATA/plain/note"
    for p in models/link.gguf models/dangling.gguf models/folder.gguf models/pipe models/loop models/plain \
        models/.organ-spool models/your.txt \
        models/verse.organs models/..%2fsecret models/../../secret models/none.gguf texts/link.gguf texts/verse.gguf \
        texts/../secret texts/none.txt \
        organs/verse.gguf organs/out organs/linked organs/plain organs/.organ-spool organs/.. organs/. organs/none \
        organs/%2e%2e; do
        for method in DELETE POST; do
            q=''
            [ $method = DELETE ] || q='?rename=x.gguf'
            request $method "/v1/$p$q" -d ''
            case $code in 400 | 403 | 404 | 405) ok ;; *) bad "$method $p: $code" ;; esac
        done
    done
    : > "$DATA/new.organs/mine"
    expect 409 DELETE /v1/organs/new.organs
    rm "$DATA/new.organs/mine"
    for f in "$T/secret" "$T/linked/manifest.json" "$DATA/verse.organs/manifest.json" "$DATA/plain/note" "$VERSE"; do
        if [ -s "$f" ] || [ "$f" = "$DATA/plain/note" ] && [ -e "$f" ]; then ok; else bad "$f is gone"; fi
    done
    [ -p "$DATA/pipe" ] && [ -L "$DATA/out" ] && [ -L "$DATA/dangling.gguf" ] && [ -d "$DATA/folder.gguf" ] \
        || bad "something else was deleted"
    mkdir "$T/beside" && : > "$T/beside/file"
    ln -s "$T/beside" "$DATA/new.organs/organs/away"
    expect 200 DELETE /v1/organs/new.organs
    check_absent "$DATA/new.organs" "a deleted organ directory"
    if [ -e "$T/beside/file" ] && [ -z "$(find "$DATA" -name '.gone*')" ]; then ok; else \
        bad "deleting follows a link or leaves a rest"; fi
    ln -s verse.gguf "$DATA/also.gguf"
    expect 200 DELETE /v1/models/also.gguf
    check_absent "$DATA/also.gguf" "a deleted link"
    if [ -s "$VERSE" ]; then ok; else bad "what a link leads to was deleted"; fi
    expect 200 DELETE /v1/models/new.gguf
    expect 404 DELETE /v1/models/new.gguf
    expect 200 DELETE /v1/texts/your.txt
    check_absent "$DATA/new.gguf" "a deleted model"
    check_absent "$DATA/your.txt" "a deleted text"
    expect 200 GET /v1/info/verse.gguf
    (cd "$DATA" && "$BIN/organ-info" --json verse.gguf) > "$T/row"
    check_same "$T/body" "$T/row" "what a model is"
    expect 403 GET /v1/info/verse.organs # has a link that leads out
    expect 200 GET /v1/info/code.organs
    has '"form": "organ directory"' "what an organ directory is"
    expect 403 GET /v1/info/link.gguf
    expect 404 GET /v1/info/none.gguf
    expect 404 GET /v1/info/--help
    rm -rf "$DATA/plain" "$DATA/folder.gguf" "$T/beside"
}

traps() { # links and other things for the refusals
    echo 'top secret' > "$T/secret"
    ln -s "$T/secret" "$DATA/link.gguf"
    ln -s "$T" "$DATA/out"
    ln -s "$T/nothing" "$DATA/dangling"
    ln -s "$T/nothing" "$DATA/dangling.gguf"
    ln -s loop "$DATA/loop"
    mkdir "$DATA/linked-shard" && cp "$D/hf/falcon/config.json" "$DATA/linked-shard"
    cp "$D/hf/falcon/model.safetensors" "$DATA/linked-shard/model-00001-of-00002.safetensors"
    ln -s "$T/far/model.safetensors" "$DATA/linked-shard/model-00002-of-00002.safetensors"
    cp -r "$D/hf/falcon" "$T/far" && cp -r "$D/hf/falcon" "$DATA/near" && cp -r "$D/hf/falcon" "$DATA/linked-config"
    mv "$DATA/linked-config/config.json" "$T/config.json"
    ln -s "$T/config.json" "$DATA/linked-config/config.json"
    # A name of more than a tool reads: its first 1000 bytes would lead to a folder, and the whole to none.
    long=$T/far
    while [ ${#long} -lt 998 ]; do long=/.$long; done
    [ ${#long} = 1000 ] || long=/$long
    for a in far up near long; do
        cp -r "$D/hf/lora-falcon" "$DATA/$a-adapter"
        case $a in far) base=$T/far ;; up) base=../far ;; near) base=near ;; long) base=$long/none ;; esac
        sed "s|\"base_model_name_or_path\": \"[^\"]*\"|\"base_model_name_or_path\": \"$base\"|" \
            "$D/hf/lora-falcon/adapter_config.json" > "$DATA/$a-adapter/adapter_config.json"
    done
    ln -s verse.gguf "$DATA/inside.gguf"
    cp -r "$DATA/verse.organs" "$T/linked"
    ln -s "$T/linked" "$DATA/linked"
    cp "$VERSE" "$DATA/split-00001-of-00002.gguf"
    ln -s "$T/secret" "$DATA/split-00002-of-00002.gguf"
    mkfifo "$DATA/pipe"
    ln -s "$T/secret" "$DATA/verse.organs/organs/link.bin"
}

untrap() {
    rm -f "$DATA/link.gguf" "$DATA/out" "$DATA/dangling" "$DATA/dangling.gguf" "$DATA/loop" "$DATA/inside.gguf" \
        "$DATA/linked" \
        "$DATA/pipe" "$DATA/verse.organs/organs/link.bin"
    rm -rf "$DATA/linked-shard" "$DATA/linked-config" "$DATA"/*-adapter "$DATA/near"
}

# ---- many at once ------------------------------------------------------------------------------

many() { # HOW-MANY-AT-ONCE
    printf 'header = "Authorization: Bearer %s"\n' "$ORGAN_TOKEN" > "$T/curlrc"
    # busybox httpd may drop a connection. A request can be repeated, but a job would run twice.
    if [ "$1" -gt 6 ]; then again='' dropped=0; else again='--retry 3 --retry-all-errors' dropped=4; fi
    # shellcheck disable=SC2086
    curl -s -m 300 $again -K "$T/curlrc" --no-progress-meter --parallel --parallel-immediate --parallel-max "$1" \
        -w '%{http_code}\n' -o "$T/many.#1" \
        "$ORGAN_URL/v1/models/verse.gguf?[1-200]" > "$T/codes" 2> /dev/null
    check_text "$(sort "$T/codes" | uniq -c | tr -s ' ')" " 200 200" "200 requests, $1 at once"
    check_text "$(cat "$T"/many.* | cksum)" "$(request GET /v1/models/verse.gguf; yes "$T/body" | head -n 200 | xargs \
        cat | cksum)" "200 answers, $1 at once"
    rm -f "$T"/many.*
    curl -s -m 300 -K "$T/curlrc" --no-progress-meter --parallel --parallel-immediate --parallel-max "$1" \
        -w '%{http_code}\n' -o "$T/many.#1" \
        -d '{"tool": "organ-purify", "arguments": ["verse.organs"]}' "$ORGAN_URL/v1/jobs?[1-40]" > "$T/codes" \
        2> /dev/null
    lost=$(grep -c '^000$' "$T/codes")
    [ "$lost" -le $dropped ] || bad "40 jobs, $1 at once: $lost connections were dropped"
    check_text "$(grep -v '^000$' "$T/codes" | sort | uniq -c | tr -s ' ')" " $((40 - lost)) 202" "40 jobs, $1 at once"
    n=0
    while [ $n -lt 2000 ]; do
        request GET /v1/jobs
        grep -Eq '"state": "queued"|"state": "running"' "$T/body" || break
        sleep 0.05
        n=$((n + 1))
    done
    n=$(grep -c '"tool": "organ-purify".*"state": "done".*"exit": 0' "$T/body")
    if [ "$n" -ge $((40 - lost)) ] && [ "$n" -le 40 ]; then ok; else bad "$n of $((40 - lost)) jobs are done"; fi
    check_text "$(sort -nu "$DATA/at-once" | tail -n 1)" 2 "at most two at once, and two"
}

# ---- stopped, killed, restarted -------------------------------------------------------------------

gone() { # PID WHAT: it ends soon
    n=0
    while [ $n -lt 600 ] && kill -0 "$1" 2> /dev/null; do
        sleep 0.05
        n=$((n + 1))
    done
    if kill -0 "$1" 2> /dev/null; then bad "$2: the tool runs on"; else ok; fi
}

slow() { # a job that runs until it is stopped or $DATA/enough exists, and the pid of its tool
    rm -f "$DATA/enough"
    post organ-compare '["verse.gguf", "verse.gguf"]'
    wait_job "$job" running
    check_text "$state" running "a slow job"
    n=0
    while [ $n -lt 2000 ] && [ ! -s "$DATA/.spool/jobs/$job/started" ]; do sleep 0.05; n=$((n + 1)); done
    tool=$(sed 's/.*"pid": \([0-9]*\).*/\1/' "$DATA/.spool/jobs/$job/started")
    n=0
    while request GET "/v1/jobs/$job" && [ $n -lt 2000 ] && ! grep -q done_bytes "$T/body"; do sleep 0.05; \
        n=$((n + 1)); done
    has '"done_bytes": 3, "total_bytes": 12, "percent": 25' "its progress"
}

stopped() {
    slow
    expect 409 GET "/v1/jobs/$job/result"
    expect 200 DELETE "/v1/jobs/$job"
    check_text "$(member state)" stopped "DELETE of a running job"
    gone "$tool" "DELETE"
    expect 200 GET "/v1/jobs/$job/result"
    has '"row"' "the result of a stopped job"
    # A second stop changes nothing. Only remove=1 removes.
    expect 200 DELETE "/v1/jobs/$job"
    check_text "$(member state)" stopped "DELETE of a stopped job"
    expect 200 DELETE "/v1/jobs/$job?remove=0"
    expect 200 GET "/v1/jobs/$job"
    expect 200 DELETE "/v1/jobs/$job?remove=1"
    has '"state": "removed"' "DELETE with remove=1"
    expect 404 GET "/v1/jobs/$job"
    expect 404 DELETE "/v1/jobs/$job"
    expect 404 DELETE "/v1/jobs/$job?remove=1"
    slow
    first=$job
    expect 409 DELETE "/v1/jobs/$job?remove=1"
    printf 'header = "Authorization: Bearer %s"\n' "$ORGAN_TOKEN" > "$T/curlrc"
    curl -s -m 300 -K "$T/curlrc" --no-progress-meter --parallel --parallel-immediate -X DELETE \
        -w '%{http_code}\n' -o "$T/both.#1" "$ORGAN_URL/v1/jobs/$job?[1-8]" > "$T/codes" 2> /dev/null
    check_text "$(sed 's/^20[02]$/200 or 202/' "$T/codes" | sort | uniq -c | tr -s ' ')" " 8 200 or 202" \
        "eight DELETEs at once"
    wait_job "$job" stopped
    check_text "$state" stopped "eight DELETEs at once keep the record"
    slow
    first=$job
    slow
    second=$job
    post organ-compare '["verse.gguf", "verse.gguf"]'
    sleep 0.3
    expect 200 GET "/v1/jobs/$job"
    check_text "$(member state)" queued "a third job"
    expect 200 DELETE "/v1/jobs/$job"
    check_text "$(member state)" stopped "DELETE of a queued job"
    for id in $first $second; do expect 200 DELETE "/v1/jobs/$id"; done
}

killed() {
    slow
    kill -9 "$tool"
    wait_job "$job" failed
    check_text "$state $(member signal)" "failed 9" "the tool was killed"
    [ -r "/proc/self/stat" ] || return
    slow
    supervisor=$(sed 's/.*) . \([0-9]*\) .*/\1/' "/proc/$tool/stat")
    kill -9 "$supervisor"
    wait_job "$job" lost
    check_text "$state" lost "the supervisor was killed"
    gone "$tool" "its supervisor was killed"
    expect 200 DELETE "/v1/jobs/$job"
    check_text "$(member state)" lost "DELETE of a lost job"
    expect 200 DELETE "/v1/jobs/$job?remove=1"
    expect 404 GET "/v1/jobs/$job"
}

survives() { # SERVER
    slow
    lasting=$job
    run=$(sed -n 's/^ORGAN_URL=//p' "$T/serve.out")
    cleanup
    if curl -s -m 60 -o /dev/null "$run/v1/health"; then bad "the server runs on"; else ok; fi
    check_text "$(ls -A "$T/tmp")" "" "organ-serve leaves nothing"
    if kill -0 "$tool" 2> /dev/null; then ok; else bad "the job ended with the server"; fi
    : > "$DATA/enough"
    serve "$T/fake" --server "$1" --spool "$DATA/.spool" --token-file "$T/token"
    wait_job "$lasting" done
    check_text "$state $(member exit)" "done 0" "a job of before the restart"
}

# ---- organ-serve itself -----------------------------------------------------------------------------

options() {
    for a in "" "--data" "--data $T/none" "--data $DATA --port 0" "--data $DATA --port x" "--data $DATA --jobs 0" \
        "--data $DATA --max-body 0" \
        "--data $DATA --max-body 1X" "--data $DATA --server apache" "--data $DATA --host a:b" \
        "--data $DATA --host x/y" "--data $DATA --token-file $T/empty" "--no-such" "$DATA"; do
        # shellcheck disable=SC2086
        check_error 2 "organ-serve: " "organ-serve $a" env ORGAN_BIN="$BIN" sh scripts/organ-serve $a
    done
    check "organ-serve --help" sh scripts/organ-serve --help
    check "organ-serve --version" env ORGAN_BIN="$BIN" sh scripts/organ-serve --version
    check "organ-api --help" "$BIN/organ-api" --help
    check_error 2 organ-serve "organ-api without a server" "$BIN/organ-api"
    if env REQUEST_METHOD=GET PATH_INFO=/v1/health "$BIN/organ-api" --help 2> /dev/null | head -n 1 | grep \
        -q '^Status: 500'; then ok
    else bad "organ-api without configuration"
    fi
}

# ---- docs/api.md -----------------------------------------------------------------------------------------

# The blocks of the page, as a reader would paste them, without the one that starts
# a server.
documented() {
    awk '/^```/ { on = $0 == "```sh"; next } on' docs/api.md | sed "s|/tmp/|$T/|g" > "$T/pasted"
    check_text "$(grep -c "ORGAN_URL" "$T/pasted" | sed 's/^[12][0-9]$/many/')" many "lines of docs/api.md"
    ORGAN_URL=$ORGAN_URL ORGAN_TOKEN=$ORGAN_TOKEN sh "$T/pasted" > "$T/out" 2> "$T/err"
    check_text "$? $(cat "$T/err")" "0 " "docs/api.md runs"
    if grep -q '"error"' "$T/out"; then bad "docs/api.md: $(grep '"error"' "$T/out" | head -n 3)"; else ok; fi
    check_text "$(tail -n 1 "$T/out")" "the same" "docs/api.md: the model comes back"
}

# ---- run ----------------------------------------------------------------------------------------------

# What stands for slow and for counted tools; they run in the data folder.
for f in "$BIN"/organ-*; do ln -s "$f" "$T/fake/"; done
rm -f "$T/fake/organ-compare" "$T/fake/organ-purify"
cat > "$T/fake/organ-compare" << 'END'
#!/bin/sh
echo '{"row": 1}'
printf '%020d %020d\n' 3 12 >&"$ORGAN_PROGRESS"
trap 'exit 143' TERM
n=0
while [ ! -e enough ] && [ $n -lt 6000 ]; do sleep 0.1; n=$((n + 1)); done
END
cat > "$T/fake/organ-purify" << 'END'
#!/bin/sh
mkdir -p running.d/$$
ls running.d | wc -l >> at-once
sleep 0.05
rmdir running.d/$$
END
chmod +x "$T/fake/organ-compare" "$T/fake/organ-purify"
echo 'a token of a test, long enough' | tr ' ' - > "$T/token"
: > "$T/empty"

sh scripts/options.sh "$BIN" > "$T/options.tsv"
# What names a file over HTTP is of a kind whose path is checked.
awk -F '\t' "$BY_NAME"'NR > 1 && col("http") == "true" && col("kind") ~ /^(text|words|rules|where)$/ &&
    col("arg") ~ /FILE|DIR|MODEL|LORA|BASE|DONOR/' \
    "$T/options.tsv" > "$T/unconfined"
check_same /dev/null "$T/unconfined" "no option over HTTP takes a path that is not checked"
awk -F '\t' "$BY_NAME"'NR > 1 && col("http") == "true" { print col("tool") }' "$T/options.tsv" | sort -u > "$T/allowed"
sed -n '/^    Tool:/,/^    State:/p' docs/openapi.yaml | grep -o 'organ-[a-z]*' | sort > "$T/documented"
check_same "$T/allowed" "$T/documented" "openapi.yaml has all tools that are allowed"

options
first=''
# lighttpd comes first, because tests that are not repeated need its features.
for server in lighttpd busybox; do
    has_server $server || { echo "left out: organ-api behind $server ($server)"; continue; }
    upload=PUT
    [ $server = lighttpd ] || upload=POST
    serve "$BIN" --server $server --max-body 4M --host models.example
    page $server
    pipeline $upload
    [ -n "$first" ] && ! exhaustive || refuse_hosts
    [ -n "$first" ] || surgery
    [ $server = busybox ] || documented
    traps
    [ -n "$first" ] || refuse_tokens
    [ -n "$first" ] && ! exhaustive || refuse_traversal
    refuse_uploads $upload
    [ -n "$first" ] && ! exhaustive || changes $upload
    [ -n "$first" ] || { refuse_methods; refuse_bodies; refuse_arguments; }
    untrap
    cleanup
    ORGAN_TOKEN=$(cat "$T/token")
    serve "$T/fake" --server $server --spool "$DATA/.spool" --token-file "$T/token"
    if grep -q TOKEN "$T/serve.out"; then bad "a given token is printed"; else ok; fi
    # busybox httpd lets 9 connections wait; what comes on top is dropped and late.
    # 200 sanitized processes at once could take more memory than a small machine has.
    if [ $server = busybox ]; then many 6
    elif [ -n "${SANITIZED:-}" ] || ! exhaustive; then many 40
    else many 200
    fi
    [ -n "$first" ] || { stopped; killed; }
    survives $server
    cleanup
    first=done
    chmod -R u+w "$DATA"
    rm -rf "$DATA" && mkdir "$DATA" && cp "$LAB/lab-verse-q4_k_m.gguf" "$VERSE"
done
finish
