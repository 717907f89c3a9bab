/* hints.h - the command-line options that a hint of the library refers to. */
#pragma once

#include "organ/gg_status.h"

/* The option for a hint, for example "--force"; NULL for GG_HINT_NONE. */
const char *hint_option(gg_hint hint);

/* Append " (OPTION)" to text[size], if there is one and it fits. */
void hint_append(gg_hint hint, char *text, size_t size);
