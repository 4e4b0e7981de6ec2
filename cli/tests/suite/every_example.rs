//! Whatever a reader is shown to type is run: the blocks of all pages and the examples of all helps. Here run those that other
//! suites leave out: servers, addresses of other machines, and scripts for a shell. What no test can run is a table below.
//!
//! Lines are run as they are printed but for what a machine may not have: names of hosts, `/mnt/backups`, and a port that is
//! taken.

#![cfg(all(feature = "remote", feature = "shell"))]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cairndb::bson::doc;
use tempfile::TempDir;

use crate::fixture::cairn;
use crate::fixture::examples::{command_of, help, names_another_host, root};

/// The suites that run the examples of commands, but those that name another host.
const SUITES: [(&str, &str); 19] = [
    ("import", "examples"),
    ("export", "examples"),
    ("query", "examples"),
    ("shell", "examples"),
    ("backup", "examples"),
    ("compact", "examples"),
    ("verify", "examples"),
    ("salvage", "examples"),
    ("restore-backup", "examples"),
    ("schema", "examples"),
    ("watch", "examples"),
    ("ops", "examples"),
    ("kill", "examples"),
    ("user", "examples"),
    ("dump", "restore"),
    ("restore", "restore"),
    ("stats", "sequences"),
    ("sequences", "sequences"),
    ("inspect", "inspect"),
];

/// Blocks that no test can run: page, first line, reason.
const NOT_RUN: [(&str, &str, &str); 6] = [
    (
        "CONTRIBUTING.md",
        "eval \"$(make -s env)\"",
        "installs what the machine lacks; whatever runs this test has done it",
    ),
    ("CONTRIBUTING.md", "make test lint", "runs this test"),
    (
        "docs/building.md",
        "cargo install --path rocksdb      # in a checkout of CairnDB; it links no C++",
        "downloads crates, and compiles RocksDB for minutes where it is not in the cache; the tests of cairndb-rocksdb run the \
         tool on a project whose sources are small",
    ),
    (
        "docs/building.md",
        "CXXFLAGS=\"-msse4.2 -mpclmul\" cargo build",
        "compiles RocksDB file by file, which takes 20 minutes",
    ),
    (
        "docs/building.md",
        "export CXX_aarch64_unknown_linux_gnu=aarch64-linux-gnu-g++ AR_aarch64_unknown_linux_gnu=aarch64-linux-gnu-ar",
        "needs the compilers of another machine, and compiles RocksDB for it",
    ),
    (
        "docs/clients.md",
        "mongosh --quiet --norc mongodb://127.0.0.1:27017/shop",
        "is typed into mongosh; the clients' suite runs such lines as scripts",
    ),
];

/// The users of all servers have this password.
const PASSWORD: &str = "correct horse";

/// What a reader types after each other, in one folder.
struct Session {
    /// The page or the help.
    name: String,
    lines: Vec<String>,
}

/// A server that an example has started.
struct Running {
    child: Child,
    line: String,
    /// Where it listens, as it has printed it.
    address: String,
    metrics: Option<String>,
}

/// The folder in which a session is typed.
struct Place {
    folder: TempDir,
    /// Stands for the servers that the examples name.
    other: Option<Running>,
}

impl Running {
    /// Starts what a line says, and reads where it listens.
    fn start(place: &Place, line: &str) -> Self {
        let mut shell = place.shell(&format!("exec {line}"));
        let mut child =
            shell.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("there is a shell");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut next = || {
            let printed = lines.next().unwrap_or_else(|| panic!("{line} has ended"));
            printed.expect("it is UTF-8")
        };
        let first = next();
        let address = first.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}: {first}"));
        if line.contains("--unix-socket") {
            assert_eq!(next(), "listening on shop.sock", "{line}");
        }
        let metrics = line
            .contains("--metrics")
            .then(|| next().strip_prefix("metrics at http://").expect("an address").to_owned());
        Self { child, line: line.to_owned(), address: address.to_owned(), metrics }
    }

    /// The address for the user `ada`, as a client on this machine writes it.
    fn uri_for(&self, user: &str) -> String {
        let local = self.address.replace("0.0.0.0", "localhost");
        let with_user = local.replace("mongodb://", &format!("mongodb://{user}@"));
        let mut uri = with_user;
        if uri.contains("tls=true") {
            uri += "&tlsCAFile=shop.pem";
        }
        // Else a client goes to the address that the server tells it, which is not this machine's.
        if self.line.contains("--advertise") {
            uri += "&directConnection=true";
        }
        uri
    }

    /// Asks the server what its example promises.
    fn serves(&self, place: &Place) {
        let must_log_in = self.line.contains("--auth") || self.line.contains("--tls-certificate");
        let ask = |uri: &str| {
            let line = format!("cairn query '{uri}' --db shop 'db.stats().db' --quiet");
            place.shell(&line).output().expect("there is a shell")
        };
        let output = ask(&if must_log_in { self.uri_for("ada") } else { self.address.clone() });
        assert_eq!(output.stdout, b"shop\n", "{}: {output:?}", self.line);
        if must_log_in {
            let refused = ask(&self.uri_for("ada").replace("ada@", ""));
            assert_ne!(refused.status.code(), Some(0), "{}", self.line);
        }
        if let Some(metrics) = &self.metrics {
            let (host, path) = metrics.split_at(metrics.find('/').expect("a path"));
            let mut stream = TcpStream::connect(host).expect("it listens");
            write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("sent");
            let mut page = String::new();
            stream.read_to_string(&mut page).expect("an answer");
            assert!(page.contains(" 200 ") && page.contains("cairndb_"), "{page}");
        }
    }

    /// Ends the server as an operator does.
    fn end(mut self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("it runs");
        assert!(self.child.wait().expect("it ends").success(), "{}", self.line);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended in order has no process any more.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Place {
    /// A store `shop-data` with orders, and the files that examples name.
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().expect("it works"), other: None };
        for folder in
            ["backups", "home/.local/share/bash-completion/completions", "home/.config/fish/completions"]
        {
            std::fs::create_dir_all(place.path(folder)).expect("it works");
        }
        for file in ["password.txt", "ada.txt"] {
            place.file(file, format!("{PASSWORD}\n").as_bytes());
        }
        place.file("orders.csv", b"_id,total\n101,20\n102,30\n");
        place.file("totals.json", b"[{\"$group\": {\"_id\": null, \"total\": {\"$sum\": \"$total\"}}}]");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let order = cairndb::bson::serialize_to_vec(&doc! { "_id": 201, "total": 5 }).expect("it works");
        gzip.write_all(&order).expect("it works");
        place.file("orders.bson.gz", &gzip.finish().expect("it works"));
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        for (file, label, bytes) in [
            ("shop.pem", "CERTIFICATE", made.cert.der().to_vec()),
            ("shop.key", "PRIVATE KEY", made.signing_key.serialize_der()),
        ] {
            let text =
                format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(bytes));
            place.file(file, text.as_bytes());
        }
        place.runs(
            "echo '{\"_id\": 1, \"total\": 20}' | cairn import shop-data shop.orders - --format ndjson",
        );
        place
    }

    /// The same beside a server that stands for those of other machines, with the user `ada`.
    fn beside_another() -> Self {
        let mut place = Self::new();
        place.runs("cairn user add other-server ada");
        let running = Running::start(&place, "cairn serve other-server --port 0 --log-level warn");
        place.other = Some(running);
        place.at_other("db.counters.insertOne({_id: \"orders\", seq: 1})");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).expect("it works");
    }

    /// A line as a shell of the reader runs it.
    fn shell(&self, line: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_cairn")).parent().and_then(Path::to_str).expect("a path");
        let search = format!("{program}:{}", std::env::var("PATH").expect("it is set"));
        let mut shell = Command::new("sh");
        shell.args(["-ec", line]).current_dir(self.folder.path()).env("PATH", &search);
        shell.env("HOME", self.path("home")).env("CAIRN_PASSWORD", PASSWORD).stdin(Stdio::null());
        shell
    }

    /// Runs a line that comes to its end.
    #[track_caller]
    fn runs(&self, line: &str) -> Output {
        let output = self.shell(line).output().expect("there is a shell");
        assert_eq!(output.status.code(), Some(0), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// Evaluates an expression at the other server. Returns what is printed.
    fn at_other(&self, expression: &str) -> String {
        let address = &self.other.as_ref().expect("it runs").address;
        let output = self.runs(&format!("cairn query {address} --db shop '{expression}'"));
        String::from_utf8(output.stdout).expect("it is UTF-8")
    }

    /// The line with what this machine has in place of what it has not.
    fn here(&self, line: &str) -> String {
        let mut line = line.replace("/mnt/backups", self.path("backups").to_str().expect("a path"));
        if let Some(other) = &self.other {
            let uri = &other.address;
            for host in ["mongodb+srv://ada@cluster.example/", "mongodb://ada@db.example/"] {
                line = line.replace(host, &other.uri_for("ada"));
            }
            line = line.replace("mongodb://db.example/", uri);
        }
        if line.starts_with("cairn serve") {
            if !line.contains("--port") && !is_free(27017) {
                line = line.replace("cairn serve", "cairn serve --port 0");
            }
            if !is_free(9216) {
                line = line.replace(":9216", ":0");
            }
        }
        line
    }

    /// What has to be so for the next line, beside what the lines before have made.
    fn prepare(&self, line: &str) {
        if line.contains("migrate shop-data --from") {
            std::fs::remove_dir_all(self.path("shop-data")).expect("it is there");
        }
        if line.starts_with("cairn export mongodb") {
            self.at_other("db.orders.insertOne({_id: 1, total: 20})");
        }
    }

    /// Looks at what a line has made.
    fn look(&self, line: &str, output: &Output) {
        if let Some((command, file)) = line.split_once(" > ").filter(|_| !line.contains('|')) {
            let made = std::fs::read_to_string(self.path(&file.replace("~/", "home/"))).expect("it is there");
            let word = if command.contains("completions") { "salvage" } else { ".TH" };
            assert!(made.contains(word), "{line}: {made}");
        } else if matches!(command_of(line), Some("version")) || line.contains("--plan") {
            assert!(!output.stdout.is_empty(), "{line}");
        } else if line.contains("migrate shop-data --from") {
            let field = self.runs("cairn query shop-data --db shop 'db.orders.autoIncrements()[0].Field'");
            assert_eq!(field.stdout, b"number\n", "{line}");
        } else if names_another_host(line) && !line.contains("export") {
            let orders = self.at_other("db.orders.countDocuments() > 0");
            assert_eq!(orders, "true\n", "{line}");
        }
    }
}

/// Whether nothing listens on a port of this machine.
fn is_free(port: u16) -> bool {
    TcpListener::bind(("0.0.0.0", port)).is_ok()
}

/// Types the lines of a session. Servers run until a line needs their folder.
fn type_in(place: &Place, session: &Session) {
    let mut running: Option<Running> = None;
    for line in &session.lines {
        if !line.contains("shop.sock") || line.starts_with("cairn serve") {
            running.take().into_iter().for_each(Running::end);
        }
        place.prepare(line);
        let here = place.here(line);
        if line.starts_with("cairn serve") {
            let server = Running::start(place, &here);
            server.serves(place);
            running = Some(server);
        } else {
            let output = place.runs(&here);
            place.look(line, &output);
        }
    }
    running.into_iter().for_each(Running::end);
}

/// The lines below `Examples:`, without the words that explain them.
fn examples(command: &str) -> Vec<String> {
    let text = help(command).replace("\\\n", " ");
    let below = text.lines().skip_while(|line| *line != "Examples:").skip(1);
    let typed = below.filter(|line| line.starts_with("  ") && !line.starts_with("      "));
    typed.map(|line| line.trim().to_owned()).collect()
}

/// The names of the tool's commands, as its help lists them; the first is that of the tool itself, which is empty.
fn commands() -> Vec<String> {
    let text = help("");
    // They stand in groups, each below its heading, before the options.
    let listed = text.lines().take_while(|line| *line != "Options:").filter(|line| line.starts_with("  "));
    let names = listed.filter_map(|line| line.split_whitespace().next());
    std::iter::once("").chain(names.filter(|name| *name != "help")).map(str::to_owned).collect()
}

/// The page of the tool has the commands in the groups of the help.
#[test]
fn the_groups_of_the_help_are_those_of_the_page() {
    let page = std::fs::read_to_string(root().join("docs/tools.md")).expect("it is there");
    let text = help("");
    let listed = text.split("\n\n").skip(2).take_while(|group| !group.starts_with("Options:"));
    let mut count = 0;
    for group in listed {
        let (heading, lines) = group.split_once(":\n").expect("a group has a heading");
        let names = lines.lines().filter_map(|line| line.split_whitespace().next());
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        let row = format!("| {heading} | {} |", names.join(", "));
        assert!(page.contains(&row), "the page has not the row {row}");
        count += names.len();
    }
    // And `help`, and without the tool itself.
    assert_eq!(count, commands().len());
}

/// The options of long commands stand in groups; one without a group would be beside `--help`.
#[test]
fn the_options_of_long_commands_stand_in_groups() {
    for command in ["import", "export", "serve", "dump", "restore", "migrate", "query"] {
        let text = help(command);
        let own = text.split("\n\n").find(|part| part.starts_with("Options:\n")).expect("it has options");
        assert_eq!(own.matches("--").count(), own.matches("--help").count(), "{command}: {own}");
        let printed = cairn_man(command);
        assert!(printed.matches(".SH ").count() >= 8, "{command}: {printed}");
    }
}

fn cairn_man(command: &str) -> String {
    let output = cairn().args(["man", command]).output().expect("it runs");
    String::from_utf8(output.stdout).expect("it is UTF-8")
}

/// The pages of the project, by their path.
fn pages() -> Vec<String> {
    let (root, mut found) = (root(), Vec::new());
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).expect("it works") {
            let entry = entry.expect("it works");
            let name = entry.file_name().into_string().expect("a name");
            let path = folder.join(&name);
            let kind = entry.file_type().expect("it works");
            if kind.is_symlink()
                || name.starts_with('.')
                || matches!(name.as_str(), "target" | "node_modules")
            {
                continue;
            }
            if kind.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path.to_str().expect("a path").to_owned());
            }
        }
    }
    found.sort();
    found
}

/// The blocks of a page for a shell, a line each element. The suite `guide` types those of the guide, of the README and of the
/// page of the tool that are `console`.
fn blocks(page: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join(page)).expect("it works").replace("\\\n", "");
    // The engine's page is the README once more.
    let is_typed_by_guide =
        matches!(page, "README.md" | "engine/README.md" | "docs/tools.md") || page.starts_with("docs/guide/");
    let (mut blocks, mut language) = (Vec::<Vec<String>>::new(), None);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("```") {
            language = language.is_none().then_some(name);
            let is_opened = match language {
                Some("sh" | "bash" | "shell") => true,
                Some("console") => !is_typed_by_guide,
                _ => false,
            };
            if is_opened {
                blocks.push(Vec::new());
            }
            continue;
        }
        let typed = match language {
            Some("sh" | "bash" | "shell") => Some(line),
            Some("console") if !is_typed_by_guide => line.strip_prefix("$ "),
            _ => None,
        };
        if let (Some(typed), Some(block)) = (typed.filter(|typed| !typed.is_empty()), blocks.last_mut()) {
            block.push(typed.to_owned());
        }
    }
    blocks
}

fn is_run_elsewhere(line: &str) -> bool {
    let command = command_of(line);
    !names_another_host(line) && SUITES.iter().any(|(name, _)| command == Some(*name))
}

fn is_listed(page: &str, block: &[String]) -> bool {
    let first = block.first().map(String::as_str);
    NOT_RUN.iter().any(|(listed, line, _)| *listed == page && first == Some(line))
}

/// What is left to be run here. Where lines of a page or a help need each other, all of them are.
fn sessions() -> Vec<Session> {
    let mut sessions = Vec::new();
    for command in commands() {
        let mut lines = examples(&command);
        if !matches!(command.as_str(), "" | "serve") {
            lines.retain(|line| !is_run_elsewhere(line));
        }
        sessions.push(Session { name: format!("cairn help {command}"), lines });
    }
    for page in pages() {
        let mut lines: Vec<String> =
            blocks(&page).into_iter().filter(|block| !is_listed(&page, block)).flatten().collect();
        if page == "docs/tools.md" {
            lines.retain(|line| !is_run_elsewhere(line));
        }
        sessions.push(Session { name: page, lines });
    }
    sessions.retain(|session| !session.lines.is_empty());
    sessions
}

/// All in one test: some of them listen on the same port.
#[test]
fn what_no_other_suite_runs_is_run_here() {
    let mut names = Vec::new();
    for session in sessions() {
        let is_beside_another = session.lines.iter().any(|line| line.contains(".example/"));
        let place = if is_beside_another { Place::beside_another() } else { Place::new() };
        type_in(&place, &session);
        names.push(session.name);
    }
    for name in ["cairn help ", "cairn help serve", "cairn help man", "docs/server.md", "docs/tools.md"] {
        assert!(names.iter().any(|run| run == name), "{name} has nothing to run: {names:?}");
    }
}

#[test]
fn a_block_that_is_not_run_is_on_its_page() {
    for (page, line, reason) in NOT_RUN {
        let is_there = blocks(page).iter().any(|block| block.first().is_some_and(|first| first == line));
        assert!(is_there && !reason.is_empty(), "{page} has no block that begins with {line}");
    }
}

#[test]
fn the_suites_that_are_relied_on_run_examples() {
    for (command, suite) in SUITES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/suite/{suite}.rs"));
        let text = std::fs::read_to_string(path).expect("it works");
        assert!(text.contains("printed(source, "), "{suite} runs no examples");
        assert!(text.contains(&format!("\"{command}\"")), "{suite} does not name {command}");
    }
}
