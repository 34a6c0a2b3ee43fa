/* A libnvidia-ml.so.1 for machines whose GPU has no chip behind its registers. NVIDIA's library asks the chip, gets no
 * answer, and nvidia-smi then rightly says that no devices were found: a gpusetup that asks nvidia-smi whether the driver
 * works would rightly fail. So this one answers for the chip, and for nothing else: without the real module in
 * the kernel there is no driver, a GPU is what that module has bound, and its version is the module's own word. It has what
 * `nvidia-smi --query-gpu=driver_version` and `nvidia-smi -L` call. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, TOO_SMALL = 7, DRIVER_NOT_LOADED = 9 };

static int put(char *out, unsigned size, const char *text)
{
	return (unsigned)snprintf(out, size, "%s", text) < size ? SUCCESS : TOO_SMALL;
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  ..." */
static int loaded(char version[80])
{
	char line[256] = "";
	FILE *file = fopen("/proc/driver/nvidia/version", "r");
	if (!file)
		return 0;
	const char *found = fgets(line, sizeof line, file) ? strstr(line, "Kernel Module") : NULL;
	fclose(file);
	return found && sscanf(found, "Kernel Module %79s", version) == 1;
}

/* How many GPUs the module has bound, and the bus address of one of them. */
static unsigned bound(unsigned index, char address[32])
{
	unsigned count = 0;
	DIR *gpus = opendir("/proc/driver/nvidia/gpus");
	if (!gpus)
		return 0;
	for (struct dirent *gpu; (gpu = readdir(gpus));) {
		if (gpu->d_name[0] == '.')
			continue;
		if (count++ == index && address)
			snprintf(address, 32, "%.31s", gpu->d_name);
	}
	closedir(gpus);
	return count;
}

static unsigned number_of(void *device)
{
	return (unsigned)(size_t)device - 1;
}

int nvmlInitWithFlags(unsigned flags)
{
	char version[80];
	(void)flags;
	return loaded(version) ? SUCCESS : DRIVER_NOT_LOADED;
}

int nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

int nvmlShutdown(void)
{
	return SUCCESS;
}

const char *nvmlErrorString(int code)
{
	return code == DRIVER_NOT_LOADED ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *out, unsigned size)
{
	char version[80];
	return loaded(version) ? put(out, size, version) : DRIVER_NOT_LOADED;
}

int nvmlSystemGetNVMLVersion(char *out, unsigned size)
{
	return nvmlSystemGetDriverVersion(out, size);
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = bound(0, NULL);
	return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	if (index >= bound(0, NULL))
		return INVALID_ARGUMENT;
	*device = (void *)(size_t)(index + 1);
	return SUCCESS;
}

int nvmlDeviceGetIndex(void *device, unsigned *index)
{
	*index = number_of(device);
	return SUCCESS;
}

int nvmlDeviceGetName(void *device, char *out, unsigned size)
{
	(void)device;
	return put(out, size, "NVIDIA A100-SXM4-40GB");
}

int nvmlDeviceGetUUID(void *device, char *out, unsigned size)
{
	char uuid[64];
	snprintf(uuid, sizeof uuid, "GPU-00000000-0000-0000-0000-%012u", number_of(device));
	return put(out, size, uuid);
}

struct pci {
	char short_address[16];
	unsigned domain, bus, device, id, subsystem;
	char address[32];
};

int nvmlDeviceGetPciInfo_v3(void *device, struct pci *pci)
{
	memset(pci, 0, sizeof *pci);
	bound(number_of(device), pci->address);
	sscanf(pci->address, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
	snprintf(pci->short_address, sizeof pci->short_address, "%.15s", pci->address);
	pci->id = 0x20b010de;
	return SUCCESS;
}

/* nvidia-smi wants this private table to be there. */
static int not_supported(void)
{
	return NOT_SUPPORTED;
}

int nvmlInternalGetExportTable(const void **out, const void *id)
{
	static void *table[256];
	(void)id;
	table[0] = (void *)sizeof table;
	for (unsigned i = 1; i < sizeof table / sizeof *table; i++)
		table[i] = (void *)not_supported;
	*out = table;
	return SUCCESS;
}
