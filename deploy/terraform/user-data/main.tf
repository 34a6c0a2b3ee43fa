# Renders user-data for cloud-init that installs the NVIDIA stack on a machine's first boot. It needs no provider.

terraform {
  required_version = ">= 1.3"
}

variable "gpusetup_url" {
  type        = string
  default     = ""
  description = "URL of a gpusetup package (.deb, .rpm) or archive (.tar.gz, .tar.zst) for the machine's system and architecture. Empty if the image contains gpusetup."

  validation {
    condition     = var.gpusetup_url == "" || can(regex("^https://", var.gpusetup_url))
    error_message = "The URL must begin with https://."
  }
}

variable "gpusetup_sha256" {
  type        = string
  default     = ""
  description = "SHA-256 of that file, from a SHA256SUMS whose signature you have verified."

  validation {
    condition     = var.gpusetup_sha256 == "" || can(regex("^[0-9a-f]{64}$", var.gpusetup_sha256))
    error_message = "A SHA-256 has 64 hexadecimal digits."
  }
}

variable "accept_eula" {
  type        = bool
  default     = false
  description = "Accept NVIDIA's licences, https://docs.nvidia.com/cuda/eula."

  validation {
    condition     = var.accept_eula
    error_message = "Nothing is installed unless accept_eula is true."
  }
}

variable "reboot" {
  type        = string
  default     = "if-needed"
  description = "Who reboots the machine if required: gpusetup (if-needed) or cloud-init (external)."

  validation {
    condition     = contains(["if-needed", "external"], var.reboot)
    error_message = "Use if-needed or external."
  }
}

variable "if_no_gpu" {
  type        = string
  default     = "skip"
  description = "What to do on a machine without an NVIDIA GPU: skip or fail."

  validation {
    condition     = contains(["skip", "fail"], var.if_no_gpu)
    error_message = "Use skip or fail."
  }
}

variable "package_upgrade" {
  type        = bool
  default     = true
  description = "Upgrade all packages first and reboot if that requires it, so that the kernel modules are built once."
}

variable "settings" {
  type        = map(string)
  default     = {}
  description = "More options of gpusetup apply: { cuda = \"12.8\", for = \"torch==2.9\" }."
}

locals {
  config = merge(var.settings, {
    "accept-eula" = var.accept_eula
    "reboot"      = var.reboot
    "if-no-gpu"   = var.if_no_gpu
  })

  script = "/usr/local/sbin/get-gpusetup"

  cloud_config = merge(
    {
      write_files = concat(
        [{ path = "/etc/gpusetup/config.yaml", permissions = "0644", content = yamlencode(local.config) }],
        var.gpusetup_url == "" ? [] : [
          { path = local.script, permissions = "0755", content = file("${path.module}/../../get-gpusetup") },
        ],
      )
      package_update             = true
      package_upgrade            = var.package_upgrade
      package_reboot_if_required = var.package_upgrade
      # One script: its exit status is that of its last line.
      runcmd = concat(
        var.gpusetup_url == "" ? [] : [[local.script, var.gpusetup_url, var.gpusetup_sha256]],
        [["gpusetup", "apply", "--unattended"]],
      )
    },
    var.reboot == "if-needed" ? {} : {
      power_state = { mode = "reboot", delay = "now", condition = ["gpusetup", "reboot-required"] }
    },
  )

  user_data = "#cloud-config\n${yamlencode(local.cloud_config)}"
}

output "user_data" {
  description = "User-data, as text."
  value       = local.user_data

  precondition {
    condition     = (var.gpusetup_url == "") == (var.gpusetup_sha256 == "")
    error_message = "Give both gpusetup_url and gpusetup_sha256, or neither."
  }
}

output "user_data_base64" {
  description = "The same in base64, as Azure and OCI expect it."
  value       = base64encode(local.user_data)
}
