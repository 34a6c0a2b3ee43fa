//! The list of low-level runtimes, runc and crun, in the toolkit's configuration, with CRI-O's as the
//! first one and without it.

use super::documents::{ConfigError, toml_document};
use super::merge::table_mut;
use toml_edit::{Array, Item, Value, value};

/// The table with the list in the toolkit's configuration, and its key there.
const LOW_LEVEL_RUNTIMES: [&str; 2] = ["nvidia-container-runtime", "runtimes"];

/// The list of low-level runtimes in the toolkit's configuration; none if it is not set.
///
/// # Errors
///
/// If the file is no TOML.
pub(super) fn low_level_runtimes(text: &str) -> Result<Option<Vec<String>>, ConfigError> {
    let [table, key] = LOW_LEVEL_RUNTIMES;
    let doc = toml_document(text)?;
    let list = doc
        .get(table)
        .and_then(|table| table.get(key))
        .and_then(Item::as_array);
    Ok(list.map(|all| {
        all.iter()
            .filter_map(|name| name.as_str())
            .map(str::to_owned)
            .collect()
    }))
}

/// The line with this list, as the packages write it: before and after it gets this program before
/// these names.
pub fn lines_with_first(program: &str, names: &[String]) -> [String; 2] {
    let [_, key] = LOW_LEVEL_RUNTIMES;
    let mut list: Array = names.iter().map(String::as_str).collect();
    let before = format!("{key} = {list}");
    list.insert(0, program);
    [before, format!("{key} = {list}")]
}

/// The text with this program first in its list, which has these names if it is not set. None if
/// the text is no TOML, or if something else is in the place of the list.
pub(super) fn with_first(text: &str, program: &str, names: &[String]) -> Option<String> {
    let [table, key] = LOW_LEVEL_RUNTIMES;
    let mut doc = toml_document(text).ok()?;
    let list = table_mut(&mut doc, &[table])
        .ok()?
        .entry(key)
        .or_insert_with(|| value(names.iter().map(String::as_str).collect::<Array>()))
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
    if decor.prefix().is_none_or(|prefix| {
        prefix
            .as_str()
            .is_some_and(|text| text.trim_matches(' ').is_empty())
    }) {
        decor.set_prefix(space);
    }
}

/// The text without the first program of its list, if that is a path that the list did not have
/// before.
pub(super) fn without_first(text: &str, before: &str) -> Option<String> {
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
        let [before, after] = lines_with_first(CRUN, &["runc", "crun"].map(str::to_owned));
        assert!(BEFORE.lines().any(|line| line == before), "{before}");
        assert!(OURS.lines().any(|line| line == after), "{after}");
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
}
