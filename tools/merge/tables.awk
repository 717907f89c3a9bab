# tables.awk - makes the C tables of merging.h from methods.txt.
function text(s) { return s == "" ? "NULL" : "\"" s "\"" }
# "NAME/ALIAS" as two texts
function names(s,   n, part) {
    n = split(s, part, "/")
    return text(part[1]) ", " text(n > 1 ? part[2] : "")
}
function has(trait) { return ("," traits ",") ~ ("," trait ",") ? "true" : "false" }
# The words from field `from` on.
function rest(from,   i, s) {
    for (i = from; i <= NF; i++) s = s (i > from ? " " : "") $i
    return s
}
function takes(   i, n, part, pair, s) {
    for (n in same) gsub("[$]" n, same[n], defaults)
    n = split(defaults, part, " ")
    for (i = 1; i <= n; i++) {
        split(part[i], pair, "=")
        s = s (i > 1 ? ", " : "") "{ GG_MP_" toupper(pair[1]) ", " (pair[2] == "" ? "NAN" : pair[2]) " }"
    }
    return "{ " (n ? s : "{ 0 }") " }, " n
}
# A row is complete when the next begins.
function finish() {
    if (kind == "param") params = params "    [GG_MP_" toupper(key) "] = { " head ", " text(meaning) limits " },\n"
    if (kind == "method")
        methods = methods "    { " head ", " text(meaning) ", " most ",\n      " takes() ",\n      &gg_merge_work_" work \
            ", " has("largest") ", " has("rank") ", " has("signs") ", " has("random") ", " has("slices") ", " \
            has("grams") " },\n"
    kind = meaning = defaults = ""
}
/^#/ || NF == 0 { next }
/^[^ ]/ {
    finish()
    kind = $1
    head = names($2)
    key = $2
    sub(/\/.*/, "", key)
}
/^same/ { same[$2] = rest(3) }
/^torch/ { torch = torch "    { " text($2) ", " text($3) " },\n" }
/^param/ {
    limits = ", " substr($3, ($3 ~ /^>/) + 1) ", " $4 ", " ($3 ~ /^>/ ? "true" : "false") ", 0"
    meaning = rest(5)
}
/^method/ {
    most = "GG_MERGE_BASE_" toupper($3) ", " $4 + 0 ", " ($4 ~ /-$/ ? "GG_MERGE_MODELS" : $4)
    work = traits = $5
    sub(/,.*/, "", work)
}
/^ / && meaning != "" { defaults = rest(1) }
/^ / && meaning == "" { meaning = rest(1) }
END {
    finish()
    print "/* Made by tables.awk. */\n#include \"merge/merging.h\"\n\n#include <math.h>"
    print "\nconst gg_merge_parameter gg_merge_params[GG_MP_COUNT] = {\n" params "};"
    print "\nconst gg_merge_torch_name gg_merge_torch_names[] = {\n" torch "    { NULL, NULL },\n};"
    print "\nconst gg_merge_method gg_merge_methods[] = {\n" methods "};"
    print "const size_t gg_merge_methods_n = sizeof gg_merge_methods / sizeof gg_merge_methods[0];"
}
