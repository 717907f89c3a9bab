/* gguf_text.c - parse KEY=TYPE:VALUE, the text form of a metadata key. */
#include "organ/gg_gguf.h"

#include "base/buf.h"
#include "base/cursor.h"
#include "gguf.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static gg_status bad(gg_error *err, const char *text, const char *why)
{
    gg_fail(err, GG_EUSAGE, "%s: %s", text, why);
    return gg_fix(err, "write KEY=TYPE:VALUE, for example llama.block_count=u32:12");
}

/* Only 0x1f is hexadecimal. 010 is decimal ten, not octal. */
static int base_of(const char *s)
{
    s += *s == '-' || *s == '+';
    return s[0] == '0' && (s[1] == 'x' || s[1] == 'X') ? 16 : 10;
}

static bool parse_unsigned(const char *s, unsigned width, uint64_t *bits)
{
    char *end;
    errno = 0;
    *bits = strtoull(s, &end, base_of(s));
    return s[0] >= '0' && s[0] <= '9' && *end == '\0' && errno == 0 &&
           (width == 64 || *bits >> width == 0);
}

static bool parse_signed(const char *s, unsigned width, uint64_t *bits)
{
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, base_of(s));
    long long top = width == 64 ? INT64_MAX : (1LL << (width - 1)) - 1;
    *bits = (uint64_t)v;
    return end != s && *end == '\0' && errno == 0 && v <= top && v >= -top - 1;
}

static bool parse_float(const char *s, uint32_t type, uint64_t *bits)
{
    char *end;
    bool too_large;
    *bits = 0;
    errno = 0;
    if (type == GG_TYPE_F32) {
        float f = strtof(s, &end);
        too_large = errno == ERANGE && isinf(f);
        memcpy(bits, &f, sizeof f); /* the low four bytes, as hosts are little-endian */
    } else {
        double d = strtod(s, &end);
        too_large = errno == ERANGE && isinf(d);
        memcpy(bits, &d, sizeof d);
    }
    return end != s && *end == '\0' && !too_large;
}

bool gg_parse_scalar(const char *s, uint32_t type, uint8_t le[8])
{
    uint64_t bits = 0;
    unsigned width = (unsigned)gg_type_size(type) * 8;
    bool ok;
    switch (type) {
    case GG_TYPE_BOOL:
        ok = strcmp(s, "true") == 0 || strcmp(s, "false") == 0;
        bits = s[0] == 't';
        break;
    case GG_TYPE_F32:
    case GG_TYPE_F64: ok = parse_float(s, type, &bits); break;
    case GG_TYPE_I8:
    case GG_TYPE_I16:
    case GG_TYPE_I32:
    case GG_TYPE_I64: ok = parse_signed(s, width, &bits); break;
    default: ok = parse_unsigned(s, width, &bits); break;
    }
    gg_put_le64(le, bits);
    return ok;
}

static uint32_t guess_type(const char *value)
{
    uint8_t le[8];
    if (gg_parse_scalar(value, GG_TYPE_U32, le)) return GG_TYPE_U32;
    if (gg_parse_scalar(value, GG_TYPE_I64, le)) return GG_TYPE_I64;
    if (gg_parse_scalar(value, GG_TYPE_BOOL, le)) return GG_TYPE_BOOL;
    return gg_parse_scalar(value, GG_TYPE_F32, le) ? GG_TYPE_F32 : GG_TYPE_STR;
}

/* Sets an array from "a,b,c". Modifies `value`. */
static gg_status set_array(gg_meta *meta, const gg_kv *kv, char *value, const char *text,
                           gg_error *err)
{
    gg_buf data = GG_BUF_INIT;
    gg_status st = GG_OK;
    uint64_t count = 0;
    for (char *item = *value ? value : NULL; item && st == GG_OK; count++) {
        char *comma = strchr(item, ',');
        uint8_t le[8];
        if (comma) *comma = '\0';
        if (kv->elem_type == GG_TYPE_STR) st = gg_array_add_str(&data, item, strlen(item), err);
        else if (!gg_parse_scalar(item, kv->elem_type, le))
            st = bad(err, text, "an element does not fit the type");
        else st = gg_buf_append(&data, le, gg_type_size(kv->elem_type), err);
        item = comma ? comma + 1 : NULL;
    }
    if (st == GG_OK) st = gg_meta_set_array(meta, kv->key, kv->elem_type, count, &data, err);
    gg_buf_free(&data);
    return st;
}

/* Sets data and size to a text or to a scalar, which is put into `le`. */
static gg_status take_value(gg_kv *kv, const char *value, uint8_t le[8], const char *text,
                            gg_error *err)
{
    bool is_text = kv->type == GG_TYPE_STR;
    if (!is_text && !gg_parse_scalar(value, kv->type, le))
        return bad(err, text, "the value does not fit the type");
    kv->data = is_text ? (const uint8_t *)value : le;
    kv->size = is_text ? strlen(value) : gg_type_size(kv->type);
    return GG_OK;
}

static gg_status set_value(gg_meta *meta, gg_kv *kv, char *value, const char *text, gg_error *err)
{
    uint8_t le[8];
    if (kv->type == GG_TYPE_ARR) return set_array(meta, kv, value, text, err);
    gg_status st = take_value(kv, value, le, text, err);
    if (st == GG_OK) st = gg_meta_set(meta, kv, err);
    kv->data = NULL; /* it pointed to a variable of this function */
    return st;
}

/* If *value starts with "TYPE:" or "TYPE[]:", sets the type, moves *value past it and returns
 * true. */
static bool parse_type(char **value, gg_kv *kv)
{
    char *colon = strchr(*value, ':');
    if (!colon) return false;
    size_t n = (size_t)(colon - *value);
    bool array = n > 2 && memcmp(colon - 2, "[]", 2) == 0;
    uint32_t type;
    if (!gg_type_by_name(*value, array ? n - 2 : n, &type) || type == GG_TYPE_ARR) return false;
    kv->type = array ? GG_TYPE_ARR : type;
    kv->elem_type = array ? type : 0;
    *value = colon + 1;
    return true;
}

/* Whether the word before a colon looks like a misspelt type, such as u9, int32, F32 or string.
 * Most words do not: a text may well begin with "note:", "qwen3:" or "https:". */
static bool looks_like_type(const char *word, size_t n)
{
    static const char *const words[] = { "u",       "i",        "f",      "s",      "uint",
                                         "int",     "sint",     "float",  "bf",     "fp",
                                         "str",     "bool",     "arr",    "string", "text",
                                         "integer", "unsigned", "signed", "double", "boolean",
                                         "array" };
    if (n > 2 && memcmp(word + n - 2, "[]", 2) == 0) n -= 2;
    size_t letters = n;
    while (letters > 0 && word[letters - 1] >= '0' && word[letters - 1] <= '9') letters--;
    if (n == 1) return false; /* a single letter is a text, as in "s:" */
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i]) == letters && strncasecmp(words[i], word, letters) == 0) return true;
    return false;
}

/* Refuses a misspelt type; otherwise the value would silently become a string. */
static gg_status check_unknown_type(const char *value, const char *text, gg_error *err)
{
    const char *colon = strchr(value, ':');
    if (!colon || colon[1] == ' ' || strncmp(colon, "://", 3) == 0 ||
        !looks_like_type(value, (size_t)(colon - value)))
        return GG_OK;
    int n = (int)(colon - value);
    gg_fail(err, GG_EUSAGE, "%s: unknown type '%.*s'", text, n, value);
    return gg_fix(err,
                  "use u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool str, or TYPE[] for an array; if "
                  "it is part of a text, write str:%.*s:...",
                  n, value);
}

/* Whether `key` names an element of an array, as in "tokenizer.ggml.token_type[7]", and is not a
 * key itself. Cuts the number off the key then; *i is UINT64_MAX if an array is followed by
 * anything else, which would otherwise silently become a new key. */
static bool names_element(const gg_meta *meta, char *key, uint64_t *i)
{
    char *open = strrchr(key, '['), *end;
    if (!open || open == key || gg_meta_find(meta, key)) return false;
    bool digit = open[1] >= '0' && open[1] <= '9';
    errno = 0;
    *i = strtoull(open + 1, &end, 10);
    if (!digit || errno || strcmp(end, "]") != 0) *i = UINT64_MAX;
    *open = '\0';
    const gg_kv *array = gg_meta_find(meta, key);
    if (*i != UINT64_MAX || (array && array->type == GG_TYPE_ARR)) return true;
    *open = '[';
    return false;
}

static gg_status set_element(gg_meta *meta, const char *key, uint64_t i, char *value,
                             const char *text, gg_error *err)
{
    uint8_t le[8];
    gg_kv one = { .count = 1 };
    const gg_kv *array = gg_meta_find(meta, key);
    if (!array || array->type != GG_TYPE_ARR)
        return gg_fail(err, GG_EUSAGE, "%s: there is no array '%s'", text, key);
    if (i == UINT64_MAX)
        return gg_fail(err, GG_EUSAGE, "%s: one element of an array is written as %s[7]", text,
                       key);
    if (i >= array->count) {
        gg_fail(err, GG_EUSAGE, "%s: the array has %llu elements, which are numbered from 0", text,
                (unsigned long long)array->count);
        return err->status;
    }
    if (!parse_type(&value, &one)) one.type = array->elem_type;
    if (one.type != array->elem_type) return bad(err, text, "the elements have another type");
    gg_status st = take_value(&one, value, le, text, err);
    return st == GG_OK ? gg_meta_set_element(meta, key, i, &one, err) : st;
}

gg_status gg_meta_set_text(gg_meta *meta, const char *text, gg_error *err)
{
    char *copy = strdup(text);
    if (!copy) return gg_fail(err, GG_ENOMEM, "no memory for a metadata value");
    char *value = strchr(copy, '=');
    gg_status st;
    if (!value || value == copy) {
        st = bad(err, text, "there is no '=' after a key");
    } else {
        *value++ = '\0';
        gg_kv kv = { .key = copy, .key_len = strlen(copy), .count = 1 };
        const gg_kv *old = gg_meta_find(meta, copy);
        uint64_t i = 0;
        if (*value && names_element(meta, copy, &i)) {
            st = set_element(meta, copy, i, value, text, err);
        } else if (*value == '\0') {
            st = gg_meta_delete(meta, copy) ? GG_OK
                                            : bad(err, text, "the key to delete does not exist");
        } else {
            st = GG_OK;
            if (!parse_type(&value, &kv)) {
                st = check_unknown_type(value, text, err);
                kv.type = old ? old->type : guess_type(value);
                kv.elem_type = old ? old->elem_type : 0;
            }
            if (st == GG_OK) st = set_value(meta, &kv, value, text, err);
        }
    }
    free(copy);
    return st;
}
