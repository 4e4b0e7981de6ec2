//! Completing a document: a copy with room for the values of its auto-increment fields, in SequoiaDB's order.
//!
//! Fields that a document lacks are appended at the end of their level, ascending by name, and parents are made for
//! them; `_id` is put first. This file decides only where values go and which ones the document brings: the values
//! themselves come afterwards, all of a call in one step. Documents that are not well-formed are copied as they are,
//! for the validation that follows to reject.

use std::ops::Range;

use bson::spec::ElementType;
use index::element::{Element, elements};
use sequence::auto_increment::{Brought, Decision, Field};
use sequence::error::SequenceError;
use smallvec::SmallVec;

use crate::document::draft::{Drafts, Facts};
use crate::document::field_tree::{FieldNode, FieldTree, Surveyed};
use crate::document::length::{LENGTH_BYTES, write_length};

/// Copies of documents, with room for the values that they lack.
#[derive(Default)]
pub(crate) struct CopiedDrafts {
    pub(crate) drafts: Drafts,
    /// In the order of documents; within one, in the order of the document.
    pub(crate) values: SmallVec<[FieldValue; 2]>,
}

/// The value of one auto-increment field in one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldValue {
    /// Position of the document in its call.
    pub(crate) document: usize,
    /// Position of the field among those of the collection.
    pub(crate) field: usize,
    pub(crate) source: ValueSource,
}

/// The source of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueSource {
    /// The field's sequence: its next value is to be written at this offset of the drafts.
    Generated { offset: usize },
    /// The document. An integer is announced to the sequence.
    Explicit { integer: Option<i64> },
}

impl ValueSource {
    pub(crate) fn is_generated(self) -> bool {
        matches!(self, Self::Generated { .. })
    }
}

impl CopiedDrafts {
    /// Adds a copy of a document. One that cannot be stored is added as it is, for `prepare` to reject.
    ///
    /// # Errors
    /// What a field's mode rejects; the document is not added then.
    pub(crate) fn push<'a>(
        &mut self,
        document: &[u8],
        tree: &FieldTree,
        field: impl Fn(usize) -> &'a Field,
    ) -> Result<(), SequenceError> {
        // The rejection is not returned here: it concerns one document, and a mode's rejection the whole call.
        let Ok(surveyed) = tree.survey(document) else {
            self.drafts.push_bytes(document);
            return Ok(());
        };
        self.push_surveyed(document, surveyed, tree, field)
    }

    /// Adds a copy of a document that was validated.
    ///
    /// # Errors
    /// What a field's mode rejects; the document is not added then.
    pub(crate) fn push_surveyed<'a>(
        &mut self,
        document: &[u8],
        surveyed: Surveyed,
        tree: &FieldTree,
        field: impl Fn(usize) -> &'a Field,
    ) -> Result<(), SequenceError> {
        // Kept, so that a rejection can undo what the copier has noted until then.
        let (position, values) = (self.drafts.len(), self.values.len());
        // The most that the copy can need, so the buffer grows once at most.
        let room = document.len() + tree.room;
        let copied = self.drafts.push_with(room, |buffer| {
            let mut copier = Copier { buffer, values: &mut self.values, position, field: &field, start: 0 };
            copier.outermost(document, surveyed, tree)
        });
        if copied.is_err() {
            self.values.truncate(values);
        }
        copied
    }

    /// Whether a document brings a value of a field itself.
    pub(crate) fn brings_values(&self) -> bool {
        self.values.iter().any(|value| !value.source.is_generated())
    }
}

/// Copies one document. Recursion goes as deep as the paths of fields, whose depth is bounded.
struct Copier<'a, F> {
    buffer: &'a mut Vec<u8>,
    values: &'a mut SmallVec<[FieldValue; 2]>,
    position: usize,
    field: &'a F,
    /// The offset of the document in the buffer.
    start: usize,
}

/// Which nodes of a level the document has already.
type Present = SmallVec<[bool; 8]>;

impl<'f, F: Fn(usize) -> &'f Field> Copier<'_, F> {
    /// Writes a valid document. Returns what is known of the copy: its `_id` may have another place than the
    /// original's.
    fn outermost(
        &mut self,
        document: &[u8],
        surveyed: Surveyed,
        tree: &FieldTree,
    ) -> Result<Facts, SequenceError> {
        let Surveyed { facts, has_field_name } = surveyed;
        self.start = self.buffer.len();
        self.open();
        // First, because stored documents start with their `_id`.
        let made = self.make_id(document, tree, facts.id.as_ref());
        let made_id = made.map(|_| LENGTH_BYTES..self.buffer.len() - self.start);
        let own_id = if facts.id.is_none() && !has_field_name {
            // The common case: the document has no name of the tree, and is copied at once.
            let body = document.get(LENGTH_BYTES..document.len() - 1);
            self.buffer.extend_from_slice(body.unwrap_or_default());
            // Without the node of an `_id` that was made in front.
            let missing = tree.nodes.iter().enumerate().filter(|(at, _)| made != Some(*at));
            missing.for_each(|(_, node)| self.make(node));
            None
        } else {
            let mut present = Present::from_elem(false, tree.nodes.len());
            if let Some(at) = made {
                mark(&mut present, at);
            }
            self.level(document, tree, &mut present)?
        };
        self.close(self.start);
        // The timestamps hold for the copy: completing a document adds none.
        Ok(Facts { id: made_id.or(own_id), ..facts })
    }

    /// Makes the `_id` if it is one of the fields and the document's is absent or dropped: it comes first. One that is
    /// kept stays where it is, and is moved to the front as any other document's. Returns the position of its node.
    fn make_id(&mut self, document: &[u8], tree: &FieldTree, own: Option<&Range<usize>>) -> Option<usize> {
        let (at, node) = tree.id_node()?;
        if own.is_some() {
            let own = elements(document).find(|element| element.name == b"_id")?;
            // Whether the mode rejects this `_id` is found when the elements are copied, in their order.
            if !self.is_generated(node, &own) {
                return None;
            }
        }
        self.make(node);
        Some(at)
    }

    /// Writes the elements of a level, and after them what it lacks. Returns where an `_id` was written, counted from the
    /// start of the document.
    fn level(
        &mut self,
        document: &[u8],
        tree: &FieldTree,
        present: &mut Present,
    ) -> Result<Option<Range<usize>>, SequenceError> {
        let mut id = None;
        for element in elements(document) {
            let from = self.buffer.len() - self.start;
            match tree.node_of(&element) {
                None => self.buffer.extend_from_slice(element.whole),
                Some((at, node)) => {
                    // Dropped: a value that the document brought for a field that is always generated.
                    if !self.meet(node, &element)? {
                        continue;
                    }
                    mark(present, at);
                }
            }
            // Nested fields of that name are counted as well, but only the outermost level's range is used.
            if element.name == b"_id" {
                id = Some(from..self.buffer.len() - self.start);
            }
        }
        // Nodes are sorted by name, which is SequoiaDB's order of the fields that it appends.
        let missing = tree.nodes.iter().zip(present.iter()).filter(|(_, present)| !**present);
        missing.for_each(|(node, _)| self.make(node));
        Ok(id)
    }

    /// Writes an element at a field's path, or on the way to one. Returns whether it was kept.
    fn meet(&mut self, node: &FieldNode, element: &Element<'_>) -> Result<bool, SequenceError> {
        let Some(position) = node.field else {
            // A parent is not replaced: that would destroy what the document brought.
            if element.kind != ElementType::EmbeddedDocument {
                return Err(not_a_parent(node, element));
            }
            self.name(ElementType::EmbeddedDocument, &node.name);
            let start = self.open();
            let mut present = Present::from_elem(false, node.below.nodes.len());
            self.level(element.value, &node.below, &mut present)?;
            self.close(start);
            return Ok(true);
        };
        match (self.field)(position).decide(brought(element))? {
            // The new value comes at the end of the level, as in SequoiaDB. That of an `_id` is in front.
            Decision::Generate => Ok(false),
            // Such a value cannot move the sequence: it is not an integer.
            Decision::Keep => {
                self.buffer.extend_from_slice(element.whole);
                self.value(position, ValueSource::Explicit { integer: None });
                Ok(true)
            }
            Decision::Announce(integer) => {
                self.buffer.extend_from_slice(element.whole);
                self.value(position, ValueSource::Explicit { integer: Some(integer) });
                Ok(true)
            }
        }
    }

    /// Writes room for a field that the document lacks, with the parents that it lacks.
    fn make(&mut self, node: &FieldNode) {
        if let Some(position) = node.field {
            // Always an int64, so that the room has its size before the value is known.
            self.name(ElementType::Int64, &node.name);
            self.value(position, ValueSource::Generated { offset: self.buffer.len() });
            self.buffer.extend_from_slice(&[0; 8]);
            return;
        }
        self.name(ElementType::EmbeddedDocument, &node.name);
        let start = self.open();
        for below in &node.below.nodes {
            self.make(below);
        }
        self.close(start);
    }

    fn is_generated(&self, node: &FieldNode, own: &Element<'_>) -> bool {
        let decision = node.field.map(|position| (self.field)(position).decide(brought(own)));
        matches!(decision, Some(Ok(Decision::Generate)))
    }

    fn value(&mut self, field: usize, source: ValueSource) {
        self.values.push(FieldValue { document: self.position, field, source });
    }

    fn name(&mut self, element_type: ElementType, name: &str) {
        self.buffer.push(element_type as u8);
        self.buffer.extend_from_slice(name.as_bytes());
        self.buffer.push(0);
    }

    fn open(&mut self) -> usize {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; LENGTH_BYTES]);
        start
    }

    fn close(&mut self, start: usize) {
        self.buffer.push(0);
        write_length(self.buffer.get_mut(start..).unwrap_or_default());
    }
}

fn mark(present: &mut Present, at: usize) {
    if let Some(present) = present.get_mut(at) {
        *present = true;
    }
}

fn not_a_parent(node: &FieldNode, found: &Element<'_>) -> SequenceError {
    let mut below = node;
    // The message names a field, and any field below this parent would do.
    while let Some(first) = below.below.nodes.first() {
        below = first;
    }
    let (parent, field) = (node.path.clone(), below.path.clone());
    SequenceError::FieldParent { parent, field, found: type_name(found.kind) }
}

fn brought(element: &Element<'_>) -> Brought {
    if element.kind == ElementType::Null {
        return Brought::Null;
    }
    // By these types alone: a double is not an integer here, even if it is whole.
    let integer = if element.kind == ElementType::Int32 {
        element.value.try_into().ok().map(|bytes| i32::from_le_bytes(bytes).into())
    } else if element.kind == ElementType::Int64 {
        element.value.try_into().ok().map(i64::from_le_bytes)
    } else {
        None
    };
    integer.map_or_else(|| Brought::Other(type_name(element.kind)), Brought::Integer)
}

fn type_name(kind: ElementType) -> &'static str {
    match kind {
        ElementType::Double => "a double",
        ElementType::String => "a string",
        ElementType::EmbeddedDocument => "an embedded document",
        ElementType::Array => "an array",
        ElementType::Binary => "binary data",
        ElementType::Undefined => "undefined",
        ElementType::ObjectId => "an ObjectId",
        ElementType::Boolean => "a boolean",
        ElementType::DateTime => "a date",
        ElementType::Null => "null",
        ElementType::RegularExpression => "a regular expression",
        ElementType::DbPointer => "a DBPointer",
        ElementType::JavaScriptCode => "code",
        ElementType::Symbol => "a symbol",
        ElementType::JavaScriptCodeWithScope => "code with a scope",
        ElementType::Int32 | ElementType::Int64 => "an integer",
        ElementType::Timestamp => "a timestamp",
        ElementType::Decimal128 => "a decimal",
        ElementType::MaxKey => "the greatest key",
        ElementType::MinKey => "the least key",
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};
    use sequence::auto_increment::{FieldOptions, Generated};

    use super::*;

    fn fields(paths: &[&str], generated: Generated) -> Vec<Field> {
        let field = |path: &&str| {
            let field = Some((*path).to_owned());
            Field::create(&FieldOptions { field, generated: Some(generated), ..FieldOptions::default() })
        };
        paths.iter().map(|path| field(path).expect("an allowed path")).collect()
    }

    /// The completed document, whose values are 1, 2, 3 in the order of the document.
    fn complete(document: &RawDocumentBuf, fields: &[Field]) -> Result<RawDocumentBuf, SequenceError> {
        let tree = FieldTree::new(fields.iter().map(Field::path));
        let mut copies = CopiedDrafts::default();
        copies.push(document.as_bytes(), &tree, |position| fields.get(position).expect("a field"))?;
        let mut next = 0;
        for value in copies.values.clone() {
            if let ValueSource::Generated { offset } = value.source {
                next += 1;
                copies.drafts.write_value(offset, next);
            }
        }
        let bytes = copies.drafts.documents().next().expect("a document").to_vec();
        Ok(RawDocumentBuf::from_bytes(bytes).expect("well-formed"))
    }

    #[track_caller]
    fn check(document: &RawDocumentBuf, paths: &[&str], expected: &RawDocumentBuf) {
        let completed = complete(document, &fields(paths, Generated::Default)).expect("completed");
        assert_eq!(completed, *expected);
        index::validate::validate(completed.as_bytes()).expect("well-formed throughout");
    }

    #[test]
    fn fields_are_appended_in_the_order_of_their_names() {
        check(&rawdoc! { "x": 1 }, &["n"], &rawdoc! { "x": 1, "n": 1_i64 });
        check(&rawdoc! {}, &["b", "a"], &rawdoc! { "a": 1_i64, "b": 2_i64 });
        check(
            &rawdoc! { "a": { "cc": 2 } },
            &["a.aa", "a.bb"],
            &rawdoc! { "a": { "cc": 2, "aa": 1_i64, "bb": 2_i64 } },
        );
        check(
            &rawdoc! { "a": { "bb": { "bbb": 3 } } },
            &["a.aa", "a.bb"],
            &rawdoc! { "a": { "bb": { "bbb": 3 }, "aa": 1_i64 } },
        );
    }

    #[test]
    fn missing_parents_are_made() {
        check(&rawdoc! { "x": 1 }, &["a.b.c"], &rawdoc! { "x": 1, "a": { "b": { "c": 1_i64 } } });
        check(&rawdoc! { "a": {} }, &["a.b.c"], &rawdoc! { "a": { "b": { "c": 1_i64 } } });
    }

    #[test]
    fn a_name_with_a_dot_is_no_path() {
        check(&rawdoc! { "a.b": 5 }, &["a.b"], &rawdoc! { "a.b": 5, "a": { "b": 1_i64 } });
    }

    #[test]
    fn a_missing_id_is_put_first() {
        check(&rawdoc! { "x": 1 }, &["_id"], &rawdoc! { "_id": 1_i64, "x": 1 });
        check(&rawdoc! { "x": 1, "_id": 7 }, &["_id"], &rawdoc! { "x": 1, "_id": 7 });
        check(&rawdoc! { "x": 1 }, &["_id.n"], &rawdoc! { "_id": { "n": 1_i64 }, "x": 1 });
    }

    #[test]
    fn always_moves_the_field_to_the_end() {
        let document = rawdoc! { "n": "own", "x": 1, "n": 2 };
        let completed = complete(&document, &fields(&["n"], Generated::Always)).expect("completed");
        assert_eq!(completed, rawdoc! { "x": 1, "n": 1_i64 });
        let document = rawdoc! { "x": 1, "_id": 7 };
        let completed = complete(&document, &fields(&["_id"], Generated::Always)).expect("completed");
        assert_eq!(completed, rawdoc! { "_id": 1_i64, "x": 1 });
    }

    #[test]
    fn a_parent_that_is_no_document_is_refused_in_every_mode() {
        for (_, generated) in Generated::ALL {
            for document in [rawdoc! { "a": 1 }, rawdoc! { "a": [{ "b": 1 }] }, rawdoc! { "a": null }] {
                let error = complete(&document, &fields(&["a.b"], generated)).expect_err("refused");
                assert_eq!(error.sequoia_code(), -6);
                assert!(error.to_string().starts_with("a must be an embedded document"), "{error}");
            }
        }
    }

    #[test]
    fn what_is_not_well_formed_passes_through() {
        let mut broken = rawdoc! { "a": 1, "s": "text" }.into_bytes();
        broken.iter_mut().skip(14).take(1).for_each(|byte| *byte = 0xff);
        for bytes in [broken.as_slice(), b"", b"\x05\0\0\0", b"\x05\0\0\0\x01"] {
            let fields = fields(&["n"], Generated::Default);
            let tree = FieldTree::new(fields.iter().map(Field::path));
            let mut copies = CopiedDrafts::default();
            copies
                .push(bytes, &tree, |position| fields.get(position).expect("a field"))
                .expect("not refused");
            assert_eq!(copies.drafts.documents().collect::<Vec<_>>(), [bytes]);
            assert!(copies.values.is_empty());
        }
    }
}
