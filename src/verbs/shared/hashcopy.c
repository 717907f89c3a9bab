/* hashcopy.c - copies, with a hash of what was copied where one is wanted. */
#include "hashcopy.h"

#include "base/io.h"
#include "base/sha256.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"
#include "verbs/shared/verb_run.h"

#include <stdlib.h>
#include <string.h>

#define STEP ((size_t)256 << 10)

static gg_status plain_copy(gg_data *d, uint64_t offset, uint64_t n, int out, const gg_run *run,
                            gg_error *err)
{
    for (uint64_t done = 0; done < n;) {
        uint64_t step = n - done < GG_CHUNK ? n - done : GG_CHUNK;
        gg_status st = gg_data_copy(d, offset + done, step, out, GG_AT_POS, err);
        if (st != GG_OK) return st;
        gg_progress_add(run, step);
        done += step;
    }
    return GG_OK;
}

void gg_turn_take(const gg_run *run)
{
    if (run && run->turn) pthread_mutex_lock(&run->turn->lock);
}

void gg_turn_leave(const gg_run *run)
{
    if (run && run->turn) pthread_mutex_unlock(&run->turn->lock);
}

/* Read, hash, write, and hash while others write: a buffer that stays in the second-level cache. */
static gg_status buffer_copy(gg_data *d, uint64_t offset, uint64_t n, int out, uint64_t out_offset,
                             gg_sha256 *h, const gg_run *run, gg_error *err)
{
    uint8_t *buf = malloc(STEP);
    if (!buf) return gg_fail(err, GG_ENOMEM, "no memory for a copy buffer");
    gg_status st = GG_OK;
    for (uint64_t done = 0; done < n && st == GG_OK;) {
        size_t step = n - done < STEP ? (size_t)(n - done) : STEP;
        st = gg_data_read(d, offset + done, buf, step, err);
        if (st != GG_OK) break;
        gg_sha256_update(h, buf, step);
        if (out < 0) {
            /* only the hash is wanted */
        } else if (out_offset == GG_AT_POS) {
            st = gg_write_all(out, buf, step, err);
        } else {
            gg_turn_take(run);
            st = gg_pwrite_all(out, buf, step, out_offset + done, err);
            gg_turn_leave(run);
        }
        gg_progress_add(run, step);
        done += step;
    }
    free(buf);
    return st;
}

static gg_status shared_copy(gg_data *d, uint64_t offset, uint64_t n, int out, uint64_t out_offset,
                             const gg_run *run, gg_error *err)
{
    for (uint64_t done = 0; done < n;) {
        uint64_t step = n - done < GG_CHUNK ? n - done : GG_CHUNK;
        gg_turn_take(run);
        gg_status st = gg_data_copy(d, offset + done, step, out, out_offset + done, err);
        gg_turn_leave(run);
        if (st != GG_OK) return st;
        gg_progress_add(run, step);
        done += step;
    }
    return GG_OK;
}

gg_status gg_hash_copy(gg_data *d, uint64_t offset, uint64_t n, int out, uint64_t out_offset,
                       char sha[65], const gg_run *run, gg_error *err)
{
    gg_sha256 h;
    gg_status st;
    gg_sha256_init(&h);
    if (sha) st = buffer_copy(d, offset, n, out, out_offset, &h, run, err);
    else if (out_offset != GG_AT_POS && d->fd >= 0)
        st = shared_copy(d, offset, n, out, out_offset, run, err);
    else st = plain_copy(d, offset, n, out, run, err);
    if (!sha) return st;
    unsigned char digest[32];
    gg_sha256_final(&h, digest);
    gg_sha256_hex(digest, sha);
    return st;
}

gg_status gg_check_sha256(const char *got, const char *stated, gg_error *err)
{
    if (!stated || !stated[0] || strcmp(got, stated) == 0) return GG_OK;
    gg_fail(err, GG_EFORMAT, "its data does not have the sha256 that the manifest states");
    gg_fix(err, "extract it again, or take \"sha256\" out of its line if the change was meant");
    return GG_EFORMAT;
}

gg_status gg_verify_data(gg_source *s, size_t index, gg_error *err)
{
    const gg_manifest *m = s ? gg_source_manifest(s) : NULL;
    gg_data d;
    char sha[65];
    if (!m || index == SIZE_MAX || !m->entries[index].sha256[0]) return GG_OK;
    gg_status st = gg_data_open(s, index, &d, err);
    if (st != GG_OK) return st;
    st = gg_hash_copy(&d, 0, d.bytes, -1, GG_AT_POS, sha, NULL, err);
    gg_data_close(&d);
    if (st == GG_OK) st = gg_check_sha256(sha, m->entries[index].sha256, err);
    if (st == GG_OK) return GG_OK;
    gg_at_tensor(err, m->entries[index].t.name, m->entries[index].t.name_len);
    return gg_at_file(err, gg_source_name(s)), st;
}
