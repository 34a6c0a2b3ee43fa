# terraform test, in the folder above

variables {
  accept_eula = true
}

run "gpusetup_in_the_image" {
  command = plan

  assert {
    condition     = startswith(output.user_data, "#cloud-config\n")
    error_message = "cloud-init recognises user-data by its first line."
  }

  assert {
    condition     = yamldecode(output.user_data).runcmd == [["gpusetup", "apply", "--unattended"]]
    error_message = "Nothing else runs if gpusetup is in the image."
  }

  assert {
    condition     = base64decode(output.user_data_base64) == output.user_data
    error_message = "Both outputs are the same text."
  }
}

run "gpusetup_from_a_release" {
  command = plan

  variables {
    gpusetup_url    = "https://example.com/gpusetup_0.1.0-1_amd64.deb"
    gpusetup_sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
    reboot          = "external"
    settings        = { cuda = "12.10", for = "torch==2.9" }
  }

  assert {
    condition     = yamldecode(yamldecode(output.user_data).write_files[0].content).cuda == "12.10"
    error_message = "A version stays a text: 12.10 is not 12.1."
  }

  assert {
    condition     = yamldecode(output.user_data).runcmd[0][2] == var.gpusetup_sha256
    error_message = "The download is verified."
  }

  assert {
    condition     = yamldecode(output.user_data).power_state.condition == ["gpusetup", "reboot-required"]
    error_message = "cloud-init reboots when gpusetup says so."
  }

  # The smallest limit of the clouds, AWS: 16 KiB before base64.
  assert {
    condition     = length(output.user_data) < 16384
    error_message = "The user-data is too long for AWS."
  }
}

run "the_licences_must_be_accepted" {
  command = plan

  variables {
    accept_eula = false
  }

  expect_failures = [var.accept_eula]
}

run "http_is_refused" {
  command = plan

  variables {
    gpusetup_url    = "http://example.com/gpusetup_0.1.0-1_amd64.deb"
    gpusetup_sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
  }

  expect_failures = [var.gpusetup_url]
}

run "a_url_needs_a_checksum" {
  command = plan

  variables {
    gpusetup_url = "https://example.com/gpusetup_0.1.0-1_amd64.deb"
  }

  expect_failures = [output.user_data]
}
