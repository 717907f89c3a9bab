/* purify_core.h - the state of a purification, shared by both methods. Internal.
 *
 * Phase 0 scans the values (moments, and for haar the energy of each scale). Phase 1 subtracts
 * what the filter removes. The affine map at the end restores mean and std. Every part writes only
 * to its own slot, and the joins add the slots in order.
 */
#ifndef GG_PURIFY_CORE_H
#define GG_PURIFY_CORE_H

#include "haar_core.h"

#include "numeric/numeric.h"

#define PURIFY_PHASES 2
#define HAAR_LEVELS 64 /* enough for 2^64 values */

typedef struct moments {
    uint64_t n; /* number of finite values */
    double mean, m2;
} moments;

typedef struct purify_slot {
    moments before;
    removal removed;
    double energy[HAAR_TILE_LEVELS + 1]; /* haar, by level from 1 */
} purify_slot;

/* The levels of the tree above the tiles. The tiles are level HAAR_TILE_LEVELS. */
typedef struct haar_tree {
    size_t tiles;
    unsigned levels;               /* of the whole tree */
    float *sum;                    /* per tile: its node, later the part to remove from it */
    float *work;                   /* 3 x (tiles + 2) floats */
    unsigned char *plain;          /* per tile: whether it is full and all finite */
    float *detail;                 /* details of the levels above the tiles, level by level */
    size_t first[HAAR_LEVELS + 1]; /* where each level starts in detail */
    haar_damping how[HAAR_LEVELS + 1];
} haar_tree;

struct gg_purify {
    gg_purify_method method;
    uint64_t elements, row;
    double strength;
    size_t parts;
    uint64_t part_elements; /* elements of every part except the last */
    purify_slot *slot;
    bool active; /* there is something to filter */
    moments before;
    removal removed;
    double scale, shift;
    haar_tree tree;
    gg_fft_plan *plan;
};

/* ---- purify_run.c ---- */

/* Moments of the finite values among n; buf has room for n floats. gg_purify_merge combines the
 * moments of two runs into *a. */
moments gg_purify_moments(const float *x, size_t n, float *buf);
void gg_purify_merge(moments *a, const moments *b);

/* Returns the values for the filter: x itself if all n are finite, otherwise a copy in buf in which
 * the mean of the finite values replaces the others. */
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
