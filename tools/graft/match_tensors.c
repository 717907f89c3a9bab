/* match_tensors.c - matches tensors of a donor with those of a base, or gives the reason; and the
 * blocks that a base gets in addition, with their keys. About multi-token-prediction blocks see the
 * section on MTP in docs/grafting.md. */
#include "base/text.h"
#include "graft.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/names.h"
#include "gguf/gguf.h"
#include "organ/manifest.h"
#include "organ/record.h"
#include "organ/select.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "quant/quant.h"
#include "write/key_compat.h"
#include "write/layer_keys.h"
#include "write/verb_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- blocks that are added to the base ------------------------------------------------------ */

/* A block that is added to the base, and its number in the donor. */
typedef struct added {
    uint64_t to, from;
} added;

static int order_added(const void *a, const void *b)
{
    const added *x = a, *y = b;
    return x->to < y->to ? -1 : x->to > y->to;
}

static int64_t block_number(const char *name, size_t len)
{
    if (len < 4 || memcmp(name, "blk.", 4) != 0) return -1;
    return gg_anatomy_of(name, len).block;
}

/* The distinct blocks from `first` on that moves add, sorted. */
static size_t list_added(const gg_source *donor, const gg_moves *moves, uint64_t first, added *out)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < moves->n; i++) {
        const gg_move *move = &moves->list[i];
        int64_t to = block_number(move->name, move->name_len);
        if (move->kind != GG_MOVE_ADD || to < 0 || (uint64_t)to < first) continue;
        const gg_tensor *t = gg_source_tensor(donor, move->donor);
        int64_t from = block_number(t->name, t->name_len);
        out[n++] = (added){ (uint64_t)to, from < 0 ? UINT64_MAX : (uint64_t)from };
    }
    if (n) qsort(out, n, sizeof *out, order_added);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || out[i].to != out[i - 1].to) out[kept++] = out[i];
    return kept;
}

/* They must follow the base's last block, which is `first` - 1, without a gap and exist in the
 * donor. */
static gg_status check_added(const gg_layer_model models[2], uint64_t first, const added *list,
                             size_t n, gg_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i].to != first + i) {
            gg_fail(err, GG_NO, "block %llu would be added, but there is no block %llu",
                    (unsigned long long)list[i].to, (unsigned long long)(first + i));
            gg_fix_by(err, "map", "choose the number of the block with a map such as %llu=N",
                      (unsigned long long)(first + i));
            return gg_at_file(err, models[0].name);
        }
        if (models[1].blocks == 0 || list[i].from < models[1].blocks) continue;
        gg_fail(err, GG_NO, "it has tensors of block %llu, but block_count is %llu",
                (unsigned long long)list[i].from, (unsigned long long)models[1].blocks);
        return gg_at_file(err, models[1].name);
    }
    return GG_OK;
}

static gg_status add_layers(const gg_layer_model models[2], size_t first, const added *list,
                            size_t n, gg_meta *meta, gg_error *err)
{
    gg_layer *layers = calloc(first + n, sizeof *layers);
    if (!layers) return gg_fail(err, GG_ENOMEM, "no memory for the metadata");
    for (size_t i = 0; i < first; i++) layers[i] = (gg_layer){ 0, i };
    for (size_t i = 0; i < n; i++) layers[first + i] = (gg_layer){ 1, list[i].from };
    gg_status st = gg_layer_keys(models, 2, layers, first + n, meta, err);
    free(layers);
    return st;
}

gg_status gg_added_blocks_meta(const gg_source *base, const gg_source *donor, const gg_moves *moves,
                               bool mtp, gg_meta *meta, gg_error *err)
{
    static const gg_meta none = GG_META_INIT; /* for a donor of bare records */
    const gg_meta *theirs = gg_source_meta(donor) ? gg_source_meta(donor) : &none;
    gg_layer_model models[2] = { { gg_source_meta(base), gg_source_name(base), 0 },
                                 { theirs, gg_source_name(donor), 0 } };
    models[0].blocks = gg_arch_number(models[0].meta, "block_count");
    models[1].blocks = gg_arch_number(theirs, "block_count");
    if (models[0].blocks == 0 || models[0].blocks > GG_LAYERS_MAX)
        return gg_meta_copy(meta, models[0].meta, err);
    added *list = calloc(moves->n + 1, sizeof *list);
    if (!list) return gg_fail(err, GG_ENOMEM, "no memory for the moves");
    uint64_t first = mtp ? gg_layer_trunk(&models[0]) : models[0].blocks;
    size_t n = list_added(donor, moves, first, list);
    gg_status st = check_added(models, first, list, n, err);
    if (st == GG_OK)
        st = n ? add_layers(models, (size_t)first, list, n, meta, err)
               : gg_meta_copy(meta, models[0].meta, err);
    free(list);
    return st;
}

/* ---- multi-token-prediction blocks -------------------------------------------------------------
 */

typedef struct mtp {
    const gg_source *base, *donor;
    const gg_meta *bm, *dm;
    uint64_t base_blocks, donor_blocks, nextn;
    gg_error *err;
} mtp;

static gg_status refuse_donor(const mtp *m, const char *what)
{
    return gg_fail_in(m->err, GG_NO, m->donor, NULL, "%s", what);
}

static void refuse_first_conflict(void *ctx, gg_conflict kind, const char *line)
{
    if (kind == GG_CONFLICT_UNSURE) return;
    const mtp *m = ctx;
    refuse_donor(m, line);
}

/* The index of the base's first tensor of this block or a later one; SIZE_MAX if none. */
static size_t tensor_from(const gg_source *base, uint64_t block)
{
    for (size_t i = 0; i < gg_source_count(base); i++) {
        const gg_tensor *t = gg_source_tensor(base, i);
        if (t->a.block >= 0 && (uint64_t)t->a.block >= block) return i;
    }
    return SIZE_MAX;
}

/* A base may announce prediction blocks that it does not have, because they are in a separate
 * file. It counts as having none, but its arrays have the announced length. */
static gg_status measure_base(mtp *m)
{
    uint64_t announced = gg_arch_number(m->bm, "nextn_predict_layers");
    gg_layer_model base = { m->bm, gg_source_name(m->base), gg_arch_number(m->bm, "block_count") };
    m->base_blocks = gg_layer_trunk(&base);
    if (base.blocks == 0) {
        gg_fail(m->err, GG_NO, "the base has no block_count");
    } else if (announced > 0 &&
               (announced >= base.blocks || tensor_from(m->base, m->base_blocks) != SIZE_MAX)) {
        gg_fail(m->err, GG_NO, "the base already has multi-token-prediction blocks");
        gg_fix(m->err, "replace their tensors by name (--tensors 'blk.N.*')");
    } else {
        return gg_layer_lengths(&base, m->err);
    }
    return gg_at_file(m->err, base.name);
}

static gg_status start_mtp(mtp *m, const gg_source *base, const gg_source *donor, gg_error *err)
{
    *m = (mtp){ .base = base,
                .donor = donor,
                .bm = gg_source_meta(base),
                .dm = gg_source_meta(donor),
                .err = err };
    if (!m->bm || !m->dm) return refuse_donor(m, "both must be models, not bare organ records");
    if (gg_key_conflicts(m->bm, m->dm, GG_COMPAT_BLOCKS, refuse_first_conflict, m) > 0)
        return GG_NO;
    m->donor_blocks = gg_arch_number(m->dm, "block_count");
    m->nextn = gg_arch_number(m->dm, "nextn_predict_layers");
    if (m->nextn == 0)
        return refuse_donor(
            m,
            "the donor has no multi-token-prediction blocks (nextn_predict_layers is 0 or absent)");
    if (m->nextn >= m->donor_blocks || m->donor_blocks > GG_LAYERS_MAX ||
        gg_arch_number(m->bm, "block_count") > GG_LAYERS_MAX)
        return refuse_donor(
            m, "the donor's nextn_predict_layers and block_count contradict each other");
    gg_layer_model from = { m->dm, gg_source_name(donor), m->donor_blocks };
    gg_status st = measure_base(m);
    return st == GG_OK ? gg_layer_lengths(&from, err) : st;
}

/* Every engine requires eh_proj [2 n_embd, n_embd], enorm and hnorm [n_embd]. */
static gg_status check_mtp_block(const mtp *m, uint64_t block)
{
    static const char *const needed[] = { "eh_proj", "enorm", "hnorm" };
    uint64_t n_embd = gg_arch_number(m->dm, "embedding_length");
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        int len = snprintf(name, sizeof name, "blk.%llu.nextn.%s.weight", (unsigned long long)block,
                           needed[i]);
        size_t k = gg_source_find(m->donor, name, (size_t)len);
        if (k == SIZE_MAX)
            return gg_fail_in(m->err, GG_NO, m->donor, NULL, "the donor has no %s", name);
        const gg_tensor *t = gg_source_tensor(m->donor, k);
        bool fits = i == 0 ? t->dims[0] == 2 * n_embd && t->dims[1] == n_embd
                           : t->dims[0] == n_embd && t->elements == n_embd;
        if (!fits)
            return gg_fail_in(m->err, GG_NO, m->donor, NULL,
                              "the donor's %s does not match its embedding length of %llu", name,
                              (unsigned long long)n_embd);
    }
    return GG_OK;
}

/* The base must not have tensors of blocks from block_count on. */
static gg_status check_room(const mtp *m)
{
    size_t i = tensor_from(m->base, m->base_blocks);
    if (i == SIZE_MAX) return GG_OK;
    const gg_tensor *t = gg_source_tensor(m->base, i);
    return gg_fail_in(m->err, GG_NO, m->base, t,
                      "the base has a tensor of block %lld, but a block_count of %llu",
                      (long long)t->a.block, (unsigned long long)m->base_blocks);
}

/* The name that the donor's tensor gets in the base. */
static gg_status renumber(const mtp *m, const gg_tensor *t, int64_t block, gg_move *move,
                          gg_names *names)
{
    char name[GG_RECORD_NAME + 1];
    int64_t to = (int64_t)m->base_blocks + block - (int64_t)(m->donor_blocks - m->nextn);
    if (!gg_name_with_block(t->name, t->name_len, to, name, sizeof name, &move->name_len))
        return gg_fail_in(m->err, GG_NO, m->donor, t, "its name cannot be changed to block %lld",
                          (long long)to);
    if (gg_source_find(m->base, name, move->name_len) != SIZE_MAX) {
        gg_fail(m->err, GG_NO, "the base already has a tensor with this name");
        gg_at_tensor(m->err, name, move->name_len);
        return gg_at_file(m->err, gg_source_name(m->base));
    }
    move->name = gg_names_add(names, name, move->name_len, m->err);
    return move->name ? GG_OK : GG_ENOMEM;
}

/* Fills in `moves` for gg_match_options.mtp, with the rules of gg_match_tensors. */
static gg_status mtp_moves(const gg_source *base, const gg_source *donor, gg_moves *moves,
                           gg_error *err)
{
    mtp m;
    gg_status st = start_mtp(&m, base, donor, err);
    uint64_t first = m.donor_blocks - m.nextn;
    if (st == GG_OK) st = check_room(&m);
    for (uint64_t b = first; st == GG_OK && b < m.donor_blocks; b++) st = check_mtp_block(&m, b);
    if (st != GG_OK) return st;
    gg_names names = { 0 };
    moves->list = calloc(gg_source_count(donor) + 1, sizeof *moves->list);
    if (!moves->list) return gg_fail(err, GG_ENOMEM, "no memory for the moves");
    for (size_t i = 0; i < gg_source_count(donor) && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(donor, i);
        if (t->a.block < (int64_t)first || t->a.block >= (int64_t)m.donor_blocks) continue;
        gg_move *move = &moves->list[moves->n++];
        *move = (gg_move){ .kind = GG_MOVE_ADD, .base = SIZE_MAX, .donor = i };
        st = renumber(&m, t, t->a.block, move, &names);
    }
    moves->texts = names.last;
    return st;
}

/* ---- matching by name --------------------------------------------------------------------- */

const char *gg_move_name(gg_move_kind kind)
{
    static const char *const names[] = { "replace", "retype", "convert", "add", "mismatch" };
    return names[kind];
}

typedef struct matcher {
    const gg_source *base, *donor;
    const gg_match_options *o;
    gg_moves *moves;
    size_t cap;
    gg_names texts;
    bool *taken; /* donor tensors that are matched */
    bool part;   /* the donor is bare records */
    struct block_list {
        int64_t *list; /* block of each tensor, ascending, with duplicates */
        size_t n;
    } base_blocks, donor_blocks;
    gg_error *err;
} matcher;

static gg_status list_blocks(const gg_source *s, struct block_list *out, gg_error *err)
{
    size_t n = gg_source_count(s);
    out->list = calloc(n + 1, sizeof *out->list);
    if (!out->list) return gg_fail(err, GG_ENOMEM, "no memory for %zu tensors", n);
    for (size_t i = 0; i < n; i++) {
        const gg_tensor *t = gg_source_tensor(s, i);
        if (t->a.block >= 0) out->list[out->n++] = t->a.block;
    }
    if (out->n) qsort(out->list, out->n, sizeof *out->list, gg_order_i64);
    return GG_OK;
}

/* Whether this is the number of a block without tensors. */
static bool lacks_block(const struct block_list *l, int64_t block)
{
    return block >= 0 &&
           (l->n == 0 || !bsearch(&block, l->list, l->n, sizeof *l->list, gg_order_i64));
}

static gg_move *new_move(matcher *m)
{
    gg_moves *to = m->moves;
    if (GG_ROOM(to->list, to->n, &m->cap, m->err) != GG_OK) return NULL;
    to->list[to->n] = (gg_move){ .base = SIZE_MAX, .donor = SIZE_MAX };
    return &to->list[to->n++];
}

/* Marks the move as a mismatch with a reason. */
static gg_status GG_PRINTF(3, 4) mismatch(matcher *m, gg_move *move, const char *fmt, ...)
{
    char text[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    move->kind = GG_MOVE_MISMATCH;
    move->reason = gg_names_add(&m->texts, text, strlen(text), m->err);
    return move->reason ? GG_OK : GG_ENOMEM;
}

/* Makes the move a mismatch if the donor's values, or those of the ancestor in a task blend, cannot
 * be converted to the base's dtype. */
static gg_status judge_values(matcher *m, gg_move *move, const gg_tensor *b, const gg_tensor *d)
{
    const gg_blend *blend = &m->o->blend;
    const gg_source *ancestor = blend->mode == GG_BLEND_TASK ? blend->ancestor : NULL;
    if (!gg_can_decode(d->dtype))
        return mismatch(m, move, "no codec decodes the donor's %s", gg_dtype_name(d->dtype));
    bool needs = gg_encode_needs_imatrix(b->dtype);
    if (!gg_can_encode(b->dtype) && !(needs && m->o->weighed))
        return mismatch(m, move, "%s cannot be encoded%s", gg_dtype_name(b->dtype),
                        needs ? " without an importance matrix" : "");
    size_t i = ancestor ? gg_source_find(ancestor, d->name, d->name_len) : 0;
    if (i == SIZE_MAX) return mismatch(m, move, "the ancestor does not have %.63s", d->name);
    const gg_tensor *t = ancestor ? gg_source_tensor(ancestor, i) : NULL;
    if (t && !gg_same_dims(t, d))
        return mismatch(m, move, "the ancestor's dims differ from the donor's");
    if (t && !gg_can_decode(t->dtype))
        return mismatch(m, move, "no codec decodes the ancestor's %s", gg_dtype_name(t->dtype));
    move->kind = GG_MOVE_CONVERT;
    return GG_OK;
}

/* `option` would allow the move. */
static gg_status other_types(matcher *m, gg_move *move, const char *option, const gg_tensor *b,
                             const gg_tensor *d)
{
    move->option = option;
    return mismatch(m, move, "dtypes differ: base %s, donor %s", gg_dtype_name(b->dtype),
                    gg_dtype_name(d->dtype));
}

/* Counts the selected experts that both stacks (or routers) have. */
static gg_status judge_experts(matcher *m, gg_move *move, const gg_tensor *b, const gg_tensor *d)
{
    uint32_t last = b->n_dims ? b->n_dims - 1 : 0;
    uint64_t n_base = b->dims[last], n_donor = d->dims[last], found = 0;
    bool same = b->n_dims == d->n_dims && b->n_dims > 0 &&
                memcmp(b->dims, d->dims, last * sizeof b->dims[0]) == 0;
    move->experts = true;
    bool convert = b->dtype != d->dtype || m->o->blend.mode;
    if (!same) return mismatch(m, move, "single experts move only between stacks of equal dims");
    if (convert && !m->o->blend.mode && m->o->mode != GG_MATCH_CONVERT)
        return other_types(m, move, "--match convert", b, d);
    bool blocks = gg_dtype_get(b->dtype)->block_elems > 1 ||
                  gg_dtype_get(d->dtype)->block_elems > 1;
    if (n_base > GG_EXPERTS_MAX || (b->n_dims == 1 && blocks))
        return mismatch(
            m, move,
            "it has too many experts, or they share blocks, so they cannot move one by one");
    for (uint64_t e = 0; e < n_base; e++) {
        if (!gg_select_expert(m->o->select, e)) continue;
        found++;
        uint64_t from = gg_select_donor_expert(m->o->select, e);
        if (from >= n_donor)
            return mismatch(m, move, "the donor has no expert %llu", (unsigned long long)from);
    }
    if (!found) return mismatch(m, move, "the base has none of these experts");
    if (convert) return judge_values(m, move, b, d);
    move->kind = GG_MOVE_REPLACE;
    return GG_OK;
}

/* Decides how the pair can be moved. */
static gg_status judge(matcher *m, gg_move *move)
{
    const gg_tensor *b = gg_source_tensor(m->base, move->base),
                    *d = gg_source_tensor(m->donor, move->donor);
    if (gg_select_has_experts(m->o->select) && b->a.expert < 0) return judge_experts(m, move, b, d);
    if (!gg_same_dims(b, d)) {
        char bd[96], dd[96];
        gg_dims_text(b, bd);
        gg_dims_text(d, dd);
        return mismatch(m, move, "dims differ: base %.40s, donor %.40s", bd, dd);
    }
    if (m->o->blend.mode) return judge_values(m, move, b, d);
    if (b->dtype == d->dtype) {
        move->kind = GG_MOVE_REPLACE;
        return GG_OK;
    }
    switch (m->o->mode) {
    case GG_MATCH_RETYPE: move->kind = GG_MOVE_RETYPE; return GG_OK;
    case GG_MATCH_CONVERT: return judge_values(m, move, b, d);
    case GG_MATCH_EXACT: break;
    }
    return other_types(m, move, "--match retype or convert", b, d);
}

static bool selected(const matcher *m, const char *name, size_t len, const gg_anatomy *a)
{
    if (m->o->map && (a->block < 0 || gg_map_donor(m->o->map, a->block) < 0)) return false;
    gg_anatomy as_stack = *a;
    as_stack.stack = a->stack || (m->o->router && gg_is_router(name, a));
    return gg_select_match(m->o->select, name, len, &as_stack);
}

/* Some values are scaled by a separate tensor (in NVFP4). They must move together with it, and
 * other values must not be moved under it. */
static gg_status judge_scale(matcher *m, gg_move *move)
{
    char name[GG_RECORD_NAME + 1], theirs[GG_RECORD_NAME + 1];
    const gg_tensor *d = gg_source_tensor(m->donor, move->donor);
    size_t base = gg_find_scale(m->base, move->name, move->name_len, name),
           donor = gg_find_scale(m->donor, d->name, d->name_len, theirs);
    if (move->kind == GG_MOVE_MISMATCH || m->part || (base == SIZE_MAX && donor == SIZE_MAX))
        return GG_OK;
    gg_anatomy a = gg_anatomy_of(name, move->name_len - 1);
    bool follows = selected(m, name, move->name_len - 1, &a);
    if (m->o->blend.mode)
        return mismatch(m, move, "values scaled by %.63s cannot be blended", name);
    if (donor == SIZE_MAX) return mismatch(m, move, "the base's %.63s would scale them too", name);
    if (base == SIZE_MAX && !(follows && m->o->add)) {
        move->option = "select it, and use --add";
        return mismatch(m, move, "it needs the donor's %.63s as well", name);
    }
    return follows ? GG_OK : mismatch(m, move, "%.63s must move with it: select it too", name);
}

/* Gives the reason why the donor lacks a tensor of the base. */
static gg_status missing(matcher *m, gg_move *move, const char *wanted, size_t len)
{
    const gg_manifest *dir = gg_source_manifest(m->donor);
    char other[GG_RECORD_NAME + 8];
    size_t n;
    int64_t block = gg_anatomy_of(wanted, len).block;
    if (lacks_block(&m->donor_blocks, block))
        return mismatch(m, move, "the donor has no block %lld (no %.63s)", (long long)block,
                        wanted);
    if (gg_stack_name(wanted, len, other, sizeof other, &n) &&
        gg_source_find(m->donor, other, n) != SIZE_MAX) {
        move->option = "organ-extract --split-experts";
        return mismatch(m, move, "the donor has it in the stack %.40s: split its experts", other);
    }
    if (dir && dir->n_stacks > 0 && gg_expert_name(wanted, len, 0, other, sizeof other, &n))
        return mismatch(m, move, "the donor has single experts, but the base has stacks");
    return mismatch(m, move, "the donor has no %.63s", wanted);
}

/* Makes "blk.0.ffn_up.5.weight" from "blk.0.ffn_up.2.weight" and 5. Stores it in `name`, which may
 * be the same as `as`, and returns it; NULL if it does not fit. */
static const char *with_expert(const char *as, size_t *len, uint64_t expert,
                               char name[GG_RECORD_NAME + 1])
{
    char stack[GG_RECORD_NAME + 8], other[GG_RECORD_NAME + 1];
    size_t n, other_len;
    if (!gg_stack_name(as, *len, stack, sizeof stack, &n) ||
        !gg_expert_name(stack, n, expert, other, sizeof other, &other_len))
        return NULL;
    gg_text_copy(name, GG_RECORD_NAME + 1, other, other_len);
    *len = other_len;
    return name;
}

/* The donor's name for a tensor of the base by both maps, stored in `name`. */
static const char *name_in_donor(const matcher *m, const gg_tensor *b, const gg_anatomy *a,
                                 char name[GG_RECORD_NAME + 1], size_t *len)
{
    const char *wanted = b->name;
    *len = b->name_len;
    if (m->o->map && a->block >= 0 &&
        gg_name_with_block(b->name, b->name_len, gg_map_donor(m->o->map, a->block), name,
                           GG_RECORD_NAME + 1, len))
        wanted = name;
    uint64_t expert = a->expert < 0 ? 0 : (uint64_t)a->expert,
             from = gg_select_donor_expert(m->o->select, expert);
    if (a->expert < 0 || from == expert) return wanted;
    const char *other = with_expert(wanted, len, from, name);
    return other ? other : wanted;
}

static gg_status match_base(matcher *m, size_t i)
{
    const gg_tensor *b = gg_source_tensor(m->base, i);
    if (!selected(m, b->name, b->name_len, &b->a)) return GG_OK;
    char name[GG_RECORD_NAME + 1];
    size_t len;
    const char *wanted = name_in_donor(m, b, &b->a, name, &len);
    size_t d = gg_source_find(m->donor, wanted, len);
    if (d == SIZE_MAX && m->part) return GG_OK;
    gg_move *move = new_move(m);
    if (!move) return m->err->status;
    move->name = b->name;
    move->name_len = b->name_len;
    move->base = i;
    move->donor = d;
    if (d == SIZE_MAX) return missing(m, move, wanted, len);
    m->taken[d] = true;
    gg_status st = judge(m, move);
    return st == GG_OK ? judge_scale(m, move) : st;
}

/* The base's name for a tensor of the donor by both maps; NULL if it does not move. */
static const char *name_in_base(const matcher *m, const gg_tensor *t, const gg_anatomy *a,
                                char name[GG_RECORD_NAME + 1], size_t *len)
{
    const char *as = t->name;
    *len = t->name_len;
    if (m->o->map) {
        int64_t to = gg_map_base(m->o->map, a->block);
        if (to < 0 || !gg_name_with_block(t->name, t->name_len, to, name, GG_RECORD_NAME + 1, len))
            return NULL;
        as = name;
    }
    int64_t expert = a->expert < 0 ? -1 : gg_select_base_expert(m->o->select, (uint64_t)a->expert);
    if (a->expert < 0 || expert == a->expert) return as;
    return expert < 0 ? NULL : with_expert(as, len, (uint64_t)expert, name);
}

static gg_status match_donor_only(matcher *m, size_t d)
{
    const gg_tensor *t = gg_source_tensor(m->donor, d);
    gg_anatomy a = t->a;
    char name[GG_RECORD_NAME + 1];
    size_t len;
    const char *as = name_in_base(m, t, &t->a, name, &len);
    if (!as) return GG_OK;
    if (as == name) {
        a = gg_anatomy_of(name, len);
        a.cls = t->a.cls;
    }
    if (!selected(m, as, len, &a) || gg_source_find(m->base, as, len) != SIZE_MAX) return GG_OK;
    gg_move *move = new_move(m);
    if (!move) return m->err->status;
    move->name = as == name ? gg_names_add(&m->texts, name, len, m->err) : as;
    if (!move->name) return GG_ENOMEM;
    move->name_len = len;
    move->donor = d;
    move->kind = GG_MOVE_ADD;
    if (m->o->add) return GG_OK;
    move->option = "use --add to include it";
    if (lacks_block(&m->base_blocks, a.block))
        return mismatch(m, move, "the base has no block %lld", (long long)a.block);
    return mismatch(m, move, "the base does not have this tensor");
}

/* Concatenated records can have a name twice, which would be ambiguous. */
static gg_status one_of_each(const gg_source *donor, gg_error *err)
{
    for (size_t i = 0; i < gg_source_count(donor); i++) {
        const gg_tensor *t = gg_source_tensor(donor, i);
        size_t k = gg_source_find(donor, t->name, t->name_len);
        if (k == i || k == SIZE_MAX) continue;
        gg_fail_in(err, GG_EFORMAT, donor, t, "it has two tensors with this name");
        return gg_fix(err, "remove one of them");
    }
    return GG_OK;
}

gg_status gg_match_tensors(const gg_source *base, const gg_source *donor, const gg_match_options *o,
                           gg_moves *moves, gg_error *err)
{
    o = GG_OPTIONS(gg_match_options, o);
    if (o->mtp) return mtp_moves(base, donor, moves, err);
    matcher m = { .base = base, .donor = donor, .o = o, .moves = moves, .err = err };
    m.part = gg_source_meta(donor) == NULL;
    m.taken = calloc(gg_source_count(donor) + 1, sizeof *m.taken);
    gg_status st = m.taken ? one_of_each(donor, err)
                           : gg_fail(err, GG_ENOMEM, "no memory for the donor's tensors");
    if (st == GG_OK) st = gg_select_check(o->select, base, donor, &(gg_select_when){ 0 }, err);
    if (st == GG_OK) st = list_blocks(base, &m.base_blocks, err);
    if (st == GG_OK) st = list_blocks(donor, &m.donor_blocks, err);
    for (size_t i = 0; i < gg_source_count(base) && st == GG_OK; i++) st = match_base(&m, i);
    for (size_t d = 0; d < gg_source_count(donor) && st == GG_OK; d++)
        if (!m.taken[d]) st = match_donor_only(&m, d);
    free(m.taken);
    free(m.base_blocks.list);
    free(m.donor_blocks.list);
    moves->texts = m.texts.last;
    return st;
}

void gg_moves_free(gg_moves *m)
{
    gg_names texts = { m->texts };
    gg_names_free(&texts);
    free(m->list);
    *m = (gg_moves){ 0 };
}
