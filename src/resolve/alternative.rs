//! What would fit instead of a request that is refused, as commands. Each was tried before it is suggested.

use super::driver::Known;
use super::misfit::{Alternative, Misfit};
use super::search::{Telling, attempt, summary};
use super::{Method, Prefer, Request, card::cards};
use crate::compat::Database;
use crate::host::Facts;
use crate::text::quoted;
use crate::version::Want;
use std::path::Path;

/// A toolkit that compiles: what is suggested when the runfile cannot be used.
const COMPILER: [&str; 2] = ["nvcc", "cudart"];

/// Adds to a refusal what would fit: the same with component archives instead of the runfile, and the nearest smaller request.
pub fn with_alternative(
    database: &Database,
    facts: &Facts,
    known: &[Known],
    request: &Request,
    misfit: Misfit,
) -> Misfit {
    let by_components = Request { components: COMPILER.map(str::to_owned).to_vec(), ..request.clone() };
    let by_components = (request.components.is_empty() && request.cuda.is_wanted()).then_some(by_components);
    let fits = |smaller: Request| {
        let answer = attempt(database, facts, known, &smaller, Telling::Choice).ok()?;
        let Some(chosen) = answer.cuda.filter(|_| smaller.cuda != request.cuda) else { return Some((smaller, answer)) };
        // The command says which release it means, and must come to the same.
        let exact = Request { cuda: chosen.release.version.to_string().parse().ok()?, ..smaller };
        let answer = attempt(database, facts, known, &exact, Telling::Choice).ok()?;
        Some((exact, answer))
    };
    let found = [by_components.and_then(fits), smaller(database, request).into_iter().find_map(fits)];
    let mut out = misfit;
    for (instead, answer) in found.into_iter().flatten() {
        let selection = answer.selection();
        out = out.hint(format!("{}  # what fits: {}", instead.command(), summary(&selection)));
        out.alternative.get_or_insert_with(|| Box::new(Alternative { selection, reasons: answer.reasons }));
    }
    if out.alternative.is_some() { out } else { kinds_alone(database, facts, known, request, out) }
}

/// Requests with fewer wishes, the nearest first.
fn smaller(database: &Database, request: &Request) -> Vec<Request> {
    let mut all = Vec::new();
    if let [only] = request.frameworks.as_slice() {
        let (name, _) = only.split_once("==").unwrap_or((only, ""));
        let releases = database.framework(name.trim()).map(|f| f.releases.as_slice()).unwrap_or_default();
        let of = |version: &str| Request { frameworks: vec![format!("{}=={version}", name.trim())], ..request.clone() };
        all.extend(releases.iter().map(|release| of(&release.version)));
    } else {
        all.extend(request.frameworks.iter().map(|one| Request { frameworks: vec![one.clone()], ..request.clone() }));
    }
    let (driver, cuda, cudnn) = (eased(&request.driver), eased(&request.cuda), eased(&request.cudnn));
    all.push(Request { cudnn: cudnn.clone(), ..request.clone() });
    all.push(Request { cuda: cuda.clone(), cudnn: cudnn.clone(), ..request.clone() });
    all.push(Request { driver: driver.clone(), ..request.clone() });
    let open = Request { driver, cuda, cudnn, modules: None, method: Method::Auto, ..request.clone() };
    all.push(open.clone());
    all.push(Request { components: Vec::new(), ..open });
    let driver_only = Request { cuda: Want::Nothing, cudnn: Want::Nothing, components: Vec::new(), ..request.clone() };
    if request.driver.is_wanted() {
        all.push(driver_only.clone());
        all.push(Request { frameworks: Vec::new(), ..driver_only });
    }
    all.retain(|smaller| smaller != request);
    all
}

/// The cards that exclude each other, each kind alone.
fn kinds_alone(database: &Database, facts: &Facts, known: &[Known], request: &Request, misfit: Misfit) -> Misfit {
    let Ok(cards) = cards(database, facts, request) else { return misfit };
    let there = facts.gpus.iter().filter(|g| !request.leave_out.contains(&g.address));
    let named: Vec<_> = cards.iter().map(|card| card.name.as_str()).zip(there.map(|g| &g.address)).collect();
    let mut kinds: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
    kinds.dedup();
    let mut out = misfit;
    for kind in kinds.iter().filter(|_| kinds.len() > 1) {
        let others = named.iter().filter(|(name, _)| name != kind).map(|(_, address)| (*address).clone());
        let leave_out = request.leave_out.iter().cloned().chain(others).collect();
        let alone = Request { leave_out, ..request.clone() };
        if let Ok(answer) = attempt(database, facts, known, &alone, Telling::Choice) {
            out = out.hint(format!("{}  # {kind} alone: {}", alone.command(), summary(&answer.selection())));
        }
    }
    out
}

fn eased<V>(want: &Want<V>) -> Want<V> {
    if want.is_wanted() { Want::Best } else { Want::Nothing }
}

impl Request {
    /// The command that asks for this, on this host.
    pub fn command(&self) -> String {
        let plain = Self::no_wishes(self.today.clone());
        let mut words = vec!["gpusetup plan".to_owned()];
        let mut say = |flag: &str, value: &str| words.push(format!("{flag} {}", quoted(value)));
        let all = |values: &[String]| values.join(",");
        self.assumed_gpus.iter().for_each(|spec| say("--gpu", spec));
        self.frameworks.iter().for_each(|framework| say("--for", framework));
        if self.driver != Want::Best {
            say("--driver", &self.driver.to_string());
        }
        match &self.cuda {
            Want::Nothing => say("--profile", "driver"),
            Want::Best => {}
            cuda => say("--cuda", &cuda.to_string()),
        }
        if self.cudnn != Want::Best && self.cuda.is_wanted() {
            say("--cudnn", &self.cudnn.to_string());
        }
        if !self.components.is_empty() {
            say("--components", &all(&self.components));
        }
        match self.method {
            Method::Auto => {}
            Method::Packages => say("--method", "packages"),
            Method::Runfile => say("--method", "runfile"),
        }
        if let Some(flavour) = self.modules {
            say("--modules", &flavour.to_string());
        }
        match self.prefer {
            Prefer::Stable => {}
            Prefer::Latest => say("--prefer", "latest"),
            Prefer::LongestSupport => say("--prefer", "longest-support"),
        }
        let folder = |path: &Path| path.display().to_string();
        if self.prefix != plain.prefix {
            say("--prefix", &folder(&self.prefix));
        }
        if self.cache != plain.cache {
            say("--cache", &folder(&self.cache));
        }
        if !self.leave_out.is_empty() {
            say("--leave-out", &all(&self.leave_out));
        }
        words.extend(self.upgrade.then(|| "--upgrade".to_owned()));
        words.extend(self.library_path.then(|| "--library-path".to_owned()));
        words.join(" ")
    }
}
