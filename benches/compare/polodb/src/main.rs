//! The work of the comparison in PoloDB: documents as trees, which is the form that it stores from and
//! hands out, with ObjectIds of its own making.
//!
//! PoloDB syncs every commit and has no setting against it, so it is left out of unsynced runs.

use std::path::Path;
use std::process::ExitCode;

use polodb_core::bson::{self, Document, doc, oid::ObjectId};
use polodb_core::{Collection, CollectionT, Database, IndexModel};
use workload::{DocumentStore, Durability, IndexedStore, Kind, Order, Read, Result, Seen, Store, Wanted};

struct Polo {
    documents: Collection<Document>,
    // Last, because fields are dropped in order: the collection lets go of the database first.
    _db: Database,
}

impl Store for Polo {
    type Document = Document;
    type Id = ObjectId;

    fn open(folder: &Path, durability: Durability) -> Result<Self> {
        if durability != Durability::Synced {
            return Err("PoloDB syncs every commit".into());
        }
        let db = Database::open_path(folder)?;
        Ok(Self { documents: db.collection("documents"), _db: db })
    }

    fn prepare(order: &Order) -> Result<Document> {
        Ok(bson::to_document(order)?)
    }

    fn insert_one(&mut self, document: Document) -> Result<ObjectId> {
        let id = self.documents.insert_one(document)?.inserted_id;
        id.as_object_id().ok_or_else(|| format!("the inserted id {id} is not an ObjectId").into())
    }

    fn insert_many(&mut self, documents: Vec<Document>) -> Result<Vec<ObjectId>> {
        let count = documents.len();
        let inserted = self.documents.insert_many(documents)?.inserted_ids;
        (0..count)
            .map(|position| {
                let id = inserted.get(&position).and_then(bson::Bson::as_object_id);
                id.ok_or_else(|| format!("document {position} of a batch got no ObjectId").into())
            })
            .collect()
    }

    fn read(&self, id: &ObjectId, seen: &mut Seen) -> Result<()> {
        if let Some(document) = self.documents.find_one(doc! { "_id": *id })? {
            seen.tree(document.len());
        }
        Ok(())
    }

    fn scan(&self, seen: &mut Seen) -> Result<()> {
        for document in self.documents.find(doc! {}).run()? {
            seen.tree(document?.len());
        }
        Ok(())
    }
}

impl DocumentStore for Polo {
    fn find(&self, wanted: &Wanted, seen: &mut Seen) -> Result<()> {
        let filter = doc! { "number": { "$gt": wanted.above }, "customer.city": wanted.city };
        for document in self.documents.find(filter).run()? {
            seen.tree(document?.len());
        }
        Ok(())
    }

    fn increment(&mut self, id: &ObjectId) -> Result<u64> {
        let update = doc! { "$inc": { "placed": 1_i64 } };
        Ok(self.documents.update_one(doc! { "_id": *id }, update)?.modified_count)
    }
}

impl IndexedStore for Polo {
    /// Its index answers equality only.
    const KINDS: &'static [Kind] = &[Kind::One];

    fn create_index(&mut self) -> Result<()> {
        Ok(self.documents.create_index(IndexModel { keys: doc! { "number": 1 }, options: None })?)
    }

    fn read_by_index(&self, read: Read, seen: &mut Seen) -> Result<()> {
        let Read::One(number) = read else { return Err("PoloDB's index answers equality only".into()) };
        for document in self.documents.find(doc! { "number": number }).run()? {
            seen.tree(document?.len());
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    workload::run_documents::<Polo>()
}
