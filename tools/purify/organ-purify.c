/* organ-purify - filter the incoherent part out of tensors. */
#include "common/cli.h"
#include "common/lists.h"
#include "common/model_text.h"

#include "gg_purify.h"

#include <string.h>
#include <unistd.h>

#include "base/nearest.h" /* the text that suggests a type */
#include "quant/quant.h"  /* the type that was meant */

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: organ-purify SOURCE --output OUTPUT [--method haar|fft]\n"
    "       organ-purify SOURCE --dry-run [--method haar|fft]\n"
    "Damp the incoherent part of each matrix; dims, mean, std and dtype are kept.\n"
    "SOURCE is an organ directory, a .bin file, a GGUF file (any shard), or - for an\n"
    "organ stream or a GGUF on stdin. OUTPUT is a directory, FILE.bin, FILE.gguf (if\n"
    "SOURCE is a GGUF), or - for an organ stream. Other tensors are copied.\n"
    "SOURCE may be named: --dir.\n"
    ,
    "  organ-purify tests/data/lab/lab-verse-q4_k_m.gguf --method haar \\\n"
    "    --type ffn --dry-run\n"
    "  organ-purify tests/data/lab/lab-verse-q4_k_m.gguf --method fft --type ffn \\\n"
    "    --dtype Q8_0 --output /tmp/pure.gguf --force\n"
    "exit: 0 done, 1 nothing selected, 2 usage, 3 malformed input, 4 I/O failure\n"
};
/* clang-format on */

static struct {
    const char *source, *output, *dtype;
    int method;
    bool dry_run;
    gg_purify_options o;
} opt;

static const cli_option options[] = {
    { "", CLI_MODEL, .arg = "SOURCE", .place = 1, .many = true },
    { "dir", CLI_MODEL, .to = &opt.source, .arg = "SOURCE" },
    { "output", CLI_NEW_MODEL, .to = &opt.output, .arg = "OUTPUT", .excludes = "dry-run",
      .required = "dry-run", .or_dir = true },
    { "method", CLI_WORD, .to = &opt.method, .arg = "haar", .values = "haar fft",
      .help = "(default) damp wavelet details that the next scale does not support" },
    { .name = NULL,
      .help = "  --method fft       damp the low-energy tail of each row's spectrum" },
    { "strength", CLI_F64, .to = &opt.o.strength, .arg = "X", .low = 0, .high = 1,
      .help = "0 (no change) to 1; default: 0.125 for haar, 0.04 for fft" },
    { "dtype", CLI_TEXT, .to = &opt.dtype, .arg = "TYPE", .list = list_encodable,
      .help = "write purified tensors as F32, F16, BF16, Q8_0, Q4_K, ..." },
    { "imatrix", CLI_FILE, .to = &opt.o.imatrix, .arg = "F",
      .help = "encode with the importance matrix F (GGUF or older format)" },
    { "dry-run", CLI_FLAG, .to = &opt.dry_run,
      .help = "print what would be removed and write nothing" },
    { .group = cli_strict },
    { .group = cli_writes },
    { .name = NULL,
      .help = "Vectors and integers are purified only if they are selected by exact name." },
    { .group = cli_selection },
    { .group = cli_experts },
    { .group = cli_common },
    { "json", CLI_FLAG, .at = offsetof(cli, json), .flow = ", " },
    { 0 },
};

static void begin(table *t)
{
    table_begin(t, "name\tclass\tblock\tdtype\tmethod\tstrength\tenergy_kept\trel_l2\t"
                   "theta_before\ttheta_after\tstatus");
}

static gg_status print_row(void *ctx, const gg_purify_row *r, gg_error *err)
{
    table *t = ctx;
    (void)err;
    begin(t);
    bool known = r->outcome <= GG_PURIFY_IDENTICAL;
    table_line(t, cell_bytes(r->t.name, r->t.name_len), cell_class(gg_class_name(r->t.a.cls)),
               cell_i64_if(r->t.a.block),
               cell_text(gg_dtype_get(r->dtype) ? gg_dtype_get(r->dtype)->name : "unknown"),
               cell_text(opt.o.method == GG_PURIFY_FFT ? "fft" : "haar"), cell_f64(opt.o.strength),
               cell_f64_when(known, r->energy_kept), cell_f64_when(known, r->rel_l2),
               cell_f64_when(known, r->theta_before), cell_f64_when(known, r->theta_after),
               cell_text(gg_purify_outcome_name(r->outcome)));
    return GG_OK;
}

/* The table goes to stdout unless the stream does. */
static gg_status purify(cli *c, gg_source *s)
{
    table rows = { .json = c->json };
    gg_purify_report sum = { 0 };
    bool to_stdout = cli_is_stdout(opt.output);
    opt.o.row = to_stdout ? NULL : print_row;
    opt.o.ctx = &rows;
    if (to_stdout || cli_has_ending(opt.output, ".bin")) opt.o.form = GG_PURIFY_STREAM;
    else if (cli_has_ending(opt.output, ".gguf")) opt.o.form = GG_PURIFY_MODEL;
    gg_status st = gg_purify(s, &opt.o, opt.output, &c->run, &sum, &c->err);
    if (st == GG_OK && opt.o.row) begin(&rows);
    if (st == GG_OK && c->verbose)
        cli_note(c, "%zu tensor%s purified (%llu bytes), %zu identical, %zu left alone",
                 sum.purified, cli_s(sum.purified), (unsigned long long)sum.bytes, sum.identical,
                 sum.left_alone);
    return st;
}

static void set_options(const cli *c)
{
    char meant[GG_MEANT];
    if (c->json && !opt.dry_run && cli_is_stdout(opt.output))
        cli_usage(c, "--output - writes a stream, no table: leave out --json");
    opt.o.method = (gg_purify_method)opt.method;
    if (!cli_given(c, "strength"))
        opt.o.strength = opt.o.method == GG_PURIFY_FFT ? GG_PURIFY_FFT_STRENGTH
                                                       : GG_PURIFY_HAAR_STRENGTH;
    if (opt.dtype && !(opt.o.dtype = gg_dtype_by_name(opt.dtype)))
        cli_usage(c,
                  "--dtype %s: unknown type%s; use f16, q8_0, q4_k or another type that can be "
                  "written",
                  opt.dtype, gg_meant(gg_dtype_near(opt.dtype), meant));
    opt.o.select = c->select;
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, purify);
    cli_start(&c, argc, argv, options);
    cli_writes_models(&c);
    const char *spec = cli_one(&c, opt.source, "source");
    set_options(&c);
    /* Directories and GGUF files are planned before they are written, so a pipe is stored first. */
    bool stream = opt.dry_run || cli_is_stdout(opt.output) || cli_has_ending(opt.output, ".bin");
    gg_source *s;
    gg_status st = cli_open(&c, spec, stream ? CLI_DATA : CLI_SPOOLED, &s);
    if (st == GG_OK) {
        st = purify(&c, s);
        gg_source_close(s);
    }
    return cli_end(&c, st);
}
