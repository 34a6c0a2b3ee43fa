//! Words: common ones that are not private, and keys whose values are private.

use super::{PrivateKind, is_boundary, run};

/// Common words of reports, packages, paths and distributions, which may also be the name of a host
/// or a user: they stay. The schemas' enum values are among them, because otherwise a report could
/// not be read again.
#[rustfmt::skip]
const COMMON_WORDS: &[&str] = &[
    "a10", "a100", "a30", "a40", "aarch64", "absent", "accounting", "active", "address", "admin", "administrator", "ai",
    "almalinux", "amazon", "amd64", "amzn", "anaconda", "apache", "api", "apt", "apt-get", "apt-sequoia", "arch",
    "archive", "archives", "arm64", "armhf", "artifactory", "artifacts", "asc", "autoinstall", "b200", "b300",
    "backports", "base", "bash", "bin", "bionic", "board", "bookworm", "boot", "build", "builds", "bullseye", "bus",
    "buster", "cache", "cached", "cargo", "cause", "cdi", "centos", "cert", "check", "checks", "clang", "class",
    "client", "clock-limits", "clocks", "cloud", "cluster", "cmake", "code", "command", "commands", "community",
    "compat", "compiler", "completed", "compute", "compute-and-graphics", "compute-mode", "conda",
    "confidential-computing", "config", "container", "containerd", "containers", "contrib", "core", "cpu", "crb",
    "cri-o", "crio", "cross", "cublas", "cuda", "cudart", "cudnn", "cufft", "cuinit", "cupti", "curand", "current",
    "cusolver", "cusparse", "data", "deb", "debian", "debug", "default", "denied", "deny", "dependency", "desktop",
    "dev", "devel", "device", "devices", "directories", "directory", "disabled", "display", "dist", "dist-packages",
    "distribution", "distributions", "dists", "dkms", "dma", "dma-fq", "dmesg", "dnf", "doc", "docker", "documents",
    "download", "downloads", "dpkg", "dracut", "drain-and-reset", "drain-p2p", "driver", "drivers", "drm", "ecc", "el",
    "empty", "enabled", "enroot", "entry", "env", "envs", "epel", "epyc", "error", "etc", "evidence", "exclusive",
    "experimental", "extra", "extras", "fabric", "fabricmanager", "facts", "fail", "failed", "false", "fan", "fedora",
    "file", "files", "firmware", "firmware-hangs", "flavour", "focal", "free", "from", "gb10", "gb200", "gb300", "gcc",
    "gcp", "gdm", "geforce", "generic", "gh200", "github", "gitlab", "glibc", "gnu", "gpg", "gpl", "gpu", "gpus",
    "graphics", "grub", "gtx", "guest", "h100", "h200", "h800", "hardware-slowdown", "hardware-thermal", "has",
    "header", "headers", "heat", "held", "home", "host", "host-bridge", "host-vgpu", "host-vsga", "hosts", "hwe", "id",
    "identity", "idle", "image", "images", "in-progress", "include", "info", "inforom", "init", "init-failed",
    "initramfs", "initrd", "inside", "install", "installed", "installer", "intel", "internal", "is", "jammy", "jetson",
    "job", "json", "k80", "kernel", "kernels", "keyring", "keyrings", "kind", "kubelet", "kvm", "l4", "l40", "l40s",
    "lab", "laptop", "latest", "layer", "legacy", "lib", "lib32", "lib64", "libcuda", "libcudart", "libcudnn",
    "libexec", "libnccl", "libnvidia", "libnvinfer", "libraries", "library", "library-path", "licence", "lightdm",
    "link", "links", "linux", "listed-gpu", "local", "locale", "localhost", "log", "login", "logs", "m60", "machine",
    "main", "major", "make", "man", "mapper", "md", "media", "memory", "microsoft", "mig", "minor", "mirror", "mirrors",
    "mismatch", "mit", "mkinitcpio", "ml", "mnt", "mode", "modprobe", "module", "modules", "mount", "multiverse",
    "musl", "name", "names", "nccl", "needed", "needs-open", "nerdctl", "network", "next", "no-hmm", "no-room", "noble",
    "node", "nodes", "non-free", "non-free-firmware", "none", "not-asked", "not-for-open", "not-probed", "not-started",
    "notebook", "nothing", "nouveau", "nova", "novacore", "nsight", "null", "numa", "nv-links", "nvcc", "nvidia",
    "nvidia-smi", "nvl", "nvlink", "nvme", "nvml", "nvrm", "nvswitch", "off-the-bus", "old", "open", "opensuse", "opt",
    "optional", "oracle", "origin", "os", "other", "overlay", "p100", "p4", "p40", "package", "packages", "packman",
    "passthrough", "path", "paths", "pci", "pcie", "performance-state", "persistence", "persistenced", "physical",
    "pictures", "pip", "pkg", "pkgs", "plain", "plan", "plugins", "podman", "pool", "port", "power", "power-brake",
    "power-cap", "ppa", "ppc64el", "ppc64le", "prefix", "private", "probe-failed", "proc", "processes", "processor",
    "product", "profile", "program", "programs", "prohibited", "proposed", "proprietary", "public", "pypi", "python",
    "pytorch", "quadro", "raw", "ready", "reboot", "recovery", "refused", "release", "releases", "remapped-rows",
    "repo", "repos", "repository", "requested", "reset", "resolute", "response", "restricted", "retired-pages", "rhel",
    "right", "riscv64", "rocky", "root", "rpm", "rpmfusion", "rtx", "run", "runfile", "running", "runtime", "rust",
    "samples", "sbin", "sbsa", "scripts", "sd", "secure", "security", "select", "serial", "server", "service",
    "setting", "sh", "share", "shared", "shells", "shim", "signer", "simple", "site-packages", "skip", "sle", "sles",
    "smi", "snap", "so", "software-thermal", "soname", "source", "sources", "src", "stable", "stage", "start", "state",
    "status", "std", "stubs", "sudo", "supported", "suse", "switch", "switch-fault", "switches", "sxm", "sxm2", "sxm3",
    "sxm4", "sxm5", "sync-boost", "system", "systemd", "t4", "table", "target", "targets", "tdnf", "tegra",
    "temperature", "tensorflow", "tensorrt", "tesla", "test", "testing", "tgz", "third-party", "thirdparty", "titan",
    "tmp", "tool", "toolkit", "toolkits", "tools", "topology", "torch", "triton", "trixie", "true", "tumbleweed",
    "type", "ubuntu", "udev", "unattended", "unfit", "unit", "universe", "unknown", "unread", "unsaid", "unsigned",
    "update", "update-initramfs", "updates", "user", "users", "usr", "util", "utilization", "utils", "uuid", "uvm",
    "v100", "value", "var", "vbios", "vendor", "venv", "version", "versions", "vfio", "vfio-pci", "vgpu", "virtual",
    "virtualization", "vm", "warmth", "warn", "wayland", "wheel", "whl", "whole", "workstation", "wrong", "wsl", "wsl2",
    "x64", "x86", "x86_64", "xen", "xid", "xorg", "yum", "zesty", "zsh", "zst", "zypper",
];

/// Domains of public mirrors and downloads.
const PUBLIC_HOSTS: [&str; 19] = [
    "almalinux.org",
    "archlinux.org",
    "centos.org",
    "debian.org",
    "docker.com",
    "docker.io",
    "fedoraproject.org",
    "kernel.org",
    "launchpad.net",
    "launchpadcontent.net",
    "localhost",
    "nvidia.com",
    "nvidia.github.io",
    "opensuse.org",
    "redhat.com",
    "rockylinux.org",
    "rpmfusion.org",
    "suse.com",
    "ubuntu.com",
];

/// Suffixes of keys with private values, without separators.
const SECRET_KEYS: [&str; 12] = [
    "accesskey",
    "apikey",
    "authorization",
    "cookie",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "secret",
    "secretkey",
    "token",
];

/// Prefixes of well-known services' tokens.
const TOKENS: [&str; 16] = [
    "AKIA",
    "ASIA",
    "dckr_pat_",
    "eyJ",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "hf_",
    "npm_",
    "nvapi-",
    "pypi-",
    "xoxb-",
    "xoxp-",
];

/// Whether a name is a common word.
pub(crate) fn is_word(name: &str) -> bool {
    COMMON_WORDS
        .iter()
        .any(|word| word.eq_ignore_ascii_case(name))
}

/// Whether a part of a path is made of such words and of numbers, `cuda-12.8`, `libcudnn.so.9`,
/// `ubuntu2404`.
pub(crate) fn is_public(part: &str) -> bool {
    is_word(part)
        || part.split(|c: char| !c.is_alphanumeric()).all(|word| {
            word.bytes().all(|b| b.is_ascii_digit())
                || is_word(word)
                || is_word(word.trim_end_matches(char::is_numeric))
        })
}

/// Whether a host name is public.
pub(crate) fn is_public_host(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    PUBLIC_HOSTS.iter().any(|known| {
        let before = host.strip_suffix(known);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    })
}

/// The host in a line of syslog or of the journal: the word after the time and before ` kernel:`.
pub(crate) fn host_of_line(before: &str, word: &str, after: &str) -> bool {
    if !after.starts_with(" kernel:") {
        return false;
    }
    let line = before.rsplit('\n').next().unwrap_or_default();
    let Some(time) = line
        .strip_suffix(' ')
        .and_then(|l| l.split(' ').next_back())
    else {
        return false;
    };
    let is_time =
        time.contains(|c: char| c.is_ascii_digit()) && (time.contains(':') || time.ends_with(']'));
    let named = word
        .chars()
        .all(|c| c.is_alphanumeric() || "-._".contains(c))
        && word.contains(char::is_alphabetic)
        && word != "localhost";
    is_time && named
}

fn is_secret_key(joined: &str) -> bool {
    SECRET_KEYS.iter().any(|key| joined.ends_with(key))
}

/// The key in lower case, without separators.
fn joined(key: &str) -> String {
    key.chars()
        .filter(|c| c.is_alphanumeric() || *c == '/')
        .flat_map(char::to_lowercase)
        .collect()
}

fn is_serial(joined: &str) -> bool {
    ["serial", "serialnumber", "serialno", "s/n"]
        .iter()
        .any(|key| joined.ends_with(key))
}

/// The kind of a field's value, if the field's name shows it.
pub(crate) fn kind_of(key: &str) -> Option<PrivateKind> {
    match joined(key) {
        k if is_serial(&k) => Some(PrivateKind::Serial),
        k if is_secret_key(&k) => Some(PrivateKind::Secret),
        k if ["hostname", "nodename", "fqdn"].contains(&&*k) => Some(PrivateKind::Host),
        k if ["username", "login"].contains(&&*k) => Some(PrivateKind::User),
        k if ["bootid", "machineid"].contains(&&*k) => Some(PrivateKind::Id),
        _ => None,
    }
}

/// A value after a key that shows its kind: `password=…`, `--token …`, `Serial Number: …`.
pub(crate) fn private_value(before: &str, rest: &str) -> Option<(usize, PrivateKind)> {
    let quote = before.chars().next_back().filter(|c| "\"'".contains(*c));
    let near = quote
        .map_or(before, |_| &before[..before.len() - 1])
        .trim_end_matches([' ', '\t']);
    let Some(before_sign) = near.strip_suffix(['=', ':', '#']) else {
        // Options whose value is the next word.
        let last = before
            .strip_suffix(' ')
            .and_then(|b| b.split_whitespace().next_back())
            .unwrap_or_default();
        let is_option = last.starts_with("--") && is_secret_key(&joined(last))
            || last.eq_ignore_ascii_case("bearer");
        return is_option.then(|| non_blank(word(rest, quote), PrivateKind::Secret))?;
    };
    let key = key_before(before_sign);
    if is_secret_key(&key) {
        // A header's value may contain spaces.
        let is_header = key.ends_with("authorization") || key.ends_with("cookie");
        let value = match quote {
            None if is_header => run(rest, |c| c != '\n'),
            _ => word(rest, quote),
        };
        return non_blank(value, PrivateKind::Secret);
    }
    if is_serial(&key) {
        let value =
            run(rest, |c| c.is_alphanumeric() || "-./".contains(c)).trim_end_matches(['.', '/']);
        return non_blank(value, PrivateKind::Serial)
            .filter(|_| value.len() > 3 && value.contains(|c: char| c.is_ascii_digit()));
    }
    // The kernel names the program of an Xid: `Xid (PCI:0000:17:00): 13, pid=9, name=python, …`.
    let program = before
        .ends_with(", name=")
        .then(|| run(rest, |c| c != ',' && c != '<' && c != '\n'));
    program.and_then(|program| non_blank(program, PrivateKind::Program))
}

/// The key at the end of what is before a sign such as `=`.
fn key_before(sign: &str) -> String {
    let key = sign.trim_end_matches(['"', '\'', ' ', ':', '=']);
    let start = key
        .char_indices()
        .rev()
        .take_while(|(_, c)| c.is_alphanumeric() || "-_./ ".contains(*c))
        .take(40)
        .last()
        .map_or(key.len(), |(at, _)| at);
    joined(&key[start..])
}

/// The value up to its quote, or the word.
fn word(rest: &str, quote: Option<char>) -> &str {
    match quote {
        Some(quote) => run(rest, |c| c != quote && c != '\n'),
        None => run(rest, |c| !c.is_whitespace() && !"\"'&<>".contains(c)),
    }
}

fn non_blank(value: &str, kind: PrivateKind) -> Option<(usize, PrivateKind)> {
    (!value.starts_with([' ', '\t']) && !value.is_empty()).then_some((value.len(), kind))
}

/// A token of a well-known service.
pub(crate) fn token(rest: &str) -> Option<usize> {
    TOKENS.iter().find(|start| rest.starts_with(**start))?;
    let length = run(rest, |c| c.is_ascii_alphanumeric() || "-_.".contains(c)).len();
    (length >= 20).then_some(length)
}

/// `name@host`, also as a login and with a password, but not a systemd unit or a package version.
pub(crate) fn email(rest: &str) -> Option<usize> {
    // The length is limited, so that a megabyte without a space is not read again from each word.
    const MAX_EMAIL: usize = 128;
    memchr::memchr(b'@', &rest.as_bytes()[..rest.len().min(4 * MAX_EMAIL)])?;
    let local = rest
        .char_indices()
        .take(MAX_EMAIL)
        .find(|(_, c)| c.is_whitespace() || "\"'<>()[]{},;=/|&@`".contains(*c))
        .map(|(at, _)| at)?;
    let domain = rest[local..].strip_prefix('@').filter(|_| local > 0)?;
    let domain =
        run(domain, |c| c.is_alphanumeric() || "-._".contains(c)).trim_end_matches(['.', '-', '_']);
    let is_unit = [
        ".service", ".socket", ".timer", ".mount", ".slice", ".target", ".device",
    ]
    .iter()
    .any(|e| domain.ends_with(e));
    let is_version =
        domain.split('.').count() < 4 && domain.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let whole = is_boundary(domain, &rest[local + 1 + domain.len()..]);
    (!domain.is_empty() && !is_unit && !is_version && whole).then_some(local + 1 + domain.len())
}
