# fields.awk - prints the tables of fields (config.txt and the like) as tables of docs/safetensors.md.
function cut(mark,   i, s) {
    i = index(rest, mark)
    s = i ? substr(rest, i + length(mark)) : ""
    if (i) rest = substr(rest, 1, i - 1)
    return s
}
function finish(   why, archs, when, values, n, i, word, names) {
    if (kind == "method") methods = methods (methods == "" ? "" : " ") substr(rest, 1, index(rest, " ") - 1)
    if (kind !~ /^(used|harmless|noted|refused)$/) return
    why = cut(" -- ")
    archs = cut(" : ")
    when = cut(" if ")
    values = cut(" = ")
    sub(/\$METHODS/, methods, values)
    n = split(rest, word, " ")
    for (i = 1; i <= n; i++) names = names (i > 1 ? ", " : "") "`" word[i] "`"
    if (archs != "") archs = (archs ~ /^!/ ? "not " substr(archs, 2) : archs)
    if (when != "") sub(/ /, " = ", when)
    print "| " names " | " (values == "" ? "any" : "`" values "`") (when == "" ? "" : ", if `" when "`") " | " \
        archs " | " kind " | " why " |"
    kind = ""
}
FNR == 1 {
    finish()
    name = FILENAME
    sub(/.*\//, "", name)
    sub(/\.txt$/, "", name)
    file["config"] = "config.json"
    file["adapter"] = "adapter_config.json"
    file["quantization"] = "quantization_config"
    file["index"] = "model.safetensors.index.json"
    print (NR > 1 ? "\n" : "") "`" file[name] "`:\n\n| fields | values | for | verdict | why |\n|---|---|---|---|---|"
}
/^#/ || NF == 0 { next }
/^ / { sub(/^ +/, " "); rest = rest $0; next }
{
    finish()
    kind = $1
    rest = substr($0, length($1) + 2)
}
END { finish() }
