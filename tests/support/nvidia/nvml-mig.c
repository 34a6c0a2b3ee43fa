/* The part of nvml.c that partitions GPUs (MIG), with the profiles and placements of an A100 with 40 GB. The mode and the
 * instances are in the file "state" beside the library. Errors are those that nvml.h documents.
 *
 * "activation" is what keeps a new mode from being active: 19 in use, 16 reset required. "busy" is the id of a GPU instance in which
 * something computes. "no_compute" is the id of a profile whose GPU instances get no compute instance. "cut" is a number of GPU
 * instances: where the GPU has as many and one more is created, gpusetup is killed, as the machine would be by a power cut. */

enum { IN_USE = 19, INSUFFICIENT_RESOURCES = 23, MOST_INSTANCES = 16, SLOTS = 8, SLICES = 7 };
/* NVML_GPU_INSTANCE_PROFILE_COUNT and NVML_COMPUTE_INSTANCE_PROFILE_COUNT of its header. */
enum { PROFILES = 0x12, COMPUTE_PROFILES = 9 };

struct profile {
	unsigned number, id, slices, instances, decoders, jpeg, ofa, memory, size;
	int starts[8];
	const char *name;
};

static const struct profile A100[] = {
	{ 0, 19, 1, 7, 0, 0, 0, 4864, 1, { 0, 1, 2, 3, 4, 5, 6, -1 }, "MIG 1g.5gb" },
	{ 1, 14, 2, 3, 1, 0, 0, 9856, 2, { 0, 2, 4, -1 }, "MIG 2g.10gb" },
	{ 2, 9, 3, 2, 2, 0, 0, 19968, 4, { 0, 4, -1 }, "MIG 3g.20gb" },
	{ 3, 5, 4, 1, 2, 0, 0, 19968, 4, { 0, -1 }, "MIG 4g.20gb" },
	{ 4, 0, 7, 1, 5, 1, 1, 40192, 8, { 0, -1 }, "MIG 7g.40gb" },
	{ 7, 20, 1, 1, 1, 1, 1, 4864, 1, { 0, 1, 2, 3, 4, 5, 6, -1 }, "MIG 1g.5gb+me" },
	{ 9, 15, 1, 4, 1, 0, 0, 9856, 2, { 0, 2, 4, 6, -1 }, "MIG 1g.10gb" },
};
enum { A100_PROFILES = sizeof A100 / sizeof *A100 };

static const struct profile *profile_of(unsigned id)
{
	for (int i = 0; i < A100_PROFILES; i++)
		if (A100[i].id == id)
			return &A100[i];
	return NULL;
}

/* A GPU instance; each digit of `compute` is the number of compute slices of one of its compute instances. */
struct instance {
	unsigned id, profile, start, compute;
};

/* "id profile start compute" for each. */
static int instances_of(int gpu, struct instance *out)
{
	char text[256], *rest = text;
	int count = 0;
	snprintf(text, sizeof text, "%s", state(gpu, "instances", ""));
	while (*rest && count < MOST_INSTANCES) {
		struct instance *i = &out[count++];
		i->id = (unsigned)strtoul(rest, &rest, 10);
		i->profile = (unsigned)strtoul(rest, &rest, 10);
		i->start = (unsigned)strtoul(rest, &rest, 10);
		i->compute = (unsigned)strtoul(rest, &rest, 10);
		while (*rest == ' ' || *rest == ',')
			rest++;
	}
	return count;
}

static int keep_instances(int gpu, const struct instance *all, int count)
{
	char text[256];
	int length = 0;
	text[0] = 0;
	for (int i = 0; i < count; i++)
		length += snprintf(text + length, sizeof text - (size_t)length, "%s%u %u %u %u", i ? "," : "", all[i].id,
				   all[i].profile, all[i].start, all[i].compute);
	return keep(gpu, "instances", text);
}

static void mode_of(int gpu, unsigned *current, unsigned *pending)
{
	char text[64], *rest = text;
	snprintf(text, sizeof text, "%s", state(gpu, "mig", "0 0 0"));
	*current = (unsigned)strtoul(rest, &rest, 0);
	*pending = (unsigned)strtoul(rest, &rest, 0);
}

static int is_partitioned(int gpu)
{
	unsigned current, pending;
	mode_of(gpu, &current, &pending);
	return current == 1;
}

/* The mode now and after a reset, and in the answers how many instances there are. */
int nvmlDeviceGetMigMode(device d, unsigned *current, unsigned *pending)
{
	MAY_END(gpu_of(d));
	mode_of(gpu_of(d), current, pending);
	return SUCCESS;
}

int nvmlDeviceSetMigMode(device d, unsigned mode, int *status)
{
	unsigned current, pending;
	int gpu = gpu_of(d);
	char text[64];
	MAY_END(gpu);
	if (mode > 1)
		return INVALID_ARGUMENT;
	mode_of(gpu, &current, &pending);
	*status = mode == current ? SUCCESS : (int)number(gpu, "activation", 0);
	snprintf(text, sizeof text, "%u %u 0", *status ? current : mode, mode);
	if (!*status && !mode)
		keep_instances(gpu, NULL, 0);
	return keep(gpu, "mig", text);
}

int nvmlDeviceGetMaxMigDeviceCount(device d, unsigned *count)
{
	MAY_END(gpu_of(d));
	*count = SLICES;
	return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(device d, unsigned index, device *out)
{
	unsigned current, pending, instances;
	struct instance all[MOST_INSTANCES];
	MAY_END(gpu_of(d));
	numbers(gpu_of(d), "mig", "0 0 0", (unsigned *[]){ &current, &pending, &instances }, 3);
	unsigned made = (unsigned)instances_of(gpu_of(d), all);
	*out = (device)(size_t)(1000 + index);
	return index < (made ? made : instances) ? SUCCESS : NOT_FOUND;
}

struct profile_info {
	unsigned id, p2p, slices, instances, processors, copy_engines, decoders, encoders, jpeg, ofa;
	unsigned long long memory;
};

struct profile_info_v2 {
	unsigned version, id, p2p, slices, instances, processors, copy_engines, decoders, encoders, jpeg, ofa;
	unsigned long long memory;
	char name[96];
};

static int number_of(unsigned number, const struct profile **out)
{
	if (number >= PROFILES)
		return INVALID_ARGUMENT;
	for (int i = 0; i < A100_PROFILES; i++)
		if (A100[i].number == number) {
			*out = &A100[i];
			return SUCCESS;
		}
	return NOT_SUPPORTED;
}

int nvmlDeviceGetGpuInstanceProfileInfo(device d, unsigned number, struct profile_info *out)
{
	const struct profile *p;
	MAY_END(gpu_of(d));
	int code = number_of(number, &p);
	if (code)
		return code;
	*out = (struct profile_info){ .id = p->id, .slices = p->slices, .instances = p->instances,
				      .processors = 14 * p->slices, .copy_engines = p->slices, .decoders = p->decoders,
				      .jpeg = p->jpeg, .ofa = p->ofa, .memory = p->memory };
	return SUCCESS;
}

/* Only while MIG is on. */
int nvmlDeviceGetGpuInstanceProfileInfoV(device d, unsigned number, struct profile_info_v2 *out)
{
	const struct profile *p;
	MAY_END(gpu_of(d));
	int code = number_of(number, &p);
	if (code)
		return code;
	if (out->version != (sizeof *out | 2u << 24))
		return INVALID_ARGUMENT;
	if (!is_partitioned(gpu_of(d)))
		return NOT_SUPPORTED;
	*out = (struct profile_info_v2){ .version = out->version, .id = p->id, .slices = p->slices,
					 .instances = p->instances, .processors = 14 * p->slices,
					 .copy_engines = p->slices, .decoders = p->decoders, .jpeg = p->jpeg,
					 .ofa = p->ofa, .memory = p->memory };
	snprintf(out->name, sizeof out->name, "%s", p->name);
	return SUCCESS;
}

struct placement {
	unsigned start, size;
};

int nvmlDeviceGetGpuInstancePossiblePlacements_v2(device d, unsigned id, struct placement *out, unsigned *count)
{
	const struct profile *p = profile_of(id);
	unsigned all = 0;
	MAY_END(gpu_of(d));
	if (!p)
		return NOT_SUPPORTED;
	for (; p->starts[all] >= 0; all++)
		if (out)
			out[all] = (struct placement){ (unsigned)p->starts[all], p->size };
	*count = all;
	return SUCCESS;
}

/* A handle is the GPU, the id of the GPU instance, and for a compute instance the number of its slices. */
static void *handle_of(int gpu, unsigned id, unsigned slices)
{
	return (void *)(size_t)(((unsigned)gpu << 8 | id) << 3 | slices | 1u << 30);
}

static int index_of(void *handle, int *gpu, struct instance *all, int *count)
{
	unsigned value = (unsigned)(size_t)handle & ~(1u << 30);
	*gpu = (int)(value >> 11);
	*count = instances_of(*gpu, all);
	for (int i = 0; i < *count; i++)
		if (all[i].id == (value >> 3 & 0xff))
			return i;
	return -1;
}

int nvmlDeviceGetGpuInstances(device d, unsigned id, void **out, unsigned *count)
{
	struct instance all[MOST_INSTANCES];
	MAY_END(gpu_of(d));
	if (!is_partitioned(gpu_of(d)) || !profile_of(id))
		return NOT_SUPPORTED;
	int made = instances_of(gpu_of(d), all);
	*count = 0;
	for (int i = 0; i < made; i++)
		if (all[i].profile == id)
			out[(*count)++] = handle_of(gpu_of(d), all[i].id, 0);
	return SUCCESS;
}

struct instance_info {
	device device;
	unsigned id, profile;
	struct placement placement;
};

int nvmlGpuInstanceGetInfo(void *handle, struct instance_info *out)
{
	struct instance all[MOST_INSTANCES];
	int gpu, count, at = index_of(handle, &gpu, all, &count);
	MAY_END(gpu);
	if (at < 0)
		return INVALID_ARGUMENT;
	*out = (struct instance_info){ (device)(size_t)(gpu + 1), all[at].id, all[at].profile,
				       { all[at].start, profile_of(all[at].profile)->size } };
	return SUCCESS;
}

int nvmlDeviceCreateGpuInstanceWithPlacement(device d, unsigned id, const struct placement *place, void **out)
{
	const struct profile *p = profile_of(id);
	struct instance all[MOST_INSTANCES];
	int gpu = gpu_of(d), allowed = 0;
	unsigned used = 0, slices = 0, decoders = 0, media = 0, same = 0, next = 1;
	MAY_END(gpu);
	if (!is_partitioned(gpu))
		return NOT_SUPPORTED;
	if (!p)
		return INVALID_ARGUMENT;
	for (int i = 0; p->starts[i] >= 0; i++)
		allowed |= (unsigned)p->starts[i] == place->start && p->size == place->size;
	if (!allowed)
		return INVALID_ARGUMENT;
	int count = instances_of(gpu, all);
	for (int i = 0; i < count; i++) {
		const struct profile *other = profile_of(all[i].profile);
		used |= ((1u << other->size) - 1) << all[i].start;
		slices += other->slices;
		decoders += other->decoders;
		media += other->ofa;
		same += other == p;
		next = all[i].id >= next ? all[i].id + 1 : next;
	}
	if (used & ((1u << p->size) - 1) << place->start || slices + p->slices > SLICES || decoders + p->decoders > 5 ||
	    media + p->ofa > 1 || same + 1 > p->instances || count == MOST_INSTANCES)
		return INSUFFICIENT_RESOURCES;
	if (count == (int)number(gpu, "cut", -1)) {
		kill(getppid(), SIGKILL);
		raise(SIGKILL);
	}
	all[count] = (struct instance){ next, id, place->start, 0 };
	*out = handle_of(gpu, next, 0);
	return keep_instances(gpu, all, count + 1);
}

int nvmlGpuInstanceDestroy(void *handle)
{
	struct instance all[MOST_INSTANCES];
	int gpu, count, at = index_of(handle, &gpu, all, &count);
	MAY_END(gpu);
	if (at < 0)
		return INVALID_ARGUMENT;
	if (all[at].compute)
		return IN_USE;
	memmove(&all[at], &all[at + 1], (size_t)(count - at - 1) * sizeof *all);
	return keep_instances(gpu, all, count - 1);
}

struct compute_profile {
	unsigned id, slices, instances, processors, copy_engines, decoders, encoders, jpeg, ofa;
};

static const unsigned COMPUTE_SLICES[COMPUTE_PROFILES] = { 1, 2, 3, 4, 7 };

int nvmlGpuInstanceGetComputeInstanceProfileInfo(void *handle, unsigned number, unsigned engines,
						 struct compute_profile *out)
{
	struct instance all[MOST_INSTANCES];
	int gpu, count, at = index_of(handle, &gpu, all, &count);
	MAY_END(gpu);
	if (at < 0 || number >= COMPUTE_PROFILES || engines)
		return INVALID_ARGUMENT;
	unsigned slices = COMPUTE_SLICES[number], whole = profile_of(all[at].profile)->slices;
	if (!slices || slices > whole)
		return NOT_SUPPORTED;
	*out = (struct compute_profile){ .id = number, .slices = slices, .instances = whole / slices };
	return SUCCESS;
}

int nvmlGpuInstanceGetComputeInstances(void *handle, unsigned profile, void **out, unsigned *count)
{
	struct instance all[MOST_INSTANCES];
	int gpu, made, at = index_of(handle, &gpu, all, &made);
	MAY_END(gpu);
	if (at < 0 || profile >= COMPUTE_PROFILES)
		return INVALID_ARGUMENT;
	*count = 0;
	for (unsigned left = all[at].compute; left; left /= 10)
		if (left % 10 == COMPUTE_SLICES[profile])
			out[(*count)++] = handle_of(gpu, all[at].id, left % 10);
	return SUCCESS;
}

int nvmlGpuInstanceCreateComputeInstance(void *handle, unsigned profile, void **out)
{
	struct instance all[MOST_INSTANCES];
	int gpu, count, at = index_of(handle, &gpu, all, &count);
	MAY_END(gpu);
	if (at < 0 || profile >= COMPUTE_PROFILES || !COMPUTE_SLICES[profile])
		return INVALID_ARGUMENT;
	unsigned slices = COMPUTE_SLICES[profile], used = slices;
	for (unsigned left = all[at].compute; left; left /= 10)
		used += left % 10;
	if (used > profile_of(all[at].profile)->slices || all[at].profile == (unsigned)number(gpu, "no_compute", -1))
		return INSUFFICIENT_RESOURCES;
	all[at].compute = all[at].compute * 10 + slices;
	*out = handle_of(gpu, all[at].id, slices);
	return keep_instances(gpu, all, count);
}

int nvmlComputeInstanceDestroy(void *handle)
{
	struct instance all[MOST_INSTANCES];
	int gpu, count, at = index_of(handle, &gpu, all, &count);
	MAY_END(gpu);
	if (at < 0 || !all[at].compute)
		return INVALID_ARGUMENT;
	if (all[at].id == (unsigned)number(gpu, "busy", 0))
		return IN_USE;
	unsigned slices = (unsigned)(size_t)handle & 7, rest = 0, scale = 1, found = 0;
	for (unsigned left = all[at].compute; left; left /= 10) {
		if (left % 10 == slices && !found++)
			continue;
		rest += left % 10 * scale;
		scale *= 10;
	}
	if (!found)
		return INVALID_ARGUMENT;
	all[at].compute = rest;
	return keep_instances(gpu, all, count);
}
