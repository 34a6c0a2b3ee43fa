//! What a case of the gallery is.

use serde_json::Value;

/// The host that a case begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Driver, toolkit and cuDNN, as gpusetup installs them, after the reboot.
    Sound,
    /// Nothing of NVIDIA's but the GPU, which nouveau drives.
    Bare,
    /// The initramfs has nouveau and was made before anything kept it out.
    Nouveau,
    /// The same with nova.
    Nova,
    /// The initramfs has both, as with a splash screen, and keeps them out.
    Splash,
    /// With Debian's slurmd.
    Slurm,
}

impl Stage {
    /// How it is kept.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::Bare => "bare",
            Self::Nouveau => "nouveau",
            Self::Nova => "nova",
            Self::Splash => "splash",
            Self::Slurm => "slurm",
        }
    }

    /// What makes it, of the installed host or (for the bare one) of a fresh one.
    pub fn script(self) -> &'static str {
        match self {
            Self::Sound => "quick_images; boots \"$K\"; loads \"$V\"",
            Self::Bare => {
                "boots \"$K\"; echo 'nouveau 2510848 1 - Live 0x0000000000000000' >>$live/proc/modules"
            }
            Self::Nouveau => "no_denials; image_with nouveau; denials",
            Self::Nova => {
                "no_denials; nova=/lib/modules/$K/kernel/drivers/gpu/nova-core; mkdir $nova
                 cp /lib/modules/$K/kernel/drivers/gpu/drm/nouveau/nouveau.ko $nova/nova_core.ko
                 depmod $K; image_with nova_core; denials"
            }
            Self::Splash => "image_with nouveau",
            Self::Slurm => "apt-get -qq -y install --no-install-recommends slurmd >&2",
        }
    }
}

/// A host with one illness, or with none.
#[derive(Debug)]
pub struct Case {
    /// What is wrong with it; or what looks wrong, and is not.
    pub what: &'static str,
    /// What it begins with.
    pub from: Stage,
    /// What makes it so.
    pub script: &'static str,
    /// It is seen while it runs, from inside; else it is a tree.
    pub runs: bool,
    /// All that doctor finds: `GS104 fail`, and what only follows: `GS501 fail < GS104`.
    pub found: &'static [&'static str],
    /// The finding to fix first, and a part of its first command: `GS104: dkms install`.
    pub first: &'static str,
    /// Further arguments of doctor.
    pub arguments: &'static [&'static str],
    /// The checks that might be misled, for a healthy twin.
    of: &'static [&'static str],
}

/// A host with one illness. Whatever else is found follows from it.
pub const fn sick(
    what: &'static str,
    script: &'static str,
    found: &'static [&'static str],
    first: &'static str,
) -> Case {
    Case {
        what,
        from: Stage::Sound,
        script,
        runs: true,
        found,
        first,
        arguments: &[],
        of: &[],
    }
}

/// A healthy host that these checks might take for a sick one.
pub const fn twin(what: &'static str, of: &'static [&'static str], script: &'static str) -> Case {
    Case {
        what,
        from: Stage::Sound,
        script,
        runs: true,
        found: &[],
        first: "",
        arguments: &[],
        of,
    }
}

impl Case {
    /// It begins with another host.
    pub const fn on(mut self, stage: Stage) -> Self {
        self.from = stage;
        self
    }

    /// It does not run: doctor looks at it from outside.
    pub const fn in_a_tree(mut self) -> Self {
        self.runs = false;
        self
    }

    /// Doctor is asked whether it is ready for this scheduler.
    pub const fn ready(mut self, arguments: &'static [&'static str]) -> Self {
        self.arguments = arguments;
        self
    }

    pub fn is_sick(&self) -> bool {
        !self.found.is_empty()
    }

    /// What is found of the illness itself. A second one would claim the same evidence without a
    /// relation to the first.
    pub fn own(&self) -> impl Iterator<Item = &str> {
        self.found.iter().copied().filter(|f| !f.contains('<'))
    }

    /// Whether it shows what a check does.
    pub fn is_about(&self, id: &str) -> bool {
        self.of.contains(&id) || self.own().any(|f| f.starts_with(id))
    }
}

/// A host with several illnesses, each of a case of its own.
#[derive(Debug)]
pub struct Several {
    /// What is wrong.
    pub what: &'static str,
    /// The cases whose illnesses it has.
    pub of: &'static [&'static str],
    /// What else happened.
    pub script: &'static str,
    /// All that doctor finds.
    pub found: &'static [&'static str],
    /// As in [`Case::first`].
    pub first: &'static str,
}

/// A finding of doctor's.
#[derive(Debug)]
pub struct Finding {
    /// `GS501 fail < GS104`.
    pub short: String,
    /// `GS501: ` and its first command, with KERNEL for the release.
    remedy: String,
}

/// Whether a remedy is the one meant, by its id and a part of its command.
fn is_meant(remedy: &str, meant: &str) -> bool {
    match (remedy.split_once(": "), meant.split_once(": ")) {
        (Some((id, command)), Some((meant, part))) => id == meant && command.contains(part),
        (remedy, meant) => remedy.is_none() && meant.is_none(),
    }
}

impl Finding {
    /// None where all is well, or nothing could be seen.
    pub fn of(check: &Value, kernel: &str) -> Option<Self> {
        let word = |key: &str| check[key].as_str().unwrap_or_default();
        let (id, status) = (word("id"), word("status"));
        if ["pass", "skip"].contains(&status) {
            return None;
        }
        let short = match check["consequence_of"].as_str() {
            Some(cause) => format!("{id} {status} < {cause}"),
            None => format!("{id} {status}"),
        };
        let command = check["remediation"]["commands"][0]
            .as_str()
            .unwrap_or_default();
        Some(Self {
            short,
            remedy: format!("{id}: {}", command.replace(kernel, "KERNEL")),
        })
    }

    fn is_consequence(&self) -> bool {
        self.short.contains('<')
    }
}

/// What differs between what a host should be found to have and what was found; `said` is all that
/// was said.
pub fn differs(
    what: &str,
    should: &[&str],
    first: &str,
    found: &[Finding],
    output: &str,
) -> Option<String> {
    let short: Vec<_> = found.iter().map(|f| f.short.as_str()).collect();
    let worst = |status| {
        found
            .iter()
            .find(|f| !f.is_consequence() && f.short.contains(status))
    };
    let remedy = worst(" fail")
        .or_else(|| worst(" error"))
        .or_else(|| worst(" warn"))
        .map_or("", |f| &f.remedy);
    if short == should && is_meant(remedy, first) {
        return None;
    }
    let ill: Vec<_> = serde_json::from_str::<Value>(output)
        .iter()
        .flat_map(|report| report["checks"].as_array().cloned().unwrap_or_default())
        .filter(|c| !["pass", "skip"].contains(&c["status"].as_str().unwrap_or_default()))
        .map(|c| format!("      {} {} {}", c["id"], c["cause"], c["evidence"]))
        .collect();
    Some(format!(
        "  WRONG {what}\n    should be {should:?}, first {first:?}\n    is        {short:?}, first {remedy:?}\n{}",
        ill.join("\n")
    ))
}
