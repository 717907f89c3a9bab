/* moves_table.h - the table of --check, shared by organ-graft and organ-transplant. */
#ifndef MOVES_TABLE_H
#define MOVES_TABLE_H

#include "cli.h"

#include "organ/gg_transplant.h"

/* Print the moves as a table on stdout, and the keys that differ, counts and the lineage
 * verdict as notes. GG_OK if everything fits, GG_NO if something does not. */
gg_status moves_check(cli *c, gg_source *base, gg_source *donor, const gg_moves *moves);

#endif
