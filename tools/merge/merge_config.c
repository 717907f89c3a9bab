/* merge_config.c - the parameters of a merge, as texts and in JSON, their values for a tensor, and
 * configurations of mergekit. */
#include "merging.h"

#include "base/buf.h"
#include "base/grow.h"
#include "base/io.h"
#include "base/nearest.h"
#include "base/text.h"
#include "organ/select.h"
#include "organ/tensor_names.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gg_merge_param param_by_name(const char *name, size_t len)
{
    for (unsigned p = 0; p < GG_MP_COUNT; p++)
        if (gg_text_is(name, len, gg_merge_params[p].name) ||
            (gg_merge_params[p].alias && gg_text_is(name, len, gg_merge_params[p].alias)))
            return (gg_merge_param)p;
    return GG_MP_COUNT;
}

void gg_merge_settings_free(gg_merge_settings *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->list[i].filter);
        free(s->list[i].values);
    }
    free(s->list);
    *s = (gg_merge_settings){ 0 };
}

/* ---- adding ---------------------------------------------------------------------- */

/* Takes the filter and the values, also after an error. In a text, settings with a filter are moved
 * before those without, and keep their order. */
static gg_status add_setting(gg_merge_settings *s, const gg_merge_setting *one, gg_error *err)
{
    const gg_merge_parameter *p = &gg_merge_params[one->param];
    gg_status st = err->status;
    size_t at = s->n;
    for (size_t i = 0; i < one->n && st == GG_OK; i++) {
        double v = one->values[i];
        if (v >= p->least && v <= p->most && !(p->above && v == p->least)) continue;
        st = gg_fail(err, GG_EUSAGE, "%s is %g, but must be %s %g and at most %g", p->name, v,
                     p->above ? "above" : "at least", p->least, p->most);
    }
    if (st == GG_OK) st = GG_ROOM(s->list, s->n, &s->cap, err);
    if (st != GG_OK) {
        free(one->filter);
        free(one->values);
        return st;
    }
    while (one->filter && !one->by_substring && at > 0 && !s->list[at - 1].filter) at--;
    memmove(&s->list[at + 1], &s->list[at], (s->n - at) * sizeof *one);
    s->list[at] = *one;
    s->n++;
    return GG_OK;
}

/* ---- parsing --------------------------------------------------------------------- */

/* A decimal number; or true, false, l1, l2, which may be quoted. */
static bool parse_value(const char *s, size_t n, double *value)
{
    static const struct {
        const char *word;
        double value;
    } words[] = { { "true", 1 }, { "false", 0 }, { "l1", 1 }, { "l2", 2 } };
    bool quoted = n > 2 && s[0] == '"' && s[n - 1] == '"';
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (gg_text_is(s + quoted, n - 2 * quoted, words[i].word)) {
            *value = words[i].value;
            return true;
        }
    return gg_parse_decimal(s, n, value);
}

/* Adds a value, a ramp "a..b" or a list "[a, b, c]" to the values of a setting. Returns false if
 * the text is malformed, and without memory. */
static bool parse_values(const char *s, size_t n, gg_merge_setting *one, gg_error *err)
{
    bool list = n > 0 && s[0] == '[';
    size_t wide = list ? 1 : 2; /* of the separator, "," or ".." */
    if (list && s[n - 1] != ']') return false;
    for (const char *end = s + n - list, *to = s += list;; s = to += wide) {
        while (list && s < end && *s == ' ') s++;
        while (to < end && memcmp(to, list ? "," : "..", wide) != 0) to++;
        bool dots = !list && to < end && to[wide] == '.'; /* "0...5" is ambiguous */
        if (dots || GG_ROOM(one->values, one->n, NULL, err) != GG_OK ||
            !parse_value(s, (size_t)(to - s), &one->values[one->n++]))
            return false;
        if (to == end) return list || one->n <= 2;
    }
}

/* The length of the item at s: up to the next comma outside brackets. */
static size_t item_length(const char *s)
{
    size_t n = 0;
    for (bool inside = false; s[n] && (inside || s[n] != ','); n++) {
        if (s[n] == '[') inside = strchr(s + n, ']') != NULL;
        if (s[n] == ']') inside = false;
    }
    return n;
}

static gg_status fail_item(const char *what, const char *s, size_t n, gg_error *err)
{
    char shown[120];
    gg_escape(s, n < 60 ? n : 60, shown, sizeof shown);
    gg_fail(err, GG_EUSAGE, "%s '%s'", what, shown);
    return gg_fix(err, "use NAME=VALUE or NAME:FILTER=VALUE, for example weight=0.5, "
                       "weight:ffn=0.2..0.8 or density=[0.2,0.5,1]");
}

static gg_status unknown_name(const char *s, size_t n, gg_error *err)
{
    const char *known[GG_MP_COUNT];
    for (unsigned p = 0; p < GG_MP_COUNT; p++) known[p] = gg_merge_params[p].name;
    const char *near = gg_nearest(s, n, known, GG_MP_COUNT);
    if (!near) return fail_item("unknown parameter", s, n, err);
    char shown[120], meant[GG_MEANT];
    gg_escape(s, n < 60 ? n : 60, shown, sizeof shown);
    return gg_fail(err, GG_EUSAGE, "unknown parameter '%s'%s", shown, gg_meant(near, meant));
}

/* "NAME=VALUE" or "NAME:FILTER=VALUE" */
static gg_status add_item(gg_merge_settings *s, const char *text, size_t n, gg_error *err)
{
    const char *equals = memchr(text, '=', n), *colon = equals ? memchr(text, ':', n) : NULL;
    if (!equals) return fail_item("expected NAME=VALUE instead of", text, n, err);
    if (colon > equals) colon = NULL;
    size_t name = (size_t)((colon ? colon : equals) - text);
    gg_merge_setting one = { .param = param_by_name(text, name) };
    if (one.param == GG_MP_COUNT) return unknown_name(text, name, err);
    if (colon && colon + 1 == equals) return fail_item("empty filter in", text, n, err);
    if (!parse_values(equals + 1, n - (size_t)(equals + 1 - text), &one, err))
        fail_item("malformed value in", text, n, err);
    if (colon && !(one.filter = strndup(colon + 1, (size_t)(equals - colon - 1))))
        gg_fail(err, GG_ENOMEM, "no memory for the parameters");
    return add_setting(s, &one, err);
}

static gg_status add_items(gg_merge_settings *s, const char *text, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t at = 0; text[at] && st == GG_OK;) {
        size_t n = item_length(text + at);
        st = add_item(s, text + at, n, err);
        at += n + (text[at + n] == ',');
    }
    return st;
}

/* ---- members ----------------------------------------------------------------------------- */

static gg_status refuse_member(const gg_json_node *n, const char *of, gg_error *err)
{
    size_t len;
    char shown[100];
    const char *key = gg_json_key(n, &len);
    gg_escape(key, len < 40 ? len : 40, shown, sizeof shown);
    return gg_fail(err, GG_EUNSUPPORTED,
                   "the configuration has '%s' in %s, which is not "
                   "supported",
                   shown, of);
}

/* Refuses members that are not among these names, which are separated by spaces. */
static gg_status only_members(const gg_json_node *object, const char *names, const char *of,
                              gg_error *err)
{
    if (gg_json_type_of(object) != GG_JSON_OBJECT)
        return gg_fail(err, GG_EFORMAT, "%s of the configuration must be an object", of);
    for (const gg_json_node *n = gg_json_first(object); n; n = gg_json_next(n)) {
        size_t len;
        const char *key = gg_json_key(n, &len);
        if (!gg_text_has_word(names, key, len)) return refuse_member(n, of, err);
    }
    return GG_OK;
}

/* A string without NULs; owned by the caller. NULL, with the error, for anything else. */
static char *copy_string(const gg_json_node *n, const char *what, gg_error *err)
{
    const char *s;
    size_t len;
    if (gg_json_type_of(n) != GG_JSON_STRING || gg_json_string(n, &s, &len, err) != GG_OK ||
        len == 0 || memchr(s, 0, len)) {
        gg_fail(err, GG_EFORMAT, "%s of the configuration must be a text", what);
        return NULL;
    }
    char *copy = strndup(s, len);
    if (!copy) gg_fail(err, GG_ENOMEM, "no memory for the configuration");
    return copy;
}

/* Whether the member is there and not null. */
static bool given(const gg_json_node *object, const char *name)
{
    const gg_json_node *n = gg_json_get(object, name);
    return n && gg_json_type_of(n) != GG_JSON_NULL;
}

/* ---- parameters -------------------------------------------------------------------------- */

/* The text of a value. The caller frees it. Returns NULL without memory. */
static char *text_of(const gg_json_node *n, gg_error *err)
{
    gg_buf b = GG_BUF_INIT;
    gg_json_out to = gg_json_to_buf(&b);
    if (gg_json_put_node(&to, n, err) == GG_OK) return gg_buf_take(&b, NULL);
    gg_buf_free(&b);
    return NULL;
}

/* Adds a number, or a list of numbers, as a setting. Takes the filter. */
static gg_status add_values(gg_merge_settings *to, gg_merge_param p, char *filter,
                            const gg_json_node *n, gg_error *err)
{
    gg_merge_setting one = { .param = p, .filter = filter, .by_substring = true };
    char *text = n ? text_of(n, err) : NULL;
    if (!text || !parse_values(text, strlen(text), &one, err))
        gg_fail(err, GG_EFORMAT,
                "%s of the configuration must be a number, a list of numbers or a list of filters",
                gg_merge_params[p].name);
    free(text);
    return add_setting(to, &one, err);
}

/* [{"filter": "mlp", "value": 0.5}, {"value": 1}] */
static gg_status add_filters(gg_merge_settings *to, gg_merge_param p, const gg_json_node *list,
                             gg_error *err)
{
    gg_status st = GG_OK;
    for (const gg_json_node *n = gg_json_first(list); n && st == GG_OK; n = gg_json_next(n)) {
        const gg_json_node *filter = gg_json_get(n, "filter");
        char *text = NULL;
        st = only_members(n, "filter value", "a filter", err);
        bool every = !given(n, "filter") || gg_json_is(filter, "*");
        if (st == GG_OK && !every && !(text = copy_string(filter, "a filter", err)))
            st = err->status;
        if (st == GG_OK) st = add_values(to, p, text, gg_json_get(n, "value"), err);
    }
    return st;
}

static gg_status read_json_setting(gg_merge_settings *to, const gg_json_node *n, gg_error *err)
{
    size_t len;
    bool rows;
    gg_error other = GG_ERROR_INIT;
    const char *key = gg_json_key(n, &len);
    /* They do not change values: one saves memory in mergekit, and the other is the seed of all. */
    if (gg_json_key_is(n, "int8_mask") || gg_json_key_is(n, "random_seed")) return GG_OK;
    if (gg_json_key_is(n, "nuslerp_row_wise") && gg_json_bool(n, &rows, &other) == GG_OK && !rows)
        return GG_OK;
    gg_merge_param p = param_by_name(key, len);
    if (p == GG_MP_COUNT) return refuse_member(n, "parameters", err);
    gg_json_type first = gg_json_type_of(gg_json_first(n));
    if (gg_json_type_of(n) == GG_JSON_ARRAY && first == GG_JSON_OBJECT)
        return add_filters(to, p, n, err);
    return add_values(to, p, NULL, n, err);
}

static gg_status read_json_settings(gg_merge_settings *to, const gg_json_node *object,
                                    gg_error *err)
{
    gg_status st = GG_OK;
    if (!object || gg_json_type_of(object) == GG_JSON_NULL) return GG_OK;
    if (gg_json_type_of(object) != GG_JSON_OBJECT)
        return gg_fail(err, GG_EFORMAT, "parameters of the configuration must be an object");
    for (const gg_json_node *n = gg_json_first(object); n && st == GG_OK; n = gg_json_next(n))
        st = read_json_setting(to, n, err);
    return st;
}

/* [{"blocks": [FROM, TO, LAST], "parameters": {...}}, ...]: those of slices; LAST is 0 or 1. */
static gg_status read_slice_settings(gg_merge_settings *to, const gg_json_node *list, gg_error *err)
{
    gg_status st = GG_OK;
    for (const gg_json_node *n = gg_json_first(list); n && st == GG_OK; n = gg_json_next(n)) {
        const gg_json_node *b = gg_json_first(gg_json_get(n, "blocks"));
        uint64_t range[3] = { 0 };
        size_t first = to->n;
        for (int i = 0; i < 3 && st == GG_OK; i++, b = gg_json_next(b))
            st = b ? gg_json_u64(b, &range[i], err)
                   : gg_fail(err, GG_EFORMAT, "parameters of slices must have blocks");
        if (st == GG_OK) st = read_json_settings(to, gg_json_get(n, "parameters"), err);
        for (size_t i = first; i < to->n; i++) {
            to->list[i].from = range[0];
            to->list[i].to = range[1];
            to->list[i].last = range[2] != 0;
        }
    }
    return st;
}

/* Parameters as a text, as an object of a configuration, or as a list of those of slices. */
gg_status gg_merge_settings_add(gg_merge_settings *s, const char *text, gg_error *err)
{
    if (!text || strcmp(text, "null") == 0) return GG_OK;
    if (text[0] != '{' && text[0] != '[') return add_items(s, text, err);
    gg_json *json = NULL;
    gg_status st = gg_json_parse(text, strlen(text), &json, err);
    if (st == GG_OK)
        st = text[0] == '{' ? read_json_settings(s, gg_json_root(json), err)
                            : read_slice_settings(s, gg_json_root(json), err);
    gg_json_free(json);
    return st;
}

/* Whether a filter of mergekit, a part of a name such as "self_attn" or "q_proj", matches the
 * tensor under the name that PyTorch models use for it, or under its own. "*" matches all. */
static bool torch_match(const gg_tensor *t, const char *filter)
{
    const char *role = t->name + t->a.role_at;
    char torch[160], stack[GG_RECORD_NAME + 8];
    size_t len;
    if (strcmp(filter, "*") == 0 || strstr(t->name, filter)) return true;
    if (gg_stack_name(t->name, t->name_len, stack, sizeof stack, &len)) {
        gg_tensor of = { .name = stack, .name_len = len, .a = gg_anatomy_of(stack, len) };
        if (torch_match(&of, filter)) return true;
        /* "model.layers.3.mlp.experts.7.up_proj.weight" */
        const char *kind = strncmp(role, "ffn_gate_up.", 12) == 0 ? "gate_up"
                           : role[4] == 'g'                       ? "gate"
                           : role[4] == 'u'                       ? "up"
                                                                  : "down";
        snprintf(torch, sizeof torch, "model.layers.%lld.mlp.experts.%lld.%s_proj.weight",
                 (long long)t->a.block, (long long)t->a.expert, kind);
        return strstr(torch, filter) != NULL;
    }
    const gg_merge_torch_name *known = gg_merge_torch_names;
    while (known->role && !gg_text_is(role, t->a.role_len, known->role)) known++;
    if (!known->role) return false;
    if (t->a.block < 0) snprintf(torch, sizeof torch, "%s.weight", known->torch);
    else
        snprintf(torch, sizeof torch, "model.layers.%lld.%s.weight", (long long)t->a.block,
                 known->torch);
    return strstr(torch, filter) != NULL;
}

/* ---- evaluation ------------------------------------------------------------------ */

/* The place of a tensor among the blocks, 0..1: that of the first block before them, and that of
 * the last after them. A model of one block has only its end. */
static double place_of(const gg_tensor *t, uint64_t blocks)
{
    if (blocks < 2 && t->a.block >= 0) return 1;
    return gg_ramp_at(0, 1, t, blocks);
}

/* Whether a class, a role or a pattern for whole names matches a tensor. */
static bool filter_matches(const char *filter, const char *name, const gg_anatomy *a)
{
    gg_class cls;
    if (gg_class_by_name(filter, strlen(filter), &cls)) return a->cls == cls;
    return gg_text_is(name + a->role_at, a->role_len, filter) || gg_glob(filter, name);
}

/* Takes "[3]" or "[0-3]" off a filter that names experts of a stack, and returns whether it has
 * the expert. The rest of the filter, without ".weight" behind the numbers, is in `rest`. */
static bool has_expert(const char *filter, int64_t expert, char *rest, size_t size)
{
    const char *open = strrchr(filter, '['), *end = open ? strchr(open, ']') : NULL;
    unsigned long long from, to;
    int used = 0;
    if (!end || (size_t)(open - filter) >= size) return false;
    if (sscanf(open, "[%5llu-%5llu]%n", &from, &to, &used) != 2 || !used) {
        used = 0;
        if (sscanf(open, "[%5llu]%n", &from, &used) != 1) return false;
        to = from;
    }
    if (!used || open + used != end + 1) return false;
    if (end[1] && strcmp(end + 1, ".weight") != 0 && strcmp(end + 1, ".bias") != 0) return false;
    snprintf(rest, size, "%.*s%s", (int)(open - filter), filter, end + 1);
    return expert >= (int64_t)from && expert <= (int64_t)to;
}

/* Whether a tensor is in the slice of a setting. */
static bool in_slice(const gg_merge_setting *one, const gg_tensor *t)
{
    int64_t block = t->a.block;
    if (one->to == 0) return true;
    if (block >= 0) return (uint64_t)block >= one->from && (uint64_t)block < one->to;
    return place_of(t, 2) > 0 ? one->last : one->from == 0;
}

/* The place of a tensor among the blocks, or among those of the slice. */
static double place_for(const gg_merge_setting *one, const gg_tensor *t, uint64_t blocks)
{
    int64_t block = t->a.block;
    uint64_t n = one->to - one->from;
    if (one->to == 0 || block < 0) return place_of(t, blocks);
    return n < 2 ? 1 : (double)((uint64_t)block - one->from) / (double)(n - 1);
}

/* An expert matches by its own name, by that of the stack, or by that of the stack and its number.
 */
static bool setting_matches(const gg_merge_setting *one, const gg_tensor *t)
{
    char stack[GG_RECORD_NAME + 8], rest[GG_RECORD_NAME + 1];
    size_t len;
    if (!in_slice(one, t)) return false;
    if (!one->filter) return true;
    if (one->by_substring) return torch_match(t, one->filter);
    if (filter_matches(one->filter, t->name, &t->a)) return true;
    if (!gg_stack_name(t->name, t->name_len, stack, sizeof stack, &len)) return false;
    gg_anatomy a = gg_anatomy_of(stack, len);
    if (filter_matches(one->filter, stack, &a)) return true;
    return has_expert(one->filter, t->a.expert, rest, sizeof rest) &&
           filter_matches(rest, stack, &a);
}

bool gg_merge_setting_value(const gg_merge_settings *s, gg_merge_param p, const gg_tensor *t,
                            uint64_t blocks, double *value)
{
    for (size_t i = 0; i < s->n; i++) {
        const gg_merge_setting *one = &s->list[i];
        if (one->param != p || one->n == 0 || !setting_matches(one, t)) continue;
        double at = one->n > 1 ? place_for(one, t, blocks) * (double)(one->n - 1) : 0;
        size_t k = (size_t)at, next = k + 1 < one->n ? k + 1 : k;
        double part = at - (double)k;
        *value = (1 - part) * one->values[k] + part * one->values[next];
        return true;
    }
    return false;
}

void gg_merge_settings_visit(gg_merge_settings *s, const gg_tensor *t)
{
    uint64_t experts = 0;
    char name[GG_RECORD_NAME + 1];
    gg_tensor one = *t;
    if (!gg_is_expert_stack(t, &experts)) experts = 1;
    for (uint64_t e = 0; e < experts && s->n; e++) {
        if (experts > 1) gg_expert_tensor(t, experts, e, &one, name);
        for (size_t i = 0; i < s->n; i++) s->list[i].used += setting_matches(&s->list[i], &one);
    }
}

gg_status gg_merge_settings_used(const gg_merge_settings *s, gg_error *err)
{
    for (size_t i = 0; i < s->n; i++) {
        const gg_merge_setting *one = &s->list[i];
        size_t used = 0; /* also in other slices */
        if (!one->filter) continue;
        for (size_t k = 0; k < s->n; k++)
            if (s->list[k].filter && strcmp(s->list[k].filter, one->filter) == 0)
                used += k == i || one->to ? s->list[k].used : 0;
        if (used) continue;
        gg_fail(err, GG_NO, "no tensor matches the filter '%s' of %s", one->filter,
                gg_merge_params[one->param].name);
        return gg_fix(err, "use a class (ffn, attention), a role (ffn_down) or a pattern for "
                           "whole names (blk.*.attn_q.weight)");
    }
    return GG_OK;
}

/* ---- the list of methods --------------------------------------------------------------------- */

bool gg_merge_method_at(size_t i, gg_merge_method_info *out)
{
    if (i >= gg_merge_methods_n) return false;
    const gg_merge_method *m = &gg_merge_methods[i];
    *out = (gg_merge_method_info){ m->name, m->alias,  m->meaning, m->base,    m->least,
                                   m->most, m->random, { { 0 } },  m->n_takes, m->parts };
    for (size_t k = 0; k < m->n_takes; k++) {
        out->parameters[k] = gg_merge_params[m->takes[k].param];
        out->parameters[k].value = m->takes[k].value;
    }
    return true;
}

/* ---- configurations ----------------------------------------------------------------------------
 */

typedef struct config_reader {
    gg_merge_config *c;
    const gg_merge_method *method;
    const gg_json_node *parameters; /* of the whole merge */
    gg_merge_slice at;              /* the blocks of the current slice in the result */
    bool ranged, last;              /* its parameters hold for these blocks only */
    gg_error *err;
} config_reader;

/* Checks parameters, and sets *out to their text, owned by the caller; "" for none. */
static gg_status take_parameters(const gg_json_node *n, char **out, gg_error *err)
{
    gg_merge_settings checked = { 0 };
    gg_status st = read_json_settings(&checked, n, err);
    gg_merge_settings_free(&checked);
    if (st != GG_OK) return st;
    *out = n ? text_of(n, err) : strdup("");
    return *out ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the configuration");
}

/* The path that a name means; the name itself if none is known. */
static const char *meaning_of(const config_reader *r, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; r->c->named && i < r->c->named->n; i++) {
        const char *text = r->c->named->items[i];
        if (strncmp(text, name, n) == 0 && text[n] == '=') return text + n + 1;
    }
    return name;
}

/* "BASE+LORA" names a model with an adapter in mergekit. It is listed, or refused. */
static gg_status take_adapter(const config_reader *r, const char *whole, const char *base,
                              const char *lora)
{
    gg_merge_config *c = r->c;
    for (size_t i = 0; i < c->n_adapters; i++)
        if (strcmp(c->adapters[i].name, whole) == 0) return GG_OK;
    if (c->list) {
        if (GG_ROOM(c->adapters, c->n_adapters, NULL, r->err) != GG_OK) return r->err->status;
        struct gg_merge_config_adapter *a = &c->adapters[c->n_adapters++];
        *a = (struct gg_merge_config_adapter){ strdup(whole), strdup(meaning_of(r, base)),
                                               strdup(lora) };
        return a->name && a->base && a->lora
                   ? GG_OK
                   : gg_fail(r->err, GG_ENOMEM, "no memory for the configuration");
    }
    gg_fail(r->err, GG_EUNSUPPORTED, "the configuration adds the adapter '%.200s' to '%.200s'",
            lora, base);
    return gg_fix(r->err,
                  "let 'organ merge' fold it in, or do so with organ-transplant --base %.200s "
                  "--adapter %.200s --output MODEL.gguf, and name MODEL.gguf in the configuration",
                  base, lora);
}

/* Notes a member of a model that says which files or class to take, as files are named here. */
static gg_status note_member(const config_reader *r, const gg_json_node *model, const char *name,
                             const char *why)
{
    gg_buf all = GG_BUF_INIT;
    char *value = given(model, name) ? text_of(gg_json_get(model, name), r->err) : NULL;
    char shown[200], line[400];
    if (!value) return r->err->status;
    gg_escape(value, strnlen(value, 60), shown, sizeof shown);
    free(value);
    snprintf(line, sizeof line, "%s %s is left out: %s\n", name, shown, why);
    if (r->c->notes && strstr(r->c->notes, line)) return GG_OK;
    if (gg_buf_printf(&all, r->err, "%s%s", r->c->notes ? r->c->notes : "", line) == GG_OK) {
        free(r->c->notes);
        r->c->notes = gg_buf_take(&all, NULL);
    }
    gg_buf_free(&all);
    return r->err->status;
}

/* The path of a model: a text, {"path": TEXT}, or {"model": {"path": TEXT}, "lora": null}. NULL
 * with the error. */
static char *model_path(const config_reader *r, const gg_json_node *n)
{
    const gg_json_node *lora = NULL;
    for (int deep = 0; deep < 2 && gg_json_type_of(n) == GG_JSON_OBJECT; deep++) {
        if (only_members(n, "model lora path revision override_architecture", "model", r->err) ||
            note_member(r, n, "revision", "the files that are here are taken") ||
            note_member(r, n, "override_architecture",
                        "models keep the architecture of their files"))
            return NULL;
        if (given(n, "lora")) lora = gg_json_get(n, "lora");
        n = given(n, "model") ? gg_json_get(n, "model") : gg_json_get(n, "path");
    }
    char *path = copy_string(n, "model", r->err);
    char *adapter = lora && path ? model_path(r, lora) : NULL;
    gg_buf whole = GG_BUF_INIT;
    if (adapter) gg_buf_printf(&whole, r->err, "%s+%s", path, adapter);
    else if (path) gg_buf_text(&whole, path, r->err);
    free(adapter);
    free(path);
    if (r->err->status != GG_OK) {
        gg_buf_free(&whole);
        return NULL;
    }
    const char *means = meaning_of(r, whole.data), *plus = strrchr(whole.data, '+');
    bool adapted = means == whole.data && plus && plus > whole.data && plus[1];
    if (adapted && !(r->c->is_model && r->c->is_model(r->c->ctx, whole.data))) {
        char *base = strndup(whole.data, (size_t)(plus - whole.data));
        if (base) take_adapter(r, whole.data, base, plus + 1);
        else gg_fail(r->err, GG_ENOMEM, "no memory for the configuration");
        free(base);
    }
    path = r->err->status == GG_OK ? strdup(means) : NULL;
    if (!path) gg_fail(r->err, GG_ENOMEM, "no memory for the configuration");
    gg_buf_free(&whole);
    return path;
}

/* Finds or adds the model that a member "model" names; *k is its index. Those of slices with
 * parameters of their own are listed once, without parameters. A base that is listed among the
 * models takes no part of its own, except in methods that do not use a base: *k is SIZE_MAX. */
static gg_status take_model(const config_reader *r, const gg_json_node *n, size_t *k)
{
    gg_merge_config *c = r->c;
    char *path = model_path(r, gg_json_get(n, "model"));
    if (!path) return r->err->status;
    bool is_base = c->base && strcmp(c->base, path) == 0 && r->method->base != GG_MERGE_BASE_KEYS;
    *k = 0;
    while (*k < c->n_models && !(r->ranged && strcmp(c->models[*k].path, path) == 0)) ++*k;
    if (is_base) *k = SIZE_MAX;
    if (*k != c->n_models) {
        free(path);
        return GG_OK;
    }
    if (GG_ROOM(c->models, c->n_models, NULL, r->err) != GG_OK) {
        free(path);
        return GG_ENOMEM;
    }
    struct gg_merge_config_model *one = &c->models[c->n_models++];
    *one = (struct gg_merge_config_model){ .path = path };
    return take_parameters(r->ranged ? NULL : gg_json_get(n, "parameters"), &one->parameters,
                           r->err);
}

static gg_status read_models(const config_reader *r, const gg_json_node *list)
{
    gg_status st = GG_OK;
    size_t k;
    if (gg_json_type_of(list) != GG_JSON_ARRAY)
        return gg_fail(r->err, GG_EFORMAT, "models of the configuration must be a list");
    for (const gg_json_node *n = gg_json_first(list); n && st == GG_OK; n = gg_json_next(n)) {
        st = only_members(n, "model parameters", "models", r->err);
        if (st == GG_OK) st = take_model(r, n, &k);
    }
    return st;
}

static gg_status read_range(const gg_json_node *n, gg_merge_slice *out, gg_error *err)
{
    const gg_json_node *list = gg_json_get(n, "layer_range"), *first = gg_json_first(list);
    gg_error why = GG_ERROR_INIT;
    if (gg_json_count(list) == 2 && gg_json_u64(first, &out->from, &why) == GG_OK &&
        gg_json_u64(gg_json_next(first), &out->to, &why) == GG_OK && out->from < out->to)
        return GG_OK;
    return gg_fail(err, GG_EFORMAT,
                   "layer_range of the configuration must be [FIRST, END], with FIRST below END");
}

/* Adds parameters to those in *text, which become a list: of the current slice only. */
static gg_status add_ranged(const config_reader *r, const gg_json_node *parameters, char **text)
{
    gg_buf b = GG_BUF_INIT;
    char *one = NULL;
    if (!r->ranged || gg_json_count(parameters) == 0) return GG_OK;
    if (take_parameters(parameters, &one, r->err) != GG_OK) return r->err->status;
    size_t len = (*text)[0] ? strlen(*text) - 1 : 0;
    gg_buf_printf(&b, r->err, "%.*s%s{\"blocks\": [%llu, %llu, %d], \"parameters\": %s}]", (int)len,
                  *text, len ? ", " : "[", (unsigned long long)r->at.from,
                  (unsigned long long)r->at.to, r->last, one);
    free(one);
    if (r->err->status != GG_OK) {
        gg_buf_free(&b);
        return r->err->status;
    }
    free(*text);
    *text = gg_buf_take(&b, NULL);
    return GG_OK;
}

/* A range of blocks, which is copied or, in the other methods, is as long in each source of the
 * slice. Several slices have parameters of their own. */
static gg_status read_source(config_reader *r, const gg_json_node *source, bool first)
{
    gg_merge_config *c = r->c;
    gg_merge_slice one = { 0 };
    char **text = &c->parameters;
    gg_status st = only_members(source, "model layer_range parameters", "sources", r->err);
    if (st == GG_OK) st = read_range(source, &one, r->err);
    if (st == GG_OK && !first && one.to - one.from != r->at.to - r->at.from)
        st = gg_fail(
            r->err, GG_EFORMAT,
            "layer_range of the configuration must have as many layers in all sources of a "
            "slice");
    if (st == GG_OK) st = take_model(r, source, &one.model);
    if (st != GG_OK) return st;
    if (GG_ROOM(c->slices, c->n_slices, NULL, r->err) != GG_OK) return GG_ENOMEM;
    one.more = !first;
    c->slices[c->n_slices++] = one;
    if (first) r->at = (gg_merge_slice){ 0, r->at.to, r->at.to + one.to - one.from, false };
    if (!r->method->slices) {
        if (one.model == SIZE_MAX) return GG_OK; /* the base */
        text = &c->models[one.model].parameters;
    }
    return add_ranged(r, gg_json_get(source, "parameters"), text);
}

static gg_status read_slice(config_reader *r, const gg_json_node *n)
{
    const gg_json_node *sources = gg_json_get(n, "sources"), *s = gg_json_first(sources);
    gg_status st = only_members(n, "sources parameters", "slices", r->err);
    if (st == GG_OK && (gg_json_type_of(sources) != GG_JSON_ARRAY || !s))
        st = gg_fail(r->err, GG_EFORMAT, "sources of the configuration must be a list");
    if (st == GG_OK && r->method->slices && gg_json_next(s))
        st = gg_fail(r->err, GG_EUNSUPPORTED, "a slice of passthrough has exactly one source");
    for (bool first = true; s && st == GG_OK; s = gg_json_next(s), first = false)
        st = read_source(r, s, first);
    if (st == GG_OK) st = add_ranged(r, gg_json_get(n, "parameters"), &r->c->parameters);
    return st == GG_OK ? add_ranged(r, r->parameters, &r->c->parameters) : st;
}

static gg_status read_slices(config_reader *r, const gg_json_node *list)
{
    gg_merge_config *c = r->c;
    const gg_json_node *first = gg_json_first(list);
    gg_status st = GG_OK;
    if (gg_json_type_of(list) != GG_JSON_ARRAY)
        return gg_fail(r->err, GG_EFORMAT, "slices of the configuration must be a list");
    r->ranged = r->method->slices || gg_json_count(list) > 1 || gg_json_get(first, "parameters");
    if (r->ranged) c->parameters[0] = '\0'; /* each slice repeats them */
    for (const gg_json_node *n = first; n && st == GG_OK; n = gg_json_next(n)) {
        r->last = gg_json_next(n) == NULL;
        st = read_slice(r, n);
    }
    return st;
}

#define NAMES_MOST 64 /* of methods, with their aliases */

static gg_status read_method(config_reader *r, const gg_json_node *root)
{
    char shown[100], *name = copy_string(gg_json_get(root, "merge_method"), "merge_method", r->err);
    r->c->method = name;
    if (!name) return r->err->status;
    r->method = gg_merge_method_by_name(name, strlen(name));
    if (r->method) return GG_OK;
    const char *known[NAMES_MOST];
    char meant[GG_MEANT];
    size_t n = 0;
    for (size_t i = 0; i < gg_merge_methods_n && n + 2 <= NAMES_MOST; i++) {
        known[n++] = gg_merge_methods[i].name;
        if (gg_merge_methods[i].alias) known[n++] = gg_merge_methods[i].alias;
    }
    gg_escape(name, strlen(name) < 40 ? strlen(name) : 40, shown, sizeof shown);
    return gg_fail(r->err, GG_EUNSUPPORTED, "unknown merge_method '%s'%s", shown,
                   gg_meant(gg_nearest(name, strlen(name), known, n), meant));
}

#define MULTIPLE_MOST ((uint64_t)1 << 20)

/* The source of a token's row: {"kind": "zero"}, {"kind": "model_token", "model": M, "token": TEXT
 * or "token_id": N}, or a model. */
static gg_status read_row_source(const config_reader *r, const gg_json_node *n,
                                 struct gg_merge_config_token *to)
{
    bool object = gg_json_type_of(n) == GG_JSON_OBJECT;
    if (object && gg_json_is(gg_json_get(n, "kind"), "zero")) return GG_OK;
    if (!object || !gg_json_is(gg_json_get(n, "kind"), "model_token")) {
        to->model = model_path(r, n);
        return r->err->status;
    }
    if (only_members(n, "kind model token token_id", "the source of a token", r->err) != GG_OK)
        return r->err->status;
    if (given(n, "token") == given(n, "token_id"))
        return gg_fail(r->err, GG_EFORMAT, "the source of a token must have token or token_id");
    to->model = model_path(r, gg_json_get(n, "model"));
    if (given(n, "token")) to->token = copy_string(gg_json_get(n, "token"), "token", r->err);
    else if (r->err->status == GG_OK) gg_json_u64(gg_json_get(n, "token_id"), &to->id, r->err);
    return r->err->status;
}

/* {"TEXT": {"source": ..., "force": true}} */
static gg_status read_token(const config_reader *r, const gg_json_node *n)
{
    gg_merge_config *c = r->c;
    const gg_json_node *force = gg_json_get(n, "force");
    size_t len;
    const char *text = gg_json_key(n, &len);
    if (only_members(n, "source force", "a token", r->err) != GG_OK ||
        GG_ROOM(c->tokens, c->n_tokens, NULL, r->err) != GG_OK)
        return r->err->status;
    struct gg_merge_config_token *to = &c->tokens[c->n_tokens++];
    *to = (struct gg_merge_config_token){ .id = UINT64_MAX };
    if (len == 0 || memchr(text, 0, len))
        return gg_fail(r->err, GG_EFORMAT, "the text of a token in the configuration is empty");
    if (!(to->text = strndup(text, len)))
        return gg_fail(r->err, GG_ENOMEM, "no memory for the configuration");
    if (given(n, "force") && gg_json_bool(force, &to->forced, r->err) != GG_OK)
        return r->err->status;
    if (!given(n, "source"))
        return gg_fail(r->err, GG_EUNSUPPORTED,
                       "token '%.100s' of the configuration needs a source for its row", to->text);
    return read_row_source(r, gg_json_get(n, "source"), to);
}

/* Which vocabulary the result has, and the rows of single tokens. */
static gg_status read_tokenizer(const config_reader *r, const gg_json_node *root)
{
    const gg_json_node *t = gg_json_get(root, "tokenizer"), *source = gg_json_get(t, "source");
    gg_merge_config *c = r->c;
    bool whole = given(root, "tokenizer");
    if (whole && given(root, "tokenizer_source"))
        return gg_fail(r->err, GG_EFORMAT,
                       "the configuration must have tokenizer or tokenizer_source, but not both");
    if (whole && only_members(t, "source tokens pad_to_multiple_of", "tokenizer", r->err) != GG_OK)
        return r->err->status;
    if (given(root, "tokenizer_source")) source = gg_json_get(root, "tokenizer_source");
    if (source && gg_json_type_of(source) != GG_JSON_NULL) c->words = model_path(r, source);
    else if (whole && !(c->words = strdup("union")))
        gg_fail(r->err, GG_ENOMEM, "no memory for the configuration");
    if (whole && given(t, "pad_to_multiple_of"))
        gg_json_u64(gg_json_get(t, "pad_to_multiple_of"), &c->multiple, r->err);
    if (c->multiple > MULTIPLE_MOST)
        return gg_fail(r->err, GG_EUNSUPPORTED, "pad_to_multiple_of is larger than %llu",
                       (unsigned long long)MULTIPLE_MOST);
    if (whole && given(t, "tokens") && gg_json_type_of(gg_json_get(t, "tokens")) != GG_JSON_OBJECT)
        gg_fail(r->err, GG_EFORMAT, "tokens of the configuration must be an object");
    const gg_json_node *n = whole ? gg_json_first(gg_json_get(t, "tokens")) : NULL;
    for (; n && r->err->status == GG_OK; n = gg_json_next(n)) read_token(r, n);
    return r->err->status;
}

/* mergekit-moe and several documents are other kinds of configurations. */
static gg_status refuse_other_kinds(const config_reader *r, const gg_json_node *root)
{
    if (gg_json_type_of(root) == GG_JSON_ARRAY) {
        gg_fail(r->err, GG_EUNSUPPORTED, "the file has %zu configurations (mergekit-multi)",
                gg_json_count(root));
        return gg_fix(r->err,
                      "let 'organ merge' do them in order, or put each into a file of its own: "
                      "the name of one is a model of the next");
    }
    if (!given(root, "experts") && !given(root, "gate_mode")) return GG_OK;
    const char *s = "hidden"; /* the default of mergekit-moe */
    size_t n = strlen(s);
    const gg_json_node *mode = gg_json_get(root, "gate_mode");
    char shown[60];
    if (mode && (gg_json_type_of(mode) != GG_JSON_STRING || gg_json_string(mode, &s, &n, r->err)))
        return gg_fail(r->err, GG_EFORMAT, "gate_mode of the configuration must be a text");
    gg_escape(s, n < 20 ? n : 20, shown, sizeof shown);
    gg_fail(r->err, GG_EUNSUPPORTED,
            "this is a configuration of mergekit-moe, a mixture of experts with gate_mode '%s'",
            shown);
    return gg_fix(r->err,
                  "make the mixture with organ-stack, which has ways of its own for the routers");
}

/* The seed of methods that drop values at random. */
static gg_status read_seed(const config_reader *r, const gg_json_node *root)
{
    const gg_json_node *parameters = gg_json_get(root, "parameters");
    const gg_json_node *n = gg_json_get(given(root, "random_seed") ? root : parameters,
                                        "random_seed");
    if (!n || gg_json_type_of(n) == GG_JSON_NULL) return GG_OK;
    r->c->has_seed = true;
    return gg_json_u64(n, &r->c->seed, r->err);
}

static gg_status read_dtype(const config_reader *r, const gg_json_node *root)
{
    static const struct {
        const char *torch, *rules;
    } types[] = { { "float32", "f32" }, { "float16", "f16" }, { "bfloat16", "bf16" } };
    const char *key = given(root, "out_dtype") ? "out_dtype" : "dtype";
    const gg_json_node *n = gg_json_get(root, key);
    if (!given(root, key)) return GG_OK;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char torch[24];
        snprintf(torch, sizeof torch, "torch.%s", types[i].torch);
        if (gg_json_is(n, types[i].torch) || gg_json_is(n, torch)) {
            r->c->dtype = types[i].rules;
            return GG_OK;
        }
    }
    return gg_fail(r->err, GG_EUNSUPPORTED,
                   "dtype of the configuration must be float32, float16 or bfloat16");
}

static gg_status read_chat_template(const config_reader *r, const gg_json_node *root)
{
    static const char chatml[] =
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
        "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|im_start|>assistant\\n' }}{% endif %}";
    const gg_json_node *n = gg_json_get(root, "chat_template");
    char shown[100];
    if (!given(root, "chat_template")) return GG_OK;
    char *text = copy_string(n, "chat_template", r->err);
    if (text && strcmp(text, "chatml") == 0) {
        free(text);
        text = strdup(chatml);
        if (!text) return gg_fail(r->err, GG_ENOMEM, "no memory for the configuration");
    }
    r->c->chat_template = text;
    if (!text || strcmp(text, "auto") == 0 || strchr(text, '{')) return r->err->status;
    gg_escape(text, strnlen(text, 40), shown, sizeof shown);
    gg_fail(r->err, GG_EUNSUPPORTED, "chat_template '%s' is not supported", shown);
    return gg_fix(r->err, "give \"auto\", \"chatml\" or the text of a template");
}

static gg_status read_root(config_reader *r, const gg_json_node *root)
{
    static const char names[] = "merge_method base_model models slices parameters dtype out_dtype "
                                "tokenizer_source tokenizer chat_template random_seed name";
    const gg_json_node *models = gg_json_get(root, "models"), *slices = gg_json_get(root, "slices");
    gg_status st = refuse_other_kinds(r, root);
    if (st == GG_OK) st = only_members(root, names, "its top level", r->err);
    if (st == GG_OK) st = read_method(r, root);
    if (st == GG_OK && given(root, "name")) {
        r->c->name = copy_string(gg_json_get(root, "name"), "name", r->err);
        st = r->err->status;
    }
    if (st == GG_OK && given(root, "base_model")) {
        r->c->base = model_path(r, gg_json_get(root, "base_model"));
        st = r->err->status;
    }
    if (st == GG_OK) st = read_seed(r, root);
    if (st == GG_OK) st = read_tokenizer(r, root);
    if (st == GG_OK) st = read_dtype(r, root);
    if (st == GG_OK) st = read_chat_template(r, root);
    r->parameters = gg_json_get(root, "parameters");
    if (st == GG_OK) st = take_parameters(r->parameters, &r->c->parameters, r->err);
    if (st != GG_OK) return st;
    if (!models == !slices)
        return gg_fail(r->err, GG_EFORMAT,
                       "the configuration must have models or slices, but not both");
    return models ? read_models(r, models) : read_slices(r, slices);
}

gg_status gg_merge_config_read(const char *text, size_t len, gg_merge_config *c, gg_error *err)
{
    gg_json *json = NULL;
    config_reader r = { .c = c, .err = err };
    *c = (gg_merge_config){
        .named = c->named, .list = c->list, .is_model = c->is_model, .ctx = c->ctx
    };
    gg_status st = gg_json_parse(text, len, &json, err);
    if (st == GG_EFORMAT)
        gg_fix(err, "a configuration in YAML must be converted to JSON first, which the command "
                    "'organ merge' does");
    if (st == GG_OK) st = read_root(&r, gg_json_root(json));
    gg_json_free(json);
    return st;
}

void gg_merge_config_free(gg_merge_config *c)
{
    for (size_t i = 0; i < c->n_models; i++) {
        free(c->models[i].path);
        free(c->models[i].parameters);
    }
    for (size_t i = 0; i < c->n_tokens; i++) {
        free(c->tokens[i].text);
        free(c->tokens[i].model);
        free(c->tokens[i].token);
    }
    for (size_t i = 0; i < c->n_adapters; i++) {
        free(c->adapters[i].name);
        free(c->adapters[i].base);
        free(c->adapters[i].lora);
    }
    free(c->adapters);
    free(c->name);
    free(c->tokens);
    free(c->words);
    free(c->models);
    free(c->slices);
    free(c->method);
    free(c->parameters);
    free(c->base);
    free(c->chat_template);
    free(c->notes);
    *c = (gg_merge_config){ 0 };
}
