/* organ-info - tell what a model file is: one screen for one file, one row per file for several. */
#include "common/cli.h"
#include "common/model_text.h"
#include "common/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char columns[] =
    "file\tkind\tform\tarchitecture\tname\tparameters\tactive\tbytes\tbpw\ttypes\tblocks\tcontext\t"
    "embedding\theads\theads_kv\texperts\texperts_used\tvocabulary\ttokenizer\ttemplate\tlicense\t"
    "origin\tshards\tmissing\tcache_4k\tcache_32k\tcache_full\tcache_full_q8_0\tfit\terrors\t"
    "warnings\tverdict";

static struct {
    uint64_t fit;
    bool table;
} opt;

#include "options/info.h"

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

static void escaped(gg_text t, char *out, size_t size)
{
    gg_escape(t.at ? t.at : "-", t.at ? t.len : 1, out, size);
}

/* "Q4_K 62%, Q6_K 37%, F32 1%", by bytes. */
static void types_text(const gg_info *info, char *out, size_t size)
{
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; i < info->n_types && at + 24 < size; i++) {
        const gg_dtype_info *d = gg_dtype_get(info->types[i].dtype);
        double share = info->bytes ? 100 * (double)info->types[i].bytes / (double)info->bytes : 0;
        at += (size_t)snprintf(out + at, size - at, "%s%s %.*f%%", i ? ", " : "", d ? d->name : "?",
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

static uint64_t fitting_context(const gg_info *i)
{
    if (!i->cache.known || i->bytes >= opt.fit) return 0;
    uint64_t most = i->context ? i->context : SHORT_CONTEXT;
    uint64_t fits = gg_cache_fit(&i->cache, most + 255, GG_F16, opt.fit - i->bytes);
    return fits < most ? fits : most;
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

static void print_row(table *t, const char *file, const gg_info *i)
{
    char types[600], origins[600], verdict[700];
    types_text(i, types, sizeof types);
    origins_text(i, origins, sizeof origins);
    if (gg_check_verdict(&i->check) == GG_VERDICT_FINDINGS)
        snprintf(verdict, sizeof verdict, "%s", i->check.worst);
    else gg_check_verdict_text(&i->check, verdict);
    table_line(t, cell_text(file), cell_text(gg_kind_name(i->kind)), cell_text(i->form),
               cell_key(i->architecture), cell_key(i->name), cell_u64(i->elements),
               cell_u64(i->active), cell_u64(i->bytes), cell_f64(bits_per_weight(i)),
               cell_text(types), cell_number(i->blocks), cell_number(i->context),
               cell_number(i->embedding), cell_number(i->heads), cell_number(i->heads_kv),
               cell_number(i->experts), cell_number(i->experts_used), cell_number(i->vocabulary),
               cell_key(i->tokenizer), cell_text(template_text(i)), cell_key(i->license),
               cell_text_if(origins), cell_u64(i->shards), cell_u64(i->shards_missing),
               cell_cache(i, SHORT_CONTEXT, GG_F16), cell_cache(i, LONG_CONTEXT, GG_F16),
               cell_cache(i, i->context, GG_F16), cell_cache(i, i->context, GG_Q8_0),
               opt.fit ? cell_u64(fitting_context(i)) : cell_null(),
               cell_u64(i->check.found[GG_CHECK_ERROR]), cell_u64(i->check.found[GG_CHECK_WARNING]),
               cell_escaped(verdict));
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
    static const char fills[] = "#=+:-.";
    char bar[41], text[400];
    size_t at = 0;
    double end = 0;
    for (size_t k = 0; k < i->n_types && i->bytes; k++) {
        end += 40 * (double)i->types[k].bytes / (double)i->bytes;
        while (at < 40 && (double)at < end - 0.5) bar[at++] = fills[k < 5 ? k : 5];
    }
    while (at < 40 && at > 0) bar[at] = bar[at - 1], at++;
    bar[at] = 0;
    types_text(i, text, sizeof text);
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
    line("made from", i->made_by.at ? "%s (merged: %s)" : "%s", names, method);
}

/* The cache for `tokens` tokens of context: "512 KiB at 4096". */
static void print_cache(const gg_info *i, uint64_t tokens)
{
    char f16[24], q8[24];
    size_text(gg_cache_bytes(&i->cache, tokens, GG_F16), f16);
    size_text(gg_cache_bytes(&i->cache, tokens, GG_Q8_0), q8);
    line("", "cache %s for %" PRIu64 " tokens (%s as q8_0)", f16, tokens, q8);
}

static void print_memory(const gg_info *i)
{
    char size[24];
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
    if (!opt.fit) return;
    size_text(opt.fit, size);
    uint64_t fits = fitting_context(i);
    if (fits) line("fit", "%s has room for a context of %" PRIu64 " tokens", size, fits);
    else line("fit", "%s is too small", size);
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

static void print_screen(const char *file, const gg_info *i)
{
    char text[500], arch[80], size[24], count[32], shards[80] = "";
    const char *form = strcmp(i->form, "file") == 0 ? "" : i->form;
    escaped(i->architecture, arch, sizeof arch);
    gg_escape(file, strlen(file), text, sizeof text);
    printf("%s: %s%s%s%s%s\n", text, gg_kind_name(i->kind), i->architecture.at ? ", " : "",
           i->architecture.at ? arch : "", form[0] ? ", " : "", form);
    escaped(i->name, text, sizeof text);
    if (i->name.at) line("name", "%s", text);
    size_text(i->bytes, size);
    count_text(i->elements, count);
    if (i->shards_missing)
        snprintf(shards, sizeof shards, " of a set in which %u of %u shards %s missing",
                 i->shards_missing, i->shards + i->shards_missing,
                 i->shards_missing == 1 ? "is" : "are");
    else if (i->shards > 1) snprintf(shards, sizeof shards, " in %u shards", i->shards);
    line("size", "%s%s, %s parameters in %zu tensors, %.2f bits per weight", size, shards, count,
         i->tensors, bits_per_weight(i));
    print_types(i);
    print_shape(i);
    print_vocabulary(i);
    print_origin(i);
    print_memory(i);
    print_check(i);
    print_next(i, file);
}

/* ---- the run -------------------------------------------------------------------- */

static gg_status tell_about(cli *c, const char *file, table *t)
{
    gg_source *s;
    gg_info info;
    gg_status st = cli_open(c, file, CLI_HEADER_ONLY, &s);
    if (st != GG_OK) return st;
    st = gg_info_of(s, &c->run, &info, &c->err);
    if (st == GG_OK && t) print_row(t, file, &info);
    else if (st == GG_OK) print_screen(file, &info);
    if (st == GG_OK && opt.fit && info.kind == GG_KIND_MODEL && fitting_context(&info) == 0)
        st = gg_fail(&c->err, GG_NO, "its weights and cache need more memory");
    if (st != GG_OK) gg_at_file(&c->err, file);
    gg_source_close(s);
    return st;
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, info);
    cli_start(&c, argc, argv, options);
    if (c.args.n == 0) cli_usage(&c, "no model given");
    bool rows = c.args.n > 1 || c.json || opt.table || c.wheres.n;
    table t = { .json = c.json };
    gg_status st = GG_OK;
    for (size_t i = 0; i < c.args.n; i++) {
        if (rows) table_begin(&t, columns);
        gg_status one = tell_about(&c, c.args.items[i], rows ? &t : NULL);
        if (one != GG_OK) st = one;
        if (one == GG_OK || i + 1 == c.args.n) continue; /* cli_end prints the last error */
        cli_print_error(&c, &c.err);
        c.err = (gg_error)GG_ERROR_INIT;
    }
    return cli_end(&c, st);
}
