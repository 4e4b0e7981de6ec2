//! The files of a dump, opened and without their compression.

use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use formats::refusal::Refusal;

use crate::compressed::{Stream, counted, decompressed};
use crate::failure::{Exit, Failure};
use crate::regular;

/// The size of one read from the system.
pub(super) const BUFFER_BYTES: usize = 256 << 10;

/// Opens a file of a dump, whether it is compressed or not, and counts what is read of it.
pub(super) fn open(path: &Path) -> Result<(BufReader<Stream>, Arc<AtomicU64>), Failure> {
    let name = path.display().to_string();
    let failed = |error: std::io::Error| Failure::io(&name, &error);
    let file = regular::open(path).map_err(failed)?;
    let is_compressed = path.extension().is_some_and(|ending| ending == "gz");
    // Nothing would be mistaken for a collection without documents.
    if is_compressed && file.metadata().map_err(failed)?.len() == 0 {
        return Err(Failure::new(Exit::Failed, format!("{name} is empty, and not gzip")));
    }
    let (counted, position) = counted(Box::new(file));
    let stream = decompressed(counted).map_err(failed)?;
    Ok((BufReader::with_capacity(BUFFER_BYTES, stream), position))
}

/// The flaw of a file's content.
pub(super) fn refused(name: &str, error: &Refusal) -> Failure {
    Failure::new(Exit::Failed, format!("{name}: {error}"))
}
