/* gg_transplant.h - put tensors of a donor into a base: a new model, or the base
 * itself changed in place. See gg_verbs.h for gg_run.
 */
#ifndef GG_TRANSPLANT_H
#define GG_TRANSPLANT_H

#include "gg_organ.h"
#include "gg_verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gg_match_mode {
    GG_MATCH_EXACT,   /* equal dims and dtype: equal bytes */
    GG_MATCH_RETYPE,  /* equal dims; the donor's dtype, header rewritten */
    GG_MATCH_CONVERT, /* equal dims; donor's values re-encoded in the base's dtype */
} gg_match_mode;

/* How the values of base (A) and donor (B) become one tensor. */
typedef enum gg_blend_mode {
    GG_BLEND_NONE,   /* no blend: the donor's values */
    GG_BLEND_LINEAR, /* A + T (B - A) */
    GG_BLEND_SLERP,  /* along the arc: (sin((1-T)w) A + sin(T w) B) / sin w, where w is the angle
                        between A and B as vectors of all their values; linear where
                        |cos w| > 0.9995 or one of them is 0 */
    GG_BLEND_TASK,   /* A + T (B - C), where C is the common ancestor */
} gg_blend_mode;

/* A blend. All zero means none. Fill it with gg_blend_parse. */
typedef struct gg_blend {
    gg_blend_mode mode;
    double first, last;  /* T of the first and of the last block */
    gg_source *ancestor; /* not owned; must outlive every use of the blend; read by task only */
    char text[96];       /* what was parsed, for records of what was done */
} gg_blend;

/* Parse "linear:T", "slerp:T" or "task:T". T is a number or a ramp over the blocks such as
 * 0.2..0.8, within 0..1 for linear and slerp and within -10..10 for task. `text` NULL gives
 * no blend. `ancestor` may be NULL unless the mode is task.
 * Returns GG_EUSAGE if the text is wrong or the ancestor is missing; *out is then unchanged. */
gg_status gg_blend_parse(const char *text, gg_source *ancestor, gg_blend *out, gg_error *err);

/* What is to happen to one tensor. */
typedef enum gg_move_kind {
    GG_MOVE_REPLACE,  /* donor's bytes as they are */
    GG_MOVE_RETYPE,   /* donor's bytes and dtype */
    GG_MOVE_CONVERT,  /* donor's values in the base's dtype */
    GG_MOVE_ADD,      /* the base has none: appended */
    GG_MOVE_MISMATCH, /* cannot be: see reason */
} gg_move_kind;

const char *gg_move_name(gg_move_kind kind); /* "replace" "retype" ... */

typedef struct gg_move {
    gg_move_kind kind;
    size_t base, donor; /* tensor indices, SIZE_MAX = none there */
    const char *name;   /* in the base (or as it will be); lives as long as the */
    size_t name_len;    /* sources and the list, a NUL follows */
    bool experts;       /* only the selected experts of a stack, or their router rows */
    const char *reason; /* of a mismatch; else NULL */
    gg_hint hint;       /* the argument that would let a mismatch move */
} gg_move;

typedef struct gg_moves {
    gg_move *list;
    size_t n;
    struct gg_names_chunk *texts; /* internal: where names and reasons are kept */
} gg_moves;

void gg_moves_free(gg_moves *m); /* back to all zero */

typedef struct gg_match_options {
    const gg_select *select; /* over base names; NULL = all */
    const gg_map *map;       /* NULL = block N from block N */
    gg_match_mode mode;
    bool add;       /* take donor tensors that the base lacks */
    bool router;    /* with experts in `select`: their rows of the router too */
    gg_blend blend; /* blended values take any pair of dtypes that codecs know */
} gg_match_options;

/* Pair a seekable base with a seekable donor. Every selected tensor that either has
 * gives one move, in the base's order, then what only the donor has in its order.
 * Two donor tensors of one name: GG_EFORMAT.
 * With a map only blocks that it names move. A donor of bare records is a part on
 * purpose: base tensors it lacks are no mismatch. Where experts are selected, stacks of
 * experts move in part: equal dims but for their number; other dtypes with
 * GG_MATCH_CONVERT and for blends. *moves must be all zero and is the caller's to free,
 * whatever is returned. */
gg_status gg_match_tensors(const gg_source *base, const gg_source *donor, const gg_match_options *o,
                           gg_moves *moves, gg_error *err);

/* ---- would it work? --------------------------------------------------------- */

/* The result of gg_graft_check. */
typedef struct gg_graft_check_report {
    size_t move, mismatched;
    size_t conflicts;  /* keys that differ: architecture, lengths, heads, vocabulary */
    bool strangers;    /* no common training lineage: a graft gives noise */
    char lineage[160]; /* the verdict in words */
} gg_graft_check_report;

/* Judge moves. Each key that differs becomes a note of the run. The lineage is that of the
 * tensors that would be replaced. */
gg_status gg_graft_check(gg_source *base, gg_source *donor, const gg_moves *moves,
                         const gg_run *run, gg_graft_check_report *out, gg_error *err);

/* ---- transplant --------------------------------------------------------------- */

/* One GG_MOVE_ADD a tensor of the donor's last nextn_predict_layers blocks, renumbered
 * to follow the base's last block. GG_NO names what does not agree: architecture,
 * embedding length, heads, vocabulary, rope, FFN and experts; a donor without such
 * blocks, or with an incomplete one; a base that has some already. */
gg_status gg_mtp_moves(const gg_source *base, const gg_source *donor, gg_moves *moves,
                       gg_error *err);

typedef struct gg_transplant_options {
    gg_match_options match;
    bool skip_mismatched;      /* leave mismatches out instead of failing */
    const char *const *set_kv; /* KEY=TYPE:VALUE texts, as gg_meta_set_text */
    size_t n_set_kv;
    const char *const *set_kv_files; /* KEY=FILE texts, as gg_meta_set_file; done last */
    size_t n_set_kv_files;
    const char *const
        *copy_kv; /* keys to copy from the donor; a trailing * takes all that begin so */
    size_t n_copy_kv;
    bool mtp; /* move the donor's multi-token-prediction blocks, and
                 nothing else: see docs/grafting.md */
    /* The donor is a LoRA adapter: W + scale * (alpha / r) * B A for each W of the base that it
     * has a pair for, as gg_graft_adapter. Nothing else moves; `match` is not used. */
    bool adapter;
    double scale;
    /* As in gg_assemble_options, for the model with the moves done. Tensors that are converted,
     * blended or folded are encoded once, in their new type. */
    const char *dtype, *fallback;
    uint32_t shards;
    uint64_t shard_size;
} gg_transplant_options;

typedef struct gg_transplant_report {
    size_t moved, added, skipped;
    uint64_t bytes_moved, bytes_written;
} gg_transplant_report;

/* Base with the moves done, as one file `output` (unless shards are asked for, which are then
 * named as by gg_assemble); bytes that do not move, odd padding and what follows the tensors of
 * one file stay as they are. GG_NO with the first mismatch named when there is one (and not
 * skip_mismatched), nothing moves, or nothing matches `dtype`: before anything is written. */
gg_status gg_transplant(gg_source *base, gg_source *donor, const gg_transplant_options *o,
                        const char *output, const gg_run *run, gg_transplant_report *report,
                        gg_error *err);

/* The same into the base's own file(s). Only moves that keep dims and dtype (convert
 * and blends do); no keys change; GG_EUSAGE for an adapter, dtypes and shards. With `undo`, the
 * bytes to be replaced are first written there as an organ stream and are on disk before the first
 * byte of the base changes: given as donor to another run in place they restore the base to the
 * byte, whenever this run was cut off. `path` is the base's GGUF file (any shard). */
gg_status gg_transplant_in_place(const char *path, gg_source *donor, const gg_transplant_options *o,
                                 const char *undo, const gg_run *run, gg_transplant_report *report,
                                 gg_error *err);

#ifdef __cplusplus
}
#endif

#endif
