//! A build for tests can be told to die, as by SIGKILL, at its n-th touch of the world (`GPUSETUP_DIE_AT=n`): a test that
//! does so for every n sees every place where a power cut could come. Nothing of this is in a release build.

/// A place where gpusetup may be cut off: right before or right after a touch.
#[cfg(debug_assertions)]
pub fn point() {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static AT: LazyLock<Option<u64>> = LazyLock::new(|| std::env::var("GPUSETUP_DIE_AT").ok()?.parse().ok());
    static TOUCHES: AtomicU64 = AtomicU64::new(0);
    if let Some(at) = *AT
        && TOUCHES.fetch_add(1, Ordering::Relaxed) + 1 == at
    {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Nothing, in a release build.
#[cfg(not(debug_assertions))]
pub fn point() {}
