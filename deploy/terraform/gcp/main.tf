# A Compute Engine instance with a GPU that gets its NVIDIA stack on first boot.

terraform {
  required_version = ">= 1.4"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 5.0"
    }
  }
}

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

variable "machine_type" {
  type        = string
  default     = "g2-standard-4" # NVIDIA L4; G2, A2 and newer types contain their GPUs
  description = "gpusetup db list instances shows the types that gpusetup knows."
}

variable "zone" {
  type    = string
  default = "us-central1-a"
}

variable "network" {
  type    = string
  default = "default"
}

variable "ssh_public_key" {
  type = string
}

module "user_data" {
  source = "../user-data"

  gpusetup_url    = var.gpusetup_url
  gpusetup_sha256 = var.gpusetup_sha256
  accept_eula     = var.accept_eula
  settings        = var.settings
}

resource "google_compute_instance" "gpu" {
  name         = "gpu"
  machine_type = var.machine_type
  zone         = var.zone

  boot_disk {
    initialize_params {
      image = "ubuntu-os-cloud/ubuntu-2404-lts-amd64"
      size  = 60
      type  = "pd-balanced"
    }
  }

  network_interface {
    network = var.network

    access_config {}
  }

  # An instance with a GPU cannot be migrated.
  scheduling {
    on_host_maintenance = "TERMINATE"
    automatic_restart   = true
  }

  # cloud-init reads user-data; only Ubuntu's images contain it by default.
  metadata = {
    user-data = module.user_data.user_data
    ssh-keys  = "ubuntu:${var.ssh_public_key}"
  }
}

# Waits until the install has ended, across reboots; terraform apply fails if the install does.
resource "terraform_data" "installed" {
  triggers_replace = [google_compute_instance.gpu.id]

  provisioner "local-exec" {
    # A new machine has a new host key.
    environment = { SSH_OPTIONS = "-o StrictHostKeyChecking=accept-new" }
    command     = "${path.module}/../wait-for-gpusetup ubuntu@${google_compute_instance.gpu.network_interface[0].access_config[0].nat_ip}"
  }
}
