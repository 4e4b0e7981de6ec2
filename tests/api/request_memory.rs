//! The memory of commands in raw bytes when they are decoded: a little input can be much memory.

use cairndb::bson::{Document, RawArrayBuf, RawDocumentBuf, doc, rawdoc};

use crate::{Fixture, refused};

fn repeated(document: &RawDocumentBuf, count: usize) -> RawArrayBuf {
    let mut array = RawArrayBuf::new();
    (0..count).for_each(|_| array.push(document.clone()));
    array
}

// A find of 13 MB whose filter has a million empty documents used 400 MB when it was decoded, eight at once used five
// gigabytes, and no budget knew of it.
#[test]
fn a_request_that_takes_too_much_memory_when_decoded_is_refused() {
    let fixture = Fixture::new();
    let db = fixture.client.database("shop");
    db.run_command(doc! { "insert": "a", "documents": [{ "_id": 1 }] }).run().unwrap();
    let many = |count: usize| repeated(&rawdoc! {}, count);
    let find = |count: usize| rawdoc! { "find": "a", "filter": { "x": { "$nin": many(count) } } };
    refused(db.run_raw_command(find(400_000)).run(), 146, "exceeded the memory limit of 268435456 bytes");
    refused(db.run_raw_cursor_command(find(400_000)).run().map(|_| ()), 146, "exceeded the memory limit");
    assert_eq!(db.run_raw_command(find(30_000)).run().unwrap().get_f64("ok").ok(), Some(1.0));
    let set = rawdoc! { "q": {}, "u": { "$set": { "x": many(400_000) } } };
    refused(
        db.run_raw_command(rawdoc! { "update": "a", "updates": [set] }).run(),
        146,
        "exceeded the memory",
    );
    let changed = db.collection::<Document>("a").count_documents(doc! { "x": { "$exists": true } }).run();
    assert_eq!(changed.unwrap(), 0);
}

#[test]
fn statements_are_decoded_one_by_one_and_checked_all_before() {
    let fixture = Fixture::new();
    let db = fixture.client.database("shop");
    db.run_command(doc! { "insert": "a", "documents": [{ "_id": 1, "n": 0 }] }).run().unwrap();
    // Together they would use more than an operation may have.
    let statement = rawdoc! { "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } } };
    let many = repeated(&statement, 60_000);
    let reply = db.run_raw_command(rawdoc! { "update": "a", "updates": many }).run().unwrap();
    assert_eq!(reply.get_i32("nModified").ok(), Some(60_000));
    let mut deep = rawdoc! {};
    for _ in 0..200 {
        deep = rawdoc! { "a": deep };
    }
    let last = rawdoc! { "q": {}, "u": { "$set": { "x": deep } } };
    let updates = rawdoc! { "update": "a", "updates": [statement, last] };
    refused(db.run_raw_command(updates).run(), 15, "nested too deeply");
    let found = db.collection::<Document>("a").find_one(doc! {}).run().unwrap();
    assert_eq!(found, Some(doc! { "_id": 1, "n": 60_000 }));
}
