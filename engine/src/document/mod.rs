//! One document on its way in: the rules of an insert, fields that number themselves, and the
//! final bytes with `_id` first.

pub(crate) mod complete;
pub(crate) mod decode;
pub(crate) mod draft;
pub(crate) mod print;
pub(crate) mod validate;
