//! What `explain` says in another language: a file of `explain/languages/`, whose name is the
//! language's code. It has the same places as the English texts (`messages.smi-no-driver.says`),
//! and may lack some: then the English text is shown.

use crate::compat::Xid;
use crate::error_code::ErrorCode;
use crate::message::Message;
use crate::subject::Subject;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Texts by their places: `checks.GS101.means`. The place of a word of explain's own is `words.`
/// and the English word.
pub type Texts = BTreeMap<String, String>;

/// The parts of a place are joined by this.
const JOINT: char = '.';

/// The files of languages hold texts of these kinds too. Their English is in the program, where the
/// build cannot see it.
const IN_PROGRAM: [&str; 7] = [
    "add-on-rules.",
    "checks.",
    "exits.",
    "files.",
    "rules.",
    "words.",
    "xid-actions.",
];

/// A file, read: the language's own name, the ids that stay English, and its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Language {
    /// Its name in itself: `한국어`.
    pub name: String,
    /// Places, or their beginnings, that nobody has translated yet.
    pub(crate) untranslated: Vec<String>,
    /// Its texts.
    pub texts: Texts,
}

/// A node of the file. Read by hand: every scalar is a text.
enum Node {
    Text(String),
    List(Vec<Node>),
    Map(BTreeMap<String, Node>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Nodes;
        impl<'de> Visitor<'de> for Nodes {
            type Value = Node;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quoted text, a list or a map")
            }
            fn visit_str<E>(self, text: &str) -> Result<Node, E> {
                Ok(Node::Text(text.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
                let mut all = Vec::new();
                while let Some(node) = seq.next_element()? {
                    all.push(node);
                }
                Ok(Node::List(all))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut all = BTreeMap::new();
                while let Some((key, node)) = map.next_entry()? {
                    all.insert(key, node);
                }
                Ok(Node::Map(all))
            }
        }
        from.deserialize_any(Nodes)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    #[serde(default)]
    untranslated: Vec<String>,
    texts: Node,
}

/// The language of a file's text.
///
/// # Errors
///
/// If it does not have the shape of a language.
pub fn parse(text: &str) -> Result<Language, String> {
    let options = serde_yaml::options! { no_schema: true, with_snippet: false };
    let File {
        name,
        untranslated,
        texts: root,
    } = serde_yaml::from_str_with_options(text, options).map_err(|e| e.to_string())?;
    let mut texts = Texts::new();
    flatten(root, "", &mut texts);
    Ok(Language {
        name,
        untranslated,
        texts,
    })
}

fn flatten(node: Node, place: &str, texts: &mut Texts) {
    match node {
        Node::Text(text) => drop(texts.insert(place.to_owned(), text)),
        Node::List(nodes) => {
            for (n, node) in nodes.into_iter().enumerate() {
                flatten(node, &joined(place, &(n + 1).to_string()), texts);
            }
        }
        Node::Map(nodes) => {
            for (key, node) in nodes {
                flatten(node, &joined(place, &key), texts);
            }
        }
    }
}

fn joined(place: &str, key: &str) -> String {
    if place.is_empty() {
        key.to_owned()
    } else {
        format!("{place}{JOINT}{key}")
    }
}

/// The places of a message's texts, and the texts.
pub fn of_message(message: &mut Message) -> impl Iterator<Item = (String, &mut String)> {
    let place = format!("messages.{}", message.id);
    let of_cause = format!("{place}.causes");
    let own = [("title", &mut message.title), ("says", &mut message.says)];
    let causes = message
        .causes
        .iter_mut()
        .enumerate()
        .flat_map(move |(n, cause)| {
            let place = format!("{of_cause}.{}", n + 1);
            let texts = [
                ("because", Some(&mut cause.because)),
                ("look", cause.look.as_mut()),
                ("do", Some(&mut cause.remedy)),
            ];
            texts
                .into_iter()
                .filter_map(move |(field, text)| Some((format!("{place}.{field}"), text?)))
        });
    own.into_iter()
        .map(move |(field, text)| (format!("{place}.{field}"), text))
        .chain(causes)
}

/// The places of a term's texts, and the texts.
pub fn of_subject(subject: &mut Subject) -> impl Iterator<Item = (String, &mut String)> {
    let place = format!("terms.{}", subject.names.first().map_or("", String::as_str));
    let texts = [
        ("title", Some(&mut subject.title)),
        ("means", Some(&mut subject.means)),
        ("causes", subject.causes.as_mut()),
        ("do", subject.remedy.as_mut()),
    ];
    texts
        .into_iter()
        .filter_map(move |(field, text)| Some((format!("{place}.{field}"), text?)))
}

/// The places of an error's texts, and the texts. Its own message is not ours to translate.
pub fn of_error(error: &mut ErrorCode) -> impl Iterator<Item = (String, &mut String)> {
    let place = format!("errors.{}-{}", error.api.as_str(), error.code);
    let texts = [
        ("means", Some(&mut error.means)),
        ("do", error.remedy.as_mut()),
    ];
    texts
        .into_iter()
        .filter_map(move |(field, text)| Some((format!("{place}.{field}"), text?)))
}

/// The place of what an Xid means.
pub fn of_xid(number: u16) -> String {
    format!("xids.{number}")
}

/// The English texts of data: messages, terms, errors, Xids.
pub fn english(
    messages: &[Message],
    subjects: &[Subject],
    errors: &[ErrorCode],
    xids: &[Xid],
) -> Texts {
    let mut texts: Texts = xids
        .iter()
        .map(|xid| (of_xid(xid.xid), xid.means.clone()))
        .collect();
    for message in messages {
        texts.extend(of_message(&mut message.clone()).map(cloned));
    }
    for subject in subjects {
        texts.extend(of_subject(&mut subject.clone()).map(cloned));
    }
    for error in errors {
        texts.extend(of_error(&mut error.clone()).map(cloned));
    }
    texts
}

fn cloned((place, text): (String, &mut String)) -> (String, String) {
    (place, text.clone())
}

/// What is wrong with a language's texts for these English ones, a line each. Texts whose English
/// is in the program alone are left out unless `english` has some of their kind.
pub fn faults(language: &Language, english: &Texts) -> Vec<String> {
    let mut wrong = Vec::new();
    for (place, text) in &language.texts {
        match english.get(place) {
            None if is_in_program_only(place, english) => {}
            None => wrong.push(format!("{place}: there is no such text in English")),
            Some(_) if text.trim().is_empty() => wrong.push(format!("{place}: it is empty")),
            Some(original) => {
                let (theirs, ours) = (literals(text), literals(original));
                let lost: Vec<_> = ours.difference(&theirs).cloned().collect();
                let invented: Vec<_> = theirs
                    .difference(&ours)
                    .filter(|literal| literal.starts_with(['`', '{']))
                    .cloned()
                    .collect();
                if !lost.is_empty() {
                    wrong.push(format!(
                        "{place}: these are missing, and stay as they are in English: {}",
                        lost.join(" ")
                    ));
                }
                if !invented.is_empty() {
                    wrong.push(format!(
                        "{place}: the English text does not have: {}",
                        invented.join(" ")
                    ));
                }
            }
        }
    }
    wrong
}

/// Whether the English text of a place is in the program alone, and `english` has none of its kind.
fn is_in_program_only(place: &str, english: &Texts) -> bool {
    let kind = IN_PROGRAM.iter().find(|kind| place.starts_with(**kind));
    kind.is_some_and(|kind| !english.keys().any(|own| own.starts_with(kind)))
}

/// The places that a language lacks and does not list as untranslated, and those that it lists
/// without need.
pub fn gaps(language: &Language, english: &Texts) -> Vec<String> {
    let lacking = english
        .keys()
        .filter(|place| !language.texts.contains_key(*place));
    let gaps = lacking
        .clone()
        .filter(|place| {
            !language
                .untranslated
                .iter()
                .any(|start| is_below(place, start))
        })
        .map(|place| format!("{place}: it is not translated"));
    let idle = language
        .untranslated
        .iter()
        .filter(|start| !lacking.clone().any(|place| is_below(place, start)));
    gaps.chain(idle.map(|start| format!("{start}: nothing below it is untranslated")))
        .collect()
}

fn is_below(place: &str, start: &str) -> bool {
    place == start || place.starts_with(&format!("{start}{JOINT}"))
}

/// What stays as it is in every language: text between backquotes, placeholders in braces, options,
/// variables, files and addresses, ids of checks.
fn literals(text: &str) -> BTreeSet<String> {
    let quoted = text
        .split('`')
        .skip(1)
        .step_by(2)
        .map(|piece| format!("`{piece}`"));
    let plain: String = text.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let words =
        plain.split(|c: char| c.is_whitespace() || !c.is_ascii() || "(),;:\"'?!".contains(c));
    let words = words
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| is_literal(word))
        .map(str::to_owned);
    quoted.chain(words).collect()
}

fn is_literal(word: &str) -> bool {
    word.starts_with('{')
        || word.starts_with('/')
        || word.starts_with("--")
        || word.contains(['_', '=', '@'])
        || word.contains(".so")
        || word
            .strip_prefix("GS")
            .is_some_and(|rest| rest.len() == 3 && rest.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn language(texts: &str) -> Language {
        parse(&format!(
            "name: X\nuntranslated: [messages.b]\ntexts:\n  messages:\n{texts}"
        ))
        .expect("it is sound")
    }

    fn english() -> Texts {
        [
            ("messages.a.title", "Run `dkms status`"),
            (
                "messages.a.causes.1.do",
                "Set {name} in /etc/x.conf with --now, LD_LIBRARY_PATH too.",
            ),
            ("messages.b.title", "B"),
        ]
        .map(|(place, text)| (place.to_owned(), text.to_owned()))
        .into()
    }

    #[test]
    fn lists_and_maps_are_places() {
        let own =
            language("    a:\n      title: \"실행: `dkms status`\"\n      causes: [{do: x}]\n");
        assert_eq!(
            own.texts.keys().collect::<Vec<_>>(),
            ["messages.a.causes.1.do", "messages.a.title"]
        );
        assert!(
            parse("name: X\ntexts: {a: x}\nmore: y\n").is_err(),
            "an unknown key"
        );
        assert!(
            parse("name: X\ntexts: {a: x, a: y}\n").is_err(),
            "a key twice"
        );
    }

    #[test]
    fn what_is_no_language_stays_as_it_is() {
        let sound = "    a:\n      title: \"`dkms status` 실행\"\n      causes:\n        - do: \"--now로 /etc/x.conf에 {name} 설정, LD_LIBRARY_PATH도.\"\n";
        assert_eq!(faults(&language(sound), &english()), [""; 0]);
        assert_eq!(gaps(&language(sound), &english()), [""; 0]);
        for (from, to, fault) in [
            (
                "`dkms status`",
                "`dkms 상태`",
                "missing, and stay as they are in English: `dkms status`",
            ),
            ("`dkms status`", "`dkms status` `x`", "does not have: `x`"),
            ("{name}", "{이름}", "{name}"),
            ("--now", "-now", "--now"),
            ("/etc/x.conf", "/etc/y.conf", "/etc/x.conf"),
            ("LD_LIBRARY_PATH", "경로", "LD_LIBRARY_PATH"),
            ("\"`dkms status` 실행\"", "\"\"", "empty"),
            (
                "title:",
                "titel:",
                "messages.a.titel: there is no such text",
            ),
        ] {
            let found = faults(&language(&sound.replacen(from, to, 1)), &english()).join("\n");
            assert!(found.contains(fault), "{to}: {found}");
        }
        let gap = gaps(
            &language("    a:\n      title: \"`dkms status`\"\n    b:\n      title: X\n"),
            &english(),
        );
        assert_eq!(
            gap,
            [
                "messages.a.causes.1.do: it is not translated",
                "messages.b: nothing below it is untranslated"
            ]
        );
    }

    #[test]
    fn what_the_program_has_is_for_its_tests() {
        let own = parse("name: X\ntexts: {words: {Hint: 힌트}}\n").expect("it is sound");
        assert_eq!(faults(&own, &english()), [""; 0]);
        assert_eq!(
            faults(
                &own,
                &Texts::from([("words.So".to_owned(), "So".to_owned())])
            )
            .len(),
            1
        );
    }
}
