//! Python environments: whether their frameworks are built for the GPUs and the driver, have the
//! packages that they require, and load their own libraries.

mod build;
mod packages;

pub(crate) use build::{for_driver, for_gpu, with_cuda};
pub(crate) use packages::{own_libraries, required};

use crate::evidence::{EnvironmentKind, EnvironmentPackage, PythonEnvironment};
use crate::{Answer, Case, Verdict};
use gpusetup_text::text::{quoted, quoted_path};

/// Runs a check on every environment. Without environments the check does not apply.
fn on_each(case: &Case, check: impl Fn(&PythonEnvironment) -> Verdict) -> Verdict {
    match &case.seen.python {
        Answer::Is(all) if all.is_empty() => {
            Verdict::skip("no Python environment with CUDA was found")
        }
        Answer::Is(all) => Verdict::worst(all.iter().map(check)).unwrap_or_else(Verdict::pass),
        Answer::Failed(why) | Answer::NotAsked(why) => {
            Verdict::skip("Python environments were not read").evidence(why.clone())
        }
    }
}

/// A package and where it is: `torch 2.9.1+cu128 in /opt/venv`.
fn named(environment: &PythonEnvironment, package: &EnvironmentPackage) -> String {
    format!(
        "{} {} in {}",
        package.name,
        package.version,
        environment.path.display()
    )
}

/// The command that installs packages into an environment.
fn install(environment: &PythonEnvironment, by_conda: bool, words: &str) -> String {
    let path = &environment.path;
    match environment.kind {
        _ if by_conda => format!("conda install -p {} {words}", quoted_path(path)),
        EnvironmentKind::System => format!("sudo python3 -m pip install {words}"),
        // uv makes environments without pip.
        _ if !environment.has_pip => {
            format!("uv pip install --python {} {words}", quoted_path(path))
        }
        _ => format!("{} install {words}", quoted_path(&path.join("bin/pip"))),
    }
}

/// Packages with versions, quoted for a shell.
fn quoted_words<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}
