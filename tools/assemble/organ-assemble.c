/* organ-assemble - write a model from an organ directory or another model. */
#include "common/cli.h"
#include "common/lists.h"
#include "common/output_options.h"
#include "common/pictures.h"
#include "organ/gg_check.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: organ-assemble MODEL --output FILE\n"
    "Write a model from any source: an organ directory, a GGUF file, any shard of a\n"
    "split model, or - for stdin. Merge or split shards, re-encode, set keys.\n"
    "What you did not change in a directory is restored byte for byte.\n"
    "MODEL may be named: --model or --dir.\n"
    ,
    "  organ-assemble tests/data/lab/lab-verse-q4_k_m.gguf --dtype q4_k_s \\\n"
    "    --output /tmp/verse-q4.gguf --force\n"
    "  organ-assemble /tmp/verse-q4.gguf --output /tmp/verse.gguf --shards 3 --force\n"
    "  cat /tmp/verse-0000?-of-00003.gguf | organ-assemble - -o - > /tmp/joined.gguf\n"
    "exit: 0 done, 1 nothing matches or fits, 2 usage, 3 malformed input, 4 I/O\n"
};
/* clang-format on */

/* A text beside the model: a table, rules. The file is opened before the work begins, so that an
 * existing one is refused. */
typedef struct text_output {
    const char *path; /* NULL = not asked for; "-" is stdout */
    gg_buf text;
    gg_output *file;
} text_output;

static gg_status end_text(cli *c, text_output *o, gg_status done)
{
    done = text_end(c, o->path, o->file, &o->text, done);
    gg_buf_free(&o->text);
    return done;
}

/* ---- the options ------------------------------------------------------------------------ */

typedef struct report {
    text_output out;
    table rows;
} report;

typedef struct sizes {
    uint64_t size;
    double bpw;
    text_output rules;
    table rows;
} sizes;

/* ---- --list-types and --list-presets --------------------------------------------------- */

static void print_types(cli *c)
{
    table to = list_start(c, "name\tid\tblock\tblock_bytes\tbits\tdecode\tencode");
    const gg_dtype_info *type;
    for (size_t i = 0; (type = gg_dtype_at(i)) != NULL; i++) {
        if (type->kind == GG_DTYPE_REMOVED) continue;
        table_line(
            &to, cell_text(type->name), cell_u64(type->id), cell_u64(type->block_elems),
            cell_u64(type->block_bytes), cell_f64(8.0 * type->block_bytes / type->block_elems),
            cell_text(gg_can_decode(type->id) ? "yes" : "no"), cell_text(list_encoding(type)));
    }
}

static void print_presets(cli *c)
{
    table to = list_start(c, "name\tfile_type\tdtype");
    const gg_preset *preset;
    for (size_t i = 0; (preset = gg_preset_at(i)) != NULL; i++) {
        table_line(&to, cell_text(preset->name), cell_u64(preset->file_type),
                   cell_text(gg_dtype_get(preset->dtype)->name));
    }
}

enum { NAMES_GGUF, NAMES_HF }; /* --names */

static struct {
    const char *dir, *model, *output, *vocabulary;
    struct {
        const char *experts, *by, *share, *refit, *imatrix_out;
        uint64_t units;
        gg_texts texts;
    } pruned; /* options that start organ-prune */
    int names;
    report report;
    sizes sizes;
    gg_assemble_options o;
} opt;

static const cli_option options[] = {
    { "dir", CLI_DIR, .to = &opt.dir, .excludes = "model" },
    { "model", CLI_MODEL, .to = &opt.model, .place = 1, .required = "dir" },
    { "output", CLI_NEW_MODEL, .to = &opt.output, .arg = "FILE", .required = "dry-run",
      .help = "the model to write; - is stdout, written front to back" },
    { "vocab-from", CLI_MODEL, .to = &opt.vocabulary, .arg = "MODEL",
      .help = "take the vocabulary from this GGUF model; --pre NAME" },
    { "pre", CLI_TEXT, .at = offsetof(cli, pre), .arg = "NAME" },
    { "names", CLI_WORD, .to = &opt.names, .arg = "gguf|hf", .values = "gguf hf",
      .help = "names in a FILE that ends with .safetensors" },
    { .group = output_group, .to = &opt.o.output },
    { .name = NULL,
      .help = "RULES is a preset such as q4_k_m (--list-presets), GLOB=TYPE,... or both. The first "
              "GLOB that matches is used; a stack of experts is one tensor. TYPE is one of "
              "--list-types, or keep. Norms, biases, routers and the like keep their type unless "
              "GLOB names them. @FILE reads rules; like:MODEL gives the types of MODEL. The "
              "fallback is for rows that do not fit TYPE. With the source's number of shards, its "
              "shards are restored." },
    { "size", CLI_SIZE, .to = &opt.sizes.size, .arg = "SIZE", .excludes = "bpw",
      .help = "choose types for the least loss in at most SIZE (4.5G)" },
    { "bpw", CLI_F64, .to = &opt.sizes.bpw, .arg = "X",
      .help = "the same with at most X bits per weight" },
    { "types", CLI_TEXT, .to = &opt.o.types, .arg = "LIST", .list = list_encodable,
      .needs = "size bpw", .help = "the types to choose from, such as q3_k,q4_k,q6_k,keep" },
    { "sensitivity", CLI_FILE, .to = &opt.o.sensitivity, .arg = "F", .needs = "size bpw",
      .help = "measured losses (organ-sensitivity); else they are guessed" },
    { "dry-run", CLI_FLAG, .to = &opt.o.dry_run, .excludes = "report",
      .excludes_why = "writes no model to report on", .help = "print the plan and write nothing" },
    { "rules", CLI_NEW_FILE, .to = &opt.sizes.rules.path, .arg = "FILE", .needs = "size bpw",
      .help = "write the plan as rules for --dtype @FILE" },
    { "report", CLI_NEW_FILE, .to = &opt.report.out.path, .arg = "FILE",
      .help = "a table of the error of each tensor (- is stdout)" },
    { "keep-experts", CLI_RANGE_FILE, .to = &opt.pruned.experts, .arg = "L",
      .help = "with --by F, --keep-units N, --expert-share 50%, --refit F, --imatrix-out F or "
              "--text-imatrix F: starts organ-prune(1), whose options these are" },
    { "by", CLI_FILE, .to = &opt.pruned.by, .arg = "importance", .values = "importance" },
    { "keep-units", CLI_U64, .to = &opt.pruned.units, .arg = "N", .low = 1, .high = 1e9 },
    { "expert-share", CLI_TEXT, .to = &opt.pruned.share, .arg = "50%" },
    { "refit", CLI_FILE, .to = &opt.pruned.refit, .arg = "F" },
    { "imatrix-out", CLI_NEW_FILE, .to = &opt.pruned.imatrix_out, .arg = "FILE" },
    { "text-imatrix", CLI_FILE, .to = &opt.pruned.texts, .arg = "F", .many = true },
    { "no-verify", CLI_FLAG, .to = &opt.o.no_verify,
      .help = "do not compare the data with the manifest's sha256" },
    { "strict", CLI_FLAG, .at = offsetof(cli, run.strict),
      .help = "refuse what no engine would load" },
    { "force", CLI_FLAG, .at = offsetof(cli, run.force), .help = "replace existing files" },
    { "partial", CLI_FLAG, .at = offsetof(cli, run.partial), .flow = "; ",
      .help = "(shards may be missing)" },
    { "list-types", CLI_ACT, .act = print_types, .help = "list the tensor types" },
    { "list-presets", CLI_ACT, .act = print_presets, .flow = "; " },
    { .group = cli_common },
    { "json", CLI_FLAG, .at = offsetof(cli, json), .flow = ", ", .needs = "report dry-run",
      .help = "(tables)" },
    { 0 },
};

/* ---- --report -------------------------------------------------------------------------- */

static gg_status add_row(void *ctx, const gg_encode_row *r, gg_error *err)
{
    table *rows = &((report *)ctx)->rows;
    (void)err;
    table_line(rows, cell_bytes(r->tensor->name, r->tensor->name_len),
               cell_text(gg_dtype_get(r->from)->name),
               cell_text(gg_dtype_get(r->tensor->dtype)->name), cell_u64(r->tensor->bytes),
               cell_f64(r->rmse), cell_f64(r->rel_l2), cell_f64_if(r->weighted));
    return GG_OK;
}

/* ---- --size and --bpw ------------------------------------------------------------------ */

static gg_status add_size_row(void *ctx, const gg_size_row *r, gg_error *err)
{
    sizes *s = ctx;
    const char *type = gg_dtype_get(r->tensor->dtype)->name;
    bool chosen = strcmp(r->basis, "-") != 0;
    gg_status st = GG_OK;
    if (s->rules.path && chosen)
        st = gg_buf_printf(&s->rules.text, err, "%s=%s\n", r->tensor->name, type);
    if (!opt.o.dry_run) return st;
    if (r->file) {
        const gg_dtype_info *wanted = gg_dtype_get(r->wanted);
        table_begin(&s->rows, "tensor\ttype\tbytes\tfrom\tfile\twanted");
        table_line(&s->rows, cell_bytes(r->tensor->name, r->tensor->name_len), cell_text(type),
                   cell_u64(r->tensor->bytes), cell_text(gg_dtype_get(r->from)->name),
                   cell_text(r->file), cell_text_if(wanted ? wanted->name : NULL));
        return st;
    }
    table_begin(&s->rows, "tensor\ttype\tbytes\terror\tloss\tshare\tbasis");
    table_line(&s->rows, cell_bytes(r->tensor->name, r->tensor->name_len), cell_text(type),
               cell_u64(r->tensor->bytes), cell_f64(r->error), cell_f64(r->loss),
               cell_f64(r->share), cell_text_if(chosen ? r->basis : NULL));
    return st;
}

/* ---- the run ------------------------------------------------------------------------------ */

/* ---- options of organ-prune ---------------------------------------------------------------- */

#define PRUNED "keep-experts by keep-units expert-share refit imatrix-out text-imatrix"

/* A number that may mean an expert or how many is refused; a list is one of numbers. */
static const char *experts_option(const cli *c, const char *value)
{
    if (!value || !*value || value[strspn(value, "0123456789")]) return "--experts";
    if (!cli_given_any(c, "by expert-share"))
        cli_usage(c,
                  "--keep-experts %s may mean two things: to keep %s experts, add --by importance "
                  "and --imatrix F; to keep expert number %s, use organ-prune --experts %s",
                  value, value, value, value);
    return "--keep-experts";
}

/* Replaces this program by organ-prune, with the options as it names them. */
static void start_prune(const cli *c, int argc, char **argv)
{
    char **args = calloc((size_t)argc + 2, sizeof *args);
    const char *slash = strrchr(argv[0], '/');
    size_t dir = slash ? (size_t)(slash + 1 - argv[0]) : 0;
    char *path = malloc(dir + sizeof "organ-prune");
    if (!args || !path) cli_usage(c, "no memory to start organ-prune");
    memcpy(path, argv[0], dir);
    memcpy(path + dir, "organ-prune", sizeof "organ-prune");
    args[0] = path;
    for (int i = 1, end = 0; i < argc; i++) {
        static const char experts[] = "--keep-experts", share[] = "--expert-share";
        size_t n = strcspn(argv[i], "=");
        const char *name = NULL, *value = argv[i][n] ? argv[i] + n + 1 : argv[i + 1];
        end = end || strcmp(argv[i], "--") == 0;
        if (!end && n == sizeof experts - 1 && strncmp(argv[i], experts, n) == 0)
            name = experts_option(c, value);
        else if (!end && n == sizeof share - 1 && strncmp(argv[i], share, n) == 0) name = "--share";
        args[i] = argv[i];
        if (!name) continue;
        size_t size = strlen(name) + strlen(argv[i] + n) + 1;
        if (!(args[i] = malloc(size))) cli_usage(c, "no memory to start organ-prune");
        snprintf(args[i], size, "%s%s", name, argv[i] + n);
    }
    if (dir) execv(path, args);
    else execvp(path, args);
    cli_usage(c, "organ-prune, which removes experts and units, cannot be started: %s",
              strerror(errno));
}

/* Checks what depends on the values of options. */
static void check_values(const cli *c)
{
    const char *rules = opt.sizes.rules.path, *table_path = opt.report.out.path;
    if (cli_given(c, "bpw") && !(opt.sizes.bpw > 0 && opt.sizes.bpw <= 1000))
        cli_usage(c, "--bpw must be between 0 and 1000");
    if ((opt.o.dry_run || table_path) && cli_is_stdout(rules))
        cli_usage(c, "--rules - would mix with a table: name a file");
}

static void set_options(cli *c)
{
    gg_assemble_options *o = &opt.o;
    output_options_end(c, &o->output);
    o->hf_names = opt.names == NAMES_HF;
    o->size = opt.sizes.size;
    o->bpw = opt.sizes.bpw;
    if (opt.report.out.path) {
        opt.report.rows = table_into(&opt.report.out.text, c->json,
                                     "name\tfrom\tdtype\tbytes\trmse\trel_l2\tweighted");
        o->encoded = add_row;
        o->encoded_ctx = &opt.report;
    }
    if (o->dry_run || opt.sizes.rules.path) {
        opt.sizes.rows.json = c->json;
        o->planned = add_size_row;
        o->planned_ctx = &opt.sizes;
    }
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, assemble);
    cli_start(&c, argc, argv, options);
    c.run.review = gg_check_review;
    if (cli_given_any(&c, PRUNED) && opt.names == NAMES_HF)
        cli_usage(&c,
                  "experts and units are removed under GGUF names: prune first, then use --names");
    if (cli_given_any(&c, PRUNED)) start_prune(&c, argc, argv);
    if (opt.dir) opt.model = opt.dir;
    check_values(&c);
    set_options(&c);
    gg_assemble_report r = { 0 };
    gg_source *source = NULL, *vocabulary = NULL;
    gg_status st = text_open(&c, opt.report.out.path, &opt.report.out.file);
    if (st == GG_OK) st = text_open(&c, opt.sizes.rules.path, &opt.sizes.rules.file);
    c.stored_names = opt.output && cli_has_ending(opt.output, ".safetensors");
    c.whole = !opt.vocabulary && opt.names != NAMES_HF;
    if (st == GG_OK) st = cli_open(&c, opt.model, CLI_DATA, &source);
    if (st == GG_OK && opt.vocabulary)
        st = cli_open(&c, opt.vocabulary, CLI_HEADER_ONLY, &vocabulary);
    if (vocabulary) opt.o.vocabulary = gg_source_meta(vocabulary);
    if (st == GG_OK) st = gg_assemble(source, &opt.o, opt.output, &c.run, &r, &c.err);
    gg_source_close(source);
    gg_source_close(vocabulary);
    st = end_text(&c, &opt.report.out, st);
    st = end_text(&c, &opt.sizes.rules, st);
    if (st == GG_OK && c.verbose && !opt.o.dry_run)
        cli_note(&c, "%zu tensor%s, %llu bytes in %zu file%s", r.tensors, cli_s(r.tensors),
                 (unsigned long long)r.bytes, r.files, cli_s(r.files));
    if (st == GG_OK && opt.o.dry_run && !(r.loss > 0) && !cli_given_any(&c, "size bpw"))
        cli_note(&c, "%llu bytes in %zu file%s would be written", (unsigned long long)r.bytes,
                 r.files, cli_s(r.files));
    return cli_end(&c, st);
}
