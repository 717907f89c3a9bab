/* vocab_edit.c - writes a model with another vocabulary: rows of its matrices are copied as bytes,
 * or made of other rows. */
#include "vocab.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/text.h"
#include "compute/compute.h"
#include "gguf/gguf.h"
#include "numeric/numeric.h"
#include "organ/gg_quant.h"
#include "quant/quant.h"
#include "write/keys.h"
#include "write/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP ((size_t)4 << 20) /* bytes of rows that are written at once */

void vocab_edit_free(vocab_edit *e)
{
    for (size_t i = 0; i < e->n; i++) {
        free(e->rows[i].ids);
        free(e->rows[i].weights);
        free(e->rows[i].other_ids);
        free(e->rows[i].other_weights);
    }
    free(e->rows);
    gg_meta_free(&e->meta);
    *e = (vocab_edit){ 0 };
}

/* ---- the matrices ------------------------------------------------------------------------------
 */

/* Whether a tensor has a row, or a value, per token. */
static bool is_by_token(const gg_tensor *t)
{
    static const char *const names[] = { "token_embd.weight", "output.weight", "output.bias",
                                         "per_layer_token_embd.weight" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(t->name, names[i]) == 0) return true;
    return gg_text_ends(t->name, t->name_len, ".nextn.embed_tokens.weight") ||
           gg_text_ends(t->name, t->name_len, ".nextn.shared_head_head.weight");
}

static bool is_output(const gg_tensor *t)
{
    return strncmp(t->name, "output.", 7) == 0 || strstr(t->name, "shared_head_head") != NULL;
}

static uint32_t last_axis(const gg_tensor *t)
{
    uint32_t last = t->n_dims ? t->n_dims - 1 : 0;
    while (last > 1 && t->dims[last] == 1) last--;
    return last;
}

/* ---- rows --------------------------------------------------------------------------------------
 */

/* One matrix while it is written. */
typedef struct matrix {
    vocab_edit *e;
    size_t index;   /* in the base */
    uint64_t width; /* values per row */
} matrix;

/* What the rows of one matrix are made with. */
typedef struct maker {
    const matrix *m;
    gg_data data;
    uint32_t dtype;
    size_t row_bytes;
    uint8_t *raw;  /* one row */
    float *values; /* one row */
    double *sum;   /* one row */
    float *mean;   /* of all rows; NULL until it is needed */
    double spread; /* standard deviation of all values */
} maker;

static gg_status read_row(maker *k, uint64_t row, gg_error *err)
{
    gg_status st = gg_data_read(&k->data, row * k->row_bytes, k->raw, k->row_bytes, err);
    return st == GG_OK ? gg_decode(k->dtype, k->raw, k->values, (size_t)k->m->width, err) : st;
}

/* Computes the mean of all rows, and the spread. */
static gg_status find_mean(maker *k, gg_error *err)
{
    size_t width = (size_t)k->m->width, rows = k->m->e->before;
    double squares = 0, total = 0;
    if (k->mean) return GG_OK;
    double *sum = calloc(width, sizeof *sum);
    if (!sum || !(k->mean = calloc(width, sizeof *k->mean)))
        return free(sum), gg_fail(err, GG_ENOMEM, "no memory for a row");
    for (size_t r = 0; r < rows && err->status == GG_OK; r++) {
        if (read_row(k, r, err) != GG_OK) break;
        for (size_t i = 0; i < width; i++) {
            double x = k->values[i];
            sum[i] += x, total += x, squares += x * x;
        }
    }
    double n = (double)rows * (double)width, mean = total / n;
    for (size_t i = 0; i < width; i++) k->mean[i] = (float)(sum[i] / (double)rows);
    k->spread = sqrt(squares / n - mean * mean > 0 ? squares / n - mean * mean : 0);
    free(sum);
    return err->status;
}

static gg_status make_row(maker *k, size_t row, uint8_t *out, gg_error *err)
{
    const vocab_row *r = &k->m->e->rows[row];
    size_t width = (size_t)k->m->width;
    bool output = is_output(gg_source_tensor(k->m->e->base, k->m->index));
    const uint32_t *ids = output && r->other_ids ? r->other_ids : r->ids;
    const float *weights = output && r->other_ids ? r->other_weights : r->weights;
    uint32_t n = output && r->other_ids ? r->other_n : r->n;
    if ((n == 0 || r->random) && find_mean(k, err) != GG_OK) return err->status;
    if (r->random) {
        gg_gauss_fill(k->values, width, row);
        for (size_t i = 0; i < width; i++) k->values[i] *= (float)k->spread;
    } else if (n == 0) {
        memcpy(k->values, k->mean, width * sizeof *k->values);
    } else {
        memset(k->sum, 0, width * sizeof *k->sum);
        for (uint32_t j = 0; j < n; j++) {
            double w = weights ? weights[j] : 1.0 / n;
            if (read_row(k, ids[j], err) != GG_OK) return err->status;
            for (size_t i = 0; i < width; i++) k->sum[i] += w * k->values[i];
        }
        for (size_t i = 0; i < width; i++) k->values[i] = (float)k->sum[i];
    }
    if (gg_encode(k->dtype, k->values, out, width, width, NULL, err) != GG_OK)
        return gg_fix(err, "first write the embeddings in another type, such as q8_0");
    return GG_OK;
}

static gg_status write_rows(maker *k, const gg_target *to, gg_error *err)
{
    const vocab_edit *e = k->m->e;
    size_t most = STEP / k->row_bytes ? STEP / k->row_bytes : 1;
    uint8_t *room = malloc(most * k->row_bytes);
    uint64_t at = to->at;
    if (!room) return gg_fail(err, GG_ENOMEM, "no memory for rows");
    for (size_t first = 0, n; first < e->n && err->status == GG_OK; first += n) {
        n = e->n - first < most ? e->n - first : most;
        for (size_t i = 0, run; i < n && err->status == GG_OK; i += run) {
            uint32_t from = e->rows[first + i].from;
            for (run = 1; from != ROW_MADE && i + run < n; run++)
                if (e->rows[first + i + run].from != from + run) break;
            uint8_t *out = room + i * k->row_bytes;
            if (from == ROW_MADE) make_row(k, first + i, out, err);
            else
                gg_data_read(&k->data, from * (uint64_t)k->row_bytes, out, run * k->row_bytes, err);
        }
        size_t bytes = n * k->row_bytes;
        if (err->status == GG_OK && gg_cancelled(err) == GG_OK)
            gg_put_all(to->fd, room, bytes, at, err);
        if (to->hash && err->status == GG_OK) gg_sha256_update(to->hash, room, bytes);
        at = gg_offset_after(at, bytes);
    }
    free(room);
    return err->status;
}

static gg_status make_matrix(void *ctx, const gg_target *to, gg_error *err)
{
    const matrix *m = ctx;
    const gg_tensor *t = gg_source_tensor(m->e->base, m->index);
    size_t width = (size_t)m->width;
    maker k = { .m = m, .dtype = t->dtype };
    k.row_bytes = (size_t)gg_encoded_bytes(t->dtype, width);
    if (gg_data_open(m->e->base, m->index, &k.data, err) != GG_OK) return err->status;
    k.raw = malloc(k.row_bytes);
    k.values = malloc(width * sizeof *k.values);
    k.sum = malloc(width * sizeof *k.sum);
    if (k.raw && k.values && k.sum) write_rows(&k, to, err);
    else gg_fail(err, GG_ENOMEM, "no memory for a row");
    gg_data_close(&k.data);
    free(k.raw);
    free(k.values);
    free(k.sum);
    free(k.mean);
    return gg_at_tensor(err, t->name, t->name_len);
}

/* ---- the model ---------------------------------------------------------------------------------
 */

static gg_status plan_matrix(gg_plan *p, vocab_edit *e, size_t i, matrix *m, gg_error *err)
{
    gg_tensor t = *gg_source_tensor(e->base, i);
    uint32_t last = last_axis(&t);
    if (t.dims[last] != e->before) {
        gg_fail(err, GG_EFORMAT, "it has %llu rows, but the vocabulary has %zu tokens",
                (unsigned long long)t.dims[last], e->before);
        return gg_at_tensor(err, t.name, t.name_len);
    }
    *m = (matrix){ e, i, last == 0 ? 1 : t.elements / t.dims[last] };
    t.dims[last] = e->n;
    if (gg_tensor_extent(t.dtype, t.n_dims, t.dims, &t.elements, &t.bytes, err) != GG_OK)
        return gg_at_tensor(err, t.name, t.name_len);
    return gg_plan_add_made(p, &t, make_matrix, m, err);
}

static gg_status plan_tensors(gg_plan *p, vocab_edit *e, matrix *list, const gg_run *run,
                              vocab_written *out, gg_error *err)
{
    for (size_t i = 0; i < gg_source_count(e->base) && err->status == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(e->base, i);
        if (is_by_token(t)) {
            plan_matrix(p, e, i, &list[out->tensors++], err);
            continue;
        }
        if (strcmp(t->name, "d2t") == 0 || strcmp(t->name, "t2d") == 0) {
            gg_fail(err, GG_EUNSUPPORTED,
                    "it names tokens of another model's vocabulary, and would no longer fit it");
            return gg_at_tensor(err, t->name, t->name_len);
        }
        if (t->n_dims > 1 && t->dims[last_axis(t)] == e->before && e->before != t->dims[0])
            gg_note(run, "%s has as many rows as the vocabulary has tokens, and is not changed",
                    t->name);
        gg_plan_add_copy(p, e->base, i, err);
    }
    if (err->status == GG_OK && out->tensors == 0)
        gg_fail(err, GG_NO, "it has a vocabulary, but no embeddings (token_embd.weight)");
    return err->status;
}

gg_status vocab_write(vocab_edit *e, const char *output, const gg_run *run, vocab_written *out,
                      gg_error *err)
{
    gg_plan p = { .base = e->base };
    matrix *list = calloc(gg_source_count(e->base) + 1, sizeof *list);
    *out = (vocab_written){ 0 };
    if (!list) return gg_fail(err, GG_ENOMEM, "no memory for a plan");
    plan_tensors(&p, e, list, run, out, err);
    if (err->status == GG_OK)
        gg_plan_changed_file(&p, output, gg_plan_version(e->base), &e->meta, e->base, err);
    if (err->status == GG_OK) gg_plan_write(&p, run, &out->bytes, err);
    gg_plan_free(&p);
    free(list);
    return err->status;
}

/* ---- keys --------------------------------------------------------------------------------------
 */

gg_status vocab_set_tokens(gg_meta *meta, const vocab_token *tokens, size_t n, bool scores,
                           gg_error *err)
{
    gg_buf texts = GG_BUF_INIT, types = GG_BUF_INIT, floats = GG_BUF_INIT;
    for (size_t i = 0; i < n && err->status == GG_OK; i++) {
        uint8_t bytes[4];
        uint32_t bits;
        gg_array_add_str(&texts, tokens[i].text, tokens[i].len, err);
        gg_put_le32(bytes, (uint32_t)tokens[i].type);
        gg_buf_append(&types, bytes, 4, err);
        memcpy(&bits, &tokens[i].score, 4);
        gg_put_le32(bytes, bits);
        if (scores) gg_buf_append(&floats, bytes, 4, err);
    }
    if (err->status == GG_OK)
        gg_meta_set_array(meta, "tokenizer.ggml.tokens", GG_TYPE_STR, n, &texts, err);
    if (err->status == GG_OK)
        gg_meta_set_array(meta, "tokenizer.ggml.token_type", GG_TYPE_I32, n, &types, err);
    if (err->status == GG_OK && scores)
        gg_meta_set_array(meta, "tokenizer.ggml.scores", GG_TYPE_F32, n, &floats, err);
    gg_buf_free(&texts);
    gg_buf_free(&types);
    gg_buf_free(&floats);
    return err->status;
}

gg_status vocab_set_merges(gg_meta *meta, const vocab *v, const uint32_t *to, gg_error *err)
{
    static const char key[] = "tokenizer.ggml.merges";
    const gg_kv *kv = gg_meta_find(v->meta, key);
    gg_buf b = GG_BUF_INIT;
    uint64_t at = 0, n = 0;
    const char *s;
    size_t len;
    for (size_t i = 0; i < v->n_merges && gg_kv_next_str(kv, &at, &s, &len); i++) {
        const vocab_merge *m = &v->merges[i];
        if (m->left == UINT32_MAX || m->right == UINT32_MAX || m->made == UINT32_MAX) continue;
        if (to[m->left] == UINT32_MAX || to[m->right] == UINT32_MAX || to[m->made] == UINT32_MAX)
            continue;
        if (gg_array_add_str(&b, s, len, err) != GG_OK) break;
        n++;
    }
    if (err->status == GG_OK && kv) gg_meta_set_array(meta, key, GG_TYPE_STR, n, &b, err);
    gg_buf_free(&b);
    return err->status;
}

typedef struct renumbering {
    gg_meta *meta;
    const uint32_t *to;
    size_t n;
} renumbering;

/* An id that is not below n stays as it is. */
static gg_status renumber_key(void *ctx, const gg_kv *kv, gg_error *err)
{
    const renumbering *r = ctx;
    uint32_t type = kv->type == GG_TYPE_ARR ? kv->elem_type : kv->type;
    size_t size = gg_type_size(type);
    gg_buf b = GG_BUF_INIT;
    uint64_t kept = 0, id;
    char key[256];
    for (uint64_t i = 0; i < kv->count && gg_kv_u64_at(kv, i, &id) && err->status == GG_OK; i++) {
        uint8_t bytes[8];
        if (id < r->n && r->to[id] == UINT32_MAX) continue;
        gg_put_le64(bytes, id < r->n ? r->to[id] : id);
        gg_buf_append(&b, bytes, size, err);
        kept++;
    }
    gg_kv set = *kv;
    set.data = (const uint8_t *)b.data;
    set.size = b.len;
    set.count = kept;
    if (kv->key_len < sizeof key) memcpy(key, kv->key, kv->key_len);
    key[kv->key_len < sizeof key ? kv->key_len : 0] = '\0';
    if (err->status == GG_OK && (kept || kv->type == GG_TYPE_ARR)) gg_meta_set(r->meta, &set, err);
    else if (err->status == GG_OK) gg_meta_delete(r->meta, key);
    gg_buf_free(&b);
    return err->status;
}

gg_status vocab_renumber(gg_meta *meta, const gg_meta *from, const uint32_t *to, size_t n,
                         gg_error *err)
{
    renumbering r = { meta, to, n };
    return vocab_each_id(from, renumber_key, &r, err);
}

gg_status vocab_set_size(gg_meta *meta, size_t n, gg_error *err)
{
    char key[128];
    if (!gg_arch_key(meta, "vocab_size", key, sizeof key) || !gg_meta_find(meta, key)) return GG_OK;
    return gg_meta_set_u32(meta, key, (uint32_t)n, err);
}
