/* chat_template.h - compares a chat template with the vocabulary. Internal. */
#pragma once

#include "organ/gg_gguf.h"

/* Collects the special tokens that a template of `len` bytes writes, in the forms <|name|> and
 * <start_of_turn>, and that `tokens`, an array of strings, lacks: escaped and separated by spaces
 * in `out`, as many as fit. Returns their number; each is counted once, and at most 32 are looked
 * at. */
size_t gg_template_unknown(const char *text, size_t len, const gg_kv *tokens, char *out,
                           size_t size);
