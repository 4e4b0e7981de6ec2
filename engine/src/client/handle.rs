//! The struct `Client`, and what it gives: handles to databases, and writes to several collections.

use std::sync::Arc;

#[cfg(doc)]
use base::error::ErrorKind;
use base::error::Result;
use base::namespace::SystemCollection;
use bson::oid::ObjectId;
use query::operation::CancellationToken;

use crate::collection::{BulkWrite, Collection};
use crate::database::Database;
use crate::options::{WriteConcern, WriteModel};
use crate::outcomes::retryable::{self, NewestWrite, RetryableWrite};
use crate::outcomes::row::Kind;
use crate::outcomes::token::Token;
use crate::results::SummaryBulkWriteResult;
use crate::session::StartSession;
use crate::shared::{Caller, Shared};

/// An open database folder, from which all other handles come.
///
/// Open it with [`Client::open`], or with [`Client::builder`] to set options. A client is cheap to clone and can be used from
/// many threads. Close it with [`close`](Client::close); dropping the last handle closes it too, but can only log errors.
///
/// ```
/// use cairndb::{Client, bson::{Document, doc}};
///
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("shop");
/// let client = Client::open(&path)?;
/// let orders = client.database("shop").collection::<Document>("orders");
/// let id = orders.insert_one(doc! { "item": "lamp", "price": 20 }).run()?.inserted_id;
/// client.close()?;
///
/// let client = Client::open(&path)?;
/// let orders = client.database("shop").collection::<Document>("orders");
/// let order = orders.find_one(doc! { "_id": id }).run()?.expect("stored above");
/// assert_eq!(order.get("item"), Some(&"lamp".into()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    pub(super) shared: Arc<Shared>,
    pub(super) caller: Caller,
}

impl Client {
    /// The state below, for the engine's unit tests.
    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Returns a handle to a database, which need not exist yet.
    ///
    /// A name that is not allowed is reported by the first verb.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// assert!(shop.list_collection_names().run()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn database(&self, name: &str) -> Database {
        Database::new(Arc::clone(&self.shared), self.caller.clone(), name)
    }

    /// Returns a handle to a system collection, which a server keeps for itself. It cannot be reached by its name.
    ///
    /// ```
    /// # use cairndb::{Client, SystemCollection, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let users = client.system_collection::<Document>(SystemCollection::Users);
    /// users.insert_one(doc! { "_id": "admin.ada" }).run()?;
    /// let by_name = client.database("admin").collection::<Document>("system.users");
    /// assert!(by_name.find_one(doc! {}).run().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn system_collection<T>(&self, system: SystemCollection) -> Collection<T> {
        Collection::of_system(Arc::clone(&self.shared), system)
    }

    /// Starts a session, for transactions: writes to any documents of any collections that are stored all together or not at all.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let (orders, lines) = (client.database("shop").collection::<Document>("orders"), client.database("shop").collection::<Document>("lines"));
    /// orders.insert_one(doc! { "_id": 1, "lines": 0 }).run()?;
    /// lines.insert_one(doc! { "_id": 0 }).run()?;
    ///
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().and_run(|session| {
    ///     lines.insert_one(doc! { "_id": 1, "order": 1, "what": "a pen" }).session(&mut *session).run()?;
    ///     orders.update_one(doc! { "_id": 1 }, doc! { "$inc": { "lines": 1 } }).session(&mut *session).run()
    /// })?;
    /// assert_eq!(orders.find_one(doc! {}).run()?, Some(doc! { "_id": 1, "lines": 1 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_session(&self) -> StartSession<'_> {
        StartSession::of(&self.shared, &self.caller)
    }

    /// Makes a token for a call that is to happen [exactly once](crate::guide::exactly_once): an `ObjectId` that no other call of any program has.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let counters = client.database("app").collection::<Document>("counters");
    /// counters.insert_one(doc! { "_id": 1, "visits": 0 }).run()?;
    /// let token = client.token();
    /// for _ in 0..2 {
    ///     counters.update_one(doc! { "_id": 1 }, doc! { "$inc": { "visits": 1 } }).exactly_once(&token).run()?;
    /// }
    /// assert_eq!(counters.find_one(doc! {}).run()?, Some(doc! { "_id": 1, "visits": 1 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn token(&self) -> Token {
        ObjectId::from_bytes(self.shared.generator.generate().bytes()).into()
    }

    /// Whether a transaction of a token is committed.
    ///
    /// ```
    /// # use cairndb::{Client, Token, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let token = Token::from("cart 17");
    /// assert!(!client.is_committed(&token, None)?);
    /// client.start_session().run()?.start_transaction().exactly_once(&token).and_run(|_| Ok(()))?;
    /// assert!(client.is_committed(&token, None)?);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(hidden)]
    pub fn is_committed(&self, token: &Token, concern: Option<&WriteConcern>) -> Result<bool> {
        self.start_session().run()?.is_committed(token, concern)
    }

    /// The last write or transaction of a session that a client may ask for again, if it is not forgotten. Waits for one that runs.
    ///
    /// ```
    /// # use cairndb::{Client, RetryableWrite, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let write = RetryableWrite::new([1; 16], [0; 16], 5);
    /// let insert = doc! { "insert": "orders", "documents": [{ "_id": 1 }] };
    /// client.database("shop").run_command(insert).retryable(write).run()?;
    /// let newest = client.newest_retryable_write(&write)?.expect("it was stored");
    /// assert_eq!((newest.number, newest.is_commit), (5, false));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(hidden)]
    pub fn newest_retryable_write(&self, write: &RetryableWrite) -> Result<Option<NewestWrite>> {
        let operation = self.shared.operation(&self.caller, None);
        // A command of the session that runs may be about to leave one.
        let row = self.shared.turns.alone(write.session(), &operation, || {
            retryable::newest(&*self.shared.store.enter()?, write.session())
        })?;
        Ok(row.map(|row| NewestWrite { number: row.number, is_commit: row.kind == Kind::Commit }))
    }

    /// Executes many writes to any number of collections, one after the other. It is not a transaction: each write is
    /// committed by itself.
    ///
    /// The writes are models such as [`InsertOneModel`](crate::InsertOneModel).
    ///
    /// ```
    /// # use cairndb::{Client, DeleteOneModel, InsertOneModel, Namespace, WriteModel, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let books = Namespace::new("library", "books");
    /// let writes: [WriteModel; 2] = [
    ///     InsertOneModel::builder().namespace(books.clone()).document(doc! { "_id": 1 }).build().into(),
    ///     DeleteOneModel::builder().namespace(books).filter(doc! { "_id": 1 }).build().into(),
    /// ];
    /// let result = client.bulk_write(writes).run()?;
    /// assert_eq!((result.inserted_count, result.deleted_count), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn bulk_write(
        &self,
        models: impl IntoIterator<Item = impl Into<WriteModel>>,
    ) -> BulkWrite<'_, SummaryBulkWriteResult> {
        BulkWrite::new(&self.shared, self.caller.clone(), models, None)
    }

    /// Returns a client for the same folder that gets the values of sequences from blocks of its own. The handles that come
    /// from it do so too. A block has `AcquireSize` values.
    ///
    /// All other handles share blocks, so that values are handed out in the order of the calls. Dropping the last handle of
    /// an acquirer returns the rest of its blocks. Values that can no longer be handed out are listed as gaps.
    ///
    /// ```
    /// # use cairndb::{Client, SequenceOptions};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let options = SequenceOptions::builder().acquire_size(10).build();
    /// client.database("shop").create_sequence("tickets").with_options(options).run()?;
    ///
    /// let (one, other) = (client.acquirer(), client.acquirer());
    /// assert_eq!(one.database("shop").sequence("tickets").next_value().run()?, 1);
    /// assert_eq!(other.database("shop").sequence("tickets").next_value().run()?, 11);
    /// assert_eq!(one.database("shop").sequence("tickets").next_value().run()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquirer(&self) -> Self {
        let caller = Caller { acquirer: Some(Arc::default()), ..self.caller.clone() };
        Self { shared: Arc::clone(&self.shared), caller }
    }

    /// Returns a client for the same folder whose operations end when `token` is cancelled: its own, and those of all
    /// databases, collections and cursors that come from it.
    ///
    /// When a thread calls [`cancel`](CancellationToken::cancel), running operations fail with code 11601 (`Interrupted`)
    /// within a short time, and so do later ones. A small call that has begun may still succeed. What was committed before
    /// stays: after an `update_many` some documents are changed and others not.
    ///
    /// ```
    /// # use cairndb::{CancellationToken, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let token = CancellationToken::new();
    /// let people = client.with_cancellation(&token).database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    ///
    /// // A user closes the window while another thread counts.
    /// std::thread::spawn(move || token.cancel()).join().unwrap();
    /// let refused = people.count_documents(doc! { "name": "Ada" }).run().unwrap_err();
    /// assert_eq!(refused.code(), Some(11_601));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_cancellation(&self, token: &CancellationToken) -> Self {
        Self { shared: Arc::clone(&self.shared), caller: self.caller.with_cancellation(token) }
    }

    /// Whether the folder was opened for reading only.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// assert!(!client.is_read_only());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_read_only(&self) -> bool {
        self.shared.options.mode.is_read_only()
    }

    /// Waits for running operations, syncs all writes and closes the folder. From then on every handle fails.
    ///
    /// An error means that the last writes may not be on stable storage, or that open cursors keep the folder open
    /// ([`ErrorKind::CursorsOpen`]).
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// client.close()?;
    /// // Other handles are left over, and refuse every call.
    /// assert!(people.insert_one(doc! { "name": "Ada" }).run().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(self) -> Result<()> {
        self.shared.close()
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("path", &self.shared.options.path).finish_non_exhaustive()
    }
}
