//! What an image needs, by its configuration and its files.

use super::contents::{Compat, Contents, NamedCuda};
use super::image::Image;
use gpusetup_database::compat::Database;
use gpusetup_database::version::CudaVersion;
use std::collections::BTreeSet;

#[derive(Default)]
pub(crate) struct Needs {
    /// The CUDA in it; none if nothing says that it has one.
    pub(crate) cuda: Option<Cuda>,
    /// What its configuration says of it.
    pub(crate) configured: Option<String>,
    /// Older CUDAs in it that programs may choose instead, the newest first.
    pub(crate) choices: Vec<Cuda>,
    pub(crate) compat: Option<Compat>,
    /// What it demands, by the names of its variables.
    pub(crate) demands: Vec<(String, String)>,
    pub(crate) is_disabled: bool,
}

/// A CUDA in an image.
pub(crate) struct Cuda {
    /// The version, or each that it may be, oldest first. Empty if it is none that is known.
    pub(crate) versions: Vec<CudaVersion>,
    /// The same, for people; the configuration's own words where they are no version.
    pub(crate) text: String,
    /// The file that shows it, if the configuration does not.
    pub(crate) file: Option<String>,
}

impl Needs {
    pub(crate) fn of(image: &Image, database: &Database) -> Self {
        let mut demands: Vec<_> = image
            .variables
            .iter()
            .filter(|(name, _)| {
                name.starts_with("NVIDIA_REQUIRE_") && !name.starts_with("NVIDIA_REQUIRE_JETPACK")
            })
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let has_cuda = demands
            .iter()
            .any(|(name, value)| name == "NVIDIA_REQUIRE_CUDA" && !value.is_empty());
        // Older images have no requirement, and the toolkit makes one of this variable.
        let own = variable(image, "CUDA_VERSION").and_then(version);
        if let Some(own) = own.filter(|_| !has_cuda) {
            demands.push(("CUDA_VERSION".to_owned(), format!("cuda>={}", own.series())));
        }
        let is_disabled = variable(image, "NVIDIA_DISABLE_REQUIRE")
            .is_some_and(|value| ["1", "t", "true"].contains(&value.to_ascii_lowercase().as_str()));
        let configured = configured(image, &demands, database);
        // A variable stays when a later layer removes the files.
        let compat = match &image.contents {
            Some(contents) => contents.compat.clone(),
            None => variable(image, "NV_CUDA_COMPAT_PACKAGE").map(|name| Compat {
                driver: None,
                is_found: true,
                name: name.to_owned(),
            }),
        };
        let mut needs = Self {
            compat,
            demands,
            is_disabled,
            cuda: configured,
            ..Self::default()
        };
        needs.configured = needs.cuda.as_ref().map(|cuda| cuda.text.clone());
        if let Some(contents) = &image.contents {
            needs.add_files(contents, database);
        }
        needs
    }

    /// Each version that its CUDA may be, oldest first.
    pub(crate) fn versions(&self) -> &[CudaVersion] {
        self.cuda.as_ref().map_or(&[], |cuda| &cuda.versions)
    }

    /// A CUDA in its files that is newer than what the configuration says: a wheel in an image of
    /// an older CUDA. And the older ones.
    fn add_files(&mut self, contents: &Contents, database: &Database) {
        for has_minor in [true, false] {
            let newest = contents
                .cudas
                .iter()
                .filter(|((_, minor), _)| minor.is_some() == has_minor)
                .max();
            let Some((cuda, file)) = newest else { continue };
            let known = self
                .versions()
                .first()
                .map(|known| (known.major, Some(known.minor).filter(|_| has_minor)));
            if known.is_none_or(|known| *cuda > known) {
                self.cuda = Some(Cuda::of(*cuda, file, database));
            }
        }
        let Some(newest) = self.versions().first() else {
            return;
        };
        let choices = contents
            .older_choices(newest.major)
            .into_iter()
            .map(|(cuda, file)| Cuda::of(cuda, file, database));
        self.choices = choices
            .filter(|choice| !choice.versions.is_empty())
            .collect();
    }
}

impl Cuda {
    /// That which a file shows.
    fn of((major, minor): NamedCuda, file: &str, database: &Database) -> Self {
        let series = minor.map(|minor| CudaVersion {
            major,
            minor,
            patch: None,
        });
        let text = series.map_or_else(|| major.to_string(), |series| series.to_string());
        let versions = series.map_or_else(|| of_major(major, database), |series| vec![series]);
        Self {
            versions,
            text,
            file: Some(file.to_owned()),
        }
    }

    pub(crate) fn said(&self) -> String {
        format!(
            "it also has CUDA {}: {}",
            self.text,
            self.file.as_deref().unwrap_or_default()
        )
    }
}

/// The CUDA of an image's configuration.
fn configured(image: &Image, demands: &[(String, String)], database: &Database) -> Option<Cuda> {
    // Of NVIDIA's images: 12.4.1, and packages' versions such as 12.4.127-1. An image made of one
    // may differ in them.
    let label = image
        .labels
        .get("com.nvidia.cuda.version")
        .map(String::as_str);
    let names = [
        variable(image, "CUDA_VERSION"),
        label,
        variable(image, "NV_CUDA_LIB_VERSION"),
    ];
    let names = names
        .into_iter()
        .flatten()
        .map(|text| text.split('-').next().unwrap_or_default());
    // Of those of one series the first: `max_by_key` takes the last.
    let named = names.rev().max_by_key(|text| series(text));
    if let Some((text, major)) = named.and_then(|text| Some((text, text.parse().ok()?))) {
        return Some(Cuda {
            versions: of_major(major, database),
            text: text.to_owned(),
            file: None,
        });
    }
    let exact = named.and_then(version).or_else(|| {
        let first = demands
            .iter()
            .find(|(name, _)| name == "NVIDIA_REQUIRE_CUDA")?;
        version(first.1.split(' ').next()?.strip_prefix("cuda>=")?)
    });
    let text = named
        .map(str::to_owned)
        .or_else(|| exact.map(|cuda| cuda.series().to_string()))?;
    Some(Cuda {
        versions: exact.into_iter().collect(),
        text,
        file: None,
    })
}

/// The series of a major version, oldest first.
fn of_major(major: u16, database: &Database) -> Vec<CudaVersion> {
    let all = database.cuda.iter().map(|release| release.version.series());
    all.filter(|series| series.major == major)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

fn variable<'a>(image: &'a Image, name: &str) -> Option<&'a str> {
    image
        .variables
        .get(name)
        .filter(|value| !value.is_empty())
        .map(String::as_str)
}

/// The series of a release or of a major version, by which versions are compared.
fn series(text: &str) -> Option<CudaVersion> {
    version(text).map(CudaVersion::series).or_else(|| {
        Some(CudaVersion {
            major: text.parse().ok()?,
            minor: 0,
            patch: None,
        })
    })
}

/// A release of CUDA. Some images add the number of a build: 13.0.1.012.
fn version(text: &str) -> Option<CudaVersion> {
    text.split('.')
        .take(3)
        .collect::<Vec<_>>()
        .join(".")
        .parse()
        .ok()
}
