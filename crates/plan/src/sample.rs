//! Plans for tests.

use crate::{Act, Plan, State, plan};
use gpusetup_data::embedded;
use gpusetup_database::version::Want;
use gpusetup_host::{GpuSource, ProbeOptions, probe};
use gpusetup_operation::Operation;
use gpusetup_resolve::Request;
use gpusetup_system::System;

/// A plan of one step with these operations, for a small tree.
#[allow(clippy::expect_used)]
pub fn plan_of(operations: Vec<Operation>) -> Plan {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let on = System::at(dir.path());
    on.make_directories("/etc", 0o755).expect("made");
    on.write("/etc/os-release", b"ID=debian\nVERSION_ID=12\n", 0o644)
        .expect("written");
    let gpus = GpuSource::Lspci("17:00.0 3D controller [0302]: X [10de:20b0]".to_owned());
    let look = ProbeOptions {
        prefix: "/usr/local".into(),
        cache: "/var/cache/gpusetup".into(),
        gpus,
    };
    let database = embedded();
    let mut facts = probe(&on, &database, &look).expect("a host");
    facts.machine.arch = "x86_64".to_owned();
    let request = Request {
        driver: Want::Nothing,
        ..Request::default_on("2026-11-20")
    };
    let mut plan = plan(&database, facts, request).expect("a toolkit fits");
    plan.steps.truncate(1);
    plan.steps[0].state = State::Needed;
    plan.steps[0].operations = operations
        .into_iter()
        .map(|operation| Act {
            operation,
            satisfied: false,
        })
        .collect();
    plan
}
