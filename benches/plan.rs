//! How long a person waits for a plan, as a whole process: `cargo bench --bench plan`. Prints the median of many cold
//! starts beside two others of the same run, since machines differ: a process that does nothing, and the start alone of
//! the interpreter that distribution helpers are written for.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const RUNS: usize = 101;

fn main() {
    let gpusetup = env!("CARGO_BIN_EXE_gpusetup");
    let plan = [gpusetup, "plan", "--gpu", "h100", "--json"];
    run(&plan);
    // Of all children so far, so this comes before the others.
    let megabytes = largest_child_kilobytes() as f64 / 1024.0;
    let nothing = ["/bin/true"];
    let interpreter = ["python3", "-c", "pass"];
    let [plan, nothing, interpreter] = medians([&plan, &nothing, &interpreter]);
    println!("plan --gpu h100 --json   {:>7.2} ms   {megabytes:.1} MB at most", milliseconds(plan));
    println!("a process doing nothing  {:>7.2} ms", milliseconds(nothing));
    println!("python3 -c pass          {:>7.2} ms", milliseconds(interpreter));
    println!("the plan takes {:.2} of the interpreter's start alone", plan.as_secs_f64() / interpreter.as_secs_f64());
}

/// Medians of each, taken in turns so that whatever else the machine does meets all alike.
fn medians<const N: usize>(commands: [&[&str]; N]) -> [Duration; N] {
    let mut times: [Vec<Duration>; N] = std::array::from_fn(|_| Vec::new());
    for _ in 0..RUNS {
        for (command, times) in commands.iter().zip(&mut times) {
            times.push(run(command));
        }
    }
    times.map(|mut times| {
        times.sort();
        times[RUNS / 2]
    })
}

fn run(argv: &[&str]) -> Duration {
    let began = Instant::now();
    let ended = Command::new(argv[0]).args(&argv[1..]).stdout(Stdio::null()).stderr(Stdio::inherit()).status();
    let took = began.elapsed();
    assert!(ended.expect("it starts").success(), "{argv:?} failed");
    took
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn largest_child_kilobytes() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the structure that it is given.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_maxrss
}
