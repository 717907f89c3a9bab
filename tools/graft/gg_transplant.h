/* gg_transplant.h - put tensors of a donor, or a LoRA adapter, into a base: as a new model, as an
 * organ directory, or in place.
 *
 * gg_match_tensors pairs the tensors, gg_graft_check judges the pairs, and gg_transplant matches
 * and writes. The general rules of organ.h apply.
 */
#ifndef GG_TRANSPLANT_H
#define GG_TRANSPLANT_H

#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"

#include "blend.h"

GG_BEGIN_DECLS

typedef enum gg_match_mode {
    GG_MATCH_EXACT,   /* equal dims and dtype: equal bytes */
    GG_MATCH_RETYPE,  /* equal dims; the donor's dtype, header rewritten */
    GG_MATCH_CONVERT, /* equal dims; donor's values re-encoded in the base's dtype */
} gg_match_mode;

/* How a tensor is moved. */
typedef enum gg_move_kind {
    GG_MOVE_REPLACE,  /* the donor's bytes; same dtype */
    GG_MOVE_RETYPE,   /* donor's bytes and dtype */
    GG_MOVE_CONVERT,  /* donor's values in the base's dtype */
    GG_MOVE_ADD,      /* the base lacks it: append it */
    GG_MOVE_MISMATCH, /* cannot move: see reason */
} gg_move_kind;

/* Returns "replace", "retype", "convert", "add" or "mismatch"; a static string. */
const char *gg_move_name(gg_move_kind kind);

typedef struct gg_move {
    gg_move_kind kind;
    size_t base, donor; /* tensor indices, SIZE_MAX = none there */
    /* The name in the new model, name_len bytes and a NUL; valid as long as the sources and the
     * list. */
    const char *name;
    size_t name_len;
    bool experts;       /* only the selected experts of a stack, or their router rows */
    const char *reason; /* of a mismatch; else NULL */
    const char *option; /* that would let the mismatch move; NULL = none. Static */
} gg_move;

typedef struct gg_moves {
    gg_move *list;
    size_t n;
    struct gg_names_chunk *texts; /* private: memory of names and reasons */
} gg_moves;

/* Frees the list and makes it all zero again. */
void gg_moves_free(gg_moves *m);

typedef struct gg_match_options {
    const gg_select *select; /* over base names; NULL = all */
    const gg_map *map;       /* NULL = block N from block N */
    gg_match_mode mode;
    bool add; /* take donor tensors that the base lacks */
    /* Move the donor's last nextn_predict_layers blocks, and nothing else: one GG_MOVE_ADD per
     * tensor, renumbered to follow the base's last block. The other members are then ignored. See
     * docs/grafting.md. */
    bool mtp;
    bool weighed;   /* values will be encoded with an importance matrix */
    bool router;    /* if `select` has experts: move their rows of the router too */
    gg_blend blend; /* accepts any pair of dtypes that can be decoded and encoded */
} gg_match_options;

/* Pairs a seekable base with a seekable donor. There is one move per selected tensor that either of
 * them has: first those of the base in its order, then those that only the donor has. With a map,
 * only blocks that it names are moved. A donor of organ records, which have no keys, is meant to
 * be a part of a model: tensors of the base that it lacks are not mismatches. If experts are
 * selected, stacks of experts move in part: their dims must agree except for the number of experts,
 * and their dtypes too except with GG_MATCH_CONVERT or a blend.
 *
 * *moves must be all zero. The caller frees it, even after an error, and before the sources are
 * closed. Errors: GG_EFORMAT if the donor has two tensors of one name. With `mtp`, GG_NO if
 * architecture, embedding length, heads, vocabulary, rope, feed-forward length or experts differ,
 * if the donor has no such block or an incomplete one, or if the base already has some. */
gg_status gg_match_tensors(const gg_source *base, const gg_source *donor, const gg_match_options *o,
                           gg_moves *moves, gg_error *err);

/* ---- would it work? --------------------------------------------------------- */

/* The result of gg_graft_check. */
typedef struct gg_graft_check_report {
    size_t move, mismatched;
    size_t conflicts;  /* keys that differ: architecture, lengths, heads, vocabulary */
    bool strangers;    /* no common training lineage: the result would be noise */
    char lineage[160]; /* the verdict in words */
} gg_graft_check_report;

/* Judges moves without writing. Each key that differs is passed to run->note. The lineage is that
 * of the tensors that would be replaced. `out` must not be NULL. */
gg_status gg_graft_check(gg_source *base, gg_source *donor, const gg_moves *moves,
                         const gg_run *run, gg_graft_check_report *out, gg_error *err);

/* ---- transplant --------------------------------------------------------------- */

typedef struct gg_transplant_options {
    gg_match_options match;
    bool skip_mismatched; /* leave mismatches out instead of failing */
    gg_texts copy_kv;     /* keys to copy from the donor; a trailing * takes all that begin so */
    /* The donor is a LoRA adapter: W + scale * (alpha / r) * B A for each W of the base that it
     * has a pair A, B for, encoded in W's dtype. Nothing else moves; `match` is not used. */
    bool adapter;
    double scale;
    /* Write an organ directory. The history of each moved entry names its origin. Of `output`, only
     * `imatrix` has a meaning then, and copy_kv none. */
    bool directory;
    bool link; /* with `directory`: link unchanged files of a base directory instead of copying
                  them; editing one directory then changes the other */
    /* The model with the moves done. Tensors that are converted, blended or folded are encoded
     * once, in their new type. */
    gg_output_options output;
    /* Not NULL: gg_transplant writes nothing. It calls this for the bytes of files of the donor and
     * the ancestor that it would read, also to recognize strangers. */
    void (*read)(void *ctx, const char *file, uint64_t place, uint64_t bytes);
    void *ctx;
    /* The importance matrix of the result, made of output.imatrix, which belongs to the base, and
     * of the donor's; NULL = none. Both should be of one text. A blend gets the sum of its entries.
     * Without that of the donor, what moved has no entry, which is noted. */
    const char *imatrix_out, *donor_imatrix;
} gg_transplant_options;

typedef struct gg_transplant_report {
    size_t moved, added, skipped;
    size_t converted; /* of those moved; blends count. 0 if in place */
    uint64_t bytes_moved, bytes_written;
} gg_transplant_report;

/* Writes the base with the donor's tensors as one file `output`; "-" is stdout. Bytes that do not
 * move, odd padding and bytes after the tensors stay the same, and keys such as general.file_type
 * follow. For a directory, base and donor must be seekable (gg_source_options.spooled). Errors:
 * GG_NO, before anything is written, for the first mismatch (unless skip_mismatched), or if nothing
 * moves; GG_EUSAGE for a base of bare records, an existing output, a wrong text in the options, and
 * for `directory` with match.mtp; and those of gg_match_tensors. */
gg_status gg_transplant(gg_source *base, gg_source *donor, const gg_transplant_options *o,
                        const char *output, const gg_run *run, gg_transplant_report *report,
                        gg_error *err);

/* Moves tensors within the base's own file, or files. Only moves that keep dims and dtype are
 * possible (GG_MATCH_CONVERT and blends keep them), and keys do not change; do not read the base
 * afterwards. If `undo` is not NULL, the old bytes are first written to that file as an organ
 * stream, and are on disk before the base changes. That file, given as the donor of another call,
 * restores the base byte for byte, even if this call was interrupted. Errors as above; GG_NO also
 * if a size would change; GG_EUSAGE also for a base that is not a GGUF file, for options that
 * change keys or make a new model, and if the undo file exists (without run->force). */
gg_status gg_transplant_in_place(gg_source *base, gg_source *donor, const gg_transplant_options *o,
                                 const char *undo, const gg_run *run, gg_transplant_report *report,
                                 gg_error *err);

GG_END_DECLS

#endif
