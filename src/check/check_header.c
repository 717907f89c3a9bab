/* check_header.c - rules on the header: names and types of tensors, keys that an engine requires,
 * their types, values that contradict each other, the tokenizer's lists, shards, adapters,
 * importance matrices. */
#include "check_context.h"

#include "base/cursor.h"
#include "base/text.h"
#include "base/text_index.h"
#include "base/utf8.h"
#include "organ/gg_verbs.h"
#include "organ/record.h"
#include "organ/tensor_names.h"
#include "write/chat_template.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MISSING_KEY "this key is missing; an engine requires it"

/* ---- every file: names and types -------------------------------------------------------- */

static void check_names(check *c)
{
    for (size_t i = 0; i < c->in->n; i++) {
        const gg_tensor *t = &c->in->tensors[i];
        if (t->name_len == 0)
            say_warning(c, "name", at_name(""), "tensor %zu has an empty name", i);
        else if (memchr(t->name, 0, t->name_len))
            say_warning(c, "name", at_tensor(t),
                        "its name contains a zero byte, where engines cut it off");
    }
}

/* What ggml, and with it llama.cpp, has room for. Other engines load more. */
#define GGML_NAME 63
#define GGML_DIMS 4

/* One finding for all tensors beyond a limit, at the first of them: an error if llama.cpp should
 * run the model, otherwise a note. */
static void check_ggml_limit(check *c, bool dims)
{
    size_t n = 0, first = 0;
    char more[64] = "";
    for (size_t i = c->in->n; i-- > 0;) {
        const gg_tensor *t = &c->in->tensors[i];
        if (dims ? t->n_dims <= GGML_DIMS : t->name_len <= GGML_NAME) continue;
        n++;
        first = i;
    }
    if (n == 0) return;
    const gg_tensor *t = &c->in->tensors[first];
    gg_check_level level = c->text_model ? GG_CHECK_ERROR : GG_CHECK_NOTE;
    if (n > 1) snprintf(more, sizeof more, " (%zu tensors exceed it)", n);
    if (dims)
        gg_check_say(c, level, "dims", at_tensor(t),
                     "it has %u dimensions; llama.cpp takes at most %d%s", t->n_dims, GGML_DIMS,
                     more);
    else
        gg_check_say(c, level, "name", at_tensor(t),
                     "its name has %zu bytes; llama.cpp takes at most %d%s", t->name_len, GGML_NAME,
                     more);
}

static bool name_has(const gg_tensor *t, const char *const *parts)
{
    char name[GG_MAX_NAME + 1];
    snprintf(name, sizeof name, "%.*s", (int)t->name_len, t->name);
    for (; *parts; parts++)
        if (strstr(name, *parts)) return true;
    return false;
}

static bool is_whole_or_double(uint32_t dtype)
{
    return dtype == GG_I8 || dtype == GG_I16 || dtype == GG_I32 || dtype == GG_I64 ||
           dtype == GG_F64;
}

/* What keeps engines from using a tensor of a language model, as a format for its type, or NULL.
 * They multiply by matrices of nearly any type, and by everything else only in F32. */
static const char *unusable_type(const check *c, size_t i, gg_check_level *level)
{
    static const char *const lists[] = { "tid2eid", "_ordering", "d2t", "t2d", NULL },
                             *const spared[] = { "ssm_", "shortconv.", "vis_", NULL },
                             *const unused[] = { "indexer.", NULL };
    const gg_tensor *t = &c->in->tensors[i];
    bool integers = is_whole_or_double(t->dtype);
    const gg_anatomy *a = &t->a;
    const char *role = t->name + a->role_at;
    /* prediction blocks and draft heads are used only on demand, and not all operations fail */
    bool spare = a->block >= (int64_t)c->d.trunk || c->kind == GG_KIND_DRAFT ||
                 (integers && name_has(t, spared)) || name_has(t, unused);
    *level = GG_CHECK_ERROR;
    if (gg_text_is(t->name, t->name_len, "d2t"))
        return t->dtype == GG_I64 ? NULL : "engines read it only as I64, not as %s";
    if (t->dtype == GG_F32 || (integers && name_has(t, lists))) return NULL;
    if (spare) *level = GG_CHECK_WARNING;
    if (integers) return "engines load a tensor in %s, and crash when they use it";
    if (gg_text_is(role, a->role_len, "ffn_gate_inp_shexp")) return NULL; /* a matrix of one row */
    /* Engines go by the name, whatever class a manifest gives it. */
    bool vector = t->elements == t->dims[0] || t->elements == t->dims[1] ||
                  gg_anatomy_of(t->name, t->name_len).cls == GG_NORM ||
                  gg_text_has_word(gg_check_only_f32, role, a->role_len);
    return vector ? "engines load it in %s, and crash when they use it; it must be F32" : NULL;
}

static void check_tensor_types(check *c)
{
    for (size_t i = 0; i < c->in->n; i++) {
        const gg_tensor *t = &c->in->tensors[i];
        const gg_dtype_info *info = gg_dtype_get(t->dtype);
        gg_check_level level = GG_CHECK_ERROR;
        const char *text = NULL;
        if (!info) continue;
        if (info->kind == GG_DTYPE_FORK) text = "only ik_llama.cpp can read its type %s";
        else if (t->dtype == GG_Q8_1 || t->dtype == GG_Q8_K)
            text = "engines use %s for intermediate results, and cannot load it";
        else if (c->text_model) text = unusable_type(c, i, &level);
        if (text) gg_check_say(c, level, "tensor-type", at_tensor(t), text, info->name);
    }
}

/* ---- every file: general keys -------------------------------------------------------------- */

/* The tensor type that a file type is named after. */
static uint32_t named_type(uint64_t file_type)
{
    for (size_t i = 0; gg_dtype_at(i); i++)
        if (gg_dtype_at(i)->file_type >= 0 && (uint64_t)gg_dtype_at(i)->file_type == file_type)
            return gg_dtype_at(i)->id;
    for (size_t i = 0; gg_preset_at(i); i++)
        if (gg_preset_at(i)->file_type == file_type) return gg_preset_at(i)->dtype;
    return UINT32_MAX;
}

static void check_file_type(check *c)
{
    check_place where = at_name("general.file_type");
    uint64_t stated;
    if (!gg_kv_u64(gg_design_key(&c->d, where.name), &stated) || c->in->n == 0) return;
    uint32_t dtype = named_type(stated & ~(uint64_t)1024); /* the bit marks a guess */
    const gg_dtype_info *info = dtype == UINT32_MAX ? NULL : gg_dtype_get(dtype);
    for (size_t i = 0; i < c->in->n && info; i++)
        if (c->in->tensors[i].dtype == dtype) return;
    if (info)
        say_note(c, "file-type", where,
                 "it is %" PRIu64 ", a mix with %s, but no tensor has that type", stated,
                 info->name);
    else say_note(c, "file-type", where, "%" PRIu64 " is not the number of a file type", stated);
}

static void check_alignment(check *c)
{
    const gg_kv *kv = gg_design_key(&c->d, "general.alignment");
    uint64_t v;
    if (!kv) return;
    if (kv->type != GG_TYPE_U32 || !gg_kv_u64(kv, &v) || v == 0 || (v & (v - 1)) != 0)
        say_error(c, "alignment", at_key(kv), "it must be a u32 and a power of two");
    else if (v % 8)
        say_warning(c, "alignment", at_key(kv),
                    "it is %" PRIu64 "; the format requires a multiple of 8", v);
}

static void check_split(check *c)
{
    static const struct {
        const char *key;
        uint32_t type;
    } of[] = { { "split.no", GG_TYPE_U16 },
               { "split.count", GG_TYPE_U16 },
               { "split.tensors.count", GG_TYPE_I32 } };
    uint64_t count = 0, no = 0, total = 0;
    uint32_t files = c->in->files ? c->in->files : 1;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        const gg_kv *kv = gg_design_key(&c->d, of[i].key);
        if (kv && kv->type != of[i].type)
            say_error(c, "split", at_key(kv), "its type is %s, but engines read it only as %s",
                      gg_type_name(kv->type), gg_type_name(of[i].type));
    }
    gg_kv_u64(gg_design_key(&c->d, "split.no"), &no);
    if (!gg_kv_u64(gg_design_key(&c->d, "split.count"), &count)) return;
    if (count > 1 && count != files)
        say_error(c, "split", at_name("split.count"),
                  "it is %" PRIu64 ", but the model has %u file%s", count, files,
                  files == 1 ? "" : "s");
    if (count > 1 && no != 0)
        say_error(c, "split", at_name("split.no"),
                  "it is %" PRIu64 " in the first file, where engines require 0", no);
    const gg_kv *n = gg_design_key(&c->d, "split.tensors.count");
    if (count > 1 && n && gg_kv_u64(n, &total) && total != c->in->n)
        say_error(c, "split", at_key(n), "it is %" PRIu64 ", but the files have %zu tensors", total,
                  c->in->n);
}

/* ---- adapters and importance matrices -------------------------------------------------------- */

/* token_embd.weight.lora_a has one row of the rank per token, and lora_b one per column. */
static uint64_t rank_of_a(const gg_tensor *a)
{
    return a->dims[gg_text_has_word("token_embd.weight.lora_a", a->name, a->name_len) ? 0 : 1];
}

static bool name_ends_with(const gg_tensor *t, const char *end)
{
    return gg_text_ends(t->name, t->name_len, end);
}

/* The tensor whose name is that of t with another ending, or NULL. */
static const gg_tensor *partner_of(const check *c, const gg_tensor *t, const char *end,
                                   const char *other)
{
    char name[GG_RECORD_NAME + 16];
    int stem = (int)(t->name_len - strlen(end));
    int n = snprintf(name, sizeof name, "%.*s%s", stem, t->name, other);
    return (size_t)n < sizeof name ? gg_check_tensor(c, name) : NULL;
}

/* Reports tensors that are not halves of pairs. Returns the other half of tensor i, if it is a
 * first half. */
static const gg_tensor *check_pair(check *c, const char *rule, const char *const ends[2], size_t i)
{
    const gg_tensor *t = &c->in->tensors[i];
    size_t half = name_ends_with(t, ends[0]) ? 0 : 1;
    if (!name_ends_with(t, ends[half])) {
        say_error(c, rule, at_tensor(t), "its name ends neither in %s nor in %s", ends[0], ends[1]);
        return NULL;
    }
    const gg_tensor *other = partner_of(c, t, ends[half], ends[!half]);
    if (!other) say_error(c, rule, at_tensor(t), "its partner %s is missing", ends[!half]);
    return half == 0 ? other : NULL;
}

static void require_tensors(check *c, const char *rule)
{
    if (c->in->n == 0) say_error(c, rule, at_name(""), "it has no tensors");
}

static void check_adapter(check *c)
{
    static const char *const ends[2] = { ".lora_a", ".lora_b" };
    const char *type = "lora";
    size_t len = 4;
    float scale = 1;
    const gg_kv *kind = gg_design_key(&c->d, "adapter.type"),
                *alpha = gg_design_key(&c->d, "adapter.lora.alpha");
    require_tensors(c, "adapter");
    if (!kind) say_error(c, "adapter", at_name("adapter.type"), MISSING_KEY);
    else if (!gg_kv_str(kind, &type, &len) || !gg_text_has_word("lora", type, len))
        say_error(c, "adapter", at_key(kind), "engines know adapters of the type lora only");
    if (!c->d.name) say_error(c, "adapter", at_name("general.architecture"), MISSING_KEY);
    else if (!gg_arch_is_known(c->d.arch))
        say_error(c, "adapter", at_name("general.architecture"),
                  "llama.cpp has no models of this architecture");
    if (!alpha)
        say_warning(c, "adapter", at_name("adapter.lora.alpha"),
                    "this key is missing, so engines do not scale the change by alpha / rank");
    else if (alpha->type != GG_TYPE_F32)
        say_error(c, "adapter", at_key(alpha), "its type is %s, but engines read it only as f32",
                  gg_type_name(alpha->type));
    else if (gg_kv_f32(alpha, &scale) && !isfinite(scale))
        say_error(c, "adapter", at_key(alpha), "it is not a finite number");
    else if (scale == 0)
        say_warning(c, "adapter", at_key(alpha),
                    "it is 0, and engines then do not scale the change at all");
    for (size_t i = 0; i < c->in->n; i++) {
        const gg_tensor *a = &c->in->tensors[i], *b;
        if (name_ends_with(a, "_norm.weight")) continue; /* engines skip it */
        if (is_whole_or_double(a->dtype))
            say_error(c, "tensor-type", at_tensor(a),
                      "engines load a tensor in %s, and crash when they use it",
                      gg_dtype_get(a->dtype)->name);
        b = check_pair(c, "adapter", ends, i);
        if (b && a->elements == 0) say_error(c, "adapter", at_tensor(a), "it has no values");
        if (b && a->dims[2] != b->dims[2])
            say_error(c, "adapter", at_tensor(a),
                      "it has %" PRIu64 " matrices, but its partner has %" PRIu64, a->dims[2],
                      b->dims[2]);
        if (b && rank_of_a(a) != b->dims[0])
            say_error(c, "adapter", at_tensor(a),
                      "its rank is %" PRIu64 ", but the rank of its partner is %" PRIu64,
                      rank_of_a(a), b->dims[0]);
    }
}

/* Each row of sums, of which there is one per expert, has a count. */
static void check_sums(check *c, size_t i, const gg_tensor *counts)
{
    const gg_tensor *t = &c->in->tensors[i];
    uint64_t rows = t->dims[0] ? t->elements / t->dims[0] : 0;
    if (t->dtype != GG_F32 && gg_dtype_get(t->dtype))
        say_error(c, "imatrix", at_tensor(t), "its type is %s, but llama-quantize reads only F32",
                  gg_dtype_get(t->dtype)->name);
    if (counts && counts->elements != rows)
        say_error(c, "imatrix", at_tensor(t),
                  "it has %" PRIu64 " rows of sums, but there are %" PRIu64 " counts", rows,
                  counts->elements);
}

static void check_imatrix(check *c)
{
    static const char *const keys[] = { "imatrix.datasets", "imatrix.chunk_count",
                                        "imatrix.chunk_size" };
    static const char *const ends[2] = { ".in_sum2", ".counts" };
    require_tensors(c, "imatrix");
    for (size_t i = 0; i < 3; i++)
        if (!gg_design_key(&c->d, keys[i]))
            say_error(c, "imatrix", at_name(keys[i]), "llama-quantize requires this key");
    for (size_t i = 0; i < c->in->n; i++)
        if (!name_ends_with(&c->in->tensors[i], ".sample") &&
            !name_ends_with(&c->in->tensors[i], ".weighted_norm"))
            check_sums(c, i, check_pair(c, "imatrix", ends, i));
}

uint64_t gg_check_direction_layer(const gg_tensor *t)
{
    static const char begin[] = "direction.";
    uint64_t layer = 0;
    size_t i = strlen(begin);
    if (!gg_text_begins(t->name, t->name_len, begin) || t->name_len > i + 9) return 0;
    for (; i < t->name_len; i++) {
        if (t->name[i] < '0' || t->name[i] > '9') return 0;
        layer = layer * 10 + (uint64_t)(t->name[i] - '0');
    }
    return layer;
}

/* llama.cpp reads no keys, and gives up at the first tensor that it does not expect. */
static void check_control(check *c)
{
    static const char rule[] = "control-vector";
    const gg_tensor *list = c->in->tensors;
    const gg_dtype_info *type;
    require_tensors(c, rule);
    for (size_t i = 0; i < c->in->n; i++) {
        const gg_tensor *t = &list[i];
        if (gg_check_direction_layer(t) == 0) {
            say_error(c, rule, at_tensor(t), "its name is not direction.N with a layer N from 1");
            continue;
        }
        if (t->dtype != GG_F32 && (type = gg_dtype_get(t->dtype)))
            say_error(c, rule, at_tensor(t), "its type is %s, but engines read only F32",
                      type->name);
        if (t->elements == 0) say_error(c, rule, at_tensor(t), "it has no values");
        else if (t->elements != t->dims[0])
            say_error(c, rule, at_tensor(t), "it is a matrix, but engines read only vectors");
        else if (t->dims[0] != list[0].dims[0])
            say_error(c, rule, at_tensor(t), "it has %" PRIu64 " values, but %.*s has %" PRIu64,
                      t->dims[0], (int)(list[0].name_len < 64 ? list[0].name_len : 64),
                      list[0].name, list[0].dims[0]);
    }
}

void gg_check_file_rules(check *c)
{
    check_names(c);
    check_ggml_limit(c, false);
    check_ggml_limit(c, true);
    check_tensor_types(c);
    if (!c->in->meta) return;
    check_alignment(c);
    check_split(c);
    if (c->text_model) check_file_type(c);
    if (c->kind == GG_KIND_ADAPTER) check_adapter(c);
    if (c->kind == GG_KIND_IMATRIX) check_imatrix(c);
    if (c->kind == GG_KIND_CONTROL) check_control(c);
    if (c->kind == GG_KIND_PROJECTOR) gg_check_projector_rules(c);
}

/* ---- language models: required keys ----------------------------------------------------- */

static void require_keys(check *c, const char *names)
{
    const char *name;
    size_t len;
    while (gg_text_next_word(&names, &name, &len)) {
        char word[100];
        snprintf(word, sizeof word, "%.*s", (int)len, name);
        if (!gg_design_arch_key(&c->d, word))
            say_error(c, "key-missing", gg_check_at_key(c, word), MISSING_KEY);
    }
}

static void check_required_keys(check *c)
{
    require_keys(c, "context_length embedding_length block_count");
    if (c->arch) require_keys(c, c->arch->keys.text);
    bool lite = c->d.trunk == 26 || c->d.trunk == 27 || c->d.trunk == 48;
    if (gg_design_has(&c->d, "needs_q_lora") && !lite) require_keys(c, "attention.q_lora_rank");
}

/* Reports an architecture that is missing or unknown. Returns false if it is missing. */
static bool check_architecture(check *c)
{
    check_place where = at_name("general.architecture");
    if (!c->d.name || c->d.name_len == 0) {
        say_error(c, "architecture", where, "%s: an engine cannot tell what kind of model this is",
                  gg_design_key(&c->d, where.name) ? "this is not a name" : "this key is missing");
        return false;
    }
    if (!gg_arch_is_known(c->d.arch))
        say_error(c, "architecture", where, "llama.cpp v0.5.0 does not know architecture '%.*s'",
                  (int)(c->d.name_len < 64 ? c->d.name_len : 64), c->d.name);
    if (!c->arch)
        gg_check_unchecked(c, "no table for %.*s: only generic rules were applied",
                           (int)(c->d.name_len < 64 ? c->d.name_len : 64), c->d.name);
    return true;
}

/* ---- language models: types of keys ------------------------------------------------------ */

/* Part of the name of a type in a table, such as "u32" of "u32|arr". */
static uint32_t type_in_table(const char *text)
{
    static const uint32_t types[] = { GG_TYPE_U32, GG_TYPE_I32, GG_TYPE_F32, GG_TYPE_BOOL,
                                      GG_TYPE_STR };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strncmp(text, gg_type_name(types[i]), strlen(gg_type_name(types[i]))) == 0)
            return types[i];
    return GG_TYPE_ARR;
}

/* Engines read flags and signed numbers as u32 if they are in an array. */
static bool is_array_of(const gg_kv *kv, uint32_t type)
{
    if (kv->type != GG_TYPE_ARR) return false;
    if (type != GG_TYPE_U32 && type != GG_TYPE_I32) return kv->elem_type == type;
    return kv->elem_type == GG_TYPE_U32 || kv->elem_type == GG_TYPE_I32 ||
           kv->elem_type == GG_TYPE_BOOL;
}

static bool has_negative(const gg_kv *kv)
{
    gg_kv one;
    for (uint64_t i = 0; gg_kv_element(kv, i, &one); i++)
        if ((int32_t)gg_le32(one.data) < 0) return true;
    return false;
}

/* Engines abort on sections of RoPE that name no dimension, or more than a head has. Where the key
 * is optional, they use it only if the first two are above 0. */
static void check_sections(check *c, const gg_kv *kv, const char *name)
{
    int64_t part[4], sum = 0;
    uint64_t head = 0;
    bool needed = c->arch && gg_text_has_word(c->arch->keys.text, name, strlen(name));
    for (uint64_t i = 0; i < 4; i++) {
        gg_kv one;
        part[i] = gg_kv_element(kv, i, &one) ? (int32_t)gg_le32(one.data) : 0;
        sum += part[i];
    }
    if (!needed && (part[0] <= 0 || part[1] <= 0)) return;
    gg_design_formula(&c->d, "key", 3, 0, &head);
    if ((part[0] <= 0 && part[1] <= 0 && part[2] <= 0) || sum <= 0)
        say_error(c, "rope", at_key(kv), "engines need a section above 0 among the first three");
    else if (head > 0 && (uint64_t)sum > head)
        say_error(c, "rope", at_key(kv),
                  "its sections have %" PRId64 " dimensions, but a head has %" PRIu64, sum, head);
}

/* Checks a key that is a number, or an array with exactly one number per block (or four numbers:
 * the sections of RoPE). */
static void check_number_or_array(check *c, const gg_kv *kv, const char *name, uint32_t type)
{
    static const char trunk_only[] = "attention.indexer.types /xielu.alpha_n /xielu.alpha_p "
                                     "/xielu.beta /xielu.eps";
    uint64_t n = gg_text_has_word(trunk_only, name, strlen(name)) ? c->d.trunk : c->d.blocks;
    bool sections = type == GG_TYPE_I32;
    if (kv->type != type && !is_array_of(kv, type))
        say_error(c, "key-type", at_key(kv),
                  "its type is %s, but an engine reads it only as %s, or as an array of them",
                  gg_type_name(kv->type == GG_TYPE_ARR ? kv->elem_type : kv->type),
                  gg_type_name(type));
    else if (kv->type == GG_TYPE_ARR && sections && kv->count != 4)
        say_error(c, "layer-array", at_key(kv), "it has %" PRIu64 " values; engines read 4",
                  kv->count);
    else if (kv->type == GG_TYPE_ARR && sections && kv->elem_type != GG_TYPE_BOOL)
        check_sections(c, kv, name);
    else if (kv->type == GG_TYPE_ARR && kv->elem_type == GG_TYPE_I32 && has_negative(kv) &&
             gg_text_has_word("attention.head_count attention.head_count_kv feed_forward_length",
                              name, strlen(name)))
        say_error(c, "key-value", at_key(kv), "a value is below 0");
    else if (kv->type == GG_TYPE_ARR && !sections && n > 0 && kv->count != n)
        say_error(c, "layer-array", at_key(kv),
                  "it has %" PRIu64 " values, but the model has %" PRIu64 " blocks", kv->count, n);
}

/* Checks a key that is an array, of which engines may also read one number or nothing. */
static void check_array(check *c, const gg_kv *kv, const char *name, const char *type)
{
    bool pattern = gg_text_has_word("attention.sliding_window_pattern", name, strlen(name));
    bool needed = c->arch && gg_text_has_word(c->arch->keys.text, name, strlen(name));
    uint32_t item = type[3] == '[' ? type_in_table(type + 4) : GG_TYPE_ARR;
    if (kv->type != GG_TYPE_ARR) {
        if (item == GG_TYPE_ARR || needed || (pattern && kv->type != GG_TYPE_U32))
            say_error(c, "key-type", at_key(kv),
                      "its type is %s, but an engine reads it only as an array",
                      gg_type_name(kv->type));
    } else if (item != GG_TYPE_ARR && !is_array_of(kv, item)) {
        say_error(c, "key-type", at_key(kv), "it is an array of %s; engines expect %s",
                  gg_type_name(kv->elem_type), gg_type_name(item));
    } else if (pattern && c->d.blocks > 0 && kv->count != c->d.blocks && kv->count != c->d.trunk) {
        say_warning(c, "layer-array", at_key(kv),
                    "it has %" PRIu64 " values, but the model has %" PRIu64 " blocks", kv->count,
                    c->d.blocks);
    }
}

static void check_type_of_key(check *c, const char *name, const char *type)
{
    const gg_kv *kv = gg_design_arch_key(&c->d, name);
    if (!kv) return;
    if (strstr(type, "|arr")) check_number_or_array(c, kv, name, type_in_table(type));
    else if (strncmp(type, "arr", 3) == 0) check_array(c, kv, name, type);
    else if (kv->type != type_in_table(type))
        say_error(c, "key-type", at_key(kv), "its type is %s, but an engine reads it only as %s",
                  gg_type_name(kv->type), type);
}

/* The type as which the architecture reads a key that not all read, or NULL: it requires it, or its
 * record lists it among those that it reads, where "KEY:TYPE" is a type of its own. */
static const char *type_it_reads(const gg_arch *a, const char *name, const char *usual,
                                 char own[32])
{
    const char *at = a ? a->reads.text : "", *word;
    size_t len, n = strlen(name);
    while (gg_text_next_word(&at, &word, &len)) {
        if (len == n && memcmp(word, name, n) == 0) return usual;
        if (len <= n + 1 || word[n] != ':' || memcmp(word, name, n) != 0) continue;
        snprintf(own, 32, "%.*s", (int)(len - n - 1), word + n + 1);
        return own;
    }
    return a && gg_text_has_word(a->keys.text, name, n) ? usual : NULL;
}

static void check_types_of_keys(check *c)
{
    for (const gg_arch_key_type *t = gg_arch_key_types; t->type; t++) {
        const char *at = t->keys, *word, *type = t->type;
        size_t len;
        while (gg_text_next_word(&at, &word, &len)) {
            char name[100], own[32];
            snprintf(name, sizeof name, "%.*s", (int)len, word);
            if (!t->of_all) type = type_it_reads(c->d.arch, name, t->type, own);
            if (type) check_type_of_key(c, name, type);
        }
    }
}

/* ---- language models: values --------------------------------------------------------------- */

/* An array with values that differ, of which engines use the first for all blocks, or which makes
 * them fail. */
static void check_first_values(check *c)
{
    static const char *const keys[] = { "attention.head_count", "attention.head_count_kv",
                                        "feed_forward_length", "expert_feed_forward_length",
                                        "expert_used_count" };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const gg_kv *kv = gg_design_arch_key(&c->d, keys[i]);
        uint64_t first, v, b = 1;
        if (!kv || kv->type != GG_TYPE_ARR || gg_design_per_block(&c->d, keys[i]) ||
            !gg_kv_u64_at(kv, 0, &first))
            continue;
        while (b < kv->count && gg_kv_u64_at(kv, b, &v) && v == first) b++;
        if (b >= kv->count) continue;
        bool fails = i == 4 ||
                     (i == 1 && strcmp(c->d.arch->cache.text, "none") != 0 &&
                      !gg_design_has(&c->d, "any_kv_heads") && !gg_design_recurrent(&c->d, 0));
        gg_check_say(
            c, fails ? GG_CHECK_ERROR : GG_CHECK_WARNING, "layer-array", at_key(kv),
            "its values differ, but engines use the first for all blocks of this architecture%s",
            fails ? ", and then fail" : "");
    }
}

static void check_heads(check *c)
{
    check_place where = gg_check_at_key(c, "attention.head_count_kv");
    uint64_t blocks = c->d.blocks < GG_DESIGN_BLOCKS ? c->d.blocks : GG_DESIGN_BLOCKS, q, kv;
    if (gg_design_has(&c->d, "wkv_heads")) return; /* a state per head of wkv.head_size */
    for (uint64_t b = 0; b < (blocks ? blocks : 1); b++) {
        if (!gg_design_number(&c->d, "attention.head_count", b, &q) || q == 0) continue;
        if (!gg_design_number(&c->d, "attention.head_count_kv", b, &kv) || kv == 0) continue;
        if (q % kv == 0) continue;
        say_error(c, "heads", where,
                  "%" PRIu64 " key-value heads do not divide %" PRIu64 " heads (block %" PRIu64 ")",
                  kv, q, b);
        break;
    }
    gg_check_limits(c, "heads");
}

/* Whether the model has the factors of long contexts that its keys need. */
static void check_long_context(check *c)
{
    const char *type = "";
    size_t len = 0;
    uint64_t context = gg_design_number_or(&c->d, "context_length", 0),
             original = gg_design_number_or(&c->d, "rope.scaling.original_context_length", 0);
    bool small = gg_check_tensor(c, "rope_factors_short.weight") != NULL,
         large = gg_check_tensor(c, "rope_factors_long.weight") != NULL,
         read = c->arch && strstr(c->arch->globals.text, "rope_factors_long") != NULL;
    if (!read || (small && large)) return;
    gg_kv_str(gg_design_arch_key(&c->d, "rope.scaling.type"), &type, &len);
    bool longrope = gg_text_is(type, len, "longrope"),
         needed = longrope || (gg_design_has(&c->d, "long_factors") && original > 0 &&
                               context > original && !gg_text_has_word("linear yarn", type, len));
    if (!needed && !small && !large) return;
    say_warning(c, "rope", gg_check_at_key(c, "rope.scaling.original_context_length"),
                "the model lacks %s, so that engines rotate positions beyond the original context "
                "as those before; use "
                "at most %" PRIu64 " tokens of context",
                small   ? "rope_factors_long.weight"
                : large ? "rope_factors_short.weight"
                        : "rope_factors_long.weight and rope_factors_short.weight",
                original ? original : context);
}

static void check_rope(check *c)
{
    const char *type;
    size_t len;
    if (gg_kv_str(gg_design_arch_key(&c->d, "rope.scaling.type"), &type, &len) &&
        !gg_text_has_word("none linear yarn longrope", type, len))
        say_error(
            c, "rope", gg_check_at_key(c, "rope.scaling.type"),
            "no engine supports this kind of scaling; expected none, linear, yarn or longrope");
    check_long_context(c);
    gg_check_limits(c, "rope");
}

/* Numbers with which engines load a model and compute nothing of use. */
static void check_numbers(check *c)
{
    const struct {
        const char *keys, *must; /* NULL = any finite number */
    } lists[] = { { gg_check_above_0, "above 0" },
                  { gg_check_from_0, "0 or above" },
                  { gg_check_finite, NULL } };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const char *at = lists[i].keys, *word;
        size_t len;
        while (gg_text_next_word(&at, &word, &len)) {
            char name[100];
            float x;
            snprintf(name, sizeof name, "%.*s", (int)len, word);
            const gg_kv *kv = gg_design_arch_key(&c->d, name);
            if (!gg_kv_f32(kv, &x)) continue;
            if (!isfinite(x)) say_warning(c, "key-value", at_key(kv), "it is not a finite number");
            else if (lists[i].must && (x < 0 || (x == 0 && lists[i].keys == gg_check_above_0)))
                say_warning(c, "key-value", at_key(kv), "it is %g, and must be %s", (double)x,
                            lists[i].must);
        }
    }
}

void gg_check_key_rules(check *c)
{
    if (!check_architecture(c)) return;
    check_required_keys(c);
    check_types_of_keys(c);
    gg_check_limits(c, "values");
    check_numbers(c);
    check_first_values(c);
    check_heads(c);
    check_rope(c);
    gg_check_limits(c, "experts");
    gg_check_limits(c, "crashes");
}

/* ---- the vocabulary: lists --------------------------------------------------------------- */

/* The tokens, and an index of their texts. */
typedef struct token_list {
    struct token {
        const char *bytes;
        size_t len;
    } * list;
    size_t n;
    gg_text_index index;
} token_list;

static const char *token_at(const void *tokens, size_t i, size_t *len)
{
    const struct token *t = &((const token_list *)tokens)->list[i];
    *len = t->len;
    return t->bytes;
}

/* Engines refuse duplicate tokens. Empty tokens are ignored, because engines rename them. */
static void check_duplicate_tokens(check *c, const gg_kv *tokens, token_list *l)
{
    size_t twice = 0, first = 0, was;
    for (size_t i = 0; i < l->n && gg_text_add(&l->index, l, i, &was, c->err) == GG_OK; i++) {
        const struct token *t = &l->list[i], *f = &l->list[first];
        if (was == SIZE_MAX || t->len == 0) continue;
        if (twice++ == 0 || gg_text_order(t->bytes, t->len, f->bytes, f->len) < 0) first = i;
    }
    if (twice == 0) return;
    char shown[200];
    const struct token *t = &l->list[first];
    gg_escape(t->bytes, t->len < 40 ? t->len : 40, shown, sizeof shown);
    say_error(c, "vocabulary-duplicate", at_key(tokens),
              "%zu token%s in it more than once, for example '%s'", twice,
              twice == 1 ? " is" : "s are", shown);
}

/* Merges name pairs of tokens that become one: "a b" makes "ab". */
static void check_merges(check *c, const gg_kv *kv, const token_list *l)
{
    uint64_t pos = 0, broken = 0, unknown = 0;
    const char *s;
    size_t len;
    if (kv->type != GG_TYPE_ARR || kv->elem_type != GG_TYPE_STR) {
        say_error(c, "vocabulary", at_key(kv), "it must be an array of strings");
        return;
    }
    while (gg_kv_next_str(kv, &pos, &s, &len)) {
        const char *space = len > 1 ? memchr(s + 1, ' ', len - 1) : NULL;
        char joined[512];
        if (!space) {
            broken++;
            continue;
        }
        size_t left = (size_t)(space - s), right = len - left - 1;
        if (left + right > sizeof joined) continue;
        memcpy(joined, s, left);
        memcpy(joined + left, space + 1, right);
        if (gg_text_find(&l->index, l, joined, left + right) == SIZE_MAX) unknown++;
    }
    if (broken)
        say_warning(c, "merges", at_key(kv),
                    "%" PRIu64 " of %" PRIu64
                    " merges are not two tokens with a space between them",
                    broken, kv->count);
    if (unknown)
        gg_check_say(c, unknown * 2 > kv->count ? GG_CHECK_WARNING : GG_CHECK_NOTE, "merges",
                     at_key(kv),
                     "%" PRIu64 " of %" PRIu64 " merges produce a token that the vocabulary lacks",
                     unknown, kv->count);
}

static void check_list_of_tokens(check *c, const gg_kv *tokens)
{
    token_list l = { .index = { .at = token_at, .expect = (size_t)tokens->count } };
    const gg_kv *pairs = gg_design_key(&c->d, "tokenizer.ggml.merges");
    uint64_t pos = 0;
    l.list = calloc((size_t)tokens->count + 1, sizeof *l.list);
    if (!l.list) gg_fail(c->err, GG_ENOMEM, "no memory for a list of tokens");
    while (l.list && l.n < tokens->count &&
           gg_kv_next_str(tokens, &pos, &l.list[l.n].bytes, &l.list[l.n].len))
        l.n++;
    check_duplicate_tokens(c, tokens, &l);
    if (c->err->status != GG_OK) c->status = c->err->status;
    else if (pairs) check_merges(c, pairs, &l);
    gg_text_index_free(&l.index);
    free(l.list);
}

static void check_list_length(check *c, const char *key, uint64_t tokens, bool integers)
{
    const gg_kv *kv = gg_design_key(&c->d, key);
    if (!kv) return;
    bool typed = kv->type == GG_TYPE_ARR &&
                 (kv->elem_type == GG_TYPE_I32 || (!integers && kv->elem_type == GG_TYPE_F32));
    if (!typed)
        say_error(c, "vocabulary", at_key(kv), "engines read it only as an array of %s",
                  integers ? "i32" : "f32 or i32");
    else if (kv->count != tokens)
        gg_check_say(c, kv->count < tokens ? GG_CHECK_ERROR : GG_CHECK_WARNING, "vocabulary",
                     at_key(kv), "it has %" PRIu64 " values for %" PRIu64 " tokens", kv->count,
                     tokens);
}

static void check_special_tokens(check *c, uint64_t tokens)
{
    for (size_t i = 0; i < c->in->meta->n; i++) {
        const gg_kv *kv = &c->in->meta->kv[i];
        uint64_t id;
        if (!gg_text_begins(kv->key, kv->key_len, "tokenizer.ggml.") ||
            !gg_text_ends(kv->key, kv->key_len, "_token_id"))
            continue;
        if (!gg_kv_u64(kv, &id) || id < tokens) continue;
        bool none = id == UINT32_MAX; /* this value means "no such token" */
        gg_check_say(c, none ? GG_CHECK_NOTE : GG_CHECK_WARNING, "special-token", at_key(kv),
                     "token %" PRIu64 " does not exist; the vocabulary has %" PRIu64, id, tokens);
    }
}

/* ---- the vocabulary: the kind of tokenizer -------------------------------------------------- */

static void check_tokenizer(check *c, const char *model, size_t len)
{
    check_place pre = at_name("tokenizer.ggml.pre");
    const char *name = "";
    size_t n = 0;
    if (!gg_text_has_word(gg_check_tokenizers, model, len)) {
        say_error(c, "tokenizer", at_name("tokenizer.ggml.model"),
                  "llama.cpp v0.5.0 does not know this tokenizer");
        return;
    }
    if (!gg_text_has_word(gg_check_merging, model, len)) return;
    gg_kv_str(gg_design_key(&c->d, pre.name), &name, &n);
    if (!gg_design_key(&c->d, "tokenizer.ggml.merges") &&
        !gg_text_has_word(gg_check_no_merges, name, n))
        say_error(c, "tokenizer", at_name("tokenizer.ggml.merges"),
                  "this key is missing; the tokenizer needs it");
    if (!gg_text_has_word(gg_check_bpe, model, len)) return;
    if (n == 0)
        say_warning(c, "tokenizer", pre,
                    "without a pre-tokenizer engines split text by a default, which degrades the "
                    "output");
    else if (!gg_text_has_word(gg_check_pre_tokenizers, name, n))
        say_error(c, "tokenizer", pre, "llama.cpp v0.5.0 does not know this pre-tokenizer");
}

/* Checks the rows of the embedding and the output. For architectures with a table, the rule for
 * shapes does this. */
static void check_embedding_rows(check *c, uint64_t tokens)
{
    static const char *const names[] = { "token_embd.weight", "output.weight" };
    for (int k = 0; k < 2 && !c->arch; k++) {
        size_t i = gg_check_find(c, names[k], strlen(names[k]));
        if (i == SIZE_MAX || c->in->tensors[i].dims[1] == tokens) continue;
        say_error(c, "vocabulary", at_name(names[k]),
                  "its number of rows differs from the number of tokens in the vocabulary");
    }
}

/* ---- the vocabulary: the chat template --------------------------------------------------- */

/* The number of the first token that is one of `words` and, if `text` is not NULL, is in the text.
 * Returns UINT64_MAX if there is none. */
static uint64_t find_token(const gg_kv *tokens, const char *words, const char *text, size_t len,
                           char name[64])
{
    uint64_t pos = 0;
    const char *s, *list = words;
    size_t n;
    bool starts[256] = { false }; /* bytes that a word begins with: few tokens do */
    while (gg_text_next_word(&list, &s, &n)) starts[(uint8_t)*s] = true;
    for (uint64_t id = 0; gg_kv_next_str(tokens, &pos, &s, &n); id++) {
        if (n == 0 || n >= 64 || !starts[(uint8_t)*s] || !gg_text_has_word(words, s, n)) continue;
        bool used = !text;
        for (size_t i = 0; !used && i + n <= len; i++) used = memcmp(text + i, s, n) == 0;
        if (!used) continue;
        snprintf(name, 64, "%.*s", (int)n, s);
        return id;
    }
    return UINT64_MAX;
}

/* Rules of single tokens, and of what the chat template writes: below. */
static void check_token_rules(check *c, const gg_kv *tokens);
static void check_template_tokens(check *c);

static void check_chat_template(check *c, const gg_kv *tokens)
{
    static const char *const keys[] = { "tokenizer.ggml.eos_token_id",
                                        "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id" };
    check_place where = at_name("tokenizer.chat_template");
    const char *text;
    size_t len;
    char name[64];
    uint64_t id, end;
    if (!gg_kv_str(gg_design_key(&c->d, where.name), &text, &len)) {
        if (find_token(tokens, gg_check_chat_starts, NULL, 0, name) != UINT64_MAX)
            say_warning(c, "chat-template", where,
                        "it is missing, although the vocabulary has the chat token %s; engines "
                        "then use a template of another model",
                        name);
        return;
    }
    check_template_tokens(c);
    end = find_token(tokens, gg_check_chat_ends, text, len, name);
    if (end == UINT64_MAX) return;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (gg_kv_u64(gg_design_key(&c->d, keys[i]), &id) && id == end) return;
    say_warning(c, "chat-template", at_name(keys[0]),
                "the template ends a turn with token %" PRIu64 " (%s), but no key for an end of "
                "text has it; an engine may not stop there",
                end, name);
}

void gg_check_vocabulary_rules(check *c)
{
    check_place where = at_name("tokenizer.ggml.tokens");
    const gg_kv *tokens = gg_design_key(&c->d, where.name);
    const char *model = "";
    size_t len = 0;
    if (c->in->no_vocabulary) {
        say_note(c, "vocabulary", where,
                 "the vocabulary of a checkpoint was not read, so it was not checked");
        return;
    }
    if (gg_kv_str(gg_design_key(&c->d, "tokenizer.ggml.model"), &model, &len)) {
        check_tokenizer(c, model, len);
        if (gg_text_has_word("no_vocab none", model, len)) return;
    } else {
        say_error(c, "tokenizer", at_name("tokenizer.ggml.model"), MISSING_KEY);
    }
    if (!tokens || tokens->type != GG_TYPE_ARR || tokens->elem_type != GG_TYPE_STR) {
        say_error(c, "vocabulary", where, "%s",
                  tokens ? "it must be an array of strings" : MISSING_KEY);
        return;
    }
    check_list_length(c, "tokenizer.ggml.scores", tokens->count, false);
    check_list_length(c, "tokenizer.ggml.token_type", tokens->count, true);
    check_special_tokens(c, tokens->count);
    check_token_rules(c, tokens);
    check_chat_template(c, tokens);
    check_embedding_rows(c, tokens->count);
    uint64_t stated = gg_design_number_or(&c->d, "vocab_size", tokens->count);
    if (stated != tokens->count)
        say_note(c, "vocabulary", where, "it has %" PRIu64 " tokens, but vocab_size is %" PRIu64,
                 tokens->count, stated);
    check_list_of_tokens(c, tokens);
}

/* ---- the vocabulary: single tokens ---------------------------------------------------------
 *
 * Those that engines look for by their text, empty ones, and those that the chat template writes.
 *
 * Source: llama.cpp v0.5.0, src/llama-vocab.cpp. */

typedef struct token_facts {
    uint64_t empty, first_empty, mangled, first_mangled;
    bool bytes[256]; /* there is a token of that byte */
    uint32_t named;  /* bit i: the vocabulary has word i of gg_check_named_tokens */
} token_facts;

/* The byte of a token "<0xE3>", or -1. */
static int byte_of(const char *s, size_t len)
{
    if (len == 1) return (uint8_t)s[0];
    if (len != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>') return -1;
    int high = gg_hex_digit(s[3]), low = gg_hex_digit(s[4]);
    bool small = s[3] >= 'a' || s[4] >= 'a'; /* engines write capitals */
    return high < 0 || low < 0 || small ? -1 : high * 16 + low;
}

static void gather(const gg_kv *tokens, token_facts *f)
{
    uint64_t pos = 0;
    const char *s;
    size_t len;
    for (uint64_t id = 0; gg_kv_next_str(tokens, &pos, &s, &len); id++) {
        int byte = byte_of(s, len);
        if (byte >= 0) f->bytes[byte] = true;
        if (len == 0 && f->empty++ == 0) f->first_empty = id;
        /* some older vocabularies of pieces have single bytes */
        if (len > 1 && !gg_utf8_valid(s, len) && f->mangled++ == 0) f->first_mangled = id;
        const char *at = gg_check_named_tokens, *word;
        size_t n;
        for (uint32_t bit = 1; gg_text_next_word(&at, &word, &n); bit <<= 1)
            if (n == len && memcmp(word, s, n) == 0) f->named |= bit;
    }
}

/* Engines spell out what no other token covers with the tokens of single bytes. */
static void check_bytes(check *c, const gg_kv *tokens, const token_facts *f)
{
    size_t missing = 0, used = 0;
    char list[60] = "";
    for (size_t i = 0; i < 256; i++) {
        if (f->bytes[i]) continue;
        if (missing++ < 5)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s<0x%02zX>",
                                     used ? " " : "", i);
    }
    /* a vocabulary that has no room for them is not meant for any text */
    if (missing)
        gg_check_say(c, tokens->count > 256 ? GG_CHECK_ERROR : GG_CHECK_WARNING, "vocabulary",
                     at_key(tokens),
                     "it lacks %zu of the 256 tokens for single bytes, and an engine stops at a "
                     "text that needs "
                     "one: %s%s",
                     missing, list, missing > 5 ? " ..." : "");
}

/* Whether the name contains a word of a list, in large or small letters. */
static bool text_has(const char *name, size_t len, const char *list)
{
    const char *word;
    size_t n;
    while (gg_text_next_word(&list, &word, &n))
        for (size_t i = 0; i + n <= len; i++)
            if (strncasecmp(name + i, word, n) == 0) return true;
    return false;
}

/* Engines set attributes of some tokens because of the model's name. */
static void check_named(check *c, const token_facts *f)
{
    const gg_kv *kv = gg_design_key(&c->d, "general.name");
    const char *name, *at = gg_check_named_tokens, *word;
    size_t len, n, used = 0;
    char list[60] = "";
    if (!gg_kv_str(kv, &name, &len) || !text_has(name, len, gg_check_named)) return;
    for (uint32_t bit = 1; gg_text_next_word(&at, &word, &n); bit <<= 1)
        if (!(f->named & bit))
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%.*s", used ? " " : "",
                                     (int)n, word);
    if (used)
        say_error(c, "vocabulary", at_key(kv),
                  "llama.cpp looks for tokens of %.*s because of this name, and stops, as the "
                  "vocabulary lacks %s; give the model another name",
                  (int)strcspn(gg_check_named, " "), gg_check_named, list);
}

/* Engines know the types 0 to 6, and treat others as if there were none. */
static void check_types(check *c)
{
    const gg_kv *types = gg_design_key(&c->d, "tokenizer.ggml.token_type");
    uint64_t n = 0, first = 0, v;
    if (!types || types->type != GG_TYPE_ARR) return;
    for (uint64_t i = 0; i < types->count; i++)
        if (!gg_kv_u64_at(types, i, &v) || v > 6) first = n++ ? first : i;
    if (n)
        say_warning(c, "vocabulary", at_key(types),
                    "%" PRIu64 " token%s a type that no engine knows, the first of them token "
                    "%" PRIu64,
                    n, n == 1 ? " has" : "s have", first);
}

static void check_token_rules(check *c, const gg_kv *tokens)
{
    token_facts f = { 0 };
    const char *model = "";
    size_t len = 0;
    gather(tokens, &f);
    gg_kv_str(gg_design_key(&c->d, "tokenizer.ggml.model"), &model, &len);
    if (f.empty)
        say_warning(c, "vocabulary", at_key(tokens),
                    "%" PRIu64 " token%s empty, the first of them token %" PRIu64
                    ": its text was lost",
                    f.empty, f.empty == 1 ? " is" : "s are", f.first_empty);
    if (f.mangled)
        say_warning(c, "vocabulary", at_key(tokens),
                    "%" PRIu64 " token%s not valid UTF-8, the first of them token %" PRIu64
                    ": no text can have it",
                    f.mangled, f.mangled == 1 ? " is" : "s are", f.first_mangled);
    if (gg_text_is(model, len, "llama")) check_bytes(c, tokens, &f);
    check_named(c, &f);
    check_types(c);
}

static void check_template_tokens(check *c)
{
    check_place where = at_name("tokenizer.chat_template");
    gg_template_tokens found;
    if (!gg_template_tokens_find(c->in->meta, &found)) return;
    if (found.unknown)
        say_warning(c, "chat-template", where,
                    "it writes %zu special token%s that the vocabulary lacks, and that become "
                    "plain text: %s",
                    found.unknown, found.unknown == 1 ? "" : "s", found.unknown_list);
    if (found.split)
        say_warning(c, "chat-template", where,
                    "it writes %zu token%s of a type that engines split into pieces; "
                    "tokenizer.ggml.token_type must "
                    "be 3 (control) or 4 (user-defined): %s",
                    found.split, found.split == 1 ? "" : "s", found.split_list);
}
