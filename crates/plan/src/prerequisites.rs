//! The packages needed to build kernel modules and compile CUDA programs: headers of the kernel
//! that will run, the compiler that built it, DKMS, and a host compiler that nvcc supports.

use super::context::{StepContext, file_act, skipped, step};
use super::{Act, Step, StepId, Warning};
use gpusetup_database::compat::{
    CudaRelease, Database, Distribution, ExtraRepository, KernelToolset, PackageRepository,
};
use gpusetup_host::{Facts, Kernel, MachineKind, kernel_headers, offers_headers};
use gpusetup_operation::{Operation, Packages, WriteFile, packages};
use gpusetup_resolve::{ChosenToolkit, Conflict, distributions_gcc};
use gpusetup_text::ids::CheckId;
use gpusetup_text::paths::DKMS_COMPILER;

const TITLE: &str = "Install the build tools";

/// The step that installs them, and warnings.
pub(crate) fn prerequisites(context: &StepContext, database: &Database) -> (Step, Vec<Warning>) {
    let mut warnings = Vec::new();
    let Some(distribution) = context.distribution else {
        let why = gpusetup_causes::unknown_packages(&context.facts.os.name);
        warnings.extend(by_hand(context));
        return (skipped(StepId::Prerequisites, TITLE, why), warnings);
    };
    warnings.extend(named_as(context, distribution));
    let (mut names, mut why, mut missing) = (Vec::new(), Vec::new(), false);
    let mut compiler = None;
    if builds(context) {
        missing = true;
        names.extend(distribution.build_tools.iter().cloned());
        why.push("DKMS builds the kernel modules".to_owned());
        match target_kernel(context) {
            Ok(kernel) => {
                let (packages, reasons) = for_kernel(context, distribution, kernel);
                names.extend(packages);
                why.extend(reasons);
                let toolset = distribution.toolset_of(&kernel.release);
                compiler = toolset.map(|toolset| dkms_compiler(context, toolset));
            }
            Err(warning) => warnings.push(warning),
        }
    }
    for cuda in context
        .toolkits()
        .filter(|of| of.has_nvcc())
        .filter_map(|of| of.chosen.cuda.as_ref())
    {
        let (compiler, reasons) = host_compiler(distribution, context.facts, cuda);
        missing |= !compiler.is_empty();
        names.extend(compiler);
        let reasons: Vec<_> = reasons
            .into_iter()
            .filter(|reason| !why.contains(reason))
            .collect();
        why.extend(reasons);
    }
    if let Some((package, reason)) = installers_need(distribution, context) {
        missing = true;
        names.push(package);
        why.push(reason.to_owned());
    }
    names.sort();
    names.dedup();
    if missing {
        let added = context
            .chosen
            .driver
            .as_ref()
            .and_then(|driver| driver.install.added());
        let of_tools = added_for_tools(context, database);
        let names: Vec<_> = names
            .iter()
            .filter(|name| !added.is_some_and(|added| added.packages.contains(name)))
            .filter(|name| {
                !of_tools
                    .iter()
                    .any(|(extra, _)| extra.packages.contains(name))
            })
            .cloned()
            .collect();
        warnings.extend(unavailable(context.facts, distribution, &names));
    }
    let manager = distribution.package_manager;
    let mut acts = Vec::new();
    let unfinished = &context.facts.unfinished_packages;
    if let Some(finish) = packages::finish(manager).filter(|_| !unfinished.is_empty()) {
        why.insert(0, gpusetup_causes::cut_off(unfinished));
        acts.push(Act::needed(finish));
    }
    if !names.is_empty() {
        let operation = Operation::Packages(Packages::to_install(manager, names));
        acts.push(Act {
            operation,
            satisfied: !missing,
        });
    }
    acts.extend(compiler);
    if acts.is_empty() {
        why.push("everything is already installed".to_owned());
    }
    (
        step(StepId::Prerequisites, TITLE, why.join("; "), acts),
        warnings,
    )
}

/// The packages that building modules for a kernel needs, and why.
fn for_kernel(
    context: &StepContext,
    distribution: &Distribution,
    kernel: &Kernel,
) -> (Vec<String>, Vec<String>) {
    let arch = &context.facts.machine.arch;
    let mut names = kernel.packages(distribution, arch);
    let mut why = vec![format!("kernel {} needs its headers", kernel.release)];
    let modules: Vec<_> = distribution.modules_of(&kernel.release, arch).collect();
    if !modules.is_empty() {
        why.push("the driver needs modules that are not in the kernel's main package".to_owned());
        names.extend(modules);
    }
    if let Some(gcc) = side_compiler(distribution, kernel, context.facts.gcc.as_deref()) {
        why.push(format!("kernel {} was built with {gcc}", kernel.release));
        names.push(gcc);
    }
    if let Some(toolset) = distribution.toolset_of(&kernel.release) {
        why.push(format!(
            "kernel {} was built with the compiler in {}, which DKMS is told to use",
            kernel.release, toolset.package
        ));
        names.push(toolset.package.clone());
    }
    (names, why)
}

/// Has DKMS build with the compiler of a toolset.
fn dkms_compiler(context: &StepContext, toolset: &KernelToolset) -> Act {
    let file = WriteFile {
        path: DKMS_COMPILER.into(),
        content: format!(
            "# Written by gpusetup.\nbuild_environment=\"{}\"\n",
            toolset.environment
        ),
        mode: 0o644,
        merged_from: None,
    };
    file_act(context.facts, file.into())
}

/// The missing packages of a host compiler for nvcc, and why they are needed.
fn host_compiler(
    distribution: &Distribution,
    facts: &Facts,
    cuda: &ChosenToolkit,
) -> (Vec<String>, Vec<String>) {
    let (mut names, mut why) = (Vec::new(), Vec::new());
    if facts.gcc.is_none() {
        names.extend(
            distribution
                .build_tools
                .iter()
                .filter(|p| *p != "dkms")
                .cloned(),
        );
        why.push("nvcc needs a host compiler".to_owned());
    }
    // nvcc preprocesses a file with the default compiler before it looks for an older one next to
    // its cicc.
    if facts.default_compiler().is_none_or(|c| c.gxx.is_none()) {
        names.extend(distribution.gxx.clone());
        // A changed default gcc needs its own C++ compiler.
        let others = facts
            .gcc_major()
            .filter(|have| distributions_gcc(Some(distribution), facts) != Some(*have));
        names.extend(
            others
                .and_then(|have| distribution.compiler_packages(have))
                .map(|[_, gxx]| gxx),
        );
        if facts.gcc.is_some() {
            why.push("nvcc compiles C++, but the installed gcc has no C++ compiler".to_owned());
        }
    }
    if let Some(side) = cuda
        .side_gcc
        .filter(|side| facts.side_compiler(*side).is_none())
    {
        names.extend(distribution.compiler_packages(side).into_iter().flatten());
        let most = cuda.release.gcc_max.unwrap_or(side);
        why.push(format!(
            "nvcc of CUDA {} supports gcc up to {most}",
            cuda.release.version
        ));
    }
    (names, why)
}

/// A warning if the release is not in the database, so that the package names of a known release
/// are used.
fn named_as(context: &StepContext, distribution: &Distribution) -> Option<Warning> {
    let (os, is_relative) = (
        &context.facts.os,
        !context.facts.os.id.eq_ignore_ascii_case(&distribution.id),
    );
    let known = distribution
        .named_as
        .as_ref()
        .or(is_relative.then_some(&distribution.name))?;
    let name = &os.name;
    let text = format!("the database does not know {name}: the package names of {known} are used");
    Some(Warning::new(CheckId::GS410, text))
}

/// Warnings about the packages of an engine that the plan installs, if their repository is not
/// enabled.
pub(crate) fn of_engine(context: &StepContext) -> Vec<Warning> {
    let asked = context
        .containers
        .as_ref()
        .and_then(|containers| containers.asked());
    let packages = asked
        .filter(|asked| {
            asked.found.is_none() && context.facts.machine.kind != MachineKind::Container
        })
        .and_then(|asked| asked.packages);
    match (context.distribution, packages) {
        (Some(distribution), Some(packages)) => {
            unavailable(context.facts, distribution, &packages.names)
        }
        _ => Vec::new(),
    }
}

/// Warnings about packages that the host's repositories do not offer, as far as known: those of a
/// repository that is not enabled, and the headers of an old kernel.
fn unavailable(facts: &Facts, distribution: &Distribution, names: &[String]) -> Vec<Warning> {
    let manager = distribution.package_manager;
    let mut warnings = Vec::new();
    for extra in &distribution.extra_repositories {
        let wanted = lacking(facts, extra, names);
        if !wanted.is_empty() {
            let enable = extra
                .enable
                .replace("{version}", &facts.os.version)
                .replace("{arch}", &facts.machine.arch);
            let (name, wanted) = (&extra.name, wanted.join(", "));
            let text =
                format!("{wanted} is in {name}, which is not enabled on this host: {enable}");
            warnings.push(Warning::new(CheckId::GS411, text));
        }
    }
    let (mut gone, mut unsure) = (Vec::new(), Vec::new());
    let headers = kernel_headers(facts, distribution).into_iter();
    for name in headers.filter(|name| names.contains(name)) {
        match offers_headers(facts, manager, &name) {
            Some(false) => gone.push(name),
            None => unsure.push(name),
            Some(true) => {}
        }
    }
    if !gone.is_empty() {
        let text = gpusetup_causes::no_headers(&gone.join(", "));
        warnings.push(Warning::new(CheckId::GS101, text));
    }
    if !unsure.is_empty() && distribution.drops_old_headers {
        let text = gpusetup_causes::old_headers(&distribution.name, manager, &unsure.join(", "));
        warnings.push(Warning::new(CheckId::GS101, text));
    }
    warnings
}

/// Those of the packages that only this repository has, which is not enabled.
fn lacking(facts: &Facts, extra: &ExtraRepository, names: &[String]) -> Vec<String> {
    if facts.has_enabled(&extra.seen_as) {
        return Vec::new();
    }
    let offered = facts.offered.as_ref();
    extra
        .packages
        .iter()
        .filter(|name| names.contains(name))
        .filter(|name| offered.is_none_or(|all| !all.contains_key(*name)))
        .cloned()
        .collect()
}

/// The repositories that the plan adds for what builds kernel modules: EPEL, for DKMS.
pub(crate) fn added_for_tools<'a>(
    context: &'a StepContext,
    database: &'a Database,
) -> Vec<(&'a ExtraRepository, &'a PackageRepository)> {
    let facts = context.facts;
    let wanted = builds(context) && !context.request.no_epel;
    let Some(distribution) = context.distribution.filter(|_| wanted) else {
        return Vec::new();
    };
    let extra = distribution.extra_repositories.iter();
    extra
        .filter(|extra| !lacking(facts, extra, &distribution.build_tools).is_empty())
        .filter_map(|extra| Some((extra, database.package_repository(extra.adds.as_deref()?)?)))
        .filter(|(_, repository)| repository.archs.contains_key(&facts.machine.arch))
        .collect()
}

/// The package that the installer in CUDA's runfiles needs, and why, if a runfile is used.
fn installers_need(
    distribution: &Distribution,
    context: &StepContext,
) -> Option<(String, &'static str)> {
    if runs_installer(context, |release| !release.installer_loads_libxml2()) {
        let why = "the installer in CUDA's runfile is a Perl program";
        return Some(("perl".to_owned(), why));
    }
    let runs = runs_installer(context, CudaRelease::installer_loads_libxml2);
    let library = distribution.libxml2.clone()?;
    let why = "the installer in CUDA's runfile needs libxml2.so.2";
    (runs && context.facts.libxml2 == Some(false)).then_some((library, why))
}

/// Whether such a release of CUDA is installed from its runfile.
fn runs_installer(context: &StepContext, is_meant: fn(&CudaRelease) -> bool) -> bool {
    context.toolkits().any(|of| {
        let cuda = of.chosen.cuda.as_ref();
        of.chosen.parts.is_empty()
            && cuda.is_some_and(|cuda| {
                !cuda.is_kept() && cuda.packages.is_none() && is_meant(cuda.release)
            })
    })
}

/// A warning about what the user must install, if the names of the packages are not known.
fn by_hand(context: &StepContext) -> Option<Warning> {
    let mut needs = Vec::new();
    if builds(context) {
        needs.push("make, DKMS and the compiler that built the kernel".to_owned());
    }
    if context.has_nvcc() {
        needs.push("g++".to_owned());
    }
    let unknown = gpusetup_causes::unknown_packages(&context.facts.os.name);
    let text = format!("{unknown}: install {} before apply", needs.join(", "));
    (!needs.is_empty()).then(|| Warning::new(CheckId::GS410, text))
}

/// Refuses a plan that cannot be carried out: build tools are missing, and it is not known which
/// packages contain them.
pub(crate) fn not_without_tools(context: &StepContext) -> Result<(), Conflict> {
    if context.distribution.is_some() {
        return Ok(());
    }
    let facts = context.facts;
    let mut missing = Vec::new();
    let compiles = builds(context) || context.has_nvcc();
    if compiles && facts.gcc.is_none() {
        missing.push("gcc".to_owned());
    }
    // Facts without compilers come from an older gpusetup that did not look for them.
    let without_cxx = facts
        .default_compiler()
        .map_or(facts.gcc.is_none(), |c| c.gxx.is_none());
    if context.has_nvcc() && without_cxx {
        missing.push("g++".to_owned());
    }
    if let Some(kernel) = target_kernel(context)
        .ok()
        .filter(|kernel| builds(context) && !kernel.headers)
    {
        missing.push(format!("the headers of kernel {}", kernel.release));
    }
    if missing.is_empty() {
        return Ok(());
    }
    let (unknown, missing) = (
        gpusetup_causes::unknown_packages(&facts.os.name),
        missing.join(", "),
    );
    let sentence = format!("{unknown}, and these are missing: {missing}");
    let also = if builds(context) {
        ", also make and DKMS, which gpusetup cannot detect here"
    } else {
        ""
    };
    Err(Conflict::blocked(CheckId::GS410, sentence)
        .hint(format!("install them{also}, then plan again")))
}

/// Whether the plan builds kernel modules.
fn builds(context: &StepContext) -> bool {
    context
        .chosen
        .driver
        .as_ref()
        .is_some_and(|d| !d.is_kept() && !d.install.is_signed())
}

/// The kernel to build for, or a warning if it was not found.
fn target_kernel<'a>(context: &'a StepContext) -> Result<&'a Kernel, Warning> {
    let Some(release) = context.facts.kernel() else {
        let text = "which kernel will run is not known: install its headers before apply";
        return Err(Warning::new(CheckId::GS105, text));
    };
    let mut installed = context.facts.kernels.installed.iter();
    installed.find(|k| k.release == release).ok_or_else(|| {
        let text = format!(
            "kernel {release} has no modules in /lib/modules, so it is not a kernel package of {}. Install its headers from \
             its supplier before apply",
            context.facts.os.name
        );
        Warning::new(CheckId::GS105, text)
    })
}

/// The compiler that the kernel was built with, if it is not the host's default: `gcc-12`.
fn side_compiler(
    distribution: &Distribution,
    kernel: &Kernel,
    default: Option<&str>,
) -> Option<String> {
    let built = kernel.gcc_major()?;
    let [gcc, _] = distribution.compiler_packages(built)?;
    (default.unwrap_or_default().split('.').next()? != built.to_string()).then_some(gcc)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debian() -> Distribution {
        serde_json::from_value(serde_json::json!({
            "id": "debian", "version": "12", "name": "Debian 12", "package_manager": "apt",
            "initramfs": "update-initramfs", "headers": ["linux-headers-{release}"],
            "header_metas": [{"kernel": "-amd64", "package": "linux-headers-amd64"},
                             {"kernel": "-cloud-amd64", "package": "linux-headers-cloud-amd64"},
                             {"kernel": "-generic", "series": "6.8", "package": "linux-headers-generic"},
                             {"kernel": "-generic", "package": "linux-headers-generic-hwe-24.04"}],
            "build_tools": ["dkms"], "gcc_package": "gcc-{major}", "gxx_package": "g++-{major}",
            "gccs": [11, 12], "sources": ["test"]
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
        let cloud = kernel(
            "6.1.0-25-cloud-amd64",
            "gcc-12 (Debian 12.2.0-14) 12.2.0",
            false,
        );
        assert_eq!(
            cloud.packages(&debian(), "x86_64"),
            [
                "linux-headers-6.1.0-25-cloud-amd64",
                "linux-headers-cloud-amd64"
            ]
        );
        let plain = kernel("6.1.0-25-amd64", "gcc-12 (Debian 12.2.0-14) 12.2.0", true);
        assert_eq!(plain.packages(&debian(), "x86_64"), ["linux-headers-amd64"]);
    }

    #[test]
    fn headers_follow_the_kernels_series() {
        let metas = |release: &str| kernel(release, "", true).packages(&debian(), "x86_64");
        assert_eq!(metas("6.8.0-71-generic"), ["linux-headers-generic"]);
        assert_eq!(
            metas("6.17.0-19-generic"),
            ["linux-headers-generic-hwe-24.04"]
        );
        assert_eq!(
            metas("6.80.0-1-generic"),
            ["linux-headers-generic-hwe-24.04"]
        );
    }

    #[test]
    fn another_compiler_than_the_kernels_is_told() {
        for (compiler, default, want) in [
            ("gcc-12 (Debian 12.2.0-14) 12.2.0", "12.2.0", None),
            (
                "x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0",
                "11.4.0",
                Some("gcc-12"),
            ),
            (
                "gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)",
                "11.5.0",
                None,
            ),
            ("gcc (GCC) 16.1.1 20260501 (Red Hat 16.1.1-1)", "", None),
            ("Debian clang version 16.0.6", "12.2.0", None),
        ] {
            let kernel = kernel("6.1.0-25-amd64", compiler, true);
            assert_eq!(
                side_compiler(&debian(), &kernel, Some(default)).as_deref(),
                want,
                "{compiler}"
            );
        }
    }
}
