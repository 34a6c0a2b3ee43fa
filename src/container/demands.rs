//! Whether a host meets what an image demands, and whether anything of the host checks that.

use super::host::{Host, HostGpu, Starters, TOOLKIT_CONFIG};
use super::needs::Needs;
use super::requirement::{self, Condition, Known, Met};
use crate::compat::Database;
use crate::version::DriverVersion;

/// Whether the demands let the image start: met for each of the GPUs, or checked by nothing.
pub fn permitted(
    needs: &Needs,
    driver: DriverVersion,
    host: &Host,
    database: &Database,
    reasons: &mut Vec<String>,
) -> Met {
    if needs.is_disabled {
        reasons.push("the image turns its demands off (NVIDIA_DISABLE_REQUIRE)".to_owned());
        return Met::Yes;
    }
    match (demanded(needs, driver, host, database, reasons), why_unchecked(&host.starters)) {
        (Met::No | Met::Unknown, Some(why)) => {
            reasons.push(why);
            Met::Yes
        }
        (Met::No, None) => checked(&host.starters, database, reasons),
        (met, _) => met,
    }
}

/// Whether the demands are met, whoever checks them.
pub fn is_met(needs: &Needs, driver: DriverVersion, host: &Host, database: &Database) -> bool {
    demanded(needs, driver, host, database, &mut Vec::new()) == Met::Yes
}

/// Why nothing of this host checks what an image demands, if that is so.
fn why_unchecked(starters: &Starters) -> Option<String> {
    if starters.ignores_demands {
        return Some(format!("nothing checks that here: {TOOLKIT_CONFIG} has disable-require"));
    }
    let by_cdi = starters.checking.is_empty() && !starters.not_checking.is_empty();
    by_cdi.then(|| format!("nothing checks that here: {} starts containers by CDI", starters.not_checking.join(", ")))
}

/// What becomes of an unmet demand on a host that may check it.
fn checked(starters: &Starters, database: &Database, reasons: &mut Vec<String>) -> Met {
    let (checking, others) = (starters.checking.join(", "), starters.not_checking.join(", "));
    let (text, met) = match (starters.checking.is_empty(), starters.not_checking.is_empty()) {
        (true, _) => (on_unknown_host(database), Met::Unknown),
        (false, true) if starters.lacks_toolkit => {
            (format!("once the container toolkit is installed, its hook refuses to start it in {checking}"), Met::No)
        }
        (false, true) => {
            (format!("the container toolkit's hook, which {checking} uses here, refuses to start it"), Met::No)
        }
        (false, false) => {
            let text = format!(
                "{checking} refuses to start it, by the container toolkit's hook; {others} does not check it, by CDI"
            );
            (text, Met::Unknown)
        }
    };
    reasons.push(text);
    met
}

/// The first versions that do not check demands without further settings.
fn on_unknown_host(database: &Database) -> String {
    let docker = database.engines.iter().find_map(|engine| Some((&engine.title, engine.gpus_by_cdi?)));
    let docker = docker.map(|(title, first)| format!("{title} before {first} with --gpus, ")).unwrap_or_default();
    let toolkit = database.container_toolkit();
    let runtime = toolkit.map(|toolkit| format!(" before {}", toolkit.runtime_by_cdi)).unwrap_or_default();
    format!(
        "it depends on how the host starts containers: the container toolkit's hook refuses the image ({docker}the runtime \
         nvidia of toolkits{runtime}), CDI does not check it"
    )
}

fn demanded(needs: &Needs, driver: DriverVersion, host: &Host, database: &Database, reasons: &mut Vec<String>) -> Met {
    let native = database.branch(driver.branch).and_then(|branch| branch.max_cuda);
    let (cuda, driver) = (native.map(|native| native.series().to_string()), Some(driver.to_string()));
    let of_gpu = |gpu: &HostGpu| {
        let arch = gpu.capability.map(|capability| capability.to_string());
        let known = |brand| Known { cuda: cuda.clone(), driver: driver.clone(), arch: arch.clone(), brand };
        brands(gpu.line.as_deref()).into_iter().map(known).collect::<Vec<_>>()
    };
    let mut hosts: Vec<_> = host.gpus.iter().map(|gpu| (gpu.name.as_str(), of_gpu(gpu))).collect();
    if hosts.is_empty() {
        hosts.push(("the GPU", of_gpu(&HostGpu::default())));
    }
    let mut worst = Met::Yes;
    for (name, text) in &needs.demands {
        let alternatives = match requirement::read(text) {
            Ok(alternatives) => alternatives,
            Err(e) => {
                reasons.push(format!("{name}: {e}"));
                return Met::No;
            }
        };
        for (gpu, known) in &hosts {
            match on_any_brand(&alternatives, known) {
                Met::Yes => {}
                Met::No => {
                    reasons.push(format!("{gpu} does not meet {name}, which demands {}", shown(&alternatives)));
                    return Met::No;
                }
                Met::Unknown => {
                    let shown = shown(&alternatives);
                    reasons.push(format!("{name} demands {shown}, which depends on what is not known of {gpu}"));
                    worst = Met::Unknown;
                }
            }
        }
    }
    worst
}

/// Whatever brand the driver reports.
fn on_any_brand(alternatives: &[Vec<Condition>], known: &[Known]) -> Met {
    let results: Vec<_> = known.iter().map(|known| requirement::met(alternatives, known)).collect();
    let first = results.first().copied().unwrap_or(Met::Unknown);
    if results.iter().all(|result| *result == first) { first } else { Met::Unknown }
}

/// The first alternatives: NVIDIA's images have up to a hundred.
fn shown(alternatives: &[Vec<Condition>]) -> String {
    let words = |conditions: &Vec<Condition>| conditions.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let first: Vec<_> = alternatives.iter().take(3).map(words).collect();
    let more = alternatives.len().saturating_sub(first.len());
    if more == 0 { first.join(" or ") } else { format!("{} or one of {more} more", first.join(", ")) }
}

/// The brands that NVML may report for a GPU of this line (`nvmlBrandType_t`): newer drivers call data-centre GPUs `nvidia`, older
/// ones `tesla`.
fn brands(line: Option<&str>) -> Vec<Option<&'static str>> {
    let all: &[&str] = match line {
        Some("Tesla/Data Center") => &["tesla", "nvidia"],
        Some("GeForce") => &["geforce", "geforcertx", "titan", "titanrtx"],
        Some("Quadro/RTX PRO") => &["quadro", "quadrortx", "nvidiartx", "nvidia"],
        Some("NVS") => &["nvs"],
        Some("GRID") => &["grid"],
        _ => return vec![None],
    };
    all.iter().copied().map(Some).collect()
}
