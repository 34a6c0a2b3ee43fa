//! NVIDIA's lists of archives: `cuda/redist/redistrib_13.0.2.json` names the archives of a release
//! with checksum and size. A list in which anything is malformed is refused as a whole.

use super::json::Json;
use super::report::shown;
use crate::Result;

/// A list of the archives of one release.
pub struct List {
    /// The input: `cuda/redist/redistrib_13.0.2.json`.
    pub input: String,
    /// The SHA-256 of the list itself.
    pub sha256: String,
    /// The product, as in the input's path: `cuda`.
    pub product: String,
    /// The release, as in the file's name: `13.0.2`.
    pub release: String,
    /// The day of the release, `2025-10-09`.
    pub date: Option<String>,
    pub components: Vec<Component>,
    /// Names of members with a meaning that is unknown here.
    pub unknown: Vec<String>,
}

impl List {
    /// Its path on NVIDIA's server, `cuda/redist/redistrib_13.0.2.json`.
    pub fn published_as(&self) -> String {
        format!("{}/redist/redistrib_{}.json", self.product, self.release)
    }
}

/// A component in a list.
pub struct Component {
    /// NVIDIA's name, of `[a-z0-9_]+`.
    pub name: String,
    pub version: String,
    pub archives: Vec<Archive>,
}

/// An archive in a list.
pub struct Archive {
    /// `linux-x86_64`, of `[a-z0-9_-]+`.
    pub platform: String,
    /// The CUDA line, `12`, if there is an archive for each.
    pub line: Option<String>,
    /// The path below the list's folder.
    pub path: String,
    pub sha256: String,
    pub size: u64,
}

impl Archive {
    /// The file's name.
    pub fn file(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// The product and the release of `cudnn/redist/redistrib_9.12.0.json`.
pub fn named(path: &str) -> Option<(&str, &str)> {
    let mut parts = path.rsplit('/');
    let release = parts
        .next()?
        .strip_prefix("redistrib_")?
        .strip_suffix(".json")?;
    let product = parts.find(|part| *part != "redist")?;
    Some((product, release))
}

/// Reads a list. `path` is the input's, `text` its content.
pub fn read(path: &str, text: &str, sha256: &str) -> Result<List> {
    let (product, release) =
        named(path).ok_or("its name is not PRODUCT/redist/redistrib_RELEASE.json")?;
    if !is_name(product, "_") || !is_version(release) {
        return Err("its name has no product and release".to_owned());
    }
    let json = Json::parse(text)?;
    let members = json.object().ok_or("it is not an object")?;
    let mut list = List {
        input: path.to_owned(),
        sha256: sha256.to_owned(),
        product: product.to_owned(),
        release: release.to_owned(),
        date: None,
        components: Vec::new(),
        unknown: Vec::new(),
    };
    for (name, value) in members {
        match (name.as_str(), value) {
            ("release_date", Json::Text(date)) if is_date(date) => list.date = Some(date.clone()),
            ("release_label", Json::Text(label)) if label == release => {}
            ("release_product", Json::Text(of)) if of == product => {}
            ("release_date" | "release_label" | "release_product", _) => {
                return Err(format!("{name} is not that of {product} {release}"));
            }
            (_, Json::Object(of)) => {
                if !is_name(name, "_") {
                    return Err(format!("{} is not the name of a component", shown(name)));
                }
                let component =
                    component(name, of, &mut list.unknown).map_err(|e| format!("{name}: {e}"))?;
                list.components.push(component);
            }
            _ => list.unknown.push(name.clone()),
        }
    }
    if list.date.is_none() {
        return Err("it has no release_date".to_owned());
    }
    Ok(list)
}

fn component(
    name: &str,
    members: &[(String, Json)],
    unknown: &mut Vec<String>,
) -> Result<Component> {
    let mut archives = Vec::new();
    let mut version = None;
    for (key, value) in members {
        match (key.as_str(), value) {
            ("name" | "license" | "license_path", Json::Text(_))
            | ("cuda_variant", Json::List(_)) => {}
            ("version", Json::Text(text)) if is_version(text) => version = Some(text.clone()),
            ("version", _) => return Err("its version is not made of numbers and dots".to_owned()),
            (platform, Json::Object(of)) => {
                if !is_name(platform, "_-") {
                    return Err(format!("{} is not the name of a platform", shown(platform)));
                }
                let found = of_platform(platform, of, &format!("{name}.{platform}"), unknown)
                    .map_err(|e| format!("{platform}: {e}"))?;
                archives.extend(found);
            }
            (key, _) => unknown.push(format!("{name}.{key}")),
        }
    }
    let version = version.ok_or("it has no version")?;
    Ok(Component {
        name: name.to_owned(),
        version,
        archives,
    })
}

/// The archives of one platform: one, or one for each CUDA line.
fn of_platform(
    platform: &str,
    members: &[(String, Json)],
    place: &str,
    unknown: &mut Vec<String>,
) -> Result<Vec<Archive>> {
    if members.iter().all(|(_, value)| value.object().is_none()) {
        return Ok(vec![archive(platform, None, members, place, unknown)?]);
    }
    let mut all = Vec::new();
    for (key, value) in members {
        let line = key.strip_prefix("cuda").filter(|line| is_version(line));
        let (Some(line), Some(of)) = (line, value.object()) else {
            return Err(format!(
                "{} is neither an archive nor a CUDA line",
                shown(key)
            ));
        };
        let found = archive(platform, Some(line), of, &format!("{place}.{key}"), unknown);
        all.push(found.map_err(|e| format!("{key}: {e}"))?);
    }
    Ok(all)
}

fn archive(
    platform: &str,
    line: Option<&str>,
    members: &[(String, Json)],
    place: &str,
    unknown: &mut Vec<String>,
) -> Result<Archive> {
    let (mut path, mut sha256, mut size) = (None, None, None);
    for (key, value) in members {
        match key.as_str() {
            "relative_path" => path = value.text().filter(|path| is_path(path)),
            "sha256" => sha256 = value.text().filter(|sum| is_sha256(sum)),
            "size" => size = number(value),
            "md5" => {}
            _ => unknown.push(format!("{place}.{key}")),
        }
    }
    Ok(Archive {
        platform: platform.to_owned(),
        line: line.map(str::to_owned),
        path: path
            .ok_or("relative_path is missing or not a path below the list's folder")?
            .to_owned(),
        sha256: sha256
            .ok_or("sha256 is missing or not 64 hexadecimal digits")?
            .to_lowercase(),
        size: size.ok_or("size is missing or not a number of bytes")?,
    })
}

/// A size: NVIDIA writes it as text.
fn number(value: &Json) -> Option<u64> {
    // No archive has a terabyte.
    const MAX_ARCHIVE_BYTES: u64 = 1 << 40;
    let size = match value {
        Json::Number(size) => *size,
        Json::Text(text) if is_digits(text) => text.parse().ok()?,
        _ => return None,
    };
    (1..MAX_ARCHIVE_BYTES).contains(&size).then_some(size)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a text is up to six numbers with dots between them.
pub fn is_version(text: &str) -> bool {
    text.split('.').count() <= 6
        && text
            .split('.')
            .all(|number| is_digits(number) && number.len() <= 9)
}

/// Whether a text is a SHA-256 in hexadecimal.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Whether a text has only lower-case letters, digits and these signs.
fn is_name(text: &str, signs: &str) -> bool {
    let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || signs.contains(c);
    (1..=64).contains(&text.len()) && text.chars().all(is_good)
}

/// Whether a text is a relative path of plain names.
pub fn is_path(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    text.len() <= 300
        && text
            .split('/')
            .all(|name| !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain))
}

/// Whether a text is a day, `2025-10-09`.
fn is_date(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else {
        return false;
    };
    let is_number = |text: &str, digits: usize, most: u16| {
        text.len() == digits
            && is_digits(text)
            && text.parse().is_ok_and(|n: u16| (1..=most).contains(&n))
    };
    is_number(year, 4, 9999) && is_number(month, 2, 12) && is_number(day, 2, 31)
}
