/* hash_behind.c - a ring of buffers, and the thread that hashes them. */
#include "hash_behind.h"

#include "base/error.h"
#include "base/io.h"
#include "base/sha256.h"

#include <pthread.h>
#include <stdlib.h>

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
