# fleet-models.awk - reads sorted paths and prints one per model: the first shard, or another
# if the first is missing, and the folder of each manifest.json.
function is_shard(p) { return p ~ /-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]\.gguf$/ }
{ path[NR] = $0; have[$0] = 1 }
END {
    for (i = 1; i <= NR; i++) {
        p = path[i]
        if (p ~ /\/manifest\.json$/) {
            sub(/\/manifest\.json$/, "", p)
            print p
        } else if (is_shard(p)) {
            stem = substr(p, 1, length(p) - 19)
            first = stem "00001" substr(p, length(p) - 13)
            if (p == first || (!(first in have) && !told[first]++)) print p
        } else print p
    }
}
