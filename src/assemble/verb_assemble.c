/* verb_assemble.c - writes a model from any source, in one file or in shards, unchanged or with
 * other dtypes; from an organ directory also with fewer experts. */
#include "organ/gg_verbs.h"

#include "base/buf.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/float_bits.h"
#include "base/output.h"
#include "compute/dtype_rules.h"
#include "experts.h"
#include "gguf/gguf.h"
#include "hf/safetensors.h"
#include "hf_names.h"
#include "organ/manifest.h"
#include "organ/output_guard.h"
#include "organ/source_layout.h"
#include "quant/quant.h"
#include "write/copy.h"
#include "write/keys.h"
#include "write/plan.h"
#include "write/verb_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- files ------------------------------------------------------------------------ */

/* A single shard becomes one file, even if its name is that of a shard. */
static bool is_that_shard(const gg_source *source, const gg_meta *meta, uint32_t no, uint32_t count)
{
    uint64_t was_no, was_count;
    return gg_plan_file_count(source) == 1 && count > 1 &&
           gg_kv_u64(gg_meta_find(meta, "split.no"), &was_no) &&
           gg_kv_u64(gg_meta_find(meta, "split.count"), &was_count) && was_no == no &&
           was_count == count;
}

/* Fills p->files from the options and the files of the source, or those it was extracted from.
 * `meta` is copied to the first file. With p->pipe set, p->keep_odd is set where it applies. */
static gg_status plan_output_files(gg_plan *p, gg_source *source, const gg_meta *meta,
                                   const gg_assemble_options *o, const char *output, gg_error *err)
{
    size_t prefix_len;
    uint32_t no, named = 0;
    gg_split split = { (uint32_t)o->output.shards, o->output.shard_size };
    p->base = source;
    p->all_findings = true;
    if (!gg_is_split(&split) && gg_shard_parse(output, &prefix_len, &no, &named) &&
        !is_that_shard(source, meta, no, named))
        split.shards = named;
    if (!gg_is_split(&split)) {
        p->keep_odd = p->pipe && gg_plan_file_count(source) == 1;
        return gg_plan_changed_file(p, output, gg_plan_version(source), meta, source, err);
    }
    bool restored = split.shards && !p->pipe && split.shards == gg_plan_file_count(source) &&
                    gg_plan_compare_files(p, source) == 0;
    return restored && strcmp(output, "-") != 0
               ? gg_plan_restore_files(p, source, meta, output, err)
               : gg_plan_shards(p, &split, output, gg_plan_version(source), meta, err);
}

/* ---- the assembly ----------------------------------------------------------------- */

typedef struct assembly {
    const char *model; /* its name */
    const gg_assemble_options *o;
    const gg_run *run;
    gg_source *source;
    gg_source *stored;      /* the source of a pipe whose shards are not known from the start */
    gg_source *named;       /* the source under Hugging Face names */
    char *decoded;          /* rules that decode what safetensors cannot hold */
    bool unpacked;          /* there is something that it cannot hold */
    const gg_manifest *m;   /* NULL unless the source is a directory */
    gg_keep_experts *there; /* the experts of a directory, if some are missing; else NULL */
    gg_imatrix *imatrix;    /* NULL = none */
    gg_dtype_rules *rules;  /* NULL = keep all dtypes */
    gg_computations made;
    gg_plan plan;
    const gg_meta *meta; /* keys before those that depend on types */
    const char *output;
    uint32_t *from; /* the dtypes of the plan's tensors in the source */
} assembly;

/* ---- tensors ---------------------------------------------------------------------- */

static gg_status add_tensors(assembly *a, gg_error *err)
{
    gg_status st = GG_OK;
    if (a->m) return gg_plan_directory(a->source, &a->plan, &a->there, err);
    for (size_t i = 0; i < gg_source_count(a->source) && st == GG_OK; i++)
        st = gg_plan_add_copy(&a->plan, a->source, i, err);
    return st;
}

static bool is_vocabulary_key(const gg_kv *kv)
{
    return gg_text_begins(kv->key, kv->key_len, "tokenizer.");
}

/* The rows of a matrix with one row per token; 0 = the model does not have it. */
static uint64_t rows_of(const assembly *a, const char *name)
{
    size_t i = gg_source_find(a->source, name, strlen(name));
    return i == SIZE_MAX ? 0 : gg_source_tensor(a->source, i)->dims[1];
}

/* Whether embeddings have rows after those of all tokens only because their number was rounded up,
 * as trainers do. */
static bool is_padded(uint64_t rows, uint64_t tokens)
{
    return rows > tokens && rows - tokens <= 512 && rows % 32 == 0;
}

/* Fails if the embeddings have another number of rows than there are tokens. */
static gg_status check_tokens(const assembly *a, gg_error *err)
{
    static const char embeddings[] = "token_embd.weight", head[] = "output.weight";
    const gg_kv *tokens = gg_meta_find(a->o->vocabulary, "tokenizer.ggml.tokens");
    uint64_t rows = rows_of(a, embeddings), of_head = rows_of(a, head);
    if (!tokens) return gg_fail(err, GG_NO, "the model for the vocabulary has none");
    if (rows && of_head && rows != of_head) {
        bool second = rows == tokens->count;
        gg_fail(err, GG_NO, "%s has %llu rows, but %s has %llu, and the vocabulary has %llu tokens",
                second ? head : embeddings, (unsigned long long)(second ? of_head : rows),
                second ? embeddings : head, (unsigned long long)(second ? rows : of_head),
                (unsigned long long)tokens->count);
        return gg_fix(err, "use the checkpoint from before the vocabulary was resized");
    }
    if (rows == 0 || rows == tokens->count || is_padded(rows, tokens->count)) return GG_OK;
    gg_fail(err, GG_NO, "the vocabulary has %llu tokens, but the model has embeddings for %llu",
            (unsigned long long)tokens->count, (unsigned long long)rows);
    return gg_fix(err,
                  "take it from a model of the same family, or transplant another vocabulary into "
                  "the model that was converted with its own");
}

/* Notes how many tokens of the model's own vocabulary differ in the one that replaces it. */
static void note_other_tokens(const assembly *a, const gg_meta *own)
{
    static const char key[] = "tokenizer.ggml.tokens";
    const gg_kv *mine = gg_meta_find(own, key), *theirs = gg_meta_find(a->o->vocabulary, key);
    uint64_t at = 0, there = 0, i = 0, first = 0, n = 0;
    const char *x, *y, *shown[2] = { "", "" };
    size_t nx, ny, len[2] = { 0 };
    char text[2][80];
    for (; mine && gg_kv_next_str(mine, &at, &x, &nx) && gg_kv_next_str(theirs, &there, &y, &ny);
         i++) {
        if ((nx == ny && memcmp(x, y, nx) == 0) || n++) continue;
        first = i;
        shown[0] = x;
        shown[1] = y;
        len[0] = nx;
        len[1] = ny;
    }
    if (n == 0) return;
    for (int k = 0; k < 2; k++)
        gg_escape(shown[k], len[k] < 18 ? len[k] : 18, text[k], sizeof text[k]);
    gg_note(a->run,
            "%llu of its %llu tokens are others in the vocabulary that is taken: token %llu, '%s', "
            "becomes '%s'",
            (unsigned long long)n, (unsigned long long)mine->count, (unsigned long long)first,
            text[0], text[1]);
}

/* Appends n - kv->count elements to an array of the vocabulary: texts, or a number of 4 bytes. */
static gg_status lengthen(gg_meta *meta, const char *key, uint64_t n, uint32_t type,
                          uint32_t number, gg_error *err)
{
    const gg_kv *kv = gg_meta_find(meta, key);
    gg_buf b = GG_BUF_INIT;
    char text[32];
    uint8_t le[4];
    if (!kv || kv->type != GG_TYPE_ARR || kv->count >= n) return err->status;
    if (kv->elem_type != type)
        return gg_fail(err, GG_EFORMAT, "%s of the vocabulary is an array of %s, and must be of %s",
                       key, gg_type_name(kv->elem_type), gg_type_name(type));
    gg_put_le32(le, number);
    gg_buf_append(&b, kv->data, (size_t)kv->size, err);
    for (uint64_t i = kv->count; i < n && err->status == GG_OK; i++) {
        snprintf(text, sizeof text, "[PAD%llu]", (unsigned long long)i);
        if (type == GG_TYPE_STR) gg_array_add_str(&b, text, strlen(text), err);
        else gg_buf_append(&b, le, sizeof le, err);
    }
    if (err->status == GG_OK) gg_meta_set_array(meta, key, type, n, &b, err);
    gg_buf_free(&b);
    return err->status;
}

/* Gives rows of the embeddings without a token unused ones, as the converter of llama.cpp does. */
static gg_status pad_vocabulary(const assembly *a, gg_meta *meta, gg_error *err)
{
    const gg_kv *tokens = gg_meta_find(meta, "tokenizer.ggml.tokens");
    uint64_t rows = rows_of(a, "token_embd.weight"), n = tokens ? tokens->count : rows;
    if (rows <= n) return GG_OK;
    gg_note(a->run,
            "the vocabulary has %llu tokens for %llu rows of the embeddings: the last %llu "
            "rows get unused tokens",
            (unsigned long long)n, (unsigned long long)rows, (unsigned long long)(rows - n));
    lengthen(meta, "tokenizer.ggml.tokens", rows, GG_TYPE_STR, 0, err);
    lengthen(meta, "tokenizer.ggml.token_type", rows, GG_TYPE_I32, GG_TOKEN_UNUSED, err);
    return lengthen(meta, "tokenizer.ggml.scores", rows, GG_TYPE_F32, gg_float_bits(-10000), err);
}

static gg_status take_vocabulary(const assembly *a, gg_meta *meta, gg_error *err)
{
    const gg_meta *from = a->o->vocabulary;
    gg_status st = check_tokens(a, err);
    if (st == GG_OK) note_other_tokens(a, meta);
    for (size_t i = meta->n; i-- > 0;) {
        char key[256];
        snprintf(key, sizeof key, "%.*s", (int)meta->kv[i].key_len, meta->kv[i].key);
        if (is_vocabulary_key(&meta->kv[i])) gg_meta_delete(meta, key);
    }
    for (size_t i = 0; i < from->n && st == GG_OK; i++)
        if (is_vocabulary_key(&from->kv[i])) st = gg_meta_set(meta, &from->kv[i], err);
    return st == GG_OK ? pad_vocabulary(a, meta, err) : st;
}

/* Adapts the keys to the tensors that are left, and takes the vocabulary of another model. */
static gg_status edit_keys(const assembly *a, gg_meta *meta, gg_error *err)
{
    gg_status st = gg_meta_copy(meta, gg_source_meta(a->source), err);
    if (st == GG_OK && a->there) st = gg_keep_experts_keys(a->there, meta, a->run, err);
    if (st == GG_OK && a->there) st = gg_keep_experts_record(a->there, meta, a->run, err);
    const gg_plan_edit *edit = a->o->edit;
    if (st == GG_OK && edit && edit->keys) st = edit->keys(edit->ctx, meta, err);
    return st == GG_OK && a->o->vocabulary ? take_vocabulary(a, meta, err) : st;
}

static gg_status note_types(assembly *a, gg_error *err)
{
    a->from = calloc(a->plan.n + 1, sizeof *a->from);
    if (!a->from) return gg_fail(err, GG_ENOMEM, "no memory for the types of tensors");
    for (size_t i = 0; i < a->plan.n; i++) a->from[i] = a->plan.tensors[i].t.dtype;
    return GG_OK;
}

/* Plans the files of a plan with all tensors, of which `changed` are re-encoded. */
static gg_status name_files(assembly *a, gg_plan *p, bool changed, gg_error *err)
{
    gg_status st = plan_output_files(p, a->source, a->meta, a->o, a->output, err);
    if (st != GG_OK || p->n_files == 0) return st;
    gg_meta *first = &p->files[0].meta;
    if (p->stored) return gg_set_keys(first, &a->o->output, err); /* no model, but tensors */
    if (a->named && a->unpacked)
        st = gg_preset_keys(gg_preset_by_name(a->o->output.dtype ? "f32" : "f16"), first, err);
    if (changed && st == GG_OK) st = gg_dtype_rules_keys(a->rules, p, first, err);
    if (st != GG_OK) return st;
    return gg_set_keys(first, &a->o->output, err);
}

/* ---- types that are chosen ----------------------------------------------------------------- */

static gg_status make_nothing(void *ctx, const gg_target *to, gg_error *err)
{
    (void)ctx, (void)to;
    return gg_fail(err, GG_EUSAGE, "this tensor is only measured");
}

/* The size of the files if the tensors had these types: plans them for that. */
static gg_status measure_files(void *ctx, const uint32_t *dtypes, uint64_t *bytes, gg_error *err)
{
    assembly *a = ctx;
    gg_plan p = { .pipe = a->plan.pipe };
    bool changed = false;
    gg_status st = GG_OK;
    for (size_t i = 0; i < a->plan.n && st == GG_OK; i++) {
        gg_tensor t = a->plan.tensors[i].t;
        gg_plan_tensor *pt;
        bool change = t.dtype != dtypes[i];
        t.dtype = dtypes[i];
        changed = changed || change;
        st = gg_tensor_extent(t.dtype, t.n_dims, t.dims, &t.elements, &t.bytes, err);
        if (st == GG_OK) st = gg_plan_add(&p, &t, &pt, err);
        if (st == GG_OK && (change || a->plan.tensors[i].make)) pt->make = make_nothing;
    }
    if (st == GG_OK) st = name_files(a, &p, changed, err);
    if (st == GG_OK) st = gg_plan_size(&p, bytes, err);
    gg_plan_free(&p);
    return st;
}

/* Replaces the rules by those that give the chosen types. */
static gg_status choose_types(assembly *a, gg_error *err)
{
    const gg_type_chooser *by = a->o->chooser;
    gg_type_job job = { .plan = &a->plan,
                        .rules = a->rules,
                        .given = a->o->output.dtype,
                        .imatrix = a->imatrix,
                        .run = a->run,
                        .measure = measure_files,
                        .ctx = a };
    char *text = NULL;
    gg_status st = by->choose(by->ctx, &job, &text, err);
    if (st == GG_OK) {
        gg_dtype_rules_free(a->rules);
        a->rules = NULL;
        st = gg_dtype_rules_parse(text, a->o->output.fallback, a->imatrix, &a->rules, err);
    }
    free(text);
    return st;
}

/* The types of a plan, and the files. */
static gg_status tell_files(const assembly *a, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t f = 0; f < a->plan.n_files; f++) {
        const gg_plan_file *file = &a->plan.files[f];
        for (size_t i = file->first; i < file->first + file->n && st == GG_OK; i++) {
            gg_planned_row row = { .tensor = &a->plan.tensors[i].t,
                                   .from = a->from[i],
                                   .wanted = gg_dtype_rules_wanted(a->rules, i),
                                   .file = file->path };
            st = a->o->planned(a->o->planned_ctx, &row, err);
        }
    }
    return st;
}

/* Plans dtypes and files. A preset uses the final keys. */
static gg_status plan_files(assembly *a, gg_error *err)
{
    size_t changed = 0;
    const gg_type_chooser *by = a->o->chooser;
    gg_status st = by ? choose_types(a, err) : GG_OK;
    if (st == GG_OK && a->rules)
        st = gg_dtype_rules_apply(a->rules, &a->plan, a->meta, &a->made, &changed, a->run, err);
    bool cut = a->o->edit && a->o->edit->tensors; /* reviewed with what it becomes */
    if (st == GG_OK && a->imatrix && !cut)
        st = gg_imatrix_review(a->imatrix, &a->plan, NULL, a->run, err);
    if (st == GG_OK) st = name_files(a, &a->plan, changed > 0, err);
    if (st == GG_OK) gg_note_large_shard(&a->plan, a->o->output.shard_size, a->run);
    if (st == GG_OK && by) st = by->chosen(by->ctx, err);
    return st == GG_OK && a->o->planned ? tell_files(a, err) : st;
}

/* Plans tensors, files and keys. Nothing is written yet. */
static gg_status plan_assembly(assembly *a, const char *output, gg_error *err)
{
    gg_meta meta = GG_META_INIT;
    gg_status st = add_tensors(a, err);
    const gg_plan_edit *edit = a->o->edit;
    bool edited = a->there || (edit && edit->keys) || a->o->vocabulary;
    if (st == GG_OK && edit && edit->tensors)
        st = edit->tensors(edit->ctx, &a->plan, &a->made, a->imatrix, err);
    if (st == GG_OK && edited) st = edit_keys(a, &meta, err);
    if (st == GG_OK) st = note_types(a, err);
    a->meta = edited ? &meta : gg_source_meta(a->source);
    a->output = output ? output : "model.gguf"; /* only planned */
    if (st == GG_OK) st = plan_files(a, err);
    a->meta = NULL;
    gg_meta_free(&meta);
    return st;
}

/* ---- assembling ----------------------------------------------------------------------- */

static gg_status parse_rules(assembly *a, gg_error *err)
{
    const char *text = a->decoded ? a->decoded : a->o->output.dtype,
               *fallback = a->o->output.fallback;
    gg_status st = text || fallback
                       ? gg_dtype_rules_parse(text, fallback, a->imatrix, &a->rules, err)
                       : GG_OK;
    if (st != GG_OK || !a->o->chooser) return st;
    if (!a->rules) return gg_dtype_rules_none(a->imatrix, &a->rules, err);
    if (!gg_dtype_rules_preset(a->rules)) return GG_OK;
    gg_fail(err, GG_EUSAGE, "a preset leaves no types to choose for a size");
    gg_about(err, "dtype");
    return gg_fix(err, "give rules for single tensors only");
}

/* A size needs two passes: one to measure errors, one to write. */
static gg_status check_passes(const assembly *a, gg_error *err)
{
    if (!a->o->chooser || gg_source_seekable(a->source)) return GG_OK;
    gg_fail(err, GG_EUSAGE,
            "choosing types for a size reads the model twice, and a pipe can be "
            "read only once");
    gg_fix(err, "store the model in a file first");
    return gg_at_file(err, a->model);
}

static bool fits_safetensors(uint32_t dtype)
{
    return dtype == GG_F32 || dtype == GG_F16 || dtype == GG_BF16 || dtype == GG_F64 ||
           (dtype >= GG_I8 && dtype <= GG_I64);
}

/* Makes rules that decode each quantized tensor as F16, unless types were given. */
static gg_status rules_for_safetensors(assembly *a, gg_error *err)
{
    gg_buf text = GG_BUF_INIT;
    size_t n = 0;
    for (size_t i = 0; i < gg_source_count(a->source) && err->status == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(a->source, i);
        if (fits_safetensors(t->dtype)) continue;
        gg_buf_printf(&text, err, "%s%.*s=f16", n++ ? "," : "", (int)t->name_len, t->name);
    }
    a->unpacked = n > 0;
    if (a->o->output.dtype || a->o->chooser) {
        gg_buf_free(&text);
        return err->status;
    }
    if (n)
        gg_note(a->run,
                "%zu quantized tensor%s decoded as F16, because safetensors cannot hold "
                "%s type",
                n, n == 1 ? " is" : "s are", n == 1 ? "its" : "their");
    a->decoded = gg_buf_take(&text, NULL);
    return err->status;
}

/* What a .safetensors file needs. */
static gg_status prepare_safetensors(assembly *a, const char *output, gg_error *err)
{
    bool is = output && gg_is_safetensors_name(output);
    const gg_plan_edit *edit = a->o->edit;
    if (!is && edit && edit->names)
        return gg_fail(err, GG_EUSAGE, "Hugging Face names are for an output X.safetensors");
    if (!is) return GG_OK;
    if (!gg_source_seekable(a->source)) {
        gg_fail(err, GG_EUSAGE, "a model on a pipe cannot be written as safetensors");
        return gg_fix(err, "store it in a file first");
    }
    a->plan.stored = gg_source_refusal(a->source) != NULL;
    gg_status st = rules_for_safetensors(a, err);
    if (st != GG_OK || !edit || !edit->names) return st;
    free(a->decoded);
    a->decoded = NULL;
    st = edit->names(edit->ctx, a->source, a->o->output.dtype != NULL,
                     a->o->dry_run ? NULL : output, &a->named, err);
    if (st != GG_OK) return st;
    a->source = a->named;
    a->plan.hf_order = gg_source_hf_beside(a->named).order;
    return st;
}

static gg_status open_model(assembly *a, gg_error *err)
{
    gg_status st = a->o->output.imatrix ? gg_imatrix_open(a->o->output.imatrix, &a->imatrix, err)
                                        : GG_OK;
    a->made.imatrix = a->imatrix;
    a->made.compare = a->o->encoded != NULL;
    if (st == GG_OK) st = parse_rules(a, err);
    if (st != GG_OK) return st;
    if (!a->named && !a->o->vocabulary && gg_source_lacks_vocabulary(a->source))
        gg_note(a->run, "the checkpoint has no tokenizer.json or tokenizer.model: take the "
                        "vocabulary from a GGUF model of the same family");
    if (!gg_source_meta(a->source)) {
        const gg_error *why = gg_source_refusal(a->source);
        if (why) {
            *err = *why;
            return err->status;
        }
        gg_fail(err, GG_EUSAGE, "it consists of organ records, which have no keys");
        gg_fix(err, "give a model or an organ directory");
        return gg_at_file(err, a->model);
    }
    /* Every shard must be known before the header of one file can be written. */
    if (st == GG_OK && gg_source_grows(a->source)) st = gg_source_store(a->source, &a->stored, err);
    if (a->stored) a->source = a->stored;
    /* A single shard on a pipe is taken with a note. */
    bool alone = a->stored && gg_source_files(a->stored) == 1;
    if (st == GG_OK && !a->o->dry_run && !alone) st = gg_require_whole(a->source, a->run, err);
    if (st == GG_OK) st = check_passes(a, err);
    a->m = gg_source_manifest(a->source);
    if (!gg_source_seekable(a->source)) a->plan.pipe = a->source;
    return st;
}

/* Reports how far each tensor is from its source. */
static gg_status report_errors(const assembly *a, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < a->plan.n && a->o->encoded && st == GG_OK; i++) {
        const gg_plan_tensor *t = &a->plan.tensors[i];
        const gg_producer p = { t->make, t->ctx };
        gg_encode_error e = gg_compute_error(&p);
        gg_encode_row row = { .tensor = &t->t, .from = a->from[i] };
        row.rmse = gg_encode_rmse(&e);
        row.rel_l2 = sqrt(gg_encode_relative2(&e, false));
        row.weighted = e.weighed ? sqrt(gg_encode_relative2(&e, true)) : NAN;
        st = a->o->encoded(a->o->encoded_ctx, &row, err);
    }
    return st;
}

static void close_all(assembly *a)
{
    free(a->from);
    gg_plan_free(&a->plan);
    gg_computations_free(&a->made);
    if (a->rules) gg_dtype_rules_free(a->rules);
    gg_imatrix_close(a->imatrix);
    gg_keep_experts_free(a->there);
    gg_source_close(a->stored);
    gg_source_close(a->named);
    free(a->decoded);
}

/* Writes the files, and what belongs to them. */
static gg_status write_planned(assembly *a, const char *output, uint64_t *bytes, gg_error *err)
{
    bool shards = a->plan.n_files > 1, safetensors = output && gg_is_safetensors_name(output);
    gg_status st = safetensors && !shards ? gg_refuse_old_index(output, err) : GG_OK;
    const gg_plan_edit *edit = a->o->edit;
    /* First, because it may not fit, and the model takes long. */
    if (st == GG_OK && edit && edit->beside) st = edit->beside(edit->ctx, &a->plan, err);
    if (st == GG_OK) st = gg_plan_write(&a->plan, a->run, bytes, err);
    if (st == GG_OK && shards && safetensors) st = gg_write_index(&a->plan, output, a->run, err);
    if (st == GG_OK && edit && edit->after) st = edit->after(edit->ctx, output, a->run, err);
    return st == GG_OK ? report_errors(a, err) : st;
}

gg_status gg_assemble(gg_source *model, const gg_assemble_options *o, const char *output,
                      const gg_run *run, gg_assemble_report *report, gg_error *err)
{
    o = GG_OPTIONS(gg_assemble_options, o);
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_assemble_report, report);
    assembly a = { .model = gg_source_name(model),
                   .o = o,
                   .run = run,
                   .source = model,
                   .plan = { .verify = !o->no_verify } };
    *report = (gg_assemble_report){ 0 };
    gg_status st = prepare_safetensors(&a, output, err);
    if (st == GG_OK) st = open_model(&a, err);
    bool opened = st == GG_OK;
    bool divided = o->output.shards || o->output.shard_size; /* its files have other names */
    if (st == GG_OK && output && !o->dry_run && !divided)
        st = gg_guard_output(output, a.source, err);
    if (st == GG_OK) st = plan_assembly(&a, output, err);
    if (st == GG_OK) st = gg_watch_add(&a.plan.watch, a.source, err);
    if (st == GG_OK && !o->dry_run) st = write_planned(&a, output, &report->bytes, err);
    else if (st == GG_OK) st = gg_plan_size(&a.plan, &report->bytes, err);
    if (st == GG_OK) {
        report->files = a.plan.n_files;
        report->tensors = a.plan.n;
    } else if (opened) {
        gg_at_file(err, a.model);
    }
    close_all(&a);
    return st;
}
