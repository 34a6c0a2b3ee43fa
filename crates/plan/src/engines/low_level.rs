//! The list of low-level runtimes in the toolkit's configuration, with CRI-O's as the first one and
//! without it.

use super::merge::table_mut;
use super::remove::{Original, Restored};
use gpusetup_host::{LOW_LEVEL_RUNTIMES, low_level_runtimes, toml_document};
use gpusetup_operation::LineEdit;
use toml_edit::{Array, RawString, Value, value};

/// The change of the line with this list, as the packages write it: the list gets this program
/// before these names.
pub fn line_with_first(program: &str, names: &[String]) -> LineEdit {
    let [_, key] = LOW_LEVEL_RUNTIMES;
    let mut list: Array = names.iter().map(String::as_str).collect();
    let old = format!("{key} = {list}");
    list.insert(0, program);
    LineEdit {
        old,
        new: Some(format!("{key} = {list}")),
    }
}

/// The text with this program first in its list, which has these names if it is not set. None if
/// the text is no TOML, or if something else is in the place of the list.
pub fn with_first(text: &str, program: &str, names: &[String]) -> Option<String> {
    let [table, key] = LOW_LEVEL_RUNTIMES;
    let mut doc = toml_document(text).ok()?;
    let new_list = || value(names.iter().map(String::as_str).collect::<Array>());
    let list = table_mut(&mut doc, &[table])
        .ok()?
        .entry(key)
        .or_insert_with(new_list)
        .as_array_mut()?;
    list.insert(0, program);
    set_space(list, 1, " ");
    Some(doc.to_string())
}

/// Sets the space before an element, unless a line begins there.
fn set_space(list: &mut Array, at: usize, space: &str) {
    let Some(decor) = list.get_mut(at).map(Value::decor_mut) else {
        return;
    };
    let is_in_line = |prefix: &RawString| {
        prefix
            .as_str()
            .is_some_and(|text| text.trim_matches(' ').is_empty())
    };
    if decor.prefix().is_none_or(is_in_line) {
        decor.set_prefix(space);
    }
}

/// What becomes of the toolkit's configuration, to whose list gpusetup added the first program:
/// what it was before, or, if it has changed since, the same text without that program.
pub fn config_restored(text: &str, original: &Original) -> Restored {
    let before = original.text.as_deref();
    if !original.unchanged {
        return without_first(text, before.unwrap_or_default())
            .map_or(Restored::Same, Restored::Text);
    }
    match before {
        Some(before) if before == text => Restored::Same,
        Some(before) => Restored::Text(before.to_owned()),
        None => Restored::Gone,
    }
}

/// The text without the first program of its list, if that is a path that the list did not have
/// before.
fn without_first(text: &str, before: &str) -> Option<String> {
    let earlier = low_level_runtimes(before).ok()?.unwrap_or_default();
    let [table, key] = LOW_LEVEL_RUNTIMES;
    let mut doc = toml_document(text).ok()?;
    let list = doc.get_mut(table)?.get_mut(key)?.as_array_mut()?;
    let first = list.get(0)?.as_str()?;
    if !first.starts_with('/') || earlier.iter().any(|name| name == first) {
        return None;
    }
    list.remove(0);
    set_space(list, 0, "");
    Some(doc.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRUN: &str = "/usr/libexec/crio/crun";
    const BEFORE: &str = "[nvidia-container-runtime]\nruntimes = [\"runc\", \"crun\"]\n";
    const OURS: &str =
        "[nvidia-container-runtime]\nruntimes = [\"/usr/libexec/crio/crun\", \"runc\", \"crun\"]\n";

    fn with_crun(text: &str) -> Option<String> {
        with_first(text, CRUN, &["runc", "crun"].map(str::to_owned))
    }

    #[test]
    fn the_program_becomes_the_first() {
        assert_eq!(with_crun(BEFORE).as_deref(), Some(OURS));
        let edit = line_with_first(CRUN, &["runc", "crun"].map(str::to_owned));
        assert!(BEFORE.lines().any(|line| line == edit.old), "{edit:?}");
        assert!(
            edit.new
                .is_some_and(|new| OURS.lines().any(|line| line == new))
        );
        let lines = "# theirs\n[nvidia-container-runtime]\nruntimes = [\n    \"runc\", # ours\n]\nmode = \"cdi\"\n";
        let after = with_crun(lines).expect("a list");
        assert_eq!(after, lines.replace("[\n", &format!("[\"{CRUN}\",\n")));
        assert_eq!(
            with_crun("[nvidia-container-runtime]\n").as_deref(),
            Some(OURS),
            "the list is not set"
        );
        assert_eq!(with_crun("").as_deref(), Some(OURS));
        for other in [
            "[nvidia",
            "nvidia-container-runtime = 1\n",
            "[nvidia-container-runtime]\nruntimes = \"runc\"\n",
        ] {
            assert_eq!(with_crun(other), None, "{other}");
        }
    }

    #[test]
    fn the_list_becomes_what_it_was() {
        let restored = |text: &str, before: Option<&str>, unchanged: bool| {
            config_restored(
                text,
                &Original {
                    text: before.map(str::to_owned),
                    unchanged,
                },
            )
        };
        assert_eq!(
            restored(OURS, Some(BEFORE), true),
            Restored::Text(BEFORE.to_owned())
        );
        assert_eq!(restored(OURS, None, true), Restored::Gone);
        let changed = format!("{OURS}log-level = \"debug\" # theirs\n");
        let expected = format!("{BEFORE}log-level = \"debug\" # theirs\n");
        assert_eq!(
            restored(&changed, Some(BEFORE), false),
            Restored::Text(expected)
        );
        for (text, before) in [
            (BEFORE, BEFORE),
            (OURS, OURS),
            ("", BEFORE),
            ("[nvidia", BEFORE),
        ] {
            assert_eq!(
                restored(text, Some(before), false),
                Restored::Same,
                "{text} after {before}"
            );
        }
    }
}
