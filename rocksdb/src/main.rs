//! `cairndb-rocksdb`: builds RocksDB, as the crate `librocksdb-sys` of a project's lock file has it, once into the
//! user's cache, and says how the project links it. It compiles many files together, which needs half the time of
//! the crate's own build; which files and with which flags, it learns from that crate's own build script.
//!
//! It depends on no C++, so that `cargo install` takes seconds, and the project's own `make setup` runs this code.

#![forbid(unsafe_code)]

mod archive;
mod arguments;
mod compiler;
mod libclang;
mod message;
mod optimization;
mod processor;
mod project;
mod recorder;
mod settings;
mod units;

use std::io::Write;
use std::process::ExitCode;

use arguments::Request;
use message::say;

fn main() -> ExitCode {
    if let Some(recording) = recorder::Recording::from_environment() {
        return recording.stand_in();
    }
    match run() {
        Ok(text) => {
            // A reader that has gone away wants no more text.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(message) => {
            say(&message);
            ExitCode::FAILURE
        }
    }
}

/// Does what the command line asks, and returns what is for standard output.
fn run() -> Result<String, String> {
    let arguments = match arguments::parse(std::env::args_os().skip(1))? {
        Request::Help => return Ok(arguments::HELP.to_owned()),
        Request::Version => return Ok(format!("cairndb-rocksdb {}\n", env!("CARGO_PKG_VERSION"))),
        Request::FindLibclang => {
            return Ok(libclang::find()?.as_deref().map(libclang::export).unwrap_or_default());
        }
        Request::Build(arguments) => arguments,
    };
    let libclang = libclang::find()?;
    let project = project::Project::find(&arguments)?;
    let folder = archive::find_or_build(&project, &arguments)?;
    let folder = folder.to_str().ok_or_else(|| format!("{} is not UTF-8", folder.display()))?;
    if arguments.write {
        let file = settings::write(&project.root, folder, libclang.as_deref())?;
        say(&format!("{} names the archive: cargo and editors link it from now on", file.display()));
        return Ok(String::new());
    }
    let exports =
        format!("export ROCKSDB_LIB_DIR={} ROCKSDB_STATIC=1 PCRE2_SYS_STATIC=1\n", arguments::quoted(folder));
    Ok(exports + &libclang.as_deref().map(libclang::export).unwrap_or_default())
}
