//! The metadata of wheels: the required packages and their versions.

use crate::pypi::numbers;
use std::collections::BTreeSet;

/// The effective requirements, as name and version specifier: those without an extra or with one of
/// these, for this architecture.
pub fn requirements(metadata: &str, extra: &str, architecture: &str) -> Vec<(String, String)> {
    let requirement = |line: &str| {
        let line = line.strip_prefix("Requires-Dist: ")?.replace('\'', "\"");
        let (requirement, marker) = line.split_once(';').unwrap_or((&line, ""));
        let value = |key: &str| {
            let (_, rest) = marker.split_once(key)?;
            Some(
                rest.trim_start_matches([' ', '"'])
                    .split('"')
                    .next()?
                    .replace('_', "-"),
            )
        };
        let machine = architecture.replace('_', "-");
        let counts = value("extra ==").is_none_or(|e| extra.split(',').any(|extra| e == extra))
            && value("platform_machine ==").is_none_or(|m| m == machine)
            && value("platform_machine !=").is_none_or(|m| m != machine);
        let end = requirement.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
        let (name, rest) = requirement.split_at(end.unwrap_or(requirement.len()));
        let specifier = rest
            .rsplit_once(']')
            .map_or(rest, |(_, rest)| rest)
            .trim()
            .trim_matches(['(', ')']);
        counts.then(|| (name.replace('_', "-").to_lowercase(), specifier.to_owned()))
    };
    metadata
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(requirement)
        .collect()
}

/// The CUDA range in CuPy's description as a specifier: "(precompiled binary) package for CUDA 11.2
/// ~ 11.x".
pub fn described(metadata: &str) -> String {
    let versions = metadata
        .split_once("(precompiled binary) package for CUDA ")
        .map_or("", |(_, rest)| rest);
    let first = versions.split_whitespace().next().unwrap_or_default();
    let first = first.trim_end_matches('.').trim_end_matches(".x");
    if first.is_empty() {
        String::new()
    } else {
        format!(">={first}")
    }
}

/// The major version of CUDA in a name: `cudf-cu13`, `cupy-cuda12x`, `jax-cuda12-plugin`.
pub fn cuda_major(name: &str) -> Option<u16> {
    name.split('-').find_map(|part| {
        part.strip_prefix("cuda")
            .or_else(|| part.strip_prefix("cu"))?
            .trim_end_matches('x')
            .parse()
            .ok()
    })
}

/// A version specifier as a range, `>=12.5.82, <13`, or one version, `=12.4.127`. A known major
/// version supplies missing limits.
pub fn range(specifier: &str, major: Option<u16>) -> String {
    let (mut from, mut below) = (None, None);
    for piece in specifier
        .split(',')
        .map(str::trim)
        .filter(|piece| !piece.is_empty())
    {
        let version = piece.trim_start_matches(['=', '<', '>', '~', '!', ' ']);
        let of_series = version.strip_suffix(".*");
        let next = numbers(version)
            .first()
            .map(|major| (major + 1).to_string());
        match piece.trim_end_matches(version).trim() {
            "==" if of_series.is_none() => return format!("={version}"),
            "==" => (from, below) = (of_series.map(str::to_owned), next),
            "~=" => (from, below) = (Some(version.to_owned()), next),
            ">=" => from = Some(version.to_owned()),
            "<" => below = Some(version.trim_end_matches(".0").to_owned()),
            _ => {}
        }
    }
    let from = from.or_else(|| major.map(|m| m.to_string()));
    let below = below.or_else(|| major.map(|m| (m + 1).to_string()));
    let parts = [
        from.map(|v| format!(">={v}")),
        below.map(|v| format!("<{v}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The version on the line after a key, if there is one: `'cuda_version', '12.5.1'`. 1208 is 12.8.
pub fn version_after(text: &str, key: &str) -> String {
    let line = text
        .split_once(key)
        .filter(|_| !key.is_empty())
        .and_then(|(_, rest)| rest.lines().next());
    let version: String = line
        .unwrap_or_default()
        .trim_start_matches(|c: char| !c.is_ascii_digit())
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '.')
        .collect();
    match version.parse::<u32>() {
        Ok(number) if number >= 1000 => format!("{}.{}", number / 100, number % 100),
        _ => version,
    }
}

/// The CUDA series of libraries, `12.4, 12.8`, from the digits between a prefix and `.so` in their
/// names.
pub fn series_of_libraries<'a>(paths: impl Iterator<Item = &'a str>, prefix: &str) -> String {
    let series = |path: &str| {
        let number: u32 = path
            .rsplit('/')
            .next()?
            .strip_prefix(prefix)?
            .strip_suffix(".so")?
            .parse()
            .ok()?;
        Some((number / 10, number % 10))
    };
    let all: BTreeSet<_> = paths.filter_map(series).collect();
    all.iter()
        .map(|(major, minor)| format!("{major}.{minor}"))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specifier_becomes_a_range() {
        for (specifier, major, expected) in [
            ("==12.4.127", Some(12), "=12.4.127"),
            ("<13.0,>=12.5.82", Some(12), ">=12.5.82, <13"),
            (">=12.1.105", Some(12), ">=12.1.105, <13"),
            ("~=13.0", None, ">=13.0, <14"),
            ("==12.*", None, ">=12, <13"),
            ("", Some(12), ">=12, <13"),
            ("", None, ""),
        ] {
            assert_eq!(range(specifier, major), expected, "{specifier}");
        }
    }

    #[test]
    fn requirements_of_other_extras_and_machines_do_not_count() {
        let metadata = "Name: x\n\
            Requires-Dist: nvidia-cuda-runtime-cu12 (==12.4.127) ; platform_system == \"Linux\" and platform_machine == \"x86_64\"\n\
            Requires-Dist: cuda_toolkit[cudart,nvrtc]==13.0.3; platform_system == 'Linux'\n\
            Requires-Dist: nvidia-cudnn-cu12<10.0,>=9.3; extra == 'and_cuda'\n\nRequires-Dist: of the text";
        let names = |extra, machine| {
            requirements(metadata, extra, machine)
                .into_iter()
                .map(|(name, _)| name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names("", "aarch64"), ["cuda-toolkit"]);
        assert_eq!(
            names("and-cuda", "x86_64"),
            [
                "nvidia-cuda-runtime-cu12",
                "cuda-toolkit",
                "nvidia-cudnn-cu12"
            ]
        );
        assert_eq!(requirements(metadata, "", "x86_64")[1].1, "==13.0.3");
    }

    #[test]
    fn libraries_are_counted_by_series() {
        let paths = [
            "b/libb_cuda130.so",
            "b/libb_cuda118.so",
            "b/libb_cuda118_nocublaslt.so",
            "b/libb_cpu.so",
        ];
        assert_eq!(
            series_of_libraries(paths.into_iter(), "libb_cuda"),
            "11.8, 13.0"
        );
    }

    #[test]
    fn files_say_what_they_are_made_with() {
        assert_eq!(
            version_after("x\ncuda: Optional[str] = '13.0'\nhip = '9'", "\ncuda"),
            "13.0"
        );
        assert_eq!(
            version_after(
                "[('cuda_version', '12.5.1'), ('cudnn_version', '9')]",
                "'cuda_version'"
            ),
            "12.5.1"
        );
        assert_eq!(
            version_after("{\"cuda\": 1208, \"hip\": null}", "\"cuda\""),
            "12.8"
        );
        assert_eq!(
            version_after(
                "\x7fELF Cuda compilation tools, release 12.9, V12.9.86",
                "tools, release "
            ),
            "12.9"
        );
        assert_eq!(version_after("\ncuda = None\nhip = '9'", "\ncuda"), "");
    }
}
