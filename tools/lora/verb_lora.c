/* verb_lora.c - a LoRA adapter from the difference of two models. With `energy` the ranks are known
 * only after all matrices were decomposed, so the factors are kept in a temporary file until the
 * adapter can be planned. */
#include "gg_lora.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/io.h"
#include "base/output.h"
#include "base/parallel.h"
#include "base/text.h"
#include "compute/compute.h"
#include "lowrank.h"
#include "organ/gg_quant.h"
#include "organ/output_guard.h"
#include "organ/record.h"
#include "organ/select.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "write/copy.h"
#include "write/key_compat.h"
#include "write/keys.h"
#include "write/plan.h"
#include "write/selected_tensors.h"
#include "write/verb_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LORA_RANK 32  /* if neither rank nor energy is given */
#define LORA_ALPHA 32 /* with energy */

/* A tensor of both models. */
typedef struct lora_target {
    gg_tensor t; /* of the base */
    size_t base, tuned;
    uint64_t rows, cols, experts;
    bool matrix;  /* an adapter can hold its change */
    bool swapped; /* token_embd.weight, whose factors have the other form */
} lora_target;

/* n values of a tensor from the value `first` on, which starts a block of both dtypes. */
typedef struct lora_piece {
    gg_source *base, *tuned;
    const lora_target *of;
    uint64_t first, n;
    uint64_t tuned_first;
} lora_piece;

/* Half of a pair: F32 values in the temporary file. */
typedef struct lora_half {
    gg_computation base; /* first: see compute.h; without inputs */
    int fd;
    uint64_t at;
} lora_half;

typedef struct lora_job {
    gg_source *base, *tuned;
    const gg_lora_options *o;
    const gg_run *run;
    unsigned threads;
    gg_lora_report *report;
    int fd; /* the temporary file, which has no name */
    uint64_t stored;
    double kept, total; /* sums over all pairs */
    gg_buf lost;        /* names that were not noted yet */
    size_t changed;     /* the tensor of the base that the first pair changes */
    size_t keys;        /* that differ */
    gg_plan plan;
    gg_computations made;
} lora_job;

/* ---- differences ------------------------------------------------------------------------ */

#define STEP ((uint64_t)COMPUTE_STEP) /* values per task: whole blocks of every dtype */

typedef struct reading {
    const lora_piece *p;
    float *d;
} reading;

static gg_status read_lora_step(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    (void)worker;
    const reading *r = ctx;
    const lora_piece *p = r->p;
    uint64_t at = i * STEP;
    size_t n = (size_t)(p->n - at < STEP ? p->n - at : STEP);
    float *d = r->d + at, *base = calloc(n, sizeof *base);
    gg_status st = base ? gg_cancelled(err) : gg_fail(err, GG_ENOMEM, "no memory for values");
    if (st == GG_OK) st = gg_read_values(p->tuned, p->of->tuned, p->tuned_first + at, n, d, err);
    if (st == GG_OK) st = gg_read_values(p->base, p->of->base, p->first + at, n, base, err);
    for (size_t k = 0; k < n && st == GG_OK; k++) d[k] -= base[k];
    free(base);
    uint64_t bad = st == GG_OK ? gg_count_bad(d, n) : 0;
    if (bad)
        st = gg_fail(err, GG_EFORMAT, "%llu values of the difference are not finite",
                     (unsigned long long)bad);
    return st;
}

/* Reads tuned - base. GG_EFORMAT, with the tensor, if a value is not finite. */
static gg_status read_difference(const lora_piece *p, float *d, unsigned threads, gg_error *err)
{
    reading r = { p, d };
    size_t steps = (size_t)(p->n / STEP + (p->n % STEP != 0));
    gg_status st = gg_parallel(steps, threads, read_lora_step, &r, err);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, p->of->t.name, p->of->t.name_len);
}

/* ---- factors --------------------------------------------------------------------------- */

/* The alpha of the adapter. */
static double alpha_of(const gg_lora_options *o)
{
    return o->rank ? o->rank : LORA_ALPHA;
}

/* The same seed for the same name and expert on every machine. */
static uint64_t seed_of(const gg_tensor *t, uint64_t expert)
{
    return gg_hash(GG_HASH ^ expert, t->name, t->name_len);
}

static gg_status decompose_difference(lora_job *x, const lora_target *g, uint64_t expert, float *d,
                                      gg_factors *f, gg_error *err)
{
    uint64_t n = g->rows * g->cols, bytes = g->t.bytes, other = expert;
    bool stack = g->experts > 1;
    if (stack && !gg_select_expert(x->o->select, expert)) return GG_OK; /* it stays */
    if (stack) other = gg_select_donor_expert(x->o->select, expert);
    if (other >= g->experts && stack) {
        gg_fail(err, GG_NO, "the tuned model has no expert %llu", (unsigned long long)other);
        return gg_at_tensor(err, g->t.name, g->t.name_len);
    }
    lora_piece p = { x->base, x->tuned, g, expert * n, n, other * n };
    gg_lowrank how = { x->o->rank, x->o->energy, seed_of(&g->t, expert), x->threads };
    gg_status st = read_difference(&p, d, x->threads, err);
    if (st == GG_OK) st = gg_truncate_matrix(d, (size_t)g->rows, (size_t)g->cols, &how, f, err);
    bytes += gg_source_tensor(x->tuned, g->tuned)->bytes;
    gg_progress_add(x->run, bytes / g->experts);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, g->t.name, g->t.name_len);
}

/* ---- storing -------------------------------------------------------------------------- */

/* Lines of values to store_lines. The rank of an expert can be less than that of its stack; the
 * values that it lacks are 0. */
typedef struct sheet {
    const float *x;
    size_t lines, length, line_step, step;
    size_t have_lines, have_length;
    double factor;
} sheet;

static gg_status store_lines(lora_job *x, const sheet *s, gg_error *err)
{
    float *line = calloc(s->length, sizeof *line);
    gg_status st = line ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for a factor");
    for (size_t i = 0; i < s->lines && st == GG_OK; i++) {
        for (size_t k = 0; k < s->length; k++) {
            bool have = i < s->have_lines && k < s->have_length;
            line[k] = have ? (float)(s->factor * (double)s->x[i * s->line_step + k * s->step]) : 0;
        }
        st = gg_put_all(x->fd, line, s->length * sizeof *line, x->stored, err);
        if (st != GG_OK) gg_fix(err, "set TMPDIR to a folder with room for the adapter");
        x->stored += s->length * sizeof *line;
    }
    free(line);
    return st;
}

/* The factor with one line per column of W (wide, or its transpose), or one per row (tall). */
static gg_status store_factors(lora_job *x, const lora_target *g, const gg_factors *f,
                               uint64_t rank, bool wide, gg_error *err)
{
    size_t rows = (size_t)g->rows, cols = (size_t)g->cols, r = (size_t)rank;
    double factor = sqrt((double)rank / alpha_of(x->o));
    gg_status st = GG_OK;
    for (uint64_t e = 0; e < g->experts && st == GG_OK; e++) {
        const gg_factors *k = &f[e];
        sheet s = { k->tall, rows, r, k->rank, 1, rows, k->rank, factor };
        if (wide) s = (sheet){ k->wide, r, cols, cols, 1, k->rank, cols, factor };
        if (wide && g->swapped) s = (sheet){ k->wide, cols, r, 1, cols, cols, k->rank, factor };
        st = store_lines(x, &s, err);
    }
    return st;
}

static gg_status make_half(void *ctx, const gg_target *to, gg_error *err)
{
    const lora_half *h = ctx;
    gg_place from = { h->fd, h->at };
    gg_status st = gg_copy(NULL, from, (gg_place){ to->fd, to->at }, to->t->bytes, err);
    gg_progress_add(to->run, to->t->bytes);
    return st;
}

/* Plans the half that was stored from byte `at` on. */
static gg_status add_half(lora_job *x, const lora_target *g, char letter, uint64_t rank,
                          uint64_t at, gg_error *err)
{
    char name[GG_RECORD_NAME + 8];
    lora_half *h = gg_compute_new(&x->made, sizeof *h, err);
    if (!h) return GG_ENOMEM;
    bool first = letter == 'a';
    uint64_t lines = first == g->swapped ? g->rows : g->cols; /* of the side that it belongs to */
    h->fd = x->fd;
    h->at = at;
    gg_tensor t = { .name = name,
                    .n_dims = g->t.n_dims > 2 ? 3 : 2,
                    .dtype = GG_F32,
                    .dims = { rank, lines, g->experts, 1 } };
    t.name_len = (size_t)snprintf(name, sizeof name, "%.*s.lora_%c", (int)g->t.name_len, g->t.name,
                                  letter);
    if (first && !g->swapped) {
        t.dims[0] = lines;
        t.dims[1] = rank;
    }
    return gg_plan_add_made(&x->plan, &t, make_half, h, err);
}

static gg_status store_pair(lora_job *x, const lora_target *g, const gg_factors *f, uint64_t rank,
                            gg_error *err)
{
    /* lora_a is the factor of the input side, or for token_embd that of the vocabulary. */
    gg_status st = GG_OK;
    for (int half = 0; half < 2 && st == GG_OK; half++) {
        uint64_t before = x->stored;
        st = store_factors(x, g, f, rank, (half == 0) != g->swapped, err);
        if (st == GG_OK) st = add_half(x, g, half ? 'b' : 'a', rank, before, err);
    }
    return st;
}

/* ---- a pair --------------------------------------------------------------------------- */

static gg_status finish_pair(lora_job *x, const lora_target *g, const gg_factors *f, gg_error *err)
{
    gg_lora_row row = { g->t.name, g->t.name_len, g->rows, g->cols, g->experts, 0, 0 };
    double kept = 0, total = 0;
    for (uint64_t e = 0; e < g->experts; e++) {
        if (f[e].rank > row.rank) row.rank = f[e].rank;
        kept += f[e].kept;
        total += f[e].total;
    }
    if (row.rank == 0) {
        x->report->equal++;
        return GG_OK;
    }
    row.kept = kept < total ? kept / total : 1;
    x->kept += kept;
    x->total += total;
    if (x->report->pairs++ == 0) x->changed = g->base;
    if (row.rank > x->report->largest) x->report->largest = row.rank;
    gg_status st = store_pair(x, g, f, row.rank, err);
    if (st != GG_OK) return gg_at_tensor(err, g->t.name, g->t.name_len);
    return x->o->row ? x->o->row(x->o->row_ctx, &row, err) : GG_OK;
}

/* Decomposes the difference of a matrix or stack, and stores the pair. Counts it as equal if
 * nothing differs. */
static gg_status add_pair(lora_job *x, const lora_target *g, gg_error *err)
{
    uint64_t n = g->rows * g->cols;
    gg_factors *f = calloc((size_t)g->experts, sizeof *f);
    float *d = n <= SIZE_MAX / sizeof *d ? malloc((size_t)n * sizeof *d) : NULL;
    gg_status st = f && d ? GG_OK
                          : gg_fail(err, GG_ENOMEM, "no memory for the %llu values of a matrix",
                                    (unsigned long long)n);
    for (uint64_t e = 0; e < g->experts && st == GG_OK; e++)
        st = decompose_difference(x, g, e, d, &f[e], err);
    free(d);
    if (st == GG_OK) st = finish_pair(x, g, f, err);
    for (uint64_t e = 0; f && e < g->experts; e++) gg_factors_free(&f[e]);
    free(f);
    return st;
}

/* ---- tensors ------------------------------------------------------------------------- */

static void describe_target(const lora_job *x, lora_target *g)
{
    uint64_t experts;
    const gg_tensor *t = &g->t;
    bool stack = gg_is_expert_stack(t, &experts) && t->n_dims == 3;
    g->cols = t->dims[0];
    g->rows = t->dims[1];
    g->experts = stack ? experts : 1;
    g->swapped = gg_text_is(t->name, t->name_len, "token_embd.weight");
    g->matrix = t->n_dims >= 2 && g->rows > 1 && g->cols > 1 &&
                t->elements == g->rows * g->cols * g->experts && !gg_is_integer(t->dtype);
    if (g->swapped && gg_source_find(x->base, "output.weight", 13) == SIZE_MAX) g->matrix = false;
}

/* Finds tensor i of the base in the tuned model, where a single expert may have another number. */
static gg_status find_target(const lora_job *x, size_t i, lora_target *g, gg_error *err)
{
    char stack[GG_RECORD_NAME + 8], name[GG_RECORD_NAME + 8];
    gg_anatomy a = gg_source_tensor(x->base, i)->a;
    size_t len;
    *g = (lora_target){ .t = *gg_source_tensor(x->base, i), .base = i };
    bool single = a.expert >= 0 &&
                  gg_stack_name(g->t.name, g->t.name_len, stack, sizeof stack, &len) &&
                  gg_expert_name(stack, len,
                                 gg_select_donor_expert(x->o->select, (uint64_t)a.expert), name,
                                 sizeof name, &len);
    g->tuned = single ? gg_source_find(x->tuned, name, len)
                      : gg_source_find(x->tuned, g->t.name, g->t.name_len);
    gg_status st = GG_OK;
    if (g->tuned == SIZE_MAX) {
        st = gg_fail(err, GG_NO, "the tuned model does not have %s", single ? name : "this tensor");
    } else {
        const gg_tensor *t = gg_source_tensor(x->tuned, g->tuned);
        if (!gg_same_dims(t, &g->t))
            st = gg_fail(err, GG_NO, "the tuned model has this tensor with other dimensions");
        else if (!gg_can_decode(t->dtype) || !gg_can_decode(g->t.dtype))
            st = gg_fail(err, GG_EUNSUPPORTED, "its dtype cannot be decoded");
    }
    if (st != GG_OK) return gg_at_tensor(err, g->t.name, g->t.name_len);
    describe_target(x, g);
    st = gg_verify_data(x->base, g->base, err);
    return st == GG_OK ? gg_verify_data(x->tuned, g->tuned, err) : st;
}

static void note_lost(lora_job *x, const gg_tensor *t, gg_error *err)
{
    if (x->lost.len && (!t || x->lost.len + t->name_len > 380)) {
        gg_note(x->run, "not in the adapter, which holds matrices only: %.*s", (int)x->lost.len,
                x->lost.data);
        gg_buf_clear(&x->lost);
    }
    if (t)
        gg_buf_printf(&x->lost, err, "%s%.*s", x->lost.len ? ", " : "", (int)t->name_len, t->name);
}

/* Counts a tensor that no adapter can hold, if it differs. */
static gg_status skip_target(lora_job *x, const lora_target *g, gg_error *err)
{
    bool differs = false;
    gg_status st = GG_OK;
    float *d = malloc(65536 * sizeof *d);
    if (!d) return gg_fail(err, GG_ENOMEM, "no memory for values");
    for (uint64_t at = 0; at < g->t.elements && st == GG_OK && !differs; at += 65536) {
        uint64_t n = g->t.elements - at < 65536 ? g->t.elements - at : 65536;
        lora_piece p = { x->base, x->tuned, g, at, n };
        st = read_difference(&p, d, 1, err);
        for (size_t k = 0; k < n && st == GG_OK; k++) differs |= d[k] != 0;
    }
    free(d);
    if (!differs) x->report->equal++;
    else x->report->lost++;
    if (differs) note_lost(x, &g->t, err);
    return st == GG_OK ? err->status : st;
}

/* ---- the adapter --------------------------------------------------------------------- */

#define MOST_KEYS 4 /* keys that are noted */

/* An adapter has no place for keys of the tuned model. */
static void note_key(void *ctx, gg_conflict kind, const char *line)
{
    lora_job *x = ctx;
    (void)kind;
    if (x->keys++ < MOST_KEYS)
        gg_note(x->run, "not in the adapter, which holds matrices only: %s", line);
}

static gg_status check_architectures(lora_job *x, gg_error *err)
{
    const gg_meta *a = gg_source_meta(x->base), *b = gg_source_meta(x->tuned);
    const char *ta, *tb;
    size_t na, nb;
    if (!a || !b || !gg_kv_str(gg_meta_find(a, "general.architecture"), &ta, &na) ||
        !gg_kv_str(gg_meta_find(b, "general.architecture"), &tb, &nb))
        return gg_fail(err, GG_EFORMAT, "a model has no general.architecture");
    if (na != nb || memcmp(ta, tb, na) != 0)
        return gg_fail(err, GG_NO, "the models have different architectures");
    gg_status st = gg_refuse_split_experts(x->base, err);
    gg_key_conflicts(a, b, GG_COMPAT_BLOCKS | GG_COMPAT_LAYERS_GO, note_key, x);
    return st == GG_OK ? gg_refuse_split_experts(x->tuned, err) : st;
}

/* "blk.*.attn_q.bias" of "blk.7.attn_q.bias", or "all of block 7" if the base does not have this
 * block. */
static void label_of(const lora_job *x, size_t i, char *out, size_t size)
{
    const gg_tensor *t = gg_source_tensor(x->tuned, i);
    char name[300];
    bool have = t->a.block < 0;
    for (size_t k = 0; k < gg_source_count(x->base) && !have; k++) {
        gg_anatomy of = gg_source_tensor(x->base, k)->a;
        have = of.block == t->a.block && of.part == t->a.part;
    }
    gg_escape(t->name, t->name_len, name, sizeof name);
    size_t n = strncmp(name, "blk.", 4) == 0 ? strspn(name + 4, "0123456789") : 0;
    if (!have) snprintf(out, size, "all of block %" PRId64, t->a.block);
    else if (n) snprintf(out, size, "blk.*%.80s", name + 4 + n);
    else snprintf(out, size, "%.80s", name);
}

/* Notes selected tensors that only the tuned model has. */
static gg_status note_additions(const lora_job *x, gg_error *err)
{
    gg_buf text = GG_BUF_INIT;
    size_t count = 0;
    for (size_t i = 0; i < gg_source_count(x->tuned) && err->status == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(x->tuned, i);
        char label[120];
        if (gg_source_find(x->base, t->name, t->name_len) != SIZE_MAX || t->a.expert >= 0 ||
            !gg_select_match(x->o->select, t->name, t->name_len, &t->a))
            continue;
        count++;
        label_of(x, i, label, sizeof label - 2);
        strcat(label, ", ");
        gg_buf_append(&text, "", 1, err);
        if (err->status != GG_OK) break;
        text.len--; /* the NUL ends it for strstr only */
        if (text.len > 300 && text.data[text.len - 1] != '.') gg_buf_text(&text, "...", err);
        else if (text.len <= 300 && !strstr((const char *)text.data, label))
            gg_buf_text(&text, label, err);
    }
    if (count && text.len > 2)
        gg_note(x->run,
                "%zu tensor%s of the tuned model %s not in the base, so the adapter lacks %s: %.*s",
                count, count == 1 ? "" : "s", count == 1 ? "is" : "are", count == 1 ? "it" : "them",
                (int)(text.len - (text.data[text.len - 1] == ' ' ? 2 : 0)), text.data);
    gg_buf_free(&text);
    return err->status;
}

static gg_status take_targets(lora_job *x, gg_error *err)
{
    size_t n = gg_source_count(x->base), selected = 0;
    gg_status st = note_additions(x, err);
    gg_progress_total(x->run, 2 * gg_selected_bytes(x->base, x->o->select));
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(x->base, i);
        lora_target g;
        if (!gg_select_match(x->o->select, t->name, t->name_len, &t->a)) continue;
        selected++;
        st = gg_cancelled(err);
        if (st == GG_OK) st = find_target(x, i, &g, err);
        if (st == GG_OK) st = g.matrix ? add_pair(x, &g, err) : skip_target(x, &g, err);
    }
    note_lost(x, NULL, err);
    if (st != GG_OK) return st;
    if (selected == 0) return gg_fail(err, GG_NO, "no tensor is selected");
    if (x->report->pairs == 0) return gg_fail(err, GG_NO, "no selected matrix differs");
    return GG_OK;
}

/* A tensor that the adapter changes and the hash of its data in the base, so that whoever folds it
 * can tell the base from another model. */
static gg_status base_keys(const lora_job *x, gg_meta *meta, gg_error *err)
{
    char sha[65];
    const gg_tensor *t = gg_source_tensor(x->base, x->changed);
    gg_plan_part part = { x->base, x->changed, 0, t->bytes, NULL };
    gg_status st = gg_copy_part(&part, (gg_place){ -1, 0 }, sha, x->run, err);
    if (st == GG_OK) st = gg_meta_set_str(meta, GG_LORA_BASE_TENSOR, t->name, t->name_len, err);
    return st == GG_OK ? gg_meta_set_str(meta, GG_LORA_BASE_SHA256, sha, 64, err) : st;
}

static gg_status adapter_keys(const lora_job *x, gg_meta *meta, gg_error *err)
{
    static const char *const fixed[][2] = { { "general.type", "adapter" },
                                            { "adapter.type", "lora" } };
    const char *text;
    size_t len;
    gg_kv_str(gg_meta_find(gg_source_meta(x->base), "general.architecture"), &text, &len);
    gg_status st = gg_meta_set_str(meta, "general.architecture", text, len, err);
    if (st == GG_OK &&
        gg_kv_str(gg_meta_find(gg_source_meta(x->base), "general.name"), &text, &len)) {
        st = gg_meta_set_u32(meta, "general.base_model.count", 1, err);
        if (st == GG_OK) st = gg_meta_set_str(meta, "general.base_model.0.name", text, len, err);
    }
    if (st == GG_OK) st = base_keys(x, meta, err);
    for (size_t i = 0; i < 2 && st == GG_OK; i++)
        st = gg_meta_set_str(meta, fixed[i][0], fixed[i][1], strlen(fixed[i][1]), err);
    if (st == GG_OK) st = gg_meta_set_f32(meta, "adapter.lora.alpha", (float)alpha_of(x->o), err);
    if (st == GG_OK &&
        gg_kv_str(gg_meta_find(gg_source_meta(x->tuned), "general.name"), &text, &len))
        st = gg_meta_set_str(meta, "general.name", text, len, err);
    return st;
}

static gg_status write_adapter(lora_job *x, const char *output, gg_error *err)
{
    gg_meta meta = GG_META_INIT;
    gg_status st = adapter_keys(x, &meta, err);
    if (st == GG_OK) st = gg_plan_one_file(&x->plan, output, 3, &meta, err);
    gg_meta_free(&meta);
    if (st == GG_OK) st = gg_watch_add(&x->plan.watch, x->base, err);
    if (st == GG_OK) st = gg_watch_add(&x->plan.watch, x->tuned, err);
    if (st == GG_OK) st = gg_plan_write(&x->plan, x->run, &x->report->bytes, err);
    uint64_t model = 0;
    for (size_t i = 0; i < gg_source_count(x->tuned); i++)
        model += gg_source_tensor(x->tuned, i)->bytes;
    if (st == GG_OK && x->stored > model)
        gg_note(x->run,
                "the adapter has %llu bytes, but the tuned model only %llu: a lower rank keeps it "
                "small",
                (unsigned long long)x->stored, (unsigned long long)model);
    return st;
}

static gg_status check_lora_call(lora_job *x, const char *output, gg_error *err)
{
    if (!(x->o->energy >= 0 && x->o->energy <= 1))
        return gg_fail(err, GG_EUSAGE, "the share to keep must be above 0 and at most 1");
    if (!gg_source_seekable(x->base) || !gg_source_seekable(x->tuned))
        return gg_fail(err, GG_EUSAGE, "the models must be files, not pipes");
    gg_status st = gg_select_check(x->o->select, x->base, x->tuned, &(gg_select_when){ 0 }, err);
    if (st == GG_OK) st = gg_require_whole(x->base, x->run, err);
    if (st == GG_OK) st = gg_require_whole(x->tuned, x->run, err);
    if (st == GG_OK) st = gg_guard_output(output, x->base, err);
    if (st == GG_OK) st = gg_guard_output(output, x->tuned, err);
    if (st == GG_OK && strcmp(output, "-") != 0)
        st = gg_refuse_existing(output, x->run->force, err);
    return st == GG_OK ? check_architectures(x, err) : st;
}

gg_status gg_lora_extract(gg_source *base, gg_source *tuned, const gg_lora_options *o,
                          const char *output, const gg_run *run, gg_lora_report *report,
                          gg_error *err)
{
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_lora_report, report);
    gg_lora_options how = *GG_OPTIONS(gg_lora_options, o);
    if (!how.rank && !(how.energy > 0)) how.rank = LORA_RANK;
    lora_job x = { .base = base,
                   .tuned = tuned,
                   .o = &how,
                   .run = run,
                   .threads = run->threads ? run->threads : gg_thread_count(),
                   .report = report,
                   .fd = -1 };
    gg_status st = check_lora_call(&x, output, err);
    if (st == GG_OK && (x.fd = gg_unnamed_file(err)) < 0) st = err->status;
    if (st == GG_OK) st = take_targets(&x, err);
    if (st == GG_OK) st = write_adapter(&x, output, err);
    if (x.total > 0) report->kept = x.kept < x.total ? x.kept / x.total : 1;
    gg_plan_free(&x.plan);
    gg_buf_free(&x.lost);
    gg_computations_free(&x.made);
    if (x.fd >= 0) close(x.fd);
    return st;
}
