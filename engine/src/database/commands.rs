//! `run_command` and `run_raw_command`.

use bson::{Document, RawDocumentBuf};

use crate::command::{self, Place};
use crate::database::Database;
use crate::error::Result;

impl Database {
    /// Runs a command, a document whose first field names it, and gives the reply.
    ///
    /// There are MongoDB's `find`, `aggregate`, `insert`, `update`, `delete`, `findAndModify`, `count`, `distinct`, `create`, `drop`,
    /// `listCollections`, `renameCollection`, `createIndexes`, `listIndexes`, `dropIndexes` and `ping`, and for sequences
    /// `createAutoIncrement`, `createSequence`, `sequenceNext` and others. All results are in the first batch: a cursor
    /// that is larger than 16 MiB is an error.
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
        RunCommand { database: self, command: Ok(command) }
    }

    /// The same for a command in raw bytes.
    #[expect(clippy::needless_pass_by_value, reason = "the signature is that of the driver")]
    pub fn run_raw_command(&self, command: RawDocumentBuf) -> RunCommand<'_> {
        RunCommand { database: self, command: Document::try_from(&command).map_err(Into::into) }
    }
}

/// A `run_command` that is done by [`run`](Self::run).
#[must_use = "the command is run by run()"]
pub struct RunCommand<'a> {
    database: &'a Database,
    command: Result<Document>,
}

impl RunCommand<'_> {
    /// Runs the command.
    pub fn run(self) -> Result<Document> {
        let Database { shared, acquirer, name } = self.database;
        command::run(&Place { shared, acquirer: acquirer.as_ref(), db: name }, &self.command?)
    }
}
