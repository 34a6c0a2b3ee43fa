//! Compose files and pods. They have no shell: what a shell would replace is written as it is.

use super::asked::{CommandLine, ENTRYPOINT};
use super::form::{Form, Written, leave_out_flags, variables, variables_of_shell_too, visible};
use super::gpus_value::CAPABILITIES;
use super::pod_text;
use super::request::{Device, Gpus, Request};
use super::shell_words::Word;
use std::fmt::Write;

/// The name of a container that has none.
const UNNAMED: &str = "app";

/// The first line of a Compose file.
pub const SERVICES: &str = "services:\n";

/// A Compose file with one service.
pub fn compose(line: &CommandLine, request: &Request, name: Option<&str>, written: &mut Written) -> Option<String> {
    let form = written.form;
    let mut environment: Vec<(String, Option<String>)> = Vec::new();
    let gpus = if form == Form::ComposeRuntime {
        environment.push(("NVIDIA_VISIBLE_DEVICES".to_owned(), Some(visible(&request.gpus, written)?)));
        "    runtime: nvidia\n".to_owned()
    } else {
        reserved(request, written)?
    };
    let in_reservation = form == Form::Compose && are_dockers(request);
    if let Some(capabilities) = request.capabilities.as_ref().filter(|_| !in_reservation) {
        environment.push(("NVIDIA_DRIVER_CAPABILITIES".to_owned(), Some(capabilities.join(","))));
    }
    // One without a value has that of the shell in Compose, too.
    let variables = variables_of_shell_too(line, written).into_iter();
    environment.extend(variables.map(|(name, value)| (name.to_owned(), value.map(str::to_owned))));
    leave_out_flags(line, &[ENTRYPOINT], written);
    if shell_replaces(line) {
        written.differs("the shell replaces a part of the command line; Compose does not, and takes it literally");
    }
    // Compose replaces variables, too.
    let literal = |text: &str| scalar(&text.replace('$', "$$"));
    let name = scalar(name.unwrap_or(UNNAMED));
    let mut out = format!("{SERVICES}  {name}:\n    image: {}\n", literal(image(line)));
    if let Some(program) = program(line) {
        let _ = writeln!(out, "    entrypoint: [{}]", list(&program, literal));
    }
    if !line.arguments.is_empty() {
        let _ = writeln!(out, "    command: [{}]", list(&line.arguments, literal));
    }
    if !environment.is_empty() {
        out += "    environment:\n";
        for (name, value) in &environment {
            let value = value.as_ref().map(|value| format!(" {}", text_scalar(&value.replace('$', "$$"))));
            let _ = writeln!(out, "      {}:{}", scalar(name), value.unwrap_or_default());
        }
    }
    Some(out + &gpus)
}

/// Whether the shell replaces a part of what a file has.
fn shell_replaces(line: &CommandLine) -> bool {
    let words = line.image.iter().chain(&line.arguments);
    words.map(|word| word.is_replaced).chain(line.entrypoint().map(|flag| flag.is_replaced)).any(|is| is)
}

/// What runs in place of the image's entrypoint: nothing for `--entrypoint ''`.
fn program(line: &CommandLine) -> Option<Vec<Word>> {
    let program = line.entrypoint()?.value.as_deref().unwrap_or_default();
    Some(if program.is_empty() { Vec::new() } else { vec![Word::of(program)] })
}

fn image(line: &CommandLine) -> &str {
    line.image.as_ref().map_or("IMAGE", |image| &image.text)
}

/// Whether Docker knows all of the capabilities.
fn are_dockers(request: &Request) -> bool {
    request.capabilities.iter().flatten().all(|name| CAPABILITIES.contains(&name.as_str()))
}

/// The reservation of devices, or the key `gpus`, which has the capability `gpu` without a word.
fn reserved(request: &Request, written: &mut Written) -> Option<String> {
    let which = match &request.gpus {
        Gpus::All => "count: all".to_owned(),
        Gpus::Count(count) => format!("count: {count}"),
        Gpus::Devices(devices) => {
            let ids: Vec<_> = devices.iter().map(|device| format!("'{device}'")).collect();
            format!("device_ids: [{}]", ids.join(", "))
        }
        Gpus::DriverOnly => {
            written.differs("a reservation has no word for the driver without a GPU");
            return None;
        }
        Gpus::Profiles(_) | Gpus::Shares(_) => {
            written.differs("only Kubernetes asks for MIG devices by their profile; name one that `nvidia-smi -L` lists: 0:1, MIG-…");
            return None;
        }
    };
    if written.form == Form::ComposeGpus {
        return Some(match &request.gpus {
            Gpus::All => "    gpus: all\n".to_owned(),
            _ => format!("    gpus:\n      - driver: nvidia\n        {which}\n"),
        });
    }
    let named = request.capabilities.iter().flatten().filter(|_| are_dockers(request));
    let capabilities: Vec<_> = ["gpu"].into_iter().chain(named.map(String::as_str)).collect();
    Some(format!(
        "    deploy:\n      resources:\n        reservations:\n          devices:\n            - driver: nvidia\n              {which}\n              capabilities: [{}]\n",
        capabilities.join(", ")
    ))
}

/// The most characters of a label in Kubernetes (RFC 1123).
const LONGEST_LABEL: usize = 63;

/// The name of a pod for a container of this name: with a number if it is taken.
pub fn pod_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let first = label(name);
    let numbered = |n: u32| {
        let number = format!("-{n}");
        let begin: String = first.chars().take(LONGEST_LABEL - number.len()).collect();
        begin + &number
    };
    let mut names = std::iter::once(first.clone()).chain((2..).map(numbered));
    names.find(|name| !is_taken(name)).unwrap_or_else(|| first.clone())
}

/// A name as Kubernetes takes it (RFC 1123): small letters, digits and hyphens.
fn label(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().map(plain).take(LONGEST_LABEL).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { UNNAMED.to_owned() } else { name.to_owned() }
}

/// A pod with one container.
pub fn kubernetes(line: &CommandLine, request: &Request, name: Option<&str>, written: &mut Written) -> Option<String> {
    let limits = match &request.gpus {
        Gpus::Profiles(profiles) => {
            profiles.iter().map(|(name, count)| (format!("nvidia.com/mig-{name}"), *count)).collect()
        }
        Gpus::Count(count) => vec![("nvidia.com/gpu".to_owned(), *count)],
        Gpus::Shares(count) => vec![("nvidia.com/gpu.shared".to_owned(), *count)],
        Gpus::Devices(devices) if devices.iter().any(Device::is_instance) => {
            written.differs("Kubernetes asks for MIG devices by their profile, not by name: nvidia.com/mig-1g.5gb: 1");
            return None;
        }
        Gpus::Devices(devices) => {
            written
                .differs(format!("Kubernetes chooses the GPUs: it cannot be asked for {}", request.gpus.described()));
            vec![("nvidia.com/gpu".to_owned(), u32::try_from(devices.len()).unwrap_or(u32::MAX))]
        }
        Gpus::All => {
            written.differs("Kubernetes asks for a number of GPUs: nvidia.com/gpu: NUMBER");
            return None;
        }
        Gpus::DriverOnly => {
            written.differs("Kubernetes has no word for the driver without a GPU");
            return None;
        }
    };
    let mut environment: Vec<(String, String)> = Vec::new();
    if let Some(capabilities) = &request.capabilities {
        environment.push(("NVIDIA_DRIVER_CAPABILITIES".to_owned(), capabilities.join(",")));
    }
    environment.extend(variables(line, written).into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
    leave_out_flags(line, &[ENTRYPOINT], written);
    if shell_replaces(line) {
        written.differs("the shell replaces a part of the command line; Kubernetes does not, and takes it literally");
    }
    let name = scalar(&label(name.unwrap_or(UNNAMED)));
    let mut out = format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  restartPolicy: Never\n  containers:\n    - name: {name}\n      image: {}\n",
        scalar(image(line))
    );
    // An empty command would be none: without an entrypoint, the first argument is the program.
    let program = program(line);
    let (command, arguments) = match &program {
        Some(program) if program.is_empty() => (line.arguments.as_slice(), &[][..]),
        Some(program) => (program.as_slice(), line.arguments.as_slice()),
        None => (&[][..], line.arguments.as_slice()),
    };
    for (key, words) in [("command", command), ("args", arguments)] {
        if !words.is_empty() {
            let _ = writeln!(out, "      {key}: [{}]", list(words, |text| scalar(&pod_text::literal(text))));
        }
    }
    if !environment.is_empty() {
        out += "      env:\n";
        for (name, value) in &environment {
            let _ = writeln!(
                out,
                "        - name: {}\n          value: {}",
                scalar(name),
                text_scalar(&pod_text::literal(value))
            );
        }
    }
    out += "      resources:\n        limits:\n";
    for (name, count) in limits {
        let _ = writeln!(out, "          {}: {count}", scalar(&name));
    }
    written
        .notes
        .push("if nvidia is not the default runtime of the nodes, add runtimeClassName: nvidia to the spec".to_owned());
    Some(out)
}

fn list(words: &[Word], scalar: impl Fn(&str) -> String) -> String {
    words.iter().map(|word| scalar(&word.text)).collect::<Vec<_>>().join(", ")
}

/// A text in YAML: plain if no reader can take it for anything else, or else in double quotes, as JSON writes it.
fn scalar(text: &str) -> String {
    const WORDS: [&str; 8] = ["true", "false", "yes", "no", "on", "off", "null", "y"];
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._/-:@".contains(c))
        && !text.ends_with(':')
        && text.len() > 1
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { text_scalar(text) }
}

/// The same, always in quotes: a value of a variable stays a text.
fn text_scalar(text: &str) -> String {
    crate::text::json(&serde_json::Value::from(text).to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_have_names_that_are_not_taken() {
        assert_eq!(pod_name("My_Svc.1", |_| false), "my-svc-1");
        assert_eq!(pod_name("My_Svc.1", |name| ["my-svc-1", "my-svc-1-2"].contains(&name)), "my-svc-1-3");
        let long = pod_name(&"a".repeat(70), |name| !name.ends_with("-2"));
        assert_eq!((long.len(), long.ends_with("a-2")), (LONGEST_LABEL, true), "{long}");
        assert_eq!(label(&long), long);
    }

    #[test]
    fn texts_stay_texts_in_yaml() {
        for text in [
            "nvidia/cuda:12.4.1-base",
            "python",
            "1",
            "yes",
            "a: b",
            "- x",
            "'",
            "\"",
            "",
            "{a}",
            "#",
            "a #b",
            "on",
            "~",
            "\u{7}",
        ] {
            let read: serde_json::Value = crate::yaml::read_texts(&format!("key: {}\n", scalar(text))).expect(text);
            assert_eq!(read["key"], text, "{}", scalar(text));
        }
        assert_eq!(
            (scalar("nvidia/cuda:12.4.1"), scalar("no")),
            ("nvidia/cuda:12.4.1".to_owned(), "\"no\"".to_owned())
        );
    }
}
