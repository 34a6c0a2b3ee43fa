//! A file of facts, which has only a part of the evidence.

use super::*;
use crate::evidence::EvidenceSources;
use crate::evidence::NOT_IN_FACTS;

fn of_facts(facts: Facts) -> Seen {
    Seen::from_facts(facts, Path::new("/usr/local"), &EvidenceSources::default())
}

/// The same of the facts alone.
fn found_in_facts(change: impl FnOnce(&mut Facts)) -> Vec<String> {
    let mut facts = sound().facts;
    change(&mut facts);
    illnesses(&examined(of_facts(facts)))
}

#[test]
fn facts_alone_show_what_they_show_and_nothing_is_concluded_from_the_rest() {
    assert_eq!(found_in_facts(|_| ()), [""; 0]);
    let report = examined(of_facts(sound().facts));
    for id in [
        CheckId::GS404,
        CheckId::GS803,
        CheckId::GS902,
        CheckId::GS909,
    ] {
        let found = report
            .checks
            .iter()
            .find(|f| f.id == id)
            .and_then(|f| f.cause.as_deref());
        assert_eq!(
            found,
            Some(NOT_IN_FACTS),
            "{id} must not say that there is nothing"
        );
    }
    let dropped = |f: &mut Facts| {
        f.gpus[0].pci_id = "10de:15f9".into();
        f.driver.as_mut().expect("a driver").version = "595.58.03".parse().expect("a version");
        f.loaded_modules = Some(Vec::new());
        f.kernels
            .installed
            .iter_mut()
            .for_each(|k| k.nvidia_module = "595.58.03".parse().ok());
    };
    assert_eq!(
        found_in_facts(dropped),
        ["GS503 fail", "GS504 fail < GS503", "GS501 fail < GS503"]
    );
    assert_eq!(
        found_in_facts(|f| f.kernels.installed[1].nvidia_module = None),
        ["GS104 fail"]
    );
    let nouveau = |f: &mut Facts| {
        f.gpus[0].bound_to = Some("nouveau".into());
        f.loaded_modules = Some(Vec::new());
    };
    assert_eq!(
        found_in_facts(nouveau),
        ["GS201 fail", "GS501 fail < GS201"]
    );
    assert_eq!(
        found_in_facts(|f| f.cudnn[0].files.retain(|f| f.link.is_none())),
        ["GS702 fail"]
    );
    assert_eq!(
        found_in_facts(|f| f.secure_boot = SecureBoot::Enabled),
        [""; 0],
        "who signed is not in them"
    );
    let switch = |f: &mut Facts| {
        let switch = json!({"address": "0000:20:00.0", "pci_id": "10de:1af1", "name": "NVSwitch"});
        f.nvswitches = vec![serde_json::from_value(switch).expect("a switch")];
    };
    assert_eq!(
        found_in_facts(switch),
        [""; 0],
        "nor whether Fabric Manager runs"
    );
    // What would be a finding on the host itself.
    let much = |f: &mut Facts| {
        f.kernels.installed[1].headers = false;
        f.gcc = Some("15.2.0".into());
        f.loader_cache = None;
        f.nvcc = None;
        f.paths.clear();
    };
    assert_eq!(found_in_facts(much), [""; 0]);
}
