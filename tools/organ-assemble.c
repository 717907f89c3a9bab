/* organ-assemble - write a model from an organ directory or another model. */
#include "cli.h"
#include "key_options.h"
#include "output_options.h"
#include "table.h"
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
    "  --dtype PRESET     re-encode as llama-quantize does: q4_0 q8_0 q2_k q3_k_m\n"
    "                     q4_k_s q4_k_m q5_k_m q6_k iq4_xs mxfp4_moe f16 bf16 ...\n"
    "  --dtype RULES      GLOB=TYPE[,GLOB=TYPE...]: the first match is used (a stack\n"
    "                     of experts is one tensor); TYPE is q8_0 f16 ... or keep.\n"
    "                     Norms, biases, routers and the like keep their type unless\n"
    "                     the glob names them. @FILE reads rules. RULES,PRESET\n"
    "  --fallback TYPE    type for tensors whose rows do not fit TYPE (else an error)\n"
    "  --imatrix F        encode with the importance matrix F (GGUF or older format)\n"
    "  --report FILE      a table of the error of each tensor (- is stdout); --json\n"
    "  --keep-experts L   keep only these experts: a list such as 0-63 for every\n"
    "                     block, or a file with lines of block, tab, experts\n"
    "  --keep-experts N --by importance  with --imatrix: keep the N experts of each\n"
    "                     block that contribute most on the calibration text\n"
    "  --set-kv K=T:V     set a key (may be repeated); K= deletes it\n"
    "  --set-kv-file K=F  set a key to the content of file F, as a string\n"
    "  --no-verify        do not compare the data with the manifest's sha256\n"
    "  --strict           write nothing if an engine would refuse the result\n"
    "  --force            replace existing files\n"
    "common: -j N threads, -q quiet, -v verbose, --help, --version\n"
    "\n"
    "examples:\n"
    "  organ-assemble tests/data/lab/lab-verse-q4_k_m.gguf --dtype q4_k_s \\\n"
    "    --output /tmp/verse-q4.gguf --force\n"
    "  organ-assemble /tmp/verse-q4.gguf --output /tmp/verse.gguf --shards 3 --force\n"
    "  cat /tmp/verse-0000?-of-00003.gguf | organ-assemble - -o - > /tmp/joined.gguf\n"
    "  organ-assemble /tmp/verse-q4.gguf --output /tmp/verse.gguf --force \\\n"
    "    --dtype 'blk.*.ffn_*=q4_k,output*=q6_k,*=f16'\n"
    "exit: 0 done, 1 nothing matches --dtype, 2 usage, 3 malformed input, 4 I/O\n";

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
    const cli_option options[] = { { "dir", CLI_TEXT, &dir },
                                   { "model", CLI_TEXT, &model },
                                   { "output", CLI_TEXT, &output },
                                   OUTPUT_OPTIONS(out),
                                   { "report", CLI_TEXT, &rep.out.path },
                                   { "no-verify", CLI_FLAG, &o.no_verify },
                                   { "keep-experts", CLI_TEXT, &o.keep_experts },
                                   { "by", CLI_TEXT, &o.keep_by },
                                   { "set-kv", CLI_LIST, &set_kv },
                                   { "set-kv-file", CLI_LIST, &set_kv_files },
                                   { NULL, CLI_FLAG, NULL } };
    cli_start(&c, argc, argv, options);
    if (dir && model) cli_usage(&c, "give --dir or --model, not both");
    model = cli_one(&c, dir ? dir : model, "model");
    if (!output) cli_usage(&c, "give --output");
    if (output && strcmp(output, "-") == 0) cli_no_terminal(&c, STDOUT_FILENO);
    if (rep.out.path && strcmp(rep.out.path, output) == 0)
        cli_usage(&c, "--report and --output name the same file");
    if (c.json && !rep.out.path) cli_usage(&c, "--json needs --report");
    output_options_check(&c, &out);
    if (o.keep_by && strcmp(o.keep_by, "importance") != 0)
        cli_usage(&c, "--by %s: use importance", o.keep_by);
    if (o.keep_by && !o.keep_experts) cli_usage(&c, "--by needs --keep-experts N");
    if (o.keep_by && !out.imatrix) cli_usage(&c, "--by importance needs --imatrix FILE");
    o.shards = (uint32_t)out.shards;
    o.shard_size = out.shard_size;
    o.dtype = out.dtype;
    o.fallback = out.fallback;
    o.imatrix = out.imatrix;
    o.set_kv = set_kv.items;
    o.n_set_kv = set_kv.n;
    o.set_kv_files = set_kv_files.items;
    o.n_set_kv_files = set_kv_files.n;
    key_options_note(&c, &set_kv, "--set-kv-file");
    if (rep.out.path) start_report(&c, &rep, &o);
    gg_assemble_report r;
    gg_status st = text_output_open(&c, &rep.out, model);
    if (st == GG_OK) st = gg_assemble(model, &o, output, &c.run, &r, &c.err);
    st = text_output_end(&c, &rep.out, st);
    if (st == GG_OK && c.verbose)
        cli_note(&c, "%zu tensor%s, %llu bytes in %zu file%s", r.tensors, cli_s(r.tensors),
                 (unsigned long long)r.bytes, r.files, cli_s(r.files));
    free(set_kv.items);
    free(set_kv_files.items);
    return cli_end(&c, st);
}
