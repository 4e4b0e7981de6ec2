//! Whole numbers in documents, of either width.

use cairndb::bson::Bson;

pub(crate) fn integer(value: Option<&Bson>) -> Option<i64> {
    value?.as_i64().or_else(|| value?.as_i32().map(i64::from))
}
