//! The durability of a client's writes: how far they are on stable storage, and waiting until they are.

use base::error::Result;

use crate::client::handle::Client;
use crate::tickets::DurabilityTicket;

impl Client {
    /// Returns the number of the newest write. Writes are numbered in the order of their commits. Compare it with
    /// [`durable_seq`](Self::durable_seq).
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let before = client.written_seq()?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// assert!(client.written_seq()? > before);
    /// # Ok(())
    /// # }
    /// ```
    pub fn written_seq(&self) -> Result<u64> {
        Ok(self.shared.store.enter()?.latest_sequence())
    }

    /// Returns the number of the newest write that is on stable storage. All writes up to it are on stable storage too.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// client.sync()?;
    /// assert_eq!(client.durable_seq(), client.written_seq()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn durable_seq(&self) -> u64 {
        // The store is not entered: the mark is in memory, and stays right after a close.
        self.shared.store.durable_sequence()
    }

    /// Returns a ticket for all writes until now, to wait for their durability later and in any thread.
    ///
    /// A recipe: [many writes, one wait](crate::guide::recipes#many-writes-one-wait).
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// let ticket = client.durability_ticket()?;
    /// people.insert_one(doc! { "name": "Grace" }).run()?;
    /// ticket.wait()?;
    /// assert!(ticket.is_durable());
    /// # Ok(())
    /// # }
    /// ```
    pub fn durability_ticket(&self) -> Result<DurabilityTicket> {
        DurabilityTicket::of_now(&self.shared)
    }

    /// Returns a ticket for all writes that are on stable storage by now. A ticket is durable if it is not greater.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// let mut tickets = vec![client.durability_ticket()?];
    /// client.sync()?;
    /// people.insert_one(doc! { "name": "Grace" }).run()?;
    /// tickets.push(client.durability_ticket()?);
    ///
    /// let durable = client.durable_through();
    /// tickets.retain(|ticket| *ticket > durable);
    /// assert!(tickets.len() <= 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn durable_through(&self) -> DurabilityTicket {
        DurabilityTicket::up_to(self.durable_seq(), &self.shared)
    }

    /// Waits until all writes until now are on stable storage.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// for name in ["Ada", "Grace", "Edith"] {
    ///     people.insert_one(doc! { "name": name }).run()?;
    /// }
    /// // One sync for all three.
    /// client.sync()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sync(&self) -> Result<()> {
        let database = self.shared.store.enter()?;
        self.shared.store.sync(&database)
    }

    /// Writes the memtables to table files. This is useful only before files are measured: it does not make writes more
    /// durable than [`sync`](Self::sync), and is done in the background as needed.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// client.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn flush(&self) -> Result<()> {
        let database = self.shared.store.enter()?;
        self.shared.store.flush(&database)
    }
}
