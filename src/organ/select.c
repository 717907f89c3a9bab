/* select.c - select tensors by class, part, block, expert and name, and find the items of a
 * selection that match no tensor.
 *
 * A tensor must satisfy every kind of condition that is given, and for each kind at least one
 * item. */
#include "organ/gg_organ.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/lines.h"
#include "base/names.h"
#include "base/nearest.h"
#include "select.h"
#include "source_layout.h"
#include "tensor_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX ((size_t)64 << 20) /* bytes of a list of names */

/* ---- patterns -------------------------------------------------------------------------------- */

/* There is no recursion: on a mismatch only the last * is extended by one byte. The cost is
 * therefore at most the length of the pattern times the length of the name. */

/* Whether the set [..] at *p contains c. Moves *p past the set. A [ without ] is an ordinary
 * character. */
static bool in_set(const char **p, char c)
{
    const char *s = *p + 1;
    bool negate = *s == '!' || *s == '^', found = false;
    if (negate) s++;
    const char *first = s;
    for (; *s && (*s != ']' || s == first); s++) {
        if (s[1] == '-' && s[2] && s[2] != ']') {
            found = found || ((unsigned char)c >= (unsigned char)s[0] &&
                              (unsigned char)c <= (unsigned char)s[2]);
            s += 2;
        } else {
            found = found || *s == c;
        }
    }
    if (*s != ']') {
        found = c == '[';
        negate = false;
        s = *p;
    }
    *p = s + 1;
    return found != negate;
}

static bool match_one(const char **p, char c)
{
    if (**p == '\0') return false;
    if (**p == '[') return in_set(p, c);
    bool ok = **p == '?' || **p == c;
    ++*p;
    return ok;
}

bool gg_glob(const char *pattern, const char *name)
{
    const char *star = NULL, *resume = name;
    while (*name) {
        if (*pattern == '*') {
            star = ++pattern;
            resume = name;
            continue;
        }
        const char *p = pattern;
        if (match_one(&p, *name)) {
            pattern = p;
            name++;
        } else if (star) {
            pattern = star;
            name = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

/* ---- ranges and maps ------------------------------------------------------------------------- */

static bool read_number(const char **p, uint64_t *v)
{
    const char *s = *p;
    *v = 0;
    while (*s >= '0' && *s <= '9' && s - *p < 10) *v = *v * 10 + (uint64_t)(*s++ - '0');
    if (s == *p || s - *p > 9) return false;
    *p = s;
    return true;
}

/* Parses "N" or "N-M" at *p and moves *p past it. Returns false if it is malformed. */
static bool parse_range(const char **p, uint64_t *first, uint64_t *last)
{
    if (!read_number(p, first)) return false;
    *last = *first;
    if (**p != '-') return true;
    ++*p;
    return read_number(p, last) && *last >= *first;
}

gg_status gg_ranges_parse(gg_ranges *r, const char *about, const char *text, gg_error *err)
{
    const char *p = text;
    for (;;) {
        struct gg_range one;
        if (!parse_range(&p, &one.first, &one.last) || (*p != ',' && *p != '\0')) {
            gg_fail(err, GG_EUSAGE, "'%s': expected numbers and ranges such as 5-20,25", text);
            return gg_about(err, about);
        }
        if (GG_ROOM(r->items, r->n, NULL, err) != GG_OK) return GG_ENOMEM;
        r->items[r->n++] = one;
        if (*p++ == '\0') return GG_OK;
    }
}

bool gg_ranges_have(const gg_ranges *r, uint64_t v)
{
    for (size_t i = 0; i < r->n; i++)
        if (v >= r->items[i].first && v <= r->items[i].last) return true;
    return false;
}

void gg_ranges_free(gg_ranges *r)
{
    free(r->items);
    *r = (gg_ranges){ NULL, 0 };
}

struct gg_map {
    struct pair {
        uint64_t base, base_last, donor;
    } * pairs;
    size_t n;
};

/* The words for a map in messages. */
typedef struct map_option {
    const char *about;
    const char *noun, *example;
    bool plain; /* "3" is accepted and means "3=3" */
} map_option;

static gg_status map_add(gg_map *m, const map_option *o, const char **p, const char *text,
                         gg_error *err)
{
    uint64_t b0 = 0, b1 = 0;
    bool ok = parse_range(p, &b0, &b1);
    uint64_t d0 = b0, d1 = b1;
    if (ok && (**p == '=' || !o->plain)) ok = **p == '=' && (++*p, parse_range(p, &d0, &d1));
    if (!ok || (**p != ',' && **p != '\0'))
        return gg_fail(err, GG_EUSAGE, "'%s': expected BASE=DONOR %ss such as %s", text, o->noun,
                       o->example);
    if (b1 - b0 != d1 - d0)
        return gg_fail(err, GG_EUSAGE, "'%s': both sides must have the same number of %ss", text,
                       o->noun);
    for (size_t i = 0; i < m->n; i++)
        if (b0 <= m->pairs[i].base_last && m->pairs[i].base <= b1)
            return gg_fail(err, GG_EUSAGE, "'%s': a base %s appears twice", text, o->noun);
    if (GG_ROOM(m->pairs, m->n, NULL, err) != GG_OK) return GG_ENOMEM;
    m->pairs[m->n++] = (struct pair){ b0, b1, d0 };
    return GG_OK;
}

/* Adds the items of `text` to *map, which is allocated if it is NULL. */
static gg_status parse_map(const char *text, const map_option *o, gg_map **map, gg_error *err)
{
    gg_map *m = *map ? *map : calloc(1, sizeof *m);
    if (!m) return gg_fail(err, GG_ENOMEM, "no memory for a %s map", o->noun);
    const char *p = text;
    gg_status st;
    do st = map_add(m, o, &p, text, err);
    while (st == GG_OK && *p++ == ',');
    if (st == GG_EUSAGE) gg_about(err, o->about);
    if (st == GG_OK) *map = m;
    else if (!*map) gg_map_free(m);
    return st;
}

gg_status gg_map_parse(const char *text, gg_map **out, gg_error *err)
{
    static const map_option blocks = { "map", "block", "10-15=20-25", false };
    *out = NULL;
    return parse_map(text, &blocks, out, err);
}

/* Adds experts to *map, which is allocated if it is NULL: "2=5,8-9=0-1,12" (base = donor), or
 * numbers and ranges, which may repeat each other and mean the same experts in both. */
static gg_status add_experts(gg_map **map, bool pairs, const char *text, gg_error *err)
{
    static const map_option experts = { "experts", "expert", "2=5,8-9=0-1", true };
    if (pairs && strchr(text, '=')) return parse_map(text, &experts, map, err);
    gg_ranges r = { NULL, 0 };
    gg_status st = gg_ranges_parse(&r, "experts", text, err);
    if (st == GG_OK && !*map && !(*map = calloc(1, sizeof **map)))
        st = gg_fail(err, GG_ENOMEM, "no memory for a list of experts");
    for (size_t i = 0; i < r.n && st == GG_OK; i++) {
        st = GG_ROOM((*map)->pairs, (*map)->n, NULL, err);
        if (st == GG_OK)
            (*map)->pairs[(*map)->n++] = (struct pair){ r.items[i].first, r.items[i].last,
                                                        r.items[i].first };
    }
    gg_ranges_free(&r);
    return st;
}

void gg_map_free(gg_map *m)
{
    if (!m) return;
    free(m->pairs);
    free(m);
}

int64_t gg_map_base(const gg_map *m, int64_t donor_block)
{
    if (!m) return donor_block;
    int64_t first = -1;
    for (size_t i = 0; i < m->n && donor_block >= 0; i++) {
        const struct pair *p = &m->pairs[i];
        uint64_t d = (uint64_t)donor_block;
        if (d < p->donor || d - p->donor > p->base_last - p->base) continue;
        int64_t b = (int64_t)(p->base + (d - p->donor));
        if (first < 0 || b < first) first = b;
    }
    return first;
}

static size_t map_count(const gg_map *m)
{
    return m ? m->n : 0;
}

/* The base numbers of pair i; false if there is no such pair. */
static bool map_pair(const gg_map *m, size_t i, uint64_t *first, uint64_t *last)
{
    if (i >= map_count(m)) return false;
    *first = m->pairs[i].base;
    *last = m->pairs[i].base_last;
    return true;
}

int64_t gg_map_donor(const gg_map *m, int64_t base_block)
{
    if (!m) return base_block;
    for (size_t i = 0; i < m->n && base_block >= 0; i++)
        if ((uint64_t)base_block >= m->pairs[i].base &&
            (uint64_t)base_block <= m->pairs[i].base_last)
            return (int64_t)(m->pairs[i].donor + ((uint64_t)base_block - m->pairs[i].base));
    return -1;
}

/* ---- selections ------------------------------------------------------------------------------ */

typedef struct text_list {
    const char **items;
    size_t n, cap;
} text_list;

struct gg_select {
    uint32_t classes; /* one bit per gg_class; 0 = all */
    uint32_t parts;   /* one bit per gg_part; 0 = all */
    gg_ranges layers;
    gg_map *experts;        /* of the base, and those of the donor that replace them; NULL = all */
    text_list globs, names; /* names are sorted, without repetitions */
    bool by_name;           /* names were given */
    gg_names texts;         /* of both lists */
};

gg_status gg_select_new(gg_select **out, gg_error *err)
{
    *out = calloc(1, sizeof **out);
    return *out ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for a selection");
}

void gg_select_free(gg_select *s)
{
    if (!s) return;
    free(s->globs.items);
    free(s->names.items);
    gg_names_free(&s->texts);
    gg_ranges_free(&s->layers);
    gg_map_free(s->experts);
    free(s);
}

static gg_status add_text(gg_select *s, text_list *l, const char *text, size_t len, gg_error *err)
{
    if (GG_ROOM(l->items, l->n, &l->cap, err) != GG_OK) return GG_ENOMEM;
    l->items[l->n] = gg_names_add(&s->texts, text, len, err);
    if (!l->items[l->n]) return err->status;
    l->n++;
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

/* Adds the classes or parts of a list to *set, which has one bit for each. */
static gg_status add_words(const char *list, bool parts, uint32_t *set, gg_error *err)
{
    for (const char *p = list;; p++) {
        size_t n = strcspn(p, ","), count = parts ? (size_t)GG_PART_COUNT : (size_t)GG_CLASS_COUNT;
        gg_class cls = GG_OTHER;
        gg_part part = GG_PART_TEXT;
        if (!(parts ? gg_part_by_name(p, n, &part) : gg_class_by_name(p, n, &cls))) {
            const char *names[(int)GG_CLASS_COUNT + (int)GG_PART_COUNT];
            for (size_t k = 0; k < count; k++)
                names[k] = parts ? gg_part_name((gg_part)k) : gg_class_label((gg_class)k);
            fail_word(p, n, names, count, err);
            return gg_about(err, parts ? "part" : "type");
        }
        *set |= 1u << (parts ? (unsigned)part : (unsigned)cls);
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
            return gg_about(err, "tensors");
        }
        gg_status st = add_text(s, &s->globs, p, n, err);
        if (st != GG_OK) return st;
        p += n;
        if (*p == '\0') return GG_OK;
    }
}

/* Adds the first column of a line, unescaped. */
static gg_status add_name_line(void *ctx, char *line, size_t number, gg_error *err)
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
    return add_text(s, &s->names, line, len, err);
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
    for (size_t i = 0; i < l->n; i++)
        if (n == 0 || strcmp(l->items[n - 1], l->items[i]) != 0) l->items[n++] = l->items[i];
    l->n = n;
}

static gg_status add_names(gg_select *s, const char *path, gg_error *err)
{
    gg_lines from = { strcmp(path, "-") == 0 ? NULL : path, "the list of names", NAMES_MAX };
    s->by_name = true;
    gg_status st = gg_each_line(&from, add_name_line, s, err);
    sort_texts(&s->names);
    return st;
}

gg_status gg_select_add(gg_select *s, gg_select_kind kind, const char *text, gg_error *err)
{
    switch (kind) {
    case GG_SELECT_TYPES: return add_words(text, false, &s->classes, err);
    case GG_SELECT_PARTS: return add_words(text, true, &s->parts, err);
    case GG_SELECT_LAYERS: return gg_ranges_parse(&s->layers, "layers", text, err);
    case GG_SELECT_EXPERTS: return add_experts(&s->experts, false, text, err);
    case GG_SELECT_EXPERT_MAP: return add_experts(&s->experts, true, text, err);
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
    return s && s->experts;
}

static int64_t donor_of(const gg_select *s, uint64_t expert)
{
    return expert > INT64_MAX ? -1 : gg_map_donor(s ? s->experts : NULL, (int64_t)expert);
}

bool gg_select_expert(const gg_select *s, uint64_t expert)
{
    return !gg_select_has_experts(s) || donor_of(s, expert) >= 0;
}

uint64_t gg_select_donor_expert(const gg_select *s, uint64_t expert)
{
    int64_t donor = donor_of(s, expert);
    return donor < 0 ? expert : (uint64_t)donor;
}

int64_t gg_select_base_expert(const gg_select *s, uint64_t donor_expert)
{
    if (donor_expert > INT64_MAX) return -1;
    return gg_map_base(s ? s->experts : NULL, (int64_t)donor_expert);
}

/* The index of a name in the list of names, or SIZE_MAX. */
static size_t listed_name(const gg_select *s, const char *name)
{
    const char *const *at = s->names.n ? bsearch(&name, s->names.items, s->names.n,
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
    if (s->by_name && listed_name(s, name) == SIZE_MAX) return false;
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
    return s->by_name && listed_name(s, name) != SIZE_MAX;
}

/* ---- items that match no tensor -------------------------------------------------------------- */

#define NAMED 3 /* names of a list that a message shows */

/* What was found in the sources so far. Each list has one entry per item of the selection. */
typedef struct found {
    const gg_select *s;
    uint32_t classes, parts;
    bool *layers, *experts, *globs, *names;
    int64_t last_block, last_expert; /* -1 = none */
} found;

static bool *new_flags(size_t n)
{
    return calloc(n ? n : 1, sizeof(bool));
}

static void found_free(found *f)
{
    free(f->layers);
    free(f->experts);
    free(f->globs);
    free(f->names);
}

static void mark_ranges(const gg_ranges *r, bool *marks, uint64_t first, uint64_t last)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->items[i].first <= last && r->items[i].last >= first) marks[i] = true;
}

static void mark_experts(found *f, uint64_t first, uint64_t last)
{
    uint64_t from, to;
    for (size_t i = 0; map_pair(f->s->experts, i, &from, &to); i++)
        if (from <= last && to >= first) f->experts[i] = true;
    if ((int64_t)last > f->last_expert) f->last_expert = (int64_t)last;
}

static void mark_name(found *f, const char *name)
{
    const text_list *globs = &f->s->globs;
    for (size_t i = 0; i < globs->n; i++)
        if (!f->globs[i] && gg_glob(globs->items[i], name)) f->globs[i] = true;
    size_t at = listed_name(f->s, name);
    if (at != SIZE_MAX) f->names[at] = true;
}

/* The names of single experts count too where stacks are split. */
static void mark_stack(found *f, const gg_tensor *t, bool split)
{
    uint64_t n;
    gg_tensor one;
    char name[GG_RECORD_NAME + 1];
    if (!gg_is_expert_stack(t, &n)) return;
    mark_experts(f, 0, n - 1);
    if (!split || (f->s->globs.n == 0 && f->s->names.n == 0)) return;
    for (uint64_t e = 0; e < n && gg_expert_tensor(t, n, e, &one, name); e++) mark_name(f, name);
}

static void mark_source(found *f, const gg_source *s, bool split)
{
    for (size_t i = 0; s && i < gg_source_count(s); i++) {
        const gg_tensor *t = gg_source_tensor(s, i);
        f->classes |= 1u << t->a.cls;
        f->parts |= 1u << t->a.part;
        if (t->a.block > f->last_block) f->last_block = t->a.block;
        if (t->a.block >= 0)
            mark_ranges(&f->s->layers, f->layers, (uint64_t)t->a.block, (uint64_t)t->a.block);
        if (t->a.expert >= 0) mark_experts(f, (uint64_t)t->a.expert, (uint64_t)t->a.expert);
        mark_name(f, t->name);
        mark_stack(f, t, split || gg_select_has_experts(f->s));
    }
}

/* ---- messages --------------------------------------------------------------------- */

static gg_status no_such_kind(const found *f, gg_error *err)
{
    for (int c = 0; c < GG_CLASS_COUNT; c++)
        if (f->s->classes & ~f->classes & 1u << c)
            return gg_fail(err, GG_NO, "no tensor is of class %s", gg_class_label((gg_class)c));
    for (int p = 0; p < GG_PART_COUNT; p++)
        if (f->s->parts & ~f->parts & 1u << p)
            return gg_fail(err, GG_NO, "no tensor is of part %s", gg_part_name((gg_part)p));
    return GG_OK;
}

/* "block 99 is not in the model" or "blocks 4-9 are not in the model"; `last` is the highest
 * number in the model, -1 if there is none. */
static gg_status not_in_model(const char *noun, struct gg_range r, int64_t last, gg_error *err)
{
    char text[64], end[64];
    if (r.first == r.last)
        snprintf(text, sizeof text, "%s %llu is", noun, (unsigned long long)r.first);
    else
        snprintf(text, sizeof text, "%ss %llu-%llu are", noun, (unsigned long long)r.first,
                 (unsigned long long)r.last);
    if (last < 0) snprintf(end, sizeof end, "it has no %ss", noun);
    else snprintf(end, sizeof end, "the last %s is %lld", noun, (long long)last);
    return gg_fail(err, GG_NO, "%s not in the model; %s", text, end);
}

static gg_status no_such_block(const found *f, gg_error *err)
{
    for (size_t i = 0; i < f->s->layers.n; i++)
        if (!f->layers[i]) return not_in_model("block", f->s->layers.items[i], f->last_block, err);
    return GG_OK;
}

static gg_status no_such_expert(const found *f, gg_error *err)
{
    struct gg_range pair;
    for (size_t i = 0; map_pair(f->s->experts, i, &pair.first, &pair.last); i++)
        if (!f->experts[i]) return not_in_model("expert", pair, f->last_expert, err);
    return GG_OK;
}

static gg_status no_such_name(const found *f, gg_error *err)
{
    const text_list *names = &f->s->names;
    size_t missing = 0, used = 0;
    char shown[300] = "";
    for (size_t i = 0; i < names->n; i++) {
        if (f->names[i] || missing++ >= NAMED) continue;
        int n = snprintf(shown + used, sizeof shown - used, "%s'%.80s'", used ? ", " : "",
                         names->items[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    if (missing == 0) return GG_OK;
    return gg_fail(err, GG_NO, "%zu of the %zu names in the list %s not in the model: %s%s",
                   missing, names->n, missing == 1 ? "is" : "are", shown,
                   missing > NAMED ? ", ..." : "");
}

static gg_status report_unmatched(const found *f, gg_error *err)
{
    const text_list *globs = &f->s->globs;
    if (f->s->by_name && f->s->names.n == 0) {
        gg_fail(err, GG_NO, "the list of names is empty, so nothing is selected");
        return GG_NO;
    }
    if (no_such_kind(f, err) != GG_OK || no_such_block(f, err) != GG_OK ||
        no_such_expert(f, err) != GG_OK || no_such_name(f, err) != GG_OK)
        return gg_fix_by(err, "list", "list the tensors");
    for (size_t i = 0; i < globs->n; i++) {
        if (f->globs[i]) continue;
        gg_fail(err, GG_NO, "no tensor matches '%s'", globs->items[i]);
        return gg_fix(err, "patterns match whole names; try '*%s*'", globs->items[i]);
    }
    return GG_OK;
}

gg_status gg_select_check(const gg_select *s, const gg_source *a, const gg_source *b,
                          const gg_select_when *when, gg_error *err)
{
    if (!s || (!when->end && (gg_source_grows(a) || (b && gg_source_grows(b))))) return GG_OK;
    found f = { .s = s,
                .layers = new_flags(s->layers.n),
                .experts = new_flags(map_count(s->experts)),
                .globs = new_flags(s->globs.n),
                .names = new_flags(s->names.n),
                .last_block = -1,
                .last_expert = -1 };
    gg_status st = GG_OK;
    if (f.layers && f.experts && f.globs && f.names) {
        mark_source(&f, a, when->split_experts);
        mark_source(&f, b, when->split_experts);
        st = report_unmatched(&f, err);
    } else {
        st = gg_fail(err, GG_ENOMEM, "no memory for a selection");
    }
    found_free(&f);
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(a));
}
