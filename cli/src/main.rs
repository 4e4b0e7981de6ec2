//! `cairn`: CairnDB's tool. Each command has a file of its own; this one reads the command line.

#![forbid(unsafe_code)]

mod serve;
mod user;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rustix::fs::Mode;

/// A document store in a folder.
#[derive(Debug, Parser)]
#[command(name = "cairn", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Arguments),
    User(user::Arguments),
}

fn main() -> ExitCode {
    // Whatever it makes is its owner's alone: RocksDB makes files all the time that would be everybody's to read.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let done = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(arguments).map_err(Box::<dyn Error>::from),
        Command::User(arguments) => user::run(arguments).map_err(Box::<dyn Error>::from),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&*error);
            ExitCode::FAILURE
        }
    }
}

/// Says what went wrong, and why, on one line.
#[expect(clippy::print_stderr, reason = "it is a command-line tool, and this is how it speaks")]
fn complain(error: &dyn Error) {
    let mut causes = error.source();
    let mut line = format!("cairn: {error}");
    while let Some(cause) = causes {
        line = format!("{line}: {cause}");
        causes = cause.source();
    }
    eprintln!("{line}");
}
