//! A plan as cloud-init user-data: a config file that pins what was chosen, and one command.
//! gpusetup does the rest on the machine, against the host as it is then: packages and kernels may
//! have been upgraded since, and devices renumbered.

use crate::fetch::Sources;
use crate::plan::Plan;
use crate::resolve::Method;
use crate::text::{is_hidden, public_address, visible};
use std::fmt::Write;

/// How the machine gets there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UserDataOptions<'a> {
    /// NVIDIA's licences are accepted.
    pub(crate) accept_eula: bool,
    pub(crate) reboot: &'a str,
    /// Where artifacts come from there too.
    pub(crate) sources: &'a Sources,
    /// Where the binary comes from, with its sum; none where the image has it.
    pub(crate) binary: Option<(&'a str, &'a str)>,
    /// The lock file that the machine keeps to, as one line of JSON; none without `--locked`.
    pub(crate) lock: Option<&'a str>,
}

impl UserDataOptions<'_> {
    /// What the machine needs beside the user-data, with the flags that provide it.
    pub(crate) fn missing(&self, plan: &Plan) -> Vec<&'static str> {
        let licences =
            "apply stops with exit code 2 until NVIDIA's licences are accepted: add --accept-eula";
        let program =
            "the image must contain gpusetup: otherwise add --binary-url URL --binary-sha256 SUM";
        let login = "user-data is read by more than its machine, so the mirror's login is left out: add it there to mirror or mirrors";
        let query = "user-data is read by more than its machine, so the query of --driver-file's address is left out: add it there";
        let has_login = self.sources.mirrors.has_logins();
        let missing = [
            (!self.accept_eula).then_some(licences),
            self.binary.is_none().then_some(program),
            has_login.then_some(login),
            plan.request
                .driver_file
                .as_ref()
                .is_some_and(|file| public_address(&file.url) != file.url)
                .then_some(query),
        ];
        missing.into_iter().flatten().collect()
    }
}

/// Where the machine has the lock file.
const LOCK: &str = "/etc/gpusetup/gpu.lock";

/// The setting of which there may be several.
const MODULE_OPTION: &str = "module-option";

/// The files of this machine that the user-data names: they must be on the other one, too.
pub(crate) fn files(plan: &Plan) -> Vec<String> {
    let driver = plan
        .request
        .driver_file
        .iter()
        .filter_map(|file| file.url.strip_prefix("file://"))
        .map(str::to_owned);
    let token = plan
        .request
        .settings
        .vgpu_token
        .iter()
        .map(|token| token.from.display().to_string());
    let key = plan
        .request
        .settings
        .module_key
        .iter()
        .flat_map(|key| [&key.key, &key.certificate]);
    driver
        .chain(token)
        .chain(key.map(|path| path.display().to_string()))
        .collect()
}

/// The lines of the configuration file, indented.
#[derive(Default)]
struct Config(String);

impl Config {
    fn key(&mut self, name: &str, value: &str) {
        let _ = writeln!(self.0, "      {name}: {}", quoted(value));
    }

    fn list(&mut self, name: &str, values: &[String]) {
        if !values.is_empty() {
            let values: Vec<_> = values.iter().map(|value| quoted(value)).collect();
            let _ = writeln!(self.0, "      {name}: [{}]", values.join(", "));
        }
    }
}

fn config(plan: &Plan, wishes: &UserDataOptions) -> String {
    let mut config = Config::default();
    match wishes.lock {
        Some(_) => config.key("locked", LOCK),
        None => choice(plan, &mut config),
    }
    if let Some(file) = &plan.request.driver_file {
        config.key(
            "driver-file",
            file.url
                .strip_prefix("file://")
                .unwrap_or(&public_address(&file.url)),
        );
        config.key("driver-file-sha256", &file.sha256);
    }
    config.key("prefix", &plan.request.prefix.display().to_string());
    let settings = plan.request.settings.keys();
    let (of_modules, settings): (Vec<_>, Vec<_>) = settings
        .into_iter()
        .partition(|(name, _)| *name == MODULE_OPTION);
    for (name, value) in &settings {
        config.key(name, value);
    }
    config.key("reboot", wishes.reboot);
    // Without their logins: user-data is read by more than its machine.
    if let Some(mirror) = wishes.sources.mirrors.of_all() {
        config.key("mirror", mirror);
    }
    if let Some(file) = &wishes.sources.ca_cert {
        config.key("ca-cert", &file.display().to_string());
    }
    let of_modules: Vec<_> = of_modules.into_iter().map(|(_, value)| value).collect();
    config.list(MODULE_OPTION, &of_modules);
    config.list("leave-out", &plan.request.leave_out);
    let peers = plan.request.imex_peers.iter().map(ToString::to_string);
    config.list("imex-peers", &peers.collect::<Vec<_>>());
    let Config(mut config) = config;
    if plan.request.library_path {
        config += "      library-path: true\n";
    }
    if plan.request.no_epel {
        config += "      no-epel: true\n";
    }
    if wishes.sources.offline {
        config += "      offline: true\n";
    }
    let mut below = wishes.sources.mirrors.below().peekable();
    if below.peek().is_some() {
        config += "      mirrors:\n";
    }
    for (prefix, mirror) in below {
        let _ = writeln!(config, "        {}: {}", quoted(prefix), quoted(mirror));
    }
    config
}

pub(crate) fn user_data(plan: &Plan, wishes: UserDataOptions) -> String {
    let config = config(plan, &wishes);
    let licences = if wishes.accept_eula {
        "      accept-eula: true\n"
    } else {
        "      # NVIDIA's licences (https://docs.nvidia.com/cuda/eula): without this line apply ends with exit code 2.\n      \
         # accept-eula: true\n"
    };
    let fetch = wishes.binary.map_or_else(String::new, |(url, sum)| {
        // Verified where only root writes, and put in its place at once: a wrong file replaces
        // nothing.
        let commands = [
            "cd /usr/local/bin && d=$(mktemp -d ./.gpusetup-XXXXXX) && trap 'rm -rf $d' EXIT",
            &format!("curl -fsSL --proto =https --retry 5 -o $d/gpusetup '{url}'"),
            &format!("echo '{sum}  '$d/gpusetup | sha256sum -c --quiet"),
            "chmod 755 $d/gpusetup && mv -f $d/gpusetup gpusetup",
            "",
        ];
        commands.join(" && ")
    });
    // One command: user-data's scripts go on behind a failed line, and the last one's status is all
    // that is heard.
    let command = if fetch.is_empty() {
        "  - [gpusetup, apply, --unattended]\n".to_owned()
    } else {
        format!("  - [sh, -c, \"{fetch}gpusetup apply --unattended\"]\n")
    };
    let power = if wishes.reboot == "external" {
        "power_state:\n  mode: reboot\n  delay: now\n  condition: [gpusetup, reboot-required]\n"
    } else {
        ""
    };
    let lock = wishes.lock.map_or_else(String::new, |lock| {
        format!(
            "  - path: {LOCK}\n    permissions: \"0644\"\n    content: {}\n",
            quoted(lock)
        )
    });
    format!(
        "#cloud-config\n# {}, as planned by gpusetup {} with its database {}.\n{}write_files:\n  \
         - path: /etc/gpusetup/config.yaml\n    permissions: \"0644\"\n    content: |\n{config}{licences}{lock}runcmd:\n{command}{power}",
        visible(&crate::resolve::summary(&plan.selection)),
        visible(&plan.tool),
        visible(&plan.database.version),
        super::script::warnings(plan),
    )
}

/// The keys of what was chosen, for a machine without a lock file.
fn choice(plan: &Plan, config: &mut Config) {
    match (&plan.selection.driver, &plan.request.driver_file) {
        (Some(d), Some(_)) => config.key("modules", &d.modules.to_string()),
        (Some(d), None) => {
            // A point release may be gone from the repositories by the time the machine boots. A
            // runfile is not, and another one may lack what was planned with it.
            let version = d.version.to_string();
            config.key(
                "driver",
                if d.method == Method::Runfile {
                    &version
                } else {
                    &d.branch
                },
            );
            config.key("modules", &d.modules.to_string());
            let method = match d.method {
                Method::Auto | Method::Packages => "packages",
                Method::Repository => "repository",
                Method::Runfile => "runfile",
            };
            config.key("method", method);
        }
        (None, _) => config.key("driver", "none"),
    }
    let additional = plan
        .selection
        .toolkits
        .iter()
        .skip(1)
        .map(|toolkit| toolkit.cuda.version.to_string());
    let default = plan
        .selection
        .cuda
        .as_ref()
        .map_or("none".to_owned(), |c| c.version.to_string());
    config.key(
        "cuda",
        &std::iter::once(default)
            .chain(additional)
            .collect::<Vec<_>>()
            .join(","),
    );
    config.key(
        "cudnn",
        &plan
            .selection
            .cudnn
            .as_ref()
            .map_or("none".to_owned(), |c| c.version.to_string()),
    );
    let add_ons = plan
        .selection
        .add_ons
        .iter()
        .map(|(id, chosen)| format!("{id}=={}", chosen.version));
    let add_ons: Vec<_> = add_ons
        .chain(plan.request.companions.iter().map(ToString::to_string))
        .collect();
    if !add_ons.is_empty() {
        config.key("with", &add_ons.join(","));
    }
    if !plan.request.toolkit_method.is_auto() {
        config.key("toolkit-method", plan.request.toolkit_method.as_str());
    }
    let components = &plan.request.components;
    if !components.is_empty() {
        config.key("components", &components.join(","));
    }
}

/// A text of YAML on one line, whatever is in it.
fn quoted(text: &str) -> String {
    let mut out = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if is_hidden(c) => out += &format!("\\U{:08x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_text_is_one_line_and_comes_back() {
        for text in [
            "/usr/local",
            "a\"\\: #b",
            "x\ny: z\u{1b}[2J\u{2028}\u{85}\u{202e}\u{e0041}",
        ] {
            let yaml = format!("key: {}\n", quoted(text));
            assert!(
                yaml.lines().count() == 1 && !yaml.trim_end().contains(is_hidden),
                "{yaml:?}"
            );
            let read: std::collections::BTreeMap<String, String> =
                serde_yaml::from_str(&yaml).expect("YAML");
            assert_eq!(read["key"], text);
        }
    }
}
