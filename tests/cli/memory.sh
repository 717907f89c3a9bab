#!/bin/sh
# shellcheck disable=SC1091,SC2086
# memory.sh - every allocation of small runs fails, once or from then on (each third, if not every case is
# tested): the run succeeds or ends with a clean error, and an output is there exactly when the run says so. No
# temporary name stays behind. The allocator is replaced by a library that this test compiles.
. "$(dirname "$0")/lib.sh"
if [ -n "${SANITIZED:-}" ] || [ "$(uname -s)" != Linux ]; then
    echo "memory.sh: left out, no allocator to replace here"
    finish
fi
cat > "$T/nomem.c" << 'END_OF_C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* FAIL_AT=N fails the N-th allocation, FAIL_FROM=N that and all after it; 0 is none. Before
 * the first call of main's libraries is done, dlsym itself may allocate: from a small store. */
static atomic_long count;
static long at, from;
static const char *mark; /* a file to write to when an allocation failed */
static void *(*real_malloc)(size_t), *(*real_calloc)(size_t, size_t), *(*real_realloc)(void *, size_t);
static char store[8192];
static size_t used;

__attribute__((constructor)) static void start(void)
{
    const char *a = getenv("FAIL_AT"), *f = getenv("FAIL_FROM");
    at = a ? atol(a) : 0;
    from = f ? atol(f) : 0;
    mark = getenv("FAIL_MARK");
}

static int fails(void)
{
    long n = atomic_fetch_add(&count, 1) + 1;
    if (n != at && (from == 0 || n < from)) return 0;
    if (mark) {
        int fd = open(mark, O_WRONLY);
        if (write(fd, "x", 1) == 1) close(fd);
    }
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t n)
{
    if (!real_malloc) real_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    return fails() ? NULL : real_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    static int looking;
    if (!real_calloc && looking) {
        void *p = store + used;
        used += (n * size + 15) / 16 * 16;
        return used <= sizeof store ? p : NULL;
    }
    looking = 1;
    if (!real_calloc) real_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    return fails() ? NULL : real_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    if (!real_realloc) real_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    return fails() ? NULL : real_realloc(p, n);
}
END_OF_C
if ! compile -shared -fPIC -o "$T/nomem.so" "$T/nomem.c" -ldl 2> /dev/null ||
    LD_PRELOAD=$T/nomem.so FAIL_FROM=1 organ-measure $D/gguf/v3-basic.gguf > /dev/null 2>&1 ||
    ! LD_PRELOAD=$T/nomem.so organ-measure $D/gguf/v3-basic.gguf > /dev/null 2>&1; then
    echo "memory.sh: left out, no library can be put in front of the tools"
    finish
fi

# The names in $T/o, by the shell alone, as this is asked after each run.
names() {
    set -- "$T/o"/* "$T/o"/.[!.]* "$T/o"/..?*
    left=
    for name; do [ ! -e "$name" ] && [ ! -L "$name" ] || left="$left${left:+ }${name##*/}"; done
}

# every WHAT OUTPUT COMMAND...: OUTPUT is the name in $T/o that the command writes, or "".
every() {
    what=$1 output=$2 first=0 step=3
    if exhaustive; then step=1; fi
    shift 2
    for how in FAIL_AT FAIL_FROM; do
        rm -rf "$T/o" && mkdir "$T/o"
        first=$((first % step + 1)) n=$first
        while :; do
            : > "$T/mark"
            at=0 from=$n
            [ $how = FAIL_FROM ] || at=$n from=0
            LD_PRELOAD="$T/nomem.so" FAIL_MARK="$T/mark" FAIL_AT=$at FAIL_FROM=$from "$@" > "$T/out" 2> "$T/err"
            status=$? want=
            names
            [ $status = 0 ] && want=$output
            if [ $status -ge 128 ] || [ "$left" != "$want" ]; then
                bad "$what, $how=$n: exit $status, '$left' is there: $(head -n 1 "$T/err")"
                break
            fi
            [ -z "$left" ] || rm -rf "${T:?}/o/$left"
            [ -s "$T/mark" ] || break # it had fewer allocations
            n=$((n + step))
        done
        if [ $n -gt 10 ]; then ok; else bad "$what, $how: only $n allocations"; fi
    done
}

mkmodel "$T/a.gguf" blk.0.ffn_up.weight:F32:32x2 blk.0.attn_q.weight:F16:32x2 output_norm.weight:F32:32
mkmodel "$T/b.gguf" blk.0.ffn_up.weight:F32:32x2 blk.0.attn_q.weight:Q8_0:32x2 output_norm.weight:F32:32
organ-extract -q "$T/a.gguf" --output "$T/d"
every extract d organ-extract -q -j 1 "$T/a.gguf" --output "$T/o/d"
every "a directory, again" d organ-graft -q -j 1 --base "$T/d" --donor "$T/a.gguf" --type organ --output "$T/o/d"
every assemble m.gguf organ-assemble -q -j 1 "$T/d" --output "$T/o/m.gguf"
every transplant m.gguf organ-transplant -q -j 1 --base "$T/a.gguf" --donor "$T/a.gguf" --output "$T/o/m.gguf"
for k in 1 2 3; do mkmodel "$T/m$k.gguf" -s $k blk.0.ffn_up.weight:F32:32x2; done
every merge m.gguf organ-merge -q -j 1 --method ties,density=0.5 --base "$T/m1.gguf" --model "$T/m2.gguf" \
    --model "$T/m3.gguf" --output "$T/o/m.gguf"
for k in 1 2; do mkmodel "$T/w$k.gguf" -s $k blk.0.ffn_up.weight:F32:8x2; done
mkmodel "$T/samples.gguf" blk.0.ffn_up.weight.sample:F16:8x8
every "merge by regmean" m.gguf organ-merge -q -j 1 --method regmean --model "$T/w1.gguf,activations=$T/samples.gguf" \
    --model "$T/w2.gguf,activations=$T/samples.gguf" --output "$T/o/m.gguf"

# A manifest of 32 MiB is in memory twice when its entries get measures: in the source, and as a text.
split=$(grep -n '^  "metadata": \[' "$T/d/manifest.json" | cut -d : -f 1)
{
    sed "${split}q" "$T/d/manifest.json"
    printf '    {"key": "long", "type": "str", "value": "' && head -c 33554432 /dev/zero | tr '\0' x && printf '"},\n'
    sed "1,${split}d" "$T/d/manifest.json"
} > "$T/long.json"
mv "$T/long.json" "$T/d/manifest.json"
peak=$(cost organ-measure -q -j 1 --update "$T/d" | cut -d ' ' -f 3)
if [ "${peak:-0}" -gt 32768 ] && [ "$peak" -le 73728 ] && [ "$(grep -c '"z": {' "$T/d/manifest.json")" = 3 ]; then ok
else bad "measures in a manifest of 32 MiB: $peak KiB at the peak, 73728 allowed"
fi

# A safetensors header of many empty tensors: twice its bytes, 64 MiB, and 600 bytes per tensor.
n=100000
awk -v n=$n 'BEGIN {
    printf "{"
    for (i = 0; i < n; i++)
        printf "%s\"m.%d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "", i
    printf "}"
}' > "$T/header"
with_size() { # HEADER: a safetensors file of this header
    bytes=$(wc -c < "$1")
    bytes=$((bytes))
    # shellcheck disable=SC2059
    for shift in 0 8 16 24; do printf "\\$(printf %03o $((bytes >> shift & 255)))"; done
    head -c 4 /dev/zero
    cat "$1"
}
with_size "$T/header" > "$T/many.safetensors"
bytes=$(wc -c < "$T/header")
check_text "$(organ-extract -q "$T/many.safetensors" --list | wc -l | tr -d ' ')" $((n + 1)) "$n empty tensors"
most=$((2 * bytes / 1024 + 65536 + n * 600 / 1024))
for command in "extract --list" info keys measure check; do
    # shellcheck disable=SC2086
    peak=$(cost organ-$command -q -j 1 "$T/many.safetensors" 2> "$T/err" | cut -d ' ' -f 3)
    if [ "${peak:-0}" -gt 4096 ] && [ "$peak" -le $most ]; then ok
    else bad "organ-$command, $n empty tensors: $peak KiB at the peak, $most allowed: $(head -n 1 "$T/err")"
    fi
done
# The rule of docs/security.md for each kind of source: twice the header and 64 MiB, 200 bytes for each tensor and key,
# and 32 bytes for each value of a JSON text. A header with one long text takes at most 16 MiB besides two copies.
within() { # WHAT PATH KIB: the peak of commands that read the path
    exhaustive && commands="extract,--list info keys measure check" || commands="info"
    for command in $commands; do
        # shellcheck disable=SC2046
        peak=$(cost organ-$(echo $command | tr , ' ') -q -j 1 "$2" < "$T/long.gguf" 2> "$T/err" | cut -d ' ' -f 3)
        if [ "${peak:-0}" -gt 1024 ] && [ "$peak" -le "$3" ]; then ok
        else bad "$1, organ-$command: $peak KiB at the peak, $3 allowed: $(head -n 1 "$T/err")"
        fi
    done
}
head -c 16777216 /dev/zero | tr '\0' x > "$T/ones"
organ-keys -q "$T/a.gguf" --set-file "long=$T/ones" -o "$T/long.gguf"
organ-extract -q "$T/long.gguf" -o "$T/long.d"
organ-assemble -q "$T/long.gguf" --shards 2 -o "$T/long.gguf"
{
    printf '{"__metadata__":{"long":"' && cat "$T/ones"
    printf '"},"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'
} > "$T/header"
with_size "$T/header" > "$T/long.safetensors"
for f in falcon lora-falcon; do
    cp -r "$D/hf/$f" "$T/$f" && for json in "$T/$f"/*config.json; do
        { printf '{"note": "'; cat "$T/ones"; printf '",'; sed '1s/{//' "$json"; } > "$T/json"
        mv "$T/json" "$json"
    done
done
most=$((2 * 16384 + 16384))
for f in long.gguf - long.d long-00002-of-00002.gguf long.safetensors falcon lora-falcon; do
    case $f in
    -) within "a long text, $f" - $most ;;
    lora*) within "a long text, $f" "$T/$f" $((most + 16384)) ;; # the configuration is a key as well
    *) within "a long text, $f" "$T/$f" $most ;;
    esac
done
rm -rf "$T/long.d" "$T"/long-0000* "$T/long.safetensors" "$T/ones"
n=1000000
{ printf '{"many": [0'; head -c $n /dev/zero | tr '\0' 1 | sed 's/1/,1/g'; printf '],'
    sed '1s/{//' "$D/hf/falcon/config.json"; } > "$T/falcon/config.json"
within "$n values" "$T/falcon" $((2 * 2 * n / 1024 + 65536 + 32 * n / 1024))
n=200000
mkmodel "$T/many.gguf" -n $n m.%:I8:0
bytes=$(wc -c < "$T/many.gguf")
most=$((2 * bytes / 1024 + 65536 + 200 * n / 1024))
within "$n tensors" "$T/many.gguf" $most
organ-extract -q "$T/many.gguf" -o - > "$T/many.bin"
within "$n records" "$T/many.bin" $most
awk -v n=$n 'BEGIN {
    printf "{\"__metadata__\":{"
    for (i = 0; i < n; i++) printf "%s\"k%d\":\"1\"", i ? "," : "", i
    printf "},\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}"
}' > "$T/header"
with_size "$T/header" > "$T/keys.safetensors"
bytes=$(wc -c < "$T/header")
within "$n keys" "$T/keys.safetensors" $((2 * bytes / 1024 + 65536 + 200 * n / 1024))
limited 5 organ-keys -q "$T/keys.safetensors" > "$T/out" 2> "$T/err"
check_text "$(wc -l < "$T/out" | tr -d ' ')" $((n + 1)) "$n keys in time"
rm -f "$T"/many.* "$T/keys.safetensors"
# Texts of many pieces are whole, or the run fails.
whole() { # WHAT FILE COMMAND...: with each allocation failing once, exit 0 means the same file; "" is stdout
    what=$1 file=$2 n=1 lost=
    shift 2
    rm -rf "$T/o" && mkdir "$T/o"
    "$@" > "$T/out" 2> "$T/err"
    cp "${file:-$T/out}" "$T/whole"
    while :; do
        rm -rf "$T/o" && mkdir "$T/o"
        : > "$T/mark"
        LD_PRELOAD="$T/nomem.so" FAIL_MARK="$T/mark" FAIL_AT=$n "$@" > "$T/out" 2> "$T/err"
        status=$?
        [ -s "$T/mark" ] || break
        case $status in
        0) cmp -s "${file:-$T/out}" "$T/whole" || lost="$lost $n" ;;
        4) ;;
        *) lost="$lost $n ($status)" ;;
        esac
        n=$((n + 1))
    done
    if [ $n -gt 10 ] && [ -z "$lost" ]; then ok; else bad "$what: another text if one of $n calls fails:$lost"; fi
}
whole "a card" "$T/o/c.md" organ-assemble -q -j 1 "$T/m1.gguf" --output "$T/o/m.gguf" --card "$T/o/c.md"
organ-extract -q "$T/m1.gguf" --output "$T/m1.d"
n=1 lost=
while :; do # an output that lies in its input is never allowed
    : > "$T/mark"
    LD_PRELOAD="$T/nomem.so" FAIL_MARK="$T/mark" FAIL_AT=$n organ-assemble -q -j 1 "$T/m1.d" \
        --output "$T/m1.d/skeleton/x.gguf" 2> "$T/err"
    [ $? = 0 ] && lost="$lost $n" && rm -f "$T/m1.d/skeleton/x.gguf"
    [ -s "$T/mark" ] || break
    n=$((n + 1))
done
if [ $n -gt 10 ] && [ -z "$lost" ]; then ok; else bad "an output in its input, if one of $n calls fails:$lost"; fi
organ-lora -q --base $D/hf/falcon --from $D/hf/lora-falcon --output "$T/lora.gguf"
n=1 lost=
while :; do # the folder of --to-peft is made, or memory was lacking
    : > "$T/mark"
    LD_PRELOAD="$T/nomem.so" FAIL_MARK="$T/mark" FAIL_AT=$n organ-lora -q -j 1 --base $D/hf/falcon \
        --from "$T/lora.gguf" --to-peft "$T/peft" 2> "$T/err"
    [ $? = 0 ] || grep -q 'memory' "$T/err" || lost="$lost $n"
    rm -rf "$T/peft"
    [ -s "$T/mark" ] || break
    n=$((n + 1))
done
if [ $n -gt 10 ] && [ -z "$lost" ]; then ok; else bad "to PEFT, another cause if one of $n calls fails:$lost"; fi
whole "a table of models" "" organ-info -q --table "$T/m1.gguf" "$T/m1.d"
every compare "" organ-compare -q -j 1 "$T/a.gguf" "$T/b.gguf"
finish
