//! `cairn`: CairnDB's command-line tool. Each command has a file of its own; this one parses the arguments and
//! turns errors into exit statuses.

#![deny(unsafe_code)]

mod allocator;
mod argument;
mod aside;
#[cfg(feature = "shell")]
mod ask;
mod backup;
mod batch;
mod clause;
mod command;
mod compact;
mod compressed;
mod describe;
mod dump;
mod dumped;
mod export;
mod extended_json;
mod failure;
mod figures;
mod fingerprint;
mod format;
mod grid;
mod import;
mod inspect;
mod interruptible;
mod listing;
mod log;
#[cfg_attr(not(feature = "shell"), allow(dead_code, reason = "only query and shell color answers"))]
mod look;
mod migrate;
mod operations;
mod output;
mod overview;
mod password;
mod patterns;
mod plain;
mod positions;
mod regular;
mod restore;
mod restore_backup;
mod salvage;
mod schema;
#[cfg(feature = "shell")]
mod script;
mod sequences;
mod serve;
#[cfg(feature = "shell")]
mod shell;
mod sign;
mod signals;
mod standard;
mod stats;
mod store;
mod talk;
mod tips;
mod user;
mod utf16;
mod verify;
mod version;
mod watch;

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use rustix::fs::Mode;

use crate::failure::{Exit, Failure, exit_of};

/// A document store in a folder.
#[derive(Debug, Parser)]
#[command(name = "cairn", version, arg_required_else_help = true)]
#[command(after_help = "\
Exit status: 0 all is done, 1 failed, 2 wrong command line, 3 done but not
all, 4 differences were found, 5 open in another process, 6 no store that can
be opened, 130 and 143 ended by a signal.

Examples:
  cairn serve shop-data
  cairn import shop-data shop.orders orders.csv
  cairn export shop-data shop.orders orders.ndjson
  cairn query shop-data 'db.orders.find({total: {$gt: 20}})'
  cairn dump shop-data shop-dump
  cairn restore other-data shop-dump
  cairn migrate shop-data --to mongodb://db.example/ --plan")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Arguments),
    User(user::Arguments),
    Backup(backup::Arguments),
    Compact(compact::Arguments),
    Dump(Box<dump::Arguments>),
    Export(Box<export::Arguments>),
    Import(Box<import::Arguments>),
    Inspect(inspect::Arguments),
    Kill(operations::KillArguments),
    Migrate(Box<migrate::Arguments>),
    Ops(operations::Arguments),
    #[cfg(feature = "shell")]
    Query(Box<ask::Arguments>),
    Restore(Box<restore::Arguments>),
    RestoreBackup(restore_backup::Arguments),
    Salvage(salvage::Arguments),
    Schema(schema::Arguments),
    Sequences(sequences::Arguments),
    #[cfg(feature = "shell")]
    Shell(Box<shell::Arguments>),
    Stats(stats::Arguments),
    Verify(verify::Arguments),
    Watch(Box<watch::Arguments>),
    Completions(describe::Completions),
    Man(describe::Man),
    Version(version::Arguments),
}

impl Command {
    /// Rejects a standard output that was closed before anything is done, where what is asked for goes there.
    fn check_output(&self) -> Result<(), Failure> {
        let is_printed = match self {
            #[cfg(feature = "shell")]
            Self::Query(_) | Self::Shell(_) => true,
            Self::Inspect(_) | Self::Salvage(_) | Self::Sequences(_) | Self::Stats(_) | Self::Verify(_) => {
                true
            }
            Self::Ops(_) | Self::Schema(_) | Self::Watch(_) => true,
            Self::Completions(_) | Self::Man(_) | Self::Version(_) => true,
            // Documents that go there, and lists, find out by themselves.
            Self::Backup(_) | Self::Compact(_) | Self::Dump(_) | Self::Export(_) | Self::Import(_) => false,
            Self::Migrate(_) | Self::Restore(_) | Self::Serve(_) | Self::User(_) => false,
            Self::Kill(_) | Self::RestoreBackup(_) => false,
        };
        if is_printed || std::env::args_os().any(|word| word == "--json") {
            return standard::check_output();
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    allocator::return_large_blocks();
    // Before any file is made: RocksDB makes files all the time, and with the usual mask every user of the
    // machine could read them.
    let users = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    output::set_users_mask(users.bits());
    let parsed = command().try_get_matches().and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(mut refused) => {
            let command = std::env::args_os().nth(1).unwrap_or_default();
            tips::correct(&mut refused, command.to_str());
            return refuse(&refused);
        }
    };
    if let Err(closed) = arguments.command.check_output() {
        report(&closed);
        return ExitCode::from(closed.exit as u8);
    }
    let done = match arguments.command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::User(arguments) => user::run(arguments).map_err(Box::<dyn Error>::from),
        Command::Backup(arguments) => backup::run(&arguments).map_err(Box::<dyn Error>::from),
        Command::Compact(arguments) => compact::run(&arguments).map_err(Box::<dyn Error>::from),
        Command::Dump(arguments) => dump::run(&arguments).map_err(Box::<dyn Error>::from),
        Command::Export(arguments) => export::run(&arguments).map_err(Box::<dyn Error>::from),
        Command::Restore(arguments) => restore::run(&arguments).map_err(Box::<dyn Error>::from),
        Command::Import(arguments) => import::run(&arguments).map_err(Box::<dyn Error>::from),
        Command::Inspect(arguments) => inspect::run(&arguments).map_err(Box::<dyn Error>::from),
        Command::Kill(arguments) => operations::kill(&arguments).map_err(Box::<dyn Error>::from),
        Command::Ops(arguments) => operations::run(&arguments).map_err(Box::<dyn Error>::from),
        Command::Schema(arguments) => schema::run(&arguments).map_err(Box::<dyn Error>::from),
        Command::RestoreBackup(arguments) => restore_backup::run(&arguments).map_err(Box::<dyn Error>::from),
        Command::Migrate(arguments) => migrate::run(&arguments).map_err(Box::<dyn Error>::from),
        #[cfg(feature = "shell")]
        Command::Query(arguments) => ask::run(&arguments).map_err(Box::<dyn Error>::from),
        Command::Salvage(arguments) => salvage::run(&arguments).map_err(Box::<dyn Error>::from),
        Command::Sequences(arguments) => sequences::run(&arguments).map_err(Box::<dyn Error>::from),
        #[cfg(feature = "shell")]
        Command::Shell(arguments) => shell::run(&arguments).map_err(Box::<dyn Error>::from),
        Command::Stats(arguments) => stats::run(&arguments).map_err(Box::<dyn Error>::from),
        Command::Verify(arguments) => verify::run(&arguments).map_err(Box::<dyn Error>::from),
        Command::Watch(arguments) => watch::run(&arguments).map_err(Box::<dyn Error>::from),
        Command::Completions(arguments) => {
            describe::completions(&arguments, command()).map_err(Box::<dyn Error>::from)
        }
        Command::Man(arguments) => describe::man(&arguments, command()).map_err(Box::<dyn Error>::from),
        Command::Version(arguments) => version::run(&arguments).map_err(Box::<dyn Error>::from),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&*error);
            ExitCode::from(status(&*error) as u8)
        }
    }
}

/// The command line, as it is parsed and described.
fn command() -> clap::Command {
    overview::with_groups(Arguments::command())
}

/// Says what is wrong with the command line, in a report if it asks for one.
fn refuse(refused: &clap::Error) -> ExitCode {
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into()).collect();
    let Some(line) = refusal(refused, &words) else { return explain(refused) };
    // If documents would have gone to standard output, the report does not.
    let is_output_taken = matches!(words.first().map(String::as_str), Some("export" | "query"))
        || words.first().is_some_and(|name| name == "dump") && is_to_standard_output(&words);
    if is_output_taken {
        talk::write_line(&mut std::io::stderr(), &line);
    } else {
        // The status is the same if it cannot be written.
        let _ = output::print_line(&line);
    }
    ExitCode::from(Exit::Usage as u8)
}

/// Whether a dump goes to standard output.
fn is_to_standard_output(words: &[String]) -> bool {
    words.iter().any(|word| word == "--archive=-") || words.windows(2).any(|pair| pair == ["--archive", "-"])
}

/// Prints help, the version, or what is wrong with the command line.
fn explain(refused: &clap::Error) -> ExitCode {
    let text = refused.to_string();
    if refused.use_stderr() && text.chars().any(|character| character.is_control() && character != '\n') {
        // Words of the command line, which may be names of files. There are no colors then.
        for line in text.lines() {
            talk::write_line(&mut std::io::stderr(), line);
        }
        return ExitCode::from(u8::try_from(refused.exit_code()).unwrap_or(Exit::Usage as u8));
    }
    let is_open = if refused.use_stderr() { Ok(()) } else { standard::check_output() };
    let printed =
        is_open.and_then(|()| output::written(refused.print().and_then(|()| std::io::stdout().flush())));
    match printed {
        Err(failure) if !refused.use_stderr() => {
            report(&failure);
            ExitCode::from(failure.exit as u8)
        }
        _ => ExitCode::from(u8::try_from(refused.exit_code()).unwrap_or(Exit::Usage as u8)),
    }
}

/// The report about a command line that makes no sense. Returns `None` if it asks for none: also for help, and for commands
/// that have no reports.
fn refusal(refused: &clap::Error, words: &[String]) -> Option<String> {
    let (name, options) = words.split_first()?;
    let command = Arguments::command();
    let has_reports = command.find_subcommand(name)?.get_arguments().any(|option| option.get_id() == "json");
    if !refused.use_stderr() || !has_reports || !options.iter().any(|word| word == "--json") {
        return None;
    }
    let text = refused.to_string();
    // The first paragraph says what is wrong; what follows is help.
    let first: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let message = first.join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let report = talk::Report {
        command: name,
        elapsed: std::time::Duration::ZERO,
        counts: Vec::new(),
        names: Vec::new(),
        found: Vec::new(),
        failure: Some(Failure::usage(message)),
    };
    Some(report.line())
}

/// The exit status of an error, or of the first of its causes that has one.
fn status(error: &(dyn Error + 'static)) -> Exit {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(failure) = error.downcast_ref::<Failure>() {
            return failure.exit;
        }
        if let Some(error) = error.downcast_ref::<cairndb::Error>() {
            return exit_of(error);
        }
        cause = error.source();
    }
    Exit::Failed
}

/// Prints an error and its causes on one line.
fn report(error: &(dyn Error + 'static)) {
    if error.downcast_ref::<Failure>().is_some_and(|failure| failure.is_told) {
        return;
    }
    let mut causes = error.source();
    let mut line = format!("cairn: {error}");
    while let Some(cause) = causes {
        line = format!("{line}: {cause}");
        causes = cause.source();
    }
    talk::write_line(&mut std::io::stderr(), &line);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &clap::Command) {
        let name = command.get_name();
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let is_described = argument.get_help().is_some_and(|help| help.to_string().len() > 10);
            let is_own = !matches!(argument.get_id().as_str(), "help" | "version");
            assert!(is_described || !is_own, "{name}: {} has no sentence", argument.get_id());
        }
        for inner in command.get_subcommands() {
            check(inner);
        }
    }

    #[test]
    fn every_option_has_a_sentence_and_every_command_an_example() {
        let command = super::command();
        overview::tests::check(&command);
        command.clone().debug_assert();
        check(&command);
        for inner in command.get_subcommands() {
            let help = inner.get_after_help().map(ToString::to_string).unwrap_or_default();
            let own = format!("  cairn {}", inner.get_name());
            assert!(help.contains(&own), "{} has no example", inner.get_name());
        }
    }

    /// The examples of a text, as a shell reads them: a backslash at the end of a line joins it with the next one.
    fn examples(help: &str) -> Vec<String> {
        let joined = help.replace("\\\n", " ");
        let lines = joined.lines().skip_while(|line| *line != "Examples:").skip(1);
        lines.filter(|line| !line.starts_with("      ")).map(|line| line.trim().to_owned()).collect()
    }

    /// A line that a terminal of 80 columns breaks is not a command any more.
    #[test]
    fn every_example_is_printed_as_it_is_written_and_is_a_command() {
        let mut command = super::command().term_width(80);
        command.build();
        let mut helps = vec![command.clone()];
        helps.extend(command.get_subcommands().cloned());
        let mut count = 0;
        for mut help in helps {
            let name = help.get_name().to_owned();
            let Some(written) = help.get_after_help().map(ToString::to_string) else { continue };
            let printed = help.render_long_help().to_string();
            assert!(printed.contains(&written), "{name}: {printed}");
            for example in examples(&written) {
                assert!(example.contains("cairn "), "{name}: {example} is no example");
                let words = shlex::split(&example).unwrap_or_else(|| panic!("{name}: {example} is cut"));
                for part in words
                    .split(|word| word == "|")
                    .filter(|part| part.first().is_some_and(|word| word == "cairn"))
                {
                    // A redirection of the shell is not a part of the command.
                    let end = part
                        .iter()
                        .position(|word| [">", ">>", "<"].contains(&word.as_str()))
                        .unwrap_or(part.len());
                    let parsed = Arguments::try_parse_from(&part[..end]);
                    assert!(parsed.is_ok(), "{name}: {example}: {}", parsed.map(drop).unwrap_err());
                    count += 1;
                }
            }
        }
        assert!(count > 50, "only {count} examples");
    }

    #[test]
    fn a_refused_command_line_is_reported_if_it_asks_for_reports() {
        let refusal = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let refused =
                Arguments::try_parse_from([&["cairn".to_owned()][..], &words].concat()).unwrap_err();
            super::refusal(&refused, &words)
        };
        assert_eq!(
            refusal(&["compact", "db", "--json", "--fast"]).unwrap(),
            "{\"command\":\"compact\",\"ok\":false,\"elapsedMs\":0,\"error\":{\"kind\":\"usage\",\
             \"message\":\"unexpected argument '--fast' found\"}}"
        );
        let missing = refusal(&["import", "--json"]).unwrap();
        assert!(missing.contains("<STORE>") && missing.contains("DB.COLLECTION"), "{missing}");
        for words in [
            &["compact", "db", "--fast"][..],
            &["compact", "--json", "--help"],
            &["serve", "--json"],
            &["unknown", "--json"],
        ] {
            assert_eq!(refusal(words), None, "{words:?}");
        }
    }
}
