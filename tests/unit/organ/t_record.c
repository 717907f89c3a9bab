/* t_record.c - the organ record: bytes as documented, there and back, and every way
 * to break one. */
#include "t.h"

#include "gguf/gguf.h"
#include "organ/gg_organ.h"
#include "organ/record.h"

static const uint8_t small[] = {
    3,  0, 0, 0, 'a', '.', 'b',                                        /* name */
    2,  0, 0, 0,                                                       /* n_dims */
    32, 0, 0, 0, 0,   0,   0,   0, 2, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, /* Q8_0 */
};

static void bytes_are_as_documented(void)
{
    gg_tensor t = { .name = "a.b",
                    .name_len = 3,
                    .n_dims = 2,
                    .dims = { 32, 2, 1, 1 },
                    .dtype = GG_Q8_0 },
              back;
    uint8_t out[GG_RECORD_HEADER];
    T_CHECK(gg_record_header(&t, out) == sizeof small && memcmp(out, small, sizeof small) == 0);
    size_t used = 0;
    gg_error e = GG_ERROR_INIT;
    T_CHECK(gg_record_parse(small, sizeof small, &back, &used, &e) == GG_OK &&
            used == sizeof small);
    T_CHECK(back.bytes == 68 && back.elements == 64 && back.dims[2] == 1 && back.dims[3] == 1 &&
            back.offset == 0);
    T_CHECK(back.name_len == 3 && memcmp(back.name, "a.b", 3) == 0 && back.dtype == GG_Q8_0);
}

static void there_and_back(void)
{
    char name[GG_RECORD_NAME];
    for (size_t i = 0; i < sizeof name; i++) name[i] = (char)i;
    for (uint32_t dims = 0; dims <= GG_MAX_DIMS; dims++)
        for (size_t len = 0; len <= GG_RECORD_NAME; len += len < 3 ? 1 : 84) {
            gg_tensor t = { .name = name,
                            .name_len = len,
                            .n_dims = dims,
                            .dims = GG_DIMS_ONE,
                            .dtype = GG_I16 },
                      back;
            for (uint32_t d = 0; d < dims; d++) t.dims[d] = d + 3;
            uint8_t out[GG_RECORD_HEADER];
            size_t n = gg_record_header(&t, out), used = 0;
            gg_error e = GG_ERROR_INIT;
            T_CHECK(n == 12 + len + 8 * dims && n <= GG_RECORD_HEADER);
            T_CHECK(gg_record_parse(out, n, &back, &used, &e) == GG_OK && used == n);
            T_CHECK(back.n_dims == dims && memcmp(back.dims, t.dims, sizeof t.dims) == 0 &&
                    back.name_len == len);
        }
}

/* Fewer bytes than the header has: ask for more, and read none past the end. */
static void cut_headers_ask_for_more(void)
{
    for (size_t n = 0; n < sizeof small; n++) {
        uint8_t *part = malloc(n ? n : 1);
        if (!part) exit(1);
        memcpy(part, small, n);
        gg_tensor t;
        size_t used = 9;
        gg_error e = GG_ERROR_INIT;
        T_CHECKF(gg_record_parse(part, n, &t, &used, &e) == GG_OK && used == 0, "%zu bytes", n);
        free(part);
    }
}

static void refused(size_t at, uint32_t value, gg_status want)
{
    uint8_t bytes[sizeof small];
    memcpy(bytes, small, sizeof small);
    for (size_t i = 0; i < 4; i++) bytes[at + i] = (uint8_t)(value >> 8 * i);
    gg_tensor t;
    size_t used;
    gg_error e = GG_ERROR_INIT;
    T_CHECKF(gg_record_parse(bytes, sizeof bytes, &t, &used, &e) == want && used == 0 && e.what[0],
             "at %zu %u: %s", at, value, e.what);
}

static void broken_headers(void)
{
    refused(0, 256, GG_EFORMAT);
    refused(0, UINT32_MAX, GG_EFORMAT);
    refused(0, 0x46554747, GG_EFORMAT); /* "GGUF" */
    refused(7, GG_MAX_DIMS + 1, GG_EFORMAT);
    refused(7, UINT32_MAX, GG_EFORMAT);
    refused(15, 0x80000000u, GG_EFORMAT); /* a negative dimension */
    refused(11, 33, GG_EFORMAT);          /* not whole blocks */
    refused(27, 4, GG_EUNSUPPORTED);      /* a type that was removed */
    refused(27, 9999, GG_EUNSUPPORTED);
    refused(15, 0x7fffffff, GG_EFORMAT); /* more bytes than 2^63 */
}

static const t_case cases[] = {
    { "bytes are as documented", bytes_are_as_documented },
    { "there and back", there_and_back },
    { "cut headers ask for more", cut_headers_ask_for_more },
    { "broken headers", broken_headers },
};

T_MAIN(cases)
