//! Versions and ranges, as users type them: what is read and written reads the same again.
#![no_main]

use gpusetup::version::{ComputeCapability, CudaVersion, AddOnVersion, DriverVersion, Want};
use libfuzzer_sys::fuzz_target;
use std::fmt::{Debug, Display};
use std::str::FromStr;

fn there_and_back<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let again = value.to_string().parse::<T>();
        assert!(again.is_ok_and(|again| again == value), "{text:?}");
    }
}

fuzz_target!(|text: &str| {
    there_and_back::<ComputeCapability>(text);
    there_and_back::<DriverVersion>(text);
    there_and_back::<CudaVersion>(text);
    there_and_back::<AddOnVersion>(text);
    let _ = text.parse::<Want<DriverVersion>>();
    let _ = text.parse::<Want<CudaVersion>>();
    let _ = text.parse::<Want<AddOnVersion>>();
});
