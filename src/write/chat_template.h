/* chat_template.h - compares a chat template with the vocabulary. Internal. */
#pragma once

#include "organ/gg_gguf.h"

/* The special tokens that a template writes in the forms <|name|>, <|name>, <name|>, [NAME] and
 * <start_of_turn>, and that do not work; also <name>, if it is a token that no two others make.
 * Each is counted once, and at most 128 are looked at. The lists are escaped, have spaces between
 * the names, and as many of them as fit. */
typedef struct gg_template_tokens {
    size_t unknown; /* not in the vocabulary */
    size_t split;   /* of a type that engines split into pieces: neither control nor user-defined */
    char unknown_list[256], split_list[256];
} gg_template_tokens;

/* Compares tokenizer.chat_template with tokenizer.ggml.tokens and token_type. Returns false if
 * there is no template or no vocabulary. */
bool gg_template_tokens_find(const gg_meta *meta, gg_template_tokens *out);
