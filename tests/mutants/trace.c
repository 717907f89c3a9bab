/* trace.c - which code of a shared library runs? Linked into the library that random.sh makes with
 * -fsanitize-coverage=trace-pc, it marks the place after each call of the function below in TRACE,
 * a file of zeros that all processes share, so that those that are killed count as well. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef TRACE
#define TRACE "/dev/null"
#endif

void __sanitizer_cov_trace_pc(void);

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
static unsigned char *marks;
static size_t size;

/* System calls as such, because some tests replace the functions of libc. */
static __attribute__((constructor)) void begin(void)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, TRACE, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    long end = syscall(SYS_lseek, fd, 0L, SEEK_END);
    long at = end > 0 ? syscall(SYS_mmap, NULL, end, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0L)
                      : -1;
    syscall(SYS_close, fd);
    if (at == -1) return;
    size = (size_t)end;
    marks = (unsigned char *)at;
}

void __sanitizer_cov_trace_pc(void)
{
    size_t at = (uintptr_t)__builtin_return_address(0) - (uintptr_t)__ehdr_start;
    if (at < size) marks[at] = 1;
}
