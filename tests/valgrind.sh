#!/bin/sh
# valgrind.sh - run command-line tests with every tool under valgrind (make valgrind), and print
# what valgrind reports. Exit 1 if a test fails or if there is a report.
#
#   B=build        the build folder            BIN=build/bin  the tools
#   JOBS=N         how many run at a time      ONLY=PATTERN   tests whose path contains it
#
# Without ONLY the tests below run, which use each tool. The others are left out:
#
#   too slow under valgrind      bigmodel chimera fleet hostile leaks malformed recipes report stream
#   limit memory or time         memory parts
#   preload a library            cgi faults
#   build or install             hardening install library readme
set -u
cd "$(dirname "$0")/.." || exit 1
B=${B:-build}
BIN=${BIN:-$B/bin}
case $BIN in /*) ;; *) BIN=$PWD/$BIN ;; esac
case $B in /*) ;; *) B=$PWD/$B ;; esac
tests='blend changed check compare completion dtype edited experts graft help imatrix keys kinds lora
    m2m merge mtp patch pipeout prune purify quickstart roundtrip schema select shards stack transplant.
    transplant_as validate where measure api'
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

status=0
for t in ${ONLY:-$tests}; do
    SANITIZED=1 B=$B BIN=$V/bin ONLY=cli/$t sh tests/run.sh > "$V/tests.log" 2>&1 || status=1
    grep -E '^FAIL|passed,' "$V/tests.log" | grep -v '^tests:' | sort -u
done
find "$V/logs" -type f ! -size 0 > "$V/reports"
while IFS= read -r log; do
    echo "---- ${log##*/}"
    head -n 20 "$log"
done < "$V/reports"
echo "valgrind: $(find "$V/logs" -type f | wc -l) runs, $(wc -l < "$V/reports") reports"
[ ! -s "$V/reports" ] && [ $status -eq 0 ]
