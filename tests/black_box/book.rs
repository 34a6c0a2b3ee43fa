//! README.md and the book in `docs/`: the commands that they show print what they show, and exist
//! with these options; links lead somewhere; the page of messages and the recorded terminal are
//! made from the program. `UPDATE_BOOK=1 cargo test --test black_box book::` writes what is made.

use gpusetup::message::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// README.md and the pages of the book, by their path.
fn pages() -> BTreeMap<String, String> {
    let folders = ["docs/src", "docs/src/internals", "docs/src/messages"];
    let names = folders
        .iter()
        .flat_map(|folder| {
            let entries = fs::read_dir(root().join(folder)).expect("the book");
            entries.map(move |entry| {
                format!("{folder}/{}", entry.expect("read").file_name().display())
            })
        })
        .filter(|name| name.ends_with(".md"))
        .chain(["README.md".to_owned()]);
    names
        .map(|name| {
            (
                name.clone(),
                fs::read_to_string(root().join(&name)).expect("a page"),
            )
        })
        .collect()
}

/// Compares a file with what was made; writes it first, if that is asked for.
fn must_be(file: &str, made: &str) {
    let path = root().join(file);
    if std::env::var_os("UPDATE_BOOK").is_some() {
        fs::write(&path, made).expect("written");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let differs = made
        .lines()
        .zip(written.lines())
        .find(|(made, written)| made != written);
    assert!(
        made == written,
        "{file} is not what is made now, first at {differs:#?}; UPDATE_BOOK=1 cargo test --test black_box book:: writes it"
    );
}

// The page of messages.

/// Headings of `explain/messages.yaml` that a reader finds under another one.
const UNDER: [(&str, &str); 9] = [
    ("CUDA as any program reports it", "CUDA and PyTorch"),
    ("PyTorch", "CUDA and PyTorch"),
    ("More of CUDA and PyTorch", "CUDA and PyTorch"),
    ("Extensions of PyTorch", "CUDA and PyTorch"),
    ("More of nvcc and builds", "nvcc and the linker"),
    ("More of the libraries", "cuDNN, NCCL and other libraries"),
    ("More errors of programs", "Other programs"),
    ("From other threads", "Other programs"),
    (
        "What a kept-apart set of threads showed to be missing",
        "Other programs",
    ),
];

/// The headings with their messages, in the order of the file: comments are headings.
fn headings(known: &[Message]) -> Vec<(String, Vec<&Message>)> {
    let file = fs::read_to_string(root().join("explain/messages.yaml")).expect("the messages");
    let mut all: Vec<(String, Vec<&Message>)> = Vec::new();
    let mut heading = String::new();
    for line in file.lines() {
        if let Some(comment) = line.strip_prefix("  # ") {
            heading = UNDER
                .iter()
                .find(|(from, _)| *from == comment)
                .map_or(comment, |(_, to)| to)
                .to_owned();
        }
        let Some(id) = line.strip_prefix("  - id: ") else {
            continue;
        };
        let message = known
            .iter()
            .find(|message| message.id == id)
            .expect("the build read the same file");
        match all.iter_mut().find(|(other, _)| *other == heading) {
            Some((_, messages)) => messages.push(message),
            None => all.push((heading.clone(), vec![message])),
        }
    }
    all
}

/// A page of each heading, by its file, and the page that lists them.
fn pages_of_messages() -> Vec<(String, String)> {
    const MADE: &str = "<!-- Made from explain/messages.yaml by `UPDATE_BOOK=1 cargo test --test black_box book::`. Change that file, not this one. -->";
    let known = gpusetup_data::messages();
    let mut index = format!(
        "# Error messages

{MADE}

What messages say, their likely causes, the most frequent first, and what helps. `gpusetup explain \"MESSAGE\"` prints the same for a
text that you paste, and what this host supports or contradicts:

```console
$ sudo dmesg | gpusetup explain -
```

"
    );
    let mut pages = Vec::new();
    let mut listed = 0;
    for (heading, messages) in headings(&known) {
        let name = file_name(&heading);
        let count = messages.len();
        let _ = writeln!(index, "- [{heading}](messages/{name}.md) ({count})");
        let mut page = format!("# {heading}\n\n{MADE}\n\n");
        for message in messages {
            listed += 1;
            page += &of_message(message, &known);
        }
        pages.push((
            format!("docs/src/messages/{name}.md"),
            page.trim_end().to_owned() + "\n",
        ));
    }
    assert_eq!(listed, known.len(), "every message is under a heading");
    pages.push(("docs/src/messages.md".to_owned(), index));
    pages
}

/// The name of a heading's page, without its ending.
fn file_name(heading: &str) -> String {
    let words = heading
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

fn of_message(message: &Message, known: &[Message]) -> String {
    let mut out = format!("## {}\n\n```text\n", escaped(&message.title));
    for pattern in &message.patterns {
        let _ = writeln!(out, "{}", pattern.replace('*', "…"));
    }
    let _ = writeln!(out, "```\n\n{}\n", escaped(&message.says));
    for (n, cause) in message.causes.iter().enumerate() {
        let number = if message.causes.len() > 1 {
            format!("**Cause {}.** ", n + 1)
        } else {
            "**Cause.** ".to_owned()
        };
        let _ = writeln!(out, "{number}{}\n", escaped(&cause.because));
        if let Some(tell) = &cause.tell {
            let look = cause
                .look
                .as_ref()
                .map(|look| format!(": {}", escaped(look)))
                .unwrap_or_default();
            let _ = writeln!(out, "- Check: `{tell}`{look}.");
        }
        if !cause.checks.is_empty() {
            let _ = writeln!(
                out,
                "- On a host: `gpusetup doctor {}`.",
                cause.checks.join(" ")
            );
        }
        let _ = writeln!(out, "- Do: {}", escaped(&cause.remedy));
        if !cause.run.is_empty() {
            let _ = writeln!(out, "\n  ```sh\n  {}\n  ```", cause.run.join("\n  "));
        }
        out.push('\n');
    }
    let of = |id: &String| {
        known
            .iter()
            .find(|other| other.id == *id)
            .map(|other| format!("*{}*", escaped(&other.title)))
    };
    let explained: Vec<_> = message.explained_by.iter().filter_map(of).collect();
    if !explained.is_empty() {
        let _ = writeln!(
            out,
            "A symptom only, if the text also has: {}.\n",
            explained.join("; ")
        );
    }
    out
}

/// What looks like an element of HTML stays a text.
fn escaped(text: &str) -> String {
    let mut in_code = false;
    let escape = |c: char| {
        in_code ^= c == '`';
        if c == '<' && !in_code {
            "&lt;".to_owned()
        } else {
            c.to_string()
        }
    };
    text.chars().map(escape).collect()
}

#[test]
fn the_pages_of_messages_have_what_explain_knows() {
    let pages = pages_of_messages();
    for (file, page) in &pages {
        must_be(file, page);
    }
    let folder = fs::read_dir(root().join("docs/src/messages")).expect("the pages");
    assert_eq!(folder.count() + 1, pages.len(), "there is a page too many");
}

// The recorded terminal.

#[test]
fn the_recorded_terminal_is_what_the_program_prints() {
    let made = Command::new(root().join("docs/record"))
        .arg(env!("CARGO_BIN_EXE_gpusetup"))
        .output()
        .expect("python3");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let made = String::from_utf8(made.stdout).expect("UTF-8");
    assert!(made.len() < 100_000, "{} bytes", made.len());
    must_be("docs/src/terminal.svg", &made);
}

// What the pages show.

/// The lines of code blocks that a shell runs, with what is shown below each: those after `$ ` in
/// blocks of a console.
fn transcripts(page: &str) -> Vec<Transcript<'_>> {
    let mut all: Vec<Transcript<'_>> = Vec::new();
    let mut console = None;
    for line in page.lines() {
        if let Some((indent, kind)) = line.split_once("```") {
            console = (kind == "console").then_some(indent);
        } else if let Some(indent) = console {
            let text = line.strip_prefix(indent).unwrap_or(line);
            match (text.strip_prefix("$ "), all.last_mut()) {
                (Some(command), _) => all.push(Transcript {
                    indent,
                    command,
                    shown: String::new(),
                }),
                (None, Some(last)) if !is_prompt(text) => last.shown += &format!("{line}\n"),
                _ => {}
            }
        }
    }
    all
}

/// A command in a page, and what the page shows below it, with the blanks before the block.
struct Transcript<'p> {
    indent: &'p str,
    command: &'p str,
    shown: String,
}

/// `# `, `offline$ `: a command of root, or of another host.
fn is_prompt(line: &str) -> bool {
    line.starts_with("# ")
        || line
            .split_once("$ ")
            .is_some_and(|(host, _)| host.bytes().all(|b| b.is_ascii_lowercase()))
}

#[test]
fn commands_print_what_the_pages_show() {
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(
        env!("CARGO_BIN_EXE_gpusetup"),
        folder.path().join("gpusetup"),
    )
    .expect("linked");
    let mut shown_somewhere = 0;
    for (name, page) in pages() {
        let mut made = page.clone();
        for Transcript {
            indent,
            command,
            shown,
        } in transcripts(&page)
            .into_iter()
            .filter(|t| !t.shown.is_empty())
        {
            shown_somewhere += 1;
            let ran = Command::new("bash")
                .args(["-c", &format!("{command} 2>&1")])
                .env_clear()
                .env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()))
                .envs([("LC_ALL", "C.UTF-8"), ("GPUSETUP_TODAY", "2026-11-20")])
                // `explain` looks at the host; at none, for the stock system of another one.
                .envs(
                    command
                        .starts_with("gpusetup explain")
                        .then_some(("GPUSETUP_OS", "ubuntu-24.04")),
                )
                .current_dir(folder.path())
                .stdin(Stdio::null())
                .output()
                .expect("bash");
            let printed = String::from_utf8(ran.stdout).expect("UTF-8");
            let printed: String = printed
                .lines()
                .map(|line| format!("{indent}{line}").trim_end().to_owned() + "\n")
                .collect();
            let before = format!("{indent}$ {command}\n");
            assert!(
                made.contains(&format!("{before}{shown}")),
                "{name}: {command}"
            );
            made = made.replace(&format!("{before}{shown}"), &format!("{before}{printed}"));
        }
        // Another test may write a page of which nothing changes here.
        if made != page {
            must_be(&name, &made);
        }
    }
    assert!(shown_somewhere >= 3, "README shows transcripts");
}

/// The commands of gpusetup in a page: in blocks for a shell, after the prompts of consoles, and in
/// text between backticks.
fn commands(page: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut block = None;
    for line in page.lines() {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            block = block.is_none().then_some(kind);
            continue;
        }
        let parts: Vec<&str> = match block {
            None => line.split('`').skip(1).step_by(2).collect(),
            Some("sh") => vec![line],
            Some("console") => line
                .split_once("$ ")
                .map(|(_, command)| command)
                .into_iter()
                .collect(),
            Some(_) => Vec::new(),
        };
        for part in parts {
            for piece in part.split(['|', ';']).flat_map(|piece| piece.split("&&")) {
                let piece = piece
                    .split(" # ")
                    .next()
                    .unwrap_or(piece)
                    .trim()
                    .trim_start_matches("sudo ");
                if let Some(command) = piece.strip_prefix("gpusetup ") {
                    all.insert(
                        command
                            .split(" > ")
                            .next()
                            .unwrap_or(command)
                            .trim()
                            .to_owned(),
                    );
                }
            }
        }
    }
    all
}

#[test]
fn commands_in_the_pages_exist_with_their_options() {
    let mut checked = 0;
    for (name, page) in pages() {
        for command in commands(&page) {
            // What stands for a command or a shell, and what only begins a sentence.
            let is_general = command.starts_with("COMMAND")
                || command.starts_with(|c: char| !c.is_ascii_lowercase() && c != '-');
            if is_general
                || command.ends_with("--help")
                || command.ends_with("-h")
                || command.ends_with("--version")
            {
                continue;
            }
            checked += 1;
            let ran = Command::new("bash")
                .args([
                    "-c",
                    &format!("\"$0\" {command} --help"),
                    env!("CARGO_BIN_EXE_gpusetup"),
                ])
                .env_clear()
                // The checksum of an example.
                .env("sum", "0".repeat(64))
                .stdin(Stdio::null())
                .output()
                .expect("bash");
            let err = String::from_utf8_lossy(&ran.stderr);
            // `gpusetup plan --out` in a sentence only names the option.
            let is_named = err.contains("a value is required for");
            assert!(
                ran.status.success() || is_named,
                "{name}: gpusetup {command}: {err}"
            );
        }
    }
    assert!(checked > 60, "{checked}");
}

#[test]
fn links_lead_somewhere() {
    let pages = pages();
    let anchors = |page: &str| -> BTreeSet<String> {
        let headings = page
            .lines()
            .filter(|line| line.starts_with('#'))
            .map(|line| line.trim_start_matches('#').trim());
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let written = page
            .split("<a id=\"")
            .skip(1)
            .filter_map(|rest| rest.split_once('"'))
            .map(|(id, _)| id.to_owned());
        written
            .chain(headings.map(|h| {
                h.to_lowercase()
                    .chars()
                    .filter(kept)
                    .map(|c| if c == ' ' { '-' } else { c })
                    .collect()
            }))
            .collect()
    };
    for (name, page) in &pages {
        let folder = Path::new(name).parent().expect("it is in a folder");
        for target in page
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
            .map(|(target, _)| target)
        {
            if target.contains("://") {
                continue;
            }
            let (file, anchor) = target
                .split_once('#')
                .map_or((target, None), |(file, anchor)| (file, Some(anchor)));
            let path = if file.is_empty() {
                PathBuf::from(name)
            } else {
                folder.join(file)
            };
            assert!(root().join(&path).exists(), "{name}: {target}");
            if let Some(anchor) = anchor {
                let text = fs::read_to_string(root().join(&path)).expect("a page");
                assert!(anchors(&text).contains(anchor), "{name}: {target}");
            }
        }
    }
    let summary = &pages["docs/src/SUMMARY.md"];
    for name in pages
        .keys()
        .filter_map(|name| name.strip_prefix("docs/src/"))
        .filter(|name| *name != "SUMMARY.md")
    {
        assert!(
            summary.contains(&format!("]({name})")),
            "docs/src/SUMMARY.md lacks {name}"
        );
    }
}

#[test]
fn pictures_are_there_and_small() {
    // Only a browser makes them, which tests do not have: `docs/screenshots`.
    for picture in [
        "matrix-light.png",
        "matrix-phone.png",
        "doctor-light.png",
        "doctor-dark.png",
    ] {
        let size = fs::metadata(root().join("docs/src").join(picture)).map_or(0, |meta| meta.len());
        assert!(
            (1_000..150_000).contains(&size),
            "docs/src/{picture} has {size} bytes; docs/screenshots makes it"
        );
    }
}
