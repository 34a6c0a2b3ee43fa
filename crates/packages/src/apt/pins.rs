//! apt's preferences: which versions and repositories are preferred, according to
//! apt_preferences(5) and apt's policy.cc.

use super::super::{Unknown, configuration};
use super::expression::Expression;
use super::origin::ReleaseOrigin;
use super::settings::parts;
use super::stanza;
use gpusetup_system::System;
use std::path::{Path, PathBuf};

const FILE: &str = "/etc/apt/preferences";
const FOLDER: &str = "/etc/apt/preferences.d";

/// The priority `never`, which overrides all others.
pub(crate) const NEVER: i32 = i16::MIN as i32;

/// One entry for one name.
#[derive(Debug)]
pub(crate) struct Pin {
    /// None for all packages, `*`.
    pub(crate) package: Option<Name>,
    /// What it applies to.
    pub(crate) condition: Condition,
    /// The priority as in apt_preferences(5): above 1000, downgrades are allowed.
    pub(crate) priority: i32,
}

/// Which packages an entry is for.
#[derive(Debug)]
pub(crate) struct Name {
    expression: Expression,
    /// The literal name; none for a pattern.
    exact: Option<String>,
    of_source: bool,
}

/// What an entry applies to.
#[derive(Debug)]
pub(crate) enum Condition {
    /// Versions of packages.
    Version(VersionPattern),
    /// Versions of source packages.
    SourceVersion(VersionPattern),
    /// Fields of a repository's release file.
    Release(Box<ReleasePattern>),
    /// The server of a repository.
    Site(Expression),
}

/// A version, a prefix of a version followed by `*`, or an expression.
#[derive(Debug)]
pub(crate) struct VersionPattern {
    text: String,
    is_prefix: bool,
    expression: Expression,
}

/// The fields that must match.
#[derive(Debug, Default)]
pub(crate) struct ReleasePattern {
    all: bool,
    version: Option<VersionPattern>,
    origin: Option<Expression>,
    archive: Option<Expression>,
    codename: Option<Expression>,
    label: Option<Expression>,
    component: Option<Expression>,
    architecture: Option<Expression>,
    /// Matches the archive or the codename.
    release: Option<Expression>,
}

impl Name {
    fn parse(text: &str, native: &str) -> Result<Option<Self>, String> {
        let (of_source, name) = text
            .strip_prefix("src:")
            .map_or((false, text), |rest| (true, rest));
        let (name, architecture) = name.rsplit_once(':').unwrap_or((name, ""));
        if !architecture.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(format!("the package name {text} is not supported"));
        }
        if ![native, "", "any"].contains(&architecture) {
            return Ok(None);
        }
        let is_pattern = name.contains(['*', '[', '?'])
            || name.len() > 1 && name.starts_with('/') && name.ends_with('/');
        let exact = (!is_pattern).then(|| name.to_owned());
        Ok(Some(Self {
            expression: Expression::parse(name)?,
            exact,
            of_source,
        }))
    }

    /// Whether the entry is for this package.
    pub(crate) fn matches(&self, package: &str, source: &str) -> bool {
        let name = if self.of_source { source } else { package };
        self.exact
            .as_ref()
            .map_or_else(|| self.expression.matches(name), |exact| exact == name)
    }
}

impl VersionPattern {
    fn parse(text: &str) -> Result<Self, String> {
        let (text, is_prefix) = text
            .strip_suffix('*')
            .map_or((text, false), |start| (start, true));
        Ok(Self {
            text: text.to_ascii_lowercase(),
            is_prefix,
            expression: Expression::parse(text)?,
        })
    }

    /// Whether a version matches.
    pub(crate) fn matches(&self, version: &str) -> bool {
        let lower = version.to_ascii_lowercase();
        let same = if self.is_prefix {
            lower.starts_with(&self.text)
        } else {
            lower == self.text
        };
        same || self.expression.matches(version)
    }
}

impl ReleasePattern {
    /// Parses `*`, a name or version of a release, or `a=…,n=…`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut pattern = Self::default();
        if text == "*" {
            pattern.all = true;
        } else if !text.is_empty() && !text.contains('=') {
            match text.starts_with(|c: char| c.is_ascii_digit()) {
                true => pattern.version = Some(VersionPattern::parse(text)?),
                false => pattern.release = expression(text)?,
            }
        } else {
            // apt would truncate these.
            let fragments: Vec<_> = text.split(',').map(str::trim).collect();
            if text.len() >= 299 || fragments.len() >= 19 {
                return Err("a pin is too long".to_owned());
            }
            fragments
                .into_iter()
                .try_for_each(|fragment| pattern.field(fragment))?;
        }
        Ok(pattern)
    }

    fn field(&mut self, fragment: &str) -> Result<(), String> {
        let Some((key, value)) = fragment
            .split_once('=')
            .filter(|(_, value)| !value.is_empty())
        else {
            return Ok(());
        };
        match &*key.to_ascii_lowercase() {
            "v" => self.version = Some(VersionPattern::parse(value)?),
            "o" => self.origin = expression(value)?,
            "a" => self.archive = expression(value)?,
            "n" => self.codename = expression(value)?,
            "l" => self.label = expression(value)?,
            "c" => self.component = expression(value)?,
            "b" => self.architecture = expression(value)?,
            _ => {}
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        let fields = [
            &self.origin,
            &self.archive,
            &self.codename,
            &self.label,
            &self.component,
        ];
        self.version.is_none()
            && fields.iter().all(|f| f.is_none())
            && self.architecture.is_none()
            && self.release.is_none()
    }

    fn matches(&self, origin: &ReleaseOrigin) -> bool {
        // A pin without fields, or with unknown ones, is for what dpkg has.
        if self.all || self.is_empty() {
            return self.all || origin.is_status;
        }
        let fields = [
            (&self.origin, &origin.origin),
            (&self.archive, &origin.archive),
            (&self.codename, &origin.codename),
            (&self.label, &origin.label),
            (&self.component, &origin.component),
            (&self.architecture, &origin.architecture),
        ];
        let releases = [&origin.archive, &origin.codename];
        self.version
            .as_ref()
            .is_none_or(|v| origin.version.as_ref().is_some_and(|text| v.matches(text)))
            && fields
                .into_iter()
                .all(|(pattern, text)| accepts(pattern, text))
            && releases
                .into_iter()
                .any(|text| accepts(&self.release, text))
    }
}

fn expression(text: &str) -> Result<Option<Expression>, String> {
    Expression::parse(text).map(Some)
}

impl Condition {
    fn parse(text: &str) -> Result<Option<Self>, String> {
        let (kind, data) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let data = data.trim();
        Ok(Some(match &*kind.to_ascii_lowercase() {
            "version" => Self::Version(VersionPattern::parse(data)?),
            "source-version" => Self::SourceVersion(VersionPattern::parse(data)?),
            "release" => Self::Release(Box::new(ReleasePattern::parse(data)?)),
            "origin" => {
                let quoted = data.strip_prefix('"').and_then(|d| d.strip_suffix('"'));
                Self::Site(Expression::parse(quoted.unwrap_or(data))?)
            }
            _ => return Ok(None),
        }))
    }

    fn is_of_versions(&self) -> bool {
        matches!(self, Self::Version(_) | Self::SourceVersion(_))
    }

    /// Whether a repository matches.
    pub(crate) fn matches_origin(&self, origin: &ReleaseOrigin) -> bool {
        match self {
            Self::Release(pattern) => pattern.matches(origin),
            Self::Site(pattern) => origin
                .site
                .as_ref()
                .is_some_and(|site| pattern.matches(site)),
            Self::Version(_) | Self::SourceVersion(_) => false,
        }
    }
}

/// The entry for `APT::Default-Release`. It must name an existing release, or apt refuses to work.
pub(crate) fn of_default_release(text: &str, origins: &[ReleaseOrigin]) -> Result<Pin, String> {
    let expression = Expression::parse(text)?;
    let is_known = origins
        .iter()
        .flat_map(|o| [&o.archive, &o.codename, &o.version])
        .flatten()
        .any(|field| expression.matches(field));
    if !is_known && text.as_bytes().get(1) != Some(&b'=') {
        return Err(format!(
            "no repository has the release {text:?} of APT::Default-Release"
        ));
    }
    let condition = Condition::Release(Box::new(ReleasePattern::parse(text)?));
    Ok(Pin {
        package: None,
        condition,
        priority: 990,
    })
}

/// All entries in apt's order: the first match counts.
pub(crate) fn read(system: &System, native: &str) -> Result<Vec<Pin>, Unknown> {
    let mut pins = Vec::new();
    for path in [PathBuf::from(FILE)]
        .into_iter()
        .chain(parts(system, FOLDER, &["", "pref"])?)
    {
        parse(&configuration(system, Path::new(&path))?, native, &mut pins)
            .map_err(|why| Unknown::at(&path, why))?;
    }
    Ok(pins)
}

fn parse(text: &str, native: &str, pins: &mut Vec<Pin>) -> Result<(), String> {
    for entry in stanza::stanzas(text) {
        let value = |key: &str| stanza::text(entry.as_bytes(), key);
        let (names, pin) = (value("Package"), value("Pin"));
        if names.is_empty() {
            return Err("an entry has no Package".to_owned());
        }
        let of_all = names == "*";
        // apt warns about unknown kinds and continues.
        if pin.is_empty()
            || Condition::parse(&pin)?.is_none_or(|condition| of_all && condition.is_of_versions())
        {
            continue;
        }
        let priority = priority(&value("Pin-Priority"), of_all)?;
        for name in names.split_whitespace() {
            let package = if of_all {
                None
            } else {
                Name::parse(name, native)?
            };
            // The entry is for another architecture.
            if package.is_none() && !of_all {
                continue;
            }
            pins.extend(Condition::parse(&pin)?.map(|condition| Pin {
                package,
                condition,
                priority,
            }));
        }
    }
    Ok(())
}

fn priority(text: &str, of_all: bool) -> Result<i32, String> {
    if text == "never" && of_all {
        return Ok(NEVER);
    }
    match text.parse::<i32>() {
        Ok(n) if n != 0 && i16::try_from(n).is_ok() => Ok(n.max(NEVER + 1)),
        _ => Err(format!("the priority {text:?} is not valid")),
    }
}

/// For fuzzing.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    let _ = parse(text, "amd64", &mut Vec::new());
}

fn accepts(pattern: &Option<Expression>, text: &Option<String>) -> bool {
    pattern
        .as_ref()
        .is_none_or(|p| text.as_ref().is_some_and(|t| p.matches(t)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pins(text: &str) -> Result<Vec<Pin>, String> {
        let mut pins = Vec::new();
        parse(text, "amd64", &mut pins).map(|()| pins)
    }

    fn pin(text: &str) -> Pin {
        let text = format!("Package: x\nPin: {text}\nPin-Priority: 7\n");
        pins(&text).expect("understood").pop().expect("one")
    }

    fn stable() -> ReleaseOrigin {
        let some = |text: &str| Some(text.to_owned());
        ReleaseOrigin {
            archive: some("stable-security"),
            codename: some("bookworm-security"),
            version: some("12"),
            origin: some("Debian"),
            label: some("Debian-Security"),
            component: some("non-free"),
            architecture: some("amd64"),
            site: some("security.debian.org"),
            priority: 500,
            is_status: false,
        }
    }

    #[test]
    fn releases_are_matched_by_their_fields() {
        for text in [
            "release *",
            "release a=stable-security",
            "release n=bookworm*, o=debian",
            "release l=/^Debian-/",
            "release v=12",
            "release v=1*",
            "release 12",
            "release bookworm-security",
            "release stable*",
            "release c=non-free,b=amd64",
            "origin security.debian.org",
            "origin \"*.debian.org\"",
            "Release A=STABLE-SECURITY",
        ] {
            assert!(pin(text).condition.matches_origin(&stable()), "{text}");
        }
        for text in [
            "release a=stable",
            "release n=bookworm*,o=Ubuntu",
            "release x=y",
            "release o=",
            "release 1",
            "release c=main",
            "origin deb.debian.org",
            "origin \"\"",
            "version 12",
        ] {
            assert!(!pin(text).condition.matches_origin(&stable()), "{text}");
        }
    }

    #[test]
    fn names_are_exact_or_patterns() {
        let matches = |name: &str, package: &str| {
            let name = Name::parse(name, "amd64").expect("understood");
            name.is_some_and(|n| n.matches(package, "nvidia-graphics-drivers"))
        };
        for name in [
            "nvidia-smi",
            "nvidia-*",
            "/smi$/",
            "nvidia-smi:amd64",
            "nvidia-smi:any",
            "src:nvidia-graphics-*",
        ] {
            assert!(matches(name, "nvidia-smi"), "{name}");
        }
        for name in [
            "nvidia-sm",
            "nvidia-smi:i386",
            "src:nvidia-smi",
            "NVIDIA-smi",
            "*x",
        ] {
            assert!(!matches(name, "nvidia-smi"), "{name}");
        }
        assert!(Name::parse("/a:b/", "amd64").is_err());
    }

    #[test]
    fn versions_are_matched() {
        let matches = |text: &str, version: &str| match pin(text).condition {
            Condition::Version(pattern) => pattern.matches(version),
            other => panic!("{other:?}"),
        };
        assert!(matches("version 535.*", "535.261.03-1"));
        assert!(matches("version 535.261.03-1", "535.261.03-1"));
        assert!(matches("version *deb12u1", "1~deb12u1"));
        assert!(matches("version /^535/", "535.1"));
        assert!(!matches("version 535", "535.1"));
    }

    #[test]
    fn what_apt_refuses_is_refused_and_what_it_skips_is_skipped() {
        for odd in [
            "Pin: release *\nPin-Priority: 1\n",
            "Package: x\nPin: release *\n",
            "Package: x\nPin: release *\nPin-Priority: 0\n",
            "Package: x\nPin: release *\nPin-Priority: 40000\n",
            "Package: x\nPin: release *\nPin-Priority: never\n",
        ] {
            assert!(pins(odd).is_err(), "{odd}");
        }
        let skipped = "# c\n\nExplanation: y\nPackage: x\n\nPackage: *\nPin: version 1\nPin-Priority: 5\n\n\
                       Package: x\nPin: odd y\nPin-Priority: 5\n";
        assert_eq!(pins(skipped).expect("understood").len(), 0);
        let never = pins("Package: *\nPin: release *\nPin-Priority: never\n").expect("understood");
        assert_eq!(never[0].priority, NEVER);
        assert_eq!(
            pins("Package: a b:i386 c*\nPin: release *\nPin-Priority: -1\n")
                .expect("understood")
                .len(),
            2
        );
    }
}
