//! The archive of a run (`tests/host/archive`): Debian's index moves on in the middle of it, and
//! nothing in the run notices.

use crate::host::{Ran, Server, machine, script, script_path, text};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Makes an archive of Debian's layout under $1: `tool`, which needs `part`, and `other`, all in
/// version $2, signed with the key of $3.
const ARCHIVE: &str = r#"
export GNUPGHOME=$3
rm -rf "$1"
pool=$1/deb.debian.org/debian/pool/main
mkdir -p "$pool"
for package in 'tool part' part other; do
  set -- "$1" "$2" "$3" $package
  mkdir -p "$1/made/DEBIAN"
  printf '%s\n' "Package: $4" "Version: $2" 'Architecture: amd64' 'Maintainer: x <x@example.com>' "Description: x" \
    ${5:+"Depends: $5 (= $2)"} >"$1/made/DEBIAN/control"
  dpkg-deb --root-owner-group --build "$1/made" "$pool/$4_$2_amd64.deb" >/dev/null
  rm -r "$1/made"
done
for suite in deb.debian.org/debian:trixie deb.debian.org/debian:trixie-updates security.debian.org/debian-security:trixie-security; do
  at=$1/${suite%:*} name=${suite#*:}
  for component in main contrib non-free non-free-firmware; do
    mkdir -p "$at/dists/$name/$component/binary-amd64"
    : >"$at/dists/$name/$component/binary-amd64/Packages"
  done
  [ "$name" != trixie ] || (cd "$at" && apt-ftparchive packages pool >dists/trixie/main/binary-amd64/Packages)
  (cd "$at/dists/$name" && apt-ftparchive -o APT::FTPArchive::Release::Suite="$name" -o APT::FTPArchive::Release::Codename="$name" \
    -o APT::FTPArchive::Release::Architectures=amd64 -o APT::FTPArchive::Release::Components='main contrib non-free non-free-firmware' \
    release . >/tmp/release.$$ && gpg --batch --quiet --clearsign --output InRelease /tmp/release.$$ && rm /tmp/release.$$)
done
"#;

/// Installs $3... through the proxy at $2 into an empty root under $1: prints the versions that apt
/// fetched.
const INSTALL: &str = r#"
rm -rf "$1"
mkdir -p "$1"/lists/partial "$1"/cache/archives/partial "$1"/none
echo "deb [signed-by=$KEYRING arch=amd64] http://deb.debian.org/debian trixie main" >"$1/sources.list"
at=$1 proxy=$2
shift 2
apt() {
  apt-get -qq -o Dir::State::lists="$at/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$at/cache" -o Dir::Etc::parts="$at/none" \
    -o Dir::Etc::sourcelist="$at/sources.list" -o Dir::Etc::sourceparts="$at/none" -o APT::Sandbox::User=root \
    -o Acquire::http::Proxy="$proxy" -o APT::Update::Error-Mode=any "$@"
}
apt update
apt install --yes --download-only "$@"
ls "$at/cache/archives" | grep deb
"#;

#[test]
#[ignore = "needs programs that tests/run installs"]
fn a_run_keeps_to_what_the_archive_was_at_its_start() {
    let scratch = tempfile::tempdir().expect("a folder");
    let at = |name: &str| scratch.path().join(name);
    let (keys, upstream, list) = (at("keys"), at("upstream"), at("packages"));
    fs::create_dir(&keys).expect("made");
    shell("chmod 700 \"$1\"; export GNUPGHOME=$1; gpg --batch --quiet --passphrase '' --quick-generate-key archive ed25519
           gpg --batch --export >\"$1/keyring.gpg\"", &[text(&keys)]);
    fs::write(&list, "trixie tool\n").expect("written");
    shell(ARCHIVE, &[text(&upstream), "1", text(&keys)]);
    let server = Server::of(&upstream);
    let fill = || {
        let mut command = Command::new(script_path("archive"));
        command
            .arg("trixie")
            .env("CARGO_TARGET_DIR", at("target"))
            .env("GPUSETUP_TEST_UPSTREAM", &server.url);
        command
            .env("GPUSETUP_TEST_PACKAGES", &list)
            .env("GPUSETUP_TEST_KEYRING", keys.join("keyring.gpg"));
        let ran = Ran::of(command.output().expect("it starts")).succeeds();
        ran.out.trim().to_owned()
    };
    let archive = fill();
    let address = fs::read_to_string(Path::new(&archive).join("address")).expect("a server");
    let install = |names: &[&str]| {
        let script = format!(
            "export KEYRING={}\n{INSTALL}",
            text(&keys.join("keyring.gpg"))
        );
        let root = at("root");
        let arguments: Vec<&str> = [text(&root), address.trim()]
            .into_iter()
            .chain(names.iter().copied())
            .collect();
        machine(
            "bash",
            &[&["-euc", &script, "install"], &arguments[..]].concat(),
        )
    };
    let first = ["part_1_amd64.deb", "tool_1_amd64.deb"].join("\n");
    assert_eq!(install(&["tool"]).succeeds().out.trim(), first);

    // The archive moves on: a newer index, and the older files are gone.
    shell(ARCHIVE, &[text(&upstream), "2", text(&keys)]);
    server.requests();
    assert_eq!(install(&["tool"]).succeeds().out.trim(), first);
    assert_eq!(fill(), archive, "what was fetched stays");
    let ran = install(&["other"]);
    assert!(ran.code != Some(0) && ran.err.contains("404"), "{ran:?}");
    let missing = fs::read_to_string(Path::new(&archive).join("missing")).expect("a list");
    assert!(missing.contains("pool/main/other_1_amd64.deb"), "{missing}");
    assert_eq!(server.requests(), [""; 0], "nothing asked the archive");

    let mut stop = Command::new(script_path("archive"));
    Ran::of(
        stop.arg("stop")
            .env("CARGO_TARGET_DIR", at("target"))
            .output()
            .expect("it starts"),
    )
    .succeeds();
}

fn shell(script: &str, arguments: &[&str]) {
    machine(
        "bash",
        &[&["-euo", "pipefail", "-c", script, "script"], arguments].concat(),
    )
    .succeeds();
}

#[test]
#[ignore = "needs root: tests/run runs it"]
fn the_kernel_of_a_host_has_an_image() {
    let root = tempfile::tempdir().expect("a folder");
    for path in [
        "boot/vmlinuz-6.1.0-9-amd64",
        "boot/vmlinuz-6.1.0-56-amd64",
        "lib/modules/6.1.0-57-amd64/build",
    ] {
        fs::create_dir_all(root.path().join(path).parent().expect("a folder")).expect("made");
        fs::write(root.path().join(path), "").expect("written");
    }
    assert_eq!(script("kernel", &[text(root.path())]), "6.1.0-56-amd64");
}
