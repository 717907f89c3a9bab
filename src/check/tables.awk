# tables.awk - makes the C tables of check_context.h from rules.txt and projectors.txt.
function add(name, value,   n) {
    n = ++rows[name]
    row[name, n] = value
}
function words(from,   i, s) {
    for (i = from; i <= NF; i++) s = s (i > from ? " " : "") $i
    return s
}
function text(s) { return "\"" s "\"" }
# A record is complete when the next begins.
function finish() {
    if (kind == "rule") add(kind, text(head) ", GG_CHECK_" toupper(second) ", " text(field["rule"]))
    if (kind == "kind") add(kind, text(head) ", " text(second) ", GG_KIND_" toupper(field["kind"]))
    if (kind == "limit") add(kind, text(head) ", GG_CHECK_" toupper(second) ", " limit ",\n      " \
        text(field["traits"]) ", " text(field["if"]) ",\n      " text(field["text"]))
    if (kind == "projector") {
        split(field["output"], part, " ")
        add(kind, text(field["projector"]) ",\n      " text(field["needs"] == "-" ? "" : field["needs"]) ",\n      " \
            text(part[1]) ", " (2 in part ? part[2] : 0) ", " (field["form"] == "blocks" ? "true" : "false"))
        field["needs"] = field["output"] = field["form"] = ""
        delete part[1]
        delete part[2]
    }
    if (kind == "list") lists = lists "\nconst char gg_check_" head "[] = " text(field["list"]) ";"
    kind = ""
}
function print_table(declaration, name, end,   i) {
    print "\nconst " declaration "[] = {"
    for (i = 1; i <= rows[name]; i++) print "    { " row[name, i] " },"
    print "    { " end " },\n};"
}
/^#/ || NF == 0 { next }
/^ / {
    field[last] = field[last] " " words(1)
    next
}
{
    last = $1 == "else" ? "limit" : $1
    if (last ~ /^(list|rule|kind|limit|projector)$/) {
        finish()
        kind = last
        head = $2
        second = $3
    }
    if (last == "limit") {
        limit = text($4) ", " text($5) ", " ($1 == "else" ? "true" : "false")
        field["traits"] = field["if"] = ""
    }
    field[last] = words(last == "list" ? 3 : last ~ /^(rule|kind)$/ ? 4 : 2)
}
END {
    finish()
    print "/* Made by tables.awk. */\n#include \"check/check_context.h\""
    print_table("check_kind_word gg_check_kind_words", "kind", "NULL, NULL, GG_KIND_MODEL")
    print_table("check_limit gg_check_limit_rows", "limit", "NULL, GG_CHECK_NOTE, NULL, NULL, false, NULL, NULL, NULL")
    print_table("gg_check_rule gg_check_rule_list", "rule", "NULL, GG_CHECK_NOTE, NULL")
    print_table("check_projector gg_check_projectors", "projector", "NULL, NULL, NULL, 0, false")
    print lists
}
