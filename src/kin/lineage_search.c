/* lineage_search.c - judges two models, and looks for what they have in common in other places:
 * blocks with other numbers, and hidden units in another order. */
#include "align_core.h"

#include "base/grow.h"
#include "base/parallel.h"
#include "kin/gg_compare_model.h"
#include "lineage.h"
#include "numeric/numeric.h"
#include "organ/select.h"
#include "write/verb_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which blocks of one model are which blocks of the other ------------------------------ */

#define MOST_BLOCKS 512 /* models with more blocks get no map */
#define ROWS 16         /* read of each matrix */
#define DIMS 1024       /* to which they are shortened, as in align_order.c */
#define ROLES 16        /* matrices of a block that are compared */
#define SIDE 32         /* rows and columns of the smallest matrix */
#define LEAST_SIMILARITY 0.5

typedef struct block_map {
    bool trivial;    /* as many blocks in both models, and no partner has another number */
    size_t blocks;   /* of the model that has fewer */
    size_t matched;  /* blocks of A that have a partner */
    char text[1024]; /* as gg_map_parse reads it: "0=0,1-3=2-4"; "" if it is trivial or too long */
} block_map;

typedef struct matrix {
    size_t tensor; /* SIZE_MAX = none */
    float *x;      /* DIMS values of length 1, in `values` */
} matrix;

typedef struct side {
    gg_source *source;
    int64_t *blocks;
    size_t n;
    matrix (*of)[ROLES]; /* by block and role */
    float *values;
    size_t *todo; /* block * ROLES + role of each matrix */
    size_t n_todo;
} side;

typedef struct finder {
    side s[2];
    char roles[ROLES][64];
    uint64_t dims[ROLES][GG_MAX_DIMS];
    size_t n_roles;
} finder;

/* ---- matrices ----------------------------------------------------------------------------- */

/* The number of a role and shape, which is added if there is room; ROLES if it does not count. */
static size_t role_of(finder *f, const gg_tensor *t)
{
    if ((t->a.cls != GG_SKELETON && t->a.cls != GG_ORGAN) || t->n_dims < 2 || t->dims[0] < SIDE ||
        t->dims[1] < SIDE || !gg_can_decode(t->dtype))
        return ROLES;
    const char *role = t->name + t->a.role_at;
    size_t len = t->name_len - t->a.role_at;
    if (len >= sizeof f->roles[0]) return ROLES;
    for (size_t r = 0; r < f->n_roles; r++)
        if (strncmp(f->roles[r], role, len) == 0 && f->roles[r][len] == '\0' &&
            memcmp(f->dims[r], t->dims, sizeof t->dims) == 0)
            return r;
    if (f->n_roles == ROLES) return ROLES;
    memcpy(f->roles[f->n_roles], role, len);
    memcpy(f->dims[f->n_roles], t->dims, sizeof t->dims);
    return f->n_roles++;
}

static gg_status list_matrices(finder *f, side *s, gg_error *err)
{
    s->of = calloc(s->n ? s->n : 1, sizeof *s->of);
    s->todo = calloc(s->n ? s->n : 1, ROLES * sizeof *s->todo);
    if (!s->of || !s->todo) return gg_fail(err, GG_ENOMEM, "no memory for %zu blocks", s->n);
    for (size_t i = 0; i < gg_source_count(s->source); i++) {
        const gg_tensor *t = gg_source_tensor(s->source, i);
        if (t->name_len < 4 || memcmp(t->name, "blk.", 4) != 0 || t->a.block < 0) continue;
        int64_t *at = bsearch(&t->a.block, s->blocks, s->n, sizeof *at, gg_order_i64);
        size_t role = at ? role_of(f, t) : ROLES;
        if (role == ROLES) continue;
        s->of[at - s->blocks][role] = (matrix){ .tensor = i };
        s->todo[s->n_todo++] = (size_t)(at - s->blocks) * ROLES + role;
    }
    s->values = calloc(s->n_todo ? s->n_todo : 1, DIMS * sizeof *s->values);
    if (!s->values) return gg_fail(err, GG_ENOMEM, "no memory for %zu blocks", s->n);
    for (size_t i = 0; i < s->n_todo; i++)
        s->of[s->todo[i] / ROLES][s->todo[i] % ROLES].x = s->values + i * DIMS;
    return GG_OK;
}

/* Adds values to a vector; from its end on with random signs. */
static void shorten(float *to, const float *x, size_t n, uint64_t *k)
{
    for (size_t i = 0; i < n; i++, (*k)++) {
        float sign = (*k * 0x9E3779B97F4A7C15u) >> 63 ? 1.0f : -1.0f;
        if (isfinite(x[i])) to[*k % DIMS] += sign * x[i];
    }
}

static void normalize(float *x)
{
    double sum = 0;
    for (size_t i = 0; i < DIMS; i++) sum += (double)x[i] * (double)x[i];
    for (size_t i = 0; i < DIMS && sum > 0; i++) x[i] = (float)((double)x[i] / sqrt(sum));
}

static gg_status read_matrix(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    side *s = ctx;
    (void)worker;
    matrix *m = &s->of[s->todo[i] / ROLES][s->todo[i] % ROLES];
    const gg_tensor *t = gg_source_tensor(s->source, m->tensor);
    /* not 0: role_of takes no side below SIDE */
    uint64_t bytes = 0, k = 0, rows = t->elements / t->dims[0], taken = gg_sample_count(rows, ROWS);
    gg_data d;
    gg_status st = gg_row_bytes(t->dtype, t->dims[0], &bytes, err);
    if (st == GG_OK) st = gg_data_open(s->source, m->tensor, &d, err);
    if (st != GG_OK) return st;
    uint8_t *raw = malloc((size_t)bytes);
    float *x = malloc((size_t)t->dims[0] * sizeof *x);
    if (!raw || !x) st = gg_fail(err, GG_ENOMEM, "no memory for a row of a tensor");
    for (uint64_t r = 0; r < taken && st == GG_OK; r++) {
        st = gg_data_read(&d, gg_sample_index(r, rows, taken) * bytes, raw, (size_t)bytes, err);
        if (st == GG_OK) st = gg_decode(t->dtype, raw, x, (size_t)t->dims[0], err);
        if (st == GG_OK) shorten(m->x, x, (size_t)t->dims[0], &k);
    }
    normalize(m->x);
    free(raw);
    free(x);
    gg_data_close(&d);
    return st;
}

/* ---- partners ----------------------------------------------------------------------------- */

/* The median cosine of the matrices that two blocks have in common; -1 if they have none. */
static double similarity(const finder *f, size_t i, size_t j)
{
    double cosines[ROLES];
    size_t n = 0;
    for (size_t r = 0; r < f->n_roles; r++) {
        const float *x = f->s[0].of[i][r].x, *y = f->s[1].of[j][r].x;
        if (!x || !y) continue;
        cosines[n] = 0;
        for (size_t d = 0; d < DIMS; d++) cosines[n] += (double)x[d] * (double)y[d];
        n++;
    }
    if (n == 0) return -1;
    qsort(cosines, n, sizeof cosines[0], gg_order_f64);
    return (cosines[(n - 1) / 2] + cosines[n / 2]) / 2;
}

/* The number of the partner of A's block i; -1 if it has none. Of several that are equally similar
 * the one of the same number, or else the first. */
static int64_t partner_of(const finder *f, size_t i)
{
    const side *b = &f->s[1];
    int64_t best = -1;
    double most = LEAST_SIMILARITY;
    for (size_t j = 0; j < b->n; j++) {
        double s = similarity(f, i, j);
        bool own = b->blocks[j] == f->s[0].blocks[i];
        if (s < most || (s <= most && !own)) continue;
        most = s;
        best = b->blocks[j];
    }
    return best;
}

/* Adds blocks [first, last] of A and those of B that start with `to`. */
static void add_run(block_map *m, int64_t first, int64_t last, int64_t to)
{
    size_t at = strlen(m->text), room = sizeof m->text - at;
    const char *comma = at ? "," : "";
    int n = first == last
                ? snprintf(m->text + at, room, "%s%lld=%lld", comma, (long long)first,
                           (long long)to)
                : snprintf(m->text + at, room, "%s%lld-%lld=%lld-%lld", comma, (long long)first,
                           (long long)last, (long long)to, (long long)(to + last - first));
    if (n < 0 || (size_t)n >= room) {
        m->text[0] = '\0';
        m->trivial = true;
    }
}

static void write_map(const finder *f, const int64_t *to, block_map *m)
{
    const side *a = &f->s[0];
    m->trivial = f->s[0].n == f->s[1].n;
    for (size_t i = 0; i < a->n; i++) {
        m->matched += to[i] >= 0;
        m->trivial = m->trivial && (to[i] < 0 || to[i] == a->blocks[i]);
    }
    m->trivial = m->trivial || m->matched == 0;
    for (size_t i = 0, k; i < a->n && !m->trivial; i = k) {
        for (k = i + 1; k < a->n && to[i] >= 0 && to[k] == to[i] + (int64_t)(k - i) &&
                        a->blocks[k] == a->blocks[i] + (int64_t)(k - i);)
            k++;
        if (to[i] >= 0) add_run(m, a->blocks[i], a->blocks[k - 1], to[i]);
    }
}

static gg_status find_partners(finder *f, const gg_run *run, block_map *out, gg_error *err)
{
    gg_status st = GG_OK;
    for (int k = 0; k < 2 && st == GG_OK; k++) {
        side *s = &f->s[k];
        st = list_matrices(f, s, err);
        if (st == GG_OK) st = gg_parallel(s->n_todo, run ? run->threads : 0, read_matrix, s, err);
    }
    int64_t *to = calloc(f->s[0].n ? f->s[0].n : 1, sizeof *to);
    if (st == GG_OK && !to) st = gg_fail(err, GG_ENOMEM, "no memory for %zu blocks", f->s[0].n);
    for (size_t i = 0; i < f->s[0].n && st == GG_OK; i++) {
        to[i] = partner_of(f, i);
        st = gg_cancelled(err);
    }
    if (st == GG_OK) write_map(f, to, out);
    free(to);
    return st;
}

/* Compares each "blk.N." block of A with every block of B by the cosines of a few rows of their
 * matrices. The partner of a block is the most similar one, and the one of the same number if
 * several are equal. Blocks without a partner of at least half the same direction are left out. */
static gg_status find_blocks(gg_source *a, gg_source *b, const gg_run *run, block_map *out,
                             gg_error *err)
{
    *out = (block_map){ .trivial = true };
    finder *f = calloc(1, sizeof *f);
    if (!f) return gg_fail(err, GG_ENOMEM, "no memory for the blocks");
    f->s[0].source = a;
    f->s[1].source = b;
    gg_status st = GG_OK;
    for (int k = 0; k < 2 && st == GG_OK; k++)
        st = gg_align_blocks(f->s[k].source, &f->s[k].blocks, &f->s[k].n, err);
    out->blocks = f->s[0].n < f->s[1].n ? f->s[0].n : f->s[1].n;
    bool few = f->s[0].n <= MOST_BLOCKS && f->s[1].n <= MOST_BLOCKS;
    if (st == GG_OK && few) st = find_partners(f, run, out, err);
    for (int k = 0; k < 2; k++) {
        free(f->s[k].blocks);
        free(f->s[k].of);
        free(f->s[k].values);
        free(f->s[k].todo);
    }
    free(f);
    return st;
}

/* ---- the verdict ------------------------------------------------------------------------- */

/* Two seekable models, options and run as in gg_lineage_of. */
typedef struct search {
    gg_source *a, *b;
    gg_compare_options o;
    gg_run run;
} search;

/* Judges the pairs of blocks of the map. */
static gg_status judge_blocks(const search *s, const block_map *found, gg_lineage *out,
                              gg_error *err)
{
    gg_map *map = NULL;
    gg_lineage l;
    gg_compare_options o = s->o;
    gg_status st = gg_map_parse(found->text, &map, err);
    if (st != GG_OK) return st;
    o.map = map;
    st = gg_lineage_of(s->a, s->b, &o, &s->run, &l, err);
    gg_map_free(map);
    if (st != GG_OK || (l.verdict != GG_LINEAGE_IDENTICAL && l.verdict != GG_LINEAGE_SAME &&
                        l.verdict != GG_LINEAGE_PERMUTED))
        return st;
    l.tensors = out->tensors;
    l.identical = out->identical;
    if (l.verdict == GG_LINEAGE_IDENTICAL) l.verdict = GG_LINEAGE_SAME;
    *out = l;
    memcpy(out->map, found->text, sizeof found->text);
    return GG_OK;
}

static gg_status search_blocks(const search *s, gg_lineage *out, gg_error *err)
{
    block_map found;
    gg_status st = find_blocks(s->a, s->b, &s->run, &found, err);
    if (st != GG_OK || found.trivial || 2 * found.matched < found.blocks) return st;
    return judge_blocks(s, &found, out, err);
}

/* Sets the verdict if most groups of units are common to both models, and some are permuted. */
static void judge_units(const align_sample *u, gg_lineage *out)
{
    static const char *const names[] = { [GG_ALIGN_EMBEDDING] = "embedding",
                                         [GG_ALIGN_FFN] = "FFN units",
                                         [GG_ALIGN_KV] = "heads",
                                         [GG_ALIGN_EXPERT] = "experts" };
    static const gg_align_kind told[] = { GG_ALIGN_EXPERT, GG_ALIGN_FFN, GG_ALIGN_KV,
                                          GG_ALIGN_EMBEDDING };
    size_t groups = 0, found = 0;
    char text[sizeof out->permuted] = "";
    for (int k = GG_ALIGN_FFN; k < GG_ALIGN_KINDS; k++) {
        groups += u->groups[k];
        found += u->found[k];
    }
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        size_t n = strlen(text), heads = told[i] == GG_ALIGN_KV ? u->permuted[GG_ALIGN_HEAD] : 0;
        if (u->permuted[told[i]] + heads)
            snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "", names[told[i]]);
    }
    if (!text[0] || found == 0 || 4 * found < 3 * groups) return;
    out->verdict = GG_LINEAGE_PERMUTED;
    memcpy(out->permuted, text, sizeof text);
    memcpy(out->experts, u->experts, sizeof u->experts);
}

/* Changes a verdict if the models have something in common in other places: first blocks, unless
 * the options choose blocks, tensors or pairs, and then hidden units. */
static gg_status look_closer(const search *s, gg_lineage *out, gg_error *err)
{
    bool whole = !s->o.map && !s->o.pairs && gg_select_empty(s->o.select);
    gg_status st = whole ? search_blocks(s, out, err) : GG_OK;
    /* Of a few experts some may have kept their places, so that no matrix is strange. */
    bool settled = out->map[0] || (out->verdict == GG_LINEAGE_SAME && out->same == out->n);
    if (st != GG_OK || settled) return st;
    align_sample units;
    gg_align_options o = { .select = s->o.select, .map = s->o.map };
    st = gg_align_sampled(s->a, s->b, &o, &s->run, &units, err);
    if (st == GG_OK) judge_units(&units, out);
    return st;
}

gg_status gg_lineage_of(gg_source *a, gg_source *b, const gg_compare_options *o, const gg_run *run,
                        gg_lineage *out, gg_error *err)
{
    search s = { a, b, *GG_OPTIONS(gg_compare_options, o), *GG_OPTIONS(gg_run, run) };
    gg_compare_report r;
    s.o.row = NULL;
    gg_status st = gg_compare_models(a, b, &s.o, run, &r, err);
    *out = r.model.lineage;
    s.run.progress = NULL; /* how far the rest goes cannot be foretold */
    if (st != GG_OK || out->verdict == GG_LINEAGE_IDENTICAL || !gg_source_seekable(a) ||
        !gg_source_seekable(b))
        return st;
    return look_closer(&s, out, err);
}

/* ---- a quick look at two models ------------------------------------------------------- */

gg_status gg_judge_strangers(gg_source *a, gg_source *b, const gg_compare_options *few,
                             bool experts, bool *doubtful, gg_error *err)
{
    gg_compare_report r = { 0 };
    gg_run quiet = { .threads = 1 };
    gg_status st = few->n_pairs ? gg_compare_models(a, b, few, &quiet, &r, err) : GG_OK;
    *doubtful = st == GG_OK && 4 * r.model.lineage.strange > r.model.lineage.n;
    if (st != GG_OK || *doubtful || !experts || !gg_arch_number(gg_source_meta(a), "expert_count"))
        return st;
    gg_lineage l;
    gg_compare_options all = { .sample = few->sample };
    st = gg_lineage_of(a, b, &all, &quiet, &l, err);
    *doubtful = st == GG_OK && l.verdict == GG_LINEAGE_PERMUTED;
    return st;
}
