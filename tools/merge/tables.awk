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
# The defaults, their number, and those for parts as one text
function takes(   i, n, all, part, pair, s, parts) {
    for (n in same) gsub("[$]" n, same[n], defaults)
    all = split(defaults, part, " ")
    n = 0
    for (i = 1; i <= all; i++) {
        if (part[i] ~ /:/) {
            parts = parts (parts == "" ? "" : ",") part[i]
            continue
        }
        split(part[i], pair, "=")
        s = s (n++ ? ", " : "") "{ GG_MP_" toupper(pair[1]) ", " (pair[2] == "" ? "NAN" : pair[2]) " }"
    }
    return "{ " (n ? s : "{ 0 }") " }, " n ", " text(parts)
}
# A row is complete when the next begins.
function finish() {
    if (kind == "param" || kind == "each") params = params "    [GG_MP_" toupper(key) "] = { " head ", " text(meaning) limits " },\n"
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
/^(param|each) / {
    limits = ", " substr($3, ($3 ~ /^>/) + 1) ", " $4 ", " ($3 ~ /^>/ ? "true" : "false") ", " ($1 == "each" ? "true" : "false") ", 0"
    meaning = rest(5)
}
/^method/ {
    most = "GG_MERGE_BASE_" toupper($3) ", " $4 + 0 ", " ($4 ~ /-$/ ? "GG_MERGE_MODELS" : $4)
    work = traits = $5
    sub(/,.*/, "", work)
}
/^ / && meaning != "" { defaults = defaults " " rest(1) }
/^ / && meaning == "" { meaning = rest(1) }
END {
    finish()
    print "/* Made by tables.awk. */\n#include \"merge/merging.h\"\n\n#include <math.h>"
    print "\nconst gg_merge_parameter gg_merge_params[GG_MP_COUNT] = {\n" params "};"
    print "\nconst gg_merge_torch_name gg_merge_torch_names[] = {\n" torch "    { NULL, NULL },\n};"
    print "\nconst gg_merge_method gg_merge_methods[] = {\n" methods "};"
    print "const size_t gg_merge_methods_n = sizeof gg_merge_methods / sizeof gg_merge_methods[0];"
}
