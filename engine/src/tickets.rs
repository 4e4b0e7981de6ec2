//! Tickets: which writes are meant when somebody waits for the disk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::error::Result;

use crate::shared::Shared;

/// As long as makes no difference to waiting without end.
const FAR: Duration = Duration::from_secs(365 * 86_400);

/// Stands for all writes that had returned when [`Client::durability_ticket`](crate::Client::durability_ticket) was called.
///
/// Tickets of one store can be compared: a greater one stands for more writes. Those of different stores are neither equal nor ordered.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let people = client.database("app").collection::<Document>("people");
/// people.insert_one(doc! { "name": "Ada" }).run()?;
/// let ticket = client.durability_ticket()?;
///
/// // Another thread waits for the disk.
/// std::thread::spawn(move || ticket.wait()).join().unwrap()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DurabilityTicket {
    shared: Arc<Shared>,
    sequence: u64,
}

impl DurabilityTicket {
    /// A ticket for all writes until now.
    pub(crate) fn of_now(shared: &Arc<Shared>) -> Result<Self> {
        let sequence = shared.store.enter()?.latest_sequence();
        Ok(Self::up_to(sequence, shared))
    }

    /// A ticket for all writes up to a sequence number.
    pub(crate) fn up_to(sequence: u64, shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), sequence }
    }

    /// Whether the writes are on stable storage.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// let ticket = client.durability_ticket()?;
    /// client.sync()?;
    /// assert!(ticket.is_durable());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_durable(&self) -> bool {
        self.shared.store.durable_sequence() >= self.sequence
    }

    /// Waits until the writes are on stable storage. Threads that wait at the same time share one sync.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// client.durability_ticket()?.wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(&self) -> Result<()> {
        // The sync in the background may have done it. Then the store need not even be open any more.
        if self.is_durable() {
            return Ok(());
        }
        let database = self.shared.store.enter()?;
        // One sync covers everything written before it, and so the write of this ticket.
        self.shared.store.sync(&database)
    }

    /// Waits until the writes are on stable storage, but not for longer than `time`. Returns whether they are.
    ///
    /// It causes no sync: they are with the next one, which the store makes in the background or another thread asks for.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// // The background makes it durable within a tenth of a second.
    /// assert!(client.durability_ticket()?.wait_for(Duration::from_secs(60)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_for(&self, time: Duration) -> bool {
        if self.is_durable() {
            return true;
        }
        // A time that no clock can show is a very long one.
        let now = Instant::now();
        let moment = now.checked_add(time).unwrap_or_else(|| now + FAR);
        self.shared.store.wait_until_durable(self.sequence, moment)
    }
}

impl PartialEq for DurabilityTicket {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(std::cmp::Ordering::Equal)
    }
}

impl PartialOrd for DurabilityTicket {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        let is_one_store = Arc::ptr_eq(self.shared.engine(), other.shared.engine());
        is_one_store.then(|| self.sequence.cmp(&other.sequence))
    }
}

impl std::fmt::Debug for DurabilityTicket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DurabilityTicket").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}
