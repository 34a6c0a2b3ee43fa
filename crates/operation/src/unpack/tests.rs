use super::*;
use crate::Placement;
use gpusetup_database::sum::sha256;
use std::fs;
use std::io::Write;
use std::process::Command;

/// A host with a toolkit's folder; nothing else is in it but what a test puts there.
struct Host {
    on: System,
    dir: tempfile::TempDir,
}

const ARCHIVE: &str = "/cache/a.tar";
const LIB: &str = "/usr/local/cuda-12.8/lib64";

const FILE: tar::EntryType = tar::EntryType::Regular;
const LINK: tar::EntryType = tar::EntryType::Symlink;
const HARD: tar::EntryType = tar::EntryType::Link;

/// A path, a kind, what a link leads to, a mode.
type Line<'a> = (&'a str, tar::EntryType, &'a str, u32);

/// An entry written by hand: tar's own setters refuse some of what has to be refused here.
fn entry((path, kind, link, mode): Line) -> Vec<u8> {
    let body: &[u8] = if kind.is_file() { b"library" } else { b"" };
    let mut header = tar::Header::new_gnu();
    header.as_gnu_mut().expect("gnu").name[..path.len()].copy_from_slice(path.as_bytes());
    header.as_gnu_mut().expect("gnu").linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_size(body.len() as u64);
    header.set_mode(mode);
    with_body(&mut header, body)
}

fn with_body(header: &mut tar::Header, body: &[u8]) -> Vec<u8> {
    header.set_cksum();
    let padding = vec![0; body.len().next_multiple_of(512) - body.len()];
    [header.as_bytes(), body, &padding].concat()
}

/// The mark of a tar's end.
const END: [u8; 1024] = [0; 1024];

fn tar_of(lines: &[Line]) -> Vec<u8> {
    let mut tar: Vec<u8> = lines.iter().flat_map(|line| entry(*line)).collect();
    tar.extend(END);
    tar
}

fn xz(tar: &[u8]) -> Vec<u8> {
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(tar)
        .and_then(|()| xz.finish())
        .expect("packed")
}

fn gzip(tar: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(tar)
        .and_then(|()| gzip.finish())
        .expect("packed")
}

fn zstd(tar: &[u8]) -> Vec<u8> {
    zstd::encode_all(tar, 1).expect("packed")
}

fn host() -> Host {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let on = System::at(dir.path());
    on.make_directories(LIB, 0o755).expect("made");
    on.make_directories("/cache", 0o700).expect("made");
    on.write(
        "/usr/local/cuda-12.8/lib64/libold.so.1",
        b"somebody's",
        0o644,
    )
    .expect("written");
    on.link(
        "/usr/local/cuda-12.8/lib64/libold.so",
        Path::new("libold.so.1"),
    )
    .expect("linked");
    Host { on, dir }
}

impl Host {
    fn with(self, packed: &[u8]) -> Self {
        self.on.write(ARCHIVE, packed, 0o600).expect("written");
        self
    }

    fn stage_limited(&self, sum: &str, limit: Option<Limit>) -> Result<Staged, UnpackError> {
        let into = [Placement {
            from: "lib".into(),
            to: LIB.into(),
        }];
        stage(
            &self.on,
            Path::new(ARCHIVE),
            sum,
            &into,
            limit,
            &staging(&self.on, sum, &into),
            &mut |_, _| {},
        )
    }

    fn unpack(&self, packed: &[u8], limit: Option<Limit>) -> Result<Vec<Undo>, UnpackError> {
        let staged = self.stage_limited(&sha256(packed), limit)?;
        let undo = staged
            .intend(&self.on, &mut Backups::new("/b".into(), 0))
            .expect("noted");
        staged.commit(&self.on).expect("moved in");
        Ok(undo)
    }

    fn library(&self, name: &str) -> Node {
        self.on.node(Path::new(LIB).join(name)).expect("seen")
    }

    /// Everything but the cache, each thing with what it is.
    fn tree(&self) -> Vec<String> {
        let found = Command::new("find")
            .args(["usr", "-printf", "%p %y %m %s %l %T@\n"])
            .current_dir(self.dir.path())
            .output();
        let text =
            String::from_utf8(found.expect("find is everywhere").stdout).expect("plain names");
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        // A folder that something came to and went from has another time.
        lines
            .iter_mut()
            .filter(|l| l.contains(" d "))
            .for_each(|l| *l = l.rsplit_once(' ').map_or("", |(a, _)| a).to_owned());
        lines.sort();
        lines
    }
}

#[test]
fn links_stay_links_and_everybody_may_read() {
    let packed = xz(&tar_of(&[
        ("x/", tar::EntryType::Directory, "", 0o2700),
        ("./x/lib/libx.so.1.2", FILE, "", 0o700),
        ("x/lib/libx.so.1", LINK, "libx.so.1.2", 0o777),
        ("x/lib/header.h", FILE, "", 0o600),
        ("x/lib/sub/back", LINK, "../libx.so.1", 0o777),
        ("x/lib/the-same", HARD, "x/lib/libx.so.1.2", 0o755),
        ("x/lib/libold.so", LINK, "libx.so.1", 0o777),
        ("x/elsewhere/y", FILE, "", 0o644),
    ]));
    let host = host().with(&packed);
    let before = host.tree();
    let undo = host.unpack(&packed, None).expect("a good archive");
    assert!(matches!(
        host.library("libx.so.1.2"),
        Node::File { mode: 0o755, .. }
    ));
    assert!(matches!(
        host.library("header.h"),
        Node::File { mode: 0o644, .. }
    ));
    assert_eq!(
        host.library("libx.so.1"),
        Node::Link {
            target: "libx.so.1.2".into()
        }
    );
    assert_eq!(
        host.library("libold.so"),
        Node::Link {
            target: "libx.so.1".into()
        }
    );
    assert_eq!(
        host.library("sub/back"),
        Node::Link {
            target: "../libx.so.1".into()
        }
    );
    let inode = |name: &str| {
        host.on
            .identity(Path::new(LIB).join(name))
            .expect("there")
            .inode
    };
    assert_eq!(inode("the-same"), inode("libx.so.1.2"), "a hard link");
    assert!(
        !host
            .tree()
            .iter()
            .any(|l| l.contains("gpusetup") || l.contains("elsewhere")),
        "{:?}",
        host.tree()
    );
    for way in undo.iter().rev() {
        assert_eq!(way.perform(&host.on).expect("undone"), [""; 0]);
    }
    let links = |tree: Vec<String>| {
        tree.into_iter()
            .filter(|l| !l.contains(" l "))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        links(host.tree()),
        links(before),
        "the link that was replaced is a new one"
    );
    assert_eq!(
        host.library("libold.so"),
        Node::Link {
            target: "libold.so.1".into()
        }
    );
}

#[test]
fn whoever_waits_hears_how_far_it_is() {
    // More than lies between the threads, and it does not pack.
    let mut random = 1_u64;
    let mut noise = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 56) as u8
    };
    let noise: Vec<u8> = (0..4_000_000).map(|_| noise()).collect();
    let mut header = tar::Header::new_gnu();
    header.set_size(noise.len() as u64);
    header.set_mode(0o644);
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_data(&mut header, "x/lib/libx.so", &noise[..])
        .expect("appended");
    let packed = gzip(&tar.into_inner().expect("a tar"));
    let (host, into) = (
        host().with(&packed),
        [Placement {
            from: "lib".into(),
            to: LIB.into(),
        }],
    );
    let (sum, mut reports) = (sha256(&packed), Vec::new());
    let staging = staging(&host.on, &sum, &into);
    let progress = &mut |have, all| reports.push((have, all));
    stage(
        &host.on,
        Path::new(ARCHIVE),
        &sum,
        &into,
        None,
        &staging,
        progress,
    )
    .expect("unpacked");
    let all = packed.len() as u64;
    assert!(all > noise.len() as u64 / 2, "{all}");
    assert!(
        reports.is_sorted() && reports.first().is_some_and(|(have, _)| *have < all),
        "{reports:?}"
    );
    assert_eq!(reports.last(), Some(&(all, all)));
}

/// Refused with these words, and nothing is moved in.
fn refused(packed: &[u8], limit: Option<Limit>, words: &str) {
    let host = host().with(packed);
    let before = host.tree();
    let error = host.unpack(packed, limit).expect_err(words).to_string();
    assert!(error.contains(words), "not `{words}`: {error}");
    assert_eq!(host.tree(), before, "{words}");
}

#[test]
fn what_no_library_needs_is_refused_and_nothing_is_moved_in() {
    let kinds = |kind| ("x/lib/f", kind, "", 0o644);
    for (lines, words) in [
        (
            &[("x/lib/../../../etc/f", FILE, "", 0o644)][..],
            "leads out",
        ),
        (&[("x/../lib/f", FILE, "", 0o644)], "leads out"),
        (&[("/lib/f", FILE, "", 0o644)], "leads out"),
        (&[("/etc/f", FILE, "", 0o644)], "leads out"),
        (
            &[("x/elsewhere/../../f", tar::EntryType::Directory, "", 0o755)],
            "leads out",
        ),
        (&[("x/lib/f", FILE, "", 0o4755)], "mode"),
        (&[("x/lib/f", FILE, "", 0o2755)], "mode"),
        (&[("x/elsewhere/f", FILE, "", 0o4755)], "mode"),
        (
            &[("x/lib/f", LINK, "/etc/passwd", 0o777)],
            "leads elsewhere",
        ),
        (
            &[("x/lib/f", LINK, "/usr/local/cuda-12.8/lib64/good", 0o777)],
            "leads elsewhere",
        ),
        (&[("x/lib/f", LINK, "../f", 0o777)], "leads elsewhere"),
        (&[("x/lib/a/f", LINK, "../../f", 0o777)], "leads elsewhere"),
        (
            &[
                ("x/lib/f", LINK, "g", 0o777),
                ("x/lib/g", LINK, "../../..", 0o777),
            ],
            "leads elsewhere",
        ),
        (
            &[
                ("x/lib/f", LINK, "a/b", 0o777),
                ("x/lib/g", LINK, "f/../../..", 0o777),
            ],
            "leads elsewhere",
        ),
        (&[("x/lib/f", LINK, "f", 0o777)], "leads elsewhere"),
        (&[("x/lib/f", LINK, "", 0o777)], "to nothing"),
        (
            &[
                ("x/lib/f", LINK, "a", 0o777),
                ("x/lib/f/g", FILE, "", 0o644),
            ],
            "through what is no folder",
        ),
        (
            &[
                ("x/lib/f/g", FILE, "", 0o644),
                ("x/lib/f", LINK, "a", 0o777),
            ],
            "through what is no folder",
        ),
        (
            &[("x/lib/good/g", FILE, "", 0o644)],
            "through what is no folder",
        ),
        (&[kinds(tar::EntryType::Char)], "neither"),
        (&[kinds(tar::EntryType::Block)], "neither"),
        (&[kinds(tar::EntryType::Fifo)], "neither"),
        (&[kinds(tar::EntryType::new(b'Z'))], "neither"),
        (
            &[("x/elsewhere/f", tar::EntryType::Char, "", 0o644)],
            "neither",
        ),
        (
            &[
                ("x/lib/f", HARD, "x/lib/later", 0o644),
                ("x/lib/later", FILE, "", 0o644),
            ],
            "hard link",
        ),
        (&[("x/lib/f", HARD, "/etc/passwd", 0o644)], "hard link"),
        (&[("x/lib/f", HARD, "x/elsewhere/g", 0o644)], "hard link"),
        (
            &[
                ("x/lib/f", LINK, "a", 0o777),
                ("x/lib/g", HARD, "x/lib/f", 0o777),
            ],
            "hard link",
        ),
        (&[("x/lib/good", FILE, "", 0o644)], "twice"),
        (&[("x/lib/good", LINK, "a", 0o777)], "twice"),
        (&[("./x//lib/good", FILE, "", 0o644)], "twice"),
    ] {
        let good = ("x/lib/good", FILE, "", 0o644);
        let all: Vec<Line> = [good].into_iter().chain(lines.iter().copied()).collect();
        refused(&xz(&tar_of(&all)), None, words);
    }
    refused(
        &xz(&tar_of(&[("x/elsewhere/f", FILE, "", 0o644)])),
        None,
        "nothing that is wanted",
    );
}

#[test]
fn a_bomb_is_refused_before_it_fills_the_disk() {
    let lines = [
        ("x/lib/a", FILE, "", 0o644),
        ("x/lib/b", FILE, "", 0o644),
        ("x/lib/c", LINK, "a", 0o777),
    ];
    let packed = xz(&tar_of(&lines));
    assert!(
        host()
            .with(&packed)
            .unpack(
                &packed,
                Some(Limit {
                    files: 3,
                    bytes: 14
                })
            )
            .is_ok()
    );
    refused(
        &packed,
        Some(Limit {
            files: 2,
            bytes: 14,
        }),
        "more than the 2 files",
    );
    refused(
        &packed,
        Some(Limit {
            files: 3,
            bytes: 13,
        }),
        "more than the 3 files and 13 bytes",
    );
    // Its header says so, and nothing of it need be there: eight bytes of a number, the first bit
    // for that.
    let huge = |kind, size: u64| {
        let mut header = tar::Header::new_gnu();
        header.set_path("x/lib/huge").expect("a name");
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(size);
        with_body(&mut header, b"")
    };
    refused(
        &xz(&huge(FILE, 9 << 30)),
        None,
        "more than the 100000 files and 67108864 bytes",
    );
    // A name that fills the memory.
    let long = [
        huge(tar::EntryType::GNULongName, 3 << 20),
        vec![b'x'; 3 << 20],
    ]
    .concat();
    refused(&xz(&long), None, "more than");
    // Nothing but zeroes, as what stands behind the end.
    let padded = [tar_of(&lines), vec![0; 2 << 20]].concat();
    refused(
        &xz(&padded),
        Some(Limit {
            files: 3,
            bytes: 14,
        }),
        "more than",
    );
    refused(
        &xz(&[entry(lines[0]), END.to_vec(), entry(lines[1])].concat()),
        None,
        "behind its end",
    );
}

#[test]
fn every_cut_of_an_archive_is_refused() {
    let tar = tar_of(&[("x/lib/a", FILE, "", 0o644), ("x/lib/b", LINK, "a", 0o777)]);
    // Cut before it was packed: the sums in it are right.
    for length in (0..tar.len() - END.len())
        .step_by(100)
        .chain([512, 1024, 1536])
    {
        let host = host().with(&gzip(&tar[..length]));
        let before = host.tree();
        assert!(
            host.unpack(&gzip(&tar[..length]), None).is_err(),
            "{length} of {} bytes",
            tar.len()
        );
        assert_eq!(host.tree(), before);
    }
    for packed in [xz(&tar), gzip(&tar), zstd(&tar)] {
        for length in (0..packed.len()).step_by(7) {
            let host = host().with(&packed[..length]);
            let before = host.tree();
            assert!(
                host.unpack(&packed[..length], None).is_err(),
                "{length} of {} bytes",
                packed.len()
            );
            assert_eq!(host.tree(), before);
        }
    }
}

#[test]
fn an_altered_archive_is_told_from_a_broken_one() {
    let good = xz(&tar_of(&[("x/lib/f", FILE, "", 0o644)]));
    let mut altered = good.clone();
    altered[good.len() / 2] ^= 1;
    let host = host().with(&altered);
    let before = host.tree();
    assert!(matches!(
        host.unpack(&good, None),
        Err(UnpackError::Altered { .. })
    ));
    assert!(
        matches!(host.unpack(&altered, None), Err(UnpackError::Io { .. })),
        "its sum is as it should be"
    );
    assert_eq!(host.tree(), before);
}

#[test]
fn what_was_verified_and_not_touched_is_not_summed_again() {
    let packed = xz(&tar_of(&[("x/lib/f", FILE, "", 0o644)]));
    let host = host().with(&packed);
    let other = sha256("other");
    assert!(matches!(
        host.stage_limited(&other, None),
        Err(UnpackError::Altered { .. })
    ));
    // The note is what is believed.
    cache::verified(&host.on, Path::new(ARCHIVE), &other).expect("noted");
    assert!(host.stage_limited(&other, None).is_ok());
    // Once it is read, it is noted; and not any more when it was touched.
    assert!(host.stage_limited(&sha256(&packed), None).is_ok());
    let identity = host.on.identity(ARCHIVE).expect("there");
    assert!(cache::is_noted(
        &host.on,
        Path::new(ARCHIVE),
        &identity,
        &sha256(&packed)
    ));
    let host = host.with(&xz(&tar_of(&[("x/lib/g", FILE, "", 0o644)])));
    assert!(matches!(
        host.stage_limited(&sha256(&packed), None),
        Err(UnpackError::Altered { .. })
    ));
}

/// An archive that GNU tar makes of this folder.
fn by_tar(folder: &Path, options: &[&str]) -> Vec<u8> {
    let made = Command::new("tar")
        .arg("-C")
        .arg(folder)
        .args(options)
        .args(["-cf", "-", "x"])
        .output()
        .expect("tar is there");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    made.stdout
}

#[test]
fn files_with_holes_keep_them_and_large_ones_are_whole() {
    use std::os::unix::fs::FileExt;
    let folder = tempfile::tempdir().expect("a temporary directory");
    let lib = folder.path().join("x/lib");
    fs::create_dir_all(&lib).expect("made");
    let sparse = |name: &str, size: u64, stretches: u64| {
        let file = fs::File::create(lib.join(name)).expect("made");
        file.set_len(size).expect("set");
        (0..stretches).for_each(|n| {
            file.write_all_at(b"stretch", n * size / stretches + 5000)
                .expect("written")
        });
    };
    sparse("few", 16 << 20, 3);
    // More than a header has room for.
    sparse("many", 64 << 20, 200);
    sparse("nothing-but-a-hole", 1 << 20, 0);
    let long = format!("{}/{}", "deep/".repeat(30), "n".repeat(150));
    fs::create_dir_all(lib.join(&long).parent().expect("below")).expect("made");
    fs::write(lib.join(&long), b"library").expect("written");
    for options in [
        &["--sparse", "--format=gnu"][..],
        &["--sparse", "--format=posix"],
        &["--format=gnu"],
        &["--format=posix"],
    ] {
        let packed = zstd(&by_tar(folder.path(), options));
        let host = host().with(&packed);
        host.unpack(
            &packed,
            Some(Limit {
                files: 1000,
                bytes: 100 << 20,
            }),
        )
        .expect("a good archive");
        for name in ["few", "many", "nothing-but-a-hole", &long] {
            let there = host.dir.path().join(&LIB[1..]).join(name);
            assert!(
                fs::read(&there).expect("there") == fs::read(lib.join(name)).expect("there"),
                "{name} {options:?}"
            );
            let room = there.metadata().expect("there").blocks() * 512;
            assert!(
                options.len() == 1 || room < 4 << 20,
                "{name} {options:?} takes {room} bytes"
            );
        }
    }
    // Longer than the digits of a header can say.
    sparse("few", 9 << 30, 3);
    let packed = zstd(&by_tar(folder.path(), &["--sparse", "--format=posix"]));
    let host = host().with(&packed);
    host.unpack(
        &packed,
        Some(Limit {
            files: 1000,
            bytes: 10 << 30,
        }),
    )
    .expect("a good archive");
    let there = host.on.open(Path::new(LIB).join("few")).expect("there");
    assert_eq!(there.metadata().expect("there").len(), 9 << 30);
    let mut stretch = [0; 7];
    there
        .read_exact_at(&mut stretch, (6 << 30) + 5000)
        .expect("read");
    assert_eq!(&stretch, b"stretch");
    refused(&packed, None, "more than");
    sparse("few", 1 << 20, 3);
    for version in ["--sparse-version=0.0", "--sparse-version=0.1"] {
        let packed = zstd(&by_tar(
            folder.path(),
            &["--format=posix", "--sparse", version],
        ));
        refused(&packed, None, "of a form that is not known");
    }
}

#[test]
fn a_map_of_holes_that_lies_is_refused() {
    for map in [
        "",
        "x\n",
        "1\n0\n",
        "1\n0\n9999\n",
        "2\n600\n5\n0\n5\n",
        "99999999\n",
        "1\n1000\n18446744073709551615\n",
        "1\n0\n1024\n",
    ] {
        let mut map = map.as_bytes().to_vec();
        map.resize(1024, if map.is_empty() { b'1' } else { 0 });
        let mut header = tar::Header::new_ustar();
        header.set_path("x/GNUSparseFile.0/f").expect("a name");
        header.set_mode(0o644);
        header.set_size(map.len() as u64);
        let records = "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n28 GNU.sparse.name=x/lib/f\n29 GNU.sparse.realsize=2000\n";
        let mut pax = tar::Header::new_ustar();
        pax.set_path("x/PaxHeaders").expect("a name");
        pax.set_entry_type(tar::EntryType::XHeader);
        pax.set_size(records.len() as u64);
        let tar = [
            with_body(&mut pax, records.as_bytes()),
            with_body(&mut header, &map),
            END.to_vec(),
        ]
        .concat();
        refused(&xz(&tar), None, "cannot unpack");
    }
}

#[test]
fn an_archive_that_still_comes_is_unpacked_and_what_breaks_it_off_is_told() {
    let packed = xz(&tar_of(&[("x/lib/f", FILE, "", 0o644)]));
    let into = [Placement {
        from: "lib".into(),
        to: LIB.into(),
    }];
    let host = host();
    let before = host.tree();
    let staged = |from: &[u8], broken: bool| {
        let from: Box<dyn Read + Send> = match broken {
            true => Box::new(from.chain(Broken)),
            false => Box::new(from),
        };
        let at = staging(&host.on, &sha256(&packed), &into);
        stage_from(
            &host.on,
            Path::new(ARCHIVE),
            from,
            Some(packed.len() as u64),
            &into,
            None,
            &at,
        )
    };
    let error = staged(&packed[..packed.len() / 2], true)
        .expect_err("broken off")
        .to_string();
    assert!(error.contains("given up"), "{error}");
    drop(staged(&packed, false).expect("whole"));
    assert_eq!(host.tree(), before, "nobody moved it in");
    staged(&packed, false)
        .expect("whole")
        .commit(&host.on)
        .expect("moved in");
    assert!(matches!(host.library("f"), Node::File { .. }));
}

/// A download that was given up.
struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the download was given up"))
    }
}

#[test]
fn what_a_killed_run_left_is_in_nobodys_way() {
    let packed = xz(&tar_of(&[("x/lib/f", FILE, "", 0o644)]));
    let host = host().with(&packed);
    let left = staging(
        &host.on,
        &sha256(&packed),
        &[Placement {
            from: "lib".into(),
            to: LIB.into(),
        }],
    );
    host.on
        .make_directories(left.join("folder"), 0o700)
        .expect("made");
    host.unpack(&packed, None).expect("a good archive");
    assert!(!host.on.exists(&left));
}

/// A wheel of these files, by Python, whose packers make those of NVIDIA.
fn wheel(files: &[(&str, &[u8])]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut script =
        String::from("import zipfile\nz = zipfile.ZipFile('w', 'w', zipfile.ZIP_DEFLATED)\n");
    for (n, (path, bytes)) in files.iter().enumerate() {
        std::fs::write(folder.path().join(n.to_string()), bytes).expect("written");
        script += &format!(
            "z.writestr(zipfile.ZipInfo({path:?}), open('{n}', 'rb').read(), zipfile.ZIP_DEFLATED)\n"
        );
    }
    script += "z.close()\n";
    let made = Command::new("python3")
        .args(["-c", &script])
        .current_dir(folder.path())
        .status();
    assert!(made.expect("python3 is there").success());
    std::fs::read(folder.path().join("w")).expect("written")
}

#[test]
fn a_wheels_files_have_their_whole_paths() {
    let library = vec![7; 100_000];
    let packed = wheel(&[
        ("nvidia/nccl/include/nccl.h", b"header"),
        ("nvidia/nccl/lib/libnccl.so.2", &library),
        ("lib/libother.so", b"library"),
        ("nvidia_nccl_cu12-2.28.3.dist-info/RECORD", b"record"),
    ]);
    let into = [
        ("nvidia/nccl/lib", LIB),
        ("nvidia/nccl/include", "/usr/local/cuda-12.8/include"),
    ]
    .map(|(from, to)| Placement {
        from: from.into(),
        to: to.into(),
    });
    let (host, sum) = (host().with(&packed), sha256(&packed));
    let staging = staging(&host.on, &sum, &into);
    let staged = stage(
        &host.on,
        Path::new(ARCHIVE),
        &sum,
        &into,
        None,
        &staging,
        &mut |_, _| {},
    );
    staged
        .expect("a good wheel")
        .commit(&host.on)
        .expect("moved in");
    assert!(matches!(
        host.library("libnccl.so.2"),
        Node::File { mode: 0o644, .. }
    ));
    assert_eq!(
        host.on
            .read("/usr/local/cuda-12.8/include/nccl.h")
            .expect("readable"),
        b"header"
    );
    assert!(
        !host
            .tree()
            .iter()
            .any(|l| l.contains("other") || l.contains("RECORD")),
        "{:?}",
        host.tree()
    );
}

/// Refused for its first file, which is named: not a step that failed, but an archive that must not
/// be used.
fn is_of_file(packed: &[u8], words: &str) {
    refused(packed, None, words);
    let error = host().with(packed).unpack(packed, None).expect_err(words);
    assert!(
        matches!(&error, UnpackError::Refused { entry, .. } if entry == Path::new("lib/f")),
        "{error:?}"
    );
}

#[test]
fn a_wheel_that_says_what_is_not_so_is_refused() {
    refused(&wheel(&[("lib/../../f", b"x")]), None, "leads out");
    refused(&wheel(&[("/lib/f", b"x")]), None, "leads out");
    refused(&wheel(&[("other/f", b"x")]), None, "nothing that is wanted");
    let whole = wheel(&[("lib/f", &[7; 5000]), ("lib/g", &[8; 5000])]);
    let limit = |files, bytes| Some(Limit { files, bytes });
    refused(&whole, limit(1, 1 << 20), "more than the 1 files");
    refused(
        &whole,
        limit(9, 9_999),
        "more than the 9 files and 9999 bytes",
    );
    // What the first file's header says of its length.
    for (length, words) in [
        (4000_u32, "longer than it says"),
        (6000, "shorter than it says"),
    ] {
        let mut wrong = whole.clone();
        wrong[22..26].copy_from_slice(&length.to_le_bytes());
        is_of_file(&wrong, words);
    }
    let mut damaged = whole.clone();
    damaged[14] ^= 1;
    is_of_file(&damaged, "damaged");
    // A deflated file of which any byte is another one: never a step that failed without a name.
    let data = 30 + "lib/f".len();
    let packed = u32::from_le_bytes(whole[18..22].try_into().expect("four bytes")) as usize;
    for n in data..data + packed {
        let mut damaged = whole.clone();
        damaged[n] ^= 0xff;
        is_of_file(&damaged, "a file that is");
    }
    let mut encrypted = whole.clone();
    encrypted[6] |= 1;
    is_of_file(&encrypted, "encrypted");
    let mut zeroed = whole.clone();
    zeroed[30] = 0;
    refused(&zeroed, None, r#"a name that is no text ("\0ib/f")"#);
    let deep = format!("{}f", "lib/".repeat(10_000));
    refused(
        &wheel(&[(&deep, b"x")]),
        None,
        "a path through more than 100 folders",
    );
    let end = whole
        .windows(4)
        .position(|w| w == b"PK\x01\x02")
        .expect("a list at its end");
    for length in 4..end {
        assert!(
            host()
                .with(&whole[..length])
                .unpack(&whole[..length], None)
                .is_err(),
            "{length} of {end} bytes"
        );
    }
}

#[test]
fn a_link_never_replaces_a_folder_that_things_go_into() {
    let packed = xz(&tar_of(&[
        ("x/lib", LINK, "targets/x86_64-linux-gnu/lib", 0o777),
        ("x/targets/x86_64-linux-gnu/lib/libx.so.10", FILE, "", 0o755),
    ]));
    let into = ["lib", "targets/x86_64-linux-gnu/lib"].map(|from| Placement {
        from: from.into(),
        to: LIB.into(),
    });
    let (host, sum) = (host().with(&packed), sha256(&packed));
    let staging = staging(&host.on, &sum, &into);
    let staged = stage(
        &host.on,
        Path::new(ARCHIVE),
        &sum,
        &into,
        None,
        &staging,
        &mut |_, _| {},
    );
    staged
        .expect("a good archive")
        .commit(&host.on)
        .expect("moved in");
    assert!(
        matches!(host.library("libx.so.10"), Node::File { .. })
            && matches!(host.library("libold.so.1"), Node::File { .. })
    );
}
