//! A build for tests can be told to die, as by SIGKILL, at its n-th touch of the world (`GPUSETUP_DIE_AT=n`): a test that
//! does so for every n sees every place where a power cut could come. No other build can.

/// A place where gpusetup may be cut off: right before a touch, or in the middle of one. Right after it is right before the next.
#[cfg(feature = "test-hooks")]
pub fn point() {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static AT: LazyLock<Option<u64>> = LazyLock::new(|| super::hooks::told("GPUSETUP_DIE_AT")?.parse().ok());
    static TOUCHES: AtomicU64 = AtomicU64::new(0);
    if let Some(at) = *AT
        && TOUCHES.fetch_add(1, Ordering::Relaxed) + 1 == at
    {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Nothing.
#[cfg(not(feature = "test-hooks"))]
pub fn point() {}
