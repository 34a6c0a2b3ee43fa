//! What building a kernel module and compiling CUDA takes: headers of the kernel that will run, the compiler that built
//! it, DKMS, a host compiler that nvcc takes.

use super::job::{Job, skipped, step};
use super::{Act, Step, StepId, Warning};
use crate::compat::{Distribution, PackageManager};
use crate::host::Kernel;
use crate::operation::{Operation, Packages, packages};

const TITLE: &str = "Install what the next steps build with";

/// The step, and what a person should know.
pub fn prerequisites(job: &Job) -> (Step, Vec<Warning>) {
    let mut warnings = Vec::new();
    let Some(distribution) = job.distribution else {
        let why = format!("the database does not know the packages of {}", job.facts.os.name);
        return (skipped(StepId::Prerequisites, TITLE, why), warnings);
    };
    let (mut names, mut why, mut missing) = (Vec::new(), Vec::new(), false);
    let builds = job.chosen.driver.as_ref().is_some_and(|d| !d.is_kept());
    if builds {
        missing = true;
        names.extend(distribution.build_tools.iter().cloned());
        why.push("DKMS builds the kernel modules".to_owned());
        match target_kernel(job) {
            Ok(kernel) => {
                for package in kernel_packages(distribution, kernel, &job.facts.machine.arch) {
                    names.push(package);
                }
                why.push(format!("kernel {} needs its headers", kernel.release));
                if let Some(gcc) = side_compiler(distribution, kernel, job.facts.gcc.as_deref()) {
                    why.push(format!("kernel {} was built with {gcc}", kernel.release));
                    names.push(gcc);
                }
            }
            Err(warning) => warnings.push(warning),
        }
    }
    if let Some(cuda) = &job.chosen.cuda {
        if job.facts.gcc.is_none() && job.has_component("cuda_nvcc") {
            missing = true;
            names.extend(distribution.build_tools.iter().filter(|p| *p != "dkms").cloned());
            why.push("nvcc needs a host compiler".to_owned());
        }
        if let (Some(major), Some(pattern)) = (cuda.side_gcc, &distribution.gcc_package) {
            missing |= !cuda.kept;
            names.push(pattern.replace("{major}", &major.to_string()));
            why.push(format!("nvcc of CUDA {} takes gcc {major} at most", cuda.release.version));
        }
    }
    names.sort();
    names.dedup();
    if names.is_empty() {
        return (step(StepId::Prerequisites, TITLE, "everything they need is there", Vec::new()), warnings);
    }
    let manager = distribution.package_manager;
    let operation = Operation::Packages(Packages::to_install(manager, names));
    let mut acts = vec![Act { operation, satisfied: !missing }];
    let unfinished = &job.facts.unfinished_packages;
    if missing && !unfinished.is_empty() && manager == PackageManager::Apt {
        why.insert(
            0,
            format!("dpkg was cut off from {}, and installs nothing before it has finished", unfinished.join(", ")),
        );
        acts.insert(0, Act::needed(packages::finish()));
    }
    (step(StepId::Prerequisites, TITLE, why.join("; "), acts), warnings)
}

/// The kernel to build for, or why there is none to be seen.
fn target_kernel<'a>(job: &'a Job) -> Result<&'a Kernel, Warning> {
    let release = job.facts.kernel().unwrap_or("that will run");
    job.facts.kernels.installed.iter().find(|k| k.release == release).ok_or_else(|| Warning {
        check: "GS105".to_owned(),
        text: format!(
            "kernel {release} has no modules below /lib/modules, so it is not one of {}'s packages: its headers must come \
             from whoever built it, before apply",
            job.facts.os.name
        ),
    })
}

/// The headers of a kernel where they are not there, and what brings those of the kernels that come after it.
pub fn kernel_packages(distribution: &Distribution, kernel: &Kernel, arch: &str) -> Vec<String> {
    let release = &kernel.release;
    let exact = distribution.headers.iter().filter(|_| !kernel.headers).map(|p| p.replace("{release}", release));
    let fits = |kernel: &str, of: &Option<String>| release.ends_with(kernel) && of.as_deref().is_none_or(|a| a == arch);
    // The longest ending wins: -cloud-amd64 before -amd64 before none.
    let meta = distribution.header_metas.iter().filter(|m| fits(&m.kernel, &m.arch)).max_by_key(|m| m.kernel.len());
    exact.chain(meta.map(|m| m.package.clone())).collect()
}

/// `gcc-12` where the kernel was built with that and the host's default is another.
fn side_compiler(distribution: &Distribution, kernel: &Kernel, default: Option<&str>) -> Option<String> {
    let built = kernel.gcc_major()?.to_string();
    let pattern = distribution.gcc_package.as_ref()?;
    (default.unwrap_or_default().split('.').next()? != built).then(|| pattern.replace("{major}", &built))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debian() -> Distribution {
        serde_json::from_value(serde_json::json!({
            "id": "debian", "version": "12", "name": "Debian 12", "package_manager": "apt",
            "initramfs": "update-initramfs", "headers": ["linux-headers-{release}"],
            "header_metas": [{"kernel": "-amd64", "package": "linux-headers-amd64"},
                             {"kernel": "-cloud-amd64", "package": "linux-headers-cloud-amd64"}],
            "build_tools": ["dkms"], "gcc_package": "gcc-{major}", "sources": ["test"]
        }))
        .expect("valid")
    }

    fn kernel(release: &str, compiler: &str, headers: bool) -> Kernel {
        Kernel {
            release: release.into(),
            headers,
            compiler: Some(compiler.into()),
            nvidia_module: None,
            initramfs: None,
        }
    }

    #[test]
    fn headers_follow_the_kernels_flavour() {
        let cloud = kernel("6.1.0-25-cloud-amd64", "gcc-12 (Debian 12.2.0-14) 12.2.0", false);
        assert_eq!(
            kernel_packages(&debian(), &cloud, "x86_64"),
            ["linux-headers-6.1.0-25-cloud-amd64", "linux-headers-cloud-amd64"]
        );
        let plain = kernel("6.1.0-25-amd64", "gcc-12 (Debian 12.2.0-14) 12.2.0", true);
        assert_eq!(kernel_packages(&debian(), &plain, "x86_64"), ["linux-headers-amd64"]);
    }

    #[test]
    fn another_compiler_than_the_kernels_is_told() {
        for (compiler, default, want) in [
            ("gcc-12 (Debian 12.2.0-14) 12.2.0", "12.2.0", None),
            ("x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0", "11.4.0", Some("gcc-12")),
            ("gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)", "11.5.0", None),
            ("Debian clang version 16.0.6", "12.2.0", None),
        ] {
            let kernel = kernel("6.1.0-25-amd64", compiler, true);
            assert_eq!(side_compiler(&debian(), &kernel, Some(default)).as_deref(), want, "{compiler}");
        }
    }
}
