//! The CPU cores of the machine, and parallel work.

use super::{bug, hooks};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};

/// The number of cores this process may use, or what a build for tests is told (`GPUSETUP_CORES`).
pub fn cores() -> usize {
    if let Some(number) = hooks::env_override("GPUSETUP_CORES").and_then(|text| text.parse().ok()) {
        return number;
    }
    thread::available_parallelism().map_or(1, usize::from)
}

/// Work that another thread does, or that is done already, because no thread could be had.
pub enum Parallel<'scope, T> {
    /// A thread does it.
    Running(ScopedJoinHandle<'scope, T>),
    Done(T),
}

impl<T> Parallel<'_, T> {
    /// Waits for the result; none if the work panicked.
    pub fn join(self) -> Option<T> {
        match self {
            Self::Running(handle) => handle.join().ok(),
            Self::Done(result) => Some(result),
        }
    }
}

/// Starts work in another thread. If the system has none left (`EAGAIN`), this one does it, before
/// it goes on.
pub fn in_parallel<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: &'scope (impl Fn() -> T + Sync),
) -> Parallel<'scope, T> {
    match thread::Builder::new().spawn_scoped(scope, work) {
        Ok(handle) => Parallel::Running(handle),
        Err(_) => Parallel::Done(work()),
    }
}

/// The results of `work` for each item, in the items' order; runs as many at once as there are
/// cores.
pub fn on_all_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, done) = (
        AtomicUsize::new(0),
        Mutex::new(Vec::with_capacity(items.len())),
    );
    let part = bug::part();
    let run = || {
        bug::join_part(part);
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return };
            let result = work(item);
            done.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((at, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..cores().min(items.len()) {
            in_parallel(scope, &run);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}
