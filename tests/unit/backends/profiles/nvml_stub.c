/* A library with the few NVML calls that the GPU reader makes, for machines without a GPU.
 *
 * It proves how our side counts, maps errors and finds processes; it proves nothing of a driver.
 * Each nvmlInit reads the file that SHUNTER_NVML_STUB names, one statement a line:
 *
 *     gpu UTILISATION USED_MIB TOTAL_MIB [PID MIB]     one more GPU
 *     named INDEX BUS NAME                             what GPU INDEX is called, and where it hangs
 *     fail CALL INDEX CODE                             CALL (such as memory) fails for GPU INDEX
 *     fail init 0 CODE                                 opening fails
 *
 * Built with -DOLD it lacks the utilisation call, as a library before its time would. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS_MAX 16
#define FAULTS_MAX 32
#define MIB (1024ULL * 1024ULL)

struct gpu {
    unsigned utilisation, pid;
    unsigned long long used, total, share;
    char bus[32], name[96];
};
struct fault {
    char call[24];
    int index, code;
};
struct process {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};

struct pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

static struct gpu gpus[GPUS_MAX];
static struct fault faults[FAULTS_MAX];
static int gpu_count, fault_count, is_open;

static int code_of(const char *call, int index) {
    if (!is_open && strcmp(call, "init") != 0) return 1;
    for (int i = 0; i < fault_count; i++)
        if (faults[i].index == index && strcmp(faults[i].call, call) == 0) return faults[i].code;
    return 0;
}

static int index_of(const struct gpu *handle) { return (int)(handle - gpus); }

static void read_statements(void) {
    const char *path = getenv("SHUNTER_NVML_STUB");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[256];
    gpu_count = fault_count = 0;
    while (file && fgets(line, sizeof line, file)) {
        struct gpu g = {0};
        char bus[32], name[96];
        int index;
        struct fault f = {{0}, 0, 0};
        if (gpu_count < GPUS_MAX &&
            sscanf(line, "gpu %u %llu %llu %u %llu", &g.utilisation, &g.used, &g.total, &g.pid,
                   &g.share) >= 3)
            gpus[gpu_count++] = g;
        else if (sscanf(line, "named %d %31s %95[^\n]", &index, bus, name) == 3 && index >= 0 &&
                 index < gpu_count) {
            memcpy(gpus[index].bus, bus, sizeof bus);
            memcpy(gpus[index].name, name, sizeof name);
        } else if (fault_count < FAULTS_MAX &&
                 sscanf(line, "fail %23s %d %d", f.call, &f.index, &f.code) == 3)
            faults[fault_count++] = f;
    }
    if (file) fclose(file);
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    read_statements();
    int code = code_of("init", 0);
    is_open = code == 0;
    return code;
}

int nvmlShutdown(void) {
    int was_open = is_open;
    is_open = 0;
    return was_open ? 0 : 1;
}

const char *nvmlErrorString(int code) {
    static char text[32];
    snprintf(text, sizeof text, "stub error %d", code);
    return text;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = (unsigned)gpu_count;
    return code_of("count", 0);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct gpu **handle) {
    if (index >= (unsigned)gpu_count) return 2;
    *handle = &gpus[index];
    return code_of("handle", (int)index);
}

int nvmlDeviceGetUUID(struct gpu *handle, char *text, unsigned length) {
    snprintf(text, length, "GPU-stub-%d", index_of(handle));
    return code_of("uuid", index_of(handle));
}

int nvmlDeviceGetName(struct gpu *handle, char *text, unsigned length) {
    snprintf(text, length, "%s", handle->name[0] ? handle->name : "Stub GPU");
    return code_of("name", index_of(handle));
}

int nvmlDeviceGetPciInfo_v3(struct gpu *handle, struct pci *found) {
    memset(found, 0, sizeof *found);
    snprintf(found->bus_id, sizeof found->bus_id, "%s",
             handle->bus[0] ? handle->bus : "00000000:01:00.0");
    return code_of("bus", index_of(handle));
}

int nvmlDeviceGetMemoryInfo(struct gpu *handle, unsigned long long *bytes) {
    bytes[0] = handle->total * MIB;
    bytes[1] = (handle->total - handle->used) * MIB;
    bytes[2] = handle->used * MIB;
    return code_of("memory", index_of(handle));
}

#ifndef OLD
int nvmlDeviceGetUtilizationRates(struct gpu *handle, unsigned *percent) {
    percent[0] = handle->utilisation;
    percent[1] = 0;
    return code_of("utilisation", index_of(handle));
}
#endif

int nvmlDeviceGetComputeRunningProcesses_v3(struct gpu *handle, unsigned *count,
                                            struct process *found) {
    unsigned room = *count;
    int code = code_of("processes", index_of(handle));
    if (code != 0) return code;
    *count = handle->pid ? 1 : 0;
    if (*count == 0) return 0;
    if (room == 0 || found == NULL) return 7;
    found[0] = (struct process){handle->pid, handle->share * MIB, ~0u, ~0u};
    return 0;
}
