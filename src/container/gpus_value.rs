//! The value of Docker's `--gpus`: one line of CSV, whose fields are `all`, a number, or KEY=VALUE. A list is one field only if it is in
//! double quotes, which the shell must leave alone: `'"device=0,3"'`.

use super::request::{Device, Gpus, MOST_GPUS};
use super::unreadable::Unreadable;
use crate::text::quoted;

/// The driver capabilities that Docker takes from `--gpus`; the word `all` is none of them.
pub const CAPABILITIES: [&str; 6] = ["compute", "compat32", "graphics", "utility", "video", "display"];

/// What a value asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct GpusValue {
    /// None for a count of zero.
    pub gpus: Option<Gpus>,
    /// The driver's capabilities, without `gpu`.
    pub capabilities: Option<Vec<String>>,
    /// How Docker refuses the value, if it was read as it was meant.
    pub correction: Option<String>,
    /// What is said of a driver that has no place in other forms.
    pub driver: Option<String>,
}

/// What is said of a driver of Docker's that passes NVIDIA's GPUs in one way alone. None for others
/// (<https://github.com/moby/moby/blob/master/daemon/devices_nvidia_linux.go>).
pub fn said_of_driver(driver: &str) -> Option<String> {
    let says = || format!("the driver {driver} is left out: Docker chooses between CDI and NVIDIA's hook itself");
    ["nvidia.cdi", "nvidia.runtime-hook"].contains(&driver).then(says)
}

/// Reads a value.
///
/// # Errors
///
/// If Docker would not read it either, and what is meant is not clear.
pub fn read(value: &str) -> Result<GpusValue, Unreadable> {
    if value.contains(['“', '”', '‘', '’']) {
        return Err(Unreadable::new(format!("the value of --gpus has typographic quotes: {value}"))
            .hint("use the quotes of the keyboard, ' and \"; a web page replaced them"));
    }
    let fields = fields(value)?;
    if fields.len() > 1 && fields.iter().all(|field| field.parse::<u32>().is_ok()) {
        return Err(Unreadable::new(format!(
            "--gpus {value} is several numbers of GPUs, of which Docker takes the last one"
        ))
        .hint(format!("to name these GPUs, write --gpus '\"device={value}\"'")));
    }
    let (mut gpus, mut devices, mut capabilities) = (None, None::<Vec<String>>, None);
    let (mut behind_devices, mut is_cdi, mut driver) = (Vec::new(), false, None);
    for field in &fields {
        match field.split_once('=') {
            None if devices.is_some() && field.trim().parse::<Device>().is_ok() => behind_devices.push(field.clone()),
            None => gpus = Some(count(field)?),
            Some(("count", text)) => gpus = Some(count(text)?),
            Some(("device", list)) => devices = Some(list.split(',').map(str::to_owned).collect()),
            Some(("capabilities", list)) => {
                let named = list.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != "gpu");
                capabilities = Some(named.map(str::to_owned).collect::<Vec<_>>());
            }
            Some(("driver", "nvidia" | "")) => {}
            Some(("driver", "cdi")) => is_cdi = true,
            Some(("driver", other)) => match said_of_driver(other) {
                Some(says) => driver = Some(says),
                None => return Err(Unreadable::new(format!("--gpus asks for GPUs of another vendor: {other}"))),
            },
            Some(("options", _)) => return Err(Unreadable::new("--gpus has driver options, which no other form has")),
            Some((key, _)) => return Err(Unreadable::new(format!("--gpus has no key {key:?}"))),
        }
    }
    let correction = (!behind_devices.is_empty()).then(|| {
        "Docker refuses --gpus without the inner quotes (\"cannot set both Count and DeviceIDs\"): it reads the second device as a number \
         of GPUs"
            .to_owned()
    });
    if is_cdi {
        takes_cdi_names(devices.as_deref().unwrap_or_default(), gpus.is_some())?;
    }
    let gpus = match (devices, gpus) {
        (Some(_), Some(_)) => {
            return Err(Unreadable::new("--gpus has both a number and devices, which Docker refuses"));
        }
        (Some(mut names), None) => {
            names.append(&mut behind_devices);
            let names: Vec<_> = names.iter().map(|name| super::request::cdi_name(name).unwrap_or(name)).collect();
            match names.as_slice() {
                ["all"] => Some(Gpus::All),
                ["none"] => Some(Gpus::DriverOnly),
                names => Some(Gpus::of_names(names)?),
            }
        }
        (None, Some(gpus)) => gpus,
        (None, None) => Some(Gpus::Count(1)),
    };
    // Docker ignores the capabilities of a request that names one of these drivers.
    let is_one_way = is_cdi || driver.is_some();
    let capabilities = capabilities.filter(|all| !all.is_empty() && !is_one_way);
    Ok(GpusValue { gpus, capabilities, correction, driver })
}

/// Refuses what Docker's driver `cdi` does not take: it needs devices by their CDI names and no number, and ignores capabilities
/// (<https://github.com/moby/moby/blob/master/daemon/cdi.go>, `injectCDIDevices`).
fn takes_cdi_names(devices: &[String], has_count: bool) -> Result<(), Unreadable> {
    let is_named = |device: &String| super::request::cdi_name(device).is_some();
    if has_count || devices.is_empty() || !devices.iter().all(is_named) {
        return Err(Unreadable::new(
            "--gpus has the driver cdi, which takes NVIDIA's GPUs by their CDI names and no number",
        )
        .hint("name them in this way: --gpus driver=cdi,device=nvidia.com/gpu=0"));
    }
    Ok(())
}

fn count(text: &str) -> Result<Option<Gpus>, Unreadable> {
    match (text, text.parse::<i32>()) {
        ("all", _) | (_, Ok(..0)) => Ok(Some(Gpus::All)),
        (_, Ok(0)) => Ok(None),
        (_, Ok(count)) if count.unsigned_abs() > MOST_GPUS => {
            Err(Unreadable::new(format!("--gpus {text} asks for more GPUs than any host has")))
        }
        (_, Ok(count)) => Ok(Some(Gpus::Count(count.unsigned_abs()))),
        (_, Err(_)) => Err(Unreadable::new(format!("--gpus takes `all`, a number or device=…, not {text:?}"))),
    }
}

/// The value that asks for GPUs and capabilities, as a word for a shell. None if `--gpus` has no words for them.
pub fn written(gpus: &Gpus, capabilities: &[String]) -> Option<String> {
    let mut fields = vec![match gpus {
        Gpus::All => "all".to_owned(),
        Gpus::Count(count) => count.to_string(),
        Gpus::Devices(devices) => {
            format!("device={}", devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
        }
        Gpus::DriverOnly | Gpus::Profiles(_) | Gpus::Shares(_) => return None,
    }];
    if !capabilities.is_empty() {
        fields.push(format!("capabilities={}", capabilities.join(",")));
    }
    // No field has a quote in it.
    let field = |field: String| if field.contains(',') { format!("\"{field}\"") } else { field };
    Some(quoted(&fields.into_iter().map(field).collect::<Vec<_>>().join(",")))
}

/// The fields of a line of CSV, as Go's encoding/csv reads it: quotes are around whole fields, and doubled inside them.
fn fields(line: &str) -> Result<Vec<String>, Unreadable> {
    let bad = || {
        Unreadable::new(format!("the value of --gpus has quotes in places where Docker refuses them: {line}"))
            .hint("write it in this way: --gpus '\"device=0,3\"'")
    };
    let (mut fields, mut rest) = (Vec::new(), line);
    loop {
        let (field, behind) = if let Some(mut inner) = rest.strip_prefix('"') {
            let mut field = String::new();
            loop {
                let end = inner.find('"').ok_or_else(bad)?;
                field += &inner[..end];
                inner = &inner[end + 1..];
                match inner.strip_prefix('"') {
                    Some(more) => {
                        field.push('"');
                        inner = more;
                    }
                    None => break,
                }
            }
            (field, inner)
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            (rest[..end].to_owned(), &rest[end..])
        };
        if !rest.starts_with('"') && field.contains('"') {
            return Err(bad());
        }
        fields.push(field);
        match behind.strip_prefix(',') {
            Some(more) => rest = more,
            None if behind.is_empty() => return Ok(fields),
            None => return Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(all: &[u32]) -> Option<Gpus> {
        Some(Gpus::Devices(all.iter().map(|index| Device::Index(*index)).collect()))
    }

    #[test]
    fn values_are_read_as_docker_reads_them() {
        let gpus = |value: &str| read(value).expect(value).gpus;
        assert_eq!(
            (gpus("all"), gpus("2"), gpus("count=2"), gpus("-1")),
            (Some(Gpus::All), Some(Gpus::Count(2)), Some(Gpus::Count(2)), Some(Gpus::All))
        );
        assert_eq!(
            (gpus("device=0"), gpus("\"device=0,3\""), gpus("\"device=6, 7\"")),
            (devices(&[0]), devices(&[0, 3]), devices(&[6, 7]))
        );
        // Only capabilities: one GPU.
        assert_eq!((gpus("capabilities=utility"), gpus("0")), (Some(Gpus::Count(1)), None));
        assert_eq!(gpus("driver=nvidia,count=all"), Some(Gpus::All));
        assert_eq!(
            (gpus("driver=cdi,device=nvidia.com/gpu=0"), gpus("device=nvidia.com/gpu=all,driver=cdi")),
            (devices(&[0]), Some(Gpus::All))
        );
        let one_way = read("driver=nvidia.cdi,count=2,capabilities=utility").expect("read");
        assert_eq!((one_way.gpus, one_way.capabilities), (Some(Gpus::Count(2)), None));
        assert!(one_way.driver.is_some_and(|says| says.contains("nvidia.cdi is left out")));
        let both = read("all,\"capabilities=compute,utility,gpu\"").expect("read");
        assert_eq!(both.capabilities, Some(vec!["compute".to_owned(), "utility".to_owned()]));
    }

    #[test]
    fn a_list_without_its_quotes_is_read_as_it_is_meant() {
        let value = read("device=0,1").expect("read");
        assert_eq!(value.gpus, devices(&[0, 1]));
        assert!(value.correction.is_some_and(|text| text.contains("Count and DeviceIDs")));
        assert_eq!(read("\"device=0,1\"").expect("read").correction, None);
    }

    #[test]
    fn what_docker_refuses_is_refused() {
        for value in [
            "",
            "al",
            "device=x",
            "2,\"device=0,1\"",
            "0,1",
            "\"device=0",
            "a\"b",
            "\"a\"b",
            "size=1",
            "driver=amd,count=1",
            "driver=cdi",
            "driver=cdi,all",
            "driver=cdi,device=0",
            "driver=cdi,device=amd.com/gpu=0",
            "“device=0”",
        ] {
            assert!(read(value).is_err(), "{value}");
        }
    }

    #[test]
    fn written_values_are_read_back() {
        let capabilities = ["compute".to_owned(), "utility".to_owned()];
        let Some(two) = devices(&[0, 3]) else { return };
        assert_eq!(written(&two, &[]).as_deref(), Some("'\"device=0,3\"'"));
        assert_eq!(written(&Gpus::All, &capabilities).as_deref(), Some("'all,\"capabilities=compute,utility\"'"));
        assert_eq!(written(&Gpus::All, &capabilities[..1]).as_deref(), Some("all,capabilities=compute"));
        let both = written(&two, &capabilities).expect("written");
        assert_eq!(both, "'\"device=0,3\",\"capabilities=compute,utility\"'");
        let value = read(both.trim_matches('\'')).expect("read");
        assert_eq!((value.gpus, value.capabilities), (Some(two), Some(capabilities.to_vec())));
    }
}
