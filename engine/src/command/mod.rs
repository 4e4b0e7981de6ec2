//! Commands: documents that call the verbs. Most are MongoDB's; those of sequences are CairnDB's own.
//!
//! The first field of a command is its name. The reply is a document with `ok: 1`. A rejected statement of a write is
//! listed in `writeErrors`; every other failure is an error of the call. Of a command that opens a cursor the caller gets the
//! cursor, or `firstBatch` has all documents. `getMore` belongs to a server.
//!
//! An unknown command, a command that only MongoDB has, and an unknown field of a command are three different errors.

mod aggregate;
mod bulk_write;
mod change_stream;
mod collections;
mod compact;
mod context;
mod cursor;
mod databases;
mod delete;
mod explain;
mod find;
mod find_and_modify;
mod indexes;
mod insert;
mod modify;
mod plan;
pub(crate) mod repeated;
mod request;
mod rules;
mod sequences;
mod update;
mod upserted_ids;
mod validate;
mod write_errors;

pub(crate) use self::context::CommandContext;
pub(crate) use self::cursor::Opened;
pub(crate) use self::request::{Body, Request};
pub use self::rules::CommandRules;

use base::codes::{refused, unsupported as not_supported};
use base::error::{Error, Result};
use bson::{Document, doc};
use query::code::Code;
use query::registry::Registry;

use crate::arguments::{Arguments, unsupported};
use crate::command::plan::Plan;
use crate::execute::explain::Depth;
use crate::outcomes::row::Kind;
use crate::transaction::refused_within;

/// Runs a command. Of a command that opens a cursor, the reply has all documents.
pub(crate) fn run(context: &CommandContext<'_>, request: &Request<'_>) -> Result<Document> {
    // Before anything is decoded: a small request may need very much memory once it is.
    let held = context.shared.reserve_for_request(request.check()?)?;
    let (body, batch) = request.read()?;
    let name = name(&body)?;
    let arguments = Arguments::of(name, &body).with(&batch);
    // Before the command runs: a concern that cannot be met must leave nothing written.
    arguments.check_write_concern()?;
    check_statement(context, name, &arguments)?;
    // The clock starts here: whatever the command calls shares one limit of time.
    let context = &context.begin(arguments.max_time()?);
    context.keep(held);
    let command = COMMANDS.get(name).ok_or_else(|| missing(name))?;
    let mut reply = match command.run {
        Run::Reply(run) => context.once(name, command.rules, &arguments, || {
            repeated::run(context, (name, &body), &arguments, |context, body| {
                run(context, &Arguments::of(name, body).with(&batch))
            })
        })?,
        // It opens no cursor then.
        Run::Cursor(_) if name == "aggregate" && aggregate::asks_for_plan(&arguments)? => {
            explain::of_aggregate(context, &arguments, &body)?
        }
        Run::Cursor(open) => {
            change_stream::refuse_one_reply(name, &arguments)?;
            // The documents that are read here are outside of the statement, which ended when the cursor was open.
            open(context, &arguments)?.drain().inspect_err(|_| context.abort_transaction())?
        }
    };
    // A double, as MongoDB sends it.
    reply.insert("ok", 1.0);
    Ok(reply)
}

/// Runs a command that opens a cursor.
pub(crate) fn open(context: &CommandContext<'_>, request: &Request<'_>) -> Result<Opened> {
    let held = context.shared.reserve_for_request(request.check()?)?;
    let (body, batch) = request.read()?;
    let name = name(&body)?;
    match COMMANDS.get(name).map(|command| command.run) {
        Some(Run::Cursor(open)) => {
            let arguments = Arguments::of(name, &body).with(&batch);
            arguments.check_write_concern()?;
            check_statement(context, name, &arguments)?;
            let context = context.begin(arguments.max_time()?);
            // The cursor's operation is the command's: what was parsed is held, and counted, until the cursor is dropped.
            context.keep(held);
            open(&context, &arguments)
        }
        // Distinguished from an unknown command: the caller has only made the wrong call for it.
        Some(Run::Reply(_)) => {
            Err(Error::invalid_argument(format!("the command '{name}' opens no cursor: use run_command")))
        }
        None => Err(missing(name)),
    }
}

/// Rejects a command that cannot be a statement of its transaction.
fn check_statement(context: &CommandContext<'_>, name: &str, arguments: &Arguments<'_>) -> Result<()> {
    if !context.is_in_transaction() {
        return Ok(());
    }
    if !command_rules(name).is_some_and(CommandRules::can_be_statement) {
        return Err(refused_within(&format!("the command '{name}'")));
    }
    if arguments.given("readConcern").is_some() {
        let message = "a read concern is given when a transaction is started, and not to its statements";
        return Err(Error::invalid_argument(message));
    }
    if name == "aggregate" && aggregate::asks_for_plan(arguments)? {
        return Err(refused_within("an explanation"));
    }
    Ok(())
}

fn name(body: &Document) -> Result<&str> {
    let name = body.keys().next().map(String::as_str);
    name.ok_or_else(|| {
        refused(
            Code::FAILED_TO_PARSE,
            "a command is a document with its name as the first field, not an empty one",
        )
    })
}

/// The rules of a command of [`Database::run_command`](crate::Database::run_command). Returns `None` if it has no command of that name,
/// and rejects it.
///
/// ```
/// assert!(cairndb::command_rules("find").is_some_and(|rules| !rules.writes()));
/// assert!(cairndb::command_rules("mapReduce").is_none());
/// ```
pub fn command_rules(name: &str) -> Option<CommandRules> {
    COMMANDS.get(name).map(|command| command.rules)
}

/// The names of all commands of [`Database::run_command`](crate::Database::run_command), ascending.
///
/// ```
/// assert!(cairndb::command_names().any(|name| name == "find"));
/// ```
pub fn command_names() -> impl Iterator<Item = &'static str> {
    COMMANDS.names()
}

/// The error for a command that is in no table.
fn missing(name: &str) -> Error {
    if unsupported::is_command(name) {
        not_supported(format!("the command '{name}' is not supported"))
    } else {
        refused(Code::COMMAND_NOT_FOUND, format!("no such command: '{name}'"))
    }
}

type Reply = fn(&CommandContext<'_>, &Arguments<'_>) -> Result<Document>;
type Open = fn(&CommandContext<'_>, &Arguments<'_>) -> Result<Opened>;
type Explain = fn(&CommandContext<'_>, &Arguments<'_>, Depth) -> Result<Plan>;

/// A command: how it runs, and all that others must know of it.
struct Command {
    run: Run,
    /// Absent if it cannot be explained.
    explain: Option<Explain>,
    rules: CommandRules,
}

/// How a command is answered.
#[derive(Clone, Copy)]
enum Run {
    Reply(Reply),
    Cursor(Open),
}

impl Command {
    const fn reads(run: Reply) -> Self {
        Self { run: Run::Reply(run), explain: None, rules: CommandRules::READS }
    }

    const fn writes(run: Reply) -> Self {
        Self { run: Run::Reply(run), explain: None, rules: CommandRules::WRITES }
    }

    /// A command that reads, and opens a cursor.
    const fn opens(run: Open) -> Self {
        Self { run: Run::Cursor(run), explain: None, rules: CommandRules::READS }
    }

    const fn explained_by(self, explain: Explain) -> Self {
        Self { explain: Some(explain), ..self }
    }

    const fn in_transactions(self) -> Self {
        Self { rules: CommandRules { can_be_statement: true, ..self.rules }, ..self }
    }

    const fn stable(self) -> Self {
        Self { rules: CommandRules { is_stable: true, ..self.rules }, ..self }
    }

    const fn retryable(self, repeated: &'static [Kind]) -> Self {
        Self { rules: CommandRules { repeated, ..self.rules }, ..self }
    }
}

const FIND_AND_MODIFY: Command = Command::writes(find_and_modify::find_and_modify)
    .explained_by(find_and_modify::explain)
    .in_transactions()
    .stable()
    .retryable(&[Kind::FindAndModify]);

/// All commands. The server, the tool and the checks of transactions and of retryable writes go by this table.
const COMMANDS: Registry<Command> = Registry::new(&[
    (
        "aggregate",
        Command::opens(aggregate::aggregate).explained_by(aggregate::explain).in_transactions().stable(),
    ),
    ("alterAutoIncrement", Command::writes(sequences::alter_auto_increment)),
    ("alterSequence", Command::writes(sequences::alter_sequence)),
    (
        "bulkWrite",
        Command::writes(bulk_write::bulk_write)
            .in_transactions()
            .stable()
            // Each of its operations leaves the row that a command of that operation would leave.
            .retryable(&[Kind::Insert, Kind::Update, Kind::Delete]),
    ),
    ("cloneCollectionAsCapped", Command::writes(collections::clone_as_capped)),
    ("collMod", Command::writes(modify::modify).stable()),
    ("collStats", Command::reads(databases::collection_stats)),
    ("compact", Command::writes(compact::compact)),
    ("convertToCapped", Command::writes(collections::convert_to_capped)),
    ("count", Command::reads(find::count).explained_by(find::explain_count).stable()),
    ("create", Command::writes(collections::create).in_transactions().stable()),
    ("createAutoIncrement", Command::writes(sequences::create_auto_increment)),
    ("createIndexes", Command::writes(indexes::create).in_transactions().stable()),
    ("createSequence", Command::writes(sequences::create_sequence)),
    ("dbStats", Command::reads(databases::stats)),
    (
        "delete",
        Command::writes(delete::delete)
            .explained_by(delete::explain)
            .in_transactions()
            .stable()
            .retryable(&[Kind::Delete]),
    ),
    // A legacy name in MongoDB, which old clients still send, as they do `findandmodify`.
    ("deleteIndexes", Command::writes(indexes::drop)),
    ("distinct", Command::reads(find::distinct).explained_by(find::explain_distinct).in_transactions()),
    ("drop", Command::writes(collections::drop).stable()),
    ("dropAutoIncrement", Command::writes(sequences::drop_auto_increment)),
    ("dropDatabase", Command::writes(databases::drop).stable()),
    ("dropIndexes", Command::writes(indexes::drop).stable()),
    ("dropSequence", Command::writes(sequences::drop_sequence)),
    ("explain", Command::reads(explain::explain).stable()),
    ("find", Command::opens(find::find).explained_by(find::explain_find).in_transactions().stable()),
    ("findAndModify", FIND_AND_MODIFY),
    ("findandmodify", FIND_AND_MODIFY),
    ("insert", Command::writes(insert::insert).in_transactions().stable().retryable(&[Kind::Insert])),
    ("listAutoIncrements", Command::reads(sequences::list_auto_increments)),
    ("listCollections", Command::opens(collections::list).stable()),
    ("listDatabases", Command::reads(databases::list).stable()),
    ("listIndexes", Command::opens(indexes::list).stable()),
    ("listSequences", Command::reads(sequences::list_sequences)),
    ("ping", Command::reads(ping).stable()),
    ("renameCollection", Command::writes(collections::rename)),
    ("renameSequence", Command::writes(sequences::rename_sequence)),
    ("sequenceCurrent", Command::reads(sequences::current)),
    ("sequenceGaps", Command::reads(sequences::gaps)),
    // The number that it returns is issued.
    ("sequenceNext", Command::writes(sequences::next)),
    ("sequenceRestart", Command::writes(sequences::restart)),
    ("sequenceSetCurrent", Command::writes(sequences::set_current)),
    ("sequenceSnapshot", Command::reads(sequences::snapshot)),
    ("sequenceTrace", Command::reads(sequences::trace)),
    ("truncate", Command::writes(collections::truncate)),
    (
        "update",
        Command::writes(update::update)
            .explained_by(update::explain)
            .in_transactions()
            .stable()
            .retryable(&[Kind::Update]),
    ),
    ("validate", Command::reads(validate::validate)),
]);

fn ping(_context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    // It reads no field, but a misspelt one is rejected as in every command.
    arguments.allow(&[])?;
    Ok(doc! {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_in_one_table_only() {
        assert!(command_names().all(|name| !unsupported::is_command(name)));
    }

    #[test]
    fn writes_that_may_be_repeated_write() {
        let rules = || command_names().filter_map(command_rules);
        assert!(rules().filter(|rules| rules.is_retryable()).all(CommandRules::writes));
        assert_eq!(rules().filter(|rules| rules.is_retryable()).count(), 6);
    }
}
