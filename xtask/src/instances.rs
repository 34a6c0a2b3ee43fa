//! Instance types of cloud providers with NVIDIA GPUs, from public repositories that keep what the
//! providers' own interfaces and documentation say: the name of the GPU, how many there are, their
//! memory. Which PCI id that is, is not in them.

use crate::open_kernel_modules::git;
use crate::{Comparison, Result, table};
use gpusetup_database::compat::{Database, Instance};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const TABLE: &str = "instances.tsv";
const COLUMNS: [&str; 9] = [
    "provider",
    "instance type",
    "GPU",
    "count",
    "MiB of a GPU",
    "architecture",
    "device",
    "source",
    "commit",
];

/// Pages about Azure's series of sizes.
const AZURE_PAGES: &str = "articles/virtual-machines/sizes/gpu-accelerated";
/// Azure's sizes, with the number of GPUs that Azure's interface gives.
const AZURE_SIZES: &str = "cluster-autoscaler/cloudprovider/azure/azure_instance_types.go";
/// The GPUs of Azure's older sizes, in comments.
const AZURE_GPUS: &str = "cluster-autoscaler/cloudprovider/azure/azure_instance_gpu_sku.go";

/// What the families of Azure's sizes with other accelerators contain in their names: AMD's GPUs,
/// and FPGAs.
const NOT_NVIDIA: [&str; 5] = ["MI300X", "V620", "V710", "NVSv4", "NPS"];

/// What the names of Azure's sizes say of their GPUs, the longer names first.
const IN_AZURE_NAMES: [&str; 8] = [
    "RTXPRO6000BSE",
    "GB300",
    "GB200",
    "H200",
    "H100",
    "A100",
    "A10",
    "T4",
];

/// Recorded counts that are not the number of GPUs: instance type, count.
///
/// Azure's interface said 12 for a size that differs from `Standard_ND96isr_H100_v5` only in its
/// network; that one has 8.
const WRONG_COUNTS: [(&str, &str); 1] = [("Standard_ND96is_H100_v5", "12")];

/// An instance type, as a source describes it. What is not known is empty.
#[derive(Default, Clone)]
struct Row {
    provider: &'static str,
    name: String,
    /// As the source spells it.
    gpu: String,
    /// `8`, or `1/6` of a GPU. Karpenter says `0` for a part of a GPU.
    count: String,
    memory_mib: String,
    architecture: String,
    /// The PCI id, where somebody ran nvidia-smi on one.
    device: String,
    source: String,
    commit: String,
}

/// A clone of a repository, and where it stands.
struct Clone {
    path: PathBuf,
    name: String,
    commit: String,
}

impl Clone {
    /// Opens the clone of `owner/name` in a folder of clones.
    fn open(clones: &Path, name: &str) -> Result<Self> {
        let path = clones.join(name.rsplit('/').next().unwrap_or(name));
        let commit = git(&path, &["rev-parse", "HEAD"])?.trim().to_owned();
        Ok(Self {
            path,
            name: name.to_owned(),
            commit,
        })
    }

    fn show(&self, file: &str) -> Result<String> {
        self.show_at(&self.commit, file)
    }

    fn show_at(&self, commit: &str, file: &str) -> Result<String> {
        git(&self.path, &["show", &format!("{commit}:{file}")])
    }

    /// Completes a row with its source.
    fn row(&self, row: Row, file: &str) -> Row {
        self.row_at(row, file, &self.commit)
    }

    fn row_at(&self, row: Row, file: &str, commit: &str) -> Row {
        Row {
            source: format!("{} {file}", self.name),
            commit: short(commit),
            ..row
        }
    }
}

/// The first digits of a commit.
fn short(commit: &str) -> String {
    commit.chars().take(12).collect()
}

/// Reads the clones in a folder. Each is named like its repository. Instead of the clones of the
/// two that have Microsoft's pages, there may be folders of single pages,
/// `azure-compute-docs/COMMIT/articles/...`, and so for SkyPilot's catalog, which is large.
pub fn record(clones: &Path) -> Result<()> {
    let sources = [
        aws,
        captures,
        aws_retired,
        google,
        google_slices,
        google_bare_metal,
        google_edge,
    ];
    let mut rows: BTreeMap<(&str, String), Row> = BTreeMap::new();
    let mut keep = |found: Vec<Row>| {
        for row in found {
            // A later source only adds what is missing.
            let known = rows
                .entry((row.provider, row.name.to_ascii_lowercase()))
                .or_insert_with(|| row.clone());
            for (known, new) in [
                (&mut known.device, row.device),
                (&mut known.memory_mib, row.memory_mib),
            ] {
                if known.is_empty() {
                    *known = new;
                }
            }
        }
    };
    for source in sources {
        keep(source(clones)?);
    }
    for source in [
        azure_pages,
        azure,
        azure_rtx,
        azure_names,
        lambda,
        oci_catalog,
        oci_stack,
    ] {
        keep(source(clones)?);
    }
    let rows: Vec<_> = rows
        .into_values()
        .map(|r| {
            let row = [
                r.provider.to_owned(),
                r.name,
                r.gpu,
                r.count,
                r.memory_mib,
                r.architecture,
                r.device,
            ];
            row.into_iter().chain([r.source, r.commit]).collect()
        })
        .collect();
    table::write(
        TABLE,
        "instance types with NVIDIA GPUs; what is not known is empty, and a page whose commit is not known has its date",
        &COLUMNS,
        &rows,
    )
}

/// Karpenter's pages list the labels of instance types, made from Amazon's interface. Older
/// editions have retired types.
fn aws(clones: &Path) -> Result<Vec<Row>> {
    const PAGES: &str = "website/content/en/";
    let clone = Clone::open(clones, "aws/karpenter-provider-aws")?;
    let editions = git(&clone.path, &["ls-tree", "--name-only", "HEAD", PAGES])?;
    let mut editions: Vec<_> = editions
        .lines()
        .filter(|e| e.ends_with("/preview") || e.contains("/v1."))
        .collect();
    // The newest first: `preview`, then by the number behind `v1.`.
    editions.sort_by_key(|e| {
        std::cmp::Reverse(
            e.rsplit_once("/v1.")
                .map_or(u16::MAX, |(_, n)| n.parse().unwrap_or(0)),
        )
    });
    let mut rows = Vec::new();
    for edition in editions {
        let page = format!("{edition}/reference/instance-types.md");
        for part in clone.show(&page)?.split("\n### `").skip(1) {
            let Some((name, labels)) = part.split_once('`') else {
                continue;
            };
            let label = |key: &str| {
                let value = labels
                    .split_once(&format!("|{key}|"))?
                    .1
                    .split('|')
                    .next()?;
                Some(value.trim().to_owned())
            };
            let gpu = |key: &str| {
                label(&format!("karpenter.k8s.aws/instance-gpu-{key}")).unwrap_or_default()
            };
            if gpu("manufacturer") != "nvidia" {
                continue;
            }
            let row = Row {
                provider: "aws",
                name: name.to_owned(),
                gpu: gpu("name"),
                count: gpu("count"),
                memory_mib: gpu("memory"),
                architecture: architecture(&label("kubernetes.io/arch").unwrap_or_default())
                    .to_owned(),
                ..Row::default()
            };
            rows.push(clone.row(row, &page));
        }
    }
    Ok(rows)
}

/// What nvidia-smi said on instances, in NVIDIA's tests for Kubernetes. A table names the instance
/// of each file: `` | `qx-gb200.xml` | 4x NVIDIA GB200 (`p6e-gb200.36xlarge`, arm64) | ``.
fn captures(clones: &Path) -> Result<Vec<Row>> {
    const FOLDER: &str = "tests/e2e/go/assertions/nvidiasmi/testdata/hardware";
    let clone = Clone::open(clones, "NVIDIA/k8s-test-infra")?;
    let mut rows = Vec::new();
    for line in clone
        .show(&format!("{FOLDER}/README.md"))?
        .lines()
        .filter(|line| line.starts_with("| `qx-"))
    {
        let quoted: Vec<_> = line.split('`').skip(1).step_by(2).collect();
        let [file, name] = quoted.as_slice() else {
            continue;
        };
        // Other names are of other providers, which call their instances otherwise.
        if !name.contains('.') {
            continue;
        }
        let described = line.split('|').nth(2).unwrap_or_default().trim();
        let (count, gpu) = described
            .split_once("x ")
            .ok_or_else(|| format!("{FOLDER}/README.md: {line}"))?;
        let xml = clone.show(&format!("{FOLDER}/{file}"))?;
        let device = xml
            .split_once("<pci_device_id>")
            .and_then(|(_, rest)| rest.get(..4))
            .unwrap_or_default();
        let row = Row {
            provider: "aws",
            name: (*name).to_owned(),
            gpu: gpu.split(" (").next().unwrap_or_default().to_owned(),
            count: count.to_owned(),
            architecture: if described.contains("arm64") {
                "aarch64".to_owned()
            } else {
                String::new()
            },
            device: device.to_lowercase(),
            ..Row::default()
        };
        rows.push(clone.row(row, &format!("{FOLDER}/{file}")));
    }
    Ok(rows)
}

/// The types that Amazon no longer offers, g2, in a list that people keep by hand. Of the others,
/// it knows no better than Amazon.
fn aws_retired(clones: &Path) -> Result<Vec<Row>> {
    const FILE: &str = "scraper/aws/ec2/gpu_data.go";
    let clone = Clone::open(clones, "vantage-sh/ec2instances.info")?;
    let mut rows = Vec::new();
    for part in clone.show(FILE)?.split("\n\t\"").skip(1) {
        let Some((name, fields)) = part.split_once('"') else {
            continue;
        };
        let field = |key: &str| {
            let value = fields.split_once(&format!("{key}:"))?.1.lines().next()?;
            Some(value.trim().trim_matches([',', '"']).to_owned())
        };
        let number = |key| {
            field(key)
                .and_then(|n| n.parse::<u32>().ok())
                .filter(|n| *n > 0)
        };
        let (Some(count), Some(memory)) = (number("gpuCount"), number("gpuMemory")) else {
            continue;
        };
        if name.starts_with("g2.") {
            let gpu = field("gpuModel").unwrap_or_default();
            let (count, memory_mib) = (count.to_string(), (memory * 1024 / count).to_string());
            let row = Row {
                provider: "aws",
                name: name.to_owned(),
                gpu,
                count,
                memory_mib,
                ..Row::default()
            };
            rows.push(clone.row(row, FILE));
        }
    }
    Ok(rows)
}

/// SkyPilot's table of Google's machine types: GPU, then how many, then types.
fn google(clones: &Path) -> Result<Vec<Row>> {
    const FILE: &str = "sky/catalog/gcp_catalog.py";
    let clone = Clone::open(clones, "skypilot-org/skypilot")?;
    let text = clone.show(FILE)?;
    let (_, rest) = text
        .split_once("_ACC_INSTANCE_TYPE_DICTS = {")
        .ok_or_else(|| format!("{FILE}: no table"))?;
    let (mut rows, mut gpu, mut count) = (Vec::new(), String::new(), String::new());
    for line in rest.lines().take_while(|line| *line != "}") {
        if let Some((number, _)) = line
            .trim()
            .split_once(": [")
            .filter(|(n, _)| n.parse::<u8>().is_ok())
        {
            number.clone_into(&mut count);
        }
        for name in line.split('\'').skip(1).step_by(2) {
            if line.ends_with('{') {
                name.clone_into(&mut gpu);
                continue;
            }
            let row = Row {
                provider: "google",
                name: name.to_owned(),
                count: count.clone(),
                memory_mib: memory_in_name(&gpu),
                gpu: gpu.clone(),
                ..Row::default()
            };
            rows.push(clone.row(row, FILE));
        }
    }
    Ok(rows)
}

#[derive(Deserialize)]
struct MachineMappings {
    /// `g4-standard` to `nvidia-rtx-pro-6000`.
    machine_family_to_label_map: BTreeMap<String, String>,
    /// `rtx-6000-1/8` to `g4-standard-6`: the name ends in the number of GPUs.
    accelerator_shorthand_map: BTreeMap<String, String>,
}

/// Google's own names for its machine types, with parts of GPUs.
fn google_slices(clones: &Path) -> Result<Vec<Row>> {
    const FILE: &str = "pkg/config/machine_mappings.json";
    let clone = Clone::open(clones, "GoogleCloudPlatform/cluster-toolkit")?;
    let mappings: MachineMappings =
        serde_json::from_str(&clone.show(FILE)?).map_err(|e| format!("{FILE}: {e}"))?;
    let mut rows = Vec::new();
    for (short, name) in &mappings.accelerator_shorthand_map {
        let family = name.rsplit_once('-').map_or("", |(family, _)| family);
        let gpu = mappings
            .machine_family_to_label_map
            .get(family)
            .filter(|gpu| gpu.starts_with("nvidia-"));
        // `a2-megagpu-16g` stands for itself.
        let (Some(gpu), Some((_, count))) = (gpu, short.rsplit_once('-').filter(|_| short != name))
        else {
            continue;
        };
        let row = Row {
            provider: "google",
            name: name.clone(),
            gpu: gpu.clone(),
            count: count.to_owned(),
            memory_mib: memory_in_name(gpu),
            ..Row::default()
        };
        rows.push(clone.row(row, FILE));
    }
    Ok(rows)
}

/// A4X Max, from Google's blueprint for a cluster of them. The name ends in the number of GPUs, as
/// Google's names do.
fn google_bare_metal(clones: &Path) -> Result<Vec<Row>> {
    const FILE: &str = "examples/gke-a4x-max-bm/gke-a4x-max-bm.yaml";
    let clone = Clone::open(clones, "GoogleCloudPlatform/cluster-toolkit")?;
    let text = clone.show(FILE)?;
    let value = |key: &str| {
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(&format!("{key}: ")));
        line.map(str::to_owned)
            .ok_or_else(|| format!("{FILE}: no {key}"))
    };
    let (name, gpu) = (
        value("compute_nodepool_machine_type")?,
        value("accelerator_type")?,
    );
    let count = count_in_name(&name);
    Ok(vec![clone.row(
        Row {
            provider: "google",
            name,
            gpu,
            count,
            ..Row::default()
        },
        FILE,
    )])
}

/// A3 Edge, from SkyPilot's list of machine types for GPUDirect-TCPX: `a3-highgpu-8g, a3-edgegpu-8g
/// (H100)`.
fn google_edge(clones: &Path) -> Result<Vec<Row>> {
    const FILE: &str = "examples/gcp_gpu_direct_tcpx/README.md";
    let clone = Clone::open(clones, "skypilot-org/skypilot")?;
    let text = clone.show(FILE)?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("- **GPUDirect-TCPX**: "));
    let (names, gpu) = line
        .and_then(|l| l.split_once(" ("))
        .ok_or_else(|| format!("{FILE}: no list"))?;
    let row = |name: &str| Row {
        provider: "google",
        name: name.to_owned(),
        gpu: gpu.trim_end_matches(')').to_owned(),
        count: count_in_name(name),
        ..Row::default()
    };
    Ok(names
        .split(", ")
        .map(|name| clone.row(row(name), FILE))
        .collect())
}

/// `8` in `a2-highgpu-8g`.
fn count_in_name(name: &str) -> String {
    let count = name
        .split('-')
        .find_map(|part| part.strip_suffix('g').filter(|n| n.parse::<u8>().is_ok()));
    count.unwrap_or_default().to_owned()
}

/// The memory that the name of a GPU ends in: `nvidia-h100-80gb`, `A100-80GB`.
fn memory_in_name(gpu: &str) -> String {
    let gb = gpu
        .rsplit('-')
        .next()
        .and_then(|part| part.to_lowercase().strip_suffix("gb")?.parse::<u32>().ok());
    gb.map(|gb| (gb * 1024).to_string()).unwrap_or_default()
}

/// A page of a repository: commit, path, text.
type Page = (String, String, String);

/// The Markdown pages and tables in a folder of a repository: of a clone, or of a folder
/// `COMMIT/path`.
fn pages(clones: &Path, name: &str, folder: &str) -> Result<Vec<Page>> {
    if let Ok(clone) = Clone::open(clones, name) {
        let listed = git(
            &clone.path,
            &["ls-tree", "--name-only", "HEAD", &format!("{folder}/")],
        )?;
        let pages = listed
            .lines()
            .filter(|page| page.ends_with(".md") || page.ends_with(".csv"));
        return pages
            .map(|page| Ok((clone.commit.clone(), page.to_owned(), clone.show(page)?)))
            .collect();
    }
    let listed = |path: &Path| -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut paths: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        paths.sort();
        Ok(paths)
    };
    let last = |path: &Path| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let mut pages = Vec::new();
    for commit in listed(&clones.join(name.rsplit('/').next().unwrap_or(name)))? {
        for page in listed(&commit.join(folder))? {
            let text = fs::read_to_string(&page).map_err(|e| format!("{}: {e}", page.display()))?;
            pages.push((last(&commit), format!("{folder}/{}", last(&page)), text));
        }
    }
    Ok(pages)
}

/// Microsoft's pages about series of sizes. Each has a table of accelerators: `|
/// Standard_NV6ads_A10_v5 | 1/6 | 4 |`.
fn azure_pages(clones: &Path) -> Result<Vec<Row>> {
    const NAME: &str = "MicrosoftDocs/azure-compute-docs";
    let mut rows = Vec::new();
    for (commit, page, text) in pages(clones, NAME, AZURE_PAGES)? {
        let Some((_, table)) = text.split_once("| Size Name | Accelerators (Qty.) |") else {
            continue;
        };
        for line in table
            .lines()
            .skip(2)
            .take_while(|line| line.starts_with('|'))
        {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            if let [_, name, count, ..] = cells.as_slice() {
                rows.extend(azure_row(name, count, format!("{NAME} {page}"), &commit));
            }
        }
    }
    Ok(rows)
}

/// A size whose name contains its GPU, as the RTX PRO 6000's do, and that a page describes.
fn azure_row(name: &str, count: &str, source: String, commit: &str) -> Option<Row> {
    let (name, gpu, count) = (
        name.to_owned(),
        gpu_in_azure_name(name)?.to_owned(),
        count.to_owned(),
    );
    Some(Row {
        provider: "azure",
        name,
        gpu,
        count,
        source,
        commit: short(commit),
        ..Row::default()
    })
}

/// The GPU that the name of a size or of its family contains, unless it is of another maker.
fn gpu_in_azure_name(name: &str) -> Option<&'static str> {
    let contains = |part: &str| name.to_ascii_uppercase().contains(part);
    let other = NOT_NVIDIA
        .iter()
        .any(|part| contains(&part.to_ascii_uppercase()));
    IN_AZURE_NAMES
        .into_iter()
        .find(|part| !other && contains(part))
}

/// Azure's sizes in Kubernetes' autoscaler, which keeps Azure's own list. Each edition of it lists
/// what Azure then offered.
fn azure(clones: &Path) -> Result<Vec<Row>> {
    let clone = Clone::open(clones, "kubernetes/autoscaler")?;
    let gpus = azure_gpus(clones, &clone)?;
    let mut rows = Vec::new();
    for commit in git(&clone.path, &["log", "--format=%H", "--", AZURE_SIZES])?.lines() {
        // A commit may have moved the file.
        let Ok(text) = clone.show_at(commit, AZURE_SIZES) else {
            continue;
        };
        for part in text.split("InstanceType:").skip(1) {
            let fields: Vec<_> = part
                .lines()
                .take_while(|line| line.trim() != "},")
                .collect();
            let field = |key: &str| {
                let value = fields
                    .iter()
                    .find_map(|line| line.trim().strip_prefix(key))?;
                Some(value.trim_matches([' ', ':', ',', '"']))
            };
            let name = fields
                .first()
                .map_or("", |name| name.trim_matches([' ', ',', '"']));
            let family = field("SkuFamily").unwrap_or_default();
            if !name.starts_with("Standard_N")
                || NOT_NVIDIA
                    .iter()
                    .any(|n| name.contains(n) || family.contains(n))
            {
                continue;
            }
            let count = field("GPU").unwrap_or_default();
            // In the first edition, no size has GPUs.
            if count == "0" || is_amd_or_fpga(name) {
                continue;
            }
            // Editions before 2021 do not give the family, but a newer one may have the size.
            if rows.iter().any(|row: &Row| row.name == name) {
                continue;
            }
            let Some(gpu) = azure_gpu(name, family, &gpus) else {
                return Err(format!(
                    "{AZURE_SIZES} at {}: nothing names the GPU of {name}",
                    short(commit)
                ));
            };
            let row = Row {
                provider: "azure",
                name: name.to_owned(),
                memory_mib: memory_in_name(&gpu),
                gpu,
                count: count.to_owned(),
                architecture: architecture(field("Architecture").unwrap_or_default()).to_owned(),
                ..Row::default()
            };
            rows.push(clone.row_at(row, AZURE_SIZES, commit));
        }
    }
    Ok(rows)
}

/// `Standard_NV4as_v4` has a part of an AMD GPU, `Standard_NP10s` an FPGA. Old editions do not give
/// the family.
fn is_amd_or_fpga(name: &str) -> bool {
    name.starts_with("Standard_NP") || (name.starts_with("Standard_NV") && name.ends_with("as_v4"))
}

/// What sources call the GPUs of Azure's sizes and of their families. The keys are in lower case.
fn azure_gpus(clones: &Path, autoscaler: &Clone) -> Result<BTreeMap<String, String>> {
    const FAMILIES: &str = "sky/catalog/data_fetchers/fetch_azure.py";
    let mut gpus = BTreeMap::new();
    // `// K80`, then `"standard_nc6": true,`.
    let mut gpu = "";
    let sizes = autoscaler.show(AZURE_GPUS)?;
    for line in sizes.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("// ") {
            gpu = comment;
        } else if let Some((size, "")) = line
            .strip_prefix('"')
            .and_then(|l| l.split_once('"'))
            .map(|(s, _)| (s, ""))
        {
            gpus.insert(size.to_owned(), gpu.to_owned());
        }
    }
    // `'standardNCFamily': 'K80',`
    let families = Clone::open(clones, "skypilot-org/skypilot")?.show(FAMILIES)?;
    let (_, families) = families
        .split_once("GPU_NAME = {")
        .ok_or_else(|| format!("{FAMILIES}: no table"))?;
    for line in families.lines().take_while(|line| *line != "}") {
        if let [_, family, _, gpu, _] = line.split('\'').collect::<Vec<_>>().as_slice() {
            gpus.insert(family.to_lowercase(), (*gpu).to_owned());
        }
    }
    Ok(gpus)
}

/// The family says the memory, too, where it has a name; then the size's own name, then the list of
/// sizes.
fn azure_gpu(name: &str, family: &str, gpus: &BTreeMap<String, String>) -> Option<String> {
    let size = name.to_lowercase();
    let size = size.trim_end_matches("_promo");
    let of_family = gpus.get(&family.to_lowercase()).cloned();
    of_family
        .or_else(|| gpu_in_azure_name(name).map(str::to_owned))
        .or_else(|| gpus.get(size).cloned())
}

/// The sizes with an RTX PRO 6000 or a part of one, from a table of Microsoft's:
/// `` | `Standard_NC36ds_xl_RTXPRO6000BSE_v6` | 36 | 1/4 | 24 GB | ``.
fn azure_rtx(clones: &Path) -> Result<Vec<Row>> {
    const NAME: &str = "microsoft/physical-ai-toolchain";
    let mut rows = Vec::new();
    for (commit, page, text) in pages(clones, NAME, "docs/reference")? {
        for line in text.lines().filter(|line| line.starts_with("| `Standard_")) {
            let cells: Vec<_> = line
                .split('|')
                .map(|cell| cell.trim().trim_matches('`'))
                .collect();
            if let [_, name, _, count, _, _] = cells.as_slice() {
                rows.extend(azure_row(name, count, format!("{NAME} {page}"), &commit));
            }
        }
    }
    Ok(rows)
}

/// Further sizes with NVIDIA GPUs that Azure's Kubernetes service knows, without the number of
/// GPUs.
fn azure_names(clones: &Path) -> Result<Vec<Row>> {
    const FILE: &str = "pkg/utils/supported-gpus.yaml";
    #[derive(Deserialize)]
    struct Size {
        gpu: String,
    }
    let clone = Clone::open(clones, "Azure/karpenter-provider-azure")?;
    let gpus = azure_gpus(clones, &Clone::open(clones, "kubernetes/autoscaler")?)?;
    let text = clone.show(FILE)?;
    let sizes: BTreeMap<String, Size> =
        serde_yaml::from_str(&text).map_err(|e| format!("{FILE}: {e}"))?;
    let mut rows = Vec::new();
    for (name, _) in sizes.into_iter().filter(|(_, size)| size.gpu == "nvidia") {
        // A comment before each group of sizes names their family.
        let before = text
            .split_once(&format!("\n{name}:"))
            .map_or("", |(before, _)| before);
        let family = before
            .rsplit_once("\n#")
            .map_or("", |(_, rest)| rest.lines().next().unwrap_or_default());
        let family = family.trim().trim_end_matches(':');
        let gpu = gpu_in_azure_name(&name)
            .or_else(|| gpu_in_azure_name(family))
            .map(str::to_owned);
        let Some(gpu) = gpu.or_else(|| azure_gpu(&name, family, &gpus)) else {
            return Err(format!("{FILE}: nothing names the GPU of {name}"));
        };
        rows.push(clone.row(
            Row {
                provider: "azure",
                name,
                gpu,
                ..Row::default()
            },
            FILE,
        ));
    }
    Ok(rows)
}

/// What Lambda's interface answered, as the tests of Inference Plane keep it: `8x H100 (80 GB
/// SXM5)`.
fn lambda(clones: &Path) -> Result<Vec<Row>> {
    const FILE: &str = "internal/provisioners/lambdalabs/testdata/instance-types.json";
    #[derive(Deserialize)]
    struct Offer {
        instance_type: Type,
    }
    #[derive(Deserialize)]
    struct Type {
        gpu_description: String,
        specs: Specs,
        #[serde(default)]
        architecture: String,
    }
    #[derive(Deserialize)]
    struct Specs {
        gpus: u8,
    }
    let clone = Clone::open(clones, "inference-book/inference-plane")?;
    let offers: BTreeMap<String, Offer> =
        serde_json::from_str(&clone.show(FILE)?).map_err(|e| format!("{FILE}: {e}"))?;
    let row = |(name, offer): (String, Offer)| {
        let Type {
            gpu_description,
            specs,
            architecture: of,
        } = offer.instance_type;
        // `H100 (80 GB SXM5)`
        let gb = gpu_description
            .split_once('(')
            .and_then(|(_, rest)| rest.split(' ').next()?.parse::<u32>().ok());
        let row = Row {
            provider: "lambda",
            name,
            count: specs.gpus.to_string(),
            memory_mib: gb.map(|gb| (gb * 1024).to_string()).unwrap_or_default(),
            gpu: gpu_description,
            architecture: architecture(&of).to_owned(),
            ..Row::default()
        };
        (specs.gpus > 0).then(|| clone.row(row, FILE))
    };
    Ok(offers.into_iter().filter_map(row).collect())
}

/// Oracle's shapes in SkyPilot's catalog, which is made from Oracle's price list:
/// `BM.GPU.H100.8,H100,8,224,2048,"{'Gpus': [{'Name': 'H100', 'Manufacturer': 'NVIDIA', ...
/// 'SizeInMiB': 81920 ...`.
fn oci_catalog(clones: &Path) -> Result<Vec<Row>> {
    const NAME: &str = "skypilot-org/skypilot-catalog";
    let mut rows: Vec<Row> = Vec::new();
    for (commit, page, text) in pages(clones, NAME, "catalogs/v8/oci")? {
        for line in text
            .lines()
            .filter(|line| line.contains("'Manufacturer': 'NVIDIA'"))
        {
            let mut cells = line.split(',');
            let (Some(name), Some(gpu), Some(count)) = (cells.next(), cells.next(), cells.next())
            else {
                continue;
            };
            // There is a line for each region.
            if rows.iter().any(|row| row.name == name) {
                continue;
            }
            let memory = line
                .split_once("'SizeInMiB': ")
                .and_then(|(_, rest)| rest.split('}').next());
            rows.push(Row {
                provider: "oci",
                name: name.to_owned(),
                gpu: gpu.to_owned(),
                count: count.to_owned(),
                memory_mib: memory.unwrap_or_default().to_owned(),
                source: format!("{NAME} {page}"),
                commit: short(&commit),
                ..Row::default()
            });
        }
    }
    Ok(rows)
}

/// The shapes that Oracle's own stack for clusters tells Slurm of: `shape == "VM.GPU3.2"`, then
/// `Gres=gpu:V100:2`.
fn oci_stack(clones: &Path) -> Result<Vec<Row>> {
    const FILE: &str = "playbooks/roles/slurm/templates/systemd/slurmd.service.d/unit.conf.j2";
    let clone = Clone::open(clones, "oracle-quickstart/oci-hpc")?;
    let (mut rows, mut shapes) = (Vec::new(), Vec::new());
    for line in clone.show(FILE)?.lines() {
        if line.contains("if shape ==") {
            shapes = line
                .split('"')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect();
        }
        let gpus = line
            .split_once("Gres=gpu:")
            .and_then(|(_, gpus)| gpus.split('"').next()?.split_once(':'));
        let Some((gpu, count)) = gpus.filter(|(gpu, _)| !gpu.starts_with("MI")) else {
            continue;
        };
        for name in shapes.drain(..) {
            let (gpu, count) = (gpu.to_owned(), count.to_owned());
            rows.push(clone.row(
                Row {
                    provider: "oci",
                    name,
                    gpu,
                    count,
                    ..Row::default()
                },
                FILE,
            ));
        }
    }
    Ok(rows)
}

/// An architecture as the database spells it.
fn architecture(of: &str) -> &str {
    match of {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    }
}

/// Compares names, counts, architectures and PCI ids. Every recorded type must have a row, and
/// every row a recorded type.
pub fn check(database: &Database) -> Result<Comparison> {
    let rows = table::read(TABLE)?;
    let (mut differences, mut recorded) = (Vec::new(), Vec::new());
    for row in &rows {
        let [
            provider,
            name,
            gpu,
            count,
            _,
            architecture,
            device,
            source,
            _,
        ] = row.as_slice()
        else {
            return Err(format!("{TABLE}: {row:?}"));
        };
        let of_name = |i: &&Instance| {
            i.provider.to_string() == *provider && i.name.eq_ignore_ascii_case(name)
        };
        recorded.push((provider, name.to_lowercase()));
        let Some(known) = database.instances.iter().find(of_name) else {
            differences.push(format!(
                "{name}: the database does not have it; {count} {gpu} ({source})"
            ));
            continue;
        };
        let is_disputed = WRONG_COUNTS.contains(&(name.as_str(), count.as_str()));
        match count.parse::<u8>() {
            Ok(0) | Err(_) if count.is_empty() => {
                if known.assumed.is_none() {
                    differences.push(format!(
                        "{name}: no source gives the number of GPUs, and nothing is assumed"
                    ));
                }
            }
            Ok(number) if number > 0 => {
                if known.count != number && !is_disputed {
                    differences.push(format!(
                        "{name}: {number} GPUs; the database says {}",
                        known.count
                    ));
                }
            }
            // A part of a GPU.
            _ if known.part && known.count == 1 => {}
            _ => differences.push(format!(
                "{name}: {count} of a GPU; the database says {} whole ones",
                known.count
            )),
        }
        if !architecture.is_empty() && known.arch() != architecture {
            differences.push(format!(
                "{name}: {architecture}; the database says {}",
                known.arch()
            ));
        }
        if !device.is_empty() && known.gpu.to_string() != *device {
            differences.push(format!(
                "{name}: 10de:{device}; the database says 10de:{}",
                known.gpu
            ));
        }
    }
    for i in &database.instances {
        if !recorded.iter().any(|(provider, name)| {
            **provider == i.provider.to_string() && *name == i.name.to_lowercase()
        }) {
            differences.push(format!("{}: no recorded source has it", i.name));
        }
    }
    Ok(Comparison {
        what: "GPUs of cloud instance types",
        facts: rows.len(),
        differences,
    })
}
