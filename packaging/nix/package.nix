# gpusetup from this repository: its version is that of Cargo.toml, its dependencies are those of Cargo.lock.
{ lib, rustPlatform, installShellFiles }:

rustPlatform.buildRustPackage {
  pname = "gpusetup";
  version = (builtins.fromTOML (builtins.readFile ../../Cargo.toml)).workspace.package.version;
  src = lib.cleanSource ../..;
  cargoLock.lockFile = ../../Cargo.lock;

  nativeBuildInputs = [ installShellFiles ];
  # `tests/run` needs root, Debian's packages and virtual machines.
  doCheck = false;

  postInstall = ''
    mkdir pages
    $out/bin/gpusetup man --directory pages
    installManPage pages/*
    for shell in bash zsh fish; do
      $out/bin/gpusetup completions $shell >gpusetup.$shell
    done
    installShellCompletion gpusetup.bash gpusetup.zsh gpusetup.fish
  '';

  meta = {
    description = "Installer for NVIDIA drivers, CUDA and cuDNN";
    license = with lib.licenses; [ mit asl20 ];
    platforms = [ "x86_64-linux" "aarch64-linux" "powerpc64le-linux" ];
    mainProgram = "gpusetup";
  };
}
