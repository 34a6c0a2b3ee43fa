//! The database that ships: it loads, it holds together, it says of well-known hardware what is
//! known of it; and a database that is wrong is refused with the file, the line and the key.

use gpusetup::compat::{
    ComponentRelease, CudaArtifact, Database, Gpu, LoadError, ModuleFlavour, PackageManager,
    PciDevice, Role, check, load, parse,
};
use gpusetup::database::embedded;
use gpusetup::version::CudaVersion;
use std::path::Path;
use std::sync::LazyLock;

use ModuleFlavour::{Open, Proprietary};

static SHIPPED: LazyLock<Database> = LazyLock::new(|| {
    load(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("the shipped database loads")
});

fn gpu(id: &str) -> &'static Gpu {
    let device = u16::from_str_radix(id, 16).expect("hexadecimal");
    SHIPPED
        .gpu(PciDevice(device), None)
        .unwrap_or_else(|| panic!("10de:{id} is a GPU"))
}

fn capability(gpu: &Gpu) -> String {
    gpu.compute_capability
        .map(|c| c.to_string())
        .unwrap_or_default()
}

#[test]
fn the_shipped_database_is_sound_and_embedded_whole() {
    assert_eq!(check(&SHIPPED), []);
    assert_eq!(embedded(), *SHIPPED);
}

#[test]
fn it_holds_what_the_field_has() {
    assert!(SHIPPED.gpus.len() > 2500, "{}", SHIPPED.gpus.len());
    for capability in [
        "2.0", "3.5", "5.0", "6.0", "6.1", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.1",
    ] {
        let known = SHIPPED.architecture(capability.parse().expect("valid"));
        assert!(known.is_some(), "{capability}");
    }
    for branch in [340, 390, 470, 535, 550, 570, 580, 590, 595, 610, 615, 620] {
        assert!(SHIPPED.branch(branch).is_some(), "{branch}");
    }
    assert!(
        SHIPPED
            .driver_branches
            .is_sorted_by(|a, b| a.branch > b.branch)
    );
    assert!(SHIPPED.cuda.is_sorted_by(|a, b| a.version > b.version));
    assert!(SHIPPED.gpus.is_sorted_by_key(|g| (g.device, &g.subsystem)));
}

#[test]
fn pascal_and_volta_end_with_580_and_run_proprietary_modules_alone() {
    let p100 = gpu("15f9");
    assert!(p100.name.contains("P100"), "{}", p100.name);
    for (id, number) in [("15f9", "6.0"), ("1c02", "6.1"), ("1db1", "7.0")] {
        let gpu = gpu(id);
        assert_eq!(capability(gpu), number, "{}", gpu.name);
        assert_eq!(gpu.modules, [Proprietary], "{}", gpu.name);
        assert_eq!(
            gpu.last_driver_branch.as_deref(),
            Some("580"),
            "{}",
            gpu.name
        );
    }
}

#[test]
fn blackwell_and_grace_hopper_run_open_modules_alone() {
    let flavours = |id: &str| gpu(id).modules.clone();
    assert_eq!(flavours("2901"), [Open], "B200");
    assert_eq!(flavours("2b85"), [Open], "RTX 5090");
    assert_eq!(capability(gpu("2b85")), "12.0");
    assert_eq!(flavours("2342"), [Open], "GH200");
    for id in ["2330", "20b2", "1eb8"] {
        assert_eq!(flavours(id), [Open, Proprietary], "{id}");
        assert_eq!(gpu(id).last_driver_branch, None, "{id}");
    }
}

#[test]
fn drivers_with_signed_modules_differ_in_names_alone() {
    let known = SHIPPED
        .distribution("ubuntu", "24.04", &[])
        .expect("a distribution");
    let of = |first: &str| {
        known
            .drivers
            .iter()
            .find(|offer| offer.packages[0] == first)
            .expect("an offer")
    };
    let (built, signed) = (
        of("nvidia-headless-580-server-open"),
        of("nvidia-headless-no-dkms-580-server-open"),
    );
    assert_eq!(
        signed.signed_modules[1],
        "linux-modules-nvidia-580-server-open-{flavour}-{series}"
    );
    assert_eq!(signed.dkms.as_deref(), Some("nvidia-dkms-580-server-open"));
    assert_eq!(
        (&signed.packages[1..], signed.for_servers),
        (&built.packages[1..], true)
    );
    assert_eq!(
        (&signed.desktop_packages, &signed.companions),
        (&built.desktop_packages, &built.companions)
    );
    assert!(built.signed_modules.is_empty() && !of("nvidia-headless-580-open").for_servers);
    assert_eq!(
        of("nvidia-headless-no-dkms-580-open").not_beside,
        ["compute/cuda/repos"]
    );
}

#[test]
fn a_board_is_not_expected_of_drivers_older_than_itself() {
    let listed = |id: &str| {
        gpu(id)
            .listed_from
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(listed("2901"), ["570.86.15"], "B200");
    assert_eq!(listed("2d04"), ["570.148.08", "575.51.02"], "RTX 5060 Ti");
    assert_eq!(
        (gpu("1eb8").first_driver_branch, listed("1eb8").len()),
        (None, 0),
        "the T4 is in the oldest list of its time"
    );
}

#[test]
fn cuda_drops_architectures_and_machines_when_it_did() {
    let lowest = |v: &str| {
        let release = SHIPPED
            .cuda(v.parse().expect("valid"))
            .unwrap_or_else(|| panic!("CUDA {v}"));
        release.lowest_capability.to_string()
    };
    assert_eq!(lowest("13.0.0"), "7.5");
    assert_eq!(lowest("12.9.1"), "5.0");
    assert_eq!(lowest("11.8.0"), "3.5");
    let power = |a: &&CudaArtifact| a.artifact.arch == "ppc64le" && a.artifact.sha256.is_some();
    let last_power = SHIPPED
        .cuda_artifacts
        .iter()
        .filter(power)
        .map(|a| a.version)
        .max();
    assert_eq!(
        last_power.map(|v| v.series().to_string()).as_deref(),
        Some("12.4")
    );
    for (release, driver) in [
        ("13.0.0", "580.65.06"),
        ("12.4.1", "525.60.13"),
        ("11.2.0", "450.80.02"),
    ] {
        let known = SHIPPED
            .cuda(release.parse().expect("valid"))
            .map(|c| c.minimum_driver.to_string());
        assert_eq!(known.as_deref(), Some(driver), "CUDA {release}");
    }
}

#[test]
fn a_capability_was_renamed_with_cuda_13() {
    let span = |capability: &str| {
        let a = SHIPPED
            .architecture(capability.parse().expect("valid"))
            .expect("known");
        let text = |v: Option<gpusetup::version::CudaVersion>| {
            v.map(|v| v.to_string()).unwrap_or_default()
        };
        (text(a.first_cuda), text(a.last_cuda))
    };
    assert_eq!(span("10.1"), ("12.8".to_owned(), "12.9".to_owned()));
    assert_eq!(
        span("11.0"),
        ("13.0".to_owned(), String::new()),
        "the same chip under its new number"
    );
    // Both came with 11.8; that others say 12.0 of the second is noted, and what was taken.
    assert_eq!(
        (span("8.9").0, span("9.0").0),
        ("11.8".to_owned(), "11.8".to_owned())
    );
    let hopper = SHIPPED
        .architecture("9.0".parse().expect("valid"))
        .expect("known");
    assert!(
        hopper
            .disagreement
            .as_ref()
            .is_some_and(|d| d.contains("12.0")),
        "{:?}",
        hopper.disagreement
    );
}

#[test]
fn kernel_modules_change_with_560_and_620() {
    let of = |branch: u16| {
        SHIPPED
            .branch(branch)
            .map(|b| (b.modules.clone(), b.default_modules))
            .expect("known")
    };
    assert_eq!(of(510), (vec![Proprietary], Proprietary));
    assert_eq!(of(555), (vec![Open, Proprietary], Proprietary));
    assert_eq!(of(560), (vec![Open, Proprietary], Open));
    assert_eq!(of(620), (vec![Open], Open));
}

#[test]
fn a_sum_on_which_sources_differ_is_no_sum() {
    let differs = SHIPPED.add_on_artifacts.iter().map(|a| &a.artifact);
    let differs: Vec<_> = differs
        .filter(|a| {
            a.disagreement
                .as_ref()
                .is_some_and(|n| n.contains("different sums"))
        })
        .collect();
    assert!(!differs.is_empty());
    assert!(differs.iter().all(|a| a.sha256.is_none()));
}

#[test]
fn a_module_changed_its_name_with_570_148() {
    let name = |driver: &str| {
        SHIPPED.name_of(
            Role::OpenDkmsModule,
            PackageManager::Dnf,
            driver.parse().expect("valid"),
        )
    };
    assert_eq!(name("570.133.20").as_deref(), Some("nvidia-open"));
    assert_eq!(name("570.148.08").as_deref(), Some("nvidia"));
}

#[test]
fn forward_compatibility_has_its_base_branches() {
    let package = |cuda: &str, branch| {
        SHIPPED
            .forward_compatibility(cuda.parse().expect("valid"), branch)
            .map(|f| f.package.as_str())
    };
    assert_eq!(package("13.0.2", 535), Some("cuda-compat-13-0"));
    assert_eq!(package("13.0", 580), None, "its own branch needs none");
    assert_eq!(package("12.6", 570), None, "it is older than the branch");
}

#[test]
fn a_guide_tells_where_its_toolkit_was_not_tried() {
    let without = |cuda: &str, id: &str, version: &str| {
        let guide = SHIPPED.guide_without(cuda.parse().expect("valid"), "x86_64", &[id], version);
        guide.map(|g| g.cuda.to_string())
    };
    assert_eq!(
        without("13.2.1", "ubuntu", "20.04").as_deref(),
        Some("13.0"),
        "the newest guide that is not newer"
    );
    assert_eq!(without("13.2.1", "ubuntu", "24.04"), None);
    assert_eq!(
        without("13.2.1", "rhel", "9.4"),
        None,
        "a point release is not told from another"
    );
    assert_eq!(without("13.2.1", "rhel", "7").as_deref(), Some("13.0"));
    assert_eq!(
        without("11.8.0", "rocky", "9.6"),
        None,
        "a guide of which a part was read lists it"
    );
    assert_eq!(without("11.8.0", "debian", "12").as_deref(), Some("11.2"));
    assert_eq!(
        without("11.2.2", "rocky", "9.6").as_deref(),
        Some("11.2"),
        "a newer guide says nothing of it"
    );
    assert_eq!(
        without("12.4.1", "ubuntu", "16.04"),
        None,
        "of CUDA 12 no guide was read whole, so absence says nothing"
    );
}

#[test]
fn cards_are_cut_into_what_they_can_be() {
    let most = |gpu: &str, name: &str| {
        let device = PciDevice(u16::from_str_radix(gpu, 16).expect("hexadecimal"));
        SHIPPED
            .mig_profiles(device, None)
            .find(|p| p.name == name)
            .map(|p| p.instances)
    };
    // One name, two boards.
    assert_eq!(
        (
            most("20b0", "1g.10gb"),
            most("20b2", "1g.10gb"),
            most("2330", "1g.10gb")
        ),
        (Some(4), Some(7), Some(7))
    );
    assert_eq!(most("20b7", "4g.24gb"), Some(1));
    assert_eq!(most("1eb8", "1g.5gb"), None, "a T4 is whole");
    for p in &SHIPPED.mig_profiles {
        assert!(p.instances <= 7 / p.compute_slices, "{}", p.name);
    }
}

#[test]
fn an_nvswitch_is_known_by_its_own_id() {
    let generation = |device| SHIPPED.nvswitch(PciDevice(device)).map(|s| s.generation);
    assert_eq!(
        (generation(0x1ac2), generation(0x1af1), generation(0x22a3)),
        (Some(1), Some(2), Some(3))
    );
    // 1021 is a ConnectX-7 of another vendor on some boards, and a Tesla K20 of NVIDIA's.
    assert_eq!(generation(0x1021), None);
}

#[test]
fn the_export_has_the_names_of_the_contract() {
    let json = serde_json::to_value(SHIPPED.export()).expect("serialisable");
    assert_eq!(json["schema"], "gpusetup.db/1");
    let all = |list: &str| {
        json[list]
            .as_array()
            .unwrap_or_else(|| panic!("{list} is a list"))
            .clone()
    };
    let found = |list: &str, key: &str, value: &str| {
        all(list)
            .into_iter()
            .find(|r| r[key] == value)
            .unwrap_or_else(|| panic!("{list}: {key} {value}"))
    };
    let p100 = found("gpus", "pci_id", "10de:15f9");
    assert_eq!(p100["compute_capability"], "6.0");
    assert_eq!(p100["last_driver_branch"], "580");
    assert_eq!(p100["modules"], serde_json::json!(["proprietary"]));
    assert!(found("gpus", "pci_id", "10de:2330")["last_driver_branch"].is_null());
    let runfile = found("cuda", "file", "cuda_12.4.1_550.54.15_linux.run");
    assert_eq!(
        (&runfile["version"], &runfile["arch"]),
        (&"12.4.1".into(), &"x86_64".into())
    );
    assert_eq!(runfile["sha256"].as_str().map(str::len), Some(64));
    assert!(found("cudnn", "version", "9.10.2.21")["cuda_major"].is_u64());
    let nvcc = found(
        "cuda_components",
        "file",
        "cuda_nvcc-linux-sbsa-13.0.88-archive.tar.xz",
    );
    assert_eq!(
        (&nvcc["component"], &nvcc["arch"]),
        (&"cuda_nvcc".into(), &"sbsa".into())
    );
    let url = "https://developer.download.nvidia.com/compute/cuda/redist/cuda_nvcc/linux-sbsa/";
    assert!(
        nvcc["url"].as_str().is_some_and(|u| u.starts_with(url)),
        "{nvcc}"
    );
    for list in ["architectures", "driver_branches", "drivers"] {
        assert!(!all(list).is_empty(), "{list}");
    }
    for list in [
        "frameworks",
        "mig_profiles",
        "forward_compatibility",
        "renames",
    ] {
        assert!(!all(list).is_empty(), "{list}");
    }
}

const SOURCES: &str = "version: \"2026.1.1\"\nsources:\n  - {id: notes, title: \"Notes\", location: \"https://example.org\"}\n";

/// What is said of a database of two files, the second of which is `text`.
fn refused(text: &str) -> String {
    match parse([("compat/sources.yaml", SOURCES), ("compat/more.yaml", text)]) {
        Err(error @ (LoadError::Shape { .. } | LoadError::Wrong(_))) => error.to_string(),
        other => panic!("not refused: {other:?}\n{text}"),
    }
}

fn cuda(replace: &str, by: &str) -> String {
    let good = "cuda:\n  - version: \"12.8.1\"\n    minimum_driver: \"525.60.13\"\n    native_driver: \"570.124.06\"\n    \
                lowest_capability: \"5.0\"\n    highest_capability: \"5.0\"\n    gcc_max: 14\n    sources: [notes]\n\
                architectures:\n  - compute_capability: \"5.0\"\n    name: Maxwell\n    modules: [proprietary]\n    \
                sources: [notes]\n";
    assert!(good.contains(replace), "{replace}");
    good.replace(replace, by)
}

#[test]
fn a_good_small_database_is_taken() {
    let text = cuda("gcc_max: 14", "gcc_max: 14");
    assert!(
        parse([
            ("compat/sources.yaml", SOURCES),
            ("compat/more.yaml", text.as_str())
        ])
        .is_ok()
    );
}

#[test]
fn a_wrong_shape_names_file_line_and_key() {
    for (text, line, words) in [
        (
            cuda("gcc_max: 14", "gcc_maximum: 14"),
            7,
            &["no key `gcc_maximum`", "gcc_max"][..],
        ),
        (
            cuda("gcc_max: 14", "gcc_max: 14\n    gcc_max: 15"),
            8,
            &["gcc_max", "duplicate"],
        ),
        (cuda("gcc_max: 14", "gcc_max: many"), 7, &["gcc_max", "u16"]),
        (
            cuda("\"12.8.1\"", "\"12..1\""),
            2,
            &["version", "12..1", "a number is missing"],
        ),
        // 12.10 is the number 12.1 to YAML.
        (
            cuda("\"12.8.1\"", "12.10"),
            2,
            &["version", "12.10", "quot"],
        ),
        (
            cuda("\"5.0\"\n    highest", "5.0\n    highest"),
            5,
            &["lowest_capability", "5.0", "quot"],
        ),
        (
            cuda("    minimum_driver: \"525.60.13\"\n", ""),
            7,
            &["minimum_driver", "missing"],
        ),
        ("cudda: []\n".to_owned(), 1, &["no key `cudda`"]),
    ] {
        let refusal = refused(&text);
        assert!(
            refusal.starts_with(&format!("compat/more.yaml:{line}:")),
            "line {line}: {refusal}"
        );
        assert!(
            words.iter().all(|w| refusal.contains(w)),
            "{words:?}: {refusal}"
        );
    }
}

#[test]
fn a_wrong_fact_names_file_line_and_key() {
    let artifact = |tail: &str| {
        cuda(
            "architectures:",
            &format!(
                "cuda_artifacts:\n  - {{version: \"12.8.1\", artifact: {{arch: x86_64, file: \"cuda_12.8.1_linux.run\", \
                 {tail}, sources: [notes]}}}}\narchitectures:"
            ),
        )
    };
    for (text, line, words) in [
        (
            cuda("[notes]\narch", "[hearsay]\narch"),
            8,
            &["cuda 12.8.1", "sources", "hearsay"][..],
        ),
        (
            cuda("[notes]\narch", "[]\narch"),
            8,
            &["cuda 12.8.1", "sources: must not be empty"],
        ),
        (
            cuda("525.60.13", "580.65.06"),
            3,
            &["minimum_driver", "580.65.06 is above 570.124.06"],
        ),
        (
            cuda("gcc_max: 14", "gcc_min: 15\n    gcc_max: 14"),
            7,
            &["gcc_min", "15 is above 14"],
        ),
        (
            cuda("highest_capability: \"5.0\"", "highest_capability: \"5.2\""),
            6,
            &["highest_capability", "5.2"],
        ),
        (
            artifact("sha256: \"ABC\", agree: 1"),
            10,
            &["sha256", "64 lower-case"],
        ),
        (
            artifact("url: \"https://example.org/other.run\""),
            10,
            &["url", "cuda_12.8.1_linux.run"],
        ),
        (artifact("agree: 2"), 10, &["agree"]),
    ] {
        let refusal = refused(&text);
        assert!(
            refusal.contains(&format!("compat/more.yaml:{line}: ")),
            "line {line}: {refusal}"
        );
        assert!(
            words.iter().all(|w| refusal.contains(w)),
            "{words:?}: {refusal}"
        );
    }
}

#[test]
fn every_series_since_12_has_its_components() {
    let minors = |major, last| {
        (0..=last).map(move |minor| CudaVersion {
            major,
            minor,
            patch: None,
        })
    };
    for series in minors(12, 9)
        .chain(minors(13, 4))
        .filter(|s| (s.major, s.minor) != (12, 7))
    {
        let of = |r: &&ComponentRelease| r.version.series() == series;
        let release = SHIPPED
            .component_releases
            .iter()
            .find(of)
            .unwrap_or_else(|| panic!("{series}"));
        for name in ["nvcc", "cudart", "cublas", "cufft", "cusolver", "cccl"] {
            let component = SHIPPED
                .component_named(name)
                .unwrap_or_else(|| panic!("{name}"));
            let part = release
                .component(component)
                .unwrap_or_else(|| panic!("{series} {name}"));
            for arch in ["x86_64", "sbsa"] {
                let archive = part
                    .archive(arch)
                    .unwrap_or_else(|| panic!("{series} {name} {arch}"));
                assert!(
                    release.artifact(part, archive).is_verifiable(),
                    "{series} {name} {arch}"
                );
            }
        }
        assert!(
            !release
                .components
                .iter()
                .any(|c| c.name.contains("driver") || c.name == "fabricmanager"),
            "{series}"
        );
    }
}

#[test]
fn a_wrong_component_is_pointed_at() {
    let archives = |tail: &str| {
        let sum = "0".repeat(64);
        let part = format!(
            "{{name: cuda_nvcc, version: \"12.8.93\", archives: [{{arch: x86_64, size: 1, sha256: \"{sum}\"}}{tail}"
        );
        let release = format!(
            "component_releases:\n  - version: \"12.8.1\"\n    base: \"https://example.org/redist\"\n    agree: 1\n    \
             verified: \"by hand\"\n    sources: [notes]\n    components:\n      - {part}\n\
             components:\n  - {{name: cuda_nvcc, title: \"NVCC\"}}\narchitectures:"
        );
        cuda("architectures:", &release)
    };
    let good = archives("]}");
    assert!(
        parse([
            ("compat/sources.yaml", SOURCES),
            ("compat/more.yaml", good.as_str())
        ])
        .is_ok()
    );
    for (text, line, words) in [
        (
            archives(", {arch: x86_64, size: 2, sha256: \"1\"}]}"),
            16,
            &["cuda_nvcc", "64 lower-case"][..],
        ),
        (
            archives(", {arch: x86_64, size: 2, sha256: \"1\"}]}"),
            15,
            &["cuda_nvcc has two archives for x86_64"],
        ),
        (
            good.replace("{name: cuda_nvcc, title", "{name: cuda_gdb, title"),
            15,
            &["cuda_nvcc is not among the components"],
        ),
        (
            good.replace("{name: cuda_nvcc, title", "{name: cuda_gdb, title"),
            18,
            &["components cuda_gdb", "is in no release"],
        ),
        (
            good.replace("/redist\"", "/redist/\""),
            11,
            &["base", "without a slash"],
        ),
        (
            good.replace(
                "- version: \"12.8.1\"\n    base",
                "- version: \"12.8.2\"\n    base",
            ),
            10,
            &["not a CUDA release"],
        ),
    ] {
        let refusal = refused(&text);
        let pointed = refusal.lines().any(|l| {
            l.contains(&format!("compat/more.yaml:{line}: ")) && words.iter().all(|w| l.contains(w))
        });
        assert!(pointed, "line {line}, {words:?}: {refusal}");
    }
}

#[test]
fn a_wrong_companion_is_pointed_at() {
    let good = "companions:
  - id: weaver
    title: Weaver
    purpose: weaves
    who_needs: CUDA needs
    version: driver
    packages:
      - {package_manager: apt, from: \"580.00\", name: weaver, sources: [notes]}
      - {package_manager: apt, name: \"weaver-{branch}\", sources: [notes]}
    units: [weaver.service]
    sources: [notes]
  - id: thread
    title: Thread
    purpose: is woven
    who_needs: Weaver needs
    version: own
    packages: [{name: thread, sources: [notes]}]
    sources: [notes]
gpus:
  - {device: \"2330\", name: H100, chip: GH100, architecture: Hopper, modules: [open], sources: [notes]}
nvswitches:
  - {device: \"22a3\", name: NVSwitch, generation: 3, sources: [notes]}
nvlinks:
  - {gpus: [\"2330\"], links: 18, generation: 4, joined_by: [switch], sources: [notes]}
fabrics:
  - generation: 3
    name: HGX
    needs: [weaver, thread]
    gpus: [\"2330\"]
    gpus_per_board: 8
    sources: [notes]
driver_branches:
  - {branch: 580, kind: long-term, modules: [open], default_modules: open, sources: [notes]}
drivers:
  - version: \"580.95.05\"
    maturity: production
    artifacts:
      - {variant: weaver, artifact: {arch: x86_64, file: weaver.tar.xz, sources: [notes]}}
distributions:
  - id: loom
    version: \"1\"
    name: Loom
    package_manager: apt
    initramfs: dracut
    headers: [headers]
    build_tools: [make]
    gxx: g++
    drivers:
      - branch: 580
        modules: open
        archs: [x86_64]
        repository: {name: Loom}
        packages: [driver]
        companions: {weaver: weaver}
        sources: [notes]
    sources: [notes]
";
    let parsed = parse([("compat/sources.yaml", SOURCES), ("compat/more.yaml", good)]);
    assert!(parsed.is_ok(), "{parsed:?}");
    for (replace, by, words) in [
        (
            "id: thread",
            "id: weaver",
            &["companions weaver: id", "appears twice"][..],
        ),
        (
            "id: thread",
            "id: modules",
            &["companions modules: id", "with another meaning"],
        ),
        (
            "id: thread",
            "id: full",
            &["companions full: id", "with another meaning"],
        ),
        (
            "id: thread",
            "id: Thread",
            &["`Thread` is not a companion's name"],
        ),
        (
            "needs: [weaver, thread]",
            "needs: [weaver, yarn]",
            &["fabrics 3: needs: yarn is not a companion"],
        ),
        (
            "needs: [weaver, thread]",
            "needs: [thread]",
            &["fabrics 3: needs", "follows the driver's"],
        ),
        (
            "gpus_per_board: 8",
            "gpus_per_board: 8\n    elsewhere: [weaver]",
            &["elsewhere: weaver is needed"],
        ),
        (
            "gpus_per_board: 8",
            "gpus_per_board: 8\n    unjoined_if_single: [\"2331\"]",
            &["unjoined_if_single: 2331 is not one of the gpus"],
        ),
        (
            "generation: 3, sources",
            "generation: 4, sources",
            &["nvswitches 22a3: generation: 4 is not the generation"],
        ),
        (
            "[{name: thread, sources: [notes]}]",
            "[]",
            &["companions thread: packages: no repository offers it"],
        ),
        (
            "name: \"weaver-{branch}\"",
            "name: \"weaver-{major}\"",
            &["weaver-{major} has a placeholder other"],
        ),
        (
            "name: \"weaver-{branch}\"",
            "name: \"w{branch}-{branch}\"",
            &["w{branch}-{branch} has the placeholder"],
        ),
        (
            "from: \"580.00\", ",
            "",
            &["weaver-{branch} is a second name for the same drivers"],
        ),
        (
            "units: [weaver.service]",
            "units: [weaver]",
            &["units: weaver lacks the suffix"],
        ),
        (
            "units: [weaver.service]",
            "published_with: yarn",
            &["published_with: yarn is not a companion"],
        ),
        (
            "variant: weaver",
            "variant: yarn",
            &["drivers weaver.tar.xz: variant: yarn is not a companion"],
        ),
        (
            "{weaver: weaver}",
            "{yarn: yarn}",
            &["distributions loom 1: companions: yarn is not a companion"],
        ),
        (
            "{weaver: weaver}",
            "{thread: thread}",
            &["companions: the version of thread is independent"],
        ),
        (
            "name: weaver, sources: [notes]",
            "name: weaver, sources: []",
            &["companions weaver", "sources: must not be empty"],
        ),
    ] {
        assert_eq!(good.matches(replace).count(), 1, "{replace}");
        let refusal = refused(&good.replace(replace, by));
        let pointed =
            |l: &str| l.contains("compat/more.yaml:") && words.iter().all(|w| l.contains(w));
        assert!(refusal.lines().any(pointed), "{words:?}: {refusal}");
    }
    for (replace, by, words) in [
        (
            "links: 18, ",
            "links: 0, ",
            "nvlinks 2330: links: a board without links has no generation",
        ),
        (
            "generation: 4, joined_by",
            "joined_by",
            "nvlinks 2330: links: links need a generation",
        ),
        (
            "{gpus: [\"2330\"], links",
            "{gpus: [\"2331\"], links",
            "nvlinks 2331: gpus: 2331 is not a GPU",
        ),
    ] {
        assert_eq!(good.matches(replace).count(), 1, "{replace}");
        let refusal = refused(&good.replace(replace, by));
        assert!(refusal.contains(words), "{words}: {refusal}");
    }
}

#[test]
fn a_fact_that_is_there_twice_is_pointed_at_where_it_is_repeated() {
    let record = "  - {branch: 580, kind: long-term, modules: [open], default_modules: open, sources: [notes]}\n";
    let refusal = refused(&format!("driver_branches:\n{record}{record}"));
    assert!(
        refusal.contains("compat/more.yaml:3: driver_branches 580: branch: appears twice"),
        "{refusal}"
    );
}

#[test]
fn a_folder_that_is_no_database_is_said_to_be_none() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let refusal = load(folder.path()).expect_err("no database").to_string();
    assert!(refusal.contains("compat/"), "{refusal}");
}

#[test]
fn the_page_of_a_card_has_its_nvlinks() {
    for (card, line) in [
        ("h200", "18 links of generation 4, joined by NVSwitches"),
        ("rtx 3090", "4 links of generation 3, joined by a bridge"),
        ("rtx 4090", "none"),
        (
            "gb300",
            "18 links of generation 5, joined by the NVSwitches of a rack",
        ),
    ] {
        let shown = crate::common::run(&["db", "show", card]);
        assert!(
            shown.out.contains(&format!("  nvlink    {line}\n")),
            "{card}: {}",
            shown.out
        );
    }
    let derived = crate::common::run(&["db", "show", "h100 nvl"])
        .out
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(
        derived
            .contains("12 links of generation 4, joined by a bridge (the number is the bandwidth"),
        "{derived}"
    );
}
