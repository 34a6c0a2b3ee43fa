//! The archive has the headers of a newer kernel than the host's, as for some hours with every
//! kernel update and until an upgrade on any host: `linux-headers-amd64`, which brings the headers
//! of later kernels, then brings those of a kernel that is not installed. DKMS builds the driver
//! for it in advance. It is no kernel of the host: nothing boots it, and nothing waits for its
//! initramfs.

use crate::host::tree::differences;
use crate::host::{Host, RECORDS};
use serde_json::Value;

const DRIVER: &[&str] = &[
    "--profile",
    "driver",
    "--driver",
    "535",
    "--method",
    "packages",
    "--modules",
    "proprietary",
];
const NEWER: &str = "6.1.0-999-amd64";

/// What may differ after an uninstall beside gpusetup's records: see `suites.rs`.
const AFTER_UNINSTALL: &[&str] = &[
    "var/lib/dpkg/diversions-old",
    "var/lib/dkms",
    "boot/initrd.img-*",
];

/// Debian's own headers of this kernel, under the name of a newer one and in a repository of the
/// host.
const OFFER: &str = r#"
cd /root
packages=$(ls /var/cache/apt/archives/linux-headers-"$KERNEL"_*.deb /var/cache/apt/archives/linux-headers-amd64_*.deb)
mkdir -p /srv/newer
for package in $packages; do
  dpkg-deb -R "$package" made
  version=$(dpkg-deb -f "$package" Version)
  find made/DEBIAN made/usr/share -type f -exec sed -i "s/$KERNEL/$NEWER/g" {} +
  sed -i "s/^Version: .*/Version: $version+newer/; s/linux-headers-$NEWER (= [^)]*)/linux-headers-$NEWER (= $version+newer)/" made/DEBIAN/control
  # Compilers and scripts of a release are in packages that both share.
  find made -depth -name "*$KERNEL*" | while read -r path; do
    mv "$path" "${path%/*}/$(basename "$path" | sed "s/$KERNEL/$NEWER/")"
  done
  find made -type l | while read -r link; do
    case $(readlink "$link") in *"$KERNEL"*) ln -sfn "$(readlink "$link" | sed "s/$KERNEL/$NEWER/")" "$link" ;; esac
  done
  (cd made && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | xargs -0r md5sum >DEBIAN/md5sums)
  dpkg-deb --root-owner-group --build made "/srv/newer/$(basename "$package" | sed "s/$KERNEL/$NEWER/")" >/dev/null
  rm -r made
done
cd /srv/newer
for package in *.deb; do
  dpkg-deb -f "$package"
  echo "Filename: ./$package"
  echo "Size: $(stat -c %s "$package")"
  echo "SHA256: $(sha256sum "$package" | cut -d' ' -f1)"
  echo
done >Packages
echo 'deb [trusted=yes] file:/srv/newer ./' >/etc/apt/sources.list.d/newer.list
apt-get -qq update
apt-cache policy linux-headers-amd64 | grep 'Candidate: .*newer'
"#;

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn headers_of_a_newer_kernel_are_no_kernel() {
    let host = Host::new("newer-headers");
    let kernel = host.kernel();
    host.ask(&format!("NEWER={NEWER}\n{OFFER}"));
    // Modules that nothing loads here: two builds in seconds (tests/host/dkms).
    host.ask("sed -i 's/= 12 /= none /' /etc/dkms/smaller; grep -q none /etc/dkms/smaller");
    let before = host.clone_as("before-newer-headers");
    assert_eq!(kernels(&host), [kernel.as_str()]);
    host.gpusetup(&[&["apply", "--yes", "--accept-eula"], DRIVER].concat())
        .succeeds();
    assert_eq!(
        host.ask(&format!("readlink -f /lib/modules/{NEWER}/build/.config")),
        format!("/usr/src/linux-headers-{NEWER}/.config")
    );
    for release in [&kernel, NEWER] {
        let status = host.ask(&format!("dkms status -m nvidia-current -k {release}"));
        assert!(status.contains("installed"), "{release}: {status}");
    }
    // What DKMS builds there has depmod write a list of modules.
    host.ask(&format!("test -e /lib/modules/{NEWER}/modules.dep"));
    assert_eq!(kernels(&host), [kernel.as_str()]);
    assert_eq!(
        host.ask("ls /boot | grep initrd"),
        format!("initrd.img-{kernel}")
    );
    host.reboots();
    assert_eq!(findings(&host), [""; 0]);
    let again = host
        .gpusetup(&[&["apply", "--yes", "--accept-eula"], DRIVER].concat())
        .succeeds();
    assert!(again.out.contains("Nothing to do"), "{}", again.out);
    // Without headers a kernel of the host is found all the same.
    host.ask(&format!(
        "rm -r /lib/modules/{kernel}/updates; depmod {kernel}"
    ));
    assert_eq!(
        findings(&host),
        ["GS104"],
        "modules for the other kernel do not stand for those of this one"
    );
    host.gpusetup(&["uninstall", "--yes"]).succeeds();
    assert_eq!(
        differences(
            &before.root(),
            &host.root(),
            &[RECORDS, AFTER_UNINSTALL].concat()
        ),
        [""; 0]
    );
}

/// The releases of the installed kernels, of which the first is the next to boot.
fn kernels(host: &Host) -> Vec<String> {
    let facts = host.gpusetup(&["facts", "--json"]).succeeds().json();
    let text = |value: &Value| value.as_str().expect("a release").to_owned();
    let installed = facts["kernels"]["installed"].as_array().expect("kernels");
    let all: Vec<_> = installed
        .iter()
        .map(|kernel| text(&kernel["release"]))
        .collect();
    assert_eq!(all.first(), Some(&text(&facts["kernels"]["next_boot"])));
    all
}

/// What doctor finds to have failed.
fn findings(host: &Host) -> Vec<String> {
    let report = host.gpusetup(&["doctor", "--json"]).json();
    let checks = report["checks"].as_array().expect("checks");
    let failed = checks
        .iter()
        .filter(|check| check["status"] == "fail" || check["status"] == "error");
    failed
        .map(|check| check["id"].as_str().expect("an id").to_owned())
        .collect()
}
