/* hf_write.c - a GGUF model under Hugging Face names: the inverse of what checkpoint.c does. */
#include "base/error.h"
#include "organ/checkpoint.h"
#include "organ/source_layout.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The row that makes a GGUF tensor of this name (without its ending), if it can be inverted. */
static const gg_hf_name *rule_for_gguf(const char *arch, const char *plain)
{
    for (const gg_hf_name *r = gg_hf_names; r->hf; r++) {
        if (strcmp(r->gguf, plain) != 0 || !gg_hf_has(r->archs, arch)) continue;
        bool lost = r->ops &&
                    (strstr(r->ops, "take") || strstr(r->ops, "half") || strstr(r->ops, "keep") ||
                     strstr(r->ops, "exp") || strstr(r->ops, "squeeze"));
        bool cut = r->ops && strstr(r->ops, "vocab"); /* reading cuts only longer ones */
        return lost && !cut ? NULL : r;
    }
    return NULL;
}

/* Splits "blk.3.attn_q.weight" into "B.attn_q", 3 and ".weight". */
static bool split_gguf_name(const gg_tensor *t, char plain[GG_HF_NAME], long long *block,
                            const char **ending)
{
    static const char *const endings[] = { ".weight", ".bias", "" };
    const char *name = t->name;
    size_t len = t->name_len;
    int skip = 0;
    *block = -1;
    if (len >= GG_HF_NAME) return false;
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(endings[i]);
        if (len < n || memcmp(name + len - n, endings[i], n) != 0) continue;
        *ending = endings[i];
        len -= n;
        break;
    }
    if (sscanf(name, "blk.%lld.%n", block, &skip) == 1 && skip > 0 && (size_t)skip < len)
        snprintf(plain, GG_HF_NAME, "B.%.*s", (int)len - skip, name + skip);
    else snprintf(plain, GG_HF_NAME, "%.*s", (int)len, name);
    return true;
}

/* Writes the whole name: prefixes, the block for L and the expert for E. */
static bool hf_name(const char *arch, const gg_hf_name *rule, long long block, long long expert,
                    const char *ending, char out[GG_HF_NAME])
{
    const char *model = gg_hf_has("gpt2 falcon bloom", arch) ? "transformer."
                        : strcmp(arch, "gptneox") == 0       ? "gpt_neox."
                                                             : "model.";
    const char *list = gg_hf_has("gpt2 falcon bloom", arch) ? "h" : "layers", *p = rule->hf;
    if (strcmp(p, "lm_head") == 0 || strcmp(p, "embed_out") == 0 || strncmp(p, "rope_", 5) == 0)
        model = "";
    int n = p[0] == 'L' ? snprintf(out, GG_HF_NAME, "%s%s.%lld", model, list, block)
                        : snprintf(out, GG_HF_NAME, "%s", model);
    if (p[0] == 'L') p++;
    const char *e = strstr(p, ".E.");
    int m = e ? snprintf(out + n, GG_HF_NAME - (size_t)n, "%.*s.%lld.%s%s", (int)(e - p), p, expert,
                         e + 3, ending)
              : snprintf(out + n, GG_HF_NAME - (size_t)n, "%s%s", p, ending);
    return m > 0 && n + m < GG_HF_NAME;
}

/* The array that the rule would turn into a tensor of these row-major dims, as values of it. */
static bool invert_move(const gg_hf_name *rule, const gg_hf_sizes *sizes, uint32_t n,
                        const uint64_t *dims, gg_hf_move *out)
{
    gg_hf_move forward;
    uint64_t shape[GG_HF_AXES], stride[GG_HF_AXES], product = 1;
    bool turned = rule->ops && strcmp(rule->ops, "swap0,1") == 0 && n == 2;
    const char *ops = rule->ops && strstr(rule->ops, "vocab") ? NULL : rule->ops;
    for (uint32_t i = 0; i < n; i++) shape[i] = dims[turned ? n - 1 - i : i];
    if (!gg_hf_views(ops, sizes, n, shape, &forward) || forward.n_views != 1) return false;
    const gg_hf_view *v = &forward.view[0];
    for (uint32_t i = v->n; i-- > 0; product *= v->count[i]) stride[i] = product;
    *out = (gg_hf_move){ .n_views = 1, .n_dims = n };
    memcpy(out->dims, shape, n * sizeof *shape);
    gg_hf_view *to = &out->view[0];
    bool used[GG_HF_AXES] = { false };
    while (to->n < v->n) { /* the axis with the largest step is the first of the array */
        uint32_t best = v->n;
        for (uint32_t i = 0; i < v->n; i++)
            if (!used[i] && (best == v->n || v->step[i] > v->step[best])) best = i;
        used[best] = true;
        to->count[to->n] = v->count[best];
        to->step[to->n++] = stride[best];
    }
    return true;
}

static gg_status refuse_tensor(const gg_source *s, const gg_tensor *t, const char *why,
                               gg_error *err)
{
    gg_fail(err, GG_EUNSUPPORTED, "%s", why);
    gg_at_tensor(err, t->name, t->name_len);
    return gg_at_file(err, gg_source_name(s));
}

/* Lists the tensor as a stored one. */
static gg_status store_tensor(gg_checkpoint *ck, const gg_source *s, size_t i, gg_error *err)
{
    const gg_model *m = gg_source_model(s);
    const gg_tensor *t = gg_source_tensor(s, i);
    gg_st_tensor *in = &ck->in.items[i];
    *in = (gg_st_tensor){ .name = t->name,
                          .name_len = t->name_len,
                          .n_dims = t->n_dims,
                          .elements = t->elements,
                          .bytes = t->bytes,
                          .at = gg_model_at(m, t),
                          .file = t->file };
    for (uint32_t k = 0; k < t->n_dims; k++) in->dims[k] = t->dims[t->n_dims - 1 - k];
    if (t->dtype == GG_F32) in->type = GG_ST_F32;
    else if (t->dtype == GG_F16) in->type = GG_ST_F16;
    else if (t->dtype == GG_BF16) in->type = GG_ST_BF16;
    else {
        refuse_tensor(s, t, "only F32, F16 and BF16 can be written under Hugging Face names", err);
        return gg_fix(err, "decode the model first: write it with the type f16");
    }
    ck->in.n++;
    return GG_OK;
}

static gg_status add_hf_name(gg_checkpoint *ck, const char *name, size_t from, int64_t expert,
                             const gg_hf_move *move, gg_error *err)
{
    const gg_st_tensor *in = &ck->in.items[from];
    size_t index;
    bool fresh;
    gg_status st = gg_ck_tensor_named(ck, name, &index, &fresh, err);
    if (st != GG_OK) return st;
    gg_ck_tensor *t = &ck->made[index];
    if (!fresh) {
        gg_fail(err, GG_EUNSUPPORTED, "it and '%.100s' have the same Hugging Face name",
                t->hf_name);
        gg_at_tensor(err, in->name, in->name_len);
        return gg_fix(err, "write it under GGUF names");
    }
    gg_ck_piece piece = { .in = (uint32_t)from, .expert = -1, .view = move->view[0] };
    t->hf_name = in->name;
    t->shape = move->n_dims;
    memcpy(t->dims, move->dims, sizeof t->dims);
    if (expert > 0) piece.view.first = (uint64_t)expert * (in->elements / in->dims[0]);
    return gg_ck_add_piece(t, &piece, err);
}

static gg_status add_named_tensor(gg_checkpoint *ck, const char *arch, const gg_source *s, size_t i,
                                  gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(s, i);
    const gg_st_tensor *in = &ck->in.items[i];
    gg_hf_sizes sizes = gg_hf_sizes_of(gg_source_meta(s));
    char plain[GG_HF_NAME], name[GG_HF_NAME];
    const char *ending = "";
    long long block;
    gg_hf_move move;
    if (!split_gguf_name(t, plain, &block, &ending))
        return refuse_tensor(s, t, "its name is too long", err);
    const gg_hf_name *r = rule_for_gguf(arch, plain);
    bool stack = r && strstr(r->hf, ".E.") != NULL;
    uint32_t n = in->n_dims - stack;
    if (!r || in->n_dims < 1 + 2 * (uint32_t)stack ||
        !invert_move(r, &sizes, n, in->dims + stack, &move)) {
        refuse_tensor(s, t, "this tensor of the architecture has no single Hugging Face tensor",
                      err);
        return gg_fix(err, "write it under GGUF names");
    }
    uint64_t copies = stack ? in->dims[0] : 1;
    for (uint64_t e = 0; e < copies; e++) {
        if (!hf_name(arch, r, block, (long long)e, ending, name))
            return refuse_tensor(s, t, "its name is too long", err);
        gg_status st = add_hf_name(ck, name, i, (int64_t)e, &move, err);
        if (st != GG_OK) return st;
        gg_ck_tensor *made = &ck->made[ck->header.n_tensors - 1];
        made->minus_one = gg_hf_is_plus_one(arch, name, strlen(name));
    }
    return GG_OK;
}

/* The architecture of a GGUF file, if the tables know it. */
static gg_status arch_of_model(const gg_source *s, char arch[64], gg_error *err)
{
    const char *text;
    size_t len;
    arch[0] = '\0';
    if (gg_kv_str(gg_meta_find(gg_source_meta(s), "general.architecture"), &text, &len))
        snprintf(arch, 64, "%.*s", (int)len, text);
    if (!gg_source_model(s))
        gg_fail(err, GG_EUNSUPPORTED, "only a GGUF file can be written under Hugging Face names");
    for (const gg_hf_class *c = gg_hf_classes; c->name; c++)
        if (strcmp(c->arch, arch) == 0) return gg_at_file(err, gg_source_name(s));
    gg_fail(err, GG_EUNSUPPORTED, "the Hugging Face names of the architecture '%s' are not known",
            arch);
    return gg_at_file(err, gg_source_name(s));
}

/* Opens the files of the model once more. */
static gg_status share_files(gg_checkpoint *ck, const gg_model *m, gg_error *err)
{
    ck->fds = calloc(m->n_files, sizeof *ck->fds);
    ck->paths = calloc(m->n_files, sizeof *ck->paths);
    ck->stamps = calloc(m->n_files, sizeof *ck->stamps);
    if (!ck->fds || !ck->paths || !ck->stamps)
        return gg_fail(err, GG_ENOMEM, "no memory for a checkpoint");
    for (size_t i = 0; i < m->n_files; i++) {
        ck->fds[i] = fcntl(m->fds[i], F_DUPFD_CLOEXEC, 3);
        if (ck->fds[i] < 0) return gg_fail_errno(err, "cannot open");
        ck->n_files++;
        ck->stamps[i] = m->stamps[i];
        if (!(ck->paths[i] = strdup(m->paths[i])))
            return gg_fail(err, GG_ENOMEM, "no memory for a checkpoint");
    }
    return GG_OK;
}

gg_status gg_checkpoint_of_model(const gg_source *s, gg_checkpoint **out, gg_error *err)
{
    size_t n = gg_source_count(s);
    char arch[64];
    gg_status st = arch_of_model(s, arch, err);
    gg_checkpoint *ck = st == GG_OK ? calloc(1, sizeof *ck) : NULL;
    if (!ck) return st == GG_OK ? gg_fail(err, GG_ENOMEM, "no memory for a checkpoint") : st;
    ck->header.version = 3;
    ck->header.alignment = GG_DEFAULT_ALIGNMENT;
    ck->has_keys = true;
    st = gg_meta_copy(&ck->header.meta, gg_source_meta(s), err);
    if (st == GG_OK) st = share_files(ck, gg_source_model(s), err);
    ck->in.items = calloc(n + 1, sizeof *ck->in.items);
    if (!ck->in.items) st = gg_fail(err, GG_ENOMEM, "no memory for a checkpoint");
    for (size_t i = 0; i < n && st == GG_OK; i++) st = store_tensor(ck, s, i, err);
    for (size_t i = 0; i < n && st == GG_OK; i++) st = add_named_tensor(ck, arch, s, i, err);
    if (st == GG_OK) st = gg_ck_finish(ck, false, err);
    if (st == GG_OK) *out = ck;
    else gg_checkpoint_close(ck);
    return st;
}
