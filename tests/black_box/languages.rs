//! The languages of `gpusetup explain`: each has what English has, and nothing but explanations for
//! people is translated.

use crate::common::{Ran, Tree, program, run, run_with_input};
use gpusetup::causes::{self, xid};
use gpusetup::cli::languages;
use gpusetup::compat::XidAction;
use gpusetup::database::embedded;
use gpusetup::doctor::CHECKS;
use gpusetup::exit::EXITS;
use gpusetup::ids::{AddOnRule, CheckId, RuleId};
use gpusetup::language::{self, Texts};
use gpusetup::paths;
use gpusetup::recognise::Recognised;
use gpusetup::render::Paint;
use gpusetup::render::explain::ExplainStyle;
use gpusetup::render::explain::paste::{Explained, Logged, PasteReport, text};
use gpusetup::sum;
use gpusetup::text::columns;
use gpusetup::translation::words::WORDS;
use gpusetup_data::{error_codes, messages, subjects};
use std::path::Path;

/// All English texts that can be translated, by their places.
fn english() -> Texts {
    let database = embedded();
    let mut texts = language::english(&messages(), &subjects(), &error_codes(), &database.xids);
    let mut add =
        |place: String, text: &str| assert!(texts.insert(place, text.to_owned()).is_none());
    for cause in causes::all(gpusetup_data::causes()) {
        let id = cause.id;
        let reads = CHECKS
            .iter()
            .find(|check| check.id == id)
            .map(|check| check.reads.to_owned());
        let fields = [
            ("title", Some(id.title().to_owned())),
            ("means", Some(cause.means)),
            ("elsewhere", cause.elsewhere),
            ("reads", reads),
            ("do", cause.remedy.map(|remedy| remedy.text)),
        ];
        for (field, text) in fields {
            text.iter()
                .for_each(|text| add(format!("checks.{id}.{field}"), text));
        }
    }
    RuleId::ALL
        .iter()
        .for_each(|rule| add(format!("rules.{rule}"), rule.title()));
    AddOnRule::ALL
        .iter()
        .for_each(|rule| add(format!("add-on-rules.{rule}"), rule.title()));
    EXITS
        .iter()
        .for_each(|(exit, text)| add(format!("exits.{exit}"), text));
    paths::ALL
        .iter()
        .for_each(|(path, text)| add(format!("files.{path}"), text.trim()));
    WORDS
        .iter()
        .for_each(|word| add(format!("words.{word}"), word));
    let actions = [
        XidAction::RestartApplication,
        XidAction::ResetGpu,
        XidAction::Reboot,
        XidAction::AsLogged,
        XidAction::CheckHardware,
        XidAction::Update,
    ];
    for action in actions {
        let remedy = xid::remedy(1, action, "GPU").expect("something is to be done");
        add(
            format!("xid-actions.{}", xid::name(action).expect("it has a name")),
            &remedy.text,
        );
    }
    texts
}

#[test]
fn every_language_has_the_texts_and_placeholders_of_english() {
    let english = english();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("explain/languages");
    let mut found = 0;
    let files = std::fs::read_dir(folder)
        .expect("it is there")
        .map(|entry| entry.expect("readable").path());
    for path in files.filter(|path| path.extension().is_some_and(|end| end == "yaml")) {
        let language =
            language::parse(&std::fs::read_to_string(&path).expect("text")).expect("a language");
        let locked = path.with_extension("lock");
        let lock: String = language
            .texts
            .keys()
            .filter_map(|place| Some(line(place, english.get(place)?)))
            .collect();
        if std::env::var_os("UPDATE_TRANSLATIONS").is_some() {
            std::fs::write(&locked, &lock).expect("written");
        }
        let locked = std::fs::read_to_string(locked).unwrap_or_default();
        let stale = lock
            .lines()
            .filter(|line| !locked.lines().any(|known| known == *line));
        let stale = stale.map(|line| {
            format!(
                "{}: its English text changed since, or it is new",
                &line[SUM + 1..]
            )
        });
        let wrong = [
            language::faults(&language, &english),
            language::gaps(&language, &english),
            stale.collect(),
        ]
        .concat();
        assert!(
            wrong.is_empty(),
            "{}:\n{}",
            path.display(),
            wrong.join("\n")
        );
        let code = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .expect("a code");
        assert_eq!(languages().named(code), Some(code));
        assert_eq!(
            *languages().translation(code).texts(),
            language.texts,
            "the program has what the file has"
        );
        found += 1;
    }
    assert_eq!(found + 1, languages().known().count());
}

/// The digits of a checksum in a lock.
const SUM: usize = 8;

/// A line of a lock: which English text was translated.
fn line(place: &str, english: &str) -> String {
    format!("{} {place}\n", &sum::sha256(english)[..SUM])
}

fn in_environment(variables: &[(&str, &str)], arguments: &[&str]) -> Ran {
    let variables = variables.iter().copied();
    Ran::of(
        program()
            .envs(variables)
            .args(arguments)
            .output()
            .expect("gpusetup runs"),
    )
}

/// Variables, `--lang`, and whether that is Korean.
type Case<'a> = (&'a [(&'a str, &'a str)], Option<&'a str>, bool);

#[test]
fn the_option_comes_before_the_environment_and_that_before_the_locale() {
    const KOREAN: &str = "종료 코드 4";
    let cases: [Case; 21] = [
        (&[], None, false),
        (&[("LANG", "ko_KR.UTF-8")], None, true),
        (&[("LANG", "ko_KR.utf8")], None, true),
        (&[("LANG", "ko_KR.eucKR")], None, false),
        (&[("LANG", "ko_KR")], None, false),
        (&[("LANG", "fr_FR.UTF-8")], None, false),
        (&[("LANG", "../../etc/passwd.UTF-8")], None, false),
        (
            &[("LC_MESSAGES", "ko_KR.UTF-8"), ("LANG", "en_US.UTF-8")],
            None,
            true,
        ),
        (
            &[
                ("LC_ALL", "C"),
                ("LC_MESSAGES", "ko_KR.UTF-8"),
                ("LANG", "ko_KR.UTF-8"),
            ],
            None,
            false,
        ),
        (&[("LC_ALL", "POSIX"), ("LANG", "ko_KR.UTF-8")], None, false),
        (&[("LC_ALL", ""), ("LANG", "ko_KR.UTF-8")], None, true),
        (&[("LC_ALL", "ko_KR.UTF-8"), ("LANG", "C")], None, true),
        (&[("GPUSETUP_LANG", "ko"), ("LC_ALL", "C")], None, true),
        (
            &[("GPUSETUP_LANG", "en"), ("LANG", "ko_KR.UTF-8")],
            None,
            false,
        ),
        (
            &[("GPUSETUP_LANG", "ko"), ("LANG", "ko_KR.UTF-8")],
            Some("en"),
            false,
        ),
        (
            &[("GPUSETUP_LANG", "en"), ("LC_ALL", "C")],
            Some("ko"),
            true,
        ),
        (&[("TERM", "linux"), ("LANG", "ko_KR.UTF-8")], None, false),
        (&[("TERM", "xterm"), ("LANG", "ko_KR.UTF-8")], None, true),
        (&[("TERM", "linux"), ("LANG", "C")], Some("ko"), true),
        (&[], Some("ko_KR.UTF-8"), true),
        (&[], Some("KO-kr"), true),
    ];
    for (variables, option, is_korean) in cases {
        let mut arguments = vec!["explain", "exit", "4"];
        arguments.extend(option.iter().flat_map(|code| ["--lang", *code]));
        let ran = in_environment(variables, &arguments);
        assert_eq!(
            (ran.code, ran.out.contains(KOREAN)),
            (0, is_korean),
            "{variables:?} {option:?}: {}",
            ran.out
        );
    }
    for arguments in [
        &["--lang", "xx"][..],
        &["--lang", "-"],
        &["--lang", "\u{1b}[2J"],
    ] {
        let ran = run(&[&["explain", "exit", "4"][..], arguments].concat());
        assert!(
            ran.code == 2 && ran.err.contains("en (English), ko (한국어)"),
            "{}",
            ran.err
        );
        assert!(!ran.err.contains("\u{1b}[2J"), "{}", ran.err);
    }
    assert_eq!(
        in_environment(&[("GPUSETUP_LANG", "xx")], &["explain", "exit", "4"]).code,
        2
    );
    // An empty variable is one that is not set.
    let ran = in_environment(
        &[("GPUSETUP_LANG", ""), ("LANG", "ko_KR.UTF-8")],
        &["explain", "exit", "4"],
    );
    assert!(
        ran.code == 0 && ran.out.contains(KOREAN),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn a_locale_that_is_not_utf8_is_english() {
    use std::os::unix::ffi::OsStrExt;
    let locale = std::ffi::OsStr::from_bytes(b"ko_KR.UTF-8\xff");
    let mut command = program();
    command
        .env("LC_ALL", locale)
        .env("LANG", "ko_KR.UTF-8")
        .args(["explain", "exit", "4"]);
    let ran = Ran::of(command.output().expect("gpusetup runs"));
    assert!(
        ran.code == 0 && ran.out.starts_with("exit code 4"),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn the_config_file_sets_the_language() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("config.yaml");
    std::fs::write(&config, "lang: \"ko\"\n").expect("written");
    let config = config.display().to_string();
    let ran = run(&["--config", &config, "explain", "exit", "4"]);
    assert!(
        ran.code == 0 && ran.out.contains("종료 코드 4"),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn only_explanations_for_people_are_translated() {
    let host = Tree::ubuntu_24_04();
    let root = host.path().display().to_string();
    let log = "NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.\n";
    for arguments in [
        &["explain", "GS201", "--json"][..],
        &["explain", "driver", "--json"],
        &["explain", "xid", "79", "--json"],
        &["explain", "error", "802", "--json"],
        &["explain", log, "--json"],
        &[
            "explain",
            "Failed to initialize NVML: Driver/library version mismatch",
            "--json",
        ],
        &["explain", "cuda", "13.0", "--gpu", "v100", "--json"],
        &["explain", "banana"],
        &["plan", "--gpu", "h100"],
        &["plan", "--gpu", "h100", "--format", "sh"],
        &["doctor"],
        &["doctor", "--list-checks"],
        &["explain", "-h"],
    ] {
        let arguments: Vec<_> = match arguments {
            [.., "-h" | "--list-checks"] => arguments.to_vec(),
            _ => [arguments, &["--root", &root]].concat(),
        };
        // doctor's marks depend on the character set, and on nothing else of the locale.
        let of = |locale| in_environment(&[("LC_ALL", locale)], &arguments);
        let (plain, korean) = (of("C.UTF-8"), of("ko_KR.UTF-8"));
        assert_eq!(
            (plain.code, plain.err, plain.out),
            (korean.code, korean.err, korean.out),
            "{arguments:?}"
        );
    }
}

/// The subjects of which all texts are explain's own.
fn own_subjects() -> Vec<String> {
    let database = embedded();
    let ids = CheckId::ALL.iter().map(ToString::to_string);
    let rules = RuleId::ALL.iter().map(|rule| format!("rule {rule}"));
    let exits = EXITS.iter().map(|(exit, _)| format!("exit {exit}"));
    let terms = subjects()
        .into_iter()
        .map(|subject| subject.names[0].clone());
    let codes = error_codes()
        .into_iter()
        .map(|error| format!("{} error {}", error.api.as_str(), error.code));
    let xids = database
        .xids
        .iter()
        .map(|xid| format!("xid {}", xid.xid))
        .step_by(5);
    let files = paths::ALL.iter().map(|(path, _)| format!("file {path}"));
    // Each is a process: a part of them is enough.
    ids.chain(rules.step_by(4))
        .chain(exits)
        .chain(terms)
        .chain(codes.step_by(9))
        .chain(xids)
        .chain(files.step_by(3))
        .collect()
}

#[test]
fn korean_has_no_english_label_and_keeps_to_the_columns() {
    let hangul = |text: &str| text.contains(|c: char| ('가'..='힣').contains(&c));
    for subject in own_subjects() {
        let words: Vec<&str> = subject.split(' ').collect();
        let ran = run(&[&["explain", "--lang", "ko"][..], &words].concat());
        assert!(
            ran.code == 0 && hangul(&ran.out),
            "{subject}: {}{}",
            ran.out,
            ran.err
        );
        for line in ran.out.lines() {
            let label = line
                .get(2..)
                .filter(|_| line.starts_with("  ") && !line.starts_with("   "));
            assert!(
                !label.is_some_and(|text| WORDS
                    .iter()
                    .any(|word| text.starts_with(&format!("{word}  ")))),
                "{}",
                ran.out
            );
            // A word that is wider than the terminal stays in one piece, behind its label.
            let is_text = hangul(line) && line.split_whitespace().count() > 2;
            assert!(!is_text || columns(line) <= 80, "{subject}: {line}");
        }
    }
}

/// Every message, as a terminal of this width shows it.
#[test]
fn messages_fit_a_narrow_terminal() {
    let (language, database) = (&languages().translation("ko"), embedded());
    let mut messages = messages();
    messages
        .iter_mut()
        .for_each(|message| language.translate_message(message));
    for width in [60, 80] {
        let look = ExplainStyle {
            paint: Paint::new(false),
            verbose: false,
            width,
            language,
        };
        for message in &messages {
            let recognised = Recognised {
                message,
                line: 1,
                near: String::new(),
                is_symptom: false,
            };
            let explained = Explained::of(&recognised, "the line", &[], language);
            let logged = Logged {
                xids: Vec::new(),
                sxids: Vec::new(),
            };
            let shown = text(
                &PasteReport::new(vec![explained], Vec::new(), logged, &database, 1, language),
                look,
            );
            let commands = || {
                message
                    .causes
                    .iter()
                    .flat_map(|cause| cause.run.iter().chain(&cause.tell))
            };
            for line in shown
                .lines()
                .filter(|line| !commands().any(|command| line.ends_with(command.as_str())))
            {
                let is_one_word = line.split_whitespace().count() <= 2;
                assert!(
                    columns(line) <= width || is_one_word,
                    "{}: {line}",
                    message.id
                );
            }
            let words = |text: &str| {
                text.split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            let all = words(&shown).join(" ");
            for text in [&message.title, &message.says] {
                assert!(
                    all.contains(&words(text).join(" ")),
                    "{}: a word of `{text}` is broken",
                    message.id
                );
            }
        }
    }
}

#[test]
fn a_pasted_text_is_explained_in_korean() {
    let log = "NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.\n\
               nvidia-nvswitch3: SXid (PCI:0000:87:00.0): 22013, Fatal, Link 27 Minion Link DLREQ interrupt\n\
               FATAL: Module nvidia not found in directory /lib/modules/6.1\n\
               RuntimeError: CUDA error 700\n";
    let ran = run_with_input(
        &["explain", "-", "--lang", "ko", "--facts", "/nonexistent"],
        log,
    );
    let ran = if ran.code == 0 {
        ran
    } else {
        run_with_input(&["explain", "-", "--lang", "ko", "--gpu", "h100"], log)
    };
    for part in [
        "Xid 79, GPU",
        "SXid 22013",
        "설명",
        "원인 1",
        "확인",
        "조치",
        "CUDA 오류 700",
        "sudo gpusetup doctor --fix",
    ] {
        assert!(ran.out.contains(part), "{part}: {}{}", ran.out, ran.err);
    }
    assert!(
        !ran.out.contains("  says ") && !ran.out.contains("  do "),
        "{}",
        ran.out
    );
    let unknown = run_with_input(
        &["explain", "-", "--lang", "ko"],
        "nothing that anybody knows\n",
    );
    assert!(
        unknown.code == 0 && unknown.out.contains("인식하지 못함"),
        "{}",
        unknown.out
    );
}
