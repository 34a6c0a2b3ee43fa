//! Metrics in the text format of Prometheus, for the node exporter's textfile collector:
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use crate::host::Facts;
use crate::text::visible;
use serde::Serialize;
use serde_json::Value;
use std::fmt::{Display, Write};

/// A label's value as Prometheus reads it back.
pub(crate) fn label(text: &str) -> String {
    visible(text).replace('\\', "\\\\").replace('"', "\\\"")
}

/// What a host has: a gauge for each thing, with what is known of it as labels. A label is empty
/// where that is not known.
pub(crate) fn facts(facts: &Facts) -> String {
    let mut out = String::new();
    let machine = &facts.machine;
    let host = [
        ("os", facts.os.name.clone()),
        ("arch", machine.arch.clone()),
        ("kernel", facts.kernel().unwrap_or_default().to_owned()),
    ];
    gauge(&mut out, "host_info", "The host.", [(host.to_vec(), 1)]);
    let gpus = facts.gpus.iter().map(|gpu| {
        let labels = vec![
            ("address", gpu.address.clone()),
            ("pci_id", gpu.pci_id.clone()),
            ("name", gpu.name.clone().unwrap_or_default()),
            ("compute_capability", shown(gpu.compute_capability)),
            ("bound_to", gpu.bound_to.clone().unwrap_or_default()),
        ];
        (labels, 1)
    });
    gauge(&mut out, "gpu_info", "NVIDIA GPUs on the PCI bus.", gpus);
    let driver = facts.driver.iter().map(|driver| {
        let labels = vec![
            ("version", driver.version.to_string()),
            ("modules", driver.modules.map(word).unwrap_or_default()),
            ("origin", word(driver.origin)),
            (
                "loaded",
                facts.loaded_driver().unwrap_or_default().to_owned(),
            ),
        ];
        (labels, 1)
    });
    gauge(
        &mut out,
        "driver_info",
        "The installed NVIDIA driver; `loaded` is the version of the module that runs.",
        driver,
    );
    let toolkits = facts.toolkits.iter().map(|toolkit| {
        let labels = vec![
            ("version", toolkit.version.to_string()),
            ("path", toolkit.path.display().to_string()),
            ("origin", word(toolkit.origin)),
        ];
        (labels, 1)
    });
    gauge(
        &mut out,
        "toolkit_info",
        "Installed CUDA toolkits.",
        toolkits,
    );
    let add_ons = facts.cudnn.iter().map(|files| {
        let labels = vec![
            ("add_on", files.add_on.to_string()),
            ("version", shown(files.version)),
            ("path", files.directory.display().to_string()),
        ];
        (labels, 1)
    });
    gauge(
        &mut out,
        "add_on_info",
        "Installed libraries beside CUDA: cuDNN, NCCL and others.",
        add_ons,
    );
    let switches = u64::try_from(facts.nvswitches.len()).unwrap_or(u64::MAX);
    gauge(
        &mut out,
        "nvswitches",
        "NVSwitches on the PCI bus.",
        [(Vec::new(), switches)],
    );
    out
}

/// The word for a value in JSON.
fn word(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).ok();
    value
        .as_ref()
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn shown(value: Option<impl Display>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A gauge with its samples. Without samples it is left out.
fn gauge(
    out: &mut String,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (Vec<(&'static str, String)>, u64)>,
) {
    let mut samples = samples.into_iter().peekable();
    if samples.peek().is_none() {
        return;
    }
    let _ = write!(
        out,
        "# HELP gpusetup_{name} {help}\n# TYPE gpusetup_{name} gauge\n"
    );
    for (labels, value) in samples {
        let labels: Vec<_> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", label(value)))
            .collect();
        let braces = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        let _ = writeln!(out, "gpusetup_{name}{braces} {value}");
    }
}
