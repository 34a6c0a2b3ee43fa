//! Settings in Docker's `daemon.json` with which dockerd does not start, although the file is JSON.

use super::configuration::Configuration;
use super::{BrokenConfig, InstalledEngine};
use gpusetup_database::compat::{Engine, EngineForm};
use gpusetup_database::version::AddOnVersion;
use gpusetup_system::{Program, System};
use std::path::Path;
use std::time::Duration;

/// The first version with `--validate`.
const VALIDATES_SINCE: AddOnVersion = AddOnVersion {
    major: 23,
    minor: 0,
    patch: Some(0),
    build: None,
};

/// What dockerd prints before the reason, and the path of its file:
/// <https://github.com/moby/moby/blob/v23.0.0/cmd/dockerd/daemon.go>.
const REFUSAL: &str = "unable to configure the Docker daemon with file ";

/// Why this dockerd does not start with its file and the options of its unit, in its own words.
pub(super) fn refused(
    system: &System,
    engine: &Engine,
    found: &InstalledEngine,
    read: &Configuration,
) -> Option<BrokenConfig> {
    if engine.form != EngineForm::DaemonJson || !read.broken.is_empty() {
        return None;
    }
    let path = read.files.first()?;
    if !system.is_live() || found.version < Some(VALIDATES_SINCE) || !system.exists(path) {
        return None;
    }
    let program = found.program.to_str()?;
    let options = read.starts.iter().find_map(|start| start.options(program));
    let validate = ["--validate", "--config-file", path.to_str()?].map(str::to_owned);
    let argv = [program.to_owned()]
        .into_iter()
        .chain(options.unwrap_or_default())
        .chain(validate);
    let output = system
        .run(&Program::new(argv).limit(Duration::from_secs(10)))
        .ok()?;
    let why = reason(&output.text, path).filter(|_| !output.succeeded())?;
    Some(BrokenConfig {
        engine: engine.id,
        path: path.clone(),
        why: why.to_owned(),
        line: None,
    })
}

/// Why dockerd refuses a file, from its output.
fn reason<'o>(output: &'o str, path: &Path) -> Option<&'o str> {
    let (_, rest) = output.split_once(REFUSAL)?;
    let why = rest.strip_prefix(path.to_str()?)?.strip_prefix(": ")?;
    why.lines().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_in_dockerds_own_words() {
        let path = Path::new("/etc/docker/daemon.json");
        let text = "time=\"2026-11-29T10:00:00Z\" level=warning msg=\"a warning\"\nunable to configure the Docker daemon with file \
                    /etc/docker/daemon.json: the following directives don't match any configuration option: graph\n";
        let why = "the following directives don't match any configuration option: graph";
        assert_eq!(reason(text, path), Some(why));
        for other in ["", "configuration OK\n", "unknown flag: --validate\n"] {
            assert_eq!(reason(other, path), None, "{other}");
        }
    }
}
