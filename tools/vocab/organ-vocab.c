/* organ-vocab - look at the vocabulary of a model, and write models with another one. */
#include "common/card.h"
#include "common/cli.h"
#include "common/model_text.h"
#include "common/table.h"
#include "vocab_edit.h"
#include "vocab_look.h"
#include "write/history.h"
#include "write/verb_run.h"

#include <stdlib.h>
#include <string.h>

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: organ-vocab MODEL [--list | --find TEXT]\n"
    "       organ-vocab A B\n"
    "       organ-vocab trim MODEL --keep FILE | --used COUNTS --output FILE\n"
    "       organ-vocab transplant BASE --from DONOR --output FILE\n"
    "       organ-vocab add MODEL --tokens FILE | --pad N | --resize N --output FILE\n"
    "Look at the vocabulary of a model, compare two, or write a model with another\n"
    "vocabulary. Rows that stay are copied without decoding them.\n"
    ,
    "  organ-vocab tests/data/lab/lab-verse-q4_k_m.gguf\n"
    "  organ-vocab tests/data/lab/lab-verse-q4_k_m.gguf --find the\n"
    "  organ-vocab add tests/data/lab/lab-verse-q4_k_m.gguf --pad 64 \\\n"
    "    -o /tmp/padded.gguf --force\n"
    "exit: 0 done, 1 the vocabularies differ, no such token, 2 usage,\n"
    "3 malformed input, 4 I/O failure\n"
};
/* clang-format on */

static struct {
    const char *output, *find, *donor;
    bool list;
    vocab_trim_options trim;
    vocab_transplant_options transplant;
    vocab_add_options add;
} opt = { .transplant = { .k = 64 } };

static const cli_option options[] = {
    { "", CLI_MODEL, .arg = "MODEL", .place = 1, .values = "trim transplant add" },
    { "", CLI_MODEL, .arg = "MODEL", .place = 2, .many = true },
    { "list", CLI_FLAG, .to = &opt.list, .help = "print one row per token" },
    { "find", CLI_TEXT, .to = &opt.find, .arg = "TEXT", .excludes = "list",
      .help = "print the tokens that contain TEXT" },
    { "output", CLI_NEW_MODEL, .to = &opt.output, .arg = "FILE", .help = "the model to write" },
    { .name = NULL, .help = "trim:" },
    { "keep", CLI_FILE, .to = &opt.trim.keep, .arg = "FILE",
      .help = "tokens that stay: ids, or texts as --list prints them, in the first column" },
    { "used", CLI_FILE, .to = &opt.trim.used, .arg = "COUNTS",
      .help = "ids and counts; tokens stay that have --least N (1)" },
    { "least", CLI_U64, .to = &opt.trim.least, .arg = "N", .low = 1, .high = 1e15,
      .needs = "used" },
    { "multiple", CLI_U64, .to = &opt.trim.multiple, .arg = "N", .low = 1, .high = 1e6,
      .help = "keep more tokens up to a multiple of N" },
    { .name = NULL, .help = "transplant:" },
    { "from", CLI_MODEL, .to = &opt.donor, .arg = "DONOR",
      .help = "the model whose vocabulary BASE will speak" },
    { "method", CLI_WORD, .to = &opt.transplant.method, .arg = "M",
      .values = "mean length omp random",
      .help = "rows of new tokens: mean of the base's pieces, length, omp or random" },
    { "terms", CLI_U64, .to = &opt.transplant.k, .arg = "N", .low = 1, .high = 256,
      .help = "tokens in a sum of --method omp (64)" },
    { "map", CLI_FILE, .to = &opt.transplant.map, .arg = "FILE",
      .help = "pairs of tokens: DONOR'S, tab, BASE'S" },
    { .name = NULL, .help = "add:" },
    { "tokens", CLI_FILE, .to = &opt.add.tokens, .arg = "FILE",
      .help = "one per line: text, tab, user or control, tab, ids that its row is made of" },
    { "pad", CLI_U64, .to = &opt.add.pad, .arg = "N", .low = 1, .high = 1e6,
      .help = "add unused tokens up to a multiple of N" },
    { "resize", CLI_U64, .to = &opt.add.resize, .arg = "N", .low = 1, .high = 16777216,
      .excludes = "pad", .help = "add or remove unused tokens until there are N" },
    { .group = cli_strict },
    { .group = cli_writes },
    { "no-history", CLI_FLAG, .at = offsetof(cli, run.no_history), .flow = "; " },
    { .group = card_group },
    { .group = cli_common },
    { "json", CLI_FLAG, .at = offsetof(cli, json), .flow = ", ", .help = "(tables)" },
    { 0 },
};

/* ---- looking ------------------------------------------------------------------------------------
 */

static gg_status look(cli *c)
{
    gg_source *s[2] = { NULL };
    gg_vocab v[2] = { { 0 } };
    size_t n = c->args.n;
    if (n != 1 && n != 2) cli_usage(c, "give one model to look at, or two to compare");
    if (n == 2 && (opt.list || opt.find)) cli_usage(c, "--list and --find take one model");
    gg_status st = GG_OK;
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        st = cli_open(c, c->args.items[i], CLI_HEADER_ONLY, &s[i]);
        if (st == GG_OK) st = gg_vocab_read(s[i], &v[i], &c->err);
    }
    if (st == GG_OK)
        st = n == 2                 ? look_compare(c, s, v)
             : opt.list || opt.find ? look_list(c, &v[0], opt.find)
                                    : look_screen(c, s[0], &v[0]);
    for (int i = 0; i < 2; i++) {
        gg_vocab_free(&v[i]);
        gg_source_close(s[i]);
    }
    return st;
}

/* ---- writing ------------------------------------------------------------------------------------
 */

/* Writes the model, and records the step, after the name of the donor or NULL. */
static gg_status write_edit(cli *c, vocab_edit *e, gg_source *donor, gg_buf *step)
{
    vocab_written w;
    if (c->err.status == GG_OK)
        gg_record_step(&e->meta, &donor, donor != NULL, step, &c->run, &c->err);
    gg_buf_free(step);
    gg_status st = c->err.status;
    if (st == GG_OK) st = vocab_write(e, opt.output, &c->run, &w, &c->err);
    if (st == GG_OK && c->verbose)
        cli_note(c, "%llu bytes; %zu tensor%s with one row per token", (unsigned long long)w.bytes,
                 w.tensors, cli_s(w.tensors));
    if (st == GG_OK && !c->quiet && w.heads_was)
        cli_note(c, "%llu of %llu rows of the draft head stay, and d2t follows",
                 (unsigned long long)w.heads, (unsigned long long)w.heads_was);
    return st;
}

static gg_status trim(cli *c, gg_source *base, vocab_edit *e)
{
    vocab_trim_report r;
    gg_buf step = GG_BUF_INIT;
    if (!opt.trim.keep && !opt.trim.used)
        cli_usage(c, "trim needs --keep FILE or --used COUNTS: which tokens stay");
    gg_status st = vocab_trim(base, &opt.trim, e, &r, &c->err);
    if (st == GG_OK)
        gg_buf_printf(&step, &c->err, "trim: %zu of %zu tokens stay", r.after, r.before);
    if (st == GG_OK) st = write_edit(c, e, NULL, &step);
    if (st == GG_OK && !c->quiet)
        cli_note(c,
                 "%zu of %zu tokens stay: %zu named, %zu special or bytes, %zu that others are "
                 "made of, %zu more; %zu of %zu merges",
                 r.after, r.before, r.named, r.special, r.needed, r.padding, r.merges_after,
                 r.merges_before);
    return st;
}

static gg_status transplant(cli *c, gg_source *base, vocab_edit *e)
{
    static const char *const names[] = { "mean", "length", "omp", "random" };
    vocab_transplant_report r;
    gg_buf step = GG_BUF_INIT;
    gg_source *donor = NULL;
    opt.transplant.run = &c->run;
    if (!opt.donor) cli_usage(c, "transplant needs --from DONOR: whose vocabulary");
    gg_status st = cli_open(
        c, opt.donor, opt.transplant.method == METHOD_OMP ? CLI_SPOOLED : CLI_HEADER_ONLY, &donor);
    if (st == GG_OK) st = gg_require_whole(donor, &c->run, &c->err);
    if (st == GG_OK) st = vocab_transplant(base, donor, &opt.transplant, e, &r, &c->err);
    if (st == GG_OK) {
        gg_buf_printf(&step, &c->err, "transplant: the %zu tokens of ", r.tokens);
        gg_put_model_name(&step, donor, &c->err);
        gg_buf_printf(&step, &c->err, ", %zu rows made (%s)", r.made, names[opt.transplant.method]);
        st = write_edit(c, e, donor, &step);
    }
    if (st == GG_OK && !c->quiet)
        cli_note(c,
                 "of %zu tokens %zu have the same text, %zu the same role, %zu are mapped; %zu "
                 "rows are made (%s)",
                 r.tokens, r.same, r.by_role, r.mapped, r.made, names[opt.transplant.method]);
    gg_source_close(donor);
    return st;
}

static gg_status add(cli *c, gg_source *base, vocab_edit *e)
{
    vocab_add_report r;
    gg_buf step = GG_BUF_INIT;
    if (!opt.add.tokens && !opt.add.pad && !opt.add.resize)
        cli_usage(c, "add needs --tokens FILE, --pad N or --resize N");
    gg_status st = vocab_add(base, &opt.add, e, &r, &c->err);
    if (st == GG_OK)
        gg_buf_printf(&step, &c->err, "add: %zu tokens, %zu rows of padding", r.added, r.padding);
    if (st == GG_OK) st = write_edit(c, e, NULL, &step);
    if (st == GG_OK && !c->quiet)
        cli_note(c,
                 "%zu tokens before, %zu after: %zu added, %zu of them in place of unused ones, "
                 "%zu rows of padding",
                 r.before, r.after, r.added, r.reused, r.padding);
    return st;
}

typedef gg_status action_fn(cli *c, gg_source *base, vocab_edit *e);

static const struct action {
    const char *name;
    action_fn *run;
    const char *options; /* that belong to it */
} actions[] = {
    { "trim", trim, "keep used least multiple" },
    { "transplant", transplant, "from method map terms" },
    { "add", add, "tokens pad resize" },
};

static gg_status run_action(cli *c, const struct action *a)
{
    gg_source *base = NULL;
    vocab_edit e = { 0 };
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if ((!a || strcmp(actions[i].name, a->name) != 0) && cli_given_any(c, actions[i].options))
            cli_usage(c, "%s belongs to the action %s", actions[i].options, actions[i].name);
    if (!a && opt.output) cli_usage(c, "--output needs an action: trim, transplant or add");
    if (!a) return look(c);
    if (c->args.n != 2) cli_usage(c, "%s takes one model", a->name);
    if (!opt.output) cli_usage(c, "%s needs --output FILE", a->name);
    gg_status st = cli_open(c, c->args.items[1], CLI_SPOOLED, &base);
    if (st == GG_OK) st = gg_require_whole(base, &c->run, &c->err);
    if (st == GG_OK) st = a->run(c, base, &e);
    vocab_edit_free(&e);
    gg_source_close(base);
    return st;
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, vocab);
    cli_start(&c, argc, argv, options);
    cli_writes_models(&c);
    card_begin(&c);
    if (c.args.n == 0) cli_usage(&c, "no model given");
    const struct action *a = NULL;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strcmp(c.args.items[0], actions[i].name) == 0) a = &actions[i];
    return cli_end(&c, run_action(&c, a));
}
