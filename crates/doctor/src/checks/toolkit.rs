//! The CUDA toolkits, and how programs and shells find them.
use crate::evidence::newest_gcc;
use crate::{Answer, Case, Shells, Verdict};
use gpusetup_database::version::CudaVersion;
use gpusetup_host::Toolkit;
use gpusetup_operation::{Link, Operation};
use gpusetup_packages::ByHand;
use gpusetup_recipes::compile::Cause;
use gpusetup_recipes::{default_first, profile};
use gpusetup_system::Node;
use gpusetup_text::paths::host_compilers;
use gpusetup_text::text::quoted_path;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(crate) fn stubs(case: &Case) -> Verdict {
    let cached = case
        .seen
        .cached
        .iter()
        .filter(|c| c.soname.starts_with("libcuda.so"));
    let mut verdicts: Vec<_> = cached
        .map(|entry| {
            let evidence = format!("{} => {}", entry.soname, entry.path.display());
            let mut folders = entry.directory.components().map(|c| c.as_os_str());
            if !folders.any(|folder| folder == "stubs" || folder == "compat") {
                return Verdict::pass().evidence(evidence);
            }
            if case.is_forward_compatible(entry) {
                return Verdict::pass().evidence(format!(
                    "{evidence}: cuda-compat of a newer CUDA, which this driver supports"
                ));
            }
            let directory = entry.directory.display();
            Verdict::fail(format!(
                "programs load the libcuda in {directory}, which is not the driver's"
            ))
            .evidence(evidence)
            .advise(
                format!("remove {directory} from the loader's path"),
                [
                    format!(
                        "grep -rn {} /etc/ld.so.conf /etc/ld.so.conf.d",
                        quoted_path(&entry.directory)
                    ),
                    "sudo ldconfig".to_owned(),
                ],
            )
        })
        .collect();
    for (file, line) in case
        .seen
        .library_paths
        .iter()
        .filter(|(_, line)| line.contains("/stubs"))
    {
        let cause = format!(
            "{} adds a directory of stubs to LD_LIBRARY_PATH: programs load no real libcuda",
            file.display()
        );
        verdicts.push(Verdict::fail(cause).evidence(line.clone()).advise(
            "remove the directory from LD_LIBRARY_PATH",
            [format!("sudoedit {}", quoted_path(file))],
        ));
    }
    Verdict::worst(verdicts).unwrap_or_else(|| Verdict::skip("no libcuda is on the loader's path"))
}

pub(crate) fn answers(case: &Case) -> Verdict {
    let each = case.seen.facts.toolkits.iter().filter_map(|toolkit| {
        let path = toolkit.path.display();
        Some(match case.seen.nvcc.get(&toolkit.path)? {
            Answer::Is(version) if version.series() == toolkit.version.series() => {
                compiles(case, toolkit).evidence(format!("{path}: nvcc reports {version}"))
            }
            Answer::Is(version) => Verdict::fail(format!(
                "{path} is CUDA {}, but its nvcc reports {version}",
                toolkit.version
            ))
            .advise(
                "two releases are mixed in the directory: remove it, then install one release",
                ["gpusetup plan --profile toolkit"],
            ),
            Answer::Failed(why) => Verdict::fail(format!("the nvcc of {path} does not run"))
                .evidence(why.clone())
                .advise(
                    "install the toolkit again",
                    ["gpusetup plan --profile toolkit"],
                ),
            Answer::NotAsked(why) => Verdict::skip("nvcc was not checked").evidence(why.clone()),
        })
    });
    Verdict::worst(each)
        .unwrap_or_else(|| Verdict::skip("no CUDA toolkit with a compiler is installed"))
}

/// The result of a test program that the toolkit compiled. GS705 reports problems of the host
/// compiler.
fn compiles(case: &Case, toolkit: &Toolkit) -> Verdict {
    let path = toolkit.path.display();
    let (said, cause) = match case.seen.compiled.get(&toolkit.path) {
        None => return Verdict::pass(),
        Some(Answer::Is(line)) => return Verdict::pass().evidence(format!("{path}: {line}")),
        Some(Answer::NotAsked(why)) => {
            return Verdict::skip(format!("no test program was compiled: {why}"));
        }
        Some(Answer::Failed(said)) => (said, Cause::of(said)),
    };
    if cause.is_some_and(Cause::is_of_the_host) {
        return Verdict::pass();
    }
    let cause = cause.map_or(
        "it cannot compile and start a small program",
        Cause::sentence,
    );
    let verdict = Verdict::fail(format!("the toolkit {path} does not work: {cause}"));
    said.lines().fold(verdict, Verdict::evidence).advise(
        "install the toolkit again",
        ["gpusetup plan --profile toolkit"],
    )
}

pub(crate) fn library_path(case: &Case) -> Verdict {
    let each = case.seen.library_paths.iter().filter(|(_, line)| !line.contains("/stubs")).map(|(file, line)| {
        let cause = format!(
            "{} sets LD_LIBRARY_PATH for all users: programs that ship their own libraries load these instead",
            file.display()
        );
        let commands = [format!("sudoedit {}", quoted_path(file))];
        let verdict = Verdict::warn(cause).evidence(line.clone());
        let verdict = if has_empty_element(line) {
            verdict.evidence("an empty element, as at a `:` at the end, has programs load libraries from the directory they are started in")
        } else {
            verdict
        };
        verdict.advise("remove it: the loader's cache finds the toolkit", commands)
    });
    let removed = case
        .seen
        .removed_toolkits
        .iter()
        .map(|(file, line, directory)| {
            let cause = format!(
                "{} still names {}, which is not there: the toolkit was removed",
                file.display(),
                directory.display()
            );
            Verdict::warn(cause).evidence(line.clone()).advise(
                "remove the line, or install the toolkit again",
                [format!("sudoedit {}", quoted_path(file))],
            )
        });
    Verdict::worst(each.chain(removed)).unwrap_or_else(Verdict::pass)
}

/// Whether a list of directories that a line sets has an empty one: `a::b`, or `:` at an end. One
/// that expands to nothing where the variable was not set, `a:$LD_LIBRARY_PATH`, is another.
fn has_empty_element(line: &str) -> bool {
    let Some((_, value)) = line.split_once("LD_LIBRARY_PATH=") else {
        return false;
    };
    let value = value.trim_matches(['"', '\'', ' ']);
    value.starts_with(':')
        || value.ends_with(':')
        || value.contains("::")
        || value.ends_with(":$LD_LIBRARY_PATH")
        || value.ends_with(":${LD_LIBRARY_PATH}")
}

/// By the result of a test compilation, if there was one; otherwise by gcc's version and the
/// database.
pub(crate) fn host_compiler(case: &Case) -> Verdict {
    let each = case
        .seen
        .facts
        .toolkits
        .iter()
        .filter(|t| t.has_nvcc)
        .filter_map(|toolkit| {
            let path = toolkit.path.display();
            match case.seen.compiled.get(&toolkit.path) {
                Some(Answer::Is(_)) => Some(
                    Verdict::pass().evidence(format!("{path} compiles with the host's compiler")),
                ),
                Some(Answer::Failed(said)) => {
                    match Cause::of(said).filter(|cause| cause.is_of_the_host()) {
                        Some(cause) => Some(
                            said.lines()
                                .fold(no_host_compiler(case, toolkit, cause), Verdict::evidence),
                        ),
                        None => by_version(case, toolkit),
                    }
                }
                Some(Answer::NotAsked(why)) => by_version(case, toolkit).map(|verdict| {
                    verdict.evidence(format!("{path}: no test program was compiled: {why}"))
                }),
                None => by_version(case, toolkit),
            }
        });
    let why = if case.seen.facts.gcc.is_none() {
        "gcc is not installed"
    } else {
        "no installed toolkit has a known limit"
    };
    Verdict::worst(each).unwrap_or_else(|| Verdict::skip(why))
}

fn no_host_compiler(case: &Case, toolkit: &Toolkit, cause: Cause) -> Verdict {
    let verdict = Verdict::fail(format!(
        "the nvcc of CUDA {} cannot compile: {}",
        toolkit.version,
        cause.sentence()
    ));
    match (cause, newest_gcc(case.database, toolkit.version)) {
        (Cause::NewCompiler, Some(newest)) => {
            verdict.advise(older_gcc(newest), side_by_side(toolkit, newest))
        }
        (Cause::NoCompiler, _) => {
            let manager = gpusetup_packages::of_host(case.seen.facts.os.package_manager);
            let ByHand { install, cxx, .. } = manager.by_hand;
            verdict.advise(
                "install the C++ compiler",
                [format!("sudo {install} {cxx}")],
            )
        }
        (Cause::LinksC, _) => match &case.seen.host_compiler {
            Some((file, line)) => verdict
                .evidence(format!("{}: {line}", file.display()))
                .advise(
                    "set it to g++ instead of gcc",
                    [format!("sudoedit {}", quoted_path(file))],
                ),
            None => verdict.advise(
                "find the variable that is set to gcc, and set it to g++",
                ["env | grep NVCC_"],
            ),
        },
        _ => verdict.advise(
            "choose a CUDA that supports this host",
            ["gpusetup plan --profile toolkit --cuda latest"],
        ),
    }
}

fn older_gcc(newest: u16) -> String {
    format!("install gcc-{newest} and g++-{newest}, and link them for nvcc")
}

fn side_by_side(toolkit: &Toolkit, newest: u16) -> [String; 3] {
    let [gcc, gxx] = host_compilers(&toolkit.path);
    let (gcc, gxx) = (quoted_path(&gcc), quoted_path(&gxx));
    [
        format!("sudo ln -sfn /usr/bin/gcc-{newest} {gcc}"),
        format!("sudo ln -sfn /usr/bin/g++-{newest} {gxx}"),
        "gpusetup plan --profile toolkit".to_owned(),
    ]
}

fn by_version(case: &Case, toolkit: &Toolkit) -> Option<Verdict> {
    let version = case.seen.facts.gcc.as_deref()?;
    let major: u16 = version.split('.').next()?.parse().ok()?;
    let newest = newest_gcc(case.database, toolkit.version)?;
    let evidence = format!(
        "CUDA {} supports gcc up to {newest}; gcc here: {version}",
        toolkit.version
    );
    if major <= newest {
        return Some(Verdict::pass().evidence(evidence));
    }
    let [beside, _] = host_compilers(&toolkit.path);
    if let Some(Node::Link { target }) = case.seen.facts.node(&beside) {
        return Some(Verdict::pass().evidence(evidence).evidence(format!(
            "{} -> {}",
            beside.display(),
            target.display()
        )));
    }
    if let Some((file, line)) = case
        .seen
        .host_compiler
        .as_ref()
        .filter(|(_, line)| takes(toolkit.version, line))
    {
        return Some(
            Verdict::pass()
                .evidence(evidence)
                .evidence(format!("{}: {line}", file.display())),
        );
    }
    let cause = format!(
        "CUDA {} cannot compile: {}",
        toolkit.version,
        gpusetup_causes::newest_gcc(newest, version)
    );
    Some(
        Verdict::fail(cause)
            .evidence(evidence)
            .advise(older_gcc(newest), side_by_side(toolkit, newest)),
    )
}

/// Whether a release's nvcc obeys the host compiler that a line of a profile sets, as tested in
/// `compat/compilers.yaml`.
fn takes(version: CudaVersion, line: &str) -> bool {
    let first = if line.contains("NVCC_CCBIN=") {
        (13, 0)
    } else {
        (11, 2)
    };
    (version.major, version.minor) >= first
}

pub(crate) fn on_path(case: &Case) -> Verdict {
    let prefix = &case.seen.prefix;
    let below: Vec<_> = case
        .seen
        .facts
        .toolkits
        .iter()
        .filter(|t| t.path.starts_with(prefix))
        .collect();
    let Some(newest) = below.last() else {
        return Verdict::skip("no CUDA toolkit is installed below the prefix");
    };
    let default = prefix.join("cuda");
    let linked = link(case, &default, newest);
    // A toolkit of libraries only has no nvcc.
    if below.iter().all(|t| !t.has_nvcc && t.components.is_some()) {
        return linked;
    }
    let others = others_first(case, &default);
    Verdict::worst([linked, shells(case, &default)].into_iter().chain(others))
        .unwrap_or_else(Verdict::pass)
}

/// What files of shells and of the loader put before the default toolkit.
fn others_first(case: &Case, default: &Path) -> Option<Verdict> {
    let (file, clause) = case.seen.other_toolkits.first()?;
    let files: BTreeSet<_> = case
        .seen
        .other_toolkits
        .iter()
        .map(|(file, _)| file)
        .collect();
    let commands = files
        .into_iter()
        .map(|file| format!("sudo grep -n cuda {}", quoted_path(file)));
    let verdict = Verdict::warn(clause).advise(default_first(file, default), commands);
    Some(
        case.seen
            .other_toolkits
            .iter()
            .map(|(_, clause)| clause.as_str())
            .fold(verdict, Verdict::evidence),
    )
}

fn link(case: &Case, default: &Path, newest: &Toolkit) -> Verdict {
    let shown = default.display();
    let lead = Operation::Link(Link {
        path: default.to_owned(),
        target: newest
            .path
            .file_name()
            .map_or_else(|| newest.path.clone(), PathBuf::from),
        soname: None,
    });
    match (case.seen.facts.node(default), &case.seen.default_toolkit) {
        (Some(Node::Link { target }), Some(toolkit)) => {
            let verdict = Verdict::pass().evidence(format!("{shown} -> {}", target.display()));
            if case.seen.facts.toolkits.iter().any(|t| t.path == *toolkit) {
                return verdict;
            }
            Verdict::warn(format!(
                "the default toolkit {shown} leads to {}, which is not a toolkit",
                toolkit.display()
            ))
            .repair("link it to an installed toolkit", [lead])
        }
        (Some(Node::Link { target }), None) => Verdict::fail(format!(
            "the default toolkit {shown} leads to {}, which does not exist",
            target.display()
        ))
        .repair("link it to an installed toolkit", [lead]),
        (Some(Node::Directory), _) => {
            Verdict::pass().evidence(format!("{shown} is a toolkit itself"))
        }
        (None, _) => Verdict::skip(format!("{shown} could not be read")),
        (Some(Node::Absent | Node::File { .. } | Node::Other), _) => {
            Verdict::fail(format!("there is no default toolkit: {shown} is missing"))
                .evidence(format!(
                    "CUDA {} is in {}",
                    newest.version,
                    newest.path.display()
                ))
                .repair("link it to an installed toolkit", [lead])
        }
    }
}

fn shells(case: &Case, default: &Path) -> Verdict {
    let Shells {
        login,
        plain,
        image,
    } = match &case.seen.shells {
        Answer::Is(shells) => shells,
        Answer::Failed(why) | Answer::NotAsked(why) => {
            return Verdict::skip("it is not known which nvcc shells find").evidence(why.clone());
        }
    };
    let bin = default.join("bin").display().to_string();
    if let (None, Some(found)) = (login, image) {
        return Verdict::pass().evidence(format!(
            "programs started in this container find {}",
            found.display()
        ));
    }
    let Some(found) = login else {
        let profile = profile(default, false);
        return Verdict::fail("login shells do not find nvcc")
            .repair(format!("add {bin} to their PATH"), [profile]);
    };
    let mut verdict = Verdict::pass().evidence(format!("login shells find {}", found.display()));
    match plain {
        // Nothing in /etc reaches them all: sudo, cron and units set their own PATH.
        None => {
            verdict = verdict.evidence(format!(
                "shells that read no profile (cron, units, ssh HOST COMMAND) need {bin}/nvcc"
            ));
        }
        Some(other) if other != found => {
            let cause = format!(
                "login shells find {}, but shells that read no profile (cron, units) find {}",
                found.display(),
                other.display()
            );
            verdict = Verdict::warn(cause)
                .evidence(format!("plain shells find {}", other.display()))
                .advise(
                    "use the full path there, or remove the other toolkit",
                    [format!("{bin}/nvcc --version")],
                );
        }
        Some(other) => verdict = verdict.evidence(format!("plain shells find {}", other.display())),
    }
    verdict
}
