/* hf_names.c - the plan edit that writes a model under the names of Hugging Face, and the index of
 * several .safetensors files. */
#include "hf_names.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/output.h"
#include "organ/source_layout.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Writes a text file; an existing one must be allowed to be replaced. */
static gg_status write_text(const gg_run *run, const char *path, const char *text, size_t len,
                            gg_error *err)
{
    gg_output *file = NULL;
    gg_status st = gg_output_open(path, run->force, &file, err);
    if (st == GG_OK) st = gg_write_all(gg_output_fd(file), text, len, err);
    if (st == GG_OK) st = gg_output_commit(file, err);
    else gg_output_abort(file);
    return st == GG_OK ? GG_OK : gg_at_file(err, path);
}

/* OUTPUT.index.json, malloc'd. */
static char *index_of_output(const char *output, gg_error *err)
{
    size_t size = strlen(output) + sizeof ".index.json";
    char *path = malloc(size);
    if (path) snprintf(path, size, "%s.index.json", output);
    else gg_fail(err, GG_ENOMEM, "no memory for a path");
    return path;
}

gg_status gg_refuse_old_index(const char *output, gg_error *err)
{
    struct stat s;
    char *path = index_of_output(output, err);
    if (path && gg_stat(path, &s, err)) {
        gg_fail(err, GG_EUSAGE, "the shards of this index would be read in place of the new file");
        gg_fix(err, "remove it, or choose another folder");
        gg_at_file(err, path);
    }
    free(path);
    return err->status;
}

gg_status gg_write_index(const gg_plan *p, const char *output, const gg_run *run, gg_error *err)
{
    gg_buf text = GG_BUF_INIT;
    gg_json_out out = gg_json_to_buf(&text);
    uint64_t total = 0;
    char *path = index_of_output(output, err);
    if (!path) return err->status;
    for (size_t i = 0; i < p->n; i++) total += p->tensors[i].t.bytes;
    gg_buf_printf(&text, err, "{\n  \"metadata\": {\"total_size\": %llu},\n  \"weight_map\": {",
                  (unsigned long long)total);
    for (size_t f = 0; f < p->n_files; f++) {
        const gg_plan_file *pf = &p->files[f];
        const char *name = strrchr(pf->path, '/');
        name = name ? name + 1 : pf->path;
        for (size_t i = pf->first; i < pf->first + pf->n && err->status == GG_OK; i++) {
            const gg_tensor *t = &p->tensors[i].t;
            gg_json_put_text(&out, i ? ",\n    " : "\n    ", err);
            gg_json_put_string(&out, t->name, t->name_len, err);
            gg_json_put_text(&out, ": ", err);
            gg_json_put_string(&out, name, strlen(name), err);
        }
    }
    if (err->status == GG_OK) gg_buf_text(&text, "\n  }\n}\n", err);
    if (err->status == GG_OK) write_text(run, path, text.data, text.len, err);
    gg_buf_free(&text);
    free(path);
    return err->status;
}

/* Writes config.json or adapter_config.json beside a file with the name that a checkpoint or an
 * adapter has. An existing config.json, which may say more, is kept unless it may be replaced. An
 * adapter_config.json is never kept, because its alpha and ranks would be those of the new file. */
static gg_status write_config(void *ctx, const char *output, const gg_run *run, gg_error *err)
{
    struct stat s;
    gg_hf_beside beside = gg_source_hf_beside(((gg_hf_names *)ctx)->named);
    const char *slash = strrchr(output, '/'), *base = slash ? slash + 1 : output;
    int folder = (int)(base - output);
    bool model = strcmp(base, "model.safetensors") == 0;
    if (!model && strcmp(base, "adapter_model.safetensors") != 0) return GG_OK;
    size_t size = (size_t)folder + strlen(beside.name) + 1;
    char *path = malloc(size);
    if (!path) return gg_fail(err, GG_ENOMEM, "no memory for a path");
    snprintf(path, size, "%.*s%s", folder, output, beside.name);
    if (model && !run->force && gg_stat(path, &s, err)) {
        gg_note(run, "%s exists and is kept", path);
    } else {
        if (beside.note[0]) gg_note(run, "%s", beside.note);
        write_text(run, path, beside.text, strlen(beside.text), err);
    }
    free(path);
    return err->status;
}

/* ---- the edit ------------------------------------------------------------------------------ */

static gg_status show_names(void *ctx, gg_source *of, bool typed, const char *output,
                            gg_source **out, gg_error *err)
{
    gg_hf_names *h = ctx;
    gg_status st = gg_source_hf_open(of, h->base, typed, out, err);
    if (st != GG_OK) return st;
    h->named = *out;
    const char *slash = output ? strrchr(output, '/') : NULL;
    if (!slash || slash == output) return GG_OK;
    char *folder = strndup(output, (size_t)(slash - output));
    st = folder ? gg_output_folder(folder, err) : gg_fail(err, GG_ENOMEM, "no memory for a path");
    free(folder);
    return st;
}

gg_plan_edit gg_hf_names_edit(gg_hf_names *h)
{
    return (gg_plan_edit){ .ctx = h, .names = show_names, .after = write_config };
}
