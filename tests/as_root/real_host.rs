//! The main job on a real host: a Debian root with its own kernel, real packages, a real nvcc and a
//! real cuDNN. What counts is what the host says afterwards, not what gpusetup says. `tests/run`
//! runs this: it takes root, and minutes.

use crate::host;
use crate::host::tree::differences;
use crate::host::{Host, RECORDS, bench, gpusetup, machine, text, timed};
use crate::schema;
use crate::stack::{MODULES, STACK, installed, installed_by, modules, planned};
use gpusetup::doctor::CHECKS;
use serde_json::Value;
use std::fs;
use std::path::Path;

const OLD_RUNFILE: &str = "cuda_12.4.1_550.54.15_linux.run";
const NEW_RUNFILE: &str = "cuda_13.4.2_linux.run";
const CUDNN_12: &str = "cudnn-linux-x86_64-9.10.2.21_cuda12-archive.tar.xz";

/// Toolkit and cuDNN only, from a runfile of the kind that brings no driver.
const TOOLKIT: &[&str] = &[
    "--profile",
    "toolkit",
    "--cuda",
    "13.4",
    "--cudnn",
    "9.25.1",
];

/// The steps of the main job.
const STEPS: [&str; 9] = [
    "prerequisites",
    "blacklist-nouveau",
    "install-driver",
    "install-cuda",
    "install-cudnn",
    "fix-symlinks",
    "ldconfig",
    "environment",
    "verify",
];

/// What tells one clone from another and is none of gpusetup's doing.
const CLONE: &[&str] = &[
    "proc",
    "dev",
    "sys",
    "etc/resolv.conf",
    "etc/apt/apt.conf.d/99archive",
];

/// What may differ after a rollback beside that: diversions, the key that DKMS makes once, and the
/// bytes of a rebuilt initramfs (its list of files is compared apart).
const AFTER_ROLLBACK: &[&str] = &[
    "var/lib/dpkg/diversions-old",
    "var/lib/dkms",
    "boot/initrd.img-*",
];

/// What is wrong with a host, the check that must say so, and what `doctor --fix` makes of it.
struct Breakage {
    what: &'static str,
    check: &'static str,
    script: &'static str,
    fix: Fix,
}

/// What `doctor --fix` makes of a host.
#[derive(PartialEq)]
enum Fix {
    /// A sound one, and a rollback makes it sick again.
    Repairs,
    /// A sound one; a rollback takes the rest back, and this stays repaired.
    RepairsForGood,
    /// Nothing: a person has to decide.
    Leaves,
}
use Fix::{Leaves, Repairs, RepairsForGood};

const BREAKAGES: &[Breakage] = &[
    Breakage {
        what: "a link that libraries are found by is gone",
        check: "GS702",
        script: "rm /usr/local/cuda/lib64/libcudnn.so.9",
        fix: Repairs,
    },
    Breakage {
        what: "a copy stands in place of a link",
        check: "GS702",
        script: "cd /usr/local/cuda/lib64 && cp --remove-destination libcudnn_ops.so.9.10.2 libcudnn_ops.so.9",
        fix: Repairs,
    },
    Breakage {
        what: "the default toolkit is gone",
        check: "GS701",
        script: "rm /usr/local/cuda",
        fix: Repairs,
    },
    Breakage {
        what: "the loader's cache does not know cuDNN",
        check: "GS708",
        script: "mv /etc/ld.so.conf.d/gpusetup-cuda.conf /root; ldconfig; mv /root/gpusetup-cuda.conf /etc/ld.so.conf.d",
        fix: Repairs,
    },
    Breakage {
        what: "the loader does not look where cuDNN is",
        check: "GS708",
        script: "rm /etc/ld.so.conf.d/gpusetup-cuda.conf; ldconfig",
        fix: Repairs,
    },
    Breakage {
        what: "login shells do not find nvcc",
        check: "GS701",
        script: "rm /etc/profile.d/gpusetup-cuda.sh",
        fix: Repairs,
    },
    Breakage {
        what: "the kernel has lost the driver's modules",
        check: "GS104",
        script: "rm -r /lib/modules/*/updates && depmod $KERNEL",
        fix: Repairs,
    },
    Breakage {
        what: "the link to the kernel's headers is gone, and the modules with it",
        check: "GS101",
        script: "rm /lib/modules/*/build; rm -r /lib/modules/*/updates; depmod $KERNEL",
        fix: Repairs,
    },
    Breakage {
        what: "the package of the kernel's headers was removed",
        check: "GS101",
        script: "apt-get -qq purge linux-headers-$KERNEL >&2",
        fix: Repairs,
    },
    Breakage {
        what: "nouveau is back in the initramfs, and nothing keeps it out",
        check: "GS201",
        // As the hook of a splash screen brings it.
        script: "grep -lR 'blacklist nouveau' /etc/modprobe.d /lib/modprobe.d | xargs -r readlink -f | xargs -r rm; \
                 cd /etc/initramfs-tools/hooks && printf '%s\\n' '#!/bin/sh' '[ \"$1\" != prereqs ] || exit 0' \
                     '. /usr/share/initramfs-tools/hook-functions' 'manual_add_modules nouveau' >nouveau && \
                 chmod +x nouveau && update-initramfs -u -k all >&2",
        fix: Repairs,
    },
    Breakage {
        what: "somebody had the initramfs load nouveau",
        check: "GS201",
        script: "echo nouveau >>/etc/initramfs-tools/modules; update-initramfs -u -k all >&2",
        fix: Leaves,
    },
    Breakage {
        what: "a library of the driver is older than the rest",
        check: "GS401",
        script: "cd /usr/lib/x86_64-linux-gnu && cp $(readlink -f libnvidia-ml.so.1) libnvidia-ml.so.530.41.03 && \
                 ln -sfn libnvidia-ml.so.530.41.03 libnvidia-ml.so.1",
        fix: Leaves,
    },
    Breakage {
        what: "programs get a cuDNN that is older than the toolkit's",
        check: "GS703",
        script: "cd /root && echo 'unsigned long cudnnGetVersion(void) { return 90100; }' >old.c && mkdir -p /opt/old && \
                 gcc -shared -fPIC -Wl,-soname,libcudnn.so.9 -o /opt/old/libcudnn.so.9.1.0 old.c && \
                 echo /opt/old >/etc/ld.so.conf.d/000-old.conf && ldconfig",
        fix: Leaves,
    },
    Breakage {
        what: "nvidia-smi is missing",
        check: "GS407",
        script: "apt-get -qq purge nvidia-smi >&2",
        fix: Repairs,
    },
    Breakage {
        what: "dpkg was cut off",
        check: "GS603",
        script: "cd /root && apt-get -qq update && apt-get -qq download hello && dpkg --unpack hello_*.deb >&2",
        fix: RepairsForGood,
    },
];

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn the_host_is_seen() {
    let host = Host::new("seen");
    bench().requests();
    timed("facts", || facts(&host));
    timed("plan", || plan(&host));
    timed("offers", || offers(&host));
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn apply_installs_the_whole_stack() {
    let host = installed_by(|host| {
        bench().requests();
        timed("facts", || facts(host));
        timed("plan", || plan(host));
        timed("apply", || apply(host, STACK).succeeds());
        assert_eq!(
            bench().requests(),
            [format!("/{OLD_RUNFILE} 200"), format!("/{CUDNN_12} 200")]
        );
    });
    timed("its modules, for others", || modules(&host));
}

/// What the test above leaves, and tests/run has it end before this begins.
#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn the_whole_stack_works_and_can_be_removed() {
    let host = installed(&planned()).clone_as("stack");
    timed("asking the host", || {
        toolkit_works(&host, "12.4", 12040);
        doctors_kernel_is_ptx(&host, &["sm_50", "sm_70", "sm_90"]);
        cudnn_answers(&host, 91002);
        driver_is_there(&host, "535.");
        nouveau_is_away(&host);
        files_are_sound(&host, "12.4");
    });
    timed("apply again", || apply_again(&host, STACK));
    timed("uninstall all", || uninstall_all(&host));
    timed("rollback", || rollback(&host));
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn doctor_knows_what_is_wrong() {
    let host = timed("a host that has it all", || {
        installed(&planned()).clone_as("doctor")
    });
    host.reboots();
    timed("doctor", || is_healthy(&host));
    timed("doctor on broken hosts", || broken_hosts(&host));
    timed("a splash screen", || splash_screen(&host));
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn toolkit_from_a_runfile_without_driver() {
    let host = Host::new("toolkit");
    timed("apply", || apply(&host, TOOLKIT).succeeds());
    timed("asking the host", || {
        toolkit_works(&host, "13.4", 13040);
        doctors_kernel_is_ptx(&host, &["sm_75", "sm_90", "sm_121"]);
        cudnn_answers(&host, 92501);
        files_are_sound(&host, "13.4");
        assert_eq!(
            host.ask("dpkg-query -W -f '${Package}\\n' | grep -i -e nvidia -e dkms || true"),
            ""
        );
    });
    timed("apply again", || apply_again(&host, TOOLKIT));
    timed("uninstall", || uninstall(&host));
    timed("rollback", || rollback(&host));
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_toolkit_that_compiles_nothing_is_no_success() {
    let host = Host::new("compiles-nothing");
    // The package is there, and its compiler is not: no package manager brings it back.
    host.ask(
        "apt-get -qq update && apt-get -qq -y install --no-install-recommends g++ make libc6-dev >&2
         rm \"$(gcc -print-prog-name=cc1plus)\"",
    );
    let ran = timed("apply", || apply(&host, TOOLKIT).exits(8));
    assert!(
        ran.err.contains("g++ is missing: install g++") && ran.err.contains("cc1plus"),
        "{}",
        ran.err
    );
    assert_eq!(
        host.ask("find /run /var/cache -name 'compile.*'"),
        "",
        "nothing is left behind"
    );
    host.gpusetup(&["rollback", "--yes"]).succeeds();
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_toolkit_of_component_archives() {
    let first = Host::new("runtime");
    bench().requests();
    let cudart = parts_of(&["--components", "cudart"]);
    timed("apply the runtime alone", || {
        apply(&first, &cudart).succeeds()
    });
    assert_eq!(fetched(), ["cccl", "cuda_crt", "cuda_cudart"]);
    assert!(
        first
            .ask("ldconfig -p")
            .contains("/usr/local/cuda/lib64/libcudart.so.13")
    );
    let host = first.clone_as("components");

    let nvcc = parts_of(&["--components", "nvcc,cudart"]);
    timed("add the compiler", || apply(&host, &nvcc).succeeds());
    assert_eq!(fetched(), ["cuda_nvcc", "libnvvm"]);
    timed("asking the host", || {
        toolkit_works(&host, "13.4", 13040);
        cccl_works(&host);
        doctors_kernel_is_ptx(&host, &["sm_75", "sm_121"]);
        belongs_to_root(&host, "/usr/local/cuda-13.4");
        let facts = host.gpusetup(&["facts", "--json"]).json();
        assert_eq!(
            facts["toolkits"][0]["origin"], "archives",
            "{}",
            facts["toolkits"]
        );
    });
    timed("apply again", || apply_again(&host, &nvcc));
    timed("the runfile's toolkit", || {
        is_as_the_runfile_leaves_it(&host, &first)
    });
    timed("the script", || {
        let (applied, scripted) = (host.clone_as("applied-parts"), Host::new("scripted-parts"));
        [&applied, &scripted].into_iter().for_each(add_curl_and_xz);
        let plan = [&["plan", "--format", "sh"][..], &nvcc].concat();
        fs::write(
            scripted.path("/root/plan.sh"),
            scripted.gpusetup(&plan).succeeds().out,
        )
        .expect("the host takes a file");
        scripted
            .sh("sh /root/plan.sh && rm /root/plan.sh")
            .succeeds();
        assert_eq!(
            differences(
                &applied.root(),
                &scripted.root(),
                &[RECORDS, AFTER_ROLLBACK].concat()
            ),
            [""; 0]
        );
    });
    timed("uninstall --cuda", || {
        let removed = host.clone_as("removed");
        removed
            .gpusetup(&["uninstall", "--cuda", "13.4", "--yes"])
            .succeeds();
        assert_eq!(removed.ask("ls -A /usr/local | grep cuda || true"), "");
    });
    timed("rollback", || {
        host.gpusetup(&["rollback", "--yes"]).succeeds();
        assert_eq!(
            differences(
                &first.root(),
                &host.root(),
                &[RECORDS, AFTER_ROLLBACK].concat()
            ),
            [""; 0]
        );
        host.gpusetup(&["uninstall", "--yes"]).succeeds();
        assert_eq!(
            differences(
                &bench().base,
                &host.root(),
                &[RECORDS, AFTER_ROLLBACK].concat()
            ),
            [""; 0]
        );
    });
}

/// A request for parts of the toolkit, without cuDNN, which brings cuBLAS along.
fn parts_of<'a>(components: &[&'a str]) -> Vec<&'a str> {
    [
        &[
            "--profile",
            "toolkit",
            "--cuda",
            "13.4.2",
            "--cudnn",
            "none",
        ][..],
        components,
    ]
    .concat()
}

/// The components whose archives were fetched since the last call.
fn fetched() -> Vec<String> {
    let requests = bench().requests();
    let name = |line: &String| {
        line.strip_prefix("/redist/")
            .and_then(|l| Some(l.split_once('/')?.0.to_owned()))
    };
    let mut all: Vec<_> = requests
        .iter()
        .map(|l| name(l).unwrap_or_else(|| panic!("{l}")))
        .collect();
    all.sort();
    all
}

/// NVIDIA's C++ library is found where nvcc looks for it.
fn cccl_works(host: &Host) {
    let program =
        "#include <cuda/std/array>\nstatic_assert(cuda::std::array<int, 3>{}.size() == 3);\n";
    fs::write(host.path("/root/library.cu"), program).expect("the host takes a file");
    host.ask(
        "cd /root && /usr/local/cuda/bin/nvcc -std=c++17 -arch=sm_80 -c library.cu && rm library.*",
    );
}

/// The same files, links and modes as on a host where the runfile was run, but for the licences,
/// the list of what there is, the runfile's uninstaller, and the library that its installer loads;
/// and doctor finds no more to say of it.
fn is_as_the_runfile_leaves_it(host: &Host, libraries_alone: &Host) {
    let whole = Host::new("whole");
    apply(&whole, &parts_of(&[])).succeeds();
    let own = ["version.json", "share", "bin/cuda-uninstaller"]
        .map(|f| format!("usr/local/cuda-13.4/{f}"));
    let ignored: Vec<_> = [RECORDS, AFTER_ROLLBACK]
        .concat()
        .into_iter()
        .chain(own.iter().map(String::as_str))
        .collect();
    let with_libxml2 = host.clone_as("beside-libxml2");
    with_libxml2
        .ask("apt-get -qq update && apt-get -qq -y install --no-install-recommends libxml2 >&2");
    assert_eq!(
        differences(&whole.root(), &with_libxml2.root(), &ignored),
        [""; 0]
    );
    let found = findings(&whole).1;
    for other in [host, libraries_alone] {
        let (report, findings) = findings(other);
        assert_eq!(findings, found, "{report:#}");
    }
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn bundles_install_the_whole_stack_without_a_network() {
    let (maker, host) = (Host::new("maker"), Host::new("offline"));
    // A compiler's minutes, which another test has looked at.
    let (tarball, version) = modules(&installed(&planned()));
    fs::create_dir(host.path(MODULES)).expect("made");
    fs::copy(
        tarball,
        host.path(&format!("{MODULES}/nvidia-current-{version}.dkms.tar.gz")),
    )
    .expect("copied");
    let folder = tempfile::tempdir_in(host::store()).expect("a temporary folder");
    let file = |name: &str| text(&folder.path().join(name)).to_owned();
    // Packages wait there that other tests install: here none may help.
    host.ask("rm /var/cache/apt/archives/*.deb");
    let apts = || {
        host.ask("find /etc/apt /var/lib/apt/lists /var/cache/apt -type f | sort | xargs sha256sum")
    };
    let before = apts();
    let mut plan = vec!["plan", "--out"];
    let (made, bundle, packed) = (file("plan.json"), file("bundle"), file("bundle.tar.zst"));
    plan.push(&made);
    plan.extend(STACK);
    host.gpusetup(&plan).succeeds();
    timed("bundle create", || {
        let (root, database) = (maker.root(), text(&bench().database));
        let create = [
            "bundle",
            "create",
            "--root",
            text(&root),
            "--database",
            database,
            "--plan",
            &made,
        ];
        gpusetup(create.into_iter().chain(["-o", &bundle])).succeeds();
        assert_eq!(
            differences(
                &bench().base,
                &root,
                &[CLONE, &["run", "var/cache/gpusetup"]].concat()
            ),
            [""; 0]
        );
        assert!(
            !maker.path("/var/cache/gpusetup/.bundles").exists(),
            "nothing stays but the downloads"
        );
    });
    drop(maker);
    let (public, secret) = (file("key.pub"), file("key"));
    machine("minisign", &["-G", "-W", "-p", &public, "-s", &secret]).succeeds();
    machine(
        "minisign",
        &["-S", "-m", &format!("{bundle}/bundle.json"), "-s", &secret],
    )
    .succeeds();
    timed("bundle pack", || {
        gpusetup(["bundle", "pack", &bundle, "-o", &packed]).succeeds()
    });
    let sizes = machine(
        "du",
        &[
            "-sh",
            &bundle,
            &format!("{bundle}/gpusetup"),
            &format!("{bundle}/packages"),
            &packed,
        ],
    );
    println!("{}", sizes.succeeds().out);
    timed("bundle verify", || {
        gpusetup(["bundle", "verify", &packed, "--key", &public]).succeeds()
    });

    bench().requests();
    let offline = |arguments: &[&str]| host.gpusetup_under(&["unshare", "--net"], arguments);
    let apply = [
        "apply",
        "--yes",
        "--accept-eula",
        "--bundle",
        &packed,
        "--bundle-key",
        &public,
        "--lock-timeout",
        "1",
    ];
    // Stopped once everything is here: from there on the bundle is needed no more.
    let ran = timed("apply, as far as the lock", || {
        while_locked(&host, || offline(&apply))
    });
    assert!(ran.exits(6).err.contains("/var/lib/dpkg/lock-frontend"));
    fs::remove_file(&packed).expect("there");
    fs::remove_dir_all(&bundle).expect("there");
    let (kept, away) = (
        host.path("/var/cache/gpusetup/.bundles"),
        host.path("/var/cache/gpusetup/.away"),
    );
    fs::rename(&kept, &away).expect("packages were brought");
    let ran = offline(&["resume", "--yes"]).exits(5);
    assert!(
        ran.err.contains("gpusetup resume --bundle PATH"),
        "{}",
        ran.err
    );
    fs::rename(&away, &kept).expect("moved back");
    timed("resume", || offline(&["resume", "--yes"]).succeeds());
    assert_eq!(bench().requests(), [""; 0]);
    assert!(!kept.exists(), "nobody needs the packages any more");
    assert_eq!(apts(), before, "apt's own lists, sources and packages");
    timed("asking the host", || {
        toolkit_works(&host, "12.4", 12040);
        cudnn_answers(&host, 91002);
        driver_is_there(&host, "535.");
        nouveau_is_away(&host);
        files_are_sound(&host, "12.4");
    });
    timed("rollback", || offline(&["rollback", "--yes"]).succeeds());
    fs::remove_dir_all(host.path(MODULES)).expect("there");
    assert_eq!(
        differences(
            &bench().base,
            &host.root(),
            &[RECORDS, AFTER_ROLLBACK].concat()
        ),
        [""; 0]
    );
}

/// dnf's way, on Debian's dnf: a root that says it is Rocky Linux, with a repository of packages
/// that were made for this.
#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_bundle_of_dnfs_packages() {
    bundle_of_rpms(
        "dnf",
        "ID=rocky\nID_LIKE=rhel\nVERSION_ID=9.6\nPRETTY_NAME='Rocky Linux 9.6'",
        "/etc/yum.repos.d",
    );
}

/// zypper's, on Debian's zypper.
#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_bundle_of_zyppers_packages() {
    let leap = "ID=opensuse-leap\nID_LIKE=suse\nVERSION_ID=15.6\nPRETTY_NAME='openSUSE Leap 15.6'";
    bundle_of_rpms("zypper", leap, "/etc/zypp/repos.d");
}

/// Debian keeps its own rpm's packages in the home of who asks; here they are where such systems
/// have them.
fn bundle_of_rpms(manager: &str, os_release: &str, repositories: &str) {
    let made = "mkdir -p /srv/rpms && cd /srv
        made() {
          printf '%s\\n' \"Name: $1\" 'Version: 1' 'Release: 1' 'Summary: x' 'License: x' 'BuildArch: noarch' \"$2\" \\
            '%description' 'x' '%files' >$1.spec
          rpmbuild --quiet -bb --define '_topdir /srv/build' --define '_rpmdir /srv/rpms' $1.spec >&2
        }";
    let maker = Host::new(manager);
    maker.ask(&format!(
        "apt-get -qq update && apt-get -qq install --no-install-recommends {manager} createrepo-c rpm >&2; rm -f /usr/bin/gcc*
         mkdir -p /etc/rpm && echo '%_dbpath /var/lib/rpm' >/etc/rpm/macros
         cat >/usr/lib/os-release <<'.'\n{os_release}\n.
         {made}
         # No such system has no packages at all, and zypper does not know one.
         made base 'Provides: w'; rpm --install /srv/rpms/noarch/base-1-1.noarch.rpm >&2; rm -r /srv/*"
    ));
    // The other has no repository at all, and nothing in common with this one from here on.
    let host = maker.clone_as(&format!("{manager}-offline"));
    let maker = maker.clone_as(&format!("{manager}-maker"));
    maker.ask(&format!(
        "{made}
         made cpp 'Provides: x'; made gcc 'Requires: cpp'; made glibc-devel 'Requires: cpp'; made make 'Provides: y'
         made gcc-c++ 'Requires: gcc'
         made stranger 'Provides: z'
         createrepo_c --quiet /srv/rpms
         mkdir -p {repositories}
         printf '[made]\\nname=made\\nbaseurl=file:///srv/rpms\\ngpgcheck=0\\n' >{repositories}/made.repo"
    ));
    let folder = tempfile::tempdir_in(host::store()).expect("a temporary folder");
    let (plan, bundle) = (
        folder.path().join("plan.json"),
        folder.path().join("bundle"),
    );
    let ask = [&["plan", "--out", text(&plan)], TOOLKIT].concat();
    host.gpusetup(&ask).succeeds();
    let (root, database) = (maker.root(), text(&bench().database));
    let create = [
        "bundle",
        "create",
        "--root",
        text(&root),
        "--database",
        database,
        "--plan",
        text(&plan),
    ];
    timed("bundle create", || {
        gpusetup(create.into_iter().chain(["-o", text(&bundle)])).succeeds()
    });
    let manifest: Value =
        serde_json::from_str(&fs::read_to_string(bundle.join("bundle.json")).expect("there"))
            .expect("JSON");
    let offers = manifest["packages"][0]["offers"]
        .as_object()
        .expect("packages");
    assert_eq!(
        offers.keys().collect::<Vec<_>>(),
        ["cpp", "gcc", "gcc-c++", "glibc-devel", "make"]
    );
    let offline = |arguments: &[&str]| host.gpusetup_under(&["unshare", "--net"], arguments);
    // These packages hold no compiler, and that is noticed.
    let ran = timed("apply", || {
        offline(&["apply", "--yes", "--accept-eula", "--bundle", text(&bundle)]).exits(8)
    });
    assert!(ran.err.contains("g++ is missing"), "{}", ran.err);
    let installed = || host.ask("rpm -qa --qf '%{NAME}\\n' | sort | xargs");
    assert_eq!(installed(), "base cpp gcc gcc-c++ glibc-devel make");
    cudnn_is_there(&host);
    timed("rollback", || offline(&["rollback", "--yes"]).succeeds());
    assert_eq!(installed(), "base");
}

/// The loader finds cuDNN and the toolkit's runtime; there is no compiler here that could ask them.
fn cudnn_is_there(host: &Host) {
    let known = host.ask("ldconfig -p");
    assert!(
        known.contains("libcudnn.so.9 ") && known.contains("libcudart.so.13 "),
        "{known}"
    );
    assert!(
        host.ask("/usr/local/cuda/bin/nvcc --version")
            .contains("release 13.4,")
    );
}

/// Scripts download with curl and unpack with xz, which a fresh host lacks.
fn add_curl_and_xz(host: &Host) {
    host.ask(
        "apt-get -qq update && apt-get -qq -y install --no-install-recommends curl xz-utils >&2",
    );
}

/// Does something while somebody else is at work with the host's packages.
fn while_locked<T>(host: &Host, work: impl FnOnce() -> T) -> T {
    let lock = "import fcntl, sys, time; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); time.sleep(600)";
    let mut holder = std::process::Command::new("python3")
        .args(["-c", lock, text(&host.path("/var/lib/dpkg/lock-frontend"))])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python3 starts");
    let mut line = [0];
    std::io::Read::read_exact(holder.stdout.as_mut().expect("piped"), &mut line)
        .expect("it has the lock");
    let done = work();
    holder.kill().expect("it runs");
    holder.wait().expect("ended");
    done
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn the_script_does_what_apply_does() {
    let (applied, scripted) = (Host::new("applied"), Host::new("scripted"));
    [&applied, &scripted].into_iter().for_each(add_curl_and_xz);
    let mut arguments = vec!["plan", "--format", "sh"];
    arguments.extend(TOOLKIT);
    let script = scripted.gpusetup(&arguments).succeeds().out;
    fs::write(scripted.path("/root/plan.sh"), script).expect("the host takes a file");
    timed("the script", || scripted.sh("sh /root/plan.sh").succeeds());
    timed("apply", || apply(&applied, TOOLKIT).succeeds());
    let mut ignored = [RECORDS, AFTER_ROLLBACK].concat();
    ignored.push("root/plan.sh");
    assert_eq!(
        differences(&applied.root(), &scripted.root(), &ignored),
        [""; 0]
    );
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn refusals_leave_no_trace() {
    let host = Host::new("refused");
    let root = host.root();
    let untouched = |ignored: &[&str]| {
        let ignored: Vec<_> = CLONE.iter().chain(ignored).copied().collect();
        assert_eq!(differences(&bench().base, &root, &ignored), [""; 0]);
    };

    let empty = tempfile::tempdir().expect("a temporary directory");
    for verb in ["facts", "plan", "apply"] {
        let ran = gpusetup([verb, "--root", text(empty.path())]).exits(2);
        assert!(ran.err.contains("os-release"), "{}", ran.err);
    }
    assert_eq!(fs::read_dir(empty.path()).expect("still there").count(), 0);

    // A file system of its own in the place where toolkits go: first without room, then read-only.
    for option in ["size=16m", "ro"] {
        host.sh("mkdir -p /usr/local").succeeds();
        machine(
            "mount",
            &[
                "-t",
                "tmpfs",
                "-o",
                option,
                "tmpfs",
                text(&host.path("/usr/local")),
            ],
        )
        .succeeds();
        let ran = apply(&host, TOOLKIT);
        machine("umount", &[text(&host.path("/usr/local"))]).succeeds();
        let ran = ran.exits(5);
        assert!(ran.err.contains("/usr/local"), "{}", ran.err);
        untouched(&[
            "run",
            "var/lib/gpusetup",
            "var/log/gpusetup",
            "var/cache/gpusetup",
        ]);
    }

    // Nobody is there who could accept a licence.
    let mut arguments = vec!["apply", "--unattended"];
    arguments.extend(TOOLKIT);
    let ran = host.gpusetup(&arguments).exits(2);
    assert!(ran.err.contains("--accept-eula"), "{}", ran.err);
    untouched(&[
        "run",
        "var/lib/gpusetup",
        "var/log/gpusetup",
        "var/cache/gpusetup",
    ]);

    // What is served is not what the database says.
    bench().requests();
    let database = tempfile::tempdir().expect("a temporary directory");
    other_sum(&bench().database, database.path(), NEW_RUNFILE);
    let mut arguments = vec![
        "apply",
        "--yes",
        "--accept-eula",
        "--root",
        text(&root),
        "--database",
        text(database.path()),
    ];
    arguments.extend(TOOLKIT);
    let ran = gpusetup(arguments).exits(10);
    assert!(ran.err.contains(NEW_RUNFILE), "{}", ran.err);
    untouched(&[
        "run",
        "var/lib/gpusetup",
        "var/log/gpusetup",
        "var/cache/gpusetup",
    ]);
    assert!(
        !host.path("/var/log/cuda-installer.log").exists(),
        "the runfile was run"
    );

    // Somebody else is at work with packages.
    let lock = "import fcntl, sys, time; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); time.sleep(600)";
    let frontend = host.path("/var/lib/dpkg/lock-frontend");
    let mut holder = std::process::Command::new("python3")
        .args(["-c", lock, text(&frontend)])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python3 starts");
    let mut line = [0];
    std::io::Read::read_exact(holder.stdout.as_mut().expect("piped"), &mut line)
        .expect("it has the lock");
    let mut arguments = vec![
        "apply",
        "--unattended",
        "--accept-eula",
        "--lock-timeout",
        "1",
    ];
    arguments.extend(STACK);
    let ran = host.gpusetup(&arguments);
    holder.kill().expect("it runs");
    holder.wait().expect("ended");
    let ran = ran.exits(6);
    assert!(
        ran.err
            .contains(&format!("python3 (process {}", holder.id())),
        "{}",
        ran.err
    );
    untouched(&[
        "run",
        "var/lib/gpusetup",
        "var/log/gpusetup",
        "var/cache/gpusetup",
    ]);
    host.gpusetup(&["status", "--wait", "--timeout", "1"])
        .exits(6);
    host.gpusetup(&["reboot-required"]).exits(1);

    // An administrator holds a package as it is.
    host.ask("apt-get -qq update; apt-mark hold dkms >&2");
    let ran = apply(&host, STACK).exits(5);
    assert!(
        ran.err
            .contains("would change dkms, which the package manager holds"),
        "{}",
        ran.err
    );
    assert_eq!(
        host.ask("dpkg-query -W -f '${db:Status-Status}\\n' dkms nvidia-smi 2>/dev/null || true"),
        "not-installed"
    );
    host.ask("apt-mark unhold dkms >&2");

    host.ask("rm -r /sys/bus/pci/devices/*");
    apply(&host, STACK).exits(9);
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn the_unit_for_the_next_boot_is_one_that_systemd_takes() {
    let host = Host::new("unit");
    let on = ::gpusetup::system::System::at(host.root());
    ::gpusetup::apply::boot::go_on_after(&on, "if-needed", &Default::default(), &[])
        .expect("written");
    assert_eq!(
        host.ask("systemctl is-enabled gpusetup-resume.service"),
        "enabled"
    );
    let ran = host
        .sh("systemd-analyze verify /etc/systemd/system/gpusetup-resume.service")
        .succeeds();
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
    ::gpusetup::apply::boot::forget(&on).expect("removed");
    let ignored: Vec<_> = CLONE
        .iter()
        .chain(&["run", "var/lib/gpusetup"])
        .copied()
        .collect();
    assert_eq!(differences(&bench().base, &host.root(), &ignored), [""; 0]);
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn user_data_is_what_cloud_init_takes() {
    let host = Host::new("cloud-init");
    host.ask("apt-get -qq update; apt-get -qq -y --no-install-recommends install cloud-init >&2");
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/cloud-init");
    let mut all: Vec<(String, String)> = fs::read_dir(deploy)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .map(|path| {
            (
                path.display().to_string(),
                fs::read_to_string(&path).expect("readable"),
            )
        })
        .collect();
    for reboot in ["if-needed", "external", "never"] {
        let sum = "0".repeat(64);
        let ask = [
            "plan",
            "--gpu",
            "h100",
            "--format",
            "cloud-init",
            "--accept-eula",
            "--reboot",
            reboot,
        ];
        all.push((reboot.to_owned(), gpusetup(ask).succeeds().out));
        let fetch = [
            "--binary-url",
            "https://example.org/gpusetup",
            "--binary-sha256",
            &sum,
        ];
        all.push((
            format!("{reboot}, fetched"),
            gpusetup(ask.into_iter().chain(fetch)).succeeds().out,
        ));
    }
    for (name, text) in &all {
        fs::write(host.path("/root/user-data"), text).expect("written");
        let ran = host.sh("cloud-init schema -c /root/user-data").succeeds();
        assert!(ran.out.contains("Valid"), "{name}: {} {}", ran.out, ran.err);
    }
    println!("  cloud-init takes {} user-data", all.len());
    fs::write(host.path("/root/user-data"), "#cloud-config\nruncmd: 5\n").expect("written");
    host.sh("cloud-init schema -c /root/user-data").exits(1);
}

/// Applies without a question.
fn apply(host: &Host, request: &[&str]) -> host::Ran {
    let mut arguments = vec!["apply", "--yes", "--accept-eula"];
    arguments.extend(request);
    host.gpusetup(&arguments)
}

fn facts(host: &Host) {
    let facts = gpusetup(["facts", "--json", "--root", text(&host.root())])
        .succeeds()
        .json();
    let kernel = host.kernel();
    assert_eq!(facts["schema"], "gpusetup.facts/1");
    assert_eq!(facts["gpus"].as_array().map(Vec::len), Some(1));
    assert_eq!(facts["gpus"][0]["address"], "0000:17:00.0");
    assert_eq!(facts["gpus"][0]["pci_id"], "10de:20b0");
    assert_eq!(facts["gpus"][0]["bound_to"], "nouveau");
    assert_eq!(facts["os"]["id"], "debian");
    assert_eq!(facts["os"]["version"], "12");
    assert_eq!(facts["kernels"]["next_boot"], kernel);
    assert_eq!(facts["kernels"]["installed"][0]["headers"], false);
    assert_eq!(facts["driver"], Value::Null);
    assert_eq!(facts["toolkits"], serde_json::json!([]));
}

fn offers(host: &Host) {
    let facts = || {
        gpusetup(["facts", "--json", "--root", text(&host.root())])
            .succeeds()
            .json()
    };
    assert_eq!(
        facts()["offered"],
        Value::Null,
        "its lists were never fetched"
    );
    host.ask("apt-get -qq update");
    let facts = facts();
    // What apt itself would install.
    for package in ["nvidia-kernel-dkms", "nvidia-modprobe", "nvidia-smi"] {
        let simulated = host.ask(&format!(
            "apt-get install -s --no-install-recommends {package}"
        ));
        let version = facts["offered"][package].as_str().expect("offered");
        assert!(
            simulated.contains(&format!("Inst {package} ({version} ")),
            "{package} {version}: {simulated}"
        );
    }
}

fn plan(host: &Host) {
    let mut arguments = vec!["plan", "--json"];
    arguments.extend(STACK);
    let plan = host.gpusetup(&arguments).succeeds().json();
    let selection = &plan["selection"];
    let version = selection["driver"]["version"].as_str().expect("a driver");
    assert!(version.starts_with("535."), "{version}");
    assert_eq!(selection["driver"]["modules"], "proprietary");
    assert_eq!(selection["driver"]["method"], "packages");
    assert_eq!(selection["cuda"]["version"], "12.4.1");
    assert_eq!(selection["cudnn"]["version"], "9.10.2.21");

    let steps = plan["steps"].as_array().expect("steps");
    let ids: Vec<_> = steps
        .iter()
        .filter_map(|step| step["id"].as_str())
        .filter(|id| *id != "reboot")
        .collect();
    assert_eq!(ids, STEPS);
    for step in steps {
        assert_eq!(step["state"], "needed", "{}", step["id"]);
        assert_ne!(step["why"], "", "{}", step["id"]);
    }
    let downloads = bench().size(OLD_RUNFILE) + bench().size(CUDNN_12);
    assert!(plan["totals"]["download_bytes"].as_u64().expect("bytes") >= downloads);
    assert_eq!(bench().requests(), [""; 0]);

    let mut arguments = vec!["plan", "--format", "sh"];
    arguments.extend(STACK);
    let script = tempfile::NamedTempFile::new().expect("a temporary file");
    fs::write(script.path(), host.gpusetup(&arguments).succeeds().out).expect("it can be written");
    machine("shellcheck", &["--shell=sh", text(script.path())]).succeeds();

    assert_eq!(
        differences(&bench().base, &host.root(), CLONE),
        [""; 0],
        "a plan changes nothing"
    );
}

/// The compiler compiles, and what it made runs and finds its runtime.
fn toolkit_works(host: &Host, series: &str, runtime: u32) {
    let program = r#"
#include <cstdio>
#include <cuda_runtime.h>
__global__ void increment(int *values) { values[threadIdx.x]++; }
int main() {
    int version = 0;
    cudaRuntimeGetVersion(&version);
    increment<<<1, 1>>>(nullptr);
    printf("%d\n", version);
}
"#;
    fs::write(host.path("/root/increment.cu"), program).expect("the host takes a file");
    // A login shell, so that it is the profile that finds nvcc.
    host.ask(
        "env -i HOME=/root bash -lc 'cd && nvcc -arch=sm_80 -c increment.cu && nvcc -arch=sm_80 -ptx increment.cu'",
    );
    assert!(
        fs::read_to_string(host.path("/root/increment.ptx"))
            .expect("nvcc made it")
            .contains(".target sm_80")
    );
    host.ask("env -i HOME=/root bash -lc 'cd && nvcc -arch=sm_80 --cudart shared --cudadevrt none -o increment increment.cu'");
    // No LD_LIBRARY_PATH: it is the loader's cache that finds the runtime.
    assert_eq!(host.ask("/root/increment"), runtime.to_string());
    assert!(
        host.ask("/usr/local/cuda/bin/nvcc --version")
            .contains(&format!("release {series},"))
    );
    let log = host.ask("cat /var/log/cuda-installer.log 2>/dev/null || true");
    assert!(!log.contains("driver"), "the runfile's driver was left out");
    host.ask("rm /root/increment*");
}

/// NVIDIA's assembler makes code of the kernel that doctor hands to drivers, for every GPU that it
/// knows, these among them.
fn doctors_kernel_is_ptx(host: &Host, among: &[&str]) {
    fs::write(host.path("/root/kernel.ptx"), gpusetup::nvidia::KERNEL)
        .expect("the host takes a file");
    let known = host.ask("/usr/local/cuda/bin/nvcc --list-gpu-code");
    assert!(
        among.iter().all(|gpu| known.lines().any(|l| l == *gpu)),
        "{known}"
    );
    let each = "for gpu in $(/usr/local/cuda/bin/nvcc --list-gpu-code); do \
                /usr/local/cuda/bin/ptxas -arch $gpu -o kernel.cubin kernel.ptx && test -s kernel.cubin || exit 1; done";
    assert_eq!(
        host.ask(&format!("cd /root && {each}; rm kernel.ptx kernel.cubin")),
        ""
    );
}

fn cudnn_answers(host: &Host, version: u32) {
    let program = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    void *library = dlopen("libcudnn.so.9", RTLD_NOW);
    size_t (*version)(void) = library ? (size_t (*)(void))dlsym(library, "cudnnGetVersion") : NULL;
    if (!version) return puts(dlerror()), 1;
    printf("%zu\n", version());
}
"#;
    fs::write(host.path("/root/cudnn.c"), program).expect("the host takes a file");
    assert_eq!(
        host.ask("cd /root && gcc -o cudnn cudnn.c && ./cudnn && rm cudnn cudnn.c"),
        version.to_string()
    );
    let header = format!("#define CUDNN_MAJOR {}", version / 10000);
    assert!(
        host.ask("cat /usr/local/cuda/include/cudnn_version.h")
            .contains(&header)
    );
}

/// `modprobe nvidia` would load a module of this version into the kernel that boots next. Debian's
/// module has another name, nvidia-current, and modprobe's configuration says so.
fn driver_is_there(host: &Host, version: &str) {
    let kernel = host.kernel();
    let module = host.ask(&format!(
        "modprobe --set-version {kernel} --show-depends nvidia"
    ));
    let module = if module.contains("nvidia-current") {
        "nvidia-current"
    } else {
        "nvidia"
    };
    let found = host.ask(&format!(
        "modinfo --set-version {kernel} --field version {module}"
    ));
    assert!(found.starts_with(version), "{found}");
    assert!(host.ask("ldconfig -p").contains("libcuda.so.1"));
    assert!(
        host.ask(&format!("dkms status -k {kernel}"))
            .contains("installed")
    );
}

fn nouveau_is_away(host: &Host) {
    let blacklist = "etc/modprobe.d/gpusetup-nouveau.conf";
    assert!(host.path(blacklist).is_file());
    for image in host.ask("ls /boot/initrd.img-*").lines() {
        let files = host.ask(&format!("lsinitramfs {image}"));
        assert!(!files.contains("nouveau.ko"), "{image}");
        assert!(files.contains(blacklist), "{image} was not rebuilt");
    }
}

/// Everybody may read, root alone may write, nobody else owns; no link leads nowhere.
fn belongs_to_root(host: &Host, toolkit: &str) {
    assert_eq!(
        host.ask(&format!(
            "find {toolkit} ! -type l \\( ! -perm -o+r -o -perm /022 -o ! -user root \\)"
        )),
        ""
    );
    assert_eq!(
        host.ask(&format!("find {toolkit} -type d ! -perm -o+x -o -xtype l")),
        ""
    );
}

fn files_are_sound(host: &Host, series: &str) {
    let ran = host.sh("ldconfig -v").succeeds();
    assert!(!(ran.out + &ran.err).contains("is not a symbolic link"));
    let link = fs::read_link(host.path("/usr/local/cuda")).expect("the default toolkit");
    assert!(
        text(&link).ends_with(&format!("cuda-{series}")),
        "{}",
        link.display()
    );
    let toolkit = format!("/usr/local/cuda-{series}");
    belongs_to_root(host, &toolkit);
    let lib = host.path(&format!("{toolkit}/lib64"));
    let mut chains = 0;
    for name in host
        .ask(&format!(
            "cd {toolkit}/lib64 && ls | grep '^libcudnn.*\\.so$'"
        ))
        .lines()
    {
        let major = fs::read_link(lib.join(name)).expect("a link");
        assert_eq!(text(&major), format!("{name}.9"));
        let real = fs::read_link(lib.join(&major)).expect("a link");
        assert!(
            text(&real).starts_with(&format!("{name}.9.")),
            "{}",
            real.display()
        );
        assert!(
            lib.join(&real)
                .symlink_metadata()
                .expect("it is there")
                .is_file()
        );
        chains += 1;
    }
    assert!(chains >= 8, "{chains} libraries of cuDNN");
    for file in [
        "/etc/ld.so.conf.d/gpusetup-cuda.conf",
        "/etc/profile.d/gpusetup-cuda.sh",
    ] {
        assert_eq!(host.ask(&format!("stat -c '%a %U' {file}")), "644 root");
    }
    assert_eq!(host.ask("stat -c '%a %U' /var/lib/gpusetup"), "700 root");
}

fn apply_again(host: &Host, request: &[&str]) {
    bench().requests();
    let again = host.clone_as("again");
    let status = || again.gpusetup(&["status", "--json"]).succeeds().json();
    let (first, plan) = (status(), again.path("/var/lib/gpusetup/plan.json"));
    assert_eq!(schema::mistakes("result.json", &first), [""; 0]);
    assert_eq!(
        (&first["state"], &first["exit_code"]),
        (&Value::from("done"), &Value::from(0))
    );
    let plan: Value =
        serde_json::from_str(&fs::read_to_string(plan).expect("it is kept")).expect("JSON");
    assert_eq!(
        (schema::mistakes("plan.json", &plan), &plan["fingerprint"]),
        (Vec::new(), &first["fingerprint"])
    );
    apply(&again, request).succeeds();
    assert_eq!(status()["state"], "done");
    assert_eq!(
        bench().requests(),
        [""; 0],
        "a second apply downloads nothing"
    );
    let ignored = [CLONE, &["run", "var/lib/gpusetup", "var/log"]].concat();
    assert_eq!(differences(&host.root(), &again.root(), &ignored), [""; 0]);
}

/// The checks that warn of the age of Debian's driver and a toolkit of an older line.
const OLD: [&str; 2] = ["GS510", "GS513"];

/// What doctor has to say, apart from what passed or did not apply, and from old versions.
fn findings(host: &Host) -> (Value, Vec<(String, String)>) {
    let report = host.gpusetup(&["doctor", "--json"]).json();
    assert_eq!(schema::mistakes("doctor.json", &report), [""; 0]);
    let checks = report["checks"].as_array().expect("checks").clone();
    let field = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let findings = checks
        .iter()
        .map(|check| (field(check, "id"), field(check, "status")));
    let findings = findings
        .filter(|(id, status)| status != "pass" && status != "skip" && !OLD.contains(&id.as_str()))
        .collect();
    (report, findings)
}

fn is_healthy(host: &Host) {
    let (report, findings) = findings(host);
    assert!(findings.is_empty(), "{report:#}");
    host.gpusetup(&["doctor"]).succeeds();
    let others = CHECKS
        .iter()
        .map(|check| check.id.as_str())
        .filter(|id| !OLD.contains(id));
    host.gpusetup(
        &["doctor", "--strict"]
            .into_iter()
            .chain(others)
            .collect::<Vec<_>>(),
    )
    .succeeds();
}

fn broken_hosts(host: &Host) {
    for Breakage {
        what,
        check,
        script,
        fix,
    } in BREAKAGES
    {
        let broken = host.clone_as("broken");
        broken.ask(script);
        let (report, sick) = findings(&broken);
        assert!(
            sick.iter().any(|(id, _)| id == check),
            "{what}: no {check} in {report:#}"
        );
        timed(what, || repair(&broken, fix, &sick));
    }
}

/// `doctor --fix` on a clone of the broken host, and its way back.
fn repair(broken: &Host, fix: &Fix, sick: &[(String, String)]) {
    let host = broken.clone_as("repaired");
    let same = || {
        let ignored = [RECORDS, AFTER_ROLLBACK, &["etc/apt"]].concat();
        assert_eq!(differences(&broken.root(), &host.root(), &ignored), [""; 0]);
        assert_eq!(findings(&host).1, sick);
    };
    let shown = host.gpusetup(&["doctor", "--fix", "--dry-run"]).out;
    same();
    if *fix == Leaves {
        host.gpusetup(&["doctor", "--fix", "--yes"]).exits(20);
        return same();
    }
    assert!(shown.contains("repair"), "{shown}");
    host.gpusetup(&["doctor", "--fix", "--yes"]).succeeds();
    is_healthy(&host);
    host.gpusetup(&["rollback", "--yes"]).succeeds();
    match fix {
        Repairs => same(),
        _ => is_healthy(&host),
    }
}

/// Plymouth, as on every desktop, puts all graphics modules into the initramfs, nouveau too. There
/// the blacklist in the image is what counts: what udev does with the GPU's modalias finds no
/// nouveau, and doctor has nothing to complain about.
fn splash_screen(host: &Host) {
    let host = host.clone_as("splash");
    // Its initramfs is for every machine, too.
    host.ask(
        "sed -i 's/^MODULES=list$/MODULES=most/' /etc/initramfs-tools/initramfs.conf
         apt-get -qq update && apt-get -qq install --no-install-recommends plymouth",
    );
    let kernel = host.kernel();
    let chosen = host.ask(&format!(
        "unmkinitramfs /boot/initrd.img-{kernel} /root/image; cd /root/image; [ ! -d main ] || cd main
         ls usr/lib/modules/*/kernel/drivers/gpu/drm/nouveau
         modprobe --dirname . --config etc/modprobe.d --set-version {kernel} --use-blacklist --show-depends \
             \"$(cat /sys/bus/pci/devices/*/modalias)\" 2>&1 || true"
    ));
    assert!(
        chosen.starts_with("nouveau.ko"),
        "nouveau is in the image: {chosen}"
    );
    assert_eq!(
        chosen
            .lines()
            .filter(|line| line.contains("insmod"))
            .count(),
        0,
        "{chosen}"
    );
    is_healthy(&host);
}

fn rollback(host: &Host) {
    host.gpusetup(&["rollback", "--yes"]).succeeds();
    assert_eq!(
        differences(
            &bench().base,
            &host.root(),
            &[RECORDS, AFTER_ROLLBACK].concat()
        ),
        [""; 0]
    );
    let list = format!("lsinitramfs /boot/initrd.img-{}", host.kernel());
    assert_eq!(host.ask(&list), Host::new("before").ask(&list));
}

/// Months later, by the journal: what others did since stays, and what they changed is named.
fn uninstall(host: &Host) {
    let host = host.clone_as("uninstalled");
    host.ask("apt-get -qq update; apt-get -qq -y --no-install-recommends install hello >&2");
    host.ask("echo '# mine' >>/etc/profile.d/gpusetup-cuda.sh");
    let shown = host.gpusetup(&["uninstall", "--dry-run"]).succeeds().out;
    assert!(shown.contains("/usr/local/cuda-13.4"), "{shown}");
    let ran = host.gpusetup(&["uninstall", "--yes"]).succeeds();
    assert!(
        ran.err.contains("/etc/profile.d/gpusetup-cuda.sh"),
        "{}",
        ran.err
    );
    assert_eq!(host.ask("hello"), "Hello, world!");
    host.ask("tail -n 1 /etc/profile.d/gpusetup-cuda.sh | grep mine");
    assert_eq!(host.ask("ls -A /usr/local | grep cuda || true"), "");
    assert_eq!(
        host.ask("ldconfig -p | grep -e libcudnn -e libcudart || true"),
        ""
    );
    assert!(
        host.gpusetup(&["uninstall", "--yes"])
            .succeeds()
            .out
            .contains("Nothing to remove")
    );
}

/// Driver, toolkit and cuDNN, as if others had installed them: shown, removed, and asked of the
/// host.
fn uninstall_all(host: &Host) {
    let host = host.clone_as("uninstalled");
    let shown = host
        .gpusetup(&["uninstall", "--all", "--dry-run", "-v"])
        .succeeds()
        .out;
    for what in [
        "/usr/local/cuda-12.4/bin/cuda-uninstaller",
        "nvidia-smi",
        "gpusetup-nouveau.conf",
    ] {
        assert!(shown.contains(what), "{what}: {shown}");
    }
    host.gpusetup(&["uninstall", "--all", "--yes"]).succeeds();
    assert_eq!(host.ask("ls -A /usr/local | grep cuda || true"), "");
    assert_eq!(
        host.ask("find /lib/modules -path '*/updates/*' -name 'nvidia*.ko*'"),
        ""
    );
    assert_eq!(
        host.ask("ldconfig -p | grep -e libcuda -e libcudnn -e libnvidia || true"),
        ""
    );
    assert_eq!(
        host.ask("find /etc/modprobe.d /etc/ld.so.conf.d /etc/profile.d -name 'gpusetup*'"),
        ""
    );
    let image = host.ask(&format!("lsinitramfs /boot/initrd.img-{}", host.kernel()));
    assert!(
        !image.contains("gpusetup-nouveau.conf"),
        "the image still keeps nouveau away"
    );
    assert!(
        host.gpusetup(&["uninstall", "--all", "--yes"])
            .succeeds()
            .out
            .contains("Nothing to remove")
    );
}

/// A copy of a database in which the sum of one artifact is another's.
fn other_sum(from: &Path, to: &Path, artifact: &str) {
    machine("cp", &["-r", &format!("{}/.", from.display()), text(to)]).succeeds();
    let manifest = machine("grep", &["-rl", artifact, text(to)]).succeeds().out;
    let manifest = Path::new(manifest.trim());
    let yaml = fs::read_to_string(manifest).expect("it was found");
    let lines =
        yaml.lines().map(
            |line| match (line.contains(artifact), line.split_once("sha256: \"")) {
                (true, Some((before, after))) => {
                    format!("{before}sha256: \"{}{}", "0".repeat(64), &after[64..])
                }
                _ => line.to_owned(),
            },
        );
    fs::write(manifest, lines.collect::<Vec<_>>().join("\n")).expect("it can be written");
}
