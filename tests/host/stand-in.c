// Stands in for gpusetup in releases that are made only to see how releases are made and installed: it writes what it is asked
// for, and knows its version.
#include <stdio.h>
#include <string.h>

#ifndef VERSION
#define VERSION "0.1.0"
#endif

int main(int count, char **words) {
    char path[4096];
    const char *last = words[count - 1];
    if (count > 2 && strcmp(words[1], "man") == 0)
        snprintf(path, sizeof path, "%s/gpusetup.1", last);
    else if (count > 2 && strcmp(words[1], "db") == 0)
        snprintf(path, sizeof path, "%s", last);
    else
        return puts("gpusetup " VERSION) < 0;
    FILE *file = fopen(path, "w");
    return file == NULL || fputs("text\n", file) < 0 || fclose(file) != 0;
}
