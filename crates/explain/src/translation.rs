//! What `explain` says in other languages than English. Only `explain` uses it, and only for
//! people: JSON, scripts, reports and logs are in English.

pub mod words;

use gpusetup_database::compact::built_in;
use gpusetup_database::error_code::ErrorCode;
use gpusetup_database::language::{self, Texts};
use gpusetup_database::message::Message;
use gpusetup_database::subject::Subject;
use words::WORDS;

/// The code of the language that needs no translation.
pub(crate) const ENGLISH: &str = "en";

/// The languages that a program has beside English: code, name, compressed texts.
#[derive(Debug, Clone)]
pub struct Languages<'a>(Vec<(&'a str, &'a str, &'a [u8])>);

impl<'a> Languages<'a> {
    /// Those that the build put into the program, in postcard's form.
    ///
    /// # Panics
    ///
    /// If the bytes are not from the same build.
    #[allow(clippy::expect_used)]
    pub fn built_in(bytes: &'a [u8]) -> Self {
        Self(postcard::from_bytes(bytes).expect("the build made these bytes from the same types"))
    }

    /// Code and name of each language, English first.
    pub fn known(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        std::iter::once((ENGLISH, "English"))
            .chain(self.0.iter().map(|(code, name, _)| (*code, *name)))
    }

    /// The code of a language from what people write: `ko`, `KO`, `ko-KR`, `ko_KR.UTF-8`. None if
    /// it is not known.
    pub fn named(&self, text: &str) -> Option<&'a str> {
        let code = text.split(['_', '-', '.', '@']).next().unwrap_or_default();
        self.known()
            .map(|(known, _)| known)
            .find(|known| known.eq_ignore_ascii_case(code))
    }

    /// The language of a locale: `ko` for `ko_KR.UTF-8`. English for one that is not known or not
    /// UTF-8.
    pub fn of_locale(&self, locale: &str) -> &'a str {
        self.named(locale)
            .filter(|_| is_utf8(locale))
            .unwrap_or(ENGLISH)
    }

    /// The texts of the language of this code; English if it is not known.
    pub fn translation(&self, code: &str) -> Translation {
        let packed = self
            .0
            .iter()
            .find(|(known, ..)| *known == code)
            .map(|(.., packed)| *packed);
        packed.map_or(Translation::ENGLISH, |packed| Translation {
            texts: built_in(packed),
        })
    }
}

/// Whether a locale's character set is UTF-8: `ko_KR.UTF-8`, `C.utf8`.
pub fn is_utf8(locale: &str) -> bool {
    let folded = locale.to_ascii_lowercase();
    folded.contains("utf-8") || folded.contains("utf8")
}

/// The texts of a language. A text that it lacks is in English.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Translation {
    /// None are there for English.
    texts: Texts,
}

impl Translation {
    /// No translation.
    pub const ENGLISH: Self = Self {
        texts: Texts::new(),
    };

    /// All texts, by their places.
    pub fn texts(&self) -> &Texts {
        &self.texts
    }

    /// The text of a place.
    pub fn text<'a>(&'a self, place: &str, english: &'a str) -> &'a str {
        self.texts.get(place).map_or(english, String::as_str)
    }

    /// A word or a sentence of [`WORDS`].
    pub fn word<'a>(&'a self, english: &'a str) -> &'a str {
        self.text(&format!("words.{english}"), english)
    }

    /// The same with values for its placeholders, which stand in braces.
    pub fn filled(&self, english: &str, values: &[(&str, &str)]) -> String {
        debug_assert!(WORDS.contains(&english), "{english}");
        words::filled(self.word(english), values)
    }

    /// Translates a message.
    pub fn translate_message(&self, message: &mut Message) {
        self.translate(language::of_message(message));
    }

    /// Translates a term.
    pub fn translate_subject(&self, subject: &mut Subject) {
        self.translate(language::of_subject(subject));
    }

    /// Translates an error.
    pub fn translate_error(&self, error: &mut ErrorCode) {
        self.translate(language::of_error(error));
    }

    fn translate<'a>(&self, texts: impl Iterator<Item = (String, &'a mut String)>) {
        // English has nothing to look up.
        for (place, text) in texts.take_while(|_| !self.texts.is_empty()) {
            if let Some(own) = self.texts.get(&place) {
                text.clone_from(own);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn languages() -> Languages<'static> {
        Languages::built_in(gpusetup_data::LANGUAGES)
    }

    #[test]
    fn a_locale_names_a_language() {
        for (locale, code) in [
            ("ko_KR.UTF-8", "ko"),
            ("ko_KR.utf8", "ko"),
            ("ko.UTF-8@x", "ko"),
            ("ko_KR", "en"),
            ("ko_KR.eucKR", "en"),
            ("C", "en"),
            ("C.UTF-8", "en"),
            ("POSIX", "en"),
            ("kok_IN.UTF-8", "en"),
            ("xx_XX.UTF-8", "en"),
            ("", "en"),
            ("\u{1b}[2J.UTF-8", "en"),
        ] {
            assert_eq!(languages().of_locale(locale), code, "{locale}");
        }
        for (text, code) in [
            ("ko", Some("ko")),
            ("KO-kr", Some("ko")),
            ("en_GB.UTF-8", Some("en")),
            ("kor", None),
            ("", None),
            ("C", None),
        ] {
            assert_eq!(languages().named(text), code, "{text}");
        }
    }

    #[test]
    fn english_is_the_fallback_of_each_text() {
        let some = Translation {
            texts: Texts::from([("words.means".to_owned(), "뜻".to_owned())]),
        };
        assert_eq!((some.word("means"), some.word("do")), ("뜻", "do"));
        assert_eq!(languages().translation("xx"), Translation::ENGLISH);
        assert!(languages().translation("ko").texts().len() > 1000);
    }
}
