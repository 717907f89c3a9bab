/* select.c - select tensors by class, part, block, expert and name.
 *
 * A tensor must satisfy every kind of condition that is given, and for each kind at least one
 * item. */
#include "organ/gg_organ.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/lines.h"
#include "base/nearest.h"
#include "organ/select.h"
#include "organ/select_items.h"
#include "organ/tensor_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX ((size_t)64 << 20) /* bytes of a list of names */

gg_status gg_select_new(gg_select **out, gg_error *err)
{
    *out = calloc(1, sizeof **out);
    return *out ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for a selection");
}

static void list_free(text_list *l)
{
    for (size_t i = 0; i < l->n; i++) free(l->items[i]);
    free(l->items);
}

void gg_select_free(gg_select *s)
{
    if (!s) return;
    list_free(&s->globs);
    list_free(&s->names);
    gg_ranges_free(&s->layers);
    gg_ranges_free(&s->experts);
    gg_map_free(s->expert_map);
    free(s);
}

static gg_status list_add(text_list *l, const char *text, size_t len, gg_error *err)
{
    char **grown = gg_grow(l->items, l->n, &l->cap, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    l->items = grown;
    char *copy = malloc(len + 1);
    if (!copy) return gg_fail(err, GG_ENOMEM, "no memory for a selection");
    memcpy(copy, text, len);
    copy[len] = '\0';
    l->items[l->n++] = copy;
    return GG_OK;
}

/* Reports an unknown word of a list separated by commas, with the known words and the nearest. */
static void fail_word(const char *word, size_t len, const char *const *known, size_t n,
                      gg_error *err)
{
    char all[160] = "", meant[GG_MEANT];
    for (size_t i = 0, used = 0; i < n && used < sizeof all; i++)
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s",
                                 i == 0       ? ""
                                 : i + 1 == n ? " or "
                                              : ", ",
                                 known[i]);
    gg_meant(gg_nearest(word, len, known, n), meant);
    gg_fail(err, GG_EUSAGE, "unknown word '%.*s'%s: expected %s, separated by commas",
            (int)(len < 64 ? len : 64), word, meant, all);
}

static gg_status add_types(gg_select *s, const char *list, gg_error *err)
{
    for (const char *p = list;; p++) {
        size_t n = strcspn(p, ",");
        gg_class c;
        if (!gg_class_by_name(p, n, &c)) {
            const char *names[GG_CLASS_COUNT];
            for (int k = 0; k < GG_CLASS_COUNT; k++) names[k] = gg_class_name((gg_class)k);
            fail_word(p, n, names, GG_CLASS_COUNT, err);
            return gg_about(err, GG_HINT_CLASSES);
        }
        s->classes |= 1u << c;
        p += n;
        if (*p == '\0') return GG_OK;
    }
}

static gg_status add_parts(gg_select *s, const char *list, gg_error *err)
{
    for (const char *p = list;; p++) {
        size_t n = strcspn(p, ",");
        gg_part part;
        if (!gg_part_by_name(p, n, &part)) {
            const char *names[GG_PART_COUNT];
            for (int k = 0; k < GG_PART_COUNT; k++) names[k] = gg_part_name((gg_part)k);
            fail_word(p, n, names, GG_PART_COUNT, err);
            return gg_about(err, GG_HINT_PARTS);
        }
        s->parts |= 1u << part;
        p += n;
        if (*p == '\0') return GG_OK;
    }
}

static gg_status add_tensors(gg_select *s, const char *globs, gg_error *err)
{
    for (const char *p = globs;; p++) {
        size_t n = strcspn(p, ",");
        if (n == 0) {
            gg_fail(err, GG_EUSAGE, "'%s' contains an empty pattern", globs);
            return gg_about(err, GG_HINT_TENSORS);
        }
        gg_status st = list_add(&s->globs, p, n, err);
        if (st != GG_OK) return st;
        p += n;
        if (*p == '\0') return GG_OK;
    }
}

/* Adds the first column of a line, unescaped. */
static gg_status add_line(void *ctx, char *line, size_t number, gg_error *err)
{
    static const char keys[] = "(keys)\tkeys"; /* a row of organ-compare, not a tensor */
    gg_select *s = ctx;
    size_t len = strlen(line);
    bool first = number == 1;
    if (len >= sizeof keys - 1 && memcmp(line, keys, sizeof keys - 1) == 0) return GG_OK;
    char *tab = memchr(line, '\t', len);
    if (tab) len = (size_t)(tab - line);
    if (len > 0 && line[len - 1] == '\r') len--;
    if (len == 0 || (first && len == 4 && memcmp(line, "name", 4) == 0)) return GG_OK;
    if (!gg_unescape(line, &len))
        return gg_fail(err, GG_EUSAGE, "the list of names contains a malformed escape");
    return list_add(&s->names, line, len, err);
}

static int order_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts the names and drops repetitions. */
static void sort_texts(text_list *l)
{
    size_t n = 0;
    if (l->n) qsort(l->items, l->n, sizeof *l->items, order_texts);
    for (size_t i = 0; i < l->n; i++) {
        if (n > 0 && strcmp(l->items[n - 1], l->items[i]) == 0) free(l->items[i]);
        else l->items[n++] = l->items[i];
    }
    l->n = n;
}

static gg_status add_names(gg_select *s, const char *path, gg_error *err)
{
    gg_lines from = { strcmp(path, "-") == 0 ? NULL : path, "the list of names", NAMES_MAX };
    s->by_name = true;
    gg_status st = gg_each_line(&from, add_line, s, err);
    sort_texts(&s->names);
    return st;
}

gg_status gg_select_add(gg_select *s, gg_select_kind kind, const char *text, gg_error *err)
{
    switch (kind) {
    case GG_SELECT_TYPES: return add_types(s, text, err);
    case GG_SELECT_PARTS: return add_parts(s, text, err);
    case GG_SELECT_LAYERS: return gg_ranges_parse(&s->layers, GG_HINT_LAYERS, text, err);
    case GG_SELECT_EXPERT_MAP:
        if (strchr(text, '=')) return gg_map_add_experts(&s->expert_map, text, err);
        return gg_ranges_parse(&s->experts, GG_HINT_EXPERTS, text, err);
    case GG_SELECT_EXPERTS: return gg_ranges_parse(&s->experts, GG_HINT_EXPERTS, text, err);
    case GG_SELECT_TENSORS: return add_tensors(s, text, err);
    case GG_SELECT_NAMES: return add_names(s, text, err);
    case GG_SELECT_KINDS: break;
    }
    return gg_fail(err, GG_EUSAGE, "unknown kind of selection %d", (int)kind);
}

bool gg_select_empty(const gg_select *s)
{
    return !s || (s->classes == 0 && s->parts == 0 && s->layers.n == 0 &&
                  !gg_select_has_experts(s) && s->globs.n == 0 && !s->by_name);
}

bool gg_select_has_experts(const gg_select *s)
{
    return s && (s->experts.n > 0 || s->expert_map);
}

bool gg_select_expert(const gg_select *s, uint64_t expert)
{
    return !gg_select_has_experts(s) || gg_ranges_have(&s->experts, expert) ||
           (s->expert_map && expert <= INT64_MAX &&
            gg_map_donor(s->expert_map, (int64_t)expert) >= 0);
}

uint64_t gg_select_donor_expert(const gg_select *s, uint64_t expert)
{
    int64_t donor = s && s->expert_map && expert <= INT64_MAX
                        ? gg_map_donor(s->expert_map, (int64_t)expert)
                        : -1;
    return donor < 0 ? expert : (uint64_t)donor;
}

int64_t gg_select_base_expert(const gg_select *s, uint64_t donor_expert)
{
    if (donor_expert > INT64_MAX) return -1;
    int64_t base = s && s->expert_map ? gg_map_base(s->expert_map, (int64_t)donor_expert) : -1;
    bool plain = !s || !s->expert_map || gg_ranges_have(&s->experts, donor_expert);
    return base >= 0 || !plain ? base : (int64_t)donor_expert;
}

size_t gg_select_listed(const gg_select *s, const char *name)
{
    char *const *at = s->names.n ? bsearch(&name, s->names.items, s->names.n,
                                           sizeof *s->names.items, order_texts)
                                 : NULL;
    return at ? (size_t)(at - s->names.items) : SIZE_MAX;
}

bool gg_select_match(const gg_select *s, const char *name, size_t name_len, const gg_anatomy *a)
{
    if (!s) return true;
    (void)name_len; /* every name is NUL-terminated; patterns match up to the first NUL */
    if (s->classes && !(s->classes & 1u << a->cls)) return false;
    if (s->parts && !(s->parts & 1u << a->part)) return false;
    if (s->layers.n && (a->block < 0 || !gg_ranges_have(&s->layers, (uint64_t)a->block)))
        return false;
    if (gg_select_has_experts(s) && !a->stack &&
        (a->expert < 0 || !gg_select_expert(s, (uint64_t)a->expert)))
        return false;
    if (s->by_name && gg_select_listed(s, name) == SIZE_MAX) return false;
    if (s->globs.n == 0) return true;
    for (size_t i = 0; i < s->globs.n; i++)
        if (gg_glob(s->globs.items[i], name)) return true;
    return false;
}

bool gg_select_by_name(const gg_select *s, const char *name)
{
    if (!s) return false;
    for (size_t i = 0; i < s->globs.n; i++)
        if (strcmp(s->globs.items[i], name) == 0) return true;
    return s->by_name && gg_select_listed(s, name) != SIZE_MAX;
}
