//! The document of a chunk: written in place while its data come, and checked when it is read.

use base::error::{Error, Result};
use base::gridfs_error::GridFsErrorKind;
use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use crate::orphans::NUMBER;

/// The bytes of a document after its last value.
const TERMINATOR: usize = 1;
/// The length of binary data and their subtype, which stand right before them.
const BINARY_HEAD: usize = 5;

/// A chunk whose data are still coming.
pub(super) struct OpenChunk {
    pub(super) id: ObjectId,
    /// The document, without its end.
    document: Vec<u8>,
    /// The offset of its data.
    start: usize,
}

impl OpenChunk {
    pub(super) fn new(id: ObjectId, files_id: &Bson, n: i32) -> Result<Self> {
        let empty = Binary { subtype: BinarySubtype::Generic, bytes: Vec::new() };
        let files_id = bson::RawBson::try_from(files_id.clone())?;
        let mut document = rawdoc! { "_id": id, "files_id": files_id, "n": n, "data": empty }.into_bytes();
        // The data go to where the empty ones end. So the document grows in place and is never copied.
        document.truncate(document.len() - TERMINATOR);
        let start = document.len();
        Ok(Self { id, document, start })
    }

    /// The number of bytes of its data.
    pub(super) fn len(&self) -> usize {
        self.document.len() - self.start
    }

    pub(super) fn extend(&mut self, data: &[u8]) {
        self.document.extend_from_slice(data);
    }

    /// Returns the finished document.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let data = self.len();
        // Lengths are known only now. They are at fixed places, so nothing is moved.
        self.document.push(0);
        let whole = self.document.len();
        write_length(&mut self.document, 0, whole);
        write_length(&mut self.document, self.start - BINARY_HEAD, data);
        self.document
    }

    /// The size of the document if it has `data` bytes of data.
    pub(super) fn bytes_with(&self, data: u32) -> u64 {
        (self.start + TERMINATOR) as u64 + u64::from(data)
    }
}

fn write_length(document: &mut [u8], offset: usize, length: usize) {
    // The size of a chunk is checked when its upload is opened: its document has at most 16 MiB.
    let length = i32::try_from(length).unwrap_or(i32::MAX);
    if let Some(bytes) = document.get_mut(offset..offset + 4) {
        bytes.copy_from_slice(&length.to_le_bytes());
    }
}

/// A chunk that was read.
pub(super) struct StoredChunk {
    pub(super) n: i64,
    document: RawDocumentBuf,
    /// The offset of its data in the document.
    start: usize,
    len: usize,
}

impl StoredChunk {
    /// Accepts a document that should be the chunk `expected`.
    pub(super) fn of(document: RawDocumentBuf, expected: u32) -> Result<Self> {
        let invalid = |reason: &str| Error::from(GridFsErrorKind::invalid_chunk(expected, reason.to_owned()));
        let n = number(&document).ok_or_else(|| invalid("its n is not a whole number"))?;
        let (start, len) = match document.get("data") {
            Ok(Some(RawBsonRef::Binary(data))) => {
                // The data are a part of the document, so their position in it is what both addresses differ by.
                let start = data.bytes.as_ptr().addr().wrapping_sub(document.as_bytes().as_ptr().addr());
                (start, data.bytes.len())
            }
            _ => return Err(invalid("its data are not binary")),
        };
        Ok(Self { n, document, start, len })
    }

    /// Its data.
    pub(super) fn data(&self) -> &[u8] {
        // By `get`: the positions were computed, and a wrong one must be no panic.
        let data = self.document.as_bytes().get(self.start..).and_then(|rest| rest.get(..self.len));
        data.unwrap_or_default()
    }
}

/// The number of a chunk, of any numeric type.
fn number(document: &RawDocument) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "it is whole, and far from the end of the range")]
    let whole = |number: f64| (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64);
    let value = document.get(NUMBER).ok()??;
    let from_double = || value.as_f64().and_then(whole);
    value.as_i32().map(i64::from).or_else(|| value.as_i64()).or_else(from_double)
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn a_chunk_is_written_in_place() {
        let id = ObjectId::from_bytes([7; 12]);
        for data in [&b""[..], b"x", &[1; 300]] {
            for files_id in
                [Bson::Int32(1), Bson::String("name".to_owned()), Bson::Document(doc! { "a": [1] })]
            {
                let mut chunk = OpenChunk::new(id, &files_id, 3).expect("made");
                let half = data.len() / 2;
                chunk.extend(&data[..half]);
                chunk.extend(&data[half..]);
                assert_eq!(chunk.len(), data.len());
                let bytes = chunk.bytes_with(u32::try_from(data.len()).unwrap());
                let document = RawDocumentBuf::from_bytes(chunk.finish()).expect("well-formed");
                assert_eq!(document.as_bytes().len() as u64, bytes);
                let binary = Binary { subtype: BinarySubtype::Generic, bytes: data.to_vec() };
                let expected = doc! { "_id": id, "files_id": files_id, "n": 3, "data": binary };
                assert_eq!(bson::Document::try_from(&*document).expect("a document"), expected);
                let stored = StoredChunk::of(document, 3).expect("a chunk");
                assert_eq!((stored.n, stored.data()), (3, data));
            }
        }
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        let binary = || Binary { subtype: BinarySubtype::Generic, bytes: b"x".to_vec() };
        for document in [
            rawdoc! { "n": 1 },
            rawdoc! { "n": "1", "data": binary() },
            rawdoc! { "n": 0.5, "data": binary() },
            rawdoc! { "n": f64::NAN, "data": binary() },
            rawdoc! { "n": 1, "data": "text" },
            rawdoc! {},
        ] {
            assert!(StoredChunk::of(document, 1).is_err());
        }
    }
}
