/* organ.h - every public header of libgguf:
 *
 *     #include <organ/organ.h>
 *
 * docs/library.md says what each header is for and shows whole programs.
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
#include "gg_transplant.h"
#include "gg_graft.h"
#include "gg_stack.h"
#include "gg_keys.h"
#include "gg_patch.h"
#include "gg_measure_model.h"
#include "gg_compare_model.h"
#include "gg_purify.h"
#include "gg_write.h"
#include "gg_check.h"
#include "gg_numeric.h"
/* clang-format on */

#endif
