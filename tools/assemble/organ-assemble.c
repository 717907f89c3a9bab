/* organ-assemble - write a model from an organ directory or another model. */
#include "common/assemble_options.h"
#include "common/card.h"
#include "common/model_text.h"
#include "common/output_options.h"

#include <errno.h>
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

/* ---- the options ------------------------------------------------------------------------ */

static struct {
    assemble_options a;
    struct {
        const char *experts, *by, *share, *refit, *imatrix_out;
        uint64_t units;
        gg_texts texts;
    } pruned; /* options that start organ-prune */
} opt;

static const cli_option options[] = {
    { .group = assemble_places, .to = &opt.a },
    { .group = output_group, .to = &opt.a.o.output },
    { .name = NULL,
      .help = "RULES is a preset such as q4_k_m (--list-presets), GLOB=TYPE,... or both. The first "
              "GLOB that matches is used; a stack of experts is one tensor. TYPE is one of "
              "--list-types, or keep. Norms, biases, routers and the like keep their type unless "
              "GLOB names them. @FILE reads rules; like:MODEL gives the types of MODEL. The "
              "fallback is for rows that do not fit TYPE. With the source's number of shards, its "
              "shards are restored." },
    { .group = assemble_types, .to = &opt.a },
    { "keep-experts", CLI_RANGE_FILE, .to = &opt.pruned.experts, .arg = "L",
      .help = "with --by F, --keep-units N, --expert-share 50%, --refit F, --imatrix-out F or "
              "--text-imatrix F: starts organ-prune(1), whose options these are" },
    { "by", CLI_FILE, .to = &opt.pruned.by, .arg = "importance", .values = "importance" },
    { "keep-units", CLI_U64, .to = &opt.pruned.units, .arg = "N", .low = 1, .high = 1e9 },
    { "expert-share", CLI_TEXT, .to = &opt.pruned.share, .arg = "50%" },
    { "refit", CLI_FILE, .to = &opt.pruned.refit, .arg = "F" },
    { "imatrix-out", CLI_NEW_FILE, .binary = true, .to = &opt.pruned.imatrix_out, .arg = "FILE" },
    { "text-imatrix", CLI_FILE, .to = &opt.pruned.texts, .arg = "F", .many = true },
    { .group = assemble_files },
    { .group = cli_common },
    { "json", CLI_FLAG, .at = offsetof(cli, json), .flow = ", ", .needs = "report dry-run",
      .help = "(tables)" },
    { 0 },
};

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

static _Noreturn void no_memory(cli *c)
{
    exit(cli_end(c, gg_fail(&c->err, GG_ENOMEM, "no memory to start organ-prune")));
}

/* Replaces this program by organ-prune, with the options as it names them. */
static void start_prune(cli *c, int argc, char **argv)
{
    char **args = calloc((size_t)argc + 2, sizeof *args);
    const char *slash = strrchr(argv[0], '/');
    size_t dir = slash ? (size_t)(slash + 1 - argv[0]) : 0;
    char *path = malloc(dir + sizeof "organ-prune");
    if (!args || !path) no_memory(c);
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
        if (!(args[i] = malloc(size))) no_memory(c);
        snprintf(args[i], size, "%s%s", name, argv[i] + n);
    }
    if (dir) execv(path, args);
    else execvp(path, args);
    cli_usage(c, "organ-prune, which removes experts and units, cannot be started: %s",
              strerror(errno));
}

static gg_status assemble(void *ctx, gg_source *model, const gg_assemble_options *o,
                          const char *output, const gg_run *run, gg_assemble_report *report,
                          gg_error *err)
{
    (void)ctx;
    return gg_assemble(model, o, output, run, report, err);
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, assemble);
    cli_start(&c, argc, argv, options);
    cli_writes_models(&c);
    if (cli_given_any(&c, PRUNED)) start_prune(&c, argc, argv);
    card_begin(&c);
    assemble_options_end(&c, &opt.a);
    return cli_end(&c, assemble_options_run(&c, &opt.a, assemble, NULL));
}
