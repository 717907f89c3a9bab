/* bench_floor.c - what a blend or a comparison cannot do without: bench_floor A B [OUT] reads two
 * files of F16 values and decodes them. With OUT it also encodes the values of A and writes them.
 * Its CPU time is the floor for tools that read the same files, apart from their arithmetic. */
#include "organ/gg_quant.h"

#include "base/io.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

enum { BLOCK = 65536 }; /* values in 256 KiB of floats, which fit the cache */

int main(int argc, char **argv)
{
    static uint16_t raw[BLOCK];
    static float x[2][BLOCK];
    gg_error err = GG_ERROR_INIT;
    struct stat s;
    if (argc != 3 && argc != 4) return fprintf(stderr, "usage: bench_floor A B [OUT]\n"), 2;
    int in[2] = { open(argv[1], O_RDONLY), open(argv[2], O_RDONLY) };
    int out = argc == 4 ? open(argv[3], O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    if (in[0] < 0 || in[1] < 0 || (argc == 4 && out < 0) || fstat(in[0], &s) != 0)
        return perror("bench_floor"), 4;
    /* The header, of less than a block, is left out. */
    uint64_t size = (uint64_t)s.st_size;
    gg_status st = GG_OK;
    for (uint64_t at = size % sizeof raw; at < size && st == GG_OK; at += sizeof raw) {
        for (int k = 0; k < 2 && st == GG_OK; k++) {
            st = gg_pread_all(in[k], raw, sizeof raw, at, &err);
            if (st == GG_OK) st = gg_decode(GG_F16, raw, x[k], BLOCK, &err);
        }
        if (st == GG_OK && out >= 0) st = gg_encode(GG_F16, x[0], raw, BLOCK, BLOCK, NULL, &err);
        if (st == GG_OK && out >= 0) st = gg_write_all(out, raw, sizeof raw, &err);
    }
    if (st != GG_OK) fprintf(stderr, "bench_floor: %s\n", err.what);
    return st == GG_OK ? 0 : 4;
}
