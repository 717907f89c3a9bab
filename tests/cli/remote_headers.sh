#!/bin/sh
# shellcheck disable=SC1091,SC2016,SC2034,SC2154
# remote_headers.sh - thousands of headers of servers, made from sound ones by changes that a fixed sequence of numbers
# selects, through the functions of organ-remote that read them, in each awk that is there. An answer
# counts only if it says exactly which bytes of which file it has, and has them.
. "$(dirname "$0")/lib.sh"
answers=300
! exhaustive || answers=4000

# The functions, as they are in the script, without a server and curl.
for f in judge promised_size; do
    sed -n "/^$f() {/,/^}/p" scripts/organ-remote
done > "$T/functions.sh"
check_text "$(grep -cE '^(judge|promised_size)' "$T/functions.sh")" 2 "the functions of organ-remote"
cat >> "$T/functions.sh" << 'EOF'
shown() { printf '%s\n' "$1"; }
request() { :; }
curl_with() { :; }
EOF

# make SEED TOTAL N: answers to N ranges of a file of TOTAL bytes in this folder, the first of them sound: the
# request in list, the headers in pN.head, the bytes in pN, and in want the verdict and the kind of the change.
make() {
    awk -v state="$1" -v total="$2" -v n="$3" '
    function below(n) { state = (state * 1664525 + 1013904223) % 4294967296; return int(state / 256) % n }
    function pick(texts,   t, k) { k = split(texts, t, "|"); return t[1 + below(k)] }
    function digits(v) { return sprintf("%.0f", v) }
    BEGIN {
        large = "999999999999999999999999999999"
        for (i = 1; i <= n; i++) {
            name = "p" i
            from = 4096 * below(int(total / 4096))
            if (i > 1 && below(8) == 0) from = 0
            to = from + below(200)
            if (to > total - 1) to = total - 1
            size = to - from + 1
            first = digits(from); last = digits(to); all = digits(total)
            status = "206 Partial Content"; tag = "ETag: \"a-1\""
            before = ""; field = "Content-Range: bytes "; end = "\r"
            length_line = "Content-Length: " size
            kind = i == 1 ? 0 : below(10); how = "ok"
            if (kind == 0 && i > 1) { # what changes nothing
                if (below(2)) end = ""
                if (below(2)) field = pick("content-range: bytes |CONTENT-RANGE: BYTES |Content-Range: Bytes ")
                line = end "\n"
                if (below(2))
                    before = "HTTP/1.1 302 Found" line "Content-Range: bytes 7-3/1" line "ETag: \"b\"" line line
                if (below(2))
                    before = before "HTTP/2 200" line "X-" sprintf("%0" below(3000) "d", 0) ": \033[1m" line line
            } else if (kind == 1) { # a number that is another, or none
                how = "bad"
                text = pick("-1|+1|1e3|0x10|inf|nan|*||" large \
                    "|1000000000000000|18446744073709551616|1.5|,|$(id)|`id`|%s%n|9 9")
                where = below(3)
                if (where == 0) first = text; else if (where == 1) last = text; else all = text
            } else if (kind == 2) { # numbers that do not fit
                how = "bad"
                where = below(4)
                if (where == 0) first = digits(from + 1)
                else if (where == 1) last = digits(to + 1)
                else if (where == 2) all = digits(total + 1 + below(9))
                else { first = digits(to + 4096); last = digits(from) }
            } else if (kind == 3) {
                status = pick("404 Not Found|401|301|204|100|416|200 OK|999999999999x|-206|418")
                how = status ~ /^999/ ? "again" : "bad"
            } else if (kind == 4) { how = "again"; status = pick("500|503 Busy|429|408|" large "|x|0|") }
            else if (kind == 5) { how = "bad"; size += 1 + below(50) }
            else if (kind == 6) { how = "again"; size -= 1 + below(size) }
            else if (kind == 7) {
                how = "bad"
                field = pick("Content-Range: |Content-Range: items |X-Content-Range: bytes |" \
                    "Content-Range: bytes=|Content-Range:bytes ")
            }
            else if (kind == 8) { how = "bad"; tag = pick("ETag: \"a-2\"|ETag: |ETag: ../../x|etag: $(touch x)") }
            else if (kind == 9) { # one character is another: any verdict, but the numbers decide
                how = "any"
                at = 1 + below(length(first last all) + 2)
                text = first "-" last "/" all
                text = substr(text, 1, at - 1) sprintf("%c", 32 + below(95)) substr(text, at + 1)
            }
            head = name ".head"
            printf "%s", before > head
            print "HTTP/1.1 " status end > head
            print field (kind == 9 ? text : first "-" last "/" all) end > head
            print length_line end > head
            print tag end > head
            print end > head
            close(head)
            if (kind == 9 && text == first "-" last "/" all) how = "ok"
            else if (kind == 9) {
                split(text, part, /[-\/]/)
                how = "ok"
                if (text !~ /^[0-9]+-[0-9]+\/[0-9]+$/) how = "bad"
                if (part[1] + 0 != from || part[2] + 0 != to || part[3] + 0 != total) how = "bad"
            }
            if (size > 0) { printf "%0" size "d", 0 > name; close(name) }
            printf "%.0f %.0f %s\n", from, to, name > "list"
            print how, kind, name > "want"
        }
    }'
}

mkdir "$T/awks" "$T/first"
for awk in mawk original-awk gawk 'busybox awk' awk; do
    have "${awk% *}" "headers of servers in this awk" || continue
    at=$T/awks/${awk%% *}
    mkdir "$at"
    printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v "${awk%% *}")${awk#"${awk%% *}"}" > "$at/awk"
    chmod +x "$at/awk"
    # The size that a server states for a whole file: digits that each shell and awk can hold, or nothing.
    for pair in '206=bytes 0-0/5000000001=5000000001' '206=bytes 0-0/*=' '206=bytes 0-0/1e9=' '206=bytes 0-0/-1=' \
        '206=bytes 0-0/1000000000000000=' '206=bytes 0-0/0x10=' '206=$(id)=' '200=bytes 0-0/7=' '206==' \
        '206=bytes 0-0/ 7='; do
        printf 'HTTP/1.1 302 Found\r\nContent-Length: 9\r\n\r\nHTTP/1.1 %s x\r\nContent-Range: %s\r\n\r\n' \
            "${pair%%=*}" "$(echo "$pair" | cut -d= -f2)" > "$T/first/first.head"
        check_text "$(PATH=$at:$PATH; work=$T/first; . "$T/functions.sh"; promised_size x)" "${pair##*=}" \
            "$awk: a size, $pair"
    done
done

# Sizes that 31, 32 and 53 bits hold, and do not hold.
for total in 100000 2147483648 5000000001 999999999999999; do
    mkdir "$T/$total"
    (cd "$T/$total" && : > says && make "$total" "$total" "$answers") || bad "no answers"
    for at in "$T/awks"/*; do
        what="${at##*/}, $total"
        rm -f "$T/$total/memory.file"
        (
            PATH=$at:$PATH
            . "$T/functions.sh"
            cd "$T/$total" && judge http://server/x "$T/$total/memory" > ../verdicts 2> ../says
        ) && ok || bad "$what: judge failed"
        check_text "$(head -c 300 "$T/says")" "" "$what: what it says"
        check_text "$(cat "$T/$total/memory.file")" "$total a-1" "$what: the size that is kept"
        awk 'FILENAME ~ /list$/ { asked[$3] = $1 " " $2; next }
            FILENAME ~ /want$/ { want[++n] = $1; kind[n] = $2; name[n] = $3; next }
            {
                k++
                if ($1 != want[k] || $2 " " $3 != asked[name[k]] || $4 != name[k] || /[\001-\037]/)
                    print "change " kind[k] ", " want[k] " wanted: " $0
            }
            END { if (k != n) print n " answers, " k " verdicts" }' \
            "$T/$total/list" "$T/$total/want" "$T/verdicts" > "$T/wrong"
        check_text "$(head -n 3 "$T/wrong")" "" "$what: verdicts"
    done
    check_absent "$T/$total/x" "what a header names"
done
finish
