//! `OP_REPLY`, the answer to an `OP_QUERY`. It always has one document.

use bytes::BufMut;

use crate::frame::header::{HEADER_BYTES, Header, OP_REPLY};

/// The flag of an answer to a query that failed.
pub const QUERY_FAILURE: u32 = 1 << 1;
/// The flag of a server that can wait for new data of a cursor. MongoDB always sets it.
const AWAIT_CAPABLE: u32 = 1 << 3;

/// The bytes of an answer with one document.
pub fn bytes(document: &[u8], flags: u32, request_id: i32, response_to: i32) -> Vec<u8> {
    let length = HEADER_BYTES + 20 + document.len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(&Header { length, request_id, response_to, opcode: OP_REPLY }.bytes());
    bytes.put_u32_le(flags | AWAIT_CAPABLE);
    // No cursor, from the first document on, one document.
    bytes.put_i64_le(0);
    bytes.put_i32_le(0);
    bytes.put_i32_le(1);
    bytes.extend_from_slice(document);
    bytes
}
