/* fuzz_merge.c - any text as a merge: a configuration of mergekit, if it begins with a brace, or
 * lines with the method, the base and the models, each with parameters. Sound models are merged, so
 * that an output is readable, and the check before it agrees with the merge. */
#include "merge_rows.h"
#include "room.h"

#include "organ/gg_merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/merge", NULL };

#define MODELS 6
#define FOLDER "tests/fuzz/seeds/model/"

/* A line about a model: a letter for its file, and parameters. */
static const char *model_of(const char *line, char *text, size_t size)
{
    const char *file = line[0] == 'd'   ? "donor.gguf"
                       : line[0] == 'r' ? "retyped.gguf"
                       : line[0] == 'k' ? "k-quants.gguf"
                                        : "base.gguf";
    snprintf(text, size, FOLDER "%s%s", file, line[0] ? line + 1 : "");
    return text;
}

/* Cuts the text into lines; they stay valid while the text does. */
static void options_of(char *text, gg_merge_options *o)
{
    static char models[MODELS][400], base[400];
    static const char *list[MODELS];
    char *lines[MODELS + 2];
    size_t n = 0;
    for (char *p = text, *end; p && n < MODELS + 2; p = end) {
        end = strchr(p, '\n');
        if (end) *end++ = '\0';
        lines[n++] = p;
    }
    o->method = lines[0];
    if (n > 1 && lines[1][0]) o->base = model_of(lines[1], base, sizeof base);
    for (size_t i = 2; i < n; i++) {
        list[o->n_models] = model_of(lines[i], models[i - 2], sizeof models[0]);
        o->n_models++;
    }
    o->models = list;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t c[2];
    size_t n = room_choices(data, size, c, sizeof c), rows = 0, checked = 0;
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    gg_merge_options o = { .seed = c[1], .no_hash = true, .row = row, .row_ctx = &rows };
    gg_merge_report r = { 0 };
    char *text = malloc(n + 1);
    FUZZ_MUST(text && freopen("/dev/null", "r", stdin)); /* "-" is an empty model */
    if (n) memcpy(text, data, n);
    text[n] = '\0';
    if (text[0] == '{') o.config = text, o.config_len = n;
    else options_of(text, &o);
    o.embeddings_from_base = c[0] & 1;
    if (c[0] & 2) o.output.dtype = "q8_0", o.output.fallback = "f16";
    if (c[0] & 4) o.output.shards = 2;
    gg_status st = gg_merge(&o, room("out.gguf"), &room_run, &r, &e);
    if (st == GG_OK && !room_has("out.gguf")) { /* shards */
        FUZZ_MUST(room_count() == 2);
        room_remove("out-00001-of-00002.gguf");
        room_remove("out-00002-of-00002.gguf");
    } else {
        room_settle(st, &e, "out.gguf", 0);
    }
    o.row_ctx = &checked;
    gg_status dry = gg_merge(&o, NULL, &room_run, &r, &e2);
    if (st == GG_OK && (dry != GG_OK || checked != rows))
        fprintf(stderr, "%s: %zu %zu\n", e2.what, rows, checked);
    FUZZ_MUST(st != GG_OK || (dry == GG_OK && checked == rows));
    FUZZ_MUST(room_count() == 0);
    free(text);
    return 0;
}
