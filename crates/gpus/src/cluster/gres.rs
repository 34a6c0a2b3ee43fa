//! Lines of Slurm's `gres.conf` for the GPUs of a host, as Slurm detects them itself if it is built
//! with NVML: <https://slurm.schedmd.com/gres.conf.html>, compared with its source (`gpu_nvml.c`,
//! `xcpuinfo.c`) at 284c3b95f08a.

use gpusetup_nvidia::{GpuReading, GpuTable, MigDevice};
use gpusetup_system::System;
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::path::Path;

const PROCESSORS: &str = "/sys/devices/system/cpu";
/// The numbers of the device files that give access to MIG devices.
const MINORS: &str = "/proc/driver/nvidia-caps/mig-minors";

/// GPUs, or MIG devices, that one line describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gres {
    /// The type that jobs name: `nvidia_a100-sxm4-40gb`.
    pub kind: String,
    /// Device files: one of each GPU, or all of one MIG device.
    pub(crate) files: Files,
    /// The cores that are nearest, by Slurm's numbers. None if all of the host's are.
    pub(crate) cores: Option<String>,
    /// The number of NVLinks to each GPU of the host, -1 for itself. None if no two GPUs are linked
    /// directly.
    pub(crate) links: Option<String>,
}

/// Device files of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Files {
    /// `/dev/nvidiaN` of each GPU, in a row.
    Gpus {
        /// The number of the first one.
        first: u32,
        /// How many there are.
        count: u32,
    },
    /// All files of one MIG device.
    Mig(Vec<String>),
}

impl Display for Gres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name=gpu Type={}", self.kind)?;
        match &self.files {
            Files::Gpus { first, count: 1 } => write!(f, " File=/dev/nvidia{first}")?,
            Files::Gpus { first, count } => {
                write!(f, " File=/dev/nvidia[{first}-{}]", first + count - 1)?
            }
            Files::Mig(files) => write!(f, " MultipleFiles={}", files.join(","))?,
        }
        let rest = [("Cores", &self.cores), ("Links", &self.links)];
        rest.into_iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)))
            .try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

impl Gres {
    /// Every device file of the line.
    pub fn files(&self) -> Vec<String> {
        match &self.files {
            Files::Gpus { first, count } => (*first..first + count)
                .map(|number| format!("/dev/nvidia{number}"))
                .collect(),
            Files::Mig(files) => files.clone(),
        }
    }

    /// The number of resources that the line describes.
    pub fn count(&self) -> u32 {
        if let Files::Gpus { count, .. } = self.files {
            count
        } else {
            1
        }
    }
}

/// The lines for the GPUs that the driver reports.
///
/// # Errors
///
/// If the driver does not report the device file of a GPU, or the host has none for a MIG device.
pub fn gres(system: &System, table: &GpuTable) -> Result<Vec<Gres>, String> {
    let cores = Cores::of(system);
    let minors = system.read_text(MINORS).ok().flatten().unwrap_or_default();
    let mut lines: Vec<Gres> = Vec::new();
    for gpu in table.gpus.iter().filter(|gpu| gpu.refused.is_none()) {
        let kind = kind(gpu.name.as_deref().unwrap_or_default());
        let Some(minor) = gpu.minor else {
            return Err(format!(
                "the driver does not report which device file belongs to GPU {}",
                gpu.shown()
            ));
        };
        let cores = cores.near(system, gpu);
        if let Some(mig) = gpu.mig.as_ref().filter(|mig| mig.enabled) {
            for device in &mig.devices {
                let files = mig_files(minor, device, &minors).ok_or_else(|| {
                    format!("{MINORS} does not list the MIG device {}", shown(device))
                })?;
                let kind = kind_of_mig(&kind, device);
                lines.push(Gres {
                    kind,
                    files: Files::Mig(files),
                    cores: cores.clone(),
                    links: None,
                });
            }
            continue;
        }
        let next = Gres {
            kind,
            files: Files::Gpus {
                first: minor,
                count: 1,
            },
            cores,
            links: links(gpu, table),
        };
        match lines.last_mut() {
            Some(last) if follows(last, &next) => {
                if let Files::Gpus { count, .. } = &mut last.files {
                    *count += 1;
                }
            }
            _ => lines.push(next),
        }
    }
    Ok(lines)
}

/// Whether a line can be part of the one before. A line with links describes one GPU.
fn follows(last: &Gres, next: &Gres) -> bool {
    let is_alike = last.kind == next.kind
        && last.cores == next.cores
        && last.links.is_none()
        && next.links.is_none();
    match (&last.files, &next.files) {
        (Files::Gpus { first, count }, Files::Gpus { first: minor, .. }) => {
            is_alike && first + count == *minor
        }
        _ => false,
    }
}

/// The name of a GPU as Slurm writes it: `NVIDIA A100-SXM4-40GB` is `nvidia_a100-sxm4-40gb`. What
/// would end the value is left out.
fn kind(name: &str) -> String {
    let name = name.to_ascii_lowercase().replace(' ', "_");
    name.chars()
        .filter(|c| c.is_ascii_alphanumeric() || "_-.+".contains(*c))
        .collect()
}

/// `nvidia_a100_1g.5gb`: the name of the GPU up to its first hyphen, and the profile.
fn kind_of_mig(gpu: &str, device: &MigDevice) -> String {
    let gpu = gpu.split('-').next().unwrap_or(gpu);
    let name = kind(device.name.as_deref().unwrap_or_default());
    match (name.split_once("mig_"), &device.share) {
        (Some((_, profile)), _) => format!("{gpu}_{profile}"),
        // Drivers before 470 do not name the profile.
        (None, Some(share)) => {
            let part = match share.compute_slices == share.gpu_slices {
                true => String::new(),
                false => format!("{}c.", share.compute_slices),
            };
            format!(
                "{gpu}_{part}{}g.{}gb",
                share.gpu_slices,
                share.memory_mebibytes.div_ceil(1024)
            )
        }
        (None, None) => format!("{gpu}_mig"),
    }
}

fn shown(device: &MigDevice) -> &str {
    device.uuid.as_deref().unwrap_or("without a UUID")
}

/// The device file of the GPU, and those that give access to the GPU instance and to the compute
/// instance.
fn mig_files(gpu: u32, device: &MigDevice, minors: &str) -> Option<Vec<String>> {
    let (instance, compute) = (device.gpu_instance?, device.compute_instance?);
    let mut files = vec![format!("/dev/nvidia{gpu}")];
    for entry in [
        format!("gpu{gpu}/gi{instance}/access"),
        format!("gpu{gpu}/gi{instance}/ci{compute}/access"),
    ] {
        let mut lines = minors.lines().filter_map(|line| line.split_once(' '));
        let (_, minor) = lines.find(|(name, _)| *name == entry)?;
        let minor: u32 = minor.trim().parse().ok()?;
        files.push(format!("/dev/nvidia-caps/nvidia-cap{minor}"));
    }
    Some(files)
}

/// The NVLinks to each GPU. Links to switches lead to no GPU in particular, and are not counted.
fn links(gpu: &GpuReading, table: &GpuTable) -> Option<String> {
    let counts: Vec<_> = table
        .gpus
        .iter()
        .map(|to| {
            let links =
                gpu.nvlinks.iter().flatten().filter(|link| {
                    link.active && link.address.is_some() && link.address == to.address
                });
            (to.address != gpu.address).then(|| links.count())
        })
        .collect();
    let is_linked = counts.iter().flatten().any(|count| *count > 0);
    let texts = counts
        .iter()
        .map(|count| count.map_or_else(|| "-1".to_owned(), |count| count.to_string()));
    is_linked.then(|| texts.collect::<Vec<_>>().join(","))
}

/// The cores of a host in Slurm's order: by socket, then by core. Each has one or several
/// processors (hardware threads).
struct Cores {
    /// The number of the core by that of each processor.
    of_processor: BTreeMap<u32, usize>,
    count: usize,
}

impl Cores {
    fn of(system: &System) -> Self {
        let names = system.list(PROCESSORS).unwrap_or_default();
        let all = names
            .iter()
            .filter_map(|name| name.strip_prefix("cpu")?.parse::<u32>().ok());
        // The first processor of a core stands for it, and that of a socket for the socket.
        let mut seen: Vec<(u32, u32, u32)> = Vec::new();
        for number in all {
            let topology = Path::new(PROCESSORS).join(format!("cpu{number}/topology"));
            let text = |file: &str| system.read_text(topology.join(file)).ok().flatten();
            let siblings = text("core_cpus_list").or_else(|| text("thread_siblings_list"));
            let package = text("physical_package_id")
                .and_then(|id| id.trim().parse().ok())
                .unwrap_or(0);
            let core = siblings
                .and_then(|list| numbers(&list).first().copied())
                .unwrap_or(number);
            seen.push((package, core, number));
        }
        let mut sockets: BTreeMap<u32, u32> = BTreeMap::new();
        for (package, _, number) in &seen {
            let first = sockets.entry(*package).or_insert(*number);
            *first = (*first).min(*number);
        }
        let mut order: Vec<_> = seen
            .iter()
            .map(|(package, core, _)| (sockets[package], *core))
            .collect();
        order.sort_unstable();
        order.dedup();
        let of_processor = seen
            .iter()
            .map(|(package, core, number)| {
                let rank = order.binary_search(&(sockets[package], *core));
                (*number, rank.unwrap_or(0))
            })
            .collect();
        Self {
            of_processor,
            count: order.len(),
        }
    }

    /// Those that are nearest to a GPU, as ranges. None if they are not known, or if all are.
    fn near(&self, system: &System, gpu: &GpuReading) -> Option<String> {
        let file = Path::new("/sys/bus/pci/devices")
            .join(gpu.address.as_ref()?)
            .join("local_cpulist");
        let list = system.read_text(file).ok().flatten()?;
        let mut cores: Vec<_> = numbers(&list)
            .iter()
            .filter_map(|n| self.of_processor.get(n).copied())
            .collect();
        cores.sort_unstable();
        cores.dedup();
        (!cores.is_empty() && cores.len() < self.count).then(|| ranges(&cores))
    }
}

/// The numbers of a list in the kernel's form: `0-3,64`. A list that is not in this form has none.
fn numbers(list: &str) -> Vec<u32> {
    /// More than any machine has.
    const MAX_NUMBER: u32 = 65536;
    let mut all = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        match (from.parse::<u32>(), to.parse::<u32>()) {
            (Ok(from), Ok(to)) if from <= to && to < MAX_NUMBER => all.extend(from..=to),
            _ => return Vec::new(),
        }
    }
    all
}

/// The files that a name with a range stands for: `/dev/nvidia[0-3]`.
pub fn each_file(name: &str) -> Vec<String> {
    let range = name
        .split_once('[')
        .and_then(|(start, rest)| Some((start, rest.strip_suffix(']')?)));
    match range {
        Some((start, list)) => numbers(list)
            .iter()
            .map(|number| format!("{start}{number}"))
            .collect(),
        None => vec![name.to_owned()],
    }
}

/// Sorted numbers as ranges: `0-3,8`.
fn ranges(sorted: &[usize]) -> String {
    let mut texts = Vec::new();
    for run in sorted.chunk_by(|one, next| one + 1 == *next) {
        texts.push(match run {
            [only] => only.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => continue,
        });
    }
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Two sockets with two cores each, whose second threads come after all first ones. The even
    /// cores are on the first socket.
    fn host() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a temporary directory");
        for processor in 0..8_u32 {
            let core = processor % 4;
            let folder = root
                .path()
                .join(format!("sys/devices/system/cpu/cpu{processor}/topology"));
            fs::create_dir_all(&folder).expect("made");
            fs::write(
                folder.join("physical_package_id"),
                format!("{}\n", core % 2),
            )
            .expect("written");
            fs::write(
                folder.join("core_cpus_list"),
                format!("{core},{}\n", core + 4),
            )
            .expect("written");
        }
        for (address, near) in [("0000:17:00.0", "0,2,4,6"), ("0000:65:00.0", "0-7")] {
            let folder = root.path().join("sys/bus/pci/devices").join(address);
            fs::create_dir_all(&folder).expect("made");
            fs::write(folder.join("local_cpulist"), format!("{near}\n")).expect("written");
        }
        root
    }

    fn gpu(minor: u32, address: &str) -> GpuReading {
        GpuReading {
            name: Some("NVIDIA A100-SXM4-40GB".to_owned()),
            minor: Some(minor),
            address: Some(address.to_owned()),
            ..GpuReading::default()
        }
    }

    fn lines(table: GpuTable) -> Vec<String> {
        let root = host();
        gres(&System::at(root.path()), &table)
            .expect("lines")
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn cores_are_those_of_the_socket_in_slurms_order() {
        let table = GpuTable {
            gpus: vec![gpu(0, "0000:17:00.0")],
            ..GpuTable::default()
        };
        assert_eq!(
            lines(table),
            ["Name=gpu Type=nvidia_a100-sxm4-40gb File=/dev/nvidia0 Cores=0-1"]
        );
    }

    #[test]
    fn equal_gpus_share_a_line_where_their_numbers_follow() {
        let gpus = [1, 2, 4].map(|minor| gpu(minor, "0000:65:00.0")).to_vec();
        let table = GpuTable {
            gpus,
            ..GpuTable::default()
        };
        assert_eq!(
            lines(table),
            [
                "Name=gpu Type=nvidia_a100-sxm4-40gb File=/dev/nvidia[1-2]",
                "Name=gpu Type=nvidia_a100-sxm4-40gb File=/dev/nvidia4"
            ]
        );
    }

    #[test]
    fn a_gpu_without_a_device_file_is_refused() {
        let table = GpuTable {
            gpus: vec![GpuReading {
                minor: None,
                ..gpu(0, "x")
            }],
            ..GpuTable::default()
        };
        let root = host();
        let why = gres(&System::at(root.path()), &table).expect_err("no file");
        assert_eq!(
            why,
            "the driver does not report which device file belongs to GPU x"
        );
    }

    #[test]
    fn lists_of_processors_are_read_as_the_kernel_writes_them() {
        assert_eq!(numbers("0-2,8,10-11\n"), [0, 1, 2, 8, 10, 11]);
        for nonsense in ["", "\n", "3-1", "0-4294967295", "a", "1,-2"] {
            assert_eq!(numbers(nonsense), [0_u32; 0], "{nonsense:?}");
        }
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }
}
