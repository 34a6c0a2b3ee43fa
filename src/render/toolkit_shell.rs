//! A toolkit for one shell: the lines that choose it there, and the module file that does it with
//! Lmod and Environment Modules.

use crate::host::{MODULE_MARK, Toolkit};
use crate::text::quoted;
use std::path::Path;

/// The shells that exports are printed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shell {
    /// Bash, and other shells that read POSIX syntax
    Bash,
    /// Zsh
    Zsh,
    /// POSIX shells, such as dash
    Sh,
    /// Fish
    Fish,
}

/// The variables of a process that matter here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SearchPaths {
    pub(crate) path: String,
    /// `LD_LIBRARY_PATH`.
    pub(crate) library_path: String,
}

/// The lines that choose a toolkit for one shell: its programs and libraries come first, those of
/// `others` leave the two search paths. Running them twice changes nothing more.
pub(crate) fn exports(
    toolkit: &Toolkit,
    others: &[&Path],
    now: &SearchPaths,
    shell: Shell,
) -> String {
    let home = &toolkit.path;
    let path = searched_first(&home.join("bin"), others, &now.path);
    let libraries = searched_first(&home.join("lib64"), others, &now.library_path);
    let home = home.display().to_string();
    let values = [
        ("CUDA_HOME", &home),
        ("CUDADIR", &home),
        ("PATH", &path),
        ("LD_LIBRARY_PATH", &libraries),
    ];
    values
        .map(|(name, value)| exported(name, value, shell))
        .concat()
}

/// A search path with this directory first, and without directories of toolkits.
fn searched_first(first: &Path, toolkits: &[&Path], now: &str) -> String {
    let rest = now
        .split(':')
        .filter(|entry| !entry.is_empty())
        .filter(|entry| {
            !toolkits
                .iter()
                .any(|toolkit| Path::new(entry).starts_with(toolkit))
        });
    let first = first.display().to_string();
    std::iter::once(first.as_str())
        .chain(rest)
        .collect::<Vec<_>>()
        .join(":")
}

fn exported(name: &str, value: &str, shell: Shell) -> String {
    match shell {
        Shell::Bash | Shell::Zsh | Shell::Sh => format!("export {name}={}\n", quoted(value)),
        // In single quotes, fish reads a backslash before a backslash or a quote.
        Shell::Fish if name == "PATH" => {
            let entries: Vec<_> = value.split(':').map(for_fish).collect();
            format!("set -gx {name} {}\n", entries.join(" "))
        }
        Shell::Fish => format!("set -gx {name} {}\n", for_fish(value)),
    }
}

fn for_fish(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// The module file of a toolkit, in Tcl, which both Lmod and Environment Modules read.
/// `has_manuals` says whether the toolkit has the folder `share/man`.
pub(crate) fn module_file(toolkit: &Toolkit, has_manuals: bool) -> String {
    let (version, home) = (toolkit.version, toolkit.path.display());
    // With an empty element at its end, `man` also searches the system's folders: manpath(1).
    let manuals = format!("prepend-path MANPATH {{{home}/share/man}}\nappend-path MANPATH {{}}\n");
    let manuals = if has_manuals { manuals.as_str() } else { "" };
    format!(
        "#%Module1.0\n\
         {MODULE_MARK}\n\
         proc ModulesHelp {{ }} {{\n    puts stderr {{CUDA {version} in {home}}}\n}}\n\
         module-whatis {{NVIDIA CUDA toolkit {version}}}\n\
         conflict cuda\n\
         setenv CUDA_HOME {{{home}}}\n\
         setenv CUDADIR {{{home}}}\n\
         prepend-path PATH {{{home}/bin}}\n\
         prepend-path LD_LIBRARY_PATH {{{home}/lib64}}\n\
         {manuals}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Origin, PathFile};

    fn toolkit(path: &str) -> Toolkit {
        let version = "12.8.1".parse().expect("a version");
        Toolkit {
            version,
            path: path.into(),
            origin: Origin::Runfile,
            has_nvcc: true,
            components: None,
        }
    }

    #[test]
    fn other_toolkits_leave_the_search_paths() {
        let now = SearchPaths {
            path:
                "/usr/local/cuda/bin:/usr/local/cuda-11.8/bin:/usr/bin::/usr/local/cuda-11.80/bin"
                    .to_owned(),
            library_path: "/opt/it's/lib".to_owned(),
        };
        let others = [
            "/usr/local/cuda",
            "/usr/local/cuda-11.8",
            "/usr/local/cuda-12.8",
        ]
        .map(Path::new);
        let lines = exports(&toolkit("/usr/local/cuda-12.8"), &others, &now, Shell::Bash);
        assert!(
            lines.contains(
                "export PATH=/usr/local/cuda-12.8/bin:/usr/bin:/usr/local/cuda-11.80/bin\n"
            ),
            "{lines}"
        );
        let fish = exports(&toolkit("/usr/local/cuda-12.8"), &others, &now, Shell::Fish);
        assert!(
            fish.contains("set -gx PATH '/usr/local/cuda-12.8/bin' '/usr/bin' "),
            "{fish}"
        );
        assert!(
            fish.contains("set -gx LD_LIBRARY_PATH '/usr/local/cuda-12.8/lib64:/opt/it\\'s/lib'\n"),
            "{fish}"
        );
    }

    #[test]
    fn a_module_file_is_known_by_its_toolkit() {
        let text = module_file(&toolkit("/opt/cuda-12.8"), false);
        let file = PathFile {
            path: "/m/cuda/12.8".into(),
            owner: 0,
            text,
            syntax: None,
            is_private: false,
        };
        assert!(
            file.is_own_module_of(Path::new("/opt/cuda-12.8"))
                && !file.is_own_module_of(Path::new("/opt/cuda"))
        );
        let edited = PathFile {
            text: file.text.replace(MODULE_MARK, "# Mine."),
            ..file
        };
        assert!(!edited.is_own_module_of(Path::new("/opt/cuda-12.8")));
    }

    #[test]
    fn a_shell_reads_the_lines_as_they_are_meant() {
        let now = SearchPaths {
            path: "/a b:/it's:$(id)".to_owned(),
            library_path: String::new(),
        };
        let script = exports(&toolkit("/opt/cuda-12.8"), &[], &now, Shell::Sh)
            + "printf '%s\\n' \"$PATH\" \"$CUDA_HOME\"\n";
        let ran = std::process::Command::new("/bin/sh")
            .args(["-ec", &script])
            .output()
            .expect("sh runs");
        assert_eq!(
            String::from_utf8_lossy(&ran.stdout),
            "/opt/cuda-12.8/bin:/a b:/it's:$(id)\n/opt/cuda-12.8\n"
        );
    }
}
