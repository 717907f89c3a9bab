/* organ-stack - write the blocks of one or several models in a new order. */
#include "common/card.h"
#include "common/cli.h"
#include "common/model_text.h"
#include "common/pictures.h"
#include "common/table.h"

#include "fuse.h"
#include "rename.h"
#include "verb_mix.h"

#include "base/grow.h" /* lists that grow */
#include "kin/gg_compare_model.h"

#include <stdlib.h>
#include <string.h>

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: organ-stack --output OUT.gguf M BLOCKS [M BLOCKS]...\n"
    "       organ-stack --output OUT.gguf [--drop BLOCKS] [--drop-mtp | --mtp-only] M\n"
    "       organ-stack --output OUT.gguf --fuse [qkv,gate_up] M  (or --unfuse)\n"
    "       organ-stack --output OUT.gguf --experts-from M,M... [--base M]\n"
    "       organ-stack --check ...\n"
    "Write a model with the given blocks in the given order: drop, repeat or reorder\n"
    "blocks, or join those of several models. The keys and all tensors outside the\n"
    "blocks come from the first model. Tensor data is copied byte for byte; block\n"
    "numbers, block_count and keys with one value per block are adapted. M is a GGUF\n"
    "file, any shard of a split model, an organ directory, or - for stdin.\n"
    ,
    "  organ-stack --drop 2 tests/data/lab/lab-verse-q4_k_m.gguf --check\n"
    "  organ-stack tests/data/lab/lab-verse-q4_k_m.gguf 0-1,1-3 \\\n"
    "    --output /tmp/deeper.gguf --force\n"
    "  organ-stack tests/data/lab/lab-verse-q4_k_m.gguf 0-1 \\\n"
    "    tests/data/lab/lab-code-q4_k_m.gguf 2-3 --output /tmp/halves.gguf --force\n"
    "exit: 0 done, 1 blocks do not fit, 2 usage, 3 malformed input, 4 I/O failure\n"
};
/* clang-format on */

static struct {
    const char *output, *drop, *svg, *fuse, *unfuse, *experts, *base, *router, *imatrix,
        *imatrix_out;
    bool drop_mtp, mtp_only, check;
    uint64_t copies;
    gg_expert_mix mix;
    gg_fuse_options forms;
    gg_texts renames;
} opt = { .copies = 1 };

static const cli_option options[] = {
    { "", CLI_MODEL, .arg = "M", .place = 1, .many = true },
    { "", CLI_RANGES, .arg = "BLOCKS", .place = 2, .many = true },
    { .name = NULL,
      .help = "  BLOCKS             numbers and ranges from 0, in order: 0-3,6,2-4; a block may\n  "
              "                   come several times; of t5: enc:0-3 or dec:0-3" },
    { "svg", CLI_NEW_FILE, .to = &opt.svg, .arg = "FILE", .needs = "output check",
      .needs_why = "a finished stack has no history to draw", .excludes = "json",
      .excludes_why = "draws a picture and prints no table",
      .help = "draw which model each tensor comes from" },
    { "output", CLI_NEW_MODEL, .to = &opt.output, .arg = "FILE", .required = "check",
      .help = "the model to write; - is stdout" },
    { "drop", CLI_RANGES, .to = &opt.drop, .arg = "BLOCKS",
      .help = "write all blocks of M except these" },
    { "drop-mtp", CLI_FLAG, .to = &opt.drop_mtp,
      .help = "leave out the multi-token-prediction blocks of M" },
    { "fuse", CLI_WORDS, .to = &opt.fuse, .arg = "[FORMS]", .maybe = true, .values = "qkv gate_up",
      .excludes = "unfuse drop drop-mtp check svg", .excludes_why = "keeps all blocks of a model",
      .help = "join attn_q, attn_k and attn_v (qkv), and gate and up matrices (gate_up)" },
    { "unfuse", CLI_WORDS, .to = &opt.unfuse, .arg = "[FORMS]", .maybe = true,
      .values = "qkv gate_up", .excludes = "drop drop-mtp check svg",
      .excludes_why = "keeps all blocks of a model", .help = "divide them again" },
    { "rename", CLI_TEXT, .to = &opt.renames, .arg = "OLD=NEW", .many = true,
      .excludes = "fuse unfuse drop drop-mtp mtp-only experts-from check svg imatrix",
      .excludes_why = "keeps all blocks of a model",
      .help = "rename a tensor; a * in both names stands for the same text" },
    { "mtp-only", CLI_FLAG, .to = &opt.mtp_only, .excludes = "drop drop-mtp fuse unfuse",
      .help = "write only the multi-token-prediction blocks of M" },
    { "experts-from", CLI_TEXT, .to = &opt.experts, .arg = "M,M...", .local = true,
      .excludes = "drop drop-mtp mtp-only fuse unfuse svg json",
      .help = "make a mixture of experts of the FFNs of dense models" },
    { "base", CLI_MODEL, .to = &opt.base, .arg = "M", .needs = "experts-from",
      .help = "gives all the rest (the first expert)" },
    { "router", CLI_TEXT, .to = &opt.router, .arg = "F,F...", .local = true,
      .needs = "experts-from",
      .help = "activations of the base on the text of each expert (random)" },
    { "used", CLI_U64, .to = &opt.mix.used, .arg = "N", .low = 1, .high = 65536,
      .needs = "experts-from", .help = "experts per token (2; all for qwen2)" },
    { "copies", CLI_U64, .to = &opt.copies, .arg = "N", .low = 1, .high = 65536,
      .needs = "experts-from", .help = "take each expert N times; --noise X --seed N vary them" },
    { "noise", CLI_F64, .to = &opt.mix.noise, .arg = "X", .low = 0, .high = 1,
      .needs = "experts-from" },
    { "seed", CLI_U64, .to = &opt.mix.seed, .arg = "N", .needs = "experts-from" },
    { "imatrix", CLI_FILE, .to = &opt.imatrix, .arg = "FILE", .needs = "imatrix-out" },
    { "imatrix-out", CLI_NEW_FILE, .binary = true, .to = &opt.imatrix_out, .arg = "FILE",
      .needs = "imatrix", .excludes = "fuse unfuse experts-from check",
      .help = "write the --imatrix of M for the new model" },
    { "check", CLI_FLAG, .to = &opt.check, .help = "print the new order and write nothing" },
    { .group = cli_strict },
    { .group = cli_writes },
    { "no-history", CLI_FLAG, .at = offsetof(cli, run.no_history), .flow = "; " },
    { .group = card_group },
    { .group = cli_common },
    { "json", CLI_FLAG, .at = offsetof(cli, json), .flow = ", ", .needs = "check",
      .needs_why = "nothing else prints a table", .help = "(with --check)" },
    { 0 },
};

/* The models by the names they were given; each is opened once. */
typedef struct models {
    const char **names;
    gg_source **sources;
    size_t n;
} models;

static gg_status open_model(cli *c, models *m, const char *name, gg_source **out)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->names[i], name) == 0) {
            *out = m->sources[i];
            return GG_OK;
        }
    gg_status st = GG_ROOM(m->names, m->n, NULL, &c->err);
    if (st == GG_OK) st = GG_ROOM(m->sources, m->n, NULL, &c->err);
    if (st == GG_OK) st = cli_open(c, name, CLI_SPOOLED, out);
    if (st != GG_OK) return st;
    if (m->n) st = cli_like(c, m->sources[0], out);
    m->names[m->n] = name;
    m->sources[m->n++] = *out;
    return st;
}

static void close_models(models *m)
{
    for (size_t i = 0; i < m->n; i++) gg_source_close(m->sources[i]);
    free(m->names);
    free(m->sources);
}

static gg_status read_order(cli *c, models *m, gg_block_order *order)
{
    gg_source *source;
    gg_status st = GG_OK;
    if (opt.drop || opt.drop_mtp || opt.mtp_only) {
        st = open_model(c, m, c->args.items[0], &source);
        return st == GG_OK ? gg_block_order_drop(order, source, opt.drop, opt.drop_mtp, &c->err)
                           : st;
    }
    for (size_t i = 0; i < c->args.n && st == GG_OK; i += 2) {
        st = open_model(c, m, c->args.items[i], &source);
        if (st == GG_OK) st = gg_block_order_add(order, source, c->args.items[i + 1], &c->err);
    }
    return st;
}

/* ---- mixtures of experts --------------------------------------------------------------- */

/* Opens the models of a list, separated by commas, each `copies` times. The text is cut. */
static gg_status open_list(cli *c, models *m, char *text, uint64_t copies, gg_source ***out,
                           size_t *n)
{
    gg_status st = GG_OK;
    for (char *name; st == GG_OK && (name = strsep(&text, ","));)
        for (uint64_t k = 0; k < copies && st == GG_OK; k++) {
            st = GG_ROOM(*out, *n, NULL, &c->err);
            if (st == GG_OK) st = open_model(c, m, name, &(*out)[(*n)++]);
        }
    return st;
}

static gg_status mix(cli *c)
{
    char *experts = strdup(opt.experts), *router = strdup(opt.router ? opt.router : "");
    models m = { 0 };
    gg_expert_mix *x = &opt.mix;
    gg_stack_report r = { 0 };
    size_t n = 0;
    gg_status st = experts && router ? GG_OK : gg_fail(&c->err, GG_ENOMEM, "out of memory");
    if (st == GG_OK && opt.base) st = open_model(c, &m, opt.base, &x->base);
    if (st == GG_OK) st = open_list(c, &m, experts, opt.copies, &x->experts, &x->n);
    if (st == GG_OK && !opt.base) x->base = x->experts[0];
    if (st == GG_OK && opt.router) st = open_list(c, &m, router, 1, &x->router, &n);
    if (st == GG_OK && opt.router && n != x->n)
        cli_usage(c, "--router: %zu file%s for %zu experts", n, cli_s(n), x->n);
    if (st == GG_OK) st = gg_stack_mixture(x, opt.check ? NULL : opt.output, &c->run, &r, &c->err);
    if (st == GG_OK && c->verbose)
        cli_note(c, "%zu experts in %zu block%s, %zu tensors, %llu bytes", x->n, r.blocks,
                 cli_s(r.blocks), r.tensors, (unsigned long long)r.bytes);
    close_models(&m);
    free(x->experts);
    free(x->router);
    free(experts);
    free(router);
    return st;
}

typedef struct printer {
    table t;
    const gg_block_order *order;
} printer;

/* The sources of the picture are the models, in their order. */
static gg_status draw_tensor(void *ctx, const gg_stack_tensor *t, gg_error *err)
{
    return gg_picture_add(ctx, t->t, (double)t->model, err);
}

static gg_status print_block(void *ctx, const gg_stack_row *row, gg_error *err)
{
    printer *p = ctx;
    const char *name = gg_source_name(p->order->models[row->from.model]);
    (void)err;
    table_begin(&p->t, "block\tmodel\tsource_block\ttensors\tbytes");
    table_line(&p->t, cell_u64(row->block), cell_bytes(name, strlen(name)),
               cell_u64(row->from.block), cell_u64(row->tensors), cell_u64(row->bytes));
    return GG_OK;
}

/* Notes models of another lineage than the first. */
static gg_status note_strangers(cli *c, const gg_block_order *order)
{
    gg_compare_options o = { .sample = 32 };
    gg_run quiet = { .threads = c->run.threads };
    gg_status st = GG_OK;
    for (size_t i = 1; i < order->n_models && c->run.note && st == GG_OK; i++) {
        gg_lineage l;
        size_t first = 0;
        while (order->models[first] != order->models[i]) first++;
        if (first != i) continue;
        st = gg_lineage_of(order->models[0], order->models[i], &o, &quiet, &l, &c->err);
        if (st == GG_OK && l.verdict == GG_LINEAGE_STRANGERS)
            cli_note(c, "%s shares no lineage with %s: their blocks will not fit each other",
                     gg_source_name(order->models[i]), gg_source_name(order->models[0]));
    }
    return st;
}

static gg_status write_model(cli *c, gg_block_order *order, gg_stack_report *r)
{
    gg_picture picture = { .title = opt.output ? opt.output : "stack",
                           .text = "Which model each tensor comes from:" };
    printer p = { { .json = c->json }, order };
    gg_status st = GG_OK;
    gg_stack_options o = { .ctx = &p };
    if (opt.svg) o = (gg_stack_options){ .tensor = draw_tensor, .ctx = &picture };
    else if (opt.check) o.row = print_block;
    o.mtp_only = opt.mtp_only;
    o.imatrix = opt.imatrix;
    o.imatrix_out = opt.imatrix_out;
    for (size_t i = 0; i < order->n_models && st == GG_OK; i++) {
        double index;
        st = gg_picture_source(&picture, gg_source_name(order->models[i]), &index, &c->err);
    }
    if (st == GG_OK) st = picture_allowed(c, opt.svg);
    if (st == GG_OK) st = note_strangers(c, order);
    if (st == GG_OK)
        st = gg_stack_blocks(order, &o, opt.check ? NULL : opt.output, &c->run, r, &c->err);
    if (st == GG_OK && opt.svg) st = picture_save(c, &picture, opt.svg);
    gg_picture_free(&picture);
    return st;
}

static gg_status stack(cli *c)
{
    gg_block_order order = { 0 };
    gg_stack_report r;
    models m = { 0 };
    gg_status st = read_order(c, &m, &order);
    if (st == GG_OK) st = write_model(c, &order, &r);
    if (st == GG_OK && !opt.check && c->verbose)
        cli_note(c, "%zu block%s, %zu tensors, %llu bytes", r.blocks, cli_s(r.blocks), r.tensors,
                 (unsigned long long)r.bytes);
    gg_block_order_free(&order);
    close_models(&m);
    return st;
}

/* Reads "qkv,gate_up". */
static void read_forms(const cli *c, const char *text)
{
    for (size_t n; *text; text += n + (text[n] == ',')) {
        n = strcspn(text, ",");
        bool qkv = n == 3 && memcmp(text, "qkv", 3) == 0;
        if (!qkv && !(n == 7 && memcmp(text, "gate_up", 7) == 0))
            cli_usage(c, "--fuse and --unfuse take qkv or gate_up, not '%.*s'", (int)n, text);
        *(qkv ? &opt.forms.qkv : &opt.forms.gate_up) = true;
    }
}

static gg_status change_forms(cli *c)
{
    gg_source *source = NULL;
    gg_stack_report r;
    opt.forms.unfuse = opt.unfuse != NULL;
    gg_status st = cli_open(c, c->args.items[0], CLI_SPOOLED, &source);
    if (st == GG_OK) st = gg_stack_fuse(source, &opt.forms, opt.output, &c->run, &r, &c->err);
    if (st == GG_OK && c->verbose)
        cli_note(c, "%zu group%s changed; %zu tensors, %llu bytes", r.blocks, cli_s(r.blocks),
                 r.tensors, (unsigned long long)r.bytes);
    gg_source_close(source);
    return st;
}

static gg_status rename_tensors(cli *c)
{
    gg_source *source = NULL;
    gg_stack_report r;
    gg_status st = cli_open(c, c->args.items[0], CLI_SPOOLED, &source);
    if (st == GG_OK) st = gg_stack_rename(source, &opt.renames, opt.output, &c->run, &r, &c->err);
    if (st == GG_OK && c->verbose)
        cli_note(c, "%zu tensor%s renamed, %llu bytes", r.tensors, cli_s(r.tensors),
                 (unsigned long long)r.bytes);
    gg_source_close(source);
    return st;
}

/* Checks the models and blocks. */
static void check_arguments(const cli *c)
{
    bool drops = opt.drop || opt.drop_mtp || opt.mtp_only;
    if (opt.experts) {
        if (c->args.n) cli_usage(c, "--experts-from takes no other models: '%s'", c->args.items[0]);
        return;
    }
    if (c->args.n == 0) cli_usage(c, "no model given");
    if (opt.fuse || opt.unfuse || opt.renames.n) {
        if (c->args.n != 1)
            cli_usage(c, "--%s takes one model and no list of blocks",
                      opt.renames.n ? "rename"
                      : opt.fuse    ? "fuse"
                                    : "unfuse");
        if (!opt.renames.n) read_forms(c, opt.fuse ? opt.fuse : opt.unfuse);
        return;
    }
    if (drops && c->args.n != 1)
        cli_usage(c, "--%s takes exactly one model and no list of blocks after it",
                  opt.drop       ? "drop"
                  : opt.mtp_only ? "mtp-only"
                                 : "drop-mtp");
    if (!drops && c->args.n % 2)
        cli_usage(c, "no blocks given after '%s'; for example %s 0-3", c->args.items[c->args.n - 1],
                  c->args.items[c->args.n - 1]);
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, stack);
    cli_start(&c, argc, argv, options);
    cli_writes_models(&c);
    card_begin(&c);
    check_arguments(&c);
    return cli_end(&c, opt.experts              ? mix(&c)
                       : opt.renames.n          ? rename_tensors(&c)
                       : opt.fuse || opt.unfuse ? change_forms(&c)
                                                : stack(&c));
}
