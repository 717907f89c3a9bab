/* check_context.c - tells what a file is, reports findings, looks up tensors, and applies
 * conditions on keys. */
#include "check_context.h"

#include "organ/source_layout.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- findings -------------------------------------------------------------------- */

void gg_check_report_finding(check *c, const gg_finding *f)
{
    if (c->status != GG_OK) return;
    if (!c->worst[0] || f->level > c->worst_level) {
        c->worst_level = f->level;
        snprintf(c->worst, sizeof c->worst, "%s%s%s: %s", f->where, f->where[0] ? ": " : "",
                 f->rule, f->message);
    }
    c->found[f->level]++;
    if (c->o->row) c->status = c->o->row(c->o->ctx, f, c->err);
}

void gg_check_unchecked(check *c, const char *fmt, ...)
{
    char text[200], escaped[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    gg_escape(text, strlen(text), escaped, sizeof escaped);
    if (!c->unchecked[0]) snprintf(c->unchecked, sizeof c->unchecked, "%.199s", escaped);
    if (c->status == GG_OK && c->of_file && c->o->row)
        c->status = c->o->row(c->o->ctx, &(gg_finding){ GG_CHECK_NOTE, "unchecked", "", escaped },
                              c->err);
}

void gg_check_say(check *c, gg_check_level level, const char *rule, check_place where,
                  const char *fmt, ...)
{
    char place[1100], text[400], escaped[800];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    gg_escape(where.name ? where.name : where.own, where.len < 255 ? where.len : 255, place,
              sizeof place);
    gg_escape(text, strlen(text), escaped, sizeof escaped);
    gg_check_report_finding(c, &(gg_finding){ level, rule, place, escaped });
}

check_place gg_check_at_key(const check *c, const char *name)
{
    check_place p = { .name = NULL };
    gg_design_key_name(&c->d, name, p.own);
    p.len = strlen(p.own);
    return p;
}

/* ---- tensors --------------------------------------------------------------------- */

size_t gg_check_find(const check *c, const char *name, size_t name_len)
{
    return gg_name_index_find(c->in->tensors, c->by_name, c->in->n, name, name_len);
}

const gg_tensor *gg_check_tensor(const check *c, const char *name)
{
    size_t i = gg_check_find(c, name, strlen(name));
    return i == SIZE_MAX ? NULL : &c->in->tensors[i];
}

gg_status gg_check_open(check *c)
{
    size_t n = c->in->n, room = n ? n : 1;
    const gg_tensor *t = c->in->tensors;
    c->expected = calloc(room, sizeof *c->expected);
    if (!c->expected) return gg_fail(c->err, GG_ENOMEM, "no memory to check %zu tensors", n);
    gg_status st = gg_name_index(t, n, &c->by_name, c->err);
    return st == GG_OK ? gg_design_open(&c->d, c->in->meta, c->err) : st;
}

void gg_check_close(check *c)
{
    gg_design_close(&c->d);
    free(c->by_name);
    free(c->expected);
    c->by_name = NULL;
    c->expected = NULL;
}

/* ---- shapes -------------------------------------------------------------------------- */

void gg_check_shape_text(uint32_t n, const uint64_t *dims, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < n && i < GG_MAX_DIMS && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%" PRIu64, i ? "x" : "", dims[i]);
    if (n == 0) snprintf(out, size, "one value");
}

/* ---- conditions on keys -------------------------------------------------------------- */

/* A comparison of two formulas, or the presence or absence of a key or of a number above 0. */
static bool holds(const check *c, const char *text, size_t len)
{
    char word[200];
    uint64_t a, b;
    snprintf(word, sizeof word, "%.*s", (int)len, text);
    if (word[0] == '~') return !gg_design_positive(&c->d, word + 1);
    if (word[0] == '!' || word[0] == '?')
        return (word[0] == '?') == (gg_design_arch_key(&c->d, word + 1) != NULL);
    size_t n = strcspn(word, "=!<>"), end = n + strspn(word + n, "=!<>");
    if (!gg_design_formula(&c->d, word, n, 0, &a) ||
        !gg_design_formula(&c->d, word + end, strlen(word + end), 0, &b))
        return false;
    if (word[n] == '!') return a != b;
    return (word[n] == '<' && a < b) || (word[n] == '>' && a > b) ||
           (word[end - 1] == '=' && a == b);
}

/* Alternatives, each of which may be several comparisons. */
static bool condition_holds(const check *c, const char *text)
{
    bool all = true;
    for (;; text++) {
        size_t n = strcspn(text, "|&");
        all = all && holds(c, text, n);
        text += n;
        if (*text == '&') continue;
        if (all || !*text) return all;
        all = true;
    }
}

/* Writes a text in which values replace the formulas in braces, and the name "{architecture}". */
static void expand(const check *c, const char *text, char *out, size_t size)
{
    size_t used = 0;
    for (; *text && used + 64 < size; text++) {
        uint64_t v = 0;
        size_t n = *text == '{' ? strcspn(text, "}") : 0;
        if (n && gg_design_formula(&c->d, text + 1, n - 1, 0, &v))
            used += (size_t)snprintf(out + used, size - used, "%" PRIu64, v);
        else if (n && strncmp(text, "{architecture}", n + 1) == 0)
            used += (size_t)snprintf(out + used, size - used, "%s",
                                     c->d.arch ? c->d.arch->name : "?");
        else out[used++] = *text;
        text += n;
    }
    out[used] = 0;
}

/* Whether the architecture has one of these traits. */
static bool has_any(const check *c, const char *traits)
{
    const char *word;
    size_t len;
    while (gg_text_next_word(&traits, &word, &len))
        if (c->d.arch && gg_text_has_word(c->d.arch->traits.text, word, len)) return true;
    return false;
}

void gg_check_limits(check *c, const char *group)
{
    bool broken = false;
    char text[300];
    for (const check_limit *l = gg_check_limit_rows; l->group; l++) {
        const char *traits = l->traits + (l->traits[0] == '!');
        if (strcmp(l->group, group) != 0) continue;
        broken = broken && l->otherwise;
        if (broken || (l->traits[0] && has_any(c, traits) == (traits > l->traits)) ||
            (l->condition[0] && !condition_holds(c, l->condition)))
            continue;
        broken = true;
        expand(c, l->text, text, sizeof text);
        gg_check_say(c, l->level, l->rule, gg_check_at_key(c, l->key), "%s", text);
    }
}

/* ---- what a file is ------------------------------------------------------------------------ */

/* The kind that the record of the architecture states. */
static gg_kind kind_by_record(const gg_arch *a)
{
    static const struct {
        const char *word;
        gg_kind kind;
    } kinds[] = { { "draft", GG_KIND_DRAFT },
                  { "projector", GG_KIND_PROJECTOR },
                  { "control", GG_KIND_CONTROL },
                  { "image", GG_KIND_IMAGE },
                  { "speech", GG_KIND_SPEECH } };
    for (size_t i = 0; a && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(a->kind.text, kinds[i].word) == 0) return kinds[i].kind;
    return GG_KIND_MODEL;
}

static gg_kind kind_by_keys(const gg_meta *meta)
{
    const char *text;
    size_t len;
    if (!meta) return GG_KIND_RECORDS;
    for (const check_kind_word *w = gg_check_kind_words; w->key; w++) {
        const gg_kv *kv = gg_meta_find(meta, w->key);
        if (kv && (w->value[0] == '*' ||
                   (gg_kv_str(kv, &text, &len) && gg_text_has_word(w->value, text, len))))
            return w->kind;
    }
    if (!gg_kv_str(gg_meta_find(meta, "general.architecture"), &text, &len)) return GG_KIND_MODEL;
    return kind_by_record(gg_arch_find(text, len));
}

/* Whether names of tensors decide if it is an image model: no record tells it. */
static bool names_decide(const gg_meta *meta)
{
    const char *name;
    size_t len;
    return kind_by_keys(meta) == GG_KIND_MODEL &&
           !(gg_kv_str(gg_meta_find(meta, "general.architecture"), &name, &len) &&
             gg_arch_find(name, len));
}

/* What a file with these keys and n tensors is, of which some are those of image models. The first
 * shard of a model may have no tensors. */
static gg_kind kind_with_tensors(const gg_meta *meta, size_t n, size_t diffusion)
{
    gg_kind kind = kind_by_keys(meta);
    uint64_t shards;
    if (kind != GG_KIND_MODEL) return kind;
    if (n == 0 && !(gg_kv_u64(gg_meta_find(meta, "split.count"), &shards) && shards > 1)) {
        const gg_kv *tokens = gg_meta_find(meta, "tokenizer.ggml.tokens");
        return tokens && tokens->count ? GG_KIND_VOCABULARY : GG_KIND_EMPTY;
    }
    return diffusion * 2 > n && names_decide(meta) ? GG_KIND_IMAGE : kind;
}

const char *gg_kind_name(gg_kind kind)
{
    static const char *const names[] = { "language model",    "adapter",          "control vector",
                                         "importance matrix", "projector",        "patch",
                                         "vocabulary",        "organ records",    "draft head",
                                         "prediction blocks", "image model",      "speech model",
                                         "checkpoint",        "safetensors file", "empty file" };
    return (unsigned)kind < GG_KIND_COUNT ? names[kind] : "unknown";
}

gg_kind gg_kind_of(const gg_source *s)
{
    static const gg_kind stored[] = { [GG_STORED_FILE] = GG_KIND_TENSORS,
                                      [GG_STORED_MODEL] = GG_KIND_CHECKPOINT,
                                      [GG_STORED_ADAPTER] = GG_KIND_ADAPTER };
    if (gg_source_stored(s)) return stored[gg_source_stored(s)];
    size_t n = gg_source_count(s), diffusion = 0, counted = names_decide(gg_source_meta(s)) ? n : 0;
    for (size_t i = 0; i < counted; i++)
        diffusion += gg_source_tensor(s, i)->a.part == GG_PART_DIFFUSION;
    return kind_with_tensors(gg_source_meta(s), n, diffusion);
}

/* Whether a model has prediction blocks and no block of the trunk before them. */
static bool only_predicts(const check *c)
{
    bool predicts = false;
    if (c->d.trunk == c->d.blocks) return false;
    for (size_t i = 0; i < c->in->n; i++) {
        int64_t block = c->in->tensors[i].a.block;
        if (block < 0) continue;
        if ((uint64_t)block < c->d.trunk) return false;
        predicts = true;
    }
    return predicts;
}

void gg_check_find_architecture(check *c)
{
    bool other = c->d.arch && c->d.arch->kind.line && strcmp(c->d.arch->kind.text, "draft") != 0;
    bool form = gg_design_has(&c->d, "other_form_hc") &&
                gg_design_positive(&c->d, "hyper_connection.count");
    c->arch = gg_arch_is_text(c->d.arch) && !form ? c->d.arch : NULL;
    size_t diffusion = 0;
    for (size_t i = 0; i < c->in->n; i++)
        diffusion += c->in->tensors[i].a.part == GG_PART_DIFFUSION;
    c->kind = kind_with_tensors(c->in->meta, c->in->n, diffusion);
    c->text_model = !other && (c->kind == GG_KIND_MODEL || c->kind == GG_KIND_DRAFT);
    if (c->kind == GG_KIND_MODEL && only_predicts(c)) c->kind = GG_KIND_MTP;
}
