//! Plans with Secure Boot on: Ubuntu's signed modules, the key where there are none, and what is
//! said if its state is not known.

use crate::common::{Ran, Tree, program, run, run_with_input};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// The operations of a step.
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

/// The packages that a plan installs the driver from.
fn installed(plan: &Value) -> Value {
    let acts = operations(plan, "install-driver");
    acts.iter()
        .find(|act| act["op"] == "packages")
        .unwrap_or_else(|| panic!("no packages: {plan}"))["install"]
        .clone()
}

/// The texts of a plan's warnings about Secure Boot.
fn warnings(plan: &Value) -> Vec<&str> {
    let warnings = plan["warnings"]
        .as_array()
        .expect("warnings")
        .iter()
        .filter(|w| w["check"] == "GS301");
    warnings
        .map(|w| w["text"].as_str().expect("a text"))
        .collect()
}

fn plan(facts: &Value, more: &[&str]) -> Value {
    let asked = ["plan", "--facts", "-", "--profile", "driver", "--json"];
    run_with_input(&[&asked, more].concat(), &facts.to_string()).json()
}

/// An Ubuntu host with Secure Boot on, and a version of the package with signed modules for its
/// kernel, 6.8.0-134-generic.
fn with_ubuntus_modules(modules: &[(&str, &str)]) -> Value {
    let mut facts = run(&[
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "a100",
        "--profile",
        "driver",
        "--json",
    ])
    .json()["host"]
        .take();
    let names = [
        "nvidia-headless-",
        "nvidia-headless-no-dkms-",
        "nvidia-driver-",
    ]
    .map(|name| format!("{name}580-server-open"));
    let version = "580.173.02-0ubuntu0.24.04.1";
    facts["secure_boot"] = json!("enabled");
    facts["firmware"] = json!({"shim": true, "trusted": [], "requested": []});
    facts["offered"] = json!({"nvidia-utils-580-server": version, "linux-headers-6.8.0-134-generic": "6.8.0-134.134"});
    names
        .iter()
        .for_each(|name| facts["offered"][name] = json!(version));
    modules
        .iter()
        .for_each(|(name, version)| facts["offered"][name] = json!(version));
    facts
}

#[test]
fn with_secure_boot_ubuntu_has_its_own_signed_modules() {
    let packaged = |facts: &Value| plan(facts, &["--method", "packages"]);
    let (follows, of_series) = (
        "linux-modules-nvidia-580-server-open-generic",
        "linux-modules-nvidia-580-server-open-generic-6.8",
    );
    let mut desktop = with_ubuntus_modules(&[(follows, "6.8.0-134.134")]);
    desktop["desktop"] = json!("/usr/bin/Xorg");
    let headless = [
        "nvidia-headless-no-dkms-580-server-open",
        "nvidia-utils-580-server",
    ];
    for (facts, wanted, modules) in [
        (
            with_ubuntus_modules(&[(follows, "6.8.0-134.134+1")]),
            &headless[..],
            follows,
        ),
        (
            with_ubuntus_modules(&[(follows, "6.8.0-136.136"), (of_series, "6.8.0-134.134")]),
            &headless[..],
            of_series,
        ),
        (desktop, &["nvidia-driver-580-server-open"], follows),
    ] {
        let plan = packaged(&facts);
        assert_eq!(installed(&plan), json!([wanted, &[modules]].concat()));
        let all = plan["steps"].to_string();
        assert!(
            !all.contains("enroll-key") && !all.contains("dkms\""),
            "nothing is built or signed: {all}"
        );
        assert!(
            plan["reasons"]
                .to_string()
                .contains("has signed modules for kernel 6.8.0-134-generic"),
            "{plan}"
        );
        assert_eq!(warnings(&plan), [""; 0]);
    }
    // Otherwise DKMS signs with the host's key, and the warning says why.
    let mut untold = with_ubuntus_modules(&[]);
    untold["offered"] = Value::Null;
    let mut lagging = with_ubuntus_modules(&[(follows, "6.8.0-134.134")]);
    lagging["signed_drivers"] = json!({ follows: "580.142" });
    let newer = with_ubuntus_modules(&[(follows, "6.8.0-136.136")]);
    let said = [newer, with_ubuntus_modules(&[]), untold, lagging].map(|facts| {
        let plan = packaged(&facts);
        assert_eq!(operations(&plan, "sign-modules").len(), 2, "{plan}");
        warnings(&plan).join("\n")
    });
    insta::assert_snapshot!(said.join("\n"), @"
    Secure Boot is on, and the key /var/lib/shim-signed/mok/MOK.der is not enrolled: apply prepares that, shows a one-time password, and needs someone at the console during a reboot. Unattended, it stops before any change. linux-modules-nvidia-580-server-open-generic has signed modules, which need no key, but for kernel 6.8.0-136.136: upgrade the kernel from 6.8.0-134-generic and reboot, then plan again
    Secure Boot is on, and the key /var/lib/shim-signed/mok/MOK.der is not enrolled: apply prepares that, shows a one-time password, and needs someone at the console during a reboot. Unattended, it stops before any change. no signed modules of such a driver are known for kernel 6.8.0-134-generic of Ubuntu 24.04 LTS
    Secure Boot is on, and the key /var/lib/shim-signed/mok/MOK.der is not enrolled: apply prepares that, shows a one-time password, and needs someone at the console during a reboot. Unattended, it stops before any change. Ubuntu 24.04 LTS may have signed modules for kernel 6.8.0-134-generic, which need no key: fetch the package lists (sudo apt-get update), then plan again
    Secure Boot is on, and the key /var/lib/shim-signed/mok/MOK.der is not enrolled: apply prepares that, shows a one-time password, and needs someone at the console during a reboot. Unattended, it stops before any change. linux-modules-nvidia-580-server-open-generic has signed modules, but of driver 580.142, and the driver's other packages have version 580.173.02: plan again when both have one version
    ");
    // Without Secure Boot they save the compiler.
    let mut off = with_ubuntus_modules(&[(follows, "6.8.0-134.134")]);
    off["secure_boot"] = json!("disabled");
    let plan = packaged(&off);
    assert!(
        plan["steps"]
            .to_string()
            .contains("nvidia-headless-no-dkms-580-server-open"),
        "{plan}"
    );
    assert!(operations(&plan, "prerequisites").is_empty(), "{plan}");
}

#[test]
fn signed_modules_for_another_kernel_are_named_with_what_helps() {
    let package = "linux-modules-nvidia-580-server-open-generic";
    let (running, older) = ("6.8.0-134-generic", "6.8.0-130-generic");
    for (version, installed, running, says) in [
        (
            "6.8.0-136.136",
            None,
            running,
            "but for kernel 6.8.0-136.136: upgrade the kernel from 6.8.0-134-generic",
        ),
        (
            "6.8.0-130.130",
            None,
            running,
            "6.8.0-134-generic is newer: fetch the package lists (sudo apt-get update), then",
        ),
        (
            "6.8.0-99.99",
            None,
            running,
            "6.8.0-134-generic is newer: fetch the package lists",
        ),
        (
            "6.8.0-130.130",
            Some(older),
            running,
            "or remove 6.8.0-134-generic and boot 6.8.0-130-generic",
        ),
        (
            "6.8.0-130.130",
            Some("6.8.0-130-lowlatency"),
            running,
            "(sudo apt-get update), then plan again",
        ),
        (
            "6.8.0-136.136",
            None,
            "6.8.0-136-generic",
            "6.8.0-134-generic boots next: have the boot loader start 6.8.0-136-generic",
        ),
    ] {
        let mut facts = with_ubuntus_modules(&[(package, version)]);
        if let Some(release) = installed {
            let mut kernel = facts["kernels"]["installed"][0].clone();
            kernel["release"] = json!(release);
            facts["kernels"]["installed"]
                .as_array_mut()
                .expect("a list")
                .insert(0, kernel);
        }
        facts["kernels"]["running"] = json!(running);
        let plan = plan(&facts, &["--method", "packages"]);
        let text = warnings(&plan)[0];
        assert!(
            text.contains(says) && text.contains(package),
            "{version}: {text}"
        );
        assert_eq!(
            text.contains("and boot"),
            installed == Some(older),
            "{text}"
        );
    }
}

#[test]
fn a_requested_version_is_why_other_signed_modules_are_not_used() {
    let facts = with_ubuntus_modules(&[(
        "linux-modules-nvidia-580-server-open-generic",
        "6.8.0-134.134",
    )]);
    let plan = plan(&facts, &["--driver", "580.178.04"]);
    let [text] = warnings(&plan)[..] else {
        panic!("{plan}")
    };
    insta::assert_snapshot!(text, @"Secure Boot is on, and the key /var/lib/shim-signed/mok/MOK.der is not enrolled: apply prepares that, shows a one-time password, and needs someone at the console during a reboot. Unattended, it stops before any change. linux-modules-nvidia-580-server-open-generic has signed modules, but of driver 580.173.02, and --driver 580.178.04 was requested");
}

#[test]
fn a_desktop_prefers_packages_that_are_not_for_servers() {
    let [server, other] =
        ["server-open", "open"].map(|name| format!("linux-modules-nvidia-580-{name}-generic"));
    let mut facts = with_ubuntus_modules(&[(&server, "6.8.0-134.134"), (&other, "6.8.0-134.134")]);
    for name in [
        "nvidia-driver-580-open",
        "nvidia-headless-580-open",
        "nvidia-headless-no-dkms-580-open",
        "nvidia-utils-580",
    ] {
        facts["offered"][name] = json!("580.173.02-0ubuntu0.24.04.1");
    }
    for (state, desktop, wanted) in [
        (
            "enabled",
            json!("/usr/bin/Xorg"),
            json!(["nvidia-driver-580-open", other]),
        ),
        (
            "disabled",
            json!("/usr/bin/Xorg"),
            json!(["nvidia-driver-580-open", other]),
        ),
        (
            "enabled",
            Value::Null,
            json!([
                "nvidia-headless-no-dkms-580-server-open",
                "nvidia-utils-580-server",
                server
            ]),
        ),
        (
            "disabled",
            Value::Null,
            json!([
                "nvidia-headless-no-dkms-580-server-open",
                "nvidia-utils-580-server",
                server
            ]),
        ),
    ] {
        facts["secure_boot"] = json!(state);
        facts["desktop"] = desktop;
        assert_eq!(
            installed(&plan(&facts, &["--method", "packages"])),
            wanted,
            "Secure Boot is {state}"
        );
    }
}

#[test]
fn kernels_of_the_oem_line_have_signed_modules() {
    let modules = "linux-modules-nvidia-580-server-open-oem-24.04c";
    let facts = with_ubuntus_modules(&[(modules, "6.14.0-1018.18")]).to_string();
    let facts = serde_json::from_str(&facts.replace("6.8.0-134-generic", "6.14.0-1018-oem"))
        .expect("facts");
    assert_eq!(installed(&plan(&facts, &[]))[2], modules);
}

#[test]
fn without_shim_a_refusal_names_signed_modules_first() {
    let mut facts = with_ubuntus_modules(&[(
        "linux-modules-nvidia-580-server-open-generic",
        "6.8.0-136.136",
    )]);
    facts["firmware"]["shim"] = json!(false);
    let refused = run_with_input(
        &["plan", "--facts", "-", "--profile", "driver"],
        &facts.to_string(),
    );
    insta::assert_snapshot!(refused.refusal(5), @"
    error: Secure Boot is on, and the host was started without shim, so its keys cannot be enrolled with mokutil (GS301)
    hint: linux-modules-nvidia-580-server-open-generic has signed modules, which need no key, but for kernel 6.8.0-136.136: upgrade the kernel from 6.8.0-134-generic and reboot, then plan again
    hint: add the certificate of your key to db in the firmware's setup (or to the image, in a cloud), or turn Secure Boot off there
    ");
}

#[test]
fn lists_show_which_driver_signed_modules_are_for() {
    let tree = Tree::ubuntu_24_04();
    tree.write(
        "var/lib/dpkg/status",
        "Package: dpkg\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.22\n",
    );
    tree.write(
        "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
        "\u{6}\0\0\0\u{1}",
    );
    let modules = "linux-modules-nvidia-580-open-generic";
    let planned = |driver: &str| {
        let package = |name: &str, version: &str, depends: &str| {
            format!(
                "Package: {name}\nArchitecture: amd64\nVersion: {version}\nDepends: {depends}\n\n"
            )
        };
        let of_driver = ["nvidia-headless-no-dkms-580-open", "nvidia-utils-580"];
        let mut list: String = of_driver
            .map(|name| package(name, "580.159.03-0ubuntu1", "libc6"))
            .concat();
        list += &package(
            modules,
            "6.8.0-64.67",
            &format!("nvidia-kernel-common-580 (>= {driver})"),
        );
        tree.write(
            "var/lib/apt/lists/archive_ubuntu_dists_noble_restricted_binary-amd64_Packages",
            &list,
        );
        tree.run(&["plan", "--gpu", "a100", "--profile", "driver", "--json"])
    };
    let fits = planned("580.159.03").json();
    assert_eq!(installed(&fits)[2], modules);
    assert_eq!(fits["host"]["signed_drivers"][modules], "580.159.03");
    let refused = planned("580.142");
    insta::assert_snapshot!(tree.typed_in_it(refused.refusal(5)), @"
    error: Secure Boot is on, and the host was started without shim, so its keys cannot be enrolled with mokutil (GS301)
    hint: linux-modules-nvidia-580-open-generic has signed modules, but of driver 580.142, and the driver's other packages have version 580.159.03: plan again when both have one version
    hint: add the certificate of your key to db in the firmware's setup (or to the image, in a cloud), or turn Secure Boot off there
    ");
}

#[test]
fn a_refusal_names_commands_that_the_release_has() {
    let firmware = json!({"shim": true, "trusted": [], "requested": []});
    for (os, firmware, says) in [
        (
            "ubuntu-18.04",
            &firmware,
            "sudo update-secureboot-policy --new-key && sudo mokutil --import /var/lib/shim-signed/mok/MOK.der",
        ),
        (
            "ubuntu-24.04",
            &Value::Null,
            "-out /var/lib/shim-signed/mok/MOK.der && sudo mokutil --import",
        ),
        (
            "debian-12",
            &Value::Null,
            "-keyout /var/lib/dkms/mok.key -out /var/lib/dkms/mok.pub",
        ),
        (
            "debian-11",
            &firmware,
            "sudo apt-get install dkms mokutil openssl && sudo openssl req",
        ),
        (
            "debian-11",
            &Value::Null,
            "sudo sed -i '/^sign_tool=/d' /etc/dkms/framework.conf && echo 'sign_tool=",
        ),
        (
            "ol-8",
            &firmware,
            "-out /var/lib/dkms/mok.pub && sudo mokutil --import /var/lib/dkms/mok.pub",
        ),
        (
            "azure-linux-3",
            &firmware,
            "if `dkms --version` is 3.0.4 or newer (older ones do not sign), make the key",
        ),
        (
            "sles-15",
            &firmware,
            "nvidia-open-driver-G07-signed-cuda-kmp-default): fetch the package lists (sudo zypper",
        ),
        (
            "opensuse-leap-15",
            &firmware,
            "nvidia-open-driver-G07-signed-cuda-kmp-default): fetch the package lists",
        ),
    ] {
        let planned = run(&[
            "plan",
            "--os",
            os,
            "--gpu",
            "rtx a6000",
            "--profile",
            "driver",
            "--json",
        ]);
        let mut facts = planned.json()["host"].take();
        (facts["secure_boot"], facts["firmware"]) = (json!("enabled"), firmware.clone());
        let refused = run_with_input(
            &["plan", "--facts", "-", "--profile", "driver"],
            &facts.to_string(),
        );
        assert_eq!(refused.code, 5, "{os}: {}", refused.err);
        assert!(
            refused.err.contains(says) && !refused.err.contains("generate_mok"),
            "{os}: {}",
            refused.err
        );
    }
}

#[test]
fn no_key_helps_where_only_the_vendors_modules_load() {
    let new = run(&[
        "plan",
        "--os",
        "amzn-2023",
        "--gpu",
        "a100",
        "--profile",
        "driver",
        "--json",
    ]);
    let mut facts = new.json()["host"].take();
    facts["secure_boot"] = json!("enabled");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let [key, certificate] = pair(dir.path());
    let of_firmware = |shim: bool| json!({"shim": shim, "trusted": [], "requested": []});
    let without_key: &[&str] = &[];
    let with_key: &[&str] = &["--mok-key", &key, "--mok-cert", &certificate];
    for (firmware, named) in [
        (of_firmware(true), without_key),
        (of_firmware(false), without_key),
        (Value::Null, without_key),
        (of_firmware(true), with_key),
    ] {
        facts["firmware"] = firmware;
        let asked = ["plan", "--facts", "-", "--profile", "driver"];
        let refused = run_with_input(&[&asked[..], named].concat(), &facts.to_string());
        insta::allow_duplicates! {
            insta::assert_snapshot!(refused.refusal(5), @"
            error: Secure Boot is on, and Amazon Linux 2023 then loads only modules that Amazon signed: the driver's modules would not load (GS301)
            hint: use an instance whose AMI has Secure Boot off, as Amazon's standard ones do
            ");
        }
    }
}

#[test]
fn if_the_state_is_not_known_a_plan_with_unsigned_modules_says_so() {
    let mut facts = with_ubuntus_modules(&[]);
    facts["secure_boot"] = json!("unknown");
    facts["firmware"] = Value::Null;
    let unknown = plan(&facts, &[]);
    let [text] = warnings(&unknown)[..] else {
        panic!("{unknown}")
    };
    insta::assert_snapshot!(text, @"whether Secure Boot is on is not known. Where it is, the kernel does not load the driver's modules, because no key that it trusts signs them: read its state first (mokutil --sb-state)");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let [key, certificate] = pair(dir.path());
    let with_key = plan(&facts, &["--mok-key", &key, "--mok-cert", &certificate]);
    assert!(
        operations(&with_key, "sign-modules").is_empty(),
        "{with_key}"
    );
    assert_eq!(
        warnings(&with_key),
        [format!(
            "{text}. Until it is known, --mok-key and --mok-cert have no effect"
        )]
    );
    facts["machine"]["is_tree"] = json!(true);
    let tree = plan(&facts, &[]);
    let [text] = warnings(&tree)[..] else {
        panic!("{tree}")
    };
    insta::assert_snapshot!(text, @"a tree does not show whether Secure Boot will be on. Where it is, the kernel does not load the driver's modules, because no key that it trusts signs them: for such hosts, name a key that they have enrolled (--mok-key, --mok-cert)");
    // A toolkit alone has no modules, and a new installation has Secure Boot off.
    let toolkit = ["plan", "--facts", "-", "--profile", "toolkit", "--json"];
    assert_eq!(
        warnings(&run_with_input(&toolkit, &facts.to_string()).json()),
        [""; 0]
    );
    let new = run(&["plan", "--os", "ubuntu-24.04", "--gpu", "a100", "--json"]).json();
    assert_eq!(warnings(&new), [""; 0]);
}

/// A key and its certificate in a folder.
fn pair(folder: &Path) -> [String; 2] {
    let [key, certificate] = ["k.key", "k.der"].map(|name| folder.join(name).display().to_string());
    let made = Command::new("openssl")
        .args([
            "req", "-new", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=ours",
            "-outform", "DER",
        ])
        .args(["-keyout", &key, "-out", &certificate])
        .output()
        .expect("openssl is there");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    [key, certificate]
}

#[test]
fn a_tree_with_a_relative_path_has_its_key() {
    let tree = Tree::ubuntu_24_04();
    tree.write("keys/made.txt", "");
    pair(&tree.path().join("keys"));
    let (folder, name) = (
        tree.path().parent().expect("a folder"),
        tree.path().file_name().expect("a name"),
    );
    let plan = [
        "plan",
        "--gpu",
        "a100",
        "--profile",
        "driver",
        "--mok-key",
        "/keys/k.key",
        "--mok-cert",
        "/keys/k.der",
    ];
    let planned = program()
        .args(plan)
        .args(["--json", "--root"])
        .arg(name)
        .current_dir(folder)
        .output();
    let plan = Ran::of(planned.expect("gpusetup runs")).json();
    assert!(!operations(&plan, "sign-modules").is_empty(), "{plan}");
}

#[test]
fn a_key_of_the_users_is_for_releases_whose_dkms_signs_with_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let [key, certificate] = pair(dir.path());
    let planned = |os: &str| {
        let new = run(&[
            "plan",
            "--os",
            os,
            "--gpu",
            "rtx a6000",
            "--profile",
            "driver",
            "--json",
        ]);
        let mut facts = new.json()["host"].take();
        facts["secure_boot"] = json!("enabled");
        facts["firmware"] = json!({"shim": true, "trusted": [], "requested": []});
        let asked = ["plan", "--facts", "-", "--profile", "driver", "--json"];
        let named = [
            "--mok-key",
            key.as_str(),
            "--mok-cert",
            certificate.as_str(),
        ];
        run_with_input(&[&asked[..], &named].concat(), &facts.to_string())
    };
    for os in ["rhel-8", "rocky-8", "almalinux-8", "rhel-9"] {
        let plan = planned(os);
        assert_eq!(plan.code, 0, "{os}: {}", plan.err);
        let acts = operations(&plan.json(), "sign-modules")
            .iter()
            .map(|act| act["op"].clone())
            .collect::<Vec<_>>();
        assert_eq!(acts, ["packages", "write-file", "enroll-key"], "{os}");
    }
    for os in ["azurelinux-3", "sles-15", "ol-8"] {
        let refused = planned(os);
        let named = format!(
            "mok_signing_key={key} mok_certificate={certificate} | sudo tee /etc/dkms/framework.conf.d"
        );
        assert!(
            refused.code == 5 && refused.err.contains("gpusetup does not know which DKMS "),
            "{os}: {}",
            refused.err
        );
        assert!(refused.err.contains(&named), "{os}: {}", refused.err);
        let modules = "(sudo zypper refresh), then plan again without --mok-key";
        assert_eq!(
            refused.err.contains(modules),
            os == "sles-15",
            "{os}: {}",
            refused.err
        );
    }
    let refused = ["ubuntu-20.04", "ubuntu-22.04"].map(|os| planned(os).refused(5).to_owned());
    insta::assert_snapshot!(refused.join("\n"), @"
    error: the DKMS of this release signs with no other key than its own (--mok-key) (GS301)
    error: the DKMS of this release signs with no other key than its own (--mok-key) (GS301)
    ");
}

#[test]
fn a_key_is_named_in_the_right_order_and_has_an_effect() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let [key, certificate] = pair(dir.path());
    let off = ["plan", "--os", "ubuntu-24.04", "--gpu", "a100", "--json"];
    let unused = run(&[&off[..], &["--mok-key", &key, "--mok-cert", &certificate]].concat()).json();
    insta::assert_snapshot!(warnings(&unused).join("\n"), @"Secure Boot is off, so no module is signed: --mok-key and --mok-cert have no effect");
    let exchanged = run(&[&off[..5], &["--mok-key", &certificate, "--mok-cert", &key]].concat());
    let right = format!(
        "try: gpusetup plan --os ubuntu-24.04 --gpu a100 --mok-key {key} --mok-cert {certificate}"
    );
    assert!(
        exchanged.code == 2 && exchanged.err.contains(&right),
        "{}",
        exchanged.err
    );
}
