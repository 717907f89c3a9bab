/* source_shards.c - concatenated shards on a pipe, and notes about incomplete models. */
#include "source.h"

#include "base/error.h"
#include "base/grow.h"
#include "gguf/gguf.h"
#include "organ/source_layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- notes ------------------------------------------------------------------- */

static void note(const gg_source *s, const char *path, const char *text)
{
    char name[512], line[1024];
    if (!s->o.note) return;
    gg_escape(path, strlen(path), name, sizeof name);
    snprintf(line, sizeof line, "%s: %s", strcmp(path, "-") == 0 ? "<stdin>" : name, text);
    s->o.note(s->o.ctx, line);
}

void gg_note_cut(const gg_source *s, const char *path, uint64_t missing)
{
    char text[160];
    snprintf(text, sizeof text, "the data is incomplete: at least %llu bytes are missing",
             (unsigned long long)missing);
    note(s, path, text);
}

void gg_note_partial(const gg_source *s, const gg_partial_set *set)
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
    note(s, s->name, text);
}

/* ---- shards on a pipe ---------------------------------------------------------- */

static gg_status append_tensors(gg_source *s, gg_gguf *g, gg_error *err)
{
    if (s->pipe.n_shards == 1 && !gg_source_grows(s)) {
        s->tensors = g->tensors;
        s->n = g->n_tensors;
        return GG_OK;
    }
    gg_tensor **grown = realloc(s->streamed, (s->n + g->n_tensors + 1) * sizeof *grown);
    if (!grown) return gg_fail(err, GG_ENOMEM, "no memory for a list of tensors");
    s->streamed = grown;
    for (size_t i = 0; i < g->n_tensors; i++) {
        g->tensors[i].file = (uint32_t)(s->pipe.n_shards - 1);
        s->streamed[s->n++] = &g->tensors[i];
    }
    return GG_OK;
}

/* The numbers of concatenated shards must be consecutive. */
static gg_status check_order(const source_pipe *p, uint64_t no, uint64_t count, gg_error *err)
{
    if (no == p->no + 1 && count == p->count) return GG_OK;
    gg_fail(err, GG_EFORMAT, "shard %llu of %llu is followed by shard %llu of %llu",
            (unsigned long long)p->no + 1, (unsigned long long)p->count, (unsigned long long)no + 1,
            (unsigned long long)count);
    return gg_fix(err, "give the shards of one model in order: cat m-*.gguf");
}

gg_status gg_pipe_read_header(gg_source *s, gg_error *err)
{
    source_pipe *p = &s->pipe;
    uint8_t *surplus;
    size_t surplus_len;
    uint64_t no, count;
    pipe_shard *grown = gg_grow(p->shards, p->n_shards, &p->cap_shards, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    p->shards = grown;
    gg_gguf *g;
    gg_status st = gg_gguf_read_pipe(p->fd, p->buf + p->pos, p->len - p->pos, &g, &surplus,
                                     &surplus_len, err);
    if (st != GG_OK) return st;
    p->shards[p->n_shards++] = (pipe_shard){ .header = g, .first = s->n };
    free(p->buf);
    p->buf = surplus;
    p->pos = 0;
    p->len = p->cap = surplus_len;
    st = gg_shard_numbers(g, &no, &count, err);
    if (st == GG_OK && p->n_shards > 1) st = check_order(p, no, count, err);
    if (st != GG_OK) return st;
    p->no = no;
    p->count = count;
    return append_tensors(s, g, err);
}

static int order_tensors(const void *a, const void *b)
{
    const gg_tensor *x = *(const gg_tensor *const *)a, *y = *(const gg_tensor *const *)b;
    return strcmp(x->name, y->name);
}

/* Checks once, over all shards, that no tensor is in two of them. */
static gg_status check_unique_tensors(const gg_source *s, gg_error *err)
{
    const gg_tensor **list = calloc(s->n + 1, sizeof *list);
    if (!list) return gg_fail(err, GG_ENOMEM, "no memory for a list of tensors");
    for (size_t i = 0; i < s->n; i++) list[i] = s->streamed[i];
    qsort(list, s->n, sizeof *list, order_tensors);
    for (size_t i = 1; i < s->n && err->status == GG_OK; i++) {
        if (strcmp(list[i - 1]->name, list[i]->name) != 0) continue;
        gg_fail(err, GG_EFORMAT, "two shards contain a tensor with this name");
        gg_at_tensor(err, list[i]->name, list[i]->name_len);
    }
    free(list);
    return err->status;
}

/* The input has ended: checks whether the set is complete. */
static gg_status end_of_set(gg_source *s, gg_error *err)
{
    source_pipe *p = &s->pipe;
    gg_partial_set set = {
        .first = p->no + 1 - p->n_shards, .shards = p->n_shards, .count = p->count, .tensors = s->n
    };
    gg_kv_u64(gg_meta_find(&p->shards[0].header->meta, "split.tensors.count"), &set.of);
    bool whole = set.shards == set.count;
    p->count = 1; /* so that this runs only once */
    if (p->n_shards > 1 && check_unique_tensors(s, err) != GG_OK) return err->status;
    if (whole && set.of && set.of != s->n)
        return gg_fail(err, GG_EFORMAT,
                       "split.tensors.count is %llu, but the shards have %zu tensors",
                       (unsigned long long)set.of, s->n);
    if (whole || s->o.note) {
        if (!whole) gg_note_partial(s, &set);
        return GG_OK;
    }
    gg_fail(err, GG_EFORMAT, "shard %llu of %llu is missing",
            (unsigned long long)(set.first ? 1 : set.shards + 1), (unsigned long long)set.count);
    return gg_fix(err, "give all shards in order: cat m-*.gguf");
}

gg_status gg_pipe_next_shard(gg_source *s, bool *more, gg_error *err)
{
    source_pipe *p = &s->pipe;
    *more = false;
    if (p->count < 2) return GG_OK;
    gg_status st = p->cut ? GG_OK : gg_pipe_fill(p, 4, err);
    if (st != GG_OK) return st;
    if (p->no + 1 == p->count || p->len - p->pos < 4 || memcmp(p->buf + p->pos, "GGUF", 4) != 0)
        return end_of_set(s, err);
    *more = true;
    return gg_pipe_read_header(s, err);
}
