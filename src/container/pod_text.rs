//! Texts of a pod: Kubernetes replaces `$(NAME)` in a command, its arguments and the values of variables, without a shell.
//! <https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/>

use super::unreadable::Unreadable;
use serde_json::Value;

/// The variables of a container.
#[derive(Debug, Default)]
pub struct PodVariables<'a> {
    /// Those that the file gives a value, in which those before them are replaced.
    pub known: Vec<(&'a str, String)>,
    /// The names of those whose value is elsewhere (`valueFrom`).
    pub unknown: Vec<&'a str>,
    /// There may be others (`envFrom`).
    has_others: bool,
}

impl<'a> PodVariables<'a> {
    /// Those of a container.
    ///
    /// # Errors
    ///
    /// If a value has a variable whose value is not known.
    pub fn of(container: &'a Value) -> Result<Self, Unreadable> {
        let mut all = Self { has_others: container.get("envFrom").is_some(), ..Self::default() };
        for entry in container.get("env").and_then(Value::as_array).into_iter().flatten() {
            let Some(name) = entry.get("name").and_then(Value::as_str) else { continue };
            if entry.get("valueFrom").is_some() {
                all.unknown.push(name);
                continue;
            }
            let value = entry.get("value").and_then(Value::as_str).unwrap_or_default();
            let value = all.expanded(value)?;
            all.known.push((name, value));
        }
        Ok(all)
    }

    /// A text with its variables replaced. `$$` is a dollar sign, and a variable that does not exist stays as it is written.
    ///
    /// # Errors
    ///
    /// If the value of a variable is not known.
    pub fn expanded(&self, text: &str) -> Result<String, Unreadable> {
        let (mut out, mut rest) = (String::new(), text);
        while let Some((before, behind)) = rest.split_once('$') {
            out += before;
            let name = behind.strip_prefix('(').and_then(|inner| inner.split_once(')'));
            rest = match name {
                Some((name, behind)) => {
                    out += &self.value(name)?;
                    behind
                }
                None => {
                    out.push('$');
                    behind.strip_prefix('$').unwrap_or(behind)
                }
            };
        }
        Ok(out + rest)
    }

    fn value(&self, name: &str) -> Result<String, Unreadable> {
        // The last one counts.
        match self.known.iter().rfind(|(of, _)| *of == name) {
            Some((_, value)) => Ok(value.clone()),
            None if self.has_others || self.unknown.contains(&name) => {
                let says = format!("Kubernetes replaces $({name}), and the file does not have its value");
                Err(Unreadable::new(says).hint("write the value itself"))
            }
            None => Ok(format!("$({name})")),
        }
    }
}

/// A text for a pod that stands for exactly this one.
pub fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let behind = rest[at..].trim_start_matches('$');
        let count = rest.len() - at - behind.len();
        let is_read = count > 1 || behind.starts_with('(');
        out += &rest[..at];
        out += &"$".repeat(if is_read { 2 * count } else { count });
        rest = behind;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn variables_are_replaced_as_kubernetes_does_it() {
        let container = json!({"env": [
            {"name": "HOST", "value": "db"},
            {"name": "URL", "value": "http://$(HOST):$(PORT)/$$(HOST)"},
            {"name": "PORT", "value": "80"},
        ]});
        let variables = PodVariables::of(&container).expect("known");
        assert_eq!(variables.known[1].1, "http://db:$(PORT)/$(HOST)", "only those before it");
        let read = |text: &str| variables.expanded(text).expect("known");
        for (text, value) in [
            ("--port=$(PORT)", "--port=80"),
            ("$(NONE) $(PORT", "$(NONE) $(PORT"),
            ("$HOME $$HOME $$$$", "$HOME $HOME $$"),
            ("$$$(PORT)$", "$80$"),
        ] {
            assert_eq!(read(text), value, "{text}");
        }
        for text in ["$", "$$", "$(A)", "$$(A)", "echo $HOME ${X}", "a$(", "$$$", "$(PORT)$"] {
            assert_eq!(read(&literal(text)), text, "{}", literal(text));
        }
        assert_eq!(literal("echo $HOME"), "echo $HOME");
    }

    #[test]
    fn a_value_that_the_file_does_not_have_is_named() {
        let secret = json!({"env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]});
        let variables = PodVariables::of(&secret).expect("nothing is replaced");
        assert_eq!(variables.unknown, ["KEY"]);
        let e = variables.expanded("--key=$(KEY)").expect_err("a secret");
        assert!(e.says.contains("$(KEY)"), "{e:?}");
        assert_eq!(variables.expanded("$(OTHER)").as_deref(), Ok("$(OTHER)"));
        let others = json!({"envFrom": [{"configMapRef": {"name": "a"}}]});
        let variables = PodVariables::of(&others).expect("nothing is replaced");
        assert!(variables.expanded("$(OTHER)").is_err());
    }
}
