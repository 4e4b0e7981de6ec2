//! The length that every document starts with.

/// Bytes of a document's length: its first element starts after them.
pub(crate) const LENGTH_BYTES: usize = 4;

/// Writes the length of a document to its front.
#[inline]
pub(crate) fn write_length(document: &mut [u8]) {
    // A length over the limit of the format is rejected by the size check that follows every build.
    let length = i32::try_from(document.len()).unwrap_or(i32::MAX);
    if let Some(front) = document.first_chunk_mut::<LENGTH_BYTES>() {
        *front = length.to_le_bytes();
    }
}
