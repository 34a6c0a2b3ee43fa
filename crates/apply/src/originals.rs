//! Configuration files of container engines that gpusetup changed, as they were before, by the
//! journal.

use super::journal::{Event, Journal, JournalError, Made};
use gpusetup_host::Original;
use gpusetup_operation::undo::Undo;
use gpusetup_system::{Node, System};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a file was before a change, where its bytes are kept, and what the change left there.
type Change<'a> = (&'a Node, Option<&'a PathBuf>, Option<&'a Node>);

/// Those of these files that gpusetup wrote to set up containers, and whose change was not rolled
/// back.
///
/// # Errors
///
/// If the journal, which only root may read, or a copy cannot be read.
pub fn originals<'p>(
    on: &System,
    paths: impl IntoIterator<Item = &'p Path>,
) -> Result<BTreeMap<PathBuf, Original>, JournalError> {
    let journal = Journal::open(on)?;
    let of_setup = journal.events().iter().filter_map(|event| match event {
        Event::Run { plan, .. } => Some(plan.request.settings.containers.is_some()),
        _ => None,
    });
    let of_setup: Vec<_> = of_setup.collect();
    // An earlier removal of the toolkit changed them, too.
    let made = journal
        .all_made()
        .into_iter()
        .filter(|made| of_setup.get(made.run) == Some(&true));
    let made: Vec<_> = made.collect();
    paths
        .into_iter()
        .filter_map(|path| {
            let found = original(on, &made, path).transpose()?;
            Some(found.map(|found| (path.to_owned(), found)))
        })
        .collect()
}

fn original(on: &System, made: &[Made], path: &Path) -> Result<Option<Original>, JournalError> {
    // The newest comes first.
    let mut changes = made
        .iter()
        .flat_map(|made| made.undo)
        .filter_map(|undo| change(undo, path));
    let Some(last) = changes.next() else {
        return Ok(None);
    };
    let unchanged = last.2 == Some(&on.node(path)?);
    // A later apply found what an earlier one had left.
    let (_, backup, _) = changes.fold(last, |later, earlier| {
        if earlier.2 == Some(later.0) {
            earlier
        } else {
            later
        }
    });
    let text = backup.map(|copy| on.read_text(copy)).transpose()?.flatten();
    Ok(Some(Original { text, unchanged }))
}

fn change<'a>(undo: &'a Undo, path: &Path) -> Option<Change<'a>> {
    match undo {
        Undo::Path {
            path: at,
            before,
            backup,
            after,
        } if at == path => Some((before, backup.as_ref(), after.as_ref())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RunConfig, apply};
    use gpusetup_operation::WriteFile;
    use gpusetup_plan::sample::plan_of;
    use gpusetup_resolve::ContainerRequest;

    const FILE: &str = "/etc/docker/daemon.json";

    /// Writes the file: to set up containers, or to remove the toolkit.
    fn written(on: &System, content: &str, sets_up: bool) {
        let write = WriteFile {
            path: FILE.into(),
            content: content.into(),
            mode: 0o644,
            merged_from: None,
        };
        let mut plan = plan_of(vec![write.into()]);
        plan.request.settings.containers = sets_up.then(ContainerRequest::default);
        apply(on, &plan, RunConfig::default(), &mut |_| {}).expect("applied");
    }

    fn found(on: &System) -> Option<Original> {
        originals(on, [Path::new(FILE)])
            .expect("readable")
            .remove(Path::new(FILE))
    }

    fn original(text: Option<&str>, unchanged: bool) -> Option<Original> {
        Some(Original {
            text: text.map(str::to_owned),
            unchanged,
        })
    }

    #[test]
    fn a_file_is_as_it_was_before_the_first_of_the_changes_that_follow_each_other() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        ["/etc/docker", "/var/lib", "/var/log"]
            .iter()
            .for_each(|folder| {
                on.make_directories(folder, 0o755).expect("made");
            });
        assert_eq!(found(&on), None);
        written(&on, "ours", true);
        assert_eq!(found(&on), original(None, true), "gpusetup made it");
        on.write(FILE, b"theirs", 0o644).expect("written");
        assert_eq!(found(&on), original(None, false));
        written(&on, "theirs and ours", true);
        written(&on, "theirs and newer", true);
        assert_eq!(found(&on), original(Some("theirs"), true));
        // A removal leaves nothing to restore, and is not a change to go back behind.
        written(&on, "theirs", false);
        assert_eq!(found(&on), original(Some("theirs"), false));
        written(&on, "theirs and ours", true);
        assert_eq!(found(&on), original(Some("theirs"), true));
    }
}
