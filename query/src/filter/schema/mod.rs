//! `$jsonSchema`: whether a document is valid by a schema, in MongoDB's dialect of draft 4 of JSON Schema.
//!
//! `parse` makes a tree of rules from the keywords, `tree` applies it, and `equality` defines equal values.

pub(super) mod equality;
pub(super) mod parse;
pub(super) mod tree;

#[cfg(test)]
mod tests;
