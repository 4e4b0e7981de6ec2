//! `--mongosh`: MongoDB's own shell before the store. A folder is served to it on a socket that only this user reaches, and
//! the server ends with the shell.

use std::process::Command;

use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Exit, Failure};
use crate::shell::Arguments;
use crate::shell::{database, open};
use crate::signals::Signals;
use crate::store::remote::percent_encoded;
use crate::store::session::PrivateFolder;
use crate::store::uri;

/// Runs the shell with more arguments. Returns its status.
pub(super) fn run(arguments: &Arguments, more: &[String]) -> Result<i32, Failure> {
    if let Some(uri) = uri(&arguments.store) {
        if arguments.read_only {
            return Err(Failure::usage(
                "--read-only with --mongosh is for folders: the server decides what is allowed",
            ));
        }
        return hand_over(&uri, more);
    }
    let signals = Signals::idle()?;
    let opened = open(arguments, &signals)?;
    let database = database(arguments, &opened.session)?;
    let private = PrivateFolder::make()?;
    let own = private.path.join("cairn.sock");
    // Ended after the shell, at the end of this function.
    let running = opened.session.serve(&own)?;
    let socket = if running.is_some() { own } else { std::path::absolute(&arguments.store).unwrap_or(own) };
    let name = percent_encoded(socket.as_os_str().as_encoded_bytes());
    hand_over(&format!("mongodb://{name}/{}", percent_encoded(database.as_bytes())), more)
}

/// Starts the shell and waits for its end. It is in the same group as this process, so that the terminal sends Ctrl-C to
/// both; what that means is the shell's to decide. SIGTERM ends both.
fn hand_over(uri: &str, more: &[String]) -> Result<i32, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(
            Exit::Failed,
            format!("mongosh cannot be started: {error}. It is MongoDB's shell, and must be in the PATH"),
        )
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let status = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut ended = signal(SignalKind::child())?;
        let mut child = Command::new("mongosh").arg(uri).args(more).spawn()?;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            tokio::select! {
                _ = ended.recv() => {}
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {
                    let process = rustix::process::Pid::from_child(&child);
                    // It may have ended by itself meanwhile.
                    let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
                }
            }
        }
    });
    let status = status.map_err(failed)?;
    Ok(status.code().unwrap_or(Exit::Failed as i32))
}
