//! A command line translated into every form. Only options go through a shell, as words
//! (`shell_words::written`), and only plain scalars into YAML.

use super::command_line::{self, CommandLine, Engine};
use super::gpus_value;
use super::request::{CAPABILITIES, Form, Gpus, Request, Translated, Unreadable, Written};
use super::shell_words::{MAX_LINE, Word, split, written as shell_line};

/// Translates a command line into these forms.
///
/// # Errors
///
/// If it is not one, asks for no GPU, or does not say for certain which.
pub fn translate(line: &str, forms: &[Form]) -> Result<Translated, Unreadable> {
    // Editors of Windows begin a file with a byte-order mark.
    let line = line.strip_prefix('\u{feff}').unwrap_or(line);
    let first = line
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#'))
        .unwrap_or_default();
    let word = first.split_whitespace().next().unwrap_or_default();
    if word.ends_with(':') || word.starts_with('{') || word == "---" {
        return Err(not_a_file());
    }
    let (words, has_comment) = split(line)?;
    in_forms(&words, has_comment, forms)
}

/// Translates the words of a command line, which a shell has divided already.
///
/// # Errors
///
/// If they are not one, ask for no GPU, or do not say for certain which.
pub fn translate_words(words: &[String], forms: &[Form]) -> Result<Translated, Unreadable> {
    // What is hidden in a word would be hidden in what is printed, too. Quoted, it is read back as
    // it is.
    let quoted = shell_line(words);
    if quoted.len() > MAX_LINE || quoted.contains(gpusetup_text::text::is_hidden) {
        split(&quoted)?;
    }
    in_forms(
        &words.iter().map(Word::literal).collect::<Vec<_>>(),
        false,
        forms,
    )
}

/// Why a file is not read.
pub fn not_a_file() -> Unreadable {
    Unreadable {
        attempt: Some("gpusetup container translate 'docker run --gpus all IMAGE'".to_owned()),
        ..Unreadable::new(
            "files of Compose and Kubernetes are not translated: give the docker or podman command line of one container",
        )
    }
}

fn in_forms(words: &[Word], has_comment: bool, forms: &[Form]) -> Result<Translated, Unreadable> {
    let (line, translated) = command_line::read(words, has_comment)?;
    let forms = forms
        .iter()
        .map(|form| write(&line, &translated, *form))
        .collect();
    Ok(Translated {
        forms,
        ..translated
    })
}

fn write(
    line: &CommandLine,
    Translated {
        request,
        request_only,
        ..
    }: &Translated,
    form: Form,
) -> Written {
    let mut written = Written {
        form,
        text: None,
        differences: Vec::new(),
        notes: Vec::new(),
    };
    let image = scalar(line.image.as_deref().unwrap_or("IMAGE"));
    written.text = match form {
        Form::Compose => compose(&image, request),
        Form::Kubernetes => kubernetes(&image, request, &mut written),
        // The last one counts, and it may keep the container from the host, as gVisor's does.
        Form::Runtime if line.has_other_runtime => {
            written.differs("a container has one runtime, and the command line names another one");
            None
        }
        _ => options(request, &mut written).map(|options| match request_only {
            Some(_) => shell_line(&options),
            None => line.with(
                if form == Form::Podman {
                    "podman"
                } else {
                    "docker"
                },
                &options,
            ),
        }),
    };
    let is_changed =
        (line.engine == Engine::Podman) != (form == Form::Podman) && request_only.is_none();
    let first = line.image.as_ref().and_then(|image| image.split_once('/'));
    let has_registry =
        first.is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost");
    let note = match form {
        Form::Compose | Form::Kubernetes => {
            Some("the command, variables, volumes and ports are not in it: add them")
        }
        Form::Podman if is_changed && has_registry => {
            Some("Podman refuses options that only Docker has")
        }
        Form::Podman if is_changed => Some(MAY_NEED_REGISTRY),
        _ => is_changed.then_some("Docker refuses options that only Podman has"),
    };
    if written.text.is_some() {
        written.notes.extend(note.map(str::to_owned));
    } else if request.gpus == Gpus::DriverOnly && written.differences.is_empty() {
        let (.., lacks) = Form::ALL[form as usize];
        written.differs(format!("{lacks} for the driver without a GPU"));
    }
    written
}

const MAY_NEED_REGISTRY: &str = "Podman refuses options that only Docker has, and may need the whole name of the image: docker.io/library/IMAGE";

impl Written {
    fn differs(&mut self, what: impl Into<String>) {
        self.differences.push(what.into());
    }
}

/// The options that ask for GPUs. None if the form has none.
fn options(request: &Request, written: &mut Written) -> Option<Vec<String>> {
    if matches!(written.form, Form::Cdi | Form::Podman) {
        return cdi(request, written);
    }
    let capabilities = request.capabilities.as_deref().unwrap_or_default();
    let as_variable =
        !capabilities.is_empty() && (written.form == Form::Runtime || !are_dockers(request));
    let mut options = if written.form == Form::Docker {
        let value =
            gpus_value::written(&request.gpus, if as_variable { &[] } else { capabilities })?;
        vec!["--gpus".to_owned(), value]
    } else {
        let visible = names(&request.gpus, written)
            .map_or_else(|| "none".to_owned(), |names| names.join(","));
        vec![
            "--runtime=nvidia".to_owned(),
            "-e".to_owned(),
            format!("NVIDIA_VISIBLE_DEVICES={visible}"),
        ]
    };
    if as_variable {
        options.extend([
            "-e".to_owned(),
            format!("NVIDIA_DRIVER_CAPABILITIES={}", capabilities.join(",")),
        ]);
    }
    Some(options)
}

/// nvidia-ctk names CDI devices by their indexes and whole UUIDs (`--device-name-strategy` of
/// `nvidia-ctk cdi generate`), and CDI has no names with a slash.
fn cdi(request: &Request, written: &mut Written) -> Option<Vec<String>> {
    const UUID: usize = "b8ea3855-276c-c9cb-b366-c6fa655957c5".len();
    let names = names(&request.gpus, written)?;
    let mut no_device = names.iter().filter(|name| {
        name.split_once('-')
            .is_some_and(|(_, id)| id.len() != UUID || id.contains('/'))
    });
    if let Some(name) = no_device.next() {
        written.differs(format!(
            "CDI has no device {name}: its devices have an index (0, 0:1) or a whole UUID, as nvidia-ctk cdi list shows"
        ));
        return None;
    }
    if request.capabilities.is_some() {
        written
            .differs("CDI has no driver capabilities: the container gets all parts of the driver in the specification");
    }
    let note = match written.form {
        Form::Podman => "on a host with SELinux, add --security-opt=label=disable",
        _ => "the daemon must have CDI enabled: docker info lists its CDI spec directories",
    };
    written.notes.push(note.to_owned());
    Some(
        names
            .iter()
            .flat_map(|name| ["--device".to_owned(), format!("nvidia.com/gpu={name}")])
            .collect(),
    )
}

/// Whether Docker takes all of the capabilities from `--gpus` and a reservation.
fn are_dockers(request: &Request) -> bool {
    request
        .capabilities
        .iter()
        .flatten()
        .all(|name| CAPABILITIES.contains(&name.as_str()))
}

/// The names of the devices. A number of GPUs has none: those that Docker picks are named.
fn names(gpus: &Gpus, written: &mut Written) -> Option<Vec<String>> {
    match gpus {
        Gpus::All => Some(vec!["all".to_owned()]),
        Gpus::Devices(devices) => Some(devices.clone()),
        Gpus::Count(count) => {
            written.differs(format!(
                "a number of GPUs cannot be asked for, so those are named that docker run --gpus {count} picks"
            ));
            Some((0..*count).map(|index| index.to_string()).collect())
        }
        Gpus::DriverOnly => None,
    }
}

fn compose(image: &str, request: &Request) -> Option<String> {
    let which = match &request.gpus {
        Gpus::Count(count) => format!("count: {count}"),
        Gpus::Devices(devices) => {
            format!(
                "device_ids: [{}]",
                devices
                    .iter()
                    .map(|id| text_scalar(id))
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        }
        Gpus::All => "count: all".to_owned(),
        Gpus::DriverOnly => return None,
    };
    let named = request
        .capabilities
        .iter()
        .flatten()
        .filter(|_| are_dockers(request));
    let capabilities: Vec<_> = ["gpu"]
        .into_iter()
        .chain(named.map(String::as_str))
        .map(scalar)
        .collect();
    let as_variable = request
        .capabilities
        .as_ref()
        .filter(|_| !are_dockers(request));
    let environment = as_variable.map_or_else(String::new, |names| {
        format!(
            "    environment:\n      NVIDIA_DRIVER_CAPABILITIES: {}\n",
            text_scalar(&names.join(","))
        )
    });
    Some(format!(
        "services:\n  app:\n    image: {image}\n{environment}    deploy:\n      resources:\n        reservations:\n          devices:\n            - driver: nvidia\n              {which}\n              capabilities: [{}]\n",
        capabilities.join(", ")
    ))
}

fn kubernetes(image: &str, request: &Request, written: &mut Written) -> Option<String> {
    let count = match &request.gpus {
        Gpus::Count(count) => count.to_string(),
        Gpus::DriverOnly => return None,
        Gpus::All => {
            written.differs("Kubernetes has no word for all GPUs: write how many the node has in place of NUMBER");
            "NUMBER".to_owned()
        }
        gpus if gpus.has_instance() => {
            written.differs("Kubernetes asks for MIG devices by their profile, not by name: nvidia.com/mig-1g.5gb: 1");
            return None;
        }
        Gpus::Devices(devices) => {
            written.differs(format!(
                "Kubernetes chooses the GPUs: it cannot be asked for {}",
                request.gpus.described()
            ));
            devices.len().to_string()
        }
    };
    let environment = request
        .capabilities
        .as_ref()
        .map_or_else(String::new, |names| {
            let value = text_scalar(&names.join(","));
            format!(
                "      env:\n        - name: NVIDIA_DRIVER_CAPABILITIES\n          value: {value}\n"
            )
        });
    written
        .notes
        .push("if nvidia is not the default runtime of the nodes, add runtimeClassName: nvidia to the spec".to_owned());
    Some(format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: app\nspec:\n  restartPolicy: Never\n  containers:\n    - name: app\n      image: {image}\n{environment}      resources:\n        limits:\n          nvidia.com/gpu: {count}\n"
    ))
}

/// A text in YAML: plain if no reader can take it for anything else, or else in double quotes, as
/// JSON writes it.
fn scalar(text: &str) -> String {
    const WORDS: [&str; 8] = ["true", "false", "yes", "no", "on", "off", "null", "y"];
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._/-:@".contains(&b))
        && !text.ends_with(':')
        && text.len() > 1
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if is_plain {
        text.to_owned()
    } else {
        text_scalar(text)
    }
}

/// The same, always in quotes: digits stay a text.
fn text_scalar(text: &str) -> String {
    gpusetup_text::text::json(&serde_json::Value::from(text).to_string()).into_owned()
}
