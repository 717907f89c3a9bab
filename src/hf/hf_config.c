/* hf_config.c - config.json and adapter_config.json of a checkpoint that is written. config.json is
 * found by solving the rows of gg_hf_keys for the fields that they name; what it makes of the keys
 * is then compared with them. */
#include "base/buf.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/grow.h"
#include "hf_write.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a JSON object ------------------------------------------------------------------------ */

/* Plain fields in the order in which they were added; then members of objects, whose paths have a
 * dot, in that of their paths. */
typedef struct hf_field {
    char path[64];
    char *json;
} hf_field;

typedef struct hf_config {
    hf_field *list;
    size_t n, cap;
    gg_json *parsed; /* of what there is, for expressions */
} hf_config;

static void free_config(hf_config *c)
{
    for (size_t i = 0; i < c->n; i++) free(c->list[i].json);
    free(c->list);
    gg_json_free(c->parsed);
}

static bool has_field(const hf_config *c, const char *path)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->list[i].path, path) == 0) return true;
    return false;
}

static bool belongs_before(const char *a, const char *b)
{
    return strchr(b, '.') && (!strchr(a, '.') || strcmp(a, b) < 0);
}

/* Adds a field, unless it is there. Takes the text. */
static gg_status add_json(hf_config *c, const char *path, gg_buf *json, gg_error *err)
{
    if (err->status != GG_OK || strlen(path) >= sizeof c->list->path || has_field(c, path) ||
        GG_ROOM(c->list, c->n, &c->cap, err) != GG_OK) {
        gg_buf_free(json);
        return err->status;
    }
    size_t at = c->n++;
    for (; at > 0 && belongs_before(path, c->list[at - 1].path); at--)
        c->list[at] = c->list[at - 1];
    strcpy(c->list[at].path, path);
    c->list[at].json = gg_buf_take(json, NULL);
    return GG_OK;
}

static gg_status add_text(hf_config *c, const char *path, const char *text, gg_error *err)
{
    gg_buf b = GG_BUF_INIT;
    gg_json_out out = gg_json_to_buf(&b);
    gg_json_put_string(&out, text, strlen(text), err);
    return add_json(c, path, &b, err);
}

static gg_status add_bare(hf_config *c, const char *path, const char *json, gg_error *err)
{
    gg_buf b = GG_BUF_INIT;
    gg_buf_text(&b, json, err);
    return add_json(c, path, &b, err);
}

/* A whole number without a fraction; others as short as possible. */
static gg_status add_number(hf_config *c, const char *path, double x, bool f32, gg_error *err)
{
    gg_buf b = GG_BUF_INIT;
    gg_json_out out = gg_json_to_buf(&b);
    if (x >= 0 && x < 4294967296.0 && x == (double)(uint64_t)x && !f32)
        gg_json_put_u64(&out, (uint64_t)x, err);
    else if (f32) gg_json_put_f32(&out, (float)x, err);
    else gg_json_put_f64(&out, x, err);
    return add_json(c, path, &b, err);
}

/* Whether two fields are members of the same object. */
static bool same_parent(const hf_field *a, const hf_field *b)
{
    size_t n = strcspn(a->path, ".");
    return a->path[n] && strncmp(a->path, b->path, n + 1) == 0;
}

static gg_status put_fields(const hf_config *c, gg_buf *to, gg_error *err)
{
    gg_buf_text(to, "{", err);
    for (size_t i = 0; i < c->n; i++) {
        const hf_field *f = &c->list[i];
        const char *dot = strchr(f->path, '.');
        bool first = i == 0 || !same_parent(f, f - 1),
             last = i + 1 == c->n || !same_parent(f, f + 1);
        gg_buf_text(to, i ? ",\n" : "\n", err);
        if (dot && first) gg_buf_printf(to, err, "  \"%.*s\": {\n", (int)(dot - f->path), f->path);
        gg_buf_printf(to, err, "%s\"%s\": %s%s", dot ? "    " : "  ", dot ? dot + 1 : f->path,
                      f->json, dot && last ? "\n  }" : "");
    }
    return gg_buf_text(to, "\n}\n", err);
}

/* The object as a text, and parsed. */
static gg_status render(hf_config *c, gg_buf *to, gg_error *err)
{
    gg_status st = put_fields(c, to, err);
    gg_json_free(c->parsed);
    c->parsed = NULL;
    return st == GG_OK ? gg_json_parse(to->data, to->len, &c->parsed, err) : st;
}

static gg_status refresh(hf_config *c, gg_error *err)
{
    gg_buf text = GG_BUF_INIT;
    gg_status st = render(c, &text, err);
    gg_buf_free(&text);
    return st;
}

/* ---- keys --------------------------------------------------------------------------------- */

static const gg_kv *key_of(const gg_hf_writer *w, const char *name)
{
    char key[160];
    snprintf(key, sizeof key, "%s.%s", w->arch, name);
    return gg_meta_find(gg_source_meta(w->s), key);
}

static bool number_of_key(const gg_hf_writer *w, const char *name, double *x)
{
    const gg_kv *kv = key_of(w, name);
    float f;
    uint64_t u;
    if (gg_kv_f32(kv, &f)) {
        *x = (double)f;
        return f - f == 0;
    }
    return gg_kv_u64(kv, &u) && (*x = (double)u, true);
}

static bool is_operator(char c)
{
    return c && strchr("*/+-", c);
}

static bool is_plain(const char *alternatives)
{
    return !isdigit((unsigned char)alternatives[0]) && !strpbrk(alternatives, "*/+-'");
}

static double combine(double a, char op, double b)
{
    return op == '*' ? a * b : op == '/' ? a / b : op == '+' ? a + b : a - b;
}

/* Finds the field that an expression must have for this value, if only one is not known yet. */
static bool solve(const hf_config *c, const char *text, size_t len, double value, char field[64],
                  double *x)
{
    double values[8];
    char ops[8], word[64];
    size_t n = 0, unknown = 8;
    for (size_t i = 0; i < len && n < 8; n++) {
        size_t m = 0;
        while (i + m < len && !is_operator(text[i + m])) m++;
        if (m >= sizeof word) return false;
        snprintf(word, sizeof word, "%.*s", (int)m, text + i);
        ops[n] = i > 0 ? text[i - 1] : '+';
        if (!gg_hf_value(gg_json_root(c->parsed), word, &values[n])) {
            if (unknown < 8) return false;
            unknown = n;
            memcpy(field, word, sizeof word);
        }
        i += m + 1;
    }
    if (unknown == 8) return false;
    static const char inverse[] = "*/*+-+"; /* each operator is followed by its inverse */
    double before = 0, want = value;
    for (size_t i = n; i-- > unknown + 1;)
        want = combine(want, strchr(inverse, ops[i])[1], values[i]);
    for (size_t i = 0; i < unknown; i++) before = combine(before, ops[i], values[i]);
    if (unknown > 0 && ops[unknown] != '*' && ops[unknown] != '+') return false;
    *x = unknown == 0 ? want : combine(want, strchr(inverse, ops[unknown])[1], before);
    for (int i = 0; i < 3; i++, *x *= 1 + 0x1p-52) { /* a product may be just below the value */
        double got = 0;
        values[unknown] = *x;
        for (size_t k = 0; k < n; k++) got = combine(got, ops[k], values[k]);
        if (got >= value) break;
    }
    return *x - *x == 0;
}

/* Whether config.json gives the key this value now. */
static bool is_given(const hf_config *c, const gg_hf_key *k, double value)
{
    double x;
    if (!gg_hf_value(gg_json_root(c->parsed), k->value, &x)) return false;
    if (k->type == GG_TYPE_F32) return (float)x == (float)value;
    return x >= value && x < value + 1;
}

/* Adds the field that gives a key its value by way of an expression. */
static gg_status add_solved(hf_config *c, const gg_hf_key *k, double value, gg_error *err)
{
    char field[64];
    double x;
    if (refresh(c, err) != GG_OK || is_given(c, k, value)) return err->status;
    for (const char *p = k->value; *p; p += strspn(p, " ")) {
        size_t len = strcspn(p, " ");
        if (solve(c, p, len, value, field, &x)) return add_number(c, field, x, false, err);
        p += len;
    }
    return GG_OK;
}

/* Adds what a row without expressions names: its first field, or a choice among words. */
static gg_status add_plain(hf_config *c, const gg_hf_key *k, double value, gg_error *err)
{
    char field[64], list[128];
    if (sscanf(k->value, "one of %63s %127[^\n]", field, list) == 2) {
        char *save = NULL, *word = strtok_r(list, " ", &save);
        for (double i = 1; word && i < value; i++) word = strtok_r(NULL, " ", &save);
        return word ? add_text(c, field, word, err) : GG_OK;
    }
    if (strncmp(k->value, "is ", 3) == 0) return GG_OK; /* the class says it */
    const char *name = strncmp(k->value, "if ", 3) == 0 ? k->value + 3 : k->value;
    if (strncmp(name, "but ", 4) == 0) name += 4 + strcspn(name + 4, " ") + 1;
    snprintf(field, sizeof field, "%.*s", (int)strcspn(name, " "), name);
    if (k->type != GG_TYPE_BOOL) return add_number(c, field, value, k->type == GG_TYPE_F32, err);
    return add_bare(c, field, value != 0 ? "true" : "false", err);
}

static gg_status add_keys(hf_config *c, const gg_hf_writer *w, gg_error *err)
{
    double x, by = 1;
    for (const gg_hf_field_row *f = gg_hf_fields; f->field; f++)
        if (gg_hf_has(f->archs, w->arch) && number_of_key(w, f->from, &x) &&
            (!f->by || number_of_key(w, f->by, &by)) && by > 0)
            add_number(c, f->field, x / (f->by ? by : 1), strstr(f->from, "epsilon") != NULL, err);
    for (int pass = 0; pass < 2; pass++)
        for (const gg_hf_key *k = gg_hf_keys; k->key && err->status == GG_OK; k++) {
            if (!gg_hf_has(k->archs, w->arch) || !number_of_key(w, k->key, &x)) continue;
            bool plain = is_plain(k->value);
            if (pass == 0 && plain) add_plain(c, k, x, err);
            if (pass == 1 && !plain) add_solved(c, k, x, err);
        }
    return err->status;
}

/* The scaling of rotary positions. */
static gg_status add_rope_scaling(hf_config *c, const gg_hf_writer *w, gg_error *err)
{
    const char *type = "";
    size_t len = 0;
    char text[32];
    double x;
    if (gg_kv_str(key_of(w, "rope.scaling.type"), &type, &len) && len < sizeof text &&
        !gg_hf_is(w->arch, GG_HF_FIXED_SCALING)) {
        snprintf(text, sizeof text, "%.*s", (int)len, type);
        add_text(c, "rope_scaling.rope_type", text, err);
        for (const gg_hf_key *k = gg_hf_yarn_keys; k->key && err->status == GG_OK; k++)
            if (number_of_key(w, k->key, &x)) add_plain(c, k, x, err);
    }
    if (gg_hf_is(w->arch, GG_HF_LONG_ROPE) &&
        number_of_key(w, "rope.scaling.original_context_length", &x))
        add_number(c, "original_max_position_embeddings", x, false, err);
    const gg_kv *sections = key_of(w, "rope.dimension_sections");
    if (sections && sections->count == 4 && sections->size == 16 && err->status == GG_OK) {
        gg_buf b = GG_BUF_INIT;
        for (int i = 0; i < 4; i++)
            gg_buf_printf(&b, err, "%s%u", i ? ", " : "[", gg_le32(sections->data + 4 * i));
        gg_buf_text(&b, "]", err);
        add_json(c, "rope_parameters.mrope_section", &b, err);
    }
    return err->status;
}

/* The factors of a small F32 tensor, malloc'd; NULL if it is not there. */
static float *read_factors(const gg_hf_writer *w, const char *name, size_t *n, gg_error *err)
{
    size_t i = gg_source_find(w->s, name, strlen(name));
    const gg_tensor *t = i == SIZE_MAX ? NULL : gg_source_tensor(w->s, i);
    gg_data d;
    if (!t || t->dtype != GG_F32 || t->elements > 65536) return NULL;
    float *x = malloc((size_t)t->bytes + 4);
    if (!x) gg_ck_no_room(err);
    if (!x || gg_data_open(w->s, i, &d, err) != GG_OK) {
        free(x);
        return NULL;
    }
    gg_status st = gg_data_read(&d, 0, x, (size_t)t->bytes, err);
    gg_data_close(&d);
    *n = (size_t)t->elements;
    return st == GG_OK ? x : (free(x), NULL);
}

static gg_status add_factors(hf_config *c, const gg_hf_writer *w, const char *name,
                             const char *path, gg_error *err)
{
    size_t n = 0;
    float *x = read_factors(w, name, &n, err);
    gg_buf b = GG_BUF_INIT;
    gg_json_out out = gg_json_to_buf(&b);
    if (!x) return err->status;
    for (size_t i = 0; i < n; i++) {
        gg_buf_text(&b, i ? ", " : "[", err);
        gg_json_put_f32(&out, x[i], err);
    }
    free(x);
    gg_buf_text(&b, "]", err);
    add_text(c, "rope_scaling.type", "longrope", err);
    return add_json(c, path, &b, err);
}

/* rope_freqs of llama 3, if they are those of the usual frequencies with some factor. */
static gg_status add_llama3(hf_config *c, const gg_hf_writer *w, gg_error *err)
{
    size_t n = 0, made = 0;
    float *x = read_factors(w, "rope_freqs.weight", &n, err), *again = NULL, most = 0;
    for (size_t i = 0; x && i < n; i++) most = x[i] > most ? x[i] : most;
    if (!x || n == 0 || !(most < 1e30f)) { /* no JSON has infinity */
        free(x);
        return err->status;
    }
    add_text(c, "rope_scaling.rope_type", "llama3", err);
    add_number(c, "rope_scaling.factor", most, true, err);
    add_bare(c, "rope_scaling.low_freq_factor", "1.0", err);
    add_bare(c, "rope_scaling.high_freq_factor", "4.0", err);
    add_bare(c, "rope_scaling.original_max_position_embeddings", "8192", err);
    if (refresh(c, err) == GG_OK) gg_hf_rope_freqs(gg_json_root(c->parsed), &again, &made, err);
    bool same = err->status == GG_OK && made == n && memcmp(x, again, n * sizeof *x) == 0;
    free(x);
    free(again);
    size_t kept = 0;
    for (size_t i = 0; i < c->n; i++) /* other frequencies are only in the tensor */
        if (same || strncmp(c->list[i].path, "rope_scaling.", 13) != 0)
            c->list[kept++] = c->list[i];
        else free(c->list[i].json);
    c->n = kept;
    return err->status;
}

/* ---- config.json -------------------------------------------------------------------------- */

/* The class: the last of the architecture whose condition holds. */
static const gg_hf_class *class_of_model(const gg_hf_writer *w)
{
    const gg_hf_class *best = NULL;
    double x;
    for (const gg_hf_class *c = gg_hf_classes; c->name; c++)
        if (strcmp(c->arch, w->arch) == 0 && c->model_type &&
            (c->when ? number_of_key(w, c->when, &x) && x != 0 : !best))
            best = c;
    return best;
}

static gg_status add_general(hf_config *c, const gg_hf_writer *w, gg_error *err)
{
    const gg_hf_class *class = class_of_model(w);
    size_t embd = gg_source_find(w->s, "token_embd.weight", 17);
    uint32_t dtype = GG_F32;
    gg_buf b = GG_BUF_INIT;
    uint64_t id;
    if (!class) return gg_fail(err, GG_EUNSUPPORTED, "the class of %s is not known", w->arch);
    gg_buf_printf(&b, err, "[\"%s\"]", class->name);
    add_json(c, "architectures", &b, err);
    add_text(c, "model_type", class->model_type, err);
    for (size_t i = 0; i < gg_source_count(w->s) && dtype == GG_F32; i++)
        if (gg_source_tensor(w->s, i)->n_dims > 1) dtype = gg_source_tensor(w->s, i)->dtype;
    add_text(c, "torch_dtype",
             dtype == GG_F16    ? "float16"
             : dtype == GG_BF16 ? "bfloat16"
                                : "float32",
             err);
    if (embd != SIZE_MAX)
        add_number(c, "vocab_size", (double)gg_source_tensor(w->s, embd)->dims[1], false, err);
    bool tied = gg_source_find(w->s, "output.weight", 13) == SIZE_MAX;
    add_bare(c, "tie_word_embeddings", tied ? "true" : "false", err);
    for (const gg_hf_field_row *f = gg_hf_flags; f->field; f++)
        if (gg_hf_has(f->archs, w->arch) && !(f->by && strcmp(f->by, "read") == 0)) {
            bool there = gg_source_find(w->s, f->from, strlen(f->from)) != SIZE_MAX;
            add_bare(c, f->field, there ? "true" : "false", err);
        }
    const gg_meta *meta = gg_source_meta(w->s);
    if (gg_kv_u64(gg_meta_find(meta, "tokenizer.ggml.bos_token_id"), &id))
        add_number(c, "bos_token_id", (double)id, false, err);
    if (gg_kv_u64(gg_meta_find(meta, "tokenizer.ggml.eos_token_id"), &id))
        add_number(c, "eos_token_id", (double)id, false, err);
    return err->status;
}

/* Lists keys of `a` that `b` has not, or has with another value. */
static void list_differences(const gg_hf_writer *w, const gg_meta *a, const gg_meta *b,
                             bool absent_only, gg_buf *to, gg_error *err)
{
    size_t n = strlen(w->arch);
    for (size_t i = 0; i < a->n && err->status == GG_OK; i++) {
        const gg_kv *x = &a->kv[i];
        char key[160];
        if (x->key_len <= n || memcmp(x->key, w->arch, n) != 0 || x->key[n] != '.') continue;
        snprintf(key, sizeof key, "%.*s", (int)x->key_len, x->key);
        const gg_kv *y = gg_meta_find(b, key);
        if (y && (absent_only || gg_same_value(x, y))) continue;
        gg_buf_printf(to, err, "%s%s", to->len ? ", " : "", key + n + 1);
    }
}

gg_status gg_hf_model_config(gg_hf_writer *w, gg_error *err)
{
    hf_config c = { 0 };
    gg_meta made = GG_META_INIT;
    gg_buf text = GG_BUF_INIT, differ = GG_BUF_INIT;
    gg_status st = add_general(&c, w, err);
    if (st == GG_OK) st = add_keys(&c, w, err);
    if (st == GG_OK) st = add_rope_scaling(&c, w, err);
    if (st == GG_OK && gg_hf_is(w->arch, GG_HF_LONG_ROPE)) {
        add_factors(&c, w, "rope_factors_long.weight", "rope_scaling.long_factor", err);
        st = add_factors(&c, w, "rope_factors_short.weight", "rope_scaling.short_factor", err);
    } else if (st == GG_OK) {
        st = add_llama3(&c, w, err);
    }
    if (st == GG_OK) st = render(&c, &text, err);
    if (st == GG_OK) st = gg_hf_make_keys(gg_json_root(c.parsed), w->arch, &made, err);
    if (st == GG_OK) {
        list_differences(w, gg_source_meta(w->s), &made, false, &differ, err);
        list_differences(w, &made, gg_source_meta(w->s), true, &differ, err);
        if (differ.len)
            snprintf(w->ck->note, sizeof w->ck->note,
                     "config.json cannot express these keys of the model: %.180s", differ.data);
        w->ck->beside = gg_buf_take(&text, NULL);
        w->ck->beside_name = "config.json";
    }
    gg_buf_free(&text);
    gg_buf_free(&differ);
    gg_meta_free(&made);
    free_config(&c);
    return err->status;
}

/* ---- adapter_config.json ------------------------------------------------------------------ */

gg_status gg_hf_add_module(gg_hf_writer *w, const char *name, uint64_t rank, gg_error *err)
{
    if (GG_ROOM(w->modules, w->n_modules, &w->cap_modules, err) != GG_OK) return err->status;
    gg_hf_module *m = &w->modules[w->n_modules];
    *m = (gg_hf_module){ gg_names_add(&w->names, name, strlen(name), err), rank };
    w->n_modules += m->name != NULL;
    return err->status;
}

/* The rank that most modules have. */
static uint64_t usual_rank(const gg_hf_writer *w)
{
    uint64_t best = 0;
    size_t most = 0;
    for (size_t i = 0; i < w->n_modules && 2 * most <= w->n_modules; i++) {
        size_t same = 0;
        if (w->modules[i].rank == best) continue;
        for (size_t k = 0; k < w->n_modules; k++) same += w->modules[k].rank == w->modules[i].rank;
        if (same > most) {
            most = same;
            best = w->modules[i].rank;
        }
    }
    return best;
}

/* Whole names of modules: the last parts alone would also name those without a pair. */
static gg_status add_modules(hf_config *c, const gg_hf_writer *w, uint64_t rank, gg_error *err)
{
    gg_buf targets = GG_BUF_INIT, ranks = GG_BUF_INIT;
    gg_buf_text(&targets, "[", err);
    gg_buf_text(&ranks, "{", err);
    for (size_t i = 0; i < w->n_modules; i++) {
        gg_buf_printf(&targets, err, "%s\n    \"%s\"", i ? "," : "", w->modules[i].name);
        if (w->modules[i].rank != rank)
            gg_buf_printf(&ranks, err, "%s\n    \"%s\": %llu", ranks.len > 1 ? "," : "",
                          w->modules[i].name, (unsigned long long)w->modules[i].rank);
    }
    gg_buf_text(&targets, "\n  ]", err);
    gg_buf_text(&ranks, ranks.len > 1 ? "\n  }" : "}", err);
    add_json(c, "rank_pattern", &ranks, err);
    return add_json(c, "target_modules", &targets, err);
}

/* The base as the adapter names it, else the base's own name, else that of its file. */
static gg_status add_base_name(hf_config *c, const gg_hf_writer *w, gg_error *err)
{
    const char *name, *path = gg_source_name(w->base), *slash = strrchr(path, '/');
    char text[1024];
    size_t len;
    if ((gg_kv_str(gg_meta_find(gg_source_meta(w->s), "general.base_model.0.name"), &name, &len) ||
         gg_kv_str(gg_meta_find(gg_source_meta(w->base), "general.name"), &name, &len)) &&
        len > 0)
        snprintf(text, sizeof text, "%.*s", (int)(len < 1000 ? len : 1000), name);
    else snprintf(text, sizeof text, "%.1000s", slash && slash[1] ? slash + 1 : path);
    return add_text(c, "base_model_name_or_path", text, err);
}

/* The tokens after which an activated LoRA acts. */
static gg_status add_invocation(hf_config *c, const gg_meta *meta, gg_error *err)
{
    const gg_kv *kv = gg_meta_find(meta, "adapter.alora.invocation_tokens");
    gg_buf list = GG_BUF_INIT;
    uint64_t token;
    if (!kv || kv->type != GG_TYPE_ARR) return GG_OK;
    for (uint64_t i = 0; i < kv->count && gg_kv_u64_at(kv, i, &token); i++)
        gg_buf_printf(&list, err, "%s%llu", i ? ", " : "[", (unsigned long long)token);
    gg_buf_text(&list, list.len ? "]" : "[]", err);
    return add_json(c, "alora_invocation_tokens", &list, err);
}

gg_status gg_hf_adapter_config(gg_hf_writer *w, gg_error *err)
{
    static const char *const fixed[][2] = {
        { "alpha_pattern", "{}" },        { "bias", "\"none\"" },
        { "inference_mode", "true" },     { "init_lora_weights", "true" },
        { "lora_bias", "false" },         { "lora_dropout", "0.0" },
        { "modules_to_save", "null" },    { "peft_type", "\"LORA\"" },
        { "task_type", "\"CAUSAL_LM\"" }, { "use_dora", "false" },
        { "use_rslora", "false" },
    };
    hf_config c = { 0 };
    gg_buf text = GG_BUF_INIT;
    uint64_t rank = usual_rank(w);
    float alpha = 0;
    if (!gg_kv_f32(gg_meta_find(gg_source_meta(w->s), "adapter.lora.alpha"), &alpha) ||
        !(alpha > 0 && alpha < 1e30f)) {
        gg_fail(err, GG_EUNSUPPORTED, "PEFT needs an adapter.lora.alpha above 0");
        return gg_at_file(err, gg_source_name(w->s));
    }
    add_base_name(&c, w, err);
    add_invocation(&c, gg_source_meta(w->s), err);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        add_bare(&c, fixed[i][0], fixed[i][1], err);
    add_bare(&c, "fan_in_fan_out", w->fan_in_fan_out ? "true" : "false", err);
    bool whole = alpha < 1e9f && alpha == (float)(uint32_t)alpha;
    add_number(&c, "lora_alpha", alpha, !whole, err);
    add_number(&c, "r", (double)rank, false, err);
    add_modules(&c, w, rank, err);
    if (err->status == GG_OK) render(&c, &text, err);
    if (err->status == GG_OK) w->ck->beside = gg_buf_take(&text, NULL);
    w->ck->beside_name = "adapter_config.json";
    gg_buf_free(&text);
    free_config(&c);
    return err->status;
}
