/* The only program of the trees under attack. If the tree has a file /escape, the program leaves its chroot as root can, and creates
 * the file named there on the host. Otherwise: make DIRECTORY, say TEXT, fail. It is linked statically, since the tree has no
 * libraries. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void leave(void) {
  char marker[4096] = {0};
  int named = open("/escape", O_RDONLY);
  if (named < 0 || read(named, marker, sizeof marker - 1) <= 0) return;
  int root = open("/", O_RDONLY | O_DIRECTORY);
  mkdir("/left", 0700);
  if (root < 0 || chroot("/left") != 0 || fchdir(root) != 0) return;
  for (int up = 0; up < 64; up++)
    if (chdir("..") != 0) return;
  if (chroot(".") == 0) open(marker, O_WRONLY | O_CREAT, 0644);
}

int main(int count, char **argument) {
  leave();
  if (count < 2) return 0;
  if (strcmp(argument[1], "fail") == 0) return 1;
  if (count < 3) return 0;
  if (strcmp(argument[1], "make") == 0) return mkdir(argument[2], 0755) != 0;
  if (strcmp(argument[1], "say") == 0) puts(argument[2]);
  return 0;
}
