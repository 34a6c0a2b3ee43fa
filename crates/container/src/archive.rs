//! Images in files: an archive that `docker save` or `podman save` made, or an OCI layout in a
//! folder or archive. An archive may come from anybody: of its files only small JSON and the names
//! in layers are kept, up to a limit, and no name in it becomes a path.

use super::contents::{Contents, is_wanted};
use super::image::{Image, ImageError, of_config};
use super::layer::{Budget, Layer, cost, unpacked};
use super::tar_entries::Entries;
use gpusetup_database::sum::hex;
use gpusetup_system::trust::Trust;
use gpusetup_system::{System, input, interrupt, is_absent};
use gpusetup_text::paths::clean;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;

/// Bytes of a file of an image's description. Real ones have some ten kilobytes; read, JSON takes
/// many times its length.
const MAX_JSON: u64 = 1 << 20;
/// Bytes of all that are read, however often images name one.
const MAX_JSON_READ: u64 = 8 << 20;
/// Files of an archive of images.
const MAX_FILES: usize = 100_000;
/// Images of an archive. A server that is saved as a whole has some hundred.
const MAX_IMAGES: usize = 1000;
/// Layers of an image. Engines build no more than 128, and Linux mounts no more than 500.
const MAX_LAYERS: usize = 512;
/// Names and folders that are looked at for all images, once for each layer above. An image with
/// PyTorch has some hundred names.
const MAX_LOOKS: u64 = 20_000_000;

type Result<T> = std::result::Result<T, ImageError>;

/// Reads the images in a file or folder, or the one with this name. Of an image for several
/// processors, the one for this architecture counts.
pub fn in_file(path: &Path, architecture: &str, only: Option<&str>) -> Result<Vec<Image>> {
    let file = input::open_any(path, &Trust::Anybody)?;
    let name = path.display().to_string();
    let mut archive = Archive {
        path: &name,
        architecture,
        ..Archive::default()
    };
    if file.metadata().is_ok_and(|meta| meta.is_dir()) {
        archive.folder = Some(System::at(path));
    } else {
        archive.read(file)?;
    }
    let all = for_architecture(archive.images()?, architecture);
    let Some(only) = only else { return Ok(all) };
    let names = all
        .iter()
        .flat_map(names_of)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    let found: Vec<_> = all
        .into_iter()
        .filter_map(|image| called(image, only))
        .collect();
    if found.is_empty() {
        return Err(ImageError::NoSuchImage(format!(
            "{name} has no image {only}: it has {names}"
        )));
    }
    Ok(found)
}

/// All names of an image, or else its ID.
fn names_of(image: &Image) -> &[String] {
    if image.names.is_empty() {
        image.id.as_slice()
    } else {
        &image.names
    }
}

/// The image, by the one of its names that was asked for, or by its ID.
fn called(image: Image, name: &str) -> Option<Image> {
    if image.id.as_deref() == Some(name) {
        return Some(image);
    }
    let own = image.names.iter().find(|own| is_called(own, name))?.clone();
    Some(Image {
        names: vec![own],
        ..image
    })
}

/// With or without the registry and its folders before the name:
/// `registry.example/nvidia/cuda:12.4.1-base-ubuntu22.04`. Docker leaves out its own registry,
/// `docker.io/library/ubuntu:24.04`, and Podman writes it.
fn is_called(own: &str, name: &str) -> bool {
    let short = name
        .strip_prefix("docker.io/")
        .map(|short| short.strip_prefix("library/").unwrap_or(short));
    [name].into_iter().chain(short).any(|name| {
        own.strip_suffix(name)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    })
}

/// Those of images with one name that are for this architecture, if one is.
fn for_architecture(mut all: Vec<Image>, architecture: &str) -> Vec<Image> {
    let named: BTreeSet<_> = all
        .iter()
        .filter(|image| image.architecture.as_deref() == Some(architecture))
        .filter_map(|image| image.names.first().cloned())
        .collect();
    all.retain(|image| {
        image.architecture.as_deref() == Some(architecture)
            || image.names.first().is_none_or(|name| !named.contains(name))
    });
    all
}

/// An archive or a folder of images, and what was read of it.
#[derive(Default)]
struct Archive<'a> {
    path: &'a str,
    architecture: &'a str,
    /// The folder, if it is one. Names in it lead nowhere out of it, whatever links it has.
    folder: Option<System>,
    budget: Rc<Budget>,
    /// JSON in an archive; none if it is too large.
    small: BTreeMap<String, Option<Vec<u8>>>,
    /// Every other file of an archive, or those that were asked for of a folder; an error if it is
    /// no layer.
    layers: BTreeMap<String, io::Result<Rc<Layer>>>,
    /// Links to layers in an archive: `docker save` has a layer of several images once.
    links: BTreeMap<String, String>,
    /// The first name of each file of a folder, by its device and inode: a file may have many.
    first_names: BTreeMap<(u64, u64), String>,
    /// Bytes of descriptions that were read so far.
    json_read: u64,
    /// Names that were looked at so far.
    looks: u64,
}

impl Archive<'_> {
    /// Keeps what may belong to an image.
    fn read(&mut self, file: File) -> Result<()> {
        let (path, budget) = (self.path, Rc::clone(&self.budget));
        let failed = |why| read_error(path, &why);
        let file = BufReader::new(budget.of(file).map_err(failed)?);
        let (content, is_packed) = unpacked(file, &budget, false).map_err(failed)?;
        let mut entries = Entries::new(content);
        let mut count = 0;
        while let Some(entry) = entries.next_entry().map_err(|why| match count {
            0 => self.no_image(format!("it is no tar archive ({why})")),
            _ => failed(why),
        })? {
            count += 1;
            if let Some(link) = entry.link {
                budget.keep(cost(&entry.name) + cost(&link));
                self.links.insert(entry.name, link);
            } else if entry.kind.is_file() {
                self.keep(entry.name, entry.size, &mut entries, is_packed)
                    .map_err(failed)?;
            }
            must_go_on()?;
            if count > MAX_FILES || budget.is_spent() {
                return Err(self.no_image("it has more files or JSON than an image"));
            }
        }
        Ok(())
    }

    /// JSON, or else perhaps a layer.
    fn keep(
        &mut self,
        name: String,
        size: u64,
        mut content: impl Read,
        is_packed: bool,
    ) -> io::Result<()> {
        let mut first = Vec::new();
        content.by_ref().take(1).read_to_end(&mut first)?;
        self.budget.keep(cost(&name));
        let was_large = self.small.get(&name).is_some_and(Option::is_none);
        if !matches!(first.first(), Some(b'{' | b'[')) {
            self.layers.insert(
                name,
                Layer::read(first.chain(content), &self.budget, is_packed, is_wanted),
            );
        } else if size > MAX_JSON || was_large {
            self.small.insert(name, None);
        } else {
            self.budget.keep(size);
            content.read_to_end(&mut first)?;
            self.small.insert(name, Some(first));
        }
        Ok(())
    }

    /// The file that a name leads to: `a/layer.tar` may be a link to `../b/layer.tar`.
    fn target(&self, name: &str) -> String {
        self.links.get(name).map_or_else(
            || name.to_owned(),
            |link| clean(&format!("{name}/../{link}")),
        )
    }

    /// A file of a folder.
    fn open(&self, name: &str) -> Result<Option<File>> {
        match self
            .folder
            .as_ref()
            .map(|folder| folder.open(Path::new("/").join(name)))
        {
            None => Ok(None),
            Some(Ok(file)) => Ok(Some(file)),
            Some(Err(e)) if is_absent(&e) => Ok(None),
            Some(Err(e)) => Err(read_error(
                &Path::new(self.path).join(name).display().to_string(),
                &e,
            )),
        }
    }

    /// A file of a description. One whose name is a checksum has this one.
    fn file(&mut self, name: &str) -> Result<Option<Vec<u8>>> {
        let bytes = match (self.open(name)?, self.small.get(name)) {
            (Some(file), _) => input::bytes(file, &Path::new(self.path).join(name), MAX_JSON)?,
            (None, Some(Some(bytes))) => bytes.clone(),
            (None, Some(None)) => {
                return Err(self.no_image(format!(
                    "{name} in it is larger than {} MiB",
                    MAX_JSON >> 20
                )));
            }
            (None, None) => return Ok(None),
        };
        self.json_read += bytes.len() as u64;
        if self.json_read > MAX_JSON_READ {
            return Err(self.no_image(format!(
                "its descriptions have more than {} MiB together",
                MAX_JSON_READ >> 20
            )));
        }
        let sum = name.rsplit('/').next().unwrap_or(name);
        let sum = sum.strip_suffix(".json").unwrap_or(sum);
        if is_sum(sum) && hex(&Sha256::digest(&bytes)) != sum {
            return Err(self.damaged(format!("{sum} has another checksum")));
        }
        Ok(Some(bytes))
    }

    /// A layer, which is read once. Its content must have this checksum if one is known.
    fn layer(&mut self, name: &str, sum: Option<&str>) -> Result<Rc<Layer>> {
        let mut target = self.target(name);
        if !self.layers.contains_key(&target)
            && let Some(file) = self.open(&target)?
        {
            let meta = file.metadata().map_err(|why| read_error(self.path, &why))?;
            target = self
                .first_names
                .entry((meta.dev(), meta.ino()))
                .or_insert(target)
                .clone();
            if !self.layers.contains_key(&target) {
                let read = self
                    .budget
                    .of(file)
                    .and_then(|file| Layer::read(file, &self.budget, false, is_wanted));
                self.layers.insert(target.clone(), read);
            }
            must_go_on()?;
        }
        let unread =
            |why: &dyn Display| self.damaged(format!("its layer {name} cannot be read: {why}"));
        match self.layers.get(&target) {
            None => Err(unread(&"the archive lacks it")),
            Some(Err(why)) => Err(unread(why)),
            Some(Ok(found)) if sum.is_some_and(|sum| sum != found.sum) => {
                Err(self.damaged(format!("{name} has another checksum")))
            }
            Some(Ok(found)) => Ok(Rc::clone(found)),
        }
    }

    /// By Docker's manifest, else by the index of an OCI layout.
    fn images(&mut self) -> Result<Vec<Image>> {
        let mut missing = "it has neither manifest.json nor index.json";
        if let Some(manifest) = self.file("manifest.json")? {
            let manifest = self.json(&manifest, "manifest.json")?;
            let listed: Vec<_> = elements(&manifest)
                .filter(|image| image["Config"].is_string())
                .collect();
            if !listed.is_empty() {
                self.must_be_few(listed.len())?;
                return listed
                    .into_iter()
                    .map(|image| self.of_docker(image))
                    .collect();
            }
            missing = "its manifest.json names no image";
        }
        let index = self
            .file("index.json")?
            .ok_or_else(|| self.no_image(missing))?;
        let groups = groups(&self.json(&index, "index.json")?);
        if groups.is_empty() {
            return Err(self.no_image("its index names no image"));
        }
        self.must_be_few(groups.len())?;
        groups
            .into_iter()
            .map(|(name, entries)| self.of_index(name, entries))
            .collect()
    }

    fn of_docker(&mut self, entry: &Value) -> Result<Image> {
        let name = entry["Config"].as_str().unwrap_or_default();
        let [layers, names] = ["Layers", "RepoTags"].map(|key| {
            elements(&entry[key])
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        });
        if layers
            .iter()
            .map(String::as_str)
            .chain([name])
            .any(leads_out)
        {
            return Err(self.no_image("its manifest names a file outside of it"));
        }
        let config = self.file(name)?.ok_or_else(|| self.damaged(LACKS_CONFIG))?;
        self.image(name, &config, names, layers)
    }

    /// The image of these entries of an index that is for this architecture, or else the first one.
    fn of_index(&mut self, name: Option<String>, mut entries: Vec<Value>) -> Result<Image> {
        // An index of indexes is one image for several processors.
        for _ in 0..4 {
            let digest = chosen(&entries, self.architecture)
                .ok_or_else(|| self.no_image("its index names no image"))?;
            let manifest = self.blob(&digest, "it lacks the manifest that its index names")?;
            let manifest = self.json(&manifest, &digest)?;
            if let Some(digest) = manifest.pointer("/config/digest").and_then(Value::as_str) {
                let config = self.blob(digest, LACKS_CONFIG)?;
                let layers = self.layers(&manifest)?;
                return self.image(digest, &config, name.into_iter().collect(), layers);
            }
            entries = elements(&manifest["manifests"]).cloned().collect();
        }
        Err(self.no_image("its indexes lead to no image"))
    }

    /// The files of an OCI manifest's layers. Other kinds of content are no layers.
    fn layers(&self, manifest: &Value) -> Result<Vec<String>> {
        let digests = elements(&manifest["layers"])
            .filter(|layer| {
                layer["mediaType"]
                    .as_str()
                    .is_none_or(|kind| kind.contains("tar"))
            })
            .filter_map(|layer| layer["digest"].as_str());
        digests.map(|digest| self.place(digest)).collect()
    }

    /// The image with this configuration, whose part of the archive is named.
    fn image(
        &mut self,
        part: &str,
        config: &[u8],
        names: Vec<String>,
        layers: Vec<String>,
    ) -> Result<Image> {
        // The ID of an image is the checksum of its configuration, of which engines list so many
        // digits.
        let id = hex(&Sha256::digest(config)).get(..12).map(str::to_owned);
        if layers.len() > MAX_LAYERS {
            return Err(self.no_image(format!("one in it has more than {MAX_LAYERS} layers")));
        }
        let config = self.json(config, part)?;
        let sums = diff_ids(&config, layers.len());
        let layers = layers
            .iter()
            .zip(sums)
            .map(|(layer, sum)| self.layer(layer, sum))
            .collect::<Result<Vec<_>>>()?;
        let mut below = 0;
        for layer in &layers {
            self.looks += if layer.removes_nothing() { 0 } else { below };
            below += layer
                .files
                .iter()
                .map(|file| file.split('/').count() as u64)
                .sum::<u64>();
        }
        self.looks += below;
        if self.looks > MAX_LOOKS {
            return Err(self.no_image("its images have more files than images have"));
        }
        Ok(Image {
            names,
            id,
            contents: Some(Contents::of(&layers)),
            ..of_config(&config, self.path.to_owned())
        })
    }

    fn must_be_few(&self, images: usize) -> Result<()> {
        if images <= MAX_IMAGES {
            return Ok(());
        }
        Err(self.no_image(format!(
            "it names {images} images, more than the {MAX_IMAGES} that are read"
        )))
    }

    fn blob(&mut self, digest: &str, lacks: &str) -> Result<Vec<u8>> {
        let place = self.place(digest)?;
        self.file(&place)?.ok_or_else(|| self.damaged(lacks))
    }

    /// The file with this digest.
    fn place(&self, digest: &str) -> Result<String> {
        let sum = digest.strip_prefix("sha256:").filter(|sum| is_sum(sum));
        Ok(format!(
            "blobs/sha256/{}",
            sum.ok_or_else(|| self.no_image("a digest in it is not SHA-256"))?
        ))
    }

    fn json(&self, bytes: &[u8], what: &str) -> Result<Value> {
        serde_json::from_slice(bytes)
            .map_err(|why| self.damaged(format!("{what} is no JSON: {why}")))
    }

    fn no_image(&self, why: impl Into<String>) -> ImageError {
        ImageError::NoImage {
            path: self.path.to_owned(),
            why: why.into(),
        }
    }

    fn damaged(&self, why: impl Into<String>) -> ImageError {
        ImageError::Damaged {
            path: self.path.to_owned(),
            why: why.into(),
        }
    }
}

/// What is wrong with an archive of which a part could be read: it is damaged, or the disk does not
/// give it.
fn read_error(path: &str, why: &io::Error) -> ImageError {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    let (path, text) = (path.to_owned(), why.to_string());
    // Decompressors report wrong data as one of the last three.
    match why.kind() {
        UnexpectedEof | InvalidData | InvalidInput | Other => {
            ImageError::Damaged { path, why: text }
        }
        _ => ImageError::Read { path, why: text },
    }
}

fn must_go_on() -> Result<()> {
    interrupt::heard().map_or(Ok(()), |signal| Err(ImageError::Interrupted(signal)))
}

/// None if it is no array.
fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

const LACKS_CONFIG: &str = "it lacks the configuration that its manifest names";

/// The checksums of an image's layers, unpacked, by its configuration; none where it has another
/// number of them.
fn diff_ids(config: &Value, layers: usize) -> Vec<Option<&str>> {
    let all = config
        .pointer("/rootfs/diff_ids")
        .and_then(Value::as_array)
        .filter(|all| all.len() == layers);
    (0..layers)
        .map(|at| all?[at].as_str()?.strip_prefix("sha256:"))
        .collect()
}

/// The entries of each image in an index. Those with one name, or with none and a platform, are one
/// image for several processors.
fn groups(index: &Value) -> Vec<(Option<String>, Vec<Value>)> {
    let mut groups: Vec<(Option<String>, Vec<Value>)> = Vec::new();
    let mut places: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for entry in elements(&index["manifests"]) {
        let names = [
            "io.containerd.image.name",
            "org.opencontainers.image.ref.name",
        ];
        let name = names
            .iter()
            .find_map(|key| entry["annotations"][key].as_str())
            .map(str::to_owned);
        let is_alone = name.is_none() && entry["platform"]["architecture"].is_null();
        match places.get(&name).filter(|_| !is_alone) {
            Some(at) => groups[*at].1.push(entry.clone()),
            None => {
                places.entry(name.clone()).or_insert(groups.len());
                groups.push((name, vec![entry.clone()]));
            }
        }
    }
    groups
}

/// The image in an index that is for these processors, or else the first one.
fn chosen(all: &[Value], architecture: &str) -> Option<String> {
    let mut entries = all.iter().map(|entry| {
        let own = entry.pointer("/platform/architecture");
        (entry, own.and_then(Value::as_str))
    });
    let wanted = entries.clone().find(|(_, own)| *own == Some(architecture));
    // What says how an image was built is for unknown processors.
    let first = entries.find(|(_, own)| *own != Some("unknown"));
    let (entry, _) = wanted.or(first)?;
    Some(entry.get("digest")?.as_str()?.to_owned())
}

/// Whether a name in a manifest is none of a file beside it.
fn leads_out(name: &str) -> bool {
    name.starts_with('/') || name.split('/').any(|part| part == "..")
}

fn is_sum(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}
