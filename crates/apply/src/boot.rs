//! Resuming after a reboot or a power cut: a unit that runs `gpusetup resume` at the next boot and
//! is gone when that has come to its end. It runs a copy of this binary, since whoever called it
//! may have it in a place that others write to, or is gone.

use gpusetup_fetch::Sources;
use gpusetup_system::{System, network, own_program};
use gpusetup_text::paths::{PROGRAM, STATE};
use std::io;
use std::path::Path;

/// The unit.
pub const UNIT: &str = "/etc/systemd/system/gpusetup-resume.service";
const WANTED: &str = "/etc/systemd/system/multi-user.target.wants/gpusetup-resume.service";
/// What tells administrators and their tools that a boot is due: Debian's, and the one that kured
/// looks for.
const SIGNS: [&str; 2] = ["/run/reboot-required", "/run/reboot-needed"];

/// What of the environment a download goes by. A proxy's address with a login in it is for nobody
/// else to read.
fn environment() -> Vec<(String, String)> {
    let mut all = network::environment();
    all.retain(|(_, value)| !value.contains('@'));
    all
}

/// The unit's text. Not after cloud-final, which may wait for it; before what is to wait for it.
fn unit(
    reboot: &str,
    sources: &Sources,
    waiting: &[String],
    environment: &[(String, String)],
) -> String {
    let mut more = String::new();
    if sources.offline {
        more += " --offline";
    }
    if let Some(file) = &sources.ca_cert {
        more += &format!(" {}", word(&format!("--ca-cert={}", file.display())));
    }
    let variables: String = environment
        .iter()
        .map(|(name, value)| format!("Environment={}\n", quoted(&format!("{name}={value}"))))
        .collect();
    format!(
        "[Unit]\n\
         Description=Resume the NVIDIA installation that gpusetup began\n\
         ConditionPathExists=/var/lib/gpusetup/journal\n\
         Wants=network-online.target\n\
         After=network-online.target\n\
         Before={}\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         {variables}\
         ExecStart={PROGRAM} resume --unattended --reboot={reboot}{more}\n\
         StandardOutput=journal+console\n\
         TimeoutStartSec=infinity\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        waiting.join(" ")
    )
}

/// A word in a unit, which systemd reads with quotes, escapes and specifiers of its own.
fn quoted(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => escaped.extend(['\\', c]),
            '%' => escaped.push_str("%%"),
            // A newline would begin another setting.
            c if c.is_control() => {
                escaped.extend(c.to_string().bytes().map(|b| format!("\\x{b:02x}")))
            }
            c => escaped.push(c),
        }
    }
    format!("\"{escaped}\"")
}

/// A word of a command line, where there are variables too.
fn word(text: &str) -> String {
    quoted(text).replace('$', "$$")
}

/// Sees to it that gpusetup goes on at the next boot. The plan has the mirrors' addresses; what
/// logs in there stands in no unit, which anybody may read: it is in the config file, or it is not
/// known then. The units in `waiting` start after that.
pub fn go_on_after(
    on: &System,
    reboot: &str,
    sources: &Sources,
    waiting: &[String],
) -> io::Result<()> {
    on.make_directories(STATE, 0o700)?;
    on.copy(&mut own_program()?, PROGRAM, 0o700)?;
    on.make_directories(Path::new(WANTED).parent().unwrap_or(Path::new("/")), 0o755)?;
    on.write(
        UNIT,
        unit(reboot, sources, waiting, &environment()).as_bytes(),
        0o644,
    )?;
    on.link(WANTED, Path::new(UNIT))
}

/// Whether that was arranged.
pub fn goes_on_after(on: &System) -> bool {
    on.exists(UNIT)
}

/// Takes that away again.
pub fn forget(on: &System) -> io::Result<()> {
    [WANTED, UNIT, PROGRAM]
        .iter()
        .try_for_each(|path| on.remove(path))
}

/// Leaves the signs that a boot is due; they go with it.
pub fn ask_for(on: &System) -> io::Result<()> {
    on.make_directories("/run", 0o755)?;
    for sign in SIGNS {
        on.write(sign, b"*** System restart required ***\n", 0o644)?;
    }
    let list = "/run/reboot-required.pkgs";
    let mut names = on.read_text(list)?.unwrap_or_default();
    if !names.lines().any(|l| l == "gpusetup") {
        names += "gpusetup\n";
    }
    on.write(list, names.as_bytes(), 0o644)
}

/// Boots the host.
pub fn now(on: &System) -> io::Result<()> {
    let output = on.run(&gpusetup_system::Program::new(["systemctl", "reboot"]))?;
    if output.succeeded() {
        Ok(())
    } else {
        Err(io::Error::other(output.last_lines(2)))
    }
}

/// What tells one boot of the host from another.
pub(super) fn boot_id(on: &System) -> Option<String> {
    on.read_text("/proc/sys/kernel/random/boot_id")
        .ok()
        .flatten()
        .map(|id| id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_the_network_is_the_same_behind_a_boot() {
        let environment = [(
            "https_proxy".to_owned(),
            "http://proxy.lan:3128/100%".to_owned(),
        )];
        let text = unit("never", &Sources::default(), &[], &environment);
        assert!(
            text.contains("\nEnvironment=\"https_proxy=http://proxy.lan:3128/100%%\"\n"),
            "{text}"
        );
        let forged = unit(
            "never",
            &Sources::default(),
            &[],
            &[("no_proxy".to_owned(), "a\nExecStartPre=/bin/x".to_owned())],
        );
        assert!(
            forged.contains("\"no_proxy=a\\x0aExecStartPre=/bin/x\"\n"),
            "{forged}"
        );
        assert!(
            text.contains("\nType=oneshot\nEnvironment") && text.contains("%\"\nExecStart="),
            "{text}"
        );
    }

    #[test]
    fn what_is_left_for_the_next_boot_goes_again() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        on.make_directories("/etc/systemd/system", 0o755)
            .expect("made");
        let waiting = ["docker.service", "k3s.service"].map(str::to_owned);
        go_on_after(&on, "if-needed", &Sources::default(), &waiting).expect("written");
        let text = on.read_text(UNIT).expect("readable").expect("there");
        assert!(
            text.contains(
                "ExecStart=/var/lib/gpusetup/gpusetup resume --unattended --reboot=if-needed\n"
            ),
            "{text}"
        );
        assert!(
            text.contains("\nBefore=docker.service k3s.service\n"),
            "{text}"
        );
        assert_eq!(on.link_target(WANTED).as_deref(), Some(Path::new(UNIT)));
        assert!(on.exists(PROGRAM));
        let elsewhere = Sources {
            offline: true,
            ca_cert: Some("/etc/our 100% \"CA\".pem".into()),
            ..Sources::default()
        };
        go_on_after(&on, "external", &elsewhere, &[]).expect("written");
        let text = on.read_text(UNIT).expect("readable").expect("there");
        let wanted = r#" --reboot=external --offline "--ca-cert=/etc/our 100%% \"CA\".pem""#;
        assert!(text.contains(wanted), "{text}");
        forget(&on).expect("removed");
        assert!(!on.exists(UNIT) && !on.exists(PROGRAM) && on.link_target(WANTED).is_none());
        forget(&on).expect("twice does no harm");
        ask_for(&on).expect("written");
        ask_for(&on).expect("written");
        assert_eq!(
            on.read_text("/run/reboot-required.pkgs")
                .expect("readable")
                .as_deref(),
            Some("gpusetup\n")
        );
    }
}
