//! The compilation of RocksDB by the crate's own build script, recorded by letting it run with this program in place
//! of the compilers and of the archiver: it writes down the command of each source file instead of carrying it out.
//! So definitions, flags and the list of files are the crate's own, whatever its version, features and target.
//!
//! What a build script asks of its compiler otherwise (which it is, which flags it knows) goes to the real one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::{Value, json};
use toml_edit::{Array, InlineTable};

use crate::compiler::{self, Tool};
use crate::message::say;
use crate::project::{self, Project};

/// The folder of the recording: its presence makes this program stand in for a compiler.
const FOLDER: &str = "CAIRNDB_ROCKSDB_RECORDING";
/// The real C++ compiler, one word a line.
const COMPILER: &str = "CAIRNDB_ROCKSDB_COMPILER";
/// An archive of nothing.
const EMPTY_ARCHIVE: &str = "!<arch>\n";
const CRATE: &str = "librocksdb-sys";

/// One file as the crate compiles it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Source {
    /// As the command names it: relative to `folder`.
    pub(crate) path: String,
    /// The folder in which the command runs: the crate's.
    pub(crate) folder: PathBuf,
    /// All but the names of the source and of the object.
    pub(crate) arguments: Vec<String>,
}

/// Runs the crate's build script, and returns its source files in the order of their names.
pub(crate) fn record(project: &Project, staging: &Path) -> Result<Vec<Source>, String> {
    let folder = staging.join("recording");
    let stand_in = stand_ins(staging)?;
    fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    let manifest = asking_project(project, staging)?;
    let mut command = project::cargo();
    command.args(["check", "--release", "--quiet", "--target", &project.target]);
    // Cargo's settings are those of the folder it runs in: the project's.
    command.current_dir(&project.root).arg("--manifest-path").arg(manifest);
    command.arg("--target-dir").arg(staging.join("target"));
    // All projects link this one archive, so the profile of one does not shape it.
    command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3").env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    // The settings of this project may name an archive already.
    command.env("ROCKSDB_COMPILE", "1").env_remove("ROCKSDB_LIB_DIR").env_remove("ROCKSDB_STATIC");
    // A cache of compilations for rustc is put in front of the C++ compiler too, and knows no stand-in. Empty, the
    // variable overrules cargo's settings, which may name one as well.
    command.env("RUSTC_WRAPPER", "").env_remove("CARGO_TARGET_DIR");
    for (name, file) in [("CXX", "c++"), ("CC", "cc"), ("AR", "ar")] {
        for variable in compiler::variables(project, name) {
            command.env_remove(variable);
        }
        command.env(format!("{name}_{}", project.target), stand_in.join(file));
    }
    command.env(COMPILER, Tool::compiler(project)?.lines()).env(FOLDER, &folder);
    project::output_of(&mut command, &format!("cargo check of {CRATE}"))?;
    let sources = load(&folder)?;
    if sources.is_empty() {
        return Err(format!("the build script of {CRATE} {} compiled no file of RocksDB", project.version));
    }
    Ok(sources)
}

/// A project that depends on the crate alone, with the features and the versions that the user's project has, since
/// cargo takes no features for a dependency. Returns its manifest.
fn asking_project(project: &Project, staging: &Path) -> Result<PathBuf, String> {
    let folder = staging.join("project");
    let mut dependency = InlineTable::new();
    dependency.insert("path", project.crate_folder.to_string_lossy().as_ref().into());
    dependency.insert("default-features", false.into());
    dependency.insert("features", project.features.iter().map(String::as_str).collect::<Array>().into());
    let manifest = format!(
        "[package]\nname = \"asking\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n[dependencies]\n\
         {CRATE} = {dependency}\n"
    );
    let write = |name: &str, text: &[u8]| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&folder))
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    };
    write("Cargo.toml", manifest.as_bytes())?;
    write("src/lib.rs", b"")?;
    // Without a lock file, as of a library, the versions are the newest that fit, here as there.
    if let Ok(lock) = fs::read(project.root.join("Cargo.lock")) {
        write("Cargo.lock", &lock)?;
    }
    Ok(folder.join("Cargo.toml"))
}

/// Links to this program under the names of the tools that it stands in for.
fn stand_ins(staging: &Path) -> Result<PathBuf, String> {
    let folder = staging.join("bin");
    let link = |name: &str| {
        fs::create_dir_all(&folder)?;
        std::os::unix::fs::symlink(std::env::current_exe()?, folder.join(name))
    };
    for name in ["c++", "cc", "ar"] {
        link(name).map_err(|error| format!("cannot create {}/{name}: {error}", folder.display()))?;
    }
    Ok(folder)
}

fn load(folder: &Path) -> Result<Vec<Source>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", folder.display());
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| wrong(&error))? {
        let path = entry.map_err(|error| wrong(&error))?.path();
        let text = fs::read(&path).map_err(|error| wrong(&error))?;
        let value: Value = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let arguments = value.get("arguments").and_then(Value::as_array).into_iter().flatten();
        sources.push(Source {
            path: text("path"),
            folder: text("folder").into(),
            arguments: arguments.filter_map(Value::as_str).map(str::to_owned).collect(),
        });
    }
    sources.sort();
    Ok(sources)
}

/// This process as a stand-in for a compiler or an archiver.
pub(crate) struct Recording {
    folder: PathBuf,
    /// `c++`, `cc` or `ar`.
    name: String,
    arguments: Vec<String>,
}

impl Recording {
    /// Returns `None` if this process is the tool itself.
    pub(crate) fn from_environment() -> Option<Self> {
        let folder = std::env::var_os(FOLDER)?.into();
        let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        let program = PathBuf::from(words.next()?);
        let name = program.file_name()?.to_str()?.to_owned();
        Some(Self { folder, name, arguments: words.collect() })
    }

    pub(crate) fn stand_in(&self) -> ExitCode {
        let done = if self.name == "ar" {
            self.archive()
        } else if let Some(source) = self.source_of_a_package() {
            self.note(&source)
        } else {
            return self.ask_the_real_one();
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                say(&message);
                ExitCode::FAILURE
            }
        }
    }

    /// The file that is to be compiled, if it is one of the package whose build script this is; a file that a script
    /// makes to try a flag lies elsewhere.
    fn source_of_a_package(&self) -> Option<String> {
        let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?);
        let compiles = self.arguments.iter().any(|word| word == "-c");
        let endings = ["cc", "cpp", "c", "S"];
        let ends_so = |word: &&String| {
            Path::new(word).extension().is_some_and(|ending| endings.iter().any(|known| ending == *known))
        };
        let source = self.arguments.iter().rfind(ends_so).filter(|_| compiles)?;
        package
            .join(source)
            .canonicalize()
            .ok()?
            .starts_with(package.canonicalize().ok()?)
            .then(|| source.clone())
    }

    /// Writes down how `source` is compiled, if RocksDB is what is compiled, and leaves an object of nothing.
    fn note(&self, source: &str) -> Result<(), String> {
        let object =
            self.value_of("-o").ok_or_else(|| format!("the command for {source} names no object"))?;
        let write = |path: &Path, text: &str| {
            fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
        };
        write(Path::new(object), "")?;
        let of_rocksdb = source.starts_with("rocksdb/") || source.ends_with("build_version.cc");
        if std::env::var("CARGO_PKG_NAME").as_deref() != Ok(CRATE) || !of_rocksdb {
            return Ok(());
        }
        let folder =
            std::env::current_dir().map_err(|error| format!("there is no current folder: {error}"))?;
        let command =
            json!({ "path": source, "folder": folder, "arguments": self.arguments_without(source, object) });
        let name = object.replace(['/', ' '], "_");
        write(&self.folder.join(name).with_extension("json"), &command.to_string())
    }

    fn arguments_without(&self, source: &str, object: &str) -> Vec<&str> {
        let words = self.arguments.iter().map(String::as_str);
        words.filter(|word| ![source, object, "-c", "-o"].contains(word)).collect()
    }

    fn value_of(&self, name: &str) -> Option<&str> {
        let at = self.arguments.iter().position(|word| word == name)?;
        self.arguments.get(at + 1).map(String::as_str)
    }

    /// An archive of nothing: only `cargo check` is run, so nothing reads it.
    fn archive(&self) -> Result<(), String> {
        let is_archive = |word: &&String| Path::new(word).extension().is_some_and(|ending| ending == "a");
        let Some(path) = self.arguments.iter().find(is_archive) else { return Ok(()) };
        fs::write(path, EMPTY_ARCHIVE).map_err(|error| format!("cannot write {path}: {error}"))
    }

    /// The C++ compiler answers for the C compiler too: it is the same family, and knows the same flags.
    fn ask_the_real_one(&self) -> ExitCode {
        let tool = Tool::from_lines(&std::env::var(COMPILER).unwrap_or_default());
        let mut command: Command = tool.command();
        match command.args(&self.arguments).env_remove(FOLDER).status() {
            Ok(status) if status.success() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(error) => {
                say(&format!("cannot run the C++ compiler: {error}"));
                ExitCode::FAILURE
            }
        }
    }
}
