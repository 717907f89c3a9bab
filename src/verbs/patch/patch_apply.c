/* patch_apply.c - applies a patch to its base and writes the resulting file. */
#include "patch_format.h"

#include "base/cursor.h"
#include "base/io.h"
#include "gguf/gguf.h"
#include "organ/output_guard.h"
#include "organ/source_layout.h"
#include "verbs/plan/plan.h"
#include "verbs/shared/verb_run.h"

#include <stdlib.h>
#include <string.h>

typedef struct application {
    gg_source *base, *patch;
    const char *base_sha, *result_sha; /* 64 digits each, not NUL-terminated */
    patch_lists tensors, keys;
    patch_pick *tensor_picks, *key_picks;
    size_t n_tensors, n_keys;
    const gg_kv *pads[3]; /* after, sizes, bytes: either all or none are present */
    gg_pad *pad_list;     /* the sources own the names, the patch owns the bytes */
    size_t trailing;      /* index of a tensor of the patch, or SIZE_MAX */
} application;

/* ---- the patch's own keys ------------------------------------------------------------ */

static gg_status bad_key(const char *key, const char *want, gg_error *err)
{
    gg_fail(err, GG_EFORMAT, "its key %s must be %s", key, want);
    return gg_fix(err, "make the patch again: it is damaged");
}

static gg_status get_sha(const gg_meta *meta, const char *key, const char **out, gg_error *err)
{
    size_t n;
    bool ok = gg_kv_str(gg_meta_find(meta, key), out, &n) && n == 64;
    for (size_t i = 0; ok && i < 64; i++)
        ok = ((*out)[i] >= '0' && (*out)[i] <= '9') || ((*out)[i] >= 'a' && (*out)[i] <= 'f');
    return ok ? GG_OK : bad_key(key, "a sha256", err);
}

static gg_status get_array(const gg_meta *meta, const char *key, uint32_t type, const gg_kv **out,
                           gg_error *err)
{
    const gg_kv *kv = gg_meta_find(meta, key);
    *out = kv;
    if (!kv || (kv->type == GG_TYPE_ARR && kv->elem_type == type)) return GG_OK;
    return bad_key(key, "an array of the right type", err);
}

static gg_status get_names(const gg_meta *meta, const char *key, patch_names *out, bool *found,
                           gg_error *err)
{
    const gg_kv *kv;
    gg_status st = get_array(meta, key, GG_TYPE_STR, &kv, err);
    if (found) *found = kv != NULL;
    return st == GG_OK ? gg_patch_names_of_array(kv, out, err) : st;
}

/* An unknown key is refused, because the result may depend on it. */
static gg_status refuse_unknown(const gg_meta *meta, gg_error *err)
{
    static const char *const known[] = { PATCH_VERSION,        PATCH_BASE,
                                         PATCH_RESULT,         PATCH_DELETE_KEYS,
                                         PATCH_DELETE_TENSORS, PATCH_ORDER_KEYS,
                                         PATCH_ORDER_TENSORS,  PATCH_PAD_AFTER,
                                         PATCH_PAD_SIZES,      PATCH_PAD_BYTES };
    uint64_t version = 0;
    const gg_kv *v = gg_meta_find(meta, PATCH_VERSION);
    if (!v || v->type != GG_TYPE_U32 || !gg_kv_u64(v, &version))
        return bad_key(PATCH_VERSION, "a u32", err);
    if (version != 1) {
        gg_fail(err, GG_EUNSUPPORTED,
                "this patch has version %llu, but only version 1 is supported",
                (unsigned long long)version);
        return gg_fix(err, "use a newer version of these tools");
    }
    for (size_t i = 0; i < meta->n; i++) {
        const gg_kv *kv = &meta->kv[i];
        bool ok = !gg_patch_is_own(kv->key, kv->key_len);
        for (size_t k = 0; k < sizeof known / sizeof known[0] && !ok; k++)
            ok = kv->key_len == strlen(known[k]) && memcmp(kv->key, known[k], kv->key_len) == 0;
        if (ok) continue;
        char shown[128];
        gg_escape(kv->key, kv->key_len < 64 ? kv->key_len : 64, shown, sizeof shown);
        gg_fail(err, GG_EUNSUPPORTED, "this patch has the unknown key %s", shown);
        return gg_fix(err, "use a newer version of these tools");
    }
    return GG_OK;
}

static gg_status read_keys(application *p, gg_error *err)
{
    const gg_meta *meta = gg_source_meta(p->patch);
    gg_status st = refuse_unknown(meta, err);
    if (st == GG_OK) st = get_sha(meta, PATCH_BASE, &p->base_sha, err);
    if (st == GG_OK) st = get_sha(meta, PATCH_RESULT, &p->result_sha, err);
    if (st == GG_OK) st = get_names(meta, PATCH_DELETE_KEYS, &p->keys.deleted, NULL, err);
    if (st == GG_OK) st = get_names(meta, PATCH_DELETE_TENSORS, &p->tensors.deleted, NULL, err);
    if (st == GG_OK)
        st = get_names(meta, PATCH_ORDER_KEYS, &p->keys.order, &p->keys.has_order, err);
    if (st == GG_OK)
        st = get_names(meta, PATCH_ORDER_TENSORS, &p->tensors.order, &p->tensors.has_order, err);
    if (st == GG_OK) st = get_array(meta, PATCH_PAD_AFTER, GG_TYPE_U64, &p->pads[0], err);
    if (st == GG_OK) st = get_array(meta, PATCH_PAD_SIZES, GG_TYPE_U64, &p->pads[1], err);
    if (st == GG_OK) st = get_array(meta, PATCH_PAD_BYTES, GG_TYPE_U8, &p->pads[2], err);
    return st;
}

/* ---- the result ------------------------------------------------------------------------ */

static gg_status list_meta(const gg_meta *meta, bool patch, patch_names *out, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < meta->n && st == GG_OK; i++)
        if (!patch || !gg_patch_is_own(meta->kv[i].key, meta->kv[i].key_len))
            st = gg_patch_names_add(out, meta->kv[i].key, meta->kv[i].key_len, i, err);
    return st;
}

static gg_status list_tensors(const gg_source *s, size_t without, patch_names *out, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < gg_source_count(s) && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(s, i);
        if (i != without) st = gg_patch_names_add(out, t->name, t->name_len, i, err);
    }
    return st;
}

static gg_status merge_all(application *p, gg_error *err)
{
    p->trailing = gg_source_find(p->patch, PATCH_TRAILING, strlen(PATCH_TRAILING));
    gg_status st = list_meta(gg_source_meta(p->base), false, &p->keys.base, err);
    if (st == GG_OK) st = list_meta(gg_source_meta(p->patch), true, &p->keys.patch, err);
    if (st == GG_OK) st = list_tensors(p->base, SIZE_MAX, &p->tensors.base, err);
    if (st == GG_OK) st = list_tensors(p->patch, p->trailing, &p->tensors.patch, err);
    if (st == GG_OK) st = gg_patch_merge(&p->keys, &p->key_picks, &p->n_keys, err);
    if (st == GG_OK) st = gg_patch_merge(&p->tensors, &p->tensor_picks, &p->n_tensors, err);
    return st;
}

static gg_status plan_tensors(const application *p, gg_plan *plan, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < p->n_tensors && st == GG_OK; i++) {
        const patch_pick *pick = &p->tensor_picks[i];
        const patch_names *from = pick->patch ? &p->tensors.patch : &p->tensors.base;
        st = gg_plan_add_copy(plan, pick->patch ? p->patch : p->base, from->list[pick->index].index,
                              err);
    }
    return st;
}

static gg_status plan_file(const application *p, gg_plan *plan, const char *output, gg_error *err)
{
    const gg_meta *base = gg_source_meta(p->base), *patch = gg_source_meta(p->patch);
    gg_meta meta = { .kv = malloc((p->n_keys + 1) * sizeof *meta.kv), .n = p->n_keys };
    if (!meta.kv) return gg_fail(err, GG_ENOMEM, "no memory for the metadata");
    for (size_t i = 0; i < p->n_keys; i++) {
        size_t k = p->key_picks[i].index;
        meta.kv[i] = p->key_picks[i].patch ? patch->kv[p->keys.patch.list[k].index]
                                           : base->kv[p->keys.base.list[k].index];
    }
    gg_status st = gg_plan_one_file(plan, output, gg_source_header(p->patch)->version, &meta, err);
    free(meta.kv);
    return st;
}

/* Checks that the three lists agree with each other and with the number of tensors. A pad in
 * the wrong place is detected by the hash of the result. */
static gg_status plan_padding(application *p, gg_plan *plan, gg_error *err)
{
    const gg_kv *after = p->pads[0], *sizes = p->pads[1], *bytes = p->pads[2];
    if (!after && !sizes && !bytes) return GG_OK;
    if (!after || !sizes || !bytes || after->count != sizes->count)
        return bad_key(PATCH_PAD_SIZES, "as long as " PATCH_PAD_AFTER, err);
    uint64_t left = bytes->count;
    p->pad_list = calloc((size_t)after->count + 1, sizeof *p->pad_list);
    if (!p->pad_list) return gg_fail(err, GG_ENOMEM, "no memory for padding");
    for (uint64_t i = 0; i < after->count; i++) {
        uint64_t at = gg_le64(after->data + i * 8), n = gg_le64(sizes->data + i * 8);
        if (at > plan->n)
            return bad_key(PATCH_PAD_AFTER, "a list of tensor numbers of the result", err);
        if (n > left) return bad_key(PATCH_PAD_BYTES, "as long as the sum of the sizes", err);
        gg_pad *pad = &p->pad_list[i];
        const gg_tensor *t = at ? &plan->tensors[at - 1].t : NULL;
        pad->after = t ? (char *)(uintptr_t)t->name : NULL;
        pad->after_len = t ? t->name_len : 0;
        pad->bytes = (uint8_t *)(uintptr_t)(bytes->data + (bytes->count - left));
        pad->n = (size_t)n;
        left -= n;
    }
    if (left) return bad_key(PATCH_PAD_BYTES, "as long as the sum of the sizes", err);
    plan->files[0].pads = p->pad_list;
    plan->files[0].n_pads = (size_t)after->count;
    return GG_OK;
}

static gg_status plan_trailing(const application *p, gg_plan *plan, gg_error *err)
{
    if (p->trailing == SIZE_MAX) return GG_OK;
    const gg_model *m = gg_source_model(p->patch);
    const gg_tensor *t = gg_source_tensor(p->patch, p->trailing);
    gg_plan_file *f = &plan->files[0];
    f->trailing = strdup(m->paths[0]);
    if (!f->trailing) return gg_fail(err, GG_ENOMEM, "no memory for a path");
    f->trailing_at = gg_model_at(m, t);
    f->trailing_bytes = t->bytes;
    return GG_OK;
}

static gg_status write_result(application *p, const char *output, const gg_run *run,
                              gg_patch_report *r, gg_error *err)
{
    char sha[65] = "";
    gg_plan plan = { .result_sha256 = sha };
    gg_run quiet = *run; /* the result is fixed by the patch, so it is not checked */
    quiet.note = NULL;
    quiet.strict = false;
    memcpy(sha, p->result_sha, 64);
    gg_status st = plan_tensors(p, &plan, err);
    if (st == GG_OK) st = plan_file(p, &plan, output, err);
    if (st == GG_OK) st = plan_padding(p, &plan, err);
    if (st == GG_OK) st = plan_trailing(p, &plan, err);
    if (st == GG_OK) st = gg_plan_write(&plan, &quiet, &r->bytes, err);
    gg_plan_free(&plan);
    return st;
}

static gg_status check_base(const application *p, const gg_run *run, gg_error *err)
{
    char sha[65];
    gg_progress_total(run, gg_source_model(p->base)->file_sizes[0]);
    gg_status st = gg_patch_hash(p->base, sha, run, err);
    if (st != GG_OK || memcmp(sha, p->base_sha, 64) == 0) return st;
    gg_fail(err, GG_NO, "the patch is for another base, whose sha256 is %.64s", p->base_sha);
    gg_fix(err, "this file has the sha256 %s", sha);
    return gg_at_file(err, gg_source_name(p->base)), GG_NO;
}

gg_status gg_patch_apply(gg_source *base, gg_source *patch, const char *output, const gg_run *run,
                         gg_patch_report *report, gg_error *err)
{
    report = GG_REPORT(gg_patch_report, report);
    run = GG_OPTIONS(gg_run, run);
    *report = (gg_patch_report){ 0 };
    application p = { .base = base, .patch = patch };
    gg_status st = GG_OK;
    if (strcmp(output, "-") == 0) {
        gg_fail(err, GG_EUSAGE,
                "a patch cannot be applied to stdout, because the result is verified before it "
                "gets its name");
        return gg_fix(err, "give the name of a file as the output");
    }
    st = gg_guard_input(output, patch, err);
    if (st == GG_OK) st = gg_patch_check_file(base, err);
    if (st == GG_OK) st = gg_patch_check_file(patch, err);
    if (st == GG_OK) st = read_keys(&p, err);
    if (st == GG_OK) st = check_base(&p, run, err);
    if (st == GG_OK) st = merge_all(&p, err);
    if (st == GG_OK) st = write_result(&p, output, run, report, err);
    if (st == GG_EFORMAT || st == GG_EUNSUPPORTED) gg_at_file(err, gg_source_name(patch));
    gg_patch_lists_end(&p.tensors, &p.keys, report);
    free(p.tensor_picks);
    free(p.key_picks);
    free(p.pad_list);
    return st;
}
