//! What `nvidia-smi` prints, as people paste it: its table, of any version since 2015, and the first
//! lines of `nvidia-smi -q` and `nvidia-smi --version`.

/// The most tables that are read of a text.
const MAX_TABLES: usize = 1000;

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

/// The columns of a GPU's second line.
const READINGS: [&str; 6] = ["Fan", "Temp", "Perf", "Pwr:Usage", "", "Pwr:Cap"];

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
        let readings = ["Temp", "Perf", "Pwr:Usage"];
        readings.iter().all(|one| self.unreadable.contains(one))
    }
}

/// The tables of a text, each kind once.
pub fn tables(text: &str) -> Vec<SmiTable> {
    let lines: Vec<_> = text.lines().collect();
    let heads: Vec<_> = lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| Some((at, field(line, &DRIVER).filter(|v| is_version(v))?)))
        .take(MAX_TABLES)
        .collect();
    let mut all: Vec<SmiTable> = Vec::new();
    for (n, (at, driver)) in heads.iter().enumerate() {
        let at = *at;
        // Up to the heads before and after.
        let from = n.checked_sub(1).map_or(0, |before| heads[before].0 + 1);
        let to = heads.get(n + 1).map_or(lines.len(), |(after, _)| *after);
        let near = &lines[from.max(at.saturating_sub(NEAR))..to.min(at + NEAR + 1)];
        let tool = tool(lines[at]).or_else(|| near.iter().find_map(|line| tool(line)));
        let own = field(lines[at], &CUDA);
        let cuda = own.or_else(|| near.iter().find_map(|line| field(line, &CUDA)));
        // Without the program's name, only both at the beginnings of their lines.
        if tool.is_none() && (cuda.is_none() || !begins(lines[at], &DRIVER)) {
            continue;
        }
        let mut table = SmiTable {
            line: at + 1,
            tool: tool.map(str::to_owned),
            driver: (*driver).to_owned(),
            cuda: cuda.map(str::to_owned),
            ..SmiTable::default()
        };
        rows(&lines[at + 1..to], &mut table);
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

/// Whether a line begins with one of these names.
fn begins(line: &str, names: &[&str]) -> bool {
    let line = line.trim_start_matches(['|', '>', '*', ' ', '\t']);
    names.iter().any(|name| {
        { line.get(..name.len()) }.is_some_and(|start| start.eq_ignore_ascii_case(name))
    })
}

/// The value after one of these names and a colon.
fn field<'a>(line: &'a str, names: &[&str]) -> Option<&'a str> {
    let lower = line.to_ascii_lowercase();
    names.iter().find_map(|name| {
        let at = lower.find(name)?;
        let rest = line[at + name.len()..].trim_start().strip_prefix(':')?;
        let rest = rest.trim_start_matches([' ', '\t', '*']);
        let value = rest.split([' ', '\t', '|', ',', ';', '*']).next()?;
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

/// Reads the rows of GPUs, up to the end of their part of the table.
fn rows(lines: &[&str], table: &mut SmiTable) {
    let (mut is_below, mut place) = (false, 0);
    for line in lines {
        if ["Processes:", "MIG devices:"]
            .iter()
            .any(|end| line.contains(end))
        {
            return;
        }
        // Something may stand before it: the marks of a quotation, the time of a log.
        let Some((_, row)) = line.split_once('|') else {
            // The line that closes the last GPU.
            table.has_rows |= is_below && line.contains("+--");
            if is_below && !line.contains("+--") {
                return;
            }
            place = 0;
            continue;
        };
        if row.starts_with("===") {
            is_below = true;
            continue;
        }
        let Some([left, middle, right]) = cells(row) else {
            continue;
        };
        let is_gpu = middle.contains(':') || middle.starts_with("N/A");
        match first_of(left).filter(|_| is_gpu && table.gpus.len() < MAX_GPUS) {
            Some((index, name)) => {
                (is_below, place, table.has_rows) = (true, 1, true);
                table.gpus.push(SmiGpu {
                    index,
                    name: name.to_owned(),
                    ecc_errors: right.parse().ok(),
                    ..SmiGpu::default()
                });
                note(table, right, "Volatile Uncorr. ECC");
                continue;
            }
            None if place == 1 => second_line(table, left, middle, right),
            None if place == 2 && left.is_empty() && middle.is_empty() => {
                if let Some(gpu) = table.gpus.last_mut() {
                    gpu.mig = Some(right.to_owned());
                }
            }
            None => {}
        }
        place += usize::from(place > 0);
    }
}

/// The cells of a row of GPUs. What stands behind the last bar is empty; the bar may be lost.
fn cells(row: &str) -> Option<[&str; 3]> {
    let row = row.trim_end();
    let mut cells = row
        .strip_suffix('|')
        .unwrap_or(row)
        .split('|')
        .map(str::trim);
    let all = [
        cells.next()?,
        cells.next().unwrap_or(""),
        cells.next().unwrap_or(""),
    ];
    cells.next().is_none().then_some(all)
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
    // One word for each value.
    let left = UNREADABLE[1..].iter().fold(left.to_owned(), |left, sign| {
        left.replace(sign, UNREADABLE[0])
    });
    for (value, column) in left.split_whitespace().zip(READINGS) {
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
            "Node driver version: 6.3.0\nCUDA version: 12.1",
            "CUDA Driver Version: 12.2\nCUDA Version: 12.1",
            "",
        ] {
            assert_eq!(tables(other), [], "{other}");
        }
    }

    #[test]
    fn damaged_tables_are_read_as_far_as_they_go() {
        let whole = &tables(OLD)[0].gpus;
        let changed = |change: &dyn Fn(&str) -> String| {
            let text: Vec<_> = OLD.lines().map(change).collect();
            tables(&text.join("\n"))[0].clone()
        };
        let lost = changed(&|line| line.trim_end_matches(['|', ' ']).to_owned());
        assert_eq!(&lost.gpus, whole, "without the border");
        let logged = changed(&|line| format!("Nov 30 10:12:01 host job[1]: {line}\r"));
        assert_eq!(&logged.gpus, whole, "in a log");
        let names = |table: &SmiTable| Vec::from_iter(table.gpus.iter().map(|gpu| gpu.index));
        let narrow = changed(&|line| line.chars().take(60).collect());
        assert_eq!(names(&narrow), [0, 1], "cut on the right");
        let head: Vec<_> = OLD.lines().take(7).collect();
        let head = &tables(&head.join("\n"))[0];
        assert!(head.gpus.is_empty() && !head.has_rows, "cut below the head");
        // A row of another table is not a second line.
        let mixed = OLD.split("\n\n").next().unwrap_or_default().to_owned();
        let mixed = mixed + "\n| model | 9 / 9 | 5 Prohibited |\n";
        assert_eq!(&tables(&mixed)[0].gpus, whole);
        // Jetson boards have no bus; values may be of several words.
        let jetson = "\
| NVIDIA-SMI 540.4.0                Driver Version: 540.4.0      CUDA Version: 12.6     |
|=========================================+======================+======================|
|   0  Orin (nvgpu)                  N/A  | N/A              N/A |                  N/A |
| N/A   N/A  N/A         Unknown Error / ERR! | Not Supported        |     N/A          N/A |
";
        let jetson = &tables(jetson)[0].gpus;
        assert_eq!(jetson[0].name, "Orin (nvgpu)");
        assert_eq!(jetson[0].unreadable, ["Pwr:Usage", "Pwr:Cap"]);
    }

    #[test]
    fn each_head_has_its_own_versions() {
        let of_hosts = "h1: | NVIDIA-SMI 580.95.05 Driver Version: 580.95.05 CUDA Version: 13.0 |\n\
                        h2: | NVIDIA-SMI 535.54.03 Driver Version: 535.54.03 CUDA Version: 12.2 |";
        let all = tables(of_hosts);
        let tools: Vec<_> = all
            .iter()
            .filter_map(|table| table.tool.as_deref())
            .collect();
        assert_eq!(tools, ["580.95.05", "535.54.03"]);
        let commas = &tables("Driver Version: 550.54.15, CUDA Version: 12.4")[0];
        assert_eq!(commas.cuda.as_deref(), Some("12.4"));
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
