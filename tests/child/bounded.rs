//! Requests that ask for more than they may have, in a process that cannot have more.
//!
//! Once the store is open and filled, the address space may grow by [`ROOM`] and no further, and requests run on a thread with
//! a small stack. A request that holds more than is counted against its limits ends this process, and so does one that
//! recurses too deeply; the parent sees which one it was by the last line.

use std::fs;
use std::io::{self, Write};
use std::thread;

use cairndb::bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use cairndb::{Client, Database};
use cairndb_tests::scratch;
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::Outcome;

/// The memory of an operation, and half of that for what is not counted: the request and the answer themselves,
/// blocks, memtables, and a string or a document that is copied while it grows.
const ROOM: u64 = (256 + 128) << 20;
/// The default stack of a thread of Rust: the least that requests may count on.
const STACK_BYTES: usize = 2 << 20;
/// The content of `large`: more than a stage may hold, in documents of 4 MiB.
const LARGE_DOCUMENTS: i32 = 40;
const LARGE_BYTES: usize = 4 << 20;
const SMALL_DOCUMENTS: i32 = 1000;
/// Levels of a request that is just shallow enough to be decoded.
const LEVELS: usize = 80;

/// The way in which a request must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Answered,
    /// With an error of this code.
    Refused(i32),
}

struct Door {
    name: &'static str,
    request: fn() -> Request,
    end: End,
}

enum Request {
    Decoded(Document),
    Raw(RawDocumentBuf),
}

pub(crate) fn run(folder: &str, doors: &str) -> Outcome<()> {
    let chosen: &[Door] = match doors {
        "reads" => READS,
        "expressions" => EXPRESSIONS,
        "writes" => WRITES,
        "requests" => REQUESTS,
        "hog" => return confined(hog),
        "recursion" => return confined(|| recurse(1)),
        // One door alone, to look at what went wrong.
        name => [READS, EXPRESSIONS, WRITES, REQUESTS]
            .iter()
            .find_map(|group| group.split_at_checked(group.iter().position(|door| door.name == name)?))
            .and_then(|(_, after)| after.get(..1))
            .ok_or_else(|| format!("unknown doors {name:?}"))?,
    };
    // A sort without end fills it. A group by large keys may need 512 MiB, where chance puts several of them into one part.
    let client = scratch::small().temporary_space(768 << 20).open(folder)?;
    fill(&client)?;
    confined(move || {
        for door in chosen {
            knock(&client.database("test"), door)?;
        }
        writeln!(io::stdout(), "{} doors", chosen.len())?;
        Ok(client.close()?)
    })
}

fn fill(client: &Client) -> Outcome<()> {
    let database = client.database("test");
    let text = "x".repeat(LARGE_BYTES);
    let large = database.collection::<Document>("large");
    for id in 0..LARGE_DOCUMENTS {
        large.insert_one(doc! { "_id": id, "n": -id, "text": &text }).run()?;
    }
    let small =
        |id: i32| doc! { "_id": id, "n": id, "to": (id + 1) % SMALL_DOCUMENTS, "text": "y".repeat(1000) };
    database.collection::<Document>("small").insert_many((0..SMALL_DOCUMENTS).map(small)).run()?;
    database.collection::<Document>("one").insert_one(doc! { "_id": 1, "n": 1, "list": [1] }).run()?;
    Ok(())
}

/// Runs `work` with little room and a small stack.
pub(crate) fn confined(work: impl FnOnce() -> Outcome<()> + Send + 'static) -> Outcome<()> {
    // The stack counts too, so the thread is there before the limit is.
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        let limit = Some(address_space()? + ROOM);
        setrlimit(Resource::As, Rlimit { current: limit, maximum: limit })?;
        work()
    })?;
    thread.join().map_err(|_| "a request panicked")?
}

/// The bytes of address space that this process has now.
fn address_space() -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).ok_or("no VmSize")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}

fn knock(database: &Database, door: &Door) -> Outcome<()> {
    // Said before, because a process that is ended says nothing after.
    writeln!(io::stdout(), "{}", door.name)?;
    io::stdout().flush()?;
    let answer = match (door.request)() {
        Request::Decoded(command) => database.run_command(command).run(),
        Request::Raw(command) => database.run_raw_command(command).run(),
    };
    let end = match &answer {
        Ok(reply) => refused_statement(reply).map_or(End::Answered, End::Refused),
        Err(error) => End::Refused(error.code().ok_or_else(|| format!("{}: {error}", door.name))?),
    };
    if end != door.end {
        let said = answer.map_or_else(|error| error.to_string(), |reply| reply.to_string());
        let said: String = said.chars().take(300).collect();
        return Err(format!("{} ended with {end:?}, and not with {:?}: {said}", door.name, door.end).into());
    }
    Ok(())
}

/// The code of the first statement that was rejected.
fn refused_statement(reply: &Document) -> Option<i32> {
    let first = reply.get_array("writeErrors").ok()?.first()?;
    first.as_document()?.get_i32("code").ok()
}

/// Uses more than there is, to show that the limit holds.
pub(crate) fn hog() -> Outcome<()> {
    // Or the compiler would leave it out.
    let bytes = std::hint::black_box(vec![1_u8; usize::try_from(ROOM)? + (1 << 20)]);
    Err(format!("{} bytes fit", bytes.len()).into())
}

/// Uses more stack than there is, to show that it is as small as said.
fn recurse(level: usize) -> Outcome<()> {
    let frame = std::hint::black_box([level; 128]);
    if level * size_of_val(&frame) > STACK_BYTES {
        return Err(format!("{level} levels fit").into());
    }
    recurse(level + 1)?;
    std::hint::black_box(frame);
    Ok(())
}

fn lookup_all() -> Document {
    doc! { "$lookup": { "from": "large", "localField": "no", "foreignField": "no", "as": "all" } }
}

/// An aggregation of the only document that may not use files, which would only be filled more slowly.
fn in_memory(stages: &[Document]) -> Request {
    Request::Decoded(doc! { "aggregate": "one", "pipeline": stages, "cursor": {}, "allowDiskUse": false })
}

fn aggregate(collection: &str, stages: Vec<Document>) -> Request {
    Request::Decoded(doc! { "aggregate": collection, "pipeline": stages, "cursor": {} })
}

/// An aggregation that computes one field of the only document.
fn computed(expression: impl Into<Bson>) -> Request {
    aggregate(
        "one",
        vec![
            doc! { "$project": { "v": { "$strLenCP": { "$toString": { "$size": [expression.into()] } } } } },
        ],
    )
}

/// The value of `step` after `times` times, each with the value before it as `$$value`.
fn repeated(initial: impl Into<Bson>, times: i32, step: impl Into<Bson>) -> Document {
    doc! { "$reduce": { "input": { "$range": [0, times] }, "initialValue": initial.into(), "in": step.into() } }
}

/// `around` around itself, [`LEVELS`] times.
fn nested(innermost: impl Into<Bson>, around: fn(Bson) -> Bson) -> Bson {
    (0..LEVELS).fold(innermost.into(), |within, _| around(within))
}

fn update(change: impl Into<Bson>) -> Request {
    Request::Decoded(doc! { "update": "one", "updates": [{ "q": { "_id": 1 }, "u": change.into() }] })
}

fn find(filter: Document) -> Request {
    Request::Decoded(doc! { "find": "large", "filter": filter, "limit": 1 })
}

/// A command whose filter has `levels` levels, as bytes.
fn deep(levels: usize) -> Request {
    let mut bytes = Vec::with_capacity(levels * 8);
    for level in 0..levels {
        bytes.extend_from_slice(&i32::try_from((levels - level) * 8 - 3).unwrap_or(i32::MAX).to_le_bytes());
        if level + 1 < levels {
            bytes.extend_from_slice(&[3, b'a', 0]);
        }
    }
    bytes.extend(std::iter::repeat_n(0, levels));
    let filter = RawDocumentBuf::from_bytes(bytes).unwrap_or_default();
    Request::Raw(rawdoc! { "find": "large", "filter": filter })
}

/// Requests whose answers or intermediate results are large.
const READS: &[Door] = &[
    Door {
        name: "find, sorted",
        request: || Request::Decoded(doc! { "find": "large", "sort": { "n": 1 } }),
        end: End::Refused(10334),
    },
    Door {
        name: "find, one batch of all",
        request: || Request::Decoded(doc! { "find": "large", "batchSize": i32::MAX }),
        end: End::Refused(10334),
    },
    Door {
        name: "distinct",
        request: || Request::Decoded(doc! { "distinct": "large", "key": "text" }),
        end: End::Answered,
    },
    Door {
        name: "$sort",
        request: || aggregate("large", vec![doc! { "$sort": { "n": 1 } }]),
        end: End::Refused(10334),
    },
    Door {
        name: "$sort of grown documents",
        request: || {
            aggregate(
                "small",
                vec![
                    doc! { "$set": { "v": repeated("$text", 9, doc! { "$concat": ["$$value", "$$value"] }) } },
                    doc! { "$sort": { "v": 1, "n": -1 } },
                ],
            )
        },
        end: End::Refused(14_031),
    },
    Door {
        name: "$group with $push",
        request: || {
            aggregate("large", vec![doc! { "$group": { "_id": Bson::Null, "all": { "$push": "$$ROOT" } } }])
        },
        end: End::Refused(146),
    },
    Door {
        name: "$group with $addToSet",
        request: || {
            aggregate(
                "large",
                vec![doc! { "$group": { "_id": Bson::Null, "all": { "$addToSet": "$$ROOT" } } }],
            )
        },
        end: End::Refused(146),
    },
    Door {
        name: "$group by large keys",
        request: || aggregate("large", vec![doc! { "$group": { "_id": { "n": "$n", "t": "$text" } } }]),
        end: End::Refused(10334),
    },
    Door {
        name: "$group with $topN",
        request: || {
            aggregate(
                "large",
                vec![
                    doc! { "$group": { "_id": 1, "all": { "$topN": { "n": 1_000_000_000, "sortBy": { "n": 1 }, "output": "$$ROOT" } } } },
                ],
            )
        },
        end: End::Refused(146),
    },
    Door {
        name: "$group with $firstN",
        request: || {
            aggregate(
                "large",
                vec![
                    doc! { "$group": { "_id": 1, "all": { "$firstN": { "n": i64::MAX, "input": "$text" } } } },
                ],
            )
        },
        end: End::Refused(146),
    },
    Door {
        name: "$group with $mergeObjects",
        request: || {
            aggregate(
                "large",
                vec![
                    doc! { "$group": { "_id": 1, "all": { "$mergeObjects": { "$arrayToObject": [[{ "k": { "$toString": "$n" }, "v": "$text" }]] } } } },
                ],
            )
        },
        end: End::Refused(146),
    },
    Door {
        name: "$bucketAuto",
        request: || {
            aggregate(
                "large",
                vec![
                    doc! { "$bucketAuto": { "groupBy": "$n", "buckets": 3, "output": { "all": { "$push": "$text" } } } },
                ],
            )
        },
        end: End::Refused(10334),
    },
    Door {
        name: "$setWindowFields",
        request: || {
            aggregate(
                "large",
                vec![
                    doc! { "$setWindowFields": { "sortBy": { "n": 1 }, "output": { "all": { "$push": "$text" } } } },
                ],
            )
        },
        end: End::Refused(292),
    },
    Door {
        name: "$sample",
        request: || aggregate("large", vec![doc! { "$sample": { "size": 1_000_000 } }]),
        end: End::Refused(292),
    },
    Door {
        name: "$facet",
        request: || {
            aggregate("large", vec![doc! { "$facet": { "a": [{ "$match": {} }], "b": [{ "$match": {} }] } }])
        },
        end: End::Refused(10334),
    },
    Door { name: "$lookup", request: || aggregate("one", vec![lookup_all()]), end: End::Refused(4568) },
    Door {
        name: "$lookup and $unwind",
        request: || aggregate("one", vec![lookup_all(), doc! { "$unwind": "$all" }]),
        end: End::Refused(10334),
    },
    Door { name: "$lookup in memory", request: || in_memory(&[lookup_all()]), end: End::Refused(292) },
    Door {
        name: "$lookup in every document",
        request: || {
            aggregate(
                "small",
                vec![
                    doc! { "$lookup": { "from": "small", "localField": "no", "foreignField": "no", "as": "a" } },
                    doc! { "$group": { "_id": 1, "all": { "$push": "$a" } } },
                ],
            )
        },
        end: End::Refused(146),
    },
    Door {
        name: "$unwind of products",
        request: || {
            in_memory(&[
                doc! { "$set": { "a": { "$range": [0, 300_000] }, "b": { "$range": [0, 300_000] } } },
                doc! { "$unwind": "$a" },
                doc! { "$unwind": "$b" },
                doc! { "$sort": { "b": -1 } },
            ])
        },
        end: End::Refused(146),
    },
];

/// Expressions whose values grow.
const EXPRESSIONS: &[Door] = &[
    Door {
        name: "$concat, doubling",
        request: || computed(repeated("xxxxxxxx", 40, doc! { "$concat": ["$$value", "$$value"] })),
        end: End::Refused(10334),
    },
    Door {
        name: "$concatArrays, doubling",
        request: || computed(repeated(vec![1], 40, doc! { "$concatArrays": ["$$value", "$$value"] })),
        end: End::Refused(10334),
    },
    Door {
        name: "arrays in arrays, doubling",
        request: || computed(repeated(vec![1], 40, vec!["$$value", "$$value"])),
        end: End::Refused(10334),
    },
    Door {
        name: "documents in documents, doubling",
        request: || computed(repeated(doc! {}, 40, doc! { "a": "$$value", "b": "$$value" })),
        end: End::Refused(10334),
    },
    Door {
        name: "documents in documents, deep",
        request: || computed(repeated(doc! {}, 100_000, doc! { "a": "$$value" })),
        end: End::Refused(17124),
    },
    Door {
        name: "arrays in arrays, deep",
        request: || computed(repeated(vec![1], 100_000, vec!["$$value"])),
        end: End::Answered,
    },
    Door {
        name: "documents in documents, deep, as a field",
        request: || {
            aggregate(
                "one",
                vec![doc! { "$set": { "v": repeated(doc! {}, 100_000, doc! { "a": "$$value" }) } }],
            )
        },
        end: End::Refused(15),
    },
    Door { name: "$range", request: || computed(doc! { "$range": [0, i32::MAX] }), end: End::Refused(146) },
    Door {
        name: "$map of $map",
        request: || {
            computed(
                doc! { "$map": { "input": { "$range": [0, 100_000] }, "in": { "$range": [0, 100_000] } } },
            )
        },
        end: End::Refused(10334),
    },
    Door {
        name: "$split",
        request: || aggregate("large", vec![doc! { "$project": { "v": { "$split": ["$text", "x"] } } }]),
        end: End::Refused(10334),
    },
    Door {
        name: "$replaceAll",
        request: || {
            aggregate(
                "large",
                vec![
                    doc! { "$project": { "v": { "$replaceAll": { "input": "$text", "find": "x", "replacement": "y".repeat(1000) } } } },
                ],
            )
        },
        end: End::Refused(10334),
    },
    Door {
        name: "$regexFindAll",
        request: || {
            aggregate(
                "large",
                vec![
                    doc! { "$project": { "v": { "$regexFindAll": { "input": "$text", "regex": "(x)(x)?" } } } },
                ],
            )
        },
        end: End::Refused(10334),
    },
    Door {
        name: "$let, nested too deeply",
        request: || {
            computed(nested("$list", |within| {
                doc! { "$let": { "vars": { "a": within }, "in": "$$a" } }.into()
            }))
        },
        end: End::Refused(22),
    },
    Door {
        name: "$abs, nested",
        request: || {
            aggregate(
                "one",
                vec![doc! { "$set": { "v": nested(1, |within| doc! { "$abs": within }.into()) } }],
            )
        },
        end: End::Answered,
    },
    Door {
        name: "$cond, nested",
        request: || {
            aggregate(
                "one",
                vec![
                    doc! { "$set": { "v": nested(1, |within| doc! { "$cond": [true, within, 0] }.into()) } },
                ],
            )
        },
        end: End::Answered,
    },
    Door {
        name: "$map, nested",
        request: || {
            aggregate(
                "one",
                vec![
                    doc! { "$set": { "v": nested(1, |within| doc! { "$map": { "input": "$list", "in": within } }.into()) } },
                ],
            )
        },
        end: End::Answered,
    },
];

/// Writes of documents, entries and batches that grow.
const WRITES: &[Door] = &[
    Door {
        name: "insert beyond 16 MiB",
        request: || Request::Decoded(doc! { "insert": "new", "documents": [{ "v": "x".repeat(17 << 20) }] }),
        end: End::Refused(2),
    },
    Door {
        name: "insert of many",
        request: || {
            Request::Decoded(
                doc! { "insert": "new", "documents": vec![doc! { "v": "x".repeat(100) }; 50_000] },
            )
        },
        end: End::Answered,
    },
    Door {
        name: "update of all",
        request: || {
            Request::Decoded(
                doc! { "update": "large", "updates": [{ "q": {}, "u": { "$inc": { "n": 1 } }, "multi": true }] },
            )
        },
        end: End::Answered,
    },
    Door {
        name: "$push",
        request: || {
            update(doc! { "$push": { "list": { "$each": vec![Bson::from("x".repeat(1000)); 12_000] } } })
        },
        end: End::Answered,
    },
    Door {
        name: "$push, again",
        request: || {
            update(doc! { "$push": { "list": { "$each": vec![Bson::from("x".repeat(1000)); 12_000] } } })
        },
        end: End::Refused(17419),
    },
    Door {
        name: "$set of a far element",
        request: || update(doc! { "$set": { "list.1000000000": 1 } }),
        end: End::Refused(34),
    },
    Door {
        name: "$set of elements within elements",
        request: || update(doc! { "$set": { "list.1000000": 1, "m.1000000": 1, "list.0": { "a": 1 } } }),
        end: End::Refused(17419),
    },
    Door {
        name: "update by a pipeline that doubles",
        request: || {
            update(vec![
                doc! { "$set": { "v": repeated("xxxxxxxx", 40, doc! { "$concat": ["$$value", "$$value"] }) } },
            ])
        },
        end: End::Refused(10334),
    },
    Door {
        name: "update of all by a pipeline that doubles",
        request: || {
            Request::Decoded(
                doc! { "update": "large", "updates": [{ "q": {}, "u": [{ "$set": { "w": { "$concat": ["$text", "$text", "$text", "$text"] } } }], "multi": true }] },
            )
        },
        end: End::Refused(10334),
    },
    Door {
        name: "findAndModify, sorted",
        request: || {
            Request::Decoded(
                doc! { "findAndModify": "large", "query": {}, "sort": { "n": 1 }, "update": { "$set": { "w": 1 } } },
            )
        },
        end: End::Answered,
    },
    Door {
        name: "$pull, nested",
        request: || {
            update(
                doc! { "$pull": { "list": nested(doc! { "$gt": 1 }, |within| doc! { "$not": within }.into()) } },
            )
        },
        end: End::Answered,
    },
    Door {
        name: "upsert with a deep equality",
        request: || {
            Request::Decoded(
                doc! { "update": "new", "updates": [{ "q": { "a": nested(1, |within| doc! { "a": within }.into()) }, "u": { "$set": { "b": 1 } }, "upsert": true }] },
            )
        },
        end: End::Answered,
    },
    Door {
        name: "index on text",
        request: || {
            Request::Decoded(
                doc! { "createIndexes": "small", "indexes": [{ "key": { "text": 1, "n": 1 }, "name": "text" }] },
            )
        },
        end: End::Answered,
    },
    Door {
        name: "index with many entries",
        request: || {
            Request::Decoded(
                doc! { "createIndexes": "wide", "indexes": [{ "key": { "a": 1, "b": 1 }, "name": "a" }] },
            )
        },
        end: End::Answered,
    },
    Door {
        name: "insert with too many entries",
        request: || {
            Request::Decoded(
                doc! { "insert": "wide", "documents": [{ "a": (0..400_000).collect::<Vec<i32>>(), "b": "x".repeat(1000) }] },
            )
        },
        end: End::Refused(2),
    },
];

/// Requests that are large or deep themselves.
const REQUESTS: &[Door] = &[
    Door { name: "filter of 150 levels", request: || deep(150), end: End::Answered },
    Door { name: "filter of 10,000 levels", request: || deep(10_000), end: End::Refused(15) },
    Door { name: "filter of 1,000,000 levels", request: || deep(1_000_000), end: End::Refused(15) },
    Door {
        name: "$nor in $nor",
        request: || {
            Request::Decoded(
                doc! { "find": "one", "filter": nested(doc! { "n": 1 }, |within| doc! { "$nor": [within] }.into()) },
            )
        },
        end: End::Answered,
    },
    Door {
        name: "$and in $or",
        request: || {
            Request::Decoded(
                doc! { "find": "one", "filter": nested(doc! { "n": 1 }, |within| doc! { "$or": [{ "n": 2 }, { "$and": [within] }] }.into()) },
            )
        },
        end: End::Refused(2),
    },
    Door {
        name: "$elemMatch in $elemMatch",
        request: || {
            find(doc! { "a": nested(doc! { "$gt": 1 }, |within| doc! { "$elemMatch": within }.into()) })
        },
        end: End::Answered,
    },
    Door {
        name: "$not in $not",
        request: || find(doc! { "a": nested(doc! { "$gt": 1 }, |within| doc! { "$not": within }.into()) }),
        end: End::Answered,
    },
    Door {
        name: "projection of 80 levels",
        request: || {
            Request::Decoded(
                doc! { "find": "one", "projection": { "a": nested(1, |within| doc! { "a": within }.into()) } },
            )
        },
        end: End::Answered,
    },
    Door {
        name: "path of many parts",
        request: || find(doc! { vec!["a"; 1_000_000].join("."): 1 }),
        end: End::Answered,
    },
    Door {
        name: "$in of a million",
        request: || find(doc! { "n": { "$in": (0..1_000_000).collect::<Vec<i32>>() } }),
        end: End::Answered,
    },
    Door {
        name: "pattern, nested repetition",
        request: || find(doc! { "text": { "$regex": "((((x{1,100}){1,100}){1,100}){1,100}){1,100}y" } }),
        end: End::Refused(51091),
    },
    Door {
        name: "pattern, backtracking",
        request: || find(doc! { "text": { "$regex": "(x+x+)+y" } }),
        end: End::Answered,
    },
    Door {
        name: "pattern, deep",
        request: || {
            find(doc! { "text": { "$regex": format!("{}x{}", "(".repeat(10_000), ")".repeat(10_000)) } })
        },
        end: End::Refused(51091),
    },
    Door {
        name: "pattern, long",
        request: || find(doc! { "text": { "$regex": "x".repeat(1 << 20) } }),
        end: End::Refused(51091),
    },
    Door {
        name: "many stages",
        request: || aggregate("one", vec![doc! { "$set": { "a": 1 } }; 1001]),
        end: End::Refused(7_749_501),
    },
];
