//! Command lines that start a container, read by the rules of the very program: which GPUs they ask
//! for, and everything else in its place.

use super::gpus_value;
use super::request::{Gpus, Request, Translated, Unreadable, capabilities, cdi_name, refused};
use super::shell_words::{Word, is_variable, written};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Engine {
    /// The wrapper that NVIDIA replaced, whose variable is `NV_GPU`.
    NvidiaDocker,
    #[default]
    Docker,
    Podman,
}

/// What a command line has beside its request for GPUs.
pub(crate) struct CommandLine {
    pub(crate) engine: Engine,
    /// The words before the program: `sudo -E`.
    sudo: Vec<String>,
    /// The words after it: `container run`, and the options before the place of the request.
    front: Vec<String>,
    /// The options after it, the image and the arguments.
    back: Vec<String>,
    /// The image, if it is the reference of one.
    pub(crate) image: Option<String>,
    /// Whether a runtime other than NVIDIA's is among the options that stay.
    pub(crate) has_other_runtime: bool,
}

impl CommandLine {
    /// The command line with another program, and with these words in the place of the request.
    pub(crate) fn with(&self, program: &str, gpus: &[String]) -> String {
        written(
            &[
                &self.sudo,
                &[program.to_owned()][..],
                &self.front,
                gpus,
                &self.back,
            ]
            .concat(),
        )
    }
}

fn engine(program: &str) -> Result<Engine, Unreadable> {
    match program {
        "docker" => Ok(Engine::Docker),
        "nvidia-docker" => Ok(Engine::NvidiaDocker),
        "podman" => Ok(Engine::Podman),
        "$" => refused("the line begins with the prompt of a terminal", HOW),
        other => refused(
            format!("{other:?} is not docker, nvidia-docker or podman"),
            HOW,
        ),
    }
}

/// How many words after the program say that a container is started.
fn verbs(words: &[Word]) -> Result<usize, Unreadable> {
    let count = usize::from(words.first().is_some_and(|word| word.text == "container")) + 1;
    match words.get(count - 1) {
        Some(verb) if ["run", "create"].contains(&&*verb.text) => Ok(count),
        _ => refused(
            "the command line starts no container: run or create must follow the program",
            HOW,
        ),
    }
}

fn texts(words: &[Word]) -> Vec<String> {
    words.iter().map(|word| word.text.clone()).collect()
}

/// Reads the words of a command line, in no form yet. No text of the input is in what is said of
/// it. An error if it starts no container, asks for no GPU, or asks in a way whose meaning is not
/// certain.
pub(crate) fn read(
    words: &[Word],
    has_comment: bool,
) -> Result<(CommandLine, Translated), Unreadable> {
    let (sudo, variables, rest) = beginning(words);
    let (program, rest) = rest
        .split_first()
        .ok_or_else(|| Unreadable::new("there is no command line").hint(HOW))?;
    let engine = engine(&program.text)?;
    let (verb, rest) = rest.split_at(verbs(rest)?);
    let mut options = Options {
        engine,
        variables,
        ..Options::default()
    };
    options.read(rest)?;
    let (front, back) = options.kept.split_at(options.place.unwrap_or(0));
    let from_image = &rest[options.count..];
    let (image, arguments) = (from_image.first(), from_image.get(1..).unwrap_or_default());
    let is_literal = rest.iter().all(|word| word.is_literal);
    let line = CommandLine {
        engine,
        sudo: texts(sudo),
        front: [&texts(verb)[..], front].concat(),
        back: [back, &texts(from_image)].concat(),
        image: image
            .filter(|image| image.is_literal && is_reference(&image.text))
            .map(|image| image.text.clone()),
        has_other_runtime: options.has_other_runtime,
    };
    let request_only = match image {
        _ if has_comment => Some("the command line has a comment"),
        _ if options.variables.iter().any(|set| set.0 != "NV_GPU") => {
            Some("variables are set before the program")
        }
        _ if !is_literal => Some(
            "a shell expands a part of it: $, backquotes, patterns, braces, ~ or ! outside of single quotes",
        ),
        _ if options.has_odd_variable => {
            Some("it sets a variable whose name is not a name for a shell")
        }
        _ if line.image.is_some() => None,
        Some(_) => Some("the word in the place of the image is not the reference of an image"),
        None => Some("it names no image"),
    };
    if image.is_some_and(|image| {
        image
            .text
            .starts_with(|c| ('\u{2010}'..='\u{201d}').contains(&c))
    }) {
        let says = "an option begins with a typographic dash or quote, which a web page made";
        return refused(says, "use the hyphens and quotes of the keyboard: --gpus");
    }
    let chosen = options.chosen()?;
    if image
        .is_some_and(|image| !image.is_literal && (chosen.is_none() || arguments.iter().any(asks)))
    {
        let says = "the shell expands a word in the place of the image, which may have options";
        return refused(
            format!("{says}, so the GPUs are not known"),
            "write the options and the image themselves",
        );
    }
    let Some((request, from)) = chosen else {
        return Err(asks_for_none(
            &line,
            request_only.is_none(),
            arguments,
            !options.gpus.is_empty(),
        ));
    };
    let (schema, notes) = ("gpusetup.container/1", options.notes);
    Ok((
        line,
        Translated {
            schema,
            from,
            request,
            request_only,
            notes,
            forms: Vec::new(),
        },
    ))
}

/// What is typed.
const HOW: &str = "give one docker, nvidia-docker or podman command alone: gpusetup container translate 'docker run --gpus all IMAGE'";

/// A variable that is set before the program, and its value; none if the shell expands a part of
/// it.
type Variable<'a> = (&'a str, Option<&'a str>);

/// `sudo -E NV_GPU=0`: what is before the program, and the rest.
fn beginning(words: &[Word]) -> (&[Word], Vec<Variable<'_>>, &[Word]) {
    let (mut sudo, mut variables, mut rest) = (0..0, Vec::new(), words);
    while let Some((word, behind)) = rest.split_first() {
        let at = words.len() - rest.len();
        match (word.assignment(), word.text.as_str()) {
            (Some((name, value)), _) => {
                variables.push((name, Some(value).filter(|_| word.is_literal)))
            }
            (None, "sudo") if sudo.is_empty() => sudo = at..at + 1,
            (None, "-E") if sudo == (at - sudo.len()..at) && sudo.len() == 1 => sudo.end += 1,
            _ => break,
        }
        rest = behind;
    }
    (&words[sudo], variables, rest)
}

/// Long options without a value, of Docker and Podman (`docker run --help`, 29.7; podman-run(1),
/// 5.8).
const BOOLEAN: &str = "detach disable-content-trust help init interactive no-healthcheck oom-kill-disable privileged publish-all quiet \
                       read-only rm sig-proxy tty";

/// Those of Docker alone.
const DOCKERS_BOOLEAN: &str = "use-api-socket";

/// Those of Podman alone, with its own options that it also reads after `run` (podman(1)).
const PODMANS_BOOLEAN: &str = "env-host http-proxy no-hostname no-hosts passwd read-only-tmpfs replace rmi rootfs syslog tls-verify \
                               transient-store unsetenv-all";

/// Short options without a value, and with one.
const SHORT: (&str, &str) = ("ditPq", "acehlmpuvw");

/// An option as it is written, with its value.
struct Flag<'a> {
    /// `--env` for `-e`.
    name: String,
    value: Option<&'a str>,
    /// Short options without a value in the same word: the `-it` of `-ite NAME=VALUE`.
    cluster: Option<String>,
    /// One word or two.
    words: &'a [Word],
}

/// The option at the beginning of these words, as pflag reads it (github.com/spf13/pflag, flag.go).
fn flag(words: &[Word], engine: Engine) -> Result<Flag<'_>, Unreadable> {
    let text = words[0].text.as_str();
    let (mut flag, takes_value) = match text.strip_prefix("--") {
        Some(long) => long_flag(long, engine),
        None => short_flag(text),
    }
    .ok_or_else(|| {
        let hint = if text.contains("gpu") {
            "the option is spelled --gpus: --gpus all"
        } else {
            HOW
        };
        Unreadable::new(format!("{text:?} is not an option")).hint(hint)
    })?;
    let has_two = takes_value && flag.value.is_none();
    if has_two && words.len() < 2 {
        return Err(Unreadable::new(format!("the option {text:?} has no value")));
    }
    flag.words = &words[..if has_two { 2 } else { 1 }];
    if has_two {
        flag.value = words.get(1).map(|word| word.text.as_str());
    }
    flag.value = flag.value.filter(|_| takes_value);
    Ok(flag)
}

/// `--name` or `--name=value`, and whether it takes a value.
fn long_flag(long: &str, engine: Engine) -> Option<(Flag<'_>, bool)> {
    let (name, value) = long
        .split_once('=')
        .map_or((long, None), |(name, value)| (name, Some(value)));
    let is_name = name
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if !is_name || name.starts_with('-') || name == "gpu" {
        return None;
    }
    let others = match engine {
        Engine::Podman => PODMANS_BOOLEAN,
        _ => DOCKERS_BOOLEAN,
    };
    let is_boolean = BOOLEAN
        .split(' ')
        .chain(others.split(' '))
        .any(|known| known == name);
    let flag = Flag {
        name: format!("--{name}"),
        value,
        cluster: None,
        words: &[],
    };
    Some((flag, !is_boolean))
}

/// `-i`, `-it`, `-e VALUE`, `-eVALUE`, `-ite=VALUE`, and whether it takes a value.
fn short_flag(text: &str) -> Option<(Flag<'_>, bool)> {
    let (at, c) = match text
        .char_indices()
        .skip(1)
        .find(|(_, c)| !SHORT.0.contains(*c))
    {
        // -i=false
        Some((at, '=')) if at > 1 && text.len() > at + 1 => (text.len(), ' '),
        None => (text.len(), ' '),
        Some((_, c)) if !SHORT.1.contains(c) => return None,
        Some(found) => found,
    };
    let rest = text.get(at + 1..).filter(|rest| !rest.is_empty());
    let flag = Flag {
        name: match c {
            'e' => "--env".to_owned(),
            c => format!("-{c}"),
        },
        value: rest.map(|rest| {
            rest.strip_prefix('=')
                .filter(|value| !value.is_empty())
                .unwrap_or(rest)
        }),
        cluster: (c != ' ' && at > 1).then(|| text[..at].to_owned()),
        words: &[],
    };
    Some((flag, c != ' '))
}

/// What the options ask for, one field for each way of asking, and the others.
#[derive(Default)]
struct Options<'a> {
    engine: Engine,
    variables: Vec<Variable<'a>>,
    gpus: Vec<String>,
    devices: Vec<String>,
    visible: Option<String>,
    capabilities: Option<String>,
    has_runtime: bool,
    has_other_runtime: bool,
    has_variable_file: bool,
    has_odd_variable: bool,
    /// A variable whose name the shell expands.
    has_unknown_variable: bool,
    /// The words of the other options.
    kept: Vec<String>,
    /// Where the first part of the request is among them.
    place: Option<usize>,
    /// How many words all options are.
    count: usize,
    /// What they do that may surprise.
    notes: Vec<&'static str>,
}

fn expanded(what: &str) -> Unreadable {
    Unreadable::new(format!(
        "the shell expands the value of {what}, so the GPUs are not known"
    ))
    .hint("write the value itself")
}

impl Options<'_> {
    fn read(&mut self, words: &[Word]) -> Result<(), Unreadable> {
        while let Some(word) = words
            .get(self.count)
            .filter(|word| word.text.starts_with('-') && word.text.len() > 1)
        {
            if word.text == "--" {
                self.kept.push(word.text.clone());
                self.count += 1;
                break;
            }
            let flag = flag(&words[self.count..], self.engine)?;
            self.count += flag.words.len();
            if self.takes(&flag)? {
                self.place.get_or_insert(self.kept.len());
                self.kept.extend(flag.cluster);
            } else {
                self.kept
                    .extend(flag.words.iter().map(|word| word.text.clone()));
            }
        }
        Ok(())
    }

    /// Whether an option is a part of the request.
    fn takes(&mut self, flag: &Flag<'_>) -> Result<bool, Unreadable> {
        let is_literal = flag.words.iter().all(|word| word.is_literal);
        let (Some(value), mut what) = (flag.value, flag.name.as_str()) else {
            return Ok(false);
        };
        match what {
            "--gpus" => self.gpus.push(value.to_owned()),
            "--runtime" => {
                let name = value.rsplit('/').next().unwrap_or(value);
                self.has_runtime = name == "nvidia" || name.starts_with("nvidia-");
                if !self.has_runtime && is_literal {
                    self.has_other_runtime = true;
                    return Ok(false);
                }
            }
            "--device" => {
                let names = self.names_of_gpus(value)?;
                if names.is_empty() {
                    return Ok(false);
                }
                self.devices.extend(names);
            }
            "--env" => match self.variable(value, is_literal)? {
                Some(name) => what = name,
                None => return Ok(false),
            },
            _ => {
                self.has_variable_file |= what == "--env-file";
                return Ok(false);
            }
        }
        if is_literal {
            Ok(true)
        } else {
            Err(expanded(what))
        }
    }

    /// The GPUs in a value of `--device`.
    fn names_of_gpus(&self, value: &str) -> Result<Vec<String>, Unreadable> {
        let devices: Vec<_> = match self.engine {
            Engine::Podman => value.split(',').collect(),
            _ => vec![value],
        };
        let names: Vec<_> = devices
            .iter()
            .filter_map(|device| cdi_name(device))
            .map(str::to_owned)
            .collect();
        if !names.is_empty() && names.len() < devices.len() {
            let says = "--device lists GPUs of NVIDIA's and other devices: name each with its own --device";
            return Err(Unreadable::new(says));
        }
        Ok(names)
    }

    /// Keeps a variable of the request, and returns its name. None if it is another.
    fn variable<'v>(
        &mut self,
        value: &'v str,
        is_literal: bool,
    ) -> Result<Option<&'v str>, Unreadable> {
        let (name, text) = value
            .split_once('=')
            .map_or((value, None), |(name, text)| (name, Some(text)));
        let way = match name {
            "NVIDIA_VISIBLE_DEVICES" => &mut self.visible,
            "NVIDIA_DRIVER_CAPABILITIES" => &mut self.capabilities,
            _ => {
                self.has_odd_variable |= !is_variable(name);
                self.has_unknown_variable |= !is_variable(name) && !is_literal;
                return Ok(None);
            }
        };
        // Without a value it has that of the shell.
        let text = match (text, self.variables.iter().rfind(|(set, _)| *set == name)) {
            (Some(text), _) => text,
            (None, Some((_, value))) => value.ok_or_else(|| expanded(name))?,
            (None, None) => {
                let says =
                    format!("the value of {name} is not known: the option takes it from the shell");
                return refused(says, &format!("write it: -e {name}=all"));
            }
        };
        *way = Some(text.to_owned());
        Ok(Some(name))
    }

    /// The request, and the name of its form.
    fn chosen(&mut self) -> Result<Option<(Request, &'static str)>, Unreadable> {
        let own = self
            .capabilities
            .as_deref()
            .map(capabilities)
            .transpose()?
            .flatten();
        let nv_gpu = self
            .variables
            .iter()
            .rfind(|(name, value)| *name == "NV_GPU" && *value != Some(""))
            .copied();
        let has_names = !self.gpus.is_empty() || !self.devices.is_empty();
        if nv_gpu.is_some() && (self.engine != Engine::NvidiaDocker || has_names) {
            self.notes
                .push("NV_GPU has no effect here: only nvidia-docker reads it, and only without --gpus and --device");
        }
        if has_names && self.visible.is_some() {
            self.notes.push("NVIDIA_VISIBLE_DEVICES has no effect beside --gpus and CDI devices, and is left out");
        }
        let is_podman = self.engine == Engine::Podman;
        let (gpus, capabilities, form) = match (self.gpus.as_slice(), self.devices.as_slice()) {
            ([], []) => (self.by_variable(nv_gpu)?, own, "runtime"),
            ([value], []) if !is_podman => {
                let (gpus, named) = gpus_value::docker(value, &mut self.notes)?;
                (gpus, named.or(own), "docker")
            }
            (values, devices) if is_podman || values.is_empty() => {
                self.notes.extend(
                    (!values.is_empty()).then_some("older versions of Podman ignore --gpus"),
                );
                let mut names = devices.to_vec();
                for value in values {
                    names.extend(gpus_value::podman(value)?);
                }
                let gpus = Gpus::from_names(names.iter().map(String::as_str))?;
                (Some(gpus).filter(|_| !names.is_empty()), own, "cdi")
            }
            _ => {
                let says =
                    "the command line asks for GPUs twice: give one --gpus, or CDI devices alone";
                return Err(Unreadable::new(says));
            }
        };
        let form = match self.engine {
            Engine::NvidiaDocker => "nvidia-docker",
            Engine::Podman => "podman",
            Engine::Docker => form,
        };
        Ok(gpus.map(|gpus| (Request { gpus, capabilities }, form)))
    }

    /// The GPUs of `NVIDIA_VISIBLE_DEVICES`, which the older wrapper sets to its own variable.
    fn by_variable(&mut self, nv_gpu: Option<Variable<'_>>) -> Result<Option<Gpus>, Unreadable> {
        let has_runtime = self.has_runtime || self.engine == Engine::NvidiaDocker;
        let visible = match nv_gpu.filter(|_| self.engine == Engine::NvidiaDocker) {
            // The older wrapper passed several GPUs with blanks between them, too.
            Some((_, value)) => Some(value.ok_or_else(|| expanded("NV_GPU"))?.replace(' ', ",")),
            None => self.visible.clone(),
        };
        if (has_runtime || visible.is_some()) && self.has_unknown_variable {
            return Err(expanded("a variable's name (-e)"));
        }
        if let Some(visible) = visible {
            let note = "without --runtime=nvidia the variable has an effect only if nvidia is the default runtime";
            self.notes.extend((!has_runtime).then_some(note));
            return Gpus::from_variable(&visible);
        }
        if has_runtime {
            self.notes.push(
                "the command line names no GPUs, so the image does: the CUDA images of NVIDIA ask for all of them",
            );
            let note = "the file of --env-file is not read: NVIDIA_VISIBLE_DEVICES in it would choose the GPUs";
            self.notes.extend(self.has_variable_file.then_some(note));
        }
        Ok(has_runtime.then_some(Gpus::All))
    }
}

/// Whether this can be the reference of an image: `nvcr.io/nvidia/pytorch:24.01-py3`,
/// `IMAGE@sha256:…`.
fn is_reference(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-/:@".contains(&b))
        && !text.contains("//")
}

/// Whether a word looks like a request for GPUs.
fn asks(word: &Word) -> bool {
    [
        "--gpu",
        "--runtime",
        "--device",
        "nvidia.com/gpu=",
        "NVIDIA_VISIBLE",
    ]
    .iter()
    .any(|part| word.text.starts_with(part))
}

fn asks_for_none(
    line: &CommandLine,
    is_whole: bool,
    behind: &[Word],
    has_gpus: bool,
) -> Unreadable {
    let hint = match behind.iter().any(asks) {
        _ if has_gpus => {
            "--gpus 0 is a number of GPUs; the one with the index 0 is --gpus device=0"
        }
        true => {
            "options after the image are arguments of the container's program: write them before it"
        }
        false => "add an option that does",
    };
    let (program, request) = match line.engine {
        Engine::Podman => (
            "podman",
            ["--device".to_owned(), "nvidia.com/gpu=all".to_owned()],
        ),
        _ => ("docker", ["--gpus".to_owned(), "all".to_owned()]),
    };
    let command = match is_whole {
        true => line.with(program, &request),
        false => written(&[[program, "run"].map(str::to_owned), request].concat()) + " IMAGE",
    };
    Unreadable {
        attempt: Some(command),
        ..Unreadable::new("the command line asks for no GPU").hint(hint)
    }
}
