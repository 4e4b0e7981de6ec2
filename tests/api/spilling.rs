//! Sorts and groups that need more memory than they may have go on in temporary files, with the same answer, and whatever ends
//! them, no file is left.

use std::fs;
use std::path::Path;

use cairndb::bson::{Document, doc};
use cairndb::{CancellationToken, Client, ClientBuilder, Collection, Cursor, Error, FindOptions};
use cairndb_tests::scratch::Scratch;

const NO_DISK_USE: i32 = 292;
const OUT_OF_DISK_SPACE: i32 = 14_031;
const INTERRUPTED: i32 = 11_601;
const DOCUMENTS: i32 = 3000;
/// A sort of all documents needs many times as much.
const STAGE_MEMORY: usize = 64 << 10;

fn small() -> ClientBuilder {
    Client::builder().memory_budget(16 << 20).stage_memory(STAGE_MEMORY)
}

/// Fills the collection with documents of which many are equal in `a`.
fn filled(client: &Client) -> Collection<Document> {
    let things = client.database("app").collection("things");
    let mixed = |n: i32| n.wrapping_mul(0x1e37_79b9).rotate_left(7).rem_euclid(97);
    let documents = (0..DOCUMENTS)
        .map(|n| doc! { "_id": n, "a": mixed(n), "b": { "c": [mixed(n + 1), 5] }, "text": "x".repeat(300) });
    things.insert_many(documents).run().expect("stored");
    things
}

struct Fixture {
    client: Client,
    things: Collection<Document>,
    scratch: Scratch,
}

impl Fixture {
    fn new() -> Self {
        Self::of(small())
    }

    fn of(options: ClientBuilder) -> Self {
        let scratch = Scratch::new();
        let client = scratch.open_with(options);
        let things = filled(&client);
        Self { client, things, scratch }
    }

    /// The bytes of the temporary files now, and their number so far.
    fn temporary(&self) -> (u64, u64) {
        let storage = self.client.metrics().expect("open").storage;
        (storage.temporary_bytes, storage.temporary_files)
    }
}

/// The names in the folder of temporary files. `None` if there is no folder.
fn temporary_names(database: &Path) -> Option<Vec<String>> {
    let names = fs::read_dir(database.join("CAIRNDB.spill")).ok()?;
    Some(names.map(|entry| entry.expect("listed").file_name().to_string_lossy().into_owned()).collect())
}

fn all(cursor: Result<Cursor<Document>, Error>) -> Result<Vec<Document>, Error> {
    cursor?.collect()
}

/// Sorted by something that no index and no search can sort by.
fn late_sort(key: &str) -> Vec<Document> {
    vec![doc! { "$set": { "d": { "$add": ["$a", 1] } } }, doc! { "$sort": { key: 1 } }]
}

#[test]
fn a_sort_beyond_memory_gives_what_one_in_memory_gives() {
    let reference = Client::in_memory().expect("made");
    let (fixture, expected) = (Fixture::new(), filled(&reference));
    let searches = [
        (doc! { "a": 1 }, 0, 0),
        (doc! { "a": -1, "b.c": 1 }, 0, 0),
        (doc! { "b.c": -1 }, 100, 0),
        (doc! { "a": 1 }, 10, 1500),
        (doc! { "text": 1, "a": -1 }, 2990, 50),
    ];
    for (sort, skip, limit) in searches {
        let mut options = FindOptions::default();
        (options.sort, options.skip, options.limit) = (Some(sort.clone()), Some(skip), Some(limit));
        options.projection = Some(doc! { "text": 0 });
        let find = |things: &Collection<Document>| {
            all(things.find(doc! {}).with_options(options.clone()).run()).expect("sorted")
        };
        let (_, before) = fixture.temporary();
        assert_eq!(find(&fixture.things), find(&expected), "{sort}");
        let (left, after) = fixture.temporary();
        assert!(left == 0 && after > before + 2, "{sort}: {before}, {after}");
    }
    for key in ["a", "d", "b.c"] {
        let stages = || late_sort(key);
        let (found, wanted) = (fixture.things.aggregate(stages()).run(), expected.aggregate(stages()).run());
        assert_eq!(all(found).expect("sorted"), all(wanted).expect("sorted"), "{key}");
    }
    assert_eq!(fixture.temporary().0, 0);
}

#[test]
fn groups_beyond_memory_give_what_those_in_memory_give() {
    let reference = Client::in_memory().expect("made");
    let (fixture, expected) = (Fixture::new(), filled(&reference));
    let pipelines = [
        vec![doc! { "$group": { "_id": "$a", "all": { "$push": "$_id" }, "texts": { "$addToSet": "$b" } } }],
        vec![doc! { "$group": { "_id": "$_id", "text": { "$last": "$text" }, "sum": { "$sum": "$a" } } }],
        vec![doc! { "$sortByCount": { "$mod": ["$_id", 1501] } }],
        // In the pipelines of other stages.
        vec![
            doc! { "$facet": { "n": [{ "$group": { "_id": "$_id", "t": { "$first": "$text" } } }, { "$count": "n" }] } },
        ],
        vec![
            doc! { "$limit": 1 },
            doc! { "$lookup": { "from": "things", "as": "n", "pipeline": [{ "$group": { "_id": "$_id", "t": { "$max": "$text" } } }, { "$count": "n" }] } },
        ],
    ];
    for stages in pipelines {
        let (_, before) = fixture.temporary();
        let found = all(fixture.things.aggregate(stages.clone()).run()).expect("grouped");
        assert_eq!(found, all(expected.aggregate(stages.clone()).run()).expect("grouped"), "{stages:?}");
        let (left, after) = fixture.temporary();
        assert!(left == 0 && after > before + 2, "{stages:?}: {before}, {after}");
    }
    let all_texts = doc! { "$group": { "_id": null, "all": { "$push": "$text" } } };
    let refused = all(fixture.things.aggregate([all_texts]).run()).expect_err("one group has all");
    assert_eq!((refused.code(), fixture.temporary().0), (Some(146), 0), "{refused}");
}

#[test]
fn without_files_a_sort_fails_at_its_limit() {
    let code = |outcome: Result<Vec<Document>, Error>| outcome.expect_err("it needs more").code();
    let refused = |things: &Collection<Document>| {
        let sorts = [
            all(things.find(doc! {}).sort(doc! { "a": 1 }).allow_disk_use(false).run()),
            all(things.aggregate([doc! { "$sort": { "a": 1 } }]).allow_disk_use(false).run()),
            all(things.aggregate(late_sort("d")).allow_disk_use(false).run()),
            all(things.aggregate([doc! { "$group": { "_id": "$_id" } }]).allow_disk_use(false).run()),
        ];
        for sort in sorts {
            assert_eq!(code(sort), Some(NO_DISK_USE));
        }
    };
    let fixture = Fixture::new();
    refused(&fixture.things);
    let app = fixture.client.database("app");
    let find = doc! { "find": "things", "sort": { "a": 1 }, "allowDiskUse": false };
    let stages = late_sort("d");
    let aggregate = doc! { "aggregate": "things", "pipeline": stages, "cursor": {}, "allowDiskUse": false };
    for (command, option) in [(find, "find"), (aggregate, "aggregate")] {
        let run = |command: Document| all(app.run_cursor_command(command).run());
        assert_eq!(code(run(command.clone())), Some(NO_DISK_USE), "{option}");
        for allowed in [Some(true), None] {
            let mut command = command.clone();
            command.remove("allowDiskUse");
            command.extend(allowed.map(|allowed| ("allowDiskUse".to_owned(), allowed.into())));
            let found = run(command).expect("sorted in files");
            assert_eq!(found.len(), usize::try_from(DOCUMENTS).expect("a count"), "{option}");
        }
    }
    // Nothing says `false`, but there are no files.
    let in_memory = small().in_memory(true).open("things").expect("made");
    let no_space = Fixture::of(small().temporary_space(0));
    for things in [filled(&in_memory), no_space.things.clone()] {
        assert_eq!(code(all(things.find(doc! {}).sort(doc! { "a": 1 }).run())), Some(NO_DISK_USE));
    }
    assert_eq!(temporary_names(&no_space.scratch.path()), None);
}

#[test]
fn no_end_of_a_sort_leaves_a_file() {
    let Fixture { client, things, scratch } = Fixture::new();
    let storage = || client.metrics().expect("open").storage;
    let used = || storage().temporary_bytes;
    let token = CancellationToken::new();
    let cancelled = things.with_cancellation(&token);
    // All of them wait, and hold files.
    let mut found = things.find(doc! {}).sort(doc! { "a": 1 }).run().expect("sorted");
    let of_find = used();
    assert!(of_find > 100_000 && found.advance().expect("sorted"), "{of_find}");
    let mut killed = cancelled.aggregate(late_sort("d")).run().expect("opened");
    assert!(killed.advance().expect("sorted"));
    let of_both = used();
    assert!(of_both > of_find && storage().temporary_bytes_written >= of_both, "{of_both}");
    assert!(storage().temporary_files > 2);
    // On Unix a file has no name, and so it is gone when the process dies.
    #[cfg(unix)]
    assert_eq!(temporary_names(&scratch.path()), Some(Vec::new()));

    token.cancel();
    let ended = (0..DOCUMENTS).find_map(|_| killed.advance().err()).expect("it is looked at");
    assert_eq!(ended.code(), Some(INTERRUPTED));
    assert_eq!(used(), of_find);
    drop(found);
    assert_eq!(used(), 0);
    // An error in the middle: the last of the sorted documents cannot be divided.
    let divided = doc! { "$set": { "e": { "$divide": [1, { "$subtract": ["$d", 97] }] } } };
    let stages: Vec<_> = late_sort("d").into_iter().chain([divided]).collect();
    let failed = all(things.aggregate(stages).run()).expect_err("it divides by zero");
    assert_eq!((failed.code(), used()), (Some(2), 0), "{failed}");
    // A `$limit` ends it before the files are read.
    let first = [doc! { "$match": { "a": 1 } }, doc! { "$limit": 1 }];
    let stages: Vec<_> = late_sort("d").into_iter().chain(first).collect();
    assert_eq!(all(things.aggregate(stages).run()).expect("sorted").len(), 1);
    assert_eq!(used(), 0);
    client.close().expect("closed");
    assert_eq!(temporary_names(&scratch.path()), None);
}

/// Sorted documents hold no open database, so the client closes, and its reader goes on.
#[test]
fn a_sorted_cursor_outlives_its_client() {
    let Fixture { client, things, scratch } = Fixture::new();
    let mut found = things.find(doc! {}).sort(doc! { "a": 1 }).run().expect("sorted");
    assert!(found.advance().expect("sorted"));
    client.close().expect("no cursor keeps it open");
    assert_eq!(temporary_names(&scratch.path()), None);
    // Another client of the folder meets none of the files, and leaves them alone.
    let again = scratch.open();
    let (mut left, mut last) = (1, 0);
    while found.advance().expect("read") {
        let next = found.current().get_i32("a").expect("a number");
        assert!(last <= next);
        (left, last) = (left + 1, next);
    }
    assert_eq!(left, DOCUMENTS);
    assert!(again.verify().expect("verified").findings.is_empty());
}

/// The folder of a reader may be another process's, so its files are elsewhere.
#[test]
fn a_reader_goes_on_in_temporary_files_outside_of_the_folder() {
    let Fixture { client, things, scratch } = Fixture::new();
    let expected = all(things.find(doc! {}).sort(doc! { "a": 1 }).run()).expect("sorted");
    client.close().expect("closed");
    let before = temporary_names(&scratch.path());
    let reader = small().read_only(true).open(scratch.path()).expect("opened");
    let things = reader.database("app").collection::<Document>("things");
    let mut waiting = things.find(doc! {}).sort(doc! { "a": 1 }).run().expect("sorted");
    assert!(waiting.advance().expect("sorted"));
    let storage = reader.metrics().expect("open").storage;
    assert!(storage.temporary_bytes > 0 && storage.temporary_files > 0, "{storage:?}");
    assert_eq!(temporary_names(&scratch.path()), before, "the folder is left alone");
    drop(waiting);
    assert_eq!(all(things.find(doc! {}).sort(doc! { "a": 1 }).run()).expect("sorted"), expected);
    let grouped = things.aggregate([doc! { "$group": { "_id": "$_id", "all": { "$push": "$text" } } }]).run();
    assert_eq!(grouped.expect("grouped").count(), DOCUMENTS as usize);
    assert_eq!(reader.metrics().expect("open").storage.temporary_bytes, 0);
    reader.close().expect("closed");
    let own = format!("cairndb-{}-", std::process::id());
    let left = fs::read_dir(std::env::temp_dir()).expect("listed").flatten();
    let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).count();
    assert_eq!(left, 0, "files lose their names at once");
    let none = small().read_only(true).temporary_space(0).open(scratch.path()).expect("opened");
    let things = none.database("app").collection::<Document>("things");
    let refused = things.find(doc! {}).sort(doc! { "a": 1 }).run().map(drop).expect_err("there are none");
    assert_eq!(refused.code(), Some(NO_DISK_USE), "{refused}");
}

/// The leftover of a system that does not remove open files, or of a process that was killed between two calls.
#[test]
fn what_a_dead_process_has_left_is_removed_at_open() {
    let Fixture { client, things, scratch } = Fixture::new();
    let waiting = things.find(doc! {}).sort(doc! { "a": 1 }).run().expect("sorted");
    let killed = scratch.killed();
    fs::write(killed.path().join("CAIRNDB.spill").join("7.run"), [7; 1000]).expect("written");
    let reader = Client::builder().read_only(true).open(killed.path()).expect("a reader changes nothing");
    assert_eq!(temporary_names(&killed.path()), Some(vec!["7.run".to_owned()]));
    drop(reader);
    let again = killed.open();
    assert_eq!(temporary_names(&killed.path()), None);
    assert!(again.verify().expect("verified").findings.is_empty());
    drop(waiting);
    // A copy has none of it, whatever waits.
    let _waiting = things.find(doc! {}).sort(doc! { "a": 1 }).run().expect("sorted");
    let copy = scratch.folder().join("copy");
    client.backup(&copy).expect("copied");
    assert_eq!(temporary_names(&copy), None);
}

#[test]
fn temporary_files_have_a_limit_together() {
    let fixture = Fixture::of(small().temporary_space(1 << 20));
    let sorted = || fixture.things.find(doc! { "_id": { "$lt": 2000 } }).sort(doc! { "a": 1 }).run();
    let waiting = sorted().expect("there is room for one");
    let refused = sorted().map(drop).expect_err("there is no room for two");
    assert_eq!(refused.code(), Some(OUT_OF_DISK_SPACE), "{refused}");
    assert!(refused.is_no_space() && refused.to_string().contains("temporary_space"), "{refused}");
    let (used, _) = fixture.temporary();
    assert!(used > 500_000 && used <= 1 << 20, "{used}");
    drop(waiting);
    assert_eq!(fixture.temporary().0, 0);
    assert_eq!(all(sorted()).expect("there is room again").len(), 2000);
    // A full space is nothing to the writers.
    fixture.things.insert_one(doc! { "_id": -1 }).run().expect("stored");
}

#[test]
fn the_disk_quota_holds_for_temporary_files() {
    let quota = 32 << 20;
    let scratch = Scratch::new();
    let client = scratch.open_with(small().disk_quota(quota).compression(cairndb::Compression::None));
    let things = client.database("app").collection::<Document>("things");
    let document = |n: i32| doc! { "_id": n, "a": (n * 7) % 100, "text": "x".repeat(2000) };
    things.insert_many((0..2000).map(document)).run().expect("there is room");
    let wide = doc! { "$set": { "wide": "y".repeat(32_000) } };
    let refused = all(things.aggregate([wide, doc! { "$sort": { "a": 1 } }]).run());
    let refused = refused.expect_err("there is no room for so much");
    assert!(refused.is_no_space() && refused.to_string().contains("quota"), "{refused}");
    assert_eq!(client.metrics().expect("open").storage.temporary_bytes, 0);
    // A waiting sort counts: there is less for documents.
    let waiting = things.find(doc! {}).sort(doc! { "a": 1 }).run().expect("there is room for this");
    let temporary = client.metrics().expect("open").storage.temporary_bytes;
    assert!(temporary > 4_000_000, "{temporary}");
    let refused =
        (10_000..).find_map(|n| things.insert_one(document(n)).run().err()).expect("the quota ends");
    assert!(refused.is_no_space(), "{refused}");
    let used = client.metrics().expect("open").storage.quota.expect("a quota").used_bytes;
    assert!(used > 2 * temporary && used <= quota, "{used}");
    // The bytes that they have had are not a part of what is used any more. Whether documents fit then depends on the
    // tables too: what is kept free for a compaction grows with those that it would merge.
    assert_eq!(waiting.count(), 2000);
    assert_eq!(client.metrics().expect("open").storage.temporary_bytes, 0);
}

#[test]
fn an_explanation_says_whether_files_were_used() {
    let fixture = Fixture::new();
    let stage = |command: Document| {
        let command = doc! { "explain": command, "verbosity": "executionStats" };
        let explained = fixture.client.database("app").run_command(command).run().expect("explained");
        let statistics = explained.get_document("executionStats").expect("statistics");
        statistics.get_document("executionStages").expect("stages").clone()
    };
    let sort = stage(doc! { "find": "things", "sort": { "a": 1 } });
    assert_eq!(sort.get_str("stage").ok(), Some("SORT"));
    assert_eq!(sort.get_i32("memLimit").ok(), Some(65_536), "{sort}");
    assert_eq!(sort.get_bool("usedDisk").ok(), Some(true), "{sort}");
    assert!(sort.get_i32("spills").expect("a number") > 10, "{sort}");
    let pipeline = vec![doc! { "$group": { "_id": "$_id", "text": { "$first": "$text" } } }];
    let command = doc! { "aggregate": "things", "pipeline": pipeline, "cursor": {} };
    let command = doc! { "explain": command, "verbosity": "executionStats" };
    let explained = fixture.client.database("app").run_command(command).run().expect("explained");
    let last = explained.get_array("stages").expect("stages").last().and_then(|stage| stage.as_document());
    let last = last.expect("a stage");
    assert_eq!(last.get_i32("nReturned").ok(), Some(DOCUMENTS), "{last}");
    assert_eq!(last.get_bool("usedDisk").ok(), Some(true), "{last}");
    assert!(last.get_i32("spills").expect("a number") > 2, "{last}");
    let small = stage(doc! { "find": "things", "filter": { "_id": { "$lt": 5 } }, "sort": { "a": 1 } });
    assert_eq!(small.get_bool("usedDisk").ok(), Some(false), "{small}");
    assert_eq!(small.get_i32("spills").ok(), Some(0), "{small}");
}

/// Only the owner may read documents, wherever they lie.
#[cfg(target_os = "linux")]
#[test]
fn temporary_files_are_for_their_owner() {
    use std::os::unix::fs::PermissionsExt;

    let fixture = Fixture::new();
    let _waiting = fixture.things.find(doc! {}).sort(doc! { "a": 1 }).run().expect("sorted");
    let folder = fixture.scratch.path().join("CAIRNDB.spill");
    let mode = |metadata: fs::Metadata| metadata.permissions().mode() & 0o777;
    assert_eq!(mode(fs::metadata(&folder).expect("made")), 0o700);
    let open = fs::read_dir("/proc/self/fd").expect("listed").flatten().map(|entry| entry.path());
    let ours = open.filter(|path| fs::read_link(path).is_ok_and(|target| target.starts_with(&folder)));
    let modes: Vec<u32> = ours.filter_map(|path| fs::metadata(path).ok()).map(mode).collect();
    assert!(!modes.is_empty() && modes.iter().all(|mode| *mode == 0o600), "{modes:?}");
}
