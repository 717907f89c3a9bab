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
    uint8_t *raw; /* the encoded values of a chunk */
    float *x;     /* the values of a piece */
} gg_merge_input;

/* For one thread. Start from all zero. */
typedef struct gg_merge_reader {
    const gg_merge_job *job;
    gg_merge_input *in; /* the models, and then the base if there is one */
    size_t n_in;
    uint64_t first; /* index of the first value of the chunk */
    float **x, *out;
    void *scratch;
} gg_merge_reader;

/* How a tensor is cut: chunks are read at once, and pieces of them are decoded and worked on, so
 * that these stay in the fast caches. Numbers of values; whole blocks of every dtype. */
typedef struct gg_merge_cut {
    size_t chunk, piece;
} gg_merge_cut;

/* `at` as in gg_merge_producer. The reader must be closed, also after an error. */
gg_status gg_merge_reader_open(gg_merge_reader *r, const gg_merging *m, const gg_merge_job *j,
                               const size_t *at, gg_merge_cut cut, gg_error *err);
void gg_merge_reader_close(gg_merge_reader *r);

/* Reads a chunk of n values from `first` on, without decoding it. */
gg_status gg_merge_read(gg_merge_reader *r, uint64_t first, size_t n, gg_error *err);

/* Decodes n values of that chunk, from its value `at` on. If the job has a base, c->x are the
 * differences from it. With `check`, GG_EFORMAT if a value is not finite. */
gg_status gg_merge_decode(gg_merge_reader *r, size_t at, size_t n, bool check, gg_merge_chunk *c,
                          gg_error *err);

#endif
