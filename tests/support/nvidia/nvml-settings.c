/* The part of nvml.c that sets a piece of a GPU's state. What was set is in the file "state" beside the library, in the form of
 * "answers", and counts before it. */

/* The path of a file beside the library. */
static const char *beside(const char *name)
{
	static char path[4096];
	Dl_info info;
	path[0] = 0;
	if (dladdr((void *)answer, &info)) {
		snprintf(path, sizeof path, "%s", info.dli_fname);
		snprintf(strrchr(path, '/'), 64, "/%s", name);
	}
	return path;
}

/* The value that a GPU was given; else that of the answers. */
static const char *state(int gpu, const char *key, const char *otherwise)
{
	static char value[256];
	char line[512], own[128];
	const char *found = NULL;
	size_t length = (size_t)snprintf(own, sizeof own, "%d.%s=", gpu, key);
	FILE *file = fopen(beside("state"), "r");
	while (file && fgets(line, sizeof line, file)) {
		if (strncmp(line, own, length))
			continue;
		line[strcspn(line, "\n")] = 0;
		snprintf(value, sizeof value, "%s", line + length);
		found = value;
	}
	if (file)
		fclose(file);
	return found ? found : answer(gpu, key, otherwise);
}

static unsigned state_number(int gpu, const char *key, unsigned otherwise)
{
	const char *text = state(gpu, key, NULL);
	return text ? (unsigned)strtoul(text, NULL, 0) : otherwise;
}

/* The last line of a key counts. */
static int keep(int gpu, const char *key, const char *value)
{
	enum { UNKNOWN = 999 };
	FILE *file = fopen(beside("state"), "a");
	if (!file)
		return UNKNOWN;
	fprintf(file, "%d.%s=%s\n", gpu, key, value);
	return fclose(file) ? UNKNOWN : SUCCESS;
}

static int keep_number(int gpu, const char *key, unsigned value)
{
	char text[32];
	snprintf(text, sizeof text, "%u", value);
	return keep(gpu, key, text);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, device *out)
{
	unsigned domain, bus, slot, function;
	MAY_END(-1);
	if (sscanf(address, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
		return INVALID_ARGUMENT;
	if (domain || slot || function || bus < 0x17 || bus >= 0x17 + (unsigned)number(-1, "count", 1))
		return NOT_FOUND;
	*out = (device)(size_t)(bus - 0x17 + 1);
	return SUCCESS;
}

/* GPU-00000000-0000-0000-0000-000000000001 is the second. */
int nvmlDeviceGetHandleByUUID(const char *uuid, device *out)
{
	unsigned index;
	MAY_END(-1);
	if (sscanf(uuid, "GPU-00000000-0000-0000-0000-%x", &index) != 1)
		return INVALID_ARGUMENT;
	if (index >= (unsigned)number(-1, "count", 1))
		return NOT_FOUND;
	*out = (device)(size_t)(index + 1);
	return SUCCESS;
}

int nvmlDeviceGetPersistenceMode(device d, unsigned *mode)
{
	MAY_END(gpu_of(d));
	*mode = state_number(gpu_of(d), "persistence", 1);
	return SUCCESS;
}

int nvmlDeviceSetPersistenceMode(device d, unsigned mode)
{
	MAY_END(gpu_of(d));
	return mode > 1 ? INVALID_ARGUMENT : keep_number(gpu_of(d), "persistence", mode);
}

int nvmlDeviceGetComputeMode(device d, unsigned *mode)
{
	MAY_END(gpu_of(d));
	*mode = state_number(gpu_of(d), "compute_mode", 0);
	return SUCCESS;
}

int nvmlDeviceSetComputeMode(device d, unsigned mode)
{
	MAY_END(gpu_of(d));
	return mode > 3 ? INVALID_ARGUMENT : keep_number(gpu_of(d), "compute_mode", mode);
}

/* "now pending". */
int nvmlDeviceGetEccMode(device d, unsigned *current, unsigned *pending)
{
	char text[64], *rest = text;
	MAY_END(gpu_of(d));
	snprintf(text, sizeof text, "%s", state(gpu_of(d), "ecc", "1 1"));
	*current = (unsigned)strtoul(rest, &rest, 0);
	*pending = (unsigned)strtoul(rest, &rest, 0);
	return SUCCESS;
}

int nvmlDeviceSetEccMode(device d, unsigned mode)
{
	unsigned current, pending;
	char text[64];
	MAY_END(gpu_of(d));
	if (mode > 1)
		return INVALID_ARGUMENT;
	nvmlDeviceGetEccMode(d, &current, &pending);
	snprintf(text, sizeof text, "%u %u", current, mode);
	return keep(gpu_of(d), "ecc", text);
}

int nvmlDeviceGetPowerManagementLimit(device d, unsigned *milliwatts)
{
	MAY_END(gpu_of(d));
	*milliwatts = state_number(gpu_of(d), "power_limit", 400000);
	return SUCCESS;
}

int nvmlDeviceGetEnforcedPowerLimit(device d, unsigned *milliwatts)
{
	MAY_END(gpu_of(d));
	return nvmlDeviceGetPowerManagementLimit(d, milliwatts);
}

int nvmlDeviceGetPowerManagementLimitConstraints(device d, unsigned *least, unsigned *most)
{
	MAY_END(gpu_of(d));
	numbers(gpu_of(d), "power_limits", "100000 400000", (unsigned *[]){ least, most }, 2);
	return SUCCESS;
}

int nvmlDeviceSetPowerManagementLimit(device d, unsigned milliwatts)
{
	unsigned least, most;
	MAY_END(gpu_of(d));
	numbers(gpu_of(d), "power_limits", "100000 400000", (unsigned *[]){ &least, &most }, 2);
	if (milliwatts < least || milliwatts > most)
		return INVALID_ARGUMENT;
	return keep_number(gpu_of(d), "power_limit", milliwatts);
}

/* The clocks of an A100 with 40 GB. */
enum { MEMORY_CLOCK = 1215, LEAST_CLOCK = 210, MOST_CLOCK = 1410, CLOCK_STEP = 15 };

int nvmlDeviceGetSupportedMemoryClocks(device d, unsigned *count, unsigned *clocks)
{
	unsigned room = *count;
	MAY_END(gpu_of(d));
	*count = 1;
	if (room < 1)
		return TOO_SMALL;
	clocks[0] = MEMORY_CLOCK;
	return SUCCESS;
}

int nvmlDeviceGetSupportedGraphicsClocks(device d, unsigned memory, unsigned *count, unsigned *clocks)
{
	unsigned room = *count;
	MAY_END(gpu_of(d));
	if (memory != MEMORY_CLOCK)
		return NOT_FOUND;
	*count = (MOST_CLOCK - LEAST_CLOCK) / CLOCK_STEP + 1;
	if (room < *count)
		return TOO_SMALL;
	for (unsigned i = 0; i < *count; i++)
		clocks[i] = MOST_CLOCK - i * CLOCK_STEP;
	return SUCCESS;
}

static int lock_clocks(device d, const char *key, unsigned least, unsigned most)
{
	char text[64];
	if (least > most)
		return INVALID_ARGUMENT;
	snprintf(text, sizeof text, "%u %u", least, most);
	return keep(gpu_of(d), key, text);
}

int nvmlDeviceSetGpuLockedClocks(device d, unsigned least, unsigned most)
{
	MAY_END(gpu_of(d));
	return lock_clocks(d, "gpu_clocks", least, most);
}

int nvmlDeviceResetGpuLockedClocks(device d)
{
	MAY_END(gpu_of(d));
	return keep(gpu_of(d), "gpu_clocks", "none");
}

int nvmlDeviceSetMemoryLockedClocks(device d, unsigned least, unsigned most)
{
	MAY_END(gpu_of(d));
	return lock_clocks(d, "memory_clocks", least, most);
}

int nvmlDeviceResetMemoryLockedClocks(device d)
{
	MAY_END(gpu_of(d));
	return keep(gpu_of(d), "memory_clocks", "none");
}

int nvmlDeviceGetAccountingMode(device d, unsigned *mode)
{
	MAY_END(gpu_of(d));
	*mode = state_number(gpu_of(d), "accounting", 0);
	return SUCCESS;
}

int nvmlDeviceSetAccountingMode(device d, unsigned mode)
{
	MAY_END(gpu_of(d));
	return mode > 1 ? INVALID_ARGUMENT : keep_number(gpu_of(d), "accounting", mode);
}
