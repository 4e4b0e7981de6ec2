//! One document on its way in: the rules of an insert, and the final bytes with `_id` first.

pub(crate) mod build;
pub(crate) mod decode;
pub(crate) mod shell;
pub(crate) mod validate;
