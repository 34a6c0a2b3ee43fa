# An Oracle Cloud instance with a GPU that gets its NVIDIA stack on first boot.

terraform {
  required_version = ">= 1.4"

  required_providers {
    oci = {
      source  = "oracle/oci"
      version = ">= 6.0"
    }
  }
}

variable "shape" {
  type        = string
  default     = "VM.GPU.A10.1" # NVIDIA A10
  description = "gpusetup db list instances shows the shapes that gpusetup knows."
}

variable "compartment_id" {
  type = string
}

variable "availability_domain" {
  type        = string
  description = "The availability domain, such as Uocm:PHX-AD-1."
}

variable "subnet_id" {
  type = string
}

variable "ssh_public_key" {
  type = string
}

data "oci_core_images" "ubuntu" {
  compartment_id           = var.compartment_id
  operating_system         = "Canonical Ubuntu"
  operating_system_version = "24.04"
  shape                    = var.shape
  sort_by                  = "TIMECREATED"
  sort_order               = "DESC"
}

resource "oci_core_instance" "gpu" {
  display_name        = "gpu"
  compartment_id      = var.compartment_id
  availability_domain = var.availability_domain
  shape               = var.shape

  create_vnic_details {
    subnet_id        = var.subnet_id
    assign_public_ip = true
  }

  source_details {
    source_type             = "image"
    source_id               = data.oci_core_images.ubuntu.images[0].id
    boot_volume_size_in_gbs = 60
  }

  metadata = {
    ssh_authorized_keys = var.ssh_public_key
    user_data           = module.user_data.user_data_base64
  }

  lifecycle {
    # A newer image must not replace the instance.
    ignore_changes = [source_details[0].source_id]
  }
}

# Waits until the install has ended, across reboots; terraform apply fails if the install does.
resource "terraform_data" "installed" {
  triggers_replace = [oci_core_instance.gpu.id]

  provisioner "local-exec" {
    # A new machine has a new host key.
    environment = { SSH_OPTIONS = "-o StrictHostKeyChecking=accept-new" }
    command     = "${path.module}/../wait-for-gpusetup ubuntu@${oci_core_instance.gpu.public_ip}"
  }
}
