/* fuzz_organ.c - any bytes as organ records and as a source on a pipe, and as names:
 * anatomy, file names, escapes, selections. */
#include "fuzz.h"

#include "base/error.h"
#include "gguf/gguf.h"
#include "organ/gg_organ.h"
#include "organ/manifest.h"
#include "organ/record.h"
#include "organ/select.h"
#include "organ/tensor_names.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const fuzz_seeds[] = { "tests/data/gguf/types-all.gguf",
                                   "tests/data/gguf/v3-basic.gguf",
                                   "tests/data/gguf/padding-nonzero.gguf",
                                   "tests/data/gguf/trailing-bytes.gguf",
                                   "tests/data/gguf/names-odd.gguf",
                                   "tests/fuzz/seeds/organ",
                                   NULL };

#define NAMES 16
#define TEXT 600 /* longer inputs are not tried as names and options, which takes long */

static void record(const uint8_t *data, size_t size)
{
    gg_tensor t;
    size_t used = 0;
    gg_error e = GG_ERROR_INIT;
    if (gg_record_parse(data, size, &t, &used, &e) != GG_OK || used == 0) return;
    uint8_t out[GG_RECORD_HEADER];
    FUZZ_MUST(used <= size && gg_record_header(&t, out) == used && memcmp(out, data, used) == 0);
}

/* The input as names, cut at each newline. */
static void names(const uint8_t *data, size_t size)
{
    char text[NAMES][GG_RECORD_NAME + 1];
    gg_tensor t[NAMES] = { { 0 } };
    size_t n = 0;
    for (size_t at = 0; at < size && n < NAMES; n++) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t len = end ? (size_t)(end - data) - at : size - at,
               keep = len > GG_RECORD_NAME ? GG_RECORD_NAME : len;
        memcpy(text[n], data + at, keep);
        text[n][keep] = '\0';
        t[n] = (gg_tensor){ .name = text[n], .name_len = keep, .n_dims = 1, .dims = GG_DIMS_ONE };
        at += len + 1;
        gg_anatomy a = gg_anatomy_of(text[n], keep);
        FUZZ_MUST(a.role_at + a.role_len <= keep && a.cls < GG_CLASS_COUNT);
        char safe[4 * GG_RECORD_NAME + 1], moved[300];
        size_t m = gg_escape(text[n], keep, safe, sizeof safe);
        FUZZ_MUST(m < sizeof safe && gg_unescape(safe, &m) && m == keep &&
                  memcmp(safe, text[n], keep) == 0);
        if (gg_name_with_block(text[n], keep, 7, moved, sizeof moved, &m))
            FUZZ_MUST(gg_anatomy_of(moved, m).block == 7);
        gg_glob(text[n], n ? text[n - 1] : "blk.0.attn_q.weight");
    }
    char **files = NULL;
    gg_error e = GG_ERROR_INIT;
    FUZZ_MUST(gg_organ_file_names(t, n, &files, &e) == GG_OK);
    for (size_t i = 0; i < n; i++) {
        FUZZ_MUST(strchr(files[i], '/') && !strchr(strchr(files[i], '/') + 1, '/') &&
                  !strstr(files[i], ".."));
        free(files[i]);
    }
    free(files);
}

/* The input as an option's text. */
static void options(const uint8_t *data, size_t size)
{
    char text[200];
    size_t n = size < sizeof text - 1 ? size : sizeof text - 1;
    memcpy(text, data, n);
    text[n] = '\0';
    gg_select *s = NULL;
    gg_map *m = NULL;
    gg_error e = GG_ERROR_INIT, f = GG_ERROR_INIT;
    if (gg_select_new(&s, &e) != GG_OK) return;
    gg_select_add(s, GG_SELECT_TYPES, text, &e);
    gg_select_add(s, GG_SELECT_LAYERS, text, &e);
    gg_select_add(s, GG_SELECT_EXPERTS, text, &e);
    gg_select_add(s, GG_SELECT_TENSORS, text, &e);
    gg_select_free(s);
    if (gg_map_parse(text, &m, &f) == GG_OK) gg_map_donor(m, 3);
    gg_map_free(m);
}

/* As a model or organ stream on stdin, front to back. */
static void on_pipe(const uint8_t *data, size_t size)
{
    int fd[2];
    if (size > 60000 || pipe(fd) != 0) return;
    FUZZ_MUST(write(fd[1], data, size) == (ssize_t)size);
    close(fd[1]);
    dup2(fd[0], STDIN_FILENO);
    close(fd[0]);
    gg_source *s = NULL;
    gg_error e = GG_ERROR_INIT;
    uint64_t total = 0;
    bool more = gg_source_open_with("-", NULL, &s, &e) == GG_OK;
    for (size_t i = 0; more; i++) {
        gg_data d;
        char buf[512];
        if (gg_source_next(s, i, &more, &e) != GG_OK || !more) break;
        if (gg_data_open(s, i, &d, &e) != GG_OK) break;
        size_t n = d.bytes < sizeof buf ? (size_t)d.bytes : sizeof buf;
        if (i % 2 == 0 && gg_data_read(&d, 0, buf, n, &e) == GG_OK) total += n;
        gg_data_close(&d);
        FUZZ_MUST(i < 10000);
    }
    FUZZ_MUST(total <= size);
    gg_source_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    record(data, size);
    if (size <= TEXT) {
        names(data, size);
        options(data, size);
    }
    on_pipe(data, size);
    return 0;
}
