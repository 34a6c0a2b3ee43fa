//! Waits for the package manager's locks before a transaction, and names the process that holds
//! them. On a fresh machine, apt's daily update or unattended-upgrades holds them for minutes.

use gpusetup_database::compat::PackageManager;
use gpusetup_system::{System, interrupt, process_name};
use rustix::process::{Flock, FlockType, fcntl_getlk};
use std::time::{Duration, Instant};

/// Waits until no lock is held, at most `limit`; `tell` is called with the holder and the time
/// waited so far. The error is a sentence.
pub fn wait(
    on: &System,
    manager: PackageManager,
    limit: Duration,
    tell: &mut dyn FnMut(&str, Duration),
) -> Result<(), String> {
    let began = Instant::now();
    while let Some(holder) = holder(on, manager) {
        if began.elapsed() >= limit {
            let waited = limit.as_secs();
            return Err(format!(
                "the package manager is still locked by {holder} after {waited} s (--lock-timeout)"
            ));
        }
        if interrupt::heard().is_some() {
            return Ok(());
        }
        tell(&holder, began.elapsed());
        std::thread::sleep(Duration::from_millis(500).min(limit));
    }
    Ok(())
}

/// The process that holds a lock: `unattended-upgr (process 812, /var/lib/dpkg/lock-frontend)`.
/// None if there is none, or it is not visible.
fn holder(on: &System, manager: PackageManager) -> Option<String> {
    let at_work = super::of(manager).process.and_then(|file| {
        let pid: i32 = on.read_text(file).ok()??.trim().parse().ok()?;
        (pid > 0 && System::live().exists(format!("/proc/{pid}"))).then(|| named(pid, file))
    });
    at_work.or_else(|| {
        super::of(manager).locks.iter().find_map(|path| {
            let file = on.open(path).ok()?;
            // A read lock conflicts with a write lock, and needs no write permission.
            let held = fcntl_getlk(file, &Flock::from(FlockType::ReadLock)).ok()??;
            Some(named(held.pid?.as_raw_nonzero().get(), path))
        })
    })
}

fn named(pid: i32, path: &str) -> String {
    // A lock in a tree is held by a process of this machine.
    let name = process_name(&System::live(), pid);
    format!("{name} (process {pid}, {path})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_lock_is_waited_for_and_its_holder_named() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        on.make_directories("/run", 0o755).expect("made");
        on.write(
            "/run/zypp.pid",
            format!("{}\n", std::process::id()).as_bytes(),
            0o644,
        )
        .expect("written");
        let refused =
            wait(&on, PackageManager::Zypper, Duration::ZERO, &mut |_, _| {}).expect_err("held");
        assert!(
            refused.contains(&std::process::id().to_string()) && refused.contains("/run/zypp.pid"),
            "{refused}"
        );
        on.write("/run/zypp.pid", b"0\n", 0o644).expect("written");
        wait(&on, PackageManager::Zypper, Duration::ZERO, &mut |_, _| {}).expect("free");
        std::thread::scope(|scope| {
            for (manager, path) in [
                (PackageManager::Apt, "/var/lib/dpkg/lock-frontend"),
                (PackageManager::Dnf, "/usr/lib/sysimage/rpm/.rpm.lock"),
            ] {
                let (on, lock) = (&on, dir.path().join(&path[1..]));
                scope.spawn(move || waited_for(on, &lock, manager));
            }
        });
    }

    fn waited_for(on: &System, lock: &Path, manager: PackageManager) {
        std::fs::create_dir_all(lock.parent().expect("absolute")).expect("made");
        // A separate process, because a process does not see its own locks.
        let script = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); time.sleep(2)";
        let mut child = std::process::Command::new("python3")
            .args(["-c", script])
            .arg(lock)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(child.stdout.take().expect("piped")),
            &mut line,
        )
        .expect("it has the lock");
        let soon = Duration::from_millis(50);
        let refused = wait(on, manager, soon, &mut |_, _| {}).expect_err("held");
        assert!(
            refused.contains("python3") && refused.contains(&child.id().to_string()),
            "{refused}"
        );
        let mut notices = 0;
        wait(on, manager, Duration::from_secs(30), &mut |_, _| {
            notices += 1
        })
        .expect("it ends");
        assert!(notices > 0);
        child.wait().expect("ended");
        wait(on, manager, Duration::ZERO, &mut |_, _| {}).expect("free");
    }
}
