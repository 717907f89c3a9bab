/* fp4.c - MXFP4 (32 values in 17 bytes) and NVFP4 (64 in 36): E2M1 floats with a
 * power-of-two scale per 32 values, or an 8-bit float scale per 16 values.
 *
 *   MXFP4  | u8 e | u8 qs[16] |            low nibble j: value j, high: value j + 16
 *   NVFP4  | u8 d[4] | u8 qs[4][8] |       in each run of 16: value j and value j + 8
 *
 *   nibble  3     2 1   0                  d[s] of NVFP4   7   6    3 2     0
 *          |sgn| exp | man |                              | - |  E   |   M   |
 *
 *   T = 0 1 2 3 4 6 8 12 and their negatives. These are the E2M1 values times 2, so the
 *   scales below are halved.
 *   MXFP4  y = T[q] * 2^(e - 128); e = 255 is an ordinary exponent
 *   NVFP4  y = T[q] * u(d[s]); u = M * 2^-10 if E = 0, else (1 + M/8) * 2^(E - 8);
 *          0x7F means 0; otherwise bit 7 is ignored
 */
#include "fields.h"
#include "grid.h"

enum { MX_BYTES = 17, NV_BYTES = 36 };

static void decode_mxfp4(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += MX_BYTES, out += 32)
        gg_nibbles32(b + 1, gg_fp4_levels, gg_mx_scale(b[0]), out);
}

static void decode_nvfp4(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += NV_BYTES)
        for (int s = 0; s < 4; s++, out += 16)
            gg_nibbles16(b + 4 + 8 * s, gg_fp4_levels, gg_nv_scale(b[s]), out);
}

/* The E2M1 code nearest to each of eight values; a tie goes to the smaller magnitude. `mid` has
 * the midpoints of neighbours times the scale. Both factors have so few bits that the product,
 * and therefore the choice, is exact. The sign of a zero is dropped. */
GG_INLINE gg_i32x8 nearest_code(gg_f32x8 x, const float *mid)
{
    const gg_f32x8 a = gg_abs8(x);
    gg_i32x8 code = { 0 };
    GG_UNROLL(7)
    for (int i = 0; i < 7; i++) code -= gg_less8(gg_splat8(mid[i]), a);
    const gg_i32x8 minus = gg_less8(x, gg_splat8(0.0f)) & gg_less8(gg_splat8(mid[0]), a);
    return code | (minus & 8);
}

static void midpoints(float d, float *mid)
{
    static const float half[7] = { 0.5f, 1.5f, 2.5f, 3.5f, 5.0f, 7.0f, 10.0f };
    for (int i = 0; i < 7; i++) mid[i] = half[i] * d;
}

/* Encodes n values to n / 2 bytes; value j and value j + n / 2 share a byte. */
GG_INLINE void encode_codes(const float *x, float d, uint8_t *qs, int n)
{
    float mid[7];
    int32_t code[32];
    midpoints(d, mid);
    for (int j = 0; j < n; j += 8) {
        const gg_i32x8 c = nearest_code(gg_load8(x + j), mid);
        memcpy(code + j, &c, sizeof c);
    }
    for (int j = 0; j < n / 2; j++) qs[j] = (uint8_t)(code[j] | code[j + n / 2] << 4);
}

/* As in OCP MX, the shared exponent is the exponent of the largest value minus 2, which is the
 * exponent of the largest E2M1 value, 6. Values in the last quarter of the octave saturate at 6.
 * If the largest value is too small for that, the smallest scale is used. */
static void encode_mxfp4(const float *x, uint8_t *b, size_t nblocks, const float *imatrix)
{
    (void)imatrix;
    for (; nblocks > 0; nblocks--, x += 32, b += MX_BYTES) {
        const uint32_t exponent = gg_float_bits(gg_largest(x, 32)) >> 23;
        b[0] = (uint8_t)(exponent > 2 ? exponent - 2 : 0);
        encode_codes(x, gg_mx_scale(b[0]), b + 1, 32);
    }
}

/* Rounds to the nearest UE4M3 (twice the value of gg_nv_scale), half up, at most 448 (0x7E). */
static uint8_t nv_scale_code(float v)
{
    if (!(v > 0.0f)) return 0;
    if (v >= 448.0f) return 0x7e;
    if (v < 0x1p-6f) {
        const int m = (int)(v * 512.0f + 0.5f);
        return (uint8_t)(m < 8 ? m : 7);
    }
    const uint32_t r = (gg_float_bits(v) + (1u << 19)) >> 20;
    const uint32_t code = r - (120u << 3);
    return (uint8_t)(code < 0x7e ? code : 0x7e);
}

/* The scale maps the largest value of a run of 16 to the largest E2M1 value, 6. */
static void encode_nvfp4(const float *x, uint8_t *b, size_t nblocks, const float *imatrix)
{
    (void)imatrix;
    for (; nblocks > 0; nblocks--, b += NV_BYTES)
        for (int s = 0; s < 4; s++, x += 16) {
            uint8_t *qs = b + 4 + 8 * s;
            b[s] = nv_scale_code(gg_largest(x, 16) / 6.0f);
            if (b[s] == 0) memset(qs, 0, 8);
            else encode_codes(x, gg_nv_scale(b[s]), qs, 16);
        }
}

GG_CODEC(mxfp4, decode_mxfp4, encode_mxfp4, NULL)
GG_CODEC(nvfp4, decode_nvfp4, encode_nvfp4, NULL)
