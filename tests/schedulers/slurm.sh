# slurm.sh - part of run.sh: fleets on two nodes of a Slurm that runs on this machine.
# shellcheck disable=SC2034,SC2154 # variables of run.sh

start_slurm() {
    free_port; ctld=$port; free_port; n1=$port; free_port; n2=$port
    mkdir "$T/state" "$T/spool-n1" "$T/spool-n2"
    head -c 1024 /dev/urandom > "$T/munge.key"
    chmod 600 "$T/munge.key"
    munged --force --key-file="$T/munge.key" --socket="$T/munge.s" --pid-file="$T/munged.pid" \
        --log-file="$T/munged.log" --seed-file="$T/munge.seed" || return 1
    cat > "$T/slurm.conf" << END
ClusterName=organs
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$ctld
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$T/munge.s
CredType=cred/munge
StateSaveLocation=$T/state
SlurmdSpoolDir=$T/spool-%n
SlurmctldPidFile=$T/slurmctld.pid
SlurmdPidFile=$T/slurmd-%n.pid
SlurmctldLogFile=$T/slurmctld.log
SlurmdLogFile=$T/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=2
OverTimeLimit=0
SchedulerParameters=sched_interval=2,batch_sched_delay=1
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$n1 CPUs=$(nproc) State=UNKNOWN
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$n2 CPUs=$(nproc) State=UNKNOWN
PartitionName=test Nodes=n1,n2 Default=YES State=UP OverSubscribe=FORCE:8
END
    SLURM_CONF=$T/slurm.conf
    export SLURM_CONF
    slurmctld && slurmd -N n1 && slurmd -N n2 && until_true 30 nodes_are idle 2
}
nodes_are() { [ "$(sinfo -h -N -o %T | grep -cx "$1")" = "$2" ]; } # STATE COUNT

# fail_node MODEL: the node at which it is measured fails. Its daemon and all that ran there are gone at once.
fail_node() {
    tool=$(cat "$T/hold/$1.pid")
    node=$(tr '\0' '\n' < "/proc/$tool/environ" | sed -n 's/^SLURMD_NODENAME=//p')
    # shellcheck disable=SC2046 # several numbers
    kill -9 "$(cat "$T/slurmd-$node.pid")" $(above slurmstepd "$tool")
    scontrol update nodename="$node" state=down reason=test
    release "$1"
}
mend_node() {
    slurmd -N "$node"
    until_true 30 nodes_up
}
# alone MODEL OPTIONS: a fleet of one model in the background; its number is in $alone
alone() {
    mkdir -p "$T/alone-$1"
    cp "$T/models/two.gguf" "$T/alone-$1/$1.gguf"
    "$scripts/organ-fleet" measure --output "$T/$1" --slurm="$2" "$T/alone-$1" > "$T/$1.tsv" 2> "$T/$1.err" &
    alone=$!
}
slurm_fleets() {
    # These two take a minute, while the others run: Slurm counts time limits in whole minutes, and
    # waits before it tries a task again.
    hold five
    alone five --nodelist=n2
    again=$alone
    check "Slurm: a model is at work on the second node" until_true 60 test -s "$T/hold/five.pid"
    fail_node five
    check "Slurm: the second node comes back" mend_node
    hold four
    alone four '--nodelist=n1 --time=1'
    limit=$alone

    # ---- a fleet with a broken model
    fleet "$T/slurm" -j 4 --slurm
    check_text "$? $(statuses)" "1 done done done failed " "Slurm: a fleet with a broken model"
    check "Slurm: the rows are those of organ-measure" same_rows "$T/slurm"
    check "Slurm: why it failed" grep -q '^organ-fleet: broken: organ-measure: .*GGUF' "$T/fleet.err"

    # ---- an interrupt, and the same command again
    hold three
    begin "$T/stopped" -j 4 --slurm
    check "Slurm: two models are done" until_true 60 both_done "$T/stopped"
    check "Slurm: one is at work" until_true 60 test -s "$T/hold/three.pid"
    held=$(cat "$T/hold/three.pid") array=$(squeue -h -o '%F %j %k' | awk '{ print $1 }' | sort -n | tail -n 1)
    kill -INT $pid
    wait $pid
    check_text $? 130 "Slurm: interrupted"
    check "Slurm: how to go on" grep -q '^organ-fleet: stopped: .* of 4 models are finished; run the same' \
        "$T/fleet.err"
    check "Slurm: the array is cancelled" until_true 30 array_ended "$array"
    check_exit 1 "Slurm: its tools end" kill -0 "$held"
    check_text "$(find "$T/stopped" -name '.run-*')" "" "Slurm: nothing stays"
    release three
    fleet "$T/stopped" -j 4 --slurm
    check_text "$? $(statuses)" "1 kept kept done failed " "Slurm: resumed"
    check "Slurm: the rows of both runs" same_rows "$T/stopped"

    # ---- a node that fails, without a second try by Slurm
    hold three
    begin "$T/failed" -j 4 --slurm="--no-requeue --exclude=n1"
    check "Slurm: a model is at work on a node" until_true 60 test -s "$T/hold/three.pid"
    fail_node three
    wait $pid
    check_text "$? $(statuses)" "1 done done failed failed " "Slurm: a node fails"
    check "Slurm: what happened to the model" grep -q '^organ-fleet: three: the worker of this model ended early' \
        "$T/fleet.err"
    check "Slurm: the node comes back" mend_node
    fleet "$T/failed" -j 4 --slurm
    check_text "$? $(statuses)" "1 kept kept done failed " "Slurm: the next run does it again"

    # ---- an array that somebody cancels
    hold three
    begin "$T/cancelled" -j 4 --slurm
    check "Slurm: a model waits to be cancelled" until_true 60 test -s "$T/hold/three.pid"
    check "Slurm: the others are done" until_true 60 both_done "$T/cancelled"
    scancel "$(squeue -h -o %F -t running | sort -n | tail -n 1)"
    wait $pid
    check_text "$? $(statuses)" "1 done done failed failed " "Slurm: a cancelled array"
    release three
    fleet "$T/cancelled" -j 4 --slurm
    check_text "$? $(statuses)" "1 kept kept done failed " "Slurm: resumed after it was cancelled"

    # ---- the two that take a minute
    wait $limit
    check_text "$? $(row four)" "1 failed" "Slurm: a time limit"
    release four
    alone four --time=1
    wait $alone
    check_text "$? $(row four)" "0 done" "Slurm: resumed after a time limit"
    wait $again
    check_text "$? $(row five)" "0 done" "Slurm: another try after a node has failed"
}
row() { awk -F '\t' 'NR == 2 { print $2 }' "$T/$1.tsv"; } # the status of a model that is alone
nodes_up() { [ "$(sinfo -h -N -o %T | grep -cx -e idle -e mixed -e allocated)" = 2 ]; }
array_ended() { [ -z "$(squeue -h -j "$1" 2> /dev/null)" ]; }

part=Slurm
if need munged slurmctld slurmd sbatch; then
    if [ "$(id -u)" != 0 ]; then skip "Slurm: needs root"
    elif ! start_slurm; then
        skip "Slurm does not start"
        tail -n 5 "$T"/munged.log "$T"/slurm*.log
    else
        slurm_runs=yes
        slurm_fleets
    fi
fi
