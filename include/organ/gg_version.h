/* gg_version.h - the version of libgguf and of the tools.
 *
 * The version is written only here. The Makefile reads it from this file for libgguf.pc, and
 * the tools print gg_version().
 */
#ifndef GG_VERSION_H
#define GG_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

#define GG_VERSION_MAJOR 0
#define GG_VERSION_MINOR 1
#define GG_VERSION_PATCH 0

#define GG_VERSION_TEXT2(a, b, c) #a "." #b "." #c
#define GG_VERSION_TEXT(a, b, c) GG_VERSION_TEXT2(a, b, c)
/* The version of the headers that a program was compiled with, such as "0.1.0". */
#define GG_VERSION_STRING GG_VERSION_TEXT(GG_VERSION_MAJOR, GG_VERSION_MINOR, GG_VERSION_PATCH)

/* Returns the version of the library that the program runs with, in the same form. It differs
 * from GG_VERSION_STRING if the headers come from another version. The string is static. Can be
 * called from any thread. */
const char *gg_version(void);

#ifdef __cplusplus
}
#endif

#endif
