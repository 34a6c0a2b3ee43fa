{
  description = "Installer for NVIDIA drivers, CUDA and cuDNN";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "powerpc64le-linux" ];
      packageFor = system: nixpkgs.legacyPackages.${system}.callPackage ./package.nix { };
    in {
      packages = nixpkgs.lib.genAttrs systems (system: { default = packageFor system; });
    };
}
