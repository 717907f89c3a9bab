/* gg_check.h - check whether an engine will load a model and whether the model makes sense.
 *
 *     gg_check_report report;
 *     gg_check_options o = { .row = print_finding };
 *     gg_status st = gg_check_model("model.gguf", &o, NULL, &report, &err);
 *     if (st == GG_OK && report.found[GG_CHECK_ERROR] > 0) puts("the model is broken");
 *
 * The rules read only the keys and the list of tensors, so they also work on a pipe and on a file
 * whose data are incomplete. gg_check_verdict sums up: a file is sound only if every rule for files
 * of its kind was applied. Each rule has a name and a reason (gg_check_rule_at and
 * docs/checks.md). What a model must have is derived from the model where possible; tables per
 * architecture supply the rest. The facts are those of llama.cpp v0.5.0. The general rules of
 * organ.h apply.
 */
#ifndef GG_CHECK_H
#define GG_CHECK_H

#include "gg_organ.h"
#include "gg_status.h"
#include "gg_verbs.h"

GG_BEGIN_DECLS

typedef enum gg_check_level {
    GG_CHECK_NOTE,    /* unusual, but works */
    GG_CHECK_WARNING, /* loads, but does not work as intended */
    GG_CHECK_ERROR,   /* an engine refuses the model, or fails when it runs it */
    GG_CHECK_LEVELS
} gg_check_level;

const char *gg_check_level_name(gg_check_level level); /* "note" "warning" "error" */

/* What a file is for. */
typedef enum gg_kind {
    GG_KIND_MODEL,      /* a model that an engine runs */
    GG_KIND_ADAPTER,    /* a LoRA adapter */
    GG_KIND_CONTROL,    /* a control vector */
    GG_KIND_IMATRIX,    /* an importance matrix */
    GG_KIND_PROJECTOR,  /* the part of a multimodal model that encodes images or sound */
    GG_KIND_PATCH,      /* the difference of two models, a patch */
    GG_KIND_VOCABULARY, /* keys with tokens, without tensors */
    GG_KIND_RECORDS,    /* organ records, which have no keys */
    GG_KIND_DRAFT,      /* a draft head: eagle3, dflash and the like, which needs a target model */
    GG_KIND_MTP,        /* multi-token-prediction blocks without the trunk of their model */
    GG_KIND_IMAGE,      /* an image or video model, which llama.cpp does not load */
    GG_KIND_SPEECH,     /* a speech model, likewise */
    GG_KIND_CHECKPOINT, /* a checkpoint that cannot be converted, under its stored names */
    GG_KIND_TENSORS,    /* a safetensors file without the configuration of a model */
    GG_KIND_EMPTY,      /* a GGUF file without tensors and without a vocabulary */
    GG_KIND_COUNT
} gg_kind;

/* Returns "language model", "adapter" and so on; a static string. */
const char *gg_kind_name(gg_kind kind);

/* A finding of a rule. All strings are escaped as gg_escape does. */
typedef struct gg_finding {
    gg_check_level level;
    const char *rule;    /* name of the rule */
    const char *where;   /* a key, a tensor or a block; "" = the whole model */
    const char *message; /* what is wrong, without a trailing period */
} gg_finding;

/* A rule: its name, the highest level of its findings, and why it exists. */
typedef struct gg_check_rule {
    const char *name;
    gg_check_level level;
    const char *reason;
} gg_check_rule;

/* Returns rule i, from 0, or NULL past the last. The rules are static. Use it from any thread. */
const gg_check_rule *gg_check_rule_at(size_t i);

/* What a check found out about a file. */
typedef enum gg_verdict {
    GG_VERDICT_SOUND,    /* all rules for files of its kind were applied; there are no findings */
    GG_VERDICT_FINDINGS, /* at least one rule found something */
    GG_VERDICT_UNCHECKED /* no findings, but not all rules were, or could be, applied */
} gg_verdict;

typedef struct gg_check_options {
    bool data; /* read the weights too, to find NaN, infinities, zeros and repeated blocks */
    /* The model for which the checked model drafts tokens, to check that they fit: NULL = none.
     * Findings have the rule "target". */
    const char *target;
    /* What the file must be: "model", "adapter" or another word that organ-check(1) lists. A file
     * of another kind is an error then. NULL = any. */
    const char *as;
    gg_status (*row)(void *ctx, const gg_finding *row, gg_error *err); /* for each finding */
    void *ctx;
} gg_check_options;

typedef struct gg_check_report {
    /* Notes of the rules "kind" and "unchecked" are not counted: they tell what the file is and
     * what was not judged, and are no findings. */
    size_t found[GG_CHECK_LEVELS];
    bool incomplete; /* the file is cut short, or shards are missing */
    gg_kind kind;
    char worst[320];       /* the first finding of the highest level, escaped; "" = none */
    char unchecked[200];   /* why not all rules were applied, escaped; "" = they were */
    size_t tensors;        /* whose names are known: of a pipe those in its header */
    char architecture[64]; /* escaped; "" if there is none */
} gg_check_report;

/* The verdict of a report, and the same in words: "no findings", "not checked: " and the reason, or
 * the number of findings of each level and the first of the highest. */
gg_verdict gg_check_verdict(const gg_check_report *report);
void gg_check_verdict_text(const gg_check_report *report, char out[700]);

/* Checks a model. Unlike the other verbs it takes what gg_source_open_with accepts, and not a
 * source, because it also judges files that cannot be opened. Findings do not make it fail: look at
 * report->found. A file of another kind, such as an adapter, is checked by the rules of its kind,
 * and a note of the rule "kind" names the kind. What was not checked has a note of the rule
 * "unchecked". Of a pipe only the header is read, unless o->data is set. A GGUF file that is cut
 * short is checked by its header, and a finding describes the rest. If there is no usable header, a
 * finding of the rule "format" is reported and the error returned. GG_EUSAGE for an unknown word in
 * o->as. Uses some hundred KiB per thread besides the header. */
gg_status gg_check_model(const char *spec, const gg_check_options *o, const gg_run *run,
                         gg_check_report *report, gg_error *err);

/* For gg_run.review: runs the rules on a model before it is written. Errors and warnings that its
 * base does not have become notes, of which eight are told one by one.
 *
 * Unless run->lenient is set, a model is refused if keys and tensors contradict each other (the
 * list `contradictions` of rules.txt) because of the run: GG_EFORMAT if the base is a checkpoint,
 * whose config.json then does not describe its tensors, and GG_NO if it is a model that has no such
 * error. Without a base nothing is refused. With run->strict, returns GG_NO if there are errors,
 * including those of the base. */
gg_status gg_check_review(const gg_planned *planned, gg_error *err);

GG_END_DECLS

#endif
