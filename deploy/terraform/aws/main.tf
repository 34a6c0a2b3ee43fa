# An EC2 instance with a GPU that gets its NVIDIA stack on first boot.

terraform {
  required_version = ">= 1.4"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "instance_type" {
  type        = string
  default     = "g6.xlarge" # NVIDIA L4
  description = "gpusetup db list instances shows the types that gpusetup knows."
}

variable "subnet_id" {
  type = string
}

variable "key_name" {
  type        = string
  description = "An existing key pair for SSH."
}

data "aws_ami" "ubuntu" {
  most_recent = true
  owners      = ["099720109477"] # Canonical

  filter {
    name   = "name"
    values = ["ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-*"]
  }
}

resource "aws_instance" "gpu" {
  ami           = data.aws_ami.ubuntu.id
  instance_type = var.instance_type
  subnet_id     = var.subnet_id
  key_name      = var.key_name

  user_data                   = module.user_data.user_data
  user_data_replace_on_change = true

  root_block_device {
    volume_size = 60
    volume_type = "gp3"
  }

  metadata_options {
    http_tokens = "required"
  }

  lifecycle {
    # A newer image must not replace the instance.
    ignore_changes = [ami]
  }
}

# Waits until the install has ended, across reboots; terraform apply fails if the install does.
resource "terraform_data" "installed" {
  triggers_replace = [aws_instance.gpu.id]

  provisioner "local-exec" {
    # A new machine has a new host key.
    environment = { SSH_OPTIONS = "-o StrictHostKeyChecking=accept-new" }
    command     = "${path.module}/../wait-for-gpusetup ubuntu@${aws_instance.gpu.public_ip}"
  }
}
