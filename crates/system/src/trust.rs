//! Decides which files may control what root does. A file is checked by its open descriptor, never
//! by its name: between the check and the read, the name may come to refer to another file.
//!
//! Trusted are root, the user who runs gpusetup, the user who called `sudo` (`SUDO_UID`), and users
//! named by the caller. The file must belong to one of them, and nobody else may be able to write
//! to it. Write access for a group is allowed if it is the private group of a trusted user: with
//! the umask 002 of many distributions, all files of such a user have it.

use super::System;
use super::environment::variable;
use super::limits::MAX_RECORD;
use rustix::fs::fgetxattr;
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;

/// The users whose files are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Everybody: the content is verified otherwise (by a signature), or nothing acts on it.
    Anybody,
    /// These users, by id.
    Users(Vec<u32>),
}

/// Why a file is not trusted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// It belongs to another user.
    #[error("belongs to the untrusted user {name}")]
    Owner {
        /// The user's name, or else the id.
        name: String,
    },
    /// A group with other members may write to it.
    #[error("is writable by the group {0}")]
    Group(String),
    /// Everybody may write to it.
    #[error("is writable by everybody")]
    Everybody,
    /// An access control list may grant others write access.
    #[error("has an access control list that may grant others write access")]
    AccessList,
}

/// An unknown user name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no user {0} in /etc/passwd; for a user of a directory service, use the number (id -u NAME)"
)]
pub struct NoUser(String);

impl Trust {
    /// The caller, and the users that the caller names or numbers.
    pub fn of_caller(named: &[String]) -> Result<Self, NoUser> {
        let mut users = caller();
        let accounts = Accounts::read(&System::live());
        for name in named {
            let number = name.parse().ok().or_else(|| accounts.number(name));
            users.push(number.ok_or_else(|| NoUser(name.clone()))?);
        }
        Ok(Self::Users(users))
    }

    /// The same if root runs gpusetup; an ordinary user may read any file.
    pub fn where_root_acts(named: &[String]) -> Result<Self, NoUser> {
        let trust = Self::of_caller(named)?;
        Ok(if rustix::process::geteuid().is_root() {
            trust
        } else {
            Self::Anybody
        })
    }

    /// Checks an open file or directory.
    pub fn judge(&self, file: &File) -> io::Result<Result<(), Distrust>> {
        let Self::Users(users) = self else {
            return Ok(Ok(()));
        };
        let meta = file.metadata()?;
        let has_list = match fgetxattr(file, "system.posix_acl_access", &mut [0u8; 64]) {
            Ok(length) => length > 0,
            // The list is longer than the buffer.
            Err(e) => e == Errno::RANGE,
        };
        let accounts = || Accounts::read(&System::live());
        Ok(judged(
            users,
            meta.uid(),
            meta.gid(),
            meta.mode(),
            has_list,
            accounts,
        ))
    }
}

/// The ids of root, the current user, and the user who called `sudo`.
pub fn caller() -> Vec<u32> {
    let me = rustix::process::geteuid();
    let mut users = vec![0, me.as_raw()];
    if me.is_root() {
        users.extend(variable("SUDO_UID").and_then(|uid| uid.parse::<u32>().ok()));
    }
    users
}

/// Whether a user id is root's or the current user's.
pub fn is_ours(uid: u32) -> bool {
    [0, rustix::process::geteuid().as_raw()].contains(&uid)
}

/// Whether only root or the current user can write to the file, or grant themselves write access.
/// Such a file can be hard-linked instead of copied.
pub fn is_ours_alone(meta: &Metadata) -> bool {
    is_ours(meta.uid()) && meta.mode() & 0o022 == 0
}

fn judged(
    users: &[u32],
    uid: u32,
    gid: u32,
    mode: u32,
    has_list: bool,
    accounts: impl FnOnce() -> Accounts,
) -> Result<(), Distrust> {
    if !users.contains(&uid) {
        return Err(Distrust::Owner {
            name: accounts().user(uid),
        });
    }
    if mode & 0o002 != 0 {
        return Err(Distrust::Everybody);
    }
    if mode & 0o020 == 0 {
        return Ok(());
    }
    // With an access control list, the group bits are the upper limit for everyone named in it.
    if has_list {
        return Err(Distrust::AccessList);
    }
    let accounts = accounts();
    if accounts.is_private(gid, users) {
        Ok(())
    } else {
        Err(Distrust::Group(accounts.group(gid)))
    }
}

/// A user's name, if /etc/passwd has it.
pub fn user_name(on: &System, uid: u32) -> Option<String> {
    Accounts::read(on).name(uid).map(str::to_owned)
}

/// The users and groups in this machine's own files. Those of a directory service are unknown here,
/// and so not trusted.
struct Accounts {
    /// Name, number, primary group.
    users: Vec<(String, u32, u32)>,
    /// Name, number, names of members.
    groups: Vec<(String, u32, Vec<String>)>,
}

impl Accounts {
    fn read(on: &System) -> Self {
        let text = |path: &str| {
            on.read_text_up_to(path, MAX_RECORD)
                .ok()
                .flatten()
                .unwrap_or_default()
        };
        Self::of(&text("/etc/passwd"), &text("/etc/group"))
    }

    fn of(passwd: &str, groups: &str) -> Self {
        let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
        let user = |line: &str| match fields(line).as_slice() {
            [name, _, uid, gid, ..] => Some((name.clone(), uid.parse().ok()?, gid.parse().ok()?)),
            _ => None,
        };
        let group = |line: &str| match fields(line).as_slice() {
            [name, _, gid, members] => {
                let members = members
                    .split(',')
                    .filter(|m| !m.is_empty())
                    .map(|m| m.trim().to_owned())
                    .collect();
                Some((name.clone(), gid.parse().ok()?, members))
            }
            _ => None,
        };
        Self {
            users: passwd.lines().filter_map(user).collect(),
            groups: groups.lines().filter_map(group).collect(),
        }
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.users
            .iter()
            .find(|(n, ..)| n == name)
            .map(|(_, uid, _)| *uid)
    }

    /// Whether only these users are in a group, as members or by their primary group.
    fn is_private(&self, gid: u32, users: &[u32]) -> bool {
        let of_group: Vec<_> = self
            .groups
            .iter()
            .filter(|(_, number, _)| *number == gid)
            .collect();
        let is_theirs = |name: &String| self.number(name).is_some_and(|uid| users.contains(&uid));
        !of_group.is_empty()
            && of_group
                .iter()
                .all(|(.., members)| members.iter().all(is_theirs))
            && self
                .users
                .iter()
                .filter(|(.., primary)| *primary == gid)
                .all(|(_, uid, _)| users.contains(uid))
    }

    fn name(&self, uid: u32) -> Option<&str> {
        self.users
            .iter()
            .find(|(_, number, _)| *number == uid)
            .map(|(name, ..)| name.as_str())
    }

    fn user(&self, uid: u32) -> String {
        self.name(uid)
            .map_or_else(|| uid.to_string(), str::to_owned)
    }

    fn group(&self, gid: u32) -> String {
        let name = self
            .groups
            .iter()
            .find(|(_, number, _)| *number == gid)
            .map(|(name, ..)| name.clone());
        name.unwrap_or_else(|| gid.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{XattrFlags, fsetxattr};
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000::/home/ann:/bin/sh\n\
        ben:x:1001:1001::/home/ben:/bin/sh\neve:x:1002:1000::/:/bin/sh\nsyslog:x:104:110::/:/bin/false\n";

    fn judge(uid: u32, gid: u32, mode: u32, has_list: bool, group: &str) -> Result<(), Distrust> {
        let passwd = PASSWD.replace(
            "eve:x:1002:1000",
            if group.contains("eves") {
                "eve:x:1002:1000"
            } else {
                "eve:x:1002:1002"
            },
        );
        judged(&[0, 1000], uid, gid, mode, has_list, || {
            Accounts::of(&passwd, group)
        })
    }

    #[test]
    fn the_owner_must_be_trusted_and_nobody_else_may_write() {
        let private = "root:x:0:\nann:x:1000:\n";
        assert_eq!(judge(0, 0, 0o100_644, false, private), Ok(()));
        assert_eq!(judge(1000, 1000, 0o100_600, false, private), Ok(()));
        assert_eq!(
            judge(1001, 1001, 0o100_600, false, private),
            Err(Distrust::Owner { name: "ben".into() })
        );
        assert_eq!(
            judge(4711, 0, 0o100_600, false, private),
            Err(Distrust::Owner {
                name: "4711".into()
            })
        );
        assert_eq!(
            judge(0, 0, 0o100_646, false, private),
            Err(Distrust::Everybody)
        );
    }

    #[test]
    fn a_group_may_write_where_nobody_else_is_in_it() {
        assert_eq!(
            judge(1000, 1000, 0o100_664, false, "ann:x:1000:\n"),
            Ok(()),
            "as created with umask 002"
        );
        assert_eq!(
            judge(1000, 1000, 0o100_664, false, "ann:x:1000:ann\n"),
            Ok(())
        );
        let refused = |group: &str| judge(1000, 1000, 0o100_664, false, group);
        assert_eq!(
            refused("staff:x:1000:ann,ben\n"),
            Err(Distrust::Group("staff".into())),
            "a member"
        );
        assert_eq!(
            refused("eves:x:1000:\n"),
            Err(Distrust::Group("eves".into())),
            "somebody's primary group"
        );
        assert_eq!(
            refused("root:x:0:\n"),
            Err(Distrust::Group("1000".into())),
            "an unknown group"
        );
        assert_eq!(
            judge(1000, 1000, 0o100_664, true, "ann:x:1000:\n"),
            Err(Distrust::AccessList)
        );
        assert_eq!(
            judge(1000, 1000, 0o100_644, true, "ann:x:1000:\n"),
            Ok(()),
            "its mask grants no write access"
        );
    }

    #[test]
    fn an_open_file_is_judged_with_its_access_control_list() {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_permissions(Permissions::from_mode(0o644))
            .expect("set");
        let trust = Trust::of_caller(&[]).expect("nobody is named");
        assert_eq!(trust.judge(&file).expect("judged"), Ok(()));
        file.set_permissions(Permissions::from_mode(0o666))
            .expect("set");
        assert_eq!(
            trust.judge(&file).expect("judged"),
            Err(Distrust::Everybody)
        );
        assert_eq!(Trust::Anybody.judge(&file).expect("judged"), Ok(()));
        // user::rw-, user:nobody:rw-, group::r--, mask::rw-, other::r--
        let entry = |tag: u16, permissions: u16, id: u32| {
            [
                &tag.to_le_bytes()[..],
                &permissions.to_le_bytes(),
                &id.to_le_bytes(),
            ]
            .concat()
        };
        let none = u32::MAX;
        let entries = [
            entry(1, 6, none),
            entry(2, 6, 65534),
            entry(4, 4, none),
            entry(16, 6, none),
            entry(32, 4, none),
        ];
        let list = [&2u32.to_le_bytes()[..], &entries.concat()].concat();
        if fsetxattr(&file, "system.posix_acl_access", &list, XattrFlags::empty()).is_ok() {
            assert_eq!(
                trust.judge(&file).expect("judged"),
                Err(Distrust::AccessList)
            );
        }
    }

    #[test]
    fn users_are_named_or_numbered() {
        let Ok(Trust::Users(users)) = Trust::of_caller(&["root".to_owned(), "4711".to_owned()])
        else {
            panic!("both users exist");
        };
        assert!(users.contains(&4711) && users.contains(&0));
        assert_eq!(
            Trust::of_caller(&["no:body".to_owned()]),
            Err(NoUser("no:body".to_owned()))
        );
    }
}
