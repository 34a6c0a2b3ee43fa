//! The value of `--gpus`. Docker's is one line of CSV, whose fields are `all`, a number, or
//! KEY=VALUE (docker/cli, opts/gpus.go); a list is one field only if it is in double quotes, which
//! the shell must leave alone: `'"device=0,3"'`. Podman's is a list of names of CDI devices
//! (podman, `StringSliceVar` in cmd/podman/common/create.go).

use super::request::{Gpus, MAX_GPUS, Unreadable, capabilities, cdi_name, is_device, refused};

const LIST: &str = "to name several GPUs, put the list in double quotes inside single ones: --gpus '\"device=0,1\"'";

/// Reads Docker's value: the GPUs, none for a count of zero, and the driver's capabilities without
/// `gpu`. An error if Docker refuses it, or asks another driver than NVIDIA's.
pub(crate) fn docker(
    value: &str,
    notes: &mut Vec<&'static str>,
) -> Result<(Option<Gpus>, Option<Vec<String>>), Unreadable> {
    if value.contains(['“', '”', '‘', '’']) {
        let says = "the value of --gpus has typographic quotes, which a web page made";
        return refused(
            says,
            "use the quotes of the keyboard: --gpus '\"device=0,3\"'",
        );
    }
    let fields = fields(value)?;
    let (mut seen, mut number, mut devices, mut named) = (Vec::new(), None, None, None);
    for field in &fields {
        let (key, text) = field
            .split_once('=')
            .map_or((field.as_str(), None), |(key, text)| (key, Some(text)));
        if seen.contains(&key) {
            return Err(Unreadable::new(format!(
                "Docker refuses --gpus: the key {key:?} can be specified only once"
            )));
        }
        seen.push(key);
        match (key, text) {
            (text, None) | ("count", Some(text)) => {
                seen.push("count");
                if number.replace(count(text)?).is_some() {
                    let says =
                        "--gpus has several numbers of GPUs, of which Docker takes the last one";
                    return refused(says, LIST);
                }
            }
            ("device", Some(list)) => devices = Some(list),
            ("capabilities", Some(list)) => named = Some(list),
            ("driver", Some("nvidia" | "")) => {}
            ("driver", Some(other)) => {
                return Err(Unreadable::new(format!(
                    "--gpus asks the driver {other:?}; only NVIDIA's is translated"
                )));
            }
            ("options", Some(_)) => {
                return Err(Unreadable::new(
                    "--gpus has driver options, which no other form has",
                ));
            }
            (key, Some(_)) => {
                return Err(Unreadable::new(format!(
                    "Docker refuses --gpus: it has no key {key:?}"
                )));
            }
        }
    }
    let gpus = chosen(devices, number)?;
    if devices.is_some() && seen.contains(&"count") {
        let note = "Docker takes the 0 after the comma for a number of GPUs, and gives the container only the GPU before it";
        notes.push(note);
    }
    let capabilities = named
        .map(|list| {
            let names = list.split(',').filter(|name| name.trim() != "gpu");
            capabilities(&names.collect::<Vec<_>>().join(","))
        })
        .transpose()?
        .flatten();
    Ok((gpus, capabilities))
}

/// What Docker gives the container, by the devices and the number in a value.
fn chosen(devices: Option<&str>, number: Option<Option<Gpus>>) -> Result<Option<Gpus>, Unreadable> {
    match (devices, number) {
        (Some(_), Some(Some(_))) => {
            let says = "Docker refuses --gpus: it has both devices and a number, which follows a comma outside of double quotes";
            refused(says, LIST)
        }
        (Some(list), _) => Gpus::from_variable(list),
        (None, Some(number)) => Ok(number),
        (None, None) => Ok(Some(Gpus::Count(1))),
    }
}

/// The names of the CDI devices in a value of Podman's, if it is a line of CSV, and NVIDIA's
/// specifications have such names.
pub(crate) fn podman(value: &str) -> Result<Vec<String>, Unreadable> {
    let fields = if value.is_empty() {
        Vec::new()
    } else {
        fields(value)?
    };
    fields
        .iter()
        .map(|field| {
            let device = format!("nvidia.com/gpu={field}");
            let name = cdi_name(&device).filter(|name| *name == "all" || is_device(name));
            name.map(str::to_owned).ok_or_else(|| {
                Unreadable::new(format!(
                    "Podman makes the CDI device {device:?} of --gpus, which does not exist"
                ))
                .hint("name GPUs by their index or UUID: --gpus 0,1")
            })
        })
        .collect()
}

/// None for zero; Docker takes every negative number for all.
fn count(text: &str) -> Result<Option<Gpus>, Unreadable> {
    match (text, text.parse::<i64>()) {
        ("all", _) | (_, Ok(..0)) => Ok(Some(Gpus::All)),
        (_, Ok(0)) => Ok(None),
        (_, Ok(count)) if count <= MAX_GPUS.into() => Ok(Some(Gpus::Count(count as u32))),
        (_, Ok(count)) => Err(Unreadable::new(format!(
            "--gpus asks for {count} GPUs, more than any host has"
        ))),
        (_, Err(_)) => Err(Unreadable::new(format!(
            "--gpus takes `all`, a number or device=..., not {text:?}"
        ))),
    }
}

/// The value that asks Docker for GPUs and capabilities. None if `--gpus` has no words for them.
pub(crate) fn written(gpus: &Gpus, capabilities: &[String]) -> Option<String> {
    let which = match gpus {
        Gpus::All => "all".to_owned(),
        Gpus::Count(count) => count.to_string(),
        Gpus::Devices(devices) => format!("device={}", devices.join(",")),
        Gpus::DriverOnly => return None,
    };
    let named =
        (!capabilities.is_empty()).then(|| format!("capabilities={}", capabilities.join(",")));
    // No field has a quote in it.
    Some(
        [which]
            .into_iter()
            .chain(named)
            .map(|field| {
                if field.contains(',') {
                    format!("\"{field}\"")
                } else {
                    field
                }
            })
            .collect::<Vec<_>>()
            .join(","),
    )
}

/// The fields of a line of CSV, as Go's encoding/csv reads it: quotes are around whole fields, and
/// doubled inside them.
fn fields(line: &str) -> Result<Vec<String>, Unreadable> {
    let says = "the value of --gpus has quotes or lines in places where the engine refuses them";
    csv(line).ok_or_else(|| Unreadable::new(says).hint(LIST))
}

fn csv(line: &str) -> Option<Vec<String>> {
    // What is outside of quotes and inside of them take turns. Nothing between two quotes is one
    // quote.
    let pieces: Vec<_> = line.split('"').collect();
    let last = pieces.len() - 1;
    let mut fields = vec![String::new()];
    for (at, piece) in pieces.into_iter().enumerate() {
        let is_inside = at % 2 == 1;
        let is_one_quote = piece.is_empty() && at != 0 && at != last;
        let is_between =
            (at == 0 || piece.starts_with(',')) && (at == last || piece.ends_with(','));
        match fields.last_mut()? {
            field if is_inside => field.push_str(piece),
            field if is_one_quote => field.push('"'),
            field => {
                let mut texts = piece.split(',');
                field.push_str(texts.next()?);
                fields.extend(texts.map(str::to_owned));
            }
        }
        if piece.contains('\n') || !(is_inside || is_between || piece.is_empty()) {
            return None;
        }
    }
    (last % 2 == 0).then_some(fields)
}
