# tables.awk - makes the C tables of anatomy.h from anatomy.txt.
# A rule is complete when the next begins.
function finish(   part, n, i) {
    n = split(rule, part, " ")
    rule = ""
    if (n == 0) return
    if (!(part[2] in rows)) lists[++n_lists] = part[2]
    for (i = 4; i <= n; i++)
        rows[part[2]] = rows[part[2]] "    { GG_" toupper(part[3]) ", \"" part[i] "\" },\n"
}
/^#/ || NF == 0 { next }
/^[^ ]/ { finish() }
{ rule = rule " " $0 }
END {
    finish()
    print "/* Made by tables.awk. */\n#include \"organ/anatomy.h\""
    for (i = 1; i <= n_lists; i++)
        print "\nconst gg_name_rule gg_rules_" lists[i] "[] = {\n" rows[lists[i]] "    { GG_OTHER, NULL },\n};"
}
