//! Writing an archive: a header, a document for each collection, and then the documents of all collections in segments,
//! which may alternate between collections.
//!
//! ```text
//! magic header declared* ffffffff (segment ffffffff)*
//! segment: {db, collection, EOF: false, CRC: 0} document*
//!        | {db, collection, EOF: true, CRC}
//! ```
//!
//! mongorestore demands an end of every collection that is declared, of views too.

use bson::{Document, RawDocumentBuf, cstr};
use crc::{CRC_64_XZ, Crc, Digest, Table};

use crate::refusal::Refusal;

/// The beginning of an archive.
pub const MAGIC: [u8; 4] = [0x6d, 0xe2, 0x99, 0x81];
/// The end of a segment, in place of the length of another document.
pub const TERMINATOR: [u8; 4] = [0xff; 4];
/// The version of the format.
pub(crate) const VERSION: &str = "0.1";
/// The limit of the descriptions of all collections, because all of them come before the first document.
pub(crate) const DECLARED_BYTES_MAX: usize = 32 << 20;
/// The cost of a collection besides its description.
pub(crate) const COLLECTION_BYTES: usize = 256;

/// Go's `crc64.ECMA`.
static CHECKSUM: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_XZ);

/// The description of an archive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Header {
    /// The number of collections that were written at once.
    pub concurrent_collections: i32,
    /// The version of the server. mongorestore accepts no archive without one.
    pub server_version: String,
    /// The tool that wrote the archive.
    pub tool_version: String,
    /// The field `cairndb`.
    pub carried: Option<Document>,
}

/// A collection or view of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// The database.
    pub database: String,
    /// The collection.
    pub collection: String,
    /// Its metadata, as in a file.
    pub metadata: String,
    /// `collection`, `view` or `timeseries`.
    pub kind: String,
}

/// The checksum over all documents of a collection.
#[derive(Clone)]
pub struct Checksum {
    digest: Digest<'static, u64, Table<16>>,
}

impl Default for Checksum {
    fn default() -> Self {
        Self { digest: CHECKSUM.digest() }
    }
}

impl Checksum {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
    }

    /// The checksum of all bytes so far, as an archive has it.
    pub fn value(&self) -> i64 {
        self.digest.clone().finalize().cast_signed()
    }
}

/// Appends all that comes before the first segment.
///
/// # Errors
/// If the descriptions are larger than a reader accepts.
pub fn push_prelude(out: &mut Vec<u8>, header: &Header, declared: &[Declared]) -> Result<(), Refusal> {
    out.extend_from_slice(&MAGIC);
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("concurrent_collections"), header.concurrent_collections);
    document.append(cstr!("version"), VERSION);
    document.append(cstr!("server_version"), header.server_version.as_str());
    document.append(cstr!("tool_version"), header.tool_version.as_str());
    append_carried(&mut document, header.carried.as_ref())?;
    out.extend_from_slice(document.as_bytes());
    let mut bytes = 0;
    for one in declared {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("db"), one.database.as_str());
        document.append(cstr!("collection"), one.collection.as_str());
        document.append(cstr!("metadata"), one.metadata.as_str());
        // Unknown to mongodump as well, whose archives have a zero here.
        document.append(cstr!("size"), 0);
        document.append(cstr!("type"), one.kind.as_str());
        bytes += document.as_bytes().len() + COLLECTION_BYTES;
        if bytes > DECLARED_BYTES_MAX {
            return Err(Refusal::not_parsed("the descriptions of the collections are larger than 32 MiB"));
        }
        out.extend_from_slice(document.as_bytes());
    }
    out.extend_from_slice(&TERMINATOR);
    Ok(())
}

/// Appends the beginning of a segment. Documents follow, and a [`TERMINATOR`].
pub fn push_segment(out: &mut Vec<u8>, database: &str, collection: &str) {
    out.extend_from_slice(segment(database, collection, false, 0).as_bytes());
}

/// Appends the end of a collection, with the checksum of its documents and a field `cairndb`.
///
/// # Errors
/// Where the document would be larger than 2 GiB.
pub fn push_end(
    out: &mut Vec<u8>,
    database: &str,
    collection: &str,
    checksum: &Checksum,
    carried: Option<&Document>,
) -> Result<(), Refusal> {
    let mut document = segment(database, collection, true, checksum.value());
    append_carried(&mut document, carried)?;
    out.extend_from_slice(document.as_bytes());
    out.extend_from_slice(&TERMINATOR);
    Ok(())
}

fn segment(database: &str, collection: &str, is_end: bool, checksum: i64) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("db"), database);
    document.append(cstr!("collection"), collection);
    document.append(cstr!("EOF"), is_end);
    document.append(cstr!("CRC"), checksum);
    document
}

fn append_carried(document: &mut RawDocumentBuf, carried: Option<&Document>) -> Result<(), Refusal> {
    if let Some(carried) = carried {
        let raw = RawDocumentBuf::try_from(carried).map_err(|error| {
            Refusal::not_parsed(format!("the field \"cairndb\" cannot be written: {error}"))
        })?;
        document.append(cstr!("cairndb"), raw);
    }
    Ok(())
}
