/* lora_core.h - internals of the lora verb. Internal. */
#ifndef GG_LORA_CORE_H
#define GG_LORA_CORE_H

#include "base/buf.h"
#include "organ/gg_lora.h"
#include "organ/record.h"
#include "verbs/plan/plan.h"

#define LORA_ALPHA 32   /* if no rank is given */
#define LORA_ENERGY 0.9 /* if neither is given */

/* A tensor of both models. */
typedef struct lora_target {
    gg_tensor t; /* of the base */
    size_t base, tuned;
    uint64_t rows, cols, experts;
    bool matrix;  /* an adapter can hold its change */
    bool swapped; /* token_embd.weight, whose factors have the other form */
} lora_target;

/* n values of a tensor from the value `first` on, which starts a block of both dtypes. */
typedef struct lora_piece {
    gg_source *base, *tuned;
    const lora_target *of;
    uint64_t first, n;
} lora_piece;

/* Reads tuned - base. GG_EFORMAT, with the tensor, if a value is not finite. */
gg_status gg_lora_difference(const lora_piece *p, float *d, unsigned threads, gg_error *err);

/* Half of a pair: F32 values in the temporary file. */
typedef struct lora_half {
    gg_tensor t; /* t.name points into `name` */
    char name[GG_RECORD_NAME + 8];
    int fd;
    uint64_t at;
} lora_half;

typedef struct lora_job {
    gg_source *base, *tuned;
    const gg_lora_options *o;
    const gg_run *run;
    unsigned threads;
    gg_lora_report *report;
    int fd; /* the temporary file, which has no name */
    uint64_t stored;
    lora_half **halves; /* in the order of the file */
    size_t n, cap;
    double kept, total; /* sums over all pairs */
    gg_buf lost;        /* names that were not noted yet */
    gg_plan plan;
} lora_job;

/* The alpha of the adapter. */
double gg_lora_alpha(const gg_lora_options *o);

/* Decomposes the difference of a matrix or stack, and stores the pair. Counts it as equal if
 * nothing differs. */
gg_status gg_lora_add_pair(lora_job *x, const lora_target *g, gg_error *err);

#endif
