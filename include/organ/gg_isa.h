/* gg_isa.h - the instruction-set level that kernels run at.
 *
 * Every level gives the same bits; a lower one is only slower. Used by the codecs
 * and the arithmetic alike, so it belongs to base and knows neither.
 */
#ifndef GG_ISA_LEVEL_H
#define GG_ISA_LEVEL_H

#ifdef __cplusplus
extern "C" {
#endif

/* 0 plain C, 1 AVX2+F16C on x86-64. Chosen once at run time, from the machine and
 * GG_ISA in the environment (GG_ISA=0: plain). Setting it (tests) is not thread
 * safe: do it first. Returns the level in force, at most what the machine has. */
int gg_isa(void);
int gg_isa_set(int level);

#ifdef __cplusplus
}
#endif

#endif
