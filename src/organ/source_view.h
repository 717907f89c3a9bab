/* source_view.h - a model with some of its rows and columns in another order. Internal.
 *
 * A view is a gg_source that reads another one, so that every verb can take it in place of that
 * one. Nothing is stored except the orders: bytes are moved when they are read. Rows move as they
 * are stored. Columns move as they are stored too if units consist of whole blocks of the dtype.
 * Otherwise the tensor becomes F32 in the view, and whoever writes it chooses how to encode it.
 */
#ifndef GG_SOURCE_VIEW_H
#define GG_SOURCE_VIEW_H

#include "organ/gg_organ.h"

/* Units of a tensor that move: unit u is the rows (or columns) from first + u * per on. Rows are
 * counted over all dimensions after the first. Columns move in the rows [row, row + rows) only. */
typedef struct gg_slice {
    size_t index; /* of the tensor */
    bool columns;
    uint64_t first, per;
    uint64_t row, rows; /* if `columns` */
} gg_slice;

/* Opens a view of a seekable source, in which nothing has moved yet. `of` must stay open until the
 * view is closed with gg_source_close. The view has no manifest and no files of its own; its name,
 * keys and anatomy are those of `of`. */
gg_status gg_source_view_open(gg_source *of, gg_source **out, gg_error *err);

/* Moves units in all n slices: unit u of the view is unit from[u] of the source. `from` is a
 * permutation of n_units numbers and is copied. No part of a tensor may move twice along the same
 * axis. Must not be called while another thread uses the view. Errors: GG_EUNSUPPORTED, with the
 * tensor, if its columns have to be decoded and cannot be; GG_ENOMEM. */
gg_status gg_source_view_move(gg_source *view, const gg_slice *slices, size_t n,
                              const uint32_t *from, size_t n_units, gg_error *err);

/* Whether some of the tensor's rows or columns have moved, and whether it is F32 in the view only.
 * False for a source that is not a view. */
bool gg_source_view_moved(const gg_source *view, size_t index);
bool gg_source_view_decoded(const gg_source *view, size_t index);

#endif
