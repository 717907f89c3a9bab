/* gguf_split.c - open a model: one file, or every shard of the set it belongs to.
 *
 * Shard names are derived from the name given, in its folder only, with the count
 * that split.count states; every shard must state its own number and the same
 * count, as llama.cpp's loader wants.
 */
#include "organ/gg_gguf.h"

#include "base/io.h"
#include "gguf/gguf.h"
#include "gguf_journal.h"
#include "gguf_limits.h"
#include "gguf_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUFFIX_LEN 20 /* "-00001-of-00003.gguf" */

static const char *const split_keys[] = { "split.no", "split.count", "split.tensors.count" };
enum { SPLIT_KEYS = sizeof split_keys / sizeof split_keys[0] };

void gg_meta_delete_split(gg_meta *meta)
{
    for (size_t i = 0; i < SPLIT_KEYS; i++) gg_meta_delete(meta, split_keys[i]);
}

bool gg_is_split_key(const gg_kv *kv)
{
    for (size_t i = 0; i < SPLIT_KEYS; i++)
        if (kv->key_len == strlen(split_keys[i]) &&
            memcmp(kv->key, split_keys[i], kv->key_len) == 0)
            return true;
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

static void clear(gg_model *m)
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
    free(m->tensors);
}

void gg_model_free(gg_model *m)
{
    if (!m) return;
    clear(m);
    free(m);
}

static gg_status open_file(gg_model *m, size_t i, gg_error *err)
{
    m->fds[i] = open(m->paths[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (m->fds[i] < 0) {
        gg_fail_errno(err, "cannot open");
        if (errno == ENOENT) gg_fix(err, "check the path");
    } else if (gg_journal_exists(m->paths[i])) {
        gg_fail(err, GG_EFORMAT, "a change of its keys was interrupted or is still running");
        gg_fix(err, "run organ-keys --recover on it");
    } else {
        gg_gguf_open_fd(m->fds[i], &m->files[i], &m->file_sizes[i], err);
    }
    return gg_at_file(err, m->paths[i]);
}

/* How many shards the file says it has: 1 where it says nothing. */
static gg_status shard_count(const gg_gguf *g, uint64_t *no, uint64_t *count, gg_error *err)
{
    const gg_kv *c = gg_meta_find(&g->meta, "split.count"), *n = gg_meta_find(&g->meta, "split.no");
    *no = 0;
    *count = 1;
    if (!c) return GG_OK;
    if (!gg_kv_u64(c, count) || (n && !gg_kv_u64(n, no)))
        return gg_fail(err, GG_EFORMAT, "split.no or split.count is no shard number");
    if (*count > GG_LIMIT_SHARDS)
        return gg_fail(err, GG_EFORMAT, "split.count is %llu; %d is the most",
                       (unsigned long long)*count, GG_LIMIT_SHARDS);
    if (*count > 1 && *no >= *count)
        return gg_fail(err, GG_EFORMAT, "split.no is %llu but split.count %llu",
                       (unsigned long long)*no, (unsigned long long)*count);
    return GG_OK;
}

static gg_status allocate(gg_model *m, size_t n, gg_error *err)
{
    m->paths = calloc(n, sizeof *m->paths);
    m->fds = malloc(n * sizeof *m->fds);
    m->file_sizes = calloc(n, sizeof *m->file_sizes);
    m->files = calloc(n, sizeof *m->files);
    if (!m->paths || !m->fds || !m->file_sizes || !m->files)
        return gg_fail(err, GG_ENOMEM, "no memory for %zu shards", n);
    for (size_t i = 0; i < n; i++) m->fds[i] = -1;
    m->n_files = n;
    return GG_OK;
}

/* Replace the one opened file by the whole set. */
static gg_status open_set(gg_model *m, uint64_t no, uint32_t count, gg_error *err)
{
    size_t prefix_len;
    uint32_t named_no, named_count;
    char *path = m->paths[0];
    if (!gg_shard_parse(path, &prefix_len, &named_no, &named_count) || named_no != no ||
        named_count != count) {
        gg_fail(err, GG_EFORMAT, "it is shard %llu of %u but is not named so",
                (unsigned long long)no + 1, count);
        gg_fix(err, "rename it to NAME-%05llu-of-%05u.gguf, beside the others",
               (unsigned long long)no + 1, count);
        return gg_at_file(err, path);
    }
    gg_model set = { 0 };
    gg_status st = allocate(&set, count, err);
    char *prefix = st == GG_OK ? strndup(path, prefix_len) : NULL;
    for (uint32_t i = 0; prefix && i < count && st == GG_OK; i++)
        if (!(set.paths[i] = gg_shard_name(prefix, i, count)))
            st = gg_fail(err, GG_ENOMEM, "no memory for shard names");
    if (st == GG_OK && !prefix) st = gg_fail(err, GG_ENOMEM, "no memory for shard names");
    free(prefix);
    for (uint32_t i = 0; i < count && st == GG_OK; i++) {
        if (access(set.paths[i], F_OK) != 0) {
            gg_fail(err, GG_EFORMAT, "shard %u of %u is missing", i + 1, count);
            gg_fix(err, "put it beside the others");
            st = gg_at_file(err, set.paths[i]);
        } else {
            st = open_file(&set, i, err);
        }
    }
    clear(m);
    *m = set;
    return st;
}

static gg_status check_set(const gg_model *m, gg_error *err)
{
    uint64_t total = 0, claimed = 0;
    for (size_t i = 0; i < m->n_files; i++) {
        uint64_t no, count;
        gg_status st = shard_count(m->files[i], &no, &count, err);
        if (st == GG_OK && (no != i || count != m->n_files))
            st = gg_fail(err, GG_EFORMAT, "it says it is shard %llu of %llu",
                         (unsigned long long)no + 1, (unsigned long long)count);
        if (st != GG_OK) return gg_at_file(err, m->paths[i]);
        total += m->files[i]->n_tensors;
    }
    const gg_kv *kv = gg_meta_find(&m->files[0]->meta, "split.tensors.count");
    if (kv && (!gg_kv_u64(kv, &claimed) || claimed != total)) {
        gg_fail(err, GG_EFORMAT,
                "split.tensors.count does not match the %llu tensors of its shards",
                (unsigned long long)total);
        return gg_at_file(err, m->paths[0]);
    }
    return GG_OK;
}

/* Sorted once over all shards: a look-up of every name in every shard would take hours
 * for a set made to. */
static gg_status unique_over_shards(const gg_model *m, gg_error *err)
{
    if (m->n_files < 2) return GG_OK;
    size_t *by_name;
    gg_status st = gg_name_index(m->tensors, m->n_tensors, &by_name, err);
    const gg_tensor *twice = st == GG_OK ? gg_name_index_twice(m->tensors, by_name, m->n_tensors)
                                         : NULL;
    if (twice) {
        gg_fail(err, GG_EFORMAT, "it stands in two shards");
        gg_at_tensor(err, twice->name, twice->name_len);
        gg_at_file(err, m->paths[twice->file]);
    }
    free(by_name);
    return err->status;
}

static gg_status gather(gg_model *m, gg_error *err)
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

gg_status gg_model_open(const char *path, gg_model **out, gg_error *err)
{
    gg_model *m = calloc(1, sizeof *m);
    if (!m) return gg_fail(err, GG_ENOMEM, "no memory for a model");
    gg_status st = allocate(m, 1, err);
    if (st == GG_OK && !(m->paths[0] = strdup(path)))
        st = gg_fail(err, GG_ENOMEM, "no memory for a name");
    if (st == GG_OK) st = open_file(m, 0, err);
    uint64_t no = 0, count = 1;
    if (st == GG_OK && (st = shard_count(m->files[0], &no, &count, err)) != GG_OK)
        gg_at_file(err, path);
    if (st == GG_OK && count > 1) st = open_set(m, no, (uint32_t)count, err);
    if (st == GG_OK && count > 1) st = check_set(m, err);
    if (st == GG_OK) st = gather(m, err);
    if (st != GG_OK) {
        if (st == GG_EFORMAT) gg_fix(err, "fetch the shards again: they are not all of one model");
        gg_model_free(m);
        return st;
    }
    *out = m;
    return GG_OK;
}
