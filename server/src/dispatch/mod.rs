//! From a command to its answer: one file for each family of commands that the server answers itself.
//!
//! Nothing here knows what documents mean: commands about documents go to the engine unchanged, whose registry says who may run them. The
//! engine rejects every name that neither has, because it knows which commands MongoDB has and CairnDB does not support.

mod access;
mod api;
mod backup;
mod bulk_write;
mod call;
mod change_stream;
mod cursor;
mod diagnostic;
mod engine;
mod explain;
pub(crate) mod hello;
mod host;
mod operation;
mod parameter;
mod replica_set;
mod retryable;
mod sasl;
mod sequence;
mod session;
mod snapshot;
mod top;
mod transaction;
mod users;

pub(crate) use self::call::{Call, Command};

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use cairndb::CommandRules;
use parking_lot::Mutex;
use query::code::Code;
use query::registry::Registry;

use crate::dispatch::access::Access;
use crate::dispatch::call::Run;
use crate::dispatch::transaction::Labels;
use crate::fail_points::{InjectedFault, WriteFault, spelled};
use crate::failure::Failure;
use crate::reply::Reply;
use crate::shared::{Counters, count};
use crate::spans::OpenSpan;

/// The number of failed logins after which a connection is closed.
const FAILED_LOGINS_MAX: u32 = 5;

/// The result of a command.
pub(crate) enum Outcome {
    Answer(Reply),
    /// An answer after which the connection is closed.
    Last(Reply),
    /// The connection is closed without an answer.
    Close,
}

/// A command that is known.
#[derive(Clone, Copy)]
struct Entry {
    run: Run,
    access: Access,
    /// Whether it belongs to MongoDB's stable API, version 1. The engine says it of its own commands.
    is_stable: bool,
}

/// Commands that the server answers, or does something for. All others of the engine are forwarded.
const COMMANDS: Registry<Entry> = Registry::new(&[
    ("abortTransaction", read(transaction::abort).stable()),
    ("aggregate", read(cursor::open)),
    ("authenticate", open(sasl::authenticate).stable()),
    ("backup", write(backup::backup)),
    ("buildInfo", open(diagnostic::build)),
    ("buildinfo", open(diagnostic::build)),
    ("bulkWrite", write(bulk_write::bulk_write)),
    ("collstats", read(engine::forward_collstats)),
    ("commitTransaction", read(transaction::commit).stable()),
    ("configureFailPoint", order(configure_fail_point)),
    ("connectionStatus", open(users::connection_status)),
    ("currentOp", look(operation::current, Access::Root)),
    ("dbstats", read(engine::forward_dbstats)),
    ("endSessions", open(session::end).stable()),
    ("explain", read(explain::explain)),
    ("find", read(cursor::open)),
    ("fsync", write(diagnostic::fsync)),
    ("getCmdLineOpts", order(diagnostic::command_line)),
    ("getLog", tell(diagnostic::log)),
    ("getMore", Entry { run: Run::Batch, access: Access::Reader, is_stable: true }),
    ("getParameter", tell(parameter::get)),
    ("hello", greeting(hello::hello).stable()),
    ("hostInfo", tell(host::host)),
    ("isMaster", greeting(hello::is_master)),
    ("ismaster", greeting(hello::is_master)),
    ("killAllSessions", look(session::kill_all, Access::Root)),
    ("killCursors", look(cursor::kill, Access::Reader).stable()),
    ("killOp", order(operation::kill)),
    ("killSessions", look(session::kill, Access::Root)),
    ("listCollections", read(cursor::open)),
    ("listCommands", tell(list)),
    ("listIndexes", read(cursor::open)),
    ("logout", open(sasl::log_out)),
    ("ping", open(diagnostic::ping)),
    ("profile", order(diagnostic::profile)),
    ("refreshSessions", tell(session::refresh).stable()),
    ("replSetGetConfig", read(replica_set::configuration)),
    ("replSetGetStatus", tell(replica_set::status)),
    ("replSetInitiate", write(replica_set::initiate)),
    ("replSetReconfig", write(replica_set::reconfigure)),
    ("replSetStepDown", write(replica_set::step_down)),
    ("rolesInfo", tell(diagnostic::roles)),
    ("saslContinue", login(sasl::go_on).stable()),
    ("saslStart", login(sasl::start).stable()),
    ("serverStatus", look(host::status, Access::Reader)),
    ("setAcquirer", tell(sequence::set_acquirer)),
    ("startSession", tell(session::start)),
    ("top", look(top::top, Access::Root)),
    // Users who are not `root` may change their own password: the command itself checks whose it is.
    ("updateUser", read(users::update)),
    ("usersInfo", read(users::list)),
    ("whatsmyuri", open(diagnostic::address)),
]);

/// Runs a command and answers it.
pub(crate) async fn answer(mut call: Call) -> Outcome {
    let (shared, peer) = (std::sync::Arc::clone(&call.shared), std::sync::Arc::clone(&call.peer));
    count(operation(&shared.counters, call.command.name()));
    // Before the command runs, because the call is moved into it.
    let used = top::used(&call);
    let start = Instant::now();
    let mut operation = call.operation();
    if ends_with_client(&call.command) {
        operation = operation.watched_by(&peer.socket);
    }
    // From here on `currentOp` lists the command, and `killOp` reaches it even while it waits for its turn.
    let running = call.shared.operations.begin(operation);
    call.cancellation = running.cancellation();
    call.operation_id = running.id();
    let span = shared.settings.spans.as_ref().and_then(|spans| spans.begin(call.traced()));
    // The command moves a copy to its thread, and the span ends here, whatever becomes of the command.
    call.span.clone_from(&span);
    // Only successes count in `top`, and they are answered at once; what follows is about failures.
    let failure = match run(call).await {
        Ok(outcome) => {
            if let Some(span) = span {
                // A connection that a fail point closes gets none.
                let reply = if let Outcome::Answer(reply) = &outcome { Some(reply) } else { None };
                span.end(reply);
            }
            if let Some((kind, namespace)) = used {
                shared.usage.note(kind, namespace, start.elapsed());
            }
            return outcome;
        }
        Err(failure) => failure,
    };
    if let Some(span) = span {
        span.fail(&failure);
    }
    count(&shared.counters.refusals);
    tracing::debug!(code = failure.code(), "rejected a command");
    let is_failed_login = Code::AUTHENTICATION_FAILED == failure.code();
    let reply = Reply::from(failure);
    if !is_failed_login {
        return Outcome::Answer(reply);
    }
    // Outside of the pool: a guesser that waits costs other clients nothing.
    tokio::time::sleep(shared.settings.failed_login_pause).await;
    if peer.failed_logins() < FAILED_LOGINS_MAX { Outcome::Answer(reply) } else { Outcome::Last(reply) }
}

/// Whether a command ends when its client disconnects. A write whose client waits for no answer goes on, and so does a commit.
/// Commands outside of the pool are short, or a hello that waits.
fn ends_with_client(command: &Command) -> bool {
    !command.wants_no_answer()
        && command.name() != "commitTransaction"
        && matches!(entry(command.name()).run, Run::Pool(_) | Run::Look(_) | Run::Batch)
}

async fn run(call: Call) -> Result<Outcome, Failure> {
    let entry = entry(call.command.name());
    // First of all, so that a command that is not allowed says nothing about its fields, and meets no fail
    // point.
    access::authorize(&call, access_of(&call, entry)?)?;
    let fault = fault(&call);
    if let Some(time) = fault.block {
        tokio::time::sleep(time).await;
    }
    if fault.closes {
        return Ok(Outcome::Close);
    }
    let labels = Labels::of(&call);
    if let Some(failure) = fault.failure() {
        // Labels that the fail point gives are all that there are.
        return Err(if fault.labels.is_some() { failure } else { labels.label_undone(failure) });
    }
    let shared = std::sync::Arc::clone(&call.shared);
    let asks = labels.asks_for_write_faults(&call);
    if let Some(WriteFault { closes, code: Some(code) }) =
        asks.then(|| shared.fail_points.fault_before_write()).flatten()
    {
        if closes {
            return Ok(Outcome::Close);
        }
        let message = "Failing write via 'onPrimaryTransactionalWrite' failpoint";
        return Err(labels.label_undone(Failure::new(Code::of(code), message)));
    }
    let mut reply = admit(call).await.map_err(|failure| labels.label(failure))?;
    // A repeated write does not meet the fail point again.
    if asks && !reply.is_of_repetition() && shared.fail_points.loses_answer() {
        return Ok(Outcome::Close);
    }
    // A write concern error comes with a command that was executed.
    if let Some(error) = fault.write_concern_error {
        reply = match fault.labels {
            Some(given) => reply.with_field("errorLabels", given),
            None => labels.label_reply(reply, &error),
        };
        reply = reply.with_field("writeConcernError", error);
    }
    Ok(Outcome::Answer(reply))
}

/// Runs a command that no fail point stopped, if its fields and its session let it.
async fn admit(mut call: Call) -> Result<Reply, Failure> {
    let run = entry(call.command.name()).run;
    // After the fail point: a command that is made to fail is not examined further.
    api::check(&call)?;
    call.check()?;
    if call.shared.settings.has_test_commands
        && call.fields().integer("maxTimeMS")?.is_some_and(|limit| limit > 0)
        && call.shared.fail_points.times_out()
    {
        return Err(Failure::new(Code::MAX_TIME_MS_EXPIRED, "operation exceeded time limit"));
    }
    call.numbered = transaction::numbered(&call)?;
    if call.numbered.is_some() {
        call.turn = Some(Mutex::new(transaction::turn(&call).await?));
    }
    execute(call, run).await
}

async fn execute(call: Call, run: Run) -> Result<Reply, Failure> {
    let pool = call.shared.pool.clone();
    match run {
        // None of them can be a statement: it is rejected, and its transaction aborted, which may be slow.
        Run::Here(command) | Run::Greeting(command) | Run::Login(command) if call.numbered.is_some() => {
            let (holder, ended) = (call.holder(), call.cancellation.clone());
            pool.run(holder, Some(&ended), move || transaction::within(&call, command, Reply::lists_errors))
                .await?
        }
        Run::Here(run) => run(&call),
        Run::Greeting(run) => {
            hello::wait(&call).await?;
            if sasl::is_speculative(&call) { pool.log_in(move || run(&call)).await? } else { run(&call) }
        }
        // The pause is computed and waited for outside of the pool, so that guesses do not use its places.
        Run::Login(run) => {
            let pause = sasl::pause(&call)?;
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            pool.log_in(move || run(&call)).await?
        }
        Run::Batch => cursor::get_more(call).await,
        Run::Pool(command) | Run::Look(command) => {
            let is_look = matches!(run, Run::Look(_)) || operation::is_look(&call);
            let (holder, ended) = (call.holder(), call.cancellation.clone());
            let command = move || {
                // In the thread that runs it, so that the engine's spans are its children.
                let _attached = call.span.as_ref().map(OpenSpan::attach);
                transaction::within(&call, command, Reply::lists_errors)
            };
            if is_look {
                pool.look(holder, Some(&ended), command).await?
            } else {
                pool.run(holder, Some(&ended), command).await?
            }
        }
    }
}

fn entry(name: &str) -> Entry {
    COMMANDS.get(name).copied().unwrap_or_else(|| {
        // The engine rejects a name that is not a command, and every user may see that.
        let changes = cairndb::command_rules(name).is_some_and(CommandRules::writes);
        if changes { write(engine::forward) } else { read(engine::forward) }
    })
}

/// Whether a command belongs to MongoDB's stable API.
fn is_stable(name: &str) -> bool {
    let is_stable_here = COMMANDS.get(name).is_some_and(|own| own.is_stable);
    is_stable_here || cairndb::command_rules(name).is_some_and(CommandRules::is_stable)
}

/// The users that may run the command. An `explain` also needs what the explained command needs.
fn access_of(call: &Call, found: Entry) -> Result<Access, Failure> {
    if call.command.name() != "explain" {
        return Ok(found.access);
    }
    let explained = access::explained(call)?;
    Ok(explained.map_or(found.access, |name| entry(name).access.max(found.access)))
}

/// The effect of a fail point on the command. Without test commands this is nothing.
fn fault(call: &Call) -> InjectedFault {
    let name = call.command.name();
    if !call.shared.settings.has_test_commands || name == "configureFailPoint" {
        return InjectedFault::default();
    }
    // The client's name is known from its hello, and the first hello itself is one of its commands.
    let application =
        call.peer.remote.application().map(str::to_owned).or_else(|| hello::application_of(call));
    call.shared.fail_points.fault_for(spelled(name), application.as_deref()).unwrap_or_default()
}

fn configure_fail_point(call: &Call) -> Result<Reply, Failure> {
    // Like a command that does not exist, as on a MongoDB server without test commands.
    if !call.shared.settings.has_test_commands {
        return Err(Failure::new(Code::COMMAND_NOT_FOUND, "no such command: 'configureFailPoint'"));
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
    // A command that a server without test commands rejects is not listed.
    let names: BTreeSet<&str> = COMMANDS.names().chain(cairndb::command_names()).collect();
    let shown = names.into_iter().filter(|name| has_tests || *name != "configureFailPoint");
    let commands = shown.map(|name| {
        let about = cairndb::bson::doc! { "requiresAuth": entry(name).access != Access::Anyone };
        (name.to_owned(), cairndb::bson::Bson::Document(about))
    });
    Ok(cairndb::bson::doc! { "commands": commands.collect::<cairndb::bson::Document>() }.into())
}

impl Entry {
    const fn stable(self) -> Self {
        Self { is_stable: true, ..self }
    }
}

const fn open(run: fn(&Call) -> Result<Reply, Failure>) -> Entry {
    Entry { run: Run::Here(run), access: Access::Anyone, is_stable: false }
}

const fn greeting(run: fn(&Call) -> Result<Reply, Failure>) -> Entry {
    Entry { run: Run::Greeting(run), access: Access::Anyone, is_stable: false }
}

const fn login(run: fn(&Call) -> Result<Reply, Failure>) -> Entry {
    Entry { run: Run::Login(run), access: Access::Anyone, is_stable: false }
}

const fn tell(run: fn(&Call) -> Result<Reply, Failure>) -> Entry {
    Entry { run: Run::Here(run), access: Access::Reader, is_stable: false }
}

const fn read(run: fn(&Call) -> Result<Reply, Failure>) -> Entry {
    Entry { run: Run::Pool(run), access: Access::Reader, is_stable: false }
}

const fn look(run: fn(&Call) -> Result<Reply, Failure>, access: Access) -> Entry {
    Entry { run: Run::Look(run), access, is_stable: false }
}

const fn order(run: fn(&Call) -> Result<Reply, Failure>) -> Entry {
    Entry { run: Run::Here(run), access: Access::Root, is_stable: false }
}

const fn write(run: fn(&Call) -> Result<Reply, Failure>) -> Entry {
    Entry { run: Run::Pool(run), access: Access::Root, is_stable: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documentation lists these as commands of the server, and the others as unsupported.
    #[test]
    fn the_engine_says_which_commands_are_the_servers() {
        let told = cairndb::UNSUPPORTED_COMMANDS.iter().filter(|table| table.is_of_server);
        let mut told: Vec<&str> = told.flat_map(|table| table.names).copied().collect();
        told.sort_unstable();
        // MongoDB has no such commands.
        let is_of_mongodb = |name: &&str| !["backup", "setAcquirer"].contains(name);
        let own = COMMANDS.names().filter(|name| cairndb::command_rules(name).is_none());
        assert_eq!(own.filter(is_of_mongodb).collect::<Vec<_>>(), told);
    }

    /// All others write. So a new command of the engine is not open to readers by mistake: it is added here too.
    #[test]
    fn commands_that_write_are_for_root() {
        let read = "aggregate collStats count dbStats distinct explain find listAutoIncrements listCollections listDatabases \
                    listIndexes listSequences ping sequenceCurrent sequenceGaps sequenceSnapshot sequenceTrace validate";
        let for_readers = cairndb::command_names().filter(|name| entry(name).access != Access::Root);
        assert_eq!(for_readers.collect::<Vec<_>>(), read.split(' ').collect::<Vec<_>>());
        assert_eq!(entry("ping").access, Access::Anyone);
        assert_eq!(entry("noSuchCommand").access, Access::Reader);
    }

    /// As <https://www.mongodb.com/docs/manual/reference/stable-api/> lists them, and `authenticate` and the old name of
    /// `findAndModify`.
    #[test]
    fn commands_of_the_stable_api() {
        let names: BTreeSet<&str> = COMMANDS.names().chain(cairndb::command_names()).collect();
        let stable: Vec<&str> = names.into_iter().filter(|name| is_stable(name)).collect();
        let expected = "abortTransaction aggregate authenticate bulkWrite collMod commitTransaction count create createIndexes \
                        delete drop dropDatabase dropIndexes endSessions explain find findAndModify findandmodify getMore hello \
                        insert killCursors listCollections listDatabases listIndexes ping refreshSessions saslContinue saslStart \
                        update";
        assert_eq!(stable, expected.split(' ').collect::<Vec<_>>());
    }
}
