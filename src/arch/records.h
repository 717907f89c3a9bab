/* records.h - the records of architectures as tables.awk writes them: they repeat few words, so a
 * text is a list of numbers of words. arch.c writes them out when the first one is asked for. */
#pragma once

#include "arch.h"

#include <stdint.h>

/* A record: the number of the word that is its name, its line, and the numbers of the texts of its
 * fields (0: the field is not stated). The list ends with a zero. */
enum { GG_ARCH_FIELDS = 14 };
typedef struct gg_arch_row {
    uint16_t name, line, text[GG_ARCH_FIELDS];
} gg_arch_row;

extern const gg_arch_row gg_arch_rows[];
/* The texts from number 1 on, one after another: the line, and then codes up to a 0. A 1 is a line
 * break, and any other code is word number code - 2. */
extern const uint16_t gg_arch_texts[];
extern const char gg_arch_words_of_all[];
/* The numbers of records, texts and words. */
extern const size_t gg_arch_counts[];

/* Where arch.c writes them. */
extern gg_arch gg_arch_room[];
extern gg_arch_words gg_arch_text_room[];
extern const char *gg_arch_word_room[];
extern char gg_arch_letter_room[];
