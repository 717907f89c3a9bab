# common.sh - functions shared by the scripts, which source this file with $tool and $lib
# set. It sets $room, the folder of what only this script needs. Lists are passed between them as lines
# without escaping, so paths with a newline or a tab are refused early.
# shellcheck shell=sh disable=SC2034,SC2154

LC_ALL=C # awk works on bytes, numbers have a decimal point, and sorting is the same everywhere
export LC_ALL
unset CDPATH

room=$lib/../${tool#organ-}
newline='
'
tab=$(printf '\t')

# A name in a message cannot act on a terminal.
warn() {
    case $* in
    *[[:cntrl:]]*) printf '%s: %s\n' "$tool" "$*" | tr '\000-\011\013-\037\177' '?' ;;
    *) printf '%s: %s\n' "$tool" "$*" ;;
    esac >&2
}
note() { [ -n "${quiet-}" ] || warn "$@"; }
die() { # STATUS MESSAGE...
    die_status=$1
    shift
    warn "$*"
    exit "$die_status"
}
usage() { die 2 "$*; see $tool --help"; }

whole_number() { # OPTION VALUE
    case $2 in
    '' | *[!0-9]*) usage "$1 $2: use a whole number" ;;
    esac
}

# Prints a count without its unit: 100k is 100000.
thousands() { # OPTION VALUE
    case ${2%[kKmMgG]} in
    '' | *[!0-9]*) usage "$1 $2: use a whole number, such as 5000, 100k or 2M" ;;
    esac
    case $2 in
    *[kK]) echo "${2%?}000" ;;
    *[mM]) echo "${2%?}000000" ;;
    *[gG]) echo "${2%?}000000000" ;;
    *) echo "$2" ;;
    esac
}

# Suggests the word of stdin that was probably meant: " (did you mean 'WORD'?)", or nothing.
meant() { # WORD
    tr '\n' ' ' | awk -v known_from=stdin -v given="f$1" -v most=3 -f "$lib/nearest.awk" | sed "s/.*/ (did you mean '&'?)/"
}

# A usage error that names the option of the help text that was probably meant.
unknown_option() { # OPTION
    usage "unknown option '$1'$(help | tr -cs 'a-z-' '\n' | grep -e '^--[a-z]' | meant "${1%%=*}")"
}

# The folder of the binaries: $ORGAN_BIN, beside the script, a build tree, PATH.
find_tools() { # FOLDER-OF-SCRIPT
    for bin in "${ORGAN_BIN:-}" "$1" "$1/../build/bin" "$(dirname "$(command -v organ-measure || echo /)")"; do
        if [ -n "$bin" ] && [ -x "$bin/organ-measure" ] && [ -x "$bin/organ-extract" ]; then
            bin=$(cd "$bin" && pwd)
            return
        fi
    done
    die 4 "organ-measure and organ-extract were not found; run make, or set ORGAN_BIN to their folder"
}

# The folder of this suite's own engine: $ORGAN_ENGINE_DIR, the source tree or the installation.
find_harness() {
    harness=''
    for dir in "${ORGAN_ENGINE_DIR:-}" "$here/../tests/engine" "$here/../share/organ-suite/tests/engine" "$here/../share/organ-suite/engine"; do
        if [ -n "$dir" ] && [ -f "$dir/engine.mjs" ]; then
            harness=$(cd "$dir" && pwd)
            return
        fi
    done
}
# The path of organ-probe in $probe, if it was built; $ORGAN_PROBE names another one, or none.
find_probe() {
    probe=${ORGAN_PROBE-$bin/organ-probe}
    [ -n "$probe" ] && [ -x "$probe" ] || probe=''
}
have_harness() { [ -n "$harness" ] && [ -d "$harness/node_modules" ] && command -v node >/dev/null 2>&1; }

print_version() { "$bin/organ-measure" --version | sed "s/^organ-measure/$tool/"; }

# A shell handles signals only after its foreground command has ended. So tools that may
# take long run in the background.
child=''
run_tool() { # COMMAND...
    child=starting before=${!-}
    "$@" &
    child=$!
    wait "$child"
    tool_status=$?
    child=''
    return $tool_status
}
stop_tool() { # EXIT-STATUS: for a trap
    trap '' HUP INT TERM
    # A signal may come after the tool was started and before its number is in $child.
    if [ "$child" = starting ]; then child=${!-}; [ "$child" != "$before" ] || child=''; fi
    [ -z "$child" ] || { kill "$child" && wait "$child"; } 2>/dev/null
    exit "$1"
}

# The time, with fractions of a second if date supports them.
now() {
    clock=$(date +%s.%N)
    case $clock in
    *N*) date +%s ;;
    *) printf '%s\n' "$clock" ;;
    esac
}
elapsed() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.2f\n", (b > a ? b - a : 0) }'; }
today() { date -u +%Y-%m-%dT%H:%M:%SZ; }
processors() { getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1; }

# A tenth of a second, where sleep takes fractions.
sleep_briefly() { sleep 0.1 2>/dev/null || sleep 1; }

# Makes a folder for temporary files in FOLDER, by default in that of TMPDIR, and prints its path.
temporary_folder() { # [FOLDER]
    temporary_in=${1:-${TMPDIR:-/tmp}}
    mktemp -d "$temporary_in/$tool.XXXXXX" 2>/dev/null ||
        die 4 "cannot make a temporary folder in $temporary_in; set TMPDIR to a folder that can be written"
}

# Prints the path of a file without symbolic links. macOS before 12.3 has no readlink -f.
real_path() {
    real=$1 links=0
    while [ -h "$real" ] && [ $links -lt 40 ]; do
        link=$(readlink "$real") links=$((links + 1))
        case $link in
        /*) real=$link ;;
        *) case $real in */*) real=${real%/*}/$link ;; *) real=$link ;; esac ;;
        esac
    done
    real_folder=$(cd "$(dirname "$real")" 2>/dev/null && pwd -P) && printf '%s\n' "$real_folder/${real##*/}"
}

absolute() {
    case $1 in
    /*) printf '%s\n' "$1" ;;
    *) printf '%s\n' "$PWD/$1" ;;
    esac
}

# The token of Hugging Face in the language of curl's configuration; only for requests to $HF_ENDPOINT.
token_header() {
    case ${HF_TOKEN:-} in
    '' | *[!A-Za-z0-9._-]*) ;;
    *) printf 'header = "Authorization: Bearer %s"\n' "$HF_TOKEN" ;;
    esac
}

# Lists every file of the model whose first shard, only file or folder is $1.
model_files() {
    case $1 in
    *-00001-of-[0-9][0-9][0-9][0-9][0-9].gguf)
        model_stem=${1%-00001-of-?????.gguf}
        model_count=${1%.gguf}
        model_count=${model_count##*-of-}
        # A leading zero would mean an octal number to the awk of busybox.
        awk -v n="1$model_count" 'BEGIN { for (i = 1; i <= n - 100000; i++) printf "%05d\n", i }' |
            while read -r model_i; do printf '%s\n' "$model_stem-$model_i-of-$model_count.gguf"; done
        ;;
    *) printf '%s\n' "$1" ;;
    esac
}

is_url() {
    case $1 in
    http://* | https://*) return 0 ;;
    *) return 1 ;;
    esac
}
# Prints the path or the URL of a name of organ-models, such as ollama:NAME. Anything else is printed unchanged.
named() { # NAME
    case $1 in
    hf:* | ollama:*) [ -e "$1" ] || { "$here/organ-models" --resolve "$1"; return; } ;;
    esac
    printf '%s\n' "$1"
}
# A path, or a URL without what may be secret in it.
shown() {
    case $1 in
    *[?#]* | *//*@*) if is_url "$1"; then printf '%s\n' "$1" | sed 's|[?#].*||; s|//[^/]*@|//|'; else printf '%s\n' "$1"; fi ;;
    *) printf '%s\n' "$1" ;;
    esac
}

# Prints the size of a model's files, or of an organ directory's tensors, in bytes.
model_bytes() {
    if [ -d "$1" ]; then
        "$bin/organ-extract" --list -- "$1" 2>/dev/null | awk -F '\t' 'NR > 1 { n += $8 } END { printf "%.0f\n", n }'
        return
    fi
    model_files "$1" | while IFS= read -r model_file; do
        if [ -f "$model_file" ] && [ -r "$model_file" ]; then wc -c <"$model_file"; fi
    done | awk '{ n += $1 } END { printf "%.0f\n", n }'
}

# True if a file of model $1 is newer than $2, or missing. The age of a URL is not known.
model_newer() {
    ! is_url "$1" || return 1
    if [ -d "$1" ]; then
        [ -n "$(find -H "$1" -newer "$2" 2>/dev/null | head -n 1)" ]
        return
    fi
    model_files "$1" | while IFS= read -r model_file; do
        [ -f "$model_file" ] || echo gone
        find -L "$model_file" -newer "$2" 2>/dev/null
    done | grep -q .
}

# Prints lines of a table from stdin: in columns of these widths, the negative ones to the left, if
# $aligned is not empty, else unchanged. Scripts set it if stdout is a terminal.
columns() { # WIDTH...
    [ -n "${aligned-}" ] || { cat; return; }
    awk -F '\t' -v widths="$*" '
        BEGIN { split(widths, width, " ") }
        {
            for (i = 1; i <= NF; i++) {
                text = width[i] > 0 && $i ~ /^-?[0-9]+[.][0-9][0-9][0-9][0-9]+(e[-+]?[0-9]+)?$/ ? sprintf("%.4g", $i) : $i
                line = (i > 1 ? line "  " : "") sprintf("%" width[i] "s", text)
            }
            print line
        }'
}

# The classes of tensors in their order. Needs find_tools before.
class_words() { "$bin/organ-extract" --list-classes | sed 1d | cut -f 1 | tr '\n' ' '; }

# Converts JSON Lines of organ-measure to its table. Needs find_tools before.
to_tsv() {
    measure_columns=$("$bin/organ-measure" --list-columns | sed 1d | cut -f 1 | tr '\n' ' ') && [ "$measure_columns" ] &&
        awk -v columns="$measure_columns" -f "$lib/json.awk" -f "$lib/rows.awk" -f "$lib/to-tsv.awk" "$@"
}

# Removes scratch folders (.run-PID) in $1 whose run was killed, and unfinished files (put_file). Folders
# are renamed first, so that a worker that outlives its run adds no file while its folder is removed.
sweep_runs() {
    for old_run in "$1"/.run-*; do
        [ -d "$old_run" ] || continue
        kill -0 "${old_run##*-}" 2>/dev/null && continue
        mv "$old_run" "$1/.run-gone-${old_run##*-}" 2>/dev/null
        rm -rf "$1/.run-gone-${old_run##*-}"
    done
    for old_run in "$1"/*.tmp.[0-9]*; do
        kill -0 "${old_run##*.}" 2>/dev/null || rm -f "$old_run"
    done
}

# Writes a command's stdout to a file, which appears only if the command succeeds.
put_file() { # FILE COMMAND...
    put_to=$1
    shift
    if "$@" >"$put_to.tmp.$$" && mv -f "$put_to.tmp.$$" "$put_to"; then return 0; fi
    rm -f "$put_to.tmp.$$"
    return 1
}

# Prints the last error line of a tool, without a repeated "tool: ".
last_line() { tail -n 1 "$1" 2>/dev/null | tr '\t' ' '; }
