//! What an image demands of the driver and the GPU before a container starts (`NVIDIA_REQUIRE_CUDA`
//! and its like): whether a host meets it, and whether anything of the host checks that. The
//! grammar is that of NVIDIA's library for containers (libnvidia-container, src/cli/dsl.c): blanks
//! divide alternatives, commas conditions that hold together; a condition is a property, one of `=
//! != < <= > >=`, and a value.

use super::host::{Context, Starters, TOOLKIT_CONFIG};
use super::judgement::ImageAnswer::{self, DoesNotRun, Runs, Unknown};
use super::needs::Needs;
use gpusetup_database::compat::{Database, TargetGpu};
use gpusetup_database::version::DriverVersion;
use std::cmp::Ordering;
use std::collections::BTreeMap;

impl Context<'_> {
    /// Whether the demands let the image start: met for each of the GPUs, or checked by nothing.
    pub(crate) fn permitted(
        self,
        needs: &Needs,
        driver: DriverVersion,
        reasons: &mut Vec<String>,
    ) -> ImageAnswer {
        if needs.is_disabled {
            reasons.push("the image turns its demands off (NVIDIA_DISABLE_REQUIRE)".to_owned());
            return Runs;
        }
        let met = self.demanded(needs, driver, reasons);
        let (says, unmet) = checked(&self.host.starters, self.database);
        if met == Runs || (met == Unknown && unmet != Runs) {
            return met;
        }
        reasons.push(says);
        unmet
    }

    /// Whether the demands are met, whoever checks them.
    pub(crate) fn demanded(
        self,
        needs: &Needs,
        driver: DriverVersion,
        reasons: &mut Vec<String>,
    ) -> ImageAnswer {
        let native = self
            .database
            .branch(driver.branch)
            .and_then(|branch| branch.max_cuda);
        let unknown = [TargetGpu {
            name: "the GPU".to_owned(),
            ..TargetGpu::default()
        }];
        let gpus = if self.host.gpus.is_empty() {
            &unknown[..]
        } else {
            &self.host.gpus
        };
        let mut worst = Runs;
        for (name, text) in &needs.demands {
            let alternatives = match read(text) {
                Ok(alternatives) => alternatives,
                Err(e) => {
                    reasons.push(format!("{name}: {e}"));
                    return DoesNotRun;
                }
            };
            let shown = shown(&alternatives);
            for TargetGpu {
                name: gpu,
                capability,
                line,
                ..
            } in gpus
            {
                let mut known = Known::from([("driver", driver.to_string())]);
                known.extend(native.map(|native| ("cuda", native.series().to_string())));
                known.extend(capability.map(|capability| ("arch", capability.to_string())));
                match on_any_brand(&alternatives, &known, brands(line.as_deref())) {
                    Runs => {}
                    DoesNotRun => {
                        reasons.push(format!("{gpu} does not meet {name}, which demands {shown}"));
                        return DoesNotRun;
                    }
                    _ => {
                        reasons.push(format!(
                            "{name} demands {shown}, which depends on what is not known of {gpu}"
                        ));
                        worst = Unknown;
                    }
                }
            }
        }
        worst
    }
}

/// What becomes of an unmet demand on a host.
fn checked(starters: &Starters, database: &Database) -> (String, ImageAnswer) {
    let (checking, others) = (
        starters.checking.join(", "),
        starters.not_checking.join(", "),
    );
    match (checking.is_empty(), others.is_empty()) {
        _ if starters.ignores_demands => (
            format!("nothing checks that here: {TOOLKIT_CONFIG} has disable-require"),
            Runs,
        ),
        (true, false) => (
            format!("nothing checks that here: {others} starts containers by CDI"),
            Runs,
        ),
        (true, true) => (on_unknown_host(database), Unknown),
        (false, true) if starters.lacks_toolkit => (
            format!(
                "once the container toolkit is installed, its hook refuses to start it in {checking}"
            ),
            DoesNotRun,
        ),
        (false, true) => (
            format!(
                "the container toolkit's hook, which {checking} uses here, refuses to start it"
            ),
            DoesNotRun,
        ),
        (false, false) => {
            let hook = format!("{checking} refuses to start it, by the container toolkit's hook");
            (
                format!("{hook}; {others} does not check it, by CDI"),
                Unknown,
            )
        }
    }
}

/// The first versions that do not check demands without further settings.
fn on_unknown_host(database: &Database) -> String {
    let docker = database
        .engines
        .iter()
        .find_map(|engine| Some((&engine.title, engine.gpus_by_cdi?)));
    let docker = docker
        .map(|(title, first)| format!("{title} before {first} with --gpus, "))
        .unwrap_or_default();
    let toolkit = database.container_toolkit();
    let runtime = toolkit
        .map(|toolkit| format!(" before {}", toolkit.runtime_by_cdi))
        .unwrap_or_default();
    format!(
        "it depends on how the host starts containers: the container toolkit's hook refuses the image ({docker}the runtime \
         nvidia of toolkits{runtime}), CDI does not check it"
    )
}

/// Whatever brand the driver reports.
fn on_any_brand(alternatives: &[Vec<Condition>], known: &Known, brands: &[&str]) -> ImageAnswer {
    let answers = brands.iter().map(|brand| {
        let brand = Known::from([("brand", (*brand).to_owned())]);
        met(
            alternatives,
            &brand.into_iter().chain(known.clone()).collect(),
        )
    });
    match (answers.clone().min(), answers.max()) {
        (Some(least), Some(most)) if least == most => least,
        (Some(_), _) => Unknown,
        (None, _) => met(alternatives, known),
    }
}

/// The first alternatives: NVIDIA's images have up to a hundred.
fn shown(alternatives: &[Vec<Condition>]) -> String {
    let first: Vec<_> = alternatives
        .iter()
        .take(3)
        .map(|conditions| {
            conditions
                .iter()
                .map(|one| one.text.as_str())
                .collect::<Vec<_>>()
                .join(",")
        })
        .collect();
    let more = alternatives.len().saturating_sub(first.len());
    if more == 0 {
        first.join(" or ")
    } else {
        format!("{} or one of {more} more", first.join(", "))
    }
}

/// The brands that NVML may report for a GPU of this line (`nvmlBrandType_t`), if any are known:
/// newer drivers call data-centre GPUs `nvidia`, older ones `tesla`.
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

struct Condition {
    /// As it is shown: `driver>=470`.
    text: String,
    property: &'static str,
    accepts: Accepts,
    value: String,
}

/// What is known of a host and one of its GPUs, by the names of properties.
type Known = BTreeMap<&'static str, String>;

/// The newest CUDA series that the driver runs natively (`12.4`), the driver (`550.54.15`), the
/// compute capability (`8.0`), and the line of the GPU as the driver calls it (`tesla`, `geforce`,
/// …).
const PROPERTIES: [&str; 4] = ["cuda", "driver", "arch", "brand"];

/// Whether an operator accepts the order of what is known and the value.
type Accepts = fn(Ordering) -> bool;

const OPERATORS: [(&str, Accepts); 6] = [
    ("=", Ordering::is_eq),
    ("!=", Ordering::is_ne),
    ("<", Ordering::is_lt),
    ("<=", Ordering::is_le),
    (">", Ordering::is_gt),
    (">=", Ordering::is_ge),
];

/// The alternatives of a requirement, each a list of conditions; or why the container toolkit
/// refuses the container for it.
fn read(text: &str) -> Result<Vec<Vec<Condition>>, String> {
    let refused = "is no condition: the container toolkit refuses it as an invalid expression";
    text.split(' ')
        .filter(|part| !part.is_empty())
        .map(|part| {
            part.split(',')
                .filter(|word| !word.is_empty())
                .map(|word| condition(word).ok_or_else(|| format!("{word:?} {refused}")))
                .collect()
        })
        .collect()
}

fn condition(word: &str) -> Option<Condition> {
    const SIGNS: [char; 4] = ['<', '>', '=', '!'];
    let (name, rest) = word.split_at(word.find(SIGNS)?);
    let (sign, value) = rest.split_at(rest.find(|c| !SIGNS.contains(&c))?);
    let (operator, accepts) = OPERATORS
        .into_iter()
        .find(|(operator, _)| *operator == sign)?;
    let property = PROPERTIES
        .into_iter()
        .find(|property| property.eq_ignore_ascii_case(name))?;
    let is_number = value.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && value.starts_with(|c: char| c.is_ascii_digit());
    let fits = if property == "brand" {
        ["=", "!="].contains(&operator)
    } else {
        is_number
    };
    let text = format!("{property}{operator}{value}");
    fits.then(|| Condition {
        text,
        property,
        accepts,
        value: value.to_owned(),
    })
}

impl Condition {
    fn met(&self, known: &Known) -> ImageAnswer {
        let Some(have) = known.get(self.property) else {
            return Unknown;
        };
        let is_met = (self.accepts)(match self.property {
            "brand" => have.as_str().cmp(&self.value.to_ascii_lowercase()),
            _ => compared(have, &self.value),
        });
        if is_met { Runs } else { DoesNotRun }
    }
}

/// Versions by their numbers; zeroes at the end count for nothing.
fn compared(a: &str, b: &str) -> Ordering {
    let [a, b] = [a, b].map(|text| {
        let mut all: Vec<u64> = text
            .split('.')
            .map(|part| part.parse().unwrap_or(0))
            .collect();
        all.truncate(
            all.iter()
                .rposition(|number| *number != 0)
                .map_or(0, |last| last + 1),
        );
        all
    });
    a.cmp(&b)
}

/// Whether a host meets one of the alternatives. No alternatives are met by every host.
fn met(alternatives: &[Vec<Condition>], known: &Known) -> ImageAnswer {
    alternatives
        .iter()
        .map(|conditions| {
            let answers = conditions.iter().map(|condition| condition.met(known));
            answers.max().unwrap_or(Runs)
        })
        .min()
        .unwrap_or(Runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of an image with CUDA 11.2 (Triton 21.03), shortened nowhere.
    const CUDA_11_2: &str = "cuda>=11.2 brand=tesla,driver>=418,driver<419 brand=tesla,driver>=440,driver<441 driver>=450";

    /// Blanks are "or", and commas "and". Versions are compared as dsl_compare_version does: zeroes
    /// at the end are nothing, and a longer version is a newer one.
    #[test]
    fn requirements_are_met_as_the_toolkit_checks_them() {
        let cases = [
            (CUDA_11_2, "cuda=11.2 driver=460.32.03 brand=geforce", Runs),
            (CUDA_11_2, "cuda=10.1 driver=418.226.00 brand=tesla", Runs),
            (
                CUDA_11_2,
                "cuda=10.1 driver=418.226.00 brand=geforce",
                DoesNotRun,
            ),
            (CUDA_11_2, "cuda=11.0 driver=450.51.06 brand=geforce", Runs),
            (CUDA_11_2, "cuda=10.2 driver=440.33.01", Unknown),
            (
                "cuda>=12.4,arch>=8.0",
                "cuda=12.4 driver=550.54.15 arch=7.0",
                DoesNotRun,
            ),
            ("", "", Runs),
            ("cuda>=12.4", "", Unknown),
            ("driver=12", "driver=12.0", Runs),
            ("driver>12.9", "driver=12.10", Runs),
            ("driver<471", "driver=470.256.02", Runs),
            ("driver>=470", "driver=470.256.02", Runs),
            ("driver!=12.4.0", "driver=12.4", DoesNotRun),
            ("driver<=12.4.1", "driver=12.4", Runs),
            ("driver>550.0", "driver=550", DoesNotRun),
        ];
        for (text, known, expected) in cases {
            let known = known.split(' ').filter_map(|one| one.split_once('='));
            let known = known
                .map(|(name, value)| (name, value.to_owned()))
                .collect();
            assert_eq!(
                read(text).map(|all| met(&all, &known)),
                Ok(expected),
                "{text}, {known:?}"
            );
        }
    }

    #[test]
    fn what_the_toolkit_refuses_is_refused() {
        let refused =
            "cuda|cuda>=|>=12|cuda==12|cuda>=12.x|cuda=>12|os=linux|brand>tesla|cuda>=12 driver";
        for text in refused.split('|') {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(
            read("CUDA>=12.4").map(|all| all[0][0].text.clone()),
            Ok("cuda>=12.4".to_owned())
        );
    }
}
