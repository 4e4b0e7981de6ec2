//! The options of transactions: their reads, and the acknowledgement of their commits.

use std::time::Duration;

use base::error::{Error, Result};

use crate::options::WriteConcern;
use crate::transaction::Isolation;

/// The name of the level that no other store has.
const SERIALIZABLE: &str = "serializable";

/// The agreement of a transaction's reads with the writes of others.
///
/// ```
/// use cairndb::ReadConcern;
///
/// assert_eq!(ReadConcern::snapshot().level(), "snapshot");
/// assert_eq!(ReadConcern::custom("local"), ReadConcern::local());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadConcern {
    level: String,
}

impl ReadConcern {
    /// The state that the transaction began with.
    pub fn local() -> Self {
        Self::custom("local")
    }

    /// The state that the transaction began with: there is one member.
    pub fn majority() -> Self {
        Self::custom("majority")
    }

    /// The state that the transaction began with.
    pub fn snapshot() -> Self {
        Self::custom("snapshot")
    }

    /// The state that the transaction began with, which must still be as it was read when the transaction commits: else that fails with
    /// code 112 (`WriteConflict`). CairnDB's own level.
    ///
    /// A transaction that writes nothing is not looked at. What is read by an `_id` conflicts with writes of that document, and any other
    /// search with each write to its collection. So read by `_id`s where many write.
    ///
    /// ```
    /// use cairndb::{Client, ReadConcern, bson::{Document, doc}};
    ///
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// let client = Client::open(folder.path().join("db"))?;
    /// let doctors = client.database("app").collection::<Document>("doctors");
    /// doctors.insert_many(["Ada", "Grace"].map(|name| doc! { "_id": name, "on_duty": true })).run()?;
    ///
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().read_concern(ReadConcern::serializable()).and_run(|session| {
    ///     let on_duty = doctors.count_documents(doc! { "on_duty": true }).session(&mut *session).run()?;
    ///     if on_duty > 1 {
    ///         let leave = doc! { "$set": { "on_duty": false } };
    ///         doctors.update_one(doc! { "_id": "Ada" }, leave).session(&mut *session).run()?;
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn serializable() -> Self {
        Self::custom(SERIALIZABLE)
    }

    /// A level by its name.
    pub fn custom(level: impl Into<String>) -> Self {
        Self { level: level.into() }
    }

    /// The name of the level.
    pub fn level(&self) -> &str {
        &self.level
    }
}

/// The options of a transaction when it is started.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TransactionOptions {
    /// The read concern. `local`, `majority` and `snapshot` all mean the state of its first statement; `serializable`
    /// that it must still be so at the commit.
    pub read_concern: Option<ReadConcern>,
    /// The write concern of the commit. The default is as the client was opened.
    pub write_concern: Option<WriteConcern>,
    /// The time that the commit may wait for others.
    pub max_commit_time: Option<Duration>,
}

impl TransactionOptions {
    /// These options, and where nothing is said those of a session.
    pub(super) fn or(self, defaults: &Self) -> Self {
        Self {
            read_concern: self.read_concern.or_else(|| defaults.read_concern.clone()),
            write_concern: self.write_concern.or_else(|| defaults.write_concern.clone()),
            max_commit_time: self.max_commit_time.or(defaults.max_commit_time),
        }
    }

    /// The promise of the transaction.
    pub(super) fn isolation(&self) -> Isolation {
        match &self.read_concern {
            Some(concern) if concern.level() == SERIALIZABLE => Isolation::Serializable,
            Some(_) | None => Isolation::Snapshot,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        const LEVELS: [&str; 4] = ["local", "majority", "snapshot", SERIALIZABLE];
        match &self.read_concern {
            Some(concern) if !LEVELS.contains(&concern.level()) => Err(Error::invalid_argument(format!(
                "a transaction reads with the level {}, and not '{}'",
                LEVELS.join(", "),
                concern.level()
            ))),
            _ => Ok(()),
        }
    }
}
