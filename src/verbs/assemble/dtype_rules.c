/* dtype_rules.c - globs and types, first match wins. */
#include "dtype_rules.h"

#include "base/error.h"
#include "organ/select.h"
#include "verbs/shared/type_keys.h"
#include "verbs/shared/verb_run.h"

#include <stdlib.h>
#include <string.h>

#define KEEP UINT32_MAX

typedef struct rule {
    char *glob; /* in gg_dtype_rules.text */
    uint32_t dtype;
    bool wild;
} rule;

struct gg_dtype_rules {
    char *text;
    rule *list;
    size_t n;
    uint32_t fallback; /* KEEP = none */
};

/* ---- the option -------------------------------------------------------------------- */

/* A type that can be made, or KEEP where that is allowed. */
static gg_status parse_type(const char *name, gg_hint about, bool keep, uint32_t *dtype,
                            gg_error *err)
{
    char shown[64];
    gg_escape(name, strlen(name), shown, sizeof shown);
    const gg_dtype_info *info = gg_dtype_by_name(name);
    *dtype = KEEP;
    if (keep && strcmp(name, "keep") == 0) return GG_OK;
    if (!info) {
        gg_fail(err, GG_EUSAGE, "'%s' is not a tensor type", shown);
        gg_about(err, about);
        return gg_fix(
            err, "types are f32 f16 bf16 q8_0 q6_k q5_k q4_k q3_k q2_k iq4_nl iq4_xs and the like");
    }
    *dtype = info->id;
    if (gg_encode_needs_imatrix(info->id)) {
        gg_fail(err, GG_EUNSUPPORTED, "%s cannot be encoded without an importance matrix",
                info->name);
        gg_about(err, about);
        return gg_fix(err, "choose another type, for example q2_k or iq4_xs");
    }
    if (!gg_can_encode(info->id) ||
        !(gg_is_quantized(info->id) || info->id == GG_F32 || info->id == GG_F16 ||
          info->id == GG_BF16 || info->id == GG_F64)) {
        gg_fail(err, GG_EUNSUPPORTED, "%s cannot be encoded", info->name);
        gg_about(err, about);
        return gg_fix(err, "choose another type, for example q8_0 or f16");
    }
    return GG_OK;
}

static gg_status parse_rule(char *item, rule *r, gg_error *err)
{
    char *eq = strrchr(item, '=');
    if (!eq || eq == item) {
        char shown[80];
        gg_escape(item, strlen(item), shown, sizeof shown);
        gg_fail(err, GG_EUSAGE, "'%s': expected GLOB=TYPE", shown);
        gg_about(err, GG_HINT_DTYPE);
        return gg_fix(err, "give for example 'blk.*.ffn_*=q4_k,*=f16'");
    }
    *eq = '\0';
    r->glob = item;
    r->wild = strpbrk(item, "*?[") != NULL;
    return parse_type(eq + 1, GG_HINT_DTYPE, true, &r->dtype, err);
}

gg_status gg_dtype_rules_parse(const char *text, const char *fallback, gg_dtype_rules **out,
                               gg_error *err)
{
    gg_dtype_rules *r = calloc(1, sizeof *r);
    size_t items = 1;
    for (const char *s = text; *s; s++) items += *s == ',';
    if (r) {
        r->fallback = KEEP;
        r->text = strdup(text);
        r->list = calloc(items, sizeof *r->list);
    }
    gg_status st = r && r->text && r->list
                       ? GG_OK
                       : gg_fail(err, GG_ENOMEM, "no memory for the rules of types");
    for (char *item = r ? r->text : NULL; item && st == GG_OK;) {
        char *comma = strchr(item, ',');
        if (comma) *comma = '\0';
        st = parse_rule(item, &r->list[r->n++], err);
        item = comma ? comma + 1 : NULL;
    }
    if (st == GG_OK && fallback)
        st = parse_type(fallback, GG_HINT_FALLBACK, false, &r->fallback, err);
    if (st != GG_OK) {
        gg_dtype_rules_free(r);
        return st;
    }
    *out = r;
    return GG_OK;
}

void gg_dtype_rules_free(gg_dtype_rules *r)
{
    if (!r) return;
    free(r->text);
    free(r->list);
    free(r);
}

/* ---- which tensors ------------------------------------------------------------------ */

/* Parts of names of what llama-quantize leaves as it is: small, and either read by the
 * engine in one type only or too much of the quality for too few bytes. So are all
 * names that do not end in .weight. */
static const char *const delicate[] = {
    "ffn_gate_inp",
    "_norm",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "position_embd",
    "token_types",
    "ssm_conv1d",
    "shortconv.conv",
    "indexer.k_proj",
    "indexer.q_proj",
    "attn_rel_b",
    "patch_embd",
    "patch_merger",
    "sam.",
    "rel_pos",
    "time_mix_first",
    "time_mix_w0",
    "time_mix_w1",
    "time_mix_w2",
    "time_mix_v0",
    "time_mix_v1",
    "time_mix_v2",
    "time_mix_a0",
    "time_mix_a1",
    "time_mix_a2",
    "time_mix_g1",
    "time_mix_g2",
    "time_mix_decay_w1",
    "time_mix_decay_w2",
    "time_mix_lerp_fused",
};

/* Does the glob spell what makes the tensor delicate? Then it is meant. */
static bool is_delicate(const gg_tensor *t, const rule *r)
{
    const char *dot = strrchr(t->name, '.'), *last = dot ? dot + 1 : t->name;
    bool found = strcmp(last, "weight") != 0;
    if (found && strstr(r->glob, last)) return false;
    for (size_t i = 0; i < sizeof delicate / sizeof delicate[0]; i++) {
        if (!strstr(t->name, delicate[i])) continue;
        if (strstr(r->glob, delicate[i])) return false;
        found = true;
    }
    return found;
}

static bool is_integer(uint32_t dtype)
{
    return dtype == GG_I8 || dtype == GG_I16 || dtype == GG_I32 || dtype == GG_I64;
}

static bool leave_alone(const gg_tensor *t, const rule *r)
{
    if (r->dtype == KEEP || r->dtype == t->dtype) return true;
    if (!r->wild) return false;
    bool line = t->dims[1] == 1 && t->dims[2] == 1 && t->dims[3] == 1;
    return line || is_integer(t->dtype) || is_delicate(t, r);
}

static bool row_fits(uint32_t dtype, uint64_t row)
{
    return row % gg_dtype_get(dtype)->block_elems == 0;
}

/* The type to write; the tensor's own when it is to be left alone. */
static gg_status choose(const gg_dtype_rules *r, const rule *by, const gg_tensor *t,
                        uint32_t *dtype, gg_error *err)
{
    *dtype = t->dtype;
    if (leave_alone(t, by)) return GG_OK;
    uint64_t row = t->n_dims ? t->dims[0] : 1;
    if (row_fits(by->dtype, row)) return *dtype = by->dtype, GG_OK;
    if (r->fallback != KEEP && row_fits(r->fallback, row)) return *dtype = r->fallback, GG_OK;
    uint32_t last = r->fallback != KEEP ? r->fallback : by->dtype;
    gg_fail(err, GG_EFORMAT, "its rows of %llu values are no whole blocks of %s",
            (unsigned long long)row, gg_dtype_get(last)->name);
    gg_fix_hint(err, GG_HINT_FALLBACK,
                r->fallback == KEEP ? "give a fallback type such as q8_0 or f16, or a rule for it"
                                    : "give another fallback type, for example f16");
    return gg_at_tensor(err, t->name, t->name_len);
}

static gg_status retype(gg_plan_tensor *pt, uint32_t dtype, bool verify, gg_computations *list,
                        gg_error *err)
{
    gg_tensor out = pt->t;
    out.dtype = dtype;
    gg_producer made;
    gg_status st = gg_tensor_extent(dtype, out.n_dims, out.dims, &out.elements, &out.bytes, err);
    for (size_t i = 0; i < pt->n_parts && !verify; i++) pt->parts[i].sha256 = NULL;
    gg_input in = { pt->t.dtype, pt->parts, pt->n_parts };
    if (st == GG_OK) st = gg_compute_convert(list, &out, &in, &made, err);
    if (st != GG_OK) return gg_at_tensor(err, pt->t.name, pt->t.name_len);
    free(pt->parts);
    pt->parts = NULL;
    pt->n_parts = 0;
    pt->t = out;
    pt->make = made.make;
    pt->ctx = made.ctx;
    return GG_OK;
}

/* Blocks that engines make of activations while they compute, and doubles: valid in a
 * file, but llama.cpp crashes on weights in them. */
static bool is_no_weight(uint32_t dtype)
{
    return dtype == GG_Q8_1 || dtype == GG_Q8_K || dtype == GG_F64;
}

static void note_rule(const rule *r, bool used, const gg_run *run)
{
    if (!used)
        gg_note(run,
                "no tensor gets its type from '%s' (a pattern matches whole names, and the "
                "first that matches decides)",
                r->glob);
    else if (r->dtype != KEEP && is_no_weight(r->dtype))
        gg_note(run, "no engine runs weights in %s; they can only be read back here",
                gg_dtype_get(r->dtype)->name);
}

gg_status gg_dtype_rules_apply(const gg_dtype_rules *r, gg_plan *p, gg_computations *list,
                               size_t *changed, const gg_run *run, gg_error *err)
{
    bool *used = calloc(r->n, sizeof *used);
    gg_status st = used ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the rules of types");
    *changed = 0;
    for (size_t i = 0; i < p->n && st == GG_OK; i++) {
        gg_plan_tensor *pt = &p->tensors[i];
        size_t k = 0;
        uint32_t dtype;
        while (k < r->n && !gg_glob(r->list[k].glob, pt->t.name)) k++;
        if (k == r->n) continue;
        used[k] = true;
        st = choose(r, &r->list[k], &pt->t, &dtype, err);
        if (st != GG_OK || dtype == pt->t.dtype) continue;
        st = retype(pt, dtype, p->verify, list, err);
        ++*changed;
    }
    for (size_t k = 0; k < r->n && st == GG_OK; k++) note_rule(&r->list[k], used[k], run);
    free(used);
    return st;
}

gg_status gg_dtype_rules_keys(const gg_plan *p, gg_meta *meta, gg_error *err)
{
    gg_tensor *list = calloc(p->n ? p->n : 1, sizeof *list);
    if (!list) return gg_fail(err, GG_ENOMEM, "no memory for the tensors' types");
    bool kept = false;
    for (size_t i = 0; i < p->n; i++) {
        list[i] = p->tensors[i].t;
        kept = kept || (!p->tensors[i].make && gg_is_quantized(list[i].dtype));
    }
    gg_status st = gg_type_keys_update(meta, list, p->n, err);
    if (!kept) gg_meta_delete_imatrix(meta);
    free(list);
    return st;
}
