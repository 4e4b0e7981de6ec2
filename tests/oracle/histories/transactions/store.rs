//! The collections of a run of transactions, from one opening of the folder to its closing.

use std::time::Duration;

use cairndb::bson::{Document, doc};
use cairndb::{AutoIncrement, Client, Collection, Contract, Durability, IndexModel, IndexOptions};
use cairndb_tests::scratch::{Scratch, small_with_cache};

use crate::histories::lists::Key;
use crate::histories::store::Opening;

/// The lists. Few, so that threads meet.
pub(crate) const KEYS: [Key; 6] = [0, 1, 2, 3, 4, 5];
/// The lifetime of a transaction that is to outlive it: the shortest there is.
pub(crate) const LIFETIME: Duration = Duration::from_secs(1);

pub(crate) struct Store {
    /// Documents with the number of their list as `_id` and `place`, which has an index, made by the first append.
    pub(crate) lists: Collection<Document>,
    /// With a unique field `name`.
    pub(crate) names: Collection<Document>,
    /// With a gapless number `n`.
    pub(crate) numbered: Collection<Document>,
    pub(crate) client: Client,
}

impl Store {
    pub(crate) fn open(scratch: &Scratch, opening: Opening, is_slow: bool) -> cairndb::Result<Self> {
        let durability = if opening.is_journaled {
            Durability::Journaled
        } else {
            Durability::Buffered { sync_interval: Duration::from_millis(20) }
        };
        let options = small_with_cache(opening.number).durability(durability).planted_fault(opening.fault);
        let options = if is_slow { options.transaction_lifetime(LIFETIME) } else { options };
        let client = options.open(scratch.path())?;
        let database = client.database("histories");
        let collection = |name| database.collection::<Document>(name);
        let [lists, names, numbered] = ["lists", "names", "numbered"].map(collection);
        Ok(Self { lists, names, numbered, client })
    }

    /// Makes what a new folder lacks.
    pub(crate) fn fill(&self) -> cairndb::Result<()> {
        self.lists.create_index(IndexModel::builder().keys(doc! { "place": 1 }).build()).run()?;
        let unique = IndexOptions::builder().unique(true).build();
        self.names
            .create_index(IndexModel::builder().keys(doc! { "name": 1 }).options(unique).build())
            .run()?;
        let field = AutoIncrement::builder().field("n").contract(Contract::Gapless).build();
        self.client.database("histories").create_collection("numbered").auto_increment(field).run()
    }
}
