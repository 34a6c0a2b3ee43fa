/* Answers for libraries that stand in for NVIDIA's. They are lines KEY=VALUE in the file "answers" beside the library; a key may
 * begin with the number of a GPU, "1.nvmlDeviceGetName". The name of a function as the key is how that function ends: a number
 * is its code, and "hang", "crash" and "exit" are what sick drivers do to who calls them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The value of a key; the answers are read again for each question, which is little. */
static const char *answer(int gpu, const char *key, const char *otherwise)
{
	static char value[256];
	char path[4096], line[512], own[128];
	Dl_info info;
	const char *found = NULL;
	if (!dladdr((void *)answer, &info))
		return otherwise;
	snprintf(path, sizeof path, "%s", info.dli_fname);
	snprintf(strrchr(path, '/'), 16, "/answers");
	snprintf(own, sizeof own, "%d.%s", gpu, key);
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file)) {
		char *equals = strchr(line, '=');
		if (!equals)
			continue;
		*equals = 0;
		equals[1 + strcspn(equals + 1, "\n")] = 0;
		if (!strcmp(line, own) || (!found && !strcmp(line, key))) {
			snprintf(value, sizeof value, "%s", equals + 1);
			found = value;
			if (!strcmp(line, own))
				break;
		}
	}
	if (file)
		fclose(file);
	return found ? found : otherwise;
}

static long number(int gpu, const char *key, long otherwise)
{
	const char *text = answer(gpu, key, NULL);
	return text ? strtol(text, NULL, 0) : otherwise;
}

/* How a function ends: 0 where nothing is said of it. */
static int end_of(int gpu, const char *function)
{
	const char *how = answer(gpu, function, "0");
	if (!strcmp(how, "hang"))
		for (;;)
			pause();
	if (!strcmp(how, "crash"))
		*(volatile int *)(size_t)number(-1, "nowhere", 0) = 0;
	if (!strcmp(how, "exit"))
		_exit(0);
	return (int)strtol(how, NULL, 0);
}

#define MAY_END(gpu)                                  \
	do {                                          \
		int code_ = end_of(gpu, __func__);    \
		if (code_)                            \
			return code_;                 \
	} while (0)
