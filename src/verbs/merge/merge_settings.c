/* merge_settings.c - parses the parameters of a merge and evaluates them for a tensor. */
#include "merge_settings.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/nearest.h"
#include "merge_names.h"
#include "organ/select.h"
#include "organ/tensor_names.h"
#include "verbs/compute/compute.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_MAX 1000 /* in a list */

/* The range of each parameter. `open`: the lower limit itself is not allowed. */
static const struct {
    const char *name, *alias;
    double least, most;
    bool open;
    const char *meaning;
} params[GG_MP_COUNT] = {
    [GG_MP_WEIGHT] = { "weight", NULL, -1000, 1000, false, "share of the model" },
    [GG_MP_DENSITY] = { "density", NULL, 0, 1, true,
                        "share of the values of a difference that is kept" },
    [GG_MP_GAMMA] = { "gamma", NULL, 0, 1, false,
                      "share of the largest values of a difference that is dropped" },
    [GG_MP_EPSILON] = { "epsilon", NULL, 0, 1, false,
                        "how far the probability follows the rank, or the smallest change that "
                        "counts" },
    [GG_MP_LAMBDA] = { "lambda", NULL, -1000, 1000, false, "factor of the sum of the differences" },
    [GG_MP_NORMALIZE] = { "normalize", "normalize_weights", 0, 1, false,
                          "divide by the sum of the weights" },
    [GG_MP_RESCALE] = { "rescale", NULL, 0, 1, false,
                        "scale the values that are kept, so that the norm of the difference "
                        "stays" },
    [GG_MP_RESCALE_NORM] = { "rescale_norm", NULL, 1, 2, false,
                             "the norm that rescale keeps: l1 or l2" },
    [GG_MP_T] = { "t", NULL, -10, 10, false,
                  "place between two models, the distance within which values are taken, or a "
                  "factor" },
    [GG_MP_SELECT_TOPK] = { "select_topk", NULL, 0, 1, true,
                            "share of the places where the differences vary most that is kept" },
    [GG_MP_FILTER_WISE] = { "filter_wise", NULL, 0, 1, false, "treat each row by itself" },
    [GG_MP_MAX_ITER] = { "max_iter", NULL, 0, 10000, false, "most iterations" },
    [GG_MP_TOL] = { "tol", NULL, 0, 1, false, "change at which the iterations end" },
    [GG_MP_R] = { "r", NULL, -1000, 1000, false, "how much changes of one model are amplified" },
    [GG_MP_ALPHA] = { "alpha", NULL, 0, 1000, false, "limit of the amplification" },
    [GG_MP_EPS] = { "eps", NULL, 0, 1, false, "smallest length that counts" },
    [GG_MP_FLATTEN] = { "flatten", "nuslerp_flatten", 0, 1, false,
                        "treat a tensor as one vector; 0: each row by itself" },
    [GG_MP_SCALE] = { "scale", NULL, -1000, 1000, false, "factor of all values" },
};

const char *gg_merge_param_name(gg_merge_param p)
{
    return params[p].name;
}

const char *gg_merge_param_meaning(gg_merge_param p)
{
    return params[p].meaning;
}

static bool same(const char *name, const char *text, size_t len)
{
    return name && strlen(name) == len && memcmp(name, text, len) == 0;
}

gg_merge_param gg_merge_param_by_name(const char *name, size_t len)
{
    for (unsigned p = 0; p < GG_MP_COUNT; p++)
        if (same(params[p].name, name, len) || same(params[p].alias, name, len))
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

static gg_status check_range(gg_merge_param p, double v, gg_error *err)
{
    double least = params[p].least, most = params[p].most;
    if (v >= least && v <= most && !(params[p].open && v == least)) return GG_OK;
    return gg_fail(err, GG_EUSAGE, "%s is %g, but must be %s %g and at most %g", params[p].name, v,
                   params[p].open ? "above" : "at least", least, most);
}

gg_status gg_merge_setting_append(gg_merge_settings *s, const gg_merge_setting *one, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < one->n && st == GG_OK; i++)
        st = check_range(one->param, one->values[i], err);
    gg_merge_setting *grown = st == GG_OK ? gg_grow(s->list, s->n, &s->cap, sizeof *grown, err)
                                          : NULL;
    if (!grown) return err->status;
    s->list = grown;
    gg_merge_setting copy = *one;
    copy.filter = one->filter ? strdup(one->filter) : NULL;
    copy.values = malloc((one->n ? one->n : 1) * sizeof *copy.values);
    if (!copy.values || (one->filter && !copy.filter)) {
        free(copy.values);
        free(copy.filter);
        return gg_fail(err, GG_ENOMEM, "no memory for the parameters");
    }
    if (one->n) memcpy(copy.values, one->values, one->n * sizeof *copy.values);
    grown[s->n++] = copy;
    return GG_OK;
}

/* Settings with a filter are moved before those without, and keep their order. */
static gg_status insert(gg_merge_settings *s, const gg_merge_setting *one, gg_error *err)
{
    size_t at = s->n;
    gg_status st = gg_merge_setting_append(s, one, err);
    if (st != GG_OK || !one->filter) return st;
    while (at > 0 && !s->list[at - 1].filter) at--;
    gg_merge_setting last = s->list[s->n - 1];
    memmove(&s->list[at + 1], &s->list[at], (s->n - 1 - at) * sizeof last);
    s->list[at] = last;
    return GG_OK;
}

/* ---- parsing --------------------------------------------------------------------- */

/* A decimal number; or true, false, l1, l2. */
static bool parse_value(const char *s, size_t n, double *value)
{
    static const struct {
        const char *word;
        double value;
    } words[] = { { "true", 1 }, { "false", 0 }, { "l1", 1 }, { "l2", 2 } };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (same(words[i].word, s, n)) return *value = words[i].value, true;
    return gg_parse_decimal(s, n, value);
}

/* "[a,b,c]": n is the length of the text. */
static bool parse_list(const char *s, size_t n, gg_merge_setting *one)
{
    if (n < 3 || s[n - 1] != ']') return false;
    for (size_t at = 1; at < n;) {
        size_t end = at;
        while (end < n - 1 && s[end] != ',') end++;
        if (one->n == VALUES_MAX || !parse_value(s + at, end - at, &one->values[one->n++]))
            return false;
        at = end + 1;
    }
    return true;
}

static bool parse_values(const char *s, size_t n, gg_merge_setting *one)
{
    if (n > 0 && s[0] == '[') return parse_list(s, n, one);
    for (size_t i = 1; i + 2 < n; i++) {
        if (s[i] != '.' || s[i + 1] != '.') continue;
        one->n = 2;
        return s[i + 2] != '.' && parse_value(s, i, &one->values[0]) &&
               parse_value(s + i + 2, n - i - 2, &one->values[1]);
    }
    one->n = 1;
    return parse_value(s, n, &one->values[0]);
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
    for (unsigned p = 0; p < GG_MP_COUNT; p++) known[p] = params[p].name;
    const char *near = gg_nearest(s, n, known, GG_MP_COUNT);
    if (!near) return fail_item("unknown parameter", s, n, err);
    char shown[120], meant[GG_MEANT];
    gg_escape(s, n < 60 ? n : 60, shown, sizeof shown);
    return gg_fail(err, GG_EUSAGE, "unknown parameter '%s'%s", shown, gg_meant(near, meant));
}

static gg_status add_item(gg_merge_settings *s, const char *text, size_t n, gg_error *err)
{
    const char *equals = memchr(text, '=', n), *colon = equals ? memchr(text, ':', n) : NULL;
    if (!equals) return fail_item("expected NAME=VALUE instead of", text, n, err);
    if (colon > equals) colon = NULL;
    size_t name = (size_t)((colon ? colon : equals) - text);
    gg_merge_setting one = { .param = gg_merge_param_by_name(text, name) };
    if (one.param == GG_MP_COUNT) return unknown_name(text, name, err);
    if (colon && colon + 1 == equals) return fail_item("empty filter in", text, n, err);
    one.values = calloc(VALUES_MAX, sizeof *one.values);
    if (colon) one.filter = strndup(colon + 1, (size_t)(equals - colon - 1));
    gg_status st = one.values && (one.filter || !colon)
                       ? GG_OK
                       : gg_fail(err, GG_ENOMEM, "no memory for the parameters");
    if (st == GG_OK && !parse_values(equals + 1, n - (size_t)(equals + 1 - text), &one))
        st = fail_item("malformed value in", text, n, err);
    if (st == GG_OK) st = insert(s, &one, err);
    free(one.values);
    free(one.filter);
    return st;
}

gg_status gg_merge_settings_add(gg_merge_settings *s, const char *text, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t at = 0; text[at] && st == GG_OK;) {
        size_t n = item_length(text + at);
        st = add_item(s, text + at, n, err);
        at += n + (text[at + n] == ',');
    }
    return st;
}

size_t gg_merge_path_length(const char *text)
{
    for (const char *comma = strchr(text, ','); comma; comma = strchr(comma + 1, ',')) {
        size_t n = 1;
        while (islower((unsigned char)comma[n]) || isdigit((unsigned char)comma[n]) ||
               comma[n] == '_')
            n++;
        if (n > 1 && (comma[n] == '=' || comma[n] == ':')) return (size_t)(comma - text);
    }
    return strlen(text);
}

/* ---- evaluation ------------------------------------------------------------------ */

/* The place of a tensor among the blocks, 0..1: that of the first block before them, and that of
 * the last after them. A model of one block has only its end. */
static double position(const gg_tensor *t, uint64_t blocks)
{
    static const gg_blend ramp = { .mode = GG_BLEND_LINEAR, .first = 0, .last = 1 };
    if (blocks < 2 && gg_anatomy_of(t->name, t->name_len).block >= 0) return 1;
    return gg_blend_t(&ramp, t->name, t->name_len, blocks);
}

static bool matches(const gg_merge_setting *one, const gg_tensor *t)
{
    if (!one->filter) return true;
    if (one->by_substring) return gg_merge_torch_match(t, one->filter);
    gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
    gg_class cls;
    if (gg_class_by_name(one->filter, strlen(one->filter), &cls)) return a.cls == cls;
    return same(one->filter, t->name + a.role_at, a.role_len) || gg_glob(one->filter, t->name);
}

bool gg_merge_setting_value(const gg_merge_settings *s, gg_merge_param p, const gg_tensor *t,
                            uint64_t blocks, double *value)
{
    for (size_t i = 0; i < s->n; i++) {
        const gg_merge_setting *one = &s->list[i];
        if (one->param != p || one->n == 0 || !matches(one, t)) continue;
        double at = one->n > 1 ? position(t, blocks) * (double)(one->n - 1) : 0;
        size_t k = (size_t)at, next = k + 1 < one->n ? k + 1 : k;
        double part = at - (double)k;
        *value = (1 - part) * one->values[k] + part * one->values[next];
        return true;
    }
    return false;
}

void gg_merge_settings_visit(gg_merge_settings *s, const gg_tensor *t)
{
    for (size_t i = 0; i < s->n; i++) s->list[i].used += matches(&s->list[i], t);
}

gg_status gg_merge_settings_used(const gg_merge_settings *s, gg_error *err)
{
    for (size_t i = 0; i < s->n; i++) {
        const gg_merge_setting *one = &s->list[i];
        if (one->used || !one->filter) continue;
        gg_fail(err, GG_NO, "no tensor matches the filter '%s' of %s", one->filter,
                params[one->param].name);
        return gg_fix(err, "use a class (ffn, attention), a role (ffn_down) or a pattern for "
                           "whole names (blk.*.attn_q.weight)");
    }
    return GG_OK;
}
