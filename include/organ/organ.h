/* organ.h - every public header of libgguf:
 *
 *     #include <organ/organ.h>
 *
 * docs/library.md lists the headers and shows whole programs. These rules hold for all of them:
 *
 * Errors. A function that can fail returns a gg_status and takes a gg_error, which must not be
 * NULL (gg_status.h). Any of them can return GG_ENOMEM; any that reads or writes files can
 * return GG_EIO, and GG_ECANCELLED after gg_cancel. The library never prints, exits or aborts.
 *
 * NULL. Options, run and report of a verb may be NULL, and so may its callbacks for rows, notes
 * and progress. All members zero is the default of every options struct and of gg_run. Other
 * pointers must not be NULL unless the function says so.
 *
 * Callbacks. They are called one at a time, from any thread, unless the header says otherwise. A
 * callback that returns another status than GG_OK ends the call, which returns that status.
 *
 * Ownership. Arguments remain the caller's and are needed until the call returns. Whatever a
 * function opens or makes is the caller's to close or free. Strings and structs that are passed
 * to a callback are valid during that call only. What the functions of a source return is valid
 * until the source is closed.
 *
 * Output. A verb leaves either the whole output or none; nothing appears under the output's name
 * before it is complete. An existing output is replaced only with gg_run.force, otherwise the
 * verb returns GG_EUSAGE. Results do not depend on the number of threads.
 *
 * Threads. Different objects can be used by different threads at the same time. A seekable
 * source can be shared by threads; a pipe cannot. A verb may use several threads.
 *
 * Process. The library does not change limits, signal handlers, the locale or the working folder.
 * All calls share the flag of gg_cancel.
 */
#ifndef GG_ORGAN_SUITE_H
#define GG_ORGAN_SUITE_H

/* clang-format off */
#include "gg_status.h"
#include "gg_version.h"
#include "gg_quant.h"
#include "gg_gguf.h"
#include "gg_organ.h"
#include "gg_verbs.h"
#include "gg_info.h"
#include "gg_align.h"
#include "gg_write.h"
#include "gg_check.h"
/* clang-format on */

#endif
