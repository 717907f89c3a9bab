/* t_gguf.c - every valid file has the expected contents, its header can be written again
 * byte for byte, and memory, file and pipe agree. */
#include "files.h"
#include "parse_gguf.h"

#include "base/sha256.h"
#include "gguf/gguf.h"
#include "organ/gg_gguf.h"

#include <fcntl.h>
#include <inttypes.h>

static char *valid_path(const char *stem)
{
    static char path[200];
    snprintf(path, sizeof path, "tests/data/gguf/%s.gguf", stem);
    return path;
}

static gg_gguf *parse_file(const char *stem, char **bytes, size_t *n)
{
    gg_error e = GG_ERROR_INIT;
    gg_gguf *g = NULL;
    *bytes = slurp(valid_path(stem), n);
    T_CHECKF(parse_gguf(*bytes, *n, true, &g, &e) == GG_OK, "%s: %s", stem, e.what);
    return g;
}

/* ---- against the expected content --------------------------------------------- */

/* The next tab-separated field of *line. */
static char *field(char **line)
{
    char *f = *line;
    size_t n = strcspn(f, "\t");
    *line = f + n + (f[n] == '\t');
    f[n] = '\0';
    return f;
}

static void check_text(const char *stem, const char *what, const char *got, const char *want)
{
    T_CHECKF(strcmp(got, want) == 0, "%s: %s is %.60s, not %.60s", stem, what, got, want);
}

static void check_number(const char *stem, const char *what, uint64_t got, const char *want)
{
    T_CHECKF(got == strtoull(want, NULL, 10), "%s: %s is %" PRIu64 ", not %s", stem, what, got,
             want);
}

static char *strings_in_hex(const gg_kv *kv)
{
    char *out = calloc(1, 2 * kv->size + kv->count + 1);
    uint64_t pos = 0, i = 0;
    const char *s;
    size_t n;
    if (!out) exit(1);
    for (; gg_kv_next_str(kv, &pos, &s, &n); i++) {
        char *hex = hex_of(s, n);
        if (i) strcat(out, ",");
        strcat(out, hex);
        free(hex);
    }
    T_CHECK(i == kv->count && pos == kv->size);
    return out;
}

static void check_kv(const char *stem, const gg_kv *kv, char *line)
{
    char *key = hex_of(kv->key, kv->key_len);
    check_text(stem, "key", key, field(&line));
    check_text(stem, key, gg_type_name(kv->type), field(&line));
    check_text(stem, key, kv->type == GG_TYPE_ARR ? gg_type_name(kv->elem_type) : "-",
               field(&line));
    check_number(stem, key, kv->count, field(&line));
    bool strings = kv->type == GG_TYPE_ARR && kv->elem_type == GG_TYPE_STR;
    char *value = strings ? strings_in_hex(kv) : hex_of(kv->data, kv->size);
    check_text(stem, key, value, field(&line));
    free(value);
    free(key);
}

static void check_tensor(const char *stem, const gg_gguf *g, const gg_tensor *t, const char *bytes,
                         char *line)
{
    char *name = hex_of(t->name, t->name_len), dims[100], sha[65];
    check_text(stem, "tensor name", name, field(&line));
    check_number(stem, "dtype", t->dtype, field(&line));
    snprintf(dims, sizeof dims, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, t->dims[0],
             t->dims[1], t->dims[2], t->dims[3]);
    check_text(stem, "dims", dims, field(&line));
    check_number(stem, "offset", t->offset, field(&line));
    check_number(stem, "bytes", t->bytes, field(&line));
    check_number(stem, "n_dims", t->n_dims, field(&line));
    gg_sha256 h;
    unsigned char digest[32];
    gg_sha256_init(&h);
    gg_sha256_update(&h, bytes + g->data_start + t->offset, t->bytes);
    gg_sha256_final(&h, digest);
    gg_sha256_hex(digest, sha);
    check_text(stem, "sha256", sha, field(&line));
    T_EQ(t->name[t->name_len], '\0');
    T_EQ(gg_name_index_find(g->tensors, g->by_name, g->n_tensors, t->name, t->name_len),
         (size_t)(t - g->tensors));
    free(name);
}

static void against_expected(const char *stem)
{
    char path[200], *bytes;
    size_t n, kvs = 0, tensors = 0;
    gg_gguf *g = parse_file(stem, &bytes, &n);
    if (!g) return;
    snprintf(path, sizeof path, "tests/data/gguf/expect/%s.tsv", stem);
    char *text = slurp(path, NULL);
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        char *rest = line, *what = field(&rest);
        if (strcmp(what, "version") == 0) check_number(stem, what, g->version, rest);
        else if (strcmp(what, "alignment") == 0) check_number(stem, what, g->alignment, rest);
        else if (strcmp(what, "n_kv") == 0) check_number(stem, what, g->meta.n, rest);
        else if (strcmp(what, "n_tensors") == 0) check_number(stem, what, g->n_tensors, rest);
        else if (strcmp(what, "data_offset") == 0) check_number(stem, what, g->data_start, rest);
        else if (strcmp(what, "kv") == 0 && kvs < g->meta.n)
            check_kv(stem, &g->meta.kv[kvs++], rest);
        else if (strcmp(what, "tensor") == 0 && tensors < g->n_tensors)
            check_tensor(stem, g, &g->tensors[tensors++], bytes, rest);
        else T_CHECKF(strcmp(what, "endian") == 0, "%s: a line too many: %s", stem, what);
    }
    T_CHECKF(kvs == g->meta.n && tensors == g->n_tensors, "%s: %zu keys, %zu tensors", stem, kvs,
             tensors);
    T_EQ(gg_name_index_find(g->tensors, g->by_name, g->n_tensors, "no such tensor", 14), SIZE_MAX);
    free(text);
    free(bytes);
    gg_gguf_free(g);
}

static void expected(void)
{
    T_EQ(each_valid(against_expected), 38);
}

/* ---- written again ------------------------------------------------------------------ */

static void written_again(const char *stem)
{
    char *bytes;
    size_t n, len = 0;
    uint8_t *header = NULL;
    gg_gguf *g = parse_file(stem, &bytes, &n);
    if (!g) return;
    gg_error e = GG_ERROR_INIT;
    gg_tensor *copy = calloc(g->n_tensors + 1, sizeof *copy);
    if (!copy) exit(1);
    for (size_t i = 0; i < g->n_tensors; i++) {
        copy[i] = g->tensors[i];
        copy[i].offset = 12345;
    }
    uint64_t data_bytes = 1;
    T_EQ(gg_plan_offsets(copy, g->n_tensors, g->alignment, &data_bytes, &e), GG_OK);
    T_CHECKF(data_bytes == g->data_bytes, "%s", stem);
    T_EQ(gg_header_emit(g->version, &g->meta, copy, g->n_tensors, &header, &len, &e), GG_OK);
    T_CHECKF(len == g->header_bytes && memcmp(header, bytes, len) == 0, "%s: the header differs",
             stem);
    T_CHECK(memcmp(g->raw, bytes, g->header_bytes) == 0);
    gg_meta meta = GG_META_INIT;
    T_EQ(gg_meta_copy(&meta, &g->meta, &e), GG_OK);
    gg_gguf_free(g); /* the copy of the metadata is independent */
    free(header);
    free(copy);
    header = NULL;
    T_CHECK(gg_header_emit(3, &meta, NULL, 0, &header, &len, &e) == GG_OK);
    T_CHECKF(len <= n && memcmp(header + 24, bytes + 24, len - 24) == 0,
             "%s: the copied keys differ", stem);
    free(header);
    gg_meta_free(&meta);
    free(bytes);
}

static void emitted(void)
{
    each_valid(written_again);
}

/* ---- the ways in -------------------------------------------------------------------- */

static bool same_header(const gg_gguf *a, const gg_gguf *b)
{
    bool same = a->version == b->version && a->alignment == b->alignment &&
                a->n_tensors == b->n_tensors && a->meta.n == b->meta.n &&
                a->header_bytes == b->header_bytes && a->data_start == b->data_start &&
                a->data_bytes == b->data_bytes && memcmp(a->raw, b->raw, a->header_bytes) == 0;
    for (size_t i = 0; same && i < a->n_tensors; i++) {
        const gg_tensor *s = &a->tensors[i], *t = &b->tensors[i];
        same = s->name_len == t->name_len && memcmp(s->name, t->name, s->name_len) == 0 &&
               s->offset == t->offset && s->bytes == t->bytes && s->elements == t->elements &&
               s->dtype == t->dtype && a->by_name[i] == b->by_name[i];
    }
    return same;
}

/* Through a pipe, `prefix` bytes of which were taken before, and the rest written in
 * small pieces; what was read past the header is handed over. */
static void through_pipe(const char *stem, const gg_gguf *g, const char *bytes, size_t n,
                         size_t prefix)
{
    int fd[2];
    if (n > 60000 || prefix > n || pipe(fd) != 0) return; /* more than a pipe holds */
    T_EQ(write(fd[1], bytes + prefix, n - prefix), (ssize_t)(n - prefix));
    close(fd[1]);
    gg_error e = GG_ERROR_INIT;
    gg_gguf *p = NULL;
    uint8_t *surplus = NULL;
    size_t surplus_n = 0;
    T_CHECKF(gg_gguf_read_pipe(fd[0], bytes, prefix, &p, &surplus, &surplus_n, &e) == GG_OK,
             "%s: %s", stem, e.what);
    if (p) {
        T_CHECKF(same_header(g, p), "%s through a pipe", stem);
        size_t left = n - (size_t)p->header_bytes;
        T_CHECKF(surplus_n <= left &&
                     (surplus_n == 0 || memcmp(surplus, bytes + p->header_bytes, surplus_n) == 0),
                 "%s: surplus", stem);
        char *rest = malloc(left + 1);
        if (!rest) exit(1);
        T_EQ(read(fd[0], rest, left + 1), (ssize_t)(left - surplus_n));
        T_CHECK(memcmp(rest, bytes + n - (left - surplus_n), left - surplus_n) == 0);
        free(rest);
    }
    close(fd[0]);
    free(surplus);
    gg_gguf_free(p);
}

static void ways_in(const char *stem)
{
    char *bytes;
    size_t n;
    gg_gguf *g = parse_file(stem, &bytes, &n), *f = NULL;
    if (!g) return;
    int fd = open(valid_path(stem), O_RDONLY);
    uint64_t size = 0;
    gg_error e = GG_ERROR_INIT;
    lseek(fd, 7, SEEK_SET);
    T_CHECKF(gg_gguf_open_fd(fd, false, &f, &size, &e) == GG_OK && size == n, "%s: %s", stem,
             e.what);
    T_EQ(lseek(fd, 0, SEEK_CUR), 7);
    if (f) T_CHECKF(same_header(g, f), "%s: read", stem);
    gg_gguf_free(f);
    close(fd);
    static const size_t prefixes[] = { 0, 4, 24, 100, 60000 };
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        through_pipe(stem, g, bytes, n, prefixes[i]);
    gg_gguf_free(g);
    free(bytes);
}

static void agree(void)
{
    each_valid(ways_in);
}

/* A header of many reads: 3000 strings of 100 bytes, 2000 tensors, 1000 bytes of data each. */
static gg_gguf *long_header(char **bytes, size_t *n)
{
    static uint8_t strings[3000 * 108];
    static char names[2000][8];
    static gg_tensor t[2000];
    gg_meta meta = GG_META_INIT;
    gg_error e = GG_ERROR_INIT;
    gg_gguf *g = NULL;
    uint8_t *header = NULL;
    uint64_t data_bytes = 0;
    for (size_t i = 0; i < 3000; i++) memset(strings + i * 108 + 8, (int)i, strings[i * 108] = 100);
    const gg_kv kv = { "words", 5, GG_TYPE_ARR, GG_TYPE_STR, 3000, strings, sizeof strings };
    for (size_t i = 0; i < 2000; i++) {
        snprintf(names[i], sizeof names[i], "t%zu", i);
        t[i] = (gg_tensor){ .name = names[i],
                            .name_len = strlen(names[i]),
                            .n_dims = 1,
                            .dims = { 1000, 1, 1, 1 },
                            .dtype = GG_I8,
                            .elements = 1000,
                            .bytes = 1000 };
    }
    T_CHECK(gg_meta_set(&meta, &kv, &e) == GG_OK &&
            gg_plan_offsets(t, 2000, 32, &data_bytes, &e) == GG_OK);
    T_EQ(gg_header_emit(3, &meta, t, 2000, &header, n, &e), GG_OK);
    gg_meta_free(&meta);
    *bytes = calloc(1, *n + 32 + data_bytes);
    if (!*bytes || !header) exit(1);
    memcpy(*bytes, header, *n);
    free(header);
    *n = gg_align_up(*n, 32) + data_bytes;
    T_CHECKF(parse_gguf(*bytes, *n, true, &g, &e) == GG_OK, "%s", e.what);
    if (!g) exit(1);
    return g;
}

static void long_headers(void)
{
    char *bytes;
    size_t n;
    gg_gguf *g = long_header(&bytes, &n), *f = NULL, *p = NULL;
    gg_error e = GG_ERROR_INIT;
    uint64_t size;
    spew(scratch("long.gguf"), bytes, n);
    int fd = open(scratch("long.gguf"), O_RDONLY);
    T_CHECK(g->header_bytes > 5 * 65536 && gg_gguf_open_fd(fd, false, &f, &size, &e) == GG_OK &&
            same_header(g, f));
    uint8_t *surplus = NULL;
    size_t surplus_n = 0;
    T_CHECK(gg_gguf_read_pipe(fd, NULL, 0, &p, &surplus, &surplus_n, &e) == GG_OK &&
            same_header(g, p));
    T_CHECK(surplus_n < 65536 && (size_t)lseek(fd, 0, SEEK_CUR) == g->header_bytes + surplus_n);
    T_CHECK(surplus && memcmp(surplus, bytes + g->header_bytes, surplus_n) == 0);
    free(surplus);
    gg_gguf_free(p);
    gg_gguf_free(f);
    gg_gguf_free(g);
    free(bytes);
    close(fd);
}

/* Truncated after it was asked for its size, wherever its reading is by then. */
static void files_that_shrink(void)
{
    char *bytes;
    size_t n;
    gg_gguf *g = long_header(&bytes, &n);
    const size_t header = (size_t)g->header_bytes,
                 cuts[] = { 0, 1, 4096, 65535, 65536, 65537, 131072, 200000, header - 1, header };
    gg_gguf_free(g);
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        spew(scratch("long.gguf"), bytes, cuts[i]);
        int fd = open(scratch("long.gguf"), O_RDONLY);
        gg_error e = GG_ERROR_INIT;
        g = NULL;
        gg_status st = gg_gguf_read_part(fd, 0, n, false, &g, &e);
        if (st == GG_OK)
            T_CHECKF(cuts[i] == header && g->header_bytes == header, "cut at %zu", cuts[i]);
        else
            T_CHECKF(st == GG_EFORMAT && !g && strstr(e.what, "early") &&
                         strstr(e.fix, "while it was read"),
                     "cut at %zu: %s", cuts[i], e.what);
        gg_gguf_free(g);
        close(fd);
    }
    free(bytes);
}

/* Bytes that follow the header: `whole` false asks nothing of them. */
static void headers_alone(void)
{
    char *bytes;
    size_t n;
    gg_gguf *g = parse_file("v3-basic", &bytes, &n), *h = NULL;
    if (!g) return;
    gg_error e = GG_ERROR_INIT;
    T_CHECK(parse_gguf(bytes, g->header_bytes, false, &h, &e) == GG_OK && same_header(g, h));
    gg_gguf_free(h);
    gg_error e2 = GG_ERROR_INIT;
    h = NULL;
    T_EQ(parse_gguf(bytes, g->header_bytes, true, &h, &e2), GG_EFORMAT);
    gg_gguf_free(g);
    free(bytes);
}

static void old_and_foreign(void)
{
    static const char *const files[][2] = { { "big-endian-v3", "big-endian" },
                                            { "v1-by-hand", "version 1" } };
    for (size_t i = 0; i < 2; i++) {
        size_t n;
        char *bytes = slurp(valid_path(files[i][0]), &n);
        gg_error e = GG_ERROR_INIT;
        gg_gguf *g = NULL;
        T_EQ(parse_gguf(bytes, n, true, &g, &e), GG_EFORMAT);
        T_CHECKF(strstr(e.what, files[i][1]) && e.fix[0] && e.offset == 4, "%s", e.what);
        free(bytes);
    }
}

/* ---- limits of writing --------------------------------------------------------------- */

static void long_names_are_refused(void)
{
    char name[GG_MAX_NAME + 2];
    memset(name, 'n', sizeof name);
    gg_tensor t = { .name = name,
                    .name_len = GG_MAX_NAME,
                    .n_dims = 1,
                    .dims = { 4, 1, 1, 1 },
                    .dtype = GG_F32,
                    .elements = 4,
                    .bytes = 16 };
    gg_meta meta = GG_META_INIT;
    uint8_t *out = NULL;
    size_t n;
    gg_error e = GG_ERROR_INIT;
    T_CHECK(gg_header_emit(3, &meta, &t, 1, &out, &n, &e) == GG_OK &&
            n == 24 + 24 + GG_MAX_NAME + 8);
    free(out);
    t.name_len = GG_MAX_NAME + 1;
    T_CHECK(gg_header_emit(3, &meta, &t, 1, &out, &n, &e) == GG_EFORMAT && e.tensor[0]);
}

static void offsets_do_not_overflow(void)
{
    gg_tensor t[2] = { { .name = "a", .name_len = 1, .bytes = (uint64_t)INT64_MAX - 100 },
                       { .name = "b", .name_len = 1, .bytes = 200 } };
    uint64_t bytes;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_plan_offsets(t, 2, 32, &bytes, &e), GG_EFORMAT);
    gg_tensor u[3] = { { .bytes = 5 }, { .bytes = 0 }, { .bytes = 64 } };
    gg_error e2 = GG_ERROR_INIT;
    T_CHECK(gg_plan_offsets(u, 3, 64, &bytes, &e2) == GG_OK && bytes == 128 && u[1].offset == 64 &&
            u[2].offset == 64);
}

/* A dimension of 2^63 is refused even where another one is 0. */
static void negative_dimensions_are_refused(void)
{
    gg_tensor t = { .name = "a",
                    .name_len = 1,
                    .n_dims = 2,
                    .dims = { 0, UINT64_C(1) << 63, 1, 1 },
                    .dtype = GG_F32 };
    gg_meta meta = GG_META_INIT;
    uint8_t *out = NULL;
    size_t n;
    gg_gguf *g = NULL;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_header_emit(3, &meta, &t, 1, &out, &n, &e), GG_OK);
    uint8_t *padded = calloc(1, n + 64);
    memcpy(padded, out, n);
    T_EQ(parse_gguf(padded, n + 64, true, &g, &e), GG_EFORMAT);
    T_STR(e.tensor, "a");
    free(padded);
    free(out);
}

/* ---- split sets ------------------------------------------------------------------------ */

static void shard_names(void)
{
    static const struct {
        const char *path;
        bool ok;
        size_t prefix;
        uint32_t no, count;
    } t[] = {
        { "dir/x-00001-of-00003.gguf", true, 5, 0, 3 },
        { "-99999-of-99999.gguf", true, 0, 99998, 99999 },
        { "x-00000-of-00003.gguf", false, 0, 0, 0 },
        { "x-0001-of-00003.gguf", false, 0, 0, 0 },
        { "x-00001-of-00003.ggu", false, 0, 0, 0 },
        { "x-00001-of-00003.ggufx", false, 0, 0, 0 },
        { "x_00001-of-00003.gguf", false, 0, 0, 0 },
        { "x-0000a-of-00003.gguf", false, 0, 0, 0 },
        { "", false, 0, 0, 0 },
        { "00001-of-00003.gguf", false, 0, 0, 0 },
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        size_t prefix = 0;
        uint32_t no = 0, count = 0;
        bool ok = gg_shard_parse(t[i].path, &prefix, &no, &count);
        T_CHECKF(ok == t[i].ok, "%s", t[i].path);
        if (ok)
            T_CHECKF(prefix == t[i].prefix && no == t[i].no && count == t[i].count, "%s",
                     t[i].path);
    }
    char *name = gg_shard_name("d/m", 1, 3);
    T_CHECK(name && strcmp(name, "d/m-00002-of-00003.gguf") == 0);
    free(name);
}

static void sets_open_by_any_shard(void)
{
    for (int i = 1; i <= 3; i++) {
        char path[100];
        snprintf(path, sizeof path, "tests/data/gguf/x-0000%d-of-00003.gguf", i);
        gg_model *m = NULL;
        gg_error e = GG_ERROR_INIT;
        T_CHECKF(gg_model_open(path, NULL, &m, &e) == GG_OK, "%s", e.what);
        if (!m) continue;
        T_CHECK(m->n_files == 3 && m->n_tensors == 7);
        T_CHECK(m->tensors[0].file == 0 && m->tensors[3].file == 1 && m->tensors[6].file == 2);
        T_STR(m->paths[0], "tests/data/gguf/x-00001-of-00003.gguf");
        gg_model_free(m);
    }
}

#define SHARDS 3

static void copy_shards(char *bytes[SHARDS], size_t n[SHARDS])
{
    for (int i = 0; i < SHARDS; i++) {
        char name[40];
        snprintf(name, sizeof name, "x-0000%d-of-00003", i + 1);
        bytes[i] = slurp(valid_path(name), &n[i]);
    }
}

/* The value behind a key that occurs once in the bytes. */
static char *value_at(char *bytes, size_t n, const char *key)
{
    size_t len = strlen(key);
    for (size_t i = 0; i + len + 8 < n; i++)
        if (memcmp(bytes + i, key, len) == 0) return bytes + i + len + 4;
    T_CHECKF(false, "no %s", key);
    exit(1);
}

static gg_status open_copies(char *bytes[SHARDS], const size_t n[SHARDS], gg_error *e)
{
    gg_model *m = NULL;
    for (int i = 0; i < SHARDS; i++) {
        char name[40];
        snprintf(name, sizeof name, "x-0000%d-of-00003.gguf", i + 1);
        spew(scratch(name), bytes[i], n[i]);
    }
    gg_status st = gg_model_open(scratch("x-00001-of-00003.gguf"), NULL, &m, e);
    if (st == GG_OK) gg_model_free(m);
    return st;
}

/* Shards must agree on their numbers and on how many tensors they have, and no tensor may
 * be in two of them. */
static void sets_must_agree(void)
{
    char *bytes[SHARDS];
    size_t n[SHARDS];
    gg_error e = GG_ERROR_INIT, e1 = GG_ERROR_INIT, e2 = GG_ERROR_INIT, e3 = GG_ERROR_INIT,
             e4 = GG_ERROR_INIT;
    copy_shards(bytes, n);
    T_CHECKF(open_copies(bytes, n, &e) == GG_OK, "%s", e.what);
    char *total = value_at(bytes[0], n[0], "split.tensors.count");
    T_EQ(*total, 7);
    *total = 8;
    T_EQ(open_copies(bytes, n, &e1), GG_EFORMAT);
    *total = 6;
    T_EQ(open_copies(bytes, n, &e2), GG_EFORMAT);
    *total = 7;
    char *no = value_at(bytes[2], n[2], "split.no");
    T_EQ(*no, 2);
    *no = 1;
    T_EQ(open_copies(bytes, n, &e3), GG_EFORMAT);
    *no = 2;
    gg_gguf *a = NULL, *b = NULL;
    T_EQ(parse_gguf(bytes[0], n[0], true, &a, &e), GG_OK);
    T_EQ(parse_gguf(bytes[1], n[1], true, &b, &e), GG_OK);
    const gg_tensor *x = &a->tensors[0], *y = &b->tensors[0];
    if (x->name_len == y->name_len) {
        char *name = value_at(bytes[1], n[1], y->name) - 4 - y->name_len;
        memcpy(name, x->name, x->name_len);
        T_EQ(open_copies(bytes, n, &e4), GG_EFORMAT);
        T_STR(e4.tensor, x->name);
    } else {
        T_CHECKF(false, "%s and %s are not of one length", x->name, y->name);
    }
    gg_gguf_free(a);
    gg_gguf_free(b);
    for (int i = 0; i < SHARDS; i++) free(bytes[i]);
}

static const t_case cases[] = {
    { "every valid file has the expected contents", expected },
    { "every header written again is the same", emitted },
    { "memory, file and pipe agree", agree },
    { "long headers", long_headers },
    { "files that shrink", files_that_shrink },
    { "headers alone", headers_alone },
    { "old and foreign files", old_and_foreign },
    { "long names are refused", long_names_are_refused },
    { "offsets do not overflow", offsets_do_not_overflow },
    { "negative dimensions are refused", negative_dimensions_are_refused },
    { "names of shards", shard_names },
    { "a set opens by any shard", sets_open_by_any_shard },
    { "shards must agree", sets_must_agree },
};

T_MAIN(cases)
