/* assemble_options.c - the options of organ-assemble, which organ-prune has too. */
#include "assemble_options.h"

#include "card.h"
#include "lists.h"
#include "output_options.h"
#include "pictures.h"

#include <stddef.h>
#include <string.h>

enum { NAMES_GGUF, NAMES_HF }; /* --names */

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

/* ---- the options ------------------------------------------------------------------------ */

#define AT(member) .at = offsetof(assemble_options, member)

const cli_option assemble_places[] = {
    { "dir", CLI_DIR, AT(dir), .excludes = "model" },
    { "model", CLI_MODEL, AT(model), .place = 1, .required = "dir" },
    { "output", CLI_NEW_MODEL, AT(output), .arg = "FILE", .required = "dry-run",
      .help = "the model to write; - is stdout, written front to back" },
    { "vocab-from", CLI_MODEL, AT(vocabulary), .arg = "MODEL",
      .help = "take the vocabulary from this GGUF model; --pre NAME" },
    { "names", CLI_WORD, AT(names), .arg = "gguf|hf", .values = "gguf hf",
      .help = "names in a FILE that ends with .safetensors" },
    { 0 },
};

const cli_option assemble_types[] = {
    { "size", CLI_SIZE, AT(size.size), .arg = "SIZE", .excludes = "bpw",
      .help = "choose types for the least loss in at most SIZE (4.5G)" },
    { "bpw", CLI_F64, AT(size.bpw), .arg = "X", .help = "the same with at most X bits per weight" },
    { "types", CLI_TEXT, AT(size.types), .arg = "LIST", .list = list_encodable, .needs = "size bpw",
      .help = "the types to choose from, such as q3_k,q4_k,q6_k,keep" },
    { "sensitivity", CLI_FILE, AT(size.sensitivity), .arg = "F", .needs = "size bpw",
      .help = "measured losses (organ-sensitivity); else they are guessed" },
    { "dry-run", CLI_FLAG, AT(o.dry_run), .excludes = "report",
      .excludes_why = "writes no model to report on", .help = "print the plan and write nothing" },
    { "rules", CLI_NEW_FILE, AT(rules.path), .arg = "FILE", .needs = "size bpw",
      .help = "write the plan as rules for --dtype @FILE" },
    { "report", CLI_NEW_FILE, AT(report.path), .arg = "FILE",
      .help = "a table of the error of each tensor (- is stdout)" },
    { "no-verify", CLI_FLAG, AT(o.no_verify),
      .help = "do not compare the data with the manifest's sha256" },
    { 0 },
};

const cli_option assemble_files[] = {
    { "pre", CLI_TEXT, .at = offsetof(cli, pre), .arg = "NAME" },
    { .group = cli_strict },
    { .group = cli_writes },
    { "no-history", CLI_FLAG, .at = offsetof(cli, run.no_history), .flow = "; " },
    { .group = card_group },
    { "list-types", CLI_ACT, .act = print_types, .help = "list the tensor types" },
    { "list-presets", CLI_ACT, .act = print_presets, .flow = "; " },
    { 0 },
};

/* ---- --report -------------------------------------------------------------------------- */

static gg_status add_row(void *ctx, const gg_encode_row *r, gg_error *err)
{
    table *rows = &((assemble_options *)ctx)->report_rows;
    (void)err;
    table_line(rows, cell_bytes(r->tensor->name, r->tensor->name_len),
               cell_text(gg_dtype_get(r->from)->name),
               cell_text(gg_dtype_get(r->tensor->dtype)->name), cell_u64(r->tensor->bytes),
               cell_f64(r->rmse), cell_f64(r->rel_l2), cell_f64_if(r->weighted));
    return GG_OK;
}

/* ---- --size, --bpw and --dry-run --------------------------------------------------------- */

static gg_status add_size_row(void *ctx, const gg_size_row *r, gg_error *err)
{
    assemble_options *a = ctx;
    const char *type = gg_dtype_get(r->tensor->dtype)->name;
    bool chosen = strcmp(r->basis, "-") != 0;
    gg_status st = GG_OK;
    if (a->rules.path && chosen)
        st = gg_buf_printf(&a->rules.text, err, "%s=%s\n", r->tensor->name, type);
    if (!a->o.dry_run) return st;
    table_begin(&a->size_rows, "tensor\ttype\tbytes\terror\tloss\tshare\tbasis");
    table_line(&a->size_rows, cell_bytes(r->tensor->name, r->tensor->name_len), cell_text(type),
               cell_u64(r->tensor->bytes), cell_f64(r->error), cell_f64(r->loss),
               cell_f64(r->share), cell_text_if(chosen ? r->basis : NULL));
    return st;
}

static gg_status add_planned_row(void *ctx, const gg_planned_row *r, gg_error *err)
{
    assemble_options *a = ctx;
    const gg_dtype_info *wanted = gg_dtype_get(r->wanted);
    (void)err;
    table_begin(&a->size_rows, "tensor\ttype\tbytes\tfrom\tfile\twanted");
    table_line(&a->size_rows, cell_bytes(r->tensor->name, r->tensor->name_len),
               cell_text(gg_dtype_get(r->tensor->dtype)->name), cell_u64(r->tensor->bytes),
               cell_text(gg_dtype_get(r->from)->name), cell_text(r->file),
               cell_text_if(wanted ? wanted->name : NULL));
    return GG_OK;
}

/* ---- the run ------------------------------------------------------------------------------ */

void assemble_options_end(cli *c, assemble_options *a)
{
    gg_assemble_options *o = &a->o;
    bool sized = cli_given_any(c, "size bpw");
    if (cli_given(c, "bpw") && !(a->size.bpw > 0 && a->size.bpw <= 1000))
        cli_usage(c, "--bpw must be between 0 and 1000");
    if ((o->dry_run || a->report.path) && cli_is_stdout(a->rules.path))
        cli_usage(c, "--rules - would mix with a table: name a file");
    if (a->dir) a->model = a->dir;
    output_options_end(c, &o->output);
    if (a->names == NAMES_HF) {
        a->edit = gg_hf_names_edit(&a->hf);
        o->edit = &a->edit;
    }
    if (a->report.path) {
        a->report_rows = table_into(&a->report.text, c->json,
                                    "name\tfrom\tdtype\tbytes\trmse\trel_l2\tweighted");
        o->encoded = add_row;
        o->encoded_ctx = a;
    }
    a->size_rows.json = c->json;
    if (sized) {
        a->size.row = add_size_row;
        a->size.ctx = a;
        a->chooser = gg_size_chooser(&a->size);
        o->chooser = &a->chooser;
    } else if (o->dry_run) {
        o->planned = add_planned_row;
        o->planned_ctx = a;
    }
}

static gg_status end_text(cli *c, text_output *o, gg_status done)
{
    done = text_end(c, o->path, o->file, &o->text, done);
    gg_buf_free(&o->text);
    return done;
}

gg_status assemble_options_run(cli *c, assemble_options *a, assemble_write *write, void *ctx)
{
    gg_assemble_report r = { 0 };
    gg_source *source = NULL, *vocabulary = NULL;
    c->stored_names = cli_has_ending(a->output, ".safetensors");
    c->whole = !a->vocabulary && !a->o.edit;
    gg_status st = text_open(c, a->report.path, &a->report.file);
    if (st == GG_OK) st = text_open(c, a->rules.path, &a->rules.file);
    if (st == GG_OK) st = cli_open(c, a->model, CLI_DATA, &source);
    if (st == GG_OK && a->vocabulary) st = cli_open(c, a->vocabulary, CLI_HEADER_ONLY, &vocabulary);
    if (vocabulary) a->o.vocabulary = gg_source_meta(vocabulary);
    if (st == GG_OK) key_options_spelling(c, gg_source_meta(source), &a->o.output.set_kv);
    if (st == GG_OK) st = write(ctx, source, &a->o, a->output, &c->run, &r, &c->err);
    gg_source_close(source);
    gg_source_close(vocabulary);
    gg_size_choice_free(&a->size);
    st = end_text(c, &a->report, st);
    st = end_text(c, &a->rules, st);
    if (st == GG_OK && c->verbose && !a->o.dry_run)
        cli_note(c, "%zu tensor%s, %llu bytes in %zu file%s", r.tensors, cli_s(r.tensors),
                 (unsigned long long)r.bytes, r.files, cli_s(r.files));
    if (st == GG_OK && a->o.dry_run && !a->o.chooser)
        cli_note(c, "%llu bytes in %zu file%s would be written", (unsigned long long)r.bytes,
                 r.files, cli_s(r.files));
    return st;
}
