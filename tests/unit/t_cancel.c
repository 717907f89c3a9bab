/* t_cancel.c - a program stops work of the library, from a signal handler, and goes on. */
#include "organ/gg_verbs.h"

#include "t.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL "tests/data/lab/lab-verse-q4_k_m.gguf"

static void on_alarm(int sig)
{
    (void)sig;
    gg_cancel();
}

static gg_status extract(const char *dir)
{
    gg_error err = GG_ERROR_INIT;
    gg_source *s = NULL;
    gg_extract_options o = { 0 };
    gg_extract_report r;
    gg_run run = { .threads = 2 };
    gg_status st = gg_source_open(MODEL, &s, &err);
    if (st == GG_OK) st = gg_extract(s, &o, dir, &run, &r, &err);
    gg_source_close(s);
    return st;
}

static void stops_and_goes_on(void)
{
    char folder[] = "/tmp/t_cancel.XXXXXX", dir[64], manifest[96];
    T_CHECK(mkdtemp(folder) != NULL);
    snprintf(dir, sizeof dir, "%s/d", folder);
    snprintf(manifest, sizeof manifest, "%s/manifest.json", dir);
    gg_error err = GG_ERROR_INIT;
    T_EQ(gg_cancelled(&err), GG_OK);
    signal(SIGALRM, on_alarm);
    raise(SIGALRM);
    T_CHECK(gg_cancelled(&err) == GG_ECANCELLED && err.status == GG_ECANCELLED);
    T_EQ(extract(dir), GG_ECANCELLED);
    T_CHECKF(rmdir(folder) == 0, "%s is not empty",
             folder); /* nothing was left, no temporary name either */
    T_EQ(mkdir(folder, 0700), 0);
    gg_cancel_clear();
    T_EQ(extract(dir), GG_OK);
    T_EQ(access(manifest, F_OK), 0);
    gg_error none = GG_ERROR_INIT;
    T_EQ(gg_cancelled(&none), GG_OK);
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    T_EQ(system(command), 0);
}

static const t_case cases[] = { { "a cancelled extract leaves nothing; cleared, it works",
                                  stops_and_goes_on } };

T_MAIN(cases)
