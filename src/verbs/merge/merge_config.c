/* merge_config.c - reads configurations of mergekit. */
#include "merge_config.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/grow.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    gg_merge_config *c;
    gg_merge_models *m;
    gg_error *err;
} reader;

/* ---- members ----------------------------------------------------------------------------- */

static gg_status refuse_member(const reader *r, const gg_json_node *n, const char *of)
{
    size_t len;
    char shown[100];
    const char *key = gg_json_key(n, &len);
    gg_escape(key, len < 40 ? len : 40, shown, sizeof shown);
    return gg_fail(r->err, GG_EUNSUPPORTED,
                   "the configuration has '%s' in %s, which is not "
                   "supported",
                   shown, of);
}

/* Refuses members that are not in the NULL-terminated list. */
static gg_status only(const reader *r, const gg_json_node *object, const char *const *names,
                      const char *of)
{
    if (gg_json_type_of(object) != GG_JSON_OBJECT)
        return gg_fail(r->err, GG_EFORMAT, "%s of the configuration must be an object", of);
    for (const gg_json_node *n = gg_json_first(object); n; n = gg_json_next(n)) {
        bool known = false;
        for (size_t i = 0; names[i] && !known; i++) known = gg_json_key_is(n, names[i]);
        if (!known) return refuse_member(r, n, of);
    }
    return GG_OK;
}

/* A string without NULs; owned by the caller. NULL, with the error, for anything else. */
static char *copy_string(const reader *r, const gg_json_node *n, const char *what)
{
    const char *s;
    size_t len;
    if (gg_json_type_of(n) != GG_JSON_STRING || gg_json_string(n, &s, &len, r->err) != GG_OK ||
        len == 0 || memchr(s, 0, len)) {
        gg_fail(r->err, GG_EFORMAT, "%s of the configuration must be a text", what);
        return NULL;
    }
    char *copy = strndup(s, len);
    if (!copy) gg_fail(r->err, GG_ENOMEM, "no memory for the configuration");
    return copy;
}

static bool string_is(const gg_json_node *n, const char *text)
{
    const char *s;
    size_t len;
    gg_error ignored = GG_ERROR_INIT;
    return gg_json_type_of(n) == GG_JSON_STRING && gg_json_string(n, &s, &len, &ignored) == GG_OK &&
           len == strlen(text) && memcmp(s, text, len) == 0;
}

/* ---- parameters -------------------------------------------------------------------------- */

static bool value_of(const gg_json_node *n, double *v)
{
    gg_error ignored = GG_ERROR_INIT;
    bool b;
    if (gg_json_type_of(n) == GG_JSON_BOOL && gg_json_bool(n, &b, &ignored) == GG_OK)
        return *v = b, true;
    if (string_is(n, "l1")) return *v = 1, true;
    if (string_is(n, "l2")) return *v = 2, true;
    return gg_json_type_of(n) == GG_JSON_NUMBER && gg_json_f64(n, v, &ignored) == GG_OK;
}

/* Appends a number, or a list of numbers, as a setting. */
static gg_status append(const reader *r, gg_merge_settings *to, gg_merge_param p, char *filter,
                        const gg_json_node *n)
{
    bool list = gg_json_type_of(n) == GG_JSON_ARRAY, ok = true;
    size_t count = list ? gg_json_count(n) : 1;
    gg_merge_setting one = { .param = p, .filter = filter, .by_substring = true, .n = count };
    one.values = calloc(count + 1, sizeof *one.values);
    if (!one.values) return gg_fail(r->err, GG_ENOMEM, "no memory for the parameters");
    if (!list) ok = value_of(n, &one.values[0]);
    size_t i = 0;
    for (const gg_json_node *v = gg_json_first(n); list && ok && v; v = gg_json_next(v))
        ok = value_of(v, &one.values[i++]);
    gg_status st = ok && count ? gg_merge_setting_append(to, &one, r->err)
                               : gg_fail(r->err, GG_EFORMAT,
                                         "%s of the configuration must be a number, a "
                                         "list of numbers or a list of filters",
                                         gg_merge_param_name(p));
    free(one.values);
    return st;
}

/* [{"filter": "mlp", "value": 0.5}, {"value": 1}] */
static gg_status append_filtered(const reader *r, gg_merge_settings *to, gg_merge_param p,
                                 const gg_json_node *list)
{
    static const char *const names[] = { "filter", "value", NULL };
    gg_status st = GG_OK;
    for (const gg_json_node *n = gg_json_first(list); n && st == GG_OK; n = gg_json_next(n)) {
        const gg_json_node *filter = gg_json_get(n, "filter");
        char *text = NULL;
        st = only(r, n, names, "a filter");
        bool every = !filter || gg_json_type_of(filter) == GG_JSON_NULL || string_is(filter, "*");
        if (st == GG_OK && !every && !(text = copy_string(r, filter, "a filter")))
            st = r->err->status;
        if (st == GG_OK) st = append(r, to, p, text, gg_json_get(n, "value"));
        free(text);
    }
    return st;
}

static gg_status read_parameter(const reader *r, gg_merge_settings *to, const gg_json_node *n)
{
    size_t len;
    double v;
    const char *key = gg_json_key(n, &len);
    /* It only saves memory in mergekit. */
    if (gg_json_key_is(n, "int8_mask")) return GG_OK;
    if (gg_json_key_is(n, "nuslerp_row_wise") && value_of(n, &v) && v == 0) return GG_OK;
    gg_merge_param p = gg_merge_param_by_name(key, len);
    if (p == GG_MP_COUNT) return refuse_member(r, n, "parameters");
    gg_json_type first = gg_json_type_of(gg_json_first(n));
    if (gg_json_type_of(n) == GG_JSON_ARRAY && first == GG_JSON_OBJECT)
        return append_filtered(r, to, p, n);
    return append(r, to, p, NULL, n);
}

static gg_status read_parameters(const reader *r, gg_merge_settings *to, const gg_json_node *object)
{
    gg_status st = GG_OK;
    if (!object || gg_json_type_of(object) == GG_JSON_NULL) return GG_OK;
    if (gg_json_type_of(object) != GG_JSON_OBJECT)
        return gg_fail(r->err, GG_EFORMAT, "parameters of the configuration must be an object");
    for (const gg_json_node *n = gg_json_first(object); n && st == GG_OK; n = gg_json_next(n))
        st = read_parameter(r, to, n);
    return st;
}

/* The text of a node, owned by the caller; "" for none. */
static char *node_text(const reader *r, const gg_json_node *n)
{
    gg_buf b = GG_BUF_INIT;
    gg_json_out out = gg_json_to_buf(&b);
    gg_status st = n ? gg_json_put_node(&out, n, r->err) : gg_buf_text(&b, "", r->err);
    if (st == GG_OK) return gg_buf_take(&b, NULL);
    gg_buf_free(&b);
    return NULL;
}

/* ---- models ------------------------------------------------------------------------------ */

/* A base that is listed among the models takes no part of its own, except in methods that do not
 * use a base. */
static gg_status add_model(const reader *r, const gg_json_node *n)
{
    const gg_json_node *parameters = gg_json_get(n, "parameters");
    char *path = copy_string(r, gg_json_get(n, "model"), "model");
    if (!path) return r->err->status;
    bool is_base = r->m->base.path && strcmp(r->m->base.path, path) == 0 &&
                   r->c->method->base != GG_MERGE_BASE_KEYS;
    gg_status st = is_base ? GG_OK : gg_merge_models_add(r->m, path, strlen(path), "", r->err);
    free(path);
    if (st != GG_OK || is_base) return st;
    gg_merge_model *one = &r->m->list[r->m->n - 1];
    free(one->text);
    one->text = node_text(r, parameters);
    return one->text ? read_parameters(r, &one->settings, parameters) : r->err->status;
}

static gg_status read_models(const reader *r, const gg_json_node *list)
{
    static const char *const names[] = { "model", "parameters", NULL };
    gg_status st = GG_OK;
    if (gg_json_type_of(list) != GG_JSON_ARRAY)
        return gg_fail(r->err, GG_EFORMAT, "models of the configuration must be a list");
    for (const gg_json_node *n = gg_json_first(list); n && st == GG_OK; n = gg_json_next(n)) {
        st = only(r, n, names, "models");
        if (st == GG_OK) st = add_model(r, n);
    }
    return st;
}

/* ---- slices ------------------------------------------------------------------------------ */

static gg_status read_range(const reader *r, const gg_json_node *n, uint64_t *from, uint64_t *to)
{
    const gg_json_node *list = gg_json_get(n, "layer_range"), *first = gg_json_first(list);
    gg_error why = GG_ERROR_INIT;
    if (gg_json_count(list) == 2 && gg_json_u64(first, from, &why) == GG_OK &&
        gg_json_u64(gg_json_next(first), to, &why) == GG_OK && *from < *to)
        return GG_OK;
    return gg_fail(r->err, GG_EFORMAT,
                   "layer_range of the configuration must be [FIRST, END], with "
                   "FIRST below END");
}

static gg_status add_slice(const reader *r, const gg_json_node *source)
{
    gg_merge_slice one = { 0 };
    gg_status st = read_range(r, source, &one.from, &one.to);
    if (st != GG_OK) return st;
    if (gg_json_get(source, "parameters"))
        return gg_fail(r->err, GG_EUNSUPPORTED,
                       "parameters of a slice are not supported: slices "
                       "are copied unchanged");
    gg_merge_slice *grown = gg_grow_pow2(r->c->slices, r->c->n_slices, sizeof *grown, r->err);
    if (!grown) return GG_ENOMEM;
    r->c->slices = grown;
    one.path = copy_string(r, gg_json_get(source, "model"), "model");
    if (!one.path) return r->err->status;
    r->c->slices[r->c->n_slices++] = one;
    return GG_OK;
}

/* One slice with all blocks of several models is the same as a list of models. */
static gg_status add_whole(const reader *r, const gg_json_node *source)
{
    uint64_t from, to;
    size_t before = r->m->n;
    gg_status st = read_range(r, source, &from, &to);
    if (st == GG_OK && from != 0)
        return gg_fail(r->err, GG_EUNSUPPORTED,
                       "%s merges whole models: layer_range must be "
                       "[0, number of blocks]",
                       r->c->method->name);
    if (st == GG_OK) st = add_model(r, source);
    if (st == GG_OK && r->m->n > before) r->m->list[before].blocks = to;
    return st;
}

static gg_status read_slices(const reader *r, const gg_json_node *list)
{
    static const char *const names[] = { "sources", NULL };
    static const char *const of_source[] = { "model", "layer_range", "parameters", NULL };
    bool copies = r->c->method->kind == GG_MERGE_PASSTHROUGH;
    gg_status st = GG_OK;
    if (gg_json_type_of(list) != GG_JSON_ARRAY)
        return gg_fail(r->err, GG_EFORMAT, "slices of the configuration must be a list");
    if (!copies && gg_json_count(list) != 1)
        return gg_fail(r->err, GG_EUNSUPPORTED, "only passthrough can have several slices, not %s",
                       r->c->method->name);
    for (const gg_json_node *n = gg_json_first(list); n && st == GG_OK; n = gg_json_next(n)) {
        const gg_json_node *sources = gg_json_get(n, "sources"), *s = gg_json_first(sources);
        st = only(r, n, names, "slices");
        if (st == GG_OK && (gg_json_type_of(sources) != GG_JSON_ARRAY || !s))
            st = gg_fail(r->err, GG_EFORMAT, "sources of the configuration must be a list");
        if (st == GG_OK && copies && gg_json_next(s))
            st = gg_fail(r->err, GG_EUNSUPPORTED, "a slice of passthrough has exactly one source");
        for (; s && st == GG_OK; s = gg_json_next(s)) {
            st = only(r, s, of_source, "sources");
            if (st == GG_OK) st = copies ? add_slice(r, s) : add_whole(r, s);
        }
    }
    return st;
}

/* ---- the whole --------------------------------------------------------------------------- */

static gg_status read_method(const reader *r, const gg_json_node *root)
{
    char *name = copy_string(r, gg_json_get(root, "merge_method"), "merge_method");
    if (!name) return r->err->status;
    r->c->method = gg_merge_method_by_name(name, strlen(name));
    if (!r->c->method) {
        char shown[100];
        gg_escape(name, strlen(name) < 40 ? strlen(name) : 40, shown, sizeof shown);
        gg_fail(r->err, GG_EUNSUPPORTED, "merge_method '%s' is not supported", shown);
    }
    free(name);
    return r->err->status;
}

static gg_status read_base(const reader *r, const gg_json_node *root)
{
    const gg_json_node *n = gg_json_get(root, "base_model"),
                       *tokens = gg_json_get(root, "tokenizer_source");
    if (tokens && gg_json_type_of(tokens) != GG_JSON_NULL && !string_is(tokens, "base"))
        return gg_fail(r->err, GG_EUNSUPPORTED,
                       "tokenizer_source must be \"base\": the vocabulary "
                       "is always that of the base or the first model");
    if (!n || gg_json_type_of(n) == GG_JSON_NULL) return GG_OK;
    r->m->base.path = copy_string(r, n, "base_model");
    return r->err->status;
}

static gg_status read_dtype(const reader *r, const gg_json_node *root)
{
    static const struct {
        const char *torch, *rules;
    } types[] = { { "float32", "f32" }, { "float16", "f16" }, { "bfloat16", "bf16" } };
    const gg_json_node *n = gg_json_get(root, "out_dtype");
    if (!n || gg_json_type_of(n) == GG_JSON_NULL) n = gg_json_get(root, "dtype");
    if (!n || gg_json_type_of(n) == GG_JSON_NULL) return GG_OK;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (string_is(n, types[i].torch)) return r->c->dtype = types[i].rules, GG_OK;
    return gg_fail(r->err, GG_EUNSUPPORTED,
                   "dtype of the configuration must be float32, float16 or "
                   "bfloat16");
}

static gg_status read_root(const reader *r, const gg_json_node *root)
{
    static const char *const names[] = { "merge_method", "base_model",       "models",
                                         "slices",       "parameters",       "dtype",
                                         "out_dtype",    "tokenizer_source", NULL };
    const gg_json_node *models = gg_json_get(root, "models"), *slices = gg_json_get(root, "slices");
    gg_status st = only(r, root, names, "its top level");
    if (st == GG_OK) st = read_method(r, root);
    if (st == GG_OK) st = read_base(r, root);
    if (st == GG_OK) st = read_dtype(r, root);
    if (st == GG_OK) st = read_parameters(r, &r->c->global, gg_json_get(root, "parameters"));
    if (st == GG_OK && !(r->m->parameters = node_text(r, gg_json_get(root, "parameters"))))
        st = r->err->status;
    if (st != GG_OK) return st;
    if (!models == !slices)
        return gg_fail(r->err, GG_EFORMAT,
                       "the configuration must have models or slices, but not "
                       "both");
    return models ? read_models(r, models) : read_slices(r, slices);
}

gg_status gg_merge_config_read(const char *text, size_t len, gg_merge_config *c, gg_merge_models *m,
                               gg_error *err)
{
    gg_json *json = NULL;
    reader r = { c, m, err };
    gg_status st = gg_json_parse(text, len, &json, err);
    if (st == GG_EFORMAT)
        gg_fix(err, "a configuration in YAML must first be converted: yq -o json config.yml");
    if (st == GG_OK) st = read_root(&r, gg_json_root(json));
    gg_json_free(json);
    return st;
}

gg_status gg_merge_config_parameters(const char *text, size_t len, gg_merge_settings *to,
                                     gg_error *err)
{
    gg_json *json = NULL;
    reader r = { NULL, NULL, err };
    gg_status st = gg_json_parse(text, len, &json, err);
    if (st == GG_OK) st = read_parameters(&r, to, gg_json_root(json));
    gg_json_free(json);
    return st;
}

void gg_merge_config_free(gg_merge_config *c)
{
    for (size_t i = 0; i < c->n_slices; i++) free(c->slices[i].path);
    free(c->slices);
    gg_merge_settings_free(&c->global);
    *c = (gg_merge_config){ 0 };
}
