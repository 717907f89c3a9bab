/* organ-transplant - replace tensors of a base by those of a donor, from file to file. */
#include "cli.h"
#include "key_options.h"
#include "match_options.h"
#include "moves_table.h"
#include "organ/gg_patch.h"
#include "output_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: organ-transplant --base BASE --donor DONOR --output CHIMERA.gguf\n"
    "       organ-transplant --base BASE --donor DONOR --check\n"
    "       organ-transplant --base BASE --donor DONOR --in-place --undo FILE\n"
    "       organ-transplant --base BASE --adapter LORA --output FILE.gguf\n"
    "Replace tensors of BASE by those of DONOR. Each is a GGUF file, any shard of a\n"
    "split model, an organ directory, organ records, or - for stdin. --target means\n"
    "--base, and --source means --donor. --output - writes to stdout.\n"
    "If DONOR is a patch written by organ-compare --patch, all of it is applied: the\n"
    "result is model B of that comparison, byte for byte.\n"
    "\n"
    "  --match MODE       exact: equal dims and dtype (default); retype: keep the\n"
    "                     donor's dtype; convert: re-encode in the base's dtype\n"
    "  --map 10-15=20-25  donor blocks 20-25 into base blocks 10-15, nothing else\n"
    "  --check            print what would move, and what does not match and why\n"
    "  --skip-mismatched  leave out tensors that do not match\n"
    "  --mtp              take the donor's multi-token-prediction blocks and keys\n"
    "  --add              also take tensors that the base does not have\n"
    "  --set-kv K=T:V     set a key (may be repeated); K= deletes it\n"
    "  --set-kv-file K=F  set a key to the content of file F, as a string\n"
    "  --copy-kv K        copy the donor's key; K* copies all keys that start with K\n"
    "  --blend MODE:T     linear, slerp or task (base + T (donor-ancestor), with\n"
    "                     --ancestor MODEL); T is a number or a ramp: 0.2..0.8\n"
    "  --align            bring the donor's hidden units into BASE's order first\n"
    "  --adapter LORA     fold W + S (alpha/r) B A into the weights; --scale S (1)\n"
    "  --dtype PRESET|RULES  re-encode as organ-assemble; --fallback, --imatrix F\n"
    "  --shards N         split the output; --shard-size SIZE, such as 2G\n"
    "  --in-place         change BASE itself; --undo FILE first saves the replaced\n"
    "                     data, and --in-place --donor FILE restores it;\n"
    "                     --no-undo saves nothing; --all replaces every tensor\n"
    "  --strict           write nothing if an engine would refuse the result\n"
    "  --force            replace an existing output\n"
    "select: --type CLASS,... --part PART,... --layers 5-20\n"
    "        --tensors GLOB,... --names-from FILE\n"
    "        --experts 3,2=5 (of stacks; 2 from the donor's 5; router unchanged)\n"
    "common: -j N, -q, -v, --json (with --check), --help, --version\n"
    "\n"
    "examples:\n"
    "  organ-transplant --base tests/data/lab/lab-verse-q4_k_m.gguf \\\n"
    "    --donor tests/data/lab/lab-code-q4_k_m.gguf --type organ --layers 1 --check\n"
    "  organ-transplant --base tests/data/lab/lab-verse-q4_k_m.gguf --type organ \\\n"
    "    --donor tests/data/lab/lab-code-q4_k_m.gguf --output /tmp/c.gguf --force\n"
    "exit: 0 done, 1 does not match, 2 usage, 3 malformed input, 4 I/O failure\n";

typedef struct arguments {
    const char *base, *donor, *output, *undo, *adapter;
    match_options match;
    bool no_undo, all; /* with in_place */
    bool check, in_place;
    cli_list set_kv, set_kv_files, copy_kv;
    output_options out;
    gg_transplant_options o;
} arguments;

static gg_status check(cli *c, const arguments *a, gg_source *base, gg_source *donor)
{
    gg_moves moves = { 0 };
    gg_status st = gg_match_tensors(base, donor, &a->o.match, &moves, &c->err);
    if (st == GG_OK) st = moves_check(c, base, donor, &moves);
    gg_moves_free(&moves);
    return st;
}

static gg_status apply_patch(cli *c, const arguments *a, gg_source *patch)
{
    gg_source *base = NULL;
    gg_patch_report r = { 0 };
    bool others = match_options_given(c, &a->match) || a->match.match.mtp || a->o.skip_mismatched ||
                  a->set_kv.n || a->set_kv_files.n || a->copy_kv.n || a->out.dtype ||
                  a->out.shards || a->out.shard_size;
    if (others || a->check || a->in_place)
        cli_usage(c, "the donor is a patch, which is always applied as a whole: give only --base, "
                     "--donor and --output");
    gg_status st = cli_open(c, a->base, CLI_SPOOLED, &base);
    if (st == GG_OK) st = gg_patch_apply(base, patch, a->output, &c->run, &r, &c->err);
    gg_source_close(base);
    if (st == GG_OK && c->verbose)
        cli_note(c, "patch: %zu tensor%s and %zu key%s set, %zu and %zu deleted; %llu bytes",
                 r.tensors, cli_s(r.tensors), r.keys, cli_s(r.keys), r.deleted_tensors,
                 r.deleted_keys, (unsigned long long)r.bytes);
    return st;
}

/* Checks the options that are required unless the donor is an undo stream. */
static void check_in_place(const cli *c, const arguments *a)
{
    if (!a->undo && !a->no_undo)
        cli_usage(c,
                  "--in-place overwrites %s: give --undo FILE to be able to restore it, or "
                  "--no-undo",
                  a->base);
    if (!c->select && !a->match.map && !a->all)
        cli_usage(c, "--in-place without a selection replaces every tensor: give --type, "
                     "--layers, --tensors or another selection, or --all");
}

static gg_status transplant(cli *c, arguments *a)
{
    gg_source *donor = NULL, *base = NULL;
    gg_transplant_report r = { 0 };
    gg_status st = cli_open(c, a->adapter ? a->adapter : a->donor, CLI_SPOOLED, &donor);
    if (st == GG_OK && !a->adapter && gg_is_patch(donor)) {
        st = apply_patch(c, a, donor);
        gg_source_close(donor);
        return st;
    }
    bool in_place = a->in_place && !a->check;
    if (st == GG_OK && in_place && gg_source_meta(donor)) check_in_place(c, a);
    if (st == GG_OK && (!in_place || a->match.align)) st = cli_open(c, a->base, CLI_SPOOLED, &base);
    gg_source *used = donor;
    if (st == GG_OK) st = match_options_align(c, &a->match, base, &used);
    a->o.match = a->match.match;
    a->o.match.weighed = a->out.imatrix != NULL;
    if (st == GG_OK)
        st = in_place ? gg_transplant_in_place(a->base, used, &a->o, a->undo, &c->run, &r, &c->err)
             : a->check ? check(c, a, base, used)
                        : gg_transplant(base, used, &a->o, a->output, &c->run, &r, &c->err);
    match_options_unalign(&a->match);
    gg_source_close(base);
    gg_source_close(donor);
    if (st == GG_OK && !a->check && (c->verbose || r.skipped))
        cli_note(c, "%zu tensor%s replaced, %zu added, %zu left out; %llu bytes moved", r.moved,
                 cli_s(r.moved), r.added, r.skipped, (unsigned long long)r.bytes_moved);
    return st;
}

/* Checks the options that make a new model, and those for pairs of tensors. */
static void check_new_model(const cli *c, const arguments *a)
{
    const gg_transplant_options *o = &a->o;
    bool pairs = match_options_given(c, &a->match) || a->match.match.mtp || o->skip_mismatched ||
                 a->copy_kv.n || a->check;
    if (a->adapter && pairs)
        cli_usage(
            c, "--adapter cannot be combined with a selection, --map, --match, --blend, --align, "
               "--add, --mtp, --skip-mismatched, --copy-kv or --check");
    if (!isnan(o->scale) && !a->adapter)
        cli_usage(c, "--scale needs --adapter; to scale a blend, use its T: --blend linear:%g",
                  o->scale);
    if (a->in_place && (a->adapter || a->out.dtype || a->out.shards || a->out.shard_size))
        cli_usage(c, "--adapter, --dtype and --shards make a new model: use --output instead of "
                     "--in-place");
}

static void check_usage(const cli *c, const arguments *a)
{
    if (c->args.n) cli_usage(c, "unexpected argument '%s'", c->args.items[0]);
    if (!a->base) cli_usage(c, "give --base");
    if ((a->donor != NULL) + (a->adapter != NULL) != 1) cli_usage(c, "give --donor or --adapter");
    if (a->output && a->in_place) cli_usage(c, "give --output or --in-place, not both");
    if (!a->output && !a->check && !a->in_place)
        cli_usage(c, "give --output, --check or --in-place");
    bool matches = match_options_given(c, &a->match) || a->o.skip_mismatched;
    if (a->match.match.mtp && (a->in_place || matches))
        cli_usage(c, "--mtp moves whole blocks: leave out the selection, --map, --match, --blend, "
                     "--align, --add, --skip-mismatched and --in-place");
    if (c->json && !a->check) cli_usage(c, "--json needs --check: nothing else prints a table");
    if (a->output && strcmp(a->output, "-") == 0) cli_no_terminal(c, STDOUT_FILENO);
    if (a->undo && !a->in_place) cli_usage(c, "--undo needs --in-place");
    if ((a->no_undo || a->all) && !a->in_place)
        cli_usage(c, "--%s needs --in-place", a->all ? "all" : "no-undo");
    if (a->undo && a->no_undo) cli_usage(c, "give --undo or --no-undo, not both");
    if (a->all && (c->select || a->match.map)) cli_usage(c, "give --all or a selection, not both");
    if (strcmp(a->base, "-") == 0 && a->in_place)
        cli_usage(c, "--base -: stdin cannot be changed in place; give a file name");
}

static void set_new_model(arguments *a)
{
    gg_transplant_options *o = &a->o;
    o->adapter = a->adapter != NULL;
    if (isnan(o->scale)) o->scale = 1;
}

int main(int argc, char **argv)
{
    cli c = { .tool = "organ-transplant",
              .help = help,
              .selects = true,
              .maps_experts = true,
              .has_json = true,
              .has_force = true,
              .has_strict = true };
    arguments a = { .out = OUTPUT_OPTIONS_INIT, .o.scale = NAN }; /* neither given */
    const cli_option options[] = { { "base", CLI_TEXT, &a.base },
                                   { "donor", CLI_TEXT, &a.donor },
                                   { "target", CLI_TEXT, &a.base },
                                   { "source", CLI_TEXT, &a.donor },
                                   { "output", CLI_TEXT, &a.output },
                                   MATCH_OPTIONS(a.match),
                                   { "undo", CLI_TEXT, &a.undo },
                                   { "no-undo", CLI_FLAG, &a.no_undo },
                                   { "all", CLI_FLAG, &a.all },
                                   { "check", CLI_FLAG, &a.check },
                                   { "in-place", CLI_FLAG, &a.in_place },
                                   { "skip-mismatched", CLI_FLAG, &a.o.skip_mismatched },
                                   { "set-kv-file", CLI_LIST, &a.set_kv_files },
                                   { "set-kv", CLI_LIST, &a.set_kv },
                                   { "copy-kv", CLI_LIST, &a.copy_kv },
                                   { "mtp", CLI_FLAG, &a.match.match.mtp },
                                   { "adapter", CLI_TEXT, &a.adapter },
                                   { "scale", CLI_F64, &a.o.scale },
                                   OUTPUT_OPTIONS(a.out),
                                   { NULL, CLI_FLAG, NULL } };
    cli_start(&c, argc, argv, options);
    match_options_check(&c, &a.match);
    output_options_check(&c, &a.out);
    check_usage(&c, &a);
    check_new_model(&c, &a);
    set_new_model(&a);
    gg_status st = match_options_open(&c, &a.match);
    output_options_set(&a.o.output, &a.out, &a.set_kv, &a.set_kv_files);
    key_options_note(&c, &a.set_kv, "--set-kv-file");
    a.o.copy_kv = a.copy_kv.items, a.o.n_copy_kv = a.copy_kv.n;
    if (st == GG_OK) st = transplant(&c, &a);
    match_options_close(&a.match);
    free(a.set_kv.items);
    free(a.set_kv_files.items);
    free(a.copy_kv.items);
    return cli_end(&c, st);
}
