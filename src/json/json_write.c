/* json_write.c - write values as JSON text to a buffer or to a function of the caller. */
#include "base/buf.h"
#include "base/utf8.h"
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static gg_status write_to_buf(void *ctx, const char *bytes, size_t n, gg_error *err)
{
    return gg_buf_append(ctx, bytes, n, err);
}

gg_json_out gg_json_to_buf(struct gg_buf *buf)
{
    return (gg_json_out){ write_to_buf, buf };
}

gg_status gg_json_put_raw(const gg_json_out *out, const char *bytes, size_t n, gg_error *err)
{
    if (err->status != GG_OK) return err->status;
    return n ? out->write(out->ctx, bytes, n, err) : GG_OK;
}

gg_status gg_json_put_text(const gg_json_out *out, const char *text, gg_error *err)
{
    return gg_json_put_raw(out, text, strlen(text), err);
}

#define ESCAPE_MOST 12 /* two code units */

static size_t escape_unit(uint32_t unit, char out[6])
{
    static const char digits[] = "0123456789abcdef";
    memcpy(out, "\\u", 2);
    for (int k = 0; k < 4; k++) out[2 + k] = digits[unit >> (12 - 4 * k) & 15];
    return 6;
}

/* Returns the length of the escape. */
static size_t make_escape(uint32_t cp, char out[ESCAPE_MOST])
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *hit = cp < 0x80 ? memchr(from, (int)cp, sizeof from - 1) : NULL;
    if (hit) {
        out[0] = '\\';
        out[1] = to[hit - from];
        return 2;
    }
    if (cp < 0x10000) return escape_unit(cp, out);
    escape_unit(0xd7c0 + (cp >> 10), out);
    return 6 + escape_unit(0xdc00 + (cp & 0x3ff), out + 6);
}

gg_status gg_json_put_string(const gg_json_out *out, const char *bytes, size_t n, gg_error *err)
{
    if (err->status != GG_OK) return err->status;
    if (!gg_utf8_valid(bytes, n))
        return gg_fail(err, GG_EFORMAT, "a string is not valid UTF-8, which JSON requires");
    gg_json_put_raw(out, "\"", 1, err);
    size_t done = 0, used = 0, len = 1;
    char escapes[1024]; /* consecutive ones are written together */
    for (size_t i = 0; i < n && err->status == GG_OK; i += len) {
        uint32_t cp = (unsigned char)bytes[i];
        len = cp < 0x80 ? 1 : gg_utf8_next(bytes + i, n - i, &cp);
        if (cp != '"' && cp != '\\' && !gg_utf8_unsafe(cp)) continue;
        if (done < i || used + ESCAPE_MOST > sizeof escapes) {
            gg_json_put_raw(out, escapes, used, err);
            gg_json_put_raw(out, bytes + done, i - done, err);
            used = 0;
        }
        used += make_escape(cp, escapes + used);
        done = i + len;
    }
    gg_json_put_raw(out, escapes, used, err);
    if (done < n) gg_json_put_raw(out, bytes + done, n - done, err);
    return gg_json_put_raw(out, "\"", 1, err);
}

gg_status gg_json_put_u64(const gg_json_out *out, uint64_t value, gg_error *err)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return gg_json_put_text(out, text, err);
}

gg_status gg_json_put_i64(const gg_json_out *out, int64_t value, gg_error *err)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    return gg_json_put_text(out, text, err);
}

gg_status gg_json_put_bool(const gg_json_out *out, bool value, gg_error *err)
{
    return gg_json_put_text(out, value ? "true" : "false", err);
}

static gg_status not_finite(gg_error *err)
{
    return gg_fail(err, GG_EUSAGE, "JSON cannot represent NaN and infinity");
}

/* Some parsers tell integers from floats by the decimal point and would read -0 as the integer
 * 0. */
static bool negative_zero(double value)
{
    return value == 0 && signbit(value);
}

gg_status gg_json_put_f64(const gg_json_out *out, double value, gg_error *err)
{
    char text[32];
    if (err->status == GG_OK && !isfinite(value)) return not_finite(err);
    if (negative_zero(value)) return gg_json_put_text(out, "-0.0", err);
    return gg_json_put_raw(out, text, gg_format_f64(value, text), err);
}

gg_status gg_json_put_f32(const gg_json_out *out, float value, gg_error *err)
{
    char text[32];
    if (err->status == GG_OK && !isfinite(value)) return not_finite(err);
    if (negative_zero((double)value)) return gg_json_put_text(out, "-0.0", err);
    return gg_json_put_raw(out, text, gg_format_f32(value, text), err);
}
