//! What a client and everything that comes from it have in common: the driver's client, the blocks, and where counters are.

use std::sync::Arc;

use bson::Document;
use mongodb::sync;

use crate::cluster::blocks::Blocks;

/// Where `cairn migrate` makes counters unless it is told otherwise.
const COUNTERS: &str = "counters";

/// Clones share the blocks.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) driver: sync::Client,
    pub(super) blocks: Arc<Blocks>,
    /// The database and the collection of all counters, if they are in one.
    pub(super) counters: Option<(String, String)>,
}

impl Held {
    /// The collection of the counters of a database.
    pub(super) fn counters_of(&self, database: &str) -> sync::Collection<Document> {
        match &self.counters {
            Some((database, collection)) => self.driver.database(database).collection(collection),
            None => self.driver.database(database).collection(COUNTERS),
        }
    }
}
