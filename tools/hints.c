/* hints.c - translates the library's hints into command-line options. */
#include "hints.h"

#include <stdio.h>
#include <string.h>

/* The options that each hint refers to. */
static const char *const options[GG_HINT_COUNT] = {
    [GG_HINT_CLASSES] = "--type",
    [GG_HINT_PARTS] = "--part",
    [GG_HINT_LAYERS] = "--layers",
    [GG_HINT_EXPERTS] = "--experts",
    [GG_HINT_TENSORS] = "--tensors",
    [GG_HINT_DESELECT] = "--tensors, --type; organ-measure",
    [GG_HINT_BLOCK_TENSORS] = "--tensors 'blk.N.*'",
    [GG_HINT_EVERY_TENSOR] = "organ-extract --tensors '*'",
    [GG_HINT_LIST_TENSORS] = "organ-extract --list",
    [GG_HINT_LIST_PAIRS] = "organ-extract --list, --check",
    [GG_HINT_REPLACE] = "--force",
    [GG_HINT_SPLIT_EXPERTS] = "organ-extract --split-experts",
    [GG_HINT_MAP] = "--map",
    [GG_HINT_CONVERT] = "--match convert",
    [GG_HINT_RETYPE] = "--match retype or convert",
    [GG_HINT_ADD] = "use --add to include it",
    [GG_HINT_ADD_SCALE] = "select it, and use --add",
    [GG_HINT_MISMATCHES] = "--check, --skip-mismatched",
    [GG_HINT_ANCESTOR] = "--ancestor",
    [GG_HINT_COPY_KEYS] = "--copy-kv",
    [GG_HINT_NEW_MODEL] = "use --output",
    [GG_HINT_RESTORE] = "--in-place --donor UNDO",
    [GG_HINT_DTYPE] = "--dtype",
    [GG_HINT_FALLBACK] = "--fallback",
    [GG_HINT_SHARD_SIZE] = "--shard-size",
    [GG_HINT_WHOLE_STACK] = "--dtype, --experts; organ-extract --split-experts",
    [GG_HINT_DELETE_KEY] = "--delete",
    [GG_HINT_RECOVER] = "organ-keys --recover",
    [GG_HINT_STRICT] = "without --strict",
    [GG_HINT_ALIGN] = "--align",
    [GG_HINT_PARTIAL] = "--partial",
    [GG_HINT_SAMPLE] = "--sample 100000",
    [GG_HINT_BASE] = "--base",
    [GG_HINT_EMBEDDINGS] = "--embed-from base",
    [GG_HINT_HASHES] = "organ-check --hash MODEL > LIST",
    [GG_HINT_SIZE] = "--size, --bpw",
    [GG_HINT_TYPES] = "--types",
    [GG_HINT_IMATRIX] = "--imatrix",
    [GG_HINT_IN_PLACE] = "or change the model itself: --in-place",
};

void hint_append(gg_hint hint, char *text, size_t size)
{
    const char *option = (unsigned)hint < GG_HINT_COUNT ? options[hint] : NULL;
    size_t n = strlen(text);
    if (option && n + strlen(option) + 4 <= size) snprintf(text + n, size - n, " (%s)", option);
}
