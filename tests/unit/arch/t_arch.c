/* t_arch.c - evaluates every record of src/arch/architectures.txt: each tensor, size, key, trait
 * and reference must exist, and no field may be missing. A fault is printed with its line. */
#include "arch/design.h"
#include "base/text.h"
#include "organ/gg_organ.h"
#include "t.h"

#include <stddef.h>

#define BLOCKS 4

/* ---- faults ------------------------------------------------------------------------------- */

static size_t faults;
static unsigned last_line; /* of the last fault */
static bool quiet;         /* faults are expected */

static void fault(unsigned line, const char *arch, const char *what, const char *word, size_t len)
{
    faults++;
    last_line = line;
    if (!quiet)
        fprintf(stderr, "src/arch/architectures.txt:%u: %s: %s '%.*s'\n", line, arch, what,
                (int)len, word);
}

/* The line of a word in a text that begins at `line`. */
static unsigned line_of(unsigned line, const char *text, const char *word)
{
    for (; text < word; text++) line += *text == '\n';
    return line;
}

static bool is_one_of(const char *list, const char *word, size_t len)
{
    return gg_text_has_word(list, word, len);
}

/* ---- what exists -------------------------------------------------------------------------- */

/* The tensors that the shapes list; NULL if there is no such tensor. */
static const char *listed_shape(const char *name, size_t len)
{
    for (const gg_arch_shape *s = gg_arch_shapes; s->shape; s++)
        if (is_one_of(s->names, name, len)) return s->shape;
    return NULL;
}

static const gg_arch_key_type *type_of_key(const char *key, size_t len)
{
    for (const gg_arch_key_type *t = gg_arch_key_types; t->type; t++)
        if (is_one_of(t->keys, key, len)) return t;
    return NULL;
}

static bool is_trait(const char *word, size_t len)
{
    for (const gg_arch_trait *t = gg_arch_traits; t->name; t++)
        if (gg_text_is(word, len, t->name)) return true;
    return false;
}

/* ---- formulas ----------------------------------------------------------------------------- */

/* The keys that formulas need, for an architecture. */
static void make_keys(const gg_arch *a, gg_meta *meta)
{
    gg_error err = GG_ERROR_INIT;
    static const struct {
        const char *key;
        uint32_t value;
    } special[] = { { "attention.head_count", 4 }, { "attention.head_count_kv", 2 },
                    { "expert_used_count", 2 },    { "rope.dimension_count", 4 },
                    { "nextn_predict_layers", 0 }, { "block_count", BLOCKS } };
    char key[200];
    T_EQ(gg_meta_set_str(meta, "general.architecture", a->name, strlen(a->name), &err), GG_OK);
    for (const gg_arch_name *n = gg_arch_names; n->name; n++) {
        uint32_t value = 16;
        if (!n->key) continue;
        for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
            if (strcmp(n->key, special[i].key) == 0) value = special[i].value;
        if (n->key[0] == '/') snprintf(key, sizeof key, "%s", n->key + 1);
        else snprintf(key, sizeof key, "%s.%s", a->name, n->key);
        T_EQ(gg_meta_set_u32(meta, key, value, &err), GG_OK);
    }
    snprintf(key, sizeof key, "%s.vocab_size", a->name);
    T_EQ(gg_meta_set_u32(meta, key, 32, &err), GG_OK);
    snprintf(key, sizeof key, "%s.target_layers=i32[]:0,1,2", a->name);
    T_EQ(gg_meta_set_text(meta, key, &err), GG_OK);
}

/* Every name must be known, and the formula must have a value for every block. `ends` are the
 * characters that separate the sides: "," of a shape, ":" of rows. */
static void check_formula(const gg_design *d, unsigned line, const char *arch, const char *text,
                          size_t len, char between)
{
    if (len == 0) fault(line, arch, "there is no formula after", "=", 1);
    for (size_t at = 0; at < len;) {
        size_t side = at, end = at;
        uint64_t value;
        while (end < len && text[end] != between) end++;
        while (side <= end) {
            size_t n = side;
            while (n < end && !strchr("*/%+-", text[n])) n++;
            if (!gg_design_name_known(text + side, n - side))
                fault(line, arch, "the formula names an unknown size", text + side, n - side);
            else if (n == side) fault(line, arch, "a name is missing in", text, len);
            side = n + 1;
        }
        for (uint64_t b = 0; d && b < BLOCKS; b++)
            if (!gg_design_formula(d, text + at, end - at, b, &value)) {
                fault(line, arch, "the formula has no value", text + at, end - at);
                break;
            }
        at = end + 1;
        if (end + 1 == len) fault(line, arch, "a side is missing in", text, len);
    }
}

/* ---- words of a record -------------------------------------------------------------------- */

static void check_tensor(const gg_design *d, unsigned line, const char *arch, const char *word,
                         size_t len)
{
    size_t n = 0;
    while (n < len && !strchr("?^|&=", word[n])) n++;
    size_t mark = n < len && word[n] != '=' ? n + 1 : n;
    const char *shape = listed_shape(word, n);
    if (mark < len && word[mark] != '=') fault(line, arch, "more than one mark in", word, len);
    if (!shape) fault(line, arch, "no shape lists the tensor", word, n);
    if (mark < len) {
        if (!gg_text_is(word + mark + 1, len - mark - 1, "any"))
            check_formula(d, line, arch, word + mark + 1, len - mark - 1, ',');
    } else if (shape && strcmp(shape, "own") == 0 && !strchr("?^|&", n < len ? word[n] : ' ')) {
        fault(line, arch, "the record must state the shape of", word, n);
    }
}

static void check_tensors(const gg_design *d, const gg_arch *a, const gg_arch_words *w, bool block)
{
    const char *at = w->text, *word;
    size_t len;
    while (gg_text_next_word(&at, &word, &len)) {
        unsigned line = line_of(w->line, w->text, word);
        if (word[len - 1] == ':') {
            if (!gg_design_kind_known(word, len - 1))
                fault(line, a->name, "unknown condition", word, len);
        } else if (block && len >= 3 && memcmp(word, "qkv", 3) == 0) {
            bool letter = len == 5 && word[3] == '_' && strchr("erv", word[4]);
            if (len > 4 && word[3] == '=') check_formula(d, line, a->name, word + 4, len - 4, ':');
            else if (len != 3 && !letter) fault(line, a->name, "unknown word", word, len);
        } else if (block && is_one_of("gate_up_exps gate_up_exps&", word, len)) {
            continue;
        } else {
            check_tensor(d, line, a->name, word, len);
        }
    }
}

/* Keys exist, and those that all architectures read are not listed. */
static void check_keys(const gg_arch *a)
{
    const char *at = a->keys.text, *word;
    size_t len;
    while (gg_text_next_word(&at, &word, &len)) {
        const gg_arch_key_type *t = type_of_key(word, len);
        unsigned line = line_of(a->keys.line, a->keys.text, word);
        if (!t) fault(line, a->name, "no type lists the key", word, len);
    }
    for (at = a->reads.text; gg_text_next_word(&at, &word, &len);) {
        size_t n = 0;
        unsigned line = line_of(a->reads.line, a->reads.text, word);
        while (n < len && word[n] != ':') n++;
        const gg_arch_key_type *t = type_of_key(word, n);
        if (!t) fault(line, a->name, "no type lists the key", word, n);
        else if (t->of_all) fault(line, a->name, "all architectures read the key", word, n);
        if (n < len && !is_one_of("arr[u32] arr[i32] arr_len u32 u32|arr f32 f32|arr bool",
                                  word + n + 1, len - n - 1))
            fault(line, a->name, "unknown type in", word, len);
    }
}

/* All words of a field are among these; "N" stands for a number. */
static void check_words(const gg_arch *a, const gg_arch_words *w, const char *allowed)
{
    const char *at = w->text, *word;
    size_t len;
    while (gg_text_next_word(&at, &word, &len)) {
        bool number = strspn(word, "0123456789") >= len && is_one_of(allowed, "N", 1);
        if (!number && !is_one_of(allowed, word, len))
            fault(line_of(w->line, w->text, word), a->name, "unknown word", word, len);
    }
}

static void check_arrays(const gg_arch *a)
{
    const char *at = a->arrays.text, *word;
    size_t len;
    while (gg_text_next_word(&at, &word, &len)) {
        const gg_arch_key_type *t = type_of_key(word, len);
        if (!t || strcmp(t->type, "u32|arr") != 0)
            fault(line_of(a->arrays.line, a->arrays.text, word), a->name,
                  "the key is never an array", word, len);
    }
}

static void check_traits(const gg_arch *a)
{
    const char *at = a->traits.text, *word;
    size_t len;
    while (gg_text_next_word(&at, &word, &len))
        if (!is_trait(word, len))
            fault(line_of(a->traits.line, a->traits.text, word), a->name, "unknown trait", word,
                  len);
}

static void check_mixture(const gg_arch *a)
{
    const char *at = a->mixture.text, *word;
    size_t len;
    if (!gg_text_next_word(&at, &word, &len)) return;
    if (!gg_arch_is_text(gg_arch_find(word, len)))
        fault(a->mixture.line, a->name, "there is no record of", word, len);
    gg_arch_words flags = { at, a->mixture.line };
    check_words(a, &flags, "shared partial");
}

static void require(const gg_arch *a, const gg_arch_words *w, const char *field, bool needed)
{
    if (needed && w->line == 0)
        fault(a->line, a->name, "the record is incomplete; it lacks", field, strlen(field));
}

/* ---- a record ----------------------------------------------------------------------------- */

static void check_record(const gg_arch *a)
{
    gg_error err = GG_ERROR_INIT;
    gg_meta meta = { 0 };
    gg_design d;
    bool draft = strcmp(a->kind.text, "draft") == 0;
    check_words(a, &a->kind, "draft projector control imatrix image speech");
    if (gg_arch_has(a, "no_code")) return;
    if (a->kind.line && !draft) return;
    make_keys(a, &meta);
    T_EQ(gg_design_open(&d, &meta, &err), GG_OK);
    require(a, &a->keys, "keys", true);
    require(a, &a->globals, "globals", true);
    require(a, &a->block, "block", true);
    require(a, &a->cache, "cache", true);
    require(a, &a->experts, "experts", strstr(a->block.text, "ffn_gate_inp") != NULL);
    require(a, &a->recurrent, "recurrent", strstr(a->block.text, "recurrent:") != NULL);
    require(a, &a->window, "window", strstr(a->block.text, "swa:") != NULL);
    check_keys(a);
    check_tensors(&d, a, &a->globals, false);
    check_tensors(&d, a, &a->block, true);
    check_words(a, &a->experts, "leading step second");
    check_words(a, &a->weights, "sum plain key");
    check_words(a, &a->window, "N first keyed order of64 fixed always");
    check_words(a, &a->recurrent, "all beside no_kv_heads no_ff interval N");
    check_words(a, &a->state, "heads");
    check_words(a, &a->cache, "none kv unknown indexer values shared first_20");
    check_mixture(a);
    check_arrays(a);
    check_traits(a);
    gg_design_close(&d);
    gg_meta_free(&meta);
}

static void test_records(void)
{
    size_t n = 0, text = 0;
    faults = 0;
    for (const gg_arch *a = gg_arch_all(); a->name; a++, n++) {
        check_record(a);
        text += gg_arch_is_text(a);
        T_CHECK(gg_arch_find(a->name, strlen(a->name)) == a);
    }
    T_EQ(faults, (size_t)0);
    T_CHECKF(n > 170 && text >= 150, "%zu records, %zu of language models", n, text);
}

/* Each key must have a type, and one meaning where it is absent. */
static void check_agreements(void)
{
    static const char unread[] = "tensor_data_layout"; /* by engines */
    for (const gg_arch_agreement *a = gg_arch_agreements; a->what; a++) {
        const char *at = a->keys, *word;
        size_t len;
        bool absent = strncmp(a->what, "absent=", 7) == 0;
        if (!is_one_of("never blocks rows", a->what, strlen(a->what)) && !absent)
            fault(a->line, "agree", "unknown meaning", a->what, strlen(a->what));
        if (absent && !is_one_of("head none any unscaled", a->what + 7, strlen(a->what + 7)) &&
            strspn(a->what + 7, "0123456789") != strlen(a->what + 7))
            fault(a->line, "agree", "unknown value", a->what, strlen(a->what));
        while (gg_text_next_word(&at, &word, &len)) {
            char key[100];
            snprintf(key, sizeof key, "%.*s", (int)len, word);
            if (word[len - 1] != '*' && !type_of_key(word, len) && strcmp(key, unread) != 0)
                fault(line_of(a->line, a->keys, word), "agree", "no type lists the key", word, len);
            if (absent && strcmp(gg_arch_absent(key), a->what + 7) != 0)
                fault(line_of(a->line, a->keys, word), "agree", "a second value of", word, len);
        }
    }
    T_CHECK(gg_arch_agrees("never", "context_length") &&
            !gg_arch_agrees("never", "rope.freq_base"));
    T_CHECK(gg_arch_agrees("rows", "attention.head_count_kv") &&
            !gg_arch_agrees("rows", "attention"));
    T_CHECK(gg_arch_agrees("blocks", "expert_count") && !gg_arch_agrees("blocks", "expert"));
    T_CHECK(!gg_arch_absent("feed_forward_length"));
}

static void test_tables(void)
{
    faults = 0;
    for (const gg_arch_name *n = gg_arch_names; n->name; n++) {
        if (n->key && !type_of_key(n->key, strlen(n->key)))
            fault(n->line, n->name, "no type lists the key", n->key, strlen(n->key));
        if (n->otherwise)
            check_formula(NULL, n->line, n->name, n->otherwise, strlen(n->otherwise), ',');
    }
    for (const gg_arch_shape *s = gg_arch_shapes; s->shape; s++) {
        const char *at = s->names, *word;
        size_t len;
        if (strcmp(s->shape, "own") != 0)
            check_formula(NULL, s->line, "shape", s->shape, strlen(s->shape), ',');
        while (gg_text_next_word(&at, &word, &len))
            if (strcmp(listed_shape(word, len), s->shape) != 0)
                fault(line_of(s->line, s->names, word), "shape", "a second shape of", word, len);
    }
    check_agreements();
    for (const gg_arch_trait *t = gg_arch_traits; t->name; t++) {
        bool used = false;
        for (const gg_arch *a = gg_arch_all(); a->name && !used; a++)
            used = gg_arch_has(a, t->name);
        if (!used) fault(t->line, "trait", "no record has", t->name, strlen(t->name));
    }
    T_EQ(faults, (size_t)0);
}

/* ---- deliberate faults -------------------------------------------------------------------- */

/* Checks the record of an architecture after `old` was replaced in a field. Expects a fault on that
 * line. */
static void spoil(const char *name, size_t field, const char *old, const char *new)
{
    gg_arch a = *gg_arch_find(name, strlen(name));
    gg_arch_words *w = (gg_arch_words *)(void *)((char *)&a + field);
    char text[4000];
    const char *at = strstr(w->text, old);
    T_CHECKF(at, "%s has no %s", name, old);
    if (!at) return;
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - w->text), w->text, new, at + strlen(old));
    unsigned line = line_of(w->line, w->text, at);
    w->text = text;
    faults = 0;
    quiet = true;
    check_record(&a);
    quiet = false;
    T_CHECKF(faults >= 1 && last_line == line,
             "%s for %s in %s: %zu faults, the last in line %u, not %u", new, old, name, faults,
             last_line, line);
}
#define SPOIL(name, field, old, new) spoil(name, offsetof(gg_arch, field), old, new)

static void test_faults(void)
{
    SPOIL("qwen2", block, "ffn_down", "fnn_down");
    SPOIL("qwen2", block, "=embd,embd", "=emmbd,embd");
    SPOIL("qwen2", block, "=embd,embd", "=embd,");
    SPOIL("qwen2", block, "=embd,embd", "=embd,*embd");
    SPOIL("qwen2", block, "=embd,embd", "=embd-2*embd,embd");
    SPOIL("qwen2", block, "qkv_e", "qkv_x");
    SPOIL("qwen2", globals, "output.bias?", "output.bias?!");
    SPOIL("qwen2", keys, "attention.head_count", "attention.heads");
    SPOIL("qwen2moe", reads, "expert_shared_feed_forward_length", "embedding_length");
    SPOIL("glm4", block, "mtp:", "mtb:");
    SPOIL("rwkv7", block, "first:", "fist:");
    SPOIL("gemma2", window, "4096", "4096 last");
    SPOIL("jamba", recurrent, "no_kv_heads", "kv_heads");
    SPOIL("llama", traits, "rope_whole_head", "rope_whole_heads");
    SPOIL("llama", experts, "leading", "trailing");
    SPOIL("qwen2", mixture, "qwen2moe", "qwen2mo");
    SPOIL("deci", arrays, "feed_forward_length", "context_length");
    SPOIL("qwen2", cache, "kv", "vk");
}

static void test_incomplete(void)
{
    gg_arch a = *gg_arch_find("jamba", 5);
    gg_arch_words *const needed[] = { &a.keys,  &a.globals, &a.block,
                                      &a.cache, &a.experts, &a.recurrent };
    quiet = true;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        gg_arch_words kept = *needed[i];
        *needed[i] = (gg_arch_words){ "", 0 };
        faults = 0;
        check_record(&a);
        T_CHECKF(faults >= 1 && last_line == a.line, "field %zu: %zu faults, the last in line %u",
                 i, faults, last_line);
        *needed[i] = kept;
    }
    quiet = false;
}

static const t_case cases[] = {
    { "records", test_records },
    { "tables", test_tables },
    { "faults", test_faults },
    { "incomplete records", test_incomplete },
};

T_MAIN(cases)
