//! A real server: the process `cairn serve` on a free port, over a folder of its own.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use cairndb_tests::scratch::{Scratch, small};
use rustix::process::{Pid, Signal, kill_process};

/// The environment variable that names another `cairn` than the one that was built beside the suite.
const CAIRN_VARIABLE: &str = "CAIRNDB_CAIRN";

/// A running server.
pub struct Cairn {
    child: Child,
    address: SocketAddr,
    metrics: Option<String>,
    scratch: Arc<Scratch>,
}

impl Cairn {
    /// Starts a server over an empty folder.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server over an empty folder, with more arguments.
    pub fn start_with(arguments: &[&str]) -> Self {
        Self::start_over(Scratch::new(), arguments)
    }

    /// Starts a server over an empty folder to which one user may log in.
    pub fn start_for_user(name: &str, password: &str, arguments: &[&str]) -> Self {
        let scratch = Scratch::new();
        add_user(&scratch, name, password, &[]);
        Self::start_over(scratch, &[&["--auth"], arguments].concat())
    }

    /// Starts a server over an empty folder to which `root` and these readers may log in, all with the same password. Its log
    /// is on a disk that is full.
    pub fn start_for_readers(readers: &[&str], password: &str, arguments: &[&str]) -> Self {
        let scratch = Scratch::new();
        add_user(&scratch, "root", password, &[]);
        for reader in readers {
            add_user(&scratch, reader, password, &["--read-only"]);
        }
        let full = File::options().write(true).open("/dev/full").expect("the system has it");
        Self::start_logging_to(scratch, &[&["--auth"], arguments].concat(), full)
    }

    /// Starts a server over a folder that is used before or after it.
    pub fn start_in(scratch: &Arc<Scratch>, arguments: &[&str]) -> Self {
        Self::start_over(Arc::clone(scratch), arguments)
    }

    fn start_over(scratch: impl Into<Arc<Scratch>>, arguments: &[&str]) -> Self {
        let scratch = scratch.into();
        let log = File::create(log_of(&scratch)).expect("the folder takes files");
        Self::start_logging_to(scratch, arguments, log)
    }

    fn start_logging_to(scratch: impl Into<Arc<Scratch>>, arguments: &[&str], log: File) -> Self {
        let scratch = scratch.into();
        let mut child = Command::new(program())
            .arg("serve")
            .arg(scratch.path())
            .args(["--port", "0", "--log-level", "warn"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{} cannot be started: {error}", program().display()));
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        let mut stdout = BufReader::new(stdout);
        stdout.read_line(&mut line).expect("a line of text");
        let address =
            line.trim().strip_prefix("listening on mongodb://").and_then(|rest| rest.strip_suffix('/'));
        let Some(address) = address.and_then(|address| address.parse().ok()) else {
            panic!("cairn did not say where it listens, but {line:?}: {}", read_log(&scratch))
        };
        let metrics = arguments.contains(&"--metrics").then(|| {
            let mut line = String::new();
            stdout.read_line(&mut line).expect("a line of text");
            line.trim().strip_prefix("metrics at ").expect("where the metrics are").to_owned()
        });
        Self { child, address, metrics, scratch }
    }

    /// The place where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of its metrics, if it was started with `--metrics`.
    pub fn metrics(&self) -> Option<&str> {
        self.metrics.as_deref()
    }

    /// Its number in the system.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// The number of bytes of its memory; `None` where the system has no `/proc`.
    pub fn resident_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
    }

    /// The URI for drivers and shells.
    pub fn uri(&self) -> String {
        uri(self.address)
    }

    /// Kills the server, if it is not dead already.
    pub fn kill(mut self) {
        // Fails only if it ended by itself.
        let _ = self.child.kill();
        self.child.wait().expect("it was started here");
    }

    /// Ends the server in order, and proves that what it stored agrees with itself.
    #[track_caller]
    pub fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it runs");
        let status = self.child.wait().expect("it was started here");
        assert!(status.success(), "{status}: {}", read_log(&self.scratch));
        let client = self.scratch.open_with(small());
        let report = client.verify().expect("the store can be read");
        assert!(report.is_clean(), "{report:?}");
        client.close().expect("nothing is left to write");
    }
}

impl Drop for Cairn {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // Both fail only if it ended meanwhile.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("the server's log: {}", read_log(&self.scratch));
        }
    }
}

fn add_user(scratch: &Scratch, name: &str, password: &str, arguments: &[&str]) {
    let mut adding = Command::new(program())
        .args(["user", "add"])
        .args([scratch.path().as_os_str(), name.as_ref()])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{} cannot be started: {error}", program().display()));
    writeln!(adding.stdin.take().expect("it is piped"), "{password}").expect("it reads");
    assert!(adding.wait().expect("it was started here").success());
}

/// The URI for drivers and shells, of an address.
pub fn uri(address: SocketAddr) -> String {
    format!("mongodb://{address}/?directConnection=true")
}

/// The path of the tool: beside the suite, as `make test` builds both.
pub fn program() -> PathBuf {
    if let Some(path) = env::var_os(CAIRN_VARIABLE) {
        return path.into();
    }
    let suite = env::current_exe().expect("a test is a file");
    let folder =
        suite.parent().and_then(|folder| folder.parent()).expect("it lies in the folder `deps` of a profile");
    let program = folder.join("cairn");
    assert!(
        program.exists(),
        "{} is not there: add `-p cairndb-cli` to the command, as `make test` does, or set {CAIRN_VARIABLE}",
        program.display()
    );
    program
}

fn log_of(scratch: &Scratch) -> PathBuf {
    scratch.folder().join("log")
}

fn read_log(scratch: &Scratch) -> String {
    fs::read_to_string(log_of(scratch)).unwrap_or_else(|error| error.to_string())
}
