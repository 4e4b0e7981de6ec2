//! Clients that mean no good, or are not careful: strangers, readers that read no answers, killers of cursors, and collections
//! that are replaced while they are read.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use cairndb_tests::choices::Choices;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, Document, doc};

use crate::soak::lasting::goes_on;
use crate::soak::raw::{Raw, front, message, on_shop};

/// The number of documents that the collection that is replaced always has.
pub(crate) const REPLACED_LEN: i32 = 5;
/// The number of documents that a cursor has that is killed.
pub(crate) const KILLED_LEN: i32 = 120;

/// Does what somebody may do who never logs in; says how often.
pub(crate) fn strange(address: SocketAddr, mut choices: Choices, end: Instant) -> u64 {
    let mut tried = 0;
    while goes_on(end, tried > 0) {
        let Some(mut raw) = Raw::connect(address) else { continue };
        tried += 1;
        match choices.below(7) {
            // An announcement, and a trickle of what was announced.
            0 => trickle(&mut raw, 48_000_000),
            1 => trickle(&mut raw, 64 << 10),
            2 => {
                for _ in 0..100 {
                    let id: Vec<u8> =
                        (0..16).map(|_| u8::try_from(choices.below(256)).unwrap_or(0)).collect();
                    let lsid = doc! { "id": Binary { subtype: BinarySubtype::Uuid, bytes: id } };
                    raw.run(&doc! { "ping": 1, "lsid": lsid, "$db": "admin" });
                }
            }
            3 => {
                let names = vec!["zstd"; 4000];
                raw.run(&doc! { "hello": 1, "compression": names, "$db": "admin" });
            }
            4 => guess(&mut raw),
            5 => raw.linger(Duration::from_millis(500)),
            _ => {
                raw.run(&doc! { "find": "large", "$db": "shop" });
            }
        }
    }
    tried
}

fn trickle(raw: &mut Raw, announced: usize) {
    raw.send(&front(announced));
    for _ in 0..10 {
        if !raw.send(&[0; 1000]) {
            return;
        }
        raw.linger(Duration::from_millis(50));
    }
}

fn guess(raw: &mut Raw) {
    let payload = |text: &str| Binary { subtype: BinarySubtype::Generic, bytes: text.as_bytes().to_vec() };
    let start = doc! {
        "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": payload("n,,n=mallory,r=abcdef"), "$db": "admin",
    };
    let Some(begun) = raw.run(&start) else { return };
    let Ok(challenge) =
        begun.get_binary_generic("payload").map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    else {
        return;
    };
    let nonce = challenge.split(',').next().unwrap_or_default();
    let proof = format!("c=biws,{nonce},p={}=", "A".repeat(43));
    raw.run(&doc! { "saslContinue": 1, "conversationId": 1, "payload": payload(&proof), "$db": "admin" });
}

/// Asks for much, again and again, and reads nothing; says how often.
pub(crate) fn read_slowly(address: SocketAddr, mut choices: Choices, end: Instant) -> u64 {
    let mut asked = 0;
    while goes_on(end, asked > 0) {
        let Some(mut raw) = Raw::connect(address) else { continue };
        for _ in 0..5 {
            raw.send(&message(&on_shop(doc! { "find": "large", "batchSize": 100 })));
            asked += 1;
        }
        thread::park_timeout(Duration::from_millis(choices.below(3000)));
    }
    asked
}

/// Kills cursors while they are read. What comes of them is all that is left, or a rejection: never a part that looks like all.
pub(crate) fn kill_cursors(address: SocketAddr, mut choices: Choices, end: Instant) -> u64 {
    let mut count = 0;
    let (Some(mut reader), Some(mut killer)) = (Raw::connect(address), Raw::connect(address)) else {
        return 0;
    };
    while goes_on(end, count > 0) {
        let opened = reader.run(&on_shop(doc! {
            "aggregate": "killed", "cursor": { "batchSize": 1 },
            "pipeline": [{ "$project": { "sum": { "$reduce": {
                "input": { "$range": [0, 2000] }, "initialValue": 0, "in": { "$add": ["$$value", "$$this"] },
            } } } }],
        }));
        let opened = opened.expect("the server answers");
        let cursor = opened.get_document("cursor").unwrap_or_else(|_| panic!("no cursor: {opened}"));
        let id = cursor.get_i64("id").expect("a number");
        reader.send(&message(&on_shop(doc! { "getMore": id, "collection": "killed" })));
        thread::park_timeout(Duration::from_millis(choices.below(50)));
        killer.run(&on_shop(doc! { "killCursors": "killed", "cursors": [id] })).expect("the server answers");
        let reply = reader.receive().expect("the server answers");
        if let Ok(code) = reply.get_i32("code") {
            assert!(code == 237 || code == 43, "{reply}");
            count += 1;
            continue;
        }
        let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("nextBatch"));
        let len = batch.map_or_else(|_| panic!("no batch: {reply}"), Vec::len);
        assert_eq!(
            i32::try_from(len).ok(),
            Some(KILLED_LEN - 1),
            "a killed cursor gave a part as if it were all"
        );
    }
    count
}

/// Replaces a collection by another of the same content, by renaming; says how often.
pub(crate) fn replace(address: SocketAddr, end: Instant) -> u64 {
    let mut replaced = 0;
    let Some(mut raw) = Raw::connect(address) else { return 0 };
    while goes_on(end, replaced > 0) {
        fill(&mut raw, "next", REPLACED_LEN, 100);
        let rename = doc! { "renameCollection": "shop.next", "to": "shop.replaced", "dropTarget": true, "$db": "admin" };
        let reply = raw.run(&rename).expect("the server answers");
        assert!(reply.get_f64("ok").is_ok_and(|ok| ok > 0.0), "{reply}");
        replaced += 1;
    }
    replaced
}

/// Reads a collection that is replaced all the time: it always has all its documents.
pub(crate) fn read_replaced(address: SocketAddr, end: Instant) -> u64 {
    let mut read = 0;
    let Some(mut raw) = Raw::connect(address) else { return 0 };
    while goes_on(end, read > 0) {
        let count = raw.run(&on_shop(doc! { "count": "replaced", "query": { "_id": { "$gte": 0 } } }));
        let count = count.expect("the server answers");
        assert_eq!(count.get_i32("n").ok(), Some(REPLACED_LEN), "{count}");
        let found = raw.run(&on_shop(doc! { "find": "replaced" })).expect("the server answers");
        let batch = found.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        assert_eq!(batch.map(Vec::len).ok(), usize::try_from(REPLACED_LEN).ok(), "{found}");
        read += 1;
    }
    read
}

/// Makes a collection of documents that are so long.
pub(crate) fn fill(raw: &mut Raw, collection: &str, len: i32, bytes: usize) {
    for id in 0..len {
        let document: Document = doc! { "_id": id, "text": "x".repeat(bytes) };
        let insert = on_shop(doc! { "insert": collection, "documents": [Bson::Document(document)] });
        let reply = raw.run(&insert).expect("the server answers");
        assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
    }
}
