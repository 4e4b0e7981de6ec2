//! Any bytes as rows of the family `outcomes`, from which repeated writes and calls with tokens are answered: reading them gives a row, or
//! an error that names the family and the key.
//!
//! Some bytes are those of a row with one part changed, since most others are rejected at the first look.

use std::fmt::Debug;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, Collection, Error, ErrorKind, RetryableWrite};

use crate::choices::Choices;
use crate::scratch::small;

const FAMILY: &str = "outcomes";
const SESSION: [u8; 16] = [1; 16];
const USER: [u8; 16] = [2; 16];
/// The number of the command that most rows are of.
const NUMBER: i64 = 5;
const ROWS_MAX: u64 = 4;
const BYTES_MAX: u64 = 60;
/// Codes of answers that are not damage: the number is of another command, or of an older one, or the document is there.
const REFUSED: [i32; 3] = [72, 225, 11_000];

/// A call with a token.
type Call = fn(&Client, &str) -> Result<(), Error>;

const CALLS: [Call; 7] =
    [insert_one, insert_many, update_one, find_and_update, delete_many, command, transaction];
/// What is before the result in the row of a token: the layout, the digest of the call, and the time.
const TOKEN_HEAD_BYTES: usize = 1 + 16 + 8;

/// Stores some rows, and does everything that reads them. Panics where that is neither an answer nor an error that names its place.
pub fn run(choices: &mut Choices) {
    let client = small().in_memory(true).open("").expect("made");
    things(&client).insert_one(doc! { "_id": 1, "n": 0 }).run().expect("stored");
    if choices.one_in(2) {
        tokens(choices, &client);
    } else {
        sessions(choices, &client);
    }
    client.close().expect("closed");
}

fn things(client: &Client) -> Collection<Document> {
    client.database("app").collection("things")
}

fn insert_one(client: &Client, token: &str) -> Result<(), Error> {
    things(client).insert_one(doc! { "_id": 10 }).exactly_once(token).run().map(drop)
}

fn insert_many(client: &Client, token: &str) -> Result<(), Error> {
    let two = [doc! { "_id": 20 }, doc! { "_id": 21 }];
    things(client).insert_many(two).ordered(false).exactly_once(token).run().map(drop)
}

fn update_one(client: &Client, token: &str) -> Result<(), Error> {
    let things = things(client);
    let update = things.update_one(doc! { "_id": 30 }, doc! { "$inc": { "n": 1 } });
    update.upsert(true).exactly_once(token).run().map(drop)
}

fn find_and_update(client: &Client, token: &str) -> Result<(), Error> {
    let things = things(client);
    let update = things.find_one_and_update(doc! { "_id": 1 }, doc! { "$inc": { "n": 1 } });
    update.exactly_once(token).run().map(drop)
}

fn delete_many(client: &Client, token: &str) -> Result<(), Error> {
    things(client).delete_many(doc! { "_id": { "$gt": 100 } }).exactly_once(token).run().map(drop)
}

fn command(client: &Client, token: &str) -> Result<(), Error> {
    let updates = [30, 40].map(|id| doc! { "q": { "_id": id }, "u": { "$inc": { "n": 1 } }, "upsert": true });
    let command = doc! { "update": "things", "updates": updates.to_vec(), "exactlyOnce": token };
    client.database("app").run_command(command).run().map(drop)
}

fn transaction(client: &Client, token: &str) -> Result<(), Error> {
    let mut session = client.start_session().run()?;
    let inserted = session.start_transaction().exactly_once(token).and_run(|session| {
        things(client).insert_one(doc! { "_id": 50 }).session(&mut *session).run()?;
        // Of any type, since a damaged row may have any.
        Ok(Bson::Int32(50))
    });
    inserted.map(drop)
}

/// Changes the rows of calls, and repeats the calls.
fn tokens(choices: &mut Choices, client: &Client) {
    let calls = || (b'a'..).zip(CALLS).map(|(letter, call)| (char::from(letter).to_string(), call));
    for (token, call) in calls() {
        call(client, &token).expect("it is done for the first time");
    }
    // Of the first generation, and of the kind of tokens that are text.
    let stored = calls().map(|(token, _)| [&[1, 0, 0, 0, 1, 3], token.as_bytes()].concat()).map(|key| {
        let value = client.planted_outcome(&key).expect("read").expect("it has a row");
        (key, value)
    });
    let stored: Vec<(Vec<u8>, Vec<u8>)> = stored.collect();
    let mut keys = Vec::new();
    for _ in 0..=choices.below(ROWS_MAX) {
        let (mut key, value) = choices.pick(&stored).clone();
        let value = token_value(choices, value);
        if choices.one_in(4) {
            change(choices, &mut key);
        }
        client.plant_outcome(&key, &value).expect("stored");
        keys.push(key);
    }
    let found = findings(client);
    let mut damaged = Vec::new();
    for (token, call) in calls() {
        damaged.extend(answered(call(client, &token), |error| check(error, &keys)));
    }
    check_found(found + findings(client), &damaged);
}

/// The row of a token with another result, nearly one, or any bytes.
fn token_value(choices: &mut Choices, mut stored: Vec<u8>) -> Vec<u8> {
    if choices.one_in(8) {
        return bytes(choices);
    }
    if choices.one_in(2) {
        let end = stored.get(TOKEN_HEAD_BYTES..).expect("it has a head");
        let mut result = Document::from_reader(end).expect("it ends with a document");
        result.extend(results(choices, &["i", "g", "n", "m", "v", "r", "other"]));
        stored.truncate(TOKEN_HEAD_BYTES);
        stored.extend(result.to_vec().expect("encoded"));
    }
    change(choices, &mut stored);
    stored
}

/// The number of findings. Damage is found in the family `outcomes` alone.
fn findings(client: &Client) -> usize {
    let found = client.verify().expect("it is read").findings;
    assert!(found.iter().all(|finding| finding.place.ends_with(FAMILY)), "{found:?}");
    found.len()
}

/// What calls have met was found before them, unless it is still there: a later write of a session replaces its rows.
fn check_found(findings: usize, damaged: &[String]) {
    assert!(damaged.is_empty() || findings > 0, "verify found nothing, and calls met {damaged:?}");
}

/// Stores rows of a session, and sends its commands.
fn sessions(choices: &mut Choices, client: &Client) {
    let mut keys = Vec::new();
    for _ in 0..=choices.below(ROWS_MAX) {
        let (key, value) = (key(choices), value(choices));
        client.plant_outcome(&key, &value).expect("stored");
        keys.push(key);
    }
    let check = |error: &Error| check(error, &keys);
    let found = findings(client);
    let mut damaged = Vec::new();
    for number in [NUMBER, NUMBER + 1, NUMBER - 1, NUMBER] {
        let write = RetryableWrite::new(SESSION, USER, number);
        damaged.extend(answered(client.newest_retryable_write(&write), check));
        damaged.extend(answered(commit(client, &write), check));
        for command in commands() {
            damaged
                .extend(answered(client.database("app").run_command(command).retryable(write).run(), check));
        }
    }
    check_found(found + findings(client), &damaged);
}

/// The error of a call that has met damage.
fn answered<A: Debug>(done: Result<A, Error>, check: impl Fn(&Error) -> bool) -> Option<String> {
    done.err().filter(check).map(|error| error.to_string())
}

/// An error is a rejection, or names one of the rows. Says whether it is of damage.
fn check(error: &Error, keys: &[Vec<u8>]) -> bool {
    let damaged = if let ErrorKind::Corruption { family, key, .. } = error.kind() {
        Some(*family == FAMILY && keys.contains(key))
    } else {
        None
    };
    let is_rejection = error.code().is_some_and(|code| REFUSED.contains(&code));
    assert!(damaged.unwrap_or(is_rejection), "{error:?}, with rows {keys:?}");
    damaged.is_some()
}

fn commit(client: &Client, write: &RetryableWrite) -> Result<(), Error> {
    let mut session = client.start_session().run()?;
    session.start_transaction().run()?;
    let things = things(client);
    let update = things.update_one(doc! { "_id": 1 }, doc! { "$inc": { "n": 1 } });
    update.session(&mut session).run()?;
    session.commit_transaction().retryable(*write).run()
}

fn commands() -> [Document; 4] {
    let change = || doc! { "$inc": { "n": 1 } };
    [
        doc! { "insert": "things", "documents": [{ "_id": 2 }, { "_id": 3 }, { "_id": 4 }], "ordered": false },
        doc! { "update": "things", "updates": [{ "q": { "_id": 9 }, "u": change(), "upsert": true }] },
        doc! { "findAndModify": "things", "query": { "_id": 1 }, "update": change(), "new": true },
        doc! { "delete": "things", "deletes": [{ "q": { "_id": 2 }, "limit": 1 }, { "q": {}, "limit": 1 }] },
    ]
}

fn bytes(choices: &mut Choices) -> Vec<u8> {
    (0..choices.below(BYTES_MAX)).map(|_| byte(choices)).collect()
}

fn byte(choices: &mut Choices) -> u8 {
    u8::try_from(choices.below(256)).expect("a byte")
}

/// The key of a row of the session, nearly one, or any bytes.
fn key(choices: &mut Choices) -> Vec<u8> {
    if choices.one_in(8) {
        return bytes(choices);
    }
    let slot = u32::try_from(choices.below(3)).expect("small");
    let mut key = [&[2][..], &SESSION, &USER, &slot.to_be_bytes()].concat();
    change(choices, &mut key);
    key
}

/// A row as docs/format.md has it, nearly one, or any bytes.
fn value(choices: &mut Choices) -> Vec<u8> {
    if choices.one_in(8) {
        return bytes(choices);
    }
    let number = NUMBER - 1 + i64::try_from(choices.below(3)).expect("small");
    let first = statement(choices);
    let last = if choices.one_in(2) { first } else { statement(choices) };
    let mut value = vec![1];
    value.extend(number.to_be_bytes());
    value.extend(choices.number().to_be_bytes());
    value.extend(first.to_be_bytes());
    value.extend(last.to_be_bytes());
    value.push(1 + u8::try_from(choices.below(5)).expect("small"));
    let results = results(choices, &["s", "u", "v", "other"]);
    value.extend(results.to_vec().expect("encoded"));
    change(choices, &mut value);
    value
}

fn statement(choices: &mut Choices) -> u32 {
    let small = u32::try_from(choices.below(5)).expect("small");
    *choices.pick(&[small, small, small + 1, 1_000_000, u32::MAX - small])
}

fn results(choices: &mut Choices, names: &[&str]) -> Document {
    let mut results = Document::new();
    for _ in 0..choices.below(3) {
        let name = *choices.pick(names);
        let value = match choices.below(6) {
            0 => Bson::Array(vec![Bson::Int64(0), Bson::Int64(2)]),
            1 => Bson::Array(vec![Bson::Int64(-1), Bson::String("x".to_owned())]),
            2 => Bson::Document(doc! { "_id": 1, "n": "a document that is shown ".repeat(8) }),
            3 => Bson::Int64(i64::MAX),
            4 => Bson::Null,
            _ => Bson::String("text".to_owned()),
        };
        results.insert(name, value);
    }
    results
}

/// Changes a byte, cuts the end off, adds to it, or does nothing.
fn change(choices: &mut Choices, bytes: &mut Vec<u8>) {
    let at = choices.index(bytes.len().max(1));
    match choices.below(8) {
        0 => bytes.truncate(at),
        1 => bytes.push(byte(choices)),
        2 | 3 => {
            let new = byte(choices);
            if let Some(byte) = bytes.get_mut(at) {
                *byte = new;
            }
        }
        _ => {}
    }
}
