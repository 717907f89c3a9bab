/* base64.c - base64 encodes three bytes as four characters of six bits each:
 *
 *     byte   |    0    |    1    |    2    |
 *     bits   |765432 10|7654 3210|76 543210|
 *     char   |   0  |   1   |   2   |   3  |
 *
 * If one or two bytes remain at the end, they are padded with zero bits and '='.
 */
#include "base64.h"

#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t gg_base64_length(size_t n)
{
    return n / 3 * 4 + (n % 3 ? 4 : 0);
}

void gg_base64_encode(const void *bytes, size_t n, char *out)
{
    const unsigned char *b = bytes;
    for (; n >= 3; n -= 3, b += 3) {
        uint32_t v = (uint32_t)b[0] << 16 | (uint32_t)b[1] << 8 | b[2];
        *out++ = alphabet[v >> 18];
        *out++ = alphabet[v >> 12 & 63];
        *out++ = alphabet[v >> 6 & 63];
        *out++ = alphabet[v & 63];
    }
    if (n == 0) return;
    uint32_t v = (uint32_t)b[0] << 16 | (n == 2 ? (uint32_t)b[1] << 8 : 0);
    out[0] = alphabet[v >> 18];
    out[1] = alphabet[v >> 12 & 63];
    out[2] = n == 2 ? alphabet[v >> 6 & 63] : '=';
    out[3] = '=';
}

/* The value 0..63 of a character, or 64 if it is not in the alphabet. */
static uint32_t value_of(char c)
{
    if (c >= 'A' && c <= 'Z') return (uint32_t)(c - 'A');
    if (c >= 'a' && c <= 'z') return (uint32_t)(c - 'a') + 26;
    if (c >= '0' && c <= '9') return (uint32_t)(c - '0') + 52;
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

bool gg_base64_decode(const char *text, size_t len, void *out, size_t *n)
{
    unsigned char *o = out;
    *n = 0;
    if (len % 4) return false;
    size_t pad = 0;
    if (len && text[len - 1] == '=') pad = text[len - 2] == '=' ? 2 : 1;
    for (size_t i = 0; i < len; i += 4) {
        size_t chars = i + 4 == len ? 4 - pad : 4;
        uint32_t v = 0;
        for (size_t k = 0; k < 4; k++) {
            uint32_t c = k < chars ? value_of(text[i + k]) : 0;
            if (c > 63) return false;
            v = v << 6 | c;
        }
        /* 2 characters carry 12 bits for 1 byte, 3 characters carry 18 bits for 2 bytes. */
        if ((chars == 2 && (v & 0xffff)) || (chars == 3 && (v & 0xff))) return false;
        *o++ = (unsigned char)(v >> 16);
        if (chars > 2) *o++ = (unsigned char)(v >> 8);
        if (chars > 3) *o++ = (unsigned char)v;
    }
    *n = (size_t)(o - (unsigned char *)out);
    return true;
}
