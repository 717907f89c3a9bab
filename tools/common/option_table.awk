# option_table.awk - makes options/NAME.h of the options and columns in help.txt: awk -v name=merge ... The head
# of help.txt explains the rows. What an option leaves out is 0 in its cli_option (cli.h).
function quoted(s,   i, c, r) {
    for (i = 1; i <= length(s); i++) {
        c = substr(s, i, 1)
        r = r (c == "\\" || c == "\"" ? "\\" c : c == "\n" ? "\\n" : c == "\t" ? "\\t" : c)
    }
    return "\"" r "\""
}
# The line from its i-th word on.
function rest(i,   s) {
    for (s = $0; i > 1; i--) sub(/^[^ ]+ +/, "", s)
    return s
}
# Replaces each $WORD by the names that were defined for it.
function names(s,   i) {
    while (match(s, /\$[a-z]+/)) {
        i = substr(s, RSTART + 1, RLENGTH - 1)
        if (!(i in list)) wrong("$" i " is not defined")
        s = substr(s, 1, RSTART - 1) list[i] substr(s, RSTART + RLENGTH)
    }
    return s
}
function wrong(why) {
    print FILENAME ":" FNR ": " why > "/dev/stderr"
    failed = 1
    exit 1
}
# The text of the row that has just been read.
function end_row() {
    if (row != "") print row (help != "" ? ", .help = " quoted(help) : "") " },"
    row = help = ""
}
function end_table() {
    end_row()
    if (table == "words") print "};\n"
    else if (table) print "    { 0 },\n};\n"
    if (table == "columns")
        print "static const char columns[] = " quoted(columns) ";\n\nstatic void print_columns(cli *c)\n{\n" \
            "    list_columns(c, columns_about);\n}\n"
    table = ""
}
function start_table(kind, text, struct) {
    end_table()
    print text " = {"
    table = kind
    of = struct
}
# Where the value goes: a member of the cli, of the struct of a group, or of `opt`.
function destination(to) {
    if ($3 ~ /^act/) return ".act = " to
    if (to ~ /^c\./) return ".at = offsetof(cli, " substr(to, 3) ")"
    return of ? ".at = offsetof(" of ", " to ")" : ".to = &opt." to
}
function property(p,   at) {
    if (p ~ /^(many|maybe|local)$/) return "." p " = true"
    if (p ~ /^columns(=|$)/) return ".values = " (p == "columns" ? p : substr(p, 9))
    if (p == "shows-values") return ".help = \"\""
    if (p ~ /^letter=.$/) return ".letter = '" substr(p, 8) "'"
    if (p ~ /^(place|list)=./) return "." substr(p, 1, index(p, "=")) substr(p, index(p, "=") + 1)
    at = index(p, "..")
    if (p ~ /^range=.*\.\../) return ".low = " substr(p, 7, at - 7) ", .high = " substr(p, at + 2)
    wrong("unknown property '" p "'")
}
# needs, excludes and required may have a reason; `after` is quoted because of its blanks.
function condition(key, value,   at) {
    if (key == "after") return ".flow = " value
    value = names(value)
    at = index(value, " | ")
    return "." key " = " quoted(at ? substr(value, 1, at - 1) : value) \
        (at ? ", ." key "_why = " quoted(substr(value, at + 3)) : "")
}
BEGIN { print "/* Made by tools/common/option_table.awk. */" }
/^\$/ {
    list[substr($1, 2)] = names(substr($0, index($0, "=") + 2))
    print "#define NAMES_" toupper(substr($1, 2)) " " quoted(list[substr($1, 2)])
}
/^\[/ {
    end_table()
    here = $0 == "[" name "]" || $0 == "[organ-" name "]"
}
!here || /^#/ || /^\[/ || /^\$/ { next }
/^examples:$/ { end_table(); here = 0 }
/^columns:$/ { start_table("columns", "static const table_column columns_about[]"); next }
$1 == "words" && NF == 4 {
    start_table("words", "static const char *const " $2 "[" $4 "]")
    prefix = $3
    next
}
/^options:$/ { start_table("options", "static const cli_option options[]"); next }
$1 == "table" && $3 == "of" { start_table("options", "const cli_option " $2 "[]", $4); next }
!table || NF == 0 { next }
table == "columns" {
    columns = columns (columns == "" ? "" : "\t") $1
    print "    { " quoted($1) ", " quoted($2 == "-" ? "" : $2) ", " quoted(rest(3)) " },"
    next
}
table == "words" {
    print "    [" prefix $1 "] = " quoted(rest(2)) ","
    next
}
/^ +\|/ {
    help = help (help == "" ? "" : "\n") substr($0, index($0, "|") + 1)
    next
}
/^ +(needs|excludes|required|values|after):/ {
    key = $1
    sub(/:$/, "", key)
    sub(/^ +[a-z]+: ?/, "")
    row = row ", " condition(key, $0)
    next
}
/^ / {
    sub(/^ +/, "")
    help = help (help == "" ? "" : " ") $0
    next
}
{ end_row() }
$1 == "text" && NF == 1 { row = "    { .name = NULL"; next }
$1 == "group" && NF < 4 { row = "    { .group = " $2 (NF > 2 ? ", .to = &opt." $3 : ""); next }
NF < 4 { wrong("expected NAME ARGUMENT KIND DESTINATION") }
{
    kind = $3 == "number" ? "U64" : $3 == "float" ? "F64" : toupper($3)
    gsub(/-/, "_", kind)
    row = "    { " ($1 == "-" ? "\"\"" : quoted($1)) ", CLI_" kind
    if ($4 != "-") row = row ", " destination($4)
    if ($2 != "-") row = row ", .arg = " quoted($2)
    for (i = 5; i <= NF; i++) row = row ", " property($i)
}
END {
    if (failed) exit 1
    end_table()
}
