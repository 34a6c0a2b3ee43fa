//! The operating system, from os-release, and its tools, detected by their files. No tool is run.

use super::Os;
use super::reader::Reader;
use crate::compat::InitramfsTool;
use crate::packages;
use std::collections::BTreeMap;

/// The operating system that an os-release text names.
pub fn os(reader: &Reader, release: &str) -> Os {
    let fields = parse(release);
    let field = |key: &str| fields.get(key).cloned().unwrap_or_default();
    // os-release(5) defines this default for a missing ID.
    let id = Some(field("ID")).filter(|id| !id.is_empty()).unwrap_or_else(|| "linux".to_owned());
    let name = Some(field("PRETTY_NAME")).filter(|n| !n.is_empty()).unwrap_or_else(|| id.clone());
    Os {
        version: field("VERSION_ID"),
        like: field("ID_LIKE").split_whitespace().map(str::to_owned).collect(),
        package_manager: packages::find(|program| reader.is_file(program)),
        initramfs: initramfs(reader),
        immutable: immutable(reader),
        id,
        name,
    }
}

/// The fields of an os-release text: assignments in shell syntax.
fn parse(text: &str) -> BTreeMap<String, String> {
    let assignments = text.lines().map(str::trim).filter(|l| !l.starts_with('#')).filter_map(|l| l.split_once('='));
    assignments.map(|(key, value)| (key.to_owned(), unquote(value))).collect()
}

fn unquote(value: &str) -> String {
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    let Some(inner) = quote.and_then(|q| value.strip_prefix(q)?.strip_suffix(q)) else { return value.to_owned() };
    if quote == Some('\'') {
        return inner.to_owned();
    }
    let (mut out, mut chars) = (String::new(), inner.chars());
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out
}

fn initramfs(reader: &Reader) -> Option<InitramfsTool> {
    let any = |paths: &[&str]| paths.iter().any(|p| reader.is_file(p));
    // Ubuntu's dracut installs its own update-initramfs, which calls dracut; only initramfs-tools has mkinitramfs.
    if any(&["/usr/sbin/update-initramfs"]) && any(&["/usr/sbin/mkinitramfs"]) {
        return Some(InitramfsTool::UpdateInitramfs);
    }
    if any(&["/usr/bin/dracut", "/usr/sbin/dracut"]) {
        return Some(InitramfsTool::Dracut);
    }
    if any(&["/usr/sbin/update-initramfs"]) {
        return Some(InitramfsTool::UpdateInitramfs);
    }
    any(&["/usr/bin/mkinitcpio"]).then_some(InitramfsTool::Mkinitcpio)
}

fn immutable(reader: &Reader) -> bool {
    // ostree shows by a file written at boot and by its repository; openSUSE's transactional systems by their tool.
    ["/run/ostree-booted", "/sysroot/ostree/repo", "/usr/sbin/transactional-update"]
        .iter()
        .any(|p| reader.system.exists(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_read_as_a_shell_reads_them() {
        let fields =
            parse("# a comment\nID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME='A \"B\"'\nX=\"a\\\"b\\$c\"\nODD=\"\nnone\n");
        assert_eq!(fields["ID"], "debian");
        assert_eq!(fields["VERSION_ID"], "12");
        assert_eq!(fields["PRETTY_NAME"], "A \"B\"");
        assert_eq!(fields["X"], "a\"b$c");
        assert_eq!(fields["ODD"], "\"");
        assert_eq!(fields.len(), 5);
    }
}
