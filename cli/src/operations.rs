//! `cairn ops` and `cairn kill`: what a running server is at work on, and the end of one of these.

use std::path::PathBuf;
use std::time::Instant;

use cairndb::bson::{Bson, Document, doc};

use crate::command::raw;
use crate::failure::{Exit, Failure};
use crate::figures::count;
use crate::grid::{Grid, or_nothing};
use crate::output::print;
use crate::plain::plain;
use crate::signals::Signals;
use crate::store::{Access, Store, open_server};
use crate::talk::{Report, Talk, warn};

/// Shows what a running server is at work on.
///
/// These are the commands with their numbers, how long they have run, and for whom. The command that asks is left out, and so are greetings, by which clients wait for a server's changes. `cairn kill` ends one of the others.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn ops shop.sock
  cairn ops shop.sock --json
      everything that the server reports of them")]
pub(crate) struct Arguments {
    /// The server: a Unix socket, or a URI (`mongodb://` or `mongodb+srv://`).
    #[arg(value_name = "SERVER")]
    server: PathBuf,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    talk: Talk,
}

/// Ends a command that a running server is at work on.
///
/// The number is that of `cairn ops`. The command's client gets an error; what the command has written stays.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn kill shop.sock 4711")]
pub(crate) struct KillArguments {
    /// The server: a Unix socket, or a URI (`mongodb://` or `mongodb+srv://`).
    #[arg(value_name = "SERVER")]
    server: PathBuf,
    /// The number of the command.
    #[arg(value_name = "NUMBER")]
    operation: String,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    talk: Talk,
}

/// Lists what the server is at work on.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let talk = &arguments.talk;
    talk.start_log();
    let started = Instant::now();
    let mut found = Vec::new();
    let done = Signals::watch().and_then(|signals| {
        let listed = open_server("ops", &arguments.server, &arguments.access, &signals, &mut warn)
            .and_then(|server| operations(&*server));
        signals.judge(listed, "interrupted").map(|operations| found = operations)
    });
    let done = done.and_then(|()| if talk.json { Ok(()) } else { print(table(&found).as_bytes()).map(drop) });
    let mut report = Report {
        command: "ops",
        elapsed: started.elapsed(),
        counts: vec![("operations", found.len() as u64)],
        names: Vec::new(),
        found: vec![("list", found.iter().cloned().map(Bson::Document).collect())],
        failure: done.err(),
    };
    talk.report(&mut report, false);
    if report.failure.is_none() && found.is_empty() {
        talk.say("the server is at work on nothing else");
    }
    report.failure.map_or(Ok(()), Err)
}

/// Ends one of them.
pub(crate) fn kill(arguments: &KillArguments) -> Result<(), Failure> {
    let talk = &arguments.talk;
    talk.start_log();
    let started = Instant::now();
    let done = Signals::watch().and_then(|signals| {
        let done = open_server("kill", &arguments.server, &arguments.access, &signals, &mut warn)
            .and_then(|server| end(&*server, &arguments.operation));
        signals.judge(done, "interrupted")
    });
    let mut report = Report {
        command: "kill",
        elapsed: started.elapsed(),
        counts: Vec::new(),
        names: vec![("operation", arguments.operation.clone())],
        found: Vec::new(),
        failure: done.err(),
    };
    talk.report(&mut report, false);
    if report.failure.is_none() {
        talk.say(&format!("operation {} was asked to end", arguments.operation));
    }
    report.failure.map_or(Ok(()), Err)
}

fn end(server: &dyn Store, number: &str) -> Result<(), Failure> {
    let meant = operations(server)?.into_iter().find(|one| number_of(one).as_deref() == Some(number));
    // The server says nothing of a number that there is not.
    let Some(meant) = meant else {
        let message = format!("the server is at work on no operation {number}: cairn ops lists them");
        return Err(Failure::new(Exit::Failed, message));
    };
    let op = meant.get("opid").cloned().unwrap_or(Bson::Null);
    server.run("admin", raw(&doc! { "killOp": 1, "op": op })?).map(drop)
}

/// The commands by which clients see that a server is there. They wait for its changes, and are not work.
const GREETINGS: [&str; 3] = ["hello", "isMaster", "ismaster"];

/// The running operations of the server, except greetings and the command that asks.
fn operations(server: &dyn Store) -> Result<Vec<Document>, Failure> {
    let reply = server.run("admin", raw(&doc! { "currentOp": 1 })?)?;
    let all = reply.get_array("inprog").map(Vec::as_slice).unwrap_or_default();
    let is_work = |one: &&Document| {
        let name = one.get_document("command").ok().and_then(|command| command.keys().next());
        name.is_none_or(|name| name != "currentOp" && !GREETINGS.contains(&name.as_str()))
    };
    Ok(all.iter().filter_map(Bson::as_document).filter(is_work).cloned().collect())
}

fn number_of(operation: &Document) -> Option<String> {
    let number = operation.get("opid")?;
    // Of a cluster it has the name of a shard.
    Some(number.as_str().map_or_else(|| number.to_string(), str::to_owned))
}

fn table(operations: &[Document]) -> String {
    let mut grid = Grid::new(4, &["number", "command", "collection", "client", "seconds"]);
    for one in operations {
        let text = |name: &str| plain(one.get_str(name).unwrap_or_default());
        let command = one.get_document("command").ok().and_then(|command| command.keys().next().cloned());
        let seconds =
            one.get_i64("secs_running").or_else(|_| one.get_i32("secs_running").map(i64::from)).ok();
        let seconds = seconds.map(|seconds| count(u64::try_from(seconds).unwrap_or_default()));
        grid.row(vec![
            or_nothing(number_of(one)),
            plain(&command.unwrap_or_else(|| text("op"))),
            text("ns"),
            text("client"),
            or_nothing(seconds),
        ]);
    }
    let mut out = String::new();
    grid.write(&mut out);
    out
}
