//! What networks, servers and proxies do to a download, and what comes of it: the exit code, what
//! is said, and what is left in the cache. The program is run as a user runs it, on a plan of one
//! download in a tree, against real servers on this machine. `cargo test --test downloads --
//! --nocapture` prints the table.

use crate::common;
use crate::common::{Ran, Tree};
use crate::faulty::{self, Fault, Faulty, Seal};
use crate::nginx::Nginx;
use crate::step::step;
use gpusetup::operation::{Download, Operation};
use gpusetup::plan::{Plan, Step, StepId};
use gpusetup::sum::sha256;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

/// Nobody's file: three million bytes that do not repeat.
static BODY: LazyLock<Vec<u8>> = LazyLock::new(|| bytes(3_000_000));

/// A password that must be nowhere but on its way.
const SECRET: &str = "hunter2secret";

fn bytes(count: u32) -> Vec<u8> {
    (0..count)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

/// A tree, and a plan of one download for it.
struct Bench {
    tree: Tree,
    folder: tempfile::TempDir,
}

impl Bench {
    /// The plan of a file that is published at `url`.
    fn of(url: &str, body: &[u8]) -> Self {
        Self::of_size(url, body, Some(body.len() as u64))
    }

    /// The same, with its size as published.
    fn of_size(url: &str, body: &[u8], size: Option<u64>) -> Self {
        let tree = Tree::debian_12();
        let ran = tree.run(&["plan", "--profile", "toolkit", "--json"]);
        let mut plan: Plan =
            serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}", ran.err));
        let download = Operation::Download(Download {
            url: url.to_owned(),
            sha256: sha256(body),
            size,
            to: "/var/cache/gpusetup/one/file".into(),
        });
        let download_bytes = Some(body.len() as u64);
        plan.steps = vec![Step {
            download_bytes,
            ..step(StepId::InstallCuda, vec![download])
        }];
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(
            folder.path().join("plan.json"),
            serde_json::to_string(&plan).expect("JSON"),
        )
        .expect("written");
        Self { tree, folder }
    }

    /// Applies it.
    fn apply(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Ran {
        Ran::of(
            self.command(arguments, environment)
                .output()
                .expect("gpusetup runs"),
        )
    }

    /// The command that applies it.
    fn command(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
        let mut command = common::program_as_root();
        command
            .arg("apply")
            .arg(self.folder.path().join("plan.json"))
            .args(["--yes", "--accept-eula", "--root"])
            .arg(self.tree.path());
        command
            .args(arguments)
            .env("GPUSETUP_SILENCE", "1")
            .envs(environment.iter().copied());
        command.stdin(Stdio::null());
        command
    }

    /// The file in the cache.
    fn file(&self) -> PathBuf {
        self.tree.path().join("var/cache/gpusetup/one/file")
    }

    /// What is left in the cache, without its notes.
    fn left(&self) -> String {
        let Ok(entries) = self.file().parent().expect("a folder").read_dir() else {
            return "nothing".to_owned();
        };
        let names = entries.map(|e| {
            e.expect("listed")
                .file_name()
                .into_string()
                .expect("a name")
        });
        let mut names: Vec<_> = names
            .filter(|n| !n.ends_with(".verified") && !n.ends_with(".begun"))
            .collect();
        names.sort();
        if names.is_empty() {
            "nothing".to_owned()
        } else {
            names.join(", ")
        }
    }

    /// Whether a text stands anywhere in the tree, or was said.
    fn reveals(&self, text: &str, ran: &Ran) -> bool {
        let found = Command::new("grep")
            .args(["-rlF", "-e", text])
            .arg(self.tree.path())
            .output()
            .expect("grep");
        !found.stdout.is_empty() || ran.out.contains(text) || ran.err.contains(text)
    }
}

/// One row of the table.
struct Case {
    name: &'static str,
    faults: Vec<Fault>,
    code: i32,
    /// What standard error has to have in it.
    says: &'static str,
    /// What is left in the cache.
    left: &'static str,
    /// The parts that the server was asked for, where that is the matter.
    ranges: Option<&'static [&'static str]>,
}

fn case(
    name: &'static str,
    faults: Vec<Fault>,
    code: i32,
    says: &'static str,
    left: &'static str,
) -> Case {
    Case {
        name,
        faults,
        code,
        says,
        left,
        ranges: None,
    }
}

impl Case {
    fn asking(self, ranges: &'static [&'static str]) -> Self {
        Self {
            ranges: Some(ranges),
            ..self
        }
    }

    fn run(&self) -> String {
        let server = Faulty::serve(BODY.clone(), self.faults.clone(), None);
        let bench = Bench::of(&server.url, &BODY);
        let ran = bench.apply(&[], &[]);
        let (name, left) = (self.name, bench.left());
        assert_eq!(ran.code, self.code, "{name}: {}", ran.err);
        assert!(ran.err.contains(self.says), "{name}: {}", ran.err);
        assert_eq!(left, self.left, "{name}");
        if self.code == 0 {
            assert!(
                fs::read(bench.file()).expect("there") == *BODY,
                "{name}: other bytes"
            );
        }
        if let Some(ranges) = self.ranges {
            assert_eq!(server.ranges(), ranges, "{name}");
        }
        // Whatever it was, a server that is well again makes it good, and nothing of before is in
        // the way.
        server.set(Fault::Nothing);
        let again = bench.apply(&[], &[]);
        assert!(
            again.code == 0 && fs::read(bench.file()).expect("there") == *BODY,
            "{name}, again: {}",
            again.err
        );
        row(name, ran.code, &left)
    }
}

fn row(name: &str, code: i32, left: &str) -> String {
    format!("{name:<64} {code:>4}  {left}")
}

/// Runs them some at a time: most of their time they wait.
fn table(cases: &[Case]) {
    let (next, rows) = (Mutex::new(0..cases.len()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let Some(n) = next.lock().expect("no panic beside").next() else {
                        return;
                    };
                    let row = cases[n].run();
                    rows.lock().expect("no panic beside").push((n, row));
                }
            });
        }
    });
    let mut rows = rows.into_inner().expect("no panic");
    rows.sort();
    println!("\n{:<64} exit  left in the cache", "what goes wrong");
    rows.iter().for_each(|(_, row)| println!("{row}"));
}

#[test]
fn whatever_a_server_does_has_its_end() {
    use Fault::*;
    const HALF: usize = 1_500_000;
    let with = |status, header: &str| StatusWith(status, header.to_owned());
    let (nothing, part, file) = ("nothing", "file.part", "file");
    table(&[
        case("nothing", vec![Nothing], 0, "done: download", file).asking(&[""]),
        case(
            "cut before the first byte, always",
            vec![Cut(0)],
            6,
            "the connection was cut",
            nothing,
        ),
        case(
            "cut after byte 1 each time",
            vec![Cut(1)],
            6,
            "the connection was cut",
            part,
        ),
        case("cut halfway, once", vec![Cut(HALF), Nothing], 0, "", file).asking(&["", "1500000-"]),
        case(
            "cut three times, each time further on",
            vec![Cut(HALF), Cut(700_000), Cut(700_000), Nothing],
            0,
            "",
            file,
        ),
        case(
            "cut, and the server knows no ranges",
            vec![Cut(HALF), Whole],
            0,
            "",
            file,
        )
        .asking(&["", "1500000-"]),
        case(
            "silence before the first byte",
            vec![Stall(0)],
            6,
            "says nothing",
            nothing,
        ),
        case(
            "silence in the middle, once",
            vec![Stall(HALF), Nothing],
            0,
            "",
            file,
        )
        .asking(&["", "1500000-"]),
        case(
            "429 with Retry-After in seconds",
            vec![with("429 Too Many", "Retry-After: 1"), Nothing],
            0,
            "",
            file,
        ),
        case(
            "503 with Retry-After as a date",
            vec![
                with(
                    "503 Busy",
                    "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:49:38 GMT",
                ),
                Nothing,
            ],
            0,
            "",
            file,
        ),
        case(
            "503, come again in an hour",
            vec![with("503 Busy", "Retry-After: 3600")],
            6,
            "in 3600 s",
            nothing,
        )
        .asking(&[""]),
        case(
            "500, always",
            vec![Status("500 Internal Server Error")],
            6,
            "500",
            nothing,
        )
        .asking(&["", "", "", ""]),
        case("404", vec![Status("404 Not Found")], 6, "404", nothing).asking(&[""]),
        case("403", vec![Status("403 Forbidden")], 6, "403", nothing).asking(&[""]),
        case("410", vec![Status("410 Gone")], 6, "410", nothing).asking(&[""]),
        case(
            "416 to the rest",
            vec![Cut(HALF), Status("416 Range Not Satisfiable"), Nothing],
            0,
            "",
            file,
        )
        .asking(&["", "1500000-", ""]),
        case(
            "416, always",
            vec![Status("416 Range Not Satisfiable")],
            6,
            "no such part",
            nothing,
        ),
        case(
            "Content-Length too small",
            vec![Short(5)],
            6,
            "has 2999995 bytes, not 3000000",
            nothing,
        )
        .asking(&[""]),
        case(
            "Content-Length too large",
            vec![Long(5)],
            6,
            "has 3000005 bytes, not 3000000",
            nothing,
        )
        .asking(&[""]),
        case(
            "another ETag halfway",
            vec![Cut(HALF), Tagged("second")],
            0,
            "",
            file,
        )
        .asking(&["", "1500000-"]),
        case(
            "another ETag halfway, no heed of If-Range",
            vec![Cut(HALF), TaggedBlindly("second")],
            0,
            "",
            file,
        )
        .asking(&["", "1500000-", ""]),
        case(
            "a wrong byte",
            vec![Flipped(2_000_000)],
            10,
            "its SHA-256 is",
            "file.rejected",
        )
        .asking(&[""]),
        case(
            "compressed, which nobody asked for",
            vec![Encoded],
            6,
            "encoded (gzip)",
            nothing,
        ),
        case(
            "sent on in a circle",
            vec![Redirect("/file".to_owned())],
            6,
            "more than 10 times",
            nothing,
        ),
        case(
            "sent on to a file",
            vec![Redirect("file:///etc/passwd".to_owned())],
            6,
            "cannot download",
            nothing,
        ),
        case(
            "sent on to a path that has it",
            vec![RedirectTo("/there".to_owned())],
            0,
            "",
            file,
        ),
        case(
            "a body without end",
            vec![Endless],
            10,
            "longer than 3000000 bytes",
            "file.rejected",
        ),
    ]);
}

#[test]
fn an_interrupt_does_not_wait_for_a_silent_server() {
    let server = Faulty::serve(BODY.clone(), vec![Fault::Stall(1_000)], None);
    let bench = Bench::of(&server.url, &BODY);
    let mut command = bench.command(&[], &[("GPUSETUP_SILENCE", "600")]);
    let running = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("gpusetup runs");
    let last = Instant::now() + Duration::from_secs(60);
    while server.asked().is_empty() && Instant::now() < last {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&running),
        rustix::process::Signal::TERM,
    )
    .expect("it runs");
    let ran = Ran::of(running.wait_with_output().expect("it ends"));
    assert!(
        began.elapsed() < Duration::from_secs(300),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(ran.code, 143, "{}", ran.err);
}

/// Runs gpusetup with a small file system in the cache's place, then prints what of it is free and
/// which files are in it.
const ON_A_SMALL_DISK: &str = r#"
cache=$1; shift
mount -t tmpfs -o mode=700,size=48m small "$cache" || exit 99
"$@"; code=$?
echo "free $(($(stat -f -c '%a * %S' "$cache")))"
find "$cache" -type f
exit $code"#;

#[test]
fn an_endless_file_of_unknown_size_does_not_fill_the_disk() {
    let server = Faulty::serve(BODY.clone(), vec![Fault::Endless], None);
    let bench = Bench::of_size(&server.url, &BODY, None);
    let cache = bench.tree.path().join("var/cache/gpusetup");
    fs::create_dir_all(&cache).expect("made");
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
        .args(["sh", "-c", ON_A_SMALL_DISK, "sh"])
        .arg(cache)
        .arg(common::program().get_program())
        .arg("apply");
    command
        .arg(bench.folder.path().join("plan.json"))
        .args(["--yes", "--accept-eula", "--root"])
        .arg(bench.tree.path());
    let ran = Ran::of(command.stdin(Stdio::null()).output().expect("unshare runs"));
    assert!(
        ran.code == 5 && ran.err.contains("its size was not published"),
        "{} {}{}",
        ran.code,
        ran.out,
        ran.err
    );
    let free = ran
        .out
        .lines()
        .find_map(|line| line.strip_prefix("free "))
        .expect("printed");
    assert!(free.parse::<u64>().expect("a number") > 40 << 20, "{free}");
    assert!(!ran.out.contains(".part"), "{}", ran.out);
}

#[test]
fn the_next_run_goes_on_where_the_last_one_broke_off() {
    let server = Faulty::serve(
        BODY.clone(),
        vec![
            Fault::Cut(1_000),
            Fault::Status("404 Not Found"),
            Fault::Nothing,
        ],
        None,
    );
    let bench = Bench::of(&server.url, &BODY);
    assert_eq!(bench.apply(&[], &[]).code, 6);
    assert_eq!(bench.left(), "file.part");
    assert_eq!(bench.apply(&[], &[]).code, 0);
    assert_eq!(server.ranges(), ["", "1000-", "1000-"]);
    let last = server.asked().pop().expect("asked");
    assert!(
        last.contains("if-range: \"first\""),
        "of the same file: {last}"
    );
    assert!(
        !bench.file().with_file_name("file.part.begun").exists(),
        "nothing of it is left over"
    );
    // What another server's file begins with is resumed, but only by its checksum.
    let bench = Bench::of(&server.url, &BODY);
    let folder = bench.file().parent().expect("a folder").to_owned();
    fs::create_dir_all(&folder).expect("made");
    fs::write(folder.join("file.part"), b"of another day").expect("written");
    assert_eq!(bench.apply(&[], &[]).code, 0);
    assert_eq!(
        server.ranges()[3..],
        ["14-", ""],
        "it did not fit, and was downloaded from scratch"
    );
}

/// A certificate for this machine's loopback address, and what is wrong with it.
struct Authority(tempfile::TempDir);

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let authority = Self(folder);
        let key = [
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ];
        let own = [
            "-x509",
            "-days",
            "2",
            "-subj",
            "/CN=a test",
            "-addext",
            "keyUsage=critical,keyCertSign",
        ];
        authority.openssl(
            &[
                &["req"],
                &key[..],
                &own[..],
                &["-keyout", "ca.key", "-out", "ca.pem"],
            ]
            .concat(),
        );
        for (name, address, days) in [
            ("good", "127.0.0.1", "2"),
            ("expired", "127.0.0.1", "-1"),
            ("other", "127.0.0.2", "2"),
        ] {
            let (sealed, asked, pem) = (
                format!("{name}.key"),
                format!("{name}.csr"),
                format!("{name}.pem"),
            );
            let request = ["-subj", "/CN=a server", "-keyout", &sealed, "-out", &asked];
            authority.openssl(&[&["req"], &key[..], &request[..]].concat());
            let more = format!("subjectAltName=IP:{address}\nbasicConstraints=CA:FALSE\n");
            fs::write(authority.path("more"), more).expect("written");
            let sign = [
                "-req", "-in", &asked, "-CA", "ca.pem", "-CAkey", "ca.key", "-days", days,
            ];
            authority
                .openssl(&[&["x509"], &sign[..], &["-extfile", "more", "-out", &pem]].concat());
        }
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn openssl(&self, arguments: &[&str]) {
        let made = Command::new("openssl")
            .args(arguments)
            .current_dir(self.0.path())
            .output()
            .expect("openssl");
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
    }

    fn server(&self, name: &str, fault: Fault) -> Faulty {
        let (certificate, key) = (
            self.path(&format!("{name}.pem")),
            self.path(&format!("{name}.key")),
        );
        Faulty::serve(
            BODY.clone(),
            vec![fault],
            Some(Seal {
                certificate: &certificate,
                key: &key,
            }),
        )
    }
}

#[test]
fn certificates_are_looked_at() {
    let authority = Authority::new();
    let ours = authority.path("ca.pem").display().to_string();
    let plain = Faulty::serve(BODY.clone(), vec![Fault::Nothing], None);
    let rows = [
        (
            "an authority of one's own, named",
            "good",
            Fault::Nothing,
            true,
            0,
            "done",
        ),
        (
            "an authority that nobody knows",
            "good",
            Fault::Nothing,
            false,
            6,
            "--ca-cert FILE trusts",
        ),
        (
            "a certificate that has expired",
            "expired",
            Fault::Nothing,
            true,
            6,
            "has expired",
        ),
        (
            "a certificate for another name",
            "other",
            Fault::Nothing,
            true,
            6,
            "not valid for",
        ),
        (
            "sent on to a server without TLS",
            "good",
            Fault::Redirect(plain.url.clone()),
            true,
            6,
            "https to http",
        ),
    ];
    println!();
    for (name, certificate, fault, trusted, code, says) in rows {
        let server = authority.server(certificate, fault);
        let bench = Bench::of(&server.url, &BODY);
        let trust = ["--ca-cert", &ours];
        let ran = bench.apply(&trust[..if trusted { 2 } else { 0 }], &[]);
        assert!(
            ran.code == code && ran.err.contains(says),
            "{name}: {} {}",
            ran.code,
            ran.err
        );
        assert_eq!(
            bench.left(),
            if code == 0 { "file" } else { "nothing" },
            "{name}"
        );
        println!("{}", row(name, ran.code, &bench.left()));
    }
    assert!(plain.asked().is_empty(), "nobody went there");
    // The variable that everybody else reads names the host's own store.
    let server = authority.server("good", Fault::Nothing);
    assert_eq!(
        Bench::of(&server.url, &BODY)
            .apply(&[], &[("SSL_CERT_FILE", &ours)])
            .code,
        0
    );
    // And what is no certificate is said before anything is asked.
    let bench = Bench::of(&server.url, &BODY);
    for no in ["/nowhere.pem", "/etc/hostname"] {
        let ran = bench.apply(&["--ca-cert", no], &[]);
        assert!(
            ran.code == 2 && ran.err.contains(no),
            "{} {}",
            ran.code,
            ran.err
        );
    }
}

/// What `user:password` looks like in a header.
fn basic(login: &str) -> String {
    let output = Command::new("sh")
        .args(["-c", "printf %s \"$0\" | base64 -w0", login])
        .output()
        .expect("base64");
    format!("Basic {}", String::from_utf8(output.stdout).expect("ASCII"))
}

#[test]
fn a_proxy_gets_its_login_and_nobody_else_does() {
    let login = basic(&format!("me:{SECRET}"));
    let authority = Authority::new();
    let ours = authority.path("ca.pem").display().to_string();
    let (plain, sealed) = (
        Faulty::serve(BODY.clone(), vec![Fault::Nothing], None),
        authority.server("good", Fault::Nothing),
    );
    for (server, variable) in [
        (&plain, "http_proxy"),
        (&sealed, "https_proxy"),
        (&sealed, "ALL_PROXY"),
    ] {
        let proxy = Faulty::serve(BODY.clone(), vec![Fault::Proxy(Some(login.clone()))], None);
        let address = proxy.url.trim_end_matches("/file");
        let with_login = address.replace("http://", &format!("http://me:{SECRET}@"));
        let wrong = address.replace("http://", &format!("http://me:{SECRET}wrong@"));
        for (address, code) in [(address, 6), (&*wrong, 6), (&*with_login, 0)] {
            let bench = Bench::of(&server.url, &BODY);
            let asked = proxy.asked().len();
            let ran = bench.apply(&["--ca-cert", &ours, "-v"], &[(variable, address)]);
            assert_eq!(ran.code, code, "{variable}: {}", ran.err);
            assert!(
                proxy.asked().len() == asked + 1,
                "asked once: what is refused is not tried again"
            );
            assert!(
                code == 0 || ran.err.contains("the proxy demands a login"),
                "{}",
                ran.err
            );
            assert!(!bench.reveals(SECRET, &ran), "the password is told");
            println!(
                "{}",
                row(
                    &format!(
                        "{variable}, with{} login",
                        if code == 0 { "" } else { "out the" }
                    ),
                    code,
                    &bench.left()
                )
            );
        }
        // What is not to go by it does not.
        let (bench, asked) = (Bench::of(&server.url, &BODY), proxy.asked().len());
        let environment = [
            (variable, with_login.as_str()),
            ("no_proxy", "localhost,127.0.0.1"),
        ];
        let ran = bench.apply(&["--ca-cert", &ours], &environment);
        assert!(ran.code == 0 && proxy.asked().len() == asked, "{}", ran.err);
    }
    for server in [&plain, &sealed] {
        assert!(
            server
                .asked()
                .iter()
                .all(|head| !head.contains("proxy-authorization")),
            "the proxy's alone"
        );
    }
}

/// An HTTP proxy fetches what has no seal itself, and opens a tunnel to what has one: many open
/// none to other ports than 443.
#[test]
fn a_proxy_is_asked_as_proxies_are() {
    let authority = Authority::new();
    let ours = authority.path("ca.pem").display().to_string();
    let proxy = Faulty::serve(BODY.clone(), vec![Fault::Proxy(None)], None);
    let address = proxy.url.trim_end_matches("/file");
    let sealed = authority.server("good", Fault::Nothing);
    for url in ["http://nowhere.invalid/file?a=b", &sealed.url] {
        let bench = Bench::of(url, &BODY);
        let ran = bench.apply(&["--ca-cert", &ours], &[("all_proxy", address)]);
        assert!(
            ran.code == 0 && fs::read(bench.file()).expect("there") == *BODY,
            "{url}: {}",
            ran.err
        );
    }
    let asked = proxy.asked();
    let lines: Vec<_> = asked
        .iter()
        .map(|head| head.lines().next().unwrap_or_default())
        .collect();
    let tunnel = format!(
        "connect {} http/1.1",
        sealed
            .url
            .trim_start_matches("https://")
            .trim_end_matches("/file")
    );
    assert_eq!(
        lines,
        ["get http://nowhere.invalid/file?a=b http/1.1", &tunnel]
    );
    assert!(
        asked[0].contains("\r\nhost: nowhere.invalid\r\n"),
        "{}",
        asked[0]
    );
}

#[test]
fn a_socks_proxy_leads_to_every_server() {
    let authority = Authority::new();
    let ours = authority.path("ca.pem").display().to_string();
    let plain = Faulty::serve(BODY.clone(), vec![Fault::Nothing], None);
    let sealed = authority.server("good", Fault::Nothing);
    for scheme in ["socks5", "socks5h"] {
        let (address, led) = faulty::socks("me", SECRET);
        for (server, password, code) in [
            (&plain, SECRET, 0),
            (&sealed, SECRET, 0),
            (&sealed, "other", 6),
        ] {
            let (bench, before) = (Bench::of(&server.url, &BODY), led.load(Ordering::Relaxed));
            let proxy = format!("{scheme}://me:{password}@{address}");
            let ran = bench.apply(&["--ca-cert", &ours, "-v"], &[("all_proxy", &proxy)]);
            assert_eq!(ran.code, code, "{scheme}: {}", ran.err);
            assert!(
                code != 0 || led.load(Ordering::Relaxed) == before + 1,
                "it goes by the proxy"
            );
            assert!(!bench.reveals(SECRET, &ran), "the password is told");
        }
    }
}

#[test]
fn a_mirrors_login_is_its_own() {
    let login = basic(&format!("me:{SECRET}"));
    let other = Faulty::serve(BODY.clone(), vec![Fault::Nothing], None);
    let mirror = Faulty::serve(
        BODY.clone(),
        vec![Fault::Login("authorization", login.clone())],
        None,
    );
    let address = |login: &str| {
        mirror
            .url
            .replace("http://", &format!("http://{login}"))
            .replace("/file", "/nvidia")
    };
    // Nobody is there but the mirror.
    let bench = Bench::of("https://nowhere.invalid/compute/x.run", &BODY);
    let ran = bench.apply(&["--mirror", &address("")], &[]);
    assert!(
        ran.code == 6 && ran.err.contains("401") && ran.err.contains("config file"),
        "{} {}",
        ran.code,
        ran.err
    );
    let with_login = address(&format!("me:{SECRET}@"));
    let config = bench.folder.path().join("config.yaml");
    fs::write(
        &config,
        format!("mirrors:\n  \"https://nowhere.invalid/compute/\": \"{with_login}\"\n"),
    )
    .expect("written");
    let ran = bench.apply(&["--config", config.to_str().expect("text"), "-v"], &[]);
    assert!(
        ran.code == 0 && bench.left() == "file",
        "{} {}",
        ran.code,
        ran.err
    );
    assert!(
        !bench.reveals(SECRET, &ran) && ran.err.contains("/nvidia/x.run"),
        "{}",
        ran.err
    );
    // A mirror that sends on to another server sends no login along.
    mirror.set(Fault::Redirect(other.url.clone()));
    let bench = Bench::of("https://nowhere.invalid/compute/x.run", &BODY);
    let ran = bench.apply(&["--mirror", &with_login, "-v"], &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!bench.reveals(SECRET, &ran));
    assert!(
        other
            .asked()
            .iter()
            .all(|head| !head.contains("authorization")),
        "{:?}",
        other.asked()
    );
    for help in [["apply", "--help"], ["plan", "-h"]] {
        let output = common::program()
            .args(help)
            .env("GPUSETUP_MIRROR", &with_login)
            .output()
            .expect("it runs");
        assert!(
            !String::from_utf8_lossy(&output.stdout).contains(SECRET),
            "help shows it"
        );
    }
}

#[test]
fn a_disk_is_a_mirror_too_and_enough_without_a_network() {
    let disk = tempfile::tempdir().expect("a temporary folder");
    let mirror = format!("file://{}", disk.path().display());
    let bench = Bench::of("https://nowhere.invalid/compute/x.run", &BODY);
    let apply = || bench.apply(&["--offline", "--mirror", &mirror], &[]);
    let says = |ran: Ran, code: i32, text: &str, left: &str| {
        assert!(
            ran.code == code && ran.err.contains(text),
            "{} {}",
            ran.code,
            ran.err
        );
        assert_eq!(bench.left(), left);
        println!("{}", row(&format!("a mounted mirror: {text}"), code, left));
    };
    says(
        bench.apply(&["--offline"], &[]),
        5,
        "https://nowhere.invalid/compute/x.run is not in the cache",
        "nothing",
    );
    assert!(
        !bench.tree.path().join("var/lib/gpusetup/journal").exists(),
        "nothing was begun"
    );
    says(apply(), 6, "there is no such file", "nothing");
    let file = disk.path().join("compute/x.run");
    fs::create_dir_all(file.parent().expect("a folder")).expect("made");
    fs::write(&file, &BODY[1..]).expect("written");
    says(
        apply(),
        6,
        "the file has 2999999 bytes, not 3000000",
        "nothing",
    );
    let mut wrong = BODY.clone();
    wrong[7] ^= 1;
    fs::write(&file, &wrong).expect("written");
    says(apply(), 10, "its SHA-256 is", "file.rejected");
    fs::write(&file, &*BODY).expect("written");
    says(apply(), 0, "done: download", "file, file.rejected");
    assert_eq!(
        bench.apply(&["--offline"], &[]).code,
        0,
        "what is in the cache is enough"
    );
}

/// Parts are asked for at once of a server that gives each connection so much and no more.
#[test]
fn a_server_that_limits_connections_is_asked_for_several_parts() {
    let body = bytes(60_000_000);
    // Ten megabytes a second over each.
    let server = Faulty::serve(body.clone(), vec![Fault::Slow(1_000_000)], None);
    let bench = Bench::of(&server.url, &body);
    let ran = bench.apply(&[], &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        fs::read(bench.file()).expect("there") == body,
        "other bytes"
    );
    let ranges = server.ranges();
    assert!(
        ranges.len() > 1 && ranges[0].is_empty() && ranges[1..].iter().all(|r| !r.ends_with('-')),
        "{ranges:?}"
    );
}

/// The web server that most mirrors run, with what it does of itself.
#[test]
fn nginx_serves_whole_files_and_parts() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let nginx = Nginx::start(folder.path()).expect("nginx is installed");
    fs::write(folder.path().join("file"), &*BODY).expect("written");
    let bench = Bench::of(&format!("{}/file", nginx.url), &BODY);
    let ran = bench.apply(&[], &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    // The rest of what is there, of the very same file.
    fs::rename(bench.file(), bench.file().with_file_name("file.part")).expect("there");
    let part = fs::OpenOptions::new()
        .write(true)
        .open(bench.file().with_file_name("file.part"))
        .expect("there");
    part.set_len(1_000_000).expect("shortened");
    fs::remove_dir_all(bench.tree.path().join("var/lib/gpusetup")).expect("it was applied");
    let ran = bench.apply(&[], &[]);
    assert!(
        ran.code == 0 && fs::read(bench.file()).expect("there") == *BODY,
        "{}",
        ran.err
    );
    let log = fs::read_to_string(folder.path().join("access.log")).expect("it writes one");
    let statuses: Vec<_> = log
        .lines()
        .map(|l| l.split(' ').next().unwrap_or_default())
        .collect();
    assert_eq!(statuses, ["200", "206"], "{log}");
}

/// A server may be slow, and may not make others wait for years.
#[test]
fn a_server_that_sends_next_to_nothing_is_given_up() {
    let server = Faulty::serve(BODY.clone(), vec![Fault::Slow(5)], None);
    let bench = Bench::of(&server.url, &BODY);
    let ran = bench.apply(&[], &[]);
    assert!(
        ran.code == 6 && ran.err.contains("less than 512 bytes a second"),
        "{} {}",
        ran.code,
        ran.err
    );
    // What is small has a time.
    let began = Instant::now();
    let mut command = common::program();
    command
        .args(["db", "update", "--from", &server.url, "--key"])
        .arg(key_file(&bench));
    command
        .env("GPUSETUP_SILENCE", "1")
        .env("GPUSETUP_DATABASE_STORE", bench.folder.path().join("store"));
    let ran = Ran::of(command.output().expect("gpusetup runs"));
    assert!(
        ran.code == 6 && ran.err.contains("it took too long"),
        "{} {}",
        ran.code,
        ran.err
    );
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "{:?}",
        began.elapsed()
    );
}

/// A public key, as minisign writes it.
fn key_file(bench: &Bench) -> PathBuf {
    let path = bench.folder.path().join("release.pub");
    let key = "untrusted comment: minisign public key\nRWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\n";
    fs::write(&path, key).expect("written");
    path
}

#[test]
fn nothing_goes_without_a_proxy_that_is_misspelt() {
    let server = Faulty::serve(BODY.clone(), vec![Fault::Nothing], None);
    for variable in ["http_proxy", "HTTPS_PROXY", "all_proxy"] {
        let bench = Bench::of(&server.url, &BODY);
        let ran = bench.apply(&[], &[(variable, "gopher://me:hunter2@proxy")]);
        assert!(
            ran.code == 2 && ran.err.contains("is not the address of a proxy"),
            "{} {}",
            ran.code,
            ran.err
        );
        assert!(
            ran.err
                .to_lowercase()
                .contains(variable.to_lowercase().as_str())
                && !ran.err.contains("hunter2"),
            "{}",
            ran.err
        );
        let mut command = common::program();
        command
            .args(["db", "update", "--from", &server.url, "--key"])
            .arg(key_file(&bench));
        command
            .env(variable, "gopher://x")
            .env("GPUSETUP_DATABASE_STORE", bench.folder.path().join("store"));
        let ran = Ran::of(command.output().expect("gpusetup runs"));
        assert!(
            ran.code == 2 && ran.err.contains("is not the address of a proxy"),
            "{} {}",
            ran.code,
            ran.err
        );
    }
    assert!(server.asked().is_empty(), "{:?}", server.asked());
}
