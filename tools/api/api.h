/* api.h - what the parts of organ-api share.
 *
 *     organ-api.c    configuration, token, routes
 *     api_http.c     CGI requests, responses, byte ranges of files
 *     api_model.c    models and organ directories
 *     api_args.c     checks a job's arguments and builds the argument vector; keeps the paths
 *                    among them inside the data folder
 *     api_job.c      jobs as folders of the spool, their queue and routes
 *     api_run.c      the supervisor of one job
 *
 * A handler either sends a response or calls api_fail. The first failure is kept, later
 * ones are ignored, and main sends it as JSON.
 */
#ifndef API_H
#define API_H

#include "common/cli.h" /* kinds of values */

#include "base/buf.h"  /* text that grows */
#include "json/json.h" /* the one JSON reader and writer */

#include <sys/types.h>

#define API_PARTS 5                /* v1, models, NAME, ... */
#define API_BODY ((size_t)1 << 20) /* largest JSON body in bytes */

typedef struct api {
    /* configuration */
    const char *bin;     /* folder of the tools */
    const char *scripts; /* folder of organ-fleet and the like if not bin; NULL: none */
    char *data;          /* real path of the data folder */
    char *spool;         /* real path of the spool */
    unsigned jobs;       /* largest number of running jobs */
    uint64_t max_body;   /* largest upload in bytes */
    uint64_t quota;      /* largest size of the data folder in bytes; 0: none */
    uint64_t keep_jobs;  /* finished jobs that stay: the latest ones, */
    uint64_t keep_days;  /* for so many days */
    /* request */
    const char *method, *query, *range;
    char *path;
    const char *part[API_PARTS + 1]; /* the parts of the path, between slashes */
    size_t parts;
    uint64_t length; /* length of the body; UINT64_MAX if not given */
    bool reading;    /* at least a part of the body was read from stdin */
    bool known;      /* the token is right */
    /* failure */
    int status; /* 0 = none so far */
    char what[700];
    bool cut;          /* the body of a file is not whole, and `what` is the error line */
    const char *allow; /* methods, for 405 */
    uint64_t size;     /* of the file, for 416 */
} api;

/* ---- api_http.c ---- */

uint64_t api_now(void); /* ms since 1970 */

#define API_TIME 32
/* Write ms since 1970 as a JSON string in ISO 8601; 0 is null. */
void api_time(uint64_t ms, char out[API_TIME]);

/* Keep the first failure; returns false, so that `return api_fail(...)` reads well. */
bool api_fail(api *a, int status, const char *fmt, ...) GG_PRINTF(3, 4);

/* The failure of a path without a route. */
bool api_nothing(api *a);

/* Map an error of the library to HTTP: malformed 400, outside the data folder 403, not
 * found 404, exists 409, no space 507, else 500. */
bool api_fail_error(api *a, const gg_error *err);

bool api_request(api *a); /* method, path, length from the environment */
bool api_is(const api *a, const char *method);
bool api_allow(api *a, const char *methods); /* "GET, HEAD"; false and 405 otherwise */
const char *api_query(const api *a, const char *key, size_t *len); /* the value, or NULL */
bool api_query_has(const api *a, const char *key); /* whether the query contains KEY=1 */
/* Sets *v if the key is given; 400 if the value is not a number of at most `most`. */
bool api_query_number(api *a, const char *key, uint64_t most, uint64_t *v);
bool api_body(api *a, gg_buf *body); /* reads the whole body, at most API_BODY bytes */

void api_answer(const api *a, int status, const char *type, const char *extra, const gg_buf *body);
/* Sends JSON and frees it, or fails with the error. */
bool api_finish(api *a, int status, const char *extra, gg_buf *body, const gg_error *err);
void api_answer_failure(const api *a); /* also if the body was not read */
/* Write a Location header for /v1/WHAT/NAME on this server, for use as `extra`. */
void api_location(char *out, size_t size, const char *what, const char *name);
/* Send the file, or the requested range of it. Closes fd. */
bool api_answer_file(api *a, int fd, const char *type);

/* ---- organ-api.c ---- */
/* Reads all that a program prints; it runs in `folder` unless that is NULL. */
bool api_program(api *a, char *const *argv, const char *folder, gg_buf *body);

/* ---- names ---- */

#define API_NAME 200 /* longest name in bytes */
/* [A-Za-z0-9._-]+, not starting with "." or "-". */
bool api_name_ok(const char *name, size_t len);

/* ---- api_model.c ---- */
bool api_models(api *a);
bool api_texts(api *a);
bool api_info(api *a);
bool api_organs(api *a);
bool api_files(api *a);

/* Sets *room to the bytes that the quota leaves; 507 if that is less than `more`. */
bool api_room(api *a, uint64_t more, uint64_t *room);

/* ---- api_args.c ---- */

/* An option, or an argument without a name, that is allowed over HTTP. */
typedef struct api_option {
    const char *tool;
    const char *name; /* without --; "" = an argument */
    char letter;
    cli_kind kind;
    int place;                             /* of an argument, from 1; 0 = only an option */
    bool many;                             /* an argument that is repeated */
    const char *needs, *excludes, *values; /* words, or NULL */
} api_option;

/* Made from the tables of the tools and from scripts/options.tsv; ends with a NULL tool. */
extern const api_option api_options[];

/* An argument vector, owned. */
typedef struct api_vector {
    char **items;    /* "--name", "--name=value", or a value */
    cli_kind *kinds; /* of the values */
    size_t n;
} api_vector;

void api_vector_free(api_vector *v);

/* Build the vector for {"tool": ..., "arguments": ...}. Checks that every option is
 * allowed, every value is of its kind, and every path is inside the data folder. */
bool api_arguments(api *a, const gg_json_node *request, api_vector *v);

/* Check the paths of such a vector again: symbolic links may have been added since. */
gg_status api_check_paths(const api *a, const api_vector *v, gg_error *err);

/* Checks that the path exists inside the data folder, together with everything a tool would open
 * with it (files of an organ directory, other shards). */
gg_status api_check_input(const api *a, const char *path, gg_error *err);

/* ---- api_job.c ---- */

bool api_jobs(api *a); /* the routes below /v1/jobs */

#define API_ID 22 /* hex digits: 14 of microseconds, 8 at random */

typedef struct api_job {
    char id[API_ID + 1];
    int dir;     /* the job's folder */
    int lock;    /* held by the supervisor for as long as it lives */
    int control; /* FIFO: 's' = stop, 'w' = look for a slot again */
} api_job;

int api_spool_open(const api *a, const char *name, int flags); /* SPOOL/name, -1 on failure */
gg_status api_write_file(int dir, const char *name, const gg_buf *text,
                         gg_error *err); /* written completely or not at all */

/* Send a byte to the supervisor of a job, if it has one. */
void api_job_poke(const api *a, const char *id, char what);

/* Find the smallest queued id that has a supervisor; false if there is none. */
bool api_queue_first(const api *a, char id[API_ID + 1], size_t *waiting);
bool api_queue_leave(const api *a, const char *id);

/* ---- api_run.c ---- */

/* Start the supervisor of a job. It continues after this process and the web server end. */
bool api_supervise(api *a, const api_job *job, api_vector *v);

#endif
