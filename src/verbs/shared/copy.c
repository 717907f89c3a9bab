/* copy.c - copies data and, if wanted, computes its hash. */
#include "copy.h"

#include "base/error.h"
#include "base/io.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "base/sha256_many.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"
#include "verbs/shared/verb_run.h"

#include <pthread.h>
#include <stdatomic.h>
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

#define BEHIND_SLOTS 8
#define BEHIND_ROOM (GG_BEHIND_STEP + GG_LINE_ROOM)

typedef struct behind_slot {
    uint8_t *bytes;
    size_t item, n;
    bool last;
    char sha[65]; /* of the item, if last */
} behind_slot;

struct gg_hash_behind {
    gg_hashed hashed;
    void *ctx;
    uint8_t *room; /* of all slots */
    behind_slot slots[BEHIND_SLOTS];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more, less; /* `put` or `end` changed; `done` changed */
    uint64_t put, done;        /* number of steps; step i is in slot i % BEHIND_SLOTS */
    uint64_t told;             /* steps whose sha was given to the caller, if they have one */
    bool end;
};

static behind_slot *slot_of(gg_hash_behind *b, uint64_t i)
{
    return &b->slots[i % BEHIND_SLOTS];
}

/* Waits for step i. Returns false if there will be none. */
static bool wait_for_step(gg_hash_behind *b, uint64_t i)
{
    pthread_mutex_lock(&b->lock);
    while (b->put <= i && !b->end) pthread_cond_wait(&b->more, &b->lock);
    bool there = b->put > i;
    pthread_mutex_unlock(&b->lock);
    return there;
}

static void *hash_steps(void *arg)
{
    gg_hash_behind *b = arg;
    gg_sha256 h;
    gg_sha256_init(&h);
    for (uint64_t i = 0; wait_for_step(b, i); i++) {
        behind_slot *s = slot_of(b, i);
        gg_sha256_update(&h, s->bytes, s->n);
        if (s->last) {
            unsigned char digest[32];
            gg_sha256_final(&h, digest);
            gg_sha256_hex(digest, s->sha);
            gg_sha256_init(&h);
        }
        pthread_mutex_lock(&b->lock);
        b->done++;
        pthread_cond_signal(&b->less);
        pthread_mutex_unlock(&b->lock);
    }
    return NULL;
}

/* Waits until `done` steps are hashed, and tells the hashes of their items. */
static void wait_until(gg_hash_behind *b, uint64_t done)
{
    pthread_mutex_lock(&b->lock);
    while (b->done < done) pthread_cond_wait(&b->less, &b->lock);
    pthread_mutex_unlock(&b->lock);
    for (; b->told < done; b->told++) {
        const behind_slot *s = slot_of(b, b->told);
        if (s->last) b->hashed(b->ctx, s->item, s->sha);
    }
}

static void release(gg_hash_behind *b)
{
    pthread_cond_destroy(&b->less);
    pthread_cond_destroy(&b->more);
    pthread_mutex_destroy(&b->lock);
    free(b->room);
    free(b);
}

gg_status gg_hash_behind_start(gg_hashed hashed, void *ctx, gg_hash_behind **out, gg_error *err)
{
    gg_hash_behind *b = calloc(1, sizeof *b);
    if (b) b->room = malloc(BEHIND_SLOTS * BEHIND_ROOM);
    if (!b || !b->room) return free(b), gg_fail(err, GG_ENOMEM, "no memory for copy buffers");
    b->hashed = hashed;
    b->ctx = ctx;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->more, NULL);
    pthread_cond_init(&b->less, NULL);
    *out = b;
    if (pthread_create(&b->thread, NULL, hash_steps, b) == 0) return GG_OK;
    release(b);
    *out = NULL;
    return gg_fail(err, GG_ENOMEM, "cannot start a thread");
}

uint8_t *gg_hash_behind_room(gg_hash_behind *b, uint64_t at)
{
    if (b->put >= BEHIND_SLOTS) wait_until(b, b->put - BEHIND_SLOTS + 1);
    uint8_t *room = b->room + b->put % BEHIND_SLOTS * BEHIND_ROOM;
    return slot_of(b, b->put)->bytes = gg_in_line(room, at);
}

void gg_hash_behind_put(gg_hash_behind *b, size_t item, size_t n, bool last)
{
    pthread_mutex_lock(&b->lock);
    behind_slot *s = slot_of(b, b->put++);
    s->item = item;
    s->n = n;
    s->last = last;
    pthread_cond_signal(&b->more);
    pthread_mutex_unlock(&b->lock);
}

void gg_hash_behind_end(gg_hash_behind *b)
{
    if (!b) return;
    wait_until(b, b->put);
    pthread_mutex_lock(&b->lock);
    b->end = true;
    pthread_cond_signal(&b->more);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    release(b);
}

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
