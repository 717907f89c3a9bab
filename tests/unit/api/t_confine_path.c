/* t_confine_path.c - names that stay below a folder, and all that try not to. */
#include "t.h"

#include "api/confine_path.h"
#include "base/io.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[PATH_MAX];

static void put(const char *name, const char *text)
{
    char path[PATH_MAX + 100];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "w");
    if (f) fputs(text, f), fclose(f);
}

static void tie(const char *to, const char *name)
{
    char path[PATH_MAX + 100];
    snprintf(path, sizeof path, "%s/%s", root, name);
    T_EQ(symlink(to, path), 0);
}

static void folder(const char *name)
{
    char path[PATH_MAX + 100];
    snprintf(path, sizeof path, "%s/%s", root, name);
    T_EQ(mkdir(path, 0700), 0);
}

static gg_status find(const char *name)
{
    gg_error err = GG_ERROR_INIT;
    char *real = NULL;
    gg_status st = gg_confine_path(root, name, &real, &err);
    T_CHECK((st == GG_OK) == (real != NULL));
    if (real) T_CHECK(gg_path_within(root, real));
    free(real);
    return st;
}

static void text_only(void)
{
    T_CHECK(gg_path_within("/a/b", "/a/b"));
    T_CHECK(gg_path_within("/a/b", "/a/b/c"));
    T_CHECK(!gg_path_within("/a/b", "/a/bc"));
    T_CHECK(!gg_path_within("/a/b", "/a"));
    T_CHECK(gg_path_within("/", "/a"));
}

static void finding(void)
{
    T_EQ(find("file"), GG_OK);
    T_EQ(find("in/file"), GG_OK);
    T_EQ(find("good"), GG_OK);
    T_EQ(find("none"), GG_EIO);
    static const char *const out[] = { "/etc",       "/",   "..", "../x", "in/../..",  "in/..",
                                       "in/../file", "bad", "up", "up/x", "etc/passwd" };
    for (size_t i = 0; i < sizeof out / sizeof out[0]; i++)
        T_CHECKF(find(out[i]) == GG_NO, "%s", out[i]);
}

static void opening(void)
{
    gg_error err = GG_ERROR_INIT, no = GG_ERROR_INIT;
    char text[8] = "", *real = NULL;
    int fd = -1;
    T_EQ(gg_confine_open(root, "good", &fd, &real, &err), GG_OK);
    T_CHECK(fd >= 0 && read(fd, text, sizeof text - 1) == 6 && strcmp(text, "inside") == 0);
    if (fd >= 0) close(fd);
    T_CHECK(real && strcmp(real + strlen(root), "/in/file") == 0);
    free(real);
    T_CHECK(gg_confine_open(root, "bad", &fd, NULL, &no) == GG_NO);
    T_CHECK(no.what[0] != '\0');
    no = (gg_error)GG_ERROR_INIT;
    T_CHECK(gg_confine_open(root, "none", &fd, NULL, &no) == GG_EIO);
}

static gg_status make(const char *name)
{
    gg_error err = GG_ERROR_INIT;
    return gg_confine_new(root, name, &err);
}

static void making(void)
{
    T_EQ(make("new"), GG_OK);
    T_EQ(make("in/new"), GG_OK);
    T_EQ(make("file"), GG_OK);
    T_EQ(make("good"), GG_OK);
    T_EQ(make("bad"), GG_NO);
    T_EQ(make("nowhere"), GG_NO);
    T_EQ(make("up/new"), GG_NO);
    T_EQ(make("../new"), GG_NO);
    T_EQ(make("none/new"), GG_EIO);
}

static gg_status tree(const char *name)
{
    gg_error err = GG_ERROR_INIT;
    char path[PATH_MAX + 100];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return gg_confine_tree(root, path, &err);
}

static void trees(void)
{
    T_EQ(tree("in"), GG_OK);
    T_EQ(tree("mixed"), GG_NO);
    T_EQ(tree("deep"), GG_NO);
}

static const t_case cases[] = { { "beneath, as text", text_only },
                                { "find", finding },
                                { "open", opening },
                                { "new", making },
                                { "trees", trees } };

int main(int argc, char **argv)
{
    (void)argc;
    char temp[] = "/tmp/t_beneath.XXXXXX", command[PATH_MAX + 20], deep[40] = "deep";
    if (!mkdtemp(temp) || !realpath(temp, root)) return 1;
    folder("in");
    folder("mixed");
    folder("mixed/a");
    for (int i = 0; i < 10; i++) folder(deep), strcat(deep, "/d");
    put("file", "x");
    put("in/file", "inside");
    tie("in/file", "good");
    tie("../file", "in/link");
    tie("/etc/passwd", "bad");
    tie("/etc", "etc");
    tie("..", "up");
    tie("/nowhere/at/all", "nowhere");
    tie("../../in/file", "mixed/a/good");
    tie("../../../x", "mixed/a/bad");
    int failed = t_run(argv[0], cases, sizeof cases / sizeof cases[0]);
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command) != 0 || failed;
}
