/* copy.c - copies data and, if wanted, computes its hash in the same pass. */
#include "copy.h"

#include "base/error.h"
#include "base/io.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"
#include "verb_run.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Bytes read at a time: with a hash, they fit the second-level cache. Without one there are more,
 * so that threads wait for each other less often. Lanes share the smaller number. */
#define STEP_HASHED ((size_t)256 << 10)
#define STEP_PLAIN (4 * STEP_HASHED)
#define STEPS_PIPED 3                   /* in work of a copy from a pipe */
#define STEP_OF_LANE ((size_t)64 << 10) /* at least */

void gg_turn_take(const gg_run *run)
{
    if (run && run->turn) pthread_mutex_lock(&run->turn->lock);
}

void gg_turn_leave(const gg_run *run)
{
    if (run && run->turn) pthread_mutex_unlock(&run->turn->lock);
}

void gg_hash_text(gg_sha256 *h, char sha[65])
{
    unsigned char digest[32];
    gg_sha256_final(h, digest);
    gg_sha256_hex(digest, sha);
}

/* ---- a part, step by step -------------------------------------------------------- */

/* A part that is read into a buffer, and from there hashed and written. */
typedef struct copier {
    gg_plan_part part;
    gg_place out;
    gg_data data; /* of part.source, if that is not NULL */
    gg_sha256 hash;
    uint8_t *buf;
    size_t size, held; /* of buf, and of the step in it */
    uint64_t done;
} copier;

static gg_status copier_open(copier *c, const gg_plan_part *part, gg_place out, gg_error *err)
{
    c->part = *part;
    c->out = out;
    c->done = 0;
    gg_sha256_init(&c->hash);
    return part->source ? gg_data_open(part->source, part->index, &c->data, err) : GG_OK;
}

static void copier_close(copier *c)
{
    if (c->part.source) gg_data_close(&c->data);
}

static gg_status copier_read(copier *c, gg_error *err)
{
    uint64_t left = c->part.bytes - c->done;
    c->held = left < c->size ? (size_t)left : c->size;
    if (c->held == 0) return GG_OK;
    if (!c->part.source) return gg_pread_all(c->out.fd, c->buf, c->held, c->out.at + c->done, err);
    return gg_data_read(&c->data, c->part.at + c->done, c->buf, c->held, err);
}

static gg_status copier_write(copier *c, const gg_run *run, gg_error *err)
{
    bool shared = c->out.at != GG_AT_POS;
    gg_status st = GG_OK;
    if (c->part.source && c->out.fd >= 0) {
        if (shared) gg_turn_take(run);
        st = gg_put_all(c->out.fd, c->buf, c->held, gg_offset_after(c->out.at, c->done), err);
        if (shared) gg_turn_leave(run);
    }
    c->done += c->held;
    gg_progress_add(run, c->held);
    return st;
}

/* Inside the kernel, without a hash. */
static gg_status kernel_copy(copier *c, const gg_run *run, gg_error *err)
{
    const gg_plan_part *part = &c->part;
    bool shared = c->out.at != GG_AT_POS;
    gg_status st = GG_OK;
    for (uint64_t done = 0; done < part->bytes && st == GG_OK;) {
        uint64_t step = part->bytes - done < GG_CHUNK ? part->bytes - done : GG_CHUNK;
        gg_place to = { c->out.fd, gg_offset_after(c->out.at, done) };
        if (shared) gg_turn_take(run);
        st = gg_data_copy(&c->data, part->at + done, step, to, err);
        if (shared) gg_turn_leave(run);
        if (st == GG_OK) gg_progress_add(run, step);
        done += step;
    }
    return st;
}

/* One thread reads and hashes while another one writes. */
static gg_status buffer_copy(copier *c, bool hashed, const gg_run *run, gg_error *err)
{
    gg_status st = GG_OK;
    c->size = hashed ? STEP_HASHED : STEP_PLAIN;
    if (c->part.bytes < c->size) c->size = (size_t)c->part.bytes;
    c->buf = malloc(c->size + 1);
    if (!c->buf) return gg_fail(err, GG_ENOMEM, "no memory for a copy buffer");
    while (c->done < c->part.bytes && st == GG_OK) {
        st = copier_read(c, err);
        if (st == GG_OK && hashed) gg_sha256_update(&c->hash, c->buf, c->held);
        if (st == GG_OK) st = copier_write(c, run, err);
    }
    free(c->buf);
    return st;
}

/* A copy from a pipe, in steps that several threads read, hash and write, one after the other. */
typedef struct piped {
    copier *c;
    const gg_run *run;
    uint8_t *bufs[STEPS_PIPED];
} piped;

static size_t piped_bytes(const piped *p, size_t i)
{
    uint64_t left = p->c->part.bytes - i * STEP_HASHED;
    return left < STEP_HASHED ? (size_t)left : STEP_HASHED;
}

static gg_status piped_read(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    piped *p = ctx;
    (void)worker;
    return gg_data_read(&p->c->data, p->c->part.at + i * STEP_HASHED, p->bufs[i % STEPS_PIPED],
                        piped_bytes(p, i), err);
}

static gg_status piped_hash(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    piped *p = ctx;
    (void)worker, (void)err;
    gg_sha256_update(&p->c->hash, p->bufs[i % STEPS_PIPED], piped_bytes(p, i));
    return GG_OK;
}

static gg_status piped_write(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    piped *p = ctx;
    (void)worker;
    p->c->buf = p->bufs[i % STEPS_PIPED];
    p->c->held = piped_bytes(p, i);
    return copier_write(p->c, p->run, err);
}

static gg_status pipe_copy(copier *c, const gg_run *run, gg_error *err)
{
    const size_t room = STEP_HASHED + GG_LINE_ROOM;
    uint8_t *rooms = malloc(STEPS_PIPED * room);
    if (!rooms) return gg_fail(err, GG_ENOMEM, "no memory for a copy buffer");
    piped p = { .c = c, .run = run };
    for (unsigned k = 0; k < STEPS_PIPED; k++) p.bufs[k] = gg_in_line(rooms + k * room, c->out.at);
    size_t n = (size_t)((c->part.bytes + STEP_HASHED - 1) / STEP_HASHED);
    gg_pipeline line = { n, STEPS_PIPED, { piped_read, piped_hash, piped_write }, false };
    gg_status st = gg_run_pipeline(&line, 2, &p, err);
    free(rooms);
    return st;
}

gg_status gg_copy_part(const gg_plan_part *part, gg_place out, char sha[65], const gg_run *run,
                       gg_error *err)
{
    copier c;
    gg_status st = copier_open(&c, part, out, err);
    if (st != GG_OK) return st;
    bool in_kernel = !sha && (out.at == GG_AT_POS ||
                              (c.data.fd >= 0 && gg_copy_by_kernel(c.data.fd, out.fd)));
    bool from_pipe = sha && run && run->threads != 1 && part->bytes > STEPS_PIPED * STEP_HASHED &&
                     part->source && !gg_source_seekable(part->source);
    st = in_kernel   ? kernel_copy(&c, run, err)
         : from_pipe ? pipe_copy(&c, run, err)
                     : buffer_copy(&c, sha != NULL, run, err);
    copier_close(&c);
    if (sha) gg_hash_text(&c.hash, sha);
    return st;
}

gg_status gg_file_sha256(int fd, uint64_t at, uint64_t n, char sha[65], const gg_run *run,
                         gg_error *err)
{
    const gg_plan_part bytes = { .bytes = n };
    return gg_copy_part(&bytes, (gg_place){ fd, at }, sha, run, err);
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
    if (part->source && part->index < gg_source_count(part->source))
        t = gg_source_tensor(part->source, part->index); /* such as one expert of a stack */
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
    if (!m || index == SIZE_MAX || !m->entries[index].sha256[0]) return GG_OK;
    const gg_entry *e = &m->entries[index];
    gg_plan_part whole = { s, index, 0, e->t.bytes, e->sha256 };
    gg_status st = gg_copy_verified(&whole, &e->t, (gg_place){ -1, GG_AT_POS }, NULL, err);
    if (st == GG_OK) return GG_OK;
    gg_at_tensor(err, e->t.name, e->t.name_len);
    gg_at_file(err, gg_source_name(s));
    return st;
}

/* ---- many items: lanes ------------------------------------------------------------ */

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
typedef struct lane_slot {
    gg_lane l;
    size_t place; /* of the item in the order */
    bool busy;    /* c is open */
    copier c;
    uint8_t *room; /* for c.buf */
} lane_slot;

static void fail_item(crew *w, lane_slot *s, gg_status st, gg_error *err)
{
    if (s->busy) copier_close(&s->c);
    s->busy = false;
    if (err->status == GG_OK) gg_fail(err, st, "%s", gg_status_text(st));
    w->work->fail(w->work->ctx, &s->l, err);
    pthread_mutex_lock(&w->lock);
    if (s->place < atomic_load(&w->failed_at)) {
        atomic_store(&w->failed_at, s->place);
        w->failure = *err;
    }
    pthread_mutex_unlock(&w->lock);
}

/* Goes on with the item until there is data to copy. */
static void advance_item(crew *w, lane_slot *s, const char *sha)
{
    gg_error err = GG_ERROR_INIT;
    bool more = false;
    gg_status st = w->work->next(w->work->ctx, &s->l, sha, &more, &err);
    if (st == GG_OK && more) st = copier_open(&s->c, &s->l.part, s->l.out, &err);
    s->busy = st == GG_OK && more;
    if (s->busy) s->c.buf = gg_in_line(s->room, s->l.out.at);
    if (st != GG_OK) fail_item(w, s, st, &err);
}

/* Starts the next item in a free lane. The last items go to one lane per thread, so that all
 * threads have work until the end. Returns false if none is left. */
static bool start_item(crew *w, lane_slot *s, bool first)
{
    size_t i = atomic_load(&w->next);
    if (!first && (i >= w->n || w->n - i < w->threads)) return false;
    i = atomic_fetch_add(&w->next, 1);
    if (i >= w->n || i > atomic_load(&w->failed_at)) return false;
    s->l = (gg_lane){ .item = w->order[i], .fd = -1 };
    s->place = i;
    advance_item(w, s, NULL);
    return true;
}

static void end_part(crew *w, lane_slot *s)
{
    char sha[65];
    gg_hash_text(&s->c.hash, sha);
    copier_close(&s->c);
    s->busy = false;
    advance_item(w, s, sha);
}

/* Reads, hashes and writes one step of every lane. */
static void step_lanes(crew *w, lane_slot *slots, size_t n)
{
    gg_sha256_piece pieces[GG_SHA256_LANES];
    lane_slot *of[GG_SHA256_LANES];
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        gg_error err = GG_ERROR_INIT;
        lane_slot *s = &slots[i];
        if (!s->busy) continue;
        bool cancelled = s->place > atomic_load(&w->failed_at);
        gg_status st = cancelled ? GG_ECANCELLED : copier_read(&s->c, &err);
        if (st != GG_OK) {
            fail_item(w, s, st, &err);
            continue;
        }
        pieces[k] = (gg_sha256_piece){ &s->c.hash, s->c.buf, s->c.held };
        of[k++] = s;
    }
    gg_sha256_update_many(pieces, k);
    for (size_t i = 0; i < k; i++) {
        gg_error err = GG_ERROR_INIT;
        copier *c = &of[i]->c;
        /* Bytes that are only hashed were counted when they were written. */
        gg_status st = copier_write(c, c->part.source ? w->run : NULL, &err);
        if (st != GG_OK) fail_item(w, of[i], st, &err);
        else if (c->done == c->part.bytes) end_part(w, of[i]);
    }
}

static gg_status run_lanes(void *ctx, size_t task, unsigned worker, gg_error *err)
{
    crew *w = ctx;
    lane_slot slots[GG_SHA256_LANES] = { 0 };
    /* not 0: there is one lane or more */
    size_t lanes = gg_sha256_lanes(), size = STEP_HASHED / lanes;
    if (size < STEP_OF_LANE) size = STEP_OF_LANE;
    uint8_t *bufs = malloc(lanes * (size + GG_LINE_ROOM));
    (void)task;
    (void)worker;
    if (!bufs) return gg_fail(err, GG_ENOMEM, "no memory for a copy buffer");
    for (size_t i = 0; i < lanes; i++) {
        slots[i].room = bufs + i * (size + GG_LINE_ROOM);
        slots[i].c.size = size;
    }
    for (bool any = true; any;) {
        size_t busy = 0;
        for (size_t i = 0; i < lanes; i++) busy += slots[i].busy;
        for (size_t i = 0; i < lanes; i++)
            while (!slots[i].busy && start_item(w, &slots[i], busy == 0)) busy += slots[i].busy;
        any = busy > 0;
        step_lanes(w, slots, lanes);
    }
    free(bufs);
    return GG_OK;
}

typedef struct item_cost {
    uint64_t values;
    size_t item;
} item_cost;

static int by_cost(const void *a, const void *b)
{
    const item_cost *x = a, *y = b;
    if (x->values != y->values) return x->values > y->values ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

static bool order_items(crew *w)
{
    item_cost *list = calloc(w->n + 1, sizeof *list);
    w->order = calloc(w->n + 1, sizeof *w->order);
    bool ok = list && w->order;
    for (size_t i = 0; ok && i < w->n; i++)
        list[i] = (item_cost){ w->work->cost ? w->work->cost(w->work->ctx, i) : 0, i };
    if (ok && w->work->cost) qsort(list, w->n, sizeof *list, by_cost);
    for (size_t i = 0; ok && i < w->n; i++) w->order[i] = list[i].item;
    free(list);
    return ok;
}

gg_status gg_copy_lanes(size_t n, const gg_lane_work *work, const gg_run *run, gg_error *err)
{
    crew w = { .n = n,
               .work = work,
               .run = run,
               .threads = run->threads ? run->threads : gg_thread_count(),
               .failed_at = SIZE_MAX,
               .failure = GG_ERROR_INIT };
    if (w.threads > n) w.threads = n ? (unsigned)n : 1;
    if (!order_items(&w)) {
        free(w.order);
        return gg_fail(err, GG_ENOMEM, "no memory for %zu items", n);
    }
    pthread_mutex_init(&w.lock, NULL);
    gg_status st = gg_parallel(w.threads, w.threads, run_lanes, &w, err);
    pthread_mutex_destroy(&w.lock);
    free(w.order);
    if (st != GG_OK || w.failed_at == SIZE_MAX) return st;
    gg_error_merge(err, &w.failure);
    return w.failure.status;
}
