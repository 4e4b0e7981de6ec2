//! The tool in a project whose `librocksdb-sys` is a few small files, compiled by a build script as the real one
//! compiles RocksDB: what is built, from what, how often, and what is said when it cannot be.

#![expect(clippy::unwrap_used, reason = "a fixture that fails is a failed test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Compiles as `cc` does, with the tools that the environment names for the target, and asks the compiler first.
const BUILD_SCRIPT: &str = r#"
use std::{env, path::Path, process::Command};

fn main() {
    if env::var("ROCKSDB_COMPILE").as_deref() != Ok("1") {
        if let Ok(folder) = env::var("ROCKSDB_LIB_DIR") {
            println!("cargo:rustc-link-search=native={folder}");
            println!("cargo:rustc-link-lib=static=rocksdb");
            return;
        }
    }
    assert_eq!(env::var("RUSTC_WRAPPER").unwrap_or_default(), "");
    let target = env::var("TARGET").unwrap();
    let tool = |name: &str, other: &str| env::var(format!("{name}_{target}")).unwrap_or(other.to_owned());
    let out = env::var("OUT_DIR").unwrap();
    let probe = Path::new(&out).join("flag_check.cpp");
    std::fs::write(&probe, "int main() { return 0; }").unwrap();
    let run = |program: &str, words: &[&str]| Command::new(program).args(words).status().unwrap().success();
    let object = format!("{out}/probe.o");
    let probe = probe.to_str().unwrap();
    let cxx = tool("CXX", "c++");
    assert!(run(&cxx, &["-c", probe, "-o", &object]) && std::fs::metadata(&object).unwrap().len() > 0);
    assert!(!run(&cxx, &["-fno-such-flag", "-c", probe, "-o", &object]));
    let define = if cfg!(feature = "lz4") { "-DLZ4=1" } else { "-DNDEBUG" };
    let mut objects = Vec::new();
    for file in include_str!("files.txt").lines() {
        let object = format!("{out}/{}.o", file.replace('/', "-"));
        assert!(run(&cxx, &["-O1", "-I", ".", define, "-o", &object, "-c", file]));
        objects.push(object);
    }
    let archive = format!("{out}/librocksdb.a");
    let mut words = vec!["cq", &archive];
    words.extend(objects.iter().map(String::as_str));
    assert!(run(&tool("AR", "ar"), &words));
}
"#;

/// Prints what the functions of the archive return.
const PROGRAM: &str = r#"
use std::ffi::{CStr, c_char, c_int};
use librocksdb_sys as _;
unsafe extern "C" { fn one() -> c_int; fn two() -> c_int; fn checksum() -> c_int; fn place() -> *const c_char; }
fn main() {
    let place = unsafe { CStr::from_ptr(place()) }.to_str().unwrap();
    println!("{} {} {} {place}", unsafe { one() }, unsafe { two() }, unsafe { checksum() });
}
"#;

const FILES: [(&str, &str); 5] = [
    ("rocksdb/db/one.cc", "static int own() { return 1; }\nextern \"C\" int one() { return own(); }\n"),
    ("rocksdb/db/place.cc", "extern \"C\" const char* place() { return __FILE__; }\n"),
    (
        "rocksdb/util/two.cc",
        "#ifdef LZ4\n#define TWO 22\n#else\n#define TWO 2\n#endif\nextern \"C\" int two() { return TWO; }\n",
    ),
    (
        "rocksdb/util/crc32c.cc",
        "#if defined(__SSE4_2__) && defined(__PCLMUL__)\nextern \"C\" int checksum() { return 3; }\n#else\n\
         extern \"C\" int checksum() { return 0; }\n#endif\n",
    ),
    ("build_version.cc", "int version = 1;\n"),
];

/// A project in a folder with a space in its name, its crate, and a cache of its own.
struct Fixture {
    folder: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self { folder: TempDir::with_prefix("two words ").unwrap() };
        for (path, text) in FILES {
            fixture.write(&format!("crate/{path}"), text);
        }
        let names: Vec<&str> = FILES.iter().map(|(path, _)| *path).collect();
        fixture.write("crate/files.txt", &names.join("\n"));
        fixture.write("crate/build.rs", BUILD_SCRIPT);
        fixture.write("crate/src/lib.rs", "");
        fixture.set_version("1.0.0+11.0.0");
        fixture.write("project/src/main.rs", PROGRAM);
        fixture.write(
            "project/Cargo.toml",
            "[package]\nname = \"app\"\nversion = \"1.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[features]\n\
             lz4 = [\"librocksdb-sys/lz4\"]\n\n[dependencies]\nlibrocksdb-sys = { path = \"../crate\" }\n",
        );
        // Writes down each real compilation, so that they can be counted.
        fixture.write_program(
            "compiler",
            "case \" $* \" in *' -c '*) echo \"$*\" >>\"$(dirname \"$0\")/compiled\";; esac\nexec c++ \"$@\"\n",
        );
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Another process makes the program: one that this process has open for writing is open for a moment in each child that
    /// another test starts meanwhile, and then it is busy and cannot be run.
    fn write_program(&self, name: &str, text: &str) {
        let text_name = format!("{name}.text");
        self.write(&text_name, &format!("#!/bin/sh\n{text}"));
        let mut install = Command::new("install");
        let status = install.args(["-m", "755"]).args([self.path(&text_name), self.path(name)]).status();
        assert!(status.unwrap().success());
    }

    fn set_version(&self, version: &str) {
        self.write(
            "crate/Cargo.toml",
            &format!(
                "[package]\nname = \"librocksdb-sys\"\nversion = \"{version}\"\nedition = \"2021\"\n\
                 links = \"rocksdb\"\n\n[features]\nlz4 = []\n"
            ),
        );
    }

    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.current_dir(self.path("project"));
        for name in [
            "ROCKSDB_LIB_DIR",
            "ROCKSDB_STATIC",
            "RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "RUSTC_WRAPPER",
            "CXXFLAGS",
        ] {
            command.env_remove(name);
        }
        command.env("CAIRNDB_CACHE", self.path("cache")).env("CARGO_NET_OFFLINE", "true");
        command.env("CXX", self.path("compiler"));
        command
    }

    fn tool(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_cairndb-rocksdb"));
        command.args(arguments);
        command
    }

    /// Runs the tool, and returns the folder of the archive.
    #[track_caller]
    fn build(&self, arguments: &[&str]) -> PathBuf {
        folder_of(&self.tool(arguments).output().unwrap())
    }

    /// Runs the tool, which must fail and leave no archive, and returns what it says.
    #[track_caller]
    fn refusal(&self, command: &mut Command) -> String {
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{said}");
        assert_eq!(self.archives(), Vec::<PathBuf>::new());
        said
    }

    fn archives(&self) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.path("cache/rocksdb")).into_iter().flatten().flatten();
        folders.map(|folder| folder.path().join("librocksdb.a")).filter(|path| path.exists()).collect()
    }

    /// How many of the compilations, which name the file in their last word, were of a file with this ending.
    fn compilations(&self, ending: &str) -> usize {
        let text = fs::read_to_string(self.path("compiled")).unwrap_or_default();
        text.lines().filter(|line| line.ends_with(ending) && !line.contains("flag_check")).count()
    }

    /// What the program prints that links the archive by the environment.
    #[track_caller]
    fn program(&self, folder: &Path) -> String {
        let mut command = self.cargo_run();
        let output = command.env("ROCKSDB_LIB_DIR", folder).env("ROCKSDB_STATIC", "1").output().unwrap();
        printed(&output)
    }

    fn cargo_run(&self) -> Command {
        let mut command = self.command(env!("CARGO"));
        command.args(["run", "--quiet"]);
        command
    }
}

#[track_caller]
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
fn folder_of(output: &Output) -> PathBuf {
    let text = printed(output);
    let folder =
        text.lines().find_map(|line| line.strip_prefix("export ROCKSDB_LIB_DIR='")?.split('\'').next());
    PathBuf::from(folder.unwrap_or_else(|| panic!("{text}")))
}

/// What `checksum` returns where the processor's instructions are compiled in.
fn fast_checksum() -> u8 {
    if cfg!(target_arch = "x86_64") { 3 } else { 0 }
}

#[test]
fn the_archive_holds_all_files_and_is_built_once() {
    let fixture = Fixture::new();
    let folder = fixture.build(&[]);
    assert_eq!(fixture.program(&folder), format!("1 2 {} rocksdb/db/place.cc\n", fast_checksum()));
    let compiled = fs::read_to_string(fixture.path("compiled")).unwrap();
    assert_eq!(fixture.compilations("one.cc"), 0, "it shares a unit with place.cc: {compiled}");
    assert_eq!(fixture.build(&[]), folder);
    assert_eq!(fs::read_to_string(fixture.path("compiled")).unwrap(), compiled);
}

/// Each flag that makes faster code is asked for alone: compilers differ in which they know.
#[test]
fn flags_that_the_compiler_does_not_know_are_left_out() {
    let fixture = Fixture::new();
    let unknown = "-fno-semantic-interposition";
    fixture.build(&[]);
    let compiled = fs::read_to_string(fixture.path("compiled")).unwrap();
    let two = compiled.lines().find(|line| line.ends_with("two.cc")).expect("it is compiled alone");
    assert!(two.contains(unknown), "{two}");
    fixture.write_program(
        "older",
        &format!("case \" $* \" in *' {unknown} '*) exit 1;; esac\nexec c++ \"$@\"\n"),
    );
    let folder = folder_of(&fixture.tool(&[]).env("CXX", fixture.path("older")).output().unwrap());
    assert_eq!(fixture.program(&folder), format!("1 2 {} rocksdb/db/place.cc\n", fast_checksum()));
    assert!(!fs::read_to_string(folder.join("origin.txt")).unwrap().contains(unknown));
}

/// The crate `cc` puts such a program in front of the C++ compiler, where it would run the stand-in by itself.
#[test]
fn a_cache_of_compilations_stays_out() {
    let fixture = Fixture::new();
    fixture.write_program("cached", "exec \"$@\"\n");
    let cached = fixture.path("cached");
    folder_of(&fixture.tool(&[]).env("RUSTC_WRAPPER", &cached).output().unwrap());
    let settings = format!("[build]\nrustc-wrapper = \"{}\"\n", cached.display());
    fixture.write("project/.cargo/config.toml", &settings);
    fixture.build(&["--portable"]);
}

#[test]
fn the_folder_says_what_the_processor_must_have() {
    let fixture = Fixture::new();
    let words = fs::read_to_string(fixture.build(&[]).join("processor.txt")).unwrap();
    let portable = fixture.build(&["--portable"]);
    assert_eq!(fs::read_to_string(portable.join("processor.txt")).unwrap(), "");
    assert_eq!(fixture.program(&portable), "1 2 0 rocksdb/db/place.cc\n");
    if cfg!(target_arch = "x86_64") {
        let words: Vec<&str> = words.lines().collect();
        assert!(words.contains(&"sse4.2") && words.contains(&"pclmulqdq"), "{words:?}");
    } else {
        assert_eq!(words, "");
    }
}

#[test]
fn files_that_cannot_live_together_are_compiled_apart() {
    let fixture = Fixture::new();
    fixture.write("crate/rocksdb/db/place.cc", &(FILES[0].1.replace("one", "other") + FILES[1].1));
    let folder = fixture.build(&[]);
    assert_eq!(fixture.compilations("one.cc"), 1);
    assert_eq!(fixture.compilations("place.cc"), 1);
    assert_eq!(fixture.program(&folder), format!("1 2 {} rocksdb/db/place.cc\n", fast_checksum()));
}

#[test]
fn a_file_that_does_not_compile_is_named() {
    let fixture = Fixture::new();
    fixture.write("crate/rocksdb/db/one.cc", "int one() { return nothing; }\n");
    let said = fixture.refusal(&mut fixture.tool(&[]));
    assert!(said.contains("rocksdb/db/one.cc does not compile:") && said.contains("nothing"), "{said}");
    fixture.write("crate/rocksdb/db/one.cc", FILES[0].1);
    fixture.build(&[]);
}

#[test]
fn whatever_shapes_the_archive_changes_its_folder() {
    let fixture = Fixture::new();
    let first = fixture.build(&[]);
    let with_lz4 = fixture.build(&["--features", "lz4"]);
    assert_eq!(fixture.program(&with_lz4), format!("1 22 {} rocksdb/db/place.cc\n", fast_checksum()));
    let flags = folder_of(&fixture.tool(&[]).env("CXXFLAGS", "-g").output().unwrap());
    let rust_flags = folder_of(&fixture.tool(&[]).env("RUSTFLAGS", "-Copt-level=1").output().unwrap());
    fixture.write("project/.cargo/config.toml", "[build]\nrustflags = [\"-Copt-level=1\"]\n");
    let settings = fixture.build(&[]);
    fixture.write("project/.cargo/config.toml", "");
    fixture.set_version("1.0.1+11.0.1");
    let other_version = fixture.build(&[]);
    assert!(other_version.to_str().unwrap().contains("/1.0.1+11.0.1-"), "{}", other_version.display());
    let mut all = vec![first.clone(), with_lz4, flags, rust_flags, settings, other_version];
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 6, "{all:?}");
    fixture.set_version("1.0.0+11.0.0");
    assert_eq!(fixture.build(&[]), first);
}

#[test]
fn two_at_once_build_once() {
    let fixture = Fixture::new();
    let spawn = || {
        let mut command = fixture.tool(&[]);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let [one, two] = [spawn(), spawn()].map(|child| child.wait_with_output().unwrap());
    assert_eq!(folder_of(&one), folder_of(&two));
    assert_eq!(fixture.compilations("crc32c.cc"), 1);
}

#[test]
fn a_killed_build_leaves_no_archive() {
    let fixture = Fixture::new();
    fixture.write_program("killer", "case \"$*\" in *crc32c.cc) kill -9 $PPID;; esac\nexec c++ \"$@\"\n");
    fixture.refusal(fixture.tool(&[]).env("CXX", fixture.path("killer")));
    let output = fixture.tool(&[]).env("CXX", fixture.path("killer")).output().unwrap();
    assert!(!output.status.success(), "the leftover was taken for a build");
    fixture.write_program("killer", "exec c++ \"$@\"\n");
    let folder = folder_of(&fixture.tool(&[]).env("CXX", fixture.path("killer")).output().unwrap());
    assert_eq!(fixture.program(&folder), format!("1 2 {} rocksdb/db/place.cc\n", fast_checksum()));
    let left: Vec<_> =
        fs::read_dir(folder.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!left.iter().any(|path| path.extension().is_some_and(|ending| ending == "building")), "{left:?}");
}

#[test]
fn written_settings_are_enough_for_cargo() {
    let fixture = Fixture::new();
    fixture.write("project/.cargo/config.toml", "# ours\n[env]\nOTHER = \"1\"\n");
    let run = || printed(&fixture.tool(&["--write"]).output().unwrap());
    assert_eq!(run(), "");
    let text = fs::read_to_string(fixture.path("project/.cargo/config.toml")).unwrap();
    assert!(text.starts_with("# ours\n[env]\nOTHER = \"1\"\nROCKSDB_LIB_DIR = \""), "{text}");
    assert_eq!(
        printed(&fixture.cargo_run().output().unwrap()),
        format!("1 2 {} rocksdb/db/place.cc\n", fast_checksum())
    );
    assert_eq!(run(), "");
    assert_eq!(fs::read_to_string(fixture.path("project/.cargo/config.toml")).unwrap(), text);
    // The settings name an archive now, and another version has to be built all the same.
    fixture.set_version("1.0.1+11.0.1");
    assert_eq!(run(), "");
    let renewed = fs::read_to_string(fixture.path("project/.cargo/config.toml")).unwrap();
    assert!(renewed.contains("1.0.1+11.0.1") && !renewed.contains("1.0.0+11.0.0"), "{renewed}");
}

#[test]
fn what_is_missing_is_said_in_a_sentence() {
    let fixture = Fixture::new();
    let said = fixture.refusal(fixture.tool(&[]).env("CXX", "no-such-compiler"));
    assert!(
        said.contains("cannot run the C++ compiler 'no-such-compiler'")
            && said.contains("apt-get install g++"),
        "{said}"
    );
    let said = fixture.refusal(fixture.tool(&[]).env("LIBCLANG_PATH", fixture.folder.path()));
    assert!(said.contains("where there is no libclang: correct or unset it"), "{said}");
    let said = fixture.refusal(fixture.tool(&["--target", "aarch64-unknown-linux-musl"]).env_remove("CXX"));
    assert!(said.contains("name it in CXX_aarch64_unknown_linux_musl"), "{said}");
    let said = fixture.refusal(&mut fixture.tool(&["--target", "x86_64-pc-windows-msvc"]));
    assert!(said.contains("x86_64-pc-windows-msvc is not offered"), "{said}");
    fixture.write("project/Cargo.toml", "[package]\nname = \"app\"\nversion = \"1.0.0\"\n\n[workspace]\n");
    let said = fixture.refusal(&mut fixture.tool(&[]));
    assert!(said.contains("this project does not depend on librocksdb-sys"), "{said}");
}
