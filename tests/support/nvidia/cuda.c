/* A libcuda.so.1 with the part of CUDA's driver interface that gpusetup calls. Its GPU is an interpreter of PTX, for the
 * instructions that gpusetup's kernel is made of: the numbers that come back were computed from the text that was handed over. */
#include "answers.h"
#include <ctype.h>
#include <stdint.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, NO_DEVICE = 100, INVALID_PTX = 218, NOT_FOUND = 500, ILLEGAL_INSTRUCTION = 715 };

int cuDriverGetVersion(int *version)
{
	MAY_END(-1);
	*version = (int)number(-1, "cuda", 13000);
	return SUCCESS;
}

int cuGetErrorString(int code, const char **text)
{
	*text = code == NO_DEVICE ? "no CUDA-capable device is detected" : "an error of the test's";
	return code == 34 ? code : SUCCESS;
}

int cuInit(unsigned flags)
{
	MAY_END(-1);
	return flags ? INVALID_VALUE : SUCCESS;
}

int cuDeviceGetCount(int *count)
{
	MAY_END(-1);
	*count = (int)number(-1, "count", 1);
	return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal)
{
	MAY_END(ordinal);
	*device = ordinal;
	return SUCCESS;
}

int cuDeviceGetName(char *name, int length, int device)
{
	MAY_END(device);
	snprintf(name, (size_t)length, "NVIDIA A100-SXM4-40GB");
	return SUCCESS;
}

int cuDeviceGetPCIBusId(char *address, int length, int device)
{
	MAY_END(device);
	snprintf(address, (size_t)length, "0000:%02X:00.0", 0x17 + device);
	return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	enum { MAJOR = 75, MINOR = 76 };
	MAY_END(device);
	*value = attribute == MAJOR ? 8 : 0;
	return attribute == MAJOR || attribute == MINOR ? SUCCESS : INVALID_VALUE;
}

static int current = -1;

int cuDevicePrimaryCtxRetain(void **context, int device)
{
	MAY_END(device);
	*context = (void *)(size_t)(device + 1);
	return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
	MAY_END(device);
	return SUCCESS;
}

int cuCtxSetCurrent(void *context)
{
	current = (int)(size_t)context - 1;
	MAY_END(current);
	return SUCCESS;
}

int cuCtxSynchronize(void)
{
	MAY_END(current);
	return current < 0 ? INVALID_VALUE : SUCCESS;
}

int cuMemAlloc_v2(uint64_t *pointer, size_t bytes)
{
	MAY_END(current);
	/* What the driver hands out held something else before. */
	*pointer = (uint64_t)(uintptr_t)memset(malloc(bytes), 0xee, bytes);
	return current < 0 ? INVALID_VALUE : SUCCESS;
}

int cuMemFree_v2(uint64_t pointer)
{
	MAY_END(current);
	free((void *)(uintptr_t)pointer);
	return SUCCESS;
}

int cuMemsetD32_v2(uint64_t pointer, unsigned value, size_t count)
{
	MAY_END(current);
	for (size_t i = 0; i < count; i++)
		((unsigned *)(uintptr_t)pointer)[i] = value;
	return SUCCESS;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
	MAY_END(current);
	memcpy((void *)(uintptr_t)to, from, bytes);
	return SUCCESS;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
	MAY_END(current);
	memcpy(to, (void *)(uintptr_t)from, bytes);
	return SUCCESS;
}

int cuModuleLoadData(void **module, const void *image)
{
	MAY_END(current);
	if (strncmp(image, ".version ", 9))
		return INVALID_PTX;
	*module = strdup(image);
	return SUCCESS;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
	char entry[128];
	MAY_END(current);
	snprintf(entry, sizeof entry, ".entry %s(", name);
	*function = strstr(module, entry);
	return *function ? SUCCESS : NOT_FOUND;
}

/* A thread: its registers and parameters, by name. */
struct thread {
	struct {
		char name[32];
		uint64_t value;
	} names[32];
	int count;
};

static uint64_t *place(struct thread *thread, const char *name)
{
	int i = 0;
	while (i < thread->count && strcmp(thread->names[i].name, name))
		i++;
	if (i == thread->count) {
		snprintf(thread->names[i].name, sizeof thread->names[i].name, "%s", name);
		thread->count++;
	}
	return &thread->names[i].value;
}

static uint64_t value(struct thread *thread, const char *word)
{
	return isdigit((unsigned char)*word) ? strtoull(word, NULL, 0) : *place(thread, word);
}

/* One instruction: "mad.lo.u32 %value, %index, %seed, %mixed". */
static int step(struct thread *thread, char *line)
{
	char *word[5] = { 0 }, *rest = line;
	for (int i = 0; i < 5; i++) {
		word[i] = strsep(&rest, i ? "," : " ");
		for (char *end; word[i] && (end = word[i] + strlen(word[i])) > word[i] && strchr(" ]", end[-1]);)
			end[-1] = 0;
		while (word[i] && (*word[i] == ' ' || *word[i] == '['))
			word[i]++;
	}
#define IS(name) (!strcmp(word[0], name))
#define GET(i) value(thread, word[i])
#define SET(what) (*place(thread, word[1]) = (what))
	if (IS("ld.param.u64") || IS("cvta.to.global.u64"))
		SET(GET(2));
	else if (IS("ld.param.u32") || IS("mov.u32"))
		SET((uint32_t)GET(2));
	else if (IS("mad.lo.u32"))
		SET((uint32_t)(GET(2) * GET(3) + GET(4)));
	else if (IS("xor.b32"))
		SET((uint32_t)(GET(2) ^ GET(3)));
	else if (IS("mul.wide.u32"))
		SET((uint64_t)(uint32_t)GET(2) * (uint32_t)GET(3));
	else if (IS("add.u64"))
		SET(GET(2) + GET(3));
	else if (IS("st.global.u32"))
		*(uint32_t *)(uintptr_t)GET(1) = (uint32_t)GET(2);
	else
		return 0;
	return 1;
}

/* Runs a thread of the kernel whose text begins at its entry; 0 where it says what this GPU does not know. */
static int run(const char *entry, struct thread *thread)
{
	char text[4096], *lines = text, *line;
	snprintf(text, sizeof text, "%s", strchr(entry, '{') + 1);
	while ((line = strsep(&lines, ";"))) {
		while (isspace((unsigned char)*line))
			line++;
		if (!strcmp(line, "ret"))
			return 1;
		if (strncmp(line, ".reg ", 5) && !step(thread, line))
			return 0;
	}
	return 0;
}

int cuLaunchKernel(void *function, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz,
		   unsigned shared, void *stream, void **arguments, void **extra)
{
	MAY_END(current);
	(void)shared, (void)stream;
	if (by * bz * ty * tz != 1 || extra)
		return INVALID_VALUE;
	for (unsigned block = 0; block < bx; block++)
		for (unsigned index = 0; index < tx; index++) {
			struct thread thread = { .count = 0 };
			*place(&thread, "results") = *(uint64_t *)arguments[0];
			*place(&thread, "seed") = *(uint32_t *)arguments[1];
			*place(&thread, "%ctaid.x") = block;
			*place(&thread, "%ntid.x") = tx;
			*place(&thread, "%tid.x") = index;
			if (!run(function, &thread))
				return ILLEGAL_INSTRUCTION;
		}
	/* A GPU that computes wrongly, in one place. */
	if (number(current, "wrong", 0))
		(*(uint32_t **)arguments[0])[7] ^= 1;
	return SUCCESS;
}
