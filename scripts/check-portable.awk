# check-portable.awk - reads shell scripts and makefiles, and checks which utilities and options
# they use. Used by check-portable.sh, whose table comes first (-v table=FILE). Of the files in
# `awk_only_files`, only the programs for awk are checked.
#
# A script is read character by character. The stack has a letter for each open bracket or quote: c $(,
# p (, q double quotes, b ${ }, a arithmetic. Words of commands are collected without their quotes.

function complain(text) {
    if (awk_only && !in_awk) return
    print FILENAME ":" line_no ": " text; bad = 1 }

# ---- the table: KIND TAB NAME TAB DETAIL ---------------------------------------------------
# posix NAME OPTIONS (as for getopts)      find NAME of a primary      other NAME of a program
# tests NAME of what tests use, too, if they do not ask for a program with `have`
# extra "NAME OPTION" PATTERN, which the line must match: the test at run time
function read_table(   line, f) {
    while ((getline line < table) > 0) {
        if (split(line, f, "\t") < 2) continue
        if (f[1] == "posix") options[f[2]] = f[3]
        else if (f[1] == "find") primary[f[2]] = 1
        else if (f[1] == "other") other[f[2]] = 1
        else if (f[1] == "tests") of_tests[f[2]] = 1
        else if (f[1] == "extra") extra[f[2]] = f[3]
    }
    n = split("if then else elif fi while until do done for case esac in { } ! : . break continue eval exec exit export " \
        "read readonly return set shift times trap unset cd command false true test [ echo printf kill pwd type ulimit umask wait", list, " ")
    for (i = 1; i <= n; i++) builtin[list[i]] = 1
}

# An option outside POSIX is allowed where the line tests for it.
function beyond(name, option,   key) {
    key = name " " option
    seen[key " (not in POSIX)"] = 1
    if (key in extra && text_of[line_no] ~ extra[key] || is_test && key in of_tests) return
    complain("'" key "' is not in POSIX" (key in extra ? ", and the line does not test for it" : ""))
}
# Whether a text has a backslash before one of these, itself without a backslash before it.
function escaped(text, what) { return text ~ ("(^|[^\\\\])(\\\\\\\\)*(\\\\)(" what ")") }
function check_options(name, i,   w, k, c, at) {
    for (; i <= n_words; i++) {
        w = word[i]
        if (w == "--" || w !~ /^-./) return
        if (w ~ /^--/) { beyond(name, w); continue }
        for (k = 2; k <= length(w); k++) {
            c = substr(w, k, 1)
            if (c == "$") return
            at = index(options[name], c)
            if (!at || c == ":") { beyond(name, "-" c); if (extra[name " -" c]) i += k == length(w); break }
            seen[name " -" c] = 1
            if (substr(options[name], at + 1, 1) == ":") { if (k == length(w)) i++; break }
        }
    }
}
function check_command(i,   name, k, w) {
    while (i <= n_words && (word[i] ~ /^[A-Za-z_][A-Za-z_0-9]*=/ || word[i] ~ /^(if|then|else|elif|while|until|do|!|[{])$/)) i++
    if (i > n_words) return
    name = word[i]
    has_math = name == "mathawk"
    if (name ~ /awk"?$/ || word[i + 1] == "awk") check_program(name ~ /awk"?$/ ? i : i + 1)
    if (name == "for" || name == "case" || name ~ /^[$"\/~]/ || name ~ /^[0-9]*$/ || name ~ /[$*?]/ || name ~ /^organ(-|$)/) return
    if (name ~ /^(exec|command|run_tool|run_step|env|nice|put_file)$/) {
        if (name == "env" && word[i + 1] == "-i") seen["env -i"] = 1
        if (name == "command" && word[i + 1] ~ /^-/) { seen["command " word[i + 1]] = 1; return }
        k = i + 1 + (name == "put_file")
        while (k <= n_words && word[k] ~ /^-/) k++
        check_command(k)
        return
    }
    if (name == "printf" && (escaped(word[i + 1], "[xeEu]") || word[i + 1] ~ /%q/)) complain("printf of dash has no \\x, \\e, \\u and %q; write \\033")
    if (name in builtin || (name "()") in defined) return
    if (name in other || is_test && (name in of_tests || name in asked)) { seen[name] = 1; return }
    if (!(name in options)) { complain("the utility '" name "' is not in the table of scripts/check-portable.sh" (is_test ? ", and `have` does not ask for it" : "")); return }
    seen[name] = 1
    if (name == "find") {
        for (k = i + 1; k <= n_words; k++) {
            w = word[k]
            if (word[k - 1] == "-perm" && w ~ /^[\/+]/) complain("'find -perm " w "': only GNU has / and +")
            if (w ~ /^-[a-zA-Z]/) { if (w in primary) seen["find " w] = 1; else beyond("find", w) }
            if (w == "-exec") { check_command(k + 1); break }
        }
        return
    }
    check_options(name, i + 1)
    for (k = i + 1; k <= n_words; k++) {
        w = word[k]
        if (name == "sed" && w ~ /\\[|+?<>bws]/ || name == "grep" && w ~ /\\[|+?<>bwsn]/) complain("'" name " " w "': \\| \\+ \\? \\< \\b \\w \\s, and \\n in grep, are not in POSIX")
        if (name == "sed" && (escaped(w, "t") || w ~ /s\/([^\/\\]|\\.)*\/([^\/\\]|\\.)*\\n/)) complain("'sed " w "': \\t, and \\n in a replacement, are not in POSIX")
        if (name == "sed" && w ~ /(^|[;{ ])0,\/|[0-9\/],[+~][0-9]/) complain("'sed " w "': only GNU has the addresses 0,/re/ and N,+N")
        if (name == "head" && word[k - 1] == "-n" && w ~ /^-/) complain("'head -n " w "': only GNU takes a negative number")
        if (name == "date" && w ~ /%N/) beyond("date", "%N")
        if (name == "sleep" && w ~ /[.]/) beyond("sleep", "0.1")
        if (name == "getconf") beyond("getconf", w)
        if (name == "dd" && w ~ /^(iflag|oflag|status)=/) beyond("dd", w)
        if (name == "xargs" && w !~ /^-/ && w !~ /^[0-9$]/) { check_command(k); break }
    }
}
function end_word() { if (in_word) { word[++n_words] = text; word_line[n_words] = line_no - gsub(/\n/, "&", text); if (n_words == 1 && text == "case") cases[depth]++; if (text == "esac") cases[depth]--; }; in_word = 0; text = "" }
function end_command() { end_word(); if (n_words) check_command(1); n_words = 0 }
function push(kind) { kept_n[depth] = n_words; kept_text[depth] = text; kept_in[depth] = in_word
    for (k_ = 1; k_ <= n_words; k_++) { kept[depth, k_] = word[k_]; kept_line[depth, k_] = word_line[k_] }
    stack[++depth] = kind; cases[depth] = 0; if (kind == "c" || kind == "p") { n_words = 0; text = ""; in_word = 0 } }
function pop(   was) { was = stack[depth]; if (was == "c" || was == "p") end_command(); depth--
    if (was == "c" || was == "p") { n_words = kept_n[depth]; for (k_ = 1; k_ <= n_words; k_++) { word[k_] = kept[depth, k_]; word_line[k_] = kept_line[depth, k_] }; text = kept_text[depth] "$"; in_word = was == "c" || kept_in[depth] } }

# ---- awk programs: what mawk 1.3.4-20200120, gawk, busybox and the awk of BSD do not all read alike --------

# The next token of `awk_text` from `at` on: sets `token` and its `sort`, which is "name", "number", "string", "regexp",
# "end" of a statement or of the text, or "sign", and moves `at` behind it.
function next_token(   c, begin, inside) {
    while ((c = substr(awk_text, at, 1)) == " " || c == "\t" || c == "#" || c == "\\") {
        if (c == "\\" && substr(awk_text, ++at, 1) == "\n") line_no++
        if (c == "#") while (substr(awk_text, at + 1, 1) != "\n" && at < length(awk_text)) at++
        at++
    }
    begin = at++
    before = sort == "sign" && token != ")" && token != "]" && token !~ /^([+][+]|--|[$])$/ || sort == "end" || token ~ /^(return|print|printf|in)$/
    token = c
    if (c == "\n" || c == ";" || c == "}" || c == "") { sort = "end"; line_no += c == "\n"; return }
    if (c == "{") { sort = "end"; return }
    if (c == "\"" || c == "/" && before) {
        sort = c == "/" ? "regexp" : "string"
        for (; at <= length(awk_text); at++) {
            token = substr(awk_text, at, 1)
            if (token == "\\") { if (substr(awk_text, ++at, 1) == "\n") line_no++; continue }
            if (token == "\n") { complain("a " (c == "/" ? "regular expression" : "string") " of awk goes on in the next line"); line_no++; sort = "end"; at++; return }
            if (c == "/" && token == "[" && !inside) { inside = at; if (substr(awk_text, at + 1, 1) == "^") at++; if (substr(awk_text, at + 1, 1) == "]") at++ }
            else if (token == "]") inside = 0
            else if (token == c) { if (!inside) break; complain("original-awk ends a regular expression at the / in its brackets; write \\/") }
        }
        token = substr(awk_text, begin, ++at - begin)
        if (c == "\"" && token ~ /%[-+ 0#]*[*]/) complain("busybox awk has no * in formats")
        if (c == "/" && escaped(token, "[swSWyB<>]")) complain("only gawk and busybox awk have \\s, \\w, \\< and the like in regular expressions")
        if (c == "/" && token ~ /[^\\]?[{][0-9]/) complain("mawk 1.3.4-20200120 has no {n} in regular expressions")
        return
    }
    if (c ~ /[A-Za-z_]/) {
        sort = "name"
        while (substr(awk_text, at, 1) ~ /[A-Za-z_0-9]/) at++
    } else if (c ~ /[0-9]/) {
        sort = "number"
        while (substr(awk_text, at, 1) ~ /[0-9.]/) at++
    } else {
        sort = "sign"
        if (c == "*" && substr(awk_text, at, 1) == "*") complain("mawk has no **")
        if (c == ">" && substr(awk_text, at, 1) ~ /[>=]/ || substr(awk_text, begin, 2) ~ /^(&&|[|][|]|[=!<]=|[+][+]|--)/) at++
    }
    token = substr(awk_text, begin, at - begin)
    if (token ~ /^(\^|exp|log|sqrt|sin|cos|atan2)$/ && !has_math && !awk_only) complain("busybox awk may lack " token)
}
# Moves behind the bracket that closes the one just read.
function skip_brackets(   level) {
    for (level = 1; level > 0 && token != "";) {
        next_token()
        if (sort == "sign") level += (token == "(" || token == "[") - (token == ")" || token == "]")
    }
}
# Behind print or printf, > is a redirection. What follows must be one name, string or text in parentheses: awks
# differ about anything longer, and a comparison is none. Other comparisons are a syntax error in original-awk.
function check_print(   unclear) {
    for (next_token(); sort != "end"; next_token()) {
        if (sort != "sign") continue
        if (token == "(" || token == "[") skip_brackets()
        unclear = token == ">="
        if (token == ">" || token == ">>") {
            next_token()
            if (token == "$") next_token()
            if (token == "(") skip_brackets()
            next_token()
            if (token == "[") { skip_brackets(); next_token() }
            unclear = sort != "end"
        }
        if (token ~ /^([=!<]=|<)$/) { complain("original-awk reads a comparison behind print only in parentheses"); return }
        if (unclear) { complain("put the comparison, or the file of the redirection, in parentheses: some awks take > for the one and some for the other"); return }
        if (sort == "end") return
    }
}
# getline < A B: some awks join A and B first, and some take A as the file.
function check_getline() {
    next_token()
    if (token == "$") next_token()
    if (sort == "name") next_token()
    if (token == "[") { skip_brackets(); next_token() }
    if (token != "<") return
    next_token()
    if (token == "(") skip_brackets()
    next_token()
    if (token == "[") { skip_brackets(); next_token() }
    if (sort ~ /^(name|number|string)$/) complain("put the file of getline in parentheses: awks differ about what follows")
}
function check_awk(program, first,   was) {
    was = line_no; line_no = first; in_awk = 1
    awk_text = program; at = 1; sort = "end"; token = "\n"
    do {
        next_token()
        if (sort == "name" && (token == "print" || token == "printf")) check_print()
        else if (sort == "name" && token == "getline") check_getline()
        else if (sort == "name" && token == "func") complain("mawk has no func")
        else if (sort == "name" && token ~ /^(gensub|strftime|systime|strtonum|asorti?|patsplit|IGNORECASE|PROCINFO|FPAT|FIELDWIDTHS)$/) complain("only gawk has " token)
    } while (at <= length(awk_text))
    line_no = was; in_awk = 0
}
# The program among the words of a command, unless it is in a file.
function check_program(i) {
    for (i++; i <= n_words && word[i] ~ /^-./; i++) {
        if (word[i] ~ /^-f/) return
        if (word[i] == "--") { i++; break }
        if (word[i] ~ /^-[vF]$/) i++
    }
    sub(/^[$][A-Za-z_]+/, "", word[i]) # functions that a variable has
    if (i <= n_words && word[i] ~ /[ {]/) check_awk(word[i], word_line[i])
}

# The commands of a whole text, whose first line has the number `first`.
function check_shell(s, first,   i, c, d, n, kind, end, quote, rest) {
    depth = 0; stack[0] = "c"; n_words = 0; in_word = 0; text = ""; line_no = first; n_here = 0; cases[0] = 0
    n = length(s)
    for (i = 1; i <= n; i++) {
        c = substr(s, i, 1); d = substr(s, i, 2); kind = stack[depth]
        if (c == "\n") {
            if (kind == "c" || kind == "p") { end_command(); if (cases[depth] > 0) in_case = 1 }
            line_no++
            if (n_here && kind != "q" && kind != "b") {
                rest = substr(s, i + 1)
                while ((end = index(rest, "\n")) > 0) {
                    quote = substr(rest, 1, end - 1); rest = substr(rest, end + 1); i += end; line_no++
                    if (quote == here) break
                }
                n_here = 0
            }
            continue
        }
        if (c == "\\") { if (substr(s, i + 1, 1) == "\n") line_no++; else if (kind != "a") { in_word = 1; text = text substr(s, i, 2) }; i++; continue }
        if (substr(s, i, 3) == "$((") { push("a"); i += 2; in_word = 1; continue }
        if (d == "$(") {
            in_word = 1; push("c"); i++
            continue
        }
        if (d == "${") { in_word = 1; text = text "$"; push("b"); i++; continue }
        if (kind == "a") { if (c == "(") push("a2"); else if (d == "))") { depth--; i++; text = text "$" }; continue }
        if (kind == "a2") { if (c == ")") depth--; continue }
        if (kind == "q") { if (c == "\"") depth--; else text = text c; continue }
        if (kind == "b") { if (c == "}") depth--; else if (c == "\"") push("q"); else if (c == "'" && !quoted_below()) i = skip_quoted(s, i); continue }
        if (c == "'") { end = skip_quoted(s, i); text = text substr(s, i + 1, end - i - 1); in_word = 1; i = end; continue }
        if (c == "\"") { in_word = 1; push("q"); continue }
        if (c == "#" && !in_word) {
            end = index(substr(s, i), "\n"); if (!end) break
            if (depth && index(substr(s, i, end), "'")) complain("bash 3.2 cannot read a quote in a comment inside $(...)")
            i += end - 2; continue
        }
        if (d == "<<") { i += 2; while (substr(s, i, 1) ~ /[ -]/) i++
            match(substr(s, i), /^['"]?[A-Za-z]+['"]?/); here = substr(s, i, RLENGTH); gsub(/['"]/, "", here); n_here = 1; i += RLENGTH - 1; continue }
        if (c == ">" || c == "<") { if (in_word && text ~ /^[0-9]$/) { in_word = 0; text = "" }; end_word()
            while (substr(s, i + 1, 1) ~ /[>&]/) i++
            while (substr(s, i + 1, 1) == " ") i++
            word[++n_words] = ">"; n_words--; redirect = 1; skip_target = 1
            i = target(s, i + 1); continue }
        if (c == " " || c == "\t") { end_word(); if (cases[depth] > 0 && word[n_words] == "in" && word[n_words - 2] == "case") n_words = 0; continue }
        if (c == ";" || c == "|" || c == "&") {
            if (c == "|" && cases[depth] > 0 && pattern_ahead(s, i)) { in_word = 0; text = ""; n_words = 0; continue }
            end_command(); continue
        }
        if (c == "(") { if (substr(s, i + 1, 1) == ")") { in_word = 0; text = ""; n_words = 0; i++; continue }; end_word(); push("p"); continue }
        if (c == ")") {
            if (text == "esac") end_command()
            if (cases[depth] > 0) {
                if (stack[depth] == "c" && depth && !is_test) complain("bash 3.2 cannot read a case inside $(...)")
                in_word = 0; text = ""; n_words = 0; continue
            }
            if (depth) pop()
            continue
        }
        text = text c; in_word = 1
    }
    end_command()
}
function quoted_below(   k) { for (k = depth; k > 0; k--) if (stack[k] == "q") return 1; return 0 }
function skip_quoted(s, i,   end, part) {
    end = index(substr(s, i + 1), "'")
    part = substr(s, i, end + 1)
    line_no += gsub(/\n/, "", part)
    return i + end
}
# The last character of the target of a redirection; commands in it are not read.
function target(s, i,   rest) {
    rest = substr(s, i)
    if (substr(rest, 1, 1) == "\"") { match(substr(rest, 2), /^([^"\\]|\\.)*"/); return i + RLENGTH }
    match(rest, /^[^ \t\n;|&()]*/)
    return i + RLENGTH - 1
}
# Is this | between patterns of a case?
function pattern_ahead(s, i,   rest) {
    rest = substr(s, i + 1)
    match(rest, /^[^\n;]*/)
    rest = substr(rest, 1, RLENGTH)
    return rest ~ /^[^()`&]*\)/ && rest !~ /^[^)]*\$\(/
}

# ---- makefiles: recipes and $(shell ...) ----------------------------------------------------
# The text with $(...) of make replaced, and the commands of $(shell ...) added to `calls`.
function make_text(s,   out, at, k, c, level, inner) {
    while ((at = match(s, /\$[({]/)) > 0) {
        out = out substr(s, 1, at - 1)
        if (substr(out, length(out)) == "$") { out = out substr(s, at + 1, 1); s = substr(s, at + 2); continue } # $$( or $${ of the shell
        level = 1
        for (k = at + 2; k <= length(s) && level; k++) { c = substr(s, k, 1); if (c ~ /[({]/) level++; else if (c ~ /[)}]/) level-- }
        inner = substr(s, at + 2, k - at - 3)
        if (inner ~ /^shell /) calls = calls make_text(substr(inner, 7)) "\n"
        else if (inner ~ /\$/) make_text(inner)
        out = out "$x"
        s = substr(s, k)
    }
    return out s
}
function check_make(   i, s, first) {
    for (i = 1; i <= n_lines; i++) {
        s = text_of[i]; first = line_no = i
        if (s ~ /^[ ]*#/) continue
        if (s ~ /[$][({]file /) complain("make 3.81 has no $(file ...)")
        if (s ~ /[$][({](guile|let|intcmp) /) complain("make 3.81 has no $(guile ...), $(let ...), $(intcmp ...)")
        if (s ~ /^[A-Za-z_.-]+ *!=/ || s ~ /:::?= /) complain("make 3.81 has neither != nor ::=")
        if (s ~ /^(override )?define +[^ ]+ *[:?+]?=/) complain("make 3.81 has no define with an operator")
        if (s ~ /^undefine / || s ~ /: *private /) complain("make 3.81 has neither undefine nor private")
        if (s ~ /\.(ONESHELL|SHELLFLAGS|SHELLSTATUS|RECIPEPREFIX|EXTRA_PREREQS|NOTINTERMEDIATE|WAIT)([^A-Za-z]|$)/) complain("make 3.81 has no .ONESHELL, .SHELLFLAGS, .SHELLSTATUS, .RECIPEPREFIX, .EXTRA_PREREQS, .NOTINTERMEDIATE, .WAIT")
        if (s ~ /^[^\t#]*&:/) complain("make 3.81 has no grouped targets")
        if (s ~ /(--output-sync|--eval|--trace|--no-silent|--shuffle)/) complain("make 3.81 does not have this option")
        if (match(s, /^[A-Za-z_]+ *= *[$][(]eval [A-Za-z_]+/)) {
            split(substr(s, 1, RLENGTH), name_of, / *= *[$][(]eval /)
            if (name_of[1] == name_of[2]) complain("a variable that redefines itself is not safe in make 3.81")
        }
        while (s ~ /\\$/ && i < n_lines) { s = substr(s, 1, length(s) - 1) " " text_of[++i] }
        # In a define, $$ is for make, which reads the text once more.
        if (s ~ /^define /) in_define = 1
        else if (s ~ /^endef/) in_define = 0
        if (in_define) gsub(/\$\$/, "$", s)
        calls = ""
        recipe = s ~ /^\t/
        s = make_text(s)
        gsub(/\$\$/, "$", calls); gsub(/\$\$/, "$", s)
        if (calls != "") check_shell(calls "\n", first)
        if (recipe) { sub(/^\t[@+-]*/, "", s); check_shell(s "\n", first) }
    }
}

function check_file(   i, s) {
    if (is_make) { check_make(); return }
    has_math = 0
    if (FILENAME ~ /[.]awk$/) {
        for (i = 1; i <= n_lines; i++) s = s text_of[i] "\n"
        check_awk(s, 1)
        return
    }
    s = ""
    for (i = 1; i <= n_lines; i++) s = s text_of[i] "\n"
    check_shell(s, 1)
}
BEGIN {
    read_table()
    # Functions may be called before the file that defines them is read.
    for (f = 1; f < ARGC; f++)
        while ((getline line < ARGV[f]) > 0)
            if (match(line, /^ *[a-z_][a-z_0-9]*\(\)/)) { name = substr(line, 1, RLENGTH); gsub(/ /, "", name); defined[name] = 1 }
    for (f = 1; f < ARGC; f++) {
        FILENAME = ARGV[f]
        close(FILENAME)
        n_lines = 0
        while ((getline line < FILENAME) > 0) text_of[++n_lines] = line
        is_make = FILENAME ~ /(\.mk|Makefile)$/
        is_test = FILENAME ~ /(^|\/)tests\//
        awk_only = index(awk_only_files, " " FILENAME " ")
        split("", asked)
        for (i = 1; i <= n_lines; i++)
            for (line = text_of[i]; match(line, /(^|[^a-z])have [a-z0-9-]+/); line = substr(line, RSTART + RLENGTH)) {
                name = substr(line, RSTART, RLENGTH)
                sub(/.*have /, "", name)
                asked[name] = 1
            }
        check_file()
    }
    if (list_all) { sorter = "sort"; for (key in seen) print key | sorter; close(sorter) }
    exit bad
}
