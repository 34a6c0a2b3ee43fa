//! What `nvidia-smi` prints, as people paste it: its table, of any version since 2015, and the first
//! lines of `nvidia-smi -q` and `nvidia-smi --version`.

/// The most tables that are read of a text.
const MAX_TABLES: usize = 100;

/// The most rows of a table.
const MAX_GPUS: usize = 1024;

/// How a value that the driver cannot give is printed.
const UNREADABLE: [&str; 4] = ["ERR!", "Unknown Error", "GPU is lost", "requires reset"];

/// Names of the driver's version, before a colon. Since branch 600 it is that of the kernel-mode
/// driver.
const DRIVER: [&str; 2] = ["driver version", "kmd version"];

/// Names of the newest CUDA that the driver runs.
const CUDA: [&str; 2] = ["cuda version", "cuda umd version"];

/// How far from the driver's version that of CUDA may be, in lines.
const NEAR: usize = 5;

/// A table of `nvidia-smi`, or only its head.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SmiTable {
    /// The line that names the driver; the text's first line is 1.
    pub line: usize,
    /// The version of `nvidia-smi` itself.
    pub tool: Option<String>,
    /// The driver's version, `550.54.15`.
    pub driver: String,
    /// What it says of CUDA: `12.4`, `N/A`; none before driver 410.
    pub cuda: Option<String>,
    /// Whether the text has the part with GPUs.
    pub has_rows: bool,
    /// The GPUs.
    pub gpus: Vec<SmiGpu>,
}

/// A GPU in the table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SmiGpu {
    /// Its number.
    pub index: u32,
    /// Its name, which may be cut: `NVIDIA GeForce RTX 2080 ...`.
    pub name: String,
    /// The columns whose values the driver could not read.
    pub unreadable: Vec<&'static str>,
    /// Uncorrected errors of its memory since the driver was loaded, if it counts them.
    pub ecc_errors: Option<u64>,
    /// The memory in use and all of it, in MiB.
    pub memory: Option<(u64, u64)>,
    /// Which processes it accepts: `Default`, `Prohibited`, `E. Process`.
    pub compute_mode: String,
    /// The MIG mode, `Enabled`; with an asterisk if it changes at the next reset. None in tables
    /// before driver 450.
    pub mig: Option<String>,
}

impl SmiGpu {
    /// Whether nothing of it could be read.
    pub fn is_silent(&self) -> bool {
        let readings = ["Fan", "Temp", "Perf", "Pwr"];
        readings.iter().all(|one| self.unreadable.contains(one))
    }
}

/// The tables of a text, each kind once.
pub fn tables(text: &str) -> Vec<SmiTable> {
    let lines: Vec<_> = text
        .lines()
        .map(|line| line.trim_start_matches(['>', ' ', '\t']))
        .collect();
    let mut all: Vec<SmiTable> = Vec::new();
    let mut found = 0;
    for (at, line) in lines.iter().enumerate() {
        let Some(driver) = field(line, &DRIVER).filter(|value| is_version(value)) else {
            continue;
        };
        let near = &lines[at.saturating_sub(NEAR)..lines.len().min(at + NEAR + 1)];
        let tool = near.iter().find_map(|line| tool(line));
        let cuda = field(line, &CUDA).or_else(|| near.iter().find_map(|line| field(line, &CUDA)));
        if tool.is_none() && cuda.is_none() {
            continue;
        }
        found += 1;
        if found > MAX_TABLES {
            break;
        }
        let mut table = SmiTable {
            line: at + 1,
            tool: tool.map(str::to_owned),
            driver: driver.to_owned(),
            cuda: cuda.map(str::to_owned),
            ..SmiTable::default()
        };
        rows(&lines[at + 1..], &mut table);
        let is_new = all.iter().all(|other| {
            let line = other.line;
            *other
                != SmiTable {
                    line,
                    ..table.clone()
                }
        });
        if is_new {
            all.push(table);
        }
    }
    all
}

/// The value after one of these names and a colon.
fn field<'a>(line: &'a str, names: &[&str]) -> Option<&'a str> {
    let lower = line.to_ascii_lowercase();
    names.iter().find_map(|name| {
        let at = lower.find(name)?;
        let rest = line[at + name.len()..].trim_start().strip_prefix(':')?;
        let value = rest.trim_start().split([' ', '|']).next()?;
        Some(value)
            .filter(|value| is_version(value) || *value == "N/A" || UNREADABLE.contains(value))
    })
}

/// The version after the program's name.
fn tool(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("NVIDIA-SMI")?;
    let rest = rest
        .trim_start()
        .trim_start_matches("version")
        .trim_start_matches([' ', ':']);
    let version = rest.split([' ', '|']).next()?;
    is_version(version).then_some(version)
}

fn is_version(text: &str) -> bool {
    text.contains('.')
        && text.len() <= 20
        && text
            .split('.')
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

/// Reads the rows of GPUs, up to the next head or the processes.
fn rows(lines: &[&str], table: &mut SmiTable) {
    for line in lines {
        if ["Processes:", "MIG devices:", "NVIDIA-SMI"]
            .iter()
            .any(|end| line.contains(end))
        {
            return;
        }
        let Some(row) = line.strip_prefix('|') else {
            continue;
        };
        if row.starts_with("===") {
            table.has_rows = true;
            continue;
        }
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        // What stands behind the last bar is empty.
        let [left, middle, right, ""] = cells[..] else {
            continue;
        };
        match first_of(left) {
            Some((index, name)) if middle.contains(':') && table.gpus.len() < MAX_GPUS => {
                table.has_rows = true;
                table.gpus.push(SmiGpu {
                    index,
                    name: name.to_owned(),
                    ecc_errors: right.parse().ok(),
                    ..SmiGpu::default()
                });
                note(table, right, "Volatile Uncorr. ECC");
            }
            _ if !table.has_rows => {}
            _ if left.is_empty() && middle.is_empty() => {
                if let Some(gpu) = table.gpus.last_mut() {
                    gpu.mig = Some(right.to_owned());
                }
            }
            _ => second_line(table, left, middle, right),
        }
    }
}

/// The number and the name in the first cell of a GPU; the word after them is its persistence mode.
fn first_of(cell: &str) -> Option<(u32, &str)> {
    let (index, rest) = cell.split_once(' ')?;
    let (name, _) = rest.trim().rsplit_once(' ')?;
    Some((index.parse().ok()?, name.trim()))
}

/// The second line of a GPU: its fan, temperature, performance state and power; its memory; its
/// utilisation and compute mode.
fn second_line(table: &mut SmiTable, left: &str, middle: &str, right: &str) {
    let readings = left.split_whitespace().zip(["Fan", "Temp", "Perf", "Pwr"]);
    for (value, column) in readings {
        note(table, value, column);
    }
    note(table, middle, "Memory-Usage");
    let (used, mode) = right.split_once(' ').unwrap_or((right, ""));
    note(table, used, "GPU-Util");
    let Some(gpu) = table.gpus.last_mut() else {
        return;
    };
    gpu.compute_mode = mode.trim().to_owned();
    gpu.memory = middle.split_once('/').and_then(|(used, all)| {
        let mib = |text: &str| text.trim().trim_end_matches("MiB").parse().ok();
        Some((mib(used)?, mib(all)?))
    });
}

/// Notes the column of the last GPU if its value could not be read.
fn note(table: &mut SmiTable, value: &str, column: &'static str) {
    let is_unreadable = UNREADABLE.iter().any(|sign| value.contains(sign));
    if let Some(gpu) = table.gpus.last_mut().filter(|_| is_unreadable) {
        gpu.unreadable.push(column);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of 2018, before drivers named CUDA.
    const OLD: &str = "\
Fri Feb  9 04:30:31 2018
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 375.88                 Driver Version: 375.88                    |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla P100-SXM2...  Off  | 0002:01:00.0     Off |                    0 |
| N/A   33C    P0    30W / 300W |      0MiB / 16276MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
|   1  Tesla P100-SXM2...  Off  | 0003:01:00.0     Off |                    2 |
| N/A   32C    P0    29W / 300W |  16200MiB / 16276MiB |      0%   Prohibited |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID  Type  Process name                               Usage      |
|=============================================================================|
|    1      4711    C   python3                                    16190MiB   |
+-----------------------------------------------------------------------------+
";

    #[test]
    fn tables_of_all_years_are_read() {
        let [old] = &tables(OLD)[..] else {
            panic!("one table")
        };
        assert_eq!(
            (old.line, old.driver.as_str(), old.cuda.as_deref()),
            (3, "375.88", None)
        );
        let [first, second] = &old.gpus[..] else {
            panic!("two GPUs")
        };
        assert_eq!(
            (first.index, first.name.as_str()),
            (0, "Tesla P100-SXM2...")
        );
        assert_eq!((first.ecc_errors, second.ecc_errors), (Some(0), Some(2)));
        assert_eq!(second.memory, Some((16_200, 16_276)));
        assert_eq!(
            (second.compute_mode.as_str(), second.mig.as_deref()),
            ("Prohibited", None)
        );
        assert!(first.unreadable.is_empty());
        // Branch 610 has other names; a mail quotes it.
        let new = "\
> | NVIDIA-SMI 610.57.04              KMD Version: 610.57.04     CUDA UMD Version: 13.3     |
> |=========================================+========================+======================|
> |   0  NVIDIA A100-SXM4-40GB          On  |   00000000:0B:00.0 Off |                 ERR! |
> |ERR!  ERR!  ERR!             ERR! / ERR! |       0MiB /  40960MiB |    ERR!         ERR! |
> |                                         |                        |             Enabled* |
";
        let [table] = &tables(new)[..] else {
            panic!("one table")
        };
        assert_eq!(
            (table.driver.as_str(), table.cuda.as_deref()),
            ("610.57.04", Some("13.3"))
        );
        let gpu = &table.gpus[0];
        assert!(gpu.is_silent(), "{gpu:?}");
        assert_eq!(gpu.mig.as_deref(), Some("Enabled*"));
    }

    #[test]
    fn heads_alone_are_read_and_other_programs_are_not() {
        for (text, driver, cuda) in [
            (
                "Driver Version: 550.54.15      CUDA Version: 12.4",
                "550.54.15",
                Some("12.4"),
            ),
            (
                "| NVIDIA-SMI 390.157      Driver Version: 390.157 |",
                "390.157",
                None,
            ),
            (
                "Driver Version          : 580.65.06\nCUDA Version            : 13.0\n\nAttached GPUs : 8",
                "580.65.06",
                Some("13.0"),
            ),
            (
                "NVIDIA-SMI version  : 610.57.04\nNVML version        : 610.57\n\
                 DRIVER version      : Deprecated, see \"KMD version\" instead\n\
                 KMD version         : 610.57.04\nCUDA UMD version    : 13.3",
                "610.57.04",
                Some("13.3"),
            ),
            (
                "NVIDIA-SMI 535.54 Driver Version: 535.54 CUDA Version: N/A",
                "535.54",
                Some("N/A"),
            ),
        ] {
            let [table] = &tables(text)[..] else {
                panic!("{text}")
            };
            assert_eq!(
                (table.driver.as_str(), table.cuda.as_deref()),
                (driver, cuda),
                "{text}"
            );
            assert!(!table.has_rows);
        }
        for other in [
            "Driver Version: 22.40",
            "Driver version: r535",
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
            "Radeon driver version: 6.10.5 and nothing else",
            "",
        ] {
            assert_eq!(tables(other), [], "{other}");
        }
    }

    #[test]
    fn the_same_table_counts_once() {
        assert_eq!(tables(&OLD.repeat(1000)).len(), 1);
        assert_eq!(
            tables(&"| NVIDIA-SMI 1.2 Driver Version: 1.2 |\n|  0 x Off | 1:2 | 0 |\n".repeat(9))
                .len(),
            1
        );
    }
}
