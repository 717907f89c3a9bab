/* insn_plugin.c - a plugin of qemu-user that prints how many instructions a program executed
 * (qemu-aarch64 -plugin FILE.so -d plugin). The declarations are those of qemu-plugin.h, which
 * Debian does not package: version 1 of the interface. */
#include <inttypes.h>
#include <stdio.h>

typedef uint64_t plugin_id;
enum { INLINE_ADD_U64 = 0 };
struct qemu_plugin_tb;
struct qemu_info;

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
                                           void (*cb)(plugin_id id, struct qemu_plugin_tb *tb));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op, void *counter,
                                              uint64_t add);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*cb)(plugin_id id, void *data), void *data);
void qemu_plugin_outs(const char *text);
int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv);

extern int qemu_plugin_version;
int qemu_plugin_version = 1;
static uint64_t executed;

static void translated(plugin_id id, struct qemu_plugin_tb *tb)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, INLINE_ADD_U64, &executed,
                                             qemu_plugin_tb_n_insns(tb));
}

static void finished(plugin_id id, void *data)
{
    char line[40];
    (void)id;
    (void)data;
    snprintf(line, sizeof line, "instructions: %" PRIu64 "\n", executed);
    qemu_plugin_outs(line);
}

int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv)
{
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, finished, NULL);
    return 0;
}
