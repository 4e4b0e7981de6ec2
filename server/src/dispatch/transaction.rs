//! Transactions by wire: the fields that number a command, the turn of the command at its session, `commitTransaction` and
//! `abortTransaction`, and the labels of failures.

use std::collections::HashSet;
use std::time::Duration;

use cairndb::bson::{Bson, Document, RawBsonRef, RawDocument, Timestamp, doc};
use cairndb::{
    Acknowledgment, ClientSession, CommandRules, Error, ErrorKind, ExactlyOnceError, ReadConcern,
    TRANSIENT_TRANSACTION_ERROR, Token, WriteConcern,
};
use query::code::Code;
use tokio::time::timeout;

use crate::dispatch::access;
use crate::dispatch::call::Call;
use crate::dispatch::retryable;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::places::interruption;
use crate::reply::Reply;
use crate::transaction::{CommitEnd, Numbered, Purpose, Turn};

/// Commands of the server's own that can be statements of a transaction. The others are the engine's.
const OWN_STATEMENTS: [&str; 2] = ["getMore", "killCursors"];
/// Commands that end a transaction.
const ENDS: [&str; 2] = ["abortTransaction", "commitTransaction"];
/// Databases that no transaction reads or writes.
const DATABASES_OUTSIDE: [&str; 3] = ["admin", "config", "local"];
/// Levels that a transaction reads with.
const READ_CONCERNS: [&str; 4] = ["local", "majority", "serializable", "snapshot"];
const RETRYABLE_WRITE_ERROR: &str = "RetryableWriteError";
const NO_WRITES_PERFORMED: &str = "NoWritesPerformed";
const LABELS: &str = "errorLabels";

/// Which labels the failures of a command get.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Labels {
    is_statement: bool,
    is_end: bool,
    is_write: bool,
}

impl Labels {
    /// The labels of a command. Its fields are not checked yet.
    pub(super) fn of(call: &Call) -> Self {
        let fields = call.fields();
        let has = |field| fields.value(field).is_ok_and(|value| value.is_some());
        if call.shared.settings.replica_set.is_none() || !has("txnNumber") {
            return Self::default();
        }
        let is_end = ENDS.contains(&call.command.name());
        let is_of_transaction = has("autocommit");
        Self { is_statement: is_of_transaction && !is_end, is_end, is_write: !is_of_transaction && !is_end }
    }

    /// Adds the labels by which drivers know what to try again.
    pub(super) fn label(self, failure: Failure) -> Failure {
        let code = Code::of(failure.code());
        let is_transient = [
            Code::LOCK_TIMEOUT,
            Code::WRITE_CONFLICT,
            Code::SNAPSHOT_TOO_OLD,
            Code::SNAPSHOT_UNAVAILABLE,
            Code::NO_SUCH_TRANSACTION,
            // No transaction is prepared here; suites have it made by a fail point.
            Code::PREPARED_TRANSACTION_IN_PROGRESS,
        ]
        .contains(&code);
        if (self.is_statement && (is_transient || code.is_retryable())) || (self.is_end && is_transient) {
            failure.with_label(TRANSIENT_TRANSACTION_ERROR)
        } else if (self.is_end || self.is_write) && code.is_retryable() {
            failure.with_label(RETRYABLE_WRITE_ERROR)
        } else {
            failure
        }
    }

    /// The labels of a failure before the command was run.
    pub(super) fn label_undone(self, failure: Failure) -> Failure {
        let is_retryable = self.is_write && Code::of(failure.code()).is_retryable();
        let failure = self.label(failure);
        if is_retryable { failure.with_label(NO_WRITES_PERFORMED) } else { failure }
    }

    /// Whether fail points for writes that may be sent again are asked.
    pub(super) fn asks_for_write_faults(self, call: &Call) -> bool {
        self.is_write && call.shared.settings.has_test_commands
    }

    /// Adds the label of an error of a write concern to a reply.
    pub(super) fn label_reply(self, reply: Reply, error: &Document) -> Reply {
        let code = error.get_i32("code").map(Code::of);
        if (self.is_end || self.is_write) && code.is_ok_and(Code::is_retryable) {
            return reply.with_field(LABELS, vec![RETRYABLE_WRITE_ERROR]);
        }
        reply
    }
}

/// Reads the fields that number a command.
pub(super) fn numbered(call: &Call) -> Result<Option<Numbered>, Failure> {
    let fields = call.fields();
    let (number, auto, start) =
        (fields.value("txnNumber")?, fields.value("autocommit")?, fields.value("startTransaction")?);
    if number.is_none() && auto.is_none() && start.is_none() {
        return Ok(None);
    }
    if call.shared.settings.replica_set.is_none() {
        // The message is MongoDB's of a standalone, by which drivers recognize that retryable writes are not supported.
        let message = "Transaction numbers are only allowed on a replica set member or mongos";
        return Err(Failure::new(Code::ILLEGAL_OPERATION, message));
    }
    let refused = |message: &str| Err(Failure::new(Code::INVALID_OPTIONS, message));
    let Some(number) = number else {
        return refused(
            "'autocommit' and 'startTransaction' require a transaction number to also be specified",
        );
    };
    // As in MongoDB: a number of any other type is rejected.
    let number = number.as_i64().ok_or_else(|| fields.wrong_type("txnNumber", number, "long"))?;
    if call.session()?.is_none() {
        return refused("Transaction number requires a session ID to also be specified");
    }
    if number < 0 {
        return refused("Transaction number cannot be negative");
    }
    let is_true = |field: &str, value: RawBsonRef<'_>| {
        value.as_bool().ok_or_else(|| fields.wrong_type(field, value, "bool"))
    };
    if auto.map(|value| is_true("autocommit", value)).transpose()? == Some(true) {
        return refused("Specifying autocommit=true is not allowed.");
    }
    if start.map(|value| is_true("startTransaction", value)).transpose()? == Some(false) {
        return refused("Specifying startTransaction=false is not allowed.");
    }
    let purpose = match (auto, start) {
        (None, None) => Purpose::Write,
        (None, Some(_)) => {
            return refused("'startTransaction' field requires 'autocommit' field to also be specified");
        }
        (Some(_), None) => Purpose::GoOn,
        (Some(_), Some(_)) => Purpose::Begin,
    };
    let numbered = Numbered { number, purpose };
    check_command(call, numbered)?;
    Ok(Some(numbered))
}

/// Rejects commands that cannot have such a number.
fn check_command(call: &Call, numbered: Numbered) -> Result<(), Failure> {
    let name = call.command.name();
    // A stranger has no sessions.
    if call.is_of_stranger() {
        return Err(unsupported(name));
    }
    if !numbered.is_of_transaction() {
        return retryable::check(call);
    }
    if numbered.purpose == Purpose::Begin && ENDS.contains(&name) {
        let message = format!("'{name}' cannot start a transaction");
        return Err(Failure::new(Code::INVALID_OPTIONS, message));
    }
    Ok(())
}

/// Rejects what no transaction can have. This aborts it.
fn check_statement(call: &Call, numbered: Numbered) -> Result<(), Failure> {
    let name = call.command.name();
    let can_be_statement = cairndb::command_rules(name).is_some_and(CommandRules::can_be_statement);
    if !can_be_statement && !OWN_STATEMENTS.contains(&name) {
        return Err(unsupported(name));
    }
    if let Some(database) = databases(call)?.into_iter().find(|database| DATABASES_OUTSIDE.contains(database))
    {
        let message = format!("Cannot run command against the '{database}' database in a transaction.");
        return Err(Failure::new(Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, message));
    }
    let fields = call.fields();
    if fields.value("writeConcern")?.is_some() {
        let message = "writeConcern is not allowed within a multi-statement transaction";
        return Err(Failure::new(Code::INVALID_OPTIONS, message));
    }
    if numbered.purpose == Purpose::GoOn && fields.value("readConcern")?.is_some() {
        let message = "Only the first command in a transaction may specify a readConcern";
        return Err(Failure::new(Code::INVALID_OPTIONS, message));
    }
    Ok(())
}

/// The databases of the collections that a statement is for.
fn databases(call: &Call) -> Result<Vec<&str>, Failure> {
    match call.command.name() {
        // It is sent to `admin`, whatever collections it names.
        "bulkWrite" => Ok(access::named_by_bulk_write(call)?.into_iter().map(database_of).collect()),
        // So is what asks for the rest of its results.
        "getMore" if call.fields().text("collection")? == Some("$cmd.bulkWrite") => Ok(Vec::new()),
        _ => Ok(vec![call.command.database()]),
    }
}

/// The part before the first dot.
fn database_of(namespace: &str) -> &str {
    namespace.split_once('.').map_or(namespace, |(database, _)| database)
}

fn unsupported(name: &str) -> Failure {
    let message = format!("Cannot run '{name}' in a multi-document transaction.");
    Failure::new(Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, message)
}

/// Waits for the turn of a numbered command at its session, within its limit of time.
pub(super) async fn turn(call: &Call) -> Result<Turn, Failure> {
    let session = call.session()?;
    let session = session.ok_or_else(|| Failure::internal("a numbered command has a session"))?;
    let limit = call.fields().count("maxTimeMS")?.filter(|&limit| limit > 0).map(Duration::from_millis);
    let turn = async {
        loop {
            // Anew each time: the session may be ended while this waits for it, and then begins again.
            let numbered = call.shared.sessions.numbered(session.clone(), call.portion());
            if let Some(turn) = numbered.turn(&call.cancellation).await {
                return turn;
            }
        }
    };
    let turn = async {
        match limit {
            None => Ok(turn.await),
            Some(limit) => timeout(limit, turn).await.map_err(|_| {
                Failure::new(
                    Code::MAX_TIME_MS_EXPIRED,
                    "the session was in use for longer than the limit of time",
                )
            }),
        }
    };
    tokio::select! {
        biased;
        turn = turn => turn,
        failure = interruption(Some(&call.cancellation)) => Err(failure),
    }
}

/// Runs a command. A statement is one of its transaction, and aborts it if it fails.
pub(super) fn within<R>(
    call: &Call,
    run: impl FnOnce(&Call) -> Result<R, Failure>,
    is_refusal: impl FnOnce(&R) -> bool,
) -> Result<R, Failure> {
    let Some(numbered) = call.numbered else { return run(call) };
    if !numbered.is_of_transaction() {
        // A higher number than that of a transaction aborts it.
        let cursors = call.with_turn(|turn| turn.last.write(numbered.number)).transpose()?;
        call.shared.cursors.close(cursors.unwrap_or_default());
        return run(call);
    }
    recall(call, numbered.number)?;
    if ENDS.contains(&call.command.name()) {
        return run(call);
    }
    begin(call, numbered)?;
    let active = Active::of(call);
    let done = check_statement(call, numbered).and_then(|()| run(call));
    drop(active);
    let is_refused = match &done {
        Ok(reply) => is_refusal(reply),
        Err(_) => true,
    };
    if is_refused {
        let cursors = call.with_turn(|turn| turn.last.abort());
        call.shared.cursors.close(cursors.unwrap_or_default());
    }
    done
}

/// Learns the last number of a session that the server does not know, from what the engine has stored of it: it was used before the
/// server was started, maybe.
fn recall(call: &Call, number: i64) -> Result<(), Failure> {
    if call.with_turn(|turn| turn.last.is_unknown()) != Some(true) {
        return Ok(());
    }
    let asked = retryable::numbered_write(call, number)?;
    // A command of the session may still run, if the session was ended meanwhile. It is waited for.
    if let Some(newest) = call.client().newest_retryable_write(&asked)? {
        call.with_turn(|turn| turn.last.recall(newest.number, newest.is_commit));
    }
    Ok(())
}

/// A statement that runs. If it panics, its transaction is aborted.
struct Active<'a> {
    call: &'a Call,
}

impl<'a> Active<'a> {
    fn of(call: &'a Call) -> Self {
        call.shared.sessions.transactions.begin_statement();
        Self { call }
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.call.shared.sessions.transactions.end_statement();
        if std::thread::panicking() {
            let cursors = self.call.with_turn(|turn| turn.last.abort());
            self.call.shared.cursors.close(cursors.unwrap_or_default());
        }
    }
}

/// Begins the transaction of a first statement, or looks for that of a later one.
fn begin(call: &Call, numbered: Numbered) -> Result<(), Failure> {
    let Numbered { number, purpose } = numbered;
    let begun = call.with_turn(|turn| {
        let ended = if purpose == Purpose::Begin {
            turn.last.begin(number, || start(call))?
        } else {
            turn.last.check_in_progress(number)?;
            HashSet::new()
        };
        turn.show(number, &call.peer.remote);
        Ok::<_, Failure>(ended)
    });
    call.shared.cursors.close(begun.transpose()?.unwrap_or_default());
    Ok(())
}

/// Starts a transaction in the engine.
fn start(call: &Call) -> Result<ClientSession, Failure> {
    // The client without the token of the command: the commit has none.
    let mut session = call.peer.client().start_session().run()?;
    let starting = session.start_transaction();
    match read_concern(call)? {
        Some(concern) => starting.read_concern(concern).run()?,
        None => starting.run()?,
    }
    Ok(session)
}

/// The read concern of a first statement.
fn read_concern(call: &Call) -> Result<Option<ReadConcern>, Failure> {
    let Some(concern) = call.fields().document("readConcern")? else { return Ok(None) };
    let concern = ReadConcernFields::read(concern)?;
    let refused = |message| Err(Failure::new(Code::INVALID_OPTIONS, message));
    if concern.at.is_some() {
        return refused("readConcern of a transaction with 'atClusterTime' is not supported".to_owned());
    }
    match concern.level {
        None => Ok(None),
        Some(level) if READ_CONCERNS.contains(&level) => Ok(Some(ReadConcern::custom(level))),
        Some(level) => refused(format!(
            "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in order to run in a transaction, and is '{level}'"
        )),
    }
}

/// A read concern, checked.
pub(super) struct ReadConcernFields<'a> {
    pub(super) level: Option<&'a str>,
    /// Met at once: there is one member, which has all that it has acknowledged.
    pub(super) after: Option<Timestamp>,
    pub(super) at: Option<Timestamp>,
}

impl<'a> ReadConcernFields<'a> {
    pub(super) fn read(concern: &'a RawDocument) -> Result<Self, Failure> {
        let fields = Fields::of("readConcern", concern);
        fields.allow_all(&["afterClusterTime", "atClusterTime", "level", "provenance"])?;
        let time = |field| {
            let Some(value) = fields.value(field)? else { return Ok(None) };
            let time = value.as_timestamp();
            time.map(Some).ok_or_else(|| fields.wrong_type(field, value, "timestamp"))
        };
        let (after, at) = (time("afterClusterTime")?, time("atClusterTime")?);
        if after.is_some() && at.is_some() {
            let message = "Specifying a timestamp for readConcern snapshot in a causally consistent session is not allowed.";
            return Err(Failure::new(Code::INVALID_OPTIONS, message));
        }
        Ok(Self { level: fields.text("level")?, after, at })
    }
}

/// `commitTransaction`. It runs to its end, whether its client is there or not.
pub(super) fn commit(call: &Call) -> Result<Reply, Failure> {
    let number = number_of_end(call, &["exactlyOnce", "recoveryToken"])?;
    let concern = CommitConcern::read(call)?;
    let token = token(call)?;
    if let Some(token) = &token
        && call.peer.client().is_committed(token, concern.engine.as_ref())?
    {
        // The call of the token is done, whether this transaction was it or not. A newer one of the session goes on.
        let cursors = call.with_turn(|turn| turn.last.abort_number(number));
        call.shared.cursors.close(cursors.unwrap_or_default());
        return Ok(concern.reply(true));
    }
    let time = call.fields().count("maxTimeMS")?.filter(|&limit| limit > 0).map(Duration::from_millis);
    let write = retryable::numbered_write(call, number)?;
    let done = call.with_turn(|turn| {
        let numbered = turn.session();
        let Some(session) = turn.last.session_to_commit(number)? else {
            // Committed before the server was started. What the engine has read of it may not be synced yet.
            call.shared.client.sync()?;
            return Ok(false);
        };
        let mut commit = session.commit_transaction().retryable_unless(write, numbered.is_ended());
        if let Some(concern) = concern.engine.clone() {
            commit = commit.write_concern(concern);
        }
        if let Some(time) = time {
            commit = commit.max_time(time);
        }
        if let Some(token) = token {
            commit = commit.exactly_once(token);
        }
        let done = commit.run();
        let end = match &done {
            Ok(()) => CommitEnd::Committed,
            Err(error) if error.is_commit_unknown() => CommitEnd::Unknown,
            Err(_) => CommitEnd::Aborted,
        };
        call.shared.cursors.close(turn.last.end_commit(end));
        if done.as_ref().is_err_and(is_done) {
            return Ok(true);
        }
        done.map(|()| false).map_err(|error| {
            let is_unknown = error.is_commit_unknown();
            let failure = Failure::from(error);
            // Here the server knows better than a driver: after any other error nothing is stored.
            if is_unknown { failure.with_label(cairndb::UNKNOWN_TRANSACTION_COMMIT_RESULT) } else { failure }
        })
    });
    let was_replayed = done.ok_or_else(|| Failure::internal("a commit has its turn"))??;
    Ok(concern.reply(was_replayed))
}

/// The token of a commit that is to happen exactly once.
fn token(call: &Call) -> Result<Option<Token>, Failure> {
    let fields = call.fields();
    let Some(value) = fields.value("exactlyOnce")? else { return Ok(None) };
    let token = Bson::try_from(value).ok().and_then(|value| Token::of_bson(&value));
    let wrong = || fields.wrong_type("exactlyOnce", value, "objectId, string or binData");
    token.map(Some).ok_or_else(wrong)
}

/// Whether a commit was rejected because another one with its token was faster.
fn is_done(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::ExactlyOnce(ExactlyOnceError::Done))
}

/// `abortTransaction`.
pub(super) fn abort(call: &Call) -> Result<Reply, Failure> {
    let number = number_of_end(call, &["recoveryToken"])?;
    let aborted = call.with_turn(|turn| {
        turn.last.check_in_progress(number)?;
        Ok::<_, Failure>(turn.last.abort())
    });
    call.shared.cursors.close(aborted.transpose()?.unwrap_or_default());
    Ok(doc! {}.into())
}

/// The number of the transaction that a command ends.
fn number_of_end(call: &Call, fields: &[&str]) -> Result<i64, Failure> {
    let name = call.command.name();
    call.fields().allow(fields)?;
    let numbered = call.numbered.filter(|numbered| numbered.is_of_transaction());
    let Some(numbered) = numbered else {
        let message = format!("'{name}' was not sent in a transaction");
        return Err(Failure::new(Code::NO_SUCH_TRANSACTION, message));
    };
    if call.command.database() != "admin" {
        let message = format!("{name} may only be run against the admin database.");
        return Err(Failure::new(Code::UNAUTHORIZED, message));
    }
    Ok(numbered.number)
}

/// The write concern of a commit: what the engine can meet of it, and what it cannot.
struct CommitConcern {
    engine: Option<WriteConcern>,
    /// The error that comes with the commit.
    unmet: Option<Document>,
}

impl CommitConcern {
    /// The reply to a commit that was made, now or before.
    fn reply(self, was_replayed: bool) -> Reply {
        let mut reply = doc! {};
        reply.extend(self.unmet.map(|unmet| ("writeConcernError".to_owned(), unmet.into())));
        if was_replayed {
            reply.insert("replayed", true);
        }
        reply.into()
    }

    fn read(call: &Call) -> Result<Self, Failure> {
        let Some(concern) = call.fields().document("writeConcern")? else {
            return Ok(Self { engine: None, unmet: None });
        };
        let fields = Fields::of("writeConcern", concern);
        fields.allow_all(&["fsync", "j", "w", "wtimeout", "provenance"])?;
        let timeout = fields.count("wtimeout")?.map(Duration::from_millis);
        let journal =
            if fields.boolean("fsync")? == Some(true) { Some(true) } else { fields.boolean("j")? };
        let (w, unmet) = match fields.value("w")? {
            None => (None, None),
            Some(RawBsonRef::String("majority")) => (Some(Acknowledgment::Majority), None),
            Some(RawBsonRef::String(mode)) => {
                let message =
                    format!("No write concern mode named '{mode}' found in replica set configuration");
                (None, Some(unmet(Code::UNKNOWN_REPL_WRITE_CONCERN, message)))
            }
            Some(_) => match fields.count("w")?.unwrap_or_default() {
                // The client waits for no answer.
                0 => (None, None),
                1 => (Some(Acknowledgment::Nodes(1)), None),
                _ => (
                    None,
                    Some(unmet(
                        Code::UNSATISFIABLE_WRITE_CONCERN,
                        "Not enough data-bearing nodes".to_owned(),
                    )),
                ),
            },
        };
        Ok(Self { engine: Some(WriteConcern::new(w, timeout, journal)), unmet })
    }
}

fn unmet(code: Code, message: String) -> Document {
    doc! { "code": code.number(), "codeName": code.name().into_owned(), "errmsg": message }
}
