# An Azure managed image for virtual machines with a GPU, built on one without.
#   az login && packer init . && packer build -var-file=my.pkrvars.hcl .

packer {
  required_version = ">= 1.9.0"

  required_plugins {
    azure = {
      source  = "github.com/hashicorp/azure"
      version = "~> 2.6"
    }
  }
}

variable "subscription" {
  type = string
}

variable "resource_group" {
  type        = string
  description = "An existing resource group; it receives the image."
}

variable "location" {
  type    = string
  default = "eastus"
}

variable "builder_type" {
  type        = string
  default     = "Standard_D8s_v5"
  description = "The builder needs no GPU; cores shorten the build of the kernel modules."
}

source "azure-arm" "ubuntu" {
  use_azure_cli_auth = true
  subscription_id    = var.subscription

  location        = var.location
  vm_size         = var.builder_type
  os_type         = "Linux"
  image_publisher = "Canonical"
  image_offer     = "ubuntu-24_04-lts"
  image_sku       = "server"
  os_disk_size_gb = 64

  managed_image_name                = "ubuntu-2404-nvidia-${formatdate("YYYYMMDDhhmmss", timestamp())}"
  managed_image_resource_group_name = var.resource_group
}

build {
  sources = ["source.azure-arm.ubuntu"]

  provisioner "shell" {
    execute_command  = local.as_root
    environment_vars = concat(local.release, local.options)
    scripts          = local.scripts
  }

  # Azure's agent removes the login of the builder; after it nobody can log in.
  provisioner "shell" {
    execute_command = local.as_root
    inline          = ["/usr/sbin/waagent -force -deprovision+user && export HISTSIZE=0 && sync"]
    skip_clean      = true
  }
}
