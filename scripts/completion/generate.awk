# generate.awk - makes the completion of a shell from the table of all options (scripts/options.sh):
#     awk -v shell=bash|zsh|fish -f generate.awk options.tsv
# For bash it prints the tables that the functions in scripts/completion/organ use.
BEGIN { FS = "\t"; Q = "'" }

# How a value is completed: "flag" without one, "" if not at all.
function action(kind, values) {
    if (kind == "flag") return "flag"
    if (kind ~ /^(model|params|new-model)$/) return "model"
    if (kind ~ /^(dir|new-dir|into)$/) return "dir"
    if (kind ~ /^(file|new-file|range-file)$/) return "file"
    if (values == "-") return ""
    if (kind == "rules") return "rules"
    return kind == "words" ? "list" : "words"
}

# The words that are offered for a value. Rules have presets, "|", and the types after an "=".
function offered(what, values) {
    sub(/ \| /, " ", values)
    return values
}

function zsh_value(what, values) {
    if (what == "model") return "_files -g \"*.(gguf|bin)\""
    if (what == "dir") return "_files -/"
    if (what == "file") return "_files"
    if (what == "") return " "
    gsub(/:/, "\\:", values)
    return what == "list" ? "_values -s , value " values : "(" values ")"
}

function fish_value(what, values) {
    if (what == "model") return " -x -a '(__fish_complete_suffix .gguf)'"
    if (what == "dir") return " -x -a '(__fish_complete_directories)'"
    if (what == "file") return " -r -F"
    if (what == "") return " -x"
    return what == "list" ? " -x -a '(__fish_append , " values ")'" : " -x -a '" values "'"
}

function add(tool, name, what, values,   long, dashed) {
    long = length(name) > 1
    dashed = (long ? "--" : "-") name
    specs[tool] = specs[tool] " " name (what == "flag" ? "" : "=" what)
    if (what ~ /^(list|rules|words)$/) words[++n_words] = Q tool " " name Q ") echo " Q values Q " ;;"
    values = offered(what, values)
    zsh[tool] = zsh[tool] (what == "flag" ? " " Q dashed Q : \
        " " Q dashed (long ? "=" : "+") ":" name ":" zsh_value(what, values) Q)
    fish[++n_fish] = "complete -c " tool (long ? " -l " : " -s ") name (what == "flag" ? "" : fish_value(what, values))
}

NR > 1 {
    if (!($1 in specs)) tools[++n] = $1
    specs[$1] = specs[$1]
    if ($8 != "-" && $5 == "word") {
        words[++n_words] = Q $1 " " $8 Q ") echo " Q $11 Q " ;;"
        zsh[$1] = zsh[$1] " " Q $8 ":step:(" $11 ")" Q
        fish[++n_fish] = "complete -c " $1 " -n __fish_is_first_arg -a " Q $11 Q
    }
    what = action($5, $11)
    if ($2 != "-") add($1, $2, what, $11)
    if ($3 ~ /[a-gi-z]/) add($1, $3, what, $11)
}

END {
    for (i = 1; i <= n; i++) all = all " " tools[i]
    if (shell == "zsh") print "#compdef" all # zsh wants this first
    print "# Made by scripts/completion/generate.awk."
    if (shell == "fish") for (i = 1; i <= n_fish; i++) print fish[i]
    if (shell == "zsh") {
        print "case $service in"
        for (i = 1; i <= n; i++)
            print tools[i] ") _arguments" zsh[tools[i]] " " Q "*:model:_files -g \"*.(gguf|bin)\"" Q " ;;"
        print "esac"
    }
    if (shell != "bash") exit
    print "_organ_options() {\n    case $1 in"
    for (i = 1; i <= n; i++) print "    " tools[i] ") echo " Q substr(specs[tools[i]], 2) Q " ;;"
    print "    esac\n}\n\n_organ_values() { # TOOL OPTION\n    case \"$1 $2\" in"
    for (i = 1; i <= n_words; i++) print "    " words[i]
    print "    esac\n}\n\ncomplete -F _organ" all
}
