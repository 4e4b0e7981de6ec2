//! The documents of the crash suite: every byte follows from a tag and a version, so that a reader of one
//! can say whether it is whole.

use std::time::Duration;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, ClientBuilder, Collection, Compression, Durability, IndexModel, IndexOptions};

use crate::choices::{Choices, mix};

/// The unique index on `tag`, which is there from the start.
pub const UNIQUE_INDEX: &str = "tag_1";
/// The plain index on `note`, which comes and goes.
pub const PLAIN_INDEX: &str = "note_1";

/// The collection with one document for each tag.
pub fn tagged(client: &Client) -> Collection<Document> {
    client.database("crash").collection("tagged")
}

/// The collection into which all threads insert the same ids.
pub fn contended(client: &Client) -> Collection<Document> {
    client.database("crash").collection("contended")
}

/// The definition of the unique index.
pub fn unique_index() -> IndexModel {
    let options = IndexOptions::builder().unique(true).build();
    IndexModel::builder().keys(doc! { "tag": 1 }).options(options).build()
}

/// The definition of the plain index.
pub fn plain_index() -> IndexModel {
    IndexModel::builder().keys(doc! { "note": 1 }).build()
}

/// The `_id` that a tag has by itself; `None` where the engine makes one.
pub fn own_id(tag: u64) -> Option<Bson> {
    let number = tag.cast_signed();
    match tag % 4 {
        0 => None,
        1 => Some(Bson::Int64(number)),
        2 => Some(Bson::String(format!("tag {tag}"))),
        _ => Some(Bson::Document(doc! { "tag": number })),
    }
}

/// The document without its `_id`.
pub fn body(tag: u64, version: u64) -> Document {
    let mark = mix(tag.rotate_left(32) ^ version);
    let len = if mark.is_multiple_of(64) { 4000 } else { usize::from(mark.to_le_bytes()[0]) };
    let pad: String =
        (0..len).map(|place| char::from(b'a' + (mix(mark ^ place as u64) % 26) as u8)).collect();
    let notes: Vec<i32> = (0..mark % 4).map(|note| (mix(mark ^ note) % 50) as i32).collect();
    doc! { "tag": tag.cast_signed(), "version": version.cast_signed(), "note": notes, "pad": pad }
}

/// The whole document, as it is given to an insert.
pub fn document(tag: u64, version: u64) -> Document {
    let mut document = own_id(tag).map_or_else(Document::new, |id| doc! { "_id": id });
    document.extend(body(tag, version));
    document
}

/// The tag and version of a stored document, or what is wrong with it.
pub fn recognize(stored: &Document) -> Result<(u64, u64), String> {
    let number =
        |name| stored.get_i64(name).map(i64::cast_unsigned).map_err(|error| format!("{error}: {stored}"));
    let (tag, version) = (number("tag")?, number("version")?);
    let id = stored.get("_id").ok_or_else(|| format!("no _id: {stored}"))?;
    if own_id(tag).is_some_and(|own| own != *id) {
        return Err(format!("tag {tag} has the _id {id}"));
    }
    let mut expected = doc! { "_id": id.clone() };
    expected.extend(body(tag, version));
    if *stored == expected { Ok((tag, version)) } else { Err(format!("tag {tag} is not whole: {stored}")) }
}

/// Options of opening, at random.
pub fn options(choices: &mut Choices) -> ClientBuilder {
    let interval = Duration::from_millis(1 + choices.below(100));
    let durability = match choices.below(3) {
        0 => Durability::Journaled,
        _ => Durability::Buffered { sync_interval: interval },
    };
    Client::builder()
        .memory_budget(*choices.pick(&[8 << 20, 16 << 20, 64 << 20]))
        // With little memory the entries of a build are stored as tables.
        .index_build_memory(*choices.pick(&[1 << 20, 64 << 20]))
        .compression(*choices.pick(&[
            Compression::None,
            Compression::Lz4,
            Compression::Zstd,
            Compression::Lz4ThenZstd,
        ]))
        .durability(durability)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_recognized_and_a_changed_one_is_not() {
        let whole = document(7, 2);
        assert_eq!(recognize(&whole), Ok((7, 2)));
        let mut changed = whole.clone();
        changed.insert("version", 3_i64);
        assert!(recognize(&changed).is_err());
        let mut changed = whole;
        changed.insert("_id", 8);
        assert!(recognize(&changed).is_err());
    }
}
