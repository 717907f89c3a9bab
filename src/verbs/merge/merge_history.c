/* merge_history.c - stores the origin of a merged model in its keys, and writes a model card. */
#include "merge_history.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/parallel.h"
#include "gguf/gguf.h"
#include "organ/source_layout.h"
#include "verbs/shared/copy.h"
#include "verbs/shared/verb_run.h"
#include "json/json.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- hashes ---------------------------------------------------------------------------- */

static gg_merge_model *model_at(gg_merge_models *m, size_t i)
{
    return i < m->n ? &m->list[i] : &m->base;
}

/* Split models, directories and pipes have no file with a hash of its own. */
static gg_status hash_model(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    gg_merge_model *m = model_at(ctx, i);
    const gg_model *files = m->source ? gg_source_model(m->source) : NULL;
    (void)worker;
    if (!files || files->n_files != 1 || strcmp(m->path, "-") == 0) return GG_OK;
    int fd = open(files->paths[0], O_RDONLY | O_CLOEXEC);
    if (fd < 0) return gg_at_file((gg_fail_errno(err, "cannot open it"), err), m->path);
    gg_status st = gg_file_sha256(fd, 0, files->file_sizes[0], m->sha256, NULL, err);
    close(fd);
    return st == GG_OK ? GG_OK : gg_at_file(err, m->path);
}

gg_status gg_merge_hash(gg_merge_models *models, const gg_run *run, gg_error *err)
{
    return gg_parallel(models->n + 1, run->threads, hash_model, models, err);
}

/* ---- names ----------------------------------------------------------------------------- */

/* The general.name of a model, or the last part of its path. */
static void name_of(const gg_merge_model *m, const char **name, size_t *len)
{
    const char *slash = strrchr(m->path, '/');
    if (gg_kv_str(gg_meta_find(gg_source_meta(m->source), "general.name"), name, len) && *len)
        return;
    *name = slash && slash[1] ? slash + 1 : m->path;
    *len = strlen(*name);
}

void gg_merge_model_name(const gg_merge_model *m, char out[GG_MERGE_NAME + 1])
{
    const char *name;
    size_t len;
    name_of(m, &name, &len);
    snprintf(out, GG_MERGE_NAME + 1, "%.*s", (int)(len < GG_MERGE_NAME ? len : GG_MERGE_NAME),
             name);
}

static gg_status append_name(gg_buf *b, const gg_merge_model *m, gg_error *err)
{
    const char *name;
    size_t len;
    name_of(m, &name, &len);
    return gg_buf_append(b, name, len, err);
}

/* "Verse + Code (ties)" */
static gg_status title(const gg_merge_models *m, const gg_merge_method *method, gg_buf *b,
                       gg_error *err)
{
    bool lead = m->base.path && method->base == GG_MERGE_BASE_FIRST;
    gg_status st = lead ? append_name(b, &m->base, err) : GG_OK;
    for (size_t i = 0; i < m->n && st == GG_OK; i++) {
        if (b->len) st = gg_buf_text(b, " + ", err);
        if (st == GG_OK) st = append_name(b, &m->list[i], err);
    }
    return st == GG_OK ? gg_buf_printf(b, err, " (%s)", method->name) : st;
}

/* ---- keys ------------------------------------------------------------------------------- */

typedef enum column { COLUMN_NAME, COLUMN_SHA256, COLUMN_PARAMETERS } column;

static void cell(const gg_merge_model *m, column c, const char **text, size_t *len)
{
    if (c == COLUMN_NAME) {
        name_of(m, text, len);
        return;
    }
    *text = c == COLUMN_SHA256 ? m->sha256 : m->text;
    *len = strlen(*text);
}

/* Sets an array of strings with one item per model. */
static gg_status set_column(gg_meta *meta, const char *key, const gg_merge_models *m, column c,
                            gg_error *err)
{
    gg_buf b = GG_BUF_INIT;
    gg_status st = GG_OK;
    for (size_t i = 0; i < m->n && st == GG_OK; i++) {
        const char *text;
        size_t len;
        uint8_t le[8];
        cell(&m->list[i], c, &text, &len);
        for (unsigned k = 0; k < 8; k++) le[k] = (uint8_t)((uint64_t)len >> (8 * k));
        st = gg_buf_append(&b, le, sizeof le, err);
        if (st == GG_OK) st = gg_buf_append(&b, text, len, err);
    }
    gg_kv kv = { key, strlen(key), GG_TYPE_ARR, GG_TYPE_STR, m->n, (const uint8_t *)b.data, b.len };
    if (st == GG_OK) st = gg_meta_set(meta, &kv, err);
    gg_buf_free(&b);
    return st;
}

static gg_status set_text(gg_meta *meta, const char *key, const char *text, gg_error *err)
{
    return gg_meta_set_str(meta, key, text, strlen(text), err);
}

static void delete_old(gg_meta *meta)
{
    static const char *const keys[] = {
        "organ.merge.method",        "organ.merge.parameters",
        "organ.merge.seed",          "organ.merge.base",
        "organ.merge.base.sha256",   "organ.merge.models",
        "organ.merge.models.sha256", "organ.merge.models.parameters",
        "organ.merge.aligned",       "organ.merge.embeddings_from_base",
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) gg_meta_delete(meta, keys[i]);
}

static gg_status set_base(const gg_merge_models *models, gg_meta *meta, gg_error *err)
{
    const char *name;
    size_t len;
    if (!models->base.path) return GG_OK;
    name_of(&models->base, &name, &len);
    gg_status st = gg_meta_set_str(meta, "organ.merge.base", name, len, err);
    if (st != GG_OK || !models->base.sha256[0]) return st;
    return set_text(meta, "organ.merge.base.sha256", models->base.sha256, err);
}

gg_status gg_merge_history_keys(const gg_merge_models *models, const gg_merging *m,
                                const gg_merge_options *o, gg_meta *meta, gg_error *err)
{
    gg_buf name = GG_BUF_INIT;
    char seed[64];
    delete_old(meta);
    gg_status st = title(models, m->method, &name, err);
    if (st == GG_OK) st = gg_meta_set_str(meta, "general.name", name.data, name.len, err);
    gg_buf_free(&name);
    if (st == GG_OK) st = set_text(meta, "organ.merge.method", m->method->name, err);
    if (st == GG_OK) st = set_text(meta, "organ.merge.parameters", models->parameters, err);
    snprintf(seed, sizeof seed, "organ.merge.seed=u64:%llu", (unsigned long long)m->seed);
    if (st == GG_OK && m->method->random) st = gg_meta_set_text(meta, seed, err);
    if (st == GG_OK && o->align) st = gg_meta_set_text(meta, "organ.merge.aligned=bool:true", err);
    if (st == GG_OK && o->embeddings_from_base)
        st = gg_meta_set_text(meta, "organ.merge.embeddings_from_base=bool:true", err);
    if (st == GG_OK) st = set_base(models, meta, err);
    if (st == GG_OK) st = set_column(meta, "organ.merge.models", models, COLUMN_NAME, err);
    if (st == GG_OK)
        st = set_column(meta, "organ.merge.models.parameters", models, COLUMN_PARAMETERS, err);
    if (st != GG_OK || o->no_hash) return st;
    return set_column(meta, "organ.merge.models.sha256", models, COLUMN_SHA256, err);
}

/* ---- parameters --------------------------------------------------------------------------- */

void gg_merge_job_text(const gg_merge_job *j, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < j->method->n_takes && at < size; i++) {
        gg_merge_param p = j->method->takes[i].param;
        size_t values = 1;
        for (size_t k = 1; k < j->n; k++)
            if (j->p[k][p] != j->p[0][p]) values = j->n;
        at += (size_t)snprintf(out + at, size - at, "%s%s=", i ? " " : "", gg_merge_param_name(p));
        for (size_t k = 0; k < values && at < size; k++) {
            char number[32];
            gg_format_f64(j->p[k][p], number);
            at += (size_t)snprintf(out + at, size - at, "%s%s", k ? "," : "", number);
        }
    }
}

/* ---- the card ----------------------------------------------------------------------------- */

/* Text in a table of Markdown: without line breaks and bars. */
static gg_status put_cell(gg_buf *b, const char *text, size_t len, gg_error *err)
{
    char safe[400];
    gg_escape(text, len < 90 ? len : 90, safe, sizeof safe);
    for (char *p = safe; *p; p++)
        if (*p == '|' || *p == '`') *p = '/';
    return gg_buf_text(b, safe, err);
}

static gg_status put_row(gg_buf *b, const gg_merge_model *m, const char *role, gg_error *err)
{
    const char *name;
    size_t len;
    gg_status st = gg_buf_printf(b, err, "| %s | ", role);
    name_of(m, &name, &len);
    if (st == GG_OK) st = put_cell(b, name, len, err);
    if (st == GG_OK) st = gg_buf_text(b, " | ", err);
    if (st == GG_OK && m->text) st = put_cell(b, m->text, strlen(m->text), err);
    return st == GG_OK ? gg_buf_printf(b, err, " | %s |\n", m->sha256) : st;
}

static gg_status card_text(const gg_merge_models *models, const gg_merging *m,
                           const gg_merge_report *report, gg_buf *b, gg_error *err)
{
    const char *parameters = models->parameters;
    gg_status st = gg_buf_text(b, "# ", err);
    if (st == GG_OK) st = title(models, m->method, b, err);
    if (st == GG_OK)
        st = gg_buf_printf(b, err, "\n\nThis model was merged with organ-merge.\n\nMethod: %s",
                           m->method->name);
    if (st == GG_OK && parameters[0]) st = gg_buf_text(b, " with ", err);
    if (st == GG_OK) st = put_cell(b, parameters, strlen(parameters), err);
    if (st == GG_OK && m->method->random)
        st = gg_buf_printf(b, err, ", seed %llu", (unsigned long long)m->seed);
    if (st == GG_OK)
        st = gg_buf_printf(b, err,
                           ". %zu tensors were merged and %zu copied.\n\n"
                           "| role | model | parameters | sha256 |\n|---|---|---|---|\n",
                           report->merged, report->copied);
    if (st == GG_OK && models->base.path) st = put_row(b, &models->base, "base", err);
    for (size_t i = 0; i < models->n && st == GG_OK; i++)
        st = put_row(b, &models->list[i], "model", err);
    return st;
}

gg_status gg_merge_card(const gg_merge_models *models, const gg_merging *m,
                        const gg_merge_report *report, int fd, gg_error *err)
{
    gg_buf b = GG_BUF_INIT;
    gg_status st = card_text(models, m, report, &b, err);
    if (st == GG_OK) st = gg_pwrite_all(fd, b.data, b.len, 0, err);
    gg_buf_free(&b);
    return st;
}
