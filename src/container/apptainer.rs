//! Command lines of Apptainer and Singularity: `--nv` gives all GPUs, and variables tell CUDA which of them to use.

use super::asked::{Asked, CommandLine, ENTRYPOINT, Variables, is_requirement};
use super::correction;
use super::flags::{Dialect, Flag};
use super::request::{Device, Gpus, Request};
use super::shell_words::Word;
use super::unreadable::Unreadable;

/// The variables by which Apptainer limits CUDA to some GPUs, and with --nvccli the driver.
const OF_APPTAINER: [&str; 5] = [
    "APPTAINERENV_CUDA_VISIBLE_DEVICES",
    "SINGULARITYENV_CUDA_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "APPTAINERENV_NVIDIA_VISIBLE_DEVICES",
];

/// The options that give GPUs.
const OPTIONS: [&str; 2] = ["--nv", "--nvccli"];

/// The variables that are the same as `--nv` and `--nvccli` (cmd/internal/cli/action_flags.go, `EnvKeys`).
const OF_OPTIONS: [&str; 4] = ["APPTAINER_NV", "APPTAINER_NVCCLI", "SINGULARITY_NV", "SINGULARITY_NVCCLI"];

/// What is said of indexes that CUDA counts.
const ORDER: &str = "CUDA numbers the GPUs by their speed without CUDA_DEVICE_ORDER=PCI_BUS_ID, the other engines by their PCI \
                     addresses: with different GPUs in the host, compare the numbers";

/// What Apptainer does without being asked: <https://apptainer.org/docs/user/latest/bind_paths_and_mounts.html>.
const BY_ITSELF: &str = "Apptainer mounts the home directory, /tmp and the working directory, starts there and runs as the \
                         caller. For the same in Docker, add -v \"$HOME\":\"$HOME\" -v \"$PWD\":\"$PWD\" -w \"$PWD\" \
                         -u \"$(id -u):$(id -g)\"";

/// The request of a command line of Apptainer's or Singularity's, whose program is called in this way.
pub fn asked(mut line: CommandLine, program: &Word, variables: &Variables) -> Result<Asked, Unreadable> {
    if !has_option(&line) && !has_variable(variables) {
        return Err(asks_for_none(&line, program));
    }
    line.flags = one_variable_each(line.flags)?;
    let mut of_flags = line.flags.iter().filter_map(|flag| {
        let (name, value) = flag.variable().filter(|(name, _)| OF_APPTAINER.contains(name))?;
        Some((name, value?.to_owned()))
    });
    let of_caller = || OF_APPTAINER.iter().find_map(|name| Some((*name, variables.get(*name)?.clone())));
    let visible = of_flags.next_back().or_else(of_caller).filter(|(_, value)| !value.is_empty());
    let gpus = match &visible {
        Some((_, value)) => Gpus::of_variable(value)?.unwrap_or(Gpus::All),
        None => Gpus::All,
    };
    let mut notes = Vec::new();
    let is_of_cuda = visible.is_some_and(|(name, _)| name.ends_with("CUDA_VISIBLE_DEVICES"));
    let has_index = |devices: &[Device]| devices.iter().any(|device| matches!(device, Device::Index(_)));
    if is_of_cuda
        && matches!(&gpus, Gpus::Devices(devices) if has_index(devices))
        && !is_in_order_of_bus(&line.flags, variables)
    {
        notes.push(ORDER.to_owned());
    }
    if let Some(image) = line.image.take() {
        line.image = of_docker(&image);
        if line.image.is_none() {
            notes.push(format!(
                "only Apptainer reads {}: IMAGE stands for the image that it was made of, which the other engines need",
                image.text
            ));
        }
        line.apptainers_image = Some(image);
    }
    let contains = ["-c", "--contain", "-C", "--containall"];
    if !line.flags.iter().any(|flag| contains.contains(&flag.name.as_str())) {
        notes.push(BY_ITSELF.to_owned());
    }
    let (variables, others): (Vec<_>, Vec<_>) =
        std::mem::take(&mut line.flags).into_iter().partition(|flag| flag.variable().is_some());
    // The order of CUDA's numbers belongs to the choice of GPUs.
    let is_all = gpus == Gpus::All;
    let is_kept = |name: &str| !OF_APPTAINER.contains(&name) && (is_all || name != "CUDA_DEVICE_ORDER");
    let set: Vec<_> = variables.into_iter().chain(of_environment(&mut line.before)).collect();
    let inherited = if is_clean(&others) { Vec::new() } else { inherited(&mut line.before, &set) };
    let variables = inherited.into_iter().chain(set);
    line.flags = variables.filter(|flag| flag.variable().is_some_and(|(name, _)| is_kept(name))).collect();
    line.left_out = others.into_iter().map(|flag| flag.name).filter(|name| !OPTIONS.contains(&name.as_str())).collect();
    match line.verb.first().map(|verb| verb.text.as_str()) {
        // It runs its command in place of the image's entrypoint.
        Some("exec") if !line.arguments.is_empty() => {
            let program = line.arguments.remove(0);
            line.flags.push(Flag::of(ENTRYPOINT, program));
        }
        Some("shell") => {
            notes.push("apptainer shell opens a shell in the container, which the others do not".to_owned())
        }
        _ => {}
    }
    line.verb = vec![Word::of("run")];
    let name = |word: &Word| word.text.split('=').next().unwrap_or_default().to_owned();
    line.before.retain(|word| !OF_APPTAINER.iter().chain(&OF_OPTIONS).any(|known| *known == name(word)));
    let requirements = line.flags.iter().filter_map(Flag::variable).filter(|(name, _)| is_requirement(name));
    let requirements = requirements.filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
    let request = Request { requirements, ..Request::of(gpus) };
    Ok(Asked { line, request, from: "apptainer", notes, is_mistaken: false })
}

fn has_option(line: &CommandLine) -> bool {
    line.flags.iter().any(|flag| OPTIONS.contains(&flag.name.as_str()))
}

/// The refusal of a command line that asks for no GPU, with the same one that asks for all.
fn asks_for_none(line: &CommandLine, program: &Word) -> Unreadable {
    let behind = line.arguments.iter().enumerate().find(|(_, word)| OPTIONS.contains(&word.text.as_str()));
    let moved = behind.and_then(|(at, word)| correction::before_image(line, at, &word.text, Dialect::Apptainer));
    let (hint, line) = moved.unwrap_or_else(|| ("Apptainer gives GPUs with --nv".to_owned(), line.clone()));
    let mut unreadable = Unreadable::new("the command line asks for no GPU").hint(hint);
    unreadable.tries.push(with_nv(&line, program));
    unreadable
}

/// Whether a variable asks for GPUs, by a value that Go's `strconv.ParseBool` takes.
fn has_variable(variables: &Variables) -> bool {
    let is_true = |value: &String| ["1", "t", "T", "true", "True", "TRUE"].contains(&value.trim());
    OF_OPTIONS.iter().any(|name| variables.get(*name).is_some_and(is_true))
}

/// The same command line with all GPUs.
fn with_nv(line: &CommandLine, program: &Word) -> String {
    let of = |words: &[Word]| words.iter().map(|word| word.written.clone()).collect::<Vec<_>>();
    let verb = line.verb.first().map_or_else(|| "exec".to_owned(), |verb| verb.text.clone());
    let mut words = of(&line.before);
    words.extend([program.written.clone(), verb.clone()]);
    words.extend((!has_option(line)).then(|| "--nv".to_owned()));
    words.extend(line.flags.iter().flat_map(|flag| of(&flag.words)));
    words.push(line.image.as_ref().map_or_else(|| "IMAGE".to_owned(), |image| image.written.clone()));
    words.extend(of(&line.arguments));
    if verb == "exec" && line.arguments.is_empty() {
        words.push("nvidia-smi".to_owned());
    }
    words.join(" ")
}

/// The options with one variable each: `--env A=b,C=d` has two. Apptainer's option is a map, whose text is a line of CSV if it
/// has more than one `=` (<https://github.com/spf13/pflag/blob/v1.0.5/string_to_string.go>).
fn one_variable_each(flags: Vec<Flag>) -> Result<Vec<Flag>, Unreadable> {
    let has_several = |value: &&str| value.matches('=').count() > 1 && value.contains(',');
    let mut all = Vec::new();
    for flag in flags {
        let value = flag.value.as_deref().filter(|_| flag.name == "--env").filter(has_several).map(str::to_owned);
        let Some(value) = value else {
            all.push(flag);
            continue;
        };
        let variables: Option<Vec<_>> = value.split(',').map(|variable| variable.split_once('=')).collect();
        let variables = variables.filter(|_| !flag.is_replaced && !value.contains('"')).ok_or_else(|| {
            Unreadable::new(format!("Apptainer divides the value of --env at its commas: {value}"))
                .hint("write --env once for each variable")
        })?;
        all.extend(variables.into_iter().map(|(name, value)| Flag::of_variable(name, value)));
    }
    Ok(all)
}

/// Whether CUDA is told to number the GPUs by their PCI addresses, as `nvidia-smi` does.
fn is_in_order_of_bus(flags: &[Flag], variables: &Variables) -> bool {
    let of_flag = flags.iter().filter_map(Flag::variable).any(|of| of == ("CUDA_DEVICE_ORDER", Some("PCI_BUS_ID")));
    let is_order = |(name, value): (&String, &String)| name.ends_with("CUDA_DEVICE_ORDER") && value == "PCI_BUS_ID";
    of_flag || variables.iter().any(is_order)
}

/// The image of a registry or of Docker's that an address for Apptainer names.
fn of_docker(image: &Word) -> Option<Word> {
    let schemes = ["docker://", "docker-daemon://", "docker-daemon:"];
    let scheme = schemes.into_iter().find(|scheme| image.text.starts_with(*scheme))?;
    let name = image.text.strip_prefix(scheme)?;
    let in_quotes = || Some(format!("\"{}", image.written.strip_prefix('"')?.strip_prefix(scheme)?));
    let written = image.written.strip_prefix(scheme).map(str::to_owned).or_else(in_quotes);
    let written = written.unwrap_or_else(|| Word::of(name).written);
    Some(Word { written, text: name.to_owned(), is_replaced: image.is_replaced })
}

/// Whether the container gets no variables of the caller.
fn is_clean(flags: &[Flag]) -> bool {
    const CLEAN: [&str; 4] = ["-e", "--cleanenv", "-C", "--containall"];
    flags.iter().any(|flag| CLEAN.contains(&flag.name.as_str()))
}

/// Takes out the variables that Apptainer passes on from its caller, as options that do the same. Those in `set` replace them
/// (<https://github.com/apptainer/apptainer/blob/main/internal/pkg/util/env/clean.go>).
fn inherited(before: &mut Vec<Word>, set: &[Flag]) -> Vec<Flag> {
    const NOT_PASSED: [&str; 3] = ["HOME", "PATH", "LD_LIBRARY_PATH"];
    let is_own = |name: &str| ["APPTAINER", "SINGULARITY"].iter().any(|program| name.starts_with(program));
    let is_passed = |name: &str| !NOT_PASSED.contains(&name) && !OF_APPTAINER.contains(&name) && !is_own(name);
    // sudo passes on only those behind it.
    let first = before.iter().rposition(|word| word.text == "sudo").map_or(0, |at| at + 1);
    let (passed, others): (Vec<_>, Vec<_>) =
        before.split_off(first).into_iter().partition(|word| word.assigned().is_some_and(|(name, _)| is_passed(name)));
    before.extend(others);
    let is_set = |name: &str| set.iter().filter_map(Flag::variable).any(|(other, _)| other == name);
    let passed = passed.into_iter().filter(|word| !word.assigned().is_some_and(|(name, _)| is_set(name)));
    passed.map(|word| Flag { name: "--env".to_owned(), ..Flag::of("-e", word) }).collect()
}

/// Takes out the variables that Apptainer sets in the container, as options that do the same.
fn of_environment(before: &mut Vec<Word>) -> Vec<Flag> {
    let (inside, outside): (Vec<_>, Vec<_>) = std::mem::take(before).into_iter().partition(|word| {
        !word.is_replaced && ["APPTAINERENV_", "SINGULARITYENV_"].iter().any(|prefix| word.text.starts_with(prefix))
    });
    *before = outside;
    let variable = |word: &Word| {
        let (name, value) = word.text.split_once('=')?;
        Some(Flag::of_variable(name.split_once('_')?.1, value))
    };
    inside.iter().filter_map(variable).collect()
}
