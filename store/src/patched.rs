//! Reading past what the disk does not give: it reads as zeros, and is remembered.
//!
//! No checksum fits zeros in place of something else, so readers above meet unreadable bytes as they meet damaged ones, and
//! go on after them. Only `verify`, the scrub and `salvage` read so. Opening does not: a disk that fails is not a reason to leave
//! something out.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

/// The size of a read where a larger one failed: the least that the system reads of a file.
const PIECE_BYTES: u64 = 4096;

/// After that many pieces in a row without one that can be read, ever more is left out at once: a disk that gives nothing would
/// be asked for each piece of every file.
const FAILURES_EACH: u32 = 64;

/// The most that is left out at once, as a power of two of pieces: a mebibyte.
const STRIDE_MAX: u32 = 8;

/// A file whose unreadable bytes read as zeros.
#[derive(Debug)]
pub struct Patched<F> {
    file: F,
    bytes: u64,
    at: u64,
    /// Up to here it is read piece by piece, because a larger read failed.
    careful_until: u64,
    /// The begin and end of unreadable bytes.
    unreadable: BTreeMap<u64, u64>,
    failures_in_a_row: u32,
    /// The first error of the system.
    said: Option<String>,
    has_read: bool,
}

impl<F: Read + Seek> Patched<F> {
    /// Reads a file that has `bytes` bytes.
    pub fn new(file: F, bytes: u64) -> Self {
        Self {
            file,
            bytes,
            at: 0,
            careful_until: 0,
            unreadable: BTreeMap::new(),
            failures_in_a_row: 0,
            said: None,
            has_read: false,
        }
    }

    /// The length of the file.
    pub fn length(&self) -> u64 {
        self.bytes
    }

    /// The file itself.
    pub fn file(&self) -> &F {
        &self.file
    }

    /// Whether any byte could be read.
    pub fn has_read(&self) -> bool {
        self.has_read
    }

    /// The first error of the system for unreadable bytes.
    pub fn failure(&self) -> Option<&str> {
        self.said.as_deref()
    }

    /// The stretches of bytes that could not be read so far, by their ends. Neighbors are one.
    pub fn unreadable(&self) -> impl Iterator<Item = Range<u64>> {
        self.unreadable.iter().map(|(start, end)| *start..*end)
    }

    /// The unreadable parts so far: the offset of each, and its length in the system's words.
    pub fn told(&self) -> impl Iterator<Item = (u64, String)> {
        self.unreadable().filter_map(|span| Some((span.start, self.unreadable_in(span)?)))
    }

    /// Says what of a part of the file could not be read, in the system's words. Returns `None` if all of it was.
    pub fn unreadable_in(&self, part: Range<u64>) -> Option<String> {
        let within = self.unreadable().find(|span| span.start < part.end && span.end > part.start)?;
        let said = self.said.as_deref().unwrap_or_default();
        Some(format!("{} bytes at {} cannot be read: {said}", within.end - within.start, within.start))
    }

    /// The number of next bytes that are known to be unreadable, or that are not, up to those that are.
    fn stretch(&self) -> (u64, bool) {
        let before = self.unreadable.range(..=self.at).next_back();
        if let Some(end) = before.map(|(_, end)| *end).filter(|end| *end > self.at) {
            return (end - self.at, true);
        }
        let next = self.unreadable.range(self.at..).next().map_or(self.bytes, |(start, _)| *start);
        (next.saturating_sub(self.at), false)
    }

    /// Notes that the piece at the current position cannot be read.
    fn give_up_piece(&mut self, error: &io::Error) {
        self.said.get_or_insert_with(|| error.to_string());
        self.failures_in_a_row += 1;
        let stride = (self.failures_in_a_row / FAILURES_EACH).min(STRIDE_MAX);
        let end = (self.end_of_piece() + (PIECE_BYTES << stride) - PIECE_BYTES).min(self.bytes);
        let (mut start, mut end) = (self.at, end);
        // Known parts are joined, so that there is one entry for a stretch of the file.
        let before = self.unreadable.range(..start).next_back().filter(|(_, known_end)| **known_end >= start);
        let joined = before.into_iter().chain(self.unreadable.range(start..=end));
        let joined: Vec<(u64, u64)> = joined.map(|(start, end)| (*start, *end)).collect();
        for (known_start, known_end) in joined {
            self.unreadable.remove(&known_start);
            (start, end) = (start.min(known_start), end.max(known_end));
        }
        self.unreadable.insert(start, end);
    }

    fn end_of_piece(&self) -> u64 {
        (self.at / PIECE_BYTES + 1) * PIECE_BYTES
    }
}

impl<F: Read + Seek> Read for Patched<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let (stretch, is_unreadable) = self.stretch();
            let wanted = stretch.min(buffer.len() as u64);
            if wanted == 0 {
                return Ok(0);
            }
            // In pieces where a larger read failed, so that one bad piece costs the others nothing.
            let is_careful = self.at < self.careful_until;
            let wanted = if is_careful { wanted.min(self.end_of_piece() - self.at) } else { wanted };
            let count = usize::try_from(wanted).unwrap_or(buffer.len());
            let Some(part) = buffer.get_mut(..count) else { return Ok(0) };
            if is_unreadable {
                part.fill(0);
                self.at += wanted;
                return Ok(count);
            }
            match self.file.seek(SeekFrom::Start(self.at)).and_then(|_| self.file.read(part)) {
                Ok(read) => {
                    self.at += read as u64;
                    self.failures_in_a_row = 0;
                    self.has_read |= read > 0;
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
                Err(error) if is_careful || wanted <= self.end_of_piece() - self.at => {
                    self.give_up_piece(&error);
                }
                Err(_) => self.careful_until = self.at + wanted,
            }
        }
    }
}

impl<F: Read + Seek> Seek for Patched<F> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        let (from, by) = match position {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::End(by) => (self.bytes, by),
            SeekFrom::Current(by) => (self.at, by),
        };
        let at = from.checked_add_signed(by);
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A file that fails where it is bad, as a disk does: a read that begins before a bad piece ends there.
    struct Bad {
        file: Cursor<Vec<u8>>,
        spans: Vec<Range<u64>>,
        /// Whether a read that reaches into a bad piece fails as a whole.
        fails_as_a_whole: bool,
        reads: usize,
    }

    impl Read for Bad {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.reads += 1;
            let (at, mut count) = (self.file.position(), buffer.len());
            let met = self.spans.iter().find(|bad| bad.start < at + count as u64 && bad.end > at);
            if let Some(met) = met {
                if self.fails_as_a_whole || met.start <= at {
                    return Err(io::Error::from_raw_os_error(5));
                }
                count = usize::try_from(met.start - at).expect("short");
            }
            self.file.read(&mut buffer[..count])
        }
    }

    impl Seek for Bad {
        fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
            self.file.seek(position)
        }
    }

    fn bad(bytes: usize, bad: &[Range<u64>], fails_as_a_whole: bool) -> Patched<Bad> {
        let file = Cursor::new((0..bytes).map(|at| (at % 250 + 1).to_le_bytes()[0]).collect());
        Patched::new(Bad { file, spans: bad.to_vec(), fails_as_a_whole, reads: 0 }, bytes as u64)
    }

    #[test]
    fn bad_pieces_are_zeros_and_everything_else_is_what_it_is() {
        let spans = [0..4096, 20_480..28_672, 45_056..50_000];
        for fails_as_a_whole in [false, true] {
            let mut file = bad(50_000, &spans, fails_as_a_whole);
            let mut read = Vec::new();
            file.read_to_end(&mut read).expect("read past what is bad");
            assert_eq!(read.len(), 50_000);
            for (at, byte) in (0_u64..).zip(&read) {
                let is_bad = spans.iter().any(|span| span.contains(&at));
                let whole = (usize::try_from(at).expect("short") % 250 + 1).to_le_bytes()[0];
                assert_eq!(*byte, if is_bad { 0 } else { whole }, "{at}, {fails_as_a_whole}");
            }
            assert_eq!(file.unreadable().collect::<Vec<_>>(), spans);
            assert!(file.has_read());
            let said = file.unreadable_in(27_000..27_010).expect("it is bad");
            assert!(said.starts_with("8192 bytes at 20480 cannot be read: "), "{said}");
            assert_eq!(file.unreadable_in(4096..20_480), None);
        }
    }

    #[test]
    fn parts_are_read_in_any_order() {
        let mut file = bad(20_000, std::slice::from_ref(&(8192..12_288)), true);
        let mut part = [0; 10];
        for (at, byte) in [(12_288, 39), (8190, 191), (9000, 0), (12_286, 0), (0, 1)] {
            file.seek(SeekFrom::Start(at)).expect("within");
            file.read_exact(&mut part).expect("read");
            assert_eq!(part[0], byte, "{at}");
        }
        assert!(file.unreadable().eq(std::iter::once(8192..12_288)));
        assert_eq!(file.seek(SeekFrom::End(-1)).expect("within"), 19_999);
        assert_eq!(file.read(&mut part).expect("read"), 1);
        assert_eq!(file.read(&mut part).expect("the end"), 0);
        assert!(file.seek(SeekFrom::Current(-30_000)).is_err());
    }

    /// A gigabyte has 262,144 pieces.
    #[test]
    fn a_disk_that_gives_nothing_is_not_asked_for_every_piece() {
        let bytes = 1 << 30;
        let spans = std::iter::once(0..bytes).collect();
        let file = Bad { file: Cursor::new(Vec::new()), spans, fails_as_a_whole: true, reads: 0 };
        let mut file = Patched::new(file, bytes);
        let read = io::copy(&mut file, &mut io::sink()).expect("zeros");
        assert_eq!(read, bytes);
        assert!(!file.has_read());
        assert!(file.file().reads < 10_000, "{} reads", file.file().reads);
        assert!(file.unreadable().eq(std::iter::once(0..bytes)));
    }
}
