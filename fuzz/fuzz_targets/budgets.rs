//! No command takes much longer than its limit of time, or holds much more memory than an operation may.
//!
//! The bytes choose a command over a few prepared documents: filters, patterns, expressions, pipelines and updates, which
//! nest what loops and what builds, inserts, indexes, and what copies or reads a whole collection. Bytes that are a document are
//! run as a command, too. Whether the command succeeds or
//! is rejected does not matter here.

#![no_main]
#![expect(unsafe_code, reason = "a global allocator cannot be written without it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cairndb::bson::{Bson, Document, RawDocument, doc};
use cairndb::{Client, Database};
use cairndb_tests::choices::Choices;
use libfuzzer_sys::fuzz_target;

/// The limit of time of each command.
const TIME_MS: i32 = 100;
/// The time that a command may take: ten times its limit, and a pause of a loaded machine.
const TIME_MAX: Duration = Duration::from_millis(10 * 100 + 5_000);
/// The memory of an operation by docs/compatibility.md.
const OPERATION_BYTES: usize = 256 << 20;
/// The memory of a command beside: the largest document a few times over while it is made, read and written.
const CONSTANT_BYTES: usize = 96 << 20;
/// Documents of the prepared collections.
const DOCUMENTS: i32 = 20;
/// The deepest nesting that is made.
const DEPTH_MAX: u32 = 6;
/// Commands that are run as they come.
const RAW_COMMANDS: [&str; 7] =
    ["find", "aggregate", "update", "delete", "distinct", "count", "findAndModify"];
/// Those after which the whole database is made again.
const RAW_DEFINITIONS: [&str; 8] = [
    "insert",
    "createIndexes",
    "cloneCollectionAsCapped",
    "convertToCapped",
    "create",
    "collMod",
    "renameCollection",
    "validate",
];
const FIELDS: [&str; 10] = ["_id", "n", "s", "l", "d", "d.x", "l.0", "dd.k", "dd", "none"];
const VARIABLES: [&str; 6] = ["$$this", "$$value", "$$ROOT", "$$x", "$l", "$s"];

struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Notes that a thread holds more bytes, or fewer. What other threads free is counted with them: little, here.
fn count(bytes: isize) {
    // A thread that ends has no counters any more, and nothing to measure.
    let _ = LIVE.try_with(|live| {
        live.set(live.get().wrapping_add(bytes));
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call goes to the system's allocator with the arguments that came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: as the caller promised; the pointer came from the same allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes.cast_signed() - layout.size().cast_signed());
        // SAFETY: as the caller promised; the pointer came from the same allocator.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let database = database();
    if let Some((command, after)) = raw_command(bytes) {
        check(database, &command);
        after.done(database);
    }
    let mut choices = Choices::from_bytes(bytes);
    for _ in 0..4 {
        if choices.is_exhausted() {
            break;
        }
        let (command, after) = command(&mut choices);
        check(database, &command);
        after.done(database);
    }
});

/// One store for all runs: to open one takes longer than most commands.
fn database() -> &'static Database {
    static DATABASE: OnceLock<(tempfile::TempDir, Database)> = OnceLock::new();
    let (_, database) = DATABASE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let client =
            Client::builder().memory_budget(8 << 20).open(folder.path().join("db")).expect("a store");
        let database = client.database("shop");
        refill(&database);
        (folder, database)
    });
    database
}

/// The effects of a command.
#[derive(Clone, Copy)]
enum After {
    Nothing,
    /// The documents of the collection.
    Documents,
    /// The collections and their definitions.
    Definitions,
}

impl After {
    /// Makes everything what it was before.
    fn done(self, database: &Database) {
        match self {
            Self::Nothing => {}
            Self::Documents => refill(database),
            Self::Definitions => {
                database.drop().run().expect("dropped");
                refill(database);
            }
        }
    }
}

/// Makes the collection what it was before a write.
fn refill(database: &Database) {
    let collection = database.collection::<Document>("a");
    collection.delete_many(doc! {}).run().expect("deleted");
    let documents = (0..DOCUMENTS).map(|id| {
        let list: Vec<Bson> = (0..id).map(|item| doc! { "k": item, "t": "ab".repeat(10) }.into()).collect();
        doc! {
            "_id": id,
            "n": f64::from(id) / 3.0,
            "s": "the quick brown fox ".repeat(1 + id.unsigned_abs() as usize),
            "l": (0..id * 10).collect::<Vec<i32>>(),
            "d": { "x": id, "y": { "z": "ü".repeat(5) } },
            "dd": list,
        }
    });
    collection.insert_many(documents).run().expect("inserted");
}

/// The bytes as a command, if they are one that is run here, and what it may change.
fn raw_command(bytes: &[u8]) -> Option<(Document, After)> {
    let mut command = Document::try_from(RawDocument::from_bytes(bytes).ok()?).ok()?;
    let name = command.keys().next()?.as_str();
    let after = if RAW_COMMANDS.contains(&name) {
        After::Documents
    } else if RAW_DEFINITIONS.contains(&name) {
        After::Definitions
    } else {
        return None;
    };
    command.insert("maxTimeMS", TIME_MS);
    Some((command, after))
}

/// Runs a command to its end, and asserts what it took.
fn check(database: &Database, command: &Document) {
    let before = LIVE.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    let start = Instant::now();
    if matches!(command.keys().next().map(String::as_str), Some("find" | "aggregate")) {
        // The documents are not kept: what a caller keeps is its own.
        let cursor = database.run_cursor_command(command.clone()).run();
        let _ = cursor.map(|cursor| cursor.take_while(Result::is_ok).count());
    } else {
        let _ = database.run_command(command.clone()).run();
    }
    let took = start.elapsed();
    let held = usize::try_from(PEAK.with(Cell::get) - before).unwrap_or(0);
    assert!(took <= TIME_MAX, "{took:?} with a limit of {TIME_MS} ms: {command}");
    assert!(held <= OPERATION_BYTES + CONSTANT_BYTES, "{held} bytes: {command}");
}

/// A command, and what it may change.
fn command(choices: &mut Choices) -> (Document, After) {
    let mut after = After::Nothing;
    let mut command = match choices.below(10) {
        0 => {
            doc! { "find": "a", "filter": filter(choices, 0), "sort": sort(choices), "projection": { "p": expression(choices, 0) } }
        }
        1 => {
            after = After::Documents;
            doc! { "update": "a", "updates": [{ "q": filter(choices, 0), "u": update(choices), "multi": true }] }
        }
        2 => doc! { "distinct": "a", "key": field(choices), "query": filter(choices, 0) },
        3 => {
            after = After::Documents;
            doc! { "findAndModify": "a", "query": filter(choices, 0), "sort": sort(choices), "update": update(choices) }
        }
        4 => {
            after = After::Documents;
            doc! { "delete": "a", "deletes": [{ "q": filter(choices, 0), "limit": 0 }] }
        }
        5 => {
            after = After::Documents;
            let document = |choices: &mut Choices| doc! { field(choices): value(choices, 0) }.into();
            doc! { "insert": "a", "documents": list(choices, document), "ordered": false }
        }
        6 => definition(choices, &mut after),
        _ => doc! { "aggregate": "a", "pipeline": stages(choices, 0), "cursor": {} },
    };
    command.insert("maxTimeMS", TIME_MS);
    (command, after)
}

/// A command that reads a whole collection, or makes something of it.
fn definition(choices: &mut Choices, after: &mut After) -> Document {
    *after = After::Definitions;
    match choices.below(5) {
        0 => {
            let partial = filter(choices, 0);
            let index = doc! { "key": sort(choices), "name": "i", "partialFilterExpression": partial };
            doc! { "createIndexes": "a", "indexes": [index] }
        }
        1 => doc! { "createIndexes": "a", "indexes": [{ "key": sort(choices), "name": "i", "unique": true }] },
        2 => doc! { "cloneCollectionAsCapped": "a", "toCollection": "b", "size": number(choices) },
        3 => doc! { "convertToCapped": "a", "size": number(choices) },
        _ => doc! { "validate": "a" },
    }
}

fn field(choices: &mut Choices) -> &'static str {
    *choices.pick(&FIELDS)
}

fn sort(choices: &mut Choices) -> Document {
    doc! { field(choices): if choices.one_in(2) { 1 } else { -1 } }
}

/// A number that may be large, as the ends of ranges and lengths are.
fn number(choices: &mut Choices) -> Bson {
    match choices.below(8) {
        0 => Bson::Int32(0),
        1 => Bson::Int32(-1),
        2 => Bson::Int32(100_000),
        3 => Bson::Int64(10_000_000),
        4 => Bson::Double(1e300),
        5 => Bson::Int64(i64::MAX),
        _ => Bson::Int32(i32::try_from(choices.below(256)).expect("small")),
    }
}

fn text(choices: &mut Choices) -> String {
    const PARTS: [&str; 6] = ["a", "the ", "$x", "ü", "", "0.0.0.0.0.0"];
    let part = *choices.pick(&PARTS);
    part.repeat(1 << choices.below(12))
}

fn pattern(choices: &mut Choices) -> String {
    const PARTS: [&str; 14] =
        ["a", "(", ")", "+", "*", "{90}", "\\p{L}", "|", ".", "[a-z]", "(?=", "\\1", "$", "(a+)+"];
    let len = choices.below(40);
    (0..len).map(|_| *choices.pick(&PARTS)).collect()
}

fn value(choices: &mut Choices, depth: u32) -> Bson {
    match choices.below(if depth < DEPTH_MAX { 7 } else { 3 }) {
        0 | 1 => number(choices),
        2 => text(choices).into(),
        3 => Bson::Null,
        4 => list(choices, |choices| value(choices, depth + 1)),
        5 => doc! { field(choices): value(choices, depth + 1) }.into(),
        _ => {
            let size = choices.index(2_000);
            vec![value(choices, DEPTH_MAX); size].into()
        }
    }
}

fn list(choices: &mut Choices, mut item: impl FnMut(&mut Choices) -> Bson) -> Bson {
    let len = 1 + choices.below(3);
    (0..len).map(|_| item(choices)).collect::<Vec<Bson>>().into()
}

fn filter(choices: &mut Choices, depth: u32) -> Document {
    if depth >= DEPTH_MAX {
        return doc! { field(choices): value(choices, depth) };
    }
    let name = field(choices);
    let below = depth + 1;
    match choices.below(14) {
        0 => doc! {},
        1 => doc! { "$or": list(choices, |choices| filter(choices, below).into()) },
        2 => doc! { "$and": list(choices, |choices| filter(choices, below).into()) },
        3 => doc! { "$nor": list(choices, |choices| filter(choices, below).into()) },
        4 => doc! { name: { "$regex": pattern(choices) } },
        5 => doc! { name: { "$elemMatch": filter(choices, below) } },
        6 => doc! { name: { "$in": list(choices, |choices| value(choices, below)) } },
        7 => doc! { name: { "$not": { "$regex": pattern(choices) } } },
        8 => doc! { "$expr": expression(choices, below) },
        9 => doc! { name: { "$all": list(choices, |choices| value(choices, below)) } },
        10 => doc! { "0.".repeat(1 + choices.index(60)) + "x": value(choices, below) },
        11 => {
            doc! { "$jsonSchema": { "properties": { name: { "pattern": pattern(choices), "uniqueItems": true } } } }
        }
        12 => doc! { name: { "$gte": value(choices, below), "$lt": value(choices, below) } },
        _ => doc! { name: value(choices, below) },
    }
}

fn expression(choices: &mut Choices, depth: u32) -> Bson {
    if depth >= DEPTH_MAX {
        return format!("${}", field(choices)).into();
    }
    let inner = |choices: &mut Choices| expression(choices, depth + 1);
    let operator: Document = match choices.below(32) {
        0 => doc! { "$range": [0, number(choices)] },
        1 => doc! { "$range": [number(choices), number(choices), number(choices)] },
        2 | 3 => doc! { "$map": { "input": inner(choices), "in": inner(choices) } },
        4 => doc! { "$filter": { "input": inner(choices), "cond": inner(choices) } },
        5 | 6 => {
            doc! { "$reduce": { "input": inner(choices), "initialValue": inner(choices), "in": inner(choices) } }
        }
        7 => doc! { "$concatArrays": list(choices, inner) },
        8 => doc! { "$concat": list(choices, inner) },
        9 => doc! { "$zip": { "inputs": list(choices, inner), "useLongestLength": true } },
        10 => doc! { "$setUnion": list(choices, inner) },
        11 => doc! { "$setIntersection": list(choices, inner) },
        12 => doc! { "$regexFindAll": { "input": inner(choices), "regex": pattern(choices) } },
        13 => doc! { "$split": [inner(choices), text(choices)] },
        14 => {
            doc! { "$replaceAll": { "input": inner(choices), "find": text(choices), "replacement": text(choices) } }
        }
        15 => doc! { "$let": { "vars": { "x": inner(choices) }, "in": inner(choices) } },
        16 => doc! { "$reverseArray": inner(choices) },
        17 => doc! { "$sortArray": { "input": inner(choices), "sortBy": 1 } },
        18 => doc! { "$objectToArray": inner(choices) },
        19 => doc! { "$arrayToObject": inner(choices) },
        20 => doc! { "$mergeObjects": list(choices, inner) },
        21 => doc! { "$cond": [inner(choices), inner(choices), inner(choices)] },
        22 => doc! { "$sum": list(choices, inner) },
        23 => doc! { "$toString": inner(choices) },
        24 => doc! { "$indexOfCP": [inner(choices), text(choices)] },
        25 => doc! { "$slice": [inner(choices), number(choices)] },
        26 => doc! { "$substrCP": [inner(choices), number(choices), number(choices)] },
        27 => doc! { "$literal": value(choices, depth + 1) },
        28 => return (*choices.pick(&VARIABLES)).into(),
        29 => return list(choices, inner),
        30 => doc! { "a": inner(choices), "b": inner(choices) },
        _ => return format!("${}", field(choices)).into(),
    };
    operator.into()
}

fn stages(choices: &mut Choices, depth: u32) -> Bson {
    let len = 1 + choices.below(5);
    (0..len).map(|_| stage(choices, depth).into()).collect::<Vec<Bson>>().into()
}

fn stage(choices: &mut Choices, depth: u32) -> Document {
    const ACCUMULATORS: [&str; 8] =
        ["$push", "$addToSet", "$sum", "$avg", "$max", "$first", "$mergeObjects", "$stdDevPop"];
    let name = field(choices);
    match choices.below(15) {
        0 => doc! { "$match": filter(choices, depth) },
        1 | 2 => doc! { "$set": { name: expression(choices, depth) } },
        3 => doc! { "$project": { "p": expression(choices, depth) } },
        4 | 5 => {
            let accumulator = *choices.pick(&ACCUMULATORS);
            doc! { "$group": { "_id": expression(choices, depth), "g": { accumulator: expression(choices, depth) } } }
        }
        6 | 7 => doc! { "$unwind": format!("${name}") },
        8 => doc! { "$sort": sort(choices) },
        9 if depth == 0 => doc! { "$facet": { "f": stages(choices, 2), "g": stages(choices, 2) } },
        10 => doc! { "$sortByCount": expression(choices, depth) },
        11 => {
            doc! { "$bucket": { "groupBy": expression(choices, depth), "boundaries": [0, 5, 1000], "default": "x" } }
        }
        12 => doc! { "$replaceRoot": { "newRoot": expression(choices, depth) } },
        13 => {
            doc! { "$group": { "_id": null, "g": { "$topN": { "n": number(choices), "sortBy": sort(choices), "output": expression(choices, depth) } } } }
        }
        _ => doc! { "$skip": 1 },
    }
}

fn update(choices: &mut Choices) -> Bson {
    let (name, other) = (field(choices), field(choices));
    let document = match choices.below(9) {
        0 | 1 => return vec![Bson::from(doc! { "$set": { name: expression(choices, 0) } })].into(),
        2 => {
            doc! { "$push": { name: { "$each": list(choices, |choices| value(choices, 0)), "$sort": 1, "$slice": number(choices) } } }
        }
        3 => doc! { "$addToSet": { name: { "$each": list(choices, |choices| value(choices, 0)) } } },
        4 => doc! { "$pull": { name: filter(choices, 2) } },
        5 => doc! { "$set": { format!("{name}.{}", choices.below(200_000)): value(choices, 0) } },
        6 => doc! { "$inc": { format!("{name}.$[]"): 1 }, "$set": { other: value(choices, 0) } },
        7 => doc! { "$rename": { name: other } },
        _ => doc! { name: value(choices, 0) },
    };
    document.into()
}
