/* checkpoint.c - opens Hugging Face checkpoints and safetensors files: which files there are, and
 * which of their tensors become which GGUF tensor. */
#include "checkpoint.h"

#include "base/buf.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/text.h"
#include "hf_quantized.h"
#include "organ/manifest.h"
#include "organ/manifest_json.h"
#include "quant/quant.h"
#include "tokenizer.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

gg_status gg_ck_no_room(gg_error *err)
{
    return gg_fail(err, GG_ENOMEM, "no memory for a checkpoint");
}

gg_status gg_ck_note(gg_checkpoint *ck, bool doubt, gg_error *err, const char *fmt, ...)
{
    gg_buf b = GG_BUF_INIT;
    char line[900];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (n >= (int)sizeof line) strcpy(line + sizeof line - 4, "...");
    for (char *p = line; *p; p++)
        if (*p == '\n') *p = ' ';
    gg_status st = gg_buf_printf(&b, err, "%s%c%s\n", ck->notes ? ck->notes : "", doubt ? '!' : ' ',
                                 line);
    if (st != GG_OK) {
        gg_buf_free(&b);
        return st;
    }
    free(ck->notes);
    ck->notes = gg_buf_take(&b, NULL);
    if (doubt && !ck->doubt && !(ck->doubt = strdup(line))) return gg_ck_no_room(err);
    return GG_OK;
}

gg_status gg_ck_check_fields(gg_checkpoint *ck, const gg_fields *f, const gg_json_node *root,
                             gg_error *err)
{
    gg_buf unknown = GG_BUF_INIT, missing = GG_BUF_INIT;
    gg_status st = gg_fields_check(f, root, &unknown, &missing, err);
    if (st == GG_OK && unknown.len)
        st = gg_ck_note(ck, true, err,
                        "%s has fields or values that the conversion does not use: %s", f->file,
                        unknown.data);
    if (st == GG_OK && missing.len)
        st = gg_ck_note(ck, true, err, "%s has no %s", f->file, missing.data);
    gg_buf_free(&unknown);
    gg_buf_free(&missing);
    return st;
}

/* ---- paths -------------------------------------------------------------------------------- */

bool gg_is_checkpoint(const char *path, gg_error *err)
{
    struct stat s;
    if (!gg_stat(path, &s, err)) return false;
    if (S_ISREG(s.st_mode))
        return gg_is_safetensors_name(path) || gg_text_ends(path, strlen(path), GG_HF_INDEX) ||
               strcmp(path, GG_HF_INDEX) == 0;
    return S_ISDIR(s.st_mode) && !gg_hf_has_file(path, GG_MANIFEST, err) &&
           gg_hf_form_of(path, false, err) != GG_HF_NOTHING;
}

/* ---- files -------------------------------------------------------------------------------- */

static gg_status list_file(gg_ck_file **list, size_t *n, const char *path, int fd,
                           const gg_stamp *stamp, gg_error *err)
{
    gg_ck_file f = { strdup(path), fd, *stamp };
    if (!f.path || GG_ROOM(*list, *n, NULL, err) != GG_OK) {
        free(f.path);
        return gg_ck_no_room(err);
    }
    (*list)[(*n)++] = f;
    return GG_OK;
}

gg_status gg_ck_add_file(gg_checkpoint *ck, const char *path, int fd, gg_error *err)
{
    gg_stamp stamp;
    if (fd < 0) return err->status;
    gg_stamp_fd(fd, &stamp, err);
    if (err->status == GG_OK) list_file(&ck->files, &ck->n_files, path, fd, &stamp, err);
    if (err->status != GG_OK) close(fd);
    return err->status;
}

static gg_status add_other(gg_checkpoint *ck, const char *path, const gg_stamp *stamp,
                           gg_error *err)
{
    return list_file(&ck->others, &ck->n_others, path, -1, stamp, err);
}

/* Adds FOLDER/NAME if it is a file that can be read. */
static gg_status add_beside(gg_checkpoint *ck, const char *folder, const char *name, gg_error *err)
{
    gg_error why = GG_ERROR_INIT;
    char *path = gg_path_in(folder, name, err);
    int fd = path && gg_hf_has_file(folder, name, err) ? gg_open_read(path, &why) : -1;
    gg_stamp stamp;
    if (fd >= 0) {
        gg_stamp_fd(fd, &stamp, err);
        close(fd);
        if (err->status == GG_OK) add_other(ck, path, &stamp, err);
    } else if (gg_is_of_system(&why) && why.sys_errno != ENOENT && why.sys_errno != EACCES) {
        gg_error_merge(err, &why);
    }
    free(path);
    return err->status;
}

gg_status gg_ck_list_beside(gg_checkpoint *ck, const char *folder, gg_error *err)
{
    for (const gg_hf_beside_file *b = gg_hf_beside_files; b->name; b++)
        if (add_beside(ck, folder, b->name, err) != GG_OK) return err->status;
    gg_hf_files templates = { .list = NULL };
    gg_hf_list_templates(folder, &templates, err);
    for (size_t i = 0; i < templates.n && err->status == GG_OK; i++)
        add_beside(ck, folder, templates.list[i], err);
    gg_hf_files_free(&templates);
    return err->status;
}

gg_status gg_ck_list_other(gg_checkpoint *ck, const gg_checkpoint *other, gg_error *err)
{
    for (size_t i = 0; i < other->n_files && err->status == GG_OK; i++)
        add_other(ck, other->files[i].path, &other->files[i].stamp, err);
    for (size_t i = 0; i < other->n_others && err->status == GG_OK; i++)
        add_other(ck, other->others[i].path, &other->others[i].stamp, err);
    return err->status;
}

static gg_status open_stored(gg_checkpoint *ck, const char *path, gg_json **metadata, gg_error *err)
{
    size_t n = ck->n_files, first = ck->in.n;
    if (gg_ck_add_file(ck, path, gg_open_read(path, err), err) != GG_OK) return err->status;
    gg_st_read(ck->files[n].fd, &ck->in, metadata, err);
    for (size_t i = first; i < ck->in.n; i++) ck->in.items[i].file = (uint32_t)n;
    return gg_at_file(err, path);
}

static int stored_by_name(const void *a, const void *b)
{
    const gg_st_tensor *x = *(const gg_st_tensor *const *)a, *y = *(const gg_st_tensor *const *)b;
    return strcmp(x->name, y->name);
}

const gg_st_tensor *gg_ck_stored(const gg_checkpoint *ck, const char *name)
{
    gg_st_tensor key = { .name = name };
    const gg_st_tensor *at = &key;
    const gg_st_tensor **found = ck->in.n ? bsearch(&at, ck->by_name, ck->in.n, sizeof *ck->by_name,
                                                    stored_by_name)
                                          : NULL;
    return found ? *found : NULL;
}

static gg_status index_stored(gg_checkpoint *ck, gg_error *err)
{
    ck->by_name = malloc((ck->in.n + 1) * sizeof *ck->by_name);
    if (!ck->by_name) return gg_ck_no_room(err);
    for (size_t i = 0; i < ck->in.n; i++) ck->by_name[i] = &ck->in.items[i];
    qsort(ck->by_name, ck->in.n, sizeof *ck->by_name, stored_by_name);
    for (size_t i = 1; i < ck->in.n; i++) {
        const gg_st_tensor *t = ck->by_name[i];
        if (strcmp(t->name, ck->by_name[i - 1]->name) != 0) continue;
        return gg_ck_refuse(ck, t, GG_EFORMAT, NULL, err,
                            "two files of the checkpoint have this tensor");
    }
    return GG_OK;
}

/* ---- which files ------------------------------------------------------------------------- */

/* A tensor of an index, and the file that has it. */
typedef struct indexed {
    const char *name, *file;
    size_t name_len, file_len;
} indexed;

static int by_indexed_name(const void *a, const void *b)
{
    const indexed *x = a, *y = b;
    return gg_text_order(x->name, x->name_len, y->name, y->name_len);
}

/* Lists the map of an index, sorted by name; malloc'd. NULL without memory. */
static indexed *sorted_index(const gg_json_node *map, size_t *n, gg_error *err)
{
    indexed *list = calloc(gg_json_count(map) + 1, sizeof *list);
    *n = 0;
    if (!list) {
        gg_ck_no_room(err);
        return NULL;
    }
    for (const gg_json_node *m = gg_json_first(map); m; m = gg_json_next(m)) {
        indexed *e = &list[(*n)++];
        e->name = gg_json_key(m, &e->name_len);
        if (gg_json_string(m, &e->file, &e->file_len, err) != GG_OK) {
            free(list);
            return NULL;
        }
    }
    qsort(list, *n, sizeof *list, by_indexed_name);
    return list;
}

/* Drops what the index takes from another file, and compares it with the files. */
static gg_status follow_index(gg_checkpoint *ck, const gg_hf_files *files, gg_error *err)
{
    size_t n, kept = 0, found = 0;
    indexed *list = sorted_index(gg_json_get(gg_json_root(files->index), "weight_map"), &n, err);
    bool *seen = list ? calloc(n + 1, sizeof *seen) : NULL;
    if (!list || !seen) {
        free(list);
        return list ? gg_ck_no_room(err) : err->status;
    }
    for (size_t i = 0; i < ck->in.n; i++) {
        const gg_st_tensor *t = &ck->in.items[i];
        const char *file = files->list[t->file];
        const indexed *e = bsearch(&(indexed){ .name = t->name, .name_len = t->name_len }, list, n,
                                   sizeof *list, by_indexed_name);
        if (e && !gg_text_is(e->file, e->file_len, file)) continue; /* an older copy */
        if (e && !seen[e - list]) seen[e - list] = true, found++;
        ck->in.items[kept++] = *t;
    }
    ck->in.n = kept;
    for (size_t i = 0; i < n && found < n && err->status == GG_OK; i++) {
        if (seen[i]) continue;
        gg_fail(err, GG_EFORMAT, "the index says that %.*s has this tensor, but it has not",
                list[i].file_len < 100 ? (int)list[i].file_len : 100, list[i].file);
        gg_fix(err, "download the files and their index again");
        gg_at_tensor(err, list[i].name, list[i].name_len);
    }
    if (err->status == GG_OK && kept != n)
        gg_fail(err, GG_EFORMAT, "the index names %zu tensors, but the files have %zu", n, kept);
    free(list);
    free(seen);
    return err->status;
}

/* Opens the files of a folder; *metadata gets the header of the first, if that has metadata. */
static gg_status open_files(gg_checkpoint *ck, const char *folder, const char *only,
                            gg_json **metadata, gg_error *err)
{
    gg_hf_files files = { .list = NULL };
    gg_status st = gg_hf_find_files(folder, ck->form, only, &files, err);
    for (size_t i = 0; i < files.n && st == GG_OK; i++) {
        char *file = gg_path_in(folder, files.list[i], err);
        st = file ? open_stored(ck, file, i == 0 ? metadata : NULL, err) : GG_ENOMEM;
        free(file);
    }
    if (st == GG_OK && files.index) {
        gg_fields f = { gg_index_fields, "", false, GG_HF_INDEX };
        st = gg_ck_check_fields(ck, &f, gg_json_root(files.index), err);
        if (st == GG_OK) st = follow_index(ck, &files, err);
        gg_hf_at(folder, GG_HF_INDEX, err);
    }
    if (st == GG_OK && files.skipped[0])
        st = gg_ck_note(ck, false, err, "%s is used; other files are left out: %s", files.list[0],
                        files.skipped);
    gg_hf_files_free(&files);
    ck->file_notes = ck->notes ? strlen(ck->notes) : 0;
    return st == GG_OK ? index_stored(ck, err) : st;
}

/* ---- tensors of the model ------------------------------------------------------------------ */

static const char *name_of(const void *ck, size_t i, size_t *len)
{
    const gg_tensor *t = &((const gg_checkpoint *)ck)->header.tensors[i];
    *len = t->name_len;
    return t->name;
}

gg_ck_tensor *gg_ck_tensor_named(gg_checkpoint *ck, const char *name, size_t len, gg_error *err)
{
    gg_gguf *g = &ck->header;
    size_t i = gg_text_find(&ck->names_made, ck, name, len), cap = ck->cap;
    if (i != SIZE_MAX) return &ck->made[i];
    if (GG_ROOM(g->tensors, g->n_tensors, &cap, err) != GG_OK) return NULL;
    if (GG_ROOM(ck->made, g->n_tensors, &ck->cap, err) != GG_OK) return NULL;
    gg_tensor *t = &g->tensors[g->n_tensors];
    ck->made[g->n_tensors] = (gg_ck_tensor){ .times = 0 };
    *t = (gg_tensor){ .name = gg_names_add(&ck->names, name, len, err), .name_len = len };
    ck->names_made.at = name_of;
    if (!t->name || gg_text_add(&ck->names_made, ck, g->n_tensors, &i, err) != GG_OK) return NULL;
    return &ck->made[g->n_tensors++];
}

bool gg_ck_has(const gg_checkpoint *ck, const char *name)
{
    const gg_gguf *g = &ck->header;
    return gg_name_index_find(g->tensors, g->by_name, g->n_tensors, name, strlen(name)) != SIZE_MAX;
}

void gg_ck_drop_empty(gg_checkpoint *ck)
{
    gg_gguf *g = &ck->header;
    size_t n = 0;
    for (size_t i = 0; i < g->n_tensors; i++) {
        if (!ck->made[i].n_pieces && !ck->made[i].values) continue;
        g->tensors[n] = g->tensors[i];
        ck->made[n++] = ck->made[i];
    }
    g->n_tensors = n;
}

gg_status gg_ck_check_type(const gg_checkpoint *ck, const gg_st_tensor *in, gg_error *err)
{
    bool integers = gg_st_is_integer(in->type) && !ck->any_type;
    if (in->type != GG_ST_OTHER && !integers) return GG_OK;
    return gg_ck_refuse(ck, in, GG_EUNSUPPORTED, "save it as BF16, without quantization", err,
                        integers ? "its values are integers (%s), as of quantized weights"
                                 : "its type %s cannot be read",
                        in->type_name);
}

gg_status gg_ck_add_piece(const gg_checkpoint *ck, gg_ck_tensor *t, const gg_ck_piece *piece,
                          gg_error *err)
{
    if (gg_ck_check_type(ck, &ck->in.items[piece->in], err) != GG_OK ||
        GG_ROOM(t->pieces, t->n_pieces, NULL, err) != GG_OK)
        return err->status;
    gg_ck_piece *p = &t->pieces[t->n_pieces++];
    *p = *piece;
    p->n = gg_hf_view_elements(&p->view);
    return GG_OK;
}

/* Adds the tensor and the file to an error. */
static gg_status at_stored(const gg_checkpoint *ck, const gg_st_tensor *t, gg_error *err)
{
    gg_at_tensor(err, t->name, t->name_len);
    return gg_at_file(err, ck->files[t->file].path);
}

gg_status gg_ck_refuse(const gg_checkpoint *ck, const gg_st_tensor *t, gg_status status,
                       const char *fix, gg_error *err, const char *fmt, ...)
{
    char what[sizeof err->what];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    gg_fail(err, status, "%s", what);
    if (fix) gg_fix(err, "%s", fix);
    return at_stored(ck, t, err);
}

gg_status gg_ck_add_moved(const gg_checkpoint *ck, gg_ck_tensor *t, const gg_st_tensor *in,
                          int64_t expert, const gg_hf_move *move, gg_error *err)
{
    gg_status st = GG_OK;
    if (t->n_pieces == 0) {
        t->hf_name = in->name;
        t->shape = move->n_dims;
        memcpy(t->dims, move->dims, sizeof t->dims);
    }
    for (uint32_t v = 0; v < move->n_views && st == GG_OK; v++) {
        gg_ck_piece piece = { .in = (uint32_t)(in - ck->in.items),
                              .expert = expert,
                              .view = move->view[v] };
        st = gg_ck_add_piece(ck, t, &piece, err);
    }
    return st;
}

/* Adds what a stored tensor contributes to the tensor `name` of the model. */
static gg_status add_moved(gg_checkpoint *ck, const gg_st_tensor *in, const char *name,
                           int64_t expert, const gg_hf_move *move, gg_error *err)
{
    gg_ck_tensor *t = gg_ck_tensor_named(ck, name, strlen(name), err);
    if (!t) return err->status;
    free(t->values); /* what config.json gives is also stored */
    t->values = NULL;
    if (t->n_pieces == 0) {
        t->op = move->neg_exp ? GG_CK_NEG_EXP : GG_CK_NONE;
    } else if (expert < 0 || t->pieces[0].expert < 0 || t->shape != move->n_dims ||
               memcmp(t->dims, move->dims, t->shape * sizeof *t->dims) != 0) {
        return gg_ck_refuse(ck, in, GG_EFORMAT, NULL, err, "it and '%.100s' %s", t->hf_name,
                            expert < 0 ? "both become the same GGUF tensor"
                                       : "have different shapes");
    }
    return gg_ck_add_moved(ck, t, in, expert, move, err);
}

static bool is_beside_weights(const gg_st_tensor *t)
{
    return gg_hf_ends_with(gg_hf_beside_weights, t->name, t->name_len) ||
           strcmp(t->name, "scaled_fp8") == 0;
}

/* What the name of a scale ends with where that of its tensor has `of`. */
static const struct {
    const char *end, *of;
} scale_ends[] = { { "_scale_inv", "" }, { "_scale", "" }, { ".scale_weight", ".weight" } };
#define SCALE_ENDS (sizeof scale_ends / sizeof *scale_ends)

static bool is_f8(const gg_st_tensor *t)
{
    return t->type == GG_ST_F8_E4M3 || t->type == GG_ST_F8_E5M2;
}

/* The tensor whose name ends with `to` where that of t ends with `from`, or NULL. */
static const gg_st_tensor *renamed(const gg_checkpoint *ck, const gg_st_tensor *t, const char *from,
                                   const char *to)
{
    char name[512];
    if (!gg_text_ends(t->name, t->name_len, from) || t->name_len + strlen(to) >= sizeof name)
        return NULL;
    snprintf(name, sizeof name, "%.*s%s", (int)(t->name_len - strlen(from)), t->name, to);
    return gg_ck_stored(ck, name);
}

/* Scales of F8 weights. Others are not applied, so their tensors must not be left out. */
static bool is_scale_of_f8(const gg_checkpoint *ck, const gg_st_tensor *t)
{
    for (size_t i = 0; i < SCALE_ENDS; i++) {
        const gg_st_tensor *w = renamed(ck, t, scale_ends[i].end, scale_ends[i].of);
        if (w && is_f8(w)) return true;
    }
    return false;
}

/* The scales of a stored F8 tensor: the first of them, and how many it has. */
static const gg_st_tensor *scales_of(const gg_checkpoint *ck, const gg_st_tensor *t, size_t *n)
{
    const gg_st_tensor *first = NULL;
    *n = 0;
    for (size_t i = 0; i < SCALE_ENDS && is_f8(t); i++) {
        const gg_st_tensor *s = renamed(ck, t, scale_ends[i].of, scale_ends[i].end);
        if (s && (*n)++ == 0) first = s;
    }
    return first;
}

const gg_st_tensor *gg_ck_scale_of(const gg_checkpoint *ck, const gg_st_tensor *t)
{
    size_t n;
    return scales_of(ck, t, &n);
}

/* The number of blocks before those that predict further tokens. */
static uint64_t trunk_of(const gg_meta *meta)
{
    uint64_t blocks = gg_arch_number(meta, "block_count"),
             mtp = gg_arch_number(meta, "nextn_predict_layers");
    return mtp < blocks ? blocks - mtp : 0;
}

/* What PEFT leaves in the names of a model that it wraps. */
static bool is_of_adapter(const char *name)
{
    return strstr(name, ".base_layer.") || strstr(name, ".lora_A") || strstr(name, ".lora_B") ||
           strstr(name, ".lora_embedding_") || strstr(name, ".lora_magnitude_vector") ||
           strstr(name, ".modules_to_save.");
}

/* The first architecture that knows the names of all stored tensors; NULL for none. */
static const char *arch_of_names(const gg_checkpoint *ck)
{
    for (const gg_hf_class *c = gg_hf_classes; c->name; c++) {
        size_t i = 0;
        while (i < ck->in.n &&
               (gg_hf_find(c->arch, ck->in.items[i].name, ck->in.items[i].name_len).rule ||
                is_beside_weights(&ck->in.items[i]) || is_scale_of_f8(ck, &ck->in.items[i])))
            i++;
        if (i == ck->in.n) return c->arch;
    }
    return NULL;
}

static gg_status add_stored(gg_checkpoint *ck, const gg_hf_sizes *sizes, uint64_t blocks, size_t i,
                            gg_error *err)
{
    const gg_st_tensor *in = &ck->in.items[i];
    const char *arch = ck->arch;
    gg_hf_match m = ck->match[i];
    if (m.mtp) m.block += (int64_t)trunk_of(&ck->header.meta);
    if (m.part) return GG_OK; /* note_parts names it */
    bool beyond = m.block >= 0 && (uint64_t)m.block >= blocks;
    if (beyond && gg_hf_is(arch, GG_HF_DROPS_PREDICTIONS))
        return GG_OK; /* multi-token prediction */
    if (!m.rule && (is_beside_weights(in) || is_scale_of_f8(ck, in))) return GG_OK;
    if (!m.rule && is_of_adapter(in->name))
        return gg_ck_refuse(ck, in, GG_EUNSUPPORTED,
                            "merge it with merge_and_unload of PEFT, and save the model again", err,
                            "the checkpoint has an adapter that was not merged into it");
    if (!m.rule) {
        const char *fits = arch_of_names(ck);
        const gg_json_node *how = gg_hf_field(gg_json_root(ck->config), "quantization_config");
        char method[GG_HF_METHOD];
        if (!fits && gg_hf_stated_method(how, method) > 0)
            return gg_ck_refuse(ck, in, GG_EUNSUPPORTED,
                                "save the model without quantization, as BF16", err,
                                "a model of architecture %s has no such tensor; config.json says "
                                "that the weights are quantized with %s",
                                arch, method);
        return gg_ck_refuse(ck, in, GG_EUNSUPPORTED,
                            fits ? "correct the class (architectures) in config.json"
                                 : "convert the model with convert_hf_to_gguf.py of llama.cpp",
                            err, "a model of architecture %s has no such tensor%s%s", arch,
                            fits ? "; the tensors have the names of " : "", fits ? fits : "");
    }
    if (m.rule->gguf[0] == '-') return GG_OK;
    if (beyond)
        return gg_ck_refuse(ck, in, GG_EFORMAT, NULL, err,
                            "config.json gives the model only %llu blocks",
                            (unsigned long long)blocks);
    for (const gg_hf_name *r = m.rule; r; r = gg_hf_further(r)) {
        char name[GG_HF_NAME];
        gg_hf_move move;
        if (!gg_hf_gguf_name(r, &m, name) ||
            !gg_hf_views(r->ops, sizes, in->n_dims, in->dims, &move))
            return gg_ck_refuse(ck, in, GG_EFORMAT, NULL, err,
                                "its shape does not fit the sizes in config.json");
        gg_status st = add_moved(ck, in, name, m.expert, &move, err);
        if (st != GG_OK) return st;
    }
    return GG_OK;
}

/* A tensor that is taken as it is, with its axes in GGUF order. */
static gg_status add_unmoved(gg_checkpoint *ck, const gg_st_tensor *in, gg_error *err)
{
    gg_hf_move move;
    gg_hf_sizes none = { 0 };
    uint64_t dims[GG_ST_DIMS] = { 1 };
    uint32_t n = in->n_dims;
    memcpy(dims, in->dims, n * sizeof *dims);
    if (n > GG_MAX_DIMS || !gg_hf_views(NULL, &none, n, dims, &move))
        return gg_ck_refuse(ck, in, GG_EUNSUPPORTED, NULL, err,
                            "it has %u axes, and GGUF tensors have at most %d", n, GG_MAX_DIMS);
    if (ck->stored && n == 0) move.n_dims = 0; /* a scalar stays one */
    return add_moved(ck, in, in->name, -1, &move, err);
}

/* ---- shapes and types ----------------------------------------------------------------------- */

static int by_expert(const void *a, const void *b)
{
    const gg_ck_piece *x = a, *y = b;
    return x->expert < y->expert ? -1 : x->expert > y->expert;
}

/* Puts experts in the order of their numbers, of which none may be missing. */
static gg_status stack_experts(const gg_checkpoint *ck, gg_ck_tensor *t, uint64_t experts,
                               gg_error *err)
{
    const gg_st_tensor *in = &ck->in.items[t->pieces[0].in];
    qsort(t->pieces, t->n_pieces, sizeof *t->pieces, by_expert);
    for (size_t i = 0; i < t->n_pieces; i++)
        if (t->pieces[i].expert != (int64_t)i)
            return gg_ck_refuse(ck, in, GG_EFORMAT, NULL, err, "expert %zu %s", i,
                                t->pieces[i].expert > (int64_t)i ? "is missing" : "exists twice");
    if (experts && experts != t->n_pieces)
        return gg_ck_refuse(ck, in, GG_EFORMAT, NULL, err,
                            "the model should have %llu experts, but %s%zu of them are here",
                            (unsigned long long)experts, experts > t->n_pieces ? "only " : "",
                            t->n_pieces);
    return GG_OK;
}

/* The type of the tensor in the model: F32, F16 and BF16 are kept, unless pieces differ. */
static uint32_t type_of_pieces(const gg_checkpoint *ck, const gg_ck_tensor *t)
{
    gg_st_type type = ck->in.items[t->pieces[0].in].type;
    for (size_t i = 1; i < t->n_pieces; i++)
        if (ck->in.items[t->pieces[i].in].type != type) return GG_F32;
    if (t->op || t->times != 0 || ck->all_f32) return t->wide ? GG_F64 : GG_F32;
    if (ck->stored && gg_st_dtype(type) != GG_DTYPE_COUNT) return gg_st_dtype(type);
    return type == GG_ST_F16 ? GG_F16 : type == GG_ST_BF16 ? GG_BF16 : GG_F32;
}

#define MOST_SCALES ((uint64_t)1 << 22) /* of a tensor: all of them are held while it is read */

/* Whether the configuration states a quantization, or any F8 tensor has a scale. */
static bool has_scales(gg_checkpoint *ck)
{
    if (!ck->looked_for_scales)
        ck->scales = gg_hf_field(gg_json_root(ck->config), "quantization_config");
    for (size_t i = 0; i < ck->in.n && !ck->looked_for_scales; i++)
        ck->scales = ck->scales || gg_ck_scale_of(ck, &ck->in.items[i]);
    ck->looked_for_scales = true;
    return ck->scales;
}

uint64_t gg_ck_block_size(const gg_checkpoint *ck, int axis, uint64_t n, uint64_t blocks,
                          bool *guessed)
{
    uint64_t size = ck->block[axis] ? ck->block[axis] : 128, power = 1;
    if (blocks <= 1) return blocks * n;
    if (blocks == n) return 1;
    /* not 0: 128 unless the configuration has another size */
    if (blocks == (n + size - 1) / size) return size;
    if (ck->block[axis]) return 0;
    *guessed = true;
    /* There is at most one such power. */
    while (power < n && (n + power - 1) / power > blocks) power *= 2;
    if ((n + power - 1) / power == blocks) return power;
    return n % blocks == 0 ? n / blocks : 0;
}

/* Whether a scale has one value for each block of rows and columns. */
static bool blocks_fit(const gg_checkpoint *ck, const gg_st_tensor *in, const gg_st_tensor *s,
                       uint64_t size[2], bool *guessed)
{
    if (in->n_dims != 2 || s->n_dims != 2) return false;
    for (int i = 0; i < 2; i++)
        if (!(size[i] = gg_ck_block_size(ck, i, in->dims[i], s->dims[i], guessed))) return false;
    return true;
}

static gg_status check_f8_scales(gg_checkpoint *ck, const gg_ck_tensor *t, gg_error *err)
{
    for (size_t i = 0; i < t->n_pieces; i++) {
        const gg_st_tensor *in = &ck->in.items[t->pieces[i].in];
        size_t n_scales;
        if (!is_f8(in)) continue;
        const gg_st_tensor *s = scales_of(ck, in, &n_scales);
        if (!s && (ck->stored || !has_scales(ck))) continue; /* it is 1 */
        uint64_t rows = in->n_dims ? in->dims[0] : 1;
        uint64_t size[2] = { 0 };
        bool guessed = false;
        if (s && s->elements > MOST_SCALES)
            return gg_ck_refuse(ck, in, GG_EUNSUPPORTED, NULL, err,
                                "its scale has %llu values; the limit is %llu",
                                (unsigned long long)s->elements, (unsigned long long)MOST_SCALES);
        bool real = s && s->type <= GG_ST_F64, /* F8 numbers are scales of scales */
            fits = real && n_scales == 1 && s->elements > 0 && s->elements <= in->elements &&
                   (s->elements == 1 || (s->elements == rows && s->dims[0] == rows) ||
                    blocks_fit(ck, in, s, size, &guessed));
        if (fits && guessed && !ck->guessed) {
            ck->guessed = true; /* one note is enough */
            gg_ck_note(ck, true, err,
                       "config.json does not state the size of the blocks of F8 scales "
                       "(weight_block_size); that of %.200s is taken as %llu x %llu",
                       in->name, (unsigned long long)size[0], (unsigned long long)size[1]);
        }
        if (fits) continue;
        return gg_ck_refuse(ck, in, GG_EUNSUPPORTED, "save the model as BF16", err,
                            !s ? "its values are F8, and the checkpoint has no scale for them%s"
                            : !real        ? "its scale has the type %s, which is not read"
                            : n_scales > 1 ? "it has several scales%s"
                                           : "the shape of its scale does not fit it%s",
                            s && !real ? s->type_name : "");
    }
    return GG_OK;
}

static gg_status finish_tensor(gg_checkpoint *ck, size_t i, bool f32_rules, gg_error *err)
{
    gg_tensor *t = &ck->header.tensors[i];
    gg_ck_tensor *m = &ck->made[i];
    uint64_t start = 0;
    bool stack = m->n_pieces && m->pieces[0].expert >= 0;
    gg_status st = GG_OK;
    uint64_t experts = gg_arch_number(&ck->header.meta, "expert_count");
    if (stack) st = stack_experts(ck, m, experts, err);
    for (size_t k = 0; k < m->n_pieces; k++) {
        m->pieces[k].start = start;
        start += m->pieces[k].n;
    }
    if (st == GG_OK) st = check_f8_scales(ck, m, err);
    if (st != GG_OK) return st;
    if (m->shape + stack > GG_MAX_DIMS || (m->shape + stack == 0 && !ck->stored))
        return gg_ck_refuse(ck, &ck->in.items[m->pieces[0].in], GG_EUNSUPPORTED, NULL, err,
                            "it has a shape that GGUF tensors cannot have");
    t->n_dims = m->shape + stack;
    for (uint32_t k = 0; k < GG_MAX_DIMS; k++)
        t->dims[k] = k < m->shape ? m->dims[m->shape - 1 - k] : 1;
    if (stack) t->dims[m->shape] = m->n_pieces;
    t->dtype = !m->n_pieces || (f32_rules && gg_hf_is_f32(t->name, t->n_dims))
                   ? GG_F32
                   : type_of_pieces(ck, m);
    return gg_tensor_extent(t->dtype, t->n_dims, t->dims, &t->elements, &t->bytes, err);
}

gg_status gg_ck_finish(gg_checkpoint *ck, bool f32_rules, gg_error *err)
{
    gg_gguf *g = &ck->header;
    gg_status st = GG_OK;
    for (size_t i = 0; i < g->n_tensors && st == GG_OK; i++)
        st = finish_tensor(ck, i, f32_rules, err);
    if (st == GG_OK)
        st = gg_plan_offsets(g->tensors, g->n_tensors, g->alignment, &g->data_bytes, err);
    return st == GG_OK ? gg_name_index(g->tensors, g->n_tensors, &g->by_name, err) : st;
}

/* ---- exceptions ------------------------------------------------------------------------------ */

static gg_status add_values(gg_checkpoint *ck, const char *name, float *values, size_t n,
                            gg_error *err)
{
    gg_ck_tensor *t = gg_ck_tensor_named(ck, name, strlen(name), err);
    if (!t) {
        free(values);
        return err->status;
    }
    t->values = values;
    t->shape = 1;
    t->dims[0] = n;
    return GG_OK;
}

/* A list of numbers in config.json as a tensor. */
static gg_status add_list(gg_checkpoint *ck, const char *field, const char *name, gg_error *err)
{
    char path[64];
    snprintf(path, sizeof path, "rope_scaling.%s", field);
    const gg_json_node *list = gg_hf_field(gg_json_root(ck->config), path);
    size_t n = gg_json_count(list), i = 0;
    if (n == 0) return GG_OK;
    float *values = malloc(n * sizeof *values);
    if (!values) return gg_ck_no_room(err);
    for (const gg_json_node *v = gg_json_first(list); v; v = gg_json_next(v))
        if (gg_json_f32(v, &values[i++], err) != GG_OK) {
            free(values);
            return err->status;
        }
    return add_values(ck, name, values, n, err);
}

static gg_status add_rope_tensors(gg_checkpoint *ck, gg_error *err)
{
    float *values = NULL;
    size_t n = 0;
    gg_status st = GG_OK;
    if (gg_hf_is(ck->arch, GG_HF_LLAMA3_ROPE)) {
        st = gg_hf_rope_freqs(gg_json_root(ck->config), &values, &n, err);
        if (st == GG_OK && n) st = add_values(ck, "rope_freqs.weight", values, n, err);
    }
    if (gg_hf_is(ck->arch, GG_HF_LONG_ROPE)) {
        st = add_list(ck, "long_factor", "rope_factors_long.weight", err);
        if (st == GG_OK) st = add_list(ck, "short_factor", "rope_factors_short.weight", err);
    }
    return st;
}

gg_status gg_ck_same_values(const gg_checkpoint *ck, const gg_st_tensor *a, const gg_st_tensor *b,
                            bool *same, gg_error *err)
{
    enum { STEP = 1 << 18 };
    uint8_t *buf = malloc((size_t)2 * STEP);
    gg_status st = buf ? GG_OK : gg_ck_no_room(err);
    *same = a->type == b->type && a->bytes == b->bytes;
    for (uint64_t at = 0; *same && at < a->bytes && st == GG_OK; at += STEP) {
        size_t n = a->bytes - at < STEP ? (size_t)(a->bytes - at) : STEP;
        st = gg_pread_all(ck->files[a->file].fd, buf, n, a->at + at, err);
        if (st != GG_OK) at_stored(ck, a, err);
        else if ((st = gg_pread_all(ck->files[b->file].fd, buf + STEP, n, b->at + at, err)) !=
                 GG_OK)
            at_stored(ck, b, err);
        else *same = memcmp(buf, buf + STEP, n) == 0;
    }
    free(buf);
    return st;
}

/* Finds what the names of all stored tensors mean for the architecture, and which of them are the
 * head and the embeddings. */
static gg_status match_names(gg_checkpoint *ck, gg_error *err)
{
    ck->match = calloc(ck->in.n + 1, sizeof *ck->match);
    if (!ck->match) return gg_ck_no_room(err);
    for (size_t i = 0; i < ck->in.n; i++) {
        const gg_st_tensor *t = &ck->in.items[i];
        const gg_hf_match m = ck->match[i] = gg_hf_find(ck->arch, t->name, t->name_len);
        if (!m.rule || m.block >= 0 || strcmp(m.ending, ".weight") != 0) continue;
        bool head = strcmp(m.rule->hf, "lm_head") == 0 || strcmp(m.rule->gguf, "output") == 0;
        if (head && !ck->head) ck->head = t;
        if (strcmp(m.rule->gguf, "token_embd") == 0 && !ck->embeddings) ck->embeddings = t;
    }
    return GG_OK;
}

/* Whether lm_head is a copy of the embeddings, which GGUF leaves out. */
static gg_status is_copied_head(const gg_checkpoint *ck, const gg_st_tensor *t, bool *copied,
                                gg_error *err)
{
    *copied = false;
    if (t != ck->head || !ck->embeddings || !gg_hf_is(ck->arch, GG_HF_COPIED_HEAD)) return GG_OK;
    return gg_ck_same_values(ck, t, ck->embeddings, copied, err);
}

/* Whether the class is that of a model without a head, such as LlamaModel. */
static bool is_headless(const gg_json_node *config)
{
    const gg_json_node *name = gg_json_first(gg_json_get(config, "architectures"));
    const char *s = "";
    size_t len = 0;
    return gg_json_type_of(name) == GG_JSON_STRING &&
           gg_json_string(name, &s, &len, NULL) == GG_OK && gg_text_ends(s, len, "Model");
}

/* Compares tie_word_embeddings with the head that is stored. */
static gg_status check_head(gg_checkpoint *ck, gg_error *err)
{
    const gg_json_node *field = gg_hf_field(gg_json_root(ck->config), "tie_word_embeddings");
    const gg_st_tensor *head = ck->head, *embd = ck->embeddings;
    bool none = gg_hf_is(ck->arch, GG_HF_NO_HEAD); /* engines give these no head of their own */
    bool tied = gg_hf_is(ck->arch, GG_HF_TIED), same = true;
    if (!embd) return GG_OK;
    if (field && gg_json_bool(field, &tied, err) != GG_OK) return err->status;
    if (!tied && !head && !field && is_headless(gg_json_root(ck->config))) return GG_OK;
    if (!tied && !head)
        return gg_ck_note(ck, true, err,
                          "config.json says that the model has a head of its own "
                          "(tie_word_embeddings is %s), but no file has lm_head.weight, so "
                          "engines use the embeddings; a shard may be missing",
                          field ? "false" : "absent, which means false");
    if (!head || !((tied && field) || none)) return GG_OK;
    if (gg_ck_same_values(ck, head, embd, &same, err) != GG_OK || same) return err->status;
    if (!tied) {
        gg_fail(err, GG_EUNSUPPORTED,
                "%s differs from the embeddings, and engines use these as the head of a model of "
                "this architecture",
                head->name);
        return gg_fix(err, "tie the embeddings, and train or save the model again");
    }
    return gg_ck_note(ck, true, err,
                      "%s differs from the embeddings, although config.json ties both "
                      "(tie_word_embeddings): %s",
                      head->name,
                      none ? "it is left out, and the embeddings are used, as in transformers"
                           : "it is kept as the head, while transformers uses the embeddings");
}

/* Compares vocab_size with the rows of the embeddings, of which some architectures have spare ones.
 */
static gg_status check_vocab_size(gg_checkpoint *ck, gg_error *err)
{
    const gg_json_node *field = gg_hf_field(gg_json_root(ck->config), "vocab_size");
    const gg_st_tensor *embd = ck->embeddings;
    unsigned long long rows = embd && embd->n_dims == 2 ? embd->dims[0] : 0;
    uint64_t n = 0;
    char value[80];
    if (!field || !rows) return GG_OK;
    bool whole = gg_json_u64(field, &n, NULL) == GG_OK,
         spare = gg_hf_is(ck->arch, GG_HF_COPIED_HEAD) || gg_hf_is(ck->arch, GG_HF_SPARE_ROWS);
    if (whole && (n == rows || (n < rows && spare))) return GG_OK;
    gg_hf_value_text(field, value);
    return gg_ck_note(ck, true, err,
                      "config.json has vocab_size = %s, but the embeddings have %llu rows", value,
                      rows);
}

/* What config.json says of a field that tells whether a model has a tensor; false if nothing. */
static bool is_stated(const gg_json_node *config, const gg_hf_field_row *f, bool *value)
{
    return gg_json_bool(gg_hf_field(config, f->field), value, NULL) == GG_OK;
}

/* Whether a field is stated that tells of the same tensor. */
static bool is_told(const gg_json_node *config, const char *arch, const char *tensor)
{
    bool value;
    for (const gg_hf_field_row *f = gg_hf_flags; f->field; f++)
        if (gg_hf_has(f->archs, arch) && strcmp(f->from, tensor) == 0 &&
            is_stated(config, f, &value))
            return true;
    return false;
}

/* Notes fields that tell of tensors where nothing tells of which: those of other architectures. */
static gg_status note_other_flags(gg_checkpoint *ck, gg_error *err)
{
    gg_buf list = GG_BUF_INIT;
    for (const gg_hf_field_row *f = gg_hf_flags; f->field && err->status == GG_OK; f++) {
        bool value = false, known = false, before = false;
        for (const gg_hf_field_row *g = gg_hf_flags; g->field; g++) {
            bool same = strcmp(g->field, f->field) == 0;
            known = known || (same && gg_hf_has(g->archs, ck->arch));
            before = before || (same && g < f);
        }
        bool tells = !f->by || strcmp(f->by, "write") != 0;
        if (tells && !known && !before && is_stated(gg_json_root(ck->config), f, &value) && value)
            gg_buf_printf(&list, err, "%s%s", list.len ? ", " : "", f->field);
    }
    if (list.len && err->status == GG_OK)
        gg_ck_note(ck, true, err,
                   "config.json has fields that are true and that this architecture does not have: "
                   "%s",
                   list.data);
    gg_buf_free(&list);
    return err->status;
}

/* Compares the fields that tell whether a model has biases and the like with the tensors. */
static gg_status check_flags(gg_checkpoint *ck, gg_error *err)
{
    const gg_json_node *config = gg_json_root(ck->config);
    for (const gg_hf_field_row *f = gg_hf_flags; f->field && err->status == GG_OK; f++) {
        const char *by = f->by ? f->by : "false";
        bool value = strcmp(by, "true") == 0;
        if (!gg_hf_has(f->archs, ck->arch) || strcmp(by, "write") == 0) continue;
        bool stated = is_stated(config, f, &value), there = gg_ck_has(ck, f->from);
        bool open = !stated && (strcmp(by, "read") == 0 || is_told(config, ck->arch, f->from));
        if (there == value || open) continue;
        gg_ck_note(ck, true, err,
                   stated ? "config.json has %s = %s, but the model has %s %s"
                          : "config.json has no %s, which stands for %s, but the model has %s %s",
                   f->field, value ? "true" : "false", there ? "the tensor" : "no", f->from);
    }
    return err->status == GG_OK ? note_other_flags(ck, err) : err->status;
}

/* The number of tokens that gemma3's embeddings are cut to. */
static gg_status count_tokens(const gg_checkpoint *ck, const char *folder, uint64_t *n,
                              gg_error *err)
{
    *n = 0;
    if (!gg_hf_has_file(folder, "tokenizer.model", err) &&
        gg_hf_count_tokens(folder, n, err) != GG_OK)
        return err->status;
    if (*n == 0) gg_json_u64(gg_hf_field(gg_json_root(ck->config), "vocab_size"), n, NULL);
    if (*n == 0) *n = UINT64_MAX;
    return GG_OK;
}

/* Makes the keys of the tokenizer, and notes what is wrong with it: the tensors do not need it. */
static gg_status read_tokenizer(gg_checkpoint *ck, const char *folder, const char *pre,
                                gg_error *err)
{
    gg_gguf *g = &ck->header;
    size_t n = g->meta.n;
    gg_hf_tokenizer_from from = { folder, ck->arch, gg_json_root(ck->config), pre, 0 };
    gg_buf notes = GG_BUF_INIT;
    if (!gg_hf_has_tokenizer(folder, err)) return err->status;
    for (size_t i = 0; i < g->n_tensors; i++)
        if (strcmp(g->tensors[i].name, "token_embd.weight") == 0) from.rows = g->tensors[i].dims[1];
    if (gg_hf_tokenizer(&from, &g->meta, &notes, &ck->no_tokenizer) != GG_OK) {
        g->meta.n = n;
        gg_buf_clear(&notes);
        if (gg_is_of_system(&ck->no_tokenizer)) {
            gg_buf_free(&notes);
            *err = ck->no_tokenizer;
            return err->status;
        }
        gg_ck_note(ck, true, err, "the tokenizer is not converted: %s", ck->no_tokenizer.what);
    }
    for (char *p = notes.data, *end; p && *p && err->status == GG_OK; p = end + 1) {
        end = strchr(p, '\n');
        *end = '\0';
        gg_ck_note(ck, false, err, "%s", p);
    }
    gg_buf_free(&notes);
    return err->status;
}

/* ---- keys ----------------------------------------------------------------------------------- */

static gg_status fail_class(const char *name, size_t len, gg_error *err)
{
    gg_buf list = GG_BUF_INIT;
    const char *last = "";
    for (const gg_hf_class *c = gg_hf_classes; c->name; c++)
        if (strcmp(c->arch, last) != 0) gg_buf_printf(&list, err, " %s", last = c->arch);
    gg_fail(err, GG_EUNSUPPORTED, "models of class %.*s are not covered; architectures that are:%s",
            len < 60 ? (int)len : 60, name, list.data ? list.data : "");
    gg_buf_free(&list);
    return gg_fix(err, "convert the model with convert_hf_to_gguf.py of llama.cpp");
}

/* The class that belongs to model_type: qwen2_moe is that of Qwen2MoeForCausalLM. */
static const gg_hf_class *class_of_type(const gg_json_node *config)
{
    const char *type;
    size_t len;
    if (gg_json_string(gg_json_get(config, "model_type"), &type, &len, NULL) != GG_OK) return NULL;
    for (const gg_hf_class *c = gg_hf_classes; c->name; c++) {
        const char *name = c->name;
        if (c->model_type && gg_text_is(type, len, c->model_type)) return c;
        size_t i = 0;
        for (; i < len; i++) {
            if (type[i] == '_') continue;
            if (tolower((unsigned char)*name) != type[i]) break;
            name++;
        }
        if (i == len && strcmp(name, "ForCausalLM") == 0) return c;
    }
    return NULL;
}

const gg_hf_class *gg_ck_class(const gg_json_node *config, bool *by_type, gg_error *err)
{
    const gg_json_node *first = gg_json_first(gg_json_get(config, "architectures"));
    const char *name = "";
    size_t len = 0;
    bool named = gg_json_string(first, &name, &len, NULL) == GG_OK;
    const gg_hf_class *class = gg_hf_class_find(name, len);
    *by_type = false;
    if (!class && (!named || gg_text_begins(name, len, "PeftModel"))) {
        class = class_of_type(config);
        *by_type = class != NULL;
    }
    if (!class && named) {
        fail_class(name, len, err);
    } else if (!class) {
        gg_fail(err, GG_EUNSUPPORTED,
                "config.json does not name the model's class (architectures)");
        gg_fix(err, "add it, as the model's base has it");
    }
    return class;
}

/* The end of a path, or in a cache of Hugging Face the name of the repository: the path ends with
 * models--ORGANIZATION--NAME/snapshots/HASH there. */
static const char *name_of_path(const char *path, size_t *len)
{
    size_t end, from = gg_folder_len(path, &end);
    const char *p = strstr(path, "models--"), *snapshots = strstr(path, "/snapshots/");
    if (p && snapshots && p < snapshots) {
        const char *name = p;
        for (const char *q = p; q + 2 < snapshots; q++)
            if (q[0] == '-' && q[1] == '-') name = q + 2;
        if (!memchr(name, '/', (size_t)(snapshots - name))) {
            *len = (size_t)(snapshots - name);
            return name;
        }
    }
    *len = end - from;
    return path + from;
}

gg_status gg_ck_keys(const gg_json_node *config, const gg_hf_class *class, const char *folder,
                     gg_meta *meta, gg_error *err)
{
    const char *stated;
    size_t len;
    char text[256];
    const char *path = folder;
    if (gg_json_string(gg_json_get(config, "_name_or_path"), &stated, &len, NULL) == GG_OK &&
        len > 0 && len < sizeof text) {
        snprintf(text, sizeof text, "%.*s", (int)len, stated);
        path = text;
    }
    const char *name = name_of_path(path, &len);
    gg_status st = gg_meta_set_str(meta, "general.architecture", class->arch, strlen(class->arch),
                                   err);
    if (st == GG_OK) st = gg_meta_set_str(meta, "general.type", "model", 5, err);
    if (st == GG_OK) st = gg_meta_set_str(meta, "general.name", name, len, err);
    if (st == GG_OK) st = gg_hf_make_keys(config, class->arch, meta, err);
    if (st == GG_OK && gg_hf_is(class->name, GG_HF_SIGMOID_ROUTER) &&
        !gg_hf_field(config, "scoring_func")) {
        snprintf(text, sizeof text, "%s.expert_gating_func", class->arch);
        st = gg_meta_set_u32(meta, text, 2, err);
    }
    return st;
}

/* general.file_type: the type of the first matrix. */
static gg_status type_keys(gg_checkpoint *ck, gg_error *err)
{
    gg_gguf *g = &ck->header;
    uint32_t dtype = GG_F32;
    for (size_t i = 0; i < g->n_tensors && dtype == GG_F32; i++)
        if (g->tensors[i].n_dims > 1) dtype = g->tensors[i].dtype;
    gg_status st = gg_meta_set_u32(&g->meta, "general.file_type",
                                   (uint32_t)gg_dtype_get(dtype)->file_type, err);
    return st == GG_OK ? gg_meta_set_u32(&g->meta, "general.quantization_version", 2, err) : st;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Sets the number of prediction blocks to that of the files, which may lack those that config.json
 * tells of, or have others. */
static gg_status count_predictions(gg_checkpoint *ck, gg_error *err)
{
    gg_meta *meta = &ck->header.meta;
    uint64_t declared = gg_arch_number(meta, "nextn_predict_layers"), trunk = trunk_of(meta), n = 0;
    char key[96];
    for (size_t i = 0; i < ck->in.n; i++) {
        const gg_hf_match m = ck->match[i];
        if (m.mtp && m.rule && (uint64_t)m.block >= n) n = (uint64_t)m.block + 1;
    }
    if (n == declared || n > 1000) return GG_OK;
    snprintf(key, sizeof key, "%s.block_count", ck->arch);
    gg_status st = gg_meta_set_u32(meta, key, (uint32_t)(trunk + n), err);
    snprintf(key, sizeof key, "%s.nextn_predict_layers", ck->arch);
    if (st == GG_OK && n) st = gg_meta_set_u32(meta, key, (uint32_t)n, err);
    else if (st == GG_OK) gg_meta_delete(meta, key);
    return st == GG_OK ? gg_ck_note(ck, false, err,
                                    "config.json declares %llu for multi-token prediction "
                                    "(mtp_num_hidden_layers), but the files have "
                                    "%llu such blocks; the model gets those of the files",
                                    (unsigned long long)declared, (unsigned long long)n)
                       : st;
}

/* Names what belongs to other parts than the language model, and blocks that engines do not have.
 */
static gg_status note_parts(gg_checkpoint *ck, gg_error *err)
{
    enum { PARTS = 8 };
    struct {
        const char *name;
        size_t n;
    } part[PARTS] = { { NULL, 0 } };
    gg_buf text = GG_BUF_INIT;
    uint64_t blocks = gg_arch_number(&ck->header.meta, "block_count");
    bool counted = gg_hf_is(ck->arch, GG_HF_PREDICTIONS); /* count_predictions compares them */
    for (size_t i = 0; i < ck->in.n; i++) {
        const gg_hf_match m = ck->match[i];
        bool beyond = gg_hf_is(ck->arch, GG_HF_DROPS_PREDICTIONS) && (uint64_t)m.block >= blocks &&
                      m.block >= 0;
        const char *name = beyond ? "multi-token prediction" : m.part;
        size_t k = 0;
        if (!name) continue;
        counted = counted || strcmp(name, "multi-token prediction") == 0;
        while (k < PARTS - 1 && part[k].name && strcmp(part[k].name, name) != 0) k++;
        part[k].name = name;
        part[k].n++;
    }
    const gg_json_node *declared = gg_hf_field(gg_json_root(ck->config),
                                               "num_nextn_predict_layers");
    if (!declared) declared = gg_hf_field(gg_json_root(ck->config), "mtp_num_hidden_layers");
    double predicted = 0;
    if (declared) gg_json_f64(declared, &predicted, NULL);
    if (predicted > 0 && !counted)
        gg_ck_note(ck, false, err,
                   "config.json declares %.0f for multi-token prediction, but the files have no "
                   "such blocks",
                   predicted);
    for (size_t k = 0; k < PARTS && part[k].name && err->status == GG_OK; k++)
        gg_buf_printf(&text, err, "%s%zu of %s", k ? ", " : "", part[k].n, part[k].name);
    if (text.len && err->status == GG_OK)
        gg_ck_note(ck, false, err, "tensors that are left out: %s", text.data);
    gg_buf_free(&text);
    return err->status;
}

/* A list of names in a note: the first three of them, and how many more there are. */
typedef struct few_names {
    gg_buf text;
    size_t n;
} few_names;

static gg_status add_few(few_names *few, const char *name, size_t len, const char *why,
                         gg_error *err)
{
    char shown[100];
    if (few->n++ >= 3) return GG_OK;
    gg_escape(name, len < 60 ? len : 60, shown, sizeof shown);
    return gg_buf_printf(&few->text, err, "%s%s (%s)", few->n > 1 ? ", " : "", shown, why);
}

static gg_status end_few(few_names *few, gg_error *err)
{
    return few->n > 3 ? gg_buf_printf(&few->text, err, " and %zu more", few->n - 3) : GG_OK;
}

/* Engines use no F64: a model gets F32. */
static gg_status note_rounding(gg_checkpoint *ck, gg_error *err)
{
    few_names wide = { 0 };
    gg_status st = GG_OK;
    for (size_t i = 0; i < ck->header.n_tensors && st == GG_OK; i++) {
        const gg_ck_tensor *t = &ck->made[i];
        const gg_st_tensor *in = t->n_pieces ? &ck->in.items[t->pieces[0].in] : NULL;
        if (in && in->type == GG_ST_F64 && ck->header.tensors[i].dtype != GG_F64)
            st = add_few(&wide, in->name, in->name_len, in->type_name, err);
    }
    if (st == GG_OK) st = end_few(&wide, err);
    if (st == GG_OK && wide.n)
        st = gg_ck_note(ck, false, err, "values are rounded to F32: %s", wide.text.data);
    gg_buf_free(&wide.text);
    return st;
}

static gg_status map_tensors(gg_checkpoint *ck, uint64_t vocab, gg_error *err)
{
    gg_hf_sizes sizes = gg_hf_sizes_of(&ck->header.meta);
    uint64_t blocks = gg_arch_number(&ck->header.meta, "block_count");
    gg_status st = GG_OK;
    sizes.vocab = vocab;
    for (size_t i = 0; i < ck->in.n && st == GG_OK; i++) {
        bool copied;
        st = is_copied_head(ck, &ck->in.items[i], &copied, err);
        if (st == GG_OK && !copied) st = add_stored(ck, &sizes, blocks, i, err);
    }
    gg_ck_drop_empty(ck);
    for (size_t i = 0; i < ck->header.n_tensors && st == GG_OK; i++) {
        gg_ck_tensor *t = &ck->made[i];
        if (t->hf_name && gg_hf_is_plus_one(ck->arch, t->hf_name, strlen(t->hf_name)))
            t->op = GG_CK_PLUS_ONE;
    }
    return st;
}

/* The GGUF names of a file's tensors, one per line, if they have those of Hugging Face. */
typedef struct own_order {
    bool hf;
    const char *text; /* in the header */
    size_t len;
} own_order;

/* The keys of a file that these tools have written, in its metadata. */
static gg_status stored_keys(gg_checkpoint *ck, const gg_json *header, own_order *order,
                             gg_error *err)
{
    const gg_json_node *metadata = gg_json_get(gg_json_root(header), "__metadata__"),
                       *node = gg_json_get(metadata, "gguf.keys"),
                       *names = gg_json_get(metadata, "gguf.names");
    const char *text;
    size_t len;
    gg_json *keys = NULL;
    *order = (own_order){ .text = "" };
    if (!node) return GG_OK;
    gg_status st = gg_json_string(node, &text, &len, err);
    if (st == GG_OK) st = gg_json_parse(text, len, &keys, err);
    for (const gg_json_node *k = gg_json_first(gg_json_root(keys)); k && st == GG_OK;
         k = gg_json_next(k))
        st = gg_mj_kv(k, &ck->header.meta, err);
    gg_json_free(keys);
    ck->has_keys = true;
    if (st == GG_OK && names) st = gg_json_string(names, &text, &len, err);
    if (st != GG_OK || !names || len != 2 || memcmp(text, "hf", 2) != 0) return st;
    order->hf = true;
    node = gg_json_get(metadata, "gguf.order");
    return node ? gg_json_string(node, &order->text, &order->len, err) : GG_OK;
}

/* Makes room for the tensors in the order of the list. Those that it lacks come last. */
static gg_status order_tensors(gg_checkpoint *ck, const own_order *order, gg_error *err)
{
    size_t most = GG_HF_VIEWS * ck->in.n; /* a stored tensor becomes so many at most */
    for (const char *p = order->text, *end = p + order->len; p < end;) {
        const char *line = memchr(p, '\n', (size_t)(end - p));
        if (!line) line = end;
        if (ck->header.n_tensors >= most) break; /* a list that does not belong to this file */
        if (!gg_ck_tensor_named(ck, p, (size_t)(line - p), err)) return err->status;
        p = line + 1;
    }
    return GG_OK;
}

/* The tensors of a file that these tools have written. */
static gg_status open_own(gg_checkpoint *ck, const own_order *order, gg_error *err)
{
    gg_hf_arch(&ck->header.meta, ck->arch);
    ck->any_type = !order->hf;
    gg_status st = order->hf ? order_tensors(ck, order, err) : GG_OK;
    if (st == GG_OK && order->hf) st = match_names(ck, err);
    if (st == GG_OK && order->hf) st = map_tensors(ck, UINT64_MAX, err);
    for (size_t i = 0; i < ck->in.n && st == GG_OK && !order->hf; i++)
        if (!is_scale_of_f8(ck, &ck->in.items[i])) st = add_unmoved(ck, &ck->in.items[i], err);
    return st == GG_OK ? gg_ck_finish(ck, false, err) : st;
}

/* ---- under stored names ---------------------------------------------------------------------- */

/* Forgets all tensors and keys. */
static void clear_view(gg_checkpoint *ck)
{
    gg_gguf *g = &ck->header;
    for (size_t i = 0; i < g->n_tensors; i++) {
        free(ck->made[i].pieces);
        free(ck->made[i].values);
    }
    gg_text_index_free(&ck->names_made);
    free(g->by_name);
    gg_meta_free(&g->meta);
    g->n_tensors = 0;
    g->by_name = NULL;
    ck->all_f32 = false;
}

/* The texts of __metadata__ as keys. No key is looked up before it is added, since the reader
 * refuses a member that comes twice. */
static gg_status metadata_keys(gg_checkpoint *ck, const gg_json *header, gg_error *err)
{
    const gg_json_node *all = gg_json_get(gg_json_root(header), "__metadata__");
    gg_status st = GG_OK;
    few_names left = { 0 };
    if (all && gg_json_type_of(all) != GG_JSON_OBJECT)
        return gg_ck_note(ck, true, err, "__metadata__ is not a JSON object, and is left out");
    for (const gg_json_node *m = gg_json_first(all); m && st == GG_OK; m = gg_json_next(m)) {
        gg_kv kv = { .type = GG_TYPE_STR, .count = 1 };
        const char *text;
        kv.key = gg_json_key(m, &kv.key_len);
        if (gg_json_type_of(m) != GG_JSON_STRING) {
            char value[80];
            gg_hf_value_text(m, value);
            st = add_few(&left, kv.key, kv.key_len, value, err);
            continue;
        }
        st = gg_json_string(m, &text, &kv.size, err);
        kv.data = (const uint8_t *)text;
        if (st == GG_OK) st = gg_meta_append(&ck->header.meta, &kv, err);
    }
    if (st == GG_OK) st = end_few(&left, err);
    if (st == GG_OK && left.n)
        st = gg_ck_note(ck, true, err, "values of __metadata__ that are not texts are left out: %s",
                        left.text.data);
    gg_buf_free(&left.text);
    return st;
}

/* Shows all tensors under their stored names, with their own types. Those of types without a
 * counterpart, and those that get another type, are named in notes. */
static gg_status open_view(gg_checkpoint *ck, const gg_json *header, gg_error *err)
{
    gg_status st = metadata_keys(ck, header, err);
    few_names left = { 0 }, changed = { 0 };
    bool rounds = false;
    ck->stored = true;
    ck->any_type = true;
    ck->has_keys = true;
    for (size_t i = 0; i < ck->in.n && st == GG_OK; i++) {
        const gg_st_tensor *t = &ck->in.items[i];
        if (is_scale_of_f8(ck, t)) continue;
        bool axes = t->n_dims <= GG_MAX_DIMS;
        if (t->type == GG_ST_OTHER || !axes) {
            st = add_few(&left, t->name, t->name_len, axes ? t->type_name : "too many axes", err);
            continue;
        }
        st = add_unmoved(ck, t, err);
        if (gg_st_dtype(t->type) != GG_DTYPE_COUNT || st != GG_OK) continue;
        rounds = rounds || t->type == GG_ST_U32 || t->type == GG_ST_U64;
        st = add_few(&changed, t->name, t->name_len, t->type_name, err);
    }
    if (st == GG_OK) st = end_few(&left, err);
    if (st == GG_OK) st = end_few(&changed, err);
    if (st == GG_OK && left.n)
        st = gg_ck_note(ck, true, err, "tensors that cannot be read are left out: %s",
                        left.text.data);
    if (st == GG_OK && changed.n)
        st = gg_ck_note(ck, false, err, "tensors of types that GGUF lacks are read as F32: %s%s",
                        changed.text.data, rounds ? "; integers above 2^24 are rounded" : "");
    gg_buf_free(&left.text);
    gg_buf_free(&changed.text);
    return st == GG_OK ? gg_ck_finish(ck, false, err) : st;
}

/* Whether an error says that something cannot be converted, and not that it cannot be read. */
static bool is_about_conversion(const gg_error *err)
{
    return err->status == GG_EUNSUPPORTED || err->status == GG_EFORMAT || err->status == GG_EUSAGE;
}

/* After a conversion that failed, shows the stored tensors. The reason is kept for those who need
 * the keys and tensors of GGUF. */
static gg_status fall_back(gg_checkpoint *ck, const gg_json *header, gg_error *err)
{
    if (!ck->may_store || !is_about_conversion(err)) return err->status;
    char where[200] = "";
    ck->refusal = *err;
    *err = (gg_error)GG_ERROR_INIT;
    clear_view(ck);
    if (ck->notes) ck->notes[ck->file_notes] = 0;
    free(ck->doubt);
    ck->doubt = NULL;
    if (ck->refusal.tensor[0]) snprintf(where, sizeof where, " (tensor '%s')", ck->refusal.tensor);
    gg_status st = gg_ck_note(ck, false, err,
                              "shown under its stored names, because it cannot be "
                              "converted: %s%s",
                              ck->refusal.what, where);
    if (st == GG_OK && !(ck->doubt = strdup("it cannot be converted"))) st = gg_ck_no_room(err);
    return st == GG_OK ? open_view(ck, header, err) : st;
}

/* Adds to a text that config.json names several classes, or a model_type of another architecture
 * than that of the class. */
static gg_status add_other_classes(const gg_json_node *config, const char *arch, gg_buf *to,
                                   gg_error *err)
{
    const gg_hf_class *other = class_of_type(config);
    size_t n = gg_json_count(gg_json_get(config, "architectures"));
    char type[80];
    if (n > 1)
        gg_buf_printf(to, err, "%sarchitectures names %zu classes, of which the first is taken",
                      to->len ? ", " : "", n);
    if (other && strcmp(other->arch, arch) != 0) {
        gg_hf_value_text(gg_json_get(config, "model_type"), type);
        gg_buf_printf(to, err, "%smodel_type = %s is of the architecture %s, but the class of %s",
                      to->len ? ", " : "", type, other->arch, arch);
    }
    return err->status;
}

/* Compares config.json and its quantization_config with their tables. */
static gg_status check_config(gg_checkpoint *ck, gg_error *err)
{
    const gg_json_node *config = gg_json_root(ck->config);
    gg_buf twice = GG_BUF_INIT;
    gg_status st = gg_hf_contradictions(config, ck->arch, &twice, err);
    if (st == GG_OK) st = add_other_classes(config, ck->arch, &twice, err);
    if (st == GG_OK && twice.len)
        st = gg_ck_note(ck, true, err, "config.json contradicts itself: %s", twice.data);
    gg_buf_free(&twice);
    if (st == GG_OK)
        st = gg_ck_check_fields(ck, &(gg_fields){ gg_config_fields, ck->arch, true, "config.json" },
                                config, err);
    config = gg_hf_field(config, "quantization_config");
    if (st == GG_OK && config)
        st = gg_ck_check_fields(
            ck, &(gg_fields){ gg_quantization_fields, ck->arch, false, "quantization_config" },
            config, err);
    return st;
}

/* The rows and columns that share a scale: two numbers, or a text such as "128x128". */
static gg_status read_block_size(gg_checkpoint *ck, const gg_json_node *how, gg_error *err)
{
    const char *name = "weight_block_size", *text;
    const gg_json_node *block = gg_json_get(how, name),
                       *groups = gg_json_first(gg_json_get(how, "config_groups"));
    char value[80];
    int end = 0;
    size_t len;
    if (gg_json_type_of(block) == GG_JSON_NULL) block = NULL;
    if (!block) block = gg_json_get(gg_json_get(groups, "weights"), name = "block_structure");
    if (!block || gg_json_type_of(block) == GG_JSON_NULL) return GG_OK;
    gg_hf_value_text(block, value);
    const gg_json_node *rows = gg_json_first(block), *columns = gg_json_next(rows);
    if (gg_json_string(block, &text, &len, NULL) == GG_OK) {
        unsigned long long n[2];
        if (sscanf(value, "%9llux%9llu%n", &n[0], &n[1], &end) == 2 && value[end] == '\0')
            ck->block[0] = n[0], ck->block[1] = n[1];
    } else if (gg_json_count(block) == 2 && gg_json_u64(rows, &ck->block[0], NULL) == GG_OK) {
        gg_json_u64(columns, &ck->block[1], NULL);
    }
    if (ck->block[0] && ck->block[1]) return GG_OK;
    return gg_fail(err, GG_EUNSUPPORTED,
                   "quantization_config has %s = %s, which must be two numbers above 0", name,
                   value);
}

/* Makes the keys, unless the weights are quantized in a way that is not read. */
static gg_status open_keys(gg_checkpoint *ck, const char *folder, gg_error *err)
{
    bool by_type = false;
    const gg_st_tensor *quantized = NULL;
    const gg_json_node *root = gg_json_root(ck->config),
                       *how = gg_hf_field(root, "quantization_config");
    const gg_hf_class *class = gg_ck_class(root, &by_type, err);
    gg_status st = class ? read_block_size(ck, how, err) : err->status;
    if (st == GG_OK && by_type)
        st = gg_ck_note(ck, false, err,
                        "config.json does not name the class; model_type decides: %s", class->name);
    if (!how) how = gg_hf_field(root, "compression_config");
    if (st == GG_OK && gg_hf_refuse_quantized(&ck->in, how, &quantized, err) != GG_OK)
        return at_stored(ck, quantized, err);
    return st == GG_OK ? gg_ck_keys(root, class, folder, &ck->header.meta, err) : st;
}

/* MLX stores the norms of these architectures with 1 added, and the conversion would add it again.
 * Its convolutions, whose kernel is not the last dimension, tell its checkpoints from others. */
static gg_status refuse_mlx(gg_checkpoint *ck, gg_error *err)
{
    for (size_t i = 0; gg_hf_is(ck->arch, GG_HF_LINEAR_BLOCKS) && i < ck->in.n; i++) {
        const gg_st_tensor *t = &ck->in.items[i];
        if (!gg_text_ends(t->name, t->name_len, "linear_attn.conv1d.weight") || t->n_dims != 3 ||
            t->dims[1] == 1 || t->dims[2] != 1)
            continue;
        return gg_ck_refuse(
            ck, t, GG_EUNSUPPORTED, "convert the checkpoint that MLX converted", err,
            "the checkpoint has the layout of MLX, whose norms have other values for this "
            "architecture");
    }
    return GG_OK;
}

/* Makes the keys and tensors of a model of Hugging Face. */
static gg_status open_model(gg_checkpoint *ck, const char *folder, const char *pre, gg_error *err)
{
    gg_status st = open_keys(ck, folder, err);
    if (st != GG_OK) return st;
    ck->has_keys = true;
    gg_hf_arch(&ck->header.meta, ck->arch);
    uint64_t tokens = UINT64_MAX;
    if (gg_hf_is(ck->arch, GG_HF_SPARE_ROWS)) st = count_tokens(ck, folder, &tokens, err);
    if (st == GG_OK) st = check_config(ck, err);
    if (st == GG_OK) st = refuse_mlx(ck, err);
    if (st == GG_OK) st = add_rope_tensors(ck, err);
    if (st == GG_OK) st = match_names(ck, err);
    if (st == GG_OK) st = count_predictions(ck, err);
    if (st == GG_OK) st = map_tensors(ck, tokens, err);
    if (st == GG_OK) st = note_parts(ck, err);
    if (st == GG_OK) st = check_head(ck, err);
    if (st == GG_OK) st = check_vocab_size(ck, err);
    if (st == GG_OK) st = gg_ck_finish(ck, true, err);
    if (st == GG_OK) st = check_flags(ck, err);
    if (st == GG_OK) st = note_rounding(ck, err);
    if (st == GG_OK) st = type_keys(ck, err);
    return st == GG_OK ? read_tokenizer(ck, folder, pre, err) : st;
}

/* Whether the open file has LoRA pairs: of PEFT, of MLX, or for image models. */
static bool has_pairs(const gg_checkpoint *ck)
{
    for (size_t i = 0; i < ck->in.n; i++) {
        const gg_st_tensor *t = &ck->in.items[i];
        if (strstr(t->name, ".lora_A.") || strstr(t->name, ".lora_B.") ||
            gg_hf_ends_with(gg_hf_pair_ends, t->name, t->name_len))
            return true;
    }
    return false;
}

/* Makes the tensors of an adapter. A file of these tools keeps types, order and keys, except for
 * those that adapter_config.json gives. */
static gg_status open_pairs(gg_checkpoint *ck, const char *path, const own_order *order,
                            const gg_source_options *o, gg_error *err)
{
    ck->all_f32 = !order->hf;
    gg_status st = order->hf ? order_tensors(ck, order, err) : GG_OK;
    return st == GG_OK ? gg_peft_open(ck, path, gg_json_root(ck->config), o, err) : st;
}

/* What the stored tensors are: chooses the form of a file that is alone. */
static gg_status choose_view(gg_checkpoint *ck, const char *path, const gg_source_options *o,
                             gg_json *header, gg_error *err)
{
    own_order order;
    gg_status st = stored_keys(ck, header, &order, err);
    bool config = ck->config && ck->form == GG_HF_MODEL;
    if (st != GG_OK) return st;
    ck->adapter = ck->form == GG_HF_PEFT || ck->form == GG_HF_MLX || (!config && has_pairs(ck));
    if (ck->adapter && (!ck->has_keys || order.hf)) {
        st = open_pairs(ck, path, &order, o, err);
    } else if (config && !ck->has_keys) {
        st = open_model(ck, path, o->pre, err);
    } else if (ck->has_keys) {
        return open_own(ck, &order, err);
    } else {
        if (ck->form == GG_HF_MODEL && gg_hf_has_file(path, GG_HF_MISTRAL, err)) {
            gg_fail(err, GG_EUNSUPPORTED,
                    "this is a model in the format of Mistral (params.json), without config.json");
            gg_fix(err, "take its files in the format of transformers, or convert it with "
                        "convert_hf_to_gguf.py of llama.cpp, which reads this format too");
        } else {
            gg_fail(err, GG_EUNSUPPORTED,
                    "a safetensors file without config.json has no keys of a model");
            gg_fix(err, "write it as safetensors, or put the model's config.json beside it");
        }
        gg_at_file(err, path);
        ck->refusal = *err;
        *err = (gg_error)GG_ERROR_INIT;
        st = open_view(ck, header, err);
        ck->has_keys = ck->may_store;
        return st;
    }
    if (st == GG_OK) return GG_OK;
    st = fall_back(ck, header, err);
    return st == GG_OK && ck->adapter ? gg_peft_stored_keys(ck, gg_json_root(ck->config), err) : st;
}

/* Opens a folder of that form, or only a file of it, or a file that is alone. */
static gg_status open_path(gg_checkpoint *ck, const char *path, const char *only,
                           const gg_source_options *o, gg_error *err)
{
    static const char *const configs[GG_HF_FORMS] = { [GG_HF_MODEL] = GG_HF_CONFIG,
                                                      [GG_HF_PEFT] = GG_HF_ADAPTER_CONFIG,
                                                      [GG_HF_MLX] = GG_HF_ADAPTER_CONFIG };
    const char *config = configs[ck->form];
    gg_json *header = NULL;
    gg_status st = GG_OK;
    if (config && gg_hf_has_file(path, config, err)) gg_hf_parse(path, config, &ck->config, err);
    st = err->status;
    if (st == GG_OK && ck->form != GG_HF_FILE) st = open_files(ck, path, only, &header, err);
    else if (st == GG_OK && (st = open_stored(ck, path, &header, err)) == GG_OK)
        st = index_stored(ck, err);
    if (st == GG_OK && ck->form == GG_HF_MODEL && gg_hf_form_of(path, true, err) != GG_HF_MODEL &&
        (gg_hf_has_file(path, "adapter_model.safetensors", err) ||
         gg_hf_has_file(path, "adapters.safetensors", err)))
        st = gg_ck_note(ck, false, err,
                        "the folder has a model and an adapter; this is the model, and the "
                        "adapter's safetensors file names the other");
    if (st == GG_OK) st = choose_view(ck, path, o, header, err);
    gg_json_free(header);
    return st;
}

/* The folder of a file; malloc'd. */
static char *folder_of_file(const char *path, const char **base)
{
    const char *slash = strrchr(path, '/');
    *base = slash ? slash + 1 : path;
    return !slash          ? strdup(".")
           : slash == path ? strdup("/")
                           : strndup(path, (size_t)(slash - path));
}

/* The form of a file: it may stand for the folder that it is in. */
static gg_hf_form form_of_file(const char *folder, const char *base, gg_error *err)
{
    if (gg_hf_is_adapter(base) && gg_hf_has_file(folder, GG_HF_ADAPTER_CONFIG, err))
        return gg_hf_form_of(folder, true, err);
    bool model = strncmp(base, "model", 5) == 0 && (gg_hf_has_file(folder, GG_HF_CONFIG, err) ||
                                                    gg_hf_has_file(folder, GG_HF_INDEX, err));
    return model ? GG_HF_MODEL : GG_HF_FILE;
}

gg_status gg_checkpoint_open(const char *path, const gg_source_options *o, gg_checkpoint **out,
                             gg_error *err)
{
    struct stat s;
    const char *base = NULL;
    gg_checkpoint *ck = calloc(1, sizeof *ck);
    if (!ck) return gg_ck_no_room(err);
    ck->no_tokenizer = (gg_error)GG_ERROR_INIT;
    ck->header.version = 3;
    ck->header.alignment = GG_DEFAULT_ALIGNMENT;
    ck->may_store = o->stored_names;
    bool is_folder = gg_stat(path, &s, err) && S_ISDIR(s.st_mode);
    char *folder = is_folder ? strdup(path) : folder_of_file(path, &base);
    gg_status st = folder ? err->status : gg_ck_no_room(err);
    if (st == GG_OK) st = gg_ck_list_beside(ck, folder, err);
    if (st == GG_OK) {
        ck->form = is_folder ? gg_hf_form_of(path, false, err) : form_of_file(folder, base, err);
        bool index = base && strcmp(base, GG_HF_INDEX) == 0;
        st = err->status;
        if (st == GG_OK)
            st = open_path(ck, ck->form == GG_HF_FILE ? path : folder, index ? NULL : base, o, err);
    }
    free(folder);
    if (st == GG_OK) {
        *out = ck;
        return GG_OK;
    }
    gg_checkpoint_close(ck);
    return gg_at_file(err, path);
}

void gg_checkpoint_close(gg_checkpoint *ck)
{
    if (!ck) return;
    for (size_t i = 0; i < ck->n_files; i++) {
        close(ck->files[i].fd);
        free(ck->files[i].path);
    }
    for (size_t i = 0; i < ck->n_others; i++) free(ck->others[i].path);
    free(ck->others);
    for (size_t i = 0; i < ck->header.n_tensors; i++) {
        free(ck->made[i].pieces);
        free(ck->made[i].values);
    }
    free(ck->made);
    gg_text_index_free(&ck->names_made);
    free(ck->header.tensors);
    free(ck->header.by_name);
    gg_meta_free(&ck->header.meta);
    gg_names_free(&ck->names);
    gg_names_free(&ck->in.names);
    free(ck->files);
    free(ck->in.items);
    free(ck->by_name);
    free(ck->match);
    free(ck->notes);
    free(ck->doubt);
    free(ck->beside);
    free(ck->order);
    gg_json_free(ck->config);
    free(ck);
}
