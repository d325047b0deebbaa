/* A driver library for machines without a card: nvidia-ml-py loads it like the real one.
 *
 * STUB_CARDS=4                  how many cards
 * STUB_NAMES=A100,H100          their names, the last one for the rest
 * STUB_USED=0,80000             MiB in use of 81920 on each
 * STUB_USERS=1:4711:80000       card:pid:MiB of one process
 * STUB_NUMA=0,0,1,1             their NUMA nodes
 * STUB_BROKEN=1                 the driver does not start
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9 };
#define MIB (1024ULL * 1024)

struct memory { unsigned long long total, free, used; };
struct process { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; };
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };

static int cards[64];

static long entry(const char *name, int index, long otherwise, char *text) {
    const char *list = getenv(name);
    if (!list || !*list) return otherwise;
    for (; index > 0 && strchr(list, ','); index--) list = strchr(list, ',') + 1;
    if (text) { size_t n = strcspn(list, ","); memcpy(text, list, n); text[n] = 0; }
    return strtol(list, NULL, 10);
}

static int count(void) { return (int)entry("STUB_CARDS", 0, 0, NULL); }

int nvmlInitWithFlags(unsigned flags) {
    for (int i = 0; i < 64; i++) cards[i] = i;
    return getenv("STUB_BROKEN") ? DRIVER_NOT_LOADED : SUCCESS;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return "stub"; }
int nvmlSystemGetDriverVersion(char *out, unsigned n) { snprintf(out, n, "999.1"); return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *out) { *out = count(); return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, int **out) { *out = &cards[i]; return SUCCESS; }
int nvmlDeviceGetUUID(int *card, char *out, unsigned n) { snprintf(out, n, "GPU-%d%d%d", *card, *card, *card); return SUCCESS; }
int nvmlDeviceGetName(int *card, char *out, unsigned n) {
    char name[96] = "Stub";
    entry("STUB_NAMES", *card, 0, name);
    snprintf(out, n, "%s", name);
    return SUCCESS;
}
int nvmlDeviceGetMemoryInfo(int *card, struct memory *out) {
    out->total = 81920 * MIB;
    const char *used = getenv("STUB_USED");
    out->used = used ? entry("STUB_USED", *card, 0, NULL) * MIB : 0;
    out->free = out->total - out->used;
    return SUCCESS;
}
int nvmlDeviceGetPciInfo_v3(int *card, struct pci *out) {
    memset(out, 0, sizeof *out);
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:0%d:00.0", *card);
    return SUCCESS;
}
int nvmlDeviceGetNumaNodeId(int *card, unsigned *out) {
    if (!getenv("STUB_NUMA")) return NOT_SUPPORTED;
    *out = entry("STUB_NUMA", *card, 0, NULL);
    return SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses_v3(int *card, unsigned *n, struct process *out) {
    int on; unsigned pid; unsigned long long used;
    const char *users = getenv("STUB_USERS");
    if (!users || sscanf(users, "%d:%u:%llu", &on, &pid, &used) != 3 || on != *card) { *n = 0; return SUCCESS; }
    if (*n < 1 || !out) { *n = 1; return INSUFFICIENT_SIZE; }
    *n = 1;
    memset(out, 0, sizeof *out);
    out->pid = pid;
    out->used = used * MIB;
    return SUCCESS;
}
