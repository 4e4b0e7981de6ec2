//! `cairn query`: what an expression of the shell's language gives, for scripts and pipes.

mod answer;
mod people;

use std::path::PathBuf;
use std::time::Instant;

use cairndb::bson::{RawBson, RawBsonRef};
use clap::ValueEnum;
use rquickjs::{Ctx, Value};

use crate::argument::content;
use crate::ask::answer::{Ask, Found, List};
use crate::ask::people::People;
use crate::export::{Table, form, lossy_documents};
use crate::extended_json::{Layout, Mode, lay_out_value};
use crate::failure::{Exit, Failure};
use crate::figures::{DOCUMENTS, counted};
use crate::listing::{databases, named};
use crate::look::Coloring;
use crate::script::{self, Engine, Target};
use crate::signals::Signals;
use crate::store::session::{Session, Writes};
use crate::store::{Access, Documents};
use crate::talk::{Report, Talk};

/// Prints the value of an expression in MongoDB's shell language.
///
/// The documents of a cursor are printed as they come, one a line. Another value is printed as it is: a document or an array as
/// Extended JSON, a text as text. At a terminal documents are a table where one shows all of them, and else indented.
///
/// The store is a folder, a Unix socket or a URI. A folder is opened for reading, also while another process has it open;
/// an expression that writes opens it for writing, which needs the folder for this process alone.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn query shop-data 'db.orders.find({total: {$gt: 20}}).limit(3)'
      documents, one a line
  cairn query shop-data -c orders '{customer: /^Ada/}' --format csv
      the documents that match a filter, as CSV
  cairn query shop-data -c orders --format table \\
    '[{$group: {_id: \"$customer\", n: {$sum: 1}}}]'
      the results of a pipeline
  cairn query shop.sock 'db.orders.countDocuments()'
      a number, from a running server
  cairn query shop-data -c orders '{total: 20}' --explain
      what the search would look at")]
pub(crate) struct Arguments {
    /// The store: a folder, a Unix socket, or a URI (`mongodb://` or `mongodb+srv://`).
    store: PathBuf,
    /// An expression, as `db.orders.find()`; with `--collection` a filter, or a pipeline if it is an array. `@FILE` reads a
    /// file, and `-` standard input.
    expression: String,
    /// The database that `db` means, unless there is only one.
    #[arg(long, value_name = "NAME", help_heading = "Expression")]
    db: Option<String>,
    /// Read EXPRESSION as a filter or a pipeline for this collection.
    #[arg(short, long, value_name = "NAME", help_heading = "Expression")]
    collection: Option<String>,
    /// The format of documents; without it `ndjson`, and at a terminal a table or indented documents.
    #[arg(long, help_heading = "Answers")]
    format: Option<Form>,
    /// Print canonical Extended JSON, which keeps every type; in the formats `ndjson` and `json` alone.
    #[arg(long, help_heading = "Answers")]
    canonical: bool,
    /// Print what the search would look at, and not its documents.
    #[arg(long, help_heading = "Answers")]
    explain: bool,
    #[command(flatten)]
    coloring: Coloring,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    talk: Talk,
}

/// The format of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Extended JSON, a document on each line.
    Ndjson,
    /// One array of Extended JSON.
    Json,
    /// Columns for people.
    Table,
    /// RFC 4180, with the paths of the first 1,000 documents as columns.
    Csv,
}

impl Arguments {
    /// Extended JSON as it is printed: on one line, or at a terminal indented, unless a line for each document is asked for.
    fn layout(&self) -> Layout {
        let mode = if self.canonical { Mode::Canonical } else { Mode::Relaxed };
        let look = self.coloring.look();
        let is_indented = look.is_terminal && self.format != Some(Form::Ndjson);
        Layout { mode, indent: is_indented.then_some(0), look }
    }

    /// The format of a cursor's documents.
    fn form(&self) -> Result<Box<dyn form::Form>, Failure> {
        let layout = self.layout();
        Ok(match self.format {
            None if layout.indent.is_some() && !self.canonical => {
                Box::new(People::or_indented(width(), layout))
            }
            None | Some(Form::Ndjson) => Box::new(form::Lines { layout }),
            Some(Form::Json) => {
                // Documents are a level below the array.
                let layout = Layout { indent: layout.indent.map(|level| level + 1), ..layout };
                Box::new(form::OneArray { layout, is_first: true })
            }
            Some(Form::Csv) => Box::new(Table::new(b',', "auto", false)?),
            Some(Form::Table) => Box::new(People::new(width(), layout.look)),
        })
    }
}

/// Runs the command and reports. Returns the exit status if not all was done.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.talk.start_log();
    let started = Instant::now();
    let (mut printed, mut missing) = (0, None);
    let done = Signals::watch().and_then(|signals| {
        let done = query(arguments, &signals, &mut printed, &mut missing);
        signals.judge(done, format!("interrupted after {}", counted(printed, DOCUMENTS)))
    });
    let done = done.map_err(|failure| failure.after(printed, "printed"));
    let mut report = Report {
        command: "query",
        elapsed: started.elapsed(),
        counts: vec![("documents", printed)],
        names: missing.into_iter().map(|name| ("absent", name)).collect(),
        found: Vec::new(),
        failure: done.err(),
    };
    if let Some((_, name)) = report.names.first() {
        arguments.talk.say(&format!("cairn: there is no collection {name}"));
    }
    arguments.talk.report(&mut report, true);
    report.failure.map_or(Ok(()), Err)
}

fn query(
    arguments: &Arguments,
    signals: &Signals,
    printed: &mut u64,
    missing: &mut Option<String>,
) -> Result<(), Failure> {
    // An error of the command line is found before anything is opened.
    if arguments.canonical && matches!(arguments.format, Some(Form::Csv | Form::Table)) {
        return Err(Failure::usage("--canonical is for the formats ndjson and json"));
    }
    let text = content("EXPRESSION", &arguments.expression, signals)?;
    let mut warn = |line: &str| arguments.talk.warn(line);
    let store = Session::open(&arguments.store, &arguments.access, Writes::WhenAsked, signals, &mut warn)?;
    let database = match &arguments.db {
        Some(name) => name.clone(),
        None => only_database(databases(&store)?)?,
    };
    let shown = database.clone();
    let target = Target {
        store: Box::new(store),
        store_name: arguments.store.display().to_string(),
        database,
        keeps_read: true,
        look: arguments.coloring.look(),
    };
    script::on_thread(|| {
        let engine = Engine::new(target, script::memory(&arguments.access), signals.clone())?;
        evaluate(arguments, &engine, &text, printed)?;
        // It may be mistyped. As in MongoDB, it is not an error: a search finds nothing in it.
        *missing = absent(arguments, &engine, &shown);
        Ok(())
    })
}

/// The database that is meant if none is named.
fn only_database(mut names: Vec<String>) -> Result<String, Failure> {
    // The databases of every server are not those that the user has stored.
    if names.len() > 1 {
        names.retain(|name| name != "admin");
    }
    if names.len() > 1 {
        return Err(Failure::usage(format!("give --db: there are {}", names.join(", "))));
    }
    // As in mongosh, where there is none.
    Ok(names.pop().unwrap_or_else(|| "test".to_owned()))
}

fn evaluate(arguments: &Arguments, engine: &Engine, text: &str, printed: &mut u64) -> Result<(), Failure> {
    if let Some(shown) = shell_words(arguments, engine, text)? {
        engine.print_text(&format!("{shown}\n"))?;
        return engine.flush().map(drop);
    }
    let shown = match arguments.collection {
        Some(_) => engine.evaluate_value("EXPRESSION", text, |ctx, value| {
            print_answer(arguments, engine, ctx, value, printed)
        }),
        None => engine
            .evaluate("EXPRESSION", text, |ctx, value| print_answer(arguments, engine, ctx, value, printed)),
    };
    match shown {
        Ok(shown) => shown?,
        // The signal itself is judged by the caller.
        Err(stopped) => stopped.into_exit().and_then(|code| match code {
            0 => Ok(()),
            code => Err(Failure::new(Exit::Failed, format!("exit({code}) was called"))),
        })?,
    }
    engine.sync()
}

/// The answers to the words `show …` and `help` of the shell, which are not JavaScript.
fn shell_words(arguments: &Arguments, engine: &Engine, text: &str) -> Result<Option<String>, Failure> {
    let is_word = |text: &str| text == "help" || text.starts_with("show ");
    if arguments.collection.is_some() || !is_word(text.trim()) {
        return Ok(None);
    }
    script::words(engine, text).or_else(|stopped| stopped.into_exit().map(|_| None))
}

/// Prints the answer that a value is. The inner error is of the printing.
fn print_answer<'js>(
    arguments: &Arguments,
    engine: &Engine,
    ctx: &Ctx<'js>,
    value: Value<'js>,
    printed: &mut u64,
) -> rquickjs::Result<Result<(), Failure>> {
    let ask = Ask { collection: arguments.collection.as_deref(), is_explained: arguments.explain };
    let found = answer::of(ctx, engine, &ask, value)?;
    // The output of the expression comes before its value.
    Ok(engine
        .flush()
        .and_then(|is_wanted| if is_wanted { show(arguments, engine, found, printed) } else { Ok(()) }))
}

/// The collection of `--collection`, if the database has none of this name. An error is left to the search, which came to its end.
fn absent(arguments: &Arguments, engine: &Engine, database: &str) -> Option<String> {
    let name = arguments.collection.as_deref().filter(|_| !engine.is_to_stop())?;
    let is_there = engine.stream(database, named(name).ok()?).ok()?.advance().ok()?;
    (!is_there).then(|| format!("{database}.{name}"))
}

/// Prints what an expression gave.
fn show(arguments: &Arguments, engine: &Engine, found: Found<'_>, printed: &mut u64) -> Result<(), Failure> {
    let rows: Box<dyn Documents + '_> = match found {
        Found::Nothing => return Ok(()),
        Found::Text(text) => {
            engine.print_text(&format!("{text}\n"))?;
            return engine.flush().map(drop);
        }
        Found::Stream { database, command } => engine.stream(&database, command)?,
        Found::Rows(rows) => Box::new(rows),
        Found::Value(value) => match (arguments.format, value) {
            (Some(Form::Csv | Form::Table), RawBson::Document(document)) => {
                Box::new(List::of(vec![document]))
            }
            (Some(Form::Csv | Form::Table), RawBson::Array(array)) => match List::of_array(&array) {
                Some(list) => Box::new(list),
                None => return print_value(arguments, engine, RawBson::Array(array).as_raw_bson_ref()),
            },
            (_, value) => return print_value(arguments, engine, value.as_raw_bson_ref()),
        },
    };
    print_rows(arguments, engine, rows, printed)
}

fn print_value(arguments: &Arguments, engine: &Engine, value: RawBsonRef<'_>) -> Result<(), Failure> {
    let mut line = Vec::new();
    lay_out_value(&mut line, value, arguments.layout())?;
    line.push(b'\n');
    engine.print(&line)?;
    engine.flush().map(drop)
}

/// Prints documents as they come.
fn print_rows(
    arguments: &Arguments,
    engine: &Engine,
    mut rows: Box<dyn Documents + '_>,
    printed: &mut u64,
) -> Result<(), Failure> {
    let mut form = arguments.form()?;
    // The cells of CSV are as they are stored, which a terminal might obey.
    let is_csv = arguments.format == Some(Form::Csv);
    let print = |bytes: &[u8]| {
        if is_csv { engine.print_text(&String::from_utf8_lossy(bytes)) } else { engine.print(bytes) }
    };
    let (mut bytes, mut lossy) = (Vec::new(), 0_u64);
    form.begin(&mut bytes);
    while !engine.is_to_stop() && rows.advance()? {
        // A table shows what fits, and people see that.
        let is_lossy = form.write(&mut bytes, rows.current())?.is_some();
        lossy += u64::from(is_lossy && arguments.format != Some(Form::Table));
        *printed += 1;
        if !print(&bytes)? {
            return Ok(());
        }
        bytes.clear();
    }
    form.end(&mut bytes)?;
    if print(&bytes)? {
        engine.flush()?;
    }
    if lossy > 0 {
        return Err(Failure::new(Exit::Partly, lossy_documents(lossy)));
    }
    Ok(())
}

/// The columns of the terminal, or what most have.
fn width() -> usize {
    rustix::termios::tcgetwinsize(std::io::stdout()).map_or(80, |size| usize::from(size.ws_col).max(40))
}
