/* probe_engine.c - loads a model in llama.cpp, reads texts and evaluates them in windows. */
#define _GNU_SOURCE /* dladdr */
#include "base/text.h"
#include "common/cli.h"
#include "probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char engine_message[200]; /* the first error that the engine logged */

static void keep_error(enum ggml_log_level level, const char *text, void *data)
{
    (void)data;
    if (level != GGML_LOG_LEVEL_ERROR || engine_message[0]) return;
    snprintf(engine_message, sizeof engine_message, "%s", text);
    engine_message[strcspn(engine_message, "\n")] = 0;
}

/* Engines that choose a processor's library at run time look for it beside themselves here. */
static void load_backends(void)
{
    Dl_info info;
    if (ggml_backend_dev_count() == 0) ggml_backend_load_all();
    if (ggml_backend_dev_count() == 0 && dladdr((void *)(uintptr_t)&llama_model_free, &info)) {
        char folder[4096];
        snprintf(folder, sizeof folder, "%s", info.dli_fname);
        char *slash = strrchr(folder, '/');
        if (slash) *slash = 0;
        ggml_backend_load_all_from_path(slash ? folder : ".");
    }
    llama_backend_init();
}

static gg_status refuse_model(const probe_engine *e, gg_error *err)
{
    if (!e->model)
        gg_fail(err, GG_EFORMAT, "the engine does not load it: %s",
                engine_message[0] ? engine_message : "it gave no reason");
    else if (e->n_vocab < 2 || !llama_model_has_decoder(e->model) ||
             llama_model_has_encoder(e->model))
        gg_fail(err, GG_EUNSUPPORTED, "it is not a model that predicts the next token");
    else
        gg_fail(err, GG_EFORMAT, "the engine does not start it: %s",
                engine_message[0] ? engine_message : "it gave no reason");
    return gg_at_file(err, e->path);
}

gg_status probe_open(probe_engine *e, const char *path, const probe_setup *setup, gg_error *err)
{
    *e = (probe_engine){ .path = path, .window = setup->window };
    engine_message[0] = 0;
    llama_log_set(keep_error, NULL);
    load_backends();
    struct llama_model_params mp = llama_model_default_params();
    mp.n_gpu_layers = 0;
    e->model = llama_model_load_from_file(path, mp);
    if (!e->model) return refuse_model(e, err);
    e->vocab = llama_model_get_vocab(e->model);
    e->n_vocab = llama_vocab_n_tokens(e->vocab);
    if (e->n_vocab < 2 || !llama_model_has_decoder(e->model) || llama_model_has_encoder(e->model))
        return refuse_model(e, err);
    e->vocab_hash = 1469598103934665603u;
    for (int32_t i = 0; i < e->n_vocab; i++) {
        const char *text = llama_vocab_get_text(e->vocab, i);
        e->vocab_hash = gg_hash(e->vocab_hash, text, strlen(text) + 1);
    }
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = p.n_batch = p.n_ubatch = setup->window;
    p.n_threads = p.n_threads_batch = (int32_t)setup->threads;
    p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    p.cb_eval = setup->watch;
    p.cb_eval_user_data = setup->watcher;
    e->ctx = llama_init_from_model(e->model, p);
    return e->ctx ? GG_OK : refuse_model(e, err);
}

void probe_close(probe_engine *e)
{
    if (e->ctx) llama_free(e->ctx);
    if (e->model) llama_model_free(e->model);
    gg_source_close(e->file);
    *e = (probe_engine){ 0 };
}

gg_status probe_read_text(const probe_engine *e, const char *path, size_t most, probe_text *out,
                          gg_error *err)
{
    gg_buf text = GG_BUF_INIT;
    *out = (probe_text){ .name = path };
    gg_status st = strcmp(path, "-") == 0
                       ? gg_fail(err, GG_EUSAGE, "a text may be read twice, so it must be a file")
                       : cli_read_file(path, (size_t)INT32_MAX - 64, &text, err);
    if (st == GG_OK) {
        size_t n = text.len;
        out->tokens = malloc((n + 16) * sizeof *out->tokens);
        int32_t got = out->tokens ? llama_tokenize(e->vocab, text.data, (int32_t)n, out->tokens,
                                                   (int32_t)n + 16, false, false)
                                  : 0;
        out->n = got > 0 ? (size_t)got : 0;
        if (most && out->n > most) out->n = most;
        if (!out->tokens) st = gg_fail(err, GG_ENOMEM, "no memory for the tokens");
        else if (out->n < 2) {
            st = gg_fail(err, GG_EUSAGE, "the text has %zu tokens, but at least 2 are needed",
                         out->n);
            gg_fix(err, "give a longer text");
        }
    }
    gg_buf_free(&text);
    return st == GG_OK ? GG_OK : gg_at_file(err, path);
}

gg_status probe_random_text(const probe_engine *e, size_t n, uint64_t seed, probe_text *out,
                            gg_error *err)
{
    *out = (probe_text){ .name = "(random)", .tokens = malloc((n + 1) * sizeof *out->tokens) };
    if (!out->tokens) return gg_fail(err, GG_ENOMEM, "no memory for the tokens");
    uint64_t x = seed + 1;
    for (size_t tried = 0; out->n < n; tried++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        llama_token t = (llama_token)((x >> 33) % (uint64_t)e->n_vocab);
        if (tried < 100 * n &&
            (llama_vocab_is_control(e->vocab, t) || !*llama_vocab_get_text(e->vocab, t)))
            continue;
        out->tokens[out->n++] = t;
    }
    return GG_OK;
}

double probe_log_sum(const float *logits, int32_t n)
{
    float top = logits[0];
    double sum = 0;
    for (int32_t i = 1; i < n; i++) top = logits[i] > top ? logits[i] : top;
    for (int32_t i = 0; i < n; i++) sum += (double)expf(logits[i] - top);
    return sum == 0 ? NAN : (double)top + log(sum);
}

static gg_status evaluate_window(const probe_engine *e, struct llama_batch *b,
                                 const llama_token *tokens, size_t n, gg_error *err)
{
    b->n_tokens = (int32_t)n;
    for (size_t i = 0; i < n; i++) {
        b->token[i] = tokens[i];
        b->pos[i] = (llama_pos)i;
        b->n_seq_id[i] = 1;
        b->seq_id[i][0] = 0;
        b->logits[i] = 1;
    }
    llama_memory_clear(llama_get_memory(e->ctx), true);
    int32_t status = llama_decode(e->ctx, *b);
    if (status == 0) return gg_cancelled(err);
    gg_fail(err, GG_EUNSUPPORTED, "the engine cannot evaluate it: %s",
            engine_message[0] ? engine_message : "it gave no reason");
    return gg_at_file(err, e->path);
}

gg_status probe_run(const probe_engine *e, const probe_text *t, probe_each each, void *ctx,
                    gg_error *err)
{
    struct llama_batch b = llama_batch_init((int32_t)e->window, 0, 1);
    gg_status st = GG_OK;
    for (size_t at = 0; at + 1 < t->n && st == GG_OK && !t->enough; at += e->window) {
        size_t n = t->n - 1 - at < e->window ? t->n - 1 - at : e->window;
        st = evaluate_window(e, &b, t->tokens + at, n, err);
        for (size_t i = 0; i < n && st == GG_OK && each; i++) {
            const float *logits = llama_get_logits_ith(e->ctx, (int32_t)i);
            if (logits) st = each(ctx, logits, t->tokens[at + i + 1], err);
            else {
                st = gg_fail(err, GG_EUNSUPPORTED, "it is not a model that predicts tokens");
                gg_at_file(err, e->path);
            }
        }
    }
    llama_batch_free(b);
    return st;
}

/* ---- other weights ------------------------------------------------------------------------ */

bool probe_watch_weight(struct ggml_tensor *t, bool ask, void *weight)
{
    probe_weight *w = weight;
    /* A view would keep the address of the values. */
    bool uses = t->op == GGML_OP_MUL_MAT || t->op == GGML_OP_MUL_MAT_ID ||
                t->op == GGML_OP_GET_ROWS;
    if (ask && uses && w->name && strcmp(t->src[0]->name, w->name) == 0) w->found = t->src[0];
    return !ask;
}

/* The values of tensor i in another type. *values is replaced. */
static gg_status convert_weight(const gg_tensor *t, uint32_t dtype, size_t bytes, uint8_t **values,
                                gg_error *err)
{
    size_t n = (size_t)t->elements;
    float *x = malloc(n * sizeof *x + 1);
    uint8_t *out = malloc(bytes + 1);
    gg_status st = x && out ? gg_decode(t->dtype, *values, x, n, err)
                            : gg_fail(err, GG_ENOMEM, "no memory for a tensor");
    if (st == GG_OK) st = gg_encode(dtype, x, out, n, (size_t)t->dims[0], NULL, err);
    free(*values);
    free(x);
    *values = out;
    return st;
}

/* The values of w->name in a model, in the type of the engine's tensor: *out, owned. */
static gg_status read_weight(const probe_weight *w, const char *model, uint8_t **out, gg_error *err)
{
    gg_source *s = NULL;
    gg_status st = gg_source_open(model, &s, err);
    size_t i = st == GG_OK ? gg_source_find(s, w->name, strlen(w->name)) : SIZE_MAX;
    const gg_tensor *t = i == SIZE_MAX ? NULL : gg_source_tensor(s, i);
    if (st == GG_OK && (!w->found || !t || t->elements != (uint64_t)ggml_nelements(w->found) ||
                        t->dims[0] != (uint64_t)w->found->ne[0]))
        st = gg_fail(err, GG_NO, "tensor %s is missing, unused or has another shape", w->name);
    if (st == GG_OK) st = probe_read_tensor(s, i, (void **)out, err);
    if (st == GG_OK && t->dtype != (uint32_t)w->found->type)
        st = convert_weight(t, (uint32_t)w->found->type, ggml_nbytes(w->found), out, err);
    gg_source_close(s);
    return st == GG_OK ? GG_OK : gg_at_file(err, model);
}

gg_status probe_take_weight(const probe_engine *e, probe_weight *w, const char *model,
                            gg_error *err)
{
    llama_token any = 0;
    uint8_t *own = NULL;
    llama_memory_clear(llama_get_memory(e->ctx), true);
    llama_decode(e->ctx, llama_batch_get_one(&any, 1));
    w->direct = w->found && ggml_backend_buffer_is_host(w->found->buffer);
    gg_status st = read_weight(w, model, &w->values, err);
    if (st == GG_OK && !w->direct) st = read_weight(w, e->path, &own, err);
    if (st != GG_OK) {
        free(own);
        return st;
    }
    w->own = w->direct ? w->found->data : own;
    /* The file may be mapped for reading only. Other layouts are made from that of the file. */
    if (w->direct) w->found->data = w->values;
    else ggml_backend_tensor_set(w->found, w->values, 0, ggml_nbytes(w->found));
    return GG_OK;
}

void probe_return_weight(probe_weight *w)
{
    if (w->own && w->direct) w->found->data = w->own;
    else if (w->own) {
        ggml_backend_tensor_set(w->found, w->own, 0, ggml_nbytes(w->found));
        free(w->own);
    }
    free(w->values);
    *w = (probe_weight){ 0 };
}
