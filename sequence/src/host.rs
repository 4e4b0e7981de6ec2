//! The maker of ids: five bytes that distinguish this process from all others.
//!
//! Either a hash of the host's identity and the process id, or five random bytes. Both are made once per
//! process (and again in a forked child), never per id.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::time::SystemTime;

use crate::object_id::{Layout, ORIGIN_BYTES};

/// The host's identity, hashed: its name and, where readable, the id written at installation.
static IDENTITY: LazyLock<u64> = LazyLock::new(|| {
    let name = gethostname::gethostname();
    let machine_id = std::fs::read("/etc/machine-id").unwrap_or_default();
    // The zero byte keeps "ab" + "c" and "a" + "bc" apart.
    [name.as_encoded_bytes(), &[0], machine_id.trim_ascii()].into_iter().fold(FNV_OFFSET, hash)
});

/// Offset basis and prime of the 64-bit FNV-1a hash. It was chosen because it never changes: a process has
/// the same machine bytes after every restart and rebuild.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Makes the bytes between an id's seconds and its counter, for the process as it is now.
pub(crate) fn origin(layout: Layout) -> [u8; ORIGIN_BYTES] {
    match layout {
        Layout::MachineProcess => machine_process(*IDENTITY, std::process::id()),
        Layout::Random => random(),
    }
}

/// `N` random bytes.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if getrandom::fill(&mut bytes).is_err() {
        for (index, byte) in bytes.iter_mut().enumerate() {
            // No random device, as in a bare chroot: the keys of the standard library's hash tables, and
            // values that differ between two processes with the same keys.
            let seed = (index, std::process::id(), SystemTime::now());
            *byte = RandomState::new().hash_one(seed).to_be_bytes()[0];
        }
    }
    bytes
}

/// Three bytes of host and the low 16 bits of the process id. Its higher bits, zero for most processes, go
/// into the hash, so that two processes of one host with ids 65,536 apart do not share their bytes.
fn machine_process(identity: u64, process_id: u32) -> [u8; ORIGIN_BYTES] {
    let [high0, high1, low0, low1] = process_id.to_be_bytes();
    let hashed = if process_id > u32::from(u16::MAX) { hash(identity, &[high0, high1]) } else { identity };
    // Folding three ways uses all 64 bits of the hash.
    let [_, _, _, _, _, machine0, machine1, machine2] =
        (hashed ^ (hashed >> 24) ^ (hashed >> 48)).to_be_bytes();
    [machine0, machine1, machine2, low0, low1]
}

/// FNV-1a over `bytes`, going on from `state`.
fn hash(state: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(state, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(hash(FNV_OFFSET, b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash(FNV_OFFSET, b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash(FNV_OFFSET, b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn machine_comes_before_process_in_big_endian() {
        assert_eq!(machine_process(0x00_0102_0304_0506, 0x0a0b), [0x05, 0x07, 0x05, 0x0a, 0x0b]);
    }

    #[test]
    fn processes_65536_ids_apart_differ() {
        let low = machine_process(*IDENTITY, 0x1234);
        let high = machine_process(*IDENTITY, 0x0001_1234);
        assert_eq!(low.last_chunk::<2>(), high.last_chunk::<2>());
        assert_ne!(low, high);
    }

    #[test]
    fn the_host_is_the_same_each_time() {
        assert_eq!(origin(Layout::MachineProcess), origin(Layout::MachineProcess));
    }

    #[test]
    fn random_origins_differ() {
        assert_ne!(origin(Layout::Random), origin(Layout::Random));
    }
}
