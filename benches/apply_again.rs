//! What a second `apply` costs on a host that is as it should be: `cargo bench --bench
//! apply_again`, as root. Configuration management calls it every half an hour. The host is a clone
//! of the tests' real one, with toolkit and cuDNN installed. Prints the median beside a process
//! that does nothing and the start of the interpreter that configuration management is written in,
//! and what it wrote and fetched, which is to be nothing.

#[path = "../tests/host/mod.rs"]
mod host;

use host::tree::differences;
use host::{Host, bench};
use std::time::{Duration, Instant};

const RUNS: usize = 41;
const REQUEST: &[&str] = &[
    "apply",
    "--yes",
    "--accept-eula",
    "--profile",
    "toolkit",
    "--cuda",
    "13.4",
    "--cudnn",
    "9.25.1",
];

fn main() {
    let host = Host::new("bench");
    host.gpusetup(REQUEST).succeeds();
    // By the database in the binary, as users have it: the tests' own is read from text.
    host.gpusetup_plain(REQUEST).succeeds();
    let before = host.clone_as("bench-before");
    bench().requests();
    let mut times: [Vec<Duration>; 3] = Default::default();
    for _ in 0..RUNS {
        let took = |work: &dyn Fn() -> host::Ran| {
            let began = Instant::now();
            work().succeeds();
            began.elapsed()
        };
        times[0].push(took(&|| host.gpusetup_plain(REQUEST)));
        times[1].push(took(&|| host::machine("/bin/true", &[])));
        times[2].push(took(&|| host::machine("/usr/bin/python3", &["-c", "pass"])));
    }
    let [again, nothing, interpreter] = times.map(|mut times| {
        times.sort();
        times[RUNS / 2].as_secs_f64() * 1000.0
    });
    println!("apply, again             {again:>7.2} ms");
    println!("a process doing nothing  {nothing:>7.2} ms");
    println!("python3 -c pass          {interpreter:>7.2} ms");
    println!("requests over the network: {}", bench().requests().len());
    // The lock in /run names who holds it.
    let written = differences(
        &before.root(),
        &host.root(),
        &["proc", "dev", "sys", "run", "etc/resolv.conf"],
    );
    println!("files written: {}", written.len());
    assert_eq!(written, [""; 0]);
}
