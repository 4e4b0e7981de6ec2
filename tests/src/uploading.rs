//! The files of the crash suite for uploads. Every byte follows from a tag, so that a reader of one can say whether it is whole.

use std::io::Read;

use cairndb::{Client, GridFsBucket};

use crate::choices::mix;

/// The bucket of the files, whose `_id`s are their tags.
pub fn bucket(client: &Client) -> GridFsBucket {
    client.database("crash").gridfs_bucket(None)
}

/// The number of bytes that each chunk of a file has: few, so that a file has many, or many, so that one batch does
/// not contain them all.
pub fn chunk_size(tag: u64) -> u32 {
    match mix(tag) % 3 {
        0 => 500,
        1 => 20_000,
        _ => 300_000,
    }
}

/// The content of a file. Some are empty, and some are larger than a batch of chunks.
pub fn content(tag: u64) -> Vec<u8> {
    let length = match mix(tag ^ 1) % 8 {
        0 => 0,
        1 | 2 => 5_000_000,
        other => other * 30_000 + mix(tag ^ 2) % 1000,
    };
    let start = mix(tag ^ 3);
    (0..length).map(|place| start.wrapping_add(place.wrapping_mul(31)).to_le_bytes()[0]).collect()
}

/// Whether a file is there, as a whole. Says what is wrong with one that is not.
pub fn is_whole(bucket: &GridFsBucket, tag: u64) -> Result<bool, String> {
    let id = || tag.cast_signed().into();
    let file = bucket.find_one(cairndb::bson::doc! { "_id": tag.cast_signed() }).run();
    if file.map_err(|error| format!("file {tag}: {error}"))?.is_none() {
        return Ok(false);
    }
    let mut stream =
        bucket.open_download_stream(id()).run().map_err(|error| format!("file {tag}: {error}"))?;
    let mut found = Vec::new();
    stream.read_to_end(&mut found).map_err(|error| format!("file {tag}: {error}"))?;
    if found == content(tag) { Ok(true) } else { Err(format!("file {tag} has other bytes")) }
}
