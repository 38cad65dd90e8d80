/* A libnvidia-ml.so.1 that answers from files, so that the real binding and the real plugin run where
 * there is no device. NVML_TABLE, or at compile time FOLDER, names a folder:
 *   table   lines KEY=VALUE, read again at each call: "driver", "count", "error" (every call fails
 *           with it), "wait" (only waiting for events does), and of device N "N.uuid", "N.lost", ...; instance M of device N is "N.M.uuid".
 *           What the table does not have is "not supported".
 *   events  lines "DEVICE TYPE DATA"; a set of events has those after its creation.
 */
#ifndef FOLDER
#define FOLDER "."
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, TIMEOUT = 10, GPU_IS_LOST = 15 };
enum { DEVICES = 16, INSTANCES = 8, LINKS = 36, TEXT = 256 };

typedef struct { int device, instance; } Handle; /* instance -1: the whole device */
typedef struct { Handle *device; unsigned long long type, data; unsigned gpu, compute; } Event;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct {
    unsigned id, scope; long long timestamp, latency; int type, result;
    union { double d; unsigned u; unsigned long long ull; } value;
} Field;
typedef struct { long offset; } EventSet;

static Handle handles[DEVICES][INSTANCES + 1];

static FILE *open_file(const char *name) {
    char path[4096];
    const char *folder = getenv("NVML_TABLE");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : FOLDER, name);
    return fopen(path, "r");
}

static int look_up(const char *key, char *value) {
    char line[TEXT * 2];
    size_t length = strlen(key);
    int found = 0;
    FILE *table = open_file("table");
    if (!table) return 0;
    while (!found && fgets(line, sizeof line, table)) {
        if (strncmp(line, key, length) || line[length] != '=') continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(value, TEXT, "%s", line + length + 1);
        found = 1;
    }
    fclose(table);
    return found;
}

static int failure(void) {
    char value[TEXT];
    return look_up("error", value) ? atoi(value) : SUCCESS;
}

static int text_of(const Handle *handle, const char *name, char *value) {
    char key[TEXT], lost[TEXT];
    int failed = failure();
    if (failed) return failed;
    snprintf(key, sizeof key, "%d.lost", handle->device);
    if (look_up(key, lost)) return atoi(lost);
    if (handle->instance < 0) snprintf(key, sizeof key, "%d.%s", handle->device, name);
    else snprintf(key, sizeof key, "%d.%d.%s", handle->device, handle->instance, name);
    return look_up(key, value) ? SUCCESS : NOT_SUPPORTED;
}

static int number_of(const Handle *handle, const char *name, unsigned long long *number) {
    char value[TEXT];
    int result = text_of(handle, name, value);
    if (result == SUCCESS) *number = strtoull(value, NULL, 0);
    return result;
}

static int small_number_of(const Handle *handle, const char *name, unsigned *number) {
    unsigned long long found;
    int result = number_of(handle, name, &found);
    if (result == SUCCESS) *number = (unsigned)found;
    return result;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return failure(); }
int nvmlInit_v2(void) { return failure(); }
int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int error) {
    static char text[TEXT];
    snprintf(text, sizeof text, "NVML error %d", error);
    return text;
}

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    char value[TEXT];
    int failed = failure();
    if (failed) return failed;
    if (!look_up("driver", value)) return NOT_SUPPORTED;
    snprintf(version, length, "%s", value);
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    char value[TEXT];
    int failed = failure();
    if (failed) return failed;
    *count = look_up("count", value) ? (unsigned)atoi(value) : 0;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle **handle) {
    char value[TEXT];
    Handle *found = &handles[index][INSTANCES];
    found->device = (int)index;
    found->instance = -1;
    *handle = found;
    return text_of(found, "uuid", value);
}

int nvmlDeviceGetUUID(Handle *handle, char *uuid, unsigned length) {
    char value[TEXT];
    int result = text_of(handle, "uuid", value);
    if (result == SUCCESS) snprintf(uuid, length, "%s", value);
    return result;
}

int nvmlDeviceGetName(Handle *handle, char *name, unsigned length) {
    char value[TEXT];
    int result = text_of(handle, "name", value);
    if (result == SUCCESS) snprintf(name, length, "%s", value);
    return result;
}

int nvmlDeviceGetMemoryInfo(Handle *handle, Memory *memory) {
    int result = number_of(handle, "memory", &memory->total);
    if (number_of(handle, "used", &memory->used)) memory->used = 0;
    memory->free = memory->total - memory->used;
    return result;
}

int nvmlDeviceGetPciInfo_v3(Handle *handle, Pci *pci) {
    char value[TEXT];
    int result = text_of(handle, "pci", value);
    memset(pci, 0, sizeof *pci);
    if (result != SUCCESS) return result;
    sscanf(value, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    return SUCCESS;
}

int nvmlDeviceGetMigMode(Handle *handle, unsigned *current, unsigned *pending) {
    int result = small_number_of(handle, "mig", current);
    *pending = *current;
    return result;
}

int nvmlDeviceGetMaxMigDeviceCount(Handle *handle, unsigned *count) {
    (void)handle;
    *count = INSTANCES;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Handle *handle, unsigned slot, Handle **instance) {
    char value[TEXT];
    Handle *found = &handles[handle->device][slot];
    found->device = handle->device;
    found->instance = (int)slot;
    *instance = found;
    return text_of(found, "uuid", value) == SUCCESS ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetNvLinkState(Handle *handle, unsigned link, unsigned *up) {
    char name[TEXT];
    snprintf(name, sizeof name, "link%u", link);
    return small_number_of(handle, name, up);
}

int nvmlDeviceGetTotalEccErrors(Handle *h, int type, int counter, unsigned long long *count) {
    (void)counter;
    return number_of(h, type == 0 ? "corrected" : "uncorrected", count);
}

int nvmlDeviceGetRemappedRows(Handle *h, unsigned *corr, unsigned *unc, unsigned *pend, unsigned *fail) {
    int result = small_number_of(h, "remap_pending", pend);
    if (small_number_of(h, "remap_failed", fail)) *fail = 0;
    *corr = *unc = 0;
    return result;
}

int nvmlDeviceGetRetiredPagesPendingStatus(Handle *h, unsigned *pending) {
    return small_number_of(h, "retired_pending", pending);
}

int nvmlDeviceGetCurrPcieLinkWidth(Handle *h, unsigned *width) {
    return small_number_of(h, "lanes", width);
}

int nvmlDeviceGetMaxPcieLinkWidth(Handle *h, unsigned *width) {
    return small_number_of(h, "lanes_possible", width);
}

int nvmlDeviceGetCurrPcieLinkGeneration(Handle *h, unsigned *generation) {
    return small_number_of(h, "generation", generation);
}

int nvmlDeviceGetMaxPcieLinkGeneration(Handle *h, unsigned *generation) {
    return small_number_of(h, "generation_possible", generation);
}

int nvmlDeviceGetEnforcedPowerLimit(Handle *h, unsigned *milliwatts) {
    return small_number_of(h, "power_limit", milliwatts);
}

int nvmlDeviceGetPowerManagementDefaultLimit(Handle *h, unsigned *milliwatts) {
    return small_number_of(h, "default_power_limit", milliwatts);
}

int nvmlDeviceGetCurrentClocksEventReasons(Handle *h, unsigned long long *reasons) {
    return number_of(h, "clocks", reasons);
}

int nvmlDeviceGetTemperature(Handle *h, int sensor, unsigned *celsius) {
    (void)sensor;
    return small_number_of(h, "temperature", celsius);
}

int nvmlDeviceGetPowerUsage(Handle *h, unsigned *milliwatts) {
    return small_number_of(h, "power", milliwatts);
}

int nvmlDeviceGetUtilizationRates(Handle *h, Utilization *use) {
    use->memory = 0;
    return small_number_of(h, "utilization", &use->gpu);
}

int nvmlDeviceGetFieldValues(Handle *h, int count, Field *fields) {
    for (int index = 0; index < count; index++) {
        char name[TEXT];
        snprintf(name, sizeof name, "field%u", fields[index].id);
        fields[index].result = small_number_of(h, name, &fields[index].value.u);
    }
    return failure();
}

int nvmlDeviceGetSupportedEventTypes(Handle *h, unsigned long long *types) {
    return number_of(h, "event_types", types);
}

int nvmlDeviceRegisterEvents(Handle *h, unsigned long long types, EventSet *set) {
    (void)h, (void)types, (void)set;
    return SUCCESS;
}

int nvmlEventSetCreate(EventSet **set) {
    FILE *events = open_file("events");
    *set = calloc(1, sizeof **set);
    if (events) {
        fseek(events, 0, SEEK_END);
        (*set)->offset = ftell(events);
        fclose(events);
    }
    return failure();
}

int nvmlEventSetFree(EventSet *set) { free(set); return SUCCESS; }

int nvmlEventSetWait_v2(EventSet *set, Event *event, unsigned timeout_ms) {
    for (unsigned waited = 0;; waited += 10) {
        char value[TEXT];
        int failed = look_up("wait", value) ? atoi(value) : failure(), device, scanned = 0;
        FILE *events = open_file("events");
        if (failed) { if (events) fclose(events); return failed; }
        if (events) {
            fseek(events, set->offset, SEEK_SET);
            scanned = fscanf(events, "%d %llu %llu\n", &device, &event->type, &event->data);
            if (scanned == 3) set->offset = ftell(events);
            fclose(events);
        }
        if (scanned == 3) {
            event->device = &handles[device][INSTANCES];
            event->gpu = event->compute = 0xFFFFFFFF;
            return SUCCESS;
        }
        if (waited >= timeout_ms) return TIMEOUT;
        usleep(10000);
    }
}
