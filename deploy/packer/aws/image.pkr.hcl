# An Amazon machine image for instances with a GPU, built on an instance without one.
#   packer init . && packer build -var-file=my.pkrvars.hcl .

packer {
  required_version = ">= 1.9.0"

  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = "~> 1.8"
    }
  }
}

variable "region" {
  type    = string
  default = "us-east-1"
}

variable "builder_type" {
  type        = string
  default     = "c7i.2xlarge"
  description = "The builder needs no GPU; cores shorten the build of the kernel modules."
}

source "amazon-ebs" "ubuntu" {
  region        = var.region
  instance_type = var.builder_type
  ssh_username  = "ubuntu"
  ami_name      = "ubuntu-24.04-nvidia-{{timestamp}}"
  imds_support  = "v2.0"

  ssh_clear_authorized_keys = true

  source_ami_filter {
    most_recent = true
    owners      = ["099720109477"] # Canonical

    filters = {
      name                = "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-*"
      root-device-type    = "ebs"
      virtualization-type = "hvm"
    }
  }

  launch_block_device_mappings {
    device_name           = "/dev/sda1"
    volume_size           = 50
    volume_type           = "gp3"
    delete_on_termination = true
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  tags = {
    gpu = var.gpu
  }
}

build {
  sources = ["source.amazon-ebs.ubuntu"]

  provisioner "shell" {
    execute_command  = local.as_root
    environment_vars = concat(local.release, local.options)
    scripts          = local.scripts
  }
}
