//! Whether the installed driver works only after a reboot.

use gpusetup_host::{Facts, LoadedModule, RIVALS};

/// Why the installed driver needs a reboot; none if it does not, or for a tree, where nothing runs.
pub fn why_reboot(facts: &Facts) -> Option<String> {
    let installed = facts.driver.as_ref()?.version;
    let loaded = facts.loaded_modules.as_ref()?;
    let next = facts.kernels.next_boot.as_ref()?;
    let booting = facts
        .kernels
        .installed
        .iter()
        .find(|kernel| kernel.release == *next)?;
    if facts.gpus.iter().all(|gpu| gpu.assumed) || booting.nvidia_module != Some(installed) {
        return None;
    }
    match loaded.iter().find(|module| module.name == "nvidia") {
        Some(LoadedModule {
            version: Some(version),
            ..
        }) if *version != installed.to_string() => Some(format!(
            "driver {installed} is installed, but the kernel still runs the nvidia module {version}"
        )),
        Some(_) => None,
        None => {
            let rival = loaded
                .iter()
                .find(|module| RIVALS.contains(&module.name.as_str()))?;
            Some(format!(
                "driver {installed} is installed, but {} still uses the GPU",
                rival.name
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_host::sample;

    /// The reason on a host with driver 580.95.05 whose kernel has these modules loaded.
    fn why(modules: &[(&str, Option<&str>)]) -> Option<String> {
        let module = |(name, version): &(&str, Option<&str>)| LoadedModule {
            name: (*name).to_owned(),
            version: version.map(str::to_owned),
        };
        why_reboot(&Facts {
            loaded_modules: Some(modules.iter().map(module).collect()),
            ..sample::facts()
        })
    }

    #[test]
    fn another_module_in_the_kernel_needs_a_reboot() {
        assert_eq!(why(&[("nvidia", Some("580.95.05"))]), None);
        assert_eq!(why(&[]), None, "it is loaded on demand");
        assert!(why(&[("nouveau", None)]).is_some_and(|why| why.contains("nouveau still uses")));
        assert!(
            why(&[("nvidia", Some("570.86.15"))])
                .is_some_and(|why| why.contains("module 570.86.15"))
        );
        assert_eq!(
            why(&[("nouveau", None), ("nvidia", Some("580.95.05"))]),
            None,
            "nouveau has another GPU"
        );
    }

    #[test]
    fn a_reboot_that_changes_nothing_is_not_asked_for() {
        let nouveau = Some(vec![LoadedModule {
            name: "nouveau".into(),
            version: None,
        }]);
        let mut facts = Facts {
            loaded_modules: nouveau.clone(),
            ..sample::facts()
        };
        facts
            .kernels
            .installed
            .iter_mut()
            .for_each(|kernel| kernel.nvidia_module = None);
        assert_eq!(why_reboot(&facts), None, "no kernel has the module");
        let facts = Facts {
            loaded_modules: nouveau.clone(),
            driver: None,
            ..sample::facts()
        };
        assert_eq!(why_reboot(&facts), None, "no driver");
        let facts = Facts {
            loaded_modules: None,
            ..sample::facts()
        };
        assert_eq!(why_reboot(&facts), None, "nothing runs in a tree");
    }
}
