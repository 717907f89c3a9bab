#!/bin/sh
# related.sh - prints docs/related.svg, the picture of README.md: the cosines of the tensors of lab-verse with
# those of a fine-tune of the same base, and with those of a model that was trained from other random values.
set -eu
cd "$(dirname "$0")/../.."
BIN=${BIN:-build/bin}
L=tests/data/lab
for other in code stranger; do
    "$BIN/organ-compare" -q "$L/lab-verse-q4_k_m.gguf" "$L/lab-$other-q4_k_m.gguf" | sed "s/^/$other	/" || [ $? = 1 ]
done | awk -F '\t' '
$2 == "name" { for (i = 1; i <= NF; i++) column[$i] = i; next }
$2 ~ /^blk\.[0-9]+\..*\.weight$/ && $2 !~ /norm/ {
    split($2, part, ".")
    if (!(part[3] in row)) { row[part[3]] = rows + 0; role[rows++] = part[3] }
    cosine[$1, part[2], row[part[3]]] = $column["cosine"]
}
function text(x, y, size, anchor, words) {
    printf "<text x=\"%d\" y=\"%d\" font-size=\"%d\" text-anchor=\"%s\" fill=\"#222\">%s</text>\n",
        x, y, size, anchor, words
}
function grid(left, model, title,   b, r, c) {
    text(left, 26, 15, "start", title)
    for (b = 0; b < 4; b++) {
        text(left + 62 * b + 30, 50, 12, "middle", "block " b)
        for (r = 0; r < rows; r++) {
            c = cosine[model, b, r]
            if (c < 0) c = 0
            printf "<rect x=\"%d\" y=\"%d\" width=\"60\" height=\"24\" fill=\"rgb(%d,%d,%d)\"/>\n",
                left + 62 * b, 58 + 26 * r, 238 - 214 * c, 241 - 150 * c, 245 - 90 * c
            printf "<text x=\"%d\" y=\"%d\" font-size=\"12\" text-anchor=\"middle\" fill=\"%s\">%.2f</text>\n",
                left + 62 * b + 30, 75 + 26 * r, (c > 0.5) ? "#fff" : "#222", c
        }
    }
}
END {
    height = 72 + 26 * rows
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"%d\" viewBox=\"0 0 640 %d\" " \
        "font-family=\"sans-serif\">\n<rect width=\"640\" height=\"%d\" fill=\"#fff\"/>\n", height, height, height
    for (r = 0; r < rows; r++) text(98, 75 + 26 * r, 12, "end", role[r])
    grid(106, "code", "a fine-tune of the same base")
    grid(376, "stranger", "trained from another seed")
    print "</svg>"
}'
