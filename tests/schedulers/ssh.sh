# ssh.sh - part of run.sh: fleets on two hosts, which are names of this machine in the
# configuration of ssh, by GNU parallel and an sshd of the test's own.
# shellcheck disable=SC2034,SC2154 # variables of run.sh

start_sshd() {
    free_port
    mkdir "$T/ssh"
    chmod 700 "$T/ssh"
    ssh-keygen -q -t ed25519 -N '' -f "$T/ssh/host" && ssh-keygen -q -t ed25519 -N '' -f "$T/ssh/user" || return 1
    [ "$(id -u)" != 0 ] || mkdir -p /run/sshd # where sshd of Debian has no privileges
    cat > "$T/ssh/sshd_config" << END
Port $port
ListenAddress 127.0.0.1
HostKey $T/ssh/host
AuthorizedKeysFile $T/ssh/user.pub
PidFile $T/sshd.pid
StrictModes no
PasswordAuthentication no
UsePAM no
PermitRootLogin prohibit-password
PermitUserEnvironment no
MaxStartups 100
END
    cat > "$T/ssh/config" << END
Host host1 host2
    HostName 127.0.0.1
    Port $port
    IdentityFile $T/ssh/user
    IdentitiesOnly yes
    UserKnownHostsFile $T/ssh/known
    StrictHostKeyChecking accept-new
    BatchMode yes
    LogLevel ERROR
END
    PARALLEL_SSH="ssh -F $T/ssh/config"
    export PARALLEL_SSH
    # The program is started by its whole path, which it needs to start itself again.
    "$(command -v sshd)" -f "$T/ssh/sshd_config" -E "$T/sshd.log" && until_true 20 on_host host1 true
}
on_host() { $PARALLEL_SSH "$@" < /dev/null; }

ssh_fleets() {
    fleet "$T/ssh1" -j 2 --sshlogin host1,host2
    check_text "$? $(statuses)" "1 done done done failed " "ssh: a fleet with a broken model"
    check "ssh: the rows are those of organ-measure" same_rows "$T/ssh1"
    check "ssh: why it failed" grep -q '^organ-fleet: broken: organ-measure: .*GGUF' "$T/fleet.err"
    check "ssh: the host took part" grep -q 'Accepted publickey' "$T/sshd.log"

    hold three
    begin "$T/ssh2" -j 2 --sshlogin host1,host2
    check "ssh: a model is at work" until_true 60 test -s "$T/hold/three.pid"
    check "ssh: the others are done" until_true 60 both_done "$T/ssh2"
    held=$(cat "$T/hold/three.pid")
    kill -INT $pid
    wait $pid
    check_text $? 130 "ssh: interrupted"
    check "ssh: its tools end" until_true 20 gone "$held"
    check_text "$(find "$T/ssh2" -name '.run-*')" "" "ssh: nothing stays"
    release three
    fleet "$T/ssh2" -j 2 --sshlogin host1,host2
    check_text "$? $(statuses)" "1 kept kept done failed " "ssh: resumed"

    hold three
    begin "$T/ssh3" -j 2 --sshlogin host1
    check "ssh: a model is at work on a host" until_true 60 test -s "$T/hold/three.pid"
    check "ssh: the others are done there" until_true 60 both_done "$T/ssh3"
    # shellcheck disable=SC2046 # several numbers
    kill -9 $(above sshd "$(cat "$T/hold/three.pid")") # the host fails
    release three
    wait $pid
    check_text "$? $(statuses)" "1 done done failed failed " "ssh: a host fails"
    check "ssh: what happened to the model" grep -q '^organ-fleet: three: the worker of this model ended early' \
        "$T/fleet.err"
    fleet "$T/ssh3" -j 2 --sshlogin host1
    check_text "$? $(statuses)" "1 kept kept done failed " "ssh: the next run does it again"
}
gone() { ! kill -0 "$1"; }

part=ssh
if need sshd ssh ssh-keygen parallel; then
    if start_sshd; then
        ssh_fleets
    else
        bad "sshd does not start"
        tail -n 5 "$T/sshd.log" "$T/until"
    fi
fi
