/* key_options.h - options that set keys, as several tools have them. */
#ifndef KEY_OPTIONS_H
#define KEY_OPTIONS_H

#include "cli.h"

/* A note for each KEY=@FILE or KEY=str:@FILE: it sets the text "@FILE", and `option` is what
 * stores the content of a file. */
void key_options_note(const cli *c, const cli_list *texts, const char *option);

#endif
