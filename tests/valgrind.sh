#!/bin/sh
# valgrind.sh - run command-line tests with every tool under valgrind (make valgrind), and print
# what valgrind reports. Exit 1 if a test fails or if there is a report.
#
#   B=build        the build folder            BIN=build/bin  the tools
#   JOBS=N         test files at a time        ONLY='NAME...' tests whose path contains a NAME
#                  (processors)
#
# Each command takes half a second or more here. Without ONLY the tests below run, which use each
# tool in each way: about 8000 commands. The others are left out:
#
#   large data or many commands  bigmodel chimera fleet hostile leaks malformed recipes report search
#                                sensitivity stream
#   limit memory or time         memory parts
#   preload a library            cgi faults
#   build or install             hardening install library packages readme
set -u
cd "$(dirname "$0")/.." || exit 1
B=${B:-build}
BIN=${BIN:-$B/bin}
case $BIN in /*) ;; *) BIN=$PWD/$BIN ;; esac
case $B in /*) ;; *) B=$PWD/$B ;; esac
tests='align blend changed check compare completion dtype edited experts forks graft help imatrix keys kinds
    lora m2m merge mtp patch pictures pipeout prune purify quickstart roundtrip schema select shards
    size stack tables transplant. transplant_as validate where measure api'
command -v valgrind > /dev/null || { echo "valgrind.sh: valgrind is not installed"; exit 2; }

V=$B/valgrind
rm -rf "$V"
mkdir -p "$V/bin" "$V/logs" && chmod 1777 "$V/logs" || exit 2
# Of what a forked process inherits, only its own report counts.
for tool in "$BIN"/organ-*; do
    cat > "$V/bin/${tool##*/}" << END
#!/bin/sh
exec valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect \\
    --errors-for-leak-kinds=definite,indirect --log-file='$V/logs/${tool##*/}.%p' '$tool' "\$@"
END
    chmod +x "$V/bin/${tool##*/}"
done

one() { # NAME: its tests; failures and the last line of each file
    VALGRIND=1 SANITIZED=1 B=$B BIN=$V/bin JOBS=1 ONLY=cli/$1 sh tests/run.sh > "$V/$1.log" 2>&1 || : > "$V/failed"
    grep -E '^FAIL|passed,' "$V/$1.log" | grep -v '^tests:' | sort -u
}
# Each worker goes down the list and takes what no other has: mkdir is the lock.
worker() {
    for t in ${ONLY:-$tests}; do
        mkdir "$V/$t.taken" 2> /dev/null && one "$t"
    done
}
w=0
while [ $w -lt "${JOBS:-$(getconf _NPROCESSORS_ONLN 2> /dev/null || echo 2)}" ]; do
    w=$((w + 1))
    worker &
done
wait
find "$V/logs" -type f ! -size 0 > "$V/reports"
while IFS= read -r log; do
    echo "---- ${log##*/}"
    head -n 20 "$log"
done < "$V/reports"
echo "valgrind: $(find "$V/logs" -type f | wc -l) runs, $(wc -l < "$V/reports") reports"
[ ! -s "$V/reports" ] && [ ! -e "$V/failed" ]
