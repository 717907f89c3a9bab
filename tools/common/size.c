/* size.c - predicts the losses of types, and chooses those with the least loss for a size. */
#include "size.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/lines.h"
#include "base/names.h"
#include "base/parallel.h"
#include "compute/compute.h"
#include "compute/dtype_rules.h"
#include "quant/quant.h"
#include "write/keys.h"
#include "write/verb_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the guess ------------------------------------------------------------------------ */

/* The factor by the beginning of the role, measured on lab-base: the loss of one tensor of block 0,
 * or outside the blocks, divided by e, over types of 2 to 4 bits (docs/results.md). */
static const struct {
    const char *role;
    double factor;
} factors[] = {
    { "output", 1.2 },    { "token_embd", 1.1 },   { "attn_v", 0.42 }, { "attn_kv", 0.42 },
    { "attn_qkv", 0.42 }, { "attn_output", 0.12 }, { "attn_q", 0.06 }, { "attn_k", 0.06 },
    { "ffn_down", 0.40 }, { "ffn_gate", 0.25 },    { "ffn_up", 0.25 },
};

#define OTHER_FACTOR 0.25
#define LATER_BLOCKS 0.15 /* the factor of the other blocks, relative to that of block 0 */

static double guess_factor(const gg_tensor *t, bool tied)
{
    double factor = OTHER_FACTOR;
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
        size_t n = strlen(factors[i].role);
        if (t->a.role_len < n || memcmp(t->name + t->a.role_at, factors[i].role, n) != 0) continue;
        factor = factors[i].factor;
        break;
    }
    if (tied && t->a.block < 0) factor += factors[0].factor;
    return t->a.block > 0 ? factor * LATER_BLOCKS : factor;
}

/* ---- the table ------------------------------------------------------------------------ */

enum { TENSOR, TYPE, LOSS, COLUMNS };

typedef struct entry {
    const char *name;
    uint32_t dtype;
    double loss;
} entry;

struct gg_losses {
    size_t at[COLUMNS]; /* the column of each value */
    bool has_header;
    gg_names names;
    entry *list; /* sorted by name and dtype */
    size_t n, cap;
};

static int by_name(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    return c ? c : x->dtype < y->dtype ? -1 : x->dtype > y->dtype;
}

/* Cuts a line at its tabs. Returns the number of fields, at most `most`. */
static size_t cut_at_tabs(char *line, char **fields, size_t most)
{
    size_t n = 0;
    line[strcspn(line, "\r\n")] = '\0';
    for (char *p = line; p && n < most; n++) {
        fields[n] = p;
        p = strchr(p, '\t');
        if (p) *p++ = '\0';
    }
    return n;
}

#define MOST_FIELDS 32
#define MOST_BYTES ((size_t)64 << 20) /* of a table */

static gg_status find_columns(gg_losses *l, char **fields, size_t n, gg_error *err)
{
    static const char *const names[] = { "tensor", "type", "loss" };
    for (size_t c = 0; c < COLUMNS; c++) {
        while (l->at[c] < n && strcmp(fields[l->at[c]], names[c]) != 0) l->at[c]++;
        if (l->at[c] == n)
            return gg_fail(err, GG_EUSAGE, "the first line has no column '%s'", names[c]);
    }
    l->has_header = true;
    return GG_OK;
}

static gg_status add_loss(gg_losses *l, char **fields, size_t n, gg_error *err)
{
    char shown[64];
    for (size_t c = 0; c < COLUMNS; c++)
        if (l->at[c] >= n) return gg_fail(err, GG_EUSAGE, "it has too few columns");
    const char *name = fields[l->at[TENSOR]], *type = fields[l->at[TYPE]],
               *text = fields[l->at[LOSS]];
    const gg_dtype_info *info = gg_dtype_by_name(type);
    gg_escape(type, strlen(type), shown, sizeof shown);
    if (!info) return gg_fail(err, GG_EUSAGE, "'%s' is not a tensor type", shown);
    double loss;
    gg_escape(text, strlen(text), shown, sizeof shown);
    if (!gg_parse_decimal(text, strlen(text), &loss) || !isfinite(loss))
        return gg_fail(err, GG_EUSAGE, "'%s' is not a loss", shown);
    if (GG_ROOM(l->list, l->n, &l->cap, err) != GG_OK) return GG_ENOMEM;
    name = gg_names_add(&l->names, name, strlen(name), err);
    if (!name) return GG_ENOMEM;
    l->list[l->n++] = (entry){ name, info->id, loss > 0 ? loss : 0 };
    return GG_OK;
}

static gg_status read_losses(void *ctx, char *line, size_t number, gg_error *err)
{
    gg_losses *l = ctx;
    char *fields[MOST_FIELDS];
    if (line[0] == '#' || line[strspn(line, " \t\r")] == '\0') return GG_OK;
    size_t n = cut_at_tabs(line, fields, MOST_FIELDS);
    gg_status st = l->has_header ? add_loss(l, fields, n, err) : find_columns(l, fields, n, err);
    return st == GG_OK ? GG_OK : gg_fix(err, "correct line %zu", number);
}

static gg_status check_twice(const gg_losses *l, gg_error *err)
{
    for (size_t i = 1; i < l->n; i++) {
        if (by_name(&l->list[i - 1], &l->list[i]) != 0) continue;
        gg_fail(err, GG_EUSAGE, "it has two losses for %s", gg_dtype_get(l->list[i].dtype)->name);
        return gg_at_tensor(err, l->list[i].name, strlen(l->list[i].name));
    }
    return GG_OK;
}

gg_status gg_losses_read(const char *path, gg_losses **out, gg_error *err)
{
    gg_losses *l = calloc(1, sizeof *l);
    if (!l) return gg_fail(err, GG_ENOMEM, "no memory for a table of losses");
    gg_lines from = { path, "the table of losses", MOST_BYTES };
    gg_status st = gg_each_line(&from, read_losses, l, err);
    if (st == GG_OK && l->n == 0) st = gg_fail(err, GG_EUSAGE, "it has no losses");
    if (st == GG_OK) {
        qsort(l->list, l->n, sizeof *l->list, by_name);
        st = check_twice(l, err);
    }
    if (st == GG_OK) *out = l;
    else gg_losses_free(l);
    return st == GG_OK ? GG_OK : gg_at_file(err, path);
}

void gg_losses_free(gg_losses *l)
{
    if (!l) return;
    gg_names_free(&l->names);
    free(l->list);
    free(l);
}

/* ---- losses --------------------------------------------------------------------------- */

/* The rows of a tensor: *n of them from the result on. */
static const entry *rows_of(const gg_losses *l, const char *name, size_t *n)
{
    size_t lo = 0, hi = l ? l->n : 0;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strcmp(l->list[mid].name, name) < 0) lo = mid + 1;
        else hi = mid;
    }
    *n = 0;
    while (l && lo + *n < l->n && strcmp(l->list[lo + *n].name, name) == 0) ++*n;
    return l ? l->list + lo : NULL;
}

/* A loss that the table states, at the error of its type. */
typedef struct known {
    double error, loss;
} known;

static int by_error(const void *a, const void *b)
{
    const known *x = a, *y = b;
    if (x->error != y->error) return x->error < y->error ? -1 : 1;
    return x->loss < y->loss ? -1 : x->loss > y->loss;
}

static double interpolate(const known *k, size_t n, double error)
{
    known a = { 0, 0 };
    for (size_t i = 0; i < n; i++) {
        if (k[i].error >= error && k[i].error > a.error)
            return a.loss + (k[i].loss - a.loss) * (error - a.error) / (k[i].error - a.error);
        a = k[i];
    }
    return a.error > 0 ? a.loss * error / a.error : a.loss;
}

static bool loss_in_table(const entry *rows, size_t n, uint32_t dtype, double *loss)
{
    for (size_t i = 0; i < n; i++) {
        if (rows[i].dtype != dtype) continue;
        *loss = rows[i].loss;
        return true;
    }
    return false;
}

/* The losses of a tensor that is in the table. False: none of its rows is of a type asked for. */
static bool from_table(gg_size_item *it, const entry *rows, size_t n_rows)
{
    known room[GG_DTYPE_COUNT];
    size_t n = 0;
    double loss;
    for (size_t k = 0; k < it->all; k++)
        if (loss_in_table(rows, n_rows, it->options[k].dtype, &loss))
            room[n++] = (known){ it->options[k].error, loss };
    qsort(room, n, sizeof *room, by_error);
    for (size_t k = 0; k < it->all; k++) {
        gg_size_option *o = &it->options[k];
        if (!loss_in_table(rows, n_rows, o->dtype, &o->loss))
            o->loss = interpolate(room, n, o->error);
    }
    return n > 0;
}

/* The median of stated losses divided by their guesses; 1 if there are none. */
static gg_status median_ratio(const gg_losses *l, const gg_size_item *items, size_t n,
                              double *median, gg_error *err)
{
    size_t count = 0;
    double *ratios = calloc(l->n + 1, sizeof *ratios);
    if (!ratios) return gg_fail(err, GG_ENOMEM, "no memory for losses");
    for (size_t i = 0; i < n; i++) {
        const gg_size_item *it = &items[i];
        size_t n_rows;
        const entry *rows = rows_of(l, it->t->name, &n_rows);
        double loss = 0, factor = guess_factor(it->t, it->tied);
        for (size_t k = 0; k < it->all && n_rows; k++)
            if (it->options[k].error > 0 &&
                loss_in_table(rows, n_rows, it->options[k].dtype, &loss) && count < l->n)
                ratios[count++] = loss / (factor * it->options[k].error);
    }
    qsort(ratios, count, sizeof *ratios, gg_order_f64);
    *median = count && ratios[count / 2] > 0 ? ratios[count / 2] : 1;
    free(ratios);
    return GG_OK;
}

gg_status gg_losses_of(const gg_losses *l, gg_size_item *items, size_t n, size_t *unused,
                       gg_error *err)
{
    size_t used = 0;
    double scale = 1;
    gg_status st = l ? median_ratio(l, items, n, &scale, err) : GG_OK;
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        gg_size_item *it = &items[i];
        size_t n_rows;
        const entry *rows = rows_of(l, it->t->name, &n_rows);
        used += n_rows;
        it->basis = "table";
        if (n_rows && from_table(it, rows, n_rows)) continue;
        it->basis = l ? "scaled guess" : "guess";
        for (size_t k = 0; k < it->all; k++)
            it->options[k].loss = scale * guess_factor(it->t, it->tied) * it->options[k].error;
    }
    *unused = l ? l->n - used : 0;
    return st;
}

/* ---- the search ----------------------------------------------------------------------- */

/* A Lagrangian search over convex hulls.
 *
 * As the factor L falls, an item moves along the lower convex hull of its options, from the
 * smallest to that with the least loss: each step leads to the option with the largest gain per
 * byte. Taking the steps of all items in the order of falling gain visits the optima of all
 * factors L. */

typedef struct step {
    size_t item, from, to; /* options */
    double gain;           /* loss saved per byte */
} step;

/* The smallest option, of several the first with the least loss. */
static size_t smallest_option(const gg_size_item *it)
{
    const gg_size_option *o = it->options;
    size_t best = 0;
    for (size_t k = 1; k < it->n; k++)
        if (o[k].bytes < o[best].bytes || (o[k].bytes == o[best].bytes && o[k].loss < o[best].loss))
            best = k;
    return best;
}

/* Finds the next step of an item. Of equal gains the largest step is taken. False at the end. */
static bool next_step(const gg_size_item *it, size_t from, step *s)
{
    const gg_size_option *o = it->options, *now = &o[from];
    s->from = s->to = from;
    s->gain = 0;
    for (size_t k = 0; k < it->n; k++) {
        if (o[k].bytes <= now->bytes || o[k].loss >= now->loss) continue;
        double gain = (now->loss - o[k].loss) / (double)(o[k].bytes - now->bytes);
        if (gain < s->gain || (gain == s->gain && o[k].bytes <= o[s->to].bytes)) continue;
        s->to = k;
        s->gain = gain;
    }
    return s->to != from;
}

static int by_gain(const void *a, const void *b)
{
    const step *x = a, *y = b;
    if (x->gain != y->gain) return x->gain > y->gain ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

/* Takes the steps that fit, in their order. A step can be taken after the one before it. */
static uint64_t take_steps(gg_size_item *items, const step *steps, size_t n, uint64_t room)
{
    for (size_t i = 0; i < n; i++) {
        gg_size_item *it = &items[steps[i].item];
        uint64_t more = it->options[steps[i].to].bytes - it->options[steps[i].from].bytes;
        if (it->chosen != steps[i].from || more > room) continue;
        it->chosen = steps[i].to;
        room -= more;
    }
    return room;
}

/* Uses the remaining room for options that are not on a hull. */
static void fill_room(gg_size_item *items, size_t n, uint64_t room)
{
    for (size_t i = 0; i < n && room; i++) {
        const gg_size_item *it = &items[i];
        const gg_size_option *now = &it->options[it->chosen];
        size_t best = it->chosen;
        for (size_t k = 0; k < it->n; k++) {
            const gg_size_option *o = &it->options[k];
            bool fits = o->bytes <= now->bytes || o->bytes - now->bytes <= room;
            if (fits && o->loss < it->options[best].loss) best = k;
        }
        room = room + now->bytes - it->options[best].bytes;
        items[i].chosen = best;
    }
}

gg_status gg_size_search(gg_size_item *items, size_t n, uint64_t limit, uint64_t *least,
                         gg_error *err)
{
    size_t options = 0, n_steps = 0;
    *least = 0;
    for (size_t i = 0; i < n; i++) options += items[i].n;
    step *steps = calloc(options + 1, sizeof *steps);
    if (!steps) return gg_fail(err, GG_ENOMEM, "no memory for the search");
    for (size_t i = 0; i < n; i++) {
        size_t at = items[i].chosen = smallest_option(&items[i]);
        *least += items[i].options[at].bytes;
        for (; next_step(&items[i], at, &steps[n_steps]); at = steps[n_steps++].to)
            steps[n_steps].item = i;
    }
    if (*least <= limit) {
        qsort(steps, n_steps, sizeof *steps, by_gain);
        fill_room(items, n, take_steps(items, steps, n_steps, limit - *least));
    }
    free(steps);
    return GG_OK;
}

/* ---- candidates ----------------------------------------------------------------------- */

/* Values of a tensor that are encoded to compare types. */
#define SAMPLE ((uint64_t)1 << 18)

/* IQ2_XXS needs an importance matrix. A tensor that is quantized may also keep its type. */
static const char default_types[] = "iq2_s,q2_k,iq3_xxs,iq3_s,q3_k,iq4_xs,q4_k,q5_k,q6_k,q8_0";
static const char weighed_types[] = "iq2_xxs";

typedef struct chooser {
    const gg_type_job *job;
    gg_size_choice *out;
    gg_losses *table; /* NULL = none */
    uint32_t types[GG_DTYPE_COUNT];
    size_t n_types;
    bool keep;           /* "keep" was among them */
    gg_size_item *items; /* tensors of the plan that can have several types */
    size_t n;
    gg_size_option *options; /* GG_DTYPE_COUNT for each */
} chooser;

static gg_status add_types(chooser *c, const char *list, gg_error *err)
{
    char name[32];
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        bool keep = n == 4 && strncmp(p, "keep", 4) == 0;
        snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), p);
        uint32_t dtype = 0;
        gg_status st = keep ? GG_OK
                            : gg_dtype_rules_type(name, "types", c->job->imatrix, &dtype, err);
        if (st != GG_OK) return st;
        c->keep = c->keep || keep;
        bool twice = keep;
        for (size_t i = 0; i < c->n_types; i++) twice = twice || c->types[i] == dtype;
        if (!twice) c->types[c->n_types++] = dtype;
        p += n;
        p += strspn(p, ",") > 0;
    }
    return GG_OK;
}

static gg_status parse_types(chooser *c, gg_error *err)
{
    const char *given = c->out->types;
    gg_status st = add_types(c, given ? given : default_types, err);
    if (st == GG_OK && !given && c->job->imatrix) st = add_types(c, weighed_types, err);
    if (st != GG_OK || c->n_types) return st;
    gg_fail(err, GG_EUSAGE, "there is no type to choose from");
    return gg_about(err, "types");
}

/* Whether values of t can be encoded in the type with the importance matrix at hand. */
static bool encodable(const chooser *c, const gg_tensor *t, uint32_t dtype)
{
    gg_error none = GG_ERROR_INIT;
    bool has = false;
    if (t->dims[0] % gg_dtype_get(dtype)->block_elems) return false;
    if (!gg_encode_needs_imatrix(dtype)) return gg_can_encode(dtype);
    if (c->job->imatrix) gg_imatrix_check(c->job->imatrix, t, true, &has, &none);
    return has;
}

static void add_option(gg_size_item *it, uint32_t dtype)
{
    for (size_t i = 0; i < it->all; i++)
        if (it->options[i].dtype == dtype) return;
    it->options[it->all++].dtype = dtype;
}

/* Names that a rule would read as something else. */
static bool is_plain_name(const gg_tensor *t)
{
    return t->name[0] && t->name[0] != '@' && !strpbrk(t->name, ",*?[\n\r") &&
           strlen(t->name) == t->name_len;
}

/* The types that a rule or the list gives to tensor i. Without types the tensor stays unchanged. */
static gg_status find_options(const chooser *c, size_t i, gg_size_item *it, gg_error *err)
{
    const gg_plan_tensor *pt = &c->job->plan->tensors[i];
    const gg_tensor *t = &pt->t;
    const char *part;
    bool fixed = false;
    uint32_t dtype;
    if (pt->make || !is_plain_name(t) || !gg_can_decode(t->dtype)) return GG_OK;
    gg_status st = gg_dtype_rules_fixed(c->job->rules, t, &fixed, &dtype, err);
    if (st == GG_OK && fixed && dtype != t->dtype) add_option(it, dtype);
    it->n = it->all;
    if (st != GG_OK || fixed || gg_is_delicate(t, &part) || gg_is_integer(t->dtype)) return st;
    for (size_t k = 0; k < c->n_types; k++) {
        dtype = gg_preset_fit_row(c->types[k], t->dims[0]);
        if (encodable(c, t, dtype)) add_option(it, dtype);
    }
    if (c->keep || (!c->out->types && gg_is_quantized(t->dtype))) add_option(it, t->dtype);
    it->n = it->all;
    if (it->n == 0) return GG_OK;
    size_t n;
    const entry *rows = rows_of(c->table, t->name, &n);
    for (size_t k = 0; k < n && it->all < GG_DTYPE_COUNT; k++)
        if (encodable(c, t, rows[k].dtype)) add_option(it, rows[k].dtype);
    return GG_OK;
}

static gg_status find_items(chooser *c, gg_error *err)
{
    const gg_plan *p = c->job->plan;
    c->items = calloc(p->n + 1, sizeof *c->items);
    c->options = calloc(p->n * GG_DTYPE_COUNT + 1, sizeof *c->options);
    if (!c->items || !c->options)
        return gg_fail(err, GG_ENOMEM, "no memory for the types of tensors");
    gg_status st = GG_OK;
    bool tied = true;
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->tensors[i].t.name, "output.weight") == 0) tied = false;
    for (size_t i = 0; i < p->n && st == GG_OK; i++) {
        gg_size_item *it = &c->items[c->n];
        const gg_tensor *t = &p->tensors[i].t;
        *it = (gg_size_item){ .t = t, .index = i, .options = c->options + c->n * GG_DTYPE_COUNT };
        it->tied = tied && strcmp(t->name, "token_embd.weight") == 0;
        st = find_options(c, i, it, err);
        if (it->all) c->n++;
    }
    if (st == GG_OK && c->n == 0) st = gg_fail(err, GG_NO, "it has no tensor that can be encoded");
    return st;
}

/* ---- errors and losses ---------------------------------------------------------------- */

/* Encodes a sample of a tensor in all its types. The error of its own type is 0. */
static gg_status try_item(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    const chooser *c = ctx;
    const gg_size_item *it = &c->items[i];
    const gg_plan_tensor *pt = &c->job->plan->tensors[it->index];
    gg_encode_error made[GG_DTYPE_COUNT];
    uint32_t dtypes[GG_DTYPE_COUNT];
    gg_size_option *of[GG_DTYPE_COUNT];
    size_t n = 0;
    (void)worker;
    for (size_t k = 0; k < it->all; k++) {
        if (it->options[k].dtype == pt->t.dtype) continue;
        dtypes[n] = it->options[k].dtype;
        of[n++] = &it->options[k];
    }
    if (n == 0) return GG_OK;
    const gg_input in = { pt->t.dtype, pt->parts, pt->n_parts };
    const gg_trial trial = { &pt->t, &in, c->job->imatrix, dtypes, n, SAMPLE };
    gg_status st = gg_compute_trial(&trial, made, err);
    for (size_t k = 0; k < n && st == GG_OK; k++)
        of[k]->error = gg_encode_relative2(&made[k], made[k].weighed);
    return st;
}

/* Sets the losses and the bytes of all options. */
static gg_status find_losses(chooser *c, gg_error *err)
{
    size_t unused = 0;
    gg_status st = gg_losses_of(c->table, c->items, c->n, &unused, err);
    if (st == GG_OK && unused)
        gg_note(c->job->run, "%zu losses in the table are of tensors that are not chosen", unused);
    for (size_t i = 0; i < c->n && st == GG_OK; i++) {
        const gg_tensor *t = c->items[i].t;
        for (size_t k = 0; k < c->items[i].n && st == GG_OK; k++) {
            gg_size_option *o = &c->items[i].options[k];
            st = gg_tensor_extent(o->dtype, t->n_dims, t->dims, NULL, &o->bytes, err);
        }
        if (st != GG_OK) return gg_at_tensor(err, t->name, t->name_len);
    }
    return st;
}

/* ---- the choice ----------------------------------------------------------------------- */

static const gg_size_option *chosen_option(const gg_size_item *it)
{
    return &it->options[it->chosen];
}

static gg_status measure_choice(const chooser *c, gg_error *err)
{
    gg_size_choice *out = c->out;
    for (size_t i = 0; i < out->n; i++) out->dtypes[i] = c->job->plan->tensors[i].t.dtype;
    for (size_t i = 0; i < c->n; i++)
        out->dtypes[c->items[i].index] = chosen_option(&c->items[i])->dtype;
    return c->job->measure(c->job->ctx, out->dtypes, &out->bytes, err);
}

#define ROUNDS 16

/* The files also have headers, padding and other tensors, so the limit for the chosen tensors is
 * lowered until the files fit. */
static gg_status search_types(chooser *c, gg_error *err)
{
    const gg_size_choice *out = c->out;
    uint64_t least, room = 0;
    gg_status st = gg_size_search(c->items, c->n, 0, &least, err);
    if (st == GG_OK) st = measure_choice(c, err); /* with the smallest types */
    if (st == GG_OK && out->bytes > out->limit)
        return gg_fail(err, GG_NO,
                       "with the smallest types the model has %llu bytes, more than %llu",
                       (unsigned long long)out->bytes, (unsigned long long)out->limit);
    if (st == GG_OK) room = least + (out->limit - out->bytes);
    for (int i = 0; i < ROUNDS && st == GG_OK; i++) {
        st = gg_size_search(c->items, c->n, room, &least, err);
        if (st == GG_OK) st = measure_choice(c, err);
        if (st != GG_OK || out->bytes <= out->limit) return st;
        uint64_t over = out->bytes - out->limit, used = 0;
        for (size_t k = 0; k < c->n; k++) used += chosen_option(&c->items[k])->bytes;
        room = used - least > over ? used - over : least;
    }
    return st == GG_OK ? gg_fail(err, GG_NO, "no choice of types is small enough") : st;
}

static void report_choice(const chooser *c)
{
    gg_size_choice *out = c->out;
    for (size_t i = 0; i < c->n; i++) {
        const gg_size_item *it = &c->items[i];
        gg_size_row *row = &out->rows[it->index];
        row->error = sqrt(chosen_option(it)->error);
        row->loss = chosen_option(it)->loss;
        row->basis = it->basis;
        out->loss += row->loss;
        out->guess = out->guess || strcmp(it->basis, "table") != 0;
    }
    for (size_t i = 0; i < out->n && out->loss > 0; i++)
        out->rows[i].share = out->rows[i].loss / out->loss;
    gg_note(c->job->run, "%llu bytes of at most %llu, predicted loss %.4g%s",
            (unsigned long long)out->bytes, (unsigned long long)out->limit, out->loss,
            !out->guess ? ""
            : c->table  ? " (partly guessed: the table lacks some tensors)"
                        : " (a guess by the roles of the tensors, without a table of losses)");
}

static gg_status open_choice(const gg_type_job *job, gg_size_choice *out, gg_error *err)
{
    out->n = job->plan->n;
    out->dtypes = calloc(out->n + 1, sizeof *out->dtypes);
    out->rows = calloc(out->n + 1, sizeof *out->rows);
    if (!out->dtypes || !out->rows)
        return gg_fail(err, GG_ENOMEM, "no memory for the types of tensors");
    uint64_t weights = 0;
    for (size_t i = 0; i < out->n; i++) {
        const gg_tensor *t = &job->plan->tensors[i].t;
        out->rows[i] = (gg_size_row){ .tensor = t, .basis = "-" };
        weights += t->elements;
    }
    double bytes = out->bpw / 8 * (double)weights;
    out->limit = out->size;
    if (out->bpw > 0 && bytes < 0x1p62) out->limit = (uint64_t)bytes;
    if (out->limit) return GG_OK;
    gg_fail(err, GG_EUSAGE, "the size must be above 0");
    return gg_about(err, "size");
}

/* The types as rules: "NAME=TYPE,...", and then those that were given. Tensors whose names would be
 * read as patterns are left out; they keep their type or have the user's. */
static gg_status put_rules(const chooser *c, char **rules, gg_error *err)
{
    gg_buf text = GG_BUF_INIT;
    const gg_size_choice *out = c->out;
    gg_status st = GG_OK;
    for (size_t i = 0; i < out->n && st == GG_OK; i++)
        if (strcmp(out->rows[i].basis, "-") != 0)
            st = gg_buf_printf(&text, err, "%s%s=%s", text.len ? "," : "",
                               out->rows[i].tensor->name, gg_dtype_get(out->dtypes[i])->name);
    if (st == GG_OK && c->job->given) st = gg_buf_printf(&text, err, ",%s", c->job->given);
    if (st == GG_OK) *rules = gg_buf_take(&text, NULL);
    else gg_buf_free(&text);
    return st;
}

static gg_status choose(void *ctx, const gg_type_job *job, char **rules, gg_error *err)
{
    chooser c = { .job = job, .out = ctx };
    gg_status st = open_choice(job, c.out, err);
    if (st == GG_OK && c.out->sensitivity) st = gg_losses_read(c.out->sensitivity, &c.table, err);
    if (st == GG_OK) st = parse_types(&c, err);
    if (st == GG_OK) st = find_items(&c, err);
    if (st == GG_OK) st = gg_parallel(c.n, job->run->threads, try_item, &c, err);
    if (st == GG_OK) st = find_losses(&c, err);
    if (st == GG_OK) st = search_types(&c, err);
    if (st == GG_OK) report_choice(&c);
    if (st == GG_OK) st = put_rules(&c, rules, err);
    gg_losses_free(c.table);
    free(c.items);
    free(c.options);
    return st;
}

static gg_status tell_rows(void *ctx, gg_error *err)
{
    const gg_size_choice *c = ctx;
    gg_status st = GG_OK;
    for (size_t i = 0; i < c->n && c->row && st == GG_OK; i++)
        st = c->row(c->ctx, &c->rows[i], err);
    return st;
}

gg_type_chooser gg_size_chooser(gg_size_choice *c)
{
    return (gg_type_chooser){ .ctx = c, .choose = choose, .chosen = tell_rows };
}

void gg_size_choice_free(gg_size_choice *c)
{
    free(c->dtypes);
    free(c->rows);
    *c = (gg_size_choice){ 0 };
}
