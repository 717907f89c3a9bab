/* copy_lanes.c - threads that each copy and hash several items at once. */
#include "copy_lanes.h"

#include "base/error.h"
#include "base/io.h"
#include "base/parallel.h"
#include "base/sha256_many.h"
#include "verbs/shared/verb_run.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Bytes read at a time, by all lanes of a thread together and by one of them at least. All fit the
 * second-level cache. */
#define STEP_ALL ((size_t)256 << 10)
#define STEP_LEAST ((size_t)64 << 10)

typedef struct crew {
    size_t n;
    const gg_lane_work *work;
    const gg_run *run;
    unsigned threads;
    size_t *order; /* in which items are started */
    atomic_size_t next;
    atomic_size_t failed_at; /* the first place in the order that failed; SIZE_MAX = none */
    pthread_mutex_t lock;    /* guards failure, and changes of failed_at */
    gg_error failure;
} crew;

/* One lane of a thread. */
typedef struct slot {
    gg_lane l;
    size_t place; /* of the item in the order */
    bool busy;
    gg_data data;
    uint64_t done; /* bytes of the part */
    gg_sha256 hash;
    uint8_t *room, *buf; /* what belongs to the lane, and the bytes of the step in it */
    size_t size, held;   /* of buf */
} slot;

static void close_data(slot *s)
{
    if (s->busy && s->l.part.source) gg_data_close(&s->data);
    s->busy = false;
}

static void fail_item(crew *c, slot *s, gg_status st, gg_error *err)
{
    close_data(s);
    if (err->status == GG_OK) gg_fail(err, st, "%s", gg_status_text(st));
    c->work->fail(c->work->ctx, &s->l, err);
    pthread_mutex_lock(&c->lock);
    if (s->place < atomic_load(&c->failed_at)) {
        atomic_store(&c->failed_at, s->place);
        c->failure = *err;
    }
    pthread_mutex_unlock(&c->lock);
}

/* Goes on with the item until there is data to copy. */
static void advance(crew *c, slot *s, const char *sha)
{
    gg_error err = GG_ERROR_INIT;
    bool more = false;
    gg_status st = c->work->next(c->work->ctx, &s->l, sha, &more, &err);
    if (st == GG_OK && more && s->l.part.source)
        st = gg_data_open(s->l.part.source, s->l.part.index, &s->data, &err);
    if (st != GG_OK) {
        fail_item(c, s, st, &err);
        return;
    }
    s->buf = gg_in_line(s->room, s->l.out.at);
    s->busy = more;
    s->done = 0;
    gg_sha256_init(&s->hash);
}

/* Starts the next item in a free lane. The last items go to one lane per thread, so that all
 * threads have work until the end. Returns false if none is left. */
static bool start(crew *c, slot *s, bool first)
{
    size_t i = atomic_load(&c->next);
    if (!first && (i >= c->n || c->n - i < c->threads)) return false;
    i = atomic_fetch_add(&c->next, 1);
    if (i >= c->n || i > atomic_load(&c->failed_at)) return false;
    s->l = (gg_lane){ .item = c->order[i], .fd = -1 };
    s->place = i;
    advance(c, s, NULL);
    return true;
}

static gg_status read_step(slot *s, gg_error *err)
{
    uint64_t left = s->l.part.bytes - s->done;
    s->held = left < s->size ? (size_t)left : s->size;
    if (s->held == 0) return GG_OK;
    if (!s->l.part.source)
        return gg_pread_all(s->l.out.fd, s->buf, s->held, s->l.out.at + s->done, err);
    return gg_data_read(&s->data, s->l.part.at + s->done, s->buf, s->held, err);
}

static gg_status write_step(const crew *c, slot *s, gg_error *err)
{
    gg_place out = s->l.out;
    bool shared = out.at != GG_AT_POS;
    if (!s->l.part.source) {
        s->done += s->held;
        return GG_OK;
    }
    if (shared) gg_turn_take(c->run);
    gg_status st = gg_put_all(out.fd, s->buf, s->held, gg_offset_after(out.at, s->done), err);
    if (shared) gg_turn_leave(c->run);
    s->done += s->held;
    gg_progress_add(c->run, s->held);
    return st;
}

static void end_part(crew *c, slot *s)
{
    unsigned char digest[32];
    char sha[65];
    gg_sha256_final(&s->hash, digest);
    gg_sha256_hex(digest, sha);
    close_data(s);
    advance(c, s, sha);
}

/* Reads, hashes and writes one step of every lane. */
static void step(crew *c, slot *slots, size_t n)
{
    gg_sha256_piece pieces[GG_SHA256_LANES];
    slot *of[GG_SHA256_LANES];
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        gg_error err = GG_ERROR_INIT;
        slot *s = &slots[i];
        if (!s->busy) continue;
        gg_status st = s->place > atomic_load(&c->failed_at) ? GG_ECANCELLED : read_step(s, &err);
        if (st != GG_OK) {
            fail_item(c, s, st, &err);
            continue;
        }
        pieces[k] = (gg_sha256_piece){ &s->hash, s->buf, s->held };
        of[k++] = s;
    }
    gg_sha256_update_many(pieces, k);
    for (size_t i = 0; i < k; i++) {
        gg_error err = GG_ERROR_INIT;
        gg_status st = write_step(c, of[i], &err);
        if (st != GG_OK) fail_item(c, of[i], st, &err);
        else if (of[i]->done == of[i]->l.part.bytes) end_part(c, of[i]);
    }
}

static gg_status work(void *ctx, size_t task, unsigned worker, gg_error *err)
{
    crew *c = ctx;
    slot slots[GG_SHA256_LANES] = { 0 };
    size_t lanes = gg_sha256_lanes(), size = STEP_ALL / lanes;
    if (size < STEP_LEAST) size = STEP_LEAST;
    uint8_t *bufs = malloc(lanes * (size + GG_LINE_ROOM));
    (void)task;
    (void)worker;
    if (!bufs) return gg_fail(err, GG_ENOMEM, "no memory for copy buffers");
    for (size_t i = 0; i < lanes; i++) {
        slots[i].room = bufs + i * (size + GG_LINE_ROOM);
        slots[i].size = size;
    }
    for (bool any = true; any;) {
        size_t busy = 0;
        for (size_t i = 0; i < lanes; i++) busy += slots[i].busy;
        for (size_t i = 0; i < lanes; i++)
            while (!slots[i].busy && start(c, &slots[i], busy == 0)) busy += slots[i].busy;
        any = busy > 0;
        step(c, slots, lanes);
    }
    free(bufs);
    return GG_OK;
}

typedef struct cost {
    uint64_t values;
    size_t item;
} cost;

static int dearer(const void *a, const void *b)
{
    const cost *x = a, *y = b;
    if (x->values != y->values) return x->values > y->values ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

static bool make_order(crew *c)
{
    cost *list = calloc(c->n + 1, sizeof *list);
    c->order = calloc(c->n + 1, sizeof *c->order);
    bool ok = list && c->order;
    for (size_t i = 0; ok && i < c->n; i++)
        list[i] = (cost){ c->work->cost ? c->work->cost(c->work->ctx, i) : 0, i };
    if (ok && c->work->cost) qsort(list, c->n, sizeof *list, dearer);
    for (size_t i = 0; ok && i < c->n; i++) c->order[i] = list[i].item;
    free(list);
    return ok;
}

gg_status gg_copy_lanes(size_t n, const gg_lane_work *w, const gg_run *run, gg_error *err)
{
    crew c = { .n = n,
               .work = w,
               .run = run,
               .threads = run->threads ? run->threads : gg_thread_count(),
               .failed_at = SIZE_MAX,
               .failure = GG_ERROR_INIT };
    if (c.threads > n) c.threads = n ? (unsigned)n : 1;
    if (!make_order(&c))
        return free(c.order), gg_fail(err, GG_ENOMEM, "no memory for %zu items", n);
    pthread_mutex_init(&c.lock, NULL);
    gg_status st = gg_parallel(c.threads, c.threads, work, &c, err);
    pthread_mutex_destroy(&c.lock);
    free(c.order);
    if (st != GG_OK || c.failed_at == SIZE_MAX) return st;
    gg_error_merge(err, &c.failure);
    return c.failure.status;
}
