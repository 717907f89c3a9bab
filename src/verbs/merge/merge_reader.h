/* merge_reader.h - reads the same piece of a tensor from all models of a merge. Internal. */
#ifndef GG_MERGE_READER_H
#define GG_MERGE_READER_H

#include "merge_core.h"

/* One input of a reader. */
typedef struct gg_merge_input {
    gg_source *source;
    size_t index;
    uint32_t dtype;
    gg_data data;
    bool open;
    float *x;
} gg_merge_input;

/* For one thread. Start from all zero. */
typedef struct gg_merge_reader {
    const gg_merge_job *job;
    gg_merge_input *in; /* the models, and then the base if there is one */
    size_t n_in;
    float **x, *out;
    uint8_t *raw;
    void *scratch;
} gg_merge_reader;

/* `at` as in gg_merge_producer; at most `chunk` values are read at a time. The reader must be
 * closed, also after an error. */
gg_status gg_merge_reader_open(gg_merge_reader *r, const gg_merging *m, const gg_merge_job *j,
                               const size_t *at, size_t chunk, gg_error *err);
void gg_merge_reader_close(gg_merge_reader *r);

/* Reads n values from `first` on: whole blocks of every dtype. If the job has a base, c->x are
 * the differences from it. With `check`, GG_EFORMAT if a value is not finite. */
gg_status gg_merge_read(gg_merge_reader *r, uint64_t first, size_t n, bool check, gg_merge_chunk *c,
                        gg_error *err);

#endif
