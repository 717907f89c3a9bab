/* api.h - what the parts of organ-api share.
 *
 *     organ-api.c    configuration, token, routes
 *     api_http.c     the request as CGI gives it, answers, ranges of files
 *     api_model.c    models and organ directories
 *     api_args.c     which tools and options there are; arguments to a vector
 *     api_tools.c    the tables of api_args.c
 *     api_spool.c    jobs as folders of the spool, and their queue
 *     api_run.c      the supervisor of one job
 *     api_job.c      the routes of jobs
 *
 * A handler answers or fails. Failing is api_fail: the first one is kept, later
 * ones are ignored, and main sends it as JSON.
 */
#ifndef API_H
#define API_H

#include "base/buf.h"  /* text that grows */
#include "json/json.h" /* the one JSON reader and writer */

#include <sys/types.h>

#define API_PARTS 5                /* v1, models, NAME, ... */
#define API_BODY ((size_t)1 << 20) /* bytes of a JSON body at most */

typedef struct api {
    /* configuration */
    const char *bin;   /* folder of the tools */
    char *data;        /* real path of the data folder */
    char *spool;       /* real path of the spool */
    unsigned jobs;     /* so many at once */
    uint64_t max_body; /* bytes of an upload at most */
    /* request */
    const char *method, *query, *range;
    char *path;
    const char *part[API_PARTS + 1]; /* of the path, between slashes */
    size_t parts;
    uint64_t length; /* of the body; UINT64_MAX when not told */
    bool reading;    /* the body, or some of it, was taken from stdin */
    /* failure */
    int status; /* 0 = none so far */
    char what[700];
    const char *allow; /* methods, for 405 */
} api;

/* ---- api_http.c ---- */

uint64_t api_now(void); /* ms since 1970 */

/* Keep the first failure; returns false, so that `return api_fail(...)` reads well. */
bool api_fail(api *a, int status, const char *fmt, ...) GG_PRINTF(3, 4);

/* A library's error as HTTP: malformed 400, leads out 403, not there 404, exists
 * 409, no space 507, else 500. */
bool api_fail_error(api *a, const gg_error *err);

bool api_request(api *a); /* method, path, length from the environment */
bool api_is(const api *a, const char *method);
bool api_allow(api *a, const char *methods);        /* "GET, HEAD"; false and 405 otherwise */
bool api_query_has(const api *a, const char *pair); /* "force=1" */
bool api_body(api *a, gg_buf *body);                /* all of it, API_BODY at most */

void api_answer(const api *a, int status, const char *type, const char *extra, const gg_buf *body);
void api_answer_failure(const api *a); /* after a body that nobody read */
/* A header for `extra`: where /v1/WHAT/NAME is on this server. */
void api_location(char *out, size_t size, const char *what, const char *name);
/* The file, or the range of it that was asked for. Closes fd. */
bool api_answer_file(api *a, int fd, const char *type);

/* ---- names ---- */

#define API_NAME 200 /* bytes of a name at most */
/* [A-Za-z0-9._-]+, the first no "." or "-". */
bool api_name_ok(const char *name, size_t len);

/* ---- api_model.c ---- */
bool api_models(api *a);
bool api_organs(api *a);
bool api_files(api *a);

/* ---- api_args.c ---- */

typedef enum api_kind {
    API_FLAG,
    API_IN,  /* something that exists: NAME, or a file in it */
    API_OUT, /* a NAME to make */
    API_U64,
    API_SIZE, /* 2G, 500M */
    API_F64,
    API_WORD, /* one of the option's words */
    API_LIST, /* numbers and ranges: 0-3,17 or 10-15=20-25 */
    API_TEXT, /* globs and the like: UTF-8 without control bytes */
} api_kind;

typedef struct api_option {
    const char *name; /* without -- */
    api_kind kind;
    const char *words; /* of API_WORD: " a b c " */
} api_option;

typedef struct api_tool {
    const char *name;
    const api_option *options; /* ends with a NULL name */
    unsigned max_args;         /* what is no option: always API_IN */
    bool selects;
    const char *json; /* takes --json: "" always, "list" with --list only; NULL not at all */
    bool force;
} api_tool;

extern const api_tool api_tools[]; /* ends with a NULL name */
extern const api_option api_common[], api_selection[];

typedef struct api_vector { /* an argument vector; items and strings owned */
    char **items;
    size_t n;
} api_vector;

void api_vector_free(api_vector *v);

/* The vector for {"tool": ..., "arguments": ...}: every option allowed, every value
 * of its kind, every path beneath the data folder. */
bool api_arguments(api *a, const gg_json_node *request, api_vector *v);

/* Is it there, with all that a tool would open along with it (files of an organ
 * directory, other shards), beneath the data folder? */
gg_status api_check_input(const api *a, const char *path, gg_error *err);

/* The paths of a vector made above once more: links may have come since. */
gg_status api_check_paths(const api *a, const api_vector *v, gg_error *err);

/* ---- api_spool.c ---- */

#define API_ID 22 /* hex digits: 14 of microseconds, 8 at random */

typedef enum api_state {
    API_QUEUED,
    API_RUNNING,
    API_DONE,
    API_FAILED,
    API_STOPPED,
    API_LOST
} api_state;

typedef struct api_job {
    char id[API_ID + 1];
    int dir;     /* the job's folder */
    int lock;    /* held by the supervisor for as long as it lives */
    int control; /* FIFO: 's' stop, 'w' look for a slot again */
} api_job;

bool api_spool_make(api *a); /* its folders, where they are not there yet */
int api_spool_open(const api *a, const char *name, int flags); /* SPOOL/name, -1 on failure */
gg_status api_write_file(int dir, const char *name, const gg_buf *text,
                         gg_error *err); /* whole or not at all */

bool api_id_ok(const char *id);
/* A job's folder (file NULL) or a file of it; -1 on failure. */
int api_job_open(const api *a, const char *id, const char *file, int flags);
bool api_job_alive(const api *a, const char *id); /* has it a supervisor? */
void api_job_poke(const api *a, const char *id, char what);

/* A job that asks for v and waits for its supervisor; j's descriptors are -1 before. */
gg_status api_job_make(const api *a, const api_vector *v, api_job *j, gg_error *err);
void api_job_close(api_job *j);
void api_job_discard(const api *a, const char *id);

/* The smallest id in the queue that has a supervisor; false when none. */
bool api_queue_first(const api *a, char id[API_ID + 1], size_t *waiting);
bool api_queue_leave(const api *a, const char *id);

/* ---- api_run.c ---- */

/* Start the supervisor of a job, which lives on when we and the web server end. */
bool api_supervise(api *a, const api_job *job, api_vector *v);

/* ---- api_job.c ---- */

bool api_jobs(api *a); /* the routes below /v1/jobs */

#endif
