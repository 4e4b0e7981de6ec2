//! What `.ci/setup.sh` says on machines that lack something: one sentence that names it, before anything is compiled.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// What the script calls. There is no package manager among it, so nothing is installed.
const PROGRAMS: [&str; 17] = [
    "sh", "sed", "cut", "cksum", "mkdir", "id", "uname", "df", "ls", "printf", "tail", "grep", "cc", "c++",
    "cargo", "rustc", "rm",
];

/// A machine of few programs.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn without(absent: &[&str]) -> Self {
        let machine = Self { folder: tempfile::tempdir().expect("it works") };
        fs::create_dir(machine.path("bin")).expect("it works");
        for name in PROGRAMS.into_iter().filter(|name| !absent.contains(name)) {
            let path = std::env::var_os("PATH").expect("it is set");
            let found =
                std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
            // What is built into the shell need not be a file.
            if let Some(found) = found {
                symlink(found, machine.path("bin").join(name)).expect("it works");
            }
        }
        machine
    }

    /// Puts a program in place that only says its version.
    fn with_version(self, name: &str, version: &str) -> Self {
        let path = self.path("bin").join(name);
        let _ = fs::remove_file(&path);
        fs::write(&path, format!("#!/bin/sh\necho '{name} {version} (2023-06-01)'\n")).expect("it works");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it works");
        self
    }

    /// The real ones may be those of rustup, which looks into the user's home.
    fn with_new_rust(self) -> Self {
        self.with_version("cargo", "1.999.0").with_version("rustc", "1.999.0")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn sets_up(&self, variables: &[(&str, &str)]) -> Output {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut command = Command::new("sh");
        command.args(["-c", ". .ci/setup.sh"]).current_dir(root).env_clear().env("PATH", self.path("bin"));
        command.envs(variables.iter().copied()).output().expect("there is a shell")
    }

    /// The script ends with these words and makes nothing.
    #[track_caller]
    fn is_told(&self, variables: &[(&str, &str)], words: &[&str]) {
        let output = self.sets_up(variables);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{told}");
        for word in words {
            assert!(told.contains(word), "{word:?} is not in {told}");
        }
        assert!(!self.path("home/.cache/cairndb/build").exists(), "{told}");
    }

    fn home(&self) -> String {
        self.path("home").to_str().expect("a path").to_owned()
    }
}

#[test]
fn a_machine_without_a_place_for_what_is_built_is_told() {
    let machine = Machine::without(&[]);
    machine.is_told(&[], &["neither HOME nor CAIRNDB_CACHE is set"]);
    fs::write(machine.path("file"), "").expect("it works");
    let inside = machine.path("file/cache");
    machine.is_told(
        &[("CAIRNDB_CACHE", inside.to_str().expect("a path"))],
        &["name another one in CAIRNDB_CACHE"],
    );
}

#[test]
fn a_machine_without_a_compiler_is_told() {
    let machine = Machine::without(&["cc", "c++"]);
    let words = ["a C and a C++ compiler (cc, c++) are missing", "g++ (Debian) or gcc-c++ (Fedora)"];
    machine.is_told(&[("HOME", &machine.home())], &words);
}

/// An old compiler beside a new cargo was found by cargo, in words of its own.
#[test]
fn a_machine_with_an_old_rust_is_told_which_one_it_has() {
    for (name, has) in
        [("cargo", "here is cargo 1.70.0, rustc 1.999.0"), ("rustc", "here is cargo 1.999.0, rustc 1.70.0")]
    {
        let machine = Machine::without(&[]).with_new_rust().with_version(name, "1.70.0");
        machine.is_told(&[("HOME", &machine.home())], &["or newer is needed", has, "the package curl"]);
    }
    let machine = Machine::without(&["cargo", "rustc"]);
    machine.is_told(&[("HOME", &machine.home())], &["here is no cargo, no rustc"]);
}

/// Without a network there is a word on it.
#[test]
fn an_installer_that_cannot_be_reached_is_told() {
    let machine = Machine::without(&["cargo"]).with_version("curl", "8.0.0");
    fs::write(machine.path("bin/curl"), "#!/bin/sh\necho 'curl: (7) refused' >&2\nexit 7\n")
        .expect("it works");
    machine.is_told(
        &[("HOME", &machine.home())],
        &["curl: (7) refused", "https://sh.rustup.rs cannot be reached"],
    );
}

#[test]
fn a_disk_without_room_is_told_before_anything_is_built() {
    let machine = Machine::without(&["df"]).with_new_rust();
    let df = "#!/bin/sh\necho 'Filesystem 1024-blocks Used Available Capacity Mounted on'\necho '/dev/x 100000 88000 12000 88% /'\n";
    fs::write(machine.path("bin/df"), df).expect("it works");
    fs::set_permissions(machine.path("bin/df"), fs::Permissions::from_mode(0o755)).expect("it works");
    let words = [
        "has 12 MB left, and building RocksDB needs up to 500 MB",
        "or name another folder in CAIRNDB_CACHE",
    ];
    machine.is_told(&[("HOME", &machine.home())], &words);
}
