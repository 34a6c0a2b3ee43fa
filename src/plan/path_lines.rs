//! Lines by which guides had people put a toolkit on the search paths of their shells and of the loader. What names exactly a removed
//! toolkit goes; a line that says more is changed where that is certain, and is otherwise left and named.

mod whole;

use super::Act;
use crate::host::{PathFile, Syntax};
use crate::operation::{EditFile, LineEdit};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use whole::whole_lines;

/// Variables that are lists of directories, with colons between them.
const LISTS: [&str; 9] = [
    "PATH",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "LD_RUN_PATH",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "MANPATH",
    "PKG_CONFIG_PATH",
];
/// Variables that name the directory of a toolkit.
const HOMES: [&str; 6] =
    ["CUDA_HOME", "CUDADIR", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR", "CUDA_INSTALL_PATH"];
/// How lines end behind which a shell expects a command: without one the file could not be read.
const OPENERS: [&str; 9] = ["then", "do", "else", "{", "(", ")", "&&", "||", "|"];

/// What becomes of the lines of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Scanned {
    /// The lines that go or change.
    edits: Vec<LineEdit>,
    /// The numbers of lines that name the toolkit and are left.
    left: Vec<usize>,
}

/// The operation that takes the lines out, if there are any, and what is left, as a sentence.
pub fn edit(file: &PathFile, gone: &[PathBuf]) -> (Option<Act>, Option<String>) {
    let Scanned { edits, left } = scan(file, gone);
    let act = (!edits.is_empty()).then(|| Act::needed(EditFile { path: file.path.clone(), owner: file.owner, edits }));
    let numbers: Vec<_> = left.iter().map(ToString::to_string).collect();
    let lines = if numbers.len() == 1 { "line" } else { "lines" };
    let sentence = format!("{} still names the removed toolkit ({lines} {})", file.path.display(), numbers.join(", "));
    (act, (!numbers.is_empty()).then_some(sentence))
}

/// Looks for lines that name one of these directories.
fn scan(file: &PathFile, gone: &[PathBuf]) -> Scanned {
    match file.syntax {
        None => Scanned { edits: Vec::new(), left: lines_that_name(&file.text, gone) },
        Some(Syntax::Loader) => scan_directories(&file.text, gone),
        Some(Syntax::Environment) => scan_assignments(&file.text, gone, false),
        Some(Syntax::Shell) => scan_assignments(&file.text, gone, true),
    }
}

fn lines_that_name(text: &str, gone: &[PathBuf]) -> Vec<usize> {
    let is_one = |line: &&str| !is_comment(line) && mentions(line, gone);
    (1..).zip(text.lines()).filter(|(_, line)| is_one(line)).map(|(number, _)| number).collect()
}

/// Looks through a file of the loader, which has a directory in each line.
fn scan_directories(text: &str, gone: &[PathBuf]) -> Scanned {
    let goes = |line: &&str| gone.iter().any(|path| Path::new(line.trim()).starts_with(path));
    let lines: BTreeSet<_> = text.lines().filter(goes).collect();
    let left = (1..).zip(text.lines()).filter(|(_, line)| !is_comment(line) && mentions(line, gone) && !goes(line));
    let left = left.map(|(number, _)| number).collect();
    Scanned { edits: lines.into_iter().map(|line| LineEdit { old: line.to_owned(), new: None }).collect(), left }
}

/// Looks through a file that sets variables.
fn scan_assignments(text: &str, gone: &[PathBuf], is_shell: bool) -> Scanned {
    let lines: Vec<_> = text.lines().collect();
    let whole = if is_shell { whole_lines(text) } else { vec![true; lines.len()] };
    // An edit is of every line with this text.
    let in_others: BTreeSet<_> =
        lines.iter().zip(&whole).filter(|(_, whole)| !**whole).map(|(line, _)| *line).collect();
    let commands = lines.iter().copied().filter(|line| !in_others.contains(line));
    let homes = home_variables(commands, gone);
    let (mut edits, mut left) = (BTreeMap::<String, Option<String>>::new(), Vec::new());
    let mut before = "";
    for (number, line) in (1..).zip(&lines) {
        let is_alone = !in_others.contains(line);
        let concerned = !is_comment(line) && (mentions(line, gone) || uses(line, &homes));
        let changed =
            Assignment::read(line, is_shell).filter(|_| concerned && is_alone).and_then(|a| a.without(gone, &homes));
        match changed {
            Some(Some(new)) => {
                edits.insert((*line).to_owned(), Some(new));
                before = line;
            }
            Some(None) => {
                let holds = is_shell && OPENERS.iter().any(|opener| before.ends_with(opener));
                let indent = &line[..line.len() - line.trim_start().len()];
                let new = edits.entry((*line).to_owned()).or_default();
                if holds {
                    *new = Some(format!("{indent}:"));
                    before = ":";
                }
            }
            None => {
                if concerned {
                    left.push(number);
                }
                if !line.trim().is_empty() && !is_comment(line) {
                    before = line.trim_end();
                }
            }
        }
    }
    Scanned { edits: edits.into_iter().map(|(old, new)| LineEdit { old, new }).collect(), left }
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// Whether a text names one of these directories, and not another one whose name only begins or ends like it.
fn mentions(text: &str, gone: &[PathBuf]) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_inner = |before: &str| {
        let folders = before.trim_end_matches(|c| is_of_name(c) || c == '/').len();
        before[folders..].contains('/')
    };
    gone.iter().any(|path| {
        let path = path.to_string_lossy();
        text.match_indices(&*path)
            .any(|(at, _)| !text[at + path.len()..].starts_with(is_of_name) && !is_inner(&text[..at]))
    })
}

/// The variables that these lines set to one of the directories, and to nothing else.
fn home_variables<'l>(lines: impl Iterator<Item = &'l str>, gone: &[PathBuf]) -> BTreeSet<String> {
    let is_gone = |value: &str| gone.iter().any(|path| Path::new(value) == path);
    let of_homes = lines.filter_map(|line| Assignment::read(line, true)).filter(|a| HOMES.contains(&a.name));
    let (ours, others): (Vec<_>, Vec<_>) = of_homes.partition(|a| is_gone(a.value));
    let is_other = |name: &str| others.iter().any(|a| a.name == name);
    ours.iter().filter(|a| !is_other(a.name)).map(|a| a.name.to_owned()).collect()
}

/// Whether a line has `$CUDA_HOME/` of such a variable.
fn uses(line: &str, homes: &BTreeSet<String>) -> bool {
    homes.iter().any(|name| [format!("${name}/"), format!("${{{name}}}/")].iter().any(|used| line.contains(used)))
}

/// A line that sets one variable to one word.
struct Assignment<'a> {
    /// What is before the name: blanks, and `export`.
    start: &'a str,
    name: &'a str,
    /// The quote around the value, if there is one.
    quote: Option<char>,
    value: &'a str,
    /// What is behind the value: nothing, a semicolon, a comment.
    end: &'a str,
}

impl<'a> Assignment<'a> {
    /// Reads a line; none if it is anything else, or may be.
    fn read(line: &'a str, is_shell: bool) -> Option<Self> {
        let bare = line.trim_start();
        let exported = bare.strip_prefix("export").filter(|rest| rest.starts_with([' ', '\t'])).map(str::trim_start);
        let assignment = if is_shell { exported.unwrap_or(bare) } else { bare };
        let (name, rest) = assignment.split_once('=')?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        let start = &line[..line.len() - assignment.len()];
        let quote = rest.chars().next().filter(|c| ['"', '\''].contains(c));
        let (value, end) = match quote {
            Some(quote) => rest[1..].split_once(quote)?,
            None => rest.split_at(rest.find([' ', '\t', ';']).unwrap_or(rest.len())),
        };
        let is_plain = |c: char| !"\\`()|&<>\"'*?[]~!".contains(c);
        let ends = end.trim_matches([' ', '\t', ';']);
        let is_end = ends.is_empty() || ends.starts_with('#') && end.starts_with([' ', '\t', ';']);
        (value.chars().all(is_plain) && is_end).then_some(Self { start, name, quote, value, end })
    }

    /// The line without these directories; the inner none if nothing is left of it. None if it is not certain what it says.
    fn without(&self, gone: &[PathBuf], homes: &BTreeSet<String>) -> Option<Option<String>> {
        if HOMES.contains(&self.name) {
            return is_in(self.value, gone, homes).then_some(None);
        }
        if !LISTS.contains(&self.name) {
            return None;
        }
        let all = elements(self.value);
        let (last, tail) = split_tail(all.last()?, self.name);
        let all: Vec<_> = all[..all.len() - 1].iter().copied().chain([last]).collect();
        let stays: Vec<_> = all.iter().copied().filter(|element| !is_in(element, gone, homes)).collect();
        if stays.len() == all.len() {
            return None;
        }
        let is_itself = |element: &&str| {
            element.is_empty()
                || [format!("${}", self.name), format!("${{{}}}", self.name)].contains(&(*element).to_owned())
        };
        if stays.iter().all(is_itself) {
            let keeps_path = self.name != "PATH" || !stays.is_empty() || !tail.is_empty();
            return keeps_path.then_some(None);
        }
        let quote = self.quote.map(String::from).unwrap_or_default();
        let Self { start, name, end, .. } = self;
        Some(Some(format!("{start}{name}={quote}{}{tail}{quote}{end}", stays.join(":"))))
    }
}

/// The elements of a list. A colon in braces belongs to the expansion of a variable.
fn elements(value: &str) -> Vec<&str> {
    let (mut depth, mut from, mut all) = (0_usize, 0, Vec::new());
    for (at, c) in value.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => {
                all.push(&value[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    all.push(&value[from..]);
    all
}

/// An element without the `${PATH:+:${PATH}}` at its end, and that.
fn split_tail<'a>(element: &'a str, name: &str) -> (&'a str, &'a str) {
    let tails = [format!("${{{name}:+:${{{name}}}}}"), format!("${{{name}:+:${name}}}")];
    let tail = tails.iter().find(|tail| element.ends_with(tail.as_str()));
    element.split_at(element.len() - tail.map_or(0, String::len))
}

/// Whether an element is in one of these directories.
fn is_in(element: &str, gone: &[PathBuf], homes: &BTreeSet<String>) -> bool {
    let by_variable = |name: &String| {
        let forms = [format!("${name}"), format!("${{{name}}}")];
        forms.iter().any(|form| {
            element.strip_prefix(form.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    let is_plain = !element.contains("..") && !element.contains('$');
    is_plain && gone.iter().any(|path| Path::new(element).starts_with(path)) || homes.iter().any(by_variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(syntax: Syntax, text: &str) -> PathFile {
        let (path, text) = (PathBuf::from("/f"), text.to_owned());
        PathFile { path, owner: 0, text, syntax: Some(syntax), is_private: false }
    }

    /// Each edit as `old => new`, and the numbers of the lines that are left.
    fn scanned(syntax: Syntax, text: &str) -> (Vec<String>, Vec<usize>) {
        let Scanned { edits, left } = scan(&file(syntax, text), &["/usr/local/cuda-11.2".into()]);
        let shown =
            |edit: LineEdit| format!("{} => {}", edit.old.trim(), edit.new.unwrap_or_else(|| "gone".to_owned()));
        (edits.into_iter().map(shown).collect(), left)
    }

    #[test]
    fn lines_of_guides_go() {
        for line in [
            "export PATH=/usr/local/cuda-11.2/bin:$PATH",
            "export PATH=/usr/local/cuda-11.2/bin${PATH:+:${PATH}}",
            "export PATH=\"/usr/local/cuda-11.2/bin:${PATH}\"  # CUDA",
            "export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/usr/local/cuda-11.2/lib64:/usr/local/cuda-11.2/extras/CUPTI/lib64;",
            "LD_LIBRARY_PATH='/usr/local/cuda-11.2/lib64'",
            "export CUDA_HOME=/usr/local/cuda-11.2",
            "export CUDADIR=/usr/local/cuda-11.2/",
        ] {
            assert_eq!(scanned(Syntax::Shell, line), (vec![format!("{line} => gone")], vec![]), "{line}");
        }
        let by_variable = "export CUDA_HOME=/usr/local/cuda-11.2\nexport PATH=$CUDA_HOME/bin:$PATH\n";
        assert_eq!(scanned(Syntax::Shell, by_variable).0.len(), 2);
    }

    #[test]
    fn a_line_that_says_more_keeps_the_rest() {
        for (line, new) in [
            ("export PATH=/opt/x/bin:/usr/local/cuda-11.2/bin:$PATH", "export PATH=/opt/x/bin:$PATH"),
            (
                "export PATH=/usr/local/cuda-12.4/bin:/usr/local/cuda-11.2/bin${PATH:+:${PATH}}",
                "export PATH=/usr/local/cuda-12.4/bin${PATH:+:${PATH}}",
            ),
            ("  PATH=\"$PATH:/usr/local/cuda-11.2/bin:/opt/y\" # both", "  PATH=\"$PATH:/opt/y\" # both"),
        ] {
            let wanted = vec![format!("{} => {new}", line.trim())];
            assert_eq!(scanned(Syntax::Shell, line), (wanted, vec![]));
        }
        let environment = "PATH=\"/usr/sbin:/usr/bin:/usr/local/cuda-11.2/bin\"\nCUDA_HOME=/usr/local/cuda-11.2\n";
        let wanted = [
            "CUDA_HOME=/usr/local/cuda-11.2 => gone",
            "PATH=\"/usr/sbin:/usr/bin:/usr/local/cuda-11.2/bin\" => PATH=\"/usr/sbin:/usr/bin\"",
        ];
        assert_eq!(scanned(Syntax::Environment, environment), (wanted.map(str::to_owned).to_vec(), vec![]));
    }

    #[test]
    fn what_is_not_certain_is_left_and_named() {
        for line in [
            "[ -d /usr/local/cuda-11.2 ] && export PATH=/usr/local/cuda-11.2/bin:$PATH",
            "alias nvcc112=/usr/local/cuda-11.2/bin/nvcc",
            "export PATH=/usr/local/cuda-11.2/bin:$PATH MORE=1",
            "export PATH=\"/usr/local/cuda-11.2/bin\":$PATH",
            "export PATH=/usr/local/cuda-11.2/bin:$(getconf PATH)",
            "export PATH=/usr/local/cuda-11.2/bin",
            "export FLAGS=-I/usr/local/cuda-11.2/include",
            "export PATH=/usr/local/cuda-11.2/bin:$PATH \\",
            "cat <<EOF\nexport PATH=/usr/local/cuda-11.2/bin:$PATH\nEOF",
            "x='\nexport PATH=/usr/local/cuda-11.2/bin:$PATH\n'",
        ] {
            let (edits, left) = scanned(Syntax::Shell, line);
            assert_eq!((edits, left.len()), (vec![], 1), "{line}");
        }
        let line = "export PATH=/usr/local/cuda-11.2/bin:$PATH";
        let twice = format!("cat <<EOF\n{line}\nEOF\n{line}\n");
        assert_eq!(scanned(Syntax::Shell, &twice), (vec![], vec![2, 4]), "an edit would take both");
        let behind = format!("cat <<EOF\nit's\nEOF\n{line}\n");
        assert_eq!(scanned(Syntax::Shell, &behind), (vec![format!("{line} => gone")], vec![]));
    }

    #[test]
    fn the_loader_has_a_directory_in_each_line() {
        let text = "# /usr/local/cuda-11.2/lib64\n/usr/local/cuda-11.2/lib64\n/usr/local/cuda-12.4/lib64\n\
                    include /usr/local/cuda-11.2/*.conf\n";
        let gone = vec!["/usr/local/cuda-11.2/lib64 => gone".to_owned()];
        assert_eq!(scanned(Syntax::Loader, text), (gone, vec![4]));
    }

    #[test]
    fn other_toolkits_and_comments_are_no_concern() {
        for line in [
            "export PATH=/usr/local/cuda-11.20/bin:/usr/local/cuda/bin:$PATH",
            "# export PATH=/usr/local/cuda-11.2/bin:$PATH",
            "export PATH=/opt/usr/local/cuda-11.2.old/bin:$PATH",
            "export PATH=/opt/usr/local/cuda-11.2/bin:$PATH",
        ] {
            assert_eq!(scanned(Syntax::Shell, line), (vec![], vec![]), "{line}");
        }
    }

    #[test]
    fn a_block_keeps_a_command() {
        let line = "export PATH=/usr/local/cuda-11.2/bin:$PATH";
        for (text, wanted) in [
            (format!("if true; then\n  {line}\nfi\n"), "if true; then\n  :\nfi\n"),
            (format!("f() {{\n{line}\n}}\n"), "f() {\n:\n}\n"),
            (
                format!("for x in a; do\n\n  # why\n  {line}\n  export CUDA_HOME=/usr/local/cuda-11.2\ndone\n"),
                "for x in a; do\n\n  # why\n  :\ndone\n",
            ),
            (format!("case $- in\n  *i*)\n    {line}\n    ;;\nesac\n"), "case $- in\n  *i*)\n    :\n    ;;\nesac\n"),
            (format!("echo a\n{line}\n"), "echo a\n"),
        ] {
            let Scanned { edits, left } = scan(&file(Syntax::Shell, &text), &["/usr/local/cuda-11.2".into()]);
            let edited = EditFile { path: "/f".into(), owner: 0, edits }.edited(&text);
            assert_eq!((edited.as_str(), left.len()), (wanted, 0));
            let ran = std::process::Command::new("/bin/sh").args(["-nc", &edited]).status().expect("sh runs");
            assert!(ran.success(), "{edited}");
        }
    }
}
