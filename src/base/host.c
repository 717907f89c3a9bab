/* host.c - refuses to compile for hosts that the suite does not support. It includes only a header
 * of the compiler itself, so that the message appears even where the C library is missing. */
#include <stddef.h>

#if defined __BYTE_ORDER__ && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the organ suite needs a little-endian host: model data is used in the byte order of GGUF"
#endif

_Static_assert(sizeof(size_t) >= 8 && sizeof(void *) >= 8,
               "the organ suite needs a 64-bit host: models and tensors are larger than 4 GiB");
_Static_assert((unsigned char)-1 == 255, "the organ suite needs bytes of 8 bits");
_Static_assert(sizeof(float) == 4 && sizeof(double) == 8, "the organ suite needs IEEE 754 types");
