/* file_hash.c - computes the sha256 of a file. */
#include "file_hash.h"

#include "base/io.h"
#include "base/sha256.h"
#include "verb_run.h"

#include <stdlib.h>

#define READ_STEP ((size_t)1 << 20)

gg_status gg_file_sha256(int fd, uint64_t size, char sha[65], const gg_run *run, gg_error *err)
{
    unsigned char digest[32];
    gg_sha256 h;
    uint8_t *buf = malloc(size < READ_STEP ? (size_t)size + 1 : READ_STEP);
    gg_status st = buf ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for a buffer");
    gg_sha256_init(&h);
    for (uint64_t at = 0; at < size && st == GG_OK; at += READ_STEP) {
        size_t n = size - at < READ_STEP ? (size_t)(size - at) : READ_STEP;
        st = gg_pread_all(fd, buf, n, at, err);
        if (st == GG_OK) gg_sha256_update(&h, buf, n);
        gg_progress_add(run, n);
    }
    gg_sha256_final(&h, digest);
    gg_sha256_hex(digest, sha);
    free(buf);
    return st;
}
