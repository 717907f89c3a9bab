/* manifest_json.c - convert metadata values to JSON and back, exactly.
 *
 * Integers are JSON integers of any size. Floats are the shortest decimal that reads back to the
 * same bits, or {"bits": "7fc00001"} for NaN and infinities. A bool is true or false; any other
 * byte, which ggml treats as true, is written as a number. Strings that are not UTF-8 are
 * {"base64": ...}.
 */
#include "manifest_json.h"

#include "base/base64.h"
#include "base/buf.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/float_bits.h"
#include "base/text.h"
#include "base/utf8.h"
#include "gguf/gguf.h"
#include "json/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing --------------------------------------------------------------- */

gg_status gg_mj_put_bytes(const gg_json_out *o, const char *bytes, size_t n, gg_error *err)
{
    if (gg_utf8_valid(bytes, n)) return gg_json_put_string(o, bytes, n, err);
    char text[1024];
    gg_json_put_text(o, "{\"base64\": \"", err);
    for (size_t done = 0; done < n && err->status == GG_OK; done += 768) { /* a multiple of 3 */
        size_t part = n - done < 768 ? n - done : 768;
        gg_base64_encode(bytes + done, part, text);
        gg_json_put_raw(o, text, gg_base64_length(part), err);
    }
    return gg_json_put_text(o, "\"}", err);
}

/* In UTF-8 text a chunk ends between two characters, so that the escaped text is the same as that
 * of the whole. */
gg_status gg_mj_put_escaped(const gg_json_out *o, const char *text, size_t n, gg_error *err)
{
    char out[4096]; /* a byte becomes at most four */
    while (n > 0 && err->status == GG_OK) {
        size_t step = n < 1000 ? n : 1000;
        while (step < n && step > 996 && !gg_utf8_begins(text[step])) step--;
        if (step < n && !gg_utf8_begins(text[step])) step = 1000; /* not UTF-8 anyway */
        gg_json_put_raw(o, out, gg_escape(text, step, out, sizeof out), err);
        text += step;
        n -= step;
    }
    return err->status;
}

gg_status gg_mj_put(const gg_json_out *o, gg_error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    for (const char *p = format; *p;) {
        size_t n = strcspn(p, "%");
        gg_json_put_raw(o, p, n, err);
        p += n;
        if (*p == '\0') break;
        if (p[1] == 'u') {
            gg_json_put_u64(o, va_arg(args, uint64_t), err);
        } else if (p[1] == 'i') {
            int64_t v = va_arg(args, int64_t);
            if (v >= 0) gg_json_put_i64(o, v, err);
            else gg_json_put_text(o, "null", err);
        } else {
            const char *s = va_arg(args, const char *);
            size_t len = p[1] == 'b' ? va_arg(args, size_t) : s ? strlen(s) : 0;
            if (!s) gg_json_put_text(o, "null", err);
            else if (p[1] == 't') gg_json_put_raw(o, s, len, err);
            else gg_mj_put_bytes(o, s, len, err);
        }
        p += 2;
    }
    va_end(args);
    return err->status;
}

static gg_status put_f32(const gg_json_out *o, uint32_t bits, gg_error *err)
{
    char text[32];
    float v = gg_bits_float(bits);
    if (isfinite(v)) return gg_json_put_f32(o, v, err);
    snprintf(text, sizeof text, "{\"bits\": \"%08x\"}", bits);
    return gg_json_put_text(o, text, err);
}

static gg_status put_f64(const gg_json_out *o, uint64_t bits, gg_error *err)
{
    double v;
    char text[40];
    memcpy(&v, &bits, sizeof v);
    if (isfinite(v)) return gg_json_put_f64(o, v, err);
    snprintf(text, sizeof text, "{\"bits\": \"%016llx\"}", (unsigned long long)bits);
    return gg_json_put_text(o, text, err);
}

static gg_status put_scalar(const gg_json_out *o, uint32_t type, const uint8_t *p, gg_error *err)
{
    switch (type) {
    case GG_TYPE_U8: return gg_json_put_u64(o, p[0], err);
    case GG_TYPE_I8: return gg_json_put_i64(o, (int8_t)p[0], err);
    case GG_TYPE_U16: return gg_json_put_u64(o, gg_le16(p), err);
    case GG_TYPE_I16: return gg_json_put_i64(o, (int16_t)gg_le16(p), err);
    case GG_TYPE_U32: return gg_json_put_u64(o, gg_le32(p), err);
    case GG_TYPE_I32: return gg_json_put_i64(o, (int32_t)gg_le32(p), err);
    case GG_TYPE_U64: return gg_json_put_u64(o, gg_le64(p), err);
    case GG_TYPE_I64: return gg_json_put_i64(o, (int64_t)gg_le64(p), err);
    case GG_TYPE_F32: return put_f32(o, gg_le32(p), err);
    case GG_TYPE_F64: return put_f64(o, gg_le64(p), err);
    default: break;
    }
    return p[0] > 1 ? gg_json_put_u64(o, p[0], err) : gg_json_put_bool(o, p[0] == 1, err);
}

static gg_status put_array(const gg_json_out *o, const gg_kv *kv, gg_error *err)
{
    size_t size = gg_type_size(kv->elem_type);
    uint64_t pos = 0;
    gg_json_put_text(o, "[", err);
    for (uint64_t i = 0; i < kv->count && err->status == GG_OK; i++) {
        const char *text;
        size_t len;
        if (i > 0) gg_json_put_text(o, ", ", err);
        if (size > 0) put_scalar(o, kv->elem_type, kv->data + i * size, err);
        else if (gg_kv_next_str(kv, &pos, &text, &len)) gg_mj_put_bytes(o, text, len, err);
    }
    return gg_json_put_text(o, "]", err);
}

gg_status gg_mj_put_value(const gg_json_out *o, const gg_kv *kv, gg_error *err)
{
    if (kv->type == GG_TYPE_ARR) return put_array(o, kv, err);
    if (kv->type == GG_TYPE_STR) return gg_mj_put_bytes(o, (const char *)kv->data, kv->size, err);
    return put_scalar(o, kv->type, kv->data, err);
}

gg_status gg_mj_put_kv(const gg_json_out *o, const gg_kv *kv, gg_error *err)
{
    gg_mj_put(o, err, "{\"key\": %b, \"type\": \"%t\"", kv->key, kv->key_len,
              gg_type_name(kv->type));
    if (kv->type == GG_TYPE_ARR)
        gg_mj_put(o, err, ", \"items\": \"%t\"", gg_type_name(kv->elem_type));
    gg_json_put_text(o, ", \"value\": ", err);
    gg_mj_put_value(o, kv, err);
    return gg_json_put_text(o, "}", err);
}

/* ---- reading ------------------------------------------------------------------ */

gg_status gg_mj_bytes(const gg_json_node *node, const char *what, char **out, size_t *n,
                      gg_error *err)
{
    const char *text;
    const gg_json_node *base64 = gg_json_get(node, "base64");
    bool coded = base64 && gg_json_count(node) == 1;
    gg_status st = gg_json_string(coded ? base64 : node, &text, n, err);
    if (st != GG_OK) {
        gg_fix(err, "%s must be a string or {\"base64\": \"...\"}", what);
        return st;
    }
    char *copy = malloc(*n + 1);
    if (!copy) return gg_fail(err, GG_ENOMEM, "no memory for a string of %zu bytes", *n);
    if (!coded) memcpy(copy, text, *n);
    else if (!gg_base64_decode(text, *n, copy, n)) {
        free(copy);
        return gg_fail_at(gg_json_offset(base64), err, "%s is not valid base64", what);
    }
    copy[*n] = '\0';
    *out = copy;
    return GG_OK;
}

/* Reads {"bits": "hex"} with that number of digits. */
static gg_status read_bits(const gg_json_node *node, size_t digits, uint64_t *bits, gg_error *err)
{
    const char *hex;
    size_t n;
    gg_status st = gg_json_string(gg_json_get(node, "bits"), &hex, &n, err);
    if (st != GG_OK) return st;
    *bits = 0;
    for (size_t i = 0; i < n && n == digits; i++) {
        int digit = gg_hex_digit(hex[i]);
        if (digit < 0) n = SIZE_MAX;
        else *bits = *bits << 4 | (uint64_t)digit;
    }
    if (n == digits) return GG_OK;
    return gg_fail_at(gg_json_offset(node), err, "\"bits\" must be %zu hexadecimal digits", digits);
}

static gg_status read_float(const gg_json_node *node, uint32_t type, uint64_t *bits, gg_error *err)
{
    if (gg_json_type_of(node) == GG_JSON_OBJECT)
        return read_bits(node, type == GG_TYPE_F32 ? 8 : 16, bits, err);
    float f = 0;
    double d = 0;
    if (type == GG_TYPE_F32) gg_json_f32(node, &f, err);
    else gg_json_f64(node, &d, err);
    memcpy(bits, &d, sizeof d);
    if (type == GG_TYPE_F32) *bits = gg_float_bits(f);
    return err->status;
}

static gg_status read_integer(const gg_json_node *node, uint32_t type, uint64_t *bits,
                              gg_error *err)
{
    bool is_signed = type == GG_TYPE_I8 || type == GG_TYPE_I16 || type == GG_TYPE_I32 ||
                     type == GG_TYPE_I64;
    unsigned width = (unsigned)gg_type_size(type) * 8;
    gg_status st;
    bool fits;
    if (is_signed) {
        int64_t v = 0, top = width == 64 ? INT64_MAX : ((int64_t)1 << (width - 1)) - 1;
        st = gg_json_i64(node, &v, err);
        fits = v >= -top - 1 && v <= top;
        *bits = (uint64_t)v;
    } else {
        st = gg_json_u64(node, bits, err);
        fits = width == 64 || *bits >> width == 0;
    }
    if (st != GG_OK || fits) return st;
    return gg_fail_at(gg_json_offset(node), err, "a value does not fit the type %s",
                      gg_type_name(type));
}

static gg_status read_scalar(const gg_json_node *node, uint32_t type, gg_buf *to, gg_error *err)
{
    uint64_t bits = 0;
    gg_status st;
    if (type == GG_TYPE_F32 || type == GG_TYPE_F64) {
        st = read_float(node, type, &bits, err);
    } else if (type == GG_TYPE_BOOL && gg_json_type_of(node) == GG_JSON_BOOL) {
        bool b = false;
        st = gg_json_bool(node, &b, err);
        bits = b;
    } else {
        st = read_integer(node, type, &bits, err);
    }
    uint8_t le[8];
    gg_put_le64(le, bits);
    return st == GG_OK ? gg_buf_append(to, le, gg_type_size(type), err) : st;
}

static gg_status read_string(const gg_json_node *node, bool with_length, gg_buf *to, gg_error *err)
{
    char *text = NULL;
    size_t n;
    gg_status st = gg_mj_bytes(node, "a str value", &text, &n, err);
    if (st == GG_OK)
        st = with_length ? gg_array_add_str(to, text, n, err) : gg_buf_append(to, text, n, err);
    free(text);
    return st;
}

static gg_status read_value(const gg_json_node *value, gg_kv *kv, gg_buf *to, gg_error *err)
{
    if (!value) return gg_fail(err, GG_EFORMAT, "\"value\" is missing in a metadata entry");
    if (kv->type == GG_TYPE_STR) return read_string(value, false, to, err);
    if (kv->type != GG_TYPE_ARR) return read_scalar(value, kv->type, to, err);
    if (gg_json_type_of(value) != GG_JSON_ARRAY)
        return gg_fail_at(gg_json_offset(value), err, "a value of type arr must be a list");
    kv->count = 0;
    gg_status st = GG_OK;
    for (const gg_json_node *e = gg_json_first(value); e && st == GG_OK;
         e = gg_json_next(e), kv->count++)
        st = kv->elem_type == GG_TYPE_STR ? read_string(e, true, to, err)
                                          : read_scalar(e, kv->elem_type, to, err);
    return st;
}

static gg_status read_type(const gg_json_node *node, const char *member, uint32_t *type,
                           gg_error *err)
{
    const char *name;
    size_t n;
    const gg_json_node *t = gg_json_get(node, member);
    gg_status st = gg_json_string(t, &name, &n, err);
    if (st == GG_OK && !gg_type_by_name(name, n, type))
        st = gg_fail_at(
            gg_json_offset(t), err,
            "unknown metadata type \"%.*s\"; use u8 i8 u16 i16 u32 i32 f32 bool str arr "
            "u64 i64 f64",
            n < 32 ? (int)n : 32, name);
    return st;
}

gg_status gg_mj_kv(const gg_json_node *node, gg_meta *meta, gg_error *err)
{
    gg_kv kv = { .count = 1 };
    char *key = NULL;
    gg_buf data = GG_BUF_INIT;
    const gg_json_node *value = gg_json_get(node, "value");
    const char *text = NULL;
    gg_status st = gg_mj_bytes(gg_json_get(node, "key"), "\"key\"", &key, &kv.key_len, err);
    if (st == GG_OK && kv.key_len == 0) st = gg_fail(err, GG_EFORMAT, "\"key\" is empty");
    if (st == GG_OK) st = read_type(node, "type", &kv.type, err);
    if (st == GG_OK && kv.type == GG_TYPE_ARR) st = read_type(node, "items", &kv.elem_type, err);
    if (st == GG_OK && kv.type == GG_TYPE_ARR && kv.elem_type == GG_TYPE_ARR)
        st = gg_fail(err, GG_EFORMAT, "GGUF does not support arrays of arrays");
    bool plain = kv.type == GG_TYPE_STR && gg_json_type_of(value) == GG_JSON_STRING;
    if (st == GG_OK)
        st = plain ? gg_json_string(value, &text, &kv.size, err)
                   : read_value(value, &kv, &data, err);
    if (st == GG_OK) {
        kv.key = key;
        kv.data = (const uint8_t *)(plain ? text : data.data);
        if (!plain) kv.size = data.len;
        st = gg_meta_append(meta, &kv, err); /* the caller checks for duplicates later */
    }
    gg_at_offset(err, gg_json_offset(node));
    free(key);
    gg_buf_free(&data);
    return st;
}
