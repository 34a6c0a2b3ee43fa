//! What NVIDIA's libraries say of the sound host, and what they say of sick ones.

use super::*;
use crate::evidence::{BootLayout, BootLayouts};
use crate::kernel_log;
use gpusetup_nvidia::*;

/// An A100 in good health.
pub(crate) fn nvml() -> GpuTable {
    let gpu = GpuReading {
        address: Some("0000:17:00.0".into()),
        name: Some("NVIDIA A100-SXM4-40GB".into()),
        persistence: Some(true),
        display_attached: Some(false),
        display_active: Some(false),
        compute_mode: Some(ComputeMode::Default),
        processes: Some(Vec::new()),
        mig: Some(mig_reading(false, false, 0)),
        ecc: Some(EccReading {
            enabled: true,
            pending: true,
            volatile: uncorrected(0),
            aggregate: uncorrected(0),
        }),
        remapped_rows: Some(RemappedRows {
            corrected: 0,
            uncorrected: 0,
            pending: false,
            failed: false,
        }),
        recovery: Some(Recovery::None),
        temperature: Some(Temperature {
            gpu_celsius: 31,
            ..Temperature::default()
        }),
        power: Some(PowerReading {
            draw_milliwatts: 43_000,
            limit_milliwatts: Some(400_000),
            ..PowerReading::default()
        }),
        ..GpuReading::default()
    };
    GpuTable {
        driver: Some("580.95.05".into()),
        cuda: "13.0".parse().ok(),
        gpus: vec![gpu],
        ..GpuTable::default()
    }
}

fn uncorrected(count: u64) -> ErrorCounts {
    ErrorCounts {
        corrected: None,
        uncorrected: Some(count),
    }
}

fn mig_reading(enabled: bool, pending: bool, devices: usize) -> MigReading {
    MigReading {
        enabled,
        pending,
        devices: vec![MigDevice::default(); devices],
    }
}

/// The same, seen by CUDA.
pub(crate) fn cuda() -> Cuda {
    let gpu = CudaGpu {
        address: Some("0000:17:00.0".into()),
        name: Some("NVIDIA A100-SXM4-40GB".into()),
        compute_capability: "8.0".parse().ok(),
        kernel: Kernel::Right,
    };
    Cuda {
        library: Some("/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05".into()),
        version: "13.0".parse().ok(),
        refused: None,
        gpus: vec![gpu],
    }
}

/// What NVML says is changed.
pub(crate) fn told(change: impl FnOnce(&mut GpuTable)) -> impl FnOnce(&mut Seen) {
    move |e| {
        let Answer::Is(nvml) = &mut e.nvml else {
            panic!("the sound host's driver answers")
        };
        change(nvml);
    }
}

/// What NVML says of the one GPU is changed.
fn of_gpu(change: impl FnOnce(&mut GpuReading)) -> impl FnOnce(&mut Seen) {
    told(|nvml| change(&mut nvml.gpus[0]))
}

pub(crate) fn refused(call: &str, code: i32) -> Refused {
    Refused {
        call: call.into(),
        code: Some(code),
        says: "no".into(),
    }
}

/// CUDA does not start, with this number.
pub(crate) fn unstarted(code: i32) -> impl Fn(&mut Seen) {
    move |e| {
        e.cuda = Answer::Is(Cuda {
            refused: Some(refused("cuInit", code)),
            gpus: Vec::new(),
            ..cuda()
        });
        e.convolution
            .values_mut()
            .for_each(|c| *c = Answer::NotAsked("CUDA itself does not compute".into()));
    }
}

/// The kernel did not run, with this number.
fn unlaunched(code: i32) -> impl Fn(&mut Seen) {
    move |e| {
        unstarted(code)(e);
        let mut cuda = cuda();
        cuda.gpus[0].kernel = Kernel::Refused(refused("cuLaunchKernel", code));
        e.cuda = Answer::Is(cuda);
    }
}

fn finding(id: CheckId, change: impl FnOnce(&mut Seen)) -> crate::Finding {
    let mut evidence = sound();
    change(&mut evidence);
    examined(evidence)
        .checks
        .into_iter()
        .find(|f| f.id == id)
        .expect("a check")
}

#[test]
fn a_driver_that_does_not_answer() {
    let hung = |e: &mut Seen| {
        unstarted(0)(e);
        e.nvml =
            Answer::Failed("libnvidia-ml.so.1 did not return from nvmlInit_v2 within 15 s".into());
        e.cuda = Answer::Failed("libcuda.so.1 did not return from cuInit within 35 s".into());
    };
    assert_eq!(found(hung), ["GS508 fail", "GS505 fail < GS508"]);
    let by_log = |e: &mut Seen| {
        hung(e);
        e.kernel_log = Answer::Is(kernel_log::parse(
            "NVRM: Xid (PCI:0000:17:00): 119, pid=1, Timeout",
        ));
    };
    assert_eq!(
        found(by_log),
        ["GS903 fail", "GS508 fail < GS903", "GS505 fail < GS903"]
    );
    let no_library = Refused {
        call: "nvmlInit_v2".into(),
        code: None,
        says: "cannot open shared object file".into(),
    };
    assert_eq!(
        found(told(|nvml| nvml.refused = Some(no_library))),
        ["GS508 fail"]
    );
    assert_eq!(
        found(told(|nvml| nvml.refused = Some(refused("nvmlInit_v2", 999)))),
        ["GS508 fail"]
    );
    assert_eq!(
        found(told(|nvml| nvml.refused = Some(refused("nvmlInit_v2", 9)))),
        ["GS508 fail"]
    );
    let forbidden = told(|nvml| nvml.refused = Some(refused("nvmlInit_v2", 4)));
    assert_eq!(
        found(forbidden),
        ["GS508 warn"],
        "it may be well; this user may not ask"
    );
    assert_eq!(
        found(of_gpu(
            |gpu| gpu.refused = Some(refused("nvmlDeviceGetHandleByIndex_v2", 999))
        )),
        ["GS508 fail"]
    );
    assert_eq!(
        found(told(|nvml| nvml.gpus.clear())),
        ["GS508 fail"],
        "the driver has bound a GPU"
    );
    assert_eq!(
        found(|e| e.nvml = Answer::NotAsked("a tree has no running driver".into())),
        [""; 0]
    );
    let jetson = |e: &mut Seen| {
        told(|nvml| nvml.refused = Some(refused("nvmlInit_v2", 3)))(e);
        e.facts.machine.kind = MachineKind::Jetson;
        e.facts.driver.as_mut().expect("a driver").origin = Origin::Unknown;
    };
    assert_eq!(found(jetson), [""; 0], "its driver does without");
    let container = |e: &mut Seen| {
        told(|nvml| nvml.refused = Some(refused("nvmlInit_v2", 999)))(e);
        e.facts.machine.kind = MachineKind::Container;
    };
    assert!(
        finding(CheckId::GS508, container)
            .cause
            .expect("a cause")
            .contains("cgroup")
    );
}

#[test]
fn a_container_without_the_drivers_libraries_needs_no_driver() {
    let container = |capabilities: Option<&'static [&'static str]>| {
        move |e: &mut Seen| {
            e.facts.machine.kind = MachineKind::Container;
            let missing = |call: &str| Refused {
                call: call.into(),
                code: None,
                says: "not found".into(),
            };
            e.cuda = Answer::Is(Cuda {
                refused: Some(missing("libcuda.so.1")),
                ..Cuda::default()
            });
            let capabilities =
                capabilities.map(|all| all.iter().map(|c| (*c).to_owned()).collect());
            e.given = Some(Given {
                devices: true,
                asked: Asked::Gpus,
                capabilities,
            });
        }
    };
    for (capabilities, cause) in [
        (Some(&["utility"][..]), "leaves out compute"),
        (None, "host driver's libcuda"),
    ] {
        let finding = finding(CheckId::GS505, container(capabilities));
        assert!(
            finding.cause.as_ref().is_some_and(|c| c.contains(cause)),
            "{finding:?}"
        );
        let commands = finding.remediation.expect("a cure").commands;
        assert!(
            commands
                .iter()
                .all(|c| c.contains("NVIDIA_DRIVER_CAPABILITIES=compute,utility")),
            "{commands:?}"
        );
    }
    assert!(
        !finding(CheckId::GS505, container(Some(&["all"])))
            .cause
            .expect("a cause")
            .contains("leaves out")
    );
}

#[test]
fn a_library_of_another_version() {
    let mismatch = |e: &mut Seen| {
        unstarted(803)(e);
        told(|nvml| nvml.refused = Some(refused("nvmlInit_v2", 18)))(e);
    };
    assert_eq!(
        found(mismatch),
        ["GS501 fail", "GS505 fail < GS501"],
        "told once, where versions are compared"
    );
    let updated = |e: &mut Seen| {
        mismatch(e);
        let version = Some("570.1.1".into());
        e.facts.loaded_modules = Some(vec![LoadedModule {
            name: "nvidia".into(),
            version,
        }]);
    };
    assert_eq!(found(updated), ["GS501 fail", "GS505 fail < GS501"]);
    assert!(
        finding(CheckId::GS501, updated)
            .evidence
            .contains(&"nvmlInit_v2: no (18)".to_owned())
    );
    let container = |e: &mut Seen| {
        mismatch(e);
        e.facts.machine.kind = MachineKind::Container;
    };
    assert_eq!(
        found(container),
        ["GS508 fail", "GS505 fail < GS508"],
        "there is no module to compare with"
    );
}

#[test]
fn a_gpu_that_is_sick_by_its_own_word() {
    for code in [8, 11, 14, 15, 16] {
        let sick = |e: &mut Seen| {
            unstarted(999)(e);
            of_gpu(|gpu| gpu.refused = Some(refused("nvmlDeviceGetHandleByIndex_v2", code)))(e);
        };
        assert_eq!(
            found(sick),
            ["GS903 fail", "GS505 fail < GS903"],
            "NVML {code}"
        );
    }
    let unseen = |e: &mut Seen| {
        of_gpu(|gpu| gpu.refused = Some(refused("nvmlDeviceGetName", 15)))(e);
        e.kernel_log = Answer::NotAsked("only root may read it".into());
    };
    assert_eq!(
        found(unseen),
        ["GS903 fail"],
        "whether or not the log can be read"
    );
}

#[test]
fn memory_heat_and_power() {
    let rows = |pending, failed| {
        of_gpu(move |g| {
            g.remapped_rows = Some(RemappedRows {
                corrected: 1,
                uncorrected: 2,
                pending,
                failed,
            })
        })
    };
    assert_eq!(
        found(rows(false, false)),
        [""; 0],
        "remapped rows are repaired"
    );
    assert_eq!(found(rows(true, false)), ["GS904 warn"]);
    assert_eq!(found(rows(true, true)), ["GS904 fail"]);
    let pages = |double_bit, pending| {
        of_gpu(move |g| {
            g.retired_pages = Some(RetiredPages {
                single_bit: 1,
                double_bit,
                pending,
            })
        })
    };
    assert_eq!(found(pages(1, false)), [""; 0]);
    assert_eq!(found(pages(1, true)), ["GS904 warn"]);
    assert_eq!(found(pages(59, false)), ["GS904 fail"]);
    let errors = |now, ever| {
        of_gpu(move |g| {
            g.ecc = Some(EccReading {
                enabled: true,
                pending: true,
                volatile: uncorrected(now),
                aggregate: uncorrected(ever),
            })
        })
    };
    assert_eq!(found(errors(0, 7)), [""; 0], "long ago");
    assert_eq!(found(errors(1, 7)), ["GS904 warn"]);
    assert_eq!(
        found(of_gpu(
            |g| g.clock_limits = Some(vec![ClockLimit::SoftwareThermal])
        )),
        ["GS904 warn"]
    );
    assert_eq!(
        found(of_gpu(|g| g.clock_limits = Some(vec![
            ClockLimit::HardwareThermal,
            ClockLimit::PowerBrake
        ]))),
        ["GS904 warn"]
    );
    assert_eq!(
        found(of_gpu(|g| g.recovery = Some(Recovery::Reset))),
        ["GS904 fail"]
    );
    let cure = finding(
        CheckId::GS904,
        of_gpu(|g| g.recovery = Some(Recovery::DrainAndReset)),
    )
    .remediation
    .expect("a cure");
    assert_eq!(
        cure.commands,
        ["sudo nvidia-smi --gpu-reset -i 0000:17:00.0"]
    );
}

#[test]
fn a_driver_that_drops_its_gpus() {
    let off = |g: &mut GpuReading| g.persistence = Some(false);
    assert_eq!(found(of_gpu(off)), ["GS905 warn"]);
    let shown = of_gpu(|g| {
        off(g);
        g.display_attached = Some(true);
    });
    assert_eq!(found(shown), [""; 0], "a screen keeps it up");
    let geforce = |e: &mut Seen| {
        of_gpu(off)(e);
        e.facts.gpus[0].pci_id = "10de:2684".into();
    };
    assert_eq!(found(geforce), [""; 0], "in a desktop it may sleep");
    let idle_daemon = finding(CheckId::GS905, of_gpu(off));
    assert!(
        idle_daemon
            .evidence
            .iter()
            .any(|e| e.contains("--no-persistence-mode")),
        "{idle_daemon:?}"
    );
    let none = finding(CheckId::GS905, |e| {
        of_gpu(off)(e);
        e.persistenced = Some(false);
    });
    let commands = none.remediation.expect("a cure").commands;
    assert!(
        none.fixable && commands == ["sudo systemctl enable --now nvidia-persistenced.service"],
        "{commands:?}"
    );
    let no_unit = finding(CheckId::GS905, |e| {
        of_gpu(off)(e);
        (e.persistenced, e.has_persistence_unit) = (Some(false), false);
    });
    assert!(!no_unit.fixable, "there is nothing to enable: {no_unit:?}");
    let power9 = finding(CheckId::GS905, |e| {
        of_gpu(off)(e);
        e.facts.machine.arch = "ppc64le".into();
    });
    assert_eq!(
        (power9.status, power9.fixable),
        (Status::Fail, false),
        "CUDA does not start: {power9:?}"
    );
}

#[test]
fn a_gpu_that_is_to_be_divided() {
    let mig = |enabled, pending, instances| {
        of_gpu(move |g| g.mig = Some(mig_reading(enabled, pending, instances)))
    };
    assert_eq!(found(mig(true, true, 2)), [""; 0]);
    let waits = finding(CheckId::GS802, |e| {
        mig(false, true, 0)(e);
        e.holders = vec!["nvidia-persiste (process 812)".into()];
    });
    assert_eq!(waits.status, Status::Warn);
    assert!(
        waits
            .evidence
            .contains(&"in use by nvidia-persiste (process 812)".to_owned()),
        "{waits:?}"
    );
    let layout = |holds| BootLayout {
        gpu: "0000:17:00.0".into(),
        holds,
        wanted: "7x1g.5gb".into(),
        found: if holds { "7x1g.5gb" } else { "none" }.into(),
    };
    let restored = |holds| {
        move |e: &mut Seen| {
            mig(true, true, 2)(e);
            e.boot_layouts = Some(BootLayouts {
                problem: None,
                gpus: vec![layout(holds)],
            });
        }
    };
    assert_eq!(found(restored(true)), [""; 0]);
    let differs = finding(CheckId::GS802, restored(false));
    let cause = differs.cause.as_deref().unwrap_or_default();
    assert!(
        cause.contains("the MIG layout none, and boots restore 7x1g.5gb"),
        "{differs:?}"
    );
    let missing = finding(CheckId::GS802, |e| {
        mig(true, true, 2)(e);
        e.boot_layouts = Some(BootLayouts {
            problem: Some("GPU-7 is not among the GPUs".into()),
            gpus: Vec::new(),
        });
    });
    assert!(
        missing
            .cause
            .as_deref()
            .unwrap_or_default()
            .contains("GPU-7 is not among the GPUs"),
        "{missing:?}"
    );
    let undivided = |e: &mut Seen| {
        unstarted(100)(e);
        mig(true, true, 0)(e);
    };
    assert_eq!(found(undivided), ["GS505 fail"]);
    assert!(
        finding(CheckId::GS505, undivided)
            .cause
            .expect("a cause")
            .contains("MIG is on")
    );
}

#[test]
fn a_fabric_that_is_not_up() {
    let fabric = |state, status| of_gpu(move |g| g.fabric = Some(Fabric { state, status }));
    assert_eq!(found(fabric(FabricState::Completed, 0)), [""; 0]);
    let stuck = |e: &mut Seen| {
        unstarted(802)(e);
        fabric(FabricState::InProgress, 0)(e);
    };
    assert_eq!(
        found(stuck),
        ["GS801 fail", "GS505 fail < GS801"],
        "the switches may be another machine's"
    );
    let failed = |e: &mut Seen| {
        unstarted(802)(e);
        fabric(FabricState::Completed, 999)(e);
    };
    assert_eq!(found(failed), ["GS801 fail", "GS505 fail < GS801"]);
    assert_eq!(
        found(fabric(FabricState::NotStarted, 0)),
        ["GS801 warn"],
        "CUDA computes"
    );
    assert_eq!(
        found(unstarted(802)),
        ["GS505 fail"],
        "nothing else tells of a fabric"
    );
    let unattested = |e: &mut Seen| {
        unstarted(802)(e);
        told(|nvml| nvml.accepts_work = Some(false))(e);
    };
    let cure = finding(CheckId::GS505, unattested)
        .remediation
        .expect("a cure");
    assert_eq!(cure.commands, ["sudo nvidia-smi conf-compute -srs 1"]);
}

#[test]
fn cuda_that_does_not_start() {
    for code in [3, 100, 999, 803, 804, 34, 46, 214, 221, 700, 1] {
        assert_eq!(found(unstarted(code)), ["GS505 fail"], "error {code}");
    }
    let because = |code, ill: fn(&mut Seen)| {
        found(move |e: &mut Seen| {
            unstarted(code)(e);
            ill(e);
        })
    };
    let stubs: fn(&mut Seen) =
        |e| e.cached[1].directory = "/usr/local/cuda-12.8/lib64/stubs".into();
    for code in [34, 803, 804] {
        assert_eq!(
            because(code, stubs),
            ["GS507 fail", "GS505 fail < GS507"],
            "error {code}"
        );
    }
    let no_uvm: fn(&mut Seen) = |e| {
        (e.devices, e.has_modprobe) = (Some(vec!["nvidia0".into()]), false);
        e.hmm_disabled = None;
    };
    assert_eq!(because(999, no_uvm), ["GS506 fail", "GS505 fail < GS506"]);
    assert_eq!(
        because(46, no_uvm),
        ["GS506 fail", "GS505 fail"],
        "a busy GPU has another cause"
    );
    let no_library = |e: &mut Seen| {
        unstarted(0)(e);
        let says = "libcuda.so.1: cannot open shared object file".to_owned();
        let refused = Some(Refused {
            call: "libcuda.so.1".into(),
            code: None,
            says,
        });
        e.cuda = Answer::Is(Cuda {
            refused,
            ..Cuda::default()
        });
    };
    assert_eq!(found(no_library), ["GS505 fail"]);
}

#[test]
fn heterogeneous_memory_is_named_only_where_it_fits() {
    let cure = |change: fn(&mut Seen)| {
        let finding = finding(CheckId::GS505, |e| {
            unstarted(3)(e);
            change(e);
        });
        finding.remediation.expect("a cure").commands.concat()
    };
    assert!(cure(|_| {}).contains("uvm_disable_hmm=1"));
    assert!(
        !cure(|e| e.hmm_disabled = Some(true)).contains("uvm_disable_hmm"),
        "it is off already"
    );
    assert!(
        !cure(|e| e.hmm_disabled = None).contains("uvm_disable_hmm"),
        "the module is not even loaded"
    );
    let log = "nvidia-uvm: uvm_pmm_gpu.c:3176 devmem_alloc_pagemap[pid:9] request_free_mem_region() err -34";
    let said = |e: &mut Seen| {
        unstarted(999)(e);
        e.kernel_log = Answer::Is(kernel_log::parse(log));
    };
    assert_eq!(found(said), ["GS505 fail"]);
    let finding = finding(CheckId::GS505, said);
    assert!(
        finding.evidence.contains(&log.to_owned())
            && finding.cause.expect("a cause").contains("KASLR")
    );
}

#[test]
fn a_kernel_that_does_not_run_or_is_wrong() {
    assert_eq!(found(unlaunched(719)), ["GS505 fail"]);
    assert_eq!(found(unlaunched(2)), [""; 0], "somebody computes there");
    let exclusive = |e: &mut Seen| {
        unlaunched(46)(e);
        of_gpu(|g| {
            g.compute_mode = Some(ComputeMode::Exclusive);
            g.processes = Some(vec![GpuProcess {
                pid: 812,
                name: None,
                kind: ProcessKind::Compute,
                memory_bytes: None,
                gpu_instance: None,
                compute_instance: None,
            }]);
        })(e);
    };
    assert_eq!(found(exclusive), ["GS505 warn"]);
    let prohibited = |e: &mut Seen| {
        unlaunched(46)(e);
        of_gpu(|g| g.compute_mode = Some(ComputeMode::Prohibited))(e);
    };
    assert_eq!(found(prohibited), ["GS505 fail"]);
    let wrong = |e: &mut Seen| {
        unlaunched(0)(e);
        let Answer::Is(cuda) = &mut e.cuda else {
            return;
        };
        cuda.gpus[0].kernel = Kernel::Wrong("1 of 1024 numbers are wrong".into());
    };
    assert_eq!(found(wrong), ["GS505 fail"]);
    let bad_memory = |e: &mut Seen| {
        wrong(e);
        of_gpu(|g| g.recovery = Some(Recovery::Reset))(e);
    };
    assert_eq!(found(bad_memory), ["GS904 fail", "GS505 fail < GS904"]);
}

#[test]
fn a_toolkit_that_the_driver_does_not_run() {
    let driver = |version: &'static str, runs: &'static str| {
        move |e: &mut Seen| {
            let cuda = runs.parse().ok();
            told(|nvml| (nvml.driver, nvml.cuda) = (Some(version.into()), cuda))(e);
            e.cuda = Answer::Is(Cuda {
                version: cuda,
                ..self::cuda()
            });
        }
    };
    assert_eq!(found(driver("570.133.20", "12.8")), [""; 0]);
    assert_eq!(
        found(driver("535.261.03", "12.2")),
        [""; 0],
        "minor version compatibility"
    );
    assert_eq!(found(driver("470.256.02", "11.4")), ["GS707 fail"]);
    let compat = |e: &mut Seen| {
        driver("470.256.02", "11.4")(e);
        e.cuda = Answer::Is(Cuda {
            version: "12.8".parse().ok(),
            ..cuda()
        });
    };
    assert_eq!(
        finding(CheckId::GS707, compat).status,
        Status::Pass,
        "by forward compatibility"
    );
    let three = finding(CheckId::GS707, driver("535.261.03", "12.2")).evidence;
    for (line, part) in three.iter().zip([
        "CUDA 12.2 and older",
        "the default toolkit is CUDA 12.8.1",
        "torch.version.cuda",
        "from 525.60.13 on",
    ]) {
        assert!(line.contains(part), "{part}: {line}");
    }
    let in_tree = |e: &mut Seen| {
        e.nvml = Answer::NotAsked("a tree has no running driver".into());
        e.cuda = Answer::NotAsked("a tree has no running driver".into());
        e.facts.driver.as_mut().expect("a driver").version =
            "470.256.02".parse().expect("a version");
    };
    assert_eq!(
        finding(CheckId::GS707, in_tree).status,
        Status::Fail,
        "the database knows what a branch runs"
    );
}

#[test]
fn a_cudnn_that_does_not_compute() {
    let convolution = |answer: Answer<Convolution>| {
        found(|e: &mut Seen| {
            e.convolution.insert("libcudnn.so.9".into(), answer);
        })
    };
    assert_eq!(
        convolution(Answer::Is(Convolution::Wrong("it comes to 0".into()))),
        ["GS710 fail"]
    );
    assert_eq!(
        convolution(Answer::Is(Convolution::Refused(refused(
            "cudnnCreate",
            1008
        )))),
        ["GS710 fail"]
    );
    assert_eq!(
        convolution(Answer::Is(Convolution::Refused(refused(
            "cudnnCreate",
            4004
        )))),
        [""; 0],
        "somebody computes"
    );
    assert_eq!(
        convolution(Answer::Is(Convolution::Refused(refused(
            "cudnnCreate",
            3007
        )))),
        ["GS710 fail"]
    );
    assert_eq!(
        convolution(Answer::Failed("libcudnn.so.9 crashed".into())),
        ["GS710 fail"]
    );
}
