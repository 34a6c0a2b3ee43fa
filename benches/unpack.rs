//! What installing cuDNN from its archive costs: `cargo bench --bench unpack`, with the archives of `benches/cudnn-archives`. Beside gpusetup's
//! own code, in a process of its own, whose peak memory is printed: `xz -dc | tar x` to the same disk, and what the guides teach
//! (`tar xf`, `cp`, `chmod`, `ldconfig`). Taken in turns; every one of them ends with its files on the disk, gpusetup's because it always
//! waits for that, the others with a `sync -f` behind them. The archive is in the page cache, and its sum is known.
//! Then the whole step from a server of limited speed, with an empty cache.

use gpusetup::cache;
use gpusetup::operation::undo::Backups;
use gpusetup::operation::{Placement, unpack};
use gpusetup::system::{System, digest};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Runs of each, unless `GPUSETUP_RUNS` says otherwise.
const RUNS: usize = 3;

const ARCHIVE: &str = "/cache/archive.tar.xz";
const TOOLKIT: &str = "/toolkit";

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    if let [_, install, root, sum] = &arguments[..]
        && install == "install"
    {
        return installs(Path::new(root), sum);
    }
    let store = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/bench");
    fs::create_dir_all(&store).expect("made");
    run(Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/cudnn-archives")).arg(&store));
    for (name, what) in [("multi", "many blocks (xz -T0)"), ("single", "one block (tar cJ)")] {
        let archive = store.join(format!("{name}.tar.xz"));
        compared(what, &archive, &store.join("root"));
    }
}

/// The child: unpacks and moves in, and says how much memory that took.
fn installs(root: &Path, sum: &str) {
    let on = System::at(root);
    let place = |from: &str, to: &str| Placement { from: from.into(), to: Path::new(TOOLKIT).join(to) };
    let into = [place("include", "include"), place("lib", "lib64"), place("LICENSE", "share/doc/cudnn/LICENSE")];
    let staging = unpack::staging(&on, sum, &into);
    let staged = unpack::stage(&on, Path::new(ARCHIVE), sum, &into, None, &staging).expect("a good archive");
    staged.intend(&on, &mut Backups::new("/backup".into(), 0)).expect("noted");
    staged.commit(&on).expect("moved in");
    let status = fs::read_to_string("/proc/self/status").expect("readable");
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).expect("there").trim();
    println!("{peak}");
}

fn compared(what: &str, archive: &Path, root: &Path) {
    let size = archive.metadata().expect("made").len();
    let sum = digest(fs::File::open(archive).expect("made")).expect("read");
    let runs = std::env::var("GPUSETUP_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(RUNS);
    let mut times: [Vec<Duration>; 3] = Default::default();
    let mut peak = 0;
    for _ in 0..runs {
        let fresh = || {
            let _ = fs::remove_dir_all(root);
            fs::create_dir_all(root.join("cache")).expect("made");
            fs::create_dir_all(root.join("toolkit/lib64")).expect("made");
            fs::create_dir_all(root.join("toolkit/include")).expect("made");
            // A second name, not a copy: the page cache is that of the file.
            fs::hard_link(archive, root.join(&ARCHIVE[1..])).expect("on the same disk");
            cache::verified(&System::at(root), Path::new(ARCHIVE), &sum).expect("noted");
            run(Command::new("sync").arg("-f").arg(root));
        };
        fresh();
        let itself = std::env::current_exe().expect("running");
        let (took, said) = run(Command::new(itself).arg("install").arg(root).arg(&sum));
        times[0].push(took);
        peak = peak.max(said.trim().trim_end_matches(" kB").parse::<u64>().expect("a number"));
        fresh();
        let pipe = "xz -dc cache/archive.tar.xz | tar x --no-same-owner -C toolkit && sync -f toolkit";
        times[1].push(run(Command::new("sh").arg("-c").arg(pipe).current_dir(root)).0);
        fresh();
        let guide = "tar xf cache/archive.tar.xz && cp cudnn-*-archive/include/cudnn*.h toolkit/include && \
            cp -P cudnn-*-archive/lib/libcudnn* toolkit/lib64 && chmod a+r toolkit/include/cudnn*.h toolkit/lib64/libcudnn* && \
            ldconfig -C \"$PWD/toolkit/ld.so.cache\" \"$PWD/toolkit/lib64\" && sync -f toolkit";
        times[2].push(run(Command::new("sh").arg("-c").arg(guide).current_dir(root)).0);
    }
    let _ = fs::remove_dir_all(root);
    let [ours, pipe, guide] = times.map(median);
    println!("cuDNN, {:.0} MiB packed, {what}; median of {runs}", size as f64 / f64::from(1 << 20));
    println!("  gpusetup                           {ours:>7.2} s   {:.1} MiB at most", peak as f64 / 1024.0);
    println!("  xz -dc | tar x                     {pipe:>7.2} s   ratio {:.2} (aim: at most 1.05)", ours / pipe);
    println!("  tar xf, cp, chmod, ldconfig        {guide:>7.2} s   ratio {:.2} (aim: at most 0.6)", ours / guide);
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

fn run(command: &mut Command) -> (Duration, String) {
    let began = Instant::now();
    let said = command.output().expect("it starts");
    let took = began.elapsed();
    assert!(said.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said.stderr));
    (took, String::from_utf8_lossy(&said.stdout).into_owned())
}
