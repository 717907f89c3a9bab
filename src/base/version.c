/* version.c - the version that the library was compiled as. */
#include "organ/gg_version.h"

const char *gg_version(void)
{
    return GG_VERSION_STRING;
}
