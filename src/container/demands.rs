//! Whether a host meets what an image demands, and whether anything of the host checks that.

use super::host::{Context, Starters, TOOLKIT_CONFIG};
use super::judgement::Met;
use super::needs::Needs;
use super::requirement::{self, Condition, Known};
use crate::compat::{Card, Database};
use crate::version::DriverVersion;

impl Context<'_> {
    /// Whether the demands let the image start: met for each of the GPUs, or checked by nothing.
    pub fn permitted(self, needs: &Needs, driver: DriverVersion, reasons: &mut Vec<String>) -> Met {
        if needs.is_disabled {
            reasons.push("the image turns its demands off (NVIDIA_DISABLE_REQUIRE)".to_owned());
            return Met::Yes;
        }
        match (self.demanded(needs, driver, reasons), why_unchecked(&self.host.starters)) {
            (Met::No | Met::Unknown, Some(why)) => {
                reasons.push(why);
                Met::Yes
            }
            (Met::No, None) => checked(&self.host.starters, self.database, reasons),
            (met, _) => met,
        }
    }

    /// Whether the demands are met, whoever checks them.
    pub fn demanded(self, needs: &Needs, driver: DriverVersion, reasons: &mut Vec<String>) -> Met {
        let native = self.database.branch(driver.branch).and_then(|branch| branch.max_cuda);
        let cuda = native.map(|native| native.series().to_string());
        let unknown = [Card { name: "the GPU".to_owned(), ..Card::default() }];
        let gpus = if self.host.gpus.is_empty() { &unknown[..] } else { &self.host.gpus };
        let mut worst = Met::Yes;
        for (name, text) in &needs.demands {
            let alternatives = match requirement::read(text) {
                Ok(alternatives) => alternatives,
                Err(e) => {
                    reasons.push(format!("{name}: {e}"));
                    return Met::No;
                }
            };
            for gpu in gpus {
                let arch = gpu.capability.map(|capability| capability.to_string());
                let known = Known { cuda: cuda.clone(), driver: Some(driver.to_string()), arch, brand: None };
                let (gpu, met) = (&gpu.name, on_any_brand(&alternatives, &known, brands(gpu.line.as_deref())));
                match met {
                    Met::Yes => continue,
                    Met::No => {
                        reasons.push(format!("{gpu} does not meet {name}, which demands {}", shown(&alternatives)))
                    }
                    Met::Unknown => {
                        let shown = shown(&alternatives);
                        reasons.push(format!("{name} demands {shown}, which depends on what is not known of {gpu}"));
                    }
                }
                worst = met;
                if met == Met::No {
                    return met;
                }
            }
        }
        worst
    }
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
            let hook = format!("{checking} refuses to start it, by the container toolkit's hook");
            (format!("{hook}; {others} does not check it, by CDI"), Met::Unknown)
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

/// Whatever brand the driver reports.
fn on_any_brand(alternatives: &[Vec<Condition>], known: &Known, brands: &[&'static str]) -> Met {
    let on = |brand: &&'static str| requirement::met(alternatives, &Known { brand: Some(brand), ..known.clone() });
    match (brands.iter().map(on).min(), brands.iter().map(on).max()) {
        (Some(least), Some(most)) if least == most => least,
        (Some(_), _) => Met::Unknown,
        (None, _) => requirement::met(alternatives, known),
    }
}

/// The first alternatives: NVIDIA's images have up to a hundred.
fn shown(alternatives: &[Vec<Condition>]) -> String {
    let words = |conditions: &Vec<Condition>| conditions.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let first: Vec<_> = alternatives.iter().take(3).map(words).collect();
    let more = alternatives.len().saturating_sub(first.len());
    if more == 0 { first.join(" or ") } else { format!("{} or one of {more} more", first.join(", ")) }
}

/// The brands that NVML may report for a GPU of this line (`nvmlBrandType_t`), if any are known: newer drivers call data-centre GPUs
/// `nvidia`, older ones `tesla`.
fn brands(line: Option<&str>) -> &'static [&'static str] {
    match line {
        Some("Tesla/Data Center") => &["tesla", "nvidia"],
        Some("GeForce") => &["geforce", "geforcertx", "titan", "titanrtx"],
        Some("Quadro/RTX PRO") => &["quadro", "quadrortx", "nvidiartx", "nvidia"],
        Some("NVS") => &["nvs"],
        Some("GRID") => &["grid"],
        _ => &[],
    }
}
