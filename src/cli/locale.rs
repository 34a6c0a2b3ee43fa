//! Letters outside of ASCII, and whether the locale has them.

use crate::system::environment;
use crate::text::ascii;
use crate::translation::{Languages, is_utf8};
use std::borrow::Cow;

/// Whether the locale's character set has more than ASCII.
pub(crate) fn speaks_unicode() -> bool {
    is_utf8(&of_letters(environment::variable))
}

/// The locale whose letters are used: the first variable that is set.
fn of_letters(variable: impl Fn(&str) -> Option<String>) -> String {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| variable(name).filter(|value| !value.is_empty()))
        .unwrap_or_default()
}

/// A text for people in letters that the locale has.
pub(crate) fn legible(text: &str) -> Cow<'_, str> {
    if speaks_unicode() {
        Cow::Borrowed(text)
    } else {
        ascii(text)
    }
}

/// The languages in this program.
pub fn languages() -> Languages<'static> {
    Languages::built_in(gpusetup_data::LANGUAGES)
}

/// An environment in which these variables are set.
#[cfg(test)]
pub(crate) fn set<'a>(variables: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
    |name| {
        variables
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_names_the_letters() {
        for (variables, unicode) in [
            (&[][..], false),
            (&[("LANG", "en_US.UTF-8")], true),
            (&[("LANG", "en_US.UTF-8"), ("LC_ALL", "C")], false),
            (&[("LANG", "C"), ("LC_CTYPE", "C.utf8")], true),
            (&[("LC_ALL", ""), ("LANG", "ko_KR.UTF-8")], true),
        ] {
            assert_eq!(
                is_utf8(&of_letters(set(variables))),
                unicode,
                "{variables:?}"
            );
        }
    }
}
