/* organ-probe - runs a model in llama.cpp: losses, divergence from a reference, norms per block,
 * and the inputs of matrices. */
#include "common/cli.h"
#include "common/pictures.h" /* texts beside the table */
#include "common/table.h"

#include "base/buf.h"
#include "base/error.h"  /* tells failures of the system from other files */
#include "base/grow.h"   /* orders numbers */
#include "base/output.h" /* refuses an output before the model runs */
#include "probe.h"
#include "write/copy.h" /* the hash of a file, which no public function computes */
#include "write/keys.h" /* arrays of texts */

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: organ-probe [--model] MODEL --text FILE... [option...]\n"
    "       organ-probe MODEL --random N --trace\n"
    "Run MODEL, a GGUF file, in llama.cpp on the processor. Prints for each text the\n"
    "mean loss per token in nats, its standard error, and the perplexity.\n"
    ,
    "  organ-probe tests/data/lab/lab-verse-q4_k_m.gguf \\\n"
    "    --text tests/data/lab/text-verse.txt \\\n"
    "    --against tests/data/lab/lab-base-q4_k_m.gguf\n"
    "  organ-probe tests/data/lab/lab-verse-q4_k_m.gguf --random 64 --trace\n"
    "exit: 0 done, 1 no finite probabilities or another vocabulary, 2 usage,\n"
    "3 the engine cannot run it, 4 I/O failure\n"
};
/* clang-format on */

static struct {
    const char *model, *against, *save, *activations, *counts;
    gg_texts texts;
    uint64_t random, tokens, window, rows, seed, top;
    double precision;
    bool trace, batch;
} opt = { .window = 192, .rows = 2048, .top = 64 };

static const cli_option options[] = {
    { "model", CLI_MODEL, .to = &opt.model, .place = 1, .required = "batch" },
    { "text", CLI_FILE, .to = &opt.texts, .arg = "FILE", .many = true, .required = "random batch",
      .help = "a text to measure on (may be repeated)" },
    { "random", CLI_U64, .to = &opt.random, .arg = "N", .low = 2, .high = 1e6, .excludes = "text",
      .excludes_why = "takes the place of a text",
      .help = "use N tokens at random instead of a text" },
    { "tokens", CLI_U64, .to = &opt.tokens, .arg = "N", .low = 2, .high = 1e9,
      .help = "only the first N tokens of each text" },
    { "context", CLI_U64, .to = &opt.window, .arg = "N", .low = 2, .high = 1e6,
      .help = "tokens that are evaluated together (192)" },
    { "against", CLI_FILE, .to = &opt.against, .arg = "REF",
      .help =
          "also print the divergence from a reference: a model, or a file that --save-base wrote" },
    { "save-base", CLI_NEW_FILE, .to = &opt.save, .arg = "FILE", .excludes = "batch",
      .help = "store the distributions of MODEL, for --against" },
    { "counts", CLI_NEW_FILE, .to = &opt.counts, .arg = "FILE",
      .excludes = "against save-base trace activations batch",
      .help = "only count how often each token occurs in the texts, for organ-vocab trim --used" },
    { "top", CLI_U64, .to = &opt.top, .arg = "N", .low = 1, .high = 1e6,
      .help = "probabilities of the reference to keep per token (64)" },
    { "precision", CLI_F64, .to = &opt.precision, .arg = "X", .low = 1e-6, .high = 1,
      .needs = "against",
      .help = "end a text when the standard error of its divergence is at most X times the "
              "divergence" },
    { "trace", CLI_FLAG, .to = &opt.trace, .excludes = "against save-base batch",
      .help = "print what each block does to its input instead" },
    { "activations", CLI_NEW_FILE, .to = &opt.activations, .arg = "FILE",
      .excludes = "against batch",
      .help = "store the inputs of each matrix: an importance matrix with samples" },
    { "rows", CLI_U64, .to = &opt.rows, .arg = "N", .low = 1, .high = 1e6, .needs = "activations",
      .help = "samples per matrix (2048)" },
    { "seed", CLI_U64, .to = &opt.seed, .arg = "N", .help = "of samples and of random tokens (0)" },
    { "batch", CLI_FLAG, .to = &opt.batch,
      .help =
          "answer lines \"ppl MODEL TEXT\" and \"kl MODEL TEXT\" of stdin (separated by tabs)" },
    { "force", CLI_FLAG, .at = offsetof(cli, run.force), .help = "replace an existing output" },
    { .group = cli_common },
    { "json", CLI_FLAG, .at = offsetof(cli, json), .flow = ", " },
    { 0 },
};

/* ---- losses and divergences ------------------------------------------------------------------ */

typedef struct losses {
    const probe_base *base; /* NULL = no reference */
    size_t first;           /* position of the text in the base */
    probe_base *save;       /* NULL = nothing is stored */
    int32_t n_vocab;
    size_t n, same;
    double sum, squares, change, changes, divergence, divergences;
    double *kl;      /* one per token */
    probe_text text; /* that is evaluated */
} losses;

enum { FEWEST = 256 }; /* tokens from which a standard error is believed */

/* The standard error of a mean. */
static double error_of(double sum, double squares, size_t n)
{
    double mean = sum / (double)n, variance = squares / (double)n - mean * mean;
    return n > 1 && variance > 0 ? sqrt(variance / (double)(n - 1)) : 0;
}

static gg_status add_loss(void *ctx, const float *logits, llama_token next, gg_error *err)
{
    losses *l = ctx;
    double log_sum = probe_log_sum(logits, l->n_vocab), loss = log_sum - (double)logits[next];
    if (!isfinite(loss)) return gg_fail(err, GG_NO, "it gives probabilities that are not finite");
    if (l->base) {
        bool same;
        double d = (double)(float)loss - (double)l->base->nll[l->first + l->n];
        l->kl[l->n] = probe_divergence(l->base, l->first + l->n, logits, log_sum, &same);
        l->same += same;
        l->change += d;
        l->changes += d * d;
        l->divergence += l->kl[l->n];
        l->divergences += l->kl[l->n] * l->kl[l->n];
    }
    l->n++;
    if (opt.precision > 0 && l->n >= FEWEST)
        l->text.enough = error_of(l->divergence, l->divergences, l->n) <=
                         opt.precision * fabs(l->divergence / (double)l->n);
    l->sum += loss;
    l->squares += loss * loss;
    return l->save ? probe_base_add(l->save, logits, next, err) : GG_OK;
}

/* Linear interpolation between the sorted values, as llama-perplexity does. */
static double percentile(const double *sorted, size_t n, double share)
{
    double at = share * (double)(n - 1);
    size_t i = (size_t)at;
    return i + 1 < n ? sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

static void print_losses(table *t, const char *name, losses *l)
{
    double mean = l->sum / (double)l->n;
    table_begin(t, l->base
                       ? "text\ttokens\tloss\terror\tperplexity\tkl\tkl_error\tkl_median\tkl_99\t"
                         "kl_999\tkl_max\tsame_top\tloss_change\tchange_error"
                       : "text\ttokens\tloss\terror\tperplexity");
    table_put(t, cell_text(name), cell_u64(l->n), cell_f64(mean),
              cell_f64(error_of(l->sum, l->squares, l->n)), cell_f64(exp(mean)));
    if (l->base) {
        qsort(l->kl, l->n, sizeof *l->kl, gg_order_f64);
        table_put(t, cell_f64(l->divergence / (double)l->n),
                  cell_f64(error_of(l->divergence, l->divergences, l->n)),
                  cell_f64(percentile(l->kl, l->n, 0.5)), cell_f64(percentile(l->kl, l->n, 0.99)),
                  cell_f64(percentile(l->kl, l->n, 0.999)), cell_f64(l->kl[l->n - 1]),
                  cell_f64((double)l->same / (double)l->n), cell_f64(l->change / (double)l->n),
                  cell_f64(error_of(l->change, l->changes, l->n)));
    }
    table_row(t);
}

/* ---- models and texts ------------------------------------------------------------------------ */

static probe_setup setup_of(const cli *c)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return (probe_setup){ .window = (uint32_t)opt.window,
                          .threads = c->threads ? (uint32_t)c->threads
                                     : n > 0    ? (uint32_t)n
                                                : 1 };
}

/* The suite's own reader gives the better reasons, and refuses outputs that would replace it. */
static gg_status open_model(cli *c, const char *path, const probe_setup *setup, probe_engine *e)
{
    gg_source *s = NULL;
    struct stat info;
    if (strcmp(path, "-") == 0 || (cli_stat(c, path, &info) && S_ISDIR(info.st_mode))) {
        gg_fail(&c->err, GG_EUNSUPPORTED, "the engine needs a GGUF file");
        gg_fix(&c->err, "write one with organ-assemble");
        return gg_at_file(&c->err, path);
    }
    gg_status st = cli_open(c, path, CLI_SPOOLED, &s);
    if (st == GG_OK) st = probe_open(e, path, setup, &c->err);
    e->file = s;
    return st;
}

static gg_status read_tokens(cli *c, const probe_engine *e, size_t i, probe_text *t)
{
    if (opt.random) return probe_random_text(e, (size_t)opt.random, opt.seed, t, &c->err);
    gg_status st = probe_read_text(e, opt.texts.items[i], (size_t)opt.tokens, t, &c->err);
    if (st == GG_OK && t->n <= opt.window && !opt.tokens)
        cli_note(c, "%s: the text has %zu tokens, less than one window of %llu", t->name, t->n,
                 (unsigned long long)opt.window);
    return st;
}

static size_t n_texts(void)
{
    return opt.random ? 1 : opt.texts.n;
}

/* Fills the base with the distributions of a model for text i. */
static gg_status add_reference(cli *c, const probe_engine *e, probe_base *b, size_t i)
{
    probe_text t = { 0 };
    gg_status st = read_tokens(c, e, i, &t);
    if (st == GG_OK) st = probe_base_add_text(b, &t, &c->err);
    if (st == GG_OK) st = probe_run(e, &t, probe_base_add, b, &c->err);
    if (st == GG_NO) gg_at_file(&c->err, e->path);
    free(t.tokens);
    return st;
}

static void describe_base(const probe_engine *e, probe_base *b)
{
    b->n_vocab = (uint32_t)e->n_vocab;
    b->vocab_hash = e->vocab_hash;
    b->window = e->window;
    b->top = opt.top < b->n_vocab ? (uint32_t)opt.top : b->n_vocab;
}

/* Whether a file holds distributions. What else it may be, the engine knows. */
static gg_status has_distributions(const char *path, bool *has, gg_error *err)
{
    gg_source *s = NULL;
    gg_status st = gg_source_open(path, &s, err);
    *has = st == GG_OK && gg_source_find(s, "logs", 4) != SIZE_MAX;
    gg_source_close(s);
    if (st == GG_OK || gg_is_of_system(err)) return st;
    *err = (gg_error)GG_ERROR_INIT;
    return GG_OK;
}

/* The reference's distributions of all texts. */
static gg_status load_reference(cli *c, probe_base *b)
{
    probe_engine e = { 0 };
    probe_setup setup = setup_of(c);
    bool made;
    gg_status st = has_distributions(opt.against, &made, &c->err);
    if (st != GG_OK) return st;
    if (made) return probe_base_load(b, opt.against, &c->err);
    st = open_model(c, opt.against, &setup, &e);
    if (st == GG_OK) describe_base(&e, b);
    for (size_t i = 0; i < n_texts() && st == GG_OK; i++) st = add_reference(c, &e, b, i);
    probe_close(&e);
    return st;
}

static gg_status check_vocabulary(cli *c, const probe_engine *e, const probe_base *b)
{
    if (b->window != opt.window) {
        gg_fail(&c->err, GG_EUSAGE, "it was made with windows of %u tokens", b->window);
        gg_fix(&c->err, "use --context %u", b->window);
        return gg_at_file(&c->err, opt.against);
    }
    if ((uint32_t)e->n_vocab == b->n_vocab && e->vocab_hash == b->vocab_hash) return GG_OK;
    gg_fail(&c->err, GG_NO, "its vocabulary (%d tokens) differs from that of the reference (%u)",
            e->n_vocab, b->n_vocab);
    gg_fix(&c->err, "compare models with one vocabulary");
    return gg_at_file(&c->err, e->path);
}

/* Measures text i, whose tokens start at *token of the base. */
static gg_status measure_text(cli *c, const probe_engine *e, size_t i, size_t *token, losses *l)
{
    probe_text *t = &l->text;
    *t = (probe_text){ 0 };
    gg_status st = read_tokens(c, e, i, t);
    if (st == GG_OK && l->save) st = probe_base_add_text(l->save, t, &c->err);
    if (st == GG_OK && l->base &&
        (l->base->tokens - *token < t->n || l->base->n - l->first < t->n - 1 ||
         memcmp(l->base->text + *token, t->tokens, t->n * sizeof *t->tokens) != 0)) {
        gg_fail(&c->err, GG_EUSAGE, "it was made from other texts than %s", t->name);
        gg_fix(&c->err, "give the same texts in the same order");
        st = gg_at_file(&c->err, opt.against);
    }
    l->n_vocab = e->n_vocab;
    if (st == GG_OK && l->base && !(l->kl = malloc(t->n * sizeof *l->kl)))
        st = gg_fail(&c->err, GG_ENOMEM, "no memory for the divergences");
    if (st == GG_OK) st = probe_run(e, t, add_loss, l, &c->err);
    if (st == GG_NO) gg_at_file(&c->err, e->path);
    *token += t->n;
    free(t->tokens);
    return st;
}

/* ---- inside the model --------------------------------------------------------------------------
 */

typedef struct watchers {
    probe_trace trace;
    probe_inputs *inputs; /* NULL = not collected */
} watchers;

static bool watch_all(struct ggml_tensor *t, bool ask, void *ctx)
{
    watchers *w = ctx;
    bool wanted = opt.trace && probe_watch_blocks(t, ask, &w->trace);
    if (w->inputs && probe_watch_inputs(t, ask, w->inputs)) wanted = true;
    return ask ? wanted : true;
}

static gg_status print_trace(cli *c, const probe_trace *t)
{
    table to = { .json = c->json };
    if (t->status != GG_OK) return gg_fail(&c->err, t->status, "no memory for the trace");
    if (t->n == 0)
        return gg_fail(&c->err, GG_EUNSUPPORTED,
                       "the engine does not name the blocks of this model");
    for (size_t i = 0; i < t->n; i++) {
        const probe_block *b = &t->blocks[i];
        double n = (double)b->tokens, parts = (double)b->with_parts;
        bool told = b->with_parts > 0;
        table_begin(&to, "block\ttokens\tin\tattention\tffn\tout\tcosine\tkurtosis\tlargest");
        if (b->tokens == 0) continue;
        table_line(&to, cell_u64(i), cell_u64(b->tokens), cell_f64(b->in / n),
                   cell_f64_when(told, b->attention / parts), cell_f64_when(told, b->ffn / parts),
                   cell_f64(b->out / n), cell_f64(b->cosine / n), cell_f64(b->kurtosis / n),
                   cell_f64(b->largest));
    }
    return GG_OK;
}

/* The keys of a file of activations: those of an importance matrix, and where it comes from. */
static gg_status activation_keys(cli *c, gg_meta *m, uint64_t tokens)
{
    gg_error *err = &c->err;
    char sha[65] = "";
    gg_buf sets = GG_BUF_INIT;
    int fd = open(opt.model, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) gg_fail_errno(err, "cannot open it");
    else gg_file_sha256(fd, 0, (uint64_t)info.st_size, sha, NULL, err);
    if (fd >= 0) close(fd);
    if (err->status != GG_OK) return gg_at_file(err, opt.model);
    for (size_t i = 0; i < n_texts(); i++) {
        const char *name = opt.random ? "(random)" : opt.texts.items[i];
        gg_array_add_str(&sets, name, strlen(name), err);
    }
    gg_meta_set_str(m, "general.architecture", "activations", 11, err);
    gg_meta_set_str(m, "general.type", "imatrix", 7, err);
    if (err->status == GG_OK)
        gg_meta_set_array(m, "imatrix.datasets", GG_TYPE_STR, n_texts(), &sets, err);
    gg_buf_free(&sets);
    probe_set_number(m, "imatrix.chunk_count", GG_TYPE_U32, tokens / opt.window, err);
    probe_set_number(m, "imatrix.chunk_size", GG_TYPE_U32, opt.window, err);
    gg_meta_set_str(m, "activations.model.sha256", sha, strlen(sha), err);
    probe_set_number(m, "activations.tokens", GG_TYPE_U64, tokens, err);
    probe_set_number(m, "activations.rows", GG_TYPE_U64, opt.rows, err);
    probe_set_number(m, "activations.seed", GG_TYPE_U64, opt.seed, err);
    return err->status;
}

static gg_status save_activations(cli *c, const probe_inputs *in, uint64_t tokens)
{
    gg_meta meta = GG_META_INIT;
    gg_status st = activation_keys(c, &meta, tokens);
    if (st == GG_OK) st = probe_inputs_save(in, &meta, opt.activations, &c->run, &c->err);
    gg_meta_free(&meta);
    return st;
}

/* ---- one model ------------------------------------------------------------------------------- */

static gg_status measure_texts(cli *c, const probe_engine *e, const probe_base *base,
                               probe_base *save, uint64_t *tokens)
{
    table rows = { .json = c->json };
    gg_status st = base ? check_vocabulary(c, e, base) : GG_OK;
    size_t first = 0, token = 0;
    for (size_t i = 0; i < n_texts() && st == GG_OK; i++) {
        losses l = { .base = base, .first = first, .save = save };
        st = measure_text(c, e, i, &token, &l);
        if (st == GG_OK && !opt.trace)
            print_losses(&rows, opt.random ? "(random)" : opt.texts.items[i], &l);
        first = base ? token - i - 1 : first + l.n;
        *tokens += l.n;
        free(l.kl);
    }
    return st;
}

/* Counts the tokens of the texts, which needs no evaluation, and writes a row per token that
 * occurs. */
static gg_status save_counts(cli *c, const probe_engine *e)
{
    uint64_t *counts = calloc((size_t)e->n_vocab, sizeof *counts);
    gg_buf text = GG_BUF_INIT;
    gg_output *file = NULL;
    gg_status st = counts ? text_open(c, opt.counts, &file)
                          : gg_fail(&c->err, GG_ENOMEM, "no memory for counts");
    for (size_t i = 0; i < n_texts() && st == GG_OK; i++) {
        probe_text t = { 0 };
        st = read_tokens(c, e, i, &t);
        for (size_t k = 0; k < t.n && st == GG_OK; k++) counts[t.tokens[k]]++;
        free(t.tokens);
    }
    if (st == GG_OK) st = gg_buf_text(&text, "id\tcount\n", &c->err);
    for (int32_t i = 0; st == GG_OK && i < e->n_vocab; i++)
        if (counts[i])
            st = gg_buf_printf(&text, &c->err, "%d\t%llu\n", i, (unsigned long long)counts[i]);
    st = text_end(c, opt.counts, file, &text, st);
    gg_buf_free(&text);
    free(counts);
    return st;
}

static gg_status refuse_outputs(cli *c)
{
    gg_status st = opt.save ? gg_refuse_existing(opt.save, c->run.force, &c->err) : GG_OK;
    if (st != GG_OK || !opt.activations) return st;
    return gg_refuse_existing(opt.activations, c->run.force, &c->err);
}

static gg_status probe_model(cli *c)
{
    probe_engine e = { 0 };
    probe_base base = { 0 }, save = { 0 };
    watchers w = { 0 };
    uint64_t tokens = 0;
    probe_setup setup = setup_of(c);
    gg_status st = refuse_outputs(c);
    if (opt.activations && !(w.inputs = probe_inputs_new((size_t)opt.rows, opt.seed)))
        st = gg_fail(&c->err, GG_ENOMEM, "no memory for samples");
    if (opt.trace || opt.activations) setup.watch = watch_all, setup.watcher = &w;
    if (st == GG_OK && opt.against) st = load_reference(c, &base);
    if (st == GG_OK) st = open_model(c, opt.model, &setup, &e);
    if (st == GG_OK) describe_base(&e, &save);
    if (st == GG_OK && opt.counts) st = save_counts(c, &e);
    else if (st == GG_OK)
        st = measure_texts(c, &e, opt.against ? &base : NULL, opt.save ? &save : NULL, &tokens);
    if (st == GG_OK && opt.trace) st = print_trace(c, &w.trace);
    if (st == GG_OK && opt.save) st = probe_base_save(&save, opt.save, &c->run, &c->err);
    if (st == GG_OK && opt.activations) st = save_activations(c, w.inputs, tokens);
    probe_close(&e);
    probe_base_free(&base);
    probe_base_free(&save);
    probe_trace_free(&w.trace);
    probe_inputs_free(w.inputs);
    return st;
}

/* ---- many requests --------------------------------------------------------------------------- */

#define REQUEST 8192 /* bytes */

/* The reference's distributions of one text. */
typedef struct text_base {
    char *text;
    probe_base base;
} text_base;

typedef struct server {
    probe_engine e;
    char model[REQUEST]; /* that is loaded */
    probe_weight weight;
    text_base *bases;
    size_t n;
} server;

/* The distributions of the only text in opt.texts, which are made when it is first asked for. */
static gg_status base_of(cli *c, server *s, const probe_base **out)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->bases[i].text, opt.texts.items[0]) == 0) {
            *out = &s->bases[i].base;
            return GG_OK;
        }
    text_base one = { .text = strdup(opt.texts.items[0]) };
    gg_status st = one.text ? GG_ROOM(s->bases, s->n, NULL, &c->err)
                            : gg_fail(&c->err, GG_ENOMEM, "out of memory");
    if (st == GG_OK) st = load_reference(c, &one.base);
    if (st == GG_OK) {
        s->bases[s->n] = one;
        *out = &s->bases[s->n++].base;
        return GG_OK;
    }
    free(one.text);
    probe_base_free(&one.base);
    return st;
}

static gg_status load_model(cli *c, server *s, const char *model)
{
    probe_setup setup = setup_of(c);
    if (strcmp(s->model, model) == 0) return GG_OK;
    probe_close(&s->e);
    s->model[0] = 0;
    setup.watch = probe_watch_weight, setup.watcher = &s->weight;
    gg_status st = open_model(c, model, &setup, &s->e);
    if (st == GG_OK) snprintf(s->model, sizeof s->model, "%s", model);
    s->e.path = s->model;
    return st;
}

/* The field of a request that begins there. */
static void print_field(const char *field)
{
    char shown[4 * REQUEST];
    gg_escape(field, strcspn(field, "\t"), shown, sizeof shown);
    printf("%s\t", shown);
}

/* KIND, MODEL, TEXT, and perhaps TENSOR and DONOR. */
static gg_status answer(cli *c, server *s, char *line)
{
    char *field[5] = { line };
    size_t n = 1;
    for (char *p = line; n < 5 && (p = strchr(p, '\t')); field[n++] = p) *p++ = 0;
    bool kl = strcmp(line, "kl") == 0;
    if ((n != 3 && n != 5) || (!kl && strcmp(line, "ppl") != 0) || (kl && !opt.against))
        return gg_fail(&c->err, GG_EUSAGE, "unknown request");
    const char *text = field[2], *donor = field[4];
    size_t token = 0;
    losses l = { 0 };
    gg_texts given = opt.texts;
    opt.texts = (gg_texts){ .items = &text, .n = 1 };
    s->weight.name = field[3];
    print_field(field[1]);
    print_field(text);
    gg_status st = kl ? base_of(c, s, &l.base) : GG_OK;
    if (st == GG_OK) st = load_model(c, s, field[1]);
    if (st == GG_OK && kl) st = check_vocabulary(c, &s->e, l.base);
    if (st == GG_OK && donor) st = probe_take_weight(&s->e, &s->weight, donor, &c->err);
    if (st == GG_OK) st = measure_text(c, &s->e, 0, &token, &l);
    probe_return_weight(&s->weight);
    opt.texts = given;
    double sum = kl ? l.divergence : l.sum;
    if (st == GG_OK) printf("%.10g\t%zu\n", kl ? sum / (double)l.n : exp(sum / (double)l.n), l.n);
    free(l.kl);
    return st;
}

/* Reads no more than the line, so that another process can go on after it. */
static bool read_request(char *line)
{
    size_t n = 0;
    ssize_t got;
    while ((got = read(0, line + n, 1)) == 1 && line[n] != '\n')
        if (n + 2 < REQUEST) n++;
    line[n] = 0;
    return got == 1;
}

static gg_status serve(cli *c, char *line)
{
    server s = { 0 };
    while (read_request(line)) {
        char copy[REQUEST];
        if (!line[0] || line[0] == '#') continue;
        snprintf(copy, sizeof copy, "%s", line);
        if (answer(c, &s, copy) != GG_OK) {
            printf("error\t%s%s%s\n", c->err.file, c->err.file[0] ? ": " : "", c->err.what);
            c->err = (gg_error)GG_ERROR_INIT;
        }
        line[0] = 0;
        fflush(stdout);
    }
    probe_close(&s.e);
    for (size_t i = 0; i < s.n; i++) {
        free(s.bases[i].text);
        probe_base_free(&s.bases[i].base);
    }
    free(s.bases);
    return GG_OK;
}

/* ---- the process of the engine --------------------------------------------------------------- */

/* Shared with the process that runs the engine. */
typedef struct shared_state {
    bool batch;
    char line[REQUEST]; /* the request that it is working on */
} shared_state;

static pid_t engine_process;

static void forward_signal(int sig)
{
    if (engine_process > 0) kill(engine_process, sig);
}

static int run_engine(int argc, char **argv, shared_state *shared)
{
    CLI_TOOL(c, probe);
    signal(SIGINT, SIG_DFL), signal(SIGTERM, SIG_DFL), signal(SIGHUP, SIG_DFL);
    cli_start(&c, argc, argv, options);
    shared->batch = opt.batch;
    if (!opt.batch) return cli_end(&c, probe_model(&c));
    signal(SIGINT, SIG_DFL), signal(SIGTERM, SIG_DFL), signal(SIGHUP, SIG_DFL);
    return cli_end(&c, serve(&c, shared->line));
}

/* The engine ends its process at some broken models, so it has one of its own. Returns its exit
 * status, or -1 if it crashed. */
static int run_guarded(int argc, char **argv, shared_state *shared)
{
    int status = 0;
    engine_process = fork();
    if (engine_process < 0) {
        perror("organ-probe: cannot start a process");
        return 4;
    }
    if (engine_process == 0) exit(run_engine(argc, argv, shared));
    while (waitpid(engine_process, &status, 0) < 0) continue;
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    int sig = WTERMSIG(status);
    if (sig == SIGABRT || sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL)
        return -1;
    signal(sig, SIG_DFL);
    raise(sig);
    return 128 + sig;
}

int main(int argc, char **argv)
{
    shared_state *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    if (shared == MAP_FAILED) {
        perror("organ-probe: no memory");
        return 4;
    }
    signal(SIGINT, SIG_IGN), signal(SIGTERM, forward_signal), signal(SIGHUP, forward_signal);
    while ((status = run_guarded(argc, argv, shared)) == -1 && shared->batch && shared->line[0]) {
        const char *model = strchr(shared->line, '\t');
        const char *text = model ? strchr(model + 1, '\t') : NULL;
        print_field(model ? model + 1 : "-");
        if (text) print_field(text + 1);
        printf("error\tthe engine ended while it ran this model\n");
        fflush(stdout);
        shared->line[0] = 0;
    }
    if (status >= 0) return status;
    fprintf(stderr, "organ-probe: the engine ended while it ran the model; organ-check may tell "
                    "what is wrong with it\n");
    return 3;
}
