#!/bin/sh
# check-links.sh BUILD - checks who calls whom, by the symbols that the objects in BUILD/obj define and use. A
# folder of src/ calls only those before it in the order below, the room of a tool no other room than
# tools/common, and no two files need each other, also by way of others. Prints what breaks this and exits 1.
set -u
cd "$(dirname "$0")/.." || exit 2
order='base json numeric quant gguf arch organ hf write vocab compute kin check picture patch assemble'
T=$(mktemp -d) || exit 2
trap 'rm -rf "$T"' EXIT

# Lines "FILE uses FILE NAME". Kernels are compiled once per level, with the same calls.
cd "${1:?the build folder}" || exit 2
tr ' ' '\n' < obj/list | xargs nm -A -g -P | sed 's/^obj\///; s/\(_l[0-9]\)*\.o: / /' | awk '
        $3 == "U" { file[++n] = $1; used[n] = $2; next }
        $2 != "main" { home[$2] = $1 }
        END { for (i = 1; i <= n; i++) if (home[used[i]] && file[i] != home[used[i]]) print file[i], home[used[i]], used[i] }
    ' > "$T/calls"
[ -s "$T/calls" ] || { echo "no calls found"; exit 2; }

# organ has the list of all kinds of sources, of which hf offers one.
awk -v order="$order" '
    function room(path,    part) { split(path, part, "/"); return part[1] "/" part[2] }
    BEGIN { n = split(order, name, " "); for (i = 1; i <= n; i++) rank["src/" name[i]] = i; rank["tools/common"] = 90 }
    $3 == "gg_source_checkpoint" && $1 == "src/organ/source_open" { next }
    { a = room($1); b = room($2) }
    a ~ /^src/ && !(a in rank) { print a " is not in the order of check-links.sh"; bad = 1; exit }
    a != b && !((b in rank) && (a in rank ? rank[a] : 99) > rank[b]) { print $1 " must not call " $3 " of " b; bad = 1 }
    END { exit bad }' "$T/calls" || exit 1

# tables.o has the facts that several files of a folder look up; the files of tools/api answer requests for one
# another; an adapter of PEFT is opened as a checkpoint.
grep -vE '/tables |^tools/api/.* tools/api/|^src/hf/checkpoint src/hf/peft ' "$T/calls" | cut -d ' ' -f 1,2 | sort -u > "$T/files"
tsort "$T/files" > /dev/null 2> "$T/circles"
if [ -s "$T/circles" ]; then
    sed 's/^tsort: //' "$T/circles"
    exit 1
fi
echo "links: $(sort -u "$T/calls" | wc -l | tr -d ' ') calls between $(wc -l < "$T/files" | tr -d ' ') pairs of files follow the order"
