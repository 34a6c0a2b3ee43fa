//! What a run reports while it works.

use gpusetup_operation::Operation;
use gpusetup_plan::Step;
use std::time::Duration;

/// What happens, as it happens.
#[derive(Debug)]
pub enum News<'a> {
    /// The first change is about to be made; nothing was refused.
    Begins,
    /// A step begins.
    Step(&'a Step),
    /// Something of it is done, which took more than a moment: bytes of all, where it is a download
    /// or an archive.
    Working {
        operation: &'a Operation,
        /// For how long.
        since: Duration,
        /// Bytes, and of how many.
        bytes: Option<(u64, Option<u64>)>,
    },
    /// An operation was carried out.
    Done(&'a Operation),
    /// The one-time password of an enrolment: for the person who is there, and for no file.
    Password(&'a str),
    /// Somebody else holds a lock of the package manager, or the network is not there.
    Waiting {
        /// What is waited for: who holds the lock, or the network.
        what: &'a str,
        /// For how long.
        since: Duration,
    },
    /// The host was so already.
    Kept(&'a Operation),
    /// An operation was rolled back.
    Undone(&'a Operation),
    /// An operation that a run before this one began, and did not end, is rolled back first.
    Recovering(&'a Operation),
}

/// Is told what happens.
pub(crate) type OnNews<'a> = &'a mut dyn FnMut(&News);
