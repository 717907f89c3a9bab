/* organ-assemble - put a model together again. */
#include "cli.h"
#include "key_options.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: organ-assemble [--dir] DIR --output MODEL.gguf\n"
    "Put an organ directory together to a GGUF model. The manifest is honoured as it\n"
    "stands: change keys, remove or reorder tensors, rename the model with an editor\n"
    "or jq. What was not edited comes back byte for byte. Experts taken out of the\n"
    "manifest of a directory made with --split-experts, as many in every block, make\n"
    "a model with fewer; its routers are cut to match.\n"
    "\n"
    "  --output FILE      the model to write\n"
    "  --shards N         split it: FILE-00001-of-0000N.gguf and so on; as many as\n"
    "                     the source had gives the source's shards back\n"
    "  --shard-size SIZE  split it so that no shard has more data than SIZE (2G)\n"
    "  --dtype RULES      re-encode tensors: GLOB=TYPE[,GLOB=TYPE...], the first glob\n"
    "                     that matches decides (names as in --list; a stack of\n"
    "                     experts is one); TYPE is f32 f16 bf16 q8_0 q6_k q4_k ... or\n"
    "                     keep. Norms, biases, routers and the like stay as they are\n"
    "                     unless the glob names them\n"
    "  --fallback TYPE    for tensors whose rows do not fit TYPE (else refused)\n"
    "  --set-kv K=T:V     set a key (again for more); K= deletes it\n"
    "  --set-kv-file K=F  set a key to the content of file F, as a string\n"
    "  --no-verify        do not hold the data against the manifest's sha256\n"
    "  --strict           write nothing if an engine would refuse the result\n"
    "  --force            replace existing files\n"
    "common: -j N threads, -q quiet, -v verbose, --help, --version\n"
    "\n"
    "examples:\n"
    "  organ-extract tests/data/lab/lab-verse-q4_k_m.gguf \\\n"
    "    --output /tmp/verse.organs --force\n"
    "  organ-assemble /tmp/verse.organs --output /tmp/verse.gguf --force\n"
    "  organ-assemble /tmp/verse.organs --output /tmp/verse.gguf --shards 3 --force\n"
    "  organ-assemble /tmp/verse.organs --output /tmp/verse.gguf --force \\\n"
    "    --dtype 'blk.*.ffn_*=q4_k,output*=q6_k,*=f16'\n"
    "exit: 0 done, 2 usage, 3 malformed input, 4 I/O failure\n";

int main(int argc, char **argv)
{
    cli c = { .tool = "organ-assemble", .help = help, .has_force = true, .has_strict = true };
    const char *dir = NULL, *output = NULL;
    uint64_t shards = UINT64_MAX; /* not given */
    cli_list set_kv = { 0 }, set_kv_files = { 0 };
    gg_assemble_options o = { 0 };
    const cli_option options[] = { { "dir", CLI_TEXT, &dir },
                                   { "output", CLI_TEXT, &output },
                                   { "shards", CLI_U64, &shards },
                                   { "shard-size", CLI_SIZE, &o.shard_size },
                                   { "no-verify", CLI_FLAG, &o.no_verify },
                                   { "dtype", CLI_TEXT, &o.dtype },
                                   { "fallback", CLI_TEXT, &o.fallback },
                                   { "set-kv", CLI_LIST, &set_kv },
                                   { "set-kv-file", CLI_LIST, &set_kv_files },
                                   { NULL, CLI_FLAG, NULL } };
    cli_start(&c, argc, argv, options);
    dir = cli_one(&c, dir, "organ directory");
    if (!output) cli_usage(&c, "give --output");
    if (output && strcmp(output, "-") == 0) cli_no_terminal(&c, STDOUT_FILENO);
    bool counted = shards != UINT64_MAX;
    if (counted && (shards < 1 || shards > 65535))
        cli_usage(&c, "--shards %llu: use 1 to 65535", (unsigned long long)shards);
    if (counted && o.shard_size) cli_usage(&c, "give --shards or --shard-size, not both");
    if (o.fallback && !o.dtype) cli_usage(&c, "--fallback goes with --dtype");
    o.shards = counted ? (uint32_t)shards : 0;
    o.set_kv = set_kv.items;
    o.n_set_kv = set_kv.n;
    o.set_kv_files = set_kv_files.items;
    o.n_set_kv_files = set_kv_files.n;
    key_options_note(&c, &set_kv, "--set-kv-file");
    gg_assemble_report r;
    gg_status st = gg_assemble(dir, &o, output, &c.run, &r, &c.err);
    if (st == GG_OK && c.verbose)
        cli_note(&c, "%zu tensor%s, %llu bytes in %zu file%s", r.tensors, cli_s(r.tensors),
                 (unsigned long long)r.bytes, r.files, cli_s(r.files));
    free(set_kv.items);
    free(set_kv_files.items);
    return cli_end(&c, st);
}
