/* block_map.h - which blocks of one model are which blocks of another. Internal. */
#ifndef GG_BLOCK_MAP_H
#define GG_BLOCK_MAP_H

#include "organ/gg_verbs.h"

#define GG_BLOCK_MAP_BLOCKS 512 /* models with more blocks get no map */

typedef struct block_map {
    bool trivial;    /* as many blocks in both models, and no partner has another number */
    size_t blocks;   /* of the model that has fewer */
    size_t matched;  /* blocks of A that have a partner */
    char text[1024]; /* as gg_map_parse reads it: "0=0,1-3=2-4"; "" if it is trivial or too long */
} block_map;

/* Compares each "blk.N." block of A with every block of B by the cosines of a few rows of their
 * matrices. The partner of a block is the most similar one, and the one of the same number if
 * several are equal. Blocks without a partner of at least half the same direction are left out.
 *
 * Both must be seekable. Memory: 64 MiB, and 128 KiB per thread. Errors: GG_EIO, GG_ENOMEM. */
gg_status gg_block_map_find(gg_source *a, gg_source *b, const gg_run *run, block_map *out,
                            gg_error *err);

#endif
