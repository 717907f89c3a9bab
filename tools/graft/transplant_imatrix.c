/* transplant_imatrix.c - the importance matrix follows a transplant. */
#include "graft.h"

#include "base/error.h"
#include "compute/imatrix_write.h"
#include "organ/output_guard.h"
#include "organ/select.h"
#include "organ/source_layout.h"
#include "write/verb_run.h"

#include <stdlib.h>
#include <string.h>

typedef struct follower {
    const gg_moved_models *m;
    gg_imatrix *from[2]; /* of base and donor; the second may be NULL */
    gg_imatrix_file file;
    const gg_tensor *t; /* of the current move: the tensor of the result */
    size_t at[2];       /* its entries of base and donor, or SIZE_MAX */
    size_t lost;        /* matrices of the donor without an entry */
} follower;

/* The donor's part of a matrix. If the donor is a view with units in another order, it is that of
 * another expert or has other columns. */
static gg_status donor_part(follower *f, size_t tensor, uint64_t matrix, gg_imatrix_part *out,
                            gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(f->m->donor, tensor);
    if (t->elements == 0) {
        gg_fail(err, GG_EFORMAT, "it has no values");
        return gg_at_tensor(err, t->name, t->name_len);
    }
    uint64_t row = matrix * t->dims[1], moved = 0;
    uint32_t *from = malloc((size_t)t->dims[0] * sizeof *from + 1);
    if (!from) return gg_fail(err, GG_ENOMEM, "no memory for an importance matrix");
    *out = (gg_imatrix_part){ .im = f->from[1] };
    out->entry = gg_imatrix_find_form(f->from[1], t->name, t->name_len);
    for (uint64_t c = 0; c < t->dims[0]; c++) {
        uint64_t at = c;
        /* not 0: it has elements */
        out->matrix = gg_source_view_place(f->m->donor, tensor, row, &at) / t->dims[1];
        from[c] = (uint32_t)at;
        moved += at != c;
    }
    size_t bytes = (size_t)t->dims[0] * sizeof *from;
    gg_computation *kept = moved ? gg_compute_new(&f->file.made, sizeof *kept + bytes, err) : NULL;
    if (kept) out->columns = memcpy(kept + 1, from, bytes);
    free(from);
    return err->status;
}

/* Whether a move replaces matrices of the base: the rows of a router are not one. */
static bool replaces_matrices(const follower *f, const gg_move *move)
{
    return !move->experts || f->t->n_dims == 3;
}

/* The parts of base and donor for matrix m of a move. Returns whether there is one. */
static bool take_parts(follower *f, const gg_move *move, uint64_t m, gg_imatrix_part parts[2],
                       gg_error *err)
{
    const gg_select *select = f->m->match->select;
    bool other = replaces_matrices(f, move) && (!move->experts || gg_select_expert(select, m));
    bool stays = !other || (f->m->match->blend.mode && move->base != SIZE_MAX);
    uint64_t expert = move->experts ? gg_select_donor_expert(select, m) : m;
    if (stays && f->at[0] != SIZE_MAX)
        parts[0] = (gg_imatrix_part){ .im = f->from[0], .entry = f->at[0], .matrix = m };
    if (other && f->at[1] != SIZE_MAX) donor_part(f, move->donor, expert, &parts[1], err);
    return parts[0].im || parts[1].im;
}

static gg_status follow_move(follower *f, const gg_move *move, gg_error *err)
{
    const gg_tensor *d = gg_source_tensor(f->m->donor, move->donor);
    bool added = move->base == SIZE_MAX, lacking = false;
    const gg_tensor *t = f->t = added ? d : gg_source_tensor(f->m->base, move->base);
    uint64_t n = gg_dims_from(t, 2);
    f->at[0] = f->at[1] = SIZE_MAX;
    gg_status st = added ? GG_OK : gg_imatrix_entry_of(f->from[0], t, &f->at[0], err);
    if (st == GG_OK && f->from[1]) st = gg_imatrix_entry_of(f->from[1], d, &f->at[1], err);
    gg_imatrix_part *parts = calloc(2 * n + 1, sizeof *parts);
    if (!parts) st = gg_fail(err, GG_ENOMEM, "no memory for an importance matrix");
    for (uint64_t m = 0; m < n && err->status == GG_OK; m++)
        lacking |= !take_parts(f, move, m, &parts[2 * m], err);
    gg_imatrix_sum sum = { move->name, move->name_len, 2, n, t->dims[0], t->dims[0], parts };
    bool any = f->at[0] != SIZE_MAX || f->at[1] != SIZE_MAX || added;
    f->lost += lacking && any && t->n_dims > 1 && replaces_matrices(f, move);
    if (err->status == GG_OK && !lacking) st = gg_imatrix_file_add(&f->file, &sum, err);
    free(parts);
    return err->status != GG_OK ? err->status : st;
}

/* Follows all tensors of the base, and then those that were added. */
static gg_status follow_all(follower *f, gg_error *err)
{
    const gg_moves *moves = f->m->moves;
    gg_status st = GG_OK;
    size_t next = 0;
    for (size_t i = 0; i < gg_source_count(f->m->base) && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(f->m->base, i);
        gg_imatrix_cut same = { t, NULL, NULL };
        st = next < moves->n && moves->list[next].base == i
                 ? follow_move(f, &moves->list[next++], err)
                 : gg_imatrix_file_cut(&f->file, f->from[0], t, &same, err);
    }
    for (; next < moves->n && st == GG_OK; next++) st = follow_move(f, &moves->list[next], err);
    return st;
}

gg_status gg_transplant_imatrix(const gg_moved_models *x, const char *donor, const char *output,
                                const gg_run *run, gg_error *err)
{
    follower f = { .m = x, .from = { x->imatrix } };
    gg_status st = gg_guard_output(output, x->base, err);
    if (st == GG_OK) st = gg_guard_output(output, x->donor, err);
    if (st == GG_OK) st = gg_imatrix_open(donor, &f.from[1], err);
    f.file.from = f.from;
    f.file.n_from = donor ? 2 : 1;
    if (st == GG_OK) st = follow_all(&f, err);
    if (f.lost)
        gg_note(run, "the new importance matrix lacks %zu tensor%s with matrices of the donor: %s",
                f.lost, f.lost == 1 ? "" : "s",
                donor ? "that of the donor does not have them" : "give that of the donor too");
    if (st == GG_OK) st = gg_imatrix_file_write(&f.file, output, false, run, err);
    gg_imatrix_file_free(&f.file);
    gg_imatrix_close(f.from[1]);
    return st;
}
