//! The GPUs that a verdict concerns. Verdicts on several GPUs that differ only in the GPU are one:
//! its sentences have `{gpus}` for their names and `{is|are}` for words that depend on their
//! number, its commands have `{gpus}` for their bus addresses.

use gpusetup_text::text::gpus_at;

/// A sentence with the names of these GPUs, of so many that the host has.
pub(crate) fn sentence(template: &str, gpus: &[String], of: usize) -> String {
    if gpus.is_empty() {
        return template.to_owned();
    }
    let named = gpus_at(gpus, of);
    let article = if named.starts_with("all ") {
        ""
    } else {
        "the "
    };
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, (inside, after))) = rest
        .split_once('{')
        .and_then(|(b, a)| Some((b, a.split_once('}')?)))
    {
        out += before;
        match inside.split_once('|') {
            _ if inside == "gpus" => out += &format!("{article}{named}"),
            Some((one, many)) => out += if gpus.len() == 1 { one } else { many },
            None => out += &format!("{{{inside}}}"),
        }
        rest = after;
    }
    out + rest
}

/// A command for these GPUs. One for a GPU without an address stands for itself.
pub(crate) fn command(template: &str, gpus: &[String]) -> String {
    let addresses: Vec<_> = gpus
        .iter()
        .map(String::as_str)
        .filter(|gpu| gpu.contains(':'))
        .collect();
    let addresses = addresses.join(",");
    // A shell's quotes are not needed around addresses.
    template
        .replace("'{gpus}'", &addresses)
        .replace("{gpus}", &addresses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, examine, sick};
    use gpusetup_nvidia::{ClockLimit, GpuReading, Kernel, Recovery, Refused, RetiredPages};
    use gpusetup_text::ids::CheckId;

    fn address(n: u8) -> String {
        format!("0000:{:02x}:00.0", 0x17 + n)
    }

    /// What doctor says of a host with so many GPUs that all changed: the cause and the commands of
    /// a check.
    fn told(count: u8, id: CheckId, change: fn(&mut GpuReading)) -> (String, Vec<String>) {
        let mut evidence = sick::sound();
        let Answer::Is(nvml) = &mut evidence.nvml else {
            panic!("the sound host's driver answers")
        };
        let one = nvml.gpus[0].clone();
        nvml.gpus = (0..count)
            .map(|n| GpuReading {
                address: Some(address(n)),
                ..one.clone()
            })
            .collect();
        nvml.gpus.iter_mut().for_each(change);
        let report = examine(evidence, gpusetup_data::shared(), &[id]);
        let finding = &report.checks[0];
        let commands = finding
            .remediation
            .as_ref()
            .map(|r| r.commands.clone())
            .unwrap_or_default();
        (finding.cause.clone().unwrap_or_default(), commands)
    }

    #[test]
    fn the_commands_are_for_every_gpu() {
        type Change = fn(&mut GpuReading);
        let resets: [(CheckId, Change); 6] = [
            (CheckId::GS904, |gpu| {
                gpu.remapped_rows.as_mut().expect("it has them").pending = true
            }),
            // Each GPU has another number of errors.
            (CheckId::GS904, |gpu| {
                let count = gpu
                    .address
                    .as_ref()
                    .map(|address| u64::from(address.as_bytes()[6]));
                gpu.ecc.as_mut().expect("it has it").volatile.uncorrected = count;
            }),
            (CheckId::GS904, |gpu| {
                gpu.retired_pages = Some(RetiredPages {
                    single_bit: 1,
                    double_bit: 0,
                    pending: true,
                });
            }),
            (CheckId::GS904, |gpu| gpu.recovery = Some(Recovery::Reset)),
            (CheckId::GS802, |gpu| {
                gpu.mig.as_mut().expect("it has it").pending = true
            }),
            (CheckId::GS903, |gpu| {
                let refused = Refused {
                    call: "nvmlDeviceGetName".into(),
                    code: Some(16),
                    says: "reset".into(),
                };
                gpu.refused = Some(refused);
            }),
        ];
        for (id, change) in resets {
            for (count, named) in [
                (1, "the GPU 0000:17:00.0"),
                (2, "the GPUs 0000:17:00.0 and 0000:18:00.0"),
                (8, "all 8 GPUs"),
            ] {
                let (cause, commands) = told(count, id, change);
                let gpus: Vec<_> = (0..count).map(address).collect();
                let reset = format!("sudo nvidia-smi --gpu-reset -i {}", gpus.join(","));
                assert!(commands.contains(&reset), "{id}: {cause}: {commands:?}");
                assert_eq!(
                    commands
                        .iter()
                        .filter(|c| c.contains("--gpu-reset"))
                        .count(),
                    1,
                    "{commands:?}"
                );
                assert!(
                    cause.contains(named) && !cause.contains(['{', '|']) && cause.len() < 160,
                    "{cause}"
                );
            }
        }
        let (cause, commands) = told(2, CheckId::GS904, |gpu| {
            gpu.clock_limits = Some(vec![ClockLimit::HardwareThermal]);
        });
        assert!(
            cause.ends_with("are too hot and run at half speed or less") && commands.len() == 1,
            "{cause}"
        );
        let (_, commands) = told(2, CheckId::GS904, |gpu| {
            gpu.address = None;
            gpu.recovery = Some(Recovery::Reset);
        });
        assert_eq!(
            commands,
            ["sudo nvidia-smi --gpu-reset"],
            "GPUs without an address"
        );
    }

    #[test]
    fn cuda_names_every_gpu_too() {
        let mut evidence = sick::sound();
        let Answer::Is(cuda) = &mut evidence.cuda else {
            panic!("the sound host computes")
        };
        let one = cuda.gpus[0].clone();
        cuda.gpus = vec![one.clone(), one];
        cuda.gpus[1].address = Some(address(1));
        for gpu in &mut cuda.gpus {
            let refused = Refused {
                call: "cuCtxSynchronize".into(),
                code: Some(214),
                says: "ECC".into(),
            };
            gpu.kernel = Kernel::Refused(refused);
        }
        let report = examine(evidence, gpusetup_data::shared(), &[CheckId::GS505]);
        let remediation = report.checks[0].remediation.as_ref().expect("a remedy");
        assert_eq!(
            remediation.commands,
            ["sudo nvidia-smi --gpu-reset -i 0000:17:00.0,0000:18:00.0"]
        );
    }

    #[test]
    fn a_sentence_agrees_with_its_gpus() {
        let all: Vec<_> = (0..8)
            .map(|n| format!("0000:{:02x}:00.0", 0x17 + n))
            .collect();
        let of = |count| sentence("{gpus} {is|are} lost in {x}: {", &all[..count], 8);
        assert_eq!(of(1), "the GPU 0000:17:00.0 is lost in {x}: {");
        assert_eq!(
            of(2),
            "the GPUs 0000:17:00.0 and 0000:18:00.0 are lost in {x}: {"
        );
        assert_eq!(of(8), "all 8 GPUs are lost in {x}: {");
        assert_eq!(sentence("{is|are} {gpus}", &[], 8), "{is|are} {gpus}");
        assert_eq!(
            command("reset -i '{gpus}'", &all[..2]),
            "reset -i 0000:17:00.0,0000:18:00.0"
        );
    }
}
