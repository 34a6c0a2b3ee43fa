//! Fabric Manager beside the driver, with the real apt and packages made for it, on a Debian root that says it is Ubuntu: both
//! come in one version, are held together, go to another version together, and come back.

use crate::host::{Host, script, timed};
use crate::short::{self, Deb, deb};
use serde_json::Value;
use std::fs;
use std::path::Path;

const OLD: &str = "580.95.05-0ubuntu0.22.04.1";
const NEW: &str = "580.178.04-0ubuntu0.22.04.1";
const UNIT: &str = "nvidia-fabricmanager.service";

/// The driver's libraries, which come only as a dependency.
const PART: &str = "libnvidia-compute-580-server";
const PART_OLD: &str = "libnvidia-compute-580-server (= 580.95.05-0ubuntu0.22.04.1)";
const PART_NEW: &str = "libnvidia-compute-580-server (= 580.178.04-0ubuntu0.22.04.1)";

/// What the package of Fabric Manager has.
const MANAGER: &str = "mkdir -p /lib/systemd/system
    printf '[Service]\\nExecStart=/bin/true\\n[Install]\\nWantedBy=multi-user.target\\n' >/lib/systemd/system/nvidia-fabricmanager.service
    printf '#!/bin/sh\\n' >/usr/bin/nv-fabricmanager; chmod 755 /usr/bin/nv-fabricmanager";

/// A DGX A100 whose Ubuntu has the driver.
fn dgx(name: &str) -> Host {
    let host = Host::of(name, Path::new(&timed("base root", || script("base", &[]))));
    fs::remove_file(host.path("/etc/os-release")).expect("a link");
    let release = "ID=ubuntu\nVERSION_ID=\"22.04\"\nPRETTY_NAME=\"Ubuntu 22.04.5 LTS\"\nID_LIKE=debian\n";
    fs::write(host.path("/etc/os-release"), release).expect("written");
    host.ask(
        "switch=/sys/devices/pci0000:16/0000:16:00.0/0000:20:00.0; mkdir -p $switch
         for part in 'vendor 0x10de' 'device 0x1af1' 'class 0x068000' 'subsystem_vendor 0x10de' 'subsystem_device 0x1199'; do
           echo ${part#* } >$switch/${part% *}
         done
         ln -s ../../../${switch#/sys/} /sys/bus/pci/devices/0000:20:00.0
         # The packages have no kernel module; one that is asked for its version has the driver's.
         mkdir /opt/kmod; ln -s /bin/kmod /opt/kmod/modinfo; rm /sbin/modinfo
         printf '#!/bin/sh\\ncase \"$*\" in *version*nvidia*) dpkg-query -W -f \\${Version} nvidia-fabricmanager-580 ;; *) exec /opt/kmod/modinfo \"$@\" ;; esac\\n' >/sbin/modinfo
         chmod 755 /sbin/modinfo
         mkdir -p /srv/ubuntu/dists/jammy/restricted/binary-amd64
         printf 'Origin: Ubuntu\\nSuite: jammy\\nCodename: jammy\\nComponents: restricted\\n' >/srv/ubuntu/dists/jammy/Release
         touch /srv/ubuntu/dists/jammy/restricted/binary-amd64/Packages
         echo 'deb [trusted=yes] file:/srv/ubuntu jammy restricted' >/etc/apt/sources.list.d/ubuntu.list",
    );
    host
}

/// What the plan installs, by name.
fn wanted(plan: &Value) -> Vec<String> {
    let steps = plan["steps"].as_array().expect("steps");
    let operations = steps.iter().flat_map(|step| step["operations"].as_array().expect("operations"));
    let names = operations.filter(|o| o["op"] == "packages").flat_map(|o| o["install"].as_array().expect("names"));
    names.map(|name| name.as_str().expect("a name").to_owned()).collect()
}

/// Has apt offer the driver and Fabric Manager in these versions, and the rest as it is there.
fn offer(host: &Host, names: &[String], driver: &[&str], manager: &[&str]) {
    let mut debs = Vec::new();
    for name in names {
        let of = |versions: &[&'static str], script: &'static str| -> Vec<Deb> {
            versions.iter().map(|version| Deb { version, ..deb(name, script) }).collect()
        };
        let known = |wanted: &[&str]| [OLD, NEW].into_iter().filter(|v| wanted.contains(v)).collect::<Vec<_>>();
        match name.as_str() {
            _ if name.contains("fabricmanager") => debs.extend(of(&known(manager), MANAGER)),
            _ if name.contains("headless") => {
                let part = |version: &&'static str| if *version == OLD { PART_OLD } else { PART_NEW };
                let with_part = |version| Deb { version, depends: part(&version), ..deb(name, ":") };
                debs.extend(known(driver).into_iter().map(with_part));
            }
            _ if name.contains("nvidia") => debs.extend(of(&known(driver), ":")),
            _ => debs.push(deb(name, ":")),
        }
    }
    let known = [OLD, NEW].into_iter().filter(|v| driver.contains(v));
    debs.extend(known.map(|version| Deb { version, ..deb(PART, ":") }));
    short::offer(host, &debs);
}

/// The versions of NVIDIA's packages, each once.
fn versions(host: &Host) -> Vec<String> {
    let list = host
        .ask("dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\\n' | grep '^installed .*nvidia' || true");
    let mut versions: Vec<_> = list.lines().filter_map(|l| l.rsplit(' ').next()).map(str::to_owned).collect();
    versions.sort();
    versions.dedup();
    versions
}

fn held(host: &Host) -> Vec<String> {
    host.ask("apt-mark showhold").lines().map(str::to_owned).collect()
}

fn is_enabled(host: &Host) -> bool {
    host.sh(&format!("systemctl is-enabled {UNIT}")).code == Some(0)
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn driver_and_fabric_manager_move_together() {
    let host = dgx("dgx");
    let request = ["--profile", "driver", "--method", "packages", "--driver", "580"];
    let plan = || host.gpusetup_plain(&[&["plan", "--json"], &request[..]].concat()).succeeds().json();
    let names = wanted(&plan());
    assert!(names.contains(&"nvidia-fabricmanager-580".to_owned()), "{names:?}");
    assert!(names.iter().any(|name| name.contains("-580-server")), "the series that has a Fabric Manager: {names:?}");

    // A mirror that is behind: nothing is changed.
    offer(&host, &names, &[NEW], &[OLD]);
    let before = host.ask("dpkg-query -W");
    let said = host.gpusetup_plain(&[&["apply", "--yes"], &request[..]].concat());
    assert_ne!(said.code, Some(0), "{said:?}");
    assert_eq!(host.ask("dpkg-query -W"), before, "{said:?}");

    offer(&host, &names, &[OLD], &[OLD]);
    host.gpusetup_plain(&[&["apply", "--yes"], &request[..]].concat()).succeeds();
    assert_eq!(versions(&host), [OLD]);
    let driver: Vec<_> = names.iter().filter(|name| name.contains("nvidia")).cloned().collect();
    assert!(driver.iter().all(|name| held(&host).contains(name)), "{driver:?} {:?}", held(&host));
    assert!(is_enabled(&host) && held(&host).contains(&PART.to_owned()), "{:?}", held(&host));
    let again = plan();
    let steps = again["steps"].as_array().expect("steps");
    let companions = steps.iter().find(|step| step["id"] == "companions").expect("a step");
    assert_eq!(companions["state"], "satisfied", "{companions}");

    // An update by hand or by a timer moves none of them.
    offer(&host, &names, &[OLD, NEW], &[OLD, NEW]);
    host.ask("apt-get -y -qq dist-upgrade");
    assert_eq!(versions(&host), [OLD]);

    host.gpusetup_plain(&[&["apply", "--yes", "--upgrade"], &request[..]].concat()).succeeds();
    assert_eq!(versions(&host), [NEW]);
    assert!(driver.iter().all(|name| held(&host).contains(name)) && is_enabled(&host), "{:?}", held(&host));

    host.gpusetup_plain(&["rollback", "--yes"]).succeeds();
    assert_eq!(versions(&host), [OLD]);
    assert!(driver.iter().all(|name| held(&host).contains(name)) && is_enabled(&host), "{:?}", held(&host));

    host.gpusetup_plain(&["uninstall", "--driver", "--yes"]).succeeds();
    assert_eq!((versions(&host), held(&host)), (Vec::new(), Vec::new()));
    assert!(!host.path("/var/lib/gpusetup-held").exists());
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_hold_of_the_administrator_stays() {
    let host = dgx("dgx-held");
    let request = ["--profile", "driver", "--method", "packages", "--driver", "580", "--yes"];
    let plan = host.gpusetup_plain(&[&["plan", "--json"], &request[..request.len() - 1]].concat()).succeeds().json();
    let names = wanted(&plan);
    offer(&host, &names, &[OLD], &[OLD]);
    host.gpusetup_plain(&[&["apply"], &request[..]].concat()).succeeds();
    // The administrator takes one of them over.
    let theirs = "nvidia-fabricmanager-580";
    host.ask(&format!("grep -vx {theirs} /var/lib/gpusetup-held >/root/held; cp /root/held /var/lib/gpusetup-held"));
    offer(&host, &names, &[OLD, NEW], &[OLD, NEW]);
    let said = host.gpusetup_plain(&[&["apply", "--upgrade"], &request[..]].concat());
    assert!(said.code != Some(0) && said.err.contains("holds"), "{said:?}");
    assert_eq!(versions(&host), [OLD]);
    assert!(held(&host).contains(&theirs.to_owned()));
}
