//! The document of a file: what is written, and what may be read.
//!
//! Any client can have written it. So nothing of it is believed before it is checked, and nothing is allocated by its length.

use base::error::{Error, Result};
use base::gridfs_error::GridFsErrorKind;
use bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::document::print::print_value;

/// The limit of a file's chunks: their numbers are 32-bit integers from 0.
const CHUNKS_MAX: u64 = 1 << 31;
/// The largest whole number up to which a double has all.
const EXACT_DOUBLE_MAX: f64 = 9_007_199_254_740_992.0;

/// A file of a bucket, without its content.
///
/// ```
/// use std::io::Write;
/// use cairndb::{Client, bson::doc};
///
/// # fn main() -> cairndb::Result<()> {
/// # let client = Client::in_memory()?;
/// let bucket = client.database("media").gridfs_bucket(None);
/// let mut upload = bucket.open_upload_stream("notes.txt").metadata(doc! { "author": "Ada" }).run()?;
/// upload.write_all(b"some notes")?;
/// upload.close()?;
///
/// let file = bucket.find_one(doc! { "filename": "notes.txt" }).run()?.expect("uploaded above");
/// assert_eq!((file.length, file.chunk_size_bytes), (10, 255 * 1024));
/// assert_eq!(file.metadata, Some(doc! { "author": "Ada" }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FilesCollectionDocument {
    /// The `_id`.
    pub id: Bson,
    /// The length of the content in bytes.
    pub length: u64,
    /// The number of bytes in each chunk. The last one may have fewer.
    pub chunk_size_bytes: u32,
    /// The end of the upload.
    pub upload_date: DateTime,
    /// The name.
    pub filename: Option<String>,
    /// The document that the caller of the upload has added.
    pub metadata: Option<Document>,
}

impl FilesCollectionDocument {
    /// Reads a stored document. Numbers may be of any type. Fields that it does not know are passed over.
    pub(super) fn parse(mut document: Document) -> Result<Self> {
        let id = document.remove("_id").ok_or_else(|| invalid("it has no _id".to_owned()))?;
        let length = whole(&document, "length")?;
        let chunk_size_bytes = match whole(&document, "chunkSize")? {
            0 => return Err(invalid("chunkSize is 0".to_owned())),
            size => i32::try_from(size)
                .map(i32::unsigned_abs)
                .map_err(|_| invalid(format!("chunkSize is {size}, which is more than {}", i32::MAX)))?,
        };
        // Numbers of chunks are 32-bit integers: beyond them no chunk can be looked for.
        if length.div_ceil(u64::from(chunk_size_bytes)) > CHUNKS_MAX {
            let text = format!(
                "length is {length}, which is more than {CHUNKS_MAX} chunks of {chunk_size_bytes} bytes"
            );
            return Err(invalid(text));
        }
        // Nothing is read by it, but a file without it would have no place among its revisions.
        let upload_date = match document.get("uploadDate") {
            Some(Bson::DateTime(date)) => *date,
            other => return Err(wrong_type("uploadDate", "a date", other)),
        };
        // A file need not have a name, and some clients write null then.
        let filename = match document.remove("filename") {
            None | Some(Bson::Null) => None,
            Some(Bson::String(name)) => Some(name),
            other => return Err(wrong_type("filename", "a string", other.as_ref())),
        };
        // Some clients write null in place of none.
        let metadata = match document.remove("metadata") {
            None | Some(Bson::Null) => None,
            Some(Bson::Document(metadata)) => Some(metadata),
            other => return Err(wrong_type("metadata", "a document", other.as_ref())),
        };
        Ok(Self { id, length, chunk_size_bytes, upload_date, filename, metadata })
    }

    /// The document that is stored: the length as a 64-bit integer, the size of chunks as a 32-bit one.
    pub(super) fn stored(&self) -> Document {
        let mut document = doc! {
            "_id": self.id.clone(),
            "length": i64::try_from(self.length).unwrap_or(i64::MAX),
            "chunkSize": i32::try_from(self.chunk_size_bytes).unwrap_or(i32::MAX),
            "uploadDate": self.upload_date,
        };
        // Left out, not null: drivers distinguish the two.
        if let Some(name) = &self.filename {
            document.insert("filename", name.clone());
        }
        if let Some(metadata) = &self.metadata {
            document.insert("metadata", metadata.clone());
        }
        document
    }

    /// The number of chunks that the file must have.
    pub(super) fn chunks(&self) -> u32 {
        // `parse` has bounded it.
        u32::try_from(self.length.div_ceil(u64::from(self.chunk_size_bytes))).unwrap_or(u32::MAX)
    }

    /// The number of bytes in the chunk `n`, which the file must have.
    pub(super) fn chunk_bytes(&self, n: u32) -> u32 {
        // In 64 bits, which a product of two 32-bit numbers cannot leave.
        let left = self.length.saturating_sub(u64::from(n) * u64::from(self.chunk_size_bytes));
        u32::try_from(left).map_or(self.chunk_size_bytes, |left| left.min(self.chunk_size_bytes))
    }
}

impl Serialize for FilesCollectionDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.stored().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FilesCollectionDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        use serde::de::Error as _;
        // By raw bytes: serde would mistake a field of the metadata named `$oid` for the `ObjectId` that it is in extended JSON.
        let raw = RawDocumentBuf::deserialize(deserializer)?;
        let document = Document::try_from(raw).map_err(D::Error::custom)?;
        Self::parse(document).map_err(D::Error::custom)
    }
}

pub(super) fn invalid(reason: String) -> Error {
    Error::from(GridFsErrorKind::invalid_file(reason))
}

/// A whole number that is not negative, of any numeric type that has it exactly.
fn whole(document: &Document, field: &str) -> Result<u64> {
    let value = document.get(field);
    let number = match value {
        Some(Bson::Int32(number)) => u64::try_from(*number).ok(),
        Some(Bson::Int64(number)) => u64::try_from(*number).ok(),
        // The legacy shell wrote every number as a double.
        Some(Bson::Double(number)) => exact(*number),
        Some(Bson::Decimal128(number)) => number.to_string().parse().ok(),
        other => return Err(wrong_type(field, "a number", other)),
    };
    number.ok_or_else(|| {
        let shown = value.map(print_value).unwrap_or_default();
        invalid(format!("{field} is {shown} and must be a whole number that is not negative"))
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "both are checked before")]
fn exact(number: f64) -> Option<u64> {
    let is_whole = (0.0..=EXACT_DOUBLE_MAX).contains(&number) && number.fract() == 0.0;
    is_whole.then_some(number as u64)
}

fn wrong_type(field: &str, expected: &str, found: Option<&Bson>) -> Error {
    let found =
        found.map_or_else(|| "missing".to_owned(), |value| format!("of the type {:?}", value.element_type()));
    invalid(format!("{field} is {found} and must be {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(length: impl Into<Bson>, chunk_size: impl Into<Bson>) -> Document {
        doc! { "_id": 1, "length": length.into(), "chunkSize": chunk_size.into(), "uploadDate": DateTime::MIN }
    }

    #[track_caller]
    fn check(length: u64, chunk_size: u32, expected: &[u32]) {
        let document = file(i64::try_from(length).unwrap(), chunk_size);
        let parsed = FilesCollectionDocument::parse(document).expect("it is valid");
        let sizes: Vec<u32> = (0..parsed.chunks()).map(|n| parsed.chunk_bytes(n)).collect();
        assert_eq!(sizes, expected);
    }

    #[test]
    fn the_last_chunk_has_what_is_left() {
        check(0, 4, &[]);
        check(1, 4, &[1]);
        check(3, 4, &[3]);
        check(4, 4, &[4]);
        check(5, 4, &[4, 1]);
        check(12, 4, &[4, 4, 4]);
    }

    #[test]
    fn numbers_of_every_type_are_read() {
        for length in
            [Bson::Int32(5), Bson::Int64(5), Bson::Double(5.0), Bson::Decimal128("5".parse().unwrap())]
        {
            for size in [Bson::Int32(4), Bson::Int64(4), Bson::Double(4.0)] {
                let parsed = FilesCollectionDocument::parse(file(length.clone(), size)).expect("it is valid");
                assert_eq!((parsed.length, parsed.chunk_size_bytes), (5, 4));
            }
        }
    }

    #[test]
    fn absurd_numbers_are_refused_by_name() {
        let not_a_number = Bson::Double(f64::NAN);
        for (length, size, word) in [
            (Bson::Int64(-1), Bson::Int32(4), "length"),
            (Bson::Int64(1 << 60), Bson::Int32(4), "length"),
            (Bson::Int64(i64::MAX), Bson::Int32(i32::MAX), "length"),
            (Bson::Double(0.5), Bson::Int32(4), "length"),
            (Bson::Double(-0.5), Bson::Int32(4), "length"),
            (Bson::Double(f64::INFINITY), Bson::Int32(4), "length"),
            (Bson::Double(1e300), Bson::Int32(4), "length"),
            (not_a_number.clone(), Bson::Int32(4), "length"),
            (Bson::Null, Bson::Int32(4), "length"),
            (Bson::String("5".to_owned()), Bson::Int32(4), "length"),
            (Bson::Int32(5), Bson::Int32(0), "chunkSize"),
            (Bson::Int32(0), Bson::Int32(0), "chunkSize"),
            (Bson::Int32(5), Bson::Int32(-4), "chunkSize"),
            (Bson::Int32(5), Bson::Int64(1 << 60), "chunkSize"),
            (Bson::Int32(5), not_a_number, "chunkSize"),
            (Bson::Int32(5), Bson::Array(Vec::new()), "chunkSize"),
        ] {
            let error =
                FilesCollectionDocument::parse(file(length, size)).expect_err("it is absurd").to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn what_is_stored_is_read_back() {
        let mut file = FilesCollectionDocument::parse(file(5, 4)).expect("it is valid");
        for (name, metadata) in [(None, None), (Some("a".to_owned()), Some(doc! { "b": { "$oid": "x" } }))] {
            (file.filename, file.metadata) = (name, metadata);
            assert_eq!(FilesCollectionDocument::parse(file.stored()).expect("it is valid"), file);
            let bytes = bson::serialize_to_vec(&file).expect("serialized");
            assert_eq!(bson::deserialize_from_slice::<FilesCollectionDocument>(&bytes).expect("read"), file);
        }
    }
}
