/* Items copied and hashed several at once: every code of SHA-256, any number of threads, parts of
 * every size, and which error is kept. */
#include "t.h"

#include "base/sha256.h"
#include "tensors.h"
#include "write/copy.h"

enum { ITEMS = 23, VALUES = 1 << 20 };

/* Item i consists of `parts(i)` parts of tensor 0. Its bytes go to i * ROOM of the file. */
#define ROOM ((uint64_t)4 << 20)

typedef struct job {
    gg_source *s;
    int fd;
    bool again;        /* only hash what an earlier run wrote */
    size_t bad, worse; /* items that fail: in next, and because data is missing */
    char sha[ITEMS][3][65];
    bool held[ITEMS]; /* what fail must release */
    unsigned ended[ITEMS];
} job;

static size_t parts(size_t i)
{
    return i % 4; /* none at all in every fourth */
}

static gg_plan_part part_of(const job *j, size_t i, size_t k)
{
    uint64_t at = (i * 7919 + k * 13) % 4096;
    uint64_t bytes = i == 5 ? 0 : (i * i * 4001 + k * 64 + i % 3) % (3 << 17);
    gg_source *s = j->again ? NULL : j->s;
    return (gg_plan_part){ s, 0, s ? at : 7, i == j->worse ? VALUES * 4 : bytes, NULL };
}

static gg_status next(void *ctx, gg_lane *l, const char *sha, bool *more, gg_error *err)
{
    job *j = ctx;
    size_t i = l->item;
    if (sha) {
        snprintf(j->sha[i][l->k], 65, "%s", sha);
        l->out.at += l->part.bytes;
        l->k++;
    } else {
        T_EQ(l->k, 0);
        T_EQ(l->fd, -1);
        l->out = (gg_place){ j->fd, i * ROOM };
        j->held[i] = true;
    }
    if (i == j->bad && l->k == parts(i)) return gg_fail(err, GG_EFORMAT, "item %zu is bad", i);
    l->part = part_of(j, i, l->k);
    *more = l->k < parts(i);
    if (!*more) j->held[i] = false, j->ended[i]++;
    return GG_OK;
}

static void fail(void *ctx, gg_lane *l, gg_error *err)
{
    job *j = ctx;
    T_CHECK(j->held[l->item]);
    T_CHECK(err->status != GG_OK);
    j->held[l->item] = false;
}

static void check_item(job *j, const uint8_t *data, size_t i)
{
    uint64_t at = i * ROOM;
    T_EQ(j->ended[i], 1);
    j->again = false; /* the same parts of the data */
    for (size_t k = 0; k < parts(i); k++) {
        gg_plan_part p = part_of(j, i, k);
        uint8_t *got = malloc(p.bytes + 1);
        char sha[65];
        T_EQ(pread(j->fd, got, p.bytes, (off_t)at), (ssize_t)p.bytes);
        T_CHECKF(memcmp(got, data + p.at, p.bytes) == 0, "item %zu part %zu", i, k);
        sha_of(data + p.at, p.bytes, sha);
        T_CHECKF(strcmp(sha, j->sha[i][k]) == 0, "item %zu part %zu: %s", i, k, j->sha[i][k]);
        at += p.bytes;
        free(got);
    }
}

static gg_status run_job(job *j, unsigned threads, gg_error *e)
{
    struct gg_turn turn;
    gg_run run = { .threads = threads, .turn = &turn };
    gg_lane_work work = { next, fail, NULL, j };
    pthread_mutex_init(&turn.lock, NULL);
    gg_status st = gg_copy_lanes(ITEMS, &work, &run, e);
    pthread_mutex_destroy(&turn.lock);
    for (size_t i = 0; i < ITEMS; i++) T_CHECKF(!j->held[i], "item %zu is still held", i);
    return st;
}

static void each_code(void (*fn)(gg_source *, const uint8_t *, int))
{
    float *x = random_values(VALUES);
    gg_source *s = one(GG_F32, 1024, VALUES / 1024, x);
    char path[64];
    snprintf(path, sizeof path, "%s/copied", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    gg_sha256_code machine = gg_sha256_in_use();
    for (int code = GG_SHA256_PLAIN; code <= GG_SHA256_SHA; code++)
        if (gg_sha256_force((gg_sha256_code)code)) fn(s, (const uint8_t *)x, fd);
    gg_sha256_force(machine);
    close(fd);
    gg_source_close(s);
    free(x);
}

static void copies_of(gg_source *s, const uint8_t *data, int fd)
{
    for (unsigned threads = 1; threads <= 5; threads += 2) {
        job *j = calloc(1, sizeof *j);
        *j = (job){ .s = s, .fd = fd, .bad = SIZE_MAX, .worse = SIZE_MAX };
        gg_error e = GG_ERROR_INIT;
        T_CHECK(ftruncate(fd, 0) == 0);
        T_EQ(run_job(j, threads, &e), GG_OK);
        for (size_t i = 0; i < ITEMS; i++) check_item(j, data, i);
        *j = (job){ .s = s, .fd = fd, .again = true, .bad = SIZE_MAX, .worse = SIZE_MAX };
        T_EQ(run_job(j, threads, &e), GG_OK);
        for (size_t i = 0; i < ITEMS; i++) check_item(j, data, i);
        free(j);
    }
}

static void copies(void)
{
    each_code(copies_of);
}

/* The first of two items that fail is named, whichever fails first. */
static void errors_of(gg_source *s, const uint8_t *data, int fd)
{
    (void)data;
    for (unsigned threads = 1; threads <= 3; threads += 2)
        for (size_t a = 1; a < ITEMS; a += 9)
            for (size_t b = 2; b < ITEMS; b += 7) {
                job *j = calloc(1, sizeof *j);
                char want[64];
                *j = (job){ .s = s, .fd = fd, .bad = a, .worse = b };
                gg_error e = GG_ERROR_INIT;
                bool first = a <= b || parts(b) == 0;
                T_EQ(run_job(j, threads, &e), GG_EFORMAT);
                snprintf(want, sizeof want, first ? "item %zu is bad" : "ends", a);
                if (a != b) T_CHECKF(strstr(e.what, want), "%zu and %zu: %s", a, b, e.what);
                free(j);
            }
}

static void errors(void)
{
    each_code(errors_of);
}

/* ---- order ------------------------------------------------------------------------ */

static size_t started[ITEMS], n_started;

static gg_status note_start(void *ctx, gg_lane *l, const char *sha, bool *more, gg_error *err)
{
    (void)ctx, (void)sha, (void)err;
    started[n_started++] = l->item;
    *more = false;
    return GG_OK;
}

/* Every third item is computed. */
static uint64_t cost(const void *ctx, size_t i)
{
    (void)ctx;
    return i % 3 ? 0 : 1 + i % 2;
}

/* Computed items come first, the largest before others, and all others in order. */
static void order(void)
{
    static const size_t want[ITEMS] = { 3, 9, 15, 21, 0,  6,  12, 18, 1,  2,  4, 5,
                                        7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22 };
    gg_error e = GG_ERROR_INIT;
    gg_run run = { .threads = 1 };
    gg_lane_work work = { note_start, fail, cost, NULL };
    T_EQ(gg_copy_lanes(ITEMS, &work, &run, &e), GG_OK);
    T_EQ(n_started, ITEMS);
    for (size_t i = 0; i < ITEMS; i++) T_EQ(started[i], want[i]);
}

static const t_case cases[] = {
    { "set up", set_up }, { "copies", copies },     { "errors", errors },
    { "order", order },   { "clean up", clean_up },
};

T_MAIN(cases)
