/* ranges.c - parse lists such as 5-20,25 and maps such as 10-15=20-25. */
#include "ranges.h"

#include "base/error.h"
#include "base/grow.h"
#include "organ/gg_organ.h"
#include "organ/select.h"

#include <stdlib.h>

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

gg_status gg_ranges_parse(gg_ranges *r, gg_hint about, const char *text, gg_error *err)
{
    const char *p = text;
    for (;;) {
        struct gg_range one;
        if (!parse_range(&p, &one.first, &one.last) || (*p != ',' && *p != '\0')) {
            gg_fail(err, GG_EUSAGE, "'%s': expected numbers and ranges such as 5-20,25", text);
            return gg_about(err, about);
        }
        struct gg_range *grown = gg_grow_pow2(r->items, r->n, sizeof *grown, err);
        if (!grown) return GG_ENOMEM;
        r->items = grown;
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
    gg_hint about;
    const char *noun, *example;
    bool plain; /* "3" is accepted and means "3=3" */
} map_option;

static gg_status map_add(gg_map *m, const map_option *o, const char **p, const char *text,
                         gg_error *err)
{
    uint64_t b0, b1, d0, d1;
    bool ok = parse_range(p, &b0, &b1);
    d0 = b0, d1 = b1;
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
    struct pair *grown = gg_grow_pow2(m->pairs, m->n, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    m->pairs = grown;
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
    static const map_option blocks = { GG_HINT_MAP, "block", "10-15=20-25", false };
    *out = NULL;
    return parse_map(text, &blocks, out, err);
}

gg_status gg_map_add_experts(gg_map **map, const char *text, gg_error *err)
{
    static const map_option experts = { GG_HINT_EXPERTS, "expert", "2=5,8-9=0-1", true };
    return parse_map(text, &experts, map, err);
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

size_t gg_map_count(const gg_map *m)
{
    return m ? m->n : 0;
}

bool gg_map_pair(const gg_map *m, size_t i, uint64_t *first, uint64_t *last)
{
    if (i >= gg_map_count(m)) return false;
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
