#!/bin/sh
# run.sh - the page of organ-serve in headless Chromium; see page.mjs. Needs chromium, node and
# lighttpd, and says so if one is missing. PICTURES=DIR keeps screenshots.
# shellcheck disable=SC1010,SC1091
cd "$(dirname "$0")/../.." || exit 1
PATH=$PATH:/usr/sbin:/sbin
BIN=${BIN:-build/bin}
BIN=$(cd "$BIN" && pwd) || exit 1
TEST=${B:-$BIN/..}/test
LAB=tests/data/lab
for c in chromium chromium-browser google-chrome chrome; do
    if command -v $c > /dev/null 2>&1; then CHROMIUM=$c; break; fi
done
if [ -z "${CHROMIUM:-}" ] || ! command -v node > /dev/null 2>&1 || ! command -v lighttpd > /dev/null 2>&1; then
    echo "skipped: the page needs chromium, node and lighttpd to be tested"
    exit 0
fi
T=$(mktemp -d "${TMPDIR:-/tmp}/web.XXXXXX") || exit 1
server=''
cleanup() {
    [ -z "$server" ] || { kill "$server" && wait "$server"; } 2> /dev/null
    rm -rf "$T"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP
mkdir "$T/data" "$T/bin" "$T/downloads" "$T/here"
echo 0123456789-token-of-a-test > "$T/token"
cp $LAB/lab-verse-q4_k_m.gguf "$T/here/verse.gguf"
cp $LAB/lab-code-q4_k_m.gguf "$T/here/code.gguf"
echo 'a text' > "$T/here/text.txt"
cp $LAB/lab-base-q4_k_m.gguf "$T/here/base.gguf"
cp $LAB/lab-lora-code.gguf "$T/here/lora.gguf"
cp $LAB/lab-base.imatrix.gguf "$T/here/base.imatrix.gguf"
cp $LAB/lab-stranger-q4_k_m.gguf "$T/here/stranger.gguf"
cp "$T/here/base.gguf" "$T/here/lora.gguf" "$T/here/base.imatrix.gguf" "$T/here/stranger.gguf" "$T/data"

# A model whose names, keys and values are markup, and reverse the direction of the text.
PATH=$BIN:$TEST:$PATH
rlo=$(printf '\342\200\256')
mkmodel "$T/evil.gguf" 'blk.0.<img src=x onerror=alert(1)>.weight:F32:4' "blk.1.ffn_up.weight:F32:4" \
    "'\"><script>alert(2)</script>.weight:F32:4" "x$rlo.weight:F32:4" "a,b\$(touch hacked).weight:F32:4" || exit 1
organ-keys -q "$T/evil.gguf" --set 'general.name=str:"><svg onload=alert(3)>' --set 'general.architecture=str:<b>x' \
    --set '<script>alert(4)</script>=str:</td><img src=x onerror=alert(5)>' --set "k=str:a$rlo'b" \
    --output "$T/data/evil.gguf" || exit 1

# A model with experts and its importance matrix: expert 2 of block 1 has most.
TAB=$(printf '\t') # for imatrix
export TAB
bad() { echo "$*" >&2; exit 1; }
eval "$(sed -n "/^BY_NAME='/,/^'/p; /^imatrix() {/,/^}/p" tests/cli/lib.sh)"
mkmodel "$T/moe.gguf" -k llama.expert_count=4 -k llama.expert_used_count=2 -k llama.feed_forward_length=8 -n 2 \
    blk.%.ffn_gate_inp.weight:F32:8x4 blk.%.ffn_gate_exps.weight:F32:8x8x4 blk.%.ffn_up_exps.weight:F32:8x8x4 \
    blk.%.ffn_down_exps.weight:F32:8x8x4 || exit 1
imatrix "$T/moe.imatrix.gguf" blk.0.ffn_down_exps.weight:8:1,2,3,4:10,10,10,10 \
    blk.1.ffn_down_exps.weight:8:1,2,99,4:10,10,10,10

# 48 blocks of a model with experts: a wide map.
set --
i=0
while [ $i -lt 48 ]; do
    for role in attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate_inp ffn_gate_exps ffn_up_exps \
        ffn_down_exps; do set -- "$@" "blk.$i.$role.weight:F32:4"; done
    i=$((i + 1))
done
mkmodel "$T/data/wide.gguf" "$@" || exit 1

# 300 blocks with a role of their own each: no map of 90000 cells.
set --
i=0
while [ $i -lt 300 ]; do
    set -- "$@" "blk.$i.r$i.weight:F32:4"
    i=$((i + 1))
done
mkmodel "$T/data/odd.gguf" "$@" || exit 1

# The tools, with an organ-check that is slow as long as there is no file "enough".
for f in "$BIN"/organ-*; do ln -s "$f" "$T/bin/"; done
rm "$T/bin/organ-check"
cat > "$T/bin/organ-check" << 'END'
#!/bin/sh
echo 'organ-check: a <b>message</b>' >&2
printf '%020d %020d\n' 3 12 >&"$ORGAN_PROGRESS"
n=0
while [ ! -e enough ] && [ $n -lt 3000 ]; do sleep 0.1; n=$((n + 1)); done
echo '{"model": "m", "level": "warning", "rule": "r", "where": "<i>", "message": "<script>alert(6)</script>"}'
END
cat > "$T/bin/organ-validate" << 'END' # no engine here
#!/bin/sh
echo '{"model": "verse.gguf", "engine": "none", "load": "ok", "perplexity": null, "ratio": null}'
END
chmod +x "$T/bin/organ-check" "$T/bin/organ-validate"

serve() { # SERVER: sets $url
    port=$((21000 + $$ % 20000))
    for try in 1 2 3 4 5; do
        port=$((port + 1))
        rm -f "$T/serve.out" # of the server before
        ORGAN_BIN=$T/bin sh scripts/organ-serve --server "$1" --port $port --data "$T/data" --token-file "$T/token" \
            --spool "$T/spool" > "$T/serve.out" 2> "$T/serve.err" < /dev/null &
        server=$!
        n=0
        while [ $n -lt 600 ] && kill -0 $server 2> /dev/null; do
            if grep -qs '^ORGAN_URL=' "$T/serve.out"; then
                url=http://127.0.0.1:$port/
                return
            fi
            sleep 0.1
            n=$((n + 1))
        done
    done
    echo "FAIL run.sh: organ-serve did not start ($try times)"
    cat "$T/serve.err"
    exit 1
}
status=0
for which in lighttpd busybox; do
    if [ $which = busybox ] && ! busybox --list 2> /dev/null | grep -qx httpd; then continue; fi
    serve $which
    T=$T BIN=$BIN SERVER=$which URL=$url TOKEN=$(cat "$T/token") CHROMIUM=$CHROMIUM PICTURES=${PICTURES:-} node \
        tests/web/page.mjs || status=1
    kill $server
    wait $server 2> /dev/null
    server=''
done
if [ -e "$T/data/hacked" ] || [ -e "$T/here/hacked" ]; then echo "FAIL run.sh: a shell ran"; status=1; fi
exit $status
