/* output_options.c - the options of a written model: types, keys and shards. */
#include "output_options.h"
#include "lists.h"

#include <stddef.h>
#include <string.h>

void key_options_note(const cli *c, const cli_list *texts, const char *option)
{
    for (size_t i = 0; i < texts->n; i++) {
        const char *text = texts->items[i], *value = strchr(text, '=');
        if (!value++) continue;
        if (strncmp(value, "str:", 4) == 0) value += 4;
        if (value[0] != '@' || !value[1]) continue;
        int key = (int)(strchr(text, '=') - text);
        cli_note(c, "%.*s is set to the text '%s'; to store the content of a file, use %s %.*s=%s",
                 key, text, value, option, key, text, value + 1);
    }
}

#define OUTPUT(member) .at = offsetof(output_options, member)

const cli_option output_group[] = {
    { "dtype", CLI_RULES, OUTPUT(dtype), .arg = "RULES", .list = list_preset, .help = "re-encode" },
    { "fallback", CLI_TEXT, OUTPUT(fallback), .arg = "TYPE", .list = list_encodable,
      .needs = "dtype", .flow = "; " },
    { "imatrix", CLI_FILE, OUTPUT(imatrix), .arg = "F", .flow = "; " },
    { "set-kv", CLI_TEXT, OUTPUT(set_kv), .arg = "K=T:V", .many = true,
      .help = "set a key; K= deletes it" },
    { "set-kv-file", CLI_TEXT, OUTPUT(set_kv_files), .arg = "K=F", .many = true, .local = true,
      .flow = "; " },
    { "shards", CLI_U64, OUTPUT(shards), .arg = "N", .low = 1, .high = 65535,
      .excludes = "shard-size", .help = "split the output" },
    { "shard-size", CLI_SIZE, OUTPUT(shard_size), .arg = "2G", .flow = "; " },
    { 0 },
};

const gg_output_options *output_options_make(const cli *c, output_options *o)
{
    key_options_note(c, &o->set_kv, "--set-kv-file");
    o->made = (gg_output_options){ .set_kv = o->set_kv.items,
                                   .n_set_kv = o->set_kv.n,
                                   .set_kv_files = o->set_kv_files.items,
                                   .n_set_kv_files = o->set_kv_files.n,
                                   .dtype = o->dtype,
                                   .fallback = o->fallback,
                                   .imatrix = o->imatrix,
                                   .shards = (uint32_t)o->shards,
                                   .shard_size = o->shard_size };
    return &o->made;
}
