//! What helps if a command line asks for no GPU: why it does not, and the same command line with GPUs.

use super::asked::{CommandLine, Engine};
use super::flags::{self, Dialect, Flag};
use super::gpus_value;
use super::request::cdi_name;
use super::shell_words::Word;
use super::unreadable::Unreadable;

/// The refusal of a command line that asks for no GPU: with `--gpus 0` if `has_zero`, or with this `NVIDIA_VISIBLE_DEVICES`.
pub fn asks_for_none(line: &CommandLine, has_zero: bool, visible: Option<&str>) -> Unreadable {
    let mut unreadable = Unreadable::new("the command line asks for no GPU");
    if let Some(image) = line.image.as_ref().filter(|image| !has_zero && may_be_options(image, &line.arguments)) {
        unreadable.says = format!("the value of {} is not known: it may be options or the image", image.text);
        unreadable.tries.push(format!("gpusetup container translate -- {}", written(line, None)));
        return unreadable.hint("write its value, or let the shell replace it");
    }
    let corrected = if has_zero { None } else { spelled(line).or_else(|| moved(line)) };
    if has_zero {
        unreadable.says = "--gpus 0 asks for no GPU: it is a number of GPUs, not an index".to_owned();
        unreadable = unreadable.hint("for the GPU with the index 0: --gpus device=0");
    } else if let Some((hint, _)) = &corrected {
        unreadable = unreadable.hint(hint);
    } else if let Some(visible) = visible {
        unreadable = unreadable.hint(format!("NVIDIA_VISIBLE_DEVICES={visible} means that the container gets none"));
    }
    unreadable = hints(line).into_iter().fold(unreadable, Unreadable::hint);
    let corrected = corrected.map(|(_, line)| line);
    let is_enough = corrected.as_ref().is_some_and(asks);
    let line = corrected.unwrap_or_else(|| line.clone());
    let option = match (line.engine, has_zero) {
        (Engine::Podman, false) => "--device nvidia.com/gpu=all",
        (Engine::Podman, true) => "--device nvidia.com/gpu=0",
        (_, false) => "--gpus all",
        (_, true) => "--gpus device=0",
    };
    unreadable.tries.push(written(&line, (!is_enough).then_some(option)));
    unreadable
}

/// Whether the word that was read as the image may be options: a variable without quotes, and behind it an option, a variable or
/// what may be the image.
pub fn may_be_options(image: &Word, arguments: &[Word]) -> bool {
    let is_image = |text: &str| text.contains(['/', ':']) && !text.starts_with(['/', '.']);
    let goes_on = |word: &Word| word.text.starts_with(['-', '$']) || is_image(&word.text);
    image.is_replaced && image.written.starts_with('$') && arguments.first().is_some_and(goes_on)
}

/// What options have to do with GPUs that give none.
fn hints(line: &CommandLine) -> Vec<String> {
    let starts = |flag: &Flag, part: &str| flag.value.as_deref().is_some_and(|value| value.starts_with(part));
    let has = |part: &str| line.flags.iter().any(|flag| starts(flag, part));
    let mut hints = Vec::new();
    if has("CUDA_VISIBLE_DEVICES") {
        hints.push("CUDA_VISIBLE_DEVICES only hides GPUs that a container has; it gives none".to_owned());
    }
    if has("/dev/nvidia") {
        hints.push("--device /dev/nvidia… passes the device file without the driver's libraries".to_owned());
    }
    if line.flags.iter().any(|flag| flag.name == HOOKS) {
        hints.push(
            "with --hooks-dir the hook of older container toolkits gave the GPUs that the image's NVIDIA_VISIBLE_DEVICES names; \
             with CDI the command line names them"
                .to_owned(),
        );
    }
    let is_nvidias = |device: &str| device.contains(".nvidia.com/gpu=");
    let others = line.flags.iter().filter_map(of_other_kind);
    hints.extend(others.map(|device| match is_nvidias(device) {
        true => format!("{device} is a device of NVIDIA's software for Kubernetes, which no other form has"),
        false => format!("{device} is a device of another vendor than NVIDIA"),
    }));
    hints
}

/// Podman's option for folders of hooks.
pub const HOOKS: &str = "--hooks-dir";

/// The CDI name of a GPU of another vendor or kind: `amd.com/gpu=all`, and `management.nvidia.com/gpu=all`, which NVIDIA's GPU
/// Operator has for its own containers.
fn of_other_kind(flag: &Flag) -> Option<&str> {
    let value = flag.value.as_deref().filter(|_| flag.name == "--device")?;
    (value.contains(".com/gpu=") && cdi_name(value).is_none()).then_some(value)
}

/// The command line with a misspelt `--gpus` as Docker writes it, and what was wrong.
fn spelled(line: &CommandLine) -> Option<(String, CommandLine)> {
    let wrong = |flag: &Flag| {
        let word = &flag.words.first()?.text;
        Some((word.clone(), meant(word)?))
    };
    let at = line.flags.iter().position(|flag| wrong(flag).is_some())?;
    let (before, behind) = line.flags.split_at(at);
    let (flag, behind) = behind.split_first()?;
    let (word, right) = wrong(flag)?;
    let of = |flags: &[Flag]| flags.iter().flat_map(|flag| flag.words.clone()).collect::<Vec<_>>();
    let parts = [
        of(before),
        right.iter().map(Word::of).collect(),
        flag.words.iter().skip(1).cloned().collect(),
        of(behind),
        line.image.iter().chain(&line.arguments).cloned().collect(),
    ];
    Some((format!("{word} is no option: it is spelled --gpus"), read_again(line, &parts.concat())))
}

/// The words that a misspelt `--gpus` stands for: `--gpu`, `-gpus`, `--gpus:all`, `-tigpus`.
fn meant(word: &str) -> Option<Vec<String>> {
    let body = word.trim_start_matches('-');
    let hyphens = word.len() - body.len();
    let (name, value) = body.split_once(['=', ':']).map_or((body, None), |(name, value)| (name, Some(value)));
    let short = name.strip_suffix("gpus").or_else(|| name.strip_suffix("gpu"))?;
    let is_right = hyphens == 2 && name == "gpus" && !body.starts_with("gpus:");
    let is_meant = match hyphens {
        0 => false,
        1 => short.chars().all(|c| flags::SHORT.contains(c)),
        _ => short.is_empty() && !is_right,
    };
    let short = (!short.is_empty()).then(|| format!("-{short}"));
    let words = short.into_iter().chain(["--gpus".to_owned()]).chain(value.map(str::to_owned));
    is_meant.then(|| words.collect())
}

/// The command line with a request before the image that is behind it.
fn moved(line: &CommandLine) -> Option<(String, CommandLine)> {
    const REQUESTS: [&str; 4] = ["--gpus", "--runtime=nvidia", "--device=nvidia.com/gpu=", "nvidia.com/gpu="];
    let is_request = |word: &Word| REQUESTS.iter().any(|part| word.text.starts_with(part));
    let at = line.arguments.iter().position(is_request)?;
    let word = line.arguments.get(at)?;
    // The value of --device.
    let at = if word.text.starts_with('-') { at } else { at.checked_sub(1)? };
    before_image(line, at, &word.text, Dialect::Docker)
}

/// The command line with the option at this place of its arguments before the image, and what was wrong with it. `word` names it.
pub fn before_image(line: &CommandLine, at: usize, word: &str, dialect: Dialect) -> Option<(String, CommandLine)> {
    let image = line.image.as_ref()?;
    let (before, behind) = line.arguments.split_at(at);
    let (mut flags, _) = flags::read(behind, dialect);
    // Among the arguments of a program, the other options are most likely the program's.
    if at > 0 {
        flags.truncate(1);
    }
    let count: usize = flags.iter().map(|flag| flag.words.len()).sum();
    let hint = format!(
        "{word} is behind the image {}, so it is an argument of the container's program: write it before the image",
        image.text
    );
    let arguments = [before, behind.get(count..)?].concat();
    Some((hint, CommandLine { flags: [line.flags.clone(), flags].concat(), arguments, ..line.clone() }))
}

/// The command line with these words behind its verb.
fn read_again(line: &CommandLine, words: &[Word]) -> CommandLine {
    let (flags, count) = flags::read(words, Dialect::Docker);
    let arguments = words.get(count + 1..).unwrap_or_default().to_vec();
    CommandLine { flags, image: words.get(count).cloned(), arguments, ..line.clone() }
}

/// Whether a corrected command line asks for GPUs. `--gpus` is for Docker and nerdctl: older versions of Podman ignore it.
fn asks(line: &CommandLine) -> bool {
    let is_request = |flag: &Flag| match (flag.name.as_str(), flag.value.as_deref()) {
        ("--gpus", Some(value)) => {
            line.engine != Engine::Podman && gpus_value::read(value).is_ok_and(|value| value.gpus.is_some())
        }
        ("--runtime", Some("nvidia")) => line.engine != Engine::Podman,
        ("--device", Some(value)) => cdi_name(value).is_some(),
        _ => false,
    };
    line.flags.iter().any(is_request)
}

/// The command line as it is typed; with an option that asks for GPUs in place of those that ask for others or none.
fn written(line: &CommandLine, option: Option<&str>) -> String {
    let program = match line.engine {
        Engine::Podman => "podman",
        Engine::Nerdctl => "nerdctl",
        _ => "docker",
    };
    let is_replaced = |flag: &Flag| {
        let is_variable = flag.variable().is_some_and(|(name, _)| name == "NVIDIA_VISIBLE_DEVICES");
        option.is_some()
            && (is_variable || ["--gpus", HOOKS].contains(&flag.name.as_str()) || of_other_kind(flag).is_some())
    };
    let words = |flag: &Flag| match is_replaced(flag) {
        true => flag.without_value().map(|flag| flag.words).unwrap_or_default(),
        false => flag.words.clone(),
    };
    let of = |words: &[Word]| words.iter().map(|word| word.written.clone()).collect::<Vec<_>>();
    let parts = [
        of(&line.before),
        vec![program.to_owned()],
        of(&line.global),
        of(&line.verb),
        option.map(str::to_owned).into_iter().collect(),
        line.flags.iter().flat_map(|flag| of(&words(flag))).collect(),
        vec![line.image.as_ref().map_or_else(|| "IMAGE".to_owned(), |image| image.written.clone())],
        of(&line.arguments),
    ];
    parts.concat().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::command_line::read;
    use super::super::shell_words::split;

    #[test]
    fn a_command_line_without_gpus_is_corrected() {
        for (line, hint, corrected) in [
            ("docker run --gpu all ubuntu", "--gpu is no option", "docker run --gpus all ubuntu"),
            ("docker run --gpu=2 ubuntu ls", "spelled --gpus", "docker run --gpus 2 ubuntu ls"),
            ("sudo docker run -gpus all ubuntu ls", "-gpus is no option", "sudo docker run --gpus all ubuntu ls"),
            ("docker run --gpus:all --rm ubuntu", "--gpus:all is no", "docker run --gpus all --rm ubuntu"),
            ("docker run -tigpus all ubuntu", "spelled --gpus", "docker run -ti --gpus all ubuntu"),
            ("podman run --gpu all x ls", "spelled --gpus", "podman run --device nvidia.com/gpu=all x ls"),
            (
                "podman run --device amd.com/gpu=all ubuntu ls",
                "another vendor",
                "podman run --device nvidia.com/gpu=all ubuntu ls",
            ),
            (
                "docker run --device management.nvidia.com/gpu=all ubuntu ls",
                "NVIDIA's software for Kubernetes",
                "docker run --gpus all ubuntu ls",
            ),
            (
                "podman run --rm --hooks-dir=/usr/share/containers/oci/hooks.d nvidia/cuda nvidia-smi",
                "hook of older",
                "podman run --device nvidia.com/gpu=all --rm nvidia/cuda nvidia-smi",
            ),
            (
                "docker run -it x --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=0 -v /a:/b",
                "behind the image x",
                "docker run -it --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=0 -v /a:/b x",
            ),
            ("docker run x bash --gpus all -l", "behind the image x", "docker run --gpus all x bash -l"),
            ("docker run --gpus 0 x ls", "device=0", "docker run --gpus device=0 x ls"),
            ("nerdctl run -ite NVIDIA_VISIBLE_DEVICES=void x", "gets none", "nerdctl run --gpus all -it x"),
        ] {
            let e = read(&split(line).expect("words")).expect_err(line);
            assert_eq!(e.tries, [corrected], "{line}");
            assert!(e.hints.iter().any(|text| text.contains(hint)), "{line}: {e:?}");
        }
    }

    #[test]
    fn a_variable_before_options_is_not_known() {
        let e = read(&split("docker run $DOCKER_OPTS --gpus all ubuntu").expect("words")).expect_err("a variable");
        assert!(e.says.contains("$DOCKER_OPTS"), "{e:?}");
        assert_eq!(e.tries, ["gpusetup container translate -- docker run $DOCKER_OPTS --gpus all ubuntu"]);
        let e = read(&split("docker run $IMAGE ls").expect("words")).expect_err("no request");
        assert_eq!(e.tries, ["docker run --gpus all $IMAGE ls"]);
    }
}
