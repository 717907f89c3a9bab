/* padding.c - lists of padding that is not what a writer would put there. */
#include "source.h"

#include "organ/manifest.h"
#include "organ/source_layout.h"

#include <stdlib.h>
#include <string.h>

void gg_pads_free(gg_pad *pads, size_t n)
{
    for (size_t i = 0; pads && i < n; i++) {
        free(pads[i].after);
        free(pads[i].bytes);
    }
    free(pads);
}

gg_status gg_pads_too_much(gg_error *err)
{
    gg_fail(err, GG_EUNSUPPORTED,
            "over %llu MiB of padding that is not zeros, which is too much to keep",
            (unsigned long long)(GG_MOST_PADDING >> 20));
    return gg_fix(err,
                  "leave it out: organ-extract --tensors '*' takes every tensor and no padding");
}

gg_status gg_pad_note(gg_source *s, gg_pad **pads, size_t *n, const gg_tensor *after,
                      const uint8_t *bytes, size_t got, size_t want, gg_error *err)
{
    size_t i = 0;
    while (i < got && bytes[i] == 0) i++;
    if (i == want) return GG_OK;
    s->pad_bytes += got;
    if (s->pad_bytes > GG_MOST_PADDING) /* of a pipe it is told when asked for */
        return s->kind == SOURCE_PIPE_MODEL ? GG_OK : gg_pads_too_much(err);
    /* Room for twice as many whenever the number is a power of two. */
    gg_pad *grown = *n & (*n - 1) ? *pads : realloc(*pads, (*n ? *n * 2 : 1) * sizeof *grown);
    if (!grown) return gg_fail(err, GG_ENOMEM, "no memory for padding");
    *pads = grown;
    gg_pad *pad = &grown[*n];
    *pad = (gg_pad){ .n = got,
                     .bytes = malloc(got ? got : 1),
                     .after_len = after ? after->name_len : 0 };
    pad->after = after ? malloc(after->name_len + 1) : NULL;
    *n += 1;
    if (!pad->bytes || (after && !pad->after))
        return gg_fail(err, GG_ENOMEM, "no memory for padding");
    if (got) memcpy(pad->bytes, bytes, got);
    if (after) memcpy(pad->after, after->name, after->name_len + 1);
    return GG_OK;
}
