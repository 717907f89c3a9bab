/* peft.c - the tensors of a PEFT adapter as those of a GGUF adapter.
 *
 * A pair is lora_A [r, in] and lora_B [out, r]. What moves the rows of a matrix moves the rows of
 * lora_B, and what moves its columns moves those of lora_A. Engines multiply a pair by
 * adapter.lora.alpha / r; where PEFT means another strength, the difference is folded into lora_B.
 */
#include "base/cursor.h"
#include "base/error.h"
#include "base/float_bits.h"
#include "checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct peft {
    gg_checkpoint *ck;
    const gg_json_node *config;
    const gg_meta *base;
    char arch[64];
    gg_hf_sizes sizes;
    uint64_t blocks, trunk; /* with and without prediction blocks */
    double alpha;
    bool rslora, folded;
    size_t skipped; /* tensors of other parts */
} peft;

/* ---- refusals ------------------------------------------------------------------------------- */

static gg_status refuse_stored(const peft *p, const gg_st_tensor *t, const char *what,
                               const char *fix, gg_error *err)
{
    gg_fail(err, GG_EUNSUPPORTED, "%s", what);
    gg_fix(err, "%s", fix);
    return gg_ck_at(p->ck, t, err);
}

static gg_status refuse_name(const peft *p, const gg_st_tensor *t, gg_error *err)
{
    static const struct {
        const char *part, *what, *fix;
    } kinds[] = {
        { "lora_magnitude_vector", "it belongs to DoRA, which GGUF adapters cannot express",
          "merge the adapter into its base with PEFT" },
        { ".lora_B.bias", "the adapter has biases (lora_bias), which GGUF adapters cannot express",
          "merge the adapter into its base with PEFT" },
        { ".lora_A.", "its name has the adapter's name in it",
          "save the adapter again with save_pretrained of PEFT" },
        { ".lora_B.", "its name has the adapter's name in it",
          "save the adapter again with save_pretrained of PEFT" },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(t->name, kinds[i].part))
            return refuse_stored(p, t, kinds[i].what, kinds[i].fix, err);
    return refuse_stored(
        p, t, "it is a whole matrix (modules_to_save), which GGUF adapters cannot hold",
        "merge the adapter into its base with PEFT, or train without new tokens", err);
}

/* ---- strength ------------------------------------------------------------------------------- */

static double adapter_number(const gg_json_node *config, const char *name, double otherwise)
{
    gg_error ignored = GG_ERROR_INIT;
    double x;
    return gg_json_f64(gg_json_get(config, name), &x, &ignored) == GG_OK ? x : otherwise;
}

static bool adapter_flag(const gg_json_node *config, const char *name)
{
    gg_error ignored = GG_ERROR_INIT;
    bool yes = false;
    return gg_json_bool(gg_json_get(config, name), &yes, &ignored) == GG_OK && yes;
}

/* Whether a key of alpha_pattern is the module or the end of its name, after a dot. */
static bool pattern_fits(const char *key, size_t n, const char *module, size_t len)
{
    bool whole = n > 0 && key[0] == '^';
    if (whole) key++, n--;
    if (n > 0 && key[n - 1] == '$') n--;
    if (n > len || memcmp(module + len - n, key, n) != 0) return false;
    return n == len || (!whole && module[len - n - 1] == '.');
}

/* The alpha of a module, whose name has no "base_model.model." before it. */
static gg_status alpha_of(const peft *p, const gg_st_tensor *t, const char *module, size_t len,
                          double *alpha, gg_error *err)
{
    const gg_json_node *pattern = gg_json_get(p->config, "alpha_pattern");
    *alpha = p->alpha;
    for (const gg_json_node *m = gg_json_first(pattern); m; m = gg_json_next(m)) {
        size_t n;
        const char *key = gg_json_key(m, &n);
        for (size_t i = 0; key && i < n; i++)
            if (strchr("*+?()[]{}|\\", key[i]))
                return refuse_stored(p, t, "alpha_pattern has a regular expression",
                                     "write whole names of modules there", err);
        if (key && pattern_fits(key, n, module, len)) return gg_json_f64(m, alpha, err);
    }
    return GG_OK;
}

/* Sets *factor to what lora_B needs with rank r; 0 = none. */
static gg_status strength_of(peft *p, const gg_st_tensor *t, const char *module, size_t len,
                             float *factor, gg_error *err)
{
    double alpha, x;
    gg_status st = alpha_of(p, t, module, len, &alpha, err);
    if (st != GG_OK) return st;
    x = alpha / p->alpha * (p->rslora ? sqrt((double)t->dims[1]) : 1);
    if (!((x > 1e-30 && x < 1e30) || (x < -1e-30 && x > -1e30))) {
        gg_fail(err, GG_EUNSUPPORTED,
                "alpha_pattern gives it a strength of 0, or one out of range");
        gg_at_tensor(err, t->name, t->name_len);
        return gg_fix(err, "remove the pair, or correct alpha_pattern");
    }
    *factor = x == 1 ? 0 : (float)x;
    if (x != 1) p->folded = true;
    return GG_OK;
}

/* ---- pairs ---------------------------------------------------------------------------------- */

/* The halves of a pair, and the module's name. */
typedef struct peft_pair {
    const gg_st_tensor *a, *b;
    const char *module;
    size_t len;
    bool embedding;
} peft_pair;

/* A half of a pair, or of the pair of an expert. */
typedef struct peft_half {
    const gg_st_tensor *t;
    gg_hf_move move;
    float times;
} peft_half;

static gg_status add_half(const peft *p, const peft_half *h, const char *name, int64_t expert,
                          gg_error *err)
{
    const gg_st_tensor *t = h->t;
    const gg_hf_move *move = &h->move;
    gg_ck_tensor *m = gg_ck_tensor_named(p->ck, name, err);
    if (!m) return err->status;
    if (m->n_pieces == 0) {
        m->times = h->times;
    } else if (expert < 0 || memcmp(m->dims, move->dims, 2 * sizeof *m->dims) != 0 ||
               m->times != h->times) {
        return refuse_stored(p, t, "it does not have the shape, rank or strength of other experts",
                             "train an adapter with one rank for all experts", err);
    }
    return gg_ck_add_moved(p->ck, m, t, expert, move, err);
}

/* Moves the rows of lora_B, or the columns of lora_A, as `ops` moves those of the matrix. */
static bool move_pair(const peft *p, const peft_pair *pair, const char *ops, gg_hf_move *a,
                      gg_hf_move *b)
{
    const char *of_a, *of_b;
    bool columns = gg_hf_pair_ops(ops, pair->embedding, &of_a, &of_b);
    if (!gg_hf_views(of_a, &p->sizes, 2, pair->a->dims, a) ||
        !gg_hf_views(of_b, &p->sizes, 2, pair->b->dims, b) || a->n_dims != 2 || b->n_dims != 2)
        return false;
    for (uint32_t i = 0; i < b->n_views && !columns; i++) {
        const gg_hf_view *v = &b->view[i];
        if (v->step[v->n - 1] != 1 || v->count[v->n - 1] != pair->b->dims[1]) return false;
    }
    return true;
}

static gg_status add_pair(peft *p, const peft_pair *pair, gg_error *err)
{
    char hf[512], name[GG_HF_NAME], full[GG_HF_NAME + 8];
    peft_half a = { .t = pair->a }, b = { .t = pair->b };
    snprintf(hf, sizeof hf, "%.*s.weight", (int)(pair->len < 480 ? pair->len : 480), pair->module);
    gg_hf_match m = gg_hf_find(p->arch, hf, strlen(hf));
    if (m.part) return p->skipped++, GG_OK;
    if (m.mtp && m.block >= 0) m.block += (int64_t)p->trunk;
    if (!m.rule || m.rule->gguf[0] == '-' || (m.block >= 0 && (uint64_t)m.block >= p->blocks))
        return refuse_stored(p, pair->b, "the base has no such tensor",
                             "use the model that the adapter was trained for", err);
    if (pair->a->n_dims != 2 || pair->b->n_dims != 2 || pair->a->dims[0] != pair->b->dims[1])
        return refuse_stored(p, pair->b, "the halves of the pair do not fit each other",
                             "save the adapter again", err);
    for (const gg_hf_name *r = m.rule; r; r = gg_hf_further(r)) {
        if (!gg_hf_gguf_name(r, &m, name) || !move_pair(p, pair, r->ops, &a.move, &b.move))
            return refuse_stored(p, pair->b,
                                 "adapters of this matrix cannot be converted, because it becomes "
                                 "several transposed ones",
                                 "merge the adapter into its base with PEFT", err);
        gg_status st = strength_of(p, pair->b, pair->module, pair->len, &b.times, err);
        snprintf(full, sizeof full, "%s.lora_a", name);
        if (st == GG_OK) st = add_half(p, &a, full, m.expert, err);
        snprintf(full, sizeof full, "%s.lora_b", name);
        if (st == GG_OK) st = add_half(p, &b, full, m.expert, err);
        if (st != GG_OK) return st;
    }
    return GG_OK;
}

static const char *after_prefix(const char *name)
{
    static const char prefix[] = "base_model.model.";
    return strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + sizeof prefix - 1 : name;
}

static const gg_st_tensor *other_half(const peft *p, const gg_st_tensor *t, size_t stem,
                                      const char *end)
{
    char name[640];
    if (stem > 600) return NULL;
    snprintf(name, sizeof name, "%.*s%s", (int)stem, t->name, end);
    return gg_ck_stored(p->ck, name);
}

/* A vector of a norm that was saved whole. */
static gg_status add_norm(peft *p, const gg_st_tensor *t, gg_error *err)
{
    const char *hf = after_prefix(t->name);
    char name[GG_HF_NAME];
    gg_hf_move move;
    gg_hf_match m = gg_hf_find(p->arch, hf, strlen(hf));
    if (!m.rule || m.rule->gguf[0] == '-' || !gg_hf_gguf_name(m.rule, &m, name) ||
        !gg_hf_views(NULL, &p->sizes, t->n_dims, t->dims, &move))
        return refuse_name(p, t, err);
    gg_ck_tensor *made = gg_ck_tensor_named(p->ck, name, err);
    if (!made) return err->status;
    if (made->n_pieces) return refuse_name(p, t, err);
    made->op = gg_hf_is_plus_one(p->arch, hf, strlen(hf)) ? GG_CK_PLUS_ONE : GG_CK_NONE;
    return gg_ck_add_moved(p->ck, made, t, -1, &move, err);
}

static gg_status add_adapter_tensor(peft *p, const gg_st_tensor *t, gg_error *err)
{
    static const struct {
        const char *end, *other;
        bool second;
    } halves[] = {
        { ".lora_A.weight", ".lora_B.weight", false },
        { ".lora_B.weight", ".lora_A.weight", true },
        { ".lora_embedding_A", ".lora_embedding_B", false },
        { ".lora_embedding_B", ".lora_embedding_A", true },
    };
    for (int i = 0; i < 4; i++) {
        size_t n = strlen(halves[i].end), stem = t->name_len - n;
        if (t->name_len <= n || strcmp(t->name + stem, halves[i].end) != 0) continue;
        const gg_st_tensor *other = other_half(p, t, stem, halves[i].other);
        if (!other)
            return refuse_stored(p, t, "the other half of this pair is missing",
                                 "save the adapter again", err);
        if (halves[i].second) return GG_OK;
        const char *module = after_prefix(t->name);
        peft_pair pair = { t, other, module, stem - (size_t)(module - t->name), i == 2 };
        return add_pair(p, &pair, err);
    }
    size_t n = t->name_len;
    if (n > 18 && strcmp(t->name + n - 18, ".base_layer.weight") == 0) return GG_OK;
    bool norm = strstr(t->name, "_layernorm") || strstr(t->name, ".norm");
    return norm && t->n_dims == 1 ? add_norm(p, t, err) : refuse_name(p, t, err);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* The keys of the base that the adapter names, if that is a folder here. */
static gg_status keys_of_named_base(const peft *p, const char *folder, gg_meta *meta, gg_error *err)
{
    const char *name = "";
    size_t len = 0;
    gg_error ignored = GG_ERROR_INIT;
    char path[1024];
    gg_json *config = NULL;
    gg_json_string(gg_json_get(p->config, "base_model_name_or_path"), &name, &len, &ignored);
    snprintf(path, sizeof path, "%.*s", (int)(len < 1000 ? len : 1000), name);
    ignored = (gg_error)GG_ERROR_INIT;
    if (len && gg_ck_parse(path, "config.json", &config, &ignored) == GG_OK) {
        gg_status st = gg_ck_keys(gg_json_root(config), path, meta, err);
        gg_json_free(config);
        return st;
    }
    gg_json_free(config);
    gg_fail(err, GG_EUSAGE, "this adapter is for the model '%.100s', which is not a folder here",
            path);
    gg_fix_hint(err, GG_HINT_BASE, "give the base, or work in the folder that contains it");
    return gg_at_file(err, folder);
}

static gg_status set_adapter_keys(const peft *p, const char *folder, gg_error *err)
{
    gg_meta *meta = &p->ck->header.meta;
    uint8_t le[4];
    const char *name = strrchr(folder, '/');
    name = name && name[1] ? name + 1 : folder;
    gg_kv alpha = { "adapter.lora.alpha", 18, GG_TYPE_F32, 0, 1, le, 4 };
    gg_put_le32(le, gg_float_bits((float)p->alpha));
    gg_meta_set_str(meta, "general.architecture", p->arch, strlen(p->arch), err);
    gg_meta_set_str(meta, "general.type", "adapter", 7, err);
    gg_meta_set_str(meta, "adapter.type", "lora", 4, err);
    if (!gg_meta_find(meta, "general.name"))
        gg_meta_set_str(meta, "general.name", name, strlen(name), err);
    gg_meta_set(meta, &alpha, err);
    gg_meta_set_u32(meta, "general.quantization_version", 2, err);
    p->ck->has_keys = true;
    return err->status;
}

/* Compares the fields of adapter_config.json with their table. */
static gg_status check_adapter_config(const peft *p, const char *folder, gg_error *err)
{
    gg_fields f = { gg_adapter_fields, "peft", false, "adapter_config.json" };
    gg_status st = p->config ? gg_ck_check_fields(p->ck, &f, p->config, err) : GG_OK;
    return st == GG_OK ? GG_OK : gg_at_file(err, folder);
}

static gg_status read_adapter_config(peft *p, const char *folder, const gg_ck_adapter *adapter,
                                     gg_error *err)
{
    if (check_adapter_config(p, folder, err) != GG_OK) return err->status;
    p->alpha = adapter_number(p->config, "lora_alpha", adapter->alpha);
    p->rslora = adapter_flag(p->config, "use_rslora");
    if (!(p->alpha > 0) || !(p->alpha < 1e30)) {
        gg_fail(err, GG_EUSAGE, "the lora_alpha of this adapter is not known");
        gg_fix(err, "give its folder with adapter_config.json, or the alpha");
        return gg_at_file(err, folder);
    }
    return GG_OK;
}

static gg_status base_of_adapter(peft *p, gg_error *err)
{
    if (!gg_hf_arch(p->base, p->arch))
        return gg_fail(err, GG_EUNSUPPORTED,
                       "adapters in safetensors for the architecture '%s' are not covered",
                       p->arch);
    p->sizes = gg_hf_sizes_of(p->base);
    p->sizes.vocab = UINT64_MAX;
    p->blocks = p->trunk = gg_arch_number(p->base, "block_count");
    uint64_t mtp = gg_arch_number(p->base, "nextn_predict_layers");
    if (mtp < p->trunk) p->trunk -= mtp;
    return GG_OK;
}

static gg_status check_expert_count(const peft *p, gg_error *err)
{
    uint64_t experts = gg_arch_number(p->base, "expert_count");
    for (size_t i = 0; i < p->ck->header.n_tensors; i++) {
        const gg_ck_tensor *t = &p->ck->made[i];
        const gg_st_tensor *in = &p->ck->in.items[t->pieces[0].in];
        if (t->pieces[0].expert >= 0 && t->n_pieces != experts) {
            char what[160];
            snprintf(what, sizeof what,
                     "only %zu of the base's %llu experts have an adapter for this matrix",
                     t->n_pieces, (unsigned long long)experts);
            return refuse_stored(p, in, what, "train all experts, or merge with PEFT", err);
        }
    }
    return GG_OK;
}

gg_status gg_peft_open(gg_checkpoint *ck, const char *folder, const gg_json_node *config,
                       const gg_ck_adapter *adapter, gg_error *err)
{
    gg_meta named = GG_META_INIT;
    peft p = { .ck = ck, .config = config, .base = adapter->base };
    gg_status st = read_adapter_config(&p, folder, adapter, err);
    if (st == GG_OK && !p.base) {
        p.base = &named;
        st = keys_of_named_base(&p, folder, &named, err);
    }
    if (st == GG_OK) st = base_of_adapter(&p, err);
    for (size_t i = 0; i < ck->in.n && st == GG_OK; i++)
        st = add_adapter_tensor(&p, ck->by_name[i], err);
    gg_ck_drop_empty(ck);
    if (st == GG_OK && ck->header.n_tensors == 0)
        st = gg_fail(err, GG_EFORMAT, "the adapter has no pairs for the base");
    if (st == GG_OK) st = check_expert_count(&p, err);
    if (st == GG_OK) st = set_adapter_keys(&p, folder, err);
    if (st == GG_OK && p.folded)
        st = gg_ck_note(
            ck, false, err,
            "alpha_pattern or rslora gives its pairs other strengths than lora_alpha / r; "
            "these are folded into lora_b");
    if (st == GG_OK && p.skipped)
        st = gg_ck_note(ck, false, err,
                        "%zu pairs of other parts than the language model are left out", p.skipped);
    gg_meta_free(&named);
    return st;
}
