/* moves_table.h - what --check prints, the same in organ-graft and organ-transplant. */
#ifndef MOVES_TABLE_H
#define MOVES_TABLE_H

#include "cli.h"

#include "organ/gg_transplant.h"

/* The moves as a table on stdout; keys that differ, counts and the lineage verdict as
 * notes. GG_OK if all fits, GG_NO if something does not. */
gg_status moves_check(cli *c, gg_source *base, gg_source *donor, const gg_moves *moves);

#endif
