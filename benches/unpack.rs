//! What installing cuDNN from its archive costs: `cargo bench --bench unpack`, with the archives of
//! `benches/cudnn-archives`. Beside gpusetup's own code, in a separate process, whose peak memory
//! is printed: `xz -dc | tar x` to the same disk, and what the guides teach (`tar xf`, `cp`,
//! `chmod`, `ldconfig`). Taken in turns; every one of them ends with its files on the disk,
//! gpusetup's because it always waits for that, the others with a `sync -f` behind them. The
//! archive is in the page cache, and its sum is known. Then the whole step by `gpusetup apply`,
//! from a server of limited speed and with an empty cache, beside how long the bytes take at that
//! speed and how long unpacking takes alone.

use gpusetup::cache;
use gpusetup::compat::AddOnId;
use gpusetup::operation::undo::Backups;
use gpusetup::operation::{Download, Operation, Placement, Unpack, unpack};
use gpusetup::plan::{Act, Plan, State, StepId};
use gpusetup::system::{System, digest};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs of each, unless `GPUSETUP_RUNS` says otherwise.
const RUNS: usize = 3;

const ARCHIVE: &str = "/cache/archive.tar.xz";
const TOOLKIT: &str = "/toolkit";

/// Megabytes a second that the server gives: slower than this machine unpacks, and faster.
const RATES: [u64; 2] = [20, 200];

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    if let [_, install, root, sum] = &arguments[..]
        && install == "install"
    {
        return installs(Path::new(root), sum);
    }
    let store = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/bench");
    fs::create_dir_all(&store).expect("made");
    run(Command::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/benches/cudnn-archives"
    ))
    .arg(&store));
    for (name, what) in [
        ("multi", "many blocks (xz -T0)"),
        ("single", "one block (tar cJ)"),
    ] {
        let archive = store.join(format!("{name}.tar.xz"));
        let alone = compared(what, &archive, &store.join("root"));
        for rate in RATES {
            from_cold(&archive, &store.join("root"), rate, alone);
        }
    }
}

/// The child: unpacks and moves in, and says how much memory that took.
fn installs(root: &Path, sum: &str) {
    let on = System::at(root);
    let into = into();
    let staging = unpack::staging(&on, sum, &into);
    let staged = unpack::stage(
        &on,
        Path::new(ARCHIVE),
        sum,
        &into,
        None,
        &staging,
        &mut |_, _| {},
    )
    .expect("a good archive");
    staged
        .intend(&on, &mut Backups::new("/backup".into(), 0))
        .expect("noted");
    staged.commit(&on).expect("moved in");
    let status = fs::read_to_string("/proc/self/status").expect("readable");
    let peak = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .expect("there")
        .trim();
    println!("{peak}");
}

fn into() -> Vec<Placement> {
    let place = |from: &str, to: &str| Placement {
        from: from.into(),
        to: Path::new(TOOLKIT).join(to),
    };
    vec![
        place("include", "include"),
        place("lib", "lib64"),
        place("LICENSE", "share/doc/cudnn/LICENSE"),
    ]
}

/// All three; the median of gpusetup's.
fn compared(what: &str, archive: &Path, root: &Path) -> f64 {
    let size = archive.metadata().expect("made").len();
    let sum = digest(fs::File::open(archive).expect("made")).expect("read");
    let runs = std::env::var("GPUSETUP_RUNS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(RUNS);
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
        let (took, output) = run(Command::new(itself).arg("install").arg(root).arg(&sum));
        times[0].push(took);
        peak = peak.max(
            output
                .trim()
                .trim_end_matches(" kB")
                .parse::<u64>()
                .expect("a number"),
        );
        fresh();
        let pipe =
            "xz -dc cache/archive.tar.xz | tar x --no-same-owner -C toolkit && sync -f toolkit";
        times[1].push(run(Command::new("sh").arg("-c").arg(pipe).current_dir(root)).0);
        fresh();
        let guide = "tar xf cache/archive.tar.xz && cp cudnn-*-archive/include/cudnn*.h toolkit/include && \
            cp -P cudnn-*-archive/lib/libcudnn* toolkit/lib64 && chmod a+r toolkit/include/cudnn*.h toolkit/lib64/libcudnn* && \
            ldconfig -C \"$PWD/toolkit/ld.so.cache\" \"$PWD/toolkit/lib64\" && sync -f toolkit";
        times[2].push(run(Command::new("sh").arg("-c").arg(guide).current_dir(root)).0);
    }
    let _ = fs::remove_dir_all(root);
    let [ours, pipe, guide] = times.map(median);
    println!(
        "cuDNN, {:.0} MiB packed, {what}; median of {runs}",
        size as f64 / f64::from(1 << 20)
    );
    println!(
        "  gpusetup                           {ours:>7.2} s   {:.1} MiB at most",
        peak as f64 / 1024.0
    );
    println!(
        "  xz -dc | tar x                     {pipe:>7.2} s   ratio {:.2} (aim: at most 1.05)",
        ours / pipe
    );
    println!(
        "  tar xf, cp, chmod, ldconfig        {guide:>7.2} s   ratio {:.2} (aim: at most 0.6)",
        ours / guide
    );
    ours
}

/// The step by the program itself, with nothing in the cache.
fn from_cold(archive: &Path, root: &Path, rate: u64, alone: f64) {
    let size = archive.metadata().expect("made").len();
    let sha256 = digest(File::open(archive).expect("made")).expect("read");
    let _ = fs::remove_dir_all(root);
    fs::create_dir_all(root.join("etc")).expect("made");
    fs::create_dir_all(root.join("usr/local")).expect("made");
    fs::write(root.join("etc/os-release"), "ID=debian\nVERSION_ID=12\n").expect("written");
    // Tells what machine the tree is for.
    let itself = std::env::current_exe().expect("running");
    fs::create_dir_all(root.join("usr/bin"))
        .and_then(|()| fs::copy(itself, root.join("usr/bin/env")))
        .expect("copied");
    let gpusetup = env!("CARGO_BIN_EXE_gpusetup");
    let asked = [
        "plan",
        "--profile",
        "toolkit",
        "--cuda",
        "12.4",
        "--gpu",
        "h100",
        "--json",
        "--root",
    ];
    let (_, output) = run(Command::new(gpusetup).args(asked).arg(root));
    let mut plan: Plan = serde_json::from_str(&output).expect("a plan");
    let to = PathBuf::from("/var/cache/gpusetup/ab/archive.tar.xz");
    let url = server(archive.to_owned(), rate * 1_000_000);
    let download = Operation::Download(Download {
        url,
        sha256: sha256.clone(),
        size: Some(size),
        to: to.clone(),
    });
    let unpack = Operation::Unpack(Unpack {
        archive: to,
        sha256,
        into: into(),
        limit: None,
    });
    plan.steps
        .retain(|step| step.id == StepId::InstallAddOn(AddOnId::CUDNN));
    for step in &mut plan.steps {
        step.state = State::Needed;
        step.operations = [&download, &unpack]
            .map(|o| Act {
                operation: o.clone(),
                satisfied: false,
            })
            .to_vec();
    }
    let file = root.join("plan.json");
    fs::write(&file, serde_json::to_string(&plan).expect("JSON")).expect("written");
    run(Command::new("sync").arg("-f").arg(root));

    let began = Instant::now();
    let mut apply = Command::new(gpusetup);
    apply
        .arg("apply")
        .arg(&file)
        .args(["--yes", "--accept-eula"])
        .arg("--root")
        .arg(root)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut running = apply.spawn().expect("it starts");
    let status = format!("/proc/{}/status", running.id());
    let mut peak = 0;
    let ended = loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let now = text.lines().find_map(|l| {
            l.strip_prefix("VmHWM:")?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        });
        peak = peak.max(now.unwrap_or(0_u64));
        match running.try_wait().expect("a child") {
            Some(ended) => break ended,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let took = began.elapsed().as_secs_f64();
    assert!(
        ended.success() && root.join("toolkit/lib64").is_dir(),
        "{ended}"
    );
    let _ = fs::remove_dir_all(root);
    let wire = size as f64 / (rate * 1_000_000) as f64;
    println!(
        "  apply from {rate:>3} MB/s, nothing cached  {took:>7.2} s   {:.1} MiB at most; {:.2} of the wire's {wire:.2} s (aim: 1.1), \
         {:.2} of unpacking alone (aim: 1.05), of whichever is longer",
        peak as f64 / 1024.0,
        took / wire,
        took / alone
    );
}

/// Serves a file, whole, at so many bytes a second over all connections; its address.
fn server(file: PathBuf, rate: u64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!(
        "http://{}/archive.tar.xz",
        listener.local_addr().expect("bound")
    );
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Whoever hangs up wants no more.
            let _ = serve(stream, &file, rate);
        }
    });
    url
}

fn serve(mut stream: TcpStream, file: &Path, rate: u64) -> std::io::Result<()> {
    for line in BufReader::new(stream.try_clone()?).lines() {
        if line?.is_empty() {
            break;
        }
    }
    let mut file = File::open(file)?;
    let length = file.metadata()?.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    let (began, mut sent, mut block) = (Instant::now(), 0, vec![0; 1 << 16]);
    loop {
        let n = file.read(&mut block)?;
        if n == 0 {
            return Ok(());
        }
        stream.write_all(&block[..n])?;
        sent += n as u64;
        let due = Duration::from_secs_f64(sent as f64 / rate as f64);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

fn run(command: &mut Command) -> (Duration, String) {
    let began = Instant::now();
    let output = command.output().expect("it starts");
    let took = began.elapsed();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    (took, String::from_utf8_lossy(&output.stdout).into_owned())
}
