/* hashcopy.c - copies data and, if wanted, computes its hash. */
#include "hashcopy.h"

#include "base/error.h"
#include "base/io.h"
#include "base/sha256.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"
#include "verbs/shared/verb_run.h"

#include <stdlib.h>
#include <string.h>

#define COPY_STEP ((size_t)256 << 10)

/* Copies a part in sequence. */
static gg_status plain_copy(gg_data *d, const gg_plan_part *part, gg_place out, const gg_run *run,
                            gg_error *err)
{
    for (uint64_t done = 0; done < part->bytes;) {
        uint64_t step = part->bytes - done < GG_CHUNK ? part->bytes - done : GG_CHUNK;
        gg_status st = gg_data_copy(d, part->at + done, step, out, err);
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

/* Reads, hashes (unless h is NULL) and writes. One thread reads and hashes while another one
 * writes. With a hash, the buffer fits the second-level cache. Without one, it is larger, so that
 * threads wait for each other less often. */
static gg_status buffer_copy(gg_data *d, const gg_plan_part *part, gg_place out, gg_sha256 *h,
                             const gg_run *run, gg_error *err)
{
    const size_t most = h ? COPY_STEP : 4 * COPY_STEP;
    uint8_t *buf = malloc(part->bytes < most ? (size_t)part->bytes + 1 : most);
    if (!buf) return gg_fail(err, GG_ENOMEM, "no memory for a copy buffer");
    gg_status st = GG_OK;
    for (uint64_t done = 0; done < part->bytes && st == GG_OK;) {
        size_t step = part->bytes - done < most ? (size_t)(part->bytes - done) : most;
        st = gg_data_read(d, part->at + done, buf, step, err);
        if (st != GG_OK) break;
        if (h) gg_sha256_update(h, buf, step);
        if (out.fd >= 0) {
            if (out.at != GG_AT_POS) gg_turn_take(run);
            st = gg_put_all(out.fd, buf, step, gg_offset_after(out.at, done), err);
            if (out.at != GG_AT_POS) gg_turn_leave(run);
        }
        gg_progress_add(run, step);
        done += step;
    }
    free(buf);
    return st;
}

static gg_status shared_copy(gg_data *d, const gg_plan_part *part, gg_place out, const gg_run *run,
                             gg_error *err)
{
    for (uint64_t done = 0; done < part->bytes;) {
        uint64_t step = part->bytes - done < GG_CHUNK ? part->bytes - done : GG_CHUNK;
        gg_turn_take(run);
        gg_status st = gg_data_copy(d, part->at + done, step, (gg_place){ out.fd, out.at + done },
                                    err);
        gg_turn_leave(run);
        if (st != GG_OK) return st;
        gg_progress_add(run, step);
        done += step;
    }
    return GG_OK;
}

gg_status gg_copy_part(const gg_plan_part *part, gg_place out, char sha[65], const gg_run *run,
                       gg_error *err)
{
    gg_data d;
    gg_sha256 h;
    gg_status st = gg_data_open(part->source, part->index, &d, err);
    if (st != GG_OK) return st;
    gg_sha256_init(&h);
    if (sha) st = buffer_copy(&d, part, out, &h, run, err);
    else if (out.at == GG_AT_POS) st = plain_copy(&d, part, out, run, err);
    else if (d.fd >= 0 && gg_copy_by_kernel(d.fd, out.fd))
        st = shared_copy(&d, part, out, run, err);
    else st = buffer_copy(&d, part, out, NULL, run, err);
    gg_data_close(&d);
    if (!sha) return st;
    unsigned char digest[32];
    gg_sha256_final(&h, digest);
    gg_sha256_hex(digest, sha);
    return st;
}

gg_status gg_copy_verified(const gg_plan_part *part, const gg_tensor *t, gg_place out,
                           const gg_run *run, gg_error *err)
{
    char sha[65];
    bool verify = part->sha256 && part->sha256[0];
    gg_status st = gg_copy_part(part, out, verify ? sha : NULL, run, err);
    return st == GG_OK && verify ? gg_check_part(part, t, sha, err) : st;
}

gg_status gg_check_part(const gg_plan_part *part, const gg_tensor *t, const char *sha,
                        gg_error *err)
{
    if (gg_check_sha256(sha, part->sha256, err) == GG_OK) return GG_OK;
    gg_at_tensor(err, t->name, t->name_len);
    return gg_at_file(err, gg_source_name(part->source));
}

gg_status gg_check_sha256(const char *got, const char *stated, gg_error *err)
{
    if (!stated || !stated[0] || strcmp(got, stated) == 0) return GG_OK;
    gg_fail(err, GG_EFORMAT, "the data does not match the sha256 in the manifest");
    gg_fix(err, "extract the tensor again, or remove \"sha256\" from its entry if you changed it "
                "on purpose");
    return GG_EFORMAT;
}

gg_status gg_verify_data(gg_source *s, size_t index, gg_error *err)
{
    const gg_manifest *m = s ? gg_source_manifest(s) : NULL;
    if (!m || index == SIZE_MAX) return GG_OK;
    const gg_entry *e = &m->entries[index];
    gg_plan_part whole = { s, index, 0, e->t.bytes, NULL };
    char sha[65];
    if (!e->sha256[0]) return GG_OK;
    gg_status st = gg_copy_part(&whole, (gg_place){ -1, GG_AT_POS }, sha, NULL, err);
    if (st == GG_OK) st = gg_check_sha256(sha, e->sha256, err);
    if (st == GG_OK) return GG_OK;
    gg_at_tensor(err, e->t.name, e->t.name_len);
    return gg_at_file(err, gg_source_name(s)), st;
}
