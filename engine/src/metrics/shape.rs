//! The shape of a request: its fields and operators without its values, which may be secret.

use std::fmt::Write as _;

use bson::{Bson, Document};

/// The limit of a shape, in bytes. What comes after is left out.
const SHAPE_BYTES_MAX: usize = 2048;
/// The depth to which the documents of a shape are shown.
const DEPTH_MAX: usize = 20;

/// The request, in the parts that have a shape.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requested<'a> {
    pub(crate) filter: Option<&'a Document>,
    pub(crate) sort: Option<&'a Document>,
    pub(crate) pipeline: Option<&'a [Document]>,
}

impl<'a> Requested<'a> {
    /// A request that has a filter and a sort.
    pub(crate) fn search(filter: &'a Document, sort: Option<&'a Document>) -> Self {
        Self { filter: Some(filter), sort, pipeline: None }
    }

    /// The shape, as MongoDB's shell would write it. Values are `?`; lists of values, however long, are `[?]`.
    pub(crate) fn shape(&self) -> String {
        let mut shape = String::new();
        for (name, part) in [("filter", self.filter), ("sort", self.sort)] {
            if let Some(part) = part {
                begin(&mut shape, name);
                write_document(&mut shape, part, name == "sort", 0);
            }
        }
        if let Some(stages) = self.pipeline {
            begin(&mut shape, "pipeline");
            write_list(&mut shape, stages, |shape, stage| write_document(shape, stage, false, 0));
        }
        // Names can be long, so the last one may have gone beyond.
        if shape.len() > SHAPE_BYTES_MAX {
            let mut end = SHAPE_BYTES_MAX;
            // Cut within a character, it would not be a text.
            while !shape.is_char_boundary(end) {
                end -= 1;
            }
            shape.truncate(end);
            shape.push('…');
        }
        shape
    }
}

fn begin(shape: &mut String, part: &str) {
    let separator = if shape.is_empty() { "" } else { " " };
    // Writing to a text cannot fail.
    let _ = write!(shape, "{separator}{part}: ");
}

/// Whether more would be left out in any case.
fn is_full(shape: &str) -> bool {
    shape.len() > SHAPE_BYTES_MAX
}

fn write_document(shape: &mut String, document: &Document, shows_values: bool, depth: usize) {
    // A filter may be as deep as a document, and this calls itself.
    if depth > DEPTH_MAX {
        shape.push('…');
        return;
    }
    shape.push('{');
    for (at, (name, value)) in document.iter().enumerate() {
        // The rest would be cut off.
        if is_full(shape) {
            break;
        }
        let _ = write!(shape, "{}{name}: ", if at == 0 { "" } else { ", " });
        // The directions of a sort are no secret, and without them it says little.
        if let (true, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_)) = (shows_values, value) {
            let _ = write!(shape, "{value}");
        } else {
            write_value(shape, value, depth);
        }
    }
    shape.push('}');
}

fn write_list<T>(shape: &mut String, values: &[T], write: impl Fn(&mut String, &T)) {
    shape.push('[');
    for (at, value) in values.iter().enumerate() {
        if is_full(shape) {
            break;
        }
        shape.push_str(if at == 0 { "" } else { ", " });
        write(shape, value);
    }
    shape.push(']');
}

fn write_value(shape: &mut String, value: &Bson, depth: usize) {
    match value {
        Bson::Document(document) => write_document(shape, document, false, depth + 1),
        // Branches of an `$or` have a shape each; a list of values has one for all.
        Bson::Array(values) if values.iter().any(|value| value.as_document().is_some()) => {
            write_list(shape, values, |shape, value| write_value(shape, value, depth + 1));
        }
        // The number of values is not a part of the shape: it would make many of one.
        Bson::Array(_) => shape.push_str("[?]"),
        Bson::Double(_)
        | Bson::String(_)
        | Bson::Boolean(_)
        | Bson::Null
        | Bson::RegularExpression(_)
        | Bson::JavaScriptCode(_)
        | Bson::JavaScriptCodeWithScope(_)
        | Bson::Int32(_)
        | Bson::Int64(_)
        | Bson::Timestamp(_)
        | Bson::Binary(_)
        | Bson::ObjectId(_)
        | Bson::DateTime(_)
        | Bson::Symbol(_)
        | Bson::Decimal128(_)
        | Bson::Undefined
        | Bson::MaxKey
        | Bson::MinKey
        | Bson::DbPointer(_) => shape.push('?'),
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn values_are_left_out() {
        let filter = doc! {
            "name": "Ada", "age": { "$gt": 30, "$in": [1, 2, 3] }, "$or": [{ "a": 1 }, { "b": [{ "c": "secret" }] }],
        };
        let sort = doc! { "age": -1, "score": { "$meta": "secret" } };
        assert_eq!(
            Requested::search(&filter, Some(&sort)).shape(),
            "filter: {name: ?, age: {$gt: ?, $in: [?]}, $or: [{a: ?}, {b: [{c: ?}]}]} sort: {age: -1, score: {$meta: ?}}"
        );
        let pipeline =
            [doc! { "$match": { "a": 1 } }, doc! { "$group": { "_id": "$a", "n": { "$sum": 1 } } }];
        assert_eq!(
            Requested { pipeline: Some(&pipeline), ..Requested::default() }.shape(),
            "pipeline: [{$match: {a: ?}}, {$group: {_id: ?, n: {$sum: ?}}}]"
        );
    }

    #[test]
    fn a_shape_is_bounded() {
        let mut deep = doc! { "a": 1 };
        for _ in 0..100 {
            deep = doc! { "a": deep };
        }
        assert!(Requested::search(&deep, None).shape().contains('…'));
        let wide: Document = (0..10_000).map(|at| (format!("fïeld {at}"), Bson::Null)).collect();
        let shape = Requested::search(&wide, None).shape();
        assert!(shape.len() <= SHAPE_BYTES_MAX + '…'.len_utf8() && shape.ends_with('…'), "{}", shape.len());
    }
}
