/* hf.c - keys from config.json, names of tensors, and the movement of their values, as the tables
 * of hf_tables.txt describe them. */
#include "hf.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/float_bits.h"
#include "base/text.h"
#include "gguf/gguf.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- words ------------------------------------------------------------------------------- */

/* Whether a name ends with this, or is this. */
static bool name_ends(const char *name, size_t len, const char *end)
{
    return gg_text_is(name, len, end) || gg_text_ends(name, len, end);
}

bool gg_hf_ends_with(const char *ends, const char *name, size_t len)
{
    const char *end;
    size_t n;
    while (gg_text_next_word(&ends, &end, &n))
        if (len > n && memcmp(name + len - n, end, n) == 0) return true;
    return false;
}

/* Returns what follows a word that the text begins with and is longer than, or NULL. */
static const char *after_word(const char *words, const char *text, const char *end)
{
    const char *word;
    size_t n;
    while (gg_text_next_word(&words, &word, &n))
        if ((size_t)(end - text) > n && memcmp(text, word, n) == 0) return text + n;
    return NULL;
}

bool gg_hf_has(const char *archs, const char *arch)
{
    if (!archs) return true;
    bool all_but = archs[0] == '!';
    return gg_text_has_word(archs + all_but, arch, strlen(arch)) != all_but;
}

bool gg_hf_is(const char *arch, gg_hf_trait trait)
{
    return gg_text_has_word(gg_hf_traits[trait], arch, strlen(arch));
}

const gg_hf_class *gg_hf_class_find(const char *name, size_t len)
{
    for (const gg_hf_class *c = gg_hf_classes; c->name; c++)
        if (gg_text_is(name, len, c->name)) return c;
    return NULL;
}

bool gg_hf_arch(const gg_meta *meta, char arch[64])
{
    const char *text = "";
    size_t len = 0;
    gg_kv_str(gg_meta_find(meta, "general.architecture"), &text, &len);
    snprintf(arch, 64, "%.*s", len < 64 ? (int)len : 63, text);
    for (const gg_hf_class *c = gg_hf_classes; c->name; c++)
        if (strcmp(c->arch, arch) == 0) return true;
    return false;
}

/* ---- arithmetic --------------------------------------------------------------------------- */

/* e^x = 2^k e^r with |r| <= ln 2 / 2, by its series. */
double gg_hf_exp(double x)
{
    if (!(x > -700)) return x < 0 ? 0 : x; /* x itself if it is NaN */
    if (x > 700) return 1e308 * 10;
    int k = (int)(x * 1.4426950408889634 + (x < 0 ? -0.5 : 0.5));
    double r = x - k * 0.693147180369123816490 - k * 1.90821492927058770002e-10, sum = 1;
    for (int i = 17; i > 0; i--) sum = 1 + r / i * sum;
    return sum * gg_power_of_two(k / 2) * gg_power_of_two(k - k / 2);
}

/* log m for m in [1/sqrt 2, sqrt 2], and the exponent: 2 (t + t^3/3 + ...), t = (m-1)/(m+1). */
double gg_hf_log(double x)
{
    int e = 0;
    if (!(x > 0 && x < 1e300)) return x > 0 ? x : -1e308 * 10;
    while (x > 1.4142135623730951) {
        x /= 2;
        e++;
    }
    while (x < 0.70710678118654757) {
        x *= 2;
        e--;
    }
    double t = (x - 1) / (x + 1), sum = 0;
    for (int i = 25; i > 0; i -= 2) sum = 1.0 / i + t * t * sum;
    return e * 0.69314718055994530942 + 2 * t * sum;
}

/* ---- fields of config.json ---------------------------------------------------------------- */

/* The node at a path with at most two dots. */
static const gg_json_node *node_at(const gg_json_node *node, const char *path)
{
    for (const char *p = path; node && *p;) {
        char key[64];
        size_t n = strcspn(p, ".");
        if (n >= sizeof key) return NULL;
        memcpy(key, p, n);
        key[n] = '\0';
        node = gg_json_get(node, key);
        if (gg_json_type_of(node) == GG_JSON_NULL) return NULL;
        p += n + (p[n] == '.');
    }
    return node;
}

/* Fields of rotary positions that once stood beside rope_scaling, and are now in rope_parameters.
 * What both have is taken from rope_parameters, as in the reference. */
static bool stood_alone(const char *name)
{
    return strcmp(name, "rope_theta") == 0 || strcmp(name, "partial_rotary_factor") == 0;
}

#define SCALING "rope_scaling."
#define PARAMETERS "rope_parameters."
#define FULL PARAMETERS "full_attention."
#define SLIDING PARAMETERS "sliding_attention."
#define LOCAL_BASE "rope_local_base_freq"
#define ORIGINAL "original_max_position_embeddings"

/* The paths under which a field may stand, the first that counts first. */
static int paths_of_field(const char *path, char paths[4][96])
{
    const char *name = strncmp(path, SCALING, strlen(SCALING)) == 0 ? path + strlen(SCALING) : NULL;
    int n = 0;
    if (stood_alone(path)) name = path;
    if (name) {
        snprintf(paths[n++], 96, FULL "%s", name);
        snprintf(paths[n++], 96, PARAMETERS "%s", name);
    } else if (strcmp(path, LOCAL_BASE) == 0) {
        snprintf(paths[n++], 96, SLIDING "rope_theta");
    }
    snprintf(paths[n++], 96, "%s", path);
    if (name == path) snprintf(paths[n++], 96, SCALING "%s", name);
    return n;
}

static const gg_json_node *const *roots_of(const gg_json_node *config, const gg_json_node *roots[4])
{
    int n = 0;
    const gg_json_node *text = gg_json_get(config, "text_config"),
                       *llm = gg_json_get(config, "llm_config");
    if (text) roots[n++] = text;
    if (llm) roots[n++] = llm;
    roots[n++] = config;
    roots[n] = NULL;
    return roots;
}

const gg_json_node *gg_hf_field(const gg_json_node *config, const char *path)
{
    const gg_json_node *roots[4];
    char paths[4][96];
    int n = paths_of_field(path, paths);
    for (const gg_json_node *const *r = roots_of(config, roots); *r; r++)
        for (int i = 0; i < n; i++) {
            const gg_json_node *node = node_at(*r, paths[i]);
            if (node) return node;
        }
    return NULL;
}

bool gg_hf_is_rope_object(const char *path)
{
    size_t n = strlen(path);
    return (n + 1 == strlen(PARAMETERS) && strncmp(path, PARAMETERS, n) == 0) ||
           (n + 1 == strlen(FULL) && strncmp(path, FULL, n) == 0) ||
           (n + 1 == strlen(SLIDING) && strncmp(path, SLIDING, n) == 0);
}

void gg_hf_old_path(char *path, size_t size)
{
    static const struct {
        const char *now, *was;
    } moved[] = { { FULL, SCALING },
                  { SLIDING, "rope_sliding." },
                  { PARAMETERS, SCALING },
                  { SCALING, SCALING } };
    char old[256];
    for (int i = 0; i < 4; i++) {
        size_t n = strlen(moved[i].now);
        if (strncmp(path, moved[i].now, n) != 0) continue;
        bool alone = stood_alone(path + n), local = i == 1 && strcmp(path + n, "rope_theta") == 0;
        snprintf(old, sizeof old, "%s%s",
                 local   ? ""
                 : alone ? ""
                         : moved[i].was,
                 local ? LOCAL_BASE : path + n);
        snprintf(path, size, "%s", old);
        return;
    }
}

void gg_hf_value_text(const gg_json_node *node, char out[80])
{
    const char *text = "";
    size_t len = 0;
    bool yes = false;
    switch (gg_json_type_of(node)) {
    case GG_JSON_BOOL:
        gg_json_bool(node, &yes, NULL);
        text = yes ? "true" : "false";
        len = strlen(text);
        break;
    case GG_JSON_NUMBER: text = gg_json_number_text(node, &len); break;
    case GG_JSON_STRING: gg_json_string(node, &text, &len, NULL); break;
    case GG_JSON_ARRAY: snprintf(out, 80, "[%zu values]", gg_json_count(node)); return;
    case GG_JSON_OBJECT: snprintf(out, 80, "{%zu members}", gg_json_count(node)); return;
    default: text = "null", len = 4; break;
    }
    gg_escape(text, len < 48 ? len : 48, out, 72);
    if (len > 48) strcat(out, "...");
}

static bool number_of(const gg_json_node *node, double *value)
{
    bool yes = false;
    if (gg_json_type_of(node) == GG_JSON_BOOL && gg_json_bool(node, &yes, NULL) == GG_OK) {
        *value = yes;
        return true;
    }
    return node && gg_json_f64(node, value, NULL) == GG_OK;
}

/* The first field with a value among those of which a key can be made. */
typedef struct twin_field {
    char name[64];
    const gg_json_node *value;
} twin_field;

/* Numbers are compared by value: 1e-05 is 0.00001. */
static bool same_value(const gg_json_node *a, const gg_json_node *b)
{
    char left[80], right[80];
    double x, y;
    if (number_of(a, &x) && number_of(b, &y)) return x == y;
    gg_hf_value_text(a, left);
    gg_hf_value_text(b, right);
    return strcmp(left, right) == 0;
}

/* Compares a field with those that make the same key. */
static gg_status add_twin(const gg_json_node *node, const char *name, twin_field *first, gg_buf *to,
                          gg_error *err)
{
    char was[80], value[80];
    double x;
    if (!node || !number_of(node, &x)) return GG_OK;
    if (!first->value) {
        snprintf(first->name, sizeof first->name, "%s", name);
        first->value = node;
        return GG_OK;
    }
    if (same_value(first->value, node)) return GG_OK;
    gg_hf_value_text(first->value, was);
    gg_hf_value_text(node, value);
    return gg_buf_printf(to, err, "%s%s = %s, and %s = %s%s", to->len ? ", " : "", first->name, was,
                         name, value, strcmp(first->name, name) == 0 ? " elsewhere" : "");
}

/* Fields that mean the same for a key, and have different values. A field of rotary positions that
 * may stand in several places is taken from the first: gg_hf_contradictions compares the places. */
static gg_status add_twins(const gg_json_node *config, const gg_hf_key *k, gg_buf *to,
                           gg_error *err)
{
    const gg_json_node *roots[4];
    char paths[4][96], name[64];
    twin_field first = { "", NULL };
    for (const char *p = k->same; *p && err->status == GG_OK;) {
        size_t n = strcspn(p, " ");
        snprintf(name, sizeof name, "%.*s", (int)n, p);
        p += n + strspn(p + n, " ");
        if (strpbrk(name, "*/+-")) continue;
        if (paths_of_field(name, paths) > 1) {
            add_twin(gg_hf_field(config, name), name, &first, to, err);
            continue;
        }
        for (const gg_json_node *const *r = roots_of(config, roots); *r; r++)
            add_twin(node_at(*r, name), name, &first, to, err);
    }
    return err->status;
}

/* rope_type, and its older name. */
static gg_status add_rope_types(const gg_json_node *config, gg_buf *to, gg_error *err)
{
    char now[80], was[80];
    const gg_json_node *a = gg_hf_field(config, SCALING "rope_type"),
                       *b = gg_hf_field(config, SCALING "type");
    if (!a || !b) return GG_OK;
    gg_hf_value_text(a, now);
    gg_hf_value_text(b, was);
    if (strcmp(now, was) == 0) return GG_OK;
    return gg_buf_printf(to, err, "%s" SCALING "rope_type = %s, and type = %s", to->len ? ", " : "",
                         now, was);
}

gg_status gg_hf_contradictions(const gg_json_node *config, const char *arch, gg_buf *to,
                               gg_error *err)
{
    static const char *const names[] = { "rope_theta",        "partial_rotary_factor",
                                         LOCAL_BASE,          SCALING "factor",
                                         SCALING "rope_type", "tie_word_embeddings" };
    const gg_json_node *roots[4], *first, *other;
    char paths[4][96], was[80], value[80];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int n = paths_of_field(names[i], paths);
        first = other = NULL;
        for (const gg_json_node *const *r = roots_of(config, roots); *r; r++)
            for (int k = 0; k < n && !other; k++) {
                const gg_json_node *node = node_at(*r, paths[k]);
                if (node && first && !same_value(first, node)) other = node;
                if (node && !first) first = node;
            }
        if (!other) continue;
        gg_hf_value_text(first, was);
        gg_hf_value_text(other, value);
        gg_buf_printf(to, err, "%s%s = %s, and %s elsewhere", to->len ? ", " : "", names[i], was,
                      value);
    }
    if (err->status == GG_OK) add_rope_types(config, to, err);
    static const char *const same[][2] = {
        { ORIGINAL, SCALING ORIGINAL },
        { "partial_rotary_factor", "rotary_pct" },
        { "partial_rotary_factor", "rope_pct" },
    };
    for (size_t i = !gg_hf_is(arch, GG_HF_LONG_ROPE); i < 3; i++) {
        twin_field one = { "", NULL };
        for (int k = 0; k < 2 && err->status == GG_OK; k++)
            add_twin(gg_hf_field(config, same[i][k]), same[i][k], &one, to, err);
    }
    for (int t = 0; t < 2; t++)
        for (const gg_hf_key *k = t ? gg_hf_yarn_keys : gg_hf_keys; k->key; k++)
            if (err->status == GG_OK && gg_hf_has(k->archs, arch)) add_twins(config, k, to, err);
    return err->status;
}

/* Whether a field is a text, in upper or lower case, as in the tables of fields. */
static bool field_is(const gg_json_node *config, const char *field, const char *text)
{
    const char *got;
    size_t len;
    return gg_json_string(gg_hf_field(config, field), &got, &len, NULL) == GG_OK &&
           len == strlen(text) && strncasecmp(got, text, len) == 0;
}

static bool rope_is(const gg_json_node *config, const char *type)
{
    return field_is(config, "rope_scaling.rope_type", type) ||
           field_is(config, "rope_scaling.type", type);
}

/* The value of an alternative such as "hidden_size/num_attention_heads". */
static bool evaluate(const gg_json_node *config, const char *text, size_t len, double *value)
{
    char op = 0, word[64];
    for (size_t i = 0; i < len;) {
        size_t n = 0;
        double x;
        while (i + n < len && !strchr("*/+-", text[i + n])) n++;
        if (n == 0 || n >= sizeof word) return false;
        memcpy(word, text + i, n);
        word[n] = '\0';
        if (isdigit((unsigned char)word[0])) x = strtod(word, NULL);
        else if (!number_of(gg_hf_field(config, word), &x)) return false;
        if (op == '/' && x == 0) return false;
        *value = op == '*'   ? *value * x
                 : op == '/' ? *value / x
                 : op == '+' ? *value + x
                 : op == '-' ? *value - x
                             : x;
        i += n;
        op = i < len ? text[i++] : 0;
    }
    return true;
}

/* "one of FIELD a b c": 1, 2, 3; "if FIELD": only if true; "is FIELD TEXT": 0 or 1; "but X
 * FIELD...": the first of the fields, unless it is X. */
static bool evaluate_words(const gg_json_node *config, const char *text, double *value)
{
    char field[64], list[128];
    double usual;
    if (sscanf(text, "but %lf %127[^\n]", &usual, list) == 2)
        return gg_hf_value(config, list, value) && *value != usual;
    if (sscanf(text, "one of %63s %127[^\n]", field, list) == 2) {
        int i = 0;
        for (char *save = NULL, *w = strtok_r(list, " ", &save); w;
             w = strtok_r(NULL, " ", &save)) {
            *value = ++i;
            if (field_is(config, field, w)) return true;
        }
        return false;
    }
    if (sscanf(text, "if %63s", field) == 1)
        return number_of(gg_hf_field(config, field), value) && *value != 0;
    return sscanf(text, "is %63s %127s", field, list) == 2 &&
           (*value = field_is(config, field, list), true);
}

bool gg_hf_value(const gg_json_node *config, const char *text, double *value)
{
    if (strncmp(text, "one of ", 7) == 0 || strncmp(text, "if ", 3) == 0 ||
        strncmp(text, "is ", 3) == 0 || strncmp(text, "but ", 4) == 0)
        return evaluate_words(config, text, value);
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, " ");
        if (evaluate(config, p, n, value)) return true;
        p += n + strspn(p + n, " ");
    }
    return false;
}

/* ---- keys ---------------------------------------------------------------------------------- */

static bool fits_u32(double value)
{
    return value >= 0 && value < 4294967296.0;
}

static gg_status set_number(gg_meta *meta, const char *arch, const char *name, uint32_t type,
                            double value, gg_error *err)
{
    char key[128];
    uint32_t bits = value != 0;
    snprintf(key, sizeof key, "%s.%s", arch, name);
    if (type == GG_TYPE_F32) bits = gg_float_bits((float)value);
    else if (type == GG_TYPE_U32) bits = fits_u32(value) ? (uint32_t)value : 0;
    return gg_meta_set_bits(meta, key, type, bits, err);
}

static gg_status set_text(gg_meta *meta, const char *arch, const char *name, const char *text,
                          size_t len, gg_error *err)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", arch, name);
    return gg_meta_set_str(meta, key, text, len, err);
}

/* The scaling of rotary positions that the general rules of the converter write. */
static gg_status set_rope_scaling(const gg_json_node *config, const char *arch, gg_meta *meta,
                                  gg_error *err)
{
    static const char *const types[] = { "linear", "yarn" };
    double x;
    bool typed = gg_hf_field(config, "rope_scaling.rope_type") ||
                 gg_hf_field(config, "rope_scaling.type");
    bool factor = gg_hf_value(config, gg_hf_yarn_keys[0].value, &x);
    if (!typed && factor)
        return gg_fail(err, GG_EUNSUPPORTED,
                       "rope_scaling in config.json has a factor but no type");
    if (!factor &&
        (rope_is(config, "linear") || rope_is(config, "yarn") || rope_is(config, "llama3")))
        return gg_fail(err, GG_EUNSUPPORTED,
                       "rope_scaling in config.json has a type but no factor");
    for (int t = 0; t < 2; t++) {
        if (!rope_is(config, types[t]) || !gg_hf_value(config, gg_hf_yarn_keys[0].value, &x))
            continue;
        gg_status st = set_text(meta, arch, "rope.scaling.type", types[t], strlen(types[t]), err);
        for (const gg_hf_key *k = gg_hf_yarn_keys; k->key && st == GG_OK; k++)
            if ((t == 1 || k == gg_hf_yarn_keys) && gg_hf_value(config, k->value, &x))
                st = set_number(meta, arch, k->key, k->type, x, err);
        return st;
    }
    return GG_OK;
}

/* What phi3 has instead: the strength of attention for contexts beyond the original one. */
static gg_status set_long_rope(const gg_json_node *config, const char *arch, gg_meta *meta,
                               gg_error *err)
{
    double most, original;
    bool factors[2] = { gg_hf_field(config, "rope_scaling.long_factor"),
                        gg_hf_field(config, "rope_scaling.short_factor") },
         typed = rope_is(config, "longrope") || rope_is(config, "su");
    if (typed != factors[0] || typed != factors[1])
        return gg_fail(err, GG_EUNSUPPORTED,
                       "rope_scaling in config.json must have type longrope, long_factor and "
                       "short_factor, or none of them");
    if (!gg_hf_value(config, "max_position_embeddings n_positions", &most) ||
        !gg_hf_value(config,
                     "original_max_position_embeddings "
                     "rope_scaling.original_max_position_embeddings max_position_embeddings",
                     &original))
        return GG_OK;
    gg_status st = set_number(meta, arch, "rope.scaling.original_context_length", GG_TYPE_U32,
                              original, err);
    if (st != GG_OK || !typed) return st;
    double scale = most / original, factor = 1;
    if (scale > 1 && original > 1) factor = sqrt(1 + gg_hf_log(scale) / gg_hf_log(original));
    return set_number(meta, arch, "rope.scaling.attn_factor", GG_TYPE_F32, factor, err);
}

static gg_status set_rope_sections(const gg_json_node *config, const char *arch, gg_meta *meta,
                                   gg_error *err)
{
    const uint32_t usual[4] = { 11, 11, 10, 0 };
    const gg_json_node *list = gg_hf_field(config, "rope_scaling.mrope_section");
    char key[64];
    uint8_t le[16] = { 0 };
    int i = 0;
    bool fits = !list || (gg_json_count(list) > 0 && gg_json_count(list) <= 4);
    for (const gg_json_node *n = gg_json_first(list); n && fits; n = gg_json_next(n), i++) {
        double x = 0;
        fits = number_of(n, &x) && x >= 0 && x < 65536 && gg_is_whole(x);
        if (fits) gg_put_le32(le + 4 * i, (uint32_t)x);
    }
    if (!fits)
        return gg_fail(err, GG_EUNSUPPORTED,
                       "mrope_section in config.json must be a list of at most 4 whole numbers");
    for (i = 0; !list && i < 4; i++) gg_put_le32(le + 4 * i, usual[i]);
    snprintf(key, sizeof key, "%s.rope.dimension_sections", arch);
    gg_kv kv = { key, strlen(key), GG_TYPE_ARR, GG_TYPE_I32, 4, le, sizeof le };
    return gg_meta_set(meta, &kv, err);
}

/* ---- layers ------------------------------------------------------------------------------- */

/* What layer_types tells: in which layers attention is full. */
typedef struct layer_kinds {
    const gg_json_node *list;
    size_t n, full, first_full; /* first_full is counted from 1; 0 = none */
    const char *other;          /* the kind of the others */
    bool periodic; /* the layers first_full, 2 first_full, ... and no others are full */
} layer_kinds;

/* Reads the list. `other` is the kind of the layers that are not full. */
static gg_status read_layer_kinds(const gg_json_node *config, const char *other, layer_kinds *k,
                                  gg_error *err)
{
    double blocks = 0;
    size_t i = 0;
    char value[80];
    *k = (layer_kinds){ .list = gg_hf_field(config, "layer_types"), .other = other };
    if (!k->list) return GG_OK;
    k->n = gg_json_count(k->list);
    gg_hf_value(config, "num_hidden_layers n_layer n_layers num_layers", &blocks);
    if (gg_json_type_of(k->list) != GG_JSON_ARRAY || (double)k->n != blocks)
        return gg_fail(err, GG_EFORMAT,
                       "layer_types in config.json has %zu entries, but the model has %.0f layers; "
                       "correct the list",
                       k->n, blocks);
    for (const gg_json_node *n = gg_json_first(k->list); n; n = gg_json_next(n)) {
        i++;
        if (gg_json_is(n, "full_attention")) {
            if (!k->full++) k->first_full = i;
        } else if (!gg_json_is(n, other)) {
            gg_hf_value_text(n, value);
            return gg_fail(err, GG_EUNSUPPORTED,
                           "layer_types in config.json has %s, which engines cannot do for this "
                           "architecture",
                           value);
        }
    }
    k->periodic = true;
    i = 0;
    for (const gg_json_node *n = gg_json_first(k->list); n; n = gg_json_next(n))
        if (gg_json_is(n, "full_attention") != (k->first_full && ++i % k->first_full == 0))
            k->periodic = false;
    return GG_OK;
}

static gg_status refuse_layers(const char *what, gg_error *err)
{
    gg_fail(err, GG_EUNSUPPORTED,
            "layer_types in config.json has full attention %s, and engines read only a period for "
            "this architecture",
            what);
    return gg_fix(err, "keep or remove whole periods of layers");
}

/* The interval of full attention among layers of linear attention. */
static gg_status set_interval(const gg_json_node *config, const char *arch, const layer_kinds *k,
                              gg_meta *meta, gg_error *err)
{
    double period = (double)k->first_full;
    bool stated = gg_hf_value(config, "full_attention_interval", &period);
    if (!k->periodic) return refuse_layers("in irregular places", err);
    if (!k->full && (!stated || period <= (double)k->n)) return refuse_layers("nowhere", err);
    if (!k->full) return GG_OK;
    if (stated && period != (double)k->first_full && period <= (double)k->n)
        return gg_fail(err, GG_EFORMAT,
                       "layer_types in config.json has full attention in every layer number %zu, "
                       "but full_attention_interval is %.0f",
                       k->first_full, period);
    return set_number(meta, arch, "full_attention_interval", GG_TYPE_U32, period, err);
}

static void delete_key(gg_meta *meta, const char *arch, const char *name)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", arch, name);
    gg_meta_delete(meta, key);
}

#define PATTERN "attention.sliding_window_pattern"

/* The period of full attention among layers with a window. */
static gg_status set_pattern(const char *arch, const layer_kinds *k, gg_meta *meta, gg_error *err)
{
    double usual = gg_hf_is(arch, GG_HF_WINDOW_6) ? 6 : gg_hf_is(arch, GG_HF_WINDOW_2) ? 2 : 4;
    if (!k->periodic) return refuse_layers("in irregular places", err);
    delete_key(meta, arch, PATTERN);
    if (k->full ? (double)k->first_full == usual : (double)k->n < usual) return GG_OK;
    return set_number(meta, arch, PATTERN, GG_TYPE_U32, k->full ? (double)k->first_full : 0, err);
}

/* Which layers have a window, or linear attention. */
static gg_status set_layers(const gg_json_node *config, const char *arch, gg_meta *meta,
                            gg_error *err)
{
    bool linear = gg_hf_is(arch, GG_HF_LINEAR_BLOCKS), window = gg_hf_is(arch, GG_HF_WINDOWS);
    double size = 0, most;
    layer_kinds k;
    if (read_layer_kinds(config, linear ? "linear_attention" : "sliding_attention", &k, err) !=
        GG_OK)
        return err->status;
    if (!k.list || k.n == 0) return GG_OK;
    if (linear) return set_interval(config, arch, &k, meta, err);
    gg_hf_value(config, "sliding_window", &size);
    bool two = gg_hf_is(arch, GG_HF_WINDOW_2); /* engines have a window without the key */
    if (k.full == k.n || (size <= 0 && !two && !gg_hf_is(arch, GG_HF_WINDOW_6))) {
        delete_key(meta, arch, "attention.sliding_window");
        delete_key(meta, arch, PATTERN);
        return two ? set_number(meta, arch, PATTERN, GG_TYPE_U32, 1, err) : GG_OK;
    }
    if (window) return set_pattern(arch, &k, meta, err);
    bool beyond = gg_hf_value(config, "max_position_embeddings", &most) && size >= most;
    if (beyond || (gg_hf_is(arch, GG_HF_SAME_WINDOWS) && k.full == 0)) return GG_OK;
    return gg_fail(err, GG_EUNSUPPORTED,
                   "layer_types in config.json has windows, which engines cannot do for the "
                   "architecture %s",
                   arch);
}

gg_status gg_hf_make_keys(const gg_json_node *config, const char *arch, gg_meta *meta,
                          gg_error *err)
{
    gg_status st = GG_OK;
    for (const gg_hf_key *k = gg_hf_keys; k->key && st == GG_OK; k++) {
        double x = 0;
        if (!gg_hf_has(k->archs, arch)) continue;
        if (k->value[0] == '\'')
            st = set_text(meta, arch, k->key, k->value + 1, strlen(k->value) - 2, err);
        else if (gg_hf_value(config, k->value, &x)) {
            /* Single fields are compared with their table, which names them. */
            if (k->type == GG_TYPE_U32 && strpbrk(k->value, "*/+") && !fits_u32(x))
                return gg_fail(err, GG_EUNSUPPORTED, "config.json gives %s.%s the value %g", arch,
                               k->key, x);
            st = set_number(meta, arch, k->key, k->type, x, err);
        }
    }
    if (st == GG_OK && gg_hf_is(arch, GG_HF_LONG_ROPE)) st = set_long_rope(config, arch, meta, err);
    else if (st == GG_OK) st = set_rope_scaling(config, arch, meta, err);
    if (st == GG_OK && gg_hf_is(arch, GG_HF_ROPE_SECTIONS))
        st = set_rope_sections(config, arch, meta, err);
    if (st == GG_OK) st = set_layers(config, arch, meta, err);
    return st;
}

gg_status gg_hf_rope_freqs(const gg_json_node *config, float **out, size_t *n, gg_error *err)
{
    double dim, base = 10000, factor, low, high, original;
    *n = 0;
    if (!rope_is(config, "llama3") ||
        !gg_hf_value(config, "head_dim hidden_size/num_attention_heads", &dim) || !(dim >= 2) ||
        dim > 65536)
        return GG_OK;
    gg_hf_value(config, "rope_theta", &base);
    if (!gg_hf_value(config, "rope_scaling.factor", &factor) ||
        !gg_hf_value(config, "rope_scaling.low_freq_factor", &low) ||
        !gg_hf_value(config, "rope_scaling.high_freq_factor", &high) ||
        !gg_hf_value(config, "rope_scaling.original_max_position_embeddings", &original))
        return gg_fail(err, GG_EUNSUPPORTED,
                       "rope_scaling in config.json lacks one of factor, low_freq_factor, "
                       "high_freq_factor and original_max_position_embeddings");
    if (!(base > 0) || !(low > 0) || !(high > low) || !(original > 0) || !(factor > 0))
        return gg_fail(err, GG_EFORMAT, "rope_scaling in config.json has impossible values");
    *n = (size_t)dim / 2;
    if (!(*out = malloc(*n * sizeof **out))) return gg_fail(err, GG_ENOMEM, "no memory");
    for (size_t i = 0; i < *n; i++) {
        float power = (float)gg_hf_exp((double)((float)(2 * i) / (float)dim) * gg_hf_log(base));
        float length = (float)(2 * 3.14159265358979323846) / (1.0f / power);
        float smooth = ((float)original / length - (float)low) / (float)(high - low);
        (*out)[i] = length < (float)(original / high) ? 1
                    : length > (float)(original / low)
                        ? (float)factor
                        : 1 / ((1 - smooth) / (float)factor + smooth);
    }
    return GG_OK;
}

/* ---- names --------------------------------------------------------------------------------- */

/* Reads a number of a name; *name is then behind it. Numbers over a million are the same. */
static int64_t number_in_name(const char **name, const char *end)
{
    int64_t n = 0;
    for (; *name < end && isdigit((unsigned char)**name); ++*name)
        if (n < 1000000) n = n * 10 + (**name - '0');
    return n;
}

/* Returns what follows the prefixes of models and "layers.N", and sets *block to N. */
static const char *skip_prefixes(const char *name, const char *end, int64_t *block)
{
    for (const char *p; (p = after_word(gg_hf_prefixes, name, end));) name = p; /* nested ones */
    const char *number = after_word(gg_hf_blocks, name, end);
    if (number && isdigit((unsigned char)*number)) {
        name = number;
        *block = number_in_name(&name, end);
    }
    return name;
}

/* The name as the table has it: without prefixes, with L. for the block and E for the expert. */
static bool plain_name(const char *name, size_t len, gg_hf_match *m, char out[GG_HF_NAME])
{
    const char *end = name + len;
    size_t at = 0;
    name = skip_prefixes(name, end, &m->block);
    if (m->block >= 0) out[at++] = 'L';
    while (name < end) {
        if (at + 1 >= GG_HF_NAME) return false;
        if (m->expert < 0 && at >= 9 && memcmp(out + at - 9, ".experts.", 9) == 0 &&
            isdigit((unsigned char)*name)) {
            m->expert = number_in_name(&name, end);
            out[at++] = 'E';
        } else {
            out[at++] = *name++;
        }
    }
    out[at] = '\0';
    /* The table's words for a number are no numbers. */
    return (m->block >= 0 || strncmp(out, "L.", 2) != 0) &&
           (m->expert >= 0 || !strstr(out, ".experts.E."));
}

/* Names of prediction blocks: mtp.layers.N.REST becomes L.REST, and mtp.REST L.mtp.REST. */
static void plain_prediction(gg_hf_match *m, char plain[GG_HF_NAME])
{
    char rest[GG_HF_NAME];
    const char *p = plain + strlen("mtp.");
    m->mtp = true;
    m->block = 0;
    if (strncmp(p, "layers.", 7) == 0 && isdigit((unsigned char)p[7])) {
        p += 7;
        m->block = number_in_name(&p, p + strlen(p));
        snprintf(rest, sizeof rest, "%s", p);
        snprintf(plain, GG_HF_NAME, "L%.126s", rest);
    } else {
        snprintf(rest, sizeof rest, "%s", plain);
        snprintf(plain, GG_HF_NAME, "L.%.120s", rest);
    }
}

gg_hf_match gg_hf_find(const char *arch, const char *name, size_t len)
{
    static const gg_hf_name none = { NULL, "", "-", NULL };
    gg_hf_match m = { .block = -1, .expert = -1, .ending = "" };
    char plain[GG_HF_NAME];
    if (!plain_name(name, len, &m, plain)) return m;
    if (strncmp(plain, "mtp.", 4) == 0 && gg_hf_is(arch, GG_HF_PREDICTIONS))
        plain_prediction(&m, plain);
    for (const gg_hf_part *p = gg_hf_parts; p->start; p++)
        if (strncmp(plain, p->start, strlen(p->start)) == 0) {
            m.part = p->name;
            m.rule = &none;
            return m;
        }
    size_t n = strlen(plain), stem = n;
    if (name_ends(plain, n, ".weight")) m.ending = ".weight";
    else if (name_ends(plain, n, ".bias")) m.ending = ".bias";
    stem -= strlen(m.ending);
    for (const gg_hf_name *r = gg_hf_names; r->hf; r++)
        if (strlen(r->hf) == stem && memcmp(r->hf, plain, stem) == 0 && gg_hf_has(r->archs, arch)) {
            m.rule = r;
            return m;
        }
    return m;
}

const gg_hf_name *gg_hf_further(const gg_hf_name *rule)
{
    const char *a = rule->archs ? rule->archs : "";
    bool same = rule->hf[0] && rule[1].hf && strcmp(rule[1].hf, rule->hf) == 0 &&
                strcmp(rule[1].archs ? rule[1].archs : "", a) == 0;
    return same ? rule + 1 : NULL;
}

bool gg_hf_gguf_name(const gg_hf_name *rule, const gg_hf_match *m, char out[GG_HF_NAME])
{
    size_t len = strlen(rule->gguf); /* some rows have the ending */
    bool whole = name_ends(rule->gguf, len, ".weight") || name_ends(rule->gguf, len, ".bias");
    const char *ending = whole ? "" : m->ending;
    int n = rule->gguf[0] == 'B' ? snprintf(out, GG_HF_NAME, "blk.%lld%s%s", (long long)m->block,
                                            rule->gguf + 1, ending)
                                 : snprintf(out, GG_HF_NAME, "%s%s", rule->gguf, ending);
    return n > 0 && n < GG_HF_NAME;
}

bool gg_hf_is_plus_one(const char *arch, const char *name, size_t len)
{
    return gg_hf_is(arch, GG_HF_PLUS_ONE) &&
           (name_ends(name, len, "norm.weight") || strstr(name, ".pre_fc_norm_")) &&
           !name_ends(name, len, "linear_attn.norm.weight");
}

bool gg_hf_is_f32(const char *name, uint32_t n_dims)
{
    size_t n = strlen(name);
    return n_dims <= 1 || !name_ends(name, n, ".weight") ||
           gg_hf_ends_with(gg_hf_always_f32, name, n) ||
           gg_text_has_word(gg_hf_always_f32, name, n);
}

/* ---- movement of values -------------------------------------------------------------------- */

gg_hf_sizes gg_hf_sizes_of(const gg_meta *meta)
{
    gg_hf_sizes s = { .heads = gg_arch_number(meta, "attention.head_count"),
                      .kv = gg_arch_number(meta, "attention.head_count_kv"),
                      .value = gg_arch_number(meta, "attention.value_length_mla"),
                      .groups = gg_arch_number(meta, "ssm.group_count"),
                      .key_heads = gg_arch_number(meta, "ssm.group_count"),
                      .value_heads = gg_arch_number(meta, "ssm.time_step_rank"),
                      .key_dim = gg_arch_number(meta, "ssm.state_size") };
    uint64_t key = gg_arch_number(meta, "attention.key_length_mla"),
             rope = gg_arch_number(meta, "rope.dimension_count");
    s.nope = key > rope ? key - rope : 0;
    if (!s.kv) s.kv = s.heads;
    if (s.value_heads) s.value_dim = gg_arch_number(meta, "ssm.inner_size") / s.value_heads;
    return s;
}

/* A size: a number or a word. Returns false if the word is unknown or the size is 0. */
static bool size_of_word(const char *w, size_t len, const gg_hf_sizes *s, uint64_t *value)
{
    uint64_t group = s->kv ? s->heads / s->kv : 0,
             ratio = s->key_heads ? s->value_heads / s->key_heads : 0;
    const struct {
        const char *name;
        uint64_t value;
    } words[] = {
        { "heads", s->heads },
        { "kv", s->kv },
        { "group", group },
        { "group1", group + 1 },
        { "group2", group + 2 },
        { "nope", s->nope },
        { "value", s->value },
        { "groups", s->groups },
        { "key_heads", s->key_heads },
        { "ratio", ratio },
        { "key_dim", s->key_dim },
        { "two_keys", 2 * s->key_dim },
        { "values", ratio * s->value_dim },
        { "to_gate", 2 * s->key_dim + ratio * s->value_dim },
        { "all_keys", 2 * s->key_heads * s->key_dim },
        { "all_values", s->value_heads * s->value_dim },
        { "vocab", s->vocab },
    };
    if (len && isdigit((unsigned char)w[0])) {
        *value = strtoull(w, NULL, 10);
        return true;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (gg_text_is(w, len, words[i].name)) {
            *value = words[i].value;
            return words[i].value > 0;
        }
    return false;
}

static bool cut_axis(gg_hf_view *v, unsigned k, const uint64_t *sizes, unsigned n)
{
    uint64_t product = 1;
    unsigned free_at = n;
    if (v->n + n - 1 > GG_HF_AXES) return false;
    for (unsigned i = 0; i < n; i++) {
        if (sizes[i] == UINT64_MAX) free_at = i;
        else if (sizes[i] > v->count[k]) return false;
        else product *= sizes[i];
        if (product > v->count[k]) return false;
    }
    if (product == 0 || v->count[k] % product != 0 || (free_at == n && product != v->count[k]))
        return false;
    uint64_t left = v->count[k] / product, step = v->step[k];
    for (unsigned i = v->n; i-- > k + 1;) {
        v->count[i + n - 1] = v->count[i];
        v->step[i + n - 1] = v->step[i];
        v->origin[i + n - 1] = v->origin[i];
    }
    v->n += n - 1;
    for (unsigned i = n; i-- > 0;) {
        v->count[k + i] = i == free_at ? left : sizes[i];
        v->step[k + i] = step;
        v->origin[k + i] = v->origin[k];
        step *= v->count[k + i];
    }
    return true;
}

static bool swap_axes(gg_hf_view *v, unsigned a, unsigned b)
{
    if (v->n == 1) return true; /* the bias of a transposed matrix */
    if (a >= v->n || b >= v->n) return false;
    uint64_t count = v->count[a], step = v->step[a];
    uint8_t origin = v->origin[a];
    v->count[a] = v->count[b];
    v->step[a] = v->step[b];
    v->origin[a] = v->origin[b];
    v->count[b] = count;
    v->step[b] = step;
    v->origin[b] = origin;
    return true;
}

static bool take_items(gg_hf_view *v, unsigned k, uint64_t from, uint64_t n)
{
    if (n == 0 || n > v->count[k] || from > v->count[k] - n) return false;
    v->first += from * v->step[k];
    v->count[k] = n;
    return true;
}

static void drop_unit_axes(gg_hf_view *v)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->count[i] == 1) continue;
        v->count[n] = v->count[i];
        v->step[n] = v->step[i];
        v->origin[n++] = v->origin[i];
    }
    if (n) v->n = n;
}

/* The sizes after the colon of a word; UINT64_MAX for *. Returns false if one is wrong. */
static bool arguments_of(const char *w, size_t len, const gg_hf_sizes *sizes,
                         uint64_t args[GG_HF_AXES], unsigned *n)
{
    const char *p = memchr(w, ':', len), *end = w + len;
    if (!p) return false;
    for (p++; p < end; p++) {
        size_t m = 0;
        while (p + m < end && p[m] != ',') m++;
        if (*n >= GG_HF_AXES) return false;
        args[*n] = UINT64_MAX;
        if (*p != '*' && !size_of_word(p, m, sizes, &args[*n])) return false;
        ++*n;
        p += m;
    }
    return true;
}

/* Applies one word to a view; sets flags. */
static bool apply_word(gg_hf_view *v, const char *w, size_t len, const gg_hf_sizes *sizes,
                       bool *keep, bool *neg_exp)
{
    uint64_t args[GG_HF_AXES];
    unsigned n = 0;
    if (strncmp(w, "keep", 4) == 0) return *keep = true;
    if (strncmp(w, "exp", 3) == 0) return *neg_exp = true;
    if (strncmp(w, "squeeze", 7) == 0) {
        drop_unit_axes(v);
        return true;
    }
    if (strncmp(w, "swap", 4) == 0)
        return swap_axes(v, (unsigned)(w[4] - '0'), (unsigned)(w[6] - '0'));
    unsigned k = (unsigned)(w[strcspn(w, "0123456789")] - '0');
    if (k >= v->n || !arguments_of(w, len, sizes, args, &n)) return false;
    if (w[0] == 'c') return cut_axis(v, k, args, n);
    if (w[0] == 't')
        return take_items(v, k, args[0], args[1] > v->count[k] ? v->count[k] : args[1]);
    return v->count[k] % 2 == 0 && take_items(v, k, args[0] * (v->count[k] / 2), v->count[k] / 2);
}

/* The dims of the result: axes that were cut from one are joined, unless they are kept. */
static bool dims_of_view(const gg_hf_view *v, bool keep, gg_hf_move *out)
{
    uint64_t dims[GG_HF_AXES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        if (i > 0 && !keep && v->origin[i] == v->origin[i - 1]) dims[n - 1] *= v->count[i];
        else dims[n++] = v->count[i];
    }
    if (out->n_views == 0) {
        out->n_dims = n;
        memcpy(out->dims, dims, sizeof dims);
        return true;
    }
    out->dims[0] += dims[0];
    return n == out->n_dims && memcmp(dims + 1, out->dims + 1, (n - 1) * sizeof *dims) == 0;
}

static bool whole_view(uint32_t n_dims, const uint64_t *dims, gg_hf_view *v)
{
    uint64_t step = 1;
    *v = (gg_hf_view){ .n = n_dims ? n_dims : 1, .count = { 1 }, .step = { 1 } };
    if (n_dims > GG_HF_AXES) return false;
    for (uint32_t i = n_dims; i-- > 0;) {
        v->count[i] = dims[i];
        v->step[i] = step;
        v->origin[i] = (uint8_t)i;
        step *= dims[i];
    }
    return true;
}

uint64_t gg_hf_view_elements(const gg_hf_view *v)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < v->n; i++) n *= v->count[i];
    return n;
}

bool gg_hf_views(const char *ops, const gg_hf_sizes *sizes, uint32_t n_dims, const uint64_t *dims,
                 gg_hf_move *out)
{
    const char *p = ops ? ops : "";
    *out = (gg_hf_move){ .n_views = 0 };
    do {
        bool keep = false;
        gg_hf_view *v = &out->view[out->n_views];
        if (out->n_views == GG_HF_VIEWS || !whole_view(n_dims, dims, v)) return false;
        while (*p && *p != '+') {
            size_t n = strcspn(p, " ");
            if (!apply_word(v, p, n, sizes, &keep, &out->neg_exp)) return false;
            p += n + strspn(p + n, " ");
        }
        if (!dims_of_view(v, keep, out)) return false;
        out->n_views++;
        p += *p == '+' ? 1 + strspn(p + 1, " ") : 0;
    } while (*p);
    return true;
}

bool gg_hf_pair_ops(const char *ops, bool embedding, const char **a, const char **b)
{
    bool conv = ops && strcmp(ops, "swap0,1") == 0, columns = ops && strncmp(ops, "cut1", 4) == 0;
    *a = embedding ? "swap0,1" : columns ? ops : NULL;
    *b = embedding || columns || conv ? NULL : ops;
    return columns;
}
