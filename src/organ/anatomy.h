/* anatomy.h - the tables that anatomy.txt becomes. Internal. */
#pragma once

#include "organ/gg_organ.h"

typedef struct gg_name_rule {
    gg_class cls;
    const char *pattern; /* NULL ends a list */
} gg_name_rule;

extern const gg_name_rule gg_rules_norm[], gg_rules_tower_norm[], gg_rules_tower[],
    gg_rules_language[], gg_rules_diffusion[], gg_rules_outside[], gg_rules_last_segment[],
    gg_rules_outside_rest[], gg_rules_segment[], gg_rules_diffusion_embed[], gg_rules_layer[];
