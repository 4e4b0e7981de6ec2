//! Documents one after the other, as in the files of a dump and within an archive, with the offset of what is wrong.

use std::io::{ErrorKind, Read};

use index::validate::validate;

use crate::boundary::bson_len;

/// The number of bytes that are allocated before they are there: a wrong length must not cost more.
const READ_BYTES: usize = 64 << 10;

/// The reason why a dump cannot be read further.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The bytes cannot be read at all.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The bytes are not what a dump has here.
    #[error("byte {offset}: {reason}")]
    Damaged {
        /// The offset, from the beginning of the file as it was before compression.
        offset: u64,
        /// One sentence that names what is wrong.
        reason: String,
    },
}

/// The documents of a file `COLLECTION.bson`.
pub struct DocumentStream<R> {
    source: Source<R>,
}

impl<R: Read> DocumentStream<R> {
    /// Reads from the beginning of a file, which should be buffered.
    pub fn new(read: R) -> Self {
        Self { source: Source::new(read) }
    }

    /// Reads the next document in place of what `document` has. Returns whether there was one.
    pub fn next(&mut self, document: &mut Vec<u8>) -> Result<bool, DumpError> {
        let offset = self.source.offset();
        match self.source.length()? {
            None => Ok(false),
            Some(length) => self.source.document(offset, length, document).map(|()| true),
        }
    }

    /// The number of bytes that were read.
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }
}

/// A stream that knows how many bytes were read from it.
pub(crate) struct Source<R> {
    read: R,
    offset: u64,
}

impl<R: Read> Source<R> {
    pub(crate) fn new(read: R) -> Self {
        Self { read, offset: 0 }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next four bytes. Returns `None` at the end of the stream.
    pub(crate) fn length(&mut self) -> Result<Option<[u8; 4]>, DumpError> {
        let start = self.offset;
        let mut length = [0; 4];
        let mut filled = 0;
        while let Some(room) = length.get_mut(filled..).filter(|room| !room.is_empty()) {
            match self.read.read(room) {
                Ok(0) => break,
                Ok(count) => {
                    filled += count;
                    self.offset += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        match filled {
            0 => Ok(None),
            4 => Ok(Some(length)),
            _ => Err(damaged(start, "the file ends within a document")),
        }
    }

    /// Reads a document whose first four bytes were read at `start`.
    pub(crate) fn document(
        &mut self,
        start: u64,
        length: [u8; 4],
        document: &mut Vec<u8>,
    ) -> Result<(), DumpError> {
        let Some(len) = bson_len(&length) else {
            let len = i32::from_le_bytes(length);
            return Err(damaged(start, format!("{len} is not the length of a document")));
        };
        document.clear();
        document.extend_from_slice(&length);
        self.fill(document, len).map_err(|error| match error {
            DumpError::Damaged { .. } => damaged(start, "the file ends within a document"),
            DumpError::Io(error) => DumpError::Io(error),
        })?;
        // All of it is checked: a store may be asked to store it by a message that says where it ends.
        match validate(document) {
            Ok(_)
            // The store decides about limits, and names the document.
            | Err(
                index::error::Error::DocumentTooDeep { .. } | index::error::Error::DocumentTooLarge { .. },
            ) => Ok(()),
            Err(error) => Err(damaged(start, error.to_string())),
        }
    }

    /// Reads until `bytes` has `len` of them.
    fn fill(&mut self, bytes: &mut Vec<u8>, len: usize) -> Result<(), DumpError> {
        while bytes.len() < len {
            let (filled, room) = (bytes.len(), (len - bytes.len()).min(READ_BYTES));
            bytes.resize(filled + room, 0);
            let count = match self.read.read(bytes.get_mut(filled..).unwrap_or_default()) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    bytes.truncate(filled);
                    continue;
                }
                Err(error) => return Err(self.failed(error)),
            };
            bytes.truncate(filled + count);
            self.offset += count as u64;
            if count == 0 {
                return Err(damaged(self.offset, "the file ends"));
            }
        }
        Ok(())
    }

    /// A stream that ends too early, as that of a decompressor, is damaged. Everything else is the system's.
    fn failed(&self, error: std::io::Error) -> DumpError {
        let is_content = matches!(
            error.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::InvalidInput | ErrorKind::InvalidData
        );
        if is_content { damaged(self.offset, error.to_string()) } else { DumpError::Io(error) }
    }
}

pub(crate) fn damaged(offset: u64, reason: impl Into<String>) -> DumpError {
    DumpError::Damaged { offset, reason: reason.into() }
}
