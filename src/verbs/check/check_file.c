/* check_file.c - the list of rules, and the rules that apply to every GGUF file: names,
 * types, alignment, shards, adapters. */
#include "check_core.h"

#include "organ/record.h"
#include "quant/quant.h"

#include <string.h>

static const gg_check_rule rules[] = {
    { "format", GG_CHECK_ERROR, "no program can read a malformed file" },
    { "incomplete", GG_CHECK_ERROR, "engines refuse a file that ends before its data" },
    { "architecture", GG_CHECK_ERROR,
      "general.architecture decides which keys and tensors an engine looks for" },
    { "key-missing", GG_CHECK_ERROR, "engines refuse a model without a required key" },
    { "key-type", GG_CHECK_ERROR, "engines read a key with one type and refuse any other" },
    { "key-value", GG_CHECK_ERROR, "engines refuse values outside of these limits" },
    { "layer-array", GG_CHECK_ERROR,
      "an array of one value per block must have as many values as there are blocks" },
    { "heads", GG_CHECK_ERROR, "query heads are shared evenly among key-value heads" },
    { "rope", GG_CHECK_ERROR, "RoPE rotates pairs of dimensions within a head" },
    { "experts", GG_CHECK_ERROR, "routers, stacks and expert keys must agree on their number" },
    { "tokenizer", GG_CHECK_ERROR, "an engine must know the tokenizer and the lists it needs" },
    { "vocabulary", GG_CHECK_ERROR,
      "tokens, scores, types and the rows of the embedding describe the same tokens" },
    { "vocabulary-duplicate", GG_CHECK_ERROR, "engines refuse a vocabulary with duplicate tokens" },
    { "merges", GG_CHECK_WARNING, "a merge that does not consist of two tokens is never applied" },
    { "special-token", GG_CHECK_WARNING,
      "engines ignore the number of a token that does not exist" },
    { "tensor-missing", GG_CHECK_ERROR, "engines refuse a model that lacks a tensor they need" },
    { "tensor-unexpected", GG_CHECK_ERROR,
      "engines refuse a model with tensors that they do not use" },
    { "tensor-shape", GG_CHECK_ERROR, "engines compute shapes from keys and refuse any other" },
    { "tensor-type", GG_CHECK_ERROR, "not every type can be used by every engine" },
    { "block-missing", GG_CHECK_ERROR, "blocks are numbered from 0 to block_count - 1" },
    { "block-count", GG_CHECK_ERROR, "engines refuse tensors of blocks past block_count" },
    { "block-roles", GG_CHECK_ERROR, "all blocks of a kind have the same tensors" },
    { "file-type", GG_CHECK_NOTE, "general.file_type is shown to users as the model's type" },
    { "alignment", GG_CHECK_ERROR, "data start at multiples of the alignment" },
    { "split", GG_CHECK_ERROR, "split keys make engines look for other files" },
    { "name", GG_CHECK_ERROR, "llama.cpp takes tensor names of at most 63 bytes" },
    { "adapter", GG_CHECK_ERROR, "a LoRA adapter needs pairs of matrices of one rank" },
    { "nan", GG_CHECK_ERROR, "one NaN makes all results that depend on it NaN" },
    { "infinite", GG_CHECK_ERROR, "an infinite value leads to NaN in the results" },
    { "zeros", GG_CHECK_WARNING, "a tensor of zeros contributes nothing" },
    { "constant", GG_CHECK_WARNING, "a matrix of one value contributes next to nothing" },
    { "dead-rows", GG_CHECK_NOTE, "a row of zeros is an output that is always zero" },
    { "hash", GG_CHECK_ERROR, "the model differs from the one that the list describes" },
    { "repeated-block", GG_CHECK_NOTE,
      "two blocks with the same bytes are one block, stored twice" },
};

const gg_check_rule *gg_check_rule_at(size_t i)
{
    return i < sizeof rules / sizeof rules[0] ? &rules[i] : NULL;
}

/* ---- names and types -------------------------------------------------------------------- */

static void names(check *c)
{
    for (size_t i = 0; i < c->in->n; i++) {
        const gg_tensor *t = &c->in->tensors[i];
        if (t->name_len > GG_MAX_NAME)
            gg_check_say(c, GG_CHECK_ERROR, "name", t->name, t->name_len,
                         "its name has %zu bytes; llama.cpp takes at most %d", t->name_len,
                         GG_MAX_NAME);
        else if (t->name_len == 0)
            gg_check_say(c, GG_CHECK_WARNING, "name", "", 0, "tensor %zu has an empty name", i);
        else if (memchr(t->name, 0, t->name_len))
            gg_check_say(c, GG_CHECK_WARNING, "name", t->name, t->name_len,
                         "its name contains a zero byte, where engines cut it off");
    }
}

static bool is_norm(const check *c, size_t i)
{
    return c->anatomy[i].cls == GG_NORM;
}

static void tensor_types(check *c)
{
    for (size_t i = 0; i < c->in->n; i++) {
        const gg_tensor *t = &c->in->tensors[i];
        const gg_dtype_info *info = gg_dtype_get(t->dtype);
        if (!info) continue;
        if (info->kind == GG_DTYPE_FORK)
            gg_check_say(c, GG_CHECK_ERROR, "tensor-type", t->name, t->name_len,
                         "only ik_llama.cpp can read its type %s", info->name);
        else if (t->dtype == GG_Q8_1 || t->dtype == GG_Q8_K)
            gg_check_say(c, GG_CHECK_ERROR, "tensor-type", t->name, t->name_len,
                         "engines use %s for intermediate results, and cannot load it", info->name);
        else if (c->text_model && is_norm(c, i) && t->dtype != GG_F32)
            gg_check_say(c, GG_CHECK_WARNING, "tensor-type", t->name, t->name_len,
                         "norms are stored as F32; engines may fail to run one in %s", info->name);
    }
}

/* ---- general keys -------------------------------------------------------------------------- */

/* The tensor type that a file type is named after. */
static uint32_t named_type(uint64_t file_type)
{
    static const struct {
        uint16_t file_type, dtype;
    } mixed[] = { { 11, GG_Q3_K },  { 12, GG_Q3_K },  { 13, GG_Q3_K },  { 14, GG_Q4_K },
                  { 15, GG_Q4_K },  { 16, GG_Q5_K },  { 17, GG_Q5_K },  { 21, GG_Q2_K },
                  { 22, GG_IQ3_S }, { 27, GG_IQ3_S }, { 29, GG_IQ2_S }, { 20, GG_IQ2_XS } };
    for (size_t i = 0; i < sizeof mixed / sizeof mixed[0]; i++)
        if (mixed[i].file_type == file_type) return mixed[i].dtype;
    for (size_t i = 0; gg_dtype_at(i); i++)
        if (gg_dtype_at(i)->file_type >= 0 && (uint64_t)gg_dtype_at(i)->file_type == file_type)
            return gg_dtype_at(i)->id;
    return UINT32_MAX;
}

static void file_type(check *c)
{
    static const char key[] = "general.file_type";
    uint64_t stated;
    if (!gg_kv_u64(gg_check_key(c, key), &stated) || c->in->n == 0) return;
    uint32_t dtype = named_type(stated & ~(uint64_t)1024); /* the bit marks a guess */
    const gg_dtype_info *info = dtype == UINT32_MAX ? NULL : gg_dtype_get(dtype);
    for (size_t i = 0; i < c->in->n && info; i++)
        if (c->in->tensors[i].dtype == dtype) return;
    if (info)
        gg_check_say(c, GG_CHECK_NOTE, "file-type", key, sizeof key - 1,
                     "it is %llu, a mix with %s, but no tensor has that type",
                     (unsigned long long)stated, info->name);
    else
        gg_check_say(c, GG_CHECK_NOTE, "file-type", key, sizeof key - 1,
                     "%llu is not the number of a file type", (unsigned long long)stated);
}

static void alignment(check *c)
{
    static const char key[] = "general.alignment";
    const gg_kv *kv = gg_check_key(c, key);
    uint64_t v;
    if (!kv) return;
    if (kv->type != GG_TYPE_U32 || !gg_kv_u64(kv, &v) || v == 0 || (v & (v - 1)) != 0)
        gg_check_say(c, GG_CHECK_ERROR, "alignment", key, sizeof key - 1,
                     "it must be a u32 and a power of two");
    else if (v % 8)
        gg_check_say(c, GG_CHECK_WARNING, "alignment", key, sizeof key - 1,
                     "it is %llu; the format requires a multiple of 8", (unsigned long long)v);
}

static void split_key(check *c, const char *key, uint32_t type)
{
    const gg_kv *kv = gg_check_key(c, key);
    if (kv && kv->type != type)
        gg_check_say(c, GG_CHECK_ERROR, "split", key, strlen(key),
                     "its type is %s, but engines read it only as %s", gg_type_name(kv->type),
                     gg_type_name(type));
}

static void split(check *c)
{
    uint64_t count = 0, no = 0, total = 0;
    uint32_t files = c->in->files ? c->in->files : 1;
    const gg_kv *n = gg_check_key(c, "split.tensors.count");
    split_key(c, "split.no", GG_TYPE_U16);
    split_key(c, "split.count", GG_TYPE_U16);
    split_key(c, "split.tensors.count", GG_TYPE_I32);
    gg_kv_u64(gg_check_key(c, "split.no"), &no);
    if (!gg_kv_u64(gg_check_key(c, "split.count"), &count)) return;
    if (count > 1 && count != files)
        gg_check_say(c, GG_CHECK_ERROR, "split", "split.count", 11,
                     "it is %llu, but the model has %u file%s", (unsigned long long)count, files,
                     files == 1 ? "" : "s");
    if (count > 1 && no != 0)
        gg_check_say(c, GG_CHECK_ERROR, "split", "split.no", 8,
                     "it is %llu in the first file, where engines require 0",
                     (unsigned long long)no);
    if (count > 1 && n && gg_kv_u64(n, &total) && total != c->in->n)
        gg_check_say(c, GG_CHECK_ERROR, "split", "split.tensors.count", 19,
                     "it is %llu, but the files have %zu tensors", (unsigned long long)total,
                     c->in->n);
}

void gg_check_file_rules(check *c)
{
    names(c);
    tensor_types(c);
    if (!c->in->meta) return;
    alignment(c);
    split(c);
    if (c->text_model) file_type(c);
}

/* ---- adapters -------------------------------------------------------------------------------- */

/* token_embd.weight.lora_a has one row of the rank per token, and lora_b one per column. */
static uint64_t rank_of_a(const gg_tensor *a)
{
    return a->dims[gg_check_word("token_embd.weight.lora_a", a->name, a->name_len) ? 0 : 1];
}

static void pair(check *c, const gg_tensor *a)
{
    char name[GG_RECORD_NAME + 1];
    if (a->name_len > GG_RECORD_NAME) return;
    memcpy(name, a->name, a->name_len);
    bool is_a = name[a->name_len - 1] == 'a';
    name[a->name_len - 1] = is_a ? 'b' : 'a';
    size_t i = gg_check_find(c, name, a->name_len);
    if (i == SIZE_MAX)
        gg_check_say(c, GG_CHECK_ERROR, "adapter", a->name, a->name_len,
                     "its partner .lora_%c is missing", is_a ? 'b' : 'a');
    else if (is_a && rank_of_a(a) != c->in->tensors[i].dims[0])
        gg_check_say(c, GG_CHECK_ERROR, "adapter", a->name, a->name_len,
                     "its rank is %llu, but the rank of its partner is %llu",
                     (unsigned long long)rank_of_a(a),
                     (unsigned long long)c->in->tensors[i].dims[0]);
}

void gg_check_adapter_rules(check *c)
{
    const char *type = "";
    size_t len = 0;
    if (!c->in->meta || !gg_kv_str(gg_check_key(c, "general.type"), &type, &len) ||
        !gg_check_word("adapter", type, len))
        return;
    if (!gg_check_key(c, "adapter.type"))
        gg_check_say(c, GG_CHECK_ERROR, "adapter", "adapter.type", 12,
                     "this key is missing; an engine requires it");
    for (size_t i = 0; i < c->in->n; i++) {
        const gg_tensor *t = &c->in->tensors[i];
        bool lora = t->name_len > 7 && (memcmp(t->name + t->name_len - 7, ".lora_a", 7) == 0 ||
                                        memcmp(t->name + t->name_len - 7, ".lora_b", 7) == 0);
        if (lora) pair(c, t);
    }
}
