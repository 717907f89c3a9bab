/* isa.c - choose the instruction-set level from the machine and the environment. */
#include "isa.h"

#include <stdatomic.h>
#include <stdlib.h>

static _Atomic int level = -1;

#ifdef GG_HAVE_L1
#include <cpuid.h>

/* Programs that use __builtin_cpu_supports ask the processor many questions each time they start,
 * and in a virtual machine each of them costs microseconds. This asks two, when first needed. */
static int machine_level(void)
{
    unsigned a, b, c, d, need = bit_OSXSAVE | bit_AVX | bit_F16C, registers = 6; /* SSE and AVX */
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & need) != need) return 0;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    if ((a & registers) != registers) return 0; /* the system does not save them */
    bool all = (a & 0xe0) == 0xe0;              /* those of AVX-512 too */
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)) return 0;
    /* Processors without VBMI2 lower their clock while they use AVX-512. */
    return all && (b & bit_AVX512F) && (c & bit_AVX512VBMI2) ? 2 : 1;
}
#else
static int machine_level(void)
{
    return 0;
}
#endif

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
