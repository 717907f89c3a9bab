/* utf8.c - a strict UTF-8 decoder (RFC 3629), and any bytes as one line of text that is safe to
 * print, and back. */
#include "error.h"

#include "organ/gg_status.h"
#include "text.h"
#include "utf8.h"

bool gg_utf8_unsafe(uint32_t cp)
{
    static const uint32_t ranges[][2] = {
        { 0, 0x1f },          { 0x7f, 0x9f },     { 0xad, 0xad },     { 0x61c, 0x61c },
        { 0x180e, 0x180e },   { 0x200b, 0x200f }, { 0x2028, 0x202e }, { 0x2060, 0x2065 },
        { 0x2066, 0x2069 },   { 0x206a, 0x206f }, { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb },
        { 0xe0000, 0xe007f },
    };
    if (cp >= 0x20 && cp < 0x7f) return false;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (cp >= ranges[i][0] && cp <= ranges[i][1]) return true;
    return false;
}

static void put(char *out, size_t size, size_t *used, char c)
{
    if (*used + 1 < size) out[*used] = c;
    *used += 1;
}

static void put_hex(char *out, size_t size, size_t *used, unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";
    put(out, size, used, '\\');
    put(out, size, used, 'x');
    put(out, size, used, digits[byte >> 4]);
    put(out, size, used, digits[byte & 15]);
}

size_t gg_escape(const char *bytes, size_t len, char *out, size_t size)
{
    size_t used = 0, i = 0;
    while (i < len) {
        if (bytes[i] >= ' ' && bytes[i] <= '~' && bytes[i] != '\\') {
            put(out, size, &used, bytes[i++]);
            continue;
        }
        uint32_t cp = 0;
        size_t n = gg_utf8_next(bytes + i, len - i, &cp);
        if (n == 0 || (gg_utf8_unsafe(cp) && cp != '\t' && cp != '\n')) {
            size_t stop = i + (n ? n : 1);
            for (; i < stop; i++) put_hex(out, size, &used, (unsigned char)bytes[i]);
            continue;
        }
        if (cp == '\t' || cp == '\n' || cp == '\\') {
            put(out, size, &used, '\\');
            put(out, size, &used, cp == '\t' ? 't' : cp == '\n' ? 'n' : '\\');
        } else {
            for (size_t k = 0; k < n; k++) put(out, size, &used, bytes[i + k]);
        }
        i += n;
    }
    if (size > 0) out[used < size ? used : size - 1] = '\0';
    return used;
}

bool gg_unescape(char *bytes, size_t *len)
{
    size_t n = 0;
    for (size_t i = 0; i < *len; i++) {
        if (bytes[i] != '\\') {
            bytes[n++] = bytes[i];
            continue;
        }
        if (++i >= *len) return false;
        if (bytes[i] == 't') bytes[n++] = '\t';
        else if (bytes[i] == 'n') bytes[n++] = '\n';
        else if (bytes[i] == '\\') bytes[n++] = '\\';
        else if (bytes[i] == 'x' && i + 2 < *len && gg_hex_digit(bytes[i + 1]) >= 0 &&
                 gg_hex_digit(bytes[i + 2]) >= 0) {
            bytes[n++] = (char)(gg_hex_digit(bytes[i + 1]) * 16 + gg_hex_digit(bytes[i + 2]));
            i += 2;
        } else {
            return false;
        }
    }
    *len = n;
    return true;
}

/* ---- the decoder ----------------------------------------------------------------------- */

size_t gg_utf8_next(const char *s, size_t len, uint32_t *code_point)
{
    if (len == 0) return 0;
    const unsigned char *u = (const unsigned char *)s;
    if (u[0] < 0x80) {
        *code_point = u[0];
        return 1;
    }
    size_t n = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
    if (u[0] < 0xc2 || u[0] > 0xf4 || len < n) return 0;
    uint32_t cp = u[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((u[i] & 0xc0) != 0x80) return 0;
        cp = cp << 6 | (u[i] & 0x3fu);
    }
    static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    if (cp < least[n] || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff)) return 0;
    *code_point = cp;
    return n;
}

bool gg_utf8_valid(const char *s, size_t len)
{
    uint32_t cp;
    for (size_t i = 0; i < len;) {
        size_t n = gg_utf8_next(s + i, len - i, &cp);
        if (n == 0) return false;
        i += n;
    }
    return true;
}
