//! cuDNN and other add-ons: their library links, the loader's cache, and which of several copies
//! programs load.

use crate::{Answer, Case, Verdict};
use gpusetup_database::compat::AddOnId;
use gpusetup_host::{AddOnFiles, LibraryFile, Origin};
use gpusetup_operation::{Link, Operation};
use gpusetup_recipes::{loader_path, rebuild_cache};
use gpusetup_text::text::quoted;
use std::collections::BTreeSet;
use std::path::PathBuf;

const NONE: &str = "no cuDNN is installed";

pub(crate) fn links(case: &Case) -> Verdict {
    let each = case
        .seen
        .facts
        .add_on_files()
        .map(|files| links_of(files, case));
    Verdict::worst(each).unwrap_or_else(|| Verdict::skip(NONE))
}

fn links_of(found: &AddOnFiles, case: &Case) -> Verdict {
    let title = case.database.add_on_title(found.add_on);
    let directory = found.directory.display();
    let broken = found
        .files
        .iter()
        .filter(|f| f.link.is_some() && f.soname.is_none() && !leads_to_missing(f, found));
    let broken = broken.map(|f| {
        let target = f
            .link
            .as_ref()
            .map(|t| t.display().to_string())
            .unwrap_or_default();
        Verdict::fail(format!(
            "the link {directory}/{} does not lead to a library",
            f.name
        ))
        .evidence(format!("{} -> {target}", f.name))
        .advise(format!("reinstall {title}"), reinstall(found, case))
    });
    let sonames: BTreeSet<_> = found
        .files
        .iter()
        .filter_map(|f| f.soname.as_deref())
        .collect();

    // Each name that should be a link: the cause, the evidence, the name and the target.
    let missing = sonames
        .iter()
        .filter(|s| !found.files.iter().any(|f| f.name == **s))
        .map(|soname| {
            let file = file_of(found, soname);
            let cause = format!(
                "the link {soname} is missing in {directory}: programs need it to find {file}"
            );
            (
                cause,
                format!("the SONAME of {file} is {soname}"),
                (*soname).to_owned(),
                file.to_owned(),
            )
        });
    let copies = found.files.iter().filter_map(|f| Some((f, original(found, f)?))).map(|(copy, original)| {
        let name = &copy.name;
        let cause = format!("{directory}/{name} is a copy instead of a link: it stays old when {title} is updated");
        // libX.so leads to libX.so.N, and that to the file.
        let target = copy.soname.as_ref().filter(|s| *s != name).unwrap_or(&original.name);
        (cause, format!("{name} has the same content as {}", original.name), name.clone(), target.clone())
    });
    let wrong: Vec<_> = missing.chain(copies).collect();
    let links = wrong.iter().map(|(_, _, name, target)| {
        Operation::Link(Link {
            path: found.directory.join(name),
            target: target.into(),
            soname: None,
        })
    });
    let repair: Vec<_> = links.chain([rebuild_cache()]).collect();
    let wrong = wrong.iter().map(|(cause, evidence, ..)| {
        Verdict::fail(cause.clone())
            .evidence(evidence.clone())
            .repair("create the links", repair.clone())
    });
    let version = found
        .version
        .map(|v| format!("{title} {v}, "))
        .unwrap_or_default();
    let whole =
        Verdict::pass().evidence(format!("{directory}: {version}{} files", found.files.len()));
    Verdict::worst(broken.chain(wrong).chain([whole])).unwrap_or_else(Verdict::pass)
}

/// The file with the same content as `copy`, if `copy` has the name of a link. Of several such
/// files, the one with the longest name is the library itself.
fn original<'a>(found: &'a AddOnFiles, copy: &LibraryFile) -> Option<&'a LibraryFile> {
    let sum = copy.sha256.as_ref()?;
    let alike = found
        .files
        .iter()
        .filter(|f| f.sha256.as_ref() == Some(sum) && f.name.starts_with(&copy.name));
    alike
        .filter(|f| f.name.len() > copy.name.len())
        .max_by_key(|f| f.name.len())
}

fn reinstall(found: &AddOnFiles, case: &Case) -> Vec<String> {
    let package = case
        .database
        .add_on(found.add_on)
        .map(|a| a.library.to_lowercase());
    match (found.origin, package) {
        (Origin::Dpkg, Some(package)) => {
            let major = found
                .version
                .map(|v| v.major.to_string())
                .unwrap_or_default();
            vec![format!(
                "sudo apt-get install --reinstall $(dpkg-query -W -f '${{Package}} ' '{package}{major}*')"
            )]
        }
        _ => vec![install_again(found.add_on, case)],
    }
}

fn install_again(add_on: AddOnId, case: &Case) -> String {
    let by_default = case.database.add_on(add_on).is_none_or(|a| a.by_default);
    let with = if by_default {
        String::new()
    } else {
        format!(" --with {add_on}")
    };
    format!("sudo gpusetup apply --profile toolkit{with}")
}

/// The files of an add-on in the default toolkit, which nvcc compiles against.
fn in_default_toolkit<'a>(case: &'a Case, add_on: AddOnId) -> Option<&'a AddOnFiles> {
    let toolkit = case.seen.default_toolkit.as_ref()?;
    case.seen
        .facts
        .files_of(add_on)
        .find(|c| c.directory.starts_with(toolkit))
}

/// A link to a missing link, which is intact again once that one exists.
fn leads_to_missing(file: &LibraryFile, found: &AddOnFiles) -> bool {
    let target = file
        .link
        .as_ref()
        .map(|t| t.to_string_lossy().into_owned())
        .unwrap_or_default();
    found
        .files
        .iter()
        .any(|other| other.soname.as_ref() == Some(&target))
}

/// The name of the file with this SONAME.
fn file_of<'a>(found: &'a AddOnFiles, soname: &str) -> &'a str {
    let own = found
        .files
        .iter()
        .filter(|f| f.link.is_none() && f.soname.as_deref() == Some(soname));
    own.max_by_key(|f| f.name.len()).map_or("", |f| &f.name)
}

/// The add-on that has a library with this SONAME or file name.
fn add_on_of(case: &Case, soname: &str) -> Option<AddOnId> {
    case.database
        .add_ons
        .iter()
        .find(|a| a.has_library(soname))
        .map(|a| a.id)
}

pub(crate) fn cache(case: &Case) -> Verdict {
    let mut cached = case.seen.cached.iter();
    if case.seen.facts.add_on_files().next().is_none()
        && !cached.any(|c| add_on_of(case, &c.soname).is_some())
    {
        return Verdict::skip(NONE);
    }
    if case.seen.facts.loader_cache.is_none() {
        return Verdict::fail("/etc/ld.so.cache is missing or cannot be read")
            .root_cause()
            .repair("rebuild the loader's cache", [rebuild_cache()]);
    }
    let gone = case.seen.cached.iter().filter(|c| !c.exists).map(|c| {
        Verdict::fail(format!(
            "the loader's cache lists {}, which no longer exists",
            c.path.display()
        ))
        .evidence(format!("{} => {}", c.soname, c.path.display()))
        .repair("rebuild the loader's cache", [rebuild_cache()])
    });
    let each = case.seen.facts.add_on_files().map(|found| {
        let default = in_default_toolkit(case, found.add_on).map(|c| &c.directory);
        let directory = &found.directory;
        let shown = directory.display();
        if !case.seen.loader_directories.contains(directory) {
            let evidence = format!("{shown} is not on the loader's path");
            if default != Some(directory) {
                return Verdict::pass().evidence(evidence);
            }
            let title = case.database.add_on_title(found.add_on);
            return Verdict::fail(format!(
                "the loader does not search the directory of {title}: {shown}"
            ))
            .root_cause()
            .evidence(evidence)
            .repair(
                "add the directory to the loader's path",
                [loader_path(&case.seen.prefix.join("cuda")), rebuild_cache()],
            );
        }
        // ldconfig lists only libraries with this prefix; plugins, such as NVSHMEM's, are opened by
        // their paths.
        let sonames = found
            .files
            .iter()
            .filter_map(|f| f.soname.as_deref())
            .filter(|s| s.starts_with("lib"));
        let sonames: BTreeSet<_> = sonames.collect();
        match sonames.iter().find(|s| {
            let mut cached = case.seen.cached.iter();
            found.files.iter().any(|f| f.name == **s)
                && !cached.any(|c| c.soname == **s && c.directory == *directory)
        }) {
            None => Verdict::pass().evidence(format!(
                "{shown}: {} libraries, all in the cache",
                sonames.len()
            )),
            Some(soname) => Verdict::fail(format!(
                "the loader's cache does not list {soname} of {shown}"
            ))
            .root_cause()
            .evidence("/etc/ld.so.cache has not been rebuilt since".to_owned())
            .repair("rebuild the loader's cache", [rebuild_cache()]),
        }
    });
    Verdict::worst(each.chain(gone)).unwrap_or_else(|| Verdict::skip(NONE))
}

pub(crate) fn winner(case: &Case) -> Verdict {
    let each = case.seen.cudnn.iter().chain(&case.seen.add_ons).map(|(soname, answer)| {
        let add_on = add_on_of(case, soname).unwrap_or(AddOnId::CUDNN);
        let (title, again) = (case.database.add_on_title(add_on), || install_again(add_on, case));
        let places: BTreeSet<PathBuf> =
            case.seen.cached.iter().filter(|c| c.soname == *soname).map(|c| c.path.clone()).collect();
        let first = case.seen.cached.iter().find(|c| c.soname == *soname);
        let all = places.iter().fold(Verdict::pass(), |v, p| v.evidence(format!("{soname} => {}", p.display())));
        let own =
            in_default_toolkit(case, add_on).filter(|c| c.files.iter().any(|f| f.soname.as_ref() == Some(soname)));
        let loaded = match answer {
            Answer::Is(version) => *version,
            // It may be off the loader's path on purpose, in a toolkit that is not the default one.
            Answer::Failed(why) if first.is_none() && own.is_none() => {
                return Verdict::skip(format!("no {title} is on the loader's path")).evidence(why.clone());
            }
            Answer::Failed(why) => {
                let verdict = Verdict::fail(format!("programs cannot load {soname}")).evidence(why.clone());
                return verdict.advise(format!("reinstall {title}"), [again()]);
            }
            Answer::NotAsked(why) => return Verdict::skip(format!("{soname} was not checked")).evidence(why.clone()),
        };
        let function = case.database.add_on(add_on).map_or("it", |a| &a.version_call.function);
        let said = all.evidence(format!("{function} returns {loaded}"));
        let Some((own, version)) = own.and_then(|c| Some((c, c.version?))) else { return said };
        if version.has_files_of(loaded) {
            return said;
        }
        let place = first.map_or("another place".to_owned(), |c| c.directory.display().to_string());
        let cause = format!(
            "programs load {title} {loaded} from {place}, but the default toolkit has {version} in {}",
            own.directory.display()
        );

        // A program compiled for a newer release may not run with an older one; the reverse works.
        let older = loaded.release() < version.release();
        let verdict = if older { Verdict::fail(cause) } else { Verdict::warn(cause) };
        // The loader knows both and prefers the other: neither links nor the cache are the cause.
        let knows_both = case.seen.cached.iter().any(|c| c.soname == *soname && c.directory == own.directory);
        let verdict = if knows_both { verdict.root_cause() } else { verdict };
        let verdict = verdict.advise(
            "remove the unwanted one, or remove its directory from the loader's path",
            [format!("grep -rn {} /etc/ld.so.conf /etc/ld.so.conf.d", quoted(&place)), "sudo ldconfig".to_owned()],
        );
        Verdict::worst([verdict, said]).unwrap_or_else(Verdict::pass)
    });
    let why = if case.seen.facts.add_on_files().next().is_none() {
        NONE
    } else {
        "no file of cuDNN has a SONAME"
    };
    Verdict::worst(each).unwrap_or_else(|| Verdict::skip(why))
}
