# An Oracle Cloud image for instances with a GPU, built on an instance without one.
#   packer init . && packer build -var-file=my.pkrvars.hcl .

packer {
  required_version = ">= 1.9.0"

  required_plugins {
    oracle = {
      source  = "github.com/hashicorp/oracle"
      version = "~> 1.1"
    }
  }
}

variable "compartment" {
  type        = string
  description = "OCID of the compartment."
}

variable "availability_domain" {
  type        = string
  description = "The availability domain, such as Uocm:PHX-AD-1."
}

variable "subnet" {
  type        = string
  description = "OCID of a subnet that Packer reaches over SSH."
}

variable "builder_type" {
  type        = string
  default     = "VM.Standard.E5.Flex"
  description = "The builder needs no GPU; cores shorten the build of the kernel modules."
}

source "oracle-oci" "ubuntu" {
  compartment_ocid    = var.compartment
  availability_domain = var.availability_domain
  subnet_ocid         = var.subnet
  shape               = var.builder_type
  image_name          = "ubuntu-24.04-nvidia-${formatdate("YYYYMMDDhhmmss", timestamp())}"
  disk_size           = 60
  ssh_username        = "ubuntu"

  shape_config {
    ocpus         = 4
    memory_in_gbs = 32
  }

  base_image_filter {
    operating_system         = "Canonical Ubuntu"
    operating_system_version = "24.04"
  }
}

build {
  sources = ["source.oracle-oci.ubuntu"]

  provisioner "shell" {
    execute_command  = local.as_root
    environment_vars = concat(local.release, local.options)
    scripts          = local.scripts
  }
}
