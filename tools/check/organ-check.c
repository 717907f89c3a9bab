/* organ-check - check whether an engine will load a model and whether it makes sense. */
#include "check_hash.h"
#include "common/cli.h"
#include "common/lists.h"
#include "organ/gg_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: organ-check MODEL...\n"
    "       organ-check HEAD --target MODEL\n"
    "       organ-check --hash MODEL > LIST\n"
    "       organ-check --verify LIST MODEL\n"
    "Check whether an engine will load a model and whether it makes sense: one row\n"
    "per finding, with the rule that found it. A model is a GGUF file, any shard of a\n"
    "split model, an organ directory, or - for stdin. Only the header is read, so\n"
    "pipes and incomplete files can be checked too.\n"
    ,
    "  organ-check tests/data/lab/lab-verse-q4_k_m.gguf && echo sound\n"
    "  organ-check --data tests/data/lab/lab-code-q4_k_m.gguf\n"
    "  organ-check - < tests/data/lab/lab-base-q4_k_m.gguf\n"
    "  organ-check --hash tests/data/lab/lab-code-q4_k_m.gguf > /tmp/list\n"
    "  organ-check --verify /tmp/list tests/data/lab/lab-code-q4_k_m.gguf\n"
    "exit: 0 no errors found, 1 errors, 2 usage, 3 malformed input, 4 I/O failure\n"
};
/* clang-format on */

static const char columns[] = "model\tlevel\trule\twhere\tmessage",
                  hash_columns[] = "sha256\tkind\tname\tdetail";

static void print_rules(cli *c)
{
    table t = list_start(c, "rule\tlevel\treason");
    for (size_t i = 0; gg_check_rule_at(i); i++) {
        const gg_check_rule *r = gg_check_rule_at(i);
        table_line(&t, cell_text(r->name), cell_text(gg_check_level_name(r->level)),
                   cell_text(r->reason));
    }
}

static struct {
    bool strict, hash;
    const char *list;
    gg_check_options o;
} opt;

static const cli_option options[] = {
    { "", CLI_MODEL, .arg = "MODEL", .place = 1, .many = true },
    { "data", CLI_FLAG, .to = &opt.o.data, .excludes = "hash verify",
      .help = "read the weights too: find NaN, infinite values, tensors of zeros, dead rows, "
              "repeated blocks" },
    { "target", CLI_MODEL, .to = &opt.o.target, .arg = "MODEL", .excludes = "hash verify",
      .help = "check that a draft head, prediction blocks or a small model can draft for MODEL" },
    { "hash", CLI_FLAG, .to = &opt.hash, .excludes = "verify",
      .help = "print the SHA-256 of files, keys and tensors as a list" },
    { "verify", CLI_FILE, .to = &opt.list, .arg = "LIST",
      .help = "compare a model with such a list" },
    { "as", CLI_TEXT, .to = &opt.o.as, .arg = "KIND", .excludes = "hash verify",
      .help = "what the file must be: model, adapter, projector or imatrix; another kind is an "
              "error then" },
    { "strict", CLI_FLAG, .to = &opt.strict,
      .help = "exit 1 for warnings too, and for what was not checked" },
    { "list-rules", CLI_ACT, .act = print_rules,
      .help = "list the rules and their reasons (--rules means the same)" },
    { "rules", CLI_ACT, .act = print_rules },
    { .group = cli_common },
    { "json", CLI_FLAG, .at = offsetof(cli, json), .flow = ", " },
    { 0 },
};

typedef struct rows {
    table t;
    const char *model;
} rows;

static gg_status print_row(void *ctx, const gg_finding *f, gg_error *err)
{
    rows *r = ctx;
    table_begin(&r->t, columns);
    table_line(&r->t, cell_bytes(r->model, strlen(r->model)),
               cell_text(gg_check_level_name(f->level)), cell_text(f->rule),
               f->where[0] ? cell_escaped(f->where) : cell_null(), cell_escaped(f->message));
    if (ferror(stdout)) return cli_stdout_lost(err, table_errno());
    return GG_OK;
}

/* The verdict on a model without errors: on request, or to a person. */
static void tell_verdict(const cli *c, const char *model, const gg_check_report *report)
{
    char text[700];
    if (report->found[GG_CHECK_ERROR] || !(c->verbose || isatty(STDERR_FILENO))) return;
    gg_check_verdict_text(report, text);
    if (gg_check_verdict(report) == GG_VERDICT_SOUND)
        cli_note(c, "%s: %s: %s, %zu tensor%s", model, text,
                 report->kind == GG_KIND_MODEL ? report->architecture : gg_kind_name(report->kind),
                 report->tensors, cli_s(report->tensors));
    else cli_note(c, "%s: %s", model, text);
}

/* Whether the answer is no: with --strict also for warnings, and for what was not checked. */
static bool is_refused(const gg_check_report *report)
{
    return report->found[GG_CHECK_ERROR] ||
           (opt.strict && (report->found[GG_CHECK_WARNING] || report->unchecked[0]));
}

static gg_status check_all(cli *c)
{
    rows r = { .t.json = c->json };
    gg_status worst = GG_OK;
    opt.o.row = print_row;
    opt.o.ctx = &r;
    for (size_t i = 0; i < c->args.n; i++) {
        gg_check_report report;
        gg_error err = GG_ERROR_INIT;
        bool last = i + 1 == c->args.n;
        r.model = c->args.items[i];
        gg_status st = gg_check_model(r.model, &opt.o, &c->run, &report, &err);
        if (st == GG_OK && !isatty(STDOUT_FILENO)) table_begin(&r.t, columns);
        if (st == GG_OK) tell_verdict(c, r.model, &report);
        if (st == GG_OK && is_refused(&report)) st = GG_NO;
        if (gg_status_exit(st) > gg_status_exit(worst)) worst = st;
        if (st == GG_ECANCELLED || (st == GG_EIO && ferror(stdout)) || (last && worst == st)) {
            c->err = err;
            return worst;
        }
        if (st != GG_OK && st != GG_NO) cli_print_error(c, &err); /* others are still checked */
    }
    return worst;
}

static gg_status print_hash(void *ctx, const gg_hash_row *r, gg_error *err)
{
    table *t = ctx;
    table_begin(t, hash_columns);
    table_line(t, cell_text(r->sha256), cell_text(r->kind), cell_escaped(r->name),
               cell_escaped(r->detail));
    if (ferror(stdout)) return cli_stdout_lost(err, table_errno());
    return GG_OK;
}

/* Prints the hashes of a model or, with a list, the differences from it. */
static gg_status hash(cli *c, const char *list, const char *model)
{
    gg_source *s = NULL;
    table hashes = { .json = c->json };
    rows differences = { .t.json = c->json, .model = model };
    gg_hash_options o = { .list = list,
                          .row = print_hash,
                          .finding = print_row,
                          .ctx = list ? (void *)&differences : (void *)&hashes };
    gg_check_report report;
    gg_source_options watched = { .stored_names = true, .changed = &c->changed };
    gg_status st = gg_source_open_with(model, &watched, &s, &c->err);
    if (st == GG_OK) st = gg_check_hash(s, &o, &c->run, &report, &c->err);
    gg_source_close(s);
    if (st != GG_OK) return st;
    if (list) table_begin(&differences.t, columns);
    else table_begin(&hashes, hash_columns);
    return report.found[GG_CHECK_ERROR] ? GG_NO : GG_OK;
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, check);
    cli_start(&c, argc, argv, options);
    gg_status st = GG_OK;
    if (opt.hash || opt.list) {
        if (c.args.n != 1) cli_usage(&c, "give one model");
        st = hash(&c, opt.list, c.args.items[0]);
    } else {
        if (c.args.n == 0) cli_usage(&c, "give at least one model");
        st = check_all(&c);
    }
    return cli_end(&c, st);
}
