//! What is common to merging the configuration files of engines in TOML: their tables.

use super::documents::{ConfigError, toml_document};
use toml_edit::{DocumentMut, Item, Table};

/// The text of a file without any key, which are comments, and what is to be parsed: a parser takes
/// comments for the end of a file that has nothing else.
pub(super) fn comments_first(text: &str) -> Result<(&str, &str), ConfigError> {
    let has_keys = !toml_document(text)?.as_table().is_empty();
    Ok(if has_keys { ("", text) } else { (text, "") })
}

/// The table at a path of keys; none if it does not exist.
pub(super) fn table<'a>(
    doc: &'a DocumentMut,
    path: &[&str],
) -> Option<&'a dyn toml_edit::TableLike> {
    let mut here: &dyn toml_edit::TableLike = doc.as_table();
    for key in path {
        here = here.get(key)?.as_table_like()?;
    }
    Some(here)
}

/// Removes what is at a path of keys. Tables that it leaves empty and that have a header stay.
pub(super) fn remove(doc: &mut DocumentMut, path: &[&str]) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let mut here: &mut dyn toml_edit::TableLike = doc.as_table_mut();
    for key in parents {
        let Some(inner) = here.get_mut(key).and_then(Item::as_table_like_mut) else {
            return;
        };
        here = inner;
    }
    here.remove(last);
}

/// Whether there is something at a path of keys.
pub(super) fn has(doc: &DocumentMut, path: &[&str]) -> bool {
    path.split_last().is_some_and(|(last, parents)| {
        table(doc, parents).is_some_and(|all| all.contains_key(last))
    })
}

/// The table at a path of keys, made if it does not exist. Tables on the way get no header of their
/// own.
pub(super) fn table_mut<'a>(
    doc: &'a mut DocumentMut,
    path: &[&str],
) -> Result<&'a mut Table, ConfigError> {
    let mut here = doc.as_table_mut();
    for (at, key) in path.iter().enumerate() {
        let item = here.entry(key).or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
        let name = path[..=at].join(".");
        here = item.as_table_mut().ok_or_else(|| {
            ConfigError::new(format!(
                "{name} is no table with a header, so nothing can be added to it"
            ))
        })?;
    }
    Ok(here)
}

/// Copies what a key has without the comments around it. A table gets no header.
pub(super) fn copy(key: &str, item: &Item, to: &mut Table) {
    if let Ok(mut plain) = item.clone().into_value() {
        plain.decor_mut().clear();
        to.insert(key, Item::Value(plain));
    }
}
