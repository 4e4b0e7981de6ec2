//! Finds out which RocksDB is linked, and what a processor must have to run it. The tool `cairndb-rocksdb` writes both into files
//! beside its archive. An archive without these files is known by the functions that it defines: it must have those of the version
//! that is called, and no others. One that cargo itself builds is of that version.

use std::collections::BTreeSet;
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
    println!("cargo:rerun-if-env-changed=ROCKSDB_STATIC");
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
        if named_version(&origin).is_none() {
            check_functions(&Path::new(&sources).join("rocksdb"), &version, &folder)?;
        }
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
    match named_version(origin) {
        Some(other) if other != version => Err(another_version(other, version, folder)),
        Some(_) | None => Ok(()),
    }
}

/// The version of RocksDB in the tool's file beside its archive.
fn named_version(origin: &str) -> Option<&str> {
    let (_, version) =
        origin.lines().find_map(|line| line.strip_prefix("librocksdb-sys ")?.split_once('+'))?;
    Some(version)
}

fn another_version(other: &str, version: &str, folder: &Path) -> String {
    format!(
        "ROCKSDB_LIB_DIR names {}, which has RocksDB {other}, and this project calls RocksDB {version}: run \
         `cairndb-rocksdb` in the project again, see docs/building.md",
        folder.display()
    )
}

/// Checks the library in a folder that says nothing about it. A folder without one is allowed: it is enough for documentation
/// and for `cargo check`.
fn check_functions(sources: &Path, version: &str, folder: &Path) -> Result<(), String> {
    let names: &[&str] = match env::var_os("ROCKSDB_STATIC") {
        Some(_) => &["librocksdb.a", "rocksdb.lib"],
        None => &["librocksdb.so", "librocksdb.dylib"],
    };
    let Some(path) = names.iter().map(|name| folder.join(name)).find(|path| path.is_file()) else {
        return Ok(());
    };
    let cannot_read = |path: &Path, error| format!("cannot read {}: {error}", path.display());
    let text = |name: &str| {
        let path = sources.join(name);
        fs::read_to_string(&path).map_err(|error| cannot_read(&path, error))
    };
    let called = Called { version, header: &text("include/rocksdb/c.h")?, source: &text("db/c.cc")? };
    let library = fs::read(&path).map_err(|error| cannot_read(&path, error))?;
    check_library(&library, &called, folder)
}

/// The RocksDB whose functions are called: its version, and the texts that declare and define them.
pub(crate) struct Called<'s> {
    pub(crate) version: &'s str,
    pub(crate) header: &'s str,
    pub(crate) source: &'s str,
}

/// Fails if a library is of another version than the one that is called: by the version in it, or by its functions. Versions that
/// differ in their last number often have the same functions, and then only the version in the library tells them apart; some
/// builds leave it out.
pub(crate) fn check_library(library: &[u8], called: &Called<'_>, folder: &Path) -> Result<(), String> {
    let Called { version, header, source } = called;
    if let Some(other) = tagged_version(library).filter(|other| other != version) {
        return Err(another_version(other, version, folder));
    }
    let index = symbols(library);
    let defined = functions(index.unwrap_or(library));
    let differs = |how: &str| {
        format!(
            "ROCKSDB_LIB_DIR names {}, which has another RocksDB than {version}, which this project calls: it {how}: run \
             `cairndb-rocksdb` in the project again, see docs/building.md",
            folder.display()
        )
    };
    let lacking: Vec<&str> = declared(header).into_iter().filter(|name| !defined.contains(name)).collect();
    if let Some(first) = lacking.first() {
        return Err(differs(&format!("lacks {} of its functions, {first} for one", lacking.len())));
    }
    // Without an index every string of the library is looked at, and not each is the name of a function.
    if index.is_some() {
        let known: BTreeSet<&str> = words(header).chain(words(source)).collect();
        if let Some(more) = defined.into_iter().find(|name| !known.contains(name)) {
            return Err(differs(&format!("defines {more}, which that one does not")));
        }
    }
    Ok(())
}

/// The version that RocksDB's own build scripts put into a library.
fn tagged_version(library: &[u8]) -> Option<&str> {
    let tag = b"rocksdb_build_git_tag:v";
    let version = library.split(|byte| *byte == 0).find_map(|text| text.strip_prefix(tag))?;
    str::from_utf8(version).ok()
}

/// The names in the index of an archive, which is its first member. `None` for other files, and archives without an index.
fn symbols(library: &[u8]) -> Option<&[u8]> {
    const HEADER_BYTES: usize = 60;
    let members = library.strip_prefix(b"!<arch>\n")?;
    let header = members.get(..HEADER_BYTES)?;
    let size = str::from_utf8(header.get(48..58)?).ok()?.trim().parse::<usize>().ok()?;
    let index = members.get(HEADER_BYTES..)?.get(..size)?;
    // Places of members come before the names, so many as there are names.
    let places = |width: usize| {
        let count = index.get(..width)?.iter().fold(0_usize, |count, byte| (count << 8) | usize::from(*byte));
        index.get(count.checked_add(1)?.checked_mul(width)?..)
    };
    match str::from_utf8(header.get(..16)?).ok()?.trim_end() {
        "/" => places(4),
        "/SYM64/" => places(8),
        // Its name follows its header.
        name if name.starts_with("#1/") || name.starts_with("__.SYMDEF") => Some(index),
        _ => None,
    }
}

/// RocksDB's functions of C among strings that end with a zero.
fn functions(names: &[u8]) -> BTreeSet<&str> {
    names
        .split(|byte| *byte == 0)
        .filter_map(|name| str::from_utf8(name).ok())
        // Some systems put a character before each name.
        .map(|name| name.strip_prefix('_').unwrap_or(name))
        .filter(|name| words(name).next() == Some(*name))
        .collect()
}

/// The functions that a header declares: names that an argument list follows, outside of comments.
fn declared(header: &str) -> BTreeSet<&str> {
    let is_comment = |line: &&str| ["//", "/*", "*"].iter().any(|start| line.trim_start().starts_with(start));
    let code = header.lines().filter(|line| !is_comment(line));
    code.flat_map(|line| {
        let is_called = |name: &&str| line.contains(&format!("{name}("));
        words(line).filter(is_called).collect::<Vec<_>>()
    })
    .collect()
}

/// Names that begin as RocksDB's functions of C do.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_of_names = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.split(move |letter: char| !is_of_names(letter)).filter(|word| word.starts_with("rocksdb_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "/* calls rocksdb_none() */\ntypedef struct rocksdb_t rocksdb_t;\nextern rocksdb_t* rocksdb_open(\n    \
                          const char* name);\nextern void rocksdb_close(rocksdb_t* db);\n";

    /// An archive with an index of these names.
    fn archive(names: &[&str]) -> Vec<u8> {
        let count = u32::try_from(names.len()).expect("few");
        let mut index = count.to_be_bytes().to_vec();
        // The last byte of a place is one of a name too.
        index.extend(std::iter::repeat_n(*b"\0\0\0B", names.len()).flatten());
        index.extend(names.iter().flat_map(|name| [name.as_bytes(), b"\0"].concat()));
        let mut bytes = format!("!<arch>\n{:16}{:32}{:<10}`\n", "/", "", index.len()).into_bytes();
        bytes.append(&mut index);
        bytes.extend_from_slice(b"strings of members: rocksdb_more\0");
        bytes
    }

    fn check(library: &[u8]) -> Result<(), String> {
        let called = Called { version: "11.8.1", header: HEADER, source: "void rocksdb_hidden() {}" };
        check_library(library, &called, Path::new("/opt/rocksdb"))
    }

    /// An archive that says nothing passed, so that the linker named a function, or nothing was named at all.
    #[test]
    fn an_archive_is_known_by_its_functions() {
        let own = ["rocksdb_open", "rocksdb_close", "rocksdb_hidden", "_ZN7rocksdb6StatusE"];
        assert_eq!(check(&archive(&own)), Ok(()));
        assert_eq!(check(&archive(&["_rocksdb_open", "_rocksdb_close"])), Ok(()));
        let refused = |names: &[&str], how: &str| {
            let expected = format!(
                "ROCKSDB_LIB_DIR names /opt/rocksdb, which has another RocksDB than 11.8.1, which this project calls: it {how}: \
                 run `cairndb-rocksdb` in the project again, see docs/building.md"
            );
            assert_eq!(check(&archive(names)), Err(expected));
        };
        refused(&["rocksdb_open"], "lacks 1 of its functions, rocksdb_close for one");
        refused(&[], "lacks 2 of its functions, rocksdb_close for one");
        let newer = ["rocksdb_open", "rocksdb_close", "rocksdb_newer"];
        refused(&newer, "defines rocksdb_newer, which that one does not");
    }

    #[test]
    fn a_library_without_an_index_needs_the_functions_too() {
        assert_eq!(check(b"\x7fELF\0rocksdb_open\0rocksdb_close\0rocksdb_a_string\0"), Ok(()));
        assert!(
            check(b"\x7fELF\0rocksdb_open\0")
                .unwrap_err()
                .contains("lacks 1 of its functions, rocksdb_close for one")
        );
        for cut in 0..archive(&["rocksdb_open"]).len() {
            assert!(check(archive(&["rocksdb_open"]).get(..cut).unwrap()).is_err(), "{cut}");
        }
    }

    #[test]
    fn the_version_in_a_library_is_more_than_its_functions() {
        let tagged =
            |tag: &str| [archive(&["rocksdb_open", "rocksdb_close"]), tag.as_bytes().to_vec()].concat();
        assert_eq!(check(&tagged("rocksdb_build_git_tag:v11.8.1\0")), Ok(()));
        assert_eq!(check(&tagged("rocksdb_build_git_tag:\0")), Ok(()));
        let refused = check(&tagged("rocksdb_build_git_tag:v11.8.0\0")).unwrap_err();
        assert!(
            refused.contains("which has RocksDB 11.8.0, and this project calls RocksDB 11.8.1"),
            "{refused}"
        );
    }
}
