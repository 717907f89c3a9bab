/* organ-assemble - write a model from an organ directory or another model. */
#include "cli.h"
#include "key_options.h"
#include "lists.h"
#include "output_options.h"
#include "text_output.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: organ-assemble [--model|--dir] MODEL --output FILE\n"
    "Write a model from any source: an organ directory, a GGUF file, any shard of a\n"
    "split model, or - for stdin. Merge or split shards, re-encode, set keys.\n"
    "What you did not change in a directory is restored byte for byte.\n"
    "\n"
    "  -o, --output FILE  the model to write; - is stdout, written front to back\n"
    "  --shards N         split it into FILE-00001-of-0000N.gguf and so on; with the\n"
    "                     source's number of shards, its shards are restored\n"
    "  --shard-size SIZE  split it into shards of at most SIZE of data, such as 2G\n"
    "  --dtype PRESET     as llama-quantize does (--list-presets): q4_0 q8_0 q2_k\n"
    "                     q3_k_m q4_k_m q5_k_m q6_k iq4_xs mxfp4_moe f16 bf16 ...\n"
    "  --dtype RULES      GLOB=TYPE[,GLOB=TYPE...]: the first match is used (a stack\n"
    "                     of experts is one tensor). TYPE: --list-types, or keep.\n"
    "                     Norms, biases, routers and the like keep their type unless\n"
    "                     the glob names them. @FILE reads rules. RULES,PRESET\n"
    "  --fallback TYPE    type for tensors whose rows do not fit TYPE (else an error)\n"
    "  --imatrix F        encode with the importance matrix F (GGUF or older format)\n"
    "  --size SIZE        choose a type per matrix for the least loss in a file of at\n"
    "  --bpw X            most SIZE (4.5G), or X bits per weight; --dtype fixes types\n"
    "  --types LIST       the types to choose from, such as q3_k,q4_k,q6_k,keep\n"
    "  --sensitivity F    measured losses (organ-sensitivity); else they are guessed\n"
    "  --dry-run          print the plan and write nothing; --json\n"
    "  --rules FILE       write the plan as rules for --dtype @FILE\n"
    "  --report FILE      a table of the error of each tensor (- is stdout); --json\n"
    "  --keep-experts L   keep only these experts: a list such as 0-63 for every\n"
    "                     block, or a file with lines of block, tab, experts\n"
    "  --keep-experts N --by importance  with --imatrix: keep the N experts of each\n"
    "                     block that contribute most on the calibration text\n"
    "  --set-kv K=T:V     set a key (may be repeated); K= deletes it\n"
    "  --set-kv-file K=F  set a key to the content of file F, as a string\n"
    "  --no-verify        do not compare the data with the manifest's sha256\n"
    "  --strict           refuse what no engine would load; --force replaces files\n"
    "common: -j N threads, -q quiet, -v verbose, --help, --version\n"
    "\n"
    "examples:\n"
    "  organ-assemble tests/data/lab/lab-verse-q4_k_m.gguf --dtype q4_k_s \\\n"
    "    --output /tmp/verse-q4.gguf --force\n"
    "  organ-assemble tests/data/lab/lab-verse-q4_k_m.gguf --bpw 4 --dry-run\n"
    "  organ-assemble /tmp/verse-q4.gguf --output /tmp/verse.gguf --shards 3 --force\n"
    "  cat /tmp/verse-0000?-of-00003.gguf | organ-assemble - -o - > /tmp/joined.gguf\n"
    "exit: 0 done, 1 nothing matches --dtype or no choice fits the size, 2 usage,\n"
    "3 malformed input, 4 I/O\n";

/* ---- --report -------------------------------------------------------------------------- */

typedef struct report {
    text_output out;
    table rows;
} report;

static gg_status add_row(void *ctx, const gg_encode_row *r, gg_error *err)
{
    table *rows = &((report *)ctx)->rows;
    (void)err;
    cell_bytes(rows, r->tensor->name, r->tensor->name_len);
    cell_text(rows, gg_dtype_get(r->from)->name);
    cell_text(rows, gg_dtype_get(r->tensor->dtype)->name);
    cell_u64(rows, r->tensor->bytes);
    cell_f64(rows, r->rmse);
    cell_f64(rows, r->rel_l2);
    if (isnan(r->weighted)) cell_null(rows);
    else cell_f64(rows, r->weighted);
    table_row(rows);
    return GG_OK;
}

static void start_report(cli *c, report *r, gg_assemble_options *o)
{
    r->rows = table_into(&r->out.text, c->json, "name\tfrom\tdtype\tbytes\trmse\trel_l2\tweighted");
    o->encoded = add_row;
    o->encoded_ctx = r;
}

/* ---- --size and --bpw ------------------------------------------------------------------ */

typedef struct sizes {
    uint64_t size; /* UINT64_MAX = not given */
    double bpw;    /* NAN = not given */
    bool dry_run;
    text_output rules;
    table rows;
} sizes;

static gg_status add_size_row(void *ctx, const gg_size_row *r, gg_error *err)
{
    sizes *s = ctx;
    const char *type = gg_dtype_get(r->tensor->dtype)->name;
    bool chosen = strcmp(r->basis, "-") != 0;
    gg_status st = GG_OK;
    if (s->rules.path && chosen)
        st = gg_buf_printf(&s->rules.text, err, "%s=%s\n", r->tensor->name, type);
    if (!s->dry_run) return st;
    table_begin(&s->rows, "tensor\ttype\tbytes\terror\tloss\tshare\tbasis");
    cell_bytes(&s->rows, r->tensor->name, r->tensor->name_len);
    cell_text(&s->rows, type);
    cell_u64(&s->rows, r->tensor->bytes);
    cell_f64(&s->rows, r->error);
    cell_f64(&s->rows, r->loss);
    cell_f64(&s->rows, r->share);
    if (chosen) cell_text(&s->rows, r->basis);
    else cell_null(&s->rows);
    table_row(&s->rows);
    return st;
}

static void check_sizes(const cli *c, const sizes *s, const report *rep,
                        const gg_assemble_options *o)
{
    bool sized = s->size != UINT64_MAX, bits = !isnan(s->bpw);
    if (sized && bits) cli_usage(c, "give --size or --bpw, not both");
    if (sized && s->size == 0) cli_usage(c, "--size 0: give a size such as 4.5G");
    if (bits && !(s->bpw > 0 && s->bpw <= 1000)) cli_usage(c, "--bpw must be between 0 and 1000");
    if (sized || bits) {
        if (s->dry_run && rep->out.path)
            cli_usage(c, "--report needs a model that is written: leave out --dry-run");
        return;
    }
    const char *alone = s->dry_run       ? "--dry-run"
                        : s->rules.path  ? "--rules"
                        : o->types       ? "--types"
                        : o->sensitivity ? "--sensitivity"
                                         : NULL;
    if (alone) cli_usage(c, "%s needs --size or --bpw", alone);
}

static void start_sizes(const cli *c, sizes *s, gg_assemble_options *o)
{
    if (s->size != UINT64_MAX) o->size = s->size;
    if (!isnan(s->bpw)) o->bpw = s->bpw;
    o->dry_run = s->dry_run;
    if (!s->dry_run && !s->rules.path) return;
    o->planned = add_size_row;
    o->planned_ctx = s;
    s->rows.json = c->json;
}

/* ---- --list-types and --list-presets --------------------------------------------------- */

static void print_types(cli *c)
{
    table to = list_start(c, "name\tid\tblock\tblock_bytes\tbits\tdecode\tencode");
    const gg_dtype_info *type;
    for (size_t i = 0; (type = gg_dtype_at(i)) != NULL; i++) {
        if (type->kind == GG_DTYPE_REMOVED) continue;
        cell_text(&to, type->name);
        cell_u64(&to, type->id);
        cell_u64(&to, type->block_elems);
        cell_u64(&to, type->block_bytes);
        cell_f64(&to, 8.0 * type->block_bytes / type->block_elems);
        cell_text(&to, gg_can_decode(type->id) ? "yes" : "no");
        cell_text(&to, list_encoding(type));
        table_row(&to);
    }
}

static void print_presets(cli *c)
{
    table to = list_start(c, "name\tfile_type\tdtype");
    const gg_preset *preset;
    for (size_t i = 0; (preset = gg_preset_at(i)) != NULL; i++) {
        cell_text(&to, preset->name);
        cell_u64(&to, preset->file_type);
        cell_text(&to, gg_dtype_get(preset->dtype)->name);
        table_row(&to);
    }
}

static void check_outputs(const cli *c, const char *output, const report *rep, const sizes *s)
{
    if (!output && !s->dry_run) cli_usage(c, "give --output");
    if (output && strcmp(output, "-") == 0) cli_no_terminal(c, STDOUT_FILENO);
    if (output && rep->out.path && strcmp(rep->out.path, output) == 0)
        cli_usage(c, "--report and --output name the same file");
    if (output && s->rules.path && strcmp(s->rules.path, output) == 0)
        cli_usage(c, "--rules and --output name the same file");
    if (s->rules.path && (s->dry_run || rep->out.path) && strcmp(s->rules.path, "-") == 0)
        cli_usage(c, "--rules - would mix with a table: name a file");
    if (c->json && !rep->out.path && !s->dry_run)
        cli_usage(c, "--json needs --report or --dry-run");
}

int main(int argc, char **argv)
{
    cli c = { .tool = "organ-assemble",
              .help = help,
              .has_json = true,
              .has_force = true,
              .has_strict = true };
    const char *dir = NULL, *model = NULL, *output = NULL;
    output_options out = OUTPUT_OPTIONS_INIT;
    cli_list set_kv = { 0 }, set_kv_files = { 0 };
    gg_assemble_options o = { 0 };
    report rep = { 0 };
    sizes size = { .size = UINT64_MAX, .bpw = NAN };
    const cli_option options[] = { { "dir", CLI_TEXT, &dir },
                                   { "model", CLI_TEXT, &model },
                                   { "output", CLI_TEXT, &output },
                                   OUTPUT_OPTIONS(out),
                                   { "size", CLI_SIZE, &size.size },
                                   { "bpw", CLI_F64, &size.bpw },
                                   { "types", CLI_TEXT, &o.types },
                                   { "sensitivity", CLI_TEXT, &o.sensitivity },
                                   { "dry-run", CLI_FLAG, &size.dry_run },
                                   { "rules", CLI_TEXT, &size.rules.path },
                                   { "report", CLI_TEXT, &rep.out.path },
                                   { "no-verify", CLI_FLAG, &o.no_verify },
                                   { "keep-experts", CLI_TEXT, &o.keep_experts },
                                   { "by", CLI_TEXT, &o.keep_by },
                                   { "set-kv", CLI_LIST, &set_kv },
                                   { "set-kv-file", CLI_LIST, &set_kv_files },
                                   { "list-types", CLI_ACT, .act = print_types },
                                   { "list-presets", CLI_ACT, .act = print_presets },
                                   { NULL, CLI_FLAG, NULL } };
    cli_start(&c, argc, argv, options);
    if (dir && model) cli_usage(&c, "give --dir or --model, not both");
    model = cli_one(&c, dir ? dir : model, "model");
    check_outputs(&c, output, &rep, &size);
    check_sizes(&c, &size, &rep, &o);
    output_options_check(&c, &out);
    if (o.keep_by && strcmp(o.keep_by, "importance") != 0)
        cli_usage(&c, "--by %s: use importance", o.keep_by);
    if (o.keep_by && !o.keep_experts) cli_usage(&c, "--by needs --keep-experts N");
    if (o.keep_by && !out.imatrix) cli_usage(&c, "--by importance needs --imatrix FILE");
    output_options_set(&o.output, &out, &set_kv, &set_kv_files);
    key_options_note(&c, &set_kv, "--set-kv-file");
    if (rep.out.path) start_report(&c, &rep, &o);
    start_sizes(&c, &size, &o);
    gg_assemble_report r = { 0 };
    gg_status st = text_output_open(&c, &rep.out, model);
    if (st == GG_OK) st = text_output_open(&c, &size.rules, model);
    gg_source *source = NULL;
    if (st == GG_OK) st = cli_open(&c, model, CLI_DATA, &source);
    if (st == GG_OK) st = gg_assemble(source, &o, output, &c.run, &r, &c.err);
    gg_source_close(source);
    st = text_output_end(&c, &rep.out, st);
    st = text_output_end(&c, &size.rules, st);
    if (st == GG_OK && c.verbose && !size.dry_run)
        cli_note(&c, "%zu tensor%s, %llu bytes in %zu file%s", r.tensors, cli_s(r.tensors),
                 (unsigned long long)r.bytes, r.files, cli_s(r.files));
    free(set_kv.items);
    free(set_kv_files.items);
    return cli_end(&c, st);
}
