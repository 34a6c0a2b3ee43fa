//! One writer on a host: a lock that the kernel lets go of when its holder ends, however it ends,
//! and with it all that it started: a package manager or an installer that outlives a killed
//! gpusetup still writes. It says who holds it.

use super::Failure;
use super::result::now;
use gpusetup_system::{System, input, interrupt};
use gpusetup_text::paths::LOCK;
use gpusetup_text::text;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// The lock, held until it is dropped. The file stays: removing it would let two holders in by two
/// files of one name.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // For those too that inherited it: a daemon that a package started is none of ours any
        // more.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl Lock {
    /// Takes it, waiting for another to let it go for `patience` at most, of which `tell` hears;
    /// [`Failure::Later`] names its holder.
    pub fn take(
        on: &System,
        patience: Duration,
        tell: &mut dyn FnMut(&Failure),
    ) -> Result<Self, Failure> {
        let began = Instant::now();
        loop {
            match Self::try_take(on) {
                Err(held @ Failure::Later(_))
                    if began.elapsed() < patience && interrupt::heard().is_none() =>
                {
                    tell(&held);
                    std::thread::sleep(Duration::from_millis(500).min(patience));
                }
                taken => return taken,
            }
        }
    }

    fn try_take(on: &System) -> Result<Self, Failure> {
        let failed = |e: io::Error| Failure::Blocked(format!("cannot use the lock {LOCK}: {e}"));
        let mut file = open(on).map_err(failed)?;
        // Who only asks whether it is held holds it for a moment too.
        let taken = (0..5)
            .map(|_| flock(&file, FlockOperation::NonBlockingLockExclusive))
            .find(|taken| {
                let busy = *taken == Err(rustix::io::Errno::WOULDBLOCK);
                if busy {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                !busy
            });
        match taken.unwrap_or(Err(rustix::io::Errno::WOULDBLOCK)) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder).map_err(failed)?;
                let holder = if holder.is_empty() {
                    "it does not say who"
                } else {
                    holder.trim_end()
                };
                return Err(Failure::Later(format!(
                    "another gpusetup, or a program that it started, is running on this host: {holder}"
                )));
            }
            Err(e) => return Err(failed(e.into())),
        }
        file.set_len(0).map_err(failed)?;
        // The lock holds without the holder's name: a full disk must not keep a rollback out.
        let _ = writeln!(file, "process {} since {}", std::process::id(), now());
        // Everything that is started from now on holds it too.
        fcntl_setfd(&file, FdFlags::empty()).map_err(|e| failed(e.into()))?;
        Ok(Self { file })
    }

    /// Who holds it now, if somebody does and it can be seen.
    pub fn holder(on: &System) -> Option<String> {
        let file = on.open(LOCK).ok()?;
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(rustix::io::Errno::WOULDBLOCK) => Some(written_by_holder(file)),
            _ => None,
        }
    }
}

/// What the holder wrote about itself, in one line.
fn written_by_holder(file: File) -> String {
    const MAX_HOLDER_BYTES: u64 = 4096;
    let text = input::limited(file, MAX_HOLDER_BYTES)
        .ok()
        .flatten()
        .unwrap_or_default();
    text::one_line(String::from_utf8_lossy(&text).trim_end())
}

fn open(on: &System) -> io::Result<File> {
    if let Some(folder) = Path::new(LOCK).parent() {
        on.make_directories(folder, 0o755)?;
    }
    // Nobody else may open it: who can, can hold it and keep every apply out.
    on.append_to(LOCK, 0o600)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_holds_it() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        let take = |patience| Lock::take(&on, patience, &mut |_| {});
        let first = take(Duration::ZERO).expect("free");
        let refused = take(Duration::ZERO).expect_err("held");
        assert_eq!(refused.exit(), gpusetup_text::exit::Exit::Later);
        assert!(
            refused
                .to_string()
                .contains(&format!("process {} since 2", std::process::id())),
            "{refused}"
        );
        drop(first);
        let second = std::thread::scope(|scope| {
            let second = take(Duration::ZERO).expect("free again");
            let third = scope.spawn(|| take(Duration::from_secs(60)));
            std::thread::sleep(Duration::from_millis(100));
            drop(second);
            third.join().expect("no panic")
        });
        second.expect("waited for");
    }
}
