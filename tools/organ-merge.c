/* organ-merge - merge several models into one. */
#include "cli.h"
#include "key_options.h"
#include "lists.h"
#include "organ/gg_merge.h"
#include "output_options.h"
#include "pictures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONFIG_MAX ((size_t)16 << 20)

static const char help[] =
    "usage: organ-merge --method NAME [--base M] --model M... --output OUT.gguf\n"
    "       organ-merge --config FILE --output OUT.gguf\n"
    "       organ-merge --svg FILE MODEL\n"
    "Merge models of one architecture, tensor by tensor, in bounded memory. They may\n"
    "have any types. The base, or else the first model, gives keys and types.\n"
    "\n"
    "  --method NAME      linear, slerp, nuslerp, multislerp, karcher, passthrough;\n"
    "                     of differences (--list-methods): task, ties, dare-linear,\n"
    "                     dare-ties, della, della-linear, breadcrumbs, sce, ram,\n"
    "                     breadcrumbs-ties, ramplus, model-stock, iso; of the base\n"
    "                     and one model: nearswap, arcee-fusion\n"
    "  --base M           the model that the others were trained from\n"
    "  --model M          a model to merge (may be repeated): a GGUF file, any shard\n"
    "                     of a split model, an organ directory, or - for stdin\n"
    "  NAME,P=V  M,P=V    of all models, or one (--list-parameters). V is a number, a\n"
    "                     ramp over the blocks 0.2..0.8, or a list [0,0.5,1].\n"
    "                     P:FILTER=V is for a class, a role or a glob of tensors:\n"
    "                     weight:ffn=0.3, t:attn_q=0.5\n"
    "  --config FILE      a mergekit configuration as JSON; - is stdin. From YAML:\n"
    "                     yq -o json config.yml | organ-merge --config - -o OUT.gguf\n"
    "  --embed-from base  keep the embeddings of the base (or the first model)\n"
    "  --align            bring the models into the order of the base's hidden units\n"
    "  --seed N           for methods that drop values at random (0)\n"
    "  --output FILE      the model to write; - is stdout\n"
    "  --check            print what would be done to each tensor; write nothing\n"
    "  --svg FILE         draw how each tensor is merged, or was merged into MODEL\n"
    "  --card FILE        write a model card in Markdown; --no-hash leaves out sha256\n"
    "  --dtype PRESET|GLOB=TYPE,...  re-encode as organ-assemble; --fallback TYPE\n"
    "  --imatrix F        encode with the importance matrix F (GGUF or older format)\n"
    "  --set-kv K=T:V     set a key (may be repeated); --set-kv-file K=FILE\n"
    "  --shards N         split the output; --shard-size SIZE, such as 2G\n"
    "  --strict           write nothing if models are strangers, or it would not load\n"
    "  --force            replace an existing output\n"
    "common: -j N, -q, -v, --json (with --check), --help, --version\n"
    "\n"
    "examples:\n"
    "  organ-merge --method slerp,t=0.5 \\\n"
    "    --base tests/data/lab/lab-verse-q4_k_m.gguf \\\n"
    "    --model tests/data/lab/lab-code-q4_k_m.gguf --output /tmp/both.gguf --force\n"
    "  organ-merge --method task --base tests/data/lab/lab-base-q4_k_m.gguf \\\n"
    "    --model tests/data/lab/lab-verse-q4_k_m.gguf --check\n"
    "exit: 0 done, 1 models do not fit, 2 usage, 3 malformed input, 4 I/O failure\n";

#define HOW_MERGED "How each tensor is merged, and with which parameters:"

typedef struct arguments {
    const char *output, *embeddings, *config;
    const char *svg;
    bool check;
    cli_list models, set_kv, set_kv_files;
    output_options out;
    gg_merge_options o;
} arguments;

/* True if nothing was asked for but a picture. */
static bool only_picture(const arguments *a)
{
    return a->svg && !a->output && !a->embeddings && !a->config && !a->check && !a->models.n &&
           !a->set_kv.n && !a->set_kv_files.n && !a->out.dtype && !a->out.fallback &&
           !a->out.imatrix && a->out.shards == UINT64_MAX && !a->out.shard_size && !a->o.base &&
           !a->o.method && !a->o.card && !a->o.align && !a->o.no_hash;
}

static gg_status print_tensor(void *ctx, const gg_tensor *t, const gg_anatomy *a, const char *how,
                              const char *parameters, gg_error *err)
{
    table *to = ctx;
    const gg_dtype_info *type = gg_dtype_get(t->dtype);
    (void)err;
    table_begin(to, "name\tclass\tdtype\telements\thow\tparameters");
    cell_bytes(to, t->name, t->name_len);
    cell_text(to, gg_class_name(a->cls));
    cell_text(to, type ? type->name : "?");
    cell_u64(to, t->elements);
    cell_text(to, how);
    cell_text(to, parameters[0] ? parameters : "-");
    table_row(to);
    return GG_OK;
}

/* Copies parameters, and rounds their numbers to four digits, which are enough for a picture. */
static void shorten(const char *text, char *to, size_t size)
{
    size_t n = 0;
    for (char before = 0; *text && n + 1 < size; before = text[-1]) {
        char *end = NULL;
        double v = before == '=' || before == ',' ? strtod(text, &end) : 0;
        if (!end || end == text) {
            to[n++] = *text++;
            continue;
        }
        int wrote = snprintf(to + n, size - n, "%.4g", v);
        n = (size_t)wrote < size - n ? n + (size_t)wrote : size - 1;
        text = end;
    }
    to[n] = 0;
}

/* Tensors with the same parameters have the same colour. */
static gg_status draw_tensor(void *ctx, const gg_tensor *t, const gg_anatomy *a, const char *how,
                             const char *parameters, gg_error *err)
{
    char source[300], shown[256];
    double index;
    shorten(parameters, shown, sizeof shown);
    snprintf(source, sizeof source, "%s %s", how, strchr(parameters, '=') ? shown : parameters);
    gg_status st = gg_picture_source(ctx, source, &index, err);
    return st == GG_OK ? gg_picture_add(ctx, t, a, index, err) : st;
}

/* Reads all of a file, or of stdin. */
static gg_status read_config(cli *c, const char *path, char **text, size_t *len)
{
    bool piped = strcmp(path, "-") == 0;
    FILE *f = piped ? stdin : fopen(path, "rb");
    size_t got = 1;
    if (!f) return gg_at_file((gg_fail_errno(&c->err, "cannot open it"), &c->err), path);
    while (got > 0 && *len < CONFIG_MAX) {
        char *grown = realloc(*text, *len + 65536);
        if (!grown) break;
        *text = grown;
        got = fread(*text + *len, 1, 65536, f);
        *len += got;
    }
    if (ferror(f)) gg_fail_errno(&c->err, "cannot read it");
    else if (got > 0)
        gg_fail(&c->err, GG_EFORMAT, "it is too large for a configuration (at most 16 MiB)");
    if (!piped) fclose(f);
    return c->err.status == GG_OK ? GG_OK : gg_at_file(&c->err, path);
}

static gg_status merge(cli *c, const arguments *a)
{
    gg_merge_report r = { 0 };
    table rows = { .json = c->json };
    gg_picture picture = { .title = a->output ? a->output : "merge", .text = HOW_MERGED };
    gg_merge_options o = a->o;
    if (a->svg) {
        o.row = draw_tensor;
        o.row_ctx = &picture;
    } else if (a->check) {
        o.row = print_tensor;
        o.row_ctx = &rows;
    }
    gg_status st = picture_allowed(c, a->svg, NULL);
    if (st == GG_OK) st = gg_merge(&o, a->check ? NULL : a->output, &c->run, &r, &c->err);
    if (st == GG_OK && a->svg) st = picture_save(c, &picture, a->svg);
    gg_picture_free(&picture);
    if (st == GG_OK && !a->check && c->verbose)
        cli_note(c, "%zu tensor%s merged, %zu copied; %llu bytes", r.merged, cli_s(r.merged),
                 r.copied, (unsigned long long)r.bytes);
    return st;
}

static gg_status draw_recalled(gg_picture *p, const gg_source *s, gg_error *err)
{
    return gg_merge_recall(s, draw_tensor, p, err);
}

/* NAME=DEFAULT, or NAME if it must be given; in JSON a list of objects. */
static void cell_parameters(table *to, const gg_merge_method_info *m)
{
    char text[400] = "", json[1600] = "[";
    for (size_t i = 0; i < m->n_parameters; i++) {
        size_t n = strlen(text), k = strlen(json);
        double v = m->parameters[i].value;
        char value[32] = "null";
        if (!isnan(v)) snprintf(value, sizeof value, "%.9g", v);
        snprintf(text + n, sizeof text - n, "%s%s%s%s", i ? "," : "", m->parameters[i].name,
                 isnan(v) ? "" : "=", isnan(v) ? "" : value);
        snprintf(json + k, sizeof json - k,
                 "%s{\"name\": \"%s\", \"default\": %s, \"meaning\": \"%s\"}", i ? ", " : "",
                 m->parameters[i].name, value, m->parameters[i].meaning);
    }
    snprintf(json + strlen(json), sizeof json - strlen(json), "]");
    cell_json(to, m->n_parameters ? text : "-", json);
}

static void print_methods(cli *c)
{
    table to = list_start(c, "name\talias\tbase\tleast\tmost\tparameters\tmeaning");
    static const char *const bases[] = { [GG_MERGE_BASE_KEYS] = "keys",
                                         [GG_MERGE_BASE_FIRST] = "first",
                                         [GG_MERGE_BASE_MAY] = "optional",
                                         [GG_MERGE_BASE_MUST] = "required" };
    gg_merge_method_info m;
    for (size_t i = 0; gg_merge_method_at(i, &m); i++) {
        cell_text(&to, m.name);
        if (m.alias) cell_text(&to, m.alias);
        else cell_null(&to);
        cell_text(&to, bases[m.base]);
        cell_u64(&to, m.least);
        cell_u64(&to, m.most);
        cell_parameters(&to, &m);
        cell_text(&to, m.meaning);
        table_row(&to);
    }
}

/* Each parameter once, with the methods that take it. */
static void print_parameters(cli *c)
{
    table to = list_start(c, "name\tmethods\tmeaning");
    gg_merge_method_info m, other;
    for (size_t i = 0; gg_merge_method_at(i, &m); i++)
        for (size_t k = 0; k < m.n_parameters; k++) {
            const char *name = m.parameters[k].name;
            char methods[400] = "";
            bool first = true;
            for (size_t j = 0; gg_merge_method_at(j, &other); j++)
                for (size_t l = 0; l < other.n_parameters; l++) {
                    if (strcmp(other.parameters[l].name, name) != 0) continue;
                    if (j < i) first = false;
                    size_t n = strlen(methods);
                    snprintf(methods + n, sizeof methods - n, "%s%s", n ? "," : "", other.name);
                }
            if (!first) continue;
            cell_text(&to, name);
            cell_text(&to, methods);
            cell_text(&to, m.parameters[k].meaning);
            table_row(&to);
        }
}

static void check_usage(const cli *c, const arguments *a)
{
    if (c->args.n) cli_usage(c, "unexpected argument '%s'", c->args.items[0]);
    if (a->config && (a->o.method || a->o.base || a->models.n))
        cli_usage(c, "--config names the method and the models: leave out --method, --base and "
                     "--model");
    if (!a->config && !a->o.method) cli_usage(c, "give --method or --config");
    if (!a->config && a->models.n == 0) cli_usage(c, "give --model, once for each model to merge");
    if (!a->output && !a->check) cli_usage(c, "give --output or --check");
    if (a->svg && a->output && strcmp(a->svg, "-") == 0 && strcmp(a->output, "-") == 0)
        cli_usage(c, "--svg - and --output - both write to stdout: name a file");
    if (c->json && a->svg)
        cli_usage(c, "--svg draws a picture and prints no table: leave out --json");
    if (c->json && !a->check) cli_usage(c, "--json needs --check: nothing else prints a table");
    if (a->embeddings && strcmp(a->embeddings, "base") != 0)
        cli_usage(c, "--embed-from %s: only base is possible", a->embeddings);
    if (a->output && !a->check && strcmp(a->output, "-") == 0) cli_no_terminal(c, STDOUT_FILENO);
}

int main(int argc, char **argv)
{
    cli c = {
        .tool = "organ-merge", .help = help, .has_json = true, .has_force = true, .has_strict = true
    };
    arguments a = { .out = OUTPUT_OPTIONS_INIT };
    const cli_option options[] = { { "method", CLI_TEXT, &a.o.method },
                                   { "base", CLI_TEXT, &a.o.base },
                                   { "model", CLI_LIST, &a.models },
                                   { "config", CLI_TEXT, &a.config },
                                   { "output", CLI_TEXT, &a.output },
                                   { "check", CLI_FLAG, &a.check },
                                   { "svg", CLI_TEXT, &a.svg },
                                   { "seed", CLI_U64, &a.o.seed },
                                   { "embed-from", CLI_TEXT, &a.embeddings },
                                   { "align", CLI_FLAG, &a.o.align },
                                   { "no-hash", CLI_FLAG, &a.o.no_hash },
                                   { "card", CLI_TEXT, &a.o.card },
                                   { "set-kv", CLI_LIST, &a.set_kv },
                                   { "set-kv-file", CLI_LIST, &a.set_kv_files },
                                   OUTPUT_OPTIONS(a.out),
                                   { "list-methods", CLI_ACT, .act = print_methods },
                                   { "list-parameters", CLI_ACT, .act = print_parameters },
                                   { NULL, CLI_FLAG, NULL } };
    cli_start(&c, argc, argv, options);
    if (c.args.n == 1 && only_picture(&a))
        return cli_end(&c, picture_finished(&c, c.args.items[0], a.svg, HOW_MERGED, draw_recalled));
    output_options_check(&c, &a.out);
    check_usage(&c, &a);
    key_options_note(&c, &a.set_kv, "--set-kv-file");
    a.o.models = a.models.items, a.o.n_models = a.models.n;
    output_options_set(&a.o.output, &a.out, &a.set_kv, &a.set_kv_files);
    a.o.embeddings_from_base = a.embeddings != NULL;
    char *text = NULL;
    gg_status st = a.config ? read_config(&c, a.config, &text, &a.o.config_len) : GG_OK;
    a.o.config = text;
    if (st == GG_OK) st = merge(&c, &a);
    if (st != GG_OK && a.config) gg_at_file(&c.err, a.config);
    free(text);
    free(a.models.items);
    free(a.set_kv.items);
    free(a.set_kv_files.items);
    return cli_end(&c, st);
}
