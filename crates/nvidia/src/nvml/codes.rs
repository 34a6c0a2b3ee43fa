//! NVML's error codes: <https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html>.

macro_rules! codes {
    ($($(#[doc = $text:literal])+ $name:ident = $code:literal,)+) => {
        $($(#[doc = $text])+ pub const $name: i32 = $code;)+
    };
}

codes! {
    /// An argument is not valid.
    INVALID_ARGUMENT = 2,
    /// The GPU lacks the feature.
    NOT_SUPPORTED = 3,
    /// The user may not do that.
    NO_PERMISSION = 4,
    /// There is no such GPU, or no such thing on it.
    NOT_FOUND = 6,
    /// Power cables are not attached.
    NO_POWER = 8,
    /// The driver is not loaded.
    NOT_LOADED = 9,
    /// The kernel does not get the GPU's interrupts.
    NO_INTERRUPTS = 11,
    /// The library lacks the function.
    NO_FUNCTION = 13,
    /// The infoROM is damaged.
    BAD_INFOROM = 14,
    /// The GPU fell off the bus.
    GPU_LOST = 15,
    /// The GPU must be reset first.
    RESET_REQUIRED = 16,
    /// The operating system or a cgroup blocks the GPU.
    BLOCKED_BY_SYSTEM = 17,
    /// The library has another version than the loaded driver.
    OTHER_VERSION = 18,
    /// The GPU is in use.
    IN_USE = 19,
    /// There is no data.
    NO_DATA = 21,
    /// The driver failed for a reason that it does not give.
    UNKNOWN = 999,
}
