/* fuzz_merge.c - any text as a merge: a configuration of mergekit, if it begins with a brace, or
 * lines with the method, the base and the models, each with parameters. Sound models are merged, so
 * that an output is readable, and the check before it agrees with the merge. */
#include "merge_rows.h"
#include "room.h"

#include "merge/gg_merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/merge", NULL };

#define MODELS 6
#define FOLDER "tests/fuzz/seeds/model/"

/* The file of a line about a model: its first character is a letter for it. */
static char *path_of(const char *line)
{
    static char base[] = FOLDER "base.gguf", donor[] = FOLDER "donor.gguf",
                retyped[] = FOLDER "retyped.gguf", quants[] = FOLDER "k-quants.gguf";
    return line[0] == 'd' ? donor : line[0] == 'r' ? retyped : line[0] == 'k' ? quants : base;
}

/* The parameters after the first comma. */
static char *parameters_of(char *line)
{
    char *comma = strchr(line, ',');
    if (comma) *comma++ = '\0';
    return comma;
}

/* Cuts the text into lines, which are the members. */
static void lines_of(char *text, gg_merge_config *c)
{
    static struct gg_merge_config_model models[MODELS];
    size_t n = 0;
    *c = (gg_merge_config){ .method = text, .models = models };
    for (char *p = text, *end; p && n < MODELS + 2; p = end, n++) {
        end = strchr(p, '\n');
        if (end) *end++ = '\0';
        if (n == 0) c->parameters = parameters_of(p);
        else if (n == 1 && p[0]) c->base = path_of(p);
        else if (n > 1)
            models[c->n_models++] = (struct gg_merge_config_model){ path_of(p), parameters_of(p) };
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t c[2];
    size_t n = room_choices(data, size, c, sizeof c), rows = 0, checked = 0;
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    gg_merge_options o = { .seed = c[1], .no_hash = true, .row = row, .ctx = &rows };
    gg_merge_report r = { 0 };
    char *text = malloc(n + 1);
    FUZZ_MUST(text && freopen("/dev/null", "r", stdin)); /* "-" is an empty model */
    if (n) memcpy(text, data, n);
    text[n] = '\0';
    gg_merge_config config = { 0 };
    gg_status st = GG_OK;
    if (text[0] == '{') st = gg_merge_config_read(text, n, &config, &e);
    else lines_of(text, &config);
    o.embeddings_from_base = c[0] & 1;
    if (c[0] & 2) o.output.dtype = "q8_0", o.output.fallback = "f16";
    if (c[0] & 4) o.output.shards = 2;
    if (st == GG_OK) st = merge_config(&config, &o, &room_run, room("out.gguf"), &r, &e);
    if (st == GG_OK && !room_has("out.gguf")) { /* shards */
        FUZZ_MUST(room_count() == 2);
        room_remove("out-00001-of-00002.gguf");
        room_remove("out-00002-of-00002.gguf");
    } else {
        room_settle(st, &e, "out.gguf", 0);
    }
    o.ctx = &checked;
    gg_status dry = st == GG_OK ? merge_config(&config, &o, &room_run, NULL, &r, &e2) : st;
    if (st == GG_OK && (dry != GG_OK || checked != rows))
        fprintf(stderr, "%s: %zu %zu\n", e2.what, rows, checked);
    FUZZ_MUST(st != GG_OK || (dry == GG_OK && checked == rows));
    FUZZ_MUST(room_count() == 0);
    if (text[0] == '{') gg_merge_config_free(&config);
    free(text);
    return 0;
}
