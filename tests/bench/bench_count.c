/* bench_count.c - runs one kernel once, for count.sh and instructions.sh, which count its
 * instructions.
 *
 *   bench_count KERNEL N    KERNEL: a tensor type to decode, +TYPE to encode noise, range, moments,
 *                           simple (moments in one lane), gaps, sort, dot, sha256, none or +none
 *                           N: values, a multiple of 256, or bytes to hash
 */
#include "organ/gg_quant.h"

#include "base/sha256.h"
#include "numeric/nkernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile double sink;

/* The moments of the kernel, one value at a time. */
static double simple_moments(const float *x, size_t n, double mean)
{
    double m2 = 0, m4 = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)x[i] - mean, d2 = d * d;
        m2 += d2;
        m4 += d2 * d2;
    }
    return m2 + m4;
}

static int run_kernel(const char *name, size_t n, float *x, uint8_t *blocks)
{
    gg_sha256 h;
    unsigned char digest[32];
    const gg_dtype_info *type = gg_dtype_by_name(name);
    if (type) return gg_decode(type->id, blocks, x, n, NULL) != GG_OK;
    if (name[0] == '+' && strcmp(name, "+none") != 0) {
        type = gg_dtype_by_name(name + 1);
        return !type || gg_encode(type->id, x, blocks, n, n, NULL, NULL) != GG_OK;
    }
    if (!strcmp(name, "range")) {
        sink = GG_PICK(gg_nk_range)(x, n).sum;
    } else if (!strcmp(name, "moments")) {
        sink = GG_PICK(gg_nk_central)(x, n, 0.5).m4;
    } else if (!strcmp(name, "simple")) {
        sink = simple_moments(x, n, 0.5);
    } else if (!strcmp(name, "gaps")) {
        sink = GG_PICK(gg_nk_gaps)((const gg_nk_key *)(void *)x, n, 0.5);
    } else if (!strcmp(name, "sort")) {
        sink = gg_sort_keys((gg_nk_key *)(void *)x, n, (gg_nk_key *)(void *)(x + n))[n / 2];
    } else if (!strcmp(name, "dot")) {
        sink = GG_PICK(gg_nk_dot)(x, x + n, n);
    } else if (!strcmp(name, "sha256")) {
        gg_sha256_init(&h);
        gg_sha256_update(&h, x, n);
        gg_sha256_final(&h, digest);
    } else if (strcmp(name, "none") && strcmp(name, "+none")) {
        return 2;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const size_t n = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    if (n == 0 || n % 256) {
        fprintf(stderr, "usage: bench_count KERNEL N, a multiple of 256\n");
        return 2;
    }
    /* Calloc'd pages are zeros without a write, so that memory costs no instructions. The bytes of
     * the blocks are not zero, because scales of zero may take another way. */
    float *x = calloc(2 * n, sizeof *x);
    uint8_t *blocks = calloc(n, 4);
    if (!x || !blocks) return 1;
    memset(blocks, 0x11, 4 * n);
    if (*argv[1] == '+' || !strcmp(argv[1], "sort")) { /* copies of noise cost few instructions */
        const size_t noise = n < 4096 ? n : 4096;
        gg_gauss_fill(x, noise, 1);
        for (size_t i = noise; i < n; i++) x[i] = x[i - noise];
    }
    const int status = run_kernel(argv[1], n, x, blocks);
    free(x);
    free(blocks);
    return status;
}
