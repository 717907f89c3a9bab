#!/bin/sh
# check-layers.sh - checks that every #include of src/, include/ and tools/ follows the
# order of the layers in docs/architecture.md. Prints those that do not and exits 1.
#
#   base <- numeric, json, quant;  quant <- gguf;  gguf, json <- organ;
#   organ, numeric <- verbs;  verbs <- tools
#   within verbs: shared <- check <- plan <- organ_dir, compute <- each of the other rooms
#
# The tools include public headers (include/organ/). A private header of src/ is allowed
# where a comment on the same line justifies it. Public headers include only each other.
#
# It also checks that file names are unique in src/ (objects of kernels with the same name
# overwrite each other in an archive) and that no source includes a .c file. Headers that the build makes
# (options/NAME.h) are left out.
set -u
cd "$(dirname "$0")/.." || exit 2

status=0

grep -n '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' src/*/*.[ch] src/*/*/*.[ch] include/organ/*.h \
    tools/*.[ch] tools/*/*.[ch] |
awk -F '"' '
BEGIN {
    # layer -> layers it may include, itself included
    sees["base"] = " base "
    sees["numeric"] = " base numeric "
    sees["json"] = " base json "
    sees["quant"] = " base quant "
    sees["gguf"] = " base quant gguf "
    sees["organ"] = " base json quant gguf organ "
    sees["verbs"] = " base numeric json quant gguf organ verbs "
    sees["tools"] = " base numeric json quant gguf organ verbs tools "
    # rooms of verbs that other rooms may include, from the lowest
    floor["shared"] = 1; floor["check"] = 2; floor["plan"] = 3; floor["organ_dir"] = floor["compute"] = 4
    # which layer owns which public header
    owner["gg_status.h"] = owner["gg_version.h"] = "base"
    owner["gg_numeric.h"] = "numeric"
    owner["gg_quant.h"] = "quant"
    owner["gg_gguf.h"] = "gguf"
    owner["gg_organ.h"] = "organ"
    n = split("gg_verbs gg_transplant gg_measure_model gg_compare_model gg_purify gg_write gg_stack gg_check gg_lora gg_merge gg_picture gg_align gg_info gg_imatrix", v, " ")
    for (i = 1; i <= n; i++) owner[v[i] ".h"] = "verbs"
    owner["organ.h"] = "verbs"
    owner["gg_keys.h"] = owner["gg_patch.h"] = "verbs"
}
function layer_of(path,    part) {
    split(path, part, "/")
    if (part[1] == "tools") return "tools"
    if (part[1] == "src") return part[2]
    return owner[part[3]]
}
# The folder within verbs; "" for anything else.
function room_of(path,    part) {
    split(path, part, "/")
    return part[1] "/" part[2] == "src/verbs" ? part[3] : ""
}
# The path that an include names: beside the file, in include/, or in src/.
function resolve(file, name,    dir, base) {
    dir = base = file
    sub(/[^\/]*$/, "", dir)
    if (name ~ /^organ\/gg_/) return "include/" name
    if (name ~ /^gg_/) return dir name
    if (name ~ /^\.\.\//) { sub(/[^\/]*\/$/, "", dir); sub(/^\.\.\//, "", name); return dir name }
    if (name ~ /\//) return "src/" name
    return dir name
}
function complain(text) {
    print place[1] ":" place[2] ": includes " $2 ": " text
    bad = 1
}
{
    if ($2 ~ /^options\//) next
    split($1, place, ":")
    from = layer_of(place[1])
    target = resolve(place[1], $2)
    to = layer_of(target)
    if ((getline line < target) < 0) complain("no such file from here")
    close(target)
    if (from == "" || !(from in sees)) complain("no layer owns " place[1] "; name its owner in scripts/check-layers.sh")
    else if (to == "" || !(to in sees)) complain("no layer owns it; name its owner in scripts/check-layers.sh")
    else if (index(sees[from], " " to " ") == 0) complain(from " must not know " to)
    else if (room_of(target) != "" && room_of(target) != room_of(place[1]) &&
             !(floor[room_of(target)] && floor[room_of(target)] < (room_of(place[1]) in floor ? floor[room_of(place[1])] : 9)))
        complain("the room " room_of(place[1]) " must not know " room_of(target))
    else if (place[1] ~ /^include\// && target !~ /^include\//) complain("a public header must not need a private one")
    else if (from == "tools" && target ~ /^src\// && $3 !~ /\/\* .* \*\//)
        complain("a private header; use the public ones, or say why on that line in a comment")
    else if ($2 ~ /\.c$/) complain("a source, not a header")
    lines++
}
END {
    if (lines == 0) { print "no #include found: run it in the source tree"; bad = 1 }
    exit bad
}' || status=1

# A header of include/ that nothing includes would escape the check above.
for f in include/organ/*.h; do
    case $(basename "$f") in
    organ.h | gg_version.h | gg_status.h | gg_numeric.h | gg_quant.h | gg_gguf.h | gg_organ.h | gg_verbs.h) ;;
    gg_transplant.h | gg_measure_model.h | gg_compare_model.h | gg_purify.h | gg_write.h | gg_stack.h | gg_check.h | gg_lora.h) ;;
    gg_keys.h | gg_patch.h | gg_merge.h | gg_picture.h | gg_align.h | gg_info.h | gg_imatrix.h) ;;
    *) echo "$f: no layer owns this header; name its owner in scripts/check-layers.sh"; status=1 ;;
    esac
done

twice=$(for f in src/*/*.[ch] src/*/*/*.[ch]; do basename "$f"; done | sort | uniq -d)
if [ -n "$twice" ]; then
    echo "duplicate file names in src/: $twice"
    status=1
fi
[ $status -eq 0 ] && echo "layers: every include follows the order"
exit $status
