//! What a pasted table of `nvidia-smi` says: the driver and its branch, what is wrong in it, or that
//! nothing is.

use crate::causes;
use crate::compat::Database;
use crate::render::explain::article::Article;
use crate::smi::{SmiGpu, SmiTable};
use crate::text::{counted, one_line, quoted};
use crate::version::DriverVersion;
use std::collections::BTreeSet;

/// The share of memory in use from which a GPU counts as full, in percent.
const FULL: u64 = 95;

/// The label of what is wrong.
const WRONG: &str = "wrong";

/// The first driver branch whose table names CUDA.
const NAMES_CUDA: u16 = 410;

/// The most kinds of GPUs that are named.
const MAX_NAMES: usize = 8;

/// The most characters of a GPU's name in somebody else's text.
const MAX_NAME: usize = 60;

/// Something that is wrong with GPUs.
struct Finding {
    text: String,
    commands: Vec<String>,
}

impl Finding {
    fn new(text: impl Into<String>, commands: impl IntoIterator<Item = String>) -> Self {
        Self {
            text: text.into(),
            commands: commands.into_iter().collect(),
        }
    }
}

/// Whether a table is one of nvidia-smi: without the program's name, other programs may have printed
/// these versions, and then the driver has a branch that nobody knows.
pub(super) fn is_known(table: &SmiTable, database: &Database) -> bool {
    let version = table.driver.parse::<DriverVersion>();
    table.tool.is_some() || version.is_ok_and(|version| database.branch(version.branch).is_some())
}

/// What a table says on a day, `2026-11-30`.
pub(super) fn article(table: &SmiTable, database: &Database, today: &str) -> Article {
    let mut findings = of_gpus(&table.gpus);
    findings.extend(of_the_head(table));
    let (driver, replaces) = driver(table, database, today);
    let title = match (findings.is_empty(), table.has_rows) {
        (false, _) => "What is wrong in this table of nvidia-smi".to_owned(),
        (true, true) => "A table of nvidia-smi in which every GPU answers".to_owned(),
        (true, false) => "Versions, as nvidia-smi prints them".to_owned(),
    };
    let mut article = Article::new("nvidia-smi", title).with("driver", driver);
    article = article.with("cuda", cuda(table, database));
    if findings.is_empty() && table.has_rows {
        let names = names(&table.gpus);
        let text = format!("The driver answers, and reads all values of {names}.");
        article = article.with("means", text);
    }
    for finding in findings {
        article = article.with(WRONG, finding.text);
        let new = finding.commands.into_iter();
        let new: Vec<_> = new.filter(|one| !article.run.contains(one)).collect();
        article.run.extend(new);
    }
    article.run.extend(replaces);
    article.see = ["cuda version", "gpu-util", "uncorr. ecc"]
        .map(|subject| quoted(subject).to_string())
        .into();
    article
}

/// Whether something is wrong in the table that an article is about.
pub(super) fn has_findings(article: &Article) -> bool {
    article
        .paragraphs
        .iter()
        .any(|paragraph| paragraph.label == WRONG)
}

/// The driver and its branch, and the command that replaces it if that is advised.
fn driver(table: &SmiTable, database: &Database, today: &str) -> (String, Option<String>) {
    let shown = &table.driver;
    let Ok(version) = shown.parse::<DriverVersion>() else {
        return (format!("{shown}."), None);
    };
    let Some(branch) = database.branch(version.branch) else {
        let text = format!("{shown}, of a branch that gpusetup does not know.");
        return (text, None);
    };
    if branch.is_over(today) {
        let text = format!("{shown}: {}.", causes::branch_is_over(branch));
        return (text, Some("gpusetup plan --profile driver".to_owned()));
    }
    let until = branch.end_of_life.as_deref();
    let until = until.map(|end| format!(", which is supported until {end}"));
    let text = format!(
        "{shown}, of branch {}{}",
        branch.branch,
        until.unwrap_or_default()
    );
    match database
        .vulnerabilities_of(version)
        .map(|(_, fixed)| fixed)
        .max()
    {
        Some(fixed) => {
            let text = format!("{text}. {fixed} has security fixes that it lacks.");
            (text, Some("gpusetup plan --profile driver".to_owned()))
        }
        None => (text + ".", None),
    }
}

/// The CUDA that the driver runs.
fn cuda(table: &SmiTable, database: &Database) -> String {
    match table.cuda.as_deref() {
        Some(version) if version.starts_with(|c: char| c.is_ascii_digit()) => format!(
            "{version} is the newest CUDA that this driver runs by itself. nvcc --version shows which toolkit is installed."
        ),
        Some(other) => format!(
            "{other}: there is no libcuda.so.1 that works, so CUDA programs find no GPU. In a container, NVIDIA_DRIVER_CAPABILITIES lacks compute, or the engine did not pass the driver on."
        ),
        None => {
            let version = table.driver.parse::<DriverVersion>().ok();
            let branch = version.and_then(|version| database.branch(version.branch));
            let newest = branch.and_then(|branch| branch.max_cuda);
            let runs = newest.map(|cuda| format!(" This one runs CUDA {cuda} and older."));
            let is_old = version.is_some_and(|version| version.branch < NAMES_CUDA);
            let why = match is_old {
                true => "Drivers before 410 do not show the newest CUDA that they run.",
                false => "The text does not have the newest CUDA that the driver runs.",
            };
            why.to_owned() + &runs.unwrap_or_default()
        }
    }
}

/// What is wrong in the first lines.
fn of_the_head(table: &SmiTable) -> Option<Finding> {
    if table.has_rows && table.gpus.is_empty() {
        return Some(Finding::new(
            "It lists no GPU.",
            ["gpusetup doctor".to_owned()],
        ));
    }
    let tool = table.tool.as_deref().filter(|tool| *tool != table.driver)?;
    Some(Finding::new(
        format!(
            "nvidia-smi has version {tool}, and the driver {}. In WSL 2 this is right, because Windows has the driver. Elsewhere the programs were updated, and the old module stays loaded until a reboot.",
            table.driver
        ),
        ["cat /proc/driver/nvidia/version".to_owned()],
    ))
}

/// What is wrong with GPUs: those with the same illness together.
fn of_gpus(gpus: &[SmiGpu]) -> Vec<Finding> {
    let mut all = Vec::new();
    let ill = |is_ill: fn(&SmiGpu) -> bool| Vec::from_iter(gpus.iter().filter(move |g| is_ill(g)));
    let silent = ill(SmiGpu::is_silent);
    if !silent.is_empty() {
        all.push(Finding::new(
            format!(
                "{}: ERR! in all values. The driver cannot reach it any more. An Xid in the kernel's log says why, and whether a reset is enough.",
                named(&silent)
            ),
            ["sudo dmesg | gpusetup explain -".to_owned()],
        ));
    }
    let partly = ill(|gpu| !gpu.unreadable.is_empty() && !gpu.is_silent());
    if let Some(first) = partly.first() {
        let columns = first.unreadable.join(", ");
        all.push(Finding::new(
            format!("{}: the driver could not read {columns}.", named(&partly)),
            [format!("nvidia-smi -q -i {}", first.index)],
        ));
    }
    let faulty = ill(|gpu| gpu.ecc_errors.is_some_and(|count| count > 0));
    if let Some(first) = faulty.first() {
        let counts = faulty.iter().filter_map(|gpu| gpu.ecc_errors);
        let count = counts.fold(0, u64::saturating_add);
        all.push(Finding::new(
            format!(
                "{}: {} in its memory that ECC did not correct, since the driver was loaded. They end the programs that use that memory.",
                named(&faulty),
                counted(count, "error", "errors")
            ),
            [format!("nvidia-smi -i {} -q -d ECC,ROW_REMAPPER", first.index)],
        ));
    }
    let waiting = ill(|gpu| gpu.mig.as_ref().is_some_and(|mode| mode.ends_with('*')));
    if let Some(first) = waiting.first() {
        all.push(Finding::new(
            format!(
                "{}: the MIG mode changes when the GPU is reset, which needs all its programs stopped.",
                named(&waiting)
            ),
            [format!("sudo nvidia-smi --gpu-reset -i {}", first.index)],
        ));
    }
    let closed = ill(|gpu| gpu.compute_mode == "Prohibited");
    if let Some(first) = closed.first() {
        all.push(Finding::new(
            format!("{}: the compute mode refuses all programs.", named(&closed)),
            [format!("sudo nvidia-smi -i {} -c DEFAULT", first.index)],
        ));
    }
    let full = ill(|gpu| {
        gpu.memory
            .is_some_and(|(used, all)| used <= all && used / FULL > all / 100)
    });
    if let Some(first) = full.first() {
        all.push(Finding::new(
            format!(
                "{}: its memory is full, and further programs get none.",
                named(&full)
            ),
            [format!(
                "nvidia-smi -i {} --query-compute-apps=pid,name,used_memory --format=csv",
                first.index
            )],
        ));
    }
    all
}

/// GPUs by their numbers: `GPU 1`, `GPUs 0, 3`.
fn named(gpus: &[&SmiGpu]) -> String {
    let all: Vec<_> = gpus.iter().map(|gpu| gpu.index.to_string()).collect();
    let word = if all.len() == 1 { "GPU" } else { "GPUs" };
    format!("{word} {}", all.join(", "))
}

/// A name from somebody else's text.
fn shortened(name: &str) -> String {
    one_line(&name.chars().take(MAX_NAME).collect::<String>())
}

/// GPUs by their names: `8 GPUs (NVIDIA H200)`.
fn names(gpus: &[SmiGpu]) -> String {
    let kinds = BTreeSet::from_iter(gpus.iter().map(|gpu| gpu.name.as_str()));
    let names: Vec<_> = { kinds.into_iter().take(MAX_NAMES) }
        .map(shortened)
        .collect();
    let count = counted(gpus.len() as u64, "GPU", "GPUs");
    format!("{count} ({})", names.join(", "))
}
