//! NVIDIA's network repository on systems with rpm packages, with the real dnf and zypper: a whole
//! apply, upgrade, rollback, uninstall and bundle. The repositories are made here and signed by
//! keys made here, whose fingerprints are in a copy of the database.

use crate::host::{Host, Ran, Server, gpusetup, machine, text};
use crate::rpms::{self, Rpm, rpm, trusted_keys, versions};
use crate::signer::{self, Pinned, Signer};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const PINNED: Pinned = Pinned {
    id: "d42d0685",
    fingerprint: "610C7B14E068A878070DA4E99CD0A493D42D0685",
};
const KEY_FILE: &str = "D42D0685.pub";
const UNIT: &str = "nvidia-fabricmanager.service";
const FABRIC_MANAGER: &str = "nvidia-fabricmanager";
/// The files by which the repository was added.
const OURS: &str = "find /etc -name 'gpusetup-cuda*' -o -name '*KEY-gpusetup*'";

/// NVIDIA's repository for one system, and the host that it is for.
struct Site {
    host: Host,
    server: Option<Server>,
    served: tempfile::TempDir,
    databases: tempfile::TempDir,
    database: PathBuf,
    below: &'static str,
    signer: Signer,
}

impl Site {
    fn new(host: Host, below: &'static str) -> Self {
        let served = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(served.path().join(below)).expect("made");
        let (databases, signer) = (tempfile::tempdir().expect("a folder"), Signer::new("ours"));
        let database = signer::database(databases.path(), PINNED, &[&signer.fingerprint]);
        let server = Some(Server::of(served.path()));
        let site = Self {
            host,
            server,
            served,
            databases,
            database,
            below,
            signer,
        };
        site.has_key(&site.signer);
        site
    }

    fn folder(&self) -> PathBuf {
        self.served.path().join(self.below)
    }

    fn has_key(&self, signer: &Signer) {
        fs::write(self.folder().join(KEY_FILE), signer.public_key()).expect("written");
    }

    /// Adds packages, signed, and makes the lists again, signed by this key.
    fn publish(&self, version: &str, packages: &[Rpm]) {
        self.signer
            .sign_packages(&rpms::make(&self.folder(), version, packages));
        self.list(Some(&self.signer));
    }

    /// Makes the lists again, signed by this key or by none.
    fn list(&self, signer: Option<&Signer>) {
        let folder = self.folder();
        machine("createrepo_c", &["--quiet", text(&folder)]).succeeds();
        let modules = folder.join("modules.yaml");
        if modules.exists() {
            machine(
                "modifyrepo_c",
                &[
                    "--mdtype=modules",
                    text(&modules),
                    text(&folder.join("repodata")),
                ],
            )
            .succeeds();
        }
        if let Some(signer) = signer {
            signer.sign_lists(&folder);
        }
    }

    fn call_with(&self, database: &Path, arguments: &[&str]) -> Ran {
        let (verb, rest) = arguments.split_first().expect("a verb");
        let root = self.host.root();
        let mut all = vec![*verb, "--root", text(&root), "--database", text(database)];
        if let Some(server) = self
            .server
            .as_ref()
            .filter(|_| ["plan", "apply"].contains(verb))
        {
            all.extend(["--mirror", &server.url]);
        }
        gpusetup(all.into_iter().chain(rest.iter().copied()))
    }

    fn call(&self, arguments: &[&str]) -> Ran {
        self.call_with(&self.database, arguments)
    }

    /// Each way in which the repository's key or signatures may be wrong is refused, and nothing of
    /// it stays.
    fn refuses_other_keys(&self, apply: &[&str]) {
        let stranger = Signer::new("stranger");
        let state = || {
            self.host
                .ask(&format!("rpm -qa '*nvidia*' gpg-pubkey; {OURS}"))
        };
        // The file has another key, or another key too: refused before the first change.
        for text in [
            stranger.public_key(),
            self.signer.public_key() + &stranger.public_key(),
        ] {
            fs::write(self.folder().join(KEY_FILE), text).expect("written");
            let ran = self.call(apply);
            assert!(ran.code == Some(10) && ran.err.contains("GS404"), "{ran:?}");
            assert!(ran.err.contains(&stranger.fingerprint), "{ran:?}");
        }
        // Another key signed the lists, or none did, or one that has expired.
        let expired = Signer::expired();
        let pinned = signer::database(self.databases.path(), PINNED, &[&expired.fingerprint]);
        let unusable = (7, "cannot be used");
        for (key, signer, database, (code, why)) in [
            (&self.signer, Some(&stranger), &self.database, unusable),
            (&self.signer, None, &self.database, unusable),
            (
                &expired,
                Some(&expired),
                &pinned,
                (10, "it expired on 2022-01-02"),
            ),
        ] {
            self.has_key(key);
            self.list(signer);
            let ran = self.call_with(database, apply);
            assert!(ran.code == Some(code) && ran.err.contains(why), "{ran:?}");
            assert_eq!(state(), "");
        }
        self.has_key(&self.signer);
        self.list(Some(&self.signer));
    }
}

/// The operations of a step of a plan.
fn operations<'a>(plan: &'a Value, step: &str) -> Vec<&'a Value> {
    let steps = plan["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .filter(|s| s["id"] == step);
    steps
        .flat_map(|s| s["operations"].as_array().expect("operations"))
        .collect()
}

/// What a step installs.
fn installs(plan: &Value, step: &str) -> Vec<String> {
    let names = operations(plan, step)
        .into_iter()
        .filter_map(|o| o["install"].as_array())
        .flatten();
    names
        .map(|name| name.as_str().expect("a name").to_owned())
        .collect()
}

/// An HGX H100: its GPU is an H100, and an NVSwitch is beside it.
fn hgx(host: &Host) {
    host.ask(
        "for gpu in /sys/bus/pci/devices/*; do echo 0x2330 >$gpu/device; done
         switch=/sys/devices/pci0000:16/0000:16:00.0/0000:20:00.0; mkdir -p $switch
         for part in 'vendor 0x10de' 'device 0x22a3' 'class 0x068000' 'subsystem_vendor 0x10de' 'subsystem_device 0x1796'; do
           echo ${part#* } >$switch/${part% *}
         done
         ln -s ../../../${switch#/sys/} /sys/bus/pci/devices/0000:20:00.0",
    );
}

/// A repository of the host's, of packages that nothing else is known of.
fn offer(host: &Host, folder: &str, repository: &str, names: &[String]) {
    fs::create_dir_all(host.path("/srv/base")).expect("made");
    offer_version(host, "1", &named(names));
    fs::create_dir_all(host.path(folder)).expect("made");
    let text =
        format!("[{repository}]\nname=base\nbaseurl=file:///srv/base\nenabled=1\ngpgcheck=0\n");
    fs::write(host.path(folder).join("base.repo"), text).expect("written");
}

fn named(names: &[String]) -> Vec<Rpm> {
    names.iter().map(|name| rpm(name)).collect()
}

/// More packages of it.
fn offer_version(host: &Host, version: &str, packages: &[Rpm]) {
    let folder = host.path("/srv/base");
    rpms::make(&folder, version, packages);
    machine("createrepo_c", &["--quiet", text(&folder)]).succeeds();
}

/// A package of the driver's.
fn part(name: &str, says: &str, files: &[(&str, &[u8])]) -> Rpm {
    let files = files
        .iter()
        .map(|(path, content)| ((*path).to_owned(), content.to_vec()))
        .collect();
    Rpm {
        says: says.to_owned(),
        files,
        ..rpm(name)
    }
}

/// The driver's kernel modules for a host.
fn modules(host: &Host, name: &str, version: &str) -> Rpm {
    let names = [
        "nvidia",
        "nvidia-uvm",
        "nvidia-modeset",
        "nvidia-drm",
        "nvidia-peermem",
    ];
    let path = |name: &str| format!("/lib/modules/{}/extra/{name}.ko", host.kernel());
    let files = names
        .iter()
        .map(|name| (path(name), rpms::module(version)))
        .collect();
    Rpm {
        files,
        post: format!("depmod {}", host.kernel()),
        ..rpm(name)
    }
}

/// Fabric Manager, which has the same name everywhere.
fn fabric_manager() -> Rpm {
    let unit = format!("/usr/lib/systemd/system/{UNIT}");
    let text = b"[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    part(
        FABRIC_MANAGER,
        "",
        &[(&unit, text), ("/usr/bin/nv-fabricmanager", b"#!/bin/sh\n")],
    )
}

/// The driver's packages for Enterprise Linux, and others that are beside them.
fn of_enterprise_linux(host: &Host, version: &str) -> Vec<Rpm> {
    let needs = format!(
        "Requires: nvidia-driver-cuda-libs = 3:{version}, kmod-nvidia-open-dkms = 3:{version}"
    );
    let mut all = vec![
        part(
            "nvidia-driver-cuda",
            &needs,
            &[("/usr/bin/nvidia-smi", b"#!/bin/sh\n")],
        ),
        part(
            "nvidia-driver-cuda-libs",
            "",
            &[
                (&format!("/usr/lib64/libcuda.so.{version}"), b""),
                (
                    "/usr/share/licenses/nvidia-driver-cuda-libs/LICENSE",
                    b"a licence\n",
                ),
            ],
        ),
        modules(host, "kmod-nvidia-open-dkms", version),
        fabric_manager(),
        rpm("cuda-toolkit-13-0"),
        rpm("nvidia-container-toolkit"),
    ];
    all.iter_mut()
        .for_each(|package| package.says = format!("Epoch: 3\n{}", package.says));
    all
}

/// The streams of the module, as NVIDIA has them: `580-open` with these versions of the driver.
fn streams(versions: &[&str]) -> String {
    let names = [
        "nvidia-driver-cuda",
        "nvidia-driver-cuda-libs",
        "kmod-nvidia-open-dkms",
        FABRIC_MANAGER,
    ];
    let stream = |name: &str, versions: &[&str]| {
        let all = versions.iter().flat_map(|version| {
            names
                .iter()
                .map(move |name| format!("    - {name}-3:{version}-1.noarch\n"))
        });
        format!(
            "---\ndocument: modulemd\nversion: 2\ndata:\n  name: nvidia-driver\n  stream: \"{name}\"\n  version: 1\n  context: abcd\n  \
             arch: x86_64\n  summary: x\n  description: x\n  license:\n    module: [MIT]\n  dependencies:\n  - requires:\n      \
             platform: [el9]\n  profiles:\n    default:\n      rpms: [nvidia-driver-cuda]\n  artifacts:\n    rpms:\n{}...\n",
            all.collect::<String>()
        )
    };
    stream("580-open", versions) + &stream("595-open", &["595.45.04"])
}

/// The driver's packages for SUSE. Those of another generation do not replace them, and
/// nvidia-modprobe has one name in both.
fn of_suse(host: &Host, version: &str) -> Vec<Rpm> {
    let library = format!("/usr/lib64/libcuda.so.{version}");
    let (generation, other) = if version.starts_with("580.") {
        ("G06", "G07")
    } else {
        ("G07", "G06")
    };
    let named = |part: &str| format!("nvidia-{part}-{generation}");
    let licence = format!("/usr/share/licenses/{}/LICENSE", named("driver"));
    vec![
        Rpm {
            says: format!(
                "Requires: {} = {version}, dkms\nConflicts: nvidia-open-driver-{other}",
                named("common")
            ),
            ..modules(host, &named("open-driver"), version)
        },
        rpm(&named("common")),
        part(
            &named("compute-utils"),
            &format!("Requires: {} = {version}", named("compute")),
            &[("/usr/bin/nvidia-smi", b"#!/bin/sh\n")],
        ),
        part(
            &named("compute"),
            &format!("Requires: nvidia-modprobe = {version}"),
            &[(&library, b""), (&licence, b"a licence\n")],
        ),
        rpm("nvidia-modprobe"),
        fabric_manager(),
    ]
}

/// The driver of the branch before on SUSE.
const SUSE_580: System = System {
    branch: "580",
    old: "580.95.05",
    named: &[
        "nvidia-open-driver-G06",
        "nvidia-compute-utils-G06",
        FABRIC_MANAGER,
    ],
    along: &["nvidia-common-G06", "nvidia-compute-G06", "nvidia-modprobe"],
    ..SUSE
};

const SUSE: System = System {
    branch: "595",
    old: "595.45.04",
    packages: of_suse,
    named: &[
        "nvidia-open-driver-G07",
        "nvidia-compute-utils-G07",
        FABRIC_MANAGER,
    ],
    along: &["nvidia-common-G07", "nvidia-compute-G07", "nvidia-modprobe"],
    modules: None,
    update: "zypper --non-interactive refresh; zypper --non-interactive update",
    held: "cat /etc/zypp/locks 2>/dev/null || true",
    held_line: |name, _| format!("solvable_name: {name}"),
    before: None,
};

/// A system, and what is different about it.
struct System {
    /// What is asked for.
    branch: &'static str,
    /// Two versions of the branch; the older one.
    old: &'static str,
    /// The driver's packages of a version.
    packages: fn(&Host, &str) -> Vec<Rpm>,
    /// The packages that the plan names, and those that come with them.
    named: &'static [&'static str],
    along: &'static [&'static str],
    /// What the repository's lists must have besides, for these versions.
    modules: Option<fn(&[&str]) -> String>,
    /// The command that updates a host.
    update: &'static str,
    /// Lists what is held: a line of it for a package and its version.
    held: &'static str,
    held_line: fn(&str, &str) -> String,
    /// The branch before, if the host changes to it and back.
    before: Option<&'static System>,
}

impl System {
    fn all(&self, version: &str) -> Vec<String> {
        let mut names = [self.named, self.along].concat();
        names.sort_unstable();
        names
            .iter()
            .map(|name| format!("{name} {version}"))
            .collect()
    }
}

impl Site {
    fn has(&self, system: &System, listed: &[&str], new: &str) {
        if let Some(modules) = system.modules {
            fs::write(self.folder().join("modules.yaml"), modules(listed)).expect("written");
        }
        self.publish(new, &(system.packages)(&self.host, new));
    }

    fn installed(&self) -> Vec<String> {
        versions(&self.host, "'*nvidia*'")
    }

    fn is_sound(&self, system: &System, version: &str) {
        self.host.reboots();
        let all = system.all(version);
        assert_eq!(self.installed(), all);
        assert_eq!(
            self.host.sh(&format!("systemctl is-enabled {UNIT}")).code,
            Some(0),
            "{version}"
        );
        let held = self.host.ask(system.held);
        let line = |one: &String| {
            one.split_once(' ')
                .map(|(name, version)| (system.held_line)(name, version))
        };
        assert!(
            all.iter().filter_map(line).all(|line| held.contains(&line)),
            "{held}"
        );
        let report = self.host.gpusetup_plain(&["doctor", "--json"]).json();
        let is_wrong = |check: &&Value| check["status"] == "fail" || check["status"] == "error";
        let wrong: Vec<_> = report["checks"]
            .as_array()
            .expect("checks")
            .iter()
            .filter(is_wrong)
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// Nothing of the driver or its repository is left, the key that rpm trusts included.
    fn is_clean(&self, system: &System) {
        assert_eq!(
            (self.installed(), trusted_keys(&self.host)),
            (Vec::new(), Vec::new())
        );
        assert_eq!(
            (self.host.ask(OURS), self.host.ask(system.held)),
            (String::new(), String::new())
        );
    }

    /// To the branch before, from there to this one, and back by a rollback.
    fn changes_the_branch(&self, system: &System, before: &System, new: &str) {
        self.publish(before.old, &(before.packages)(&self.host, before.old));
        let to = |branch: &str| {
            self.call(&[
                "apply",
                "--yes",
                "--accept-eula",
                "--profile",
                "driver",
                "--driver",
                branch,
            ])
            .succeeds()
        };
        to(before.branch);
        self.is_sound(before, before.old);
        to(system.branch);
        self.is_sound(system, new);
        self.call(&["rollback", "--yes"]).succeeds();
        self.is_sound(before, before.old);
        self.host.ask(&format!("{} >&2", before.update));
        assert_eq!(self.installed(), before.all(before.old), "the branch stays");
    }

    /// Refused keys, install, upgrade, rollback, uninstall, and an install without a network.
    fn goes_through_its_life(mut self, system: &System) {
        let wish = [
            "--profile",
            "driver",
            "--method",
            "repository",
            "--driver",
            system.branch,
        ];
        let first = self
            .call(&[&["plan", "--json"], &wish[..]].concat())
            .succeeds()
            .json();
        let new = first["selection"]["driver"]["version"]
            .as_str()
            .expect("a version")
            .to_owned();
        assert_ne!(new, system.old);
        let installs = installs(&first, "install-driver");
        assert!(
            system
                .named
                .iter()
                .all(|name| installs.iter().any(|installed| installed == name)),
            "{installs:?}"
        );
        self.has(system, &[system.old], system.old);
        let apply = [&["apply", "--yes", "--accept-eula"], &wish[..]].concat();
        self.refuses_other_keys(&apply);

        self.call(&apply).succeeds();
        self.is_sound(system, system.old);
        assert_eq!(trusted_keys(&self.host), [&self.signer.fingerprint[32..]]);

        // A newer driver comes: an update by hand moves nothing, an upgrade by gpusetup everything,
        // and back.
        self.has(system, &[system.old, &new], &new);
        self.host.ask(&format!("{} >&2", system.update));
        assert_eq!(self.installed(), system.all(system.old));
        self.call(&[&apply[..], &["--upgrade"]].concat()).succeeds();
        self.is_sound(system, &new);
        self.call(&["rollback", "--yes"]).succeeds();
        self.is_sound(system, system.old);

        if let Some(before) = system.before {
            self.changes_the_branch(system, before, &new);
        }
        self.call(&["uninstall", "--driver", "--yes"]).succeeds();
        self.is_clean(system);
        self.call(&apply).succeeds();
        self.is_sound(system, &new);
        self.call(&["rollback", "--yes"]).succeeds();
        self.is_clean(system);

        // Without a network: the bundle has the key and the packages.
        let [plan, bundle] = ["plan.json", "bundle"].map(|name| self.databases.path().join(name));
        self.call(&[&["plan", "--out", text(&plan)], &wish[..]].concat())
            .succeeds();
        let root = self.host.root();
        let make = [
            "bundle",
            "create",
            "--plan",
            text(&plan),
            "--out",
            text(&bundle),
            "--root",
            text(&root),
        ];
        let url = self.server.as_ref().expect("it runs").url.clone();
        gpusetup(
            [
                &make[..],
                &["--database", text(&self.database), "--mirror", &url],
            ]
            .concat(),
        )
        .succeeds();
        self.server = None;
        self.host.ask("rm -rf /var/cache/gpusetup /srv/base");
        self.call(&["apply", "--bundle", text(&bundle), "--yes", "--accept-eula"])
            .succeeds();
        self.is_sound(system, &new);
    }
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn an_hgx_h100_on_rhel_9_gets_driver_and_fabric_manager_from_nvidias_repository() {
    let host = rpms::host(
        "dnf",
        "dnf dnf-plugins-core createrepo-c",
        rpms::RHEL_9,
        "hgx",
    );
    hgx(&host);
    fs::write(
        host.path("/etc/dnf/dnf.conf"),
        "[main]\ngpgcheck=1\nbest=1\n",
    )
    .expect("written");
    let site = Site::new(host, "compute/cuda/repos/rhel9/x86_64");
    let tools = [
        "dkms",
        "gcc",
        "glibc-devel",
        "kernel-headers",
        "make",
        "python3-dnf-plugin-versionlock",
    ]
    .map(str::to_owned);
    let kernel = ["kernel-devel", "kernel-devel-matched"]
        .map(|name| format!("{name}-{}", site.host.kernel()));
    offer(
        &site.host,
        "/etc/yum.repos.d",
        "epel",
        &[&tools[..], &kernel].concat(),
    );
    let says = "Provides: system-release = 9.6, base-module(platform:el9), /bin/sh".to_owned();
    offer_version(
        &site.host,
        "9.6",
        &[Rpm {
            says,
            ..rpm("redhat-release")
        }],
    );
    // Another branch of the module, which hides this one where its stream is enabled.
    site.publish("595.45.04", &of_enterprise_linux(&site.host, "595.45.04"));
    site.goes_through_its_life(&System {
        branch: "580",
        old: "580.95.05",
        packages: of_enterprise_linux,
        named: &[
            "nvidia-driver-cuda",
            "kmod-nvidia-open-dkms",
            FABRIC_MANAGER,
        ],
        along: &["nvidia-driver-cuda-libs"],
        modules: Some(streams),
        update: "dnf -q -y --refresh upgrade",
        held: "dnf -q --disablerepo=* versionlock list",
        held_line: |name, version| format!("{name}-3:{version}-1.*"),
        before: None,
    });
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn an_hgx_h100_on_sles_15_gets_driver_and_fabric_manager_from_nvidias_repository() {
    let host = rpms::host("zypper", "zypper", rpms::SLES_15, "hgx");
    hgx(&host);
    let site = Site::new(host, "compute/cuda/repos/sles15/x86_64");
    let tools = ["gcc", "gcc12", "glibc-devel", "make"].map(str::to_owned);
    offer(&site.host, "/etc/zypp/repos.d", "basesystem", &tools);
    offer_version(
        &site.host,
        "5.2",
        &[Rpm {
            says: "Provides: /bin/sh".to_owned(),
            ..rpm("bash")
        }],
    );
    let release = site.host.kernel();
    let (version, flavour) = release.rsplit_once('-').expect("a flavour");
    offer_version(
        &site.host,
        version,
        &[rpm(&format!("kernel-{flavour}-devel"))],
    );
    // NVIDIA's repository has DKMS, and newer branches under the same names.
    site.publish("3.2.1", &[rpm("dkms")]);
    site.publish("615.71.09", &of_suse(&site.host, "615.71.09"));
    site.goes_through_its_life(&System {
        before: Some(&SUSE_580),
        ..SUSE
    });
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn with_secure_boot_sles_15_gets_the_modules_that_suse_signs() {
    const SIGNED: &str = "nvidia-open-driver-G06-signed-cuda-kmp-default";
    const PARTS: [&str; 4] = [
        "nvidia-compute-G06",
        "nvidia-compute-utils-G06",
        "nvidia-modprobe",
        "nvidia-persistenced",
    ];
    let host = rpms::host("zypper", "zypper", rpms::SLES_15, "signed");
    host.ask(
        "new=6.4.0-150700.51-default; mv /lib/modules/$KERNEL /lib/modules/$new
         mv /boot/vmlinuz-$KERNEL /boot/vmlinuz-$new; rm -f /boot/initrd*",
    );
    let variable = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    fs::create_dir_all(host.path("/sys/firmware/efi/efivars")).expect("made");
    fs::write(host.path(variable), [6, 0, 0, 0, 1]).expect("written");
    let site = Site::new(host, "compute/cuda/repos/sles15/x86_64");
    offer(&site.host, "/etc/zypp/repos.d", "basesystem", &[]);
    offer_version(
        &site.host,
        "5.2",
        &[Rpm {
            says: "Provides: /bin/sh".to_owned(),
            ..rpm("bash")
        }],
    );
    let signed = |version: &str| {
        let listed = format!("{version}_k6.4.0_150700.51-150700.3.1");
        offer_version(&site.host, &listed, &[modules(&site.host, SIGNED, version)]);
        site.host.ask("zypper --non-interactive refresh >&2");
    };
    signed("580.82.07");
    for version in ["580.82.07", "580.95.05", "580.105.08"] {
        let all = of_suse(&site.host, version)
            .into_iter()
            .chain([rpm("nvidia-persistenced")]);
        site.publish(version, &all.collect::<Vec<_>>());
    }
    let installed = |version: &str| {
        let parts = PARTS.map(|name| format!("{name} {version}"));
        let mut all: Vec<_> = parts
            .into_iter()
            .chain([format!("{SIGNED} {version}_k6.4.0_150700.51")])
            .collect();
        all.sort();
        all
    };
    let apply = |more: &[&str]| {
        site.call(
            &[
                &["apply", "--yes", "--accept-eula", "--profile", "driver"],
                more,
            ]
            .concat(),
        )
        .succeeds()
    };
    apply(&[]);
    assert_eq!(site.installed(), installed("580.82.07"));
    site.host.ask(&format!("{} >&2", SUSE.update));
    assert_eq!(
        site.installed(),
        installed("580.82.07"),
        "NVIDIA's repository has newer ones"
    );
    // SUSE's newer modules come with libraries of their version.
    signed("580.95.05");
    apply(&["--upgrade"]);
    assert_eq!(site.installed(), installed("580.95.05"));
    site.call(&["uninstall", "--driver", "--yes"]).succeeds();
    site.is_clean(&SUSE);
}
