/* align_table.h - the tables of organ-compare --align and --lineage. */
#ifndef ALIGN_TABLE_H
#define ALIGN_TABLE_H

#include "cli.h"

#include "organ/gg_align.h"
#include "organ/gg_compare_model.h"

/* Aligns b with a and prints one row per unit, or one per group. Returns GG_NO if the models do not
 * have the units of some group in common. */
gg_status align_table(cli *c, gg_source *a, gg_source *b, const gg_align_options *o, bool groups);

/* Prints the row of --lineage. Returns GG_NO unless grafts can work. */
gg_status lineage_row(cli *c, gg_source *a, gg_source *b, const gg_compare_options *o);

#endif
