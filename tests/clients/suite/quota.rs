//! `cairn serve --disk-quota`: the errors that a driver gets from a folder that is full, and that it is not for ever.

use std::time::{Duration, Instant};

use cairndb_tests::choices::Choices;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Document, doc};
use mongodb::error::Error;

use crate::{Served, refused};

/// The least that the tool accepts, in mebibytes.
const QUOTA: &str = "32";
const QUOTA_BYTES: i64 = 32 << 20;
const DOCUMENT_BYTES: usize = 20_000;
/// `OutOfDiskSpace`, as MongoDB numbers it.
const OUT_OF_DISK_SPACE: i32 = 14031;
/// Longer than a busy machine needs to compact what was deleted.
const PATIENCE: Duration = Duration::from_secs(60);

/// A document of bytes that no compression makes fewer.
fn document(choices: &mut Choices, id: i64) -> Document {
    let bytes = (0..DOCUMENT_BYTES / 8).flat_map(|_| choices.number().to_le_bytes()).collect();
    doc! { "_id": id, "content": Binary { subtype: BinarySubtype::Generic, bytes } }
}

#[track_caller]
fn is_full<T: std::fmt::Debug>(result: Result<T, Error>) {
    refused(result, OUT_OF_DISK_SPACE, "quota of 33554432");
}

impl Served {
    /// The server's view of its store: the state, whether the quota is used up, and how many bytes are used.
    fn quota(&self) -> (String, bool, i64) {
        let status = self.client.database("admin").run_command(doc! { "serverStatus": 1 }).run();
        let status = status.expect("answered");
        let part = |whole: &Document, name| whole.get_document(name).expect("a document").clone();
        let store = part(&status, "cairndb");
        let quota = part(&part(&store, "storage"), "quota");
        assert_eq!(quota.get_i64("limitBytes").ok(), Some(QUOTA_BYTES));
        let state = store.get_str("state").expect("a word").to_owned();
        let is_used_up = quota.get_bool("isFull").expect("yes or no");
        (state, is_used_up, quota.get_i64("usedBytes").expect("a number"))
    }
}

#[test]
fn a_full_folder_refuses_writes_is_read_and_takes_writes_again_after_deletes() {
    let served = Served::over(cairndb_clients::cairn::Cairn::start_with(&["--disk-quota", QUOTA]));
    let (things, mut choices) = (&served.things, Choices::seeded(7));
    let (state, is_used_up, _) = served.quota();
    assert_eq!((&*state, is_used_up), ("open", false));

    let mut filled = 0;
    let first = loop {
        match things.insert_one(document(&mut choices, filled)).run() {
            Ok(_) => filled += 1,
            Err(error) => break error,
        }
    };
    is_full(Err::<(), _>(first));
    let (state, is_used_up, used) = served.quota();
    assert_eq!((&*state, is_used_up), ("full", true));
    assert!(used > QUOTA_BYTES / 2 && used <= QUOTA_BYTES, "{used}");

    // Nothing of the rejected one is there, and what was there is read.
    let count = |filter| i64::try_from(things.count_documents(filter).run().unwrap()).unwrap();
    assert_eq!(count(doc! {}), filled);
    assert!(things.find_one(doc! { "_id": 0 }).run().unwrap().is_some());
    assert_eq!(things.find_one(doc! { "_id": filled }).run().unwrap(), None);
    let large = document(&mut choices, 0).get("content").cloned();
    is_full(things.update_many(doc! {}, doc! { "$set": { "more": large } }).run());
    is_full(things.insert_many((filled..filled + 200).map(|id| document(&mut choices, id))).run());

    // Deletes need no room, and make some.
    assert_eq!(things.delete_one(doc! { "_id": 0 }).run().unwrap().deleted_count, 1);
    let deleted = things.delete_many(doc! { "_id": { "$lt": filled / 2 } }).run().unwrap().deleted_count;
    assert_eq!(i64::try_from(deleted).unwrap(), filled / 2 - 1);
    let before = count(doc! {});
    for id in 0..filled / 4 {
        let again = document(&mut choices, 1_000_000 + id);
        let begin = Instant::now();
        // A write waits for the room for ten seconds, in which a busy machine may not have compacted enough.
        while let Err(error) = things.insert_one(&again).run() {
            assert!(begin.elapsed() < PATIENCE, "there is no room again: {error:?}");
            is_full(Err::<(), _>(error));
        }
    }
    assert_eq!(count(doc! {}), before + filled / 4);
    let (state, is_used_up, used) = served.quota();
    assert_eq!((&*state, is_used_up), ("open", false));
    assert!(used <= QUOTA_BYTES, "{used}");
    served.stop();
}
