/* What the table of GPUs asks, a part of nvml.c. A text "unterminated" fills its buffer without an end, as a sick library may do. */

static int words(device d, const char *key, const char *otherwise, char *out, unsigned size)
{
	const char *text = answer(gpu_of(d), key, otherwise);
	if (strcmp(text, "unterminated"))
		return put(out, size, text);
	memset(out, 'A', size);
	return SUCCESS;
}

int nvmlDeviceGetUUID(device d, char *out, unsigned size)
{
	char uuid[64];
	MAY_END(gpu_of(d));
	snprintf(uuid, sizeof uuid, "%s-00000000-0000-0000-0000-%012d", gpu_of(d) < 900 ? "GPU" : "MIG", gpu_of(d));
	return words(d, "uuid", uuid, out, size);
}

int nvmlDeviceGetMinorNumber(device d, unsigned *minor)
{
	MAY_END(gpu_of(d));
	*minor = (unsigned)number(gpu_of(d), "minor", gpu_of(d));
	return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(device d, int *major, int *minor)
{
	unsigned both[2];
	MAY_END(gpu_of(d));
	numbers(gpu_of(d), "capability", "8 0", (unsigned *[]){ both, both + 1 }, 2);
	*major = (int)both[0];
	*minor = (int)both[1];
	return SUCCESS;
}

struct attributes {
	unsigned processors, copy_engines, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
	unsigned long long memory;
};

/* "memory processors gpu-slices compute-slices copy-engines decoders". */
int nvmlDeviceGetAttributes_v2(device d, struct attributes *out)
{
	unsigned memory;
	MAY_END(gpu_of(d));
	if (gpu_of(d) < 900)
		return NOT_SUPPORTED;
	memset(out, 0, sizeof *out);
	numbers(gpu_of(d), "share", "4864 14 1 1 1 0",
		(unsigned *[]){ &memory, &out->processors, &out->gpu_slices, &out->compute_slices, &out->copy_engines, &out->decoders }, 6);
	out->memory = memory;
	return SUCCESS;
}

int nvmlDeviceGetSerial(device d, char *out, unsigned size)
{
	MAY_END(gpu_of(d));
	return words(d, "serial", "1563000000000", out, size);
}

int nvmlDeviceGetVbiosVersion(device d, char *out, unsigned size)
{
	MAY_END(gpu_of(d));
	return words(d, "vbios", "92.00.45.00.03", out, size);
}

int nvmlDeviceGetInforomImageVersion(device d, char *out, unsigned size)
{
	MAY_END(gpu_of(d));
	return words(d, "inforom", "G506.0200.00.04", out, size);
}

/* "shutdown slowdown memory operating". */
int nvmlDeviceGetTemperatureThreshold(device d, unsigned kind, unsigned *degrees)
{
	unsigned all[4];
	MAY_END(gpu_of(d));
	if (kind > 3)
		return INVALID_ARGUMENT;
	numbers(gpu_of(d), "thresholds", "92 89 95 85", (unsigned *[]){ all, all + 1, all + 2, all + 3 }, 4);
	*degrees = all[kind];
	return SUCCESS;
}

struct margin {
	unsigned version;
	int degrees;
};

int nvmlDeviceGetMarginTemperature(device d, struct margin *out)
{
	MAY_END(gpu_of(d));
	if (!answer(gpu_of(d), "margin", NULL))
		return NOT_SUPPORTED;
	out->degrees = (int)number(gpu_of(d), "margin", 0);
	return SUCCESS;
}

int nvmlDeviceGetFanSpeed(device d, unsigned *percent)
{
	MAY_END(gpu_of(d));
	if (!answer(gpu_of(d), "fan", NULL))
		return NOT_SUPPORTED;
	*percent = (unsigned)number(gpu_of(d), "fan", 0);
	return SUCCESS;
}

int nvmlDeviceGetPowerManagementDefaultLimit(device d, unsigned *milliwatts)
{
	MAY_END(gpu_of(d));
	*milliwatts = 400000;
	return SUCCESS;
}

struct memory {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

/* In mebibytes: "total used reserved". */
int nvmlDeviceGetMemoryInfo_v2(device d, struct memory *out)
{
	unsigned total, used, reserved;
	MAY_END(gpu_of(d));
	if (out->version != (sizeof *out | 2 << 24))
		return INVALID_ARGUMENT;
	numbers(gpu_of(d), "memory", "40960 421 615", (unsigned *[]){ &total, &used, &reserved }, 3);
	out->total = (unsigned long long)total << 20;
	out->used = (unsigned long long)used << 20;
	out->reserved = (unsigned long long)reserved << 20;
	out->free = out->total - out->used - out->reserved;
	return SUCCESS;
}

struct utilization {
	unsigned gpu, memory;
};

int nvmlDeviceGetUtilizationRates(device d, struct utilization *out)
{
	MAY_END(gpu_of(d));
	numbers(gpu_of(d), "utilization", "0 0", (unsigned *[]){ &out->gpu, &out->memory }, 2);
	return SUCCESS;
}

int nvmlDeviceGetPerformanceState(device d, unsigned *state)
{
	MAY_END(gpu_of(d));
	*state = (unsigned)number(gpu_of(d), "state", 0);
	return SUCCESS;
}

int nvmlDeviceGetClockInfo(device d, unsigned kind, unsigned *megahertz)
{
	MAY_END(gpu_of(d));
	*megahertz = kind == 2 ? 1215 : 210;
	return SUCCESS;
}

int nvmlDeviceGetMaxClockInfo(device d, unsigned kind, unsigned *megahertz)
{
	MAY_END(gpu_of(d));
	*megahertz = kind == 2 ? 1215 : 1410;
	return SUCCESS;
}

/* "generation width highest-generation highest-width". */
static int link_of(device d, int which, unsigned *out)
{
	unsigned all[4];
	numbers(gpu_of(d), "pcie", "4 16 4 16", (unsigned *[]){ all, all + 1, all + 2, all + 3 }, 4);
	*out = all[which];
	return SUCCESS;
}

int nvmlDeviceGetCurrPcieLinkGeneration(device d, unsigned *out)
{
	MAY_END(gpu_of(d));
	return link_of(d, 0, out);
}

int nvmlDeviceGetCurrPcieLinkWidth(device d, unsigned *out)
{
	MAY_END(gpu_of(d));
	return link_of(d, 1, out);
}

int nvmlDeviceGetMaxPcieLinkGeneration(device d, unsigned *out)
{
	MAY_END(gpu_of(d));
	return link_of(d, 2, out);
}

int nvmlDeviceGetMaxPcieLinkWidth(device d, unsigned *out)
{
	MAY_END(gpu_of(d));
	return link_of(d, 3, out);
}

int nvmlDeviceGetPcieReplayCounter(device d, unsigned *count)
{
	MAY_END(gpu_of(d));
	*count = (unsigned)number(gpu_of(d), "replays", 0);
	return SUCCESS;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(device d, unsigned *count, struct process *out)
{
	MAY_END(gpu_of(d));
	unsigned all = (unsigned)number(gpu_of(d), "drawing", 0), room = *count;
	*count = all;
	if (all > room)
		return TOO_SMALL;
	for (unsigned i = 0; i < all; i++)
		out[i] = (struct process){ .pid = 1000 + i, .memory = -1ull, .instance = -1u, .compute_instance = -1u };
	return SUCCESS;
}

int nvmlSystemGetProcessName(unsigned pid, char *out, unsigned size)
{
	char name[32];
	MAY_END(-1);
	snprintf(name, sizeof name, "/usr/bin/python3.%u", pid % 100);
	return words((device)0, "process", name, out, size);
}

int nvmlDeviceGetGpuInstanceId(device d, unsigned *id)
{
	MAY_END(gpu_of(d));
	*id = (unsigned)gpu_of(d) - 999 + 7;
	return SUCCESS;
}

int nvmlDeviceGetComputeInstanceId(device d, unsigned *id)
{
	MAY_END(gpu_of(d));
	*id = 0;
	return SUCCESS;
}

/* "gpu" or "switch" or "processor"; GPUs are joined to the first one. */
int nvmlDeviceGetNvLinkRemoteDeviceType(device d, unsigned link, unsigned *type)
{
	const char *to = answer(gpu_of(d), "links_to", "switch");
	MAY_END(gpu_of(d));
	(void)link;
	*type = !strcmp(to, "gpu") ? 0 : !strcmp(to, "processor") ? 1 : 2;
	return SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(device d, unsigned link, struct pci *out)
{
	MAY_END(gpu_of(d));
	memset(out, 0, sizeof *out);
	out->bus = !strcmp(answer(gpu_of(d), "links_to", "switch"), "gpu") ? 0x17 + !gpu_of(d) : 0xc0 + link % 6;
	return SUCCESS;
}

int nvmlDeviceGetVirtualizationMode(device d, unsigned *mode)
{
	MAY_END(gpu_of(d));
	*mode = (unsigned)number(gpu_of(d), "virtualization", 0);
	return SUCCESS;
}

struct licences {
	int supported;
	unsigned count;
	struct {
		int code;
		unsigned state;
		char info[128], product[128];
		unsigned enabled;
		struct {
			unsigned year;
			unsigned short month, day, hour, minute, second;
			unsigned char status;
		} expiry;
	} feature[3];
};

int nvmlDeviceGetGridLicensableFeatures_v4(device d, struct licences *out)
{
	enum { EXPIRY_VALID = 2 };
	MAY_END(gpu_of(d));
	memset(out, 0, sizeof *out);
	out->supported = 1;
	out->count = 1;
	out->feature[0].enabled = 1;
	out->feature[0].state = (unsigned)number(gpu_of(d), "licensed", 1);
	words(d, "product", "NVIDIA RTX Virtual Workstation", out->feature[0].product, sizeof out->feature[0].product);
	out->feature[0].expiry.status = EXPIRY_VALID;
	out->feature[0].expiry.year = 2027;
	out->feature[0].expiry.month = 2;
	out->feature[0].expiry.day = 1;
	return SUCCESS;
}

struct settings {
	unsigned version, environment, feature, tools, several;
};

int nvmlSystemGetConfComputeSettings(struct settings *out)
{
	MAY_END(-1);
	if (!answer(-1, "confidential", NULL))
		return NOT_SUPPORTED;
	out->feature = (unsigned)number(-1, "confidential", 0);
	return SUCCESS;
}

int nvmlSystemGetConfComputeGpusReadyState(unsigned *ready)
{
	MAY_END(-1);
	*ready = (unsigned)number(-1, "ready", 1);
	return SUCCESS;
}
