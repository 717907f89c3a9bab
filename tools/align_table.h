/* align_table.h - the tables of organ-compare --align. */
#ifndef ALIGN_TABLE_H
#define ALIGN_TABLE_H

#include "cli.h"

#include "organ/gg_align.h"

/* Aligns b with a and prints one row per unit, or one per group. Returns GG_NO if the models do not
 * have the units of some group in common. */
gg_status align_table(cli *c, gg_source *a, gg_source *b, const gg_align_options *o, bool groups);

/* Prints what an alignment changed. `name` is that of the aligned model. */
void align_note(const cli *c, const char *name, const gg_align_report *r);

#endif
