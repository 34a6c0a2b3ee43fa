//! Operations as a shell runs them: in a script that does what a plan does, and one by one for a person to copy.

use super::{Operation, Packages, Placement, runfile};
use crate::compat::PackageManager;
use crate::text::{quoted, quoted_path};
use std::path::Path;

/// The lines of a script that do what the operation does. Each stops the script when it fails (`set -e`).
pub fn commands(operation: &Operation) -> String {
    match operation {
        Operation::WriteFile { path, content, mode } => {
            let path_ = quoted_path(path);
            let folder = quoted_path(path.parent().unwrap_or(Path::new("/")));
            format!("mkdir -p {folder}\n{}chmod {mode:04o} {path_}\n", written(content, &path_))
        }
        Operation::Link { path, target, .. } => {
            // What a link leads to may begin like an option.
            let options = if target.to_string_lossy().starts_with('-') { "-sfn --" } else { "-sfn" };
            format!("ln {options} {} {}\n", quoted_path(target), quoted_path(path))
        }
        Operation::Remove { path } => format!("rm -rf {}\n", quoted_path(path)),
        Operation::Download { url, sha256, to, .. } => {
            let folder = quoted_path(to.parent().unwrap_or(Path::new("/")));
            let to = quoted_path(to);
            format!(
                "mkdir -p {folder}\n\
                 echo \"{sha256}  \"{to} | sha256sum -c --status 2>/dev/null || curl -fL --retry 3 -o {to} {}\n\
                 echo \"{sha256}  \"{to} | sha256sum -c\n",
                quoted(url)
            )
        }
        Operation::Unpack { archive, sha256, into, .. } => {
            let archive = quoted_path(archive);
            let check = format!("echo \"{sha256}  \"{archive} | sha256sum -c\n");
            check + "staging=$(mktemp -d -p /var/cache)\n" + &format!("tar -xf {archive} -C \"$staging\" --strip-components=1 --no-same-owner\nchmod -R u=rwX,go=rX \"$staging\"\n")
                + &into.iter().map(place).collect::<String>()
                + "rm -rf \"$staging\"\n"
        }
        Operation::Run { argv, environment, expects, verified, .. } => {
            let folder = verified.first().map(|v| quoted_path(&runfile::folder(&v.path)));
            let (made, removed) = folder.map_or_else(Default::default, |folder| {
                (format!("install -d -m 0700 {folder}\n"), format!("rm -rf {folder}\n"))
            });
            let variables: String = environment.iter().map(|(k, v)| format!("{k}={} ", quoted(v))).collect();
            let command = argv.iter().map(|a| quoted(a)).collect::<Vec<_>>().join(" ");
            made + &match expects {
                Some(text) => format!("{variables}{command} | grep -F -- {} >/dev/null\n", quoted(text)),
                None => format!("{variables}{command}\n"),
            } + &removed
        }
        Operation::Packages(wanted) => packages(wanted),
        Operation::Service { unit, enabled } => {
            format!("systemctl {} --now {}\n", if *enabled { "enable" } else { "disable" }, quoted(unit))
        }
        Operation::Reboot {} => {
            "if [ \"${1:-}\" != --rebooted ]; then\n    echo 'Reboot now, then run this script again with --rebooted.'\n    exit 0\nfi\n".to_owned()
        }
    }
}

/// What writes a text to a file: lines as they are, where the shell takes them so.
fn written(content: &str, path: &str) -> String {
    const END: &str = "GPUSETUP";
    let in_lines = content.is_empty() || content.ends_with('\n');
    if in_lines && !content.lines().any(|line| line == END) && !content.contains('\r') {
        return format!("cat >{path} <<'{END}'\n{content}{END}\n");
    }
    format!("printf %s {} >{path}\n", quoted(content))
}

/// One operation as a command for a person to copy.
pub fn by_hand(operation: &Operation) -> String {
    // What would be a screenful on a command line is easier had from gpusetup itself.
    const LINES: usize = 6;
    let list = |names: &[String]| names.iter().map(|n| quoted(n)).collect::<Vec<_>>().join(" ");
    match operation {
        Operation::WriteFile { path, content, .. } if content.lines().count() <= LINES => {
            let lines = content.replace('\\', "\\\\").replace('%', "%%").replace('\n', "\\n");
            format!("printf {} | sudo tee {}", quoted(&lines), quoted_path(path))
        }
        Operation::Packages(Packages { manager, install, remove, .. }) if remove.is_empty() => {
            // Files that were lost come back too.
            let install_ = match manager {
                PackageManager::Apt => "apt-get install --reinstall",
                PackageManager::Dnf => "dnf install",
                PackageManager::Tdnf => "tdnf install",
                PackageManager::Zypper => "zypper install --force",
            };
            format!("sudo {install_} {}", list(install))
        }
        // One line each in a script too.
        Operation::Link { .. } | Operation::Remove { .. } | Operation::Run { .. } | Operation::Service { .. } => {
            format!("sudo {}", commands(operation).trim_end())
        }
        Operation::Reboot {} => "sudo reboot".to_owned(),
        Operation::WriteFile { .. }
        | Operation::Packages(_)
        | Operation::Download { .. }
        | Operation::Unpack { .. } => "sudo gpusetup doctor --fix".to_owned(),
    }
}

fn place(p: &Placement) -> String {
    let from = quoted_path(&p.from);
    let to = quoted_path(&p.to);
    let parent = quoted_path(p.to.parent().unwrap_or(Path::new("/")));
    if p.from == Path::new(".") {
        return format!("mkdir -p {to}\ncp -a \"$staging\"/. {to}/\n");
    }
    // What has its place is taken away, so that `.` is the rest.
    format!(
        "if [ -d \"$staging\"/{from} ]; then\n    mkdir -p {to}\n    cp -a \"$staging\"/{from}/. {to}/\nelif [ -e \"$staging\"/{from} ]; then\n    mkdir -p {parent}\n    cp -a \"$staging\"/{from} {to}\nfi\nrm -rf \"${{staging:?}}\"/{from}\n"
    )
}

fn packages(wanted: &Packages) -> String {
    let Packages { manager, remove, stream, .. } = wanted;
    let install = wanted.with_versions();
    let list = |names: &[String]| names.iter().map(|n| quoted(n)).collect::<Vec<_>>().join(" ");
    let (refresh, add, drop) = match manager {
        PackageManager::Apt => ("apt-get update\n", "apt-get install -y --no-install-recommends", "apt-get remove -y"),
        PackageManager::Dnf => ("", "dnf install -y", "dnf remove -y"),
        PackageManager::Tdnf => ("", "tdnf install -y", "tdnf remove -y"),
        PackageManager::Zypper => ("", "zypper --non-interactive install", "zypper --non-interactive remove"),
    };
    let mut out = String::new();
    if let Some(stream) = stream {
        out += &format!("dnf module enable -y {}\n", quoted(stream));
    }
    if !remove.is_empty() {
        out += &format!("{drop} {}\n", list(remove));
    }
    if !install.is_empty() {
        out += &format!("{refresh}{add} {}\n", list(&install));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_as_it_is() {
        for content in ["a\nb\n", "", "no newline", "a\nGPUSETUP\ntouch x\n", "GPUSETUP\n", "it's\r\n", "$(x) `y` \\\n"]
        {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let path = folder.path().join("f");
            let script = written(content, &quoted_path(&path));
            let ran = std::process::Command::new("sh").args(["-ec", &script]).current_dir(&folder).status();
            assert!(ran.expect("sh runs").success(), "{script}");
            assert_eq!(std::fs::read_to_string(&path).expect("written"), content);
            assert_eq!(folder.path().read_dir().expect("listed").count(), 1, "{script}");
        }
    }

    #[test]
    fn words_come_back_unchanged() {
        for (word, want) in
            [("a-b.c", "a-b.c"), ("", "''"), ("a b", "'a b'"), ("it's", "'it'\\''s'"), ("$(x)", "'$(x)'")]
        {
            assert_eq!(quoted(word), want);
        }
    }
}
