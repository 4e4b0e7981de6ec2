//! State shared by a client and everything that comes from it: the driver's client, the blocks, and the place of
//! counters.

use std::sync::Arc;

use bson::Document;
use mongodb::sync;

use crate::cluster::blocks::Blocks;

/// The collection in which `cairn migrate` creates counters by default.
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
