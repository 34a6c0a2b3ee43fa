//! What happens during a run, as it happens: bars on a terminal; without one a plain line for each
//! thing, and for what takes long one every ten seconds, which is what a serial console and a log
//! file want. On standard error: results go to standard output.

use crate::apply::News;
use crate::operation::{Download, Operation};
use crate::plan::{Plan, StepId};
use crate::text::{about, bytes};
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How long something may take without a word.
const PATIENCE: Duration = Duration::from_secs(10);

const BAR: &str = "  {msg:22!} {wide_bar} {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";
const COUNTER: &str = "  {spinner} {decimal_bytes}, {decimal_bytes_per_sec}  {wide_msg}";
const SPINNER: &str = "  {spinner} {elapsed}  {wide_msg}";

/// Tells a person what happens.
pub(crate) struct ProgressPrinter {
    /// The bar of what is being done, on a terminal.
    bar: Option<ProgressBar>,
    on_terminal: bool,
    last: Instant,
    out: Box<dyn Write>,
    /// When so many bytes were there, as the last line told: what came since then is the rate.
    last_shown: Option<(Instant, u64)>,
    /// What the host was already, told as a number when it is more than one thing.
    kept: Vec<String>,
    /// Where the last word goes: beside the rest when standard output is for one JSON object.
    last_word: Box<dyn Write>,
    /// The steps to come with the seconds of each, once everything is downloaded.
    to_come: Vec<(StepId, Option<u64>)>,
}

impl ProgressPrinter {
    /// On standard error; bars only where it is a terminal and they are wanted. Its last word goes
    /// to standard output, unless that is for something else.
    pub(crate) fn new(bars: bool, standard_output: bool) -> Self {
        let on_terminal = bars && std::io::stderr().is_terminal();
        let last_word: Box<dyn Write> = if standard_output {
            Box::new(std::io::stdout())
        } else {
            Box::new(std::io::stderr())
        };
        Self {
            bar: None,
            on_terminal,
            last: Instant::now(),
            out: Box::new(std::io::stderr()),
            last_shown: None,
            kept: Vec::new(),
            last_word,
            to_come: Vec::new(),
        }
    }

    /// Takes the steps of a plan, so that each one is told with the time that is left.
    pub(crate) fn expect(&mut self, plan: &Plan) {
        self.to_come = plan
            .steps
            .iter()
            .map(|step| (step.id, step.estimated_after_downloads(&plan.host)))
            .collect();
    }

    /// About how long this step and the later ones take; nothing if that is not known, or no more
    /// than a moment.
    fn left(&mut self, id: StepId) -> String {
        let at = self
            .to_come
            .iter()
            .position(|(step, _)| *step == id)
            .unwrap_or(self.to_come.len());
        self.to_come.drain(..at);
        let seconds = self
            .to_come
            .iter()
            .filter(|(id, _)| *id != StepId::Reboot)
            .map(|(_, s)| *s)
            .sum::<Option<u64>>();
        seconds
            .filter(|seconds| *seconds > 30)
            .map(|seconds| format!(" ({} left)", about(seconds)))
            .unwrap_or_default()
    }

    /// Tells what it all came to.
    pub(crate) fn end(&mut self, text: &str) {
        self.clear();
        let _ = writeln!(self.last_word, "{text}");
    }

    /// Tells one thing.
    pub(crate) fn tell(&mut self, news: &News) {
        if !matches!(news, News::Working { .. }) {
            self.last_shown = None;
        }
        match news {
            News::Begins => {}
            News::Step(step) => {
                let left = self.left(step.id);
                self.line(&format!("{}: {}{left}", step.id, step.title));
            }
            News::Done(operation) => self.line(&format!("  done: {}", operation.describe())),
            News::Kept(operation) => self.kept.push(operation.describe()),
            News::Undone(operation) => self.line(&format!("  undone: {}", operation.describe())),
            News::Recovering(operation) => self.line(&format!(
                "  undone (was not finished): {}",
                operation.describe()
            )),
            News::Password(password) => {
                self.line(&format!("  one-time password for the console: {password}"))
            }
            News::Waiting { what, since } => self.waiting(what, *since),
            News::Working {
                operation,
                since,
                bytes,
            } => self.working(operation, *since, *bytes),
        }
    }

    /// Puts the bar away, and tells what was kept.
    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        match std::mem::take(&mut self.kept).as_slice() {
            [] => {}
            [one] => self.line(&format!("  already done: {one}")),
            more => self.line(&format!("  {} operations already done", more.len())),
        }
    }

    fn line(&mut self, text: &str) {
        self.clear();
        self.last = Instant::now();
        // Whoever read this has gone away; the work goes on.
        let _ = writeln!(self.out, "{text}");
    }

    fn waiting(&mut self, what: &str, since: Duration) {
        if since.is_zero() || self.last.elapsed() >= PATIENCE || since < Duration::from_millis(400)
        {
            self.line(&format!("  {} s: waiting for {what}", since.as_secs()));
        }
    }

    fn working(
        &mut self,
        operation: &Operation,
        since: Duration,
        so_far: Option<(u64, Option<u64>)>,
    ) {
        if self.on_terminal {
            let bar = self.bar.get_or_insert_with(|| bar(operation, so_far));
            match so_far {
                Some((have, _)) => bar.set_position(have),
                None => bar.tick(),
            }
            return;
        }
        if let Some((have, _)) = so_far {
            self.last_shown.get_or_insert((Instant::now(), have));
        }
        if self.last.elapsed() >= PATIENCE {
            let so_far = match so_far {
                Some((have, all)) => self.last_shown.replace((Instant::now(), have)).map_or_else(
                    String::new,
                    |(then, was)| {
                        amount(
                            have,
                            all,
                            have.saturating_sub(was) as f64 / then.elapsed().as_secs_f64(),
                        )
                    },
                ),
                None => format!("{} s", since.as_secs()),
            };
            self.line(&format!("  {so_far}: {}", operation.describe()));
        }
    }
}

/// So many bytes, of how many, how many a second, and the time that the rest will take.
fn amount(have: u64, all: Option<u64>, rate: f64) -> String {
    let each_second = bytes(rate as u64);
    match all {
        Some(all) => {
            // What would take days has only begun, or stands still.
            let seconds =
                Some(all.saturating_sub(have) as f64 / rate).filter(|seconds| *seconds < 86_400.0);
            let left =
                seconds.map(|s| format!(", {} left", HumanDuration(Duration::from_secs_f64(s))));
            format!(
                "{} of {}, {each_second}/s{}",
                bytes(have),
                bytes(all),
                left.unwrap_or_default()
            )
        }
        None => format!("{}, {each_second}/s", bytes(have)),
    }
}

/// A bar where it is known how much is to come, else something that turns.
fn bar(operation: &Operation, so_far: Option<(u64, Option<u64>)>) -> ProgressBar {
    let (bar, template) = match so_far {
        Some((_, Some(all))) => (ProgressBar::new(all), BAR),
        Some((_, None)) => (ProgressBar::no_length(), COUNTER),
        None => (ProgressBar::no_length(), SPINNER),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(short(operation));
    bar
}

/// What it is, where there is little room: of a download the file's name.
fn short(operation: &Operation) -> String {
    let name = match operation {
        Operation::Download(Download { to, .. }) => to.file_name(),
        _ => None,
    };
    name.map_or_else(
        || operation.describe(),
        |name| name.to_string_lossy().into_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Reboot;
    use crate::operation::Remove;
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("one thread").extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn without_a_terminal_there_is_a_line_every_ten_seconds() {
        let out = Written::default();
        let mut teller = ProgressPrinter {
            bar: None,
            on_terminal: false,
            last: Instant::now(),
            out: Box::new(out.clone()),
            last_shown: None,
            kept: Vec::new(),
            last_word: Box::new(out.clone()),
            to_come: Vec::new(),
        };
        let operation = Operation::Remove(Remove {
            path: PathBuf::from("/f"),
        });
        let working = |have| News::Working {
            operation: &operation,
            since: PATIENCE,
            bytes: Some((have, Some(2_000_000))),
        };
        for have in 0..1000 {
            teller.tell(&working(have * 1000));
        }
        teller.last = Instant::now()
            .checked_sub(PATIENCE)
            .expect("the clock is older than that");
        teller.tell(&working(1_000_000));
        teller.tell(&working(1_100_000));
        teller.tell(&News::Done(&operation));
        let text = String::from_utf8(out.0.lock().expect("one thread").clone()).expect("text");
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[0].starts_with("  1.0 MB of 2.0 MB, ") && lines[0].ends_with(" left: remove /f"),
            "{text}"
        );
        assert_eq!(lines[1..], ["  done: remove /f"]);
    }

    #[test]
    fn a_line_tells_the_rate_and_the_time_left() {
        assert_eq!(
            amount(1_000_000, Some(241_000_000), 2e6),
            "1.0 MB of 241 MB, 2.0 MB/s, 2 minutes left"
        );
        assert_eq!(amount(1_000_000, None, 2e6), "1.0 MB, 2.0 MB/s");
        assert_eq!(
            amount(0, Some(1_000_000), 0.0),
            "0 B of 1.0 MB, 0 B/s",
            "a server that says nothing"
        );
    }

    #[test]
    fn every_template_is_understood() {
        let operation = Operation::Reboot(Reboot::default());
        for so_far in [Some((1, Some(2))), Some((1, None)), None] {
            assert_eq!(bar(&operation, so_far).message(), "reboot");
        }
        for template in [BAR, COUNTER, SPINNER] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
