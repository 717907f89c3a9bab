#!/bin/sh
# shellcheck disable=SC1091
# folders.sh - a folder as the output means a file in it with the name of the source, in every tool that writes
# a model.
. "$(dirname "$0")/lib.sh"
V=$LAB/lab-verse-q4_k_m.gguf C=$LAB/lab-code-q4_k_m.gguf
mkdir "$T/to" "$T/in"
organ-assemble -q "$V" -o "$T/in/split.gguf" --shards 2
organ-extract -q "$V" -o "$T/in/organs"
n=0
# into NAME TOOL ARGUMENT...: the tool writes to/NAME, and the same as when it is named.
into() {
    name=$1 n=$((n + 1))
    shift
    mkdir "$T/to/$n"
    check "$*: named" "$@" -q -o "$T/want$n"
    case $n in *[13579]) folder=$T/to/$n ;; *) folder=$T/to/$n/ ;; esac
    check "$*: a folder" "$@" -q -o "$folder"
    check_text "$(ls "$T/to/$n")" "$name" "$*: the name of the source"
    if [ -d "$T/want$n" ]; then
        check_text "$(organ-compare -q "$T/want$n" "$T/to/$n/$name" > "$T/rows" && echo same)" same \
            "$*: the same folder"
    else check_same "$T/to/$n/$name" "$T/want$n" "$*: the same file"; fi
}
into lab-verse-q4_k_m.gguf organ-assemble "$V"
into split.gguf organ-assemble "$T/in/split-00001-of-00002.gguf"
into organs.gguf organ-assemble "$T/in/organs"
into organs.gguf organ-assemble "$T/in/organs/"
into lab-verse-q4_k_m.gguf organ-keys "$V" --set general.name=x
into lab-verse-q4_k_m.gguf organ-transplant "$V" "$C" --type ffn
into lab-verse-q4_k_m.gguf organ-merge "$V" "$C"
into lab-verse-q4_k_m.gguf organ-stack --drop 1 "$V"
into lab-verse-q4_k_m.gguf organ-purify "$V"
into organs organ-purify "$T/in/organs"

# What cannot be named is refused before any work, and nothing is replaced without --force.
check_exit 2 "a folder that is not there" organ-assemble "$V" -o "$T/none/"
check_text "$(grep -c 'there is no such folder: make it, or name a file' "$T/err")" 1 "what to do"
check_exit 2 "stdin has no name" sh -c "organ-assemble - -o '$T/to' < '$V'"
check_text "$(grep -c 'is a folder: name the file in it' "$T/err")" 1 "what to do"
cp "$V" "$T/in"
check_exit 2 "the folder of the source" organ-assemble "$T/in/lab-verse-q4_k_m.gguf" -o "$T/in" --force
check_same "$T/in/lab-verse-q4_k_m.gguf" "$V" "the source"
check_exit 2 "a file that exists" organ-assemble "$V" -o "$T/to/1"
check "it is replaced" organ-assemble -q "$V" -o "$T/to/1" --force
# An organ directory is an output of its own.
check_exit 2 "an organ directory" organ-purify -q "$T/in/organs" -o "$T/to/10/organs"
check "which can be replaced" organ-purify -q "$T/in/organs" -o "$T/to/10/organs" --force

# A file or folder that replaces another one keeps that mode and owner: models, shards, folders, and a manifest that
# gets measures.
mode() { ls -ld "$1" | cut -c 1-10; }
FILES='600:rw------- 640:rw-r----- 755:rwxr-xr-x 666:rw-rw-rw- 400:r--------'
FOLDERS='700:rwx------ 750:rwxr-x--- 777:rwxrwxrwx 500:r-x------'
keeps() { # MODES NAME TOOL ARGUMENT...: with each mode, whatever the umask is
    keeps_modes=$1 keeps_name=$2
    shift 2
    for m in $keeps_modes; do
        # A folder without the right to write can only be emptied by root.
        [ "$m" != 500:r-x------ ] || [ "$(id -u)" = 0 ] || continue
        chmod "${m%%:*}" "$keeps_name"
        check "$* $m" "$@"
        check_text "$(mode "$keeps_name" | cut -c 2-)" "${m#*:}" "$* keeps the mode"
    done
    if [ "$(id -u)" = 0 ] && have chown && chown 12345:23456 "$keeps_name" 2> /dev/null; then
        check "$* owner" "$@"
        # shellcheck disable=SC2012
        check_text "$(ls -ldn "$keeps_name" | awk '{ print $3, $4 }')" "12345 23456" "$* keeps the owner"
    fi
}
umask 027
organ-assemble -q "$V" -o "$T/new.gguf"
check_text "$(mode "$T/new.gguf")" -rw-r----- "a new file has the mode of the umask"
keeps "$FILES" "$T/new.gguf" organ-assemble -q "$V" -o "$T/new.gguf" --force
organ-assemble -q "$V" -o "$T/s.gguf" --shards 2
keeps "$FILES" "$T/s-00002-of-00002.gguf" organ-assemble -q "$V" -o "$T/s.gguf" --shards 2 --force
organ-extract -q "$V" -o "$T/d.organs"
keeps "$FOLDERS" "$T/d.organs" organ-extract -q "$V" -o "$T/d.organs" --force
mkdir -p "$T/empty"
chmod 711 "$T/empty"
check "an empty folder" organ-extract -q "$V" -o "$T/empty"
check_text "$(mode "$T/empty")" drwx--x--x "the mode of an empty folder"
keeps "$FILES" "$T/d.organs/manifest.json" organ-measure -q --update "$T/d.organs"
# Times are those of the new content, as with cp.
for out in "$T/new.gguf" "$T/d.organs"; do
    touch -t 200001010000 "$out"
    case $out in *.gguf) tool=organ-assemble ;; *) tool=organ-extract ;; esac
    check "$tool --force over an old output" $tool -q "$V" -o "$out" --force
    check_text "$(find "$out" -prune -newer "$T/empty/manifest.json")" "$out" "$tool: the time of what replaces"
done
# A user who may keep neither owner nor group: the file is the user's, and the new group may do only what all may.
user='setpriv --reuid 65534 --regid 65534 --clear-groups'
if [ "$(id -u)" = 0 ] && have setpriv "outputs of another user" && chmod 711 "$T" && mkdir -m 777 "$T/open" &&
    cp "$V" "$T/open/in.gguf" && chmod 644 "$T/open/in.gguf" && $user test -x "$BIN/organ-assemble"; then
    for m in '664 -rw-r--r--' '660 -rw-------' '644 -rw-r--r--' '674 -rw-r--r--' '646 -rw-r--rw-'; do
        rm -f "$T/open/out.gguf"
        cp "$V" "$T/open/out.gguf"
        chmod "${m%% *}" "$T/open/out.gguf"
        chown 12345:23456 "$T/open/out.gguf"
        check "another user's file, $m" $user "$BIN/organ-assemble" -q "$T/open/in.gguf" -o "$T/open/out.gguf" --force
        # shellcheck disable=SC2012
        check_text "$(ls -ln "$T/open/out.gguf" | awk '{ print substr($1, 1, 10), $3, $4 }')" "${m#* } 65534 65534" \
            "another user's file, $m"
    done
fi
finish
