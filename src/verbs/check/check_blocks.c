/* check_blocks.c - rules that compare the blocks of a model with each other: gaps in the
 * numbering, a tensor that is missing in one block only, shapes that differ in one block. */
#include "check_core.h"

#include "organ/tensor_names.h"

#include <stdlib.h>
#include <string.h>

#define FEW 8 /* findings of one kind that are listed; the rest are counted */

/* A tensor of a block of the text model ("blk.N."). */
typedef struct part {
    int64_t block;
    const char *rest; /* name after "blk.N." */
    size_t len;
    const gg_tensor *t;
} part;

/* The tensors of one block: parts [first, first + n). */
typedef struct group {
    int64_t block;
    size_t first, n;
    uint64_t signature; /* hash of their names */
    size_t alike;       /* blocks with the same names */
} group;

typedef struct body {
    check *c;
    part *parts;
    size_t n_parts;
    group *groups;
    size_t n_groups;
} body;

static int order_rest(const part *a, const part *b)
{
    size_t n = a->len < b->len ? a->len : b->len;
    int d = n ? memcmp(a->rest, b->rest, n) : 0;
    return d ? d : (a->len > b->len) - (a->len < b->len);
}

static int by_part_block(const void *a, const void *b)
{
    const part *x = a, *y = b;
    int d = (x->block > y->block) - (x->block < y->block);
    return d ? d : order_rest(x, y);
}

static int by_rest(const void *a, const void *b)
{
    const part *x = a, *y = b;
    int d = order_rest(x, y);
    return d ? d : (x->block > y->block) - (x->block < y->block);
}

static int by_signature(const void *a, const void *b)
{
    const group *x = a, *y = b;
    int d = (x->signature > y->signature) - (x->signature < y->signature);
    return d ? d : (x->block > y->block) - (x->block < y->block);
}

static bool gather_parts(body *b)
{
    const check *c = b->c;
    b->parts = calloc(c->in->n + 1, sizeof *b->parts);
    b->groups = calloc(c->in->n + 1, sizeof *b->groups);
    if (!b->parts || !b->groups) return false;
    for (size_t i = 0; i < c->in->n; i++) {
        const gg_tensor *t = &c->in->tensors[i];
        const gg_anatomy *a = &c->anatomy[i];
        if (a->block < 0 || t->name_len < 5 || memcmp(t->name, "blk.", 4) != 0) continue;
        b->parts[b->n_parts++] = (part){ a->block, t->name + a->role_at, t->name_len - a->role_at,
                                         t };
    }
    qsort(b->parts, b->n_parts, sizeof *b->parts, by_part_block);
    for (size_t i = 0; i < b->n_parts; i++) {
        const part *p = &b->parts[i];
        if (i == 0 || p->block != p[-1].block)
            b->groups[b->n_groups++] = (group){ p->block, i, 0, 14695981039346656037u, 0 };
        group *g = &b->groups[b->n_groups - 1];
        g->n++;
        for (size_t k = 0; k <= p->len; k++) /* the byte after a name is a NUL */
            g->signature = (g->signature ^ (k < p->len ? (uint8_t)p->rest[k] : 0)) * 1099511628211u;
    }
    return true;
}

/* ---- block_count ------------------------------------------------------------------------- */

static void count_blocks(body *b)
{
    check *c = b->c;
    uint64_t missing = 0, next = 0, trunk = 0;
    for (size_t i = 0; i < b->n_groups; i++) trunk += (uint64_t)b->groups[i].block < c->trunk;
    if (trunk == 0 && c->trunk < c->blocks && b->n_groups > 0) {
        gg_check_say(
            c, GG_CHECK_NOTE, "block-count", "", 0,
            "it has only prediction blocks and can be used only with the model they belong to");
        return;
    }
    for (size_t i = 0; i <= b->n_groups; i++) {
        uint64_t at = i < b->n_groups ? (uint64_t)b->groups[i].block : c->trunk,
                 end = at < c->trunk ? at : c->trunk;
        for (; next < end && missing < FEW; next++, missing++)
            gg_check_say_block(c, GG_CHECK_ERROR, "block-missing", (int64_t)next,
                               "the model has no tensor of this block; block_count is %llu",
                               (unsigned long long)c->blocks);
        if (next < end) missing += end - next; /* there may be billions */
        next = at + 1;
    }
    if (missing > FEW)
        gg_check_say(c, GG_CHECK_ERROR, "block-missing", "", 0, "%llu blocks are missing in total",
                     (unsigned long long)missing);
    if (b->n_groups == 0) return;
    uint64_t last = (uint64_t)b->groups[b->n_groups - 1].block;
    if (last >= c->blocks)
        gg_check_say(c, GG_CHECK_ERROR, "block-count", "", 0,
                     "there are tensors of block %llu, but block_count is %llu",
                     (unsigned long long)last, (unsigned long long)c->blocks);
}

/* ---- roles ---------------------------------------------------------------------------------- */

/* Counts the names that `many` has and `one` lacks, and finds the first. Returns SIZE_MAX if
 * `one` has a name that `many` lacks. */
static size_t lacking(const body *b, const group *one, const group *many, const part **first)
{
    size_t i = 0, missing = 0;
    *first = NULL;
    for (size_t k = 0; k < many->n; k++) {
        const part *p = &b->parts[many->first + k];
        int d = i < one->n ? order_rest(&b->parts[one->first + i], p) : 1;
        if (d < 0) return SIZE_MAX;
        if (d == 0) {
            i++;
        } else {
            if (!*first) *first = p;
            missing++;
        }
    }
    return i == one->n ? missing : SIZE_MAX;
}

static void odd_one_out(body *b, const group *one, const group *many)
{
    const part *first;
    size_t missing = lacking(b, one, many, &first);
    if (first && missing != SIZE_MAX && missing <= 2) {
        gg_check_say_block(b->c, GG_CHECK_ERROR, "block-roles", one->block,
                           "it lacks %.*s, which %zu other blocks of its kind have",
                           (int)(first->len < 100 ? first->len : 100), first->rest, many->alike);
    } else if (one->block > 0 && (missing = lacking(b, many, one, &first)) != SIZE_MAX && first &&
               missing <= 2) {
        bool known = gg_anatomy_of(first->t->name, first->t->name_len).known;
        gg_check_say_block(b->c, known ? GG_CHECK_WARNING : GG_CHECK_ERROR, "block-roles",
                           one->block, "it has %.*s, which %zu other blocks of its kind lack",
                           (int)(first->len < 100 ? first->len : 100), first->rest, many->alike);
    }
}

/* Compares each block whose set of names is unique with the sets that several blocks share. */
static void roles(body *b)
{
    const group *kinds[FEW];
    size_t n_kinds = 0, n = 0;
    group *list = calloc(b->n_groups + 1, sizeof *list);
    if (!list) return;
    for (size_t i = 0; i < b->n_groups; i++)
        if ((uint64_t)b->groups[i].block < b->c->trunk) list[n++] = b->groups[i];
    qsort(list, n, sizeof *list, by_signature);
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && list[end].signature == list[i].signature) end++;
        for (size_t k = i; k < end; k++) list[k].alike = end - i;
        if (end - i >= 2 && n_kinds < FEW) kinds[n_kinds++] = &list[i];
        i = end;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n_kinds && list[i].alike == 1; k++)
            odd_one_out(b, &list[i], kinds[k]);
    free(list);
}

/* ---- shapes ------------------------------------------------------------------------------------
 */

static bool same_shape(const gg_tensor *a, const gg_tensor *b)
{
    return memcmp(a->dims, b->dims, sizeof a->dims) == 0;
}

/* Whether there are keys that give each block its own sizes. */
static bool sized_per_block(const check *c)
{
    for (size_t i = 0; i < c->in->meta->n; i++) {
        const gg_kv *kv = &c->in->meta->kv[i];
        if (kv->type == GG_TYPE_ARR && c->arch_name && kv->key_len > c->arch_len &&
            memcmp(kv->key, c->arch_name, c->arch_len) == 0 && kv->count == c->blocks)
            return true;
    }
    return false;
}

/* Finds the single tensor of a role whose shape differs from all others, which must be at least
 * two and equal. */
static void odd_shape(check *c, const part *p, size_t n)
{
    if (n < 3) return;
    const gg_tensor *usual = same_shape(p[0].t, p[1].t) ? p[0].t : p[2].t;
    size_t odd = 0, at = 0;
    char have[100], want[100];
    for (size_t i = 0; i < n; i++)
        if (!same_shape(p[i].t, usual)) {
            odd++;
            at = i;
        }
    if (odd != 1) return;
    gg_check_shape_text(p[at].t->n_dims, p[at].t->dims, have, sizeof have);
    gg_check_shape_text(usual->n_dims, usual->dims, want, sizeof want);
    gg_check_say(c, GG_CHECK_ERROR, "tensor-shape", p[at].t->name, p[at].t->name_len,
                 "its shape is %s; in all other blocks it is %s", have, want);
}

static void check_shapes(body *b)
{
    if (sized_per_block(b->c)) return;
    size_t n = 0;
    for (size_t i = 0; i < b->n_parts; i++)
        if ((uint64_t)b->parts[i].block < b->c->trunk) b->parts[n++] = b->parts[i];
    qsort(b->parts, n, sizeof *b->parts, by_rest);
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        while (end < n && order_rest(&b->parts[i], &b->parts[end]) == 0) end++;
        odd_shape(b->c, &b->parts[i], end - i);
        i = end;
    }
}

/* Architectures for which some of the rules below do not apply. */
static const char odd[] = "eagle3 dflash wavtokenizer-dec qwen3tts pockettts openelm";
static const char odd_ffn[] = "arctic gemma4 gemma4-assistant qwen plamo3";
static const char odd_keys[] =
    "bailingmoe bailingmoe3 deepseek2-ocr dots1 kimi-linear kimi-k3 maple gemma4 gemma4-assistant "
    "gemma3n laguna mimo2 minimax-m3 minimax-01 spark2_5 hy_v4 falcon-h1 deepseek4 dots3note "
    "mistral4 minicpm3 deepseek32 glm-dsa plm chameleon qwen4exp";

static bool arch_in(const check *c, const char *list)
{
    return gg_check_word(list, c->arch_name, c->arch_len);
}

/* Whether every engine computes the shape of this tensor from the keys in the same way. */
static bool certain_shape(const check *c, const char *rest, size_t len)
{
    static const char always[] = "token_embd.weight output_norm.weight attn_norm.weight "
                                 "ffn_norm.weight ffn_gate_inp.weight";
    if (gg_check_word(always, rest, len)) return true;
    if (gg_check_word("ffn_down.weight", rest, len)) return !arch_in(c, odd_ffn);
    if (!gg_check_word("attn_k.weight", rest, len) || arch_in(c, odd_keys)) return false;
    check_shape k, v;
    return !gg_check_arch_key(c, "attention.key_length_swa") &&
           gg_check_shape_eval(c, "key", 3, 0, &k) && gg_check_shape_eval(c, "value", 5, 0, &v) &&
           k.dims[0] == v.dims[0];
}

/* Shapes that are the same in all architectures. */
static void common_shapes(check *c)
{
    static const char usual[] = "ffn_gate.weight ffn_up.weight";
    if (arch_in(c, odd)) return;
    for (size_t i = 0; i < c->in->n; i++) {
        const gg_tensor *t = &c->in->tensors[i];
        const gg_anatomy *a = &c->anatomy[i];
        if (a->block >= 0 && memcmp(t->name, "blk.", 4) != 0) continue;
        size_t at = a->block >= 0 ? a->role_at : 0;
        const char *rest = t->name + at, *formula;
        bool sure = certain_shape(c, rest, t->name_len - at);
        char want[100], have[100];
        check_shape s;
        if (!sure && !gg_check_word(usual, rest, t->name_len - at)) continue;
        formula = gg_check_shape_of(rest, t->name_len - at);
        if (!formula ||
            !gg_check_shape_eval(c, formula, strlen(formula), a->block < 0 ? 0 : (uint64_t)a->block,
                                 &s) ||
            gg_check_shape_fits(&s, t))
            continue;
        gg_check_shape_text(s.n, s.dims, want, sizeof want);
        gg_check_shape_text(t->n_dims, t->dims, have, sizeof have);
        gg_check_say(c, sure ? GG_CHECK_ERROR : GG_CHECK_WARNING, "tensor-shape", t->name,
                     t->name_len, "its shape is %s, but the keys require %s", have, want);
    }
}

static bool has(const check *c, const char *name)
{
    return gg_check_find(c, name, strlen(name)) != SIZE_MAX;
}

/* Models whose blocks begin with a norm have another norm after the last block, and every norm
 * needs an epsilon. */
static void norms(check *c)
{
    static const char *const last[] = { "output_norm.weight", "enc.output_norm.weight",
                                        "dec.output_norm.weight" };
    static const char *const keys[] = { "attention.layer_norm_rms_epsilon",
                                        "attention.layer_norm_epsilon",
                                        "attention.group_norm_epsilon" };
    static const char without[] = "olmo talkie hrm_text nomic-bert nomic-bert-moe neo-bert "
                                  "jina-bert-v2 jina-bert-v3 rwkv6qwen2 arwkv7";
    bool there = false, stated = false;
    if (!gg_check_arch_known(c->arch_name, c->arch_len) || arch_in(c, odd) || arch_in(c, without))
        return;
    for (int i = 0; i < 3; i++) {
        there = there || has(c, last[i]);
        stated = stated || gg_check_arch_key(c, keys[i]);
    }
    if (!there && has(c, "blk.0.attn_norm.weight"))
        gg_check_say(c, GG_CHECK_ERROR, "tensor-missing", last[0], strlen(last[0]),
                     "the norm after the last block is missing");
    if (!stated && there)
        gg_check_say(c, GG_CHECK_ERROR, "key-missing", keys[0], strlen(keys[0]),
                     "the epsilon of the norms is missing, under this key and under "
                     "attention.layer_norm_epsilon");
}

/* Compares the stacks of experts with expert_count. */
static void stacks(check *c)
{
    uint64_t count = gg_check_number_or(c, "expert_count", 0), n;
    for (size_t i = 0; i < c->in->n; i++) {
        const gg_tensor *t = &c->in->tensors[i];
        if (!gg_is_expert_stack(t, &n) || n == count) continue;
        gg_check_say(c, GG_CHECK_ERROR, "experts", t->name, t->name_len,
                     "it has %llu experts, but expert_count is %llu", (unsigned long long)n,
                     (unsigned long long)count);
    }
}

void gg_check_block_rules(check *c)
{
    body b = { .c = c };
    if (c->blocks == 0) return;
    if (!gather_parts(&b)) {
        c->status = gg_fail(c->err, GG_ENOMEM, "no memory to check %zu tensors", c->in->n);
    } else if (b.n_groups > 0 || !gg_check_word("t5 t5encoder", c->arch_name, c->arch_len)) {
        count_blocks(&b);
        if (!c->arch) {
            roles(&b);
            check_shapes(&b);
            common_shapes(c);
            stacks(c);
            norms(c);
        }
    }
    free(b.parts);
    free(b.groups);
}
