/* onpty.c - runs a command for tests whose standard output is a terminal that changes no byte:
 * `onpty COMMAND...` prints what the terminal got, and ends with the status of the command. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char bytes[65536];
    struct termios raw;
    int status, main_end = posix_openpt(O_RDWR | O_NOCTTY);
    if (argc < 2 || main_end < 0 || grantpt(main_end) != 0 || unlockpt(main_end) != 0) return 125;
    int terminal = open(ptsname(main_end), O_RDWR | O_NOCTTY);
    if (terminal < 0 || tcgetattr(terminal, &raw) != 0) return 125;
    cfmakeraw(&raw);
    if (tcsetattr(terminal, TCSANOW, &raw) != 0) return 125;
    pid_t child = fork();
    if (child == 0) {
        dup2(terminal, 1);
        close(terminal);
        close(main_end);
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    close(terminal);
    for (;;) { /* until no process has the terminal open, which is EIO on Linux */
        ssize_t n = read(main_end, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0 || fwrite(bytes, 1, (size_t)n, stdout) != (size_t)n) break;
    }
    if (fflush(stdout) != 0 || child < 0 || waitpid(child, &status, 0) != child) return 125;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
