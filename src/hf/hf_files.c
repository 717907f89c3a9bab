/* hf_files.c - which files of a folder are those of a checkpoint or adapter. People's folders also
 * hold variants, copies, adapters and files of other programs. */
#include "hf_files.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/io.h"
#include "base/text.h"
#include "gguf/first_bytes.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define END ".safetensors"

static gg_status no_room(gg_error *err)
{
    return gg_fail(err, GG_ENOMEM, "no memory for the files of a folder");
}

bool gg_hf_has_file(const char *folder, const char *name, gg_error *err)
{
    struct stat s;
    char path[4096 + 256]; /* no system opens longer ones */
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path && gg_stat(path, &s, err) && S_ISREG(s.st_mode);
}

#define MIB ((uint64_t)1 << 20)

/* The largest size of a file that is read beside the weights; 0 if it has no row. */
static uint64_t most_of(const char *name)
{
    if (strncmp(name, GG_HF_TEMPLATES "/", sizeof GG_HF_TEMPLATES) == 0) return 64 * MIB;
    for (const gg_hf_beside_file *b = gg_hf_beside_files; b->name; b++)
        if (strcmp(b->name, name) == 0) return b->most;
    return 0;
}

bool gg_hf_is_read(const char *name)
{
    return gg_text_ends(name, strlen(name), END) || strcmp(name, GG_HF_TEMPLATES) == 0 ||
           most_of(name) > 0;
}

gg_status gg_hf_at(const char *folder, const char *name, gg_error *err)
{
    char *path = err->status == GG_OK ? NULL : gg_path_in(folder, name, err);
    if (path) gg_at_file(err, path);
    free(path);
    return err->status;
}

static gg_status read_open(int fd, uint64_t most, char **bytes, size_t *len, gg_error *err)
{
    struct stat s;
    if (fstat(fd, &s) != 0) return gg_fail_errno(err, "cannot get the file's size");
    if ((uint64_t)s.st_size > most)
        return gg_fail(err, GG_EUNSUPPORTED, "it has %lld bytes; the limit for this file is %llu",
                       (long long)s.st_size, (unsigned long long)most);
    if (!(*bytes = malloc((size_t)s.st_size + 1)))
        return gg_fail(err, GG_ENOMEM, "no memory for a file of %lld bytes", (long long)s.st_size);
    return gg_pread_all(fd, *bytes, *len = (size_t)s.st_size, 0, err);
}

/* Makes the error name the format of the bytes, if they tell it. */
static void name_other(const char *bytes, size_t len, const char *not_a, gg_error *err)
{
    gg_error why = GG_ERROR_INIT;
    size_t n = len < GG_FIRST_BYTES ? len : GG_FIRST_BYTES;
    if (gg_fail_other_kind((const uint8_t *)bytes, n, not_a, &why) != GG_OK) *err = why;
}

/* Whether bytes that are no JSON were not meant to be: they have no object, or do not begin as text
 * in UTF-8. */
static bool is_no_json(const char *bytes, size_t len)
{
    uint8_t first = len ? (uint8_t)bytes[0] : ' ';
    return first > 0xef || (first < ' ' && !strchr("\t\r\n", first)) ||
           !memchr(bytes, '{', len < GG_FIRST_BYTES ? len : GG_FIRST_BYTES);
}

gg_status gg_hf_read(const char *folder, const char *name, char **bytes, size_t *len, gg_error *err)
{
    char *path = gg_path_in(folder, name, err);
    int fd = path && gg_hf_has_file(folder, name, err) ? gg_open_read(path, err) : -1;
    if (fd >= 0) {
        gg_status st = read_open(fd, most_of(name), bytes, len, err);
        /* Lists of merges and templates, which are any text, must not be taken for what they say.
         */
        if (st == GG_OK && gg_text_begins(*bytes, *len, "version https://git-lfs"))
            name_other(*bytes, *len, "file of a checkpoint", err);
        if (err->status != GG_OK) {
            free(*bytes);
            *bytes = NULL;
        }
        close(fd);
    }
    free(path);
    return gg_hf_at(folder, name, err);
}

/* Python writes numbers that JSON does not have as Infinity, -Infinity and NaN. They become texts,
 * which are no numbers, but can be told. */
static gg_status quote_python(char **text, size_t *len, gg_error *err)
{
    static const char *const words[] = { "-Infinity", "Infinity", "NaN" };
    size_t to = 0;
    bool quoted = false;
    char *out = malloc(2 * *len + 3);
    if (!out) return no_room(err);
    for (size_t at = 0; at < *len;) {
        size_t n = 0;
        for (int w = 0; w < 3 && !quoted && n == 0; w++)
            if (gg_text_begins(*text + at, *len - at, words[w])) n = strlen(words[w]);
        if (n > 0) {
            out[to++] = '"';
            memcpy(out + to, *text + at, n);
            to += n;
            out[to++] = '"';
            at += n;
            continue;
        }
        if (quoted && (*text)[at] == '\\' && at + 1 < *len) out[to++] = (*text)[at++];
        else if ((*text)[at] == '"') quoted = !quoted;
        out[to++] = (*text)[at++];
    }
    free(*text);
    *text = out;
    *len = to;
    return GG_OK;
}

gg_status gg_hf_parse(const char *folder, const char *name, gg_json **out, gg_error *err)
{
    char *text = NULL;
    size_t len = 0;
    gg_status st = gg_hf_read(folder, name, &text, &len, err);
    if (st == GG_OK && !text) st = gg_fail(err, GG_EIO, "the file is not there any more");
    if (st == GG_OK) st = quote_python(&text, &len, err);
    if (st == GG_OK && (st = gg_json_parse(text, len, out, err)) == GG_EFORMAT &&
        is_no_json(text, len))
        name_other(text, len, "JSON file", err);
    if (st == GG_OK && gg_json_type_of(gg_json_root(*out)) != GG_JSON_OBJECT) {
        st = gg_fail_at(0, err, "it is not a JSON object");
        gg_json_free(*out);
        *out = NULL;
    }
    free(text);
    return gg_hf_at(folder, name, err);
}

/* ---- lists -------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static gg_status add_name(gg_hf_files *files, const char *name, size_t len, gg_error *err)
{
    if (GG_ROOM(files->list, files->n, NULL, err) != GG_OK) return err->status;
    if (!(files->list[files->n] = strndup(name, len))) return no_room(err);
    files->n++;
    return GG_OK;
}

static void sort_names(gg_hf_files *files)
{
    size_t n = 0;
    if (files->n) qsort(files->list, files->n, sizeof *files->list, by_text);
    for (size_t i = 0; i < files->n; i++) {
        if (n && strcmp(files->list[n - 1], files->list[i]) == 0) free(files->list[i]);
        else files->list[n++] = files->list[i];
    }
    files->n = n;
}

static void clear_names(gg_hf_files *files)
{
    for (size_t i = 0; i < files->n; i++) free(files->list[i]);
    files->n = 0;
}

void gg_hf_files_free(gg_hf_files *files)
{
    clear_names(files);
    free(files->list);
    gg_json_free(files->index);
    *files = (gg_hf_files){ .list = NULL };
}

static bool is_listed(const gg_hf_files *files, const char *name)
{
    for (size_t i = 0; i < files->n; i++)
        if (strcmp(files->list[i], name) == 0) return true;
    return false;
}

/* ---- forms -------------------------------------------------------------------------------- */

/* Whether the folder has a safetensors file of that name, which begins so. */
static bool is_weights(const char *folder, const char *name, const char *start, gg_error *err)
{
    return strncmp(name, start, strlen(start)) == 0 && name[0] != '.' &&
           gg_text_ends(name, strlen(name), END) && gg_hf_has_file(folder, name, err);
}

/* Lists the safetensors files of a folder whose names begin so. */
static gg_status list_folder(const char *folder, const char *start, gg_hf_files *files,
                             gg_error *err)
{
    DIR *dir = opendir(folder);
    if (!dir) return gg_fail_errno(err, "cannot open");
    for (const char *name; err->status == GG_OK && (name = gg_next_name(dir, err));)
        if (is_weights(folder, name, start, err)) add_name(files, name, strlen(name), err);
    closedir(dir);
    sort_names(files);
    return err->status;
}

gg_status gg_hf_list_templates(const char *folder, gg_hf_files *files, gg_error *err)
{
    char *path = gg_path_in(folder, GG_HF_TEMPLATES, err);
    DIR *dir = path ? gg_open_folder(path, err) : NULL;
    for (const char *name; dir && err->status == GG_OK && (name = gg_next_name(dir, err));) {
        if (!gg_text_ends(name, strlen(name), ".jinja")) continue;
        char *full = gg_path_in(GG_HF_TEMPLATES, name, err);
        if (full) add_name(files, full, strlen(full), err);
        free(full);
    }
    if (dir) closedir(dir);
    free(path);
    sort_names(files);
    return err->status;
}

/* Whether the folder has files of a model. */
static bool has_weights(const char *folder, gg_error *err)
{
    bool yes = gg_hf_has_file(folder, GG_HF_INDEX, err);
    DIR *dir = yes ? NULL : gg_open_folder(folder, err);
    for (const char *name; dir && !yes && (name = gg_next_name(dir, err));)
        yes = is_weights(folder, name, "model", err);
    if (dir) closedir(dir);
    return yes;
}

#define PEFT_WEIGHTS "adapter_model" END
#define MLX_WEIGHTS "adapters" END
#define MLX_STEP "_adapters" END /* 0000100_adapters.safetensors, from training */

bool gg_hf_is_adapter(const char *name)
{
    return strcmp(name, PEFT_WEIGHTS) == 0 || strcmp(name, MLX_WEIGHTS) == 0 ||
           gg_text_ends(name, strlen(name), MLX_STEP);
}

/* Whether the folder has files of the training of MLX; the last of them in `name`. */
static bool has_steps(const char *folder, char name[200], gg_error *err)
{
    DIR *dir = gg_open_folder(folder, err);
    name[0] = '\0';
    for (const char *file; dir && (file = gg_next_name(dir, err));)
        if (gg_text_ends(file, strlen(file), MLX_STEP) && strlen(file) < 200 &&
            strcmp(file, name) > 0)
            strcpy(name, file);
    if (dir) closedir(dir);
    return name[0] != '\0';
}

gg_hf_form gg_hf_form_of(const char *folder, bool adapter, gg_error *err)
{
    char step[200];
    bool model = has_weights(folder, err), config = gg_hf_has_file(folder, GG_HF_CONFIG, err),
         other = gg_hf_has_file(folder, "model_index.json", err) ||
                 gg_hf_has_file(folder, GG_HF_MISTRAL, err),
         stated = gg_hf_has_file(folder, GG_HF_ADAPTER_CONFIG, err),
         peft = gg_hf_has_file(folder, PEFT_WEIGHTS, err),
         mlx = !peft && (gg_hf_has_file(folder, MLX_WEIGHTS, err) ||
                         gg_hf_has_file(folder, "adapters.npz", err) ||
                         ((stated || !(model || config || other)) && has_steps(folder, step, err)));
    if (stated ? adapter || !model : (peft || mlx) && !(model || config || other))
        return mlx ? GG_HF_MLX : GG_HF_PEFT;
    return model || config || other ? GG_HF_MODEL : GG_HF_NOTHING;
}

/* ---- adapters ----------------------------------------------------------------------------- */

static gg_status find_adapter(const char *folder, bool mlx, const char *only, gg_hf_files *files,
                              gg_error *err)
{
    char step[200];
    const char *name = only ? only : mlx ? MLX_WEIGHTS : PEFT_WEIGHTS;
    if (gg_hf_has_file(folder, name, err)) return add_name(files, name, strlen(name), err);
    for (const gg_hf_foreign *f = gg_hf_foreign_adapters; f->end; f++) {
        if (!gg_hf_has_file(folder, f->end, err)) continue;
        gg_fail(err, GG_EUNSUPPORTED, "the adapter is in %s, %s", f->end, f->what);
        gg_fix(err, "%s", f->fix);
        return gg_at_file(err, folder);
    }
    gg_fail(err, GG_EFORMAT, "this adapter has no %s", name);
    if (mlx && has_steps(folder, step, err))
        gg_fix(err, "give the path of a file from its training, such as %.100s", step);
    else gg_fix(err, "download the file");
    return gg_at_file(err, folder);
}

/* ---- checkpoints -------------------------------------------------------------------------- */

/* The files that an index names. They must be plain names in its folder. */
static gg_status files_of_index(const gg_json_node *map, gg_hf_files *files, gg_error *err)
{
    const char *last = "";
    size_t last_len = SIZE_MAX;
    if (gg_json_type_of(map) != GG_JSON_OBJECT)
        return gg_fail(err, GG_EFORMAT, "the index has no weight_map");
    if (!gg_json_first(map))
        return gg_fail(err, GG_EFORMAT, "the weight_map of the index is empty");
    for (const gg_json_node *m = gg_json_first(map); m; m = gg_json_next(m)) {
        const char *name;
        size_t len;
        if (gg_json_string(m, &name, &len, err) != GG_OK) return err->status;
        if (len == last_len && memcmp(name, last, len) == 0) continue;
        last = name;
        last_len = len;
        if (len == 0 || name[0] == '.' || memchr(name, '/', len) || memchr(name, '\0', len))
            return gg_fail_at(gg_json_offset(m), err,
                              "the index names a file outside its folder: '%.*s'",
                              len < 100 ? (int)len : 100, name);
        if (add_name(files, name, len, err) != GG_OK) return err->status;
    }
    sort_names(files);
    return GG_OK;
}

/* Whether a name is that of one shard of several: PREFIX-00002-of-00003.safetensors. */
static bool is_shard(const char *name, size_t *prefix, unsigned *no, unsigned *count)
{
    const char *p = strstr(name, "-of-");
    int end = 0;
    if (!p || p - name < 6 || p[-6] != '-') return false;
    *prefix = (size_t)(p - name) - 6;
    return sscanf(p - 5, "%5u-of-%5u" END "%n", no, count, &end) == 2 && end > 0 &&
           p[-5 + end] == '\0' && *no > 0 && *no <= *count;
}

/* Names the files of the list that are not kept. */
static void name_skipped(gg_hf_files *files, const gg_hf_files *kept)
{
    size_t at = 0;
    for (size_t i = 0; i < files->n && at + 8 < sizeof files->skipped; i++) {
        char text[100];
        if (is_listed(kept, files->list[i])) continue;
        gg_escape(files->list[i], strlen(files->list[i]), text, sizeof text);
        at += (size_t)snprintf(files->skipped + at, sizeof files->skipped - at, "%s%s",
                               at ? ", " : "", text);
    }
}

/* Whether all shards of the first shard's set are there. Names the first that is missing. */
static gg_status keep_shards(const char *folder, const char *first, gg_hf_files *files,
                             gg_error *err)
{
    gg_hf_files set = { .list = NULL };
    size_t prefix;
    unsigned no, count;
    char name[300];
    gg_status st = GG_OK;
    if (!is_shard(first, &prefix, &no, &count) || prefix > 200) return GG_OK;
    for (unsigned i = 1; i <= count && st == GG_OK; i++) {
        snprintf(name, sizeof name, "%.*s-%05u-of-%05u" END, (int)prefix, first, i, count);
        if (is_listed(files, name)) {
            st = add_name(&set, name, strlen(name), err);
            continue;
        }
        gg_fail(err, GG_EFORMAT, "file %u of %u is missing: %.120s", i, count, name);
        gg_fix(err, "download it");
        st = gg_at_file(err, folder);
    }
    if (st == GG_OK) {
        name_skipped(files, &set);
        memcpy(set.skipped, files->skipped, sizeof set.skipped);
        gg_hf_files_free(files);
        *files = set;
    } else gg_hf_files_free(&set);
    return st;
}

/* Keeps one file of the list, and names the others. */
static gg_status keep_file(const char *name, gg_hf_files *files, gg_error *err)
{
    char kept[300], *one[] = { kept };
    snprintf(kept, sizeof kept, "%s", name);
    name_skipped(files, &(gg_hf_files){ .list = one, .n = 1 });
    clear_names(files);
    return add_name(files, kept, strlen(kept), err);
}

/* The shard that the list begins with; NULL if it has none. */
static const char *first_shard(const gg_hf_files *files)
{
    size_t prefix;
    unsigned no, count;
    for (size_t i = 0; i < files->n; i++)
        if (is_shard(files->list[i], &prefix, &no, &count)) return files->list[i];
    return NULL;
}

/* Fails for a folder without safetensors, and names what it has instead. */
static gg_status refuse_other_weights(const char *folder, gg_error *err)
{
    const gg_hf_foreign *best = NULL;
    DIR *dir = gg_open_folder(folder, err);
    char name[200] = "";
    for (const char *file; dir && (file = gg_next_name(dir, err));)
        for (const gg_hf_foreign *f = gg_hf_foreign_weights; f->end && (!best || f <= best); f++) {
            char shown[200];
            gg_escape(file, strnlen(file, 100), shown, sizeof shown);
            if (!gg_text_ends(file, strlen(file), f->end) ||
                (f == best && strcmp(shown, name) >= 0))
                continue;
            best = f;
            memcpy(name, shown, sizeof name);
        }
    if (dir) closedir(dir);
    if (best) {
        gg_fail(err, GG_EUNSUPPORTED, "this checkpoint has no safetensors; %s is %s", name,
                best->what);
        return gg_fix(err, "%s", best->fix);
    }
    gg_fail(err, GG_EFORMAT, "this checkpoint has no model.safetensors");
    return gg_fix(err, "convert it with convert_hf_to_gguf.py of llama.cpp if it has other files");
}

static gg_status choose_files(const char *folder, gg_hf_files *files, gg_error *err)
{
    const char *shard = first_shard(files);
    if (is_listed(files, "model" END)) return keep_file("model" END, files, err);
    if (shard) return keep_shards(folder, shard, files, err);
    if (files->n == 1) return GG_OK;
    if (files->n > 1) {
        gg_fail(err, GG_EFORMAT,
                "there are several files of weights and no index, such as %.60s "
                "and %.60s",
                files->list[0], files->list[1]);
        gg_fix(err, "give the path of one of them");
        return gg_at_file(err, folder);
    }
    if (gg_hf_has_file(folder, "model_index.json", err)) {
        gg_fail(err, GG_EUNSUPPORTED,
                "this is a pipeline of diffusers, whose models have folders of "
                "their own");
        gg_fix(err, "give one of these folders, such as unet, transformer or text_encoder");
    } else {
        refuse_other_weights(folder, err);
    }
    return gg_at_file(err, folder);
}

/* The files of an index; of one file that it does not name, if that was asked for. */
static gg_status find_indexed(const char *folder, const char *only, gg_hf_files *files,
                              gg_error *err)
{
    gg_status st = gg_hf_parse(folder, GG_HF_INDEX, &files->index, err);
    if (st == GG_OK)
        st = files_of_index(gg_json_get(gg_json_root(files->index), "weight_map"), files, err);
    if (st != GG_OK) return gg_hf_at(folder, GG_HF_INDEX, err);
    /* transformers would take this one, and other programs both. */
    if (!only && !is_listed(files, "model" END) && gg_hf_has_file(folder, "model" END, err))
        snprintf(files->skipped, sizeof files->skipped, "model" END);
    if (!only || is_listed(files, only)) return err->status;
    gg_hf_files_free(files);
    return add_name(files, only, strlen(only), err);
}

gg_status gg_hf_find_files(const char *folder, gg_hf_form form, const char *only,
                           gg_hf_files *files, gg_error *err)
{
    size_t prefix;
    unsigned no, count;
    if (form != GG_HF_MODEL) return find_adapter(folder, form == GG_HF_MLX, only, files, err);
    if (gg_hf_has_file(folder, GG_HF_INDEX, err)) return find_indexed(folder, only, files, err);
    gg_status st = list_folder(folder, "model", files, err);
    if (st == GG_OK && files->n == 0) st = list_folder(folder, "", files, err);
    if (st != GG_OK || !only) return st == GG_OK ? choose_files(folder, files, err) : st;
    if (is_shard(only, &prefix, &no, &count)) return keep_shards(folder, only, files, err);
    clear_names(files);
    return add_name(files, only, strlen(only), err);
}
