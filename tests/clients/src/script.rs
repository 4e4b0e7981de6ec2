//! Scripts for foreign clients: each holds its own assertions, and says `passed` at its end.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, thread};

use rustix::process::{Pid, Signal, kill_process};

use crate::cairn::{Cairn, program};

/// No script needs as long, even on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(180);

/// Runs a script of `tests/clients/pymongo` in Python, with the server's URI as its argument.
#[track_caller]
pub fn python(cairn: &Cairn, name: &str) -> String {
    python_with(cairn, name, &[])
}

/// Runs a script of `tests/clients/pymongo` in Python, with the server's URI and other words as its arguments.
#[track_caller]
pub fn python_with(cairn: &Cairn, name: &str, arguments: &[&str]) -> String {
    python_at(&cairn.uri(), name, arguments)
}

/// Runs a script of `tests/clients/pymongo` in Python, with this URI and other words as its arguments.
#[track_caller]
pub fn python_at(uri: &str, name: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(installed("CAIRNDB_PYTHON"));
    // No folder of compiled modules is left in the checkout.
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(path_of("pymongo", name)).arg(uri).args(arguments);
    run(command, name)
}

/// Runs a script of `tests/clients/mongosh` in the shell, as `mongosh --quiet --norc URI prelude.js FILE` does.
#[track_caller]
pub fn mongosh(cairn: &Cairn, name: &str) -> String {
    mongosh_at(&cairn.uri(), name)
}

/// Runs a script of `tests/clients/mongosh` in the shell, at this URI.
#[track_caller]
pub fn mongosh_at(uri: &str, name: &str) -> String {
    let home = tempfile::tempdir().expect("a temporary folder can be made");
    let mut command = Command::new("node");
    // The shell keeps settings and logs in the home folder, which is not the suite's to fill.
    command.env("HOME", home.path()).arg(installed("CAIRNDB_MONGOSH"));
    command.args(["--quiet", "--norc", uri]);
    command.args([path_of("mongosh", "prelude.js"), path_of("mongosh", name)]);
    run(command, name)
}

/// Runs a script of `tests/clients/mongosh` in the tool's own shell, on a store as its commands name it.
#[track_caller]
pub fn shell(store: &str, name: &str) -> String {
    let mut command = Command::new(program());
    command.args(["shell", store]).args([path_of("mongosh", "prelude.js"), path_of("mongosh", name)]);
    run(command, name)
}

/// Runs `tests/clients/restore/dump.js` in Node.js, with the server's URI, the tool, and the package that restores.
#[track_caller]
pub fn restored_by_a_package(cairn: &Cairn) -> String {
    let mut command = Command::new("node");
    command
        .arg(path_of("restore", "dump.js"))
        .arg(cairn.uri())
        .arg(program())
        .arg(installed("CAIRNDB_RESTORE"));
    run(command, "dump.js")
}

/// The path in a variable of the environment: what `make test` has installed.
#[track_caller]
pub fn installed(variable: &str) -> OsString {
    let path = env::var_os(variable).unwrap_or_else(|| {
        panic!("{variable} is not set: run `make test`, or first eval \"$(make -s env)\" for cargo by hand")
    });
    assert!(Path::new(&path).exists(), "{variable} is {}, which `make test` installs", path.display());
    path
}

fn path_of(folder: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(name)
}

/// The output of the script, if it came to its end.
#[track_caller]
fn run(mut command: Command, name: &str) -> String {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{} cannot be started: {error}", command.get_program().display()));
    let process = Pid::from_child(&child);
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    let output = ended.recv_timeout(TIME_MAX).unwrap_or_else(|_| {
        let _ = kill_process(process, Signal::KILL);
        panic!("{name} did not end within {TIME_MAX:?}")
    });
    let output = output.expect("its output can be read");
    let (said, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let passed = output.status.success() && said.lines().last() == Some("passed");
    assert!(passed, "{name}: {}\n{said}{complaint}", output.status);
    said.into_owned()
}
