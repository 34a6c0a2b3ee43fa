//! Jetson boards: which toolkits run there. The driver and, on most boards, the toolkit come with
//! JetPack.

use super::{Change, Conflict, Hint};
use gpusetup_causes::Remedy;
use gpusetup_database::compat::{Architecture, Database, JetPack, System};
use gpusetup_database::version::{ComputeCapability, CudaVersion};
use gpusetup_host::{Facts, MachineKind};
use gpusetup_text::ids::{CheckId, RuleId};

/// A Jetson, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub struct JetsonBoard<'a, 'f> {
    database: &'a Database,
    /// The board in the database.
    pub system: Option<&'a System>,
    /// The JetPack of its Jetson Linux.
    pub(crate) jetpack: Option<&'a JetPack>,
    l4t: Option<&'f str>,
}

impl<'a, 'f> JetsonBoard<'a, 'f> {
    /// The board that these facts are of; none for other machines.
    pub fn of(database: &'a Database, facts: &'f Facts) -> Option<Self> {
        if facts.machine.kind != MachineKind::Jetson {
            return None;
        }
        let board = facts.machine.board.as_ref();
        let (model, l4t) = (
            board.and_then(|b| b.model.as_deref()),
            board.and_then(|b| b.l4t.as_deref()),
        );
        Some(Self {
            database,
            system: model.and_then(|model| of_model(database, model)),
            jetpack: l4t.and_then(|l4t| database.jetpack(l4t)),
            l4t,
        })
    }

    /// The compute capability of its GPU.
    pub(crate) fn capability(&self) -> Option<ComputeCapability> {
        let gpu = self
            .system?
            .gpu
            .and_then(|device| self.database.gpu(device, None)?.compute_capability);
        gpu.or(self.system?.compute_capability)
    }

    /// Whether NVIDIA's toolkits for servers (sbsa) are for this board.
    pub fn uses_sbsa(&self) -> bool {
        self.capability()
            .zip(self.jetpack)
            .is_some_and(|(board, jetpack)| jetpack.uses_sbsa(board))
    }

    /// Whether toolkits for servers may be for a board with this release of Jetson Linux. Older
    /// ones than the first with such a board have them on none, whichever the board is.
    pub fn may_use_sbsa(&self) -> bool {
        if let Some(jetpack) = self.jetpack {
            return !jetpack.sbsa.is_empty();
        }
        let with_sbsa = self
            .database
            .jetpacks
            .iter()
            .filter(|jetpack| !jetpack.sbsa.is_empty());
        let first = with_sbsa.filter_map(|jetpack| major(&jetpack.l4t)).min();
        self.l4t
            .and_then(major)
            .zip(first)
            .is_none_or(|(major, first)| major >= first)
    }

    /// `Jetson AGX Orin with Jetson Linux 36.4.3 (JetPack 6.2, CUDA 12.6)`.
    pub fn named(&self) -> String {
        let mut name = self
            .system
            .map_or("a Jetson", |system| &system.name)
            .to_owned();
        if let Some(l4t) = self.l4t {
            name += &format!(" with Jetson Linux {l4t}");
        }
        if let Some(jetpack) = self.jetpack {
            name += &format!(" (JetPack {}, CUDA {})", jetpack.jetpack, jetpack.cuda);
        }
        name
    }

    /// The warning if the driver of its JetPack does not run programs of a toolkit, or only with a
    /// package. `gpu` is the compute capability that was named, for a board that is not known.
    pub fn not_run(&self, cuda: CudaVersion, gpu: Option<ComputeCapability>) -> Option<String> {
        let jetpack = self
            .jetpack
            .filter(|jetpack| cuda.series() > jetpack.cuda.series())?;
        let is_compatible = jetpack
            .compatible
            .is_some_and(|newest| cuda.series() <= newest.series());
        let package = jetpack
            .upgrade_package(self.capability().or(gpu))
            .filter(|_| is_compatible);
        let package = package
            .map(|name| format!("; or they run with NVIDIA's package {name}"))
            .unwrap_or_default();
        let (of, runs) = (&jetpack.jetpack, jetpack.cuda);
        Some(format!(
            "the driver of JetPack {of} stays, and programs of CUDA {cuda} do not run on it; --cuda {runs} gets one that it \
             runs{package}"
        ))
    }

    /// How to get a toolkit on this board.
    pub fn toolkits(&self) -> Vec<Remedy> {
        let of_jetpack = Remedy::new(
            "install CUDA, cuDNN and TensorRT of this JetPack",
            ["sudo apt-get update", "sudo apt-get install nvidia-jetpack"],
        );
        let newer = self.jetpack.and_then(|jetpack| {
            // If boards have separate packages, the board must be known.
            if self.system.is_none() && !jetpack.compatible_packages.is_empty() {
                return None;
            }
            let (newest, package) = (jetpack.compatible?, jetpack.upgrade_package(self.capability())?);
            let series = newest.series();
            let text = format!(
                "for CUDA up to {newest}, with the driver that is there, add NVIDIA's CUDA repository for this board and install \
                 the toolkit with its upgrade package (one at a time)"
            );
            let install = format!("sudo apt-get install cuda-toolkit-{}-{} {package}", series.major, series.minor);
            Some(Remedy::new(text, [install]))
        });
        [of_jetpack].into_iter().chain(newer).collect()
    }

    /// Refuses a toolkit for servers on a board that does not use it.
    pub(crate) fn refused(&self) -> Conflict {
        if self.may_use_sbsa() && (self.system.is_none() || self.jetpack.is_none()) {
            return self.unknown();
        }
        let sentence = format!(
            "{}, and its toolkit comes with it too: this is {}, which does not use NVIDIA's toolkits for servers (sbsa)",
            gpusetup_causes::JETSON,
            self.named()
        );
        let conflict = Conflict::new(RuleId::CudaTargetsGpu, sentence).check(CheckId::GS907);
        self.toolkits()
            .into_iter()
            .fold(conflict, |conflict, remedy| {
                conflict.hint(remedy.to_string())
            })
    }

    fn unknown(&self) -> Conflict {
        let served: Vec<_> = self
            .database
            .architectures
            .iter()
            .filter(|a| match self.jetpack {
                Some(jetpack) => jetpack.uses_sbsa(a.compute_capability),
                None => a.sbsa_from.is_some() || self.first_jetpack(a).is_some(),
            })
            .collect();
        let named: Vec<_> = served.iter().map(|a| self.served_boards(a)).collect();
        let (of_release, unknown) = match (self.jetpack, self.l4t) {
            (Some(_), Some(l4t)) => (
                format!(" with Jetson Linux {l4t}"),
                "the model of this board is",
            ),
            _ => (
                String::new(),
                "the model of this board, or its release of Jetson Linux, is",
            ),
        };
        let sentence = format!(
            "{}. NVIDIA's toolkits for servers (sbsa) support only these Jetson boards{of_release}: {}; {unknown} not known",
            gpusetup_causes::JETSON,
            named.join(", ")
        );
        let conflict = Conflict::new(RuleId::CudaTargetsGpu, sentence).check(CheckId::GS907);
        // Others need a JetPack that is known.
        let planned = served
            .iter()
            .filter(|a| self.jetpack.is_some() || a.sbsa_from.is_some());
        let conflict = planned
            .map(|a| a.compute_capability.sm())
            .fold(conflict, |conflict, gpu| {
                conflict.hint(Hint::plan("on such a board", Change::ToolkitFor(gpu)))
            });
        self.toolkits()
            .into_iter()
            .fold(conflict, |conflict, remedy| {
                conflict.hint(remedy.to_string())
            })
    }
}

/// The first number of a release of Jetson Linux.
fn major(l4t: &str) -> Option<u16> {
    l4t.split('.').next()?.parse().ok()
}

/// The board whose name or alias is in the device tree's model; of several, the longest.
fn of_model<'a>(database: &'a Database, model: &str) -> Option<&'a System> {
    let model = spaced(model);
    let boards = database.systems.iter().filter(|system| system.boards);
    let named = boards.flat_map(|system| system.names().map(move |name| (system, name)));
    let fits = named.filter(|(_, name)| model.contains(&spaced(name)));
    fits.max_by_key(|(_, name)| name.len())
        .map(|(system, _)| system)
}

/// In lowercase, with blanks for hyphens.
fn spaced(text: &str) -> String {
    text.to_ascii_lowercase().replace('-', " ")
}

impl JetsonBoard<'_, '_> {
    fn first_jetpack(&self, boards: &Architecture) -> Option<&JetPack> {
        self.database
            .first_jetpack_with_sbsa(boards.compute_capability)
    }

    /// Such boards, and from when on toolkits for servers support them.
    fn served_boards(&self, boards: &Architecture) -> String {
        let first = self.first_jetpack(boards);
        let from = match (boards.sbsa_from, first.filter(|_| self.jetpack.is_none())) {
            (Some(cuda), _) => format!(" (from CUDA {cuda} on)"),
            (None, Some(first)) => format!(" (from JetPack {} on)", first.jetpack),
            (None, None) => String::new(),
        };
        format!(
            "{}{from}",
            boards.embedded.as_deref().unwrap_or(&boards.name)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_data::embedded;

    #[test]
    fn boards_are_known_by_the_device_trees_model() {
        let database = embedded();
        for (model, name) in [
            (
                "NVIDIA Jetson AGX Orin Developer Kit",
                Some("Jetson AGX Orin"),
            ),
            (
                "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super",
                Some("Jetson Orin Nano"),
            ),
            ("NVIDIA Orin NX Developer Kit", Some("Jetson Orin NX")),
            (
                "NVIDIA Jetson AGX Thor Developer Kit",
                Some("Jetson AGX Thor"),
            ),
            (
                "NVIDIA Jetson Xavier NX Developer Kit",
                Some("Jetson Xavier NX"),
            ),
            ("NVIDIA Jetson Nano Developer Kit", Some("Jetson Nano")),
            ("Raspberry Pi 5", None),
        ] {
            assert_eq!(
                of_model(&database, model).map(|system| system.name.as_str()),
                name,
                "{model}"
            );
        }
    }
}
