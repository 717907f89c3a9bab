/* card.h - the model card of a written model: what was done to it, in Markdown. */
#pragma once

#include "cli.h"

/* The row of --card, for tools that call card_begin. */
extern const cli_option card_group[];

/* To be called after cli_writes_models: opens the file of --card before the work begins, and lets
 * cli_end write it if the run succeeded. Exits on mistakes. */
void card_begin(cli *c);
