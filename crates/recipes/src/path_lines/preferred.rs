//! Lines by which shells find a toolkit before the default one.

use super::values::{Values, assignments};
use super::{HOMES, elements, is_comment};
use gpusetup_host::{PathFile, Syntax};
use gpusetup_text::paths::PROFILE;
use std::collections::BTreeMap;
use std::path::Path;

/// The variables that gpusetup's own file sets: it has the last word over files that are read
/// before it.
const SET_BY_OURS: [&str; 3] = ["PATH", "CUDA_HOME", "CUDADIR"];
const LIBRARIES: &str = "LD_LIBRARY_PATH";

/// The variables by which the shells that read a file find this toolkit before the default one, and
/// the line of each: `PATH` with its programs first, `LD_LIBRARY_PATH` with its libraries,
/// `CUDA_HOME` and its like. `default` are the directories of the default toolkit.
pub(crate) fn preferred(
    file: &PathFile,
    toolkit: &Path,
    default: &[&Path],
) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    if file.syntax == Some(Syntax::Loader) {
        return found;
    }
    let first = first_line_read_later(file);
    let overrides = |name: &str, number| {
        !SET_BY_OURS.contains(&name) || first.is_some_and(|first| number >= first)
    };
    let (mut values, mut function) = (Values::default(), Function::default());
    for (number, line) in (1..)
        .zip(file.text.lines())
        .filter(|(_, line)| !is_comment(line))
    {
        if function.has(line) {
            continue;
        }
        let line = values.expand(line);
        if overrides("PATH", number) && puts_first(&line, toolkit) {
            found.entry("PATH".to_owned()).or_insert(number);
        }
        for (name, value) in line.split(';').flat_map(assignments) {
            let is_list = name == LIBRARIES;
            if !(is_list || HOMES.contains(&name)) || !overrides(name, number) {
                continue;
            }
            let prefers = if is_list {
                lists_first(value, toolkit, default)
            } else {
                Path::new(value) == toolkit
            };
            if prefers {
                found.insert(name.to_owned(), number);
            } else if !is_list {
                // The last line counts.
                found.remove(name);
            }
        }
    }
    found
}

/// From which line on shells read a file after gpusetup's. None if they read it before.
fn first_line_read_later(file: &PathFile) -> Option<usize> {
    let ours = Path::new(PROFILE);
    let is_of_session = file.syntax == Some(Syntax::Environment)
        || file.path.ends_with(".pam_environment")
        || file
            .path
            .parent()
            .is_some_and(|folder| folder.ends_with("environment.d"));
    let is_of_units = file.path.starts_with("/etc/systemd");
    if is_of_session
        || is_of_units
        || file.path.parent() == ours.parent() && file.path.as_path() < ours
    {
        return None;
    }
    // `/etc/profile` runs the files of its folder in the middle.
    let is_profile = file.path == Path::new("/etc/profile");
    Some(
        (2..)
            .zip(file.text.lines())
            .filter(|(_, line)| is_profile && line.contains("/etc/profile.d"))
            .last()
            .map_or(1, |(next, _)| next),
    )
}

/// The body of a function, which sets nothing until it is called.
#[derive(Default)]
struct Function {
    is_open: bool,
}

impl Function {
    /// Whether the next line of a script belongs to a function.
    fn has(&mut self, line: &str) -> bool {
        let bare = line.trim();
        let begins = bare.starts_with("function ")
            || bare.split_once("()").is_some_and(|(name, _)| {
                let mut chars = name.trim_end().chars();
                !name.is_empty() && chars.all(|c| c.is_ascii_alphanumeric() || "_-.:".contains(c))
            });
        let was_open = self.is_open;
        let code = bare.split(" #").next().unwrap_or_default();
        let is_whole = code.trim_end_matches([' ', ';']).ends_with('}') || code.contains("() (");
        self.is_open = if begins {
            !is_whole
        } else {
            was_open && !bare.starts_with('}')
        };
        begins || was_open
    }
}

/// Whether a list of directories has one of this toolkit, and none of the default one before it.
fn lists_first(list: &str, toolkit: &Path, default: &[&Path]) -> bool {
    let elements = elements(list).into_iter().map(Path::new);
    let mut known = elements.filter(|element| {
        element.starts_with(toolkit) || default.iter().any(|home| element.starts_with(home))
    });
    known
        .next()
        .is_some_and(|element| element.starts_with(toolkit))
}

/// Whether a line of a shell puts the programs of a toolkit first:
/// `PATH=/usr/local/cuda-12.4/bin:$PATH`, `pathmunge /usr/local/cuda-12.4/bin`.
fn puts_first(line: &str, toolkit: &Path) -> bool {
    let bin = toolkit.join("bin").display().to_string();
    line.match_indices(bin.as_str()).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + bin.len()..]);
        let is_whole =
            !after.starts_with(|c: char| c.is_ascii_alphanumeric() || "._-/".contains(c));
        let is_assigned = before.rsplit_once("PATH=").is_some_and(|(start, value)| {
            let is_at_start = value.is_empty() || value.ends_with([':', '"', '\'']);
            let is_other_list = start.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            is_at_start && !is_other_list && !value.contains([' ', ';']) && !value.contains("PATH")
        });
        is_whole && (is_assigned || before.trim_start() == "pathmunge " && !after.contains("after"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: &str = "/usr/local/cuda-12.4";

    /// Each variable and its line.
    fn lines(path: &str, syntax: Option<Syntax>, text: &str) -> Vec<(String, usize)> {
        let file = PathFile {
            path: path.into(),
            owner: 0,
            text: text.to_owned(),
            syntax,
            is_private: false,
        };
        let default = ["/usr/local/cuda", "/usr/local/cuda-13.0"].map(Path::new);
        preferred(&file, Path::new(OTHER), &default)
            .into_iter()
            .collect()
    }

    #[test]
    fn lines_that_put_another_toolkit_first_are_found() {
        let line = |path: &str, text: &str| {
            let found = lines(path, Some(Syntax::Shell), text);
            found
                .into_iter()
                .find(|(name, _)| name == "PATH")
                .map(|(_, line)| line)
        };
        for (text, found) in [
            ("export PATH=/usr/local/cuda-12.4/bin:$PATH\n", Some(1)),
            (
                "x\nPATH=\"/usr/local/cuda-12.4/bin${PATH:+:${PATH}}\"\n",
                Some(2),
            ),
            ("pathmunge /usr/local/cuda-12.4/bin\n", Some(1)),
            (
                "export CUDA_HOME=/usr/local/cuda-12.4\nCUDA_PATH=$CUDA_HOME\nPATH=${CUDA_PATH}/bin:$PATH\n",
                Some(3),
            ),
            (
                "export\tCUDA_HOME=/usr/local/cuda-12.4\nPATH=$CUDA_HOME/bin:$PATH\n",
                Some(2),
            ),
            (
                "export CUDA_VERSION=12.4\nexport PATH=/usr/local/cuda-${CUDA_VERSION}/bin:$PATH\n",
                Some(2),
            ),
            (
                "CUDA_VER=12.4; export PATH=/usr/local/cuda-$CUDA_VER/bin:$PATH\n",
                Some(1),
            ),
            (
                "V=12.4\nV=11.8\nexport PATH=/usr/local/cuda-$V/bin:$PATH\n",
                None,
            ),
            (
                "CUDA_HOME=/usr/local/cuda-12.4\nCUDA_HOME=/opt/x\nPATH=$CUDA_HOME/bin:$PATH\n",
                None,
            ),
            ("PATH=$PATH:/usr/local/cuda-12.4/bin\n", None),
            ("pathmunge /usr/local/cuda-12.4/bin after\n", None),
            ("LD_LIBRARY_PATH=/usr/local/cuda-12.4/bin\n", None),
            ("# PATH=/usr/local/cuda-12.4/bin:$PATH\n", None),
            (
                "PATH=/usr/local/cuda-12.4/bin-old:$PATH\nalias n=/usr/local/cuda-12.4/bin/nvcc\n",
                None,
            ),
            ("old()\n{\n  PATH=/usr/local/cuda-12.4/bin:$PATH\n}\n", None),
            ("old() {\n  PATH=/usr/local/cuda-12.4/bin:$PATH\n}\n", None),
            (
                "old() { PATH=/usr/local/cuda-12.4/bin:$PATH; } # old\nPATH=/usr/local/cuda-12.4/bin:$PATH\n",
                Some(2),
            ),
        ] {
            assert_eq!(line("/etc/profile.d/zcuda.sh", text), found, "{text}");
            assert_eq!(line("/root/.bashrc", text), found, "{text}");
            assert_eq!(
                line("/etc/profile.d/cuda.sh", text),
                None,
                "gpusetup's file comes after it"
            );
        }
        let own = "PATH=/usr/local/cuda-12.4/bin:$PATH\n";
        let runs = "for i in /etc/profile.d/*.sh; do . $i; done\n";
        assert_eq!(line("/etc/profile", &format!("{own}{runs}")), None);
        assert_eq!(line("/etc/profile", &format!("{runs}{own}")), Some(2));
    }

    #[test]
    fn homes_and_lists_of_libraries_stay_on_another_toolkit() {
        let found = |path: &str, syntax, text: &str| -> Vec<String> {
            lines(path, syntax, text)
                .into_iter()
                .map(|(name, line)| format!("{name} {line}"))
                .collect()
        };
        for (text, wanted) in [
            (
                "export CUDA_HOME=/usr/local/cuda-12.4/\nexport CUDA_PATH=$CUDA_HOME\n",
                &["CUDA_HOME 1", "CUDA_PATH 2"][..],
            ),
            (
                "V=12.4\nexport CUDA_HOME=\"/usr/local/cuda-$V\" X=1\n",
                &["CUDA_HOME 2"],
            ),
            (
                "CUDA_HOME=/usr/local/cuda-12.4\nCUDA_HOME=/usr/local/cuda\n",
                &[],
            ),
            ("CUDA_HOME=/usr/local/cuda-12.4 make\n", &[]),
            ("CUDA_HOME=${CUDA_HOME:-/usr/local/cuda-12.4}\n", &[]),
            (
                "[ -d /x ] && export CUDA_HOME=/usr/local/cuda-12.4\n",
                &["CUDA_HOME 1"],
            ),
            (
                "if a; then export CUDA_HOME=/usr/local/cuda-12.4; fi\n",
                &["CUDA_HOME 1"],
            ),
            (
                "export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/usr/local/cuda-12.4/lib64\n",
                &["LD_LIBRARY_PATH 1"],
            ),
            (
                "LD_LIBRARY_PATH=/usr/local/cuda-12.4/lib64\\\n${LD_LIBRARY_PATH:+:${LD_LIBRARY_PATH}}\n",
                &["LD_LIBRARY_PATH 1"],
            ),
            (
                "LD_LIBRARY_PATH=/usr/local/cuda/lib64:/usr/local/cuda-12.4/lib64\n",
                &[],
            ),
        ] {
            assert_eq!(
                found("/root/.bashrc", Some(Syntax::Shell), text),
                wanted,
                "{text}"
            );
        }
        let all = "CUDA_HOME=/usr/local/cuda-12.4\nCUDA_PATH=/usr/local/cuda-12.4\nLD_LIBRARY_PATH=/usr/local/cuda-12.4/lib64\n";
        let not_ours = ["CUDA_PATH 2", "LD_LIBRARY_PATH 3"];
        assert_eq!(
            found("/etc/profile.d/cuda.sh", Some(Syntax::Shell), all),
            not_ours
        );
        assert_eq!(
            found("/etc/environment", Some(Syntax::Environment), all),
            not_ours
        );
        assert_eq!(
            found("/root/.config/environment.d/cuda.conf", None, all),
            not_ours
        );
        assert_eq!(
            found("/etc/profile.local", Some(Syntax::Shell), all).len(),
            3
        );
    }
}
