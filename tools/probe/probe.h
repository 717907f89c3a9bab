/* probe.h - the parts of organ-probe: the engine and its windows (probe_engine.c), distributions of
 * a reference (probe_base.c), and what happens inside the model (probe_watch.c).
 *
 * The functions follow the rules of gg_status.h for errors. */
#pragma once

#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"

#include "base/buf.h" /* values of tensors */

#include <llama.h>

/* ---- the engine -------------------------------------------------------------------------- */

typedef struct probe_setup {
    uint32_t window; /* tokens that are evaluated together; then the sequence is cleared */
    uint32_t threads;
    ggml_backend_sched_eval_callback watch; /* sees what the engine computes; NULL = nothing */
    void *watcher;
} probe_setup;

/* Start from all zero; probe_close ends it, also after an error. */
typedef struct probe_engine {
    const char *path;
    uint32_t window;
    int32_t n_vocab;
    uint64_t vocab_hash; /* of the texts of all tokens */
    const struct llama_vocab *vocab;
    struct llama_model *model;
    struct llama_context *ctx;
    gg_source *file; /* the model, open so that a change is noticed while the engine reads it */
} probe_engine;

/* The tokens of a text. */
typedef struct probe_text {
    const char *name;
    llama_token *tokens; /* owned */
    size_t n;
    bool enough; /* set while it is evaluated: end it after this window */
} probe_text;

gg_status probe_open(probe_engine *e, const char *path, const probe_setup *setup, gg_error *err);
void probe_close(probe_engine *e);

/* The first `most` tokens of a file (0: all), without BOS. GG_EUSAGE if there are fewer than 2. */
gg_status probe_read_text(const probe_engine *e, const char *path, size_t most, probe_text *out,
                          gg_error *err);
/* n tokens at random, without control tokens. */
gg_status probe_random_text(const probe_engine *e, size_t n, uint64_t seed, probe_text *out,
                            gg_error *err);

/* The logarithm of the sum of exp(logits). */
double probe_log_sum(const float *logits, int32_t n);

/* Evaluates the text, and calls `each` with the logits after each token and the token that follows.
 * The last token of a window predicts the first one of the next window. */
typedef gg_status (*probe_each)(void *ctx, const float *logits, llama_token next, gg_error *err);
gg_status probe_run(const probe_engine *e, const probe_text *t, probe_each each, void *ctx,
                    gg_error *err);

/* Reads a tensor as it is stored: *bytes, owned, also after an error. */
gg_status probe_read_tensor(gg_source *s, size_t i, void **bytes, gg_error *err);

/* A matrix that has the values of another model for some time. */
typedef struct probe_weight {
    const char *name;
    struct ggml_tensor *found; /* in the engine, by its callback probe_watch_weight */
    bool direct;               /* the engine reads it in the layout of the file */
    uint8_t *own, *values;     /* what it had, and what it has */
} probe_weight;
bool probe_watch_weight(struct ggml_tensor *t, bool ask, void *weight);

/* Gives w->name the values that it has in another model. w is the watcher of the engine.
 * probe_return_weight undoes it, also after an error.
 * GG_NO if the engine or that model has no such tensor, or another shape. */
gg_status probe_take_weight(const probe_engine *e, probe_weight *w, const char *model,
                            gg_error *err);
void probe_return_weight(probe_weight *w);

/* ---- distributions of a reference ---------------------------------------------------------- */

#define PROBE_TAIL 32 /* samples of the tail of a distribution */

/* The distributions of a model after each token of some texts: the `top` largest probabilities of
 * each, and samples of the rest, drawn by their probability, so that a mean over them is unbiased.
 * Start from all zero. */
typedef struct probe_base {
    uint32_t top, n_vocab, window;
    uint64_t vocab_hash;
    size_t n, tokens;
    int32_t *ids; /* n x (top + PROBE_TAIL); the largest first */
    float *logs;  /* their log probabilities */
    float *rest;  /* n: probability of all tokens but the top */
    float *nll;   /* n: of the token that follows */
    int32_t *text;
} probe_base;

/* Sets a key of type u32 or u64. */
void probe_set_number(gg_meta *m, const char *key, gg_type type, uint64_t value, gg_error *err);
/* A probe_each that appends to the probe_base ctx. */
gg_status probe_base_add(void *ctx, const float *logits, llama_token next, gg_error *err);
/* Appends the tokens of a text that was evaluated. */
gg_status probe_base_add_text(probe_base *b, const probe_text *t, gg_error *err);
gg_status probe_base_save(const probe_base *b, const char *path, const gg_run *run, gg_error *err);
gg_status probe_base_load(probe_base *b, const char *path, gg_error *err);
void probe_base_free(probe_base *b);

/* Compares position `at` of the base with other logits. *same: the largest token is the same. */
double probe_divergence(const probe_base *b, size_t at, const float *logits, double log_sum,
                        bool *same);

/* ---- inside the model ------------------------------------------------------------------------ */

/* Sums over the tokens of what one block does to the residual stream. */
typedef struct probe_block {
    uint64_t tokens, with_parts; /* tokens whose attention and FFN are told apart */
    double in, out, attention, ffn, cosine, kurtosis, largest;
} probe_block;

typedef struct probe_trace {
    probe_block *blocks;
    size_t n, cap;
    gg_buf in, middle; /* floats: residual stream before the block, and between attention and FFN */
    int64_t of_middle;
    gg_buf room; /* for the values of a tensor */
    gg_status status;
} probe_trace;

/* Callback of the engine with a probe_trace. */
bool probe_watch_blocks(struct ggml_tensor *t, bool ask, void *trace);
void probe_trace_free(probe_trace *t);

typedef struct probe_inputs probe_inputs;
/* Collects the inputs of matrices: at most `rows` samples of each, by reservoir with a seed. */
probe_inputs *probe_inputs_new(size_t rows, uint64_t seed);
bool probe_watch_inputs(struct ggml_tensor *t, bool ask, void *inputs);
/* Writes what was collected: see docs/formats.md. */
gg_status probe_inputs_save(const probe_inputs *in, gg_meta *meta, const char *path,
                            const gg_run *run, gg_error *err);
void probe_inputs_free(probe_inputs *in);
