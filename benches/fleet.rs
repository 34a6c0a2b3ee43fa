//! How fast plans are made for a fleet whose facts are known: `cargo bench --bench fleet`. Prints
//! hosts a second for fleets of 1 to 100,000 varied hosts on all cores, and the memory that the
//! process ever had. The facts are thought up as they are needed, so that memory says something;
//! that takes part of the time and is not counted.

#[path = "../tests/support/fleet.rs"]
mod fleet;

use fleet::Fleet;
use gpusetup::database::embedded;
use gpusetup::plan::plan;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let database = embedded();
    let fleet = Fleet::new(&database);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!(
        "{:>8} {:>9} {:>9} {:>12} {:>9}",
        "hosts", "planned", "refused", "hosts/s", "memory"
    );
    for size in [1, 100, 10_000, 100_000] {
        let (next, planned, nanoseconds) =
            (AtomicUsize::new(0), AtomicUsize::new(0), AtomicU64::new(0));
        let workers = cores.min(size);
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    // In handfuls: a counter that all fetch from for each host would be what is
                    // measured.
                    const HANDFUL: usize = 16;
                    loop {
                        let from = next.fetch_add(HANDFUL, Ordering::Relaxed);
                        let hosts: Vec<_> = (from..size.min(from + HANDFUL))
                            .map(|n| fleet.host(n))
                            .collect();
                        let began = Instant::now();
                        for (facts, request) in hosts {
                            let made = plan(&database, facts, request);
                            planned.fetch_add(usize::from(made.is_ok()), Ordering::Relaxed);
                        }
                        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                        nanoseconds.fetch_add(took, Ordering::Relaxed);
                        if from >= size {
                            break;
                        }
                    }
                });
            }
        });
        let took = nanoseconds.into_inner() as f64 / 1e9 / workers as f64;
        let planned = planned.into_inner();
        let (refused, rate) = (size - planned, size as f64 / took);
        println!(
            "{size:>8} {planned:>9} {refused:>9} {rate:>12.0} {:>6} MB",
            most_memory() / 1024
        );
    }
    println!("on {cores} cores");
}

/// Kilobytes.
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .unwrap_or_default();
    line.split_whitespace()
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}
