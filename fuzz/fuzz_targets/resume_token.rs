//! Any document in the place of a resume token opens a stream of a store, or is refused by a code; a token of the store with a few
//! bits changed too. Nothing panics, and what is shown is what the store has.

#![no_main]

use std::sync::OnceLock;
use std::time::Duration;

use bson::{Document, deserialize_from_document, doc, serialize_to_document};
use cairndb::{Client, Collection, ResumeToken};
use cairndb_fuzz::Input;
use libfuzzer_sys::fuzz_target;

/// How many documents the store has, each with an event.
const EVENTS: i32 = 5;

/// A store with events, and the token before the first one.
struct Watched {
    things: Collection<Document>,
    first: String,
}

fuzz_target!(|bytes: &[u8]| {
    static WATCHED: OnceLock<Watched> = OnceLock::new();
    let Watched { things, first } = WATCHED.get_or_init(watched);
    let mut input = Input::new(bytes);
    let kind = input.byte();
    let data = match kind % 3 {
        // Digits of the token, some of which are others.
        0 | 1 => {
            let mut digits = first.clone().into_bytes();
            for _ in 0..input.byte() % 6 {
                let at = usize::from(input.byte()) % digits.len();
                if let Some(digit) = digits.get_mut(at) {
                    *digit = b"0123456789ABCDEFabcdef"[usize::from(input.byte()) % 22];
                }
            }
            String::from_utf8_lossy(&digits).into_owned()
        }
        _ => String::from_utf8_lossy(input.rest()).into_owned(),
    };
    let token: ResumeToken = deserialize_from_document(doc! { "_data": data }).expect("a token has a text");
    let watch = things.watch().max_await_time(Duration::ZERO);
    let watch = if kind % 2 == 0 { watch.resume_after(token) } else { watch.start_after(token) };
    match watch.run() {
        Ok(mut stream) => {
            let mut before = 0;
            while let Ok(Some(event)) = stream.next_if_any() {
                let key = event.document_key.expect("the key of a document");
                let id = key.get_i32("_id").expect("a number");
                assert!(id > before && id <= EVENTS, "{id} after {before}");
                before = id;
            }
        }
        Err(error) => assert!(matches!(error.code(), Some(260 | 286)), "{error}"),
    }
});

fn watched() -> Watched {
    let client = Client::in_memory().expect("a store in memory");
    let things = client.database("fuzz").collection("things");
    let token = things.watch().run().expect("opened").resume_token().expect("a token");
    for id in 1..=EVENTS {
        things.insert_one(doc! { "_id": id }).run().expect("stored");
    }
    let token = serialize_to_document(&token).expect("a document");
    Watched { things, first: token.get_str("_data").expect("a text").to_owned() }
}
