//! Lines by which guides had people put a toolkit on the search paths of their shells and of the
//! loader. What names exactly a removed toolkit goes; a line that says more is changed where that
//! is certain, and is otherwise left and named.

mod preferred;
mod values;
mod whole;

pub(crate) use preferred::preferred;

use gpusetup_host::{PathFile, Syntax};
use gpusetup_operation::{EditFile, LineEdit, Operation};
use gpusetup_text::text::quoted_path;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use values::Values;
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
const HOMES: [&str; 6] = [
    "CUDA_HOME",
    "CUDADIR",
    "CUDA_PATH",
    "CUDA_ROOT",
    "CUDA_TOOLKIT_ROOT_DIR",
    "CUDA_INSTALL_PATH",
];
/// How lines end behind which a shell expects a command: without one the file could not be read.
/// `elif` ends like `if`.
const OPENERS: [&str; 13] = [
    "if", "while", "until", "!", "then", "do", "else", "{", "(", ")", "&&", "||", "|",
];

/// What becomes of the lines of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Scanned {
    /// The lines that go or change.
    edits: Vec<LineEdit>,
    /// The numbers of lines that name the toolkit and are left.
    left: Vec<usize>,
}

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It does not name the toolkit.
    Other,
    /// It names the toolkit and is left.
    Left,
    /// It changes to this, or goes.
    Changed(Option<String>),
}

/// The variables such as `CUDA_HOME` that files of the system set to one of these directories:
/// other files find them set.
pub fn inherited(files: &[PathFile], gone: &[PathBuf]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for file in files.iter().filter(|file| !file.is_private) {
        let is_shell = match file.syntax {
            Some(Syntax::Shell) => true,
            Some(Syntax::Environment) => false,
            Some(Syntax::Loader) | None => continue,
        };
        let mut homes = Homes {
            uncertain: all.clone(),
            ..Homes::default()
        };
        let _ = homes.verdicts(&file.text, gone, is_shell);
        all.extend(
            homes
                .seen
                .into_iter()
                .filter(|name| HOMES.contains(&name.as_str())),
        );
    }
    all
}

/// The operation that takes the lines out, if there are any, and what is left, as a sentence.
/// `inherited` are variables that other files set to one of the directories.
pub fn edit(
    file: &PathFile,
    gone: &[PathBuf],
    inherited: &BTreeSet<String>,
) -> (Option<Operation>, Option<String>) {
    let Scanned { edits, left } = scan(file, gone, inherited);
    let operation = (!edits.is_empty()).then(|| {
        Operation::EditFile(EditFile {
            path: file.path.clone(),
            owner: file.owner,
            edits,
        })
    });
    let numbers: Vec<_> = left.iter().map(ToString::to_string).collect();
    let lines = if numbers.len() == 1 { "line" } else { "lines" };
    let sentence = format!(
        "{} still names the removed toolkit ({lines} {})",
        quoted_path(&file.path),
        numbers.join(", ")
    );
    (operation, (!numbers.is_empty()).then_some(sentence))
}

/// Looks for lines that name one of these directories.
fn scan(file: &PathFile, gone: &[PathBuf], inherited: &BTreeSet<String>) -> Scanned {
    match file.syntax {
        None => Scanned {
            edits: Vec::new(),
            left: lines_that_name(&file.text, gone, inherited),
        },
        Some(Syntax::Loader) => scan_directories(&file.text, gone),
        Some(Syntax::Environment) => scan_assignments(&file.text, gone, inherited, false),
        Some(Syntax::Shell) => scan_assignments(&file.text, gone, inherited, true),
    }
}

fn lines_that_name(text: &str, gone: &[PathBuf], inherited: &BTreeSet<String>) -> Vec<usize> {
    let mut values = Values::without_paths();
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| {
            !is_comment(line) && (mentions(&values.expand(line), gone) || uses(line, inherited))
        })
        .map(|(number, _)| number)
        .collect()
}

/// Looks through a file of the loader, which has a directory in each line.
fn scan_directories(text: &str, gone: &[PathBuf]) -> Scanned {
    let (mut lines, mut left) = (BTreeSet::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let directory = Path::new(line.trim());
        if gone.iter().any(|path| directory.starts_with(path)) {
            lines.insert(line);
        } else if !is_comment(line) && mentions(line, gone) {
            left.push(number);
        }
    }
    let edits = lines.into_iter().map(|line| LineEdit {
        old: line.to_owned(),
        new: None,
    });
    Scanned {
        edits: edits.collect(),
        left,
    }
}

/// Looks through a file that sets variables.
fn scan_assignments(
    text: &str,
    gone: &[PathBuf],
    inherited: &BTreeSet<String>,
    is_shell: bool,
) -> Scanned {
    // What each line says may depend on what the lines before it set.
    let verdicts = Homes {
        uncertain: inherited.clone(),
        ..Homes::default()
    }
    .verdicts(text, gone, is_shell);
    // An edit is of every line with this text.
    let mut first = BTreeMap::new();
    let differing = text
        .lines()
        .zip(&verdicts)
        .filter(|(line, verdict)| *first.entry(*line).or_insert(*verdict) != *verdict);
    let differing: BTreeSet<_> = differing.map(|(line, _)| line).collect();
    let (mut edits, mut left) = (BTreeMap::<String, Option<String>>::new(), Vec::new());
    let mut before = "";
    for (number, (line, verdict)) in (1..).zip(text.lines().zip(&verdicts)) {
        match verdict {
            Verdict::Changed(Some(new)) if !differing.contains(line) => {
                edits.insert(line.to_owned(), Some(new.clone()));
                before = line;
            }
            Verdict::Changed(None) if !differing.contains(line) => {
                let indent = &line[..line.len() - line.trim_start().len()];
                let new = edits.entry(line.to_owned()).or_default();
                if is_shell && expects_command(before) {
                    *new = Some(format!("{indent}:"));
                    before = ":";
                }
            }
            _ => {
                if *verdict != Verdict::Other {
                    left.push(number);
                }
                if !line.trim().is_empty() && !is_comment(line) {
                    before = line.trim_end();
                }
            }
        }
    }
    Scanned {
        edits: edits
            .into_iter()
            .map(|(old, new)| LineEdit { old, new })
            .collect(),
        left,
    }
}

/// The variables, such as `CUDA_HOME`, that name one of the directories, or a place in one, at a
/// line.
#[derive(Default)]
struct Homes {
    /// Those that a line above sets, with only assignments between. They are of [`HOMES`], so that
    /// these lines go.
    certain: BTreeSet<String>,
    /// Those that something between may have set again, those that another file sets, and others
    /// whose lines stay.
    uncertain: BTreeSet<String>,
    /// Those that a block which is still open set to something else. After it, they may have either
    /// value.
    set_in_block: BTreeSet<String>,
    /// How many blocks are open.
    blocks: usize,
    /// All that the text has set to such a directory so far.
    seen: BTreeSet<String>,
}

impl Homes {
    /// What becomes of each line of a text.
    fn verdicts(&mut self, text: &str, gone: &[PathBuf], is_shell: bool) -> Vec<Verdict> {
        let whole = if is_shell {
            whole_lines(text)
        } else {
            vec![true; text.lines().count()]
        };
        let (mut verdicts, mut values) = (Vec::new(), Values::without_paths());
        for (line, is_whole) in text.lines().zip(whole) {
            let assignment = Assignment::read(line, is_shell).filter(|_| is_whole);
            let expanded = if is_shell && !is_comment(line) {
                values.expand(line)
            } else {
                line.to_owned()
            };
            let verdict = self.verdict(line, assignment.as_ref(), gone);
            // With its version in a variable, a toolkit is named and no line is changed.
            let is_by_value =
                verdict == Verdict::Other && !is_comment(line) && mentions(&expanded, gone);
            verdicts.push(if is_by_value { Verdict::Left } else { verdict });
            match assignment {
                Some(set) if !is_by_value || LISTS.contains(&set.name) => self.assign(&set, gone),
                None if sets_nothing(line) => {}
                _ => self.pass(&expanded, is_whole, gone),
            }
        }
        verdicts
    }

    /// What becomes of a line; `assignment` is what it is, if it is one.
    fn verdict(&self, line: &str, assignment: Option<&Assignment>, gone: &[PathBuf]) -> Verdict {
        let is_uncertain = uses(line, &self.uncertain);
        if is_comment(line) || !(is_uncertain || mentions(line, gone) || uses(line, &self.certain))
        {
            return Verdict::Other;
        }
        let certain = assignment.filter(|_| !is_uncertain);
        certain
            .and_then(|set| set.without(gone, &self.certain))
            .map_or(Verdict::Left, Verdict::Changed)
    }

    /// Goes on behind an assignment.
    fn assign(&mut self, set: &Assignment, gone: &[PathBuf]) {
        if LISTS.contains(&set.name) {
            return;
        }
        let may_be_in = uses(set.value, &self.uncertain);
        let is_surely_in = is_in(set.value, gone, &self.certain);
        let was_certain = self.certain.remove(set.name);
        let was_in = self.uncertain.remove(set.name) || was_certain;
        let name = set.name.to_owned();
        if is_surely_in || may_be_in {
            let certainty = if set.is_of_home() && !may_be_in {
                &mut self.certain
            } else {
                &mut self.uncertain
            };
            certainty.insert(name.clone());
            self.seen.insert(name);
        } else if was_in && self.blocks > 0 {
            self.set_in_block.insert(name);
        }
    }

    /// Goes on behind a line that is no assignment, and may set any variable.
    fn pass(&mut self, line: &str, is_whole: bool, gone: &[PathBuf]) {
        self.uncertain.append(&mut self.certain);
        let words = line.split(|c: char| c.is_whitespace() || ";&|()".contains(c));
        let assignments = words.filter_map(|word| word.split_once('='));
        let in_these = assignments.filter(|(name, value)| {
            let value = value.trim_matches(['"', '\'']);
            is_name(name) && !LISTS.contains(name) && is_in(value, gone, &self.uncertain)
        });
        let names: Vec<_> = in_these.map(|(name, _)| name.to_owned()).collect();
        self.seen.extend(names.iter().cloned());
        self.uncertain.extend(names);
        let Blocks {
            opened,
            closed,
            ends_branch,
        } = Blocks::of(line);
        self.blocks += opened;
        // Text in quotes or in a here-document may look like an end.
        if is_whole && ends_branch {
            self.uncertain.append(&mut self.set_in_block);
            self.blocks = self.blocks.saturating_sub(closed);
        }
    }
}

/// What a line does to a shell's blocks: `if`, `case`, loops, functions and groups.
#[derive(Default)]
struct Blocks {
    opened: usize,
    closed: usize,
    /// Whether a block, or one branch of it, ends.
    ends_branch: bool,
}

impl Blocks {
    fn of(line: &str) -> Self {
        let mut all = Self {
            ends_branch: line.contains(";;"),
            ..Self::default()
        };
        for command in line.split([';', '&', '|']) {
            let first = command
                .split_whitespace()
                .find(|word| !["then", "do", "else", "!"].contains(word))
                .unwrap_or_default();
            let opens = ["if", "case", "for", "while", "until", "select", "("].contains(&first);
            all.opened += usize::from(opens)
                + command
                    .split_whitespace()
                    .filter(|word| *word == "{")
                    .count();
            let closes = ["fi", "esac", "done", "}", ")"].contains(&first);
            all.closed += usize::from(closes);
            let changes_branch = command
                .split_whitespace()
                .next()
                .is_some_and(|word| ["else", "elif"].contains(&word));
            all.ends_branch |= closes || changes_branch;
        }
        all
    }
}

/// Whether a line surely sets no variable: blank, a comment, or `export` of names. Any command may
/// be a function that does.
fn sets_nothing(line: &str) -> bool {
    let mut words = line.split_whitespace();
    match words.next() {
        Some("export") => words.all(is_name),
        first => first.is_none_or(|word| word.starts_with('#')),
    }
}

/// Whether a shell expects a command in the line after this one.
fn expects_command(before: &str) -> bool {
    let code = before
        .split_once(" #")
        .map_or(before, |(code, _)| code.trim_end());
    OPENERS
        .iter()
        .any(|opener| before.ends_with(opener) || code.ends_with(opener))
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// Whether a text names one of these directories, and not another one whose name only begins or
/// ends like it.
fn mentions(text: &str, gone: &[PathBuf]) -> bool {
    gone.iter().any(|path| {
        let path = path.to_string_lossy();
        text.match_indices(&*path).any(|(at, _)| {
            let before = &text[..at];
            let folders = before.trim_end_matches(|c| is_of_file(c) || c == '/').len();
            let is_inner = before[folders..].contains('/');
            !is_inner && !text[at + path.len()..].starts_with(is_of_file)
        })
    })
}

fn is_of_file(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-".contains(c)
}

/// Whether a text uses such a variable: `$CUDA_HOME` or `${CUDA_HOME}`. A test whether it is set
/// (`-n`, `-z`) does not count.
fn uses(text: &str, homes: &BTreeSet<String>) -> bool {
    homes.iter().flat_map(|name| references(name)).any(|form| {
        text.match_indices(&form).any(|(at, _)| {
            let is_longer = !form.ends_with('}') && text[at + form.len()..].starts_with(is_of_name);
            let before = text[..at].trim_end_matches('"').trim_end();
            !is_longer && !before.ends_with("-n") && !before.ends_with("-z")
        })
    })
}

/// How a shell names the value of a variable: `$CUDA_HOME`, `${CUDA_HOME}`.
fn references(name: &str) -> [String; 2] {
    [format!("${name}"), format!("${{{name}}}")]
}

/// A line of a shell without the blanks and the `export` at its start.
fn without_export(line: &str) -> &str {
    let bare = line.trim_start();
    let exported = bare
        .strip_prefix("export")
        .filter(|rest| rest.starts_with([' ', '\t']));
    exported.map_or(bare, str::trim_start)
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether a variable can have this name.
fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(is_of_name)
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
        let assignment = if is_shell {
            without_export(line)
        } else {
            line.trim_start()
        };
        let (name, rest) = assignment.split_once('=')?;
        if !is_name(name) {
            return None;
        }
        let start = &line[..line.len() - assignment.len()];
        let quote = rest.chars().next().filter(|c| ['"', '\''].contains(c));
        let (value, end) = match quote {
            Some(quote) => rest[1..].split_once(quote)?,
            None => rest.split_at(rest.find([' ', '\t', ';']).unwrap_or(rest.len())),
        };
        let ends = end.trim_matches([' ', '\t', ';']);
        let is_end = ends.is_empty() || ends.starts_with('#') && end.starts_with([' ', '\t', ';']);
        (value.chars().all(|c| !"\\`()|&<>\"'*?[]~!".contains(c)) && is_end).then_some(Self {
            start,
            name,
            quote,
            value,
            end,
        })
    }

    /// Whether it sets a variable such as `CUDA_HOME`.
    fn is_of_home(&self) -> bool {
        HOMES.contains(&self.name)
    }

    /// The line without these directories; the inner none if nothing is left of it. None if it is
    /// not certain what it says.
    fn without(&self, gone: &[PathBuf], homes: &BTreeSet<String>) -> Option<Option<String>> {
        if self.is_of_home() {
            return is_in(self.value, gone, homes).then_some(None);
        }
        if !LISTS.contains(&self.name) {
            return None;
        }
        let all = elements(self.value);
        let (last, tail) = split_tail(all.last()?, self.name);
        let all: Vec<_> = all[..all.len() - 1].iter().copied().chain([last]).collect();
        let stays: Vec<_> = all
            .iter()
            .copied()
            .filter(|element| !is_in(element, gone, homes))
            .collect();
        if stays.len() == all.len() {
            return None;
        }
        let own = references(self.name);
        let mut stay = stays.iter();
        if stay.all(|element| element.is_empty() || own.iter().any(|form| form == element)) {
            let keeps_path = self.name != "PATH" || !stays.is_empty() || !tail.is_empty();
            return keeps_path.then_some(None);
        }
        let quote = self.quote.map(String::from).unwrap_or_default();
        let Self {
            start, name, end, ..
        } = self;
        Some(Some(format!(
            "{start}{name}={quote}{}{tail}{quote}{end}",
            stays.join(":")
        )))
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
    let tails = [
        format!("${{{name}:+:${{{name}}}}}"),
        format!("${{{name}:+:${name}}}"),
    ];
    let tail = tails.iter().find(|tail| element.ends_with(tail.as_str()));
    element.split_at(element.len() - tail.map_or(0, String::len))
}

/// Whether an element is in one of these directories.
fn is_in(element: &str, gone: &[PathBuf], homes: &BTreeSet<String>) -> bool {
    let is_plain = !element.contains("..") && !element.contains('$');
    is_plain && gone.iter().any(|path| Path::new(element).starts_with(path))
        || homes.iter().any(|name| {
            references(name).iter().any(|form| {
                element
                    .strip_prefix(form.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(syntax: Syntax, text: &str) -> PathFile {
        let (path, text) = (PathBuf::from("/f"), text.to_owned());
        PathFile {
            path,
            owner: 0,
            text,
            syntax: Some(syntax),
            is_private: false,
        }
    }

    /// Each edit as `old => new`, and the numbers of the lines that are left.
    fn scanned(syntax: Syntax, text: &str) -> (Vec<String>, Vec<usize>) {
        let Scanned { edits, left } = scan(
            &file(syntax, text),
            &["/usr/local/cuda-11.2".into()],
            &BTreeSet::new(),
        );
        let shown = |edit: LineEdit| {
            format!(
                "{} => {}",
                edit.old.trim(),
                edit.new.unwrap_or_else(|| "gone".to_owned())
            )
        };
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
            assert_eq!(
                scanned(Syntax::Shell, line),
                (vec![format!("{line} => gone")], vec![]),
                "{line}"
            );
        }
        let by_variable =
            "export CUDA_HOME=/usr/local/cuda-11.2\nexport PATH=$CUDA_HOME/bin:$PATH\n";
        assert_eq!(scanned(Syntax::Shell, by_variable).0.len(), 2);
    }

    #[test]
    fn a_line_that_says_more_keeps_the_rest() {
        for (line, new) in [
            (
                "export PATH=/opt/x/bin:/usr/local/cuda-11.2/bin:$PATH",
                "export PATH=/opt/x/bin:$PATH",
            ),
            (
                "export PATH=/usr/local/cuda-12.4/bin:/usr/local/cuda-11.2/bin${PATH:+:${PATH}}",
                "export PATH=/usr/local/cuda-12.4/bin${PATH:+:${PATH}}",
            ),
            (
                "  PATH=\"$PATH:/usr/local/cuda-11.2/bin:/opt/y\" # both",
                "  PATH=\"$PATH:/opt/y\" # both",
            ),
        ] {
            let wanted = vec![format!("{} => {new}", line.trim())];
            assert_eq!(scanned(Syntax::Shell, line), (wanted, vec![]));
        }
        let environment = "PATH=\"/usr/sbin:/usr/bin:/usr/local/cuda-11.2/bin\"\nCUDA_HOME=/usr/local/cuda-11.2\n";
        let wanted = [
            "CUDA_HOME=/usr/local/cuda-11.2 => gone",
            "PATH=\"/usr/sbin:/usr/bin:/usr/local/cuda-11.2/bin\" => PATH=\"/usr/sbin:/usr/bin\"",
        ];
        assert_eq!(
            scanned(Syntax::Environment, environment),
            (wanted.map(str::to_owned).to_vec(), vec![])
        );
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
            "x=${y:-\nexport PATH=/usr/local/cuda-11.2/bin:$PATH\n}",
        ] {
            let (edits, left) = scanned(Syntax::Shell, line);
            assert_eq!((edits, left.len()), (vec![], 1), "{line}");
        }
        let line = "export PATH=/usr/local/cuda-11.2/bin:$PATH";
        let twice = format!("cat <<EOF\n{line}\nEOF\n{line}\n");
        assert_eq!(
            scanned(Syntax::Shell, &twice),
            (vec![], vec![2, 4]),
            "an edit would take both"
        );
        let script = format!("cat <<EOF\nit's\nEOF\n{line}\n");
        assert_eq!(
            scanned(Syntax::Shell, &script),
            (vec![format!("{line} => gone")], vec![])
        );
    }

    #[test]
    fn a_line_with_a_variable_goes_only_if_nothing_may_have_set_it_again() {
        const HOME: &str = "export CUDA_HOME=/usr/local/cuda-11.2";
        const USE: &str = "export PATH=$CUDA_HOME/bin:$PATH";
        for between in [
            "",
            "# mine\n\n",
            "export CUDA_HOME\n",
            "CUDA_PATH=/usr/local/cuda-11.2\nX=1\n",
        ] {
            let (edits, left) = scanned(
                Syntax::Shell,
                &format!("f() {{ CUDA_HOME=/x; }}\n{HOME}\n{between}{USE}\n"),
            );
            assert!(
                edits.contains(&format!("{USE} => gone")) && left.is_empty(),
                "{between}: {edits:?} {left:?}"
            );
        }
        for between in [
            "[ -d /usr/local/cuda-12.4 ] && CUDA_HOME=/usr/local/cuda-12.4",
            "f",
            ". /etc/my-cuda",
            "module load cuda/12.4",
            "export X=1 CUDA_HOME=/usr/local/cuda-12.4",
        ] {
            let (edits, left) = scanned(Syntax::Shell, &format!("{HOME}\n{between}\n{USE}\n"));
            assert_eq!(
                (edits, left),
                (vec![format!("{HOME} => gone")], vec![3]),
                "{between}"
            );
        }
        let other = "CUDA_HOME=/usr/local/cuda-12.4";
        let again = scanned(Syntax::Shell, &format!("{HOME}\n{other}\n{USE}\n"));
        assert_eq!(
            again,
            (vec![format!("{HOME} => gone")], vec![]),
            "it names the other toolkit"
        );
        let both = scanned(Syntax::Shell, &format!("{HOME}\n{USE}\n{other}\n{USE}\n"));
        assert_eq!(
            both,
            (vec![format!("{HOME} => gone")], vec![2]),
            "an edit would take both"
        );
    }

    #[test]
    fn a_variable_that_is_set_from_another_one_goes_with_it() {
        for text in [
            "export CUDA_HOME=/usr/local/cuda-11.2\nexport CUDA_PATH=$CUDA_HOME\nexport PATH=$CUDA_PATH/bin:$PATH\n",
            "CUDA_ROOT=/usr/local/cuda-11.2\nCUDA_HOME=\"${CUDA_ROOT}\"\nPATH=$PATH:$CUDA_HOME/bin\n",
        ] {
            let (edits, left) = scanned(Syntax::Shell, text);
            assert!(
                edits.iter().all(|edit| edit.ends_with(" => gone")),
                "{edits:?}"
            );
            assert_eq!((edits.len(), left), (3, vec![]), "{text}");
        }
        const HOME: &str = "export CUDA_HOME=/usr/local/cuda-11.2";
        for between in [
            "export CUDA_PATH=\"$CUDA_HOME\" CUDADIR=$CUDA_HOME",
            "CUDADIR=$CUDA_HOME MORE=1",
            "CUDADIR=$MINE",
        ] {
            let text =
                format!("{HOME}\nMINE=$CUDA_HOME\n{between}\nexport PATH=$CUDADIR/bin:$PATH\n");
            assert_eq!(
                scanned(Syntax::Shell, &text),
                (vec![format!("{HOME} => gone")], vec![2, 3, 4]),
                "{between}"
            );
        }
        let guarded = format!(
            "if [ -z \"$CUDA_HOME\" ]; then\n{HOME}\nfi\n[ -n \"${{CUDA_HOME}}\" ] && echo it\n"
        );
        assert_eq!(scanned(Syntax::Shell, &guarded).1, [0_usize; 0]);
    }

    #[test]
    fn a_version_in_a_variable_names_a_toolkit() {
        for (text, wanted) in [
            (
                "export CUDA_VERSION=11.2\nexport PATH=/usr/local/cuda-${CUDA_VERSION}/bin:$PATH\n",
                &[2][..],
            ),
            (
                "CUDA_VER=11.2; export PATH=/usr/local/cuda-$CUDA_VER/bin:$PATH\n",
                &[1],
            ),
            (
                "V=11.2\nexport CUDA_HOME=/usr/local/cuda-$V\nPATH=$CUDA_HOME/bin:$PATH\n",
                &[2, 3],
            ),
            (
                "V=11.2\nV=12.4\nexport CUDA_HOME=/usr/local/cuda-$V\nPATH=$CUDA_HOME/bin:$PATH\n",
                &[],
            ),
            ("V=11.2\necho $V\n", &[]),
        ] {
            assert_eq!(
                scanned(Syntax::Shell, text),
                (vec![], wanted.to_vec()),
                "{text}"
            );
            let read = PathFile {
                syntax: None,
                ..file(Syntax::Shell, text)
            };
            let left = scan(&read, &["/usr/local/cuda-11.2".into()], &BTreeSet::new()).left;
            assert_eq!(left.first(), wanted.first(), "{text}");
        }
        assert_eq!(
            scanned(Syntax::Environment, "V=11.2\nPATH=/usr/local/cuda-$V/bin\n"),
            (vec![], vec![])
        );
    }

    #[test]
    fn after_branches_a_variable_may_have_either_value() {
        const USE: &str = "export LD_LIBRARY_PATH=$CUDA_HOME/lib64:$LD_LIBRARY_PATH";
        let home = |version: &str| format!("export CUDA_HOME=/usr/local/cuda-{version}");
        for (first, second) in [("11.2", "12.4"), ("12.4", "11.2")] {
            let text = format!(
                "if a; then\n{}\nelse\n{}\nfi\n{USE}\n",
                home(first),
                home(second)
            );
            assert_eq!(scanned(Syntax::Shell, &text).1, [6], "{first}");
            let text = format!(
                "case $a in\nb)\n{}\n;;\n*)\n{}\n;;\nesac\n{USE}\n",
                home(first),
                home(second)
            );
            assert_eq!(scanned(Syntax::Shell, &text).1, [9], "{first}");
        }
        let text = format!(
            "{}\nif a &&\\\nb; then\n{}\nfi\n{USE}\n",
            home("11.2"),
            home("12.4")
        );
        assert_eq!(scanned(Syntax::Shell, &text).1, [6]);
        let closed = format!(
            "if a; then b; fi\n{}\n{}\nb\n{USE}\n",
            home("11.2"),
            home("12.4")
        );
        assert_eq!(
            scanned(Syntax::Shell, &closed).1,
            [0_usize; 0],
            "it names the other toolkit"
        );
    }

    #[test]
    fn a_variable_of_another_file_is_named() {
        const USE: &str = "# CUDA\nexport PATH=$CUDA_HOME/bin:$PATH\n";
        let gone: [PathBuf; 1] = ["/usr/local/cuda-11.2".into()];
        let environment = file(
            Syntax::Environment,
            "CUDA_HOME=/usr/local/cuda-11.2\nCUDA_PATH=/usr/local/cuda-12.4\n",
        );
        let private = PathFile {
            is_private: true,
            ..file(Syntax::Shell, "CUDADIR=/usr/local/cuda-11.2\n")
        };
        let homes = inherited(&[environment, private], &gone);
        assert_eq!(
            homes.iter().map(String::as_str).collect::<Vec<_>>(),
            ["CUDA_HOME"]
        );
        for syntax in [Some(Syntax::Shell), None] {
            let user = PathFile {
                syntax,
                ..file(Syntax::Shell, USE)
            };
            assert_eq!(
                scan(&user, &gone, &homes),
                Scanned {
                    edits: vec![],
                    left: vec![2]
                }
            );
        }
        let own = file(
            Syntax::Shell,
            &format!("CUDA_HOME=/usr/local/cuda-12.4\n{USE}"),
        );
        assert_eq!(scan(&own, &gone, &homes), Scanned::default());
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
            (
                format!("if true; then\n  {line}\nfi\n"),
                "if true; then\n  :\nfi\n",
            ),
            (format!("f() {{\n{line}\n}}\n"), "f() {\n:\n}\n"),
            (
                format!(
                    "for x in a; do\n\n  # why\n  {line}\n  export CUDA_HOME=/usr/local/cuda-11.2\ndone\n"
                ),
                "for x in a; do\n\n  # why\n  :\ndone\n",
            ),
            (
                format!("case $- in\n  *i*)\n    {line}\n    ;;\nesac\n"),
                "case $- in\n  *i*)\n    :\n    ;;\nesac\n",
            ),
            (format!("echo a\n{line}\n"), "echo a\n"),
            (
                format!("if true; then # CUDA\n{line}\nfi\n"),
                "if true; then # CUDA\n:\nfi\n",
            ),
            (
                format!("if\n{line}\nthen\necho a\nfi\n"),
                "if\n:\nthen\necho a\nfi\n",
            ),
            (
                format!("if false; then\n:\nelif\n{line}\nthen\n:\nfi\n"),
                "if false; then\n:\nelif\n:\nthen\n:\nfi\n",
            ),
            (
                format!("while\n{line}\nfalse\ndo\n:\ndone\n"),
                "while\n:\nfalse\ndo\n:\ndone\n",
            ),
        ] {
            let gone: [PathBuf; 1] = ["/usr/local/cuda-11.2".into()];
            let Scanned { edits, left } =
                scan(&file(Syntax::Shell, &text), &gone, &BTreeSet::new());
            let edited = EditFile {
                path: "/f".into(),
                owner: 0,
                edits,
            }
            .edited(&text);
            assert_eq!((edited.as_str(), left.len()), (wanted, 0));
            let ran = std::process::Command::new("/bin/sh")
                .args(["-nc", &edited])
                .status()
                .expect("sh runs");
            assert!(ran.success(), "{edited}");
        }
    }
}
