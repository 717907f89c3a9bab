/* gguf_split.c - open a model: one file, or all shards of a split set.
 *
 * The names of the shards are derived from the name of the given shard and from its split.count,
 * in the same folder only. Every shard must have its own number in split.no and the same
 * split.count, as the loader of llama.cpp requires.
 */
#include "organ/gg_gguf.h"

#include "base/error.h"
#include "base/io.h"
#include "base/text.h"
#include "gguf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOURNAL ".keys-undo"
#define SUFFIX_LEN 20 /* "-00001-of-00003.gguf" */

char *gg_journal_path(const char *path, gg_error *err)
{
    char *real = gg_real_path(path, err);
    size_t size = real ? strlen(real) + sizeof JOURNAL : 0;
    char *out = real ? malloc(size) : NULL;
    if (out) snprintf(out, size, "%s%s", real, JOURNAL);
    else if (real) gg_fail(err, GG_ENOMEM, "no memory for a name");
    free(real);
    return out;
}

bool gg_journal_exists(const char *path, gg_error *err)
{
    struct stat s;
    char *journal = gg_journal_path(path, err);
    bool exists = journal && gg_lstat(journal, &s, err);
    free(journal);
    return exists;
}

static const char *const split_keys[] = { "split.no", "split.count", "split.tensors.count" };
enum { SPLIT_KEYS = sizeof split_keys / sizeof split_keys[0] };

void gg_meta_delete_split(gg_meta *meta)
{
    for (size_t i = 0; i < SPLIT_KEYS; i++) gg_meta_delete(meta, split_keys[i]);
}

bool gg_is_split_key(const gg_kv *kv)
{
    for (size_t i = 0; i < SPLIT_KEYS; i++)
        if (gg_text_is(kv->key, kv->key_len, split_keys[i])) return true;
    return false;
}

char *gg_shard_name(const char *prefix, uint32_t no, uint32_t count)
{
    size_t size = strlen(prefix) + SUFFIX_LEN + 16;
    char *name = malloc(size);
    if (name) snprintf(name, size, "%s-%05u-of-%05u.gguf", prefix, no + 1, count);
    return name;
}

static bool five_digits(const char *s, uint32_t *v)
{
    *v = 0;
    for (int i = 0; i < 5; i++) {
        if (s[i] < '0' || s[i] > '9') return false;
        *v = *v * 10 + (uint32_t)(s[i] - '0');
    }
    return true;
}

bool gg_shard_parse(const char *path, size_t *prefix_len, uint32_t *no, uint32_t *count)
{
    size_t n = strlen(path);
    if (n < SUFFIX_LEN) return false;
    const char *s = path + n - SUFFIX_LEN;
    uint32_t one_based;
    if (s[0] != '-' || !five_digits(s + 1, &one_based) || memcmp(s + 6, "-of-", 4) != 0 ||
        !five_digits(s + 10, count) || strcmp(s + 15, ".gguf") != 0 || one_based == 0)
        return false;
    *prefix_len = n - SUFFIX_LEN;
    *no = one_based - 1;
    return true;
}

static void clear_model(gg_model *m)
{
    for (size_t i = 0; i < m->n_files; i++) {
        if (m->fds && m->fds[i] >= 0) close(m->fds[i]);
        if (m->files) gg_gguf_free(m->files[i]);
        if (m->paths) free(m->paths[i]);
    }
    free(m->fds);
    free(m->files);
    free(m->paths);
    free(m->file_sizes);
    free(m->stamps);
    free(m->tensors);
    free(m->missing);
}

void gg_model_free(gg_model *m)
{
    if (!m) return;
    clear_model(m);
    free(m);
}

static gg_status open_shard_file(gg_model *m, size_t i, bool cut, gg_error *err)
{
    m->fds[i] = open(m->paths[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (m->fds[i] < 0) {
        gg_fail_errno(err, "cannot open");
        if (errno == ENOENT) gg_fix(err, "check the path");
    } else if (gg_stamp_fd(m->fds[i], &m->stamps[i], err) == GG_OK &&
               gg_journal_exists(m->paths[i], err)) {
        gg_fail(err, GG_EFORMAT, "a change of the metadata was interrupted or is still running");
        gg_fix_by(err, "recover", "finish or undo the change");
    } else if (err->status == GG_OK) {
        gg_gguf_open_fd(m->fds[i], cut, &m->files[i], &m->file_sizes[i], err);
    }
    return gg_at_file(err, m->paths[i]);
}

gg_status gg_split_numbers(const gg_meta *meta, uint64_t *no, uint64_t *count, gg_error *err)
{
    const gg_kv *c = gg_meta_find(meta, "split.count"), *n = gg_meta_find(meta, "split.no");
    *no = 0;
    *count = 1;
    if (!c) return GG_OK;
    if (!gg_kv_u64(c, count) || (n && !gg_kv_u64(n, no)))
        gg_fail(err, GG_EFORMAT, "split.no or split.count is not a whole number");
    else if (*count > GG_LIMIT_SHARDS)
        gg_fail(err, GG_EFORMAT, "split.count is %llu; the maximum is %d",
                (unsigned long long)*count, GG_LIMIT_SHARDS);
    else if (*count > 1 && *no >= *count)
        gg_fail(err, GG_EFORMAT, "split.no is %llu, but split.count is only %llu",
                (unsigned long long)*no, (unsigned long long)*count);
    if (*count == 0) *count = 1;
    return gg_fix(err, "fetch all shards of one model again");
}

static gg_status allocate_files(gg_model *m, size_t n, gg_error *err)
{
    m->paths = calloc(n, sizeof *m->paths);
    m->fds = malloc(n * sizeof *m->fds);
    m->file_sizes = calloc(n, sizeof *m->file_sizes);
    m->stamps = calloc(n, sizeof *m->stamps);
    m->files = calloc(n, sizeof *m->files);
    if (!m->paths || !m->fds || !m->file_sizes || !m->stamps || !m->files)
        return gg_fail(err, GG_ENOMEM, "no memory for %zu shards", n);
    for (size_t i = 0; i < n; i++) m->fds[i] = -1;
    m->n_files = n;
    return GG_OK;
}

/* Derives the paths of the whole set from the name of the opened shard. */
static gg_status name_set(const gg_model *m, uint64_t no, uint32_t count, gg_model *set,
                          gg_error *err)
{
    size_t prefix_len;
    uint32_t named_no, named_count;
    const char *path = m->paths[0];
    if (!gg_shard_parse(path, &prefix_len, &named_no, &named_count) || named_no != no ||
        named_count != count) {
        gg_fail(err, GG_EFORMAT, "this is shard %llu of %u, but the file name does not match",
                (unsigned long long)no + 1, count);
        gg_fix(err, "rename it to NAME-%05llu-of-%05u.gguf in the folder of the other shards",
               (unsigned long long)no + 1, count);
        return gg_at_file(err, path);
    }
    gg_status st = allocate_files(set, count, err);
    char *prefix = st == GG_OK ? strndup(path, prefix_len) : NULL;
    for (uint32_t i = 0; prefix && i < count && st == GG_OK; i++)
        if (!(set->paths[i] = gg_shard_name(prefix, i, count)))
            st = gg_fail(err, GG_ENOMEM, "no memory for shard names");
    if (st == GG_OK && !prefix) st = gg_fail(err, GG_ENOMEM, "no memory for shard names");
    free(prefix);
    return st;
}

/* Returns the number of the first shard that does not exist, or `count`; *missing becomes the
 * number of those that do not. */
static uint32_t first_missing(const gg_model *set, uint32_t count, uint32_t *missing, gg_error *err)
{
    struct stat s;
    uint32_t first = count;
    *missing = 0;
    for (uint32_t i = count; i-- > 0;)
        if (!gg_stat(set->paths[i], &s, err)) {
            first = i;
            ++*missing;
        }
    return first;
}

/* Opens only a part of a split set, from shard `no` on, of which `missing` shards do not exist. */
static void set_partial(gg_model *m, uint64_t no, uint32_t count, uint32_t missing)
{
    m->first_shard = (uint32_t)no;
    m->shard_count = count;
    m->n_missing = missing;
}

/* Replaces the one opened file by the whole set. If the set is incomplete and o->lone_shards is
 * set, keeps the one file. */
static gg_status open_set(gg_model *m, uint64_t no, uint32_t count, const gg_model_options *o,
                          gg_error *err)
{
    gg_model set = { 0 };
    gg_error why = GG_ERROR_INIT;
    gg_status st = name_set(m, no, count, &set, &why);
    uint32_t missing = count - 1, lost = count;
    if (st == GG_OK) lost = first_missing(&set, count, &missing, &why);
    if (st == GG_OK) st = why.status;
    bool unnamed = st == GG_EFORMAT;
    if (o->lone_shards && (unnamed || (st == GG_OK && lost < count))) {
        set_partial(m, no, count, missing);
        if (!unnamed) {
            m->missing = set.paths[lost];
            set.paths[lost] = NULL;
        }
        clear_model(&set);
        return GG_OK;
    }
    gg_error_merge(err, &why);
    if (st == GG_OK && lost < count) {
        st = gg_fail(err, GG_EFORMAT, "shard %u of %u is missing", lost + 1, count);
        gg_fix(err, "put it into the folder of the other shards");
        gg_at_file(err, set.paths[lost]);
    }
    for (uint32_t i = 0; i < count && st == GG_OK; i++)
        st = open_shard_file(&set, i, o->cut_data, err);
    clear_model(m);
    *m = set;
    return st;
}

static gg_status check_shard_set(gg_model *m, gg_error *err)
{
    uint64_t total = 0, claimed = 0;
    for (size_t i = 0; i < m->n_files; i++) {
        uint64_t no, count;
        gg_status st = gg_split_numbers(&m->files[i]->meta, &no, &count, err);
        uint64_t of = m->shard_count ? m->shard_count : m->n_files;
        if (st == GG_OK && (no != m->first_shard + i || count != of))
            st = gg_fail(err, GG_EFORMAT, "according to its metadata this is shard %llu of %llu",
                         (unsigned long long)no + 1, (unsigned long long)count);
        if (st != GG_OK) return gg_at_file(err, m->paths[i]);
        total += m->files[i]->n_tensors;
    }
    const gg_kv *kv = gg_meta_find(&m->files[0]->meta, "split.tensors.count");
    if (m->shard_count) {
        gg_kv_u64(kv, &m->set_tensors);
        return GG_OK;
    }
    if (kv && (!gg_kv_u64(kv, &claimed) || claimed != total)) {
        gg_fail(err, GG_EFORMAT,
                "split.tensors.count does not match the %llu tensors of the shards",
                (unsigned long long)total);
        return gg_at_file(err, m->paths[0]);
    }
    return GG_OK;
}

/* Sorts the names of all shards once. Looking up every name in every shard would take hours for
 * a hostile set. */
static gg_status unique_over_shards(const gg_model *m, gg_error *err)
{
    if (m->n_files < 2) return GG_OK;
    size_t *by_name;
    gg_unique_name_index(m->tensors, m->n_tensors, "two shards contain a tensor with this name",
                         &by_name, err);
    free(by_name);
    return gg_at_file(err, m->paths[0]);
}

static gg_status gather_tensors(gg_model *m, gg_error *err)
{
    for (size_t f = 0; f < m->n_files; f++) m->n_tensors += m->files[f]->n_tensors;
    m->tensors = calloc(m->n_tensors ? m->n_tensors : 1, sizeof *m->tensors);
    if (!m->tensors) return gg_fail(err, GG_ENOMEM, "no memory for %zu tensors", m->n_tensors);
    size_t k = 0;
    for (size_t f = 0; f < m->n_files; f++)
        for (size_t i = 0; i < m->files[f]->n_tensors; i++, k++) {
            m->tensors[k] = m->files[f]->tensors[i];
            m->tensors[k].file = (uint32_t)f;
        }
    return unique_over_shards(m, err);
}

/* ---- shards concatenated into one file --------------------------------------- */

/* Sets *follows to whether another GGUF begins where the tensor data of the last one ends. */
static gg_status another_follows(const gg_model *m, bool *follows, gg_error *err)
{
    const gg_gguf *g = m->files[m->n_files - 1];
    uint64_t end = g->data_start + g->data_bytes, size = m->file_sizes[m->n_files - 1];
    char magic[4];
    *follows = false;
    if (size < 4 || end > size - 4) return GG_OK;
    gg_status st = gg_pread_all(m->fds[0], magic, 4, end, err);
    *follows = st == GG_OK && memcmp(magic, "GGUF", 4) == 0;
    return st;
}

/* Adds the shard that begins where the last one ends. All have the same path, but each gets its
 * own descriptor, because gg_model_free closes each. */
static gg_status add_joined(gg_model *m, bool cut, gg_error *err)
{
    size_t last = m->n_files - 1, i = m->n_files;
    uint64_t size = m->file_sizes[last];
    m->file_sizes[last] = m->files[last]->data_start + m->files[last]->data_bytes;
    m->paths[i] = strdup(m->paths[0]);
    m->stamps[i] = m->stamps[0];
    m->fds[i] = fcntl(m->fds[0], F_DUPFD_CLOEXEC, 0);
    m->n_files++;
    if (!m->paths[i]) return gg_fail(err, GG_ENOMEM, "no memory for a name");
    if (m->fds[i] < 0) return gg_fail_errno(err, "cannot duplicate the descriptor");
    m->file_sizes[i] = size;
    return gg_gguf_read_part(m->fds[i], m->file_sizes[last], size, cut, &m->files[i], err);
}

/* Replaces the one opened file by the shards that it contains one after another. */
static gg_status open_joined(gg_model *m, uint64_t no, uint32_t count, const gg_model_options *o,
                             gg_error *err)
{
    gg_model set = { 0 };
    gg_status st = allocate_files(&set, count - no, err);
    if (st != GG_OK) {
        clear_model(&set);
        return st;
    }
    set.n_files = 1;
    set.paths[0] = m->paths[0];
    set.fds[0] = m->fds[0];
    set.files[0] = m->files[0];
    set.file_sizes[0] = m->file_sizes[0];
    set.stamps[0] = m->stamps[0];
    m->n_files = 0;
    clear_model(m);
    *m = set;
    bool follows = true;
    while (st == GG_OK && m->n_files < count - no && follows)
        if ((st = another_follows(m, &follows, err)) == GG_OK && follows)
            st = add_joined(m, o->cut_data, err);
    if (st == GG_OK && no > 0) st = another_follows(m, &follows, err);
    if (st == GG_OK && no > 0 && follows) {
        st = gg_fail(err, GG_EFORMAT, "this file begins with shard %llu of %u; another one follows",
                     (unsigned long long)no + 1, count);
        gg_fix(err, "concatenate all shards in order");
    }
    if (st == GG_OK && m->n_files < count) {
        if (o->lone_shards) {
            set_partial(m, no, count, count - (uint32_t)m->n_files);
            return GG_OK;
        }
        st = gg_fail(err, GG_EFORMAT, "this file contains %zu of the %u shards", m->n_files, count);
        gg_fix(err, "concatenate all shards in order");
    }
    return st == GG_OK ? GG_OK : gg_at_file(err, m->paths[0]);
}

/* ---- open -------------------------------------------------------------------- */

static gg_status open_shards(gg_model *m, const gg_model_options *o, gg_error *err)
{
    uint64_t no = 0, count = 1;
    gg_status st = gg_split_numbers(&m->files[0]->meta, &no, &count, err);
    if (st != GG_OK) return gg_at_file(err, m->paths[0]);
    if (count < 2) return GG_OK;
    bool joined;
    st = another_follows(m, &joined, err);
    if (st != GG_OK) return gg_at_file(err, m->paths[0]);
    st = joined ? open_joined(m, no, (uint32_t)count, o, err)
                : open_set(m, no, (uint32_t)count, o, err);
    return st == GG_OK ? check_shard_set(m, err) : st;
}

gg_status gg_model_open(const char *path, const gg_model_options *o, gg_model **out, gg_error *err)
{
    static const gg_model_options strict = { 0 };
    gg_model *m = calloc(1, sizeof *m);
    if (!o) o = &strict;
    if (!m) return gg_fail(err, GG_ENOMEM, "no memory for a model");
    gg_status st = allocate_files(m, 1, err);
    if (st == GG_OK && !(m->paths[0] = strdup(path)))
        st = gg_fail(err, GG_ENOMEM, "no memory for a name");
    if (st == GG_OK) st = open_shard_file(m, 0, o->cut_data, err);
    if (st == GG_OK) st = open_shards(m, o, err);
    if (st == GG_OK) st = gather_tensors(m, err);
    if (st != GG_OK) {
        if (st == GG_EFORMAT) gg_fix(err, "fetch all shards of one model again");
        gg_model_free(m);
        return st;
    }
    *out = m;
    return GG_OK;
}
