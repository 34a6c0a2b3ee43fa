//! The language that `explain` answers in.

use crate::cli::locale::languages;
use crate::cli::options::LanguageOptions;
use crate::system::environment;
use crate::translation::Translation;

/// What decides the language of messages on POSIX systems: the first one that is set and not empty.
const LOCALE: [&str; 3] = ["LC_ALL", "LC_MESSAGES", "LANG"];

/// The value of TERM on the kernel's own console. It has a few hundred letters, and no Hangul.
const CONSOLE: &str = "linux";

/// The language that was asked for, else that of the locale. On the kernel's console a locale does
/// not count.
pub(crate) fn wanted(options: &LanguageOptions) -> Translation {
    let code = options.lang.filter(|code| !code.is_empty());
    let languages = languages();
    languages.translation(code.unwrap_or_else(|| languages.of_locale(&locale())))
}

fn locale() -> String {
    if environment::variable("TERM").is_some_and(|term| term == CONSOLE) {
        return String::new();
    }
    // A value that is not UTF-8 is set all the same, and is no language's.
    let set = LOCALE
        .iter()
        .filter_map(|name| environment::raw(name))
        .find(|value| !value.is_empty());
    set.and_then(|value| value.into_string().ok())
        .unwrap_or_default()
}
