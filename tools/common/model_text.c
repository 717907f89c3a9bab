/* model_text.c - sizes and next commands in words, and the last line of a tool that wrote a model.
 */
#include "model_text.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "1.85 MiB", with three digits. */
void size_text(uint64_t bytes, char out[24])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double v = (double)bytes;
    size_t u = 0;
    while (v >= 999.5 && u + 1 < sizeof units / sizeof units[0]) v /= 1024, u++;
    snprintf(out, 24,
             u == 0 || v >= 99.95 ? "%.0f %s"
             : v >= 9.995         ? "%.1f %s"
                                  : "%.2f %s",
             v, units[u]);
}

double bits_per_weight(const gg_info *i)
{
    return i->elements ? 8 * (double)i->bytes / (double)i->elements : 0;
}

/* A path as it is given to a shell, or `otherwise` if it would need quotes. */
static const char *as_word(const char *path, const char *otherwise)
{
    bool plain = path[0] && path[0] != '-' &&
                 strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                              "_./-+=,@%:") == strlen(path);
    return plain ? path : otherwise;
}

/* The name that was given for a file of a cache: ORGAN_NAMES has lines of path, tab, name. */
const char *given_name(const char *path, char *out, size_t size)
{
    const char *list = getenv("ORGAN_NAMES");
    size_t n = strlen(path);
    for (; list && *list; list += strcspn(list, "\n"), list += *list == '\n') {
        size_t len = strcspn(list, "\n");
        if (len <= n + 1 || strncmp(list, path, n) != 0 || list[n] != '\t') continue;
        snprintf(out, size, "%.*s", (int)(len - n - 1), list + n + 1);
        return out;
    }
    return path;
}

/* Whether most bytes are floating-point numbers of at least 16 bits, which one would quantize. */
static bool is_float(const gg_info *i)
{
    uint32_t most = i->n_types ? i->types[0].dtype : GG_DTYPE_COUNT;
    return most == GG_F16 || most == GG_BF16 || most == GG_F32;
}

/* What one can do next, by kind; %s is the file. */
void next_command(const gg_info *i, const char *file, size_t k, char *out, size_t size)
{
    enum { OTHER, MODEL, FLOATS, MIXTURE, FOLDER, ADAPTER, IMATRIX, PATCH, CUT, BROKEN };
    static const char *const commands[][3] = {
        [OTHER] = { "organ-extract %s --list", "organ-keys %s", "organ-check %s" },
        [MODEL] = { "organ-validate %s", "organ-measure %s --summary", "organ-extract %s --list" },
        [FLOATS] = { "organ-assemble %s --dtype q4_k_m -o NEW.gguf", "organ-measure %s --summary",
                     "organ-extract %s --list" },
        [MIXTURE] = { "organ-measure %s --imatrix IMATRIX --rank experts",
                      "organ-measure %s --summary", "organ-extract %s --list" },
        [FOLDER] = { "organ-assemble %s -o NEW.gguf", "organ-measure %s --summary",
                     "organ-graft %s DONOR -o NEW" },
        [ADAPTER] = { "organ-transplant BASE --adapter %s -o NEW.gguf", "organ-extract %s --list",
                      "organ-measure %s" },
        [IMATRIX] = { "organ-assemble MODEL --imatrix %s --dtype iq4_xs -o NEW.gguf",
                      "organ-measure MODEL --imatrix %s --rank blocks", "organ-extract %s --list" },
        [PATCH] = { "organ-transplant BASE %s -o NEW.gguf", "organ-extract %s --list",
                    "organ-keys %s" },
        [CUT] = { "organ-remote --complete URL %s", "", "" },
        [BROKEN] = { "organ-check %s", "", "" },
    };
    bool model = i->kind == GG_KIND_MODEL;
    int kind = i->check.incomplete              ? (i->shards_missing ? BROKEN : CUT)
               : i->check.found[GG_CHECK_ERROR] ? BROKEN
               : i->kind == GG_KIND_ADAPTER     ? ADAPTER
               : i->kind == GG_KIND_IMATRIX     ? IMATRIX
               : i->kind == GG_KIND_PATCH       ? PATCH
               : !model                         ? OTHER
               : i->form[0] == 'o'              ? FOLDER
               : is_float(i)                    ? FLOATS
               : i->experts                     ? MIXTURE
                                                : MODEL;
    const char *command = commands[kind][k], *at = strstr(command, "%s");
    *out = 0;
    if (at)
        snprintf(out, size, "%.*s%s%s", (int)(at - command), command, as_word(file, "FILE"),
                 at + 2);
}

/* ---- the last line of a run ---------------------------------------------------------- */

/* Adds the value of a row that names a model to be read, as it was given. */
static void add_input(char *out, size_t size, const char *path, size_t *n)
{
    size_t at = strlen(out);
    if (at + 8 >= size) return;
    at += (size_t)snprintf(out + at, size - at, "%s", *n ? ", " : "");
    if ((*n)++ < 3) gg_escape(path, strcspn(path, ","), out + at, size - at);
    else if (*n == 4) snprintf(out + at, size - at, "...");
    else out[at - 2] = 0;
}

static void inputs_text(const cli *c, char *out, size_t size)
{
    size_t n = 0; /* of the inputs */
    out[0] = 0;
    for (size_t i = 0; i < c->n_rows; i++) {
        const cli_row *row = &c->rows[i];
        if (row->o->kind < CLI_MODEL || row->o->kind > CLI_DIR || row->first != i || !row->to ||
            row->o->values) /* a model, or a word: where the vocabulary is from */
            continue;
        const gg_texts *list = row->to;
        const char *one = row->o->many ? NULL : *(const char **)row->to;
        if (one) add_input(out, size, one, &n);
        for (size_t k = 0; row->o->many && k < list->n; k++)
            add_input(out, size, list->items[k], &n);
    }
    for (size_t i = 0; i < c->n_files && (i || n == 0); i++) add_input(out, size, c->files[i], &n);
}

/* The model or directory that was written, in place the first model; or NULL. */
const char *written_path(const cli *c, bool in_place)
{
    for (size_t i = 0; i < c->n_rows; i++) {
        const cli_row *row = &c->rows[i];
        if (in_place && row->o->kind == CLI_MODEL && row->to && !row->o->many)
            return *(const char **)row->to;
        if ((row->o->kind != CLI_NEW_MODEL && row->o->kind != CLI_NEW_DIR) || row->first != i ||
            !row->given || !row->to)
            continue;
        const char *path = *(const char **)row->to;
        return path && strcmp(path, "-") != 0 ? path : NULL;
    }
    return NULL;
}

/* The first shard of a split model that was written as NAME.gguf. */
static bool find_shard(const char *path, char *out, size_t size)
{
    char pattern[1100];
    glob_t found = { 0 };
    size_t stem = strlen(path);
    if (stem > 5 && strcmp(path + stem - 5, ".gguf") == 0) stem -= 5;
    snprintf(pattern, sizeof pattern, "%.*s-00001-of-*.gguf", (int)stem, path);
    bool any = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1;
    if (any) snprintf(out, size, "%s", found.gl_pathv[0]);
    globfree(&found);
    return any;
}

void tell_files_written(const cli *c, bool in_place)
{
    char from[600], name[300], size[24];
    struct stat s;
    (void)in_place;
    if (c->quiet || !isatty(STDERR_FILENO)) return;
    inputs_text(c, from, sizeof from);
    for (size_t i = 0; i < c->n_rows; i++) {
        const cli_row *row = &c->rows[i];
        const char *path = row->o->kind == CLI_NEW_FILE && row->given && row->first == i && row->to
                               ? *(const char **)row->to
                               : NULL;
        if (!path || strcmp(path, "-") == 0 || stat(path, &s) != 0) continue;
        gg_escape(path, strlen(path), name, sizeof name);
        size_text((uint64_t)s.st_size, size);
        fprintf(stderr, "%s: %s%s%s: %s%s\n", c->tool, from, from[0] ? " -> " : "", name, size,
                cli_has_ending(path, ".svg") ? "; next: open it in a browser" : "");
    }
}

/* The model that a result is compared with: the base, or the only input. */
static void source_of(const cli *c, const char *result, char *out, size_t size)
{
    struct stat s;
    inputs_text(c, out, size);
    if (strchr(out, ',')) out[0] = 0;
    for (size_t i = 0; i < c->n_rows; i++) {
        const cli_row *row = &c->rows[i];
        const char *name = row->o->name ? row->o->name : "";
        bool base = strcmp(name, "base") == 0 || strcmp(name, "target") == 0;
        const char *path = base && row->o->kind <= CLI_PARAMS && row->to && !row->o->many
                               ? *(const char **)row->to
                               : NULL;
        if (path) snprintf(out, size, "%.*s", (int)strcspn(path, ","), path);
    }
    if (strcmp(out, result) == 0 || stat(out, &s) != 0 || !S_ISREG(s.st_mode)) out[0] = 0;
}

/* The advice for a model: compare its perplexity with that of the model that it was made from. */
static void next_step(const cli *c, const gg_info *info, const char *path, char *out, size_t size)
{
    char from[1200];
    source_of(c, path, from, sizeof from);
    const char *source = from[0] ? as_word(from, "") : "";
    next_command(info, path, 0, out, size);
    if (info->kind == GG_KIND_MODEL && strcmp(info->form, "organ directory") != 0 &&
        info->check.found[GG_CHECK_ERROR] == 0)
        snprintf(out, size, "organ-validate %s%s%s --text TEXT", as_word(path, "FILE"),
                 source[0] ? " --reference " : "", source);
}

void tell_what_was_written(const cli *c, bool in_place)
{
    const char *path = written_path(c, in_place);
    char from[600], name[300], size[24], next[2600], shard[1100];
    struct stat s;
    gg_source *source = NULL;
    gg_info info;
    char verdict[700];
    gg_error ignored = GG_ERROR_INIT;
    if (!path) {
        tell_files_written(c, in_place);
        return;
    }
    if (c->quiet || !isatty(STDERR_FILENO)) return;
    if (stat(path, &s) != 0) {
        if (!find_shard(path, shard, sizeof shard)) return;
        path = shard;
    }
    if (gg_source_open_with(path, &(gg_source_options){ .header_only = true }, &source, &ignored) !=
        GG_OK)
        return;
    if (gg_info_of(source, NULL, &info, &ignored) == GG_OK) {
        inputs_text(c, from, sizeof from);
        gg_escape(path, strlen(path), name, sizeof name);
        size_text(info.bytes, size);
        next_step(c, &info, path, next, sizeof next);
        gg_check_verdict_text(&info.check, verdict);
        fprintf(stderr, "%s: %s%s%s: %s, %.2f bits per weight; check: %s; next: %s\n", c->tool,
                from, from[0] ? " -> " : "", name, size, bits_per_weight(&info), verdict, next);
    }
    gg_source_close(source);
}

void cli_writes_models(cli *c)
{
    c->run.review = gg_check_review;
    c->tell = tell_what_was_written;
}
