# step.sh - runs a command of chimera.mk: sh step.sh PLACE -c COMMAND. If it is interrupted, the last
# line says how to go on. A signal may reach only this shell, so it is passed on to the command,
# which is one program with arguments and redirections, or a message.
# shellcheck shell=sh
place=$1
for line; do :; done # other flags of the shell may come before
command=
stop() { # EXIT-STATUS
    trap '' HUP INT TERM
    kill "${command:-$!}" 2>/dev/null
    wait
    echo "chimera.mk: stopped in $place; run the same command to go on from there" >&2
    exit "$1"
}
case $line in
: | "echo "*)
    eval "$line"
    exit
    ;;
esac
trap 'stop 129' HUP
trap 'stop 130' INT
trap 'stop 143' TERM
sh -c "exec $line" & # exec, so that the signal reaches the program
command=$!
wait "$command"
