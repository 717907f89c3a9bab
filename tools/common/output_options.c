/* output_options.c - the options of a written model: types, keys and shards. */
#include "output_options.h"
#include "lists.h"

#include "base/buf.h" /* rules from a model */

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void key_options_note(const cli *c, const gg_texts *texts, const char *option)
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

const cli_option output_group[] = {
    { "dtype", CLI_RULES, .at = offsetof(gg_output_options, dtype), .arg = "RULES",
      .list = list_preset, .help = "re-encode" },
    { "fallback", CLI_TEXT, .at = offsetof(gg_output_options, fallback), .arg = "TYPE",
      .list = list_encodable, .flow = "; ", .needs = "dtype" },
    { "imatrix", CLI_FILE, .at = offsetof(gg_output_options, imatrix), .arg = "F", .flow = "; " },
    { "set-kv", CLI_TEXT, .at = offsetof(gg_output_options, set_kv), .arg = "K=T:V", .many = true,
      .help = "set a key; K= deletes it" },
    { "set-kv-file", CLI_KEY_FILE, .at = offsetof(gg_output_options, set_kv_files), .arg = "K=F",
      .many = true, .local = true, .flow = "; " },
    { "shards", CLI_U64, .at = offsetof(gg_output_options, shards), .arg = "N", .low = 1,
      .high = 65535, .excludes = "shard-size", .help = "split the output" },
    { "shard-size", CLI_SIZE, .at = offsetof(gg_output_options, shard_size), .arg = "2G",
      .flow = "; " },
    { 0 },
};

/* Adds a rule for each tensor of the model. Names that would be read as patterns are left out, and
 * so are types that are never encoded. */
static gg_status add_like(cli *c, const char *model, gg_buf *to)
{
    gg_source *s = NULL;
    gg_status st = cli_open(c, model, CLI_HEADER_ONLY, &s);
    size_t n = st == GG_OK ? gg_source_count(s) : 0, before = to->len;
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(s, i);
        const gg_dtype_info *type = gg_dtype_get(t->dtype);
        if (strlen(t->name) != t->name_len || strpbrk(t->name, ",*?[@") ||
            *list_encoding(type) == 'n')
            continue;
        st = gg_buf_printf(to, &c->err, "%s%s=%s", to->len ? "," : "", t->name, type->name);
    }
    if (st == GG_OK && to->len == before) {
        st = gg_fail(&c->err, GG_EUSAGE, "it has no tensor whose type could be used");
        gg_at_file(&c->err, model);
    }
    gg_source_close(s);
    return st;
}

/* Replaces "like:MODEL" in the rules by the types of MODEL. They live as long as the program. */
static void read_like(cli *c, gg_output_options *o)
{
    static gg_buf rules;
    gg_status st = GG_OK;
    if (!o->dtype || (strncmp(o->dtype, "like:", 5) != 0 && !strstr(o->dtype, ",like:"))) return;
    char *copy = strdup(o->dtype), *rest = copy, *item;
    if (!copy) st = gg_fail(&c->err, GG_ENOMEM, "no memory for the rules of types");
    while (st == GG_OK && (item = strsep(&rest, ",")) != NULL)
        st = strncmp(item, "like:", 5) == 0
                 ? add_like(c, item + 5, &rules)
                 : gg_buf_printf(&rules, &c->err, "%s%s", rules.len ? "," : "", item);
    free(copy);
    if (st != GG_OK) exit(cli_end(c, st));
    o->dtype = rules.data;
}

void output_options_end(cli *c, gg_output_options *o)
{
    read_like(c, o);
    key_options_note(c, &o->set_kv, "--set-kv-file");
}
