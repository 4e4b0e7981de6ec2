//! The demo: what this engine is, in two minutes and on one screen. `make demo` runs it.
//!
//! Documents come from standard input as newline-delimited JSON, also as Extended JSON, and optionally compressed with Zstandard.
//! Without input they come from `cargo metadata`: the packages that CairnDB is built from. `demo [FOLDER]` keeps the stores in
//! that folder; without one they are in a folder that is removed at the end.
//!
//! Three processes run this program. The first one (here) waits, and removes the folder however the others end. The second tells
//! the story, and the third writes until the second kills it. No input makes the demo panic, and every failure is one line.

#![forbid(unsafe_code)]

mod duplicates;
mod json;
mod killed;
mod lines;
mod load;
mod numbering;
mod object_ids;
mod outcome;
mod packages;
mod questions;
mod raw;
mod screen;
mod source;
mod story;

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::signal::unix::{self, SignalKind};

use crate::outcome::{Outcome, complain};

const USAGE: &str = "usage: demo [FOLDER], with newline-delimited JSON on standard input if you like";
/// What the second and the third process are started with.
const STORY: &str = "--story";
const WRITER: &str = "--writer";
/// The status of a program that a signal ended, as shells report it: 128 and the number of SIGINT.
const INTERRUPTED: u8 = 130;
/// The time that a killed process may need to be gone.
const END_MAX: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match run(&arguments) {
        Ok(status) => status,
        // The reader of the output closed it, for example `head`: that is no failure.
        Err(error) if is_broken_pipe(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("demo: {}", sentence(error.as_ref())));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[OsString]) -> Outcome<ExitCode> {
    match arguments {
        [] => {
            let folder = tempfile::tempdir().map_err(|error| format!("no folder for the stores: {error}"))?;
            let status = supervise(folder.path());
            // An error of the story has been printed, and is worth more than one of this.
            let removed = folder.close();
            let status = status?;
            removed.map_err(|error| format!("its folder cannot be removed: {error}"))?;
            Ok(status)
        }
        [flag] if flag == "--help" || flag == "-h" => {
            writeln!(io::stdout(), "{USAGE}")?;
            Ok(ExitCode::SUCCESS)
        }
        [role, folder] if role == STORY => story::tell(Path::new(folder)).map(|()| ExitCode::SUCCESS),
        [role, folder] if role == WRITER => killed::write(Path::new(folder)).map(|()| ExitCode::SUCCESS),
        [path] if !path.as_encoded_bytes().starts_with(b"-") => {
            let folder = PathBuf::from(path);
            std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            supervise(&folder)
        }
        _ => Err(USAGE.into()),
    }
}

/// This program once more, in another role.
fn program(role: &str, folder: &Path) -> Outcome<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(role).arg(folder);
    Ok(command)
}

/// Runs the story in a process of its own, and ends it at a signal. The process that writes is in the same group, so that neither
/// of them outlives this call.
fn supervise(folder: &Path) -> Outcome<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Watched before there is a process that would outlive this one.
        let mut signals = Vec::new();
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            signals.push(unix::signal(kind)?);
        }
        let mut child = program(STORY, folder)?.process_group(0).spawn()?;
        let mut status = child.try_wait()?;
        while status.is_none() && !any_within(&mut signals, Duration::from_millis(20)).await {
            status = child.try_wait()?;
        }
        end(&mut child)?;
        let Some(status) = status else {
            complain("demo: interrupted");
            return Ok(ExitCode::from(INTERRUPTED));
        };
        ended(status)
    })
}

/// Whether a signal comes in time.
async fn any_within(signals: &mut [unix::Signal], time: Duration) -> bool {
    let [interrupt, terminate, hangup] = signals else { return false };
    let any = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    };
    tokio::time::timeout(time, any).await.is_ok()
}

/// Ends the child and all that it started, and returns when they are gone: until then they could write into the folder.
fn end(child: &mut Child) -> Outcome<()> {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or("a process without a number")?;
    // No such group exists if all of them have ended.
    let _ = kill_process_group(group, Signal::KILL);
    child.wait()?;
    let started = Instant::now();
    while test_kill_process_group(group).is_ok() && started.elapsed() < END_MAX {
        std::thread::yield_now();
    }
    Ok(())
}

fn ended(status: ExitStatus) -> Outcome<ExitCode> {
    match status.code() {
        Some(0) => Ok(ExitCode::SUCCESS),
        // It has said why.
        Some(_) => Ok(ExitCode::FAILURE),
        None => Err(format!("the process that tells the story ended by itself: {status}").into()),
    }
}

/// An error with all its causes, on one line.
fn sentence(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    let text = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
