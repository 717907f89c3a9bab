# tables.awk - makes a C source of text tables, which are its arguments. Lines that begin with # and empty lines
# are skipped.
#
#   = TEXT               TEXT as C; "TYPE NAME[SIZE]" begins a table. NAME_n is its number of rows if SIZE is empty.
#   word A B "C D"       a row: WORD(A, B, "C D")
#   0x1 0x2              values
#
# A line that begins with a blank continues the row before it.
function end_row() {
    if (row != "") print "    " row (call ? ")," : ",")
    row = ""
}
function end_table() {
    end_row()
    if (name != "") print "};"
    if (name ~ /\[\]/) {
        sub(/\[\]/, "", name)
        printf "const size_t %s_n = sizeof %s / sizeof %s[0];\n", name, name, name
    }
    name = ""
}
# Adds the words of a line to the row; blanks within quotation marks do not separate words.
function add_words(line,   word) {
    while (match(line, /^ *("[^"]*"|[^ "]+)/)) {
        word = substr(line, 1, RLENGTH)
        line = substr(line, RLENGTH + 1)
        sub(/^ */, "", word)
        if (row == "" && (call = word ~ /^[a-z]/)) row = toupper(word) "("
        else row = row (row == "" || row ~ /\($/ ? "" : ", ") word
    }
}
BEGIN { print "/* Made by tables.awk. */\n#include <stddef.h>" }
/^#/ || NF == 0 { next }
/^=/ {
    end_table()
    sub(/^= */, "")
    if (!/\[.*\]$/) print
    else {
        print "\n" $0 " = {"
        name = $NF
    }
    next
}
/^[^ ]/ { end_row() }
{ add_words($0) }
END { end_table() }
