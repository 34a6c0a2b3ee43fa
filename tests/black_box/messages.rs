//! What `explain -` recognises: real messages by their causes, and nothing in texts of other
//! things.

use crate::common::{Tree, run_with_input, text};
use gpusetup::doctor::{sxids, xids};
use gpusetup::ids::CheckId;
use gpusetup::recognise::{Recogniser, named_errors};
use gpusetup_data::{error_codes, messages as known, subjects};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Samples {
    samples: Vec<Sample>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    /// The thread that it is from, or what it is.
    source: String,
    /// Ids of the messages that are not symptoms.
    expect: Vec<String>,
    text: String,
}

fn samples(text: &str) -> Vec<Sample> {
    serde_yaml::from_str::<Samples>(text)
        .expect("samples")
        .samples
}

#[test]
fn each_sample_is_recognised_as_what_it_is() {
    let messages = known();
    let recogniser = Recogniser::new(&messages).expect("an automaton");
    let known_samples = samples(include_str!("../messages/known.yaml"));
    let unrelated = samples(include_str!("../messages/unrelated.yaml"));
    for Sample {
        source,
        expect,
        text,
    } in known_samples.iter().chain(&unrelated)
    {
        let found = recogniser.find(text);
        let mut roots: Vec<_> = found
            .iter()
            .filter(|r| !r.is_symptom)
            .map(|r| r.message.id.as_str())
            .collect();
        let mut expect: Vec<_> = expect.iter().map(String::as_str).collect();
        roots.sort_unstable();
        expect.sort_unstable();
        assert_eq!(roots, expect, "{source}:\n{text}");
    }
    for message in &messages {
        assert!(
            known_samples.iter().any(|s| s.expect.contains(&message.id)),
            "{} has no sample",
            message.id
        );
    }
}

#[test]
fn every_check_and_command_of_a_cause_exists() {
    for message in known() {
        for cause in &message.causes {
            for id in &cause.checks {
                assert!(
                    id.parse::<CheckId>().is_ok(),
                    "{}: there is no check {id}",
                    message.id
                );
            }
            assert!(
                message.causes.len() == 1 || cause.tell.is_some(),
                "{}: nothing tells its causes apart",
                message.id
            );
        }
    }
    assert!(!subjects().is_empty());
}

#[test]
fn errors_of_one_gpu_have_one_remedy() {
    let of =
        |gpu: &str, number: u16| format!("NVRM: Xid (PCI:0000:{gpu}:00): {number}, pid=1, x\n");
    let log = [of("65", 63), of("65", 48), of("65", 94), of("66", 94)].concat();
    let xids =
        run_with_input(&["explain", "-", "--gpu", "h100", "--json"], &log).json()["xids"].take();
    let remedies: Vec<_> = xids
        .as_array()
        .expect("Xids")
        .iter()
        .map(|xid| text(xid, "/do"))
        .collect();
    let covered = "what helps against Xid 48 of this GPU helps against this, too";
    assert_eq!([remedies[0], remedies[2]], [covered; 2]);
    assert!(
        remedies[1].contains("then reset it") && remedies[3].contains("restart the program"),
        "{remedies:?}"
    );
}

#[test]
fn a_pasted_text_is_explained() {
    let log = "[1.0] NVRM: Xid (PCI:0000:65:00): 79, pid=1, GPU has fallen off the bus.\n\
               \x1b[31mmodprobe: ERROR: could not insert 'nvidia': Key was rejected by service\x1b[0m\n\
               NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n";
    let ran = run_with_input(&["explain", "-", "--gpu", "h100"], log);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for part in [
        "Xid 79",
        "The kernel refuses the signature of the nvidia module",
        "\n  > modprobe: ERROR",
        "mokutil --test-key",
        "Follows from that: nvidia-smi",
    ] {
        assert!(ran.out.contains(part), "{part} is missing:\n{}", ran.out);
    }
    assert!(
        !ran.out.contains('\x1b'),
        "nothing of the text reaches the terminal raw: {}",
        ran.out
    );
    assert!(
        ran.out.lines().all(|l| l.chars().count() <= 80),
        "{}",
        ran.out
    );
    let json = run_with_input(&["explain", "-", "--gpu", "h100", "--json"], log).json();
    assert_eq!(
        (
            json["messages"][0]["id"].as_str(),
            json["xids"][0]["xid"].as_u64()
        ),
        (Some("module-signature-refused"), Some(79))
    );
    let none = run_with_input(&["explain", "-"], "everything is fine\n");
    assert!(
        none.code == 0 && none.out.starts_with("Not recognised"),
        "{}",
        none.out
    );
    assert_eq!(
        run_with_input(&["explain", "-", "--json"], "fine\n").json()["recognised"],
        false
    );
}

#[test]
fn a_log_need_not_be_utf_8() {
    let tree = Tree::debian_12();
    let file = tree.path().join("log.txt");
    std::fs::write(&file, b"\xff\xfe CUDA_ERROR_NO_DEVICE \xe2\x28\n").expect("written");
    let ran = tree.run(&["explain", &file.to_string_lossy()]);
    assert!(
        ran.code == 0 && ran.out.contains("CUDA error 100"),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn errors_that_a_text_names_are_explained() {
    let log = "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED\nncclSuccess, cudaErrorNoDeviceX and cudaErrorIllegalState\n";
    let json = run_with_input(&["explain", "-", "--gpu", "h100", "--json"], log).json();
    let codes: Vec<_> = json["errors"]
        .as_array()
        .expect("errors")
        .iter()
        .map(|e| e["code"].as_u64())
        .collect();
    assert_eq!(codes, [Some(5000), Some(401)], "{json:#}");
    assert_eq!(
        (
            json["recognised"].as_bool(),
            json["errors"][1]["line"].as_u64()
        ),
        (Some(true), Some(2))
    );
    let numbers = "cudaGetDeviceCount returned 802\n-> system\nE0000 failed call to cuInit: UNKNOWN ERROR (100)\nCUDA error 0, CUDA error 13.0\n";
    let json = run_with_input(&["explain", "-", "--gpu", "h100", "--json"], numbers).json();
    let codes: Vec<_> = json["errors"]
        .as_array()
        .expect("errors")
        .iter()
        .map(|e| e["code"].as_u64())
        .collect();
    assert!(
        codes.contains(&Some(100)) && json["recognised"] == true,
        "{json:#}"
    );
    let own = "RuntimeError: CUDA error: an illegal memory access was encountered\nggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected\n\
               cuda: the file not found here is no error of CUDA\n";
    let json = run_with_input(&["explain", "-", "--gpu", "h100", "--json"], own).json();
    assert_eq!(json["recognised"], true);
    let codes: Vec<_> = json["errors"]
        .as_array()
        .expect("errors")
        .iter()
        .map(|e| e["code"].as_u64())
        .collect();
    assert!(!codes.contains(&Some(301)), "{json:#}");
    let coloured = "\u{1b}[31mCUDA_ERROR_NO_DEVICE\u{1b}[0m\n";
    assert_eq!(
        run_with_input(&["explain", "-", "--gpu", "h100", "--json"], coloured).json()["errors"][0]
            ["code"],
        100
    );
    // A message of that line says more.
    let known = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (cudaErrorMemoryAllocation)\n";
    let json = run_with_input(&["explain", "-", "--gpu", "h100", "--json"], known).json();
    assert_eq!(
        (
            json["messages"].as_array().map(Vec::len),
            json["errors"].as_array().map(Vec::len)
        ),
        (Some(1), Some(0))
    );
}

#[test]
fn a_subject_wins_over_a_file_and_a_file_over_words() {
    let tree = Tree::debian_12();
    let file = tree.path().join("log.txt");
    std::fs::write(&file, "RmInitAdapter failed! (0x24:0x65:1456)\n").expect("written");
    let named = tree.run(&["explain", &file.to_string_lossy()]);
    assert!(
        named.out.contains("The driver could not start a GPU"),
        "{}{}",
        named.out,
        named.err
    );
    let words = tree.run(&["explain", "Failed to initialize NVML: Unknown Error"]);
    assert!(
        words.out.contains("lost its access to the GPU"),
        "{}{}",
        words.out,
        words.err
    );
    assert!(
        tree.run(&["explain", "driver"])
            .out
            .starts_with("NVIDIA driver\n")
    );
    let typo = tree.run(&["explain", "drivr"]);
    assert!(
        typo.code == 2 && typo.err.contains("try: gpusetup explain driver"),
        "{}",
        typo.err
    );
}

/// What this host shows is part of the answer: a tree whose next kernel has no module supports the
/// first cause.
#[test]
fn the_host_supports_or_contradicts_a_cause() {
    let tree = Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b0", Some("nvidia"));
    tree.write("usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", "");
    let status = "Package: nvidia-headless-580-open\nStatus: install ok installed\nVersion: 580.95.05-0ubuntu1\n";
    tree.write("var/lib/dpkg/status", status);
    let text = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.";
    let ran = tree.run(&["explain", text]);
    assert!(
        ran.out
            .contains("  here    GS104: kernel 6.8.0-64-generic has no nvidia module"),
        "{}",
        ran.out
    );
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    faults: Vec<Fault>,
    unrelated: Vec<Unrelated>,
}

/// A text about a fault, from a thread that no pattern was made from.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    source: String,
    /// The kind of software that printed it.
    area: String,
    /// The cause, as the thread has it.
    cause: String,
    /// What `explain` said before anything was learnt from this text.
    first: Verdict,
    /// What may be found: ids of messages, `CUDA 999`, `Xid 79`. Nothing, if it is not recognised.
    expect: Vec<String>,
    text: String,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// The cause of the thread is among the causes of the answer.
    Right,
    /// The answer is true, and names no cause or only what the message itself means.
    General,
    Missed,
    /// The answer does not have the cause of the thread, or is about another message.
    Wrong,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unrelated {
    source: String,
    /// What the text is about.
    what: String,
    text: String,
}

/// What `explain` finds in a text, symptoms left out.
fn found_in(recogniser: &Recogniser<'_>, text: &str) -> Vec<String> {
    let codes = error_codes();
    let messages = recogniser.find(text);
    let explained: Vec<_> = messages.iter().map(|found| found.line).collect();
    let roots = messages
        .iter()
        .filter(|found| !found.is_symptom)
        .map(|found| found.message.id.clone());
    let errors = named_errors(text, &codes).expect("an automaton");
    let errors = errors
        .iter()
        .filter(|named| !explained.contains(&named.line));
    let errors = errors.map(|named| format!("{} {}", named.error.api.title(), named.error.code));
    let logged = xids(text)
        .into_iter()
        .map(|xid| format!("Xid {}", xid.number));
    let switches = sxids(text)
        .into_iter()
        .map(|sxid| format!("SXid {}", sxid.number));
    roots.chain(errors).chain(logged).chain(switches).collect()
}

/// Of how many texts about faults the set was, how many were answered before anything was learnt
/// from it, and how many are now.
const KEPT: (usize, usize, usize) = (105, 60, 93);

/// A set of texts that was collected without a look at the patterns; docs/src/recognition.md has
/// what was measured. What was learnt from it since makes it a test of what was reached, and no
/// measurement any more.
#[test]
fn the_kept_apart_set_is_recognised_as_before() {
    let messages = known();
    let recogniser = Recogniser::new(&messages).expect("an automaton");
    let kept: Kept = serde_yaml::from_str(include_str!("../messages/kept.yaml")).expect("the set");
    let mut wrong = String::new();
    let mut answered = 0;
    for Fault {
        source,
        area,
        cause,
        expect,
        text,
        ..
    } in &kept.faults
    {
        let found = found_in(&recogniser, text);
        answered += usize::from(!found.is_empty());
        if found.iter().any(|id| !expect.contains(id)) {
            wrong +=
                &format!("{source} ({area}: {cause})\n  found {found:?}, expected {expect:?}\n");
        }
    }
    for Unrelated { source, what, text } in &kept.unrelated {
        let found = found_in(&recogniser, text);
        if !found.is_empty() {
            wrong += &format!("{source} is about {what}\n  found {found:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let at_first = kept
        .faults
        .iter()
        .filter(|fault| fault.first != Verdict::Missed)
        .count();
    assert_eq!((kept.faults.len(), at_first), (KEPT.0, KEPT.1));
    assert!(
        answered >= KEPT.2,
        "{answered} of {} are recognised",
        KEPT.0
    );
}

/// Logs of ten megabytes end, and what is said of them stays short.
#[test]
fn a_huge_text_has_a_short_answer() {
    const SIZE: usize = 10 << 20;
    let repeated = |piece: &str| piece.repeat(SIZE / piece.len());
    let numbered = |line: &dyn Fn(usize) -> String| {
        let mut text = String::with_capacity(SIZE + 256);
        (0..)
            .take_while(|n| {
                text += &line(*n);
                text.len() < SIZE
            })
            .count();
        text
    };
    let storm = numbered(&|n| {
        format!(
            "[{n}.0] NVRM: Xid (PCI:{:04x}:{:02x}:00): {}, pid={n}, name=python3, x\n",
            n / 256 % 65536,
            n % 256,
            n % 200
        )
    });
    for (what, text) in [
        ("Xids", storm),
        (
            "one line",
            repeated("cannot find -lcuda nvidia-driver-580 : Depends: x "),
        ),
        (
            "one line of halves",
            repeated("but it is not going to be installed "),
        ),
        (
            "errors",
            repeated("RuntimeError: CUDA error 700: an illegal memory access was encountered\n"),
        ),
        (
            "escapes",
            repeated("\u{1b}[31mcannot \u{1b}[0mfind\u{1b}]0;x\u{7} -lcuda\r\n"),
        ),
    ] {
        let ran = run_with_input(
            &["explain", "-", "--os", "ubuntu-24.04", "--gpu", "h100"],
            &text,
        );
        assert_eq!(ran.code, 0, "{what}: {}", ran.err);
        assert!(ran.out.len() < 20_000, "{what}: {} bytes", ran.out.len());
    }
}
