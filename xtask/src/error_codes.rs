//! The error numbers of CUDA, NVML, cuDNN, cuBLAS and NCCL, from the enumerations in their headers.
//! The headers are in NVIDIA's wheels on PyPI.

use crate::{Comparison, Result, project, table};
use gpusetup_database::error_code::{self, Api, ErrorCode};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const TABLE: &str = "error-codes.tsv";

/// The names of errors begin with these, in these headers. Names of another form in the same header
/// belong to other enumerations.
const HEADERS: [(&str, Api, &[&str]); 6] = [
    ("driver_types.h", Api::Cuda, &["cudaSuccess", "cudaError"]),
    ("cuda.h", Api::Cuda, &["CUDA_SUCCESS", "CUDA_ERROR_"]),
    ("nvml.h", Api::Nvml, &["NVML_SUCCESS", "NVML_ERROR_"]),
    ("cudnn_graph.h", Api::Cudnn, &["CUDNN_STATUS_"]),
    ("cublas_api.h", Api::Cublas, &["CUBLAS_STATUS_"]),
    ("nccl.h", Api::Nccl, &[]),
];

/// The enumeration of NCCL's results: its members share no prefix of their own.
const NCCL_RESULTS: (&str, &str) = ("typedef enum { ncclSuccess", "} ncclResult_t");

/// Reads unpacked wheels, or folders with some of their headers.
pub fn record(wheels: &Path) -> Result<()> {
    let mut found: BTreeMap<(Api, u32), BTreeSet<String>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut texts = BTreeSet::new();
    let mut folders = vec![wheels.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name.starts_with("libcudart.so") {
                let library = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
                texts.extend(
                    ours()?
                        .into_iter()
                        .filter_map(|error| error.text)
                        .filter(|text| has(&library, text)),
                );
                continue;
            }
            let Some((_, api, prefixes)) = HEADERS.iter().find(|(header, _, _)| *header == name)
            else {
                continue;
            };
            seen.insert(name);
            let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            for (name, code) in errors(&text, *api, prefixes) {
                found
                    .entry((*api, code))
                    .or_default()
                    .insert(name.to_owned());
            }
        }
    }
    if let Some((missing, ..)) = HEADERS
        .iter()
        .find(|(header, _, _)| !seen.contains(*header))
    {
        return Err(format!("{}: no {missing}", wheels.display()));
    }
    let row = |((api, code), names): ((Api, u32), BTreeSet<String>)| {
        vec![
            api.as_str().to_owned(),
            code.to_string(),
            names.into_iter().collect::<Vec<_>>().join(" "),
        ]
    };
    let origin = "headers, and messages in libcudart, of the PyPI packages nvidia-cuda-runtime-cu11 11.8.89, nvidia-cuda-runtime-cu12 12.9.79, nvidia-cuda-runtime 13.5.37, \
                  nvidia-nvml-dev-cu12 12.9.79, nvidia-nvml-dev 13.5.37, nvidia-cudnn-cu12 9.28.0.42, nvidia-cublas-cu12 12.9.3.13, nvidia-nccl-cu12 2.32.3";
    let mut rows: Vec<Vec<String>> = found.into_iter().map(row).collect();
    // The messages are in the library, without their numbers.
    rows.extend(
        texts
            .into_iter()
            .map(|text| vec![TEXT.to_owned(), String::new(), text]),
    );
    table::write(TABLE, origin, &["interface", "number", "names"], &rows)
}

/// The first cell of a row with a message of CUDA's runtime.
const TEXT: &str = "text";

fn has(library: &[u8], text: &str) -> bool {
    let whole = [b"\0", text.as_bytes(), b"\0"].concat();
    library.windows(whole.len()).any(|window| window == whole)
}

fn ours() -> Result<Vec<ErrorCode>> {
    let path = project().join("explain/errors.yaml");
    error_code::parse(&fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?)
}

/// The members `NAME = NUMBER` of the enumeration of errors.
fn errors<'t>(header: &'t str, api: Api, prefixes: &[&str]) -> Vec<(&'t str, u32)> {
    let header = match api {
        Api::Nccl => {
            let (start, end) = NCCL_RESULTS;
            let from = header.find(start).unwrap_or(header.len());
            &header[from..header[from..]
                .find(end)
                .map_or(header.len(), |length| from + length)]
        }
        _ => header,
    };
    let is_error = |name: &&str| {
        prefixes.is_empty() && name.starts_with("nccl") && *name != "ncclNumResults"
            || prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    // cuDNN marks older names between the name and the sign.
    let member = |line: &'t str| {
        let (name, rest) = line.split_once('=')?;
        let name = name.split(['{', ' ']).find(is_error)?;
        Some((name, rest.split([' ', ',']).find(|word| !word.is_empty())?))
    };
    let members: Vec<(&str, &str)> = header.lines().filter_map(member).collect();
    let number = |value: &str| match value.parse() {
        Ok(number) => Some(number),
        Err(_) => members
            .iter()
            .find(|(name, _)| *name == value)?
            .1
            .parse()
            .ok(),
    };
    members
        .iter()
        .filter_map(|(name, value)| Some((*name, number(value)?)))
        .collect()
}

/// Compares `explain/errors.yaml` with the headers, in both directions.
pub fn check() -> Result<Comparison> {
    let errors = ours()?;
    let messages: Vec<_> = errors
        .iter()
        .filter_map(|error| error.text.clone())
        .collect();
    let mut ours: BTreeSet<_> = errors
        .into_iter()
        .flat_map(|error| {
            error
                .names
                .into_iter()
                .map(move |name| (error.api.as_str().to_owned(), error.code.to_string(), name))
        })
        .collect();
    ours.extend(
        messages
            .into_iter()
            .map(|text| (TEXT.to_owned(), String::new(), text)),
    );
    let mut theirs = BTreeSet::new();
    for row in table::read(TABLE)? {
        let [api, code, names] = row.as_slice() else {
            return Err(format!("{TABLE}: {row:?}"));
        };
        if api == TEXT {
            theirs.insert((api.clone(), code.clone(), names.clone()));
            continue;
        }
        theirs.extend(
            names
                .split(' ')
                .map(|name| (api.clone(), code.clone(), name.to_owned())),
        );
    }
    let difference = |what: &str, (api, code, name): &(String, String, String)| {
        format!("{api} {code} {name} is {what}")
    };
    let missing = theirs
        .difference(&ours)
        .map(|row| difference("not explained", row));
    let surplus = ours
        .difference(&theirs)
        .map(|row| difference("not in the headers", row));
    let differences = missing.chain(surplus).collect();
    Ok(Comparison {
        what: "error numbers in headers",
        facts: theirs.len(),
        differences,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_other_enumerations_are_left_out() {
        let nccl = "typedef enum { ncclSuccess                 =  0,\n               ncclSystemError = 2,\n               \
                    ncclNumResults = 9 } ncclResult_t;\ntypedef enum { ncclInt8 = 0 } ncclDataType_t;\n";
        assert_eq!(
            errors(nccl, Api::Nccl, &[]),
            [("ncclSuccess", 0), ("ncclSystemError", 2)]
        );
        let cuda =
            "    cudaErrorInvalidValue                 =     1,\n    cudaLimitStackSize = 0x00,\n";
        assert_eq!(
            errors(cuda, Api::Cuda, &["cudaError"]),
            [("cudaErrorInvalidValue", 1)]
        );
        let cudnn = "    CUDNN_STATUS_BAD_PARAM = 2000, /**< x = y */\n    CUDNN_STATUS_OLD CUDNN_DEPRECATED_ENUM  = CUDNN_STATUS_BAD_PARAM, /**<\n";
        assert_eq!(
            errors(cudnn, Api::Cudnn, &["CUDNN_STATUS_"]),
            [("CUDNN_STATUS_BAD_PARAM", 2000), ("CUDNN_STATUS_OLD", 2000)]
        );
    }
}
