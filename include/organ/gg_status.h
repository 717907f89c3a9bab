/* gg_status.h - how libgguf reports failure.
 *
 * Errors are values. A function that can fail returns a gg_status and takes a
 * gg_error* as its last argument (never NULL). The library never exits, aborts
 * or prints. The FIRST error of a run is kept: once err->status is set, later
 * gg_fail calls return their own status but leave the record alone, so the
 * line that a tool prints names the cause and not a consequence.
 */
#ifndef GG_STATUS_H
#define GG_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GG_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define GG_PRINTF(fmt, first)
#endif

/* name, exit status of a tool that ends with it, text */
#define GG_STATUS_LIST(X) \
    X(GG_OK, 0, "done") \
    X(GG_NO, 1, "the answer is no") \
    X(GG_EUSAGE, 2, "wrong usage") \
    X(GG_EFORMAT, 3, "malformed input") \
    X(GG_EUNSUPPORTED, 3, "unsupported input") \
    X(GG_EIO, 4, "input/output failure") \
    X(GG_ENOMEM, 4, "out of memory") \
    X(GG_ECANCELLED, 4, "interrupted")

typedef enum gg_status {
#define GG_STATUS_ENUM(name, exit_code, text) name,
    GG_STATUS_LIST(GG_STATUS_ENUM)
#undef GG_STATUS_ENUM
} gg_status;

/* The exit status of a program that ends with it: 0..4, see GG_STATUS_LIST. */
int gg_status_exit(gg_status status);

#define GG_ERROR_NO_OFFSET UINT64_MAX

/* Which argument of a call an error is about, or which one would fix it. The texts of the
 * library name no options of a command line, as a program may have others or none; a program
 * that has some can add their names. */
typedef enum gg_hint {
    GG_HINT_NONE,
    GG_HINT_CLASSES,       /* gg_select_types */
    GG_HINT_PARTS,         /* gg_select_parts */
    GG_HINT_LAYERS,        /* gg_select_layers */
    GG_HINT_EXPERTS,       /* gg_select_experts */
    GG_HINT_TENSORS,       /* gg_select_tensors */
    GG_HINT_DESELECT,      /* a selection that leaves the tensor out */
    GG_HINT_BLOCK_TENSORS, /* gg_select_tensors with the names of a block */
    GG_HINT_EVERY_TENSOR,  /* gg_select_tensors with "*" */
    GG_HINT_LIST_TENSORS,  /* gg_extract_list */
    GG_HINT_LIST_PAIRS,    /* gg_extract_list, gg_match_tensors */
    GG_HINT_REPLACE,       /* gg_run.force */
    GG_HINT_SPLIT_EXPERTS, /* gg_extract_options.split_experts */
    GG_HINT_MAP,           /* gg_map_parse */
    GG_HINT_CONVERT,       /* GG_MATCH_CONVERT */
    GG_HINT_RETYPE,        /* GG_MATCH_RETYPE or GG_MATCH_CONVERT */
    GG_HINT_ADD,           /* gg_match_options.add */
    GG_HINT_ADD_SCALE,     /* the same, and a selection that has the scale */
    GG_HINT_MISMATCHES,    /* gg_match_tensors, skip_mismatched */
    GG_HINT_ANCESTOR,      /* gg_blend_parse */
    GG_HINT_COPY_KEYS,     /* gg_transplant_options.copy_kv */
    GG_HINT_NEW_MODEL,     /* gg_transplant instead of gg_transplant_in_place */
    GG_HINT_UNDO,          /* the undo stream of gg_transplant_in_place */
    GG_HINT_RESTORE,       /* the undo stream as donor of gg_transplant_in_place */
    GG_HINT_DTYPE,         /* the dtype of gg_assemble_options or gg_purify_options */
    GG_HINT_FALLBACK,      /* gg_assemble_options.fallback */
    GG_HINT_SHARD_SIZE,    /* gg_assemble_options.shard_size */
    GG_HINT_WHOLE_STACK,   /* no dtype, all experts, or experts taken apart */
    GG_HINT_DELETE_KEY,    /* gg_keys_options, a key to delete */
    GG_HINT_RECOVER,       /* gg_keys_recover */
    GG_HINT_STRICT,        /* gg_run.strict */
    GG_HINT_SAMPLE,        /* gg_measure_options.sample */
    GG_HINT_HASHES,        /* gg_check_hash */
    GG_HINT_COUNT
} gg_hint;

/* Where and why something failed. Start from GG_ERROR_INIT. Strings are
 * NUL-terminated and already made safe for a terminal (control and non-UTF-8
 * bytes escaped as \xNN), whatever the input held. */
typedef struct gg_error {
    gg_status status;
    int sys_errno;     /* errno of a failed system call, else 0 */
    uint64_t offset;   /* byte in `file`, or GG_ERROR_NO_OFFSET */
    char file[512];    /* "" = none; "<stdin>" for a pipe */
    char tensor[160];  /* "" = none */
    char what[320];    /* the reason, no trailing period */
    char fix[200];     /* what to do about it, may be "" */
    gg_hint what_hint; /* the argument that `what` is about */
    gg_hint fix_hint;  /* the argument that `fix` is about */
} gg_error;

/* clang-format off */
#define GG_ERROR_INIT { .status = GG_OK, .offset = GG_ERROR_NO_OFFSET }
/* clang-format on */

/* Record the first error: status and printf-style reason. Returns `status`
 * always, so that `return gg_fail(err, GG_EFORMAT, "...")` reads well. */
gg_status gg_fail(gg_error *err, gg_status status, const char *fmt, ...) GG_PRINTF(3, 4);

/* As gg_fail with GG_EIO, and the current errno's text appended. */
gg_status gg_fail_errno(gg_error *err, const char *fmt, ...) GG_PRINTF(2, 3);

/* Add the place to an error already recorded; a place once set stays. They
 * return err->status, so a caller up the stack can add what it knows:
 *     return gg_at_file(err, path);                                        */
gg_status gg_at_file(gg_error *err, const char *path);
gg_status gg_at_tensor(gg_error *err, const char *name, size_t name_len);

/* What the user can do about it, if nothing was said yet. */
gg_status gg_fix(gg_error *err, const char *fmt, ...) GG_PRINTF(2, 3);

/* One line: "TOOL: FILE: tensor 'T': offset N: WHAT; FIX" without newline,
 * parts that are not set left out, cut to size; where no FIX was set, what the errno
 * suggests. Returns its length. */
size_t gg_error_line(const gg_error *err, const char *tool, char *out, size_t size);

/* Escape `len` bytes for a TSV cell or a terminal: backslash \\, tab \t, newline
 * \n, other control bytes (C0, DEL, C1) and bytes that are not valid UTF-8 \xNN,
 * bidirectional controls too. Always NUL-terminates when size > 0; returns the
 * length the whole would have (as snprintf). */
size_t gg_escape(const char *bytes, size_t len, char *out, size_t size);

/* ---- stopping ----------------------------------------------------------- */

/* Ask all work of the library in this process to stop, on whatever thread it runs:
 * each call that reads, writes or computes for long returns GG_ECANCELLED within some
 * megabytes' time, and what it had written under a temporary name is removed. May be
 * called from a signal handler and from any thread. Calls that begin later are
 * cancelled too, until gg_cancel_clear; clear only when none is running. */
void gg_cancel(void);
void gg_cancel_clear(void);

/* GG_ECANCELLED once gg_cancel was called, for loops of your own; else GG_OK. */
gg_status gg_cancelled(gg_error *err);

#ifdef __cplusplus
}
#endif

#endif
