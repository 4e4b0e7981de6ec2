//! Whatever document comes as a command: it is answered by one document that has `ok`, the connection stays, and what
//! is stored agrees with itself.
//!
//! The bytes choose commands and mix fields into them; bytes that are a document are sent as they are, too.

#![no_main]

use cairndb::Client;
use cairndb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use cairndb_server::Server;
use cairndb_server::frame::header::{HEADER_BYTES, Header};
use cairndb_server::frame::message::Message;
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// Names of commands, and of what is in them.
const COMMANDS: [&str; 28] = [
    "hello", "ping", "insert", "find", "getMore", "killCursors", "update", "delete", "findAndModify", "count",
    "distinct", "create", "drop", "createIndexes", "dropIndexes", "listIndexes", "listCollections", "dbStats",
    "collStats", "createSequence", "sequenceNext", "setAcquirer", "serverStatus", "bogus",
    "aggregate", "commitTransaction", "abortTransaction", "collMod",
];
const FIELDS: [&str; 31] = [
    "filter", "documents", "updates", "deletes", "q", "u", "_id", "cursors", "batchSize", "limit", "query", "key",
    "indexes", "name", "options", "lsid", "id", "writeConcern", "ordered", "$set",
    "pipeline", "cursor", "$changeStream", "resumeAfter", "startAtOperationTime", "fullDocument", "exactlyOnce",
    "txnNumber", "autocommit", "startTransaction", "changeStreamPreAndPostImages",
];
const TEXTS: [&str; 8] = ["a", "b", "n", "own", "shared", "", "updateLookup", "required"];

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("a folder");
    let client = Client::builder().memory_budget(8 << 20).open(folder.path().join("db")).expect("a store");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        // Alone, or as a replica set of one, which has transactions, sessions and change streams.
        let builder = Server::builder(client.clone());
        let is_set = bytes.first().is_some_and(|byte| byte % 2 == 1);
        let builder = if is_set { builder.replica_set("rs").advertise("localhost:27017") } else { builder };
        let server = builder.unbound().expect("a server");
        let (mut near, far) = tokio::io::duplex(1 << 20);
        let serving = tokio::spawn(server.serve_stream(far));
        if RawDocument::from_bytes(bytes).is_ok() {
            send(&mut near, bytes).await;
        }
        let mut choices = bytes.iter().copied();
        for _ in 0..20 {
            let Some(choice) = choices.next() else { break };
            let mut command = doc! { pick(&COMMANDS, choice): value(&mut choices, 2) };
            for _ in 0..choices.next().unwrap_or(0) % 4 {
                command.insert(pick(&FIELDS, choices.next().unwrap_or(0)), value(&mut choices, 0));
            }
            command.insert("$db", "shop");
            let command = RawDocumentBuf::try_from(&command).expect("encoded");
            send(&mut near, command.as_bytes()).await;
        }
        drop(near);
        serving.await.expect("the connection ended in order");
        server.serve(async {}).await;
    });
    drop(runtime);
    let report = client.verify().expect("read");
    assert!(report.is_clean(), "{report:?}");
    client.close().expect("closed");
});

async fn send(peer: &mut DuplexStream, body: &[u8]) {
    let message = Message { flags: 0, body: body.to_vec().into(), sequences: Vec::new() };
    peer.write_all(&message.bytes(1, 0)).await.expect("the connection stays");
    let mut front = [0; HEADER_BYTES];
    peer.read_exact(&mut front).await.expect("an answer");
    let mut rest = vec![0; Header::parse(&front).expect("a header").length - HEADER_BYTES];
    peer.read_exact(&mut rest).await.expect("a whole answer");
    let answer = Message::parse(&[front.to_vec(), rest].concat().into()).expect("a message");
    let reply = RawDocument::from_bytes(&answer.body).expect("a document");
    assert!(reply.get_f64("ok").is_ok(), "{reply:?}");
}

fn pick<'a>(of: &[&'a str], choice: u8) -> &'a str {
    of[usize::from(choice) % of.len()]
}

fn value(choices: &mut impl Iterator<Item = u8>, depth: u8) -> Bson {
    let Some(choice) = choices.next() else { return Bson::Int32(1) };
    match choice % 8 {
        0 => Bson::Int32(i32::from(choice) - 100),
        1 => Bson::Int64(i64::from(choice)),
        2 => Bson::Double(f64::from(choice) / 4.0),
        3 => Bson::Boolean(choice > 100),
        4 if depth < 4 => {
            let len = choices.next().unwrap_or(0) % 4;
            Bson::Array((0..len).map(|_| value(choices, depth + 1)).collect())
        }
        5 if depth < 4 => {
            let len = choices.next().unwrap_or(0) % 4;
            let field = |_| {
                let name = pick(&FIELDS, choices.next().unwrap_or(0)).to_owned();
                (name, value(choices, depth + 1))
            };
            Bson::Document((0..len).map(field).collect::<Document>())
        }
        6 => Bson::Null,
        _ => Bson::String(pick(&TEXTS, choices.next().unwrap_or(0)).to_owned()),
    }
}
