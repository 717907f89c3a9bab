# engine.sh - perplexities by an engine, for the scripts that tune on texts. They have sourced
# common.sh, and have set $engine (--engine) or $batch (--engine-batch), $measure (loss or kl) with the
# $reference and $precision of kl, and the scratch folder $T.
# shellcheck shell=sh disable=SC2034,SC2154

# For awk programs, because Debian's busybox has no log: v = 2^k w with w in [1, 2), and
# ln w = 2 artanh((w - 1) / (w + 1)).
natural_log='function natural_log(v,   k, z, power, sum, i) {
    if (!(v > 0 && v < 1e300)) return 0
    for (; v >= 2; k++) v /= 2
    for (; v < 1; k--) v *= 2
    z = (v - 1) / (v + 1)
    power = z
    for (i = 1; i < 40; i += 2) { sum += power / i; power *= z * z }
    return k * 0.69314718055994531 + 2 * sum
}'

# Sets $probe or $harness, unless an engine was given.
find_engine() {
    probe=''
    [ -z "$engine$batch" ] || { [ "$measure" = loss ] || [ -n "$batch" ] || usage "--measure kl needs organ-probe or --engine-batch"; return; }
    find_probe
    [ -z "$probe" ] || return 0
    [ "$measure" = loss ] || die 4 "--measure kl needs organ-probe, which make probe builds: see organ-probe(1)"
    find_harness
    have_harness || die 4 "no engine found: build organ-probe, give --engine, or install Node.js and run ${harness:-tests/engine}/install.sh"
}

engine_pid=''
start_engine() {
    mkfifo "$T/jobs.pipe" "$T/answers.pipe" || die 4 "cannot make a pipe in $T"
    if [ -n "$batch" ]; then sh -c "$batch" < "$T/jobs.pipe" > "$T/answers.pipe" 2> "$T/engine.log" &
    elif [ -n "$probe" ]; then
        "$probe" -q ${threads:+-j "$threads"} --batch ${reference:+--against "$reference"} ${precision:+--precision "$precision"} < "$T/jobs.pipe" > "$T/answers.pipe" 2> "$T/engine.log" &
    else node "$harness/engine.mjs" batch < "$T/jobs.pipe" > "$T/answers.pipe" 2> "$T/engine.log" &
    fi
    engine_pid=$!
    exec 3> "$T/jobs.pipe" 4< "$T/answers.pipe"
}
stop_engine() { [ -z "$engine_pid" ] || kill "$engine_pid" 2> /dev/null; }

# Writes the perplexity of each text, or its divergence, to $T/numbers, one per line. organ-probe also
# measures the model with one tensor from a donor.
perplexities() { # TEXTS-FILE, whose third column names the texts; MODEL; [TENSOR DONOR]
    : > "$T/numbers"
    if [ -n "$engine" ]; then
        set -- "$1" "$2"
        while IFS=$tab read -r use weight file; do set -- "$@" "$file"; done < "$1"
        shift
        run_tool sh -c "$engine \"\$@\"" sh "$@" > "$T/numbers" 2> "$T/log" < /dev/null
        return
    fi
    [ -n "$engine_pid" ] || start_engine
    case $measure in kl) request=kl ;; *) request=ppl ;; esac
    while IFS=$tab read -r use weight file; do
        (printf '%s\t%s\t%s%s\n' $request "$2" "$file" "${3:+$tab$3$tab$4}" >&3) || return 1 # an engine that ended must not end this shell
        answer=''
        IFS= read -r answer <&4 || return 1
        printf '%s\n' "$answer" | awk -F '\t' '{ print ($3 == "error" ? $4 : $3) }' >> "$T/numbers"
    done < "$1" 2>> "$T/engine.log"
}

# Why the last command failed, in one line.
engine_reason() {
    why=$(grep -v -e '^make.*: \*\*\*' -e '^$' "$T/log" "$T/engine.log" 2> /dev/null | tail -n 1 | sed 's/^[^:]*://')
    printf '%s\n' "${why:-it gave no reason}"
}
