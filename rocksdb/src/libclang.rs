//! Finding libclang, with which the crate makes its bindings, before the build asks for it: a missing one is said in
//! one sentence instead of at the end of a long message.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arguments;

/// Folders where package managers put it; bindgen searches them by itself. A `*` represents part of a name.
const SEARCHED: [&str; 8] = [
    "/usr/lib/llvm-*/lib",
    "/usr/lib64/llvm*/lib",
    "/usr/lib64/llvm*/lib64",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/*-linux-gnu",
    "/usr/local/lib",
    "/Library/Developer/CommandLineTools/usr/lib",
];
const ADVICE: &str = "libclang, which makes the bindings to RocksDB, is not found: install it (Debian: apt-get install \
     libclang-dev; Fedora: dnf install clang-devel; macOS: xcode-select --install) or name its folder in LIBCLANG_PATH";

/// Returns the folder that `LIBCLANG_PATH` has to name, or `None` if libclang is found without.
pub(crate) fn find() -> Result<Option<String>, String> {
    if let Some(chosen) = std::env::var_os("LIBCLANG_PATH").map(PathBuf::from) {
        // A file is taken at its word; of a folder bindgen takes the file with libclang's name.
        if chosen.is_file() || holds_library(&chosen) {
            return Ok(chosen.to_str().map(str::to_owned));
        }
        return Err(format!(
            "LIBCLANG_PATH is '{}', where there is no libclang: correct or unset it",
            chosen.display()
        ));
    }
    let asked = [LLVM_CONFIG, XCODE].iter().filter_map(Question::answer);
    if SEARCHED.iter().flat_map(|pattern| folders(pattern)).chain(asked).any(|folder| is_complete(&folder)) {
        return Ok(None);
    }
    // Homebrew keeps its LLVM out of every search path.
    let brewed = HOMEBREW.answer().filter(|folder| is_complete(folder));
    brewed.and_then(|folder| folder.to_str().map(str::to_owned)).map(Some).ok_or_else(|| ADVICE.to_owned())
}

/// The line for the shell.
pub(crate) fn export(folder: &str) -> String {
    format!("export LIBCLANG_PATH={}\n", arguments::quoted(folder))
}

/// A program that knows where LLVM is.
struct Question {
    program: &'static str,
    arguments: &'static [&'static str],
    /// The folder of libraries below the one that it prints.
    below: &'static str,
}

const LLVM_CONFIG: Question = Question { program: "llvm-config", arguments: &["--libdir"], below: "" };
const HOMEBREW: Question = Question { program: "brew", arguments: &["--prefix", "llvm"], below: "lib" };
const XCODE: Question = Question {
    program: "xcode-select",
    arguments: &["-p"],
    below: "Toolchains/XcodeDefault.xctoolchain/usr/lib",
};

impl Question {
    /// Returns `None` if the program is not here or does not know.
    fn answer(&self) -> Option<PathBuf> {
        let output = Command::new(self.program).args(self.arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        Some(Path::new(text.trim()).join(self.below))
    }
}

/// Libclang itself, and the headers of its compiler (stddef.h and others), which may be in a package of their own.
fn is_complete(folder: &Path) -> bool {
    let of_compiler =
        [folder.join("clang"), folder.with_file_name("lib").join("clang"), "/usr/lib/clang".into()];
    let has_headers = |clang: &PathBuf| {
        entries(clang).any(|version| clang.join(version).join("include/stddef.h").is_file())
    };
    holds_library(folder) && of_compiler.iter().any(has_headers)
}

fn holds_library(folder: &Path) -> bool {
    entries(folder).any(|name| {
        name == "libclang.dylib"
            || name.starts_with("libclang.so")
            || name.starts_with("libclang-") && name.contains(".so")
    })
}

/// The folders that `pattern` represents: at most one part of it holds a `*`.
fn folders(pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once('*') else { return vec![pattern.into()] };
    let (parent, start) = before.rsplit_once('/').unwrap_or(("", before));
    let (end, below) = after.split_once('/').unwrap_or((after, ""));
    let fits = |name: &String| {
        name.starts_with(start) && name.ends_with(end) && name.len() >= start.len() + end.len()
    };
    entries(Path::new(parent)).filter(fits).map(|name| Path::new(parent).join(name).join(below)).collect()
}

fn entries(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_the_folders_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        for name in ["llvm-14/lib", "llvm-15/lib", "other/lib"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let mut found = folders(&format!("{root}/llvm-*/lib"));
        found.sort();
        assert_eq!(found, ["llvm-14/lib", "llvm-15/lib"].map(|name| folder.path().join(name)));
        assert_eq!(folders("/usr/lib"), [Path::new("/usr/lib")]);
    }

    #[test]
    fn a_library_without_its_headers_is_not_complete() {
        let folder = tempfile::tempdir().unwrap();
        let lib = folder.path().join("lib");
        fs::create_dir_all(&lib).unwrap();
        assert!(!holds_library(&lib));
        fs::write(lib.join("libclang-14.so.1"), "").unwrap();
        assert!(holds_library(&lib));
        fs::create_dir_all(lib.join("clang/14/include")).unwrap();
        fs::write(lib.join("clang/14/include/stddef.h"), "").unwrap();
        assert!(is_complete(&lib));
    }
}
