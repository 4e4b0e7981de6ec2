//! The view of a reader while collections are renamed, dropped and made, and while indexes come and go: the state
//! before or the state after, in every verb.

use std::sync::atomic::{AtomicBool, Ordering};

use cairndb::bson::{Document, doc};
use cairndb::{AutoIncrement, Collection, IndexModel};
use cairndb_tests::race::race;
use cairndb_tests::scratch::{Scratch, things};

use crate::{Fixture, verify_clean};

/// The number of times that a race changes the collection.
const CHANGES: usize = 400;
const DOCUMENTS: i32 = 5;

/// Five documents of one generation.
fn generation(number: usize) -> Vec<Document> {
    let generation = i64::try_from(number).expect("a small number");
    (0..DOCUMENTS).map(|id| doc! { "_id": id, "generation": generation }).collect()
}

/// The number of documents that a verb sees; all of them must be of one generation.
type Read = fn(&Collection<Document>) -> usize;

/// The verbs that read.
const READS: [(&str, Read); 9] = [
    ("find", |things| one_generation(things.find(doc! {}).run().expect("a cursor"))),
    ("find with a sort", |things| {
        one_generation(things.find(doc! {}).sort(doc! { "generation": 1 }).run().expect("a cursor"))
    }),
    ("find by _id", |things| {
        // One document means all.
        let cursor = things.find(doc! { "_id": 3, "generation": { "$gte": 0 } }).run().expect("a cursor");
        5 * one_generation(cursor)
    }),
    ("find_one by _id", |things| {
        5 * usize::from(things.find_one(doc! { "_id": 3 }).run().expect("found").is_some())
    }),
    ("find_one", |things| 5 * usize::from(things.find_one(doc! {}).run().expect("found").is_some())),
    ("count_documents", |things| size(things.count_documents(doc! {}).run().expect("counted"))),
    ("estimated_document_count", |things| size(things.estimated_document_count().run().expect("counted"))),
    ("aggregate", |things| {
        let count = [doc! { "$group": { "_id": null, "n": { "$sum": 1 } } }];
        let mut counted = things.aggregate(count).run().expect("a cursor");
        let counted = counted.next().map(|counted| counted.expect("a count").get_i32("n").expect("a number"));
        usize::try_from(counted.unwrap_or(0)).expect("a count")
    }),
    ("distinct", |things| things.distinct("_id", doc! {}).run().expect("values").len()),
];

fn size(count: u64) -> usize {
    usize::try_from(count).expect("a small count")
}

fn one_generation(cursor: cairndb::Cursor<Document>) -> usize {
    let found: Vec<Document> = cursor.collect::<Result<_, _>>().expect("documents");
    let mut generations: Vec<i64> =
        found.iter().map(|document| document.get_i64("generation").expect("one")).collect();
    generations.dedup();
    assert!(generations.len() < 2, "a reader met several generations: {generations:?}");
    found.len()
}

#[derive(Clone, Copy)]
enum Racer {
    Changes,
    /// With a handle of its own for each read, or with one that remembers what it found.
    Reads {
        fresh: bool,
    },
}

/// Changes the collection again and again while each verb must see as many documents as `allowed`. Every change is
/// sure to meet reads: there is one before it, and one after it.
#[track_caller]
fn readers_see(allowed: &[usize], change: impl Fn(&cairndb::Client, usize) + Sync) {
    let scratch = Scratch::new();
    let client = scratch.open();
    things(&client).insert_many(generation(0)).run().expect("stored");
    let is_over = AtomicBool::new(false);
    race(
        [Racer::Changes, Racer::Reads { fresh: false }, Racer::Reads { fresh: true }],
        |racer| match racer {
            Racer::Changes => {
                (1..=CHANGES).for_each(|number| change(&client, number));
                is_over.store(true, Ordering::Release);
            }
            Racer::Reads { fresh } => {
                let kept = things(&client);
                while !is_over.load(Ordering::Acquire) {
                    for (verb, read) in READS {
                        let seen = if fresh { read(&things(&client)) } else { read(&kept) };
                        // The flag first: a failure must not leave the other racers running for ever.
                        if !allowed.contains(&seen) {
                            is_over.store(true, Ordering::Release);
                        }
                        assert!(allowed.contains(&seen), "{verb} saw {seen} documents");
                    }
                }
            }
        },
    );
    verify_clean(&client);
}

/// A reader read the collection's id and then a snapshot. Between the two a rename with `drop_target` removed the
/// documents, and the reader found none: one count in five thousand said 0, and never had the collection been empty.
#[test]
fn a_rename_over_a_collection_shows_the_old_documents_or_the_new() {
    readers_see(&[5], |client, number| {
        let next = client.database("test").collection::<Document>("next");
        next.insert_many(generation(number)).run().expect("stored");
        next.rename("things").drop_target(true).run().expect("renamed");
    });
}

#[test]
fn a_collection_that_goes_and_comes_by_renames_is_whole_or_absent() {
    readers_see(&[0, 5], |client, _| {
        things(client).rename("aside").run().expect("renamed");
        client.database("test").collection::<Document>("aside").rename("things").run().expect("renamed");
    });
}

#[test]
fn a_collection_that_is_dropped_and_made_again_is_whole_or_absent() {
    readers_see(&[0, 5], |client, number| {
        things(client).drop().run().expect("dropped");
        things(client).insert_many(generation(number)).run().expect("stored");
    });
}

#[test]
fn a_truncated_collection_is_whole_or_empty() {
    readers_see(&[0, 5], |client, number| {
        things(client).truncate().run().expect("truncated");
        things(client).insert_many(generation(number)).run().expect("stored");
    });
}

#[test]
fn indexes_that_come_and_go_hide_no_document() {
    readers_see(&[5], |client, number| {
        let keys = if number % 2 == 0 {
            doc! { "generation": 1 }
        } else {
            doc! { "_id": 1, "generation": -1 }
        };
        things(client).create_index(IndexModel::builder().keys(keys).build()).run().expect("made");
        things(client).drop_indexes().run().expect("removed");
    });
}

#[test]
fn a_list_of_collections_shows_a_renamed_one_once() {
    let fixture = Fixture::with(generation(0));
    let is_over = AtomicBool::new(false);
    race([Racer::Changes, Racer::Reads { fresh: true }], |racer| match racer {
        Racer::Changes => {
            let database = fixture.client.database("test");
            for _ in 0..CHANGES {
                things(&fixture.client).rename("aside").run().expect("renamed");
                database.collection::<Document>("aside").rename("things").run().expect("renamed");
            }
            is_over.store(true, Ordering::Release);
        }
        Racer::Reads { .. } => {
            while !is_over.load(Ordering::Acquire) {
                let names = fixture.client.database("test").list_collection_names().run().expect("names");
                if names.len() != 1 {
                    is_over.store(true, Ordering::Release);
                }
                assert!(
                    matches!(names.as_slice(), [name] if name == "things" || name == "aside"),
                    "{names:?}"
                );
            }
        }
    });
}

/// Two renames whose source is the other's target lock the same two gates.
#[test]
fn renames_in_a_circle_beside_writers_come_to_an_end() {
    let fixture = Fixture::with(generation(0));
    let names = ["things", "second"];
    let database = fixture.client.database("test");
    database.collection::<Document>("second").insert_many(generation(1)).run().expect("stored");
    race(0..4_usize, |racer| {
        for number in 0..CHANGES / 4 {
            let [own, other] = if racer % 2 == 0 { [0, 1] } else { [1, 0] }.map(|at: usize| names[at]);
            let collection = database.collection::<Document>(own);
            if racer < 2 {
                // The other one may have removed the name.
                if let Err(error) = collection.rename(other).drop_target(true).run() {
                    assert_eq!(error.code(), Some(26), "{error}");
                }
            } else {
                let id = i32::try_from(racer * CHANGES + number).expect("a small number");
                collection.insert_one(doc! { "_id": 100 + id }).run().expect("stored");
            }
        }
    });
    fixture.verify_clean();
}

/// A change of the fields that waited for a rename wrote the collection's old name over its new one.
#[test]
fn fields_that_change_beside_renames_leave_the_names_alone() {
    let scratch = Scratch::new();
    let client = scratch.open();
    things(&client).insert_many(generation(0)).run().expect("stored");
    let database = client.database("test");
    race(0..3, |racer| {
        for _ in 0..CHANGES {
            // Each of them may find the name gone, or taken.
            let _ = match racer {
                0 => database.collection::<Document>("things").rename("aside").run(),
                1 => database.collection::<Document>("aside").rename("things").drop_target(true).run(),
                _ => {
                    let field = AutoIncrement::builder().field("number").build();
                    let _ = things(&client).create_auto_increment(field).run();
                    let _ = things(&client).truncate().run();
                    things(&client).drop_auto_increment("number").run()
                }
            };
        }
    });
    verify_clean(&client);
    let before = database.list_collection_names().run().expect("names");
    drop(database);
    client.close().expect("closed");
    let client = scratch.open();
    assert_eq!(client.database("test").list_collection_names().run().expect("names"), before);
    verify_clean(&client);
}

type Change = fn(&Fixture);

/// A cursor shows the moment of its opening to its end, whatever becomes of the collection.
#[test]
fn an_open_cursor_does_not_notice_what_becomes_of_its_collection() {
    let changes: [(&str, Change); 6] = [
        ("drop", |fixture| fixture.things.drop().run().expect("dropped")),
        ("drop of the database", |fixture| {
            fixture.client.database("test").drop().run().expect("dropped");
        }),
        ("rename", |fixture| fixture.things.rename("others").run().expect("renamed")),
        ("rename of another over it", |fixture| {
            let next = fixture.client.database("test").collection::<Document>("next");
            next.insert_many([doc! { "_id": 0, "generation": 9_i64 }]).run().expect("stored");
            next.rename("things").drop_target(true).run().expect("renamed");
        }),
        ("truncate", |fixture| {
            fixture.things.truncate().run().expect("truncated");
        }),
        ("drop of the indexes", |fixture| fixture.things.drop_indexes().run().expect("removed")),
    ];
    for (change, run) in changes {
        let fixture = Fixture::with(generation(0));
        let by_generation = IndexModel::builder().keys(doc! { "generation": 1 }).build();
        fixture.things.create_index(by_generation).run().expect("made");
        let mut walk = fixture.things.find(doc! { "generation": 0 }).run().expect("a cursor");
        assert!(walk.advance().expect("a step"), "{change}");
        let unstarted = fixture.things.find(doc! {}).run().expect("a cursor");
        let piped = fixture.things.aggregate([doc! { "$unset": "none" }]).run().expect("a cursor");
        run(&fixture);
        fixture.client.flush().expect("flushed");
        assert_eq!(walk.map(Result::unwrap).collect::<Vec<_>>(), generation(0)[1..], "{change}");
        assert_eq!(unstarted.map(Result::unwrap).collect::<Vec<_>>(), generation(0), "{change}");
        assert_eq!(piped.map(Result::unwrap).collect::<Vec<_>>(), generation(0), "{change}");
        fixture.verify_clean();
    }
}
