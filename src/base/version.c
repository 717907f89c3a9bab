/* version.c - the version of the compiled library. */
#include "organ/gg_version.h"

const char *gg_version(void)
{
    return GG_VERSION_STRING;
}
