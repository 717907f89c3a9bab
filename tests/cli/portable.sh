#!/bin/sh
# shellcheck disable=SC1091,SC2016
# portable.sh - scripts/check-portable.sh notices options outside POSIX, programs that awks read differently, and
# features that make 3.81 lacks.
. "$(dirname "$0")/lib.sh"

# noticed FILE TEXT COMMANDS: a file with these commands is refused, and the message names TEXT.
noticed() {
    printf '%s\n' '#!/bin/sh' "$3" > "$T/$1"
    check_exit 1 "$3" sh "$PWD/scripts/check-portable.sh" "$T/$1"
    if grep -qF -e "$T/$1:2: $2" "$T/out" || grep -qF -e "$T/$1:3: $2" "$T/out"; then ok; else \
        bad "no '$2' for: $3: $(cat "$T/out")"; fi
}
# All scripts take several seconds; make lint reads them, too.
set -- scripts/organ-remote scripts/lib/common.sh scripts/chimera.mk
if exhaustive; then set --; fi
check "the scripts of the suite" sh scripts/check-portable.sh "$@"
check_text "$(cat "$T/out")" "" "no complaints"
check "a list" sh scripts/check-portable.sh --list
for used in "awk -f" "sort -u" "xargs -P (not in POSIX)" "find -newer" "readlink" "tail -n"; do
    if grep -qxF -e "$used" "$T/out"; then ok; else bad "not in the list: $used"; fi
done

noticed a.sh "'sed -i'" 'sed -i s/a/b/ file'
noticed a.sh "'sed -E'" 'echo a | sed -n -E s/a+/b/p'
noticed a.sh "'readlink -f'" 'self=$(readlink -f "$0"); here=${self%/*}'
noticed a.sh "'readlink -f'" '[ "$(readlink -f "$a")" = b ] || echo "it'"'"'s"'
noticed a.sh "'grep -P'" 'if ! grep -qP x file; then :; fi'
noticed a.sh "'grep" "grep 'a\\|b' file"
noticed a.sh "'sort -V'" 'while read -r x; do echo "$x" | sort -V; done'
noticed a.sh "'head -c'" 'head -c 4 file'
noticed a.sh "'cp -a'" 'cp -a a b && rm -rf a'
noticed a.sh "'xargs -0'" 'xargs -0 rm < list'
noticed a.sh "'xargs -P'" 'xargs -P 4 rm < list'
noticed a.sh "'find -printf'" 'find . -name "*.c" -printf x'
noticed a.sh "'date -d'" 'x=$((1 + $(date -d now +%s)))'
noticed a.sh "'date %N'" 'date +%s.%N'
noticed a.sh "'dd iflag=fullblock'" 'cat x | dd bs=1 iflag=fullblock'
noticed a.sh "'sleep 0.1'" 'sleep 0.1'
noticed a.sh "'mktemp -d'" 'T=$(mktemp -d)'
noticed a.sh "'sed s/\\t[0-9]*$//': \\t, and" "sed 's/\\t[0-9]*\$//' file"
noticed a.sh "'sed s/a/b\\n/': \\t, and \\n" "x=\$(echo a | sed -e 's/a/b\\n/')"
noticed a.sh "'sed 0,/a/p': only GNU" "sed -n '0,/a/p' file"
noticed a.sh "'sed /a/,+2p': only GNU" "sed -n '/a/,+2p' file"
noticed a.sh "'head -n -1'" 'head -n -1 file'
noticed a.sh "'find -perm /111'" 'find . -perm /111'
noticed a.sh 'printf of dash has no' "printf '\\x41' > file"
noticed a.sh 'printf of dash has no' "printf '%q' \"\$x\""
for program in stat tac seq timeout sha256sum realpath; do noticed a.sh "the utility '$program'" \
    "f() { x=1 $program a; }"; done
noticed a.sh "the utility 'tac'" 'case $1 in
a | b) tac "$2" ;; esac'
noticed a.sh "the utility 'tac'" 'run_tool tac file'
noticed a.sh "bash 3.2" 'x=$(case $1 in a) echo b ;; esac)'
printf '%s\n' '#!/bin/sh' '# sed -i' "echo 'sed -i' \"readlink -f\" # tac" \
    "sed 's/	/\\\\t/; N; s/\\\\\\n *//; 10,20d' a | head -n 1" "printf '%s\\\\x' '\\x'" \
    "cat <<'EOF' | sed -n p" 'sed -i' EOF \
    'case $1 in stat | seq) echo "$(cat "${x:-"a b"}")" ;; esac' 'f() { echo tac; }; f' \
    'case $1 in a) for x in json yaml; do echo "$x"; done ;; esac' > "$T/a.sh"
check "comments, texts and patterns are no commands" sh "$PWD/scripts/check-portable.sh" "$T/a.sh"

# ---- what awks read differently -----------------------------------------------------------------
paren='put the comparison, or the file of the redirection, in parentheses'
noticed a.sh "$paren" "awk '{ printf k >= 99.95 ? \"%.0f\" : \"%.1f\", k }'"
noticed a.sh "$paren" "x=\$(awk -F '\\t' -v a=\"\$b\" '{ print \$1 > 4 ? 1 : 0 }' \"\$f\")"
noticed a.sh "$paren" "awk '{ print a, (b) > c d }' file"
noticed a.sh "$paren" "awk '
    { if (a) print b > dir \"/\" c }' file"
for comparison in '==' '!=' '<' '<='; do
    noticed a.sh 'original-awk reads a comparison behind print' "awk '{ print a, b $comparison c ? 1 : 2 }'"
done
noticed a.sh 'a regular expression of awk goes on' "busybox awk '\$0 !~ /^a,
    b/ { bad = 1 }'"
noticed a.sh 'a string of awk goes on' "awk '{ x = \"a
    b\" }'"
noticed a.sh 'mawk 1.3.4-20200120 has no {n}' "awk '/^[0-9]{4}\$/ { n++ }'"
noticed a.sh 'original-awk ends a regular expression' "awk '{ gsub(/[/]/, \"\") }'"
noticed a.sh 'only gawk and busybox awk' "awk '/a\\sb/ { n++ }'"
noticed a.sh 'mawk has no func' "awk 'func f(x) { return x }'"
noticed a.sh 'mawk has no **' "awk '{ print \$1 ** 2 }'"
noticed a.sh 'put the file of getline' "awk '{ while ((getline line < dir \"/x\") > 0) n++ }'"
noticed a.sh 'only gawk has gensub' "awk '{ x = gensub(/a/, \"b\", 1) }'"
noticed a.awk "$paren" '{ print x > y ? 1 : 2 }'
noticed a.sh 'busybox awk may lack ^' "awk -F '\\t' '{ x = 2 ^ \$1 }'"
noticed a.sh 'busybox awk may lack log' "awk '{ print log(\$1) }'"
noticed a.awk 'busybox awk has no * in formats' '{ printf "%-*s|", w, $1 }'
mkdir "$T/tests" "$T/tests/cli"
noticed tests/cli/a.sh "the utility 'jq'" 'jq . file'
noticed tests/cli/a.sh "'sed -i'" 'sed -i s/a/b/ file'
cat > "$T/tests/cli/a.sh" << 'END'
have() { :; }
mathawk() { :; }
mathawk '{ print exp($1), 2 ^ 3 }' file
if have jq "JSON read by jq"; then jq . file | grep -o x; fi
mkmodel "$T/x.gguf" a
END
check "what tests may use" sh "$PWD/scripts/check-portable.sh" "$T/tests/cli/a.sh"
cat > "$T/a.sh" << 'END'
awk '{ print > "file"; printf("%s\n", a > b) > (dir "/" c); print (a > b) ? 1 : 2 >> f[a > b] } # print a >= b
    { print (a == b), (a < b) }
    { while ((getline line < (dir "/x")) > 0) { getline; getline x[1] < file }
        gsub(/\\s/, "\\\\t"); "date" | getline now }
    $1 > 3 && a / 2 > b / 3 { x = $2 / 4; print x / 2, y++ / 2, "a/b" > out; n = length / 2 }
    /^[^"\/]*[{]/ || !/[]a]/ { print a[b > c] | "sort > file"; if (a > b) print; else print c > $1 }'
END
check "awk that each awk reads alike" sh "$PWD/scripts/check-portable.sh" "$T/a.sh"

noticed a.mk 'make 3.81 has no $(file ...)' 'x := $(if y,$(file < name))'
noticed a.mk 'make 3.81 has neither != nor ::=' 'x != date'
noticed a.mk 'make 3.81 has neither != nor ::=' 'x ::= date'
noticed a.mk 'make 3.81 has no define' 'define x ='
noticed a.mk 'make 3.81 has neither undefine nor private' 'a: private b := c'
noticed a.mk 'make 3.81 has neither undefine nor private' 'undefine x'
noticed a.mk 'make 3.81 has no .ONESHELL' '.ONESHELL:'
noticed a.mk 'make 3.81 has no .ONESHELL' 'a: .SHELLFLAGS = -c'
noticed a.mk 'make 3.81 has no grouped targets' 'a b &: c'
noticed a.mk 'a variable that redefines itself' 'x = $(eval x := $$(y))$(x)'
noticed a.mk "the utility 'tac'" 'x := $(if $(y),$(shell cat $(call f,$(z)) | tac))'
noticed a.mk "'sed -i'" 'a: b
	@sed -i s/a/b/ $@'
printf '%b\n' 'define a' '$(1): $(2)\n\t@mkdir -p $$(@D)' 'endef' 'x := $(shell sed -n p $(call q,$(1)))' \
    'b: c\n\tfor x in $$(cat c); do cp $${x%%/} $$x; done' > "$T/a.mk"
check "a makefile" sh "$PWD/scripts/check-portable.sh" "$T/a.mk"
finish
