/* verb_info.c - what a model is, from its header. */
#include "check_context.h"
#include "info_cache.h"

#include "base/text.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "write/chat_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gg_text text_of(const gg_kv *kv)
{
    gg_text t = { NULL, 0 };
    if (kv && !gg_kv_str(kv, &t.at, &t.len)) t = (gg_text){ NULL, 0 };
    return t;
}

static gg_text text_key(const gg_meta *meta, const char *key)
{
    return text_of(meta ? gg_meta_find(meta, key) : NULL);
}

/* ---- tensors ------------------------------------------------------------------- */

static void count_type(gg_info *info, const gg_tensor *t)
{
    size_t i = 0;
    while (i < info->n_types && info->types[i].dtype != t->dtype) i++;
    if (i == GG_INFO_TYPES) return;
    if (i == info->n_types) info->types[info->n_types++] = (gg_info_type){ .dtype = t->dtype };
    info->types[i].tensors++;
    info->types[i].elements += t->elements;
    info->types[i].bytes += t->bytes;
}

static int by_bytes(const void *a, const void *b)
{
    const gg_info_type *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return (x->dtype > y->dtype) - (x->dtype < y->dtype);
}

static gg_status count_tensors(gg_source *s, gg_info *info, gg_error *err)
{
    bool more = true;
    for (size_t i = 0;; i++) {
        gg_status st = gg_source_next(s, i, &more, err);
        if (st != GG_OK) return st;
        if (!more) break;
        const gg_tensor *t = gg_source_tensor(s, i);
        uint64_t experts, used = t->elements;
        if (info->experts && info->experts_used && info->experts_used < info->experts) {
            bool part = gg_is_expert_stack(t, &experts) || gg_source_tensor(s, i)->a.expert >= 0;
            if (part)
                used = (uint64_t)((double)used * (double)info->experts_used /
                                  (double)info->experts);
        }
        info->tensors++;
        info->elements += t->elements;
        info->bytes += t->bytes;
        info->active += used;
        count_type(info, t);
    }
    qsort(info->types, info->n_types, sizeof info->types[0], by_bytes);
    return GG_OK;
}

/* ---- keys ---------------------------------------------------------------------- */

/* The largest value of a key over the blocks; 0 if it is absent. */
static uint64_t largest_of(const gg_design *d, const char *name)
{
    const gg_kv *kv = gg_design_arch_key(d, name);
    uint64_t v, most = 0, n = kv && kv->type == GG_TYPE_ARR ? kv->count : 1;
    for (uint64_t i = 0; kv && i < n && i < GG_INFO_BLOCKS; i++)
        if (gg_design_number(d, name, i, &v) && v > most) most = v;
    return most;
}

static void read_numbers(gg_info *info, const gg_design *d)
{
    const struct {
        const char *name;
        uint64_t *to;
    } numbers[] = { { "block_count", &info->blocks },
                    { "nextn_predict_layers", &info->mtp_blocks },
                    { "context_length", &info->context },
                    { "embedding_length", &info->embedding },
                    { "feed_forward_length", &info->feed_forward },
                    { "attention.head_count", &info->heads },
                    { "attention.head_count_kv", &info->heads_kv },
                    { "expert_count", &info->experts },
                    { "expert_used_count", &info->experts_used } };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        *numbers[i].to = largest_of(d, numbers[i].name);
    info->vocabulary = gg_design_vocabulary(d);
    if (!info->heads_kv) info->heads_kv = info->heads;
}

static void read_template(gg_info *info, const gg_meta *meta)
{
    gg_template_tokens found;
    if (!text_key(meta, "tokenizer.chat_template").at) return;
    info->template_state = GG_TEMPLATE_SOUND;
    if (!gg_template_tokens_find(meta, &found) || found.unknown == 0) return;
    info->template_state = GG_TEMPLATE_UNKNOWN_TOKENS;
    snprintf(info->template_unknown, sizeof info->template_unknown, "%.199s", found.unknown_list);
}

static bool is_origin_key(const gg_kv *kv)
{
    static const char *const whole[] = { "organ.merge.base", "organ.merge.models",
                                         "imatrix.datasets" };
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        if (gg_text_is(kv->key, kv->key_len, whole[i])) return true;
    return kv->key_len > strlen("general.base_model..name") &&
           gg_text_begins(kv->key, kv->key_len, "general.base_model.") &&
           gg_text_ends(kv->key, kv->key_len, ".name");
}

static void add_origin(gg_info *info, gg_text t)
{
    if (info->n_origins < GG_INFO_ORIGINS) info->origins[info->n_origins++] = t;
}

static void read_origins(gg_info *info, const gg_meta *meta)
{
    for (size_t i = 0; i < meta->n; i++) {
        const gg_kv *kv = &meta->kv[i];
        gg_text t;
        uint64_t pos = 0;
        if (!is_origin_key(kv)) continue;
        if (kv->type == GG_TYPE_STR) add_origin(info, text_of(kv));
        else
            while (gg_kv_next_str(kv, &pos, &t.at, &t.len)) add_origin(info, t);
    }
    info->made_by = text_key(meta, "organ.merge.method");
}

static void read_keys(gg_info *info, const gg_meta *meta)
{
    info->name = text_key(meta, "general.name");
    info->architecture = text_key(meta, "general.architecture");
    info->size_label = text_key(meta, "general.size_label");
    info->license = text_key(meta, "general.license");
    info->description = text_key(meta, "general.description");
    info->tokenizer = text_key(meta, "tokenizer.ggml.model");
    info->tokenizer_pre = text_key(meta, "tokenizer.ggml.pre");
    read_template(info, meta);
    read_origins(info, meta);
}

/* ---- the whole ----------------------------------------------------------------- */

/* What the keys of the architecture tell. */
static gg_status read_architecture(gg_source *s, gg_info *info, gg_error *err)
{
    size_t n = gg_source_seekable(s) ? gg_source_count(s) : 0;
    gg_check_options o = { 0 };
    gg_check_input in = { .meta = gg_source_meta(s),
                          .tensors = n ? gg_source_tensor(s, 0) : NULL,
                          .n = n,
                          .files = info->shards,
                          .remarks = gg_source_remarks(s),
                          .no_vocabulary = gg_source_lacks_vocabulary(s) };
    check c = { .o = &o, .err = err, .in = &in };
    gg_status st = gg_check_open(&c);
    if (st == GG_OK) {
        gg_check_find_architecture(&c);
        if (c.d.name) read_numbers(info, &c.d);
        if (info->kind == GG_KIND_MODEL || info->kind == GG_KIND_DRAFT)
            info->cache = gg_info_cache(&c.d);
    }
    gg_check_close(&c);
    return st;
}

static void count_shards(const gg_source *s, gg_info *info)
{
    gg_source_lack lack = gg_source_lacks(s);
    size_t n = gg_source_files(s);
    info->shards_missing = lack.shards;
    info->shards = lack.shards ? lack.of - lack.shards : n > 1 ? (uint32_t)n : 1;
}

static const char *form_of(const gg_source *s, const gg_info *info)
{
    if (!gg_source_seekable(s)) return "pipe";
    if (gg_source_manifest(s)) return "organ directory";
    if (!gg_source_meta(s)) return "records";
    return info->shards > 1 || info->shards_missing ? "shards" : "file";
}

gg_status gg_info_of(gg_source *s, const gg_run *run, gg_info *info, gg_error *err)
{
    const gg_meta *meta = gg_source_meta(s);
    gg_status st = GG_OK;
    (void)run;
    *info = (gg_info){ .kind = gg_kind_of(s) };
    count_shards(s, info);
    info->form = form_of(s, info);
    if (meta) {
        read_keys(info, meta);
        st = read_architecture(s, info, err);
    }
    if (st == GG_OK) st = count_tensors(s, info, err);
    if (st != GG_OK) return st;
    if (!gg_source_seekable(s)) count_shards(s, info);
    st = gg_check_source(s, &(gg_check_options){ 0 }, &info->check, err);
    info->kind = info->check.kind;
    return st;
}
