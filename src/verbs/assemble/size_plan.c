/* size_plan.c - gathers the types that each tensor can have, and chooses. */
#include "size_plan.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/parallel.h"
#include "quant/quant.h"
#include "size_search.h"
#include "verbs/compute/presets.h"
#include "verbs/shared/type_keys.h"
#include "verbs/shared/verb_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values of a tensor that are encoded to compare types. */
#define SAMPLE ((uint64_t)1 << 18)

/* IQ2_XXS needs an importance matrix. A tensor that is quantized may also keep its type. */
static const char default_types[] = "iq2_s,q2_k,iq3_xxs,iq3_s,q3_k,iq4_xs,q4_k,q5_k,q6_k,q8_0";
static const char weighed_types[] = "iq2_xxs";

/* A tensor of the plan, and the types it can have. The types after the first n_options serve only
 * to interpolate the table. */
typedef struct item {
    size_t index;
    size_t n_options, n;
    uint32_t *dtypes;
    double *errors, *losses; /* squared relative errors; per type */
    const char *basis;       /* of the losses */
} item;

typedef struct chooser {
    const gg_size_job *job;
    gg_losses *table; /* NULL = none */
    uint32_t types[GG_DTYPE_COUNT];
    size_t n_types;
    bool keep;  /* "keep" was among them */
    bool given; /* the user gave them */
    bool tied;
    item *items;
    size_t n, width; /* of all items; room for the types of each */
    uint32_t *dtypes;
    double *errors, *losses;
    gg_size_item *search;
    gg_size_option *options;
} chooser;

/* ---- candidates ----------------------------------------------------------------------- */

static gg_status add_types(chooser *c, const char *list, gg_error *err)
{
    char name[32];
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        bool keep = n == 4 && strncmp(p, "keep", 4) == 0;
        snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), p);
        uint32_t dtype = 0;
        gg_status st = keep
                           ? GG_OK
                           : gg_dtype_rules_type(name, GG_HINT_TYPES, c->job->imatrix, &dtype, err);
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
    const char *given = c->job->o->types;
    c->given = given != NULL;
    gg_status st = add_types(c, given ? given : default_types, err);
    if (st == GG_OK && !given && c->job->imatrix) st = add_types(c, weighed_types, err);
    if (st != GG_OK || c->n_types) return st;
    gg_fail(err, GG_EUSAGE, "there is no type to choose from");
    return gg_about(err, GG_HINT_TYPES);
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

static void add_option(item *it, uint32_t dtype)
{
    for (size_t i = 0; i < it->n; i++)
        if (it->dtypes[i] == dtype) return;
    it->dtypes[it->n++] = dtype;
}

/* Names that a rule would read as something else. */
static bool is_plain_name(const gg_tensor *t)
{
    return t->name[0] && t->name[0] != '@' && !strpbrk(t->name, ",*?[\n\r") &&
           strlen(t->name) == t->name_len;
}

/* The types that a rule or the list gives to tensor i. Without types the tensor stays unchanged. */
static gg_status find_options(const chooser *c, size_t i, item *it, gg_error *err)
{
    const gg_plan_tensor *pt = &c->job->plan->tensors[i];
    const gg_tensor *t = &pt->t;
    const char *part;
    bool fixed = false;
    uint32_t dtype;
    it->index = i;
    if (pt->make || !is_plain_name(t) || !gg_can_decode(t->dtype)) return GG_OK;
    gg_status st = gg_dtype_rules_fixed(c->job->rules, t, &fixed, &dtype, err);
    if (st == GG_OK && fixed && dtype != t->dtype) add_option(it, dtype);
    it->n_options = it->n;
    if (st != GG_OK || fixed || gg_is_delicate(t, &part) || gg_is_integer(t->dtype)) return st;
    for (size_t k = 0; k < c->n_types; k++) {
        dtype = gg_preset_fit_row(c->types[k], t->dims[0]);
        if (encodable(c, t, dtype)) add_option(it, dtype);
    }
    if (c->keep || (!c->given && gg_is_quantized(t->dtype))) add_option(it, t->dtype);
    it->n_options = it->n;
    if (it->n == 0) return GG_OK;
    uint32_t known[GG_DTYPE_COUNT];
    size_t n = gg_losses_types(c->table, t->name, known, GG_DTYPE_COUNT);
    for (size_t k = 0; k < n && it->n < c->width; k++)
        if (encodable(c, t, known[k])) add_option(it, known[k]);
    return GG_OK;
}

static gg_status find_items(chooser *c, gg_error *err)
{
    size_t all = c->job->plan->n;
    c->width = c->n_types + 1 + gg_losses_all_types(c->table);
    if (c->width > GG_DTYPE_COUNT) c->width = GG_DTYPE_COUNT;
    c->items = calloc(all + 1, sizeof *c->items);
    c->dtypes = calloc(all * c->width + 1, sizeof *c->dtypes);
    c->errors = calloc(all * c->width + 1, sizeof *c->errors);
    c->losses = calloc(all * c->width + 1, sizeof *c->losses);
    c->search = calloc(all + 1, sizeof *c->search);
    c->options = calloc(all * c->width + 1, sizeof *c->options);
    if (!c->items || !c->dtypes || !c->errors || !c->losses || !c->search || !c->options)
        return gg_fail(err, GG_ENOMEM, "no memory for the types of tensors");
    gg_status st = GG_OK;
    c->tied = true;
    for (size_t i = 0; i < all && st == GG_OK; i++) {
        item *it = &c->items[c->n];
        size_t at = c->n * c->width;
        *it =
            (item){ .dtypes = c->dtypes + at, .errors = c->errors + at, .losses = c->losses + at };
        st = find_options(c, i, it, err);
        if (it->n) c->n++;
        if (strcmp(c->job->plan->tensors[i].t.name, "output.weight") == 0) c->tied = false;
    }
    if (st == GG_OK && c->n == 0) st = gg_fail(err, GG_NO, "it has no tensor that can be encoded");
    return st;
}

/* ---- errors and losses ---------------------------------------------------------------- */

static gg_status try_item(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    const chooser *c = ctx;
    const item *it = &c->items[i];
    const gg_plan_tensor *pt = &c->job->plan->tensors[it->index];
    gg_encode_error made[GG_DTYPE_COUNT];
    uint32_t dtypes[GG_DTYPE_COUNT];
    size_t n = 0;
    (void)worker;
    for (size_t k = 0; k < it->n; k++)
        if (it->dtypes[k] != pt->t.dtype) dtypes[n++] = it->dtypes[k];
    if (n == 0) return GG_OK;
    const gg_input in = { pt->t.dtype, pt->parts, pt->n_parts };
    const gg_trial trial = { &pt->t, &in, c->job->imatrix, dtypes, n, SAMPLE };
    gg_status st = gg_compute_trial(&trial, made, err);
    for (size_t k = 0, at = 0; k < it->n && st == GG_OK; k++)
        if (it->dtypes[k] != pt->t.dtype) {
            it->errors[k] = gg_encode_relative2(&made[at], made[at].weighed);
            at++;
        }
    return st;
}

/* Sets the losses of all items, and their basis. */
static gg_status find_losses(chooser *c, gg_error *err)
{
    gg_loss_query *queries = calloc(c->n + 1, sizeof *queries);
    size_t unused = 0;
    if (!queries) return gg_fail(err, GG_ENOMEM, "no memory for losses");
    for (size_t i = 0; i < c->n; i++) {
        const item *it = &c->items[i];
        const gg_tensor *t = &c->job->plan->tensors[it->index].t;
        bool tied = c->tied && strcmp(t->name, "token_embd.weight") == 0;
        queries[i] = (gg_loss_query){ t, tied, it->dtypes, it->errors, it->n, it->losses, "" };
    }
    gg_status st = gg_losses_of(c->table, queries, c->n, &unused, err);
    for (size_t i = 0; i < c->n; i++) c->items[i].basis = queries[i].basis;
    if (st == GG_OK && unused)
        gg_note(c->job->run, "%zu losses in the table are of tensors that are not chosen", unused);
    free(queries);
    return st;
}

/* ---- the choice ----------------------------------------------------------------------- */

static gg_status tensor_bytes(const gg_tensor *t, uint32_t dtype, uint64_t *bytes, gg_error *err)
{
    gg_status st = gg_tensor_extent(dtype, t->n_dims, t->dims, NULL, bytes, err);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, t->name, t->name_len);
}

static gg_status set_options(chooser *c, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < c->n && st == GG_OK; i++) {
        const item *it = &c->items[i];
        gg_size_option *o = c->options + i * c->width;
        for (size_t k = 0; k < it->n_options && st == GG_OK; k++) {
            st = tensor_bytes(&c->job->plan->tensors[it->index].t, it->dtypes[k], &o[k].bytes, err);
            o[k].loss = it->losses[k];
        }
        c->search[i] = (gg_size_item){ o, it->n_options, 0 };
    }
    return st;
}

static gg_status measure(const chooser *c, gg_size_plan *out, gg_error *err)
{
    for (size_t i = 0; i < out->n; i++) out->dtypes[i] = c->job->plan->tensors[i].t.dtype;
    for (size_t i = 0; i < c->n; i++)
        out->dtypes[c->items[i].index] = c->items[i].dtypes[c->search[i].chosen];
    return c->job->measure(c->job->ctx, out->dtypes, &out->bytes, err);
}

static uint64_t chosen_bytes(const chooser *c)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < c->n; i++) sum += c->search[i].options[c->search[i].chosen].bytes;
    return sum;
}

#define ROUNDS 16

/* The files also have headers, padding and other tensors, so the limit for the chosen tensors is
 * lowered until the files fit. */
static gg_status search(chooser *c, gg_size_plan *out, gg_error *err)
{
    uint64_t least, room = 0;
    gg_status st = gg_size_search(c->search, c->n, 0, &least, err);
    if (st == GG_OK) st = measure(c, out, err); /* with the smallest types */
    if (st == GG_OK && out->bytes > out->limit)
        return gg_fail(err, GG_NO,
                       "with the smallest types the model has %llu bytes, more than %llu",
                       (unsigned long long)out->bytes, (unsigned long long)out->limit);
    if (st == GG_OK) room = least + (out->limit - out->bytes);
    for (int i = 0; i < ROUNDS && st == GG_OK; i++) {
        st = gg_size_search(c->search, c->n, room, &least, err);
        if (st == GG_OK) st = measure(c, out, err);
        if (st != GG_OK || out->bytes <= out->limit) return st;
        uint64_t over = out->bytes - out->limit, used = chosen_bytes(c);
        room = used - least > over ? used - over : least;
    }
    return st == GG_OK ? gg_fail(err, GG_NO, "no choice of types is small enough") : st;
}

static void tell(const chooser *c, gg_size_plan *out)
{
    for (size_t i = 0; i < out->n; i++) out->basis[i] = "-";
    for (size_t i = 0; i < c->n; i++) {
        const item *it = &c->items[i];
        size_t k = c->search[i].chosen;
        out->errors[it->index] = sqrt(it->errors[k]);
        out->losses[it->index] = it->losses[k];
        out->basis[it->index] = it->basis;
        out->loss += it->losses[k];
        out->guess = out->guess || strcmp(it->basis, "table") != 0;
    }
    gg_note(c->job->run, "%llu bytes of at most %llu, predicted loss %.4g%s",
            (unsigned long long)out->bytes, (unsigned long long)out->limit, out->loss,
            !out->guess ? ""
            : c->table  ? " (partly guessed: the table lacks some tensors)"
                        : " (a guess by the roles of the tensors, without a table of losses)");
}

static gg_status set_limit(const gg_size_job *job, gg_size_plan *out, gg_error *err)
{
    uint64_t weights = 0;
    for (size_t i = 0; i < job->plan->n; i++) weights += job->plan->tensors[i].t.elements;
    double bytes = job->o->bpw / 8 * (double)weights;
    out->limit = job->o->size;
    if (job->o->bpw > 0 && bytes < 0x1p62) out->limit = (uint64_t)bytes;
    if (out->limit) return GG_OK;
    gg_fail(err, GG_EUSAGE, "the size must be above 0");
    return gg_about(err, GG_HINT_SIZE);
}

static gg_status open_plan(const gg_size_job *job, gg_size_plan *out, gg_error *err)
{
    size_t n = job->plan->n;
    *out = (gg_size_plan){ .n = n };
    out->dtypes = calloc(n + 1, sizeof *out->dtypes);
    out->errors = calloc(n + 1, sizeof *out->errors);
    out->losses = calloc(n + 1, sizeof *out->losses);
    out->basis = calloc(n + 1, sizeof *out->basis);
    if (!out->dtypes || !out->errors || !out->losses || !out->basis)
        return gg_fail(err, GG_ENOMEM, "no memory for the types of tensors");
    return set_limit(job, out, err);
}

gg_status gg_size_choose(const gg_size_job *job, gg_size_plan *out, gg_error *err)
{
    chooser c = { .job = job };
    gg_status st = open_plan(job, out, err);
    if (st == GG_OK && job->o->sensitivity) st = gg_losses_read(job->o->sensitivity, &c.table, err);
    if (st == GG_OK) st = parse_types(&c, err);
    if (st == GG_OK) st = find_items(&c, err);
    if (st == GG_OK) st = gg_parallel(c.n, job->run->threads, try_item, &c, err);
    if (st == GG_OK) st = find_losses(&c, err);
    if (st == GG_OK) st = set_options(&c, err);
    if (st == GG_OK) st = search(&c, out, err);
    if (st == GG_OK) tell(&c, out);
    gg_losses_free(c.table);
    free(c.items);
    free(c.dtypes);
    free(c.errors);
    free(c.losses);
    free(c.search);
    free(c.options);
    return st;
}

void gg_size_plan_free(gg_size_plan *p)
{
    free(p->dtypes);
    free(p->errors);
    free(p->losses);
    free(p->basis);
    *p = (gg_size_plan){ 0 };
}

gg_status gg_size_rules(const gg_size_plan *p, const gg_plan *plan, const char *rest, char **out,
                        gg_error *err)
{
    gg_buf text = GG_BUF_INIT;
    gg_status st = GG_OK;
    for (size_t i = 0; i < p->n && st == GG_OK; i++)
        if (strcmp(p->basis[i], "-") != 0)
            st = gg_buf_printf(&text, err, "%s%s=%s", text.len ? "," : "", plan->tensors[i].t.name,
                               gg_dtype_get(p->dtypes[i])->name);
    if (st == GG_OK && rest) st = gg_buf_printf(&text, err, ",%s", rest);
    if (st == GG_OK) *out = gg_buf_take(&text, NULL);
    else gg_buf_free(&text);
    return st;
}
