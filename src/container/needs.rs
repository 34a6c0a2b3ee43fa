//! What an image needs, by its configuration and its files.

use super::contents::NamedCuda;
use super::image::Image;
use crate::compat::Database;
use crate::version::{CudaVersion, DriverVersion};
use std::collections::BTreeSet;

#[derive(Default)]
pub struct Needs {
    /// The CUDA in it: one version, or each that it may be, oldest first. Empty if nothing says that it has CUDA.
    pub cuda: Vec<CudaVersion>,
    /// The same, for people; the configuration's own words where they are no version.
    pub cuda_text: Option<String>,
    /// What its configuration says of it.
    pub configured: Option<String>,
    /// The file that shows its CUDA, if its configuration does not.
    pub shown_by: Option<String>,
    /// Older CUDAs in it that programs may choose instead, the newest first.
    pub choices: Vec<OlderCuda>,
    pub compat: Option<Compat>,
    /// What it demands, by the names of its variables.
    pub demands: Vec<(String, String)>,
    pub is_disabled: bool,
}

/// A CUDA of an older major version in another folder of an image.
pub struct OlderCuda {
    /// Each version that it may be, oldest first.
    pub cuda: Vec<CudaVersion>,
    /// The same, for people.
    pub text: String,
    /// The file that shows it.
    pub file: String,
}

/// The libraries of a newer driver (cuda-compat) in an image.
pub struct Compat {
    /// Their file, or the package that a variable names where the layers were not read.
    pub name: String,
    /// Their driver; none if only the package is known.
    pub driver: Option<DriverVersion>,
    /// Whether they are where the container toolkit looks for them, and not elsewhere.
    pub is_found: bool,
}

impl Needs {
    pub fn of(image: &Image, database: &Database) -> Self {
        let mut demands = demands(image);
        let has_cuda = demands.iter().any(|(name, value)| name == "NVIDIA_REQUIRE_CUDA" && !value.is_empty());
        // Older images have no requirement, and the toolkit makes one of this variable.
        let own = variable(image, "CUDA_VERSION").and_then(version);
        if let Some(own) = own.filter(|_| !has_cuda) {
            demands.push(("CUDA_VERSION".to_owned(), format!("cuda>={}", own.series())));
        }
        let is_disabled = variable(image, "NVIDIA_DISABLE_REQUIRE")
            .is_some_and(|value| ["1", "t", "true"].contains(&value.to_ascii_lowercase().as_str()));
        let mut needs = Self { compat: compat(image), demands, is_disabled, ..Self::default() };
        needs.add_configured(image, database);
        needs.configured = needs.cuda_text.clone();
        needs.add_files(image, database);
        needs.add_choices(image, database);
        needs
    }

    fn add_configured(&mut self, image: &Image, database: &Database) {
        // Of NVIDIA's images: 12.4.1, and packages' versions such as 12.4.127-1. An image made of one may differ in them.
        let label = image.labels.get("com.nvidia.cuda.version").map(String::as_str);
        let names = [variable(image, "CUDA_VERSION"), label, variable(image, "NV_CUDA_LIB_VERSION")];
        let names = names.into_iter().flatten().map(|text| text.split('-').next().unwrap_or_default());
        // Of those of one series the first: `max_by_key` takes the last.
        let named = names.rev().max_by_key(|text| series(text));
        let demanded = || {
            let first = self.demands.iter().find(|(name, _)| name == "NVIDIA_REQUIRE_CUDA")?;
            version(first.1.split(' ').next()?.strip_prefix("cuda>=")?)
        };
        let major = named.and_then(|text| text.parse().ok());
        let exact = named.and_then(version).or_else(demanded).filter(|_| major.is_none());
        self.cuda = major.map_or_else(|| exact.into_iter().collect(), |major| of_major(major, database));
        self.cuda_text = named.map(str::to_owned).or_else(|| exact.map(|cuda| cuda.series().to_string()));
    }

    /// A CUDA in its files that is newer than what the configuration says: a wheel in an image of an older CUDA.
    fn add_files(&mut self, image: &Image, database: &Database) {
        let cudas = || image.contents.iter().flat_map(|contents| &contents.cudas);
        let exact = cudas().filter_map(|(cuda, file)| Some((cuda.series()?, file)));
        let configured = self.cuda.first().map(|cuda| cuda.series());
        if let Some((series, file)) = exact.max().filter(|(series, _)| configured.is_none_or(|other| *series > other)) {
            (self.cuda, self.cuda_text) = (vec![series], Some(series.to_string()));
            self.shown_by = Some(file.clone());
        }
        let major = cudas().filter(|(cuda, _)| cuda.minor.is_none()).map(|(cuda, file)| (cuda.major, file));
        let known = self.cuda.first().map(|cuda| cuda.major);
        if let Some((major, file)) = major.max().filter(|(major, _)| known.is_none_or(|other| *major > other)) {
            (self.cuda, self.cuda_text) = (of_major(major, database), Some(major.to_string()));
            self.shown_by = Some(file.clone());
        }
    }

    fn add_choices(&mut self, image: &Image, database: &Database) {
        let Some((contents, newest)) = image.contents.as_ref().zip(self.cuda.first()) else { return };
        let choice = |(cuda, file): (NamedCuda, &str)| OlderCuda {
            cuda: cuda.series().map_or_else(|| of_major(cuda.major, database), |series| vec![series]),
            text: cuda.to_string(),
            file: file.to_owned(),
        };
        let choices = contents.older_choices(newest.major).into_iter().map(choice);
        self.choices = choices.filter(|choice| !choice.cuda.is_empty()).collect();
    }
}

impl OlderCuda {
    pub fn said(&self) -> String {
        format!("it also has CUDA {}: {}", self.text, self.file)
    }
}

/// The series of a major version, oldest first.
fn of_major(major: u16, database: &Database) -> Vec<CudaVersion> {
    let all = database.cuda.iter().map(|release| release.version.series());
    all.filter(|series| series.major == major).collect::<BTreeSet<_>>().into_iter().collect()
}

fn variable<'a>(image: &'a Image, name: &str) -> Option<&'a str> {
    image.variables.get(name).filter(|value| !value.is_empty()).map(String::as_str)
}

fn demands(image: &Image) -> Vec<(String, String)> {
    let is_demand = |name: &str| name.starts_with("NVIDIA_REQUIRE_") && !name.starts_with("NVIDIA_REQUIRE_JETPACK");
    image.variables.iter().filter(|(name, _)| is_demand(name)).map(|(n, v)| (n.clone(), v.clone())).collect()
}

/// The series of a release or of a major version, by which versions are compared.
fn series(text: &str) -> Option<CudaVersion> {
    let of_major = || Some(CudaVersion { major: text.parse().ok()?, minor: 0, patch: None });
    version(text).map(CudaVersion::series).or_else(of_major)
}

/// A release of CUDA. Some images add the number of a build: 13.0.1.012.
fn version(text: &str) -> Option<CudaVersion> {
    text.split('.').take(3).collect::<Vec<_>>().join(".").parse().ok()
}

/// A variable counts only where the files are not known: it stays when a later layer removes them.
fn compat(image: &Image) -> Option<Compat> {
    let Some(contents) = &image.contents else {
        let name = variable(image, "NV_CUDA_COMPAT_PACKAGE")?.to_owned();
        return Some(Compat { name, driver: None, is_found: true });
    };
    let found = contents.compat.clone().map(|(driver, name)| Compat { name, driver: Some(driver), is_found: true });
    let other = contents.other_driver.clone();
    let other = other.map(|(driver, name)| Compat { name, driver: Some(driver), is_found: false });
    // Of two with one driver, the last one.
    [other, found].into_iter().flatten().max_by_key(|compat| compat.driver)
}
