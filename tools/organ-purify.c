/* organ-purify - filter the incoherent part out of tensors. */
#include "cli.h"
#include "table.h"

#include "organ/gg_purify.h"
#include "organ/gg_transplant.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/nearest.h" /* the text that suggests a type */
#include "quant/quant.h"  /* the type that was meant */

static const char help[] =
    "usage: organ-purify [--dir] SOURCE --output OUTPUT [--method haar|fft]\n"
    "       organ-purify [--dir] SOURCE --dry-run [--method haar|fft]\n"
    "Damp the incoherent part of each matrix; dims, mean, std and dtype are kept.\n"
    "SOURCE is an organ directory, a .bin file, a GGUF file (any shard), or - for an\n"
    "organ stream or a GGUF on stdin. OUTPUT is a directory, FILE.bin, FILE.gguf (if\n"
    "SOURCE is a GGUF), or - for an organ stream. Other tensors are copied.\n"
    "\n"
    "  --method haar      (default) damp wavelet details that the next scale does\n"
    "                     not support\n"
    "  --method fft       damp the low-energy tail of each row's spectrum\n"
    "  --strength X       0 (no change) to 1; default: 0.125 for haar, 0.04 for fft\n"
    "  --dtype TYPE       write purified tensors as F32, F16, BF16, Q8_0, Q4_K, ...\n"
    "  --imatrix F        encode with the importance matrix F (GGUF or older format)\n"
    "  --dry-run          print what would be removed and write nothing\n"
    "  --strict           write nothing if an engine would refuse the result\n"
    "  --force            replace an existing output\n"
    "select (default: all; vectors and integers only by exact name):\n"
    "  --type CLASS,...   skeleton organ embed norm adapter other\n"
    "  --part PART,...    text vision audio encoder decoder diffusion adapter imatrix\n"
    "  --layers 5-20,25   --tensors GLOB,...   --experts 0-3,17\n"
    "  --names-from FILE  one tensor name per line (first TSV column); - is stdin\n"
    "common: -j N threads, -q quiet, -v verbose, --json, --help, --version\n"
    "\n"
    "examples:\n"
    "  organ-purify tests/data/lab/lab-verse-q4_k_m.gguf --method haar \\\n"
    "    --type organ --dry-run\n"
    "  organ-purify tests/data/lab/lab-verse-q4_k_m.gguf --method fft --type organ \\\n"
    "    --dtype Q8_0 --output /tmp/pure.gguf --force\n"
    "exit: 0 done, 1 nothing selected, 2 usage, 3 malformed input, 4 I/O failure\n";

typedef struct arguments {
    const char *dir, *output, *method, *dtype;
    double strength;
    bool dry_run;
    gg_purify_options o;
} arguments;

typedef struct printer {
    table rows;
    const gg_purify_options *o;
} printer;

static void begin(printer *p)
{
    table_begin(&p->rows, "name\tclass\tblock\tdtype\tmethod\tstrength\tenergy_kept\trel_l2\t"
                          "theta_before\ttheta_after\tstatus");
}

static gg_status print_row(void *ctx, const gg_purify_row *r, gg_error *err)
{
    printer *p = ctx;
    table *t = &p->rows;
    (void)err;
    begin(p);
    cell_bytes(t, r->t.name, r->t.name_len);
    cell_text(t, gg_class_name(r->a.cls));
    if (r->a.block >= 0) cell_i64(t, r->a.block);
    else cell_null(t);
    cell_text(t, gg_dtype_get(r->dtype) ? gg_dtype_get(r->dtype)->name : "unknown");
    cell_text(t, p->o->method == GG_PURIFY_FFT ? "fft" : "haar");
    cell_f64(t, p->o->strength);
    const double v[] = { r->energy_kept, r->rel_l2, r->theta_before, r->theta_after };
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++) {
        if (r->outcome <= GG_PURIFY_IDENTICAL) cell_f64(t, v[i]);
        else cell_null(t);
    }
    cell_text(t, gg_purify_outcome_name(r->outcome));
    table_row(t);
    return GG_OK;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n > k && strcmp(s + n - k, end) == 0;
}

/* The table goes to stdout unless the stream does. */
static gg_status purify(cli *c, gg_source *s, const arguments *a)
{
    printer p = { .rows.json = c->json, .o = &a->o };
    gg_purify_report sum = { 0 };
    gg_purify_options o = a->o;
    bool to_stdout = a->output && strcmp(a->output, "-") == 0;
    o.row = to_stdout ? NULL : print_row;
    o.ctx = &p;
    if (to_stdout || (a->output && ends_with(a->output, ".bin"))) o.form = GG_PURIFY_STREAM;
    else if (a->output && ends_with(a->output, ".gguf")) o.form = GG_PURIFY_MODEL;
    gg_status st = gg_purify(s, &o, a->output, &c->run, &sum, &c->err);
    if (st == GG_OK && o.row) begin(&p);
    if (st == GG_OK && c->verbose)
        cli_note(c, "%zu tensor%s purified (%llu bytes), %zu identical, %zu left alone",
                 sum.purified, cli_s(sum.purified), (unsigned long long)sum.bytes, sum.identical,
                 sum.left_alone);
    return st;
}

static void set_options(const cli *c, arguments *a)
{
    if (!a->method || strcmp(a->method, "haar") == 0) a->o.method = GG_PURIFY_HAAR;
    else if (strcmp(a->method, "fft") == 0) a->o.method = GG_PURIFY_FFT;
    else cli_usage(c, "--method %s: use haar or fft", a->method);
    if (a->dry_run == (a->output != NULL)) cli_usage(c, "give --output or --dry-run");
    if (c->json && !a->dry_run && strcmp(a->output, "-") == 0)
        cli_usage(c, "--output - writes a stream, no table: leave out --json");
    bool given = !isnan(a->strength);
    if (given && !(a->strength >= 0 && a->strength <= 1))
        cli_usage(c, "--strength %g: use 0 to 1", a->strength);
    a->o.strength = given                          ? a->strength
                    : a->o.method == GG_PURIFY_FFT ? GG_PURIFY_FFT_STRENGTH
                                                   : GG_PURIFY_HAAR_STRENGTH;
    if (a->dtype) {
        const gg_dtype_info *d = gg_dtype_by_name(a->dtype);
        char meant[GG_MEANT];
        if (!d)
            cli_usage(c,
                      "--dtype %s: unknown type%s; use f16, q8_0, q4_k or another type that can "
                      "be written",
                      a->dtype, gg_meant(gg_dtype_near(a->dtype), meant));
        a->o.dtype = d;
    }
    a->o.select = c->select;
    if (a->output && strcmp(a->output, "-") == 0) cli_no_terminal(c, STDOUT_FILENO);
}

int main(int argc, char **argv)
{
    cli c = { .tool = "organ-purify",
              .help = help,
              .selects = true,
              .has_json = true,
              .has_force = true,
              .has_strict = true };
    arguments a = { .strength = NAN };
    const cli_option options[] = {
        { "dir", CLI_TEXT, &a.dir },         { "output", CLI_TEXT, &a.output },
        { "method", CLI_TEXT, &a.method },   { "strength", CLI_F64, &a.strength },
        { "dtype", CLI_TEXT, &a.dtype },     { "imatrix", CLI_TEXT, &a.o.imatrix },
        { "dry-run", CLI_FLAG, &a.dry_run }, { NULL, CLI_FLAG, NULL }
    };
    cli_start(&c, argc, argv, options);
    const char *spec = cli_one(&c, a.dir, "source");
    set_options(&c, &a);
    /* Directories and GGUF files are planned before they are written, so a pipe is stored first. */
    bool stream = a.dry_run || strcmp(a.output, "-") == 0 || ends_with(a.output, ".bin");
    gg_source *s;
    gg_status st = stream ? cli_open(&c, spec, CLI_DATA, &s) : cli_open(&c, spec, CLI_SPOOLED, &s);
    if (st == GG_OK) {
        st = purify(&c, s, &a);
        gg_source_close(s);
    }
    return cli_end(&c, st);
}
