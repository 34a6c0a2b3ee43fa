//! What is wrong with a file, in plain words.

/// A problem without the words of the libraries that read YAML.
pub(crate) fn plainly(problem: &str) -> String {
    if problem.starts_with("budget breached") {
        return "it has more parts than any such file needs".to_owned();
    }
    if problem.starts_with("multiple YAML documents detected") {
        return "a second document begins here (---): only one is read".to_owned();
    }
    if let Some(rest) = problem.strip_prefix("unknown field ") {
        let (key, known) = rest.split_once(", expected ").unwrap_or((rest, ""));
        let known: Vec<_> = known.split('`').skip(1).step_by(2).collect();
        return format!("there is no key {key}; the keys are: {}", known.join(", "));
    }
    if let Some(key) = problem.strip_prefix("missing field ") {
        return format!("the key {key} is missing");
    }
    let kinds = ["invalid type: ", "invalid value: "];
    let parts = kinds
        .iter()
        .find_map(|kind| problem.strip_prefix(kind)?.split_once(", expected "));
    let Some((found, expected)) = parts else {
        return problem.to_owned();
    };
    let expected = match expected {
        "u32" | "u64" => "a number from 0 on",
        "a boolean" => "true or false",
        "a string" => "text",
        "a map" => "names with values",
        "a sequence" => "a list",
        other => other,
    };
    let found = match found.split_once(' ') {
        Some(("string", text)) => text.to_owned(),
        Some(("integer" | "boolean" | "floating", text)) => {
            text.trim_start_matches("point ").to_owned()
        }
        Some(("unit", _)) => "nothing".to_owned(),
        _ => match found {
            "sequence" => "a list".to_owned(),
            "map" => "names with values".to_owned(),
            other => other.to_owned(),
        },
    };
    format!("expected {expected}, found {found}")
}
