/* Every decoding vector of a folder, when one is given: dequant-TYPE.gguf holds `q` and
 * the reference's float32 `f`. GG_VECTORS=FOLDER build/test/t_vectors; without it the
 * trimmed copies that t_codec_k and t_codec_iq read must do. */
#include "organ/gg_organ.h"

#include "base/isa.h"
#include "t.h"

#include <dirent.h>
#include <math.h>

static const char *folder;

static uint8_t *bytes_of(gg_source *s, const char *name, size_t *index)
{
    gg_error e = GG_ERROR_INIT;
    gg_data d;
    *index = gg_source_find(s, name, strlen(name));
    if (*index == SIZE_MAX) return NULL;
    size_t n = (size_t)gg_source_tensor(s, *index)->bytes;
    uint8_t *p = malloc(n + 1);
    if (!p || gg_data_open(s, *index, &d, &e) != GG_OK) return free(p), NULL;
    gg_status st = gg_data_read(&d, 0, p, n, &e);
    gg_data_close(&d);
    if (st == GG_OK) return p;
    free(p);
    return NULL;
}

static size_t differing(const float *a, const float *b, size_t n)
{
    size_t bad = 0;
    for (size_t i = 0; i < n; i++)
        bad += !(memcmp(&a[i], &b[i], 4) == 0 || (isnan(a[i]) && isnan(b[i])));
    return bad;
}

static void one_file(const char *path)
{
    gg_error e = GG_ERROR_INIT;
    gg_source *s = NULL;
    size_t q, f;
    T_CHECKF(gg_source_open(path, &s, &e) == GG_OK, "%s: %s", path, e.what);
    if (!s) return;
    uint8_t *blocks = bytes_of(s, "q", &q), *want = bytes_of(s, "f", &f);
    T_CHECKF(blocks && want, "%s has no q or f", path);
    for (int level = 0; level <= 2 && blocks && want; level++) {
        const gg_tensor *t = gg_source_tensor(s, q);
        float *got = malloc((size_t)t->elements * sizeof *got);
        gg_isa_set(level);
        T_CHECKF(got && gg_decode(t->dtype, blocks, got, (size_t)t->elements, &e) == GG_OK,
                 "%s: %s", path, e.what);
        size_t bad = got ? differing(got, (const float *)(const void *)want, (size_t)t->elements)
                         : 1;
        T_CHECKF(bad == 0, "%s: level %d: %zu values differ", path, level, bad);
        free(got);
    }
    free(blocks);
    free(want);
    gg_source_close(s);
}

static void whole_folder(const char *sub, const char *prefix, int at_least)
{
    char path[1024];
    int files = 0;
    if (!folder) return;
    snprintf(path, sizeof path, "%.500s%s", folder, sub);
    DIR *dir = opendir(path);
    T_CHECKF(dir != NULL, "%s", path);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        size_t n = strlen(d->d_name);
        if (strncmp(d->d_name, prefix, strlen(prefix)) != 0 || n < 5 ||
            strcmp(d->d_name + n - 5, ".gguf") != 0)
            continue;
        snprintf(path, sizeof path, "%.500s%s/%.255s", folder, sub, d->d_name);
        one_file(path);
        files++;
    }
    if (dir) closedir(dir);
    T_CHECKF(files >= at_least, "only %d files", files);
}

static void plain(void)
{
    folder = getenv("GG_VECTORS");
    whole_folder("", "dequant-", 30);
}

static void edge(void)
{
    whole_folder("/edge", "dequant-edge-", 27);
}

static const t_case cases[] = { { "every vector", plain }, { "odd scales", edge } };

T_MAIN(cases)
