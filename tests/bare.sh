#!/bin/sh
# bare.sh [SUITE...] - run the README's commands as a newcomer would, in a minimal Debian that has gcc,
# libc6-dev and make and nothing else, as an ordinary user whose environment is empty but for PATH.
#
# Needs root, mmdebstrap and git. SUITE is bookworm (Debian 12) or trixie (13), or both at once if none is given.
# The mirror is the one that apt has here, and the last commit is tested. If a root cannot be made, that is
# a failure. LOGS=DIR keeps the logs (build/bare-logs).
set -u
cd "$(dirname "$0")/.." || exit 1
LOGS=${LOGS:-build/bare-logs}
export LOGS
die() {
    echo "bare.sh: $*" >&2
    exit 1
}

# Each suite is a process of its own, in a session of its own so that an interrupt can end all of it.
if [ $# != 1 ]; then
    [ $# -gt 0 ] || set -- bookworm trixie
    pids=''
    trap 'for pid in $pids; do kill -s TERM -- "-$pid"; done; wait; exit 130' INT TERM HUP
    for suite; do
        setsid sh tests/bare.sh "$suite" < /dev/null &
        pids="$pids $!"
    done
    failed=0
    for pid in $pids; do wait "$pid" || failed=1; done
    exit $failed
fi
suite=$1

[ "$(id -u)" = 0 ] || die "only root can make the root of a Debian; run it with sudo"
for program in mmdebstrap git; do
    command -v $program > /dev/null 2>&1 || die "$program is not installed"
done
T=$(mktemp -d "${TMPDIR:-/tmp}/bare.XXXXXX") || exit 1
trap 'rm -rf --one-file-system "$T"' EXIT
trap 'exit 130' INT TERM HUP
chmod 755 "$T"
root=$T/$suite
mkdir -p "$LOGS" || exit 1
log=$LOGS/$suite.log

make_root() {
    # The mirror and the settings that apt has here. Without a mirror of Debian, mmdebstrap takes its own.
    # shellcheck disable=SC2016 # fields of apt
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(LABEL) $(COMPONENT)' 'Created-By: Packages' |
        awk '$2 == "Debian" && $3 == "main" { print $1; exit }')
    apt-config dump --no-empty Acquire::http Acquire::https Acquire::Retries Acquire::Check-Date \
        Acquire::Check-Valid-Until > "$T/apt.conf"
    mmdebstrap --variant=minbase --include=gcc,libc6-dev,make --aptopt="$T/apt.conf" "$suite" "$root" \
        ${mirror:+"$mirror"} &&
        chroot "$root" useradd --create-home newcomer &&
        git -c safe.directory="$PWD" archive --prefix=home/newcomer/suite/ HEAD | tar -x -f - -C "$root" &&
        chroot "$root" chown -R newcomer:newcomer /home/newcomer
}

# in_root COMMAND: with a /proc of its own, if this machine allows that.
in_root() {
    set -- chroot --userspec=newcomer:newcomer "$root" /usr/bin/env -i PATH=/usr/bin:/bin \
        sh -c "cd /home/newcomer/suite && $1"
    if unshare --mount --pid --fork --mount-proc="$root/proc" true 2> /dev/null; then
        unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" "$@" < /dev/null
    else "$@" < /dev/null
    fi
}

newcomer() {
    make_root || { echo "no root of $suite could be made"; return 1; }
    in_root 'gcc --version | head -n 1; awk -W version | head -n 1'
    sed -n '/^```/,/^```/d; /^## First commands/,/^## [^F]/s/^    //p' README.md > "$T/commands"
    while IFS= read -r command; do
        echo "README.md: $command"
        in_root "$command" || { echo "failed in $suite: $command"; return 1; }
    done < "$T/commands"
    [ -s "$T/commands" ]
}

if newcomer > "$log" 2>&1; then
    grep -E '^(I: success|gcc |mawk |README.md: |left out: |processor time: |tests: .*passed)' "$log" |
        sed "s/^/$suite: /"
else
    tail -n 100 "$log"
    exit 1
fi
