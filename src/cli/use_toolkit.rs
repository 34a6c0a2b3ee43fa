//! `gpusetup use`: makes an installed toolkit the default one, for the host or for one shell, or
//! writes module files.

mod module_files;

use super::host::{look, must_be_a_host, system};
use super::options::{HostOptions, LookOptions, RunOptions, toolkit_name};
use super::run::{RunEnd, agreed, begin, propose, show, tell_result, writing};
use super::{Problem, say};
use crate::apply;
use crate::apply::result::Ending;
use crate::exit::Exit;
use crate::host::PathFiles;
use crate::plan::{Plan, installed_toolkit};
use crate::planning::Planner;
use crate::render::progress::ProgressPrinter;
use crate::render::toolkit_shell::{SearchPaths, Shell, exports};
use crate::resolve::Request;
use crate::system::{System, environment};
use crate::text::quoted_path;
use crate::version::{CudaVersion, Requirement};
use std::path::{Path, PathBuf};

/// Flags of `use`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// What to choose: cuda
    #[arg(value_name = "WHAT", value_parser = ["cuda"])]
    _what: String,
    /// The toolkit: 12.8, 12.8.1; 12 is the newest that is installed
    #[arg(id = "toolkit", value_name = "VERSION", required_unless_present = "module_files", value_parser = toolkit_name)]
    version: Option<Requirement<CudaVersion>>,
    /// Print what chooses it for one shell, and change nothing: eval "$(gpusetup use cuda 11.8
    /// --shell)"
    #[arg(long, value_name = "SHELL", value_enum, num_args = 0..=1, default_missing_value = "bash",
          conflicts_with_all = ["module_files", "json", "dry_run"])]
    shell: Option<Shell>,
    /// Write a module file for each toolkit below DIR, for Lmod and Environment Modules:
    /// DIR/cuda/12.8
    ///
    /// With a version, only for that one. Users then run `module load cuda/12.8`. With --root, DIR
    /// is a folder of that tree.
    #[arg(long, value_name = "DIR", conflicts_with = "dry_run")]
    module_files: Option<PathBuf>,
    /// Only show what would be changed
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    look: LookOptions,
    #[command(flatten)]
    run: RunOptions,
}

/// Chooses it.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    if let Some(folder) = &options.module_files {
        return write_modules(options, folder);
    }
    let Some(wanted) = &options.version else {
        return Err(Problem::usage("name the toolkit: gpusetup use cuda 12.8"));
    };
    if let Some(shell) = options.shell {
        return print_exports(options, wanted, shell);
    }
    if options.dry_run {
        must_be_a_host(&system(&options.host))?;
        return show(&plan(options, wanted)?.0, &options.look, &options.host);
    }
    let mut is_switched = false;
    let ended = writing(&options.host, &options.run, false, |system, account| {
        let mut teller = ProgressPrinter::new(options.run.bars(), !options.look.json);
        only_after_an_apply(system)?;
        apply::recover(system, &mut |news| teller.tell(news))?;
        let (plan, version) = plan(options, wanted)?;
        if plan.is_converged() {
            teller.end(&format!(
                "Nothing to do: CUDA {version} is the default already."
            ));
            return Ok(RunEnd::Untouched);
        }
        if !options.run.asks_nothing() {
            propose(&plan, &options.look)?;
            if !agreed(&format!("Make CUDA {version} the default?"))? {
                say("nothing was changed");
                return Ok(RunEnd::Untouched);
            }
        }
        account.plan(&plan);
        let ended = begin(
            options.host.database()?,
            &plan,
            &options.run,
            options.run.config(Default::default()),
            system,
            account,
            &mut teller,
        )?;
        is_switched = matches!(ended, RunEnd::With(Ending::Done));
        Ok(ended)
    });
    if is_switched && !options.look.json {
        say("Open shells may remember the nvcc before; `hash -r` makes them look again");
    }
    if options.look.json {
        tell_result(&options.host, &ended)?;
    }
    ended
}

/// Refuses to begin something else while an apply is not finished; a switch may replace another
/// one.
fn only_after_an_apply(system: &System) -> Result<(), Problem> {
    let unfinished = apply::unfinished(system)?;
    if unfinished.is_none_or(|unfinished| unfinished.only_switches()) {
        return Ok(());
    }
    let sentence =
        "an earlier apply or rollback is not finished, and choosing another toolkit would end it";
    Err(Problem::new(Exit::Blocked, sentence)
        .attempt("sudo gpusetup resume")
        .attempt("sudo gpusetup rollback"))
}

/// The switch, and the toolkit that it chooses.
fn plan(
    options: &Options,
    wanted: &Requirement<CudaVersion>,
) -> Result<(Plan, CudaVersion), Problem> {
    let database = options.host.database()?;
    let (facts, _) = look(&options.host, database)?;
    let host = &options.host;
    let request = Request {
        prefix: host.prefix.clone(),
        cache: host.cache.clone(),
        ..Request::default_on(jiff::Timestamp::now().to_string())
    };
    let version = installed_toolkit(database, &facts, wanted)?.version;
    let files = PathFiles::of(&system(host));
    let plan = Planner::new(database).switch(facts, wanted, request, &files)?;
    Ok((plan.for_root(host.root.as_deref()), version))
}

/// Prints the lines for one shell.
fn print_exports(
    options: &Options,
    wanted: &Requirement<CudaVersion>,
    shell: Shell,
) -> Result<Exit, Problem> {
    let database = options.host.database()?;
    let (facts, _) = look(&options.host, database)?;
    let toolkit = installed_toolkit(database, &facts, wanted)?;
    let link = options.host.prefix.join("cuda");
    let others: Vec<_> = facts
        .toolkits
        .iter()
        .filter(|t| t.has_own_directory())
        .map(|t| t.path.as_path())
        .chain([link.as_path()])
        .collect();
    let [path, library_path] =
        ["PATH", "LD_LIBRARY_PATH"].map(|name| environment::variable(name).unwrap_or_default());
    let now = SearchPaths { path, library_path };
    super::print(&exports(toolkit, &others, &now, shell))?;
    Ok(Exit::Done)
}

/// What `use --module-files --json` prints.
#[derive(serde::Serialize)]
struct ModuleFilesReport {
    schema: &'static str,
    module_files: Vec<PathBuf>,
}

/// Writes the module files of all toolkits, or of the one that is named.
fn write_modules(options: &Options, folder: &Path) -> Result<Exit, Problem> {
    let database = options.host.database()?;
    let (facts, _) = look(&options.host, database)?;
    let toolkits = match &options.version {
        Some(wanted) => vec![installed_toolkit(database, &facts, wanted)?],
        None => facts
            .toolkits
            .iter()
            .filter(|toolkit| toolkit.has_own_directory())
            .collect(),
    };
    if toolkits.is_empty() {
        return Err(Problem::usage(
            "no toolkit is installed, so there is no module file to write",
        ));
    }
    if let Some(root) = options
        .host
        .root
        .as_deref()
        .filter(|_| folder.is_relative())
    {
        let version = options
            .version
            .as_ref()
            .map(|wanted| format!(" {wanted}"))
            .unwrap_or_default();
        let (folder, root) = (quoted_path(&Path::new("/").join(folder)), quoted_path(root));
        return Err(Problem::usage(
            "with --root, the folder of --module-files begins with / and is one of the tree",
        )
        .attempt(format!(
            "gpusetup use cuda{version} --module-files {folder} --root {root}"
        )));
    }
    let module_files = module_files::write(&system(&options.host), &toolkits, folder)?;
    if options.look.json {
        super::print_json(&ModuleFilesReport {
            schema: "gpusetup.module-files/1",
            module_files,
        })?;
        return Ok(Exit::Done);
    }
    let lines: String = module_files
        .iter()
        .map(|path| format!("wrote {}\n", path.display()))
        .collect();
    super::print(&lines)?;
    Ok(Exit::Done)
}

impl From<module_files::Failure> for Problem {
    fn from(failure: module_files::Failure) -> Self {
        match failure {
            module_files::Failure::OfOthers(path) => {
                let sentence = format!(
                    "{} is not of gpusetup, and stays; nothing was written",
                    path.display()
                );
                Self::new(Exit::Blocked, sentence)
                    .hint("name another folder, or move the file away")
            }
            module_files::Failure::Unwritten(path, e) => {
                Self::unexpected(format!("cannot write {}: {e}", path.display()))
            }
        }
    }
}
