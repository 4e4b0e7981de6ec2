//! Many threads at once: a key is given once, and no index is ever unenforced.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cairndb::bson::{Document, doc};
use cairndb::{Error, IndexModel, IndexOptions};
use cairndb_tests::race::race;

use crate::Fixture;

const THREADS: i32 = 8;
const KEYS: i32 = 50;
const ROUNDS: i32 = 10;

fn unique_on_k() -> IndexModel {
    let unique = IndexOptions::builder().unique(true).build();
    IndexModel::builder().keys(doc! { "k": 1 }).options(unique).build()
}

/// 1 if the document was stored, 0 if its key was taken.
#[track_caller]
fn stored<T: std::fmt::Debug>(result: Result<T, Error>) -> u64 {
    match result {
        Ok(_) => 1,
        Err(error) => {
            assert!(error.is_duplicate_key(), "{error:?}");
            0
        }
    }
}

fn keys(documents: &[Document]) -> Vec<i32> {
    documents.iter().map(|document| document.get_i32("k").expect("a key")).collect()
}

#[test]
fn an_id_is_given_to_one_of_eight_threads() {
    let fixture = Fixture::new();
    for round in 0..ROUNDS {
        let insert = |thread, key| {
            stored(fixture.things.insert_one(doc! { "_id": round * KEYS + key, "thread": thread }).run())
        };
        let acknowledged = race(0..THREADS, |thread| (0..KEYS).map(|key| insert(thread, key)).sum::<u64>());
        assert_eq!(acknowledged.into_iter().sum::<u64>(), u64::from(KEYS.cast_unsigned()));
    }
    assert_eq!(fixture.stored().len(), (KEYS * ROUNDS).cast_unsigned() as usize);
    fixture.verify_clean();
}

#[test]
fn an_acknowledged_insert_is_the_one_that_is_stored() {
    let fixture = Fixture::new();
    race(0..THREADS, |thread| {
        // From both ends, so that some threads ascend and others do not.
        for step in 0..KEYS {
            let key = if thread % 2 == 0 { step } else { KEYS - 1 - step };
            if fixture.things.insert_one(doc! { "_id": key, "thread": thread }).run().is_ok() {
                let found = fixture.things.find_one(doc! { "_id": key }).run().expect("a read");
                assert_eq!(found.expect("stored").get_i32("thread").expect("a thread"), thread);
            }
        }
    });
    assert_eq!(fixture.things.estimated_document_count().run().unwrap(), 50);
}

#[test]
fn a_unique_key_is_given_to_one_of_eight_threads() {
    let fixture = Fixture::new();
    fixture.things.create_index(unique_on_k()).run().unwrap();
    for round in 0..ROUNDS {
        let insert = |key| stored(fixture.things.insert_one(doc! { "k": round * KEYS + key }).run());
        let acknowledged = race(0..THREADS, |_| (0..KEYS).map(insert).sum::<u64>());
        assert_eq!(acknowledged.into_iter().sum::<u64>(), u64::from(KEYS.cast_unsigned()));
    }
    let mut stored = keys(&fixture.stored());
    stored.sort_unstable();
    assert_eq!(stored, (0..KEYS * ROUNDS).collect::<Vec<_>>());
    fixture.verify_clean();
}

#[test]
fn batches_that_overlap_do_not_share_a_key() {
    let fixture = Fixture::new();
    fixture.things.create_index(unique_on_k()).run().unwrap();
    let acknowledged = race(0..THREADS, |thread| {
        let order = |key: i32| if thread % 2 == 0 { key } else { 199 - key };
        let batch = (0..200).map(|key| doc! { "k": order(key), "thread": thread });
        match fixture.things.insert_many(batch).ordered(false).run() {
            Ok(result) => result.inserted_ids.len() as u64,
            Err(error) => {
                let cairndb::ErrorKind::InsertMany(details) = error.kind() else { panic!("{error:?}") };
                details.inserted_ids.len() as u64
            }
        }
    });
    assert_eq!(acknowledged.into_iter().sum::<u64>(), 200);
    let stored = keys(&fixture.stored());
    assert_eq!((stored.len(), stored.iter().collect::<BTreeSet<_>>().len()), (200, 200));
    fixture.verify_clean();
}

#[test]
fn a_unique_index_that_races_inserts_is_enforced_or_not_made() {
    let mut made = 0;
    for round in 0..20 {
        let fixture = Fixture::new();
        let created = AtomicBool::new(false);
        race(0..THREADS, |thread| {
            if thread == 0 {
                match fixture.things.create_index(unique_on_k()).run() {
                    Ok(_) => created.store(true, Ordering::SeqCst),
                    Err(error) => assert_eq!(error.code(), Some(11000), "{error:?}"),
                }
                return 0;
            }
            // In every other round the threads keep apart, so that the index can be made.
            let key = |step| if round % 2 == 0 { thread * 1000 + step } else { step };
            (0..40).map(|step| stored(fixture.things.insert_one(doc! { "k": key(step) }).run())).sum::<u64>()
        });
        let names = fixture.things.list_index_names().run().unwrap();
        let is_made = names.iter().any(|name| name == "k_1");
        assert_eq!(is_made, created.load(Ordering::SeqCst));
        made += u64::from(is_made);
        if is_made {
            let stored = keys(&fixture.stored());
            assert_eq!(stored.iter().collect::<BTreeSet<_>>().len(), stored.len());
            assert!(
                fixture
                    .things
                    .insert_one(doc! { "k": stored[0] })
                    .run()
                    .expect_err("enforced")
                    .is_duplicate_key()
            );
        }
        fixture.verify_clean();
    }
    assert!(made >= 10, "where keys keep apart the index is always made; it was {made} times");
}

#[test]
fn one_index_made_by_all_threads_is_one_index() {
    let fixture = Fixture::with((0..500).map(|id| doc! { "_id": id, "k": id }));
    race(0..THREADS, |_| {
        fixture.things.create_index(unique_on_k()).run().expect("an index");
    });
    assert_eq!(fixture.things.list_index_names().run().unwrap(), ["_id_", "k_1"]);
    let report = fixture.client.verify().unwrap();
    assert!(report.is_clean() && report.entries == 500, "{report:?}");
}

#[test]
fn replacements_that_race_are_all_counted() {
    let fixture = Fixture::with([doc! { "_id": 1, "k": 0 }]);
    fixture.things.create_index(unique_on_k()).run().unwrap();
    // Each replacement names the version that it read: one of those that race may win.
    let won = race(0..THREADS, |_| {
        let mut won = 0;
        for _ in 0..50 {
            let seen = fixture.things.find_one(doc! { "_id": 1 }).run().expect("a read").expect("stored");
            let version = seen.get_i32("k").expect("a version");
            let replaced =
                fixture.things.replace_one(doc! { "_id": 1, "k": version }, doc! { "k": version + 1 });
            won += replaced.run().expect("a replacement").modified_count;
        }
        won
    });
    assert_eq!(
        u64::from(fixture.stored()[0].get_i32("k").unwrap().cast_unsigned()),
        won.into_iter().sum::<u64>()
    );
    fixture.verify_clean();
}

#[test]
fn upserts_of_one_id_insert_it_once() {
    let fixture = Fixture::new();
    let inserted = race(0..THREADS, |thread| {
        let upsert = |key| {
            let upsert =
                fixture.things.replace_one(doc! { "_id": key }, doc! { "thread": thread }).upsert(true);
            u64::from(upsert.run().expect("an upsert").upserted_id.is_some())
        };
        (0..KEYS).map(upsert).sum::<u64>()
    });
    assert_eq!(inserted.into_iter().sum::<u64>(), u64::from(KEYS.cast_unsigned()));
    assert_eq!(fixture.stored().len(), 50);
}

#[test]
fn a_document_is_deleted_once() {
    let fixture = Fixture::with((0..KEYS).map(|id| doc! { "_id": id }));
    let deleted = race(0..THREADS, |_| {
        (0..KEYS)
            .map(|id| fixture.things.delete_one(doc! { "_id": id }).run().expect("a delete").deleted_count)
            .sum::<u64>()
    });
    assert_eq!(deleted.into_iter().sum::<u64>(), u64::from(KEYS.cast_unsigned()));
    assert_eq!(fixture.things.estimated_document_count().run().unwrap(), 0);
    fixture.verify_clean();
}

#[test]
fn drops_and_renames_that_race_inserts_leave_order() {
    let fixture = Fixture::new();
    fixture.things.create_index(unique_on_k()).run().unwrap();
    let key = AtomicU64::new(0);
    race(0..THREADS, |thread| {
        for step in 0..60 {
            match (thread, step % 20) {
                (0, 5) => fixture.things.drop().run().expect("a drop"),
                // The collection may have been dropped or not be there yet.
                (1, 7) => drop(fixture.things.rename("moved").drop_target(true).run()),
                (1, 15) => drop(fixture.things.create_index(unique_on_k()).run()),
                _ => {
                    let key = key.fetch_add(1, Ordering::Relaxed).cast_signed();
                    fixture.things.insert_one(doc! { "k": key }).run().expect("stored");
                }
            }
        }
    });
    fixture.verify_clean();
    let moved = fixture.client.database("test").collection::<Document>("moved");
    let counted = fixture.stored().len() + crate::all(&moved).len();
    assert_eq!(fixture.client.verify().unwrap().documents, counted as u64);
}
