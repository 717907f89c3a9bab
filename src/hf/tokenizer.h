/* tokenizer.h - the tokenizer of a Hugging Face checkpoint as keys of a GGUF model. Internal.
 *
 * Read are tokenizer.model (SentencePiece), tokenizer.json, or vocab.json with merges.txt; and
 * tokenizer_config.json, special_tokens_map.json, added_tokens.json, generation_config.json and the
 * chat templates beside them. The keys are those that llama.cpp's converter writes.
 */
#pragma once

#include "base/buf.h"
#include "organ/gg_gguf.h"
#include "json/json.h"

typedef struct gg_hf_tokenizer_from {
    const char *folder;
    const char *arch;           /* general.architecture, or "" */
    const gg_json_node *config; /* config.json, or NULL */
    const char *pre;            /* the name of the pre-tokenizer; NULL = the table decides */
    uint64_t rows;              /* of the embeddings: so many tokens are made; 0 = not known */
} gg_hf_tokenizer_from;

/* Whether the folder has a file with tokens. */
bool gg_hf_has_tokenizer(const char *folder, gg_error *err);

/* The number of tokens in tokenizer.json: one more than the largest id. 0 if the folder has no such
 * file. Errors: GG_EFORMAT, GG_EUNSUPPORTED, GG_EIO, GG_ENOMEM. */
gg_status gg_hf_count_tokens(const char *folder, uint64_t *n, gg_error *err);

/* Sets the keys of the tokenizer, and those of generation_config.json. Appends a line to *notes for
 * each thing that the model will not do as the checkpoint does.
 * Errors: GG_EUNSUPPORTED for a tokenizer or pre-tokenizer that engines do not have, with
 * advice to give "pre" for the latter; GG_EFORMAT for malformed files, ids that repeat, and more
 * tokens than rows; GG_EIO; GG_ENOMEM. Some keys may then be set. */
gg_status gg_hf_tokenizer(const gg_hf_tokenizer_from *from, gg_meta *meta, gg_buf *notes,
                          gg_error *err);
