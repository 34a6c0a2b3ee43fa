//! What one subject is, in labelled paragraphs: the same for a check, an exit code, a GPU, an error
//! number and a term.

use crate::causes::{gpus, offline_root};
use crate::render::Paint;
use crate::resolve::{PythonCommand, PythonPackage};
use crate::text::{padded, wrapped};
use crate::translation::Translation;
use crate::translation::words::AND_MORE;
use serde::Serialize;
use std::path::Path;

/// The columns of labels.
const LABEL: usize = 9;

/// An explanation of one subject.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Article {
    schema: &'static str,
    /// The subject as gpusetup calls it: `GS201`, `Xid 79`.
    pub(crate) subject: String,
    /// What it is in a few words.
    pub(crate) title: String,
    /// Paragraphs with their labels.
    pub(crate) paragraphs: Vec<Paragraph>,
    /// How the builds of a framework are installed with Python's package managers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) python: Vec<PythonPackage>,
    /// What to do, in words.
    #[serde(rename = "do")]
    pub(crate) remedy: Option<String>,
    /// Commands to paste.
    pub(crate) run: Vec<String>,
    /// Where this is published.
    pub(crate) sources: Vec<String>,
    /// Related subjects.
    pub(crate) see: Vec<String>,
}

/// A labelled paragraph.
#[derive(Debug, Serialize)]
pub(crate) struct Paragraph {
    /// One word: `means`, `causes`.
    pub(crate) label: &'static str,
    /// Sentences.
    pub(crate) text: String,
}

impl Article {
    pub(crate) fn new(subject: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            schema: "gpusetup.article/1",
            subject: subject.into(),
            title: title.into(),
            ..Self::default()
        }
    }

    /// With a paragraph.
    pub(crate) fn with(mut self, label: &'static str, text: impl Into<String>) -> Self {
        self.paragraphs.push(Paragraph {
            label,
            text: text.into(),
        });
        self
    }

    /// With commands that plan for these GPUs.
    pub(crate) fn for_gpus(mut self, specs: &[String]) -> Self {
        for command in self
            .run
            .iter_mut()
            .filter(|command| command.starts_with("gpusetup plan "))
        {
            *command = gpus::command(command, specs);
        }
        self
    }

    /// With commands for the host in a tree instead of this one.
    pub(crate) fn for_root(mut self, root: &Path) -> Self {
        self.run = self
            .run
            .iter()
            .filter_map(|command| offline_root::command(command, root))
            .collect();
        for paragraph in &mut self.paragraphs {
            paragraph.text = offline_root::sentence(&paragraph.text, root);
        }
        self
    }

    /// For a person, in English. Sources are unfolded with `verbose`.
    pub(crate) fn text(&self, paint: Paint, verbose: bool, width: usize) -> String {
        self.text_in(&Translation::ENGLISH, paint, verbose, width)
    }

    /// The same with labels in this language.
    pub(crate) fn text_in(
        &self,
        language: &Translation,
        paint: Paint,
        verbose: bool,
        width: usize,
    ) -> String {
        // A title that contains the name says it all: "cuDNN".
        let named = self
            .title
            .to_lowercase()
            .contains(&self.subject.to_lowercase());
        let head = match (self.title.is_empty(), named) {
            (true, _) => self.subject.clone(),
            (false, true) => self.title.clone(),
            (false, false) => format!("{}  {}", self.subject, self.title),
        };
        let lines = Lines { language, width };
        let mut out = wrapped("", &paint.bold(&head), width);
        for paragraph in &self.paragraphs {
            out += &lines.line(paragraph.label, &paragraph.text);
        }
        for package in &self.python {
            out += &lines.python(package, paint);
        }
        if let Some(remedy) = &self.remedy {
            out += &lines.line("do", remedy);
        }
        for (n, command) in self.run.iter().enumerate() {
            let label = if n == 0 && self.remedy.is_none() {
                "try"
            } else {
                ""
            };
            let indent = if self.remedy.is_none() { "" } else { "  " };
            out += &format!("{}{indent}{}\n", lines.first(label), paint.bold(command));
        }
        if !self.see.is_empty() {
            let all: Vec<_> = self
                .see
                .iter()
                .map(|other| format!("gpusetup explain {other}"))
                .collect();
            out += &lines.line("see", &all.join("; "));
        }
        match self.sources.as_slice() {
            [] => {}
            all if verbose => out.extend(
                all.iter()
                    .map(|source| format!("{}{source}\n", lines.first("source"))),
            ),
            [only] => out += &lines.line("source", only),
            [one, rest @ ..] => {
                let count = rest.len().to_string();
                let sources = language.filled(AND_MORE, &[("first", one), ("count", &count)]);
                out += &lines.line("source", &sources);
            }
        }
        out
    }
}

/// How an article's lines are written.
struct Lines<'a> {
    language: &'a Translation,
    width: usize,
}

impl Lines<'_> {
    fn first(&self, label: &str) -> String {
        format!("  {} ", padded(self.language.word(label), LABEL))
    }

    fn line(&self, label: &str, text: &str) -> String {
        wrapped(&self.first(label), text, self.width)
    }

    fn python(&self, package: &PythonPackage, paint: Paint) -> String {
        let cuda = format!("The build for CUDA {} {}.", package.cuda, package.needs());
        let mut out = self.line("python", &cuda);
        for PythonCommand { command, .. } in &package.commands {
            out += &format!("  {:<9} {}\n", "", paint.bold(command));
        }
        if package.commands.is_empty() {
            out += &self.line("", "No source says where it is published.");
        }
        if let Some(range) = package.python {
            out += &self.line("", &format!("Its wheels are for Python {range}."));
        }
        if let Some(extensions) = package.extensions {
            let needs = extensions.needs();
            out += &self.line("", &format!("Compiling extensions for it needs {needs}."));
        }
        out
    }
}
