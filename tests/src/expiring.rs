//! The documents of the crash suite for TTL passes and index builds. Every byte follows from a tag and a version, and so does
//! whether the document expires.

use cairndb::bson::{Bson, DateTime, Document, doc};
use cairndb::{Client, Collection, IndexModel, IndexOptions};

use crate::choices::mix;

/// The TTL index on `at`, which is there from the start.
pub const TTL_INDEX: &str = "at_1";
/// The index that comes and goes, each time with other keys.
pub const TOGGLED_INDEX: &str = "toggled";
/// Tags from here on are those of documents that stay from the start to the end: they make a build last long.
pub const FIXED_TAGS: u64 = 1 << 40;
/// The number of fixed documents.
pub const FIXED_COUNT: u64 = 1500;
/// The version of a document as it is inserted.
pub const INSERTED: u64 = 1;
/// The version whose date was moved to the future.
pub const RESCUED: u64 = 2;
/// The version whose date was moved to the past.
pub const AGED: u64 = 3;

/// A moment in 1970.
const PAST: i64 = 1_000_000;
/// A moment in 2100.
const FUTURE: i64 = 4_102_444_800_000;

/// The collection of the documents.
pub fn events(client: &Client) -> Collection<Document> {
    client.database("crash").collection("events")
}

/// The definition of the TTL index.
pub fn ttl_index() -> IndexModel {
    let options = IndexOptions::builder().expire_after(std::time::Duration::from_secs(1)).build();
    IndexModel::builder().keys(doc! { "at": 1 }).options(options).build()
}

/// One of the definitions of the index that comes and goes.
pub fn toggled_index(number: u64) -> IndexModel {
    let options = || IndexOptions::builder().name(TOGGLED_INDEX.to_owned());
    let (keys, options) = match number % 5 {
        0 => (doc! { "notes": 1, "pad": -1 }, options().build()),
        1 => (doc! { "tag": 1 }, options().unique(true).build()),
        2 => (doc! { "$**": 1 }, options().build()),
        3 => {
            let dated = doc! { "version": { "$gte": 2 } };
            (doc! { "pad": 1 }, options().partial_filter_expression(dated).build())
        }
        _ => (doc! { "later": 1 }, options().expire_after(std::time::Duration::from_secs(60)).build()),
    };
    IndexModel::builder().keys(keys).options(options).build()
}

/// Whether a pass deletes the document.
pub fn is_expiring(tag: u64, version: u64) -> bool {
    match version {
        INSERTED => tag < FIXED_TAGS && tag % 4 < 2,
        AGED => true,
        _ => false,
    }
}

/// The whole document.
pub fn document(tag: u64, version: u64) -> Document {
    let date = |millis| Bson::DateTime(DateTime::from_millis(millis));
    let mark = mix(tag.rotate_left(32) ^ version);
    let pad: String = (0..50 + mark % 150).map(|at| char::from(b'a' + (mix(mark ^ at) % 26) as u8)).collect();
    let notes: Vec<i32> = (0..mark % 4).map(|note| (mix(mark ^ note) % 50) as i32).collect();
    let mut document =
        doc! { "_id": tag.cast_signed(), "tag": tag.cast_signed(), "version": version.cast_signed() };
    match (is_expiring(tag, version), tag % 2) {
        (true, 0) => drop(document.insert("at", date(PAST))),
        // The earliest date of an array decides.
        (true, _) => drop(document.insert("at", vec![date(FUTURE), date(PAST)])),
        (false, 0) => drop(document.insert("at", date(FUTURE))),
        (false, _) if version == INSERTED => {}
        (false, _) => drop(document.insert("at", vec![date(FUTURE)])),
    }
    document.extend(doc! { "later": date(FUTURE), "notes": notes, "pad": pad });
    document
}

/// The tag and version of a stored document, or what is wrong with it.
pub fn recognize(stored: &Document) -> Result<(u64, u64), String> {
    let number =
        |name| stored.get_i64(name).map(i64::cast_unsigned).map_err(|error| format!("{error}: {stored}"));
    let (tag, version) = (number("tag")?, number("version")?);
    if *stored == document(tag, version) {
        Ok((tag, version))
    } else {
        Err(format!("tag {tag} is not whole: {stored}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_recognized_and_a_changed_one_is_not() {
        for version in [INSERTED, RESCUED, AGED] {
            for tag in 0..8 {
                let mut whole = document(tag, version);
                assert_eq!(recognize(&whole), Ok((tag, version)));
                whole.remove("at");
                assert_eq!(recognize(&whole).is_ok(), version == INSERTED && tag % 4 == 3);
            }
        }
    }
}
