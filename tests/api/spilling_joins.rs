//! Joins whose other collection needs more memory than they may have go on in temporary files, with the same answer, and whatever
//! ends them, no file is left.

use std::fs;

use cairndb::bson::{Document, doc};
use cairndb::{CancellationToken, Client, ClientBuilder, Collection, Cursor, Error};
use cairndb_tests::scratch::Scratch;

const NO_DISK_USE: i32 = 292;
const OUT_OF_DISK_SPACE: i32 = 14_031;
const INTERRUPTED: i32 = 11_601;
const PARTS: i32 = 3000;
/// The parts need many times as much.
const STAGE_MEMORY: usize = 64 << 10;

fn small() -> ClientBuilder {
    Client::builder().memory_budget(16 << 20).stage_memory(STAGE_MEMORY)
}

/// Numbers in no order.
fn mixed(n: i32) -> i32 {
    n.wrapping_mul(0x1e37_79b9).rotate_left(7).rem_euclid(997)
}

/// Fills a collection of orders, and one of the parts that they ask for. Returns the first.
fn filled(client: &Client) -> Collection<Document> {
    let app = client.database("app");
    let part = |n: i32| {
        let keys = if n % 10 == 0 { vec![mixed(n), mixed(n + 1), -1] } else { vec![mixed(n)] };
        doc! { "_id": n, "key": keys, "next": mixed(n + 2), "sort": n % 7, "text": "x".repeat(300) }
    };
    app.collection("parts").insert_many((0..PARTS).map(part)).run().expect("stored");
    let order = |n: i32| doc! { "_id": n, "key": mixed(3 * n), "list": [mixed(n), mixed(n + 5), 2000] };
    let orders = app.collection("orders");
    orders.insert_many((0..400).map(order)).run().expect("stored");
    orders
}

struct Fixture {
    client: Client,
    orders: Collection<Document>,
    scratch: Scratch,
}

impl Fixture {
    fn new() -> Self {
        Self::of(small())
    }

    fn of(builder: ClientBuilder) -> Self {
        let scratch = Scratch::new();
        let client = scratch.open_with(builder);
        let orders = filled(&client);
        Self { client, orders, scratch }
    }

    /// The bytes that temporary files have now, and all that were written to any.
    fn temporary(&self) -> (u64, u64) {
        let storage = self.client.metrics().expect("open").storage;
        (storage.temporary_bytes, storage.temporary_bytes_written)
    }
}

fn all(cursor: Result<Cursor<Document>, Error>) -> Result<Vec<Document>, Error> {
    cursor?.collect()
}

fn by(local: &str, more: Document) -> Document {
    let mut lookup = doc! { "from": "parts", "localField": local, "foreignField": "key", "as": "found" };
    lookup.extend(more);
    doc! { "$lookup": lookup }
}

/// Pipelines that join in each way, with results of all kinds of sizes.
fn pipelines() -> Vec<Vec<Document>> {
    let unwind = doc! { "$unwind": { "path": "$found", "includeArrayIndex": "i" } };
    let equal = doc! { "$match": { "$expr": { "$eq": ["$next", "$$key"] } } };
    vec![
        vec![by("key", doc! {})],
        vec![by("list", doc! {})],
        vec![doc! { "$limit": 2 }, doc! { "$set": { "key": -1 } }, by("key", doc! {}), unwind.clone()],
        vec![
            by("list", doc! {}),
            doc! { "$unwind": "$found" },
            doc! { "$match": { "found.sort": { "$lt": 2 } } },
        ],
        vec![
            by("list", doc! { "pipeline": [{ "$match": { "sort": 3 } }, { "$project": { "next": 1 } }] }),
            unwind,
        ],
        vec![
            doc! { "$lookup": { "from": "parts", "let": { "key": "$key" }, "pipeline": [equal], "as": "found" } },
            doc! { "$project": { "found._id": 1 } },
        ],
        vec![
            doc! { "$limit": 20 },
            doc! { "$graphLookup": {
                "from": "parts", "startWith": "$key", "connectFromField": "next", "connectToField": "key",
                "as": "found", "maxDepth": 2, "depthField": "depth",
            } },
        ],
    ]
}

#[test]
fn joins_beyond_their_memory_give_what_joins_in_memory_give() {
    let in_memory = Client::in_memory().expect("made");
    let (fixture, expected) = (Fixture::new(), filled(&in_memory));
    for stages in pipelines() {
        let (_, before) = fixture.temporary();
        let found = all(fixture.orders.aggregate(stages.clone()).run()).expect("joined");
        let wanted = all(expected.aggregate(stages.clone()).run()).expect("joined");
        assert!(wanted.len() >= 20 && found == wanted, "{stages:?}");
        let (left, after) = fixture.temporary();
        assert!(left == 0 && after > before + 200_000, "{stages:?}: {before}, {after}");
    }
    // With a collation, and in the pipeline of another stage.
    let counted =
        doc! { "$facet": { "f": [by("key", doc! {}), { "$project": { "n": { "$size": "$found" } } }] } };
    for stages in [pipelines()[0].clone(), vec![doc! { "$limit": 50 }, counted]] {
        let run = |client: &Client| {
            let command = doc! {
                "aggregate": "orders", "pipeline": stages.clone(), "cursor": {}, "collation": { "locale": "en", "strength": 1 },
            };
            all(client.database("app").run_cursor_command(command).run()).expect("joined")
        };
        assert!(run(&fixture.client) == run(&in_memory), "{stages:?}");
    }
    assert_eq!(fixture.temporary().0, 0);
}

#[test]
fn without_files_a_join_fails_at_its_limit() {
    let fixture = Fixture::new();
    let in_memory = small().in_memory(true).open("orders").expect("made");
    let no_space = Fixture::of(small().temporary_space(0));
    for stages in pipelines() {
        let runs = [
            all(fixture.orders.aggregate(stages.clone()).allow_disk_use(false).run()),
            all(no_space.orders.aggregate(stages.clone()).run()),
        ];
        for refused in runs {
            assert_eq!(refused.expect_err("it needs more").code(), Some(NO_DISK_USE), "{stages:?}");
        }
    }
    let refused = all(filled(&in_memory).aggregate(pipelines()[0].clone()).run());
    assert_eq!(refused.expect_err("it needs more").code(), Some(NO_DISK_USE));
    assert_eq!(fixture.temporary(), (0, 0));
}

#[test]
fn no_end_of_a_join_leaves_a_file() {
    let fixture = Fixture::new();
    let used = || fixture.temporary().0;
    let stages = || pipelines()[1].clone();
    let mut waiting = fixture.orders.aggregate(stages()).run().expect("opened");
    assert!(waiting.advance().expect("joined"));
    let of_one = used();
    assert!(of_one > 1_000_000, "{of_one}");
    // On Unix a file has no name, and so it is gone when the process dies.
    #[cfg(unix)]
    {
        let killed = fixture.scratch.killed();
        let names = |folder: &std::path::Path| {
            fs::read_dir(folder.join("CAIRNDB.spill")).map_or(0, std::iter::Iterator::count)
        };
        assert_eq!((names(&fixture.scratch.path()), names(&killed.path())), (0, 0));
        assert!(killed.open().verify().expect("verified").findings.is_empty());
    }
    let token = CancellationToken::new();
    let mut killed = fixture.orders.with_cancellation(&token).aggregate(stages()).run().expect("opened");
    assert!(killed.advance().expect("joined"));
    assert!(used() > of_one);
    token.cancel();
    let ended = (0..400).find_map(|_| killed.advance().err()).expect("it is looked at");
    assert_eq!((ended.code(), used()), (Some(INTERRUPTED), of_one));
    drop(waiting);
    assert_eq!(used(), 0);
    // An error in the middle, and an end before all was read.
    let divided = doc! { "$set": { "e": { "$divide": [1, { "$subtract": ["$_id", 200] }] } } };
    let failing: Vec<_> = stages().into_iter().chain([divided]).collect();
    let failed = all(fixture.orders.aggregate(failing).run()).expect_err("it divides by zero");
    assert_eq!((failed.code(), used()), (Some(2), 0), "{failed}");
    let some: Vec<_> = stages().into_iter().chain([doc! { "$limit": 3 }]).collect();
    assert_eq!(all(fixture.orders.aggregate(some).run()).expect("joined").len(), 3);
    assert_eq!(used(), 0);
}

#[test]
fn temporary_files_of_joins_have_the_limits_of_all() {
    let fixture = Fixture::of(small().temporary_space(1 << 20));
    let refused = all(fixture.orders.aggregate(pipelines()[0].clone()).run()).expect_err("there is no room");
    assert_eq!(refused.code(), Some(OUT_OF_DISK_SPACE), "{refused}");
    assert!(refused.is_no_space() && refused.to_string().contains("temporary_space"), "{refused}");
    assert_eq!(fixture.temporary().0, 0);
    let few = by("key", doc! { "pipeline": [] });
    let few = [
        doc! { "$limit": 1 },
        few,
        doc! { "$unwind": "$found" },
        doc! { "$match": { "found._id": { "$lt": 900 } } },
    ];
    all(fixture.orders.aggregate(few).run()).expect("what is wanted of the parts has room");

    let scratch = Scratch::new();
    let client = scratch.open_with(small().disk_quota(32 << 20).compression(cairndb::Compression::None));
    let orders = filled(&client);
    let wide = doc! { "$lookup": {
        "from": "wide", "localField": "_id", "foreignField": "_id.n", "as": "found",
    } };
    let wider = doc! { "$set": { "wide": "y".repeat(16_000) } };
    client
        .database("app")
        .create_collection("wide")
        .view_on("parts")
        .pipeline([wider])
        .run()
        .expect("a view");
    let refused = all(orders.aggregate([wide]).run()).expect_err("there is no room for so much");
    assert!(refused.is_no_space() && refused.to_string().contains("quota"), "{refused}");
    assert_eq!(client.metrics().expect("open").storage.temporary_bytes, 0);
}

#[test]
fn an_explanation_says_that_a_join_used_files() {
    let fixture = Fixture::new();
    let stage = |pipeline: Vec<Document>| {
        let command = doc! { "aggregate": "orders", "pipeline": pipeline, "cursor": {} };
        let command = doc! { "explain": command, "verbosity": "executionStats" };
        let explained = fixture.client.database("app").run_command(command).run().expect("explained");
        let stages = explained.get_array("stages").expect("stages").iter();
        let mut joins =
            stages.filter_map(|stage| stage.as_document()).filter(|stage| stage.contains_key("$lookup"));
        joins.next_back().expect("a join").clone()
    };
    let beyond = stage(pipelines()[0].clone());
    assert_eq!(beyond.get_bool("usedDisk").ok(), Some(true), "{beyond}");
    assert!(beyond.get_i32("spills").expect("a number") > 2, "{beyond}");
    // The filter of what is found is part of the search, so there is little to keep.
    let few = vec![
        by("key", doc! {}),
        doc! { "$unwind": "$found" },
        doc! { "$match": { "found._id": { "$lt": 9 } } },
    ];
    let few = stage(few);
    assert_ne!(few.get_bool("usedDisk").ok(), Some(true), "{few}");
}
