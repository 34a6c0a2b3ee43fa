//! What `explain` says of gpusetup's own names: rules of the resolver, commands, options and files.

use crate::ids::{AddOnRule, RuleId};
use crate::paths;
use crate::render::explain::article::Article;
use crate::translation::Translation;
use crate::translation::words::{ABOUT_RULES, SEE_RULES};
use clap::{Arg, Command};

/// The article about a rule, a command, an option or a file; none if this is the name of none.
pub(crate) fn article(name: &str, language: &Translation) -> Option<Article> {
    let (kind, rest) = name.split_once(' ').unwrap_or(("", name));
    match kind {
        "rule" => rule(rest, language),
        "command" => command(rest),
        "option" | "flag" => option(rest),
        "file" => file(rest, language),
        _ => rule(name, language)
            .or_else(|| file(name, language))
            .or_else(|| command(name))
            .or_else(|| option(name)),
    }
}

fn rule(name: &str, language: &Translation) -> Option<Article> {
    let of_resolver = RuleId::ALL.iter().find(|rule| rule.as_str() == name);
    let (kind, id, title) = match of_resolver {
        Some(rule) => ("rules", rule.as_str(), rule.title()),
        None => {
            // `nccl-runs-on-gpu` is the add-on's rule `runs-on-gpu`.
            let named = AddOnRule::ALL.iter().filter(|rule| {
                let start = name.strip_suffix(rule.as_str());
                start.is_some_and(|start| start.is_empty() || start.ends_with('-'))
            });
            let rule = named.max_by_key(|rule| rule.as_str().len())?;
            ("add-on-rules", rule.as_str(), rule.title())
        }
    };
    let title = language.text(&format!("{kind}.{id}"), title);
    let mut article = Article::new(name, title).with("means", language.word(ABOUT_RULES));
    article.run = vec!["gpusetup plan -v".to_owned()];
    article.remedy = Some(language.word(SEE_RULES).to_owned());
    Some(article)
}

fn file(name: &str, language: &Translation) -> Option<Article> {
    let (path, text) = paths::ALL.iter().find(|(path, _)| {
        let file = path.rsplit('/').next().unwrap_or(path);
        path.eq_ignore_ascii_case(name) || file.eq_ignore_ascii_case(name)
    })?;
    Some(Article::new(*path, "").with(
        "means",
        language.text(&format!("files.{path}"), text.trim()),
    ))
}

fn command(name: &str) -> Option<Article> {
    let mut all = crate::cli::command();
    all.build();
    let mut found = &all;
    for word in name.split_whitespace() {
        found = found.get_subcommands().find(|sub| sub.get_name() == word)?;
    }
    let about = found
        .get_long_about()
        .or_else(|| found.get_about())?
        .to_string();
    let mut article = Article::new(format!("gpusetup {name}"), "").with("does", about);
    article.run = vec![format!("gpusetup {name} -h")];
    Some(article)
}

fn option(name: &str) -> Option<Article> {
    let name = name.trim_start_matches('-');
    let mut all = crate::cli::command();
    all.build();
    let having: Vec<(&Command, &Arg)> = all
        .get_subcommands()
        .flat_map(|sub| sub.get_subcommands().chain([sub]))
        .filter_map(|sub| {
            Some((
                sub,
                sub.get_arguments()
                    .find(|arg| arg.get_long() == Some(name) && !arg.is_hide_set())?,
            ))
        })
        .collect();
    let (_, arg) = having.first()?;
    let mut titles: Vec<_> = having
        .iter()
        .map(|(_, arg)| arg.get_help().map(ToString::to_string).unwrap_or_default())
        .collect();
    // That of most commands; of equally many, the first.
    let title = titles
        .iter()
        .rev()
        .max_by_key(|title| titles.iter().filter(|other| other == title).count())
        .cloned()
        .unwrap_or_default();
    titles.retain(|other| *other != title);
    let mut article = Article::new(format!("--{name}"), title);
    if let Some(more) = arg.get_long_help().map(ToString::to_string) {
        let more = more.split_once('\n').map_or("", |(_, more)| more.trim());
        if !more.is_empty() {
            article = article.with("means", more);
        }
    }
    for (label, of) in [
        ("values", values as fn(&Arg) -> String),
        ("default", default),
    ] {
        for (text, commands) in by_command(&having, of) {
            let commands = commands
                .filter(|_| !text.is_empty())
                .map(|names| format!(" (gpusetup {names})"));
            if !text.is_empty() {
                article = article.with(label, text + &commands.unwrap_or_default());
            }
        }
    }
    if let Some(variable) = arg.get_env() {
        article = article.with("also as", variable.to_string_lossy());
    }
    let mut names: Vec<_> = having.iter().map(|(command, _)| name_of(command)).collect();
    names.dedup();
    Some(article.with("of", format!("gpusetup {}", names.join(", "))))
}

/// What an option has in each command that takes it; without the commands if all have the same.
fn by_command(
    having: &[(&Command, &Arg)],
    of: fn(&Arg) -> String,
) -> Vec<(String, Option<String>)> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for (command, arg) in having {
        let (text, name) = (of(arg), name_of(command));
        match all.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) => names.push(name),
            None => all.push((text, vec![name])),
        }
    }
    let differ = all.len() > 1;
    all.into_iter()
        .map(|(text, names)| (text, differ.then(|| names.join(", "))))
        .collect()
}

fn values(arg: &Arg) -> String {
    if !arg.get_action().takes_values() {
        return String::new();
    }
    let all: Vec<_> = arg
        .get_possible_values()
        .iter()
        .map(|value| match value.get_help() {
            Some(help) => format!("{} ({help})", value.get_name()),
            None => value.get_name().to_owned(),
        })
        .collect();
    all.join(", ")
}

fn default(arg: &Arg) -> String {
    if !arg.get_action().takes_values() {
        return String::new();
    }
    let all: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    all.join(", ")
}

fn name_of(command: &Command) -> String {
    command
        .get_bin_name()
        .unwrap_or_default()
        .trim_start_matches("gpusetup ")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_file_command_and_option_is_explained() {
        let english = &Translation::ENGLISH;
        for rule in RuleId::ALL {
            assert!(article(rule.as_str(), english).is_some(), "{rule}");
        }
        assert!(
            article("nccl-runs-on-gpu", english)
                .is_some_and(|a| a.title == AddOnRule::RunsOnGpu.title())
        );
        for (path, text) in paths::ALL {
            assert!(
                article(path, english).is_some() && text.ends_with('.'),
                "{path}"
            );
        }
        let mut all = crate::cli::command();
        all.build();
        for sub in all
            .get_subcommands()
            .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
        {
            assert!(command(sub.get_name()).is_some(), "{}", sub.get_name());
            let options = sub
                .get_arguments()
                .filter(|arg| !arg.is_hide_set())
                .filter_map(Arg::get_long);
            for long in options {
                let explained = option(long).unwrap_or_else(|| panic!("--{long}"));
                assert!(!explained.title.is_empty(), "--{long}");
            }
        }
        assert!(article("no-such-thing", english).is_none());
    }
}
