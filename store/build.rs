//! Finds out which RocksDB is linked, and what a processor must have to run it. The tool `cairndb-rocksdb` writes both into files
//! beside its archive; an archive without these files, and one that cargo itself builds, need nothing beyond what the Rust
//! code around them needs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=ROCKSDB_LIB_DIR");
    println!("cargo:rerun-if-env-changed=ROCKSDB_COMPILE");
    // Named by the build script of the crate that brings RocksDB.
    let sources =
        env::var_os("DEP_ROCKSDB_CARGO_MANIFEST_DIR").ok_or("librocksdb-sys does not say where it is")?;
    let header = Path::new(&sources).join("rocksdb/include/rocksdb/version.h");
    let text =
        fs::read_to_string(&header).map_err(|error| format!("cannot read {}: {error}", header.display()))?;
    let version = version_of(&text).ok_or_else(|| format!("{} names no version", header.display()))?;
    let mut words = String::new();
    // As the build script of RocksDB's crate decides whether it compiles RocksDB or links what is there.
    let is_compiled =
        env::var("ROCKSDB_COMPILE").is_ok_and(|value| value == "1" || value.to_lowercase() == "true");
    if let Some(folder) = env::var_os("ROCKSDB_LIB_DIR").map(PathBuf::from).filter(|_| !is_compiled) {
        println!("cargo:rerun-if-changed={}", folder.display());
        let origin = fs::read_to_string(folder.join("origin.txt")).unwrap_or_default();
        check_origin(&origin, &version, &folder)?;
        let text = fs::read_to_string(folder.join("processor.txt")).unwrap_or_default();
        words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    } else {
        // Shown at once, and to those only who work on this repository.
        println!(
            "cargo:warning=no ROCKSDB_LIB_DIR: RocksDB is compiled from its sources, ten minutes and more for each profile; \
             `eval \"$(make -s env)\"` builds it once, see docs/building.md"
        );
    }
    println!("cargo:rustc-env=CAIRNDB_ROCKSDB_PROCESSOR={words}");
    println!("cargo:rustc-env=CAIRNDB_ROCKSDB_VERSION={version}");
    Ok(())
}

/// The version in the text of RocksDB's `version.h`, as `11.8.1`.
pub(crate) fn version_of(header: &str) -> Option<String> {
    let number = |name: &str| {
        let define = format!("#define ROCKSDB_{name} ");
        let digits = header.lines().find_map(|line| line.strip_prefix(&define))?.trim();
        digits.parse::<u32>().ok()
    };
    Some(format!("{}.{}.{}", number("MAJOR")?, number("MINOR")?, number("PATCH")?))
}

/// Fails if an archive says that it is of another version than the one that is called. Without this check a function that one
/// of them lacks is an error of the linker, and one that has changed is none.
pub(crate) fn check_origin(origin: &str, version: &str, folder: &Path) -> Result<(), String> {
    let named = origin.lines().find_map(|line| line.strip_prefix("librocksdb-sys ")?.split_once('+'));
    match named {
        Some((_, other)) if other != version => Err(format!(
            "ROCKSDB_LIB_DIR names {}, which has RocksDB {other}, and this project calls RocksDB {version}: run \
             `cairndb-rocksdb` in the project again, see docs/building.md",
            folder.display()
        )),
        Some(_) | None => Ok(()),
    }
}
