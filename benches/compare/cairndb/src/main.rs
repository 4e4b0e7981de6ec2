//! The work of the comparison in CairnDB: raw BSON without `_id`, through the public API only.
//!
//! An insert makes an ObjectId and keeps `_id` unique. Synced runs wait for the sync of each call;
//! unsynced ones are CairnDB's default, where a background sync follows within 100 ms. In delayed ones the log is
//! handed to the operating system every 5 ms.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use bson::oid::ObjectId;
use bson::{Document, RawDocumentBuf, doc};
use cairndb::{Client, ClientSession, Collection, Cursor, IndexModel};
use workload::{
    City, DocumentStore, Durability, IndexedStore, Kind, Order, Parcel, PipelineStore, Read, Result, Seen,
    Store, Wanted,
};

struct Cairn {
    documents: Collection<RawDocumentBuf>,
    parcels: Collection<RawDocumentBuf>,
    session: ClientSession,
    // Last, because fields are dropped in order: the collection lets go of the database first.
    _client: Client,
}

/// The durability that the engine's documentation recommends for the level.
const DELAYED: cairndb::Durability = cairndb::Durability::Delayed {
    write_interval: Duration::from_millis(5),
    sync_interval: Duration::from_millis(100),
};

fn object_id(id: &bson::Bson) -> Result<ObjectId> {
    id.as_object_id().ok_or_else(|| format!("the inserted id {id} is not an ObjectId").into())
}

impl Store for Cairn {
    type Document = RawDocumentBuf;
    type Id = ObjectId;
    const HAS_TRANSACTIONS: bool = true;

    fn open(folder: &Path, durability: Durability) -> Result<Self> {
        let durability = match durability {
            Durability::Synced => cairndb::Durability::Journaled,
            Durability::Unsynced => cairndb::Durability::default(),
            Durability::Delayed => DELAYED,
        };
        let client = Client::builder().durability(durability).open(folder)?;
        let database = client.database("compare");
        let (documents, parcels) = (database.collection("documents"), database.collection("parcels"));
        let session = client.start_session().run()?;
        Ok(Self { documents, parcels, session, _client: client })
    }

    fn prepare(order: &Order) -> Result<RawDocumentBuf> {
        Ok(bson::serialize_to_raw_document_buf(order)?)
    }

    fn insert_one(&mut self, document: RawDocumentBuf) -> Result<ObjectId> {
        object_id(&self.documents.insert_one(&document).run()?.inserted_id)
    }

    fn insert_many(&mut self, documents: Vec<RawDocumentBuf>) -> Result<Vec<ObjectId>> {
        let inserted = self.documents.insert_many(&documents).run()?.inserted_ids;
        (0..documents.len())
            .map(|position| inserted.get(&position).ok_or("an id is missing".into()).and_then(object_id))
            .collect()
    }

    fn transact(&mut self, documents: Vec<RawDocumentBuf>) -> Result<Vec<ObjectId>> {
        self.session.start_transaction().run()?;
        let mut ids = Vec::with_capacity(documents.len());
        for document in &documents {
            let inserted = self.documents.insert_one(document).session(&mut self.session).run()?;
            ids.push(object_id(&inserted.inserted_id)?);
        }
        self.session.commit_transaction().run()?;
        Ok(ids)
    }

    fn read(&self, id: &ObjectId, seen: &mut Seen) -> Result<()> {
        if let Some(document) = self.documents.find_one(doc! { "_id": *id }).run()? {
            seen.bytes(document.as_bytes());
        }
        Ok(())
    }

    fn scan(&self, seen: &mut Seen) -> Result<()> {
        show(self.documents.find(doc! {}).run()?, seen)
    }
}

impl DocumentStore for Cairn {
    fn find(&self, wanted: &Wanted, seen: &mut Seen) -> Result<()> {
        let filter = doc! { "number": { "$gt": wanted.above }, "customer.city": wanted.city };
        show(self.documents.find(filter).run()?, seen)
    }

    fn increment(&mut self, id: &ObjectId) -> Result<u64> {
        let update = doc! { "$inc": { "placed": 1_i64 } };
        Ok(self.documents.update_one(doc! { "_id": *id }, update).run()?.modified_count)
    }
}

impl IndexedStore for Cairn {
    const KINDS: &'static [Kind] = &Kind::ALL;

    fn create_index(&mut self) -> Result<()> {
        self.documents.create_index(IndexModel::builder().keys(doc! { "number": 1 }).build()).run()?;
        Ok(())
    }

    fn read_by_index(&self, read: Read, seen: &mut Seen) -> Result<()> {
        let between = |first: i64, last: i64| {
            self.documents.find(doc! { "number": { "$gte": first, "$lte": last } }).sort(doc! { "number": 1 })
        };
        let found = match read {
            Read::One(number) => self.documents.find(doc! { "number": number }),
            Read::Range(first, last) => between(first, last),
            Read::Last(count) => {
                self.documents.find(doc! {}).sort(doc! { "number": -1 }).limit(i64::try_from(count)?)
            }
            Read::Numbers(first, last) => between(first, last).projection(doc! { "_id": 0, "number": 1 }),
        };
        show(found.run()?, seen)
    }
}

impl PipelineStore for Cairn {
    fn group(&self) -> Result<BTreeMap<String, City>> {
        let city =
            doc! { "_id": "$customer.city", "orders": { "$sum": 1_i64 }, "numbers": { "$sum": "$number" } };
        let mut cities = BTreeMap::new();
        for found in self.documents.aggregate([doc! { "$group": city }]).run()? {
            let found: Document = found?;
            let city = City { orders: found.get_i64("orders")?, numbers: found.get_i64("numbers")? };
            cities.insert(found.get_str("_id")?.to_owned(), city);
        }
        Ok(cities)
    }

    fn insert_parcels(&mut self, parcels: &[Parcel]) -> Result<()> {
        let documents = parcels.iter().map(bson::serialize_to_raw_document_buf);
        self.parcels.insert_many(documents.collect::<std::result::Result<Vec<_>, _>>()?).run()?;
        Ok(())
    }

    fn index_parcels(&mut self) -> Result<()> {
        self.parcels.create_index(IndexModel::builder().keys(doc! { "order": 1 }).build()).run()?;
        Ok(())
    }

    fn join(&self, end: i64, seen: &mut Seen) -> Result<()> {
        let lookup =
            doc! { "from": "parcels", "localField": "number", "foreignField": "order", "as": "parcel" };
        let pipeline = [
            doc! { "$match": { "number": { "$lt": end } } },
            doc! { "$lookup": lookup },
            doc! { "$unwind": "$parcel" },
        ];
        show(self.documents.aggregate(pipeline).with_type::<RawDocumentBuf>().run()?, seen)
    }
}

/// Shows documents as the cursor lends them: the other stores lend theirs too.
fn show(mut found: Cursor<RawDocumentBuf>, seen: &mut Seen) -> Result<()> {
    while found.advance()? {
        seen.bytes(found.current().as_bytes());
    }
    Ok(())
}

fn main() -> ExitCode {
    workload::run_pipelines::<Cairn>()
}
