//! Whether this processor has the instructions that RocksDB was compiled to use. Checked before the first call of
//! RocksDB: otherwise the system ends the process with SIGILL at the first checksum, without a message.

use base::error::{Error, ErrorKind, Result};

/// The features that the linked RocksDB needs, in names of Rust's `target_feature`. The build script reads it from a
/// file next to the archive.
const REQUIRED: &str = env!("CAIRNDB_ROCKSDB_PROCESSOR");

/// Fails if the processor lacks an instruction that the linked RocksDB needs.
pub(crate) fn check() -> Result<()> {
    check_features(REQUIRED, has)
}

/// Fails if `has` does not confirm a feature. An unknown name counts as missing: nothing shows that the processor has
/// it.
fn check_features(required: &str, has: impl Fn(&str) -> Option<bool>) -> Result<()> {
    let lacks: Vec<&str> = required.split_whitespace().filter(|feature| has(feature) != Some(true)).collect();
    if lacks.is_empty() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::UnsupportedProcessor { lacks: lacks.join(", ") }))
}

/// Whether this processor has `feature`. Returns `None` for a name that the tool `cairndb-rocksdb` does not write.
#[cfg(target_arch = "x86_64")]
fn has(feature: &str) -> Option<bool> {
    // The standard library's macro accepts literals only, so each name gets an arm of its own.
    macro_rules! detect {
        ($($name:tt)*) => {
            match feature {
                $($name => Some(std::arch::is_x86_feature_detected!($name)),)*
                _ => None,
            }
        };
    }
    detect!(
        "sse3" "ssse3" "sse4.1" "sse4.2" "popcnt" "pclmulqdq" "avx" "avx2" "bmi1" "bmi2" "fma" "lzcnt"
        "avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl"
    )
}

/// Not needed on other processors: there RocksDB itself looks for the instructions while it runs.
#[cfg(not(target_arch = "x86_64"))]
fn has(_feature: &str) -> Option<bool> {
    None
}

#[cfg(test)]
#[expect(dead_code, reason = "what cargo calls is not called here")]
#[path = "../build.rs"]
mod build_script;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(required: &str, processor: &[&str], expected: &str) {
        let error = check_features(required, |feature| Some(processor.contains(&feature))).unwrap_err();
        let ErrorKind::UnsupportedProcessor { lacks } = error.kind() else { panic!("{error:?}") };
        assert_eq!(lacks, expected);
    }

    #[test]
    fn a_processor_with_all_that_is_required_passes() {
        assert!(check_features("", |_| Some(false)).is_ok());
        assert!(check_features("sse4.2 pclmulqdq", |_| Some(true)).is_ok());
    }

    #[test]
    fn what_a_processor_lacks_is_named() {
        check_refused("sse4.2 pclmulqdq", &["sse4.2"], "pclmulqdq");
        check_refused("sse4.2 pclmulqdq", &[], "sse4.2, pclmulqdq");
    }

    /// An archive of another version made an error of the linker at best, and a program that calls functions of other
    /// parameters at worst.
    #[test]
    fn an_archive_of_another_version_is_refused_by_both_versions() {
        use super::build_script::{check_origin, version_of};

        let header =
            "#pragma once\n#define ROCKSDB_MAJOR 11\n#define ROCKSDB_MINOR 8\n#define ROCKSDB_PATCH 1\n";
        assert_eq!(version_of(header).as_deref(), Some("11.8.1"));
        assert_eq!(version_of("#define ROCKSDB_MAJOR 11\n"), None);
        let check = |origin: &str| check_origin(origin, "11.8.1", std::path::Path::new("/opt/rocksdb"));
        assert_eq!(check("librocksdb-sys 0.19.0+11.8.1\ntarget: x\n"), Ok(()));
        // The user's own archive says nothing.
        assert_eq!(check(""), Ok(()));
        assert_eq!(
            check("librocksdb-sys 0.17.3+9.10.0\n").unwrap_err(),
            "ROCKSDB_LIB_DIR names /opt/rocksdb, which has RocksDB 9.10.0, and this project calls RocksDB 11.8.1: run \
             `cairndb-rocksdb` in the project again, see docs/building.md"
        );
    }

    #[test]
    fn an_unknown_name_counts_as_missing() {
        assert_eq!(has("sse42"), None);
        assert!(check_features("sse42", has).is_err());
    }

    #[test]
    fn the_message_says_what_to_do() {
        let error = check_features("pclmulqdq", |_| None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "this processor lacks pclmulqdq, which the linked RocksDB was compiled to use: build RocksDB with \
             `cairndb-rocksdb --portable` and link that"
        );
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn each_word_of_the_tool_is_known() {
        let tool = include_str!("../linked/processor.rs");
        let table = tool.split_once("const X86").and_then(|parts| parts.1.split_once("\n];")).unwrap().0;
        let words: Vec<&str> = table.lines().filter_map(|line| line.split('"').nth(3)).collect();
        assert_eq!(words.len(), 17);
        for word in words {
            assert!(has(word).is_some(), "{word}");
        }
    }
}
