//! Index builds beside writes, and what ends them early. A build calls its caller at the beginning of each phase, so a test
//! can write at just that moment.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};
use cairndb::{
    CancellationToken, Collection, Error, Hint, IndexBuildPhase, IndexBuildProgress, IndexModel, IndexOptions,
};
use cairndb_tests::race::{pause, race};
use cairndb_tests::scratch::{self, Scratch};

use crate::{Fixture, refused, verify_clean};

const DUPLICATE_KEY: i32 = 11_000;
const INTERRUPTED: i32 = 11_601;
const MAX_TIME_EXPIRED: i32 = 50;
const INDEX_OPTIONS_CONFLICT: i32 = 85;
const INDEX_BUILD_ABORTED: i32 = 276;
const BACKGROUND_OPERATION_IN_PROGRESS: i32 = 12_587;

/// More than may be noted when a build ends: a write of it makes the build read what was noted once more.
const LARGE: usize = 600 << 10;

fn index(keys: Document) -> IndexModel {
    IndexModel::builder().keys(keys).build()
}

fn unique(keys: Document) -> IndexModel {
    IndexModel::builder().keys(keys).options(IndexOptions::builder().unique(true).build()).build()
}

fn numbered(documents: i32) -> impl Iterator<Item = Document> {
    (0..documents).map(|id| doc! { "_id": id, "a": id, "t": [id % 7, id % 3] })
}

/// Builds an index, and calls `write` at the beginning of each phase with the number of calls before.
fn build_while(
    things: &Collection<Document>,
    model: IndexModel,
    mut write: impl FnMut(IndexBuildPhase, usize) + Send,
) -> Result<(), Error> {
    let mut calls = 0;
    let tell = |at: &IndexBuildProgress| {
        if at.done == 0 {
            write(at.phase, calls);
            calls += 1;
        }
    };
    things.create_index(model).progress(tell).run().map(drop)
}

/// Holds a build at its beginning: sends to `begun`, and waits for `go_on`.
fn held(begun: Sender<()>, go_on: Receiver<()>) -> impl FnMut(IndexBuildPhase, usize) + Send {
    move |_, call| {
        if call == 0 {
            begun.send(()).expect("it is waited for");
            go_on.recv().expect("it is let go");
        }
    }
}

/// Calls `meanwhile` while an index on `a` is being built: the build stands still at its beginning until the call has sent
/// its word.
fn while_building<'env>(
    things: &'env Collection<Document>,
    meanwhile: impl for<'scope> FnOnce(&'scope thread::Scope<'scope, 'env>, Sender<()>),
) {
    let (begun, has_begun) = channel();
    let (go_on, may_go_on) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let hold = held(begun, may_go_on);
            build_while(things, index(doc! { "a": 1 }), hold).expect("built");
        });
        has_begun.recv().expect("it begins");
        meanwhile(scope, go_on);
    });
}

/// By the index and without it the same documents are found.
#[track_caller]
fn same_by_index(things: &Collection<Document>, name: &str, filter: Document) {
    let ids = |hint| {
        let found = things.find(filter.clone()).hint(hint).sort(doc! { "_id": 1 }).run().expect("a cursor");
        found.map(|found| found.expect("a document").get("_id").cloned()).collect::<Vec<_>>()
    };
    let by_index = ids(Hint::Name(name.to_owned()));
    assert_eq!(by_index, ids(Hint::Keys(doc! { "$natural": 1 })), "{filter}");
    assert!(!by_index.is_empty());
}

/// Writes of every kind. Some documents are written in several rounds, and each phase has documents of its own.
fn write_all_kinds(things: &Collection<Document>, round: i32) {
    let first = 1000 * (round + 1);
    let fresh = (0..10).map(|id| doc! { "_id": first + id, "a": -first - id, "t": [first, id] });
    things.insert_many(fresh).run().expect("stored");
    things
        .insert_one(doc! { "_id": first + 50, "a": first, "pad": "p".repeat(LARGE) })
        .run()
        .expect("stored");
    things.update_one(doc! { "_id": 1 }, doc! { "$inc": { "a": 5000 } }).run().expect("changed");
    things
        .update_many(doc! { "_id": { "$lt": 20 } }, doc! { "$push": { "t": 100 + round } })
        .run()
        .expect("changed");
    things.replace_one(doc! { "_id": 30 + round }, doc! { "a": "text" }).run().expect("changed");
    things
        .update_one(doc! { "_id": first + 60 }, doc! { "$set": { "a": [1, 2] } })
        .upsert(true)
        .run()
        .expect("stored");
    things.delete_one(doc! { "_id": 40 + round }).run().expect("removed");
    things.delete_many(doc! { "_id": { "$gte": first, "$lt": first + 5 } }).run().expect("removed");
    things.find_one_and_delete(doc! { "_id": first + 6 }).run().expect("removed");
}

#[test]
fn what_is_written_during_a_build_is_in_the_index() {
    for keys in [doc! { "a": 1 }, doc! { "t": -1, "a": 1 }, doc! { "pad": 1 }] {
        let fixture = Fixture::with(numbered(200));
        let mut phases = Vec::new();
        build_while(&fixture.things, index(keys.clone()), |phase, call| {
            phases.push(phase);
            // Without an end to the large documents there would be none to the build.
            if call < 5 {
                write_all_kinds(&fixture.things, i32::try_from(call).expect("small"));
            }
        })
        .expect("built");
        assert!(phases.contains(&IndexBuildPhase::Following), "{phases:?}");
        let name = fixture.things.list_index_names().run().expect("names").pop().expect("an index");
        let filters = [doc! {}, doc! { "a": { "$lt": 5 } }, doc! { "t": 101 }, doc! { "a": { "$gt": 5000 } }];
        for filter in filters {
            same_by_index(&fixture.things, &name, filter);
        }
        fixture.verify_clean();
    }
}

#[test]
fn no_write_waits_for_a_build() {
    let fixture = Fixture::with(numbered(500));
    let things = &fixture.things;
    while_building(things, |_, go_on| {
        // The build stands still until these are done.
        write_all_kinds(things, 0);
        assert_eq!(fixture.client.index_builds().len(), 1);
        assert_eq!(things.list_index_names().run().expect("names"), ["_id_"]);
        let hint = things.find(doc! {}).hint(Hint::Name("a_1".to_owned())).run();
        assert!(hint.is_err(), "no reader has the index before it is complete");
        go_on.send(()).expect("it waits");
    });
    assert!(fixture.client.index_builds().is_empty());
    same_by_index(things, "a_1", doc! { "a": { "$gt": 10 } });
    fixture.verify_clean();
}

#[test]
fn duplicates_that_are_gone_at_the_end_are_none() {
    let fixture = Fixture::with(numbered(100));
    let things = &fixture.things;
    let set = |id: i32, a: i32| {
        things.update_one(doc! { "_id": id }, doc! { "$set": { "a": a } }).run().expect("changed");
    };
    build_while(things, unique(doc! { "a": 1 }), |_, call| {
        // Each large document ends a round.
        let pad = doc! { "_id": 500 + i32::try_from(call).expect("small"), "a": -1 - i32::try_from(call).expect("small"), "pad": "p".repeat(LARGE) };
        match call {
            // Two values change places, in a round and over two rounds; a key is taken before it is given up.
            0 => {
                set(1, 2);
                set(2, 1);
                set(3, 4);
                set(7, 6);
                things.insert_one(pad).run().expect("stored");
            }
            1 => {
                set(4, 3);
                things.delete_one(doc! { "_id": 6 }).run().expect("removed");
                set(8, 9);
                things.insert_one(doc! { "_id": 200, "a": 9 }).run().expect("stored");
                things.insert_one(pad).run().expect("stored");
            }
            2 => {
                set(8, 8);
                things.delete_one(doc! { "_id": 9 }).run().expect("removed");
                things.insert_one(pad).run().expect("stored");
            }
            _ => {}
        }
    })
    .expect("built");
    for a in 0..100 {
        let found = things.count_documents(doc! { "a": a }).hint(Hint::Name("a_1".to_owned())).run();
        // The document that had 7 has 6 now, whose document is gone.
        assert_eq!(found.expect("counted"), u64::from(a != 7), "{a}");
    }
    let taken = things.insert_one(doc! { "a": 9 }).run();
    refused(taken, DUPLICATE_KEY, "a: 9");
    fixture.verify_clean();
}

#[test]
fn a_duplicate_at_the_beginning_or_at_the_end_fails_the_build_and_leaves_nothing() {
    type Write = fn(&Collection<Document>, usize);
    let cases: [(Write, Write, &str); 3] = [
        (|things, _| drop(things.insert_one(doc! { "_id": 900, "a": 7 }).run()), |_, _| {}, "{ a: 7 }"),
        (
            |_, _| {},
            |things, call| {
                if call == 0 {
                    things.insert_one(doc! { "_id": 900, "a": 7 }).run().expect("stored");
                }
            },
            "{ a: 7 }",
        ),
        // Noted in an earlier round than the last.
        (
            |_, _| {},
            |things, call| {
                if call == 0 {
                    things
                        .insert_one(doc! { "_id": 900, "a": 7.0, "pad": "p".repeat(LARGE) })
                        .run()
                        .expect("stored");
                }
            },
            "{ a: 7",
        ),
    ];
    for (before, during, words) in cases {
        let fixture = Fixture::with(numbered(100));
        before(&fixture.things, 0);
        let built =
            build_while(&fixture.things, unique(doc! { "a": 1 }), |_, call| during(&fixture.things, call));
        let error = refused(built, DUPLICATE_KEY, words);
        assert!(error.to_string().contains("Index build failed"), "{error}");
        assert_eq!(fixture.things.list_index_names().run().expect("names"), ["_id_"]);
        assert!(fixture.client.index_builds().is_empty());
        fixture.things.insert_one(doc! { "a": 7 }).run().expect("no index refuses it");
        fixture.verify_clean();
        fixture.things.delete_many(doc! { "a": 7 }).run().expect("removed");
        fixture.things.create_index(unique(doc! { "a": 1 })).run().expect("built");
        fixture.verify_clean();
    }
}

#[test]
fn a_build_ends_by_its_token_and_by_its_time() {
    for call_to_end in [0, 1] {
        let fixture = Fixture::with(numbered(800));
        let token = CancellationToken::new();
        let things = fixture.things.with_cancellation(&token);
        let built = build_while(&things, index(doc! { "a": 1 }), |_, call| {
            write_all_kinds(&fixture.things, i32::try_from(call).expect("small"));
            if call == call_to_end {
                token.cancel();
            }
        });
        refused(built, INTERRUPTED, "interrupted");
        let limit = Duration::from_millis(20);
        // The time of the build begins before it calls for the first time, so it is over after that.
        let hold = |_: &IndexBuildProgress| {
            let called = Instant::now();
            while called.elapsed() < 2 * limit {
                pause();
            }
        };
        let built = fixture.things.create_index(index(doc! { "a": 1 })).max_time(limit).progress(hold).run();
        refused(built, MAX_TIME_EXPIRED, "time limit");
        assert_eq!(fixture.things.list_index_names().run().expect("names"), ["_id_"]);
        fixture.verify_clean();
    }
}

#[test]
fn a_function_that_panics_leaves_no_build() {
    let fixture = Fixture::with(numbered(100));
    let built = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        build_while(&fixture.things, index(doc! { "a": 1 }), |_, call| assert!(call == 0, "as planned"))
    }));
    assert!(built.is_err());
    assert!(fixture.client.index_builds().is_empty());
    fixture.things.create_index(index(doc! { "a": 1 })).run().expect("built");
    fixture.verify_clean();
}

#[test]
fn a_dropped_collection_ends_its_builds() {
    let fixture = Fixture::with(numbered(100));
    let built = build_while(&fixture.things, index(doc! { "a": 1 }), |_, call| {
        if call == 0 {
            fixture.things.drop().run().expect("dropped");
        }
    });
    refused(built, INDEX_BUILD_ABORTED, "dropped");
    let names = fixture.client.database("test").list_collection_names().run().expect("names");
    assert!(names.is_empty(), "the build made the collection again: {names:?}");
    fixture.verify_clean();
}

#[test]
fn no_collection_is_renamed_during_a_build() {
    let fixture = Fixture::with(numbered(100));
    let other: Collection<Document> = fixture.client.database("test").collection("other");
    other.insert_one(doc! { "_id": 1 }).run().expect("stored");
    build_while(&fixture.things, index(doc! { "a": 1 }), |_, call| {
        if call == 0 {
            let words = "an index build is currently running";
            refused(fixture.things.rename("third").run(), BACKGROUND_OPERATION_IN_PROGRESS, words);
            let replaced = other.rename("things").drop_target(true).run();
            refused(replaced, BACKGROUND_OPERATION_IN_PROGRESS, words);
        }
    })
    .expect("built");
    other.rename("things").drop_target(true).run().expect("no build is in its way now");
    fixture.verify_clean();
}

#[test]
fn a_truncated_collection_is_built_from_its_beginning() {
    let fixture = Fixture::with(numbered(100));
    build_while(&fixture.things, index(doc! { "a": 1 }), |_, call| match call {
        0 => fixture.things.insert_one(doc! { "_id": 700, "a": 700 }).run().map(drop).expect("stored"),
        1 => {
            fixture.things.truncate().run().expect("truncated");
            fixture.things.insert_one(doc! { "_id": 701, "a": 701 }).run().expect("stored");
        }
        _ => {}
    })
    .expect("built");
    same_by_index(&fixture.things, "a_1", doc! { "a": { "$gte": 0 } });
    assert_eq!(fixture.things.count_documents(doc! { "a": { "$gte": 0 } }).run().expect("counted"), 1);
    fixture.verify_clean();
}

#[test]
fn a_dropped_index_ends_its_build() {
    for all in [true, false] {
        let fixture = Fixture::with(numbered(3000));
        let things = &fixture.things;
        let (begun, has_begun) = channel();
        thread::scope(|scope| {
            let built = scope.spawn(move || {
                // Only the first call is waited for.
                let tell = move |_, _| begun.send(()).unwrap_or_default();
                build_while(things, index(doc! { "a": 1 }), tell)
            });
            has_begun.recv().expect("it begins");
            let drop_index = if all { things.drop_indexes() } else { things.drop_index("a_1") };
            drop_index.run().expect("dropped, built or not");
            // Either the drop came first, or it found the complete index.
            if let Err(error) = built.join().expect("it does not panic") {
                assert_eq!(error.code(), Some(INDEX_BUILD_ABORTED), "{error}");
            }
        });
        assert_eq!(things.list_index_names().run().expect("names"), ["_id_"]);
        fixture.verify_clean();
    }
}

#[test]
fn a_drop_waits_for_a_build_no_longer_than_its_time() {
    for all in [true, false] {
        let fixture = Fixture::with(numbered(50));
        let things = &fixture.things;
        let drop_index = |limit: Duration| {
            let drop_index = if all { things.drop_indexes() } else { things.drop_index("a_1") };
            drop_index.max_time(limit).run()
        };
        let mut late = None;
        let built = build_while(things, index(doc! { "a": 1 }), |_, call| {
            // The build stands still for as long as the drop waits for its end.
            if call == 0 {
                late = Some(drop_index(Duration::from_millis(20)));
            }
        });
        refused(late.expect("it was tried"), MAX_TIME_EXPIRED, "time limit");
        refused(built, INDEX_BUILD_ABORTED, "the index was dropped");
        things.create_index(index(doc! { "a": 1 })).run().expect("built");
        // Its time is over when it begins.
        refused(drop_index(Duration::from_nanos(1)), MAX_TIME_EXPIRED, "time limit");
        assert_eq!(things.list_index_names().run().expect("names"), ["_id_", "a_1"]);
        drop_index(Duration::from_secs(3_600)).expect("there is time");
        assert_eq!(things.list_index_names().run().expect("names"), ["_id_"]);
        fixture.verify_clean();
    }
}

#[test]
fn a_second_caller_waits_and_finds_the_index() {
    let fixture = Fixture::with(numbered(200));
    let things = &fixture.things;
    while_building(things, |scope, go_on| {
        let limit = Duration::from_millis(30);
        let late = things.create_index(index(doc! { "a": 1 })).max_time(limit).run();
        refused(late, MAX_TIME_EXPIRED, "time limit");
        let named = IndexOptions::builder().name("other".to_owned()).build();
        let other = IndexModel::builder().keys(doc! { "a": 1 }).options(named).build();
        refused(things.create_index(other).run(), INDEX_OPTIONS_CONFLICT, "a_1");
        // Another index is built beside it.
        things.create_index(index(doc! { "t": 1 })).run().expect("built");
        let second = scope.spawn(|| things.create_index(index(doc! { "a": 1 })).run());
        go_on.send(()).expect("it waits");
        assert_eq!(second.join().expect("it does not panic").expect("present").index_name, "a_1");
        assert_eq!(things.list_index_names().run().expect("names").len(), 3);
    });
    fixture.verify_clean();
}

/// Whether the folder of a database has files of a build.
fn has_build_files(scratch: &Scratch) -> bool {
    let names =
        fs::read_dir(scratch.path()).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    names.into_iter().any(|name| name.to_string_lossy().starts_with("CAIRNDB.build-"))
}

/// A collection whose keys do not fit into the memory of a build: they are sorted in files, and stored as tables.
#[test]
fn keys_beyond_memory_are_sorted_in_files() {
    let scratch = Scratch::new();
    let options = scratch::small().index_build_memory(1 << 20);
    let client = scratch.open_with(options.clone());
    let things = scratch::things(&client);
    for first in (0..12_000).step_by(2_000) {
        let text = |id: i32| format!("{:08}-{}", (id * 7919) % 12_000, "x".repeat(100));
        things
            .insert_many(
                (first..first + 2_000).map(|id| doc! { "_id": id, "text": text(id), "a": [id, -id] }),
            )
            .run()
            .expect("stored");
    }
    let mut copies = Vec::new();
    for model in [unique(doc! { "text": 1 }), index(doc! { "a": -1, "text": 1 })] {
        let mut was_in_files = false;
        build_while(&things, model, |phase, call| {
            was_in_files |= has_build_files(&scratch);
            if phase == IndexBuildPhase::Storing {
                // The state that would be left if the process died now.
                copies.push(scratch.killed());
            }
            let id = 50_000
                + i32::try_from(call).expect("small")
                + i32::try_from(copies.len()).expect("small") * 10;
            things.insert_one(doc! { "_id": id, "text": id.to_string(), "a": id }).run().expect("stored");
        })
        .expect("built");
        assert!(was_in_files && !has_build_files(&scratch));
    }
    verify_clean(&client);
    same_by_index(&things, "text_1", doc! { "text": { "$lt": "00000300" } });
    same_by_index(&things, "a_-1_text_1", doc! { "a": { "$gt": 11_000 } });
    // A crash right after the builds, and an orderly close.
    copies.push(scratch.killed());
    client.close().expect("closed");
    for (position, copy) in copies.iter().enumerate() {
        let client = copy.open_with(options.clone());
        assert!(!has_build_files(copy));
        let names = scratch::things(&client).list_index_names().run().expect("names");
        assert_eq!(names.len(), position + 1, "{names:?}");
        verify_clean(&client);
        client.close().expect("closed");
    }
    let client = scratch.open_with(options);
    verify_clean(&client);
    assert_eq!(scratch::things(&client).list_index_names().run().expect("names").len(), 3);
}

#[test]
fn a_duplicate_among_keys_in_files_fails_the_build() {
    let scratch = Scratch::new();
    let client = scratch.open_with(scratch::small().index_build_memory(1 << 20));
    let things = scratch::things(&client);
    let text = |id: i32| format!("{:08}-{}", id % 29_999, "x".repeat(60));
    things.insert_many((0..30_000).map(|id| doc! { "_id": id, "text": text(id) })).run().expect("stored");
    let error = refused(things.create_index(unique(doc! { "text": 1 })).run(), DUPLICATE_KEY, "00000000-x");
    assert!(
        error.to_string().contains("E11000 duplicate key error collection: test.things index: text_1"),
        "{error}"
    );
    assert!(!has_build_files(&scratch));
    verify_clean(&client);
}

#[test]
fn progress_counts_documents_and_keys() {
    let fixture = Fixture::with(numbered(3000));
    let mut told = Vec::new();
    let tell = |at: &IndexBuildProgress| told.push(at.clone());
    fixture.things.create_index(index(doc! { "t": 1 })).progress(tell).run().expect("built");
    let first = told.first().expect("it is told");
    assert_eq!((first.namespace.as_str(), first.index_name.as_str()), ("test.things", "t_1"));
    assert_eq!((first.phase, first.done, first.total), (IndexBuildPhase::Scanning, 0, 3000));
    let last = told.last().expect("it is told");
    assert!(
        last.phase == IndexBuildPhase::Storing && last.done > 3000 && last.done == last.total,
        "{last:?}"
    );
}

/// Two build and drop, eight write, four read: no reader sees fewer documents than there are.
#[test]
fn builds_race_writers_and_readers() {
    let scratch = Scratch::new();
    // Little memory, so that entries are stored as tables.
    let client = scratch.open_with(scratch::small().index_build_memory(1 << 20));
    let things = &scratch::things(&client);
    let fixed = (0..400).map(|id| doc! { "_id": id, "a": id % 10, "t": [id, 500 + id], "fixed": true });
    things.insert_many(fixed).run().expect("stored");
    let is_over = AtomicBool::new(false);
    let left = std::sync::atomic::AtomicUsize::new(2);
    race(0..14, |role| match role {
        0 | 1 => {
            let keys = if role == 0 {
                doc! { "a": 1 }
            } else {
                doc! { "t": 1, "a": -1 }
            };
            let name = if role == 0 { "a_1" } else { "t_1_a_-1" };
            for _ in 0..4 {
                things.create_index(index(keys.clone())).run().expect("made");
                things.drop_index(name).run().expect("dropped");
            }
            things.create_index(index(keys)).run().expect("made");
            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                is_over.store(true, Ordering::Release);
            }
        }
        2..10 => {
            let mut number = role * 1_000_000;
            while !is_over.load(Ordering::Acquire) {
                number += 1;
                write_own(things, role, number);
            }
        }
        _ => {
            while !is_over.load(Ordering::Acquire) {
                let count = |filter: Document| things.count_documents(filter).run().expect("counted");
                assert_eq!(count(doc! { "a": 3, "fixed": true }), 40);
                assert_eq!(count(doc! { "t": { "$gte": 0, "$lt": 1000 }, "fixed": true }), 400);
            }
        }
    });
    verify_clean(&client);
    for name in ["a_1", "t_1_a_-1"] {
        same_by_index(things, name, doc! { "a": { "$gte": -5 } });
    }
}

/// A write of each kind, among documents that no other thread writes.
fn write_own(things: &Collection<Document>, role: i32, number: i32) {
    let own = doc! { "_id": number - number % 7 };
    match number % 7 {
        0 | 1 => {
            let fresh = doc! { "_id": number, "a": -number % 50, "t": [-number, -role] };
            things.insert_one(fresh).run().expect("stored");
        }
        2 => drop(
            things
                .update_one(own, doc! { "$inc": { "a": -1 }, "$push": { "t": -number } })
                .run()
                .expect("changed"),
        ),
        3 => {
            drop(
                things.update_one(own, doc! { "$set": { "t": -role } }).upsert(true).run().expect("changed"),
            );
        }
        4 => drop(things.replace_one(own, doc! { "a": -role, "t": [] }).run().expect("changed")),
        5 => drop(
            things
                .insert_many([doc! { "a": -1, "role": role }, doc! { "t": -2, "role": role }])
                .run()
                .expect("stored"),
        ),
        _ => {
            things.delete_many(doc! { "_id": { "$in": [number - 6, number - 5] } }).run().expect("removed");
            things.delete_many(doc! { "role": role }).run().expect("removed");
        }
    }
}

/// Eight threads make and remove duplicates while a unique index is built and dropped. Once it is built, there is never one.
#[test]
fn unique_builds_race_writers() {
    let scratch = Scratch::new();
    let client = scratch.open_with(scratch::small().index_build_memory(1 << 20));
    let things = &scratch::things(&client);
    things
        .insert_many(numbered(300).map(|mut thing| {
            thing.insert("fixed", true);
            thing
        }))
        .run()
        .expect("stored");
    let is_over = AtomicBool::new(false);
    let outcomes = race(0..9, |role| {
        let (mut built, mut failed) = (0, 0);
        if role == 0 {
            for _ in 0..40 {
                match things.create_index(unique(doc! { "a": 1 })).run() {
                    Ok(_) => {
                        built += 1;
                        things.drop_index("a_1").run().expect("dropped");
                    }
                    Err(error) => {
                        assert_eq!(error.code(), Some(DUPLICATE_KEY), "{error}");
                        failed += 1;
                    }
                }
            }
            is_over.store(true, Ordering::Release);
        }
        let mut number = 0;
        while role > 0 && !is_over.load(Ordering::Acquire) {
            number = (number + 1) % 300;
            // A duplicate for a moment: it is rejected while the index is there, and else removed again.
            let id = format!("{role}-{number}");
            match things.insert_one(doc! { "_id": &id, "a": number }).run() {
                Ok(_) => drop(things.delete_one(doc! { "_id": &id }).run().expect("removed")),
                Err(error) => assert_eq!(error.code(), Some(DUPLICATE_KEY), "{error}"),
            }
        }
        (built, failed)
    });
    let (built, failed) = outcomes.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert_eq!(built + failed, 40);
    verify_clean(&client);
    assert_eq!(things.count_documents(doc! {}).run().expect("counted"), 300);
    things.create_index(unique(doc! { "a": 1 })).run().expect("no duplicate is left");
    verify_clean(&client);
}
