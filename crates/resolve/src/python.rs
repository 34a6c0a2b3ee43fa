//! What a user of Python installs for a framework: the commands, whether a driver is enough, and
//! what compiling extensions needs.

use super::TargetGpu;
use gpusetup_database::compat::{
    AddOnArtifact, AddOnId, BundledComponent, CudaRelease, Database, Framework, FrameworkBuild,
    FrameworkNeeds, FrameworkRelease, PythonRange,
};
use gpusetup_database::compat::{PythonInstall, framework_and_version, without_label};
use gpusetup_database::version::{AddOnVersion, CudaVersion, DriverVersion};
use gpusetup_text::text::quoted;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// How a build of a framework is installed, and what it needs from the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct PythonPackage {
    /// The framework as requested, `torch==2.9`.
    pub framework: String,
    /// The CUDA series of the build; the first that it runs with if it runs with newer ones of the
    /// same major version.
    pub cuda: CudaVersion,
    /// The cuDNN of the build, if it uses one; the first that it runs with.
    pub cudnn: Option<AddOnVersion>,
    /// It runs with newer versions of the same major version, too. Its packages then bring the
    /// newest.
    pub(crate) or_newer: bool,
    /// Its packages bring the newest cuDNN of the major version.
    #[serde(skip)]
    takes_newest_cudnn: bool,
    /// Where CUDA and cuDNN come from.
    pub(crate) libraries: Libraries,
    /// The oldest driver that runs programs of this CUDA; in a plan also the host's GPUs.
    pub(crate) minimum_driver: Option<DriverVersion>,
    /// The commands that install the build, each for one package manager. Empty if no source says
    /// where it is published.
    pub commands: Vec<PythonCommand>,
    /// It, or a part of it, is compiled on the host with Python's headers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(
        feature = "schemas",
        schemars(skip_serializing_if = "std::ops::Not::not")
    )]
    pub compiled: bool,
    /// It compiles kernels with nvcc whenever it starts, and stops without it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(
        feature = "schemas",
        schemars(skip_serializing_if = "std::ops::Not::not")
    )]
    pub(crate) nvcc_at_start: bool,
    /// The versions of Python that its wheels are for, if they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<PythonRange>,
    /// What compiling extensions for it needs. None for builds that do not use the toolkit.
    pub extensions: Option<Extensions>,
    /// Where the commands are published.
    pub sources: Vec<String>,
}

/// Where a build gets CUDA and cuDNN from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Libraries {
    /// From its own packages: the host needs only a driver.
    Packages,
    /// CUDA from its own packages, cuDNN from the host.
    Cuda,
    /// From the host's toolkit.
    Host,
    /// From the PyTorch that is installed.
    Torch,
    /// No source says it.
    Unknown,
}

impl Libraries {
    /// Whether Python packages bring all of CUDA and cuDNN.
    pub(crate) fn are_packaged(self) -> bool {
        matches!(self, Self::Packages | Self::Torch)
    }

    /// Whether CUDA or cuDNN is left to the host.
    pub(crate) fn are_hosts(self) -> bool {
        matches!(self, Self::Host | Self::Cuda)
    }
}

/// A command that installs a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct PythonCommand {
    /// The package manager.
    #[cfg_attr(feature = "schemas", schemars(extend("enum" = ["pip", "uv", "conda"])))]
    pub tool: String,
    /// The command, quoted for a shell.
    pub command: String,
}

/// What compiling extensions needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Extensions {
    /// The CUDA series of the nvcc.
    pub(crate) nvcc: CudaVersion,
    /// The oldest g++ that this nvcc supports.
    pub(crate) gcc_min: Option<u16>,
    /// The newest g++ that this nvcc supports.
    pub(crate) gcc_max: Option<u16>,
}

impl PythonPackage {
    /// How `build` is installed. `wish` is the framework as requested, `pinned` the version that
    /// another framework in the environment requires.
    pub fn of(
        database: &Database,
        framework: &Framework,
        release: &FrameworkRelease,
        build: &FrameworkBuild,
        wish: &str,
        pinned: Option<&str>,
        architecture: &str,
    ) -> Self {
        let install = framework.python_install(release, build, architecture);
        let conda = framework.conda_install(release, build, architecture);
        let version = pinned.unwrap_or_else(|| version_of(release, wish));
        let is_plain = version.chars().all(|c| c.is_ascii_digit() || c == '.');
        // pip takes no `.*` after `.post1`.
        let version = format!("{version}{}", if is_plain { ".*" } else { "" });
        let mut commands = install
            .as_ref()
            .map(|install| pip(install, &version))
            .unwrap_or_default();
        commands.extend(conda.as_ref().map(|(words, _)| PythonCommand {
            tool: "conda".to_owned(),
            command: format!(
                    "conda install {}",
                    words
                        .iter()
                        .map(|w| quoted(w))
                        .collect::<Vec<_>>()
                        .join(" ")
                ),
        }));
        let of_conda = conda.iter().flat_map(|(_, sources)| *sources);
        let mut sources: Vec<_> = install
            .iter()
            .flat_map(|install| install.sources)
            .chain(of_conda)
            .map(ToString::to_string)
            .collect();
        sources.dedup();
        let mut releases = database.cuda.iter();
        let newest = releases.find(|c| c.version.series() == build.cuda.series());
        Self {
            framework: wish.to_owned(),
            cuda: build.first_cuda(),
            cudnn: build.first_cudnn(),
            or_newer: build.cuda_min.is_some(),
            takes_newest_cudnn: build.cudnn_min.is_some()
                && install
                    .as_ref()
                    .is_some_and(|install| install.brings.contains(&BundledComponent::Cudnn)),
            libraries: libraries(build, install.as_ref()),
            minimum_driver: newest
                .filter(|_| build.needs != FrameworkNeeds::Torch)
                .map(|c| c.minimum_driver),
            compiled: (build.needs == FrameworkNeeds::Compiler
                || !framework.python_headers.is_empty())
                && !commands.is_empty(),
            commands,
            nvcc_at_start: framework.needs_nvcc_at_start(release),
            python: release.python,
            extensions: newest
                .filter(|_| !matches!(build.needs, FrameworkNeeds::Driver | FrameworkNeeds::Torch))
                .map(|c| Extensions {
                    nvcc: build.first_toolkit().max(build.cuda).series(),
                    gcc_min: c.gcc_min,
                    gcc_max: c.gcc_max,
                }),
            sources,
        }
    }

    /// With the oldest driver that also knows these GPUs, and with a cuDNN that they run.
    pub fn on(self, database: &Database, gpus: &[Rc<TargetGpu>]) -> Self {
        self.with_cudnn_for(database, gpus)
            .with_driver_for(database, gpus)
    }

    /// Names a cuDNN for pip, if the newest one has no code for a GPU.
    fn with_cudnn_for(mut self, database: &Database, gpus: &[Rc<TargetGpu>]) -> Self {
        let Some(cudnn) = self.cudnn.filter(|_| self.takes_newest_cudnn) else {
            return self;
        };
        let line = self.cuda.major.to_string();
        let mut released = database
            .add_on_archives(AddOnId::CUDNN)
            .filter(|archive| archive.version.major == cudnn.major)
            .filter(|archive| *archive.cuda_line == *line);
        let newest = released.clone().next();
        let fitting = released.find(|archive| runs_on_all(database, archive, gpus));
        if let (Some(newest), Some(fitting)) = (newest, fitting)
            && newest.version != fitting.version
        {
            let pin = format!(" nvidia-cudnn-cu{line}=={}", fitting.version);
            for command in self.commands.iter_mut().filter(|c| c.tool != "conda") {
                command.command += &pin;
            }
        }
        self
    }

    /// With the oldest driver that also knows these GPUs.
    fn with_driver_for(self, database: &Database, gpus: &[Rc<TargetGpu>]) -> Self {
        let first = gpus.iter().filter_map(|card| card.first_branch).max();
        let Some(first) = first.filter(|first| {
            self.minimum_driver
                .is_none_or(|driver| driver.branch < *first)
        }) else {
            return self;
        };
        let known = database
            .drivers
            .iter()
            .map(|release| release.version)
            .filter(|version| version.branch >= first);
        Self {
            minimum_driver: known.min().or(self.minimum_driver),
            ..self
        }
    }

    /// With what this toolkit needs to compile extensions: it may be newer than the build's own,
    /// within its major version.
    pub(crate) fn compiled_with(self, toolkit: Option<&CudaRelease>) -> Self {
        let extensions = self.extensions.map(|needed| {
            toolkit.map_or(needed, |release| Extensions {
                nvcc: release.version.series(),
                gcc_min: release.gcc_min,
                gcc_max: release.gcc_max,
            })
        });
        Self { extensions, ..self }
    }

    /// Whether a source says how it is installed, or what it needs.
    pub fn is_known(&self) -> bool {
        !self.commands.is_empty() || self.libraries != Libraries::Unknown
    }

    /// Whether a driver is all that the host needs.
    pub fn needs_only_driver(&self) -> bool {
        self.libraries.are_packaged() && !self.nvcc_at_start
    }

    /// Whether a driver is enough, in a sentence.
    pub fn needs(&self) -> String {
        let driver = self
            .minimum_driver
            .map(|driver| format!("driver {driver} or newer"));
        let driver = driver.unwrap_or_else(|| "driver".to_owned());
        let newer = if self.or_newer { " or newer" } else { "" };
        let cuda = format!("CUDA {}{newer}", self.cuda);
        let cudnn = self
            .cudnn
            .map(|cudnn| format!(" and cuDNN {cudnn}{newer}"))
            .unwrap_or_default();
        match self.libraries {
            Libraries::Packages if self.nvcc_at_start => {
                format!(
                    "brings its own {cuda}{cudnn}, and compiles kernels whenever it starts: the host needs {driver} and nvcc of CUDA {}",
                    self.cuda
                )
            }
            Libraries::Packages => format!("brings its own {cuda}{cudnn}: {driver} is enough"),
            Libraries::Cuda => {
                format!("brings its own {cuda}, but not cuDNN; the host needs {driver}{cudnn}")
            }
            Libraries::Torch => "uses the CUDA of the PyTorch that is installed".to_owned(),
            Libraries::Host => {
                format!("does not bring CUDA: the host needs {driver}, {cuda}{cudnn}")
            }
            Libraries::Unknown => {
                format!(
                    "uses {cuda}{cudnn}: no source says whether its packages bring them; it needs {driver}"
                )
            }
        }
    }
}

/// Whether an archive of an add-on has code for all of these GPUs.
fn runs_on_all(database: &Database, archive: &AddOnArtifact, gpus: &[Rc<TargetGpu>]) -> bool {
    let mut capabilities = gpus.iter().filter_map(|card| card.capability);
    let range = database.range_of(archive);
    range.is_some_and(|range| capabilities.all(|capability| range.runs_on(capability)))
}

impl Extensions {
    /// What to install, such as `nvcc of CUDA 12.8 and g++ 6 to 14`.
    pub fn needs(&self) -> String {
        let gcc = match (self.gcc_min, self.gcc_max) {
            (Some(min), Some(max)) => format!(" and g++ {min} to {max}"),
            (None, Some(max)) => format!(" and g++ up to {max}"),
            _ => " and g++".to_owned(),
        };
        format!("nvcc of CUDA {}{gcc}", self.nvcc)
    }
}

/// Where a build's libraries come from on a machine architecture.
pub(crate) fn libraries_of(
    framework: &Framework,
    release: &FrameworkRelease,
    build: &FrameworkBuild,
    architecture: &str,
) -> Libraries {
    let install = framework.python_install(release, build, architecture);
    libraries(build, install.as_ref())
}

fn libraries(build: &FrameworkBuild, install: Option<&PythonInstall>) -> Libraries {
    let brings = install.map(|install| install.brings).unwrap_or_default();
    match build.needs {
        FrameworkNeeds::Torch => Libraries::Torch,
        FrameworkNeeds::Driver => Libraries::Packages,
        FrameworkNeeds::Compiler => Libraries::Host,
        FrameworkNeeds::Libraries if install.is_none() => Libraries::Unknown,
        FrameworkNeeds::Libraries if !brings.contains(&BundledComponent::Cuda) => Libraries::Host,
        FrameworkNeeds::Libraries
            if build.first_cudnn().is_none() || brings.contains(&BundledComponent::Cudnn) =>
        {
            Libraries::Packages
        }
        FrameworkNeeds::Libraries => Libraries::Cuda,
    }
}

/// The version for pip: all that begin with the requested numbers, or with the release's. What has
/// three here may have four on PyPI, or `.post1`.
pub(crate) fn version_of<'a>(release: &'a FrameworkRelease, wish: &'a str) -> &'a str {
    let (_, asked) = framework_and_version(wish);
    let asked = without_label(asked).trim_start_matches('=').trim();
    let is_plain = !asked.is_empty() && asked.chars().all(|c| c.is_ascii_digit() || c == '.');
    match asked {
        asked if is_plain && asked.starts_with(&release.version) => asked,
        _ => &release.version,
    }
}

fn pip(install: &PythonInstall, version: &str) -> Vec<PythonCommand> {
    let mut words = vec![quoted(&format!("{}=={version}", install.package))];
    words.extend(install.options.iter().map(|option| quoted(option)));
    words.extend(
        install
            .index
            .iter()
            .map(|index| format!("--index-url {}", quoted(index))),
    );
    let words = words.join(" ");
    let first: Vec<_> = install.before.iter().map(|name| quoted(name)).collect();
    [("pip", "pip install"), ("uv", "uv pip install")]
        .map(|(tool, command)| {
            let before = match first.as_slice() {
                [] => String::new(),
                names => format!("{command} {} && ", names.join(" ")),
            };
            let torch = install
                .torch_backend
                .as_ref()
                .map(|backend| torch_from(tool, backend));
            PythonCommand {
                tool: tool.to_owned(),
                command: format!("{before}{command} {words}{}", torch.unwrap_or_default()),
            }
        })
        .into()
}

/// Where PyTorch's wheels are, by CUDA: the index of torch in frameworks.yaml.
const PYTORCH_INDEX: &str = "https://download.pytorch.org/whl";

/// The option that takes PyTorch from its own index. pip prefers the version there, whose label is
/// newer; uv takes a package from the first index that has it, so it is told of PyTorch alone.
fn torch_from(tool: &str, backend: &str) -> String {
    match tool {
        "uv" => format!(" --torch-backend {}", quoted(backend)),
        _ => format!(
            " --extra-index-url {}",
            quoted(&format!("{PYTORCH_INDEX}/{backend}"))
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_data::embedded;

    fn package(wish: &str, build: usize, architecture: &str) -> PythonPackage {
        let database = embedded();
        let framework = database
            .framework(framework_and_version(wish).0)
            .expect("a framework");
        let release = database.framework_release(wish).expect("a release");
        PythonPackage::of(
            &database,
            framework,
            release,
            &release.builds[build],
            wish,
            None,
            architecture,
        )
    }

    fn commands(wish: &str, build: usize, architecture: &str) -> Vec<String> {
        package(wish, build, architecture)
            .commands
            .into_iter()
            .map(|c| c.command)
            .collect()
    }

    #[test]
    fn commands_name_the_index_and_the_version() {
        let cu126 = "'torch==2.9.*' --index-url https://download.pytorch.org/whl/cu126";
        assert_eq!(
            commands("torch==2.9", 3, "x86_64"),
            [
                format!("pip install {cu126}"),
                format!("uv pip install {cu126}")
            ]
        );
        assert_eq!(
            commands("torch==2.9.1", 0, "x86_64")[0],
            "pip install 'torch==2.9.1.*'"
        );
        assert_eq!(
            commands("torch>=2.9,<2.10", 0, "x86_64")[0],
            "pip install 'torch==2.9.*'"
        );
        assert_eq!(
            commands("torch==2.5", 0, "x86_64")[2],
            "conda install pytorch=2.5 pytorch-cuda=12.4 -c pytorch -c nvidia"
        );
        assert_eq!(
            commands("jax==0.12", 0, "x86_64")[0],
            "pip install 'jax[cuda13]==0.12.*'"
        );
        assert_eq!(
            commands("flash-attn", 0, "x86_64")[0],
            "pip install packaging psutil ninja setuptools wheel && pip install 'flash-attn==2.8.*' --no-build-isolation"
        );
    }

    #[test]
    fn a_driver_is_enough_for_wheels_that_bring_cuda() {
        let torch = package("torch==2.9", 0, "x86_64");
        assert_eq!(
            torch.needs(),
            "brings its own CUDA 12.8 and cuDNN 9.10.2: driver 525.60.13 or newer is enough"
        );
        assert_eq!(
            torch.extensions.map(|e| e.needs()),
            Some("nvcc of CUDA 12.8 and g++ 6 to 14".to_owned())
        );
        let old = package("tensorflow==2.13", 0, "x86_64");
        assert!(!old.needs_only_driver(), "{}", old.needs());
        assert!(package("xgboost", 0, "x86_64").extensions.is_none());
        assert_eq!(
            package("flash-attn", 0, "x86_64").libraries,
            Libraries::Host
        );
    }

    #[test]
    fn nvidias_own_frameworks_are_installed_for_a_major_version_of_cuda() {
        for (wish, build, command) in [
            ("tensorrt==11.4", 1, "pip install 'tensorrt-cu12==11.4.*'"),
            // It is 10.13.0.35 on PyPI.
            (
                "tensorrt==10.13.0",
                0,
                "pip install 'tensorrt-cu12==10.13.0.*'",
            ),
            (
                "transformer-engine==2.20",
                0,
                "pip install packaging setuptools wheel ninja && pip install 'transformer-engine[pytorch,core_cu13]==2.20.*' --no-build-isolation",
            ),
            // Before 2.9 there were builds for CUDA 12 only.
            (
                "transformer-engine==2.8",
                0,
                "pip install packaging setuptools wheel ninja && pip install 'transformer-engine[pytorch]==2.8.*' --no-build-isolation",
            ),
        ] {
            assert_eq!(commands(wish, build, "x86_64")[0], command);
        }
        assert_eq!(
            commands("transformer-engine==2.20", 0, "aarch64"),
            commands("transformer-engine==2.20", 0, "x86_64")
        );
        assert!(package("transformer-engine==2.20", 0, "x86_64").compiled);
        // The bindings of TensorRT 8.6 are for x86-64 alone.
        assert!(commands("tensorrt==8.6", 0, "aarch64").is_empty());
    }
}
