/* t_defaults.c - what the library promises to a program that links it: NULL and zeroed
 * arguments, pointers that stay, descriptors that are closed, limits that are left alone. */
#include "assemble.h"
#include "check/check_hash.h"
#include "files.h"

#include "assemble/gg_stack.h"
#include "base/output.h"
#include "common/key_text.h"
#include "compare/compare_keys.h"
#include "compare/patch_write.h"
#include "gguf/gguf.h"
#include "graft/gg_transplant.h"
#include "graft/patch_apply.h"
#include "imatrix/gg_imatrix.h"
#include "keys/keys_write.h"
#include "kin/gg_compare_model.h"
#include "measure/gg_measure_model.h"
#include "organ/organ.h"
#include "organ/record.h"
#include "purify/gg_purify.h"
#include "write/copy.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define BASE "tests/data/lab/lab-base-q4_k_m.gguf"
#define VERSE "tests/data/lab/lab-verse-q4_k_m.gguf"
#define LORA "tests/data/lab/lab-lora-code.gguf"
#define SHARD "tests/data/gguf/x-00002-of-00003.gguf"

static gg_source *open_source(const char *spec)
{
    gg_source *s = NULL;
    gg_error e = GG_ERROR_INIT;
    T_CHECKF(gg_source_open_with(spec, NULL, &s, &e) == GG_OK, "%s: %s", spec, e.what);
    if (!s) exit(1);
    return s;
}

static const gg_source_options spooled = { .spooled = true };

/* A child that writes the file into the FIFO. */
static void feed_fifo(const char *fifo, const char *path)
{
    if (fork() != 0) return;
    size_t n;
    char *bytes = slurp(path, &n);
    FILE *f = fopen(fifo, "wb");
    if (f) fwrite(bytes, 1, n, f), fclose(f);
    _exit(0);
}

static size_t open_descriptors(void)
{
    size_t n = 0;
    for (int fd = 0; fd < 256; fd++) n += fcntl(fd, F_GETFD) != -1;
    return n;
}

static void close_means_closed(void)
{
    static const struct {
        const char *path;
        gg_status st;
    } cases[] = { { VERSE, GG_OK }, { "tests/data/malformed.tsv", GG_EFORMAT } };
    const char *fifo = scratch("fifo");
    T_CHECK(mkfifo(fifo, 0600) == 0);
    size_t before = open_descriptors();
    for (int k = 0; k < 4; k++) {
        gg_source *s = NULL;
        gg_error e = GG_ERROR_INIT;
        feed_fifo(fifo, cases[k & 1].path);
        T_EQ(gg_source_open_with(fifo, &spooled, &s, &e), cases[k & 1].st);
        T_EQ(s != NULL, cases[k & 1].st == GG_OK);
        gg_source_close(s);
        while (wait(NULL) > 0) {}
        T_EQ(open_descriptors(), before);
    }
}

/* Data can still be read when the FIFO's other end and its name are gone. */
static void spooled_can_be_read(void)
{
    const char *fifo = scratch("fifo2");
    gg_error e = GG_ERROR_INIT;
    gg_source *s = NULL, *want = open_source(VERSE);
    T_CHECK(mkfifo(fifo, 0600) == 0);
    feed_fifo(fifo, VERSE);
    T_EQ(gg_source_open_with(fifo, &spooled, &s, &e), GG_OK);
    while (wait(NULL) > 0) {}
    unlink(fifo);
    if (!s) return;
    T_EQ(gg_source_count(s), gg_source_count(want));
    for (size_t i = 0; i < gg_source_count(s); i++) {
        uint8_t a[64] = { 0 }, b[64] = { 1 };
        gg_data x, y;
        T_EQ(gg_data_open(s, i, &x, &e), GG_OK);
        T_EQ(gg_data_open(want, i, &y, &e), GG_OK);
        size_t n = x.bytes < sizeof a ? (size_t)x.bytes : sizeof a;
        T_EQ(gg_data_read(&x, x.bytes - n, a, n, &e), GG_OK);
        T_EQ(gg_data_read(&y, y.bytes - n, b, n, &e), GG_OK);
        T_CHECK(memcmp(a, b, n) == 0);
        gg_data_close(&x);
        gg_data_close(&y);
    }
    gg_source_close(s);
    gg_source_close(want);
}

enum { RECORDS = 1000 };

static void make_records(const char *path)
{
    FILE *f = fopen(path, "wb");
    if (!f) exit(1);
    for (unsigned i = 0; i < RECORDS; i++) {
        char name[32];
        uint8_t head[GG_RECORD_HEADER];
        gg_tensor t = { .name = name, .n_dims = 1, .dims = GG_DIMS_ONE, .dtype = GG_I8 };
        t.name_len = (size_t)snprintf(name, sizeof name, "t%u", i);
        fwrite(head, 1, gg_record_header(&t, head), f);
        fputc((int)(i & 127), f);
    }
    fclose(f);
}

/* Tensors of a stream stay where they were while more of them arrive. */
static void pointers_stay(void)
{
    static const gg_tensor *seen[RECORDS];
    const char *fifo = scratch("fifo3"), *path = scratch("records.bin");
    gg_error e = GG_ERROR_INIT;
    size_t n = 0;
    bool more = true;
    make_records(path);
    T_CHECK(mkfifo(fifo, 0600) == 0);
    feed_fifo(fifo, path);
    gg_source *s = open_source(fifo);
    T_CHECK(!gg_source_seekable(s));
    while (gg_source_next(s, n, &more, &e) == GG_OK && more && n < RECORDS) {
        seen[n] = gg_source_tensor(s, n);
        n++;
    }
    T_EQ(n, RECORDS);
    for (unsigned i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%u", i);
        T_CHECKF(gg_source_tensor(s, i) == seen[i] && strcmp(seen[i]->name, name) == 0, "%s", name);
    }
    gg_source_close(s);
    while (wait(NULL) > 0) {}
}

/* ---- zero and NULL ----------------------------------------------------------------- */

static void zero_is_the_default(void)
{
    gg_purify_options o = { 0 };
    gg_match_options m = { 0 };
    T_CHECK(o.dtype == NULL && o.method == GG_PURIFY_HAAR && !o.select);
    T_CHECK(m.mode == GG_MATCH_EXACT && m.blend.mode == GG_BLEND_NONE);
    gg_source *s = open_source(VERSE);
    gg_error e = GG_ERROR_INIT;
    const char *dir = scratch("zeroed");
    o.strength = 0.5;
    T_EQ(gg_purify(s, &o, dir, NULL, NULL, &e), GG_OK);
    gg_source *made = open_source(dir);
    T_EQ(gg_source_count(made), gg_source_count(s));
    for (size_t i = 0; i < gg_source_count(made); i++)
        T_EQ(gg_source_tensor(made, i)->dtype, gg_source_tensor(s, i)->dtype);
    gg_source_close(made);
    gg_source_close(s);
}

static void null_extract_and_assemble(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_source *s = open_source(VERSE);
    const char *dir = scratch("dir"), *model = scratch("model.gguf");
    int null = open("/dev/null", O_WRONLY);
    size_t a, b;
    T_EQ(gg_extract(s, NULL, dir, NULL, NULL, &e), GG_OK);
    fflush(stdout);
    int keep = dup(STDOUT_FILENO);
    dup2(null, STDOUT_FILENO);
    gg_status streamed = gg_extract(s, NULL, "-", NULL, NULL, &e);
    dup2(keep, STDOUT_FILENO);
    close(keep);
    T_EQ(streamed, GG_OK);
    T_EQ(gg_extract(s, NULL, NULL, NULL, NULL, &e), GG_OK);
    T_EQ(assemble_path(dir, NULL, model, NULL, &e), GG_OK);
    char *x = slurp(VERSE, &a), *y = slurp(model, &b);
    T_CHECK(a == b && memcmp(x, y, a) == 0);
    free(x), free(y);
    close(null);
    gg_source_close(s);
}

static void null_graft_and_transplant(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_source *base = open_source(BASE), *donor = open_source(VERSE), *lora = open_source(LORA);
    gg_moves moves = { 0 };
    gg_graft_check_report fit;
    size_t n;
    T_EQ(gg_match_tensors(base, donor, NULL, &moves, &e), GG_OK);
    T_EQ(moves.n, gg_source_count(base));
    T_EQ(gg_graft_check(base, donor, &moves, NULL, &fit, &e), GG_OK);
    gg_moves_free(&moves);
    gg_transplant_options dir = { .directory = true };
    T_EQ(gg_transplant(base, donor, &dir, scratch("grafted"), NULL, NULL, &e), GG_OK);
    gg_transplant_options fold = { .directory = true, .adapter = true, .scale = 1 };
    T_EQ(gg_transplant(base, lora, &fold, scratch("folded"), NULL, NULL, &e), GG_OK);
    gg_error e2 = GG_ERROR_INIT;
    gg_transplant_options mtp = { .directory = true, .match.mtp = true };
    T_EQ(gg_transplant(base, donor, &mtp, scratch("mtp"), NULL, NULL, &e2), GG_EUSAGE);
    T_EQ(gg_transplant(base, donor, NULL, scratch("chimera.gguf"), NULL, NULL, &e), GG_OK);
    char *bytes = slurp(BASE, &n);
    const char *copy = scratch("copy.gguf");
    spew(copy, bytes, n);
    free(bytes);
    gg_source *changed = open_source(copy);
    T_EQ(gg_transplant_in_place(changed, donor, NULL, scratch("undo.bin"), NULL, NULL, &e), GG_OK);
    T_CHECKF(e.status == GG_OK, "%s", e.what);
    gg_source_close(changed);
    gg_source_close(base);
    gg_source_close(donor);
    gg_source_close(lora);
}

static void null_measure_compare_purify(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_source *a = open_source(BASE), *b = open_source(VERSE);
    gg_tensor_pair pair = { 0, 0 };
    gg_compare_options pairs = { .pairs = &pair, .n_pairs = 1 };
    gg_lineage l;
    T_EQ(gg_measure_model(a, NULL, NULL, NULL, &e), GG_OK);
    T_EQ(gg_compare_models(a, b, NULL, NULL, NULL, &e), GG_OK);
    T_EQ(gg_compare_models(a, b, &pairs, NULL, NULL, &e), GG_OK);
    T_EQ(gg_lineage_of(a, b, NULL, NULL, &l, &e), GG_OK);
    T_EQ(gg_lineage_of(a, b, &pairs, NULL, &l, &e), GG_OK);
    T_EQ(gg_purify(a, NULL, scratch("pure"), NULL, NULL, &e), GG_OK);
    T_EQ(gg_purify(a, NULL, NULL, NULL, NULL, &e), GG_OK);
    T_CHECKF(e.status == GG_OK, "%s", e.what);
    gg_source_close(a);
    gg_source_close(b);
}

/* A copy of a model under a scratch name. */
static const char *copy_of(const char *path, const char *name)
{
    size_t n;
    char *bytes = slurp(path, &n);
    const char *copy = scratch(name);
    spew(copy, bytes, n);
    free(bytes);
    return copy;
}

static void same_file(const char *a, const char *b)
{
    size_t na, nb;
    char *x = slurp(a, &na), *y = slurp(b, &nb);
    T_CHECKF(na == nb && memcmp(x, y, na) == 0, "%s and %s", a, b);
    free(x), free(y);
}

static void null_keys(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_source *s = open_source(VERSE);
    const char *copy = copy_of(VERSE, "keys.gguf"), *out = scratch("keys-out.gguf");
    T_EQ(gg_keys_write(s, NULL, out, NULL, NULL, &e), GG_OK);
    same_file(VERSE, out);
    gg_source *own = open_source(copy);
    T_EQ(gg_keys_write(own, &(gg_key_edits){ .in_place = true }, NULL, NULL, NULL, &e), GG_OK);
    gg_source_close(own);
    same_file(VERSE, copy);
    T_EQ(gg_keys_recover(copy, NULL, &e), GG_OK);
    T_EQ(gg_compare_keys(s, s, NULL, NULL, NULL, &e), GG_OK);
    T_CHECKF(e.status == GG_OK, "%s", e.what);
    gg_source_close(s);
}

static void null_check(void)
{
    gg_error e = GG_ERROR_INIT;
    const char *list = scratch("hashes.tsv");
    char line[] = "0000000000000000000000000000000000000000000000000000000000000000\tkey\tk\tu32\n";
    gg_source *s = open_source(VERSE);
    T_EQ(gg_check_model(VERSE, NULL, NULL, NULL, &e), GG_OK);
    T_EQ(gg_check_model(VERSE, &(gg_check_options){ .data = true }, NULL, NULL, &e), GG_OK);
    T_EQ(gg_check_hash(s, NULL, NULL, NULL, &e), GG_OK);
    spew(list, line, sizeof line - 1);
    T_EQ(gg_check_hash(s, &(gg_hash_options){ .list = list }, NULL, NULL, &e), GG_OK);
    gg_source_close(s);
    T_CHECKF(e.status == GG_OK, "%s", e.what);
}

static void null_stack_patch_write(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_source *a = open_source(BASE), *b = open_source(VERSE);
    gg_block_order order = { 0 };
    const char *stacked = scratch("stacked.gguf"), *patch = scratch("patch.gguf"),
               *patched = scratch("patched.gguf"), *written = scratch("written.gguf");
    T_EQ(gg_block_order_drop(&order, b, NULL, false, &e), GG_OK);
    T_EQ(gg_stack_blocks(&order, NULL, stacked, NULL, NULL, &e), GG_OK);
    T_EQ(gg_stack_blocks(&order, NULL, NULL, NULL, NULL, &e), GG_OK);
    same_file(VERSE, stacked);
    gg_block_order_free(&order);
    T_EQ(gg_patch_write(a, b, patch, NULL, NULL, &e), GG_OK);
    gg_source *p = open_source(patch);
    T_EQ(gg_patch_apply(a, p, patched, NULL, NULL, &e), GG_OK);
    same_file(VERSE, patched);
    T_EQ(gg_write_model(b, NULL, written, NULL, NULL, &e), GG_OK);
    same_file(VERSE, written);
    T_CHECKF(e.status == GG_OK, "%s", e.what);
    gg_source_close(p);
    gg_source_close(a);
    gg_source_close(b);
}

/* ---- the rest of the process --------------------------------------------------------- */

/* A run that holds its turn to write does not stop another. With one lock for all this
 * test would not end. */
static void runs_do_not_wait_for_each_other(void)
{
    struct gg_turn mine, other;
    gg_run held = { .turn = &mine }, run = { .turn = &other };
    gg_error e = GG_ERROR_INIT;
    pthread_mutex_init(&mine.lock, NULL);
    pthread_mutex_init(&other.lock, NULL);
    gg_source *s = open_source(VERSE);
    gg_plan_part whole = { s, 0, 0, gg_source_tensor(s, 0)->bytes, NULL };
    int fd = open(scratch("turns"), O_RDWR | O_CREAT, 0600);
    gg_turn_take(&held);
    T_CHECK(pthread_mutex_trylock(&mine.lock) != 0);
    for (int k = 0; k < 2; k++) {
        char sha[65];
        T_EQ(gg_copy_part(&whole, (gg_place){ fd, 0 }, k ? sha : NULL, &run, &e), GG_OK);
    }
    T_CHECK(pthread_mutex_trylock(&other.lock) == 0); /* it was left again */
    pthread_mutex_unlock(&other.lock);
    gg_turn_leave(&held);
    T_EQ(assemble_path(scratch("dir"), NULL, scratch("again.gguf"), &(gg_run){ 0 }, &e), GG_OK);
    close(fd);
    gg_source_close(s);
}

static void limits_are_left_alone(void)
{
    struct rlimit before, low, after;
    gg_error e = GG_ERROR_INIT;
    T_CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    low = before;
    low.rlim_cur = 40;
    T_CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    gg_source *s = open_source(SHARD);
    gg_assemble_options o = { .output.shards = 4 };
    T_EQ(assemble_path(scratch("dir"), &o, scratch("split.gguf"), NULL, &e), GG_OK);
    gg_source_close(s);
    /* More shards than descriptors: the advice is to raise the limit. */
    o.output.shards = 30;
    gg_error many = GG_ERROR_INIT;
    low.rlim_cur = 20;
    T_CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    T_EQ(assemble_path(scratch("dir"), &o, scratch("many.gguf"), NULL, &many), GG_EIO);
    char line[1024];
    gg_error_line(&many, "t", line, sizeof line);
    T_CHECKF(strstr(line, "ulimit -n"), "%s", line);
    T_CHECK(getrlimit(RLIMIT_NOFILE, &after) == 0);
    T_EQ(after.rlim_cur, low.rlim_cur);
    T_EQ(after.rlim_max, before.rlim_max);
    setrlimit(RLIMIT_NOFILE, &before);
}

static const t_case cases[] = {
    { "closing a source closes its descriptors", close_means_closed },
    { "a stored pipe can be read", spooled_can_be_read },
    { "tensors of a stream keep their address", pointers_stay },
    { "zero is the default", zero_is_the_default },
    { "NULL: extract, assemble", null_extract_and_assemble },
    { "NULL: graft, transplant", null_graft_and_transplant },
    { "NULL: measure, compare, purify", null_measure_compare_purify },
    { "NULL: keys", null_keys },
    { "NULL: check", null_check },
    { "NULL: stack, patch, write", null_stack_patch_write },
    { "runs do not wait for each other", runs_do_not_wait_for_each_other },
    { "limits are left alone", limits_are_left_alone },
};

T_MAIN(cases)
