#!/bin/sh
# shellcheck disable=SC1091
# cgi.sh - organ-api called as a web server calls it, without a web server: failing
# allocations, names that claim many shards, and the Host header.
. "$(dirname "$0")/lib.sh"
DATA=$T/data
mkdir "$DATA" "$T/spool"
cp "$LAB/lab-verse-q4_k_m.gguf" "$DATA/verse.gguf"
printf '0123456789abcdef' > "$T/token"

# cgi METHOD PATH [VARIABLE=VALUE...] < body; the answer is in $T/got
cgi() {
    method=$1 path=$2
    shift 2
    env REQUEST_METHOD="$method" PATH_INFO="$path" ORGAN_API_DATA="$DATA" ORGAN_API_SPOOL="$T/spool" \
        ORGAN_API_TOKEN_FILE="$T/token" ORGAN_API_BIN="$BIN" HTTP_AUTHORIZATION="Bearer 0123456789abcdef" "$@" \
        "$BIN/organ-api" > "$T/got" 2> "$T/err"
    status=$(head -n 1 "$T/got" | tr -d '\r')
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
if [ -z "${SANITIZED:-}" ] && "${CC:-cc}" -std=gnu11 -shared -fPIC -o "$T/inject.so" tests/faults/inject.c -ldl 2> "$T/err" &&
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
if have strace && strace -o "$T/trace" true 2> "$T/err"; then
    strace -f -o "$T/trace" env REQUEST_METHOD=GET PATH_INFO=/v1/models/many-00001-of-99999.gguf ORGAN_API_DATA="$DATA" \
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
finish
