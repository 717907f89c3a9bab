# options.awk - makes the table api_options of organ-api from the table of all options (scripts/options.sh).
# Options that are not for HTTP are left out, and so cannot be used.
BEGIN {
    FS = "\t"
    print "/* Made by tools/api/options.awk. */\n#include \"api/api.h\"\n\nconst api_option api_options[] = {"
    kind["number"] = "U64"
    kind["float"] = "F64"
}
function text(s) { return s == "-" ? "NULL" : "\"" s "\"" }
NR > 1 && $7 == "true" {
    if (!($5 in kind)) {
        kind[$5] = toupper($5)
        gsub(/-/, "_", kind[$5])
    }
    printf "    { %s, %s, %s, CLI_%s, %s, %s, %s, %s, %s },\n", text($1), ($2 == "-" ? "\"\"" : text($2)), ($3 == "-" ? "0" : "'" $3 "'"),
        kind[$5], ($8 == "-" ? "0" : $8), $6, text($9), text($10), text($11)
}
END { print "    { NULL, NULL, 0, CLI_FLAG, 0, false, NULL, NULL, NULL },\n};" }
