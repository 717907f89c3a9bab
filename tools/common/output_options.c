/* output_options.c - the options of a written model: types, keys and shards. */
#include "output_options.h"
#include "lists.h"

#include "base/buf.h"     /* rules from a model */
#include "base/nearest.h" /* misspelt keys */

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Whether the value of a template is the name of a file, not a template. That of a file that cannot
 * be looked at is one, too. */
static bool is_template_file(const char *key, size_t len, const char *value)
{
    static const char word[] = "chat_template";
    struct stat s;
    gg_error why = GG_ERROR_INIT;
    char name[200];
    snprintf(name, sizeof name, "%.*s", (int)(len < 190 ? len : 190), key);
    if (!strstr(name, word) || !*value || strpbrk(value, "{\n")) return false;
    return strpbrk(value, "/.") != NULL || gg_stat(value, &s, &why) || why.status != GG_OK;
}

void key_options_note(const cli *c, const gg_texts *texts, const char *option)
{
    for (size_t i = 0; i < texts->n; i++) {
        const char *text = texts->items[i], *value = strchr(text, '=');
        if (!value++) continue;
        if (strncmp(value, "str:", 4) == 0) value += 4;
        int key = (int)(strchr(text, '=') - text);
        if (is_template_file(text, (size_t)key, value))
            cli_note(c, "%.*s is set to the text '%s', not to the template in it: use %s %.*s=%s",
                     key, text, value, option, key, text, value);
        if (value[0] != '@' || !value[1]) continue;
        cli_note(c, "%.*s is set to the text '%s'; to store the content of a file, use %s %.*s=%s",
                 key, text, value, option, key, text, value + 1);
    }
}

/* Keys that a model often lacks, so that one of them is not taken for another. */
static const char *const usual_keys[] = {
    "general.name",
    "general.architecture",
    "general.author",
    "general.version",
    "general.organization",
    "general.basename",
    "general.finetune",
    "general.description",
    "general.quantized_by",
    "general.size_label",
    "general.license",
    "general.license.name",
    "general.license.link",
    "general.url",
    "general.repo_url",
    "general.source.url",
    "general.tags",
    "general.languages",
    "general.datasets",
    "general.alignment",
    "general.file_type",
    "general.quantization_version",
    "general.type",
    "tokenizer.chat_template",
    "tokenizer.ggml.model",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.unknown_token_id",
    "tokenizer.ggml.seperator_token_id",
    "tokenizer.ggml.padding_token_id",
    "tokenizer.ggml.cls_token_id",
    "tokenizer.ggml.mask_token_id",
    "tokenizer.ggml.add_bos_token",
    "tokenizer.ggml.add_eos_token",
    "tokenizer.ggml.add_sep_token",
    "tokenizer.ggml.add_space_prefix",
    "tokenizer.ggml.fim_pre_token_id",
    "tokenizer.ggml.fim_suf_token_id",
    "tokenizer.ggml.fim_mid_token_id",
    "tokenizer.ggml.fim_pad_token_id",
    "tokenizer.ggml.fim_rep_token_id",
    "tokenizer.ggml.fim_sep_token_id",
};
#define USUAL (sizeof usual_keys / sizeof usual_keys[0])

void key_options_spelling(const cli *c, const gg_meta *meta, const gg_texts *texts)
{
    size_t n = 0;
    char **known = calloc((meta ? meta->n : 0) + USUAL, sizeof *known);
    for (size_t i = 0; known && meta && i < meta->n; i++)
        if (memchr(meta->kv[i].key, 0, meta->kv[i].key_len) == NULL &&
            (known[n] = strndup(meta->kv[i].key, meta->kv[i].key_len)) != NULL)
            n++;
    for (size_t i = 0; known && i < USUAL; i++)
        if ((known[n] = strdup(usual_keys[i])) != NULL) n++;
    const char **tails = calloc(n + 1, sizeof *tails);
    for (size_t i = 0; known && tails && i < texts->n; i++) {
        const char *text = texts->items[i];
        size_t len = strcspn(text, "=["), stem = len, m = 0, k = 0;
        while (stem > 0 && text[stem - 1] != '.') stem--;
        while (k < n && (strlen(known[k]) != len || memcmp(known[k], text, len) != 0)) k++;
        if (k < n || text[len] != '=' || !text[len + 1]) continue;
        /* Only the last word may differ: general.nmae. */
        for (k = 0; k < n; k++)
            if (strncmp(known[k], text, stem) == 0 && strlen(known[k]) <= len + 2)
                tails[m++] = known[k] + stem;
        const char *near = gg_nearest(text + stem, len - stem, tails, m);
        if (near)
            cli_note(c, "%.*s is a new key, which no engine may know; did you mean %.*s%s?",
                     (int)len, text, (int)stem, text, near);
    }
    free(tails);
    for (size_t i = 0; i < n; i++) free(known[i]);
    free(known);
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
