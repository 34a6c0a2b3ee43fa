//! `edit-file`: single lines of a file that somebody else wrote go or change. A plan has these
//! lines only, so that nothing else of a person's file is in a plan, a journal or a log. The file
//! keeps its owner and its mode.

use super::undo::Undo;
use super::valid::Valid;
use super::{Action, Counts, Notify, OperationError, Standing, Work, valid};
use gpusetup_database::sum::sha256;
use gpusetup_system::{Editable, Node, System};
use gpusetup_text::text::{count, one_line, quoted, quoted_path};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// Changes lines of a file, wherever they are in it. What it must not touch stays: a link, a file
/// of another owner, a file with a second name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct EditFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The number of the user who owns it.
    pub owner: u32,
    /// The lines that change.
    pub edits: Vec<LineEdit>,
}

/// A line that goes or changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct LineEdit {
    /// The whole line, without its end.
    pub old: String,
    /// What takes its place; none if it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

impl EditFile {
    /// The text after the edits.
    pub fn edited(&self, text: &str) -> String {
        let lines = text.split_inclusive('\n').map(|line| {
            let bare = line.strip_suffix('\n').unwrap_or(line);
            match self.edits.iter().find(|edit| edit.old == bare) {
                None => line.to_owned(),
                Some(LineEdit { new: None, .. }) => String::new(),
                Some(LineEdit { new: Some(new), .. }) => format!("{new}{}", &line[bare.len()..]),
            }
        });
        lines.collect()
    }

    fn open(&self, on: &System) -> io::Result<Result<Option<Editable>, String>> {
        Ok(on.editable(&self.path)?.and_then(|file| match file {
            Some(file) if file.uid != self.owner => {
                Err(format!("{} has another owner now", self.path.display()))
            }
            file => Ok(file),
        }))
    }

    /// The lines of the change, each with `-` or `+`.
    pub fn diff(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for edit in &self.edits {
            lines.push(format!("- {}", one_line(&edit.old)));
            let new = edit.new.as_ref();
            lines.extend(new.map(|new| format!("+ {}", one_line(new))));
        }
        lines
    }
}

impl Action for EditFile {
    fn preflight(&self, on: &System) -> io::Result<Standing> {
        self.stands(on, false)
    }

    fn stands(&self, on: &System, _: bool) -> io::Result<Standing> {
        Ok(match self.open(on)? {
            Err(why) => Standing::Conflict(why),
            Ok(None) => Standing::Satisfied,
            Ok(Some(file)) => Standing::satisfied_if(self.edited(&file.text) == file.text),
        })
    }

    fn intend(&self, on: &System, work: &mut Work) -> Result<Vec<Undo>, OperationError> {
        let Some(file) = self.open(on)?.map_err(io::Error::other)? else {
            return Ok(Vec::new());
        };
        let Editable {
            text,
            mode,
            uid,
            gid,
        } = &file;
        let edited = self.edited(text);
        let [before, after] = [text, &edited].map(|text| Node::File {
            sha256: sha256(text),
            mode: *mode,
            uid: *uid,
            gid: *gid,
        });
        let (backups, path) = (&mut work.backups, &self.path);
        Ok(vec![backups.save_text(on, path, text, before, after)?])
    }

    fn perform(&self, on: &System, _: &mut Work, _: Notify) -> Result<(), OperationError> {
        let Some(file) = self.open(on)?.map_err(io::Error::other)? else {
            return Ok(());
        };
        let edited = self.edited(&file.text);
        on.write_owned(
            &self.path,
            edited.as_bytes(),
            file.mode,
            (file.uid, file.gid),
        )?;
        Ok(())
    }

    fn describe(&self) -> String {
        let (gone, changed): (Vec<_>, Vec<_>) =
            self.edits.iter().partition(|edit| edit.new.is_none());
        let what = match (gone.len(), changed.len()) {
            (gone, 0) => format!("remove {}", count(gone as u64, "line")),
            (0, changed) => format!("change {}", count(changed as u64, "line")),
            (gone, changed) => format!("remove {}, change {changed}", count(gone as u64, "line")),
        };
        format!("edit {}: {what}", self.path.display())
    }

    fn shell(&self) -> String {
        let path = quoted_path(&self.path);
        let rules = self.edits.iter().map(|edit| match &edit.new {
            None => format!("$0 == {} {{ next }}", awk(&edit.old)),
            Some(new) => format!("$0 == {} {{ print {}; next }}", awk(&edit.old), awk(new)),
        });
        let rules: Vec<_> = rules.collect();
        // A new file takes its name, with its owner and mode: what a link at that name leads to is
        // not written to.
        let script = format!(
            "edited=$(mktemp {path}.XXXXXX)\nawk {} {path} >\"$edited\"\nchown --reference={path} \"$edited\"\n\
             chmod --reference={path} \"$edited\"\nmv -f \"$edited\" {path}\n",
            quoted(&(rules.join("\n") + "\n{ print }"))
        );
        match self.owner {
            0 => script,
            // In a folder of theirs, others can replace what root is about to write.
            owner => {
                let script = quoted(&script);
                format!(
                    "setpriv --reuid={owner} --regid=\"$(id -g {owner})\" --init-groups sh -euc {script}\n"
                )
            }
        }
    }

    fn counts(&self) -> Counts {
        Counts {
            change: 1,
            ..Counts::default()
        }
    }

    fn touched(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn valid(&self, _: &Path) -> Valid {
        let Self {
            path: at,
            owner: _,
            edits,
        } = self;
        valid::path(at)?;
        edits.iter().try_for_each(|edit| {
            valid::a_line(&edit.old)
                .and_then(|()| edit.new.iter().try_for_each(|new| valid::a_line(new)))
        })
    }
}

/// A text as awk reads it between quotes.
fn awk(text: &str) -> String {
    format!(
        "\"{}\"",
        text.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\t', "\\t")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::work;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const TEXT: &str = "# mine\nexport PATH=/a:$PATH\nkeep \"this\\n\"\n\texport X=/a";

    fn edit(edits: &[(&str, Option<&str>)]) -> EditFile {
        let edits = edits.iter().map(|(old, new)| LineEdit {
            old: (*old).to_owned(),
            new: new.map(str::to_owned),
        });
        let owner = rustix::process::geteuid().as_raw();
        EditFile {
            path: "/home/f".into(),
            owner,
            edits: edits.collect(),
        }
    }

    fn host() -> (System, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        on.make_directories("/home", 0o755).expect("made");
        on.write("/home/f", TEXT.as_bytes(), 0o640)
            .expect("written");
        (on, dir)
    }

    #[test]
    fn lines_go_and_the_rest_stays_and_comes_back() {
        let (on, dir) = host();
        let edit = edit(&[
            ("export PATH=/a:$PATH", None),
            ("\texport X=/a", Some("\t:")),
        ]);
        assert_eq!(edit.stands(&on, false).expect("seen"), Standing::Needed);
        let undo = edit.intend(&on, &mut work()).expect("intended");
        edit.perform(&on, &mut work(), &mut |_| {}).expect("edited");
        assert_eq!(
            on.read("/home/f").expect("read"),
            b"# mine\nkeep \"this\\n\"\n\t:"
        );
        let mode = std::fs::metadata(dir.path().join("home/f"))
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(
            (mode & 0o7777, edit.stands(&on, false).expect("seen")),
            (0o640, Standing::Satisfied)
        );
        assert_eq!(undo[0].perform(&on).expect("undone"), [""; 0]);
        assert_eq!(on.read("/home/f").expect("read"), TEXT.as_bytes());
        assert_eq!(
            edit.diff(),
            ["- export PATH=/a:$PATH", "-  export X=/a", "+  :"]
        );
        assert!(
            !serde_json::to_string(&edit).expect("JSON").contains("mine"),
            "other lines are nobody's business"
        );
    }

    #[test]
    fn a_script_does_the_same() {
        let (on, dir) = host();
        let edit = edit(&[
            ("export PATH=/a:$PATH", None),
            ("keep \"this\\n\"", Some("new \"\\t$X\"")),
        ]);
        let there = EditFile {
            path: dir.path().join("home/f"),
            owner: 0,
            ..edit.clone()
        };
        let users = EditFile {
            owner: 1000,
            ..there.clone()
        }
        .shell();
        assert!(
            users.starts_with("setpriv --reuid=1000 ") && users.lines().count() > 4,
            "{users}"
        );
        let ran = std::process::Command::new("/bin/sh")
            .args(["-ec", &there.shell()])
            .status();
        assert!(ran.expect("sh runs").success());
        let by_script = on.read("/home/f").expect("read");
        assert_eq!(
            String::from_utf8_lossy(&by_script).trim_end(),
            edit.edited(TEXT)
        );
    }

    #[test]
    fn a_link_and_a_file_of_another_owner_stay() {
        let (on, dir) = host();
        let edit = edit(&[("# mine", None)]);
        let other = EditFile {
            owner: edit.owner + 1,
            ..edit.clone()
        };
        assert!(
            matches!(other.stands(&on, false).expect("seen"), Standing::Conflict(why) if why.contains("another owner"))
        );
        std::fs::hard_link(dir.path().join("home/f"), dir.path().join("home/g")).expect("linked");
        assert!(
            matches!(edit.stands(&on, false).expect("seen"), Standing::Conflict(why) if why.contains("second name"))
        );
        std::fs::remove_file(dir.path().join("home/f")).expect("removed");
        assert_eq!(edit.stands(&on, false).expect("seen"), Standing::Satisfied);
        symlink("g", dir.path().join("home/f")).expect("linked");
        assert!(
            matches!(edit.stands(&on, false).expect("seen"), Standing::Conflict(why) if why.contains("link to g"))
        );
        assert!(edit.perform(&on, &mut work(), &mut |_| {}).is_err());
        assert_eq!(on.read("/home/g").expect("read"), TEXT.as_bytes());
    }
}
