//! Runs programs: an argv and never a shell, a fixed environment, no terminal, a time limit for the
//! whole process group, and all output captured.

use super::limits::MAX_OUTPUT;
use super::{System, crash, enter, interrupt, lossy_text};
use duct::{Expression, cmd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The environment of children. Nothing of the caller's is passed on: PATH is not trusted,
/// `DISPLAY` and `SUDO_USER` change the behaviour of NVIDIA's installers, and a locale changes the
/// output of tools.
const ENVIRONMENT: [(&str, &str); 8] = [
    (
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
    ("LANG", "C.UTF-8"),
    ("LC_ALL", "C.UTF-8"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("NEEDRESTART_MODE", "l"),
    ("NEEDRESTART_SUSPEND", "1"),
    ("APT_LISTCHANGES_FRONTEND", "none"),
    ("UCF_FORCE_CONFFOLD", "1"),
];

/// Closes inherited files from descriptor 3 on for children: a directory outside a tree would let
/// the tree's programs escape. Needs Linux 5.11; older kernels pass the files on.
pub fn keep_inherited_files_from_children() {
    const FIRST: libc::c_uint = 3;
    const CLOSE_ON_EXEC: libc::c_uint = 1 << 2;
    // SAFETY: it only marks descriptors and closes none.
    let _ = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            FIRST,
            libc::c_uint::MAX,
            CLOSE_ON_EXEC,
        )
    };
}

/// A program to run on a host.
#[derive(Debug, Clone)]
pub struct Program {
    argv: Vec<String>,
    environment: Vec<(String, String)>,
    limit: Duration,
    log: Option<Log>,
    input: Option<String>,
    most: u64,
    undisturbed: bool,
}

/// An open file that the output is appended to.
pub type Log = Arc<File>;

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this status.
    Status(i32),
    /// It was ended by this signal.
    Signal(i32),
    /// gpusetup ended it, after its time limit or because gpusetup was interrupted.
    TimedOut,
}

/// A program's output and how it ended.
#[derive(Debug, Clone)]
pub struct Output {
    /// How it ended.
    pub ended: Ended,
    /// Standard output and standard error, interleaved as they arrived.
    pub text: String,
}

/// Called regularly while a program runs.
pub type Progress<'a> = &'a mut dyn FnMut(Duration);

impl Program {
    /// The program `argv[0]` with its arguments, limited to one minute.
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            limit: Duration::from_secs(60),
            log: None,
            input: None,
            most: MAX_OUTPUT,
            undisturbed: false,
        }
    }

    /// Lets it use the network, with the caller's proxies.
    pub fn networked(mut self) -> Self {
        self.environment.extend(super::network::proxies());
        self
    }

    /// The program's name, or its path, as it is started.
    pub fn name(&self) -> &str {
        &self.argv[0]
    }

    /// Adds an environment variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Replaces the time limit.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Appends all output to this file.
    pub fn log(mut self, log: impl Into<Option<Log>>) -> Self {
        self.log = log.into();
        self
    }

    /// Writes this text to its standard input, which is empty otherwise.
    pub fn input(mut self, text: impl Into<String>) -> Self {
        self.input = Some(text.into());
        self
    }

    /// Replaces the limit of the bytes that it may print.
    pub fn output_up_to(mut self, most: u64) -> Self {
        self.most = most;
        self
    }

    /// Lets it finish even if gpusetup is interrupted: ending it halfway would do more harm than
    /// waiting.
    pub fn undisturbed(mut self) -> Self {
        self.undisturbed = true;
        self
    }

    fn expression(&self, on: &System) -> io::Result<Expression> {
        // The host's own programs are found through the PATH above.
        let expression = if on.is_live() {
            cmd(&self.argv[0], &self.argv[1..])
        } else {
            let (program, arguments) = enter::command(on.place()?, on.root(), &self.argv);
            cmd(program, arguments)
        };
        let fixed = ENVIRONMENT
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let environment: Vec<_> = fixed.chain(self.environment.iter().cloned()).collect();
        let expression = expression
            .full_env(environment)
            .unchecked()
            .before_spawn(|command| {
                command.process_group(0);
                Ok(())
            });
        let expression = match &self.input {
            Some(text) => expression.stdin_bytes(text.as_bytes()),
            None => expression.stdin_null(),
        };
        Ok(if on.is_live() {
            expression.dir("/")
        } else {
            expression
        })
    }
}

impl System {
    /// Runs a program on the host and waits for its end. A missing program is an error; a failing
    /// one is not: check [`Output::ended`].
    pub fn run(&self, program: &Program) -> io::Result<Output> {
        self.run_telling(program, &mut |_| {})
    }

    /// The same; calls `progress` with the elapsed time several times a second.
    pub fn run_telling(&self, program: &Program, progress: Progress) -> io::Result<Output> {
        if !self.runs_programs() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "nothing that only looks runs a program of a tree",
            ));
        }
        let log = match &program.log {
            Some(log) => log.try_clone()?,
            // In memory: /tmp is not gpusetup's own, and may be full.
            None => File::from(memfd_create("gpusetup", MemfdFlags::CLOEXEC)?),
        };
        let start_of_log = log.metadata()?.len();
        let started = Instant::now();
        crash::point();
        let handle = program
            .expression(self)?
            .stdout_file(log.try_clone()?)
            .stderr_file(log.try_clone()?)
            .start()?;
        let status = loop {
            let ended = handle
                .wait_timeout(Duration::from_millis(100))?
                .map(|output| output.status);
            // Since the last look it may have printed any amount, and ended. A log of what was done
            // to the end is as long as it is.
            let is_done = ended.is_some() && program.log.is_some();
            if log.metadata()?.len().saturating_sub(start_of_log) > program.most && !is_done {
                if ended.is_none() {
                    end_group(&handle.pids());
                    handle.wait_timeout(PATIENCE)?;
                }
                let why = format!(
                    "{} was ended: it printed more than {} MiB",
                    program.name(),
                    program.most >> 20
                );
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
            }
            if ended.is_some() {
                break ended;
            }
            progress(started.elapsed());
            let stopped = interrupt::heard().is_some() && !program.undisturbed;
            if stopped || started.elapsed() > program.limit {
                end_group(&handle.pids());
                // A process that hangs in the kernel cannot be ended and is left behind; waiting
                // for it would hang too.
                handle.wait_timeout(PATIENCE)?;
                break None;
            }
        };
        Ok(Output {
            ended: ended(status),
            text: text_from(log, start_of_log)?,
        })
    }
}

fn ended(status: Option<std::process::ExitStatus>) -> Ended {
    use std::os::unix::process::ExitStatusExt;
    match status {
        None => Ended::TimedOut,
        Some(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Ended::Status(code),
            (None, signal) => Ended::Signal(signal.unwrap_or(0)),
        },
    }
}

/// The time a program has to exit after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ends the group and all its descendants, first with SIGTERM and then with SIGKILL: nothing the
/// program started may keep writing. apt's dpkg has its own session and outlives apt.
fn end_group(pids: &[u32]) {
    let groups: Vec<_> = pids.iter().filter_map(|p| i32::try_from(*p).ok()).collect();
    let mut family = Vec::new();
    for signal in [Signal::TERM, Signal::KILL] {
        // The children of an exited process get another parent, so they are remembered from before.
        family.extend(descendants(&groups));
        // They may be gone already, which is fine.
        for pid in groups.iter().filter_map(|p| Pid::from_raw(*p)) {
            let _ = kill_process_group(pid, signal);
        }
        for (pid, start) in &family {
            if let (true, Some(pid)) = (
                process(*pid).is_some_and(|p| p.start == *start),
                Pid::from_raw(*pid),
            ) {
                let _ = kill_process(pid, signal);
            }
        }
        let asked = Instant::now();
        while signal == Signal::TERM && asked.elapsed() < PATIENCE && any_runs(&groups, &family) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Whether any process of these groups or of this family still runs.
fn any_runs(groups: &[i32], family: &[(i32, String)]) -> bool {
    let of_them = |pid: i32, p: &Process| {
        groups.contains(&p.group)
            || family
                .iter()
                .any(|(member, start)| *member == pid && *start == p.start)
    };
    processes()
        .iter()
        .any(|(pid, p)| !p.is_over && of_them(*pid, p))
}

/// Opens the executable of this process for reading, even if it was renamed or deleted.
pub fn own_program() -> io::Result<File> {
    File::open("/proc/self/exe")
}

/// The name of a process, for messages; `another` if it cannot be read.
pub fn process_name(on: &System, pid: impl std::fmt::Display) -> String {
    let name = on
        .read_text(format!("/proc/{pid}/comm"))
        .ok()
        .flatten()
        .unwrap_or_default();
    if name.is_empty() {
        "another".to_owned()
    } else {
        name.trim().to_owned()
    }
}

/// A process: its parent, its group, and its start time, which distinguishes it from a later one
/// with the same id.
struct Process {
    /// It has exited and was not waited for yet.
    is_over: bool,
    parent: i32,
    group: i32,
    start: String,
}

fn process(pid: i32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // A name may contain blanks and parentheses. After the last parenthesis come the state, the
    // parent, the group, and as the 20th field the start.
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    Some(Process {
        is_over: matches!(words.next()?, "Z" | "X"),
        parent: words.next()?.parse().ok()?,
        group: words.next()?.parse().ok()?,
        start: words.nth(16)?.to_owned(),
    })
}

fn processes() -> Vec<(i32, Process)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, process(pid)?))).collect()
}

/// All descendants of these processes whose parents still exist.
fn descendants(of: &[i32]) -> Vec<(i32, String)> {
    let all = processes();
    let (mut family, mut found) = (of.to_vec(), Vec::new());
    while let Some(parent) = family.pop() {
        for (pid, child) in all.iter().filter(|(_, p)| p.parent == parent) {
            family.push(*pid);
            found.push((*pid, child.start.clone()));
        }
    }
    found
}

fn text_from(mut log: File, start: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    log.seek(SeekFrom::Start(start))?;
    log.take(MAX_OUTPUT).read_to_end(&mut bytes)?;
    Ok(lossy_text(bytes))
}

impl Output {
    /// Whether it exited with status 0.
    pub fn succeeded(&self) -> bool {
        self.ended == Ended::Status(0)
    }

    /// The last lines of the output, for an error message.
    pub fn last_lines(&self, count: usize) -> String {
        let lines: Vec<_> = self.text.lines().filter(|l| !l.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(status) => write!(f, "exit status {status}"),
            Self::Signal(signal) => write!(f, "ended by signal {signal}"),
            Self::TimedOut => write!(f, "ended by gpusetup after its time limit"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_sees_a_fixed_environment_and_no_input() {
        let out = System::live()
            .run(&Program::new(["env"]).env("A", "b"))
            .expect("env is everywhere");
        assert!(out.succeeded());
        assert!(
            out.text.contains("A=b\n") && out.text.contains("LC_ALL=C.UTF-8\n"),
            "{}",
            out.text
        );
        assert!(!out.text.contains("CARGO"), "{}", out.text);
        let out = System::live()
            .run(&Program::new(["cat"]))
            .expect("cat is everywhere");
        assert!(out.succeeded() && out.text.is_empty());
    }

    #[test]
    fn both_streams_are_kept_and_the_status_told() {
        let out = System::live()
            .run(&Program::new(["ls", "/does-not-exist"]))
            .expect("ls is everywhere");
        assert!(matches!(out.ended, Ended::Status(s) if s != 0));
        assert!(out.last_lines(1).contains("does-not-exist"));
        assert!(
            System::live()
                .run(&Program::new(["/no/such/program"]))
                .is_err()
        );
    }

    #[test]
    fn a_program_prints_no_more_than_it_may() {
        let program = |script: &str| Program::new(["sh", "-c", script]).output_up_to(1 << 20);
        let system = System::live();
        assert!(
            system
                .run(&program("head -c 1048576 /dev/zero"))
                .is_ok_and(|output| output.succeeded())
        );
        for script in [
            "head -c 1048577 /dev/zero",
            "head -c 1048577 /dev/zero; exec sleep 60",
        ] {
            let why = system.run(&program(script)).expect_err(script).to_string();
            assert!(why.contains("more than 1 MiB"), "{why}");
        }
    }

    #[test]
    fn a_program_that_ends_when_it_is_told_is_not_waited_for() {
        let began = Instant::now();
        let program = Program::new(["sleep", "60"]).limit(Duration::from_millis(300));
        assert_eq!(
            System::live()
                .run(&program)
                .expect("sleep is everywhere")
                .ended,
            Ended::TimedOut
        );
        assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    }

    #[test]
    fn a_program_whose_time_is_over_is_ended_with_its_children() {
        // The second process has its own group and ignores SIGTERM.
        let script =
            "sleep 60 & echo $!; setsid sh -c 'trap \"\" TERM HUP; sleep 60; true' & echo $!; wait";
        let program = Program::new(["sh", "-c", script]).limit(Duration::from_secs(1));
        let out = System::live().run(&program).expect("sh is everywhere");
        assert_eq!((out.ended, out.text.lines().count()), (Ended::TimedOut, 2));
        let state =
            |child: &str| fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        let alive = |child: &str| !state(child).is_empty() && !state(child).contains(") Z ");
        // The kernel needs a moment.
        let gone = |child: &str| {
            (0..50).any(|_| {
                std::thread::sleep(Duration::from_millis(100));
                !alive(child)
            })
        };
        assert!(
            out.text.lines().all(gone),
            "a grandchild still runs: {}",
            out.text
        );
    }
}
