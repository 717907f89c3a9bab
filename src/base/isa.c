/* isa.c - choose the instruction-set level from the machine and the environment. */
#include "isa.h"

#include <stdatomic.h>
#include <stdlib.h>

static _Atomic int level = -1;

static int machine_level(void)
{
#ifdef GG_HAVE_L1
    __builtin_cpu_init();
    /* Machines with AVX2 also have F16C, which older compilers cannot test for by name. */
    if (__builtin_cpu_supports("avx2")) return 1;
#endif
    return 0;
}

int gg_isa_set(int wanted)
{
    int have = machine_level();
    int now = wanted < 0 ? 0 : wanted < have ? wanted : have;
    atomic_store_explicit(&level, now, memory_order_relaxed);
    return now;
}

int gg_isa(void)
{
    int now = atomic_load_explicit(&level, memory_order_relaxed);
    if (now >= 0) return now;
    const char *env = getenv("GG_ISA");
    return gg_isa_set(env && env[0] >= '0' && env[0] <= '9' && env[1] == '\0' ? env[0] - '0'
                                                                              : machine_level());
}
