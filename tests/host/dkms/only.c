/* nvidia-uvm with its device and nothing behind it. */
#include <linux/fs.h>
#include <linux/module.h>

static const struct file_operations operations = { .owner = THIS_MODULE };
static int major;

static int __init begin(void)
{
	major = register_chrdev(0, "nvidia-uvm", &operations);
	return major < 0 ? major : 0;
}

static void __exit end(void)
{
	unregister_chrdev(major, "nvidia-uvm");
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION(NV_VERSION_STRING);
