/* size_loss.c - losses by role, and from a table. */
#include "size_loss.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/lines.h"
#include "base/names.h"
#include "organ/tensor_names.h"
#include "verbs/compute/compute.h"

#include <math.h>
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

static double guess(const gg_tensor *t, bool tied)
{
    gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
    double factor = OTHER_FACTOR;
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
        size_t n = strlen(factors[i].role);
        if (a.role_len < n || memcmp(t->name + a.role_at, factors[i].role, n) != 0) continue;
        factor = factors[i].factor;
        break;
    }
    if (tied && a.block < 0) factor += factors[0].factor;
    return a.block > 0 ? factor * LATER_BLOCKS : factor;
}

/* ---- the table ------------------------------------------------------------------------ */

typedef struct entry {
    const char *name;
    uint32_t dtype;
    double loss;
    size_t line;
} entry;

struct gg_losses {
    gg_names names;
    entry *list; /* sorted by name and dtype */
    size_t n, cap;
};

enum { TENSOR, TYPE, LOSS, COLUMNS };

static int by_name(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    return c ? c : x->dtype < y->dtype ? -1 : x->dtype > y->dtype;
}

/* Cuts a line at its tabs. Returns the number of fields, at most `most`. */
static size_t cut(char *line, char **fields, size_t most)
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

static gg_status read_header(char *line, size_t at[COLUMNS], gg_error *err)
{
    static const char *const names[] = { "tensor", "type", "loss" };
    char *fields[MOST_FIELDS];
    size_t n = cut(line, fields, MOST_FIELDS);
    for (size_t c = 0; c < COLUMNS; c++) {
        at[c] = 0;
        while (at[c] < n && strcmp(fields[at[c]], names[c]) != 0) at[c]++;
        if (at[c] == n)
            return gg_fail(err, GG_EUSAGE, "the first line has no column '%s'", names[c]);
    }
    return GG_OK;
}

static gg_status read_row(gg_losses *l, char *line, const size_t at[COLUMNS], gg_error *err)
{
    char *fields[MOST_FIELDS], shown[64];
    size_t n = cut(line, fields, MOST_FIELDS);
    for (size_t c = 0; c < COLUMNS; c++)
        if (at[c] >= n) return gg_fail(err, GG_EUSAGE, "it has too few columns");
    const gg_dtype_info *type = gg_dtype_by_name(fields[at[TYPE]]);
    gg_escape(fields[at[TYPE]], strlen(fields[at[TYPE]]), shown, sizeof shown);
    if (!type) return gg_fail(err, GG_EUSAGE, "'%s' is not a tensor type", shown);
    double loss;
    const char *text = fields[at[LOSS]];
    gg_escape(text, strlen(text), shown, sizeof shown);
    if (!gg_parse_decimal(text, strlen(text), &loss) || !isfinite(loss))
        return gg_fail(err, GG_EUSAGE, "'%s' is not a loss", shown);
    entry *grown = gg_grow(l->list, l->n, &l->cap, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    l->list = grown;
    entry e = { .dtype = type->id, .loss = loss > 0 ? loss : 0 };
    e.name = gg_names_add(&l->names, fields[at[TENSOR]], strlen(fields[at[TENSOR]]), err);
    if (!e.name) return GG_ENOMEM;
    l->list[l->n++] = e;
    return GG_OK;
}

typedef struct table {
    gg_losses *l;
    size_t at[COLUMNS]; /* the column of each value */
    bool has_header;
} table;

static gg_status read_losses(void *ctx, char *line, size_t number, gg_error *err)
{
    table *t = ctx;
    if (line[0] == '#' || line[strspn(line, " \t\r")] == '\0') return GG_OK;
    gg_status st = t->has_header ? read_row(t->l, line, t->at, err) : read_header(line, t->at, err);
    t->has_header = true;
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
    table t = { .l = l };
    gg_status st = gg_each_line(&from, read_losses, &t, err);
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

size_t gg_losses_types(const gg_losses *l, const char *name, uint32_t *dtypes, size_t most)
{
    size_t n;
    const entry *rows = rows_of(l, name, &n);
    if (n > most) n = most;
    for (size_t i = 0; i < n; i++) dtypes[i] = rows[i].dtype;
    return n;
}

size_t gg_losses_all_types(const gg_losses *l)
{
    bool seen[GG_DTYPE_COUNT] = { false };
    size_t types = 0;
    for (size_t i = 0; l && i < l->n; i++) {
        if (l->list[i].dtype >= GG_DTYPE_COUNT || seen[l->list[i].dtype]) continue;
        seen[l->list[i].dtype] = true;
        types++;
    }
    return types;
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

static bool stated(const entry *rows, size_t n, uint32_t dtype, double *loss)
{
    for (size_t i = 0; i < n; i++) {
        if (rows[i].dtype != dtype) continue;
        *loss = rows[i].loss;
        return true;
    }
    return false;
}

/* The losses of a tensor that is in the table. False: none of its rows is of a type asked for. */
static bool from_table(const gg_loss_query *q, const entry *rows, size_t n_rows, known *room)
{
    size_t n = 0;
    double loss;
    for (size_t k = 0; k < q->n; k++)
        if (stated(rows, n_rows, q->dtypes[k], &loss)) room[n++] = (known){ q->errors[k], loss };
    qsort(room, n, sizeof *room, by_error);
    for (size_t k = 0; k < q->n; k++)
        if (!stated(rows, n_rows, q->dtypes[k], &q->losses[k]))
            q->losses[k] = interpolate(room, n, q->errors[k]);
    return n > 0;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* The median of stated losses divided by their guesses; 1 if there are none. */
static double median_ratio(const gg_losses *l, const gg_loss_query *queries, size_t n,
                           double *ratios)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const gg_loss_query *q = &queries[i];
        size_t n_rows;
        const entry *rows = rows_of(l, q->t->name, &n_rows);
        double loss, factor = guess(q->t, q->tied);
        for (size_t k = 0; k < q->n && n_rows; k++)
            if (q->errors[k] > 0 && stated(rows, n_rows, q->dtypes[k], &loss))
                ratios[count++] = loss / (factor * q->errors[k]);
    }
    qsort(ratios, count, sizeof *ratios, by_value);
    return count && ratios[count / 2] > 0 ? ratios[count / 2] : 1;
}

gg_status gg_losses_of(const gg_losses *l, gg_loss_query *queries, size_t n, size_t *unused,
                       gg_error *err)
{
    size_t all = 0, used = 0;
    for (size_t i = 0; i < n; i++) all += queries[i].n;
    known *room = calloc(all + 1, sizeof *room);
    double *ratios = calloc(all + 1, sizeof *ratios);
    gg_status st = room && ratios ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for losses");
    double scale = st == GG_OK && l ? median_ratio(l, queries, n, ratios) : 1;
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        gg_loss_query *q = &queries[i];
        size_t n_rows;
        const entry *rows = rows_of(l, q->t->name, &n_rows);
        used += n_rows;
        q->basis = "table";
        if (n_rows && from_table(q, rows, n_rows, room)) continue;
        q->basis = l ? "scaled guess" : "guess";
        for (size_t k = 0; k < q->n; k++)
            q->losses[k] = scale * guess(q->t, q->tied) * q->errors[k];
    }
    *unused = l ? l->n - used : 0;
    free(room);
    free(ratios);
    return st;
}
