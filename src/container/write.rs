//! How a request is written in each form of a command line.

use super::asked::{CommandLine, ENTRYPOINT, Engine};
use super::flags::Flag;
use super::form::{
    Form, Written, leave_out_flags, names, no_profile, variables, variables_of_shell_too, visible, without_value,
};
use super::gpus_value::{self, CAPABILITIES};
use super::podmans_values;
use super::request::{Device, Gpus, Request};
use super::shell_words::Word;
use super::write_file;
use crate::text::quoted;

/// Writes a request. Files call the container by its name; `app` if it has none.
pub fn write(line: &CommandLine, request: &Request, form: Form, name: Option<&str>) -> Written {
    let mut written = Written::new(form);
    let whole = without_shares(request, &mut written);
    let request = whole.as_ref().unwrap_or(request);
    written.text = match form {
        Form::Docker | Form::Nerdctl => gpus_flag(line, request, &mut written),
        Form::Runtime => runtime(line, request, &mut written),
        Form::Cdi | Form::Podman => cdi(line, request, &mut written),
        Form::Compose | Form::ComposeGpus | Form::ComposeRuntime => {
            write_file::compose(line, request, name, &mut written)
        }
        Form::Kubernetes => write_file::kubernetes(line, request, name, &mut written),
        Form::Apptainer => apptainer(line, request, &mut written),
        Form::Slurm => slurm(line, request, &mut written),
    };
    if written.text.is_some() && !line.left_out.is_empty() {
        written.differs(format!("left out, carry them over yourself: {}", line.left_out.join(", ")));
    }
    if written.text.is_some() && line.image.is_none() && line.apptainers_image.is_none() {
        written.notes.push("IMAGE stands for the image, which was not given".to_owned());
    }
    written
}

/// The request for a whole GPU in place of shares, which only Kubernetes has; none if it asks for no shares.
fn without_shares(request: &Request, written: &mut Written) -> Option<Request> {
    if written.form == Form::Kubernetes || !matches!(request.gpus, Gpus::Shares(_)) {
        return None;
    }
    written.differs(
        "only Kubernetes shares a GPU among containers (nvidia.com/gpu.shared, by time slicing or MPS): this asks for a whole one",
    );
    Some(Request { gpus: Gpus::Count(1), ..request.clone() })
}

fn gpus_flag(line: &CommandLine, request: &Request, written: &mut Written) -> Option<String> {
    let program = if written.form == Form::Nerdctl { "nerdctl" } else { "docker" };
    let named = request.capabilities.as_deref().unwrap_or_default();
    // The word `all` and capabilities that Docker does not know select no driver.
    let in_flag = named.iter().all(|name| CAPABILITIES.contains(&name.as_str()));
    match &request.gpus {
        Gpus::Profiles(_) => return no_profile(written),
        Gpus::DriverOnly => {
            written.differs("--gpus has no word for the driver without a GPU");
            return None;
        }
        _ => {}
    }
    let value = gpus_value::written(&request.gpus, if in_flag { named } else { &[] })?;
    let mut words = vec!["--gpus".to_owned(), value];
    if !in_flag {
        words.extend(variable("NVIDIA_DRIVER_CAPABILITIES", &named.join(",")));
    }
    Some(command(line, program, &words, written))
}

fn variable(name: &str, value: &str) -> [String; 2] {
    ["-e".to_owned(), quoted(&format!("{name}={value}"))]
}

fn runtime(line: &CommandLine, request: &Request, written: &mut Written) -> Option<String> {
    let mut words = vec!["--runtime=nvidia".to_owned()];
    words.extend(variable("NVIDIA_VISIBLE_DEVICES", &visible(&request.gpus, written)?));
    if let Some(capabilities) = &request.capabilities {
        words.extend(variable("NVIDIA_DRIVER_CAPABILITIES", &capabilities.join(",")));
    }
    Some(command(line, "docker", &words, written))
}

fn cdi(line: &CommandLine, request: &Request, written: &mut Written) -> Option<String> {
    if request.gpus == Gpus::DriverOnly {
        written.differs("CDI has no device for the driver without a GPU");
        return None;
    }
    let names = names_in_cdi(&request.gpus, written)?;
    let words: Vec<_> =
        names.iter().flat_map(|name| ["--device".to_owned(), format!("nvidia.com/gpu={name}")]).collect();
    if request.capabilities.is_some() {
        written.differs(
            "CDI has no driver capabilities: the container gets all parts of the driver that the specification lists",
        );
    }
    if !request.requirements.is_empty() {
        written.notes.push("engines do not check NVIDIA_REQUIRE_* for CDI devices".to_owned());
    }
    let program = match written.form {
        Form::Podman => {
            written.notes.push("on a host with SELinux, add --security-opt=label=disable".to_owned());
            "podman"
        }
        _ => {
            written
                .notes
                .push("the daemon must have CDI enabled; `docker info` shows its CDI spec directories".to_owned());
            "docker"
        }
    };
    Some(command(line, program, &words, written))
}

/// The names of CDI devices. nvidia-ctk gives them indexes and whole UUIDs (`--device-name-strategy` of `nvidia-ctk cdi generate`), and
/// CDI has no names with a slash.
fn names_in_cdi(gpus: &Gpus, written: &mut Written) -> Option<Vec<String>> {
    const UUID: usize = "b8ea3855-276c-c9cb-b366-c6fa655957c5".len();
    let is_device = |name: &str| match name.split_once('-') {
        Some((_, uuid)) => uuid.len() == UUID && !uuid.contains('/'),
        None => true,
    };
    let names = names(gpus, written)?;
    if let Some(name) = names.iter().find(|name| !is_device(name)) {
        written.differs(format!(
            "CDI has no device {name}: nvidia-ctk names devices by their index (0, 0:1) and by their whole UUID (GPU-…, MIG-…), as \
             `nvidia-ctk cdi list` shows"
        ));
        return None;
    }
    Some(names)
}

/// Docker's options that Podman lacks: the reference of `docker run` (29.7.2) without podman-run(1) (5.8.2), which lists
/// --link-local-ip as not implemented.
const NOT_PODMANS: [&str; 11] = [
    "--cpu-count",
    "--cpu-percent",
    "--domainname",
    "--health-start-interval",
    "--io-maxbandwidth",
    "--io-maxiops",
    "--isolation",
    "--link",
    "--link-local-ip",
    "--use-api-socket",
    "--volume-driver",
];

/// Docker's options that nerdctl lacks, as its command reference says at the end of `nerdctl run` (2.3.4).
const NOT_NERDCTLS: [&str; 7] = [
    "--device-cgroup-rule",
    "--disable-content-trust",
    "--health-start-interval",
    "--link",
    "--link-local-ip",
    "--storage-opt",
    "--volume-driver",
];

/// Podman's options that Docker lacks: podman-run(1) (5.8.2) without the reference of `docker run` (29.7.2).
const PODMANS_ALONE: [&str; 61] = [
    "--arch",
    "--authfile",
    "--cert-dir",
    "--cgroup-conf",
    "--cgroups",
    "--chrootdirs",
    "--conmon-pidfile",
    "--creds",
    "--decryption-key",
    "--env-host",
    "--env-merge",
    "--gidmap",
    "--group-entry",
    "--health-log-destination",
    "--health-max-log-count",
    "--health-max-log-size",
    "--health-on-failure",
    "--health-startup-cmd",
    "--health-startup-interval",
    "--health-startup-retries",
    "--health-startup-success",
    "--health-startup-timeout",
    "--hosts-file",
    "--hostuser",
    "--http-proxy",
    "--image-volume",
    "--init-path",
    "--no-hostname",
    "--no-hosts",
    "--os",
    "--passwd",
    "--passwd-entry",
    "--personality",
    "--pidfile",
    "--pod",
    "--pod-id-file",
    "--preserve-fd",
    "--preserve-fds",
    "--rdt-class",
    "--read-only-tmpfs",
    "--replace",
    "--requires",
    "--retry",
    "--retry-delay",
    "--rmi",
    "--rootfs",
    "--sdnotify",
    "--seccomp-policy",
    "--secret",
    "--shm-size-systemd",
    "--subgidname",
    "--subuidname",
    "--systemd",
    "--timeout",
    "--tls-verify",
    "--tz",
    "--uidmap",
    "--umask",
    "--unsetenv",
    "--unsetenv-all",
    "--variant",
];

/// Those of them that nerdctl has, as its command reference says (2.3.4).
const NERDCTLS_TOO: [&str; 6] = ["--cgroup-conf", "--pidfile", "--rdt-class", "--rootfs", "--systemd", "--umask"];

/// Podman's own options that it also reads behind `run`: podman(1) (6.0), and the persistent ones of
/// <https://github.com/containers/podman/blob/main/cmd/podman/root.go>. Docker reads its own only before `run`, and they are others.
const PODMANS_GLOBAL: [&str; 19] = [
    "--cdi-spec-dir",
    "--cgroup-manager",
    "--cni-config-dir",
    "--conmon",
    "--events-backend",
    "--hooks-dir",
    "--imagestore",
    "--log-level",
    "--network-cmd-path",
    "--network-config-dir",
    "--root",
    "--runroot",
    "--runtime-flag",
    "--storage-driver",
    "--storage-opt",
    "--syslog",
    "--tmpdir",
    "--transient-store",
    "--volumepath",
];

/// Whether an option behind `run` is one of Podman's own.
fn is_podmans_global(engine: Engine, flag: &Flag) -> bool {
    engine == Engine::Podman && PODMANS_GLOBAL.contains(&flag.name.as_str())
}

/// The options by which containers find each other.
const LINKS: [&str; 2] = ["--link", "--link-local-ip"];

/// An option that the program lacks, as it is named, or one with a value that only Podman knows. The `--userns` of Docker and
/// nerdctl takes `host` alone, and Docker's `--runtime` the names in its `daemon.json` and `runc`.
fn lacking(program: &str, engine: Engine, flag: &Flag) -> Option<String> {
    let name = flag.name.as_str();
    let of_podman = engine == Engine::Podman;
    let is_podmans = of_podman && PODMANS_ALONE.contains(&name);
    let lacks = match program {
        "podman" => NOT_PODMANS.contains(&name) && !of_podman,
        "nerdctl" => NOT_NERDCTLS.contains(&name) || is_podmans && !NERDCTLS_TOO.contains(&name),
        _ => is_podmans,
    };
    let is_unknown_runtime = |value: &str| name == "--runtime" && program == "docker" && value != "runc";
    let has_podmans_value = |value: &str| {
        name == "--userns" && value != "host" || is_unknown_runtime(value) || podmans_values::has_one(flag)
    };
    match flag.value.as_deref() {
        Some(value) if program != "podman" && of_podman && has_podmans_value(value) => Some(format!("{name}={value}")),
        _ => lacks.then(|| name.to_owned()),
    }
}

/// The options that the program has. The others are named.
fn options_of(program: &str, line: &CommandLine, written: &mut Written) -> (Vec<Flag>, Vec<Flag>) {
    let lacking = |flag: &Flag| lacking(program, line.engine, flag);
    let has_podmans_modes = line.engine == Engine::Podman && program != "podman";
    let without_modes = |flag: &Flag| podmans_values::without_modes(flag, program).filter(|_| has_podmans_modes);
    let named = |flag: &Flag| lacking(flag).or_else(|| Some(without_modes(flag)?.1));
    let mut names: Vec<_> = line.flags.iter().filter_map(named).collect();
    names.dedup();
    if !names.is_empty() {
        let instead = match names.iter().any(|name| LINKS.contains(&name.as_str())) {
            true => ". Containers of one network find each other by their names",
            false => "",
        };
        written.differs(format!("left out, because {program} has no such option: {}{instead}", names.join(", ")));
    }
    let adapted = |flag: &Flag| without_modes(flag).map_or_else(|| flag.clone(), |(flag, _)| flag);
    let is_kept =
        |flag: &&Flag| lacking(flag).is_none() && (program == "podman" || !is_podmans_global(line.engine, flag));
    let kept = |flags: &[Flag]| flags.iter().filter(is_kept).map(adapted).collect();
    let (before, behind) = line.flags.split_at(line.at);
    (kept(before), kept(behind))
}

/// The image with its registry: Docker takes a short name for one of Docker Hub, and Podman for what the host's registries.conf says.
fn image_of_hub(image: &Word) -> Option<String> {
    let text = &image.text;
    let is_registry = |first: &str| first.contains(['.', ':']) || first == "localhost";
    match text.split_once('/') {
        _ if text.starts_with(['$', '`', '.', '/', '~']) || text.contains("://") => None,
        Some((first, _)) if is_registry(first) => None,
        Some(_) => Some(format!("docker.io/{}", image.written)),
        None => Some(format!("docker.io/library/{}", image.written)),
    }
}

/// The command line with another program, and with these words in the place of the request.
fn command(line: &CommandLine, program: &str, gpus: &[String], written: &mut Written) -> String {
    let same = match line.engine {
        Engine::Docker | Engine::NvidiaDocker => program == "docker",
        Engine::Podman => program == "podman",
        Engine::Nerdctl => program == "nerdctl",
        Engine::Apptainer | Engine::File => false,
    };
    let behind_verb =
        line.flags.iter().filter(|flag| is_podmans_global(line.engine, flag)).flat_map(|flag| &flag.words);
    let global: Vec<_> = line.global.iter().chain(behind_verb).map(|word| word.text.as_str()).collect();
    if !same && !global.is_empty() {
        written.differs(format!("left out, because they are options of another program: {}", global.join(" ")));
    }
    let of = |words: &[Word]| words.iter().map(|word| word.written.clone()).collect::<Vec<_>>();
    let flags = |flags: &[Flag]| flags.iter().flat_map(|flag| of(&flag.words)).collect::<Vec<_>>();
    let (before, behind) = options_of(program, line, written);
    let of_hub = line.image.as_ref().filter(|_| program == "podman" && !same).and_then(image_of_hub);
    if of_hub.is_some() {
        written.notes.push("an image that was built on this host is localhost/NAME for Podman".to_owned());
    }
    let image = line.image.as_ref().map_or_else(|| "IMAGE".to_owned(), |image| image.written.clone());
    let image = of_hub.unwrap_or(image);
    let parts = [
        of(&line.before),
        vec![program.to_owned()],
        if same { of(&line.global) } else { Vec::new() },
        of(&line.verb),
        flags(&before),
        gpus.to_vec(),
        flags(&behind),
        vec![image],
        of(&line.arguments),
    ];
    parts.concat().join(" ")
}

/// <https://apptainer.org/docs/user/latest/gpu.html>: `--nv` gives all GPUs, and CUDA is told which to use.
fn apptainer(line: &CommandLine, request: &Request, written: &mut Written) -> Option<String> {
    let visible = match &request.gpus {
        Gpus::All => None,
        Gpus::Count(_) => Some(names(&request.gpus, written)?.join(",")),
        Gpus::DriverOnly => {
            written.differs("--nv gives all GPUs with the driver");
            return None;
        }
        Gpus::Profiles(_) | Gpus::Shares(_) => return no_profile(written),
        Gpus::Devices(devices) if devices.iter().any(|device| matches!(device, Device::Instance(..))) => {
            written.differs("CUDA knows MIG devices only by their UUID: MIG-…, as `nvidia-smi -L` lists it");
            return None;
        }
        Gpus::Devices(devices) => Some(devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")),
    };
    if request.capabilities.is_some() {
        written.differs("--nv has no driver capabilities: the container gets all parts of the driver");
    }
    if !request.requirements.is_empty() {
        written.notes.push("Apptainer does not check NVIDIA_REQUIRE_*".to_owned());
    }
    let (variables, of_shell) = variables_by_source(line, written);
    let inner = variables.iter().rfind(|(name, _)| *name == "CUDA_VISIBLE_DEVICES").map(|(_, value)| *value);
    let visible = match (visible, inner) {
        (Some(outer), Some(inner)) => Some(chosen_again(&outer, inner, written)?),
        (visible, _) => visible,
    };
    let is_set = visible.is_some();
    let is_choice = |name: &str| ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"].contains(&name);
    let mut words = before_apptainer(line, &of_shell);
    of_shell.iter().filter(|name| is_set && is_choice(name)).for_each(|name| without_value(name, written));
    if let Some(visible) = visible {
        // Its own order of GPUs is by speed: indexes would mean other ones.
        words.push("APPTAINERENV_CUDA_DEVICE_ORDER=PCI_BUS_ID".to_owned());
        words.push(format!("APPTAINERENV_CUDA_VISIBLE_DEVICES={visible}"));
        written
            .notes
            .push("only CUDA programs keep to these GPUs; the device files of all are in the container".to_owned());
    }
    for (name, value) in variables.into_iter().filter(|(name, _)| !(is_set && is_choice(name))) {
        words.push(format!("APPTAINERENV_{name}={}", quoted(value)));
    }
    leave_out_flags(line, &[ENTRYPOINT], written);
    // `exec` runs a command in place of the image's entrypoint.
    let command = line.whole_command();
    if command.as_ref().is_some_and(Vec::is_empty) {
        written.differs("apptainer exec needs the command that the container runs, and none is given");
        return None;
    }
    let verb = if command.is_some() { "exec" } else { "run" };
    words.extend(["apptainer", verb, "--nv"].map(str::to_owned));
    words.push(match (&line.apptainers_image, &line.image) {
        (Some(image), _) => image.written.clone(),
        // What ends like this is a file already.
        (None, Some(image)) if image.text.ends_with(".sif") || image.text.contains("://") => image.written.clone(),
        (None, Some(image)) => format!("docker://{}", image.written),
        (None, None) => "docker://IMAGE".to_owned(),
    });
    words.extend(command.as_ref().unwrap_or(&line.arguments).iter().map(|word| word.written.clone()));
    Some(words.join(" "))
}

/// The variables that options set, and those that they pass on from the shell.
fn variables_by_source<'a>(line: &'a CommandLine, written: &mut Written) -> (Vec<(&'a str, &'a str)>, Vec<&'a str>) {
    let (mut set, mut of_shell) = (Vec::new(), Vec::new());
    for (name, value) in variables_of_shell_too(line, written) {
        match value {
            Some(value) => set.push((name, value)),
            None => of_shell.push(name),
        }
    }
    (set, of_shell)
}

/// What is before the program. Apptainer gives the container all variables of its caller, so those stay that it gets in the
/// form that was read (<https://apptainer.org/docs/user/latest/environment_and_metadata.html>).
fn before_apptainer(line: &CommandLine, of_shell: &[&str]) -> Vec<String> {
    let is_kept = |name: &str| line.passes_environment() || of_shell.contains(&name);
    let kept = line.before.iter().filter(|word| word.assigned().is_none_or(|(name, _)| is_kept(name)));
    kept.map(|word| word.written.clone()).collect()
}

/// The GPUs among `outer`, which the engine gives, that `CUDA_VISIBLE_DEVICES` names inside the container, where it counts from 0.
/// Apptainer has one list for both.
fn chosen_again(outer: &str, inner: &str, written: &mut Written) -> Option<String> {
    let devices: Vec<_> = outer.split(',').collect();
    let device = |index: &str| devices.get(index.trim().parse::<usize>().ok()?).copied();
    let chosen: Option<Vec<_>> = inner.split(',').map(device).collect();
    if chosen.is_none() {
        written.differs(format!(
            "CUDA_VISIBLE_DEVICES={inner} must choose among the container's GPUs by their numbers, 0 to {}",
            devices.len() - 1
        ));
    }
    Some(chosen?.join(","))
}

/// The option that names the image, as a word for a shell. pyxis divides the registry from the image by `#`
/// (<https://github.com/NVIDIA/pyxis/wiki/Usage>).
fn image_of_pyxis(image: Option<&Word>, written: &mut Written) -> String {
    let Some(image) = image else { return "--container-image=IMAGE".to_owned() };
    let registry = image.text.split_once('/').map(|(registry, _)| registry);
    let has_registry = registry.is_some_and(|registry| registry.contains(['.', ':']) && !registry.contains('$'));
    let named = |name: &str| if has_registry { name.replacen('/', "#", 1) } else { name.to_owned() };
    if !image.is_replaced {
        return quoted(&format!("--container-image={}", named(&image.text)));
    }
    if image.text.starts_with(['$', '`']) {
        written
            .notes
            .push(format!("if {} begins with a registry, pyxis needs # in place of the / behind it", image.text));
    }
    format!("--container-image={}", named(&image.written))
}

fn slurm(line: &CommandLine, request: &Request, written: &mut Written) -> Option<String> {
    let count = match &request.gpus {
        Gpus::All => {
            written.differs("Slurm asks for a number of GPUs: srun --nodes=1 --gpus=NUMBER");
            return None;
        }
        Gpus::DriverOnly => {
            written.differs("Slurm has no word for the driver without a GPU");
            return None;
        }
        Gpus::Profiles(_) | Gpus::Shares(_) => return no_profile(written),
        Gpus::Devices(devices) if devices.iter().any(Device::is_instance) => {
            written.differs("Slurm asks for MIG devices by the names that the site gave them in gres.conf");
            return None;
        }
        Gpus::Devices(devices) => {
            written.differs(format!("Slurm chooses the GPUs: it cannot be asked for {}", request.gpus.described()));
            devices.len()
        }
        Gpus::Count(count) => *count as usize,
    };
    let of_entrypoint = line.whole_command();
    let command = of_entrypoint.as_ref().unwrap_or(&line.arguments);
    if command.is_empty() {
        written.differs("srun needs the command that the container runs, and none is given");
        return None;
    }
    // srun would take it for an option of srun.
    if command.first().is_some_and(|word| word.text.starts_with('-')) {
        written.differs("srun needs the program that the container runs, and only its options are given");
        return None;
    }
    let mut words = vec!["srun".to_owned()];
    // --gpus is the number of the whole job, which may have them on several nodes (srun(1)).
    words.extend((count > 1).then(|| "--nodes=1".to_owned()));
    words.push(format!("--gpus={count}"));
    let variables = variables(line, written);
    if !variables.is_empty() || request.capabilities.is_some() {
        let names: Vec<_> = variables.iter().map(|(name, _)| *name).collect();
        let names = [names, request.capabilities.iter().map(|_| "NVIDIA_DRIVER_CAPABILITIES").collect()].concat();
        written.differs(format!("left out, set them in the job: {}", names.join(", ")));
    }
    leave_out_flags(line, &[ENTRYPOINT], written);
    if of_entrypoint.is_none() {
        written.notes.push(
            "pyxis does not run the image's entrypoint by default: add --container-entrypoint if the command needs it"
                .to_owned(),
        );
    }
    words.push(image_of_pyxis(line.image.as_ref(), written));
    words.extend(command.iter().map(|word| word.written.clone()));
    Some(words.join(" "))
}
