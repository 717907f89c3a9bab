/* tokenizer_keys.c - special tokens, flags, chat templates, and what generation_config.json has. */
#include "base/error.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "hf.h"
#include "hf_files.h"
#include "tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- special tokens -------------------------------------------------------------------------- */

enum { BOS, EOS, UNK, SEP, PAD, CLS, MASK, EOT, EOM, ROLES };

static const struct role_row {
    const char *name; /* in NAME_token, NAME_token_id and add_NAME_token */
    const char *key;  /* tokenizer.ggml.KEY_token_id */
    bool flag;        /* GGUF has tokenizer.ggml.add_NAME_token */
} role_rows[ROLES] = {
    { "bos", "bos", true },       { "eos", "eos", true },      { "unk", "unknown", false },
    { "sep", "seperator", true }, { "pad", "padding", false }, { "cls", "cls", false },
    { "mask", "mask", false },    { "eot", "eot", false },     { "eom", "eom", false },
};

typedef struct role {
    const char *text; /* of the token, or NULL */
    size_t len;
    uint64_t id;
    bool has_id, has_flag, flag;
} role;

typedef struct specials {
    gg_tk *tk;
    role role[ROLES];
} specials;

static bool text_of(const gg_json_node *node, const char **text, size_t *len)
{
    if (gg_json_type_of(node) == GG_JSON_OBJECT) node = gg_json_get(node, "content");
    return gg_json_string(node, text, len, NULL) == GG_OK && *len > 0;
}

static bool is_role(const role *r, const char *text, size_t len)
{
    return r->text && r->len == len && memcmp(r->text, text, len) == 0;
}

static void set_role_text(role *r, const char *text, size_t len)
{
    r->text = text;
    r->len = len;
}

static void set_role_flag(role *r, bool flag)
{
    r->has_flag = true;
    r->flag = flag;
}

/* The texts that tokenizer_config.json names, or special_tokens_map.json if there is none. */
static void read_texts(specials *s)
{
    const gg_json_node *from = gg_json_root(s->tk->config ? s->tk->config : s->tk->map);
    char field[32];
    for (int i = 0; i < EOT; i++) {
        role *r = &s->role[i];
        snprintf(field, sizeof field, "%s_token", role_rows[i].name);
        text_of(gg_json_get(from, field), &r->text, &r->len);
    }
    if (!s->tk->json) return;
    if (!s->role[BOS].text) s->role[BOS] = s->role[CLS];
    if (!s->role[EOS].text) s->role[EOS] = s->role[SEP];
}

/* ---- post-processors: which tokens are put around a text ------------------------------------- */

static bool special_of(const gg_json_node *item, const char **text, size_t *len)
{
    return text_of(gg_json_get(gg_json_get(item, "SpecialToken"), "id"), text, len);
}

static bool sequence_is(const gg_json_node *item, const char *name)
{
    const char *text;
    size_t len;
    return text_of(gg_json_get(gg_json_get(item, "Sequence"), "id"), &text, &len) &&
           gg_text_is(text, len, name);
}

static const gg_json_node *item_at(const gg_json_node *list, size_t i)
{
    const gg_json_node *n = gg_json_first(list);
    while (n && i-- > 0) n = gg_json_next(n);
    return n;
}

/* Whether a pair is A, separators, B. Around it are the tokens of a single text. */
static void read_pair_template(specials *s, const gg_json_node *pair, bool first, bool last)
{
    size_t from = first ? 1 : 0, n = gg_json_count(pair), to = n - (last && n ? 1 : 0);
    const char *text;
    size_t len;
    if (to < from + 3 || !sequence_is(item_at(pair, from), "A") ||
        !sequence_is(item_at(pair, to - 1), "B"))
        return;
    bool add = false;
    for (size_t i = from + 1; i + 1 < to && i < from + 3; i++) {
        bool known = special_of(item_at(pair, i), &text, &len) &&
                     (is_role(&s->role[SEP], text, len) || is_role(&s->role[EOS], text, len));
        if (known && (i > from + 1 || !last)) {
            add = true;
            if (!s->role[SEP].text) set_role_text(&s->role[SEP], text, len);
        }
    }
    set_role_flag(&s->role[SEP], add);
}

/* Notes special tokens of a template for a single text that engines do not put around it. */
static gg_status note_template(const specials *s, const gg_json_node *single, gg_error *err)
{
    size_t n = 0, put = 0;
    const char *text;
    size_t len;
    for (const gg_json_node *i = gg_json_first(single); i; i = gg_json_next(i))
        n += special_of(i, &text, &len);
    for (int i = BOS; i <= EOS; i++) put += s->role[i].has_flag && s->role[i].flag;
    if (n <= put) return GG_OK;
    return gg_tk_note(s->tk, err,
                      "the tokenizer puts %zu special tokens around a text, but engines put %zu", n,
                      put);
}

static void read_template(specials *s, const gg_json_node *processor)
{
    const gg_json_node *single = gg_json_get(processor, "single"),
                       *pair = gg_json_get(processor, "pair");
    size_t n = gg_json_count(single), first_len = 0, last_len = 0;
    const char *first = NULL, *last = NULL;
    bool config = s->tk->config != NULL;
    if (n > 1 && special_of(item_at(single, 0), &first, &first_len)) {
        if (!config) set_role_text(&s->role[BOS], first, first_len);
        set_role_flag(&s->role[BOS], is_role(&s->role[BOS], first, first_len) ||
                                         is_role(&s->role[CLS], first, first_len));
    }
    if (n > 1 && special_of(item_at(single, n - 1), &last, &last_len)) {
        role *eos = &s->role[EOS];
        if (config && !is_role(eos, last, last_len)) {
            int other = s->role[EOT].text ? EOM : EOT;
            if (eos->text) set_role_text(&s->role[other], eos->text, eos->len);
        }
        set_role_text(eos, last, last_len);
        set_role_flag(eos, true);
    }
    const char *text;
    size_t len, pairs = gg_json_count(pair);
    bool starts = first && special_of(item_at(pair, 0), &text, &len) && len == first_len &&
                  memcmp(text, first, len) == 0;
    bool ends = last && pairs && special_of(item_at(pair, pairs - 1), &text, &len) &&
                len == last_len && memcmp(text, last, len) == 0;
    if (pairs) read_pair_template(s, pair, starts, ends);
}

static void read_roberta(specials *s, const gg_json_node *processor)
{
    role *cls = &s->role[CLS], *sep = &s->role[SEP];
    set_role_flag(&s->role[BOS], true);
    set_role_flag(&s->role[EOS], true);
    set_role_flag(sep, true);
    if (!cls->text) text_of(gg_json_first(gg_json_get(processor, "cls")), &cls->text, &cls->len);
    if (!sep->text) text_of(gg_json_first(gg_json_get(processor, "sep")), &sep->text, &sep->len);
}

/* Reads a post-processor, or those of a sequence. */
static gg_status read_processor(specials *s, const gg_json_node *post, gg_error *err)
{
    const gg_json_node *list = gg_json_get(post, "processors");
    const char *text;
    size_t len;
    for (const gg_json_node *p = gg_json_first(list); p && err->status == GG_OK;
         p = gg_json_next(p))
        read_processor(s, p, err);
    if (list || gg_json_type_of(post) <= GG_JSON_NULL || err->status != GG_OK) return err->status;
    if (gg_json_string(gg_json_get(post, "type"), &text, &len, err) != GG_OK) return err->status;
    if (gg_text_is(text, len, "ByteLevel")) return GG_OK;
    if (gg_text_is(text, len, "RobertaProcessing")) read_roberta(s, post);
    else if (gg_text_is(text, len, "TemplateProcessing")) {
        read_template(s, post);
        return note_template(s, gg_json_get(post, "single"), err);
    } else if (!gg_text_is(text, len, "BertProcessing") || strcmp(s->tk->model, "bert") != 0)
        return gg_tk_note(s->tk, err,
                          "what the tokenizer does to tokens afterwards is not converted (%.*s)",
                          len < 40 ? (int)len : 40, text);
    return GG_OK;
}

/* ---- ids ------------------------------------------------------------------------------------- */

static gg_status set_id(specials *s, int i, uint64_t id, gg_error *err)
{
    role *r = &s->role[i];
    if (r->has_id) return GG_OK;
    if (id >= s->tk->n)
        return gg_tk_note(s->tk, err,
                          "%s_token_id is %llu, but there are %zu tokens: it is left out",
                          role_rows[i].name, (unsigned long long)id, s->tk->n);
    r->has_id = true;
    r->id = id;
    return GG_OK;
}

/* The ids of texts that are added tokens of tokenizer.json. */
static gg_status ids_of_texts(specials *s, gg_error *err)
{
    const gg_json_node *added = gg_json_get(gg_json_root(s->tk->json), "added_tokens");
    for (const gg_json_node *a = gg_json_first(added); a; a = gg_json_next(a)) {
        const char *text;
        size_t len;
        uint64_t id;
        if (!text_of(gg_json_get(a, "content"), &text, &len) ||
            gg_json_u64(gg_json_get(a, "id"), &id, NULL) != GG_OK)
            continue;
        for (int i = 0; i < ROLES; i++)
            if (is_role(&s->role[i], text, len) && set_id(s, i, id, err) != GG_OK)
                return err->status;
    }
    return GG_OK;
}

/* A field of config.json, or of its text part, or of generation_config.json. */
static const gg_json_node *field_of(const gg_json_node *from, const char *field)
{
    const gg_json_node *node = gg_json_get(from, field);
    if (gg_json_type_of(node) <= GG_JSON_NULL)
        node = gg_json_get(gg_json_get(from, "text_config"), field);
    if (gg_json_type_of(node) <= GG_JSON_NULL)
        node = gg_json_get(gg_json_get(from, "llm_config"), field);
    return node;
}

/* The ids of texts that no file states, such as those of a tokenizer.model. The converter leaves
 * them out, so engines take their defaults: 0, 1 and 2 for pieces. Notes ids that are stated
 * otherwise. */
static gg_status find_ids(specials *s, gg_error *err)
{
    bool pieces = strcmp(s->tk->model, "llama") == 0;
    for (int i = 0; i < ROLES && err->status == GG_OK; i++) {
        const role *r = &s->role[i];
        size_t id = r->text ? gg_tk_find(s->tk, r->text, r->len) : SIZE_MAX;
        bool usual = pieces && i <= UNK && id == (i == BOS ? 1 : i == EOS ? 2 : 0);
        if (id == SIZE_MAX || (!r->has_id && usual)) continue;
        if (r->has_id && id != r->id)
            gg_tk_note(s->tk, err, "%s_token is token %zu, '%.*s', but its id is stated as %llu",
                       role_rows[i].name, id, r->len < 60 ? (int)r->len : 60, r->text,
                       (unsigned long long)r->id);
        else set_id(s, i, id, err);
    }
    return err->status;
}

/* The ids that config.json states, and after them those of generation_config.json, of which a list
 * gives its first: lists is then the name of the file, for notes. A negative id is none. */
static gg_status stated_ids(specials *s, const gg_json_node *from, const char *lists, gg_error *err)
{
    char field[32];
    for (int i = 0; i < ROLES && err->status == GG_OK; i++) {
        uint64_t id;
        int64_t none;
        snprintf(field, sizeof field, "%s_token_id", role_rows[i].name);
        const gg_json_node *node = field_of(from, field);
        if (lists && gg_json_type_of(node) == GG_JSON_ARRAY) node = gg_json_first(node);
        if (gg_json_u64(node, &id, NULL) == GG_OK) set_id(s, i, id, err);
        else if (lists && gg_json_type_of(node) > GG_JSON_NULL &&
                 (gg_json_i64(node, &none, NULL) != GG_OK || none >= 0))
            gg_tk_note(s->tk, err, "%s of %s is not the id of a token, and is left out", field,
                       lists);
    }
    return err->status;
}

/* The flags that tokenizer_config.json states. */
static gg_status stated_flags(specials *s, gg_error *err)
{
    char field[32];
    for (int i = 0; i < ROLES && err->status == GG_OK; i++) {
        bool flag;
        snprintf(field, sizeof field, "add_%s_token", role_rows[i].name);
        const gg_json_node *node = gg_json_get(gg_json_root(s->tk->config), field);
        if (gg_json_bool(node, &flag, NULL) == GG_OK) set_role_flag(&s->role[i], flag);
        else if (gg_json_type_of(node) > GG_JSON_NULL)
            gg_tk_note(s->tk, err,
                       "%s of tokenizer_config.json is neither true nor false, and is left out",
                       field);
    }
    return err->status;
}

/* What the converter adds for some architectures. */
static void exceptions(specials *s)
{
    const char *arch = s->tk->from->arch;
    role *eot = &s->role[EOT], *bos = &s->role[BOS];
    bool code = gg_hf_is(arch, GG_HF_CODE_VOCABULARIES);
    if (gg_hf_is(arch, GG_HF_END_OF_TURN_107)) {
        eot->has_id = true;
        eot->id = 107;
    }
    if (code && s->tk->n == 32016) eot->has_id = true, eot->id = 32010; /* Code Llama */
    if (code && s->tk->n == 49152) set_role_flag(bos, false);           /* Granite Code */
    if (gg_hf_is(arch, GG_HF_NO_BEGIN) && !bos->has_flag) set_role_flag(bos, false);
}

static gg_status set_roles(specials *s, gg_error *err)
{
    char key[64];
    for (int i = 0; i < ROLES && err->status == GG_OK; i++) {
        const role *r = &s->role[i];
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", role_rows[i].key);
        if (r->has_id) gg_meta_set_u32(s->tk->meta, key, (uint32_t)r->id, err);
    }
    for (int i = 0; i < ROLES && err->status == GG_OK; i++) {
        const role *r = &s->role[i];
        snprintf(key, sizeof key, "tokenizer.ggml.add_%s_token", role_rows[i].name);
        if (r->has_flag && role_rows[i].flag) gg_meta_set_bool(s->tk->meta, key, r->flag, err);
    }
    return err->status;
}

/* tokenizer.ggml.add_space_prefix, where the converter writes it. */
static gg_status set_space_prefix(gg_tk *tk, gg_error *err)
{
    static const char key[] = "tokenizer.ggml.add_space_prefix";
    const char *arch = tk->from->arch;
    bool value;
    if (gg_hf_is(arch, GG_HF_NO_SPACE_PREFIX) && tk->scores)
        return gg_meta_set_bool(tk->meta, key, false, err);
    if (gg_hf_is(arch, GG_HF_STATES_SPACE_PREFIX) &&
        gg_json_bool(gg_json_get(gg_json_root(tk->config), "add_prefix_space"), &value, NULL) ==
            GG_OK)
        return gg_meta_set_bool(tk->meta, key, value, err);
    if (!tk->no_prefix) return GG_OK;
    return gg_tk_note(tk, err,
                      "tokenizer.model puts no space before a text, but engines do, unless you set "
                      "%s to false",
                      key);
}

/* ---- chat templates -------------------------------------------------------------------------- */

#define MOST_TEMPLATES 256 /* with names */

/* Templates that have names. */
typedef struct names_list {
    gg_buf data; /* as the elements of a GGUF array */
    uint64_t n, left_out;
} names_list;

typedef struct template
{
    const char *name, *text;
    size_t name_len, len;
}
template;

/* Sets a template. Any but the default one gets a key with its name. */
static gg_status set_template(gg_tk *tk, const template *t, names_list *names, gg_error *err)
{
    char key[160], plain[100];
    size_t n = t->name_len;
    if (n == 0 || n >= sizeof plain) {
        names->left_out++;
        return GG_OK;
    }
    for (size_t i = 0; i < n; i++) {
        char c = t->name[i];
        bool kept = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        plain[i] = kept ? c : '_';
    }
    plain[n] = '\0';
    if (strcmp(plain, "default") == 0)
        return gg_meta_set_str(tk->meta, "tokenizer.chat_template", t->text, t->len, err);
    snprintf(key, sizeof key, "tokenizer.chat_template.%s", plain);
    bool again = gg_meta_find(tk->meta, key) != NULL;
    if (!again && names->n >= MOST_TEMPLATES)
        return gg_fail(err, GG_EUNSUPPORTED, "it has more than %d chat templates", MOST_TEMPLATES);
    if (again && names->n &&
        gg_tk_note(tk, err, "two chat templates have the name %s", plain) != GG_OK)
        return err->status;
    if (!again && gg_array_add_str(&names->data, plain, n, err) == GG_OK) names->n++;
    if (err->status != GG_OK) return err->status;
    return gg_meta_set_str(tk->meta, key, t->text, t->len, err);
}

static gg_status set_names(gg_tk *tk, names_list *names, gg_error *err)
{
    if (err->status == GG_OK && names->n)
        gg_meta_set_array(tk->meta, "tokenizer.chat_templates", GG_TYPE_STR, names->n, &names->data,
                          err);
    if (err->status == GG_OK && names->left_out)
        gg_tk_note(tk, err,
                   "%llu chat templates have no text, or no name of at most 99 letters, and are "
                   "left out",
                   (unsigned long long)names->left_out);
    gg_buf_free(&names->data);
    return err->status;
}

/* A template in JSON: a text, or a list of names and texts. */
static gg_status set_stated(gg_tk *tk, const gg_json_node *stated, gg_error *err)
{
    names_list names = { .n = 0 };
    template t;
    if (gg_json_type_of(stated) == GG_JSON_STRING) {
        gg_json_string(stated, &t.text, &t.len, err);
        return gg_meta_set_str(tk->meta, "tokenizer.chat_template", t.text, t.len, err);
    }
    for (const gg_json_node *c = gg_json_first(stated); c && err->status == GG_OK;
         c = gg_json_next(c))
        if (text_of(gg_json_get(c, "name"), &t.name, &t.name_len) &&
            text_of(gg_json_get(c, "template"), &t.text, &t.len))
            set_template(tk, &t, &names, err);
        else names.left_out++;
    return set_names(tk, &names, err);
}

static gg_status set_additional(gg_tk *tk, gg_error *err)
{
    const char *folder = tk->from->folder;
    names_list names = { .n = 0 };
    gg_hf_files files = { .list = NULL };
    gg_hf_list_templates(folder, &files, err);
    for (size_t i = 0; i < files.n && err->status == GG_OK; i++) {
        const char *name = files.list[i] + sizeof GG_HF_TEMPLATES;
        template t = { .name = name, .name_len = strlen(name) - strlen(".jinja") };
        char *text = NULL;
        if (gg_hf_read(folder, files.list[i], &text, &t.len, err) == GG_OK && text) {
            t.text = text;
            set_template(tk, &t, &names, err);
        }
        free(text);
    }
    gg_hf_files_free(&files);
    return set_names(tk, &names, err);
}

/* Notes a chat_template.jinja that differs from the template of tokenizer_config.json. */
static gg_status note_other_template(gg_tk *tk, gg_error *err)
{
    static const char name[] = "chat_template.jinja";
    const char *taken = NULL;
    char *text = NULL;
    size_t len = 0, n = 0;
    if (gg_hf_read(tk->from->folder, name, &text, &len, err) != GG_OK || !text) return err->status;
    gg_kv_str(gg_meta_find(tk->meta, "tokenizer.chat_template"), &taken, &n);
    bool same = taken && n == len && memcmp(taken, text, n) == 0;
    free(text);
    if (same) return GG_OK;
    return gg_tk_note(
        tk, err, "%s differs from chat_template of tokenizer_config.json, which is used", name);
}

static gg_status set_templates(gg_tk *tk, gg_error *err)
{
    const gg_json_node *stated = gg_json_get(gg_json_root(tk->config), "chat_template");
    gg_json *json = NULL;
    char *text = NULL;
    size_t len = 0;
    gg_json_type type = gg_json_type_of(stated);
    if (type == GG_JSON_STRING || type == GG_JSON_ARRAY) {
        set_stated(tk, stated, err);
        return err->status == GG_OK ? note_other_template(tk, err) : err->status;
    }
    if (gg_json_type_of(stated) > GG_JSON_NULL)
        gg_tk_note(tk, err,
                   "chat_template of tokenizer_config.json is not a text, and is left out");
    if (err->status == GG_OK &&
        gg_hf_read(tk->from->folder, "chat_template.jinja", &text, &len, err) == GG_OK && text) {
        gg_meta_set_str(tk->meta, "tokenizer.chat_template", text, len, err);
        if (err->status == GG_OK) set_additional(tk, err);
    } else if (err->status == GG_OK &&
               gg_hf_read(tk->from->folder, "chat_template.json", &text, &len, err) == GG_OK &&
               text && gg_json_parse(text, len, &json, err) == GG_OK) {
        set_stated(tk, gg_json_get(gg_json_root(json), "chat_template"), err);
    }
    gg_json_free(json);
    free(text);
    return err->status;
}

/* ---- generation_config.json ------------------------------------------------------------------ */

static const struct sampling_row {
    const char *field, *key;
    uint32_t type;
} sampling_rows[] = {
    { "temperature", "general.sampling.temp", GG_TYPE_F32 },
    { "top_k", "general.sampling.top_k", GG_TYPE_I32 },
    { "top_p", "general.sampling.top_p", GG_TYPE_F32 },
    { "min_p", "general.sampling.min_p", GG_TYPE_F32 },
    { "repetition_penalty", "general.sampling.penalty_repeat", GG_TYPE_F32 },
};

static gg_status set_sampling(gg_tk *tk, gg_error *err)
{
    const gg_json_node *root = gg_json_root(tk->generation);
    for (size_t i = 0; i < sizeof sampling_rows / sizeof *sampling_rows; i++) {
        const struct sampling_row *row = &sampling_rows[i];
        float f;
        int64_t n;
        const gg_json_node *node = gg_json_get(root, row->field);
        if (row->type == GG_TYPE_F32) {
            if (gg_json_f32(node, &f, NULL) != GG_OK) continue;
            gg_meta_set_f32(tk->meta, row->key, f, err);
        } else {
            if (gg_json_i64(node, &n, NULL) != GG_OK || n < INT32_MIN || n > INT32_MAX) continue;
            gg_meta_set_bits(tk->meta, row->key, row->type, (uint32_t)(int32_t)n, err);
        }
    }
    return err->status;
}

/* Notes further tokens that end a text, for which GGUF has no list. */
static gg_status note_ends(specials *s, gg_error *err)
{
    const gg_json_node *list = field_of(gg_json_root(s->tk->generation), "eos_token_id");
    bool config = gg_json_type_of(list) != GG_JSON_ARRAY;
    char text[200] = "";
    size_t used = 0, n = 0, lost = 0;
    if (config) list = field_of(s->tk->from->config, "eos_token_id");
    if (gg_json_type_of(list) != GG_JSON_ARRAY) return GG_OK;
    for (const gg_json_node *e = gg_json_first(list); e; e = gg_json_next(e)) {
        uint64_t id;
        if (gg_json_u64(e, &id, NULL) != GG_OK || id >= s->tk->n) {
            lost++;
            continue;
        }
        if (s->role[EOS].has_id && s->role[EOS].id == id) continue;
        const gg_hf_token *t = &s->tk->tokens[id];
        if (used < 120)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s'%.*s'", n ? ", " : "",
                                     t->len < 30 ? (int)t->len : 30, t->text);
        n++;
    }
    if (lost)
        gg_tk_note(s->tk, err, "%zu ids in eos_token_id of %sconfig.json are not those of a token",
                   lost, config ? "" : "generation_");
    if (n == 0) return err->status;
    return gg_tk_note(s->tk, err,
                      "%sconfig.json also ends a text at %s; engines know such tokens by their "
                      "texts, or not at all",
                      config ? "" : "generation_", text);
}

gg_status gg_tk_special_keys(gg_tk *tk, gg_error *err)
{
    specials s = { .tk = tk };
    read_texts(&s);
    read_processor(&s, gg_json_get(gg_json_root(tk->json), "post_processor"), err);
    stated_flags(&s, err);
    ids_of_texts(&s, err);
    stated_ids(&s, tk->from->config, NULL, err);
    stated_ids(&s, gg_json_root(tk->generation), "generation_config.json", err);
    stated_ids(&s, tk->from->config, "config.json", err);
    find_ids(&s, err);
    exceptions(&s);
    set_roles(&s, err);
    set_space_prefix(tk, err);
    if (err->status == GG_OK) set_templates(tk, err);
    set_sampling(tk, err);
    note_ends(&s, err);
    return err->status;
}
