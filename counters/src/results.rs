//! The results of inserts.

use std::collections::{BTreeMap, HashMap};

use bson::Bson;

/// The numbers that were given to a document, by the dotted paths of their fields.
pub type Generated = BTreeMap<String, i64>;

/// The result of [`insert_one_numbered`](crate::Numbered::insert_one_numbered).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InsertedOne {
    /// The `_id` of the document.
    pub inserted_id: Bson,
    /// The numbers that it was given. What it brought itself is not among them.
    pub generated: Generated,
}

/// The result of [`insert_many_numbered`](crate::Numbered::insert_many_numbered).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct InsertedMany {
    /// The `_id`s of the documents, by position in the call.
    pub inserted_ids: HashMap<usize, Bson>,
    /// The numbers that they were given, by position in the call. Documents without such numbers are left out.
    pub generated: HashMap<usize, Generated>,
}
