# tables.awk - makes the C tables of check_context.h from architectures.txt and learned.txt.
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
    if (kind == "arch") add(kind, text(field["arch"]) ", " text(field["keys"]) ",\n      " text(field["globals"]) ",\n      " text(field["block"]))
    if (kind == "type") add(kind, text(field["type"]) ", " text(field["keys"]) ",\n      " text(field["archs"]))
    if (kind == "shape") add(kind, text(field["shape"]) ", " text(head))
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
    last = $1
    if (last ~ /^(arch|type|shape|list)$/) {
        finish()
        kind = last
    }
    if (last == kind) head = $2
    field[last] = words(last ~ /^(shape|list)$/ ? 3 : 2)
}
END {
    finish()
    print "/* Made by tables.awk. */\n#include \"verbs/check/check_context.h\""
    print_table("check_arch gg_check_tables", "arch", "NULL, NULL, NULL, NULL")
    print_table("check_key_types gg_check_key_types", "type", "NULL, NULL, NULL")
    print_table("check_usual_shape gg_check_shapes", "shape", "NULL, NULL")
    print lists
}
