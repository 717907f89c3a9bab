/* dtype_rules.c - chooses types by globs, where the first match is used, and by a preset; and
 * counts what an importance matrix has. */
#include "dtype_rules.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/lines.h"
#include "base/nearest.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "organ/gg_organ.h"
#include "organ/select.h"
#include "quant/quant.h"
#include "write/keys.h"
#include "write/verb_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- importance matrices -------------------------------------------------------------------- */

#define NAMED 4         /* tensors in the note of those without an entry */
#define NAMED_SETTLED 6 /* tensors in the note of columns without weights */

/* Counts the columns of t whose weights are replaced. */
static gg_status add_settled(gg_imatrix_use *u, const gg_tensor *t, gg_error *err)
{
    gg_weights w;
    char shown[160];
    gg_status st = gg_weights_open(&w, u->imatrix, t, 0, 0, err);
    size_t n = st == GG_OK ? (size_t)(w.of.columns * w.of.matrices) : 0;
    size_t settled = n ? gg_settle_weights(t->dtype, w.of.mean2, n, NULL) : 0;
    gg_weights_close(&w);
    if (settled == 0) return st;
    u->columns += settled;
    if (u->settled++ >= NAMED_SETTLED) return st;
    size_t at = strlen(u->settled_names);
    gg_escape(t->name, t->name_len, shown, sizeof shown);
    snprintf(u->settled_names + at, sizeof u->settled_names - at, "%s%.40s (%zu)", at ? ", " : "",
             shown, settled);
    return st;
}

gg_status gg_imatrix_use_add(gg_imatrix_use *u, const gg_tensor *t, gg_error *err)
{
    char shown[160];
    bool has = false;
    if (!u->imatrix || !gg_is_quantized(t->dtype)) return GG_OK;
    gg_status st = gg_imatrix_check(u->imatrix, t, false, &has, err);
    if (st == GG_OK && has) st = add_settled(u, t, err);
    if (st != GG_OK) return st;
    u->used += has;
    bool rows = strcmp(t->name, "token_embd.weight") == 0 ||
                strcmp(t->name, "per_layer_token_embd.weight") == 0;
    u->rows = u->rows || rows;
    if (has || rows || u->lacking++ >= NAMED) return GG_OK;
    size_t at = strlen(u->names);
    gg_escape(t->name, t->name_len, shown, sizeof shown);
    snprintf(u->names + at, sizeof u->names - at, "%s%.60s", at ? ", " : "", shown);
    return GG_OK;
}

void gg_imatrix_use_note(const gg_imatrix_use *u, const gg_run *run)
{
    if (!u->imatrix) return;
    if (u->used + u->lacking == 0 && !u->rows)
        gg_note(run, "no tensor is encoded, so the importance matrix has no effect");
    if (u->lacking)
        gg_note(run, "the importance matrix lacks %zu of the %zu tensors that are encoded: %s%s",
                u->lacking, u->used + u->lacking, u->names, u->lacking > NAMED ? ", ..." : "");
    char more[96] = "";
    if (u->settled > NAMED_SETTLED)
        snprintf(more, sizeof more, ", and %zu more tensors; %llu columns in all",
                 u->settled - NAMED_SETTLED, (unsigned long long)u->columns);
    if (u->settled)
        gg_note(run,
                "the importance matrix has no weights for some columns, which count as equally "
                "important: %s%s",
                u->settled_names, more);
}

gg_status gg_imatrix_review(const gg_imatrix *imatrix, const gg_plan *p, size_t *used,
                            const gg_run *run, gg_error *err)
{
    gg_imatrix_use u = { .imatrix = imatrix };
    gg_status st = GG_OK;
    for (size_t i = 0; i < p->n && st == GG_OK; i++)
        if (p->tensors[i].make) st = gg_imatrix_use_add(&u, &p->tensors[i].t, err);
    if (st == GG_OK) gg_imatrix_use_note(&u, run);
    if (used) *used = u.used;
    return st;
}

gg_status gg_imatrix_keys(const gg_imatrix *imatrix, gg_meta *meta, gg_error *err)
{
    if (!imatrix) return GG_OK;
    gg_imatrix_info i = gg_imatrix_info_of(imatrix);
    uint32_t entries = i.entries > UINT32_MAX ? UINT32_MAX : (uint32_t)i.entries;
    uint32_t chunks = i.chunks > UINT32_MAX ? UINT32_MAX : (uint32_t)i.chunks;
    gg_meta_delete_imatrix(meta);
    gg_status st = gg_meta_set_str(meta, "quantize.imatrix.file", i.file, strlen(i.file), err);
    if (st == GG_OK && *i.dataset)
        st = gg_meta_set_str(meta, "quantize.imatrix.dataset", i.dataset, strlen(i.dataset), err);
    if (st == GG_OK) st = gg_meta_set_u32(meta, "quantize.imatrix.entries_count", entries, err);
    if (st == GG_OK && chunks)
        st = gg_meta_set_u32(meta, "quantize.imatrix.chunks_count", chunks, err);
    return st;
}

/* ---- rules ---------------------------------------------------------------------------------- */

#define KEEP GG_DTYPE_KEEP

typedef struct rule {
    char *glob; /* in gg_dtype_rules.text */
    uint32_t dtype;
    bool wild;
} rule;

struct gg_dtype_rules {
    char *text;
    rule *list;
    size_t n;
    size_t *order; /* rules without wildcards sorted by name, then those with, each in order */
    size_t n_exact;
    const gg_preset *preset; /* for tensors that no glob matches; NULL = none */
    uint32_t fallback;       /* KEEP = none */
    const gg_imatrix *imatrix;
    uint32_t *wanted; /* per tensor of the plan: see gg_dtype_rules_wanted */
    size_t n_wanted;
};

/* ---- the text, with files of rules inserted -------------------------------------------- */

/* Far above the rules of any model. */
#define MAX_TEXT ((size_t)64 << 20)

static char *trimmed(char *line)
{
    line += strspn(line, " \t\r\n");
    size_t n = strlen(line);
    while (n && strchr(" \t\r\n,", line[n - 1])) line[--n] = '\0';
    return line;
}

static gg_status add_text_item(gg_buf *to, const char *item, gg_error *err)
{
    gg_status st = to->data ? gg_buf_text(to, ",", err) : GG_OK;
    if (st == GG_OK && to->len > MAX_TEXT)
        st = gg_fail(err, GG_EUSAGE, "there are more than 64 MiB of rules");
    return st == GG_OK ? gg_buf_text(to, item, err) : st;
}

/* "tensor<TAB>type<TAB>..." */
static gg_status add_table_row(gg_buf *to, char *line, size_t number, gg_error *err)
{
    char *type = strchr(line, '\t');
    if (!type || type == line)
        return gg_fail(err, GG_EUSAGE, "line %zu has no tensor and type", number);
    *type++ = '\0';
    type[strcspn(type, "\t\r\n")] = '\0';
    if (strpbrk(line, ",*?[")) /* it would be read as a pattern, or as two rules */
        return gg_fail(err, GG_EUSAGE, "line %zu: the name contains ',', '*', '?' or '['", number);
    gg_status st = add_text_item(to, line, err);
    if (st == GG_OK) st = gg_buf_text(to, "=", err);
    return st == GG_OK ? gg_buf_text(to, type, err) : st;
}

typedef struct rules_file {
    gg_buf *to;
    bool table;
} rules_file;

static gg_status add_rules_line(void *ctx, char *line, size_t number, gg_error *err)
{
    rules_file *f = ctx;
    bool header = number == 1 && strncmp(line, "tensor\ttype", 11) == 0;
    f->table = f->table || header;
    if (header || line[0] == '#') return GG_OK;
    char *item = f->table ? line : trimmed(line);
    if (item[0] == '@')
        return gg_fail(err, GG_EUSAGE, "line %zu: a file of rules cannot name another", number);
    if (f->table) return add_table_row(f->to, item, number, err);
    return item[0] ? add_text_item(f->to, item, err) : GG_OK;
}

static gg_status add_rules_file(gg_buf *to, const char *path, gg_error *err)
{
    size_t before = to->len;
    rules_file f = { .to = to };
    gg_lines from = { path, "the file of rules", MAX_TEXT };
    gg_status st = gg_each_line(&from, add_rules_line, &f, err);
    if (st != GG_OK || to->len > before) return st;
    gg_fail(err, GG_EUSAGE, "the file has no rules");
    return gg_at_file(err, path);
}

/* Copies `text`, whose items are separated by commas, with each item "@FILE" replaced by the items
 * of the file: one or more per line, separated by commas. Empty lines and lines that begin with #
 * are skipped. If the first line is the header of a table whose first columns are tensor and type,
 * each line gives one rule. The caller frees *out. GG_EUSAGE names the file and line of a mistake;
 * GG_EIO if a file cannot be read. */
static gg_status read_rules_text(const char *text, char **out, gg_error *err)
{
    gg_buf to = GG_BUF_INIT;
    char *copy = strdup(text), *next = copy;
    gg_status st = copy ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the rules of types");
    while (next && st == GG_OK) {
        char *item = next;
        next = strchr(item, ',');
        if (next) *next++ = '\0';
        st = item[0] == '@' ? add_rules_file(&to, item + 1, err) : add_text_item(&to, item, err);
    }
    free(copy);
    if (st == GG_OK) st = gg_buf_reserve(&to, 0, err);
    if (st == GG_OK) *out = gg_buf_take(&to, NULL);
    else gg_buf_free(&to);
    return st;
}

/* ---- parsing ----------------------------------------------------------------------- */

gg_status gg_dtype_rules_type(const char *name, const char *about, const gg_imatrix *imatrix,
                              uint32_t *dtype, gg_error *err)
{
    char shown[64], meant[GG_MEANT];
    gg_escape(name, strlen(name), shown, sizeof shown);
    const gg_dtype_info *info = gg_dtype_by_name(name);
    if (!info) {
        gg_fail(err, GG_EUSAGE, "'%s' is not a tensor type%s", shown,
                gg_meant(gg_dtype_near(name), meant));
        gg_about(err, about);
        return gg_fix(
            err, "use a type such as f32 f16 bf16 q8_0 q6_k q5_k q4_k q3_k q2_k iq4_nl iq4_xs");
    }
    *dtype = info->id;
    bool needs = gg_encode_needs_imatrix(info->id);
    if (needs && !imatrix) {
        gg_fail(err, GG_EUSAGE, "%s cannot be encoded without an importance matrix", info->name);
        gg_about(err, about);
        return gg_fix_by(err, "imatrix",
                         "give one, or choose another type, for example q2_k or iq4_xs");
    }
    if ((!needs && !gg_can_encode(info->id)) ||
        !(gg_is_quantized(info->id) || info->id == GG_F32 || info->id == GG_F16 ||
          info->id == GG_BF16 || info->id == GG_F64)) {
        gg_fail(err, GG_EUSAGE, "%s cannot be encoded", info->name);
        gg_about(err, about);
        return gg_fix(err, "choose another type, for example q8_0 or f16");
    }
    return GG_OK;
}

static gg_status parse_preset(const char *name, gg_dtype_rules *r, gg_error *err)
{
    const gg_preset *p = gg_preset_by_name(name);
    if (p && !r->preset) {
        r->preset = p;
        return GG_OK;
    }
    char shown[80], meant[GG_MEANT];
    gg_escape(name, strlen(name), shown, sizeof shown);
    if (p) gg_fail(err, GG_EUSAGE, "'%s' is a second preset; give one", shown);
    else
        gg_fail(err, GG_EUSAGE, "'%s' is neither a preset nor GLOB=TYPE%s", shown,
                gg_meant(gg_preset_near(name), meant));
    gg_about(err, "dtype");
    return gg_fix(err, "give a preset such as q4_k_m, or rules such as 'blk.*.ffn_*=q4_k,*=f16'");
}

static int by_name(const void *a, const void *b)
{
    const rule *x = *(const rule *const *)a, *y = *(const rule *const *)b;
    int c = strcmp(x->glob, y->glob);
    return c ? c : x < y ? -1 : x > y;
}

/* GLOB=TYPE, or the name of a preset. */
static gg_status parse_item(char *item, gg_dtype_rules *r, gg_error *err)
{
    char *eq = strrchr(item, '=');
    if (!eq) return parse_preset(item, r, err);
    if (eq == item) {
        gg_fail(err, GG_EUSAGE, "'%s' has no pattern before the =", item);
        gg_about(err, "dtype");
        return gg_fix(err, "expected GLOB=TYPE, for example 'blk.*=q4_k'");
    }
    *eq = '\0';
    rule *by = &r->list[r->n++];
    by->glob = item;
    by->wild = strpbrk(item, "*?[") != NULL;
    by->dtype = KEEP;
    if (strcmp(eq + 1, "keep") == 0) return GG_OK;
    return gg_dtype_rules_type(eq + 1, "dtype", r->imatrix, &by->dtype, err);
}

/* Sorts the rules, so that a model with a rule for every tensor needs no quadratic search. */
static gg_status sort_rules(gg_dtype_rules *r, gg_error *err)
{
    const rule **by = calloc(r->n + 1, sizeof *by);
    r->order = calloc(r->n + 1, sizeof *r->order);
    if (!by || !r->order) {
        free(by);
        return gg_fail(err, GG_ENOMEM, "no memory for the rules of types");
    }
    size_t n = 0;
    for (size_t k = 0; k < r->n; k++)
        if (!r->list[k].wild) by[r->n_exact++] = &r->list[k];
    qsort(by, r->n_exact, sizeof *by, by_name);
    for (; n < r->n_exact; n++) r->order[n] = (size_t)(by[n] - r->list);
    for (size_t k = 0; k < r->n; k++)
        if (r->list[k].wild) r->order[n++] = k;
    free(by);
    return GG_OK;
}

gg_status gg_dtype_rules_parse(const char *text, const char *fallback, const gg_imatrix *imatrix,
                               gg_dtype_rules **out, gg_error *err)
{
    *out = NULL;
    if (!text && fallback) {
        gg_fail(err, GG_EUSAGE, "a fallback type has no effect without a rule that chooses types");
        gg_about(err, "fallback");
        return gg_fix_by(err, "dtype", "add one");
    }
    if (!text) return GG_OK;
    gg_dtype_rules *r = calloc(1, sizeof *r);
    if (!r) return gg_fail(err, GG_ENOMEM, "no memory for the rules of types");
    size_t items = 1;
    r->fallback = KEEP;
    r->imatrix = imatrix;
    gg_status st = read_rules_text(text, &r->text, err);
    for (const char *s = r->text; s && *s; s++) items += *s == ',';
    if (st == GG_OK && !(r->list = calloc(items, sizeof *r->list)))
        st = gg_fail(err, GG_ENOMEM, "no memory for the rules of types");
    for (char *item = r->text; item && st == GG_OK;) {
        char *comma = strchr(item, ',');
        if (comma) *comma = '\0';
        st = parse_item(item, r, err);
        item = comma ? comma + 1 : NULL;
    }
    if (st == GG_OK) st = sort_rules(r, err);
    if (st == GG_OK && fallback)
        st = gg_dtype_rules_type(fallback, "fallback", imatrix, &r->fallback, err);
    if (st != GG_OK) {
        gg_dtype_rules_free(r);
        return st;
    }
    *out = r;
    return GG_OK;
}

gg_status gg_dtype_rules_none(const gg_imatrix *imatrix, gg_dtype_rules **out, gg_error *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return gg_fail(err, GG_ENOMEM, "no memory for the rules of types");
    (*out)->fallback = KEEP;
    (*out)->imatrix = imatrix;
    return GG_OK;
}

void gg_dtype_rules_free(gg_dtype_rules *r)
{
    if (!r) return;
    free(r->text);
    free(r->list);
    free(r->order);
    free(r->wanted);
    free(r);
}

/* ---- which tensors ------------------------------------------------------------------ */

/* Whether the glob spells out the delicate role of the tensor, so that the tensor is meant. */
static bool spares_delicate(const gg_tensor *t, const rule *r)
{
    const char *part;
    return gg_is_delicate(t, &part) && !(part && strstr(r->glob, part));
}

static bool leave_alone(const gg_tensor *t, const rule *r)
{
    if (r->dtype == KEEP || r->dtype == t->dtype) return true;
    if (!r->wild) return false;
    return !gg_is_matrix(t) || gg_is_integer(t->dtype) || spares_delicate(t, r);
}

static bool row_fits(uint32_t dtype, uint64_t row)
{
    return row % gg_dtype_get(dtype)->block_elems == 0;
}

/* The type to write, which is the tensor's own if it is left unchanged. */
static gg_status choose_by_rule(const gg_dtype_rules *r, const rule *by, const gg_tensor *t,
                                uint32_t *dtype, gg_error *err)
{
    *dtype = t->dtype;
    if (leave_alone(t, by)) return GG_OK;
    uint64_t row = t->n_dims ? t->dims[0] : 1;
    if (row_fits(by->dtype, row)) {
        *dtype = by->dtype;
        return GG_OK;
    }
    if (r->fallback != KEEP && row_fits(r->fallback, row)) {
        *dtype = r->fallback;
        return GG_OK;
    }
    uint32_t last = r->fallback != KEEP ? r->fallback : by->dtype;
    gg_fail(err, GG_EUSAGE, "its rows of %llu values are not whole blocks of %s",
            (unsigned long long)row, gg_dtype_get(last)->name);
    gg_fix_by(err, "fallback",
              r->fallback == KEEP
                  ? "give a fallback type such as q8_0 or f16, or a rule for this tensor"
                  : "give another fallback type, for example f16");
    return gg_at_tensor(err, t->name, t->name_len);
}

/* Types that engines use only for activations, and doubles. They are valid in a file, but
 * llama.cpp crashes on weights in them. */
static bool is_no_weight(uint32_t dtype)
{
    return dtype == GG_Q8_1 || dtype == GG_Q8_K || dtype == GG_F64;
}

static void note_rule(const rule *r, bool used, const gg_run *run)
{
    char shown[80];
    gg_escape(r->glob, strlen(r->glob), shown, sizeof shown);
    if (!used)
        gg_note(run, "no tensor matches '%s' (patterns match whole names; try '*%s*')", shown,
                shown);
    else if (r->dtype != KEEP && is_no_weight(r->dtype))
        gg_note(run, "engines do not run models with weights in %s", gg_dtype_get(r->dtype)->name);
}

/* ---- notes ----------------------------------------------------------------------------- */

#define SHOWN 8        /* roles named in the note */
#define UNUSED_SHOWN 8 /* rules named that match nothing */

typedef struct summary {
    size_t changed, left, twice; /* twice: of those changed, quantized before */
    size_t roles, more;          /* number of roles named, and of matrices with other roles */
    char role[SHOWN][64];
} summary;

/* "blk.*.ffn_gate_inp.weight" of "blk.7.ffn_gate_inp.weight". */
static void glob_of_role(const gg_tensor *t, char out[64])
{
    char name[160];
    gg_escape(t->name, t->name_len, name, sizeof name);
    size_t n = strncmp(name, "blk.", 4) == 0 ? strspn(name + 4, "0123456789") : 0;
    if (n) snprintf(out, 64, "blk.*%.56s", name + 4 + n);
    else snprintf(out, 64, "%.63s", name);
}

static void add_left(summary *s, const gg_tensor *t)
{
    char role[64];
    glob_of_role(t, role);
    s->left++;
    for (size_t i = 0; i < s->roles; i++)
        if (strcmp(s->role[i], role) == 0) return;
    if (s->roles == SHOWN) s->more++;
    else memcpy(s->role[s->roles++], role, sizeof role);
}

static void count_choice(summary *s, const gg_tensor *t, uint32_t dtype)
{
    if (dtype == t->dtype) {
        if (gg_is_matrix(t)) add_left(s, t);
        return;
    }
    s->changed++;
    s->twice += gg_is_quantized(t->dtype) && gg_is_quantized(dtype);
}

static void note_summary(const summary *s, const gg_run *run)
{
    char text[SHOWN * 68] = "";
    size_t at = 0;
    for (size_t i = 0; i < s->roles; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? ", " : ": ", s->role[i]);
    if (s->more) snprintf(text + at, sizeof text - at, " ...");
    if (s->left) gg_note(run, "%zu re-encoded, %zu left%s", s->changed, s->left, text);
    if (s->twice)
        gg_note(run,
                "%zu of the re-encoded tensors were quantized before; encoding the "
                "F16 or F32 model gives better quality",
                s->twice);
}

/* ---- fallbacks ------------------------------------------------------------------------ */

#define FALLBACK_SHOWN 4 /* of each: types that are given, row lengths, types that are wanted */

/* Tensors whose rows do not fit the type that the preset has for them. */
typedef struct fallbacks {
    size_t n, counts[FALLBACK_SHOWN]; /* of all, and by given type */
    uint64_t given[FALLBACK_SHOWN], rows[FALLBACK_SHOWN], wanted[FALLBACK_SHOWN];
    size_t n_given, n_rows, n_wanted;
} fallbacks;

/* The index of a number in a list, to which it is added if there is room; else FALLBACK_SHOWN. */
static size_t fallback_index(uint64_t list[FALLBACK_SHOWN], size_t *n, uint64_t number)
{
    size_t i = 0;
    while (i < *n && list[i] != number) i++;
    if (i == *n && i < FALLBACK_SHOWN) list[(*n)++] = number;
    return i;
}

static void add_fallback(fallbacks *f, const gg_tensor *t, uint32_t given, uint32_t wanted)
{
    size_t i = fallback_index(f->given, &f->n_given, given);
    f->n++;
    if (i < FALLBACK_SHOWN) f->counts[i]++;
    fallback_index(f->rows, &f->n_rows, t->dims[0]);
    fallback_index(f->wanted, &f->n_wanted, wanted);
}

/* "13 tensors as Q5_0, 3 as Q8_0: their rows of 320 do not fit Q4_K or Q6_K" */
static void fallback_text(const fallbacks *f, char out[500])
{
    size_t at = 0, named = 0;
    for (size_t i = 0; i < f->n_given; named += f->counts[i++])
        at += (size_t)snprintf(out + at, 500 - at, "%s%zu%s as %s", i ? ", " : "", f->counts[i],
                               i                   ? ""
                               : f->counts[i] == 1 ? " tensor"
                                                   : " tensors",
                               gg_dtype_name((uint32_t)f->given[i]));
    if (named < f->n)
        at += (size_t)snprintf(out + at, 500 - at, ", %zu in other types", f->n - named);
    at += (size_t)snprintf(out + at, 500 - at, ": their rows of ");
    for (size_t i = 0; i < f->n_rows; i++)
        at += (size_t)snprintf(out + at, 500 - at, "%s%llu", i ? ", " : "",
                               (unsigned long long)f->rows[i]);
    at += (size_t)snprintf(out + at, 500 - at, " do not fit ");
    for (size_t i = 0; i < f->n_wanted; i++)
        at += (size_t)snprintf(out + at, 500 - at, "%s%s", i ? " or " : "",
                               gg_dtype_name((uint32_t)f->wanted[i]));
}

/* Tells which tensors did not get the type of the preset, or refuses that. */
static gg_status tell_fallbacks(const fallbacks *f, const gg_run *run, gg_error *err)
{
    char text[500];
    if (f->n == 0) return GG_OK;
    fallback_text(f, text);
    if (!run || !run->strict) {
        gg_note(run, "%s", text);
        return GG_OK;
    }
    gg_fail(err, GG_NO, "%s", text);
    return gg_fix_by(err, "strict", "choose a type whose blocks fit, or write it anyway");
}

uint32_t gg_dtype_rules_wanted(const gg_dtype_rules *r, size_t i)
{
    return r && i < r->n_wanted ? r->wanted[i] : KEEP;
}

/* ---- choosing -------------------------------------------------------------------------- */

/* A preset alone, in a model of which it changes no tensor. */
static gg_status nothing_to_encode(const gg_dtype_rules *r, size_t n, gg_error *err)
{
    gg_fail(
        err, GG_NO,
        "all %zu tensors keep their types: %s encodes only matrices whose names end in .weight, "
        "and none of small and delicate roles",
        n, r->preset->name);
    gg_about(err, "dtype");
    return gg_fix_by(err, "list", "name the tensors to encode them, as in '*=f16'");
}

static gg_status nothing_matches(const gg_dtype_rules *r, size_t n, gg_error *err)
{
    char shown[80];
    if (r->n == 0) return nothing_to_encode(r, n, err);
    gg_escape(r->list[0].glob, strlen(r->list[0].glob), shown, sizeof shown);
    gg_fail(err, GG_NO, "no tensor matches '%s'%s", shown, r->n > 1 ? " or another pattern" : "");
    gg_about(err, "dtype");
    return gg_fix_by(err, "list", "patterns match whole names, as in '*%s*'", shown);
}

/* The first rule that matches; r->n if none does. */
static size_t find_rule(const gg_dtype_rules *r, const char *name)
{
    size_t lo = 0, hi = r->n_exact, found = r->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strcmp(r->list[r->order[mid]].glob, name) < 0) lo = mid + 1;
        else hi = mid;
    }
    if (lo < r->n_exact && strcmp(r->list[r->order[lo]].glob, name) == 0) found = r->order[lo];
    for (size_t i = r->n_exact; i < r->n && r->order[i] < found; i++)
        if (gg_glob(r->list[r->order[i]].glob, name)) return r->order[i];
    return found;
}

gg_status gg_dtype_rules_fixed(const gg_dtype_rules *r, const gg_tensor *t, bool *fixed,
                               uint32_t *dtype, gg_error *err)
{
    size_t k = r ? find_rule(r, t->name) : 0;
    *fixed = r && k < r->n;
    *dtype = t->dtype;
    return *fixed ? choose_by_rule(r, &r->list[k], t, dtype, err) : GG_OK;
}

bool gg_dtype_rules_preset(const gg_dtype_rules *r)
{
    return r && r->preset;
}

static void note_rules(const gg_dtype_rules *r, const bool *used, const gg_run *run)
{
    size_t unused = 0;
    for (size_t k = 0; k < r->n; k++)
        if (used[k] || unused++ < UNUSED_SHOWN) note_rule(&r->list[k], used[k], run);
    if (unused > UNUSED_SHOWN)
        gg_note(run, "%zu more rules match no tensor", unused - UNUSED_SHOWN);
}

/* Chooses the dtypes of n tensors of a model with keys `meta`. */
static gg_status choose_all(gg_dtype_rules *r, const gg_tensor *list, size_t n, const gg_meta *meta,
                            const gg_run *run, uint32_t *dtypes, gg_error *err)
{
    bool *used = calloc(r->n + 1, sizeof *used), any = false;
    gg_status st = used ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the rules of types");
    summary s = { 0 };
    fallbacks f = { 0 };
    const char *part;
    for (size_t i = 0; i < n; i++) r->wanted[i] = dtypes[i] = list[i].dtype;
    gg_preset_model model = { list, n, meta, r->imatrix != NULL };
    if (st == GG_OK && r->preset) st = gg_preset_choose(r->preset, &model, dtypes, r->wanted, err);
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        size_t k = find_rule(r, list[i].name);
        any = any || k < r->n || (r->preset && !gg_is_delicate(&list[i], &part));
        if (k < r->n) {
            used[k] = true;
            st = choose_by_rule(r, &r->list[k], &list[i], &dtypes[i], err);
            r->wanted[i] = dtypes[i];
        }
        if (r->wanted[i] == dtypes[i]) r->wanted[i] = KEEP;
        else add_fallback(&f, &list[i], dtypes[i], r->wanted[i]);
        if (st == GG_OK) count_choice(&s, &list[i], dtypes[i]);
    }
    if (st == GG_OK && !any) st = nothing_matches(r, n, err);
    if (st == GG_OK) note_rules(r, used, run);
    if (st == GG_OK) st = tell_fallbacks(&f, run, err);
    if (st == GG_OK) note_summary(&s, run);
    free(used);
    return st;
}

gg_status gg_dtype_rules_apply(gg_dtype_rules *r, gg_plan *p, const gg_meta *meta,
                               gg_computations *list, size_t *changed, const gg_run *run,
                               gg_error *err)
{
    gg_tensor *tensors = gg_plan_list(p, 0, p->n, err);
    uint32_t *dtypes = calloc(p->n + 1, sizeof *dtypes);
    free(r->wanted);
    r->wanted = calloc(p->n + 1, sizeof *r->wanted);
    r->n_wanted = r->wanted ? p->n : 0;
    gg_status st = tensors && dtypes && r->wanted
                       ? GG_OK
                       : gg_fail(err, GG_ENOMEM, "no memory for the rules of types");
    *changed = 0;
    if (st == GG_OK) st = choose_all(r, tensors, p->n, meta, run, dtypes, err);
    for (size_t i = 0; i < p->n && st == GG_OK; i++) {
        if (dtypes[i] == tensors[i].dtype) continue;
        st = gg_compute_retype(&p->tensors[i], dtypes[i], p->verify, list, err);
        ++*changed;
    }
    free(tensors);
    free(dtypes);
    return st;
}

gg_status gg_dtype_rules_keys(const gg_dtype_rules *r, const gg_plan *p, gg_meta *meta,
                              gg_error *err)
{
    if (r->preset) {
        gg_status st = gg_preset_keys(r->preset, meta, err);
        return st == GG_OK ? gg_imatrix_keys(r->imatrix, meta, err) : st;
    }
    gg_status st = gg_plan_type_keys(p, meta, err);
    bool kept = false;
    for (size_t i = 0; i < p->n && !kept; i++)
        kept = !p->tensors[i].make && gg_is_quantized(p->tensors[i].t.dtype);
    if (!kept) gg_meta_delete_imatrix(meta);
    return st == GG_OK ? gg_imatrix_keys(r->imatrix, meta, err) : st;
}
