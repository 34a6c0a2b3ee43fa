//! RDMA adapters, and whether the loaded RDMA modules let other drivers register the memory of
//! their devices.

use super::Rdma;
use super::reader::Reader;
use gpusetup_system::input;

/// The adapters, one name per device.
const ADAPTERS: &str = "/sys/class/infiniband";

/// The names that the running kernel knows, one per line. Everybody may read them; addresses are
/// hidden.
const SYMBOLS: &str = "/proc/kallsyms";

/// The function that nvidia-peermem calls; only the RDMA modules of MLNX_OFED and DOCA-OFED have
/// it.
const REGISTER: &[u8] = b" ib_register_peer_memory_client";

/// What is known of RDMA on this host; none without an adapter. `managers` are the bus addresses of
/// adapters that only manage NVSwitches.
pub(crate) fn rdma(reader: &mut Reader, managers: &[&str]) -> Option<Rdma> {
    let names = reader.system.list(ADAPTERS).unwrap_or_default();
    let adapters: Vec<_> = names
        .into_iter()
        .filter(|name| {
            let device = reader.resolved(format!("{ADAPTERS}/{name}/device"));
            let address = device.file_name().unwrap_or_default().to_string_lossy();
            !managers.contains(&&*address)
        })
        .collect();
    if adapters.is_empty() {
        return None;
    }
    let has_peer_memory = if reader.system.is_live() {
        registers(reader)
    } else {
        None
    };
    Some(Rdma {
        adapters,
        has_peer_memory,
    })
}

/// Whether the kernel has the function; none if its names cannot be read.
fn registers(reader: &mut Reader) -> Option<bool> {
    let what = "the kernel's symbols";
    // All modules of a kernel have some hundred thousand.
    const MAX_SYMBOLS: u64 = 64 << 20;
    let read = input::limited(reader.open(what, SYMBOLS)?, MAX_SYMBOLS);
    match read {
        Ok(bytes) => Some(has(&bytes?)),
        Err(e) => {
            reader.miss(what, format_args!("{SYMBOLS}: {e}"));
            None
        }
    }
}

/// Whether a line has this name, with or without the name of its module after it.
fn has(symbols: &[u8]) -> bool {
    let mut lines = symbols.split(|byte| *byte == b'\n');
    lines.any(|line| {
        let name = line
            .iter()
            .position(|byte| *byte == b'\t')
            .map_or(line, |at| &line[..at]);
        name.ends_with(REGISTER)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_system::System;
    use std::path::Path;

    #[test]
    fn adapters_that_manage_switches_do_not_count() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for (name, address) in [("mlx5_0", "0000:a0:00.0"), ("mlx5_1", "0000:b0:00.0")] {
            let class = dir.path().join("sys/class/infiniband").join(name);
            std::fs::create_dir_all(dir.path().join("sys/devices").join(address)).expect("made");
            std::fs::create_dir_all(&class).expect("made");
            std::os::unix::fs::symlink(
                Path::new("/sys/devices").join(address),
                class.join("device"),
            )
            .expect("linked");
        }
        let system = System::at(dir.path());
        let found = |managers: &[&str]| rdma(&mut Reader::new(&system), managers);
        let names = |found: Option<Rdma>| found.map(|rdma| rdma.adapters).unwrap_or_default();
        assert_eq!(names(found(&[])), ["mlx5_0", "mlx5_1"]);
        assert_eq!(names(found(&["0000:a0:00.0"])), ["mlx5_1"]);
        assert_eq!(found(&["0000:a0:00.0", "0000:b0:00.0"]), None);
        assert_eq!(rdma(&mut Reader::new(&System::at("/nowhere")), &[]), None);
    }

    #[test]
    fn the_function_is_found_by_its_whole_name() {
        for (line, is) in [
            (
                "0000000000000000 T ib_register_peer_memory_client\t[ib_core]",
                true,
            ),
            ("0000000000000000 T ib_register_peer_memory_client", true),
            (
                "0000000000000000 r __kstrtab_ib_register_peer_memory_client\t[ib_core]",
                false,
            ),
            (
                "0000000000000000 T ib_register_peer_memory_client_x\t[ib_core]",
                false,
            ),
            ("", false),
        ] {
            let symbols = format!("0000000000000000 T ib_register_client\t[ib_core]\n{line}\n");
            assert_eq!(has(symbols.as_bytes()), is, "{line}");
        }
    }
}
