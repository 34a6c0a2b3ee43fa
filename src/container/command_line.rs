//! Command lines that start a container: what they ask of the GPUs, and everything else in its place.

use super::apptainer;
use super::asked::{Asked, CommandLine, ENTRYPOINT, Engine, Variables, capabilities, is_requirement};
use super::correction;
use super::file_part::unread_variables;
use super::flags::{self, Dialect, Flag};
use super::gpus_value::{self, GpusValue};
use super::request::{Gpus, Request, cdi_name};
use super::shell_words::Word;
use super::unreadable::Unreadable;
use std::collections::BTreeMap;

/// Reads a command line.
///
/// # Errors
///
/// If it starts no container, asks for no GPU, or asks in a way whose meaning is unknown.
pub fn read(words: &[Word]) -> Result<Asked, Unreadable> {
    not_typographic(words)?;
    let (before, variables, rest) = beginning(words);
    let Some(program) = rest.first() else { return read_variables(&variables) };
    // Options alone, as they are quoted in messages.
    if program.text.starts_with('-') {
        let line = CommandLine { before, ..options(rest, Engine::Docker) };
        not_in_typographic_quotes(&line)?;
        return asked(line, &variables);
    }
    let engine = Engine::named(&program.text).ok_or_else(|| unknown_program(&program.text))?;
    let Command { global, verb, behind } = command(engine, &rest[1..])?;
    let line = CommandLine { before, global, verb, ..options(behind, engine) };
    not_in_typographic_quotes(&line)?;
    if engine == Engine::Apptainer {
        return apptainer::asked(line, program, &variables);
    }
    let said = said_of_unpassed(&line, &variables);
    match asked(line, &variables) {
        Ok(mut asked) => {
            asked.notes.extend(said);
            Ok(asked)
        }
        Err(e) => Err(said.into_iter().fold(e, Unreadable::hint)),
    }
}

/// What is said of variables for GPUs before a program that does not give the container the variables of its caller.
fn said_of_unpassed(line: &CommandLine, variables: &Variables) -> Vec<String> {
    let is_about_gpus = |name: &str| name.starts_with("CUDA_") || name.starts_with("NVIDIA_");
    let is_passed = |name: &str| line.passes_environment() || line.names_variable(name);
    let unpassed = variables.iter().filter(|(name, _)| is_about_gpus(name) && !is_passed(name));
    let said = |(name, value): (&String, &String)| {
        format!(
            "{name}={value} has no effect before the program: the container gets only the variables that -e passes on"
        )
    };
    unpassed.map(said).collect()
}

/// Refuses `–gpus`: web pages make a dash of two hyphens, and engines take the word for an image or an argument.
fn not_typographic(words: &[Word]) -> Result<(), Unreadable> {
    let is_dash = |c: char| ('\u{2010}'..='\u{2015}').contains(&c) || c == '\u{2212}';
    let option = |word: &Word| {
        let name = word.text.trim_start_matches(|c| c == '-' || is_dash(c));
        let dash = word.text[..word.text.len() - name.len()].chars().find(|c| is_dash(*c))?;
        let name = name.split('=').next().filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))?;
        Some((word.text.clone(), dash, name.to_owned()))
    };
    let Some((text, dash, name)) = words.iter().find_map(option) else { return Ok(()) };
    let hyphens = if name.len() > 1 { "--" } else { "-" };
    let says = format!("{text} begins with a dash (U+{:04X}), which a web page made of hyphens", u32::from(dash));
    Err(Unreadable::new(says).hint(format!("type it with the hyphens of the keyboard: {hyphens}{name}")))
}

/// Refuses `“--gpus”` and the like before the arguments: shells take the quotes of web pages for characters of the word.
fn not_in_typographic_quotes(line: &CommandLine) -> Result<(), Unreadable> {
    let flags = line.flags.iter().filter(|flag| flag.name != "--gpus").flat_map(|flag| &flag.words);
    let is_quoted = |word: &&Word| word.text.starts_with(['“', '”', '‘', '’']);
    match flags.chain(&line.image).find(is_quoted) {
        Some(word) => Err(Unreadable::new(format!("{} begins with a typographic quote", word.text))
            .hint("use the quotes of the keyboard, ' and \"; a web page replaced them")),
        None => Ok(()),
    }
}

/// `sudo -E NV_GPU=0`: what is before the program. `NV_GPU` is no longer among the words.
fn beginning(words: &[Word]) -> (Vec<Word>, Variables, &[Word]) {
    let (mut kept, mut variables, mut at) = (Vec::new(), Variables::new(), 0);
    while let Some(word) = words.get(at) {
        match (word.assigned(), word.text.as_str()) {
            (Some((name, value)), _) => {
                variables.insert(name.to_owned(), value.to_owned());
                if name != "NV_GPU" {
                    kept.push(word.clone());
                }
            }
            (None, "sudo" | "env" | "exec" | "time") => kept.push(word.clone()),
            // Options of sudo; the user of -u is the word behind it.
            (None, option) if option.starts_with('-') && !kept.is_empty() && is_sudo(&kept) => {
                kept.push(word.clone());
                if ["-u", "-g", "--user", "--group"].contains(&option) {
                    at += 1;
                    kept.extend(words.get(at).cloned());
                }
            }
            (None, _) => break,
        }
        at += 1;
    }
    (kept, variables, words.get(at..).unwrap_or_default())
}

fn is_sudo(words: &[Word]) -> bool {
    words.iter().any(|word| word.text == "sudo")
}

/// Variables without a command: `NVIDIA_VISIBLE_DEVICES=0,1`.
fn read_variables(variables: &Variables) -> Result<Asked, Unreadable> {
    let of_gpus = |name: &str| name.starts_with("NVIDIA_");
    let flags: Vec<_> =
        variables.iter().filter(|(name, _)| of_gpus(name)).map(|(n, v)| Flag::of_variable(n, v)).collect();
    let engine = if variables.contains_key("NV_GPU") { Engine::NvidiaDocker } else { Engine::Docker };
    if flags.is_empty() && engine == Engine::Docker {
        return Err(Unreadable::new("there is no command line to translate").hint(HOW));
    }
    let line = CommandLine { flags, ..options(&[], engine) };
    asked(line, variables)
}

/// What is typed.
const HOW: &str = "give a command line in quotes, or a Compose or Kubernetes file: gpusetup container translate 'docker run --gpus all IMAGE'";

fn options(words: &[Word], engine: Engine) -> CommandLine {
    let dialect = if engine == Engine::Apptainer { Dialect::Apptainer } else { Dialect::Docker };
    let (mut flags, count) = flags::read(words, dialect);
    let of_entrypoint = if engine == Engine::Podman { divide_entrypoint(&mut flags) } else { Vec::new() };
    let arguments = words.get(count + 1..).unwrap_or_default();
    CommandLine {
        before: Vec::new(),
        engine,
        global: Vec::new(),
        verb: vec![Word::of("run")],
        at: 0,
        flags,
        image: words.get(count).cloned(),
        apptainers_image: None,
        arguments: of_entrypoint.into_iter().chain(arguments.iter().cloned()).collect(),
        left_out: Vec::new(),
    }
}

/// Podman takes an entrypoint of several words as a list in JSON (podman-run(1)). The others take the first word, and the rest before
/// the arguments: those words.
fn divide_entrypoint(flags: &mut [Flag]) -> Vec<Word> {
    let Some(flag) = flags.iter_mut().rfind(|flag| flag.name == ENTRYPOINT && !flag.is_replaced) else {
        return Vec::new();
    };
    let list: Option<Vec<String>> = flag.value.as_deref().and_then(|value| serde_json::from_str(value).ok());
    let Some(list) = list else { return Vec::new() };
    let mut words = list.into_iter().map(Word::of);
    *flag = Flag::of(ENTRYPOINT, words.next().unwrap_or_else(|| Word::of(String::new())));
    words.collect()
}

fn unknown_program(program: &str) -> Unreadable {
    let unreadable = Unreadable::new(format!("{program:?} is no container engine that gpusetup knows")).hint(
        "command lines of docker, nvidia-docker, podman, nerdctl, apptainer and singularity are read, and files of Compose and Kubernetes",
    );
    match program.rsplit('/').next() {
        Some("docker-compose" | "podman-compose" | "kubectl" | "oc" | "k3s") => {
            unreadable.hint("give the file: gpusetup container translate compose.yaml")
        }
        _ => unreadable,
    }
}

/// The words behind a program, divided.
struct Command<'a> {
    /// The program's own options.
    global: Vec<Word>,
    /// `run`, `create` or `container run`.
    verb: Vec<Word>,
    behind: &'a [Word],
}

fn command(engine: Engine, words: &[Word]) -> Result<Command<'_>, Unreadable> {
    let verbs: &[&str] = match engine {
        Engine::Apptainer => &["run", "exec", "shell"],
        _ => &["run", "create"],
    };
    let mut global: Vec<Word> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let is_verb = |word: Option<&Word>| word.is_some_and(|word| verbs.contains(&word.text.as_str()));
        if is_verb(Some(word)) {
            return Ok(Command { global, verb: vec![word.clone()], behind: &words[at + 1..] });
        }
        if word.text == "container" && is_verb(words.get(at + 1)) {
            return Ok(Command { global, verb: words[at..at + 2].to_vec(), behind: &words[at + 2..] });
        }
        let is_value = global.last().is_some_and(|last| last.text.starts_with('-') && !last.text.contains('='));
        if !word.text.starts_with('-') && !is_value {
            let unreadable = Unreadable::new(format!("{:?} starts no container: only run and create do", word.text));
            return Err(match word.text.as_str() {
                "compose" => unreadable.hint("give the file: gpusetup container translate compose.yaml"),
                "build" => {
                    unreadable.hint("an image is built without GPUs; they are given to the containers that run it")
                }
                _ => unreadable,
            });
        }
        global.push(word.clone());
    }
    Err(Unreadable::new("the command line starts no container: it has no run and no create").hint(HOW))
}

/// What the options ask for, one field for each way of asking.
#[derive(Default)]
struct Ways {
    gpus: Option<GpusValue>,
    has_runtime: bool,
    devices: Vec<String>,
    visible: Option<String>,
    capabilities: Option<Vec<String>>,
    requirements: BTreeMap<String, String>,
}

/// The request of a command line in Docker's manner.
fn asked(line: CommandLine, variables: &Variables) -> Result<Asked, Unreadable> {
    let all = line.clone();
    let (line, ways) = divided(line, variables)?;
    let of_image = line.image.as_ref().filter(|image| correction::may_be_options(image, &line.arguments));
    let said = |image: &Word| format!("{} is taken for the image: if it has options, write their values", image.text);
    let mut notes: Vec<_> = of_image.map(said).into_iter().collect();
    let Some((gpus, from, is_mistaken)) = chosen(&line, &ways, variables, &mut notes)? else {
        not_of_shell(&line, "--runtime")?;
        return Err(correction::asks_for_none(&all, ways.gpus.is_some(), ways.visible.as_deref()));
    };
    let of_flag = ways.gpus.and_then(|value| value.capabilities);
    let request = Request { gpus, capabilities: of_flag.or(ways.capabilities), requirements: ways.requirements };
    Ok(Asked { line, request, from, notes, is_mistaken })
}

/// Takes the request out of the options. Requirements stay: in every form they are variables.
fn divided(mut line: CommandLine, variables: &Variables) -> Result<(CommandLine, Ways), Unreadable> {
    let (mut ways, mut kept, mut at) = (Ways::default(), Vec::new(), None);
    for flag in std::mem::take(&mut line.flags) {
        if takes(&flag, &mut ways, variables)? {
            at.get_or_insert(kept.len());
            kept.extend(flag.without_value());
        } else {
            kept.push(flag);
        }
    }
    line.at = at.unwrap_or(0);
    line.flags = kept;
    Ok((line, ways))
}

/// Refuses an option whose value the shell replaces.
fn not_of_shell(line: &CommandLine, name: &str) -> Result<(), Unreadable> {
    match line.flags.iter().find(|flag| flag.name == name && flag.is_replaced) {
        Some(flag) => Err(replaced_by_shell(name, flag)),
        None => Ok(()),
    }
}

fn replaced_by_shell(what: &str, flag: &Flag) -> Unreadable {
    let value = flag.value.as_deref().unwrap_or_default();
    Unreadable::new(format!("the value of {what} is replaced by the shell: {value}"))
        .hint("write the value itself: gpusetup does not know the shell's variables")
}

/// Whether an option is a part of the request.
fn takes(flag: &Flag, ways: &mut Ways, variables: &Variables) -> Result<bool, Unreadable> {
    let known = |what: &str| match flag.is_replaced {
        true => Err(replaced_by_shell(what, flag)),
        false => Ok(()),
    };
    match (flag.name.as_str(), flag.value.as_deref()) {
        ("--gpus", value) => {
            known("--gpus")?;
            let value = value.ok_or_else(|| Unreadable::new("--gpus has no value").hint("write --gpus all"))?;
            if ways.gpus.is_some() {
                return Err(Unreadable::new("--gpus is there twice"));
            }
            ways.gpus = Some(gpus_value::read(value)?);
            Ok(true)
        }
        ("--runtime", Some(value)) if is_nvidias_runtime(value) => {
            ways.has_runtime = true;
            Ok(true)
        }
        ("--device", Some(value)) => match cdi_name(value) {
            Some(name) => {
                known("--device")?;
                ways.devices.push(name.to_owned());
                Ok(true)
            }
            None => Ok(false),
        },
        ("--env", _) => takes_variable(flag, ways, variables, &known),
        _ => Ok(false),
    }
}

/// Whether a runtime is NVIDIA's, by its name in the engine's configuration or by the path of its program, which Podman takes.
fn is_nvidias_runtime(value: &str) -> bool {
    const NAMES: [&str; 6] = [
        "nvidia",
        "nvidia-cdi",
        "nvidia-container-runtime",
        "nvidia-container-runtime.cdi",
        "nvidia-container-runtime.legacy",
        "nvidia-legacy",
    ];
    NAMES.contains(&value.rsplit('/').next().unwrap_or(value))
}

fn takes_variable(
    flag: &Flag,
    ways: &mut Ways,
    variables: &Variables,
    known: &dyn Fn(&str) -> Result<(), Unreadable>,
) -> Result<bool, Unreadable> {
    let Some((name, value)) = flag.variable() else { return Ok(false) };
    let is_about_gpus = ["NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"].contains(&name);
    if !is_about_gpus && !is_requirement(name) {
        return Ok(false);
    }
    known(name)?;
    // Without a value it has that of the shell.
    let value = value.map(str::to_owned).or_else(|| variables.get(name).cloned());
    let value = value.ok_or_else(|| {
        Unreadable::new(format!("the value of {name} is not known: the option takes it from the shell"))
            .hint(format!("write it: -e {name}=all"))
    })?;
    match name {
        "NVIDIA_VISIBLE_DEVICES" => ways.visible = Some(value),
        "NVIDIA_DRIVER_CAPABILITIES" => ways.capabilities = capabilities(&value),
        _ => {
            ways.requirements.insert(name.to_owned(), value);
            return Ok(false);
        }
    }
    Ok(true)
}

/// The GPUs that are asked for, the form, and whether the engine refuses it as it is written.
fn chosen(
    line: &CommandLine,
    ways: &Ways,
    variables: &Variables,
    notes: &mut Vec<String>,
) -> Result<Option<(Gpus, &'static str, bool)>, Unreadable> {
    let engine = line.engine;
    let nv_gpu = variables.get("NV_GPU").filter(|value| !value.is_empty());
    match nv_gpu {
        Some(value) if engine != Engine::NvidiaDocker => {
            notes.push(format!("NV_GPU={value} has no effect: only the program nvidia-docker reads it"));
        }
        Some(value) if ways.gpus.is_some() || !ways.devices.is_empty() => {
            notes.push(format!("NV_GPU={value} has no effect beside --gpus and CDI devices, and is left out"));
        }
        _ => {}
    }
    if let Some(value) = &ways.gpus {
        if let Some(visible) = &ways.visible {
            notes.push(format!("NVIDIA_VISIBLE_DEVICES={visible} has no effect beside --gpus, and is left out"));
        }
        if engine == Engine::Podman {
            notes.push("older versions of Podman ignore --gpus".to_owned());
        }
        notes.extend(value.correction.clone().into_iter().chain(value.driver.clone()));
        let from = form_of(engine, "docker");
        return Ok(value.gpus.clone().map(|gpus| (gpus, from, value.correction.is_some())));
    }
    if !ways.devices.is_empty() {
        if let Some(visible) = &ways.visible {
            notes.push(format!("NVIDIA_VISIBLE_DEVICES={visible} has no effect beside CDI devices, and is left out"));
        }
        let gpus = match ways.devices.iter().any(|name| name == "all") {
            true => Gpus::All,
            false => Gpus::of_names(&ways.devices)?,
        };
        return Ok(Some((gpus, form_of(engine, "cdi"), false)));
    }
    // The older wrapper passed several GPUs with blanks between them, too.
    let nv_gpu = nv_gpu.filter(|_| engine == Engine::NvidiaDocker).map(|value| value.replace(' ', ","));
    let runtime = form_of(engine, "runtime");
    if let Some(visible) = nv_gpu.as_ref().or(ways.visible.as_ref()) {
        let has_hooks = line.flags.iter().any(|flag| flag.name == correction::HOOKS);
        if !ways.has_runtime && !has_hooks && engine != Engine::NvidiaDocker {
            notes.push(
                "without --runtime=nvidia the variable has an effect only if nvidia is the engine's default runtime"
                    .to_owned(),
            );
        }
        return Ok(Gpus::of_variable(visible)?.map(|gpus| (gpus, runtime, false)));
    }
    if ways.has_runtime || engine == Engine::NvidiaDocker {
        notes.push(
            "the command line names no GPUs, so the image does: NVIDIA's CUDA images ask for all of them".to_owned(),
        );
        let files = line.flags.iter().filter(|flag| flag.name == "--env-file");
        notes.extend(unread_variables(files.filter_map(|flag| flag.value.as_deref())));
        return Ok(Some((Gpus::All, runtime, false)));
    }
    Ok(None)
}

/// The form's name: Docker has several, the others one for each.
fn form_of(engine: Engine, of_docker: &'static str) -> &'static str {
    match engine {
        Engine::NvidiaDocker => "nvidia-docker",
        Engine::Podman => "podman",
        Engine::Nerdctl => "nerdctl",
        Engine::Docker | Engine::Apptainer | Engine::File => of_docker,
    }
}
