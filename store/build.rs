//! Tells the engine what a processor must have to run the RocksDB that it is linked with. The tool `cairndb-rocksdb`
//! writes it into a file beside the archive; an archive without that file, and one that cargo itself builds, need
//! nothing beyond what the Rust code around them needs.

use std::env;
use std::fs;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=ROCKSDB_LIB_DIR");
    println!("cargo:rerun-if-env-changed=ROCKSDB_COMPILE");
    let mut words = String::new();
    // As the build script of RocksDB's crate decides whether it compiles RocksDB or links what is there.
    let is_compiled =
        env::var("ROCKSDB_COMPILE").is_ok_and(|value| value == "1" || value.to_lowercase() == "true");
    if let Some(folder) = env::var_os("ROCKSDB_LIB_DIR").map(PathBuf::from).filter(|_| !is_compiled) {
        println!("cargo:rerun-if-changed={}", folder.display());
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
}
