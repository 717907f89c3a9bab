/* t_sha256.c - FIPS 180-4 vectors, every way of cutting the input, every code, one message
 * and several at once. */
#include "t.h"

#include "base/sha256.h"

static void hex_of(const void *bytes, size_t n, char out[65])
{
    gg_sha256 h;
    unsigned char digest[32];
    gg_sha256_init(&h);
    gg_sha256_update(&h, bytes, n);
    gg_sha256_final(&h, digest);
    gg_sha256_hex(digest, out);
}

/* The examples published with FIPS 180-4, and the empty message. */
static const struct {
    const char *message, *digest;
} vectors[] = {
    { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
    { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
    { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    { "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmno"
      "pqrsmnopqrstnopqrstu",
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
};

static void check_vectors(void)
{
    char hex[65];
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        hex_of(vectors[i].message, strlen(vectors[i].message), hex);
        T_CHECKF(strcmp(hex, vectors[i].digest) == 0, "%s", hex);
    }
    char *a = malloc(1000000);
    T_CHECK(a != NULL);
    if (!a) return;
    memset(a, 'a', 1000000);
    hex_of(a, 1000000, hex);
    T_CHECKF(strcmp(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0") == 0,
             "%s", hex);
    free(a);
}

static void plain_vectors(void)
{
    gg_sha256_code machine = gg_sha256_in_use();
    T_CHECK(gg_sha256_force(GG_SHA256_PLAIN));
    T_EQ(gg_sha256_in_use(), GG_SHA256_PLAIN);
    check_vectors();
    T_CHECK(gg_sha256_force(machine));
}

/* Both codes agree on every length to 300 and every place to cut in two. */
static void cuts_and_codes_agree(void)
{
    unsigned char m[301];
    for (size_t i = 0; i < sizeof m; i++) m[i] = (unsigned char)(i * i * 31 + i);
    int wrong = 0;
    gg_sha256_code machine = gg_sha256_in_use();
    for (size_t n = 0; n <= 300; n++) {
        char whole[65], plain[65];
        hex_of(m + 1, n, whole); /* + 1: unaligned */
        gg_sha256_force(GG_SHA256_PLAIN);
        hex_of(m + 1, n, plain);
        gg_sha256_force(machine);
        wrong += strcmp(whole, plain) != 0;
        for (size_t cut = 0; cut <= n; cut++) {
            gg_sha256 h;
            unsigned char digest[32];
            char hex[65];
            gg_sha256_init(&h);
            gg_sha256_update(&h, m + 1, cut);
            gg_sha256_update(&h, m + 1 + cut, n - cut);
            gg_sha256_final(&h, digest);
            gg_sha256_hex(digest, hex);
            wrong += strcmp(whole, hex) != 0;
        }
    }
    T_CHECKF(wrong == 0, "%d digests differ", wrong);
}

/* k messages, hashed together in pieces of different sizes, have the digests of plain C. */
static int wrong_of_many(const unsigned char *m, size_t k)
{
    gg_sha256 h[GG_SHA256_LANES], alone;
    gg_sha256_piece pieces[GG_SHA256_LANES];
    unsigned char want[32], got[32];
    size_t at[GG_SHA256_LANES] = { 0 };
    int wrong = 0;
    for (size_t i = 0; i < k; i++) gg_sha256_init(&h[i]);
    for (size_t step = 0; step < 5; step++) {
        for (size_t i = 0; i < k; i++) {
            size_t n = (i * 131 + step * 64) % 700 * (i + step != 3) + (step == 1 ? 0 : 64 * i);
            if (step == 2) n = n / 64 * 64;
            pieces[i] = (gg_sha256_piece){ &h[i], m + 37 * i + at[i], n };
            at[i] += n;
        }
        gg_sha256_update_many(pieces, k);
    }
    gg_sha256_code machine = gg_sha256_in_use();
    gg_sha256_force(GG_SHA256_PLAIN);
    for (size_t i = 0; i < k; i++) {
        gg_sha256_final(&h[i], got);
        gg_sha256_init(&alone);
        gg_sha256_update(&alone, m + 37 * i, at[i]);
        gg_sha256_final(&alone, want);
        wrong += memcmp(got, want, sizeof got) != 0;
    }
    gg_sha256_force(machine);
    return wrong;
}

static void many_with(gg_sha256_code code, unsigned lanes, const unsigned char *m)
{
    T_EQ(gg_sha256_lanes(), lanes);
    for (size_t k = 0; k <= GG_SHA256_LANES; k++) {
        int wrong = wrong_of_many(m, k);
        T_CHECKF(wrong == 0, "code %d: %d of %zu digests differ", (int)code, wrong, k);
    }
}

static void many(void)
{
    static unsigned char m[16384];
    gg_sha256_code machine = gg_sha256_in_use();
    for (size_t i = 0; i < sizeof m; i++) m[i] = (unsigned char)(i * i * 31 + i / 7);
    if (gg_sha256_force(GG_SHA256_PLAIN)) many_with(GG_SHA256_PLAIN, 1, m);
    if (gg_sha256_force(GG_SHA256_AVX2)) many_with(GG_SHA256_AVX2, GG_SHA256_LANES, m);
#ifdef __x86_64__
    if (gg_sha256_force(GG_SHA256_SHA)) many_with(GG_SHA256_SHA, 2, m);
#else
    if (gg_sha256_force(GG_SHA256_SHA)) many_with(GG_SHA256_SHA, 1, m);
#endif
    T_CHECK(gg_sha256_force(machine));
}

/* The length field is 64 bits: 2^29 bytes and more have a bit count over 32 bits.
 * Reached by setting the count of a hash that has compressed whole blocks. */
static void length_is_64_bits(void)
{
    unsigned char a[32], b[32];
    gg_sha256 h;
    gg_sha256_init(&h);
    gg_sha256_final(&h, a);
    gg_sha256_init(&h);
    h.total = UINT64_C(1) << 29;
    gg_sha256_final(&h, b);
    T_CHECK(memcmp(a, b, 32) != 0);
}

static const t_case cases[] = {
    { "vectors", check_vectors },
    { "vectors, plain C", plain_vectors },
    { "cuts and codes agree", cuts_and_codes_agree },
    { "many", many },
    { "length is 64 bits", length_is_64_bits },
};
T_MAIN(cases)
