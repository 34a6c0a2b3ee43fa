//! Command lines of every quoting, given to `sh` and `bash`: what `container translate` prints runs
//! no command that the line itself does not run, and gives the program the same words but for the
//! request for GPUs.

use gpusetup::container::{Form, translate};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// A generator of numbers that is the same everywhere (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// Lines in which each command `mark` has a different number.
struct Lines {
    random: Random,
    marks: usize,
}

impl Lines {
    fn line(&mut self) -> String {
        self.marks = 0;
        let prefixes = [
            "NV_GPU=0 ",
            "NV_GPU=1,2 ",
            "sudo ",
            "sudo -E ",
            "A=1 ",
            "'NV_GPU=0' ",
            "$ ",
            "# ",
            "\n",
            "\t",
            "# c\n",
        ];
        let mut line = if self.random.one_in(4) {
            self.random.of(&prefixes).to_owned()
        } else {
            String::new()
        };
        let programs = [
            "'docker'",
            "d\\ocker",
            "doc\\\nker",
            "docker\r",
            "nvidia-docker",
            "nvidia-docker",
            "\"podman\"",
        ];
        line += if self.random.one_in(4) {
            self.random.of(&programs)
        } else {
            self.random.of(&["docker", "podman"])
        };
        self.separate(&mut line);
        line += self.random.of(&[
            "run",
            "run",
            "run",
            "create",
            "container run",
            "\"run\"",
            "r\\un",
        ]);
        let (count, gpus) = (self.random.below(5), self.random.below(4));
        for at in 0..count.max(gpus + 1) {
            self.separate(&mut line);
            line += &if at == gpus {
                self.request()
            } else {
                self.option()
            };
        }
        self.separate(&mut line);
        let images = [
            "img",
            "img",
            "nvidia/cuda:12.4.1-base",
            "ghcr.io/x/y@sha256:ab12",
            "'img'",
            "-- img",
        ];
        line += &if self.random.one_in(8) {
            self.word(2)
        } else {
            self.random.of(&images).to_owned()
        };
        for _ in 0..self.random.below(4) {
            self.separate(&mut line);
            line += &self.word(2);
        }
        if self.random.one_in(8) {
            let mark = self.mark();
            let ends = [
                "\n", "\r\n", "\r", " \\", " # c", "#c", " # c\n", "\\\n", " &", "\n\n",
            ];
            let ends_with_mark = [
                " ;", ";", "\n", " &&", " |", " & ", "\r\n", "\\\r\n", " # ", " \\\n# ", " > f ",
                "\n# c\n", "$(#\n",
            ];
            line += &match self.random.one_in(2) {
                true => self.random.of(&ends).to_owned(),
                false => format!("{} {mark}", self.random.of(&ends_with_mark)),
            };
        }
        line
    }

    fn mark(&mut self) -> String {
        self.marks += 1;
        format!("mark {}", self.marks)
    }

    fn separate(&mut self, line: &mut String) {
        let rare = [
            "\t",
            "  ",
            " \\\n",
            "\\\n",
            " \\\n\\\n ",
            " \\ \n",
            "\\\r\n",
            " \\\r\n ",
            "\r",
            "\n",
            "\u{a0}",
            ";",
            "#",
            " #",
            "$\\\n",
        ];
        *line += if self.random.one_in(40) {
            self.random.of(&rare)
        } else {
            " "
        };
    }

    fn request(&mut self) -> String {
        let requests = [
            "--gpus all",
            "--gpus=2",
            "--gpus '\"device=0,1\"'",
            "--gpus \"device=0\"",
            "--gpus 0",
            "--g'pu's all",
            "--gpus=\"all\"",
            "--runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=0",
            "--runtime nvidia",
            "--device nvidia.com/gpu=0",
            "--device='nvidia.com/gpu=all'",
            "-e NVIDIA_VISIBLE_DEVICES=1 --runtime=nvidia",
            "-itdeNVIDIA_VISIBLE_DEVICES=1 --runtime=nvidia",
            "--gpus $x",
            "--gpus 'all,capabilities=utility'",
        ];
        self.random.of(&requests).to_owned()
    }

    fn option(&mut self) -> String {
        match self.random.below(12) {
            0..=2 => self
                .random
                .of(&[
                    "-it",
                    "--rm",
                    "-d",
                    "--init",
                    "-i=false",
                    "--rm=true",
                    "-",
                    "--",
                    "--replace",
                ])
                .to_owned(),
            3 => format!("--name={}", self.word(1)),
            4..=6 => format!(
                "-e A{}={}",
                self.random.of(&[
                    "",
                    "",
                    "",
                    "_1",
                    "_2",
                    "B",
                    "';x'",
                    "';$(mark 99);'",
                    ";x",
                    "$"
                ]),
                self.word(2)
            ),
            7 => format!("-e {}", self.word(2)),
            8..=10 => format!(
                "{} {}",
                self.random.of(&["--link", "-v", "-w", "--name", "-itv"]),
                self.word(2)
            ),
            _ => self.word(2),
        }
    }

    fn word(&mut self, depth: usize) -> String {
        (0..=self.random.below(3))
            .map(|_| self.piece(depth))
            .collect()
    }

    fn piece(&mut self, depth: usize) -> String {
        let plain = [
            "a", "b=c", "x:y", "/a:/b", "-v", "9", "é", "’", "“x”", "…", "\u{a0}", "=", ",", "@",
            "%", "^", "}", "]", "a.b", "--x", "#", "+", "日本",
        ];
        let escaped = [
            "\\ ", "\\\\", "\\'", "\\\"", "\\$", "\\`", "\\;", "\\#", "\\\n", "\\a", "\\(", "\\\t",
            "\\!", "\\~",
        ];
        match self.random.below(if depth == 0 { 13 } else { 27 }) {
            0..=9 => self.random.of(&plain).to_owned(),
            10..=12 => self.random.of(&escaped).to_owned(),
            13..=18 => format!("'{}'", self.inner(depth - 1).replace('\'', "")),
            19..=23 => {
                let inner = self.inner(depth - 1);
                format!("\"{inner}\"")
            }
            24 => format!("$'{}'", self.inner(depth - 1)),
            25 => self.expansion(depth - 1),
            _ => self
                .random
                .of(&[
                    "*", "?", "[a]", "{a,b}", "~", "!", "!!", "$x", "$1", "${x}", "$", "$$",
                    "$\"a\"", "$[1]", "{", "<f", "(", ")", "2>f",
                ])
                .to_owned(),
        }
    }

    /// What is inside of quotes.
    fn inner(&mut self, depth: usize) -> String {
        let mut inner = String::new();
        for _ in 0..self.random.below(5) {
            let (mark, other) = (self.mark(), self.mark());
            inner += &match self.random.below(26) {
                0..=13 => self
                    .random
                    .of(&[
                        "a",
                        " ",
                        "é",
                        "-x",
                        "--gpus all",
                        " b ",
                        "’",
                        "=",
                        "\t",
                        "$",
                    ])
                    .to_owned(),
                14 => "\\'".to_owned(),
                15 => "\\\"".to_owned(),
                16 => self
                    .random
                    .of(&[
                        "\\", "\\\\", "\\$", "\\`", "\\a", "\\\n", "\n", "\r", "!", "\\!",
                        "$\\\n(a)",
                    ])
                    .to_owned(),
                17 => format!(";{mark};"),
                18 => format!(" $({mark}) "),
                19 => format!("`{mark}`"),
                20 => format!("'; {mark}; '"),
                21 => format!("$({mark} ')' $({other}) ')' )"),
                22 => format!("\"; {mark}; \""),
                23 => format!("${{x:-$({mark})}}"),
                24 => self
                    .random
                    .of(&["(", ")", "#", "$x", "${x}", "&", "|", ">"])
                    .to_owned(),
                _ if depth > 0 => self.expansion(depth - 1),
                _ => format!("\n{mark}\n"),
            };
        }
        inner
    }

    fn expansion(&mut self, depth: usize) -> String {
        let (mark, inner) = (
            self.mark(),
            if depth > 0 {
                self.word(depth - 1)
            } else {
                String::new()
            },
        );
        match self.random.below(9) {
            0 => format!("$({mark})"),
            1 => format!("$({mark} {inner})"),
            2 => format!("$({mark} ')' ; {})", self.mark()),
            3 => format!("$({mark} # ')'\n)"),
            4 => format!("`{mark} {inner}`"),
            5 => format!("`{mark} \\`{}\\``", self.mark()),
            6 => format!("${{x:-{inner}}}"),
            7 => format!("${{x:-$({mark})}}"),
            _ => format!("$(( 1 + $({mark}) ))"),
        }
    }
}

/// What a shell did with a text: the marks, and the words of each program.
#[derive(Debug, Default, Clone)]
struct Did {
    marks: Vec<String>,
    programs: Vec<Vec<String>>,
}

const PROGRAMS: [&str; 4] = ["docker", "podman", "sudo", "nvidia-docker"];

/// Runs texts one after another in one shell, which has no commands but these and its own.
fn run_all(shell: &str, texts: &[String]) -> Vec<Did> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let mut script = format!(
        "exec 3>{}\nmark() {{ printf 'M%s\\0' \"$*\" >&3; }}\n",
        path("log").display()
    );
    for program in PROGRAMS {
        // Not every shell has functions of this name.
        let body =
            format!("printf 'P%s\\0' {program} >&3; for w; do printf 'W%s\\0' \"$w\" >&3; done");
        if program.contains('-') {
            fs::create_dir_all(path("bin")).expect("made");
            fs::write(path("bin").join(program), format!("#!/bin/sh\n{body}\n")).expect("written");
            fs::set_permissions(path("bin").join(program), fs::Permissions::from_mode(0o755))
                .expect("executable");
        } else {
            let _ = writeln!(script, "{program}() {{ {body}; }}");
        }
    }
    for (at, text) in texts.iter().enumerate() {
        let _ = writeln!(
            script,
            "printf 'T%d\\0' {at} >&3; {}",
            isolated(&text.replace('\'', "'\\''"))
        );
    }
    script += "printf 'E\\0' >&3\n";
    fs::write(path("script"), script).expect("written");
    fs::create_dir(path("work")).expect("made");
    let shell = ["/bin", "/usr/bin"]
        .map(|folder| format!("{folder}/{shell}"))
        .into_iter()
        .find(|path| fs::metadata(path).is_ok());
    let status = Command::new(shell.expect("the shell"))
        .arg(path("script"))
        .current_dir(path("work"))
        .env_clear()
        .env("PATH", path("bin"))
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.expect("the shell");
    let log = fs::read(path("log")).expect("a log");
    let mut all = vec![Did::default(); texts.len()];
    let (mut at, mut has_ended) = (0, false);
    for record in log
        .split(|byte| *byte == 0)
        .filter(|record| !record.is_empty())
    {
        let text = String::from_utf8_lossy(&record[1..]).into_owned();
        match record[0] {
            b'T' => at = text.parse().expect("a number"),
            b'M' => all[at].marks.push(text),
            b'P' => all[at].programs.push(vec![text]),
            b'W' => all[at].programs.last_mut().expect("a program").push(text),
            _ => has_ended = true,
        }
    }
    assert!(has_ended, "the shell stopped at {:?}", texts[at]);
    all
}

/// The words without the program and the request for GPUs.
fn without_request(words: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut words = words.iter().map(String::as_str).peekable();
    let mut has_program = false;
    let is_request = |value: &str| {
        value.starts_with("NVIDIA_VISIBLE_DEVICES=")
            || value.starts_with("NVIDIA_DRIVER_CAPABILITIES=")
    };
    while let Some(word) = words.next() {
        let next = words.peek().copied().unwrap_or_default();
        match word {
            "docker" | "podman" | "nvidia-docker" if !has_program => has_program = true,
            _ if word.starts_with("NV_GPU=") && !has_program => {}
            "--gpus" => drop(words.next()),
            "--runtime" if next == "nvidia" => drop(words.next()),
            "--device" if next.starts_with("nvidia.com/gpu=") => drop(words.next()),
            "-e" if is_request(next) => drop(words.next()),
            "--runtime=nvidia" => {}
            _ if word.starts_with("--gpus=") || word.starts_with("--device=nvidia.com/gpu=") => {}
            _ => match word
                .split_once('e')
                .filter(|(_, value)| word.starts_with('-') && is_request(value))
            {
                Some((short, _)) => kept.extend((short != "-").then(|| short.to_owned())),
                None => kept.push(word.to_owned()),
            },
        }
    }
    kept
}

/// What is wrong with the outputs of so many lines, by kind; and how many lines became a whole
/// command.
fn compared(count: usize, seed: u64) -> (BTreeMap<&'static str, Vec<String>>, usize) {
    let mut lines = Lines {
        random: Random(seed),
        marks: 0,
    };
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for at in 0..count {
        let line = lines.line();
        if let Some(output) = printed(&line, at) {
            inputs.push(line);
            outputs.push(output);
        }
    }
    let mut wrong: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for shell in ["sh", "bash"] {
        let (by_line, by_output) = (run_all(shell, &inputs), run_all(shell, &outputs));
        for (((input, output), did), does) in
            inputs.iter().zip(&outputs).zip(&by_line).zip(&by_output)
        {
            let mut say = |what| {
                wrong
                    .entry(what)
                    .or_default()
                    .push(format!("{shell}: {input:?} -> {output:?}"))
            };
            if does.marks.iter().any(|mark| !did.marks.contains(mark)) {
                say("a command runs that the line does not run");
            }
            let words = |did: &Did| {
                did.programs
                    .iter()
                    .map(|words| without_request(words))
                    .collect::<Vec<_>>()
            };
            if words(did) != words(does) || does.programs.len() != 1 {
                say("the program gets other words");
            }
        }
    }
    (wrong, inputs.len())
}

fn hold(count: usize, seed: u64) {
    let (wrong, whole) = compared(count, seed);
    let shown = wrong.iter().map(|(kind, all)| {
        format!(
            "{kind}: {} times, as in\n{}",
            all.len(),
            all[..all.len().min(5)].join("\n")
        )
    });
    assert!(wrong.is_empty(), "{}", shown.collect::<Vec<_>>().join("\n"));
    println!("{whole} of {count} lines became whole commands");
    assert!(
        whole > count / 20,
        "only {whole} of {count} lines became whole commands"
    );
}

#[test]
fn shells_read_the_output_as_the_line() {
    hold(3_000, 0x6770_7573_6574_7570);
}

/// The same with more lines than an ordinary run has time for.
#[test]
#[ignore = "takes more time than an ordinary run has"]
fn shells_read_the_output_as_the_line_100_000_times() {
    hold(100_000, 0x0074_7261_6e73_6c61);
}

/// How a shell runs a text, in single quotes. What became a whole command is one that ends no
/// shell.
fn isolated(text: &str) -> String {
    format!("eval '{text}'")
}

/// The whole command that is printed in one of the forms, if one is. The request alone has no
/// character of the line.
fn printed(line: &str, at: usize) -> Option<String> {
    let form = [Form::Docker, Form::Runtime, Form::Cdi, Form::Podman][at % 4];
    let translated = translate(line, &[form]).ok()?;
    let text = translated.forms[0].text.clone()?;
    let is_option = |c: char| c.is_ascii_alphanumeric() || " -=,./:_'\"".contains(c);
    assert!(
        translated.request_only.is_none() || text.chars().all(is_option),
        "{line:?} -> {text:?}"
    );
    translated.request_only.is_none().then_some(text)
}
