/* key_options.h - the options that set keys, shared by several tools. */
#ifndef KEY_OPTIONS_H
#define KEY_OPTIONS_H

#include "cli.h"

/* Print a note for each KEY=@FILE or KEY=str:@FILE: it sets the text "@FILE". `option` is
 * the option that stores the content of a file. */
void key_options_note(const cli *c, const cli_list *texts, const char *option);

#endif
