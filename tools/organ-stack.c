/* organ-stack - write the blocks of one or several models in a new order. */
#include "cli.h"
#include "pictures.h"
#include "table.h"

#include "organ/gg_stack.h"
#include "organ/gg_transplant.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: organ-stack --output OUT.gguf M BLOCKS [M BLOCKS]...\n"
    "       organ-stack --output OUT.gguf [--drop BLOCKS] [--drop-mtp] M\n"
    "       organ-stack --check ...\n"
    "Write a model with the given blocks in the given order: drop, repeat or reorder\n"
    "blocks, or join those of several models. The keys and all tensors outside the\n"
    "blocks come from the first model. Tensor data is copied byte for byte; block\n"
    "numbers, block_count and keys with one value per block are adapted.\n"
    "\n"
    "  BLOCKS             numbers and ranges from 0, in order: 0-3,6,2-4; a block may\n"
    "                     come several times\n"
    "  M                  a GGUF file, any shard of a split model, an organ\n"
    "                     directory, or - for stdin\n"
    "  --output FILE      the model to write; - is stdout\n"
    "  --drop BLOCKS      write all blocks of M except these\n"
    "  --drop-mtp         leave out the multi-token-prediction blocks of M\n"
    "  --svg FILE         draw which model each tensor comes from\n"
    "  --check            print the new order and write nothing\n"
    "  --strict           write nothing if an engine would refuse the result\n"
    "  --force            replace an existing output\n"
    "common: -j N threads, -q quiet, -v verbose, --json (with --check), --help,\n"
    "        --version\n"
    "\n"
    "examples:\n"
    "  organ-stack --drop 2 tests/data/lab/lab-verse-q4_k_m.gguf --check\n"
    "  organ-stack tests/data/lab/lab-verse-q4_k_m.gguf 0-1,1-3 \\\n"
    "    --output /tmp/deeper.gguf --force\n"
    "  organ-stack tests/data/lab/lab-verse-q4_k_m.gguf 0-1 \\\n"
    "    tests/data/lab/lab-code-q4_k_m.gguf 2-3 --output /tmp/halves.gguf --force\n"
    "exit: 0 done, 1 the blocks do not fit together, 2 usage, 3 malformed input,\n"
    "4 I/O failure\n";

typedef struct arguments {
    const char *output, *drop, *svg;
    bool drop_mtp, check;
} arguments;

/* The models by the names they were given; each is opened once. */
typedef struct models {
    const char **names;
    gg_source **sources;
    size_t n;
} models;

static gg_status open_model(cli *c, models *m, const char *name, gg_source **out)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->names[i], name) == 0) return *out = m->sources[i], GG_OK;
    gg_source_options spooled = { .spooled = true };
    gg_status st = gg_source_open_with(name, &spooled, out, &c->err);
    if (st != GG_OK) return st;
    m->names[m->n] = name;
    m->sources[m->n++] = *out;
    return GG_OK;
}

static gg_status read_order(cli *c, const arguments *a, models *m, gg_block_order *order)
{
    gg_source *source;
    gg_status st = GG_OK;
    if (a->drop || a->drop_mtp) {
        st = open_model(c, m, c->args.items[0], &source);
        return st == GG_OK ? gg_block_order_drop(order, source, a->drop, a->drop_mtp, &c->err) : st;
    }
    for (size_t i = 0; i < c->args.n && st == GG_OK; i += 2) {
        st = open_model(c, m, c->args.items[i], &source);
        if (st == GG_OK) st = gg_block_order_add(order, source, c->args.items[i + 1], &c->err);
    }
    return st;
}

typedef struct printer {
    table t;
    const gg_block_order *order;
} printer;

/* The sources of the picture are the models, in their order. */
static gg_status draw_tensor(void *ctx, const gg_tensor *t, const gg_anatomy *a, size_t model,
                             gg_error *err)
{
    return gg_picture_add(ctx, t, a, (double)model, err);
}

static gg_status print_block(void *ctx, size_t i, const gg_block_ref *from, size_t tensors,
                             uint64_t bytes, gg_error *err)
{
    printer *p = ctx;
    const char *name = gg_source_name(p->order->models[from->model]);
    (void)err;
    table_begin(&p->t, "block\tmodel\tsource_block\ttensors\tbytes");
    cell_u64(&p->t, i);
    cell_bytes(&p->t, name, strlen(name));
    cell_u64(&p->t, from->block);
    cell_u64(&p->t, tensors);
    cell_u64(&p->t, bytes);
    table_row(&p->t);
    return GG_OK;
}

static gg_status write_model(cli *c, const arguments *a, gg_block_order *order, gg_stack_report *r)
{
    gg_picture picture = { .title = a->output ? a->output : "stack",
                           .text = "Which model each tensor comes from:" };
    printer p = { { .json = c->json }, order };
    gg_status st = GG_OK;
    if (a->svg) order->tensor = draw_tensor, order->ctx = &picture;
    for (size_t i = 0; i < order->n_models && st == GG_OK; i++) {
        double index;
        st = gg_picture_source(&picture, gg_source_name(order->models[i]), &index, &c->err);
        if (st == GG_OK) st = picture_allowed(c, a->svg, order->models[i]);
    }
    if (st == GG_OK)
        st = gg_stack_blocks(order, a->check ? NULL : a->output,
                             a->check && !a->svg ? print_block : NULL, &p, &c->run, r, &c->err);
    if (st == GG_OK && a->svg) st = picture_save(c, &picture, a->svg);
    gg_picture_free(&picture);
    return st;
}

static gg_status stack(cli *c, const arguments *a)
{
    gg_block_order order = { 0 };
    gg_stack_report r;
    models m = { calloc(c->args.n, sizeof *m.names), calloc(c->args.n, sizeof *m.sources), 0 };
    gg_status st = m.names && m.sources ? read_order(c, a, &m, &order)
                                        : gg_fail(&c->err, GG_ENOMEM, "out of memory");
    if (st == GG_OK) st = write_model(c, a, &order, &r);
    if (st == GG_OK && !a->check && c->verbose)
        cli_note(c, "%zu block%s, %zu tensors, %llu bytes", r.blocks, cli_s(r.blocks), r.tensors,
                 (unsigned long long)r.bytes);
    gg_block_order_free(&order);
    for (size_t i = 0; i < m.n; i++) gg_source_close(m.sources[i]);
    free(m.names);
    free(m.sources);
    return st;
}

static void check_usage(const cli *c, const arguments *a)
{
    bool drops = a->drop || a->drop_mtp;
    if (c->args.n == 0) cli_usage(c, "no model given");
    if (a->svg && c->args.n == 1 && !a->output && !a->check && !drops)
        cli_usage(c, "a finished stack has no history to draw; give its models and blocks, with "
                     "--svg and --check");
    if (drops && c->args.n != 1)
        cli_usage(c, "--%s takes exactly one model and no list of blocks after it",
                  a->drop ? "drop" : "drop-mtp");
    if (!drops && c->args.n % 2)
        cli_usage(c, "no blocks given after '%s'; for example %s 0-3", c->args.items[c->args.n - 1],
                  c->args.items[c->args.n - 1]);
    if (!a->output && !a->check) cli_usage(c, "give --output or --check");
    if (c->json && a->svg)
        cli_usage(c, "--svg draws a picture and prints no table: leave out --json");
    if (a->svg && a->output && strcmp(a->svg, "-") == 0 && strcmp(a->output, "-") == 0)
        cli_usage(c, "--svg - and --output - both write to stdout: name a file");
    if (c->json && !a->check) cli_usage(c, "--json needs --check: nothing else prints a table");
    if (a->output && !a->check && strcmp(a->output, "-") == 0) cli_no_terminal(c, STDOUT_FILENO);
}

int main(int argc, char **argv)
{
    cli c = {
        .tool = "organ-stack", .help = help, .has_json = true, .has_force = true, .has_strict = true
    };
    arguments a = { 0 };
    const cli_option options[] = {
        { "output", CLI_TEXT, &a.output },     { "drop", CLI_TEXT, &a.drop },
        { "drop-mtp", CLI_FLAG, &a.drop_mtp }, { "check", CLI_FLAG, &a.check },
        { "svg", CLI_TEXT, &a.svg },           { NULL, CLI_FLAG, NULL }
    };
    cli_start(&c, argc, argv, options);
    check_usage(&c, &a);
    return cli_end(&c, stack(&c, &a));
}
