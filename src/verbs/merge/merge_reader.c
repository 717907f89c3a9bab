/* merge_reader.c - reads and decodes pieces of a tensor from all models of a merge. */
#include "merge_reader.h"

#include "base/error.h"
#include "numeric/merge.h"
#include "verbs/compute/compute_core.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of n values. */
static size_t encoded(const gg_merge_input *in, size_t n)
{
    const gg_dtype_info *info = gg_dtype_get(in->dtype);
    return n / info->block_elems * info->block_bytes;
}

static gg_status open_input(gg_merge_input *in, gg_source *source, size_t index, gg_merge_cut cut,
                            gg_error *err)
{
    in->source = source;
    in->index = index;
    in->dtype = gg_source_tensor(source, index)->dtype;
    in->raw = malloc(encoded(in, cut.chunk) + 1);
    in->x = malloc(cut.piece * sizeof *in->x + 1);
    if (!in->raw || !in->x) return gg_fail(err, GG_ENOMEM, "no memory for the values of a tensor");
    gg_status st = gg_data_open(source, index, &in->data, err);
    in->open = st == GG_OK;
    return st;
}

gg_status gg_merge_reader_open(gg_merge_reader *r, const gg_merging *m, const gg_merge_job *j,
                               const size_t *at, gg_merge_cut cut, gg_error *err)
{
    *r = (gg_merge_reader){ .job = j, .n_in = m->n + m->has_base };
    size_t scratch = m->method->scratch * (size_t)(j->rows ? j->t.dims[0] : 0);
    r->in = calloc(r->n_in, sizeof *r->in);
    r->x = calloc(r->n_in, sizeof *r->x);
    r->out = malloc(cut.chunk * sizeof *r->out + 1);
    r->scratch = malloc(scratch + 1);
    if (!r->in || !r->x || !r->out || !r->scratch)
        return gg_fail(err, GG_ENOMEM, "no memory for the values of a tensor");
    gg_status st = GG_OK;
    for (size_t k = 0; k < r->n_in && st == GG_OK; k++) {
        st = open_input(&r->in[k], k < m->n ? m->models[k] : m->base, at[k], cut, err);
        r->x[k] = r->in[k].x;
    }
    return st;
}

void gg_merge_reader_close(gg_merge_reader *r)
{
    for (size_t k = 0; r->in && k < r->n_in; k++) {
        if (r->in[k].open) gg_data_close(&r->in[k].data);
        free(r->in[k].raw);
        free(r->in[k].x);
    }
    free(r->in);
    free(r->x);
    free(r->out);
    free(r->scratch);
    *r = (gg_merge_reader){ 0 };
}

static gg_status bad_values(const gg_merge_input *in, uint64_t first, size_t n, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(in->source, in->index);
    size_t i = 0;
    while (i < n && gg_count_bad(in->x + i, 1) == 0) i++;
    gg_fail(err, GG_EFORMAT, "its value %llu is NaN or infinite", (unsigned long long)(first + i));
    gg_fix(err, "repair or replace this model; it cannot be merged");
    gg_at_tensor(err, t->name, t->name_len);
    return gg_at_file(err, gg_source_name(in->source));
}

gg_status gg_merge_read(gg_merge_reader *r, uint64_t first, size_t n, gg_error *err)
{
    gg_status st = GG_OK;
    r->first = first;
    for (size_t k = 0; k < r->n_in && st == GG_OK; k++) {
        gg_merge_input *in = &r->in[k];
        const gg_dtype_info *info = gg_dtype_get(in->dtype);
        uint64_t offset = first / info->block_elems * info->block_bytes;
        st = gg_data_read(&in->data, offset, in->raw, encoded(in, n), err);
        if (st != GG_OK) gg_at_file(err, gg_source_name(in->source));
    }
    return st;
}

gg_status gg_merge_decode(gg_merge_reader *r, size_t at, size_t n, bool check, gg_merge_chunk *c,
                          gg_error *err)
{
    uint64_t first = r->first + at;
    for (size_t k = 0; k < r->n_in; k++) {
        gg_merge_input *in = &r->in[k];
        gg_status st = gg_decode(in->dtype, in->raw + encoded(in, at), in->x, n, err);
        if (st == GG_OK && check && gg_count_bad(in->x, n)) st = bad_values(in, first, n, err);
        if (st != GG_OK) return gg_at_file(err, gg_source_name(in->source)), st;
    }
    const float *base = r->job->has_base ? r->in[r->n_in - 1].x : NULL;
    bool differences = base && !r->job->method->subtracts;
    for (size_t k = 0; differences && k < r->job->n; k++) GG_PICK(gg_mk_subtract)(r->x[k], base, n);
    *c = (gg_merge_chunk){ first, n, base, r->x, r->out + at, r->scratch };
    return GG_OK;
}
