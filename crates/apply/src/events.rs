//! What happened here, for programs that read logs: a line of JSON for each thing, behind those of
//! earlier runs.

use super::news::{News, OnNews};
use super::result::{Ending, now};
use gpusetup_plan::StepId;
use gpusetup_system::System;
use gpusetup_text::paths::EVENTS;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// `tell`, with everything noted too.
pub(crate) fn noting<'a>(on: &'a System, tell: OnNews<'a>) -> impl FnMut(&News) + 'a {
    let mut events = Events::of(on);
    move |news| {
        events.note(news);
        tell(news);
    }
}

#[derive(Default, Serialize)]
struct Line<'a> {
    time: String,
    process: u32,
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<StepId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    what: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<Ending>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u8>,
}

/// Writes them. The file is opened with the first, so that a run that does nothing leaves nothing;
/// where it cannot be written the work goes on without.
pub(crate) struct Events<'a> {
    on: &'a System,
    file: Option<File>,
}

impl<'a> Events<'a> {
    /// On this host.
    pub(crate) fn of(on: &'a System) -> Self {
        Self { on, file: None }
    }

    /// Notes what is told to a person too, but for what is repeated while it lasts.
    pub(crate) fn note(&mut self, news: &News) {
        let (event, step, what) = match news {
            News::Step(step) => ("step", Some(step.id), Some(step.title.clone())),
            News::Done(o) => ("done", None, Some(o.describe())),
            News::Kept(o) => ("kept", None, Some(o.describe())),
            News::Undone(o) => ("taken-back", None, Some(o.describe())),
            News::Recovering(o) => ("recovered", None, Some(o.describe())),
            News::Waiting { what, since } if since.is_zero() || since.as_millis() < 400 => {
                ("waiting", None, Some((*what).to_owned()))
            }
            News::Begins | News::Waiting { .. } | News::Working { .. } | News::Password(_) => {
                return;
            }
        };
        self.write(Line {
            event,
            step,
            what,
            ..Line::default()
        });
    }

    /// Notes how a run ended, and why where it is known.
    pub(crate) fn end(&mut self, state: Ending, error: Option<&(u8, String)>) {
        let (exit_code, what) = error.map_or((0, None), |(code, why)| (*code, Some(why.clone())));
        self.write(Line {
            event: "end",
            state: Some(state),
            exit_code: Some(exit_code),
            what,
            ..Line::default()
        });
    }

    fn write(&mut self, line: Line) {
        let line = Line {
            time: now(),
            process: std::process::id(),
            ..line
        };
        if self.file.is_none() {
            self.file = self.open().ok();
        }
        if let (Some(file), Ok(text)) = (&mut self.file, serde_json::to_string(&line)) {
            let _ = writeln!(file, "{text}");
        }
    }

    fn open(&self) -> std::io::Result<File> {
        if let Some(folder) = Path::new(EVENTS).parent() {
            self.on.make_directories(folder, 0o750)?;
        }
        self.on.append_to(EVENTS, 0o640)
    }
}
