//! `cairn`: CairnDB's command-line tool. Each command has a file of its own; this one parses the arguments.

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
    // Before any file is made: RocksDB makes files all the time, and with the usual mask every user of the
    // machine could read them.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let done = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(arguments).map_err(Box::<dyn Error>::from),
        Command::User(arguments) => user::run(arguments).map_err(Box::<dyn Error>::from),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&*error);
            ExitCode::FAILURE
        }
    }
}

/// Prints an error and its causes on one line.
#[expect(clippy::print_stderr, reason = "a command-line tool reports its errors there")]
fn report(error: &dyn Error) {
    let mut causes = error.source();
    let mut line = format!("cairn: {error}");
    while let Some(cause) = causes {
        line = format!("{line}: {cause}");
        causes = cause.source();
    }
    eprintln!("{line}");
}
