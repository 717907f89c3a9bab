/* json_write.c - write values as JSON text to a buffer or to a function of the caller. */
#include "base/buf.h"
#include "base/utf8.h"
#include "json/json.h"

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

/* Returns the length of the escape, at most six bytes. */
static size_t make_escape(unsigned char c, char out[6])
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt", digits[] = "0123456789abcdef";
    const char *hit = memchr(from, c, sizeof from - 1);
    memcpy(out, "\\u00", 4);
    if (hit) out[1] = to[hit - from];
    out[4] = digits[c >> 4];
    out[5] = digits[c & 15];
    return hit ? 2 : 6;
}

gg_status gg_json_put_string(const gg_json_out *out, const char *bytes, size_t n, gg_error *err)
{
    if (err->status != GG_OK) return err->status;
    if (!gg_utf8_valid(bytes, n))
        return gg_fail(err, GG_EFORMAT, "a string is not valid UTF-8, which JSON requires");
    gg_json_put_raw(out, "\"", 1, err);
    size_t done = 0, used = 0;
    char escapes[1024]; /* consecutive ones are written together */
    for (size_t i = 0; i < n && err->status == GG_OK; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        if (done < i || used + 6 > sizeof escapes) {
            gg_json_put_raw(out, escapes, used, err);
            gg_json_put_raw(out, bytes + done, i - done, err);
            used = 0;
        }
        used += make_escape(c, escapes + used);
        done = i + 1;
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
