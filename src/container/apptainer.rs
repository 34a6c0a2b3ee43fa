//! Command lines of Apptainer and Singularity: `--nv` gives all GPUs, and variables tell CUDA which of them to use.

use super::asked::{Asked, CommandLine, ENTRYPOINT, Variables, is_requirement};
use super::flags::Flag;
use super::request::{Gpus, Request};
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

/// The request of a command line of Apptainer's or Singularity's.
pub fn asked(mut line: CommandLine, variables: &Variables) -> Result<Asked, Unreadable> {
    let has_gpus = line.flags.iter().any(|flag| ["--nv", "--nvccli"].contains(&flag.name.as_str()));
    if !has_gpus {
        let mut unreadable = Unreadable::new("the command line asks for no GPU").hint("Apptainer gives GPUs with --nv");
        let image = line.image.as_ref().map_or("IMAGE", |image| &image.written);
        unreadable.tries.push(format!("apptainer exec --nv {image} nvidia-smi"));
        return Err(unreadable);
    }
    let mut of_flags = line.flags.iter().filter_map(|flag| {
        let (name, value) = flag.variable()?;
        OF_APPTAINER.contains(&name).then(|| value.map(str::to_owned))?
    });
    let visible = of_flags.next_back().or_else(|| OF_APPTAINER.iter().find_map(|name| variables.get(*name).cloned()));
    let gpus = match visible.filter(|value| !value.is_empty()) {
        Some(value) => Gpus::of_variable(&value)?.unwrap_or(Gpus::All),
        None => Gpus::All,
    };
    let mut notes = Vec::new();
    if let Some(image) = &mut line.image {
        match image.text.strip_prefix("docker://") {
            Some(name) => {
                let written = image.written.strip_prefix("docker://");
                let written = written.map_or_else(|| Word::of(name).written, str::to_owned);
                *image = Word { written, text: name.to_owned(), is_replaced: image.is_replaced };
            }
            None => notes.push(format!(
                "{} is a file of Apptainer's; the other engines need the image it was made of",
                image.text
            )),
        }
    }
    let (variables, others): (Vec<_>, Vec<_>) =
        std::mem::take(&mut line.flags).into_iter().partition(|flag| flag.variable().is_some());
    let is_kept = |flag: &Flag| {
        flag.variable().is_some_and(|(name, _)| !OF_APPTAINER.contains(&name) && name != "CUDA_DEVICE_ORDER")
    };
    line.flags = variables.into_iter().chain(of_environment(&mut line.before)).filter(is_kept).collect();
    line.left_out = others
        .into_iter()
        .map(|flag| flag.name)
        .filter(|name| !["--nv", "--nvccli"].contains(&name.as_str()))
        .collect();
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
    line.before.retain(|word| !OF_APPTAINER.contains(&&*name(word)));
    let requirements = line.flags.iter().filter_map(Flag::variable).filter(|(name, _)| is_requirement(name));
    let requirements = requirements.filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
    let request = Request { requirements, ..Request::of(gpus) };
    Ok(Asked { line, request, from: "apptainer", notes, is_mistaken: false })
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
