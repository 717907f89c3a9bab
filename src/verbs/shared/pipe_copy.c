/* pipe_copy.c - a ring of buffers between a reader, a hasher and a writer. */
#include "pipe_copy.h"

#include "base/error.h"
#include "verbs/shared/verb_run.h"

#include <stdlib.h>

#define SLOTS 4

typedef struct ring {
    const gg_plan_part *part;
    gg_place out;
    gg_sha256 *hash;
    const gg_run *run;
    uint8_t *bytes; /* SLOTS steps */
    pthread_mutex_t lock;
    pthread_cond_t moved; /* any of the following changed */
    uint64_t filled, hashed, written;
    bool stop; /* no step follows after `filled`, although the part is incomplete */
    bool failed;
    gg_error failure; /* of the writer */
} ring;

static uint64_t steps_of(const gg_plan_part *part)
{
    return part->bytes / GG_PIPE_STEP + (part->bytes % GG_PIPE_STEP != 0);
}

static size_t size_of(const ring *r, uint64_t step)
{
    uint64_t left = r->part->bytes - step * GG_PIPE_STEP;
    return left < GG_PIPE_STEP ? (size_t)left : GG_PIPE_STEP;
}

static uint8_t *slot_of(const ring *r, uint64_t step)
{
    return r->bytes + step % SLOTS * GG_PIPE_STEP;
}

/* Waits until a step is filled. Returns false if it never will be. */
static bool wait_for(ring *r, uint64_t step)
{
    pthread_mutex_lock(&r->lock);
    while (r->filled <= step && !r->stop && !r->failed) pthread_cond_wait(&r->moved, &r->lock);
    bool there = r->filled > step && !r->failed;
    pthread_mutex_unlock(&r->lock);
    return there;
}

/* Waits for a free slot for a step. Returns false if the writer has failed. */
static bool wait_for_room(ring *r, uint64_t step)
{
    pthread_mutex_lock(&r->lock);
    while (!r->failed && (step - r->hashed >= SLOTS || step - r->written >= SLOTS))
        pthread_cond_wait(&r->moved, &r->lock);
    bool room = !r->failed;
    pthread_mutex_unlock(&r->lock);
    return room;
}

static void count_step(ring *r, uint64_t *counter)
{
    pthread_mutex_lock(&r->lock);
    ++*counter;
    pthread_cond_broadcast(&r->moved);
    pthread_mutex_unlock(&r->lock);
}

static void *hash_steps(void *arg)
{
    ring *r = arg;
    for (uint64_t i = 0; i < steps_of(r->part) && wait_for(r, i); i++) {
        gg_sha256_update(r->hash, slot_of(r, i), size_of(r, i));
        count_step(r, &r->hashed);
    }
    return NULL;
}

static void *write_steps(void *arg)
{
    ring *r = arg;
    for (uint64_t i = 0; i < steps_of(r->part) && wait_for(r, i); i++) {
        gg_error err = GG_ERROR_INIT;
        uint64_t at = gg_offset_after(r->out.at, i * GG_PIPE_STEP);
        gg_status st = gg_put_all(r->out.fd, slot_of(r, i), size_of(r, i), at, &err);
        if (st == GG_OK) {
            gg_progress_add(r->run, size_of(r, i));
            count_step(r, &r->written);
            continue;
        }
        pthread_mutex_lock(&r->lock);
        r->failed = true;
        r->failure = err;
        pthread_cond_broadcast(&r->moved);
        pthread_mutex_unlock(&r->lock);
        break;
    }
    return NULL;
}

static gg_status read_steps(ring *r, gg_data *d, gg_error *err)
{
    gg_status st = GG_OK;
    for (uint64_t i = 0; i < steps_of(r->part) && st == GG_OK && wait_for_room(r, i); i++) {
        st = gg_data_read(d, r->part->at + i * GG_PIPE_STEP, slot_of(r, i), size_of(r, i), err);
        if (st == GG_OK) count_step(r, &r->filled);
    }
    return st;
}

static void stop(ring *r)
{
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->moved);
    pthread_mutex_unlock(&r->lock);
}

/* Reads while two threads hash and write. Without them nothing is read. */
static gg_status run_ring(ring *r, gg_data *d, gg_error *err)
{
    pthread_t hasher, writer;
    gg_error why = GG_ERROR_INIT;
    if (pthread_create(&hasher, NULL, hash_steps, r) != 0)
        return gg_fail(err, GG_ENOMEM, "cannot start a thread");
    bool started = pthread_create(&writer, NULL, write_steps, r) == 0;
    gg_status st = started ? read_steps(r, d, &why)
                           : gg_fail(&why, GG_ENOMEM, "cannot start a thread");
    stop(r);
    if (started) pthread_join(writer, NULL);
    pthread_join(hasher, NULL);
    /* The writer is behind the reader, so its error came first. */
    if (r->failed) gg_error_merge(err, &r->failure);
    gg_error_merge(err, &why);
    return r->failed ? r->failure.status : st;
}

gg_status gg_pipe_copy_part(gg_data *d, const gg_plan_part *part, gg_place out, gg_sha256 *h,
                            const gg_run *run, gg_error *err)
{
    ring r = { .part = part,
               .out = out,
               .hash = h,
               .run = run,
               .bytes = malloc(SLOTS * GG_PIPE_STEP),
               .failure = GG_ERROR_INIT };
    if (!r.bytes) return gg_fail(err, GG_ENOMEM, "no memory for copy buffers");
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.moved, NULL);
    gg_status st = run_ring(&r, d, err);
    pthread_cond_destroy(&r.moved);
    pthread_mutex_destroy(&r.lock);
    free(r.bytes);
    return st;
}
