//! Which lines of a shell script can be read alone.

use std::collections::VecDeque;

/// A quote that is open.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Quote {
    #[default]
    None,
    Single,
    Double,
    Dollar,
}

/// What is open where a line ends.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Open {
    quote: Quote,
    /// How many `${` have no `}` yet.
    expansions: usize,
    /// The next line continues this one.
    continues: bool,
}

/// What ends a here-document.
struct Mark {
    word: String,
    /// `<<-`: tabs before it do not count.
    after_tabs: bool,
}

/// For each line, whether it is whole: in no quotes and no `${` that another line opens or closes,
/// in no here-document, and not continued. What is opened and never closed leaves no line behind it
/// whole.
pub(crate) fn whole_lines(script: &str) -> Vec<bool> {
    let mut open = Open::default();
    let mut marks = VecDeque::new();
    let lines = script.lines().map(|line| {
        if let Some(Mark { word, after_tabs }) = marks.front() {
            let bare = if *after_tabs {
                line.trim_start_matches('\t')
            } else {
                line
            };
            if bare == word {
                marks.pop_front();
            }
            return false;
        }
        let starts = open == Open::default();
        open = read(line, open, &mut marks);
        starts && open == Open::default()
    });
    lines.collect()
}

/// Reads a line: what is open at its end, if this is at its start.
fn read(line: &str, at_start: Open, marks: &mut VecDeque<Mark>) -> Open {
    let mut open = Open {
        continues: false,
        ..at_start
    };
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let before = &line[..line.len() - rest.len()];
        rest = &rest[c.len_utf8()..];
        match (open.quote, c) {
            (Quote::None | Quote::Double | Quote::Dollar, '\\') => match rest.chars().next() {
                None => {
                    return Open {
                        continues: true,
                        ..open
                    };
                }
                Some(next) => rest = &rest[next.len_utf8()..],
            },
            (Quote::None | Quote::Double, '$') if rest.starts_with('{') => {
                open.expansions += 1;
                rest = &rest[1..];
            }
            (Quote::None | Quote::Double, '}') => {
                open.expansions = open.expansions.saturating_sub(1)
            }
            (Quote::None, '#') if open.expansions == 0 && starts_word(before) => break,
            (Quote::None, '\'' | '"') => open.quote = opened_by(c, before),
            (Quote::Single | Quote::Dollar, '\'') | (Quote::Double, '"') => {
                open.quote = Quote::None
            }
            (Quote::None, '<') if rest.starts_with("<<") => rest = &rest[2..],
            (Quote::None, '<') if rest.starts_with('<') => rest = mark(&rest[1..], marks),
            // In quotes, only a command that they hold has one.
            (Quote::Double, '<') if rest.starts_with('<') && before.contains("$(") => {
                rest = mark(&rest[1..], marks)
            }
            _ => {}
        }
    }
    open
}

fn opened_by(mark: char, before: &str) -> Quote {
    match mark {
        '"' => Quote::Double,
        _ if before.ends_with('$') => Quote::Dollar,
        _ => Quote::Single,
    }
}

/// Whether a word starts behind this, which with a `#` is a comment.
fn starts_word(before: &str) -> bool {
    before.is_empty() || before.ends_with([' ', '\t', ';', '('])
}

/// Reads the mark behind `<<`, and returns what follows it.
fn mark<'l>(rest: &'l str, marks: &mut VecDeque<Mark>) -> &'l str {
    let after_tabs = rest.starts_with('-');
    let rest = rest[usize::from(after_tabs)..].trim_start();
    let (mut quote, mut word) = (None, String::new());
    let mut end = rest.len();
    for (at, c) in rest.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '\\') => {}
            (None, c) if c.is_whitespace() || ";&|<>()".contains(c) => {
                end = at;
                break;
            }
            _ => word.push(c),
        }
    }
    marks.push_back(Mark { word, after_tabs });
    &rest[end..]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the script that are whole.
    fn whole(script: &str) -> Vec<&str> {
        script
            .lines()
            .zip(whole_lines(script))
            .filter_map(|(line, is_whole)| is_whole.then_some(line))
            .collect()
    }

    #[test]
    fn what_another_line_opens_is_not_whole() {
        for (script, wanted) in [
            ("a\nb 'x y' \"z\"\n", &["a", "b 'x y' \"z\""][..]),
            ("a='1\nb\n2'\nc\n", &["c"]),
            ("a=\"1\nit's\n2\"\nc\n", &["c"]),
            ("a=$'it\\'s'\nc\n", &["a=$'it\\'s'", "c"]),
            ("a \\\nb\nc\n", &["c"]),
            ("a \\\\\nb\n", &["a \\\\", "b"]),
            (
                "# it's\nx=${#a} # don't\nc\n",
                &["# it's", "x=${#a} # don't", "c"],
            ),
            ("cat <<EOF\nb\nEOF\nc\n", &["cat <<EOF", "c"]),
            ("cat <<-'E F' >x\nb\n\tE F\nc\n", &["cat <<-'E F' >x", "c"]),
            ("cat <<E\nb\n\tE\nc\n", &["cat <<E"]),
            (
                "cat <<-\"EOF\" >x\nb\n\tEOF\nc\n",
                &["cat <<-\"EOF\" >x", "c"],
            ),
            ("cat <<A <<B\nit's\nA\nb\nB\nc\n", &["cat <<A <<B", "c"]),
            ("cat <<< \"a\"\nc\n", &["cat <<< \"a\"", "c"]),
            ("echo \"1 << 2\"\nc\n", &["echo \"1 << 2\"", "c"]),
            ("x=${y:-\nb\n}\nc\n", &["c"]),
            (
                "x=\"${y:-a # b}\"\nz=${y:-\"${w}\"} # }\nc\n",
                &["x=\"${y:-a # b}\"", "z=${y:-\"${w}\"} # }", "c"],
            ),
            ("f() {\nb\n}\n", &["f() {", "b", "}"]),
            ("x=\"$(cat <<EOF\nb\nEOF\n)\"\nc\n", &["c"]),
            ("cat <<EOF\nnever ends\n", &["cat <<EOF"]),
            ("a='never ends\nb\n", &[]),
        ] {
            assert_eq!(whole(script), wanted, "{script}");
        }
    }
}
