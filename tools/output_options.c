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
