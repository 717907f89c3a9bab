/* predict.c - what the multi-token-prediction blocks of a model say, by the engine:
 *
 *     predict ENGINE-DIR MODEL TEXT
 *
 * The Node binding does not load these blocks; this asks the engine's library itself,
 * against the header of the same release (run.sh takes it from the binding's package).
 * Prints a line of tabs for the trunk and one for each prediction block:
 *
 *     NAME  perplexity  tokens scored  of these, predicted as the trunk does
 *
 * Block k gets the trunk's hidden state of token p and token p + 1, and is scored on
 * p + 2, as when it drafts: its greedy choice is a draft of one token, which the trunk
 * would take when its own choice after p + 1 is the same. */
#include "llama.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The engine has these in C++ without a public header. */
extern void set_embeddings(struct llama_context *, bool value,
                           bool masked) __asm__("_Z26llama_set_embeddings_nextnP13llama_contextbb");
extern void set_block(struct llama_context *,
                      int32_t offset) __asm__("_Z28llama_set_nextn_layer_offsetP13llama_contexti");
extern float *hidden_of(struct llama_context *,
                        int32_t i) __asm__("_Z30llama_get_embeddings_nextn_ithP13llama_contexti");

enum { WINDOW = 192, CONTEXT = 256 };

static void die(const char *what)
{
    fprintf(stderr, "predict: %s\n", what);
    exit(1);
}

static void quiet(enum ggml_log_level level, const char *text, void *data)
{
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static struct llama_context *context(struct llama_model *m, enum llama_context_type type,
                                     struct llama_context *other)
{
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = p.n_batch = p.n_ubatch = CONTEXT;
    p.n_threads = p.n_threads_batch = 1;
    p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    p.ctx_type = type;
    p.ctx_other = other;
    struct llama_context *c = llama_init_from_model(m, p);
    if (!c) die("no context");
    return c;
}

static int32_t tokenize(const struct llama_model *m, const char *path, llama_token **out)
{
    FILE *f = fopen(path, "rb");
    char *text = malloc(1 << 20);
    if (!f || !text) die(path);
    int32_t n = (int32_t)fread(text, 1, 1 << 20, f);
    *out = malloc(sizeof **out * (size_t)(n + 1));
    if (!*out) die("no memory");
    n = llama_tokenize(llama_model_get_vocab(m), text, n, *out, n + 1, false, false);
    fclose(f);
    free(text);
    return n;
}

typedef struct score {
    double nll;
    int n, agree;
} score;

static int best(const float *x, int n)
{
    int k = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[k]) k = i;
    return k;
}

static void add(score *s, const float *logits, int vocab, llama_token next, llama_token trunk)
{
    int k = best(logits, vocab);
    double sum = 0;
    for (int i = 0; i < vocab; i++) sum += exp((double)logits[i] - logits[k]);
    s->nll -= (double)logits[next] - logits[k] - log(sum);
    s->n++;
    s->agree += k == trunk;
}

/* A window of n tokens: the trunk, then each block on what the trunk thought. */
static void run(struct llama_context *trunk, struct llama_context *mtp, int blocks,
                const llama_token *t, int n, score *scores)
{
    const struct llama_model *m = llama_get_model(trunk);
    int vocab = llama_vocab_n_tokens(llama_model_get_vocab(m)), width = llama_model_n_embd_out(m);
    struct llama_batch b = llama_batch_init(CONTEXT, 0, 1);
    float *h = malloc(sizeof *h * (size_t)(n * width));
    llama_token choice[WINDOW];
    if (!h) die("no memory");
    b.n_tokens = n;
    for (int i = 0; i < n; i++) {
        b.token[i] = t[i];
        b.pos[i] = i;
        b.n_seq_id[i] = 1;
        b.seq_id[i][0] = 0;
        b.logits[i] = 1;
    }
    llama_memory_clear(llama_get_memory(trunk), true);
    if (llama_decode(trunk, b) != 0) die("the trunk was not evaluated");
    for (int i = 0; i < n; i++) {
        const float *logits = llama_get_logits_ith(trunk, i);
        choice[i] = best(logits, vocab);
        if (i + 1 < n) add(&scores[0], logits, vocab, t[i + 1], choice[i]);
        if (mtp) memcpy(h + i * width, hidden_of(trunk, i), sizeof *h * (size_t)width);
    }
    b.n_tokens = n - 1;
    memmove(b.token, b.token + 1, sizeof *b.token * (size_t)(n - 1));
    memmove(b.pos, b.pos + 1, sizeof *b.pos * (size_t)(n - 1));
    b.embd = h;
    for (int k = 0; mtp && k < blocks; k++) {
        llama_memory_clear(llama_get_memory(mtp), true);
        set_block(mtp, k);
        if (llama_decode(mtp, b) != 0) die("a prediction block was not evaluated");
        for (int i = 0; i + 2 < n; i++)
            add(&scores[k + 1], llama_get_logits_ith(mtp, i), vocab, t[i + 2], choice[i + 1]);
    }
    b.embd = NULL;
    llama_batch_free(b);
    free(h);
}

int main(int argc, char **argv)
{
    if (argc != 4) die("give ENGINE-DIR MODEL TEXT");
    llama_log_set(quiet, NULL);
    ggml_backend_load_all_from_path(argv[1]);
    struct llama_model_params p = llama_model_default_params();
    p.load_mtp = true;
    struct llama_model *m = llama_model_load_from_file(argv[2], p);
    if (!m) die("the model was not loaded");
    int blocks = llama_model_n_layer_nextn(m);
    llama_token *t;
    int32_t n = tokenize(m, argv[3], &t);
    struct llama_context *trunk = context(m, LLAMA_CONTEXT_TYPE_DEFAULT, NULL), *mtp = NULL;
    if (blocks > 0) {
        mtp = context(m, LLAMA_CONTEXT_TYPE_MTP, trunk);
        set_embeddings(trunk, true, false);
        set_embeddings(mtp, true, true);
    }
    score *scores = calloc((size_t)blocks + 1, sizeof *scores);
    if (!scores) die("no memory");
    for (int32_t at = 0; at + 3 < n; at += WINDOW)
        run(trunk, mtp, blocks, t + at, n - at < WINDOW ? n - at : WINDOW, scores);
    for (int k = 0; k <= blocks; k++) {
        if (k == 0) printf("trunk");
        else printf("block %d", k - 1);
        printf("\t%.10g\t%d\t%d\n", exp(scores[k].nll / scores[k].n), scores[k].n, scores[k].agree);
    }
    llama_free(mtp);
    llama_free(trunk);
    llama_model_free(m);
    return 0;
}
