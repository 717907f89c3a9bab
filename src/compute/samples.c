#include "samples.h"
#include "compute.h"

#include "gguf/gguf.h"
#include "organ/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gg_status gg_samples_find(gg_source *s, const gg_tensor *of, uint64_t columns, uint64_t matrices,
                          size_t *at, gg_error *err)
{
    char name[GG_RECORD_NAME + 8];
    snprintf(name, sizeof name, "%.*s.sample", (int)of->name_len, of->name);
    *at = gg_source_find(s, name, strlen(name));
    if (*at == SIZE_MAX) return GG_OK;
    const gg_tensor *sample = gg_source_tensor(s, *at);
    uint64_t has = gg_dims_from(sample, 2);
    if (sample->dims[0] == columns && has == matrices && gg_can_decode(sample->dtype)) return GG_OK;
    gg_fail(err, GG_NO,
            "its samples have %llu columns of %llu matrices, but the tensor has %llu of %llu",
            (unsigned long long)sample->dims[0], (unsigned long long)has,
            (unsigned long long)columns, (unsigned long long)matrices);
    gg_fix(err, "give the activations of this model");
    return gg_at_file(err, gg_source_name(s));
}

gg_status gg_samples_read(const gg_samples *s, float **x, size_t *rows, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(s->source, s->at);
    size_t n = (size_t)(t->dims[0] * t->dims[1]);
    *rows = (size_t)t->dims[1];
    *x = malloc(n * sizeof **x + 1);
    gg_status st = *x ? gg_read_values(s->source, s->at, s->matrix * n, n, *x, err)
                      : gg_fail(err, GG_ENOMEM, "no memory for the samples of a matrix");
    if (st == GG_OK && gg_count_bad(*x, n)) {
        gg_fail(err, GG_EFORMAT, "its samples have values that are NaN or infinite");
        st = gg_fix(err, "make the activations again");
    }
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(s->source));
}
