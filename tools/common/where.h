/* where.h - conditions on the rows of a table: --where 'COLUMN<VALUE'. */
#pragma once

#include "organ/gg_status.h" /* GG_PRINTF */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum where_op {
    WHERE_LESS,
    WHERE_LESS_OR_EQUAL,
    WHERE_GREATER,
    WHERE_GREATER_OR_EQUAL,
    WHERE_EQUAL,
    WHERE_NOT_EQUAL,
} where_op;

typedef enum where_kind { WHERE_ABSENT, WHERE_NUMBER, WHERE_WHOLE, WHERE_TEXT } where_kind;

/* The value of a cell. A whole number has both forms, because a double cannot hold all of them. */
typedef struct where_value {
    where_kind kind;
    double number;
    uint64_t whole;
    const char *text; /* escaped as in the table */
} where_value;

typedef struct where {
    const char *given; /* the option's value */
    size_t column;     /* its number in the table */
    where_op op;
    where_value value;
    bool folds_case; /* text is compared without regard to case */
    bool met;        /* some row satisfied it */
    char text[256];  /* the pattern of a text */
} where;

#define WHERE_WHY 4096
/* Parse one value of --where for a table with these tab-separated columns. If it is wrong, returns
 * false and the reason. */
bool where_parse(const char *given, const char *columns, where *out, char why[WHERE_WHY]);

/* Whether a cell satisfies the condition. An absent value and NaN satisfy none. */
bool where_holds(const where *w, const where_value *cell);
