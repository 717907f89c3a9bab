#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC2046,SC2181
# faults.sh - full disks, closed pipes, folders that cannot be written, signals at any
# moment: exit 4 and a reason, and never anything under the final name but the whole.
#   FAULTS_MB=40   size of the model that is interrupted     FAULTS_KILLS=3  how often (100 and 5 with EXHAUSTIVE=1)
. "$(dirname "$0")/lib.sh"
VERSE=$LAB/lab-verse-q4_k_m.gguf
organ-extract $VERSE --output "$T/d"

# ---- no room: a file size limit, and a small file system where mounting is allowed ---
# (the limit counts blocks of 512 bytes)
limited() { (ulimit -f 1000 && exec "$@"); }
mkdir "$T/lim"
check_error 4 "" "file size limit, assemble" limited organ-assemble "$T/d" --output "$T/lim/m.gguf"
mkmodel "$T/wide.gguf" blk.0.ffn_up.weight:F32:1024x512
check_error 4 "" "file size limit, extract" limited organ-extract "$T/wide.gguf" --output "$T/lim/d"
check_error 4 "" "file size limit, extract a pipe" limited sh -c "cat $T/wide.gguf | organ-extract - --output $T/lim/d"
check_exit 4 "file size limit, stream" sh -c "ulimit -f 1000; organ-extract $VERSE --output - > $T/stream.cut"
check_text "$(ls -A "$T/lim")" "" "nothing is left of what did not fit"
check_error 4 "$T/lim/d3" "file size limit, a directory copied" \
    sh -c "ulimit -f 40; trap '' XFSZ; exec organ-extract $T/d --output $T/lim/d3"
if grep -q '[.]bin' "$T/err"; then bad "file size limit, a directory copied: it blames $(cat "$T/err")"; else ok; fi
check_text "$(ls -A "$T/lim")" "" "nothing is left of a directory that did not fit"

# A job that cannot be written leaves nothing in the spool.
mkdir "$T/spool" "$T/data"
cp $VERSE "$T/data/v.gguf"
echo secret > "$T/token"
post() { # BODY, as a web server's CGI does
    printf '%s' "$1" | env REQUEST_METHOD=POST PATH_INFO=/v1/jobs CONTENT_LENGTH=${#1} CONTENT_TYPE=application/json \
        HTTP_AUTHORIZATION="Bearer secret" ORGAN_API_TOKEN_FILE="$T/token" ORGAN_API_DATA="$T/data" \
        ORGAN_API_SPOOL="$T/spool" ORGAN_API_BIN="$BIN" organ-api
}
(ulimit -f 0 && post '{"tool": "organ-extract", "arguments": ["v.gguf", "--list"]}' 2>&1) | cat > "$T/answer"
if grep -q '^Status: 50' "$T/answer"; then ok; else bad "file size limit, a job: $(head -n 1 "$T/answer")"; fi
check_text "$(find "$T/spool" | wc -l | tr -d ' ')" 4 "file size limit, a job: only the spool's own folders are left"
mkdir "$T/small"
if mount -t tmpfs -o size=1m none "$T/small" 2> /dev/null; then
    check_error 4 "$T/small/m.gguf" "full disk, assemble" organ-assemble "$T/d" --output "$T/small/m.gguf"
    if grep -q 'cannot reserve' "$T/err"; then ok; else bad "full disk, assemble: noticed late: $(cat "$T/err")"; fi
    check_text "$(ls -A "$T/small")" "" "full disk, assemble: nothing is left"
    check_error 4 "cannot reserve" "full disk, shards that fit only one by one" organ-assemble "$T/d" \
        --output "$T/small/m.gguf" --shards 4
    check_text "$(ls -A "$T/small")" "" "full disk, shards: nothing is left"
    check_error 4 "$T/small/d" "full disk, extract" organ-extract $VERSE --output "$T/small/d"
    check_text "$(ls -A "$T/small")" "" "full disk, extract: nothing is left"
    check_error 4 "$T/small/d" "full disk, a pipe" organ-extract - --output "$T/small/d" < $VERSE
    check_text "$(ls -A "$T/small")" "" "full disk, a pipe: nothing is left"
    echo precious > "$T/small/m.gguf"
    check_error 4 "$T/small/m.gguf" "full disk, --force" organ-assemble "$T/d" --output "$T/small/m.gguf" --force
    check_text "$(cat "$T/small/m.gguf")" precious "full disk, --force: the old file stays"
    umount "$T/small"
else
    echo "$NAME: no mount here: the full disk is left out"
fi

# ---- stdout that does not take it all --------------------------------------------------
[ -e /dev/full ] && {
    for o in "--list" "--list --json" "--output -" "--help" "--version"; do
        # shellcheck disable=SC2086
        organ-extract $VERSE $o > /dev/full 2> "$T/err"
        status=$?
        if [ $status = 4 ] && one_line "$T/err"; then ok; else bad "full stdout, $o: exit $status"; fi
    done
}
# exit status of a command whose stdout is closed early
early() {
    { "$@" 2> "$T/err"; echo $? > "$T/status"; } | head -c 100 > /dev/null
    cat "$T/status"
}
check_text "$(early organ-extract "$T/wide.gguf" --output -)" 4 "closed pipe, stream"
check_text "$(cat "$T/err")" "" "closed pipe: the reader knows why it ended"
mkmodel "$T/many.gguf" $(i=0; while [ $i -lt 3000 ]; do echo "blk.$i.attn_q.weight:I8:1"; i=$((i + 1)); done)
check_text "$(early organ-extract "$T/many.gguf" --list)" 4 "closed pipe, list"
(organ-extract $VERSE --list >&-) 2> "$T/err"
check_text $? 4 "stdout closed at the start"
(organ-assemble -v "$T/d" --output "$T/closed.gguf" <&- >&- 2>&-)
check_text $? 0 "all of stdin, stdout and stderr closed"
check_same "$T/closed.gguf" $VERSE "and no message went into the model"
(organ-extract -v $D/gguf/names-odd.gguf --output "$T/closed" <&- >&- 2>&-)
check_text $? 0 "all closed, extract"
organ-assemble "$T/closed" --output "$T/closed2.gguf"
check_same "$T/closed2.gguf" $D/gguf/names-odd.gguf "and no message went into a record"
(organ-extract - --list <&- > "$T/out" 2> "$T/err")
check_text $? 4 "stdin closed"

# ---- a model that is cut short while it is measured -----------------------------------------
# Nothing is mapped, so no cut can end in SIGBUS, whenever it comes.
mkmodel "$T/cut.gguf" blk.0.ffn_up.weight:F16:4096x8192
cp "$T/cut.gguf" "$T/whole.gguf"
i=0
while [ $i -lt 12 ]; do
    organ-measure -q -j 1 "$T/cut.gguf" > "$T/out" 2> "$T/err" &
    pid=$!
    sleep 0.0$((i % 4)) 2> /dev/null
    head -c 100000 "$T/whole.gguf" > "$T/cut.gguf"
    wait $pid
    status=$?
    case $status in 0 | 3 | 4) ok ;; *) bad "cut while measured: exit $status: $(head -n 1 "$T/err")" ;; esac
    cp "$T/whole.gguf" "$T/cut.gguf"
    i=$((i + 1))
done
rm -f "$T/cut.gguf" "$T/whole.gguf"
maps=$(grep -rE "(^|[^a-z_])mmap *[(]" -A 1 src tools |
    grep -cv -e MAP_ANONYMOUS -e "organ-probe.c:.*mmap(NULL" -e "^--")
check_text "$maps" 0 "no file is mapped"

# ---- places that cannot be written -------------------------------------------------------
echo plain > "$T/plain"
check_error 4 "$T/plain/m.gguf" "below a file, assemble" organ-assemble "$T/d" --output "$T/plain/m.gguf"
check_error 4 "$T/plain/d" "below a file, extract" organ-extract $VERSE --output "$T/plain/d"
check_error 4 "$T/no/such/m.gguf" "no folder, assemble" organ-assemble "$T/d" --output "$T/no/such/m.gguf"
check "missing folders are created, extract" organ-extract -q $VERSE --output "$T/no/such/d"
if [ "$(id -u)" != 0 ]; then
    mkdir "$T/ro" && chmod a-w "$T/ro"
    check_error 4 "$T/ro/m.gguf" "read-only folder" organ-assemble "$T/d" --output "$T/ro/m.gguf"
    chmod u+w "$T/ro" && cp $VERSE "$T/ro/m.gguf" && chmod a-r "$T/ro/m.gguf"
    check_error 4 "$T/ro/m.gguf" "unreadable model" organ-extract "$T/ro/m.gguf" --list
    # Whether something exists in a locked folder is unknown, which is not a "no".
    mkdir "$T/locked" && cp $VERSE "$T/locked/m.gguf" && chmod 0 "$T/locked"
    check_error 4 "cannot find out whether this exists" "a locked folder, assemble" \
        organ-assemble "$T/d" --output "$T/locked/m.gguf"
    check_error 4 "cannot find out whether this exists" "a locked folder, show" \
        organ-imatrix combine "$T/locked/a" "$T/locked/b" --output "$T/locked/c"
    echo '{"models": [{"model": "m+l"}], "merge_method": "linear"}' > "$T/merge.json"
    check_error 4 "cannot" "a locked folder, merge" organ-merge --config "$T/merge.json" --models "$T/locked" \
        --output "$T/x.gguf"
    (cd "$T/locked" 2> /dev/null) && bad "the folder is not locked"
    chmod 700 "$T/locked"
fi

# ---- outputs that exist already -----------------------------------------------------------------
echo precious > "$T/there"
check_error 2 "--force" "existing file" organ-assemble "$T/d" --output "$T/there"
check_error 2 "there" "existing file for a folder" organ-extract $VERSE --output "$T/there"
check_error 2 "--force" "existing organ directory" organ-extract $VERSE --output "$T/d"
mkdir "$T/mine" && echo precious > "$T/mine/x"
check_error 2 "organ directory" "--force on a folder of another kind" organ-extract $VERSE --output "$T/mine" --force
check_error 2 "" "--force on a file for a folder" organ-extract $VERSE --output "$T/there" --force
check_text "$(cat "$T/there" "$T/mine/x" | tr '\n' ' ')" "precious precious " "they are untouched"
check "--force on a file" organ-assemble "$T/d" --output "$T/there" --force
check_same "$T/there" $VERSE "--force on a file"
check "--force on an organ directory" organ-extract $D/gguf/v3-basic.gguf --output "$T/d" --force
check_text "$(organ-extract -q "$T/d" --list | wc -l | tr -d ' ')" 4 "--force on an organ directory"
mkdir "$T/empty"
check "an empty folder is as good as none" organ-extract $VERSE --output "$T/empty"
cp -R "$T/empty" "$T/self"
check_exit 2 "a directory into itself without --force" organ-extract "$T/self" --output "$T/self"
check_error 2 "also an input" "a directory into itself, with --force" organ-extract "$T/self" --output "$T/self" \
    --force
check "a directory into itself: unchanged" organ-assemble "$T/self" --output "$T/self.gguf"
check_same "$T/self.gguf" $VERSE "a directory into itself"

# ---- more odd padding than a manifest is for ----------------------------------------------------
mkmodel "$T/odd.gguf" -a 1048576 -p 7 -n 66 t.%:I8:1
check_error 3 "--tensors" "over 64 MiB of odd padding" organ-extract "$T/odd.gguf" --output "$T/odd"
check_error 3 "--tensors" "over 64 MiB of odd padding, a pipe" sh -c "organ-extract - --output $T/odd < $T/odd.gguf"
check_absent "$T/odd" "over 64 MiB of odd padding"
check "odd padding is nothing to a list" sh -c "organ-extract - --list < $T/odd.gguf"
check "odd padding, left out" organ-extract "$T/odd.gguf" --tensors '*' --output "$T/odd"
rm -rf "$T/odd"
if exhaustive; then
    mkmodel "$T/odd.gguf" -a 1048576 -p 7 -n 62 t.%:I8:1
    check "just below 64 MiB of odd padding" organ-extract "$T/odd.gguf" --output "$T/odd"
    check "just below 64 MiB of odd padding, back" organ-assemble "$T/odd" --output "$T/odd2.gguf"
    check_same "$T/odd.gguf" "$T/odd2.gguf" "just below 64 MiB of odd padding"
fi
rm -rf "$T/odd" "$T/odd.gguf" "$T/odd2.gguf"

# ---- names that others have, or a killed run left ---------------------------------------------
# (in containers every run may have the same PID)
rm -rf "$T/d"
organ-extract $VERSE --output "$T/d"
mkdir "$T/pid"
check "a temporary file of the same PID" \
    sh -c 'mkdir "$2/.m.gguf.$$-0.tmp" && exec organ-assemble "$1" --output "$2/m.gguf"' sh "$T/d" "$T/pid"
check_same "$T/pid/m.gguf" $VERSE "a temporary file of the same PID"
check "a temporary folder of the same PID" \
    sh -c 'mkdir "$2/.d.$$-0.tmp" && exec organ-extract "$1" --output "$2/d"' sh $VERSE "$T/pid"
check_same_dir "$T/pid/d" "$T/d" "a temporary folder of the same PID"
check_text "$(find "$T/pid" -name '.*.tmp' | wc -l | tr -d ' ')" 2 "what others made stays"

# ---- a manifest cut short, as by a crash of something else ------------------------------------
rm -rf "$T/d"
organ-extract $VERSE --output "$T/d"
head -c 3000 "$T/d/manifest.json" > "$T/mf" && cp "$T/mf" "$T/d/manifest.json"
check_error 3 "manifest.json" "half a manifest" organ-assemble "$T/d" --output "$T/never.gguf"
rm "$T/d/manifest.json"
mkfifo "$T/d/manifest.json"
for tool in "organ-extract --list" "organ-assemble --output $T/never.gguf" "organ-measure"; do
    have timeout && check_error 3 "not a regular file" "a FIFO for a manifest, $tool" timeout 30 $tool "$T/d"
done
rm "$T/d/manifest.json"
check_exit 3 "cannot be a manifest" organ-assemble "$T/d" --output "$T/never.gguf"
check_absent "$T/never.gguf" "half a manifest"

# ---- killed at any moment ------------------------------------------------------------------------
if exhaustive; then : "${FAULTS_MB:=100}" "${FAULTS_KILLS:=5}"; fi
: "${FAULTS_MB:=40}" "${FAULTS_KILLS:=3}"
rows=$((FAULTS_MB * 64))
mkmodel "$T/big.gguf" blk.0.attn_q.weight:I8:4096x$rows blk.0.attn_k.weight:I8:4096x$rows \
    blk.0.attn_v.weight:I8:4096x$rows blk.0.attn_output.weight:I8:4096x$rows
rm -rf "$T/bigd"
organ-extract "$T/big.gguf" --output "$T/bigd"
mkdir "$T/k"

# struck SIGNAL MILLISECONDS COMMAND...: start, wait, send; the status in $status
struck() {
    signal=$1 delay=$2
    shift 2
    "$@" 2> "$T/err" &
    pid=$!
    sleep "0.$delay"
    kill -s "$signal" $pid 2> /dev/null
    wait $pid 2> /dev/null
    status=$?
}

whole_file() { # WHAT: absent, or the whole model
    if [ ! -e "$T/k/m.gguf" ] || cmp -s "$T/k/m.gguf" "$T/big.gguf"; then ok; else \
        bad "$1: half a file under the final name"; fi
    rm -f "$T/k/m.gguf"
}
whole_dir() {
    if [ ! -e "$T/k/d" ] || { [ -e "$T/k/d/manifest.json" ] && organ-assemble "$T/k/d" --output "$T/check.gguf" \
        2> /dev/null &&
        cmp -s "$T/check.gguf" "$T/big.gguf"; }; then ok; else bad "$1: half a folder under the final name"; fi
    rm -rf "$T/k/d" "$T/check.gguf"
}
i=0
interrupted=0
while [ $i -lt "$FAULTS_KILLS" ]; do
    delay=$(printf "%03d" $((5 + i * 37)))
    for signal in INT KILL TERM; do
        struck $signal "$delay" organ-assemble "$T/bigd" --output "$T/k/m.gguf"
        [ $status -gt 128 ] && interrupted=$((interrupted + 1))
        whole_file "assemble, $signal after 0.$delay s"
        [ $signal = KILL ] || check_text "$(ls -A "$T/k")" "" "assemble, $signal: no temporary file is left"
        rm -rf "$T/k"/.??*
        struck $signal "$delay" organ-extract "$T/big.gguf" --output "$T/k/d"
        [ $status -gt 128 ] && interrupted=$((interrupted + 1))
        whole_dir "extract, $signal after 0.$delay s"
        [ $signal = KILL ] || check_text "$(ls -A "$T/k")" "" "extract, $signal: no temporary folder is left"
        rm -rf "$T/k"/.??*
    done
    i=$((i + 1))
done
if [ $interrupted -gt 0 ]; then ok; else bad \
    "no run was interrupted: the machine is too fast for FAULTS_MB=$FAULTS_MB"; fi

# Replacing: the old output stays whole until the new one is.
cp "$T/big.gguf" "$T/k/m.gguf"
struck KILL 040 organ-assemble "$T/bigd" --output "$T/k/m.gguf" --force
check_same "$T/k/m.gguf" "$T/big.gguf" "killed while replacing"
finish
