//! gpusetup ended by SIGKILL at random times, 200 times over (20 in a sample), as the kernel does when memory runs
//! out: what it started goes on without it. `resume` or `rollback` is then called at once, as
//! somebody would who does not wait for that, and is killed in its turn in some rounds. The plan is
//! the short one; `tests/run` runs this: it takes root, and minutes.
//!
//! The seed is printed; `GPUSETUP_SEED` sets it. With the same seed the same rounds are cut off
//! after the same parts of an undisturbed run's time.

use crate::host;
use crate::host::tree::differences;
use crate::host::{Host, RECORDS, Server, bench, text, timed};
use crate::{sampled, short};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn rounds() -> usize {
    sampled(20, 200)
}

/// Two at least: gpusetup waits for programs and disks most of the time.
fn workers() -> usize {
    std::thread::available_parallelism()
        .map_or(2, usize::from)
        .max(2)
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn whatever_a_kill_at_any_time_leaves_is_resumed_and_is_taken_back() {
    bench();
    let seed = seed();
    println!("  seed {seed}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let archive = short::archive(folder.path());
    let server = Server::of(folder.path());
    let base = Host::new("killed-base");
    short::offer(
        &base,
        &[short::deb(
            "short",
            "sleep 0.1; echo configured >/etc/short; sleep 0.1",
        )],
    );
    let plan = short::saved(
        folder.path(),
        &short::plan(&base, short::steps(&server, &archive, "short")),
    );
    let apply = ["apply", text(&plan), "--yes", "--accept-eula"];

    // As many at once as there will be then, so that they take as long.
    let alike: Vec<_> = (0..workers())
        .map(|n| base.clone_as(&format!("killed-alike-{n}")))
        .collect();
    let whole = timed("undisturbed", || {
        std::thread::scope(|scope| {
            let runs: Vec<_> = alike
                .iter()
                .map(|host| scope.spawn(|| takes(host, &apply)))
                .collect();
            runs.into_iter()
                .map(|run| run.join().expect("it came to its end"))
                .max()
                .expect("two or more")
        })
    });
    let (next, resumed, taken_back, again) = Default::default();
    let round = Round {
        base: &base,
        done: &alike[0],
        apply: &apply,
        whole,
        resumed,
        taken_back,
        again,
    };
    println!("  of which the longest took {:.1} s", whole.as_secs_f64());
    timed("kills", || {
        std::thread::scope(|scope| {
            for worker in 0..workers() {
                let (round, next): (&Round, &AtomicUsize) = (&round, &next);
                scope.spawn(move || {
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        if n >= rounds() {
                            break;
                        }
                        round.run(
                            n,
                            &format!("killed-{worker}"),
                            &mut Fractions(seed.wrapping_add(n as u64)),
                        );
                    }
                });
            }
        });
    });
    let (resumed, taken_back) = (round.resumed.into_inner(), round.taken_back.into_inner());
    let (all, again) = (resumed + taken_back, round.again.into_inner());
    let rounds = rounds();
    println!(
        "  kills: {all} of {rounds} ({resumed} resumed, {taken_back} rolled back; {again} were killed in that too)"
    );
    assert_eq!(all, rounds);
}

/// The seed that is given, or one of the clock.
pub fn seed() -> u64 {
    match std::env::var("GPUSETUP_SEED") {
        Ok(seed) => seed.parse().expect("GPUSETUP_SEED is a number"),
        Err(_) => SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("it is later than 1970")
            .as_secs(),
    }
}

/// What all rounds share.
struct Round<'a> {
    base: &'a Host,
    done: &'a Host,
    apply: &'a [&'a str],
    whole: Duration,
    resumed: AtomicUsize,
    taken_back: AtomicUsize,
    again: AtomicUsize,
}

impl Round<'_> {
    fn run(&self, n: usize, name: &str, fractions: &mut Fractions) {
        let host = self.base.clone_as(name);
        let at = self.whole.mul_f64(fractions.next());
        killed(&host, self.apply, at);
        let (verb, wanted) = if n.is_multiple_of(2) {
            ("resume", self.done)
        } else {
            ("rollback", self.base)
        };
        if n % 4 >= 2 {
            killed(
                &host,
                &[verb, "--yes"],
                self.whole.mul_f64(fractions.next()),
            );
            self.again.fetch_add(1, Ordering::Relaxed);
        }
        let ran = when_free(&host, &[verb, "--yes"]);
        if ran.out.starts_with("Nothing to resume") {
            // It died before the journal knew of it, so before the first change, or behind the
            // last.
            host.gpusetup_plain(self.apply).succeeds();
        }
        alone(&host);
        let left = differences(&wanted.root(), &host.root(), RECORDS);
        assert_eq!(left, [""; 0], "round {n}: {verb} after a kill at {at:?}");
        let count = if verb == "resume" {
            &self.resumed
        } else {
            &self.taken_back
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn takes(host: &Host, arguments: &[&str]) -> Duration {
    let began = Instant::now();
    host.gpusetup_plain(arguments).succeeds();
    began.elapsed()
}

/// Starts gpusetup and kills it after a while, and nothing of what it started.
pub fn killed(host: &Host, arguments: &[&str], after: Duration) {
    let mut running = host.gpusetup_starts(arguments);
    std::thread::sleep(after);
    running.kill().expect("it was ours to kill");
    running.wait().expect("it ended");
}

/// Calls gpusetup until it no longer says that what it started before is still at work.
pub fn when_free(host: &Host, arguments: &[&str]) -> host::Ran {
    let began = Instant::now();
    loop {
        let ran = host.gpusetup_plain(arguments);
        if ran.code != Some(6) || began.elapsed() > Duration::from_secs(120) {
            return ran.succeeds();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until nothing runs in a host any more.
pub fn alone(host: &Host) {
    let began = Instant::now();
    while host.is_at_work() {
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "something still runs in {}",
            host.root().display()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Numbers from 0 to 1 that follow from a seed (splitmix64).
pub struct Fractions(u64);

impl Fractions {
    /// Those of a seed.
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// The next one.
    #[allow(clippy::cast_precision_loss)] // 53 bits are what a f64 holds
    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
