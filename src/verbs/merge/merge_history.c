/* merging.history.c - stores the origin of a merged model in its keys, reads them again, and writes
 * a model card. */
#include "merging.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/io.h"
#include "base/parallel.h"
#include "gguf/gguf.h"
#include "organ/source_layout.h"
#include "verbs/shared/copy.h"
#include "verbs/shared/keys.h"
#include "verbs/shared/verb_run.h"
#include "json/json.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- hashes ---------------------------------------------------------------------------- */

static gg_merge_member *model_at(gg_merge_members *m, size_t i)
{
    return i < m->n ? &m->list[i] : &m->base;
}

/* Split models, directories and pipes have no file with a hash of its own. */
static gg_status hash_model(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    gg_merge_member *m = model_at(ctx, i);
    const gg_model *files = m->source ? gg_source_model(m->source) : NULL;
    (void)worker;
    if (!files || files->n_files != 1 || strcmp(gg_source_name(m->source), "-") == 0) return GG_OK;
    int fd = open(files->paths[0], O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return gg_at_file((gg_fail_errno(err, "cannot open it"), err), gg_source_name(m->source));
    gg_status st = gg_file_sha256(fd, 0, files->file_sizes[0], m->sha256, NULL, err);
    close(fd);
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(m->source));
}

gg_status gg_merge_hash(gg_merge_members *members, const gg_run *run, gg_error *err)
{
    return gg_parallel(members->n + 1, run->threads, hash_model, members, err);
}

/* ---- names ----------------------------------------------------------------------------- */

/* The general.name of a model, or the last part of its path. */
static void name_of(const gg_source *s, const char **name, size_t *len)
{
    const char *path = gg_source_name(s), *slash = strrchr(path, '/');
    if (gg_kv_str(gg_meta_find(gg_source_meta(s), "general.name"), name, len) && *len) return;
    *name = slash && slash[1] ? slash + 1 : path;
    *len = strlen(*name);
}

void gg_merge_model_name(const gg_source *s, char out[GG_MERGE_NAME + 1])
{
    const char *name;
    size_t len;
    name_of(s, &name, &len);
    snprintf(out, GG_MERGE_NAME + 1, "%.*s", (int)(len < GG_MERGE_NAME ? len : GG_MERGE_NAME),
             name);
}

static gg_status append_name(gg_buf *b, const gg_merge_member *m, gg_error *err)
{
    const char *name;
    size_t len;
    name_of(m->source, &name, &len);
    return gg_buf_append(b, name, len, err);
}

/* "Verse + Code (ties)" */
static gg_status put_title(const gg_merge_members *m, const gg_merge_method *method, gg_buf *b,
                           gg_error *err)
{
    bool lead = m->base.source && method->base == GG_MERGE_BASE_FIRST;
    gg_status st = lead ? append_name(b, &m->base, err) : GG_OK;
    for (size_t i = 0; i < m->n && st == GG_OK; i++) {
        if (b->len) st = gg_buf_text(b, " + ", err);
        if (st == GG_OK) st = append_name(b, &m->list[i], err);
    }
    return st == GG_OK ? gg_buf_printf(b, err, " (%s)", method->name) : st;
}

/* ---- keys ------------------------------------------------------------------------------- */

typedef enum column { COLUMN_NAME, COLUMN_SHA256, COLUMN_PARAMETERS } column;

static void column_text(const gg_merge_member *m, column c, const char **text, size_t *len)
{
    if (c == COLUMN_NAME) {
        name_of(m->source, text, len);
        return;
    }
    *text = c == COLUMN_SHA256 ? m->sha256 : m->text ? m->text : "";
    *len = strlen(*text);
}

/* Sets an array of strings with one item per model. */
static gg_status set_column(gg_meta *meta, const char *key, const gg_merge_members *m, column c,
                            gg_error *err)
{
    gg_buf b = GG_BUF_INIT;
    gg_status st = GG_OK;
    for (size_t i = 0; i < m->n && st == GG_OK; i++) {
        const char *text;
        size_t len;
        uint8_t le[8];
        column_text(&m->list[i], c, &text, &len);
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

static const char *parameters_of(const gg_merge_members *m)
{
    return m->slices ? m->slices : m->parameters ? m->parameters : "";
}

static void delete_history(gg_meta *meta)
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

static gg_status set_base(const gg_merge_members *members, gg_meta *meta, gg_error *err)
{
    const char *name;
    size_t len;
    if (!members->base.source) return GG_OK;
    name_of(members->base.source, &name, &len);
    gg_status st = gg_meta_set_str(meta, "organ.merge.base", name, len, err);
    if (st != GG_OK || !members->base.sha256[0]) return st;
    return set_text(meta, "organ.merge.base.sha256", members->base.sha256, err);
}

gg_status gg_merge_history_keys(const gg_merge_members *members, const gg_merging *m,
                                const gg_merge_options *o, gg_meta *meta, gg_error *err)
{
    gg_buf name = GG_BUF_INIT;
    char seed[64];
    delete_history(meta);
    gg_status st = put_title(members, m->method, &name, err);
    if (st == GG_OK) st = gg_meta_set_str(meta, "general.name", name.data, name.len, err);
    gg_buf_free(&name);
    if (st == GG_OK) st = set_text(meta, "organ.merge.method", m->method->name, err);
    if (st == GG_OK) st = set_text(meta, "organ.merge.parameters", parameters_of(members), err);
    snprintf(seed, sizeof seed, "organ.merge.seed=u64:%llu", (unsigned long long)m->seed);
    if (st == GG_OK && m->method->random) st = gg_meta_set_text(meta, seed, err);
    if (st == GG_OK && o->align) st = gg_meta_set_text(meta, "organ.merge.aligned=bool:true", err);
    if (st == GG_OK && o->embeddings_from_base)
        st = gg_meta_set_text(meta, "organ.merge.embeddings_from_base=bool:true", err);
    if (st == GG_OK) st = set_base(members, meta, err);
    if (st == GG_OK) st = set_column(meta, "organ.merge.models", members, COLUMN_NAME, err);
    if (st == GG_OK)
        st = set_column(meta, "organ.merge.models.parameters", members, COLUMN_PARAMETERS, err);
    if (st != GG_OK || o->no_hash) return st;
    return set_column(meta, "organ.merge.models.sha256", members, COLUMN_SHA256, err);
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

static gg_status put_row(gg_buf *b, const gg_merge_member *m, const char *role, gg_error *err)
{
    const char *name;
    size_t len;
    gg_status st = gg_buf_printf(b, err, "| %s | ", role);
    name_of(m->source, &name, &len);
    if (st == GG_OK) st = put_cell(b, name, len, err);
    if (st == GG_OK) st = gg_buf_text(b, " | ", err);
    if (st == GG_OK && m->text) st = put_cell(b, m->text, strlen(m->text), err);
    return st == GG_OK ? gg_buf_printf(b, err, " | %s |\n", m->sha256) : st;
}

static gg_status card_text(const gg_merge_members *members, const gg_merging *m,
                           const gg_merge_report *report, gg_buf *b, gg_error *err)
{
    const char *parameters = parameters_of(members);
    gg_status st = gg_buf_text(b, "# ", err);
    if (st == GG_OK) st = put_title(members, m->method, b, err);
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
    if (st == GG_OK && members->base.source) st = put_row(b, &members->base, "base", err);
    for (size_t i = 0; i < members->n && st == GG_OK; i++)
        st = put_row(b, &members->list[i], "model", err);
    return st;
}

gg_status gg_merge_card(const gg_merge_members *members, const gg_merging *m,
                        const gg_merge_report *report, int fd, gg_error *err)
{
    gg_buf b = GG_BUF_INIT;
    gg_status st = card_text(members, m, report, &b, err);
    if (st == GG_OK) st = gg_pwrite_all(fd, b.data, b.len, 0, err);
    gg_buf_free(&b);
    return st;
}

/* ---- recalling a merge --------------------------------------------------------------------- */

/* A key may be of any length, but its settings are compared with each other and with each tensor.
 */
#define SETTINGS 1000
#define SETTINGS_BYTES 65536
#define SLICES 4096

typedef struct slice {
    uint64_t model, from, n; /* n blocks of a model from block `from` */
} slice;

typedef struct recall {
    const gg_meta *meta;
    const gg_kv *names; /* of the models */
    gg_merging m;
    bool embeddings; /* copied from the base */
    slice *slices;
    size_t n_slices;
    gg_merge_fn row;
    void *ctx;
    gg_error *err;
} recall;

static gg_status malformed_key(const recall *r, const char *key)
{
    return gg_fail(r->err, GG_EFORMAT, "the key %s does not describe a merge", key);
}

/* Returns a copy of a text, to be freed; NULL with the error if it is none. */
static char *copy_text(const recall *r, const char *key, const char *text, size_t len)
{
    if (!text || memchr(text, 0, len)) {
        malformed_key(r, key);
        return NULL;
    }
    char *copy = strndup(text, len);
    if (!copy) gg_fail(r->err, GG_ENOMEM, "out of memory");
    return copy;
}

/* ---- parameters ------------------------------------------------------------------- */

/* Parameters are stored as they were given: for organ-merge, or in JSON in a configuration. */
static gg_status recall_settings(const recall *r, const char *key, const char *text, size_t len,
                                 gg_merge_settings *to)
{
    if (len > SETTINGS_BYTES) return malformed_key(r, key);
    char *copy = copy_text(r, key, text, len);
    if (!copy) return r->err->status;
    gg_error wrong = GG_ERROR_INIT;
    gg_status st = gg_merge_settings_add(to, copy, &wrong);
    free(copy);
    if (st == GG_ENOMEM) return gg_fail(r->err, st, "out of memory");
    return st != GG_OK || to->n > SETTINGS ? malformed_key(r, key) : GG_OK;
}

/* The number of models, and the parameters of each. `lead`: the base is the first of them. */
static gg_status recall_models(recall *r, bool lead)
{
    const gg_kv *parameters = gg_meta_find(r->meta, "organ.merge.models.parameters");
    const char *key = "organ.merge.models", *text;
    gg_merging *m = &r->m;
    uint64_t at = 0;
    size_t len, n = 0;
    r->names = gg_meta_find(r->meta, key);
    while (n <= GG_MERGE_MODELS && gg_kv_next_str(r->names, &at, &text, &len)) n++;
    if (n == 0 || n > GG_MERGE_MODELS) return malformed_key(r, key);
    m->n = n + lead;
    m->of_model = calloc(m->n, sizeof *m->of_model);
    if (!m->of_model) return gg_fail(r->err, GG_ENOMEM, "out of memory");
    gg_status st = GG_OK;
    at = 0;
    for (size_t k = lead; k < m->n && st == GG_OK; k++) {
        bool any = gg_kv_next_str(parameters, &at, &text, &len);
        st = recall_settings(r, "organ.merge.models.parameters", any ? text : NULL, any ? len : 0,
                             &m->of_model[k]);
    }
    return st;
}

/* "slices=1:0-7,2:4-11" */
static gg_status recall_slices(recall *r, const char *text, size_t len)
{
    const char *key = "organ.merge.parameters";
    char *copy = copy_text(r, key, text, len);
    gg_status st = copy ? GG_OK : r->err->status;
    r->slices = calloc(SLICES, sizeof *r->slices);
    if (st == GG_OK && !r->slices) st = gg_fail(r->err, GG_ENOMEM, "out of memory");
    const char *p = st == GG_OK ? copy + strlen("slices=") : NULL;
    while (st == GG_OK && *p) {
        unsigned long long model, from, to;
        int used = 0;
        if (r->n_slices == SLICES ||
            sscanf(p, "%10llu:%10llu-%10llu%n", &model, &from, &to, &used) != 3 || to < from ||
            model == 0 || model > r->m.n || (p[used] != 0 && p[used] != ','))
            st = malformed_key(r, key);
        else r->slices[r->n_slices++] = (slice){ model - 1, from, to - from + 1 };
        p += used + (p[used] == ',');
    }
    free(copy);
    return st;
}

static gg_status recall_keys(recall *r)
{
    const char *text, *parameters;
    size_t len, size;
    uint64_t aside = 0;
    gg_merging *m = &r->m;
    if (!r->meta || !gg_kv_str(gg_meta_find(r->meta, "organ.merge.method"), &text, &len))
        return gg_fail(r->err, GG_NO,
                       "it has no history of a merge: organ-merge did not write it (organ-stack "
                       "stores no history)");
    m->method = gg_merge_method_by_name(text, len);
    if (!m->method) return malformed_key(r, "organ.merge.method");
    if (!gg_kv_str(gg_meta_find(r->meta, "organ.merge.parameters"), &parameters, &size))
        return malformed_key(r, "organ.merge.parameters");
    bool based = gg_meta_find(r->meta, "organ.merge.base") != NULL;
    gg_status st = recall_models(r, based && m->method->base == GG_MERGE_BASE_FIRST);
    if (st != GG_OK) return st;
    if (size > 7 && memcmp(parameters, "slices=", 7) == 0)
        return recall_slices(r, parameters, size);
    if (m->n < m->method->least || m->n > m->method->most)
        return malformed_key(r, "organ.merge.models");
    m->has_base = based &&
                  (m->method->base == GG_MERGE_BASE_MAY || m->method->base == GG_MERGE_BASE_MUST);
    m->blocks = gg_arch_number(r->meta, "block_count");
    r->embeddings = gg_kv_u64(gg_meta_find(r->meta, "organ.merge.embeddings_from_base"), &aside) &&
                    aside;
    return recall_settings(r, "organ.merge.parameters", parameters, size, &m->global);
}

/* ---- tensors ---------------------------------------------------------------------- */

/* The name of a model, of which tensors of slices are copies. */
static void recall_name(const recall *r, uint64_t model, char name[GG_MERGE_NAME + 1])
{
    uint64_t at = 0;
    const char *text = "";
    size_t len = 0;
    for (uint64_t k = 0; k <= model; k++) gg_kv_next_str(r->names, &at, &text, &len);
    snprintf(name, GG_MERGE_NAME + 1, "%.*s", (int)(len < GG_MERGE_NAME ? len : GG_MERGE_NAME),
             text);
}

/* Tensors outside the blocks come from the model of the first slice. */
static gg_status row_of_slice(const recall *r, const gg_tensor *t, const gg_anatomy *a)
{
    char name[GG_MERGE_NAME + 1];
    uint64_t first = 0, model = r->slices[0].model;
    for (size_t i = 0; i < r->n_slices && a->block >= 0; i++) {
        if ((uint64_t)a->block >= first) model = r->slices[i].model;
        first += r->slices[i].n;
    }
    recall_name(r, model, name);
    gg_merge_row row = { t, *a, "copy", name };
    return r->row(r->ctx, &row, r->err);
}

static gg_status row_of_tensor(const recall *r, const gg_tensor *t, const gg_anatomy *a)
{
    char text[600] = "";
    gg_merge_row row = { t, *a, "copy", text };
    gg_merge_job j;
    gg_error wrong = GG_ERROR_INIT;
    if (r->n_slices) return row_of_slice(r, t, a);
    if (gg_is_integer(t->dtype) || (r->embeddings && a->cls == GG_EMBED))
        return r->row(r->ctx, &row, r->err);
    gg_status st = gg_merge_job_start(&r->m, t, &j, &wrong);
    bool copied = st == GG_OK && r->m.method->unchanged && r->m.method->unchanged(&j) != SIZE_MAX;
    if (!copied) row.how = "merge";
    if (st == GG_OK) gg_merge_job_text(&j, text, sizeof text);
    gg_merge_job_free(&j);
    if (st == GG_ENOMEM) return gg_fail(r->err, st, "out of memory");
    if (st != GG_OK) return malformed_key(r, "organ.merge.parameters");
    return r->row(r->ctx, &row, r->err);
}

gg_status gg_merge_recall(const gg_source *model, gg_merge_fn row, void *ctx, gg_error *err)
{
    recall r = { .meta = gg_source_meta(model), .row = row, .ctx = ctx, .err = err };
    gg_status st = recall_keys(&r);
    for (size_t i = 0; i < gg_source_count(model) && st == GG_OK; i++) {
        gg_anatomy a = gg_source_anatomy(model, i);
        st = row_of_tensor(&r, gg_source_tensor(model, i), &a);
    }
    for (size_t k = 0; k < r.m.n && r.m.of_model; k++) gg_merge_settings_free(&r.m.of_model[k]);
    free(r.m.of_model);
    gg_merge_settings_free(&r.m.global);
    free(r.slices);
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(model));
}
