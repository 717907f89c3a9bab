/* hints.h - the command-line options that a hint of the library refers to. */
#pragma once

#include "organ/gg_status.h"

/* Append " (OPTION)", for example " (--force)", to text[size], if there is one and it fits. */
void hint_append(gg_hint hint, char *text, size_t size);
