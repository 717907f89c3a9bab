/* room.h - a folder in memory for one fuzz target, and what most targets check there: an
 * error leaves no output and no temporary file behind, and an output can be read. */
#ifndef ROOM_H
#define ROOM_H

#include "fuzz.h"

#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"
#include "prune/prune.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Path of a file in the folder; valid until the 16th next call. The folder is made by the first
 * call, in FUZZ_ROOM or /dev/shm or /tmp, and removed at exit. */
const char *room(const char *name);

void room_put(const char *name, const void *bytes, size_t n);
bool room_has(const char *name);
/* The whole file, malloc'd; aborts if there is none. */
uint8_t *room_get(const char *name, size_t *n);
bool room_is(const char *name, const void *bytes, size_t n); /* holds exactly these bytes */
void room_remove(const char *name);                          /* a file or a folder */
/* Number of names in the folder. */
size_t room_count(void);

/* Copy a file of the source tree into the folder, under another name. */
void room_copy(const char *from, const char *name);

/* The last `n` bytes of the input choose the operation, and the rest is the file, so that a GGUF
 * model followed by a few bytes is a good seed. Missing bytes are 0. Returns the rest's size. */
size_t room_choices(const uint8_t *data, size_t size, uint8_t *choices, size_t n);

/* One thread and no messages. */
extern const gg_run room_run;

/* Check what a verb left: after an error, a reason, no output, and `count` names as before; else
 * an output that opens as a source. Removes the output and returns whether it was there. */
bool room_settle(gg_status st, const gg_error *e, const char *output, size_t count);

/* For every eighth size of an input: writes out.gguf once more, on the lowest instruction-set level
 * and with three lanes, and checks that it has the same tensors, bit for bit. Only the signs of
 * NaNs may differ. */
typedef gg_status (*room_writer)(void *ctx, const gg_run *run, const char *output, gg_error *e);
void room_repeat(size_t size, room_writer write, void *ctx);

/* Open a file of the folder. NULL if it is refused, which must have a reason. */
gg_source *room_open(const char *name);

/* Both must have the same tensors, bit for bit. Only the signs of NaNs may differ. */
void room_same(gg_source *a, gg_source *b);

/* gg_assemble for the model at a path. */
gg_status room_assemble(const char *path, const gg_assemble_options *o, const char *output,
                        const gg_run *run, gg_assemble_report *report, gg_error *e);
gg_status room_prune(const char *path, const gg_prune_options *o, const char *output,
                     const gg_run *run, gg_error *e);

#endif
