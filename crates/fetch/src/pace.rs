//! How many connections one download has. Some servers give each connection so much and no more;
//! there two bring twice as much as one. Where the line itself is full, one is as good as four, and
//! more polite.

use std::time::Duration;

/// The most that one server is asked for.
const MAX_CONNECTIONS: usize = 4;

/// How long a number of connections is tried before it is judged.
const TRIAL: Duration = Duration::from_millis(500);

/// Bytes a second from which on no more is wanted: more than most lines have.
const FAST: f64 = 100e6;

/// How much more twice as many connections have to bring.
const HELPS: f64 = 1.2;

/// Watches how fast it goes.
#[derive(Debug)]
pub(super) struct Pace {
    connections: usize,
    /// When the trial began, and what was there then.
    since: (Duration, u64),
    /// What fewer connections brought, in bytes a second.
    before: f64,
    settled: bool,
}

impl Pace {
    /// Of one connection, that begins with this amount there.
    pub(crate) fn of_one(amount: u64) -> Self {
        Self {
            connections: 1,
            since: (Duration::ZERO, amount),
            before: 0.0,
            settled: false,
        }
    }

    /// How many connections more are wanted now, with this amount there.
    pub(crate) fn more(&mut self, now: Duration, amount: u64) -> usize {
        let (since, was) = self.since;
        if self.settled || now.saturating_sub(since) < TRIAL {
            return 0;
        }
        let rate = amount.saturating_sub(was) as f64 / (now - since).as_secs_f64();
        self.settled =
            rate >= FAST || rate < self.before * HELPS || self.connections >= MAX_CONNECTIONS;
        if self.settled {
            return 0;
        }
        (self.before, self.since) = (rate, (now, amount));
        let more = self.connections.min(MAX_CONNECTIONS - self.connections);
        self.connections += more;
        more
    }

    /// From now on it is left as it is.
    pub(crate) fn settles(&mut self) {
        self.settled = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked for at each half second, of a server that gives each connection so many bytes
    /// a second, and all of them together so many.
    fn asked(each: u64, all: u64) -> Vec<usize> {
        let (mut pace, mut amount, mut connections) = (Pace::of_one(7), 7, 1);
        let trial = |n: u32, amount: &mut u64, connections: &mut usize| {
            *amount += (each * *connections as u64).min(all) / 2;
            let more = pace.more(TRIAL * n, *amount);
            *connections += more;
            more
        };
        let mut trial = trial;
        (1..=4)
            .map(|n| trial(n, &mut amount, &mut connections))
            .collect()
    }

    #[test]
    fn a_server_that_limits_connections_gets_more_of_them() {
        assert_eq!(asked(10_000_000, u64::MAX), [1, 2, 0, 0]);
    }

    #[test]
    fn a_line_that_is_full_gets_no_more() {
        assert_eq!(asked(12_000_000, 12_000_000), [1, 0, 0, 0]);
        assert_eq!(asked(1_000_000_000, u64::MAX), [0, 0, 0, 0]);
    }

    #[test]
    fn nothing_is_judged_before_its_time() {
        let mut pace = Pace::of_one(0);
        assert_eq!(pace.more(TRIAL / 2, 1000), 0);
        assert_eq!(pace.more(TRIAL, 1000), 1);
        pace.settles();
        assert_eq!(pace.more(TRIAL * 2, 1_000_000), 0);
    }
}
