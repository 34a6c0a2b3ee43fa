//! Fabric Manager beside the driver, with the real apt and packages made for it, on a Debian root
//! that says it is Ubuntu: both come in one version, are held together, go to another version
//! together, and come back. HGX B200 gets nvlsm too, from NVIDIA's repository.

use crate::host::{self, Host, Server, script, text, timed};
use crate::repository::{database, package, publish};
use crate::short::{self, Deb, deb};
use crate::signer::Signer;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const UNIT: &str = "nvidia-fabricmanager.service";

/// A machine with NVSwitches, and the driver that its Ubuntu has.
struct Machine {
    /// Its Ubuntu.
    release: &'static str,
    codename: &'static str,
    branch: u16,
    old: &'static str,
    new: &'static str,
    /// Shell lines that make its devices; `device ADDRESS CLASS VENDOR DEVICE` makes one.
    devices: &'static str,
}

const DGX_A100: Machine = Machine {
    release: "22.04",
    codename: "jammy",
    branch: 580,
    old: "580.95.05-0ubuntu0.22.04.1",
    new: "580.178.04-0ubuntu0.22.04.1",
    devices: "device 0000:20:00.0 068000 10de 1af1",
};

const HGX_B200: Machine = Machine {
    release: "24.04",
    codename: "noble",
    branch: 595,
    old: "595.71.05-0ubuntu0.24.04.1",
    new: "595.91.07-0ubuntu0.24.04.1",
    devices: "for bus in 1 2 3 4 5 6 7 8; do device 0000:0$bus:00.0 030200 10de 2901; done
        device 0000:a0:00.0 020700 15b3 1021; printf 'V0SW_MNG' >/sys/devices/pci0000:16/0000:16:00.0/0000:a0:00.0/vpd
        mkdir -p /sys/class/infiniband/mlx5_0; ln -s /sys/devices/pci0000:16/0000:16:00.0/0000:a0:00.0 /sys/class/infiniband/mlx5_0/device",
};

/// What the package of Fabric Manager has.
const MANAGER: &str = "mkdir -p /lib/systemd/system
    printf '[Service]\\nExecStart=/bin/true\\n[Install]\\nWantedBy=multi-user.target\\n' >/lib/systemd/system/nvidia-fabricmanager.service
    printf '#!/bin/sh\\n' >/usr/bin/nv-fabricmanager; chmod 755 /usr/bin/nv-fabricmanager";

impl Machine {
    /// A host of this kind whose apt knows no package yet.
    fn host(&self, name: &str) -> Host {
        let host = Host::of(name, Path::new(&timed("base root", || script("base", &[]))));
        let Self {
            release,
            codename,
            branch,
            devices,
            ..
        } = self;
        fs::remove_file(host.path("/etc/os-release")).expect("a link");
        let text = format!(
            "ID=ubuntu\nVERSION_ID=\"{release}\"\nPRETTY_NAME=\"Ubuntu {release}\"\nID_LIKE=debian\n"
        );
        fs::write(host.path("/etc/os-release"), text).expect("written");
        host.ask(&format!(
            "device() {{
               at=/sys/devices/pci0000:16/0000:16:00.0/$1; mkdir -p $at
               for part in \"vendor 0x$3\" \"device 0x$4\" \"class 0x$2\" 'subsystem_vendor 0x10de' 'subsystem_device 0x1199'; do
                 echo ${{part#* }} >$at/${{part% *}}
               done
               ln -s ../../../${{at#/sys/}} /sys/bus/pci/devices/$1
             }}
             {devices}
             # The packages have no kernel module; one that is asked for its version has the driver's.
             mkdir /opt/kmod; ln -s /bin/kmod /opt/kmod/modinfo; rm /sbin/modinfo
             printf '#!/bin/sh\\ncase \"$*\" in *version*nvidia*) dpkg-query -W -f \\${{Version}} nvidia-fabricmanager-{branch} ;; *) exec /opt/kmod/modinfo \"$@\" ;; esac\\n' >/sbin/modinfo
             chmod 755 /sbin/modinfo
             mkdir -p /srv/ubuntu/dists/{codename}/restricted/binary-amd64 /srv/ubuntu/dists/{codename}/multiverse/binary-amd64
             printf 'Origin: Ubuntu\\nSuite: {codename}\\nCodename: {codename}\\nComponents: restricted multiverse\\n' >/srv/ubuntu/dists/{codename}/Release
             touch /srv/ubuntu/dists/{codename}/restricted/binary-amd64/Packages /srv/ubuntu/dists/{codename}/multiverse/binary-amd64/Packages
             echo 'deb [trusted=yes] file:/srv/ubuntu {codename} restricted multiverse' >/etc/apt/sources.list.d/ubuntu.list",
        ));
        host
    }

    /// The driver's libraries, which come only as a dependency.
    fn part(&self) -> String {
        format!("libnvidia-compute-{}-server", self.branch)
    }

    /// Has apt offer the driver and Fabric Manager in these versions, and the rest as it is there.
    fn offer(&self, host: &Host, names: &[String], driver: &[&str], manager: &[&str]) {
        let part = self.part();
        let depends = [self.old, self.new].map(|version| format!("{part} (= {version})"));
        let mut debs = Vec::new();
        for name in names.iter().filter(|name| *name != "nvlsm") {
            let known = |wanted: &[&str]| {
                [self.old, self.new]
                    .into_iter()
                    .filter(|v| wanted.contains(v))
                    .collect::<Vec<_>>()
            };
            let of = |wanted: &[&str], script: &'static str| -> Vec<Deb> {
                known(wanted)
                    .into_iter()
                    .map(|version| Deb {
                        version,
                        ..deb(name, script)
                    })
                    .collect()
            };
            match name.as_str() {
                _ if name.contains("fabricmanager") => debs.extend(of(manager, MANAGER)),
                _ if name.contains("headless") => {
                    let depends = |version| {
                        if version == self.old {
                            depends[0].as_str()
                        } else {
                            depends[1].as_str()
                        }
                    };
                    let with_part = |version| Deb {
                        version,
                        depends: depends(version),
                        ..deb(name, ":")
                    };
                    debs.extend(known(driver).into_iter().map(with_part));
                }
                _ if name.contains("nvidia") => debs.extend(of(driver, ":")),
                _ => debs.push(deb(name, ":")),
            }
        }
        let known = [self.old, self.new]
            .into_iter()
            .filter(|v| driver.contains(v));
        debs.extend(known.map(|version| Deb {
            version,
            ..deb(&part, ":")
        }));
        short::offer(host, &debs);
    }
}

/// What the plan installs, by name.
fn wanted(plan: &Value) -> Vec<String> {
    let steps = plan["steps"].as_array().expect("steps");
    let operations = steps
        .iter()
        .flat_map(|step| step["operations"].as_array().expect("operations"));
    let names = operations
        .filter(|o| o["op"] == "packages")
        .flat_map(|o| o["install"].as_array().expect("names"));
    names
        .map(|name| name.as_str().expect("a name").to_owned())
        .collect()
}

/// The versions of NVIDIA's packages, each once.
fn versions(host: &Host) -> Vec<String> {
    let list = host
        .ask("dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\\n' | grep '^installed .*nvidia' || true");
    let mut versions: Vec<_> = list
        .lines()
        .filter_map(|l| l.rsplit(' ').next())
        .map(str::to_owned)
        .collect();
    versions.sort();
    versions.dedup();
    versions
}

fn held(host: &Host) -> Vec<String> {
    host.ask("apt-mark showhold")
        .lines()
        .map(str::to_owned)
        .collect()
}

fn is_enabled(host: &Host) -> bool {
    host.sh(&format!("systemctl is-enabled {UNIT}")).code == Some(0)
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn driver_and_fabric_manager_move_together() {
    let machine = DGX_A100;
    let host = machine.host("dgx");
    let (old, new) = (machine.old, machine.new);
    let request = [
        "--profile",
        "driver",
        "--method",
        "packages",
        "--driver",
        "580",
    ];
    let plan = || {
        host.gpusetup_plain(&[&["plan", "--json"], &request[..]].concat())
            .succeeds()
            .json()
    };
    let names = wanted(&plan());
    assert!(
        names.contains(&"nvidia-fabricmanager-580".to_owned()),
        "{names:?}"
    );
    assert!(
        names.iter().any(|name| name.contains("-580-server")),
        "the series that has a Fabric Manager: {names:?}"
    );

    // A mirror that is behind: nothing is changed.
    machine.offer(&host, &names, &[new], &[old]);
    let before = host.ask("dpkg-query -W");
    let ran = host.gpusetup_plain(&[&["apply", "--yes", "--accept-eula"], &request[..]].concat());
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert_eq!(host.ask("dpkg-query -W"), before, "{ran:?}");

    machine.offer(&host, &names, &[old], &[old]);
    host.gpusetup_plain(&[&["apply", "--yes", "--accept-eula"], &request[..]].concat())
        .succeeds();
    assert_eq!(versions(&host), [old]);
    let driver: Vec<_> = names
        .iter()
        .filter(|name| name.contains("nvidia"))
        .cloned()
        .collect();
    assert!(
        driver.iter().all(|name| held(&host).contains(name)),
        "{driver:?} {:?}",
        held(&host)
    );
    assert!(
        is_enabled(&host) && held(&host).contains(&machine.part()),
        "{:?}",
        held(&host)
    );
    let again = plan();
    let steps = again["steps"].as_array().expect("steps");
    let companions = steps
        .iter()
        .find(|step| step["id"] == "companions")
        .expect("a step");
    assert_eq!(companions["state"], "satisfied", "{companions}");

    // An update by hand or by a timer moves none of them.
    machine.offer(&host, &names, &[old, new], &[old, new]);
    host.ask("apt-get -y -qq dist-upgrade");
    assert_eq!(versions(&host), [old]);

    host.gpusetup_plain(
        &[
            &["apply", "--yes", "--accept-eula", "--upgrade"],
            &request[..],
        ]
        .concat(),
    )
    .succeeds();
    assert_eq!(versions(&host), [new]);
    assert!(
        driver.iter().all(|name| held(&host).contains(name)) && is_enabled(&host),
        "{:?}",
        held(&host)
    );

    host.gpusetup_plain(&["rollback", "--yes"]).succeeds();
    assert_eq!(versions(&host), [old]);
    assert!(
        driver.iter().all(|name| held(&host).contains(name)) && is_enabled(&host),
        "{:?}",
        held(&host)
    );

    host.gpusetup_plain(&["uninstall", "--driver", "--yes"])
        .succeeds();
    assert_eq!((versions(&host), held(&host)), (Vec::new(), Vec::new()));
    assert!(!host.path("/var/lib/gpusetup-held").exists());
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_hold_of_the_administrator_stays() {
    let machine = DGX_A100;
    let host = machine.host("dgx-held");
    let (old, new) = (machine.old, machine.new);
    let request = [
        "--profile",
        "driver",
        "--method",
        "packages",
        "--driver",
        "580",
        "--yes",
        "--accept-eula",
    ];
    let plan = host
        .gpusetup_plain(&[&["plan", "--json"], &request[..request.len() - 2]].concat())
        .succeeds()
        .json();
    let names = wanted(&plan);
    machine.offer(&host, &names, &[old], &[old]);
    host.gpusetup_plain(&[&["apply"], &request[..]].concat())
        .succeeds();
    // The administrator takes one of them over.
    let theirs = "nvidia-fabricmanager-580";
    host.ask(&format!(
        "grep -vx {theirs} /var/lib/gpusetup-held >/root/held; cp /root/held /var/lib/gpusetup-held"
    ));
    machine.offer(&host, &names, &[old, new], &[old, new]);
    let ran = host.gpusetup_plain(&[&["apply", "--upgrade"], &request[..]].concat());
    assert!(ran.code != Some(0) && ran.err.contains("holds"), "{ran:?}");
    assert_eq!(versions(&host), [old]);
    assert!(held(&host).contains(&theirs.to_owned()));
}

/// The packages of DCGM.
const DCGM: [(&str, &str); 4] = [
    ("datacenter-gpu-manager-4-cuda13", "1:4.5.2-1"),
    ("datacenter-gpu-manager-4-core", "1:4.5.2-1"),
    ("datacenter-gpu-manager-4-proprietary", "1:4.5.2-1"),
    ("datacenter-gpu-manager-4-proprietary-cuda13", "1:4.5.2-1"),
];

/// What comes from NVIDIA's repository for Ubuntu 24.04: nvlsm, DCGM, and packages that must not.
const BELOW: &str = "compute/cuda/repos/ubuntu2404/x86_64";

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn hgx_b200_gets_nvlsm_from_nvidias_repository() {
    let machine = HGX_B200;
    let (old, new) = (machine.old, machine.new);
    let host = machine.host("hgx-b200");
    let served = tempfile::tempdir().expect("a folder");
    let folder = served.path().join(BELOW);
    fs::create_dir_all(&folder).expect("made");
    let signer = Signer::new("ours");
    fs::write(folder.join("3bf863cc.pub"), signer.public_key()).expect("written");
    let others = [
        ("nvidia-fabricmanager-595", "595.99.02-1"),
        ("nvidia-utils-595-server", "595.99.02-1"),
        ("bash", "99-1"),
    ];
    let nvlsm = ("nvlsm", "2025.06.10-1");
    others
        .iter()
        .chain([&nvlsm])
        .chain(&DCGM)
        .for_each(|(name, version)| package(&folder, name, version));
    publish(&folder, &signer);
    // The unit of DCGM's package.
    let unit = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    fs::write(host.path("/lib/systemd/system/nvidia-dcgm.service"), unit).expect("written");
    let server = Server::of(served.path());
    let facts = tempfile::tempdir().expect("a folder");
    let known = database(facts.path(), &[&signer.fingerprint]);
    let call = |verb: &[&str], rest: &[&str]| {
        let own = [
            "--database",
            text(&known),
            "--profile",
            "driver",
            "--driver",
            "595",
            "--mirror",
            &server.url,
        ];
        let own = [&own[..], &["--with", "dcgm"]].concat();
        host.gpusetup_plain(&[verb, &own[..], rest].concat())
    };
    let plan = || call(&["plan", "--json"], &[]).succeeds().json();
    let names = wanted(&plan());
    for name in [
        "nvidia-headless-595-server-open",
        "nvidia-fabricmanager-595",
        "nvlsm",
    ] {
        assert!(names.contains(&name.to_owned()), "{name}: {names:?}");
    }
    let modules = format!("linux-modules-extra-{}", host.kernel());
    let names = [names, vec![modules.clone()]].concat();
    machine.offer(&host, &names, &[old], &[old]);
    call(&["apply", "--yes", "--accept-eula"], &[]).succeeds();
    host.ask(&format!("dpkg-query -W {modules}"));
    let nvlsm_version = || host.ask("dpkg-query -W -f '${Version}' nvlsm");
    let dcgm = || {
        let names = "dpkg-query -W -f '${db:Status-Status} ${Package}\\n' 'datacenter-gpu-manager*' 2>/dev/null";
        let installed = host.ask(&format!("{names} | grep -c ^installed || true"));
        (
            installed,
            host.sh("systemctl is-enabled nvidia-dcgm.service").code == Some(0),
        )
    };
    let (all, none) = ((DCGM.len().to_string(), true), ("0".to_owned(), false));
    assert_eq!(dcgm(), all);
    assert_eq!(
        (versions(&host), nvlsm_version().as_str()),
        (vec![old.to_owned()], nvlsm.1)
    );
    assert!(
        is_enabled(&host) && held(&host).contains(&"nvidia-fabricmanager-595".to_owned()),
        "{:?}",
        held(&host)
    );
    assert_eq!(
        host.ask("cat /etc/modules-load.d/gpusetup-nvswitch.conf | grep -c -e mlx5_ib -e ib_umad"),
        "2"
    );
    for (name, version) in others {
        assert_ne!(
            host.ask(&format!(
                "apt-cache policy {name} | sed -n 's/^  Candidate: //p'"
            )),
            version,
            "{name}"
        );
    }
    let again = plan();
    let steps = again["steps"].as_array().expect("steps");
    let state = |id: &str| {
        steps
            .iter()
            .find(|step| step["id"] == id)
            .map(|step| step["state"].clone())
    };
    assert_eq!(
        (state("companions"), state("add-repository")),
        (Some("satisfied".into()), None),
        "{again}"
    );
    let doctor = host.gpusetup_plain(&["doctor", "GS801", "--json"]).json();
    assert_ne!(doctor["checks"][0]["status"], "fail", "{doctor}");

    machine.offer(&host, &names, &[old, new], &[old, new]);
    package(&folder, "nvlsm", "2025.10.11-1");
    publish(&folder, &signer);
    // What is installed on request starts again with another driver, whether the request names it
    // or not.
    let upgrade = [
        "apply",
        "--yes",
        "--accept-eula",
        "--upgrade",
        "--database",
        text(&known),
        "--profile",
        "driver",
        "--driver",
        "595",
    ];
    host.gpusetup_plain(&[&upgrade[..], &["--mirror", &server.url]].concat())
        .succeeds();
    assert_eq!(
        (versions(&host), is_enabled(&host)),
        (vec![new.to_owned()], true)
    );
    assert_eq!(dcgm(), all);
    host.gpusetup_plain(&["rollback", "--yes"]).succeeds();
    assert_eq!(
        (versions(&host), is_enabled(&host)),
        (vec![old.to_owned()], true)
    );
    assert_eq!(dcgm(), all);

    let uninstall = ["uninstall", "--driver", "--yes", "--database", text(&known)];
    host.gpusetup_plain(&uninstall).succeeds();
    assert_eq!(dcgm(), none);
    let left =
        host.ask("find /etc/apt /usr/share/keyrings -name '*gpusetup*'; dpkg-query -W nvlsm 2>/dev/null || true");
    assert_eq!((versions(&host), left), (Vec::new(), String::new()));

    // Without a network: the bundle has the key, the driver, Fabric Manager and nvlsm.
    let (plan, bundle) = (facts.path().join("plan.json"), facts.path().join("bundle"));
    call(&["plan"], &["--out", text(&plan)]).succeeds();
    let (root, own) = (
        host.root(),
        ["--database", text(&known), "--mirror", &server.url],
    );
    let create = [
        "bundle",
        "create",
        "--plan",
        text(&plan),
        "--out",
        text(&bundle),
        "--root",
        text(&root),
    ];
    host::gpusetup([&create[..], &own].concat()).succeeds();
    drop(server);
    host.ask("rm -rf /var/cache/gpusetup /srv/packages");
    host.gpusetup_plain(&["apply", "--bundle", text(&bundle), "--yes", "--accept-eula"])
        .succeeds();
    assert_eq!(
        (versions(&host), nvlsm_version().as_str()),
        (vec![new.to_owned()], "2025.10.11-1")
    );
    assert_eq!(dcgm(), all);
}

/// GPUDirect Storage and DCGM 4 come from NVIDIA's repository, after the driver and in place of
/// DCGM 3; nvidia-fs is built again for another driver. nvidia-peermem needs no package.
#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn what_is_requested_comes_and_goes() {
    let machine = Machine {
        devices: ":",
        ..HGX_B200
    };
    let (old, new) = (machine.old, machine.new);
    let host = machine.host("requested");
    let served = tempfile::tempdir().expect("a folder");
    let folder = served.path().join(BELOW);
    fs::create_dir_all(&folder).expect("made");
    let signer = Signer::new("ours");
    fs::write(folder.join("3bf863cc.pub"), signer.public_key()).expect("written");
    let storage = [("nvidia-fs", "2.28.4-1"), ("nvidia-fs-dkms", "2.28.4-1")];
    storage
        .iter()
        .chain(&DCGM)
        .for_each(|(name, version)| package(&folder, name, version));
    publish(&folder, &signer);
    let unit = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    fs::write(host.path("/lib/systemd/system/nvidia-dcgm.service"), unit).expect("written");
    let server = Server::of(served.path());
    let facts = tempfile::tempdir().expect("a folder");
    let known = database(facts.path(), &[&signer.fingerprint]);
    let call = |verb: &[&str], rest: &[&str]| {
        let own = [
            "--database",
            text(&known),
            "--profile",
            "driver",
            "--driver",
            "595",
            "--mirror",
            &server.url,
        ];
        host.gpusetup_plain(&[verb, &own[..], rest].concat())
    };
    let packages = || {
        let names = "dpkg-query -W -f '${db:Status-Status} ${Package}\\n' 'datacenter-gpu-manager*' 'nvidia-fs*' 2>/dev/null";
        host.ask(&format!("{names} | sed -n 's/^installed //p' | sort"))
    };
    let at_boot =
        || host.ask("cat /etc/modules-load.d/gpusetup-*.conf 2>/dev/null | grep -v '^#' || true");
    let with_gds = ["--with", "gds"];
    let names = wanted(&call(&["plan", "--json"], &with_gds).succeeds().json());
    assert!(names.contains(&"nvidia-fs".to_owned()), "{names:?}");
    let own: Vec<_> = names
        .iter()
        .filter(|name| *name != "nvidia-fs")
        .cloned()
        .collect();
    let own = [own, vec!["datacenter-gpu-manager".to_owned()]].concat();
    machine.offer(&host, &own, &[old], &[old]);
    // Without Fabric Manager, another package has the driver's version. DKMS notes what it is asked
    // for.
    host.ask("sed -i 's/nvidia-fabricmanager-595/nvidia-utils-595-server/' /sbin/modinfo");
    host.ask("printf '#!/bin/sh\\necho \"$*\" >>/root/dkms\\n' >/usr/sbin/dkms; chmod 755 /usr/sbin/dkms");
    call(&["apply", "--yes", "--accept-eula"], &with_gds).succeeds();
    assert_eq!(
        (packages().as_str(), at_boot().as_str()),
        ("nvidia-fs\nnvidia-fs-dkms", "nvidia-fs")
    );
    let order = host.ask("sed -n 's/.* install \\([^:]*\\):.*/\\1/p' /var/log/dpkg.log");
    let position = |start: &str| order.lines().position(|name| name.starts_with(start));
    assert!(
        position("nvidia-headless-595") < position("nvidia-fs-dkms"),
        "{order}"
    );
    let again = call(&["plan", "--json"], &with_gds).succeeds().json();
    let steps = again["steps"].as_array().expect("steps");
    let companions = steps
        .iter()
        .find(|step| step["id"] == "companions")
        .expect("a step");
    assert_eq!(companions["state"], "satisfied", "{companions}");

    machine.offer(&host, &own, &[old, new], &[old, new]);
    call(&["apply", "--yes", "--accept-eula", "--upgrade"], &[]).succeeds();
    let kernel = host.kernel();
    let asked =
        ["build", "install"].map(|what| format!("{what} --force nvidia-fs/2.28.4 -k {kernel}"));
    assert_eq!(
        (versions(&host), host.ask("cat /root/dkms")),
        (
            vec!["2.28.4-1".to_owned(), new.to_owned()],
            asked.join("\n")
        )
    );
    host.gpusetup_plain(&["rollback", "--yes"]).succeeds();
    assert_eq!(
        (packages().as_str(), at_boot().as_str()),
        ("nvidia-fs\nnvidia-fs-dkms", "nvidia-fs")
    );

    // DCGM 3 conflicts with DCGM 4, and comes back.
    host.ask(
        "apt-get install -y -qq datacenter-gpu-manager && systemctl enable nvidia-dcgm.service",
    );
    call(&["apply", "--yes", "--accept-eula"], &["--with", "dcgm"]).succeeds();
    let mut all: Vec<_> = DCGM.iter().chain(&storage).map(|(name, _)| *name).collect();
    all.sort_unstable();
    assert_eq!(packages(), all.join("\n"));
    host.gpusetup_plain(&["rollback", "--yes"]).succeeds();
    assert_eq!(
        packages(),
        "datacenter-gpu-manager\nnvidia-fs\nnvidia-fs-dkms"
    );
    assert_eq!(
        host.sh("systemctl is-enabled nvidia-dcgm.service").code,
        Some(0)
    );
    host.gpusetup_plain(&["uninstall", "--driver", "--yes", "--database", text(&known)])
        .succeeds();
    let left = host.ask("find /etc/apt /usr/share/keyrings /etc/modules-load.d -name '*gpusetup*'");
    assert_eq!(
        (packages(), versions(&host), left),
        (String::new(), Vec::new(), String::new())
    );

    let refused = call(&["plan"], &["--with", "peermem"]);
    assert!(
        refused.code == Some(2) && refused.err.contains("DMA-BUF"),
        "{refused:?}"
    );
}

/// An archive of Fabric Manager as NVIDIA publishes it, with these files in it.
fn archive(folder: &Path, version: &str) -> PathBuf {
    let name = format!("fabricmanager-linux-x86_64-{version}-archive");
    let tree = tempfile::tempdir().expect("a folder");
    for (path, content, mode) in [
        ("bin/nv-fabricmanager", "#!/bin/sh\n", 0o755),
        ("bin/nvidia-fabricmanager-start.sh", "#!/bin/sh\n", 0o755),
        ("etc/fabricmanager.cfg", "FABRIC_MODE=0\n", 0o644),
        (
            "share/nvidia/nvswitch/dgxa100_hgxa100_topology",
            "topology\n",
            0o644,
        ),
        (
            "systemd/nvidia-fabricmanager.service",
            "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
            0o644,
        ),
        ("include/nv_fm_agent.h", "\n", 0o644),
        ("LICENSE", "words\n", 0o644),
    ] {
        let at = tree.path().join(&name).join(path);
        fs::create_dir_all(at.parent().expect("below the tree")).expect("made");
        fs::write(&at, content).expect("written");
        fs::set_permissions(&at, fs::Permissions::from_mode(mode)).expect("ours");
    }
    fs::create_dir_all(folder).expect("made");
    let file = folder.join(format!("{name}.tar.xz"));
    host::machine(
        "tar",
        &["-cJf", text(&file), "-C", text(tree.path()), &name],
    )
    .succeeds();
    file
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_runfile_driver_gets_fabric_manager_from_its_archive() {
    const VERSION: &str = "580.95.05";
    const FILES: [&str; 4] = [
        "/usr/bin/nv-fabricmanager",
        "/usr/bin/nvidia-fabricmanager-start.sh",
        "/usr/share/nvidia/nvswitch/fabricmanager.cfg",
        "/usr/share/nvidia/nvswitch/dgxa100_hgxa100_topology",
    ];
    let host = DGX_A100.host("dgx-runfile");
    host.ask(&format!(
        "libraries=/usr/lib/x86_64-linux-gnu; touch $libraries/libcuda.so.{VERSION}; ln -s libcuda.so.{VERSION} $libraries/libcuda.so.1
         printf '#!/bin/sh\\nrm -f /usr/lib/x86_64-linux-gnu/libcuda.so*\\n' >/usr/bin/nvidia-uninstall
         printf '#!/bin/sh\\necho {VERSION}\\n' >/sbin/modinfo; chmod 755 /usr/bin/nvidia-uninstall"
    ));
    let served = tempfile::tempdir().expect("a folder");
    let file = archive(
        &served
            .path()
            .join("compute/nvidia-driver/redist/fabricmanager/linux-x86_64"),
        VERSION,
    );
    let server = Server::of(served.path());
    // The database has the checksum of NVIDIA's own.
    let facts = tempfile::tempdir().expect("a folder");
    let known = database(facts.path(), &["EB693B3035CD5710E231E123A4B469963BF863CC"]);
    let manifest = known.join("manifests/driver/580.yaml");
    let name = text(&file).rsplit('/').next().expect("a name");
    let line = |line: &str| match line.split_once("sha256: \"") {
        Some((before, after)) if line.contains(&format!("file: \"{name}\"")) => {
            format!("{before}sha256: \"{}{}", short::sum(&file), &after[64..])
        }
        _ => line.to_owned(),
    };
    let rows: Vec<_> = fs::read_to_string(&manifest)
        .expect("there")
        .lines()
        .map(line)
        .collect();
    fs::write(&manifest, rows.join("\n")).expect("written");

    let apply = || {
        let own = [
            "apply",
            "--yes",
            "--accept-eula",
            "--profile",
            "driver",
            "--database",
            text(&known),
            "--mirror",
            &server.url,
        ];
        host.gpusetup_plain(&own).succeeds()
    };
    apply();
    assert_eq!(
        host.ask(&format!("stat -c %a {}", FILES.join(" "))),
        "755\n755\n644\n644"
    );
    assert!(is_enabled(&host) && !host.path("/usr/include/nv_fm_agent.h").exists());
    let output = host
        .gpusetup_plain(&["plan", "--profile", "driver", "--json"])
        .succeeds()
        .json();
    let steps = output["steps"].as_array().expect("steps");
    let companions = steps
        .iter()
        .find(|step| step["id"] == "companions")
        .expect("a step");
    assert_eq!(companions["state"], "satisfied", "{companions}");
    let left = || FILES.iter().filter(|path| host.path(path).exists()).count();
    host.gpusetup_plain(&["rollback", "--yes"]).succeeds();
    assert_eq!((left(), is_enabled(&host)), (0, false));

    apply();
    assert_eq!(left(), FILES.len());
    host.gpusetup_plain(&["uninstall", "--driver", "--yes"])
        .succeeds();
    assert_eq!((left(), is_enabled(&host)), (0, false));
    assert!(!host.path("/usr/lib/x86_64-linux-gnu/libcuda.so.1").exists());
}
