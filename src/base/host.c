/* host.c - refuses to compile for hosts that the suite does not support. */
#include <limits.h>
#include <stdint.h>

#if defined __BYTE_ORDER__ && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the organ suite needs a little-endian host: model data is used in the byte order of GGUF"
#endif

#if SIZE_MAX < UINT64_MAX
#error "the organ suite needs a 64-bit host: models and tensors are larger than 4 GiB"
#endif

_Static_assert(CHAR_BIT == 8, "the organ suite needs bytes of 8 bits");
_Static_assert(sizeof(float) == 4 && sizeof(double) == 8, "the organ suite needs IEEE 754 types");
