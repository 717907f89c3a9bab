/* probe_base.c - the distributions of a reference model, and the divergence from them.
 *
 * The file is a GGUF with general.architecture "distributions": the keys
 * distributions.vocabulary, .vocabulary_hash and .window, and the tensors text (tokens), ids, logs,
 * rest and nll, which are the members of probe_base. */
#include "probe.h"

#include "organ/gg_write.h"

#include "base/grow.h" /* lists that grow */

#include <math.h>
#include <stdlib.h>
#include <string.h>

static gg_status make_room(probe_base *b, gg_error *err)
{
    size_t wide = b->top + PROBE_TAIL;
    gg_room(&b->ids, b->n, NULL, wide * sizeof *b->ids, err);
    gg_room(&b->logs, b->n, NULL, wide * sizeof *b->logs, err);
    GG_ROOM(b->rest, b->n, NULL, err);
    GG_ROOM(b->nll, b->n, NULL, err);
    return err->status; /* of the first that failed */
}

/* Puts the ids of the `top` largest logits into ids, the largest first; of equal ones the first. */
static void find_largest(const float *logits, int32_t n, uint32_t top, int32_t *ids)
{
    uint32_t k = 0;
    for (int32_t i = 0; i < n; i++) {
        if (k == top && !(logits[i] > logits[ids[k - 1]])) continue;
        uint32_t at = k < top ? k++ : k - 1;
        for (; at > 0 && logits[i] > logits[ids[at - 1]]; at--) ids[at] = ids[at - 1];
        ids[at] = i;
    }
}

/* Draws PROBE_TAIL of the tokens below the top at equal steps of their summed probability. Returns
 * false without memory. */
static bool sample_tail(const float *logits, int32_t n, double log_sum, uint32_t top, size_t at,
                        int32_t *ids, float *rest)
{
    bool *taken = calloc((size_t)n, sizeof *taken);
    double sum = 0, passed = 0, start = fmod(0.5 + (double)at * 0.6180339887498949, 1);
    uint32_t k = 0;
    int32_t last = -1;
    if (!taken) return false;
    for (uint32_t i = 0; i < top; i++) taken[ids[i]] = true;
    for (int32_t i = 0; i < n; i++)
        if (!taken[i]) sum += exp((double)logits[i] - log_sum);
    for (int32_t i = 0; i < n && k < PROBE_TAIL; i++) {
        if (taken[i]) continue;
        passed += exp((double)logits[i] - log_sum);
        last = i;
        while (k < PROBE_TAIL && (k + start) / PROBE_TAIL * sum < passed) ids[top + k++] = i;
    }
    /* Rounding may leave the last step behind the sum. */
    while (k < PROBE_TAIL) ids[top + k++] = last < 0 ? ids[0] : last;
    *rest = last < 0 ? 0 : (float)sum;
    free(taken);
    return true;
}

gg_status probe_base_add(void *ctx, const float *logits, llama_token next, gg_error *err)
{
    probe_base *b = ctx;
    double log_sum = probe_log_sum(logits, (int32_t)b->n_vocab);
    if (!isfinite(log_sum))
        return gg_fail(err, GG_NO, "the reference gives probabilities that are not finite");
    if (err->status != GG_OK || make_room(b, err) != GG_OK) return err->status;
    size_t wide = b->top + PROBE_TAIL;
    int32_t *ids = b->ids + b->n * wide;
    find_largest(logits, (int32_t)b->n_vocab, b->top, ids);
    if (!sample_tail(logits, (int32_t)b->n_vocab, log_sum, b->top, b->n, ids, &b->rest[b->n]))
        return gg_fail(err, GG_ENOMEM, "no memory for the tokens below the top");
    for (size_t i = 0; i < wide; i++)
        b->logs[b->n * wide + i] = (float)((double)logits[ids[i]] - log_sum);
    b->nll[b->n++] = (float)(log_sum - (double)logits[next]);
    return GG_OK;
}

gg_status probe_base_add_text(probe_base *b, const probe_text *t, gg_error *err)
{
    int32_t *text = realloc(b->text, (b->tokens + t->n) * sizeof *text);
    if (!text) return gg_fail(err, GG_ENOMEM, "no memory for the tokens");
    b->text = text;
    memcpy(text + b->tokens, t->tokens, t->n * sizeof *text);
    b->tokens += t->n;
    return GG_OK;
}

/* The part of the tail is the sum of p (r - 1 - log r) with r = q / p, estimated from the samples,
 * of which q - p is taken away again: that is known exactly, so that chance has little effect.
 */
double probe_divergence(const probe_base *b, size_t at, const float *logits, double log_sum,
                        bool *same)
{
    size_t wide = b->top + PROBE_TAIL;
    const int32_t *ids = b->ids + at * wide;
    const float *logs = b->logs + at * wide;
    double sum = 0, tail = 0, gained = 0;
    int32_t top = 0;
    for (size_t i = 0; i < wide; i++) {
        double p = (double)logs[i], q = (double)(float)((double)logits[ids[i]] - log_sum);
        if (i < b->top) {
            sum += exp(p) * (p - q);
            gained += exp(p) - exp(q); /* by the tail */
        } else tail += expm1(q - p) - (q - p);
    }
    for (int32_t i = 1; i < (int32_t)b->n_vocab; i++)
        if (logits[i] > logits[top]) top = i;
    *same = top == ids[0];
    return b->rest[at] > 0 ? sum + (double)b->rest[at] * tail / PROBE_TAIL - gained : sum;
}

/* ---- files --------------------------------------------------------------------------------- */

void probe_set_number(gg_meta *m, const char *key, gg_type type, uint64_t value, gg_error *err)
{
    uint8_t le[8];
    for (unsigned i = 0; i < 8; i++) le[i] = (uint8_t)(value >> (8 * i));
    gg_kv kv = { key, strlen(key), type, 0, 1, le, type == GG_TYPE_U32 ? 4 : 8 };
    gg_meta_set(m, &kv, err);
}

gg_status probe_base_save(const probe_base *b, const char *path, const gg_run *run, gg_error *err)
{
    uint64_t wide = b->top + PROBE_TAIL;
    const gg_dtype_info *f32 = gg_dtype_get(GG_F32), *i32 = gg_dtype_get(GG_I32);
    gg_override list[] = {
        { .name = "text", .dtype = i32, .n_dims = 1, .dims = { b->tokens }, .bytes = b->text },
        { .name = "ids", .dtype = i32, .n_dims = 2, .dims = { wide, b->n }, .bytes = b->ids },
        { .name = "logs", .dtype = f32, .n_dims = 2, .dims = { wide, b->n }, .bytes = b->logs },
        { .name = "rest", .dtype = f32, .n_dims = 1, .dims = { b->n }, .bytes = b->rest },
        { .name = "nll", .dtype = f32, .n_dims = 1, .dims = { b->n }, .bytes = b->nll },
    };
    enum { N = sizeof list / sizeof list[0] };
    gg_meta meta = GG_META_INIT;
    for (size_t i = 0; i < N; i++) {
        list[i].add = true;
        list[i].size = 4 * list[i].dims[0] * (list[i].n_dims == 2 ? list[i].dims[1] : 1);
    }
    gg_meta_set_str(&meta, "general.architecture", "distributions", 13, err);
    probe_set_number(&meta, "distributions.vocabulary", GG_TYPE_U64, b->n_vocab, err);
    probe_set_number(&meta, "distributions.vocabulary_hash", GG_TYPE_U64, b->vocab_hash, err);
    probe_set_number(&meta, "distributions.window", GG_TYPE_U64, b->window, err);
    gg_write_options o = { list, N, &meta };
    gg_run quiet = *run; /* notes are about models that engines load */
    quiet.note = NULL;
    gg_status st = err->status;
    if (st == GG_OK) st = gg_write_model(NULL, &o, path, &quiet, NULL, err);
    gg_meta_free(&meta);
    return st;
}

gg_status probe_read_tensor(gg_source *s, size_t i, void **bytes, gg_error *err)
{
    size_t n = (size_t)gg_source_tensor(s, i)->bytes;
    gg_data d;
    *bytes = malloc(n + 1);
    if (!*bytes) return gg_fail(err, GG_ENOMEM, "no memory for a tensor of %zu bytes", n);
    gg_status st = gg_data_open(s, i, &d, err);
    if (st != GG_OK) return st;
    st = gg_data_read(&d, 0, *bytes, n, err);
    gg_data_close(&d);
    return st;
}

static gg_status load_tensor(gg_source *s, const char *name, uint32_t dtype, uint64_t n, void **to,
                             gg_error *err)
{
    size_t i = gg_source_find(s, name, strlen(name));
    const gg_tensor *t = i == SIZE_MAX ? NULL : gg_source_tensor(s, i);
    if (!t || t->dtype != dtype || t->elements != n)
        return gg_fail(err, GG_EFORMAT, "its tensor %s is missing or has another size", name);
    return probe_read_tensor(s, i, to, err);
}

static gg_status check_numbers(const probe_base *b, gg_error *err)
{
    size_t all = b->n * (b->top + PROBE_TAIL);
    bool good = b->n_vocab > 1 && b->top <= b->n_vocab && b->tokens > b->n;
    for (size_t i = 0; i < all && good; i++)
        good = b->ids[i] >= 0 && (uint32_t)b->ids[i] < b->n_vocab && isfinite(b->logs[i]);
    for (size_t i = 0; i < b->n && good; i++) good = isfinite(b->rest[i]) && isfinite(b->nll[i]);
    return good ? GG_OK : gg_fail(err, GG_EFORMAT, "it has values that are out of range");
}

static gg_status load_members(probe_base *b, gg_source *s, gg_error *err)
{
    const gg_meta *m = gg_source_meta(s);
    uint64_t n_vocab = 0, window = 0;
    size_t ids = gg_source_find(s, "ids", 3), text = gg_source_find(s, "text", 4);
    if (!m || ids == SIZE_MAX || text == SIZE_MAX ||
        !gg_kv_u64(gg_meta_find(m, "distributions.vocabulary"), &n_vocab) ||
        !gg_kv_u64(gg_meta_find(m, "distributions.window"), &window) ||
        !gg_kv_u64(gg_meta_find(m, "distributions.vocabulary_hash"), &b->vocab_hash) ||
        n_vocab > INT32_MAX || gg_source_tensor(s, ids)->dims[0] <= PROBE_TAIL)
        return gg_fail(err, GG_EFORMAT, "it has no distributions of a reference");
    b->n_vocab = (uint32_t)n_vocab;
    b->window = (uint32_t)window;
    b->top = (uint32_t)gg_source_tensor(s, ids)->dims[0] - PROBE_TAIL;
    b->n = (size_t)gg_source_tensor(s, ids)->dims[1];
    b->tokens = (size_t)gg_source_tensor(s, text)->elements;
    uint64_t all = (uint64_t)b->n * (b->top + PROBE_TAIL);
    gg_status st = load_tensor(s, "ids", GG_I32, all, (void **)&b->ids, err);
    if (st == GG_OK) st = load_tensor(s, "logs", GG_F32, all, (void **)&b->logs, err);
    if (st == GG_OK) st = load_tensor(s, "rest", GG_F32, b->n, (void **)&b->rest, err);
    if (st == GG_OK) st = load_tensor(s, "nll", GG_F32, b->n, (void **)&b->nll, err);
    if (st == GG_OK) st = load_tensor(s, "text", GG_I32, b->tokens, (void **)&b->text, err);
    return st == GG_OK ? check_numbers(b, err) : st;
}

gg_status probe_base_load(probe_base *b, const char *path, gg_error *err)
{
    gg_source *s = NULL;
    gg_status st = gg_source_open(path, &s, err);
    if (st == GG_OK) st = load_members(b, s, err);
    gg_source_close(s);
    return st == GG_OK ? GG_OK : gg_at_file(err, path);
}

void probe_base_free(probe_base *b)
{
    free(b->ids);
    free(b->logs);
    free(b->rest);
    free(b->nll);
    free(b->text);
    *b = (probe_base){ 0 };
}
