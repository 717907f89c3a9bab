/* dims_text.h - formats the shape of a tensor for messages. Internal. */
#ifndef GG_DIMS_TEXT_H
#define GG_DIMS_TEXT_H

#include "organ/gg_gguf.h"

/* "4096x14336x8"; "" for a tensor without dims. */
void gg_dims_text(const gg_tensor *t, char out[96]);

#endif
