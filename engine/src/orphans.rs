//! Chunks of files that no document names: which collections hold chunks, and what is said about orphans.
//!
//! Documents are counted and removed elsewhere: `audit` names orphans, `gridfs` removes them.

use base::namespace::Namespace;
use bson::{Bson, DateTime, Document};
use serde::{Deserialize, Serialize};

/// The ending of the name of a bucket's collection of chunks.
pub(crate) const CHUNKS: &str = ".chunks";
/// The ending of the name of a bucket's collection of files.
pub(crate) const FILES: &str = ".files";
/// The field of a chunk that has the `_id` of its file.
pub(crate) const FILES_ID: &str = "files_id";
/// The field of a chunk that has its number.
pub(crate) const NUMBER: &str = "n";

/// Chunks of an upload whose file has no document, as [`VerifyReport::orphans`](crate::VerifyReport::orphans) lists them.
///
/// An upload that was killed leaves them, and one that a client of a server is making looks the same; so do all that run in
/// another process, for a client that only reads. They use space, and nothing is wrong with the database.
/// [`GridFsBucket::remove_orphans`](crate::GridFsBucket::remove_orphans) removes them.
///
/// ```
/// # use cairndb::{Client, bson::doc};
/// # fn main() -> cairndb::Result<()> {
/// # let client = Client::in_memory()?;
/// for orphans in client.verify()?.orphans {
///     println!("{}: {} bytes of the upload {}", orphans.place, orphans.bytes, orphans.files_id);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OrphanedChunks {
    /// The namespace of the chunks, `database.bucket.chunks`.
    pub place: String,
    /// The `_id` that the file was to get, as MongoDB's shell prints it. A long one is cut.
    pub files_id: String,
    /// The number of chunks.
    pub chunks: u64,
    /// The size of their documents in bytes.
    pub bytes: u64,
    /// The time of the newest of them, by its `_id`. `None` if no `_id` of them is an `ObjectId`.
    pub newest: Option<DateTime>,
}

/// The collection of the files whose chunks are in `chunks`; `None` if its name is not that of chunks.
pub(crate) fn files_of(chunks: &Namespace) -> Option<Namespace> {
    // A bucket's name may have dots of its own, so only the end counts.
    let bucket = chunks.coll.strip_suffix(CHUNKS).filter(|bucket| !bucket.is_empty())?;
    Some(Namespace::new(chunks.db.clone(), format!("{bucket}{FILES}")))
}

/// Whether keys of an index are these fields, ascending. The type of the numbers does not matter.
pub(crate) fn are_keys(keys: &Document, fields: [&str; 2]) -> bool {
    let is_one = |value: &Bson| {
        value.as_i32() == Some(1)
            || value.as_i64() == Some(1)
            || value.as_f64().is_some_and(|number| (number - 1.0).abs() < f64::EPSILON)
    };
    // In this order: an index with the fields the other way round does not give chunks in their order.
    keys.len() == fields.len()
        && keys.iter().zip(fields).all(|((name, value), field)| name == field && is_one(value))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn keys_are_compared_by_value() {
        let fields = [FILES_ID, NUMBER];
        for keys in [doc! { "files_id": 1, "n": 1 }, doc! { "files_id": 1.0, "n": 1_i64 }] {
            assert!(are_keys(&keys, fields), "{keys}");
        }
        for keys in [
            doc! { "files_id": 1 },
            doc! { "n": 1, "files_id": 1 },
            doc! { "files_id": 1, "n": -1 },
            doc! { "files_id": 1, "n": "1" },
            doc! { "files_id": 1, "n": 1, "more": 1 },
        ] {
            assert!(!are_keys(&keys, fields), "{keys}");
        }
    }

    #[test]
    fn chunks_have_files_beside_them() {
        let files = |coll| files_of(&Namespace::new("db", coll)).map(|files| files.coll);
        assert_eq!(files("fs.chunks").as_deref(), Some("fs.files"));
        assert_eq!(files("a.b.chunks").as_deref(), Some("a.b.files"));
        assert_eq!((files(".chunks"), files("chunks"), files("fs.chunks.old")), (None, None, None));
    }
}
