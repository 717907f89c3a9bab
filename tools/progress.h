/* progress.h - shows the progress of a run, on the terminal and to the parent process. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include "cli.h"

/* Start to watch c->progress, which must stay valid until progress_end. */
void progress_start(const cli *c);

/* Stop, and clear the line on the terminal. Does nothing if nothing was started. */
void progress_end(void);

#endif
