//! dnf's package patterns: a name, or a name with architecture or version, each with shell
//! wildcards.

use super::super::glob::pattern_matches;
use super::repodata::Package;

/// The possible ways to parse a pattern, in dnf's order: the first way that matches any package
/// counts.
#[derive(Debug)]
pub(crate) struct Pattern {
    forms: Vec<PatternForm>,
}

#[derive(Debug, Default)]
struct PatternForm {
    name: String,
    epoch: Option<String>,
    version: Option<String>,
    release: Option<String>,
    architecture: Option<String>,
    /// The pattern is matched against name, version, release and architecture as a whole.
    whole: bool,
}

impl Pattern {
    /// Parses a pattern.
    pub(crate) fn new(text: &str) -> Self {
        let with_architecture = text.rsplit_once('.');
        let forms = [
            with_architecture.and_then(|(rest, a)| Some(with_release(rest)?.for_architecture(a))),
            with_architecture.map(|(rest, a)| PatternForm::named(rest).for_architecture(a)),
            Some(PatternForm::named(text)),
            with_release(text),
            with_version(text),
            Some(PatternForm {
                whole: true,
                ..PatternForm::named(text)
            }),
        ];
        let forms = forms.into_iter().flatten();
        Self {
            forms: forms.filter(PatternForm::is_possible).collect(),
        }
    }

    /// Whether a package with this name might match.
    pub(crate) fn may_match(&self, name: &str) -> bool {
        self.forms.iter().any(|form| {
            let mut parts = form.name.split(['*', '?', '[', '\\']);
            let literal = parts.next().unwrap_or_default();
            match form.whole {
                true => name.starts_with(literal) || literal.starts_with(name),
                false => is_like(&form.name, name),
            }
        })
    }

    /// A predicate for the first way to parse the pattern that matches any of these packages.
    pub(crate) fn fitting<'a>(
        &self,
        packages: impl Iterator<Item = &'a Package> + Clone,
    ) -> impl Fn(&Package) -> bool {
        let form = self
            .forms
            .iter()
            .find(|form| packages.clone().any(|package| form.matches(package)));
        move |package| form.is_some_and(|form| form.matches(package))
    }
}

fn with_version(text: &str) -> Option<PatternForm> {
    let (name, version) = text.rsplit_once('-')?;
    let (epoch, version) = match version.split_once(':') {
        Some((epoch, version)) if epoch.bytes().all(|b| b.is_ascii_digit()) => {
            (Some(epoch.to_owned()), version)
        }
        _ => (None, version),
    };
    Some(PatternForm {
        name: name.to_owned(),
        epoch,
        version: Some(version.to_owned()),
        ..PatternForm::default()
    })
}

fn with_release(text: &str) -> Option<PatternForm> {
    let (rest, release) = text.rsplit_once('-')?;
    Some(PatternForm {
        release: Some(release.to_owned()),
        ..with_version(rest)?
    })
}

fn is_like(pattern: &str, text: &str) -> bool {
    pattern_matches(pattern.as_bytes(), text.as_bytes())
}

impl PatternForm {
    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    fn for_architecture(self, architecture: &str) -> Self {
        Self {
            architecture: Some(architecture.to_owned()),
            ..self
        }
    }

    fn is_possible(&self) -> bool {
        let parts = [&self.version, &self.release, &self.architecture];
        let mut parts = parts.into_iter().flatten().chain([&self.name]);
        self.whole
            || !parts.any(|part| part.is_empty() || part.contains(|c: char| ":(/=<> ".contains(c)))
    }

    fn matches(&self, package: &Package) -> bool {
        if self.whole {
            let (name, evr) = (&package.name, package.evr());
            return is_like(
                &self.name,
                &format!("{name}-{evr}.{}", package.architecture),
            );
        }
        let parts = [
            (&self.version, &package.version),
            (&self.release, &package.release),
            (&self.architecture, &package.architecture),
        ];
        is_like(&self.name, &package.name)
            && self
                .epoch
                .as_ref()
                .is_none_or(|epoch| *epoch == package.epoch)
            && parts
                .into_iter()
                .all(|(pattern, text)| pattern.as_ref().is_none_or(|p| is_like(p, text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(
        name: &str,
        epoch: &str,
        version: &str,
        release: &str,
        architecture: &str,
    ) -> Package {
        let [name, epoch, version, release, architecture] =
            [name, epoch, version, release, architecture].map(str::to_owned);
        Package {
            name,
            epoch,
            version,
            release,
            architecture,
            provides: Vec::new(),
        }
    }

    #[test]
    fn a_pattern_is_taken_in_the_first_way_that_fits() {
        let all = [
            package("nvidia-driver", "3", "580.95.05", "1.el9", "x86_64"),
            package("cuda", "0", "12.4", "1", "x86_64"),
            package("cuda-12-4", "0", "12.4", "1", "noarch"),
        ];
        let matched = |text: &str| -> Vec<&str> {
            let pattern = Pattern::new(text);
            let fits = pattern.fitting(all.iter());
            all.iter()
                .filter(|p| fits(p))
                .map(|p| p.name.as_str())
                .collect()
        };
        assert_eq!(matched("cuda"), ["cuda"]);
        assert_eq!(
            matched("cuda-12*"),
            ["cuda-12-4"],
            "as a name, so not as a version"
        );
        assert_eq!(matched("cuda*.noarch"), ["cuda-12-4"]);
        assert_eq!(matched("nvidia-driver-3:580*"), ["nvidia-driver"]);
        assert_eq!(
            matched("nvidia-driver-580.95.05-1.el9.x86_64"),
            ["nvidia-driver"]
        );
        assert_eq!(matched("nvidia-driver-2:580*"), [""; 0]);
        assert_eq!(matched("cuda-12.4-1"), ["cuda"]);
        assert_eq!(matched("nothing"), [""; 0]);
        assert_eq!(matched(""), [""; 0]);
    }
}
