# What the examples share: each folder has a link to this file.

variable "gpusetup_url" {
  type = string
}

variable "gpusetup_sha256" {
  type = string
}

variable "accept_eula" {
  type        = bool
  default     = false
  description = "Accept NVIDIA's licences, https://docs.nvidia.com/cuda/eula."
}

variable "settings" {
  type        = map(string)
  default     = {}
  description = "More options of gpusetup apply: { cuda = \"12.8\" }."
}

module "user_data" {
  source = "../user-data"

  gpusetup_url    = var.gpusetup_url
  gpusetup_sha256 = var.gpusetup_sha256
  accept_eula     = var.accept_eula
  settings        = var.settings
}
