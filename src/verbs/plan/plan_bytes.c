/* plan_bytes.c - writes parts, padding and trailing bytes, at an offset or in sequence. */
#include "plan_bytes.h"

#include "base/io.h"
#include "base/sha256.h"
#include "organ/manifest.h"
#include "organ/source_watch.h"
#include "verbs/shared/hashcopy.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

gg_status gg_plan_copy_part(const gg_plan *p, const gg_tensor *t, const gg_plan_part *part,
                            gg_place out, const gg_run *run, gg_error *err)
{
    if (!p->verify) return gg_copy_part(part, out, NULL, run, err);
    return gg_copy_verified(part, t, out, run, err);
}

gg_status gg_plan_write_pad(int fd, uint64_t at, uint64_t want, const gg_pad *pad, gg_error *err)
{
    static uint8_t zeros[4096]; /* if it were const, each program would contain it */
    if (pad) return gg_put_all(fd, pad->bytes, pad->n, at, err);
    gg_status st = GG_OK;
    for (uint64_t done = 0; done < want && st == GG_OK; done += sizeof zeros)
        st = gg_put_all(fd, zeros,
                        want - done < sizeof zeros ? (size_t)(want - done) : sizeof zeros,
                        gg_offset_after(at, done), err);
    return st;
}

/* Copies trailing bytes, and hashes them in the same pass if their hash is known. */
static gg_status copy_trailing(const gg_plan_file *pf, int in, int out, uint64_t at, bool verify,
                               gg_error *err)
{
    uint8_t buf[16384];
    unsigned char digest[32];
    char sha[65];
    gg_sha256 h;
    gg_status st = GG_OK;
    if (!verify || !pf->trailing_sha256 || !pf->trailing_sha256[0])
        return gg_copy_from(pf->trailing, (gg_place){ in, pf->trailing_at }, (gg_place){ out, at },
                            pf->trailing_bytes, err);
    gg_sha256_init(&h);
    for (uint64_t done = 0; done < pf->trailing_bytes && st == GG_OK; done += sizeof buf) {
        size_t n = pf->trailing_bytes - done < sizeof buf ? (size_t)(pf->trailing_bytes - done)
                                                          : sizeof buf;
        st = gg_pread_all(in, buf, n, pf->trailing_at + done, err);
        gg_at_file(err, pf->trailing);
        gg_sha256_update(&h, buf, st == GG_OK ? n : 0);
        if (st == GG_OK) st = gg_put_all(out, buf, n, gg_offset_after(at, done), err);
    }
    gg_sha256_final(&h, digest);
    gg_sha256_hex(digest, sha);
    if (st == GG_OK && strcmp(sha, pf->trailing_sha256) != 0)
        st = gg_fail(err, GG_EFORMAT, "the file does not match the sha256 in the manifest");
    return st == GG_EFORMAT ? gg_at_file(err, pf->trailing) : st;
}

gg_status gg_plan_copy_trailing(const gg_plan *p, const gg_plan_file *pf, int fd, uint64_t at,
                                gg_error *err)
{
    int in = open(pf->trailing, O_RDONLY | O_CLOEXEC);
    if (in < 0) {
        gg_fail_errno(err, "cannot open the file of the bytes after the tensors");
        return gg_at_file(err, pf->trailing);
    }
    gg_status st = copy_trailing(pf, in, fd, at, p->verify, err);
    if (st == GG_OK && !gg_stamp_holds_fd(&pf->trailing_stamp, in))
        st = gg_fail_changed(pf->trailing, err);
    close(in);
    return st;
}
