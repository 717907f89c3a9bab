/* model_text.c - sizes and next commands in words, and the last line of a tool that wrote a model.
 */
#include "model_text.h"

#include <glob.h>
#include <stdio.h>
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

/* What one can do next, by kind; %s is the file. */
void next_command(const gg_info *i, const char *file, size_t k, char *out, size_t size)
{
    enum { OTHER, MODEL, FOLDER, ADAPTER, IMATRIX, PATCH, BROKEN };
    static const char *const commands[][3] = {
        [OTHER] = { "organ-extract %s --list", "organ-keys %s", "organ-check %s" },
        [MODEL] = { "organ-measure %s --summary", "organ-extract %s --list",
                    "organ-assemble %s --dtype q4_k_m -o NEW.gguf" },
        [FOLDER] = { "organ-assemble %s -o NEW.gguf", "organ-measure %s --summary",
                     "organ-graft %s DONOR -o NEW" },
        [ADAPTER] = { "organ-transplant BASE --adapter %s -o NEW.gguf", "organ-extract %s --list",
                      "organ-measure %s" },
        [IMATRIX] = { "organ-assemble MODEL --imatrix %s --dtype iq4_xs -o NEW.gguf",
                      "organ-measure MODEL --imatrix %s --rank blocks", "organ-extract %s --list" },
        [PATCH] = { "organ-transplant BASE %s -o NEW.gguf", "organ-extract %s --list",
                    "organ-keys %s" },
        [BROKEN] = { "organ-check %s", "", "" },
    };
    int kind = i->check.incomplete          ? BROKEN
               : i->kind == GG_KIND_ADAPTER ? ADAPTER
               : i->kind == GG_KIND_IMATRIX ? IMATRIX
               : i->kind == GG_KIND_PATCH   ? PATCH
               : i->kind != GG_KIND_MODEL   ? OTHER
               : i->form[0] == 'o'          ? FOLDER
                                            : MODEL;
    const char *command = commands[kind][k], *at = strstr(command, "%s");
    *out = 0;
    if (!at) return;
    bool plain = file[0] && file[0] != '-' &&
                 strspn(file, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                              "_./-+=,@%:") == strlen(file);
    snprintf(out, size, "%.*s%s%s", (int)(at - command), command, plain ? file : "FILE", at + 2);
}

/* ---- the last line of a run ---------------------------------------------------------- */

/* Adds the value of a row that names a model to be read. */
static void add_input(char *out, size_t size, const char *path, size_t *n)
{
    size_t at = strlen(out);
    const char *name = strrchr(path, '/') && strrchr(path, '/')[1] ? strrchr(path, '/') + 1 : path;
    if (at + 8 >= size) return;
    at += (size_t)snprintf(out + at, size - at, "%s", *n ? ", " : "");
    if ((*n)++ < 3) gg_escape(name, strcspn(name, ","), out + at, size - at);
    else if (*n == 4) snprintf(out + at, size - at, "...");
    else out[at - 2] = 0;
}

static void inputs_text(const cli *c, char *out, size_t size)
{
    size_t n = 0;
    out[0] = 0;
    for (size_t i = 0; i < c->n_rows; i++) {
        const cli_row *row = &c->rows[i];
        if (row->o->kind < CLI_MODEL || row->o->kind > CLI_DIR || row->first != i || !row->to)
            continue;
        const gg_texts *list = row->to;
        const char *one = row->o->many ? NULL : *(const char **)row->to;
        if (one) add_input(out, size, one, &n);
        for (size_t k = 0; row->o->many && k < list->n; k++)
            add_input(out, size, list->items[k], &n);
    }
    for (size_t i = 0; i < c->args.n && n == 0; i++) add_input(out, size, c->args.items[i], &n);
}

/* The model or directory that was written, in place the first model; or NULL. */
static const char *written_path(const cli *c, bool in_place)
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

/* One line for each picture or table in a file, which is all that a tool wrote. */
static void tell_files_written(const cli *c)
{
    char from[200], name[300], size[24];
    struct stat s;
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

void tell_what_was_written(const cli *c, bool in_place)
{
    const char *path = written_path(c, in_place);
    char from[200], name[300], size[24], next[1200], shard[1100];
    struct stat s;
    gg_source *source = NULL;
    gg_info info;
    char verdict[700];
    gg_error ignored = GG_ERROR_INIT;
    if (c->quiet || !isatty(STDERR_FILENO)) return;
    if (!path) {
        tell_files_written(c);
        return;
    }
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
        next_command(&info, path, 0, next, sizeof next);
        gg_check_verdict_text(&info.check, verdict);
        fprintf(stderr, "%s: %s%s%s: %s, %.2f bits per weight; check: %s; next: %s\n", c->tool,
                from, from[0] ? " -> " : "", name, size, bits_per_weight(&info), verdict, next);
    }
    gg_source_close(source);
}
