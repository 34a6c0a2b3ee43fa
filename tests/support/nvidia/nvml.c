/* A libnvidia-ml.so.1 with NVML's C interface, as far as gpusetup asks it, that answers from a file. What the file does not say
 * is as on a sound A100. */
#include "answers.h"

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7 };

typedef void *device;

/* A device is its number, and one; an instance of one stands far behind. */
static int gpu_of(device d)
{
	return (int)(size_t)d - 1;
}

static int put(char *out, unsigned size, const char *text)
{
	return (unsigned)snprintf(out, size, "%s", text) < size ? SUCCESS : TOO_SMALL;
}

/* Numbers of an answer, "1 2 0 0". */
static void numbers(int gpu, const char *key, const char *otherwise, unsigned *out[], int count)
{
	char text[256], *rest = text;
	snprintf(text, sizeof text, "%s", answer(gpu, key, otherwise));
	for (int i = 0; i < count; i++)
		*out[i] = (unsigned)strtoul(rest, &rest, 0);
}

#include "nvml-settings.c"
#include "nvml-mig.c"

int nvmlInit_v2(void)
{
	MAY_END(-1);
	return SUCCESS;
}

int nvmlShutdown(void)
{
	MAY_END(-1);
	return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *out, unsigned size)
{
	MAY_END(-1);
	return put(out, size, answer(-1, "driver", "580.95.05"));
}

int nvmlSystemGetNVMLVersion(char *out, unsigned size)
{
	MAY_END(-1);
	return put(out, size, "13.580.95.05");
}

int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	MAY_END(-1);
	*version = (int)number(-1, "cuda", 13000);
	return SUCCESS;
}

int nvmlSystemGetCudaDriverVersion(int *version)
{
	return nvmlSystemGetCudaDriverVersion_v2(version);
}

int nvmlGetExcludedDeviceCount(unsigned *count)
{
	MAY_END(-1);
	*count = (unsigned)number(-1, "excluded", 0);
	return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	MAY_END(-1);
	*count = (unsigned)number(-1, "count", 1);
	return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *out)
{
	MAY_END((int)index);
	if (index >= (unsigned)number(-1, "count", 1))
		return INVALID_ARGUMENT;
	*out = (device)(size_t)(index + 1);
	return SUCCESS;
}

int nvmlDeviceGetName(device d, char *out, unsigned size)
{
	MAY_END(gpu_of(d));
	return put(out, size, answer(gpu_of(d), "name", "NVIDIA A100-SXM4-40GB"));
}

struct pci {
	char short_address[16];
	unsigned domain, bus, device, id, subsystem;
	char address[32];
};

int nvmlDeviceGetPciInfo_v3(device d, struct pci *out)
{
	MAY_END(gpu_of(d));
	memset(out, 0, sizeof *out);
	out->bus = 0x17 + (unsigned)gpu_of(d);
	out->id = 0x20b010de;
	snprintf(out->short_address, sizeof out->short_address, "0000:%02X:00.0", out->bus);
	snprintf(out->address, sizeof out->address, "00000000:%02X:00.0", out->bus);
	return SUCCESS;
}

int nvmlDeviceGetDisplayActive(device d, unsigned *active)
{
	MAY_END(gpu_of(d));
	*active = 0;
	return SUCCESS;
}

int nvmlDeviceGetDisplayMode(device d, unsigned *attached)
{
	MAY_END(gpu_of(d));
	*attached = (unsigned)number(gpu_of(d), "display", 0);
	return SUCCESS;
}

struct process {
	unsigned pid;
	unsigned long long memory;
	unsigned instance, compute_instance;
};

int nvmlDeviceGetComputeRunningProcesses_v3(device d, unsigned *count, struct process *out)
{
	MAY_END(gpu_of(d));
	unsigned all = (unsigned)number(gpu_of(d), "processes", 0), room = *count;
	*count = all;
	if (all > room)
		return TOO_SMALL;
	for (unsigned i = 0; i < all; i++)
		out[i] = (struct process){ .pid = 1000 + i };
	return SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(device d, int kind, int counter, unsigned long long *count)
{
	unsigned now, ever;
	MAY_END(gpu_of(d));
	if (kind != 1)
		return INVALID_ARGUMENT;
	numbers(gpu_of(d), "uncorrected", "0 0", (unsigned *[]){ &now, &ever }, 2);
	*count = counter == 0 ? now : ever;
	return SUCCESS;
}

int nvmlDeviceGetRemappedRows(device d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed)
{
	MAY_END(gpu_of(d));
	numbers(gpu_of(d), "rows", "0 0 0 0", (unsigned *[]){ corrected, uncorrected, pending, failed }, 4);
	return SUCCESS;
}

/* "single double pending"; an A100 has none. */
int nvmlDeviceGetRetiredPagesPendingStatus(device d, unsigned *pending)
{
	unsigned single, twice;
	MAY_END(gpu_of(d));
	if (!answer(gpu_of(d), "pages", NULL))
		return NOT_SUPPORTED;
	numbers(gpu_of(d), "pages", "", (unsigned *[]){ &single, &twice, pending }, 3);
	return SUCCESS;
}

int nvmlDeviceGetRetiredPages(device d, int cause, unsigned *count, unsigned long long *addresses)
{
	unsigned single, twice, pending, room = *count;
	MAY_END(gpu_of(d));
	numbers(gpu_of(d), "pages", "0 0 0", (unsigned *[]){ &single, &twice, &pending }, 3);
	*count = cause == 0 ? single : twice;
	for (unsigned i = 0; i < *count && *count <= room; i++)
		addresses[i] = i;
	return *count > room ? TOO_SMALL : SUCCESS;
}

int nvmlDeviceGetRetiredPages_v2(device d, int cause, unsigned *count, unsigned long long *addresses,
				 unsigned long long *times)
{
	unsigned room = *count;
	memset(times, 0, room * sizeof *times);
	return nvmlDeviceGetRetiredPages(d, cause, count, addresses);
}

struct field {
	unsigned id, scope;
	long long time, latency;
	unsigned type, code;
	union {
		double real;
		unsigned whole;
		unsigned long long longer;
	} value;
};

int nvmlDeviceGetFieldValues(device d, int count, struct field *fields)
{
	enum { RECOVERY_ACTION = 230, WHOLE = 1 };
	MAY_END(gpu_of(d));
	for (int i = 0; i < count; i++) {
		fields[i].code = fields[i].id == RECOVERY_ACTION ? SUCCESS : NOT_SUPPORTED;
		fields[i].type = WHOLE;
		fields[i].value.whole = (unsigned)number(gpu_of(d), "recovery", 0);
	}
	return SUCCESS;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(device d, unsigned long long *reasons)
{
	MAY_END(gpu_of(d));
	*reasons = (unsigned long long)number(gpu_of(d), "slowdown", 0);
	return SUCCESS;
}

int nvmlDeviceGetTemperature(device d, int sensor, unsigned *degrees)
{
	MAY_END(gpu_of(d));
	(void)sensor;
	*degrees = 31;
	return SUCCESS;
}

int nvmlDeviceGetPowerUsage(device d, unsigned *milliwatts)
{
	MAY_END(gpu_of(d));
	*milliwatts = 43000;
	return SUCCESS;
}

struct fabric {
	unsigned char cluster[16];
	unsigned status, clique, state;
};

/* "state status". */
int nvmlDeviceGetGpuFabricInfo(device d, struct fabric *out)
{
	MAY_END(gpu_of(d));
	if (!answer(gpu_of(d), "fabric", NULL))
		return NOT_SUPPORTED;
	memset(out, 0, sizeof *out);
	numbers(gpu_of(d), "fabric", "", (unsigned *[]){ &out->state, &out->status }, 2);
	return SUCCESS;
}

int nvmlDeviceGetNvLinkState(device d, unsigned link, unsigned *active)
{
	unsigned up, all;
	MAY_END(gpu_of(d));
	numbers(gpu_of(d), "links", "0 0", (unsigned *[]){ &up, &all }, 2);
	*active = link < up;
	return link < all ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetTopologyCommonAncestor(device a, device b, unsigned *level)
{
	enum { HOST_BRIDGE = 30 };
	(void)b;
	MAY_END(gpu_of(a));
	*level = HOST_BRIDGE;
	return SUCCESS;
}
