//! What goes wrong while something is fetched, by what can be done about it.

use std::io;
use std::time::Duration;

/// Why an attempt did not bring it.
#[derive(Debug)]
pub(super) enum TransferError {
    /// Nobody answers there; that may pass.
    Unreachable(String),
    /// It may pass.
    Passing(String),
    /// It may pass, but not before so long.
    Later(String, Duration),
    /// It will not.
    Final(String),
    /// The server has no such file.
    NotThere(String),
    /// What is there already is no beginning of it.
    NoSuchPart,
    /// It is another file now than it was when it began.
    Changed,
    /// More came than was published.
    TooLong,
    Disk(io::Error),
    /// We are told to stop.
    Interrupted,
}

impl TransferError {
    /// Whether others that fetch parts of the same file meet it too.
    pub(crate) fn is_everybodys(&self) -> bool {
        !matches!(
            self,
            Self::Unreachable(_) | Self::Passing(_) | Self::Later(..)
        )
    }
}
