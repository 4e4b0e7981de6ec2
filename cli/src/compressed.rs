//! Streams of bytes that may be compressed, which their first bytes say.

use std::io::{Cursor, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;

use crate::interruptible::is_by_signal;

/// How compressed data begins. Zstandard has frames besides that are to be skipped.
pub(crate) const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const ZSTD_SKIPPED: [u8; 3] = [0x2a, 0x4d, 0x18];
/// What a decompressor may remember of what it wrote: 32 MiB.
const WINDOW_LOG_MAX: u32 = 25;

/// What is read.
pub(crate) type Stream = Box<dyn Read + Send>;

/// The stream without its compression, if it has one.
pub(crate) fn decompressed(mut stream: Stream) -> std::io::Result<Stream> {
    let first = peek(&mut stream, ZSTD.len())?;
    let (is_gzip, is_zstd) = (
        first.starts_with(&GZIP),
        first.starts_with(&ZSTD)
            || first.get(1..) == Some(&ZSTD_SKIPPED) && first.first().is_some_and(|byte| byte >> 4 == 5),
    );
    let whole = Cursor::new(first).chain(stream);
    if is_gzip {
        Ok(Box::new(MultiGzDecoder::new(whole)))
    } else if is_zstd {
        let mut decoder = zstd::Decoder::new(whole)?;
        decoder.window_log_max(WINDOW_LOG_MAX)?;
        Ok(Box::new(decoder))
    } else {
        Ok(Box::new(whole))
    }
}

/// Reads up to `len` bytes; fewer only at the end, or where a signal has ended the wait for more.
pub(crate) fn peek(stream: &mut Stream, len: usize) -> std::io::Result<Vec<u8>> {
    let mut first = vec![0; len];
    let mut filled = 0;
    while let Some(room) = first.get_mut(filled..).filter(|room| !room.is_empty()) {
        match stream.read(room) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // What came until then is not lost: the next read ends in the same way.
            Err(error) if filled > 0 && is_by_signal(&error) => break,
            Err(error) => return Err(error),
        }
    }
    first.truncate(filled);
    Ok(first)
}

/// The stream, and how many bytes were read from it.
pub(crate) fn counted(stream: Stream) -> (Stream, Arc<AtomicU64>) {
    let position = Arc::new(AtomicU64::new(0));
    (Box::new(Counted { stream, position: Arc::clone(&position) }), position)
}

/// A stream that counts what is read from it.
struct Counted {
    stream: Stream,
    position: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let count = self.stream.read(room)?;
        self.position.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
