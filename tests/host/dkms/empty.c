/* A module of NVIDIA's with nothing in it. */
#include <linux/module.h>

MODULE_LICENSE("NVIDIA");
MODULE_VERSION(NV_VERSION_STRING);
