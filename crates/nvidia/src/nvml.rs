//! NVML, the driver's management library: what it reports on the driver and on each GPU, and what it
//! sets.

pub mod codes;
mod functions;
mod library;
mod mig;
mod read;
mod settings;
mod state;
mod survey;
pub mod table;

pub(crate) use read::table as read_table;
pub(crate) use state::answer as state;
pub use state::{Clocks, DeviceState, Reading};
pub(crate) use survey::answer as surveyed;
pub use survey::{DeviceReadings, StateReading, survey};

use super::Refused;
use super::calling::calling;
use library::{Library, NvmlError};
use table::ComputeMode;

pub(crate) use mig::read as read_mig;
pub use mig::smi;
pub use mig::{MigGpu, MigHost, MigInstance, MigMode, MigPlace, MigProfileInfo};

fn opened(library: &str) -> Result<Library, Refused> {
    asked("nvmlInit_v2", || Library::open(library))
}

fn asked<T>(function: &str, ask: impl FnOnce() -> Result<T, NvmlError>) -> Result<T, Refused> {
    calling(function);
    ask().map_err(|e| refused(function, &e))
}

fn refused(call: &str, e: &NvmlError) -> Refused {
    // A missing or wrong library has no error code.
    let code = e.code().and_then(|code| i32::try_from(code).ok());
    Refused {
        call: call.to_owned(),
        code,
        says: e.to_string(),
    }
}

/// An error after which nothing more can be read: of a faulty GPU, or of a library of another
/// driver.
fn is_fault(refused: &Refused) -> bool {
    refused.is_of_faulty_gpu() || refused.code == Some(codes::OTHER_VERSION)
}

fn compute_mode(mode: u32) -> Option<ComputeMode> {
    match mode {
        0 => Some(ComputeMode::Default),
        // The modes for a thread, as in old drivers, and for a process.
        1 | 3 => Some(ComputeMode::Exclusive),
        2 => Some(ComputeMode::Prohibited),
        _ => None,
    }
}
