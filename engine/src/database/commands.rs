//! `run_command`, `run_raw_command`, and the same for commands that give a cursor.

use std::borrow::Cow;

use bson::{Document, RawDocumentBuf};

use crate::command::{self, Body, Place, Request};
use crate::cursor::Cursor;
use crate::database::Database;
use crate::error::Result;

impl Database {
    /// Runs a command, a document whose first field names it, and gives the reply.
    ///
    /// There are MongoDB's `find`, `aggregate`, `insert`, `update`, `delete`, `findAndModify`, `count`, `distinct`, `create`, `drop`,
    /// `listCollections`, `renameCollection`, `createIndexes`, `listIndexes`, `dropIndexes`, `listDatabases`,
    /// `dropDatabase`, `dbStats`, `collStats` and `ping`, and for sequences `createAutoIncrement`, `createSequence`,
    /// `sequenceNext` and others. All results are in the first batch: a cursor that is larger than 16 MiB is an error,
    /// and [`run_cursor_command`](Self::run_cursor_command) is for it.
    ///
    /// What single statements of a write were refused for stands in the reply's `writeErrors`. Fails with code 59 for an
    /// unknown command, with 40415 for an unknown field, and with 238 for what MongoDB has and CairnDB has not.
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
        RunCommand { database: self, request: Request::of(Body::Decoded(command)) }
    }

    /// The same for a command in raw bytes. The documents that an `insert` stores are not decoded.
    pub fn run_raw_command(&self, command: RawDocumentBuf) -> RunCommand<'_> {
        RunCommand { database: self, request: Request::of(Body::Raw(command)) }
    }

    /// Runs a command that gives a cursor, `find` for one, and gives the cursor.
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

    /// The same for a command in raw bytes.
    pub fn run_raw_cursor_command(&self, command: RawDocumentBuf) -> RunCursorCommand<'_> {
        RunCursorCommand { database: self, request: Request::of(Body::Raw(command)) }
    }
}

/// A `run_command` that is done by [`run`](Self::run).
#[must_use = "the command is run by run()"]
pub struct RunCommand<'a> {
    database: &'a Database,
    request: Request<'a>,
}

/// A `run_cursor_command` that is done by [`run`](Self::run).
#[must_use = "the command is run by run()"]
pub struct RunCursorCommand<'a> {
    database: &'a Database,
    request: Request<'a>,
}

impl<'a> RunCommand<'a> {
    /// Gives a field its array of documents as bytes beside the command, one document behind the other: as `OP_MSG` has
    /// them. The field must not stand in the command as well.
    pub fn document_sequence(
        mut self,
        field: impl Into<String>,
        documents: impl Into<Cow<'a, [u8]>>,
    ) -> Self {
        self.request.sequences.push((field.into(), documents.into()));
        self
    }

    /// Runs the command.
    pub fn run(self) -> Result<Document> {
        command::run(&self.database.place(), &self.request)
    }
}

impl RunCursorCommand<'_> {
    /// Runs the command.
    pub fn run(self) -> Result<Cursor<Document>> {
        Ok(command::open(&self.database.place(), &self.request)?.cursor.with_type())
    }
}

impl Database {
    fn place(&self) -> Place<'_> {
        Place { shared: &self.shared, caller: self.caller.clone(), db: &self.name }
    }
}
