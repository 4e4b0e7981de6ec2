//! The archive in the user's cache. Its folder's name changes with all that shapes it, so that a stale one is never
//! linked: the crate's version and features, the target, the compiler, and the flags that the environment and cargo's
//! settings give it. It is put in place by one rename after everything else is there.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::arguments::Arguments;
use crate::compiler::{self, Tool};
use crate::message::say;
use crate::optimization;
use crate::processor;
use crate::project::Project;
use crate::recorder::{self, Source};
use crate::settings;
use crate::units::{self, Workshop};

const ARCHIVE: &str = "librocksdb.a";
/// The origin of the archive, for people.
const ORIGIN: &str = "origin.txt";
/// The ending of the name of a build's own place.
const STAGING: &str = "building";
/// Raised when the same sources and flags make another archive.
const METHOD: u32 = 1;

/// Returns the folder of the archive for `project`, which is built if it is not there.
pub(crate) fn find_or_build(project: &Project, arguments: &Arguments) -> Result<PathBuf, String> {
    let compiler = Tool::compiler(project)?;
    let origin = origin(project, arguments, &compiler)?;
    let name = format!("{}-{}-{:08x}", project.version, project.target, fingerprint(&origin));
    let folder = cache()?.join("rocksdb").join(name);
    if folder.join(ARCHIVE).is_file() {
        return Ok(folder);
    }
    fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    // Two builds at once: the second waits here, and then finds what the first has built.
    let lock = sibling(&folder, "lock");
    let file = File::create(&lock).map_err(|error| format!("cannot create {}: {error}", lock.display()))?;
    file.lock().map_err(|error| format!("cannot lock {}: {error}", lock.display()))?;
    if folder.join(ARCHIVE).is_file() {
        return Ok(folder);
    }
    remove_leftovers(&folder);
    let staging = sibling(&folder, &format!("{}.{STAGING}", std::process::id()));
    let built = build(project, arguments, &compiler, &staging, &folder).and_then(|archive| {
        let keep = |from: &Path, name: &str| {
            let to = folder.join(name);
            fs::rename(from, &to).map_err(|error| format!("cannot create {}: {error}", to.display()))
        };
        write(&staging.join(ORIGIN), &origin)?;
        keep(&staging.join(ORIGIN), ORIGIN)?;
        keep(&staging.join(processor::FILE), processor::FILE)?;
        // Last, because its presence says that all is there.
        keep(&archive, ARCHIVE)
    });
    // A leftover only takes space: the next build removes it.
    let _ = fs::remove_dir_all(&staging);
    built.map(|()| folder)
}

/// All that shapes the archive, as lines.
fn origin(project: &Project, arguments: &Arguments, compiler: &Tool) -> Result<String, String> {
    let features: Vec<&str> = project.features.iter().map(String::as_str).collect();
    let flags = if arguments.portable { "none" } else { &processor::flags(&project.target).join(" ") };
    let faster = optimization::flags(compiler).join(" ");
    let mut origin = format!(
        "librocksdb-sys {}\ntarget: {}\nfeatures: {}\ncompiler: {}, {}\nflags of checksums: {flags}\nflags of optimization: {faster}\nmethod: {METHOD}\n",
        project.version,
        project.target,
        features.join(" "),
        compiler.lines().replace('\n', " "),
        compiler.version()?,
    );
    let names = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS", "ROCKSDB_CXX_STD"]
        .map(str::to_owned);
    for name in names.into_iter().chain(compiler::variables(project, "CXXFLAGS")) {
        if let Some(value) = std::env::var_os(&name) {
            let _ = writeln!(origin, "{name}: {}", value.display());
        }
    }
    for line in settings::rust_flags(&project.root) {
        let _ = writeln!(origin, "{line}");
    }
    Ok(origin)
}

/// Removes what killed builds of `folder` have left, which the caller has locked. A compiler of such a build may still write
/// there for a moment; that is why each build has a place of its own.
fn remove_leftovers(folder: &Path) {
    let beginning = sibling(folder, "").to_string_lossy().into_owned();
    let entries = folder.parent().and_then(|parent| fs::read_dir(parent).ok());
    let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let is_leftover = |path: &PathBuf| {
        path.to_string_lossy().starts_with(&beginning)
            && path.extension().is_some_and(|ending| ending == STAGING)
    };
    for path in paths.filter(is_leftover) {
        // Files that are written meanwhile need another round.
        let _ = (0..3).find(|_| fs::remove_dir_all(&path).is_ok());
    }
}

/// Builds into `staging`, from where the archive goes to `folder`, and returns the archive there.
fn build(
    project: &Project,
    arguments: &Arguments,
    compiler: &Tool,
    staging: &Path,
    folder: &Path,
) -> Result<PathBuf, String> {
    let objects = staging.join("units");
    fs::create_dir_all(&objects).map_err(|error| format!("cannot create {}: {error}", objects.display()))?;
    say(&format!(
        "asking librocksdb-sys {} how it compiles RocksDB (its bindings take a minute)",
        project.version
    ));
    let mut sources = recorder::record(project, staging)?;
    optimization::optimize(&mut sources, &optimization::flags(compiler));
    if !arguments.portable {
        use_the_processor(&mut sources, &project.target);
    }
    write(&staging.join(processor::FILE), &required(&sources, compiler, &project.target)?)?;
    let files = sources.len();
    let units = units::group(sources);
    say(&format!("building RocksDB once: {files} files in {} units, into {}", units.len(), folder.display()));
    let objects = Workshop { compiler, folder: objects }.compile(&units)?;
    let archive = staging.join(ARCHIVE);
    let mut command = Tool::archiver(project).command();
    let output =
        command.arg("crs").arg(&archive).args(objects).stdin(Stdio::null()).output().map_err(|error| {
            format!("cannot run the archiver: {error}: install one (Debian: binutils) or name it in AR")
        })?;
    if !output.status.success() {
        return Err(format!("the archiver failed: {}", String::from_utf8_lossy(&output.stderr).trim_end()));
    }
    Ok(archive)
}

fn use_the_processor(sources: &mut [Source], target: &str) {
    for source in sources.iter_mut().filter(|source| processor::is_checksum(source)) {
        source.arguments.extend(processor::flags(target).iter().map(|&flag| flag.to_owned()));
    }
}

/// The features that a processor must have for any of the sources, one word a line.
fn required(sources: &[Source], compiler: &Tool, target: &str) -> Result<String, String> {
    if !target.starts_with("x86_64") {
        return Ok(String::new());
    }
    let mut commands: Vec<&[String]> = sources.iter().map(|source| source.arguments.as_slice()).collect();
    commands.sort_unstable();
    commands.dedup();
    let mut words = Vec::new();
    for arguments in commands {
        words.extend(processor::required(compiler, arguments)?);
    }
    words.sort_unstable();
    words.dedup();
    Ok(words.into_iter().fold(String::new(), |text, word| text + word + "\n"))
}

/// The folder that all of CairnDB's builds share.
fn cache() -> Result<PathBuf, String> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("CAIRNDB_CACHE")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("cairndb")))
        .or_else(|| Some(variable("HOME")?.join(".cache/cairndb")))
        .ok_or("neither CAIRNDB_CACHE nor HOME is set: there is no place for the archive")?;
    std::path::absolute(&cache).map_err(|error| format!("there is no current folder: {error}"))
}

fn sibling(folder: &Path, ending: &str) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!("{name}.{ending}"))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// FNV-1a: the standard library's own hash may change with its version, and the name must not.
fn fingerprint(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_is_that_of_its_authors() {
        assert_eq!(fingerprint(""), 0x811c_9dc5);
        assert_eq!(fingerprint("foobar"), 0xbf9c_f968);
    }

    #[test]
    fn a_sibling_keeps_the_dots_of_a_version() {
        assert_eq!(sibling(Path::new("/c/1.2.3-x"), "lock"), Path::new("/c/1.2.3-x.lock"));
    }

    #[test]
    fn only_the_checksum_is_compiled_for_the_processor() {
        let source =
            |path: &str| Source { path: path.to_owned(), folder: "/c".into(), arguments: Vec::new() };
        let mut sources = [source("rocksdb/util/crc32c.cc"), source("rocksdb/util/coding.cc")];
        use_the_processor(&mut sources, "x86_64-unknown-linux-gnu");
        assert_eq!(sources[0].arguments, ["-msse4.2", "-mpclmul"]);
        assert!(sources[1].arguments.is_empty());
    }
}
