/* memory.c - how much memory does the engine reserve for the cache of these models?
 *
 *     memory ENGINE-DIR CONTEXT < names          one file name per line
 *
 * Prints "NAME<tab>F16<tab>Q8_0<tab>STATE" in MiB as the engine logs them: the keys and values of
 * one sequence of CONTEXT tokens in two types, and the state of recurrent layers, which is logged
 * for 64 sequences and divided, because two digits of a small number say little. "-" where the
 * engine refuses. Every model has a process of its own. */
#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static double cache, state; /* MiB logged since they were set to 0 */

static void listen(enum ggml_log_level level, const char *text, void *data)
{
    (void)level, (void)data;
    const char *size = strstr(text, ": size = ");
    if (!size) return;
    double mib = strtod(size + strlen(": size = "), NULL);
    if (strstr(text, "K (")) cache += mib;
    else if (strstr(text, "R (")) state += mib;
}

static struct llama_context *open_context(struct llama_model *m, unsigned tokens,
                                          enum ggml_type type, unsigned sequences)
{
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = tokens;
    p.type_k = p.type_v = type;
    p.n_seq_max = sequences;
    p.kv_unified = true;
    p.swa_full = false; /* as llama-cli and llama-server do by default */
    p.n_threads = p.n_threads_batch = 1;
    cache = state = 0;
    return llama_init_from_model(m, p);
}

static int measure(const char *engine, const char *path, unsigned tokens, int out)
{
    if (!freopen("/dev/null", "w", stderr)) return 4;
    alarm(60);
    llama_log_set(listen, NULL);
    ggml_backend_load_all_from_path(engine);
    llama_backend_init();
    struct llama_model_params p = llama_model_default_params();
    p.n_gpu_layers = 0;
    struct llama_model *m = llama_model_load_from_file(path, p);
    if (!m) return 1;
    struct llama_context *c = open_context(m, tokens, GGML_TYPE_F16, 1);
    if (!c) return 1;
    double f16 = cache;
    llama_free(c);
    c = open_context(m, tokens, GGML_TYPE_Q8_0, 1);
    double q8 = c ? cache : -1;
    if (c) llama_free(c);
    c = open_context(m, 256, GGML_TYPE_F16, 64);
    dprintf(out, "%s\t%.2f\t%.2f\t%.5f\n", path, f16, q8, c ? state / 64 : -1);
    return 0;
}

int main(int argc, char **argv)
{
    char name[4096];
    if (argc != 3) return 2;
    while (fgets(name, sizeof name, stdin)) {
        name[strcspn(name, "\n")] = 0;
        int status, out = dup(1);
        pid_t child = fork();
        if (child == 0) _exit(measure(argv[1], name, (unsigned)atoi(argv[2]), out));
        waitpid(child, &status, 0);
        close(out);
        if (status != 0) printf("%s\t-\t-\t-\n", name), fflush(stdout);
    }
    return 0;
}
