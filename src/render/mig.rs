//! MIG layouts for people: a picture of memory and compute slices, and the commands.

mod picture;
mod svg;

pub(crate) use svg::svg;

use crate::mig::{AssertedHost, ListedGpu, ListedHost, PlannedGpu, PlannedHost, ProfilesFrom};
use crate::text::{count, wrapped};
use picture::picture;

/// What the picture can be made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Canvas {
    /// The number of columns.
    pub(crate) width: usize,
    /// Whether there are lines and corners besides ASCII.
    pub(crate) unicode: bool,
}

/// What would become of a host's GPUs. GPUs that are alike are shown once.
pub(crate) fn plan(host: &PlannedHost, canvas: Canvas) -> String {
    let mut out = String::new();
    for alike in grouped(&host.gpus) {
        if !out.is_empty() {
            out.push('\n');
        }
        out += &group(&alike, canvas);
    }
    out
}

/// GPUs with the same board, layout and changes, in the order of the first of each kind.
fn grouped(gpus: &[PlannedGpu]) -> Vec<Vec<&PlannedGpu>> {
    let mut groups: Vec<Vec<&PlannedGpu>> = Vec::new();
    for gpu in gpus {
        let alike = groups.iter_mut().find(|group| {
            let first = group[0];
            (&first.name, &first.layout, &first.instances)
                == (&gpu.name, &gpu.layout, &gpu.instances)
                && (first.kept, first.destroyed, first.created)
                    == (gpu.kept, gpu.destroyed, gpu.created)
        });
        match alike {
            Some(group) => group.push(gpu),
            None => groups.push(vec![gpu]),
        }
    }
    groups
}

fn group(alike: &[&PlannedGpu], canvas: Canvas) -> String {
    let gpu = alike[0];
    let indexes: Vec<_> = alike.iter().map(|gpu| gpu.index.to_string()).collect();
    let which = if alike.len() == 1 {
        format!("GPU {}", indexes[0])
    } else {
        format!("GPUs {}", indexes.join(", "))
    };
    let what = if gpu.mig {
        format!("layout {}", gpu.layout)
    } else {
        "MIG off".to_owned()
    };
    let mut out = wrapped("", &format!("{which}, {}: {what}", gpu.name), canvas.width);
    if gpu.mig {
        out.push('\n');
        out += &picture(gpu, canvas);
        out += &wrapped("  ", &usage(gpu), canvas.width);
    }
    if let (ProfilesFrom::Database, [first, ..]) = (gpu.profiles_from, gpu.assumed.as_slice()) {
        out += &derived(first, canvas.width);
    }
    out.push('\n');
    if alike.iter().all(|gpu| gpu.commands.is_empty()) {
        out += &wrapped(
            "  ",
            "Nothing to do: the GPU has this layout.",
            canvas.width,
        );
        return out;
    }
    if gpu.kept + gpu.destroyed > 0 {
        let text = format!(
            "{} stay, {} are removed, {} are created. By hand:",
            count(gpu.kept as u64, "instance"),
            gpu.destroyed,
            gpu.created
        );
        out += &wrapped("  ", &text, canvas.width);
    } else {
        out += "  By hand:\n";
    }
    // Commands are to be copied: they are never broken.
    alike
        .iter()
        .flat_map(|gpu| &gpu.commands)
        .for_each(|command| out += &format!("    {command}\n"));
    out
}

/// The profiles and instances of a host's GPUs.
pub(crate) fn list(host: &ListedHost, canvas: Canvas) -> String {
    let mut out = String::new();
    for gpu in &host.gpus {
        if !out.is_empty() {
            out.push('\n');
        }
        let address = gpu
            .address
            .as_ref()
            .map(|at| format!(" at {at}"))
            .unwrap_or_default();
        out += &wrapped(
            "",
            &format!("GPU {}, {}{address}: {}", gpu.index, gpu.name, mode(gpu)),
            canvas.width,
        );
        if !gpu.variants.is_empty() {
            let text = format!(
                "Boards with this id have different profiles. Name one: {}",
                gpu.variants.join(", ")
            );
            out += &wrapped("  ", &text, canvas.width);
        } else if gpu.profiles.is_empty() && gpu.capable {
            out += &wrapped(
                "  ",
                "The database has no profiles of this board; with MIG on, the driver lists them.",
                canvas.width,
            );
        }
        if !gpu.profiles.is_empty() {
            out += &profiles(gpu, canvas.width);
        }
        for instance in &gpu.instances {
            let profile = instance
                .profile
                .as_deref()
                .unwrap_or("of an unknown profile");
            let start = instance
                .start
                .map(|start| format!(" at slot {start}"))
                .unwrap_or_default();
            let whole = if instance.whole {
                ""
            } else {
                ", without a compute instance of its size"
            };
            out += &wrapped(
                "  ",
                &format!("Instance {}: {profile}{start}{whole}", instance.id),
                canvas.width,
            );
        }
    }
    out
}

fn mode(gpu: &ListedGpu) -> String {
    match (gpu.capable, gpu.enabled, gpu.pending) {
        (false, ..) => "cannot be partitioned".to_owned(),
        (true, None, _) => "can be partitioned".to_owned(),
        (true, Some(now), Some(next)) if now != next => {
            format!("MIG {}, {} after the next reset", on(now), on(next))
        }
        (true, Some(now), _) => match &gpu.layout {
            Some(layout) => format!("MIG {}, layout {layout}", on(now)),
            None => format!("MIG {}", on(now)),
        },
    }
}

fn on(enabled: bool) -> &'static str {
    if enabled { "on" } else { "off" }
}

fn profiles(gpu: &ListedGpu, width: usize) -> String {
    let (compute, slots) = (
        gpu.compute_slices.unwrap_or_default(),
        gpu.slots.unwrap_or_default(),
    );
    let mut out = wrapped(
        "  ",
        &format!("{compute} compute slices, {slots} memory slots"),
        width,
    );
    out += &format!(
        "  {:<16}{:>3}  {:>4}  {:>7}  {:>5}  starts\n",
        "profile", "id", "most", "compute", "slots"
    );
    for p in &gpu.profiles {
        let id = p.id.map_or("?".to_owned(), |id| id.to_string());
        let starts: Vec<_> = p.starts.iter().map(ToString::to_string).collect();
        let starts = starts.join(",");
        out += &format!(
            "  {:<16}{id:>3}  {:>4}  {:>7}  {:>5}  {starts}\n",
            p.name, p.instances, p.compute_slices, p.size
        );
    }
    if let (Some(ProfilesFrom::Database), [first, ..]) = (gpu.profiles_from, gpu.assumed.as_slice())
    {
        out += &derived(first, width);
    }
    out
}

fn derived(why: &str, width: usize) -> String {
    let text = format!(
        "Derived, not read from such a board: {why}. On the host, gpusetup asks the driver."
    );
    wrapped("  ", &text, width)
}

/// Whether a host's GPUs have their layouts.
pub(crate) fn assertion(host: &AssertedHost, canvas: Canvas) -> String {
    host.gpus
        .iter()
        .map(|gpu| {
            let found = if gpu.holds {
                "as wanted".to_owned()
            } else {
                format!("the layout is {}", gpu.found)
            };
            wrapped(
                "",
                &format!(
                    "GPU {}, {}: {} wanted, {found}",
                    gpu.index, gpu.name, gpu.wanted
                ),
                canvas.width,
            )
        })
        .collect()
}

/// How much of the GPU instances use.
fn usage(gpu: &PlannedGpu) -> String {
    let places: Vec<_> = gpu
        .instances
        .iter()
        .map(|i| match i.size {
            1 => format!("{} at {}", i.profile, i.start),
            size => format!("{} at {}-{}", i.profile, i.start, i.start + size - 1),
        })
        .collect();
    let slots = if places.is_empty() {
        String::new()
    } else {
        format!(": {}", places.join(", "))
    };
    let (compute, memory) = (gpu.compute_slices, gpu.slots);
    format!(
        "{} of {} compute slices, {} of {} memory slots{slots}",
        compute.used, compute.total, memory.used, memory.total
    )
}
