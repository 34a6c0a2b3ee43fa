# A Google Cloud image for instances with a GPU, built on an instance without one.
#   packer init . && packer build -var-file=my.pkrvars.hcl .

packer {
  required_version = ">= 1.9.0"

  required_plugins {
    googlecompute = {
      source  = "github.com/hashicorp/googlecompute"
      version = "~> 1.2"
    }
  }
}

variable "project" {
  type = string
}

variable "zone" {
  type    = string
  default = "us-central1-a"
}

variable "builder_type" {
  type        = string
  default     = "e2-standard-8"
  description = "The builder needs no GPU; cores shorten the build of the kernel modules."
}

source "googlecompute" "ubuntu" {
  project_id              = var.project
  zone                    = var.zone
  machine_type            = var.builder_type
  source_image_family     = "ubuntu-2404-lts-amd64"
  source_image_project_id = ["ubuntu-os-cloud"]
  image_name              = "ubuntu-2404-nvidia-{{timestamp}}"
  image_family            = "ubuntu-2404-nvidia"
  disk_size               = 50
  disk_type               = "pd-ssd"
  ssh_username            = "packer"
}

build {
  sources = ["source.googlecompute.ubuntu"]

  provisioner "shell" {
    execute_command  = local.as_root
    environment_vars = concat(local.release, local.options)
    scripts          = local.scripts
  }
}
