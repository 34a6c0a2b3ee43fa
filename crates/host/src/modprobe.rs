//! modprobe's configuration and the kernel's command line: what keeps kernel modules from being
//! loaded, above all NVIDIA's own.

use gpusetup_system::System;
use gpusetup_text::text::quoted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A line that keeps one of the driver's own modules from being loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(rename = "Block", deny_unknown_fields)
)]
pub struct ModuleBlock {
    /// The kernel module, with underscores.
    pub module: String,
    /// The file that has it.
    pub by: PathBuf,
    /// The number of its line, from 1. None on the kernel's command line.
    pub line: Option<usize>,
    /// What the file says: `alias nvidia off`, `modprobe.blacklist=nvidia`.
    pub text: String,
    /// Whether it holds for every attempt. A blacklist of modprobe only prevents loading by a GPU's
    /// id, during boot.
    pub always: bool,
}

impl ModuleBlock {
    /// The file and the line: `/etc/modprobe.d/x.conf:3`.
    pub fn place(&self) -> String {
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        quoted(&format!("{}{line}", self.by.display()))
    }
}

/// The driver's modules that CUDA needs.
const NEEDED: [&str; 2] = ["nvidia", "nvidia_uvm"];

/// The directories of modprobe's configuration: a file in an earlier directory replaces those of
/// the same name in later ones.
pub const CONFIGURATION: [&str; 5] = [
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
];

/// What keeps the driver's own modules from being loaded, by modprobe's configuration or the
/// kernel's command line.
pub(crate) fn blocked(system: &System, configuration: &[(PathBuf, String)]) -> Vec<ModuleBlock> {
    let lines = command_lines(system);
    let on_lines = lines
        .iter()
        .flat_map(|(by, line)| blocked_on_command_line(line, by));
    first(
        system,
        configuration
            .iter()
            .flat_map(|(by, text)| blocked_by(text, by))
            .chain(on_lines),
    )
}

/// An option of one of the driver's modules in modprobe's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct SetOption {
    /// The module, with underscores: `nvidia`.
    pub module: String,
    /// The option, `NVreg_PreserveVideoMemoryAllocations`.
    pub name: String,
    /// Its value; empty for an option without one.
    pub value: String,
    /// The file.
    pub by: PathBuf,
    /// The number of the line, from 1. None on the kernel's command line.
    #[serde(default)]
    pub line: Option<usize>,
}

/// The options of the driver's modules in modprobe's configuration and on the kernel's command
/// line, which modprobe reads too.
pub(crate) fn options(system: &System, configuration: &[(PathBuf, String)]) -> Vec<SetOption> {
    let lines = command_lines(system);
    let on_lines = lines
        .iter()
        .flat_map(|(by, text)| options_on_command_line(text, by));
    first(
        system,
        configuration
            .iter()
            .flat_map(|(by, text)| options_in(text, by))
            .chain(on_lines),
    )
}

/// The first settings of the driver's modules. No host has as many; what is left out is noted.
fn first<T>(system: &System, mut all: impl Iterator<Item = T>) -> Vec<T> {
    const MAX_SETTINGS: usize = 10_000;
    let found: Vec<_> = all.by_ref().take(MAX_SETTINGS).collect();
    if all.next().is_some() {
        system.leave_out(
            "/etc/modprobe.d",
            &format!("it has more than {MAX_SETTINGS} settings of the driver's modules"),
        );
    }
    found
}

/// Words like `nvidia.NVreg_EnableGpuFirmware=0`.
fn options_on_command_line<'a>(
    text: &'a str,
    by: &'a Path,
) -> impl Iterator<Item = SetOption> + 'a {
    text.split(|c: char| c.is_whitespace() || c == '"' || c == '\'')
        .filter_map(move |word| {
            let (module, option) = word.split_once('.')?;
            let (name, value) = option.split_once('=')?;
            let module = driver_module(module)?;
            Some(SetOption {
                module,
                name: name.to_owned(),
                value: value.to_owned(),
                by: by.to_owned(),
                line: None,
            })
        })
}

/// The kernel's name for one of the driver's modules, with underscores: `nvidia` for
/// `nvidia-current-open` and `nvidia-tesla-470`, as Debian calls it after its packages, and
/// `nvidia_uvm` for `nvidia-current-uvm`. None for other modules.
pub fn driver_module(name: &str) -> Option<String> {
    const PACKAGES: [&str; 3] = ["current", "tesla", "legacy"];
    let name = name.replace('-', "_");
    let mut words = name.split('_').peekable();
    words.next_if_eq(&"nvidia")?;
    if words.next_if(|word| PACKAGES.contains(word)).is_some() {
        words.next_if(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        words.next_if_eq(&"open");
    }
    Some(words.fold("nvidia".to_owned(), |module, word| {
        format!("{module}_{word}")
    }))
}

/// The lines with their numbers, those that end in a backslash with what follows them.
fn whole_lines(configuration: &str) -> Vec<(usize, String)> {
    let mut all = Vec::<(usize, String)>::new();
    let mut goes_on = false;
    for (number, line) in (1..).zip(configuration.lines()) {
        let (text, continues) = line
            .strip_suffix('\\')
            .map_or((line, false), |text| (text, true));
        match all.last_mut().filter(|_| goes_on) {
            Some((_, before)) => before.push_str(text),
            None => all.push((number, text.to_owned())),
        }
        goes_on = continues;
    }
    all
}

fn options_in<'a>(configuration: &'a str, by: &'a Path) -> impl Iterator<Item = SetOption> + 'a {
    whole_lines(configuration)
        .into_iter()
        .flat_map(move |(line, text)| {
            let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
            let mut words = words.into_iter();
            let module = match (words.next().as_deref(), words.next()) {
                (Some("options"), Some(module)) => driver_module(&module),
                _ => None,
            };
            words.filter_map(move |word| {
                let (name, value) = word.split_once('=').unwrap_or((&word, ""));
                Some(SetOption {
                    module: module.clone()?,
                    name: name.to_owned(),
                    value: value.trim_matches('"').to_owned(),
                    by: by.to_owned(),
                    line: Some(line),
                })
            })
        })
}

/// The files of modprobe's configuration that are in effect, with their text.
pub fn configuration(system: &System) -> Vec<(PathBuf, String)> {
    let mut seen = BTreeSet::new();
    let mut files = Vec::new();
    for directory in CONFIGURATION {
        let names = system.list(directory).unwrap_or_default();
        for name in names.into_iter().filter(|name| name.ends_with(".conf")) {
            let path = Path::new(directory).join(&name);
            if seen.insert(name) {
                let text = text(system, &path);
                files.push((path, text));
            }
        }
    }
    files
}

/// The files with the kernel's command line, and their text: of the running kernel, or of those
/// that a tree boots.
pub fn command_lines(system: &System) -> Vec<(PathBuf, String)> {
    const ENTRIES: &str = "/boot/loader/entries";
    let files: Vec<PathBuf> = if system.is_live() {
        vec!["/proc/cmdline".into()]
    } else {
        let entries = system
            .list(ENTRIES)
            .unwrap_or_default()
            .into_iter()
            .map(|name| Path::new(ENTRIES).join(name));
        ["/etc/kernel/cmdline", "/etc/default/grub"]
            .map(PathBuf::from)
            .into_iter()
            .chain(entries)
            .collect()
    };
    files
        .into_iter()
        .map(|path| (path.clone(), text(system, &path)))
        .collect()
}

fn text(system: &System, path: &Path) -> String {
    system.read_text(path).ok().flatten().unwrap_or_default()
}

/// The verb, the module with underscores, and the rest of a line of modprobe's configuration.
pub fn parsed(line: &str) -> Option<(&str, String, Option<&str>)> {
    let mut words = line.split_whitespace();
    Some((words.next()?, words.next()?.replace('-', "_"), words.next()))
}

/// Whether a command of `install` loads nothing.
pub fn is_nothing(command: Option<&str>) -> bool {
    command.is_some_and(|c| {
        c.ends_with("/false") || c.ends_with("/true") || ["false", "true", ":"].contains(&c)
    })
}

/// `alias nvidia off`, `install nvidia /bin/false` and `blacklist nvidia`.
fn blocked_by<'a>(configuration: &'a str, by: &'a Path) -> impl Iterator<Item = ModuleBlock> + 'a {
    (1..)
        .zip(configuration.lines())
        .filter_map(move |(number, line)| {
            let (verb, module, how) = parsed(line)?;
            let always = match verb {
                "blacklist" => false,
                "alias" if how == Some("off") => true,
                "install" if is_nothing(how) => true,
                _ => return None,
            };
            let text = line.split_whitespace().collect::<Vec<_>>().join(" ");
            is_needed(&module).then(|| ModuleBlock {
                module,
                by: by.to_owned(),
                line: Some(number),
                text,
                always,
            })
        })
}

fn is_needed(module: &str) -> bool {
    driver_module(module).is_some_and(|module| NEEDED.contains(&module.as_str()))
}

/// The lists of modules on the kernel's command line: the option, and its modules with underscores.
pub fn lists(line: &str) -> impl Iterator<Item = (&str, Vec<String>)> {
    line.split(|c: char| c.is_whitespace() || c == '"' || c == '\'')
        .filter_map(|word| {
            let (option, list) = word.split_once('=')?;
            Some((
                option,
                list.split(',')
                    .map(|module| module.replace('-', "_"))
                    .collect(),
            ))
        })
}

/// `modprobe.blacklist=nvidia`, `module_blacklist=nvidia`. The kernel itself refuses what the
/// second one names.
fn blocked_on_command_line<'a>(
    line: &'a str,
    by: &'a Path,
) -> impl Iterator<Item = ModuleBlock> + 'a {
    lists(line)
        .filter(|(option, _)| ["modprobe.blacklist", "module_blacklist"].contains(option))
        .flat_map(move |(option, modules)| {
            let own = modules.into_iter().filter(|module| is_needed(module));
            own.map(move |module| {
                let (text, always) = (format!("{option}={module}"), option == "module_blacklist");
                ModuleBlock {
                    module,
                    by: by.to_owned(),
                    line: None,
                    text,
                    always,
                }
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_drivers_modules_are_read() {
        let text = "options nvidia \\\nNVreg_X=\"1\" NVreg_Y\n# options nvidia a=1\noptions nvidia-current-uvm b=2\noptions nvidia-current-open d=4\noptions i915 c=3\noptions\n";
        let found: Vec<_> = options_in(text, Path::new("/f"))
            .map(|o| (o.module, o.name, o.value, o.line))
            .collect();
        let option = |module: &str, name: &str, value: &str, line| {
            (
                module.to_owned(),
                name.to_owned(),
                value.to_owned(),
                Some(line),
            )
        };
        let wanted = [
            option("nvidia", "NVreg_X", "1", 1),
            option("nvidia", "NVreg_Y", "", 1),
            option("nvidia_uvm", "b", "2", 4),
            option("nvidia", "d", "4", 5),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn what_keeps_the_drivers_own_modules_out_is_read() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        for directory in ["/etc/modprobe.d", "/usr/lib/modprobe.d", "/etc/default"] {
            system.make_directories(directory, 0o755).expect("made");
        }
        let files = [
            (
                "/etc/modprobe.d/a.conf",
                "# blacklist nvidia\nblacklist nvidia\n\nalias  nvidia-uvm\toff\n",
            ),
            (
                "/etc/modprobe.d/b.conf",
                "install nvidia /bin/false\noptions nvidia x=1\nblacklist nvidia_drm\n",
            ),
            ("/usr/lib/modprobe.d/b.conf", "alias nvidia off\n"),
            (
                "/usr/lib/modprobe.d/nvidia.conf",
                "install nvidia modprobe -i nvidia-current $CMDLINE_OPTS\n",
            ),
            (
                "/etc/default/grub",
                "GRUB_CMDLINE_LINUX=\"quiet modprobe.blacklist=nouveau,nvidia module_blacklist=nvidia\"\n",
            ),
        ];
        for (path, text) in files {
            system.write(path, text.as_bytes(), 0o644).expect("written");
        }
        let found = blocked(&system, &configuration(&system));
        let lines: Vec<_> = found
            .iter()
            .map(|b| (&*b.module, b.line, &*b.text, b.always))
            .collect();
        assert_eq!(
            lines,
            [
                ("nvidia", Some(2), "blacklist nvidia", false),
                ("nvidia_uvm", Some(4), "alias nvidia-uvm off", true),
                ("nvidia", Some(1), "install nvidia /bin/false", true),
                ("nvidia", None, "modprobe.blacklist=nvidia", false),
                ("nvidia", None, "module_blacklist=nvidia", true),
            ]
        );
        assert_eq!(found[0].place(), "/etc/modprobe.d/a.conf:2");
        assert_eq!(found[4].place(), "/etc/default/grub");
    }
}
