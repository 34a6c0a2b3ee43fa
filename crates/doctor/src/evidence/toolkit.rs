//! The toolkits' compilers, the PATH of shells, and settings for all users.

use super::{Answer, OF_A_TREE, ask, names, text};
use gpusetup_database::compat::Database;
use gpusetup_database::version::CudaVersion;
use gpusetup_host::{Facts, MachineKind, PathFiles, elf_machine, elf_text};
use gpusetup_recipes::{before_default, compile};
use gpusetup_system::{Ended, Program, System, environment};
use gpusetup_text::paths::{LOADER_PATH, PROFILE};
use gpusetup_text::text::unquoted_words;
use object::ReadCache;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The nvcc that shells find, if any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Shells {
    /// The nvcc that a login shell finds.
    pub(crate) login: Option<PathBuf>,
    /// The nvcc of a shell that reads no profile: cron, systemd units, `ssh HOST COMMAND`.
    pub(crate) plain: Option<PathBuf>,
    /// In a container: the nvcc on the PATH that its image sets for every program started in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<PathBuf>,
}

/// Files that put another toolkit before the default one, each with what it does as a clause. Where
/// gpusetup's own files do not name a default, it is up to others which toolkit is first.
pub(crate) fn other_toolkits(
    system: &System,
    facts: &Facts,
    prefix: &Path,
) -> Vec<(PathBuf, String)> {
    match facts.default_toolkit(prefix) {
        Some(default) if system.exists(LOADER_PATH) && system.exists(PROFILE) => {
            before_default(facts, &PathFiles::of(system), default, &prefix.join("cuda"))
        }
        _ => Vec::new(),
    }
}

/// By the release, or by the newest of its series if the release is unknown.
pub(crate) fn newest_gcc(database: &Database, version: CudaVersion) -> Option<u16> {
    let mut releases = database.cuda.iter();
    let exact = releases.clone().find(|r| r.version == version);
    exact.and_then(|r| r.gcc_max).or_else(|| {
        releases
            .find(|r| r.version.series() == version.series())?
            .gcc_max
    })
}

pub(crate) fn nvcc(system: &System, toolkit: &Path) -> Answer<CudaVersion> {
    let nvcc = own_nvcc(system, toolkit);
    if !system.is_live() {
        return written_in(system, &nvcc);
    }
    ask(
        system,
        [&nvcc.display().to_string(), "--version"],
        Duration::from_secs(20),
    )
    .and_then(|text| {
        release(&text).ok_or_else(|| format!("{} --version names no release", nvcc.display()))
    })
}

/// Whether each toolkit with a working nvcc compiles a program that starts: the program's output
/// line, or the errors.
pub(crate) fn compiled(
    system: &System,
    facts: &Facts,
    nvcc: &BTreeMap<PathBuf, Answer<CudaVersion>>,
) -> BTreeMap<PathBuf, Answer<String>> {
    let toolkits = facts
        .toolkits
        .iter()
        .filter(|t| matches!(nvcc.get(&t.path), Some(Answer::Is(_))))
        .filter(|t| {
            t.components
                .as_ref()
                .is_none_or(|all| all.iter().any(|c| c == "cuda_cudart"))
        });
    toolkits
        .map(|t| {
            (
                t.path.clone(),
                compiled_by(system, facts, &own_nvcc(system, &t.path)),
            )
        })
        .collect()
}

fn compiled_by(system: &System, facts: &Facts, nvcc: &Path) -> Answer<String> {
    const LIMIT: Duration = Duration::from_secs(180);
    /// The script's exit status for "there is no private directory".
    const NO_FOLDER: Ended = Ended::Status(3);
    if !system.is_live() {
        return Answer::NotAsked(OF_A_TREE.to_owned());
    }
    let folder = environment::variable("XDG_RUNTIME_DIR").unwrap_or_default();
    let program = Program::new(compile::argv(&nvcc.display().to_string(), facts))
        .env("XDG_RUNTIME_DIR", folder);
    match system.run(&program.limit(LIMIT)) {
        Err(e) => Answer::NotAsked(e.to_string()),
        Ok(output) if output.ended == NO_FOLDER => Answer::NotAsked(output.last_lines(1)),
        Ok(output) => match compile::started(&output.text) {
            // Another check reports whether it computes.
            Some(line) => Answer::Is(line.to_owned()),
            None => Answer::Failed(format!("{}\n{}", output.last_lines(12), output.ended)),
        },
    }
}

/// A toolkit's nvcc. The distribution's toolkit has its programs in /usr/bin; the facts' path is
/// its library directory.
fn own_nvcc(system: &System, toolkit: &Path) -> PathBuf {
    let own = toolkit.join("bin/nvcc");
    if system.exists(&own) {
        own
    } else {
        PathBuf::from("/usr/bin/nvcc")
    }
}

/// The version of an nvcc in a tree, by the text in the file.
fn written_in(system: &System, nvcc: &Path) -> Answer<CudaVersion> {
    let shown = nvcc.display();
    let file = match system.open_metered(nvcc) {
        Ok(file) => ReadCache::new(file),
        Err(e) => return Answer::NotAsked(format!("{shown} could not be read: {e}")),
    };
    if elf_machine(&file).is_none() {
        // A script that calls the compiler in another directory.
        return Answer::NotAsked(OF_A_TREE.to_owned());
    }
    match elf_text(&file, b"Cuda compilation tools, ", 64)
        .as_deref()
        .and_then(release)
    {
        Some(version) => Answer::Is(version),
        None => Answer::Failed(format!(
            "{shown} is truncated or not an nvcc: it contains no release"
        )),
    }
}

/// `Cuda compilation tools, release 12.4, V12.4.131`.
fn release(text: &str) -> Option<CudaVersion> {
    text.split_once("release ")?
        .1
        .split(',')
        .next()?
        .parse()
        .ok()
}

/// Asks real shells, with the environment of a fresh login; for a tree, reads the files that they
/// would read.
pub(crate) fn shells(system: &System, facts: &Facts) -> Answer<Shells> {
    const LIMIT: Duration = Duration::from_secs(10);
    if !system.is_live() {
        return login_path(system, &facts.nvcc);
    }
    let shell = if system.exists("/bin/bash") {
        "/bin/bash"
    } else {
        "/bin/sh"
    };
    let [login, plain] = ["-lc", "-c"].map(|how| {
        match ask(system, [shell, how, "command -v nvcc || exit 1"], LIMIT) {
            // Profiles may print something too.
            Answer::Is(text) => Ok(text
                .lines()
                .rev()
                .find(|l| l.starts_with('/') && l.ends_with("/nvcc"))
                .map(PathBuf::from)),
            // `command -v` has a separate exit status for "none".
            Answer::Failed(_) => Ok(None),
            Answer::NotAsked(why) => Err(why),
        }
    });
    match (login, plain) {
        (Ok(login), Ok(plain)) => Answer::Is(Shells {
            login,
            plain,
            image: in_image(system, facts),
        }),
        (Err(why), _) | (_, Err(why)) => Answer::NotAsked(why),
    }
}

/// Programs of a container are started with the PATH that gpusetup has, too; it is only looked at,
/// nothing in it runs.
fn in_image(system: &System, facts: &Facts) -> Option<PathBuf> {
    let path = environment::raw("PATH").filter(|_| facts.machine.kind == MachineKind::Container)?;
    std::env::split_paths(&path)
        .map(|folder| folder.join("nvcc"))
        .find(|nvcc| nvcc.is_absolute() && system.exists(nvcc))
}

/// The nvcc that a login shell of a tree finds, as far as its files show without running a shell.
fn login_path(system: &System, plain: &Option<PathBuf>) -> Answer<Shells> {
    let mut profile = Profile::default();
    for file in profiles(system) {
        profile.read(&text(system, &file));
    }
    let nvcc = profile
        .path
        .iter()
        .map(|folder| folder.join("nvcc"))
        .find(|nvcc| system.exists(nvcc));
    match (nvcc, profile.is_certain) {
        (Some(login), _) => Answer::Is(Shells {
            login: Some(login),
            plain: plain.clone(),
            image: None,
        }),
        (None, true) => Answer::Is(Shells {
            login: plain.clone(),
            plain: plain.clone(),
            image: None,
        }),
        (None, false) => Answer::NotAsked(OF_A_TREE.to_owned()),
    }
}

/// The files that every login reads, in order.
fn profiles(system: &System) -> impl Iterator<Item = PathBuf> {
    let scripts = names(system, "/etc/profile.d").map(|n| Path::new("/etc/profile.d").join(n));
    ["/etc/environment", "/etc/profile"]
        .map(PathBuf::from)
        .into_iter()
        .chain(scripts)
}

/// The PATH that shell scripts set, read line by line: conditions are ignored, and every line
/// counts.
struct Profile {
    path: Vec<PathBuf>,
    variables: BTreeMap<String, String>,
    /// Every assignment of PATH was understood.
    is_certain: bool,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            path: Vec::new(),
            variables: BTreeMap::new(),
            is_certain: true,
        }
    }
}

impl Profile {
    fn read(&mut self, script: &str) {
        for line in script
            .lines()
            .map(str::trim)
            .filter(|l| !l.starts_with('#'))
        {
            // `*) PATH="/a:$PATH" ;;`, `export A=1 PATH=/a:$PATH`, `pathmunge /a`
            for word in words(line) {
                if let Some((name, value)) = word.split_once('=').filter(|(name, _)| is_name(name))
                {
                    self.assign(name, value);
                }
            }
            if let Some(folder) = line
                .strip_prefix("pathmunge ")
                .and_then(|rest| words(rest).into_iter().next())
            {
                let before = format!("{folder}:$PATH");
                self.assign("PATH", &before);
            }
        }
    }

    fn assign(&mut self, name: &str, value: &str) {
        if name != "PATH" {
            if let Some(value) = self.expanded(value) {
                self.variables.insert(name.to_owned(), value);
            }
            return;
        }
        let before = std::mem::take(&mut self.path);
        let has_own = OLD_PATH.iter().any(|own| value.contains(own));
        for part in OLD_PATH
            .iter()
            .fold(value.to_owned(), |v, own| v.replace(own, ":\0:"))
            .split(':')
        {
            match part {
                "\0" => self.path.extend(before.iter().cloned()),
                "" => {}
                part => match self.expanded(part) {
                    Some(folder) => self.path.push(PathBuf::from(folder)),
                    None => self.is_certain = false,
                },
            }
        }
        // `if root` and `else` both set it: the directories of both may count.
        if !has_own {
            self.path.extend(before);
        }
    }

    /// A value with known variables expanded. None if it has other variables or commands.
    fn expanded(&self, value: &str) -> Option<String> {
        let mut out = String::new();
        let mut rest = value;
        while let Some((before, behind)) = rest.split_once('$') {
            out += before;
            let (name, behind) = match behind.strip_prefix('{') {
                Some(braced) => braced.split_once('}')?,
                None => behind.split_at(
                    behind
                        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                        .unwrap_or(behind.len()),
                ),
            };
            out += self.variables.get(name)?;
            rest = behind;
        }
        (!rest.contains('`')).then(|| out + rest)
    }
}

/// The spellings of the previous PATH.
const OLD_PATH: [&str; 6] = [
    "${PATH:+:${PATH}}",
    "${PATH:+:$PATH}",
    "${PATH:+${PATH}:}",
    "${PATH:+$PATH:}",
    "${PATH}",
    "$PATH",
];

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The words of a line of shell, without quotation marks.
fn words(line: &str) -> Vec<String> {
    unquoted_words(line, |c| c.is_whitespace() || c == ';' || c == '&')
}

/// The lines that every login reads and that contain one of these words.
pub(crate) fn set_for_everybody(system: &System, words: &[&str]) -> Vec<(PathBuf, String)> {
    profiles(system)
        .flat_map(|file| {
            let text = text(system, &file);
            text.lines()
                .filter(|l| {
                    !l.trim_start().starts_with('#') && words.iter().any(|word| l.contains(word))
                })
                .map(|l| (file.clone(), l.trim().to_owned()))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Where variables of all users name a toolkit's directory that is not there, unless the same file
/// first asks whether it is.
pub(crate) fn removed_toolkits(system: &System) -> Vec<(PathBuf, String, PathBuf)> {
    let all = set_for_everybody(system, &["/cuda"]);
    let mut found: Vec<(PathBuf, String, PathBuf)> = Vec::new();
    for (file, line) in all.iter().filter(|(_, line)| !asks(line)) {
        for directory in toolkits_in(line) {
            let is_asked = all.iter().any(|(other, asked)| {
                other == file && asks(asked) && toolkits_in(asked).contains(&directory)
            });
            if !is_asked && !system.is_directory(&directory) {
                found.push((file.clone(), line.clone(), directory));
            }
        }
    }
    found
}

/// Whether a line of shell asks for a directory.
fn asks(line: &str) -> bool {
    ["-d ", "-e ", "-x ", "-f "]
        .iter()
        .any(|test| line.contains(test))
}

/// The directories of toolkits that a line names: `/usr/local/cuda-11.0` in
/// `/usr/local/cuda-11.0/bin`. What has a variable in it is not known, and a missing link `cuda` is
/// another check's (GS701).
fn toolkits_in(line: &str) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for text in line.split(|c: char| c.is_whitespace() || ":;=\"'{}()&|".contains(c)) {
        let path = Path::new(text);
        if !path.is_absolute() || text.contains(['$', '`', '*']) {
            continue;
        }
        let toolkit = path.ancestors().find(|at| {
            at.file_name()
                .and_then(OsStr::to_str)
                .is_some_and(|name| name.starts_with("cuda-"))
        });
        if let Some(toolkit) = toolkit
            && !all.contains(&toolkit.to_owned())
        {
            all.push(toolkit.to_owned());
        }
    }
    all
}

/// For fuzzing.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    let _ = release(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_operation::Operation;
    use gpusetup_operation::WriteFile;

    #[test]
    fn a_trees_login_path_is_read() {
        let path = |scripts: &[&str]| {
            let mut profile = Profile::default();
            scripts.iter().for_each(|script| profile.read(script));
            let path: Vec<_> = profile
                .path
                .iter()
                .map(|p| p.display().to_string())
                .collect();
            (path.join(":"), profile.is_certain)
        };
        // Debian's /etc/profile, and the file that gpusetup writes.
        let debian = "if [ \"$(id -u)\" -eq 0 ]; then\n  PATH=\"/usr/sbin:/usr/bin\"\nelse\n  PATH=\"/usr/bin:/usr/games\"\nfi\nexport PATH\n";
        let Operation::WriteFile(WriteFile { content, .. }) =
            gpusetup_recipes::profile(Path::new("/usr/local/cuda"), false)
        else {
            panic!("a file")
        };
        let want = "/usr/local/cuda/bin:/usr/bin:/usr/games:/usr/sbin:/usr/bin".to_owned();
        assert_eq!(path(&[debian, &content]), (want, true));
        let guides = "export CUDA_HOME=/opt/cuda\nexport PATH=${CUDA_HOME}/bin${PATH:+:${PATH}}";
        assert_eq!(
            path(&["PATH=/bin", guides]),
            ("/opt/cuda/bin:/bin".to_owned(), true)
        );
        assert_eq!(
            path(&["pathmunge /usr/local/cuda/bin after"]).0,
            "/usr/local/cuda/bin"
        );
        assert_eq!(
            path(&["# PATH=/a\nPATH=$PATH:$(find /opt):/b"]),
            (String::new(), false)
        );
        assert_eq!(
            path(&["export PATH=\"$HOME/bin:$PATH\""]),
            (String::new(), false)
        );
    }

    #[test]
    fn an_nvcc_of_a_tree_is_read_and_not_run() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        let (c, program) = (dir.path().join("nvcc.c"), dir.path().join("nvcc"));
        let source = "#include <stdio.h>\nint main(void) { puts(\"Cuda compilation tools, release 12.4, V12.4.131\"); }\n";
        std::fs::write(&c, source).expect("written");
        let made = std::process::Command::new("gcc")
            .arg(&c)
            .arg("-o")
            .arg(&program)
            .status();
        assert!(made.expect("gcc is there").success());
        let said = || written_in(&system, Path::new("/nvcc"));
        assert_eq!(said(), Answer::Is("12.4".parse().expect("a version")));
        let whole = std::fs::read(&program).expect("compiled");
        std::fs::write(&program, &whole[..whole.len() / 2]).expect("written");
        assert!(matches!(said(), Answer::Failed(_)), "{:?}", said());
        std::fs::write(&program, "#!/bin/sh\nexec nvcc\n").expect("written");
        assert!(matches!(said(), Answer::NotAsked(_)), "{:?}", said());
    }

    #[test]
    fn nvcc_names_its_release() {
        let text = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 12.4, V12.4.131\n";
        assert_eq!(
            release(text).map(|v| v.to_string()).as_deref(),
            Some("12.4")
        );
        assert_eq!(release("nonsense"), None);
    }
}
