//! A command on its way: who sent it, what it is, and the checks that all commands share.

use std::sync::Arc;

use bytes::Bytes;
use cairndb::bson::{RawBsonRef, RawDocument};
use cairndb::{CancellationToken, Client};

use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::message::{Message, Sequence};
use crate::limits::Reserved;
use crate::operations::Operation;
use crate::reply::Reply;
use crate::sessions::{self, Session};
use crate::shared::{Peer, Shared};

/// Where a command runs.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// Where it came in: it touches nothing that could block.
    Here(fn(&Call) -> Result<Reply, Failure>),
    /// The same, unless a login is begun with it; and it may wait for something new.
    Greeting(fn(&Call) -> Result<Reply, Failure>),
    /// Where it may block.
    Pool(fn(&Call) -> Result<Reply, Failure>),
    /// The same, after others have had their turn to guess.
    Login(fn(&Call) -> Result<Reply, Failure>),
}

/// A command, and the connection that it came by.
pub(crate) struct Call {
    /// What ends the command, and its number; set when it begins.
    pub(crate) cancellation: CancellationToken,
    pub(crate) operation_id: i64,
    pub(crate) shared: Arc<Shared>,
    pub(crate) peer: Arc<Peer>,
    pub(crate) command: Command,
    /// What the message holds of the budget, for as long as its bytes are there.
    pub(crate) _reserved: Reserved,
}

/// A command.
#[derive(Clone)]
pub(crate) struct Command {
    name: String,
    database: String,
    body: Bytes,
    pub(crate) sequences: Vec<Sequence>,
    /// Whether the client takes several answers to it.
    allows_exhaust: bool,
    /// Whether it was answered before.
    is_repeated: bool,
    /// Whether the client takes no answer to it.
    wants_no_answer: bool,
}

impl Command {
    /// The command of a message, whose body names its database.
    pub(crate) fn of_message(message: Message) -> Result<Self, Failure> {
        let body = view(&message.body)?;
        let name = name_of(body)?;
        let no_database = || Failure::new(40_571, "Location40571", "OP_MSG requests require a $db argument");
        let database = body.get("$db")?.ok_or_else(no_database)?.as_str();
        let wrong_type = || Failure::new(14, "TypeMismatch", "the field '$db' must be a string");
        let database = database.ok_or_else(wrong_type)?.to_owned();
        let (allows_exhaust, wants_no_answer) = (message.allows_exhaust(), message.wants_no_answer());
        let Message { body, sequences, .. } = message;
        Ok(Self { name, database, body, sequences, allows_exhaust, is_repeated: false, wants_no_answer })
    }

    /// The command of a query of old, which names the database itself.
    pub(crate) fn of_query(database: &str, document: &Bytes) -> Result<Self, Failure> {
        let outer = view(document)?;
        let first = outer.iter().next().transpose()?;
        let body = match first {
            Some((wrapper, RawBsonRef::Document(inner)))
                if matches!(wrapper.as_str(), "$query" | "query") =>
            {
                document.slice_ref(inner.as_bytes())
            }
            _ => document.clone(),
        };
        let name = name_of(view(&body)?)?;
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

    /// The same command again, if its client takes all answers that come, and it is one that waits between them.
    pub(crate) fn repeated(&self) -> Option<Self> {
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

    /// The command's document, in which nested values were not looked at.
    pub(crate) fn body(&self) -> &RawDocument {
        RawDocument::from_bytes(&self.body).expect("a command is made of a document")
    }
}

impl Call {
    /// The store, for operations that end with the command.
    pub(crate) fn client(&self) -> Client {
        self.peer.client().with_cancellation(&self.cancellation)
    }

    pub(crate) fn fields(&self) -> Fields<'_> {
        Fields::of(self.command.name(), self.command.body())
    }

    /// The command as `currentOp` lists it.
    pub(super) fn operation(&self) -> Operation {
        let Command { name, database, .. } = &self.command;
        let target = self.fields().argument().ok().flatten().and_then(RawBsonRef::as_str);
        let namespace = match target {
            Some(target) => format!("{database}.{target}"),
            None => format!("{database}.$cmd"),
        };
        Operation::new((self.peer.id, self.peer.address.clone()), name, namespace)
    }

    /// The session of the command.
    pub(crate) fn session(&self) -> Result<Option<Session>, Failure> {
        let id = self.fields().document("lsid")?.map(sessions::parse).transpose()?;
        Ok(id.map(|id| Session { id, user: self.user_name() }))
    }

    /// The user that the connection has proven to be.
    pub(crate) fn user_name(&self) -> Option<String> {
        self.peer.user().map(|user| user.name)
    }

    /// Whether the connection has to log in, and has not.
    pub(crate) fn is_of_stranger(&self) -> bool {
        self.peer.is_stranger(&self.shared.settings)
    }

    /// What is checked of every command before it runs.
    pub(super) fn check(&self) -> Result<(), Failure> {
        // A stranger could make up as many sessions as there may be, and leave none to users.
        if let Some(session) = self.session()?
            && !self.is_of_stranger()
        {
            self.shared.sessions.touch(session)?;
        }
        let fields = self.fields();
        for field in ["txnNumber", "startTransaction", "autocommit"] {
            if fields.value(field)?.is_some() {
                return Err(Failure::new(
                    20,
                    "IllegalOperation",
                    "Transaction numbers are only allowed on a replica set member or mongos",
                ));
            }
        }
        Ok(())
    }
}

fn view(bytes: &Bytes) -> Result<&RawDocument, Failure> {
    Ok(RawDocument::from_bytes(bytes)?)
}

fn name_of(body: &RawDocument) -> Result<String, Failure> {
    let first = body.iter().next().transpose()?;
    let (name, _) =
        first.ok_or_else(|| Failure::new(9, "FailedToParse", "the command is an empty document"))?;
    Ok(name.as_str().to_owned())
}
