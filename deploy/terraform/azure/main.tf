# An Azure virtual machine with a GPU that gets its NVIDIA stack on first boot.

terraform {
  required_version = ">= 1.4"

  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = ">= 4.0"
    }
  }
}

provider "azurerm" {
  features {}
}

variable "size" {
  type        = string
  default     = "Standard_NC4as_T4_v3" # Tesla T4
  description = "gpusetup db list instances shows the sizes that gpusetup knows."
}

variable "resource_group" {
  type        = string
  description = "An existing resource group."
}

variable "location" {
  type    = string
  default = "eastus"
}

variable "network_interface_id" {
  type        = string
  description = "An existing network interface with a public address."
}

variable "ssh_public_key" {
  type = string
}

resource "azurerm_linux_virtual_machine" "gpu" {
  name                  = "gpu"
  resource_group_name   = var.resource_group
  location              = var.location
  size                  = var.size
  network_interface_ids = [var.network_interface_id]

  admin_username = "ubuntu"

  admin_ssh_key {
    username   = "ubuntu"
    public_key = var.ssh_public_key
  }

  # cloud-init takes custom data as user-data.
  custom_data = module.user_data.user_data_base64

  # With Secure Boot, kernel modules must be signed by a key that the firmware trusts.
  secure_boot_enabled = false

  os_disk {
    caching              = "ReadWrite"
    storage_account_type = "Premium_LRS"
    disk_size_gb         = 64
  }

  source_image_reference {
    publisher = "Canonical"
    offer     = "ubuntu-24_04-lts"
    sku       = "server"
    version   = "latest"
  }
}

# Waits until the install has ended, across reboots; terraform apply fails if the install does.
resource "terraform_data" "installed" {
  triggers_replace = [azurerm_linux_virtual_machine.gpu.id]

  provisioner "local-exec" {
    # A new machine has a new host key.
    environment = { SSH_OPTIONS = "-o StrictHostKeyChecking=accept-new" }
    command     = "${path.module}/../wait-for-gpusetup ubuntu@${azurerm_linux_virtual_machine.gpu.public_ip_address}"
  }
}
