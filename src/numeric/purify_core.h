/* purify_core.h - inside the purification: the state that the two methods share.
 *
 * Phase 0 scans (moments; for haar also the energy of each scale), phase 1 takes the
 * filter's removal away, phase 2 restores mean and std. Every part writes only
 * its own slot; the joins add the slots in their order.
 */
#ifndef GG_PURIFY_CORE_H
#define GG_PURIFY_CORE_H

#include "haar_core.h"

#include "numeric/numeric.h"

#define PURIFY_PHASES 3
#define HAAR_LEVELS 64 /* scales of 2^64 values: more than can be */

typedef struct moments {
    uint64_t n; /* finite */
    double mean, m2;
} moments;

typedef struct purify_slot {
    moments before;
    removal removed;
    double energy[HAAR_TILE_LEVELS + 1]; /* haar, by level from 1 */
} purify_slot;

/* The tree above the tiles; level HAAR_TILE_LEVELS is the tiles themselves. */
typedef struct haar_tree {
    size_t tiles;
    unsigned levels;               /* of the whole tree */
    float *sum;                    /* a tile: its node, then what is removed of it */
    float *work;                   /* 3 x (tiles + 2) */
    unsigned char *plain;          /* a tile: full and finite */
    float *detail;                 /* levels above the tiles, one after another */
    size_t first[HAAR_LEVELS + 1]; /* of a level in detail */
    haar_damping how[HAAR_LEVELS + 1];
} haar_tree;

struct gg_purify {
    gg_purify_method method;
    uint64_t elements, row;
    double strength;
    size_t parts;
    uint64_t part_elements; /* of every part but the last */
    purify_slot *slot;
    bool active; /* there is something to filter */
    moments before;
    removal removed;
    double scale, shift;
    haar_tree tree;
    gg_fft_plan *plan;
};

/* ---- purify_run.c ---- */

/* Moments of the finite ones of n values, and those of two runs to those of both.
 * buf holds n floats. */
moments gg_purify_moments(const float *x, size_t n, float *buf);
void gg_purify_merge(moments *a, const moments *b);

/* The part's first element and its length. */
uint64_t gg_purify_extent(const gg_purify *p, size_t part, uint64_t *first);

/* Values as the filter sees them: x itself if all n are finite, else a copy in buf with
 * the mean of the finite ones in the place of the others. */
const float *gg_purify_sound(const float *x, size_t n, float *buf);

/* ---- the methods ---- */

gg_status gg_purify_haar_init(gg_purify *p, gg_error *err);
size_t gg_purify_haar_scratch(void);
void gg_purify_haar_scan(gg_purify *p, size_t part, const float *x, float *scratch);
void gg_purify_haar_join(gg_purify *p);
void gg_purify_haar_filter(gg_purify *p, size_t part, float *x, float *scratch);

gg_status gg_purify_fft_init(gg_purify *p, gg_error *err);
size_t gg_purify_fft_scratch(const gg_purify *p);
void gg_purify_fft_filter(gg_purify *p, size_t part, float *x, float *scratch);

#endif
