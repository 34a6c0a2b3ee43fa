//! Work that needs the network, repeated until it is there.

use super::Failure;
use super::config::RunConfig;
use super::news::{News, OnNews};
use gpusetup_system::interrupt;
use std::time::{Duration, Instant};

/// Does what needs the network, and again until it is there, for as long as the settings say; an
/// error says whether nobody could be reached.
pub(crate) fn with_network(
    config: &RunConfig,
    tell: OnNews,
    mut work: impl FnMut(OnNews) -> Result<(), (Failure, bool)>,
) -> Result<(), Failure> {
    const PAUSE: Duration = Duration::from_secs(2);
    let began = Instant::now();
    loop {
        match work(tell) {
            Err((failure, true)) if began.elapsed() + PAUSE < config.network_timeout => {
                let what = format!("the network: {failure}");
                tell(&News::Waiting {
                    what: &what,
                    since: began.elapsed(),
                });
                std::thread::sleep(PAUSE);
                not_interrupted()?;
            }
            worked => return worked.map_err(|(failure, _)| failure),
        }
    }
}

/// An error if the run was told to stop.
pub(crate) fn not_interrupted() -> Result<(), Failure> {
    interrupt::heard().map_or(Ok(()), |signal| Err(Failure::Interrupted(signal)))
}
