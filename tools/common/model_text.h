/* model_text.h - what tools tell about a model in words: its size, and what to do with it next; and
 * the last line of a tool that wrote one. */
#pragma once

#include "cli.h"

#include "organ/gg_info.h"

/* "1.85 MiB", with three digits. */
void size_text(uint64_t bytes, char out[24]);

double bits_per_weight(const gg_info *i);

/* The name that was typed for a file of a cache, such as ollama:NAME, or else `path`; in `out` or
 * `path` itself. */
const char *given_name(const char *path, char *out, size_t size);

/* The k-th command, of three, that makes sense for a model, by its kind. */
void next_command(const gg_info *i, const char *file, size_t k, char *out, size_t size);

/* cli.tell: print on stderr what a successful run wrote: inputs, output, size, bits per weight, the
 * verdict of organ-check and a command for the output. Prints nothing without a terminal, with
 * --quiet, and if the run wrote neither a model nor an organ directory. */
void tell_what_was_written(const cli *c, bool in_place);

/* The same for a tool that writes no models: one line for each picture or table in a file. */
void tell_files_written(const cli *c, bool in_place);

/* To be called after cli_start by a tool that writes models: they are reviewed before they are
 * written, and described after it. */
void cli_writes_models(cli *c);

/* The model or directory that is written, in place the first model; or NULL. */
const char *written_path(const cli *c, bool in_place);
