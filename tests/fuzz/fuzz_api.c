/* fuzz_api.c - any text as a request to organ-api. The input is the environment of a CGI program,
 * one variable per line, an empty line, and the body. Every request gets exactly one answer, well
 * formed; jobs are recorded and not started. */
int organ_api_main(int argc, char **argv);
#define main organ_api_main
#include "../../tools/api/organ-api.c"
#undef main
#include "room.h"

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/api", NULL };

#define TOKEN "0123456789abcdef"

/* In place of api_run.c: the fuzzer must not start programs. */
bool api_supervise(api *a, const api_job *job, api_vector *v)
{
    (void)job, (void)v;
    return api_fail(a, 503, "this server starts no jobs");
}

/* What the web server passes on, and the letter that begins such a line. */
static const struct {
    char letter;
    const char *name, *otherwise;
} variables[] = { { 'M', "REQUEST_METHOD", "GET" },
                  { 'P', "PATH_INFO", "/v1/models" },
                  { 'Q', "QUERY_STRING", NULL },
                  { 'R', "HTTP_RANGE", NULL },
                  { 'X', "HTTP_X_RANGE", NULL },
                  { 'L', "CONTENT_LENGTH", NULL },
                  { 'A', "HTTP_AUTHORIZATION", "Bearer " TOKEN },
                  { 'S', "SCRIPT_NAME", NULL },
                  { 'H', "HTTP_HOST", "localhost" },
                  { 'I', "HTTP_IF_RANGE", NULL },
                  { 'T', "CONTENT_TYPE", NULL },
                  { 'E', "HTTP_EXPECT", NULL } };

#define N_VARIABLES (sizeof variables / sizeof variables[0])

static int answer = -1, saved = -1;

static void set_up(void)
{
    mkdir(room("data"), 0700);
    mkdir(room("spool"), 0700);
    room_copy("tests/fuzz/seeds/model/base.gguf", "data/base.gguf");
    room_copy("tests/fuzz/seeds/model/donor.gguf", "data/donor.gguf");
    room_put("token", TOKEN "\n", sizeof TOKEN);
    gg_error e = GG_ERROR_INIT;
    gg_source *s = room_open("data/base.gguf");
    gg_extract_report r = { 0 };
    FUZZ_MUST(s && gg_extract(s, NULL, room("data/organs"), &room_run, &r, &e) == GG_OK);
    gg_source_close(s);
    setenv("ORGAN_API_DATA", room("data"), 1);
    setenv("ORGAN_API_SPOOL", room("spool"), 1);
    setenv("ORGAN_API_TOKEN_FILE", room("token"), 1);
    setenv("ORGAN_API_BIN", "/nonexistent", 1);
    setenv("ORGAN_API_MAX_BODY", "65536", 1);
    answer = open(room("answer"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    saved = dup(STDOUT_FILENO);
    FUZZ_MUST(answer >= 0 && saved >= 0);
}

/* Set the variables; returns the offset of the body. */
static size_t environment(const uint8_t *data, size_t size)
{
    size_t at = 0;
    char value[1024];
    for (size_t i = 0; i < N_VARIABLES; i++)
        if (variables[i].otherwise) setenv(variables[i].name, variables[i].otherwise, 1);
        else unsetenv(variables[i].name);
    while (at < size && data[at] != '\n') {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t n = end ? (size_t)(end - data) - at : size - at, keep = n - 1;
        if (keep >= sizeof value) keep = sizeof value - 1;
        memcpy(value, data + at + 1, keep);
        value[keep] = '\0';
        for (size_t i = 0; i < N_VARIABLES; i++)
            if (variables[i].letter == (char)data[at]) setenv(variables[i].name, value, 1);
        at += n + (end != NULL);
    }
    return at < size ? at + 1 : size;
}

/* The head: lines that end with CR LF, a status and a length that the body has. */
static void look_at_answer(bool head)
{
    size_t n;
    uint8_t *bytes = room_get("answer", &n);
    bytes[n] = '\0';
    char *text = (char *)bytes, *end = strstr(text, "\r\n\r\n");
    unsigned status = 0;
    unsigned long long length = 0;
    FUZZ_MUST(sscanf(text, "Status: %u ", &status) == 1 && status >= 200 && status <= 599 && end);
    char *field = strstr(text, "\r\nContent-Length: ");
    FUZZ_MUST(field && field < end && sscanf(field, "\r\nContent-Length: %llu", &length) == 1);
    FUZZ_MUST(head || length == n - (size_t)(end + 4 - text));
    for (char *p = text; p < end; p++)
        FUZZ_MUST((unsigned char)*p >= ' ' || (*p == '\r' && p[1] == '\n') ||
                  (*p == '\n' && p[-1] == '\r'));
    char *type = strstr(text, "application/json");
    if (type && type < end && !head && status != 206) {
        gg_json *j = NULL;
        gg_error e = GG_ERROR_INIT;
        FUZZ_MUST(gg_json_parse(end + 4, (size_t)length, &j, &e) == GG_OK);
        gg_json_free(j);
    }
    free(bytes);
}

/* Uploads and deletions change the folders; jobs pile up. */
static void clean_up(void)
{
    static unsigned runs;
    room_remove("spool");
    mkdir(room("spool"), 0700);
    if (++runs % 64 != 0 && room_has("data/base.gguf") && room_has("data/organs/manifest.json"))
        return;
    room_remove("data");
    mkdir(room("data"), 0700);
    gg_error e = GG_ERROR_INIT;
    gg_extract_report r = { 0 };
    room_copy("tests/fuzz/seeds/model/base.gguf", "data/base.gguf");
    room_copy("tests/fuzz/seeds/model/donor.gguf", "data/donor.gguf");
    gg_source *s = room_open("data/base.gguf");
    FUZZ_MUST(s && gg_extract(s, NULL, room("data/organs"), &room_run, &r, &e) == GG_OK);
    gg_source_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (answer < 0) set_up();
    size_t at = environment(data, size);
    room_put("body", data + at, size - at);
    int in = open(room("body"), O_RDONLY | O_CLOEXEC);
    FUZZ_MUST(in >= 0 && dup2(in, STDIN_FILENO) >= 0);
    close(in);
    fflush(stdout);
    FUZZ_MUST(ftruncate(answer, 0) == 0 && lseek(answer, 0, SEEK_SET) == 0 &&
              dup2(answer, STDOUT_FILENO) >= 0);
    int rc = serve();
    dup2(saved, STDOUT_FILENO);
    FUZZ_MUST(rc == 0);
    look_at_answer(strcmp(getenv("REQUEST_METHOD"), "HEAD") == 0);
    room_remove("body");
    FUZZ_MUST(room_count() == 4);
    clean_up();
    return 0;
}
