# What the templates of all clouds share: each folder has a link to this file.

variable "gpusetup_url" {
  type        = string
  description = "URL of a gpusetup package (.deb, .rpm) or archive (.tar.gz, .tar.zst) for the builder's system and architecture."

  validation {
    condition     = substr(var.gpusetup_url, 0, 8) == "https://"
    error_message = "The URL must begin with https://."
  }
}

variable "gpusetup_sha256" {
  type        = string
  description = "SHA-256 of that file, from a SHA256SUMS whose signature you have verified."

  validation {
    condition     = length(var.gpusetup_sha256) == 64
    error_message = "A SHA-256 has 64 hexadecimal digits."
  }
}

variable "gpu" {
  type        = string
  description = "The GPUs of the machines that will boot the image: h100, p5.4xlarge, 10de:2330."
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

variable "settings" {
  type        = map(string)
  default     = {}
  description = "More options of gpusetup apply: { cuda = \"12.8\", for = \"torch==2.9\" }."
}

locals {
  # The shell provisioner runs scripts as the login user.
  as_root = "sudo env {{ .Vars }} sh '{{ .Path }}'"

  release = ["RELEASE_URL=${var.gpusetup_url}", "RELEASE_SHA256=${var.gpusetup_sha256}"]

  # Beside the folder of each cloud.
  scripts = [
    "${path.root}/../../get-gpusetup",
    "${path.root}/../scripts/apply",
    "${path.root}/../scripts/check-on-boot",
    "${path.root}/../scripts/clean",
  ]

  # Every option of gpusetup can come from the environment.
  options = concat(
    ["GPUSETUP_GPU=${var.gpu}", "GPUSETUP_ACCEPT_EULA=${var.accept_eula ? "yes" : "no"}"],
    [for name, value in var.settings : "GPUSETUP_${upper(replace(name, "-", "_"))}=${value}"],
  )
}
