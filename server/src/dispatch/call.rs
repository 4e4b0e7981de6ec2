//! A command that runs: its connection, its fields, and the checks that all commands share.

use std::sync::Arc;

use bytes::Bytes;
use cairndb::bson::{RawBsonRef, RawDocument};
use cairndb::{CancellationToken, Client, ClientSession};
use parking_lot::Mutex;
use query::code::Code;

use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::message::{DocumentSequence, Message};
use crate::limits::{COMMAND_FIELDS_MAX, Reserved};
use crate::operations::Operation;
use crate::places::Holder;
use crate::portions::Portion;
use crate::reply::Reply;
use crate::sessions::{self, Session};
use crate::shared::{Peer, Shared};
use crate::spans::{OpenSpan, Traced};
use crate::transaction::{Numbered, Turn};

/// The thread of a command.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// In the task of its connection: it calls nothing that could block.
    Here(fn(&Call) -> Result<Reply, Failure>),
    /// A hello: in the task of its connection, unless it begins a login. It may wait before it is answered.
    Greeting(fn(&Call) -> Result<Reply, Failure>),
    /// In the pool, where it may block.
    Pool(fn(&Call) -> Result<Reply, Failure>),
    /// In the pool, but not among the commands that work on the store: it is short, and may be what ends these.
    Look(fn(&Call) -> Result<Reply, Failure>),
    /// A batch of a cursor: in the pool, but while it waits for documents.
    Batch,
    /// A step of a login: in the pool, after the guesses before it have had their turns.
    Login(fn(&Call) -> Result<Reply, Failure>),
}

/// A command and the connection that sent it.
pub(crate) struct Call {
    /// Ends the command. Set, like its number, when the command begins.
    pub(crate) cancellation: CancellationToken,
    pub(crate) operation_id: i64,
    pub(crate) shared: Arc<Shared>,
    pub(crate) peer: Arc<Peer>,
    pub(crate) command: Command,
    /// Its number in its session, and what for.
    pub(crate) numbered: Option<Numbered>,
    /// Its turn at the session, if it has a number.
    pub(crate) turn: Option<Mutex<Turn>>,
    /// Its span, once it has begun.
    pub(crate) span: Option<OpenSpan>,
    /// The memory of the message, held for as long as its bytes are used.
    pub(crate) _reserved: Reserved,
}

/// A command.
#[derive(Clone)]
pub(crate) struct Command {
    name: String,
    database: String,
    body: Bytes,
    pub(crate) sequences: Vec<DocumentSequence>,
    /// Whether the client accepts several answers.
    allows_exhaust: bool,
    /// Whether the command was answered before and runs again.
    is_repeated: bool,
    /// Whether the client waits for no answer.
    wants_no_answer: bool,
}

impl Command {
    /// The command of a message, whose body names its database.
    pub(crate) fn of_message(message: Message) -> Result<Self, Failure> {
        let body = view(&message.body)?;
        let name = name_of(body)?;
        check_fields(&name, body)?;
        let no_database =
            || Failure::new(Code::MESSAGE_DATABASE_MISSING, "OP_MSG requests require a $db argument");
        let database = body.get("$db")?.ok_or_else(no_database)?.as_str();
        let wrong_type = || Failure::new(Code::TYPE_MISMATCH, "the field '$db' must be a string");
        let database = database.ok_or_else(wrong_type)?.to_owned();
        // Read before the message is split.
        let (allows_exhaust, wants_no_answer) = (message.allows_exhaust(), message.wants_no_answer());
        let Message { body, sequences, .. } = message;
        Ok(Self { name, database, body, sequences, allows_exhaust, is_repeated: false, wants_no_answer })
    }

    /// The command of an `OP_QUERY`, whose namespace contains the database.
    pub(crate) fn of_query(database: &str, document: &Bytes) -> Result<Self, Failure> {
        let outer = view(document)?;
        let first = outer.iter().next().transpose()?;
        // Drivers wrap the command to add a read preference, which means nothing for a hello.
        let body = match first {
            Some((wrapper, RawBsonRef::Document(inner)))
                if matches!(wrapper.as_str(), "$query" | "query") =>
            {
                document.slice_ref(inner.as_bytes())
            }
            _ => document.clone(),
        };
        let name = name_of(view(&body)?)?;
        check_fields(&name, view(&body)?)?;
        let (database, sequences) = (database.to_owned(), Vec::new());
        Ok(Self {
            name,
            database,
            body,
            sequences,
            allows_exhaust: false,
            is_repeated: false,
            wants_no_answer: false,
        })
    }

    /// The command to run again, if its client accepts several answers and the command waits between them.
    pub(crate) fn repeated(&self) -> Option<Self> {
        // Only a hello waits. Any other command would answer without a pause and without an end.
        let is_greeting = matches!(self.name.as_str(), "hello" | "isMaster" | "ismaster");
        (self.allows_exhaust && is_greeting).then(|| Self { is_repeated: true, ..self.clone() })
    }

    pub(crate) fn allows_exhaust(&self) -> bool {
        self.allows_exhaust
    }

    pub(crate) fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    pub(crate) fn wants_no_answer(&self) -> bool {
        self.wants_no_answer
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    /// The document of the command, in which nested values were not checked.
    pub(crate) fn body(&self) -> &RawDocument {
        RawDocument::from_bytes(&self.body).expect("a command is made of a document")
    }
}

impl Call {
    /// The store, with operations that end with the command.
    pub(crate) fn client(&self) -> Client {
        self.peer.client().with_cancellation(&self.cancellation)
    }

    pub(crate) fn fields(&self) -> Fields<'_> {
        Fields::of(self.command.name(), self.command.body())
    }

    /// The command as `currentOp` lists it.
    pub(super) fn operation(&self) -> Operation {
        let Command { name, database, .. } = &self.command;
        // A malformed command is listed too, so errors are left to the checks that follow.
        let target = self.fields().argument().ok().flatten().and_then(RawBsonRef::as_str);
        let namespace = match target {
            Some(target) => format!("{database}.{target}"),
            None => format!("{database}.$cmd"),
        };
        Operation::new(&self.peer.remote, name, namespace)
    }

    /// The parts that its span shows.
    pub(super) fn traced(&self) -> Traced<'_> {
        Traced {
            name: self.command.name(),
            database: self.command.database(),
            body: self.command.body(),
            connection: self.peer.remote.connection,
            address: &self.peer.remote.address,
            local: &self.peer.local,
        }
    }

    /// The session of the command.
    pub(crate) fn session(&self) -> Result<Option<Session>, Failure> {
        // Sessions belong to users: the same id of another user is another session.
        let id = self.fields().document("lsid")?.map(sessions::parse).transpose()?;
        Ok(id.map(|id| Session { id, user: self.user_name() }))
    }

    /// The name of the user that the connection is logged in as.
    pub(crate) fn user_name(&self) -> Option<String> {
        self.peer.user().map(|user| user.name)
    }

    /// For whom the command runs.
    pub(crate) fn holder(&self) -> Holder {
        self.peer.holder(&self.shared.settings)
    }

    /// The share of the command's user in the tables that all users share.
    pub(crate) fn portion(&self) -> Portion {
        if self.holder().is_root { Portion::OfRoot } else { Portion::OfReader }
    }

    /// Whether the client has to log in and has not done so yet.
    pub(crate) fn is_of_stranger(&self) -> bool {
        self.peer.is_stranger(&self.shared.settings)
    }

    /// Works with the turn of a numbered command. Returns `None` if the command has no number.
    pub(super) fn with_turn<R>(&self, run: impl FnOnce(&mut Turn) -> R) -> Option<R> {
        // Only the thread that runs the command asks.
        self.turn.as_ref().map(|turn| run(&mut turn.lock()))
    }

    /// The number of the transaction that the command is a statement of.
    pub(super) fn transaction(&self) -> Option<i64> {
        self.numbered.filter(|numbered| numbered.is_of_transaction()).map(|numbered| numbered.number)
    }

    /// Runs a statement in the session of its transaction.
    pub(super) fn in_session<R>(
        &self,
        run: impl FnOnce(&mut ClientSession) -> cairndb::Result<R>,
    ) -> Result<R, Failure> {
        let done = self.with_turn(|turn| turn.last.session().map(run)).flatten();
        Ok(done.ok_or_else(|| Failure::internal("a statement has a transaction"))??)
    }

    /// The checks of every command before it runs.
    pub(super) fn check(&self) -> Result<(), Failure> {
        // A stranger has no sessions: they would belong to no user.
        if let Some(session) = self.session()?
            && !self.is_of_stranger()
        {
            self.shared.sessions.touch(session, self.portion()).end_elsewhere();
        }
        Ok(())
    }
}

fn view(bytes: &Bytes) -> Result<&RawDocument, Failure> {
    Ok(RawDocument::from_bytes(bytes)?)
}

/// Rejects a command that has a field twice, as MongoDB does: one reader could use the first of them and another the last,
/// so that what was checked is not what is used.
fn check_fields(command: &str, body: &RawDocument) -> Result<(), Failure> {
    let mut names = Vec::with_capacity(16);
    for field in body {
        if names.len() == COMMAND_FIELDS_MAX {
            let message = format!("a command has at most {COMMAND_FIELDS_MAX} fields");
            return Err(Failure::new(Code::FAILED_TO_PARSE, message));
        }
        names.push(field?.0.as_str());
    }
    names.sort_unstable();
    let twice = names.iter().zip(names.iter().skip(1)).find(|(name, next)| name == next);
    let Some((name, _)) = twice else { return Ok(()) };
    let message = format!("BSON field '{command}.{name}' is a duplicate field");
    Err(Failure::new(Code::IDL_DUPLICATE_FIELD, message))
}

fn name_of(body: &RawDocument) -> Result<String, Failure> {
    let first = body.iter().next().transpose()?;
    let (name, _) =
        first.ok_or_else(|| Failure::new(Code::FAILED_TO_PARSE, "the command is an empty document"))?;
    Ok(name.as_str().to_owned())
}
