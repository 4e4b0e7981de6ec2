//! Streams of bytes that may be compressed, which their first bytes say.
//!
//! Compressed data may have several members, as gzip calls them, or frames, as Zstandard does. Zeros after a member are padding, with
//! which tapes and block devices fill their last block; anything else that is not a member is an error, after all that came before.

use std::io::{BufRead, BufReader, Cursor, Error, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::GzDecoder;

use crate::interruptible::is_by_signal;

/// The beginning of compressed data. Zstandard has frames besides that are to be skipped.
pub(crate) const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const ZSTD_SKIPPED: [u8; 3] = [0x2a, 0x4d, 0x18];
/// The upper half of the first byte of such a frame.
const ZSTD_SKIPPED_FIRST: u8 = 5;
const PADDING: u8 = 0;
/// The error where the compression ends before the file does.
const AFTER_MEMBERS: &str =
    "after the compressed data comes something that is neither more of it nor padding";
/// The size of one read from the system.
const BUFFER_BYTES: usize = 128 << 10;
/// The limit of a decompressor's window: 32 MiB.
const WINDOW_LOG_MAX: u32 = 25;

/// The stream that is read.
pub(crate) type Stream = Box<dyn Read + Send>;

/// The stream without its compression, if it has one.
pub(crate) fn decompressed(stream: Stream) -> std::io::Result<Stream> {
    match Opened::of(stream)? {
        Opened::Plain(stream) => Ok(stream),
        Opened::Compressed(members) => Ok(Box::new(members)),
    }
}

/// The content of a file that ought to be compressed data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Soundness {
    /// It has no compression.
    Plain,
    Whole,
    /// It is damaged before this byte.
    Damaged(u64, String),
}

/// Reads a stream to its end. Errors of the system are returned.
pub(crate) fn soundness(stream: Stream) -> std::io::Result<Soundness> {
    let (stream, position) = counted(stream);
    let mut members = match Opened::of(stream)? {
        Opened::Plain(_) => return Ok(Soundness::Plain),
        Opened::Compressed(members) => members,
    };
    match std::io::copy(&mut members, &mut std::io::sink()) {
        Ok(_) => Ok(Soundness::Whole),
        Err(error) if is_damage(&error) => {
            let read = position.load(Ordering::Relaxed).saturating_sub(members.unread());
            Ok(Soundness::Damaged(read, error.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// Whether an error says that compressed data is damaged or cut.
pub(crate) fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidInput | ErrorKind::InvalidData)
}

/// A stream by its first bytes.
enum Opened {
    Plain(Stream),
    Compressed(Members),
}

impl Opened {
    fn of(mut stream: Stream) -> std::io::Result<Self> {
        let first = peek(&mut stream, ZSTD.len())?;
        let (is_gzip, is_zstd) = (
            first.starts_with(&GZIP),
            first.starts_with(&ZSTD)
                || first.get(1..) == Some(&ZSTD_SKIPPED)
                    && first.first().is_some_and(|byte| byte >> 4 == ZSTD_SKIPPED_FIRST),
        );
        let whole: Stream = Box::new(Cursor::new(first).chain(stream));
        if !is_gzip && !is_zstd {
            return Ok(Self::Plain(whole));
        }
        let whole = BufReader::with_capacity(BUFFER_BYTES, whole);
        let first = if is_gzip { Member::gzip(whole) } else { Member::zstd(whole)? };
        Ok(Self::Compressed(Members { current: Some(first) }))
    }
}

/// Reads up to `len` bytes; fewer only at the end, or where an error has ended the reading. The stream has the error after them.
pub(crate) fn peek(stream: &mut Stream, len: usize) -> std::io::Result<Vec<u8>> {
    let mut first = vec![0; len];
    let mut filled = 0;
    while let Some(room) = first.get_mut(filled..).filter(|room| !room.is_empty()) {
        match stream.read(room) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The part until then is not lost: the next read ends in the same way.
            Err(error) if filled > 0 && is_by_signal(&error) => break,
            Err(error) if filled > 0 => {
                *stream = Box::new(Broken(Some(error)));
                break;
            }
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

/// A stream that could not be read on.
struct Broken(Option<Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Compressed data without its compression.
struct Members {
    /// `None` after the last one.
    current: Option<Member>,
}

impl Members {
    /// The number of bytes that were read from the system and not yet used.
    fn unread(&self) -> u64 {
        let unread = match &self.current {
            Some(Member::Gzip(decoder)) => decoder.get_ref().buffer().len(),
            Some(Member::Zstd(decoder)) => decoder.get_ref().buffer().len(),
            None => 0,
        };
        unread as u64
    }
}

/// A member that is being read, of one kind or the other.
enum Member {
    Gzip(GzDecoder<BufReader<Stream>>),
    Zstd(zstd::Decoder<'static, BufReader<Stream>>),
}

impl Member {
    fn gzip(from: BufReader<Stream>) -> Self {
        Self::Gzip(GzDecoder::new(from))
    }

    fn zstd(from: BufReader<Stream>) -> std::io::Result<Self> {
        let mut decoder = zstd::Decoder::with_buffer(from)?.single_frame();
        decoder.window_log_max(WINDOW_LOG_MAX)?;
        Ok(Self::Zstd(decoder))
    }

    /// Reads on. Returns 0 after the end of the member.
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Gzip(decoder) => decoder.read(room),
            Self::Zstd(decoder) => decoder.read(room),
        }
    }

    /// Whether another member follows, once this one was read to its end. Padding is passed over.
    fn is_followed(&mut self) -> std::io::Result<bool> {
        let (from, is_first): (&mut BufReader<Stream>, fn(u8) -> bool) = match self {
            Self::Gzip(decoder) => (decoder.get_mut(), |byte| GZIP.starts_with(&[byte])),
            Self::Zstd(decoder) => {
                (decoder.get_mut(), |byte| ZSTD.starts_with(&[byte]) || byte >> 4 == ZSTD_SKIPPED_FIRST)
            }
        };
        loop {
            let rest = match from.fill_buf() {
                Ok(rest) => rest,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let padding = rest.iter().take_while(|byte| **byte == PADDING).count();
            match rest.get(padding) {
                Some(byte) if is_first(*byte) => {
                    from.consume(padding);
                    return Ok(true);
                }
                // Left where it is, so that the next read ends in the same way.
                Some(_) => return Err(Error::new(ErrorKind::InvalidData, AFTER_MEMBERS)),
                None if padding == 0 => return Ok(false),
                None => from.consume(padding),
            }
        }
    }

    /// The next member of the same kind, which begins where this one has ended.
    fn follower(self) -> std::io::Result<Self> {
        match self {
            Self::Gzip(decoder) => Ok(Self::gzip(decoder.into_inner())),
            Self::Zstd(decoder) => Self::zstd(decoder.into_inner()),
        }
    }
}

impl Read for Members {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        while let Some(member) = self.current.as_mut().filter(|_| !room.is_empty()) {
            let count = member.read(room)?;
            if count > 0 {
                return Ok(count);
            }
            let is_followed = member.is_followed()?;
            self.current = self.current.take().filter(|_| is_followed).map(Member::follower).transpose()?;
        }
        Ok(0)
    }
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A stream that gives one byte at a time, so that every member begins at the end of what was read.
    struct Slowly(Cursor<Vec<u8>>);

    impl Read for Slowly {
        fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
            let len = room.len().min(1);
            self.0.read(room.get_mut(..len).unwrap_or_default())
        }
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 1).unwrap()
    }

    /// The part that is read until the end, or until an error.
    fn text(parts: &[&[u8]], is_slow: bool) -> (String, Option<ErrorKind>) {
        let whole = Cursor::new(parts.concat());
        let stream: Stream = if is_slow { Box::new(Slowly(whole)) } else { Box::new(whole) };
        let mut stream = decompressed(stream).unwrap();
        let mut bytes = Vec::new();
        let error = stream.read_to_end(&mut bytes).err().map(|error| error.kind());
        // The end and an error stay what they are.
        let again = stream.read(&mut [0]);
        if error == Some(ErrorKind::InvalidData) {
            assert_eq!(again.unwrap_err().kind(), ErrorKind::InvalidData);
        } else if error.is_none() {
            assert_eq!(again.unwrap(), 0);
        }
        (String::from_utf8(bytes).unwrap(), error)
    }

    #[track_caller]
    fn check(parts: &[&[u8]], expected: &str, error: Option<ErrorKind>) {
        for is_slow in [false, true] {
            assert_eq!(text(parts, is_slow), (expected.to_owned(), error), "slow: {is_slow}");
        }
    }

    #[test]
    fn members_and_padding_are_one_stream() {
        let (one, two, none) = (gzip(b"one"), gzip(b"two"), gzip(b""));
        check(&[&one], "one", None);
        check(&[&one, &none, &two], "onetwo", None);
        check(&[&one, &[0; 700], &two, &[0]], "onetwo", None);
        let skipped = [0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, b'a', b'b', b'c'];
        let (one, two, none) = (zstd(b"one"), zstd(b"two"), zstd(b""));
        check(&[&one], "one", None);
        check(&[&skipped, &one, &none, &skipped, &two, &skipped], "onetwo", None);
        check(&[&one, &[0; 700], &two, &[0]], "onetwo", None);
        check(&[b"plain"], "plain", None);
    }

    #[test]
    fn damage_is_told_with_its_place() {
        let of = |bytes: &[u8]| soundness(Box::new(Cursor::new(bytes.to_vec()))).unwrap();
        assert_eq!(of(b"plain"), Soundness::Plain);
        for whole in [gzip(&b"x".repeat(100_000)), zstd(&b"x".repeat(100_000))] {
            assert_eq!(of(&whole), Soundness::Whole);
            let cut = whole.len() - 3;
            assert!(matches!(of(&whole[..cut]), Soundness::Damaged(at, _) if at == cut as u64));
            let followed = [&whole[..], b"x"].concat();
            assert!(matches!(of(&followed), Soundness::Damaged(at, _) if at == whole.len() as u64));
        }
        let mut flipped = gzip(b"a text that is not very long");
        flipped[12] ^= 0xff;
        assert!(matches!(of(&flipped), Soundness::Damaged(at, _) if at <= flipped.len() as u64));
    }

    #[test]
    fn what_is_no_member_is_an_error_after_all_members() {
        let invalid = Some(ErrorKind::InvalidData);
        for one in [gzip(b"one"), zstd(b"one")] {
            check(&[&one, b"x"], "one", invalid);
            check(&[&one, &[0, 0], b"x"], "one", invalid);
            let (read, error) = text(&[&one, &one[..one.len() - 1]], true);
            assert!(read.starts_with("one") && error == Some(ErrorKind::UnexpectedEof), "{read}");
        }
    }
}
