/* probe_watch.c - what the engine computes inside a model: the residual stream from block to block,
 * and the inputs of matrices. Both are callbacks that the engine calls for each tensor that it
 * computes, first to ask whether its values are wanted. */
#include "probe.h"

#include "organ/gg_write.h"

#include "base/grow.h" /* lists that grow */
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of a tensor, wherever the engine keeps them. NULL without memory. */
static const void *fetch(const struct ggml_tensor *t, gg_buf *room)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf_clear(room);
    if (gg_buf_reserve(room, ggml_nbytes(t), &err) != GG_OK) return NULL;
    room->len = ggml_nbytes(t);
    ggml_backend_tensor_get(t, room->data, 0, room->len);
    return room->data;
}

/* ---- the residual stream -------------------------------------------------------------------- */

typedef enum stage { STAGE_NONE, STAGE_START, STAGE_MIDDLE, STAGE_END } stage;

/* The engine names the residual stream at the start, after attention and after the FFN. */
static stage stage_of(const char *name, int *block)
{
    *block = -1;
    static const char *const starts[] = { "embd", "inp_embd", "inp_scaled" };
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (strcmp(name, starts[i]) == 0) return STAGE_START;
    if (sscanf(name, "ffn_inp-%d", block) == 1) return STAGE_MIDDLE;
    if (sscanf(name, "l_out-%d", block) == 1) return STAGE_END;
    return STAGE_NONE;
}

static bool keep_values(gg_buf *to, const float *from, size_t n)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf_clear(to);
    return gg_buf_append(to, from, n * sizeof *from, &err) == GG_OK;
}

static const float *floats(const gg_buf *b)
{
    return (const float *)(const void *)b->data;
}

static double distance(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - (b ? (double)b[i] : 0);
        sum += d * d;
    }
    return sqrt(sum);
}

/* Adds one token: x before the block, m between attention and FFN (or NULL), y after the block. */
static void add_token(probe_block *b, const float *x, const float *m, const float *y, size_t n)
{
    double dot = 0, mean = 0, m2 = 0, m4 = 0, in = distance(x, NULL, n), out = distance(y, NULL, n);
    for (size_t i = 0; i < n; i++) {
        dot += (double)x[i] * (double)y[i];
        mean += (double)y[i] / (double)n;
        if (fabs((double)y[i]) > b->largest) b->largest = fabs((double)y[i]);
    }
    for (size_t i = 0; i < n; i++) {
        double d = ((double)y[i] - mean) * ((double)y[i] - mean);
        m2 += d / (double)n;
        m4 += d * d / (double)n;
    }
    b->tokens++;
    b->in += in;
    b->out += out;
    b->cosine += in > 0 && out > 0 ? dot / (in * out) : 0;
    b->kurtosis += m2 > 0 ? m4 / (m2 * m2) - 3 : 0;
    if (!m) return;
    b->with_parts++;
    b->attention += distance(m, x, n);
    b->ffn += distance(y, m, n);
}

static void end_block(probe_trace *t, int block, const float *y, size_t width, size_t n)
{
    gg_error err = GG_ERROR_INIT;
    while ((size_t)block >= t->n) {
        if (GG_ROOM(t->blocks, t->n, &t->cap, &err) != GG_OK) {
            t->status = err.status; /* no later success takes it back */
            return;
        }
        t->blocks[t->n++] = (probe_block){ 0 };
    }
    bool parts = t->of_middle == block + 1 && t->middle.len == n * sizeof *y;
    const float *in = floats(&t->in), *middle = parts ? floats(&t->middle) : NULL;
    for (size_t at = 0; at < n && t->in.len == n * sizeof *y; at += width)
        add_token(&t->blocks[block], in + at, middle ? middle + at : NULL, y + at, width);
}

bool probe_watch_blocks(struct ggml_tensor *t, bool ask, void *trace)
{
    probe_trace *to = trace;
    int block;
    stage s = stage_of(t->name, &block);
    bool wanted = s != STAGE_NONE && t->type == GGML_TYPE_F32 && ggml_is_contiguous(t) &&
                  block < 100000 && (block >= 0 || s == STAGE_START);
    if (ask || !wanted) return wanted;
    size_t n = (size_t)ggml_nelements(t);
    const float *values = fetch(t, &to->room);
    bool kept = values != NULL;
    if (kept && s == STAGE_MIDDLE) {
        kept = keep_values(&to->middle, values, n);
        to->of_middle = block + 1;
    }
    if (kept && s == STAGE_END) end_block(to, block, values, (size_t)t->ne[0], n);
    if (kept && s != STAGE_MIDDLE) kept = keep_values(&to->in, values, n);
    if (!kept) to->status = GG_ENOMEM;
    return true;
}

void probe_trace_free(probe_trace *t)
{
    free(t->blocks);
    gg_buf_free(&t->in);
    gg_buf_free(&t->middle);
    gg_buf_free(&t->room);
}

/* ---- inputs of matrices ---------------------------------------------------------------------- */

typedef struct matrix_input {
    char name[112]; /* of the matrix */
    size_t columns, matrices, rows;
    float *sums;      /* columns x matrices */
    float *counts;    /* matrices */
    uint16_t *sample; /* columns x rows x matrices, F16 */
    uint64_t *dice;   /* matrices */
    float *norms;     /* matrices; of down projections of experts, else NULL */
} matrix_input;

struct probe_inputs {
    size_t most;
    uint64_t seed;
    matrix_input *list;
    size_t n, cap;
    gg_buf room, id_room;
    const struct ggml_tensor *ids_of; /* the product whose experts are in id_room, */
    size_t slots;                     /* so many per token, */
    size_t down;                      /* and the input that it belongs to */
    bool no_memory;
};

probe_inputs *probe_inputs_new(size_t rows, uint64_t seed)
{
    probe_inputs *in = calloc(1, sizeof *in);
    if (!in) return NULL;
    in->most = rows;
    in->seed = seed;
    return in;
}

static void free_input(matrix_input *m)
{
    free(m->sums);
    free(m->counts);
    free(m->sample);
    free(m->dice);
    free(m->norms);
}

void probe_inputs_free(probe_inputs *in)
{
    if (!in) return;
    for (size_t i = 0; i < in->n; i++) free_input(&in->list[i]);
    free(in->list);
    gg_buf_free(&in->room);
    gg_buf_free(&in->id_room);
    free(in);
}

/* A stack of experts gets about twice the rows per expert that an even choice would fill. */
static size_t rows_of(const probe_inputs *in, size_t matrices, size_t used)
{
    size_t share = 2 * in->most * used / matrices;
    if (matrices == 1) return in->most;
    if (share < 64) share = 64;
    return share < in->most ? share : in->most;
}

static matrix_input *input_of(probe_inputs *in, const struct ggml_tensor *w, const char *name,
                              size_t used)
{
    gg_error err = GG_ERROR_INIT;
    for (size_t i = in->n; i-- > 0;)
        if (strcmp(in->list[i].name, name) == 0) return &in->list[i];
    if (GG_ROOM(in->list, in->n, &in->cap, &err) != GG_OK) return NULL;
    matrix_input *m = &in->list[in->n];
    *m = (matrix_input){ .columns = (size_t)w->ne[0], .matrices = (size_t)(w->ne[2] * w->ne[3]) };
    snprintf(m->name, sizeof m->name, "%s", name);
    m->rows = rows_of(in, m->matrices, used);
    m->sums = calloc(m->columns * m->matrices, sizeof *m->sums);
    m->counts = calloc(m->matrices, sizeof *m->counts);
    m->sample = calloc(m->columns * m->matrices * m->rows + 1, sizeof *m->sample);
    m->dice = calloc(m->matrices, sizeof *m->dice);
    if (!m->sums || !m->counts || !m->sample || !m->dice) {
        free_input(m);
        return NULL;
    }
    uint64_t seed = gg_hash(in->seed ^ 1469598103934665603u, name, strlen(name));
    for (size_t i = 0; i < m->matrices; i++) m->dice[i] = seed + i;
    in->n++;
    return m;
}

static void add_input(matrix_input *m, size_t matrix, const float *x)
{
    float *sums = m->sums + matrix * m->columns;
    for (size_t i = 0; i < m->columns; i++) sums[i] += x[i] * x[i];
    size_t seen = (size_t)m->counts[matrix], slot = seen;
    m->counts[matrix]++;
    if (seen >= m->rows) {
        m->dice[matrix] = m->dice[matrix] * 6364136223846793005u + 1442695040888963407u;
        slot = (size_t)((m->dice[matrix] >> 33) % (seen + 1));
    }
    if (slot >= m->rows) return;
    uint16_t *row = m->sample + (matrix * m->rows + slot) * m->columns;
    for (size_t i = 0; i < m->columns; i++) {
        float v = x[i] > 65504 ? 65504 : x[i] < -65504 ? -65504 : x[i];
        row[i] = ggml_fp32_to_fp16(v);
    }
}

/* The name of a weight, which some backends decorate as BACKEND#NAME#N; NULL for other tensors. */
static const char *weight_name(const struct ggml_tensor *t, char *name, size_t size)
{
    const struct ggml_tensor *w = t->src[0];
    if ((t->op != GGML_OP_MUL_MAT && t->op != GGML_OP_MUL_MAT_ID) || !w || w->op != GGML_OP_NONE ||
        !t->src[1] || t->src[1]->type != GGML_TYPE_F32)
        return NULL;
    const char *from = strchr(w->name, '#');
    snprintf(name, size, "%s", from ? from + 1 : w->name);
    if (from) name[strcspn(name, "#")] = 0;
    size_t n = strlen(name);
    return n > 7 && strcmp(name + n - 7, ".weight") == 0 ? name : NULL;
}

static const float *row_at(const uint8_t *x, const struct ggml_tensor *t, size_t i1, size_t i2)
{
    return (const float *)(const void *)(x + i1 * t->nb[1] + i2 * t->nb[2]);
}

static void add_product(matrix_input *m, const struct ggml_tensor *x, const uint8_t *values)
{
    for (size_t k = 0; k < (size_t)x->ne[2]; k++)
        for (size_t i = 0; i < (size_t)x->ne[1]; i++)
            add_input(m, k % m->matrices, row_at(values, x, i, k));
}

static void add_expert_product(probe_inputs *in, matrix_input *m, const struct ggml_tensor *t,
                               const uint8_t *values)
{
    const struct ggml_tensor *x = t->src[1], *ids = t->src[2];
    const char *chosen = fetch(ids, &in->id_room);
    in->no_memory = in->no_memory || !chosen;
    for (size_t k = 0; chosen && k < (size_t)ids->ne[1]; k++)
        for (size_t i = 0; i < (size_t)ids->ne[0]; i++) {
            int32_t expert;
            memcpy(&expert, chosen + k * ids->nb[1] + i * ids->nb[0], sizeof expert);
            if (expert < 0 || (size_t)expert >= m->matrices) continue;
            add_input(m, (size_t)expert, row_at(values, x, i % (size_t)x->ne[1], k));
            /* Kept without gaps for the weighted outputs. */
            memmove(in->id_room.data + (k * (size_t)ids->ne[0] + i) * sizeof expert, &expert,
                    sizeof expert);
        }
    in->ids_of = strstr(m->name, "ffn_down_exps") ? t : NULL;
    in->slots = (size_t)ids->ne[0];
    in->down = (size_t)(m - in->list);
}

/* The product of experts whose outputs, perhaps with their biases, t multiplies by the weights of
 * the router; NULL if t is anything else. */
static const struct ggml_tensor *weighted_product(const struct ggml_tensor *t)
{
    const struct ggml_tensor *of = t->op == GGML_OP_MUL ? t->src[0] : NULL;
    while (of && (of->op == GGML_OP_ADD_ID || of->op == GGML_OP_RESHAPE)) of = of->src[0];
    return of && of->op == GGML_OP_MUL_MAT_ID && t->type == GGML_TYPE_F32 ? of : NULL;
}

static void add_weighted_output(probe_inputs *in, const struct ggml_tensor *t)
{
    matrix_input *m = &in->list[in->down];
    const uint8_t *values = fetch(t, &in->room);
    if (!m->norms) m->norms = calloc(m->matrices, sizeof *m->norms);
    in->no_memory = in->no_memory || !values || !m->norms;
    for (size_t k = 0; values && m->norms && k < (size_t)t->ne[2]; k++)
        for (size_t i = 0; i < in->slots && i < (size_t)t->ne[1]; i++) {
            int32_t expert;
            memcpy(&expert, in->id_room.data + (k * in->slots + i) * sizeof expert, sizeof expert);
            if (expert >= 0 && (size_t)expert < m->matrices)
                m->norms[expert] += (float)distance(row_at(values, t, i, k), NULL,
                                                    (size_t)t->ne[0]);
        }
    in->ids_of = NULL;
}

bool probe_watch_inputs(struct ggml_tensor *t, bool ask, void *inputs)
{
    probe_inputs *in = inputs;
    char name[112];
    /* The question for the product of weights comes before its experts are known. */
    const struct ggml_tensor *product = weighted_product(t);
    if (product && !ask && product == in->ids_of) add_weighted_output(in, t);
    if (product) return true;
    const char *weight = weight_name(t, name, sizeof name);
    if (ask || !weight) return weight != NULL;
    size_t used = t->op == GGML_OP_MUL_MAT_ID ? (size_t)t->src[2]->ne[0] : 1;
    matrix_input *m = input_of(in, t->src[0], weight, used);
    const uint8_t *values = fetch(t->src[1], &in->room);
    if (!m || !values) in->no_memory = true;
    else if (t->op == GGML_OP_MUL_MAT) add_product(m, t->src[1], values);
    else add_expert_product(in, m, t, values);
    return true;
}

/* Moves the samples together, where fewer came than there is room for. Returns the rows per matrix.
 */
static size_t pack_sample(matrix_input *m)
{
    size_t rows = 0;
    for (size_t i = 0; i < m->matrices; i++) {
        size_t seen = (size_t)m->counts[i] < m->rows ? (size_t)m->counts[i] : m->rows;
        if (seen > rows) rows = seen;
    }
    for (size_t i = 1; i < m->matrices; i++)
        memmove(m->sample + i * rows * m->columns, m->sample + i * m->rows * m->columns,
                rows * m->columns * sizeof *m->sample);
    return m->rows = rows;
}

static gg_override *add_tensor(gg_override *to, char (*name)[128], const matrix_input *m,
                               const char *suffix, const void *bytes, size_t columns, size_t rows)
{
    snprintf(*name, sizeof *name, "%s%s", m->name, suffix);
    bool sample = strcmp(suffix, ".sample") == 0;
    *to = (gg_override){ .name = *name,
                         .add = true,
                         .dtype = gg_dtype_get(sample ? GG_F16 : GG_F32),
                         .n_dims = sample ? 3 : 2,
                         .dims = { columns, rows, sample ? m->matrices : 1 },
                         .bytes = bytes };
    to->size = (sample ? 2 * m->matrices : 4) * columns * rows;
    return to + 1;
}

gg_status probe_inputs_save(const probe_inputs *in, gg_meta *meta, const char *path,
                            const gg_run *run, gg_error *err)
{
    gg_override *list = calloc(4 * in->n + 1, sizeof *list), *end = list;
    char(*names)[128] = calloc(4 * in->n + 1, sizeof *names), (*name)[128] = names;
    gg_status st = in->no_memory || !list || !names
                       ? gg_fail(err, GG_ENOMEM, "no memory for the samples; use fewer rows")
                       : GG_OK;
    for (size_t i = 0; i < in->n && st == GG_OK; i++) {
        matrix_input *m = &in->list[i];
        size_t rows = pack_sample(m);
        end = add_tensor(end, name++, m, ".in_sum2", m->sums, m->columns, m->matrices);
        end = add_tensor(end, name++, m, ".counts", m->counts, 1, m->matrices);
        if (rows) end = add_tensor(end, name++, m, ".sample", m->sample, m->columns, rows);
        if (m->norms) end = add_tensor(end, name++, m, ".weighted_norm", m->norms, 1, m->matrices);
    }
    gg_write_options o = { list, (size_t)(end - list), meta };
    if (st == GG_OK && in->n == 0) st = gg_fail(err, GG_EUNSUPPORTED, "no matrix was used");
    if (st == GG_OK) st = gg_write_model(NULL, &o, path, run, NULL, err);
    free(list);
    free(names);
    return st;
}
