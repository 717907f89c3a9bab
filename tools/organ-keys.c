/* organ-keys - list, read and change the metadata of a model. */
#include "organ/gg_keys.h"

#include "cli.h"
#include "key_options.h"
#include "organ/select.h" /* gg_glob: keys use the patterns of tensors */
#include "table.h"
#include "verbs/shared/key_text.h" /* values as the manual page shows them */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: organ-keys MODEL [GLOB...]\n"
    "       organ-keys MODEL --get KEY\n"
    "       organ-keys MODEL EDIT... --output MODEL2.gguf | --in-place\n"
    "List, read and change the metadata keys of a model: a GGUF file, any shard of a\n"
    "split model, an organ directory, or - for stdin. GLOBs select keys by name.\n"
    "\n"
    "  --full             do not shorten arrays, nor long strings on a terminal\n"
    "  --get KEY          print only the value: a string byte for byte, a number\n"
    "                     and a newline, an array one element per line\n"
    "edits, done in this order:\n"
    "  --delete KEY       remove a key\n"
    "  --rename OLD=NEW   rename a key; it keeps its position\n"
    "  --set KEY=T:VALUE  set a key; T is u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool\n"
    "                     str, or one of these and [] with VALUE a,b,c. Without T\n"
    "                     the key keeps its type\n"
    "  --set-file KEY=FILE  set a key to the content of a file, as a string\n"
    "each edit can be given several times. Where the result goes:\n"
    "  --output FILE      write a new model. A split model becomes one file, or as\n"
    "                     many shards again if FILE is named like one of them\n"
    "  --in-place         change the header of the file itself, if it fits; not of a\n"
    "                     file with several hard links, unless --force is given\n"
    "  --recover          repair a model after an interrupted change in place; every\n"
    "                     run of organ-keys on the model does this first\n"
    "  --strict           write nothing if an engine would refuse the result\n"
    "  --force            replace an existing output\n"
    "common: -j N, -q quiet, -v verbose, --json (tables), --help, --version\n"
    "\n"
    "examples:\n"
    "  organ-keys tests/data/lab/lab-verse-q4_k_m.gguf 'general.*' '*.block_count'\n"
    "  organ-keys tests/data/lab/lab-verse-q4_k_m.gguf --get general.architecture\n"
    "  organ-keys tests/data/lab/lab-verse-q4_k_m.gguf --set general.name=str:Verse \\\n"
    "    --output /tmp/named.gguf --force\n"
    "exit: 0 done, 1 no such key or no room in place, 2 usage, 3 malformed, 4 I/O\n";

#define SHOWN_ELEMENTS 8 /* of an array */
#define SHOWN_BYTES 60   /* of a string, on a terminal */

typedef struct arguments {
    const char *model, *get, *output;
    bool full, in_place, recover;
    cli_list deletes, renames, sets, files;
} arguments;

/* ---- reading ----------------------------------------------------------------- */

static gg_status to_stdout(void *ctx, const char *bytes, size_t n, gg_error *err)
{
    (void)ctx;
    if (n == 0 || fwrite(bytes, 1, n, stdout) == n) return GG_OK;
    return gg_fail_errno(err, "cannot write to stdout");
}

static void print_row(cli *c, table *rows, const gg_kv *kv, const gg_key_limits *limits)
{
    char type[GG_KEY_TYPE];
    gg_key_type(kv, type);
    cell_bytes(rows, kv->key, kv->key_len);
    cell_text(rows, type);
    cell_u64(rows, kv->count);
    gg_key_out o = cell_open(rows);
    if (c->json) gg_key_put_json(&o, kv, &c->err);
    else gg_key_put_text(&o, kv, limits, &c->err);
    table_row(rows);
}

static gg_status get(cli *c, const arguments *a, const gg_meta *meta)
{
    const gg_kv *kv = gg_keys_find(meta, a->get);
    gg_key_out o = { to_stdout, NULL };
    if (!kv) {
        gg_fail(&c->err, GG_NO, "there is no key '%s'", a->get);
        gg_fix(&c->err, "run organ-keys without --get to list the keys");
        return gg_at_file(&c->err, a->model);
    }
    if (!c->json) return gg_key_put_bare(&o, kv, &c->err);
    table rows = table_start(true, "key\ttype\tcount\tvalue");
    print_row(c, &rows, kv, NULL);
    return c->err.status;
}

/* Keys may contain any bytes. Patterns are matched with the escaped form of the table. */
static gg_status match(cli *c, const gg_meta *meta, bool *shown, bool *used)
{
    for (size_t i = 0; i < meta->n && gg_cancelled(&c->err) == GG_OK; i++) {
        const gg_kv *kv = &meta->kv[i];
        char *key = malloc(4 * kv->key_len + 1);
        if (!key) return gg_fail(&c->err, GG_ENOMEM, "no memory for a key");
        gg_escape(kv->key, kv->key_len, key, 4 * kv->key_len + 1);
        for (size_t g = 1; g < c->args.n; g++) {
            bool fits = gg_glob(c->args.items[g], key);
            shown[i] = shown[i] || fits;
            used[g] = used[g] || fits;
        }
        free(key);
    }
    return c->err.status;
}

/* Chooses the keys to show. A pattern without a match is an error, as it is most often a typo. */
static gg_status choose(cli *c, const gg_meta *meta, bool *shown)
{
    bool *used = calloc(c->args.n, sizeof *used);
    if (!used) return gg_fail(&c->err, GG_ENOMEM, "no memory for patterns");
    for (size_t i = 0; i < meta->n && c->args.n == 1; i++) shown[i] = true;
    gg_status st = match(c, meta, shown, used);
    for (size_t g = 1; g < c->args.n && st == GG_OK; g++) {
        if (used[g]) continue;
        gg_fail(&c->err, GG_NO, "no key matches '%s'", c->args.items[g]);
        gg_fix(&c->err, "patterns match whole names; try '*%s*'", c->args.items[g]);
        st = gg_at_file(&c->err, c->args.items[0]);
    }
    free(used);
    return st;
}

static gg_status list(cli *c, const arguments *a, const gg_meta *meta)
{
    gg_key_limits limits = { 0 };
    if (!a->full) limits.elements = SHOWN_ELEMENTS;
    if (!a->full && isatty(STDOUT_FILENO)) limits.bytes = SHOWN_BYTES;
    bool *shown = calloc(meta->n ? meta->n : 1, sizeof *shown);
    if (!shown) return gg_fail(&c->err, GG_ENOMEM, "no memory for %zu keys", meta->n);
    if (choose(c, meta, shown) == GG_OK) {
        table rows = table_start(c->json, "key\ttype\tcount\tvalue");
        for (size_t i = 0; i < meta->n && c->err.status == GG_OK; i++)
            if (shown[i]) print_row(c, &rows, &meta->kv[i], &limits);
    }
    free(shown);
    return c->err.status;
}

static gg_status read_keys(cli *c, const arguments *a)
{
    gg_source *s = NULL;
    gg_status st = cli_open(c, a->model, CLI_HEADER_ONLY, &s);
    const gg_meta *meta = st == GG_OK ? gg_source_meta(s) : NULL;
    if (meta) {
        st = a->get ? get(c, a, meta) : list(c, a, meta);
    } else if (st == GG_OK) {
        gg_fail(&c->err, GG_EUSAGE, "organ records have no keys");
        gg_fix(&c->err, "give a model or an organ directory");
        st = gg_at_file(&c->err, a->model);
    }
    gg_source_close(s);
    return st;
}

/* ---- changing ---------------------------------------------------------------- */

static gg_status recover(cli *c, const arguments *a)
{
    gg_recovery what;
    gg_status st = gg_keys_recover(a->model, &what, &c->err);
    if (st != GG_OK) return st;
    if (what == GG_RECOVERY_UNDONE)
        cli_note(c, "%s: an interrupted change of its keys was undone", a->model);
    else if (what == GG_RECOVERY_FINISHED)
        cli_note(c, "%s: an interrupted change of its keys had been completed", a->model);
    else if (a->recover) cli_note(c, "%s: nothing to recover", a->model);
    return GG_OK;
}

static gg_status write_model(cli *c, const arguments *a, const gg_key_edits *edits)
{
    gg_source *s = NULL;
    gg_keys_report r = { 0 };
    uint64_t shards = 0;
    gg_status st = cli_open(c, a->model, CLI_DATA, &s);
    /* When shards follow one another on a pipe, only the first is known at first. */
    if (st == GG_OK && gg_source_meta(s))
        gg_kv_u64(gg_meta_find(gg_source_meta(s), "split.count"), &shards);
    if (st == GG_OK && shards > 1) st = gg_source_spool(&s, &c->err);
    if (st == GG_OK) st = gg_keys_write(s, edits, a->output, &c->run, &r, &c->err);
    gg_source_close(s);
    if (st == GG_OK && c->verbose)
        cli_note(c, "%llu bytes in %zu file%s", (unsigned long long)r.bytes, r.files,
                 cli_s(r.files));
    return st;
}

static gg_status edit(cli *c, const arguments *a)
{
    gg_key_edits e = { .deletes = a->deletes.items,
                       .n_deletes = a->deletes.n,
                       .renames = a->renames.items,
                       .n_renames = a->renames.n,
                       .sets = a->sets.items,
                       .n_sets = a->sets.n,
                       .files = a->files.items,
                       .n_files = a->files.n };
    gg_keys_report r = { 0 };
    key_options_note(c, &a->sets, "--set-file");
    if (a->output) return write_model(c, a, &e);
    gg_status st = gg_keys_in_place(a->model, &e, &c->run, &r, &c->err);
    if (st == GG_OK && r.same) cli_note(c, "nothing changed: the keys already have these values");
    else if (st == GG_OK && c->verbose)
        cli_note(c, "%llu bytes of the header changed", (unsigned long long)r.bytes);
    return st;
}

static void check_stdin(const cli *c, const arguments *a)
{
    size_t readers = strcmp(a->model, "-") == 0;
    for (size_t i = 0; i < a->files.n; i++) {
        const char *eq = strchr(a->files.items[i], '=');
        readers += eq && strcmp(eq, "=-") == 0;
    }
    if (readers > 1)
        cli_usage(c, "stdin can be read only once: put the model or the value in a file");
}

static size_t count_edits(const arguments *a)
{
    return a->deletes.n + a->renames.n + a->sets.n + a->files.n;
}

static void check_usage(const cli *c, const arguments *a)
{
    size_t edits = count_edits(a);
    bool writes = a->output || a->in_place;
    if (c->args.n == 0) cli_usage(c, "no model given");
    if (a->output && a->in_place) cli_usage(c, "give --output or --in-place, not both");
    if (edits && !writes)
        cli_usage(c, "give --output FILE or --in-place to say where the change goes");
    if (writes && !edits)
        cli_usage(c, "nothing to change: give --set, --set-file, --delete or --rename");
    if (a->get && (edits || a->full)) cli_usage(c, "--get prints one value and takes no edits");
    if ((a->get || edits) && c->args.n > 1)
        cli_usage(c, "unexpected argument '%s': patterns cannot be combined with --get or edits",
                  c->args.items[1]);
    if (a->recover && (edits || a->get || c->args.n > 1))
        cli_usage(c, "--recover takes a model and nothing else");
    if (a->full && edits) cli_usage(c, "--full cannot be combined with edits");
    if (c->json && edits) cli_usage(c, "--json cannot be combined with edits");
    if (a->in_place && strcmp(a->model, "-") == 0)
        cli_usage(c, "stdin cannot be changed in place: give a file name, or use --output");
    if (a->output && strcmp(a->output, "-") == 0) cli_no_terminal(c, STDOUT_FILENO);
    check_stdin(c, a);
}

int main(int argc, char **argv)
{
    cli c = {
        .tool = "organ-keys", .help = help, .has_json = true, .has_force = true, .has_strict = true
    };
    arguments a = { 0 };
    const cli_option options[] = {
        { "get", CLI_TEXT, &a.get },         { "full", CLI_FLAG, &a.full },
        { "delete", CLI_LIST, &a.deletes },  { "rename", CLI_LIST, &a.renames },
        { "set", CLI_LIST, &a.sets },        { "set-file", CLI_LIST, &a.files },
        { "output", CLI_TEXT, &a.output },   { "in-place", CLI_FLAG, &a.in_place },
        { "recover", CLI_FLAG, &a.recover }, { NULL, CLI_FLAG, NULL }
    };
    cli_start(&c, argc, argv, options);
    a.model = c.args.n ? c.args.items[0] : "";
    check_usage(&c, &a);
    gg_status st = strcmp(a.model, "-") == 0 ? GG_OK : recover(&c, &a);
    if (st == GG_OK && !a.recover) st = count_edits(&a) ? edit(&c, &a) : read_keys(&c, &a);
    free(a.deletes.items);
    free(a.renames.items);
    free(a.sets.items);
    free(a.files.items);
    return cli_end(&c, st);
}
