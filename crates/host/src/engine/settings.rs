//! Settings in Docker's `daemon.json` with which dockerd does not start, although the file is JSON.

use super::BrokenConfig;
use super::configuration::Configuration;
use crate::engine_config::json_object;
use gpusetup_database::compat::{Engine, EngineSettings, SettingKind};
use gpusetup_database::version::AddOnVersion;
use gpusetup_system::System;
use serde_json::{Map, Value};

/// The first setting in the files of an engine with which this version of it does not start.
pub(super) fn refused(
    system: &System,
    engine: &Engine,
    read: &Configuration,
    version: Option<AddOnVersion>,
) -> Option<BrokenConfig> {
    let settings = engine.settings.as_ref()?;
    let path = read.files.first()?;
    let all = json_object(&system.read_text(path).ok()??).ok()?;
    let of_value = || {
        all.iter()
            .find_map(|(key, value)| mistake(settings.kind(key)?, &format!("its key {key}"), value))
    };
    let unknown = || {
        let version = version?;
        let key = set_keys(settings, &all)
            .into_iter()
            .find(|key| settings.refuses(version, key))?;
        Some(format!(
            "it has the key {key}, which {} {version} does not know",
            engine.title
        ))
    };
    let why = unknown()
        .or_else(of_value)
        .or_else(|| beside_option(engine, read, settings, &all))?;
    Some(BrokenConfig {
        engine: engine.id,
        path: path.clone(),
        why,
        line: None,
    })
}

/// The keys that count as those of the file: dockerd looks into every object whose keys are not
/// values of their own. <https://github.com/moby/moby/blob/docker-v29.7.2/daemon/config/config.go>,
/// `configValuesSet`.
fn set_keys<'f>(settings: &EngineSettings, all: &'f Map<String, Value>) -> Vec<&'f str> {
    let keys = all
        .iter()
        .flat_map(|(key, value)| match (settings.kind(key), value) {
            (None | Some(SettingKind::Section), Value::Object(inner)) => {
                inner.keys().map(String::as_str).collect()
            }
            _ => vec![key.as_str()],
        });
    keys.collect()
}

/// Why the engine does not start with a key beside an option of its command line.
fn beside_option(
    engine: &Engine,
    read: &Configuration,
    settings: &EngineSettings,
    all: &Map<String, Value>,
) -> Option<String> {
    set_keys(settings, all).into_iter().find_map(|key| {
        let options = settings.options_of(key);
        let (unit, option) = read.starts.iter().find_map(|start| start.first_of(&options))?;
        let (title, unit) = (&engine.title, unit.display());
        Some(format!("it has the key {key}, and {unit} the option {option}: {title} starts with only one of them"))
    })
}

/// Why a value is not what dockerd decodes; none if it is. `what` names the value. A key that is
/// `null` is not set.
fn mistake(kind: SettingKind, what: &str, value: &Value) -> Option<String> {
    use SettingKind as Kind;
    let (is_right, wanted, inner) = match kind {
        Kind::Any => return None,
        Kind::String => (value.is_string(), "no string in quotation marks", Kind::Any),
        Kind::Boolean => (value.is_boolean(), "neither true nor false", Kind::Any),
        Kind::Integer => (
            value.is_i64() || value.is_u64(),
            "no whole number",
            Kind::Any,
        ),
        Kind::Object => (value.is_object(), "no object", Kind::Any),
        Kind::Strings => (value.is_array(), "no list", Kind::String),
        Kind::Objects => (value.is_array(), "no list", Kind::Object),
        Kind::StringMap | Kind::Section => (value.is_object(), "no object", Kind::String),
        Kind::BooleanMap => (value.is_object(), "no object", Kind::Boolean),
        Kind::StringMaps => (value.is_object(), "no object", Kind::StringMap),
        Kind::ObjectMap => (value.is_object(), "no object", Kind::Object),
    };
    match value {
        Value::Null => None,
        _ if !is_right => Some(format!("{what} is {wanted}")),
        Value::Array(all) => all
            .iter()
            .find_map(|entry| mistake(inner, &format!("an entry of {what}"), entry)),
        Value::Object(all) => all
            .iter()
            .find_map(|(key, entry)| mistake(inner, &format!("{what}.{key}"), entry)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::container_host;
    use super::super::tests::{tree, write};
    use gpusetup_data::embedded;

    const UNIT: &str = "/usr/lib/systemd/system/docker.service";
    const PACKAGED: &str = "/usr/bin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock";

    /// Why Docker of this version does not start with this `daemon.json`.
    fn why(version: &str, command: &str, daemon: &str) -> String {
        let (_dir, system) = tree();
        let record =
            format!("Package: docker-ce\nStatus: install ok installed\nVersion: 5:{version}-1\n\n");
        let unit = format!("[Service]\nExecStart={command}\n");
        for (path, text) in [
            ("/usr/bin/dockerd", ""),
            (UNIT, unit.as_str()),
            ("/etc/docker/daemon.json", daemon),
            ("/var/lib/dpkg/status", record.as_str()),
        ] {
            write(&system, path, text.as_bytes(), 0o644);
        }
        let broken = container_host(&system, &embedded(), None).broken;
        broken
            .into_iter()
            .map(|of| of.why)
            .collect::<Vec<_>>()
            .join("; ")
    }

    #[test]
    fn a_value_of_another_kind_is_refused() {
        for (daemon, expected) in [
            (
                r#"{"log-opts": {"max-size": "10m", "max-file": 3}}"#,
                "its key log-opts.max-file is no string",
            ),
            (
                r#"{"registry-mirrors": "https://mirror.example"}"#,
                "its key registry-mirrors is no list",
            ),
            (
                r#"{"insecure-registries": ["a.example", 1]}"#,
                "an entry of its key insecure-registries is no string",
            ),
            (
                r#"{"runtimes": {"nvidia": "nvidia-container-runtime"}}"#,
                "its key runtimes.nvidia is no object",
            ),
            (
                r#"{"live-restore": "true"}"#,
                "its key live-restore is neither true nor false",
            ),
            (r#"{"mtu": "1450"}"#, "its key mtu is no whole number"),
            (
                r#"{"proxies": {"http-proxy": 1}}"#,
                "its key proxies.http-proxy is no string",
            ),
        ] {
            let said = why("28.3.3", PACKAGED, daemon);
            assert!(said.starts_with(expected), "{daemon}: {said}");
        }
    }

    #[test]
    fn what_docker_reads_is_not_refused() {
        let daemon = r#"{"data-root": "/data", "exec-opts": ["native.cgroupdriver=systemd"], "log-driver": "json-file",
            "log-opts": {"max-size": "10m", "max-file": "3"}, "mtu": 1450, "live-restore": true, "debug": null,
            "features": {"cdi": true}, "runtimes": {"x": {"path": "/usr/bin/crun", "runtimeArgs": []}},
            "default-ulimits": {"nofile": {"Name": "nofile", "Hard": 64000, "Soft": 64000}}, "bip": "10.1.0.1/16",
            "default-address-pools": [{"base": "10.2.0.0/16", "size": 24}], "builder": {"gc": {"enabled": true}},
            "proxies": {"http-proxy": "http://proxy.example"}, "dns": ["10.0.0.1"], "default-shm-size": "64M"}"#;
        for version in ["24.0.9", "28.3.3", "29.7.2", "99.0.0"] {
            assert_eq!(why(version, PACKAGED, daemon), "", "{version}");
        }
        for daemon in ["", "{}", "\u{feff}{\"debug\": true}"] {
            assert_eq!(why("28.3.3", PACKAGED, daemon), "", "{daemon:?}");
        }
    }

    #[test]
    fn a_key_that_this_version_does_not_know_is_refused() {
        let unknown =
            |version: &str, key: &str| why(version, PACKAGED, &format!(r#"{{"{key}": "x"}}"#));
        for (version, key) in [
            ("28.3.3", "default_runtime"),
            ("23.0.6", "graph"),
            ("20.10.24", "http-proxy"),
        ] {
            let expected = format!("it has the key {key}, which Docker {version} does not know");
            assert_eq!(unknown(version, key), expected);
        }
        assert_eq!(unknown("20.10.24", "graph"), "");
        assert_eq!(unknown("99.0.0", "x-new"), "", "nobody has looked");
        assert_eq!(
            why("28.3.3", PACKAGED, r#"{"x": {"debug": true}}"#),
            "",
            "dockerd looks into it"
        );
    }

    #[test]
    fn a_key_beside_its_option_is_refused() {
        let hosts = r#"{"hosts": ["unix:///var/run/docker.sock"]}"#;
        let said = why("28.3.3", PACKAGED, hosts);
        let expected = format!(
            "it has the key hosts, and {UNIT} the option -H: Docker starts with only one of them"
        );
        assert_eq!(said, expected);
        assert_eq!(why("28.3.3", "/usr/bin/dockerd", hosts), "");
        let runtimes = r#"{"runtimes": {"x": {"path": "/usr/bin/crun"}}}"#;
        assert_eq!(
            why(
                "28.3.3",
                "/usr/bin/dockerd --add-runtime=y=/usr/bin/runc --default-runtime y",
                runtimes
            ),
            ""
        );
        let said = why(
            "28.3.3",
            "/usr/bin/dockerd --default-runtime=runc",
            r#"{"default-runtime": "runc"}"#,
        );
        assert!(
            said.contains("the key default-runtime, and ") && said.contains("--default-runtime"),
            "{said}"
        );
    }

    #[test]
    fn a_default_runtime_has_to_be_defined() {
        let of = |name: &str| {
            why(
                "28.3.3",
                PACKAGED,
                &format!(r#"{{"default-runtime": "{name}"}}"#),
            )
        };
        assert_eq!(
            of("nvidi"),
            "it makes nvidi the default runtime, and defines none of this name"
        );
        for fine in ["runc", "io.containerd.runsc.v1", ""] {
            assert_eq!(of(fine), "", "{fine}");
        }
        assert_eq!(of("nvidia"), "", "a plan adds it");
        assert_eq!(
            why(
                "28.3.3",
                "/usr/bin/dockerd --add-runtime=x=/x",
                r#"{"default-runtime": "x"}"#
            ),
            ""
        );
    }
}
