/* cost.c - what a command costs: cost COMMAND... runs it, its stdout thrown away, and
 * prints three numbers: seconds on the clock, seconds of CPU, peak memory in KiB.
 * The exit status is the command's. A tool for tests and benches; counts no memory
 * but the command's own. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double of(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

int main(int argc, char **argv)
{
    if (argc < 2) return fprintf(stderr, "usage: cost COMMAND...\n"), 2;
    struct timespec a, b;
    struct rusage u;
    int status;
    clock_gettime(CLOCK_MONOTONIC, &a);
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        if (null >= 0 && dup2(null, 1) == 1) execvp(argv[1], argv + 1);
        perror(argv[1]);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) return perror("cost"), 126;
    clock_gettime(CLOCK_MONOTONIC, &b);
    getrusage(RUSAGE_CHILDREN, &u);
    long kib = u.ru_maxrss;
#ifdef __APPLE__
    kib /= 1024; /* bytes there */
#endif
    printf("%.6f %.6f %ld\n",
           (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec),
           of(u.ru_utime) + of(u.ru_stime), kib);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
