//! `cairn shell`: MongoDB's shell language over a store, for scripts, for standard input, and at a terminal.

mod complete;
mod history;
#[cfg(feature = "remote")]
mod mongosh;
mod terminal;

use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};

use tracing_subscriber::filter::LevelFilter;

use crate::failure::{Exit, Failure};
use crate::interruptible::Interruptible;
use crate::listing::databases;
use crate::log;
use crate::look::Coloring;
use crate::script::statement::Statement;
use crate::script::{self, Engine, Stopped, Target, read_script};
use crate::signals::Signals;
use crate::store::folder::WITH_SOCKET;
use crate::store::session::{Session, Writes};
use crate::store::{Access, uri};
use crate::talk::warn;

/// The name of standard input in errors.
const INPUT: &str = "standard input";
/// The longest statement of standard input.
const STATEMENT_BYTES_MAX: usize = 64 << 20;

/// Runs scripts, or what is typed, in MongoDB's shell language.
///
/// Without scripts and without --eval it reads statements from a terminal or from standard input. The language is JavaScript with mongosh's names; `help` at the prompt lists them. Scripts run one after the other in one
/// world; an error that none of them catches ends the shell with status 1, and `exit(n)` with status n. A script that
/// `load` names is read from a file, and nothing else of files, processes or the network is within reach.
///
/// The store is a folder, a Unix socket or a URI. A folder that another process has open is opened for reading, and the
/// prompt says so.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn shell shop-data
      statements at the terminal
  cairn shell shop-data counters.js --db shop
      a script
  cairn shell shop-data --eval 'db.orders.countDocuments({total: {$gt: 20}})'
      one statement, whose value is printed
  echo 'show collections' | cairn shell shop.sock --read-only
      statements from standard input, for a running server
  cairn shell shop-data --mongosh --quiet --norc
      MongoDB's own shell, on a server that ends with it")]
pub(crate) struct Arguments {
    /// The store: a folder, a Unix socket, or a URI (`mongodb://` or `mongodb+srv://`).
    store: PathBuf,
    /// Scripts to run, in this order.
    #[arg(value_name = "SCRIPT")]
    scripts: Vec<PathBuf>,
    /// The database that `db` means at first; without it the only one that there is, or `test`.
    #[arg(long, value_name = "NAME")]
    db: Option<String>,
    /// Run this code after the scripts, and print its value.
    #[arg(long, value_name = "CODE")]
    eval: Option<String>,
    /// Reject whatever writes.
    #[arg(long)]
    read_only: bool,
    /// Start MongoDB's own shell instead, with all arguments that follow. A folder is served to it on a private socket.
    #[arg(long, value_name = "ARGS", num_args = 0.., allow_hyphen_values = true, conflicts_with_all = ["scripts", "eval"])]
    mongosh: Option<Vec<String>>,
    #[command(flatten)]
    access: Access,
    /// Leave out the greeting.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    coloring: Coloring,
    /// The level of the engine's and the driver's log on standard error: off, error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", default_value = "off")]
    log_level: LevelFilter,
}

/// The store of the shell, and its settings.
struct Opened {
    session: Session,
    is_read_only: bool,
}

/// Runs the command, and ends the process with the status that a script asks for.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    log::start(arguments.log_level);
    let code = match &arguments.mongosh {
        #[cfg(feature = "remote")]
        Some(more) => mongosh::run(arguments, more)?,
        #[cfg(not(feature = "remote"))]
        Some(_) => {
            return Err(Failure::usage(
                "--mongosh needs the feature `remote`, which this build of cairn lacks",
            ));
        }
        None => shell(arguments)?,
    };
    match code {
        0 => Ok(()),
        // Everything is closed by now. As the system does, the status is cut to eight bits.
        code => std::process::exit(code & 0xff),
    }
}

fn open(arguments: &Arguments, signals: &Signals) -> Result<Opened, Failure> {
    let open = |writes| Session::open(&arguments.store, &arguments.access, writes, signals, &mut warn);
    if arguments.read_only {
        return Ok(Opened { session: open(Writes::Refused)?, is_read_only: true });
    }
    match open(Writes::Allowed) {
        Ok(session) => Ok(Opened { session, is_read_only: false }),
        Err(failure) if failure.exit == Exit::Elsewhere => {
            let mut session = open(Writes::Refused)?;
            session.refuse_writes_for(failure.clone());
            let told = failure.message.strip_suffix(WITH_SOCKET).unwrap_or(&failure.message);
            warn(&format!("{told}: it is opened for reading, as it is now"));
            Ok(Opened { session, is_read_only: true })
        }
        Err(failure) => Err(failure),
    }
}

/// The database that `db` means.
fn database(arguments: &Arguments, session: &Session) -> Result<String, Failure> {
    if let Some(name) = &arguments.db {
        return Ok(name.clone());
    }
    if let Some(name) = uri(&arguments.store).as_deref().and_then(database_of_uri) {
        return Ok(name);
    }
    let mut names = databases(session)?;
    names.retain(|name| name != "admin");
    match (names.pop(), names.is_empty()) {
        (Some(only), true) => Ok(only),
        (_, _) => Ok("test".to_owned()),
    }
}

/// The database that a URI names after its hosts.
fn database_of_uri(name: &str) -> Option<String> {
    let (scheme, rest) = name.split_once("://")?;
    let (_, path) = rest.split_once('/')?;
    let database = path.split('?').next().unwrap_or_default();
    (scheme.starts_with("mongodb") && !database.is_empty()).then(|| database.to_owned())
}

/// The store as the shell names it: a URI may have a password, and is shown by its scheme.
fn shown_name(name: &str) -> String {
    match name.split_once("://") {
        Some((scheme, rest)) => {
            let hosts = rest.split(['/', '?']).next().unwrap_or_default();
            let hosts = hosts.rsplit_once('@').map_or(hosts, |(_, hosts)| hosts);
            format!("{scheme}://{hosts}")
        }
        None => name.to_owned(),
    }
}

fn shell(arguments: &Arguments) -> Result<i32, Failure> {
    let signals = Signals::watch()?;
    // Scripts that cannot be read are found before anything runs.
    let mut scripts = Vec::new();
    for path in &arguments.scripts {
        let text = signals.judge(read_script(path, &signals), "interrupted")?;
        scripts.push((path.as_path(), text));
    }
    let opened = open(arguments, &signals).and_then(|opened| {
        let database = database(arguments, &opened.session)?;
        Ok((opened, database))
    });
    let (opened, database) = signals.judge(opened, "interrupted")?;
    let target = Target {
        database,
        store: Box::new(opened.session),
        store_name: shown_name(&arguments.store.to_string_lossy()),
        keeps_read: false,
        look: arguments.coloring.look(),
    };
    script::on_thread(|| {
        let engine = Engine::new(target, script::memory(&arguments.access), signals.clone())?;
        let done = work(arguments, &engine, &scripts, opened.is_read_only);
        // Output before an error comes before its message.
        let flushed = engine.flush();
        let code = done.or_else(Stopped::into_exit)?;
        flushed?;
        // Exit 0 means that all is on stable storage.
        engine.sync()?;
        Ok(code)
    })
}

fn work(
    arguments: &Arguments,
    engine: &Engine,
    scripts: &[(&Path, String)],
    is_read_only: bool,
) -> Result<i32, Stopped> {
    for (path, text) in scripts {
        engine.run_script(path, text)?;
    }
    if let Some(code) = &arguments.eval {
        statement(engine, "--eval", code)?;
    }
    if !scripts.is_empty() || arguments.eval.is_some() {
        return Ok(0);
    }
    if std::io::stdin().is_terminal() {
        return terminal::run(engine, is_read_only, arguments.quiet);
    }
    from_input(engine)
}

/// Runs a statement and prints what it gives.
fn statement(engine: &Engine, name: &str, text: &str) -> Result<(), Stopped> {
    let shown = match script::words(engine, text)? {
        Some(shown) => Some(shown),
        None => engine.evaluate(name, text, |ctx, value| {
            let result: rquickjs::Function = script::cairn(ctx)?.get("result")?;
            let shown: rquickjs::Value = result.call((value,))?;
            if shown.is_undefined() { Ok(None) } else { script::text(ctx, &shown).map(Some) }
        })?,
    };
    if let Some(shown) = shown {
        engine.print_text(&format!("{shown}\n")).map_err(Stopped::Uncaught)?;
    }
    Ok(())
}

/// Runs the statements of standard input, up to the first that fails.
fn from_input(engine: &Engine) -> Result<i32, Stopped> {
    let signals = engine.signals();
    let failed = |error: std::io::Error| match signals.received() {
        Some(exit) => Stopped::Signal(exit),
        None => Stopped::Uncaught(Failure::io(INPUT, &error)),
    };
    let mut input = BufReader::new(Interruptible::standard(&signals).map_err(failed)?);
    let (mut text, mut first, mut line) = (String::new(), 0, 0);
    let mut scanned = Statement::default();
    loop {
        let before = text.len();
        let read = input.read_line(&mut text).map_err(failed)?;
        line += 1;
        if text.len() > STATEMENT_BYTES_MAX {
            return Err(Stopped::Uncaught(Failure::usage("a statement has at most 64 MiB")));
        }
        if read > 0 && scanned.push(text.get(before..).unwrap_or_default()) {
            continue;
        }
        scanned = Statement::default();
        if !text.trim().is_empty() {
            statement(engine, &script::name_from_line(INPUT, first), &text)?;
            // A reader that waits for an answer before it sends more.
            if !engine.flush().map_err(Stopped::Uncaught)? {
                return Ok(0);
            }
        }
        if read == 0 {
            return Ok(0);
        }
        text.clear();
        first = line;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_a_database_and_is_shown_without_its_password() {
        assert_eq!(database_of_uri("mongodb://a,b:1/shop?tls=true"), Some("shop".to_owned()));
        assert_eq!(database_of_uri("mongodb://a/?tls=true"), None);
        assert_eq!(database_of_uri("mongodb://a"), None);
        assert_eq!(database_of_uri("some/folder"), None);
        assert_eq!(shown_name("mongodb://ada:secret@a:1,b/shop"), "mongodb://a:1,b");
        assert_eq!(shown_name("a/b"), "a/b");
    }
}
