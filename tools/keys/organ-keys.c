/* organ-keys - list, read and change the metadata of a model. */
#include "keys_write.h"

#include "common/cli.h"
#include "common/model_text.h"
#include "common/output_options.h"
#include "common/table.h"

#include "base/buf.h" /* a command */

#include "organ/select.h" /* gg_glob: keys use the patterns of tensors */
#include "organ/source_layout.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: organ-keys MODEL [GLOB...]\n"
    "       organ-keys MODEL --get KEY\n"
    "       organ-keys MODEL EDIT... --output MODEL2.gguf | --in-place\n"
    "List, read and change the metadata keys of a model: a GGUF file, any shard of a\n"
    "split model, an organ directory, or - for stdin. GLOBs select keys by name.\n"
    ,
    "  organ-keys tests/data/lab/lab-verse-q4_k_m.gguf 'general.*' '*.block_count'\n"
    "  organ-keys tests/data/lab/lab-verse-q4_k_m.gguf --get general.architecture\n"
    "  organ-keys tests/data/lab/lab-verse-q4_k_m.gguf --set general.name=str:Verse \\\n"
    "    --output /tmp/named.gguf --force\n"
    "exit: 0 done, 1 no such key or no room in place, 2 usage, 3 malformed, 4 I/O\n"
};
/* clang-format on */

#define SHOWN_ELEMENTS 8 /* of an array */
#define SHOWN_BYTES 60   /* of a string, on a terminal */

static struct {
    const char *model, *get, *output;
    bool full, in_place, recover;
    gg_key_edits edits;
} opt;

static const cli_option options[] = {
    { "", CLI_MODEL, .to = &opt.model, .arg = "MODEL", .place = 1, .required = "" },
    { "", CLI_TEXT, .arg = "GLOB", .place = 2, .many = true },
    { "full", CLI_FLAG, .to = &opt.full, .excludes = NAMES_EDITS, .excludes_why = "is for lists",
      .help = "do not shorten arrays, nor long strings on a terminal" },
    { "get", CLI_TEXT, .to = &opt.get, .arg = "KEY", .excludes = NAMES_EDITS " full",
      .excludes_why = "prints one value and takes no edits",
      .help = "print only the value: a string byte for byte, a number and a newline, an array one "
              "element per line" },
    { .name = NULL, .help = "edits, done in this order:" },
    { "delete", CLI_TEXT, .to = &opt.edits.deletes, .arg = "KEY", .many = true,
      .needs = "output in-place", .needs_why = "they say where the change goes",
      .help = "remove a key" },
    { "rename", CLI_TEXT, .to = &opt.edits.renames, .arg = "OLD=NEW", .many = true,
      .needs = "output in-place", .needs_why = "they say where the change goes",
      .help = "rename a key; it keeps its position" },
    { "set", CLI_TEXT, .to = &opt.edits.sets, .arg = "KEY=T:VALUE", .many = true,
      .needs = "output in-place", .needs_why = "they say where the change goes",
      .help = "set a key; T is u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool str, or one of these and "
              "[] with VALUE a,b,c. Without T the key keeps its type. KEY[N]=VALUE changes element "
              "N of an array" },
    { "set-file", CLI_KEY_FILE, .to = &opt.edits.files, .arg = "KEY=FILE", .many = true,
      .local = true, .needs = "output in-place", .needs_why = "they say where the change goes",
      .help = "set a key to the content of a file, as a string; an array to its lines, as --get "
              "prints them" },
    { .name = NULL, .help = "each edit can be given several times. Where the result goes:" },
    { "output", CLI_NEW_MODEL, .to = &opt.output, .arg = "FILE", .needs = NAMES_EDITS,
      .needs_why = "there is nothing to change", .excludes = "in-place",
      .help = "write a new model. A split model becomes one file, or as many shards again if FILE "
              "is named like one of them" },
    { "in-place", CLI_FLAG, .to = &opt.in_place, .needs = NAMES_EDITS,
      .needs_why = "there is nothing to change",
      .help = "change the header of the file itself, if it fits; not of a file with several hard "
              "links, unless --force is given" },
    { "follow", CLI_FLAG, .at = offsetof(cli, run.follow), .needs = "in-place",
      .help = "change the file that a symbolic link leads to" },
    { "recover", CLI_FLAG, .to = &opt.recover, .excludes = NAMES_EDITS " get",
      .excludes_why = "takes a model and nothing else",
      .help = "repair a model after an interrupted change in place; every run of organ-keys on the "
              "model does this first" },
    { .group = cli_strict },
    { .group = cli_writes },
    { .group = cli_common },
    { "json", CLI_FLAG, .at = offsetof(cli, json), .flow = ", ", .excludes = NAMES_EDITS,
      .excludes_why = "is for tables", .help = "(tables)" },
    { 0 },
};

/* ---- reading ----------------------------------------------------------------- */

/* What a terminal gets: all that would act on it is escaped, but for tabs and the ends of lines. */
static bool put_visible(const char *bytes, const char *end)
{
    char visible[4 * 256 + 1];
    while (bytes < end) {
        const char *stop = bytes;
        while (stop < end && stop - bytes < 256 && *stop != '\n' && *stop != '\t') stop++;
        /* no half of a character */
        while (stop < end && stop - bytes > 252 && (*stop & 0xc0) == 0x80) stop--;
        gg_escape(bytes, (size_t)(stop - bytes), visible, sizeof visible);
        fputs(visible, stdout);
        if (stop == bytes) putchar(*stop++);
        bytes = stop;
    }
    return !ferror(stdout);
}

static gg_status to_stdout(void *ctx, const char *bytes, size_t n, gg_error *err)
{
    (void)ctx;
    if (isatty(STDOUT_FILENO) && put_visible(bytes, bytes + n)) return GG_OK;
    if (n == 0 || fwrite(bytes, 1, n, stdout) == n) return GG_OK;
    return gg_fail_errno(err, "cannot write to stdout");
}

static void print_row(cli *c, table *rows, const gg_kv *kv, gg_key_form form)
{
    char type[GG_KEY_TYPE];
    gg_key_type(kv, type);
    table_line(rows, cell_bytes(kv->key, kv->key_len), cell_text(type), cell_u64(kv->count),
               cell_key_value(kv, form, &c->err));
}

static gg_status get(cli *c, const gg_meta *meta)
{
    const gg_kv *kv = gg_keys_find(meta, opt.get);
    if (!kv) {
        gg_fail(&c->err, GG_NO, "there is no key '%s'", opt.get);
        gg_fix(&c->err, "run organ-keys without --get to list the keys");
        return gg_at_file(&c->err, opt.model);
    }
    if (!c->json) return gg_key_put(kv, &(gg_key_form){ GG_KEY_PLAIN }, to_stdout, NULL, &c->err);
    table rows = table_start(true, "key\ttype\tcount\tvalue");
    print_row(c, &rows, kv, (gg_key_form){ 0 });
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

/* A pattern without a match is an error, as it is most often a typo. */
static gg_status refuse_unused(cli *c, const bool *used)
{
    for (size_t g = 1; g < c->args.n; g++) {
        const char *pattern = c->args.items[g];
        if (used[g]) continue;
        gg_fail(&c->err, GG_NO, "no key matches '%s'", pattern);
        if (!strpbrk(pattern, "*?["))
            gg_fix(&c->err, "patterns match whole names; try '*%s*'", pattern);
        return gg_at_file(&c->err, c->args.items[0]);
    }
    return GG_OK;
}

static gg_status list(cli *c, const gg_meta *meta)
{
    gg_key_form form = { 0 };
    if (!opt.full) form.elements = SHOWN_ELEMENTS;
    if (!opt.full && isatty(STDOUT_FILENO)) form.bytes = SHOWN_BYTES;
    bool *shown = calloc(meta->n + 1, sizeof *shown), *used = calloc(c->args.n, sizeof *used);
    gg_status st = shown && used ? match(c, meta, shown, used)
                                 : gg_fail(&c->err, GG_ENOMEM, "no memory for %zu keys", meta->n);
    bool any = c->args.n == 1;
    for (size_t i = 0; i < meta->n && st == GG_OK; i++) {
        shown[i] = shown[i] || c->args.n == 1;
        any = any || shown[i];
    }
    if (st == GG_OK && any) {
        table rows = table_start(c->json, "key\ttype\tcount\tvalue");
        for (size_t i = 0; i < meta->n && c->err.status == GG_OK; i++)
            if (shown[i]) print_row(c, &rows, &meta->kv[i], form);
    }
    if (c->err.status == GG_OK) refuse_unused(c, used);
    free(shown);
    free(used);
    return c->err.status;
}

static gg_status read_keys(cli *c)
{
    gg_source *s = NULL;
    gg_status st = cli_open(c, opt.model, CLI_HEADER_ONLY, &s);
    const gg_meta *meta = st == GG_OK ? gg_source_meta(s) : NULL;
    if (meta) {
        gg_source_note_keys(s);
        st = opt.get ? get(c, meta) : list(c, meta);
    } else if (st == GG_OK) {
        gg_fail(&c->err, GG_EUSAGE, "organ records have no keys");
        gg_fix(&c->err, "give a model or an organ directory");
        st = gg_at_file(&c->err, opt.model);
    }
    gg_source_close(s);
    return st;
}

/* ---- changing ---------------------------------------------------------------- */

static gg_status recover(cli *c)
{
    gg_recovery what;
    gg_status st = gg_keys_recover(opt.model, &what, &c->err);
    if (st != GG_OK) return st;
    if (what == GG_RECOVERY_UNDONE)
        cli_note(c, "%s: an interrupted change of its keys was undone", opt.model);
    else if (what == GG_RECOVERY_FINISHED)
        cli_note(c, "%s: an interrupted change of its keys had been completed", opt.model);
    else if (opt.recover) cli_note(c, "%s: nothing to recover", opt.model);
    return GG_OK;
}

static gg_status write_model(cli *c, const gg_key_edits *edits)
{
    gg_source *s = NULL;
    gg_keys_report r = { 0 };
    gg_status st = cli_open(c, opt.model, CLI_DATA, &s);
    if (st == GG_OK) key_options_spelling(c, gg_source_meta(s), &edits->sets);
    /* Keys are often set one after another, and contradict the tensors until the last. */
    if (st == GG_OK && !gg_source_is_checkpoint(s)) c->run.lenient = true;
    if (st == GG_OK) st = gg_keys_write(s, edits, opt.output, &c->run, &r, &c->err);
    gg_source_close(s);
    if (st == GG_OK && c->verbose)
        cli_note(c, "%llu bytes in %zu file%s", (unsigned long long)r.bytes, r.files,
                 cli_s(r.files));
    return st;
}

/* Appends a word of a command, in quotation marks where the shell needs them. */
static void add_word(gg_buf *to, const char *word, gg_error *err)
{
    bool plain = *word &&
                 strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                              "_./-+=,@%:") == strlen(word);
    gg_buf_text(to, plain ? " " : " '", err);
    for (; *word; word++) gg_buf_printf(to, err, !plain && *word == '\'' ? "'\"'\"'" : "%c", *word);
    if (!plain) gg_buf_text(to, "'", err);
}

static void add_edits(gg_buf *to, const char *option, const gg_texts *texts, gg_error *err)
{
    for (size_t i = 0; i < texts->n; i++) {
        gg_buf_printf(to, err, " %s", option);
        add_word(to, texts->items[i], err);
    }
}

/* The command that writes a new model, for keys that do not fit into the old one. */
static void advise_output(cli *c)
{
    gg_buf command = GG_BUF_INIT;
    gg_error ignored = GG_ERROR_INIT;
    size_t stem = strlen(opt.model);
    char name[1100];
    if (stem > 5 && strcmp(opt.model + stem - 5, ".gguf") == 0) stem -= 5;
    snprintf(name, sizeof name, "%.*s-new.gguf", (int)(stem < 1000 ? stem : 1000), opt.model);
    gg_buf_text(&command, "organ-keys", &ignored);
    add_word(&command, opt.model, &ignored);
    add_edits(&command, "--delete", &opt.edits.deletes, &ignored);
    add_edits(&command, "--rename", &opt.edits.renames, &ignored);
    add_edits(&command, "--set", &opt.edits.sets, &ignored);
    add_edits(&command, "--set-file", &opt.edits.files, &ignored);
    gg_buf_text(&command, " --output", &ignored);
    add_word(&command, name, &ignored);
    gg_buf_append(&command, "", 1, &ignored);
    if (ignored.status == GG_OK && command.len < sizeof c->err.fix - 8)
        snprintf(c->err.fix, sizeof c->err.fix, "run: %s", command.data);
    else if (ignored.status == GG_OK && command.len < 2000)
        cli_note(c, "this command writes a new model: %s", command.data);
    gg_buf_free(&command);
}

static gg_status edit(cli *c)
{
    gg_keys_report r = { 0 };
    key_options_note(c, &opt.edits.sets, "--set-file");
    if (opt.output) return write_model(c, &opt.edits);
    gg_source *s = NULL;
    opt.edits.in_place = true;
    c->run.lenient = true; /* as in write_model */
    gg_status st = gg_source_open_with(opt.model, NULL, &s, &c->err);
    if (st == GG_OK) key_options_spelling(c, gg_source_meta(s), &opt.edits.sets);
    if (st == GG_OK) st = gg_keys_write(s, &opt.edits, NULL, &c->run, &r, &c->err);
    gg_source_close(s);
    if (st == GG_NO && r.lacks) advise_output(c);
    if (st == GG_OK && r.same) cli_note(c, "nothing changed: the keys already have these values");
    else if (st == GG_OK && c->verbose)
        cli_note(c, "%llu bytes of the header changed", (unsigned long long)r.bytes);
    return st;
}

static bool edits(void)
{
    return opt.edits.deletes.n + opt.edits.renames.n + opt.edits.sets.n + opt.edits.files.n > 0;
}

/* Checks what depends on the values of options and on the other arguments. */
static void check_values(const cli *c)
{
    size_t readers = strcmp(opt.model, "-") == 0;
    if ((opt.get || edits()) && c->args.n > 1)
        cli_usage(c, "unexpected argument '%s': patterns cannot be combined with --get or edits",
                  c->args.items[1]);
    if (opt.recover && c->args.n > 1) cli_usage(c, "--recover takes a model and nothing else");
    if (opt.in_place || opt.recover) cli_require_own(c, opt.model);
    if (opt.in_place && readers)
        cli_usage(c, "stdin cannot be changed in place: give a file name, or use --output");
    for (size_t i = 0; i < opt.edits.files.n; i++) {
        const char *eq = strchr(opt.edits.files.items[i], '=');
        readers += eq && strcmp(eq, "=-") == 0;
    }
    if (readers > 1)
        cli_usage(c, "stdin can be read only once: put the model or the value in a file");
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, keys);
    cli_start(&c, argc, argv, options);
    cli_writes_models(&c);
    check_values(&c);
    c.stored_names = !opt.output || cli_has_ending(opt.output, ".safetensors");
    gg_status st = strcmp(opt.model, "-") == 0 ? GG_OK : recover(&c);
    if (st == GG_OK && !opt.recover) st = edits() ? edit(&c) : read_keys(&c);
    return cli_end(&c, st);
}
