/* organ-info - tell what a model file is: one screen for one file, one row per file for several. */
#include "common/cli.h"
#include "common/model_text.h"
#include "common/table.h"

#include "base/text.h"           /* endings of names */
#include "gguf/gguf.h"           /* the value of a key */
#include "organ/source_layout.h" /* stored names */
#include "organ/source_watch.h"  /* the files of a source, for their size */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: organ-info MODEL...\n"
    "Tell what a model is: kind, architecture, size, types, shape, vocabulary, chat\n"
    "template, origin, memory for weights and cache, and whether an engine will load\n"
    "it. One screen for one model, a table for several. Only headers are read. MODEL\n"
    "is a GGUF file, any shard of a split model, an organ directory, or - for stdin.\n"
    ,
    "  organ-info tests/data/lab/lab-verse-q4_k_m.gguf\n"
    "  organ-info tests/data/lab/lab-verse-q4_k_m.gguf \\\n"
    "    tests/data/lab/lab-base-q4_k_m.gguf\n"
    "  organ-info tests/data/lab/lab-verse-q4_k_m.gguf --fit 8M\n"
    "exit: 0 done, 1 it does not fit, 2 usage, 3 malformed input, 4 I/O failure\n"
};
/* clang-format on */

static const char columns[] =
    "file\tkind\tform\tarchitecture\tname\tparameters\tactive\tbytes\tbpw\ttypes\tblocks\tcontext\t"
    "embedding\theads\theads_kv\texperts\texperts_used\tvocabulary\ttokenizer\ttemplate\tlicense\t"
    "origin\tshards\tmissing\tcache_4k\tcache_32k\tcache_full\tcache_full_q8_0\tfit\terrors\t"
    "warnings\tverdict\ttype\tfile_bytes\tcomputation";
/* What fits on a terminal. */
static const char short_columns[] = "file\tkind\tname\tparameters\ttype\tsize\tcontext\tcheck";
static const char narrow_columns[] = "file\tkind\tname\tparams\ttype\tsize\tcontext\tcheck";
#define NARROW 110 /* columns of a terminal; shorter words are used on a narrower one */

static struct {
    uint64_t fit, context;
    bool table;
} opt;

static const cli_option options[] = {
    { "", CLI_MODEL, .arg = "MODEL", .place = 1, .many = true },
    { "fit", CLI_SIZE, .to = &opt.fit, .arg = "SIZE",
      .help = "print the largest context with which weights, cache and computing need at most "
              "SIZE, such as 24G; exit 1 if none fits, or not that of --context" },
    { "context", CLI_COUNT, .to = &opt.context, .arg = "N",
      .help = "tell the memory for a context of N tokens (4096, or all)" },
    { "table", CLI_FLAG, .to = &opt.table, .help = "print a row for a single model, too" },
    { "where", CLI_WHERE, .at = offsetof(cli, wheres), .arg = "COND", .many = true,
      .values = columns,
      .help = "only rows that satisfy it: 'bpw<5', 'kind=adapter', 'architecture=qwen*'; implies "
              "--table; may be repeated" },
    { .group = cli_common },
    { "json", CLI_FLAG, .at = offsetof(cli, json), .flow = ", " },
    { 0 },
};

/* A model, and what the tables and the screen tell about it. */
typedef struct subject {
    const char *file;
    gg_source *source;
    gg_info info;
    uint64_t file_bytes; /* of all its files */
    const char *type;    /* "Q4_K_M", or the type of most bytes */
} subject;

/* The contexts of the table, in tokens. */
enum { SHORT_CONTEXT = 4096, LONG_CONTEXT = 32768 };

/* ---- texts --------------------------------------------------------------------- */

/* "2.9 million", or the number itself below 10,000. */
static void count_text(uint64_t n, char out[32])
{
    static const char *const words[] = { "thousand", "million", "billion", "trillion" };
    double v = (double)n / 1000;
    size_t u = 0;
    if (n < 10000) {
        snprintf(out, 32, "%" PRIu64, n);
        return;
    }
    while (v >= 999.5 && u + 1 < sizeof words / sizeof words[0]) v /= 1000, u++;
    snprintf(out, 32, v >= 99.95 ? "%.0f %s" : v >= 9.995 ? "%.1f %s" : "%.2f %s", v, words[u]);
}

/* "2.89M" */
static void number_text(uint64_t n, char out[24])
{
    double v = (double)n;
    size_t u = 0;
    while (v >= 999.5 && u < 4) v /= 1000, u++;
    snprintf(out, 24,
             u == 0 || v >= 99.95 ? "%.0f%.1s"
             : v >= 9.995         ? "%.1f%.1s"
                                  : "%.2f%.1s",
             v, &" KMBT"[u] + (u == 0 ? 5 : 0));
}

static void escaped(gg_text t, char *out, size_t size)
{
    gg_escape(t.at ? t.at : "-", t.at ? t.len : 1, out, size);
}

/* "Q4_K 62%, Q6_K 37%, F32 1%", by bytes, each after its sign in a bar if there is one. */
static void types_text(const gg_info *info, const char *fills, char *out, size_t size)
{
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; i < info->n_types && at + 24 < size; i++) {
        const gg_dtype_info *d = gg_dtype_get(info->types[i].dtype);
        double share = info->bytes ? 100 * (double)info->types[i].bytes / (double)info->bytes : 0;
        at += (size_t)snprintf(out + at, size - at, "%s", i ? ", " : "");
        if (fills) at += (size_t)snprintf(out + at, size - at, "%c ", fills[i < 5 ? i : 5]);
        at += (size_t)snprintf(out + at, size - at, "%s %.*f%%", d ? d->name : "?",
                               share >= 1 || share == 0 ? 0 : 1, share);
    }
}

static const char *template_text(const gg_info *i)
{
    static const char *const words[] = { "no", "yes", "unknown tokens" };
    return words[i->template_state];
}

/* The names of what the model was made from, separated by ", ". */
static void origins_text(const gg_info *info, char *out, size_t size)
{
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; i < info->n_origins && at + 3 < size; i++) {
        if (i) at += (size_t)snprintf(out + at, size - at, ", ");
        size_t n = gg_escape(info->origins[i].at, info->origins[i].len, out + at, size - at);
        at += n < size - at ? n : size - at - 1;
    }
}

/* About what an engine needs to compute with: the values of a batch of 512 tokens in F32, which are
 * most for the vocabulary or for a feed-forward layer. */
static uint64_t computation(const gg_info *i)
{
    const uint64_t limit = (uint64_t)1 << 40;
    uint64_t ff = i->feed_forward < limit ? i->feed_forward : limit;
    uint64_t width = i->embedding < limit ? i->embedding : limit;
    uint64_t inner = 2 * ff + 3 * width, words = i->vocabulary < limit ? i->vocabulary : limit;
    return 512 * sizeof(float) * (words > inner ? words : inner);
}

/* The memory for weights, a cache for `tokens` tokens of context, and computing. */
static uint64_t memory_for(const gg_info *i, uint64_t weights, uint64_t tokens)
{
    uint64_t cache = gg_cache_bytes(&i->cache, tokens, GG_F16), more = computation(i);
    if (cache > UINT64_MAX - more || weights > UINT64_MAX - more - cache) return UINT64_MAX;
    return weights + cache + more;
}

/* The context that memory is computed for: that of --context, or at most 4096 tokens. */
static uint64_t usual_context(const gg_info *i)
{
    if (opt.context) return opt.context;
    return i->context && i->context < SHORT_CONTEXT ? i->context : SHORT_CONTEXT;
}

/* Whether --fit has an answer: the cache is known, or the weights alone are too large. */
static bool fit_is_known(const gg_info *i)
{
    return i->kind == GG_KIND_MODEL && (i->cache.known || memory_for(i, i->bytes, 0) >= opt.fit);
}

static uint64_t fitting_context(const gg_info *i)
{
    uint64_t least = memory_for(i, i->bytes, 0);
    if (!i->cache.known || least >= opt.fit) return 0;
    uint64_t most = i->context ? i->context : SHORT_CONTEXT;
    if (opt.context > most) most = opt.context;
    uint64_t fits = gg_cache_fit(&i->cache, most + 255, GG_F16, opt.fit - least);
    return fits < most ? fits : most;
}

/* Whether the context that was asked for, or any, fits. */
static bool does_fit(const gg_info *i)
{
    uint64_t fits = fitting_context(i);
    return fits > 0 && fits >= opt.context;
}

/* The preset with the most bits per weight of those that would fit; NULL if none does, or if the
 * model has fewer bits already. The bits are those of usual language models. */
static const char *fitting_preset(const gg_info *i)
{
    static const struct {
        const char *name;
        double bits;
    } presets[] = { { "q8_0", 8.5 },   { "q6_k", 6.57 },   { "q5_k_m", 5.7 },
                    { "q4_k_m", 4.9 }, { "q3_k_m", 3.95 }, { "q2_k", 3.2 } };
    for (size_t k = 0; k < sizeof presets / sizeof presets[0]; k++) {
        double weights = (double)i->elements * presets[k].bits / 8;
        if (presets[k].bits < bits_per_weight(i) && weights < 1e18 &&
            memory_for(i, (uint64_t)weights, usual_context(i)) <= opt.fit)
            return presets[k].name;
    }
    return NULL;
}

/* ---- facts beyond gg_info ------------------------------------------------------------ */

static gg_status add_file(void *ctx, const gg_stamp *was, int fd, const char *path, gg_error *err)
{
    (void)fd;
    (void)path;
    (void)err;
    *(uint64_t *)ctx += was->size;
    return GG_OK;
}

/* The name of the preset in general.file_type if it fits the tensors, or the type of most bytes. */
static const char *type_of(const gg_source *s, const gg_info *i)
{
    const gg_meta *meta = gg_source_meta(s);
    uint64_t given;
    if (i->n_types == 0) return NULL;
    uint32_t most = i->types[0].dtype;
    if (meta && i->kind == GG_KIND_MODEL &&
        gg_kv_u64(gg_meta_find(meta, "general.file_type"), &given))
        for (size_t k = 0; gg_preset_at(k); k++)
            if (gg_preset_at(k)->file_type == given && gg_preset_at(k)->dtype == most)
                return gg_preset_at(k)->name;
    return gg_dtype_get(most) ? gg_dtype_get(most)->name : NULL;
}

/* ---- one row per model ------------------------------------------------------------ */

static table_cell cell_number(uint64_t v)
{
    return v ? cell_u64(v) : cell_null();
}

static table_cell cell_key(gg_text text)
{
    return text.at ? cell_bytes(text.at, text.len) : cell_null();
}

static table_cell cell_cache(const gg_info *i, uint64_t context, uint32_t dtype)
{
    return i->cache.known && context ? cell_u64(gg_cache_bytes(&i->cache, context, dtype))
                                     : cell_null();
}

static bool print_row(table *t, const subject *x)
{
    const gg_info *i = &x->info;
    char types[600], origins[600], verdict[700];
    types_text(i, NULL, types, sizeof types);
    origins_text(i, origins, sizeof origins);
    if (gg_check_verdict(&i->check) == GG_VERDICT_FINDINGS)
        snprintf(verdict, sizeof verdict, "%s", i->check.worst);
    else gg_check_verdict_text(&i->check, verdict);
    table_put(t, cell_text(x->file), cell_text(gg_kind_name(i->kind)), cell_text(i->form),
              cell_key(i->architecture), cell_key(i->name), cell_u64(i->elements),
              cell_u64(i->active), cell_u64(i->bytes), cell_f64(bits_per_weight(i)),
              cell_text(types), cell_number(i->blocks), cell_number(i->context),
              cell_number(i->embedding), cell_number(i->heads), cell_number(i->heads_kv),
              cell_number(i->experts), cell_number(i->experts_used), cell_number(i->vocabulary),
              cell_key(i->tokenizer), cell_text(template_text(i)), cell_key(i->license),
              cell_text_if(origins), cell_u64(i->shards), cell_u64(i->shards_missing),
              cell_cache(i, SHORT_CONTEXT, GG_F16), cell_cache(i, LONG_CONTEXT, GG_F16),
              cell_cache(i, i->context, GG_F16), cell_cache(i, i->context, GG_Q8_0),
              opt.fit && fit_is_known(i) ? cell_u64(fitting_context(i)) : cell_null(),
              cell_u64(i->check.found[GG_CHECK_ERROR]), cell_u64(i->check.found[GG_CHECK_WARNING]),
              cell_escaped(verdict), cell_text_if(x->type), cell_number(x->file_bytes),
              i->cache.known ? cell_u64(computation(i)) : cell_null());
    return table_row(t);
}

static bool narrow(void)
{
    return table_terminal() < NARROW;
}

/* If the row is short, of a long path only the last part. */
static void put_file(table *t, const char *file, bool brief)
{
    char text[300];
    const char *name = strrchr(file, '/');
    if (brief && narrow()) file = name && name[1] ? name + 1 : file;
    else if (brief && strlen(file) > 32 && name && name[1]) {
        snprintf(text, sizeof text, "...%s", name);
        file = text;
    }
    table_put(t, cell_text(file));
}

/* The kind in one word. */
static const char *short_kind(const char *kind)
{
    if (strcmp(kind, "language model") == 0) return "model";
    if (strcmp(kind, "importance matrix") == 0) return "imatrix";
    return strcmp(kind, "not readable") == 0 ? "broken" : kind;
}

static table_cell cell_kind(const char *kind)
{
    return cell_text(narrow() ? short_kind(kind) : kind);
}

static void print_short_row(table *t, const subject *x)
{
    const gg_info *i = &x->info;
    char count[24], size[24] = "", check[60] = "not checked";
    const size_t *found = i->check.found;
    number_text(i->elements, count);
    size_text(x->file_bytes ? x->file_bytes : i->bytes, size);
    if (gg_check_verdict(&i->check) == GG_VERDICT_SOUND)
        snprintf(check, sizeof check, "no findings");
    for (int level = 0; level < GG_CHECK_LEVELS; level++) {
        static const char *const words[GG_CHECK_LEVELS] = {
            [GG_CHECK_ERROR] = "error", [GG_CHECK_WARNING] = "warning", [GG_CHECK_NOTE] = "note"
        };
        if (found[level])
            snprintf(check, sizeof check, "%zu %s%s", found[level], words[level],
                     cli_s(found[level]));
    }
    put_file(t, x->file, true);
    table_line(t, cell_kind(gg_kind_name(i->kind)), cell_key(i->name), cell_text(count),
               cell_text_if(x->type), cell_text(size), cell_number(i->context), cell_text(check));
}

/* A file that cannot be read has a row too. */
static void print_failure(table *t, const char *list, const char *file, const gg_error *err)
{
    char why[500];
    bool brief = list != columns;
    gg_error_line(err, "", why, sizeof why);
    for (const char *name = list; name; name = strchr(name, '\t') ? strchr(name, '\t') + 1 : NULL) {
        size_t n = strcspn(name, "\t");
        if (gg_text_is(name, n, "file")) put_file(t, file, brief);
        else if (gg_text_is(name, n, "kind"))
            table_put(t, brief ? cell_kind("not readable") : cell_text("not readable"));
        else if (gg_text_is(name, n, "errors")) table_put(t, cell_u64(1));
        else if (gg_text_is(name, n, "verdict"))
            table_put(t, cell_escaped(strncmp(why, ": ", 2) == 0 ? why + 2 : why));
        else table_put(t, cell_null());
    }
    table_row(t);
}

/* ---- one screen for one model -------------------------------------------------------- */

static void GG_PRINTF(2, 3) line(const char *name, const char *fmt, ...)
{
    char value[700];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    if (value[0]) printf("  %-11s %s\n", name, value);
}

static void print_types(const gg_info *i)
{
    static const char fills[] = "#=+:-."; /* those from the sixth type on share one */
    char bar[41], text[400];
    size_t at = 0;
    double end = 0;
    for (size_t k = 0; k < i->n_types && i->bytes; k++) {
        end += 40 * (double)i->types[k].bytes / (double)i->bytes;
        while (at < 40 && (double)at < end - 0.5) bar[at++] = fills[k < 5 ? k : 5];
    }
    while (at < 40 && at > 0) bar[at] = bar[at - 1], at++;
    bar[at] = 0;
    types_text(i, i->n_types > 1 ? fills : NULL, text, sizeof text);
    line("types", "%s", text);
    line("", "%s", bar);
}

static void print_shape(const gg_info *i)
{
    char heads[80] = "", context[40] = "", active[32];
    if (!i->blocks) return;
    if (i->heads && i->heads_kv && i->heads_kv != i->heads)
        snprintf(heads, sizeof heads, ", %" PRIu64 " heads (%" PRIu64 " for keys and values)",
                 i->heads, i->heads_kv);
    else if (i->heads) snprintf(heads, sizeof heads, ", %" PRIu64 " heads", i->heads);
    if (i->context) snprintf(context, sizeof context, ", context %" PRIu64, i->context);
    line("shape", "%" PRIu64 " blocks%s, embedding %" PRIu64 "%s%s", i->blocks,
         i->mtp_blocks ? " (with prediction blocks)" : "", i->embedding, heads, context);
    if (!i->experts) return;
    count_text(i->active, active);
    line("experts", "%" PRIu64 ", %" PRIu64 " used at once: %s parameters active", i->experts,
         i->experts_used, active);
}

static void print_vocabulary(const gg_info *i)
{
    char model[60], pre[60];
    escaped(i->tokenizer, model, sizeof model);
    escaped(i->tokenizer_pre, pre, sizeof pre);
    if (i->vocabulary)
        line("vocabulary", "%" PRIu64 " tokens (%s%s%s)", i->vocabulary, model,
             i->tokenizer_pre.at ? ", " : "", i->tokenizer_pre.at ? pre : "");
    if (i->kind != GG_KIND_MODEL) return;
    if (i->template_state == GG_TEMPLATE_UNKNOWN_TOKENS)
        line("template", "yes, but the vocabulary lacks %s", i->template_unknown);
    else line("template", "%s", template_text(i));
}

static void print_origin(const gg_info *i)
{
    char names[500], method[60];
    escaped(i->license, names, sizeof names);
    if (i->license.at) line("licence", "%s", names);
    escaped(i->made_by, method, sizeof method);
    origins_text(i, names, sizeof names);
    line(i->kind == GG_KIND_ADAPTER ? "base" : "made from",
         i->made_by.at ? "%s (merged: %s)" : "%s", names, method);
}

/* Adds a word to a list separated by ", " unless it is there, or the list is full. */
static void add_word(char *list, size_t size, const char *word)
{
    size_t at = strlen(list), n = strlen(word);
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p ? 2 : 0)
        if (strcspn(p, ",") == n && memcmp(p, word, n) == 0) return;
    if (at + n + 3 < size) snprintf(list + at, size - at, "%s%s", at ? ", " : "", word);
}

/* The rank if the tensor is the second half of a pair, as GGUF, PEFT, MLX or programs for images
 * name it, and the matrix that the pair is for; else 0. */
static uint64_t rank_of_half(const gg_tensor *t, bool *mlx, char *role, size_t size)
{
    static const struct {
        const char *ending;
        bool outer; /* the rank is the outer dimension */
    } halves[] = { { ".weight.lora_b", false },         { ".lora_B.weight", false },
                   { ".lora_B.default.weight", false }, { ".lora_embedding_B", false },
                   { ".lora_up.weight", false },        { ".lora_b", true } };
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        if (!gg_text_ends(t->name, t->name_len, halves[i].ending) || t->n_dims < 2) continue;
        size_t end = t->name_len - strlen(halves[i].ending), from = end;
        while (from > 0 && t->name[from - 1] != '.') from--;
        gg_escape(t->name + from, end - from, role, size);
        *mlx = halves[i].outer;
        return t->dims[t->n_dims == 4 ? 2 : halves[i].outer];
    }
    return 0;
}

/* Pairs, ranks, alpha and the matrices of a LoRA adapter. */
static void print_adapter(gg_source *s)
{
    char targets[300] = "", role[80], rank[60];
    uint64_t low = UINT64_MAX, high = 0;
    size_t pairs = 0;
    bool mlx = false;
    const gg_meta *meta = gg_source_meta(s);
    float alpha;
    for (size_t k = 0; k < gg_source_count(s); k++) {
        const gg_tensor *t = gg_source_tensor(s, k);
        uint64_t one = rank_of_half(t, &mlx, role, sizeof role);
        if (one == 0) continue;
        pairs++;
        low = one < low ? one : low;
        high = one > high ? one : high;
        add_word(targets, sizeof targets, role);
    }
    if (high == 0) return;
    if (low == high) snprintf(rank, sizeof rank, "%" PRIu64, low);
    else snprintf(rank, sizeof rank, "%" PRIu64 " to %" PRIu64, low, high);
    if (mlx) line("form", "an adapter of MLX");
    if (meta && gg_kv_f32(gg_meta_find(meta, "adapter.lora.alpha"), &alpha))
        line("adapter", "rank %s, alpha %g, %zu pair%s", rank, (double)alpha, pairs, cli_s(pairs));
    else line("adapter", "rank %s, %zu pair%s", rank, pairs, cli_s(pairs));
    line("targets", "%s", targets);
}

/* The cache for `tokens` tokens of context: "512 KiB at 4096". */
static void print_cache(const gg_info *i, uint64_t tokens)
{
    char f16[24], q8[24];
    size_text(gg_cache_bytes(&i->cache, tokens, GG_F16), f16);
    size_text(gg_cache_bytes(&i->cache, tokens, GG_Q8_0), q8);
    line("", "cache %s for %" PRIu64 " tokens (%s as q8_0)", f16, tokens, q8);
}

static void print_fit(const gg_info *i)
{
    char size[24], needed[24];
    size_text(opt.fit, size);
    if (does_fit(i)) {
        line("fit", "%s has room for a context of %" PRIu64 " tokens", size, fitting_context(i));
        return;
    }
    uint64_t tokens = usual_context(i);
    const char *preset = fitting_preset(i);
    size_text(memory_for(i, i->bytes, tokens), needed);
    line("fit", "%s is too small: about %s are needed for %" PRIu64 " tokens; %s%s%s", size, needed,
         tokens, preset ? "as " : "no type makes it that small", preset ? preset : "",
         preset ? " it would fit" : "");
}

static void print_memory(const gg_info *i)
{
    char size[24];
    char total[24];
    if (i->kind != GG_KIND_MODEL) return;
    size_text(i->bytes, size);
    line("memory", "weights %s", size);
    if (!i->cache.known) {
        line("", "the cache of this architecture is not known");
        return;
    }
    if (i->context > SHORT_CONTEXT) print_cache(i, SHORT_CONTEXT);
    if (i->context > LONG_CONTEXT) print_cache(i, LONG_CONTEXT);
    if (i->context) print_cache(i, i->context);
    if (opt.context && opt.context != i->context) print_cache(i, opt.context);
    size_text(computation(i), size);
    size_text(memory_for(i, i->bytes, usual_context(i)), total);
    line("", "in all about %s for %" PRIu64 " tokens, with about %s to compute", total,
         usual_context(i), size);
    if (opt.fit) print_fit(i);
}

static void print_check(const gg_info *i)
{
    char text[700];
    gg_check_verdict_text(&i->check, text);
    line("check", "%s", text);
}

static void print_next(const gg_info *i, const char *file)
{
    char command[1200];
    for (size_t k = 0; k < 3; k++) {
        next_command(i, file, k, command, sizeof command);
        if (!command[0]) continue;
        printf("%s%s\n", k ? "       " : "next:  ", command);
    }
}

static void print_screen(const subject *x)
{
    const gg_info *i = &x->info;
    const char *file = x->file;
    char text[500], arch[80], size[24], count[32], shards[80] = "";
    const char *form = strcmp(i->form, "file") == 0 ? "" : i->form;
    escaped(i->architecture, arch, sizeof arch);
    gg_escape(file, strlen(file), text, sizeof text);
    printf("%s: %s%s%s%s%s\n", text, gg_kind_name(i->kind), i->architecture.at ? ", " : "",
           i->architecture.at ? arch : "", form[0] ? ", " : "", form);
    escaped(i->name, text, sizeof text);
    if (i->name.at) line("name", "%s", text);
    size_text(x->file_bytes ? x->file_bytes : i->bytes, size);
    count_text(i->elements, count);
    if (i->shards_missing)
        snprintf(shards, sizeof shards, " of a set in which %u of %u shards %s missing",
                 i->shards_missing, i->shards + i->shards_missing,
                 i->shards_missing == 1 ? "is" : "are");
    else if (i->shards > 1) snprintf(shards, sizeof shards, " in %u shards", i->shards);
    line("size", "%s%s, %s parameters in %zu tensors, %.2f bits per weight", size, shards, count,
         i->tensors, bits_per_weight(i));
    print_types(i);
    if (i->kind == GG_KIND_ADAPTER && gg_source_seekable(x->source)) print_adapter(x->source);
    print_shape(i);
    print_vocabulary(i);
    print_origin(i);
    print_memory(i);
    print_check(i);
    print_next(i, file);
}

/* ---- the run -------------------------------------------------------------------- */

static const char *list_of(bool brief)
{
    return !brief ? columns : narrow() ? narrow_columns : short_columns;
}

static gg_status tell_about(cli *c, const char *file, table *t, bool brief)
{
    char given[1024];
    subject x = { .file = given_name(file, given, sizeof given) };
    gg_status st = cli_open(c, file, CLI_HEADER_ONLY, &x.source);
    if (st == GG_OK) st = gg_info_of(x.source, &c->run, &x.info, &c->err);
    if (st == GG_OK) st = gg_source_each_file(x.source, add_file, &x.file_bytes, &c->err);
    if (st == GG_OK) {
        x.type = type_of(x.source, &x.info);
        if (!t) print_screen(&x);
        else if (!brief) print_row(t, &x);
        else {
            table probe = table_silent(columns); /* the conditions are about all columns */
            if (c->wheres.n == 0 || print_row(&probe, &x)) print_short_row(t, &x);
        }
        if (opt.fit && x.info.kind == GG_KIND_MODEL && !does_fit(&x.info))
            st = fit_is_known(&x.info)
                     ? gg_fail(&c->err, GG_NO,
                               "its weights, its cache and computing need more memory")
                     : gg_fail(&c->err, GG_EFORMAT,
                               "whether it fits is not known, because the cache of this "
                               "architecture is not known");
        if (st != GG_OK) gg_at_file(&c->err, file);
    } else if (t && st != GG_ECANCELLED && st != GG_ENOMEM) {
        if (!brief || c->wheres.n == 0) print_failure(t, list_of(brief), file, &c->err);
    }
    gg_source_close(x.source);
    return st;
}

/* "--fit 24" means 24 GiB: nobody has 24 bytes. */
static void read_fit(cli *c)
{
    if (opt.fit == 0 || opt.fit > 4096) return;
    cli_note(c, "--fit %" PRIu64 " is read as %" PRIu64 "G", opt.fit, opt.fit);
    opt.fit <<= 30;
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, info);
    cli_start(&c, argc, argv, options);
    c.stored_names = true;
    if (c.args.n == 0) cli_usage(&c, "no model given");
    read_fit(&c);
    bool rows = c.args.n > 1 || c.json || opt.table || c.wheres.n;
    bool brief = rows && !c.json && !opt.table && isatty(STDOUT_FILENO);
    table t = { .json = c.json };
    gg_status st = GG_OK;
    if (brief) table_fit("name");
    for (size_t i = 0; i < c.args.n; i++) {
        if (rows) table_begin(&t, list_of(brief));
        gg_status one = tell_about(&c, c.args.items[i], rows ? &t : NULL, brief);
        if (one != GG_OK) st = one;
        if (one == GG_OK || i + 1 == c.args.n) continue; /* cli_end prints the last error */
        cli_print_error(&c, &c.err);
        c.err = (gg_error)GG_ERROR_INIT;
    }
    return cli_end(&c, st);
}
