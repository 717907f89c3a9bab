/* check_tensors.c - rules on the list of tensors. With a table of the architecture: tensors that
 * are missing, have a wrong shape for the keys, or are not used by any engine. Without one: blocks
 * that differ from the others, and stacks of experts. */
#include "check_context.h"

#include "base/text.h"
#include "organ/record.h"
#include "organ/tensor_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_OF_A_PART 8 /* tensors of a tower that have a finding each */

/* ---- one word of a table ---------------------------------------------------------------- */

/* The part of the model to which a list of words applies. */
typedef struct place {
    check *c;
    const char *prefix; /* "", "enc." or "dec." */
    int64_t block;      /* -1: outside the blocks */
    uint64_t present;   /* number of tensors that are there */
    bool fused;         /* the last tensor marked with "^" is there */
    bool report;        /* false: only count */
    bool apart;         /* engines expect the block in another file */
} place;

/* One word of a table, parsed. */
typedef struct wanted {
    char rest[64];     /* "attn_q.weight" */
    char mark;         /* 0, or one of "?^|&" */
    const char *shape; /* NULL = any */
    size_t shape_len;
} wanted;

static void full_name(const place *p, const char *rest, char name[160])
{
    if (p->block < 0) snprintf(name, 160, "%s", rest);
    else snprintf(name, 160, "%sblk.%" PRId64 ".%s", p->prefix, p->block, rest);
}

static size_t find_in_place(const place *p, const char *rest)
{
    char name[160];
    full_name(p, rest, name);
    return gg_check_find(p->c, name, strlen(name));
}

static bool parse_wanted(const char *word, size_t len, wanted *w)
{
    size_t n = 0;
    while (n < len && !strchr("?^|&=", word[n])) n++;
    w->mark = n < len && word[n] != '=' ? word[n] : 0;
    const char *equal = memchr(word, '=', len);
    w->shape = equal ? equal + 1 : NULL;
    w->shape_len = equal ? (size_t)(word + len - w->shape) : 0;
    if (n == 0 || n + 8 > sizeof w->rest) return false;
    memcpy(w->rest, word, n);
    w->rest[n] = 0;
    if (word[n - 1] == '.') w->rest[n - 1] = 0;
    else if (!strstr(w->rest, ".bias") && !strstr(w->rest, ".weight"))
        memcpy(w->rest + n, ".weight", 8);
    if (!w->shape) {
        /* encoder and decoder share their shapes with models that have one trunk */
        w->shape = gg_arch_shape_of(w->rest, strlen(w->rest));
        w->shape_len = w->shape ? strlen(w->shape) : 0;
    }
    return true;
}

/* Whether a tensor has that shape. Sides that it does not have count as 1. */
static bool has_shape(const gg_tensor *t, const gg_design_shape *s)
{
    for (uint32_t i = 0; i < GG_MAX_DIMS; i++)
        if ((i < t->n_dims ? t->dims[i] : 1) != s->dims[i]) return false;
    return true;
}

/* Compares a tensor with the formula of its shape. */
static void check_shape_of(const place *p, const gg_tensor *t, const wanted *w)
{
    char want[100], have[100];
    gg_design_shape s;
    if (!w->shape ||
        !gg_design_eval(&p->c->d, w->shape, w->shape_len, p->block < 0 ? 0 : (uint64_t)p->block,
                        &s) ||
        has_shape(t, &s))
        return;
    gg_check_shape_text(s.n, s.dims, want, sizeof want);
    gg_check_shape_text(t->n_dims, t->dims, have, sizeof have);
    say_error(p->c, "tensor-shape", at_tensor(t), "its shape is %s, but the keys require %s (%.*s)",
              have, want, (int)w->shape_len, w->shape);
}

static void want_tensor(place *p, const char *word, size_t len)
{
    check *c = p->c;
    wanted w;
    char name[160];
    if (!parse_wanted(word, len, &w)) return;
    size_t i = find_in_place(p, w.rest);
    p->present += i != SIZE_MAX;
    if (w.mark == '^') p->fused = i != SIZE_MAX;
    if (!p->report || (w.mark == '|' && p->fused) || (w.mark == '&' && !p->fused)) return;
    if (i != SIZE_MAX) {
        c->expected[i] = true;
        check_shape_of(p, &c->in->tensors[i], &w);
    } else if (w.mark != '?' && w.mark != '^') {
        full_name(p, w.rest, name);
        gg_check_say(c, p->apart ? GG_CHECK_WARNING : GG_CHECK_ERROR, "tensor-missing",
                     at_name(name), "this tensor is missing; architecture %.*s requires it",
                     (int)c->d.name_len, c->d.name);
    }
}

/* Of a word "NAME.%.REST" there are as many tensors as the key NAME.block_count tells. */
static void want_numbered(place *p, const char *word, size_t len, const char *mark)
{
    char key[80], one[200];
    size_t at = (size_t)(mark - word);
    snprintf(key, sizeof key, "%.*sblock_count", (int)at, word);
    uint64_t n = gg_design_number_or(&p->c->d, key, 0);
    for (uint64_t i = 0; i < n && i < GG_DESIGN_BLOCKS && p->c->status == GG_OK; i++) {
        int size = snprintf(one, sizeof one, "%.*s%" PRIu64 "%.*s", (int)at, word, i,
                            (int)(len - at - 1), mark + 1);
        want_tensor(p, one, (size_t)size);
    }
}

static void want_tensors(place *p, const char *words)
{
    const char *word;
    size_t len;
    while (gg_text_next_word(&words, &word, &len)) want_tensor(p, word, len);
}

/* Checks query, key and value, which are in one tensor or in three. */
static void want_qkv(place *p, const char *word, size_t len)
{
    char words[400];
    const char *text = gg_arch_qkv_rows(word, len, &len);
    int q = (int)strcspn(text, ":"), k = (int)strcspn(text + q + 1, ":"), v = (int)len - q - k - 2;
    const char *of_k = text + q + 1, *of_v = of_k + k + 1;
    bool fused = find_in_place(p, "attn_qkv.weight") != SIZE_MAX;
    if (fused)
        snprintf(words, sizeof words, "attn_qkv=embd,%.*s+%.*s+%.*s attn_qkv.bias?=%.*s+%.*s+%.*s",
                 q, text, k, of_k, v, of_v, q, text, k, of_k, v, of_v);
    else
        snprintf(words, sizeof words, "attn_q=embd,%.*s attn_k=embd,%.*s attn_v=embd,%.*s", q, text,
                 k, of_k, v, of_v);
    want_tensors(p, words);
    if (fused && find_in_place(p, "attn_qkv.bias") != SIZE_MAX) return;
    snprintf(words, sizeof words, "attn_q.bias?=%.*s attn_k.bias?=%.*s attn_v.bias?=%.*s", q, text,
             k, of_k, v, of_v);
    want_tensors(p, words);
}

/* Engines also accept gate and up in one stack. */
static void want_gate_up(place *p)
{
    bool fused = find_in_place(p, "ffn_gate_up_exps.weight") != SIZE_MAX;
    want_tensors(p, fused ? "ffn_gate_up_exps" : "ffn_gate_exps ffn_up_exps");
}

/* ---- a whole table ------------------------------------------------------------------------ */

static void apply_table(place *p, const char *words)
{
    const char *word;
    size_t len;
    bool active = true;
    while (gg_text_next_word(&words, &word, &len)) {
        if (word[len - 1] == ':')
            active = gg_design_block_is(&p->c->d, p->prefix, (uint64_t)p->block, word, len - 1);
        else if (!active) continue;
        else if (len >= 3 && memcmp(word, "qkv", 3) == 0) want_qkv(p, word, len);
        else if (gg_text_has_word("gate_up_exps", word, len) ||
                 (p->fused && gg_text_has_word("gate_up_exps&", word, len)))
            want_gate_up(p);
        else {
            const char *mark = memchr(word, '%', len);
            if (mark) want_numbered(p, word, len, mark);
            else want_tensor(p, word, len);
        }
    }
}

/* Engines accept scales for any weight. */
static bool is_scale(const check *c, const gg_tensor *t)
{
    static const char *const suffixes[] = { ".input_scale", ".scale" };
    char name[GG_RECORD_NAME + 16];
    for (int k = 0; k < 2; k++) {
        size_t n = strlen(suffixes[k]);
        if (!gg_text_ends(t->name, t->name_len, suffixes[k]) || t->name_len - n > GG_RECORD_NAME)
            continue;
        int len = snprintf(name, sizeof name, "%.*s.weight", (int)(t->name_len - n), t->name);
        size_t i = gg_check_find(c, name, (size_t)len);
        return i != SIZE_MAX && c->expected[i];
    }
    return false;
}

/* Another architecture or part has it: no engine uses it. */
static bool is_unexpected(const check *c, size_t i)
{
    const gg_tensor *t = &c->in->tensors[i];
    if (c->expected[i] || is_scale(c, t)) return false;
    bool beyond = t->a.block >= 0 && memcmp(t->name, "blk.", 4) == 0 &&
                  (uint64_t)t->a.block >= c->d.read;
    return !beyond || c->d.blocks == 0; /* block-count reports these */
}

/* A whole other part, such as the tower of images, has one finding. */
static void check_unexpected(check *c)
{
    size_t of[GG_PART_COUNT] = { 0 };
    for (size_t i = 0; i < c->in->n; i++) of[c->in->tensors[i].a.part] += is_unexpected(c, i);
    for (size_t i = 0; i < c->in->n; i++) {
        const gg_tensor *t = &c->in->tensors[i];
        gg_part part = t->a.part;
        if (of[part] == 0 || !is_unexpected(c, i)) continue;
        if ((part != GG_PART_VISION && part != GG_PART_AUDIO) || of[part] <= MOST_OF_A_PART) {
            say_error(c, "tensor-unexpected", at_tensor(t),
                      "architecture %.*s has no such tensor here, and an engine refuses the model",
                      (int)c->d.name_len, c->d.name);
            continue;
        }
        say_error(c, "tensor-unexpected", at_tensor(t),
                  "it and %zu more tensors are of the part %s, which architecture %.*s does not "
                  "have, and an engine refuses the model",
                  of[part] - 1, gg_part_name(part), (int)c->d.name_len, c->d.name);
        of[part] = 0;
    }
}

/* Without a head, engines return a value of the embedding as the score; without the pooler, that of
 * a head for other values. */
static void check_ranking(check *c)
{
    if (gg_design_number_or(&c->d, "pooling_type", 0) != 4 || gg_check_tensor(c, "cls.weight"))
        return;
    if (!gg_check_tensor(c, "cls.output.weight"))
        say_warning(c, "tensor-missing", at_name("cls.output.weight"),
                    "by pooling_type the model ranks, but it has neither this tensor nor "
                    "cls.weight, so that its scores mean nothing");
    else if (gg_text_is(c->d.name, c->d.name_len, "bert"))
        say_warning(c, "tensor-missing", at_name("cls.weight"),
                    "by pooling_type the model ranks, but its pooler is missing, and engines "
                    "compute scores without it");
}

/* Some engines look only for one tensor to tell whether the trunk or the prediction blocks are in
 * another file. Then they do without the other tensors too. */
static bool is_apart(const check *c, int64_t block)
{
    char name[64];
    if (c->d.trunk == c->d.blocks) return false;
    if ((uint64_t)block < c->d.trunk)
        return gg_design_has(&c->d, "trunk_apart") && !gg_check_tensor(c, "blk.0.attn_norm.weight");
    snprintf(name, sizeof name, "blk.%" PRIu64 ".nextn.eh_proj.weight", c->d.trunk);
    return gg_design_has(&c->d, "prediction_apart") && !gg_check_tensor(c, name);
}

/* Checks all tensors of one block. Prediction blocks may be missing. */
static void apply_block(check *c, const char *prefix, int64_t block)
{
    place p = { .c = c, .prefix = prefix, .block = block };
    apply_table(&p, c->arch->block.text);
    /* a block without any tensors is reported by block-missing */
    if (p.present == 0 && prefix[0] == 0) return;
    p.report = true;
    p.apart = prefix[0] == 0 && is_apart(c, block);
    apply_table(&p, c->arch->block.text);
}

void gg_check_table_rules(check *c)
{
    static const char *const none[] = { "", NULL }, *const coder[] = { "enc.", "dec.", NULL };
    if (!c->arch) return;
    place p = { .c = c, .prefix = "", .block = -1, .report = true };
    apply_table(&p, c->arch->globals.text);
    const char *const *prefix = strstr(c->arch->block.text, "enc:") ? coder : none;
    for (; *prefix; prefix++) {
        uint64_t n = c->d.read;
        bool decoder = strcmp(*prefix, "dec.") == 0;
        if (decoder && !strstr(c->arch->block.text, "dec:")) continue;
        if (decoder) n = gg_design_number_or(&c->d, "decoder_block_count", n);
        if (decoder && n > c->d.blocks)
            say_error(c, "block-count", gg_check_at_key(c, "decoder_block_count"),
                      "it is %" PRIu64 ", but an engine loads at most block_count, %" PRIu64, n,
                      c->d.blocks);
        for (uint64_t b = 0; b < n && b < GG_DESIGN_BLOCKS && c->status == GG_OK; b++)
            apply_block(c, *prefix, (int64_t)b);
    }
    check_unexpected(c);
    check_ranking(c);
}

/* ---- blocks ------------------------------------------------------------------------------- */

#define FEW 8 /* findings of one kind that are listed; the rest are counted */

/* A tensor of a block of the text model ("blk.N."). */
typedef struct part {
    int64_t block;
    const char *rest; /* name after "blk.N." */
    size_t len;
    const gg_tensor *t;
} part;

/* The tensors of one block: parts [first, first + n). */
typedef struct group {
    int64_t block;
    size_t first, n;
    uint64_t signature; /* hash of their names */
    size_t alike;       /* blocks with the same names */
} group;

typedef struct body {
    check *c;
    part *parts;
    size_t n_parts;
    group *groups;
    size_t n_groups;
} body;

static int order_rests(const part *a, const part *b)
{
    return gg_text_order(a->rest, a->len, b->rest, b->len);
}

static int by_part_block(const void *a, const void *b)
{
    const part *x = a, *y = b;
    int d = (x->block > y->block) - (x->block < y->block);
    return d ? d : order_rests(x, y);
}

static int by_signature(const void *a, const void *b)
{
    const group *x = a, *y = b;
    int d = (x->signature > y->signature) - (x->signature < y->signature);
    return d ? d : (x->block > y->block) - (x->block < y->block);
}

static bool gather_parts(body *b)
{
    const check *c = b->c;
    b->parts = calloc(c->in->n + 1, sizeof *b->parts);
    b->groups = calloc(c->in->n + 1, sizeof *b->groups);
    if (!b->parts || !b->groups) return false;
    for (size_t i = 0; i < c->in->n; i++) {
        const gg_tensor *t = &c->in->tensors[i];
        const gg_anatomy *a = &t->a;
        if (a->block < 0 || t->name_len < 5 || memcmp(t->name, "blk.", 4) != 0) continue;
        b->parts[b->n_parts++] = (part){ a->block, t->name + a->role_at, t->name_len - a->role_at,
                                         t };
    }
    qsort(b->parts, b->n_parts, sizeof *b->parts, by_part_block);
    for (size_t i = 0; i < b->n_parts; i++) {
        const part *p = &b->parts[i];
        if (i == 0 || p->block != p[-1].block)
            b->groups[b->n_groups++] = (group){ p->block, i, 0, GG_HASH, 0 };
        group *g = &b->groups[b->n_groups - 1];
        g->n++;
        g->signature = gg_hash(gg_hash(g->signature, p->rest, p->len), "", 1); /* and a NUL */
    }
    return true;
}

static void say_missing_block(check *c, uint64_t block)
{
    if (block < c->d.trunk)
        say_error(c, "block-missing", at_block((int64_t)block),
                  "the model has no tensor of this block; block_count is %" PRIu64, c->d.blocks);
    else
        say_error(c, "block-missing", at_block((int64_t)block),
                  "the model has no tensor of this prediction block, which nextn_predict_layers "
                  "declares; without "
                  "such blocks it must be 0, and block_count %" PRIu64,
                  c->d.trunk);
}

/* Compares the numbers of the blocks with block_count. */
static void check_block_numbers(body *b)
{
    check *c = b->c;
    uint64_t missing = 0, next = 0, trunk = 0, stack,
             needed = is_apart(c, (int64_t)c->d.trunk) ? c->d.trunk : c->d.read;
    /* its blocks are used several times, and block_count counts the uses */
    if (gg_design_has(&c->d, "cycles") &&
        gg_design_number(&c->d, "hrm.layers_per_stack", 0, &stack) && stack < c->d.trunk / 2)
        needed = 2 * stack;
    for (size_t i = 0; i < b->n_groups; i++) trunk += (uint64_t)b->groups[i].block < c->d.trunk;
    if (trunk == 0 && c->d.trunk < c->d.blocks && b->n_groups > 0) {
        say_note(
            c, "block-count", at_name(""),
            "it has only prediction blocks and can be used only with the model they belong to");
        return;
    }
    for (size_t i = 0; i <= b->n_groups; i++) {
        uint64_t at = i < b->n_groups ? (uint64_t)b->groups[i].block : needed,
                 end = at < needed ? at : needed;
        for (; next < end && missing < FEW; next++, missing++) say_missing_block(c, next);
        if (next < end) missing += end - next; /* there may be billions */
        next = at + 1;
    }
    if (missing > FEW)
        say_error(c, "block-missing", at_name(""), "%" PRIu64 " blocks are missing in total",
                  missing);
    if (b->n_groups == 0) return;
    uint64_t last = (uint64_t)b->groups[b->n_groups - 1].block;
    if (last >= c->d.blocks)
        say_error(c, "block-count", at_name(""),
                  "there are tensors of block %" PRIu64 ", but block_count is %" PRIu64, last,
                  c->d.blocks);
    else if (last >= c->d.read)
        say_error(c, "block-count", gg_check_at_key(c, "nextn_predict_layers"),
                  "it leaves %" PRIu64
                  " blocks that engines read, but there are tensors of block %" PRIu64
                  "; architecture %.*s has no prediction blocks",
                  c->d.read, last, (int)c->d.name_len, c->d.name);
}

/* Without these tensors a block is none of prediction. */
static void check_prediction_heads(const body *b)
{
    static const char *const heads[] = { "eh_proj", "enorm", "hnorm" };
    check *c = b->c;
    char name[80];
    for (size_t i = 0; i < b->n_groups; i++) {
        uint64_t block = (uint64_t)b->groups[i].block;
        if (block < c->d.trunk || block >= c->d.blocks) continue;
        for (size_t k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "blk.%" PRIu64 ".nextn.%s.weight", block, heads[k]);
            if (gg_check_tensor(c, name)) continue;
            say_error(c, "tensor-missing", at_name(name),
                      "this tensor is missing; a prediction block needs it");
            return;
        }
    }
}

/* Counts the names that `many` has and `one` lacks, and finds the first. Returns SIZE_MAX if
 * `one` has a name that `many` lacks. */
static size_t count_lacking(const body *b, const group *one, const group *many, const part **first)
{
    size_t i = 0, missing = 0;
    *first = NULL;
    for (size_t k = 0; k < many->n; k++) {
        const part *p = &b->parts[many->first + k];
        int d = i < one->n ? order_rests(&b->parts[one->first + i], p) : 1;
        if (d < 0) return SIZE_MAX;
        if (d == 0) {
            i++;
        } else {
            if (!*first) *first = p;
            missing++;
        }
    }
    return i == one->n ? missing : SIZE_MAX;
}

/* Of an architecture that is known, other rules tell what a block needs. They do not know which
 * biases a model has: engines load each that is there. */
static void check_odd_block(body *b, const group *one, const group *many)
{
    const part *first;
    bool known = b->c->arch != NULL;
    gg_check_level level = GG_CHECK_ERROR;
    bool lacks = true;
    size_t missing = count_lacking(b, one, many, &first);
    if (!first || missing > 2) {
        lacks = false;
        if ((one->block == 0 && !known) || count_lacking(b, many, one, &first) > 2 || !first)
            return;
        if (first->t->a.known) level = GG_CHECK_WARNING;
    }
    if (known && !gg_text_ends(first->rest, first->len, ".bias")) return;
    if (known) level = GG_CHECK_WARNING;
    gg_check_say(b->c, level, "block-roles", at_block(one->block),
                 "it %s %.*s, which %zu other blocks of its kind %s", lacks ? "lacks" : "has",
                 (int)(first->len < 100 ? first->len : 100), first->rest, many->alike,
                 lacks ? "have" : "lack");
}

/* Compares each block whose set of names is unique with the sets that several blocks share. */
static void check_block_roles(body *b)
{
    const group *kinds[FEW];
    size_t n_kinds = 0, n = 0;
    group *list = calloc(b->n_groups + 1, sizeof *list);
    if (!list) return;
    for (size_t i = 0; i < b->n_groups; i++)
        if ((uint64_t)b->groups[i].block < b->c->d.trunk) list[n++] = b->groups[i];
    qsort(list, n, sizeof *list, by_signature);
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && list[end].signature == list[i].signature) end++;
        for (size_t k = i; k < end; k++) list[k].alike = end - i;
        if (end - i >= 2 && n_kinds < FEW) kinds[n_kinds++] = &list[i];
        i = end;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n_kinds && list[i].alike == 1; k++)
            check_odd_block(b, &list[i], kinds[k]);
    free(list);
}

/* Compares the stacks of experts with expert_count. */
static void check_stacks(check *c)
{
    uint64_t count = gg_design_number_or(&c->d, "expert_count", 0), n;
    for (size_t i = 0; i < c->in->n; i++) {
        const gg_tensor *t = &c->in->tensors[i];
        if (!gg_is_expert_stack(t, &n) || n == count) continue;
        say_error(c, "experts", at_tensor(t),
                  "it has %" PRIu64 " experts, but expert_count is %" PRIu64, n, count);
    }
}

void gg_check_block_rules(check *c)
{
    body b = { .c = c };
    if (c->d.blocks == 0) return;
    if (!gather_parts(&b)) {
        c->status = gg_fail(c->err, GG_ENOMEM, "no memory to check %zu tensors", c->in->n);
    } else if (b.n_groups > 0 || !gg_design_has(&c->d, "no_blk")) {
        check_block_numbers(&b);
        if (gg_design_has(&c->d, "prediction_heads")) check_prediction_heads(&b);
        check_block_roles(&b);
        if (!c->arch) check_stacks(c);
    }
    free(b.parts);
    free(b.groups);
}
