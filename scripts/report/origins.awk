# origins.awk - what a chimera was made of, as one JSON array without repeats: the values of "from"
# in the histories of a manifest, or with -v keys=1 the array that `organ-keys --json` printed. They
# stay JSON strings as they were read.
BEGIN { string = "\"([^\"\\\\]|\\\\.)*\"" }
function take(text) {
    if (seen[text]++ || text == "\"\"") return
    list = list (list == "" ? "" : ", ") text
}
{
    rest = $0
    if (keys) {
        if (!match(rest, /"value": \[/)) next
        rest = substr(rest, RSTART + RLENGTH)
        while (match(rest, "^[ ,]*" string)) {
            text = substr(rest, 1, RLENGTH)
            sub(/^[ ,]*/, "", text)
            take(text)
            rest = substr(rest, RLENGTH + 1)
        }
        next
    }
    while (match(rest, "\"from\": " string)) {
        take(substr(rest, RSTART + 8, RLENGTH - 8))
        rest = substr(rest, RSTART + RLENGTH)
    }
}
END { print "[" list "]" }
