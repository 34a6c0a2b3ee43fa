//! The compute capability × CUDA × driver grid as one page: no file beside it, nothing fetched,
//! readable without JavaScript, which only adds the filters. What a cell says is what the
//! resolver's own rule says.

use super::escaped;
use crate::compat::{Architecture, CudaRelease, Database, ModuleFlavour};
use crate::resolve::{TargetGpu, refused_series, serves};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The page.
pub(crate) fn html(database: &Database) -> String {
    let series = series(database);
    let mut architectures: Vec<_> = database.architectures.iter().collect();
    architectures.sort_by_key(|a| std::cmp::Reverse(a.compute_capability));
    architectures.retain(|a| {
        series.iter().any(|r| {
            serves(
                database,
                r,
                &TargetGpu::from_architecture(a.name.clone(), a),
            )
        })
    });
    let mut out = String::new();
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>GPUs, CUDA and drivers — gpusetup database {version}</title><style>\n{css}</style></head>\n<body>\n\
         <h1>Which CUDA and which driver for which GPU</h1>\n\
         <p>A row is a compute capability, a column a CUDA series. A cell names the driver branches that run that toolkit's \
         programs on that GPU. The first of them is the oldest that CUDA's minor-version compatibility allows.</p>\n\
         <ul class=\"key\"><li><span class=\"yes\">535–580</span> proprietary kernel modules; from 7.5 on, open ones too.</li>\n\
         <li><span class=\"open\">570+ open</span> open kernel modules only.</li>\n<li><span>—</span> not a target of this toolkit.</li>\n\
         <li><span class=\"yes\">board's</span> the driver comes with the embedded board.</li></ul>\n",
        version = escaped(&database.version),
        css = include_str!("matrix.css"),
    );
    out += &filters(database, &architectures, &series);
    out += &grid(database, &architectures, &series);
    out += &branches(database);
    out += &footer(database);
    let _ = write!(
        out,
        "<script>\n{}</script>\n</body></html>\n",
        include_str!("matrix.js")
    );
    out
}

/// The newest release of each series, newest first.
fn series(database: &Database) -> Vec<&CudaRelease> {
    let mut series: Vec<&CudaRelease> = Vec::new();
    for release in &database.cuda {
        if series
            .last()
            .is_none_or(|s| s.version.series() != release.version.series())
        {
            series.push(release);
        }
    }
    series
}

/// Well-known cards of a capability: those that drivers list, and that most sources have.
fn examples(database: &Database, a: &Architecture) -> String {
    let mut cards: Vec<_> = database
        .gpus
        .iter()
        .filter(|g| g.compute_capability == Some(a.compute_capability) && g.subsystem.is_none())
        .collect();
    if cards.iter().any(|g| database.is_listed(g)) {
        cards.retain(|g| database.is_listed(g));
    }
    cards.sort_by_key(|g| (std::cmp::Reverse(g.sources.len()), g.name.len()));
    let mut names: Vec<&str> = Vec::new();
    for g in cards {
        let name = g
            .name
            .split(" / ")
            .next()
            .unwrap_or(&g.name)
            .trim_start_matches("NVIDIA ");
        if names.len() < 3 && !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

/// The names of all GPUs of a capability, for the search: each once, with bars between them.
fn names(database: &Database, a: &Architecture) -> String {
    let of_capability = database
        .gpus
        .iter()
        .filter(|gpu| gpu.compute_capability == Some(a.compute_capability));
    let names: BTreeSet<_> = of_capability
        .flat_map(|gpu| gpu.name.split(" / "))
        .map(|name| name.trim_start_matches("NVIDIA "))
        .collect();
    names.into_iter().collect::<Vec<_>>().join("|")
}

fn select(name: &str, label: &str, options: Vec<String>) -> String {
    let options: String = options
        .iter()
        .map(|o| format!("<option>{}</option>", escaped(o)))
        .collect();
    format!(
        "<label>{label} <select name=\"{name}\"><option value=\"\">all</option>{options}</select></label>\n"
    )
}

fn filters(
    database: &Database,
    architectures: &[&Architecture],
    series: &[&CudaRelease],
) -> String {
    let mut families: Vec<_> = architectures.iter().map(|a| a.name.clone()).collect();
    families.dedup();
    let cuda = series
        .iter()
        .map(|r| r.version.series().to_string())
        .collect();
    let branches = database
        .driver_branches
        .iter()
        .map(|b| b.branch.to_string())
        .collect();
    format!(
        "<form id=\"filter\">{}{}{}<label>Contains <input name=\"text\" type=\"search\" placeholder=\"rtx 4090, a100, 8.6\"></label></form>\n",
        select("family", "Architecture", families),
        select("cuda", "CUDA", cuda),
        select("branch", "Driver branch", branches),
    )
}

fn grid(database: &Database, architectures: &[&Architecture], series: &[&CudaRelease]) -> String {
    let mut out =
        "<div class=\"box\" tabindex=\"0\" role=\"region\" aria-label=\"Grid\"><table id=\"grid\"><thead><tr>\
                   <th scope=\"col\">GPU</th>"
            .to_owned();
    for release in series {
        let (name, driver) = (release.version.series(), release.minimum_driver);
        let _ = write!(
            out,
            "<th scope=\"col\" data-cuda=\"{name}\" title=\"needs driver {driver} or newer\">{name}</th>"
        );
    }
    out += "</tr></thead>\n<tbody>\n";
    for a in architectures {
        let (capability, family) = (a.compute_capability, escaped(&a.name));
        let examples = escaped(&a.embedded.clone().unwrap_or_else(|| examples(database, a)));
        let _ = write!(
            out,
            "<tr data-family=\"{family}\" data-names=\"{names}\"><th scope=\"row\">{capability} {family}\
             <small>{examples}</small></th>",
            names = escaped(&names(database, a)),
        );
        for release in series {
            out += &cell(database, a, release);
        }
        out += "</tr>\n";
    }
    out + "</tbody></table></div>\n"
}

fn cell(database: &Database, a: &Architecture, release: &CudaRelease) -> String {
    let card = TargetGpu::from_architecture(a.name.clone(), a);
    if let Some(why) = refused_series(database, release, &card) {
        return format!("<td class=\"no\" title=\"{}\">—</td>", escaped(&why));
    }
    if a.embedded.is_some() {
        return "<td class=\"yes\" title=\"the driver comes with the board support package\">board's</td>".to_owned();
    }
    let mut numbers: Vec<_> = database
        .driver_branches
        .iter()
        .map(|b| b.branch)
        .filter(|b| *b >= release.minimum_driver.branch && a.is_served_by(*b))
        .collect();
    numbers.sort_unstable();
    let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else {
        let title = format!(
            "it needs driver {}, and no such branch knows this GPU",
            release.minimum_driver
        );
        return format!(
            "<td class=\"no\" title=\"{}\">no driver</td>",
            escaped(&title)
        );
    };
    let shown = if a.last_driver_branch.is_none() {
        format!("{first}+")
    } else {
        format!("{first}–{last}")
    };
    let open_only = a.modules == [ModuleFlavour::Open];
    let class = if open_only { "open" } else { "yes" };
    let open = if open_only { "<small>open</small>" } else { "" };
    let all = numbers
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" ");
    let title = format!("driver {} or newer", release.minimum_driver);
    format!("<td class=\"{class}\" data-branches=\"{all}\" title=\"{title}\">{shown}{open}</td>")
}

fn branches(database: &Database) -> String {
    let mut out = "<h2>Driver branches</h2>\n<div class=\"box\" tabindex=\"0\" role=\"region\" aria-label=\"Driver branches\"><table>\
                   <thead><tr><th scope=\"col\">Branch</th><th scope=\"col\">Kind</th><th scope=\"col\">Newest</th>\
                   <th scope=\"col\">Supported until</th><th scope=\"col\">CUDA natively</th><th scope=\"col\">Kernel modules</th>\
                   <th scope=\"col\">Architectures</th></tr></thead>\n<tbody>\n"
        .to_owned();
    for b in &database.driver_branches {
        let newest = database
            .drivers
            .iter()
            .find(|d| d.version.branch == b.branch);
        let newest = newest.map_or("—".to_owned(), |d| d.version.to_string());
        let kind = serde_json::to_value(b.kind)
            .ok()
            .and_then(|v| v.as_str().map(str::to_owned))
            .unwrap_or_default();
        let modules = b
            .modules
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        let served = database
            .architectures
            .iter()
            .filter(|a| a.is_served_by(b.branch));
        let mut families: Vec<&str> = Vec::new();
        for architecture in served {
            if !families.contains(&architecture.name.as_str()) {
                families.push(&architecture.name);
            }
        }
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{kind}</td><td>{newest}</td><td>{}</td><td>{}</td><td>{modules}</td><td>{}</td></tr>",
            b.branch,
            escaped(b.end_of_life.as_deref().unwrap_or("—")),
            b.max_cuda.map_or("—".to_owned(), |c| c.to_string()),
            escaped(&families.join(", ")),
        );
    }
    out + "</tbody></table></div>\n"
}

fn footer(database: &Database) -> String {
    let ids: BTreeSet<_> = database
        .architectures
        .iter()
        .flat_map(|a| &a.sources)
        .collect();
    let sources: String = ids
        .into_iter()
        .filter_map(|id| database.source(id))
        .map(|s| format!("<li>{}: {}</li>", escaped(&s.title), escaped(&s.location)))
        .collect();
    format!(
        "<footer><p>gpusetup {}, database {}.</p><details><summary>Sources</summary><ul>{sources}</ul></details></footer>\n",
        env!("CARGO_PKG_VERSION"),
        escaped(&database.version)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::embedded;

    /// The cell of a capability and a series, with its title.
    fn cell_of(capability: &str, cuda: &str) -> String {
        let database = embedded();
        let capability = capability.parse().expect("a capability");
        let release = series(&database)
            .into_iter()
            .find(|r| r.version.series().to_string() == cuda)
            .expect("a series");
        cell(
            &database,
            database.architecture(capability).expect("known"),
            release,
        )
    }

    #[test]
    fn cells_say_what_the_resolver_says() {
        assert!(
            cell_of("7.0", "13.0").contains("targets 7.5 and up"),
            "{}",
            cell_of("7.0", "13.0")
        );
        assert!(
            cell_of("7.0", "12.9").contains(">525–580<"),
            "{}",
            cell_of("7.0", "12.9")
        );
        assert!(
            cell_of("10.0", "12.8").contains("open"),
            "{}",
            cell_of("10.0", "12.8")
        );
        assert!(
            cell_of("3.5", "11.8").contains(">450–470<"),
            "{}",
            cell_of("3.5", "11.8")
        );
    }

    #[test]
    fn branches_name_the_architectures_that_they_serve() {
        let page = html(&embedded());
        let rows: Vec<_> = ["595", "580", "470"]
            .into_iter()
            .filter_map(|branch| {
                let row = page
                    .split("<tr>")
                    .find(|row| row.starts_with(&format!("<th scope=\"row\">{branch}</th>")))?;
                let cell = row.rsplit_once("<td>")?.1;
                Some(format!("{branch}: {}", cell.split('<').next()?))
            })
            .collect();
        insta::assert_snapshot!(rows.join("\n"), @r"
        595: Turing, Ampere, Ada Lovelace, Hopper, Blackwell, Blackwell Ultra
        580: Maxwell, Pascal, Volta, Turing, Ampere, Ada Lovelace, Hopper, Blackwell, Blackwell Ultra
        470: Kepler, Maxwell, Pascal, Volta, Turing, Ampere
        ");
    }

    #[test]
    fn the_search_finds_every_gpu() {
        let (page, database) = (html(&embedded()), embedded());
        for name in [
            "GeForce RTX 4090",
            "GeForce GTX 1060 3GB",
            "Tesla T4",
            "GeForce RTX 3080",
        ] {
            let capability = database
                .gpus
                .iter()
                .find(|gpu| gpu.name.contains(name))
                .and_then(|gpu| gpu.compute_capability)
                .expect("a known GPU");
            let row = page
                .split("<tr ")
                .find(|row| row.contains(&format!("<th scope=\"row\">{capability} ")))
                .expect("its row");
            let names = row.split("data-names=\"").nth(1).expect("names");
            assert!(
                names
                    .split('"')
                    .next()
                    .is_some_and(|all| all.contains(name)),
                "{name}"
            );
        }
    }

    #[test]
    fn the_page_is_one_sound_file() {
        let page = html(&embedded());
        assert!(page.len() < 400_000, "{} bytes", page.len());
        for outside in ["src=", "<link", "@import", "url(", "fetch("] {
            assert!(!page.contains(outside), "{outside} would fetch something");
        }
        // Every element that is opened is closed, in order; the parser is Python's own.
        let check = "import sys, html.parser\n\
                     void = {'meta', 'input', 'br'}\n\
                     class P(html.parser.HTMLParser):\n    open = []\n\
                     \x20   def handle_starttag(self, tag, a):\n        if tag not in void: self.open.append(tag)\n\
                     \x20   def handle_endtag(self, tag):\n        assert self.open.pop() == tag, tag\n\
                     p = P(); p.feed(sys.stdin.read()); p.close(); assert p.open == [], p.open\n";
        let mut python = std::process::Command::new("python3")
            .args(["-c", check])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("python3 is there");
        std::io::Write::write_all(&mut python.stdin.take().expect("piped"), page.as_bytes())
            .expect("read");
        assert!(python.wait().expect("it ends").success());
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escaped("<a b=\"c\">&"), "&lt;a b=&quot;c&quot;&gt;&amp;");
    }
}
