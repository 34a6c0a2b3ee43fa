//! Where the links of an archive lead. Nothing is asked of the host: what an archive may do must
//! not depend on what stands there.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// As many as Linux itself follows.
const MAX_LINKS: usize = 40;

/// Whether the link at `at` ends below `within`, whichever of these links it leads through. What it
/// ends at need not be there.
pub(crate) fn stays_within(links: &BTreeMap<PathBuf, PathBuf>, at: &Path, within: &Path) -> bool {
    let (Some(parent), Some(target)) = (at.parent(), links.get(at)) else {
        return false;
    };
    let (mut here, mut todo, mut followed) = (parent.to_owned(), reversed(target), 1);
    while let Some(part) = todo.pop() {
        match part.components().next() {
            Some(Component::Normal(name)) => {
                let next = here.join(name);
                match links.get(&next) {
                    Some(_) if followed == MAX_LINKS => return false,
                    Some(target) => {
                        followed += 1;
                        todo.extend(reversed(target));
                    }
                    None => here = next,
                }
            }
            Some(Component::CurDir) => {}
            Some(Component::ParentDir) if here != within && here.pop() => {}
            _ => return false,
        }
    }
    here.starts_with(within)
}

fn reversed(target: &Path) -> Vec<PathBuf> {
    target
        .components()
        .rev()
        .map(|c| PathBuf::from(c.as_os_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_through_folders_and_each_other() {
        let links: BTreeMap<PathBuf, PathBuf> = [
            ("/t/libx.so", "libx.so.1"),
            ("/t/a/up", "../b/file"),
            ("/t/a/out", "../../etc"),
            ("/t/absolute", "/t/b"),
            ("/t/folder", "a/deep"),
            ("/t/through", "folder/../../../etc"),
            ("/t/through-and-in", "folder/../x"),
            ("/t/top", "a"),
            ("/t/a/again", "../top/../.."),
            ("/t/one", "other"),
            ("/t/other", "one"),
            ("/t/self", "."),
            ("/t/above", ".."),
            ("/t/and-back", "../t/x"),
        ]
        .map(|(at, to)| (at.into(), to.into()))
        .into();
        let stays = |at: &str| stays_within(&links, Path::new(at), Path::new("/t"));
        for good in [
            "/t/libx.so",
            "/t/a/up",
            "/t/folder",
            "/t/through-and-in",
            "/t/top",
            "/t/self",
        ] {
            assert!(stays(good), "{good}");
        }
        for bad in [
            "/t/a/out",
            "/t/absolute",
            "/t/through",
            "/t/a/again",
            "/t/one",
            "/t/other",
            "/t/above",
            "/t/and-back",
        ] {
            assert!(!stays(bad), "{bad}");
        }
    }
}
