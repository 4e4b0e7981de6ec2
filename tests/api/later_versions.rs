//! Where MongoDB's versions after 8.0 do otherwise: what the table of later versions says of CairnDB, of commands and cursors. The
//! cases of the languages are in the conformance corpus.

use cairndb::bson::{Document, doc};
use cairndb::{Client, Hint, IndexModel};
use cairndb_tests::scratch::{Scratch, things};

use crate::{Fixture, refused};

#[test]
fn a_read_that_asks_for_hedging_is_answered_as_any_other() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    let namespace = fixture.things.namespace();
    let db = fixture.client.database(&namespace.db);
    let find = |preference: Document| {
        let command = doc! { "find": namespace.coll.as_str(), "$readPreference": preference };
        db.run_command(command).run().expect("a reply")
    };
    let hedged = find(doc! { "mode": "nearest", "hedge": { "enabled": true } });
    assert_eq!(hedged, find(doc! { "mode": "primary" }));
    assert_eq!(hedged.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len(), 1);
}

#[test]
fn a_facet_is_one_document_and_its_stages_have_their_own_memory() {
    let scratch = Scratch::new();
    let client = scratch.open_with(Client::builder().stage_memory(64 << 10));
    let things = things(&client);
    let documents = (0..1_100).map(|id| doc! { "_id": id, "text": "x".repeat(16 << 10) });
    things.insert_many(documents).run().expect("stored");
    let facet = |stage: Document| {
        let facets = things.aggregate([doc! { "$facet": { "all": [stage] } }]).allow_disk_use(false);
        facets.run().and_then(Iterator::collect::<cairndb::Result<Vec<Document>>>)
    };
    refused(facet(doc! { "$match": {} }), 10334, "$facet");
    refused(facet(doc! { "$sort": { "text": 1 } }), 292, "$sort");
}

/// The cursor reads one moment, in which the index is none of arrays.
#[test]
fn a_query_goes_on_when_its_index_becomes_one_of_arrays() {
    let fixture = Fixture::with((0..300).map(|id| doc! { "_id": id, "n": id }));
    let index = IndexModel::builder().keys(doc! { "n": 1 }).build();
    fixture.things.create_index(index).run().expect("made");
    let mut cursor = fixture
        .things
        .find(doc! { "n": { "$gte": 0 } })
        .hint(Hint::Keys(doc! { "n": 1 }))
        .batch_size(2)
        .run()
        .expect("a cursor");
    let first = cursor.next().expect("a document").expect("it is read");
    assert_eq!(first, doc! { "_id": 0, "n": 0 });
    fixture.things.insert_one(doc! { "_id": 300, "n": [100, 500] }).run().expect("stored");
    let rest: Vec<Document> = cursor.collect::<Result<_, _>>().expect("it goes on");
    assert_eq!(rest, (1..300).map(|id| doc! { "_id": id, "n": id }).collect::<Vec<_>>());
    let later = fixture
        .things
        .find(doc! { "n": { "$gte": 0 } })
        .hint(Hint::Keys(doc! { "n": 1 }))
        .run()
        .expect("a cursor");
    assert_eq!(later.count(), 301);
}
