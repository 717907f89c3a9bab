/* source.c - what all sources have in common: their contents, their data, and the checks that every
 * source passes, whatever its kind. */
#include "source.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/io.h"
#include "gguf/gguf.h"
#include "quant/quant.h"
#include "tensor_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- opening and closing ----------------------------------------------------------------- */

gg_status gg_source_no_memory(gg_error *err)
{
    return gg_fail(err, GG_ENOMEM, "no memory for a list of tensors");
}

void gg_source_advise_records(gg_error *err)
{
    gg_fix(err, "extract the organ records again: this file is truncated or damaged");
}

gg_source *gg_source_new(const gg_source_kind *kind, const char *name, gg_error *err)
{
    gg_source *s = calloc(1, kind->size);
    if (s && (s->name = strdup(name))) {
        s->kind = kind;
        return s;
    }
    free(s);
    gg_source_no_memory(err);
    return NULL;
}

static gg_status admit_tensor(const gg_tensor *t, gg_error *err);
static gg_status admit_keys(const gg_meta *meta, gg_error *err);

/* Makes the index for gg_source_find, unless more tensors may be found. The header of a single file
 * has made it already. */
static gg_status index_names(gg_source *s, gg_error *err)
{
    if (s->grows || s->by_name) return GG_OK;
    if (s->n_headers != 1) return gg_name_index(s->tensors, s->n, &s->by_name, err);
    s->by_name = s->headers[0]->by_name;
    s->headers[0]->by_name = NULL;
    return GG_OK;
}

gg_status gg_source_admit(gg_source *s, gg_error *err)
{
    gg_status st = GG_OK;
    if (s->n > GG_LIMIT_ENTRIES)
        st = gg_fail(err, GG_EUNSUPPORTED, "it has %zu tensors; the maximum is 2^22", s->n);
    if (st == GG_OK && s->meta && !s->of && !s->admitted_keys) st = admit_keys(s->meta, err);
    s->admitted_keys = s->meta != NULL;
    for (; s->admitted < s->n && st == GG_OK; s->admitted++) {
        gg_tensor *t = s->streamed ? s->streamed[s->admitted] : &s->tensors[s->admitted];
        st = admit_tensor(t, err);
        if (st == GG_OK && !s->kind->knows) t->a = gg_anatomy_of(t->name, t->name_len);
    }
    return st == GG_OK ? GG_OK : gg_at_file(err, s->name);
}

gg_status gg_source_opened(gg_source *s, gg_status st, gg_source **out, gg_error *err)
{
    if (st == GG_OK) st = gg_source_admit(s, err);
    if (st == GG_OK) st = index_names(s, err);
    if (st == GG_OK) *out = s;
    else gg_source_close(s);
    return st;
}

void gg_source_close(gg_source *s)
{
    if (!s) return;
    if (s->o.changed && s->o.changed->status == GG_OK) gg_source_unchanged(s, s->o.changed);
    if (s->kind->close) s->kind->close(s);
    if (s->owned) gg_source_close(s->of);
    if (s->own_fd) close(s->own_fd - 1);
    free(s->by_name);
    free(s->name);
    free(s);
}

/* ---- contents ---------------------------------------------------------------------------- */

const char *gg_source_name(const gg_source *s)
{
    return s->name;
}

bool gg_source_seekable(const gg_source *s)
{
    return !s->kind->pipe;
}

bool gg_source_grows(const gg_source *s)
{
    return s->grows;
}

const gg_meta *gg_source_meta(const gg_source *s)
{
    return s->meta;
}

const gg_model *gg_source_model(const gg_source *s)
{
    return s->model;
}

static const char *first_file(const gg_source *s)
{
    const gg_model *files = gg_source_model(s);
    return files && files->n_files ? files->paths[0] : gg_source_name(s);
}

bool gg_source_is_same(const gg_source *a, const gg_source *b, gg_error *err)
{
    struct stat x, y;
    return a == b || (gg_stat(first_file(a), &x, err) && gg_stat(first_file(b), &y, err) &&
                      x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

const gg_manifest *gg_source_manifest(const gg_source *s)
{
    return s->manifest;
}

size_t gg_source_files(const gg_source *s)
{
    return s->n_headers;
}

const gg_gguf *gg_source_file(const gg_source *s, size_t i)
{
    return s->headers[i];
}

const gg_gguf *gg_source_header(const gg_source *s)
{
    return s->n_headers ? s->headers[0] : NULL;
}

size_t gg_source_count(const gg_source *s)
{
    return s->n;
}

const gg_tensor *gg_source_tensor(const gg_source *s, size_t i)
{
    return s->streamed ? s->streamed[i] : &s->tensors[i];
}

gg_status gg_source_next(gg_source *s, size_t i, bool *more, gg_error *err)
{
    *more = i < s->n;
    if (!s->kind->next) return GG_OK;
    gg_status st = s->kind->next(s, i, more, err);
    if (st == GG_OK) st = gg_source_admit(s, err);
    if (st == GG_EFORMAT) gg_source_advise_records(err);
    return gg_at_file(err, s->name);
}

gg_source_lack gg_source_lacks(const gg_source *s)
{
    while (s->of) s = s->of;
    return s->lack;
}

size_t gg_source_find(const gg_source *s, const char *name, size_t name_len)
{
    if (!s->by_name) return SIZE_MAX;
    return gg_name_index_find(s->tensors, s->by_name, s->n, name, name_len);
}

/* ---- data -------------------------------------------------------------------------------- */

static const char *data_name(const gg_data *d)
{
    const gg_source *s = d->source;
    return s->kind->file_of ? s->kind->file_of(s, d->index) : s->name;
}

static gg_status data_error(const gg_data *d, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(d->source, d->index);
    gg_at_tensor(err, t->name, t->name_len);
    return gg_at_file(err, data_name(d));
}

gg_status gg_data_open(gg_source *s, size_t i, gg_data *d, gg_error *err)
{
    *d = (gg_data){
        .source = s, .index = i, .fd = -1, .bytes = gg_source_tensor(s, i)->bytes, .hidden = -1
    };
    return s->kind->place ? s->kind->place(s, i, d, err) : GG_OK;
}

gg_status gg_data_read(gg_data *d, uint64_t offset, void *buf, size_t n, gg_error *err)
{
    gg_status st = d->fd >= 0 ? gg_pread_all(d->fd, buf, n, d->at + offset, err)
                              : d->source->kind->read(d, offset, buf, n, err);
    return st == GG_OK ? GG_OK : data_error(d, err);
}

/* Copies what has no place in a file. */
static gg_status copy_made(gg_data *d, uint64_t offset, uint64_t n, gg_place out, gg_error *err)
{
    uint8_t buf[65536];
    gg_status st = GG_OK;
    for (uint64_t done = 0; done < n && st == GG_OK;) {
        size_t step = n - done < sizeof buf ? (size_t)(n - done) : sizeof buf;
        st = gg_data_read(d, offset + done, buf, step, err);
        if (st == GG_OK) st = gg_put_all(out.fd, buf, step, gg_offset_after(out.at, done), err);
        done += step;
    }
    return st;
}

gg_status gg_data_copy(gg_data *d, uint64_t offset, uint64_t n, gg_place out, gg_error *err)
{
    if (d->fd >= 0) gg_copy(data_name(d), (gg_place){ d->fd, d->at + offset }, out, n, err);
    else if (d->source->kind->copy) d->source->kind->copy(d, offset, n, out, err);
    else return copy_made(d, offset, n, out, err);
    bool writing = err->status == GG_EIO && !err->file[0]; /* the caller adds the output's name */
    return err->status == GG_OK || writing ? err->status : data_error(d, err);
}

void gg_data_close(gg_data *d)
{
    int fd = d->hidden >= 0 ? d->hidden : d->fd;
    if (d->close_fd && fd >= 0) close(fd);
    if (d->source->kind->end) d->source->kind->end(d);
    d->cache = NULL;
    d->fd = d->hidden = -1;
}

void gg_source_reads(const gg_source *s, size_t i, gg_reads r)
{
    if (s->kind->reads) s->kind->reads(s, i, r);
}

/* ---- padding and trailing bytes of files -------------------------------------------------- */

gg_status gg_source_pads(gg_source *s, size_t file, gg_pad **pads, size_t *n, gg_error *err)
{
    gg_pad_list found = { 0 };
    gg_status st = s->kind->pads ? s->kind->pads(s, file, &found, err) : GG_OK;
    *pads = found.list;
    *n = found.n;
    return st;
}

uint64_t gg_source_trailing(const gg_source *s, size_t file)
{
    return s->kind->trailing ? s->kind->trailing(s, file) : 0;
}

gg_status gg_source_copy_trailing(gg_source *s, size_t file, int out, uint64_t *bytes,
                                  gg_error *err)
{
    *bytes = 0;
    return s->kind->copy_trailing ? s->kind->copy_trailing(s, file, out, bytes, err) : GG_OK;
}

/* ---- changed files ----------------------------------------------------------------------- */

gg_status gg_source_each_file(const gg_source *s, gg_source_file_fn *fn, void *ctx, gg_error *err)
{
    while (s && s->of) s = s->of;
    return s && s->kind->each_file ? s->kind->each_file(s, fn, ctx, err) : GG_OK;
}

static gg_status check_file(void *ctx, const gg_stamp *was, int fd, const char *path, gg_error *err)
{
    (void)ctx;
    return gg_check_stamp(was, fd, path, err);
}

gg_status gg_source_unchanged(const gg_source *s, gg_error *err)
{
    return gg_source_each_file(s, check_file, NULL, err);
}

/* ---- notes ------------------------------------------------------------------------------- */

void gg_source_note(const gg_source *s, const char *path, const char *text)
{
    char name[512], line[1024];
    if (!s->o.note) return;
    if (s->own_fd) path = s->name; /* that of the pipe, not of the file where it is stored */
    gg_escape(path, strlen(path), name, sizeof name);
    snprintf(line, sizeof line, "%s: %s", strcmp(path, "-") == 0 ? "<stdin>" : name, text);
    s->o.note(s->o.ctx, line);
}

void gg_source_note_cut(const gg_source *s, const char *path, uint64_t missing)
{
    char text[160];
    snprintf(text, sizeof text, "the data is incomplete: at least %llu bytes are missing",
             (unsigned long long)missing);
    gg_source_note(s, path, text);
}

void gg_source_note_partial(const gg_source *s, const gg_partial_set *set)
{
    char text[640], lost[320];
    unsigned long long first = set->first + 1, last = set->first + set->shards;
    int n = first == last ? snprintf(text, sizeof text, "shard %llu", first)
                          : snprintf(text, sizeof text, "shards %llu-%llu", first, last);
    n += snprintf(text + n, sizeof text - (size_t)n, " of %llu; %llu",
                  (unsigned long long)set->count, (unsigned long long)set->tensors);
    if (set->of)
        n += snprintf(text + n, sizeof text - (size_t)n, " of %llu", (unsigned long long)set->of);
    n += snprintf(text + n, sizeof text - (size_t)n, " tensors");
    if (set->missing) {
        gg_escape(set->missing, strlen(set->missing), lost, sizeof lost);
        snprintf(text + n, sizeof text - (size_t)n, "; %s is missing", lost);
    }
    gg_source_note(s, s->name, text);
}

void gg_source_note_keys(const gg_source *s)
{
    char text[96];
    uint64_t no, count;
    gg_error checked = GG_ERROR_INIT; /* when it was opened */
    if (!s->grows || !s->meta) return;
    if (gg_split_numbers(s->meta, &no, &count, &checked) != GG_OK || no == 0) return;
    snprintf(text, sizeof text, "these are the keys of shard %llu of %llu",
             (unsigned long long)no + 1, (unsigned long long)count);
    gg_source_note(s, s->name, text);
}

/* ---- padding ---------------------------------------------------------- */

gg_status gg_too_much_padding(gg_error *err)
{
    gg_fail(err, GG_EUNSUPPORTED,
            "the padding between tensors contains more than %llu MiB that are not zero",
            (unsigned long long)(GG_MOST_PADDING >> 20));
    return gg_fix_by(err, "every_tensor",
                     "select every tensor by name, which leaves out the padding");
}

bool gg_padding_is_plain(const uint8_t *bytes, size_t got, size_t want)
{
    size_t i = 0;
    while (i < got && bytes[i] == 0) i++;
    return i == want;
}

gg_status gg_keep_padding(gg_source *s, gg_pad_list *pads, const gg_tensor *after,
                          const uint8_t *bytes, size_t n, gg_error *err)
{
    s->pad_bytes += n;
    if (s->pad_bytes > GG_MOST_PADDING) /* on a pipe gg_source_pads reports it */
        return s->kind->pipe ? GG_OK : gg_too_much_padding(err);
    if (GG_ROOM(pads->list, pads->n, NULL, err) != GG_OK) return GG_ENOMEM;
    gg_pad *pad = &pads->list[pads->n++];
    *pad = (gg_pad){ .n = n, .bytes = malloc(n ? n : 1), .after_len = after ? after->name_len : 0 };
    pad->after = after ? malloc(after->name_len + 1) : NULL;
    if (!pad->bytes || (after && !pad->after))
        return gg_fail(err, GG_ENOMEM, "no memory for padding");
    if (n) memcpy(pad->bytes, bytes, n);
    if (after) memcpy(pad->after, after->name, after->name_len + 1);
    return GG_OK;
}

/* ---- admission ---------------------------------------------------------------------------
 *
 * The limits and rules that the tensors and keys of every source keep, whatever its kind. The tools
 * rely on them: that a name fits into GG_MAX_NAME + 1 bytes, that sizes are products which do not
 * wrap, and that a model with these keys can be read again after it was written. */

gg_status gg_admit_name(const char *name, size_t len, gg_error *err)
{
    if (len > GG_MAX_NAME) {
        gg_fail(err, GG_EUNSUPPORTED, "its name has %zu bytes, but the limit is %d", len,
                GG_MAX_NAME);
        gg_fix(err, "rename the tensor");
    } else if (!name || name[len] != '\0') {
        gg_fail(err, GG_EFORMAT, "a tensor has no name");
    }
    return gg_at_tensor(err, name ? name : "", name ? len : 0);
}

static gg_status check_shape(const gg_tensor *t, gg_error *err)
{
    uint64_t elements, bytes;
    if (t->n_dims > GG_MAX_DIMS)
        return gg_fail(err, GG_EUNSUPPORTED, "it has %u dimensions; the maximum is %d", t->n_dims,
                       GG_MAX_DIMS);
    for (uint32_t i = 0; i < GG_MAX_DIMS; i++)
        if (t->dims[i] > INT64_MAX || (i >= t->n_dims && t->dims[i] != 1))
            return gg_fail(err, GG_EFORMAT, "dimension %u is impossible", i);
    gg_status st = gg_tensor_extent(t->dtype, t->n_dims, t->dims, &elements, &bytes, err);
    if (st == GG_OK && (elements != t->elements || bytes != t->bytes))
        st = gg_fail(err, GG_EFORMAT, "its size contradicts its shape");
    return st;
}

static gg_status admit_tensor(const gg_tensor *t, gg_error *err)
{
    gg_status st = gg_admit_name(t->name, t->name_len, err);
    if (st == GG_OK) st = check_shape(t, err);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, t->name, t->name_len);
}

/* Whether the strings of an array fill its bytes. */
static bool strings_fit(const gg_kv *kv)
{
    uint64_t pos = 0, n = 0;
    const char *text;
    size_t len;
    while (n < kv->count && gg_kv_next_str(kv, &pos, &text, &len)) n++;
    return n == kv->count && pos == kv->size;
}

static bool value_fits(const gg_kv *kv)
{
    uint64_t size;
    if (kv->type == GG_TYPE_STR) return true;
    if (kv->type != GG_TYPE_ARR) return kv->size == gg_type_size(kv->type);
    if (kv->elem_type == GG_TYPE_STR) return strings_fit(kv);
    return !__builtin_mul_overflow(kv->count, gg_type_size(kv->elem_type), &size) &&
           size == kv->size;
}

static gg_status check_key(const gg_kv *kv, gg_error *err)
{
    bool array = kv->type == GG_TYPE_ARR;
    int shown = kv->key_len < 64 ? (int)kv->key_len : 64;
    if (kv->key_len == 0) return gg_fail(err, GG_EFORMAT, "a metadata key is empty");
    if (kv->type >= GG_TYPE_COUNT ||
        (array && (kv->elem_type >= GG_TYPE_COUNT || kv->elem_type == GG_TYPE_ARR)))
        return gg_fail(err, GG_EFORMAT, "metadata key %.*s has an unknown type", shown, kv->key);
    if (!value_fits(kv))
        return gg_fail(err, GG_EFORMAT, "the value of metadata key %.*s is damaged", shown,
                       kv->key);
    return GG_OK;
}

static gg_status admit_keys(const gg_meta *meta, gg_error *err)
{
    uint64_t no, count;
    gg_status st = GG_OK;
    if (meta->n > GG_LIMIT_ENTRIES)
        return gg_fail(err, GG_EUNSUPPORTED, "it has %zu metadata keys; the maximum is 2^22",
                       meta->n);
    for (size_t i = 0; i < meta->n && st == GG_OK; i++) st = check_key(&meta->kv[i], err);
    if (st == GG_OK) st = gg_unique_keys(meta, NULL, err);
    if (st == GG_OK) st = gg_split_numbers(meta, &no, &count, err);
    return st;
}

gg_status gg_refuse_rows_together(const gg_tensor *t, gg_error *err)
{
    gg_fail(err, GG_EUNSUPPORTED, "%u rows of %s lie together, so that none can be moved alone",
            gg_rows_together(t->dtype), gg_dtype_name(t->dtype));
    return gg_at_tensor(err, t->name, t->name_len);
}
