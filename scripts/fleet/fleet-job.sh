# fleet-job.sh - what organ-fleet does with one model: job RUN-FOLDER NUMBER. Sourced by organ-fleet.
# shellcheck shell=sh disable=SC2034,SC2154 # names shared with organ-fleet and common.sh

read_settings() {
    while IFS=$tab read -r key value; do
        case $key in verb | out | bin | here | curlrc | sample | spectral | threads | force | json | quiet | far | total | aligned) eval "$key=\$value" ;; esac
    done
}

model_name() { printf '%s\n' "$1" | sed 's,%2F,/,g'; } # of a folder in models/

# Is there a result of STEP for the present model and options?
fresh() { # STEP RESULT
    [ -z "$force" ] && [ -e "$2" ] && [ -f "$model_dir/$1.done" ] || return 1
    [ "$(head -n 1 "$model_dir/$1.done")" = "$made_from" ] || return 1
    if model_newer "$source" "$model_dir/$1.done"; then return 1; fi
}

begin() { # STEP: discard the old result and record the start of the new one
    [ ! -e "$model_dir/$1.done" ] || rm -f "$model_dir/$1.done"
    printf '%s\n' "$made_from" >"$scratch/$1.done" || return 1
    started=$(now)
}

# Exits if this run was stopped, or was killed and a later run has removed its folder.
wanted() { if [ ! -d "$run" ] || [ -e "$run/stop" ]; then exit 0; fi; }

# Runs a tool in the background, as run_tool does. Signals do not reach other hosts, so there the
# tool is stopped when the folder of the run tells so.
run_step() { # COMMAND...
    if [ -z "$far" ]; then
        run_tool "$@"
        return
    fi
    "$@" &
    child=$!
    (while kill -0 "$child" && [ -d "$run" ] && [ ! -e "$run/stop" ]; do sleep 1; done; kill "$child") </dev/null >/dev/null 2>&1 &
    watcher=$!
    wait "$child"
    tool_status=$?
    child=''
    kill "$watcher" 2>/dev/null
    wait "$watcher" 2>/dev/null
    return $tool_status
}

# Of a model behind a URL, organ-remote fetches what the tool needs.
run_on_model() { # COMMAND...
    if is_url "$source"; then set -- "$here/organ-remote" -q ${curlrc:+--curl "$curlrc"} "$@"; fi
    run_step "$@"
}

# STEP.done has the date of the step's start; writing the results must not change it.
finish() { # STEP RESULT...
    step=$1
    shift
    seconds=$(elapsed "$started")
    wanted
    for result; do
        case $result in *.svg | histogram.jsonl) [ -f "$scratch/$result" ] || continue ;; esac # a model without tensors has none
        mv -f "$scratch/$result" "$model_dir/$result" || return 1
    done
    printf '%s\n' "$seconds" >"$model_dir/$step.seconds" && mv -f "$scratch/$step.done" "$model_dir/$step.done"
}

failed() { # TOOL: record its last error line
    error=$(last_line "$scratch/errors")
    wanted
    printf '%s\n' "${error:-$1: failed without an error message}" >"$model_dir/error"
    return 1
}

dissect() {
    made_from="$bytes"
    if fresh dissect "$model_dir/organs/manifest.json" && [ -f "$model_dir/organs.jsonl" ]; then return 0; fi
    begin dissect || return 1
    status='done'
    run_step "$bin/organ-extract" -q --force -j "$threads" --output "$model_dir/organs" -- "$source" 2>"$scratch/errors" &&
        run_step "$bin/organ-extract" -q --list --json -- "$model_dir/organs" >"$scratch/organs.jsonl" 2>"$scratch/errors" &&
        finish dissect organs.jsonl && return 0
    failed organ-extract
}

# Measures organs that were just extracted, writing the measures into their manifest too;
# otherwise measures the model itself, which is not changed.
measure() { # MODEL [--update]
    made_from="$bytes sample $sample${spectral:+ spectral}"
    if fresh measure "$model_dir/measures.jsonl" && [ -f "$model_dir/measures.tsv" ] && [ "$status" = kept ]; then return 0; fi
    begin measure || return 1
    rm -f "$model_dir/measures.jsonl" "$model_dir/measures.tsv"
    status='done'
    run_on_model "$bin/organ-measure" -q --json --sample "$sample" -j "$threads" --force --svg "$scratch/anatomy.svg" --histogram "$scratch/histogram.jsonl" ${spectral:+--spectral} ${2:+"$2"} -- "$1" \
        >"$scratch/measures.jsonl" 2>"$scratch/errors" &&
        to_tsv "$scratch/measures.jsonl" >"$scratch/measures.tsv" &&
        finish measure anatomy.svg histogram.jsonl measures.tsv measures.jsonl && return 0
    failed organ-measure
}

# The tools accept a single shard with a note. Refuse it here, because the ranking would
# compare a part of a model with whole models.
whole() {
    if is_url "$source"; then
        [ "$verb" = dissect ] || [ -n "$spectral" ] || return 0
        printf '%s\n' "organ-fleet: $(shown "$source"): all of its bytes are needed; download it" >"$model_dir/error"
        return 1
    fi
    case $source in
    *-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9].gguf) ;;
    *) return 0 ;;
    esac
    stem=${source%.gguf}
    count=${stem##*-of-}
    stem=${stem%-?????-of-?????}
    shard=1
    while [ "$shard" -le "$(expr "$count" + 0)" ]; do
        shard_file=$(printf '%s-%05d-of-%s.gguf' "$stem" "$shard" "$count")
        if [ ! -e "$shard_file" ]; then
            wanted
            printf '%s\n' "organ-fleet: $shard_file: this shard of the model is missing; copy it beside the others" >"$model_dir/error"
            return 1
        fi
        shard=$((shard + 1))
    done
}

# What the model is, for the report. Not a step of its own: it reads only the header.
inform() {
    if [ -z "$force" ] && [ -f "$model_dir/info.tsv" ] && ! model_newer "$source" "$model_dir/info.tsv"; then return; fi
    if run_on_model "$bin/organ-info" -q --table -- "$source" >"$scratch/info.tsv" 2>/dev/null; then mv -f "$scratch/info.tsv" "$model_dir/info.tsv"; fi
}

steps() {
    whole || return 1
    inform
    # The size of a model behind a URL is that of its tensors.
    ! is_url "$source" || bytes=$(awk -F '\t' 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "bytes") at = i } END { print at ? $at : 0 }' "$model_dir/info.tsv" 2>/dev/null)
    case $verb in
    dissect) dissect ;;
    measure) measure "$source" ;;
    pipeline)
        if [ -d "$source" ] || is_url "$source"; then measure "$source"; else dissect && measure "$model_dir/organs" --update; fi
        ;;
    esac
}

model_columns() { columns "-$aligned" -6 12 8 8 7 6 10; }
# One line about the model in this run.
job_line() {
    awk -F '\t' -v status="$status" -v bytes="$bytes" -v seconds="$took" -v json="$json" \
        -f "$lib/json.awk" -f "$lib/rows.awk" -f "$room/fleet-line.awk" "$1" | model_columns
}

# Removes what runs that have ended left unfinished, but nothing of a running one.
sweep_model() {
    for old_scratch in "$model_dir"/.run-*; do
        if [ -d "$old_scratch" ] && [ ! -d "$out/${old_scratch##*/}" ]; then rm -rf "$old_scratch"; fi
    done
    for old_scratch in "$model_dir"/.run-*; do [ -d "$old_scratch" ] && return; done
    find "$model_dir" ! -path "$model_dir" -prune \( -name '*.tmp' -o -name '*.tmp.*' -o -name 'organs.*' ! -name organs.jsonl \) -exec rm -rf {} +
}

# Adds a line to the file of ORGAN_PROGRESS, as the tools do for one model: bytes of the
# models that have ended, and of all.
tell_progress() {
    [ -n "$tell" ] || return 0
    echo "$bytes" >>"$run/bytes-done"
    awk -v total="$total" '{ n += $1 } END { printf "%020.0f %020.0f\n", n, total }' "$run/bytes-done" >&"$tell"
}

# Passes on what the job has said, unless its run was stopped or killed.
pass_on() { # NUMBER
    if [ -e "$run/stop" ] || [ ! -s "$run/said-$1" ]; then return; fi
    clear_progress 2>&9
    cat "$run/said-$1" 2>/dev/null >&9
}

job() { # RUN-FOLDER NUMBER: stderr is RUN-FOLDER/said-NUMBER, and descriptor 9 is that of the fleet
    run=$1 number=$2
    line=$(sed -n "$2p" "$run/jobs" 2>/dev/null)
    if [ -z "$line" ] || [ -e "$run/stop" ]; then exit 0; fi
    { read_settings <"$run/settings"; } 2>/dev/null || exit 0 # removed in the meantime
    case ${ORGAN_PROGRESS-} in [3-8]) tell=$ORGAN_PROGRESS ;; *) tell='' ;; esac
    unset ORGAN_PROGRESS
    name=${line%%"$tab"*} source=${line#*"$tab"}
    model_dir=$out/models/$name scratch=$out/models/$name/${run##*/}
    export name source
    trap 'pass_on "$number"; rm -rf "$scratch"; [ -n "$far" ] || rm -f "$run/pid-$$"' EXIT
    trap 'stop_tool 143' HUP INT TERM
    [ -n "$far" ] || { echo >"$run/pid-$$"; } 2>/dev/null || exit 0
    if [ -e "$run/stop" ]; then exit 0; fi
    { echo >"$run/begun-$2"; } 2>/dev/null || exit 0
    [ -d "$model_dir" ] || mkdir -p "$model_dir" || exit 4
    [ ! -e "$scratch" ] || rm -rf "$scratch"
    sweep_model
    mkdir "$scratch" || exit 4
    status=kept job_start=$(now) bytes=$(model_bytes "$source")
    [ ! -e "$model_dir/error" ] || rm -f "$model_dir/error"
    if ! steps; then
        status=failed
        warn "$(model_name "$name"): $(cat "$model_dir/error" 2>/dev/null)"
    fi
    took=$(elapsed "$job_start")
    wanted
    printf '%s\n' "$status" >"$model_dir/status"
    printf '%s\n' "$bytes" >"$model_dir/bytes"
    rows=$model_dir/measures.jsonl
    [ -f "$rows" ] || rows=/dev/null
    clear_progress 2>&9
    job_line "$rows"
    { printf '%s\t%s\n' "$status" "$bytes" >"$run/ran-$2"; } 2>/dev/null
    tell_progress
    exit 0
}
