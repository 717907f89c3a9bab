/* t_gguf_bad.c - malformed files: the verdict of malformed.tsv for each, a reason with
 * each refusal, memory and pipe of one mind; and single bytes of good files spoilt. */
#include "files.h"
#include "parse_gguf.h"

#include "gguf/gguf.h"
#include "organ/gg_gguf.h"

typedef struct bad {
    char name[160], want[16], advice[32];
    const char *bytes;
    size_t n;
} bad;

static void each_bad(void (*fn)(const bad *b))
{
    size_t pack_n;
    char *pack = slurp("tests/data/malformed.pack", &pack_n),
         *list = slurp("tests/data/malformed.tsv", NULL);
    size_t count = 0;
    for (char *line = strchr(list, '\n'); line && line[1]; line = strchr(line + 1, '\n'), count++) {
        bad b;
        size_t at;
        if (sscanf(line + 1, "%159[^\t]\t%zu\t%zu\t%*[^\t]\t%*[^\t]\t%31[^\t]\t%15[^\t]", b.name,
                   &at, &b.n, b.advice, b.want) != 5 ||
            at > pack_n || b.n > pack_n - at) {
            T_CHECKF(false, "a bad line: %.60s", line + 1);
            continue;
        }
        /* A block of its own size, so that a sanitizer sees a read past the end. */
        char *copy = malloc(b.n ? b.n : 1);
        if (!copy) exit(1);
        memcpy(copy, pack + at, b.n);
        b.bytes = copy;
        fn(&b);
        free(copy);
    }
    T_CHECKF(count == 772, "%zu files", count);
    free(list);
    free(pack);
}

/* The parser sees one file: what only a whole set can tell is accepted here. */
static bool wanted(const bad *b)
{
    return strcmp(b->want, "accept") == 0 || strcmp(b->advice, "split-loader-reject") == 0;
}

static void in_memory(const bad *b)
{
    gg_error e = GG_ERROR_INIT;
    gg_gguf *g = NULL;
    gg_status st = parse_gguf(b->bytes, b->n, true, &g, &e);
    T_CHECKF((st == GG_OK) == wanted(b), "%s: %s", b->name, st == GG_OK ? "accepted" : e.what);
    if (st != GG_OK) {
        T_CHECKF((st == GG_EFORMAT || st == GG_EUNSUPPORTED) && e.what[0] && !g, "%s: status %d",
                 b->name, (int)st);
        T_CHECKF(e.offset == GG_ERROR_NO_OFFSET || e.offset <= b->n, "%s: offset past the end",
                 b->name);
        T_CHECKF(e.offset != GG_ERROR_NO_OFFSET || e.tensor[0] || strstr(e.what, "alignment") ||
                     strstr(b->name, "dup-empty"),
                 "%s: no place: %s", b->name, e.what);
    } else {
        uint8_t *header = NULL;
        size_t n = 0;
        T_EQ(gg_header_emit(g->version, &g->meta, g->tensors, g->n_tensors, &header, &n, &e),
             GG_OK);
        T_CHECKF(n == g->header_bytes && memcmp(header, b->bytes, n) == 0, "%s: written again",
                 b->name);
        for (size_t i = 0; i < g->n_tensors; i++)
            T_CHECKF(g->data_start + g->tensors[i].offset + g->tensors[i].bytes <= b->n,
                     "%s: data past the end", b->name);
        free(header);
    }
    gg_gguf_free(g);
}

static void verdicts(void)
{
    each_bad(in_memory);
}

/* A pipe knows no size: it may take a header whose data then turn out to be missing,
 * but it never refuses what a file is allowed. */
static void on_pipe(const bad *b)
{
    int fd[2];
    if (b->n > 60000 || pipe(fd) != 0) return;
    T_EQ(write(fd[1], b->bytes, b->n), (ssize_t)b->n);
    close(fd[1]);
    gg_error e = GG_ERROR_INIT;
    gg_gguf *g = NULL;
    uint8_t *surplus = NULL;
    size_t n = 0;
    gg_status st = gg_gguf_read_pipe(fd[0], NULL, 0, &g, &surplus, &n, &e);
    if (wanted(b)) T_CHECKF(st == GG_OK, "%s: %s", b->name, e.what);
    if (st == GG_OK)
        T_CHECKF(g->header_bytes <= b->n, "%s: a header longer than the file", b->name);
    else T_CHECKF(st == GG_EFORMAT || st == GG_EUNSUPPORTED, "%s: status %d", b->name, (int)st);
    close(fd[0]);
    free(surplus);
    gg_gguf_free(g);
}

static void pipes(void)
{
    each_bad(on_pipe);
}

/* Any cut of a header fails; so does any cut of the data before the last padding. */
static void every_cut(void)
{
    size_t n;
    char *bytes = slurp("tests/data/gguf/v3-basic.gguf", &n);
    gg_error e0 = GG_ERROR_INIT;
    gg_gguf *g = NULL;
    T_EQ(parse_gguf(bytes, n, true, &g, &e0), GG_OK);
    size_t end = (size_t)(g->data_start + g->tensors[2].offset + g->tensors[2].bytes);
    gg_gguf_free(g);
    for (size_t cut = 0; cut <= n; cut++) {
        char *part = malloc(cut ? cut : 1);
        if (!part) exit(1);
        memcpy(part, bytes, cut);
        gg_error e = GG_ERROR_INIT;
        g = NULL;
        gg_status st = parse_gguf(part, cut, true, &g, &e);
        T_CHECKF((st == GG_OK) == (cut >= end), "cut at %zu: %s", cut, e.what);
        gg_gguf_free(g);
        free(part);
    }
    free(bytes);
}

/* Each byte of a header set to each of a few values: no crash, and whatever is taken
 * can be written again as it was. */
static void spoil(const char *stem)
{
    char path[200];
    snprintf(path, sizeof path, "tests/data/gguf/%s.gguf", stem);
    size_t n;
    char *bytes = slurp(path, &n);
    static const unsigned char values[] = { 0, 1, 0x7f, 0x80, 0xff, 9 };
    for (size_t i = 0; i < n && i < 700; i++)
        for (size_t k = 0; k < sizeof values; k++) {
            char was = bytes[i];
            bytes[i] = (char)values[k];
            gg_error e = GG_ERROR_INIT;
            gg_gguf *g = NULL;
            if (parse_gguf(bytes, n, true, &g, &e) == GG_OK) {
                uint8_t *header = NULL;
                size_t len = 0;
                T_EQ(gg_header_emit(g->version, &g->meta, g->tensors, g->n_tensors, &header, &len,
                                    &e),
                     GG_OK);
                T_CHECKF(len == g->header_bytes && memcmp(header, bytes, len) == 0,
                         "%s: byte %zu = %02x", stem, i, values[k]);
                free(header);
                gg_gguf_free(g);
            } else {
                T_CHECKF(!g && e.what[0], "%s: byte %zu", stem, i);
            }
            bytes[i] = was;
        }
    free(bytes);
}

static void spoilt_bytes(void)
{
    each_valid(spoil);
}

/* Split keys that contradict themselves, seen where a model is opened. */
static void in_folder(const bad *b)
{
    if (strncmp(b->name, "split-", 6) != 0) return;
    const char *path = scratch(b->name);
    spew(path, b->bytes, b->n);
    gg_model *m = NULL;
    gg_error e = GG_ERROR_INIT;
    gg_status st = gg_model_open(path, NULL, &m, &e);
    T_CHECKF((st == GG_OK) == (strcmp(b->want, "accept") == 0), "%s: %s", b->name, e.what);
    if (st != GG_OK)
        T_CHECKF(st == GG_EFORMAT && strstr(e.file, b->name), "%s: %s", b->name, e.what);
    gg_model_free(m);
}

static void split_keys(void)
{
    each_bad(in_folder);
}

static void no_file(void)
{
    gg_model *m = NULL;
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    T_CHECK(gg_model_open("tests/data/none.gguf", NULL, &m, &e) == GG_EIO && e.file[0] &&
            e.sys_errno);
    T_CHECK(gg_model_open("tests/data", NULL, &m, &e2) != GG_OK);
}

static const t_case cases[] = {
    { "the verdict on every malformed file", verdicts },
    { "every malformed file on a pipe", pipes },
    { "every cut of a good file", every_cut },
    { "spoilt bytes", spoilt_bytes },
    { "split keys", split_keys },
    { "no file", no_file },
};

T_MAIN(cases)
