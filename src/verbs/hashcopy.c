/* hashcopy.c - one pass over the bytes: read, hash, write. A buffer that stays in
 * the second-level cache makes this as quick as a kernel copy plus a second read. */
#include "hashcopy.h"

#include "../base/io.h"
#include "../base/sha256.h"

#include <stdlib.h>

#define STEP ((size_t)256 << 10)

static gg_status plain_copy(gg_data *d, uint64_t offset, uint64_t n, int out, uint64_t out_offset,
                            const gg_run *run, gg_error *err)
{
    for (uint64_t done = 0; done < n;) {
        uint64_t step = n - done < GG_CHUNK ? n - done : GG_CHUNK;
        uint64_t to = out_offset == GG_AT_POS ? GG_AT_POS : out_offset + done;
        gg_status st = gg_data_copy(d, offset + done, step, out, to, err);
        if (st != GG_OK) return st;
        gg_progress_add(run, step);
        done += step;
    }
    return GG_OK;
}

gg_status gg_hash_copy(gg_data *d, uint64_t offset, uint64_t n, int out, uint64_t out_offset,
                       char sha[65], const gg_run *run, gg_error *err)
{
    if (!sha) return plain_copy(d, offset, n, out, out_offset, run, err);
    uint8_t *buf = malloc(STEP);
    if (!buf) return gg_fail(err, GG_ENOMEM, "no memory for a copy buffer");
    gg_sha256 h;
    gg_sha256_init(&h);
    gg_status st = GG_OK;
    for (uint64_t done = 0; done < n && st == GG_OK;) {
        size_t step = n - done < STEP ? (size_t)(n - done) : STEP;
        st = gg_data_read(d, offset + done, buf, step, err);
        if (st != GG_OK) break;
        gg_sha256_update(&h, buf, step);
        if (out >= 0)
            st = out_offset == GG_AT_POS ? gg_write_all(out, buf, step, err)
                                         : gg_pwrite_all(out, buf, step, out_offset + done, err);
        gg_progress_add(run, step);
        done += step;
    }
    unsigned char digest[32];
    gg_sha256_final(&h, digest);
    gg_sha256_hex(digest, sha);
    free(buf);
    return st;
}
