#!/bin/sh
# A release that is signed with minisign: the commands of docs/security.md, and what they notice.
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"
page=$PWD/docs/security.md

# command_with TEXT: the line of the page that has it
command_with() { awk -v text="$1" '/^    / && index($0, text) { print substr($0, 5); exit }' "$page"; }
# run WHAT TEXT: that command, in the folder of the release
run() {
    command_with "$2" > "$T/command"
    check "the page has '$2'" test -s "$T/command"
    check "$1" in_release
}
in_release() { (cd "$T/release" && sh -e "$T/command" < /dev/null); }

mkdir "$T/release"
cp $LAB/lab-verse-q4_k_m.gguf "$T/release/model.gguf"
run "the list of a release is written" 'organ-check --hash model.gguf'
check "the model is the one of the list" organ-check --verify "$T/release/model.hashes.tsv" "$T/release/model.gguf"

have minisign "signatures of releases" || finish
# The page lets it ask for a password.
check "keys are made" minisign -G -W -p "$T/release/organ.pub" -s "$T/release/organ.key"
run "the list is signed" 'minisign -S'
rm "$T/release/organ.key"
run "a user verifies the release" 'minisign -V'

cp "$T/release/model.gguf" "$T/good.gguf"
cp "$T/release/model.hashes.tsv" "$T/good.tsv"
printf x | dd of="$T/release/model.gguf" bs=1 seek=1500000 conv=notrunc 2> /dev/null
check_exit 1 "a changed model is noticed" in_release
organ-check --hash "$T/release/model.gguf" > "$T/release/model.hashes.tsv"
check_exit 1 "and a list that was made for it" in_release
in_release > "$T/log" 2>&1
check "by the signature" grep -q 'Signature verification failed' "$T/log"
cp "$T/good.gguf" "$T/release/model.gguf"
cp "$T/good.tsv" "$T/release/model.hashes.tsv"
check "the release itself" in_release
minisign -G -W -p "$T/release/organ.pub" -s "$T/other.key" > "$T/log" 2>&1 ||
    minisign -G -f -W -p "$T/release/organ.pub" -s "$T/other.key" > "$T/log" 2>&1
check_exit 1 "another key is noticed" in_release
finish
