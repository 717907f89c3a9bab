/* hf_fields.c - compares the fields of a JSON file with their table. */
#include "hf_fields.h"

#include "base/error.h"
#include "base/text.h"
#include "hf.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_MAX_LEN 160

/* ---- values ------------------------------------------------------------------------------- */

/* Whether a text fits a pattern of n bytes, in which * is any text. */
static bool fits(const char *pattern, size_t n, const char *text)
{
    const char *end = pattern + n, *star = NULL, *resume = text;
    while (*text) {
        if (pattern < end && *pattern == '*') {
            star = ++pattern;
            resume = text;
        } else if (pattern < end && *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++resume;
        } else return false;
    }
    while (pattern < end && *pattern == '*') pattern++;
    return pattern == end;
}

/* Whether a text fits a pattern, in upper or lower case. */
static bool is_text(const gg_json_node *node, const char *pattern)
{
    const char *text;
    size_t len;
    char copy[128], lower[128];
    if (gg_json_type_of(node) != GG_JSON_STRING ||
        gg_json_string(node, &text, &len, NULL) != GG_OK || len >= sizeof copy ||
        memchr(text, '\0', len))
        return false;
    for (size_t i = 0; i < len; i++) copy[i] = (char)tolower((unsigned char)text[i]);
    copy[len] = '\0';
    for (len = 0; pattern[len] && len + 1 < sizeof lower; len++)
        lower[len] = (char)tolower((unsigned char)pattern[len]);
    lower[len] = '\0';
    return fits(lower, len, copy);
}

static bool is_number(const gg_json_node *node, double *x)
{
    return gg_json_type_of(node) == GG_JSON_NUMBER && gg_json_f64(node, x, NULL) == GG_OK;
}

/* Whether all texts of a list, or one of them, fit a word. */
static bool list_has(const gg_json_node *list, bool all, const char *word)
{
    if (gg_json_type_of(list) != GG_JSON_ARRAY || !gg_json_first(list)) return false;
    for (const gg_json_node *n = gg_json_first(list); n; n = gg_json_next(n))
        if (is_text(n, word) != all) return !all;
    return all;
}

/* Whether a value is neither true nor false. */
static bool is_no_bool(const gg_json_node *node)
{
    gg_json_type type = gg_json_type_of(node);
    return node && type != GG_JSON_BOOL && type != GG_JSON_NULL;
}

static bool value_fits(const gg_json_node *root, const gg_json_node *node, const char *word);

/* Whether a list has the values of a word such as [0,Infinity]. */
static bool list_fits(const gg_json_node *root, const gg_json_node *list, const char *word)
{
    char item[96];
    const gg_json_node *n = gg_json_first(list);
    if (*word++ != '[') return false;
    for (; n && *word && *word != ']'; n = gg_json_next(n)) {
        size_t len = strcspn(word, ",]");
        snprintf(item, sizeof item, "%.*s", (int)len, word);
        if (!value_fits(root, n, item)) return false;
        word += len + (word[len] == ',');
    }
    return !n && strcmp(word, "]") == 0;
}

/* Whether a value is the one that a word of the table stands for. */
static bool value_fits(const gg_json_node *root, const gg_json_node *node, const char *word)
{
    double x, y;
    bool least = strncmp(word, ">=@", 3) == 0, absent = !node;
    bool yes;
    if (strcmp(word, "absent") == 0) return absent;
    if (strcmp(word, "no-bool") == 0) return is_no_bool(node);
    if (strcmp(word, "<0") == 0 || strcmp(word, "<=0") == 0)
        return is_number(node, &x) && (x < 0 || (x == 0 && word[1] == '='));
    if (strncmp(word, "all:", 4) == 0 || strncmp(word, "any:", 4) == 0)
        return list_has(node, word[1] == 'l', word + 4);
    if (least || word[0] == '@')
        return is_number(node, &x) && gg_hf_value(root, word + (least ? 3 : 1), &y) &&
               (least ? x >= y : x == y);
    switch (gg_json_type_of(node)) {
    case GG_JSON_BOOL:
        return gg_json_bool(node, &yes, NULL) == GG_OK && strcmp(word, yes ? "true" : "false") == 0;
    case GG_JSON_NUMBER: {
        char *end;
        y = strtod(word, &end);
        return end != word && *end == '\0' && is_number(node, &x) && x == y;
    }
    case GG_JSON_STRING: /* transformers takes "false" for true */
        return strcmp(word, "true") != 0 && strcmp(word, "false") != 0 && is_text(node, word);
    case GG_JSON_ARRAY: return list_fits(root, node, word);
    case GG_JSON_OBJECT: return strcmp(word, "{}") == 0 && gg_json_count(node) == 0;
    case GG_JSON_NULL: return !absent && strcmp(word, "null") == 0;
    default: return false;
    }
}

/* Whether one of the words fits; true without words. */
static bool any_fits(const gg_json_node *root, const gg_json_node *node, const char *words)
{
    char word[96];
    for (const char *p = words; p && *p;) {
        size_t n = strcspn(p, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, p);
        if (value_fits(root, node, word)) return true;
        p += n + strspn(p + n, " ");
    }
    return !words;
}

/* "FIELD VALUE...", which must hold. */
static bool condition_holds(const gg_json_node *root, const char *when)
{
    char field[64];
    size_t n = when ? strcspn(when, " ") : 0;
    if (!when) return true;
    snprintf(field, sizeof field, "%.*s", (int)n, when);
    return any_fits(root, gg_hf_field(root, field), when + n + strspn(when + n, " "));
}

/* ---- fields ------------------------------------------------------------------------------- */

/* Whether a key can be made of this value of the field, which is a whole alternative or a part of
 * an expression. */
static bool key_takes(const gg_hf_key *k, bool whole, const gg_json_node *root,
                      const gg_json_node *node)
{
    double x;
    gg_json_type type = gg_json_type_of(node);
    if (strncmp(k->value, "one of ", 7) == 0)
        return type == GG_JSON_STRING && any_fits(root, node, strchr(k->value + 7, ' ') + 1);
    if (strncmp(k->value, "is ", 3) == 0) return type == GG_JSON_STRING;
    if (type == GG_JSON_BOOL) return k->type == GG_TYPE_BOOL || strncmp(k->value, "if ", 3) == 0;
    if (!is_number(node, &x)) return false;
    float f = (float)x;
    if (k->type == GG_TYPE_F32) return f - f == 0 && (f != 0 || x == 0);
    return !whole || k->type != GG_TYPE_U32 || (x >= 0 && x < 4294967296.0 && x == (uint32_t)x);
}

/* Whether a key of the architecture is made of the field. *fit tells whether its value can be
 * taken. */
static bool makes_a_key(const char *arch, const char *path, const gg_json_node *root,
                        const gg_json_node *node, bool *fit)
{
    size_t n = strlen(path);
    bool makes = false;
    *fit = true;
    for (int t = 0; t < 2; t++)
        for (const gg_hf_key *k = t ? gg_hf_yarn_keys : gg_hf_keys; k->key; k++) {
            if (!gg_hf_has(k->archs, arch)) continue;
            for (const char *p = k->value; *p;) {
                size_t m = strcspn(p, " */+-");
                if (m == n && memcmp(p, path, n) == 0) {
                    bool whole = (p == k->value || p[-1] == ' ') && (!p[m] || p[m] == ' ');
                    makes = true;
                    *fit = *fit && key_takes(k, whole, root, node);
                }
                p += m + strspn(p + m, " */+-");
            }
        }
    return makes;
}

static bool has_field(const gg_field_rule *r, const char *path)
{
    const char *at = r->fields, *word;
    size_t n;
    while (gg_text_next_word(&at, &word, &n))
        if (fits(word, n, path)) return true;
    return false;
}

/* The row that decides, or NULL. Fields that are absent or null need values that fit. */
static const gg_field_rule *rule_of(const gg_fields *f, const gg_json_node *root, const char *path,
                                    const gg_json_node *node)
{
    bool none = !node || gg_json_type_of(node) == GG_JSON_NULL;
    for (const gg_field_rule *r = f->rules; r->fields; r++)
        if (!(none && !r->values) && has_field(r, path) && gg_hf_has(r->archs, f->arch) &&
            any_fits(root, node, r->values) && condition_holds(root, r->when))
            return r;
    return NULL;
}

/* Whether the table has members of this object. */
static bool has_members(const gg_fields *f, const char *path)
{
    size_t n = strlen(path), len;
    for (const gg_field_rule *r = f->rules; r->fields; r++)
        for (const char *at = r->fields, *word; gg_text_next_word(&at, &word, &len);)
            if (len > n && memcmp(word, path, n) == 0 && word[n] == '.') return true;
    return false;
}

static gg_status refuse_field(const gg_fields *f, const char *path, const gg_json_node *node,
                              const char *why, gg_error *err)
{
    char name[100], value[80];
    gg_escape(path, strlen(path), name, sizeof name);
    gg_hf_value_text(node, value);
    /* A text is quoted if it could be taken for another value. */
    bool quoted = gg_json_type_of(node) == GG_JSON_STRING &&
                  (strchr("-0123456789", value[0]) || strcmp(value, "true") == 0 ||
                   strcmp(value, "false") == 0);
    const char *quote = quoted ? "\"" : "";
    return gg_fail(err, GG_EUNSUPPORTED, "%s has %s = %s%s%s: %s", f->file, name, quote, value,
                   quote, why);
}

static gg_status check_object(const gg_fields *f, const gg_json_node *root,
                              const gg_json_node *object, const char *prefix, gg_buf *unknown,
                              gg_error *err);

static gg_status check_field(const gg_fields *f, const gg_json_node *root, const char *path,
                             const gg_json_node *node, gg_buf *unknown, gg_error *err)
{
    char name[400], value[80];
    const gg_field_rule *r = rule_of(f, root, path, node);
    if (r && r->verdict == GG_FIELD_REFUSED) return refuse_field(f, path, node, r->why, err);
    bool noted = r && r->verdict == GG_FIELD_NOTED, fit = true;
    bool key = f->config && (!r || r->verdict == GG_FIELD_USED) &&
               makes_a_key(f->arch, path, root, node, &fit);
    if (!fit) return refuse_field(f, path, node, "engines cannot use this value", err);
    if (!noted && (r || key)) return GG_OK;
    if (!noted && gg_json_type_of(node) == GG_JSON_OBJECT && has_members(f, path)) {
        char below[PATH_MAX_LEN];
        if (snprintf(below, sizeof below, "%s.", path) < (int)sizeof below)
            return check_object(f, root, node, below, unknown, err);
    }
    gg_escape(path, strlen(path), name, sizeof name);
    gg_hf_value_text(node, value);
    return gg_buf_printf(unknown, err, "%s%s = %s%s%s%s", unknown->len ? ", " : "", name, value,
                         noted ? " (" : "", noted ? r->why : "", noted ? ")" : "");
}

static gg_status check_object(const gg_fields *f, const gg_json_node *root,
                              const gg_json_node *object, const char *prefix, gg_buf *unknown,
                              gg_error *err)
{
    gg_status st = GG_OK;
    for (const gg_json_node *m = gg_json_first(object); m && st == GG_OK; m = gg_json_next(m)) {
        char key[PATH_MAX_LEN], path[2 * PATH_MAX_LEN + 2];
        size_t len;
        const char *text = gg_json_key(m, &len);
        if (gg_json_type_of(m) == GG_JSON_NULL) continue;
        if (memchr(text, '\0', len)) gg_escape(text, len, key, sizeof key); /* no known field */
        else snprintf(key, sizeof key, "%.*s", (int)len, text);
        bool merged = f->config && !*prefix && gg_json_type_of(m) == GG_JSON_OBJECT &&
                      (strcmp(key, "text_config") == 0 || strcmp(key, "llm_config") == 0);
        if (merged) {
            st = check_object(f, root, m, "", unknown, err);
            continue;
        }
        snprintf(path, sizeof path, "%s%s", prefix, key);
        if (f->config && gg_json_type_of(m) == GG_JSON_OBJECT && gg_hf_is_rope_object(path)) {
            strcat(path, ".");
            st = check_object(f, root, m, path, unknown, err);
            continue;
        }
        if (f->config) gg_hf_old_path(path, sizeof path);
        st = check_field(f, root, path, m, unknown, err);
    }
    return st;
}

/* The null of a field that is null somewhere and has no value; NULL if it is absent. */
static const gg_json_node *null_of(const gg_json_node *root, const char *field)
{
    const gg_json_node *text = gg_json_get(gg_json_get(root, "text_config"), field);
    if (!text) text = gg_json_get(gg_json_get(root, "llm_config"), field);
    return text ? text : gg_json_get(root, field);
}

/* Looks for fields without a value for which transformers and engines take different values. */
static gg_status check_absent(const gg_fields *f, const gg_json_node *root, gg_buf *missing,
                              gg_error *err)
{
    char field[64], name[100];
    size_t n;
    for (const gg_field_rule *r = f->rules; r->fields; r++)
        for (const char *at = r->fields, *word; gg_text_next_word(&at, &word, &n);) {
            snprintf(field, sizeof field, "%.*s", (int)n, word);
            const gg_json_node *null = null_of(root, field);
            if (r->verdict < GG_FIELD_NOTED || !r->values || gg_hf_field(root, field) ||
                rule_of(f, root, field, null) != r)
                continue;
            gg_escape(field, n, name, sizeof name);
            if (r->verdict == GG_FIELD_REFUSED)
                return gg_fail(err, GG_EUNSUPPORTED, "%s has no %s: %s", f->file, name, r->why);
            gg_buf_printf(missing, err, "%s%s (%s)", missing->len ? ", " : "", name, r->why);
        }
    return err->status;
}

gg_status gg_fields_check(const gg_fields *f, const gg_json_node *root, gg_buf *unknown,
                          gg_buf *missing, gg_error *err)
{
    if (gg_json_type_of(root) != GG_JSON_OBJECT)
        return gg_fail(err, GG_EFORMAT, "%s is not a JSON object", f->file);
    gg_status st = check_object(f, root, root, "", unknown, err);
    return st == GG_OK && f->config ? check_absent(f, root, missing, err) : st;
}
