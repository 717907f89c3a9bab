/* text.h - compare and hash texts that need not end with a NUL. Internal. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The order of two texts by their bytes, for qsort; of two that begin alike the shorter is first.
 */
static inline int gg_text_order(const void *a, size_t a_len, const void *b, size_t b_len)
{
    size_t n = a_len < b_len ? a_len : b_len;
    int c = n ? memcmp(a, b, n) : 0;
    return c ? c : (a_len > b_len) - (a_len < b_len);
}

/* Whether the n bytes are this text, or begin or end with it and are longer. */
static inline bool gg_text_is(const void *bytes, size_t n, const char *text)
{
    return n == strlen(text) && memcmp(bytes, text, n) == 0;
}

static inline bool gg_text_begins(const void *bytes, size_t n, const char *start)
{
    return n > strlen(start) && memcmp(bytes, start, strlen(start)) == 0;
}

static inline bool gg_text_ends(const char *bytes, size_t n, const char *end)
{
    size_t m = strlen(end);
    return n > m && memcmp(bytes + n - m, end, m) == 0;
}

/* Copies n bytes and a NUL to out[size]. Returns false, and makes it empty, if they do not fit. */
static inline bool gg_text_copy(char *out, size_t size, const char *text, size_t n)
{
    bool fits = n < size;
    if (!fits) n = 0;
    if (n) memcpy(out, text, n);
    out[n] = '\0';
    return fits;
}

/* Gets the next word of a list at *at, whose words are separated by spaces or line breaks. Returns
 * false at the end. */
static inline bool gg_text_next_word(const char **at, const char **word, size_t *len)
{
    *word = *at + strspn(*at, " \n");
    *len = strcspn(*word, " \n");
    *at = *word + *len;
    return *len > 0;
}

/* Whether a list has this word. */
static inline bool gg_text_has_word(const char *list, const char *word, size_t len)
{
    const char *w;
    size_t n;
    while (gg_text_next_word(&list, &w, &n))
        if (n == len && memcmp(w, word, len) == 0) return true;
    return false;
}

/* Adds n bytes to a hash (FNV-1a), which starts from any number, such as GG_HASH. */
#define GG_HASH UINT64_C(0xcbf29ce484222325)
static inline uint64_t gg_hash(uint64_t h, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)bytes[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* The value of a hexadecimal digit, or -1. */
static inline int gg_hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
