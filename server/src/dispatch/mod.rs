//! From a command to its answer: one table of names, one file for each family of commands.
//!
//! Nothing here knows what documents mean: commands that concern them go to the engine as they came. What the table
//! does not name is the engine's to refuse, which tells what is unknown from what is left out.

mod access;
mod api;
mod call;
mod cursor;
mod diagnostic;
mod engine;
mod explain;
mod hello;
mod host;
mod operation;
mod parameter;
mod sasl;
mod sequence;
mod session;
mod top;
mod users;

pub(crate) use self::call::{Call, Command};

use std::sync::atomic::AtomicU64;
use std::time::Instant;

use crate::dispatch::access::Access;
use crate::dispatch::call::Run;
use crate::fail_points::{Fault, spelled};
use crate::failure::Failure;
use crate::reply::Reply;
use crate::shared::{Counters, count};

/// How many logins may fail on a connection before it is closed.
const FAILED_LOGINS_MAX: u32 = 5;

/// What becomes of a command.
pub(crate) enum Outcome {
    Answer(Reply),
    /// The same, and then the connection is closed.
    Last(Reply),
    /// The connection is closed without an answer.
    Close,
}

/// A command that is known.
#[derive(Clone, Copy)]
struct Entry {
    run: Run,
    access: Access,
}

/// Ascending by name.
const COMMANDS: &[(&str, Entry)] = &[
    ("abortTransaction", tell(session::without_transaction)),
    ("aggregate", read(cursor::open)),
    ("alterAutoIncrement", write(engine::forward)),
    ("alterSequence", write(engine::forward)),
    ("authenticate", open(sasl::authenticate)),
    ("buildInfo", open(diagnostic::build)),
    ("buildinfo", open(diagnostic::build)),
    ("collMod", write(engine::forward)),
    ("collStats", read(engine::forward)),
    ("collstats", read(engine::forward_collstats)),
    ("commitTransaction", tell(session::without_transaction)),
    ("configureFailPoint", order(configure_fail_point)),
    ("connectionStatus", open(users::connection_status)),
    ("count", read(engine::forward)),
    ("create", write(engine::forward)),
    ("createAutoIncrement", write(engine::forward)),
    ("createIndexes", write(engine::forward)),
    ("createSequence", write(engine::forward)),
    ("currentOp", write(operation::current)),
    ("dbStats", read(engine::forward)),
    ("dbstats", read(engine::forward_dbstats)),
    ("delete", write(engine::forward)),
    ("deleteIndexes", write(engine::forward)),
    ("distinct", read(engine::forward)),
    ("drop", write(engine::forward)),
    ("dropAutoIncrement", write(engine::forward)),
    ("dropDatabase", write(engine::forward)),
    ("dropIndexes", write(engine::forward)),
    ("dropSequence", write(engine::forward)),
    ("endSessions", open(session::end)),
    ("explain", read(explain::explain)),
    ("find", read(cursor::open)),
    ("findAndModify", write(engine::forward)),
    ("findandmodify", write(engine::forward)),
    ("fsync", write(diagnostic::fsync)),
    ("getCmdLineOpts", order(diagnostic::command_line)),
    ("getLog", tell(diagnostic::log)),
    ("getMore", read(cursor::get_more)),
    ("getParameter", tell(parameter::get)),
    ("hello", greeting(hello::hello)),
    ("hostInfo", tell(host::host)),
    ("insert", write(engine::forward)),
    ("isMaster", greeting(hello::is_master)),
    ("ismaster", greeting(hello::is_master)),
    ("killAllSessions", write(session::kill_all)),
    ("killCursors", read(cursor::kill)),
    ("killOp", order(operation::kill)),
    ("killSessions", write(session::kill)),
    ("listAutoIncrements", read(engine::forward)),
    ("listCollections", read(cursor::open)),
    ("listCommands", tell(list)),
    ("listDatabases", read(engine::forward)),
    ("listIndexes", read(cursor::open)),
    ("listSequences", read(engine::forward)),
    ("logout", open(sasl::log_out)),
    ("ping", open(diagnostic::ping)),
    ("profile", order(diagnostic::profile)),
    ("refreshSessions", tell(session::refresh)),
    ("renameCollection", write(engine::forward)),
    ("renameSequence", write(engine::forward)),
    ("replSetGetStatus", tell(diagnostic::no_replication)),
    ("rolesInfo", tell(diagnostic::roles)),
    ("saslContinue", login(sasl::go_on)),
    ("saslStart", login(sasl::start)),
    ("sequenceCurrent", read(engine::forward)),
    ("sequenceNext", write(engine::forward)),
    ("sequenceRestart", write(engine::forward)),
    ("sequenceSetCurrent", write(engine::forward)),
    ("sequenceSnapshot", read(engine::forward)),
    ("serverStatus", tell(host::status)),
    ("setAcquirer", tell(sequence::set_acquirer)),
    ("startSession", tell(session::start)),
    ("top", write(top::top)),
    ("truncate", write(engine::forward)),
    ("update", write(engine::forward)),
    ("usersInfo", read(users::list)),
    ("validate", read(engine::forward)),
    ("whatsmyuri", open(diagnostic::address)),
];

/// What a name outside of the table gets: the engine's refusal. Should the engine have a command that the table does not
/// name, it is not for everybody.
const UNNAMED: Entry = write(engine::forward);
/// What a name gets that nobody knows: the same refusal, which any user may hear.
const UNKNOWN: Entry = read(engine::forward);

/// Answers a command.
pub(crate) async fn answer(mut call: Call) -> Outcome {
    let (shared, peer) = (std::sync::Arc::clone(&call.shared), std::sync::Arc::clone(&call.peer));
    count(operation(&shared.counters, call.command.name()));
    let used = top::used(&call);
    let start = Instant::now();
    let mut operation = call.operation();
    if ends_with_client(&call.command) {
        operation = operation.watched_by(&peer.socket);
    }
    let running = call.shared.operations.begin(operation);
    call.cancellation = running.cancellation();
    call.operation_id = running.id();
    let failure = match run(call).await {
        Ok(outcome) => {
            if let Some((kind, namespace)) = used {
                shared.usage.note(kind, namespace, start.elapsed());
            }
            return outcome;
        }
        Err(failure) => failure,
    };
    count(&shared.counters.refusals);
    tracing::debug!(code = failure.code(), "refused a command");
    let is_failed_login = failure.code() == sasl::AUTHENTICATION_FAILED;
    let reply = Reply::from(failure);
    if !is_failed_login {
        return Outcome::Answer(reply);
    }
    tokio::time::sleep(shared.settings.failed_login_pause).await;
    if peer.failed_logins() < FAILED_LOGINS_MAX { Outcome::Answer(reply) } else { Outcome::Last(reply) }
}

/// Whether nothing is left to do once the client is gone. A write whose client wants no answer is done for its own sake, and
/// what does not go to the engine is either short or a greeting that waits.
fn ends_with_client(command: &Command) -> bool {
    !command.wants_no_answer() && matches!(entry(command.name()).run, Run::Pool(_))
}

async fn run(call: Call) -> Result<Outcome, Failure> {
    let entry = entry(call.command.name());
    access::admit(&call, access_of(&call, entry)?)?;
    let fault = fault(&call);
    if let Some(time) = fault.block {
        tokio::time::sleep(time).await;
    }
    if fault.closes {
        return Ok(Outcome::Close);
    }
    if let Some(failure) = fault.failure() {
        return Err(failure);
    }
    api::check(&call)?;
    call.check()?;
    if call.shared.settings.has_test_commands
        && call.fields().integer("maxTimeMS")?.is_some_and(|limit| limit > 0)
        && call.shared.fail_points.times_out()
    {
        return Err(Failure::new(50, "MaxTimeMSExpired", "operation exceeded time limit"));
    }
    let mut reply = execute(call, entry.run).await?;
    if let Some(error) = fault.write_concern_error {
        reply = reply.beside("writeConcernError", error);
        if let Some(labels) = fault.labels {
            reply = reply.beside("errorLabels", labels);
        }
    }
    Ok(Outcome::Answer(reply))
}

async fn execute(call: Call, run: Run) -> Result<Reply, Failure> {
    let pool = call.shared.pool.clone();
    match run {
        Run::Here(run) => run(&call),
        Run::Greeting(run) => {
            hello::wait(&call).await?;
            if sasl::is_speculative(&call) { pool.run(move || run(&call)).await? } else { run(&call) }
        }
        Run::Login(run) => {
            let pause = sasl::pause(&call)?;
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            pool.log_in(move || run(&call)).await?
        }
        Run::Pool(run) => pool.run(move || run(&call)).await?,
    }
}

fn entry(name: &str) -> Entry {
    let place = COMMANDS.binary_search_by_key(&name, |&(known, _)| known).ok();
    let named = place.and_then(|place| COMMANDS.get(place)).map(|&(_, entry)| entry);
    named.unwrap_or(if cairndb::has_command(name) { UNNAMED } else { UNKNOWN })
}

/// Who may run the command: an explanation needs what it explains.
fn access_of(call: &Call, found: Entry) -> Result<Access, Failure> {
    if call.command.name() != "explain" {
        return Ok(found.access);
    }
    let explained = access::explained(call)?;
    Ok(explained.map_or(found.access, |name| entry(name).access.max(found.access)))
}

/// What a fail point does to the command: nothing, but in a suite.
fn fault(call: &Call) -> Fault {
    let name = call.command.name();
    if !call.shared.settings.has_test_commands || name == "configureFailPoint" {
        return Fault::default();
    }
    // A hello that names the application is already one of it.
    let application = call.peer.application().or_else(|| hello::application_of(call));
    call.shared.fail_points.meet(spelled(name), application.as_deref()).unwrap_or_default()
}

fn configure_fail_point(call: &Call) -> Result<Reply, Failure> {
    if !call.shared.settings.has_test_commands {
        return Err(Failure::new(59, "CommandNotFound", "no such command: 'configureFailPoint'"));
    }
    let count = call.shared.fail_points.configure(call.fields())?;
    Ok(cairndb::bson::doc! { "count": count }.into())
}

fn operation<'a>(counters: &'a Counters, name: &str) -> &'a AtomicU64 {
    match name {
        "insert" => &counters.inserts,
        "find" => &counters.queries,
        "update" => &counters.updates,
        "delete" => &counters.deletes,
        "getMore" => &counters.get_mores,
        _ => &counters.commands,
    }
}

fn list(call: &Call) -> Result<Reply, Failure> {
    call.fields().allow(&[])?;
    let has_tests = call.shared.settings.has_test_commands;
    let shown = COMMANDS.iter().filter(|(name, _)| has_tests || *name != "configureFailPoint");
    let commands = shown.map(|&(name, entry)| {
        let about = cairndb::bson::doc! { "requiresAuth": entry.access != Access::Anyone };
        (name.to_owned(), cairndb::bson::Bson::Document(about))
    });
    Ok(cairndb::bson::doc! { "commands": commands.collect::<cairndb::bson::Document>() }.into())
}

const fn open(run: fn(&Call) -> Result<Reply, Failure>) -> Entry {
    Entry { run: Run::Here(run), access: Access::Anyone }
}

const fn greeting(run: fn(&Call) -> Result<Reply, Failure>) -> Entry {
    Entry { run: Run::Greeting(run), access: Access::Anyone }
}

const fn login(run: fn(&Call) -> Result<Reply, Failure>) -> Entry {
    Entry { run: Run::Login(run), access: Access::Anyone }
}

const fn tell(run: fn(&Call) -> Result<Reply, Failure>) -> Entry {
    Entry { run: Run::Here(run), access: Access::Reader }
}

const fn read(run: fn(&Call) -> Result<Reply, Failure>) -> Entry {
    Entry { run: Run::Pool(run), access: Access::Reader }
}

const fn order(run: fn(&Call) -> Result<Reply, Failure>) -> Entry {
    Entry { run: Run::Here(run), access: Access::Root }
}

const fn write(run: fn(&Call) -> Result<Reply, Failure>) -> Entry {
    Entry { run: Run::Pool(run), access: Access::Root }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_ascends() {
        assert!(COMMANDS.is_sorted_by(|(left, _), (right, _)| left < right));
    }

    /// The page of compatibility says of these that the server answers them, and of the others that they are refused.
    #[test]
    fn the_engine_tells_which_commands_are_the_servers() {
        let told = cairndb::UNSUPPORTED_COMMANDS.iter().filter(|table| table.is_of_server);
        let mut told: Vec<&str> = told.flat_map(|table| table.names).copied().collect();
        told.sort_unstable();
        // MongoDB has no such command.
        let is_of_mongodb = |name: &&str| *name != "setAcquirer";
        let own = COMMANDS.iter().map(|&(name, _)| name).filter(|name| !cairndb::has_command(name));
        assert_eq!(own.filter(is_of_mongodb).collect::<Vec<_>>(), told);
    }
}
