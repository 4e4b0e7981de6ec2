//! Running commands: `run_command` and `run_cursor_command`, each for a decoded document and for raw bytes.

use std::borrow::Cow;
use std::sync::Arc;

use base::error::Result;
use bson::{Document, RawDocumentBuf};

use crate::command::{self, Body, CommandContext, Request};
use crate::cursor::Cursor;
use crate::database::handle::Database;
use crate::outcomes::retryable::{Retryable, RetryableWrite};
use crate::session::{ClientSession, SessionCursor};
use crate::shared::Caller;
use crate::transaction::Transaction;

impl Database {
    /// Runs a command and returns its reply. A command is a document whose first field is the command's name.
    ///
    /// MongoDB's commands are `find`, `aggregate`, `insert`, `update`, `delete`, `findAndModify`, `bulkWrite`, `count`, `distinct`,
    /// `create`, `drop`, `listCollections`, `renameCollection`, `createIndexes`, `listIndexes`, `dropIndexes`,
    /// `listDatabases`, `dropDatabase`, `dbStats`, `collStats`, `ping` and others. Those for sequences, such as
    /// `createAutoIncrement`, `createSequence` and `sequenceNext`, are CairnDB's own.
    ///
    /// All results of a cursor are in the reply's `firstBatch`. If they exceed 16 MiB the call fails; then use
    /// [`run_cursor_command`](Self::run_cursor_command).
    ///
    /// If statements of a write fail, the reply lists their errors in `writeErrors`. The call itself fails with code 59
    /// (`CommandNotFound`) for an unknown command, with code 40415 for an unknown field, and with code 238
    /// (`NotImplemented`) for a command that MongoDB has and CairnDB has not.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let db = client.database("shop");
    /// db.run_command(doc! { "insert": "orders", "documents": [{ "_id": 1, "item": "lamp" }] }).run()?;
    /// let reply = db.run_command(doc! { "count": "orders", "query": { "item": "lamp" } }).run()?;
    /// assert_eq!(reply, doc! { "n": 1, "ok": 1.0 });
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_command(&self, command: Document) -> RunCommand<'_> {
        RunCommand {
            database: self,
            request: Request::of(Body::Decoded(command)),
            statement_of: Ok(None),
            retryable: None,
        }
    }

    /// Runs a command that is given as raw bytes, and returns its reply. See [`run_command`](Self::run_command).
    ///
    /// The documents of an `insert` are stored without being decoded.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// let command = doc! { "insert": "orders", "documents": [{ "_id": 1 }, { "_id": 2 }] };
    /// let raw = cairndb::bson::RawDocumentBuf::try_from(&command)?;
    /// assert_eq!(shop.run_raw_command(raw).run()?, doc! { "n": 2, "ok": 1.0 });
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_raw_command(&self, command: RawDocumentBuf) -> RunCommand<'_> {
        RunCommand {
            database: self,
            request: Request::of(Body::Raw(command)),
            statement_of: Ok(None),
            retryable: None,
        }
    }

    /// Runs a command that has a cursor as its result, such as `find`, and returns the cursor.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let db = client.database("shop");
    /// db.run_command(doc! { "insert": "orders", "documents": [{ "_id": 1 }, { "_id": 2 }] }).run()?;
    /// let orders = db.run_cursor_command(doc! { "find": "orders", "sort": { "_id": -1 } }).run()?;
    /// assert_eq!(orders.collect::<Result<Vec<_>, _>>()?, [doc! { "_id": 2 }, doc! { "_id": 1 }]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_cursor_command(&self, command: Document) -> RunCursorCommand<'_> {
        RunCursorCommand { database: self, request: Request::of(Body::Decoded(command)) }
    }

    /// Runs a command that is given as raw bytes and has a cursor as its result, and returns the cursor. See
    /// [`run_cursor_command`](Self::run_cursor_command).
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.run_command(doc! { "insert": "orders", "documents": [{ "_id": 1 }] }).run()?;
    /// let find = cairndb::bson::RawDocumentBuf::try_from(&doc! { "find": "orders" })?;
    /// let orders = shop.run_raw_cursor_command(find).run()?;
    /// assert_eq!(orders.collect::<Result<Vec<_>, _>>()?, [doc! { "_id": 1 }]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_raw_cursor_command(&self, command: RawDocumentBuf) -> RunCursorCommand<'_> {
        RunCursorCommand { database: self, request: Request::of(Body::Raw(command)) }
    }
}

/// The action that [`Database::run_command`] and [`Database::run_raw_command`] return. [`run`](Self::run) executes it.
///
/// ```
/// # use cairndb::{Client, bson::doc};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let reply = client.database("shop").run_command(doc! { "ping": 1 }).run()?;
/// assert_eq!(reply, doc! { "ok": 1.0 });
/// # Ok(())
/// # }
/// ```
#[must_use = "the command is run by run()"]
pub struct RunCommand<'a> {
    database: &'a Database,
    request: Request<'a>,
    statement_of: Result<Option<Arc<Transaction>>>,
    retryable: Option<RetryableWrite>,
}

/// The action that [`Database::run_cursor_command`] and [`Database::run_raw_cursor_command`] return.
/// [`run`](Self::run) executes it.
#[must_use = "the command is run by run()"]
pub struct RunCursorCommand<'a> {
    database: &'a Database,
    request: Request<'a>,
}

impl<'a> RunCommand<'a> {
    /// Adds a field with an array of documents, which `documents` has as bytes, one after the other. This is how MongoDB's
    /// wire protocol (`OP_MSG`) sends them. The command must not have the field already.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// let mut documents = cairndb::bson::serialize_to_vec(&doc! { "_id": 1 })?;
    /// documents.extend(cairndb::bson::serialize_to_vec(&doc! { "_id": 2 })?);
    /// let insert = shop.run_command(doc! { "insert": "orders" }).document_sequence("documents", documents);
    /// assert_eq!(insert.run()?, doc! { "n": 2, "ok": 1.0 });
    /// # Ok(())
    /// # }
    /// ```
    pub fn document_sequence(
        mut self,
        field: impl Into<String>,
        documents: impl Into<Cow<'a, [u8]>>,
    ) -> Self {
        self.request.sequences.push((field.into(), documents.into()));
        self
    }

    /// Makes the command a statement of a session: a part of its transaction, if it has started one.
    ///
    /// Within a transaction only `find`, `aggregate`, `distinct`, `insert`, `update`, `delete`, `findAndModify`, `bulkWrite`, `create`
    /// and `createIndexes` can be run: all others fail with code 263 (`OperationNotSupportedInTransaction`). A write that is listed in `writeErrors` has aborted
    /// the transaction.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.run_command(doc! { "insert": "orders", "documents": [{ "_id": 1 }] }).run()?;
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().run()?;
    /// let insert = doc! { "insert": "orders", "documents": [{ "_id": 2 }] };
    /// shop.run_command(insert).session(&mut session).run()?;
    /// let counted = shop.run_command(doc! { "count": "orders" }).session(&mut session).run();
    /// assert_eq!(counted.unwrap_err().code(), Some(263));
    /// session.commit_transaction().run()?;
    /// assert_eq!(shop.collection::<Document>("orders").count_documents(doc! {}).run()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(mut self, session: &'a mut ClientSession) -> Self {
        self.statement_of = session.statement_of(&self.database.shared);
        self
    }

    /// Makes the command one that has effect once, however often it is run with this number. Run again, it is answered as the first
    /// time, also after a crash.
    ///
    /// Only writes of single documents can be repeated: `insert`, `findAndModify`, `update` without `multi`, and `delete` with a
    /// limit of 1, and a `bulkWrite` of these. Others fail with code 72 (`InvalidOptions`), and so does a number that another command had. A lower number than the
    /// last one of its session is code 225 (`TransactionTooOld`).
    ///
    /// ```
    /// # use cairndb::{Client, RetryableWrite, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// let update = doc! { "q": { "_id": "lamps" }, "u": { "$inc": { "sold": 1 } }, "upsert": true };
    /// for _ in 0..2 {
    ///     let command = doc! { "update": "stock", "updates": [update.clone()] };
    ///     shop.run_command(command).retryable(RetryableWrite::new([1; 16], [0; 16], 1)).run()?;
    /// }
    /// assert_eq!(shop.collection("stock").find_one(doc! {}).run()?, Some(doc! { "_id": "lamps", "sold": 1 }));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(hidden)]
    pub fn retryable(mut self, write: RetryableWrite) -> Self {
        self.retryable = Some(write);
        self
    }

    /// Runs the command.
    pub fn run(self) -> Result<Document> {
        let mut context = self.database.context_within(self.statement_of?);
        context.caller.retryable = self.retryable.map(|write| Arc::new(Retryable::new(write)));
        command::run(&context, &self.request)
    }
}

impl<'a> RunCursorCommand<'a> {
    /// Makes the command a statement of a session, as [`RunCommand::session`] does. Its cursor is read with the session.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.run_command(doc! { "insert": "orders", "documents": [{ "_id": 1 }] }).run()?;
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().run()?;
    /// let mut orders = shop.run_cursor_command(doc! { "find": "orders" }).session(&mut session).run()?;
    /// assert_eq!(orders.next(&mut session).transpose()?, Some(doc! { "_id": 1 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(self, session: &'a mut ClientSession) -> RunSessionCursorCommand<'a> {
        let Self { database, request } = self;
        RunSessionCursorCommand { database, request, statement_of: session.statement_of(&database.shared) }
    }
}

/// A command with a cursor within a session: the action that [`RunCursorCommand::session`] returns. [`run`](Self::run) executes
/// it.
#[must_use = "the command is run by run()"]
pub struct RunSessionCursorCommand<'a> {
    database: &'a Database,
    request: Request<'a>,
    statement_of: Result<Option<Arc<Transaction>>>,
}

impl RunSessionCursorCommand<'_> {
    /// Runs the command.
    pub fn run(self) -> Result<SessionCursor<Document>> {
        let transaction = self.statement_of?;
        let context = self.database.context_within(transaction.clone());
        let cursor = command::open(&context, &self.request)?.cursor.with_type();
        Ok(SessionCursor::of(cursor, transaction))
    }
}

impl RunCursorCommand<'_> {
    /// Runs the command.
    pub fn run(self) -> Result<Cursor<Document>> {
        // Commands give raw documents, because a server sends them as they are. Here they are decoded.
        Ok(command::open(&self.database.context(), &self.request)?.cursor.with_type())
    }
}

impl Database {
    fn context(&self) -> CommandContext<'_> {
        // The caller goes along, so that a cancelled token of this handle ends commands too.
        CommandContext { shared: &self.shared, caller: self.caller.clone(), db: &self.name }
    }

    fn context_within(&self, transaction: Option<Arc<Transaction>>) -> CommandContext<'_> {
        let context = self.context();
        CommandContext { caller: Caller { transaction, ..context.caller }, ..context }
    }
}
