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
