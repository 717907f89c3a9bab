/* check_target.c - whether a file fits the model with which it is used: a draft model (an eagle3 or
 * dflash head, prediction blocks in a file of their own, or any small model), a projector, an
 * adapter, or a control vector.
 *
 * Source: llama.cpp v0.5.0, common/speculative.cpp and the loaders of the heads. */
#include "check_context.h"

#include "base/error.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define RULE "target"
#define MOST_DIFFERENT 128 /* tokens that one vocabulary may have more */
#define FIRST_COMPARED 5   /* the tokens before are not compared */
#define MOST_TOKENS (1u << 28)

/* ---- vocabularies --------------------------------------------------------------------------- */

static bool same_value(const gg_kv *a, const gg_kv *b)
{
    return a->type == b->type && a->count == b->count && a->size == b->size &&
           memcmp(a->data, b->data, a->size) == 0;
}

static void compare_tokens(check *head, const gg_kv *ours, const gg_kv *theirs)
{
    uint64_t at = 0, other = 0, n = ours->count, m = theirs->count, most = n > m ? n - m : m - n;
    const char *a, *b;
    size_t a_len, b_len;
    if (most > MOST_DIFFERENT)
        say_error(head, RULE, at_key(ours),
                  "it has %" PRIu64 " tokens, but the target has %" PRIu64
                  "; engines accept a difference of %d",
                  n, m, MOST_DIFFERENT);
    for (uint64_t i = 0; i < n && i < m; i++) {
        if (!gg_kv_next_str(ours, &at, &a, &a_len) || !gg_kv_next_str(theirs, &other, &b, &b_len))
            return;
        if (i < FIRST_COMPARED || (a_len == b_len && memcmp(a, b, a_len) == 0)) continue;
        say_error(head, RULE, at_key(ours), "token %" PRIu64 " is another one than in the target",
                  i);
        return;
    }
}

static void compare_vocabularies(check *head, const check *target)
{
    static const char *const keys[] = { "tokenizer.ggml.model", "tokenizer.ggml.bos_token_id",
                                        "tokenizer.ggml.eos_token_id",
                                        "tokenizer.ggml.add_bos_token",
                                        "tokenizer.ggml.add_eos_token" };
    const gg_kv *ours, *theirs;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        ours = gg_design_key(&head->d, keys[i]);
        theirs = gg_design_key(&target->d, keys[i]);
        if (ours && theirs && !same_value(ours, theirs))
            say_error(head, RULE, at_key(ours), "it differs from that of the target");
    }
    ours = gg_design_key(&head->d, "tokenizer.ggml.tokens");
    theirs = gg_design_key(&target->d, "tokenizer.ggml.tokens");
    if (ours && theirs && ours->type == GG_TYPE_ARR && theirs->type == GG_TYPE_ARR)
        compare_tokens(head, ours, theirs);
    if (!theirs) gg_check_unchecked(head, "the target has no vocabulary to compare with");
}

/* ---- heads ---------------------------------------------------------------------------------- */

/* Compares a key of the head with a key of the target. */
static void expect_equal(check *head, const char *key, const check *target, const char *other)
{
    uint64_t ours, theirs;
    if (gg_design_number(&head->d, key, 0, &ours) &&
        gg_design_number(&target->d, other, 0, &theirs) && ours != theirs)
        say_error(head, RULE, gg_check_at_key(head, key),
                  "it is %" PRIu64 ", but %s of the target is %" PRIu64, ours, other, theirs);
}

/* The layers of the target whose outputs the head reads. */
static void check_layers(check *head, const check *target)
{
    const gg_kv *kv = gg_design_arch_key(&head->d, "target_layers");
    uint64_t layer;
    for (uint64_t i = 0; kv && kv->type == GG_TYPE_ARR && i < kv->count && i < 512; i++)
        if (gg_design_number(&head->d, "target_layers", i, &layer) && layer > target->d.trunk)
            say_error(head, RULE, at_key(kv),
                      "it names layer %" PRIu64 ", but the target has %" PRIu64 " blocks", layer,
                      target->d.trunk);
}

/* Tells of numbers of d2t that are not tokens of the target, and of tokens that are there twice,
 * which the draft then never proposes. */
static gg_status check_numbers(check *head, const gg_tensor *t, gg_data *d, uint64_t vocab,
                               uint8_t *seen)
{
    uint64_t twice = 0, zeros = 0, first = 0;
    for (uint64_t i = 0; i < t->dims[0]; i++) {
        int64_t id;
        gg_status st = gg_data_read(d, i * sizeof id, &id, sizeof id, head->err);
        if (st != GG_OK) return st;
        if (id < 0 || (uint64_t)id >= vocab) {
            say_error(head, RULE, at_tensor(t),
                      "number %" PRIu64 " is %" PRId64 ", but the target has %" PRIu64 " tokens", i,
                      id, vocab);
            return head->status;
        }
        zeros += id == 0;
        uint8_t bit = (uint8_t)(1 << (id & 7));
        if (seen[id >> 3] & bit && twice++ == 0) first = (uint64_t)id;
        seen[id >> 3] |= bit;
    }
    if (zeros == t->dims[0] && zeros > 1)
        say_error(head, RULE, at_tensor(t),
                  "all of its %" PRIu64 " numbers are 0, so that every draft is token 0", zeros);
    else if (twice)
        say_error(head, RULE, at_tensor(t),
                  "%" PRIu64 " of its numbers are there before, for example %" PRIu64
                  "; each token of the draft needs a token of its own",
                  twice, first);
    return head->status;
}

/* d2t has the number that each token of the head's own vocabulary has in the target. */
static gg_status check_map(check *head, gg_source *s, const check *target)
{
    size_t index = gg_check_find(head, "d2t", 3);
    uint64_t vocab = gg_design_vocabulary(&target->d);
    if (index == SIZE_MAX || head->status != GG_OK) return head->status;
    const gg_tensor *t = &head->in->tensors[index];
    if (t->dtype != GG_I64 || vocab == 0 || vocab > MOST_TOKENS || !gg_source_seekable(s))
        return head->status;
    uint8_t *seen = calloc((size_t)(vocab / 8 + 1), 1);
    if (!seen) return gg_fail(head->err, GG_ENOMEM, "no memory for %" PRIu64 " tokens", vocab);
    gg_data d;
    gg_status st = gg_data_open(s, index, &d, head->err);
    if (st == GG_OK) {
        st = check_numbers(head, t, &d, vocab, seen);
        gg_data_close(&d);
    }
    free(seen);
    return st == GG_OK ? head->status : st;
}

static bool same_architecture(const check *a, const check *b)
{
    return a->d.name && b->d.name && a->d.name_len == b->d.name_len &&
           memcmp(a->d.name, b->d.name, a->d.name_len) == 0;
}

static void compare_heads(check *head, const check *target)
{
    if (gg_design_has(&head->d, "three_targets")) {
        expect_equal(head, "target_hidden_size", target, "embedding_length");
        if (!gg_check_tensor(head, "token_embd.weight"))
            expect_equal(head, "embedding_length", target, "embedding_length");
    } else if (gg_design_has(&head->d, "wide_output")) {
        expect_equal(head, "embedding_length_out", target, "embedding_length");
    } else if (head->kind != GG_KIND_MODEL) {
        expect_equal(head, "embedding_length", target, "embedding_length");
    }
    if (head->kind == GG_KIND_MTP) {
        if (head->d.trunk != target->d.trunk)
            say_error(head, RULE, gg_check_at_key(head, "block_count"),
                      "the blocks follow a trunk of %" PRIu64
                      " blocks, but the target has %" PRIu64,
                      head->d.trunk, target->d.trunk);
        if (!same_architecture(head, target))
            say_error(head, RULE, at_name("general.architecture"),
                      "prediction blocks fit only the architecture of their model");
    }
    check_layers(head, target);
}

/* ---- heads alone --------------------------------------------------------------------------- */

/* The rows of output.weight: those of d2t, or else one per token. */
static void check_output_rows(check *c)
{
    const gg_tensor *out = gg_check_tensor(c, "output.weight"), *map = gg_check_tensor(c, "d2t");
    uint64_t vocab = gg_design_vocabulary(&c->d), rows;
    if (!out) return;
    rows = out->dims[1];
    if (map && rows != map->dims[0])
        say_error(c, "tensor-shape", at_tensor(map),
                  "it has %" PRIu64 " numbers, but output.weight has %" PRIu64 " rows",
                  map->dims[0], rows);
    else if (!map && vocab > 0 && rows != vocab)
        say_error(c, "tensor-shape", at_tensor(out),
                  "it has %" PRIu64 " rows for %" PRIu64
                  " tokens, and no tensor d2t tells which tokens they are",
                  rows, vocab);
}

void gg_check_head_rules(check *c)
{
    const gg_kv *kv = gg_design_arch_key(&c->d, "target_layers");
    uint64_t layer;
    check_output_rows(c);
    for (uint64_t i = 0; kv && kv->type == GG_TYPE_ARR && i < kv->count && i < 512; i++)
        if (!gg_kv_u64_at(kv, i, &layer)) {
            say_error(c, "key-value", at_key(kv), "layer %" PRIu64 " of the list is below 0", i);
            return;
        }
}

/* ---- projectors, adapters, control vectors -------------------------------------------------- */

static void compare_projector(check *head, const check *target)
{
    static const char *const parts[] = { "vision", "audio" };
    uint64_t width = 0, embd = gg_design_number_or(&target->d, "embedding_length", 0);
    size_t i, unknown = 0;
    for (size_t k = 0; k < 2; k++) {
        if (!gg_check_projector_output(head, parts[k], &i, &width)) continue;
        if (i == SIZE_MAX || embd == 0) unknown++;
        else if (width != embd)
            say_error(head, RULE, at_tensor(&head->in->tensors[i]),
                      "the width of the output is %" PRIu64
                      ", but the embedding_length of the target is %" PRIu64,
                      width, embd);
    }
    if (unknown)
        gg_check_unchecked(
            head, "the width of its output is not known, so it was not compared with the target");
}

/* Compares a pair of matrices with the matrix that it changes. */
static void compare_pair(check *head, const check *target, const gg_tensor *a)
{
    static const char end[] = ".lora_a";
    char name[300];
    size_t stem = a->name_len - strlen(end);
    bool embedding = gg_text_is(a->name, stem, "token_embd.weight");
    int n = snprintf(name, sizeof name, "%.*s.lora_b", (int)stem, a->name);
    size_t k = gg_check_find(target, a->name, stem);
    if (k == SIZE_MAX) {
        say_error(head, RULE, at_tensor(a), "the target has no tensor of the name before .lora_a");
        return;
    }
    if (embedding && !gg_check_tensor(target, "output.weight"))
        say_error(head, RULE, at_tensor(a),
                  "the embeddings of the target are its head too, and engines abort when a pair "
                  "changes them: fold the adapter into the target");
    const gg_tensor *b = (size_t)n < sizeof name ? gg_check_tensor(head, name) : NULL,
                    *w = &target->in->tensors[k];
    uint64_t in = a->dims[embedding ? 1 : 0], out = b ? b->dims[1] : 0;
    if (in != w->dims[embedding ? 1 : 0] || (b && out != w->dims[embedding ? 0 : 1]) ||
        a->dims[2] != w->dims[2])
        say_error(head, RULE, at_tensor(a),
                  "the pair changes a matrix of %" PRIu64 " by %" PRIu64
                  ", but that of the target has %" PRIu64 " by %" PRIu64,
                  embedding ? out : in, embedding ? in : out, w->dims[0], w->dims[1]);
}

static void compare_architectures(check *head, const check *target)
{
    if (head->d.name && target->d.name && !same_architecture(head, target))
        say_error(head, RULE, at_name("general.architecture"),
                  "it differs from that of the target (%.*s)",
                  (int)(target->d.name_len < 64 ? target->d.name_len : 64), target->d.name);
}

static void compare_adapter(check *head, const check *target)
{
    compare_architectures(head, target);
    for (size_t i = 0; i < head->in->n; i++)
        if (gg_text_ends(head->in->tensors[i].name, head->in->tensors[i].name_len, ".lora_a"))
            compare_pair(head, target, &head->in->tensors[i]);
}

static void compare_control(check *head, const check *target)
{
    uint64_t embd = gg_design_number_or(&target->d, "embedding_length", 0),
             blocks = gg_design_number_or(&target->d, "block_count", 0);
    if (embd == 0) gg_check_unchecked(head, "the target has no embedding_length to compare with");
    for (size_t i = 0; i < head->in->n; i++) {
        const gg_tensor *t = &head->in->tensors[i];
        uint64_t layer = gg_check_direction_layer(t);
        if (layer && embd && t->dims[0] != embd) {
            say_error(head, RULE, at_tensor(t),
                      "it has %" PRIu64
                      " values, but the embedding_length of the target is %" PRIu64,
                      t->dims[0], embd);
            return;
        }
        if (layer && blocks && layer >= blocks)
            say_warning(head, RULE, at_tensor(t),
                        "no engine adds it, as the target has blocks 0 to %" PRIu64 " only",
                        blocks - 1);
    }
}

static gg_status compare(check *head, gg_source *s, const check *target)
{
    switch (head->kind) {
    case GG_KIND_PROJECTOR: compare_projector(head, target); return head->status;
    case GG_KIND_ADAPTER: compare_adapter(head, target); return head->status;
    case GG_KIND_CONTROL: compare_control(head, target); return head->status;
    case GG_KIND_MODEL:
    case GG_KIND_DRAFT:
    case GG_KIND_MTP: break;
    default:
        gg_check_unchecked(head, "a file of this kind cannot be compared with a target");
        return head->status;
    }
    compare_vocabularies(head, target);
    compare_heads(head, target);
    return check_map(head, s, target);
}

gg_status gg_check_head_data(check *head, gg_source *s)
{
    gg_status st = gg_check_open(head);
    if (st == GG_OK) st = check_map(head, s, head);
    gg_check_close(head);
    return st;
}

static bool may_be_target(gg_kind kind)
{
    return kind == GG_KIND_MODEL || kind == GG_KIND_DRAFT || kind == GG_KIND_VOCABULARY ||
           kind == GG_KIND_CHECKPOINT;
}

gg_status gg_check_target(check *head, gg_source *s, const char *spec)
{
    gg_source *theirs = NULL;
    gg_error changed = GG_ERROR_INIT;
    gg_source_options watched = { .changed = &changed };
    gg_status st = gg_source_open_with(spec, &watched, &theirs, head->err);
    size_t n = st == GG_OK ? gg_source_count(theirs) : 0;
    gg_check_input in = { st == GG_OK ? gg_source_meta(theirs) : NULL,
                          n ? gg_source_tensor(theirs, 0) : NULL, n, 1 };
    check target = { .in = &in, .err = head->err };
    if (st == GG_OK && (!in.meta || !head->in->meta))
        st = gg_fail(head->err, GG_EUSAGE, "organ records have no keys to compare");
    if (st == GG_OK) st = gg_check_open(&target);
    if (st == GG_OK) st = gg_check_open(head);
    if (st == GG_OK && !may_be_target(gg_kind_of(theirs)))
        say_error(head, RULE, at_name(""), "the target is not a language model but: %s",
                  gg_kind_name(gg_kind_of(theirs)));
    else if (st == GG_OK) {
        gg_check_find_architecture(&target);
        st = compare(head, s, &target);
    }
    gg_check_close(&target);
    gg_check_close(head);
    gg_source_close(theirs);
    if (st == GG_OK) gg_error_merge(head->err, &changed);
    return st == GG_OK ? changed.status : st;
}
