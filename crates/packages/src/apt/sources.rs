//! Finds the lists of apt's enabled repositories: reads `sources.list` in both formats, and derives
//! the names of the downloaded files.

use super::super::{Unknown, configuration};
use super::settings::parts;
use super::stanza;
use gpusetup_system::System;
use std::path::{Path, PathBuf};

const FILE: &str = "/etc/apt/sources.list";
const FOLDER: &str = "/etc/apt/sources.list.d";

/// A list of packages: one component of one repository for one architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListFile {
    /// The name of its file in `/var/lib/apt/lists`, without the suffix of a compression.
    pub(crate) list: String,
    /// The prefix of the names of the repository's `InRelease` and `Release` files.
    pub(crate) release: String,
    /// The server.
    pub(crate) site: String,
    /// The component; none in a flat repository.
    pub(crate) component: Option<String>,
    pub(crate) architecture: String,
}

/// The maximum number of lists.
const MAX_LIST_FILES: usize = 5000;

/// All lists of the enabled repositories, in apt's order.
pub(crate) fn indexes(system: &System, architectures: &[String]) -> Result<Vec<ListFile>, Unknown> {
    let mut all: Vec<ListFile> = Vec::new();
    for path in files(system)? {
        let text = configuration(system, &path)?;
        let sources = if path.extension().is_some_and(|e| e == "sources") {
            deb822(&text)
        } else {
            one_line_style(&text)
        };
        let native = architectures.first().map_or("", String::as_str);
        for source in sources.map_err(|why| Unknown::at(&path, why))? {
            let found = source
                .indexes(architectures, native)
                .map_err(|why| Unknown::at(&path, why))?;
            let new: Vec<_> = found
                .into_iter()
                .filter(|i| all.iter().all(|other| other.list != i.list))
                .collect();
            all.extend(new);
            if all.len() > MAX_LIST_FILES {
                return Err(Unknown::at(&path, "it contains too many repositories"));
            }
        }
    }
    Ok(all)
}

/// When the repositories were last changed, in seconds since 1970.
pub(crate) fn changed(system: &System) -> Result<Option<i64>, Unknown> {
    Ok(files(system)?
        .iter()
        .map(PathBuf::as_path)
        .chain([Path::new(FOLDER)])
        .filter_map(|p| system.modified(p))
        .max())
}

fn files(system: &System) -> Result<Vec<PathBuf>, Unknown> {
    Ok([PathBuf::from(FILE)]
        .into_iter()
        .chain(parts(system, FOLDER, &["list", "sources"])?)
        .collect())
}

/// An entry: URLs and suites, with the options that matter here.
#[derive(Debug, Default)]
struct Source {
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    only: Option<Vec<String>>,
    more: Vec<String>,
    less: Vec<String>,
}

impl Source {
    /// Sets an option by its name in a `.list` file.
    fn option(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "arch" => self.only = Some(list(value)),
            "arch+" => self.more = list(value),
            "arch-" => self.less = list(value),
            "target" | "target+" | "target-" | "inrelease-path" | "include" | "exclude"
            | "Packages" => {
                return Err(format!("the option {key} is not supported"));
            }
            "snapshot" if stanza::switch(value) != Some(false) => {
                return Err(format!("the option {key} is not supported"));
            }
            _ => {}
        }
        Ok(())
    }

    /// The architectures of an entry, including `all` unless it is removed: such packages may have
    /// separate lists.
    fn architectures(&self, of_the_host: &[String]) -> Vec<String> {
        let mut all = self.only.clone().unwrap_or_else(|| of_the_host.to_vec());
        all.extend(self.more.iter().cloned());
        all.retain(|a| !self.less.contains(a));
        if !all.iter().any(|a| a == "all") && !self.less.iter().any(|a| a == "all") {
            all.push("all".to_owned());
        }
        all
    }

    fn indexes(&self, of_the_host: &[String], native: &str) -> Result<Vec<ListFile>, String> {
        let (mut indexes, architectures) = (Vec::new(), self.architectures(of_the_host));
        let of_a_suite = self
            .components
            .len()
            .saturating_mul(architectures.len())
            .max(1);
        if self
            .uris
            .len()
            .saturating_mul(self.suites.len())
            .saturating_mul(of_a_suite)
            > MAX_LIST_FILES
        {
            return Err("an entry names too many repositories".to_owned());
        }
        for uri in &self.uris {
            let uri = Uri::parse(&uri.replace("$(ARCH)", native))?;
            for suite in &self.suites {
                let suite = usual(&suite.replace("$(ARCH)", native))?;
                if suite.ends_with('/') {
                    indexes.push(uri.flat(&suite));
                    continue;
                }
                let pairs = self
                    .components
                    .iter()
                    .flat_map(|c| architectures.iter().map(move |a| (c, a)));
                for (component, architecture) in pairs {
                    indexes.push(uri.index(&suite, &usual(component)?, &usual(architecture)?));
                }
            }
        }
        Ok(indexes)
    }
}

/// Accepts only words that apt uses unchanged in file names.
fn usual(word: &str) -> Result<String, String> {
    match word
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c))
    {
        true => Ok(word.to_owned()),
        false => Err(format!("{word:?} is not supported")),
    }
}

struct Uri {
    site: String,
    /// Server, port and path, from which apt derives file names.
    base: String,
}

impl Uri {
    fn parse(uri: &str) -> Result<Self, String> {
        let (scheme, rest) = uri
            .split_once(':')
            .ok_or_else(|| format!("{uri:?} is not a URL"))?;
        if scheme == "cdrom" || rest.starts_with("//[") {
            return Err(format!("repositories of {uri} are not supported"));
        }
        let (server, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.find('/').map_or((rest, ""), |at| rest.split_at(at)),
            None => ("", rest),
        };
        let server = server.rsplit_once('@').map_or(server, |(_, server)| server);
        let (site, port) = server.split_once(':').unwrap_or((server, ""));
        let port = if port.is_empty() || port == "0" {
            String::new()
        } else {
            format!(":{port}")
        };
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        let path = if path.ends_with('/') {
            path
        } else {
            format!("{path}/")
        };
        Ok(Self {
            site: site.to_owned(),
            base: format!("{site}{port}{path}"),
        })
    }

    fn index(&self, suite: &str, component: &str, architecture: &str) -> ListFile {
        let base = format!("{}dists/{suite}/", self.base);
        ListFile {
            list: file_name(&format!("{base}{component}/binary-{architecture}/Packages")),
            release: file_name(&base),
            site: self.site.clone(),
            component: Some(component.to_owned()),
            architecture: architecture.to_owned(),
        }
    }

    fn flat(&self, suite: &str) -> ListFile {
        let base = format!("{}{}", self.base, if suite == "/" { "" } else { suite });
        let (list, release) = (file_name(&format!("{base}Packages")), file_name(&base));
        ListFile {
            list,
            release,
            site: self.site.clone(),
            component: None,
            architecture: String::new(),
        }
    }
}

/// apt's file name for a URL.
fn file_name(address: &str) -> String {
    let mut name = String::new();
    for byte in address.bytes() {
        match byte {
            b'/' => name.push('_'),
            b if b"\\|{}[]<>\"^~_=!@#$%&*".contains(&b) || !b.is_ascii_graphic() => {
                name.push_str(&format!("%{b:02x}"))
            }
            b => name.push(char::from(b)),
        }
    }
    name
}

/// `deb [options] URI SUITE COMPONENT…`.
fn one_line_style(text: &str) -> Result<Vec<Source>, String> {
    let mut sources = Vec::new();
    for line in text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|l| !l.is_empty())
    {
        let malformed = || format!("{line:?} is malformed");
        let (kind, rest) = line.split_once([' ', '\t']).ok_or_else(malformed)?;
        match kind {
            "deb" => sources
                .push(one_line(rest.trim_start()).map_err(|why| format!("{why} in {line:?}"))?),
            "deb-src" => {}
            _ => return Err(malformed()),
        }
    }
    Ok(sources)
}

fn one_line(rest: &str) -> Result<Source, String> {
    let mut source = Source::default();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or("the options have no end")?,
        None => ("", rest),
    };
    for option in options.split_whitespace() {
        let (key, value) = option
            .split_once('=')
            .filter(|(_, value)| !value.is_empty())
            .ok_or("an option has no value")?;
        source.option(key, value)?;
    }
    if rest.contains(['"', '[', '%']) {
        return Err("quoting is not supported".to_owned());
    }
    let mut words = rest.split_whitespace().map(str::to_owned);
    let (uri, suite) = words
        .next()
        .zip(words.next())
        .ok_or("the suite is missing")?;
    source.components = words.collect();
    if suite.ends_with('/') != source.components.is_empty() {
        return Err("a suite needs a component, unless it is a path".to_owned());
    }
    (source.uris, source.suites) = (vec![uri], vec![suite]);
    Ok(source)
}

/// The format of `.sources` files.
fn deb822(text: &str) -> Result<Vec<Source>, String> {
    let mut sources = Vec::new();
    for stanza in stanza::stanzas(text) {
        let bytes = stanza.as_bytes();
        let types = stanza::words(bytes, "Types");
        if types.is_empty() {
            return Err("a stanza has no Types".to_owned());
        }
        if let Some(odd) = types.iter().find(|t| *t != "deb" && *t != "deb-src") {
            return Err(format!("the type {odd} is not supported"));
        }
        let enabled = stanza::switch(&stanza::text(bytes, "Enabled"));
        if enabled == Some(false) || !types.iter().any(|t| t == "deb") {
            continue;
        }
        let mut source = Source {
            uris: stanza::words(bytes, "URIs"),
            suites: stanza::words(bytes, "Suites"),
            components: stanza::words(bytes, "Components"),
            ..Source::default()
        };
        if source.uris.is_empty() || source.suites.is_empty() {
            return Err("a stanza has no URIs or no Suites".to_owned());
        }
        if source
            .suites
            .iter()
            .any(|suite| suite.ends_with('/') != source.components.is_empty())
        {
            return Err("a suite needs Components, unless it is a path".to_owned());
        }
        let options = [
            ("Architectures", "arch"),
            ("Architectures-Add", "arch+"),
            ("Architectures-Remove", "arch-"),
            ("Targets", "target"),
            ("Targets-Add", "target+"),
            ("Targets-Remove", "target-"),
            ("Include", "include"),
            ("Exclude", "exclude"),
            ("Snapshot", "snapshot"),
        ];
        for (field, option) in options {
            if stanza::field(bytes, field).is_some() {
                source.option(option, &stanza::words(bytes, field).join(","))?;
            }
        }
        sources.push(source);
    }
    Ok(sources)
}

/// For fuzzing.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    for sources in [deb822(text), one_line_style(text)] {
        for source in sources.unwrap_or_default() {
            let _ = source.indexes(&["amd64".to_owned()], "amd64");
        }
    }
}

/// The words of a value, separated by commas.
fn list(value: &str) -> Vec<String> {
    let words = value.split(',').filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(sources: Result<Vec<Source>, String>) -> Vec<String> {
        let host = ["amd64".to_owned(), "i386".to_owned()];
        let sources = sources.expect("understood");
        let indexes = sources
            .iter()
            .flat_map(|s| s.indexes(&host, "amd64").expect("understood"));
        indexes
            .filter(|i| i.architecture != "all")
            .map(|i| i.list)
            .collect()
    }

    #[test]
    fn an_entry_names_no_more_lists_than_there_can_be() {
        let many = |n: usize| (0..n).map(|i| format!("x{i}/")).collect::<Vec<_>>();
        let uris = many(40_000)
            .into_iter()
            .map(|x| format!("https://{x}"))
            .collect();
        let source = Source {
            uris,
            suites: many(60_000),
            ..Source::default()
        };
        assert!(source.indexes(&["amd64".to_owned()], "amd64").is_err());
    }

    #[test]
    fn lists_are_named_as_apt_names_them() {
        let text = "# deb http://off.example/ x main\n\
            deb [arch=amd64 signed-by=/k.gpg] https://user:secret@archive.example:8080/debian bookworm main non-free # no\n\
            deb-src https://archive.example/debian bookworm main\n\
            deb [ arch-=i386 ] http://security.example/ bookworm/updates main\n\
            deb file:/srv/my_repo~1 ./\n deb\thttps://cuda.example/repos/debian12/x86_64/ /\n\
            deb https://flat.example/$(ARCH) a/b/\n";
        let want = [
            "archive.example:8080_debian_dists_bookworm_main_binary-amd64_Packages",
            "archive.example:8080_debian_dists_bookworm_non-free_binary-amd64_Packages",
            "security.example_dists_bookworm_updates_main_binary-amd64_Packages",
            "_srv_my%5frepo%7e1_._Packages",
            "cuda.example_repos_debian12_x86%5f64_Packages",
            "flat.example_amd64_a_b_Packages",
        ];
        assert_eq!(lists(one_line_style(text)), want);
        let index = &one_line_style(text).expect("understood")[3]
            .indexes(&[], "amd64")
            .expect("understood")[0];
        assert_eq!(
            (index.release.as_str(), index.site.as_str()),
            ("cuda.example_repos_debian12_x86%5f64_", "cuda.example")
        );
    }

    #[test]
    fn stanzas_are_read_with_their_options() {
        let text = "# c\nTypes: deb deb-src\nURIs: https://a.example/debian\nSuites: bookworm\n bookworm-updates\n\
            Components: main\nArchitectures: amd64\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDME\n\n\
            Types: deb\nURIs: https://off.example\nSuites: x\nComponents: y\nEnabled: no\n\n\
            Types: deb\nURIs: https://b.example/\nSuites: ./\n";
        let want = [
            "a.example_debian_dists_bookworm_main_binary-amd64_Packages",
            "a.example_debian_dists_bookworm-updates_main_binary-amd64_Packages",
            "b.example_._Packages",
        ];
        assert_eq!(lists(deb822(text)), want);
        let removed = "Types: deb\nURIs: https://a.example\nSuites: x\nComponents: y\nArchitectures-Remove: i386 all\n";
        let indexes =
            deb822(removed).expect("understood")[0].indexes(&["amd64".to_owned()], "amd64");
        assert_eq!(
            indexes
                .expect("understood")
                .iter()
                .map(|i| &*i.architecture)
                .collect::<Vec<_>>(),
            ["amd64"]
        );
    }

    #[test]
    fn what_apt_would_not_take_or_is_not_supported_is_an_error() {
        let lines = |text: &str| {
            one_line_style(text).and_then(|s| {
                s.iter()
                    .try_for_each(|s| s.indexes(&["amd64".to_owned()], "").map(drop))
            })
        };
        for odd in [
            "deb\n",
            "deb http://a.example\n",
            "deb http://a.example x\n",
            "deb http://a.example x/ main\n",
            "rpm http://a.example x main\n",
            "deb [arch] http://a.example x main\n",
            "deb [arch=amd64 http://a.example x main\n",
            "deb [target=Packages] http://a.example x main\n",
            "deb [snapshot=20240101T000000Z] http://a.example x main\n",
            "deb cdrom:[Debian]/ x main\n",
            "deb nothing x main\n",
            "deb http://[::1]/ x main\n",
            "deb http://a.example x~y main\n",
        ] {
            assert!(lines(odd).is_err(), "{odd}");
        }
        for odd in [
            "URIs: x\n",
            "Types: deb\n",
            "Types: deb\nURIs: http://a\nSuites: x\n",
            "Types: x\nURIs: http://a\n",
        ] {
            assert!(deb822(odd).is_err(), "{odd}");
        }
        assert!(lines("deb [snapshot=no] http://a.example x main\n").is_ok());
    }
}
