//! Readers who use everything that a server has for all: places for commands, cursors, sessions, connections, and memory.

use std::time::Instant;

use cairndb_tests::choices::Choices;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, Document, doc};
use mongodb::error::{Error, ErrorKind};
use mongodb::sync::Client;

use crate::soak::lasting::goes_on;

/// Uses what a reader can get until the end; says how many commands were answered, rejections among them.
pub(crate) fn take_everything(uri: &str, mut choices: Choices, end: Instant) -> u64 {
    let client = Client::with_uri_str(uri).expect("the URI is one");
    let (shop, admin) = (client.database("shop"), client.database("admin"));
    let mut answered = 0;
    while goes_on(end, answered > 0) {
        let reply = match choices.below(6) {
            0 => shop.run_command(endless()).run(),
            1 => admin.run_command(doc! { "refreshSessions": sessions(&mut choices, 10_000) }).run(),
            2 => {
                let open = || shop.run_command(doc! { "find": "sorted", "batchSize": 1 }).run();
                for _ in 1..200 {
                    let _ = open();
                }
                open()
            }
            3 => shop.run_command(doc! { "find": "sorted", "sort": { "n": 1 }, "batchSize": 1 }).run(),
            4 => {
                let ids: Vec<Bson> = (0..50_000_i64).map(Bson::Int64).collect();
                shop.run_command(doc! { "killCursors": "sorted", "cursors": ids }).run()
            }
            _ => admin.run_command(doc! { "usersInfo": vec!["rita"; 50_000] }).run(),
        };
        // A rejection is an answer: whatever it is for, the server goes on.
        let is_refused = |error: &Error| matches!(error.kind.as_ref(), ErrorKind::Command(_));
        answered += u64::from(reply.as_ref().err().is_none_or(is_refused));
    }
    client.shutdown().immediate(true).run();
    answered
}

/// A command that uses all the time that it is given.
fn endless() -> Document {
    let wide = || doc! { "$range": [0, 100_000] };
    let inner = doc! { "$sum": { "$map": { "input": wide(), "as": "y", "in": { "$add": ["$$x", "$$y"] } } } };
    let sum = doc! { "$sum": { "$map": { "input": wide(), "as": "x", "in": inner } } };
    doc! { "aggregate": "sorted", "pipeline": [{ "$set": { "sum": sum } }], "cursor": {}, "maxTimeMS": 2000 }
}

fn sessions(choices: &mut Choices, count: u64) -> Vec<Document> {
    let first = choices.below(u64::MAX / 2);
    (first..first + count)
        .map(|number| {
            let bytes = [number.to_be_bytes(), number.to_le_bytes()].concat();
            doc! { "id": Binary { subtype: BinarySubtype::Uuid, bytes } }
        })
        .collect()
}
