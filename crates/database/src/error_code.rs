//! The error numbers of CUDA and of NVIDIA's libraries: the rows of `explain/errors.yaml`. They are
//! no part of the compatibility database: only `explain` reads them.

use crate::yaml;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// An interface with numbered errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// CUDA's runtime and driver, which share their numbers since CUDA 11.
    Cuda,
    /// The management library behind `nvidia-smi`.
    Nvml,
    /// cuDNN 9.
    Cudnn,
    Cublas,
    Nccl,
}

impl Api {
    /// All of them; where a number alone is given, the first one counts.
    pub(crate) const ALL: [Self; 5] = [
        Self::Cuda,
        Self::Nvml,
        Self::Cudnn,
        Self::Cublas,
        Self::Nccl,
    ];

    /// As people write it, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Nvml => "nvml",
            Self::Cudnn => "cudnn",
            Self::Cublas => "cublas",
            Self::Nccl => "nccl",
        }
    }

    /// Its own spelling.
    pub fn title(self) -> &'static str {
        match self {
            Self::Cuda => "CUDA",
            Self::Nvml => "NVML",
            Self::Cudnn => "cuDNN",
            Self::Cublas => "cuBLAS",
            Self::Nccl => "NCCL",
        }
    }

    /// NVIDIA's documentation of its errors.
    pub fn source(self) -> &'static str {
        match self {
            Self::Cuda => "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
            Self::Nvml => "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",
            Self::Cudnn => {
                "https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html"
            }
            Self::Cublas => "https://docs.nvidia.com/cuda/cublas/",
            Self::Nccl => {
                "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/types.html"
            }
        }
    }
}

/// An error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorCode {
    /// Whose error it is.
    pub api: Api,
    /// Its number.
    pub code: u32,
    /// Its names in the headers; of CUDA's, the runtime's first.
    pub names: Vec<String>,
    /// Its own message: what `cudaGetErrorString` returns.
    #[serde(default)]
    pub text: Option<String>,
    /// What it means and what usually causes it, in sentences.
    pub means: String,
    /// What to do, in sentences.
    #[serde(default, rename = "do")]
    pub remedy: Option<String>,
    /// Commands to paste.
    #[serde(default)]
    pub run: Vec<String>,
    /// Names of related subjects.
    #[serde(default)]
    pub see: Vec<String>,
}

impl ErrorCode {
    /// Whether it says that nothing failed.
    pub fn is_success(&self) -> bool {
        self.code == 0
    }

    /// Its names, and for NVML the name of its class in Python: `NVMLError_DriverNotLoaded` is
    /// `NVML_ERROR_DRIVER_NOT_LOADED`.
    pub fn spellings(&self) -> impl Iterator<Item = String> {
        let classes = self.names.iter().filter_map(move |name| {
            let words = name
                .strip_prefix("NVML_ERROR_")?
                .split('_')
                .map(capitalised);
            Some(format!("NVMLError_{}", words.collect::<String>()))
        });
        self.names.iter().cloned().chain(classes)
    }
}

fn capitalised(word: &str) -> String {
    let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
    first.to_owned() + &rest.to_ascii_lowercase()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    errors: Vec<ErrorCode>,
}

/// The errors of the file's text.
///
/// # Errors
///
/// If it does not have the shape of errors, a number or a name is there twice, or an error has no
/// name.
pub fn parse(text: &str) -> Result<Vec<ErrorCode>, String> {
    let File { errors } = yaml::read(text).map_err(|e| e.to_string())?;
    let (mut numbers, mut names) = (BTreeSet::new(), BTreeSet::new());
    let mut wrong = String::new();
    for error in &errors {
        let called = format!("{} error {}", error.api.title(), error.code);
        if !numbers.insert((error.api, error.code)) {
            wrong += &format!("{called} is there twice\n");
        }
        if error.names.is_empty() {
            wrong += &format!("{called} has no name\n");
        }
        for name in error
            .names
            .iter()
            .filter(|name| !names.insert(name.to_ascii_lowercase()))
        {
            wrong += &format!("two errors are called {name}\n");
        }
    }
    if wrong.is_empty() {
        Ok(errors)
    } else {
        Err(wrong)
    }
}

/// The error of a name, or of an interface and a number: `cudaErrorNoDevice`, `cuda error 100`,
/// `nvml 18`, `error 802`. Case makes no difference.
pub fn find<'a>(errors: &'a [ErrorCode], name: &str) -> Option<&'a ErrorCode> {
    let words: Vec<_> = name
        .split([' ', '(', ')', ':', ','])
        .filter(|word| !word.is_empty())
        .collect();
    match words[..] {
        [name] => errors
            .iter()
            .find(|error| error.spellings().any(|n| n.eq_ignore_ascii_case(name))),
        [word, code] if is_error(word) => Api::ALL
            .into_iter()
            .find_map(|api| numbered(errors, api, code)),
        // `cuda 12` and `nccl 2` are versions; NVML and cuBLAS have none of their own here.
        [word, code] => match api_named(word)? {
            found @ (Api::Nvml | Api::Cublas) => numbered(errors, found, code),
            // No version of cuDNN has such a number.
            Api::Cudnn if code.len() == CUDNN_DIGITS => numbered(errors, Api::Cudnn, code),
            _ => None,
        },
        [word, middle, code] if is_error(middle) => numbered(errors, api_named(word)?, code),
        _ => None,
    }
}

fn numbered<'a>(errors: &'a [ErrorCode], api: Api, code: &str) -> Option<&'a ErrorCode> {
    let code: u32 = code.parse().ok()?;
    errors
        .iter()
        .find(|error| error.api == api && error.code == code)
}

fn api_named(word: &str) -> Option<Api> {
    Api::ALL
        .into_iter()
        .find(|api| api.as_str().eq_ignore_ascii_case(word))
}

/// The digits of cuDNN's errors.
const CUDNN_DIGITS: usize = 4;

fn is_error(word: &str) -> bool {
    ["error", "status", "code", "result", "errno"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "errors:\n  - {api: cuda, code: 100, names: [cudaErrorNoDevice, CUDA_ERROR_NO_DEVICE], means: None.}\n  \
                        - {api: nvml, code: 18, names: [NVML_ERROR_X_OR_LIB], means: Other.}\n  \
                        - {api: nccl, code: 2, names: [ncclSystemError], means: System.}\n";

    #[test]
    fn an_error_has_names_and_a_number() {
        let all = parse(TEXT).expect("it is sound");
        for (name, code) in [
            ("cudaerrornodevice", 100),
            ("CUDA_ERROR_NO_DEVICE", 100),
            ("cuda error 100", 100),
            ("CUDA status: 100", 100),
            ("error 100", 100),
            ("nvml 18", 18),
            ("NVMLError_XOrLib", 18),
            ("NVML: 18", 18),
            ("nvml error 18", 18),
            ("error 18", 18),
            ("nccl error 2", 2),
        ] {
            assert_eq!(find(&all, name).map(|e| e.code), Some(code), "{name}");
        }
        for name in [
            "cuda 100",
            "nccl 2",
            "error",
            "cuda error",
            "xid 18",
            "cuda error -1",
            "error 5000000000",
        ] {
            assert_eq!(find(&all, name), None, "{name}");
        }
    }

    #[test]
    fn rows_that_contradict_each_other_are_faults() {
        for (from, to, problem) in [
            (
                "code: 18",
                "code: x",
                "expected a number from 0 on, found \"x\"",
            ),
            ("NVML_ERROR_X_OR_LIB", "cudaerrornodevice", "two errors"),
            ("api: nccl, code: 2", "api: nvml, code: 18", "there twice"),
            ("names: [ncclSystemError]", "names: []", "no name"),
        ] {
            let e = parse(&TEXT.replace(from, to)).expect_err("it is wrong");
            assert!(e.contains(problem), "{to}: {e}");
        }
    }
}
