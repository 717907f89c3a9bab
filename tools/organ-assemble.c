/* organ-assemble - write a model from an organ directory or another model. */
#include "cli.h"
#include "key_options.h"
#include "output_options.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: organ-assemble [--model|--dir] MODEL --output FILE\n"
    "Write a model from any source: an organ directory, a GGUF file, any shard of a\n"
    "split model, or - for stdin. Merge or split shards, re-encode, set keys.\n"
    "You may edit the manifest of a directory first; everything that you did not\n"
    "change is restored byte for byte.\n"
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
    "                     the glob names them. RULES,PRESET combines both\n"
    "  --fallback TYPE    type for tensors whose rows do not fit TYPE (else an error)\n"
    "  --imatrix F        encode with the importance matrix F (GGUF or older format)\n"
    "  --keep-experts L   keep only these experts: a list such as 0-63 for every\n"
    "                     block, or a file with lines of block, tab, experts\n"
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

int main(int argc, char **argv)
{
    cli c = { .tool = "organ-assemble", .help = help, .has_force = true, .has_strict = true };
    const char *dir = NULL, *model = NULL, *output = NULL;
    output_options out = OUTPUT_OPTIONS_INIT;
    cli_list set_kv = { 0 }, set_kv_files = { 0 };
    gg_assemble_options o = { 0 };
    const cli_option options[] = { { "dir", CLI_TEXT, &dir },
                                   { "model", CLI_TEXT, &model },
                                   { "output", CLI_TEXT, &output },
                                   OUTPUT_OPTIONS(out),
                                   { "no-verify", CLI_FLAG, &o.no_verify },
                                   { "keep-experts", CLI_TEXT, &o.keep_experts },
                                   { "set-kv", CLI_LIST, &set_kv },
                                   { "set-kv-file", CLI_LIST, &set_kv_files },
                                   { NULL, CLI_FLAG, NULL } };
    cli_start(&c, argc, argv, options);
    if (dir && model) cli_usage(&c, "give --dir or --model, not both");
    model = cli_one(&c, dir ? dir : model, "model");
    if (!output) cli_usage(&c, "give --output");
    if (output && strcmp(output, "-") == 0) cli_no_terminal(&c, STDOUT_FILENO);
    output_options_check(&c, &out);
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
    gg_assemble_report r;
    gg_status st = gg_assemble(model, &o, output, &c.run, &r, &c.err);
    if (st == GG_OK && c.verbose)
        cli_note(&c, "%zu tensor%s, %llu bytes in %zu file%s", r.tensors, cli_s(r.tensors),
                 (unsigned long long)r.bytes, r.files, cli_s(r.files));
    free(set_kv.items);
    free(set_kv_files.items);
    return cli_end(&c, st);
}
