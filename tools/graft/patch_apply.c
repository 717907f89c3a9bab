/* patch_apply.c - applies patches. */
#include "patch_apply.h"

#include "base/cursor.h"
#include "base/text.h"
#include "organ/output_guard.h"
#include "organ/source_layout.h"
#include "write/plan.h"
#include "write/verb_run.h"

#include <stdlib.h>
#include <string.h>

typedef struct application {
    gg_source *base, *patch;
    const char *base_sha, *result_sha; /* 64 digits each, not NUL-terminated */
    gg_patch_lists tensors, keys;
    gg_patch_names new_tensors, new_keys; /* of the result */
    const gg_kv *pads[3];                 /* after, sizes, bytes: either all or none are present */
    gg_pad *pad_list;                     /* the sources own the names, the patch owns the bytes */
    size_t trailing;                      /* index of a tensor of the patch, or SIZE_MAX */
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

static gg_status get_names(const gg_meta *meta, const char *key, gg_patch_names *out, bool *found,
                           gg_error *err)
{
    const gg_kv *kv;
    uint64_t pos = 0;
    gg_patch_name one = { 0 };
    gg_status st = get_array(meta, key, GG_TYPE_STR, &kv, err);
    if (found) *found = kv != NULL;
    while (kv && st == GG_OK && gg_kv_next_str(kv, &pos, &one.name, &one.len))
        st = gg_patch_add(out, &one, err);
    return st;
}

/* An unknown key is refused, because the result may depend on it. */
static gg_status refuse_unknown(const gg_meta *meta, gg_error *err)
{
    static const char known[] = GG_PATCH_VERSION
        " " GG_PATCH_BASE " " GG_PATCH_RESULT " " GG_PATCH_DELETE_KEYS " " GG_PATCH_DELETE_TENSORS
        " " GG_PATCH_ORDER_KEYS " " GG_PATCH_ORDER_TENSORS " " GG_PATCH_PAD_AFTER
        " " GG_PATCH_PAD_SIZES " " GG_PATCH_PAD_BYTES;
    uint64_t version = 0;
    const gg_kv *v = gg_meta_find(meta, GG_PATCH_VERSION);
    if (!v || v->type != GG_TYPE_U32 || !gg_kv_u64(v, &version))
        return bad_key(GG_PATCH_VERSION, "a u32", err);
    if (version != 1) {
        gg_fail(err, GG_EUNSUPPORTED,
                "this patch has version %llu, but only version 1 is supported",
                (unsigned long long)version);
        return gg_fix(err, "use a newer version of these tools");
    }
    for (size_t i = 0; i < meta->n; i++) {
        const gg_kv *kv = &meta->kv[i];
        if (!gg_is_patch_key(kv->key, kv->key_len) || gg_text_has_word(known, kv->key, kv->key_len))
            continue;
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
    if (st == GG_OK) st = get_sha(meta, GG_PATCH_BASE, &p->base_sha, err);
    if (st == GG_OK) st = get_sha(meta, GG_PATCH_RESULT, &p->result_sha, err);
    if (st == GG_OK) st = get_names(meta, GG_PATCH_DELETE_KEYS, &p->keys.deleted, NULL, err);
    if (st == GG_OK) st = get_names(meta, GG_PATCH_DELETE_TENSORS, &p->tensors.deleted, NULL, err);
    if (st == GG_OK)
        st = get_names(meta, GG_PATCH_ORDER_KEYS, &p->keys.order, &p->keys.has_order, err);
    if (st == GG_OK)
        st = get_names(meta, GG_PATCH_ORDER_TENSORS, &p->tensors.order, &p->tensors.has_order, err);
    if (st == GG_OK) st = get_array(meta, GG_PATCH_PAD_AFTER, GG_TYPE_U64, &p->pads[0], err);
    if (st == GG_OK) st = get_array(meta, GG_PATCH_PAD_SIZES, GG_TYPE_U64, &p->pads[1], err);
    if (st == GG_OK) st = get_array(meta, GG_PATCH_PAD_BYTES, GG_TYPE_U8, &p->pads[2], err);
    return st;
}

/* ---- the result ------------------------------------------------------------------------ */

static gg_status merge_all(application *p, gg_error *err)
{
    p->trailing = gg_source_find(p->patch, GG_PATCH_TRAILING, strlen(GG_PATCH_TRAILING));
    gg_status st = gg_patch_keys(p->base, false, &p->keys.base, err);
    if (st == GG_OK) st = gg_patch_keys(p->patch, true, &p->keys.patch, err);
    if (st == GG_OK) st = gg_patch_tensors(p->base, false, &p->tensors.base, err);
    if (st == GG_OK) st = gg_patch_tensors(p->patch, true, &p->tensors.patch, err);
    if (st == GG_OK) st = gg_patch_merge(&p->keys, &p->new_keys, err);
    return st == GG_OK ? gg_patch_merge(&p->tensors, &p->new_tensors, err) : st;
}

static gg_status plan_result(const application *p, gg_plan *plan, const char *output, gg_error *err)
{
    const gg_meta *base = gg_source_meta(p->base), *patch = gg_source_meta(p->patch);
    size_t n = p->new_keys.n;
    gg_meta meta = { .kv = malloc((n + 1) * sizeof *meta.kv), .n = n };
    gg_status st = meta.kv ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the metadata");
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        const gg_patch_name *one = &p->new_keys.list[i];
        meta.kv[i] = (one->patch ? patch : base)->kv[one->index];
    }
    for (size_t i = 0; i < p->new_tensors.n && st == GG_OK; i++) {
        const gg_patch_name *one = &p->new_tensors.list[i];
        st = gg_plan_add_copy(plan, one->patch ? p->patch : p->base, one->index, err);
    }
    if (st == GG_OK)
        st = gg_plan_one_file(plan, output, gg_source_header(p->patch)->version, &meta, err);
    free(meta.kv);
    return st;
}

/* Checks that the three lists agree with each other and with the number of tensors. A pad in
 * the wrong place is detected by the hash of the result. */
static gg_status plan_padding(application *p, gg_plan *plan, gg_error *err)
{
    const gg_kv *after = p->pads[0], *sizes = p->pads[1], *bytes = p->pads[2];
    if (!after && !sizes && !bytes) return GG_OK;
    bool ok = after && sizes && bytes && after->count == sizes->count;
    uint64_t n = ok ? after->count : 0, left = ok ? bytes->count : 0;
    p->pad_list = calloc((size_t)n + 1, sizeof *p->pad_list);
    if (!p->pad_list) return gg_fail(err, GG_ENOMEM, "no memory for padding");
    for (uint64_t i = 0; i < n && ok; i++) {
        uint64_t at = gg_le64(after->data + i * 8), size = gg_le64(sizes->data + i * 8);
        gg_pad *pad = &p->pad_list[i];
        ok = at <= plan->n && size <= left;
        if (!ok) break;
        const gg_tensor *t = at ? &plan->tensors[at - 1].t : NULL;
        pad->after = t ? (char *)(uintptr_t)t->name : NULL;
        pad->after_len = t ? t->name_len : 0;
        pad->bytes = (uint8_t *)(uintptr_t)(bytes->data + (bytes->count - left));
        pad->n = (size_t)size;
        left -= size;
    }
    if (!ok || left)
        return bad_key(GG_PATCH_PAD_SIZES,
                       "those of " GG_PATCH_PAD_BYTES " after tensors of the result", err);
    plan->files[0].pads = p->pad_list;
    plan->files[0].n_pads = (size_t)n;
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
    gg_status st = plan_result(p, &plan, output, err);
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
    gg_status st = gg_patch_file_sha256(p->base, sha, run, err);
    if (st != GG_OK || memcmp(sha, p->base_sha, 64) == 0) return st;
    gg_fail(err, GG_NO, "the patch is for another base, whose sha256 is %.64s", p->base_sha);
    gg_fix(err, "this file has the sha256 %s", sha);
    gg_at_file(err, gg_source_name(p->base));
    return GG_NO;
}

gg_status gg_patch_apply(gg_source *base, gg_source *patch, const char *output, const gg_run *run,
                         gg_patch_report *report, gg_error *err)
{
    report = GG_REPORT(gg_patch_report, report);
    run = GG_OPTIONS(gg_run, run);
    application p = { .base = base, .patch = patch };
    gg_status st = GG_OK;
    if (strcmp(output, "-") == 0) {
        gg_fail(err, GG_EUSAGE,
                "a patch cannot be applied to stdout, because the result is verified before it "
                "gets its name");
        return gg_fix(err, "give the name of a file as the output");
    }
    st = gg_guard_output(output, patch, err);
    if (st == GG_OK) st = gg_guard_output(output, base, err);
    if (st == GG_OK) st = gg_patch_needs_one_file(base, err);
    if (st == GG_OK) st = gg_patch_needs_one_file(patch, err);
    if (st == GG_OK) st = read_keys(&p, err);
    if (st == GG_OK) st = check_base(&p, run, err);
    if (st == GG_OK) st = merge_all(&p, err);
    if (st == GG_OK) st = write_result(&p, output, run, report, err);
    if (st == GG_EFORMAT || st == GG_EUNSUPPORTED) gg_at_file(err, gg_source_name(patch));
    gg_patch_count_and_free(&p.tensors, &p.keys, report);
    gg_patch_names_free(&p.new_tensors);
    gg_patch_names_free(&p.new_keys);
    free(p.pad_list);
    return st;
}
