//! Steps of plans that tests make.

use gpusetup::operation::Operation;
use gpusetup::plan::{Act, State, Step, StepId};

/// A step of these operations.
pub fn step(id: StepId, operations: Vec<Operation>) -> Step {
    Step {
        id,
        title: id.to_string(),
        why: "the test wants it".to_owned(),
        state: State::Needed,
        operations: operations
            .into_iter()
            .map(|operation| Act {
                operation,
                satisfied: false,
            })
            .collect(),
        download_bytes: Some(0),
        disk_bytes: Some(0),
        estimate_seconds: None,
        room: Vec::new(),
        licensed: false,
        idle_driver: false,
    }
}
