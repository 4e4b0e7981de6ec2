//! A dump as one archive, to a file or to standard output. Where several collections are dumped at once, their segments
//! alternate.

use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cairndb::bson::{Document, doc};
use flate2::write::GzEncoder;
use formats::dump::archive::{Checksum, Declared, Header, TERMINATOR, push_end, push_prelude, push_segment};

use crate::dump::catalog::Found;
use crate::dump::work::{Documents, Dump};
use crate::dumped::DumpedKind;
use crate::failure::{Exit, Failure};
use crate::output::{Output, Written};

/// The number of bytes that a worker collects before it writes a segment.
const SEGMENT_BYTES: usize = 1 << 20;

/// An archive that is being written.
pub(super) struct Archive<'a> {
    shared: Mutex<Shared>,
    /// The part that the end of the last collection carries, of a store whose collections have a moment each.
    last: Option<&'a LastCarried<'a>>,
}

/// The sequences as they are after the last document.
pub(super) type LastCarried<'a> = dyn Fn() -> Result<Document, Failure> + Sync + 'a;

struct Shared {
    output: Output,
    gzip: Option<GzEncoder<Vec<u8>>>,
    /// The number of collections that have not ended.
    left: usize,
}

impl<'a> Archive<'a> {
    /// Writes all that comes before the first document.
    pub(super) fn begin(
        output: Output,
        is_compressed: bool,
        header: &Header,
        declared: &[Declared],
        last: Option<&'a LastCarried<'a>>,
    ) -> Result<Self, Failure> {
        let gzip = is_compressed.then(|| GzEncoder::new(Vec::new(), flate2::Compression::default()));
        let mut shared = Shared { output, gzip, left: declared.len() };
        let mut prelude = Vec::new();
        push_prelude(&mut prelude, header, declared)
            .map_err(|error| Failure::new(Exit::Failed, format!("{error}: dump into a directory")))?;
        shared.write(&prelude)?;
        Ok(Self { shared: Mutex::new(shared), last })
    }

    pub(super) fn finish(self) -> Result<Written, Failure> {
        let mut shared = self.shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(gzip) = shared.gzip.take() {
            let end = gzip.finish().map_err(|error| Failure::io("the archive", &error))?;
            if shared.output.write(&end)? == Written::NotWanted {
                return Ok(Written::NotWanted);
            }
        }
        shared.output.finish()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A worker that panicked ends the tool, after the others have let go.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn write(&mut self, bytes: &[u8]) -> Result<Written, Failure> {
        let Some(gzip) = &mut self.gzip else { return self.output.write(bytes) };
        gzip.write_all(bytes).map_err(|error| Failure::io("the archive", &error))?;
        let written = self.output.write(gzip.get_ref())?;
        gzip.get_mut().clear();
        Ok(written)
    }
}

impl Dump for Archive<'_> {
    fn begin<'a>(&'a self, found: &'a Found) -> Result<Box<dyn Documents + 'a>, Failure> {
        Ok(Box::new(Segments { archive: self, found, buffer: Vec::new(), checksum: Checksum::default() }))
    }
}

/// The segments of one collection.
struct Segments<'a> {
    archive: &'a Archive<'a>,
    found: &'a Found,
    /// Empty, or a segment without its terminator.
    buffer: Vec<u8>,
    checksum: Checksum,
}

impl Documents for Segments<'_> {
    fn write(&mut self, document: &[u8]) -> Result<Written, Failure> {
        if self.buffer.is_empty() {
            push_segment(&mut self.buffer, &self.found.database, &self.found.name);
        }
        self.buffer.extend_from_slice(document);
        self.checksum.update(document);
        if self.buffer.len() < SEGMENT_BYTES {
            return Ok(Written::Whole);
        }
        self.buffer.extend_from_slice(&TERMINATOR);
        let written = self.archive.lock().write(&self.buffer);
        self.buffer.clear();
        // One large document must not keep its room to the end of the collection.
        self.buffer.shrink_to(2 * SEGMENT_BYTES);
        written
    }

    fn end(mut self: Box<Self>, numbered: Vec<Document>) -> Result<Written, Failure> {
        let (database, name) = (&self.found.database, &self.found.name);
        if !self.buffer.is_empty() {
            self.buffer.extend_from_slice(&TERMINATOR);
        }
        let mut shared = self.archive.lock();
        shared.left = shared.left.saturating_sub(1);
        // Positions are in the header already. Those of a store that goes on meanwhile are older than its documents.
        let mut carried = Document::new();
        if let Some(last) = self.archive.last.filter(|_| self.found.kind == DumpedKind::Collection) {
            if !numbered.is_empty() {
                carried.insert("autoIncrement", numbered);
            }
            if shared.left == 0 {
                carried.insert("sequences", last()?);
            }
        }
        let carried = (!carried.is_empty()).then_some(carried);
        push_end(&mut self.buffer, database, name, &self.checksum, carried.as_ref())
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        shared.write(&self.buffer)
    }
}

/// The field `sequences` of snapshots by database.
pub(super) fn sequences_field(sequences: &[(String, Vec<Document>)]) -> Document {
    let mut field = doc! {};
    for (database, snapshots) in sequences {
        field.insert(database.as_str(), snapshots.clone());
    }
    field
}
