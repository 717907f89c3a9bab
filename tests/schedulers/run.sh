#!/bin/sh
# run.sh - use organ-fleet with a real Slurm and a real sshd, and run the commands of
# docs/clusters.md with rclone, all on 127.0.0.1. Each part is left out, and named, where its
# programs are missing or cannot run.
#
#   BIN=build/bin sh tests/schedulers/run.sh [slurm|ssh|rclone]...
#
# Slurm needs root: slurmd starts the tasks of other users. Debian: slurm-wlm munge openssh-server
# openssh-client parallel rclone.
# shellcheck source=tests/cli/lib.sh disable=SC1091
# shellcheck disable=SC2034 # the parts use these variables
. "$(dirname "$0")/../cli/lib.sh"
scripts=$PWD/scripts here=$PWD/tests/schedulers
PATH=/usr/sbin:/sbin:$PATH
ORGAN_BIN=$T/tools # the tools, of which one can be told to wait
export ORGAN_BIN

# ---- what the parts share

skip() { echo "skipped: $1"; }
need() { for program; do have "$program" || { skip "$part: no $program"; return 1; }; done; }
# until_true SECONDS COMMAND...: wait until it succeeds
until_true() {
    tries=$(($1 * 5))
    shift
    until "$@" > "$T/until" 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.2
    done
}
# A port that nothing listens at; they go up from 20000 plus a part of the process number.
port=$((20000 + $$ % 10000))
free_port() {
    port=$((port + 1))
    while grep -qi ":$(printf %04X $port) 00000000:0000 0A" /proc/net/tcp; do port=$((port + 1)); done
}
# end_process FILE: end the process whose number is in FILE
end_process() { [ ! -s "$1" ] || kill "$(cat "$1")" 2> /dev/null || :; }
status_of() { awk -F '\t' -v m="$1" '$1 == m { print $2 }' "$T/table"; }
statuses() { for m in one two three broken; do printf '%s ' "$(status_of $m)"; done; }
fleet() { "$scripts/organ-fleet" measure --output "$@" "$T/models" > "$T/table" 2> "$T/fleet.err"; }
# begin OUTPUT OPTION...: a fleet in the background, which SIGINT can end; its number is in $pid
begin() {
    env --default-signal=INT "$scripts/organ-fleet" measure --output "$@" "$T/models" > "$T/table" 2> "$T/fleet.err" &
    pid=$!
}
both_done() { [ -e "$1/models/one/measure.done" ] && [ -e "$1/models/two/measure.done" ]; }
# above NAME PID: the processes from PID up to the next one of this name, the topmost first.
above() {
    p=$2 list=''
    while [ "${p:-1}" -gt 1 ]; do
        list="$p $list"
        [ "$(cat "/proc/$p/comm")" != "$1" ] || break
        p=$(awk '$1 == "PPid:" { print $2 }' "/proc/$p/status")
    done
    echo "$list"
}
same_rows() { # OUTPUT: the rows of each model are those of organ-measure
    for m in one two three; do
        cmp "$T/direct/$m.tsv" "$1/models/$m/measures.tsv" || return 1
    done
}

# organ-measure waits for a model while the file hold-MODEL exists, and leaves its number there.
mkdir "$T/models" "$T/direct" "$T/tools" "$T/hold"
for m in one two three; do
    case $m in one) from=verse ;; two) from=code ;; *) from=stranger ;; esac
    organ-stack -q --drop 1-3 "$LAB/lab-$from-q4_k_m.gguf" --output "$T/models/$m.gguf" || bad "no small models"
    organ-measure "$T/models/$m.gguf" > "$T/direct/$m.tsv"
done
printf 'not a model' > "$T/models/broken.gguf"
ln -s "$BIN"/organ-* "$T/tools/"
rm "$T/tools/organ-measure"
cat > "$T/tools/organ-measure" << END
#!/bin/sh
for m in one two three four five; do
    for given; do case \$given in */\$m.gguf)
        if [ -e "$T/hold/\$m" ]; then
            echo \$\$ > "$T/hold/\$m.pid"
            while [ -e "$T/hold/\$m" ]; do sleep 0.2; done
        fi ;;
    esac; done
done
exec "$BIN/organ-measure" "\$@"
END
chmod 755 "$T/tools/organ-measure"
hold() { : > "$T/hold/$1"; rm -f "$T/hold/$1.pid"; }
release() { rm -f "$T/hold/$1" "$T/hold/$1.pid"; }

# clean is called at the end, whatever happens: daemons do not stay.
clean() {
    rm -f "$T"/hold/*
    for f in "$T"/*.pid; do end_process "$f"; done
    sleep 0.3
    chmod -R u+w "$T" 2> /dev/null
    rm -rf "$T"
}
trap clean EXIT

[ $# -gt 0 ] || set -- slurm ssh rclone # rclone.sh uses the Slurm of slurm.sh, if it runs
slurm_runs=no
for part; do
    # shellcheck source=/dev/null
    . "$here/$part.sh"
done
finish
