//! Finds a GPU by its usual names: `H100`, `rtx4090`, `3090 Ti`, `A100 80GB`, `h100 sxm`.

use super::{Database, Gpu};
use crate::version::ComputeCapability;
use std::cmp::Reverse;

/// A name that matches no GPU, or several with different needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ambiguous {
    /// No GPU's name contains all these words.
    #[error("no GPU is called `{name}`{}", suggestion(.nearest))]
    Unknown {
        /// The requested name.
        name: String,
        /// Up to three names with a similar spelling, the likeliest first.
        nearest: Vec<String>,
    },
    /// Several GPUs with different needs match.
    #[error("`{name}` could be any of {count} GPUs, which need different plans: {}; add what tells them apart, or name one by its id", .candidates.join(", "))]
    Several {
        /// The requested name.
        name: String,
        /// How many match.
        count: usize,
        /// Name and PCI id of one for each plan, and what makes the difference.
        candidates: Vec<String>,
    },
}

fn suggestion(nearest: &[String]) -> String {
    match nearest {
        [] => "; `gpusetup db list gpus` lists all".to_owned(),
        [one] => format!("; did you mean {one}?"),
        [most @ .., last] => format!("; did you mean {} or {last}?", most.join(", ")),
    }
}

/// Words that may be omitted from every name.
const BRANDS: [&str; 4] = ["nvidia", "geforce", "tesla", QUADRO];

/// The brand that NVIDIA gave up while it kept the names: `RTX 4000` is a Quadro RTX 4000, or one
/// of its successors.
const QUADRO: &str = "quadro";

/// Words that say nothing without a number, and may be omitted from a name without one (`titan x`).
const SERIES: [&str; 2] = ["gtx", "rtx"];

/// No name has more words.
const MAX_WORDS: usize = 16;

/// The shortest number that names a GPU without its letters, as in `580`.
const SHORTEST_NUMBER: usize = 3;

/// A GPU whose name has the requested words.
#[derive(Debug, Clone, Copy)]
struct Match<'a> {
    gpu: &'a Gpu,
    /// How many words of its name were not requested.
    surplus: usize,
    /// Whether the requested words tell the model, and not the memory or the form of some board
    /// alone.
    is_of_model: bool,
}

impl Match<'_> {
    fn is_exact(&self) -> bool {
        self.surplus == 0
    }
}

impl Gpu {
    fn first_branch(&self) -> Option<u16> {
        let listed = self.listed_from.first().map(|release| release.branch);
        listed
            .max(self.first_driver_branch)
            .max(self.absent_from_branch)
    }

    fn has_needs_of(&self, other: &Self) -> bool {
        self.compute_capability == other.compute_capability
            && self.modules == other.modules
            && self.last_driver_branch == other.last_driver_branch
            && self.only_on == other.only_on
    }
}

impl Database {
    /// The GPU with this marketing name: the requested words must appear in its name, in the same
    /// order, and tell its model. Spaces between words do not matter (`rtx4090` is `RTX 4090`), and
    /// the board's form and memory may be added (`h100 sxm`, `t4 16gb`). Several matches with the
    /// same needs count as one.
    ///
    /// # Errors
    ///
    /// If no GPU has such a name, or if several with different needs have.
    pub fn gpu_named(&self, name: &str) -> Result<&Gpu, Ambiguous> {
        let asked = asked_words(name);
        let unknown = |nearest| {
            Err(Ambiguous::Unknown {
                name: name.to_owned(),
                nearest,
            })
        };
        let mut found = self.matching(name, &asked);
        // A name that no driver lists often belongs to another GPU, on a chip that was never sold
        // under it.
        if found.iter().any(|m| self.is_listed(m.gpu)) {
            found.retain(|m| self.is_listed(m.gpu));
        }
        // A GPU without a published compute capability cannot have different needs.
        if found.iter().any(|m| m.gpu.compute_capability.is_some()) {
            found.retain(|m| m.gpu.compute_capability.is_some());
        }
        // The sort is stable: among those with the fewest extra words, the general entry, the one
        // that drivers list first and the lowest id win. A later one on another chip is rare.
        found.sort_by_key(|m| (m.surplus, m.gpu.subsystem.is_some(), m.gpu.first_branch()));
        let is_of_model = found.iter().any(|m| m.is_of_model);
        let known_as = self.gpus.iter().find(|g| {
            g.known_as
                .as_deref()
                .is_some_and(|name| of_name(g, &words(name), &asked) == Some(0))
        });
        let found: Vec<_> = known_as
            .into_iter()
            .chain(found.into_iter().map(|m| m.gpu))
            .collect();
        let Some(first) = found.first() else {
            return unknown(self.spelled_like(&asked.concat()));
        };
        if found.iter().all(|g| g.has_needs_of(first)) {
            if is_of_model || known_as.is_some() {
                return Ok(first);
            }
            let listed = found.iter().find(|g| self.is_listed(g));
            return unknown(
                listed
                    .map(|g| spoken(&g.name).to_owned())
                    .into_iter()
                    .collect(),
            );
        }
        let mut kinds: Vec<&Gpu> = Vec::new();
        for gpu in &found {
            if !kinds.iter().any(|kind| kind.has_needs_of(gpu)) {
                kinds.push(gpu);
            }
        }
        kinds.sort_by_key(|gpu| Reverse(gpu.compute_capability));
        let candidates = kinds.into_iter().map(Gpu::described).collect();
        Err(Ambiguous::Several {
            name: name.to_owned(),
            count: found.len(),
            candidates,
        })
    }

    /// The GPUs that a name may mean.
    fn matching(&self, name: &str, asked: &[String]) -> Vec<Match<'_>> {
        let mut found: Vec<_> = self
            .gpus
            .iter()
            .filter_map(|g| matched(g, asked, words))
            .collect();
        if found.is_empty() {
            found = self
                .gpus
                .iter()
                .filter_map(|g| matched(g, asked, words_without_letter))
                .collect();
        }
        let brand = brand(name);
        if let Some(brand) = brand.filter(|brand| found.iter().any(|m| has_brand(m.gpu, brand))) {
            found.retain(|m| has_brand(m.gpu, brand));
        }
        let has_digit = asked
            .iter()
            .any(|word| word.bytes().any(|b| b.is_ascii_digit()));
        let is_of_model = found.iter().any(|m| m.is_of_model);
        if has_digit && is_of_model {
            found.retain(|m| m.is_of_model);
        }
        if let ([number], None) = (asked, brand)
            && number.bytes().all(|b| b.is_ascii_digit())
        {
            if number.len() < SHORTEST_NUMBER {
                return Vec::new();
            }
            // GeForces are called by their number. Of others the letters tell the generation:
            // `6000` may be an A6000.
            if !found
                .iter()
                .any(|m| m.is_of_model && has_brand(m.gpu, "geforce"))
            {
                found.retain(|m| m.is_of_model);
                let with_letters = self
                    .gpus
                    .iter()
                    .filter(|g| !found.iter().any(|m| std::ptr::eq(m.gpu, *g)))
                    .filter_map(|g| numbered(g, number));
                let with_letters: Vec<_> = with_letters.collect();
                found.extend(with_letters);
                return found;
            }
        }
        let is_quadro = |m: &Match| brand.is_none() && has_brand(m.gpu, QUADRO);
        if found.iter().any(|m| m.is_exact() && !is_quadro(m)) {
            found.retain(Match::is_exact);
        } else if found.iter().any(Match::is_exact) {
            found.retain(|m| m.is_exact() || !is_quadro(m));
        }
        found
    }

    /// The names of GPUs in driver lists, architectures, systems and instance types that need the
    /// fewest changed letters. Names with the same beginning come first, then those with the
    /// nearest number.
    fn spelled_like(&self, asked: &str) -> Vec<String> {
        const MAX_ASKED: usize = 40;
        if asked.is_empty() || asked.len() > MAX_ASKED {
            return Vec::new();
        }
        // One letter in three may differ.
        let most = (asked.chars().count() / 3).min(3);
        let mut near = Vec::new();
        let mut consider =
            |name: &str, is_mobile: bool, rank: (bool, Reverse<Option<ComputeCapability>>)| {
                let plain = words(name).concat().to_lowercase();
                let distance = strsim::osa_distance(asked, &plain);
                if distance <= most {
                    let begins = asked
                        .bytes()
                        .zip(plain.bytes())
                        .take_while(|(a, b)| a == b)
                        .count();
                    let off = number(asked).abs_diff(number(&plain));
                    near.push((
                        (distance, Reverse(begins), off, is_mobile, rank),
                        spoken(name).to_owned(),
                    ));
                }
            };
        for gpu in self.gpus.iter().filter(|g| self.is_listed(g)) {
            let names = gpu
                .known_as
                .as_deref()
                .into_iter()
                .chain(gpu.name.split(" / "));
            for name in names.filter(|name| !name.contains("Engineering")) {
                consider(
                    name,
                    gpu.mobile,
                    (gpu.known_as.is_none(), Reverse(gpu.compute_capability)),
                );
            }
        }
        for architecture in &self.architectures {
            consider(
                &architecture.name,
                false,
                (true, Reverse(Some(architecture.compute_capability))),
            );
        }
        let systems = self
            .systems
            .iter()
            .flat_map(|s| std::iter::once(&s.name).chain(&s.aliases));
        for machine in systems.chain(self.instances.iter().map(|i| &i.name)) {
            consider(machine, false, (true, Reverse(None)));
        }
        near.sort();
        let mut names: Vec<_> = Vec::new();
        for (_, name) in near {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.truncate(3);
        names
    }
}

/// A GPU whose name has these words, with the board's form and memory beside them. A name is split
/// into its words by `words`.
fn matched<'a>(gpu: &'a Gpu, asked: &[String], words: fn(&str) -> Vec<&str>) -> Option<Match<'a>> {
    if asked.is_empty() || !has_letters(gpu, asked) {
        return None;
    }
    // A slash separates the names of two boards.
    gpu.name
        .split(" / ")
        .filter_map(|name| matched_board(gpu, &words(name), asked))
        .min_by_key(|m| m.surplus)
}

fn matched_board<'a>(gpu: &'a Gpu, name: &[&str], asked: &[String]) -> Option<Match<'a>> {
    let skipped = skipped(gpu, name, asked)?;
    Some(Match {
        gpu,
        surplus: skipped.count_ones() as usize,
        is_of_model: tells_model(name, skipped),
    })
}

/// Whether a name has the letters of the requested words in their order, without which it has not
/// the words: most names have not, and splitting each into words takes longer than a plan.
fn has_letters(gpu: &Gpu, asked: &[String]) -> bool {
    let mut letters = gpu.name.bytes();
    asked
        .iter()
        .filter(|word| !is_of_board(gpu, word))
        .flat_map(|word| word.bytes())
        .all(|wanted| letters.any(|letter| letter.eq_ignore_ascii_case(&wanted)))
}

/// A GPU whose model is this number with letters before it: `A6000` for 6000.
fn numbered<'a>(gpu: &'a Gpu, number: &str) -> Option<Match<'a>> {
    gpu.name.split(" / ").find_map(|name| {
        let words = words(name);
        let letters = words[model(&words)?].strip_suffix(number)?;
        letters
            .bytes()
            .all(|b| b.is_ascii_alphabetic())
            .then_some(Match {
                gpu,
                surplus: words.len(),
                is_of_model: true,
            })
    })
}

/// Where in a name the model is: its first word with a number that is not the memory.
fn model(name: &[&str]) -> Option<usize> {
    name.iter().position(|word| {
        memory(&word.to_lowercase()).is_none() && word.bytes().any(|b| b.is_ascii_digit())
    })
}

/// Whether a name is told from others without the skipped words.
fn tells_model(name: &[&str], skipped: u32) -> bool {
    let mut skipped = name
        .iter()
        .enumerate()
        .filter(|(at, _)| skipped & (1 << at) != 0);
    match model(name) {
        Some(model) => skipped.all(|(at, _)| at != model),
        None => skipped.all(|(_, word)| {
            SERIES
                .iter()
                .any(|series| word.eq_ignore_ascii_case(series))
        }),
    }
}

/// Whether a requested name is one of NVIDIA's brands and no model: `quadro`.
pub fn is_brand(name: &str) -> bool {
    BRANDS.iter().any(|brand| brand.eq_ignore_ascii_case(name))
}

/// The brand in a requested name, other than NVIDIA's own.
fn brand(name: &str) -> Option<&'static str> {
    let small = name.to_lowercase();
    BRANDS
        .into_iter()
        .find(|brand| *brand != "nvidia" && small.contains(brand))
}

fn has_brand(gpu: &Gpu, brand: &str) -> bool {
    gpu.name
        .split(|c: char| !c.is_alphanumeric())
        .any(|word| word.eq_ignore_ascii_case(brand))
}

/// A name as people say it.
fn spoken(name: &str) -> &str {
    name.trim_start_matches("NVIDIA ")
}

/// The first number in a name, 3090 in `rtx3090ti`; 0 if there is none.
fn number(name: &str) -> u64 {
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}

/// The words of a name in the database, without those that every name may have.
fn words(name: &str) -> Vec<&str> {
    name.split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty() && !BRANDS.iter().any(|brand| w.eq_ignore_ascii_case(brand)))
        .collect()
}

/// The words of a name in the database without the letter of a board after the model's number:
/// `K40` for `Tesla K40m`.
fn words_without_letter(name: &str) -> Vec<&str> {
    let mut words = words(name);
    for word in &mut words {
        if let Some(rest) = word
            .strip_suffix(|c: char| c.is_ascii_alphabetic())
            .filter(|rest| rest.ends_with(|c: char| c.is_ascii_digit()))
        {
            *word = rest;
        }
    }
    words
}

/// The words of a requested name, in lower case. `teslat4` becomes `t4`.
fn asked_words(name: &str) -> Vec<String> {
    let small = name.to_lowercase();
    words(&small).into_iter().map(without_brand).collect()
}

fn without_brand(word: &str) -> String {
    // `GeForce2` and `Quadro4` are names.
    let rest = BRANDS
        .iter()
        .find_map(|brand| word.strip_prefix(brand))
        .filter(|rest| rest.len() > 1);
    rest.unwrap_or(word).to_owned()
}

/// How many words of a name were not requested; none if it does not match.
fn of_name(gpu: &Gpu, name: &[&str], asked: &[String]) -> Option<u32> {
    skipped(gpu, name, asked).map(u32::count_ones)
}

/// The words of a name that were not requested, a bit each; none if the name does not match.
fn skipped(gpu: &Gpu, name: &[&str], asked: &[String]) -> Option<u32> {
    if let Some(skipped) = unmatched(name, asked) {
        return Some(skipped);
    }
    let rest: Vec<_> = asked
        .iter()
        .filter(|word| !is_of_board(gpu, word))
        .cloned()
        .collect();
    if rest.is_empty() || rest.len() == asked.len() {
        None
    } else {
        unmatched(name, &rest)
    }
}

/// Whether a word is the board's form (`sxm` or `sxm5`, `pcie`) or its memory (`80gb`).
fn is_of_board(gpu: &Gpu, word: &str) -> bool {
    let is_form = gpu.form.as_deref().is_some_and(|form| {
        form.eq_ignore_ascii_case(word)
            || form
                .trim_end_matches(|c: char| c.is_ascii_digit())
                .eq_ignore_ascii_case(word)
    });
    is_form || gpu.memory_gb.is_some() && memory(word) == gpu.memory_gb
}

/// The gigabytes in `80gb`, `80gib` and `80g`.
fn memory(word: &str) -> Option<u16> {
    ["gb", "gib", "g"]
        .iter()
        .find_map(|unit| word.strip_suffix(unit))?
        .parse()
        .ok()
}

/// The words of the name that remain, a bit each, if the requested words appear in it in their
/// order. Words may be split differently: `gtx1080` is the two words `GTX 1080`, and `h 100` the
/// one word `H100`.
fn unmatched(name: &[&str], asked: &[String]) -> Option<u32> {
    if asked.len() > MAX_WORDS || name.len() > MAX_WORDS {
        return None;
    }
    if asked.is_empty() {
        return Some((1 << name.len()) - 1);
    }
    let (_, rest) = name.split_first()?;
    let joined =
        alike(name, asked).and_then(|(n, a)| Some(unmatched(&name[n..], &asked[a..])? << n));
    let skipped = unmatched(rest, asked).map(|left| left << 1 | 1);
    joined
        .into_iter()
        .chain(skipped)
        .min_by_key(|skipped| skipped.count_ones())
}

/// The fewest leading words of the name and of the request that give the same text when joined.
fn alike(name: &[&str], asked: &[String]) -> Option<(usize, usize)> {
    let (mut n, mut a) = (1, 1);
    let (mut of_name, mut of_asked) = (name.first()?.as_bytes(), asked.first()?.as_bytes());
    loop {
        let length = of_name.len().min(of_asked.len());
        if !of_name[..length].eq_ignore_ascii_case(&of_asked[..length]) {
            return None;
        }
        (of_name, of_asked) = (&of_name[length..], &of_asked[length..]);
        match (of_name.is_empty(), of_asked.is_empty()) {
            (true, true) => return Some((n, a)),
            (true, false) => {
                of_name = name.get(n)?.as_bytes();
                n += 1;
            }
            (false, _) => {
                of_asked = asked.get(a)?.as_bytes();
                a += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat::known;

    fn named(name: &str) -> Result<String, Ambiguous> {
        known().gpu_named(name).map(|g| {
            format!(
                "{} {}",
                g.device,
                g.compute_capability.expect("it computes")
            )
        })
    }

    #[test]
    fn a_name_is_found_by_its_words() {
        for (name, capability) in [
            ("h100", "9.0"),
            ("H200", "9.0"),
            ("rtx 3090 ti", "8.6"),
            ("GTX 1060", "6.1"),
            ("t4", "7.5"),
            ("V100", "7.0"),
            ("b200", "10.0"),
            ("rtx 5090", "12.0"),
            ("A100", "8.0"),
            ("rtx 2080 ti", "7.5"),
            ("p100", "6.0"),
        ] {
            assert!(
                named(name).is_ok_and(|found| found.ends_with(capability)),
                "{name}: {:?}",
                named(name)
            );
        }
        assert_eq!(named("rtx 3090"), Ok("2204 8.6".to_owned()));
        assert!(
            named("k40").is_ok_and(|found| found.ends_with("3.5")),
            "K40c, K40m and K40s have the same needs"
        );
        assert_eq!(named("h100 80g"), named("h100"));
        assert_eq!(named("a100 80GiB"), named("a100 80gb"));
        assert_eq!(
            named("h100"),
            Ok("2330 9.0".to_owned()),
            "the usual meaning"
        );
        assert_eq!(named("a100"), Ok("20b0 8.0".to_owned()));
        assert_eq!(
            named("gt 1030"),
            Ok("1d01 6.1".to_owned()),
            "the one in driver lists"
        );
        assert_eq!(
            named("b100"),
            Ok("2920 10.0".to_owned()),
            "the one with a published compute capability"
        );
        let several = named("gt 730").expect_err("three chips").to_string();
        assert!(
            several.contains("10de:0f02, compute capability 2.1, driver branch 390 at most"),
            "{several}"
        );
        assert!(matches!(named("titan"), Err(Ambiguous::Several { .. })));
        assert!(matches!(named("h1000"), Err(Ambiguous::Unknown { .. })));
        assert!(matches!(named(""), Err(Ambiguous::Unknown { .. })));
    }

    #[test]
    fn a_name_that_fits_different_gpus_is_asked_about() {
        for (typed, differing) in [
            ("100", ["H100", "A100", "GV100"]),
            ("6000", ["RTX PRO 6000", "RTX A6000", "Quadro K6000"]),
            (
                "rtx 4000",
                ["RTX PRO 4000", "RTX 4000 Ada", "Quadro RTX 4000"],
            ),
            ("titan", ["TITAN RTX", "TITAN V", "GTX TITAN"]),
        ] {
            let Err(Ambiguous::Several { candidates, .. }) = named(typed) else {
                panic!("{typed}: {:?}", named(typed))
            };
            for name in differing {
                assert!(
                    candidates.iter().any(|one| one.contains(name)),
                    "{typed}: no {name} in {candidates:?}"
                );
            }
        }
        for (typed, means) in [
            ("quadro 6000", "2.0"),
            ("quadro rtx 4000", "7.5"),
            ("rtx 4000 ada", "8.9"),
            ("geforce fx 5800", "no compute capability"),
            ("2070", "7.5"),
            ("1060", "6.1"),
            ("480", "2.0"),
            ("titan v", "7.0"),
        ] {
            let found = known()
                .gpu_named(typed)
                .unwrap_or_else(|e| panic!("{typed}: {e}"));
            let capability = found
                .compute_capability
                .map_or("no compute capability".to_owned(), |c| c.to_string());
            assert_eq!(capability, means, "{typed}: {}", found.name);
        }
    }

    #[test]
    fn words_that_tell_no_model_are_no_name() {
        for (typed, nearest) in [
            ("$(id)", &[""; 0][..]),
            ("id", &[]),
            ("b", &[]),
            ("v", &["TITAN V"]),
            ("40", &[]),
            ("sxm4", &["A100-SXM4-40GB"]),
            ("dgx", &["DGX Display / NVIDIA T1000"]),
            ("hooper", &["Hopper"]),
            ("dgx h10", &["DGX H100"]),
            ("p4d.24xlagre", &["p4d.24xlarge"]),
        ] {
            let Err(Ambiguous::Unknown { nearest: names, .. }) = named(typed) else {
                panic!("{typed}: {:?}", named(typed))
            };
            let first: Vec<_> = names.iter().take(1).map(String::as_str).collect();
            assert_eq!(first, nearest, "{typed}: {names:?}");
        }
    }

    #[test]
    fn how_words_are_joined_does_not_matter() {
        for (typed, means) in [
            ("rtx4090", "rtx 4090"),
            ("RTX-4090", "rtx 4090"),
            ("gtx1080ti", "gtx 1080 ti"),
            ("3090ti", "rtx 3090 ti"),
            ("rtx 2080ti", "rtx 2080 ti"),
            ("rtx2080 ti", "rtx 2080 ti"),
            ("h 100", "h100"),
            ("teslat4", "t4"),
            ("geforcertx3090", "rtx 3090"),
            ("a100 80gb", "NVIDIA A100-SXM4-80GB"),
            ("a100-80gb-pcie", "NVIDIA A100 80GB PCIe"),
            ("h100 sxm", "NVIDIA H100 80GB HBM3"),
            ("h100 sxm5", "NVIDIA H100 80GB HBM3"),
            ("h100 pcie", "NVIDIA H100 PCIe"),
            ("a100 sxm", "NVIDIA A100-SXM4-40GB"),
            ("v100 sxm2", "Tesla V100-SXM2-16GB"),
            ("rtxa6000", "rtx a6000"),
        ] {
            assert_eq!(named(typed), named(means), "{typed}");
            assert!(named(typed).is_ok(), "{typed}: {:?}", named(typed));
        }
    }

    #[test]
    fn a_part_of_a_word_is_not_a_name() {
        for typed in ["409", "rtx 409", "h10", "gtx 1080 ti ti", "4090 rtx"] {
            let found = named(typed);
            assert!(
                matches!(found, Err(Ambiguous::Unknown { .. })),
                "{typed}: {found:?}"
            );
        }
    }

    #[test]
    fn a_typo_is_answered_with_what_many_people_have() {
        for (typed, nearest) in [
            ("rtx4089", "GeForce RTX 4090"),
            ("rtx 309o", "GeForce RTX 3090"),
            ("h1000", "H100"),
            ("gxt 1080", "GeForce GTX 1080"),
        ] {
            let Err(Ambiguous::Unknown { nearest: names, .. }) = named(typed) else {
                panic!("{typed} is known")
            };
            assert!(
                names.len() <= 3 && names.iter().any(|name| name == nearest),
                "{typed}: {names:?}"
            );
            assert!(
                names.iter().all(|name| !name.contains("Engineering")),
                "{typed}: {names:?}"
            );
        }
        for typed in [
            "voodoo 2",
            &"x".repeat(100_000),
            &"rtx ".repeat(10_000),
            "é",
        ] {
            let Err(Ambiguous::Unknown { nearest, .. }) = named(typed) else {
                panic!("{typed} is known")
            };
            assert_eq!(nearest, [""; 0], "{typed:.20}");
        }
    }
}
