//! What `explain`, `db show` and `man` can be asked about. Their words depend on the one before.

use super::names::typed as as_typed;
use super::values::{
    Candidate, add_on_versions, checks, completing, cuda, drivers, frameworks_of, gpus, gpus_of,
    systems_of,
};
use crate::compat::Database;
use crate::database::shared;
use crate::exit::EXITS;
use gpusetup_data::{error_codes, subjects};

/// The words after which a number or a name follows.
const KINDS: [(&str, &str); 9] = [
    ("cuda", "why a CUDA version fits or not"),
    ("driver", "why a driver fits or not"),
    ("cudnn", "why a cuDNN version fits or not"),
    ("gpu", "a GPU"),
    ("xid", "an error of the driver in the kernel log"),
    ("sxid", "an error of an NVSwitch in the kernel log"),
    ("error", "an error of CUDA or a library"),
    ("exit", "an exit code of gpusetup"),
    ("option", "an option of gpusetup"),
];

/// The word before the current one, if it belongs to the command's subject.
fn before<'a>(words: &'a [String], command: &str) -> Option<&'a str> {
    let last = words.last()?;
    (last != command).then_some(last.as_str())
}

/// Subjects of `explain`.
pub(crate) fn of_explain(typed: &str, words: &[String]) -> Vec<Candidate> {
    let database = shared();
    let lower = before(words, "explain").map(str::to_lowercase);
    match lower.as_deref() {
        None => {}
        Some("xid") => {
            let all = database
                .xids
                .iter()
                .map(|xid| Candidate::new(xid.xid.to_string(), &xid.name));
            return completing(typed, all);
        }
        Some("sxid") => {
            let all = database
                .sxids
                .iter()
                .map(|sxid| Candidate::new(sxid.sxid.to_string(), &sxid.name));
            return completing(typed, all);
        }
        Some("exit") => {
            return completing(
                typed,
                EXITS
                    .iter()
                    .map(|(exit, meaning)| Candidate::new(exit.to_string(), *meaning)),
            );
        }
        Some("error") => return errors(typed),
        Some("option") => {
            return completing(
                typed,
                crate::cli::option_names()
                    .into_iter()
                    .map(|name| Candidate::new(name, "")),
            );
        }
        Some("gpu") => return gpus(typed),
        Some(word) => return version_of(database, word, typed).unwrap_or_default(),
    }
    let known = subjects();
    let terms = known
        .iter()
        .filter_map(|s| Some(Candidate::new(s.names.first()?.replace(' ', "-"), &s.title)));
    let kinds = KINDS
        .iter()
        .map(|(kind, about)| Candidate::new(*kind, *about));
    let mut all = completing(typed, kinds.chain(terms));
    // All the rest is a thousand names.
    if !typed.is_empty() {
        all.extend(checks(typed));
        all.extend(errors(typed));
        all.extend(frameworks_of(database, typed));
        all.extend(gpus_of(database, typed));
    }
    without_repeats(all)
}

/// Subjects of `db show`.
pub(crate) fn of_database(typed: &str, words: &[String]) -> Vec<Candidate> {
    let database = shared();
    match before(words, "show").map(str::to_lowercase).as_deref() {
        None => {}
        // Two releases are compared.
        Some(release)
            if words.iter().rev().nth(1).is_some_and(|word| word == "cuda")
                && !release.starts_with('-') =>
        {
            return cuda(typed);
        }
        Some(word) => return version_of(database, word, typed).unwrap_or_default(),
    }
    let kinds = [("cuda", "a CUDA release"), ("driver", "a driver branch")];
    let kinds = kinds
        .into_iter()
        .map(|(kind, about)| Candidate::new(kind, about));
    let add_ons = database
        .add_ons
        .iter()
        .map(|of| Candidate::new(of.id.to_string(), &of.title));
    let mut all = completing(typed, kinds.chain(add_ons));
    all.extend(frameworks_of(database, typed));
    all.extend(systems_of(database, typed));
    all.extend(gpus_of(database, typed));
    without_repeats(all)
}

/// The commands that have a manual page.
pub(crate) fn of_manual(typed: &str, words: &[String]) -> Vec<Candidate> {
    let all = crate::cli::command();
    let mut command = &all;
    // `man db list`
    for word in words.iter().skip_while(|word| *word != "man").skip(1) {
        let Some(below) = command
            .get_subcommands()
            .find(|sub| sub.get_name() == word.as_str())
        else {
            break;
        };
        command = below;
    }
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    completing(
        typed,
        shown.map(|sub| {
            let about = sub.get_about().map(ToString::to_string);
            Candidate::new(sub.get_name(), about.unwrap_or_default())
        }),
    )
}

fn errors(typed: &str) -> Vec<Candidate> {
    let known = error_codes();
    let all = known
        .iter()
        .filter(|error| !error.is_success())
        .filter_map(|error| {
            Some(Candidate::new(
                error.names.first()?,
                format!("{} error {}", error.api.title(), error.code),
            ))
        });
    completing(typed, all)
}

/// The versions of the driver, of CUDA, of an add-on.
fn version_of(database: &Database, name: &str, typed: &str) -> Option<Vec<Candidate>> {
    Some(match name {
        "cuda" | "toolkit" => cuda(typed),
        "driver" => drivers(typed),
        name => add_on_versions(database, database.add_on_named(name)?, typed, &["latest"]),
    })
}

fn without_repeats(mut all: Vec<Candidate>) -> Vec<Candidate> {
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|candidate| seen.insert(as_typed(&candidate.value)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(all: Vec<Candidate>) -> Vec<String> {
        all.into_iter().map(|candidate| candidate.value).collect()
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_second_word_depends_on_the_first() {
        let explain = |line: &str, typed: &str| values(of_explain(typed, &words(line)));
        assert_eq!(explain("gpusetup explain", "")[..2], ["cuda", "driver"]);
        assert!(explain("gpusetup explain", "nou").contains(&"nouveau".to_owned()));
        assert!(
            explain("gpusetup explain", "cudaErrorNo").contains(&"cudaErrorNoDevice".to_owned())
        );
        assert!(explain("gpusetup explain xid", "7").contains(&"79".to_owned()));
        assert!(explain("gpusetup explain exit", "").contains(&"4".to_owned()));
        assert_eq!(explain("gpusetup explain cuda", "12.8")[0], "12.8");
        assert_eq!(
            explain("gpusetup explain nccl", "2.")[0].split('.').next(),
            Some("2")
        );
        assert!(explain("gpusetup explain option", "lock-").contains(&"lock-timeout".to_owned()));
        assert!(explain("gpusetup explain nosuch", "").is_empty());
        let show = |line: &str, typed: &str| values(of_database(typed, &words(line)));
        assert!(show("gpusetup db show", "h1").contains(&"h100".to_owned()));
        assert_eq!(show("gpusetup db show cuda 12.9.1", "13.0")[0], "13.0");
        assert_eq!(show("gpusetup db show driver", "58"), ["580"]);
        assert_eq!(values(of_manual("li", &words("gpusetup man db"))), ["list"]);
    }

    #[test]
    fn every_subject_that_is_offered_is_explained() {
        let known = subjects();
        for Candidate { value, .. } in of_explain("", &words("gpusetup explain")) {
            let is_kind = KINDS.iter().any(|(kind, _)| *kind == value);
            assert!(
                is_kind || crate::subject::find(&known, &value).is_some(),
                "{value}"
            );
        }
    }
}
