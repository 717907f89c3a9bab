#!/bin/sh
# check-links.sh BUILD [--list] - checks who calls whom, by the symbols that the objects in BUILD/obj define and use. A
# folder of src/ calls only those before it in the order below, the room of a tool no other room than
# tools/common, and no two files need each other, also by way of others. A file of src/ of which only one room uses
# something belongs in that room. Prints what breaks this and exits 1; with --list, the functions of src/ that only
# the tools of one room contain, which is a hint where a file could be divided.
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

# What the tools contain: the linker has left out what they do not use, unless a sanitizer keeps everything. Functions
# of public headers are for other programs too. Lines "FILE ROOM NAME".
tr ' ' '\n' < obj/list | sed -n 's|^obj/||; s|^tools/\([a-z]*\)/\(organ-[a-z]*\)\.o$|\1 \2|p' > "$T/mains"
while read -r room tool; do
    nm -P "bin/$tool" 2> /dev/null | awk -v room="$room" '$1 ~ /^gg_/ && $2 ~ /^[TRDBtrdb]$/ { sub(/_l[0-9]$/, "", $1); print $1, room }'
done < "$T/mains" | sort -u > "$T/has"
tr ' ' '\n' < obj/list | grep '^obj/src/' | xargs nm -A -g -P | sed 's/^obj\///; s/\(_l[0-9]\)*\.o: / /' | awk '
    $3 ~ /^[TRDB]$/ { sub(/_l[0-9]$/, "", $2); print $2, $1 }' | sort -u > "$T/homes"
join "$T/homes" "$T/has" > "$T/rooms" # NAME FILE ROOM
public=$(cd - > /dev/null && sh scripts/count-api.sh --list | tr "\n" " ")
if ! awk -v list="${2:-}" -v public="$public" '
        # Whether a file that stays in src calls it.
        function stays(f,    part, n, i) {
            n = split(callers[f], part, " ")
            for (i = 1; i <= n; i++) if (users[part[i]] > 1) return 1
            return 0
        }
        BEGIN { n = split(public, name, " "); for (i = 1; i <= n; i++) is_public[name[i]] = 1 }
        FILENAME ~ /files$/ { if ($1 ~ /^src/) callers[$2] = callers[$2] " " $1; next }
        { of[$1] = $2; if (!(($1, $3) in seen)) { seen[$1, $3] = 1; uses[$1]++; only[$1] = $3 } }
        !(($2, $3) in known) { known[$2, $3] = 1; users[$2]++; user[$2] = $3 }
        is_public[$1] { users[$2] += 2 }
        END {
            for (f in users) if (users[f] == 1 && !stays(f)) { print f " is used by tools/" user[f] " only: move it there"; bad = 1 }
            for (f in uses) if (uses[f] == 1 && !is_public[f]) { single++; if (list) print of[f], f, only[f] }
            print "links: " single + 0 " functions of src/ are used by one room only"
            exit bad
        }' "$T/files" "$T/rooms" > "$T/one"; then
    grep -v '^links:' "$T/one"
    exit 1
fi
sort "$T/one"
echo "links: $(sort -u "$T/calls" | wc -l | tr -d ' ') calls between $(wc -l < "$T/files" | tr -d ' ') pairs of files follow the order"
