//! `cairn user` as a process.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use cairndb::Client;

fn user(arguments: &[&str], path: &Path, more: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cairn"));
    command.arg("user").args(arguments).arg(path).args(more);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    // Who refuses before it reads has closed its end.
    let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
    child.wait_with_output().expect("ended")
}

#[track_caller]
fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn refused(output: &Output, words: &str) {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && complaint.contains(words), "{complaint}");
}

#[test]
fn users_are_added_listed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    done(&user(&["add"], &path, &["ada"], "correct horse\n"));
    done(&user(&["add"], &path, &["report", "--read-only"], "battery"));
    assert_eq!(done(&user(&["list"], &path, &[], "")), "ada root\nreport readAnyDatabase\n");
    refused(&user(&["add"], &path, &["ada"], "other\n"), "there is a user \"ada\" already");
    refused(&user(&["add"], &path, &["bob"], "\n"), "the password is empty");
    refused(&user(&["add"], &path, &["bob"], &"p".repeat(5000)), "longer than 4096 bytes");
    refused(&user(&["add"], &path, &["b\tob"], "secret\n"), "\"b\\tob\"");
    refused(&user(&["add"], &path, &["bob", "secret"], ""), "unexpected argument");
    done(&user(&["remove"], &path, &["ada"], ""));
    refused(&user(&["remove"], &path, &["ada"], ""), "there is no user \"ada\"");
    assert_eq!(done(&user(&["list"], &path, &[], "")), "report readAnyDatabase\n");
}

#[test]
fn a_folder_that_is_not_there_or_in_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    refused(&user(&["list"], &path, &[], ""), "there is no database");
    refused(&user(&["remove"], &path, &["ada"], ""), "there is no database");
    assert!(!path.exists());
    let held = Client::open(&path).unwrap();
    for (action, name) in [("add", "ada"), ("remove", "ada")] {
        let output = user(&[action], &path, &[name], "secret\n");
        refused(&output, "is open in another process (pid ");
        refused(&output, "give the socket");
        assert_eq!(output.status.code(), Some(5));
    }
    held.close().unwrap();
}

#[test]
fn a_password_is_changed_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    refused(&user(&["password"], &path, &["ada"], "secret\n"), "there is no database");
    assert!(!path.exists());
    done(&user(&["add"], &path, &["ada"], "correct horse\n"));
    refused(&user(&["password"], &path, &["bob"], "secret\n"), "there is no user \"bob\"");
    refused(&user(&["password"], &path, &["ada"], "\n"), "the password is empty");
    let words = folder.path().join("words.txt");
    std::fs::write(&words, "battery staple\n").unwrap();
    let words = words.to_str().unwrap();
    let of_login = user(&["password"], &path, &["ada", "--password-file", words], "");
    refused(&of_login, "--new-password-file");
    assert_eq!(of_login.status.code(), Some(2));
    done(&user(&["password"], &path, &["ada", "--new-password-file", words], "ignored\n"));
    assert_eq!(done(&user(&["list"], &path, &[], "")), "ada root\n");
    #[cfg(feature = "remote")]
    logs_in(&path, "ada", "battery staple");
    let held = Client::open(&path).unwrap();
    let output = user(&["password"], &path, &["ada"], "secret\n");
    refused(&output, "give the socket");
    assert_eq!(output.status.code(), Some(5));
    held.close().unwrap();
}

/// The new password counts at once; what the login needs is asked for by itself.
#[cfg(feature = "remote")]
#[test]
fn a_password_is_changed_on_a_running_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    done(&user(&["add"], &path, &["ada"], "correct horse\n"));
    done(&user(&["add"], &path, &["report", "--read-only"], "battery\n"));
    let (mut server, place) = served(&path);
    let uri = |name: &str| std::path::PathBuf::from(format!("mongodb://{name}@{place}/"));
    let change = |login: (&str, &str), name: &str, password: &str| {
        let words = folder.path().join("login.txt");
        std::fs::write(&words, login.1).unwrap();
        let more = [name, "--password-file", words.to_str().unwrap()];
        user(&["password"], &uri(login.0), &more, &format!("{password}\n"))
    };
    done(&change(("ada", "correct horse"), "report", "staple"));
    refused(&change(("report", "battery"), "report", "stolen"), "uthentication failed");
    done(&change(("report", "staple"), "report", "cell"));
    refused(&change(("report", "cell"), "ada", "stolen"), "not authorized");
    refused(&change(("ada", "correct horse"), "bob", "secret"), "bob@admin");
    refused(&change(("ada", "correct horse"), "ada", ""), "the password is empty");
    done(&change(("ada", "correct horse"), "ada", "mule"));
    server.kill().expect("it runs");
    server.wait().expect("ended");
    logs_in(&path, "ada", "mule");
    logs_in(&path, "report", "cell");
}

/// The password that a user got is the one that a server finds right.
#[cfg(feature = "remote")]
#[track_caller]
fn logs_in(path: &Path, name: &str, password: &str) {
    let (mut server, place) = served(path);
    let mut stats = Command::new(env!("CARGO_BIN_EXE_cairn"));
    stats.args(["stats", &format!("mongodb://{name}@{place}/"), "--quiet"]).env("CAIRN_PASSWORD", password);
    let output = stats.output().expect("ended");
    server.kill().expect("it runs");
    server.wait().expect("ended");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A server whose users must log in, and its socket as a URI has it.
#[cfg(feature = "remote")]
fn served(path: &Path) -> (std::process::Child, String) {
    let mut server = Command::new(env!("CARGO_BIN_EXE_cairn"));
    let socket = path.with_extension("sock");
    server
        .arg("serve")
        .arg(path)
        .args(["--port", "0", "--auth", "--log-level", "off", "--exit-with-parent", "--unix-socket"])
        .arg(&socket);
    let mut server = server.stdout(Stdio::piped()).spawn().expect("started");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(server.stdout.take().expect("piped")));
    lines
        .find(|line| line.as_ref().is_ok_and(|line| line.contains(&*socket.to_string_lossy())))
        .expect("it listens")
        .expect("text");
    let place = socket.to_str().expect("a path").replace('/', "%2F");
    (server, place)
}

#[cfg(feature = "remote")]
#[test]
fn a_password_comes_from_a_file_or_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let words = folder.path().join("words.txt");
    std::fs::write(&words, "from a file\nand no more\n").unwrap();
    let words = words.to_str().unwrap();
    let add = |name: &str, more: &[&str], variable: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cairn"));
        command.args(["user", "add"]).arg(&path).arg(name).args(more).stdin(Stdio::null());
        if let Some(password) = variable {
            command.env("CAIRN_PASSWORD", password);
        }
        command.output().expect("ended")
    };
    // The file counts before the environment.
    done(&add("file", &["--password-file", words], Some("from elsewhere")));
    done(&add("variable", &[], Some("from the environment")));
    logs_in(&path, "file", "from a file");
    logs_in(&path, "variable", "from the environment");
    refused(&add("none", &[], None), "the password is empty");
    refused(&add("none", &["--password-file", "/nonexistent"], None), "/nonexistent");
    let long = folder.path().join("long.txt");
    std::fs::write(&long, "p".repeat(5000)).unwrap();
    refused(&add("none", &["--password-file", long.to_str().unwrap()], None), "longer than 4096 bytes");
}

#[test]
fn passwords_are_stored_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    done(&user(&["add"], &path, &["ada"], "correct horse\n"));
    let mut looked_at = 0;
    for entry in std::fs::read_dir(&path).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap_or_default();
        looked_at += bytes.len();
        assert!(!bytes.windows(13).any(|window| window == b"correct horse"));
    }
    assert!(looked_at > 0);
}
