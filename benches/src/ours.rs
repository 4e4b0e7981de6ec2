//! CairnDB's side: a database in a folder of its own that goes away with it.

use cairndb::bson::RawDocumentBuf;
use cairndb::{Client, ClientBuilder, Collection, Durability};
use tempfile::TempDir;

use crate::raw::{SYNC_INTERVAL, WRITE_INTERVAL};

/// An open CairnDB database with one collection.
pub struct Ours {
    client: Client,
    // Dropped after the client.
    folder: TempDir,
}

impl Ours {
    /// Makes one with default options.
    ///
    /// # Panics
    /// If the temporary folder cannot hold it.
    pub fn create() -> Self {
        Self::with(Durability::default())
    }

    /// Makes one whose writes are acknowledged in memory.
    ///
    /// # Panics
    /// If the temporary folder cannot hold it.
    pub fn delayed() -> Self {
        Self::with(Durability::Delayed { write_interval: WRITE_INTERVAL, sync_interval: SYNC_INTERVAL })
    }

    /// Makes one whose sorts, groups and joins may use as much memory before they go on in files.
    ///
    /// # Panics
    /// If the temporary folder cannot hold it.
    pub fn with_stage_memory(bytes: usize) -> Self {
        Self::built(Client::builder().stage_memory(bytes))
    }

    fn with(durability: Durability) -> Self {
        Self::built(Client::builder().durability(durability))
    }

    fn built(builder: ClientBuilder) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let client = builder.open(folder.path().join("db")).expect("a new database");
        client.database("bench").create_collection("orders").run().expect("a new collection");
        Self { client, folder }
    }

    /// Its client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The collection, with documents as raw bytes.
    pub fn orders(&self) -> Collection<RawDocumentBuf> {
        self.client.database("bench").collection("orders")
    }

    /// The folder of the database.
    pub fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("db")
    }
}
