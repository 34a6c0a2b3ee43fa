//! What a download costs that is verified on its way: `cargo bench --bench download`. Two gibibytes
//! from this machine's loopback beside `curl -o`, which verifies nothing; and a file from a server
//! that gives each connection ten megabytes a second beside the same by one connection. The goals:
//! at most 1.05 times curl's time, and at least 3.5 times one connection's rate. Runs go in pairs,
//! one right behind the other, since the machine is not alone.

#[path = "../tests/support/faulty.rs"]
mod faulty;
#[path = "../tests/support/nginx.rs"]
mod nginx;

use faulty::{Fault, Faulty};
use gpusetup::fetch::{FetchRequest, Sources, fetch};
use gpusetup::sum::hex;
use gpusetup::system::System;
use nginx::Nginx;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const PAIRS: usize = 7;
const WHOLE: u64 = 2 << 30;
const LIMITED: u64 = 400_000_000;

fn main() {
    let asked: Vec<_> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|a| a == name);
    // On the disk, where downloads go, and not in memory, where temporary files may be.
    let folder =
        tempfile::tempdir_in(concat!(env!("CARGO_MANIFEST_DIR"), "/target")).expect("a folder");
    if is_asked("whole") {
        whole(folder.path());
    }
    if is_asked("limited") {
        limited(folder.path());
    }
}

fn whole(folder: &Path) {
    let file = folder.join("file");
    let sum = made(&file, WHOLE);
    let nginx = Nginx::start(folder);
    let own = nginx.is_none().then(|| Faulty::of(&file, Fault::Nothing));
    let url = match (&nginx, &own) {
        (Some(nginx), _) => format!("{}/file", nginx.url),
        (None, own) => own
            .as_ref()
            .map(|server| server.url.clone())
            .unwrap_or_default(),
    };
    println!(
        "2 GiB from {}, {PAIRS} pairs",
        if nginx.is_some() {
            "nginx"
        } else {
            "the tests' own server"
        }
    );
    let mut ratios = Vec::new();
    for n in 0..PAIRS {
        let (mut ours, mut curls) = ((0.0, 0.0), (0.0, 0.0));
        // Each goes first as often as the other.
        for who in [n % 2, (n + 1) % 2] {
            if who == 0 {
                ours = fetched(folder, &url, &sum, WHOLE)
            } else {
                curls = curled(folder, &url)
            }
        }
        let ratio = ours.0 / curls.0;
        println!(
            "  gpusetup, verified {:>6.2} s (CPU {:>5.2} s)   curl {:>6.2} s (CPU {:>5.2} s)   ratio {ratio:.3}",
            ours.0, ours.1, curls.0, curls.1
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "  median ratio {:.3} (goal: at most 1.05)",
        ratios[PAIRS / 2]
    );
}

fn limited(folder: &Path) {
    let file = folder.join("file");
    let sum = made(&file, LIMITED);
    let server = Faulty::of(&file, Fault::Slow(1_000_000));
    let (one, _) = curled(folder, &server.url);
    let (several, _) = fetched(folder, &server.url, &sum, LIMITED);
    println!("400 MB from a server that gives each connection 10 MB/s");
    let ratio = one / several;
    println!(
        "  gpusetup, verified {several:>6.2} s   one connection {one:>6.2} s   ratio {ratio:.2} (goal: at least 3.5)"
    );
}

/// Makes a file that does not compress, and tells its sum.
fn made(path: &Path, size: u64) -> String {
    let (mut random, mut file) = (
        File::open("/dev/urandom").expect("Linux"),
        File::create(path).expect("a file"),
    );
    let (mut block, mut sum, mut left) = (vec![0; 1 << 20], Sha256::new(), size);
    while left > 0 {
        let n = left.min(block.len() as u64) as usize;
        random.read_exact(&mut block[..n]).expect("random");
        file.write_all(&block[..n]).expect("written");
        sum.update(&block[..n]);
        left -= n as u64;
    }
    hex(&sum.finalize())
}

/// The seconds that some work takes on a disk that has nothing else to write, and those of
/// processors: where others are at work too, these tell more.
fn seconds(work: impl FnOnce()) -> (f64, f64) {
    rustix::fs::sync();
    let (began, used) = (Instant::now(), processor_seconds());
    work();
    (began.elapsed().as_secs_f64(), processor_seconds() - used)
}

/// What this process and those that it waited for have had, in hundredths of a second as Linux
/// counts them for everybody.
fn processor_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    behind_name
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}

fn fetched(folder: &Path, url: &str, sum: &str, size: u64) -> (f64, f64) {
    let on = System::at(folder.join("host"));
    let wanted = FetchRequest {
        url,
        sha256: sum,
        size: Some(size),
        to: Path::new("/cache/file"),
    };
    let took =
        seconds(|| fetch(&on, &wanted, &Sources::default(), &mut |_| {}, None).expect("fetched"));
    fs::remove_dir_all(folder.join("host")).expect("it came");
    took
}

fn curled(folder: &Path, url: &str) -> (f64, f64) {
    let to = folder.join("curled");
    let took = seconds(|| {
        let mut curl = Command::new("curl");
        assert!(
            curl.args(["-sS", "-o"])
                .arg(&to)
                .arg(url)
                .status()
                .expect("curl")
                .success()
        );
    });
    fs::remove_file(&to).expect("it came");
    took
}
