/* utf8.c - a strict UTF-8 decoder (RFC 3629). */
#include "utf8.h"

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
