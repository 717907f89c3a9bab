/* load.c - does the engine load these models and evaluate a token?
 *
 *     load ENGINE-DIR < names          one file name per line
 *
 * Prints "NAME<tab>ok" or "NAME<tab>refused<tab>reason" for each. Every model has a process
 * of its own, because some damage makes the engine abort. */
#include "llama.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int out; /* the pipe to the parent: the first error that the engine logs */
static int told;
static int draft; /* the model can be used only with the model that it drafts for */

static void listen(enum ggml_log_level level, const char *text, void *data)
{
    (void)data;
    if (strstr(text, "requires ctx_other")) draft = 1;
    if (level != GGML_LOG_LEVEL_ERROR || told++) return;
    if (write(out, text, strlen(text)) < 0) _exit(3);
}

static int evaluate(struct llama_model *m)
{
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = p.n_batch = p.n_ubatch = 32;
    p.n_threads = p.n_threads_batch = 1;
    struct llama_context *c = llama_init_from_model(m, p);
    if (!c) return draft ? 0 : 2;
    if (llama_pooling_type(c) != LLAMA_POOLING_TYPE_NONE) llama_set_embeddings(c, true);
    llama_token token = 1;
    struct llama_batch b = llama_batch_get_one(&token, 1);
    if (llama_model_has_encoder(m) && llama_encode(c, b) != 0) return 3;
    if (llama_model_has_decoder(m) && llama_decode(c, b) != 0) return 3;
    return 0;
}

static int try(const char *engine, const char *path)
{
    int null = dup(2);
    (void)null;
    signal(SIGABRT, SIG_DFL);
    alarm(30);
    if (!freopen("/dev/null", "w", stderr)) return 4;
    llama_log_set(listen, NULL);
    ggml_backend_load_all_from_path(engine);
    llama_backend_init();
    struct llama_model_params p = llama_model_default_params();
    p.n_gpu_layers = 0;
    struct llama_model *m = llama_model_load_from_file(path, p);
    return m ? evaluate(m) : 1;
}

static void one(const char *engine, const char *path)
{
    char said[400] = "";
    size_t n = 0;
    ssize_t got;
    int ends[2], status;
    if (pipe(ends) != 0) exit(1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        out = ends[1];
        _exit(try(engine, path));
    }
    close(ends[1]);
    while (n + 1 < sizeof said && (got = read(ends[0], said + n, sizeof said - 1 - n)) > 0)
        n += (size_t)got;
    close(ends[0]);
    waitpid(child, &status, 0);
    said[n] = 0;
    for (char *p = said; *p; p++)
        if (*p == '\n' || *p == '\t') *p = ' ';
    static const char *const stage[] = { "", "load: ", "context: ", "evaluation: ", "" };
    if (WIFSIGNALED(status))
        printf("%s\trefused\taborted by signal %d: %s\n", path, WTERMSIG(status), said);
    else if (WEXITSTATUS(status) == 0) printf("%s\tok\n", path);
    else printf("%s\trefused\t%s%s\n", path, stage[WEXITSTATUS(status) & 3], said);
}

int main(int argc, char **argv)
{
    char line[4096];
    if (argc != 2) return 2;
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* relearn.mjs waits for each answer */
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        one(argv[1], line);
    }
    return 0;
}
