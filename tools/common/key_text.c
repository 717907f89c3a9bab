/* key_text.c - finds keys, and formats their values for people and scripts. */
#include "key_text.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/utf8.h"
#include "gguf/gguf.h"
#include "organ/manifest_json.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gg_key_type(const gg_kv *kv, char out[GG_KEY_TYPE])
{
    bool array = kv->type == GG_TYPE_ARR;
    snprintf(out, GG_KEY_TYPE, "%s%s", gg_type_name(array ? kv->elem_type : kv->type),
             array ? "[]" : "");
}

/* The next text of an array of them; *pos is 0 at first. */
static bool next_text(const gg_kv *kv, uint64_t *pos, gg_kv *out)
{
    const char *text;
    size_t n;
    if (!gg_kv_next_str(kv, pos, &text, &n)) return false;
    *out = (gg_kv){ kv->key, kv->key_len, GG_TYPE_STR, 0, 1, (const uint8_t *)text, n };
    return true;
}

/* Sets *out to element i of an array, or to the value itself for i = 0; it points into kv.
 * False if there is none. Takes linear time in arrays of strings. */
static bool element_of(const gg_kv *kv, uint64_t i, gg_kv *out)
{
    uint64_t pos = 0;
    if (kv->type == GG_TYPE_STR) {
        *out = *kv;
        return i == 0;
    }
    if (gg_kv_element(kv, i, out)) return true;
    for (uint64_t k = 0; k <= i; k++)
        if (!next_text(kv, &pos, out)) return false;
    return true;
}

static void scalar_text(const gg_kv *kv, char out[40])
{
    const uint8_t *p = kv->data;
    uint32_t bits;
    uint64_t wide;
    float f;
    double d;
    switch (kv->type) {
    case GG_TYPE_I8: snprintf(out, 40, "%d", (int8_t)p[0]); break;
    case GG_TYPE_I16: snprintf(out, 40, "%d", (int16_t)gg_le16(p)); break;
    case GG_TYPE_I32: snprintf(out, 40, "%d", (int32_t)gg_le32(p)); break;
    case GG_TYPE_I64: snprintf(out, 40, "%lld", (long long)(int64_t)gg_le64(p)); break;
    case GG_TYPE_BOOL: snprintf(out, 40, "%s", p[0] ? "true" : "false"); break;
    case GG_TYPE_F32:
        bits = gg_le32(p);
        memcpy(&f, &bits, sizeof f);
        gg_format_f32(f, out);
        break;
    case GG_TYPE_F64:
        wide = gg_le64(p);
        memcpy(&d, &wide, sizeof d);
        gg_format_f64(d, out);
        break;
    default:
        wide = 0;
        gg_kv_u64(kv, &wide);
        snprintf(out, 40, "%llu", (unsigned long long)wide);
    }
}

static gg_status put_string(const gg_json_out *o, const char *text, size_t n, size_t most,
                            gg_error *err)
{
    size_t shown = most && n > most ? most : n;
    while (shown < n && shown > 0 && most - shown < 4 && !gg_utf8_begins(text[shown])) shown--;
    gg_mj_put_escaped(o, text, shown, err);
    return shown < n ? gg_json_put_text(o, "...", err) : err->status;
}

/* A number or a text, of which at most `most` bytes are shown; 0 = all. */
static gg_status put_one(const gg_json_out *o, const gg_kv *kv, bool quoted, size_t most,
                         gg_error *err)
{
    char text[40];
    if (kv->type != GG_TYPE_STR) {
        scalar_text(kv, text);
        return gg_json_put_text(o, text, err);
    }
    if (quoted) gg_json_put_text(o, "\"", err);
    put_string(o, (const char *)kv->data, kv->size, most, err);
    return quoted ? gg_json_put_text(o, "\"", err) : err->status;
}

static gg_status put_array(const gg_json_out *o, const gg_kv *kv, const gg_key_form *form,
                           gg_error *err)
{
    uint64_t pos = 0,
             shown = form->elements && form->elements < kv->count ? form->elements : kv->count;
    gg_json_put_text(o, "[", err);
    for (uint64_t i = 0; i < shown && err->status == GG_OK; i++) {
        gg_kv one;
        if (i > 0) gg_json_put_text(o, ", ", err);
        if (gg_kv_element(kv, i, &one) || next_text(kv, &pos, &one))
            put_one(o, &one, true, form->bytes, err);
    }
    if (shown < kv->count) gg_json_put_text(o, shown ? ", ..." : "...", err);
    return gg_json_put_text(o, "]", err);
}

static gg_status put_element(const gg_json_out *o, const gg_kv *kv, const gg_key_form *form,
                             gg_error *err)
{
    gg_kv one;
    char text[64];
    bool found = element_of(kv, *form->element, &one);
    if (form->as == GG_KEY_JSON)
        return found ? gg_mj_put_value(o, &one, err) : gg_json_put_text(o, "null", err);
    snprintf(text, sizeof text, "[%llu] ", (unsigned long long)*form->element);
    gg_json_put_text(o, text, err);
    if (found) put_one(o, &one, true, form->bytes, err);
    else gg_json_put_text(o, "none", err);
    snprintf(text, sizeof text, " of %llu", (unsigned long long)kv->count);
    return gg_json_put_text(o, text, err);
}

static gg_status put_plain(const gg_json_out *o, const gg_kv *kv, gg_error *err)
{
    uint64_t pos = 0;
    if (kv->type == GG_TYPE_STR) return gg_json_put_raw(o, (const char *)kv->data, kv->size, err);
    for (uint64_t i = 0; i < kv->count && err->status == GG_OK; i++) {
        gg_kv one;
        if (gg_kv_element(kv, i, &one) || next_text(kv, &pos, &one)) {
            /* A quotation mark at its start would make a JSON string of it in a file. */
            bool quote = one.type == GG_TYPE_STR && one.size && one.data[0] == '"';
            if (quote) gg_json_put_text(o, "\\x22", err);
            if (quote) {
                one.data++;
                one.size--;
            }
            put_one(o, &one, false, 0, err);
        }
        gg_json_put_text(o, "\n", err);
    }
    return err->status;
}

gg_status gg_key_put(const gg_kv *kv, const gg_key_form *form,
                     gg_status (*write)(void *ctx, const char *bytes, size_t n, gg_error *err),
                     void *ctx, gg_error *err)
{
    const gg_json_out o = { write, ctx };
    if (form->element) return put_element(&o, kv, form, err);
    if (form->as == GG_KEY_JSON) return gg_mj_put_value(&o, kv, err);
    if (form->as == GG_KEY_PLAIN) return put_plain(&o, kv, err);
    return kv->type == GG_TYPE_ARR ? put_array(&o, kv, form, err)
                                   : put_one(&o, kv, false, form->bytes, err);
}

const gg_kv *gg_keys_find(const gg_meta *meta, const char *key)
{
    const gg_kv *kv = gg_meta_find(meta, key);
    if (kv) return kv;
    size_t n = strlen(key);
    char *copy = strdup(key);
    if (copy && gg_unescape(copy, &n) && n > 0)
        for (size_t i = 0; i < meta->n && !kv; i++)
            if (meta->kv[i].key_len == n && memcmp(meta->kv[i].key, copy, n) == 0)
                kv = &meta->kv[i];
    free(copy);
    return kv;
}
