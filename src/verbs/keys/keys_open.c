/* keys_open.c - open a model for its keys, which need the header only. */
#include "organ/gg_keys.h"

#include "base/error.h"
#include "base/io.h"
#include "gguf/gguf.h"
#include "gguf/gguf_journal.h"
#include "keys_journal.h"
#include "verbs/shared/verb_run.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct gg_keys {
    gg_source *source; /* NULL if only a header could be read */
    gg_gguf *header;
};

/* The header of a file whose data may be missing. */
static gg_status read_header(const char *path, gg_gguf **out, gg_error *err)
{
    uint8_t *surplus = NULL;
    size_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) gg_fail_errno(err, "cannot open");
    else gg_gguf_read_pipe(fd, NULL, 0, out, &surplus, &n, err);
    free(surplus);
    if (fd >= 0) close(fd);
    return gg_at_file(err, path);
}

/* Bytes of the file that the header speaks of but that are not there. */
static void note_missing(const char *path, const gg_gguf *g, const gg_run *run)
{
    struct stat s;
    uint64_t end = g->data_start;
    if (g->n_tensors) {
        const gg_tensor *last = &g->tensors[g->n_tensors - 1];
        end += last->offset + last->bytes;
    }
    if (stat(path, &s) == 0 && (uint64_t)s.st_size < end)
        gg_note(run, "%s is incomplete: %llu of %llu bytes; its keys are all there", path,
                (unsigned long long)s.st_size, (unsigned long long)end);
}

/* Only the header of `path`, or of the first shard of its set. */
static gg_status open_header(const char *path, const gg_run *run, gg_gguf **out, gg_error *err)
{
    char *first = gg_first_shard(path, err);
    if (!first) return err->status;
    bool other = strcmp(first, path) != 0 && access(first, F_OK) == 0;
    const char *used = other ? first : path;
    gg_status st = read_header(used, out, err);
    uint64_t no = 0, count = 1;
    if (st == GG_OK) {
        note_missing(used, *out, run);
        gg_kv_u64(gg_meta_find(&(*out)->meta, "split.no"), &no);
        gg_kv_u64(gg_meta_find(&(*out)->meta, "split.count"), &count);
        if (count > 1 && no > 0)
            gg_note(run,
                    "%s is shard %llu of %llu; the keys of the model are in the first, which is "
                    "missing",
                    path, (unsigned long long)no + 1, (unsigned long long)count);
        else if (count > 1)
            gg_note(run, "%s is shard 1 of %llu; not all of the others are usable", used,
                    (unsigned long long)count);
    }
    free(first);
    return st;
}

static bool regular(const char *path)
{
    struct stat s;
    return strcmp(path, "-") != 0 && stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

gg_status gg_keys_open(const char *spec, const gg_run *run, gg_keys **out, gg_error *err)
{
    gg_error whole = GG_ERROR_INIT, header = GG_ERROR_INIT;
    gg_keys *k = calloc(1, sizeof *k);
    if (!k) return gg_fail(err, GG_ENOMEM, "no memory for a list of keys");
    bool tried = false;
    if (gg_source_open(spec, &k->source, &whole) == GG_EFORMAT && regular(spec) &&
        !gg_journal_exists(spec)) {
        tried = true;
        open_header(spec, run, &k->header, &header);
    }
    if (whole.status != GG_OK && !(tried && header.status == GG_OK)) {
        gg_error_merge(err, &whole);
    } else if (!gg_keys_meta(k)) {
        gg_fail(err, GG_EUSAGE, "organ records have no keys");
        gg_fix(err, "give a model or an organ directory");
        gg_at_file(err, spec);
    }
    if (err->status != GG_OK) {
        gg_keys_close(k);
        return err->status;
    }
    *out = k;
    return GG_OK;
}

const gg_meta *gg_keys_meta(const gg_keys *k)
{
    return k->source ? gg_source_meta(k->source) : k->header ? &k->header->meta : NULL;
}

void gg_keys_close(gg_keys *k)
{
    if (!k) return;
    gg_source_close(k->source);
    gg_gguf_free(k->header);
    free(k);
}
