/* output_options.c - --shards, --shard-size, --dtype, --fallback and --imatrix. */
#include "output_options.h"

void output_options_check(const cli *c, output_options *o)
{
    bool counted = o->shards != UINT64_MAX;
    if (counted && (o->shards < 1 || o->shards > 65535))
        cli_usage(c, "--shards %llu: use 1 to 65535", (unsigned long long)o->shards);
    if (counted && o->shard_size) cli_usage(c, "give --shards or --shard-size, not both");
    if (o->fallback && !o->dtype) cli_usage(c, "--fallback needs --dtype");
    if (!counted) o->shards = 0;
}

void output_options_set(gg_output_options *to, const output_options *o, const cli_list *set_kv,
                        const cli_list *set_kv_files)
{
    *to = (gg_output_options){ .set_kv = set_kv->items,
                               .n_set_kv = set_kv->n,
                               .set_kv_files = set_kv_files->items,
                               .n_set_kv_files = set_kv_files->n,
                               .dtype = o->dtype,
                               .fallback = o->fallback,
                               .imatrix = o->imatrix,
                               .shards = (uint32_t)o->shards,
                               .shard_size = o->shard_size };
}
