# `cargo xtask dist` fills in the page, the version and the checksums, and puts it into the release.
class Gpusetup < Formula
  desc "Installer for NVIDIA drivers, CUDA and cuDNN"
  homepage "@HOME@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]
  depends_on :linux

  on_intel do
    url "@HOME@/releases/download/v@VERSION@/gpusetup-@VERSION@-x86_64-linux.tar.gz"
    sha256 "@SHA256-x86_64@"
  end
  on_arm do
    url "@HOME@/releases/download/v@VERSION@/gpusetup-@VERSION@-aarch64-linux.tar.gz"
    sha256 "@SHA256-aarch64@"
  end

  def install
    bin.install "bin/gpusetup"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/gpusetup"
    zsh_completion.install "share/zsh/site-functions/_gpusetup"
    fish_completion.install "share/fish/vendor_completions.d/gpusetup.fish"
    doc.install Dir["share/doc/gpusetup/*"]
  end

  test do
    assert_match "Choice", shell_output("#{bin}/gpusetup plan --os ubuntu-24.04 --gpu h100")
  end
end
