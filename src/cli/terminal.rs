//! What the terminal can show: colours, columns, letters outside of ASCII, links.

use super::options::ColorOption;
use crate::render::Paint;
use crate::system::{System, environment};
use crate::text::{link, wrapped};
use std::borrow::Cow;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::Path;

/// Colours for standard output.
pub(crate) fn paint(color: ColorOption) -> Paint {
    Paint::new(match color {
        ColorOption::Always => true,
        ColorOption::Never => false,
        ColorOption::Auto => std::io::stdout().is_terminal() && is_colourful(environment::variable),
    })
}

/// Whether a terminal with these variables gets colours.
fn is_colourful(variable: impl Fn(&str) -> Option<String>) -> bool {
    variable("NO_COLOR").is_none_or(|value| value.is_empty())
        && variable("TERM").is_none_or(|term| term != "dumb")
}

/// The narrowest and the widest output.
const MIN_WIDTH: usize = 40;
const MAX_WIDTH: usize = 200;
/// Longer lines are hard to read; who wants them says so in `COLUMNS`.
const COMFORTABLE: usize = 120;

/// Columns to fill: as `COLUMNS` says, else the terminal's, else 80.
pub(crate) fn width() -> usize {
    width_of(std::io::stdout())
}

/// Columns that a table must keep to: on a terminal, or if `COLUMNS` says how wide it is. Programs
/// get whole rows.
pub(crate) fn limit() -> Option<usize> {
    is_read(std::io::stdout()).then(width)
}

/// Whether somebody reads an output: on a terminal, or where `COLUMNS` is set.
fn is_read(output: impl IsTerminal) -> bool {
    output.is_terminal() || environment::variable("COLUMNS").is_some()
}

fn width_of(terminal: impl AsFd) -> usize {
    let from_environment = environment::variable("COLUMNS")
        .and_then(|text| text.trim().parse::<usize>().ok())
        .filter(|n| *n > 0);
    if let Some(columns) = from_environment {
        return columns.clamp(MIN_WIDTH, MAX_WIDTH);
    }
    let columns = rustix::termios::tcgetwinsize(terminal).map_or(0, |size| size.ws_col);
    if columns == 0 {
        80
    } else {
        usize::from(columns).clamp(MIN_WIDTH, COMFORTABLE)
    }
}

/// A line for standard error, broken between words if somebody reads it: on a terminal, or if
/// `COLUMNS` says how wide it is. Programs get whole lines, and texts of several lines are arranged
/// already.
pub(crate) fn filled(line: &str) -> Cow<'_, str> {
    if !is_read(std::io::stderr()) || line.contains('\n') {
        Cow::Borrowed(line)
    } else {
        wrapped("", line, width_of(std::io::stderr()))
            .trim_end()
            .to_owned()
            .into()
    }
}

/// The text with its addresses as links, where standard output is a terminal that knows links; so
/// are the files that it names, if it is about this host.
pub(crate) fn with_links(text: String, color: ColorOption, is_about_this_host: bool) -> String {
    let knows_links = std::io::stdout().is_terminal()
        && !matches!(color, ColorOption::Never)
        && is_colourful(environment::variable)
        && has_links(environment::variable);
    if !knows_links {
        return text;
    }
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let system = System::live();
    link::linked(&text, &|path| {
        let is_there = is_about_this_host && system.exists(Path::new(path));
        is_there.then(|| link::of_file(&name, path))
    })
}

/// Terminals that show links (OSC 8), by TERM_PROGRAM.
const PROGRAMS: [&str; 7] = [
    "Hyper",
    "iTerm.app",
    "terminology",
    "WezTerm",
    "vscode",
    "ghostty",
    "zed",
];
const TERMS: [&str; 5] = [
    "xterm-kitty",
    "xterm-ghostty",
    "alacritty",
    "alacritty-direct",
    "foot",
];
/// By a variable that they set.
const MARKS: [&str; 4] = [
    "DOMTERM",
    "WT_SESSION",
    "KONSOLE_VERSION",
    "KITTY_WINDOW_ID",
];
/// VTE 0.50.0 crashed on links.
const FIRST_VTE: u32 = 5001;

/// Whether a terminal with these variables is known to show links. `FORCE_HYPERLINK` decides for
/// those that are not known.
fn has_links(variable: impl Fn(&str) -> Option<String>) -> bool {
    if variable("CI").is_some_and(|value| !value.is_empty()) {
        return false;
    }
    if let Some(forced) = variable("FORCE_HYPERLINK") {
        return !["", "0", "false"].contains(&forced.trim());
    }
    let term = variable("TERM").unwrap_or_default();
    // These pass on variables of the terminal around them, and links only since newer versions.
    if term.starts_with("screen") || term.starts_with("tmux") {
        return false;
    }
    let vte = variable("VTE_VERSION").and_then(|version| version.parse::<u32>().ok());
    vte.is_some_and(|version| version >= FIRST_VTE)
        || variable("TERM_PROGRAM").is_some_and(|program| PROGRAMS.contains(&&*program))
        || TERMS.contains(&&*term)
        || variable("COLORTERM").is_some_and(|color| color == "xfce4-terminal")
        || MARKS.iter().any(|mark| variable(mark).is_some())
}

#[cfg(test)]
mod tests {
    use super::super::locale::set;
    use super::*;

    #[test]
    fn links_are_for_terminals_that_are_known_to_show_them() {
        for (variables, shows) in [
            (&[][..], false),
            (&[("TERM", "xterm-256color")], false),
            (&[("VTE_VERSION", "6800")], true),
            (&[("VTE_VERSION", "5000")], false),
            (&[("VTE_VERSION", "new")], false),
            (&[("TERM_PROGRAM", "vscode")], true),
            (&[("TERM_PROGRAM", "Apple_Terminal")], false),
            (&[("KITTY_WINDOW_ID", "1")], true),
            (&[("WT_SESSION", "x")], true),
            (&[("WT_SESSION", "x"), ("CI", "true")], false),
            (&[("VTE_VERSION", "6800"), ("TERM", "tmux-256color")], false),
            (&[("VTE_VERSION", "6800"), ("FORCE_HYPERLINK", "0")], false),
            (&[("FORCE_HYPERLINK", "1")], true),
            (&[("FORCE_HYPERLINK", "1"), ("CI", "1")], false),
        ] {
            assert_eq!(has_links(set(variables)), shows, "{variables:?}");
        }
    }

    #[test]
    fn a_terminal_that_wants_no_colours_gets_none() {
        for (variables, colourful) in [
            (&[][..], true),
            (&[("NO_COLOR", "")], true),
            (&[("NO_COLOR", "0")], false),
            (&[("TERM", "dumb")], false),
            (&[("TERM", "xterm")], true),
        ] {
            assert_eq!(is_colourful(set(variables)), colourful, "{variables:?}");
        }
    }
}
