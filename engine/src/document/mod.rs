//! One document on its way in and out: the rules of an insert, room for the values of auto-increment fields, the bytes
//! that are stored, and stored bytes as the caller's type.

pub(crate) mod complete;
pub(crate) mod decode;
pub(crate) mod draft;
pub(crate) mod field_tree;
mod length;
pub(crate) mod print;
pub(crate) mod replacement;
pub(crate) mod timestamp;
pub(crate) mod validate;
