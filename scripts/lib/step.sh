# step.sh - runs a command of chimera.mk: sh step.sh PLACE COMMAND. If it is interrupted, the last
# line says how to go on. A signal may reach only this shell, so it is passed on to the command.
# shellcheck shell=sh
place=$1
stop() { # EXIT-STATUS
    trap '' HUP INT TERM
    kill "$command" 2>/dev/null
    wait "$command"
    echo "chimera.mk: stopped in $place; run the same command to go on from there" >&2
    exit "$1"
}
trap 'stop 129' HUP
trap 'stop 130' INT
trap 'stop 143' TERM
sh -c "$2" &
command=$!
wait "$command"
