# json.awk - converts strings between JSON, the tools' TSV escapes and plain bytes. Needs
# LC_ALL=C, where a character is a byte. Bytes are stored as numbers, because awks differ in
# how they treat a NUL.

function json_tables(  i) {
    for (i = 1; i < 256; i++) ORD[sprintf("%c", i)] = i
    B64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    for (i = 0; i < 16; i++) HEX[substr("0123456789abcdef", i + 1, 1)] = i
    for (i = 10; i < 16; i++) HEX[substr("ABCDEF", i - 9, 1)] = i
}

# Returns the length of the UTF-8 sequence at BY[i], 0 if invalid; CP gets the code point.
function utf8_at(i, n,   b, len, k, low) {
    b = BY[i]
    if (b < 128) { CP = b; return 1 }
    if (b < 194 || b > 244) return 0
    len = b < 224 ? 2 : b < 240 ? 3 : 4
    if (i + len - 1 > n) return 0
    CP = b - (len == 2 ? 192 : len == 3 ? 224 : 240)
    for (k = 1; k < len; k++) {
        if (BY[i + k] < 128 || BY[i + k] > 191) return 0
        CP = CP * 64 + BY[i + k] - 128
    }
    low = len == 2 ? 128 : len == 3 ? 2048 : 65536
    return CP < low || CP > 1114111 || (CP >= 55296 && CP <= 57343) ? 0 : len
}

function put_utf8(n, cp) {
    if (cp < 128) { BY[++n] = cp; return n }
    if (cp < 2048) BY[++n] = 192 + int(cp / 64)
    else {
        if (cp < 65536) BY[++n] = 224 + int(cp / 4096)
        else {
            BY[++n] = 240 + int(cp / 262144)
            BY[++n] = 128 + int(cp / 4096) % 64
        }
        BY[++n] = 128 + int(cp / 64) % 64
    }
    BY[++n] = 128 + cp % 64
    return n
}

function hex4(s,   i, v) {
    for (i = 1; i <= 4; i++) v = v * 16 + HEX[substr(s, i, 1)]
    return v
}

# Decodes a JSON string, or {"base64": "..."}, into BY[1..]; returns the number of bytes.
function json_bytes(raw,   n, i, c, v, w, bits, unit, at) {
    if (substr(raw, 1, 1) == "{") {
        sub(/^\{"base64": "/, "", raw)
        for (i = 1; i <= length(raw); i++) {
            v = index(B64, substr(raw, i, 1)) - 1
            if (v < 0) break
            w = w * 64 + v
            bits += 6
            if (bits >= 8) {
                bits -= 8
                unit = bits == 4 ? 16 : bits == 2 ? 4 : 1
                BY[++n] = int(w / unit)
                w -= BY[n] * unit
            }
        }
        return n + 0
    }
    for (i = 2; i < length(raw); i++) {
        c = substr(raw, i, 1)
        if (c != "\\") { BY[++n] = ORD[c]; continue }
        c = substr(raw, ++i, 1)
        if (c == "u") {
            v = hex4(substr(raw, i + 1, 4))
            i += 4
            if (v >= 55296 && v < 56320 && substr(raw, i + 1, 2) == "\\u") {
                v = 65536 + (v - 55296) * 1024 + hex4(substr(raw, i + 3, 4)) - 56320
                i += 6
            }
            n = put_utf8(n, v)
        } else {
            at = index("bfnrt", c)
            BY[++n] = at ? substr("8 1210139 ", at * 2 - 1, 2) + 0 : ORD[c]
        }
    }
    return n + 0
}

# Code points that could move a terminal's cursor, reorder its text or hide in a name: those of
# gg_utf8_unsafe.
function unsafe(cp) {
    return cp < 32 || (cp >= 127 && cp < 160) || cp == 173 || cp == 1564 || cp == 6158 || (cp >= 8203 && cp <= 8207) ||
        (cp >= 8232 && cp <= 8238) || (cp >= 8288 && cp <= 8303) || cp == 65279 || (cp >= 65529 && cp <= 65531) ||
        (cp >= 917504 && cp <= 917631)
}

# Returns BY[1..n] as a TSV cell, escaped like the output of the tools.
function bytes_tsv(n,   i, k, len, out) {
    for (i = 1; i <= n; i += len) {
        len = utf8_at(i, n)
        if (!len || (unsafe(CP) && CP != 9 && CP != 10)) {
            if (!len) len = 1
            for (k = 0; k < len; k++) out = out sprintf("\\x%02x", BY[i + k])
        } else if (CP == 9) out = out "\\t"
        else if (CP == 10) out = out "\\n"
        else if (CP == 92) out = out "\\\\"
        else for (k = 0; k < len; k++) out = out sprintf("%c", BY[i + k])
    }
    return out
}

function json_to_tsv(raw) {
    if (raw ~ /^"[ !#-[\]-~]*"$/) return substr(raw, 2, length(raw) - 2)
    return bytes_tsv(json_bytes(raw))
}

function base64(n,   i, v, out) {
    for (i = 1; i <= n; i += 3) {
        v = BY[i] * 65536 + (i < n ? BY[i + 1] * 256 : 0) + (i + 1 < n ? BY[i + 2] : 0)
        out = out substr(B64, int(v / 262144) + 1, 1) substr(B64, int(v / 4096) % 64 + 1, 1) \
            (i < n ? substr(B64, int(v / 64) % 64 + 1, 1) : "=") (i + 1 < n ? substr(B64, v % 64 + 1, 1) : "=")
    }
    return out
}

# Copies the bytes of a string to BY[1..] and returns their number.
function take_bytes(s,   n, i) {
    n = length(s)
    for (i = 1; i <= n; i++) BY[i] = ORD[substr(s, i, 1)]
    return n
}

# Returns any bytes (a path, a message) as a TSV cell.
function tsv_str(s) { return s ~ /^[ -[\]-~]*$/ ? s : bytes_tsv(take_bytes(s)) }

# Returns any bytes as a JSON value.
function json_str(s,   n, i, k, len, out) {
    if (s ~ /^[ !#-[\]-~]*$/) return "\"" s "\""
    n = take_bytes(s)
    for (i = 1; i <= n; i += len) {
        len = utf8_at(i, n)
        if (!len) return "{\"base64\": \"" base64(n) "\"}"
        if (CP == 34 || CP == 92) out = out "\\" sprintf("%c", CP)
        else if (unsafe(CP) && CP > 65535) out = out sprintf("\\udb40\\u%04x", CP - 917504 + 56320)
        else if (unsafe(CP)) out = out sprintf("\\u%04x", CP)
        else for (k = 0; k < len; k++) out = out sprintf("%c", BY[i + k])
    }
    return "\"" out "\""
}
