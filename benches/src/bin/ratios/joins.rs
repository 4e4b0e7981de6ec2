//! Figures of `$lookup`: against the same join, written by hand over the same bytes in raw RocksDB. Both sides make the
//! joined documents.

use std::collections::HashMap;

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{RawArrayBuf, RawDocument, RawDocumentBuf, cstr, doc, rawdoc};
use cairndb::{Collection, IndexModel, IndexOptions};
use cairndb_benches::documents::mix;
use cairndb_benches::measure::{speed_ratio, time};
use cairndb_benches::ours::Ours;
use cairndb_benches::raw::{Raw, Record, record_with_id, unique_entry};
use index::key::{self, Direction};

use crate::queries::measured;

/// Documents on each side of the join.
const JOINED: u64 = 100_000;
/// The id by hand of the collection whose documents look others up; that of the others is in `record_with_id`.
const LOOKING: u32 = 6;

/// The code of a document, which no other one has.
fn code(number: u64) -> i64 {
    mix(number).cast_signed()
}

/// Both sides with the same documents, written out to table files. The documents of `orders` have the codes of those of
/// `parts`, in another order.
struct Tables {
    ours: Ours,
    raw: Raw,
}

impl Tables {
    fn filled() -> Self {
        let tables = Self { ours: Ours::create(), raw: Raw::create() };
        let parts = (0..JOINED).map(|number| {
            let mut document = measured(number);
            document.append(cstr!("code"), code(number));
            record_with_id(&document, ObjectId::new())
        });
        let parts: Vec<Record> = parts.collect();
        tables.fill(&tables.parts(), &parts);
        for (number, (key, _)) in (0..JOINED).zip(&parts) {
            let (entry, types) = unique_entry(code(number), key);
            tables.raw.db().put_cf(tables.raw.entries(), entry, types).expect("written");
        }
        // 7919 has no divisor but itself, so every code is looked up once.
        let orders = (0..JOINED).map(|number| {
            let document = rawdoc! { "count": number.cast_signed(), "code": code(number * 7_919 % JOINED) };
            let (key, value) = record_with_id(&document, ObjectId::new());
            ([&LOOKING.to_be_bytes()[..], key.get(4..).expect("a record key")].concat(), value)
        });
        tables.fill(&tables.ours.orders(), &orders.collect::<Vec<_>>());
        tables.ours.client().flush().expect("flushed");
        tables.raw.db().flush_cf(tables.raw.records()).expect("flushed");
        tables.raw.db().flush_cf(tables.raw.entries()).expect("flushed");
        tables
    }

    fn parts(&self) -> Collection<RawDocumentBuf> {
        self.ours.client().database("bench").collection("parts")
    }

    fn fill(&self, collection: &Collection<RawDocumentBuf>, records: &[Record]) {
        for records in records.chunks(1000) {
            let documents = records.iter().map(|(_, value)| RawDocumentBuf::from_bytes(value.clone()));
            let documents: Vec<RawDocumentBuf> = documents.collect::<Result<_, _>>().expect("documents");
            collection.insert_many(&documents).run().expect("inserted");
            for (key, value) in records {
                self.raw.db().put_cf(self.raw.records(), key, value).expect("written");
            }
        }
    }

    /// The join by CairnDB.
    fn look_up(&self) {
        let lookup = doc! { "from": "parts", "localField": "code", "foreignField": "code", "as": "parts" };
        let mut cursor = self.ours.orders().aggregate([doc! { "$lookup": lookup }]).run().expect("a cursor");
        let (mut seen, mut bytes) = (0, 0);
        while cursor.advance().expect("read") {
            seen += 1;
            bytes += cursor.current().as_bytes().len();
        }
        check(seen, bytes);
    }

    /// The join by hand: `find` gives the parts of a code.
    fn look_up_by_hand<'f>(&self, mut find: impl FnMut(i64) -> Option<std::borrow::Cow<'f, [u8]>>) {
        let mut orders = self.raw.db().raw_iterator_cf(self.raw.records());
        orders.seek(LOOKING.to_be_bytes());
        let (mut seen, mut bytes) = (0, 0);
        while let Some((_, value)) = orders.item() {
            let mut joined = RawDocumentBuf::from_bytes(value.to_vec()).expect("a document");
            let part = find(joined.get_i64("code").expect("a code")).expect("every code is there");
            let mut parts = RawArrayBuf::new();
            parts.push(RawDocument::from_bytes(&part).expect("a document"));
            joined.append(cstr!("parts"), parts);
            seen += 1;
            bytes += joined.as_bytes().len();
            orders.next();
        }
        check(seen, bytes);
    }
}

/// Every order must have its part, which is several times as long.
fn check(seen: u64, bytes: usize) {
    assert_eq!(seen, JOINED);
    assert!(bytes > 200 * 100_000, "{bytes} bytes");
}

pub(crate) fn lookup_indexed() -> f64 {
    let tables = Tables::filled();
    let options = IndexOptions::builder().unique(true).build();
    let model = IndexModel::builder().keys(doc! { "code": 1 }).options(options).build();
    tables.parts().create_index(model).run().expect("an index");
    let raw = &tables.raw;
    speed_ratio(
        || time(|| tables.look_up()),
        || {
            time(|| {
                tables.look_up_by_hand(|code| {
                    let (entry, _) = unique_entry(code, &[0; 4]);
                    let entry = raw.db().get_cf(raw.entries(), entry).expect("read")?;
                    let id = key::skip(&entry, Direction::Ascending).expect("an entry");
                    let key = [&1_u32.to_be_bytes()[..], entry.get(..id).expect("an entry")].concat();
                    raw.db().get_cf(raw.records(), key).expect("read").map(std::borrow::Cow::Owned)
                });
            })
        },
    )
}

pub(crate) fn lookup_hash() -> f64 {
    let tables = Tables::filled();
    let raw = &tables.raw;
    speed_ratio(
        || time(|| tables.look_up()),
        || {
            time(|| {
                let mut parts: HashMap<i64, Vec<u8>> = HashMap::new();
                let mut records = raw.db().raw_iterator_cf(raw.records());
                records.seek(1_u32.to_be_bytes());
                // The orders come after the parts: their collection has the higher id.
                while let Some((key, value)) =
                    records.item().filter(|(key, _)| key.starts_with(&[0, 0, 0, 1]))
                {
                    assert!(key.len() > 4);
                    let document = RawDocument::from_bytes(value).expect("a document");
                    parts.insert(document.get_i64("code").expect("a code"), value.to_vec());
                    records.next();
                }
                tables.look_up_by_hand(|code| parts.get(&code).map(|part| part.as_slice().into()));
            })
        },
    )
}
