#!/bin/sh
# clock.sh - the clock says 1980, or 2040, while files are of today: tools and scripts do the same, and what has a date
# has that of the clock.
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"
PATH=$PWD/scripts:$PATH ORGAN_BIN=$BIN
export ORGAN_BIN
SO=$T/clock.so
cat > "$T/clock.c" << 'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static time_t then(void) { const char *text = getenv("CLOCK"); return text ? (time_t)strtoll(text, NULL, 10) : 0; }
time_t time(time_t *to) { time_t t = then(); if (to) *to = t; return t; }
int gettimeofday(struct timeval *restrict to, void *restrict zone)
{
    (void)zone;
    to->tv_sec = then(), to->tv_usec = 0;
    return 0;
}
int clock_gettime(clockid_t clock, struct timespec *to)
{
    int (*real)(clockid_t, struct timespec *);
    *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    int got = real(clock, to);
    if (got == 0 && clock == CLOCK_REALTIME) to->tv_sec = then();
    return got;
}
END
if [ -n "${SANITIZED:-}" ] || ! compile -std=gnu11 -shared -fPIC -o "$SO" "$T/clock.c" -ldl 2> "$T/err"; then
    echo "left out: a clock in 1980 (glibc)"
    finish
fi
V=$LAB/lab-verse-q4_k_m.gguf C=$LAB/lab-code-q4_k_m.gguf
organ-stack -q --drop 1-3 "$V" -o "$T/small.gguf"
organ-merge -q "$V" "$C" --method linear -o "$T/want.gguf" --no-hash
organ-extract -q "$V" -o "$T/want.d"
for year in 1980 2040; do
    case $year in 1980) seconds=315619200 ;; *) seconds=2209032000 ;; esac
    at() { env LD_PRELOAD="$SO" CLOCK=$seconds TZ=UTC "$@"; }
    check_text "$(at date -u +%Y)" $year "the clock"
    rm -rf "$T/o" && mkdir "$T/o"
    check "$year: extract" at organ-extract -q "$V" -o "$T/o/d"
    check_same_dir "$T/o/d" "$T/want.d" "$year: extract"
    check "$year: assemble" at organ-assemble -q "$T/o/d" -o "$T/o/m.gguf"
    check_same "$T/o/m.gguf" "$V" "$year: assemble"
    check "$year: merge" at organ-merge -q "$V" "$C" --method linear --no-hash -o "$T/o/merged.gguf" \
        --card "$T/o/card.md"
    check_same "$T/o/merged.gguf" "$T/want.gguf" "$year: merge"
    check "$year: transplant" at organ-transplant -q "$V" "$C" --layers 1 -o "$T/o/t.gguf"
    check "$year: in place" at organ-keys -q "$T/o/t.gguf" --set general.name=str:new --in-place
    check "$year: purify" at organ-purify -q --dir "$T/o/d" --output "$T/o/p"
    # Steps are done again if a model is newer than its results, which is a matter of the files' dates only.
    for run in "done" kept; do
        check "$year: fleet" at organ-fleet pipeline --output "$T/o/fleet" "$T/small.gguf"
        check_text "$(cells model,status "$T/out" | sed 1d)" "small$TAB$run" "$year: fleet"
        check "$year: stream" at organ-stream --output "$T/o/stream" "$T/small.gguf"
        check_text "$(cells status "$T/out" | sed 1d)" "$run" "$year: stream"
    done
    check "$year: report" at organ-report -q --output "$T/o/report" "$T/o/fleet"
    for f in fleet/z_report_complete.json fleet/dissection_report.json; do
        check "$year: $f" grep -q "\"created\": \"$year-" "$T/o/$f"
    done
done
finish
